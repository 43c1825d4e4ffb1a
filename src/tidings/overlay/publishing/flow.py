"""Flow: what is under way on each link and tree, and how it is acknowledged.

A publication on its way through this broker is a `Passage`. It is over when every link that it went on to has
answered, and when what was stored here is on disk; then the link it came over is answered, or, at its origin,
those above are told. The answers are the flow control as well: on each link and tree (a `Channel`) a bounded
amount may be under way, and what does not fit waits in the channel that it came by.

Channels are per tree. Within one tree no link waits for itself, so nothing locks up; a window shared by
several trees could.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
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


class Passage:
    """One publication at one broker in one epoch: what it still waits for."""

    __slots__ = ("epoch", "generation", "link", "missing", "open", "origin", "root", "slot")

    def __init__(self, root: str, epoch: Epoch) -> None:
        self.root = root
        self.epoch = epoch
        self.link: Link | None = None
        """The link it came over, …"""
        self.generation = 0
        self.slot = 0
        """… and its slot there."""
        self.open = 0
        """Links that have not answered, and one for a sync that is not done."""
        self.missing = 0
        """Members that must have it and could not be served, as bits of the epoch: for them it must be sent
        again in the next."""
        self.origin: Callable[[Passage], None] | None = None
        """At its origin: whom to tell when it is over."""


class Channel:
    """Publications on one link and one tree: what is under way each way, and what waits here."""

    __slots__ = (
        "bytes_out",
        "credit_bytes",
        "credits",
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
        self.under_way: dict[int, tuple[Passage | None, int, int]] = {}
        """By slot: what waits for the answer, the size, and who must have it of those behind the link."""
        self.bytes_out = 0
        self.parked: deque[Any] = deque()
        """Publications that wait; what they are is not known here."""
        self.settled: list[int] = []
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

    def full(self, peer: str, root: str) -> bool:
        """Whether nothing more may go under way."""
        channel = self.channels.get((peer, root))
        if channel is None:
            return False
        settings = self._core.settings
        return (
            channel.bytes_out >= settings.link_window_bytes
            or len(channel.under_way) >= settings.link_window_messages
        ) and channel.generation == self._links.links[peer].generation

    def start(self, link: Link, root: str, passage: Passage | None, size: int, must: int) -> int:
        """Something goes under way; the slot that it will be answered by."""
        channel = self.channel(link, root)
        channel.slot += 1
        if passage is not None:
            passage.open += 1
        channel.under_way[channel.slot] = (passage, size, must)
        channel.bytes_out += size
        return channel.slot

    def answer(
        self, link: Link, channel: Channel, slot: int, size: int, *, missing: int = 0, awaited: bool = True
    ) -> None:
        """Say what has become of a publication that came by a channel; whether anybody waits to hear it."""
        if channel.generation != link.generation:
            return
        if missing:
            channel.stale.append((slot, packed(missing)))
        else:
            channel.settled.append(slot)
        key = (link.peer, channel.root)
        if not awaited:
            channel.credits += 1
            channel.credit_bytes += size
            settings = self._core.settings
            if (
                channel.credits * CREDIT_SHARE < settings.link_window_messages
                and channel.credit_bytes * CREDIT_SHARE < settings.link_window_bytes
            ):
                self._credits[key] = None
                return
        self._answers[key] = None

    def over(self, passage: Passage) -> None:
        """Nothing more is waited for."""
        if passage.origin is not None:
            passage.origin(passage)
            return
        link = passage.link
        assert link is not None, "what has no origin here came over a link"
        if link.generation == passage.generation:
            channel = self.channel(link, passage.root)
            if passage.missing:
                channel.stale.append((passage.slot, packed(passage.missing)))
            else:
                channel.settled.append(passage.slot)
            self._answers[link.peer, passage.root] = None

    def wait_for_disk(self, passage: Passage) -> None:
        """Nor is it over before what was written by now is durable."""
        passage.open += 1

        def synced() -> None:
            passage.open -= 1
            if passage.open == 0:
                self.over(passage)

        self._core.after_sync(synced)

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
        at = 0
        for first, last in zip(slots[::2], slots[1::2], strict=False):
            # Slots count up by one, and ranges are in order; where one is longer than what is under way, a
            # neighbour has gone wrong.
            span = range(max(first, at), min(last, channel.slot) + 1)
            at = max(at, span.stop)
            under_way = channel.under_way
            for slot in span if len(span) <= len(under_way) else [it for it in under_way if it in span]:
                self._answered(channel, slot, 0)
        for slot, missing in message.stale:
            self._answered(channel, slot, unpacked(missing))

    def _answered(self, channel: Channel, slot: int, missing: int) -> None:
        passage, size, must = channel.under_way.pop(slot, (None, 0, 0))
        channel.bytes_out -= size
        if passage is not None:
            passage.open -= 1
            passage.missing |= missing & must
            if passage.open == 0:
                self.over(passage)

    def on_link_down(self, link: Link) -> list[str]:
        """Nothing that was under way there will be acknowledged; the roots that this concerns."""
        keys = [key for key in self.channels if key[0] == link.peer]
        for key in keys:
            channel = self.channels.pop(key)
            self._answers.pop(key, None)
            self._credits.pop(key, None)
            for passage, _, must in channel.under_way.values():
                if passage is not None:
                    passage.missing |= must
                    passage.open -= 1
                    if passage.open == 0:
                        self.over(passage)
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


def _ranges(slots: list[int]) -> tuple[int, ...]:
    """Slots as first, last, first, last, …

    >>> _ranges([4, 1, 2, 3, 7])
    (1, 4, 7, 7)
    """
    found: list[int] = []
    for slot in sorted(slots):
        if found and found[-1] == slot - 1:
            found[-1] = slot
        else:
            found += (slot, slot)
    return tuple(found)
