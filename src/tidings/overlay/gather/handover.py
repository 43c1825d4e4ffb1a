"""Handing over: what one broker has gathered at a place, on its way to the one that has the seat.

It serves the move of a seat, the heal of a partition and the return of a dead seat alike. The sender keeps
what it sends until the receiver says that it is safe, and sends it again in each epoch and to each new
holder. To have it twice does no harm. When a seat is to move, and what that means, is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidings.overlay.core import Core
from tidings.overlay.gather.messages import HandedOver, HandOver, Holder
from tidings.overlay.gather.partitions import Partitions
from tidings.overlay.gather.seat import Copies, Seat, erase, marks_of, parted
from tidings.overlay.links.links import Link, Links
from tidings.overlay.trees.trees import TreeEpoch

CLOSED_MAX = 1000
"""Events of which it is said that they were closed; the latest, if there are more."""


class Transfer:
    """What is on its way to another broker, until that one says that it is safe."""

    def __init__(self, copies: Copies, number: int, term: int, to: tuple[str, int]) -> None:
        self.copies = copies
        self.number = number
        self.term = term
        """The receiver's."""
        self.to, self.boot = to


class Handover:
    """All that is handed over, to this broker or by it."""

    def __init__(
        self,
        core: Core,
        links: Links,
        places: Partitions,
        holders: Mapping[str, Holder],
        seats: Mapping[str, Seat],
        has_left: Callable[[str, Holder], None],
    ) -> None:
        self._core = core
        self._links = links
        self._places = places
        self._holders = holders
        self._seats = seats
        self._has_left = has_left
        """Whom to tell that a seat that was here is another broker's."""
        self._offered: dict[tuple[str, str, int], Copies] = {}
        """By place, sender and number: what has not come as a whole."""
        self._promised: dict[str, tuple[int, Copies]] = {}
        """By place: what has come for a seat that this broker is to have, and the term of that."""
        self._leftovers: dict[str, list[Copies]] = {}
        """By place: what was gathered here, or kept for another, and whoever has the seat must have."""
        self._gifts: dict[str, Transfer] = {}
        self._number = 0

    @property
    def places(self) -> list[str]:
        """Of which there is something to be handed over."""
        return list(self._leftovers)

    def keep(self, place: str, copies: Copies) -> None:
        """Have something for whoever has a seat."""
        self._leftovers.setdefault(place, []).append(copies)

    def take(self, place: str) -> list[Copies]:
        """What there is of a place; it is not kept here."""
        return self._leftovers.pop(place, [])

    def take_first(self, place: str) -> Copies | None:
        """What was here first of a place: what this broker had when it had the seat, before a restart."""
        return leftovers.pop(0) if (leftovers := self._leftovers.get(place)) else None

    def forget(self, place: str) -> None:
        """Stop handing over a seat: the tree has changed."""
        self._gifts.pop(place, None)

    def on_ready(self, root: str) -> None:
        """A new epoch: what has come in part will come again as a whole."""
        self._offered = {
            key: copies for key, copies in self._offered.items() if self._places.root_of(key[0]) != root
        }

    def promised(self, place: str, holder: Holder) -> Copies | None:
        """What was handed over for a seat, now that its holder is known; None if that is another."""
        promised = self._promised.get(place)
        if promised is None or holder.term < promised[0]:
            return None
        del self._promised[place]
        here = (holder.seat, holder.boot) == (self._core.id, self._core.boot)
        return promised[1] if here and holder.term == promised[0] else None

    def leave(self, seat: Seat) -> None:
        """Hand over all there is, now that nothing is under way."""
        gift = self._gifts.get(seat.place)
        if seat.leaving is None or (gift is not None and gift.to == seat.leaving[0]):
            return
        gift = self._gift(seat.place, seat.copies(past=True), seat.holder.term + 1, seat.leaving)
        self._send(seat.place, gift)

    def _gift(self, place: str, copies: Copies, term: int, to: tuple[str, int]) -> Transfer:
        self._number += 1
        gift = self._gifts[place] = Transfer(copies, self._number, term, to)
        return gift

    def hand_on(self, place: str) -> None:
        """Let whoever has a seat have what this broker gathered there once."""
        leftovers = self._leftovers.get(place)
        holder = self._holders.get(place)
        if not leftovers or holder is None:
            return
        if place in self._seats:
            del self._leftovers[place]
            for copies in leftovers:
                self._seats[place].adopt(copies, self._core.id, 0)
            return
        if holder.seat == self._core.id:
            return  # it is to be begun here
        self._send(place, self._gift(place, leftovers[0], holder.term, (holder.seat, holder.boot)))

    def _send(self, place: str, gift: Transfer) -> None:
        grown = self._places.grown(place)
        edge = self._places.toward(grown, gift.to) if grown is not None else None
        if grown is None or edge is None or not edge.alive:
            return  # sent in the next epoch
        now_us = self._core.at_us
        made = {event: at_us for event, (_, at_us) in gift.copies.entries.items()}
        parts = list(parted((event, copy) for event, (copy, _) in gift.copies.entries.items())) or [()]
        for at, part in enumerate(parts):
            message = HandOver(
                grown.root,
                grown.epoch,
                place,
                gift.term,
                gift.to,
                gift.boot,
                self._core.id,
                gift.number,
                tuple((event, copy, max(0, now_us - made[event])) for event, copy in part),
                () if at else marks_of(gift.copies.marks),
                at + 1 < len(parts),
                () if at else tuple(gift.copies.closed.values())[-CLOSED_MAX:],
            )
            self._links.send_data(edge.link, message, message.size)

    def on_hand_over(self, link: Link, message: HandOver) -> None:
        grown = self._places.current(message.root, message.epoch)
        if grown is None:
            return
        if message.to != self._core.id:
            edge = self._places.toward(grown, message.to)
            if edge is not None and edge.alive and edge.link is not link:
                self._links.send_data(edge.link, message, message.size)
            return
        if message.boot != self._core.boot:
            return  # it is handed over again when it is known who has the seat
        key = message.place, message.sender, message.number
        copies = self._offered.setdefault(key, Copies())
        now_us = self._core.at_us
        copies.entries |= {event: (copy, now_us - elapsed) for event, copy, elapsed in message.entries}
        copies.mark(message.marks)
        copies.closed |= {ended.event: ended for ended in message.closed}
        if message.more:
            return
        del self._offered[key]
        seat = self._seats.get(message.place)
        if seat is not None:
            seat.adopt(copies, message.sender, message.number)
            return
        known = self._holders.get(message.place)
        if known is None or message.term > known.term:
            self._promised[message.place] = (message.term, copies)
            self.answer(grown, message.place, message.term, message.sender, message.number)

    def answer(self, grown: TreeEpoch, place: str, term: int, sender: str, number: int) -> None:
        """Let a broker know that what it handed over is safe."""
        edge = self._places.toward(grown, sender)
        if edge is not None and edge.alive:
            self._links.send(edge.link, HandedOver(grown.root, grown.epoch, place, term, sender, number))

    def on_handed_over(self, link: Link, message: HandedOver) -> None:
        grown = self._places.current(message.root, message.epoch)
        if grown is None:
            return
        if message.to != self._core.id:
            edge = self._places.toward(grown, message.to)
            if edge is not None and edge.alive and edge.link is not link:
                self._links.send(edge.link, message)
            return
        gift = self._gifts.get(message.place)
        if gift is None or gift.number != message.number:
            return
        del self._gifts[message.place]
        seat = self._seats.get(message.place)
        if seat is not None and seat.leaving is not None and seat.leaving[0] == gift.to:
            holder = Holder(gift.term, gift.to, seat.leaving[1], self._core.id)
            self._has_left(message.place, holder)
        elif seat is None:
            leftovers = self._leftovers.get(message.place, [])
            if gift.copies in leftovers:
                leftovers.remove(gift.copies)
                erase(self._core, message.place, gift.copies)
            if leftovers:
                self.hand_on(message.place)
            else:
                self._leftovers.pop(message.place, None)
