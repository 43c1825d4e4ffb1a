"""What the planners of stores share: the demand, the limits, a placement, and what it costs.

A topic is kept at k brokers, its replicas; a broker that keeps any is a store. A request goes to the nearest
replica of its topic, at no distance if it is on the spot. A placement's cost is the sum of rate times
distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tidings.errors import InputError
from tidings.planning.graphs import Graph, in_order

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Gain(StrEnum):
    """What a store is taken to save, when the greedy algorithm looks for the next one."""

    MEDIAN = "median"
    """A request goes to the nearest of the target and the stores chosen so far."""

    PATH = "path"
    """A request goes to the target, and is served by the first store on its way."""

    STATIC = "static"
    """As on the way, but each store as if it were the only one."""


@dataclass(frozen=True, eq=False)
class Demand:
    """Requests per second for each topic at each broker."""

    topics: tuple[str, ...]
    rates: NDArray[np.float64]
    """By topic and broker."""

    @classmethod
    def of(cls, graph: Graph, rates: Iterable[tuple[str, str, float]]) -> Demand:
        """From (topic, broker, rate); what is named twice is added up. InputError for what cannot be."""
        found: dict[str, dict[str, float]] = {}
        for topic, broker, rate in rates:
            if broker not in graph.place:
                raise InputError(
                    f"there are requests for {topic!r} at {broker!r}, which is no broker of the network; add "
                    "its links, or leave the line out"
                )
            if not (math.isfinite(rate) and rate >= 0):
                raise InputError(
                    f"the rate of {topic!r} at {broker!r} is {rate}; rates are numbers from 0 up, per second"
                )
            of_topic = found.setdefault(topic, {})
            of_topic[broker] = of_topic.get(broker, 0.0) + rate
        if not found:
            raise InputError("nobody requests anything; give at least one rate: topic,broker,rate")
        topics = tuple(in_order(found))
        table = np.zeros((len(topics), len(graph.names)))
        for row, topic in enumerate(topics):
            for broker, rate in found[topic].items():
                table[row, graph.place[broker]] = rate
        return cls(topics, table)

    @cached_property
    def totals(self) -> NDArray[np.float64]:
        """Of each topic at all brokers."""
        found: NDArray[np.float64] = self.rates.sum(axis=1)
        return found

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Of each topic: its share of all requests; equal shares if there are none."""
        total = self.totals.sum()
        if total == 0:
            return np.full(len(self.topics), 1 / len(self.topics))
        found: NDArray[np.float64] = self.totals / total
        return found

    @cached_property
    def by_weight(self) -> list[int]:
        """Topics, the most requested first; of equal ones the lowest."""
        return sorted(range(len(self.topics)), key=lambda topic: (-self.totals[topic], topic))


@dataclass(frozen=True, eq=False)
class Problem:
    """What is asked for."""

    graph: Graph
    demand: Demand
    replicas: int
    """Of each topic: k."""

    capacity: float
    """Of each store: SC, in topics, or in whatever `sizes` are in."""

    stores: int
    """How many there may be: M."""

    sizes: NDArray[np.float64]
    """Of each topic; 1 for all if none is given, as published."""

    load_max: float = math.inf
    """Requests per second that a store may have to serve."""

    @classmethod
    def of(
        cls,
        graph: Graph,
        demand: Demand,
        replicas: int,
        capacity: float,
        stores: int | None = None,
        sizes: Mapping[str, float] | None = None,
        load_max: float = math.inf,
    ) -> Problem:
        """Checked: InputError says what would make it possible."""
        brokers, topics = len(graph.names), len(demand.topics)
        if replicas < 1:
            raise InputError(f"each topic is to have {replicas} replicas; give at least 1")
        if replicas > brokers:
            raise InputError(
                f"each topic is to have {replicas} replicas, and there are {brokers} brokers; at most one "
                f"replica of a topic is at a broker, so give at most {brokers}"
            )
        if not (math.isfinite(capacity) and capacity > 0):
            raise InputError(f"the capacity of a store is {capacity}; give a number above 0")
        if not load_max > 0:
            raise InputError(f"a store may serve {load_max} requests per second; give a number above 0")
        size = np.ones(topics)
        for name, value in (sizes or {}).items():
            if name not in demand.topics:
                raise InputError(f"a size is given for {name!r}, which nobody requests; leave it out")
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"the size of {name!r} is {value}; sizes are numbers above 0")
            size[demand.topics.index(name)] = value
        missing = [name for name in demand.topics if sizes is not None and name not in sizes]
        if missing:
            raise InputError(
                f"{len(missing):,} of {topics:,} topics have no size, {missing[0]!r} first; give one for "
                "each topic that is requested, or none at all"
            )
        if size.max() > capacity:
            largest = demand.topics[int(size.argmax())]
            raise InputError(
                f"a store holds {capacity:g}, and {largest!r} alone has {size.max():g}; give stores more "
                "capacity"
            )
        least = max(replicas, _fewest(size, replicas, capacity))
        if stores is None:
            stores = least
        if stores < replicas:
            raise InputError(
                f"{stores} stores cannot hold {replicas} replicas of a topic, one each; give at least "
                f"{replicas} stores, or fewer replicas"
            )
        if stores < least:
            raise InputError(
                f"{stores} stores of {capacity:g} each cannot hold {replicas} replicas of {size.sum():g}; "
                f"give at least {least} stores, or more capacity, or fewer replicas"
            )
        if least > brokers:
            raise InputError(
                f"{least} stores of {capacity:g} each would be needed for {replicas} replicas of "
                f"{size.sum():g}, and there are {brokers} brokers; give more capacity, or fewer replicas"
            )
        if stores > brokers:
            raise InputError(f"there are to be {stores} stores at {brokers} brokers; give at most {brokers}")
        total = float(demand.totals.sum())
        if stores * load_max < total * (1 - 1e-9):
            raise InputError(
                f"{stores} stores that serve {load_max:g} requests per second each cannot serve {total:g}; "
                "allow more stores, or more load"
            )
        topic, broker = divmod(int(demand.rates.argmax()), brokers)
        most = float(demand.rates[topic, broker])
        if most > load_max * (1 + 1e-9):
            raise InputError(
                f"{most:g} requests per second for {demand.topics[topic]!r} enter at {graph.names[broker]!r} "
                f"and go to one store, which may serve {load_max:g}; allow {most:g} or more"
            )
        return cls(graph, demand, replicas, capacity, stores, size, load_max)


@dataclass(frozen=True, eq=False)
class Placement:
    """Which topics are kept where."""

    stores: tuple[int, ...]
    """Brokers that are stores, the most voted first."""

    assignment: tuple[tuple[int, ...], ...]
    """By topic: its replicas, lowest first."""

    votes: NDArray[np.int64] | None = None
    """By topic and broker: how often the greedy algorithm chose it, over all targets."""

    short: Mapping[int, str] = field(default_factory=dict)
    """Topics that have fewer replicas than were asked for, and why."""


def _fewest(sizes: NDArray[np.float64], replicas: int, capacity: float) -> int:
    """Stores below which room is missing for certain.

    Where all topics are of one size, as many as are enough: a store holds whole topics. Where they are not,
    what they come to together; how they fit into stores is then for the planner to find out.
    """
    if sizes.min() == sizes.max():
        each = math.floor(round(capacity / float(sizes[0]), 9))
        return -(-len(sizes) * replicas // each)
    return math.ceil(round(float(sizes.sum()) * replicas / capacity, 9))


def short(problem: Problem, assignment: Sequence[Sequence[int]], why: str = "") -> dict[int, str]:
    """Topics that have fewer replicas than were asked for, and the way out; for want of room if not said."""
    more = f"{problem.stores + 1} stores or more, " if problem.stores < len(problem.graph.names) else ""
    why = why or f"no store with room is left for it; allow {more}more capacity, or fewer replicas"
    return {
        topic: f"{len(kept)} of {problem.replicas} replicas: {why}"
        for topic, kept in enumerate(assignment)
        if len(kept) < problem.replicas
    }


def fitted(problem: Problem, place: Callable[[Problem], Placement]) -> tuple[Problem, Placement]:
    """The same with as many stores more as it takes that no topic is short, the fewest; all brokers at most.

    Topics of different sizes may not fit into as many stores as hold them together.
    """
    placed = place(problem)
    while placed.short and problem.stores < len(problem.graph.names):
        problem = replace(problem, stores=problem.stores + 1)
        placed = place(problem)
    return problem, placed


def serving(distances: NDArray[np.float64], replicas: Sequence[int]) -> NDArray[np.int64]:
    """By broker: the replica that serves it, the nearest; the lowest of equally near ones."""
    held = np.array(sorted(replicas), dtype=np.int64)
    found: NDArray[np.int64] = held[distances[:, held].argmin(axis=1)]
    return found


def cost(problem: Problem, assignment: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """By topic: rate times distance, summed over brokers; nothing for a topic that is kept nowhere."""
    distances = problem.graph.distances
    return np.array(
        [
            float(rates @ distances[:, list(held)].min(axis=1)) if held else 0.0
            for rates, held in zip(problem.demand.rates, assignment, strict=True)
        ]
    )


def served(problem: Problem, assignment: Sequence[Sequence[int]]) -> float:
    """The share of requests whose topic is kept anywhere; all if there are no requests."""
    total = float(problem.demand.totals.sum())
    return _served(problem, assignment) / total if total else 1.0


def mean_distance(problem: Problem, assignment: Sequence[Sequence[int]]) -> float:
    """Of a request that is served, of any topic; those for topics that are kept nowhere are left out."""
    total = _served(problem, assignment)
    return float(cost(problem, assignment).sum()) / total if total else 0.0


def mean_distances(problem: Problem, assignment: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Of a request of each topic; 0 where there are none, NaN for a topic that is kept nowhere."""
    totals = problem.demand.totals
    found: NDArray[np.float64] = cost(problem, assignment) / np.where(totals == 0, 1.0, totals)
    found[[not kept for kept in assignment]] = math.nan
    return found


def _served(problem: Problem, assignment: Sequence[Sequence[int]]) -> float:
    return float(problem.demand.totals[[bool(kept) for kept in assignment]].sum())


def held(problem: Problem, assignment: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """By broker: how much of its capacity is used."""
    used = np.zeros(len(problem.graph.names))
    for size, replicas in zip(problem.sizes, assignment, strict=True):
        used[list(replicas)] += size
    return used


def loads(problem: Problem, assignment: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """By broker: requests per second that it serves."""
    found = np.zeros(len(problem.graph.names))
    for rates, replicas in zip(problem.demand.rates, assignment, strict=True):
        if replicas:
            np.add.at(found, serving(problem.graph.distances, replicas), rates)
    return found
