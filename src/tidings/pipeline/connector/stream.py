"""A stream that follows a topic of a running network, and writes down every row of its log as a table.

Whoever begins it ends it: `read_to_end` when the network has no more to say, `stop` in every case. What is in
the table then is counted by Spark. It does not know what the rows are about.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from tidings.client.log import LogReader
from tidings.errors import NetworkError
from tidings.pipeline.connector.source import NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

EVERY = "3 seconds"
"""Between two micro-batches. Each costs a job and a question to the brokers, whatever there is to read."""

LOOK_S = 0.1
"""How often it is looked whether something has come about."""

BEGIN_WITHIN_S = 120.0
"""Starting Python beside Spark, which asks the brokers, takes some seconds on a busy machine."""

BEGIN_TIMES = 60
"""Spark itself waits 10 s for that Python, and no setting changes it: a query for which it came too late is
started again, and goes on from its checkpoint."""

TOO_LATE = "failed to connect back"
"""What Spark says then."""

PATIENCE_S = 600
"""How long a broker may be out of reach: one that has much to do on a busy machine is not gone."""

BEGINNING = "Initializing"
"""What Spark says of a query that has asked its source for nothing yet."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What there is of a topic in a log."""

    rows: int

    versions: int
    """Different pairs of event and version."""

    events: int


def begin(spark: SparkSession, urls: Sequence[str], topic: str, folder: Path) -> Stream:
    """Follow a topic from its first entry on; `urls` are HTTP listeners of brokers, tried in turn.

    InputError if the topic is not declared or not kept. The folder is for the table and a checkpoint.
    """
    rows = (
        spark.readStream.format(NAME).options(
            url=",".join(urls), startingOffsets="earliest", patience=f"{PATIENCE_S}s"
        )
    ).load(topic)
    table = folder / "rows"
    wanted = (
        rows.writeStream.format("parquet")
        .option("path", f"file://{table}")
        .option("checkpointLocation", f"file://{folder / 'checkpoint'}")
        .trigger(processingTime=EVERY)
    )
    stream = Stream(spark, wanted.start, LogReader(urls, patience_s=PATIENCE_S), topic, table, rows.schema)
    try:
        stream.wait_until_reading()
    except BaseException:
        stream.stop()
        raise
    return stream


def counts(rows: DataFrame) -> Counts:
    """Count the rows of a log of a gathered topic."""
    found = rows.agg(
        F.count("*").alias("rows"),
        F.count_distinct("_event", "_version").alias("versions"),
        F.count_distinct("_event").alias("events"),
    ).collect()[0]
    return Counts(found["rows"], found["versions"], found["events"])


class Stream:
    """A query that runs."""

    def __init__(
        self,
        spark: SparkSession,
        start: Callable[[], StreamingQuery],
        reader: LogReader,
        topic: str,
        folder: Path,
        schema: StructType,
    ) -> None:
        self.topic = topic
        self._spark = spark
        self._start = start
        self._query = start()
        self._begun = 1
        """How often."""
        self._reader = reader
        self._folder = folder
        self._schema = schema

    @property
    def rows(self) -> int:
        """How far it has read: entries, of all brokers together."""
        return sum(self._read().values())

    def read_to_end(self, within_s: float) -> Counts:
        """Read what the log holds now, stop, and count what was written down.

        NetworkError if the query has ended by itself, or has not come any further for `within_s` seconds.
        """
        ends = {
            one.holder: one.next for one in self._reader.whole(self.topic).holders if one.next > one.first
        }
        end_s = time.monotonic() + within_s
        before: dict[str, int] = {}
        while any((read := self._read()).get(holder, 0) < number for holder, number in ends.items()):
            self._check()
            if read != before:
                before, end_s = read, time.monotonic() + within_s
            if time.monotonic() >= end_s:
                raise NetworkError(
                    f"too slow: the stream of {self.topic!r} has read up to {read} and no further for "
                    f"{within_s:g} s, and the log goes to {ends}; a machine with less to do may be quick "
                    "enough"
                )
            time.sleep(LOOK_S)
        self.stop()
        return counts(self.table())

    def table(self) -> DataFrame:
        """What it has written down."""
        return self._spark.read.schema(self._schema).parquet(f"file://{self._folder}")

    def stop(self) -> None:
        """Stop it, whatever it does; nothing happens the second time."""
        # Spark itself may be gone, and the query with it.
        with contextlib.suppress(PySparkException, Py4JError, OSError):
            self._query.stop()

    def wait_until_reading(self) -> None:
        """Wait until it has asked the brokers; it reads from the first entry on, whenever that is."""
        end_s = time.monotonic() + BEGIN_WITHIN_S
        while not self._query.isActive or self._query.status["message"].startswith(BEGINNING):
            self._check()
            if time.monotonic() >= end_s:
                return  # it may still begin, and `read_to_end` sees to it
            time.sleep(LOOK_S)

    def _read(self) -> dict[str, int]:
        """The number of the next entry to be read, by holder; none before the first micro-batch."""
        progress = self._query.lastProgress
        if progress is None:
            return {}
        offset = json.loads(progress.sources[0].endOffset or "null") or {}
        return {str(holder): int(number) for holder, number in offset.items()}

    def _check(self) -> None:
        """See that it runs; one for which Python came too late does so again."""
        if self._query.isActive:
            return
        error = self._query.exception()
        said = str(error).partition("\n")[0].rstrip(".") if error is not None else "it was stopped"
        if TOO_LATE not in said:
            raise NetworkError(f"the stream of {self.topic!r} has ended: {said}")
        if self._begun == BEGIN_TIMES:
            raise NetworkError(
                f"the stream of {self.topic!r} has ended {self._begun} times: {said}; a machine with less to "
                "do may be quick enough"
            )
        self._begun += 1
        self._query = self._start()
