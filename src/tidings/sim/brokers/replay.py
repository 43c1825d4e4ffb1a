"""A workload from tables as something to simulate: its brokers, who wants what and when, what happens.

Times are seconds since the workload begins, which is when its first subscription or publication comes. What
is published are its reports, on its gathered topics, or its events as they were, on plain topics of the same
names. How it is run is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from tidings.errors import InputError
from tidings.language.fields import Conflict, path_text
from tidings.language.keys import Whole
from tidings.language.subscriptions import Subscription, remember
from tidings.language.topics import Topic
from tidings.planning import topologies
from tidings.planning.topologies import Link, Place, Topology
from tidings.records import workload as tables
from tidings.records.workload_reading import NEVER, Publications, Workload
from tidings.sim.brokers.workload import Planned
from tidings.sim.gathering.workload import Gathered

SUBSCRIPTIONS_MAX = 200_000
PUBLICATIONS_MAX = 1_000_000
"""What some gigabytes hold: measured, a subscription takes about 10 kB, a publication 3."""

SOURCES = (tables.REPORTS, tables.EVENTS)
"""What can be published; the first that there is, if nothing is said."""

STEADY = (Conflict.MAX, Conflict.MIN, Conflict.UNION)
"""Policies whose outcome does not depend on the order of reports, even where they contradict each other."""

LASTING_S = 3_600.0
"""How long after the last publication a run may go on."""


@dataclass(frozen=True, slots=True)
class Follower:
    """A subscription, from when to when."""

    number: int
    client: int
    subscription: Subscription
    from_s: float
    until_s: float | None


@dataclass(frozen=True, slots=True)
class Happening(Planned):
    """A publication to come, of a client."""

    client: int


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared of gathered topics, as those who judge the run need it."""

    fields: tuple[str, ...]
    policies: Mapping[str, str]
    lasting: bool
    merge_after_s: float
    seats_stay: bool
    """Whether seats never move, so that they are where the strategy puts them."""

    seat: str


@dataclass(frozen=True, eq=False)
class Replay:
    """All of it."""

    topology: Topology
    topics: tuple[Topic, ...]
    """As brokers are told of them: gathered for reports, plain for events."""

    homes: Mapping[int, str]
    """The broker of each client that does something."""

    followers: tuple[Follower, ...]
    happenings: tuple[Happening, ...]
    lasts_s: float
    """Until the last publication."""

    declared: Declared | None
    """For reports."""

    gathered: tuple[Gathered, ...]


def read(
    workload: Workload,
    publish: str | None = None,
    *,
    subscriptions: int | None = None,
    publications: int | None = None,
    speed_up: float = 1.0,
    qos: int = 1,
) -> Replay:
    """A workload, or the first of its subscriptions by number and the first of its publications by time."""
    source = _source(workload, publish)
    held = workload.table(source).rows
    kept = held if publications is None else min(publications, held)
    if kept > PUBLICATIONS_MAX:
        raise InputError(
            f"{workload.folder / source} has {kept:,} rows, more than fit into memory here, at most "
            f"{PUBLICATIONS_MAX:,}; take the first ones with --publications {PUBLICATIONS_MAX}"
        )
    asked = workload.subscriptions(subscriptions, SUBSCRIPTIONS_MAX)
    stretches = list(workload.published(source, kept))
    clients = np.concatenate([asked.client, *(stretch.client for stretch in stretches)])
    brokers = workload.brokers()
    topology = topologies.checked(
        Topology(
            tuple(Place(broker.name, broker.point[0], broker.point[1]) for broker in brokers),
            tuple(Link(one.one, one.other, one.delay_ms / 1e3) for one in workload.links(brokers)),
        ),
        str(workload.folder),
    )
    homes = workload.homes(brokers, clients)
    begins = [int(stretch.at[0]) for stretch in stretches[:1]] + asked.from_at.tolist()
    start_us = min(begins, default=0)

    def since(at: int) -> float:
        return (at - start_us) / 1e6 / speed_up

    different = asked.distinct[0].tolist()
    made = [asked.asked(row) for row in different]
    wishes = [Subscription(one.topic_filter, remember(one.filter), one.unknown, qos) for one in made]
    followers = tuple(
        Follower(
            number, client, wishes[place], since(from_at), None if until_at == NEVER else since(until_at)
        )
        for number, client, place, from_at, until_at in zip(
            *(
                column.tolist()
                for column in (asked.number, asked.client, asked.distinct[1], asked.from_at, asked.until_at)
            ),
            strict=True,
        )
    )
    happenings = tuple(
        Happening(since(at), homes[client], stretch.topics[topic], msgspec.json.encode(fields), qos, client)
        for stretch in stretches
        for at, client, topic, fields in zip(
            stretch.at.tolist(),
            stretch.client.tolist(),
            stretch.topic.tolist(),
            stretch.rows(),
            strict=True,
        )
    )
    lasts_s = happenings[-1].after if happenings else 0.0
    topics: Sequence[Topic] = workload.declarations
    declared: Declared | None = None
    gathered: tuple[Gathered, ...] = ()
    if source == tables.REPORTS:
        _refuse_undeclared(workload, stretches)
        declared, gathered = _declared(workload, lasts_s)
    else:
        _refuse_alike(workload, happenings)
        topics = [_plain(topic) for topic in topics]
    return Replay(topology, tuple(topics), homes, followers, happenings, lasts_s, declared, gathered)


def _source(workload: Workload, publish: str | None) -> str:
    if publish is None:
        return next((name for name in SOURCES if workload.has(name)), tables.EVENTS)
    if publish not in SOURCES:
        raise InputError(f"--publish is {publish!r}; give {' or '.join(SOURCES)}")
    return publish


def _refuse_alike(workload: Workload, happenings: Sequence[Happening]) -> None:
    """Events are told apart by what they say; checkers could not judge two that say the same."""
    seen: dict[bytes, None] = {}
    for one in happenings:
        if one.payload in seen:
            raise InputError(
                f"{workload.folder / tables.EVENTS}: two events say {one.payload.decode()}; their "
                f"{tables.STORY} should differ"
            )
        seen[one.payload] = None


def _refuse_undeclared(workload: Workload, stretches: Sequence[Publications]) -> None:
    for stretch in stretches:
        for place in np.unique(stretch.topic).tolist():
            name = stretch.topics[place]
            if not any(topic.pattern.bind(name) is not None for topic in workload.declarations):
                raise InputError(
                    f"{workload.folder / tables.REPORTS}: there are reports on {name!r}, which no file in "
                    f"{workload.folder / tables.DECLARATIONS} declares; declare it, or take --publish events"
                )


def _declared(workload: Workload, lasts_s: float) -> tuple[Declared, tuple[Gathered, ...]]:
    """What is declared, which must be the same for all topics but for their names."""
    found: list[Declared] = []
    gathered = []
    for number, topic in enumerate(workload.declarations):
        gathering = topic.gathering
        if gathering is None or len(topic.key) != 1 or not isinstance(topic.key[0], Whole):
            raise InputError(
                f"{workload.folder / tables.DECLARATIONS}: {topic.name!r} is not a gathered topic whose key "
                "is one field; reports need that, or take --publish events"
            )
        key = path_text(topic.key[0].path)
        gathered.append(Gathered(number, topic.name, key))
        fields = {path_text(path): field.conflict for path, field in topic.fields.items()}
        open_s = gathering.redundant_for_us / 1e6
        found.append(
            Declared(
                tuple(name for name in fields if name != key),
                # Of reports that contradict each other any may win, where their order counts.
                {
                    name: conflict if conflict in STEADY else Conflict.LAST
                    for name, conflict in fields.items()
                    if name != key
                },
                open_s >= lasts_s + LASTING_S and gathering.ends_when is None,
                gathering.merge_after_us / 1e6,
                gathering.seat != "traffic" and gathering.seat_scope != "topic" and gathering.seats == 1,
                gathering.seat,
            )
        )
    if any(one != found[0] for one in found):
        raise InputError(
            f"{workload.folder / tables.DECLARATIONS}: topics differ in their fields, times or seats; "
            "declare all of them alike, so that the run can be judged, or take --publish events"
        )
    return found[0], tuple(gathered)


def _plain(topic: Topic) -> Topic:
    """The same topic with its fields, without gathering."""
    if topic.gathering is None:
        return topic
    fields: dict[str, Any] = {}
    for path, field in topic.fields.items():
        group = fields
        for name in path[:-1]:
            group = group.setdefault(name, {})
        group[path[-1]] = {"type": field.type.value}
    return Topic.from_mapping({"name": topic.name, "kind": "plain", "fields": fields})
