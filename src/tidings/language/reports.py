"""Reports and events: what somebody says about something, and what such sayings grow into.

A report is a topic, a key and some of the topic's fields; an event has the same fields, more of them filled.
The fields of both are a dict, nested as declared and in the declared order, without empty fields. `Shape`
makes reports from payloads: it takes each value as its declared type or refuses the whole payload. Nothing
here gathers, and nothing knows the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any

from tidings.errors import PayloadError
from tidings.language import keys, payloads, timestamps
from tidings.language.faults import shown
from tidings.language.fields import Field, Path, Scalar, Type, find, path_text
from tidings.language.keys import Key
from tidings.language.names import name_fault
from tidings.language.payloads import INT_MAX, INT_MIN, Encoding
from tidings.language.topics import Topic, UnknownFields

EXACT_MAX = 2.0**53
"""Below this a double stands for one whole number; 2**53 + 1 is read as 2**53 already."""

FAR = timedelta(days=1)
"""A report that tells of a time farther from its arrival has a wrong clock, or is old."""

Fields = Mapping[str, object]
"""The filled fields of a report or an event, nested."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one publisher said at one time."""

    topic: str
    """The topic name that it was published to."""

    key: Key
    """What says which event it is about; empty on a plain topic."""

    fields: Fields
    """What it says."""

    id: str
    """Given where it entered the network, or the line of a file."""

    at_us: int
    """When it arrived: microseconds on the clock of whoever took it."""


@dataclass(frozen=True, slots=True)
class Event:
    """What the reports of one key have grown into, in one version."""

    topic: str
    """The name of the topic's declaration."""

    key: Key
    """What it is about."""

    opened_by: str
    """The id of the report that opened it; with topic and key the event's identity."""

    version: int
    """Counted from 1 within the event."""

    reports: int
    """How many reports it is made of: the first and those that changed it."""

    complete: bool
    """Whether every declared field is filled."""

    fields: Fields
    """What is known."""

    @property
    def identity(self) -> tuple[str, Key, str]:
        """What stays the same in all versions, whoever tells them."""
        return self.topic, self.key, self.opened_by


class Shape:
    """A topic's fields as a tree, made once to take many reports."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        # Most declarations name one topic, and then there is nothing to match or bind.
        self._only_name = topic.name if name_fault(topic.name) is None else None
        self._tree: _Tree = {}
        for field in topic.fields.values():
            group = self._tree
            for name in field.path[:-1]:
                inner = group.setdefault(name, {})
                assert isinstance(inner, dict), "a declared path is a field or a group, never both"
                group = inner
            group[field.path[-1]] = _many(field) if field.many else _TAKE[field.type]
        self._times = [field.path for field in topic.fields.values() if field.type is Type.TIMESTAMP]
        self._far_us, self._far_at = 0, timestamps.from_micros(0)

    def read(
        self,
        name: str,
        data: bytes,
        encoding: Encoding = Encoding.JSON,
        *,
        report_id: str = "",
        at_us: int = 0,
    ) -> Report:
        """The report in a payload that was published to the topic `name`."""
        return self.report(name, payloads.decode(data, encoding), report_id=report_id, at_us=at_us)

    def report(self, name: str, fields: Fields, *, report_id: str = "", at_us: int = 0) -> Report:
        """A report of decoded fields; those that a program made itself go through `payloads.check` first."""
        taken = self.take(name, fields)
        key = keys.evaluate(self.topic.key, taken)
        if key is None:
            raise PayloadError(self._keyless(taken))
        return Report(name, key, taken, report_id, at_us)

    def take(self, name: str, fields: Fields) -> dict[str, object]:
        """The fields with the levels of the topic's name, as their declared types and in declared order."""
        if name == self._only_name:
            return self._take(self._tree, fields, ())
        levels = self.topic.pattern.bind(name)
        if levels is None:
            raise PayloadError(f"topic {name[:80]!r} does not match the declaration {self.topic.name!r}")
        for level, value in levels.items():
            said = fields.get(level)
            if said is not None and said != value:
                raise PayloadError(
                    f"{path_text((level,))}: {shown(said)} is not {shown(value)}, which the topic name says; "
                    "leave it out of the payload"
                )
        return self.typed({**fields, **levels} if levels else fields)

    def typed(self, fields: Fields) -> dict[str, object]:
        """The fields as their declared types and in declared order, whatever the topic's name."""
        return self._take(self._tree, fields, ())

    def far(self, fields: Fields, at_us: int) -> bool:
        """Whether a timestamp among the fields is more than a day before or after a time."""
        if not self._times:
            return False
        # Reports that come together have one time; datetimes are compared quicker than turned into numbers.
        if at_us != self._far_us:
            self._far_us, self._far_at = at_us, timestamps.from_micros(at_us)
        at = self._far_at
        for path in self._times:
            value: Any = fields.get(path[0]) if len(path) == 1 else find(fields, path)
            if value is None:
                continue
            for one in value if type(value) is list else (value,):
                if not -FAR <= one - at <= FAR:
                    return True
        return False

    def complete(self, fields: Fields) -> bool:
        """Whether every declared field is filled."""
        return _filled(self._tree, fields)

    def ordered(self, fields: Fields) -> dict[str, object]:
        """The same fields in the declared order, others behind; what `payloads.encode` should be given."""
        return _ordered(self._tree, fields)

    def _take(self, tree: _Tree, fields: Fields, path: Path) -> dict[str, object]:
        taken: dict[str, object] = {}
        for name, node in tree.items():
            value = fields.get(name)
            if value is None:
                continue
            if isinstance(node, dict):
                if not isinstance(value, Mapping):
                    raise PayloadError(
                        f"{path_text((*path, name))}: {shown(value)} is not an object; it is declared as a "
                        f"group of {', '.join(map(repr, node))}"
                    )
                inner = self._take(node, value, (*path, name))
                if inner:
                    taken[name] = inner
                continue
            try:
                value = node(value)
            except ValueError as error:
                raise PayloadError(f"{path_text((*path, name))}: {error}") from None
            if value is not None:
                taken[name] = value
        if not fields.keys() <= tree.keys() and self.topic.unknown_fields is not UnknownFields.DROP:
            unknown = {name: value for name, value in fields.items() if name not in tree}
            if self.topic.unknown_fields is UnknownFields.REFUSE:
                raise PayloadError(_undeclared(next(iter(unknown)), tree, path))
            taken |= unknown
        return taken

    def _keyless(self, fields: Fields) -> str:
        for item in self.topic.key:
            missing = [path_text(path) for path in item.paths if find(fields, path) is None]
            if missing:
                return f"the key {item.text!r} needs {' and '.join(missing)}, which the report does not have"
            if item.value(fields) is None:
                said = ", ".join(shown(find(fields, path)) for path in item.paths)
                return f"the key {item.text!r} has no value for {said}; a place must be on the globe"
        raise AssertionError("some item of the key has no value")


_Take = Callable[[Any], object]
_Tree = dict[str, "_Take | _Tree"]


# Taking one value as its declared type: ValueError says why not.


def _string(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"{shown(value)} is not a string{_quoted(value)}")


def _int(value: object) -> int:
    if type(value) is int:
        if INT_MIN <= value <= INT_MAX:
            return value
    elif isinstance(value, float) and value.is_integer() and -EXACT_MAX < value < EXACT_MAX:
        return int(value)
    raise ValueError(f"{shown(value)} is not an int of 64 bits")


def _float(value: object) -> float:
    # Adding 0.0 makes -0.0 the 0.0 that it equals, so that one value has one text and one hash everywhere.
    if isinstance(value, float):
        if math.isfinite(value):
            return value + 0.0
    elif type(value) is int and INT_MIN <= value <= INT_MAX:
        return float(value)
    raise ValueError(f"{shown(value)} is not a finite number")


def _bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"{shown(value)} is not true or false")


def _timestamp(value: object) -> datetime:
    if isinstance(value, str):
        return timestamps.parse(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        try:
            return value.astimezone(UTC)
        except OverflowError as error:
            raise ValueError(f"{shown(value)} is not a point in time: {error}") from None
    raise ValueError(f"{shown(value)} is not a timestamp; write it as '2026-11-15T11:05:00Z' (ISO 8601)")


_TAKE: dict[Type, Callable[[object], Scalar]] = {
    Type.STRING: _string,
    Type.INT: _int,
    Type.FLOAT: _float,
    Type.BOOL: _bool,
    Type.TIMESTAMP: _timestamp,
}


def _many(field: Field) -> _Take:
    """One value or a list of them, as a list of distinct values in increasing order; None for no value."""
    take = _TAKE[field.type]

    def take_many(value: object) -> object:
        if not isinstance(value, list):
            return [take(value)]
        taken: set[Any] = {take(one) for one in value}
        return sorted(taken) if taken else None

    return take_many


def _quoted(value: object) -> str:
    return f'; write "{value}"' if isinstance(value, (int, float)) and not isinstance(value, bool) else ""


def _undeclared(name: str, tree: _Tree, path: Path) -> str:
    near = get_close_matches(name, tree, n=3) if len(name) <= 64 else []
    known = near or list(tree)
    listed = ", ".join(path_text((*path, one)) for one in known[:10]) + (", …" if len(known) > 10 else "")
    return f"{path_text((*path, name[:80]))} is not a declared field; " + (
        f"did you mean {listed}?" if near else f"declared: {listed}"
    )


def _filled(tree: _Tree, fields: Fields) -> bool:
    for name, node in tree.items():
        value = fields.get(name)
        if value is None:
            return False
        if isinstance(node, dict) and not (isinstance(value, Mapping) and _filled(node, value)):
            return False
    return True


def _ordered(tree: _Tree, fields: Fields) -> dict[str, object]:
    ordered: dict[str, object] = {}
    for name, node in tree.items():
        if name in fields:
            value = fields[name]
            inside = isinstance(node, dict) and isinstance(value, Mapping)
            ordered[name] = _ordered(node, value) if inside else value  # type: ignore[arg-type]
    return ordered | {name: value for name, value in fields.items() if name not in ordered}
