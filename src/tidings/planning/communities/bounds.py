"""A plan with fewer moves than its planner made: those that save most, for as long as they save anything.

A community that is moved in part may be worse off than before: who goes alone goes away from those that
stay. So moves are chosen by what messages travel less, given the moves that were chosen before, one client at
a time or all that are left of a community. Which planner made the moves is not known here.

Dropped: the heaviest senders first. Of 75 bounded plans for small networks, 9 were worse than staying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidings.planning.communities.base import mean_hops, moved, summed

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
    """A seating with no more moves than allowed; `groups` are the communities of clients.

    Without a bound it is the one given, and so it is if it keeps the bounds and messages travel no farther
    than before anything moves. With a bound they never do.
    """
    most = (limits.moves, limits.moves_inside)
    if most == (None, None):
        return seats
    kept = all(
        bound is None or len(movers) <= bound
        for movers, bound in zip(moved(network, seats), most, strict=True)
    )
    if kept and mean_hops(network, flows, seats) <= mean_hops(network, flows, network.homes):
        return seats
    return _Choice(network, flows, seats, groups).taken(most)


class _Choice:
    """Moves, of which some are taken; what each would save changes with that."""

    def __init__(
        self, network: Network, flows: Flows, seats: NDArray[np.int64], groups: NDArray[np.int64]
    ) -> None:
        homes, far = network.homes, network.graph.distances
        self.homes, self.goals, self.groups = homes, seats, groups
        self.left = homes != seats
        self.kind = np.where(network.cluster_of[seats] != network.cluster_of[homes], ACROSS, INSIDE)
        count = int(groups.max()) + 1
        self.sizes = np.array(
            [np.bincount(groups[movers], minlength=count) for movers in moved(network, seats)]
        )
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

    def taken(self, most: tuple[int | None, int | None]) -> NDArray[np.int64]:
        """The seating of the moves that are taken, the best first, until none saves or none is allowed."""
        found = self.homes.copy()
        room = np.array([len(found) if bound is None else bound for bound in most], np.int64)
        while True:
            if not room.all():
                self.alone[room[self.kind] == 0] = -np.inf
            client = int(self.alone.argmax())
            sizes = self.sizes.sum(axis=0)
            fit = (sizes > 0) & (self.sizes <= room[:, None]).all(axis=0) & (self.whole > self.least)
            each = np.where(fit, self.whole, -np.inf) / np.maximum(1, sizes)
            group = int(each.argmax())
            if each[group] > self.alone[client]:
                chosen = np.flatnonzero(self.left & (self.groups == group)).tolist()
            elif self.alone[client] > self.least:
                chosen = [client]
            else:
                return found
            for one in chosen:
                self._take(one)
                found[one] = self.goals[one]
                room[self.kind[one]] -= 1

    def _take(self, client: int) -> None:
        group = self.groups[client]
        self.whole[group] -= self.alone[client]
        self.sizes[self.kind[client], group] -= 1
        self.left[client] = False
        self.alone[client] = -np.inf
        some = slice(self.begins[client], self.begins[client + 1])
        others, more = self.others[some], self.more[some]
        self.alone[others] += more
        # In its own group what others save by themselves now is what they saved together with it.
        apart = self.left[others] & (self.groups[others] != group)
        np.add.at(self.whole, self.groups[others[apart]], more[apart])
