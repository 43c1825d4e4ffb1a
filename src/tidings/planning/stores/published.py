"""The placement for many topics as published: votes, weights, M stores, and topics assigned to them (§IV-C).

Its last step runs into dead ends: a topic's voted stores may be full, and those with room have no vote of it.
`as_printed` leaves the topic short; `repaired` takes stores without its vote, and then moves one replica of
another topic to make room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidings.planning.stores import modified
from tidings.planning.stores.base import Gain, Placement, Problem, short

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROOM = 1e-9
"""What a store may be over its capacity by, since sizes are added in any order."""

DEAD_END = "no store with room that it voted for is left; the repaired placement takes others"


def votes(problem: Problem, gain: Gain = Gain.MEDIAN) -> NDArray[np.int64]:
    """Step 1, by topic and broker; topics are independent of each other."""
    return np.array(
        [modified.votes(problem.graph, rates, problem.replicas, gain) for rates in problem.demand.rates]
    )


def selected(problem: Problem, voted: NDArray[np.int64]) -> list[int]:
    """Steps 2 and 3: the M brokers with most votes, each topic's weighted by its share of the requests."""
    return modified.by_votes(problem.demand.weights @ voted)[: problem.stores]


def as_printed(problem: Problem, voted: NDArray[np.int64]) -> Placement:
    """All four steps, as they are printed."""
    stores = selected(problem, voted)
    return _placement(problem, stores, _assigned(problem, voted, stores), voted, DEAD_END)


def repaired(problem: Problem, voted: NDArray[np.int64]) -> Placement:
    """All four steps, and whatever it takes that each topic has its replicas."""
    stores = selected(problem, voted)
    assignment = _assigned(problem, voted, stores)
    used = np.zeros(len(problem.graph.names))
    for topic, held in enumerate(assignment):
        used[list(held)] += problem.sizes[topic]
    for topic in problem.demand.by_weight:
        while len(assignment[topic]) < problem.replicas:
            if not (
                _fill(problem, topic, stores, assignment, used)
                or _swap(problem, topic, stores, assignment, used)
            ):
                break
    return _placement(problem, stores, assignment, voted)


def _assigned(problem: Problem, voted: NDArray[np.int64], stores: list[int]) -> list[list[int]]:
    """Step 4, the most requested topics first: its most voted brokers that are stores and have room."""
    used = np.zeros(len(problem.graph.names))
    found: list[list[int]] = [[] for _ in problem.demand.topics]
    among = set(stores)
    for topic in problem.demand.by_weight:
        size = problem.sizes[topic]
        for broker in modified.by_votes(voted[topic]):
            if len(found[topic]) == problem.replicas or voted[topic, broker] == 0:
                break
            if broker in among and used[broker] + size <= problem.capacity + ROOM:
                found[topic].append(broker)
                used[broker] += size
    return found


def _fill(
    problem: Problem, topic: int, stores: list[int], assignment: list[list[int]], used: NDArray[np.float64]
) -> bool:
    """One more replica, at the store with room that serves the topic best; whether there is one."""
    size = problem.sizes[topic]
    free = [at for at in stores if at not in assignment[topic] and used[at] + size <= problem.capacity + ROOM]
    if not free:
        return False
    costs = _costs_with(problem, topic, assignment[topic], free)
    best = min(zip(costs, free, strict=True))[1]
    assignment[topic].append(best)
    used[best] += size
    return True


def _swap(
    problem: Problem, topic: int, stores: list[int], assignment: list[list[int]], used: NDArray[np.float64]
) -> bool:
    """Move one replica of another topic to a store with room, and take its place; the cheapest such move."""
    size = problem.sizes[topic]
    taken = dict(zip(stores, _costs_with(problem, topic, assignment[topic], stores), strict=True))
    found: list[tuple[float, int, int, int]] = []
    for other, held in enumerate(assignment):
        moved = problem.sizes[other]
        goals = [at for at in stores if at not in held and used[at] + moved <= problem.capacity + ROOM]
        sources = [
            at
            for at in held
            if at not in assignment[topic] and used[at] - moved + size <= problem.capacity + ROOM
        ]
        if other == topic or not goals or not sources:
            continue
        (now,) = _costs_with(problem, other, held, held[:1])
        for source in sources:
            rest = [at for at in held if at != source]
            found += [
                (round(cost - now + taken[source], 9), other, source, goal)
                for cost, goal in zip(_costs_with(problem, other, rest, goals), goals, strict=True)
            ]
    if not found:
        return False
    _, other, source, goal = min(found)
    assignment[other][assignment[other].index(source)] = goal
    assignment[topic].append(source)
    used[goal] += problem.sizes[other]
    used[source] += size - problem.sizes[other]
    return True


def _costs_with(problem: Problem, topic: int, held: list[int], further: list[int]) -> list[float]:
    """What a topic costs with its replicas and one more, for each that it might be."""
    asking = np.flatnonzero(problem.demand.rates[topic])
    distances = problem.graph.distances[asking]
    far = distances[:, further]
    if held:
        far = np.minimum(far, distances[:, held].min(axis=1)[:, None])
    return [round(cost, 9) for cost in (problem.demand.rates[topic, asking] @ far).tolist()]


def _placement(
    problem: Problem,
    stores: list[int],
    assignment: list[list[int]],
    voted: NDArray[np.int64],
    why: str = "",
) -> Placement:
    kept = tuple(tuple(sorted(held)) for held in assignment)
    return Placement(tuple(stores), kept, voted, short(problem, kept, why))
