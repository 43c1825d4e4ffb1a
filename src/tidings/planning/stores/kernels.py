"""Votes for one topic over all targets, compiled: numbers in arrays, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def median_votes(
    distances: NDArray[np.float64],
    asking: NDArray[np.int64],
    rates: NDArray[np.float64],
    count: int,
    equal: float,
) -> NDArray[np.int64]:
    """By broker: how many targets the greedy algorithm chooses it for, so many for each target.

    `asking` are the brokers with requests, `rates` theirs. What a broker saves only falls as others are
    chosen, so that what it saved before is a bound: it is looked at again only while that bound is as high as
    the best so far.
    """
    brokers = len(distances)
    votes = np.zeros(brokers, np.int64)
    saves = np.empty(brokers)
    served = np.empty(len(asking))
    fresh = np.empty(brokers, np.bool_)
    free = np.empty(brokers, np.bool_)
    for target in range(brokers):
        whole = 0.0
        saves[:] = 0.0
        for place in range(len(asking)):
            near, rate = distances[asking[place]], rates[place]
            far = near[target]
            served[place] = far
            whole += rate * far
            for broker in range(brokers):
                saves[broker] += rate * max(far - near[broker], 0.0)
        within = equal * (whole if whole > 0.0 else 1.0)
        free[:] = True
        free[target] = False
        fresh[:] = True
        for _ in range(min(count, brokers - 1)):
            # The highest bound first: what it turns out to be spares most of the others a look.
            first = -1
            for broker in range(brokers):
                if free[broker] and (first < 0 or saves[broker] > saves[first]):
                    first = broker
            best = -1.0
            for turn in range(-1, brokers):
                broker = first if turn < 0 else turn
                if not free[broker] or saves[broker] < best - within:
                    continue
                if not fresh[broker]:
                    gain = 0.0
                    for place in range(len(asking)):
                        gain += rates[place] * max(served[place] - distances[broker, asking[place]], 0.0)
                    saves[broker] = gain
                    fresh[broker] = True
                best = max(best, saves[broker])
            chosen = -1
            for broker in range(brokers):
                if free[broker] and fresh[broker] and saves[broker] >= best - within:
                    chosen = broker
                    break
            votes[chosen] += 1
            free[chosen] = False
            fresh[:] = False
            for place in range(len(asking)):
                served[place] = min(served[place], distances[chosen, asking[place]])
    return votes
