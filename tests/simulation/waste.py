"""Whether publications go to the brokers that want them and to no others: networks beside a naive judge.

    python -m tests.simulation.campaign waste --seeds 200

A round is a network of its seed: brokers, clients with random filters that come and go, publications at
random brokers; brokers die and come back, with their disks and without. The judge knows what each client
wants, and asks each filter by itself. A pair is a publication and a broker other than its origin. It is

* exact, if it was long known what clients there want: the origin names that broker as a destination, with the
  right quality of service, if and only if the judge does;
* changing, if some client there has just changed its mind: what holds before and behind the change holds;
* unsettled, if a broker has just died or come back: only the promises to clients hold.

Only pairs of the first two kinds are judged. What clients were promised is judged as everywhere
(`sim.brokers.promises`). In rounds without faults, brokers count themselves what came in vain; the judge
counts it too. Where the sets are widened, brokers have no room for all filters, so that they ask for more
than they want: then a destination may be wrong, and must be counted.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import cast

from tidings.language.regions import Unknown
from tidings.language.subscriptions import Subscription
from tidings.overlay.broker import Broker
from tidings.overlay.events import Effect, FrameReceived, Send
from tidings.overlay.publishing.batches import batch_of, unpacked
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.settings import Settings
from tidings.planning import topologies
from tidings.sim.brokers.client import Client
from tidings.sim.brokers.promises import Deliveries, distances, fields_of, wants
from tidings.sim.node import Node
from tidings.sim.world import World

DELAY_S = 0.001
"""Over a link."""

KNOWN_S = 0.1
"""A subscription that is so old is known to all: many times what the longest way takes."""

ADDRESSED_S = 0.01
"""What is published has been addressed by then: QoS 2 waits for the disk before."""

UNSETTLED_S = 4.0
"""So long behind a fault trees and sets may be on their way: the waits of `SETTINGS`, one after the other."""

CALM_S = 4.0
"""Publishing goes on for so long when that is over."""

SETTINGS = Settings(resume_within_s=0.3, redial_max_s=0.3, regrow_max_s=0.5)

RATE_PER_S = 40.0
"""Publications; a quarter of it while the network is unsettled."""

CHURN_PER_S = 6.0
"""Clients that change their minds."""

SUBSCRIPTIONS = 8
"""At each broker, on average."""

ROOM = 3
"""Filters of each broker that others have room for, where there are too many."""

TOPICS = ("city/a", "city/b", "city/a/x", "road/1", "road/2", "$own/1")
TOPIC_FILTERS = (*TOPICS[:5], "city/+", "city/#", "+/1", "#", "+/+", "road/#", "$own/#", "nowhere")


def random_filter(source: random.Random) -> str:
    """A content filter of one to three terms; none now and then."""
    if source.random() < 0.15:
        return ""
    terms = [_term(source) for _ in range(source.randint(1, 3))]
    return source.choice((" AND ", " OR ")).join(terms)


def _term(source: random.Random) -> str:
    low = source.randrange(100)
    return source.choice(
        (
            f"value > {low}",
            f"value <= {low}",
            f"value >= {low} AND value < {low + source.randint(1, 40)}",
            f"value = {low // 10}",
            f"severity IN ({source.randrange(3)}, {source.randrange(3, 6)})",
            f"severity <> {source.randrange(6)}",
            "open",
            "NOT open",
            "place IS NULL",
            f"place LIKE '{source.choice('ab')}%'",
            f"place = '{source.choice('abc')}{source.randrange(3)}'",
        )
    )


def random_payload(number: int, source: random.Random) -> bytes:
    """A JSON object with some of the fields that filters ask for, or no object at all."""
    if source.random() < 0.05:
        return b"no object %d" % number
    fields: dict[str, object] = {
        "value": source.randrange(100),
        "severity": source.randrange(6),
        "open": source.random() < 0.5,
        "place": f"{source.choice('abc')}{source.randrange(3)}",
    }
    said = {name: value for name, value in fields.items() if source.random() < 0.8}
    return json.dumps({"n": number, **said}).encode()


def random_subscription(source: random.Random) -> Subscription:
    return Subscription(
        source.choice(TOPIC_FILTERS),
        random_filter(source),
        unknown=source.choice(list(Unknown)),
        qos=source.randint(0, 2),
    )


@dataclass(slots=True)
class Wanted:
    """What a client wants for some time."""

    broker: str
    subscription: Subscription
    since: float
    until: float = inf


@dataclass(slots=True)
class Asked:
    """A publication, and who was found to want it."""

    origin: str
    topic: str
    payload: bytes
    qos: int
    at: float
    to: set[str] = field(default_factory=set)
    must: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Counts:
    """Pairs of publication and broker."""

    publications: int = 0
    exact: int = 0
    wanted: int = 0
    """Of the exact ones: those in which the publication is wanted there."""
    changing: int = 0
    unsettled: int = 0
    delivered: int = 0
    """Publications that were handed to sessions, counted once for each broker."""
    in_vain: int = 0
    """Publications that came to a broker where nobody wanted them, in rounds without faults."""
    deaths: int = 0
    breaches: list[str] = field(default_factory=list)


class Round:
    """One network, and its judge."""

    def __init__(self, seed: int, *, widened: bool = False) -> None:
        self.seed = seed
        self.widened = widened
        self.counts = Counts()
        self._source = source = random.Random(f"waste/{seed}")
        brokers = source.randint(3, 14)
        name = source.choice(("path", "star", "tree", "ring", "random"))
        topology = topologies.generate(name, brokers, seed).with_delays(topologies.constant_delay(DELAY_S))
        room = ROOM * brokers if widened else 1_000_000
        self.settings = Settings(
            trees=source.choice((1, 1, 2)),
            resume_within_s=SETTINGS.resume_within_s,
            redial_max_s=SETTINGS.redial_max_s,
            regrow_max_s=SETTINGS.regrow_max_s,
            homes_filters_max=room,
            cover_effort=source.choice((32, 2)),
            topic_cache=source.choice((4096, 2)),
        )
        self.world = World(topology, seed, settings=self.settings, watch=self._watch)
        self._joined = topology.neighbours()
        self._ids = topology.ids
        self._clients: list[Client] = []
        self._publishers: dict[str, Client] = {}
        self._wanted: dict[str, list[Wanted]] = {name: [] for name in self._ids}
        self._current: dict[tuple[str, str], Wanted] = {}
        self._asked: dict[bytes, Asked] = {}
        self._fault_at = -inf
        self._came_in_vain = dict.fromkeys(self._ids, 0)
        self._published = 0

    @property
    def has_faults(self) -> bool:
        """Brokers that die forget what they have counted."""
        return not self.widened and self.seed % 4 != 0

    def run(self) -> Counts:
        world, source = self.world, self._source
        world.start()
        for name in self._ids:
            self._publishers[name] = world.client(name, f"p-{name}")
            for at in range(source.randint(0, 2 * SUBSCRIPTIONS)):
                client = world.client(name, f"s-{name}-{at}", durable=source.random() < 0.5)
                self._clients.append(client)
                self._subscribe(client)
        settled = [self._settle()]
        self._publish(CALM_S)
        if self.has_faults:
            for _ in range(2):
                self._die_and_come_back()
        settled.append(self._settle())
        self._publish(CALM_S / 4)
        settled.append(self._settle())
        self._judge_promises(settled)
        if not self.has_faults:
            self._judge_counters()
        return self.counts

    def _settle(self) -> int:
        if not self.world.settle():
            self._say("the network does not settle")
        return self.world.ledger.turn

    def _die_and_come_back(self) -> None:
        world, name = self.world, self._source.choice(self._ids)
        self.counts.deaths += 1
        world.crash(name, disk=self._source.random() < 0.7)
        self._fault()
        world.start_broker(name)
        self._fault()

    def _fault(self) -> None:
        self._fault_at = self.world.now
        self._publish(UNSETTLED_S, RATE_PER_S / 4)
        self._publish(CALM_S)

    def _publish(self, seconds: float, rate: float = RATE_PER_S) -> None:
        """Publish and change minds for some time."""
        world, source = self.world, self._source
        ends = world.now + seconds
        while world.now < ends:
            world.run(source.expovariate(rate + CHURN_PER_S))
            if source.random() < CHURN_PER_S / (rate + CHURN_PER_S):
                self._change_mind()
            else:
                self._publish_one()
        world.run(ADDRESSED_S)

    def _change_mind(self) -> None:
        clients = [client for client in self._clients if client.host.up]
        if clients:
            client = self._source.choice(clients)
            if self._source.random() < 0.5:
                self._subscribe(client)
            else:
                name = self._source.choice(("1", "2"))
                client.unsubscribe(name)
                self._end(client, name)

    def _subscribe(self, client: Client) -> None:
        name, subscription = self._source.choice(("1", "2")), random_subscription(self._source)
        client.subscribe(name, subscription)
        self._end(client, name)
        wanted = Wanted(client.host.address, subscription, self.world.now)
        self._current[client.name, name] = wanted
        self._wanted[client.host.address].append(wanted)

    def _end(self, client: Client, name: str) -> None:
        wanted = self._current.pop((client.name, name), None)
        if wanted is not None:
            wanted.until = self.world.now

    def _publish_one(self) -> None:
        source, world = self._source, self.world
        origin, topic, qos = source.choice(self._ids), source.choice(TOPICS), source.randint(0, 2)
        payload = random_payload(self._published, source)
        self._published += 1
        asked = self._asked[payload] = Asked(origin, topic, payload, qos, world.now)
        if self._publishers[origin].publish(topic, payload, qos) is None:
            del self._asked[payload]
        else:
            world.at(world.now + ADDRESSED_S, self._judge, asked)

    # What brokers do.

    def _watch(self, host: Node, event: object, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                for message in effect.frame.messages:
                    if isinstance(message, Publish) and message.origin == host.id:
                        self._sent(host, message)
        if isinstance(event, FrameReceived) and not self.has_faults:
            for message in event.frame.messages:
                if not isinstance(message, Publish):
                    continue
                for to, it in zip(message.to, batch_of(message), strict=True):
                    wanted = any(self._wants(one, it.topic, it.payload) for one in self._now_wanted(host.id))
                    self._came_in_vain[host.id] += host.id in _names(host, message, to) and not wanted

    def _sent(self, host: Node, message: Publish) -> None:
        for to, must, it in zip(message.to, message.must or message.to, batch_of(message), strict=True):
            asked = self._asked.get(it.payload)
            if asked is not None:
                asked.to |= _names(host, message, to)
                if asked.qos:
                    asked.must |= _names(host, message, must)

    # What the judge says.

    def _now_wanted(self, broker: str) -> list[Wanted]:
        return [one for one in self._wanted[broker] if one.until == inf]

    @staticmethod
    def _wants(one: Wanted, topic: str, payload: bytes) -> bool:
        return wants(one.subscription, topic, fields_of(payload))

    def _judge(self, asked: Asked, _: object) -> None:
        """Look at who was found to want a publication, as soon as that is sure."""
        del self._asked[asked.payload]
        counts, now = self.counts, self.world.now
        counts.publications += 1
        if asked.at < self._fault_at + UNSETTLED_S:
            counts.unsettled += len(self._ids) - 1
            return
        reached = self._reached(asked.origin)
        for broker in self._ids:
            if broker == asked.origin:
                continue
            sure = possible = -1
            for one in self._wanted[broker] if broker in reached else ():
                if one.until >= asked.at - KNOWN_S and self._wants(one, asked.topic, asked.payload):
                    possible = max(possible, one.subscription.qos)
                    if one.since < asked.at - KNOWN_S and one.until > now:
                        sure = max(sure, one.subscription.qos)
            told = min(1, asked.qos) if broker in asked.must else 0 if broker in asked.to else -1
            least, most = (min(qos, 1, asked.qos) for qos in (sure, possible))
            counts.exact += sure == possible
            counts.wanted += sure == possible >= 0
            counts.changing += sure != possible
            if told < least or (told > most and not self.widened):
                self._say(
                    f"{broker} is told for {told} of {asked.payload!r} to {asked.topic}, QoS {asked.qos}, at "
                    f"{asked.origin} ({asked.at:.3f} s), not for {least} to {most}"
                )

    def _reached(self, origin: str) -> dict[str, int]:
        """Who is in reach, by the links of those that run."""
        up = [name for name in self._ids if self.world.hosts[name].up]
        return distances({name: [it for it in self._joined[name] if it in up] for name in up}, origin)

    def _judge_promises(self, settled: list[int]) -> None:
        for breach in Deliveries(self.world.ledger, settled).check():
            self._say(str(breach))
        delivered = {(it.host, it.publication.payload) for it in self.world.ledger.deliveries}
        self.counts.delivered += len(delivered)

    def _judge_counters(self) -> None:
        statuses = self.world.statuses()
        for name, status in statuses.items():
            if status.false_positives != self._came_in_vain[name]:
                self._say(
                    f"{name} has counted {status.false_positives} publications that came in vain; "
                    f"the judge {self._came_in_vain[name]}"
                )
            self.counts.in_vain += status.false_positives
            # A home of which too much came does not refuse what it would have to keep.
            assert all(one.filters <= self.settings.homes_filters_max for one in status.sets[1:])

    def _say(self, text: str) -> None:
        self.counts.breaches.append(f"seed {self.seed}{' widened' * self.widened}: {text}")


def _names(host: Node, message: Publish, places: bytes | tuple[int, ...]) -> set[str]:
    """Brokers that a message names by their places in its epoch."""
    broker = cast("Broker", host.broker)
    return set(broker.named(message.root, message.epoch, unpacked(places)))


def of_seed(seed: int) -> Round:
    """As the campaign plays it: a quarter of the rounds are widened, a quarter have no faults."""
    return Round(seed, widened=seed % 4 == 2)
