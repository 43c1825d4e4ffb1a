"""Gather on Spark in a stream: the same rows as in batch, told as the horizon passes.

Keys are dealt out to a few buckets; the state of a bucket is one value of bytes, and its share of a
micro-batch is one call. Every bucket hears of every micro-batch's latest time, so that all have the same
horizon whichever keys they have. Spark runs without event time, and so drops nothing; what is late is
decided here.

The state says under which declaration, and in how many buckets, it was written. `start` and `finish` read
that from the checkpoint and refuse what cannot go on, before a micro-batch runs; a bucket looks again when it
is read. Reading reports and writing what is told are left to whoever asks. `STATE_STORE` is what a session
needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tidings.errors import InputError
from tidings.language.payloads import INT_MIN
from tidings.pipeline.gather import engines
from tidings.pipeline.gather.batch import OUT_ROWS, PACKED, pack, unpacked
from tidings.pipeline.gather.engines import Bucket, State, from_bytes, to_bytes
from tidings.pipeline.gather.frames import BUCKET, bucketed, rows_of, spark_schema
from tidings.pipeline.gather.layout import Layout

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

STATE_STORE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A micro-batch changes every value, and is committed with these alone instead of the store's own files.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""The only store of Spark's that holds values by name, and how it is committed."""

STATE = "bucket"
"""What the value is called in it."""

FORMER = 1
"""The format of states that did not say under what they were written."""

BUCKETS_MAX = 64
"""Beyond this a micro-batch spends its time on buckets: 4 to 16 are for one machine."""

DONE = pa.schema([("told", pa.binary())])
"""What is told in one bucket by one micro-batch."""


def gather(
    frame: DataFrame,
    layout: Layout,
    *,
    delay_us: int = 0,
    buckets: int = 8,
    idle_after_us: int | None = None,
    report: str = "report",
    at: str = "at",
    fields: str | None = "fields",
    topic: str = "topic",
) -> DataFrame:
    """What is told of a stream of reports, as soon as no earlier report is to be waited for.

    A report is fed once the latest `at`, less `delay_us`, has passed it. One that comes later than that is
    fed at once, and counted in `late` of its event's closing. With `idle_after_us`, a stream on which nothing
    has come for that long moves on with the clock. Write it in the output mode "append", and `start` it.
    """
    if not 1 <= buckets <= BUCKETS_MAX:
        raise InputError(f"{buckets} buckets are not from 1 to {BUCKETS_MAX}; 4 to 16 are for one machine")
    if delay_us < 0:
        raise InputError(f"a delay of {delay_us} microseconds is below 0; 0 waits for no report")
    rows = bucketed(rows_of(frame, layout, report=report, at=at, fields=fields, topic=topic), layout, buckets)
    packed = rows.mapInArrow(partial(pack, layout, buckets=buckets, all_buckets=True), spark_schema(PACKED))
    done = packed.groupBy(BUCKET).transformWithState(
        _Processor(layout, delay_us, buckets, idle_after_us),
        spark_schema(DONE),
        outputMode="append",
        timeMode="None" if idle_after_us is None else "ProcessingTime",
    )
    return done.mapInArrow(_unfolded, spark_schema(layout.told))


def start(
    spark: SparkSession,
    checkpoint: Path | str,
    writer: DataStreamWriter,
    layout: Layout,
    *,
    buckets: int = 8,
) -> StreamingQuery:
    """Start a query that writes what `gather` tells, from where its checkpoint is.

    InputError if it was begun under a declaration, or with buckets, with which it cannot go on.
    """
    _states(spark, checkpoint, layout, buckets)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def finish(
    spark: SparkSession, checkpoint: Path | str, layout: Layout, *, delay_us: int = 0, buckets: int = 8
) -> DataFrame:
    """What is told when nothing comes any more: all that a finished query has kept, with all clocks run out.

    The query is over with this. Its checkpoint stays as it is: a query that goes on from there would tell
    later, and again, what is told here. InputError as for `start`.
    """
    states = _states(spark, checkpoint, layout, buckets)
    if states is None:
        return spark.createDataFrame([], spark_schema(layout.told))
    ended = partial(_ended, layout, delay_us, buckets)
    return states.mapInArrow(ended, spark_schema(layout.told))


def _states(spark: SparkSession, checkpoint: Path | str, layout: Layout, buckets: int) -> DataFrame | None:
    """The states of all buckets, which can go on; None if no micro-batch was committed."""
    path = str(checkpoint)
    stateful = [
        row for row in spark.read.format("state-metadata").load(path).collect() if row["maxBatchId"] >= 0
    ]
    if not stateful:
        return None
    ours = [row["operatorId"] for row in stateful if STATE in _variables(row["operatorProperties"])]
    if len(ours) != 1:
        raise InputError(f"{path} is the checkpoint of another query; give a folder of its own")
    kept = (
        spark.read.format("statestore").option("stateVarName", STATE).option("operatorId", ours[0]).load(path)
    )
    states = kept.select("value.*")
    if states.columns != list(State._fields):
        engines.check_format(FORMER)
    for header in sorted({row["header"] for row in states.select("header").collect()}):
        engines.check(header, layout, buckets)
    return states


def _variables(properties: str) -> list[str]:
    """The names of an operator's states."""
    return [one["stateName"] for one in json.loads(properties).get("stateVariables", [])]


class _Processor(StatefulProcessor):
    """One call for all reports of a bucket in a micro-batch."""

    def __init__(self, layout: Layout, delay_us: int, buckets: int, idle_after_us: int | None) -> None:
        self.layout = layout
        self.delay_us = delay_us
        self.buckets = buckets
        self.idle_after_ms = None if idle_after_us is None else max(1, idle_after_us // 1000)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState(STATE, "header string, body binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002
        bucket = self._bucket()
        values, latest_us = [], INT_MIN
        for row in rows:
            values.append(pa.py_buffer(bytes(row.rows)))
            if row.latest is not None:
                latest_us = max(latest_us, row.latest)
        now_ms = 0 if self.idle_after_ms is None else timerValues.getCurrentProcessingTimeInMs()
        told = bucket.feed(unpacked(self.layout, values), latest_us, now_ms)
        yield from self._done(bucket, told, now_ms)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002
        bucket = self._bucket()
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        yield from self._done(bucket, bucket.idle(now_ms), now_ms)

    def close(self) -> None:
        pass

    def _bucket(self) -> Bucket:
        kept = self.state.get()
        return Bucket(
            self.layout, self.delay_us, self.buckets, None if kept is None else State(kept[0], bytes(kept[1]))
        )

    def _done(self, bucket: Bucket, told: pa.Table, now_ms: int) -> Iterator[Row]:
        self.state.update(tuple(bucket.kept()))
        if self.idle_after_ms is not None:
            for timer_ms in list(self.handle.listTimers()):
                self.handle.deleteTimer(timer_ms)
            self.handle.registerTimer(now_ms + self.idle_after_ms)
        if told.num_rows:
            yield Row(told=to_bytes(told))


def _unfolded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for value in batch.column(0):
            yield from from_bytes(value.as_buffer()).to_batches(max_chunksize=OUT_ROWS)


def _ended(
    layout: Layout, delay_us: int, buckets: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for header, body in zip(*batch.columns, strict=True):
            bucket = Bucket(layout, delay_us, buckets, State(header.as_py(), body.as_py()))
            yield from bucket.finish().to_batches(max_chunksize=OUT_ROWS)
