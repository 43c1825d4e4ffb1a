"""The modified greedy algorithm: there is no server, so every broker is the target in turn, and each choice
is a vote for the broker that was chosen (§IV-B).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidings.planning.stores.base import Gain
from tidings.planning.stores.greedy import EQUAL, greedy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidings.planning.graphs import Graph


LARGE = 100
"""Brokers from where votes are counted by compiled code; for fewer, getting it takes longer than counting."""


def votes(
    graph: Graph, rates: NDArray[np.float64], count: int, gain: Gain = Gain.MEDIAN
) -> NDArray[np.int64]:
    """By broker: how many targets chose it, so many for each target."""
    if gain is Gain.MEDIAN and len(graph.names) >= LARGE:
        from tidings.planning.stores.kernels import median_votes

        asking = np.flatnonzero(rates)
        compiled: NDArray[np.int64] = median_votes(graph.distances, asking, rates[asking], count, EQUAL)
        return compiled
    return plain_votes(graph, rates, count, gain)


def plain_votes(
    graph: Graph, rates: NDArray[np.float64], count: int, gain: Gain = Gain.MEDIAN
) -> NDArray[np.int64]:
    """The same, target by target, as it is published."""
    found = np.zeros(len(graph.names), np.int64)
    for target in range(len(graph.names)):
        found[greedy(graph, rates, target, count, gain)] += 1
    return found


def by_votes(voted: NDArray[np.float64] | NDArray[np.int64]) -> list[int]:
    """Brokers, the most voted first; of equal ones the lowest."""
    return [int(at) for at in np.argsort(-np.round(voted.astype(float), 9), kind="stable")]
