"""Records for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tidings.records.record import Kind, Record, Run

WHOLE = Record(
    broker="b1",
    boot=3,
    n=9,
    at=1_700_000_000_000_001,
    kind=Kind.FORWARDED,
    topic="traffic/αθήνα",
    message="b1:3:b1:77",
    bytes=120,
    event="traffic/athens|Omonia|b1:3:4",
    version=2,
    report="b1:3:5",
    publisher="camera-7",
    client="c4",
    subscription="s1",
    link="b2",
    hops=1,
    latency_us=1_500,
    reason="why",
    receivers=("b3", "b4"),
    epoch="b1:3:12",
)
"""A record with every field said."""


def row(n: int, kind: Kind = Kind.PUBLISHED, **fields: object) -> Record:
    """A record of broker b1 in boot 1, unless the fields say otherwise."""
    return Record(**{"broker": "b1", "boot": 1, "n": n, "at": n * 1000, "kind": kind, **fields})  # type: ignore[arg-type]


def run(n: int, rows: int, receivers: Sequence[tuple[str, ...]] = ((),)) -> Run:
    """A run of that many rows, of the same broker and boot."""
    return Run(
        "b1",
        1,
        n,
        n * 1000,
        Kind.DELIVERED,
        ("t",),
        ("c1",),
        "b1:1:b1:",
        range(n, n + rows),
        [5],
        receivers=receivers,
    )


def say_format(segment: Path, said: str | None) -> None:
    """Let a segment say that it has another format, or none."""
    table = pq.read_table(segment).replace_schema_metadata({} if said is None else {"tidings.records": said})
    pq.write_table(table, segment)
