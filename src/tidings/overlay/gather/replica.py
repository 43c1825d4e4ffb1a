"""Replicas: what a deputy has of the seats of others.

A seat sends its deputy copies of all events once, and then of those that have changed. The deputy keeps them
as bytes. It says how far it has come, or that it must be given all there is. When it takes over, or another
has the seat by then, what it has is given on; what becomes of it there is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidings.overlay.core import Core
from tidings.overlay.gather.messages import Holder, Mirror, Mirrored
from tidings.overlay.gather.seat import Copies
from tidings.overlay.links.links import Link, Links
from tidings.overlay.trees.trees import TreeEpoch

OUTLIVED_MAX = 2
"""Searches after which a deputy forgets what it has of a seat that another broker has by now."""

NOBODY = Holder(0, "", 0, "")


class Replica:
    """What a deputy has of a seat."""

    def __init__(self, seat: str, boot: int, term: int, generation: int) -> None:
        self.seat = seat
        self.boot = boot
        self.term = term
        self.generation = generation
        """Of the link to the seat: changes that come over another belong to another copy."""
        self.copies = Copies()
        self.number = 0
        self.outlived = 0
        """How many searches have been made since another was known to have the seat."""


class Replicas:
    """All replicas at this broker."""

    def __init__(self, core: Core, links: Links) -> None:
        self._core = core
        self._links = links
        self._replicas: dict[str, dict[str, Replica]] = {}
        """By place and broker. Two brokers may have one seat for a while, on two sides of a partition, and
        the same deputy after it."""
        self._coming: dict[tuple[str, str], Replica] = {}
        """By place and broker: those of which only a part has come."""

    def add(self, place: str, holder: Holder, copies: Copies) -> None:
        """Be the deputy of a broker to which this one has handed all it had."""
        replica = Replica(holder.seat, holder.boot, holder.term, 0)
        replica.copies = copies
        self._replicas.setdefault(place, {})[replica.seat] = replica

    def take(self, place: str) -> list[Copies]:
        """All that is known of a place; it is not kept here."""
        return [replica.copies for replica in self._replicas.pop(place, {}).values()]

    def take_of(self, place: str, holder: Holder) -> Copies | None:
        """What the holder of a seat had, if it is here; it is not kept here."""
        replicas = self._replicas.get(place, {})
        replica = replicas.get(holder.seat)
        if replica is None or replica.boot != holder.boot:
            return None
        del replicas[holder.seat]
        return replica.copies

    def on_ready(self, grown: TreeEpoch) -> None:
        """What has come in part from a broker that is gone will not come as a whole."""
        self._coming = {key: replica for key, replica in self._coming.items() if key[1] in grown.members}

    def on_mirror(self, link: Link, message: Mirror) -> Copies | None:
        """Take what a seat says; what it had before it was started anew, if that is known here."""
        place = message.place
        replica: Replica | None
        if message.whole:
            key = place, link.peer
            replica = self._coming.get(key)
            if replica is None or replica.number != message.number or replica.generation != link.generation:
                replica = self._coming[key] = Replica(link.peer, link.boot, message.term, link.generation)
                replica.number = message.number
        else:
            replica = self._replicas.get(place, {}).get(link.peer)
            if (
                replica is None
                or replica.generation != link.generation
                or message.number not in (replica.number, replica.number + 1)
            ):
                # What it is a change of is not known here.
                answer = Mirrored(message.root, message.epoch, place, message.term, 0)
                self._links.send(link, answer)
                return None
        now_us = self._core.at_us
        copies = replica.copies
        copies.entries |= {event: (copy, now_us) for event, copy in message.entries}
        for ended in message.closed:
            copies.close(ended)
        copies.confirmed |= {
            event: version for event, version in message.confirmed if event in copies.entries
        }
        copies.mark(message.marks)
        if message.more:
            return None
        given_back = None
        replica.number = message.number
        replica.term = message.term
        if message.whole:
            del self._coming[place, link.peer]
            replicas = self._replicas.setdefault(place, {})
            before = replicas.get(link.peer)
            if before is not None and before.boot != replica.boot:
                # It was started anew, perhaps without its disk: it is given back what it had.
                given_back = before.copies
            replicas[link.peer] = replica
        self._links.send(link, Mirrored(message.root, message.epoch, place, message.term, message.number))
        return given_back

    def sort_out(self, place: str, holder: Holder, grown: TreeEpoch | None) -> list[Copies]:
        """Keep the replica of a seat whose deputy this broker is; what a dead one has left goes to its
        heir.
        """
        replicas = self._replicas.get(place, {})
        left: list[Copies] = []
        for replica in list(replicas.values()):
            if (replica.seat, replica.boot) == (holder.seat, holder.boot):
                if holder.deputy == self._core.id or holder.term <= replica.term:
                    continue
            elif grown is None or grown.members.get(replica.seat, (0, 0))[0] != replica.boot:
                left.append(replica.copies)
            elif replica.outlived < OUTLIVED_MAX:
                continue  # it hands over what it has, if it lives so long
            del replicas[replica.seat]
        if not replicas:
            self._replicas.pop(place, None)
        return left

    def outlive(self, holders: Mapping[str, Holder]) -> list[str]:
        """Another search has been made; the places of which there is a replica."""
        for place, replicas in self._replicas.items():
            holder = holders.get(place, NOBODY)
            for replica in replicas.values():
                replica.outlived += (replica.seat, replica.boot) != (holder.seat, holder.boot)
        return list(self._replicas)
