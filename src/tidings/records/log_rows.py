"""The entries of a log as rows of Arrow: the declared fields as columns, then where each entry is from.

    fields as declared    string, int64, double, bool, timestamp in UTC; a group is a struct, a union a list
    _topic                as published
    _holder, _seq         under whose name the entry is numbered (`records.holders`), and its number there
    _at                   when it was taken, in microseconds
    _event, _version, _reports, _complete, _state    of what was told on a gathered topic
    _report               of a report: its identity
    _fields, _payload     on topics that keep undeclared fields: these as JSON; the bytes of what is no object

Almost every payload is as the topic declares, and msgspec decodes it straight to its types. Where one is not,
the values are taken one by one. A value that does not fit the declaration of today, which an older one
let in, is null. How entries come here, and how rows travel, is not known here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tidings.errors import InputError, PayloadError
from tidings.language import payloads
from tidings.language.fields import TOPIC, Path, Type, find, path_text
from tidings.language.payloads import Encoding, encoding_of
from tidings.language.reports import Shape
from tidings.language.topics import Topic, UnknownFields

if TYPE_CHECKING:
    import pyarrow as pa

    from tidings.language.filters import Filter

EVENTS, REPORTS = "events", "reports"
KINDS = (EVENTS, REPORTS)
"""What can be read of a topic: messages and told events, or the reports that were kept."""

Columns = Mapping[str, Any]
"""Declared fields by name: a type's name, a list of one such, or an object of further columns."""


class LogEntry(Protocol):
    """What is asked of an entry; `history.entries` has it."""

    @property
    def number(self) -> int: ...
    @property
    def at_us(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def content_type(self) -> str: ...
    @property
    def event(self) -> str | None: ...
    @property
    def version(self) -> int | None: ...
    @property
    def reports(self) -> int | None: ...
    @property
    def complete(self) -> bool | None: ...
    @property
    def state(self) -> str | None: ...
    @property
    def report(self) -> str | None: ...


class Form(msgspec.Struct, frozen=True):
    """All that decides which columns there are; plain values, fit for JSON."""

    fields: dict[str, Any]
    """As `Columns`."""

    what: str = EVENTS
    """One of KINDS."""

    gathered: bool = False
    """Whether the topic turns reports into events."""

    open: bool = False
    """Whether undeclared fields are kept."""

    @property
    def told(self) -> bool:
        """Whether rows are versions of events."""
        return self.gathered and self.what == EVENTS

    @property
    def reported(self) -> bool:
        """Whether rows are reports of a gathered topic."""
        return self.gathered and self.what == REPORTS


def form_of(topic: Topic, what: str = EVENTS) -> Form:
    """The columns of a topic's log."""
    columns: dict[str, Any] = {}
    for path, field in topic.fields.items():
        group = columns
        for name in path[:-1]:
            group = group.setdefault(name, {})
        group[path[-1]] = [field.type.value] if field.many else field.type.value
    return Form(columns, what, topic.gathering is not None, topic.unknown_fields is UnknownFields.KEEP)


def arrow_schema(form: Form) -> pa.Schema:
    """The schema of a log's rows. InputError where a declared field has the name of one of our columns."""
    import pyarrow as pa

    own = [
        ("_topic", pa.string()),
        ("_holder", pa.string()),
        ("_seq", pa.int64()),
        ("_at", pa.int64()),
    ]
    if form.told:
        own += [
            ("_event", pa.string()),
            ("_version", pa.int64()),
            ("_reports", pa.int64()),
            ("_complete", pa.bool_()),
            ("_state", pa.string()),
        ]
    if form.reported:
        own.append(("_report", pa.string()))
    if form.open:
        own += [("_fields", pa.string()), ("_payload", pa.binary())]
    names = {name for name, _ in own}
    for name in form.fields:
        if name.casefold() in names:
            raise InputError(
                f"the declared field {path_text((name,))} has the name of a column of the log; rename the "
                "field to read the topic"
            )
    return pa.schema([pa.field(name, _arrow(kind)) for name, kind in form.fields.items()] + own)


def _arrow(kind: Any) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, Mapping):
        return pa.struct([pa.field(name, _arrow(inner)) for name, inner in kind.items()])
    if isinstance(kind, list):
        return pa.list_(pa.field("element", _arrow(kind[0])))
    return {
        Type.STRING: pa.string(),
        Type.INT: pa.int64(),
        Type.FLOAT: pa.float64(),
        Type.BOOL: pa.bool_(),
        Type.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    }[Type(kind)]


class Rows:
    """Makes the rows of one topic; made once for many entries."""

    def __init__(self, topic: Topic, what: str = EVENTS, where: Filter | None = None) -> None:
        self.form = form_of(topic, what)
        self.schema = arrow_schema(self.form)
        self._where = where
        self._about_topic = where is not None and any(path[0] == TOPIC for path in where.paths)
        # What the declaration does not have was dropped when it was taken, or came under an older one.
        closed = UnknownFields.KEEP if self.form.open else UnknownFields.DROP
        self._shape = Shape(dataclasses.replace(topic, unknown_fields=closed))
        self._topic = topic
        self._levels = tuple(topic.pattern.names)
        struct = _struct(self.form.fields)
        self._decoders: dict[Encoding, Callable[[bytes], Any]] = {
            Encoding.JSON: msgspec.json.Decoder(struct).decode,
            Encoding.MSGPACK: msgspec.msgpack.Decoder(struct).decode,
        }
        self._empty = struct()

    def batch(self, holder: str, entries: Sequence[LogEntry]) -> pa.RecordBatch:
        """The rows of some entries of one holder's log, in their order; `where` may leave some out."""
        import pyarrow as pa

        if self._where is None and not self.form.open and entries:
            columns = self._quick(entries)
            if columns is not None:
                return pa.RecordBatch.from_arrays([*columns, *self._own(holder, entries)], schema=self.schema)
        kept, rows, rest = self._one_by_one(entries)
        declared = [pa.array([row.get(name) for row in rows], self.schema.field(name).type)
                    for name in self.form.fields]  # fmt: skip
        return pa.RecordBatch.from_arrays([*declared, *self._own(holder, kept, rest)], schema=self.schema)

    def _own(
        self,
        holder: str,
        entries: Sequence[LogEntry],
        rest: Sequence[tuple[str | None, bytes | None]] = (),
    ) -> Iterator[pa.Array]:
        """Our columns, in the order of the schema."""
        import pyarrow as pa

        yield pa.array([entry.topic for entry in entries], pa.string())
        yield pa.repeat(pa.scalar(holder, pa.string()), len(entries))
        yield pa.array([entry.number for entry in entries], pa.int64())
        yield pa.array([entry.at_us for entry in entries], pa.int64())
        if self.form.told:
            yield pa.array([entry.event for entry in entries], pa.string())
            yield pa.array([entry.version for entry in entries], pa.int64())
            yield pa.array([entry.reports for entry in entries], pa.int64())
            yield pa.array([entry.complete for entry in entries], pa.bool_())
            yield pa.array([entry.state for entry in entries], pa.string())
        if self.form.reported:
            yield pa.array([entry.report for entry in entries], pa.string())
        if self.form.open:
            yield pa.array([text for text, _ in rest], pa.string())
            yield pa.array([data for _, data in rest], pa.binary())

    # Together.

    def _quick(self, entries: Sequence[LogEntry]) -> list[pa.Array] | None:
        """The columns of the declared fields; None where some payload is not just as declared."""
        import pyarrow as pa

        try:
            rows: list[Any] = []
            for content_type, group in groupby(entries, key=lambda entry: entry.content_type):
                decode = self._decoders[encoding_of(content_type or None)]
                # A version without fields has no payload.
                rows += [decode(one.payload) if one.payload else self._empty for one in group]
            columns = []
            # Tuples, turned on their side: twice as quick as asking each row for each field.
            sideways = zip(*map(msgspec.structs.astuple, rows), strict=True)
            for at, ((name, kind), column) in enumerate(zip(self.form.fields.items(), sideways, strict=True)):
                values: Sequence[Any] = column
                if isinstance(kind, Mapping):
                    values = [_nested(value, kind) for value in values]
                if name in self._levels:
                    values = self._named(name, values, entries)
                columns.append(pa.array(values, self.schema.field(at).type))
            return columns
        except (msgspec.DecodeError, UnicodeDecodeError, PayloadError, pa.ArrowInvalid, OverflowError):
            return None

    def _named(self, name: str, values: Iterable[Any], entries: Sequence[LogEntry]) -> list[Any]:
        """The values of a level of the topic's name: what the payload does not say, the name does."""
        levels: dict[str, Mapping[str, str]] = {}
        found = []
        for value, entry in zip(values, entries, strict=True):
            if value is None:
                bound = levels.get(entry.topic)
                if bound is None:
                    bound = levels[entry.topic] = self._topic.pattern.bind(entry.topic) or {}
                value = bound.get(name)
            found.append(value)
        return found

    # One by one.

    def _one_by_one(
        self, entries: Sequence[LogEntry]
    ) -> tuple[list[LogEntry], list[dict[str, object]], list[tuple[str | None, bytes | None]]]:
        """The entries that are wanted, the fields of each, and on open topics what has no column."""
        kept: list[LogEntry] = []
        rows: list[dict[str, object]] = []
        rest: list[tuple[str | None, bytes | None]] = []
        for entry in entries:
            fields, unread = self._fields(entry)
            if self._where is not None:
                asked = {**fields, TOPIC: entry.topic} if self._about_topic else fields
                if not self._where.matches(asked):
                    continue
            kept.append(entry)
            rows.append(fields)
            if self.form.open:
                other = _undeclared(fields, self.form.fields)
                rest.append((payloads.encode(other).decode() if other else None, unread))
        return kept, rows, rest

    def _fields(self, entry: LogEntry) -> tuple[dict[str, object], bytes | None]:
        """What a payload says, as far as it fits; and its bytes where nothing could be read."""
        try:
            encoding = encoding_of(entry.content_type or None)
            said = payloads.decode(entry.payload, encoding) if entry.payload else {}
        except PayloadError:
            return dict(self._topic.pattern.bind(entry.topic) or {}), entry.payload
        try:
            # The levels of an event's name are among its fields.
            told = self.form.told
            return (self._shape.typed(said) if told else self._shape.take(entry.topic, said)), None
        except PayloadError:
            return self._fitting(entry.topic, said), None

    def _fitting(self, name: str, said: Mapping[str, object]) -> dict[str, object]:
        """Of fields that do not fit the declaration as a whole, those that fit."""
        fields = dict(_undeclared(said, self.form.fields)) if self.form.open else {}
        for path in self._topic.fields:
            value = find(said, path)
            if value is not None:
                try:
                    _place(fields, path, find(self._shape.typed(_wrapped(path, value)), path))
                except PayloadError:
                    continue
        return (self._topic.pattern.bind(name) or {}) | fields


def _struct(columns: Columns, name: str = "Fields") -> type[msgspec.Struct]:
    """A type into which msgspec decodes payloads; fields are f0, f1, … there, whatever they are called."""
    numbered = {f"f{at}": column for at, column in enumerate(columns)}
    fields = [
        (short, _python(columns[column], f"{name}{short}") | None, None) for short, column in numbered.items()
    ]
    return msgspec.defstruct(name, fields, rename=numbered or None, gc=False)


def _python(kind: Any, name: str) -> Any:
    if isinstance(kind, Mapping):
        return _struct(kind, name)
    if isinstance(kind, list):
        return list[_PYTHON[Type(kind[0])]]  # type: ignore[misc]
    return _PYTHON[Type(kind)]


_PYTHON: dict[Type, Any] = {
    Type.STRING: str,
    Type.INT: int,
    Type.FLOAT: float,
    Type.BOOL: bool,
    Type.TIMESTAMP: datetime,
}


def _nested(value: Any, columns: Columns) -> dict[str, object] | None:
    """A group that was decoded into a struct, as pyarrow takes it; None where nothing in it is filled."""
    if value is None:
        return None
    found: dict[str, object] = {}
    for at, (name, kind) in enumerate(columns.items()):
        inner = getattr(value, f"f{at}")
        found[name] = _nested(inner, kind) if isinstance(kind, Mapping) else inner
    return found if any(one is not None for one in found.values()) else None


def _undeclared(fields: Mapping[str, object], columns: Columns) -> dict[str, object]:
    """What of some fields has no column."""
    rest: dict[str, object] = {}
    for name, value in fields.items():
        kind = columns.get(name)
        if kind is None:
            rest[name] = value
        elif isinstance(kind, Mapping) and isinstance(value, Mapping):
            if inner := _undeclared(value, kind):
                rest[name] = inner
    return rest


def _wrapped(path: Path, value: object) -> dict[str, object]:
    for name in reversed(path):
        value = {name: value}
    assert isinstance(value, dict), "a path has a name"
    return value


def _place(fields: dict[str, Any], path: Path, value: object) -> None:
    for name in path[:-1]:
        fields = fields.setdefault(name, {})
    fields[path[-1]] = value
