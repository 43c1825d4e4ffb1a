"""Spark's filters as `where`: those that a broker can evaluate, with the very same answer.

Only comparisons of a declared scalar field with a literal of its type go down; the language of brokers means
by them what Spark does. The rest is Spark's. What is done with the text is not known here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from tidings.client.log import where_fault
from tidings.errors import FilterError, InputError
from tidings.language.fields import Conflict, Field, Type
from tidings.language.filters import parse
from tidings.language.wording import name_text, string_text
from tidings.pipeline.connector.options import Reading

RELATIONS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


def split(
    filters: Sequence[Filter], fields: Mapping[str, Any], where: str = ""
) -> tuple[list[str], list[Filter]]:
    """The texts of those that go to the brokers beside a `where`, and those that stay."""
    taken: list[str] = []
    left: list[Filter] = []
    for one in filters:
        text = text_of(one, fields)
        if text is None or _refused(joined(where, [*taken, text])):
            left.append(one)
        else:
            taken.append(text)
    return taken, left


def check(where: str, fields: Mapping[str, Any]) -> None:
    """Refuse what a broker would refuse, before a task asks it; InputError points at the place."""
    if not where:
        return
    if fault := where_fault(where):
        raise InputError(fault)
    declared = {field.path: field for field in _declared(fields, ())}
    try:
        parse(where, declared or None)
    except FilterError as error:
        raise InputError(f"where: {error}") from None


def narrowed(options: Reading, texts: Sequence[str]) -> Reading:
    """A read of what satisfies all of these too."""
    return dataclasses.replace(options, where=joined(options.where, texts))


def joined(where: str, texts: Sequence[str]) -> str:
    """A filter and further terms as one."""
    if not texts:
        return where
    return " AND ".join([f"({where})", *texts] if where else texts)


def text_of(one: Filter, fields: Mapping[str, Any]) -> str | None:
    """A filter as a term of our language; None if it has no such term, or not surely the same meaning."""
    if isinstance(one, Not):
        inner = text_of(one.child, fields)
        text = None if inner is None else f"NOT ({inner})"
    else:
        text = _term(one, fields)
    if text is None:
        return None
    return None if _refused(text) else text


def _refused(text: str) -> bool:
    """Whether brokers would not take a filter: it is too long, or too costly."""
    try:
        parse(text)
    except FilterError:
        return True
    return where_fault(text) is not None


def _term(one: Any, fields: Mapping[str, Any]) -> str | None:
    kind = _type(getattr(one, "attribute", ()), fields)
    if kind is None:
        return None
    name = name_text(one.attribute)
    if isinstance(one, (IsNull, IsNotNull)):
        return f"{name} IS {'NOT ' if isinstance(one, IsNotNull) else ''}NULL"
    if type(one) in RELATIONS:
        literal = _literal(kind, one.value)
        return None if literal is None else f"{name} {RELATIONS[type(one)]} {literal}"
    if isinstance(one, In):
        literals = [_literal(kind, value) for value in one.value]
        known = [literal for literal in literals if literal is not None]
        return f"{name} IN ({', '.join(known)})" if known and len(known) == len(literals) else None
    if isinstance(one, StringStartsWith) and kind is Type.STRING and not set(one.value) & set("%_\\"):
        return f"{name} LIKE {string_text(one.value + '%')}"
    return None


def _declared(fields: Mapping[str, Any], group: tuple[str, ...]) -> Iterator[Field]:
    for name, kind in fields.items():
        path = (*group, name)
        if isinstance(kind, Mapping):
            yield from _declared(kind, path)
        elif isinstance(kind, str):
            yield Field(path, Type(kind))
        else:
            yield Field(path, Type(kind[0]), conflict=Conflict.UNION)


def _type(path: Sequence[str], fields: Mapping[str, Any]) -> Type | None:
    """The declared type of a scalar field; None for groups, lists and columns of ours."""
    found: Any = fields
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return Type(found) if isinstance(found, str) else None


def _literal(kind: Type, value: object) -> str | None:
    if kind is Type.STRING and isinstance(value, str):
        return string_text(value)
    if kind is Type.BOOL and isinstance(value, bool):
        return str(value).upper()
    if kind is Type.INT and type(value) is int:
        return str(value)
    if kind is Type.FLOAT and isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if kind is Type.TIMESTAMP and isinstance(value, datetime) and value.tzinfo is not None:
        return f"TIMESTAMP '{value.astimezone(UTC).strftime('%Y-%m-%d %H:%M:%S.%f')}Z'"
    return None
