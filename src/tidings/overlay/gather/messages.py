"""What brokers say to find seats, to bring reports there, and to copy what a seat has.

`centre` has the protocols of the search.
"""

from __future__ import annotations

import msgspec

from tidings.overlay.frames import Data, Message
from tidings.overlay.publication import OVERHEAD_BYTES, Publication
from tidings.overlay.publishing.messages import Logged
from tidings.overlay.trees.messages import Epoch


class Load(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is behind one link of a tree, seen from this end, about one thing that is surveyed."""

    height: int
    """Links to the farthest broker that counts, this link included; -1 if none does."""

    weight: int
    """The sum of the weights behind it."""

    moment: int
    """The sum of weight times links, this link included."""


class Holder(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """Who is known to have a seat. The larger one is the later."""

    term: int
    """Counts the changes of who has a seat and who is its deputy. Two sides of a partition may both count one
    further; then the larger seat id is taken for the later."""

    seat: str

    boot: int
    """Of the seat: one that was started anew has lost what was not copied."""

    deputy: str
    """The broker with a copy; empty for none."""


class Surveyed(msgspec.Struct, frozen=True, array_like=True, tag_field="what", gc=False):
    """The base of what is said in the search for seats. All of one search has its age."""

    counter: int
    initiator: str
    """Searches are ordered: the higher counter, then the smaller initiator, is the newer one."""


class Init(Surveyed, frozen=True, tag=1):
    """A search has begun."""


class Update(Surveyed, frozen=True, tag=2):
    """The receiver's eccentricity in the sender's direction is at least this."""

    eccentricity: int


class Stable(Surveyed, frozen=True, tag=3):
    """The receiver's eccentricity in the sender's direction is this, for good."""

    eccentricity: int


class Ecc(Surveyed, frozen=True, tag=4):
    """The eccentricity of the sender."""

    eccentricity: int


class Announce(Surveyed, frozen=True, tag=5):
    """A broker has found that it is the best place for something."""

    about: str
    """What was surveyed, as in `Report.loads`."""

    strategy: str
    broker: str

    cost: int = 0
    """What a seat there costs: links to the farthest for a centre, else the sum of weight times links."""

    ring: tuple[str, ...] = ()
    """The brokers around it, nearest first, itself included."""


class Report(Surveyed, frozen=True, tag=6):
    """All that is behind the sender, in one message."""

    loads: dict[str, Load]
    """By what is surveyed: "" is the tree with weight 1 for each broker, others are topics with what they
    weigh, or with `centre.USED` behind the name the parts of the tree that topics use."""

    holders: dict[str, Holder]
    """By place: the latest holder that is known behind the sender."""

    around: tuple[tuple[str, int], ...] = ()
    """The nearest brokers behind this link and how many links away they are; as many as a ring needs."""


AnySurveyed = Init | Update | Stable | Ecc | Announce | Report


class Survey(Message, frozen=True, tag=50):
    """One message of the search for centre, median and traffic seats of a tree in an epoch."""

    root: str
    epoch: Epoch

    body: AnySurveyed
    """What is said, see `centre`."""


Term = int
"""Counts the holders of a seat: a larger one is later."""


class Carry(Data, frozen=True, tag=51):
    """A report, one hop nearer to the seat."""

    root: str
    epoch: Epoch

    place: str
    """The seat's: the name of the declaration, and which of its seats."""

    holder: Holder
    """Who is believed to have the seat; of two beliefs the later one counts."""

    previous: int
    """The number of the report that its origin sent to this place before it, 0 for the first since it
    started: none may be taken before the one before it."""

    hops: int

    report: Publication
    """Its `stream` is the place, its `number` counts up within origin and incarnation. One without payload is
    none, and only has a number."""

    dropped: int = 0
    """How many reports its origin did not send since the one before, as they would have been redundant."""

    @property
    def size(self) -> int:
        return self.report.size


class Known(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a seat lets an origin know of reports that it has taken, so that it need not send such again."""

    seat: str
    boot: int

    at_us: int
    """What the clock of the seat shows, after it has taken them."""

    absorbed: tuple[tuple[int, str, int], ...]
    """Number of a report, the event that now says all it says, and until when one that says the same would
    be redundant, by the clock of the seat."""


class Taken(Message, frozen=True, tag=52):
    """What a seat says to an origin: all its reports up to a number are safe."""

    root: str
    epoch: Epoch
    place: str
    origin: str
    incarnation: int
    number: int

    again: bool = False
    """Whether one is missing behind that, and all later ones must be sent again."""

    known: Known | None = None
    """What need not be sent again, where reports may be dropped on the way."""


class Seated(Message, frozen=True, tag=53):
    """Who has a seat, told to the whole tree."""

    root: str
    epoch: Epoch
    place: str
    holder: Holder

    counts: tuple[int, ...] = ()
    """What the seat has counted: events open, then received, opened, merged, redundant, refused, conflicts,
    told and closed; empty if it says nothing of them."""


class Ended(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event that was closed: how far it had come."""

    event: str
    version: int
    """The last one."""

    merged: dict[str, int]
    """How many reports had changed it, by branch."""


class Mirror(Data, frozen=True, tag=54):
    """What has changed at a seat, for its deputy, or for the broker that the seat is handed to."""

    root: str
    epoch: Epoch
    place: str
    term: Term

    number: int
    """Of the latest change that is in it. Counts up while one broker has the seat."""

    entries: tuple[tuple[str, bytes], ...]
    """Events that have changed, and their copies, see `gathering.copies`."""

    closed: tuple[Ended, ...]
    """Events that are open no more, and that everyone has."""

    confirmed: tuple[tuple[str, int], ...]
    """Versions of events that everyone has who must."""

    marks: tuple[tuple[str, int, int], ...]
    """Origin, incarnation and number of the latest report taken."""

    whole: bool = False
    """Whether it is part of a copy of all there is, and not what has changed since the last."""

    more: bool = False
    """Whether the copy goes on in the next."""

    log: tuple[Logged, ...] = ()
    """What the seat has told of a topic that is kept, once it is on its own disk."""

    incarnation: int = 0
    """Of the seat: the life under which it has numbered these entries."""

    @property
    def size(self) -> int:
        copied = _copies_size(self.entries, self.marks)
        return copied + sum(OVERHEAD_BYTES + len(logged.payload) for logged in self.log)


class Mirrored(Message, frozen=True, tag=55):
    """The deputy has all of a seat's changes up to a number; 0 if it must be given all there is."""

    root: str
    epoch: Epoch
    place: str
    term: Term
    number: int


class HandOver(Data, frozen=True, tag=56):
    """All that the sender has of a place it may no longer gather at, on its way to who may."""

    root: str
    epoch: Epoch
    place: str

    term: Term
    """Of the receiver: it has the seat from now on, if it did not before."""

    to: str

    boot: int
    """Of the receiver: one that was started anew, perhaps without its disk, has not the seat that it had."""

    sender: str
    number: int
    """Given by the sender, for the answer."""

    entries: tuple[tuple[str, bytes, int], ...]
    """Events, their copies, and how many microseconds ago those were made."""

    marks: tuple[tuple[str, int, int], ...]
    more: bool = False

    closed: tuple[Ended, ...] = ()
    """Events that were closed by the sender lately."""

    @property
    def size(self) -> int:
        return _copies_size(self.entries, self.marks)


class HandedOver(Message, frozen=True, tag=57):
    """What was handed over is safe."""

    root: str
    epoch: Epoch
    place: str
    term: Term
    to: str
    """The one who handed it over."""
    number: int


def _copies_size(
    entries: tuple[tuple[str, bytes], ...] | tuple[tuple[str, bytes, int], ...],
    marks: tuple[tuple[str, int, int], ...],
) -> int:
    """What copies of events and marks of reports count for, in bytes."""
    return OVERHEAD_BYTES * (1 + len(marks)) + sum(len(entry[1]) for entry in entries)
