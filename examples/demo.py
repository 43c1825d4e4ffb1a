"""The first job: noisy reports about the roads of Athens, the few events that they become, who gets them, and
Spark as the judge.

Run it with `make demo`. It reads the files beside it, says what each step is for, and fails if anything
disagrees.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import track
from rich.table import Table

import tidings
from tidings import Filter, Index, Scan, Topic, Unknown, parse_filter, read_topic
from tidings.client.deliveries import Delivery
from tidings.gathering import Counts, Fate, Gatherer, Telling
from tidings.language.fields import Type, find, path_text
from tidings.language.reports import Shape
from tidings.language.topics import StaysOpen
from tidings.live.listeners import Listening
from tidings.live.node import Node, NodeOptions
from tidings.matching import compile_kernels

HERE = Path(__file__).parent
SEED = 20261115
REPORTS = 300
FILTERS = 20_000
BATCHES = 40
ROADS = ["A1", "A2", "A6", "E75"]
PLACES = ["Syntagma", "Omonia", "Kifisias 12", "Piraeus gate E3", "Attiki Odos exit 4"]
WATCHED = "Omonia"
SHOWN = 16
LIVE_REPORTS = 60
SECOND_US = 1_000_000

console = Console()

Result = TypeVar("Result")
Report = dict[str, object]
Subscriptions = dict[str, tuple[Filter, Unknown]]


def main() -> None:
    topic = read_topic(HERE / "traffic-athens.toml")
    gather(topic)
    block(topic)
    asyncio.run(serve(topic))
    subscriptions = read_subscriptions(topic)
    reports = make_reports(random.Random(SEED), REPORTS, filled=(1, 5))
    match(subscriptions, reports)
    judge(topic, subscriptions, reports)
    race(topic)


def accidents(rng: random.Random, seconds: int) -> Iterator[tuple[int, Report]]:
    """What the crowd says while something has happened at every place: (second, report), in order."""
    truths: list[Report] = [
        {
            "place": place,
            "road": rng.choice(ROADS),
            "severity": rng.randint(2, 5),
            "lanes": float(rng.randint(0, 3)),
            "fire": rng.random() < 0.3,
            "note": rng.choice(["van across two lanes", "black smoke", "lorry on its side"]),
        }
        for place in PLACES
    ]
    for second in range(seconds):
        for truth in truths:
            if rng.random() < 0.25:
                # Nobody sees it all, some see it smaller than it is, and nobody counts lanes exactly.
                seen = {"place", *rng.sample(sorted(truth.keys() - {"place"}), rng.randint(1, 3))}
                report = {name: value for name, value in truth.items() if name in seen}
                if "severity" in report:
                    report["severity"] = max(0, int(str(truth["severity"])) - rng.choice([0, 0, 1, 2]))
                if "lanes" in report:
                    report["lanes"] = round(float(str(truth["lanes"])) + rng.uniform(0, 0.2), 2)
                yield second, report


def gather(topic: Topic) -> None:
    console.rule("Noisy reports become events")
    console.print(
        f"For three minutes people report what they see at {len(PLACES)} places, each a part of it, most "
        f"of it known already. This is the machine that a broker has; of {WATCHED}, on the left what was "
        "said, on the right what subscribers are told.\n"
    )
    gatherer, shape = Gatherer(topic), Shape(topic)
    table = Table("at", "reported", "so it", "told")
    said = list(accidents(random.Random(SEED), 180))

    def tell() -> None:
        for out in gatherer.take():
            if isinstance(out, Telling) and out.event.key == (WATCHED,) and table.row_count < SHOWN:
                event = out.event
                told = f"[bold]version {event.version}[/], {event.reports} reports: {brief(event.fields)}"
                table.add_row(f"{out.at_us / SECOND_US:.0f} s", "", "", told)

    for number, (second, fields) in enumerate(said):
        gatherer.advance(second * SECOND_US)
        tell()
        report = shape.report(topic.name, fields, report_id=str(number), at_us=second * SECOND_US)
        fate = gatherer.feed(report).fate
        if fields["place"] == WATCHED and table.row_count < SHOWN:
            became = {Fate.OPENED: "opens", Fate.MERGED: "merges", Fate.REDUNDANT: "is dropped"}[fate]
            table.add_row(f"{second} s", brief(fields), became, "")
        tell()
    gatherer.advance(1_000 * SECOND_US)
    gatherer.take()
    console.print(table)
    summarise(gatherer.counts)


def brief(fields: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.items() if name != "place")


def summarise(counts: Counts) -> None:
    suppressed = (counts.redundant + counts.merged) / counts.received
    console.print(
        f"{counts.received} reports: {counts.opened} opened an event, {counts.merged} merged, "
        f"{counts.redundant} said nothing new and were dropped. Subscribers get {counts.told} messages, not "
        f"{counts.received}: {suppressed:.0%} were suppressed. {counts.conflicts} times a report disagreed "
        "with what was known.\n"
    )
    if counts.received != counts.opened + counts.merged + counts.redundant:
        sys.exit("a report is missing from the counts")


def block(topic: Topic) -> None:
    """A road that is blocked for two hours, with a report every 20 seconds that says nothing new."""
    gathering = topic.gathering
    assert gathering is not None, "the example is a gathered topic"
    published = dataclasses.replace(gathering, stays_open=StaysOpen.MERGED, window_us=600 * SECOND_US)
    events = []
    for rules in (published, gathering):
        gatherer, shape = Gatherer(dataclasses.replace(topic, gathering=rules)), Shape(topic)
        for second in range(0, 7_200, 20):
            fields = {"place": "Syntagma", "road": "A1"}
            gatherer.feed(shape.report(topic.name, fields, report_id=str(second), at_us=second * SECOND_US))
        events.append(gatherer.counts.opened)
    console.print(
        f"A road blocked for two hours, reported every 20 s: {events[0]} events as the paper has it, where "
        f'only news keeps an event open; {events[1]} with [bold]stays_open = "reported"[/], as this topic '
        "declares.\n"
    )
    if events[1] != 1:
        sys.exit("one road block is not one event")


async def let_in(address: str) -> None:
    """Wait until a broker that has just started listens: it first hears what the network has."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)
            continue
        writer.close()
        return


async def serve(topic: Topic) -> None:
    """The same in a broker that runs, over MQTT, with a shorter Tm so that nobody has to wait."""
    console.rule("The same, live")
    gathering = topic.gathering
    assert gathering is not None, "the example is a gathered topic"
    quick = dataclasses.replace(
        topic, gathering=dataclasses.replace(gathering, merge_after_us=SECOND_US // 4)
    )
    node = Node(NodeOptions("athens-1", topics=(quick,), listening=(Listening("tcp", "127.0.0.1", 0),)))
    await node.start()
    try:
        await let_in(node.mqtt_addresses["tcp"])
        url = f"mqtt://{node.mqtt_addresses['tcp']}"
        reports = [fields for _, fields in accidents(random.Random(SEED), 180)][:LIVE_REPORTS]
        async with (
            tidings.connect(url) as crowd,
            tidings.connect(url) as desk,
            desk.subscribe("traffic/#", where="severity >= 3") as events,
        ):
            for fields in reports:
                await crowd.publish("traffic/athens", fields)
                await asyncio.sleep(0.02)
            latest: dict[str | None, Delivery] = {}
            messages = 0
            while True:
                try:
                    event = await events.next(timeout=1)
                except TimeoutError:
                    break
                messages += 1
                latest[event.id] = event
    finally:
        await node.stop()
    table = Table("place", "version", "reports", "seat", "told")
    for event in latest.values():
        about = (event.fields["place"], event.version, event.reports, event.seat)
        table.add_row(*map(str, about), brief(event.fields))
    console.print(table)
    console.print(
        f"{len(reports)} reports went to a broker over MQTT; who asked for severity >= 3 got {messages} "
        f"messages about {len(latest)} events.\n"
    )
    if not latest:
        sys.exit("nothing was told")


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
            "place": rng.choice(PLACES),
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
