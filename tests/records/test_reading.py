"""Reading: closed segments, whole, in order, whatever else is in the folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.records.samples import WHOLE, row
from tidings.errors import InputError
from tidings.records import reading
from tidings.records.reading import read_records, read_table
from tidings.records.record import Kind, Record
from tidings.records.schema import arrow_schema
from tidings.records.segments import Segment, SegmentWriter, closed_segments
from tidings.records.tables import table_of


def written(folder: Path, *records: Record) -> None:
    writer = SegmentWriter(folder, records[0].broker, records[0].boot, rows_max=1)
    for record in records:
        writer.add(record)


def test_a_folder_that_is_not_there_has_no_records(tmp_path: Path) -> None:
    assert list(read_records(tmp_path / "nowhere")) == []
    table = read_table(tmp_path / "nowhere")
    assert (table.num_rows, table.schema) == (0, arrow_schema())


def test_all_brokers_of_a_folder_are_one_table(tmp_path: Path) -> None:
    written(tmp_path, row(1), row(2))
    written(tmp_path, WHOLE)
    written(tmp_path, row(1, broker="b2"))
    table = read_table(tmp_path)
    assert table.schema == arrow_schema()
    assert table["n"].to_pylist() == [1, 2, 9, 1]
    assert list(read_records(tmp_path)) == [row(1), row(2), WHOLE, row(1, broker="b2")]


def test_files_that_are_no_segments_are_left_alone(tmp_path: Path) -> None:
    written(tmp_path, row(1))
    (tmp_path / ".b1+00000000000000000001+0000000001.parquet.open").write_bytes(b"PAR1 half")
    (tmp_path / "notes.parquet").write_bytes(b"mine")
    assert list(read_records(tmp_path)) == [row(1)]


def test_a_segment_that_is_removed_meanwhile_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, row(1), row(2))

    def listed(folder: Path) -> list[Segment]:
        found = closed_segments(folder)
        found[0].path.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(reading, "closed_segments", listed)
    assert list(read_records(tmp_path)) == [row(2)]


def test_a_segment_of_an_older_release_has_defaults_for_what_it_did_not_know(tmp_path: Path) -> None:
    written(tmp_path, WHOLE)
    (segment,) = closed_segments(tmp_path)
    older = table_of([row(4, topic="t")]).select(["broker", "boot", "n", "at", "kind", "topic"])
    pq.write_table(older, segment.path)
    assert list(read_records(tmp_path)) == [Record("b1", 1, 4, 4000, Kind.PUBLISHED, topic="t")]
    assert read_table(tmp_path).schema == arrow_schema()


def test_a_broken_segment_is_named_with_the_way_out(tmp_path: Path) -> None:
    written(tmp_path, row(1))
    (segment,) = closed_segments(tmp_path)
    segment.path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"b1\+0+1\+0+\.parquet is not a Parquet file .* move it out"):
        read_table(tmp_path)
