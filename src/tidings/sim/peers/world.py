"""Peers in one process and in virtual time: the driver brings them messages and carries out their effects.

The peers are the machines that run live. A message takes a link's time, or is lost; a peer that crashed gets
nothing and says nothing. Links may take the same time all, or longer the farther two peers are from each
other. What goes over links is written into a ledger, by the transport. What peers want, and when, is not
decided here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, inf
from random import Random
from typing import Protocol

from tidings.peers.downward import Child
from tidings.peers.events import (
    Admit,
    Advertised,
    AnyHappened,
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
from tidings.peers.messages import Connect, Event
from tidings.peers.outlooks import Outlook
from tidings.peers.settings import PeerSettings
from tidings.sim.clock import Agenda
from tidings.sim.peers.trace import PUBLISHER, Photo, Seen, Trace
from tidings.space.expressions import Set

LINK_S = 0.001
"""What a message takes over a link, unless it is said otherwise."""


Standing = tuple[str, bool]
"""A peer, and whether as a publisher."""


class Machine(Protocol):
    """What is driven: `peers.Peer`, or one that breaks a promise on purpose."""

    @property
    def dz(self) -> Set: ...
    @property
    def advertised(self) -> Set: ...
    @property
    def parents(self) -> Mapping[Standing, object]: ...
    @property
    def children(self) -> Mapping[Standing, Child]: ...
    @property
    def covered(self) -> bool: ...
    @property
    def satisfied(self) -> bool: ...
    def handle(self, event: AnyHappened, now: float) -> list[Effect]: ...
    def next_deadline(self) -> float | None: ...


class Maker(Protocol):
    """From a name, chance and settings to a machine."""

    def __call__(self, name: str, *, life: int, random: Random, settings: PeerSettings) -> Machine: ...


Watch = Callable[[str, AnyHappened, list[Effect]], None]
"""Told of everything that a peer is told, with what it answers."""


@dataclass(slots=True)
class Node:
    """Where a peer runs."""

    name: str
    peer: Machine
    settings: PeerSettings
    wish: Subscribed | None
    """None of one that only publishes."""

    alarm: float = inf
    """When it will be woken."""

    requests: int = 0
    """Connection requests that it has sent."""

    since: float = 0.0
    """When it subscribed to what it wants."""

    outlook: Outlook | None = None
    """What it was last told to expect."""

    reported: str = ""
    """The cause of what it has told its user that is not kept; empty if all is."""

    place: tuple[float, float] = (0.0, 0.0)
    """In a square of side 1."""


class World:
    """Peers that come and go, and the time."""

    def __init__(
        self,
        seed: int | str = 0,
        *,
        machine: Maker | None = None,
        link_s: float = LINK_S,
        far_s: float = 0.0,
        timed: bool = False,
        loss: float = 0.0,
        watch: Watch | None = None,
    ) -> None:
        """`loss` is the share of messages that do not arrive; it may be changed at any time.

        A link takes `link_s`, and `far_s` more for each side of a square in which peers have places. `timed`:
        events are judged by the time they take, and not by hops.
        """
        if machine is None:
            from tidings.peers.peer import Peer

            machine = Peer
        self.hosts: dict[str, Node] = {}
        self.ledger = Trace(timed=timed)
        self.loss = loss
        self.messages = 0
        """Sent so far but for events."""
        self.carried = 0
        """Events sent so far, each link counted."""
        self._machine = machine
        self._link_s = link_s
        self._far_s = far_s
        self._watch = watch
        self._seed = seed
        self._chance = Random(f"peers/world/{seed}")
        self._lives: dict[str, int] = {}
        """How often a peer of a name has begun."""
        self._agenda = Agenda()

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self._agenda.now

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Have something done at a time."""
        self._agenda.add(time, _do, action)

    def run(self, until: float) -> None:
        """Let happen all that is due up to a time."""
        self._agenda.run(until)

    # Who is there.

    def join(
        self,
        name: str,
        settings: PeerSettings,
        contacts: Sequence[str],
        *,
        wish: Subscribed | None = None,
        advertised: Set = (),
    ) -> None:
        """A peer begins, with what it wants and what it publishes, and some others that it has heard of."""
        assert name not in self.hosts, f"{name} is there already"
        life = self._lives[name] = self._lives.get(name, 0) + 1
        chance = Random(f"peers/{self._seed}/{name}/{life}")
        peer = self._machine(name, life=life, random=chance, settings=settings)
        host = self.hosts[name] = Node(name, peer, settings, wish, since=self.now)
        if self._far_s:
            # Where it is depends on the name alone: it begins anew where it was.
            place = Random(f"peers/{self._seed}/{name}/place")
            host.place = place.random(), place.random()
        if wish is not None:
            self.ledger.join(name, wish.dz, wish.bound, self.now)
            self._tell(host, wish)
        if advertised:
            self._tell(host, Advertised(advertised))
        self._tell(host, Joined(tuple(contacts)))

    def leave(self, name: str, *, politely: bool) -> None:
        """A peer goes: it takes leave, or crashes without a word."""
        if politely:
            self._tell(self.hosts[name], Left())
        host = self.hosts.pop(name)
        if host.wish is not None:
            self.ledger.leave(name)

    def resubscribe(self, name: str, wish: Subscribed) -> None:
        """A peer wants something else."""
        host = self.hosts[name]
        assert host.wish is not None, f"{name} only publishes"
        self.ledger.leave(name)
        self.ledger.join(name, wish.dz, wish.bound, self.now)
        host.wish, host.since, host.outlook, host.reported = wish, self.now, None, ""
        self._tell(host, wish)

    def publish(self, name: str, point: str) -> None:
        """A peer publishes an event."""
        number = self.ledger.publish(point, name, self.now)
        self._tell(self.hosts[name], Published(number, point))

    def photograph(self) -> Photo:
        """All peers and their links, as each of them says."""
        found: dict[str, Seen] = {}
        for name in self.hosts:
            found |= self.portray(name)
        return found

    def portray(self, name: str) -> Photo:
        """One of them."""
        host = self.hosts[name]
        found: dict[str, Seen] = {}
        peer, degree_max = host.peer, host.settings.out_degree
        children = [child for child in peer.children.values() if not child.ghost]
        if peer.advertised:
            mine = frozenset(child.peer for child in children if child.root)
            found[name + PUBLISHER] = Seen(0.0, peer.advertised, frozenset(), mine, len(children), degree_max)
        if host.wish is not None:
            found[name] = Seen(
                host.wish.bound,
                peer.dz,
                frozenset(other + PUBLISHER if root else other for other, root in peer.parents),
                frozenset(child.peer for child in children if not child.root),
                len(children),
                degree_max,
                peer.covered,
                peer.satisfied,
                host.since,
                host.wish.dz,
                host.reported,
            )
        return found

    # What happens.

    def _tell(self, host: Node, happened: AnyHappened) -> None:
        now = self._agenda.now
        effects = host.peer.handle(happened, now)
        if self._watch is not None:
            self._watch(host.name, happened, effects)
        near, far = now + self._link_s, self._far_s
        for effect in effects:
            if type(effect) is Send:
                message = effect.message
                if type(message) is Event:
                    self.carried += 1
                else:
                    self.messages += 1
                    if type(message) is Connect:
                        host.requests += 1
                if self.loss and self._chance.random() < self.loss:
                    continue
                arrival = near if not far else near + far * self._apart(host, effect.to)
                self._agenda.add(arrival, self._arrive, host.name, effect)
            elif type(effect) is Deliver:
                self.ledger.deliver(effect.number, host.name)
            elif type(effect) is Admit:
                host.outlook = effect.outlook
            elif type(effect) is Report:
                host.reported = "" if effect.violation is None else effect.violation.cause.value
        deadline = host.peer.next_deadline()
        if deadline is not None and deadline < host.alarm:
            host.alarm = max(deadline, now)
            self._agenda.add(host.alarm, self._wake, host)

    def _apart(self, host: Node, to: str) -> float:
        """How far a peer is away; no matter how far if it is gone."""
        other = self.hosts.get(to)
        if other is None:
            return 0.0
        (x, y), (there_x, there_y) = host.place, other.place
        return hypot(x - there_x, y - there_y)

    def _arrive(self, sender: str, send: Send) -> None:
        host = self.hosts.get(send.to)
        if host is None:
            return
        message = send.message
        if type(message) is Event:
            self.ledger.arrive(message.number, sender, host.name, host.peer.dz, self._agenda.now)
        self._tell(host, Received(sender, message))

    def _wake(self, host: Node, _: object) -> None:
        if host.alarm > self._agenda.now or self.hosts.get(host.name) is not host:
            # It was to be woken at another time, or is gone.
            return
        host.alarm = inf
        self._tell(host, TimerFired())


class Digest:
    """A fingerprint of all that peers were told and answered."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def __call__(self, name: str, happened: AnyHappened, effects: list[Effect]) -> None:
        self._hash.update(f"{name} {happened!r} {effects!r}\n".encode())

    @property
    def text(self) -> str:
        """In hexadecimal."""
        return self._hash.hexdigest()


def _do(action: Callable[[], None], _: object) -> None:
    action()
