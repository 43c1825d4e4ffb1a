"""Files for this process's user alone: what clients have said is in them, and who they are."""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""What the group and all others may do with a file."""


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, if it is not there. One that is made is private."""
    folder.mkdir(parents=True, exist_ok=True, mode=stat.S_IRWXU)


def make_file(path: Path) -> None:
    """Make an empty file if there is none. One that is there is not opened, only closed to others."""
    # To open and close a database would give away the locks that this process has on it.
    with contextlib.suppress(FileExistsError):
        path.touch(mode=stat.S_IRUSR | stat.S_IWUSR, exist_ok=False)
    close(path)


def close(path: Path) -> None:
    """Take from others what they may do with a file, or with a folder and all that is below it.

    It may be one that an earlier release has left open, or that was brought back from a copy. What is below a
    closed folder is not looked at.
    """
    if not path.exists() or not path.stat().st_mode & OTHERS:
        return
    for below in path.rglob("*"):
        _take_away(below)
    _take_away(path)


def _take_away(path: Path) -> None:
    # Some file systems know no rights, and some files are of another user who lets us write them.
    with contextlib.suppress(OSError):
        if not path.is_symlink():
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~OTHERS)
