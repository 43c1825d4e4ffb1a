"""What brokers say to carry publications, and to keep copies of them."""

from __future__ import annotations

import msgspec

from tidings.overlay.frames import Data, Message
from tidings.overlay.publication import OVERHEAD_BYTES, Head, Publication, Told
from tidings.overlay.trees.messages import Epoch

Places = bytes | tuple[int, ...]
"""Some members of an epoch: their places in the order of ids, or, where that is shorter, a bit for each, that
of the first the lowest."""


class Publish(Data, frozen=True, tag=30):
    """Publications of one stream, one hop further. Lists have one item for each."""

    root: str
    """The tree they travel."""

    epoch: Epoch
    origin: str
    incarnation: int
    stream: str

    slot: int
    """Of the first, the others count up. Counts up per link session and tree; `Done` refers to it."""

    hops: int
    """Links travelled, this one included."""

    numbers: tuple[int, ...]

    previous: tuple[int, ...]
    """Numbers of those sent before them, of the same stream, down this link in this epoch."""

    to: tuple[Places, ...]
    """Who gets them, of those behind this link."""

    must: tuple[Places, ...]
    """Who must have them before they are acknowledged. Without any item: who gets them."""

    heads: tuple[Head, ...]
    """Those that occur, …"""

    which: tuple[int, ...]
    """… and the place of each one's there. Without any item: the first."""

    at_us: tuple[int, ...]
    """When they entered."""

    ends: tuple[int, ...]
    """Where their payloads end in `payloads`."""

    payloads: bytes

    told: tuple[Told, ...] = ()
    """What they are, if a seat told them."""

    @property
    def size(self) -> int:
        return OVERHEAD_BYTES * len(self.numbers) + len(self.payloads)


class Done(Message, frozen=True, tag=31):
    """What has become of publications."""

    root: str

    settled: tuple[int, ...]
    """Acknowledged by everyone behind the sender who must have them: slots as first, last, first, last, …"""

    stale: tuple[tuple[int, Places], ...]
    """Slots of those that some have not been sent, since the epoch has passed, and who that is: they are sent
    again in the next."""


class Keep(Data, frozen=True, tag=32):
    """Asks a neighbour to keep a copy until `Forget`, and to send it should its origin be gone."""

    publication: Publication

    names: tuple[str, ...] = ()
    """Brokers that must have it whatever it matches: they have had an earlier version."""

    @property
    def size(self) -> int:
        return self.publication.size


class Kept(Message, frozen=True, tag=33):
    """Copies that are safe: the answer to `Keep`, and said of all at the start of a link session."""

    stream: str
    incarnation: int
    numbers: tuple[int, ...]

    @property
    def weight(self) -> int:
        return 1 + len(self.numbers) // 8


class Forget(Message, frozen=True, tag=34):
    """Copies that need not be kept any longer; without a stream, all of this sender and incarnation."""

    stream: str
    incarnation: int
    numbers: tuple[int, ...]


class Logged(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An entry of a seat's log, for its deputy: a version that it told, under the seat's number."""

    name: str
    """Of the topic, as declared."""

    number: int
    at_us: int
    topic: str
    payload: bytes
    content_type: str
    event: str
    version: int
    reports: int
    complete: bool
    state: str
