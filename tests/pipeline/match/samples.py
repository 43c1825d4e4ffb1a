"""Subscriptions and events of all sorts as Arrow tables, and the answers of `Scan`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tests.language.samples import FIELDS, some_event, some_filter
from tidings.errors import FilterError
from tidings.language import names
from tidings.language.fields import Field, Path, Type
from tidings.language.filters import parse
from tidings.language.regions import Unknown
from tidings.matching import Scan

TOPICS = ("sport/chess", "sport/go", "arts")
TOPIC_FILTERS = ("#", "sport/+", "sport/chess", "arts", "other/#")

DOMAINS: dict[Path, tuple[Any, ...]] = {
    ("i",): (-3, 7),
    ("f",): (-2.5, 3.0),
    ("s",): ("fire", "a", "b"),
    ("t",): (datetime(1970, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
    ("p", "lane"): (0, 5),
}

SPACED: dict[Path, Field] = {
    path: Field(path, field.type, DOMAINS.get(path)) for path, field in FIELDS.items()
}
"""The sample fields, some with a domain."""

_TYPES = {
    Type.INT: pa.int64(),
    Type.FLOAT: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOL: pa.bool_(),
    Type.TIMESTAMP: pa.timestamp("us", "UTC"),
}

INNER = pa.struct([(path[1], _TYPES[field.type]) for path, field in FIELDS.items() if path[0] == "p"])

STRUCT = pa.struct(
    [
        *((path[0], _TYPES[field.type]) for path, field in FIELDS.items() if len(path) == 1),
        ("p", INNER),
    ]
)
"""The sample fields as a column."""

EVENTS = pa.schema([("event", pa.int64()), ("topic", pa.string()), ("at", pa.int64()), ("fields", STRUCT)])

SUBSCRIPTIONS = pa.schema(
    [
        ("subscription", pa.int64()),
        ("topic", pa.string()),
        ("where", pa.string()),
        ("unknown", pa.string()),
        ("from_at", pa.int64()),
        ("until_at", pa.int64()),
    ]
)


def some_events(rng: random.Random, count: int) -> pa.Table:
    rows = []
    for number in range(count):
        fields = some_event(rng)
        # What Spark makes of ancient times depends on the calendar in which they were written.
        at = fields.get("t")
        if isinstance(at, datetime) and at.year < 1900:
            fields["t"] = datetime(1900, 1, 1, tzinfo=UTC) + timedelta(microseconds=7)
        rows.append(
            {"event": number, "topic": rng.choice(TOPICS), "at": rng.randrange(100), "fields": fields}
        )
    return pa.Table.from_pylist(rows, EVENTS)


def some_subscriptions(rng: random.Random, count: int) -> pa.Table:
    rows: list[dict[str, Any]] = []
    texts: list[str] = []
    while len(rows) < count:
        # Many ask for what somebody asks for already.
        text = (
            rng.choice(texts) if texts and rng.random() < 0.3 else some_filter(rng, depth=rng.randint(0, 2))
        )
        try:
            parse(text, FIELDS)
        except FilterError:
            continue
        texts.append(text)
        begin = rng.choice([0, 0, rng.randrange(100)])
        rows.append(
            {
                "subscription": 3 * len(rows) + 5,
                "topic": rng.choice(TOPIC_FILTERS),
                "where": text,
                "unknown": rng.choice(["wait", "assume"]),
                "from_at": begin,
                "until_at": rng.choice([None, begin + rng.randrange(100)]),
            }
        )
    rng.shuffle(rows)
    return pa.Table.from_pylist(rows, SUBSCRIPTIONS)


def known(value: Any) -> Any:
    """A row's fields without those that are missing."""
    if isinstance(value, dict):
        return {name: known(one) for name, one in value.items() if one is not None}
    return value


def scanned(events: pa.Table, subscriptions: pa.Table) -> list[tuple[int, list[int]]]:
    """The right answers, by event: every subscription is asked about every event."""
    scan = Scan()
    rows: Sequence[dict[str, Any]] = subscriptions.to_pylist()
    for at, row in enumerate(rows):
        scan.add(at, parse(row["where"], FIELDS), Unknown(row["unknown"]))
    found = []
    for event in events.to_pylist():
        standing = [
            row["subscription"]
            for at in scan.match(known(event["fields"]))
            for row in [rows[int(at)]]
            if names.match(row["topic"], event["topic"])
            and row["from_at"] <= event["at"]
            and (row["until_at"] is None or event["at"] < row["until_at"])
        ]
        found.append((event["event"], sorted(standing)))
    return sorted(found)
