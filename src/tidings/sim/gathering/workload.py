"""Who reports what about which things, and who wants to hear of them: noisy reports from a few numbers.

Every gathered topic has some things that are reported about, each with a truth of its own. A report tells a
part of it: fields about which all agree (`kind`, `lanes`, `note`), fields of which the extreme counts
(`severity`, `speed`), and sometimes who saw it (`witness`). Many reports say what is known already. The key
is in the report (`roads0/reports`, key `place`) or in the topic's name (`fleet1/+vehicle/status`). How
reports become events is not known here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import msgspec

from tidings.errors import DeclarationError
from tidings.language.regions import Unknown
from tidings.language.subscriptions import Subscription
from tidings.language.topics import Topic
from tidings.planning.topologies import Topology
from tidings.sim.brokers.workload import Planned, Subscriber, Workload

KINDS = ("accident", "fire", "flood", "works")
NOTES = ("bridge", "exit 4", "tunnel")
MOODS = 5
SEVERITY_MAX = 1_000
ENDED_AT = 960
"""A severity from which an event is over, where that is declared."""

SPEED_MAX = 130

UNREADABLE = 0.02
"""The share of reports that no topic takes: without key, of wrong types, with fields of their own."""

WATCHERS = 2
"""Subscribers who want everything, so that what was told is known."""

EVERY_S = (0.3, 2.0, 7.0)
"""How often a growing event is wanted by those who do not want it always."""

POLICIES: Mapping[str, str] = {
    "kind": "first",
    "lanes": "first",
    "note": "first",
    "severity": "max",
    "speed": "min",
    "witness": "union",
    "mood": "last",
    "vote": "majority",
}
"""Fields that reports may have, beside the key, and what becomes of two that differ."""

TYPES: Mapping[str, str] = {
    "kind": "string",
    "lanes": "int",
    "note": "string",
    "severity": "int",
    "speed": "int",
    "witness": "string",
    "mood": "int",
    "vote": "string",
}

DISPUTED = ("mood", "vote")
"""Fields whose outcome depends on the order in which reports come."""


@dataclass(frozen=True, slots=True)
class Reporting:
    """How topics are gathered, and what is reported."""

    keys: int = 10
    """Things that are reported about, on each topic."""

    merge_after_s: float = 1.0
    redundant_for_s: float = 7_200.0
    window_s: float | None = 36_000.0
    """None for none."""

    stays_open: str = "merged"
    tell_first: str = "merge_after"
    complete: str = "event"
    seat: str = "traffic"
    seat_scope: str = "tree"
    seats: int = 1
    on_the_way: str = "nothing"

    ends: bool = False
    """Whether an event is over from a certain severity on."""

    disputed: bool = False
    """Whether there are fields whose outcome depends on the order of reports."""

    witnessed: float = 0.3
    """The share of reports that say who saw it: no two alike, so none of them is redundant."""

    kept: bool = False
    """Whether brokers keep what they tell, and what enters at them."""

    @property
    def lasting(self) -> bool:
        """Whether what was opened stays open to the end of any run: one key is one event."""
        return self.redundant_for_s >= 3_600.0 and not self.ends

    @property
    def policies(self) -> Mapping[str, str]:
        """What becomes of two values of a field that differ."""
        return POLICIES

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a topic, beside its key."""
        absent = {*(() if self.disputed else DISPUTED), *(() if self.witnessed else ("witness",))}
        return tuple(name for name in POLICIES if name not in absent)


PLAIN = Reporting()


def changed(values: dict[str, Any]) -> Reporting:
    """What is set otherwise than by default; a window that would be too short grows with the rest."""
    made = replace(PLAIN, **values)
    if made.on_the_way != "nothing":
        # Nothing is dropped on the way where every report may count.
        made = replace(made, witnessed=0.0)
    if made.redundant_for_s < PLAIN.redundant_for_s and "window_s" not in values:
        made = replace(made, window_s=10 * made.redundant_for_s)
    return made


def problems(reporting: Reporting) -> list[str]:
    """What is wrong with the numbers taken together; empty if nothing is."""
    try:
        declarations(reporting, Workload(topics=1))
    except DeclarationError as error:
        return [problem.message for problem in error.problems]
    return []


@dataclass(frozen=True, slots=True)
class Gathered:
    """One gathered topic."""

    number: int
    name: str
    """As declared."""

    key: str
    """The field that says what is reported about."""

    def topic_of(self, key: str) -> str:
        """The topic name under which a key is reported."""
        return self.name.replace(f"+{self.key}", key)

    @property
    def named(self) -> bool:
        """Whether the key is in the topic's name."""
        return "+" in self.name


def gathered(workload: Workload) -> list[Gathered]:
    """All gathered topics, half of each sort."""
    return [
        Gathered(number, f"fleet{number}/+vehicle/status", "vehicle")
        if number % 2
        else Gathered(number, f"roads{number}/reports", "place")
        for number in range(workload.topics)
    ]


def declarations(reporting: Reporting, workload: Workload, roots: tuple[str, ...] = ()) -> list[Topic]:
    """Their declarations; the first ones name these roots."""
    found = []
    for one in gathered(workload):
        fields: dict[str, object] = {} if one.named else {one.key: {"type": "string"}}
        for name in reporting.fields:
            fields[name] = {"type": TYPES[name], "conflict": POLICIES[name]}
        mapping: dict[str, object] = {
            "name": one.name,
            "kind": "gathered",
            "key": [one.key],
            "merge_after": _text(reporting.merge_after_s),
            "redundant_for": _text(reporting.redundant_for_s),
            "window": "none" if reporting.window_s is None else _text(reporting.window_s),
            "stays_open": reporting.stays_open,
            "tell_first": reporting.tell_first,
            "complete": reporting.complete,
            "seat": reporting.seat,
            "seat_scope": reporting.seat_scope,
            "seats": reporting.seats,
            "on_the_way": reporting.on_the_way,
            "fields": fields,
        }
        if reporting.kept:
            mapping |= {"keep": "forever", "keep_reports": "forever"}
        if reporting.ends:
            mapping["ends_when"] = f"severity >= {ENDED_AT}"
        if one.number < len(roots):
            mapping["root"] = roots[one.number]
        found.append(Topic.from_mapping(mapping))
    return found


def _text(seconds: float) -> str:
    return f"{round(seconds * 1e6)}us"


def thing(number: int) -> str:
    """The name of something that is reported about."""
    return f"k{number}"


def truth(seed: int, topic: int, key: str) -> dict[str, object]:
    """What all reporters of something agree on."""
    source = random.Random(f"truth/{seed}/{topic}/{key}")
    return {
        "kind": source.choice(KINDS),
        "lanes": source.randint(1, 4),
        "note": source.choice(NOTES),
    }


def reports(reporting: Reporting, workload: Workload, topology: Topology, seed: int) -> Iterator[Planned]:
    """All that is reported, in order; of things, the first ones are reported about the most."""
    source = random.Random(f"reports/{seed}")
    topics = gathered(workload)
    things = range(reporting.keys)
    sums = list(accumulate(1 / (rank + 1) for rank in things))
    after = 0.0
    for number in range(workload.publications):
        after += source.expovariate(workload.rate_per_s)
        topic = source.choice(topics)
        key = thing(source.choices(things, cum_weights=sums)[0])
        qos = source.randint(0, 2) if workload.qos < 0 else workload.qos
        broker = source.choice(topology.ids)
        if source.random() < UNREADABLE:
            name, body = _unreadable(topic, key, source)
        else:
            name, body = report(reporting, topic, key, f"w{number}", seed, source)
        yield Planned(after, broker, name, body, qos)


def report(
    reporting: Reporting, topic: Gathered, key: str, witness: str, seed: int, source: random.Random
) -> tuple[str, bytes]:
    """What somebody says about something: a topic name and a payload."""
    known = truth(seed, topic.number, key)
    said: dict[str, object] = {} if topic.named else {topic.key: key}
    said |= {name: value for name, value in known.items() if source.random() < 0.3}
    if source.random() < 0.3:
        # Mostly low, so that most say nothing new and the greatest comes late.
        said["severity"] = int(SEVERITY_MAX * source.random() ** 3)
    if source.random() < 0.2:
        said["speed"] = source.randrange(0, SPEED_MAX, 10)
    if source.random() < reporting.witnessed:
        said["witness"] = [witness, "somebody"] if source.random() < 0.3 else witness
    if reporting.disputed:
        if source.random() < 0.2:
            said["mood"] = source.randrange(MOODS)
        if source.random() < 0.3:
            said["vote"] = source.choice(KINDS)
    if source.random() < 0.1:
        said[source.choice(reporting.fields)] = None
    return topic.topic_of(key), msgspec.json.encode(said)


def _unreadable(topic: Gathered, key: str, source: random.Random) -> tuple[str, bytes]:
    own: dict[str, object] = {} if topic.named else {topic.key: key}
    bad: list[bytes] = [
        msgspec.json.encode(own | {"severity": "high"}),
        msgspec.json.encode(own | {"colour": "red"}),
        b"no object",
    ]
    if own:
        bad.append(b'{"severity": 3}')
    return topic.topic_of(key), source.choice(bad)


def subscribers(reporting: Reporting, workload: Workload, topology: Topology, seed: int) -> list[Subscriber]:
    """All who subscribe, first those who want everything."""
    source = random.Random(f"followers/{seed}")
    brokers = topology.ids
    found = [
        Subscriber(brokers[at * (len(brokers) - 1)], f"w{at}", True, Subscription("#", qos=1))
        for at in range(min(WATCHERS, len(brokers)))
    ]
    for number in range(workload.subscriptions):
        qos = source.randint(0, 2) if workload.qos < 0 else workload.qos
        found.append(
            Subscriber(
                source.choice(brokers),
                f"s{number}",
                source.random() < workload.durable,
                wish(reporting, workload, qos, source),
            )
        )
    return found


def wish(reporting: Reporting, workload: Workload, qos: int, source: random.Random) -> Subscription:
    """What somebody wants to hear of."""
    topic = source.choice(gathered(workload))
    topic_filter = source.choice((topic.name.replace(f"+{topic.key}", "+"), "+/#", "#", "roads0/#"))
    if topic.named and source.random() < 0.3:
        topic_filter = topic.topic_of(thing(source.randrange(reporting.keys)))
    low = int(SEVERITY_MAX * source.random() ** 3)
    where = source.choice(
        (
            "",
            f"severity >= {low}",
            f"severity >= {low // 2} AND severity < {low + 50}",
            f"speed < {source.randrange(10, SPEED_MAX)}",
            f"kind = '{source.choice(KINDS)}'",
            "note IS NULL",
            "note IS NOT NULL AND lanes >= 2",
            f"severity >= {low} OR kind = 'fire'",
        )
    )
    unknown = Unknown.ASSUME if where and source.random() < 0.25 else Unknown.WAIT
    every_us = round(source.choice(EVERY_S) * 1e6) if source.random() < 0.25 else 0
    return Subscription(topic_filter, where, unknown, qos, every_us)
