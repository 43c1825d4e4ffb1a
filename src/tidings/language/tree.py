"""A filter as it was written: terms joined by AND, OR and NOT, and its verdict on an event.

The verdict is SQL's: True, False, or None for UNKNOWN. It is computed term by term from the event, the slow
and plain way, because it is what the normal form, the index and Spark are compared with.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from tidings.language.cuts import BOOLS, DOUBLES, INTS, NOTHING, NUMBERS, STRINGS, TIMES, Axis, Cuts, prefixed
from tidings.language.fields import Path, Type, find
from tidings.language.like import Like, Piece, matches, pieces, prefix, spelled
from tidings.language.regions import KINDS, Constraint, Kind, Values, narrowed
from tidings.language.timestamps import micros

Verdict = bool | None
"""True, False, or None for UNKNOWN."""

Event = Mapping[str, object]

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

AXES: dict[Type, Axis] = {
    Type.BOOL: BOOLS,
    Type.INT: INTS,
    Type.FLOAT: DOUBLES,
    Type.STRING: STRINGS,
    Type.TIMESTAMP: TIMES,
}

UNDECLARED: dict[Kind, Axis] = {
    Kind.BOOL: BOOLS,
    Kind.NUMBER: NUMBERS,
    Kind.STRING: STRINGS,
    Kind.TIMESTAMP: TIMES,
}


@dataclass(frozen=True, slots=True)
class Operand:
    """The field that a term looks at, and how its values compare."""

    path: Path
    """Its name."""

    type: Type | None
    """Its declared type; None where it is not declared."""

    def axis(self, kind: Kind) -> Axis:
        """The axis on which a literal of a kind is compared with this field."""
        return UNDECLARED[kind] if self.type is None else AXES[self.type]

    def value(self, event: Event, kind: Kind) -> Any:
        """The field's value, ready to be compared with literals of a kind; None if it cannot be."""
        value = find(event, self.path)
        if value is None or KINDS.get(type(value)) is not kind:
            return None
        if isinstance(value, datetime):
            return micros(value)
        # A declared float is a 64-bit float, whoever wrote 2 for 2.0.
        return float(value) if self.type is Type.FLOAT and type(value) is int else value


@dataclass(frozen=True, slots=True)
class Comparison:
    """A field beside one literal."""

    field: Operand
    relation: str
    """One of =, <>, <, <=, >, >=."""
    kind: Kind
    literal: Any
    """int, Decimal or float for a number, by the field's type.

    Microseconds for a timestamp; else str or bool.
    """

    def verdict(self, event: Event) -> Verdict:
        value = self.field.value(event, self.kind)
        return None if value is None else COMPARE[self.relation](value, self.literal)

    def values(self) -> Values:
        axis = self.field.axis(self.kind)
        literal = self.literal
        below: Callable[[Any], Cuts] = axis.below
        fraction = isinstance(literal, Decimal)
        if fraction:
            # On an int field no value equals a literal with a fraction; all lie to one side of it or the
            # other.
            literal, below = math.floor(literal), axis.upto
        match self.relation:
            case "<":
                return Values(below(literal))
            case ">=":
                return Values(~below(literal))
            case "<=":
                return Values(axis.upto(literal))
            case ">":
                return Values(~axis.upto(literal))
        equal = NOTHING if fraction else axis.one(literal)
        return Values(equal if self.relation == "=" else ~equal)


@dataclass(frozen=True, slots=True)
class Membership:
    """A field IN a list."""

    field: Operand
    kind: Kind
    literals: tuple[Any, ...]
    """As in a comparison, without repeats, increasing."""

    def verdict(self, event: Event) -> Verdict:
        value = self.field.value(event, self.kind)
        return None if value is None else any(value == literal for literal in self.literals)

    def values(self) -> Values:
        axis = self.field.axis(self.kind)
        # On an int field a literal with a fraction equals nothing.
        return Values(axis.some(one for one in self.literals if not isinstance(one, Decimal)))


@dataclass(frozen=True, slots=True)
class Pattern:
    """A field LIKE a pattern."""

    field: Operand
    parts: tuple[Piece, ...]
    """The pattern between its `%`."""

    def verdict(self, event: Event) -> Verdict:
        value = self.field.value(event, Kind.STRING)
        return None if value is None else matches(self.parts, value)

    def values(self) -> Values:
        start = prefix(self.parts)
        if len(self.parts) == 1 and len(start) == len(self.parts[0]):
            return Values(STRINGS.one(start))
        if len(self.parts) > 1 and len(start) == len(self.parts[0]) and not any(self.parts[1:]):
            return Values(prefixed(start))
        return narrowed(prefixed(start), {Like(spelled(self.parts))})


@dataclass(frozen=True, slots=True)
class Missing:
    """A field IS NULL: the one term that is never UNKNOWN."""

    field: Operand

    def verdict(self, event: Event) -> Verdict:
        return find(event, self.field.path) is None


Term = Comparison | Membership | Pattern | Missing


@dataclass(frozen=True, slots=True)
class Always:
    """TRUE or FALSE."""

    holds: bool

    def verdict(self, _event: Event) -> Verdict:
        return self.holds


@dataclass(frozen=True, slots=True)
class Not:
    """The contrary; UNKNOWN stays UNKNOWN."""

    part: Node

    def verdict(self, event: Event) -> Verdict:
        inner = self.part.verdict(event)
        return None if inner is None else not inner


@dataclass(frozen=True, slots=True)
class And:
    """AND: false if one part is, else unknown if one is."""

    parts: tuple[Node, ...]

    def verdict(self, event: Event) -> Verdict:
        known = True
        for part in self.parts:
            inner = part.verdict(event)
            if inner is False:
                return False
            known = known and inner is not None
        return True if known else None


@dataclass(frozen=True, slots=True)
class Or:
    """OR: true if one part is, else unknown if one is."""

    parts: tuple[Node, ...]

    def verdict(self, event: Event) -> Verdict:
        known = True
        for part in self.parts:
            inner = part.verdict(event)
            if inner is True:
                return True
            known = known and inner is not None
        return False if known else None


Node = Term | Always | Not | And | Or


def terms(node: Node) -> Iterator[Term]:
    """Every term of a tree, from left to right."""
    match node:
        case Not(part):
            yield from terms(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from terms(part)
        case Always():
            pass
        case _:
            yield node


def constraint(term: Term, negated: bool) -> Constraint:
    """A term, or its negation, as a constraint on its field."""
    declared = term.field.type
    if isinstance(term, Missing):
        return Constraint(not negated, (), declared)
    kind = Kind.STRING if isinstance(term, Pattern) else term.kind
    values = term.values()
    if negated and values.likes:
        # The prefix only narrows the pattern, so the negation is of the pattern alone.
        values = Values(Cuts(True), tuple(Like(like.pattern, not like.negated) for like in values.likes))
    elif negated:
        values = Values(~values.cuts)
    return Constraint(None, ((kind, values),), declared)


def like_parts(pattern: str, escape: str) -> tuple[Piece, ...]:
    """The pieces of a pattern with runs of `%` made one; raises like.BadPattern."""
    return pieces(spelled(pieces(pattern, escape)))
