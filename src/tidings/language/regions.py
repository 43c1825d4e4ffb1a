"""Which values of one field a filter lets through: the constraint, with all three verdicts, and its two
regions.

A conjunction of terms over one field sorts the values of that field into TRUE, UNKNOWN and FALSE. A
`Constraint` keeps all three: it is a set of values for each kind of literal that the terms compare with, and
what they say of NULL. A term answers UNKNOWN to a missing value and to one of another kind than its literal
(docs/design/0004-filters.md), so

    TRUE     every term is true: the value is of the one kind that is compared with, and in its set
    FALSE    some term is false
    UNKNOWN  otherwise

`wait` takes what is TRUE, `assume` what is not FALSE. Cutting at either threshold leaves a plain set of
values, a `Region`; conjunction and disjunction of verdicts are minimum and maximum, so they commute with the
cut, and everything that looks at many filters (covering, the index, boxes) needs only regions, never three
values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from functools import lru_cache

from tidings.language.cuts import EVERYTHING, NOTHING, Cuts
from tidings.language.cuts import all_of as cuts_all_of
from tidings.language.fields import Path, Type, find
from tidings.language.like import Like
from tidings.language.timestamps import micros


class Unknown(StrEnum):
    """What a subscriber takes a term for that cannot be decided yet."""

    WAIT = "wait"
    """Not true yet: deliver once the event says so."""

    ASSUME = "assume"
    """True until the event says otherwise."""


class Kind(IntEnum):
    """What can be compared with what."""

    BOOL = 0
    NUMBER = 1
    STRING = 2
    TIMESTAMP = 3


KINDS: dict[type, Kind] = {
    bool: Kind.BOOL,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    str: Kind.STRING,
    datetime: Kind.TIMESTAMP,
}


TYPES: dict[Type, Kind] = {
    Type.BOOL: Kind.BOOL,
    Type.INT: Kind.NUMBER,
    Type.FLOAT: Kind.NUMBER,
    Type.STRING: Kind.STRING,
    Type.TIMESTAMP: Kind.TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class Values:
    """Some values of one kind."""

    cuts: Cuts
    """Where they lie on the axis of their kind."""

    likes: tuple[Like, ...] = ()
    """For strings, the patterns that hold as well and that no interval can say; sorted."""

    def __contains__(self, value: object) -> bool:
        at = micros(value) if isinstance(value, datetime) else value
        if at not in self.cuts:
            return False
        return not self.likes or (isinstance(value, str) and all(like.holds(value) for like in self.likes))

    def __and__(self, other: Values) -> Values:
        return narrowed(self.cuts & other.cuts, {*self.likes, *other.likes})

    def __le__(self, other: Values) -> bool:
        """Whether all of these are among the others; may say no where only the patterns would tell."""
        return self.cuts <= other.cuts and all(like in self.likes for like in other.likes)


def narrowed(cuts: Cuts, likes: set[Like]) -> Values:
    """Values by cuts and patterns; where single strings are left, the patterns are decided at once."""
    if not likes:
        return Values(cuts)
    ends = list(cuts.intervals())
    if all(low is not None and high == low + "\0" for low, high in ends):
        kept = [end for end in ends if all(like.holds(end[0]) for like in likes)]
        return Values(Cuts(False, tuple(point for end in kept for point in end)))
    return Values(cuts, tuple(sorted(likes)))


ALL = Values(EVERYTHING)
NONE = Values(NOTHING)


@dataclass(frozen=True, slots=True)
class Region:
    """A plain set of values of one field, the missing one among them or not."""

    null: bool
    """Whether the missing value is inside."""

    other: bool
    """Whether values of the kinds that `sets` does not list are inside, lists and objects too."""

    sets: tuple[tuple[Kind, Values], ...] = ()
    """Of these kinds, just these values are inside; by kind."""

    def __contains__(self, value: object) -> bool:
        if value is None:
            return self.null
        kind = KINDS.get(type(value))
        for listed, values in self.sets:
            if listed is kind:
                return value in values
        return self.other

    @property
    def empty(self) -> bool:
        return not (self.null or self.other or any(not values.cuts.empty for _, values in self.sets))

    @property
    def full(self) -> bool:
        """Whether every value is inside, which is no constraint at all."""
        return self.null and self.other and all(values == ALL for _, values in self.sets)

    def of(self, kind: Kind) -> Values:
        """The values of one kind that are inside."""
        for listed, values in self.sets:
            if listed is kind:
                return values
        return ALL if self.other else NONE

    def _kinds(self, other: Region) -> list[Kind]:
        return sorted({kind for kind, _ in (*self.sets, *other.sets)})

    def __and__(self, other: Region) -> Region:
        return Region(
            self.null and other.null,
            self.other and other.other,
            tuple((kind, self.of(kind) & other.of(kind)) for kind in self._kinds(other)),
        )

    def __le__(self, other: Region) -> bool:
        """Whether all of this region is in the other."""
        if len(self.sets) == len(other.sets) == 1 and self.sets[0][0] is other.sets[0][0]:
            # Values of one kind, by far the most frequent question.
            return (
                self.null <= other.null and self.other <= other.other and self.sets[0][1] <= other.sets[0][1]
            )
        return (
            self.null <= other.null
            and self.other <= other.other
            and all(self.of(kind) <= other.of(kind) for kind in self._kinds(other))
        )


Box = tuple[tuple[Path, Region], ...]
"""A conjunction.

Each of these fields in its region; by path. An event matches iff one of the boxes holds it.
"""


def holds(boxes: Sequence[Box], event: Mapping[str, object]) -> bool:
    """Whether one of the boxes holds an event."""
    for box in boxes:
        for path, region in box:
            if find(event, path) not in region:
                break
        else:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a conjunction says of one field."""

    null: bool | None
    """True for IS NULL, False for IS NOT NULL, None where nothing is said."""

    sets: tuple[tuple[Kind, Values], ...]
    """The values that the terms of each kind of literal leave; by kind."""

    declared: Type | None
    """The field's type where its topic declares it."""

    @property
    def points(self) -> int:
        """Bounds and listed values."""
        return sum(len(values.cuts.points) for _, values in self.sets)

    def region(self, unknown: Unknown) -> Region:
        """The values that are taken."""
        return _region(self, unknown)


def all_of(constraints: Sequence[Constraint]) -> Constraint | None:
    """All that some constraints on one field say; None if that is false of every value."""
    nulls = {held.null for held in constraints} - {None}
    if len(nulls) > 1:
        return None
    sets: dict[Kind, list[Values]] = {}
    for held in constraints:
        for kind, values in held.sets:
            sets.setdefault(kind, []).append(values)
    return tidied(
        nulls.pop() if nulls else None,
        {kind: some[0] if len(some) == 1 else _all_values(some) for kind, some in sets.items()},
        constraints[0].declared,
    )


def _all_values(some: Sequence[Values]) -> Values:
    return narrowed(cuts_all_of([one.cuts for one in some]), {like for one in some for like in one.likes})


def tidied(null: bool | None, sets: Mapping[Kind, Values], declared: Type | None) -> Constraint | None:
    """A constraint in its one form; None if it is false of every value."""
    kind = Kind.NUMBER if declared is None else TYPES[declared]
    if null is True and sets:
        # A missing value is UNKNOWN, any other FALSE, whatever the sets are.
        return Constraint(True, ((kind, NONE),), declared)
    if null is False and declared is not None and sets:
        if sets[kind].cuts.empty:
            return None
        if sets[kind] == ALL:
            return Constraint(False, (), declared)
    return Constraint(null, tuple(sorted(sets.items(), key=lambda item: item[0])), declared)


@lru_cache(maxsize=4096)
def _region(constraint: Constraint, unknown: Unknown) -> Region:
    null, sets, declared = constraint.null, constraint.sets, constraint.declared
    if null is True:
        return Region(unknown is Unknown.ASSUME or not sets, False)
    if declared is not None:
        # The field holds values of its own kind and no others, so there is nothing else to let through.
        sets = sets or ((TYPES[declared], ALL),)
        missing = unknown is Unknown.ASSUME and null is None
        return Region(True, True) if missing and sets[0][1] == ALL else Region(missing, False, sets)
    if unknown is Unknown.ASSUME:
        return Region(null is None, True, sets)
    if not sets:
        return Region(False, True)
    return Region(False, False, sets if len(sets) == 1 else ())
