"""The first job: partial reports about the roads of Athens, who gets them, and Spark as the judge.

Run it with `make demo`. It reads the files beside it, says what each step is for, and fails if anything
disagrees.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tidings import Filter, Index, Scan, Topic, Unknown, parse_filter, read_topic
from tidings.language.fields import Type, find, path_text
from tidings.matching import compile_kernels

HERE = Path(__file__).parent
SEED = 20261115
REPORTS = 300
FILTERS = 20_000
BATCHES = 40
ROADS = ["A1", "A2", "A6", "E75"]

console = Console()

Result = TypeVar("Result")
Report = dict[str, object]
Subscriptions = dict[str, tuple[Filter, Unknown]]


def main() -> None:
    topic = read_topic(HERE / "traffic-athens.toml")
    subscriptions = read_subscriptions(topic)
    reports = make_reports(random.Random(SEED), REPORTS, filled=(1, 5))
    match(subscriptions, reports)
    judge(topic, subscriptions, reports)
    race(topic)


def read_subscriptions(topic: Topic) -> Subscriptions:
    lines = (HERE / "subscriptions.jsonl").read_text(encoding="utf-8").splitlines()
    return {
        said["id"]: (parse_filter(said["where"], topic.fields), Unknown(said.get("unknown", "wait")))
        for said in map(json.loads, lines)
    }


def make_reports(rng: random.Random, count: int, filled: tuple[int, int]) -> list[Report]:
    """What people report: some of the fields, at least and at most so many."""
    found: list[Report] = []
    for _ in range(count):
        whole: Report = {
            "place": rng.choice(
                ["Syntagma", "Omonia", "Kifisias 12", "Piraeus gate E3", "Attiki Odos exit 4"]
            ),
            "road": rng.choice(ROADS),
            "severity": rng.randint(0, 5),
            "opened": datetime(2026, 11, 1, 18, tzinfo=UTC) + timedelta(minutes=rng.randint(0, 900)),
            "lanes": rng.choice([0.0, 1.0, 1.5, 2.0, 4.0]),
            "fire": rng.random() < 0.3,
            "note": rng.choice(
                ["van across two lanes", "black smoke", "all clear", "smoke?", "fire brigade here"]
            ),
        }
        told = {"place", *rng.sample(sorted(whole), rng.randint(*filled))}
        found.append({name: value for name, value in whole.items() if name in told})
    return found


def match(subscriptions: Subscriptions, reports: list[Report]) -> None:
    console.rule("Who gets what")
    console.print(
        f"{len(reports)} reports, each with some of the fields, meet {len(subscriptions)} subscriptions. A "
        "filter over a field that is not there yet is neither true nor false: [bold]wait[/] delivers once it "
        "is true, [bold]assume[/] until it is false.\n"
    )
    index = Index()
    for id_, (filter_, unknown) in subscriptions.items():
        index.add(id_, filter_, unknown)
    got = Counter(id_ for ids in index.match_batch(reports) for id_ in ids)
    table = Table("subscriber", "where", "unknown", "gets", "true", "false", "unknown yet")
    for id_, (filter_, unknown) in subscriptions.items():
        verdicts = Counter(filter_.evaluate(report) for report in reports)
        table.add_row(
            id_,
            filter_.source,
            unknown,
            *map(str, (got[id_], verdicts[True], verdicts[False], verdicts[None])),
        )
    console.print(table)


def judge(topic: Topic, subscriptions: Subscriptions, reports: list[Report]) -> None:
    console.rule("The judge: Spark, given the same text")
    from pyspark.sql import functions

    from tidings.pipeline import session

    sql = {
        Type.STRING: "STRING",
        Type.INT: "BIGINT",
        Type.FLOAT: "DOUBLE",
        Type.BOOL: "BOOLEAN",
        Type.TIMESTAMP: "TIMESTAMP",
    }
    with console.status("starting Spark"), session.start("tidings demo") as spark:
        schema = ", ".join(f"{path_text(path)} {sql[field.type]}" for path, field in topic.fields.items())
        rows = [tuple(find(report, path) for path in topic.fields) for report in reports]
        frame = spark.createDataFrame(rows, schema=schema).coalesce(1)
        filters = [filter_ for filter_, _ in subscriptions.values()]
        asked = [functions.expr(filter_.source).alias(str(n)) for n, filter_ in enumerate(filters)]
        answers = frame.select(*asked).collect()
    pairs = list(itertools.product(range(len(reports)), range(len(filters))))
    differing = [
        f"{filters[f].source!r} of {reports[r]!r}: {filters[f].evaluate(reports[r])}, Spark: {answers[r][f]}"
        for r, f in pairs
        if filters[f].evaluate(reports[r]) is not answers[r][f]
    ]
    console.print(f"{len(pairs)} verdicts compared, {len(differing)} differ.\n")
    if differing:
        sys.exit(f"the first that differs: {differing[0]}")


def race(topic: Topic) -> None:
    console.rule(f"The index: {FILTERS:,} filters")
    rng = random.Random(SEED)
    reports = make_reports(rng, REPORTS, filled=(6, 7))
    index, scan = Index(), Scan()
    for number in track(range(FILTERS), "adding filters", console=console, transient=True):
        low, minute = rng.randint(0, 4), rng.randint(0, 59)
        filter_ = parse_filter(
            f"road = '{rng.choice(ROADS)}' AND severity BETWEEN {low} AND {low + rng.randint(0, 1)}"
            f" AND opened > TIMESTAMP '2026-11-02 0{rng.randint(0, 9)}:{minute:02}:00'",
            topic.fields,
        )
        index.add(number, filter_)
        scan.add(number, filter_)
    with console.status("compiling the index's kernels (the first time only)"):
        compile_kernels()
    while index.work():
        pass
    events = reports[:8]
    slow_s, slow = timed(lambda: [list(ids) for ids in scan.match_batch(events)])
    _, fast = timed(lambda: [list(ids) for ids in index.match_batch(events)])
    if slow != fast:
        sys.exit("the index and the scan disagree")
    many = list(itertools.islice(itertools.cycle(reports), 64 * BATCHES))
    many_s, _ = timed(lambda: [index.match_batch(many[at : at + 64]) for at in range(0, len(many), 64)])
    console.print(
        f"The naive scan takes {1e3 * slow_s / len(events):,.0f} ms for an event, the index "
        f"({index.engine}) {1e6 * many_s / len(many):,.0f} µs, with the same answers: "
        f"{slow_s / len(events) / (many_s / len(many)):,.0f} times less.\n"
    )


def timed(job: Callable[[], Result]) -> tuple[float, Result]:
    started = time.process_time()
    result = job()
    return time.process_time() - started, result


if __name__ == "__main__":
    main()
