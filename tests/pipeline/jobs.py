"""Gather, match, traffic and plans in one session: python -m tests.pipeline.jobs MASTER FOLDER NAME=VALUE …

For tests of masters. The folder has been prepared, each job writes into its `out`; the rest are settings of
Spark's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tests.pipeline.gather.streams import KERNEL, MACHINE, reports, table
from tests.pipeline.traffic import drawn
from tests.records import workloads
from tidings.pipeline import session, worker_files
from tidings.pipeline.gather import batch, job, streaming
from tidings.pipeline.gather.frames import layout_of
from tidings.pipeline.gather.stream_job import NO_EMPTY_BATCHES, Files, Follower
from tidings.pipeline.match.cost_model import Way
from tidings.pipeline.match.job import Job
from tidings.pipeline.match.strategies import Form
from tidings.pipeline.plan import inputs, sources
from tidings.pipeline.tables import Store
from tidings.planning.graphs import Graph
from tidings.planning.stores.base import Demand, Problem
from tidings.records import traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS = {"kernel": KERNEL, "machine": MACHINE}

CHANGED = (*streaming.STATE_STORE, NO_EMPTY_BATCHES, "spark.sql.shuffle.partitions")
"""Settings of the session that a stream changes."""

PLANNED = "planned"
"""The file of what plans are made from."""

FORMS = {Way.INDEX: Form.LISTS, Way.CELLS: Form.ROWS}
"""What each way of matching is asked for."""


def prepare(folder: Path) -> None:
    """Write what the jobs read: reports in two files each, a workload, and records."""
    for name, topic in TOPICS.items():
        said = reports(topic, 200)
        (folder / name).mkdir(parents=True)
        for number, some in enumerate([said[:120], said[120:]]):
            pq.write_table(table(topic, some), folder / name / f"{number}.parquet")
    rows = workloads.drawn(12, subscriptions=200, events=40)
    texts = [workloads.subscription(1000, where="subject > 500 OR language = 3", subject=None, language=None)]
    asked = [*rows["subscriptions"], *texts]
    kept = {name: rows[name] for name in ("clients", "events", "reports")}
    workloads.write(folder / "workload", parts=3, subscriptions=asked, **kept)
    drawn.segment(folder / "records", "part", drawn.records(5, 400))


def run(spark: SparkSession, folder: Path, out: Path, master: str) -> None:
    """Do all jobs."""
    from tidings.pipeline.traffic import running

    for name, topic in TOPICS.items():
        frame = spark.read.parquet(f"file://{folder / name}")
        layout = layout_of(frame, [topic])
        told = batch.gather(frame, layout, partitions=3)
        job.write(spark, Store(out / name), told, layout, source=name, topics=[topic], master=master)
    follower = Follower(
        Files(folder / "kernel", {"maxFilesPerTrigger": "1"}),
        [KERNEL],
        out / "checkpoint",
        out / "stream",
        delay_us=1_000_000,
        buckets=3,
    )
    follower.start(spark, partitions=2, until_now=True).awaitTermination()
    follower.finish(spark)
    for way, form in FORMS.items():
        matching = Job(folder / "workload", memory_bytes=20_000, cores=2, way=way)
        matching.run(spark, Store(out / "match"), form, master=master)
    running.run(spark, folder / "records", Store(out / "traffic"), master=master)
    plan(spark, folder, out / PLANNED, master)


def plan(spark: SparkSession, folder: Path, out: Path, master: str) -> None:
    """What planners are given from the workload and from the records, and what topics vote."""
    generated = sources.generated(folder / "workload", master=master, memory_bytes=2**20)
    recorded = sources.recorded(folder / "records")
    lines = []
    for source in (generated, recorded):
        talk = inputs.flows(spark, source)
        flows = talk.flows
        columns = (flows.senders.tolist(), flows.receivers.tolist(), flows.messages.tolist())
        lines += [f"{flows.clients}", f"{sorted(talk.homes.items())}", *map(repr, zip(*columns, strict=True))]
    brokers, links = inputs.network(spark, recorded)
    graph = Graph.of(((a, b, 1.0) for a, b in links), brokers)
    problem = Problem.of(graph, Demand.of(graph, inputs.rates(spark, recorded).rates), 2, 2)
    lines += [f"{problem.demand.topics}", *map(repr, inputs.votes(spark, problem).tolist())]
    out.write_text("\n".join(lines), encoding="utf-8")


def tables(out: Path) -> dict[str, list[str]]:
    """All that was written, sorted; as texts, in which no two numbers look alike."""
    folders = {name: out / name / job.GATHERED for name in TOPICS}
    folders |= {"stream": out / "stream"}
    folders |= {name: out / "match" / name for name in ("matches", "notifications")}
    folders |= {name: out / "traffic" / "traffic" / name for name in traffic.TABLES}
    found = {}
    for name, folder in folders.items():
        by = "hive" if name in traffic.TABLES else None
        read = ds.dataset(folder, format="parquet", partitioning=by).to_table()
        found[name] = sorted(map(repr, read.to_pylist()))
    return {**found, PLANNED: (out / PLANNED).read_text(encoding="utf-8").splitlines()}


def main(master: str, folder: Path, settings: dict[str, str]) -> None:
    """All of it in a session of its own."""
    with session.start("jobs", master=master, settings=settings) as spark:
        worker_files.send(spark, master, needed=worker_files.STATES)
        run(spark, folder, folder / "out", master)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), dict(one.split("=", 1) for one in sys.argv[3:]))
