"""Gathering a stream as a job: reports of files or of a network's log, to a folder of what is told.

This is the edge of gather in a stream. Each micro-batch that tells something is a folder `batch=N` of Parquet
files, which is replaced as a whole when Spark does it again: whoever stops or dies, every row is there once.
Beside Spark's checkpoint lies a file of ours that says what the stream was begun with, so that what cannot
change is refused before Spark starts. Signals and screens are not known here.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidings.errors import InputError, SetupError
from tidings.language.topics import Topic
from tidings.pipeline.connector.options import read_options
from tidings.pipeline.gather import batch, continuation, streaming
from tidings.pipeline.gather.engines import FORMAT
from tidings.pipeline.gather.frames import layout_of, spark_schema
from tidings.pipeline.gather.layout import Layout
from tidings.pipeline.locking import held
from tidings.pipeline.session import java_line
from tidings.pipeline.tables import reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BEGUN = "tidings.json"
"""The file in the checkpoint that says what the stream was begun with."""

LOCK = "tidings.lock"
"""The file in the checkpoint that the process holds that follows the stream."""

BUCKETS = 8
"""Unless told otherwise."""

IDLE_TRIGGER = "1 second"
"""How often a stream with a timer looks at it. Without a trigger Spark would do nothing but look."""

NO_EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
"""A stream with a timer has always something to look at; one that ends with what is there must not."""


@dataclass(frozen=True, slots=True)
class Files:
    """A folder that Parquet files come into, with the columns of a workload's `reports`."""

    folder: Path
    options: Mapping[str, str] = field(default_factory=dict)
    """Of Spark's stream of files, such as `maxFilesPerTrigger`."""

    @property
    def name(self) -> str:
        return f"files of {self.folder.absolute()}"

    @property
    def columns(self) -> dict[str, Any]:
        return {"report": "report", "at": "at", "fields": "fields", "topic": "topic"}

    def check(self, topics: Sequence[Topic]) -> None:
        """Before Spark starts."""
        if not topics:
            raise InputError("a stream is of declared topics; name one: --topic DECL")
        if not any(self.folder.glob("**/*.parquet")):
            raise InputError(
                f"{self.folder} has no Parquet files; a stream learns the columns of reports from the first, "
                "so begin when it is there"
            )

    def frame(self, spark: SparkSession, topics: Sequence[Topic]) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        address = f"file://{self.folder.absolute()}"
        with reading():
            schema = spark.read.parquet(address).schema
        frame = spark.readStream.schema(schema).options(**self.options).parquet(address)
        if "topic" not in frame.columns:
            return frame
        return frame.where(F.col("topic").isin([topic.name for topic in topics]))


@dataclass(frozen=True, slots=True)
class Log:
    """The kept reports of a topic of a live network."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the format `tidings` (docs/connector.md)."""

    @property
    def name(self) -> str:
        return "the log of a network"

    @property
    def columns(self) -> dict[str, Any]:
        return {"report": "_report", "at": "_at", "fields": None, "topic": "_topic"}

    def check(self, topics: Sequence[Topic]) -> None:
        """Before Spark starts."""
        if len(topics) != 1:
            raise InputError(f"{len(topics)} topics are declared, and a log is of one; give one --topic")
        (topic,) = topics
        if topic.gathering is not None and topic.gathering.keep_reports_us is None:
            raise InputError(
                f"{topic.name!r} does not keep its reports; declare keep_reports, or follow a folder of files"
            )
        # The same question that Spark will ask, whose answer would come out of the depth of Java.
        asked = read_options({**self._given, "topic": topic.name}, streaming=True)
        asked.access.reader().about(asked.topic, asked.what)

    def frame(self, spark: SparkSession, topics: Sequence[Topic]) -> DataFrame:
        return spark.readStream.format("tidings").options(**self._given).load(topics[0].name)

    @property
    def _given(self) -> dict[str, str]:
        return {"url": self.url, "what": "reports", "startingOffsets": "earliest", **self.options}


@dataclass(frozen=True, slots=True)
class Begun:
    """What a stream was begun with and cannot change."""

    source: str
    out: str
    topics: list[dict[str, Any]]
    """Their first declarations; the state has those under which it was written last."""

    buckets: int
    idle: bool
    """Whether it moves on when nothing comes; after how long may change."""

    finished: bool = False
    format: int = FORMAT


class Follower:
    """A stream from a source into a folder, with its checkpoint."""

    def __init__(
        self,
        source: Files | Log,
        topics: Sequence[Topic],
        checkpoint: Path,
        out: Path,
        *,
        delay_us: int = 0,
        buckets: int | None = None,
        idle_after_us: int | None = None,
    ) -> None:
        """InputError if it was begun otherwise; `buckets` is as then, or 8."""
        source.check(topics)
        self.source = source
        self.topics = list(topics)
        self.checkpoint = checkpoint.absolute()
        self.out = out.absolute()
        self.delay_us = delay_us
        self.idle_after_us = idle_after_us
        had = _read(self.checkpoint)
        wanted = Begun(
            source=source.name,
            out=str(self.out),
            topics=[json.loads(json.dumps(topic.to_mapping())) for topic in topics],
            buckets=buckets or (BUCKETS if had is None else had.buckets),
            idle=idle_after_us is not None,
        )
        if had is None:
            if self.out.exists() and any(self.out.iterdir()):
                raise InputError(f"{self.out} is not empty; a new stream is told into a folder of its own")
        else:
            _check(had, wanted, self.checkpoint)
        self._begun = had or wanted
        self._seen = -1
        self._layout: Layout | None = None
        self._holding = ExitStack()

    @property
    def layout(self) -> Layout:
        """Known once the stream has been started."""
        assert self._layout is not None, "the stream has been started"
        return self._layout

    @property
    def buckets(self) -> int:
        return self._begun.buckets

    def start(self, spark: SparkSession, *, partitions: int, until_now: bool = False) -> StreamingQuery:
        """Start the query, on so many tasks; with `until_now` it ends with what is there.

        InputError if another process follows the stream: of two, each would remove what the other tells. Also
        if it went on under a later declaration, and cannot go back to this one.
        """
        for name, value in streaming.STATE_STORE.items():
            spark.conf.set(name, value)
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        frame = self.source.frame(spark, self.topics)
        columns = self.source.columns
        self._layout = layout_of(frame, self.topics, report=columns["report"])
        told = streaming.gather(
            frame,
            self._layout,
            delay_us=self.delay_us,
            buckets=self.buckets,
            idle_after_us=self.idle_after_us,
            **columns,
        )
        self._begin()
        writer = told.writeStream.foreachBatch(partial(_write, str(self.out)))
        if until_now:
            spark.conf.set(NO_EMPTY_BATCHES, "false")
            writer = writer.trigger(availableNow=True)
        elif self.idle_after_us is not None:
            writer = writer.trigger(processingTime=IDLE_TRIGGER)
        return streaming.start(spark, f"file://{self.checkpoint}", writer, self.layout, buckets=self.buckets)

    def finish(self, spark: SparkSession) -> None:
        """Tell all that the query has kept, as if all clocks ran out; the stream is over then."""
        rest = streaming.finish(
            spark,
            f"file://{self.checkpoint}",
            self.layout,
            delay_us=self.delay_us,
            buckets=self.buckets,
        )
        _write(str(self.out), rest, _last(self.checkpoint) + 1)
        self._write_begun(replace(self._begun, finished=True))

    def fresh(self) -> Iterator[pa.Table]:
        """What micro-batches have told that this was not asked for yet, one after the other."""
        done = _batches(self.out)
        for number in sorted(done):
            if number > self._seen:
                self._seen = number
                yield ds.dataset(done[number], format="parquet").to_table()

    def summary(self, spark: SparkSession) -> dict[str, int]:
        """What was told so far, by all runs, in numbers; events that are still open are not among them."""
        done = _batches(self.out)
        if not done:
            told = spark.createDataFrame(self.layout.told.empty_table())
        else:
            # Micro-batches of an earlier declaration may have fewer fields.
            reader = spark.read.schema(spark_schema(self.layout.told))
            told = reader.parquet(*(f"file://{done[number]}" for number in sorted(done)))
        (row,) = batch.summary(told, self.layout).toArrow().to_pylist()
        return dict(row)

    def close(self) -> None:
        """When the query is over: another may go on."""
        self._holding.close()

    def _begin(self) -> None:
        """Write down what it is begun with, and remove what Spark has not committed and will do again."""
        for folder in (self.checkpoint, self.out):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SetupError(
                    f"{folder} cannot be made: {error.strerror}; name a folder that can be written to"
                ) from error
        self._holding.enter_context(
            held(
                self.checkpoint / LOCK,
                f"the stream of {self.checkpoint} is being followed",
                "stop that one, or begin with another checkpoint",
            )
        )
        if (had := _read(self.checkpoint)) is not None:
            # Another may have begun or finished it before the lock was ours.
            _check(had, self._begun, self.checkpoint)
            self._begun = had
        self._write_begun(self._begun)
        last = _last(self.checkpoint)
        for folder in self.out.glob("batch=*"):
            if int(folder.name.partition("=")[2]) > last:
                shutil.rmtree(folder)
        self._seen = last

    def _write_begun(self, begun: Begun) -> None:
        draft = self.checkpoint / f".{BEGUN}"
        draft.write_text(json.dumps(asdict(begun), ensure_ascii=False, indent=1), encoding="utf-8")
        draft.replace(self.checkpoint / BEGUN)


def said(error: Exception) -> str:
    """What an error of ours says, out of the pages of Java and Python around it; else that of the JVM."""
    for line in reversed(str(error).splitlines()):
        name, colon, text = line.strip().partition(": ")
        if colon and name.startswith("tidings.errors."):
            return text.rstrip(".")
    return java_line(error)


def _write(out: str, frame: DataFrame, number: int) -> None:
    """Write what one micro-batch tells; one that tells nothing leaves nothing."""
    folder = Path(out) / f"batch={number}"
    try:
        frame.write.mode("overwrite").option("compression", "zstd").parquet(f"file://{folder}")
    except (Py4JError, PySparkException) as error:
        # One line and not the pages: Spark looks in them for an interrupt, by a regular expression that takes
        # some of Java's stack for each character, and a stop would end in its overflow.
        raise SetupError(said(error)) from None
    if not ds.dataset(folder, format="parquet").count_rows():
        shutil.rmtree(folder)


def _batches(out: Path) -> dict[int, Path]:
    """The micro-batches that are written whole."""
    return {int(done.parent.name.partition("=")[2]): done.parent for done in out.glob("batch=*/_SUCCESS")}


def _last(checkpoint: Path) -> int:
    """The last micro-batch that Spark has committed."""
    return max((int(file.name) for file in (checkpoint / "commits").glob("[0-9]*")), default=-1)


def _read(checkpoint: Path) -> Begun | None:
    file = checkpoint / BEGUN
    if not file.is_file():
        if (checkpoint / "offsets").is_dir():
            raise InputError(f"{checkpoint} is the checkpoint of another query; give a folder of its own")
        return None
    said = json.loads(file.read_text(encoding="utf-8"))
    if said.get("format") != FORMAT:
        raise InputError(
            f"{file} has format {said.get('format')}; this version of Tidings reads {FORMAT}. Let the one "
            "that wrote it finish the stream, or begin with another checkpoint"
        )
    return Begun(**said)


def _check(had: Begun, wanted: Begun, checkpoint: Path) -> None:
    if had.finished:
        raise InputError(
            f"the stream of {checkpoint} is finished: its open events were told as if nothing more came; "
            "begin with another checkpoint"
        )
    for what, before, now in (
        ("from", had.source, wanted.source),
        ("into", had.out, wanted.out),
        ("with buckets", had.buckets, wanted.buckets),
        ("under the declaration of", _names(had), _names(wanted)),
    ):
        if before != now:
            raise InputError(
                f"the stream of {checkpoint} was begun {what} {before} and cannot go on {what} {now}; give "
                "the same, or begin with another checkpoint"
            )
    if had.idle != wanted.idle:
        raise InputError(
            f"the stream of {checkpoint} was begun {'with' if had.idle else 'without'} --idle-after, which "
            "cannot change; begin with another checkpoint"
        )
    declared = {str(topic["name"]): Topic.from_mapping(topic) for topic in wanted.topics}
    for topic in had.topics:
        old = Topic.from_mapping(topic, f"the declaration in {checkpoint / BEGUN}")
        if found := continuation.breaks(old, declared[old.name]):
            raise InputError(
                f"the stream of {checkpoint} cannot go on under this declaration of {old.name!r}: "
                f"{'; '.join(found)}; {continuation.WAY_OUT}"
            )


def _names(begun: Begun) -> str:
    return ", ".join(sorted(str(topic["name"]) for topic in begun.topics))
