"""Records drawn by chance: every kind, over some hours, with all that may be missing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from tests.judges.traffic_counts import JUDGES, Row
from tidings.records import traffic
from tidings.records.record import Kind, Record
from tidings.records.segments import SegmentWriter
from tidings.records.traffic import HOUR_US

BROKERS = "abcd"
REASONS = ("redundant", "refused: no room", "repeat", traffic.CARRIED, None)


def records(seed: int, count: int, hours: int = 5) -> list[Record]:
    """Records of four brokers, in which the same messages, events and reports come again."""
    source = random.Random(seed)
    found = []
    for n in range(count):
        kind = source.choice(list(Kind))
        told = source.random() < 0.5
        report = f"r{source.randrange(20)}" if kind in GATHERED or source.random() < 0.2 else None
        found.append(
            Record(
                source.choice(BROKERS),
                source.randrange(2),
                n,
                source.randrange(hours * HOUR_US),
                kind,
                topic=source.choice(("roads", "weather", None)),
                message=f"m{source.randrange(30)}",
                bytes=source.choice((None, 0, 7, 100)),
                event=f"e{source.randrange(6)}" if kind in GATHERED or told else None,
                version=source.randrange(1, 4) if told or kind in GATHERED else None,
                report=report,
                publisher=source.choice(("p1", "p2", "p3", None)),
                client=source.choice(("c1", None)),
                link=source.choice(("a", "b", None)),
                hops=source.choice((0, 1, 2, None)),
                latency_us=source.choice((None, 0, 5, -17, source.randrange(2_000_000), 2**40 + 1)),
                reason=source.choice(REASONS),
                receivers=tuple(source.sample(BROKERS, source.randrange(4))),
            )
        )
    return found


GATHERED = (Kind.OPENED, Kind.MERGED)


def segment(folder: Path, name: str, rows: Sequence[Record], number: int = 0) -> Path:
    """Write records as one closed segment."""
    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    writer = SegmentWriter(folder, name, number)
    for row in rows:
        writer.add(row)
    writer.close()
    (made,) = set(folder.iterdir()) - before
    return made


def judged(rows: Sequence[Record]) -> dict[str, list[Row]]:
    """What plain Python makes of records, each table in an order of its own."""
    return {name: sorted(judge(rows), key=repr) for name, judge in JUDGES.items()}
