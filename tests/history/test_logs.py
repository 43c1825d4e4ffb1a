"""Logs: what is shown, found, kept and refused."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.history.samples import NAME, A, B, entry, fill, kept, logs_of
from tidings.errors import InputError, SetupError
from tidings.history.entries import EVENTS, REPORTS, Entry
from tidings.history.files import DiskFiles, MemoryFiles
from tidings.history.log import NoLongerKept
from tidings.history.logs import Logs, Syncing
from tidings.history.segments import Damaged

HOUR_US = 3_600_000_000


def segments(files: MemoryFiles) -> list[str]:
    return [
        f"{folder}/{name}"
        for folder in files.folders()
        for name in files.names(folder)
        if name.endswith(".log")
    ]


def test_entries_are_shown_once_they_are_durable() -> None:
    logs = logs_of(MemoryFiles())
    logs.append(NAME, EVENTS, A, entry(0))
    assert logs.holders(NAME) == [(A, 0, 0)]
    logs.commit()
    assert logs.holders(NAME) == [(A, 0, 1)]
    assert kept(logs) == [entry(0)]


def test_all_fields_of_an_entry_come_back() -> None:
    logs = logs_of(MemoryFiles())
    told = Entry(0, 5, "t/1", b"\x00\xff", "x", "e1", 3, 7, True, "ended", "a:1:2")
    logs.append(NAME, EVENTS, A, told)
    logs.commit()
    assert kept(logs) == [told]


def test_ranges_over_many_segments() -> None:
    files = MemoryFiles()
    logs = logs_of(files, segment_bytes=500)
    entries = [one for _ in range(10) for one in fill(logs, 7)]
    assert len(segments(files)) > 5
    for start in (0, 1, 6, 7, 35, 69, 70):
        for stop in (0, start, start + 1, start + 20, 70, 99, None):
            assert list(logs.read(NAME, EVENTS, A, start, stop)) == entries[start:stop]


def test_a_large_entry_among_small_ones_is_read_whole() -> None:
    logs = logs_of(MemoryFiles(), segment_bytes=10_000_000)
    entries = [entry(0), entry(1, text="x" * 3_000_000), entry(2)]
    for one in entries:
        logs.append(NAME, EVENTS, A, one)
    logs.commit()
    assert kept(logs) == entries


def test_the_first_entry_at_or_after_a_time_although_a_clock_went_back() -> None:
    logs = logs_of(MemoryFiles(), segment_bytes=300)
    times = [10, 20, 15, 15, 30, 5, 30, 40, 35, 50]
    for number, at_us in enumerate(times):
        logs.append(NAME, EVENTS, A, entry(number, at_us, "x" * 40))
        logs.commit()
    for asked in range(60):
        expected = next((number for number, at_us in enumerate(times) if at_us >= asked), len(times))
        assert logs.at(NAME, EVENTS, asked) == {A: expected}


def test_the_time_of_entries_that_are_not_shown_is_not_found() -> None:
    logs = logs_of(MemoryFiles())
    fill(logs, 2)
    logs.append(NAME, EVENTS, A, entry(2, 9_000))
    assert logs.at(NAME, EVENTS, 9_000) == {A: 2}
    assert logs.at(NAME, EVENTS, 10_000) == {A: 2}


def test_a_log_goes_on_where_it_was(tmp_path: Path) -> None:
    entries: list[Entry] = []
    for _ in range(4):
        logs = logs_of(DiskFiles(tmp_path), segment_bytes=600)
        assert logs.next_numbers() == ({(NAME, EVENTS): len(entries)} if entries else {})
        entries += fill(logs, 5)
        logs.close()
    assert kept(logs_of(DiskFiles(tmp_path))) == entries


def test_events_and_reports_and_holders_are_apart() -> None:
    logs = logs_of(MemoryFiles())
    logs.append(NAME, REPORTS, A, entry(0))
    logs.append(NAME, EVENTS, B, entry(5))
    logs.append("other", EVENTS, A, entry(0))
    logs.commit()
    assert logs.names() == [("other", EVENTS), (NAME, EVENTS), (NAME, REPORTS)]
    assert logs.holders(NAME) == [(B, 5, 6)]
    assert logs.next_numbers() == {(NAME, REPORTS): 1, ("other", EVENTS): 1}


@pytest.mark.parametrize("name", ["../../etc", "..", ".", "a/b", "/abs", "x" * 3000, "ü+#", "CON", "\x00"])
def test_no_name_leaves_the_folder(tmp_path: Path, name: str) -> None:
    root = tmp_path / "data" / "log"
    logs = logs_of(DiskFiles(root))
    fill(logs, 2, name=name)
    logs.close()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["log"]
    assert {path.parent.parent for path in root.rglob("*.log")} == {root}
    assert len(kept(logs_of(DiskFiles(root)), name=name)) == 2


# Copies of other brokers' logs.


def test_a_copy_begins_where_it_is_given() -> None:
    logs = logs_of(MemoryFiles())
    logs.append(NAME, EVENTS, B, entry(100))
    logs.append(NAME, EVENTS, B, entry(101))
    logs.commit()
    assert logs.holders(NAME) == [(B, 100, 102)]


def test_what_a_copy_has_already_is_passed_over() -> None:
    logs = logs_of(MemoryFiles())
    fill(logs, 3, holder=B)
    logs.append(NAME, EVENTS, B, entry(1, text="another"))
    logs.commit()
    assert kept(logs, holder=B) == [entry(0), entry(1), entry(2)]


def test_a_copy_with_a_gap_begins_anew() -> None:
    files = MemoryFiles()
    logs = logs_of(files)
    fill(logs, 3, holder=B)
    logs.append(NAME, EVENTS, B, entry(10))
    logs.commit()
    assert logs.holders(NAME) == [(B, 10, 11)]
    assert logs_of(files).holders(NAME) == [(B, 10, 11)]


# Retention.


def test_what_is_older_than_asked_is_dropped_and_numbers_go_on() -> None:
    files = MemoryFiles()
    logs = logs_of(files, segment_bytes=400)
    for number in range(24):
        logs.append(NAME, EVENTS, A, entry(number, number * HOUR_US))
        logs.commit()
    logs.retain(24 * HOUR_US, {(NAME, EVENTS): 6 * HOUR_US})
    _, first, shown = logs.holders(NAME)[0]
    assert 12 <= first <= 18
    assert shown == 24
    with pytest.raises(NoLongerKept, match=f"entry 0 .* the first is {first}"):
        logs.read(NAME, EVENTS, A, 0)
    assert [one.number for one in kept(logs_of(files))] == list(range(first, 24))


def test_a_quiet_log_becomes_empty_and_keeps_its_next_number() -> None:
    files = MemoryFiles()
    logs = logs_of(files)
    fill(logs, 5)
    logs.retain(HOUR_US, {(NAME, EVENTS): 1_000})
    assert logs.holders(NAME) == [(A, 5, 5)]
    assert logs_of(files).next_numbers() == {(NAME, EVENTS): 5}
    assert len(segments(files)) == 1


def test_what_is_kept_for_ever_or_not_declared_stays() -> None:
    logs = logs_of(MemoryFiles(), segment_bytes=400)
    fill(logs, 5)
    fill(logs, 5, name="gone")
    logs.retain(HOUR_US, {(NAME, EVENTS): float("inf")})
    assert logs.holders(NAME) + logs.holders("gone") == [(A, 0, 5), (A, 0, 5)]


def test_beyond_a_size_the_oldest_of_all_go_first() -> None:
    logs = logs_of(MemoryFiles(), segment_bytes=400)
    for number in range(20):
        for at, name in enumerate(("old", "new")):
            logs.append(name, EVENTS, A, entry(number, number + 1_000 * at))
            logs.commit()
    logs.retain(0, {}, bytes_max=3_000)
    (_, old_first, _), (_, new_first, _) = logs.holders("old")[0], logs.holders("new")[0]
    assert logs.bytes <= 3_000
    assert old_first > new_first


def test_a_reader_whose_entries_are_dropped_meanwhile_hears_of_it() -> None:
    logs = logs_of(MemoryFiles(), segment_bytes=200)
    for _ in range(10):
        fill(logs, 1)
    reading = logs.read(NAME, EVENTS, A, 0)
    assert next(reading) == entry(0)
    logs.retain(0, {}, bytes_max=0)
    with pytest.raises(NoLongerKept):
        list(reading)


def test_a_reader_sees_the_log_as_it_was_when_it_began() -> None:
    logs = logs_of(MemoryFiles(), segment_bytes=300)
    entries = fill(logs, 3)
    reading = logs.read(NAME, EVENTS, A, 0)
    for _ in range(5):
        fill(logs, 3)
    assert list(reading) == entries


# When entries become durable.


def test_by_interval_nothing_is_shown_before_the_sync() -> None:
    files = MemoryFiles()
    logs = logs_of(files, syncing=Syncing.INTERVAL)
    logs.append(NAME, EVENTS, A, entry(0))
    logs.commit()
    assert (logs.holders(NAME), files.syncs) == ([(A, 0, 0)], 1)
    logs.sync()
    assert (logs.holders(NAME), files.syncs) == ([(A, 0, 1)], 2)


def test_never_synced_entries_are_shown_when_written() -> None:
    files = MemoryFiles()
    logs = logs_of(files, syncing=Syncing.NEVER)
    fill(logs, 3)
    assert (logs.holders(NAME), files.syncs) == ([(A, 0, 3)], 1)


def test_always_one_sync_for_all_entries_of_a_commit() -> None:
    files = MemoryFiles()
    logs = logs_of(files)
    fill(logs, 1)
    before = files.syncs
    fill(logs, 100)
    assert files.syncs == before + 1


# What is wrong.


def test_what_is_not_there_is_refused() -> None:
    logs = logs_of(MemoryFiles())
    fill(logs, 2)
    with pytest.raises(InputError, match="no reports of"):
        logs.read(NAME, REPORTS, A, 0)
    with pytest.raises(InputError, match=r"entry 3 .* was never shown; the next will be 2"):
        logs.read(NAME, EVENTS, A, 3)


def broken(files: MemoryFiles, path: str, offset: int) -> None:
    data = bytearray(files.read(path, 0, 1_000_000))
    data[offset] ^= 0x55
    files.put(path, bytes(data))


def test_an_entry_that_was_durable_and_is_broken_is_not_dropped_in_silence() -> None:
    files = MemoryFiles()
    logs = logs_of(files)
    fill(logs, 3)
    fill(logs, 1)
    broken(files, segments(files)[0], 200)
    with pytest.raises(Damaged, match=r"entry 1, at byte .* bring it back from a copy"):
        logs_of(files)
    with pytest.raises(Damaged, match="broken"):
        list(logs.read(NAME, EVENTS, A, 0))


def test_a_closed_segment_that_is_broken_is_refused_when_it_is_read() -> None:
    files = MemoryFiles()
    for _ in range(4):
        fill(logs_of(files, segment_bytes=200), 3)
    broken(files, segments(files)[0], 200)
    with pytest.raises(Damaged):
        kept(logs_of(files))


def test_an_index_that_is_lost_or_broken_is_made_anew() -> None:
    files = MemoryFiles()
    entries = []
    for _ in range(4):
        entries += fill(logs_of(files, segment_bytes=200), 3)
    first, second = (path.replace(".log", ".index") for path in segments(files)[:2])
    before = files.read(first, 0, 9999)
    files.remove(first)
    broken(files, second, 3)
    assert kept(logs_of(files)) == entries
    assert files.read(first, 0, 9999) == before


def test_a_segment_that_is_missing_is_told() -> None:
    files = MemoryFiles()
    for _ in range(4):
        fill(logs_of(files, segment_bytes=200), 3)
    files.remove(segments(files)[1])
    with pytest.raises(Damaged, match="begins with entry 6, and the one before ends before 3"):
        logs_of(files)


def test_foreign_files_are_told() -> None:
    files = MemoryFiles()
    files.put("x/notes.txt", b"")
    with pytest.raises(Damaged, match=r"x/notes.txt is not a file of a log; move it"):
        logs_of(files)
    files = MemoryFiles()
    files.put(f"x/events+a+{0:020d}.log", b"hello, world: this is text")
    with pytest.raises(Damaged, match="is not a segment of a log; move it"):
        logs_of(files)


def test_a_segment_in_the_wrong_place_is_told() -> None:
    files = MemoryFiles()
    fill(logs_of(files), 1)
    (path,) = segments(files)
    files.put(f"elsewhere/{path.partition('/')[2]}", files.read(path, 0, 9999))
    with pytest.raises(Damaged, match="it says that it is events of"):
        logs_of(files)


def test_a_log_of_a_later_release_is_told() -> None:
    files = MemoryFiles()
    fill(logs_of(files), 1)
    (path,) = segments(files)
    data = bytearray(files.read(path, 0, 9999))
    data[6] = 9
    files.put(path, bytes(data))
    with pytest.raises(Damaged, match="has format 9, and this release reads format 2"):
        logs_of(files)


def test_a_payload_cannot_pass_for_frames() -> None:
    foreign = MemoryFiles()
    other = logs_of(foreign, salt=1)
    fill(other, 2)
    fill(other, 2)
    (path,) = segments(foreign)
    bait = foreign.read(path, 0, 9999)
    files = MemoryFiles()
    logs = logs_of(files, salt=2)
    fill(logs, 1)
    logs.append(NAME, EVENTS, A, Entry(1, 0, "t", bait * 3))
    logs.commit()
    (path,) = segments(files)
    files.cut(path, files.size(path) - 1)
    assert kept(logs_of(files)) == [entry(0)]


class FullFiles(MemoryFiles):
    """A disk with room for so much."""

    room = 1_000

    def append(self, path: str, data: bytes) -> None:
        super().append(path, data[: self.room])
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device", path)


def test_on_a_full_disk_nothing_more_is_shown_and_recovery_goes_on() -> None:
    files = FullFiles()
    logs = logs_of(files)
    entries = fill(logs, 3)
    with pytest.raises(SetupError, match="No space left on device; free space on its disk, or keep less"):
        fill(logs, 50)
    assert kept(logs) == entries
    logs.append(NAME, EVENTS, A, entry(53))
    with pytest.raises(SetupError, match="No space left"):
        logs.commit()
    files.room = 100_000
    again = logs_of(files)
    shown = again.holders(NAME)[0][2]
    assert 3 <= shown < 53
    assert kept(again) == [entry(number) for number in range(shown)]


def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("not a folder")
    with pytest.raises(SetupError, match="the log cannot be opened"):
        Logs(DiskFiles(tmp_path / "log"), A)


def test_a_topic_with_a_very_long_name_is_found_again() -> None:
    files = MemoryFiles()
    name = "/".join(["level"] * 3_000)
    for _ in range(3):
        fill(logs_of(files, segment_bytes=20_000), 3, name=name)
    assert len(kept(logs_of(files), name=name)) == 9
