"""One log: what one broker has numbered of one topic, in segments.

Entries are appended, then written, then synced; only what is durable is *shown*. So a number once shown
stays with its entry for ever: what a crash takes had not been shown. One thread appends, writes, syncs and
drops; any number of others may read meanwhile, each from one state of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidings.errors import InputError, SetupError
from tidings.history.entries import Entry
from tidings.history.files import Files
from tidings.history.segments import (
    Header,
    Index,
    Point,
    Segment,
    Torn,
    damaged,
    decode,
    frame,
    frame_bytes,
    header_bytes,
    header_size,
    index_path,
    path_of,
    read_frame,
    read_header,
    read_index,
    scan,
)
from tidings.records.holders import Holder

SEGMENT_BYTES = 64 * 1024 * 1024
"""A segment that is larger is closed. Retention goes by segments, and recovery reads the last one whole."""

READ_BYTES = 1024 * 1024
"""Read from a file at a time."""

HEADER_BYTES = 4096
"""Most headers fit into this."""

HEADER_BYTES_MAX = 1024 * 1024
"""No header is larger: MQTT's topic names have 65,535 bytes at most."""


class NoLongerKept(InputError):
    """Entries were asked for that retention has removed."""


@dataclass(frozen=True, slots=True)
class State:
    """What readers see of a log at one moment."""

    segments: tuple[Segment, ...]
    """In order, without a gap; the last one grows."""

    shown: int
    """The number behind the last entry that is shown."""

    end: int
    """Where that entry ends in its segment."""


class Log:
    """One log, opened. `Log.create` makes one; opening recovers what a crash has left."""

    def __init__(self, files: Files, paths: list[str], salt: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Of the paths of all its segments, in order. Damaged says what is wrong with them."""
        self._files = files
        self._segment_bytes = segment_bytes
        self._salt = salt
        self._buffer: list[bytes] = []
        """Frames that are not in the file yet."""
        self._failed: str | None = None
        segments: list[Segment] = []
        for path in paths:
            segment = self._open(path, last=path == paths[-1])
            if segments and segments[-1].next != segment.first:
                raise damaged(
                    files.where(path),
                    f"it begins with entry {segment.first}, and the one before ends before"
                    f" {segments[-1].next}",
                )
            if segments and segments[-1].header.holder != segment.header.holder:
                raise damaged(files.where(path), f"it is a log of {segment.header.holder}")
            segments.append(segment)
        last = segments[-1]
        if last.size < files.size(last.path):
            files.cut(last.path, last.size)
        else:
            # It may be in the system's memory only.
            files.sync(last.path)
        self._durable = last.size
        self._state = State(tuple(segments), last.next, last.size)
        self.name = last.header.name
        self.what = last.header.what
        self.holder = last.header.holder

    @classmethod
    def create(
        cls,
        files: Files,
        name: str,
        what: str,
        holder: Holder,
        salt: int,
        first: int = 0,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> Log:
        """An empty log whose first entry will have a number."""
        path = path_of(name, what, holder, first)
        try:
            files.put(path, header_bytes(Header(name, what, holder, first, salt)))
        except OSError as error:
            raise _unwritable(files.where(path), error) from error
        return cls(files, [path], salt, segment_bytes)

    def _open(self, path: str, last: bool) -> Segment:
        files = self._files
        where = files.where(path)
        try:
            begin = files.read(path, 0, HEADER_BYTES)
            if header_size(begin) > HEADER_BYTES:
                begin = files.read(path, 0, min(header_size(begin), HEADER_BYTES_MAX))
            header, start = read_header(begin, where)
            if path != path_of(header.name, header.what, header.holder, header.first):
                raise damaged(
                    where, f"it says that it is {header.what} of {header.name!r}, from {header.first}"
                )
            segment = Segment(path, header, start, header.first, start)
            size = files.size(path)
            index = None if last else self._read_index(path, header)
            if index is not None and index.size == size:
                segment.next, segment.size = index.next, index.size
                segment.latest_us, segment.points = index.latest_us, index.points
                return segment
            scan(files.read(path, 0, size), segment, where)
            if not last:
                if segment.size != size:
                    raise damaged(where, f"entry {segment.next} is broken, and it is not the last segment")
                files.put(index_path(path), segment.index())
        except OSError as error:
            raise SetupError(f"the log {where} cannot be read: {error}") from error
        return segment

    def _read_index(self, path: str, header: Header) -> Index | None:
        try:
            return read_index(
                self._files.read(index_path(path), 0, self._files.size(index_path(path))), header
            )
        except FileNotFoundError:
            return None

    # What can be seen.

    @property
    def first(self) -> int:
        """The number of the first entry that is still kept."""
        return self._state.segments[0].first

    @property
    def next(self) -> int:
        """The number that the next entry will have."""
        return self._last.next

    @property
    def shown(self) -> int:
        """The number behind the last entry that is durable, and may be read."""
        return self._state.shown

    @property
    def bytes(self) -> int:
        """On disk, indexes aside."""
        return sum(segment.size for segment in self._state.segments)

    @property
    def pending(self) -> bool:
        """Whether some entries are not shown yet."""
        return self._last.next > self._state.shown

    def read(self, start: int, stop: int | None = None) -> Iterator[Entry]:
        """The entries from one number to before another, or to the last shown. All of them, or an error:
        NoLongerKept if some are gone, also while they are being read; Damaged if one is not what was written.
        """
        state = self._state
        first, shown = state.segments[0].first, state.shown
        if start < first:
            raise self._gone(start)
        if start > shown:
            raise InputError(f"entry {start} of {self._called} was never shown; the next will be {shown}")
        return self._read(state, start, shown if stop is None else min(stop, shown))

    def at(self, at_us: int) -> int:
        """The number of the first entry at or after a time; the next to be shown if there is none yet."""
        state = self._state
        for segment in state.segments:
            if segment.latest_us < at_us:
                continue
            for number, time_us, _ in self._frames(state, segment, segment.place_before(at_us)):
                if time_us >= at_us:
                    return number
        return state.shown

    # What the one who owns it does.

    def append(self, entry: Entry) -> None:
        """Take an entry with the next number. It is in memory until it is written."""
        last = self._last
        assert entry.number == last.next, "numbers are dense"
        data = frame(entry, self._durable, last.header.salt)
        self._buffer.append(data)
        last.add(entry.at_us, len(data))

    def write(self) -> None:
        """Hand what was appended to the system: it survives this process."""
        if self._failed is not None:
            raise SetupError(self._failed)
        if self._buffer:
            data = b"".join(self._buffer)
            self._buffer.clear()
            self._do(lambda: self._files.append(self._last.path, data))

    def show(self) -> None:
        """Let what was written be read, durable or not: for those who have chosen so."""
        self.write()
        self._state = State(self._state.segments, self._last.next, self._last.size)
        if self._last.size >= self._segment_bytes:
            self.sync()

    def sync(self) -> None:
        """Make all that was appended durable, and show it."""
        self.write()
        last = self._last
        if last.size > self._durable:
            self._do(lambda: self._files.sync(last.path))
            self._durable = last.size
            self._state = State(self._state.segments, last.next, last.size)
        if last.size >= self._segment_bytes:
            self.roll()

    def roll(self) -> None:
        """Close the segment that grows, unless it is empty, and begin another."""
        last = self._last
        if last.next == last.first:
            return
        if last.size > self._durable or self._buffer:
            self.sync()
            if self._last is not last:
                return
        path = path_of(self.name, self.what, self.holder, last.next)
        header = Header(self.name, self.what, self.holder, last.next, self._salt)
        begin = header_bytes(header)
        self._do(lambda: self._files.put(index_path(last.path), last.index()))
        self._do(lambda: self._files.put(path, begin))
        self._durable = len(begin)
        fresh = Segment(path, header, len(begin), last.next, len(begin))
        self._state = State((*self._state.segments, fresh), last.next, len(begin))

    def roll_older(self, before_us: int) -> None:
        """Close the segment that grows if it was begun before a time, so that it can be dropped some day."""
        begun_us = self._last.begun_us
        if begun_us is not None and begun_us < before_us:
            self.roll()

    def drop_older(self, before_us: int) -> None:
        """Drop segments that have nothing from this time or later; the one that grows stays."""
        while (oldest_us := self.oldest_us) is not None and oldest_us < before_us:
            self.drop_oldest()

    @property
    def oldest_us(self) -> int | None:
        """The latest time in the segment that would be dropped next; None if only one is left."""
        segments = self._state.segments
        return segments[0].latest_us if len(segments) > 1 else None

    def drop_oldest(self) -> None:
        """Drop the oldest segment; the one that grows must not be."""
        state = self._state
        assert len(state.segments) > 1, "the segment that grows has the next number, and stays"
        self._state = State(state.segments[1:], state.shown, state.end)
        self._remove(state.segments[0])

    def remove(self) -> None:
        """Drop it all. Nothing is asked of this log any more."""
        for segment in self._state.segments:
            self._remove(segment)

    # Within.

    @property
    def _last(self) -> Segment:
        return self._state.segments[-1]

    @property
    def _called(self) -> str:
        return f"the {self.what} of {self.name!r} at {self.holder}"

    def _gone(self, number: int) -> NoLongerKept:
        return NoLongerKept(
            f"entry {number} of {self._called} is no longer kept; the first is {self.first}; read from there,"
            " or keep more"
        )

    def _do(self, work: Callable[[], None]) -> None:
        """Change files. After an error nothing is known of them, so nothing more is written or shown."""
        try:
            work()
        except OSError as error:
            failure = _unwritable(self._files.where(self._last.path), error)
            self._failed = str(failure)
            raise failure from error

    def _remove(self, segment: Segment) -> None:
        # In this order: an index without its segment is of no harm.
        self._do(lambda: self._files.remove(segment.path))
        self._do(lambda: self._files.remove(index_path(segment.path)))

    def _read(self, state: State, start: int, stop: int) -> Iterator[Entry]:
        for segment in state.segments:
            end = state.shown if segment is state.segments[-1] else segment.next
            if end <= start or segment.first >= stop:
                continue
            for number, _, body in self._frames(state, segment, segment.place_of(start)):
                if number < start:
                    continue
                if number >= stop:
                    return
                entry = decode(body)
                if entry.number != number:
                    raise damaged(
                        self._files.where(segment.path), f"entry {number} says it is {entry.number}"
                    )
                yield entry

    def _frames(self, state: State, segment: Segment, place: Point) -> Iterator[tuple[int, int, memoryview]]:
        """Number, time and body of all entries of a segment that are shown, from a place on."""
        growing = segment is state.segments[-1]
        end, stop = (state.end, state.shown) if growing else (segment.size, segment.next)
        salt = segment.header.salt
        number, offset = place.number, place.offset
        data, at = b"", 0
        """What was read, and how far it is used; `offset` is where it ends in the file."""
        while number < stop:
            try:
                begin, behind, at_us = read_frame(data, at, salt)
            except Torn:
                more = min(end - offset, max(READ_BYTES, frame_bytes(data, at)))
                if more <= 0:
                    raise damaged(self._files.where(segment.path), f"entry {number} is broken") from None
                try:
                    read = self._files.read(segment.path, offset, more)
                except FileNotFoundError:
                    raise self._gone(number) from None
                except OSError as error:
                    raise SetupError(
                        f"the log {self._files.where(segment.path)} cannot be read: {error}"
                    ) from error
                if len(read) < more:
                    raise damaged(self._files.where(segment.path), "it is shorter than it was") from None
                data, at = data[at:] + read, 0
                offset += more
                continue
            yield number, at_us, memoryview(data)[begin:behind]
            at = behind
            number += 1


def _unwritable(where: str, error: OSError) -> SetupError:
    return SetupError(
        f"the log {where} cannot be written: {error.strerror or error}; free space on its disk, or keep less"
        " (`keep` of the topic, `keep_bytes` of the broker), and start the broker again"
    )
