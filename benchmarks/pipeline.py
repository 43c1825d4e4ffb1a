"""The pipeline at scale: how many rows a second, beside one process that does the same job.

    python benchmarks/pipeline.py gather                  1 million reports, in batch and in a stream
    python benchmarks/pipeline.py gather --rows 10000000

Reports have 20 fields: 12 numbers, 6 texts and 2 truth values. Each event has 10 reports of which 5 are
redundant, and 100,000 are open at once. The one process reads the same files with polars, sorts them, and
runs the same kernel; what both tell is compared by its summary.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.language.reports import Shape
from tidings.language.topics import Topic
from tidings.pipeline import session
from tidings.pipeline.gather import batch, counting, engines, streaming
from tidings.pipeline.gather.frames import layout_of
from tidings.pipeline.gather.layout import TYPES, Layout

PER_EVENT = 10
OPEN = 100_000
SPREAD_US = 60_000_000
STAY_US = 85_000_000
"""The reports of an event come within a minute. The fifth is the last that adds to it, and Tr is a minute."""

FILE_ROWS = 100_000
"""As much as a micro-batch takes."""

COLD_BATCHES = 3
"""Micro-batches that start Python and let the JVM compile, and are left out."""

POLICIES = ("first", "last", "max", "min")


def topic() -> Topic:
    """A gathered topic with 20 fields of mixed types; the key is a number."""
    fields: dict[str, Any] = {"place": {"type": "int"}}
    fields |= {f"count{n}": {"type": "int", "conflict": POLICIES[n % 4]} for n in range(7)}
    fields |= {
        f"level{n}": {"type": "float", "conflict": POLICIES[n % 4], "tolerance": 0.1} for n in range(4)
    }
    fields |= {f"text{n}": {"type": "string", "conflict": POLICIES[n % 4]} for n in range(6)}
    fields |= {f"is{n}": {"type": "bool", "conflict": POLICIES[n % 2]} for n in range(2)}
    return Topic.from_mapping(
        {
            "name": "bench",
            "kind": "gathered",
            "key": ["place"],
            "merge_after": "4s",
            "redundant_for": "60s",
            "window": "10m",
            "fields": fields,
        }
    )


def write_reports(folder: Path, rows: int) -> None:
    """Reports in files, in the order of time: of each event five that add to it, and five that do not."""
    declared = list(topic().fields.values())
    events = rows // PER_EVENT
    step_us = STAY_US // OPEN
    drawn = np.random.default_rng(1)
    event = np.repeat(np.arange(events), PER_EVENT)
    place = np.tile(np.arange(PER_EVENT), events)
    at = event * step_us + np.sort(drawn.integers(0, SPREAD_US, (events, PER_EVENT)), axis=1).ravel()
    order = np.argsort(at, kind="stable")
    words = pa.array([f"what was said, number {number}" for number in range(5000)])
    for begin in range(0, rows, FILE_ROWS):
        some = order[begin : begin + FILE_ROWS]
        about, turn = event[some], place[some] % 5
        columns = []
        for number, field in enumerate(declared):
            truth = about * 31 + number
            unknown = np.zeros(len(some), bool) if number == 0 else number % 5 != turn
            if number == 0:
                column = pa.array(about)
            elif field.type.value == "string":
                column = words.take(pa.array(truth % len(words), mask=unknown))
            elif field.type.value == "bool":
                column = pa.array(truth % 2 == 0, mask=unknown)
            else:
                column = pa.array(truth, mask=unknown).cast(TYPES[field.type])
            columns.append(column)
        fields = pa.StructArray.from_arrays(columns, names=[field.path[-1] for field in declared])
        table = pa.table({"report": some, "at": at[some], "fields": fields})
        pq.write_table(table, folder / f"{begin // FILE_ROWS:06}.parquet", compression="zstd")


class Watch:
    """Time that passes, and that processors spend on this process and all below it: Spark's and Python's."""

    def __init__(self) -> None:
        self._start, self._cpu = time.perf_counter(), cpu_s()

    def told(self, rows: int) -> str:
        seconds, cpu = time.perf_counter() - self._start, cpu_s() - self._cpu
        return f"{rows / seconds:>9,.0f} reports/s {rows / cpu:>9,.0f} per CPU-second {seconds:7.1f} s"


def cpu_s() -> float:
    """What a machine that others use too cannot change much: the seconds of all cores together."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                said = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            parents[int(folder.name)] = int(said[1])
            # With those of children that have ended.
            ticks[int(folder.name)] = sum(map(int, said[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(ticks.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")


def one_process(folder: Path, rows: int) -> tuple[str, dict[str, int]]:
    """The same kernel in this process, after polars has read and sorted."""
    import polars as pl

    layout = Layout(topic())
    engines.gather(layout, layout.table([Shape(topic()).report("bench", {"place": 1}, report_id="1")]))
    watch = Watch()
    frame = pl.read_parquet(folder / "*.parquet").unnest("fields").sort("place", "at", "report")
    names = {field.path[-1]: name for name, field in zip(layout.names, layout.fields, strict=True)}
    told = engines.gather(layout, frame.rename(names).to_arrow().cast(layout.rows))
    return watch.told(rows), counting.summary(told)


def on_spark(spark: Any, folder: Path, partitions: int, rows: int) -> str:
    """In batch: from the files to what is told, which is thrown away."""
    frame = spark.read.parquet(f"file://{folder}")
    layout = layout_of(frame, [topic()])
    watch = Watch()
    told = batch.gather(frame, layout, partitions=partitions)
    told.write.mode("overwrite").format("noop").save()
    return watch.told(rows)


def summary(spark: Any, folder: Path, partitions: int, out: Path) -> dict[str, int]:
    """What Spark counts; what is told is written for that."""
    frame = spark.read.parquet(f"file://{folder}")
    layout = layout_of(frame, [topic()])
    batch.gather(frame, layout, partitions=partitions).write.parquet(f"file://{out}")
    (counts,) = batch.summary(spark.read.parquet(f"file://{out}"), layout).toArrow().to_pylist()
    found: dict[str, int] = counts
    return found


def in_stream(spark: Any, folder: Path, buckets: int, work: Path) -> str:
    """In a stream, a file of reports at a time."""
    for name, value in streaming.STATE_STORE.items():
        spark.conf.set(name, value)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    schema = spark.read.parquet(f"file://{folder}").schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"file://{folder}")
    told = streaming.gather(source, Layout(topic()), delay_us=1_000_000, buckets=buckets)
    query = (
        told.writeStream.format("noop")
        .option("checkpointLocation", f"file://{work}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    cold, cpu = 0, cpu_s()
    while not query.awaitTermination(1):
        if cold < COLD_BATCHES <= len(query.recentProgress):
            cold, cpu = len(query.recentProgress), cpu_s()
    cpu = cpu_s() - cpu
    progress = [json.loads(one.json) for one in query.recentProgress]
    warm = [one for one in progress[cold:] if one["numInputRows"]]
    rows = sum(one["numInputRows"] for one in warm)
    seconds = sum(one["durationMs"]["triggerExecution"] for one in warm) / 1000
    return (
        f"{rows / seconds:>9,.0f} reports/s {rows / cpu:>9,.0f} per CPU-second; "
        f"{seconds / len(warm):.2f} s for a micro-batch of {FILE_ROWS:,}, mean of {len(warm)}"
    )


def gather(rows: int, partitions: int | None, memory: str) -> None:
    """All of it, as a table."""
    work = Path(tempfile.mkdtemp(prefix="tidings-bench-"))
    try:
        reports = work / "reports"
        reports.mkdir()
        write_reports(reports, rows)
        cores = os.cpu_count() or 1
        tasks = partitions or batch.partitions_for(rows, 2 * cores)
        print(f"gather {rows:,} reports, 20 fields; {cores} cores, {tasks} partitions")
        said, judge = one_process(reports, rows)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"  one process, polars  {said}  {peak_mb:,} MB", flush=True)
        print(f"  {judge}")
        with session.start("bench", settings={"spark.driver.memory": memory}) as spark:
            counts = summary(spark, reports, tasks, work / "out")
            assert counts == judge, f"Spark counted {counts}"
            for _ in range(2):
                print(f"  Spark, batch         {on_spark(spark, reports, tasks, rows)}", flush=True)
            for buckets in (4, 8, 16):
                said = in_stream(spark, reports, buckets, work / f"stream-{buckets}")
                print(f"  stream, {buckets:>2} buckets   {said}", flush=True)
    finally:
        shutil.rmtree(work)


def main() -> None:
    """Choose what to measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    kinds = parser.add_subparsers(dest="kind", required=True)
    gathering = kinds.add_parser("gather", help="reports to events, in batch and in a stream")
    gathering.add_argument("--rows", type=int, default=1_000_000)
    gathering.add_argument("--partitions", type=int)
    gathering.add_argument("--memory", default="2g", help="of Spark's JVM")
    given = parser.parse_args()
    gather(given.rows, given.partitions, given.memory)


if __name__ == "__main__":
    main()
