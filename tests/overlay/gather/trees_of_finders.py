"""A tree of finders, and messages between them that arrive in any order a test likes.

The tree may change while messages are under way. What is under way over a link that is lost is lost with
it; of a change each end hears at its own time (`notice`), and what the other end says before that arrives
early.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import networkx as nx
from hypothesis import strategies as st

from tidings.overlay.gather.centre import Finder, Said
from tidings.overlay.gather.messages import AnySurveyed

STEPS_MAX = 1_000_000
"""A search that has not ended by then never does."""


DRAWN_MAX = 15
"""Brokers of a tree whose links are drawn one by one."""


class Forest:
    """Finders and what is under way between them."""

    def __init__(
        self,
        graph: nx.Graph,
        protocol: type[Finder],
        *,
        fifo: bool = True,
        loads: Mapping[str, Mapping[str, tuple[int, bool]]] | None = None,
        holders: Mapping[str, Any] | None = None,
        wanted: Mapping[str, Sequence[str]] | None = None,
        ring: int = 1,
    ) -> None:
        self.graph = nx.Graph(graph)
        self.sent: Counter[str] = Counter()
        self._fifo = fifo

        def make(name: str) -> Finder:
            return protocol(
                name,
                sorted(self.graph[name]),
                loads=(loads or {}).get(name),
                holders=(holders or {}).get(name),
                wanted=wanted,
                ring=ring,
            )

        self._make = make
        self.finders = {name: self._make(name) for name in sorted(graph)}
        self._under_way: deque[tuple[str, str, AnySurveyed]] = deque()
        self._unnoticed: deque[str] = deque()
        """Ends of links that were made or lost and have not heard of it; there may be several for one."""

    def start(self, *names: str, counter: int = 1) -> None:
        for name in names:
            self._send(name, self.finders[name].start(counter))

    def deliver_all(self, chance: random.Random | None = None, last: type[Any] | None = None) -> None:
        """Until nothing is under way and every change is noticed; with `last`, messages of that kind wait."""
        for _ in range(STEPS_MAX):
            if self._unnoticed and (not self._under_way or (chance and chance.random() < 0.1)):
                self.notice(chance)
            elif self._under_way:
                self._deliver(chance, last)
            else:
                return
        raise AssertionError("the search does not end")

    def deliver_some(self, chance: random.Random, count: int) -> None:
        for _ in range(min(count, len(self._under_way))):
            if self._under_way:
                self._deliver(chance, None)

    def notice(self, chance: random.Random | None) -> None:
        """Let a broker hear that its neighbours are others now."""
        if not self._unnoticed:
            return
        self._unnoticed.rotate(chance.randrange(len(self._unnoticed)) if chance else 0)
        name = self._unnoticed.popleft()
        if name in self.finders:
            self._send(name, self.finders[name].changed(sorted(self.graph[name])))

    # Changes.

    def cut(self, one: str, other: str) -> None:
        self.graph.remove_edge(one, other)
        self._under_way = deque(each for each in self._under_way if {*each[:2]} != {one, other})
        self._unnoticed += (one, other)

    def link(self, one: str, other: str) -> None:
        self.graph.add_edge(one, other)
        self._unnoticed += (one, other)

    def leave(self, name: str) -> None:
        for neighbour in sorted(self.graph[name]):
            self.cut(name, neighbour)
        self.graph.remove_node(name)
        del self.finders[name]

    def join(self, neighbour: str) -> None:
        """A broker that was never there before; it knows its neighbour from the start."""
        name = broker(max(int(each[1:]) for each in (*self.graph, "b0")) + 100)
        self.graph.add_edge(name, neighbour)
        self.finders[name] = self._make(name)
        self._unnoticed.append(neighbour)

    def pairs_apart(self) -> list[tuple[str, str]]:
        """Brokers that no way joins: a link between them keeps the graph without cycles."""
        parts = [sorted(part) for part in nx.connected_components(self.graph)]
        return sorted(
            (min(one, other), max(one, other))
            for left, right in combinations(sorted(parts), 2)
            for one in left
            for other in right
        )

    # Results.

    def seats(self) -> dict[tuple[str, str], str]:
        """The winners, on which all agree, and of which all know that these are all."""
        assert all(finder.done for finder in self.finders.values())
        known = [
            {pair: won.broker for pair, won in finder.winners.items()} for finder in self.finders.values()
        ]
        assert all(each == known[0] for each in known)
        return known[0]

    # Messages.

    def _send(self, source: str, said: Sequence[Said]) -> None:
        for target, body in said:
            self.sent[type(body).__name__] += 1
            # A broker that has not noticed yet speaks into a link that is gone.
            if self.graph.has_edge(source, target):
                self._under_way.append((source, target, body))

    def _deliver(self, chance: random.Random | None, last: type[Any] | None) -> None:
        at = chance.randrange(len(self._under_way)) if chance else 0
        if last is not None:
            at = next((i for i, each in enumerate(self._under_way) if not isinstance(each[2], last)), 0)
        if self._fifo:
            way = self._under_way[at][:2]
            at = next(i for i, each in enumerate(self._under_way) if each[:2] == way)
        source, target, body = self._under_way[at]
        del self._under_way[at]
        self._send(target, self.finders[target].on(source, body))


def broker(number: int) -> str:
    """A name; they do not sort as they count, so that ties are decided by more than the order of making."""
    return f"b{number}"


@st.composite
def trees(draw: st.DrawFn, most: int) -> nx.Graph:
    """Any tree up to a size: each broker is joined to an earlier one."""
    count = draw(st.integers(1, most))
    bushy = draw(st.sampled_from([1, 3, most]))
    # Small ones are drawn link by link, so that they shrink; that would take long for large ones.
    chance = random.Random(draw(st.integers(0, 2**32))) if count > DRAWN_MAX else None
    graph = nx.Graph()
    graph.add_node(broker(0))
    for at in range(1, count):
        nearest = max(0, at - bushy)
        parent = chance.randrange(nearest, at) if chance else draw(st.integers(nearest, at - 1))
        graph.add_edge(broker(parent), broker(at))
    return graph


def joined(graph: nx.Graph) -> Iterator[nx.Graph]:
    """The parts of a graph."""
    for part in nx.connected_components(graph):
        yield graph.subgraph(part)


def centres_of(graph: nx.Graph) -> list[str]:
    return sorted(nx.center(graph))


def distances(graph: nx.Graph) -> dict[str, dict[str, int]]:
    return dict(nx.all_pairs_shortest_path_length(graph))


def cost_of(far: Mapping[str, Mapping[str, int]], weights: Mapping[str, int], name: str) -> int:
    return sum(weight * far[name][other] for other, weight in weights.items())
