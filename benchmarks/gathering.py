"""Reports per second through the gatherer, and bytes per open event, beside the plain way of doing it.

    python benchmarks/gathering.py [--json] [--reports N] [--no-live] [--profile]

Reports are made beforehand, typed and keyed as a seat gets them. There are 20 fields; a thing is reported
some 20 times, from many places at once; one report in eight brings something new. "whole" reports have all
fields, "partial" ones 1 to 10 of them, as in the paper's experiments. `plain` is a gatherer as one writes it
first: a loop over the fields of each report, and a heap of clocks in which every restart is a new item. The
last rows are what a report costs from the bytes of a payload on: JSON, types, key, gatherer.

Topics have `complete = "once"`, so that what is measured is gathering: with the default, "event", each report
that changes a complete event is a telling as well.

`plain` counts no conflicts and no bytes, has two policies, and could neither be copied nor joined: it is how
fast Python is at the bare task. Times are of the processor, on one core. Then `gathering_seat.py` measures
live brokers.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import heapq
import json
import pstats
import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tidings.gathering import Gatherer
from tidings.language import payloads
from tidings.language.reports import Report, Shape
from tidings.language.topics import Topic

RUNS = 7
OPEN = 2_000
"""Things that are reported at the same time."""

TIMES_EACH = 20
"""Reports about one thing, on average."""

TYPES = ("int", "float", "string", "bool", "timestamp")


def topic(conflict: str = "first", **changes: Any) -> Topic:
    """20 fields: the key, a growing number, and 18 of all types under one policy."""
    fields: dict[str, Any] = {"place": {"type": "string"}, "severity": {"type": "int", "conflict": "max"}}
    for number in range(18):
        fields[f"field_{number:02}"] = {"type": TYPES[number % 5], "conflict": conflict}
    return Topic.from_mapping(
        {"name": "bench", "kind": "gathered", "key": ["place"], "complete": "once", "fields": fields}
        | changes
    )


def value(kind: str, rng: random.Random) -> object:
    match kind:
        case "int":
            return rng.randrange(100_000)
        case "float":
            return rng.random()
        case "string":
            return f"something that was said {rng.randrange(1000)}"
        case "bool":
            return rng.random() < 0.5
    return f"2026-11-15T11:{rng.randrange(60):02}:00Z"


def payload_list(declared: Topic, count: int, *, whole: bool, seed: int = 1) -> list[tuple[int, bytes]]:
    """Times and payloads: things come and go, and what is said of one grows."""
    rng = random.Random(seed)
    names = [path[0] for path in declared.fields if path[0] not in ("place", "severity")]
    kinds = {path[0]: field.type.value for path, field in declared.fields.items()}
    truth: dict[int, dict[str, object]] = {}
    made = []
    for number in range(count):
        thing = number // TIMES_EACH // OPEN * OPEN + rng.randrange(OPEN)
        known = truth.get(thing)
        if known is None:
            known = truth[thing] = {"place": f"place {seed}.{thing}", "severity": 0}
            known |= {name: value(kinds[name], rng) for name in names}
        if rng.random() < 0.12:
            known["severity"] = int(str(known["severity"])) + 1
        some = names if whole else rng.sample(names, rng.randrange(1, 10))
        said = {"place": known["place"], "severity": known["severity"]} | {name: known[name] for name in some}
        made.append((number * 10, payloads.encode(said)))
    return made


def reports_of(declared: Topic, made: list[tuple[int, bytes]]) -> list[Report]:
    shape = Shape(declared)
    return [
        shape.read("bench", data, report_id=f"b1:1:{number}", at_us=at_us)
        for number, (at_us, data) in enumerate(made)
    ]


class Plain:
    """A gatherer as one writes it first; policies `first` and `max`, the published clocks."""

    def __init__(self, declared: Topic) -> None:
        assert declared.gathering is not None
        self.merge_us = declared.gathering.merge_after_us
        self.redundant_us = declared.gathering.redundant_for_us
        self.policies = {path[0]: field.conflict.value for path, field in declared.fields.items()}
        self.open: dict[Any, dict[str, Any]] = {}
        self.clocks: list[tuple[int, int, str, Any]] = []
        self.n = 0
        self.told = 0

    def clock(self, due_us: int, kind: str, key: Any) -> None:
        self.n += 1
        heapq.heappush(self.clocks, (due_us, self.n, kind, key))

    def feed(self, report: Report) -> str:
        now_us = report.at_us
        while self.clocks and self.clocks[0][0] <= now_us:
            _due_us, n, kind, key = heapq.heappop(self.clocks)
            event = self.open.get(key)
            if event is None or event[kind] != n:
                continue
            if event["untold"]:
                event["untold"] = False
                self.told += 1
            if kind == "close":
                del self.open[key]
        event = self.open.get(report.key)
        if event is None:
            event = {"fields": dict(report.fields), "untold": True, "opened": now_us}
            self.open[report.key] = event
            self.clock(now_us + self.merge_us, "tell", report.key)
            event["tell"] = self.n
            self.clock(now_us + self.redundant_us, "close", report.key)
            event["close"] = self.n
            return "opened"
        changed = False
        fields = event["fields"]
        for name, brought in report.fields.items():
            current = fields.get(name)
            if current is None or (self.policies[name] == "max" and brought > current):
                fields[name] = brought
                changed = True
        if not changed:
            return "redundant"
        if not event["untold"]:
            event["untold"] = True
            self.clock(now_us + self.merge_us, "tell", report.key)
            event["tell"] = self.n
        self.clock(now_us + self.redundant_us, "close", report.key)
        event["close"] = self.n
        return "merged"


Step = tuple[Callable[[Any], object], Callable[[], object]]
"""What takes a report, and what takes that which has come out, once for a thousand reports."""


def per_second(start: Callable[[], Step], given: list[Any]) -> float:
    """How many of `given` one core takes in a second, by what `start` makes for each run.

    The best time of each stretch of a thousand counts, over all runs: who else is busy on the machine slows
    some stretches of each run, and not the same ones.
    """
    stretches = [given[at : at + 1_000] for at in range(0, len(given), 1_000)]
    best = [float("inf")] * len(stretches)
    for _ in range(RUNS):
        feed, take = start()
        gc.collect()
        gc.disable()  # as timeit does
        for number, stretch in enumerate(stretches):
            begin = time.process_time()
            for one in stretch:
                feed(one)
            take()
            best[number] = min(best[number], time.process_time() - begin)
        gc.enable()
    return len(given) / sum(best)


def through(declared: Topic) -> Step:
    gatherer = Gatherer(declared)
    return gatherer.feed, gatherer.take


def plainly(declared: Topic) -> Step:
    gatherer = Plain(declared)
    return gatherer.feed, lambda: None


def from_bytes(declared: Topic) -> Step:
    gatherer, shape = Gatherer(declared), Shape(declared)

    def feed(made: tuple[int, bytes]) -> None:
        at_us, data = made
        gatherer.feed(shape.read("bench", data, report_id=f"b1:1:{at_us}", at_us=at_us))

    return feed, gatherer.take


def memory(declared: Topic, count: int, *, whole: bool) -> tuple[float, float]:
    """Bytes per open event, with the fields of its reports, and without them."""
    rng = random.Random(3)
    names = [path[0] for path in declared.fields if path[0] != "place"]
    kinds = {path[0]: field.type.value for path, field in declared.fields.items()}
    shape, gatherer = Shape(declared), Gatherer(declared)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    reports = []
    for number in range(count):
        some = names if whole else rng.sample(names, 5)
        said = {"place": f"place {number}"} | {name: value(kinds[name], rng) for name in some}
        reports.append(shape.report("bench", said, report_id=f"b1:1:{number}", at_us=0))
    fields = tracemalloc.get_traced_memory()[0] - before
    for report in reports:
        gatherer.feed(report)
    gatherer.take()
    gatherer.changed()
    both = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return both / count, (both - fields) / count


def alone(count: int) -> list[dict[str, Any]]:
    """The gatherer by itself."""
    rows: list[dict[str, Any]] = []
    for name, declared, whole in (
        ("whole reports", topic(), True),
        ("partial reports", topic(), False),
        ("whole, stays_open = reported", topic(stays_open="reported"), True),
        ("whole, all `last`", topic("last"), True),
        ("whole, all `majority`", topic("majority"), True),
    ):
        reports = reports_of(declared, payload_list(declared, count, whole=whole))
        gatherer = Gatherer(declared)
        for report in reports:
            gatherer.feed(report)
        counts = gatherer.counts
        row = {
            "what": name,
            "gatherer_per_s": round(per_second(partial(through, declared), reports)),
            "redundant": round(counts.redundant / counts.received, 3),
            "merged": round(counts.merged / counts.received, 3),
            "opened": round(counts.opened / counts.received, 3),
        }
        if "`" not in name:
            row["plain_per_s"] = round(per_second(partial(plainly, declared), reports))
        rows.append(row)
    declared = topic()
    for name, whole in (("whole, from JSON", True), ("partial, from JSON", False)):
        made = payload_list(declared, count // 4, whole=whole)
        rate = per_second(partial(from_bytes, declared), made)
        rows.append({"what": name, "gatherer_per_s": round(rate)})
    return rows


def held() -> list[dict[str, Any]]:
    """What an open event takes."""
    rows = []
    for name, whole in (("20 fields", True), ("6 fields of 20", False)):
        both, own = memory(topic(), 20_000, whole=whole)
        rows.append({"what": name, "bytes_per_open_event": round(both), "without_its_fields": round(own)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--no-live", action="store_true", help="only the gatherer alone")
    parser.add_argument("--profile", action="store_true", help="where the time goes, with whole reports")
    given = parser.parse_args()
    if given.profile:
        declared = topic()
        reports = reports_of(declared, payload_list(declared, given.reports, whole=True))
        feed, _ = through(declared)
        profile = cProfile.Profile()
        profile.runcall(lambda: [feed(report) for report in reports])
        pstats.Stats(profile).sort_stats("tottime").print_stats(12)
        return
    show(alone(given.reports), held(), as_json=given.json)
    if not given.no_live:
        # It measures with the topic and the reports of this module, and so comes after it.
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
        from benchmarks import gathering_seat

        gathering_seat.show(gathering_seat.rows(given.reports // 2), as_json=given.json)


def show(rates: list[dict[str, Any]], sizes: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        for row in (*rates, *sizes):
            print(json.dumps(row))
        return
    console = Console()
    table = Table(title="Reports per second on one core")
    for column in ("reports", "gatherer", "plain", "redundant", "merged", "opened"):
        table.add_column(column, justify="left" if column == "reports" else "right")
    for row in rates:
        plain = f"{row['plain_per_s']:,}" if "plain_per_s" in row else ""
        shares = [f"{row[name]:.1%}" if name in row else "" for name in ("redundant", "merged", "opened")]
        table.add_row(row["what"], f"{row['gatherer_per_s']:,}", plain, *shares)
    console.print(table)
    table = Table(title="Bytes of an open event")
    for column in ("event", "in all", "besides the values of its fields"):
        table.add_column(column, justify="left" if column == "event" else "right")
    for row in sizes:
        table.add_row(row["what"], f"{row['bytes_per_open_event']:,}", f"{row['without_its_fields']:,}")
    console.print(table)


if __name__ == "__main__":
    main()
