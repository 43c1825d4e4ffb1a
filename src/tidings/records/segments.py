"""Segments: the files that a broker's records are written to.

A segment is a Parquet file that is closed by a rename, so that whoever reads the folder, while the network
runs, sees whole files and nothing else. What is not yet closed is in memory, or in a file whose name begins
with a dot, which our reader, Spark and Arrow pass over; a crash loses that much. `add` only appends to a
list; columns are made when a segment is closed, on a thread if the owner gives one, in portions, between
which the owner may let other threads run. There is no clock here: the owner calls `tick`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from tidings.records.record import Receivers, Record, Run
from tidings.records.schema import arrow_schema
from tidings.records.tables import Columns

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX = 100_000
"""Rows of one segment. Closing one of these takes a thread 0.05 to 0.5 s; the file has 0.05 to 4 MB."""

BYTES_MAX = 64 * 1024 * 1024
"""About how much memory an open segment may take: a row of many receivers counts for what it is."""

AGE_MAX_S = 10.0
"""A segment is closed this long after its first record, so that readers are never far behind."""

KEEP_BYTES = 1024 * 1024 * 1024
"""How much one broker's closed segments may take on disk, before its oldest are removed."""

WAITING_BYTES_MAX = 256 * 1024 * 1024
"""About how much memory segments may take that wait for a slow disk, or for their turn after a burst. Beyond
it records are dropped and counted, never memory."""

ROW_BYTES = 400
"""What a record takes in memory, without its receivers: measured on forwarded ones."""

RECEIVER_BYTES = 70
"""And what each receiver adds."""

RECEIVER_NUMBER_BYTES = 24
"""The same where receivers are numbers."""

RUN_BYTES = 400
RUN_ROW_BYTES = 200
"""What a run takes, and each of its rows: 40 in the run, the rest in the table that is made of it."""

LIST_BYTES = 56
"""What a tuple takes by itself."""

TOPIC_BYTES = 200
"""What a topic of a run of several takes, beside its characters: strings that may be kept for it alone."""

NUMBER_BYTES = 40
"""What a number takes in a list."""

PORTION_US = 500
"""For how long about the interpreter may be held at a stretch to make columns. Other threads wait meanwhile;
what waits for the interpreter would ask for it after 5 ms only."""

OPEN = ".open"
CLOSED = ".parquet"

_SAFE_LENGTH_MAX = 120
_NAME = re.compile(r"(?P<safe>[^+]+)\+(?P<boot>[0-9]{20})\+(?P<number>[0-9]{10})\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """A closed segment, by its name. They sort by broker, boot and number."""

    safe: str
    """The broker's id as in the name of the file."""

    boot: int
    number: int

    path: Path

    @classmethod
    def of(cls, path: Path) -> Segment | None:
        """The segment that a file is; None if it is not one."""
        if (name := _NAME.fullmatch(path.name)) is None:
            return None
        return cls(name["safe"], int(name["boot"]), int(name["number"]), path)


def closed_segments(folder: Path) -> list[Segment]:
    """All closed segments of a folder, in order; none where there is no folder."""
    try:
        return sorted(segment for path in folder.iterdir() if (segment := Segment.of(path)) is not None)
    except FileNotFoundError:
        return []


def safe_name(broker: str) -> str:
    """A broker's id as part of a file's name: small letters, digits, `-`, `_` and `.` stay, others are hex.

    Different ids have different names, also where a file system takes `A` for `a`, and none is hidden.

    >>> safe_name("athens-1"), safe_name("Athens/1"), safe_name(".x")
    ('athens-1', '~41thens~2f1', '~2ex')
    """
    safe = "".join(
        chr(byte) if re.match(r"[a-z0-9._-]", chr(byte)) else f"~{byte:02x}" for byte in broker.encode()
    )
    if safe[0] in "._":
        safe = f"~{ord(safe[0]):02x}{safe[1:]}"
    if len(safe) > _SAFE_LENGTH_MAX:
        # Two tildes in a row come from nothing else.
        safe = f"{safe[:64].rstrip('~')}~~{hashlib.sha256(broker.encode()).hexdigest()[:32]}"
    return safe


def _at_once(work: Callable[[], None]) -> object:
    work()
    return None


class SegmentWriter:
    """Writes the records of one boot of one broker into a folder, which it may share with other brokers.

    `run` is what carries out the work of closing a segment: at once, or a thread's `submit`; one at a time,
    in order. `rest` is called in that work every `PORTION_US`. `on_fault` is told of a segment that could not
    be written, with the rows that are lost; without it the error is raised where the work is carried out.
    """

    def __init__(
        self,
        folder: Path,
        broker: str,
        boot: int,
        *,
        rows_max: int = ROWS_MAX,
        bytes_max: int = BYTES_MAX,
        age_max_s: float = AGE_MAX_S,
        keep_bytes: int = KEEP_BYTES,
        waiting_bytes_max: int = WAITING_BYTES_MAX,
        run: Callable[[Callable[[], None]], object] = _at_once,
        rest: Callable[[], object] = lambda: None,
        on_fault: Callable[[OSError, int], None] | None = None,
    ) -> None:
        self.rows_written = 0
        """Rows in segments that were closed."""
        self.rows_lost = 0
        """Rows that could not be written, or for which there was no room."""
        self._folder = folder
        self._safe = safe_name(broker)
        self._boot = boot
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._age_max_s = age_max_s
        self._keep_bytes = keep_bytes
        self._waiting_bytes_max = waiting_bytes_max
        self._run = run
        self._rest = rest
        self._on_fault = on_fault
        self._open: list[Record | Run] = []
        self._rows = 0
        """Of all that is open."""
        self._bytes = 0
        """About what it takes, the table that is made of it included."""
        self._held_bytes = 0
        """And without, as long as it waits."""
        self._opened_at: float | None = None
        self._waiting_bytes = 0
        self.waiting = 0
        """Segments that are being written, or will be."""
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f".{self._safe}+*{OPEN}"):
            left.unlink(missing_ok=True)
        mine = [one for one in closed_segments(folder) if one.safe == self._safe]
        self._kept = [(one.path, one.path.stat().st_size) for one in mine]
        self._next = 1 + max((one.number for one in mine if one.boot == boot), default=-1)

    def add(self, row: Record | Run) -> None:
        """Take one record, or a run of them; closes the segment if that fills it."""
        if type(row) is Run:
            rows = len(row.numbers)
            if not rows:
                return
            size = RUN_BYTES + rows * _row_bytes(row)
            if self._rows + rows > self._rows_max or self._bytes + size > self._bytes_max:
                self._add_parts(row)
                return
            self._held_bytes += min(size, _held_bytes(row))
        else:
            assert type(row) is Record, "a run or a record"
            rows = 1
            size = (
                ROW_BYTES + RECEIVER_BYTES * len(row.receivers) + len(row.topic or "") + len(row.reason or "")
            )
            self._held_bytes += size
        self._open.append(row)
        self._rows += rows
        self._bytes += size
        if self._rows >= self._rows_max or self._bytes >= self._bytes_max:
            self.close_segment()

    def _add_parts(self, run: Run) -> None:
        """Take a run for the whole of which there is no room, in parts."""
        row_bytes = _row_bytes(run)
        while rows := len(run):
            room = min(rows, self._rows_max - self._rows, (self._bytes_max - self._bytes) // row_bytes)
            part = _part(run, 0, max(1, room))
            run = _part(run, len(part), rows)
            self._open.append(part)
            self._rows += len(part)
            self._bytes += RUN_BYTES + len(part) * row_bytes
            self._held_bytes += min(RUN_BYTES + len(part) * row_bytes, _held_bytes(part))
            if self._rows >= self._rows_max or self._bytes + row_bytes >= self._bytes_max:
                self.close_segment()

    def tick(self, now: float) -> None:
        """Let time pass, in seconds of any clock: closes the segment if it has been open for long enough."""
        if not self._open:
            self._opened_at = None
        elif self._opened_at is None:
            self._opened_at = now
        elif now - self._opened_at >= self._age_max_s:
            self.close_segment()

    def close_segment(self) -> None:
        """Close the open segment, if there is something in it, and begin another."""
        opened, rows, held_bytes = self._open, self._rows, self._held_bytes
        self._open, self._rows, self._bytes, self._held_bytes, self._opened_at = [], 0, 0, 0, None
        if not rows:
            return
        if self.waiting and self._waiting_bytes + held_bytes > self._waiting_bytes_max:
            self.rows_lost += rows
            return
        self.waiting += 1
        self._waiting_bytes += held_bytes
        name = f"{self._safe}+{self._boot:020d}+{self._next:010d}{CLOSED}"
        self._next += 1
        self._run(lambda: self._write(opened, rows, held_bytes, name))

    def close(self) -> None:
        """Close what is open. The owner of a thread then waits for it."""
        self.close_segment()

    def _write(self, opened: list[Record | Run], rows: int, held_bytes: int, name: str) -> None:
        """Make a whole file of some rows. Nothing here is touched by `add`, so it may run on a thread."""
        path = self._folder / name
        hidden = self._folder / f".{name}{OPEN}"
        try:
            size = self._write_hidden(opened, hidden)
            hidden.rename(path)
            _sync_folder(self._folder)
        except OSError as error:
            self.rows_lost += rows
            with contextlib.suppress(OSError):
                hidden.unlink(missing_ok=True)
            if self._on_fault is None:
                raise
            self._on_fault(error, rows)
        else:
            self.rows_written += rows
            self._kept.append((path, size))
            self._remove_oldest()
        finally:
            self.waiting -= 1
            self._waiting_bytes -= held_bytes

    def _write_hidden(self, opened: list[Record | Run], hidden: Path) -> int:
        columns = Columns()
        for portion in _portions(opened):
            columns.add(portion)
            self._rest()
        with hidden.open("wb") as file:
            write_table(columns.packed(), file)
            file.flush()
            os.fsync(file.fileno())
            return file.tell()

    def _remove_oldest(self) -> None:
        total = sum(size for _, size in self._kept)
        # The newest stays, whatever its size.
        while total > self._keep_bytes and len(self._kept) > 1:
            path, size = self._kept.pop(0)
            path.unlink(missing_ok=True)
            total -= size


def prepare() -> None:
    """Load what the first segment needs, which takes 0.3 s: better before there is work than amid it."""
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.json
    import pyarrow.parquet

    # Arrow's own allocator takes memory in huge pages and gives it back when a segment is done: two thirds of
    # what a segment cost was the kernel's filling them with zeros. The system's takes what is used.
    pa.set_memory_pool(pa.system_memory_pool())


def write_table(table: pa.Table, file: IO[bytes]) -> None:
    """Write rows as Parquet, as small as is cheap."""
    import pyarrow.parquet as pq

    # Numbers and identities count up: written as differences they take a twentieth of the room, in less time.
    differences = {
        "n": "DELTA_BINARY_PACKED",
        "at": "DELTA_BINARY_PACKED",
        "message": "DELTA_BYTE_ARRAY",
    }
    words = [name for name in arrow_schema().names if name not in differences]
    with pq.ParquetWriter(
        file,
        table.schema,
        # Spark, DuckDB and pandas all read zstd, which takes a third of what snappy takes here.
        compression="zstd",
        column_encoding=differences,
        use_dictionary=["receivers.list.element" if name == "receivers" else name for name in words],
        # What a reader skips by. The smallest and largest of every column take a third of the time.
        write_statistics=["n", "at", "kind", "topic"],
        # Whether strings came as numbers in a dictionary is nothing that a reader should see.
        store_schema=False,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(arrow_schema().metadata)


def _row_bytes(run: Run) -> int:
    """About what a row of a run takes, that of its table included."""
    lists, topics = run.receivers, run.topics
    words = sum(map(len, (*run.publishers, *topics))) // len(topics)
    if isinstance(lists, Receivers):
        own = RECEIVER_NUMBER_BYTES * len(lists.numbers) // max(1, len(lists))
        return RUN_ROW_BYTES + own + words
    receivers = len(lists[0]) if len(lists) == 1 else sum(map(len, lists)) // max(1, len(lists))
    return RUN_ROW_BYTES + RECEIVER_BYTES * receivers + words


def _held_bytes(run: Run) -> int:
    """About what a run takes as long as it waits. What is one value for all rows takes nothing for each."""
    lists = run.receivers
    if isinstance(lists, Receivers):
        own = lists.numbers.nbytes + lists.ends.nbytes
    else:
        own = 0 if len(lists) == 1 else sum(LIST_BYTES + RECEIVER_BYTES * len(one) for one in lists)
    if len(run.topics) > 1:
        own += sum(TOPIC_BYTES + len(topic) for topic in run.topics)
    for column in (run.numbers, run.latency_us, run.bytes, run.which):
        if isinstance(column, array):
            own += column.itemsize * len(column)
        elif not isinstance(column, range) and len(column) > 1:
            own += NUMBER_BYTES * len(column)
    return RUN_BYTES + own


def _part(run: Run, first: int, end: int) -> Run:
    """Some rows of a run."""
    return msgspec.structs.replace(
        run,
        n=run.n + first,
        latency_us=run.latency_us if len(run.latency_us) <= 1 else run.latency_us[first:end],
        numbers=run.numbers[first:end],
        bytes=run.bytes if len(run.bytes) == 1 else run.bytes[first:end],
        receivers=run.receivers if len(run.receivers) == 1 else run.receivers[first:end],
        which=run.which if len(run.which) == 1 else run.which[first:end],
    )


def _portions(rows: list[Record | Run]) -> Iterator[list[Record | Run]]:
    """Rows in portions that each take about `PORTION_US` to make columns of.

    They are taken out of the list: to let go of all of it at once would hold the interpreter for 10 ms.
    """
    portion: list[Record | Run] = []
    spent = 0.0
    rows.reverse()
    while rows:
        row = rows.pop()
        portion.append(row)
        if isinstance(row, Run):
            lists = row.receivers
            if isinstance(lists, Receivers):
                lists = ((),)
            spent += 1.0 + 0.2 * len(row.topics) + 0.04 * len(row)
            spent += 0.1 * len(lists) + 0.05 * len(lists) * len(lists[0])
        else:
            spent += 0.6 + 0.02 * len(row.receivers)
        if spent >= PORTION_US:
            yield portion
            portion, spent = [], 0.0
    if portion:
        yield portion


def _sync_folder(folder: Path) -> None:
    """Make a rename durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
