"""What links and brokers would carry if every message went by itself, along the shortest ways of a graph.

That is how plans count: each copy on each link. A tree is a graph as well, with one way between two brokers,
so that the same count along a tree tells what the tree costs. Which messages there are is not known here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tidings.planning.graphs import Graph

Pairs = Mapping[tuple[str, str], float]
"""By sending and receiving broker: how many messages."""


@dataclass(frozen=True, slots=True)
class Carried:
    """Copies, by where they pass."""

    links: Mapping[tuple[str, str], float]
    """By link, its ends in the order of the graph."""

    brokers: Mapping[str, float]
    """By broker, those that begin or end there included."""

    @property
    def over_links(self) -> float:
        """All steps from a broker to the next."""
        return sum(self.links.values())


def carried(graph: Graph, between: Pairs) -> Carried:
    """All messages along shortest ways; of several the one over the lowest broker, as `Graph.towards` has it.

    >>> path = Graph.of([("a", "b", 1), ("b", "c", 1)])
    >>> found = carried(path, {("a", "c"): 2, ("c", "b"): 1})
    >>> found.links, found.brokers
    ({('a', 'b'): 2.0, ('b', 'c'): 3.0}, {'a': 2.0, 'b': 3.0, 'c': 3.0})
    """
    names, place = graph.names, graph.place
    arriving: dict[int, dict[int, float]] = defaultdict(dict)
    for (source, goal), count in between.items():
        arriving[place[goal]][place[source]] = count
    links: dict[tuple[int, int], float] = {(a, b): 0.0 for a, b, _ in graph.links}
    brokers = np.zeros(len(names))
    for target in sorted(arriving):
        towards = graph.towards(target)
        here = np.zeros(len(names))
        for sender, count in arriving[target].items():
            here[sender] = count
        # The farthest first, so that all that comes through a broker is there before it goes on.
        for at in np.argsort(-graph.distances[target], kind="stable").tolist():
            if not here[at]:
                continue
            brokers[at] += here[at]
            if at != target:
                after = towards[at]
                links[min(at, after), max(at, after)] += float(here[at])
                here[after] += here[at]
    return Carried(
        {(names[a], names[b]): count for (a, b), count in links.items()},
        dict(zip(names, brokers.tolist(), strict=True)),
    )


def added(one: Carried, other: Carried) -> Carried:
    """Both together; the other may have some of the links alone."""
    return Carried(
        {link: count + other.links.get(link, 0.0) for link, count in one.links.items()},
        {name: count + other.brokers.get(name, 0.0) for name, count in one.brokers.items()},
    )
