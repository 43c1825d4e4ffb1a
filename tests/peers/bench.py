"""A bench for peers: a few of them in memory, every message at once or in an order that a test draws.

Time passes when the test says so. Messages take no time unless a link was given a delay. `said` is what was
said about links, in the order sent, one line each: gossip and signs of life are left out.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from tidings.peers.events import (
    Admit,
    Advertised,
    Deliver,
    Effect,
    Joined,
    Left,
    Published,
    Received,
    Report,
    Send,
    Subscribed,
    TimerFired,
)
from tidings.peers.messages import (
    Accept,
    Alive,
    AnyMessage,
    Connect,
    Enquire,
    Event,
    Evict,
    Feed,
    Foresee,
    Leave,
    Profile,
    Refuse,
    Shuffle,
)
from tidings.peers.peer import Peer
from tidings.peers.settings import DEFAULT, PeerSettings
from tidings.space.expressions import Set

QUIET = (Shuffle, Alive, Enquire, Foresee)


class Overlay:
    """Some peers, and what is on its way between them."""

    def __init__(self, settings: PeerSettings = DEFAULT, seed: int = 0) -> None:
        self.settings = settings
        self.now = 0.0
        self.peers: dict[str, Peer] = {}
        self.said: list[str] = []
        self.delivered: dict[str, list[Deliver]] = {}
        self.admitted: dict[str, list[Admit]] = {}
        self.reported: dict[str, list[Report]] = {}
        self.sent: list[tuple[str, str, AnyMessage]] = []
        self.link_s: Callable[[str, str], float] = lambda _from, _to: 0.0
        self._random = random.Random(seed)
        self._way: list[tuple[float, int, str, str, AnyMessage]] = []
        self._count = 0

    def publisher(self, name: str, dz: Set = ("",), settings: PeerSettings | None = None) -> Peer:
        peer = self._new(name, settings)
        self.tell(name, Advertised(dz))
        self.tell(name, Joined(self._others(name)))
        return peer

    def subscriber(
        self,
        name: str,
        *dz: str,
        bound: float,
        allowed: float = 0.0,
        bandwidth: float | None = None,
        settings: PeerSettings | None = None,
    ) -> Peer:
        peer = self._new(name, settings)
        self.tell(name, Subscribed(dz, bound, allowed, bandwidth))
        self.tell(name, Joined(self._others(name)))
        return peer

    def _others(self, name: str) -> tuple[str, ...]:
        return tuple(other for other in self.peers if other != name)

    def _new(self, name: str, settings: PeerSettings | None) -> Peer:
        rng = random.Random(self._random.getrandbits(64))
        peer = Peer(name, life=1, random=rng, settings=settings or self.settings)
        self.peers[name] = peer
        self.delivered[name], self.admitted[name], self.reported[name] = [], [], []
        return peer

    def tell(
        self, name: str, event: Subscribed | Advertised | Joined | Left | Published | Received | TimerFired
    ) -> list[Effect]:
        """Something happens at a peer; what it sends goes on its way."""
        effects = self.peers[name].handle(event, self.now)
        for effect in effects:
            match effect:
                case Send(to, message):
                    self.sent.append((name, to, message))
                    answer = isinstance(message, Feed) and message.sent is not None
                    if not answer and not isinstance(message, QUIET):
                        self.said.append(line(name, to, message))
                    self._count += 1
                    at = self.now + self.link_s(name, to)
                    heapq.heappush(self._way, (at, self._count, name, to, message))
                case Deliver():
                    self.delivered[name].append(effect)
                case Admit():
                    self.admitted[name].append(effect)
                case Report():
                    self.reported[name].append(effect)
        return effects

    def publish(self, name: str, number: int, point: str) -> None:
        self.tell(name, Published(number, point))
        self.settle()

    def settle(self) -> None:
        """Let all arrive that is on its way now."""
        while self._way and self._way[0][0] <= self.now:
            _, _, sender, to, message = heapq.heappop(self._way)
            if to in self.peers:
                self.tell(to, Received(sender, message))

    def cycles(self, count: int = 1) -> None:
        """Let so many cycles pass."""
        until = self.now + count * self.settings.cycle_s
        while True:
            due = [
                (at, name) for name, peer in self.peers.items() if (at := peer.next_deadline()) is not None
            ]
            timer = min(due, default=(until + 1.0, ""))
            arrival = self._way[0][0] if self._way else until + 1.0
            if min(timer[0], arrival) > until:
                break
            self.now = max(self.now, min(timer[0], arrival))
            if arrival <= timer[0]:
                self.settle()
            else:
                self.tell(timer[1], TimerFired())
        self.now = until

    def resubscribe(self, name: str, *dz: str, bound: float) -> None:
        self.tell(name, Subscribed(dz, bound))
        self.settle()

    def leave(self, name: str) -> None:
        """A peer takes leave."""
        self.tell(name, Left())
        self.settle()
        del self.peers[name]

    def kill(self, name: str) -> None:
        """A peer is gone and says nothing."""
        del self.peers[name]

    # What tests ask.

    def links(self) -> set[tuple[str, bool, str]]:
        """Links on which both ends agree: parent, whether it is its standing as a publisher, child."""
        return {
            (parent, root, name)
            for name, peer in self.peers.items()
            for (parent, root), link in peer.parents.items()
            if parent in self.peers
            and (child := self.peers[parent].children.get((name, root))) is not None
            and not child.ghost
            and child.number == link.number
        }

    def tree(self) -> dict[str, list[str]]:
        """The parents of each subscriber."""
        return {
            name: sorted(parent for parent, _ in peer.parents) for name, peer in self.peers.items() if peer.dz
        }


def line(sender: str, to: str, message: AnyMessage) -> str:
    """A message as a person reads it."""
    root = " root" if getattr(message, "root", False) else ""
    match message:
        case Connect(asked=asked):
            rest = f"{root} {sets(asked)}"
        case Accept():
            rest = root
        case Refuse(why=why, hint=hint) | Evict(why=why, hint=hint):
            rest = f"{root} {why.value}" + (f" try {hint.peer}" if hint is not None else "")
        case Leave():
            rest = root
        case Feed(fed=fed, delay=delay):
            rest = f" {sets(fed)} after {delay:g}" if fed else " nothing"
        case Event(number=number, point=point, delay=delay):
            rest = f" {number} at {point} after {delay:g}"
        case _:
            rest = ""
    return f"{sender}>{to} {type(message).__name__}{rest}"


def sets(some: Set) -> str:
    return ",".join(one or "*" for one in some)


def profile(
    peer: str,
    *dz: str,
    bound: float,
    fed: bool = True,
    floor: float = 0.0,
    version: int = 1,
    rates: tuple[float, ...] = (),
    delay: float = 1.0,
) -> Profile:
    """A relay, or with bound 0 a root."""
    return Profile(
        peer,
        version,
        bound == 0.0,
        bound,
        dz,
        dz if fed else (),
        0.0 if bound == 0.0 else delay,
        floor,
        rates,
    )
