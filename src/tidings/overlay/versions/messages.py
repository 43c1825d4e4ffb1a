"""What those who have been told a version of an event need."""

from __future__ import annotations

from tidings.language.subscriptions import Subscription
from tidings.overlay.frames import Data, Message
from tidings.overlay.publication import OVERHEAD_BYTES, Publication
from tidings.overlay.trees.messages import Epoch


class Close(Message, frozen=True, tag=58):
    """Events that are closed: whoever follows them may forget them."""

    root: str
    epoch: Epoch
    place: str

    events: tuple[tuple[str, int], ...]
    """With the last version told: it may still be on its way. 0 for whatever there was."""


class Follow(Message, frozen=True, tag=59):
    """Events of which somebody behind the sender has had a version: later ones must go there too."""

    root: str
    epoch: Epoch
    place: str

    events: tuple[tuple[str, int, int], ...]
    """With the version that everyone there has, and the highest quality of service that somebody asked for. A
    later version has been missed and is sent again."""


class Ask(Message, frozen=True, tag=60):
    """A new subscription asks a seat for its open events."""

    root: str
    epoch: Epoch
    place: str
    broker: str
    """Who asks, and where the answer goes."""
    number: int
    subscription: Subscription


class Snapshot(Data, frozen=True, tag=61):
    """A seat's answer: the latest versions told of open events that match, or that were missed."""

    root: str
    epoch: Epoch
    place: str

    broker: str
    """Who asked; empty for all who follow the events."""

    number: int
    """Of the question."""

    publications: tuple[Publication, ...]

    more: bool = False
    """Whether it goes on in the next."""

    hops: int = 1
    """Links travelled, this one included."""

    qos: int = 0
    """The highest that is asked for where the answer goes."""

    @property
    def size(self) -> int:
        return OVERHEAD_BYTES + sum(publication.size for publication in self.publications)
