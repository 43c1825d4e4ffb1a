"""What brokers say about subscriptions, and about what the whole network knows."""

from __future__ import annotations

import msgspec

from tidings.overlay.frames import Message
from tidings.overlay.trees.messages import Epoch

FILTER = 1
"""The kind of an item of a set that is a subscription."""


class Item(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One item of a home broker's set."""

    kind: int
    """One that is not understood is kept and passed on."""

    key: int
    """Given by the home; never to two items in one boot."""

    value: bytes
    """What it says, in MessagePack."""


class Has(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker and the version of its set of subscriptions that is known."""

    home: str
    boot: int
    number: int

    absent_s: float = -1.0
    """If it is out of reach: for how many seconds more something is held for it."""

    omitted: int = 0
    """Items of it that the sender does not keep, since there are too many."""


class Sets(Message, frozen=True, tag=20):
    """Which sets the sender has, of all homes or of some.

    Said at the start of a link session, and when a set has come as a whole.
    """

    homes: tuple[Has, ...]

    gone: tuple[tuple[str, int, int], ...] = ()
    """Brokers of which it was said that they are gone for good, each with the boot in which it was: the count
    is odd while that holds, and even when it has come back in that boot."""

    @property
    def weight(self) -> int:
        return 1 + len(self.homes) + len(self.gone)


class Fetch(Message, frozen=True, tag=21):
    """Asks for what the receiver has of a set beyond a version."""

    home: str
    boot: int
    number: int


class Change(Message, frozen=True, tag=22):
    """What has changed in a home's set: passed on to all neighbours but the one it came from."""

    home: str
    boot: int

    number: int
    """Counts up by one in a boot."""

    added: tuple[Item, ...]

    removed: tuple[int, ...] = ()
    """Keys."""

    whole: bool = False
    """Whether it is all there is, and not what has changed since the number before."""

    part: int = 0
    """Counts the messages of one change."""

    more: bool = False
    """Whether it goes on in the next."""

    omitted: int = 0
    """Items that a whole set has besides these, and that the sender does not keep: until they are here,
    everything is for that home."""

    @property
    def weight(self) -> int:
        size = sum([len(item.value) for item in self.added])
        return 1 + len(self.added) + size // 1024 + len(self.removed) // 8


class Confirm(Message, frozen=True, tag=23):
    """Homes and the versions of their sets that all behind the sender have, and have on disk that they do."""

    root: str
    epoch: Epoch
    homes: tuple[tuple[str, int, int], ...]

    late: tuple[str, ...] = ()
    """Those behind the sender that are waited for, if that takes long."""

    @property
    def weight(self) -> int:
        return 1 + len(self.homes)


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
