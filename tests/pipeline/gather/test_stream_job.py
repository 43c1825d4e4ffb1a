"""A stream as a job: it goes on where it was, tells each row once, and is not begun otherwise by mistake."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.client.log_server import LogServer
from tests.pipeline.gather.samples import of_machine, of_table
from tests.pipeline.gather.streams import KERNEL, reports, table
from tidings.errors import InputError, NetworkError, SetupError
from tidings.language.reports import Shape
from tidings.language.topics import Topic
from tidings.pipeline.gather import stream_job, streaming
from tidings.pipeline.gather.stream_job import BEGUN, LOCK, NO_EMPTY_BATCHES, Begun, Files, Follower, Log
from tidings.pipeline.locking import held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELAY_US = 1_000_000

KEPT = Topic.from_mapping(
    {
        "name": "road",
        "kind": "gathered",
        "key": ["place"],
        "merge_after": "2s",
        "redundant_for": "4s",
        "window": "1m",
        "keep_reports": "1d",
        "fields": {"place": {"type": "string"}, "severity": {"type": "int", "conflict": "max"}},
    }
)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of the tests, left as it was."""
    names = [*streaming.STATE_STORE, NO_EMPTY_BATCHES, "spark.sql.shuffle.partitions"]
    before = {name: spark.conf.get(name, None) for name in names}
    yield spark
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


class Place:
    """Folders of a stream."""

    def __init__(self, folder: Path) -> None:
        self.files, self.checkpoint, self.out = folder / "in", folder / "checkpoint", folder / "out"
        self.files.mkdir()

    def add(self, number: int, some: pa.Table) -> None:
        pq.write_table(some, self.files / f"{number:04}.parquet")

    def follower(self, topic: Topic = KERNEL, **given: Any) -> Follower:
        options = {"maxFilesPerTrigger": "1"}
        made = {"delay_us": DELAY_US, **given}
        return Follower(Files(self.files, options), [topic], self.checkpoint, self.out, **made)

    def told(self) -> pa.Table:
        return ds.dataset(self.out, format="parquet", partitioning=None).to_table()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.slow
@pytest.mark.spark
def test_runs_one_after_the_other_tell_what_the_machine_tells(session: SparkSession, place: Place) -> None:
    said = reports(KERNEL, 300)
    place.add(1, table(KERNEL, said[:100]))
    place.add(2, table(KERNEL, said[100:200]))
    first = place.follower(buckets=4)
    first.start(session, partitions=2, until_now=True).awaitTermination()
    shown = [one.num_rows for one in first.fresh()]
    assert sum(shown) == place.told().num_rows > 0
    first.close()
    place.add(3, table(KERNEL, said[200:]))
    # As one that died leaves it: told, and not committed.
    (place.out / "batch=9").mkdir()
    second = place.follower()
    assert second.buckets == 4
    second.start(session, partitions=2, until_now=True).awaitTermination()
    second.finish(session)
    lines, counts = of_machine(KERNEL, said)
    assert of_table(place.told()) == lines
    assert second.summary(session) == counts | {"late": 0}
    assert sum(one.num_rows for one in second.fresh()) == place.told().num_rows - sum(shown)
    with pytest.raises(InputError, match=r"is finished: its open events were told"):
        place.follower()


@pytest.mark.slow
@pytest.mark.spark
def test_a_quiet_stream_goes_on_with_the_clock(session: SparkSession, place: Place) -> None:
    shape = Shape(KEPT)
    said = [shape.report("road", {"place": "A1", "severity": 3}, report_id="1", at_us=0)]
    place.add(1, table(KEPT, said))
    follower = place.follower(KEPT, delay_us=0, idle_after_us=200_000, buckets=2)
    query = follower.start(session, partitions=2)
    states: list[str] = []
    # Tr is four seconds of the clock; that both are told at all is what is tested.
    while states.count("closed") < 1:
        assert not query.awaitTermination(1), query.exception()
        states += [state for one in follower.fresh() for state in one.column("state").to_pylist()]
    query.stop()
    assert states == ["told", "closed"]
    assert of_table(place.told()) == of_machine(KEPT, said)[0]


@pytest.mark.slow
@pytest.mark.spark
def test_kept_reports_of_a_network_are_gathered(session: SparkSession, place: Place) -> None:
    with LogServer(KEPT).serve() as server:
        for number, broker in enumerate(["b1", "b2", "b1"], 1):
            report = {"place": "A1", "severity": number}
            server.publish(f"{broker}.1", report, what="reports", report=f"{broker}:1:{number}")
        follower = Follower(Log(server.url), [KEPT], place.checkpoint, place.out, buckets=2)
        follower.start(session, partitions=2, until_now=True).awaitTermination()
        follower.finish(session)
        counts = follower.summary(session)
    assert (counts["received"], counts["opened"], counts["merged"]) == (3, 1, 2)
    # Nothing is missing in any of them, so each is told at once.
    told = max(
        (row for row in place.told().to_pylist() if row["state"] == "told"), key=lambda row: row["version"]
    )
    assert (told["event"], told["version"]) == ("b1:1:1", 3)
    assert told["fields"] == {"place": "A1", "severity": 3}


@pytest.mark.spark
def test_a_micro_batch_that_cannot_be_written_is_said_in_one_line(
    session: SparkSession, place: Place
) -> None:
    with pytest.raises(SetupError, match=r"^[^\n]*no more[^\n]*$"):
        stream_job._write(str(place.out), session.sql("SELECT raise_error('no more')"), 0)


@pytest.mark.slow
@pytest.mark.spark
def test_a_stream_that_is_stopped_in_the_middle_of_a_micro_batch_ends_with_one_line(
    session: SparkSession, place: Place
) -> None:
    place.add(1, pa.table({"n": [1]}))
    frame = session.readStream.schema("n long").parquet(f"file://{place.files}")
    endless = frame.selectExpr("reflect('java.lang.Thread', 'sleep', 60000L) AS slept")
    writer = endless.writeStream.foreachBatch(partial(stream_job._write, str(place.out)))
    query = writer.option("checkpointLocation", f"file://{place.checkpoint}").start()
    under_way = session.sparkContext.statusTracker()
    while not under_way.getActiveJobsIds():
        assert not query.awaitTermination(1), query.exception()
    query.stop()
    # Spark looks for an interrupt in what it is told. In pages its thread dies of that, and says no error.
    error = query.exception()
    assert error is not None
    assert re.search(r"^tidings\.errors\.SetupError: .+$", str(error), re.MULTILINE)
    assert re.search("Interrupted|cancelled", stream_job.said(error))


PLANNER = "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkPythonPreInitRunner"
"""Where a stream is stopped while it is planned, this one closes a socket that it has not opened."""


@pytest.mark.spark
def test_a_stream_that_is_stopped_while_it_is_planned_tells_no_error(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    assert jvm.org.apache.spark.util.Utils.classIsLoadable(PLANNER)
    loggers = jvm.org.apache.logging.log4j.LogManager
    assert not loggers.getLogger(PLANNER).isErrorEnabled()
    assert loggers.getLogger(PLANNER.rpartition(".")[0]).isErrorEnabled()


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ("An exception was raised\n  a.py\n tidings.errors.InputError: it is over.\n at b.c", "it is over"),
        ("An error occurred\n: org.apache.spark.SparkException: no space\n\tat b.c", "no space"),
    ],
)
def test_what_is_said_of_an_error_is_one_line(pages: str, said: str) -> None:
    assert stream_job.said(ValueError(pages)) == said


def begin(place: Place, **otherwise: Any) -> None:
    """Leave what a stream writes down when it begins."""
    said = Begun(
        source=f"files of {place.files}",
        out=str(place.out),
        topics=[json.loads(json.dumps(KERNEL.to_mapping()))],
        buckets=4,
        idle=False,
    )
    place.checkpoint.mkdir()
    told = {name: getattr(replace(said, **otherwise), name) for name in Begun.__dataclass_fields__}
    (place.checkpoint / BEGUN).write_text(json.dumps(told), encoding="utf-8")


@pytest.mark.parametrize(
    ("otherwise", "given", "says"),
    [
        ({}, {"buckets": 5}, "begun with buckets 4 and cannot go on with buckets 5"),
        ({"source": "files of /elsewhere"}, {}, "begun from files of /elsewhere and cannot go on from files"),
        ({"out": "/elsewhere"}, {}, "begun into /elsewhere and cannot go on into"),
        ({"idle": True}, {}, "begun with --idle-after, which cannot change"),
        ({}, {"idle_after_us": 1}, "begun without --idle-after, which cannot change"),
        (
            {"topics": [KERNEL.to_mapping() | {"redundant_for": "30s", "window": "2m"}]},
            {},
            "cannot go on under this declaration of 'road': redundant_for was 30s and is 20s; window was 2m",
        ),
        (
            {"topics": [KEPT.to_mapping() | {"name": "other"}]},
            {},
            "declaration of other and cannot go on under",
        ),
        ({"finished": True}, {}, "is finished"),
        ({"format": 7}, {}, "has format 7; this version of Tidings reads 2"),
    ],
)
def test_what_a_stream_was_begun_with_does_not_change(
    place: Place, otherwise: dict[str, Any], given: dict[str, Any], says: str
) -> None:
    place.add(1, table(KERNEL, reports(KERNEL, 1)))
    begin(place, **otherwise)
    with pytest.raises(InputError, match=says):
        place.follower(**given)


def test_a_stream_that_goes_on_has_the_buckets_it_was_begun_with(place: Place) -> None:
    place.add(1, table(KERNEL, reports(KERNEL, 1)))
    begin(place)
    assert place.follower().buckets == 4


@pytest.mark.spark
def test_a_stream_that_another_follows_or_that_has_no_place_is_not_begun(
    session: SparkSession, place: Place
) -> None:
    place.add(1, table(KERNEL, reports(KERNEL, 1)))
    begin(place)
    (place.out / "batch=0").mkdir(parents=True)
    other = place.follower()
    with held(place.checkpoint / LOCK, "", ""):
        with pytest.raises(InputError, match=rf"is being followed by process {os.getpid()} on .*; stop that"):
            other.start(session, partitions=2)
        assert (place.out / "batch=0").is_dir()
    place.out = place.files / "0001.parquet" / "out"
    with pytest.raises(SetupError, match="out cannot be made: Not a directory; name a folder that can be"):
        Follower(other.source, [KERNEL], place.files.parent / "new", place.out).start(session, partitions=2)


def test_folders_of_others_are_left_alone(place: Place) -> None:
    with pytest.raises(InputError, match="has no Parquet files"):
        place.follower()
    place.add(1, table(KERNEL, reports(KERNEL, 1)))
    place.out.mkdir()
    (place.out / "mine").touch()
    with pytest.raises(InputError, match="is not empty"):
        place.follower()
    (place.checkpoint / "offsets").mkdir(parents=True)
    with pytest.raises(InputError, match="is the checkpoint of another query"):
        place.follower()


def test_a_log_is_of_one_topic_that_keeps_its_reports(place: Place) -> None:
    with pytest.raises(InputError, match="'road' does not keep its reports"):
        Follower(Log("http://127.0.0.1:1"), [KERNEL], place.checkpoint, place.out)
    with pytest.raises(InputError, match="2 topics are declared, and a log is of one"):
        Follower(Log("http://127.0.0.1:1"), [KEPT, KEPT], place.checkpoint, place.out)


@pytest.mark.parametrize(
    ("url", "options", "error", "says"),
    [
        ("http://127.0.0.1:1", {"patience": "0"}, NetworkError, "http://127.0.0.1:1: Connection refused"),
        ("127.0.0.1:1", {}, InputError, "has no scheme; write http://127.0.0.1:1"),
        ("http://127.0.0.1:1", {"maxRows": "3"}, InputError, "there is no option 'maxRows'; did you mean"),
    ],
)
def test_a_log_that_cannot_be_read_is_said_before_spark_starts(
    place: Place, url: str, options: dict[str, str], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        Follower(Log(url, options), [KEPT], place.checkpoint, place.out)
