"""One attribute of an event space: a declared field, laid out on an axis that can be halved.

Whole numbers, points in time, booleans and listed strings are counted from the lowest on, and the count is
widened to the next power of two: so an attribute is used up after the same number of bits everywhere. Floats
are never used up. What lies outside the domain lies in the cell at its edge, and a string that is not listed
in the last one; a missing value lies in the lowest. An event space refuses nothing.

A region of values becomes cuts on the axis: never less than the region, and more only where a value outside
the domain, or a missing one, must be met.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from tidings.language.cuts import NOTHING, STRINGS, Cuts
from tidings.language.fields import Field, Path, Type
from tidings.language.regions import TYPES, Region
from tidings.language.timestamps import micros


class Cell(NamedTuple):
    """A part of an axis: `[begin, end)`."""

    low: Any
    high: Any
    """What is halved: the middle is that of `low` and `high`."""

    begin: Any
    """The first place: `low`, or before it where the axis begins."""

    end: Any
    """Behind the last place: `high`, or behind it where the axis ends."""

    @property
    def cuts(self) -> Cuts:
        return Cuts(False, (self.begin, self.end))

    def within(self, cuts: Cuts) -> bool | None:
        """Whether all of the cell lies in a set: yes, no, or (None) only a part of it."""
        if self.begin >= self.end:
            return False
        at = bisect_right(cuts.points, self.begin)
        if at < len(cuts.points) and cuts.points[at] < self.end:
            return None
        return cuts.inside ^ (at & 1 == 1)


@dataclass(frozen=True, slots=True)
class Whole:
    """Values that are counted: whole numbers, points in time, booleans, listed strings."""

    path: Path
    type: Type
    low: int
    """The lowest value; strings and booleans are counted from 0."""

    count: int
    """How many values there are."""

    bits: int
    """How often the axis can be halved: there is room for 2**bits values."""

    listed: tuple[str, ...] = ()

    @property
    def root(self) -> Cell:
        return Cell(0, 1 << self.bits, 0, 1 << self.bits)

    def halves(self, cell: Cell) -> tuple[Cell, Cell]:
        middle = (cell.low + cell.high) // 2
        return Cell(cell.low, middle, cell.low, middle), Cell(middle, cell.high, middle, cell.high)

    def place(self, value: object) -> int:
        """Where a value lies; a missing one, and one of another kind, in the lowest place."""
        if self.listed:
            if not isinstance(value, str):
                return 0
            return self.listed.index(value) if value in self.listed else self.count - 1
        at = self._counted(value)
        return 0 if at is None else min(max(at, 0), self.count - 1)

    def _counted(self, value: object) -> int | None:
        """How far behind the lowest value one is; None for one of another kind."""
        if isinstance(value, datetime):
            return micros(value) - self.low
        if isinstance(value, (bool, int)) and (self.type is Type.BOOL) == isinstance(value, bool):
            return int(value) - self.low
        if isinstance(value, float) and self.type is Type.INT:
            return math.floor(value) - self.low
        return None

    def met(self, region: Region) -> Cuts:
        """Where the values of a region lie."""
        values = region.of(TYPES[self.type])
        if self.listed:
            cuts = _some([at for at, text in enumerate(self.listed) if text in values])
            others = values.cuts & ~STRINGS.some(self.listed)
            if not others.empty:
                # Strings that are not listed lie in the last place.
                cuts |= Cuts(False, (self.count - 1, self.count))
        else:
            cuts = NOTHING
            for low, high in values.cuts.intervals():
                begin = -math.inf if low is None else math.ceil(low) - self.low
                end = math.inf if high is None else math.ceil(high) - self.low
                if begin < end:
                    cuts |= Cuts(False, (min(max(begin, 0), self.count - 1), min(max(end, 1), self.count)))
        if cuts.empty and region.null:
            return self.lowest
        if cuts.points and cuts.points[-1] == self.count:
            # What reaches the end of the domain reaches the widened end.
            return Cuts(cuts.inside, (*cuts.points[:-1], 1 << self.bits))
        return cuts

    @property
    def lowest(self) -> Cuts:
        """Where a missing value lies."""
        return Cuts(False, (0, 1))

    @property
    def domain(self) -> Cuts:
        """Where values of the domain lie."""
        return Cuts(False, (0, self.count))

    def rounded(self, cuts: Cuts, halvings: int) -> Cuts:
        """The cells, after so many halvings, that a set meets."""
        shift = self.bits - halvings
        end = 1 << self.bits
        return joined(
            (
                ((low or 0) >> shift << shift, -(-(end if high is None else high) >> shift) << shift)
                for low, high in cuts.intervals()
            )
        )


@dataclass(frozen=True, slots=True)
class Real:
    """Floats between two ends, which belong to the domain.

    A missing value has a place of its own before the lowest: so it lies in the lowest cell even where no
    value does. A domain of one value is such: that lies in the upper half.
    """

    path: Path
    low: float
    high: float
    bits: None = None

    @property
    def root(self) -> Cell:
        return Cell(self.low, self.high, -math.inf, math.inf)

    def halves(self, cell: Cell) -> tuple[Cell, Cell]:
        middle = middle_of(cell.low, cell.high)
        return Cell(cell.low, middle, cell.begin, middle), Cell(middle, cell.high, middle, cell.end)

    def place(self, value: object) -> float:
        """Where a value lies; a missing one, and one of another kind, in the lowest place."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return -math.inf
        return min(max(value, self.low), self.high)

    def met(self, region: Region) -> Cuts:
        """Where the values of a region lie."""
        cuts = NOTHING
        for low, high in region.of(TYPES[Type.FLOAT]).cuts.intervals():
            begin = -math.inf if low is None or low <= self.low else min(low, self.high)
            # What lies before the domain lies in its lowest value.
            end = math.inf if high is None else max(high, math.nextafter(self.low, math.inf))
            cuts |= Cuts(False, (begin, math.inf if end > self.high else end))
        return self.lowest if cuts.empty and region.null else cuts

    @property
    def lowest(self) -> Cuts:
        """Where a missing value lies."""
        return Cuts(False, (-math.inf, self.low))

    @property
    def domain(self) -> Cuts:
        """Where values of the domain lie."""
        return Cuts(False, (self.low, math.inf))

    def rounded(self, cuts: Cuts, halvings: int) -> Cuts:
        """The cells, after so many halvings, that a set meets."""
        return joined(
            ((self._begin(low, halvings), self._end(high, halvings)) for low, high in cuts.intervals())
        )

    def _begin(self, low: float, halvings: int) -> float:
        """Where the cell begins that has a value."""
        cell = self.root
        for _ in range(halvings):
            lower, upper = self.halves(cell)
            cell = upper if low >= upper.begin else lower
        return float(cell.begin)

    def _end(self, high: float, halvings: int) -> float:
        """Where the cell ends that has the values right before an end."""
        cell = self.root
        for _ in range(halvings):
            lower, upper = self.halves(cell)
            cell = upper if high > upper.begin else lower
        return float(cell.end)


Attribute = Whole | Real


def attribute_of(field: Field) -> Attribute | None:
    """A field as an attribute; None for one without a domain, and for one that has many values at once."""
    if field.many or (field.domain is None and field.type is not Type.BOOL):
        return None
    domain: tuple[Any, ...] = field.domain or ()
    if field.type is Type.FLOAT:
        return Real(field.path, float(domain[0]), float(domain[1]))
    if field.type is Type.STRING:
        return whole(field.path, field.type, 0, len(domain), domain)
    if field.type is Type.BOOL:
        return whole(field.path, field.type, 0, 2)
    low, high = (micros(one) if isinstance(one, datetime) else int(one) for one in domain)
    return whole(field.path, field.type, low, high - low + 1)


def whole(path: Path, kind: Type, low: int, count: int, listed: tuple[str, ...] = ()) -> Whole:
    """So many values from the lowest on.

    >>> whole(("severity",), Type.INT, 0, 6).bits
    3
    """
    return Whole(path, kind, low, count, (count - 1).bit_length(), listed)


def middle_of(low: float, high: float) -> float:
    """The middle of two floats, which may be as large as floats can be."""
    middle = (low + high) / 2
    return middle if math.isfinite(middle) else low / 2 + high / 2


def _some(places: list[int]) -> Cuts:
    """Some places of an axis, given in increasing order."""
    return joined((at, at + 1) for at in places)


def joined(intervals: Iterable[tuple[Any, Any]]) -> Cuts:
    """Intervals `[low, high)`, given in increasing order, that may touch or overlap."""
    points: list[Any] = []
    for low, high in intervals:
        if points and points[-1] >= low:
            points[-1] = max(points[-1], high)
        else:
            points += (low, high)
    return Cuts(False, tuple(points))
