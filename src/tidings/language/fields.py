"""The fields of a topic: their names, types, domains and what happens when two reports disagree.

A field is named by a path: `place.city` is `("place", "city")`, the member `city` of the object `place`.
Names are case sensitive. This module holds the data only: how a field is written in a declaration is in
`topics`, how a value is taken from a payload in `reports`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

Path = tuple[str, ...]
"""Where a field is in an event: the names of the objects around it, then its own."""

Scalar = str | int | float | bool | datetime
"""One value of a field. A timestamp is an aware datetime in UTC."""

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A name that needs no quotes in a filter or a key; the same as in Spark SQL."""

TOPIC = "$topic"
"""What a filter calls the topic of a publication."""

USER = "$user"
"""What a filter calls its user properties: an object with a string for each name, the first that it has."""


class Type(StrEnum):
    """What the values of a field are."""

    STRING = "string"
    """Unicode text, compared by code point."""

    INT = "int"
    """A whole number of 64 bits with sign, Spark's BIGINT."""

    FLOAT = "float"
    """A finite number of 64 bits, Spark's DOUBLE."""

    BOOL = "bool"
    """True or false; false is the smaller."""

    TIMESTAMP = "timestamp"
    """A point in time, to the microsecond, in UTC."""


class Conflict(StrEnum):
    """What an event keeps when a report brings another value than it has."""

    FIRST = "first"
    """The value that came first."""

    LAST = "last"
    """The value that came last."""

    MAX = "max"
    """The greatest value."""

    MIN = "min"
    """The smallest value."""

    UNION = "union"
    """All distinct values, as a list in increasing order."""

    MAJORITY = "majority"
    """The value that most reports brought; among equals the one that came first."""


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field."""

    path: Path
    """Its name."""

    type: Type
    """What its values are."""

    domain: tuple[Scalar, ...] | None = None
    """The usual values: (lowest, highest) for numbers and timestamps, all of them in order for strings.

    A domain lays out the event space and refuses nothing: a value outside lies in the cell at the edge.
    """

    conflict: Conflict = Conflict.FIRST
    """What is kept when reports disagree."""

    tolerance: int | float | None = None
    """How far apart two values may be and still be the same; microseconds for a timestamp."""

    @property
    def many(self) -> bool:
        """Whether an event holds a list of values here; a filter can then only ask IS [NOT] NULL."""
        return self.conflict is Conflict.UNION


def path_text(path: Path) -> str:
    """A path as filters, keys and messages write it.

    >>> path_text(("place", "city"))
    'place.city'
    >>> path_text(("wind speed",))
    '`wind speed`'
    """
    return ".".join(
        part if IDENTIFIER.fullmatch(part) else "`" + part.replace("`", "``") + "`" for part in path
    )


def find(event: Mapping[str, object], path: Path) -> object:
    """The value at a path of an event; None if it is missing."""
    value: object = event
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value
