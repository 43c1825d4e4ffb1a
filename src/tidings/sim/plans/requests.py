"""A plan of stores, tried: every request goes from broker to broker to the nearest store of its topic.

This is not broker code, which has no stores yet: a small walk, event by event, that knows neither distances
nor the network as a whole. Stores tell their neighbours of themselves, those tell theirs, and each broker
keeps the neighbours by which a topic is nearest; of several they take turns. So it can disagree with the
forecast, which is a sum over a table of distances.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidings.errors import InputError
from tidings.planning.graphs import Graph
from tidings.planning.plans import StoresPlan
from tidings.planning.stores import base
from tidings.sim.plans import paths
from tidings.sim.plans.trial import ALIKE, Reason

Asked = tuple[str, str]
"""A request: for which topic, at which broker."""

HERE = ""
"""Instead of a neighbour: this broker is a store itself."""


@dataclass(frozen=True, slots=True)
class Step:
    """The mean distance of a request, in one way of counting."""

    reason: Reason
    hops: float


@dataclass(frozen=True, slots=True)
class Share:
    """A part of all requests: as the plan has it, and as it was."""

    forecast: float
    measured: float


@dataclass(frozen=True, slots=True)
class StoresTrial:
    """What was seen of a plan of stores."""

    requests: int
    """That reached a store."""

    unserved: int
    """For topics that the plan keeps nowhere."""

    steps: tuple[Step, ...]
    """From the forecast to what was measured."""

    topics: Mapping[str, tuple[float, float]]
    """By topic that was asked for: mean hops, forecast and measured."""

    stores: Mapping[str, Share]
    """By store: the share of all requests that it serves."""

    links: Mapping[tuple[str, str], tuple[float, int]]
    """By link: requests that cross it, each along one shortest way, and as it was."""

    entered: Mapping[str, int]
    """By broker: requests of its own clients."""


@dataclass(slots=True)
class _Broker:
    """What a broker knows: neighbours, and by which of them each topic is nearest."""

    neighbours: Mapping[str, float]
    far: dict[str, float] = field(default_factory=dict)
    """By topic: how far the nearest store is, as it was told."""

    by: dict[str, list[str]] = field(default_factory=dict)
    """By topic: the neighbours by which it is that near, lowest first."""

    turns: Counter[str] = field(default_factory=Counter)

    def hear(self, topic: str, neighbour: str, far: float) -> bool:
        """A neighbour, or this broker itself, says how far a topic is; whether it is nearer than known."""
        known = self.far.get(topic)
        if known is not None and far > known + ALIKE:
            return False
        if known is None or far < known - ALIKE:
            self.far[topic], self.by[topic] = far, [neighbour]
            return True
        if neighbour not in self.by[topic]:
            self.by[topic].append(neighbour)
        return False

    def next(self, topic: str) -> str:
        """Where a request goes on."""
        ways = self.by[topic]
        self.turns[topic] += 1
        return ways[(self.turns[topic] - 1) % len(ways)]


def tried(plan: StoresPlan, requests: Iterable[Asked]) -> StoresTrial:
    """Send every request; InputError for one at a broker that the plan does not know."""
    graph = Graph.of(plan.network.links, plan.network.brokers)
    brokers = _advertised(plan, graph)
    entered: Counter[str] = Counter()
    asked: Counter[Asked] = Counter()
    hops: Counter[str] = Counter()
    served: Counter[str] = Counter()
    links: Counter[tuple[str, str]] = Counter()
    unserved = 0
    for topic, at in requests:
        if at not in brokers:
            raise InputError(
                f"there is a request for {topic!r} at {at!r}, which is no broker of the plan; give the "
                "requests of the network that the plan was made for, or plan again"
            )
        entered[at] += 1
        if topic not in brokers[at].by:
            unserved += 1
            continue
        asked[topic, at] += 1
        while (after := brokers[at].next(topic)) != HERE:
            hops[topic] += 1
            links[_link(graph, at, after)] += 1
            at = after
        served[at] += 1
    if not asked:
        raise InputError(
            f"there are no requests for {', '.join(plan.assignment)}, the topics of the plan; give some with "
            "--requests FILE, or a workload that has a table of requests"
        )
    return _compared(plan, graph, asked, hops, served, links, entered, unserved)


def _advertised(plan: StoresPlan, graph: Graph) -> dict[str, _Broker]:
    """Brokers that have heard of all stores."""
    brokers = {
        name: _Broker({graph.names[other]: length for other, length in around.items()})
        for name, around in zip(graph.names, graph.neighbours, strict=True)
    }
    told: deque[tuple[str, str, str, float]] = deque(
        (topic, store, HERE, 0.0) for topic, held in plan.assignment.items() for store in held
    )
    while told:
        topic, at, by, far = told.popleft()
        if brokers[at].hear(topic, by, far):
            told += [
                (topic, other, at, far + length)
                for other, length in brokers[at].neighbours.items()
                if other != by
            ]
    for broker in brokers.values():
        for ways in broker.by.values():
            ways.sort(key=lambda name: graph.place.get(name, -1))
    return brokers


def _link(graph: Graph, one: str, other: str) -> tuple[str, str]:
    return (one, other) if graph.place[one] < graph.place[other] else (other, one)


def _compared(
    plan: StoresPlan,
    graph: Graph,
    asked: Counter[Asked],
    hops: Counter[str],
    served: Counter[str],
    links: Counter[tuple[str, str]],
    entered: Counter[str],
    unserved: int,
) -> StoresTrial:
    total = asked.total()
    of_topic: Counter[str] = Counter()
    ways: Counter[tuple[str, str]] = Counter()
    lengths = 0.0
    for (topic, at), count in asked.items():
        of_topic[topic] += count
        held = [graph.place[store] for store in plan.assignment[topic]]
        nearest = int(base.serving(graph.distances, held)[graph.place[at]])
        ways[at, graph.names[nearest]] += count
        lengths += count * float(graph.distances[graph.place[at], nearest])
    alone = paths.carried(graph, ways)
    steps = [Step(Reason.FORECAST, plan.mean_hops)]
    for step in (
        Step(Reason.MESSAGES, lengths / total),
        Step(Reason.LINKS, alone.over_links / total),
        Step(Reason.MEASURED, hops.total() / total),
    ):
        if abs(step.hops - steps[-1].hops) > ALIKE or step.reason is Reason.MEASURED:
            steps.append(step)
    rates = sum(plan.forecast.loads.values())
    return StoresTrial(
        total,
        unserved,
        tuple(steps),
        {
            topic: (plan.mean_hops_by_topic[topic], hops[topic] / of_topic[topic])
            for topic in plan.assignment
            if of_topic[topic]
        },
        {
            store: Share(plan.forecast.loads[store] / rates if rates else 0.0, served[store] / total)
            for store in plan.stores
        },
        {link: (count, links[link]) for link, count in alone.links.items()},
        {name: entered[name] for name in graph.names},
    )
