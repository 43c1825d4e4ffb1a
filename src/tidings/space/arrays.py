"""Points and rectangles to cells, many at once, in numpy.

A cell of a fixed depth is a number here: its bits, the first as the highest. What is computed equals what
`spaces` says one at a time. It is for whole-number attributes and floats that are given as columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidings.space.attributes import Whole
from tidings.space.spaces import Space

Codes = npt.NDArray[np.int64]

DEPTH_MAX = 62
"""Bits that a signed 64-bit number holds, with one to spare."""


def points(
    space: Space, places: Sequence[npt.NDArray[np.int64] | npt.NDArray[np.float64]], depth: int
) -> Codes:
    """The cells of events whose places on each axis are given: counted from 0, or floats in the domain."""
    turns = space.turns(min(depth, DEPTH_MAX))
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
    for at in space.turns(min(depth, DEPTH_MAX)):
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


def _middle(low: npt.NDArray[np.float64], high: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    with np.errstate(over="ignore"):
        middle = (low + high) / 2
    return np.where(np.isfinite(middle), middle, low / 2 + high / 2)
