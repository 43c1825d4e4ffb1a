"""What clients asked for, were promised, did and got: all that the checkers of promises may know.

Every line has a turn, which counts up: of two lines the one with the smaller turn came first, also within one
moment of virtual time. Brokers, links and trees do not occur here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.language.subscriptions import Subscription
from tidings.overlay.publication import Publication

ABSENT = "absent: "
"""How the reason of a grant begins that names brokers out of reach."""


@dataclass(slots=True)
class Life:
    """A session: from the moment it was opened to the moment that nothing of it is left."""

    session: str
    host: str
    durable: bool

    ended: int | None = None
    """The turn in which its client left, if it was not durable, or in which its disk was lost."""


@dataclass(slots=True)
class Wish:
    """A subscription that a client asked for."""

    session: str
    name: str
    host: str
    subscription: Subscription
    asked: int

    granted: int | None = None
    """The turn of the grant without reservation."""

    settling: int | None = None
    """The turn of a grant with a reason, "settling" or "absent: c": not yet a promise for every broker."""

    absent: tuple[str, ...] = ()
    """The brokers that such a grant names; it is a promise for what is published at all others."""

    denied: str | None = None

    replaced: Wish | None = None
    """What stood under the same name before; a denial leaves it in force."""

    ended: int | None = None
    """The turn in which its broker was told that it is not wanted any more, or its session ended."""

    forgotten: bool = False
    """Whether a crash came after the end, so that the broker may not know of the end."""


@dataclass(slots=True)
class Offer:
    """A publication that a client offered."""

    number: int
    """Counts all offers."""

    session: str
    host: str

    incarnation: int
    """The life of the broker's disk that it was offered to."""

    topic: str
    payload: bytes
    qos: int
    at: float
    turn: int

    accepted: int | None = None
    """The turn of the broker's acceptance."""

    rejected: str | None = None


class Delivery(NamedTuple):
    """A publication that was handed to sessions."""

    turn: int
    """In which its broker decided it."""

    at: float
    """When it was the sessions' own."""

    host: str
    publication: Publication
    subscriptions: tuple[tuple[str, str], ...]
    hops: int


@dataclass(slots=True)
class Trace:
    """All of it, in the order in which it happened."""

    turn: int = 0
    lives: dict[str, Life] = field(default_factory=dict)
    wishes: list[Wish] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)

    wiped: list[tuple[int, str]] = field(default_factory=list)
    """Hosts whose disk was lost, with the turn."""

    joined: list[tuple[int, str]] = field(default_factory=list)
    """Hosts that came into a network that was there already, with the turn."""

    current: dict[tuple[str, str], Wish] = field(default_factory=dict)
    """The wish that stands, by session and name."""

    _tokens: dict[tuple[str, int], Offer] = field(default_factory=dict)

    def opened(self, session: str, host: str, durable: bool) -> None:
        """A client came, for the first time or again."""
        self.turn += 1
        if session not in self.lives:
            self.lives[session] = Life(session, host, durable)

    def ended(self, session: str) -> None:
        """Nothing is left of a session."""
        self.turn += 1
        life = self.lives[session]
        if life.ended is None:
            life.ended = self.turn
        for key in [key for key in self.current if key[0] == session]:
            self._end(self.current.pop(key))

    def asked(self, session: str, name: str, subscription: Subscription) -> Wish:
        """A broker is told of a subscription."""
        self.turn += 1
        before = self.current.get((session, name))
        if before is not None:
            self._end(before)
        wish = Wish(session, name, self.lives[session].host, subscription, self.turn, replaced=before)
        self.wishes.append(wish)
        self.current[session, name] = wish
        return wish

    def granted(self, session: str, name: str, reason: str) -> None:
        """A broker has said that it stands."""
        self.turn += 1
        if (wish := self.current.get((session, name))) is not None:
            if not reason:
                wish.granted = wish.granted or self.turn
            else:
                wish.settling = self.turn
                if reason.startswith(ABSENT) and not reason.endswith(" more"):
                    wish.absent = tuple(reason.removeprefix(ABSENT).split(", "))

    def denied(self, session: str, name: str, reason: str) -> None:
        """A broker has refused it."""
        self.turn += 1
        if (wish := self.current.pop((session, name), None)) is not None:
            wish.denied = reason
            self._end(wish)
            if wish.replaced is not None:
                wish.replaced.ended = None
                self.current[session, name] = wish.replaced

    def dropped(self, session: str, name: str) -> None:
        """A broker is told that it is not wanted any more."""
        self.turn += 1
        if (wish := self.current.pop((session, name), None)) is not None:
            self._end(wish)

    def offered(
        self, session: str, host: str, incarnation: int, topic: str, payload: bytes, qos: int, at: float
    ) -> Offer:
        """A client offers a publication; its number is the token."""
        self.turn += 1
        offer = Offer(len(self.offers), session, host, incarnation, topic, payload, qos, at, self.turn)
        self.offers.append(offer)
        if qos:
            self._tokens[session, offer.number] = offer
        return offer

    def accepted(self, session: str, token: int) -> None:
        """A broker has taken charge of it."""
        self.turn += 1
        if (offer := self._tokens.pop((session, token), None)) is not None:
            offer.accepted = self.turn

    def rejected(self, session: str, token: int, reason: str) -> None:
        """A broker has not taken it."""
        self.turn += 1
        self._tokens.pop((session, token), None)
        self.offers[token].rejected = reason

    def crashed(self, host: str, wiped: bool) -> None:
        """A broker died; sessions that were in its memory alone, or on a disk that is lost, are at an end."""
        self.turn += 1
        for life in list(self.lives.values()):
            if life.host == host and life.ended is None and (wiped or not life.durable):
                self.ended(life.session)
        for wish in self.wishes:
            if wish.host == host and wish.ended is not None:
                wish.forgotten = True
        if wiped:
            self.wiped.append((self.turn, host))

    def _end(self, wish: Wish) -> None:
        wish.ended = self.turn
