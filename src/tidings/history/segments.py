r"""Segments: the files of a log, and what is in them byte by byte.

    segment  = header frame*
    header   = "TIDLOG" version:u16 length:u32 crc:u32 body                 the body is a `Header`
    frame    = "\xabTe\xd1" crc:u32 length:u32 synced:u32 at_us:i64 body    the body is an `Entry`

Numbers are little-endian, bodies MessagePack. The checksum of a frame covers all behind it, and begins with
the segment's salt, so that no payload can look like a frame. `synced` is how much of the segment was durable
when the frame was made. By that a torn tail is told from damage: where a frame is broken, and a whole one
behind it says that it was durable once, the file was damaged, and nothing is dropped in silence.

A segment that is full is closed and gets an `Index` beside it, by which an entry is found by number or time.
An index that is lost or broken is made anew. Nothing here knows which segments make a log, or touches a file.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from tidings.errors import SetupError
from tidings.history.entries import Entry
from tidings.records.holders import Holder
from tidings.records.segments import safe_name

FORMAT = 2
"""Of a segment; no other is read. Format 1 named the broker without its incarnation, see `upgraded`."""

SUFFIX = ".log"
INDEX_SUFFIX = ".index"

MAGIC = b"TIDLOG"
FRAME = b"\xabTe\xd1"

HOLDER_CHARACTERS_MAX = 160
"""Of a holder in the name of a file, which may have 255."""

POINT_BYTES = 64 * 1024
"""An entry is found by reading at most so much: a point of the index for each."""

_HEAD = struct.Struct("<6sHII")
_FRAME = struct.Struct("<4sIIIq")
_CHECKED = struct.Struct("<IIq")
FRAME_BYTES = _FRAME.size

_NAME = re.compile(r"(?P<what>[a-z]+)\+(?P<holder>[^+]+)\+(?P<first>[0-9]{20})\.log")

_entry_encoder = msgspec.msgpack.Encoder()
_entry_decoder = msgspec.msgpack.Decoder(Entry)


class Header(msgspec.Struct, frozen=True):
    """What a segment says about itself."""

    name: str
    """The topic as declared."""

    what: str
    holder: Holder
    """Under whose name entries are numbered."""

    first: int
    """The number of the first entry."""

    salt: int
    """Where checksums begin."""


class _Header1(msgspec.Struct, frozen=True):
    """The same in format 1."""

    name: str
    what: str
    holder: str
    first: int
    salt: int


class Point(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """A place in a segment from which it can be read."""

    number: int
    offset: int

    latest_us: int
    """The latest time of all entries before, in this segment."""


class Index(msgspec.Struct, frozen=True):
    """What there is to know about a closed segment without reading it."""

    next: int
    """The number behind the last."""

    size: int
    latest_us: int
    """The latest time of all entries; -1 if there are none."""

    points: list[Point]


class Damaged(SetupError):
    """A file of the log is not what was written; carries no more than the message for the operator."""


class Torn(Exception):
    """Bytes that are not a whole frame."""


@dataclass(slots=True)
class Segment:
    """One file of a log, and what is known of it. Points are only ever added, by the one who appends."""

    path: str
    header: Header
    start: int
    """Where the first frame is."""

    next: int
    size: int
    latest_us: int = -1
    points: list[Point] = field(default_factory=list)
    begun_us: int | None = None
    """The time of the first entry, where it was read or appended since the log was opened."""

    @property
    def first(self) -> int:
        return self.header.first

    def add(self, at_us: int, size: int) -> None:
        """A frame comes at the end."""
        if not self.points or self.size - self.points[-1].offset >= POINT_BYTES:
            self.points.append(Point(self.next, self.size, self.latest_us))
        if self.begun_us is None:
            self.begun_us = at_us
        self.next += 1
        self.size += size
        self.latest_us = max(self.latest_us, at_us)

    def place_of(self, number: int) -> Point:
        """The last point at or before an entry."""
        found = bisect_right(self.points, number, key=lambda point: point.number)
        return self.points[found - 1] if found else Point(self.first, self.start, -1)

    def place_before(self, at_us: int) -> Point:
        """The last point before which all entries are older."""
        found = bisect_left(self.points, at_us, key=lambda point: point.latest_us)
        return self.points[found - 1] if found else Point(self.first, self.start, -1)

    def index(self) -> bytes:
        body = msgspec.msgpack.encode(Index(self.next, self.size, self.latest_us, self.points))
        return zlib.crc32(body, self.header.salt).to_bytes(4, "little") + body


def folder_of(name: str) -> str:
    """The folder of a topic's logs: below the root, whatever the name.

    >>> folder_of("roads/+road/accidents"), folder_of("..")
    ('roads~2f~2broad~2faccidents', '~2e.')
    """
    return safe_name(name)


def path_of(name: str, what: str, holder: Holder, first: int) -> str:
    """Where a segment is.

    >>> path_of("roads", "events", Holder("a/b", 1763445274123), 0)
    'roads/events+a%2Fb.1763445274123+00000000000000000000.log'
    """
    text = str(holder)
    if len(text) > HOLDER_CHARACTERS_MAX:
        # No holder has a tilde in its text.
        text = f"{text[:64]}~{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    return f"{folder_of(name)}/{what}+{text}+{first:020d}{SUFFIX}"


def index_path(path: str) -> str:
    return path.removesuffix(SUFFIX) + INDEX_SUFFIX


def first_of(name: str) -> int | None:
    """The number of the first entry of the segment that a file's name is of; None if it is not one."""
    found = _NAME.fullmatch(name)
    return int(found["first"]) if found is not None else None


AnyHeader = TypeVar("AnyHeader", Header, _Header1)


def header_bytes(header: Header) -> bytes:
    """How a segment begins."""
    body = msgspec.msgpack.encode(header)
    return _HEAD.pack(MAGIC, FORMAT, len(body), zlib.crc32(body)) + body


def header_size(data: bytes) -> int:
    """How long the header that begins here says it is; 0 if that cannot be seen."""
    return _HEAD.size + _HEAD.unpack_from(data)[2] if len(data) >= _HEAD.size else 0


def read_header(data: bytes, where: str) -> tuple[Header, int]:
    """The header of a segment, and where it ends. `data` has the first bytes of the file."""
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise Damaged(f"{where} is not a segment of a log; move it out of the broker's folder")
    _, version, _, _ = _HEAD.unpack_from(data)
    if version != FORMAT:
        raise Damaged(
            f"the log {where} has format {version}, and this release reads format {FORMAT}; start the broker"
            " with the release that wrote it, or move all files of this log away: it then begins anew"
        )
    return _body(data, where, Header)


def _body(data: bytes, where: str, kind: type[AnyHeader]) -> tuple[AnyHeader, int]:
    _, _, length, checksum = _HEAD.unpack_from(data)
    body = data[_HEAD.size : _HEAD.size + length]
    if len(body) < length or zlib.crc32(body) != checksum:
        raise damaged(where, "its header is not whole")
    try:
        return msgspec.msgpack.decode(body, type=kind), _HEAD.size + length
    except msgspec.MsgspecError as error:
        raise damaged(where, f"its header cannot be read: {error}") from error


def is_format_1(begin: bytes) -> bool:
    """Whether a file begins as a segment of format 1."""
    return begin.startswith(MAGIC + b"\x01\x00") and len(begin) >= _HEAD.size


def upgraded(data: bytes, own: Holder, where: str) -> tuple[str, bytes] | None:
    """A segment of format 1 as one of this release, and its path; None if it is a copy of another broker's.

    Entries that the broker numbered itself belong to the life that it has now. Of which life a copy is,
    nobody knows: there may be two in it.
    """
    old, start = _body(data, where, _Header1)
    if old.holder != own.broker:
        return None
    header = Header(old.name, old.what, own, old.first, old.salt)
    # The header grows by less than a frame has, so what `synced` says stays good enough to find damage.
    return path_of(header.name, header.what, own, header.first), header_bytes(header) + data[start:]


def read_index(data: bytes, header: Header) -> Index | None:
    """The index of a segment; None if it is broken."""
    if zlib.crc32(data[4:], header.salt).to_bytes(4, "little") != data[:4]:
        return None
    try:
        return msgspec.msgpack.decode(data[4:], type=Index)
    except msgspec.MsgspecError:
        return None


def frame(entry: Entry, synced: int, salt: int) -> bytes:
    """An entry as bytes of a segment."""
    body = _entry_encoder.encode(entry)
    checksum = zlib.crc32(body, zlib.crc32(_CHECKED.pack(len(body), synced, entry.at_us), salt))
    return _FRAME.pack(FRAME, checksum, len(body), synced, entry.at_us) + body


def read_frame(data: bytes, offset: int, salt: int) -> tuple[int, int, int]:
    """Where the body of the frame at an offset begins and ends, and its time; Torn if it is not whole."""
    try:
        magic, checksum, length, synced, at_us = _FRAME.unpack_from(data, offset)
    except struct.error:
        raise Torn from None
    begin = offset + FRAME_BYTES
    end = begin + length
    if magic != FRAME or end > len(data):
        raise Torn
    if (
        zlib.crc32(memoryview(data)[begin:end], zlib.crc32(_CHECKED.pack(length, synced, at_us), salt))
        != checksum
    ):
        raise Torn
    return begin, end, at_us


def frame_bytes(data: bytes, offset: int) -> int:
    """How long the frame at an offset says it is; 0 if that cannot be seen."""
    if len(data) - offset < FRAME_BYTES:
        return 0
    return FRAME_BYTES + int.from_bytes(data[offset + 8 : offset + 12], "little")


def decode(body: bytes | memoryview) -> Entry:
    """The entry in a frame."""
    return _entry_decoder.decode(body)


def scan(data: bytes, segment: Segment, where: str) -> None:
    """Go through a whole segment, from its header on, and note what is in it up to the first torn frame.

    Damaged if a frame that is broken was durable once.
    """
    salt = segment.header.salt
    offset = segment.start
    while offset < len(data):
        try:
            _, end, at_us = read_frame(data, offset, salt)
        except Torn:
            _refuse_damage(data, offset, segment, where)
            return
        segment.add(at_us, end - offset)
        offset = end


def _refuse_damage(data: bytes, broken: int, segment: Segment, where: str) -> None:
    for offset in _frames_behind(data, broken):
        try:
            read_frame(data, offset, segment.header.salt)
        except Torn:
            continue
        if int.from_bytes(data[offset + 12 : offset + 16], "little") > broken:
            raise damaged(where, f"entry {segment.next}, at byte {broken}, is not what was written")


def _frames_behind(data: bytes, offset: int) -> Iterator[int]:
    while (offset := data.find(FRAME, offset + 1)) >= 0:
        yield offset


def damaged(where: str, why: str) -> Damaged:
    """What an operator is told."""
    return Damaged(
        f"the log {where} is damaged: {why}; bring it back from a copy, or move all files of this log away:"
        " it then begins anew"
    )
