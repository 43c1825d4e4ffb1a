"""Files as a log needs them, on a disk or in memory.

A path is `folder/name`, below one root; no other path can be said. What is appended is durable after `sync`,
and until then a crash may keep any part of it. A disk's errors are OSError and go through as they are.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

OPEN_MAX = 64
"""Files that are held open for appending; beyond, the one not used for longest is closed."""

HIDDEN = "."
"""Names that begin so are of files that are not whole yet."""


class Files(ABC):
    """What a log asks of a disk."""

    @abstractmethod
    def folders(self) -> list[str]:
        """All folders, sorted."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The files of a folder, sorted; none where there is no folder."""

    @abstractmethod
    def size(self, path: str) -> int: ...

    @abstractmethod
    def read(self, path: str, offset: int, size: int) -> bytes:
        """Some bytes; fewer where the file ends. FileNotFoundError if it is gone."""

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """A whole file, durable; whatever was there before. A crash leaves that, or this."""

    @abstractmethod
    def append(self, path: str, data: bytes) -> None:
        """Bytes at the end of a file that is there."""

    @abstractmethod
    def sync(self, path: str) -> None:
        """What was appended is durable when this returns."""

    @abstractmethod
    def cut(self, path: str, size: int) -> None:
        """The file ends here, durably."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """The file is gone, durably; it need not have been there."""

    @abstractmethod
    def where(self, path: str) -> str:
        """The file as an operator knows it."""

    @abstractmethod
    def close(self) -> None: ...


class DiskFiles(Files):
    """Below a folder of a file system. One thread appends; any may read."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: OrderedDict[str, int] = OrderedDict()

    def folders(self) -> list[str]:
        if not self._root.exists():
            return []
        return sorted(path.name for path in self._root.iterdir() if path.is_dir())

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self._root / folder).iterdir())
        except FileNotFoundError:
            return []

    def size(self, path: str) -> int:
        return self._at(path).stat().st_size

    def read(self, path: str, offset: int, size: int) -> bytes:
        with self._at(path).open("rb", buffering=0) as file:
            file.seek(offset)
            parts = []
            while size > 0 and (part := file.read(size)):
                parts.append(part)
                size -= len(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)

    def put(self, path: str, data: bytes) -> None:
        self._forget(path)
        target = self._at(path)
        if not target.parent.exists():
            target.parent.mkdir(parents=True, mode=0o700)
            _sync_folder(self._root)
        hidden = target.with_name(HIDDEN + target.name)
        with open(hidden, "wb", opener=_private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        hidden.rename(target)
        _sync_folder(target.parent)

    def append(self, path: str, data: bytes) -> None:
        descriptor = self._descriptor(path)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]

    def sync(self, path: str) -> None:
        _sync_data(self._descriptor(path))

    def cut(self, path: str, size: int) -> None:
        self._forget(path)
        with self._at(path).open("r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())

    def remove(self, path: str) -> None:
        self._forget(path)
        target = self._at(path)
        target.unlink(missing_ok=True)
        if target.parent.exists():
            _sync_folder(target.parent)

    def where(self, path: str) -> str:
        return str(self._root / path)

    def close(self) -> None:
        for path in list(self._open):
            self._forget(path)

    def _at(self, path: str) -> Path:
        parts = path.split("/")
        # Names are made by `records.segments.safe_name`, so this can only be our bug.
        assert len(parts) == 2, "a path has a folder and a name"
        assert not {"", ".", ".."} & set(parts), "a path stays below its root"
        return self._root / parts[0] / parts[1]

    def _descriptor(self, path: str) -> int:
        descriptor = self._open.get(path)
        if descriptor is None:
            descriptor = os.open(self._at(path), os.O_WRONLY | os.O_APPEND)
            self._open[path] = descriptor
            if len(self._open) > OPEN_MAX:
                # What it has not synced is not lost: the next sync of that file opens it anew, and covers it.
                self._forget(next(iter(self._open)))
        else:
            self._open.move_to_end(path)
        return descriptor

    def _forget(self, path: str) -> None:
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)


class MemoryFiles(Files):
    """In memory, for simulations and tests; `crash` loses what a disk may lose."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}
        self._durable: dict[str, int] = {}
        """How much of a file no crash takes."""
        self.syncs = 0

    def folders(self) -> list[str]:
        return sorted({path.partition("/")[0] for path in self._files})

    def names(self, folder: str) -> list[str]:
        return sorted(path.partition("/")[2] for path in self._files if path.startswith(f"{folder}/"))

    def size(self, path: str) -> int:
        return len(self._file(path))

    def read(self, path: str, offset: int, size: int) -> bytes:
        return bytes(self._file(path)[offset : offset + size])

    def put(self, path: str, data: bytes) -> None:
        self._files[path] = bytearray(data)
        self._durable[path] = len(data)

    def append(self, path: str, data: bytes) -> None:
        self._file(path).extend(data)

    def sync(self, path: str) -> None:
        self._durable[path] = len(self._file(path))
        self.syncs += 1

    def cut(self, path: str, size: int) -> None:
        del self._file(path)[size:]
        self._durable[path] = size

    def remove(self, path: str) -> None:
        self._files.pop(path, None)
        self._durable.pop(path, None)

    def where(self, path: str) -> str:
        return path

    def close(self) -> None:
        """There is nothing to close."""

    def crash(self, left: Callable[[str, bytes], bytes]) -> None:
        """Lose what was not synced, but for what `left` leaves of it, given a path and those bytes."""
        for path in sorted(self._files):
            durable = self._durable[path]
            unsynced = bytes(self._files[path][durable:])
            if unsynced:
                # Still not durable: it may have been in the system's memory only, and go with the next crash.
                self._files[path][durable:] = left(path, unsynced)

    def _file(self, path: str) -> bytearray:
        try:
            return self._files[path]
        except KeyError:
            raise FileNotFoundError(path) from None


def _private(path: str, flags: int) -> int:
    """What is published is for this process's user alone, unless the broker hands it out."""
    return os.open(path, flags, 0o600)


def _sync_data(descriptor: int) -> None:
    # The size is among what it makes durable; times of change are not, and nobody asks for them.
    getattr(os, "fdatasync", os.fsync)(descriptor)


def _sync_folder(folder: Path) -> None:
    """Make names durable. Windows knows no such thing."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
