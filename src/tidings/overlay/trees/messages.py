"""What brokers say to grow and repair trees."""

from __future__ import annotations

from tidings.overlay.frames import Message

Epoch = tuple[int, int]
"""Of a tree: (boot of its root, count). A larger one is newer."""


class Distance(Message, frozen=True, tag=10):
    """How far the sender is from a root."""

    root: str

    series: Epoch
    """Given by the root; distances of one series only shrink."""

    hops: int
    """-1: the sender knows no way."""


class Seek(Message, frozen=True, tag=11):
    """Asks, towards the root, for distances of a newer series than this."""

    root: str
    series: Epoch


class Grow(Message, frozen=True, tag=12):
    """The tree of a root in a new epoch; the sender is in it, and is not a child of the receiver."""

    root: str
    epoch: Epoch

    share: tuple[str, ...]
    """The roots between which undeclared topics are divided in this epoch."""


class Join(Message, frozen=True, tag=13):
    """The sender is in the tree in this epoch as a child of the receiver."""

    root: str
    epoch: Epoch


class Regrow(Message, frozen=True, tag=14):
    """Asks, towards the root, for a newer epoch than this: it is broken, or a shorter way is known."""

    root: str
    epoch: Epoch


class Roll(Message, frozen=True, tag=15):
    """Who is behind the sender in the tree."""

    root: str
    epoch: Epoch

    members: tuple[tuple[str, int, int, int], ...]
    """Broker, boot, incarnation, and the number of its set of subscriptions by then; sorted."""

    declared: int = -1
    """A digest of the topic filters whose declarations name this root; -1 if those behind the sender do not
    all know of the same ones."""

    @property
    def weight(self) -> int:
        return 1 + len(self.members)
