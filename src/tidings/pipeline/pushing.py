"""Spark's filters as `where`: those that a broker can evaluate, with the very same answer.

Only comparisons of a declared scalar field with a literal of its type go down; the language of brokers means
by them what Spark does. The rest is Spark's. What is done with the text is not known here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
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

from tidings.errors import FilterError
from tidings.language.fields import Type
from tidings.language.filters import parse
from tidings.language.wording import name_text, string_text
from tidings.pipeline.connecting import Reading

RELATIONS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


def split(filters: Sequence[Filter], fields: Mapping[str, Any]) -> tuple[list[str], list[Filter]]:
    """The texts of those that go to the brokers, and those that stay."""
    taken: list[str] = []
    left: list[Filter] = []
    for one in filters:
        text = text_of(one, fields)
        if text is None:
            left.append(one)
        else:
            taken.append(text)
    return taken, left


def narrowed(options: Reading, texts: Sequence[str]) -> Reading:
    """A read of what satisfies all of these too."""
    parts = [f"({options.where})"] if options.where and texts else [options.where] if options.where else []
    return dataclasses.replace(options, where=" AND ".join([*parts, *texts]))


def text_of(one: Filter, fields: Mapping[str, Any]) -> str | None:
    """A filter as a term of our language; None if it has no such term, or not surely the same meaning."""
    if isinstance(one, Not):
        inner = text_of(one.child, fields)
        text = None if inner is None else f"NOT ({inner})"
    else:
        text = _term(one, fields)
    if text is None:
        return None
    try:
        parse(text)
    except FilterError:
        return None
    return text


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
