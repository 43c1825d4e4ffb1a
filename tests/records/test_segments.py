"""Segments: whole files or none, bounded in rows, bytes, age and disk."""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.samples import row, run, say_format
from tidings.errors import InputError
from tidings.records import segments
from tidings.records.reading import read_records
from tidings.records.record import Receivers
from tidings.records.segments import Segment, SegmentWriter, closed_segments, safe_name


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_records_are_readable_once_their_segment_is_closed(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "b1", 1)
    writer.add(row(1))
    assert list(read_records(tmp_path)) == []
    writer.close()
    assert list(read_records(tmp_path)) == [row(1)]
    assert writer.rows_written == 1


def test_closing_with_nothing_in_it_leaves_no_file(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "b1", 1)
    writer.close_segment()
    writer.close()
    assert files(tmp_path) == []


def test_a_segment_is_closed_when_it_has_its_rows(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "b1", 1, rows_max=3)
    for n in range(7):
        writer.add(row(n))
    assert [pq.read_metadata(one.path).num_rows for one in closed_segments(tmp_path)] == [3, 3]
    assert [one.n for one in read_records(tmp_path)] == [0, 1, 2, 3, 4, 5]


def test_many_receivers_fill_a_segment_as_many_rows_do(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "b1", 1, bytes_max=100_000)
    writer.add(row(1))
    writer.add(row(2, receivers=tuple(f"session-{number}" for number in range(2_000))))
    assert len(closed_segments(tmp_path)) == 1


def test_a_run_is_divided_where_a_segment_is_full(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "b1", 1, rows_max=3)
    writer.add(row(0))
    writer.add(run(1, 7))
    writer.close()
    assert [pq.read_metadata(one.path).num_rows for one in closed_segments(tmp_path)] == [3, 3, 2]
    assert list(read_records(tmp_path)) == [row(0), *run(1, 7).records()]


def test_a_run_of_several_topics_is_divided_with_them(tmp_path: Path) -> None:
    mixed = msgspec.structs.replace(
        run(1, 7), topics=("t", "u"), publishers=("c1", "c2"), which=array("i", [0, 1, 1, 0, 1, 0, 1])
    )
    writer = SegmentWriter(tmp_path, "b1", 1, rows_max=3)
    writer.add(row(0))
    writer.add(mixed)
    writer.close()
    found = list(read_records(tmp_path))
    assert found == [row(0), *mixed.records()]
    assert [(one.topic, one.message) for one in found[1:4]] == [
        ("t", "b1:1:b1:1"),
        ("u", "b1:1:b1:2"),
        ("u", "b1:1:b1:3"),
    ]


def test_receivers_of_a_run_count_for_each_of_its_rows(tmp_path: Path) -> None:
    everyone = tuple(f"session-{number}" for number in range(1_000))
    writer = SegmentWriter(tmp_path, "b1", 1, bytes_max=400_000)
    writer.add(run(1, 10, [everyone]))
    writer.add(run(11, 4, [everyone, (), (), everyone]))
    writer.close()
    assert [pq.read_metadata(one.path).num_rows for one in closed_segments(tmp_path)] == [5, 5, 4]


def test_long_topics_fill_a_segment_as_many_rows_do(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "b1", 1, bytes_max=500_000)
    long = "t" * 65_000
    writer.add(msgspec.structs.replace(run(1, 20), topics=(long,)))
    for n in range(21, 41):
        writer.add(row(n, topic=long))
    assert len(closed_segments(tmp_path)) == 5


def test_one_long_topic_among_many_does_not_count_for_all_rows(tmp_path: Path) -> None:
    topics = [f"t/{at}" for at in range(1_000)]
    for some in (topics, [*topics[:-1], "t" * 16_000]):
        writer = SegmentWriter(tmp_path, "b1", 1, bytes_max=500_000)
        publishers = ["c1"] * len(some)
        writer.add(
            msgspec.structs.replace(
                run(1, 1_000), topics=some, publishers=publishers, which=array("i", range(1_000))
            )
        )
        assert len(closed_segments(tmp_path)) == 0


def test_others_are_let_run_between_portions_of_the_work(tmp_path: Path) -> None:
    rests: list[int] = []
    writer = SegmentWriter(tmp_path, "b1", 1, rest=lambda: rests.append(1))
    for n in range(0, 20_000, 2):
        writer.add(row(n))
        writer.add(run(n + 1, 1))
    writer.add(run(20_000, 20_000))
    writer.close()
    assert len(rests) >= 20
    assert [one.n for one in read_records(tmp_path)] == list(range(40_000))


def test_a_segment_is_closed_when_it_is_old(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "b1", 1, age_max_s=10)
    writer.tick(50.0)
    writer.add(row(1))
    writer.tick(100.0)
    writer.tick(109.9)
    assert closed_segments(tmp_path) == []
    writer.tick(110.0)
    assert len(closed_segments(tmp_path)) == 1
    writer.add(row(2))
    writer.tick(111.0)
    writer.tick(120.9)
    assert len(closed_segments(tmp_path)) == 1
    writer.tick(121.0)
    assert len(closed_segments(tmp_path)) == 2


@pytest.mark.parametrize("step", ["Columns", "_sync_folder"])
def test_a_crash_loses_at_most_the_open_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    class Crash(BaseException):
        pass

    def crash(*_: object) -> None:
        raise Crash

    writer = SegmentWriter(tmp_path, "b1", 1, rows_max=2)
    writer.add(row(1))
    writer.add(row(2))
    with monkeypatch.context() as patch:
        patch.setattr(segments, step, crash)
        writer.add(row(3))
        with pytest.raises(Crash):
            writer.add(row(4))
    assert [one.n for one in read_records(tmp_path)] in ([1, 2], [1, 2, 3, 4])


def test_half_a_file_is_never_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read while a segment is written is what was closed before."""
    seen: list[list[int]] = []
    real = segments.write_table

    def write(table: object, file: IO[bytes]) -> None:
        real(table, file)
        seen.append([one.n for one in read_records(tmp_path)])
        assert any(name.startswith(".") for name in files(tmp_path))

    monkeypatch.setattr(segments, "write_table", write)
    writer = SegmentWriter(tmp_path, "b1", 1, rows_max=1)
    for n in range(3):
        writer.add(row(n))
    assert seen == [[], [0], [0, 1]]
    assert [name for name in files(tmp_path) if name.startswith(".")] == []


def test_leftovers_of_a_crash_are_removed_by_the_same_broker_alone(tmp_path: Path) -> None:
    for name in ("b1", "b10", "b2"):
        (tmp_path / f".{name}+00000000000000000001+0000000000.parquet.open").write_bytes(b"half")
    SegmentWriter(tmp_path, "b1", 2)
    assert [name.partition("+")[0] for name in files(tmp_path)] == [".b10", ".b2"]


def test_a_writer_of_the_same_boot_goes_on_counting(tmp_path: Path) -> None:
    for n in (1, 2):
        writer = SegmentWriter(tmp_path, "b1", 1)
        writer.add(row(n))
        writer.close()
    assert [one.number for one in closed_segments(tmp_path)] == [0, 1]


def test_names_sort_by_broker_boot_and_number(tmp_path: Path) -> None:
    for broker, boot in (("b1", 2), ("b1", 10), ("b1-a", 1), ("b10", 1), ("b1", 1_763_000_000_000)):
        writer = SegmentWriter(tmp_path, broker, boot, rows_max=1)
        for n in range(11):
            writer.add(row(n, broker=broker, boot=boot))
    read = [(one.broker, one.boot, one.n) for one in read_records(tmp_path)]
    assert read == sorted(read)
    assert files(tmp_path) == [one.path.name for one in closed_segments(tmp_path)]


@given(st.lists(st.text(min_size=1, max_size=255), min_size=2, max_size=6, unique=True))
def test_no_two_brokers_share_a_file_name(brokers: list[str]) -> None:
    names = [safe_name(one).lower() for one in brokers]
    assert len(set(names)) == len(brokers)
    for name in names:
        assert len(f".{name}+{0:020d}+{0:010d}.parquet.open".encode()) <= 255
        assert not name.startswith((".", "_"))
        assert not set(name) & set('/\\+ %:*?"<>|\0')


@pytest.mark.parametrize("broker", ["Athens/1", "../up", "a+b", "é" * 200, "A" * 255, ".hidden", "~41"])
def test_odd_brokers_have_their_records_written_and_read(tmp_path: Path, broker: str) -> None:
    writer = SegmentWriter(tmp_path / "records", broker, 1)
    writer.add(row(1, broker=broker))
    writer.close()
    assert [one.broker for one in read_records(tmp_path / "records")] == [broker]
    assert files(tmp_path) == ["records"]


def test_the_oldest_segments_make_room(tmp_path: Path) -> None:
    first = SegmentWriter(tmp_path, "b1", 1, rows_max=1)
    first.add(row(0))
    size = closed_segments(tmp_path)[0].path.stat().st_size
    other = SegmentWriter(tmp_path, "b2", 1, rows_max=1)
    other.add(row(0, broker="b2"))
    writer = SegmentWriter(tmp_path, "b1", 2, rows_max=1, keep_bytes=3 * size + size // 2)
    for n in range(5):
        writer.add(row(n, boot=2))
    kept = [(one.safe, one.boot, one.number) for one in closed_segments(tmp_path)]
    assert kept == [("b1", 2, 2), ("b1", 2, 3), ("b1", 2, 4), ("b2", 1, 0)]


def test_the_newest_segment_stays_whatever_its_size(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "b1", 1, rows_max=1, keep_bytes=1)
    writer.add(row(1))
    writer.add(row(2))
    assert [one.n for one in read_records(tmp_path)] == [2]


def test_work_goes_to_the_thread_that_is_given_in_order(tmp_path: Path) -> None:
    work: list[Callable[[], None]] = []
    writer = SegmentWriter(tmp_path, "b1", 1, rows_max=1, run=work.append)
    writer.add(row(1))
    writer.add(row(2))
    assert files(tmp_path) == []
    for one in work:
        one()
    assert [one.n for one in read_records(tmp_path)] == [1, 2]


def test_a_disk_that_is_too_slow_costs_records_and_not_memory(tmp_path: Path) -> None:
    work: list[Callable[[], None]] = []
    writer = SegmentWriter(
        tmp_path, "b1", 1, rows_max=1, waiting_bytes_max=4 * segments.ROW_BYTES, run=work.append
    )
    for n in range(7):
        writer.add(row(n))
    assert (len(work), writer.waiting, writer.rows_lost) == (4, 4, 3)
    work.pop(0)()
    writer.add(row(99))
    assert (len(work), writer.rows_lost) == (4, 3)
    writer.add(run(100, 5))
    assert writer.rows_lost == 8


def test_runs_take_little_memory_while_they_wait(tmp_path: Path) -> None:
    work: list[Callable[[], None]] = []
    writer = SegmentWriter(
        tmp_path, "b1", 1, rows_max=1_000, waiting_bytes_max=100 * segments.RUN_BYTES, run=work.append
    )
    for n in range(90):
        writer.add(run(n * 1_000, 1_000, [("s1", "s2")]))
    assert (len(work), writer.rows_lost) == (90, 0)
    for n in range(90, 100):
        writer.add(run(n * 1_000, 1_000, [("s1",)] * 1_000))
    assert writer.rows_lost == 10_000


def test_receivers_by_number_take_what_their_numbers_take_while_they_wait(tmp_path: Path) -> None:
    work: list[Callable[[], None]] = []
    numbers, ends = np.zeros(2_000, np.int64), np.arange(2, 2_002, 2)
    size = segments.RUN_BYTES + numbers.nbytes + ends.nbytes
    writer = SegmentWriter(tmp_path, "b1", 1, rows_max=1_000, waiting_bytes_max=10 * size, run=work.append)
    for n in range(12):
        writer.add(run(n * 1_000, 1_000, Receivers(["s1"], numbers, ends)))
    assert (len(work), writer.rows_lost) == (10, 2_000)


def test_one_segment_is_always_written_however_large(tmp_path: Path) -> None:
    work: list[Callable[[], None]] = []
    writer = SegmentWriter(tmp_path, "b1", 1, rows_max=1, waiting_bytes_max=1, run=work.append)
    writer.add(row(1))
    writer.add(row(2))
    assert (len(work), writer.rows_lost) == (1, 1)


def test_a_disk_that_fails_is_told_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    told: list[tuple[str, int]] = []
    writer = SegmentWriter(
        tmp_path, "b1", 1, rows_max=2, on_fault=lambda error, rows: told.append((str(error.strerror), rows))
    )
    with monkeypatch.context() as patch:
        patch.setattr(segments, "write_table", full)
        writer.add(row(1))
        writer.add(row(2))
    assert told == [("No space left on device", 2)]
    assert (writer.rows_lost, files(tmp_path)) == (2, [])
    writer.add(row(3))
    writer.add(row(4))
    assert [one.n for one in read_records(tmp_path)] == [3, 4]


def test_a_disk_that_fails_stops_a_writer_that_tells_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segments, "write_table", full)
    writer = SegmentWriter(tmp_path, "b1", 1, rows_max=1)
    with pytest.raises(OSError, match="No space"):
        writer.add(row(1))


@pytest.mark.parametrize("name", ["x.parquet", "b1+1+2.parquet", "_SUCCESS"])
def test_other_files_are_no_segments(tmp_path: Path, name: str) -> None:
    assert Segment.of(tmp_path / name) is None


WRITES_FOR_EVER = """
import itertools, sys
from pathlib import Path
from tidings.records.record import Kind, Record
from tidings.records.segments import SegmentWriter
writer = SegmentWriter(Path(sys.argv[1]), "b1", int(sys.argv[2]), rows_max=500)
for n in itertools.count():
    writer.add(Record("b1", int(sys.argv[2]), n, n, Kind.FORWARDED, message=f"m{n}", receivers=("b2",)))
    if n == 5000:
        print(flush=True)
"""


def test_a_writer_that_is_killed_leaves_whole_segments_without_a_gap(tmp_path: Path) -> None:
    for boot in (1, 2, 3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITES_FOR_EVER, tmp_path, str(boot)], stdout=subprocess.PIPE
        ) as writing:
            assert writing.stdout is not None
            writing.stdout.readline()
            # While it writes, and at whatever point it then is.
            seen = [one.n for one in read_records(tmp_path) if one.boot == boot]
            writing.kill()
        left = [one.n for one in read_records(tmp_path) if one.boot == boot]
        assert seen == list(range(len(seen)))
        assert left == list(range(len(left)))
        assert len(left) >= max(len(seen), 5000)
    SegmentWriter(tmp_path, "b1", 4)
    assert [name for name in files(tmp_path) if name.startswith(".")] == []


@pytest.mark.parametrize(("said", "found"), [(None, "no format"), ("1", "format 1"), ("3", "format 3")])
def test_a_segment_of_another_format_is_refused_with_the_way_out(
    tmp_path: Path, said: str | None, found: str
) -> None:
    writer = SegmentWriter(tmp_path, "b1", 1)
    writer.add(row(1))
    writer.close()
    (segment,) = closed_segments(tmp_path)
    assert pq.read_metadata(segment.path).metadata[b"tidings.records"] == b"2"
    say_format(segment.path, said)
    with pytest.raises(InputError) as refused:
        list(read_records(tmp_path))
    assert str(refused.value) == (
        f"the records in {segment.path} have {found}, and this release reads format 2; read them with the "
        "release that wrote them, or move the file out of the folder"
    )
