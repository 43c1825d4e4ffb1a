"""What a program that is attached to a broker and that broker say to each other.

A program connects where brokers do. Its first frame holds `Attach` in the place of `Greet`, and from there on
both sides speak only the words below, in frames whose `first` and `ack` are 0. They tell what
`overlay.events` tells, for one session; what a session is owed, and for how long, is not known here.
"""

from __future__ import annotations

from tidings.language.subscriptions import Advertisement, Subscription
from tidings.overlay.frames import Message
from tidings.overlay.links.proofs import proof as proved
from tidings.overlay.publication import Publication


class Word(Message, frozen=True):
    """The base of what is said on an attachment."""


class Attach(Word, frozen=True, tag=100):
    """The program's first word, said again with a proof when the broker answers with `Challenge`."""

    session: str
    """Names the session in this broker; a second connection takes it from the first."""

    durable: bool = False
    """Whether subscriptions and publications are kept while the program is away."""

    proof: bytes = b""
    """See `proof`; empty where there is no cluster token."""


class Challenge(Word, frozen=True, tag=104):
    """The broker's answer where there is a cluster token and no proof was given."""

    nonce: bytes
    """To be signed; fresh for this connection."""


class Attached(Word, frozen=True, tag=101):
    """The broker's answer to `Attach`."""

    resumed: bool
    """Whether the session was there before, with its subscriptions."""


class Refused(Word, frozen=True, tag=102):
    """The other answer; the connection is closed behind it."""

    reason: str


class Leave(Word, frozen=True, tag=103):
    """One side goes on purpose."""

    for_good: bool = False
    """Whether a durable session ends with it; said by programs."""

    reason: str = ""
    """Said by brokers."""


class Ask(Word, frozen=True, tag=110):
    """Subscribe; asking again by the same name replaces it."""

    name: str
    subscription: Subscription


class Drop(Word, frozen=True, tag=111):
    """Unsubscribe."""

    name: str


class Granted(Word, frozen=True, tag=112):
    """The subscription is installed."""

    name: str

    reason: str
    """"settling" if a broker has not confirmed in time, "absent: c" if all have that are in reach."""


class Denied(Word, frozen=True, tag=113):
    """The subscription or advertisement is refused."""

    name: str
    reason: str


class Announce(Word, frozen=True, tag=114):
    """Advertise."""

    name: str
    advertisement: Advertisement


class Withdraw(Word, frozen=True, tag=115):
    """Unadvertise."""

    name: str


class Offer(Word, frozen=True, tag=120):
    """Publish."""

    token: int
    """The program's own number for it, given back by `Accepted` and `Rejected`."""

    topic: str
    payload: bytes
    qos: int = 0
    content_type: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    retain: bool = False


class Accepted(Word, frozen=True, tag=121):
    """The publication is safe. Not said for QoS 0."""

    token: int


class Rejected(Word, frozen=True, tag=122):
    token: int
    reason: str


class Delivered(Word, frozen=True, tag=130):
    """A publication for the program, once for all its subscriptions that match."""

    number: int
    """To be given back by `Taken`; 0 if nothing is kept and nothing need be said."""

    publication: Publication

    names: tuple[str, ...]
    """The subscriptions that match, sorted."""

    hops: int
    """Links between brokers that it travelled."""

    repeat: bool = False
    """Whether it may have been sent before, on a connection that broke before `Taken` was heard."""


class Taken(Word, frozen=True, tag=131):
    """The program has these and will not ask for them again."""

    numbers: tuple[int, ...]


AnyWord = (
    Attach
    | Challenge
    | Attached
    | Refused
    | Leave
    | Ask
    | Drop
    | Granted
    | Denied
    | Announce
    | Withdraw
    | Offer
    | Accepted
    | Rejected
    | Delivered
    | Taken
)
"""For decoders."""


def proof(token: str, nonce: bytes, session: str) -> bytes:
    """What a program says to show that it knows the cluster token, for one connection and session."""
    return proved(token, "attachment", nonce, session)
