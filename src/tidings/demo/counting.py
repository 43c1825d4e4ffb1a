"""Step 5, the figures: what the brokers wrote down becomes the numbers of a day, by the stages of traffic.

Whatever looks at many records is Spark; what comes here is small. What clients saw is compared with it, so
that a figure on the page was counted twice, by those who sent and received and by those who carried.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.console.day import Broker, Check, Happening, Life, Link, Moment, Topic
from tidings.demo.asking import told
from tidings.records import traffic, workload
from tidings.records.record import Kind

if TYPE_CHECKING:
    from tidings.demo.following import Following
    from tidings.demo.playing import Played, Sent
    from tidings.pipeline.session import Session

MOMENTS = 60
"""Into how many stretches a day is cut, about."""

REDUNDANT = ("redundant", "dropped on the way")
"""Why a report that says nothing new went no further: at the seat, or before it."""

FATES = {Kind.OPENED.value: "opened", Kind.MERGED.value: "merged"}
"""What the record of a report makes of it; any other is redundant."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a day says of the network, by the names that `Day` has for it."""

    brokers: tuple[Broker, ...]
    links: tuple[Link, ...]
    topics: tuple[Topic, ...]
    moments: tuple[Moment, ...]
    life: Life | None
    latencies_ms: tuple[tuple[float, int], ...]
    checks: tuple[Check, ...]
    notes: tuple[str, ...]


def counted(spark: Session, played: Played, folder: Path, following: Following | None) -> Counted:
    """Count a day from the records of its brokers, all of which are closed; tables go into the folder."""
    from tidings.pipeline import days
    from tidings.pipeline.tables import Store, read_files
    from tidings.pipeline.traffic import running

    store = Store(folder)
    running.run(spark, played.records, store)
    tables = store.path(traffic.TRAFFIC)

    def table(name: str) -> Any:
        return read_files(spark, [tables / name], traffic.schemas()[name])

    def collected(frame: Any) -> list[dict[str, Any]]:
        return [row.asDict() for row in frame.collect()]

    records = table(traffic.RECORDS)
    width_us = max(1, round(played.seconds * 1e6 / MOMENTS))
    topics = topics_of(
        collected(days.sums(table(traffic.TOPICS), "topic")),
        collected(days.sums(table(traffic.SUPPRESSION), "topic", "reason")),
        {topic.name for topic in played.city.topics},
    )
    return Counted(
        brokers=_brokers(
            played,
            collected(days.sums(table(traffic.BROKERS), "broker")),
            collected(days.seats(records)),
        ),
        links=links_of(played.city.links, collected(days.sums(table(traffic.LINKS), "sender", "receiver"))),
        topics=topics,
        moments=moments_of(collected(days.moments(records, played.began_us, width_us)), width_us),
        life=_life(played, records, following) if following is not None else None,
        latencies_ms=tuple(
            sorted(
                (row["latency_us"] / 1000, row["deliveries"]) for row in collected(days.latencies(records))
            )
        ),
        checks=checks(
            topics,
            Counter(one.topic for one in played.sent),
            Counter(one.topic for one in played.delivered),
        ),
        notes=(),
    )


def topics_of(
    rows: Sequence[Mapping[str, Any]], suppressed: Sequence[Mapping[str, Any]], names: set[str]
) -> tuple[Topic, ...]:
    """What became of the reports of each topic, the busiest first."""
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for row in suppressed:
        reasons[row["topic"]][row["reason"]] += row["messages"]
    found = [
        Topic(
            name=row["topic"],
            reports=row["reports"],
            redundant=sum(reasons[row["topic"]][reason] for reason in REDUNDANT),
            merged=row["merged"] + reasons[row["topic"]][traffic.CARRIED],
            opened=row["opened"],
            versions=row["told"],
            delivered=row["delivered"],
        )
        for row in rows
        if row["topic"] in names
    ]
    return tuple(sorted(found, key=lambda topic: (-topic.reports, topic.name)))


def links_of(links: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, Any]]) -> tuple[Link, ...]:
    """What went over each link, in both directions together."""
    sums: dict[frozenset[str], Counter[str]] = defaultdict(Counter)
    for row in rows:
        ends = frozenset((row["sender"], row["receiver"]))
        sums[ends].update(messages=row["forwarded"], bytes=row["bytes"], reports=row["reports"])
    found = []
    for a, b in links:
        own = sums[frozenset((a, b))]
        found.append(Link(a, b, own["messages"], own["bytes"], own["reports"]))
    return tuple(found)


def moments_of(rows: Sequence[Mapping[str, Any]], width_us: int) -> tuple[Moment, ...]:
    """The stretches of a day, those in which nothing happened too."""
    by_place = {row["moment"]: row for row in rows}
    nothing = {"reports": 0, "versions": 0, "deliveries": 0}
    return tuple(
        Moment(place * width_us / 1e6, own["reports"], own["versions"], own["deliveries"])
        for place in range(max(by_place, default=-1) + 1)
        for own in [by_place.get(place, nothing)]
    )


def _brokers(
    played: Played, rows: Sequence[Mapping[str, Any]], seats: Sequence[Mapping[str, Any]]
) -> tuple[Broker, ...]:
    by_name = {row["broker"]: row for row in rows}
    nothing = {"published": 0, "forwarded": 0, "delivered": 0}
    return tuple(
        Broker(
            id=place.id,
            region=place.region,
            x=place.x,
            y=place.y,
            published=own["published"],
            forwarded=own["forwarded"],
            delivered=own["delivered"],
            cpu_s=played.cpu_s.get(place.id),
            seats=tuple(sorted(row["topic"] for row in seats if row["broker"] == place.id)),
        )
        for place in played.city.brokers
        for own in [by_name.get(place.id, nothing)]
    )


def checks(
    topics: Sequence[Topic], published: Mapping[str, int], delivered: Mapping[str, int]
) -> tuple[Check, ...]:
    """Whether what clients saw is what brokers wrote down, topic by topic."""
    return (
        _agree(
            "Reports published, by clients and by records", published, {t.name: t.reports for t in topics}
        ),
        _agree(
            "Reports published, and what became of them",
            {t.name: t.reports for t in topics},
            {t.name: t.opened + t.merged + t.redundant for t in topics},
        ),
        _agree("Deliveries, by clients and by records", delivered, {t.name: t.delivered for t in topics}),
    )


def _agree(name: str, one: Mapping[str, int], other: Mapping[str, int]) -> Check:
    differing = sorted(
        topic for topic in one.keys() | other.keys() if one.get(topic, 0) != other.get(topic, 0)
    )
    if not differing:
        return Check(name, f"{sum(one.values()):,} both times", True)
    first = differing[0]
    seen = f"{first}: {one.get(first, 0):,} and {other.get(first, 0):,}"
    more = f", and {len(differing) - 1} more topics" if len(differing) > 1 else ""
    return Check(name, seen + more, False)


# One event.


def _life(played: Played, records: Any, following: Following) -> Life | None:
    """The event of the followed topic from which most can be learnt."""
    from tidings.pipeline import days

    chosen = days.lives(records, following.topic).limit(1).collect()
    if not chosen:
        return None
    event = str(chosen[0]["event"])
    log = following.table()
    versions = [row.asDict() for row in log.where(log["_event"] == event).collect()]
    return life_of(
        event,
        following.topic,
        [row.asDict() for row in days.reports_of(records, event).collect()],
        [row.asDict() for row in days.versions_of(records, event).collect()],
        {row["_version"]: told(row) for row in versions},
        played,
    )


def life_of(
    event: str,
    topic: str,
    reports: Sequence[Mapping[str, Any]],
    versions: Sequence[Mapping[str, Any]],
    contents: Mapping[int, Mapping[str, Any]],
    played: Played,
) -> Life | None:
    """An event from its records, what the log says of its versions, and what was sent; None if that differs.

    The report at some place of its publisher is the one that was sent at this place: brokers keep the order
    of each publisher.
    """
    said: dict[str, list[Sent]] = defaultdict(list)
    for one in played.sent:
        said[one.session].append(one)
    story = next((fields[workload.STORY] for fields in contents.values()), None)
    happenings = []
    for row in reports:
        own = said[row["publisher"]][row["place"] : row["place"] + 1]
        if not own or own[0].story != story:
            return None
        happenings.append(
            Happening(
                at_s=(row["at"] - played.began_us) / 1e6,
                kind="report",
                by=f"client {own[0].client}",
                became=FATES.get(row["became"], "redundant"),
                says=_shown(played, own[0].fields),
            )
        )
    before: Mapping[str, Any] = {}
    for row in versions:
        fields = contents.get(row["version"], before)
        news = {name: value for name, value in fields.items() if before.get(name) != value}
        happenings.append(
            Happening(
                at_s=(row["at"] - played.began_us) / 1e6,
                kind="version",
                by=row["broker"],
                became=str(row["version"]),
                says=_shown(played, news),
                receivers=row["receivers"],
            )
        )
        before = fields
    truth = played.city.truths.get(story) if story is not None else None
    if truth is None:
        return None
    return Life(
        event=event,
        topic=topic,
        truth=_shown(played, truth.fields),
        happenings=tuple(sorted(happenings, key=lambda one: one.at_s)),
    )


def _shown(played: Played, fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Fields in words; the story is the event itself."""
    return played.city.shown({name: value for name, value in fields.items() if name != workload.STORY})
