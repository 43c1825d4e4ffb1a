"""A plan within its limits: of its moves those that save most, for as long as they save anything.

A community that is moved in part may be worse off than before: who goes alone goes away from those that
stay. So moves are chosen by what messages travel less, given the moves that were chosen before, one client at
a time or all that are left of a community. None is chosen that would make a broker busier than it may be.
Which planner made the moves is not known here.

Dropped: the heaviest senders first. Of 75 bounded plans for small networks, 9 were worse than staying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidings.planning.communities.base import broker_loads, broker_most, mean_hops, moved, slack, summed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidings.planning.communities.base import Flows, Limits, Network

ACROSS, INSIDE = 0, 1
"""Kinds of moves, in the order in which they are bounded."""

SLACK = 1e-9
"""What counts as saving nothing, of all that messages travel: sums of broken numbers are not exact."""


def within(
    network: Network, flows: Flows, limits: Limits, seats: NDArray[np.int64], groups: NDArray[np.int64]
) -> NDArray[np.int64]:
    """A seating with no more moves than allowed, and no broker busier; `groups` are the communities of
    clients.

    If the one given keeps the limits it stays as it is, unless moves are bounded and messages travel farther
    than before anything moves. With a bound on moves they never do.
    """
    across, inside = moved(network, seats)
    counts = (len(across) + len(inside), len(across), len(inside))
    most = (limits.moves, limits.moves_across, limits.moves_inside)
    room = broker_most(network, flows, limits) + slack(flows)
    kept = all(bound is None or count <= bound for count, bound in zip(counts, most, strict=True))
    if kept and (broker_loads(network, flows, seats) <= room).all():
        bounded = most != (None, None, None)
        if not bounded or mean_hops(network, flows, seats) <= mean_hops(network, flows, network.homes):
            return seats
    choice = _Choice(network, flows, seats, groups, room - broker_loads(network, flows, network.homes))
    return choice.taken(*(len(seats) if bound is None else bound for bound in most))


class _Choice:
    """Moves, of which some are taken; what each would save changes with that."""

    def __init__(
        self,
        network: Network,
        flows: Flows,
        seats: NDArray[np.int64],
        groups: NDArray[np.int64],
        room: NDArray[np.float64],
    ) -> None:
        homes, far = network.homes, network.graph.distances
        self.homes, self.goals, self.groups = homes, seats, groups
        self.sent, self.room = flows.sent, room
        self.left = homes != seats
        self.kind = np.where(network.cluster_of[seats] != network.cluster_of[homes], ACROSS, INSIDE)
        count = int(groups.max()) + 1
        self.sizes = np.array(
            [np.bincount(groups[movers], minlength=count) for movers in moved(network, seats)]
        )
        self.members = _grouped(groups, count)
        self.coming = _grouped(seats, len(room))
        low, high, weights = flows.undirected
        a, b = np.concatenate([low, high]), np.concatenate([high, low])
        weights = np.concatenate([weights, weights])
        # What a client saves by its move while all others are at home.
        saves = weights * (far[homes[a], homes[b]] - far[seats[a], homes[b]])
        self.alone = np.where(self.left, summed(a, saves, len(seats)), -np.inf)
        # And what it saves more once one that it talks to has moved, which is the same both ways.
        both = np.flatnonzero(self.left[a] & self.left[b])
        both = both[np.argsort(a[both], kind="stable")]
        a, b, weights = a[both], b[both], weights[both]
        self.begins, self.others = np.searchsorted(a, np.arange(len(seats) + 1)), b
        self.more = weights * (
            far[seats[a], homes[b]]
            + far[homes[a], seats[b]]
            - far[homes[a], homes[b]]
            - far[seats[a], seats[b]]
        )
        # What all of a group save together; each pair of them is there twice.
        same = groups[a] == groups[b]
        self.whole = summed(groups[self.left], self.alone[self.left], count)
        self.whole += summed(groups[a[same]], self.more[same], count) / 2
        self.least = SLACK * flows.copies * max(1.0, float(far.max()))
        # What a client saves if there is room for it now, and groups that were found to have none.
        self.possible = np.where(self.sent <= room[seats], self.alone, -np.inf)
        self.too_busy = np.zeros(count, bool)

    def taken(self, moves: int, across: int, inside: int) -> NDArray[np.int64]:
        """The seating of the moves that are taken, the best first, until none saves or none is allowed."""
        found = self.homes.copy()
        allowed = np.array([across, inside], np.int64)
        while True:
            allowed = np.minimum(allowed, moves)
            if not allowed.all():
                self.possible[allowed[self.kind] == 0] = -np.inf
            client = int(self.possible.argmax())
            sizes = self.sizes.sum(axis=0)
            fit = (sizes > 0) & (sizes <= moves) & (self.sizes <= allowed[:, None]).all(axis=0)
            fit &= (self.whole > self.least) & ~self.too_busy
            each = np.where(fit, self.whole, -np.inf) / np.maximum(1, sizes)
            group = int(each.argmax())
            if each[group] > self.possible[client]:
                chosen = self.members[group][self.left[self.members[group]]]
                if self._crowds(chosen):
                    self.too_busy[group] = True
                    continue
            elif self.possible[client] > self.least:
                chosen = np.array([client])
            else:
                return found
            for one in chosen.tolist():
                self._take(one)
                found[one] = self.goals[one]
                allowed[self.kind[one]] -= 1
            moves -= len(chosen)
            for broker in np.unique(np.concatenate([self.homes[chosen], self.goals[chosen]])).tolist():
                coming = self.coming[broker]
                fits = self.sent[coming] <= self.room[broker]
                self.possible[coming] = np.where(fits, self.alone[coming], -np.inf)

    def _crowds(self, clients: NDArray[np.int64]) -> bool:
        """Whether a broker would be too busy if all of some clients moved."""
        brokers, sent = len(self.room), self.sent[clients]
        more = summed(self.goals[clients], sent, brokers) - summed(self.homes[clients], sent, brokers)
        return bool((more > np.maximum(self.room, 0.0)).any())

    def _take(self, client: int) -> None:
        group = self.groups[client]
        self.whole[group] -= self.alone[client]
        self.sizes[self.kind[client], group] -= 1
        self.left[client] = False
        self.alone[client] = self.possible[client] = -np.inf
        self.room[self.goals[client]] -= self.sent[client]
        self.room[self.homes[client]] += self.sent[client]
        # What is left of its group is less, and may find room.
        self.too_busy[group] = False
        some = slice(self.begins[client], self.begins[client + 1])
        others, more = self.others[some], self.more[some]
        self.alone[others] += more
        fits = self.sent[others] <= self.room[self.goals[others]]
        self.possible[others] = np.where(fits, self.alone[others], -np.inf)
        # In its own group what others save by themselves now is what they saved together with it.
        apart = self.left[others] & (self.groups[others] != group)
        np.add.at(self.whole, self.groups[others[apart]], more[apart])


def _grouped(numbers: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """By number: the places where it is."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, count)))
