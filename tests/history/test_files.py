"""The two kinds of files do the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidings.history import files as files_module
from tidings.history.files import DiskFiles, Files, MemoryFiles


@pytest.fixture(params=["disk", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Files]:
    made: Files = DiskFiles(tmp_path / "log") if request.param == "disk" else MemoryFiles()
    yield made
    made.close()


def test_there_is_nothing_at_first(files: Files) -> None:
    assert (files.folders(), files.names("f")) == ([], [])


def test_what_is_put_and_appended_is_read(files: Files) -> None:
    files.put("f/b", b"head")
    files.append("f/b", b"more")
    files.sync("f/b")
    files.put("e/a", b"")
    assert (files.folders(), files.names("f")) == (["e", "f"], ["b"])
    assert (files.size("f/b"), files.read("f/b", 2, 4), files.read("f/b", 6, 100)) == (8, b"admo", b"re")


def test_putting_takes_the_place_of_what_was_there(files: Files) -> None:
    files.put("f/a", b"one")
    files.append("f/a", b"two")
    files.put("f/a", b"three")
    files.append("f/a", b"!")
    assert files.read("f/a", 0, 100) == b"three!"


def test_a_file_is_cut_and_goes_on(files: Files) -> None:
    files.put("f/a", b"12345")
    files.append("f/a", b"678")
    files.cut("f/a", 3)
    files.append("f/a", b"x")
    assert files.read("f/a", 0, 100) == b"123x"


def test_a_file_that_is_gone_cannot_be_read(files: Files) -> None:
    files.put("f/a", b"1")
    files.remove("f/a")
    files.remove("f/a")
    with pytest.raises(FileNotFoundError):
        files.read("f/a", 0, 1)


def test_more_files_than_are_held_open(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "OPEN_MAX", 2)
    for turn in range(2):
        for number in range(5):
            if not turn:
                files.put(f"f/{number}", b"")
            files.append(f"f/{number}", b"x")
    for number in range(5):
        files.sync(f"f/{number}")
        assert files.read(f"f/{number}", 0, 9) == b"xx"


def test_a_crash_takes_what_was_not_synced() -> None:
    files = MemoryFiles()
    files.put("f/a", b"head")
    files.append("f/a", b"safe")
    files.sync("f/a")
    files.append("f/a", b"lost")
    files.crash(lambda _path, unsynced: unsynced[:1])
    assert files.read("f/a", 0, 100) == b"headsafel"


def test_a_path_stays_below_its_root(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="below its root"):
        DiskFiles(tmp_path).put("../x", b"")
