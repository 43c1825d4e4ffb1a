"""The event space of a topic: from filters and events to dz-expressions.

A box is a set of values for each attribute. It is decomposed by halving the whole space, one attribute after
the other in the order declared; one that is used up passes its turn without a bit. A cell that lies in a box
is an expression; one that lies in none is nothing; any other is halved again, down to the depth that is asked
for. What then still lies in part in a box is taken whole: a decomposition encloses its boxes and never loses
an event.

So to a depth, boxes are decomposed as if they were rounded to the cells of that depth. And since coarsening
fills the smallest holes first (`expressions`), a decomposition that must not have more than some members is
that of the greatest depth which has no more, and in part that of the next: no deeper one is ever made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tidings.language.cuts import EVERYTHING, NOTHING, Cuts
from tidings.language.fields import Field, Path, Type, find
from tidings.language.filters import Filter
from tidings.language.regions import ALL, TYPES, Box, Kind, Region, Unknown
from tidings.space import wildcards
from tidings.space.attributes import Attribute, Cell, attribute_of, joined
from tidings.space.expressions import Set, canonical, greatest

CELLS_MAX = 16_384
"""Members that a decomposition has at most, whatever is asked for. Boxes over many attributes would have
millions: they are enclosed at the greatest depth that has no more than this number."""

VISITS_MAX = 20_000
"""Cells that are looked at for a form with wild cards, some tenths of a second of work. Boxes that need more
are enclosed at the greatest depth that does not."""

PIECES_MAX = 256
"""Pieces of a cell that are looked at to see whether several boxes cover it together."""

INTERVALS_MAX = 4_096
"""Intervals of one attribute that an expression with wild cards may stand for; one of more is taken for all
of the attribute where it is compared."""

Product = tuple[Cuts, ...]
"""A box: for each attribute of a space where its values lie."""


@dataclass(frozen=True, slots=True)
class Decomposed:
    """A part of the space as dz-expressions."""

    dz: Set
    """Canonical; or in the one form with wild cards."""

    exact: bool
    """Whether an event with values of the domains lies in it just if the filter takes it."""

    @property
    def volume(self) -> float:
        """Its share of the widened space."""
        return wildcards.volume(self.dz)


class Space:
    """The attributes of a topic, in the order declared.

    >>> from tidings.language.fields import Type
    >>> from tidings.language.filters import parse
    >>> fields = {(n,): Field((n,), Type.INT, (0, 7)) for n in ("x", "y")}
    >>> space = Space.of(fields)
    >>> space.point({"x": 5, "y": 2}, 6)
    '100110'
    >>> space.dz(parse("x >= 4 AND y < 2", fields), depth=6)
    Decomposed(dz=('1000', '1010'), exact=True)
    >>> space.wild(parse("y < 2", fields), depth=6)
    Decomposed(dz=('*0*0',), exact=True)
    """

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        self.attributes = tuple(attributes)
        self._at = {attribute.path: at for at, attribute in enumerate(self.attributes)}
        self._turns: dict[int, list[int]] = {}

    @classmethod
    def of(cls, fields: Mapping[Path, Field]) -> Space:
        """The space of declared fields; those without a domain are left out."""
        found = (attribute_of(field) for field in fields.values())
        return cls([attribute for attribute in found if attribute is not None])

    def turns(self, depth: int) -> list[int]:
        """Which attribute each bit halves; fewer than asked for where all attributes are used up."""
        known = self._turns.get(depth)
        if known is not None:
            return known
        left = [attribute.bits for attribute in self.attributes]
        found: list[int] = []
        while len(found) < depth and any(bits is None or bits > 0 for bits in left):
            for at, bits in enumerate(left):
                if bits == 0 or len(found) == depth:
                    continue
                found.append(at)
                left[at] = None if bits is None else bits - 1
        self._turns[depth] = found
        return found

    # Points.

    def point(self, event: Mapping[str, object], depth: int) -> str:
        """The expression of the cell in which an event lies."""
        places = [attribute.place(find(event, attribute.path)) for attribute in self.attributes]
        cells = [attribute.root for attribute in self.attributes]
        bits = []
        for at in self.turns(depth):
            lower, upper = self.attributes[at].halves(cells[at])
            above = places[at] >= upper.low
            cells[at] = upper if above else lower
            bits.append("1" if above else "0")
        return "".join(bits)

    def reach(self, event: Mapping[str, object], depth: int, most: int | None = None) -> Set:
        """What an event may still become: where a field is missing, the whole range of its attribute.

        It is what a subscription that assumes is asked about.
        """
        return self.decompose([self._reached(event, depth)], depth, most).dz

    def wild_reach(self, event: Mapping[str, object], depth: int) -> wildcards.Form:
        """The same with wild cards, where it is one expression: a star for each bit that is not known."""
        return self._grown([self._reached(event, depth)], depth, None)[0]

    def _reached(self, event: Mapping[str, object], depth: int) -> Product:
        box: list[Cuts] = []
        for attribute in self.attributes:
            value = find(event, attribute.path)
            cell = attribute.root
            if value is None:
                box.append(EVERYTHING)
                continue
            place = attribute.place(value)
            for _ in range(depth):
                lower, upper = attribute.halves(cell)
                if attribute.bits is not None and lower.low >= lower.end:
                    break
                cell = upper if place >= upper.low else lower
            box.append(Cuts(False, (cell.low, cell.end)))
        return tuple(box)

    # Filters.

    def dz(
        self, asked: Filter, unknown: Unknown = Unknown.WAIT, *, depth: int, most: int | None = None
    ) -> Decomposed:
        """The expressions of the events that a filter takes; it was parsed with the topic's fields."""
        boxes = asked.boxes(unknown)
        found, held = self._decomposed(self.boxes(boxes), depth, most)
        return Decomposed(found, self._says_no_more(held, boxes, asked.types))

    def wild(
        self, asked: Filter, unknown: Unknown = Unknown.WAIT, *, depth: int, most: int | None = None
    ) -> Decomposed:
        """The same with wild cards, which are counted as they are written: so the same number says more."""
        boxes = asked.boxes(unknown)
        found, held = self._grown(self.boxes(boxes), depth, most)
        return Decomposed(found, self._says_no_more(held, boxes, asked.types))

    def boxes(self, boxes: Iterable[Box], *, missing: bool = False) -> list[Product]:
        """Boxes of the language as boxes of this space, around them.

        With `missing`, a region that holds the missing value holds the lowest place too: then an event with a
        missing field is met where `point` puts it, and `reach` is not needed.
        """
        found: dict[Product, None] = {}
        for box in boxes:
            product = [EVERYTHING] * len(self.attributes)
            for path, region in box:
                at = self._at.get(path)
                if at is not None:
                    attribute = self.attributes[at]
                    product[at] = attribute.met(region).cuts
                    if missing and region.null:
                        product[at] |= attribute.lowest
            if not any(cuts.empty for cuts in product):
                found[tuple(product)] = None
        return list(found)

    def _says_no_more(
        self, held: Sequence[Product], boxes: Sequence[Box], types: Mapping[Path, Type | None]
    ) -> bool:
        """Whether each event with values of the domains that lies in boxes of this space is in one of others.

        The fields that the space leaves out have axes here too: such an event is in a box whatever they are,
        missing or not.
        """
        others = sorted({path for box in boxes for path, _ in box if path not in self._at})
        axes = {path: len(self.attributes) + at for at, path in enumerate(others)}
        sure: list[Product] = []
        for box in boxes:
            product = [EVERYTHING] * (len(self.attributes) + len(others))
            for path, region in box:
                at = self._at.get(path)
                if at is None:
                    product[axes[path]] = _laid_out(region)
                else:
                    product[at] = self.attributes[at].met(region).sure
            if not any(cuts.empty for cuts in product):
                sure.append(tuple(product))
        domain = [attribute.domain for attribute in self.attributes]
        anything = [_laid_out(_values(types[path])) for path in others]
        for one in held:
            inside = [cuts & values for cuts, values in zip(one, domain, strict=True)]
            if not any(cuts.empty for cuts in inside) and not _covered((*inside, *anything), sure):
                return False
        return True

    # Boxes.

    def decompose(self, boxes: Sequence[Product], depth: int, most: int | None = None) -> Decomposed:
        """The expressions of some boxes together, and whether they hold just what the boxes do."""
        found, held = self._decomposed(boxes, depth, most)
        return Decomposed(found, all(box in boxes or _covered(box, boxes) for box in held))

    def _decomposed(
        self, boxes: Sequence[Product], depth: int, most: int | None
    ) -> tuple[Set, Sequence[Product]]:
        """The expressions of boxes, and boxes that hold just the same."""
        assert most is None or most >= 1, f"{most} expressions cover nothing"
        limit = CELLS_MAX if most is None else min(most, CELLS_MAX)
        deepest = len(self.turns(depth))
        parts = _Parts(self, boxes, depth)

        @cache
        def members(depth: int) -> list[str] | None:
            return parts.members(parts.root(depth), depth, limit)

        found = members(deepest)
        if found is None:
            deepest = greatest(deepest, lambda depth: members(depth) is not None)
            if most is not None:
                coarse = canonical(parts.between(deepest, limit))
                return coarse, [self.product(one) for one in coarse]
            found = members(deepest)
        return canonical(found or ()), parts.rounded(deepest)

    def _grown(
        self, boxes: Sequence[Product], depth: int, most: int | None
    ) -> tuple[wildcards.Form, Sequence[Product]]:
        """The form of boxes with wild cards, and boxes that hold just the same."""
        assert most is None or most >= 1, f"{most} expressions cover nothing"
        limit = CELLS_MAX if most is None else min(most, CELLS_MAX)
        deepest = len(self.turns(depth))
        parts, grove = _Parts(self, boxes, depth), wildcards.Grove()

        @cache
        def grown(depth: int) -> wildcards.Tree | None:
            return parts.grown(parts.root(depth), grove)

        tree = grown(deepest)
        if tree is None:
            deepest = greatest(deepest, lambda depth: grown(depth) is not None)
            tree = grown(deepest)
        assert tree is not None, "the whole space is one cell"
        if tree.members <= limit:
            return wildcards.written(tree), parts.rounded(deepest)
        found = wildcards.written(grove.coarsened(tree, limit))
        return found, [self.product(one) for one in found]

    def product(self, expression: str) -> Product:
        """What an expression stands for, as a box; with wild cards, an attribute may have many intervals."""
        taken = [""] * len(self.attributes)
        for bit, at in zip(expression, self.turns(len(expression)), strict=True):
            taken[at] += bit
        return tuple(
            _cuts(attribute, bits.rstrip(wildcards.STAR))
            for attribute, bits in zip(self.attributes, taken, strict=True)
        )


class _Part(NamedTuple):
    """A cell, and the boxes that hold some of it."""

    expression: str
    cells: tuple[Cell, ...]
    """Halved only as long as a box holds some values of it and not all."""

    held: tuple[tuple[Product, int], ...] | None
    """Boxes, each with the attributes, as bits, of which it holds only some values of the cell; None if all
    of the cell is held."""


class _Parts:
    """Boxes, rounded to the cells of any depth."""

    def __init__(self, space: Space, boxes: Sequence[Product], depth: int) -> None:
        self._attributes = space.attributes
        self._turns = space.turns(depth)
        self._boxes = boxes
        self._rounded: dict[int, list[Product]] = {}

    def rounded(self, depth: int) -> list[Product]:
        """The boxes as the cells of a depth that they meet."""
        if depth not in self._rounded:
            turns = self._turns[:depth]
            halvings = [turns.count(at) for at in range(len(self._attributes))]
            self._rounded[depth] = list(
                dict.fromkeys(
                    tuple(
                        cuts if cuts.full else attribute.rounded(cuts, times)
                        for attribute, cuts, times in zip(self._attributes, box, halvings, strict=True)
                    )
                    for box in self._boxes
                )
            )
        return self._rounded[depth]

    def root(self, depth: int) -> _Part:
        """The whole space, and the boxes rounded to a depth."""
        cells = tuple(attribute.root for attribute in self._attributes)
        held = []
        for box in self.rounded(depth):
            verdicts = [cell.within(cuts) for cell, cuts in zip(cells, box, strict=True)]
            if False not in verdicts:
                held.append((box, sum(1 << at for at, verdict in enumerate(verdicts) if verdict is None)))
        return _part("", cells, held)

    def halves(self, part: _Part) -> tuple[_Part, _Part]:
        expression, cells, held = part
        at = self._turns[len(expression)]
        if held is None or not any(some >> at & 1 for _, some in held):
            # All of the attribute is held, however it is halved.
            return _Part(expression + "0", cells, held), _Part(expression + "1", cells, held)
        lower, upper = self._attributes[at].halves(cells[at])
        return self._half(part, at, "0", lower), self._half(part, at, "1", upper)

    def _half(self, part: _Part, at: int, bit: str, half: Cell) -> _Part:
        cells = (*part.cells[:at], half, *part.cells[at + 1 :])
        held = []
        for box, some in part.held or ():
            if some >> at & 1:
                verdict = half.within(box[at])
                if verdict is None:
                    held.append((box, some))
                elif verdict:
                    held.append((box, some & ~(1 << at)))
            else:
                held.append((box, some))
        return _part(part.expression + bit, cells, held)

    def members(self, part: _Part, depth: int, most: int) -> list[str] | None:
        """The expressions within a part whose boxes are rounded to a depth; None if there are too many."""
        found: list[str] = []
        left = [part]
        while left:
            now = left.pop()
            if now.held is None:
                found.append(now.expression)
                if len(found) > most:
                    return None
            elif now.held:
                assert len(now.expression) < depth, f"{now.expression} is held in part at depth {depth}"
                left += reversed(self.halves(now))
        return found

    def between(self, depth: int, most: int) -> list[str]:
        """At most so many expressions: of a depth that has no more, and as far as they go of the next.

        The holes of the next depth that come first are filled, so many as must be.
        """
        coarse, fine = self.root(depth), self.root(depth + 1)
        before: list[str] = []
        after: list[str] = []
        while True:
            # Here the next depth has more than `most` expressions, and this one has not.
            (low, high), (fine_low, fine_high) = self.halves(coarse), self.halves(fine)
            lower, upper = self.members(low, depth, most), self.members(fine_high, depth + 1, most)
            if lower is not None and upper is not None and len(lower) + len(upper) <= most:
                after = upper + after
                most -= len(upper)
                coarse, fine = low, fine_low
                continue
            rest = self.members(high, depth, most)
            if lower is None or rest is None or len(lower) + len(rest) > most:
                # Both halves are held as a whole.
                return [*before, coarse.expression, *after]
            before += lower
            most -= len(lower)
            coarse, fine = high, fine_high

    def grown(self, part: _Part, grove: wildcards.Grove) -> wildcards.Tree | None:
        """The tree of a part; None if too many cells would be looked at."""
        visits = 0

        def grow(now: _Part) -> wildcards.Tree:
            nonlocal visits
            visits += 1
            if now.held is None:
                return wildcards.ALL
            if not now.held or visits > VISITS_MAX:
                return wildcards.NOTHING
            lower, upper = self.halves(now)
            below = grow(lower)
            # Halves that hold the same are said once.
            return grove.joined(below, below if lower.held is now.held else grow(upper))

        tree = grow(part)
        return None if visits > VISITS_MAX else tree


def _part(expression: str, cells: tuple[Cell, ...], held: Sequence[tuple[Product, int]]) -> _Part:
    if any(some == 0 for _, some in held) or (
        len(held) > 1
        and _covered(tuple(Cuts(False, (cell.low, cell.end)) for cell in cells), [box for box, _ in held])
    ):
        return _Part(expression, cells, None)
    return _Part(expression, cells, tuple(held))


def _covered(part: Product, boxes: Sequence[Product]) -> bool:
    """Whether boxes hold all of a part together; may say no where too many pieces would be looked at."""
    # What is left of the part once the boxes so far are taken away, as boxes that do not meet.
    left = [part]
    for box in boxes:
        remaining: list[Product] = []
        for piece in left:
            rest = list(piece)
            for at, cuts in enumerate(box):
                outside = rest[at] & ~cuts
                if not outside.empty:
                    remaining.append((*rest[:at], outside, *rest[at + 1 :]))
                rest[at] = rest[at] & cuts
                if rest[at].empty:
                    break
        if not remaining:
            return True
        if len(remaining) > PIECES_MAX:
            return False
        left = remaining
    return False


def _cuts(attribute: Attribute, bits: str) -> Cuts:
    """The cells of an attribute that some bits lead to, with wild cards among them."""
    if bits.count(wildcards.STAR) > INTERVALS_MAX.bit_length() - 1 or not bits:
        return EVERYTHING
    cells = [attribute.root]
    for bit in bits:
        cells = [
            half
            for cell in cells
            for side, half in zip("01", attribute.halves(cell), strict=True)
            if bit in (side, wildcards.STAR)
        ]
    return joined((cell.low, cell.end) for cell in cells)


def _laid_out(region: Region) -> Cuts:
    """A region of a field that the space leaves out, on an axis of its own: missing, by kind, others.

    Nothing of it where it asks for a pattern, which no interval can say.
    """
    intervals: list[tuple[object, object]] = [((0,), (1,))] if region.null else []
    for kind in Kind:
        values = region.of(kind)
        if values.likes:
            return NOTHING
        for low, high in values.cuts.intervals():
            intervals.append(
                (
                    (kind + 1,) if low is None else (kind + 1, low),
                    (kind + 2,) if high is None else (kind + 1, high),
                )
            )
    last = (len(Kind) + 1,)
    if region.other:
        intervals.append((last, (len(Kind) + 2,)))
    return joined(intervals)


def _values(declared: Type | None) -> Region:
    """All that a field can be."""
    return Region(True, True) if declared is None else Region(True, False, ((TYPES[declared], ALL),))
