"""Rows to a network, without a session: where they go, what is said when they cannot, how long is waited."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tests.client.stub import Stub, in_a_thread
from tidings.errors import AccessError, InputError, NetworkError
from tidings.mqtt import packets as p
from tidings.mqtt.reasons import Reason
from tidings.pipeline.connector.options import write_options
from tidings.pipeline.connector.sink import BatchWriter

SCHEMA = StructType([StructField("n", LongType()), StructField("_topic", StringType())])


def write(address: str, rows: list[dict[str, Any]], **options: str) -> None:
    writer = BatchWriter(write_options({"url": address, "patience": "0", **options}), SCHEMA, False)
    table = pa.Table.from_pylist(rows, pa.schema([("n", pa.int64()), ("_topic", pa.string())]))
    writer.write(iter(table.to_batches()))


def published(stub: Stub) -> list[tuple[str, Any]]:
    return [(one.topic, msgspec.json.decode(one.payload)) for one in stub.heard if isinstance(one, p.Publish)]


def test_a_row_goes_to_its_own_topic_unless_the_option_names_one() -> None:
    """What was read from one topic and is written to another has the first in its column."""
    with in_a_thread() as stub:
        write(stub.address, [{"n": 1, "_topic": "read/from"}])
        write(stub.address, [{"n": 2, "_topic": "read/from"}], topic="written/to")
        assert published(stub) == [("read/from", {"n": 1}), ("written/to", {"n": 2})]


def test_a_row_without_a_topic_is_refused_before_any_is_published() -> None:
    with in_a_thread() as stub:
        with pytest.raises(InputError, match="a row has no _topic"):
            write(stub.address, [{"n": 1, "_topic": "t"}, {"n": 2, "_topic": None}])
        assert published(stub) == []


def test_what_the_network_refuses_is_raised_by_itself() -> None:
    """A group of errors, as many tasks raise them, would not say in Spark what is wrong."""
    with in_a_thread() as stub, pytest.raises(InputError, match="wildcard"):
        write(stub.address, [{"n": n, "_topic": "a/#"} for n in range(3)])


def test_a_broker_that_is_away_is_waited_for_while_there_is_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    with in_a_thread() as stub:
        address = stub.address
        with pytest.raises(NetworkError, match="not reached"):
            write("mqtt://127.0.0.1:1", [{"n": 1, "_topic": "t"}])
        stub.refuse_connect = (Reason.SERVER_UNAVAILABLE, "starting")
        pauses: list[float] = []

        def sleep(pause_s: float) -> None:
            pauses.append(pause_s)
            if len(pauses) == 3:
                stub.refuse_connect = None

        monkeypatch.setattr("tidings.pipeline.connector.sink.time.sleep", sleep)
        write(address, [{"n": 1, "_topic": "t"}], patience="1h")
        assert (len(pauses), published(stub)) == (3, [("t", {"n": 1})])


def test_a_wrong_password_is_not_tried_again() -> None:
    with in_a_thread() as stub:
        stub.refuse_connect = (Reason.BAD_USER_NAME_OR_PASSWORD, "")
        with pytest.raises(AccessError):
            write(stub.address, [{"n": 1, "_topic": "t"}], patience="1h")
