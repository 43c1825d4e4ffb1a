"""A whole run with MQTT clients: the same plan, network and faults as `runs`, and clients that misbehave.

Every broker has a client that publishes, and retains what it says on `kept/<broker>/…`; others subscribe with
any version, quality of service, filter, share group, session and will that the seed gives them. While things
go wrong in the network they lose connections, die, sleep, read slowly and change their minds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tidings.language.regions import Unknown
from tidings.language.views import View
from tidings.mqtt.front import Front
from tidings.mqtt.packets import Version
from tidings.mqtt.settings import DEFAULT as DOORS
from tidings.mqtt.settings import Settings as MqttSettings
from tidings.overlay.broker import Broker
from tidings.records.record import Kind, Record
from tidings.sim.brokers import promises, run, workload
from tidings.sim.brokers.promises import Breach
from tidings.sim.brokers.run import PROBES_MAX, Plan, Progress, Run
from tidings.sim.brokers.workload import Planned
from tidings.sim.measures import Distribution, Measures, measure_clients
from tidings.sim.mqtt.client import MqttClient, Temper
from tidings.sim.mqtt.connections import Connections, Party
from tidings.sim.mqtt.promises import VIEW_PREFIX, Promises
from tidings.sim.mqtt.trace import UNBORN, Offer, Trace, Wish
from tidings.sim.node import DoorMaker, MachineMaker

VIEW = View.from_mapping({"name": "high", "from": "#", "where": "value >= 500000"})
"""What clients may look through, instead of a filter of their own."""

KEPT_TOPICS = 3
"""Topics at each broker on which something is retained."""

QUEUE_SHORT = 4 * KEPT_TOPICS
"""A queue that overflows, but not by what is retained: who subscribes to that again would never be done."""

OWN = 1_000_000_000
"""Payloads that do not come from the workload are numbered from here."""

WATCHERS = 2
"""Clients that want to hear of every will."""

SHARED = 0.15
"""Of all subscribers, those in share groups."""

BURSTS = 0.05
"""Of all publications, those that come in a burst."""

VERSIONS = (Version.V5, Version.V5, Version.V5, Version.V311)

EXPIRY_S = (6, 60, 10_000)
"""How long sessions last: some end while their client is away."""

AWAY_S = (0.2, 3.0, 10.0, 25.0)


class MqttRun(Run):
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
        super().__init__(
            plan,
            machine=machine or partial(Broker, views=[VIEW]),
            door=door or partial(Front, settings=plan.doors),
            record=record,
            trace=trace,
            progress=progress,
        )
        self._diary.limited = plan.doors.queue_messages < DOORS.queue_messages
        self._diary.views[VIEW.name] = Wish(UNBORN, VIEW.topic_filter, where=(VIEW.where,))
        self._speakers: dict[str, Party] = {}
        """Those that publish for their brokers."""
        self._listeners: list[Party] = []
        self._payloads = 0
        self._whims = random.Random(f"whims/{plan.seed}")
        self._identifiers = 0
        self._hops: list[float] = []
        """Of each publication for each session."""

    @property
    def _lines(self) -> Connections:
        return self.world.lines

    @property
    def _diary(self) -> Trace:
        return self.world.lines.diary

    def _settle(self, what: str) -> None:
        before = len(self._settled)
        super()._settle(what)
        if len(self._settled) > before:
            self._lines.settle()

    # Who there is.

    def _subscribe(self) -> None:
        plan, whims = self.plan, self._whims
        for broker in plan.topology.ids:
            self._speakers[broker] = self._client(broker, f"p-{broker}", durable=whims.random() < 0.7)
        for at in range(WATCHERS):
            watcher = self._client(whims.choice(plan.topology.ids), f"w{at}", durable=True)
            self._ask(watcher, Wish(UNBORN, "wills/#", qos=1 + at % 2))
            self._listeners.append(watcher)
        for one in workload.subscribers(plan.workload, plan.topology, plan.seed):
            party = self._client(one.broker, one.name, one.durable)
            self._listeners.append(party)
            if whims.random() < SHARED:
                self._ask(party, self._shared(party))
                continue
            asked = one.subscription
            old = party.device.temper.version is Version.V311
            through = f"{VIEW_PREFIX}{VIEW.name}/" if whims.random() < (0.4 if old else 0.1) else ""
            self._ask(party, self._wish(party, through + asked.topic_filter, asked.where, asked.qos))
            if whims.random() < 0.3:
                self._ask(party, self._kept(party))

    def _client(self, broker: str, name: str, durable: bool) -> Party:
        whims = self._whims
        version = whims.choice(VERSIONS)
        v5 = version is Version.V5
        will = whims.random() < 0.4
        expiry_s = 0
        if durable:
            expiry_s = whims.choice(EXPIRY_S) if v5 else self.plan.doors.session_expiry_max_s
        temper = Temper(
            version,
            expiry_s,
            keep_alive_s=whims.choice((0, 2, 5)),
            receive_maximum=whims.choice((None, 1, 3, 20)) if v5 else None,
            aliases_taken=whims.choice((0, 1, 10)) if v5 else 0,
            aliases_used=whims.choice((0, 2)) if v5 else 0,
            will_qos=whims.randint(0, 2) if will else -1,
            will_delay_s=whims.choice((0, 4, 20)) if v5 and will else 0,
        )
        party = self._lines.party(MqttClient(self._diary, name, broker, temper))
        if will:
            party.will = lambda: self._will(party)
        self._lines.come(party)
        return party

    def _will(self, party: Party) -> Offer:
        device = party.device
        return self._diary.offer(
            device.name,
            device.host,
            f"wills/{device.name}",
            self._payload(),
            device.temper.will_qos,
            will=True,
        )

    def _payload(self, value: int | None = None) -> bytes:
        self._payloads += 1
        if value is None:
            return b'{"n":%d}' % (OWN + self._payloads)
        return b'{"n":%d,"value":%d}' % (OWN + self._payloads, value)

    # What they want.

    def _wish(self, party: Party, topic_filter: str, where: str, qos: int) -> Wish:
        whims = self._whims
        wish = Wish(UNBORN, topic_filter, qos=qos)
        if party.device.temper.version is Version.V5:
            wish.where = (where,) if where else ()
            if where and whims.random() < 0.2:
                wish.where = (where, f"value < {whims.randrange(workload.VALUE_MAX)}")
            if where and not topic_filter.startswith(VIEW_PREFIX):
                wish.unknown = whims.choice((Unknown.WAIT, Unknown.WAIT, Unknown.ASSUME))
            wish.no_local = whims.random() < 0.2
            wish.retain_as_published = whims.random() < 0.1
            if whims.random() < 0.5:
                self._identifiers += 1
                wish.identifier = self._identifiers
        return wish

    def _shared(self, party: Party) -> Wish:
        whims = self._whims
        area = whims.choice(("area0/#", "#", f"{VIEW_PREFIX}{VIEW.name}/#"))
        wish = self._wish(party, area, whims.choice(("", "", f"value >= {workload.VALUE_MAX // 2}")), 1)
        wish.group = f"g{whims.randrange(2)}-{party.host.address}"
        wish.no_local = wish.retain_as_published = False
        return wish

    def _kept(self, party: Party) -> Wish:
        whims = self._whims
        own = f"kept/{party.host.address}"
        topic_filter = whims.choice((f"{own}/#", f"{own}/{whims.randrange(KEPT_TOPICS)}", "kept/#"))
        wish = self._wish(party, topic_filter, whims.choice(("", "", "value > 300000")), whims.randint(1, 2))
        wish.retain_as_published = False
        if party.device.temper.version is Version.V5:
            wish.retain_handling = whims.choice((0, 0, 1, 2))
        return wish

    def _ask(self, party: Party, *wishes: Wish) -> None:
        self._lines.say(party, party.device.subscribe(wishes, self.world.now))

    # What they do.

    def _publish_one(self, planned: Planned) -> None:
        whims = self._whims
        party = self._speakers[planned.broker]
        topic, body, retain, expiry_s = planned.topic, planned.payload, False, None
        near = [one for one in self._listeners if one.host.address == planned.broker]
        if whims.random() < BURSTS:
            self._burst(whims.choice([party, *near]), topic, planned.qos)
            return
        what = whims.random()
        if what < 0.15:
            topic = f"kept/{planned.broker}/{whims.randrange(KEPT_TOPICS)}"
            retain = True
            body = b"" if whims.random() < 0.2 else self._payload(whims.randrange(workload.VALUE_MAX))
        elif what < 0.2:
            body = self._payload()
        elif what < 0.25 and not self.plan.roots:  # those are declared, and refuse it
            body = b"no object, %d" % self._payloads
            self._payloads += 1
        elif what < 0.35 and near:
            party = whims.choice(near)
        elif what < 0.4 and party.device.temper.version is Version.V5:
            expiry_s = 5
        self._say(party, topic, body, planned.qos, retain=retain, expiry_s=expiry_s)

    def _say(
        self,
        party: Party,
        topic: str,
        body: bytes,
        qos: int,
        *,
        retain: bool = False,
        expiry_s: int | None = None,
    ) -> None:
        self._lines.say(party, self._packet(party, topic, body, qos, retain=retain, expiry_s=expiry_s))

    def _packet(
        self,
        party: Party,
        topic: str,
        body: bytes,
        qos: int,
        *,
        retain: bool = False,
        expiry_s: int | None = None,
    ) -> bytes:
        """What a client sends to publish something; nothing if it has nobody to tell it to."""
        device = party.device
        if not device.open and not (qos and device.temper.persistent):
            return b""
        offer = self._diary.offer(
            device.name, device.host, topic, body, qos, retain=retain, expiry_s=expiry_s
        )
        return device.publish(offer, self.world.now)

    def _burst(self, party: Party, topic: str, qos: int) -> None:
        """Many publications at once, more or less alike."""
        whims = self._whims
        mixed = whims.random() < 0.3
        said = []
        for _ in range(whims.randint(2, 20)):
            body = self._payload(whims.choice((0, 10, 1000)) * whims.randrange(1000))
            if mixed:
                topic = workload.topic_name(whims.randrange(self.plan.workload.topics))
                qos = whims.randint(0, 2)
            said.append(self._packet(party, topic, body, qos))
        self._lines.say(party, b"".join(said))

    def _join(self, name: str, _: object) -> None:
        self._diary.joined.append((self._diary.next_turn(), name))
        super()._join(name, _)

    def _change_mind(self, _one: object, _two: object) -> None:
        """Something happens to some client, or it wants something else."""
        whims, lines, world = self._whims, self._lines, self.world
        party = whims.choice([*self._listeners, *self._speakers.values()])
        what = whims.choice(
            ("drop", "drop", "drop", "silence", "die", "leave", "leave", "anew", "slow", "slow", "reluctant",
             "subscribe", "subscribe", "unsubscribe", "retained")
        )  # fmt: skip
        if what in ("drop", "silence", "die"):
            lines.drop(party, silent=what == "silence", forgetful=what == "die")
        elif what in ("leave", "anew"):
            lines.leave(party, with_will=whims.random() < 0.3)
            world.at(
                world.now + whims.choice(AWAY_S) * whims.uniform(0.5, 1.5), self._come, party, what == "anew"
            )
        elif what == "slow":
            lines.slow(party, whims.choice((0.5, 3.0, 12.0)))
        elif what == "reluctant":
            lines.reluctant(party, whims.choice((0.5, 3.0, 12.0)))
        elif party in self._listeners and not any(wish.group for wish in party.device.wanted.values()):
            self._want_otherwise(party, what)

    def _want_otherwise(self, party: Party, what: str) -> None:
        whims, device = self._whims, party.device
        if what == "subscribe":
            topic = whims.choice(
                ("#", "+/+", workload.topic_name(whims.randrange(self.plan.workload.topics)))
            )
            where = f"value > {whims.randrange(workload.VALUE_MAX)}"
            self._ask(party, self._wish(party, topic, where, whims.randint(0, 2)))
        elif what == "retained":
            self._ask(party, self._kept(party))
        elif device.wanted:
            text = whims.choice(list(device.wanted))
            self._lines.say(party, device.unsubscribe(text, self.world.now))

    def _come(self, party: Party, clean: bool) -> None:
        self._lines.come(party, clean=clean)

    def _heal(self) -> None:
        for party in self._lines.parties.values():
            self._lines.come(party)

    def _probe(self) -> None:
        """Some begin anew: what was published is over for them, but for what is retained; the rest comes."""
        plan, world, whims = self.plan, self.world, self._whims
        for party in self._lines.parties.values():
            if whims.random() < 0.2:
                self._lines.leave(party)
                self._lines.come(party, clean=True)
        for party in self._listeners:
            if whims.random() < 0.3 and not any(wish.group for wish in party.device.wanted.values()):
                self._ask(party, self._kept(party))
        self._settle("beginning anew")
        if not self._diary.limited:  # else clients come and go also in the quiet
            self._ways = promises.Ways()
        ids = plan.topology.ids
        for probe in range(min(PROBES_MAX, 2 * len(ids))):
            topic = workload.topic_name(whims.randrange(plan.workload.topics))
            party = self._speakers[ids[probe % len(ids)]]
            if not party.device.open:
                self._breaches.append(
                    Breach("all come back", f"{party.device.name} is not connected in the end")
                )
            self._say(party, topic, self._payload(whims.randrange(workload.VALUE_MAX)), 1 + probe % 2)
            world.run(0.01)

    # What came of it.

    def _record(self, record: Record) -> None:
        super()._record(record)
        if record.kind is Kind.DELIVERED and record.hops is not None:
            self._hops += [record.hops] * len(record.receivers)

    def _judge(self) -> list[Breach]:
        return Promises(self._diary, neighbours_keep=self.plan.settings.acks == "neighbour").check()

    def _judge_tables(self, statuses: object) -> list[Breach]:  # noqa: ARG002
        """Tables also say what fronts ask for themselves."""
        return []

    def _measure(self) -> Measures:
        found = super()._measure()
        diary = self._diary
        sent = {offer.payload: offer.at for offer in diary.offers if offer.sends}
        found.offered = sum(bool(offer.sends) for offer in diary.offers)
        found.accepted = sum(offer.accepted is not None for offer in diary.offers)
        found.rejected = sum(offer.rejected is not None for offer in diary.offers)
        found.delivered = len(diary.receipts)
        found.hops = Distribution.of(self._hops)
        found.latency_s = Distribution.of(
            [one.at - sent[one.payload] for one in diary.receipts if one.payload in sent and not one.retain]
        )
        found.mqtt = measure_clients(diary)
        return found


def chaos(seed: int, brokers_max: int = 5, publications: int = 100) -> Plan:
    """A plan with MQTT clients in which everything is drawn from the seed."""
    source = random.Random(f"mqtt/{seed}")
    plan = run.chaos(seed, brokers_max, publications)
    return replace(
        plan,
        mqtt=True,
        workload=replace(
            plan.workload,
            subscriptions=source.randint(1, 20),
            rate_per_s=source.choice((5.0, 10.0, 50.0)),
            topics=source.choice((1, 5, 12)),
        ),
        churn=source.choice((0, 15, 50)),
        doors=MqttSettings(
            receive_maximum=source.choice((1024, 1024, 1, 3)),
            inflight_max=source.choice((1024, 1024, 1, 3)),
            topic_alias_maximum=source.choice((64, 0, 2)),
            keep_alive_max_s=source.choice((0, 0, 4)),
            queue_messages=QUEUE_SHORT if source.random() < 0.1 else DOORS.queue_messages,
        ),
        command=f"tidings simulate --clients mqtt --chaos --seed {seed}",
    )
