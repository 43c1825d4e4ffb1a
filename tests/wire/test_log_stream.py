"""The stream of a log's rows: a whole one is told from any part of it."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from tidings.errors import NetworkError
from tidings.wire.log_stream import StreamWriter, read

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"a": value, "b": f"v{value}"} for value in values], schema=SCHEMA)


def whole() -> bytes:
    writer = StreamWriter(SCHEMA)
    return writer.batch(batch(1, 2), 2) + writer.batch(batch(), 5) + writer.batch(batch(3), 6) + writer.end(6)


def test_what_is_written_is_read_with_the_numbers_that_follow() -> None:
    found = [(part.column("a").to_pylist(), following) for part, following in read(io.BytesIO(whole()))]
    assert found == [([1, 2], 2), ([], 5), ([3], 6), ([], 6)]


def test_any_reader_of_arrow_streams_gets_the_rows() -> None:
    assert pa.ipc.open_stream(whole()).read_all().column("a").to_pylist() == [1, 2, 3]


def test_every_part_of_a_stream_is_known_to_be_cut() -> None:
    data = whole()
    # Behind the last batch Arrow writes eight bytes of its own; without them it is whole all the same.
    for size in range(len(data) - 8):
        with pytest.raises(NetworkError, match="cut off"):
            list(read(io.BytesIO(data[:size])))


def test_a_sender_that_cannot_go_on_says_why() -> None:
    writer = StreamWriter(SCHEMA)
    data = writer.batch(batch(1), 1) + writer.fault("the disk is gone")
    parts = read(io.BytesIO(data))
    assert next(parts)[1] == 1
    with pytest.raises(NetworkError, match="the disk is gone"):
        next(parts)


def test_an_arrow_stream_of_others_is_refused() -> None:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(batch(1))
    with pytest.raises(NetworkError, match="no log of a broker"):
        list(read(io.BytesIO(sink.getvalue())))
