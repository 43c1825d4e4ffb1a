"""The event space of a topic: from filters and events to dz-expressions.

A box is a set of values for each attribute. It is decomposed by halving the whole space, one attribute after
the other in the order declared; one that is used up passes its turn without a bit. A cell that lies in a box
is an expression; one that lies in none is nothing; any other is halved again, down to the depth that is asked
for. What then still lies in part in a box is taken whole: a decomposition encloses its boxes and never loses
an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidings.language.cuts import EVERYTHING, Cuts
from tidings.language.fields import Field, Path, find
from tidings.language.filters import Filter
from tidings.language.regions import Box, Unknown
from tidings.space.attributes import Attribute, Cell, attribute_of
from tidings.space.expressions import Set, canonical, coarsened, volume

CELLS_MAX = 16_384
"""Cells that a decomposition may have before it is coarsened: some 50 ms of work. Boxes that would need more
are enclosed at the depth that was reached, as beyond the depth that was asked for."""

PIECES_MAX = 256
"""Pieces of a cell that are looked at to see whether several boxes cover it together."""

Product = tuple[Cuts, ...]
"""A box: for each attribute of a space where its values lie."""


@dataclass(frozen=True, slots=True)
class Decomposed:
    """A part of the space as dz-expressions."""

    dz: Set
    """Canonical."""

    exact: bool
    """Whether an event with values of the domains lies in it just if the filter takes it."""

    @property
    def volume(self) -> float:
        """Its share of the widened space."""
        return volume(self.dz)


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
    """

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        self.attributes = tuple(attributes)
        self._at = {attribute.path: at for at, attribute in enumerate(self.attributes)}

    @classmethod
    def of(cls, fields: Mapping[Path, Field]) -> Space:
        """The space of declared fields; those without a domain are left out."""
        found = (attribute_of(field) for field in fields.values())
        return cls([attribute for attribute in found if attribute is not None])

    def turns(self, depth: int) -> list[int]:
        """Which attribute each bit halves; fewer than asked for where all attributes are used up."""
        left = [attribute.bits for attribute in self.attributes]
        found: list[int] = []
        while len(found) < depth and any(bits is None or bits > 0 for bits in left):
            for at, bits in enumerate(left):
                if bits == 0 or len(found) == depth:
                    continue
                found.append(at)
                left[at] = None if bits is None else bits - 1
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
        return self.decompose([tuple(box)], depth, most).dz

    # Boxes.

    def dz(
        self, asked: Filter, unknown: Unknown = Unknown.WAIT, *, depth: int, most: int | None = None
    ) -> Decomposed:
        """The expressions of the events that a filter takes; it was parsed with the topic's fields."""
        boxes, exact = self.boxes(asked.boxes(unknown))
        found = self.decompose(boxes, depth, most)
        return Decomposed(found.dz, exact and found.exact)

    def boxes(self, boxes: Iterable[Box], *, missing: bool = False) -> tuple[list[Product], bool]:
        """Boxes of the language as boxes of this space, and whether they say just the same.

        With `missing`, a region that holds the missing value holds the lowest place too: then an event with a
        missing field is met where `point` puts it, and `reach` is not needed.
        """
        found: dict[Product, None] = {}
        exact = True
        for box in boxes:
            product = [EVERYTHING] * len(self.attributes)
            for path, region in box:
                at = self._at.get(path)
                if at is None:
                    exact = False
                    continue
                attribute = self.attributes[at]
                cuts, fits = attribute.met(region)
                if missing and region.null:
                    cuts |= attribute.lowest
                product[at] = cuts
                exact = exact and fits
            if not any(cuts.empty for cuts in product):
                found[tuple(product)] = None
        return list(found), exact

    def decompose(self, boxes: Sequence[Product], depth: int, most: int | None = None) -> Decomposed:
        """The expressions of some boxes together."""
        roots = tuple(attribute.root for attribute in self.attributes)
        done: list[str] = []
        partial: list[tuple[str, tuple[Cell, ...], Sequence[Product]]] = []
        _sort(("", roots, boxes), done, partial)
        for at in self.turns(depth):
            if not partial or len(done) + 2 * len(partial) > CELLS_MAX:
                break
            halved, partial = partial, []
            for expression, cells, held in halved:
                for bit, half in zip("01", self.attributes[at].halves(cells[at]), strict=True):
                    _sort((expression + bit, (*cells[:at], half, *cells[at + 1 :]), held), done, partial)
        exact = all(_covered([(cell.low, cell.end) for cell in cells], held) for _, cells, held in partial)
        found = canonical([*done, *(expression for expression, _, _ in partial)])
        if most is not None and len(found) > most:
            return Decomposed(coarsened(found, most), False)
        return Decomposed(found, exact)


def _sort(
    part: tuple[str, tuple[Cell, ...], Sequence[Product]],
    done: list[str],
    partial: list[tuple[str, tuple[Cell, ...], Sequence[Product]]],
) -> None:
    """Put a cell to those that lie in a box, or to those that do in part; or nowhere."""
    expression, cells, boxes = part
    held = []
    for box in boxes:
        verdicts = [cell.within(cuts) for cell, cuts in zip(cells, box, strict=True)]
        if False in verdicts:
            continue
        if None not in verdicts:
            done.append(expression)
            return
        held.append(box)
    if held:
        partial.append((expression, cells, held))


def _covered(cell: Sequence[tuple[object, object]], boxes: Sequence[Product]) -> bool:
    """Whether boxes that each hold a part of a cell hold all of it together."""
    # What is left of the cell once the boxes so far are taken away, as boxes that do not meet.
    left = [tuple(Cuts(False, ends) for ends in cell)]
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
