"""Gathering as a job: reports from a table or from lines, to the table `gathered` and a summary.

This is the edge of gather in batch, where tables are read and written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.errors import InputError
from tidings.language.declarations import read_topic
from tidings.language.topics import Topic
from tidings.pipeline import running
from tidings.pipeline.gather import batch
from tidings.pipeline.gather.frames import layout_of
from tidings.pipeline.gather.layout import REFUSED, Layout
from tidings.pipeline.tables import Made, Store, Table, Written, reading
from tidings.records import workload
from tidings.records.workload_files import files_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GATHERED = "gathered"
"""The table that is written."""


def topics_of(folder: Path, given: Sequence[Path] = ()) -> list[Topic]:
    """The topics to gather: those given, or all that a workload declares in its folder."""
    files = list(given) or sorted((folder / workload.DECLARATIONS).glob("*.toml"))
    if not files:
        raise InputError(
            f"there are no declarations in {folder / workload.DECLARATIONS}; name the topic's: --topic DECL"
        )
    return [read_topic(file) for file in files]


@dataclass(frozen=True, slots=True)
class Reports:
    """Reports that are there as Parquet files."""

    folder: Path
    rows: int


def reports_of(store: Store, name: str) -> Reports:
    """A table of the store, or else a folder of Parquet files; InputError if it is neither."""
    for folder in (store.folder / name, Path(name).absolute()) if store.version(name) is None else ():
        if found := files_of(folder):
            try:
                return Reports(folder, sum(pq.read_metadata(file).num_rows for file in found))
            except (pa.ArrowException, OSError) as error:
                raise InputError(f"{folder} has files that are no Parquet: {error}; remove them") from None
    table = Reports(store.path(name), store.made(name).rows)
    if not files_of(table.folder):
        raise InputError(f"the files of the table {name!r} in {store.folder} are gone; make it anew")
    return table


def of_files(spark: SparkSession, reports: Reports, topics: Sequence[Topic]) -> tuple[DataFrame, Layout]:
    """The reports of these topics; they have the columns of a workload's `reports`, or no `topic`."""
    from pyspark.sql import functions as F  # noqa: N812

    with reading():
        frame = spark.read.parquet(f"file://{reports.folder}")
    layout = layout_of(frame, topics)
    if "topic" in frame.columns:
        frame = frame.where(F.col("topic").isin([topic.name for topic in topics]))
    return frame, layout


def write(
    spark: SparkSession,
    store: Store,
    told: DataFrame,
    layout: Layout,
    *,
    source: str,
    topics: Sequence[Topic],
    master: str,
    settings: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> tuple[Made, dict[str, int]]:
    """Write what is told as the table `gathered`; how it came to be, and its summary."""
    table = Table(GATHERED, lambda _: layout.told, __name__, unlike=("event", "at", "opened_at"))
    spec: dict[str, Any] = {
        "reports": source,
        "topics": [topic.name for topic in topics],
        "topic": layout.topic.to_mapping(),
    }
    start = time.monotonic()

    def made(written: Written) -> Made:
        return Made(
            table=GATHERED,
            version=written.version,
            stage=GATHERED,
            spec=spec,
            seed=0,
            reads={source: store.version(source) or 0} if store.version(source) else {},
            settings=dict(settings or {}),
            master=master,
            versions=running.versions(spark),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            rows=written.rows,
            bytes=written.bytes,
            files=written.files,
            seconds=round(time.monotonic() - start, 3),
        )

    with store.writing([GATHERED], overwrite):
        done = store.write(told, table, layout.told, made)
    again = spark.read.parquet(f"file://{store.path(GATHERED)}")
    (row,) = batch.summary(again, layout).toArrow().to_pylist()
    return done, row


def refused(spark: SparkSession, store: Store, limit: int) -> list[tuple[int, str]]:
    """The first reports of lines that were refused, by the table that was written: their lines, and why."""
    from pyspark.sql import functions as F  # noqa: N812

    written = spark.read.parquet(f"file://{store.path(GATHERED)}")
    rows = written.where(F.col("state") == REFUSED).orderBy("event").limit(limit)
    return [(row.event, row.reason) for row in rows.select("event", "reason").collect()]
