"""A slab: the boxes of a small, busy index once more, as rows of bits that are all exact.

Tiles are sparing with memory: a column has a few hundred cuts at most, and a box whose interval ends between
two of them is checked by itself. Where boxes are few and events many, it pays to have a row for every stretch
between two ends of intervals, over all boxes: an event is then one row of each attribute, ANDed, and nothing
is checked. A slab is made of what a store holds and never changes; a store that changes lets it go.

Boxes lie in the order of their owners, so that owners come out sorted, and doubles beside each other.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tidings.matching.state import (
    ANY_ATTRIBUTE,
    B_LENGTH,
    B_OFFSET,
    B_OWNER,
    MAX_ORDINAL,
    Array,
    Memory,
    State,
)

BYTES_MAX: Final = 4 << 20
"""Of the rows. A second-level cache holds 1 or 2 MB; those of a thousand boxes on six attributes are 0.7."""

BOXES_MAX: Final = 8192
ATTRIBUTES_MAX: Final = 64

LINE_BOXES: Final = 512
"""Boxes in a line of 64 bytes."""


G_CUTS, G_ROWS, G_ABSENT, G_LEAST, G_SHIFT = range(5)
"""What is known of an attribute: where its cuts begin, its first row, the row of events without it, its least
cut, and by how many bits what an ordinal is above that is shifted to be a part of its guide."""

PARTS: Final = 2048
"""Of the range between an attribute's least and greatest cut. Its guide says for each how many cuts are below
it, which leaves one or two to be looked at, and fits into the first cache."""

BLOCK: Final = 64
"""Events whose rows are looked up together; those of six attributes and a thousand boxes are 48 kB."""


class Slab:
    """Rows of bits, and where they begin."""

    def __init__(self, rows: Memory, groups: int, attributes: Array, owners: Array) -> None:
        self.rows = rows
        self.groups = groups
        """Lines in a row."""
        self.attributes = attributes
        self.owners = owners
        """Of each box."""
        self.cuts = np.zeros(1, dtype=np.uint64)
        """Of one attribute after the other, sorted, and one behind them that means nothing."""
        self.guides = np.zeros((len(attributes), PARTS + 1), dtype=np.uint16)
        self.places: dict[int, int] = {}
        """The place of each attribute, by its number."""
        self.doubts = False
        """Whether any owner is doubtful."""
        self.scratch = np.empty(8 + BLOCK * len(attributes), dtype=np.uint64)
        self._heads = self._columns = np.empty(0, dtype=np.int64)
        """Those that were last asked about, and what was said."""

    def columns(self, heads: Array) -> Array:
        """For each attribute the column of events in which it is, as `ask` takes it."""
        if heads is self._heads:
            return self._columns
        found = np.full(len(self.places), -1, dtype=np.int64)
        for column, head in enumerate(heads.tolist()):
            place = self.places.get(head >> 1)
            if place is not None:
                found[place] = column * 2 + (head & 1)
        self._heads, self._columns = heads, found
        return found


def slab_of(state: State, box_count: int) -> Slab | None:
    """The slab of a store whose boxes are all in its arrays; None if it would be too large."""
    boxes = state.boxes[:box_count]
    boxes = boxes[boxes[:, B_OWNER] >= 0]
    boxes = boxes[np.argsort(boxes[:, B_OWNER], kind="stable")]
    many = len(boxes)
    if not 0 < many <= BOXES_MAX:
        return None
    lengths = boxes[:, B_LENGTH].astype(np.int64)
    of = np.repeat(np.arange(many), lengths)
    step = np.arange(len(of)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    at = np.repeat(boxes[:, B_OFFSET].astype(np.int64), lengths) + step
    heads = state.constraint_attribute[at].astype(np.int64)
    numbers = np.unique(heads >> 1)
    if not 0 < len(numbers) <= ATTRIBUTES_MAX or numbers[0] == ANY_ATTRIBUTE:
        return None
    least, greatest = state.constraint_least[at], state.constraint_greatest[at]
    inside = [np.flatnonzero(heads >> 1 == number) for number in numbers]
    if any(len(np.unique(of[some])) < len(some) for some in inside):
        return None  # a box that says two things about one attribute
    ends = [np.unique(np.concatenate((least[some], greatest[some] + _ONE))) for some in inside]
    # The greatest ordinal and one is 0: neither that nor a beginning at 0 is a cut.
    ends = [some[some > 0] for some in ends]
    groups = -(-many // LINE_BOXES)
    row_count = sum(len(some) + 2 for some in ends)
    if row_count * groups * 64 > BYTES_MAX:
        return None
    memory = Memory(np.uint64, row_count * groups * 8)
    rows = memory.array[: row_count * groups * 8].reshape(row_count, groups * 8)
    slab = Slab(
        memory, groups, np.zeros((len(numbers), 5), dtype=np.uint64), boxes[:, B_OWNER].astype(np.int64)
    )
    slab.cuts = np.concatenate((*ends, slab.cuts))
    slab.places = {int(number): place for place, number in enumerate(numbers)}
    cut = row = 0
    everyone = _bits(np.arange(many), groups)
    for place, (some, bounds) in enumerate(zip(inside, ends, strict=True)):
        mine = of[some]
        stretches = len(bounds) + 1
        slab.attributes[place, :3] = cut, row, row + stretches
        if len(bounds):
            shift = np.uint64(max(0, int(bounds[-1] - bounds[0]).bit_length() - PARTS.bit_length() + 1))
            slab.attributes[place, 3:] = bounds[0], shift
            parts = (bounds - bounds[0]) >> shift
            slab.guides[place] = np.searchsorted(parts, np.arange(PARTS + 1, dtype=np.uint64))
        own = rows[row : row + stretches]
        words, bits = mine >> 6, _ONE << (mine & 63).astype(np.uint64)
        # A bit where an interval begins and one behind its end: between them, all rows from above are on.
        np.bitwise_xor.at(own, (np.searchsorted(bounds, least[some], "right"), words), bits)
        ended = greatest[some] < MAX_ORDINAL
        behind = np.searchsorted(bounds, greatest[some][ended] + _ONE, "right")
        np.bitwise_xor.at(own, (behind, words[ended]), bits[ended])
        np.bitwise_xor.accumulate(own, axis=0, out=own)
        free = everyone & ~_bits(mine, groups)
        own |= free
        rows[row + stretches] = free | _bits(mine[(heads[some] & 1) == 1], groups)
        cut += len(bounds)
        row += stretches + 1
    return slab


def _bits(boxes: Array, groups: int) -> Array:
    """A row with the bits of some boxes."""
    flags = np.zeros(groups * LINE_BOXES, dtype=np.uint8)
    flags[boxes] = 1
    packed: Array = np.packbits(flags, bitorder="little").view(np.uint64)
    return packed


_ONE = np.uint64(1)
