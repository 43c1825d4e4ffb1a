"""Sets of values on an ordered axis, as the points where membership flips.

A comparison, BETWEEN or IN says of a value on which side of some points it lies. Written as half-open
intervals `[lo, hi)`, every such set is a sorted list of points and one bit for the far left; complement flips
the bit, union and intersection are one sweep, and two sets are equal iff their lists are. That needs each
axis to say what comes right after a value, so that `x <= 3` and `x < 4` are one set over whole numbers; an
`Axis` knows that, and its ends.

Nothing here knows of fields, missing values or three-valued logic; `regions` does.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidings.language.timestamps import micros

EXACT_INT_MAX = 2**53
"""Up to here a 64-bit float holds every whole number; between larger neighbours there are whole numbers."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """A set of values on an ordered axis.

    >>> sorted(x for x in range(9) if x in Cuts(False, (3, 7)))
    [3, 4, 5, 6]
    """

    inside: bool
    """Whether values before the first point belong to the set."""

    points: tuple[Any, ...] = ()
    """Where membership flips, increasing; a point itself lies behind its flip."""

    def __contains__(self, value: Any) -> bool:
        return self.inside ^ (bisect_right(self.points, value) & 1 == 1)

    @property
    def empty(self) -> bool:
        return not self.inside and not self.points

    @property
    def full(self) -> bool:
        return self.inside and not self.points

    def intervals(self) -> Iterator[tuple[Any, Any]]:
        """The set as half-open intervals `[lo, hi)`; None where there is no bound."""
        ends = (None, *self.points) if self.inside else self.points
        for at in range(0, len(ends), 2):
            yield ends[at], ends[at + 1] if at + 1 < len(ends) else None

    def __invert__(self) -> Cuts:
        return Cuts(not self.inside, self.points)

    def __and__(self, other: Cuts) -> Cuts:
        return _combine(self, other, 2)

    def __or__(self, other: Cuts) -> Cuts:
        return _combine(self, other, 1)

    def __le__(self, other: Cuts) -> bool:
        """Whether every value of this set is in the other."""
        if not self.inside and not other.inside and len(self.points) == len(other.points) == 2:
            # One interval within another, by far the most frequent question.
            return bool(other.points[0] <= self.points[0] and self.points[1] <= other.points[1])
        if not other.points:
            return other.inside or self.empty
        if not self.points:
            return not self.inside
        return (self & other) == self


NOTHING = Cuts(False)
EVERYTHING = Cuts(True)


def _combine(a: Cuts, b: Cuts, wanted: int) -> Cuts:
    """One sweep over both lists: inside where at least `wanted` of the two are."""
    points: list[Any] = []
    depth = a.inside + b.inside
    start = inside = depth >= wanted
    at_a = at_b = 0
    in_a, in_b = a.inside, b.inside
    while at_a < len(a.points) or at_b < len(b.points):
        if at_b == len(b.points) or (at_a < len(a.points) and a.points[at_a] <= b.points[at_b]):
            point = a.points[at_a]
        else:
            point = b.points[at_b]
        if at_a < len(a.points) and a.points[at_a] == point:
            in_a = not in_a
            at_a += 1
        if at_b < len(b.points) and b.points[at_b] == point:
            in_b = not in_b
            at_b += 1
        if (in_a + in_b >= wanted) != inside:
            inside = not inside
            points.append(point)
    return Cuts(start, tuple(points))


def any_of(parts: Sequence[Cuts]) -> Cuts:
    """The union of many sets in one sweep; joining them one by one would take a step for each pair."""
    flips: dict[Any, int] = {}
    depth = 0
    for part in parts:
        change = -1 if part.inside else 1
        depth += part.inside
        for point in part.points:
            flips[point] = flips.get(point, 0) + change
            change = -change
    points: list[Any] = []
    start = inside = depth > 0
    for point in sorted(flips):
        depth += flips[point]
        if (depth > 0) is not inside:
            inside = not inside
            points.append(point)
    return Cuts(start, tuple(points))


def all_of(parts: Sequence[Cuts]) -> Cuts:
    """The intersection of many sets in one sweep."""
    return ~any_of([~part for part in parts])


@dataclass(frozen=True, slots=True)
class Axis:
    """An ordered set of values with its ends, and what comes right after each value."""

    name: str
    """For messages and tests."""

    least: Any
    """The smallest value, None if there is none."""

    greatest: Any
    """The greatest value, None if there is none."""

    after: Callable[[Any], Any]
    """The smallest point behind a value, so that `x <= v` is `x < after(v)`."""

    def below(self, point: Any) -> Cuts:
        """Values smaller than a point; the point need not be on the axis."""
        if self.least is not None and point <= self.least:
            return NOTHING
        if self.greatest is not None and point > self.greatest:
            return EVERYTHING
        return Cuts(True, (point,))

    def upto(self, value: Any) -> Cuts:
        """Values up to and including one."""
        if self.greatest is not None and value >= self.greatest:
            return EVERYTHING
        return self.below(self.after(value))

    def one(self, value: Any) -> Cuts:
        """One value alone."""
        return self.some((value,))

    def some(self, values: Iterable[Any]) -> Cuts:
        """These values and no others.

        Built in one pass, because a list of a thousand values joined one by one would cost a million steps.
        """
        points: list[Any] = []
        start = False
        least, greatest, after = self.least, self.greatest, self.after
        for value in sorted(set(values)):
            if (least is not None and value < least) or (greatest is not None and value > greatest):
                continue
            if value == least:
                start = True
            elif points and points[-1] == value:
                # Neighbouring values meet in one point, which is then no flip.
                points.pop()
            else:
                points.append(value)
            if value != greatest:
                points.append(after(value))
        return Cuts(start, tuple(points))


def _after_double(value: float) -> float:
    return math.nextafter(value, math.inf)


def _after_number(value: float) -> float | int:
    """What follows a value among all 64-bit floats and all whole numbers together."""
    if abs(value) >= EXACT_INT_MAX:
        return int(value) + 1
    return math.nextafter(value, math.inf)


def _after_whole(value: int) -> int:
    return value + 1


def _after_string(value: str) -> str:
    return value + "\0"


INTS = Axis("int", -(2**63), 2**63 - 1, _after_whole)
"""The values of a declared int: 64 bits with sign, Spark's BIGINT."""

DOUBLES = Axis("float", -math.nextafter(math.inf, 0), math.nextafter(math.inf, 0), _after_double)
"""The values of a declared float: the finite 64-bit ones."""

NUMBERS = Axis("number", DOUBLES.least, DOUBLES.greatest, _after_number)
"""The numbers of an undeclared field: whole ones and floats, compared exactly."""

STRINGS = Axis("string", "", None, _after_string)
"""Strings by code point, which is the order of their UTF-8 bytes and Spark's."""

BOOLS = Axis("bool", 0, 1, _after_whole)
"""False is 0, true is 1."""

TIMES = Axis(
    "timestamp",
    micros(datetime(1, 1, 1, tzinfo=UTC)),
    micros(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    _after_whole,
)
"""Timestamps in microseconds since 1970, from the year 1 to 9999 as in Spark."""


def past_prefix(prefix: str) -> str | None:
    """The smallest string greater than all that begin with a prefix; None if there is none.

    >>> past_prefix("fire")
    'firf'
    """
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return None
    last = ord(stem[-1]) + 1
    # No string holds a surrogate, so the code point after U+D7FF is U+E000.
    return stem[:-1] + chr(0xE000 if last == 0xD800 else last)


def prefixed(prefix: str) -> Cuts:
    """The strings that begin with a prefix."""
    past = past_prefix(prefix)
    below = STRINGS.below(prefix)
    return ~below if past is None else STRINGS.below(past) & ~below
