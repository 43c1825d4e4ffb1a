"""Rows of Spark as reports of a network: each is published with its filled columns, by an MQTT client.

A task publishes its rows in their order and has done its work when the network has acknowledged all of them.
A task that fails is run again, and so are its rows: a row is published at least once. On a gathered topic the
second time is redundant, and dropped there.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from tidings.client.log import Patience
from tidings.client.network import Network, connect
from tidings.errors import InputError, NetworkError
from tidings.language.names import name_fault
from tidings.pipeline.connector.options import Writing

if TYPE_CHECKING:
    import pyarrow as pa

    from tidings.client.blocking import BlockingNetwork

TOPIC_COLUMN = "_topic"
"""Where each row is published, unless the option `topic` says it: rows that were read have this column too,
and who writes them to another topic means that one."""

AT_ONCE = 500
"""Rows that wait for their acknowledgement together; the client has its own window below that."""

_PLAIN = (
    BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, StringType, DateType,
    TimestampType,
)  # fmt: skip


class Published(WriterCommitMessage):
    """What a task tells when all of its rows are acknowledged."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class _Writer:
    """What a batch and a stream have in common."""

    def __init__(self, options: Writing, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InputError('what was published cannot be overwritten; write .mode("append")')
        if options.topic is None:
            if TOPIC_COLUMN not in schema.fieldNames():
                raise InputError(
                    f'no topic is given; write .option("topic", …), or give rows a column {TOPIC_COLUMN}'
                )
        elif fault := name_fault(options.topic):
            raise InputError(f"{options.topic!r} cannot be published to: {fault}")
        for field in schema:
            if not field.name.startswith("_"):
                _check_type(field.name, field.dataType)
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish all rows of a partition; done when the last is acknowledged."""
        rows = 0
        with self._connected() as network:
            for batch in iterator:
                # A few at a time as Python objects, whatever the size of Spark's batches.
                for at in range(0, batch.num_rows, AT_ONCE):
                    some = batch.slice(at, AT_ONCE).to_pylist()
                    network.run(self._publish(network.network, some))
                    rows += len(some)
        return Published(rows)

    @contextmanager
    def _connected(self) -> Iterator[BlockingNetwork]:
        """A network to publish to; waits for a broker while there is patience."""
        access = self.options.access
        own = access.certificate
        patience = Patience(access.patience_s, time.sleep, time.monotonic)
        with ExitStack() as stack:
            while True:
                network = connect(
                    access.url,
                    user=access.user,
                    password=access.password,
                    authority=access.authority,
                    certificate=(own, access.key or own) if own else None,  # one file may hold both
                ).sync()
                try:
                    stack.enter_context(network)
                    break
                except NetworkError as error:
                    patience.wait_or_raise(error)
            yield network

    async def _publish(self, network: Network, rows: list[dict[str, Any]]) -> None:
        topics = [self.options.topic or row.get(TOPIC_COLUMN) for row in rows]
        if not all(topics):
            raise InputError(f"a row has no {TOPIC_COLUMN}; fill it in every row, or give the option topic")
        try:
            async with asyncio.TaskGroup() as group:
                for row, topic in zip(rows, topics, strict=True):
                    group.create_task(
                        network.publish(
                            str(topic),
                            report_of(row),
                            qos=self.options.qos,
                            timeout=self.options.access.patience_s or None,
                        )
                    )
        except ExceptionGroup as refused:
            # All of them are of one kind mostly, and Spark would show none of what a group holds.
            raise refused.exceptions[0] from None


class BatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write.format("tidings")`."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream.format("tidings")`."""


def report_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The filled fields of a row, without columns that begin with an underscore, which are the log's.

    >>> report_of({"road": "A1", "depth": None, "place": {"city": "Athens", "lat": None}, "_seq": 3})
    {'road': 'A1', 'place': {'city': 'Athens'}}
    """
    return {name: value for name, value in _filled(row).items() if not name.startswith("_")}


def _filled(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            value = _filled(value) or None
        if value is not None and not (isinstance(value, float) and math.isnan(value)):
            found[name] = value
    return found


def _check_type(name: str, kind: DataType) -> None:
    if isinstance(kind, StructType):
        for inner in kind:
            _check_type(f"{name}.{inner.name}", inner.dataType)
    elif isinstance(kind, ArrayType):
        _check_type(f"{name}[]", kind.elementType)
    elif not isinstance(kind, _PLAIN):
        raise InputError(
            f"the column {name} is {kind.simpleString()}, which no payload has; cast it to a string or a "
            "number, or leave it out"
        )
