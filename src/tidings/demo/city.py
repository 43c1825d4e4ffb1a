"""The city: a workload of Athens that Spark generates, and what of it a network is to carry.

Reports are partial, late, and sometimes wrong, and each field of an event is what most reports say. An event
whose reports do not outvote what is wrong in them could end as anything; it is left out, and counted, before
anything is published. Of all others it is known what they must end as: the truth, as far as somebody told it.

Nothing here knows how reports are published, or what a broker is.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidings.demo.sizes import Size
from tidings.language.declarations import topic_text
from tidings.language.fields import Conflict
from tidings.language.filters import Filter
from tidings.language.topics import Topic
from tidings.records import workload as tables
from tidings.records.workload_reading import Publications, Workload

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from tidings.pipeline.running import Step
    from tidings.pipeline.session import Session
    from tidings.workload.model import Model

MERGE_AFTER_US = 60_000_000
"""Tm in the city's time: a minute, a sixth of what a report takes on average, so that events grow."""

REDUNDANT_FOR_US_MIN = 3_600_000_000
"""Tr is not divided below this. A story has a key of its own, so that nothing depends on when its event is
closed; but on a busy machine a report may come late, and must still find it open."""

NAMES = {"detail_1": "people", "detail_2": "minutes"}
"""What the generator's further fields stand for in a city: who is concerned, and how long it may take."""

WATCHER = -1
"""The client that watches one whole topic: none of the workload's."""

Fields = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Place:
    """A broker, and where it stands."""

    id: str
    """The district that it is in, as the network calls it."""

    name: str
    """What the workload's tables call it."""

    region: str
    x: float
    y: float
    """Longitude and latitude."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What happened, as far as its reports tell of it: what its event must end as."""

    story: int
    topic: str
    at_us: int
    fields: Fields


@dataclass(frozen=True, slots=True)
class Report:
    """What somebody tells of it."""

    number: int
    story: int
    topic: str
    client: int
    broker: str
    due_s: float
    """When it is to be published: seconds of the network's time since the day began."""

    fields: Fields


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One who wants to hear of something: an MQTT session with one subscription."""

    client: int
    broker: str
    session: str
    topic_filter: str
    where: str
    filter: Filter | None
    """None for the one who watches a whole topic."""


@dataclass(frozen=True)
class Words:
    """What the numbers of one dimension stand for."""

    lows: tuple[int, ...]
    highs: tuple[int, ...]
    names: tuple[str, ...]
    """Of leaves, in the order of their numbers."""

    def of(self, number: int) -> str:
        """The word of a number; with a question mark if no leaf has it, as only what is wrong says."""
        at = min(
            range(len(self.lows)), key=lambda leaf: max(self.lows[leaf] - number, number - self.highs[leaf])
        )
        return self.names[at] if self.lows[at] <= number <= self.highs[at] else f"{self.names[at]}?"


@dataclass(frozen=True, eq=False)
class City:
    """A day, ready to be played."""

    folder: Path
    """Of the workload's tables."""

    speed_up: float
    brokers: tuple[Place, ...]
    links: tuple[tuple[str, str], ...]
    topics: tuple[Topic, ...]
    """As the network is told of them, with timings divided by the speed-up."""

    followed: str
    """The topic that one client, and Spark, hear all of: the one with most reports."""

    subscribers: tuple[Subscriber, ...]
    """The watcher of the followed topic is the last."""

    reports: tuple[Report, ...]
    """In the order in which they are due."""

    truths: Mapping[int, Truth]
    """By story."""

    doubtful: int
    """Events that were left out."""

    words: Mapping[str, Words]
    """By dimension."""

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The fields that stand for something."""
        return tuple(self.words)

    @property
    def merge_after_s(self) -> float:
        """Tm, in the network's time."""
        return max(topic.gathering.merge_after_us for topic in self.topics if topic.gathering) / 1e6

    @cached_property
    def reports_of(self) -> Mapping[int, tuple[Report, ...]]:
        """The reports of each story, in order."""
        found: dict[int, list[Report]] = defaultdict(list)
        for report in self.reports:
            found[report.story].append(report)
        return {story: tuple(told) for story, told in found.items()}

    def word(self, field: str, value: object) -> str:
        """A value as people say it."""
        return self.words[field].of(value) if field in self.words and isinstance(value, int) else str(value)

    def shown(self, fields: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
        """Fields and values as people say them."""
        return tuple((NAMES.get(name, name), self.word(name, value)) for name, value in fields.items())


def model(size: Size, seed: int) -> Model:
    """The plain values from which Spark makes the tables."""
    from tidings.workload import making, reading

    asked = {
        "seed": seed,
        "sizes.brokers": size.brokers,
        "sizes.subscriptions": size.subscriptions,
        "sizes.events": size.events,
        "sizes.requests": 0,
    }
    with resources.as_file(_bundled()) as folder:
        spec = reading.read(folder / "city.toml", {name: str(value) for name, value in asked.items()})
        return making.make(spec)


def generate(
    spark: Session, made: Model, folder: Path, progress: Callable[[Step], None] = lambda _: None
) -> None:
    """Have Spark make the tables, in a folder that has none; beside them declarations and spec, as always."""
    from tidings.pipeline import running
    from tidings.pipeline.tables import Store
    from tidings.pipeline.workload import draft as drafts

    stages = running.registry()
    wanted = running.chosen([name for name in stages if name != tables.REQUESTS], stages)
    with drafts.drafted(made, folder) as draft:
        running.run(spark, wanted, made, Store(folder), progress=progress)
        drafts.finish(draft, folder)


def read(made: Model, folder: Path, speed_up: float) -> City:
    """What Spark has made, as something to be played."""
    workload = Workload(folder)
    brokers = workload.brokers()
    places = {place.name: place for place in placed(made)}
    asked = workload.subscriptions()
    told = list(workload.published(tables.REPORTS))
    homes = workload.homes(brokers, np.concatenate([asked.client, *(stretch.client for stretch in told)]))
    ids = {client: places[home].id for client, home in homes.items()}
    happened = [
        Truth(number, stretch.topics[topic], at, fields)
        for stretch in workload.published(tables.EVENTS)
        for number, topic, at, fields in _rows(stretch, stretch.number, stretch.topic, stretch.at)
    ]
    reports = [
        Report(
            number,
            fields[tables.STORY],
            stretch.topics[topic],
            client,
            ids[client],
            (at - made.start_us) / 1e6 / speed_up,
            fields,
        )
        for stretch in told
        for number, topic, client, at, fields in _rows(
            stretch, stretch.number, stretch.topic, stretch.client, stretch.at
        )
    ]
    said: dict[int, list[Fields]] = defaultdict(list)
    for report in reports:
        said[report.story].append(report.fields)
    truths = {
        truth.story: replace(truth, fields=known)
        for truth in happened
        if (known := settled(truth.fields, said[truth.story])) is not None
    }
    kept = tuple(report for report in reports if report.story in truths)
    followed = Counter(report.topic for report in kept).most_common(1)[0][0]
    wishes = [(client, asked.asked(row)) for row, client in enumerate(asked.client.tolist())]
    return City(
        folder=folder,
        speed_up=speed_up,
        brokers=tuple(places.values()),
        links=tuple((places[link.one].id, places[link.other].id) for link in workload.links(brokers)),
        topics=tuple(declared(topic, speed_up) for topic in workload.declarations),
        followed=followed,
        subscribers=(
            *(
                Subscriber(
                    client,
                    ids[client],
                    session_of(client),
                    one.topic_filter,
                    one.filter.source,
                    one.filter,
                )
                for client, one in wishes
            ),
            Subscriber(WATCHER, places[brokers[0].name].id, "watcher", followed, "", None),
        ),
        reports=kept,
        truths=truths,
        doubtful=len(happened) - len(truths),
        words=words(made),
    )


def session_of(client: int) -> str:
    """What a client of the city is called by the brokers."""
    return f"client-{client}"


def settled(truth: Fields, said: Iterable[Fields]) -> Fields | None:
    """The truth as far as it is told; None if what is wrong is told as often as what is true, in any field.

    >>> settled({"severity": 4, "incident": 7}, [{"severity": 4}, {"severity": 4}, {"severity": 2}])
    {'severity': 4}
    >>> settled({"severity": 4}, [{"severity": 4}, {"severity": 2}])
    """
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    for fields in said:
        for name, value in fields.items():
            votes[name][value] += 1
    for name, counts in votes.items():
        right = counts[truth[name]]
        if any(count >= right for value, count in counts.items() if value != truth[name]):
            return None
    return {name: value for name, value in truth.items() if name in votes}


def declared(topic: Topic, speed_up: float) -> Topic:
    """A topic of the workload as the demonstration declares it: by majority, and faster."""
    gathering = topic.gathering
    assert gathering is not None, f"{topic.name} is gathered"
    merge_after_us = max(1, round(MERGE_AFTER_US / speed_up))
    return replace(
        topic,
        fields={
            path: field if path == (tables.STORY,) else replace(field, conflict=Conflict.MAJORITY)
            for path, field in topic.fields.items()
        },
        gathering=replace(
            gathering,
            merge_after_us=merge_after_us,
            every_min_us=merge_after_us,
            redundant_for_us=max(REDUNDANT_FOR_US_MIN, round(gathering.redundant_for_us / speed_up)),
        ),
    )


def write_declarations(topics: Iterable[Topic], folder: Path) -> list[Path]:
    """A file for each topic, as brokers read them."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for topic in topics:
        found.append(folder / f"{topic.name.replace('/', '-')}.toml")
        found[-1].write_text(topic_text(topic) + "\n", encoding="utf-8")
    return found


def words(made: Model) -> dict[str, Words]:
    """What numbers stand for, of each dimension."""
    return {
        hierarchy.name: Words(
            tuple(int(lows[leaf]) for leaf in hierarchy.leaves),
            tuple(int(highs[leaf]) for leaf in hierarchy.leaves),
            tuple(hierarchy.nodes[leaf] for leaf in hierarchy.leaves),
        )
        for hierarchy, lows, highs in zip(made.dimensions, made.lows, made.highs, strict=True)
    }


def placed(made: Model) -> list[Place]:
    """The brokers, each called by the district that it stands in or nearest to."""
    from tidings.pipeline.workload import brokers

    rows = csv.DictReader((_bundled() / "places.csv").read_text(encoding="utf-8").splitlines())
    at = {row["name"]: (float(row["lon"]), float(row["lat"])) for row in rows}
    regions, points = brokers.points(made)
    found: list[Place] = []
    used: Counter[str] = Counter()
    for number, (region, point) in enumerate(zip(regions.tolist(), points, strict=True)):
        nearest = int(np.square(made.nodes.points - point).sum(axis=1).argmin())
        district = made.nodes.names[nearest]
        word = re.sub(r"\W+", "-", district.lower())
        used[word] += 1
        id_ = word if used[word] == 1 else f"{word}-{used[word]}"
        found.append(Place(id_, brokers.name(number), made.regions[region], *at[district]))
    return found


def _rows(stretch: Publications, *columns: npt.NDArray[np.int64]) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.tolist() for column in columns), stretch.rows(), strict=True)


def _bundled() -> Traversable:
    return resources.files(__package__) / "athens"
