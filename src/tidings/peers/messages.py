"""What peers say to each other.

A peer may stand in an overlay twice: as a *root*, which has only what it publishes itself and has it at once,
and as a *relay*, which passes on what it receives. A link goes from one standing of a peer down to the relay
of another. A message about a link says which standing of the parent it is about (`root`) and the number of
the request that made it, so that one that comes late cannot be taken for a later one. Numbers of a peer only
grow, also over restarts. Between two peers messages may be lost, late or out of order.

How they become bytes is not known here. Fields are only ever added at the end, with a default.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from tidings.space.expressions import Set

LIFE_SHIFT = 32
"""Bits of a version below the life."""


class Profile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is known of one standing of a peer. It travels in gossip."""

    peer: str

    version: int
    """The larger one is the newer: the peer's life, then how often it has spoken of itself in that."""

    root: bool
    """Whether it is its standing as a publisher."""

    bound: float
    """The delay that it tolerates; 0 of a root."""

    dz: Set
    """What it subscribes to now at peer level, or advertises."""

    fed: Set
    """The part of it that it really gets: all of it at a root."""

    delay: float
    """How late it gets it; at a relay that gets nothing without meaning."""

    floor: float
    """What one who asks must exceed in volume to be taken; 0 while there is room."""

    rates: tuple[float, ...] = ()
    """Events a second in each member of `dz`, as measured; empty if nothing was."""

    hope: bool = True
    """Whether it gets all of it, or is still likely to find who feeds it."""

    @property
    def life(self) -> int:
        """How often it had started when it said this."""
        return self.version >> LIFE_SHIFT


class Why(Enum):
    """Why a parent says no."""

    BOUND = "bound"
    """It is not tighter than who asks."""

    COVER = "cover"
    """It does not subscribe to all that is asked for, or no longer."""

    FULL = "full"
    """It has as many children as it may, and would rather keep those."""

    ROLE = "role"
    """It is no publisher, or no subscriber."""

    STRANGER = "stranger"
    """It knows nothing of this link."""

    LEAVING = "leaving"
    """It goes, or begins anew with another subscription."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", gc=False):
    """The base of all messages."""


class Connect(Message, frozen=True, tag=1):
    """Asks to be fed: CONNECT of Algorithm 1. Said again, it replaces what was asked before."""

    root: bool
    number: int

    profile: Profile
    """Of who asks, as a relay."""

    asked: Set
    """Canonical; parts of what it subscribes to."""

    sent: float = 0.0
    """When, by the sender's clock; comes back with the answer."""


class Accept(Message, frozen=True, tag=2):
    """The answer yes: ACK."""

    root: bool
    number: int

    profile: Profile
    """Of the parent."""

    sent: float = 0.0
    """As it was in what is answered. Who asked goes by what it remembers of the request of this number."""


class Refuse(Message, frozen=True, tag=3):
    """The answer no, with a hint who might say yes: POTENTIALPARENT."""

    root: bool
    number: int
    why: Why

    hint: Profile | None = None

    floor: float = 0.0
    """If it is full: what must be exceeded in volume."""


class Evict(Message, frozen=True, tag=4):
    """A parent ends a link: DISCONNECT and POTENTIALPARENT in one."""

    root: bool
    number: int
    why: Why
    hint: Profile | None = None

    floor: float = 0.0
    """As of `Refuse`."""


class Leave(Message, frozen=True, tag=5):
    """A child ends a link: DISCONNECT. It frees the place, if no later request was taken."""

    root: bool
    number: int


class Alive(Message, frozen=True, tag=6):
    """A child is there and wants to be fed on; said every cycle."""

    root: bool
    number: int
    sent: float = 0.0

    profile: Profile | None = None
    """If it has changed in what matters to a parent."""

    asked: Set | None = None
    """What it wants by the request of this number, until the parent is known to have that."""


class Feed(Message, frozen=True, tag=7):
    """What a parent gets, and so its children: the answer to `Alive`, and said at once when it changes."""

    root: bool
    number: int
    fed: Set
    delay: float

    hope: bool = True
    """As in its profile."""

    sent: float | None = None
    """As it was in `Alive`; none if it is not an answer."""


class Shuffle(Message, frozen=True, tag=8):
    """Gossip: some of the peers that the sender knows."""

    profiles: tuple[Profile, ...]
    """The sender's own come first."""

    ages: tuple[int, ...]
    """For each of them, how many cycles ago its peer said so."""

    answer: bool = False
    """Whether it is the answer to another one."""


class Enquire(Message, frozen=True, tag=9):
    """A newcomer asks what it may expect."""

    number: int
    dz: Set
    bound: float
    allowed: float


class Foresee(Message, frozen=True, tag=10):
    """The answer: whether the bound can be met now, and at what waste."""

    number: int
    met: bool

    waste: float
    """The share of all events of the topic that must be accepted; if it is not met, what would be needed."""

    parent: Profile | None
    """Who would feed it."""

    text: str
    """In words, if it is not met without waste."""

    knows: bool = True
    """Whether the sender knows any publisher; one that does not cannot tell."""


class Event(Message, frozen=True, tag=20):
    """Something published, on its way down."""

    publisher: str

    number: int
    """Given by the publisher's driver; with the publisher it is the event's identity."""

    point: str
    """Where it lies in the event space: an expression as deep as the publisher makes it."""

    delay: float
    """How late it is where it was sent from: hops, or the sum of the links' delays."""

    payload: bytes = b""


AnyMessage = Connect | Accept | Refuse | Evict | Leave | Alive | Feed | Shuffle | Enquire | Foresee | Event
