"""Small workloads on disk, written by hand: what a generator would write, and what it never would."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.records import workload as tables

START_US = 1_793_491_200_000_000
"""2026-11-01, when these workloads begin."""

SECOND_US = 1_000_000
DIMENSIONS = ("subject", "language")
DETAILS = ("detail_1",)
SPAN = 1_000
"""Fields have values from 0 up to this."""

TOPICS = ("subject/arts", "subject/sport")

Row = Mapping[str, Any]


def write(
    folder: Path,
    *,
    dimensions: Sequence[str] = DIMENSIONS,
    parts: int = 1,
    linked: bool = False,
    declare: bool = True,
    **rows: Iterable[Row],
) -> Path:
    """Tables by their names, in so many files each; `linked` as the pipeline does it."""
    for name, given in rows.items():
        write_table(folder, name, table(name, given, dimensions), parts, linked)
    if declare:
        write_declarations(folder, dimensions)
    return folder


def table(name: str, rows: Iterable[Row], dimensions: Sequence[str] = DIMENSIONS) -> pa.Table:
    """A table as Spark writes it: of the right types, and everything may be null."""
    fields = [
        pa.field(one.name, pa.struct([(inner.name, inner.type) for inner in one.type.fields]))
        if pa.types.is_struct(one.type)
        else pa.field(one.name, one.type)
        for one in tables.schemas(dimensions, DETAILS)[name]
    ]
    return pa.Table.from_pylist(list(rows), pa.schema(fields))


def write_table(folder: Path, name: str, table: pa.Table, parts: int = 1, linked: bool = False) -> None:
    """One table as files beside what readers pass over."""
    at = folder / ".versions" / name / "1" if linked else folder / name
    at.mkdir(parents=True, exist_ok=True)
    each = max(1, -(-table.num_rows // parts))
    for part in range(parts):
        pq.write_table(table.slice(part * each, each), at / f"part-{part:05d}-x.zstd.parquet")
    (at / "_SUCCESS").write_text("")
    (at / ".part-00000.parquet.crc").write_text("crc")
    if linked:
        (folder / name).symlink_to(Path(".versions") / name / "1")


def write_declarations(folder: Path, dimensions: Sequence[str] = DIMENSIONS) -> None:
    """The gathered topics of a workload."""
    at = folder / tables.DECLARATIONS
    at.mkdir(parents=True, exist_ok=True)
    names = (tables.STORY, *dimensions, tables.SEVERITY, *DETAILS)
    for topic in TOPICS:
        lines = [
            f'name = "{topic}"',
            'kind = "gathered"',
            'key = ["story"]',
            'merge_after = "1s"',
            'redundant_for = "10m"',
            'window = "1h"',
            "[fields]",
            *(f'{name} = {{ type = "int", conflict = "{_conflict(name)}" }}' for name in names),
        ]
        (at / f"{topic.replace('/', '-')}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _conflict(name: str) -> str:
    return "max" if name == tables.SEVERITY else "first"


def broker(name: str, *point: float) -> Row:
    return {"broker": name, "region": "eu", **_point(point)}


def link(a: str, b: str, delay_ms: float = 5.0) -> Row:
    return {"a": a, "b": b, "delay_ms": delay_ms}


def client(number: int, at: str | None, *point: float) -> Row:
    return {"client": number, "region": "eu", **_point(point), "broker": at}


def _point(point: Sequence[float]) -> dict[str, float]:
    return dict(zip(tables.COORDINATES, [*point, *[0.0] * 5], strict=False))


def subscription(
    number: int,
    client: int = 0,
    topic: str = TOPICS[0],
    *,
    where: str | None = None,
    unknown: str = "wait",
    from_s: float = 0,
    until_s: float | None = None,
    **ends: tuple[int, int] | None,
) -> Row:
    """`ends`: the two ends of an interval by the name of its field; None for no rectangle."""
    row: dict[str, Any] = {
        "subscription": number,
        "client": client,
        "topic": topic,
        "where": where,
        "unknown": unknown,
        "from_at": START_US + round(from_s * SECOND_US),
        "until_at": None if until_s is None else START_US + round(until_s * SECOND_US),
    }
    for name, both in (ends or dict.fromkeys(DIMENSIONS, (0, SPAN - 1))).items():
        low, high = both or (None, None)
        row |= {tables.low(name): low, tables.high(name): high}
    return row


def event(
    number: int, at_s: float, subject: int = 0, language: int = 0, *, topic: str = TOPICS[0], client: int = 0
) -> Row:
    fields = {
        "story": number,
        "subject": subject,
        "language": language,
        "severity": number % 7,
        "detail_1": 3,
    }
    at = START_US + round(at_s * SECOND_US)
    return {"event": number, "topic": topic, "at": at, "client": client, "fields": fields}


def report(
    number: int, event: int, at_s: float, *, topic: str = TOPICS[0], client: int = 0, **known: int | None
) -> Row:
    return {
        "report": number,
        "event": event,
        "topic": topic,
        "at": START_US + round(at_s * SECOND_US),
        "client": client,
        "fields": {"story": event, **known},
    }


BROKERS = ("b0", "b1", "b2", "b3")
CLIENTS = 12


def drawn(
    seed: int,
    *,
    subscriptions: int = 60,
    events: int = 30,
    reports_each: int = 3,
    lasts_s: float = 60.0,
    coming: float = 0.3,
    assume: float = 0.1,
) -> dict[str, Any]:
    """The tables of a workload on four brokers in a ring, drawn from a seed."""
    source = random.Random(seed)

    def interval(width: int) -> tuple[int, int]:
        low = source.randrange(SPAN)
        return low, min(SPAN - 1, low + source.randrange(1, width))

    found: dict[str, list[Any]] = {
        "brokers": [broker(name, source.uniform(0, 99), source.uniform(0, 99)) for name in BROKERS],
        "links": [
            link(one, other, source.uniform(1, 40))
            for one, other in zip(BROKERS, [*BROKERS[1:], BROKERS[0]], strict=True)
        ],
        "clients": [client(number, source.choice(BROKERS), 1.0, 2.0) for number in range(CLIENTS)],
        "subscriptions": [],
        "events": [],
        "reports": [],
    }
    for number in range(subscriptions):
        comes = source.random() < coming
        from_s = source.uniform(0, lasts_s) if comes else 0.0
        until_s = source.uniform(from_s, 2 * lasts_s) if source.random() < coming else None
        found["subscriptions"].append(
            subscription(
                number,
                source.randrange(CLIENTS),
                source.choice((*TOPICS, "subject/+")),
                unknown="assume" if source.random() < assume else "wait",
                from_s=from_s,
                until_s=until_s,
                subject=interval(400),
                language=interval(700),
            )
        )
    for number in range(events):
        at_s = source.uniform(1, lasts_s)
        topic = source.choice(TOPICS)
        one = event(
            number,
            at_s,
            source.randrange(SPAN),
            source.randrange(SPAN),
            topic=topic,
            client=source.randrange(CLIENTS),
        )
        found["events"].append(one)
        for _ in range(reports_each):
            known = {
                name: value
                for name, value in one["fields"].items()
                if name != "story" and source.random() < 0.6
            }
            found["reports"].append(
                report(
                    len(found["reports"]),
                    number,
                    at_s + source.uniform(0, 5),
                    topic=topic,
                    client=source.randrange(CLIENTS),
                    **known,
                )
            )
    source.shuffle(found["subscriptions"])
    source.shuffle(found["events"])
    source.shuffle(found["reports"])
    return found
