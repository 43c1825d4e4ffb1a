"""Gather in a stream says what it says in batch, and goes on after a query that died."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from tests.pipeline.gather.samples import of_both, of_machine, of_table
from tests.pipeline.gather.streams import KERNEL, MACHINE, reports, table
from tidings.errors import InputError
from tidings.language.reports import Report
from tidings.language.topics import Topic
from tidings.pipeline.gather import counting, streaming
from tidings.pipeline.gather.frames import spark_schema
from tidings.pipeline.gather.layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DELAY_US = 1_000_000


@pytest.fixture
def stateful(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with the store that states need."""
    for name, value in streaming.STATE_STORE.items():
        spark.conf.set(name, value)
    yield spark
    for name in streaming.STATE_STORE:
        spark.conf.unset(name)


class Stream:
    """Files of reports, a query over them that takes one at a time, and what it has told."""

    def __init__(self, spark: SparkSession, folder: Path, topic: Topic) -> None:
        self.spark, self.folder = spark, folder
        self.number = 0
        (folder / "in").mkdir()
        self.declare(topic)

    def declare(self, topic: Topic) -> None:
        """What comes from now on is declared so."""
        self.topic, self.layout = topic, Layout(topic)

    def add(self, *pieces: list[Report]) -> None:
        for piece in pieces:
            self.number += 1
            pq.write_table(table(self.topic, piece), self.folder / "in" / f"{self.number:04}.parquet")

    def frame(self, buckets: int) -> DataFrame:
        schema = self.spark.read.parquet(f"file://{self.folder}/in/{self.number:04}.parquet").schema
        source = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return streaming.gather(
            source.parquet(f"file://{self.folder}/in"), self.layout, delay_us=DELAY_US, buckets=buckets
        )

    def run(self, buckets: int = 4) -> None:
        """Let a query take all that is there."""
        writer = (
            self.frame(buckets)
            .writeStream.format("parquet")
            .option("path", f"file://{self.folder}/out")
            .trigger(availableNow=True)
        )
        streaming.start(
            self.spark, f"file://{self.folder}/checkpoint", writer, self.layout, buckets=buckets
        ).awaitTermination()

    def told(self) -> pa.Table:
        """What Spark shows of it: files of batches that were not finished do not count."""
        reader = self.spark.read.schema(spark_schema(self.layout.told))
        return reader.parquet(f"file://{self.folder}/out").toArrow()

    def rest(self) -> pa.Table:
        made = streaming.finish(
            self.spark, f"file://{self.folder}/checkpoint", self.layout, delay_us=DELAY_US, buckets=4
        )
        return made.toArrow()


@pytest.mark.slow
@pytest.mark.parametrize("topic", [KERNEL, MACHINE], ids=["kernel", "machine"])
def test_a_stream_without_late_reports_says_what_the_machine_says(
    stateful: SparkSession, tmp_path: Path, topic: Topic
) -> None:
    said = reports(topic, 300)
    stream = Stream(stateful, tmp_path, topic)
    stream.add(said[:100][::-1], said[100:110])
    stream.run()
    before = stream.told().num_rows
    assert before
    stream.add(said[110:300])
    stream.run()  # another query, from the state of the first
    lines, counts = of_machine(topic, said)
    told = pa.concat_tables([stream.told(), stream.rest()])
    assert told.num_rows > before
    assert of_table(told) == lines
    assert counting.summary(told) == counts | {"late": 0}


@pytest.mark.parametrize(
    "topic", [KERNEL, pytest.param(MACHINE, marks=pytest.mark.slow)], ids=["kernel", "machine"]
)
def test_a_stream_goes_on_under_fields_in_another_order_and_one_more_and_is_refused_otherwise(
    stateful: SparkSession, tmp_path: Path, topic: Topic
) -> None:
    old = topic.to_mapping()
    fields = dict(reversed([*old["fields"].items()]))  # type: ignore[attr-defined]
    new = Topic.from_mapping(old | {"fields": fields | {"speed": {"type": "int"}}})
    said = reports(topic, 200)
    stream = Stream(stateful, tmp_path, topic)
    stream.add(said[:100][::-1])
    stream.run()
    stream.declare(new)
    stream.add(said[100:])
    commits = tmp_path / "checkpoint" / "commits"
    before = sorted(commits.iterdir())
    for otherwise, says in (
        (
            {"redundant_for": "30s"},
            "the stream of 'road' cannot go on: redundant_for was 20s and is 30s; give",
        ),
        ({"name": "street"}, "cannot go on: the topic was 'road' and is 'street'; give the declaration that"),
    ):
        stream.declare(Topic.from_mapping(new.to_mapping() | otherwise))
        with pytest.raises(InputError, match=says):
            stream.run()
        with pytest.raises(InputError, match=says):
            stream.rest()
    assert sorted(commits.iterdir()) == before
    stream.declare(new)
    stream.run()
    told = pa.concat_tables([stream.told(), stream.rest()])
    assert of_table(told) == of_both(topic, new, said, said[99].at_us - DELAY_US)
    # The state is of the later declaration now.
    stream.declare(Topic.from_mapping(old | {"unknown_fields": "drop"}))
    with pytest.raises(InputError, match=r"cannot go on: the field speed \(int\) is gone; give the"):
        stream.run()


@pytest.mark.slow
def test_late_reports_are_counted_and_none_is_lost(stateful: SparkSession, tmp_path: Path) -> None:
    said = reports(KERNEL, 120)
    stream = Stream(stateful, tmp_path, KERNEL)
    stream.add(said[40:120], said[:40])
    stream.run()
    counts = counting.summary(pa.concat_tables([stream.told(), stream.rest()]))
    assert (counts["received"], counts["late"]) == (120, 40)


@pytest.mark.slow
def test_a_stream_does_not_go_on_with_other_buckets(stateful: SparkSession, tmp_path: Path) -> None:
    stream = Stream(stateful, tmp_path, KERNEL)
    stream.add(reports(KERNEL, 20))
    stream.run(buckets=4)
    stream.add(reports(KERNEL, 30)[20:])
    with pytest.raises(InputError, match="begun with 4 buckets and cannot go on with 5"):
        stream.run(buckets=5)
    with pytest.raises(InputError, match="0 buckets are not from 1 to 64"):
        stream.frame(buckets=0)
    # Whoever does not start it by us is refused by the state.
    writer = stream.frame(buckets=5).writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", f"file://{tmp_path}/checkpoint").start()
    with pytest.raises(PySparkException, match="begun with 4 buckets and cannot go on with 5"):
        query.awaitTermination()


@pytest.mark.slow
def test_a_stream_goes_on_after_a_kill(stateful: SparkSession, tmp_path: Path, root: Path) -> None:
    said = reports(KERNEL, 300)
    stream = Stream(stateful, tmp_path, KERNEL)
    stream.add(*(said[begin : begin + 60] for begin in range(0, 300, 60)))
    program = [sys.executable, "-m", "tests.pipeline.gather.dying", str(tmp_path)]
    died = subprocess.run([*program, "2"], cwd=root, capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()[-2000:]
    went_on = subprocess.run([*program, "-1"], cwd=root, capture_output=True, check=False)
    assert went_on.returncode == 0, went_on.stderr.decode()[-2000:]
    told = stateful.read.parquet(f"file://{tmp_path}/out").drop("batch").toArrow()
    told = pa.concat_tables([told, stream.rest()])
    assert of_table(told) == of_machine(KERNEL, said)[0]
