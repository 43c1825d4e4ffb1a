"""The connector: a live broker's log through `format("tidings")`, alone and while something is published.

A broker of its own, as shipped, on loopback, whose topic is kept; entries have 20 fields: 12 numbers, 6 texts
and 2 truth values. They are read by Spark in batch and in micro-batches, whole, and beside it by `LogReader`
in one process. What is read is counted and summed. Processors' time is that of all: Spark, the broker, and
whoever publishes.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.faults import free_port
from benchmarks.mqtt_brokers import Broker, running
from benchmarks.mqtt_load import publish_packet
from benchmarks.pipeline_gather import fields
from benchmarks.pipeline_measuring import Bar, Bench, Spent, Warm, Watch, alone, followed

from tidings.client.log import LogReader
from tidings.client.urls import Address
from tidings.load.bare import Sender
from tidings.mqtt.packets import Version
from tidings.records.log_rows import EVENTS

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

    from pyspark.sql import DataFrame

JOB = "connector"
TARGET = 60_000

BROKER = "bench"
TOPIC = "bench"
BLOCK = 1_000
"""Different entries, published again and again."""

BATCH_ROWS = 100_000
"""Of a micro-batch, at the most."""

COLD_BATCHES = 3
SMALLEST_PER_S = 2
SMALLEST_BATCHES = 15
START_S = 30.0
LIVE_S = 15.0
"""For how long a query follows what is published."""

PUBLISHING_S_MAX = 300.0
"""Nobody publishes longer than that, whatever becomes of the rest."""


# Publishing.


def declaration(folder: Path) -> Path:
    """The topic, as a file."""
    lines = [f'name = "{TOPIC}"', 'kind = "plain"', 'keep = "1d"', "[fields]"]
    lines += [f'{name} = {{ type = "{traits["type"]}" }}' for name, traits in fields(conflict=False).items()]
    path = folder / "bench.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def payload(number: int) -> bytes:
    """An entry with all of its fields; `place` is its number."""
    values: dict[str, Any] = {}
    for at, (name, traits) in enumerate(fields(conflict=False).items()):
        truth = number * 31 + at
        kinds = {"int": truth, "float": truth / 8, "string": f"what was said, number {truth}"}
        values[name] = kinds.get(traits["type"], truth % 2 == 0)
    return json.dumps(values | {"place": number}, separators=(",", ":")).encode()


def place_sum(entries: int) -> int:
    """Of the field `place`, over so many entries."""
    rounds, rest = divmod(entries, BLOCK)
    return rounds * (BLOCK * (BLOCK - 1) // 2) + rest * (rest - 1) // 2


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the broker is."""

    addresses: Sequence[Address]
    version: Version = Version.V5
    context: ssl.SSLContext | None = None
    connect_within_s: float = START_S


class Publisher(Sender):
    """Publishes entries, each acknowledged when it is in the log; at a rate, or as fast as it goes."""

    def __init__(self, port: int, entries: int, rate: float) -> None:
        reach = Reach([Address("mqtt", "127.0.0.1", port)])
        super().__init__(reach, f"publisher-{rate:g}", 0, entries, 1, rate > 0)
        self._gap_ns = 1e9 / rate if rate else 0.0
        # Behind the packet's identifier stands a byte, no properties, and the payload.
        bodies = [payload(number) for number in range(BLOCK)]
        packets = [publish_packet(5, TOPIC, body, qos=1) for body in bodies]
        self._parts = [
            (whole[: -len(body) - 3], whole[-len(body) - 1 :])
            for whole, body in zip(packets, bodies, strict=True)
        ]

    def due_ns(self, number: int) -> int:
        return int(number * self._gap_ns)

    def message(self, number: int, at_ns: int, packet_id: bytes) -> bytes:  # noqa: ARG002
        head, tail = self._parts[number % BLOCK]
        return head + packet_id + tail


def publish(port: int, entries: int, rate: float = 0.0, started: Event | None = None) -> None:
    """Publish, until all is acknowledged."""

    async def all_of_it() -> None:
        publisher = Publisher(port, entries, rate)
        await publisher.connect()
        if started is not None:
            started.set()
        await publisher.send(time.perf_counter_ns())
        publisher.leave()

    asyncio.run(all_of_it())


@contextmanager
def publishing(port: int, rate: float) -> Iterator[None]:
    """While this is open, a process publishes at a rate."""
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    entries = int(rate * PUBLISHING_S_MAX)
    process = context.Process(target=publish, args=(port, entries, rate, started), daemon=True)
    process.start()
    try:
        assert started.wait(START_S), f"nothing is published after {START_S:g} s"
        yield
        assert process.is_alive(), "publishing has ended early; what it said is above"
    finally:
        process.terminate()
        process.join()


# Jobs.


def run(bench: Bench, entries: int, rate: int) -> None:
    """Fill a log; read it, alone and while more is published."""
    with bench.scratch("connector") as folder:
        http = f"127.0.0.1:{free_port()}"
        options = ["--http", http, "--id", BROKER, "--topics", str(declaration(folder))]
        with running("tidings", folder / "broker", options) as broker:
            Reading(bench, broker, f"http://{http}", folder).run(entries, rate)


class Reading:
    """A broker whose log is read."""

    def __init__(self, bench: Bench, broker: Broker, url: str, folder: Path) -> None:
        self.bench = bench
        self.broker = broker
        self.url = url
        self.folder = folder
        self._queries = 0

    def run(self, entries: int, rate: int) -> None:
        bench, port = self.bench, self.broker.port
        self._fill(entries)
        self._read_alone(entries)
        bench.tell("connector: getting warm")
        self._batch(min(entries, BATCH_ROWS)).write.format("noop").mode("overwrite").save()
        self._read("batch", entries)
        self._stream("stream", entries)
        with publishing(port, rate):
            self._read(f"batch, {rate:,}/s published", entries)
            self._stream(f"stream, {rate:,}/s published", entries)
            self._live(f"live, {rate:,}/s published")
        with publishing(port, SMALLEST_PER_S):
            self._smallest()

    def _fill(self, entries: int) -> None:
        self.bench.tell(f"connector: publishing {entries:,} entries")
        before = self.broker.usage().cpu_s
        watch = Watch()
        alone(publish, self.broker.port, entries)
        note = f"{entries / (self.broker.usage().cpu_s - before):,.0f} per CPU second of the broker"
        self.bench.row(JOB, "published, QoS 1", entries, watch.spent(), engine="broker", note=note)

    def _read_alone(self, entries: int) -> None:
        self.bench.tell(f"connector: LogReader, {entries:,} entries")
        before = self.broker.usage().cpu_s
        spent, _ = alone(read_log, self.url, entries)
        cpu_seconds = spent.cpu_seconds + self.broker.usage().cpu_s - before
        self.bench.row(JOB, "log read", entries, Spent(spent.seconds, cpu_seconds), engine="LogReader")

    def _batch(self, entries: int) -> DataFrame:
        options = {"url": self.url, "endingOffsets": json.dumps({holder(self.url): entries})}
        return self.bench.spark.read.format("tidings").options(**options).load(TOPIC)

    def _read(self, what: str, entries: int) -> None:
        """All columns of all entries, in batch."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812

        seen = Observation()
        counts = F.count(F.lit(1)).alias("rows"), F.sum("place").alias("places")

        def work() -> None:
            rows = self._batch(entries).observe(seen, *counts)
            rows.write.format("noop").mode("overwrite").save()

        self.bench.timed(JOB, what, entries, work, target=TARGET)
        expected = {"rows": entries, "places": place_sum(entries)}
        assert seen.get == expected, f"{seen.get} were read, not {expected}"

    def _stream(self, what: str, entries: int) -> None:
        """All that there is when it begins, in micro-batches."""
        warm = self._followed(what, "earliest", batches=-(-entries // BATCH_ROWS))
        assert warm.total >= entries, f"of {entries:,} entries {warm.total:,} were read"
        self.bench.row(JOB, what, warm.rows, warm.spent, target=TARGET, note=batches(warm))

    def _live(self, what: str) -> None:
        """What is published meanwhile: as much as that, if it keeps up."""
        warm = self._followed(what, "latest", enough=lambda _, seconds: seconds > LIVE_S)
        self.bench.row(JOB, what, warm.rows, warm.spent, note=batches(warm))

    def _smallest(self) -> None:
        """Entries that come one at a time."""
        what = "smallest micro-batch"
        warm = self._followed(what, "latest", enough=lambda count, _: count >= SMALLEST_BATCHES)
        note = f"least {min(warm.batches_s):.2f} s; {batches(warm)}"
        self.bench.row(JOB, what, warm.rows, warm.spent, note=note)

    def _followed(
        self, what: str, start: str, batches: int = 0, enough: Callable[[int, float], bool] | None = None
    ) -> Warm:
        self._queries += 1
        options = {"url": self.url, "startingOffsets": start, "maxRowsPerBatch": str(BATCH_ROWS)}
        writer = (
            self.bench.spark.readStream.format("tidings")
            .options(**options)
            .load(TOPIC)
            .writeStream.format("noop")
            .option("checkpointLocation", f"file://{self.folder}/checkpoint-{self._queries}")
        )
        bar = Bar(self.bench.console, f"{JOB}, {what}: micro-batches")
        if enough is None:
            return followed(writer.trigger(availableNow=True).start(), COLD_BATCHES, bar, batches)
        query = writer.trigger(processingTime="0 seconds").start()
        return followed(query, COLD_BATCHES, bar, batches, enough)


def batches(warm: Warm) -> str:
    """How long micro-batches took."""
    return f"{len(warm.batches_s)} micro-batches, median {median(warm.batches_s):.2f} s"


def holder(url: str) -> str:
    """Under whose name the one broker numbers its entries."""
    (held,) = LogReader(url).about(TOPIC).holders
    return held.holder


def read_log(url: str, entries: int) -> Spent:
    """All entries, by one process and without Spark."""
    watch = Watch()
    batches = LogReader(url).read(TOPIC, EVENTS, holder(url), 0, entries)
    rows = places = 0
    for batch in batches:
        rows += batch.num_rows
        places += int(batch.column("place").to_numpy().sum())
    assert (rows, places) == (entries, place_sum(entries)), f"{rows:,} rows with {places:,} were read"
    return watch.spent()
