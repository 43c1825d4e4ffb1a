"""An overlay, the tree that messages travel on it, and all distances on that tree.

The tree is the one that brokers grow: shortest paths from a root, ties to the smaller neighbour. The root is
drawn at random: the paper's tree grows from wherever subscriptions and advertisements come first (§3.2), and
a root that is itself near the centre of the overlay would make the centre look better than it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papers.agele.setting import Setting, chance
from tidings.planning import topologies
from tidings.planning.topologies import Topology

Distances = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Network:
    """Brokers are numbers here: the position of their ids, which sort as they count."""

    topology: Topology
    root: int

    parents: tuple[int, ...]
    """Of each broker the next one towards the root; -1 for the root."""

    distances: Distances
    """Links between any two brokers, on the tree."""

    @property
    def size(self) -> int:
        """How many brokers."""
        return len(self.parents)

    @property
    def ids(self) -> tuple[str, ...]:
        """The brokers' names."""
        return self.topology.ids

    def eccentricities(self) -> NDArray[np.int16]:
        """Of each broker the distance of the farthest."""
        found: NDArray[np.int16] = self.distances.max(axis=1)
        return found

    def tree(self) -> dict[str, list[str]]:
        """Of each broker its neighbours on the tree."""
        found: dict[str, list[str]] = {id_: [] for id_ in self.ids}
        for at, parent in enumerate(self.parents):
            if parent >= 0:
                found[self.ids[at]].append(self.ids[parent])
                found[self.ids[parent]].append(self.ids[at])
        return found

    def seat(self, strategy: str, weights: Sequence[int] | None = None) -> int:
        """The broker with the least eccentricity, or with the least sum of distances, which may be weighted.

        Ties go to the smaller id, after the unweighted sum where there are weights: the rules of the
        brokers, worked out here with all distances at hand.
        """
        if strategy == "centre":
            return int(np.argmin(self.eccentricities()))
        plain = self.distances.sum(axis=1, dtype=np.int64)
        if strategy == "median" or weights is None or not any(weights):
            return int(np.argmin(plain))
        cost = self.distances.astype(np.int64) @ np.asarray(weights, dtype=np.int64)
        least = np.flatnonzero(cost == cost.min())
        return int(least[np.argmin(plain[least])])


def grow(setting: Setting, seed: int, *what: object) -> Network:
    """A network by chance."""
    source = chance(seed, "network", setting.overlay, setting.brokers, *what)
    if setting.overlay == "random":
        topology = topologies.random_graph(setting.brokers, source, setting.degree)
    else:
        topology = topologies.power_law(setting.brokers, source, setting.links_each)
    return on_tree(topology, source.randrange(setting.brokers))


def on_tree(topology: Topology, root: int) -> Network:
    """A topology with the tree of one of its brokers."""
    number = {id_: at for at, id_ in enumerate(topology.ids)}
    joined = [[number[id_] for id_ in others] for others in topology.neighbours().values()]
    depth = {root: 0}
    queue = deque([root])
    while queue:
        at = queue.popleft()
        for other in joined[at]:
            if other not in depth:
                depth[other] = depth[at] + 1
                queue.append(other)
    parents = tuple(
        -1 if at == root else min(other for other in joined[at] if depth[other] < depth[at])
        for at in range(len(joined))
    )
    return Network(topology, root, parents, _distances(parents, list(depth)))


def _distances(parents: tuple[int, ...], order: list[int]) -> Distances:
    """All distances on a tree; `order` has every broker behind its parent."""
    place = {at: position for position, at in enumerate(order)}
    found = np.zeros((len(order), len(order)), dtype=np.int16)
    for position, at in enumerate(order[1:], 1):
        row = found[place[parents[at]], :position] + 1
        found[position, :position] = row
        found[:position, position] = row
    back = np.asarray([place[at] for at in range(len(order))])
    return np.ascontiguousarray(found[np.ix_(back, back)])
