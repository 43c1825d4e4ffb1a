"""What brokers say to carry publications, and to keep copies of them."""

from __future__ import annotations

import msgspec

from tidings.overlay.frames import Data, Message
from tidings.overlay.publication import Publication
from tidings.overlay.trees.messages import Epoch


class Publish(Data, frozen=True, tag=30):
    """A publication, one hop further."""

    root: str
    """The tree it travels."""

    epoch: Epoch

    slot: int
    """Counts up per link session and tree; `Done` refers to it."""

    previous: int
    """Number of the one sent before it, of the same origin and stream, down this link in this epoch."""

    hops: int
    """Links travelled, this one included."""

    qos: int
    """At most that of the publication: the highest that is asked for behind this link."""

    publication: Publication

    @property
    def size(self) -> int:
        return self.publication.size


class Done(Message, frozen=True, tag=31):
    """What has become of publications: slots as a flat list of first, last, first, last, …"""

    root: str

    settled: tuple[int, ...]
    """Acknowledged by everyone behind the sender who must have it."""

    stale: tuple[int, ...]
    """Not taken further, since the epoch has passed; to be sent again in the next."""


class Keep(Data, frozen=True, tag=32):
    """Asks a neighbour to keep a copy until `Forget`, and to send it should its origin be gone."""

    publication: Publication

    @property
    def size(self) -> int:
        return self.publication.size


class Kept(Message, frozen=True, tag=33):
    stream: str
    number: int
    incarnation: int


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
