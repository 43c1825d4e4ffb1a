"""Ours: search from a placement, by small changes to the whole of it, until none makes it cheaper.

Three changes: one replica goes to another store, two topics exchange a replica, a store with all it has goes
to a broker that is none. Each is taken if all limits still hold and the cost falls, the best of its kind
first. So the end is at least as good as the beginning, with the same number of stores, capacity and replicas.

Where a limit on load is not kept at the beginning, load above it counts more than any distance, so that the
search first brings it down.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """A placement as a list of replicas, and what each would make its topic cost elsewhere."""

    def __init__(self, problem: Problem, start: Placement, moved_max: int | None, of: Placement) -> None:
        self.problem = problem
        self.assignment = [list(replicas) for replicas in start.assignment]
        self.before = [set(replicas) for replicas in of.assignment]
        self.moved_max = moved_max
        self.loaded = bool(np.isfinite(problem.load_max))
        pairs = [(topic, at) for topic, replicas in enumerate(self.assignment) for at in replicas]
        self.topics, self.at = (np.array(part, np.int64) for part in zip(*pairs, strict=True))
        self.keeps = np.zeros((len(self.assignment), len(problem.graph.names)), bool)
        self.keeps[self.topics, self.at] = True
        self.costs = cost(problem, self.assignment)
        self.used = held(problem, self.assignment)
        self.step = BETTER * max(1.0, float(self.costs.sum()))
        # By replica: what its topic costs with it at each broker instead.
        self.instead = np.empty((len(self.at), len(problem.graph.names)))
        for number in range(len(self.at)):
            self._look(number)

    def best(self) -> _Moves | None:
        """The first kind of change that helps, at its best; None if none does."""
        return self._one_replica() or self._exchange() or self._whole_store()

    def take(self, moves: _Moves) -> None:
        numbers = [self._number(topic, source) for topic, source, _ in moves]
        for number, (topic, source, goal) in zip(numbers, moves, strict=True):
            replicas = self.assignment[topic]
            replicas[replicas.index(source)] = goal
            self.at[number] = goal
            self.keeps[topic, source] = False
        for topic, _, goal in moves:
            self.keeps[topic, goal] = True
        for topic in {topic for topic, _, _ in moves}:
            for number in np.flatnonzero(self.topics == topic).tolist():
                self._look(number)
        self.costs = cost(self.problem, self.assignment)
        self.used = held(self.problem, self.assignment)

    def _number(self, topic: int, at: int) -> int:
        return int(np.flatnonzero((self.topics == topic) & (self.at == at))[0])

    def _look(self, number: int) -> None:
        topic, at = int(self.topics[number]), int(self.at[number])
        asking = np.flatnonzero(self.problem.demand.rates[topic])
        far = self.problem.graph.distances[asking]
        rest = [other for other in self.assignment[topic] if other != at]
        if rest:
            far = np.minimum(far, far[:, rest].min(axis=1)[:, None])
        self.instead[number] = self.problem.demand.rates[topic, asking] @ far

    def _penalty(self, moves: _Moves) -> float:
        """By how much load above the limit falls, weighed so that it outdoes all distances."""
        then = [list(replicas) for replicas in self.assignment]
        for topic, source, goal in moves:
            then[topic][then[topic].index(source)] = goal
        above = [
            np.maximum(loads(self.problem, one) - self.problem.load_max, 0.0).sum()
            for one in (self.assignment, then)
        ]
        return float(above[0] - above[1]) * (1.0 + float(self.problem.graph.distances.max())) * 1e3

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

    def _better(self, saved: NDArray[np.float64], moves: Callable[[int], _Moves]) -> _Moves | None:
        """The best of some changes that is allowed, by what each saves in distance and in load."""
        if self.loaded:
            saved = saved + [self._penalty(moves(number)) for number in range(len(saved))]
        good = np.flatnonzero(saved > self.step)
        # Changes are in the order of their numbers, and of equally good ones the first is taken.
        for number in good[np.argsort(-np.round(saved[good], 9), kind="stable")].tolist():
            if self._allowed(moves(number)):
                return moves(number)
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
        sizes = self.problem.sizes[self.topics]
        room = self._open & (self.used + sizes[:, None] <= self.problem.capacity + ROOM)
        saved = self.costs[self.topics][:, None] - self.instead
        wanted = room & ~self.keeps[self.topics] & ((saved > self.step) | self.loaded)
        numbers, goals = np.nonzero(wanted)
        return self._better(
            saved[numbers, goals],
            lambda one: ((int(self.topics[numbers[one]]), int(self.at[numbers[one]]), int(goals[one])),),
        )

    def _exchange(self) -> _Moves | None:
        topics, at, most = self.topics, self.at, self.problem.capacity + ROOM
        alone = self.costs[topics][:, None] - self.instead[:, at]
        saved = alone + alone.T
        sizes = self.problem.sizes[topics]
        grown = sizes[None, :] - sizes[:, None]
        fits = (self.used[at][:, None] + grown <= most) & (self.used[at][None, :] - grown <= most)
        apart = ~self.keeps[topics][:, at]
        wanted = (topics[:, None] < topics[None, :]) & apart & apart.T & fits
        ones, others = np.nonzero(wanted & ((saved > self.step) | self.loaded))

        def moves(number: int) -> _Moves:
            one, other = ones[number], others[number]
            here, there = int(at[one]), int(at[other])
            return (int(topics[one]), here, there), (int(topics[other]), there, here)

        return self._better(saved[ones, others], moves)

    def _whole_store(self) -> _Moves | None:
        is_store = self.used > 0
        sources = np.flatnonzero(is_store)
        saved = np.array(
            [
                (self.costs[self.topics[self.at == source]][:, None] - self.instead[self.at == source]).sum(
                    axis=0
                )
                for source in sources
            ]
        )
        places, goals = np.nonzero(~is_store & ((saved > self.step) | self.loaded))

        def moves(number: int) -> _Moves:
            source, goal = int(sources[places[number]]), int(goals[number])
            kept = np.flatnonzero(self.keeps[:, source]).tolist()
            return tuple((topic, source, goal) for topic in kept)

        return self._better(saved[places, goals], moves)
