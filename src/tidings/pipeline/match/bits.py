"""The kernels over rows of bits: one row for each attribute of an event, ANDed.

Importing this module imports numba; `rows` alone does so. The cost of an event is its attributes times the
filters, a bit each, whatever matches; no memory is jumped over, so that it runs at the speed of the cache.
Rows have whole lines of 512 bits, and what is ANDed of a line stays in a register.

`bits` has the rows; those of an attribute begin at `first_row`, one for each bucket between its bounds, and
one for events without it. `column_of` says in which column of `raw` an attribute is, or -1. Kernels work in
`rows`, the row of each attribute for an event, and `held`, the bits of a line.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tidings.matching.kernels import lowest

_njit: Any = numba.njit
_alloca: Any = cgutils.alloca_once

LINE = 8
"""Words of a line."""

U0, U1 = np.uint64(0), np.uint64(1)
SIGN, ALL = np.uint64(1 << 63), np.uint64((1 << 64) - 1)


def make(cache: bool) -> tuple[Any, Any]:
    """The compiled kernels, `match` and `count`; with `cache` they are kept where numba's settings say."""
    kept = _njit(cache=cache, nogil=True)
    return kept(match), kept(count)


def _anded(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
    """The line at an offset of all rows, ANDed: numba's own loop over words would be three times slower."""
    data, listed = (
        context.make_array(kind)(context, builder, array).data
        for kind, array in zip(kinds[:2], arguments[:2], strict=True)
    )
    count, offset = arguments[2:4]
    word = ir.IntType(64)
    line = ir.VectorType(word, LINE)

    def read(place: Any) -> Any:
        row = builder.add(builder.load(builder.gep(listed, [place])), offset)
        return builder.load(builder.bitcast(builder.gep(data, [row]), line.as_pointer()), align=8)

    kept = _alloca(builder, line)
    builder.store(read(word(0)), kept)
    with cgutils.for_range_slice(builder, word(1), count, word(1), intp=word) as (place, _):
        builder.store(builder.and_(builder.load(kept), read(place)), kept)
    return builder.load(kept)


def _meet(_typing: Any, bits: Any, rows: Any, _count: Any, _offset: Any, held: Any) -> Any:
    """AND the lines of bits that lie so far behind each of some rows into held.

    Answers which of its eight words are not 0.
    """

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result = _anded(context, builder, signature.args, arguments)
        out = context.make_array(signature.args[4])(context, builder, arguments[4]).data
        builder.store(result, builder.bitcast(out, result.type.as_pointer()), align=8)
        some = builder.icmp_unsigned("!=", result, ir.Constant(result.type, [0] * LINE))
        return builder.zext(builder.bitcast(some, ir.IntType(LINE)), ir.IntType(64))

    return types.uint64(bits, rows, types.int64, types.int64, held), write


def _meeting(_typing: Any, bits: Any, rows: Any, _count: Any, _offset: Any) -> Any:
    """How many bits are set in all lines that lie so far behind each of some rows."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result = _anded(context, builder, signature.args, arguments)
        place = ir.IntType(32)
        total = ir.IntType(64)(0)
        for at in range(LINE):
            total = builder.add(total, builder.ctpop(builder.extract_element(result, place(at))))
        return total

    return types.int64(bits, rows, types.int64, types.int64), write


meet: Any = intrinsic(_meet)
meeting: Any = intrinsic(_meeting)


def _find(
    bounds: Any,
    first_bound: Any,
    first_row: Any,
    column_of: Any,
    heads: Any,
    raw: Any,
    there: Any,
    event: int,
    words: int,
    rows: Any,
) -> None:
    """Where the row of each attribute begins for an event."""
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
        rows[attribute] = row * words


find: Any = _njit(nogil=True)(_find)


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
    rows: Any,
    held: Any,
    out: Any,
    ends: Any,
) -> int:
    """Find the filters of the events of a batch from `start` on; how many events were done.

    An event for whose filters there might be no room in `out` is left for the next call.
    """
    words = bits.shape[1]
    written = 0
    for event in range(start, len(ends)):
        if written + words * 64 > len(out):
            return event - start
        find(bounds, first_bound, first_row, column_of, heads, raw, there, event, words, rows)
        for offset in range(0, words, LINE):
            some = meet(bits, rows, len(rows), offset, held)
            while some != U0:
                k = np.int64(lowest(some))
                some &= some - U1
                word = held[k]
                while word != U0:
                    out[written] = ((offset + k) << 6) + np.int64(lowest(word))
                    word &= word - U1
                    written += 1
        ends[event] = written
    return len(ends) - start


def count(
    bits: Any,
    bounds: Any,
    first_bound: Any,
    first_row: Any,
    column_of: Any,
    heads: Any,
    raw: Any,
    there: Any,
    rows: Any,
    _held: Any,
    counts: Any,
) -> None:
    """Count the filters of the events of a batch."""
    words = bits.shape[1]
    for event in range(len(counts)):
        find(bounds, first_bound, first_row, column_of, heads, raw, there, event, words, rows)
        total = 0
        for offset in range(0, words, LINE):
            total += meeting(bits, rows, len(rows), offset)
        counts[event] = total
