"""The kernel over rows of bits: one row for each attribute of an event, ANDed.

Importing this module imports numba; `rows` alone does so. The cost of an event is its attributes times the
filters, a bit each, whatever matches; no memory is jumped over, so that it runs at the speed of the cache.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from tidings.matching.kernels import lowest

_njit: Any = numba.njit

U0, U1 = np.uint64(0), np.uint64(1)
SIGN, ALL = np.uint64(1 << 63), np.uint64((1 << 64) - 1)


def make(cache: bool) -> Any:
    """The compiled kernel; with `cache` it is kept where numba's settings say."""
    return _njit(cache=cache, nogil=True)(match)


def match(
    bits: Any,
    bounds: Any,
    first_bound: Any,
    first_row: Any,
    column_of: Any,
    heads: Any,
    raw: Any,
    there: Any,
    start: int,
    held: Any,
    out: Any,
    ends: Any,
) -> int:
    """Find the filters of the events of a batch from `start` on; how many events were done.

    `bits` has the rows; those of an attribute begin at `first_row`, one for each bucket between its bounds,
    and one for events without it. `column_of` says in which column of `raw` an attribute is, or -1. An event
    for whose filters there might be no room in `out` is left for the next call.
    """
    words = bits.shape[1]
    filters = words * 64
    written = 0
    for event in range(start, len(ends)):
        if written + filters > len(out):
            return event - start
        for k in range(words):
            held[k] = ALL
        for attribute in range(len(column_of)):
            column = column_of[attribute]
            low, high = first_bound[attribute], first_bound[attribute + 1]
            row = first_row[attribute] + (high - low) + 1
            if column >= 0 and there[column, event] != 0:
                value = raw[column, event]
                if heads[column] & 1:
                    if value == SIGN:
                        value = U0
                    value ^= ALL if value & SIGN else SIGN
                begin = low
                while low < high:
                    middle = (low + high) >> 1
                    if bounds[middle] <= value:
                        low = middle + 1
                    else:
                        high = middle
                row = first_row[attribute] + (low - begin)
            for k in range(words):
                held[k] &= bits[row, k]
        for k in range(words):
            word = held[k]
            while word != U0:
                out[written] = k * 64 + np.int64(lowest(word))
                word &= word - U1
                written += 1
        ends[event] = written
    return len(ends) - start
