"""Reports of a file of JSON lines, read where the work is done, by the rules of `tidings gather`.

A report of a file is named by the number of its line, and a task that begins in the middle of the file must
know it. So the file is cut into pieces at line ends first, which looks for line feeds and for nothing else.
Each piece is then a task, which packs its reports for the shuffle before Spark sees them. A line that is
refused is a row of the result already: with its time, if that can be read, and with what `tidings gather`
says of it.
"""

from __future__ import annotations

import errno
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from zlib import crc32

import msgspec
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from tidings.errors import InputError, PayloadError
from tidings.gathering.replay import Reader, mixed_kinds
from tidings.language import json_lines, keys, timestamps
from tidings.language.fields import Type, find
from tidings.language.json_lines import LINE_BYTES_MAX
from tidings.language.keys import Key
from tidings.language.payloads import INT_MAX, INT_MIN
from tidings.pipeline.gather import batch, engines
from tidings.pipeline.gather.frames import BUCKET, spark_schema
from tidings.pipeline.gather.layout import REFUSED, Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIECE_BYTES_MIN, PIECE_BYTES_MAX = 4 * 2**20, 64 * 2**20
"""The most bytes of a piece bound the memory of its task; fewer than the least are not worth a task."""

PIECES_PER_CORE = 4
"""Some pieces take longer than others."""

BLOCK_BYTES = 2**20
"""Of a file are read at once."""

CHUNK_ROWS = 2_048
"""Reports that become columns at once. If more wait, Python's garbage collector looks at each again."""

PACKED_CHUNKS = batch.PACK_ROWS // CHUNK_ROWS
"""Chunks that are packed at once."""

PACKED = batch.PACKED.append(pa.field("what", pa.string()))
"""As reports are packed; and in the same way what else there is to say of lines, in bucket 0."""

REPORTS = "reports"
"""The value has reports."""

TOLD = "told"
"""The value has rows of the result: lines that are refused."""

FIRST = "first"
"""The value has the first report of each kind of time."""

KINDS = pa.schema([("iso", pa.bool_()), ("line", pa.int64())])

Kinds = dict[bool, int]
"""The first line with a report whose time is a text (True), and the first where it is seconds (False)."""


class Piece(NamedTuple):
    """Some lines of a file that follow each other."""

    begin: int
    end: int
    """The bytes from the one to the other."""

    first: int
    """The number of its first line."""

    lines: int


def piece_bytes(size: int, cores: int) -> int:
    """How long pieces of a file of so many bytes are."""
    return min(PIECE_BYTES_MAX, max(PIECE_BYTES_MIN, size // (cores * PIECES_PER_CORE)))


class File:
    """A file of reports, cut into pieces for a machine of so many cores."""

    def __init__(self, path: Path, cores: int) -> None:
        """InputError if it is none that can be cut."""
        self.name = str(path)
        self.path = path.absolute()
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is no file that can be read in pieces; write its lines to one")
        try:
            size = piece_bytes(path.stat().st_size, cores)
            with path.open("rb", buffering=0) as opened:
                self.pieces = list(cut(opened.read, size))
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from None

    @property
    def rows(self) -> int:
        """Lines, of which some may be blank."""
        return sum(piece.lines for piece in self.pieces)


def cut(read: Callable[[int], bytes], size: int) -> Iterator[Piece]:
    """Pieces of so many bytes or a little more, of what a binary file gives."""
    at, begin, end, first, lines = 0, 0, 0, 1, 0
    while block := read(BLOCK_BYTES):
        if found := block.count(b"\n"):
            lines += found
            end = at + block.rindex(b"\n") + 1
            if end - begin >= size:
                yield Piece(begin, end, first, lines)
                begin, first, lines = end, first + lines, 0
        at += len(block)
    if begin < at:
        # The last line may lack its end.
        yield Piece(begin, at, first, lines + (end < at))


def gather(spark: SparkSession, file: File, layout: Layout, *, partitions: int) -> DataFrame:
    """What is told of the reports on the lines of a file; as `batch.gather` tells it."""
    count = len(file.pieces)
    packed = spark.range(0, count, 1, max(1, count)).mapInArrow(
        partial(_packed, layout, file.path, file.pieces, partitions), spark_schema(PACKED)
    )
    dealt = packed.repartitionById(partitions, BUCKET)
    return dealt.mapInArrow(partial(_gathered, layout, file.name), spark_schema(layout.told))


def _packed(
    layout: Layout, file: Path, pieces: Sequence[Piece], buckets: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    reports, refused = list[pa.RecordBatch](), list[pa.Table]()
    kinds = Kinds()
    for some in batches:
        for number in some.column(0).to_pylist():
            for rows, told in taken(layout, lines_of(file, pieces[number]), buckets, kinds):
                reports += rows.to_batches()
                refused.append(told)
                if len(refused) == PACKED_CHUNKS:
                    yield from _values(layout, reports, refused, buckets)
                    reports, refused = [], []
    yield from _values(layout, reports, refused, buckets)
    yield _value(pa.table([list(kinds), list(kinds.values())], schema=KINDS), FIRST)


def _values(
    layout: Layout, reports: Sequence[pa.RecordBatch], refused: Sequence[pa.Table], buckets: int
) -> Iterator[pa.RecordBatch]:
    """As values of bytes: reports by their buckets, and what was refused in any."""
    for one in batch.pack(layout, iter(reports), buckets=buckets, all_buckets=False):
        yield one.append_column("what", pa.array([REPORTS]))
    told = pa.concat_tables([layout.told.empty_table(), *refused])
    if told.num_rows:
        yield _value(told, TOLD)


def _value(table: pa.Table, what: str) -> pa.RecordBatch:
    return pa.record_batch([[0], [None], [engines.to_bytes(table)], [what]], schema=PACKED)


def _gathered(layout: Layout, name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All reports of a task, and lines that were refused."""
    values, kinds = list[pa.Buffer](), Kinds()
    for some in batches:
        for value, what in zip(some.column("rows"), some.column("what").to_pylist(), strict=True):
            if what == REPORTS:
                values.append(value.as_buffer())
                continue
            table = engines.from_bytes(value.as_buffer())
            if what == TOLD:
                yield from table.to_batches(max_chunksize=batch.OUT_ROWS)
                continue
            for first in table.to_pylist():
                kinds[first["iso"]] = min(first["line"], kinds.get(first["iso"], first["line"]))
    check_kinds(name, kinds)
    if values:
        told = engines.gather(layout, batch.unpacked(layout, values))
        yield from told.to_batches(max_chunksize=batch.OUT_ROWS)


def check_kinds(name: str, kinds: Kinds) -> None:
    """InputError if a file has times of both kinds: it names the line at which `tidings gather` stops."""
    if len(kinds) > 1:
        (first, _), (line, iso) = sorted((line, iso) for iso, line in kinds.items())
        raise InputError(f"{name}:{line}: {mixed_kinds(iso=iso, first=first)}")


def lines_of(file: Path, piece: Piece) -> Iterator[tuple[int, bytes]]:
    """The lines of a piece, on whatever machine this is."""
    left = piece.end - piece.begin
    try:
        with file.open("rb", buffering=BLOCK_BYTES) as opened:
            opened.seek(piece.begin)

            def readline(limit: int) -> bytes:
                nonlocal left
                line = opened.readline(min(limit, left))
                left -= len(line)
                return line

            yield from json_lines.texts(readline, piece.first)
    except OSError as error:
        # By its number: the text of the error would read as if the table could not be written.
        raise InputError(
            f"{file} cannot be read on {platform.node()} ({errno.errorcode.get(error.errno or 0, 'error')}); "
            "all workers must see it under this path, such as on a shared mount"
        ) from None


def taken(
    layout: Layout, lines: Iterator[tuple[int, bytes]], buckets: int, kinds: Kinds
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """The reports of lines as the rows of a layout, each with its bucket; and rows of what is refused.

    `kinds` is of the lines before these, and then of these too.
    """
    reader, typed = Reader(layout.topic), Typed(layout)
    reports = list[_Taken]()
    refused = list[dict[str, Any]]()
    for number, text in lines:
        if (found := typed.take(text)) is not None:
            iso, at_us, key, leaves = found
            kinds.setdefault(iso, number)
            reports.append((number, at_us, key, leaves))
        else:
            line: Mapping[str, Any] = {}
            try:
                line = json_lines.decode(text)
                one = reader.read(number, line)
            except PayloadError as error:
                when = _at_us(reader, line)
                refused.append({"state": REFUSED, "at": when, "event": number, "reason": str(error)})
            else:
                kinds.setdefault(isinstance(line["at"], str), number)
                leaves = [find(one.fields, field.path) for field in layout.fields]
                reports.append((number, one.at_us, one.key, leaves))
        if len(reports) + len(refused) == CHUNK_ROWS:
            yield _table(layout, reports, buckets), pa.Table.from_pylist(refused, schema=layout.told)
            reports, refused = [], []
    yield _table(layout, reports, buckets), pa.Table.from_pylist(refused, schema=layout.told)


def _at_us(reader: Reader, line: Mapping[str, Any]) -> int | None:
    try:
        return reader.at_us(line)
    except PayloadError:
        return None


_Taken = tuple[int, int, Key, list[Any]]
"""A report: its line, its time, its key, and what it says of each field."""


def _table(layout: Layout, reports: Sequence[_Taken], buckets: int) -> pa.Table:
    schema = layout.rows.append(pa.field(BUCKET, pa.int32()))
    if not reports:
        return schema.empty_table()
    numbers, times, found, leaves = zip(*reports, strict=True)
    columns: dict[str, Sequence[Any]] = {"report": numbers, "at": times}
    columns |= zip(layout.names, zip(*leaves, strict=True), strict=True)
    columns |= {name: [key[int(name[1:])] for key in found] for name, _ in layout.computed}
    columns[BUCKET] = [crc32(_ENCODER.encode(key)) % buckets for key in found]
    return pa.table(columns, schema=schema)


class Typed:
    """Takes lines on which all values are written as they are declared, as they nearly always are.

    Then msgspec checks them while it decodes, and a line takes a third of the time. What is taken is what
    `Reader` makes of it. Whatever may be otherwise is not taken, and is for `Reader` to judge: a value of
    another type or out of range, a key that is unknown or comes twice, an escape, a report without a key.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._reader = Reader(layout.topic)
        self._decode = None
        if not any(field.many for field in layout.fields):
            fields, self._places = _struct(layout.tree, layout)
            line = msgspec.defstruct("Line", [("at", _Int | float | str), ("fields", fields)])
            self._decode = msgspec.json.Decoder(line).decode
        self._floats = [n for n, field in enumerate(layout.fields) if field.type is Type.FLOAT]
        self._times = [n for n, field in enumerate(layout.fields) if field.type is Type.TIMESTAMP]
        self._key_paths = [(path, layout.places[path]) for item in layout.key for path in item.paths]

    def take(self, text: bytes) -> tuple[bool, int, Key, list[Any]] | None:
        """Whether the time of a report is a text, the time, the key and the fields."""
        if self._decode is None or len(text) > LINE_BYTES_MAX or b"\\" in text:
            return None
        try:
            line: Any = self._decode(text)
            # Every key brings a colon, and all others are in texts: if a key was lost, there are fewer.
            if text.count(b":") != _ENCODER.encode(line).count(b":"):
                return None
            leaves: list[Any] = [None] * len(self._layout.fields)
            _fill(leaves, line.fields, self._places)
            for place in self._floats:
                if leaves[place] is not None:
                    leaves[place] += 0.0  # -0.0 is the 0.0 that it equals
            for place in self._times:
                if leaves[place] is not None:
                    leaves[place] = timestamps.parse(leaves[place])
            key = self._key(leaves)
            if key is None:
                return None
            return isinstance(line.at, str), self._reader.at_us({"at": line.at}), key, leaves
        except (msgspec.DecodeError, PayloadError, ValueError, RecursionError):
            return None

    def _key(self, leaves: Sequence[Any]) -> Key | None:
        event: dict[str, Any] = {}
        for path, place in self._key_paths:
            group = event
            for name in path[:-1]:
                group = group.setdefault(name, {})
            group[path[-1]] = leaves[place]
        return keys.evaluate(self._layout.key, event)


_Places = list["int | _Places"]
"""For each member of a group the place of the field, or those of its members."""


def _struct(tree: Mapping[str, Any], layout: Layout) -> tuple[type[msgspec.Struct], _Places]:
    """Groups of fields as msgspec is told of them. A field may be there or not, and be null."""
    members, places = list[tuple[str, Any, Any]](), _Places()
    for number, node in enumerate(tree.values()):
        inner: Any
        if isinstance(node, dict):
            inner, place = _struct(node, layout)
        else:
            place = node[0]
            inner = _TYPES[layout.fields[place].type]
        members.append((f"n{number}", inner | None | UnsetType, UNSET))
        places.append(place)
    # A name may be none of Python's.
    renamed = {f"n{number}": name for number, name in enumerate(tree)}
    return msgspec.defstruct("Fields", members, rename=renamed), places


def _fill(leaves: list[Any], group: msgspec.Struct, places: _Places) -> None:
    for value, place in zip(msgspec.structs.astuple(group), places, strict=True):
        if value is None or value is UNSET:
            continue
        if isinstance(place, int):
            leaves[place] = value
        else:
            _fill(leaves, value, place)


_Int = Annotated[int, Meta(ge=INT_MIN, le=INT_MAX)]

_TYPES: Mapping[Type, Any] = {
    Type.STRING: str,
    Type.INT: _Int,
    # Up to here whole numbers are floats exactly. A larger one may have more than 64 bits.
    Type.FLOAT: Annotated[float, Meta(gt=-(2.0**53), lt=2.0**53)],
    Type.BOOL: bool,
    Type.TIMESTAMP: str,
}

_ENCODER = msgspec.json.Encoder()
