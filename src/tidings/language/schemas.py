"""The `fields` table of a declaration: the fields that a report of the topic may have.

A table with a text under `type` is a field, any other is a group of fields. Named levels of the topic's name
are fields too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

from tidings.language import durations, timestamps
from tidings.language.faults import Faults, choice, shown
from tidings.language.fields import TOPIC, USER, Conflict, Field, Path, Scalar, Type, path_text
from tidings.language.names import Pattern
from tidings.language.payloads import INT_MAX, INT_MIN

FIELDS_MAX = 1_000
"""Fields of one topic; a report is checked against all of them."""

DEPTH_MAX = 16
"""Names in one path; the same as in a filter."""

NAME_LENGTH_MAX = 255
"""Characters in a field's name or a broker's id."""


def read_fields(table: Mapping[str, object], pattern: Pattern | None, faults: Faults) -> dict[Path, Field]:
    """The fields of a topic in their order; what is wrong with them is added to `faults`."""
    declared = {field.path: field for field in _read_group(table, (), faults)}
    if len(declared) > FIELDS_MAX:
        faults.add(("fields",), f"{len(declared)} fields are more than {FIELDS_MAX}, the most allowed")
    groups = {path[0] for path in declared if len(path) > 1}
    folded = {path[0].casefold(): path[0] for path in declared}
    fields: dict[Path, Field] = {}
    for level in pattern.names if pattern is not None else ():
        own = declared.get((level,))
        if level in groups or (own is not None and own.type is not Type.STRING):
            was = "a group of fields" if own is None else f"declared {own.type.value}"
            faults.add(("fields", level), f"the level '+{level}' is a string field, but {level!r} is {was}")
        elif own is None and level.casefold() in folded:
            faults.add(
                ("name",), f"name: the level '+{level}' and the field {folded[level.casefold()]!r} {_CASE}"
            )
        elif own is None:
            folded[level.casefold()] = level
            fields[(level,)] = Field((level,), Type.STRING)
    return fields | declared


_CASE = "differ only in upper and lower case, which Spark does not tell apart; rename one"


def _read_group(table: Mapping[Any, object], path: Path, faults: Faults) -> Iterator[Field]:
    folded: dict[str, str] = {}
    for name, value in table.items():
        where = ("fields", *path, name)
        if not isinstance(name, str) or not name or len(name) > NAME_LENGTH_MAX or not name.isprintable():
            faults.add(
                where, f"{shown(name)} is no name; it must have 1 to {NAME_LENGTH_MAX} printable characters"
            )
            continue
        here = (*path, name)
        text = path_text(here)
        if here in ((TOPIC,), (USER,)):
            faults.add(
                where, f"{text} is what filters call something else of a publication; rename the field"
            )
        if other := folded.get(name.casefold()):
            faults.add(where, f"the fields {other!r} and {name!r} {_CASE}")
        folded[name.casefold()] = name
        if not isinstance(value, Mapping):
            faults.add(where, f'{text}: {shown(value)} is not a field; write {{ type = "{_guess(value)}" }}')
        elif isinstance(value.get("type"), str):
            yield from _read_field(value, here, faults)
        elif not value or not all(isinstance(inner, Mapping) for inner in value.values()):
            faults.add(where, f"{text} has no type; write type = {_TYPES}")
        elif len(here) == DEPTH_MAX:
            faults.add(where, f"{text} is deeper than {DEPTH_MAX} names, the most allowed")
        else:
            yield from _read_group(value, here, faults)


_TYPES = ", ".join(f'"{kind.value}"' for kind in Type)
_TRAITS = ("type", "domain", "conflict", "tolerance")


def _read_field(table: Mapping[str, object], path: Path, faults: Faults) -> Iterator[Field]:
    where = ("fields", *path)
    text = path_text(path)
    for trait in table:
        if trait not in _TRAITS:
            faults.add(
                (*where, trait), f"{text}: a field has no {shown(trait)}; it may have {', '.join(_TRAITS)}"
            )
    try:
        kind = choice(Type)(table["type"])
    except ValueError as error:
        faults.add((*where, "type"), f"{text}: type {error}")
        return
    traits: dict[str, Any] = {}
    for trait, read in (
        ("domain", lambda value: _read_domain(kind, value)),
        ("conflict", choice(Conflict)),
        ("tolerance", lambda value: _read_tolerance(kind, value)),
    ):
        if trait in table:
            try:
                traits[trait] = read(table[trait])
            except ValueError as error:
                faults.add((*where, trait), f"{text}: {trait} {error}")
    yield Field(path, kind, **traits)


def _read_domain(kind: Type, value: object) -> tuple[Scalar, ...]:
    if kind is Type.BOOL:
        raise ValueError("is not for a bool, which has two values in any case; leave it out")
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{shown(value)} is not a list; write {_DOMAINS[kind]}")
    if kind is Type.STRING:
        if not value or not all(isinstance(one, str) for one in value):
            raise ValueError(f"{shown(value)} is not a list of strings; write {_DOMAINS[kind]}")
        if len(set(value)) < len(value):
            raise ValueError(f"{shown(value)} names a value twice; each must be there once")
        return tuple(value)
    if len(value) != 2:
        raise ValueError(f"{shown(value)} is not a lowest and a highest value; write {_DOMAINS[kind]}")
    low, high = (_read_bound(kind, one) for one in value)
    if low > high:
        raise ValueError(f"{shown(value)} ends before it begins; write the lowest value first")
    return low, high


_DOMAINS = {
    Type.STRING: '["calm", "rough", "storm"], all values in order',
    Type.INT: "[0, 5], the lowest and the highest value",
    Type.FLOAT: "[0.0, 8.0], the lowest and the highest value",
    Type.TIMESTAMP: '["2026-01-01T00:00Z", "2027-01-01T00:00Z"], the first and the last',
}


def _read_bound(kind: Type, value: object) -> Any:
    if kind is Type.TIMESTAMP:
        if isinstance(value, str):
            return timestamps.parse(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        if isinstance(value, datetime):
            # As in a payload, a time without an offset is in UTC.
            return timestamps.parse(value.isoformat())
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if kind is Type.INT and isinstance(value, int) and INT_MIN <= value <= INT_MAX:
            return value
        if kind is Type.FLOAT and -_FLOAT_MAX <= value <= _FLOAT_MAX:
            return float(value) + 0.0
    raise ValueError(f"has {shown(value)}, which is not a value of type {kind.value}")


_FLOAT_MAX = 1.7976931348623157e308


def _read_tolerance(kind: Type, value: object) -> int | float:
    if kind is Type.TIMESTAMP:
        tolerance_us = durations.parse(value)
        if tolerance_us > 0:
            return tolerance_us
    elif kind not in (Type.INT, Type.FLOAT):
        raise ValueError(f"is for numbers and timestamps, not for a {kind.value}; leave it out")
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= _FLOAT_MAX:
        return value
    raise ValueError(f"{shown(value)} is not above 0; leave it out if values must be equal to be the same")


def field_mapping(field: Field) -> dict[str, object]:
    """A field as `read_fields` reads it."""
    mapping: dict[str, object] = {"type": field.type.value}
    if field.domain is not None:
        mapping["domain"] = [
            timestamps.text(value) if isinstance(value, datetime) else value for value in field.domain
        ]
    mapping["conflict"] = field.conflict.value
    if field.tolerance is not None:
        micros = field.type is Type.TIMESTAMP
        mapping["tolerance"] = durations.text(int(field.tolerance)) if micros else field.tolerance
    return mapping


def _guess(value: object) -> str:
    """The type that somebody had in mind who wrote `place = "string"` or `severity = 3`."""
    if isinstance(value, str):
        return value if value in list(Type) else "string"
    kinds = {bool: "bool", int: "int", float: "float", datetime: "timestamp", date: "timestamp"}
    return kinds.get(type(value), "string")
