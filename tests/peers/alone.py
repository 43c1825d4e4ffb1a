"""One peer, and the others' parts played by the test."""

from __future__ import annotations

import random

from tests.peers.bench import profile
from tidings.peers.events import Advertised, Effect, Joined, Received, Send, Subscribed, TimerFired
from tidings.peers.messages import (
    Accept,
    Alive,
    AnyMessage,
    Connect,
    Enquire,
    Feed,
    Foresee,
    Profile,
    Refuse,
    Shuffle,
    Why,
)
from tidings.peers.peer import Peer
from tidings.peers.settings import DEFAULT, PeerSettings
from tidings.space.expressions import Set


class Alone:
    """A peer `a` that has joined, and time that passes in its cycles."""

    def __init__(
        self,
        *dz: str,
        bound: float = 5.0,
        allowed: float = 0.0,
        bandwidth: float | None = None,
        advertised: Set = (),
        settings: PeerSettings = DEFAULT,
    ) -> None:
        self.peer = Peer("a", life=1, random=random.Random(1), settings=settings)
        self.now = 0.0
        if dz:
            self.peer.handle(Subscribed(dz, bound, allowed, bandwidth), 0.0)
        if advertised:
            self.peer.handle(Advertised(advertised), 0.0)
        self.peer.handle(Joined(("z",)), 0.0)
        self.silent = False
        """Whether parents say nothing."""
        self._number = 100

    def tell(self, sender: str, message: AnyMessage) -> list[Effect]:
        return self.peer.handle(Received(sender, message), self.now)

    def hears(self, sender: str, message: AnyMessage) -> list[tuple[str, AnyMessage]]:
        """What it sends when it hears something."""
        return sends(self.tell(sender, message))

    def knows(self, *profiles: Profile) -> None:
        self.tell("z", Shuffle(profiles, (0,) * len(profiles), answer=True))

    def cycle(self) -> list[tuple[str, AnyMessage]]:
        """What it sends in a cycle, without gossip and signs of life."""
        deadline = self.peer.next_deadline()
        assert deadline is not None
        self.now = deadline
        for parent in [] if self.silent else list(self.peer.parents.values()):
            self.tell(parent.peer, Feed(parent.root, parent.number, parent.fed, parent.delay, parent.hope))
        effects = self.peer.handle(TimerFired(), self.now)
        return [
            (to, message)
            for to, message in sends(effects)
            if not isinstance(message, (Shuffle, Alive, Enquire, Foresee))
        ]

    def denied(self, cycles: int) -> None:
        """Some cycles in which whoever is asked is full."""
        for _ in range(cycles):
            for to, message in self.cycle():
                if isinstance(message, Connect):
                    self.tell(to, Refuse(message.root, message.number, Why.FULL, None, 1.0))

    def asks(self) -> Connect:
        """What it asks for in this cycle."""
        requests = [message for _, message in self.cycle() if isinstance(message, Connect)]
        assert len(requests) == 1, requests
        return requests[0]

    def request(self, peer: str, *dz: str, bound: float, root: bool = False, floor: float = 0.0) -> Connect:
        """What another would say that wants all it subscribes to from this one."""
        self._number += 1
        return Connect(root, self._number, profile(peer, *dz, bound=bound, floor=floor), dz)

    def takes(self, peer: str, *dz: str, bound: float, root: bool = False) -> bool:
        """Whether it takes another as a child."""
        answers = self.hears(peer, self.request(peer, *dz, bound=bound, root=root))
        return any(to == peer and isinstance(message, Accept) for to, message in answers)


def sends(effects: list[Effect]) -> list[tuple[str, AnyMessage]]:
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]
