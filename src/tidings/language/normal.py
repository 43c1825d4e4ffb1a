"""The normal form of a filter: a disjunction of conjunctions, each with one constraint per field.

AND and OR of SQL's three verdicts are minimum and maximum, so distributing one over the other, and NOT down
to the terms, keeps every verdict. What does not hold is that a term or its contrary is true: `x > 5 AND x <
3` is UNKNOWN of an event without x. So nothing is dropped here for being a contradiction or a tautology
unless all values, the missing one included, say so; `regions` keeps the books.

Distributing makes many conjunctions of few different constraints. So each constraint gets a number, once, and
conjunctions are compared as tuples of numbers. The steps that this takes are counted before they are done.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from tidings.errors import FilterTooCostly
from tidings.language.cuts import any_of
from tidings.language.fields import Path
from tidings.language.limits import Limits, Steps
from tidings.language.regions import Constraint, Region, Unknown, Values, all_of, tidied
from tidings.language.tree import Always, And, Node, Not, Or, Pattern, constraint, terms
from tidings.language.wording import constraint_text

Conjunction = tuple[tuple[Path, Constraint], ...]
"""One constraint per field; by path. The empty one is true of every event."""

Numbered = tuple[int, tuple[int, ...]]
"""A conjunction by numbers: a bit for each of its fields, and the numbers of its constraints, increasing."""

Alive = tuple[int, tuple[int, ...], int]
"""The same with two bits: whether an event can match for those who wait (1), and for those who assume (2)."""

FIELD_SHIFT = 20
"""The number of a constraint has the place of its field above this bit, so that numbers sort by field."""


def normal(node: Node, limits: Limits, steps: Steps) -> tuple[tuple[Conjunction, ...], str]:
    """The conjunctions of a filter, none within another, in the order of their text; and the text of all."""
    return _Normal(node, limits, steps).form()


class _Normal:
    """One filter on the way to its normal form."""

    def __init__(self, node: Node, limits: Limits, steps: Steps) -> None:
        self._node = node
        self._limits = limits
        self._steps = steps
        self._paths = sorted({term.field.path for term in terms(node)})
        self._places = {path: place for place, path in enumerate(self._paths)}
        self._held: dict[int, Constraint] = {}
        self._numbers: dict[tuple[int, Constraint], int] = {}
        self._points: dict[int, int] = {}
        """How many each constraint has."""
        self._intervals: dict[int, tuple[object, Any, Any]] = {}
        """Of those that are one interval: of what, its begin and its end."""
        self._regions: dict[int, tuple[Region, Region]] = {}
        """Of each constraint for those who wait, and for those who assume."""
        self._empty: tuple[set[int], set[int]] = set(), set()
        """Constraints that no value satisfies, in the same order."""
        self._narrower: dict[tuple[int, int, int], bool] = {}

    def form(self) -> tuple[tuple[Conjunction, ...], str]:
        found = self._without_absorbed(self._spread(self._node, False))
        said: dict[int, str] = {}
        for number in {number: None for _, numbers in found for number in numbers}:
            held = self._held[number]
            self._steps.take(4 + self._points[number] // 4)
            said[number] = constraint_text(self._path(number), held)
        self._steps.take(_size(found) // 4)
        texts = {one: " AND ".join([said[number] for number in one[1]]) or "TRUE" for one in found}
        found.sort(key=texts.__getitem__)
        disjuncts = tuple(
            tuple((self._path(number), self._held[number]) for number in numbers) for _, numbers in found
        )
        return disjuncts, " OR ".join([texts[one] for one in found]) or "FALSE"

    def _path(self, number: int) -> Path:
        return self._paths[number >> FIELD_SHIFT]

    def _number(self, place: int, held: Constraint) -> int:
        points = held.points
        # Hashing looks at every point.
        self._steps.take(2 + points // 8)
        number = self._numbers.get((place, held))
        if number is None:
            number = place << FIELD_SHIFT | len(self._numbers)
            self._numbers[place, held] = number
            self._held[number] = held
            self._points[number] = points
            if points == 2 and len(held.sets) == 1 and held.null is not True:
                ((kind, values),) = held.sets
                if not values.cuts.inside and not values.likes:
                    self._intervals[number] = ((kind, held.null), *values.cuts.points)
            if held.null is True or len(held.sets) != 1 or held.sets[0][1].cuts.empty:
                # All others hold some value.
                for at, region in enumerate(_regions(held)):
                    if region.empty:
                        self._empty[at].add(number)
        return number

    # Distributing.

    def _spread(self, node: Node, negated: bool) -> list[Numbered]:
        """The conjunctions of a node or of its negation."""
        match node:
            case Not(part):
                return self._spread(part, not negated)
            case Always(holds):
                return [(0, ())] if holds is not negated else []
            case And(parts) | Or(parts):
                spread = [self._spread(part, negated) for part in parts]
                if isinstance(node, And) is negated:
                    return self._bounded(
                        self._joined(self._few_fields([it for many in spread for it in many]))
                    )
                # Parts without alternatives make one conjunction, however many; only the others multiply.
                product = self._all_of([many[0] for many in spread if len(many) == 1])
                for many in (many for many in spread if len(many) != 1):
                    # The raw size is what must be bounded; joining afterwards would come too late.
                    if len(product) * len(many) > 4 * self._limits.disjuncts:
                        raise self._too_many()
                    product = self._bounded(
                        self._joined([one for a in product for b in many for one in self._all_of([a, b])])
                    )
                return product
            case _:
                if isinstance(node, Pattern):
                    self._steps.take(sum(map(len, node.parts)) // 2)
                held = constraint(node, negated)
                self._steps.take(3 + held.points // 8)
                place = self._places[node.field.path]
                return [(1 << place, (self._number(place, held),))]

    def _few_fields(self, found: list[Numbered]) -> list[Numbered]:
        """Alternatives on so many fields can never become few enough, and joining them would take long."""
        if len({fields for fields, _ in found}) > self._limits.disjuncts:
            raise self._too_many()
        return found

    def _bounded(self, found: list[Numbered]) -> list[Numbered]:
        if len(found) > self._limits.disjuncts:
            raise self._too_many()
        return found

    def _too_many(self) -> FilterTooCostly:
        return FilterTooCostly(
            f"as a disjunction of conjunctions the filter has more than {self._limits.disjuncts} parts, "
            "which is the limit; subscribe to some of the alternatives separately"
        )

    def _all_of(self, parts: list[Numbered]) -> list[Numbered]:
        """Conjunctions as one; none if that is false of every event."""
        fields = shared = 0
        numbers: list[int] = []
        for mask, own in parts:
            shared |= fields & mask
            fields |= mask
            numbers += own
        self._steps.take(1 + len(numbers) // 8)
        numbers.sort()
        if not shared:
            return [(fields, tuple(numbers))]
        merged: list[int] = []
        at = 0
        while at < len(numbers):
            place = numbers[at] >> FIELD_SHIFT
            end = bisect_left(numbers, place + 1 << FIELD_SHIFT, at)
            number = numbers[at] if end == at + 1 else self._both(place, numbers[at:end])
            if number is None:
                return []
            merged.append(number)
            at = end
        return [(fields, tuple(merged))]

    def _both(self, place: int, numbers: list[int]) -> int | None:
        """The number of all that some constraints on one field say; None if that is false of every value."""
        parts = [self._held[number] for number in dict.fromkeys(numbers)]
        if len(parts) == 1:
            return numbers[0]
        points = sum(self._points[number] for number in numbers)
        # Of single strings it is asked at once whether they fit a pattern.
        likes = sum(len(values.likes) for held in parts for _, values in held.sets)
        self._steps.take(5 + len(parts) + points * (1 + 2 * likes))
        held = all_of(parts)
        return None if held is None else self._number(place, held)

    # Joining.

    def _joined(self, found: list[Numbered]) -> list[Numbered]:
        """The same disjunction with those made one that differ in the values of one field only."""
        found = list(dict.fromkeys(found))
        changed = len(found) > 1
        while changed:
            changed = False
            self._steps.take(_size(found) // 8)
            # Where all of them say the same of a field, or only one says anything, nothing can be joined.
            numbers = sorted({number for _, numbers in found for number in numbers})
            places = [number >> FIELD_SHIFT for number in numbers]
            for place in dict.fromkeys(here for here, after in pairwise(places) if here == after):
                joined = self._joined_on(place, found)
                if len(joined) < len(found):
                    found, changed = joined, True
        return found

    def _joined_on(self, place: int, found: list[Numbered]) -> list[Numbered]:
        self._steps.take(len(found) + _size(found) // 16)
        groups: dict[object, list[tuple[Numbered, int]]] = {}
        for at, one in enumerate(found):
            fields, numbers = one
            here = bisect_left(numbers, place << FIELD_SHIFT)
            held = self._held[numbers[here]] if fields >> place & 1 else None
            if held is None or len(held.sets) != 1 or held.sets[0][1].likes:
                # Intervals can be joined; patterns, and sets of several kinds, cannot.
                groups[at] = [(one, here)]
            else:
                rest = numbers[:here] + numbers[here + 1 :]
                groups.setdefault((rest, held.null, held.sets[0][0]), []).append((one, here))
        return list(dict.fromkeys(self._union(place, group) for group in groups.values()))

    def _union(self, place: int, group: list[tuple[Numbered, int]]) -> Numbered:
        (fields, numbers), at = group[0]
        if len(group) == 1:
            return fields, numbers
        parts = [self._held[numbers[at]] for (_, numbers), at in group]
        self._steps.take(5 + len(parts) + sum(held.points for held in parts))
        first = parts[0]
        cuts = any_of([held.sets[0][1].cuts for held in parts])
        joined = tidied(first.null, {first.sets[0][0]: Values(cuts)}, first.declared)
        assert joined is not None, "a union holds what its parts hold"
        return fields, (*numbers[:at], self._number(place, joined), *numbers[at + 1 :])

    # Absorbing.

    def _without_absorbed(self, found: list[Numbered]) -> list[Numbered]:
        """Those that no other one makes needless."""
        if len(found) < 2:
            return found
        kept: list[Alive] = []
        for fields, numbers in found:
            self._steps.take(1 + len(kept) // 2)
            one = (
                fields,
                numbers,
                self._empty[0].isdisjoint(numbers) | self._empty[1].isdisjoint(numbers) << 1,
            )
            if not any(self._within(one, other) for other in kept):
                kept = [other for other in kept if not self._within(other, one)]
                kept.append(one)
        return [(fields, numbers) for fields, numbers, _ in kept]

    def _within(self, one: Alive, other: Alive) -> bool:
        """Whether the verdict of one is nowhere above that of the other, at either threshold."""
        fields, here, thresholds = one
        if not thresholds:
            return True
        if other[0] & ~fields or thresholds & ~other[2]:
            return False
        for number in other[1]:
            own = here[bisect_left(here, number >> FIELD_SHIFT << FIELD_SHIFT)]
            if own == number:
                continue
            mine, its = self._intervals.get(own), self._intervals.get(number)
            if mine is not None and its is not None and mine[0] == its[0]:
                # One interval within another, at both thresholds: by far the most frequent question.
                if its[1] > mine[1] or mine[2] > its[2]:
                    return False
            elif not self._is_narrower(own, number, thresholds):
                return False
        return True

    def _is_narrower(self, number: int, other: int, thresholds: int) -> bool:
        key = number, other, thresholds
        found = self._narrower.get(key)
        if found is None:
            self._steps.take(2 + (self._points[number] + self._points[other]) // 8)
            here, there = self._regions_of(number), self._regions_of(other)
            found = self._narrower[key] = (not thresholds & 1 or here[0] <= there[0]) and (
                thresholds < 2 or here[1] <= there[1]
            )
        return found

    def _regions_of(self, number: int) -> tuple[Region, Region]:
        found = self._regions.get(number)
        if found is None:
            found = self._regions[number] = _regions(self._held[number])
        return found


def _regions(held: Constraint) -> tuple[Region, Region]:
    return held.region(Unknown.WAIT), held.region(Unknown.ASSUME)


def _size(found: Iterable[Numbered]) -> int:
    """How many constraints some conjunctions have in all."""
    return sum(len(numbers) for _, numbers in found)
