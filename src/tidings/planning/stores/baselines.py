"""What the published placement is compared with: stores without limits, and topics dealt out by lot (§V)."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np

from tidings.planning.stores import modified
from tidings.planning.stores.base import Gain, Placement, Problem, short
from tidings.planning.stores.published import ROOM

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRIES = 100
"""Deals before a random assignment that runs out of room is mended instead of dealt anew."""


def unlimited(problem: Problem, voted: NDArray[np.int64]) -> Placement:
    """`grd opt`: each topic at the k brokers that it voted for most, whatever the capacity and the number."""
    assignment = [tuple(sorted(modified.by_votes(of_topic)[: problem.replicas])) for of_topic in voted]
    order = modified.by_votes(problem.demand.weights @ voted)
    used = {broker for held in assignment for broker in held}
    return Placement(tuple(at for at in order if at in used), tuple(assignment), voted)


def random(problem: Problem, seed: int, gain: Gain = Gain.MEDIAN) -> Placement:
    """`rnd`: M stores by the requests of all topics together, and each topic at k of them by lot."""
    together = modified.votes(problem.graph, problem.demand.rates.sum(axis=0), problem.stores, gain)
    stores = modified.by_votes(together)[: problem.stores]
    rng = Random(seed)
    for _ in range(TRIES):
        dealt = _dealt(problem, stores, rng)
        if dealt is not None:
            return Placement(tuple(stores), dealt)
    fitted = _first_fit(problem, stores)
    return Placement(tuple(stores), fitted, short=short(problem, fitted))


def _dealt(problem: Problem, stores: list[int], rng: Random) -> tuple[tuple[int, ...], ...] | None:
    used = dict.fromkeys(stores, 0.0)
    found: dict[int, tuple[int, ...]] = {}
    for topic in rng.sample(range(len(problem.sizes)), len(problem.sizes)):
        size = problem.sizes[topic]
        free = [at for at in stores if used[at] + size <= problem.capacity + ROOM]
        if len(free) < problem.replicas:
            return None
        found[topic] = tuple(sorted(rng.sample(free, problem.replicas)))
        for at in found[topic]:
            used[at] += size
    return tuple(found[topic] for topic in range(len(problem.sizes)))


def _first_fit(problem: Problem, stores: list[int]) -> tuple[tuple[int, ...], ...]:
    """The largest topics first, each at the emptiest stores: this fits whenever all sizes are the same."""
    used = dict.fromkeys(stores, 0.0)
    found: dict[int, tuple[int, ...]] = {}
    for topic in sorted(range(len(problem.sizes)), key=lambda topic: -problem.sizes[topic]):
        size = problem.sizes[topic]
        emptiest = sorted(stores, key=lambda at: used[at])[: problem.replicas]
        found[topic] = tuple(sorted(at for at in emptiest if used[at] + size <= problem.capacity + ROOM))
        for at in found[topic]:
            used[at] += size
    return tuple(found[topic] for topic in range(len(problem.sizes)))
