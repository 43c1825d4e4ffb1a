"""Gather at scale: reports to events in batch and in a stream, beside one process of polars and the kernel.

Reports have 20 fields: 12 numbers, 6 texts and 2 truth values. Each event has 10 reports of which 5 are
redundant, and 100,000 are open at once. The one process reads the same files with polars, sorts them, and
runs the same kernel; what both tell is compared by its summary.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.pipeline_measuring import Bar, Bench, Spent, Watch, Write, alone, followed

from tidings.language.reports import Shape
from tidings.language.topics import Topic
from tidings.pipeline.gather import batch, counting, engines, streaming
from tidings.pipeline.gather.frames import layout_of
from tidings.pipeline.gather.layout import TYPES, Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JOB = "gather"
TARGET_BATCH, TARGET_STREAM = 300_000, 60_000

PER_EVENT = 10
OPEN = 100_000
SPREAD_US = 60_000_000
STAY_US = 85_000_000
"""The reports of an event come within a minute. The fifth is the last that adds to it, and Tr is a minute."""

STEP_US = STAY_US // OPEN
"""Between the beginnings of two events."""

FILE_ROWS = 100_000

MICRO_ROWS = 200_000
"""What a micro-batch takes, a file for each core: one file would be read by one of them. Of a smaller one
most is what Spark spends on any."""

COLD_BATCHES = 3
BUCKETS = 8
DELAY_US = 1_000_000

POLICIES = ("first", "last", "max", "min")


def fields(conflict: bool = True) -> dict[str, dict[str, Any]]:
    """20 fields of mixed types, of which the first is the key; with `conflict`, as of a gathered topic."""
    made: dict[str, dict[str, Any]] = {"place": {"type": "int"}}
    kinds = [("count", "int", 7), ("level", "float", 4), ("text", "string", 6), ("is", "bool", 2)]
    for name, kind, count in kinds:
        for number in range(count):
            traits: dict[str, Any] = {"conflict": POLICIES[number % (2 if kind == "bool" else 4)]}
            if kind == "float":
                traits["tolerance"] = 0.1
            made[f"{name}{number}"] = {"type": kind} | (traits if conflict else {})
    return made


def topic() -> Topic:
    """A gathered topic with these fields."""
    return Topic.from_mapping(
        {
            "name": "bench",
            "kind": "gathered",
            "key": ["place"],
            "merge_after": "4s",
            "redundant_for": "60s",
            "window": "10m",
            "fields": fields(),
        }
    )


# Reports.


def reports(bench: Bench, rows: int, per_file: int = 0) -> Path:
    """The folder of so many reports in the order of time, in files of 100,000 or of another number."""
    assert rows % PER_EVENT == 0, f"{rows} are not whole events of {PER_EVENT} reports"
    size = per_file or FILE_ROWS
    folder = bench.inputs / f"reports-{rows}-by-{size}"
    paths = [folder / f"{begin // size:06}.parquet" for begin in range(0, rows, size)]
    bench.written(paths, writes(rows // PER_EVENT, size), f"{rows:,} reports")
    return folder


def writes(events: int, per_file: int) -> Iterator[Write]:
    return (partial(write_file, some) for some in in_time(events, per_file))


def in_time(events: int, per_file: int) -> Iterator[npt.NDArray[np.int64]]:
    """The reports of so many events as (event, place in it, time), in the order of time, a file at a time.

    Only those are held that later events may come between: a minute's.
    """
    left = np.empty((3, 0), np.int64)
    ready = np.empty((3, 0), np.int64)
    for first in range(0, events, OPEN):
        behind = min(first + OPEN, events)
        event = np.repeat(np.arange(first, behind), PER_EVENT)
        place = np.tile(np.arange(PER_EVENT), behind - first)
        drawn = np.random.default_rng([1, first])
        offset = np.sort(drawn.integers(0, SPREAD_US, (behind - first, PER_EVENT)), axis=1).ravel()
        some = np.concatenate([left, np.stack([event, place, event * STEP_US + offset])], axis=1)
        some = some[:, np.argsort(some[2], kind="stable")]
        sure = int(np.searchsorted(some[2], behind * STEP_US)) if behind < events else some.shape[1]
        ready, left = np.concatenate([ready, some[:, :sure]], axis=1), some[:, sure:]
        while ready.shape[1] >= per_file:
            yield ready[:, :per_file]
            ready = ready[:, per_file:]
    if ready.shape[1]:
        yield ready


def write_file(some: npt.NDArray[np.int64], path: Path) -> None:
    """Reports with all of their fields: each says a fifth of what is true of its event, beside the key."""
    event, place, at = some
    words = pa.array([f"what was said, number {number}" for number in range(5000)])
    declared = list(topic().fields.values())
    columns = []
    for number, field in enumerate(declared):
        truth = event * 31 + number
        unknown = number % 5 != place % 5
        if number == 0:
            column = pa.array(event)
        elif field.type.value == "string":
            column = words.take(pa.array(truth % len(words), mask=unknown))
        elif field.type.value == "bool":
            column = pa.array(truth % 2 == 0, mask=unknown)
        else:
            column = pa.array(truth, mask=unknown).cast(TYPES[field.type])
        columns.append(column)
    said = pa.StructArray.from_arrays(columns, names=[field.path[-1] for field in declared])
    table = pa.table({"report": event * PER_EVENT + place, "at": at, "fields": said})
    pq.write_table(table, path, compression="zstd")


# Jobs.


def run(bench: Bench, sizes: tuple[int, ...], stream_rows: int, peer_rows_max: int) -> None:
    """In batch at every size, beside polars up to one of them; then in a stream."""
    warm_up(bench, min(sizes))
    for rows in sizes:
        judge = peer(bench, rows) if rows <= peer_rows_max else None
        in_batch(bench, rows, judge, complete=rows == min(sizes), grows="rows")
    if stream_rows:
        in_stream(bench, stream_rows, BUCKETS)


def prepare(bench: Bench, sizes: tuple[int, ...], stream_rows: int) -> None:
    """Write what all of that reads."""
    for rows in sorted(set(sizes)):
        reports(bench, rows)
    if stream_rows:
        reports(bench, stream_rows, MICRO_ROWS // bench.cores)


def warm_up(bench: Bench, rows: int) -> None:
    """Workers load compiled code once, and Java compiles for some seconds: no part of a rate."""
    bench.tell(f"gather: getting warm with {rows:,} reports")
    frame = bench.spark.read.parquet(f"file://{reports(bench, rows)}")
    told = batch.gather(frame, layout_of(frame, [topic()]), partitions=bench.cores)
    told.write.mode("overwrite").format("noop").save()


def in_batch(
    bench: Bench,
    rows: int,
    judge: dict[str, int] | None = None,
    partitions: int | None = None,
    *,
    complete: bool = False,
    grows: str = "",
) -> None:
    """From the files to what is told, which is counted on its way and thrown away.

    With `complete` it is told once more, outside of what is measured, for the number that takes all rows: how
    many events were open at once.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    frame = bench.spark.read.parquet(f"file://{reports(bench, rows)}")
    layout = layout_of(frame, [topic()])
    tasks = partitions or batch.partitions_for(rows, 2 * bench.cores)
    seen = Observation()
    told = batch.gather(frame, layout, partitions=tasks).observe(
        seen,
        F.count_if(F.col("state") == "told").alias("told"),
        F.count_if(F.col("state") == "closed").alias("closed"),
        F.sum("redundant").alias("redundant"),
        F.sum("conflicts").alias("conflicts"),
        F.sum("late").alias("late"),
    )

    def work() -> None:
        told.write.mode("overwrite").format("noop").save()

    target = 0 if partitions else TARGET_BATCH
    bench.timed(JOB, "batch", rows, work, partitions=tasks, grows=grows, target=target)
    if judge is not None:
        counts = {name: int(value) for name, value in seen.get.items()}
        expected = {name: judge[name] for name in counts}
        assert counts == expected, f"Spark counted {counts}, polars and the kernel {expected}"
        if complete:
            summed = summary(bench, frame, layout, tasks)
            assert summed == judge, f"Spark's summary is {summed}, not {judge}"


def summary(bench: Bench, frame: DataFrame, layout: Layout, partitions: int) -> dict[str, int]:
    """What Spark counts; what is told is written for that."""
    with bench.scratch("told") as out:
        told = f"file://{out}/told"
        batch.gather(frame, layout, partitions=partitions).write.parquet(told)
        (counts,) = batch.summary(bench.spark.read.parquet(told), layout).toArrow().to_pylist()
    found: dict[str, int] = counts
    return found


def peer(bench: Bench, rows: int) -> dict[str, int]:
    """The same by one process; its summary is the judge of Spark's."""
    folder = reports(bench, rows)
    bench.tell(f"gather: polars, {rows:,} reports")
    (spent, judge), peak_mb = alone(one_process, folder, bench.cores)
    note = f"peak {peak_mb:,} MB; {judge['redundant'] / rows:.0%} redundant, {judge['max_open']:,} open"
    bench.row(JOB, "batch", rows, spent, engine="polars, kernel", grows="rows", note=note)
    return judge


def one_process(folder: Path, threads: int) -> tuple[Spent, dict[str, int]]:
    """The same kernel in this process, after polars has read and sorted."""
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    import polars as pl

    layout = Layout(topic())
    engines.gather(layout, layout.table([Shape(topic()).report("bench", {"place": 1}, report_id="1")]))
    watch = Watch()
    frame = pl.read_parquet(folder / "*.parquet").unnest("fields").sort("place", "at", "report")
    names = {field.path[-1]: name for name, field in zip(layout.names, layout.fields, strict=True)}
    told = engines.gather(layout, frame.rename(names).to_arrow().cast(layout.rows))
    return watch.spent(), counting.summary(told)


def in_stream(bench: Bench, rows: int, buckets: int, *, grows: str = "") -> None:
    """In a stream, a file of reports for each core at a time; none of them may come too late."""
    from pyspark.sql import functions as F  # noqa: N812

    spark, folder = bench.spark, reports(bench, rows, MICRO_ROWS // bench.cores)
    bench.tell(f"gather: a stream of {rows:,} reports, {buckets} buckets")
    with (
        bench.scratch("stream") as work,
        bench.setting(streaming.STATE_STORE | {"spark.sql.shuffle.partitions": str(bench.cores)}),
    ):
        schema = spark.read.parquet(f"file://{folder}").schema
        source = (
            spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", bench.cores)
            .parquet(f"file://{folder}")
        )
        told = streaming.gather(source, Layout(topic()), delay_us=DELAY_US, buckets=buckets)
        query = (
            told.observe("told", F.sum("late").alias("late"))
            .writeStream.format("noop")
            .option("checkpointLocation", f"file://{work}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        bar = Bar(bench.console, "gather, stream: micro-batches")
        warm = followed(query, COLD_BATCHES, bar, rows // MICRO_ROWS)
    assert warm.total == rows, f"of {rows:,} reports {warm.total:,} were read"
    late = sum(metrics["told"]["late"] or 0 for metrics in warm.metrics if "told" in metrics)
    assert late == 0, f"{late:,} reports were late, of a stream in the order of time"
    mean_s = sum(warm.batches_s) / max(1, len(warm.batches_s))
    note = f"{mean_s:.2f} s per micro-batch of {MICRO_ROWS:,}, mean of {len(warm.batches_s)}"
    target = 0 if grows else TARGET_STREAM
    bench.row(JOB, "stream", warm.rows, warm.spent, partitions=buckets, grows=grows, target=target, note=note)
