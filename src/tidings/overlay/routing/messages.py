"""What brokers say about subscriptions, and about what the whole network knows."""

from __future__ import annotations

import msgspec

from tidings.language.subscriptions import Subscription
from tidings.overlay.frames import Message
from tidings.overlay.trees.messages import Epoch


class Table(Message, frozen=True, tag=20):
    """All that those behind the sender ask for, in this epoch; replaces what was known."""

    root: str
    epoch: Epoch
    subscriptions: tuple[Subscription, ...]

    more: bool = False
    """Whether it goes on in the next `Table`."""

    @property
    def weight(self) -> int:
        return 1 + len(self.subscriptions)


class Subscribe(Message, frozen=True, tag=21):
    root: str
    epoch: Epoch
    subscription: Subscription


class Unsubscribe(Message, frozen=True, tag=22):
    root: str
    epoch: Epoch
    subscription: Subscription


class Installed(Message, frozen=True, tag=25):
    """The first `count` of Table, Subscribe, … in this epoch are known to all behind the sender."""

    root: str
    epoch: Epoch
    count: int


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry of the catalogue that every broker has: a declared topic, a view."""

    kind: str
    """"topic" or "view"."""

    name: str

    version: int
    """Counts up; of two with one version the larger broker id wins."""

    broker: str
    """Where it was made; empty if it is from a configuration file."""

    text: str
    """A declaration as TOML, a view as JSON; empty if it was removed."""

    removed_at_us: int = 0
    """When it was removed; 0 while it holds."""

    after: tuple[int, ...] = ()
    """Digests of the latest that it took the place of, the last one first: those have not lost, they are
    the past."""


class Catalogue(Message, frozen=True, tag=40):
    """All entries that the sender has, at the start of a link session."""

    entries: tuple[Entry, ...]

    more: bool = False
    """Whether it goes on in the next `Catalogue`."""

    @property
    def weight(self) -> int:
        return sum(1 + len(entry.text) // 1024 for entry in self.entries) + 1


class Enter(Message, frozen=True, tag=41):
    """A new or newer entry, told to every neighbour but the one it came from."""

    entry: Entry

    @property
    def weight(self) -> int:
        return 1 + len(self.entry.text) // 1024
