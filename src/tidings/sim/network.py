"""What the network does to frames: wires between brokers, and connections over them.

A wire is one direction of a link: it delays, serialises and, where it is told to, loses or repeats frames. A
connection is a pair of ends; between them frames keep their order. When a connection breaks, what is in
flight is lost from some point on, and the two sides learn of it at times of their own, or not at all. Frames
of an old connection may still come in when the next one is already in use. What a frame says is not known
here, but for its size.
"""

from __future__ import annotations

import random
from math import inf
from typing import TYPE_CHECKING

from tidings.overlay.frames import Frame, Message
from tidings.overlay.publishing.messages import Publish

if TYPE_CHECKING:
    from tidings.sim.node import Node

FRAME_BYTES = 16
"""Of a frame, beside its messages."""

MESSAGE_BYTES = 48
"""Of a message, beside its payload: identities and names, about what they take in MessagePack."""


def frame_bytes(frame: Frame) -> int:
    """About how much room a frame takes on the wire."""
    total = FRAME_BYTES
    for message in frame.messages:
        total += MESSAGE_BYTES
        if type(message) is Publish:
            total += len(message.payloads) + sum(len(head.topic) for head in message.heads)
    return total


class Wire:
    """One direction of a link."""

    __slots__ = (
        "_random",
        "bytes_per_s",
        "carried",
        "counts",
        "cuts",
        "delay_s",
        "duplication",
        "frames",
        "free_at",
        "jitter_s",
        "loss",
        "plain",
        "source",
        "target",
    )

    def __init__(
        self,
        source: Node,
        target: Node,
        delay_s: float,
        bytes_per_s: float,
        jitter_s: float,
        random: random.Random,
    ) -> None:
        self.source = source
        self.target = target
        self.delay_s = delay_s
        self.bytes_per_s = bytes_per_s
        self.jitter_s = jitter_s
        """The most by which a frame is later than `delay_s`."""
        self.loss = 0.0
        """The share of numbered frames that never arrive."""
        self.duplication = 0.0
        """The share of numbered frames that arrive twice, the second time out of order."""
        self.cuts = 0
        """How many faults cut it at the moment; nothing passes while there is one."""
        self.free_at = 0.0
        """When the last byte of what was sent will be on the wire."""
        self.frames = 0
        """Frames sent."""
        self.counts: dict[type[Message], int] = {}
        """Messages sent, by kind."""
        self.carried: dict[str, int] = {}
        """What they carried, by the names of `sim.carried`."""
        self.plain = True
        """Whether a frame simply takes `delay_s`."""
        self._random = random
        self.settle_plain()

    def settle_plain(self) -> None:
        """Look again whether the wire has something to decide for each frame."""
        self.plain = self.bytes_per_s == inf and not (self.jitter_s or self.loss or self.duplication)

    def arrivals(self, frame: Frame, now: float) -> tuple[float, float]:
        """When a frame arrives (infinity: never), and when once more; for wires that are not plain."""
        if self.bytes_per_s != inf:
            now = self.free_at = max(now, self.free_at) + frame_bytes(frame) / self.bytes_per_s
        at = now + self.delay_s
        if self.jitter_s:
            at += self.jitter_s * self._random.random()
        # Greetings and heartbeats have no numbers by which a repeat or a hole would be noticed.
        again = inf
        if frame.first and self.loss and self._random.random() < self.loss:
            at = inf
        elif frame.first and self.duplication and self._random.random() < self.duplication:
            again = at + self.delay_s * 4 * self._random.random()
        return at, again


class End:
    """One side of a connection, as the broker there holds it."""

    __slots__ = (
        "boot",
        "cut_at",
        "host",
        "last",
        "late_until",
        "made",
        "number",
        "open",
        "other",
        "used",
        "wire",
    )

    def __init__(self, host: Node, number: int, wire: Wire) -> None:
        self.host = host
        self.boot = host.boot
        self.number = number
        self.wire = wire
        """Out of this end."""
        self.other: End
        """Set when both are there."""
        self.open = True
        """Whether this side takes frames from it."""
        self.made = False
        """Whether the broker here knows of it."""
        self.used = False
        """Whether something other than a greeting was sent from here."""
        self.last = 0.0
        """When the last frame that was sent from here arrives: the next comes no sooner."""
        self.cut_at = inf
        """What would arrive here later than this is lost."""
        self.late_until = 0.0
        """What arrives here sooner than this is kept until then."""


def connect(one: End, other: End) -> None:
    """Make two ends a connection."""
    one.other = other
    other.other = one


def sever(end: End, now: float, source: random.Random) -> float:
    """Break what comes in at an end; answers when the last frame that is not lost has arrived.

    Of the frames in flight a random first part arrives, sometimes late.
    """
    end.cut_at = min(end.cut_at, source.uniform(now, max(now, end.other.last)))
    if end.other.last > now and source.random() < 0.5:
        end.late_until = max(end.late_until, now + source.choice((0.05, 0.5, 3.0)) * source.random())
    return max(end.cut_at, end.late_until)
