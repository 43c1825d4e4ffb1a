"""Points and boxes to cells and expressions, many at once.

What is computed equals what `spaces` says one at a time. It is for attributes whose places are given as
columns. Two forms are made:

A cell of a fixed depth is a number: its bits, the first as the highest. `points` and `rectangles` make them,
in numpy alone, as the key of a join.

Expressions of any depth and length are *packed*: their bits in words of 64, the first as the highest of the
first word, zeros behind; with lengths where these differ. In that form they sort as texts do, but for those
that begin with each other. `packed` and `decomposed` make them, by compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tidings.errors import InputError
from tidings.space.attributes import Attribute, Whole
from tidings.space.spaces import Space

Codes = npt.NDArray[np.int64]

Words = npt.NDArray[np.uint64]
"""Packed expressions: a row for each."""

WORD = 64

DEPTH_MAX = 62
"""Bits that a signed 64-bit number holds, with one to spare."""

MOST_MAX = 4_096
"""Expressions that each of many boxes may have."""

MEMBERS_MAX = 1 << 21
"""Expressions for which there is room at a time: 32 MB for each word."""


def points(
    space: Space, places: Sequence[npt.NDArray[np.int64] | npt.NDArray[np.float64]], depth: int
) -> Codes:
    """The cells of events whose places on each axis are given: counted from 0, or floats in the domain.

    A missing float is minus infinity. Cells have as many bits as the space has to that depth, 62 at most.
    """
    turns = _turns(space, depth)
    found = np.zeros(len(places[0]) if places else 0, dtype=np.int64)
    taken = [0] * len(space.attributes)
    lows: dict[int, npt.NDArray[np.float64]] = {}
    highs: dict[int, npt.NDArray[np.float64]] = {}
    for at in turns:
        attribute = space.attributes[at]
        if isinstance(attribute, Whole):
            above = (places[at].astype(np.int64) >> (attribute.bits - 1 - taken[at])) & 1
        else:
            low = lows.get(at, np.full(len(found), attribute.low))
            high = highs.get(at, np.full(len(found), attribute.high))
            middle = _middle(low, high)
            above = (places[at] >= middle).astype(np.int64)
            lows[at], highs[at] = np.where(above, middle, low), np.where(above, high, middle)
        taken[at] += 1
        found = (found << 1) | above
    return found


def placed(space: Space, at: int, values: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> Codes:
    """Where whole numbers (or microseconds) lie on an axis that counts them; those outside at its edge."""
    attribute = space.attributes[at]
    assert isinstance(attribute, Whole), f"{attribute.path} is not counted"
    # Clamped before the subtraction, which could overflow.
    most = attribute.low + attribute.count - 1
    clamped: Codes = np.clip(values, attribute.low, most).astype(np.int64) - attribute.low
    return clamped


def rectangles(
    space: Space, low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], depth: int
) -> tuple[Codes, Codes]:
    """The cells of a depth that rectangles meet: which rectangle, and which cell; sorted by both.

    A row for each rectangle and a column for each attribute, all of which are counted; both ends belong to it
    and are places, as `placed` says them. Ends at the domain's end must reach the widened end, which the
    caller sees to by `widened`.
    """
    row: Codes = np.arange(len(low), dtype=np.int64)
    cell: Codes = np.zeros(len(low), dtype=np.int64)
    begins = np.zeros((len(low), len(space.attributes)), dtype=np.int64)
    sizes = []
    for attribute in space.attributes:
        assert isinstance(attribute, Whole), f"{attribute.path} is not counted"
        sizes.append(1 << attribute.bits)
    for at in _turns(space, depth):
        sizes[at] //= 2
        middle = begins[:, at] + sizes[at]
        lower = np.flatnonzero(low[row, at] < middle)
        upper = np.flatnonzero(high[row, at] >= middle)
        moved = begins[upper]
        moved[:, at] = middle[upper]
        begins = np.concatenate((begins[lower], moved))
        row = np.concatenate((row[lower], row[upper]))
        cell = np.concatenate((cell[lower] << 1, (cell[upper] << 1) | 1))
    order = np.lexsort((cell, row))
    return row[order], cell[order]


def widened(space: Space, high: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Upper ends of rectangles, with those at a domain's end moved to the widened end."""
    found = high.copy()
    for at, attribute in enumerate(space.attributes):
        assert isinstance(attribute, Whole), f"{attribute.path} is not counted"
        found[found[:, at] == attribute.count - 1, at] = (1 << attribute.bits) - 1
    return found


def _turns(space: Space, depth: int) -> list[int]:
    """Which attribute each bit of a cell halves; refused if there are more than a number holds."""
    turns = space.turns(depth)
    if len(turns) > DEPTH_MAX:
        raise InputError(
            f"cells of {len(turns)} bits were asked for, and one number holds {DEPTH_MAX}; give a depth of "
            f"{DEPTH_MAX} at most, or use packed and decomposed, which have no such limit"
        )
    return turns


def _middle(low: npt.NDArray[np.float64], high: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    with np.errstate(over="ignore"):
        middle = (low + high) / 2
    return np.where(np.isfinite(middle), middle, low / 2 + high / 2)


# Packed, by compiled code.


class Decompositions(NamedTuple):
    """The expressions of many boxes."""

    starts: Codes
    """Where those of each box begin, and behind the last one where all end."""

    words: Words
    """Packed; those of a box sorted as texts, in canonical form."""

    lengths: npt.NDArray[np.int16]
    """How many bits each has."""

    exact: npt.NDArray[np.bool_]
    """Of each box, whether they hold just the same."""

    def of(self, row: int) -> tuple[str, ...]:
        """The expressions of one box, as texts."""
        some = slice(self.starts[row], self.starts[row + 1])
        return tuple(texts(self.words[some], self.lengths[some]))


def packed(
    space: Space, places: Sequence[npt.NDArray[np.int64] | npt.NDArray[np.float64]], depth: int
) -> Words:
    """The cells of events whose places on each axis are given, as for `points`, to any depth."""
    turns = np.array(space.turns(depth), dtype=np.int64)
    counts = _halvings(space, turns)[-1]
    interleave, halve, _ = _compiled()
    rows = len(places[0]) if places else 0
    counted = np.empty((rows, len(space.attributes)), dtype=np.int64)
    bits = np.empty(len(space.attributes), dtype=np.int64)
    for at, attribute in enumerate(space.attributes):
        if isinstance(attribute, Whole):
            counted[:, at] = places[at]
            bits[at] = attribute.bits
        else:
            bits[at] = min(counts[at], DEPTH_MAX)
            column = np.empty(rows, dtype=np.int64)
            halve(np.asarray(places[at], dtype=np.float64), attribute.low, attribute.high, bits[at], column)
            counted[:, at] = column
    assert (counts <= np.maximum(bits, 0)).all(), f"floats are halved {DEPTH_MAX} times at most"
    words = np.zeros((rows, -(-len(turns) // WORD)), dtype=np.uint64)
    interleave(counted, turns, bits[turns] - 1 - _before(turns), words)
    return words


def decomposed(
    space: Space, low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], depth: int, most: int
) -> Decompositions:
    """Boxes as at most so many expressions each; rows and ends as for `rectangles`."""
    assert 1 <= most <= MOST_MAX, f"{most} expressions for each of many boxes"
    turns = np.array(space.turns(depth), dtype=np.int64)
    bits = np.array([_bits(attribute) for attribute in space.attributes], dtype=np.int64)
    # How many bits of each attribute are still to come, at each depth.
    shifts = bits - _halvings(space, turns)
    half = np.int64(1) << np.maximum(shifts[np.arange(len(turns)), turns] - 1, 0)
    *_, decompose = _compiled()
    made = []
    rows = max(1, MEMBERS_MAX // most)
    for first in range(0, max(len(low), 1), rows):
        some_low, some_high = (
            np.ascontiguousarray(ends[first : first + rows], np.int64) for ends in (low, high)
        )
        starts = np.zeros(len(some_low) + 1, dtype=np.int64)
        words = np.empty((len(some_low) * most + most, max(1, -(-len(turns) // WORD))), dtype=np.uint64)
        lengths = np.empty(len(words), dtype=np.int16)
        exact = np.empty(len(some_low), dtype=np.bool_)
        decompose(
            some_low, some_high, most, turns, half, np.int64(1) << bits, shifts, starts, words, lengths, exact
        )
        made.append(Decompositions(starts, words[: starts[-1]].copy(), lengths[: starts[-1]].copy(), exact))
    ends = np.cumsum([0, *(one.starts[-1] for one in made)])
    return Decompositions(
        np.concatenate([[0], *(one.starts[1:] + end for one, end in zip(made, ends, strict=False))]),
        np.concatenate([one.words for one in made]),
        np.concatenate([one.lengths for one in made]),
        np.concatenate([one.exact for one in made]),
    )


def texts(words: Words, lengths: npt.NDArray[Any] | int) -> list[str]:
    """Packed expressions as texts."""
    bits = np.unpackbits(words.astype(">u8").view(np.uint8), axis=1)
    every = np.broadcast_to(lengths, len(words)).tolist()
    return [
        (row[:length] + ord("0")).tobytes().decode("ascii") for row, length in zip(bits, every, strict=True)
    ]


def _bits(attribute: Attribute) -> int:
    assert isinstance(attribute, Whole), f"{attribute.path} is not counted"
    return attribute.bits


def _halvings(space: Space, turns: Codes) -> Codes:
    """How often each attribute has been halved, at each depth from none on."""
    found = np.zeros((len(turns) + 1, len(space.attributes)), dtype=np.int64)
    found[np.arange(1, len(turns) + 1), turns] = 1
    return found.cumsum(axis=0)


def _before(turns: Codes) -> Codes:
    """How often the attribute of each bit was halved before it."""
    found = np.zeros(len(turns), dtype=np.int64)
    for at in np.unique(turns):
        mine = np.flatnonzero(turns == at)
        found[mine] = np.arange(len(mine))
    return found


@cache
def _compiled() -> tuple[Any, Any, Any]:
    """The kernels; compiled when first used, some seconds, and kept where numba keeps its code."""
    from tidings.space import kernels  # half a second that only bulk work should pay

    try:
        return kernels.make(cache=True)
    except RuntimeError:
        # There is no folder that numba may write to.
        return kernels.make(cache=False)
