"""Dropping and merging on the way change nothing of what is told: the same run with and without.

Two runs of one seed differ in when messages arrive, for those that are not sent do not take part in the
jitter. So what is reported is drawn such that it does not matter whether a report comes a little later: then
nothing else may make a difference, and in both runs the events are those that one gatherer without a network
makes.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, cast

import pytest

from tidings.gathering.gatherer import Gatherer, Telling
from tidings.language.reports import Shape
from tidings.language.subscriptions import Subscription
from tidings.language.topics import Topic
from tidings.overlay.settings import Settings
from tidings.planning import topologies
from tidings.planning.topologies import distance_delay
from tidings.sim import faults
from tidings.sim.brokers.client import Client
from tidings.sim.carried import REPORTS
from tidings.sim.faults import Fault, Kind
from tidings.sim.gathering.run import apart
from tidings.sim.world import World

if TYPE_CHECKING:
    from tidings.overlay.broker import Broker

QUICK = range(9)
LONG = range(9, 309)

NAME = "roads"
SHAPES = ("path", "star", "tree", "ring", "random", "power-law")

Contents = dict[str, list[dict[str, object]]]
"""By key: what the last versions of its events say, in the order of the events."""


@dataclass(frozen=True)
class Kindness:
    """What a run has to stand."""

    redundant_for_s: float
    window_s: float
    late_s: float
    """By how much more than others a report may be late."""

    pauses_s: tuple[tuple[float, float], ...]
    """Between two reports about one thing: one of these, at random."""

    faults: int = 0

    margin_s: float | None = None
    """Otherwise than by how much a report may be late."""


JITTERY = Kindness(6.0, 25.0, 0.35, ((0.0, 0.3), (0.0, 1.0), (0.5, 5.0), (5.0, 8.0), (6.0, 30.0)))
CRASHING = Kindness(60.0, 900.0, 25.0, ((0.0, 3.0), (0.0, 10.0), (0.0, 30.0), (90.0, 140.0)), faults=3)


@dataclass(frozen=True)
class Said:
    at_s: float
    broker: str
    key: str
    payload: bytes
    qos: int


@dataclass(frozen=True)
class Told:
    contents: Contents
    published: int
    received: int
    """By the counts of the seats."""
    dropped: int
    carried: int
    """Reports that went over links, each link counted."""


def declared(
    kindness: Kindness, way: str, *, seat: str = "centre", seats: int = 1, late_s: float = 0.0
) -> Topic:
    return Topic.from_mapping(
        {
            "name": NAME,
            "kind": "gathered",
            "key": ["place"],
            "merge_after": "500ms",
            "redundant_for": f"{round((kindness.redundant_for_s + late_s) * 1e3)}ms",
            "window": f"{round((kindness.window_s + late_s) * 1e3)}ms",
            "seat": seat,
            "seats": seats,
            "on_the_way": way,
            "fields": {
                "place": {"type": "string"},
                "kind": {"type": "string"},
                "lanes": {"type": "int"},
                "level": {"type": "float", "tolerance": 0.5},
                "severity": {"type": "int", "conflict": "max"},
                "speed": {"type": "int", "conflict": "min"},
            },
        }
    )


def reports(
    kindness: Kindness, brokers: list[str], source: random.Random, keys: int, count: int
) -> list[Said]:
    """Noisy reports, of which it does not matter when exactly they come."""
    found: list[Said] = []
    for number in range(keys):
        key = f"k{number}"
        while True:
            drawn = about(key, kindness, brokers, source, count)
            if (
                len({gathered(kindness, drawn, late_s) for late_s in (-kindness.late_s, 0, kindness.late_s)})
                == 1
            ):
                break
        found += drawn
    return sorted(found, key=lambda said: said.at_s)


def about(key: str, kindness: Kindness, brokers: list[str], source: random.Random, count: int) -> list[Said]:
    """What is said about one thing, mostly the same again and again, and mostly at the same brokers."""
    truth = {"kind": source.choice(("fire", "flood")), "lanes": source.randint(1, 4), "level": 7.25}
    near = source.sample(brokers, min(2, len(brokers)))
    found = []
    at_s = source.uniform(0.0, 5.0)
    for _ in range(count):
        said: dict[str, object] = {"place": key}
        said |= {name: value for name, value in truth.items() if source.random() < 0.4}
        if source.random() < 0.3:
            said["severity"] = source.choice((1, 1, 1, 2, 3, 4))
        if source.random() < 0.2:
            said["speed"] = source.choice((90, 90, 60, 30))
        broker = source.choice(near if source.random() < 0.7 else brokers)
        qos = source.choice((0, 1, 1, 2)) if not kindness.faults else source.choice((1, 2))
        found.append(Said(at_s, broker, key, json.dumps(said).encode(), qos))
        at_s += source.uniform(*source.choice(kindness.pauses_s))
    return found


def gathered(kindness: Kindness, said: list[Said], late_s: float = 0.0) -> str:
    """What one gatherer makes of it, with other times of closing."""
    topic = declared(kindness, "nothing", late_s=late_s)
    gatherer, shape = Gatherer(topic), Shape(topic)
    for at, one in enumerate(said):
        at_us = round(one.at_s * 1e6)
        gatherer.feed(shape.read(NAME, one.payload, report_id=str(at), at_us=at_us))
    gatherer.advance(10**12)
    last = {out.event.opened_by: out.event for out in gatherer.take() if isinstance(out, Telling)}
    found: Contents = {}
    for event in last.values():
        found.setdefault(str(event.key[0]), []).append(dict(event.fields))
    return json.dumps(found, sort_keys=True)


@cache
def play(seed: int, kindness: Kindness, way: str, *, seats: int = 1, seat: str = "traffic") -> Told:
    """One run, everything in it drawn from the seed."""
    source = random.Random(f"on the way/{seed}")
    count = source.randint(2, 9)
    topology = topologies.generate(source.choice(SHAPES), count, seed).with_delays(distance_delay())
    settings = Settings(
        trees=source.choice((1, 2)),
        relay_margin_s=kindness.late_s if kindness.margin_s is None else kindness.margin_s,
        seat_window_s=source.choice((2.0, 20.0)),
        seat_stay_s=source.choice((1.0, 60.0)),
        report_window=source.choice((4096, 2)),
        acks=source.choice(("origin", "neighbour")),
        following_max=source.choice((100_000, 100_000, 3)),
    )
    world = World(
        topology,
        seed,
        settings=settings,
        topics=[declared(kindness, way, seat=seat, seats=seats)],
        jitter_s=source.choice((0.0, 0.02)),
    )
    if source.random() < 0.5:
        faults.skew(world, source)
    world.start()
    ids = topology.ids
    watchers = [world.client(ids[0], "w0", durable=True), world.client(ids[-1], "w1", durable=True)]
    for watcher in watchers[: source.randint(1, 2)]:
        watcher.subscribe("all", Subscription(NAME, qos=1))
    everybody = source.random() < 0.5
    for broker in ids if everybody else []:
        world.client(broker, f"s-{broker}").subscribe("all", Subscription(NAME))
    publishers = {broker: world.client(broker, f"p-{broker}") for broker in ids}
    assert world.settle(within_s=200.0)
    said = reports(kindness, list(ids), source, keys=4, count=40)
    begin = world.now + 1.0
    for one in said:
        world.at(begin + one.at_s, publish, publishers[one.broker], one)
    ends = begin + said[-1].at_s
    happened: list[Fault] = []
    if kindness.faults:
        kinds = (Kind.CRASHES, Kind.STOPS, Kind.BREAKS, Kind.STALLS)
        happened = apart(faults.plan(kinds, topology, source, begin, ends, kindness.faults))
        faults.schedule(world, happened)
    world.run(ends - world.now + kindness.window_s + 60.0)
    assert world.settle(within_s=200.0)
    return outcome(world)


def publish(client: Client, said: Said) -> None:
    client.publish(NAME, said.payload, said.qos)


def outcome(world: World) -> Told:
    opened: dict[str, int] = {}
    last: dict[str, tuple[int, dict[str, object]]] = {}
    for delivery in world.ledger.deliveries:
        told = delivery.publication.told
        if told is None or not any(session == "w0" for session, _ in delivery.subscriptions):
            continue
        opened.setdefault(told.event, len(opened))
        if told.state == "merged-into":
            last[told.event] = (1 << 62, {})
        elif told.version > last.get(told.event, (0, {}))[0]:
            last[told.event] = (told.version, json.loads(delivery.publication.payload))
    contents: Contents = {}
    for event in sorted(opened, key=opened.__getitem__):
        fields = last[event][1]
        if fields:
            contents.setdefault(str(fields["place"]), []).append(fields)
    brokers = [cast("Broker", host.broker) for host in world.hosts.values()]
    return Told(
        dict(sorted(contents.items())),
        len(world.ledger.offers),
        sum(seat.received for broker in brokers for seat in broker.gathered(NAME) if seat.mine),
        sum(broker.status(world.now).gathering.dropped for broker in brokers),
        sum(wire.carried.get(REPORTS, 0) for wire in world.wires.values()),
    )


WAYS = ("drop", "merge")


def same(seed: int, kindness: Kindness, way: str, seat: str) -> Told:
    """Both runs, compared; the one with something done on the way."""
    plain = without(seed, kindness, seat)
    told = play(seed, kindness, way, seat=seat)
    assert told.contents == plain.contents, f"seed {seed}"
    assert told.published == plain.published
    return told


def without(seed: int, kindness: Kindness, seat: str) -> Told:
    return play(seed, kindness, "nothing", seat=seat)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", QUICK)
def test_the_same_is_told_under_jitter(seed: int, way: str) -> None:
    told = same(seed, JITTERY, way, "centre")
    assert told.received == told.published  # no seat has moved, so one has counted them all


@pytest.mark.parametrize("seed", range(3))
def test_the_same_is_told_although_brokers_crash(seed: int) -> None:
    same(seed, CRASHING, "drop", "traffic")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", LONG)
def test_the_same_is_told_under_jitter_for_long(seed: int, way: str) -> None:
    told = same(seed, JITTERY, way, "centre")
    assert told.received == told.published


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", LONG)
def test_the_same_is_told_although_brokers_crash_for_long(seed: int, way: str) -> None:
    same(seed, CRASHING, way, "traffic")


def test_a_good_part_is_not_sent() -> None:
    """Else the tests above would have nothing to see."""
    plain = [without(seed, JITTERY, "centre") for seed in QUICK]
    told = [play(seed, JITTERY, "drop", seat="centre") for seed in QUICK]
    assert sum(one.dropped for one in told) > 100
    assert sum(one.carried for one in told) < 0.95 * sum(one.carried for one in plain)


@pytest.mark.parametrize("seconds", [-2.0])
def test_a_promise_that_is_too_long_would_be_noticed(seconds: float) -> None:
    """With a margin below nothing a report is swallowed that should have opened an event."""
    greedy = replace(JITTERY, margin_s=seconds)
    assert any(
        play(seed, greedy, "drop", seat="centre").contents != without(seed, JITTERY, "centre").contents
        for seed in QUICK
    )


def test_several_seats_tell_the_same() -> None:
    for seed in range(3):
        assert play(seed, JITTERY, "drop", seats=3).contents == without(seed, JITTERY, "centre").contents
