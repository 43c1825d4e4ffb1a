"""A client in the simulation: it holds a session at one broker, and comes back when that broker does.

What it wants it says again where the broker cannot know it any more. It offers a publication once: what was
not accepted before its broker died may have been taken or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidings.language.subscriptions import Subscription
from tidings.overlay.events import (
    SessionClosed,
    SessionEnded,
    SessionOpened,
    SubscriptionAsked,
    SubscriptionDropped,
)

if TYPE_CHECKING:
    from tidings.sim.brokers.trace import Offer
    from tidings.sim.node import Node
    from tidings.sim.world import World


class Client:
    """Somebody who publishes and subscribes."""

    __slots__ = ("_lives", "_over", "_world", "attached", "dropped", "durable", "host", "name", "wanted")

    def __init__(self, world: World, host: Node, name: str, durable: bool) -> None:
        self._world = world
        self.host = host
        self.name = name
        self.durable = durable
        """Whether its session outlives its connection and its broker's restart."""
        self.attached = False
        """Whether it is connected, or will be as soon as its broker runs."""
        self.wanted: dict[str, Subscription] = {}
        self.dropped: dict[str, None] = {}
        """Subscriptions that it had, of which a broker with an old disk may not know that they ended."""
        self._lives = 0
        self._over = False
        """Whether its broker was told of the end of its session, and may not have had time to hear it."""
        host.clients.append(self)

    @property
    def session(self) -> str:
        """The name of its session: a new one for each time that it begins anew."""
        return self.name if self._lives == 0 else f"{self.name}~{self._lives}"

    def attach(self) -> None:
        """Connect, and say again what may have been forgotten."""
        self.attached = True
        if not self.host.up:
            return
        world, session = self._world, self.session
        life = world.ledger.lives.get(session)
        if self._over or (life is not None and life.ended is not None):
            self._lives += 1
            self._over = False
            session = self.session
        world.tell_client(self.host, SessionOpened(session, self.durable))
        for name in self.dropped:
            world.tell_client(self.host, SubscriptionDropped(session, name))
        for name, subscription in self.wanted.items():
            wish = world.ledger.current.get((session, name))
            if wish is None or (wish.granted is None and wish.settling is None):
                world.tell_client(self.host, SubscriptionAsked(session, name, subscription))

    def detach(self) -> None:
        """Disconnect; a durable session stays."""
        self.attached = False
        if self.host.up:
            self._over = not self.durable
            self._world.tell_client(self.host, SessionClosed(self.session))

    def leave(self) -> None:
        """Disconnect for good."""
        self.attached = False
        self.wanted.clear()
        if self.host.up:
            self._over = True
            self._world.tell_client(self.host, SessionEnded(self.session))

    def subscribe(self, name: str, subscription: Subscription) -> None:
        """Ask for something, or for something else under the same name."""
        self.wanted[name] = subscription
        self.dropped.pop(name, None)
        if self.attached and self.host.up:
            self._world.tell_client(self.host, SubscriptionAsked(self.session, name, subscription))

    def unsubscribe(self, name: str) -> None:
        """Take it back."""
        if self.wanted.pop(name, None) is not None:
            self.dropped[name] = None
            if self.attached and self.host.up:
                self._world.tell_client(self.host, SubscriptionDropped(self.session, name))

    def publish(self, topic: str, payload: bytes, qos: int = 0) -> Offer | None:
        """Offer a publication; None if there is nobody to offer it to."""
        if not self.attached or not self.host.up:
            return None
        return self._world.offer(self.host, self.session, topic, payload, qos)
