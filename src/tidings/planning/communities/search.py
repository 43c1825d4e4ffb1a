"""Ours: choose the broker of each client by who it talks to, under the limits that the published plan has.

What a seating costs is what all messages travel. Changes are drawn and taken if it falls, or if it grows by
no more than chance allows, ever less (annealing): one client goes to another broker, two exchange their
seats, or one goes home so that another may go out. Limits on moves, on the load of clusters and on that of
brokers are kept all the time. In the end each client goes where it is best, until nobody does any more.

Dropped: a price for each move across clusters, halved until as many moves were made as allowed. It had to be
searched anew for every price, and what it found for 200 clients took 2 to 10% more hops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tidings.planning.communities.base import (
    Limits,
    Seating,
    broker_most,
    cluster_most,
    mean_hops,
    slack,
    somebody,
    summed,
)
from tidings.planning.communities.bounds import within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidings.planning.communities.base import Flows, Network

STEPS_EACH, STEPS_MAX = 10_000, 8_000_000
"""Changes tried from each beginning: so many for each client, and no more than so many at all."""

HEAT, HEAT_SHORT, HEAT_LAST = 1.3, 0.3, 0.01
"""What a change may be worse by, in mean messages of a pair times the mean distance: at first; at first
where there are fewer steps for each client, who would have no time to cool down; and at last."""

ROUNDS_MAX = 20
"""Times that clients are asked in the end where they would be best; nearly all stay after three."""


@dataclass(frozen=True, slots=True)
class Point:
    """Of the frontier: so many moves, across clusters and inside, give so many hops."""

    moves: int
    hops: float
    seats: NDArray[np.int64] = field(repr=False, compare=False)
    """By client: its broker."""


def planned(
    network: Network, flows: Flows, limits: Limits, seed: int = 0, starts: Sequence[Seating] = ()
) -> Seating:
    """The best seating found within the limits; never worse than staying.

    It begins where clients are, and at other plans if some are given: one that keeps the limits is not made
    worse. Communities are those of the first such plan; it looks for none itself.
    """
    somebody(flows)
    table = _Table(network, flows, limits, seed)
    seats = table.best(table.moves_most, [one.seats for one in starts])
    first = starts[0] if starts else Seating(seats)
    return replace(first, seats=seats)


def frontier(
    network: Network, flows: Flows, limits: Limits, plan: Seating, points: int = 8, seed: int = 0
) -> list[Point]:
    """What an operator may choose from: from no moves to all that are worth anything.

    `plan` is one that `planned` made within the same limits. It is a beginning for more moves, and the best
    of its moves are one for fewer. It is a point itself, unless one is found that is better with no more
    moves: so more moves always give fewer hops, and what `taken` says is on the frontier.
    """
    somebody(flows)
    table = _Table(network, flows, limits, seed)
    groups = np.arange(len(plan.seats)) if plan.last is None else plan.last

    def point(seats: NDArray[np.int64]) -> Point:
        return Point(int((seats != network.homes).sum()), mean_hops(network, flows, seats), seats)

    # One that might move anybody is the end of the frontier.
    found = [point(plan.seats if limits.moves is None else table.best(len(flows.clients), [plan.seats]))]
    most = found[0].moves
    seats = network.homes
    for budget in sorted({round(most * part / (points - 1)) for part in range(points - 1)} - {most}):
        # What fewer moves gave is a beginning, so that more are never worse.
        some = within(network, flows, replace(limits, moves=budget), plan.seats, groups)
        seats = table.best(budget, [table.kept(budget, [seats, some])])
        found.append(point(seats))
    best: list[Point] = []
    for one in sorted([*found, point(plan.seats)], key=lambda one: (one.moves, one.hops)):
        if not best or one.hops < best[-1].hops:
            best.append(one)
    return best


def taken(network: Network, plan: Seating, points: Sequence[Point]) -> Seating:
    """Of the frontier through a plan, what is best with no more moves than it has: mostly that plan."""
    allowed = int((plan.seats != network.homes).sum())
    return replace(plan, seats=[one for one in points if one.moves <= allowed][-1].seats)


class _Table:
    """A problem in arrays. Only brokers of clusters have clients, and only they are numbered here."""

    def __init__(self, network: Network, flows: Flows, limits: Limits, seed: int) -> None:
        self.network, self.flows, self.seed = network, flows, seed
        low, high, weights = (part[flows.undirected[2] > 0] for part in flows.undirected)
        count = len(flows.clients)
        ends = np.concatenate([low, high])
        order = np.argsort(ends, kind="stable")
        self.others = np.concatenate([high, low])[order]
        self.weights = np.concatenate([weights, weights])[order]
        self.begins = np.searchsorted(ends[order], np.arange(count + 1))
        self.brokers = np.flatnonzero(network.cluster_of >= 0)
        self.number = np.full(len(network.cluster_of), -1, np.int64)
        self.number[self.brokers] = np.arange(len(self.brokers))
        self.distances = np.ascontiguousarray(network.graph.distances[np.ix_(self.brokers, self.brokers)])
        self.cluster_of = network.cluster_of[self.brokers]
        self.homes = self._numbered(network.homes)
        # A cluster that is over its share already may keep what it has; so may a broker.
        self.cluster_most = np.maximum(cluster_most(network, flows, limits), self._by_cluster(self.homes))
        self.broker_most = broker_most(network, flows, limits)[self.brokers]
        self.moves_most, self.across_most, self.inside_most = (
            count if bound is None else bound
            for bound in (limits.moves, limits.moves_across, limits.moves_inside)
        )

    def best(self, allowed: int, starts: Sequence[NDArray[np.int64]] = ()) -> NDArray[np.int64]:
        """The best seating with at most so many moves, by brokers of the network."""
        rng = np.random.default_rng(self.seed)
        found = self._kept(allowed, [self.homes, *map(self._numbered, starts)])
        found += [self._searched(seats, allowed, rng) for seats in found] if len(self.weights) else []
        best: NDArray[np.int64] = self.brokers[min(found, key=self._cost)]
        return best

    def kept(self, allowed: int, seatings: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """The best of some seatings that keeps the limits, the homes if none does; nothing is searched."""
        found = self._kept(allowed, [self.homes, *map(self._numbered, seatings)])
        best: NDArray[np.int64] = self.brokers[min(found, key=self._cost)]
        return best

    def _kept(self, allowed: int, seatings: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        return [seats for seats in seatings if self._keeps(seats, allowed)]

    def _searched(
        self, start: NDArray[np.int64], allowed: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        from tidings.planning.communities.kernels import anneal, settle

        seats = start.copy()
        fixed = (
            self.homes,
            self.cluster_of,
            self.distances,
            self.begins,
            self.others,
            self.weights,
            self.flows.sent,
            self.cluster_most,
            self.broker_most,
            allowed,
            self.across_most,
            self.inside_most,
        )
        unit = float(self.weights.mean() * self.distances.mean())
        steps = STEPS_EACH * len(seats)
        heat = unit * (HEAT if steps <= STEPS_MAX else HEAT_SHORT)
        anneal(int(rng.integers(2**62)), min(steps, STEPS_MAX), heat, HEAT_LAST * unit, seats, *fixed)
        awake = np.ones(len(seats), bool)
        for _ in range(ROUNDS_MAX):
            everybody = bool(awake.all())
            if not settle(rng.permutation(len(seats)), awake, seats, *fixed):
                if everybody:
                    break
                # What stood in somebody's way may be gone: loads and moves are not what wakes them.
                awake[:] = True
        return seats

    def _numbered(self, seats: NDArray[np.int64]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self.number[seats]
        return found

    def _cost(self, seats: NDArray[np.int64]) -> float:
        far = self.distances[seats[self.flows.senders], seats[self.flows.receivers]]
        return float(far @ self.flows.messages)

    def _by_cluster(self, seats: NDArray[np.int64]) -> NDArray[np.float64]:
        return summed(self.cluster_of[seats], self.flows.sent, len(self.network.clusters))

    def _by_broker(self, seats: NDArray[np.int64]) -> NDArray[np.float64]:
        return summed(seats, self.flows.sent, len(self.brokers))

    def _keeps(self, seats: NDArray[np.int64], allowed: int) -> bool:
        """Whether a seating is within all limits."""
        more = slack(self.flows)
        moves = int((seats != self.homes).sum())
        across = int((self.cluster_of[seats] != self.cluster_of[self.homes]).sum())
        return bool(
            moves <= allowed
            and across <= self.across_most
            and moves - across <= self.inside_most
            and (self._by_cluster(seats) <= self.cluster_most + more).all()
            and (self._by_broker(seats) <= self.broker_most + more).all()
        )
