"""The struct and the Arrow schema are one schema, and nothing is lost between them."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from types import NoneType
from typing import get_args

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.samples import WHOLE, row
from tidings.records.record import Kind, Record
from tidings.records.schema import arrow_schema, records_of
from tidings.records.tables import table_of

WRITTEN_DOWN = {
    "broker": ("string", False),
    "boot": ("int64", False),
    "n": ("int64", False),
    "at": ("int64", False),
    "kind": ("string", False),
    "topic": ("string", True),
    "message": ("string", True),
    "bytes": ("int64", True),
    "event": ("string", True),
    "version": ("int64", True),
    "report": ("string", True),
    "publisher": ("string", True),
    "client": ("string", True),
    "subscription": ("string", True),
    "link": ("string", True),
    "hops": ("int64", True),
    "latency_us": ("int64", True),
    "reason": ("string", True),
    "receivers": ("list<element: string not null>", False),
    "epoch": ("string", True),
}
"""What tables on disk hold. A field that changes here breaks those who read them."""


def test_the_schema_is_the_one_written_down() -> None:
    assert {field.name: (str(field.type), field.nullable) for field in arrow_schema()} == WRITTEN_DOWN


def test_struct_and_schema_have_the_same_fields_types_and_nullability() -> None:
    fields = msgspec.structs.fields(Record)
    assert [field.name for field in fields] == arrow_schema().names
    for field in fields:
        column = arrow_schema().field(field.name)
        inner = [one for one in get_args(field.type) if one is not NoneType]
        assert column.nullable is (NoneType in get_args(field.type)), field.name
        plain = inner[0] if column.nullable else field.type
        if plain is int:
            assert column.type == pa.int64(), field.name
        elif plain is str or issubclass(plain if isinstance(plain, type) else NoneType, StrEnum):
            assert column.type == pa.string(), field.name
        else:
            assert (plain, column.type.value_type) == (tuple[str, ...], pa.string()), field.name


def test_every_field_survives_the_way_through_a_table() -> None:
    assert all(getattr(WHOLE, name) not in (None, ()) for name in arrow_schema().names)
    assert list(records_of(table_of([WHOLE, row(1)]))) == [WHOLE, row(1)]


@given(
    st.lists(
        st.builds(
            Record,
            broker=st.text(min_size=1, max_size=5),
            boot=st.integers(0, 2**63 - 1),
            n=st.integers(0, 2**63 - 1),
            at=st.integers(-(2**63), 2**63 - 1),
            kind=st.sampled_from(Kind),
            topic=st.none() | st.text(max_size=5),
            bytes=st.none() | st.integers(0, 2**40),
            receivers=st.lists(st.text(max_size=3), max_size=3).map(tuple),
        ),
        max_size=5,
    )
)
def test_any_records_survive_the_way_through_a_table(records: list[Record]) -> None:
    table = table_of(records)
    table.validate(full=True)
    assert list(records_of(table)) == records


def test_a_table_that_lacks_columns_gives_defaults() -> None:
    older = table_of([WHOLE]).select(["broker", "boot", "n", "at", "kind"])
    assert list(records_of(older)) == [Record("b1", 3, 9, WHOLE.at, Kind.FORWARDED)]


@pytest.mark.parametrize("kind", Kind)
def test_kinds_are_words(kind: Kind) -> None:
    assert table_of([row(1, kind)])["kind"].to_pylist() == [kind.value]


def test_making_a_table_leaves_pandas_alone(root: Path) -> None:
    """It would take a second and 50 MB of every broker, where it is installed."""
    program = (
        "import sys\n"
        "from tests.records.samples import WHOLE, run\n"
        "from tidings.records.tables import table_of\n"
        "assert table_of([WHOLE, run(1, 2)]).num_rows == 3\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root)
