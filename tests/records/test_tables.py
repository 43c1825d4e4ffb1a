"""A run is the records it stands for, whatever stands around it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.samples import WHOLE, row, run
from tidings.records.reading import read_table
from tidings.records.record import Kind, Receivers, Record, Run
from tidings.records.schema import arrow_schema
from tidings.records.segments import SegmentWriter, write_table
from tidings.records.tables import Columns, table_of

INTEGERS = st.integers(-(2**40), 2**40)
NAMES = st.text(max_size=3)
LISTS = st.lists(NAMES, max_size=3).map(tuple)

Value = TypeVar("Value")


@st.composite
def runs(draw: st.DrawFn) -> Run:
    numbers = draw(
        st.lists(st.integers(0, 2**62), max_size=4) | st.builds(range, st.just(7), st.integers(7, 12))
    )
    rows = len(numbers)
    topics = draw(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=3))
    places = st.integers(0, len(topics) - 1)
    return Run(
        draw(NAMES),
        draw(st.integers(0, 2**40)),
        draw(st.integers(0, 2**40)),
        draw(INTEGERS),
        draw(st.sampled_from(Kind)),
        [topic for topic, _ in topics],
        [publisher for _, publisher in topics],
        draw(NAMES),
        numbers,
        draw(st.lists(st.integers(0, 2**40), min_size=1, max_size=1) | _each(rows, st.integers(0, 2**40))),
        draw(st.booleans()),
        draw(st.none() | NAMES),
        draw(st.none() | INTEGERS),
        draw(st.just([]) | st.lists(INTEGERS, min_size=1, max_size=1) | _each(rows, INTEGERS)),
        draw(st.none() | NAMES),
        draw(st.lists(LISTS, min_size=1, max_size=1) | _each(rows, LISTS) | _each(rows, LISTS).map(numbered)),
        draw(st.none() | NAMES),
        draw(st.lists(places, min_size=1, max_size=1) | _each(rows, places)),
    )


def numbered(lists: list[tuple[str, ...]]) -> Receivers:
    """Lists as numbers of names."""
    names = list(dict.fromkeys(name for some in lists for name in some))
    numbers = [names.index(name) for some in lists for name in some]
    ends = np.cumsum([len(some) for some in lists])
    return Receivers(names, np.array(numbers, dtype=np.int64), ends.astype(np.int64))


def _each(rows: int, values: st.SearchStrategy[Value]) -> st.SearchStrategy[list[Value]]:
    return st.lists(values, min_size=rows, max_size=rows)


def records() -> st.SearchStrategy[Record]:
    return st.just(WHOLE) | st.builds(row, st.integers(0, 9), topic=st.none() | NAMES, receivers=LISTS)


def one_by_one(rows: list[Record | Run]) -> list[Record]:
    return [record for one in rows for record in (one.records() if isinstance(one, Run) else (one,))]


@given(st.lists(records() | runs(), max_size=8))
def test_a_table_of_runs_and_records_is_that_of_the_records_they_stand_for(rows: list[Record | Run]) -> None:
    table = table_of(rows)
    table.validate(full=True)
    assert table.equals(table_of(one_by_one(rows)), check_metadata=True)


@given(st.lists(runs(), max_size=6))
def test_what_is_packed_for_writing_says_the_same(rows: list[Run]) -> None:
    columns = Columns()
    columns.add(rows)
    file = BytesIO()
    write_table(columns.packed(), file)
    read = pq.read_table(BytesIO(file.getvalue()))
    assert read.equals(table_of(rows))
    assert read.schema.equals(arrow_schema(), check_metadata=True)


def test_many_turns_between_runs_and_records_do_not_change_their_order() -> None:
    rows: list[Record | Run] = []
    for n in range(0, 900, 3):
        rows += [row(n), run(n + 1, 2, [("s1",), ()])]
    assert table_of(rows).equals(table_of(one_by_one(rows)))


@given(st.lists(st.lists(records() | runs(), max_size=4), max_size=4))
def test_portions_do_not_show_in_the_table(portions: list[list[Record | Run]]) -> None:
    columns = Columns()
    for portion in portions:
        columns.add(portion)
    assert columns.table().equals(table_of([one for portion in portions for one in portion]))


@given(
    rows=st.lists(records() | runs(), max_size=6), rows_max=st.integers(1, 7), bytes_max=st.integers(1, 9_000)
)
def test_runs_are_read_back_from_segments_as_records(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Record | Run], rows_max: int, bytes_max: int
) -> None:
    folder: Path = tmp_path_factory.mktemp("records")
    writer = SegmentWriter(folder, "b1", 1, rows_max=rows_max, bytes_max=bytes_max)
    for one in rows:
        writer.add(one)
    writer.close()
    assert read_table(folder).equals(table_of(one_by_one(rows)))
    assert writer.rows_written == len(one_by_one(rows))


@given(st.lists(LISTS, max_size=6), st.integers(0, 6), st.integers(0, 6))
def test_receivers_as_numbers_are_the_lists_that_they_stand_for(
    lists: list[tuple[str, ...]], first: int, end: int
) -> None:
    receivers = numbered(lists)
    assert list(receivers) == lists
    assert list(receivers[first:end]) == lists[first:end]


def test_names_that_receivers_are_numbers_of_may_grow() -> None:
    names = ["a", "b"]
    first = Receivers(names, np.array([1, 0, 1]), np.array([2, 3]))
    columns = Columns()
    columns.add([run(0, 2, receivers=first)])
    names.append("c")
    columns.add([run(2, 2, receivers=Receivers(names, np.array([2, 0]), np.array([1, 2])))])
    assert columns.table()["receivers"].to_pylist() == [["b", "a"], ["b"], ["c"], ["a"]]


def test_names_may_grow_while_they_are_looked_at() -> None:
    class Growing(list[str]):
        """As a list is that another thread appends to."""

        def __getitem__(self, at: Any) -> Any:
            found = super().__getitem__(at)
            if isinstance(at, slice):
                self.append("late")
            return found

    columns = Columns()
    columns.add([run(0, 2, receivers=Receivers(Growing(["a", "b"]), np.array([1, 0]), np.array([1, 2])))])
    assert columns.table()["receivers"].to_pylist() == [["b"], ["a"]]
