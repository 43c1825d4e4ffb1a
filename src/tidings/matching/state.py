"""The arrays in which the index keeps its filters, and where each thing sits in them.

Everything the kernels touch is in a few flat arrays, so that a match walks memory in order and calls nothing.
This module names the columns and owns the memory; it knows neither filters nor events.

A *box* is a conjunction of constraints; a constraint is an attribute and a closed interval of unsigned
64-bit ordinals. Boxes lie in *tiles* of at most 512. The tiles of one *group* (the boxes that are entered by
the same attribute) are the leaves of one binary tree of splits, and are listed in the arena with their
hulls: a run of least ordinals, a run of greatest ones, and a line each with the address of the block and the
hull on two more attributes.

A tile's block in the arena, in lines of eight words (64 bytes):

    meta                     number of columns, capacity, tile, whether any slot is loose
    one line per column      attribute, address of the rows, which buckets are inexact, which bounds of the
                             attribute's table are cuts
    alive                    one bit per slot
    loose                    slots with a constraint that no column holds
    owners, boxes            32 bits per slot each
    per column               its cuts; a row of bits per bucket between cuts, and one for events that lack the
                             attribute

Where all cuts on an attribute are few (whole numbers, enumerations), a *table* lists them, an event's place
in it is found once, and a column counts which of the bounds up to there are its cuts instead of searching
them: everything it takes is in the column's line.

The memory is anonymous `mmap`: it grows by moving page tables instead of copying, it costs nothing before it
is touched, and it starts on a page, so that lines are cache lines.
"""

from __future__ import annotations

import contextlib
import math
import mmap
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

TILE: Final = 512
"""Boxes per tile: one row of bits is then one cache line."""

MAX_ORDINAL: Final = (1 << 64) - 1
"""The greatest ordinal; a constraint that is not bounded above ends here."""

MAX_COLUMNS: Final = 16
"""Attributes of a tile that have rows; boxes with others are loose (their survivors are checked one by
one)."""

MAX_CUTS: Final = 126
"""Cuts per column: two words of inexact flags hold 127 buckets."""

MAX_BOUNDS: Final = 256
"""Bounds in a table: which of them are cuts of a column is four words."""

MOVED_BYTES: Final = 64
"""What is copied at once. Where there is so much room behind what is written, all of it is."""

KEYS_MAX: Final = 32
"""Keys of a JSON object that is read as columns; one with more is left alone. Each is compared with those
before it."""

ANY_ATTRIBUTE: Final = 0
"""The attribute that every event has: boxes without a required constraint are entered by it."""

# tiles
(T_BASE, T_LINES, T_COUNT, T_LIVE, T_CAPACITY, T_COLUMNS, T_ATTRIBUTE, T_PLACE, T_NODE, T_FRESH) = range(10)
# nodes of the trees of splits
(N_KIND, N_ATTRIBUTE, N_BOUND, N_LEFT, N_RIGHT, N_PARENT) = range(6)
(LEAF, SIGNATURE, CENTRE, LEAST, GREATEST, WIDTH, NUMBER) = range(7)
# attributes
(A_LIST, A_COUNT, A_CAPACITY, A_ROOT, A_SEEN, A_MARK, A_TABLE, A_TABLE_SEEN) = range(8)
# tables of bounds
(D_OFFSET, D_COUNT, D_USES, D_NEXT) = range(4)
# boxes
(B_OFFSET, B_LENGTH, B_OWNER, B_NEXT, B_TILE, B_SLOT) = range(6)
# counters
(H_BUMP, H_TILES, H_FREE_TILE, H_NODES, H_FREE_NODE) = range(5)
(H_QUEUE_START, H_QUEUE_END, H_EPOCH, H_TEND, H_BITS, H_TABLES, H_FREE_TABLE) = range(5, 12)
(H_LOOKED, H_BUDGET, H_TILE, H_OTHER, H_MOVED) = range(12, 17)
# what the kernel `advance` asks for
(DONE, GROW, BUILD, SPLIT, MERGE) = range(5)
ENTRY: Final = 10
"""Words per tile in the list of its group: least, greatest, and a line with the address of the block and the
hull on up to two more attributes that all boxes of the tile need: (attribute, least, greatest) each,
attribute 0 for none."""

H_CLASSES: Final = 32
"""The first of the heads of the arena's free lists."""

AHEAD: Final = 16
"""Tiles of which the rows are asked for ahead of use."""

# Scratch: places in `scratch` (int64) and `ordinals` (uint64).
S_BOXES = 0  # boxes of the tile at hand, up to 2 * TILE
S_LOCAL = 1024  # distinct attributes of the tile, up to 64
S_USES = 1088  # how many boxes use each
S_SIDE = 1216  # for each local attribute: boxes on the left, on the right that constrain it (2 * 64)
S_OTHER = 1344  # the other half of a split, up to TILE
S_NEED = 1888  # for each local attribute: boxes that need it to be there
S_COLUMN = 1952  # cuts per column
S_TABLE = 1984  # table per column, -1 for none
S_CONSTRAINT = 2048  # local attribute of each constraint of the tile, up to 9216 = 576 * 16
S_START = S_CONSTRAINT + 9216  # where each box's constraints start in it (2 * TILE + 1)
S_CANDIDATES = S_START + 1100  # the tiles that an event may enter: as many as there are tiles
O_LEAST = 0  # of each constraint of the tile
O_GREATEST = 9216
O_HULL = 18432  # least left, greatest left, least right, greatest right for 64 attributes
O_SORT = 18688  # up to 2 * TILE + 2 ends
O_CUTS = 20864  # chosen cuts, MAX_CUTS + 2 per column
O_UNION = 22912  # bounds of a new table, up to MAX_BOUNDS + 2 * TILE + 2
O_TODO = 24448  # the tiles whose rows are on their way; or the boxes that a split moves, up to TILE
O_WORDS = O_TODO + AHEAD * (MAX_COLUMNS + 3) + 64  # the eight words of a row
O_HITS = 0  # where the owners found in those tiles are, up to AHEAD * TILE: no tile is made during a match
ORDINAL_ROWS = O_TODO + TILE

MAX_LOCAL: Final = 64
"""Attributes of a tile that a split looks at."""

SAMPLES: Final = 32
"""Interval ends kept per attribute, from which a constraint's selectivity is guessed."""

SPARE_WORDS: Final = 1 << 17
"""Free words in the arena without which no box is placed: two of the largest blocks and some."""


def _size_classes() -> Array:
    sizes = [*range(1, 9), *range(10, 17, 2), *range(20, 33, 4), *range(40, 65, 8)]
    while sizes[-1] < 1 << 22:
        sizes += [sizes[-1] * quarters // 4 for quarters in (5, 6, 7, 8)]
    return np.array(sizes, dtype=np.int64)


SIZE_CLASSES: Final = _size_classes()
"""Block sizes in lines, four to the octave.

Tiles pass through all sizes as they fill. With fewer sizes what one tile leaves fits the next sooner, but
each block wastes more, and `Store.work` closes gaps.
"""


LARGE_PAGES_FROM: Final = 1 << 24
"""Bytes of an array from which it asks for large pages; below, the last of them would be mostly empty."""


class State(NamedTuple):
    """All arrays, as the kernels take them."""

    memory: Array  # uint64: the arena
    memory32: Array  # uint32: the same bytes
    tiles: Array  # int64, T_*
    nodes: Array  # uint64, N_*
    attributes: Array  # int64, A_*
    samples: Array  # uint64: SAMPLES per attribute
    boxes: Array  # int32, B_*
    constraint_attribute: Array  # uint32: attribute * 2 + (1 if an event without it is inside)
    constraint_least: Array  # uint64
    constraint_greatest: Array  # uint64
    value: Array  # uint64 per attribute: the present event's ordinal
    stamp: Array  # int64 per attribute: the event that `value` belongs to
    tables: Array  # int64, D_*
    places: Array  # four uint64 per table: which bounds are not above the present event's ordinal
    bits: Array  # uint64: one bit per owner
    summary: Array  # uint64: one bit per word of `bits`
    queue: Array  # int32: boxes that are not yet in a tile
    scratch: Array  # int64
    ordinals: Array  # uint64, scratch too
    head: Array  # int64, H_*


def _anonymous(size: int) -> mmap.mmap:
    # Private: pages that are shared (Python's default) cannot grow.
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Memory:
    """One growing array: zeros wherever nothing was written."""

    __slots__ = ("_dtype", "_map", "_row", "array")

    def __init__(self, dtype: npt.DTypeLike, rows: int, columns: int = 0) -> None:
        self._dtype = np.dtype(dtype)
        self._row = columns
        self._map = _anonymous(max(mmap.PAGESIZE, rows * self.row_bytes))
        self._large_pages()
        self.array = self._view()

    def _large_pages(self) -> None:
        """Ask for large pages: with small ones, looking up their addresses costs as much as reading them."""
        if len(self._map) >= LARGE_PAGES_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):
                self._map.madvise(mmap.MADV_HUGEPAGE)

    def _view(self) -> Array:
        flat: Array = np.frombuffer(self._map, dtype=self._dtype)
        return flat[: len(flat) // self._row * self._row].reshape(-1, self._row) if self._row else flat

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return max(1, self._row) * self._dtype.itemsize

    def need(self, rows: int) -> None:
        """Make room for so many rows; the array may be another one after that."""
        if rows <= len(self.array):
            return
        # Doubling is free here: pages that are never touched are never there.
        size = max(2 * len(self._map), rows * self.row_bytes)
        size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        used = self.array
        self.array = used[:0].copy()
        del used
        try:
            self._map.resize(size)
        except (BufferError, SystemError, OSError):
            # Somebody still holds the old array, or this system cannot move pages.
            larger = _anonymous(size)
            larger[: len(self._map)] = self._map[:]
            self._map = larger
        self._large_pages()
        self.array = self._view()


class Scratch:
    """Room for arrays that are done with before the next is asked for: fresh memory has to be cleared."""

    __slots__ = ("_room",)

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._room: Array = np.empty(1024, dtype=dtype)

    def take(self, *shape: int) -> Array:
        """An array of a shape, with anything in it."""
        size = math.prod(shape)
        if size > len(self._room):
            self._room = np.empty(2 * size, dtype=self._room.dtype)
        return self._room[:size].reshape(shape) if len(shape) > 1 else self._room[:size]
