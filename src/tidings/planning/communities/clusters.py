"""Clusters of brokers from how far they are from each other, for a network that declares none.

Every broker begins as a cluster. Of all clusters that are linked, those two whose brokers are nearest to each
other on average are joined, until there are as many as asked for: so each is in one piece, and brokers that
share a site are together before anything is joined across the sea. Where nobody says how many, it is the
number whose clusters are most apart: the largest mean silhouette (Rousseeuw 1987), which compares how far a
broker is from its own cluster with how far it is from the next one.

Nothing here knows traffic. Where clients are matters only for the backbone: a broker without clients that
joins clusters is of it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from tidings.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidings.planning.graphs import Graph

COUNT_MAX = 50
"""The most clusters that are tried where nobody says how many."""


def derived(graph: Graph, count: int | None, seated: Collection[str] | None = None) -> dict[str, str]:
    """By broker: its cluster, which has the name of its lowest broker; empty for one of the backbone.

    Lengths of links are what near means, so give delays. `count` is how many clusters there are to be, None
    for as many as are most apart. `seated` are the brokers that have clients: any other one with a link to
    another cluster is of the backbone, if what is left of its own is in one piece. Without `seated` every
    broker is in a cluster, since a client may be connected to any.
    """
    brokers = len(graph.names)
    if count is not None and not 1 <= count <= brokers:
        raise InputError(f"there are to be {count} clusters of {brokers} brokers; give 1 to {brokers}")
    if unknown := sorted(set(seated or ()) - set(graph.names)):
        raise InputError(f"clients are said to be at {unknown[0]!r}, which is no broker of the network")
    joins = _joins(graph)
    numbers = _after(joins, brokers, _most_apart(graph, joins) if count is None else count)
    found = [graph.names[at] for at in numbers.tolist()]
    if seated is not None:
        _leave_backbone(graph, numbers, set(seated))
        found = [name if at >= 0 else "" for name, at in zip(found, numbers.tolist(), strict=True)]
    return dict(zip(graph.names, found, strict=True))


def _joins(graph: Graph) -> list[tuple[int, int]]:
    """Clusters by their lowest broker, in the order in which they are joined: the lower takes the higher.

    Of equally near pairs the one with fewer brokers is joined, then the lowest: on a plain grid or chain
    clusters grow alike.
    """
    apart = graph.distances.copy()
    sizes = [1] * len(graph.names)
    linked = [set(around) for around in graph.neighbours]
    alive = [True] * len(graph.names)

    def near(a: int, b: int) -> tuple[float, int, int, int]:
        low, high = min(a, b), max(a, b)
        mean = float(apart[low, high]) / (sizes[low] * sizes[high])
        return round(mean, 9), sizes[low] + sizes[high], low, high

    waiting = [near(a, b) for a, b, _ in graph.links]
    heapq.heapify(waiting)
    found = []
    while waiting:
        entry = heapq.heappop(waiting)
        low, high = entry[2:]
        # An entry from before one of the two grew is passed over; the grown pair has its own.
        if not (alive[low] and alive[high]) or near(low, high) != entry:
            continue
        found.append((low, high))
        alive[high] = False
        sizes[low] += sizes[high]
        apart[low] += apart[high]
        apart[:, low] = apart[low]
        linked[low] = {at for at in linked[low] | linked[high] if at not in (low, high)}
        for other in sorted(linked[low]):
            linked[other] = linked[other] - {high} | {low}
            heapq.heappush(waiting, near(low, other))
    return found


def _after(joins: list[tuple[int, int]], brokers: int, count: int) -> NDArray[np.int64]:
    """By broker: the lowest of its cluster, once so many clusters are left."""
    found = np.arange(brokers)
    for low, high in joins[: brokers - count]:
        found[found == high] = low
    return found


def _most_apart(graph: Graph, joins: list[tuple[int, int]]) -> int:
    brokers = len(graph.names)
    tried = range(2, min(brokers // 2, COUNT_MAX) + 1)
    worth = [
        (round(_silhouette(graph.distances, _after(joins, brokers, count)), 9), -count) for count in tried
    ]
    return -max(worth)[1] if worth else 1


def _silhouette(distances: NDArray[np.float64], numbers: NDArray[np.int64]) -> float:
    """How much nearer brokers are to their own cluster than to the next, on average, from -1 to 1."""
    names, of = np.unique(numbers, return_inverse=True)
    member = np.zeros((len(names), len(numbers)))
    member[of, np.arange(len(numbers))] = 1.0
    sizes = member.sum(axis=1)
    sums = distances @ member.T
    every = np.arange(len(numbers))
    own = sums[every, of] / np.maximum(sizes[of] - 1, 1.0)
    others = sums / sizes
    others[every, of] = math.inf
    next_one = others.min(axis=1)
    found = (next_one - own) / np.maximum(np.maximum(own, next_one), 1e-300)
    return float(np.where(sizes[of] > 1, found, 0.0).mean())


def _leave_backbone(graph: Graph, numbers: NDArray[np.int64], seated: set[str]) -> None:
    """Take brokers that only join clusters out of theirs, the lowest first; `numbers` gets -1."""
    declared = numbers.copy()
    for at, name in enumerate(graph.names):
        joins = any(declared[other] != declared[at] for other in graph.neighbours[at])
        rest = {other for other in np.flatnonzero(numbers == declared[at]).tolist() if other != at}
        if name not in seated and joins and rest and _in_one_piece(graph, rest):
            numbers[at] = -1


def _in_one_piece(graph: Graph, brokers: set[int]) -> bool:
    waiting = [min(brokers)]
    reached = set(waiting)
    while waiting:
        for other in graph.neighbours[waiting.pop()]:
            if other in brokers and other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached == brokers
