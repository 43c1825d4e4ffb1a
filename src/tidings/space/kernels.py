"""The kernels: points and boxes to expressions, compiled. Numbers in arrays, and nothing else.

Importing this module imports numba; `arrays` does so when it is first asked for something that is compiled.

Expressions are packed: their bits from the highest bit of the first word on, and a length. `turn` says which
attribute each bit halves, and `half` how many places one of its halves has then.

A node of the walk is a cell that a box holds in part: `begin` has the first place of the cell on each axis,
`free` says of which attributes the box holds only some of the cell's places, and `left` how many these are; 0
is a cell that is held, -1 one that is not. Going down changes one attribute; what it was is kept by level in
`kept`, with what is still to be done there, so that nothing is ever copied.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_njit: Any = numba.njit

BEGIN, FREE, LEFT, TIMES, NEXT = range(5)
"""The columns of `kept`: what `begin` and `free` were, how many attributes are left, how many equal nodes
this one stands for, and which half comes next (2 when both are done)."""

COLUMNS = 5

HELD, EMPTY = 0, -1

Array = Any
Number = Any
"""Numba infers how wide a number is, and whether it has a sign; no type of Python says that."""


def part(function: Any) -> Any:
    """What kernels are made of."""
    return _njit(nogil=True)(function)


def inlined(function: Any) -> Any:
    """The same for what every step of a walk does: a third of the time is saved."""
    return _njit(inline="always", nogil=True)(function)


def make(cache: bool) -> tuple[Any, Any, Any]:
    """The compiled kernels: `interleave`, `halve` and `decompose`."""
    kept = _njit(cache=cache, nogil=True)
    return kept(interleave), kept(halve), kept(decompose)


# Points.


def interleave(places: Array, turn: Array, shift: Array, words: Array) -> None:
    """The bits of places, in turn."""
    for row in range(len(places)):
        word = np.uint64(0)
        for level in range(len(turn)):
            bit = (places[row, turn[level]] >> shift[level]) & 1
            word = (word << np.uint64(1)) | np.uint64(bit)
            if level & 63 == 63:
                words[row, level >> 6] = word
                word = np.uint64(0)
        if len(turn) & 63:
            words[row, len(turn) >> 6] = word << np.uint64(64 - (len(turn) & 63))


def halve(values: Array, low: Number, high: Number, halvings: Number, places: Array) -> None:
    """Where floats lie after so many halvings, as numbers."""
    for row in range(len(values)):
        begin, end, value = low, high, values[row]
        place = np.int64(0)
        for _ in range(halvings):
            middle = (begin + end) / 2
            if not np.isfinite(middle):
                middle = begin / 2 + end / 2
            place <<= 1
            if value >= middle:
                begin = middle
                place |= 1
            else:
                end = middle
        places[row] = place


# Boxes.


@part
def rounded(low: Array, high: Array, shift: Array, lows: Array, highs: Array) -> None:
    """A box as the cells of a depth that it meets."""
    for at in range(len(low)):
        lows[at] = (low[at] >> shift[at]) << shift[at]
        highs[at] = (((high[at] >> shift[at]) + 1) << shift[at]) - 1


@part
def rooted(lows: Array, highs: Array, size: Array, begin: Array, free: Array) -> Number:
    """Begin at the whole space; says how many attributes are left."""
    left = 0
    for at in range(len(lows)):
        begin[at] = 0
        free[at] = lows[at] > 0 or highs[at] < size[at] - 1
        left += free[at]
    return left


@inlined
def lowered(
    upper: Number,
    at: Number,
    half: Number,
    left: Number,
    lows: Array,
    highs: Array,
    begin: Array,
    free: Array,
) -> Number:
    """Go to a half; says how many attributes are left there. The caller puts `begin` and `free` back."""
    if left <= 0 or not free[at]:
        return left
    first = begin[at] + half if upper else begin[at]
    last = first + half - 1
    if highs[at] < first or lows[at] > last:
        return EMPTY
    begin[at] = first
    if lows[at] <= first and highs[at] >= last:
        free[at] = 0
        return left - 1
    return left


@part
def counted(
    level: Number,
    left: Number,
    most: Number,
    turn: Array,
    half: Array,
    lows: Array,
    highs: Array,
    begin: Array,
    free: Array,
    kept: Array,
) -> Number:
    """How many expressions a node has; one more than `most` if there are more."""
    if left <= 0:
        return 1 if left == HELD else 0
    top = level
    total = 0
    kept[level, LEFT], kept[level, TIMES], kept[level, NEXT] = left, 1, 0
    while True:
        at = turn[level]
        now = kept[level, NEXT]
        if now == 0:
            kept[level, BEGIN], kept[level, FREE] = begin[at], free[at]
        else:
            begin[at], free[at] = kept[level, BEGIN], kept[level, FREE]
        if now == 2:
            if level == top:
                return total
            level -= 1
            continue
        times = kept[level, TIMES]
        if free[at]:
            kept[level, NEXT] = now + 1
        else:
            # Both halves are the same: one is looked at for both.
            kept[level, NEXT] = 2
            times *= 2
        under = lowered(now, at, half[level], kept[level, LEFT], lows, highs, begin, free)
        if under == EMPTY:
            continue
        if under == HELD:
            total += times
        if total > most or times > most:
            while level >= top:
                begin[turn[level]], free[turn[level]] = kept[level, BEGIN], kept[level, FREE]
                level -= 1
            return most + 1
        if under > 0:
            level += 1
            kept[level, LEFT], kept[level, TIMES], kept[level, NEXT] = under, times, 0


@inlined
def marked(word: Array, level: Number, bit: Number) -> None:
    """Set a bit of an expression, or clear it."""
    mask = np.uint64(1) << np.uint64(63 - (level & 63))
    if bit:
        word[level >> 6] |= mask
    else:
        word[level >> 6] &= ~mask


@part
def listed(
    level: Number,
    left: Number,
    word: Array,
    to: Number,
    turn: Array,
    half: Array,
    lows: Array,
    highs: Array,
    begin: Array,
    free: Array,
    kept: Array,
    words: Array,
    lengths: Array,
) -> Number:
    """Write down the expressions of a node, whose own is in `word`, before `to`: the last one first.

    Says where they begin.
    """
    if left == HELD:
        words[to - 1] = word
        lengths[to - 1] = level
        return to - 1
    if left < 0:
        return to
    top = level
    kept[level, LEFT], kept[level, NEXT] = left, 0
    while True:
        at = turn[level]
        now = kept[level, NEXT]
        if now == 0:
            kept[level, BEGIN], kept[level, FREE] = begin[at], free[at]
        else:
            begin[at], free[at] = kept[level, BEGIN], kept[level, FREE]
        if now == 2:
            if level == top:
                return to
            level -= 1
            continue
        kept[level, NEXT] = now + 1
        marked(word, level, 1 - now)
        under = lowered(1 - now, at, half[level], kept[level, LEFT], lows, highs, begin, free)
        if under == HELD:
            to -= 1
            words[to] = word
            lengths[to] = level + 1
        elif under > 0:
            level += 1
            kept[level, LEFT], kept[level, NEXT] = under, 0


@part
def filled(
    level: Number,
    left: Number,
    may: Number,
    word: Array,
    to: Number,
    turn: Array,
    half: Array,
    lows: Array,
    highs: Array,
    begin: Array,
    free: Array,
    kept: Array,
    pending: Array,
    words: Array,
    lengths: Array,
) -> Number:
    """The same of a node with more than `may` expressions, its first holes filled until there are no more."""
    top = level
    while True:
        at = turn[level]
        was_begin, was_free = begin[at], free[at]
        under = lowered(1, at, half[level], left, lows, highs, begin, free)
        upper = counted(level + 1, under, may, turn, half, lows, highs, begin, free, kept)
        if upper + 1 <= may:
            # The holes of the upper half can stay; there is room for some of the lower half.
            marked(word, level, 1)
            to = listed(
                level + 1, under, word, to, turn, half, lows, highs, begin, free, kept, words, lengths
            )
            may -= upper
            begin[at], free[at] = was_begin, was_free
            left = lowered(0, at, half[level], left, lows, highs, begin, free)
            marked(word, level, 0)
            pending[level] = 0
        elif may >= 2:
            # Those of the lower half are filled, and it is an expression.
            may -= 1
            left = under
            marked(word, level, 1)
            pending[level] = 1
        else:
            break
        level += 1
    to -= 1
    words[to] = word
    lengths[to] = level
    while level > top:
        level -= 1
        if pending[level]:
            marked(word, level, 0)
            to -= 1
            words[to] = word
            lengths[to] = level + 1
    return to


@part
def joined(first: Number, begin: Number, end: Number, words: Array, lengths: Array) -> Number:
    """Move sorted expressions to where they belong, and join halves; says where they end."""
    width = words.shape[1]
    to = first
    for at in range(begin, end):
        words[to] = words[at]
        lengths[to] = lengths[at]
        # Bits behind an expression say nothing.
        length = lengths[to]
        for column in range(width):
            bits = length - 64 * column
            if bits <= 0:
                words[to, column] = np.uint64(0)
            elif bits < 64:
                words[to, column] &= ~np.uint64(0) << np.uint64(64 - bits)
        to += 1
        while to - first > 1 and lengths[to - 1] == lengths[to - 2] and lengths[to - 1] > 0:
            level = lengths[to - 1] - 1
            mask = np.uint64(1) << np.uint64(63 - (level & 63))
            same = True
            for column in range(width):
                differs = words[to - 1, column] ^ words[to - 2, column]
                same = same and differs == (mask if column == level >> 6 else np.uint64(0))
            if not same:
                break
            to -= 1
            lengths[to - 1] = level
    return to


@part
def refined(
    left: Number,
    fine_left: Number,
    spare: Number,
    word: Array,
    to: Number,
    turn: Array,
    half: Array,
    lows: Array,
    highs: Array,
    begin: Array,
    free: Array,
    kept: Array,
    fine_lows: Array,
    fine_highs: Array,
    fine_begin: Array,
    fine_free: Array,
    fine_kept: Array,
    pending: Array,
    words: Array,
    lengths: Array,
) -> Number:
    """Write down the expressions of a depth, the last one first, each as those of the next that lie in it.

    As long as there are expressions to spare: of the one that would take too many, the first holes are
    filled, and those before it stay as they are.
    """
    level, open_ = 0, True
    while True:
        if left == HELD:
            if open_:
                may = spare + 1
                found = counted(
                    level, fine_left, may, turn, half, fine_lows, fine_highs, fine_begin, fine_free, fine_kept
                )
                if found <= may:
                    to = listed(
                        level, fine_left, word, to, turn, half, fine_lows, fine_highs, fine_begin, fine_free,
                        fine_kept, words, lengths,
                    )  # fmt: skip
                    spare -= found - 1
                else:
                    # What it leaves on its way is not needed: from here on nothing is refined.
                    to = filled(
                        level, fine_left, may, word, to, turn, half, fine_lows, fine_highs, fine_begin,
                        fine_free, fine_kept, pending, words, lengths,
                    )  # fmt: skip
                    open_ = False
            else:
                to -= 1
                words[to] = word
                lengths[to] = level
        elif left > 0:
            kept[level, LEFT], kept[level, NEXT] = left, 0
            fine_kept[level, LEFT] = fine_left
            kept[level, BEGIN], kept[level, FREE] = begin[turn[level]], free[turn[level]]
            fine_kept[level, BEGIN] = fine_begin[turn[level]]
            fine_kept[level, FREE] = fine_free[turn[level]]
            level += 1
        # Up to the first node of which a half is still to be looked at.
        while level > 0 and kept[level - 1, NEXT] == 2:
            level -= 1
            at = turn[level]
            begin[at], free[at] = kept[level, BEGIN], kept[level, FREE]
            fine_begin[at], fine_free[at] = fine_kept[level, BEGIN], fine_kept[level, FREE]
        if level == 0:
            return to
        above = level - 1
        at, now = turn[above], kept[above, NEXT]
        kept[above, NEXT] = now + 1
        begin[at], free[at] = kept[above, BEGIN], kept[above, FREE]
        fine_begin[at], fine_free[at] = fine_kept[above, BEGIN], fine_kept[above, FREE]
        marked(word, above, 1 - now)
        left = lowered(1 - now, at, half[above], kept[above, LEFT], lows, highs, begin, free)
        fine_left = lowered(
            1 - now, at, half[above], fine_kept[above, LEFT], fine_lows, fine_highs, fine_begin, fine_free
        )


def decompose(
    low: Array,
    high: Array,
    most: Number,
    turn: Array,
    half: Array,
    size: Array,
    shifts: Array,
    starts: Array,
    words: Array,
    lengths: Array,
    exact: Array,
) -> None:
    """Boxes to at most so many expressions each.

    It is what `spaces` does, for one box: the greatest depth that has no more, and of the next as far as the
    number goes. `shifts` has, for each depth, how many bits of each attribute are still to come. There must
    be room for `most` more expressions than are found.
    """
    attributes, depth = low.shape[1], len(turn)
    kept, fine_kept = np.empty((depth + 2, COLUMNS), np.int64), np.empty((depth + 2, COLUMNS), np.int64)
    lows, highs = np.empty(attributes, np.int64), np.empty(attributes, np.int64)
    begin, free = np.empty(attributes, np.int64), np.empty(attributes, np.int64)
    fine_lows, fine_highs = np.empty(attributes, np.int64), np.empty(attributes, np.int64)
    fine_begin, fine_free = np.empty(attributes, np.int64), np.empty(attributes, np.int64)
    pending = np.empty(depth + 2, np.int64)
    word = np.zeros(words.shape[1], np.uint64)
    end = 0
    starts[0] = 0
    for row in range(len(low)):
        # The greatest depth that has no more members than may be: rarely far behind the first round, so it is
        # looked for upwards in growing steps, and then between.
        known, beyond, members = 0, depth + 1, 1
        trying = min(attributes, depth)
        while beyond - known > 1:
            rounded(low[row], high[row], shifts[trying], lows, highs)
            left = rooted(lows, highs, size, begin, free)
            found = counted(0, left, most, turn, half, lows, highs, begin, free, kept)
            if found <= most:
                known, members = trying, found
            else:
                beyond = trying
            trying = min(2 * known, depth) if beyond > depth else (known + beyond) // 2
        rounded(low[row], high[row], shifts[known], lows, highs)
        left = rooted(lows, highs, size, begin, free)
        exact[row] = known == depth
        for at in range(attributes):
            exact[row] = exact[row] and lows[at] == low[row, at] and highs[at] == high[row, at]
        room = end + most
        to = room
        if known == depth:
            to = listed(0, left, word, to, turn, half, lows, highs, begin, free, kept, words, lengths)
        else:
            rounded(low[row], high[row], shifts[known + 1], fine_lows, fine_highs)
            fine_left = rooted(fine_lows, fine_highs, size, fine_begin, fine_free)
            to = refined(
                left, fine_left, most - members, word, to, turn, half, lows, highs, begin, free, kept,
                fine_lows, fine_highs, fine_begin, fine_free, fine_kept, pending, words, lengths,
            )  # fmt: skip
        end = joined(end, to, room, words, lengths)
        starts[row + 1] = end
