"""The format `tidings` for Spark: a topic's log as a table, or as a stream; and rows back into the network.

    spark.read.format("tidings").option("url", "http://broker:9883").load("traffic/athens")

It reads the log over HTTP, in ranges of numbers of one holder each, so that a range can be read again and is
the same. Rows travel as Arrow batches from the broker to Spark's own columns. An offset is {holder: next
number}. A broker that is away makes a query wait, and then fail; it is never passed over. Nothing here knows
how a broker keeps its log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidings.client.log import About
from tidings.errors import DataLost, InputError
from tidings.pipeline.connector import filter_pushdown
from tidings.pipeline.connector.offsets import (
    EARLIEST,
    LATEST,
    Bound,
    Offsets,
    admitted,
    bounded,
    check_kept,
    check_names,
    check_order,
    forgiven,
    ordered,
    ranges,
    resolved,
)
from tidings.pipeline.connector.options import Reading, read_options, write_options
from tidings.pipeline.connector.sink import BatchWriter, StreamWriter
from tidings.records.holders import Held

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceWriter, Filter

NAME = "tidings"


class TidingsSource(DataSource):
    """What Spark makes for `format("tidings")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """The declared fields of the topic, and our columns behind them."""
        # Whether a stream asks or a batch is not known yet; the options of either will be checked then.
        options = {name: value for name, value in self.options.items() if name.lower() not in _OF_ONE_MODE}
        return spark_schema(_about(read_options(options, streaming=False)).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, streaming=False)
        about = _about(options)
        filter_pushdown.check(options.where, about.form.fields)
        columns = _columns(about, schema)
        return PushingReader(options, columns, about) if options.pushdown else BatchReader(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = read_options(self.options, streaming=True)
        about = _about(options)
        filter_pushdown.check(options.where, about.form.fields)
        return StreamReader(options, _columns(about, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(write_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        return StreamWriter(write_options(self.options), schema, overwrite)


_OF_ONE_MODE = ("startingoffsets", "endingoffsets", "maxrowsperbatch")


class Range(InputPartition):
    """Entries of one holder, read by one task."""

    def __init__(self, holder: str, start: int, stop: int) -> None:
        super().__init__(None)
        self.holder = holder
        self.start = start
        self.stop = stop


class BatchReader(DataSourceReader):
    """A read of what there is between two offsets."""

    def __init__(self, options: Reading, columns: pa.Schema) -> None:
        self.options = options
        self.columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        options = self.options
        since, until = _numbers(options, options.start), _numbers(options, options.stop)
        about = options.access.reader().whole(options.topic, options.what, since=since, until=until)
        start = resolved("startingOffsets", options.start, about.holders, since)
        stop = resolved("endingOffsets", options.stop, about.holders, until, LATEST)
        if options.fail_on_data_loss:
            check_kept(start, about.holders)
            check_kept(stop, about.holders)
        else:
            start, stop = forgiven(start, about.holders), forgiven(stop, about.holders)
        check_order(start, stop)
        return [Range(*one) for one in ranges(start, stop, options.rows_per_partition)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows(self.options, self.columns, partition)


class PushingReader(BatchReader):
    """The same, for sessions in which Spark hands filters down (`spark.sql.python.filterPushdown.enabled`).

    It is a class of its own: in other sessions Spark refuses every reader that has `pushFilters`.
    """

    def __init__(self, options: Reading, columns: pa.Schema, about: About) -> None:
        super().__init__(options, columns)
        self._fields = about.form.fields

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        taken, left = filter_pushdown.split(filters, self._fields, self.options.where)
        self.options = filter_pushdown.narrowed(self.options, taken)
        yield from left


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of what comes into the log."""

    def __init__(self, options: Reading, columns: pa.Schema) -> None:
        self.options = options
        self.columns = columns
        self._target: tuple[Held, ...] | None = None
        """Where the log ended when a run of availableNow began."""
        self._latest: Offsets | None = None

    def initialOffset(self) -> Offsets:  # noqa: N802
        options = self.options
        if options.start == EARLIEST:
            # One that is away now enters later, at its first entry.
            return resolved("startingOffsets", EARLIEST, self._about((), {}).holders)
        since = _numbers(options, options.start)
        if options.start == LATEST:
            about = options.access.reader().about(options.topic, options.what)
            since = resolved("startingOffsets", LATEST, about.holders)
        return resolved("startingOffsets", options.start, self._about(None, since).holders, since)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """How far the next micro-batch goes. Waits for brokers that are away, and then fails."""
        check_names(start)
        needed = {*start, *(one.holder for one in self._target or ())}
        holders = self._about(needed, start).holders
        self._latest = ordered({one.holder: one.next for one in holders})
        if self.options.fail_on_data_loss:
            check_kept(start, holders)
        if self._target is not None:
            holders = bounded(holders, self._target, start)
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return admitted(start, holders, rows_max)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        rows = self.options.rows_per_batch
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        return self._latest

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        # Where each begins is not known yet: `latestOffset` asks whether a deputy has that.
        about = self.options.access.reader().about(self.options.topic, self.options.what)
        since = {one.holder: one.first for one in about.holders}
        self._target = self._about(None, since).holders

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        check_names(end)
        if not self.options.fail_on_data_loss:
            start = forgiven(start, self._about(start, start).holders)
        return [Range(*one) for one in ranges(start, end, self.options.rows_per_partition)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows(self.options, self.columns, partition)

    def _about(self, needed: Collection[str] | None, since: Mapping[str, int] | None) -> About:
        """What there is, with none of these holders away, or with none at all, and read from there on."""
        return self.options.access.reader().whole(self.options.topic, self.options.what, needed, since)


def spark_schema(columns: pa.Schema) -> StructType:
    """The columns of a log as Spark names their types."""
    return StructType([StructField(column.name, _spark_type(column.type)) for column in columns])


def _spark_type(kind: pa.DataType) -> DataType:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return StructType([StructField(inner.name, _spark_type(inner.type)) for inner in kind])
    if pa.types.is_list(kind):
        return ArrayType(_spark_type(kind.value_type))
    if pa.types.is_timestamp(kind):
        return TimestampType()
    return {
        pa.string(): StringType(),
        pa.int64(): LongType(),
        pa.float64(): DoubleType(),
        pa.bool_(): BooleanType(),
        pa.binary(): BinaryType(),
    }[kind]


def _about(options: Reading) -> About:
    return options.access.reader().about(options.topic, options.what)


def _columns(about: About, schema: StructType) -> pa.Schema:
    """The columns that Spark asks for, in its order; all of them, unless the user gave a schema."""
    import pyarrow as pa

    there = about.schema
    types = {field.name: field.dataType for field in spark_schema(there)}
    for field in schema:
        if field.name not in types:
            raise InputError(
                f"the topic {about.topic!r} has no column {field.name!r}; it has {', '.join(types)}"
            )
        if field.dataType != types[field.name]:
            raise InputError(
                f"the column {field.name!r} is {types[field.name].simpleString()}, not "
                f"{field.dataType.simpleString()}; leave the schema out, and cast after reading"
            )
    return pa.schema([there.field(field.name) for field in schema])


def _numbers(options: Reading, bound: Bound) -> Offsets | None:
    """What a bound says of single holders: itself, or their answer for a time; None for words."""
    if isinstance(bound, int):
        return options.access.reader().at(options.topic, options.what, bound)
    return bound if isinstance(bound, dict) else None


def _rows(options: Reading, columns: pa.Schema, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a range, whole or with an error."""
    if not isinstance(partition, Range):
        return  # Spark's own, where there is nothing to read
    start = partition.start
    while start < partition.stop:
        try:
            for batch in options.access.reader().read(
                options.topic, options.what, partition.holder, start, partition.stop, options.where
            ):
                yield _conformed(batch, columns)
            return
        except DataLost as error:
            if options.fail_on_data_loss or error.first is None or error.first <= start:
                raise
            # It was dropped between planning and reading, and the user takes what there is.
            start = error.first


def _conformed(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """A batch with exactly these columns. One that was declared since is left out; one that is declared no
    more is null.
    """
    import pyarrow as pa

    if batch.schema.equals(columns):
        return batch
    found: list[Any] = []
    for column in columns:
        at = batch.schema.get_field_index(column.name)
        fits = at >= 0 and batch.schema.field(at).type == column.type
        found.append(batch.column(at) if fits else pa.nulls(batch.num_rows, column.type))
    return pa.RecordBatch.from_arrays(found, schema=columns)
