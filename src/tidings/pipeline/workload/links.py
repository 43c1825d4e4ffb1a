"""Links between brokers: an overlay of one of several kinds, always connected. Made on the driver.

The time over a link, one way, is half of the distance of its ends. What lies apart is joined by the shortest
links there are: those of the minimum spanning tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.workload import brokers
from tidings.records import workload as tables
from tidings.workload import hashing, topologies
from tidings.workload.embedding import distances
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

ALL = "all_links"
"""The lookup, which is the table."""

DELAY_MIN_MS = 0.01
"""Two brokers in one place still have a wire between them."""

Pair = tuple[int, int]
"""Numbers of two brokers, the smaller first."""


def table(model: Model) -> pa.Table:
    """The table: links in the order of their ends."""
    import pyarrow as pa

    _, points = brokers.points(model)
    pairs = np.array(sorted(joined(model, points)), np.int64).reshape(-1, 2)
    delays = np.maximum(distances(points[pairs[:, 0]], points[pairs[:, 1]]) / 2, DELAY_MIN_MS)
    names = [pa.array([brokers.name(number) for number in ends], pa.string()) for ends in pairs.T]
    return pa.table([*names, pa.array(delays)], schema=tables.schemas((), ())[tables.LINKS])


def joined(model: Model, points: NDArray[np.float64]) -> set[Pair]:
    """The links of a model, by the numbers of brokers."""
    return OVERLAYS[model.spec.links.overlay](model, points)


def nearest(model: Model, points: NDArray[np.float64]) -> set[Pair]:
    """Each with its nearest, then with its second nearest, and so on up to the degree on average."""
    from scipy.spatial import cKDTree

    count = len(points)
    degree = min(count - 1, model.spec.links.degree)
    if not degree:
        return set()
    far, found = cKDTree(points).query(points, k=degree + 1)
    ranked = []
    for broker, (lengths, near) in enumerate(zip(far.tolist(), found.tolist(), strict=True)):
        # Where several are in one place, a broker may come behind others, or not at all.
        others = [(length, other) for length, other in zip(lengths, near, strict=True) if other != broker]
        ranked += [
            (rank, length, _pair(broker, other)) for rank, (length, other) in enumerate(others[:degree])
        ]
    pairs: set[Pair] = set()
    for _, _, pair in sorted(ranked):
        if 2 * len(pairs) >= count * degree:
            break
        pairs.add(pair)
    return connected(pairs, points)


def tree(_: Model, points: NDArray[np.float64]) -> set[Pair]:
    """A minimum spanning tree."""
    return set(_spanning(points))


def random(model: Model, points: NDArray[np.float64]) -> set[Pair]:
    """A random tree, and random links until brokers have the degree on average."""
    count = len(points)
    key = hashing.key(model.spec.seed, tables.LINKS, "random")
    order = _shuffled(model, count)
    found = {
        _pair(order[place], order[int(hashing.below(hashing.draw(key, 0, place), place))])
        for place in range(1, count)
    }
    wanted = min(count * (count - 1) // 2, max(len(found), count * model.spec.links.degree // 2))
    if wanted == count * (count - 1) // 2:
        return {(a, b) for b in range(count) for a in range(b)}
    tried = 1
    while len(found) < wanted:
        ends = hashing.below(hashing.draw(key, tried, np.arange(4 * wanted)), count * count)
        for end in ends.tolist():
            if end // count != end % count and len(found) < wanted:
                found.add(_pair(end // count, end % count))
        tried += 1
    return found


def power_law(model: Model, points: NDArray[np.float64]) -> set[Pair]:
    """Each links to half of the degree of those before it, the likelier the more links they have.

    Barabási and Albert, 1999; the brokers come in a random order.
    """
    count = len(points)
    key = hashing.key(model.spec.seed, tables.LINKS, "power-law")
    order = _shuffled(model, count)
    found: set[Pair] = set()
    ends: list[int] = []
    for place in range(1, count):
        # Half of an odd degree is now one more, now one less.
        each = max(1, (model.spec.links.degree + place % 2) // 2)
        targets: dict[int, None] = {}
        tried = 0
        while len(targets) < min(each, place):
            drawn = hashing.draw(key, place, tried)
            # Now and then evenly, so that all are found when all are wanted.
            among = ends if ends and tried % 16 < 15 else range(place)
            targets[among[int(hashing.below(drawn, len(among)))]] = None
            tried += 1
        for target in targets:
            found.add(_pair(order[place], order[target]))
            ends += (place, target)
    return found


def topohub(model: Model, points: NDArray[np.float64]) -> set[Pair]:
    """A topology that was drawn from a real network, or as much of it as there are brokers.

    Its nodes are taken breadth first from the one with the most links, and brokers in the order of their
    distance from the most central one, so that neighbours there tend to be near each other here.
    """
    nodes, edges = topologies.named(model.spec.links.topology)
    count = len(points)
    neighbours: dict[int, set[int]] = {node: set() for node in nodes}
    for a, b in edges:
        neighbours[a].add(b)
        neighbours[b].add(a)
    order = _breadth_first(neighbours)[:count]
    place = dict(zip(order, _outwards(points), strict=True))
    pairs = {_pair(place[a], place[b]) for a, b in edges if a in place and b in place and a != b}
    return connected(pairs, points)


OVERLAYS: Mapping[str, Callable[[Model, NDArray[np.float64]], set[Pair]]] = {
    "nearest": nearest,
    "tree": tree,
    "random": random,
    "power-law": power_law,
    "topohub": topohub,
}
"""By the word in the spec."""


def connected(pairs: set[Pair], points: NDArray[np.float64]) -> set[Pair]:
    """The pairs, and the shortest ones that join what they leave apart."""
    above = list(range(len(points)))

    def top(broker: int) -> int:
        while above[broker] != broker:
            above[broker] = above[above[broker]]
            broker = above[broker]
        return broker

    def joins(pair: Pair) -> bool:
        one, other = sorted(map(top, pair))
        above[other] = one
        return one != other

    apart = len(points) - sum(map(joins, pairs))
    if apart == 1:
        return pairs
    return pairs | {pair for pair in _spanning(points) if joins(pair)}


def _spanning(points: NDArray[np.float64]) -> list[Pair]:
    """A minimum spanning tree, its links by length. Prim's method: the nearest to the tree joins it next."""
    count = len(points)
    found: list[tuple[float, Pair]] = []
    far = np.full(count, np.inf)
    via = np.zeros(count, np.int64)
    outside = np.ones(count, bool)
    last = 0
    for _ in range(count - 1):
        outside[last] = False
        from_last = distances(points, points[last])
        closer = from_last < far
        far[closer] = from_last[closer]
        via[closer] = last
        last = int(np.where(outside, far, np.inf).argmin())
        found.append((float(far[last]), _pair(int(via[last]), last)))
    return [pair for _, pair in sorted(found)]


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def _shuffled(model: Model, count: int) -> list[int]:
    numbers = np.arange(count)
    drawn = hashing.draw(hashing.key(model.spec.seed, tables.LINKS, "order"), numbers)
    order: list[int] = np.lexsort((numbers, drawn)).tolist()
    return order


def _outwards(points: NDArray[np.float64]) -> list[int]:
    """All brokers by their distance from the one that is nearest to the middle."""
    middle = int(distances(points, np.median(points, axis=0)).argmin())
    order: list[int] = np.argsort(distances(points, points[middle]), kind="stable").tolist()
    return order


def _breadth_first(neighbours: Mapping[int, Iterable[int]]) -> list[int]:
    by_links = sorted(neighbours, key=lambda node: (-len(list(neighbours[node])), node))
    found: dict[int, None] = {}
    for start in by_links:
        waiting = [start] if start not in found else []
        while waiting:
            found.update(dict.fromkeys(waiting))
            beyond = [other for node in waiting for other in sorted(neighbours[node]) if other not in found]
            waiting = list(dict.fromkeys(beyond))
    return list(found)


def _lookups(model: Model) -> Mapping[str, pa.Table]:
    return {ALL: table(model)}


def _make(frames: Frames, _: Model) -> DataFrame:
    return frames[ALL]


STAGE = Stage(
    table=tables.LINKS,
    says="links: an overlay over the brokers, and the time over each link",
    reads=(tables.BROKERS,),
    lookups=_lookups,
    make=_make,
)
