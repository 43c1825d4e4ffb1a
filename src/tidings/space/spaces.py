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

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tidings.language.cuts import EVERYTHING, Cuts
from tidings.language.fields import Field, Path, find
from tidings.language.regions import Box, Unknown
from tidings.space import wildcards
from tidings.space.attributes import Attribute, Cell, attribute_of, joined
from tidings.space.expressions import Set, canonical, greatest

if TYPE_CHECKING:
    from tidings.language.filters import Filter

CELLS_MAX = 16_384
"""Members that a decomposition has at most, whatever is asked for. Boxes over many attributes would have
millions: they are enclosed at the greatest depth that has no more than this number."""

VISITS_MAX = 20_000
"""Different cells that are looked at for a form with wild cards, some tenths of a second of work. Boxes that
need more are enclosed at the greatest depth that needs no more than a quarter of it."""

PIECES_MAX = 256
"""Sets of boxes that are looked at to see whether several boxes cover a cell together."""

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
    """Whether it holds what its boxes do: none enclosed at the depth, nothing made coarser for a number."""

    bounded: bool = field(default=False, repr=False)
    """Whether it is coarser than was asked for, because CELLS_MAX or VISITS_MAX do not allow more."""

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
            above = places[at] >= upper.begin
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
        return self.decompose_wild([self._reached(event, depth)], depth).dz

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
                if attribute.bits is not None and lower.begin >= lower.end:
                    break
                cell = upper if place >= upper.begin else lower
            box.append(cell.cuts)
        return tuple(box)

    # Filters.

    def dz(
        self, asked: Filter, unknown: Unknown = Unknown.WAIT, *, depth: int, most: int | None = None
    ) -> Decomposed:
        """The expressions of the events that a filter takes; it was parsed with the topic's fields."""
        return self.decompose(self.boxes(asked.boxes(unknown)), depth, most)

    def wild(
        self, asked: Filter, unknown: Unknown = Unknown.WAIT, *, depth: int, most: int | None = None
    ) -> Decomposed:
        """The same with wild cards, which are counted as they are written: so the same number says more."""
        return self.decompose_wild(self.boxes(asked.boxes(unknown)), depth, most)

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
                    product[at] = attribute.met(region)
                    if missing and region.null:
                        product[at] |= attribute.lowest
            if not any(cuts.empty for cuts in product):
                found[tuple(product)] = None
        return list(found)

    # Boxes.

    def decompose(self, boxes: Sequence[Product], depth: int, most: int | None = None) -> Decomposed:
        """The expressions of some boxes together, and whether they hold just what the boxes do."""
        assert most is None or most >= 1, f"{most} expressions cover nothing"
        limit = CELLS_MAX if most is None else min(most, CELLS_MAX)
        parts = _Parts(self, boxes, depth)
        deepest = parts.deepest
        bounded = parts.count(parts.root(deepest), 0, limit, {}) is None
        if bounded:
            deepest = greatest(
                deepest, lambda depth: parts.count(parts.root(depth), 0, limit, {}) is not None
            )
            if most is not None:
                return Decomposed(canonical(parts.between(deepest, limit)), exact=False)
        found = canonical(parts.members("", parts.root(deepest)))
        return Decomposed(found, parts.exact(deepest), bounded)

    def decompose_wild(self, boxes: Sequence[Product], depth: int, most: int | None = None) -> Decomposed:
        """The same with wild cards."""
        assert most is None or most >= 1, f"{most} expressions cover nothing"
        limit = CELLS_MAX if most is None else min(most, CELLS_MAX)
        parts, grove = _Parts(self, boxes, depth), wildcards.Grove()

        deepest = parts.deepest
        tree = parts.grown(deepest, grove, VISITS_MAX)
        bounded = tree is None
        if tree is None:
            # Several depths are tried, so each with less.
            grown = cache(lambda depth: parts.grown(depth, grove, VISITS_MAX // 4))
            deepest = greatest(deepest, lambda depth: grown(depth) is not None)
            tree = grown(deepest)
        assert tree is not None, "the whole space is one cell"
        if tree.members > limit:
            coarse = wildcards.written(grove.coarsened(tree, limit))
            return Decomposed(coarse, exact=False, bounded=bounded or most is None)
        return Decomposed(wildcards.written(tree), parts.exact(deepest), bounded)

    def product(self, expression: str) -> Product:
        """What an expression stands for, as a box; with wild cards, an attribute may have many intervals."""
        taken = [""] * len(self.attributes)
        for bit, at in zip(expression, self.turns(len(expression)), strict=True):
            taken[at] += bit
        return tuple(
            _cuts(attribute, bits.rstrip(wildcards.STAR))
            for attribute, bits in zip(self.attributes, taken, strict=True)
        )


# Boxes are bits of a number here: so what some boxes do to a cell is a few operations, however many they are.


class _Axis:
    """Where boxes lie on the axis of one attribute."""

    def __init__(self, every: Sequence[Cuts]) -> None:
        self.every = every
        """Of each box."""
        flips: dict[Any, int] = {}
        now = 0
        for at, cuts in enumerate(every):
            now |= cuts.inside << at
            for point in cuts.points:
                flips[point] = flips.get(point, 0) | 1 << at
        self._points = sorted(flips)
        self._masks = [now]
        for point in self._points:
            now ^= flips[point]
            self._masks.append(now)

    def masks(self, begin: Any, end: Any) -> list[int]:
        """The boxes that hold each part of `[begin, end)` between which none begins or ends."""
        if begin >= end:
            return []
        return self._masks[bisect_right(self._points, begin) : bisect_left(self._points, end) + 1]


class _Place:
    """A cell of one attribute, and which boxes hold it."""

    __slots__ = ("_attribute", "_axis", "_cell", "_halves", "every", "masks", "some")

    def __init__(self, attribute: Attribute, axis: _Axis, cell: Cell) -> None:
        self._attribute = attribute
        self._axis = axis
        self._cell = cell
        self._halves: tuple[_Place, _Place] | None = None
        self.masks = _least(axis.masks(cell.begin, cell.end))
        self.some = 0
        """The boxes that hold some values of it."""
        self.every = -1
        """The boxes that hold every value of it."""
        for mask in axis.masks(cell.begin, cell.end):
            self.some |= mask
            self.every &= mask

    def halves(self) -> tuple[_Place, _Place]:
        if self._halves is None:
            lower, upper = self._attribute.halves(self._cell)
            self._halves = (
                _Place(self._attribute, self._axis, lower),
                _Place(self._attribute, self._axis, upper),
            )
        return self._halves


class _Part(NamedTuple):
    """A cell of the space. Equal ones of a depth hold the same."""

    places: tuple[_Place | None, ...]
    """Of each attribute; None if each box that holds some of the cell holds all of the attribute's values."""

    boxes: int
    """Those that hold some of the cell."""


HELD = _Part((), -1)
"""A cell that the boxes hold together."""

EMPTY = _Part((), 0)


class _Parts:
    """Boxes, rounded to the cells of any depth."""

    def __init__(self, space: Space, boxes: Sequence[Product], depth: int) -> None:
        self._attributes = space.attributes
        self._turns = space.turns(depth)
        self._boxes = boxes
        self._axes: dict[tuple[int, int | None], _Axis] = {}

    @property
    def deepest(self) -> int:
        return len(self._turns)

    def _axis(self, at: int, halvings: int | None) -> _Axis:
        """An attribute with the boxes as they are, or as the cells that they meet after so many halvings."""
        key = at, halvings
        if key not in self._axes:
            every = [box[at] for box in self._boxes]
            if halvings is not None:
                rounded = self._attributes[at].rounded
                every = [cuts if cuts.full else rounded(cuts, halvings) for cuts in every]
            self._axes[key] = _Axis(every)
        return self._axes[key]

    def _rounded(self, depth: int) -> list[_Axis]:
        turns = self._turns[:depth]
        return [self._axis(at, turns.count(at)) for at in range(len(self._attributes))]

    def exact(self, depth: int) -> bool:
        """Whether the cells of a depth that the boxes meet are the boxes."""
        rounded = self._rounded(depth)
        known = set(self._boxes)
        for one in range(len(self._boxes)):
            box = tuple(axis.every[one] for axis in rounded)
            if box in known:
                continue
            choices = []
            for at, cuts in enumerate(box):
                some = cuts & self._attributes[at].root.cuts
                axis = self._axis(at, None)
                choices.append({mask for ends in some.intervals() for mask in axis.masks(*ends)})
            if not _covered(-1, [_least(masks) for masks in choices]):
                return False
        return True

    def root(self, depth: int) -> _Part:
        """The whole space, and the boxes rounded to a depth."""
        places = [
            _Place(attribute, axis, attribute.root)
            for attribute, axis in zip(self._attributes, self._rounded(depth), strict=True)
        ]
        some = (1 << len(self._boxes)) - 1
        for place in places:
            some &= place.some
        return _part(places, some)

    def halves(self, part: _Part, level: int) -> tuple[_Part, _Part]:
        """The halves of a part of so many bits."""
        if part is HELD:
            return HELD, HELD
        at = self._turns[level]
        place = part.places[at]
        if place is None:
            return part, part
        before, behind = part.places[:at], part.places[at + 1 :]
        lower, upper = place.halves()
        return (
            _part((*before, lower, *behind), part.boxes & lower.some),
            _part((*before, upper, *behind), part.boxes & upper.some),
        )

    def count(self, part: _Part, level: int, most: int, known: dict[tuple[_Part, int], int]) -> int | None:
        """How many expressions a part of so many bits has; None if more than so many.

        What is known of the parts of one rounding is added to.
        """
        total = 0

        def counted(part: _Part, level: int) -> int:
            nonlocal total
            if part is EMPTY or total > most:
                return 0
            if part is HELD:
                total += 1
                return 1
            found = known.get((part, level))
            if found is not None:
                total += found
                return found
            lower, upper = self.halves(part, level)
            found = counted(lower, level + 1) + counted(upper, level + 1)
            if total <= most:
                known[part, level] = found
            return found

        counted(part, level)
        return None if total > most else total

    def members(self, expression: str, part: _Part) -> list[str]:
        """The expressions within a part."""
        found: list[str] = []
        left = [(expression, part)]
        while left:
            now, part = left.pop()
            if part is HELD:
                found.append(now)
            elif part is not EMPTY:
                lower, upper = self.halves(part, len(now))
                left += ((now + "1", upper), (now + "0", lower))
        return found

    def between(self, depth: int, most: int) -> list[str]:
        """At most so many expressions: of a depth that has no more, and as far as they go of the next.

        The holes of the next depth that come first are filled, so many as must be.
        """
        now, coarse, fine = "", self.root(depth), self.root(depth + 1)
        known: dict[tuple[_Part, int], int] = {}
        fine_known: dict[tuple[_Part, int], int] = {}
        found: list[str] = []
        while True:
            # Here the next depth has more than `most` expressions, and this one has not.
            level = len(now) + 1
            low, high = self.halves(coarse, len(now))
            fine_low, fine_high = self.halves(fine, len(now))
            lower = self.count(low, level, most, known)
            upper = self.count(fine_high, level, most, fine_known)
            if lower is not None and upper is not None and lower + upper <= most:
                found += self.members(now + "1", fine_high)
                most -= upper
                now, coarse, fine = now + "0", low, fine_low
                continue
            rest = self.count(high, level, most, known)
            if lower is None or rest is None or lower + rest > most:
                # Both halves are held as a whole.
                return [*found, now]
            found += self.members(now + "0", low)
            most -= lower
            now, coarse, fine = now + "1", high, fine_high

    def grown(self, depth: int, grove: wildcards.Grove, most: int) -> wildcards.Tree | None:
        """The tree of the boxes, rounded to a depth; None if it takes more than so many different cells."""
        known: dict[tuple[_Part, int], wildcards.Tree] = {}

        def grow(part: _Part, level: int) -> wildcards.Tree:
            if part is HELD:
                return wildcards.ALL
            if part is EMPTY or len(known) > most:
                return wildcards.NOTHING
            tree = known.get((part, level))
            if tree is None:
                lower, upper = self.halves(part, level)
                below = grow(lower, level + 1)
                tree = grove.joined(below, below if lower is upper else grow(upper, level + 1))
                known[part, level] = tree
            return tree

        tree = grow(self.root(depth), 0)
        return None if len(known) > most else tree


def _part(places: Sequence[_Place | None], boxes: int) -> _Part:
    """A cell with its places, and the boxes that hold some of each."""
    if not boxes:
        return EMPTY
    every = fewest = boxes
    kept: list[_Place | None] = []
    for place in places:
        if place is None or not boxes & ~place.every:
            kept.append(None)
        else:
            kept.append(place)
            every &= place.every
            fewest &= place.masks[0]
    # Where the parts that fewest boxes hold meet, there is mostly none left, and nothing more to be asked.
    if every or (fewest and _covered(boxes, [place.masks for place in kept if place])):
        return HELD
    return _Part(tuple(kept), boxes)


def _covered(boxes: int, choices: Sequence[Sequence[int]]) -> bool:
    """Whether boxes hold all of a cell together: some box is left whatever part is chosen of each attribute.

    Of each attribute the boxes are given that hold each part. May say no where too much would be looked at.
    """
    fewest = boxes
    for masks in choices:
        fewest = min((fewest & mask for mask in masks), key=int.bit_count)
        if not fewest:
            return False
    left = {boxes}
    for masks in choices:
        left = set(_least({some & mask for some in left for mask in masks}))
        if 0 in left or len(left) > PIECES_MAX:
            return False
    return True


def _least(masks: Iterable[int]) -> tuple[int, ...]:
    """Those of some sets of boxes that hold no other."""
    found: list[int] = []
    for mask in sorted(set(masks), key=lambda mask: (mask.bit_count(), mask)):
        if not any(one & mask == one for one in found):
            found.append(mask)
    return tuple(found)


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
    return joined((cell.begin, cell.end) for cell in cells)
