"""Gather on Spark in batch: a DataFrame of reports becomes a DataFrame of what is told.

Reports are packed before they are dealt out: many rows of one bucket are one value of bytes, which costs the
shuffle as much as one row. A task has all reports of its keys and sorts them itself. The result is the same
for any number of partitions, but for the order of its rows. Nothing here reads, writes or collects.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.pipeline.gather import engines
from tidings.pipeline.gather.frames import BUCKET, bucketed, rows_of, spark_schema
from tidings.pipeline.gather.layout import CLOSED, ENDED, REFUSED, TOLD, Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PACK_ROWS = 131_072
"""So many rows are packed at once: with 16 buckets, 8,192 in each value of bytes."""

OUT_ROWS = 65_536
"""Rows of the result that are handed over at once."""

PARTITION_ROWS = 1_000_000
"""So many reports of 20 fields take about 800 MB in a task, sorted and with what is told of them."""

PACKED = pa.schema([(BUCKET, pa.int32()), ("latest", pa.int64()), ("rows", pa.binary())])
"""Reports of one bucket; `latest` is the latest time among all that were packed with them, of any bucket."""

BUCKETS_COUNTED = 2**16
"""Up to so many buckets their numbers have 16 bits."""

SLOT_US = 60_000_000
"""Events that were open at once are counted by slots of time, each by itself, and then over all slots."""


def gather(
    frame: DataFrame,
    layout: Layout,
    *,
    partitions: int = 8,
    report: str = "report",
    at: str = "at",
    fields: str | None = "fields",
    topic: str = "topic",
) -> DataFrame:
    """What is told of reports, until every event is closed; see `layout.Layout.told` for its columns."""
    rows = rows_of(frame, layout, report=report, at=at, fields=fields, topic=topic)
    return gather_rows(rows, layout, partitions=partitions)


def gather_rows(rows: DataFrame, layout: Layout, *, partitions: int = 8) -> DataFrame:
    """The same of rows that are laid out already."""
    packed = bucketed(rows, layout, partitions).mapInArrow(
        partial(pack, layout, buckets=partitions, all_buckets=False), spark_schema(PACKED)
    )
    dealt = packed.repartitionById(partitions, BUCKET)
    return dealt.mapInArrow(partial(_gathered, layout), spark_schema(layout.told))


def partitions_for(reports: int, cores: int) -> int:
    """How many tasks so many reports are for: no more in one than fit into memory."""
    return max(cores, -(-reports // PARTITION_ROWS))


def pack(
    layout: Layout, batches: Iterator[pa.RecordBatch], *, buckets: int, all_buckets: bool
) -> Iterator[pa.RecordBatch]:
    """Many rows of one bucket as one value; with `all_buckets` every bucket hears of the latest time."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= PACK_ROWS:
            yield from _packed(layout, pa.Table.from_batches(waiting), buckets, all_buckets)
            waiting, count = [], 0
    if count:
        yield from _packed(layout, pa.Table.from_batches(waiting), buckets, all_buckets)


def _packed(layout: Layout, table: pa.Table, buckets: int, all_buckets: bool) -> Iterator[pa.RecordBatch]:
    # Numbers of 16 bits are sorted by counting.
    bucket = table.column(BUCKET).to_numpy().astype(np.uint16 if buckets <= BUCKETS_COUNTED else np.int32)
    order = np.argsort(bucket, kind="stable")
    edges = np.searchsorted(bucket[order], np.arange(buckets + 1))
    rows = table.drop_columns([BUCKET]).combine_chunks().take(pa.array(order))
    at = table.column("at")
    # A report that will be refused for its time says nothing of what time it is.
    latest = pc.max(at.filter(pc.less_equal(at, layout.at_us_max))).as_py()
    for number in range(buckets):
        begin, end = int(edges[number]), int(edges[number + 1])
        if begin < end or all_buckets:
            some = rows.slice(begin, end - begin)
            # One at a time: together they would be larger than what Spark takes in one batch.
            yield pa.record_batch([[number], [latest], [engines.to_bytes(some)]], schema=PACKED)


def unpacked(layout: Layout, values: list[pa.Buffer]) -> pa.Table:
    """The rows in some values of bytes."""
    tables = [pa.ipc.open_stream(value).read_all() for value in values]
    return pa.concat_tables([layout.rows.empty_table(), *(one.cast(layout.rows) for one in tables)])


def _gathered(layout: Layout, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All reports of a task: an event may be in any number of batches."""
    values = [value.as_buffer() for batch in batches for value in batch.column(2)]
    if values:
        yield from engines.gather(layout, unpacked(layout, values)).to_batches(max_chunksize=OUT_ROWS)


def summary(told: DataFrame, layout: Layout) -> DataFrame:
    """One row with the numbers that `tidings gather` says at its end, from what was told alone."""
    from pyspark.sql import functions as F  # noqa: N812

    closed = F.col("state") == CLOSED
    counts = told.agg(
        F.count_if(closed).alias("opened"),
        F.coalesce(F.sum(F.when(closed, F.col("reports") - 1)), F.lit(0)).alias("merged"),
        F.coalesce(F.sum("redundant"), F.lit(0)).alias("redundant"),
        F.count_if(F.col("state") == REFUSED).alias("refused"),
        F.coalesce(F.sum("conflicts"), F.lit(0)).alias("conflicts"),
        F.count_if(F.col("state").isin(TOLD, ENDED)).alias("told"),
        F.coalesce(F.sum("late"), F.lit(0)).alias("late"),
    )
    received = F.expr("opened + merged + redundant + refused").alias("received")
    return counts.crossJoin(_max_open(told.where(closed), layout)).select(
        *(received, "redundant", "merged", "opened", "refused", "conflicts", "told"),
        *(F.col("opened").alias("closed"), "max_open", "late"),
    )


def _max_open(closed: DataFrame, layout: Layout) -> DataFrame:
    """The most events that were open at once; the order at one time is that of `counting`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    length = F.length if layout.text_ids else (lambda _: F.lit(0))
    by_report = F.col("closed_by").isNotNull()
    opening = F.struct(
        F.col("opened_at").alias("at"),
        F.lit(1).alias("reported"),
        length(F.col("event")).alias("length"),
        F.col("event").alias("id"),
        F.lit(0).alias("closing"),
        F.lit(1).alias("step"),
    )
    closing = F.struct(
        F.col("at").alias("at"),
        by_report.cast("int").alias("reported"),
        length(F.col("closed_by")).alias("length"),
        F.col("closed_by").alias("id"),
        F.lit(1).alias("closing"),
        F.lit(-1).alias("step"),
    )
    points = closed.select(F.explode(F.array(opening, closing)).alias("point")).select("point.*")
    slot = F.floor(F.col("at") / F.lit(SLOT_US)).alias("slot")
    within = (
        Window.partitionBy("slot")
        .orderBy("at", "reported", "length", "id", "closing")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    running = points.select("*", slot).withColumn("open", F.sum("step").over(within))
    slots = running.groupBy("slot").agg(F.max("open").alias("most"), F.sum("step").alias("net"))
    # As many rows as there were minutes.
    before = Window.orderBy("slot").rowsBetween(Window.unboundedPreceding, -1)
    carried = F.coalesce(F.sum("net").over(before), F.lit(0))
    return slots.withColumn("open", carried + F.col("most")).agg(
        F.coalesce(F.max("open"), F.lit(0)).alias("max_open")
    )
