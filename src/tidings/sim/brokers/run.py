"""A whole run from one plan: start, subscribe, publish while things go wrong, heal, see whether all was kept.

`chaos` draws a plan from a seed alone, settings and all; every plan knows the command line that replays it.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tidings.language.subscriptions import Subscription
from tidings.language.topics import Topic
from tidings.mqtt.settings import DEFAULT as DOORS
from tidings.mqtt.settings import Settings as MqttSettings
from tidings.overlay.broker import Broker
from tidings.overlay.events import Effect
from tidings.overlay.publication import Publication
from tidings.overlay.settings import DEFAULT, Settings
from tidings.overlay.status import Status
from tidings.planning import topologies
from tidings.planning.topologies import Topology
from tidings.records.record import Record
from tidings.sim import faults
from tidings.sim.brokers import promises, workload
from tidings.sim.brokers.client import Client
from tidings.sim.brokers.log_promises import check_logs
from tidings.sim.brokers.promises import Breach
from tidings.sim.brokers.replay import Replay
from tidings.sim.brokers.workload import Planned, Workload
from tidings.sim.faults import Fault
from tidings.sim.gathering.workload import Reporting
from tidings.sim.measures import Measures, RecordCounts, measure
from tidings.sim.node import DoorMaker, MachineMaker, Node
from tidings.sim.world import DEFAULTS, SYNC_S, World

CHECKED_MAX = 20_000
"""Publications that are followed one by one; of more, every so manieth is."""

LOOKED_INTO_MAX = 100
"""Brokers up to which all trees and tables are looked at in the end: it takes their square."""

SAMPLES = 40
"""Publications by which tables are tried."""

PROBES_MAX = 24
"""Publications sent after all has healed: every subscription must get what it asks for."""

AFTERMATH_S = 5.0
"""Publishing goes on for so long after the last fault was planned to begin, at least."""

Progress = Callable[[str, float], None]
"""Told what is being done, and how much of that is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What will happen, up to chance, which the seed decides."""

    seed: int
    topology: Topology
    workload: Workload = workload.UNIFORM

    faults: tuple[faults.Kind, ...] = ()
    """What may go wrong."""

    fault_count: int = 0
    """How often something does."""

    churn: int = 0
    """How often clients change their minds, leave or come back while things go wrong.

    MQTT clients also lose their connections, die, sleep and are slow."""

    settings: Settings = DEFAULTS

    late: tuple[str, ...] = ()
    """Brokers that join only while things are published."""

    roots: tuple[str, ...] = ()
    """Of declared topics: the first areas have these roots, whatever the others share."""

    early: bool = True
    """Whether clients subscribe before the links are up, so that whole tables travel, or one by one later."""

    sync_s: float = SYNC_S
    jitter_s: float = 0.0

    mqtt: bool = False
    """Whether clients speak MQTT to the brokers' front doors; then `device_runs` runs it."""

    doors: MqttSettings = DOORS
    """What is set about the front doors."""

    reporting: Reporting | None = None
    """How topics are gathered, where they are; then `gathering.run` runs it."""

    replay: Replay | None = None
    """A workload from tables, where it comes from there; then `replay_runs` runs it."""

    apart: bool = True
    """Whether, with gathered topics, brokers fail one at a time: a seat or its deputy always lives."""

    blackouts: int = 0
    """How often, with gathered topics, all brokers die at once and come back with their disks."""

    command: str = ""
    """The line that replays it."""


@dataclass(slots=True)
class Outcome:
    """What came of a plan."""

    plan: Plan
    breaches: list[Breach]
    measures: Measures
    faults: list[Fault] = field(default_factory=list)

    @property
    def replay(self) -> str:
        """One line with what was broken and how to see it again."""
        return f"{len(self.breaches)} broken ({self.breaches[0]}); replay: {self.plan.command}"


def chaos(seed: int, brokers_max: int = 12, publications: int = 120) -> Plan:
    """A plan in which everything is drawn from the seed."""
    source = random.Random(f"chaos/{seed}")
    count = source.randint(1, brokers_max)
    topology = topologies.generate(source.choice(list(topologies.GENERATORS)), count, seed)
    topology = replace(
        topology,
        links=tuple(replace(link, both_dial=source.random() < 0.3) for link in topology.links),
    )
    delay = source.choice(
        (
            topologies.constant_delay(0.0),
            topologies.constant_delay(0.001),
            topologies.constant_delay(0.1),
            topologies.distance_delay(),
        )
    )
    topology = topology.with_delays(delay)
    if source.random() < 0.2:
        topology = topology.with_bandwidth(source.choice((20_000.0, 1e6)))
    kinds = tuple(kind for kind in faults.ALL if source.random() < 0.35)
    trees, token = source.choice((1, 1, 2, 3)), source.choice(("", "secret"))
    source.random()  # of a setting that is gone: a seed that once found something keeps its plan
    settings = Settings(
        trees=trees,
        token=token,
        acks=source.choice(("origin", "origin", "origin", "neighbour")),
        link_window_messages=source.choice((16_384, 16_384, 4)),
        backlog_bytes=source.choice((16 * 1024 * 1024, 16 * 1024 * 1024, 1_000)),
        cover_effort=source.choice((64, 64, 2)),
        topic_cache=source.choice((4096, 4)),
    )
    ids = topology.ids
    return Plan(
        seed=seed,
        topology=topology,
        workload=Workload(
            topics=source.choice((1, 5, 30)),
            subscriptions=source.randint(0, 40),
            publications=publications,
            matching=source.choice((1.0, 3.0, 10.0)),
            rate_per_s=source.choice((3.0, 10.0, 50.0)),
            qos=source.choice((-1, 1)),
            durable=source.choice((0.0, 0.5, 1.0)),
            wildcards=source.choice((0.0, 0.3, 1.0)),
        ),
        faults=kinds,
        fault_count=source.choice((0, 1, 3, 8)) if kinds else 0,
        churn=source.choice((0, 0, 10, 40)),
        settings=settings,
        early=source.random() < 0.5,
        late=_spared(topology, source) if source.random() < 0.2 else (),
        roots=tuple(sorted(source.sample(ids, min(2, count)))) if source.random() < 0.25 else (),
        sync_s=source.choice((0.0, 0.002, 0.05)),
        jitter_s=source.choice((0.0, 0.0, 0.01)),
        command=f"tidings simulate --chaos --seed {seed}",
    )


def _spared(topology: Topology, source: random.Random) -> tuple[str, ...]:
    """Some brokers without which the others are still one network."""
    joined = topology.neighbours()
    found: list[str] = []
    for name in source.sample(topology.ids, len(topology.ids) // 3):
        rest = {one: [other for other in others if other not in (*found, name)]
                for one, others in joined.items() if one not in (*found, name)}  # fmt: skip
        if len(promises.distances(rest, next(iter(rest)))) == len(rest):
            found.append(name)
    return tuple(found)


class Run:
    """One run, step by step."""

    def __init__(
        self,
        plan: Plan,
        *,
        machine: MachineMaker | None = None,
        door: DoorMaker | None = None,
        record: Callable[[Record], object] | None = None,
        trace: Callable[[str], object] | None = None,
        progress: Progress = lambda _text, _share: None,
    ) -> None:
        """`record` is given every record; `trace` a line for all that brokers are told and answer."""
        self.plan = plan
        self._progress = progress
        self._record_too = record
        self._trace = trace
        self._source = random.Random(f"run/{plan.seed}")
        self._every = max(1, plan.workload.publications // CHECKED_MAX)
        self._counts = RecordCounts()
        self._forwarding = promises.Forwarding(self._every)
        self._ways: promises.Ways | None = None
        self.world = World(
            plan.topology,
            plan.seed,
            machine=machine,
            door=door,
            settings=dict.fromkeys(plan.topology.ids, plan.settings),
            topics=self._topics(),
            sync_s=plan.sync_s,
            jitter_s=plan.jitter_s,
            record=self._record,
            watch=None if trace is None else self._watch,
        )
        self._breaches: list[Breach] = []
        self._settled: list[int] = []
        self._subscribers: list[Client] = []
        self._publishers: dict[str, Client] = {}
        self._planned: Iterator[Planned] = iter(())
        self._next: Planned | None = None
        self._began = 0.0

    def run(self) -> Outcome:
        """All of it. What a broker raises carries the line that replays it."""
        try:
            return self._run()
        except Exception as error:
            error.add_note(f"replay: {self.plan.command}")
            raise

    def _run(self) -> Outcome:
        plan, world = self.plan, self.world
        if faults.Kind.SKEW in plan.faults:
            faults.skew(world, self._source)
        self._progress("starting brokers", 0.0)
        world.start(name for name in plan.topology.ids if name not in plan.late)
        if not plan.early:
            self._settle("starting")
        self._subscribe()
        self._settle("subscribing")
        happened = self._publish()
        self._heal()
        self._settle("healing")
        self._probe()
        self._settle("probing")
        self._progress("checking", 0.0)
        self._check()
        return Outcome(plan, self._breaches, self._measure(), happened)

    def _topics(self) -> list[Topic]:
        """What is declared at every broker from the start."""
        return _declared(self.plan.roots)

    def _measure(self) -> Measures:
        return measure(self.world, self._counts)

    def _heal(self) -> None:
        """Undo what does not end by itself."""

    def _settle(self, what: str) -> None:
        self._progress(f"settling after {what}", 0.0)
        if self.world.settle():
            self._settled.append(self.world.ledger.turn)
        else:
            self._breaches.append(Breach("quiet in the end", f"brokers still talk long after {what}"))

    def _subscribe(self) -> None:
        plan, world = self.plan, self.world
        found = workload.subscribers(plan.workload, plan.topology, plan.seed)
        for broker in plan.topology.ids:
            self._publishers[broker] = world.client(broker, f"p-{broker}")
        for at, one in enumerate(found):
            client = world.client(one.broker, one.name, durable=one.durable)
            client.subscribe("1", one.subscription)
            self._subscribers.append(client)
            if at % 100 == 99:
                if not plan.early:
                    world.run(0.001)
                self._progress("subscribing", at / len(found))

    def _publish(self) -> list[Fault]:
        plan, world = self.plan, self.world
        self._began = world.now
        lasts = plan.workload.publications / plan.workload.rate_per_s
        ends = world.now + lasts
        happened = self._faults(ends)
        faults.schedule(world, happened)
        for name in plan.late:
            world.at(self._source.uniform(self._began, ends), self._join, name)
        for _ in range(plan.churn):
            world.at(self._source.uniform(self._began, ends), self._change_mind)
        self._planned = self._plans()
        self._publish_next(None, None)
        until = max([ends + AFTERMATH_S, *(fault.until + AFTERMATH_S for fault in happened)])
        while world.now < until:
            world.run((until - self._began) / 100)
            self._progress("publishing", min(1.0, (world.now - self._began) / (until - self._began)))
        # Chance may make the publications last longer than their rate says.
        while self._next is not None:
            world.run(1.0)
        return happened

    def _faults(self, ends: float) -> list[Fault]:
        plan = self.plan
        return faults.plan(plan.faults, plan.topology, self._source, self._began, ends, plan.fault_count)

    def _plans(self) -> Iterator[Planned]:
        return workload.publications(self.plan.workload, self.plan.topology, self.plan.seed)

    def _publish_next(self, planned: Planned | None, _: object) -> None:
        if planned is not None:
            self._publish_one(planned)
        self._next = next(self._planned, None)
        if self._next is not None:
            self.world.at(self._began + self._next.after, self._publish_next, self._next)

    def _publish_one(self, planned: Planned) -> None:
        self._publishers[planned.broker].publish(planned.topic, planned.payload, planned.qos)

    def _join(self, name: str, _: object) -> None:
        self.world.ledger.turn += 1
        self.world.ledger.joined.append((self.world.ledger.turn, name))
        self.world.start_broker(name)

    def _change_mind(self, _one: object, _two: object) -> None:
        """Some client does something else."""
        if not self._subscribers:
            return
        source, plan = self._source, self.plan
        client = source.choice(self._subscribers)
        what = source.choice(("subscribe", "subscribe", "unsubscribe", "detach", "attach", "leave"))
        if what == "subscribe":
            name = source.choice(("1", "2", "3"))
            topic = source.choice(("#", "+/+", workload.topic_name(source.randrange(plan.workload.topics))))
            low = source.randrange(workload.VALUE_MAX)
            client.subscribe(name, Subscription(topic, f"value > {low}", qos=source.randint(0, 2)))
        elif what == "unsubscribe":
            client.unsubscribe(source.choice(("1", "2", "3")))
        elif what == "detach" and client.durable:
            client.detach()
        elif what == "attach" and not client.attached:
            client.attach()
        elif what == "leave" and client.attached and source.random() < 0.3:
            client.leave()

    def _probe(self) -> None:
        """Publish once more, now that the network is whole and quiet."""
        plan, world = self.plan, self.world
        if not (plan.fault_count or plan.churn or plan.late):
            return
        self._ways = promises.Ways()
        ids = plan.topology.ids
        for probe in range(min(PROBES_MAX, 2 * len(ids))):
            topic = workload.topic_name(self._source.randrange(plan.workload.topics))
            value = self._source.randrange(workload.VALUE_MAX)
            body = workload.payload(plan.workload.publications + probe, value, plan.workload)
            publisher = self._publishers[ids[probe % len(ids)]]
            offer = publisher.publish(topic, body, 1)
            if offer is None:
                self._breaches.append(
                    Breach("all come back", f"{publisher.host.address} does not run in the end")
                )
            world.run(0.01)

    def _check(self) -> None:
        plan, world = self.plan, self.world
        found = self._breaches
        found += self._judge()
        found += check_logs(world.hosts.values(), world.ledger, self._topics())
        found += self._forwarding.breaches()
        if self._ways is not None and plan.settings.homes_filters_max >= DEFAULT.homes_filters_max:
            # With less room homes ask for more than they want.
            found += self._ways.breaches()
        if not found and len(plan.topology.ids) <= LOOKED_INTO_MAX:
            statuses = world.statuses()
            found += promises.check_trees(statuses, plan.topology, plan.settings.trees, plan.roots)
            found += self._judge_sets(statuses)
        found += [
            Breach("keeps running", f"{host.address} stopped itself: {reason}")
            for host in world.hosts.values()
            for reason in host.refusals
        ]

    def _judge(self) -> list[Breach]:
        """What was promised to clients."""
        every, keep = self._every, self.plan.settings.acks == "neighbour"
        deliveries = promises.Deliveries(self.world.ledger, self._settled, neighbours_keep=keep)
        return deliveries.check(lambda offer: offer.number % every == 0)

    def _judge_sets(self, statuses: Mapping[str, Status]) -> list[Breach]:
        ledger = self.world.ledger
        samples = [(offer.topic, offer.payload) for offer in ledger.offers[-SAMPLES:]]
        return promises.check_sets(statuses, ledger, samples, self._wanted_by)

    def _wanted_by(self, address: str, topic: str, payload: bytes) -> Mapping[str, int]:
        """Which other brokers want a publication, as far as one of them knows."""
        broker = self.world.hosts[address].broker
        assert isinstance(broker, Broker), "only a broker is asked what others want"
        return broker.wanted_by(Publication("", 0, "", 0, topic, payload))

    def _record(self, record: Record) -> None:
        self._counts(record)
        self._forwarding(record)
        if self._ways is not None:
            self._ways(record)
        if self._record_too is not None:
            self._record_too(record)

    def _watch(self, host: Node, event: object, effects: list[Effect]) -> None:
        assert self._trace is not None
        self._trace(f"{self.world.now!r} {host.address} {event!r} {effects!r}")


def _declared(roots: tuple[str, ...]) -> list[Topic]:
    """Plain topics with a root each."""
    return [
        Topic.from_mapping(
            {
                "name": f"area{area}/+",
                "kind": "plain",
                "root": root,
                "keep": "forever",
                "fields": {"n": {"type": "int"}, "value": {"type": "int"}, "pad": {"type": "string"}},
            }
        )
        for area, root in enumerate(roots)
    ]


class Digest:
    """A short name for a long trace: equal traces have equal ones."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def __call__(self, line: str) -> None:
        """Take a line."""
        self._hash.update(line.encode())
        self._hash.update(b"\n")

    @property
    def text(self) -> str:
        """In hexadecimal."""
        return self._hash.hexdigest()
