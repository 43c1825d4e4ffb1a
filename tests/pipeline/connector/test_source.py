"""The format `tidings` in Spark, against a log of several brokers: everything, once, or an error."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pyspark_tidings
from tests.client.log_server import LogServer
from tests.client.stub import in_a_thread
from tidings.errors import SetupError
from tidings.language.topics import Topic
from tidings.pipeline.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PLAIN = Topic.from_mapping(
    {
        "name": "traffic",
        "kind": "plain",
        "keep": "1d",
        "fields": {
            "road": {"type": "string"},
            "severity": {"type": "int"},
            "seen": {"type": "timestamp"},
            "place": {"city": {"type": "string"}},
        },
    }
)

GATHERED = Topic.from_mapping(
    {
        "name": "traffic",
        "kind": "gathered",
        "keep": "1d",
        "keep_reports": "1d",
        "key": ["road"],
        "merge_after": "1s",
        "redundant_for": "2s",
        "window": "10s",
        "fields": {"road": {"type": "string"}, "lanes": {"type": "int", "conflict": "union"}},
    }
)


@pytest.fixture
def server() -> Iterator[LogServer]:
    with LogServer(PLAIN).serve() as serving:
        yield serving


def reports(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "road": f"A{at % 3}",
            "severity": at,
            "seen": "2026-11-15T11:05:00Z",
            **({"place": {"city": "Athens"}} if at % 2 else {}),
        }
        for at in range(first, first + count)
    ]


def read(spark: SparkSession, server: LogServer, **options: object) -> DataFrame:
    return spark.read.format("tidings").options(url=server.url, patience="0", **options).load("traffic")  # type: ignore[arg-type]


def numbers(rows: DataFrame) -> list[tuple[str, int]]:
    return sorted((row["_holder"], row["_seq"]) for row in rows.select("_holder", "_seq").collect())


def all_of(server: LogServer) -> list[tuple[str, int]]:
    return sorted((broker, one.number) for (broker, _), log in server.logs.items() for one in log.entries)


# Batches.


@pytest.mark.spark
def test_all_rows_of_all_brokers_come_with_their_declared_types(
    spark: SparkSession, server: LogServer
) -> None:
    server.publish("b2.1", *reports(30))
    server.publish("b1.1", *reports(20))
    rows = read(spark, server, rowsPerPartition=12)
    assert rows.schema.simpleString() == (
        "struct<road:string,severity:bigint,seen:timestamp,place:struct<city:string>,"
        "_topic:string,_holder:string,_seq:bigint,_at:bigint>"
    )
    assert numbers(rows) == all_of(server)
    first = rows.where("_holder = 'b2.1' AND _seq = 1").collect()[0]
    assert (first["road"], first["severity"], first["place"]["city"]) == ("A1", 1, "Athens")
    assert first["seen"].isoformat() == "2026-11-15T11:05:00"
    # Two ranges of 10, three of 10.
    assert rows.rdd.getNumPartitions() == 5


@pytest.mark.spark
def test_a_gathered_topic_tells_events_and_gives_its_reports(spark: SparkSession) -> None:
    with LogServer(GATHERED).serve() as server:
        about: dict[str, Any] = {"event": "e1", "version": 1, "reports": 2, "complete": True, "state": "told"}
        server.publish("b1.1", {"road": "A1", "lanes": [1, 2]}, **about)
        server.publish("b2.1", {"road": "A1", "lanes": 2}, what="reports", report="b2:1:1")
        (event,) = read(spark, server).collect()
        assert event.asDict() == {
            "road": "A1", "lanes": [1, 2], "_topic": "traffic", "_holder": "b1.1", "_seq": 0, "_at": 0,
            "_event": "e1", "_version": 1, "_reports": 2, "_complete": True, "_state": "told",
        }  # fmt: skip
        (report,) = read(spark, server, what="reports").collect()
        assert (report["lanes"], report["_report"]) == ([2], "b2:1:1")


@pytest.mark.spark
def test_where_goes_to_the_brokers(spark: SparkSession, server: LogServer) -> None:
    server.publish("b1.1", *reports(20))
    rows = read(spark, server, where="severity >= 15 AND road = 'A0'")
    assert numbers(rows) == [("b1.1", 15), ("b1.1", 18)]
    assert server.asked[-1][1]["where"] == "severity >= 15 AND road = 'A0'"


@pytest.mark.spark
def test_filters_of_spark_go_down_where_it_is_asked_for_and_change_nothing(
    spark: SparkSession, server: LogServer
) -> None:
    server.publish("b1.1", *reports(40))
    asked = "severity >= 10 AND road IN ('A1', 'A2') AND place.city IS NULL AND _seq < 30"
    pushed = numbers(read(spark, server, pushdown="true", where="severity < 35").where(asked))
    where = server.asked[-1][1]["where"]
    assert pushed == numbers(read(spark, server, where="severity < 35").where(asked))
    assert pushed == [("b1.1", at) for at in range(10, 30, 2) if at % 3]
    assert "severity >= 10" in where
    assert "_seq" not in where


@pytest.mark.spark
def test_offsets_bound_a_batch(spark: SparkSession, server: LogServer) -> None:
    server.publish("b1.1", *reports(10))
    server.publish("b2.1", *reports(10))
    rows = read(spark, server, startingOffsets='{"b1.1": 4}', endingOffsets='{"b1.1": 6, "b2.1": 1}')
    assert numbers(rows) == [("b1.1", 4), ("b1.1", 5), ("b2.1", 0)]
    # b1 took its ten in the microseconds 0 to 9, b2 from 10 on.
    late = read(spark, server, startingOffsets="1970-01-01T00:00:00.000008Z")
    assert numbers(late) == [("b1.1", 8), ("b1.1", 9), *(("b2.1", at) for at in range(10))]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"startingOffsets": '{"b1.1": 4}', "endingOffsets": '{"b1.1": 3}'}, "3 and 4 at 'b1.1'"),
        ({"startingOffsets": '{"b7.1": 4}'}, "'b7.1' holds nothing of the topic .*who does: 'b1.1'"),
        ({"startingOffsets": '{"b1.1": 11}'}, "'b1.1' has not got as far as 11"),
        ({"startingOffsets": "{b1: 4}"}, "startingOffsets: .*write earliest"),
        ({"where": "severty > 3"}, "where: .*severty"),
    ],
)
def test_what_cannot_be_read_is_refused_before_a_task_runs(
    spark: SparkSession, server: LogServer, options: dict[str, str], reason: str
) -> None:
    server.publish("b1.1", *reports(10))
    with pytest.raises(Exception, match=reason):
        read(spark, server, **options).count()
    assert "/log/read" not in [path for path, _ in server.asked]


@pytest.mark.spark
def test_an_empty_log_is_an_empty_table(spark: SparkSession, server: LogServer) -> None:
    assert read(spark, server).count() == 0


@pytest.mark.spark
def test_a_batch_fails_where_a_broker_is_away_or_entries_are_gone(
    spark: SparkSession, server: LogServer
) -> None:
    server.publish("b1.1", *reports(10))
    server.publish("b2.1", *reports(10))
    server.away = {"b2"}
    with pytest.raises(Exception, match="'b2' may hold a part of 'traffic'"):
        read(spark, server).count()
    server.away = set()
    server.logs["b1.1", "events"].first = 3
    with pytest.raises(Exception, match="keeps entries from 3 on, and 1 would be next"):
        read(spark, server, startingOffsets='{"b1.1": 1}').count()
    forgiving = read(spark, server, startingOffsets='{"b1.1": 1}', failOnDataLoss="false")
    assert forgiving.count() == 17


# Streams.


class Sink:
    """Rows by (broker, number), as an idempotent sink has them; and the batches that they came in."""

    def __init__(self, folder: Path) -> None:
        self.rows: list[tuple[str, int]] = []
        self.batches: dict[int, list[tuple[str, int]]] = {}
        self.checkpoint = str(folder / "checkpoint")

    def take(self, rows: DataFrame, batch: int) -> None:
        # A batch that is run again after a failure replaces itself.
        self.batches[batch] = numbers(rows)

    @property
    def all(self) -> list[tuple[str, int]]:
        return sorted(row for rows in self.batches.values() for row in rows)

    def start(self, spark: SparkSession, server: LogServer, **options: object) -> StreamingQuery:
        stream = spark.readStream.format("tidings").options(url=server.url, **{"patience": "0", **options})  # type: ignore[arg-type]
        writer = stream.load("traffic").writeStream.foreachBatch(self.take)
        return writer.option("checkpointLocation", self.checkpoint).trigger(availableNow=True).start()

    def run(self, spark: SparkSession, server: LogServer, **options: object) -> None:
        query = self.start(spark, server, **options)
        query.awaitTermination()


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path)


@pytest.mark.spark
def test_a_stream_goes_on_where_it_stopped_in_batches_of_limited_size(
    spark: SparkSession, server: LogServer, sink: Sink
) -> None:
    server.publish("b1.1", *reports(25))
    server.publish("b2.1", *reports(5))
    sink.run(spark, server, startingOffsets="earliest", maxRowsPerBatch=12)
    assert [len(rows) for rows in sink.batches.values()] == [12, 12, 6]
    server.publish("b2.1", *reports(4))
    server.publish("b0.1", *reports(3))
    sink.run(spark, server, startingOffsets="earliest", maxRowsPerBatch=12)
    assert sink.all == all_of(server)


@pytest.mark.spark
def test_a_stream_that_fails_in_the_middle_loses_nothing_and_repeats_nothing(
    spark: SparkSession, server: LogServer, sink: Sink
) -> None:
    """The second batch is cut off while it is read: its offsets are in the checkpoint, its rows are not."""
    server.publish("b1.1", *reports(30))
    take = sink.take

    def fail(rows: DataFrame, batch: int) -> None:
        if batch == 1:
            server.cut_after = [0]
        take(rows, batch)

    sink.take = fail  # type: ignore[method-assign]
    with pytest.raises(Exception, match="cut off"):
        sink.run(spark, server, startingOffsets="earliest", maxRowsPerBatch=10)
    assert len(sink.all) == 10
    sink.take = take  # type: ignore[method-assign]
    server.publish("b1.1", *reports(5))
    server.publish("b2.1", *reports(5))
    sink.run(spark, server, startingOffsets="earliest", maxRowsPerBatch=10)
    assert sink.all == all_of(server)


@pytest.mark.spark
@pytest.mark.slow
def test_a_broker_that_is_away_fails_a_stream_and_is_read_when_it_is_back(
    spark: SparkSession, server: LogServer, sink: Sink
) -> None:
    server.publish("b1.1", *reports(5))
    server.publish("b2.1", *reports(5))
    sink.run(spark, server, startingOffsets="earliest")
    server.publish("b1.1", *reports(5))
    server.publish("b2.1", *reports(5))
    server.away = {"b2"}
    with pytest.raises(Exception, match="'b2' may hold a part"):
        sink.run(spark, server, startingOffsets="earliest")
    server.away = set()
    sink.run(spark, server, startingOffsets="earliest")
    assert sink.all == all_of(server)


@pytest.mark.spark
def test_a_stream_fails_where_a_broker_came_back_without_its_disk_unless_told_otherwise(
    spark: SparkSession, server: LogServer, sink: Sink
) -> None:
    server.publish("b1.1", *reports(5))
    sink.run(spark, server, startingOffsets="earliest")
    server.gone = {"b1.1"}
    server.publish("b1.7", *reports(3))
    with pytest.raises(Exception, match=r"'b1\.1', read up to 5, is in the network no more"):
        sink.run(spark, server)
    sink.run(spark, server, failOnDataLoss="false")
    assert sink.all == [("b1.1", at) for at in range(5)] + [("b1.7", at) for at in range(3)]


@pytest.mark.spark
def test_a_checkpoint_that_names_brokers_without_their_incarnation_is_refused(
    spark: SparkSession, server: LogServer, sink: Sink
) -> None:
    server.publish("b1.1", *reports(5))
    sink.run(spark, server, startingOffsets="earliest")
    offsets = sorted((Path(sink.checkpoint) / "offsets").glob("[0-9]*"))
    for file in offsets:
        file.write_text(file.read_text(encoding="utf-8").replace("b1.1", "b1"), encoding="utf-8")
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    assert offsets
    with pytest.raises(Exception, match="the checkpoint is of an older release: 'b1' names no holder"):
        sink.run(spark, server)


@pytest.mark.spark
@pytest.mark.slow
def test_a_stream_fails_where_entries_are_gone_unless_told_otherwise(
    spark: SparkSession, server: LogServer, sink: Sink
) -> None:
    server.publish("b1.1", *reports(5))
    sink.run(spark, server, startingOffsets="earliest")
    server.publish("b1.1", *reports(10))
    server.logs["b1.1", "events"].first = 8
    with pytest.raises(Exception, match="keeps entries from 8 on, and 5 would be next"):
        sink.run(spark, server)
    sink.run(spark, server, failOnDataLoss="false")
    assert sink.all == [("b1.1", at) for at in (*range(5), *range(8, 15))]


@pytest.mark.spark
@pytest.mark.slow
def test_a_deputy_is_read_where_it_has_all_that_is_asked_for_and_else_its_broker_is_waited_for(
    spark: SparkSession, server: LogServer, sink: Sink
) -> None:
    """A copy that begins later or ends earlier than the log is no loss, and is never taken for the whole."""
    server.publish("b1.1", *reports(10))
    server.publish("b2.1", *reports(10))
    server.away, server.copies = {"b2"}, {"b2.1": (2, 8)}
    with pytest.raises(Exception, match="its deputy has 2 up to 8"):
        read(spark, server).count()
    assert read(spark, server, startingOffsets='{"b2.1": 2}').count() == 16
    with pytest.raises(Exception, match="its deputy has 2 up to 8"):
        read(spark, server, endingOffsets='{"b2.1": 9}', startingOffsets='{"b2.1": 2}').count()
    with pytest.raises(Exception, match="its deputy has 2 up to 8"):
        sink.run(spark, server, startingOffsets="earliest")
    server.copies = {"b2.1": (0, 8)}
    sink.run(spark, server, startingOffsets="earliest")
    assert [row for row in sink.all if row[0] == "b2.1"] == [("b2.1", at) for at in range(8)]
    server.away = set()
    sink.run(spark, server, startingOffsets="earliest")
    server.away = {"b2"}
    with pytest.raises(Exception, match="its deputy has 0 up to 8"):
        sink.run(spark, server, startingOffsets="earliest", failOnDataLoss="false")
    server.away = set()
    sink.run(spark, server, startingOffsets="earliest")
    assert sink.all == all_of(server)


# Writing.


@pytest.mark.spark
def test_rows_are_published_with_their_filled_columns(spark: SparkSession) -> None:
    with in_a_thread() as stub:
        rows = spark.createDataFrame(
            [("A1", None, 3), ("A2", 2.5, 4)], "road string, depth double, _seq bigint"
        )
        rows.coalesce(1).write.format("tidings").mode("append").options(url=stub.address).save("traffic")
        assert published(stub) == [
            ("traffic", {"road": "A1"}),
            ("traffic", {"road": "A2", "depth": 2.5}),
        ]


@pytest.mark.spark
def test_a_stream_is_published_to_the_topic_of_each_row(
    spark: SparkSession, server: LogServer, tmp_path: Path
) -> None:
    server.publish("b1.1", *reports(3))
    with in_a_thread() as stub:
        stream = spark.readStream.format("tidings").options(url=server.url, startingOffsets="earliest")
        rows = stream.load("traffic").selectExpr("concat('copy/', road) AS _topic", "severity", "seen")
        query = (
            rows.writeStream.format("tidings")
            .options(url=stub.address, checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert published(stub) == [
            (f"copy/A{at}", {"severity": at, "seen": "2026-11-15T11:05:00Z"}) for at in range(3)
        ]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "mode", "reason"),
    [
        ("cast(1 AS decimal(9, 2)) AS depth", "append", "which no payload has"),
        ("1 AS depth", "overwrite", "cannot be overwritten"),
    ],
)
def test_what_cannot_be_published_is_refused(
    spark: SparkSession, columns: str, mode: str, reason: str
) -> None:
    rows = spark.range(1).selectExpr(columns)
    with pytest.raises(Exception, match=reason):
        rows.write.format("tidings").mode(mode).save("traffic")


def published(stub: Any) -> list[tuple[str, Any]]:
    import msgspec

    from tidings.mqtt import packets as p

    return [(one.topic, msgspec.json.decode(one.payload)) for one in stub.heard if isinstance(one, p.Publish)]


# In other sessions.


STOCK = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.python.filterPushdown.enabled": "false",
}
"""What Spark has where we have set something else."""


@pytest.mark.spark
def test_a_session_with_the_settings_of_spark_itself_reads_the_same(
    spark: SparkSession, server: LogServer
) -> None:
    """A session of others has none of our settings; the next test starts one in a process of its own."""
    server.publish("b1", *reports(5))
    stock = spark.newSession()
    for name, value in STOCK.items():
        stock.conf.set(name, value)
    rows = stock.read.format("tidings").option("url", server.url).load("traffic")
    assert rows.where("severity >= 2").count() == 3


@pytest.mark.spark
@pytest.mark.slow
def test_the_format_is_found_in_a_session_that_is_not_ours(server: LogServer, tmp_path: Path) -> None:
    """And reads there, although Spark's own setting for handing filters down is off."""
    server.publish("b1.1", *reports(5))
    program = f"""
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.read.format("tidings").option("url", {server.url!r}).load("traffic")
print("rows", rows.where("severity >= 2").count())
spark.stop()
"""
    told = subprocess.run(
        [sys.executable, "-c", program],
        # As where an environment is activated; nothing else is set for us.
        env={
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "rows 3" in told.stdout, told.stderr


@pytest.mark.parametrize("version", ["4.1.4", "4.0.5", "3.5.9"])
def test_an_older_spark_finds_the_format_and_is_told_what_is_needed(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module can be imported there: Spark imports all such modules to find the sources of others too."""
    import pyspark

    with monkeypatch.context() as older:
        older.setattr(pyspark, "__version__", version)
        found = importlib.reload(pyspark_tidings).DefaultSource
    importlib.reload(pyspark_tidings)
    assert found.name() == "tidings"
    with pytest.raises(SetupError, match=f"needs Spark 4.2 or newer, and this is {version}: pip install"):
        found(options={})


def test_the_oldest_spark_is_the_one_that_the_page_states(root: Path) -> None:
    oldest = ".".join(map(str, pyspark_tidings.OLDEST))
    assert f"It needs Spark {oldest}" in (root / "docs/connector.md").read_text(encoding="utf-8")
    assert pyspark_tidings.fault_of(f"{oldest}.0") is None


def test_our_session_hands_filters_down() -> None:
    from tidings.pipeline.session import ALWAYS

    assert ALWAYS["spark.sql.python.filterPushdown.enabled"] == "true"
