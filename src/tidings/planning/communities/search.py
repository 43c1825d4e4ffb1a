"""Ours: choose the broker of each client by who it talks to, under the limits that the published plan has.

A client's pull to a broker is what its messages would travel were it there, everybody else staying. Clients
are taken in turn, in an order that is drawn, and each goes where the pull is strongest and the limits allow;
a move to another cluster pays a price, so that few moves are made and each is worth it. At first a client may
also go where it is worse for itself, ever more seldom (annealing). The price that just keeps the allowed
number of moves is found by halving; a row of prices gives the frontier of moves against hops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from tidings.planning.communities.base import Limits, Seating, mean_hops, moved, summed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidings.planning.communities.base import Flows, Network

SWEEPS = 24
"""Times that every client is taken; with heat during the first half."""

HALVINGS = 10
"""Prices tried until the number of moves is as allowed."""


@dataclass(frozen=True, slots=True)
class Point:
    """Of the frontier: so many moves across clusters give so many hops."""

    moves: int
    hops: float


def planned(
    network: Network, flows: Flows, limits: Limits, seed: int = 0, starts: Sequence[Seating] = ()
) -> Seating:
    """The best seating found within the limits; never worse than staying.

    It begins where clients are, and at other plans if some are given: one that keeps the limits is not made
    worse. Communities are those of the first such plan; it looks for none itself.
    """
    table = _Table(network, flows, limits, seed, [one.seats for one in starts])
    seats = table.at_price(0.0)
    allowed = len(flows.clients) if limits.moves is None else limits.moves
    if len(moved(network, seats)[0]) > allowed:
        seats = table.within(allowed)
    first = starts[0] if starts else Seating(seats)
    return Seating(seats, first.communities, first.modularity)


def frontier(network: Network, flows: Flows, limits: Limits, points: int = 8, seed: int = 0) -> list[Point]:
    """What an operator may choose from: from no moves to all that are worth anything."""
    table = _Table(network, flows, limits, seed, ())
    most = len(moved(network, table.at_price(0.0))[0])
    budgets = sorted({round(most * part / (points - 1)) for part in range(points)})
    found = []
    for budget in budgets:
        seats = table.within(budget)
        found.append(Point(len(moved(network, seats)[0]), mean_hops(network, flows, seats)))
    return found


class _Table:
    """A problem in arrays, and the seatings found for prices."""

    def __init__(
        self,
        network: Network,
        flows: Flows,
        limits: Limits,
        seed: int,
        starts: Sequence[NDArray[np.int64]],
    ) -> None:
        self.network, self.flows, self.limits, self.seed = network, flows, limits, seed
        low, high, weights = flows.undirected
        count = len(flows.clients)
        ends = np.concatenate([low, high])
        order = np.argsort(ends, kind="stable")
        self.others = np.concatenate([high, low])[order]
        self.weights = np.concatenate([weights, weights])[order]
        self.begins = np.searchsorted(ends[order], np.arange(count + 1))
        fair = network.fair(flows.total) * limits.overload
        # A cluster that is over its share already may keep what it has.
        now = summed(network.cluster_of[network.homes], flows.sent, len(network.clusters))
        self.cluster_most = np.maximum(fair, now)
        seated = int((network.cluster_of >= 0).sum())
        at_broker = summed(network.homes, flows.sent, len(network.graph.names))
        self.broker_most = np.maximum(at_broker, flows.total / seated * limits.broker_overload)
        self.inside_most = count if limits.moves_inside is None else limits.moves_inside
        self.mean = flows.total / max(1, count)
        self.found: dict[tuple[float, int], NDArray[np.int64]] = {}
        self.starts = [network.homes, *(one for one in starts if self._keeps(one))]

    def at_price(self, price: float, across_most: int | None = None) -> NDArray[np.int64]:
        """The seating for a price of a move across clusters, in messages times hops."""
        from tidings.planning.communities.kernels import sweep

        most = len(self.flows.clients) if across_most is None else across_most
        if (price, most) not in self.found:
            rng = np.random.default_rng(self.seed)
            fitting = [one for one in self.starts if len(moved(self.network, one)[0]) <= most]
            best = min(fitting, key=lambda one: self._cost(one, price))
            best_cost = self._cost(best, price)
            seats = self.network.homes.copy()
            for start, number in product(fitting, range(SWEEPS)):
                if not number:
                    seats = start.copy()
                heat = self.mean * max(0.0, 0.5 - number / SWEEPS)
                order = rng.permutation(len(seats))
                sweep(
                    order,
                    rng.random(len(seats)),
                    seats,
                    self.network.homes,
                    self.network.cluster_of,
                    self.network.graph.distances,
                    self.begins,
                    self.others,
                    self.weights,
                    self.flows.sent,
                    self.cluster_most,
                    self.broker_most,
                    price,
                    heat,
                    most,
                    self.inside_most,
                )
                cost = self._cost(seats, price)
                if cost < best_cost:
                    best, best_cost = seats.copy(), cost
            self.found[price, most] = best
        return self.found[price, most]

    def _cost(self, seats: NDArray[np.int64], price: float) -> float:
        far = self.network.graph.distances[seats[self.flows.senders], seats[self.flows.receivers]]
        return float(far @ self.flows.messages) + price * len(moved(self.network, seats)[0])

    def _keeps(self, seats: NDArray[np.int64]) -> bool:
        """Whether a seating is within the limits of load and of moves inside clusters."""
        sent, slack = self.flows.sent, 1e-9 * max(1.0, self.flows.total)
        by_cluster = summed(self.network.cluster_of[seats], sent, len(self.cluster_most))
        by_broker = summed(seats, sent, len(self.broker_most))
        return bool(
            (by_cluster <= self.cluster_most + slack).all()
            and (by_broker <= self.broker_most + slack).all()
            and len(moved(self.network, seats)[1]) <= self.inside_most
        )

    def within(self, allowed: int) -> NDArray[np.int64]:
        """The best seating with at most so many moves across clusters."""
        low, high = 0.0, self.mean * float(self.network.graph.distances.max()) * 2 + 1.0
        tried = [self.at_price(0.0, allowed)]
        for _ in range(HALVINGS):
            price = (low + high) / 2
            seats = self.at_price(price, allowed)
            tried.append(seats)
            if len(moved(self.network, self.at_price(price))[0]) > allowed:
                low = price
            else:
                tried.append(self.at_price(price))
                high = price
        return min(tried, key=lambda seats: self._cost(seats, 0.0))
