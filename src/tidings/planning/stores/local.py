"""Ours: search from a placement, by small changes to the whole of it, until none makes it cheaper.

Three changes: one replica goes to another store, two topics exchange a replica, a store with all it has goes
to a broker that is none. Each is taken if all limits still hold and the cost falls, the best of its kind
first. So the end is at least as good as the beginning, with the same number of stores, capacity and replicas.

Where a limit on load is not kept at the beginning, load above it counts more than any distance, so that the
search first brings it down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidings.planning.stores.base import Placement, Problem, cost, held, loads
from tidings.planning.stores.published import ROOM

if TYPE_CHECKING:
    from numpy.typing import NDArray

BETTER = 1e-9
"""By how much of the cost a change must be better, lest two of them follow each other for ever."""

ROUNDS_MAX = 10_000


_Moves = tuple[tuple[int, int, int], ...]
"""(topic, from, to), all at once."""


def improved(
    problem: Problem, start: Placement, *, moved_max: int | None = None, of: Placement | None = None
) -> Placement:
    """The best placement that the search finds from a beginning.

    With `moved_max` no more than so many replicas are elsewhere than in `of`, which is what runs now, or in
    the beginning: for demand that has drifted, where each replica that moves costs a copy.
    """
    search = _Search(problem, start, moved_max, start if of is None else of)
    for _ in range(ROUNDS_MAX):
        moves = search.best()
        if moves is None:
            break
        search.take(moves)
    stores = sorted({at for replicas in search.assignment for at in replicas})
    kept = [at for at in start.stores if at in set(stores)]
    ordered = (*kept, *(at for at in stores if at not in set(kept)))
    return Placement(
        tuple(ordered), tuple(tuple(sorted(one)) for one in search.assignment), start.votes, start.short
    )


class _Search:
    def __init__(self, problem: Problem, start: Placement, moved_max: int | None, of: Placement) -> None:
        self.problem = problem
        self.assignment = [list(replicas) for replicas in start.assignment]
        self.distances = problem.graph.distances
        self.rates = problem.demand.rates
        self.before = [set(replicas) for replicas in of.assignment]
        self.moved_max = moved_max
        self.costs = cost(problem, self.assignment)
        self.used = held(problem, self.assignment)
        self.loaded = np.isfinite(problem.load_max)
        self.step = BETTER * max(1.0, float(self.costs.sum()))
        # By topic and replica: what the topic costs with that replica at each broker instead; when asked.
        self.tables: dict[tuple[int, int], NDArray[np.float64]] = {}

    def best(self) -> _Moves | None:
        """The first kind of change that helps, at its best; None if none does."""
        return self._one_replica() or self._exchange() or self._whole_store()

    def take(self, moves: _Moves) -> None:
        for topic, source, goal in moves:
            replicas = self.assignment[topic]
            replicas[replicas.index(source)] = goal
        for topic in {topic for topic, _, _ in moves}:
            self.tables = {key: table for key, table in self.tables.items() if key[0] != topic}
        self.costs = cost(self.problem, self.assignment)
        self.used = held(self.problem, self.assignment)

    def _instead(self, topic: int, source: int) -> NDArray[np.float64]:
        """By broker: what a topic costs if the replica at `source` were there."""
        found = self.tables.get((topic, source))
        if found is None:
            rest = [at for at in self.assignment[topic] if at != source]
            near = self.distances[:, rest].min(axis=1) if rest else np.full(len(self.distances), np.inf)
            found = self.rates[topic] @ np.minimum(near[:, None], self.distances)
            self.tables[topic, source] = found
        return found

    def _penalty(self, moves: _Moves) -> float:
        """By how much load above the limit falls, weighed so that it outdoes all distances."""
        if not self.loaded:
            return 0.0
        then = [list(replicas) for replicas in self.assignment]
        for topic, source, goal in moves:
            then[topic][then[topic].index(source)] = goal
        above = [
            np.maximum(loads(self.problem, one) - self.problem.load_max, 0.0).sum()
            for one in (self.assignment, then)
        ]
        return float(above[0] - above[1]) * (1.0 + float(self.distances.max())) * 1e3

    def _allowed(self, moves: _Moves) -> bool:
        if self.moved_max is None:
            return True
        then = {topic: set(self.assignment[topic]) for topic, _, _ in moves}
        for topic, source, goal in moves:
            then[topic].discard(source)
            then[topic].add(goal)
        moved = sum(
            len(then.get(topic, set(replicas)) - self.before[topic])
            for topic, replicas in enumerate(self.assignment)
        )
        return moved <= self.moved_max

    def _better(self, changes: list[tuple[float, _Moves]]) -> _Moves | None:
        """The best of some changes that is allowed; they have what they save in distance."""
        if self.loaded:
            changes = [(saved + self._penalty(moves), moves) for saved, moves in changes]
        changes.sort(key=lambda change: (-round(change[0], 9), change[1]))
        for saved, moves in changes:
            if saved <= self.step:
                return None
            if self._allowed(moves):
                return moves
        return None

    @property
    def _open(self) -> NDArray[np.bool_]:
        """Brokers that may hold a replica: the stores, and any other while there may be more stores."""
        is_store = self.used > 0
        if int(is_store.sum()) < self.problem.stores:
            return np.ones(len(is_store), bool)
        found: NDArray[np.bool_] = is_store
        return found

    def _one_replica(self) -> _Moves | None:
        problem = self.problem
        found: list[tuple[float, _Moves]] = []
        for topic, replicas in enumerate(self.assignment):
            room = self._open & (self.used + problem.sizes[topic] <= problem.capacity + ROOM)
            room[replicas] = False
            goals = np.flatnonzero(room)
            for source in replicas if len(goals) else ():
                saved = self.costs[topic] - self._instead(topic, source)[goals]
                found += [
                    (float(saved[at]), ((topic, source, int(goals[at])),))
                    for at in np.flatnonzero((saved > self.step) | self.loaded)
                ]
        return self._better(found)

    def _exchange(self) -> _Moves | None:
        problem = self.problem
        found: list[tuple[float, _Moves]] = []
        count = len(self.assignment)
        for one in range(count):
            for other in range(one + 1, count):
                grown = problem.sizes[other] - problem.sizes[one]
                for here in self.assignment[one]:
                    if here in self.assignment[other] or self.used[here] + grown > problem.capacity + ROOM:
                        continue
                    for there in self.assignment[other]:
                        if (
                            there in self.assignment[one]
                            or self.used[there] - grown > problem.capacity + ROOM
                        ):
                            continue
                        saved = (
                            self.costs[one]
                            + self.costs[other]
                            - self._instead(one, here)[there]
                            - self._instead(other, there)[here]
                        )
                        if saved > self.step or self.loaded:
                            found.append((float(saved), ((one, here, there), (other, there, here))))
        return self._better(found)

    def _whole_store(self) -> _Moves | None:
        found: list[tuple[float, _Moves]] = []
        is_store = self.used > 0
        for source in np.flatnonzero(is_store).tolist():
            kept = [topic for topic, replicas in enumerate(self.assignment) if source in replicas]
            then = np.sum([self._instead(topic, source) for topic in kept], axis=0)
            saved = self.costs[kept].sum() - then
            found += [
                (float(saved[goal]), tuple((topic, source, goal) for topic in kept))
                for goal in np.flatnonzero(~is_store & ((saved > self.step) | self.loaded)).tolist()
            ]
        return self._better(found)
