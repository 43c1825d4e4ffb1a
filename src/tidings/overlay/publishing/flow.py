"""Flow: what is under way on each link and tree, and how it is acknowledged.

Publications on their way through this broker together are a `Passage`. One of them is over when every link
that it went on to has answered, and when what was stored here is on disk; then the link it came over is
answered, or, at its origin, those above are told. Each has a slot of its own, so one that is blocked holds
back no answer but its own. The answers are the flow control as well: on each link and tree (a `Channel`) a
bounded amount may be under way, and what does not fit waits in the channel that it came by.

Channels are per tree. Within one tree no link waits for itself, so nothing locks up; a window shared by
several trees could.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from tidings.overlay.core import Core
from tidings.overlay.links.links import Link, Links
from tidings.overlay.publishing.batches import packed, unpacked
from tidings.overlay.publishing.messages import Done, Places
from tidings.overlay.trees.messages import Epoch

CREDIT_SHARE = 4
"""Acknowledgements of QoS 0 are only flow control, so they may wait until a quarter of the window is due."""

Key = tuple[str, str]
"""Of a channel: neighbour and root."""

Over = tuple[int, int, int]
"""Some in a row that are over: the first, behind the last, and who misses them."""


class Passage:
    """Publications that go through one broker together in one epoch: what they still wait for."""

    __slots__ = ("_each", "count", "epoch", "generation", "link", "missing", "open", "origin", "root", "slot")

    def __init__(self, root: str, epoch: Epoch, count: int = 1) -> None:
        self.root = root
        self.epoch = epoch
        self.count = count
        self.link: Link | None = None
        """The link they came over, …"""
        self.generation = 0
        self.slot = 0
        """… and the slot of the first there."""
        self.open = 0
        """Links that have not answered for all of them, and one for a sync that is not done."""
        self.missing = 0
        """Members that must have them and could not be served, as bits of the epoch: for them they must be
        sent again in the next."""
        self.origin: Callable[[Passage, int, int, int], None] | None = None
        """At their origin: whom to tell of some that are over, as in `Over`."""
        self._each: list[list[int]] | None = None
        """For each what is open and who misses it, once they differ."""

    def answered(self, first: int, end: int, missing: int) -> Iterator[Over]:
        """One that was waited for has answered for some: those that are over by that."""
        if self._each is None:
            if end - first == self.count:
                self.open -= 1
                self.missing |= missing
                if not self.open:
                    yield 0, self.count, self.missing
                return
            self._each = [[self.open, self.missing] for _ in range(self.count)]
        each = self._each
        done: list[tuple[int, int]] = []
        for at in range(first, end):
            one = each[at]
            one[0] -= 1
            one[1] |= missing
            if not one[0]:
                done.append((at, one[1]))
        for (_, lacking), some in groupby(enumerate(done), key=lambda it: (it[1][0] - it[0], it[1][1])):
            places = [at for _, (at, _) in some]
            yield places[0], places[-1] + 1, lacking


class Flight:
    """Publications under way on one link: slots in a row that went together."""

    __slots__ = ("answered", "count", "first", "left", "must", "passage", "sizes")

    def __init__(self, first: int, sizes: Sequence[int], passage: Passage | None, must: int) -> None:
        self.first = first
        self.count = self.left = len(sizes)
        self.sizes = sizes
        self.passage = passage
        """What waits for the answers, if anything does."""
        self.must = must
        """Who must have them of those behind the link."""
        self.answered: set[int] | None = None
        """Slots for which the answer is here, while it is not for all."""

    def unanswered(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Of some slots those that wait for an answer, and do no more: in a row, the first and the last."""
        first, last = max(first, self.first), min(last, self.first + self.count - 1)
        if first > last or not self.left:
            return
        if self.answered is None:
            self.left -= last + 1 - first
            if self.left:
                self.answered = set(range(first, last + 1))
            yield first, last
            return
        new = [slot for slot in range(first, last + 1) if slot not in self.answered]
        self.answered.update(new)
        self.left -= len(new)
        for _, some in groupby(enumerate(new), key=lambda it: it[1] - it[0]):
            slots = [slot for _, slot in some]
            yield slots[0], slots[-1]


class Channel:
    """Publications on one link and one tree: what is under way each way, and what waits here."""

    __slots__ = (
        "bytes_out",
        "credit_bytes",
        "credits",
        "ended",
        "flights",
        "generation",
        "parked",
        "root",
        "settled",
        "slot",
        "stale",
        "under_way",
    )

    def __init__(self, root: str, generation: int) -> None:
        self.root = root
        self.generation = generation
        self.slot = 0
        self.flights: deque[Flight] = deque()
        """What has no answer yet, in order of its slots, and some that has."""
        self.ended = 0
        """How many of these have one."""
        self.under_way = 0
        """Publications among that, …"""
        self.bytes_out = 0
        """… and what they count for."""
        self.parked: deque[Any] = deque()
        """What waits; what it is is not known here."""
        self.settled: list[tuple[int, int]] = []
        """Slots that are to be answered, in a row: the first and the last."""
        self.stale: list[tuple[int, Places]] = []
        self.credits = 0
        """Of the answered ones, those that nobody waits for."""
        self.credit_bytes = 0


class Flow:
    """All channels of a broker."""

    def __init__(self, core: Core, links: Links) -> None:
        self._core = core
        self._links = links
        self.channels: dict[Key, Channel] = {}
        self._answers: dict[Key, None] = {}
        """Channels with answers to send."""
        self._credits: dict[Key, None] = {}
        """Channels whose answers can wait."""

    def channel(self, link: Link, root: str) -> Channel:
        key = (link.peer, root)
        channel = self.channels.get(key)
        if channel is None or channel.generation != link.generation:
            channel = self.channels[key] = Channel(root, link.generation)
        return channel

    def room(self, peer: str, root: str, sizes: Sequence[int]) -> int:
        """How many of some publications may go under way. The last of them may be beyond the bytes."""
        settings = self._core.settings
        channel = self.channels.get((peer, root))
        if channel is None or channel.generation != self._links.links[peer].generation:
            messages, size = settings.link_window_messages, settings.link_window_bytes
        else:
            messages = settings.link_window_messages - channel.under_way
            size = settings.link_window_bytes - channel.bytes_out
        if messages <= 0 or size <= 0:
            return 0
        count = min(messages, len(sizes))
        if sum(sizes) <= size:
            return count
        for at in range(count):
            if size <= 0:
                return at
            size -= sizes[at]
        return count

    def start(self, link: Link, root: str, passage: Passage | None, sizes: Sequence[int], must: int) -> int:
        """Some go under way; the slot by which the first will be answered."""
        channel = self.channel(link, root)
        first = channel.slot + 1
        channel.slot += len(sizes)
        if passage is not None:
            passage.open += 1
        channel.flights.append(Flight(first, sizes, passage, must))
        channel.under_way += len(sizes)
        channel.bytes_out += sum(sizes)
        return first

    def answer(
        self,
        link: Link,
        channel: Channel,
        slot: int,
        count: int,
        size: int,
        *,
        missing: int = 0,
        awaited: bool = True,
    ) -> None:
        """Say what has become of some that came by a channel; whether anybody waits to hear it."""
        if channel.generation != link.generation:
            return
        _say(channel, slot, count, missing)
        key = (link.peer, channel.root)
        if not awaited:
            channel.credits += count
            channel.credit_bytes += size
            settings = self._core.settings
            if (
                channel.credits * CREDIT_SHARE < settings.link_window_messages
                and channel.credit_bytes * CREDIT_SHARE < settings.link_window_bytes
            ):
                self._credits[key] = None
                return
        self._answers[key] = None

    def over(self, passage: Passage, first: int, end: int, missing: int) -> None:
        """Nothing more is waited for, for some of a passage."""
        if passage.origin is not None:
            passage.origin(passage, first, end, missing)
            return
        link = passage.link
        assert link is not None, "what has no origin here came over a link"
        if link.generation == passage.generation:
            _say(self.channel(link, passage.root), passage.slot + first, end - first, missing)
            self._answers[link.peer, passage.root] = None

    def wait_for_disk(self, passage: Passage) -> None:
        """Nor is it over before what was written by now is durable."""
        passage.open += 1
        self._core.after_sync(lambda: self._answered(passage, 0, passage.count, 0))

    def _answered(self, passage: Passage, first: int, end: int, missing: int) -> None:
        for over in list(passage.answered(first, end, missing)):
            self.over(passage, *over)

    def flush(self) -> None:
        """Send the acknowledgements that this event has brought."""
        while self._answers:
            self._send_answers(next(iter(self._answers)))

    def tick(self) -> None:
        """Acknowledgements of QoS 0 wait for company, but not for ever."""
        self._answers |= self._credits

    def _send_answers(self, key: tuple[str, str]) -> None:
        del self._answers[key]
        self._credits.pop(key, None)
        channel = self.channels[key]
        link = self._links.get(key[0])
        if link is None or link.generation != channel.generation:
            return
        self._links.send(link, Done(key[1], _ranges(channel.settled), tuple(channel.stale)))
        channel.settled, channel.stale = [], []
        channel.credits = channel.credit_bytes = 0

    def on_done(self, link: Link, message: Done) -> None:
        channel = self.channels.get((link.peer, message.root))
        if channel is None or channel.generation != link.generation:
            return
        slots = message.settled
        said = [(first, last, 0) for first, last in zip(slots[::2], slots[1::2], strict=False)]
        said += [(slot, slot, unpacked(missing)) for slot, missing in message.stale]
        said.sort()
        at, flights = 0, channel.flights
        for flight in flights:
            if not flight.left:
                continue
            while at < len(said) and said[at][1] < flight.first:
                at += 1
            if at == len(said):
                break
            here, end = at, flight.first + flight.count
            while here < len(said) and said[here][0] < end:
                self._settle(channel, flight, *said[here])
                here += 1
            channel.ended += not flight.left
        while flights and not flights[0].left:
            flights.popleft()
            channel.ended -= 1
        if channel.ended * 2 > len(flights):
            channel.flights = deque(flight for flight in flights if flight.left)
            channel.ended = 0

    def _settle(self, channel: Channel, flight: Flight, first: int, last: int, missing: int) -> None:
        """A neighbour has answered for some slots of a flight, if they are its own."""
        for low, high in flight.unanswered(first, last):
            begin, end = low - flight.first, high + 1 - flight.first
            channel.under_way -= end - begin
            channel.bytes_out -= sum(flight.sizes[begin:end])
            if flight.passage is not None:
                self._answered(flight.passage, begin, end, missing & flight.must)

    def on_link_down(self, link: Link) -> list[str]:
        """Nothing that was under way there will be acknowledged; the roots that this concerns."""
        keys = [key for key in self.channels if key[0] == link.peer]
        for key in keys:
            channel = self.channels.pop(key)
            self._answers.pop(key, None)
            self._credits.pop(key, None)
            for flight in channel.flights:
                if flight.passage is not None:
                    for low, high in list(flight.unanswered(flight.first, flight.first + flight.count - 1)):
                        begin, end = low - flight.first, high + 1 - flight.first
                        self._answered(flight.passage, begin, end, flight.must)
        return [root for _, root in keys]

    def parked(self, root: str) -> list[tuple[Link, Channel]]:
        """The channels of a tree in which something waits, in order of their neighbours."""
        found = []
        for peer in sorted(
            peer for (peer, tree), channel in self.channels.items() if tree == root and channel.parked
        ):
            link = self._links.get(peer)
            channel = self.channels[peer, root]
            if link is not None and link.generation == channel.generation:
                found.append((link, channel))
        return found

    @property
    def at_rest(self) -> bool:
        """Whether nothing is under way and nothing waits."""
        return not any(channel.under_way or channel.parked for channel in self.channels.values())


def _say(channel: Channel, slot: int, count: int, missing: int) -> None:
    """Some slots are to be answered."""
    if missing:
        places = packed(missing)
        channel.stale += [(one, places) for one in range(slot, slot + count)]
    else:
        channel.settled.append((slot, slot + count - 1))


def _ranges(slots: list[tuple[int, int]]) -> tuple[int, ...]:
    """Slots as first, last, first, last, …, in order and as few as can be.

    >>> _ranges([(4, 4), (1, 3), (7, 7)])
    (1, 4, 7, 7)
    """
    found: list[int] = []
    for first, last in sorted(slots):
        if found and found[-1] == first - 1:
            found[-1] = last
        else:
            found += (first, last)
    return tuple(found)
