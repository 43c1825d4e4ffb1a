"""Records of a node: written by a thread, and a disk that fails costs records, not the node."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import IO

import pytest

from tests.records.samples import row
from tidings.live import recording
from tidings.live.recording import Recorder
from tidings.records import segments
from tidings.records.reading import read_records


def recorder(folder: Path, rows_max: int = 2) -> Recorder:
    return Recorder(folder, "b1", 1, rows_max=rows_max, age_max_s=10, keep_bytes=1 << 20)


def test_closing_waits_until_everything_is_on_disk(tmp_path: Path) -> None:
    made = recorder(tmp_path)
    for n in range(5):
        made.add(row(n))
    made.close()
    assert [one.n for one in read_records(tmp_path)] == [0, 1, 2, 3, 4]
    assert (made.rows_written, made.rows_lost) == (5, 0)


def test_segments_are_written_elsewhere_than_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    real = segments.write_table

    def write(table: object, file: IO[bytes]) -> None:
        threads.append(threading.current_thread())
        real(table, file)

    monkeypatch.setattr(segments, "write_table", write)
    made = recorder(tmp_path)
    made.add(row(1))
    made.tick(0.0)
    made.tick(10.0)
    made.close()
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


def test_a_disk_that_fails_is_logged_with_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segments, "write_table", full)
    monkeypatch.setattr(recording.LOG, "propagate", True)
    made = recorder(tmp_path)
    with caplog.at_level(logging.ERROR, recording.LOG.name):
        made.add(row(1))
        made.add(row(2))
        made.close()
    (told,) = caplog.records
    assert told.__dict__["about"] == {"reason": "No space left on device", "rows_lost": "2"}
    assert made.rows_lost == 2


def test_a_bug_in_the_thread_is_not_kept_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bug(*_: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(segments, "Columns", bug)
    monkeypatch.setattr(recording.LOG, "propagate", True)
    made = recorder(tmp_path)
    with caplog.at_level(logging.ERROR, recording.LOG.name):
        made.add(row(1))
        made.add(row(2))
        made.close()
    (told,) = caplog.records
    assert told.exc_info is not None
    assert told.exc_info[0] is KeyError
