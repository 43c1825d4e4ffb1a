"""What those who have been told a version of an event need.

All of these travel the tree of a place in one epoch, from a home broker to the broker that has the seat or
back. What is lost with the epoch is said again in the next.
"""

from __future__ import annotations

from tidings.language.subscriptions import Subscription
from tidings.overlay.frames import Data, Message
from tidings.overlay.publication import OVERHEAD_BYTES, Publication
from tidings.overlay.publishing.messages import Places
from tidings.overlay.trees.messages import Epoch


class Close(Message, frozen=True, tag=58):
    """Events that are closed: whoever follows them may forget them."""

    root: str
    epoch: Epoch

    to: Places
    """The homes that have had them, of those behind this link."""

    place: str

    events: tuple[tuple[str, int], ...]
    """With the last version told: it may still be on its way. 0 for whatever there was."""


class Follow(Message, frozen=True, tag=59):
    """Events of which somebody at a home has had a version: later ones must go there too."""

    root: str
    epoch: Epoch
    place: str

    seat: str
    """The broker that it is for: it has the seat, as far as the home knows."""

    home: str

    number: int
    """Of the question what has been missed; the answer is a `Snapshot`."""

    events: tuple[tuple[str, int, int], ...]
    """With the version that everyone there has, and the highest QoS that somebody asked for."""

    @property
    def weight(self) -> int:
        return 1 + len(self.events) // 8


class Unfollow(Message, frozen=True, tag=62):
    """Nobody at a home wants these events, of which it has these versions."""

    root: str
    epoch: Epoch
    place: str

    seat: str
    """The broker that it is for: it has the seat, as far as the home knows."""

    home: str
    events: tuple[tuple[str, int], ...]


class Ask(Message, frozen=True, tag=60):
    """A new subscription asks a seat for its open events."""

    root: str
    epoch: Epoch
    place: str

    seat: str
    """The broker that it is for: it has the seat, as far as the home knows."""

    home: str
    number: int

    version: tuple[int, int]
    """Of the home's set. The seat answers when it has that, so what it tells later goes there by itself."""

    subscription: Subscription


class Snapshot(Data, frozen=True, tag=61):
    """A seat's answer: the latest versions told of open events that match, or that were missed."""

    root: str
    epoch: Epoch
    place: str
    home: str
    number: int
    publications: tuple[Publication, ...]

    more: bool = False
    """Whether it goes on in the next."""

    hops: int = 1
    """Links travelled, this one included."""

    @property
    def size(self) -> int:
        return OVERHEAD_BYTES + sum(publication.size for publication in self.publications)
