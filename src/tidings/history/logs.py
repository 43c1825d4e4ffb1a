"""All logs of one broker: its own, and copies of those of seats for which it is the deputy.

Each is of one holder, one life of a broker: copies of two lives never mix, and what there is of a life that
is over stays as long as its topic keeps it.

Everything is found again from the files alone. When what was appended becomes durable is a policy; who calls
`commit`, `sync` and `retain`, and when, is the owner's business: there is no clock here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidings.errors import InputError, SetupError
from tidings.history.entries import EVENTS, KINDS, Entry
from tidings.history.files import HIDDEN, Files
from tidings.history.log import HEADER_BYTES, SEGMENT_BYTES, Log
from tidings.history.segments import INDEX_SUFFIX, Damaged, first_of, index_path, is_format_1, upgraded
from tidings.records.holders import Holder

ROLL_SHARE = 4
"""A segment is closed when it has grown for this part of the time that entries are kept, so that they stay
for at most a quarter longer."""


class Syncing(StrEnum):
    """When an entry becomes durable, and so is shown."""

    ALWAYS = "always"
    """With every commit: what is acknowledged is in the log, whatever happens to process and machine."""

    INTERVAL = "interval"
    """Every so often: acknowledgements do not wait for it. What a crash takes had not been shown."""

    NEVER = "never"
    """When the system sees fit: entries are shown once they are written. They survive the process; after a
    loss of power a number that was shown may be given again."""


@dataclass(frozen=True, slots=True)
class LogStatus:
    """What can be seen of one log."""

    topic: str
    what: str
    holder: str
    """Under whose name entries are numbered, as text."""

    first: int
    next: int
    """The number behind the last that is shown."""

    bytes: int


class Logs:
    """What a broker has in its folder of logs. One thread appends and retains; any may read."""

    def __init__(
        self,
        files: Files,
        holder: Holder,
        *,
        salt: int = 0,
        syncing: Syncing = Syncing.ALWAYS,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """Opens all there are, and recovers them. Damaged or SetupError says which file is not as it should
        be. `holder` is the broker that they belong to, in the life that it has now; `salt` is a number that
        nobody outside knows.
        """
        self.holder = holder
        self.syncing = syncing
        self.entries = 0
        """Appended since it was opened."""
        self._files = files
        self._salt = salt & 0xFFFFFFFF
        self._segment_bytes = segment_bytes
        self.notes: list[str] = []
        """For the operator: what was done to files of format 1."""
        self._logs: dict[tuple[str, str, Holder], Log] = {}
        """By name, what and holder."""
        self._dirty: dict[Log, None] = {}
        try:
            for folder in files.folders():
                self._open_folder(folder)
        except OSError as error:
            raise SetupError(
                f"the log cannot be opened: {error}; give the broker rights to its folder"
            ) from error

    def _open_folder(self, folder: str) -> None:
        segments: dict[str, set[str]] = {}
        indexes = set()
        for name in self._files.names(folder):
            path = f"{folder}/{name}"
            if name.startswith(HIDDEN):
                self._files.remove(path)
            elif name.endswith(INDEX_SUFFIX):
                indexes.add(path)
            elif first_of(name) is None:
                raise Damaged(
                    f"{self._files.where(path)} is not a file of a log; move it out of the broker's folder"
                )
            else:
                path = self._upgraded(path)
                if path:
                    segments.setdefault(path.rpartition("+")[0], set()).add(path)
        for paths in map(sorted, segments.values()):
            log = Log(self._files, paths, self._salt, self._segment_bytes)
            self._logs[log.name, log.what, log.holder] = log
            indexes -= {index_path(path) for path in paths}
        for left in sorted(indexes):
            self._files.remove(left)

    def _upgraded(self, path: str) -> str:
        """Where a segment is once it has the format of this release; empty if it was dropped.

        Whatever a crash leaves of this is done again: the old file goes last.
        """
        files = self._files
        if not is_format_1(files.read(path, 0, HEADER_BYTES)):
            return path
        found = upgraded(files.read(path, 0, files.size(path)), self.holder, files.where(path))
        if found is not None:
            files.put(*found)
            self.notes.append(f"{files.where(path)} is now {files.where(found[0])}")
        else:
            self.notes.append(
                f"{files.where(path)}, a copy of another broker's log, is dropped: it does not say of which "
                "life of the broker it is; what is told from now on is copied anew"
            )
        files.remove(path)
        return "" if found is None else found[0]

    # Reading.

    def names(self) -> list[tuple[str, str]]:
        """(topic's name, what) of all logs, sorted."""
        return sorted({(name, what) for name, what, _ in list(self._logs)})

    def holders(self, name: str, what: str = EVENTS) -> list[tuple[Holder, int, int]]:
        """(holder, first number kept, number behind the last shown) of each log of a topic, sorted."""
        return [(log.holder, log.first, log.shown) for log in self._of(name, what)]

    def read(
        self, name: str, what: str, holder: Holder, start: int, stop: int | None = None
    ) -> Iterator[Entry]:
        """Entries of a log from a number to before another; see `Log.read`."""
        log = self._logs.get((name, what, holder))
        if log is None:
            raise InputError(
                f"there are no {what} of {name!r} of {holder} here; ask `holders` for those there are"
            )
        return log.read(start, stop)

    def at(self, name: str, what: str, at_us: int) -> dict[Holder, int]:
        """By holder: the number of the first entry at or after a time."""
        return {log.holder: log.at(at_us) for log in self._of(name, what)}

    def next_numbers(self) -> dict[tuple[str, str], int]:
        """By name and what: the number that the broker gives to the next entry of its own."""
        return {
            (name, what): log.next for (name, what, _), log in self._logs.items() if log.holder == self.holder
        }

    def status(self) -> list[LogStatus]:
        """What can be seen of each log, sorted."""
        return [
            LogStatus(name, what, str(holder), log.first, log.shown, log.bytes)
            for (name, what, holder), log in sorted(self._logs.items(), key=lambda pair: pair[0])
        ]

    @property
    def bytes(self) -> int:
        """Of all logs, on disk."""
        return sum(log.bytes for log in list(self._logs.values()))

    def _of(self, name: str, what: str) -> list[Log]:
        logs = list(self._logs.items())
        return [log for key, log in sorted(logs, key=lambda pair: pair[0]) if key[:2] == (name, what)]

    # Writing.

    def append(self, name: str, what: str, holder: Holder, entry: Entry) -> None:
        """Take an entry: of this broker the next number, of another holder whatever number it has.

        A copy that does not go on where the one here ends takes its place: a log has no gaps. What is here
        already is passed over.
        """
        assert what in KINDS, "events or reports"
        key = (name, what, holder)
        log = self._logs.get(key)
        if log is not None and holder != self.holder:
            if entry.number < log.next:
                return
            if entry.number > log.next:
                log.remove()
                del self._logs[key]
                self._dirty.pop(log, None)
                log = None
        if log is None:
            log = self._logs[key] = Log.create(
                self._files, name, what, holder, self._salt, entry.number, self._segment_bytes
            )
        log.append(entry)
        self._dirty[log] = None
        self.entries += 1

    def commit(self) -> None:
        """Bring what was appended as far as the policy says. SetupError if the disk does not take it; then
        nothing that waited for this may go on.
        """
        match self.syncing:
            case Syncing.ALWAYS:
                self.sync()
            case Syncing.INTERVAL:
                self.write()
            case Syncing.NEVER:
                for log in self._dirty:
                    log.show()
                self._dirty.clear()

    def write(self) -> None:
        """Hand what was appended to the system, and show nothing."""
        for log in self._dirty:
            log.write()

    def sync(self) -> None:
        """Make all that was appended durable, and show it."""
        for log in self._dirty:
            log.sync()
        self._dirty.clear()

    @property
    def pending(self) -> bool:
        """Whether some entries are not shown yet."""
        return bool(self._dirty)

    def retain(
        self, now_us: int, keep_us: Mapping[tuple[str, str], float], bytes_max: float = math.inf
    ) -> None:
        """Drop what is older than its topic says, then the oldest there is beyond a size.

        By name and what, for how long to keep; logs not named there are kept. It goes by whole segments: an
        entry stays for up to a quarter longer than asked, and the segments that grow stay in any case.
        """
        for (name, what, _), log in self._logs.items():
            kept_us = keep_us.get((name, what), math.inf)
            if kept_us < math.inf:
                log.roll_older(now_us - int(kept_us) // ROLL_SHARE)
                log.drop_older(now_us - int(kept_us))
        total = sum(log.bytes for log in self._logs.values())
        while total > bytes_max:
            ages = [(log.oldest_us, key) for key, log in self._logs.items() if log.oldest_us is not None]
            if not ages:
                break
            log = self._logs[min(ages)[1]]
            total -= log.bytes
            log.drop_oldest()
            total += log.bytes

    def close(self) -> None:
        """Let the files go. What is not shown yet may be lost; `sync` before, if it must not be."""
        self._files.close()
