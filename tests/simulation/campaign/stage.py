"""A stage: a small network on which something happens at just the right moment.

Brokers are called by what they are there for; ids, delays and disks are drawn. A moment is waited for by
looking at what brokers are told and answer. Meanwhile others publish, and a link may fail. What clients were
promised is judged as everywhere, and nothing else.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import msgspec

from tests.simulation.campaign.strikes import wait_for_all
from tidings.language.subscriptions import Subscription
from tidings.overlay.broker import Broker
from tidings.overlay.events import Effect, FrameReceived, Grant, Send
from tidings.overlay.frames import Message
from tidings.overlay.settings import Settings
from tidings.overlay.status import Status
from tidings.planning.topologies import Link, Place, Topology
from tidings.sim import faults
from tidings.sim.brokers.client import Client
from tidings.sim.brokers.promises import Breach, Deliveries
from tidings.sim.brokers.workload import Workload
from tidings.sim.faults import Fault, Kind
from tidings.sim.gathering import workload
from tidings.sim.gathering.promises import GatheredPromises
from tidings.sim.gathering.trace import Notes
from tidings.sim.gathering.workload import Reporting
from tidings.sim.node import Node
from tidings.sim.world import World

BROKERS_MAX = 6

PATIENCE_S = 20.0
"""How long a moment is waited for. One that does not come is no fault: then things happen some time."""

NOISE_S = 5.0
"""So long others publish, from the first moment on that is waited for."""

NOISE = (Kind.BREAKS, Kind.STALLS, Kind.SLOW, Kind.LOSS, Kind.DUPLICATION)
"""What may go wrong beside what is aimed."""

SETTINGS = Settings(resume_within_s=0.3, redial_max_s=0.3)

Sign = Callable[[Node, Any, Sequence[Effect]], bool]
"""Whether a moment is seen in what a broker is told and answers."""


class Stage:
    """One network, and what happens on it."""

    def __init__(
        self,
        source: random.Random,
        joined: str,
        *,
        delays: Mapping[str, float] = {},
        bandwidth: Mapping[str, float] = {},
        settings: Settings = SETTINGS,
        reporting: Reporting | None = None,
    ) -> None:
        """`joined`: pairs of brokers, "a-b b-c", of which the first dials; more brokers may join in.
        `delays`, `bandwidth`: of pairs that differ from the others. `reporting`: how the topic is gathered,
        if it is.
        """
        self.source = source
        pairs = joined.split()
        roles = sorted({role for pair in pairs for role in pair.split("-")})
        for number in range(source.randint(0, BROKERS_MAX - len(roles))):
            pairs.append(f"more{number}-{source.choice(roles)}")
        roles = sorted({role for pair in pairs for role in pair.split("-")})
        self._ids = dict(zip(roles, source.sample(string.ascii_lowercase, len(roles)), strict=True))
        delay_s = source.choice((0.001, 0.005, 0.02))
        links = []
        for pair in pairs:
            one, other = (self._ids[role] for role in pair.split("-"))
            usual_s = delay_s * source.uniform(0.5, 1.5)
            links.append(Link(one, other, delays.get(pair, usual_s), bandwidth.get(pair, inf)))
        self._reporting = reporting
        self._workload = Workload(topics=1)
        self._notes = Notes(lambda: self.world.ledger.turn)
        self.world = World(
            Topology(tuple(Place(name) for name in sorted(self._ids.values())), tuple(links)),
            source.randrange(2**32),
            settings=settings,
            topics=workload.declarations(reporting, self._workload) if reporting is not None else (),
            sync_s=source.choice((0.0, 0.002, 0.01)),
            jitter_s=source.choice((0.0, delay_s / 2)),
            record=self._notes,
            watch=self._watch,
        )
        self._awaited: list[Sign] = []
        self._clients: dict[str, Client] = {}
        self._published = 0
        self._is_noisy = False
        self._happened: list[Fault] = []
        self._settled: list[int] = []
        self._breaches: list[Breach] = []
        if reporting is None:
            for role in source.sample(roles, source.randint(0, len(roles))):
                self.subscribe(role, "noise", durable=source.random() < 0.5)

    def __getitem__(self, role: str) -> Node:
        return self.world.hosts[self._ids[role]]

    # Time.

    def run(self, shortest_s: float, longest_s: float) -> None:
        """Let some time pass."""
        self.world.run(self.source.uniform(shortest_s, longest_s))

    def settle(self) -> None:
        if self.world.settle():
            self._settled.append(self.world.ledger.turn)
        else:
            self._breaches.append(Breach("quiet in the end", "brokers still talk long after all is over"))

    def until(self, sign: Sign) -> None:
        """Let time pass until something is seen, and no longer."""
        if not self._is_noisy:
            self._make_noise()
        agenda = self.world.agenda
        limit = agenda.now + PATIENCE_S
        self._awaited = [sign]
        while self._awaited and agenda.next_time() <= limit:
            agenda.run(agenda.next_time())
        self._awaited = []

    def _watch(self, host: Node, event: Any, effects: list[Effect]) -> None:
        self._awaited = [sign for sign in self._awaited if not sign(host, event, effects)]

    # What clients do.

    def subscribe(self, role: str, topic: str, *, durable: bool = True) -> None:
        """A new client wants everything of a topic."""
        client = self._client(role, f"{role}-{topic}", durable=durable)
        self._at(self.world.now, lambda: client.subscribe("1", Subscription(topic, qos=1)))

    def publish(self, role: str, topic: str, qos: int = 1) -> None:
        """Something that no other publication says; as soon as time passes, so that `until` sees it."""
        self._publish_at(self.world.now, role, topic, qos)

    def _publish_at(self, at: float, role: str, topic: str, qos: int) -> None:
        self._published += 1
        body, publisher = b'{"n":%d}' % self._published, self._client(role, f"p-{role}")
        self._at(at, lambda: publisher.publish(topic, body, qos))

    def report(self, role: str, thing: str, qos: int = 1) -> None:
        """A bit more about a thing than was said before."""
        self._report_at(self.world.now, role, thing, qos)

    def _report_at(self, at: float, role: str, thing: str, qos: int) -> None:
        self._published += 1
        topic, reporter = workload.gathered(self._workload)[0], self._client(role, f"p-{role}")
        body = msgspec.json.encode({topic.key: thing, "severity": self._published})
        self._at(at, lambda: reporter.publish(topic.topic_of(thing), body, qos))

    def _client(self, role: str, name: str, *, durable: bool = False) -> Client:
        if name not in self._clients:
            self._clients[name] = self.world.client(self[role].address, name, durable=durable)
        return self._clients[name]

    def _at(self, at: float, do: Callable[[], object]) -> None:
        def then(_one: None, _two: None) -> None:
            do()

        self.world.at(at, then)

    def _make_noise(self) -> None:
        """Others publish, and something may go wrong that has nothing to do with the rest."""
        source, now = self.source, self.world.now
        self._is_noisy = True
        for _ in range(source.randint(0, 20)):
            at, role = source.uniform(now, now + NOISE_S), source.choice(list(self._ids))
            if self._reporting is None:
                self._publish_at(at, role, "noise", source.randint(0, 2))
            else:
                self._report_at(at, role, f"noise{source.randrange(3)}", source.randint(0, 2))
        count = source.choice((0, 0, 1))
        self._happened = faults.plan(NOISE, self.world.topology, source, now, now + NOISE_S, count)
        faults.schedule(self.world, self._happened)

    # What goes wrong.

    def crash(self, *roles: str) -> None:
        """Brokers die; their disks stay."""
        for role in roles:
            self.world.crash(self[role].address)

    def start(self, *roles: str) -> None:
        """Brokers are started, all by default."""
        for role in roles or self._ids:
            self.world.start_broker(self[role].address)

    def cut_off(self, role: str) -> None:
        """Nothing reaches a broker."""
        name = self[role].address
        for other in self.world.topology.neighbours()[name]:
            self.world.cut(name, other, silent=False)

    # What came of it.

    def end(self) -> list[Breach]:
        """All heals; what was broken."""
        world = self.world
        for wire in world.wires.values():
            wire.cuts = 0
        world.start()
        wait_for_all(world, self._happened)
        self.settle()
        if self._reporting is None:
            return self._breaches + Deliveries(world.ledger, self._settled).check()
        promises = GatheredPromises(
            world.ledger,
            workload.gathered(self._workload),
            self._reporting,
            self._settled,
            self._notes,
            divided=True,
        )
        return self._breaches + promises.check()

    # Moments.

    def sends(self, role: str, kind: type[Message], to: str) -> Sign:
        """A broker sends a message of a kind to another."""

        def sign(host: Node, _event: Any, effects: Sequence[Effect]) -> bool:
            return host is self[role] and any(
                isinstance(effect, Send)
                and any(isinstance(message, kind) for message in effect.frame.messages)
                and (end := host.ends.get(effect.connection)) is not None
                and end.other.host is self[to]
                for effect in effects
            )

        return sign

    def receives(self, role: str, kind: type[Message]) -> Sign:
        """A broker is sent a message of a kind."""
        return lambda host, event, _effects: (
            host is self[role]
            and isinstance(event, FrameReceived)
            and any(isinstance(message, kind) for message in event.frame.messages)
        )

    def granted(self, role: str, topic: str) -> Sign:
        """A subscription is granted."""
        return lambda _host, _event, effects: any(
            isinstance(effect, Grant) and effect.session == f"{role}-{topic}" for effect in effects
        )

    def linked(self, role: str, *others: str) -> Sign:
        """A broker has links with others."""
        wanted = {self[other].id for other in others}
        return lambda host, _event, _effects: (
            host is self[role] and wanted <= {link.peer for link in _status(host).links if link.state == "up"}
        )

    def together(self, role: str, other: str) -> Sign:
        """A broker is in an epoch with another."""
        return lambda host, _event, _effects: host is self[role] and self._are_together(role, other)

    def apart(self, role: str, other: str) -> Sign:
        """A broker is in no epoch with another."""
        return lambda host, _event, _effects: host is self[role] and not self._are_together(role, other)

    def _are_together(self, role: str, other: str) -> bool:
        return any(self[other].id in tree.members for tree in _status(self[role]).trees)


def _status(host: Node) -> Status:
    assert isinstance(host.broker, Broker), "a broker answers"
    return host.broker.status(0.0)
