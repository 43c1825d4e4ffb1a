"""The kernels: putting boxes into tiles, taking them out, finding those that hold an event.

Importing this module imports numba; `tidings.matching.compiling` alone does so. The arrays and their columns
are those of `state`. All ordinals, and all indices on the hot path, are unsigned: numba then leaves out the
test for negative indices, which the study in issue 3 found to be worth 1.4 to 3 times.

A match has four steps. The groups of the attributes that the event has list their tiles with the interval
that the tile's boxes span on that attribute: a branch-free pass keeps those that hold the event's ordinal.
Then the hulls of each remaining tile on two other attributes are tried, and the rows that it needs are asked
for ahead of use. Then the rows are ANDed. Survivors set a bit per owner, which makes the result sorted and
free of doubles.

A split is chosen greedily by what it saves: the chance that an event enters either half, times the rows that
it would then read, with chances guessed from a sample of the ends of all constraints on that attribute.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tidings.matching import compiling
from tidings.matching.state import (
    A_CAPACITY,
    A_COUNT,
    A_LIST,
    A_MARK,
    A_ROOT,
    A_SEEN,
    A_TABLE,
    A_TABLE_SEEN,
    AHEAD,
    B_LENGTH,
    B_OFFSET,
    B_OWNER,
    B_SLOT,
    B_TILE,
    BUILD,
    CENTRE,
    D_COUNT,
    D_NEXT,
    D_OFFSET,
    D_USES,
    DONE,
    ENTRY,
    GREATEST,
    GROW,
    H_BITS,
    H_BUDGET,
    H_BUMP,
    H_CLASSES,
    H_EPOCH,
    H_FREE_NODE,
    H_FREE_TABLE,
    H_FREE_TILE,
    H_LOOKED,
    H_MOVED,
    H_NODES,
    H_OTHER,
    H_QUEUE_END,
    H_QUEUE_START,
    H_TABLES,
    H_TEND,
    H_TILE,
    H_TILES,
    LEAF,
    LEAST,
    MAX_BOUNDS,
    MAX_COLUMNS,
    MAX_CUTS,
    MAX_LOCAL,
    MERGE,
    N_ATTRIBUTE,
    N_BOUND,
    N_KIND,
    N_LEFT,
    N_PARENT,
    N_RIGHT,
    NUMBER,
    O_CUTS,
    O_GREATEST,
    O_HITS,
    O_HULL,
    O_LEAST,
    O_SORT,
    O_TODO,
    O_UNION,
    O_WORDS,
    S_BOXES,
    S_CANDIDATES,
    S_COLUMN,
    S_CONSTRAINT,
    S_LOCAL,
    S_NEED,
    S_OTHER,
    S_SIDE,
    S_START,
    S_TABLE,
    S_USES,
    SAMPLES,
    SIGNATURE,
    SIZE_CLASSES,
    SPARE_WORDS,
    SPLIT,
    T_ATTRIBUTE,
    T_BASE,
    T_CAPACITY,
    T_COLUMNS,
    T_COUNT,
    T_FRESH,
    T_LINES,
    T_LIVE,
    T_NODE,
    T_PLACE,
    TILE,
    Array,
    State,
)

F = TypeVar("F", bound=Callable[..., Any])
# Numba's own types leave out some of the options, and are not everywhere.
_njit: Any = numba.njit
_insert_function: Any = cgutils.get_or_insert_function
_alloca: Any = cgutils.alloca_once

Number = Any
"""Numba infers how wide a number is, and whether it has a sign; no type of Python says that."""


def kernel(function: F) -> F:
    """What the index calls: compiled, and kept in the cache."""
    made: F = _njit(cache=compiling.caching, _nrt=False)(function)
    return made


def part(function: F) -> F:
    """What kernels are made of; not to be called from Python.

    Arguments are never literals (hence `I0`, `I1`): numba would compile a part again for each.
    """
    made: F = _njit(cache=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)(function)
    return made


def inner(function: F) -> F:
    """A part that is compiled into the loops that have it: to call it would be a third of what it costs."""
    made: F = _njit(cache=False, forceinline=True, _nrt=False)(function)
    return made


U0, U1, U2, U3, U4, U6, U7, U8, U63 = (np.uint64(n) for n in (0, 1, 2, 3, 4, 6, 7, 8, 63))
U16, U24, U32, U64 = (np.uint64(n) for n in (16, 24, 32, 64))
I0, I1 = np.int64(0), np.int64(1)
LOW32 = np.uint64(0xFFFFFFFF)
LOW16 = np.uint64(0xFFFF)
LOW8 = np.uint64(0xFF)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
SIGN = np.uint64(1 << 63)

# Words of a column's line.
C_ROWS, C_INEXACT, C_AMONG = np.uint64(1), np.uint64(2), np.uint64(4)
# The head has 32 bits of attribute, eight for the number of cuts, a flag, and above these one more than the
# number of its table, 0 for none.
ALL_NEED = np.uint64(1 << 40)
TABLE_SHIFT = np.uint64(48)
MAX_TABLES = (1 << 16) - 1
# Words of the meta line.
M_COLUMNS, M_CAPACITY, M_TILE, M_LOOSE = (np.uint64(n) for n in range(4))

# A tile of so few boxes has no rows: checking each is as quick, and rows would weigh more than the boxes.
BARE = 24
# Constraints whose share of events differs by less than this are equally good to enter by.
ALIKE = 3.0
# How much a bit of entropy in which attributes are constrained counts, in rows.
MIXED = 2.0
# With more columns than this, exact rows would weigh too much: boxes are first parted by what they constrain.
EXACT_COLUMNS = 5
# Rows per box: two lines are 128 bytes, what the promise of 300 bytes per filter leaves.
LINES_PER_BOX_HALVES = 4
# Tables of an attribute besides the newest that do not keep it from getting another.
OLD_TABLES = 2
# Two neighbouring tiles with no more boxes than this become one.
MERGE_BELOW = 288


def _prefetch(_typing: Any, array: Any, _index: Any) -> Any:
    """Ask for the cache line of array[index]."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        function = _insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), write


def _lowest(_typing: Any, _word: Any) -> Any:
    """The place of the lowest bit that is set; 64 if none is."""

    def write(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), write


def _population(_typing: Any, _word: Any) -> Any:
    """How many bits are set."""

    def write(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), write


def _meet(_typing: Any, memory: Any, ordinals: Any, _alive: Any, _start: Any, _stop: Any, _to: Any) -> Any:
    """AND the line memory[alive] with those that ordinals[start:stop] tell, but for their low three bits.

    The result is left at ordinals[to]; answers which of its eight words are not 0.
    """

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lines, list_, alive, start, stop, to = arguments
        data = context.make_array(signature.args[0])(context, builder, lines).data
        listed = context.make_array(signature.args[1])(context, builder, list_).data
        word = ir.IntType(64)
        line = ir.VectorType(word, 8)

        def read(at: Any) -> Any:
            return builder.load(builder.bitcast(builder.gep(data, [at]), line.as_pointer()), align=64)

        kept = _alloca(builder, line)
        builder.store(read(alive), kept)
        with cgutils.for_range_slice(builder, start, stop, word(1), intp=word) as (at, _):
            row = builder.and_(builder.load(builder.gep(listed, [at])), word(-8))
            builder.store(builder.and_(builder.load(kept), read(row)), kept)
        result = builder.load(kept)
        builder.store(result, builder.bitcast(builder.gep(listed, [to]), line.as_pointer()), align=8)
        some = builder.icmp_unsigned("!=", result, ir.Constant(line, [0] * 8))
        return builder.zext(builder.bitcast(some, ir.IntType(8)), word)

    index = types.uint64
    return index(memory, ordinals, index, index, index, index), write


def _plain(_typing: Any, data: Any, _at: Any) -> Any:
    """How many of the 32 bytes from data[at] on are printable ASCII without quotes and backslashes, up to the
    first that is not.
    """

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        line, word = ir.VectorType(ir.IntType(8), 32), ir.IntType(64)
        place = builder.bitcast(builder.gep(start, [arguments[1]]), line.as_pointer())
        read = builder.load(place, align=1)
        odd: Any = ir.Constant(ir.VectorType(ir.IntType(1), 32), [0] * 32)
        for compared, byte in (("<", 32), (">", 126), ("==", ord('"')), ("==", ord("\\"))):
            like = builder.icmp_unsigned(compared, read, ir.Constant(line, [byte] * 32))
            odd = builder.or_(odd, like)
        found = builder.zext(builder.bitcast(odd, ir.IntType(32)), word)
        return builder.cttz(builder.or_(found, word(1 << 32)), ir.IntType(1)(0))

    return types.uint64(data, types.uint64), write


def _eight(_typing: Any, data: Any, _at: Any) -> Any:
    """The eight bytes from data[at] on as a word, the first of them lowest."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(start, [arguments[1]]), ir.IntType(64).as_pointer())
        word = builder.load(place, align=1)
        return word if sys.byteorder == "little" else builder.bswap(word)

    return types.uint64(data, types.uint64), write


def _move(_typing: Any, data: Any, _at: Any, out: Any, _to: Any) -> Any:
    """Copy the 64 bytes from data[at] on to out[to]."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        line = ir.VectorType(ir.IntType(8), 64).as_pointer()
        source = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        target = context.make_array(signature.args[2])(context, builder, arguments[2]).data
        moved = builder.load(builder.bitcast(builder.gep(source, [arguments[1]]), line), align=1)
        builder.store(moved, builder.bitcast(builder.gep(target, [arguments[3]]), line), align=1)
        return context.get_dummy_value()

    return types.void(data, types.uint64, out, types.uint64), write


# What numba has no name for: a few instructions each, and one short loop.
meet: Any = intrinsic(_meet)
prefetch: Any = intrinsic(_prefetch)
plain: Any = intrinsic(_plain)
eight: Any = intrinsic(_eight)
move: Any = intrinsic(_move)
lowest: Any = intrinsic(_lowest)
population: Any = intrinsic(_population)


# The arena.


@part
def class_of(lines: Number) -> Number:
    low, high = 0, len(SIZE_CLASSES) - 1
    while low < high:
        middle = (low + high) >> 1
        if SIZE_CLASSES[middle] < lines:
            low = middle + 1
        else:
            high = middle
    return low


@part
def take(s: State, lines: Number) -> Number:
    """A block of at least so many lines, as the index of its first word."""
    kind = class_of(lines)
    word = s.head[H_CLASSES + kind]
    if word:
        s.head[H_CLASSES + kind] = np.int64(s.memory[word])
        return word
    word = s.head[H_BUMP]
    s.head[H_BUMP] = word + SIZE_CLASSES[kind] * 8
    return word


@part
def give_back(s: State, word: Number, lines: Number) -> None:
    kind = class_of(lines)
    s.memory[word] = np.uint64(s.head[H_CLASSES + kind])
    s.head[H_CLASSES + kind] = word


# Small things.


@part
def sort(a: Array, start: Number, count: Number) -> None:
    """Shell sort: a few hundred ordinals at a time, and it compiles in no time."""
    for gap in (701, 301, 132, 57, 23, 10, 4, 1):
        for i in range(start + gap, start + count):
            x = a[i]
            j = i
            while j >= start + gap and a[j - gap] > x:
                a[j] = a[j - gap]
                j -= gap
            a[j] = x


@part
def bucket(memory: Array, cuts: Number, count: Number, value: Number) -> Number:
    """How many of the sorted cuts are not above the value.

    Without a branch that depends on the value: the searches of several columns then overlap in the processor.
    """
    at = cuts
    while count > U1:
        half = count >> U1
        at += half * np.uint64(memory[at + half - U1] <= value)
        count -= half
    if count:
        at += np.uint64(memory[at] <= value)
    return at - cuts


@part
def share(s: State, attribute: Number, least: Number, greatest: Number) -> Number:
    """The guessed share of events whose ordinal lies in the interval."""
    seen = min(s.attributes[attribute, A_SEEN], SAMPLES)
    inside = 0
    for i in range(seen):
        x = s.samples[attribute, i]
        inside += (least <= x) & (x <= greatest)
    return (inside + 0.5) / (seen + 1.0)


@part
def sample(s: State, attribute: Number, ordinal: Number) -> None:
    """Keep the ordinal with the chance that keeps the sample fair; chance is a hash of the count."""
    seen = s.attributes[attribute, A_SEEN]
    s.attributes[attribute, A_SEEN] = seen + 1
    if seen < SAMPLES:
        s.samples[attribute, seen] = ordinal
        return
    mixed = np.uint64(seen) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    place = mixed % np.uint64(seen + 1)
    if place < np.uint64(SAMPLES):
        s.samples[attribute, place] = ordinal


@part
def holds(s: State, box: Number, epoch: Number) -> Number:
    """Whether the box holds the present event, constraint by constraint."""
    start = np.uint64(s.boxes[box, B_OFFSET])
    for i in range(start, start + np.uint64(s.boxes[box, B_LENGTH])):
        head = s.constraint_attribute[i]
        attribute = head >> 1
        if s.stamp[attribute] == epoch:
            value = s.value[attribute]
            if value < s.constraint_least[i] or value > s.constraint_greatest[i]:
                return False
        elif head & 1 == 0:
            return False
    return True


# Groups, tiles and nodes.


@part
def new_node(s: State) -> Number:
    node = s.head[H_FREE_NODE]
    if node >= 0:
        s.head[H_FREE_NODE] = np.int64(s.nodes[node, N_LEFT]) - 1
        return node
    node = s.head[H_NODES]
    s.head[H_NODES] = node + 1
    return node


@part
def free_node(s: State, node: Number) -> None:
    s.nodes[node, N_LEFT] = np.uint64(s.head[H_FREE_NODE] + 1)
    s.head[H_FREE_NODE] = node


@part
def new_tile(s: State, attribute: Number, node: Number) -> Number:
    """An empty tile without a block, entered in the list of its group."""
    tile = s.head[H_FREE_TILE]
    if tile >= 0:
        s.head[H_FREE_TILE] = s.tiles[tile, T_PLACE]
    else:
        tile = s.head[H_TILES]
        s.head[H_TILES] = tile + 1
    count = s.attributes[attribute, A_COUNT]
    capacity = s.attributes[attribute, A_CAPACITY]
    if count == capacity:
        larger = max(8, capacity * 2)
        place = take(s, larger * ENTRY // 8)
        old = s.attributes[attribute, A_LIST]
        for i in range(count):
            s.memory[place + i] = s.memory[old + i]
            s.memory[place + larger + i] = s.memory[old + capacity + i]
        for i in range(8 * count):
            s.memory[place + 2 * larger + i] = s.memory[old + 2 * capacity + i]
        if capacity:
            give_back(s, old, capacity * ENTRY // 8)
        s.attributes[attribute, A_LIST] = place
        s.attributes[attribute, A_CAPACITY] = larger
    s.attributes[attribute, A_COUNT] = count + 1
    for i in range(10):
        s.tiles[tile, i] = 0
    s.tiles[tile, T_ATTRIBUTE] = attribute
    s.tiles[tile, T_PLACE] = count
    s.tiles[tile, T_NODE] = node
    s.nodes[node, N_KIND] = np.uint64(LEAF)
    s.nodes[node, N_LEFT] = np.uint64(tile)
    return tile


@part
def free_tile(s: State, tile: Number) -> None:
    """Take the tile out of its group's list; its node is the caller's."""
    attribute = s.tiles[tile, T_ATTRIBUTE]
    let_go(s, tile)
    last = s.attributes[attribute, A_COUNT] - 1
    place = s.tiles[tile, T_PLACE]
    start = s.attributes[attribute, A_LIST]
    capacity = s.attributes[attribute, A_CAPACITY]
    if place != last:
        s.memory[start + place] = s.memory[start + last]
        s.memory[start + capacity + place] = s.memory[start + capacity + last]
        for i in range(8):
            s.memory[start + 2 * capacity + 8 * place + i] = s.memory[start + 2 * capacity + 8 * last + i]
        moved = np.int64(s.memory[np.int64(s.memory[start + 2 * capacity + 8 * place]) + np.int64(M_TILE)])
        s.tiles[moved, T_PLACE] = place
    s.attributes[attribute, A_COUNT] = last
    if last == 0:
        give_back(s, start, capacity * ENTRY // 8)
        s.attributes[attribute, A_CAPACITY] = 0
        s.attributes[attribute, A_LIST] = 0
    s.tiles[tile, T_LINES] = 0
    s.tiles[tile, T_ATTRIBUTE] = -1
    s.tiles[tile, T_PLACE] = s.head[H_FREE_TILE]
    s.head[H_FREE_TILE] = tile


@part
def let_go(s: State, tile: Number) -> None:
    """Give the tile's block back, and the tables that its columns use."""
    if s.tiles[tile, T_LINES] == 0:
        return
    base = s.tiles[tile, T_BASE]
    for j in range(s.tiles[tile, T_COLUMNS]):
        line = base + 8 + 8 * j
        table = np.int64(s.memory[line] >> TABLE_SHIFT) - 1
        if table < 0:
            continue
        s.tables[table, D_USES] -= 1
        if s.tables[table, D_USES] == 0:
            free_table(s, np.int64(s.memory[line] & LOW32), table)
    give_back(s, base, s.tiles[tile, T_LINES])
    s.tiles[tile, T_LINES] = 0


@part
def free_table(s: State, attribute: Number, table: Number) -> None:
    """Let a table go that no column uses; the attribute's newest one stays."""
    at = s.attributes[attribute, A_TABLE] - 1
    if at == table:
        return
    while at >= 0:
        following = s.tables[at, D_NEXT] - 1
        if following == table:
            s.tables[at, D_NEXT] = s.tables[table, D_NEXT]
            give_back(s, s.tables[table, D_OFFSET], (s.tables[table, D_COUNT] + 7) // 8)
            s.tables[table, D_NEXT] = s.head[H_FREE_TABLE]
            s.head[H_FREE_TABLE] = table
            return
        at = following


@part
def among(memory: Array, start: Number, count: Number, wanted: Number) -> Number:
    """Whether an ordinal is one of the sorted ones."""
    place = np.int64(bucket(memory, np.uint64(start), np.uint64(count), wanted))
    return place > 0 and memory[start + place - 1] == wanted


@part
def table_for(s: State, attribute: Number, ends: Number) -> Number:
    """The table of an attribute, made anew if it lacks some of the sorted ends in scratch and could have
    them.

    Answers -1 where there is none. A column may use it if it has all of the column's cuts.
    """
    table = s.attributes[attribute, A_TABLE] - 1
    seen = s.attributes[attribute, A_SEEN]
    known = I0
    if table >= 0 and s.attributes[attribute, A_TABLE_SEEN] <= seen:
        known = s.tables[table, D_COUNT]
        # Not too many: columns that use an old one stay as they are, and events look in all.
        older = table
        others = 0
        while s.tables[older, D_NEXT] > 0:
            older = s.tables[older, D_NEXT] - 1
            others += 1
        if others >= OLD_TABLES and seen < s.attributes[attribute, A_TABLE_SEEN] * 3 // 2:
            return table
    start = s.tables[table, D_OFFSET] if table >= 0 else I0
    count = I0
    i = I0
    for k in range(ends):
        end = s.ordinals[O_SORT + k]
        while i < known and s.memory[start + i] < end:
            s.ordinals[O_UNION + count] = s.memory[start + i]
            count += 1
            i += 1
        if i < known and s.memory[start + i] == end:
            i += 1
        s.ordinals[O_UNION + count] = end
        count += 1
    while i < known:
        s.ordinals[O_UNION + count] = s.memory[start + i]
        count += 1
        i += 1
    if count == known or count > MAX_BOUNDS or count == 0:
        return table
    made = s.head[H_FREE_TABLE]
    if made >= 0:
        s.head[H_FREE_TABLE] = s.tables[made, D_NEXT]
    else:
        made = s.head[H_TABLES]
        s.head[H_TABLES] = made + 1
    place = take(s, (count + 7) // 8)
    for k in range(count):
        s.memory[place + k] = s.ordinals[O_UNION + k]
    s.tables[made, D_OFFSET] = place
    s.tables[made, D_COUNT] = count
    s.tables[made, D_USES] = 0
    s.tables[made, D_NEXT] = table + 1
    s.attributes[attribute, A_TABLE] = made + 1
    s.attributes[attribute, A_TABLE_SEEN] = seen
    if table >= 0 and s.tables[table, D_USES] == 0:
        free_table(s, attribute, table)
    return made


@part
def gather(s: State, tile: Number, start: Number) -> Number:
    """Write the live boxes of a tile to scratch, behind `start` others; how many."""
    base = s.tiles[tile, T_BASE]
    if s.tiles[tile, T_LINES] == 0:
        return I0
    alive = base + 8 + 8 * s.tiles[tile, T_COLUMNS]
    boxes = 2 * (alive + 16) + s.tiles[tile, T_CAPACITY]
    count = I0
    for slot in range(s.tiles[tile, T_COUNT]):
        if (s.memory[alive + (slot >> 6)] >> np.uint64(slot & 63)) & U1:
            s.scratch[S_BOXES + start + count] = s.memory32[boxes + slot]
            count += 1
    return count


@part
def survey(s: State, count: Number) -> Number:
    """Lay the constraints of the boxes in scratch side by side and count the attributes; how many there are.

    Attributes beyond MAX_LOCAL have no number of their own (-1): rows are not made for them.
    """
    distinct = I0
    at = 0
    for i in range(count):
        box = s.scratch[S_BOXES + i]
        s.scratch[S_START + i] = at
        start = np.int64(s.boxes[box, B_OFFSET])
        for c in range(start, start + s.boxes[box, B_LENGTH]):
            head = np.int64(s.constraint_attribute[c])
            attribute = head >> 1
            local = s.attributes[attribute, A_MARK] - 1
            if local < 0 and distinct < MAX_LOCAL:
                local = distinct
                distinct += 1
                s.attributes[attribute, A_MARK] = local + 1
                s.scratch[S_LOCAL + local] = attribute
                s.scratch[S_USES + local] = 0
                s.scratch[S_NEED + local] = 0
            if local >= 0:
                s.scratch[S_USES + local] += 1
                s.scratch[S_NEED + local] += 1 - (head & 1)
            s.scratch[S_CONSTRAINT + at] = local * 2 + (head & 1)
            s.ordinals[O_LEAST + at] = s.constraint_least[c]
            s.ordinals[O_GREATEST + at] = s.constraint_greatest[c]
            at += 1
    s.scratch[S_START + count] = at
    for local in range(distinct):
        s.attributes[s.scratch[S_LOCAL + local], A_MARK] = 0
    return distinct


@part
def choose_cuts(
    s: State, local: Number, count: Number, limit: Number, place: Number
) -> tuple[Number, Number]:
    """Choose at most `limit` cuts among the ends of the constraints on one attribute.

    Answers how many, and how many distinct ends there are, which are left in scratch.
    """
    ends = I0
    for i in range(s.scratch[S_START + count]):
        if s.scratch[S_CONSTRAINT + i] >> 1 == local:
            least, greatest = s.ordinals[O_LEAST + i], s.ordinals[O_GREATEST + i]
            if least <= greatest:
                if least > U0:
                    s.ordinals[O_SORT + ends] = least
                    ends += 1
                if greatest < ALL:
                    s.ordinals[O_SORT + ends] = greatest + U1
                    ends += 1
    sort(s.ordinals, np.int64(O_SORT), ends)
    distinct = I0
    for i in range(ends):
        if i == 0 or s.ordinals[O_SORT + i] != s.ordinals[O_SORT + distinct - 1]:
            s.ordinals[O_SORT + distinct] = s.ordinals[O_SORT + i]
            distinct += 1
    chosen = min(limit, distinct)
    for i in range(chosen):
        # The first and the last are always taken: outside them a bucket is whole or empty.
        pick = i * (distinct - 1) // (chosen - 1) if chosen > 1 else 0
        s.ordinals[place + i] = s.ordinals[O_SORT + pick]
    return chosen, distinct


@kernel
def build(s: State, tile: Number, count: Number) -> None:
    """Make the tile anew from the boxes in scratch, or with -1 from its own, with cuts and rows that fit
    them.
    """
    if count < 0:
        count = gather(s, tile, I0)
    let_go(s, tile)
    columns = I0
    if count > BARE:
        distinct = survey(s, count)
        # The attributes that most boxes use come first; rare ones are not worth a row.
        for local in range(distinct):
            uses = s.scratch[S_USES + local]
            if uses * 48 < count:
                continue
            if columns == MAX_COLUMNS:
                least_used = 0
                for j in range(columns):
                    if (
                        s.scratch[S_USES + s.scratch[S_SIDE + j]]
                        < s.scratch[S_USES + s.scratch[S_SIDE + least_used]]
                    ):
                        least_used = j
                if s.scratch[S_USES + s.scratch[S_SIDE + least_used]] < uses:
                    s.scratch[S_SIDE + least_used] = local
                continue
            s.scratch[S_SIDE + columns] = local
            columns += 1
        total = 0
        for j in range(columns):
            _, ends = choose_cuts(s, s.scratch[S_SIDE + j], count, I0, I0)
            s.scratch[S_COLUMN + j] = min(ends, MAX_CUTS)
            total += min(ends, MAX_CUTS) + 2
        budget = count * LINES_PER_BOX_HALVES // 2
        for j in range(columns):
            limit = s.scratch[S_COLUMN + j]
            if total > budget:
                limit = min(limit, max(6, limit * budget // total - 2))
            limit = max(1, limit)
            place = O_CUTS + j * (MAX_CUTS + 2)
            cuts, ends = choose_cuts(s, s.scratch[S_SIDE + j], count, limit, place)
            s.scratch[S_COLUMN + j] = cuts
            table = table_for(s, s.scratch[S_LOCAL + s.scratch[S_SIDE + j]], ends)
            if table >= MAX_TABLES:
                table = -1
            for k in range(cuts):
                if table >= 0 and not among(
                    s.memory, s.tables[table, D_OFFSET], s.tables[table, D_COUNT], s.ordinals[place + k]
                ):
                    table = -1
            s.scratch[S_TABLE + j] = table
            if table >= 0:
                s.tables[table, D_USES] += 1
    capacity = 16
    while capacity < count + (count >> 3) and capacity < TILE:
        capacity *= 2
    lines = 3 + columns + capacity // 8
    for j in range(columns):
        cuts = s.scratch[S_COLUMN + j]
        lines += (cuts + 7) // 8 + cuts + 2
    base = take(s, lines)
    for i in range(base, base + lines * 8):
        s.memory[i] = U0
    s.tiles[tile, T_BASE] = base
    s.tiles[tile, T_LINES] = lines
    s.tiles[tile, T_COUNT] = count
    s.tiles[tile, T_LIVE] = count
    s.tiles[tile, T_CAPACITY] = capacity
    s.tiles[tile, T_COLUMNS] = columns
    s.tiles[tile, T_FRESH] = 0
    s.memory[base + np.int64(M_COLUMNS)] = np.uint64(columns)
    s.memory[base + np.int64(M_CAPACITY)] = np.uint64(capacity)
    s.memory[base + np.int64(M_TILE)] = np.uint64(tile)
    alive = base + 8 + 8 * columns
    loose = alive + 8
    owners = 2 * (alive + 16)
    attribute = s.tiles[tile, T_ATTRIBUTE]
    group_least, group_greatest = ALL, U0
    for i in range(count):
        box = s.scratch[S_BOXES + i]
        s.memory[alive + (i >> 6)] |= U1 << np.uint64(i & 63)
        s.memory32[owners + i] = s.boxes[box, B_OWNER]
        s.memory32[owners + capacity + i] = box
        s.boxes[box, B_TILE] = tile
        s.boxes[box, B_SLOT] = i
        start = np.int64(s.boxes[box, B_OFFSET])
        for c in range(start, start + s.boxes[box, B_LENGTH]):
            if s.constraint_attribute[c] >> 1 == attribute:
                group_least = min(group_least, s.constraint_least[c])
                group_greatest = max(group_greatest, s.constraint_greatest[c])
    if attribute == 0:
        group_least, group_greatest = U0, ALL
    entry = s.attributes[attribute, A_LIST] + s.tiles[tile, T_PLACE]
    step = s.attributes[attribute, A_CAPACITY]
    s.memory[entry] = group_least
    s.memory[entry + step] = group_greatest
    line = s.attributes[attribute, A_LIST] + 2 * step + 8 * s.tiles[tile, T_PLACE]
    s.memory[line] = np.uint64(base)
    for k in range(2):
        s.memory[line + 1 + 3 * k] = U0
        s.memory[line + 2 + 3 * k] = U0
        s.memory[line + 3 + 3 * k] = ALL
    if columns == 0:
        s.memory[base + np.int64(M_LOOSE)] = U1
        for i in range(count):
            s.memory[loose + (i >> 6)] |= U1 << np.uint64(i & 63)
        return
    # Which column a local attribute has, if any.
    for local in range(MAX_LOCAL):
        s.scratch[S_OTHER + local] = -1
    data = alive + 16 + capacity
    for j in range(columns):
        local = s.scratch[S_SIDE + j]
        s.scratch[S_OTHER + local] = j
        cuts = s.scratch[S_COLUMN + j]
        line = base + 8 + 8 * j
        rows = data + (cuts + 7) // 8 * 8
        table = s.scratch[S_TABLE + j]
        head = np.uint64(s.scratch[S_LOCAL + local]) | (np.uint64(cuts) << U32)
        head |= np.uint64(table + 1) << TABLE_SHIFT
        if s.scratch[S_NEED + local] == count:
            head |= ALL_NEED
        s.memory[line] = head
        s.memory[line + 1] = np.uint64(rows)
        s.ordinals[O_HULL + 2 * j] = ALL
        s.ordinals[O_HULL + 2 * j + 1] = U0
        for k in range(cuts):
            cut = s.ordinals[O_CUTS + j * (MAX_CUTS + 2) + k]
            s.memory[data + k] = cut
            if table >= 0:
                bounds, known = np.uint64(s.tables[table, D_OFFSET]), np.uint64(s.tables[table, D_COUNT])
                bound = np.int64(bucket(s.memory, bounds, known, cut)) - 1
                s.memory[line + 4 + (bound >> 6)] |= U1 << np.uint64(bound & 63)
        # Every slot begins as one that does not constrain this attribute: inside from the first bucket on.
        for w in range(8):
            s.memory[rows + w] = s.memory[alive + w]
            s.memory[rows + (cuts + 1) * 8 + w] = s.memory[alive + w]
        data = rows + (cuts + 2) * 8
    # Each slot flips its bit in the bucket where its interval begins and behind the one where it ends; a
    # running exclusive-or over the buckets then turns flips into intervals.
    for i in range(count):
        bit = U1 << np.uint64(i & 63)
        word = i >> 6
        for c in range(s.scratch[S_START + i], s.scratch[S_START + i + 1]):
            entry = s.scratch[S_CONSTRAINT + c]
            j = s.scratch[S_OTHER + (entry >> 1)] if entry >= 0 else -1
            if j < 0:
                s.memory[loose + word] |= bit
                s.memory[base + np.int64(M_LOOSE)] = U1
                continue
            line = base + 8 + 8 * j
            cuts = s.scratch[S_COLUMN + j]
            rows = np.int64(s.memory[line + 1])
            cuts_at = rows - (cuts + 7) // 8 * 8
            least, greatest = s.ordinals[O_LEAST + c], s.ordinals[O_GREATEST + c]
            s.memory[rows + word] ^= bit
            if entry & 1 == 0:
                s.memory[rows + (cuts + 1) * 8 + word] &= ~bit
            if least > greatest:
                continue
            s.ordinals[O_HULL + 2 * j] = min(s.ordinals[O_HULL + 2 * j], least)
            s.ordinals[O_HULL + 2 * j + 1] = max(s.ordinals[O_HULL + 2 * j + 1], greatest)
            first = np.int64(bucket(s.memory, np.uint64(cuts_at), np.uint64(cuts), least))
            last = np.int64(bucket(s.memory, np.uint64(cuts_at), np.uint64(cuts), greatest))
            s.memory[rows + first * 8 + word] ^= bit
            if last < cuts:
                s.memory[rows + (last + 1) * 8 + word] ^= bit
            if (s.memory[cuts_at + first - 1] if first else U0) != least:
                s.memory[line + 2 + (first >> 6)] |= U1 << np.uint64(first & 63)
            if greatest != (s.memory[cuts_at + last] - U1 if last < cuts else ALL):
                s.memory[line + 2 + (last >> 6)] |= U1 << np.uint64(last & 63)
    for j in range(columns):
        rows = np.int64(s.memory[base + 8 + 8 * j + 1])
        for k in range(rows + 8, rows + 8 * (s.scratch[S_COLUMN + j] + 1)):
            s.memory[k] ^= s.memory[k - 8]
    # The two narrowest hulls go to the list of the group: most tiles are then passed by without a look at
    # them.
    entry_line = s.attributes[attribute, A_LIST] + 2 * step + 8 * s.tiles[tile, T_PLACE]
    best, second = 2.0, 2.0
    for j in range(columns):
        local = s.scratch[S_SIDE + j]
        other = s.scratch[S_LOCAL + local]
        if other == attribute or s.scratch[S_NEED + local] < count:
            continue
        least, greatest = s.ordinals[O_HULL + 2 * j], s.ordinals[O_HULL + 2 * j + 1]
        chance = share(s, other, least, greatest)
        if chance < best:
            for k in range(3):
                s.memory[entry_line + 4 + k] = s.memory[entry_line + 1 + k]
            at = 1
            second, best = best, chance
        elif chance < second:
            at = 4
            second = chance
        else:
            continue
        s.memory[entry_line + at] = np.uint64(other)
        s.memory[entry_line + at + 1] = least
        s.memory[entry_line + at + 2] = greatest


@part
def insert(s: State, tile: Number, box: Number) -> None:
    """Put a box into the next slot of a tile that has one, setting its bits in the rows as they are."""
    base = s.tiles[tile, T_BASE]
    columns = s.tiles[tile, T_COLUMNS]
    slot = s.tiles[tile, T_COUNT]
    s.tiles[tile, T_COUNT] = slot + 1
    s.tiles[tile, T_LIVE] += 1
    s.tiles[tile, T_FRESH] += 1
    alive = base + 8 + 8 * columns
    owners = 2 * (alive + 16)
    word = slot >> 6
    bit = U1 << np.uint64(slot & 63)
    s.memory[alive + word] |= bit
    s.memory32[owners + slot] = s.boxes[box, B_OWNER]
    s.memory32[owners + s.tiles[tile, T_CAPACITY] + slot] = box
    s.boxes[box, B_TILE] = tile
    s.boxes[box, B_SLOT] = slot
    start = np.int64(s.boxes[box, B_OFFSET])
    stop = start + s.boxes[box, B_LENGTH]
    attribute = s.tiles[tile, T_ATTRIBUTE]
    held = 0
    for j in range(columns):
        line = base + 8 + 8 * j
        head = s.memory[line]
        cuts = np.int64((head >> U32) & LOW8)
        rows = np.int64(s.memory[line + 1])
        cuts_at = rows - (cuts + 7) // 8 * 8
        mine = -1
        for c in range(start, stop):
            if np.int64(s.constraint_attribute[c] >> 1) == np.int64(head & LOW32):
                mine = c
        if mine < 0:
            s.memory[line] = head & ~ALL_NEED
            for k in range(cuts + 2):
                s.memory[rows + k * 8 + word] |= bit
            continue
        held += 1
        if s.constraint_attribute[mine] & 1:
            s.memory[line] = head & ~ALL_NEED
            s.memory[rows + (cuts + 1) * 8 + word] |= bit
        least, greatest = s.constraint_least[mine], s.constraint_greatest[mine]
        if least > greatest:
            continue
        first = np.int64(bucket(s.memory, np.uint64(cuts_at), np.uint64(cuts), least))
        last = np.int64(bucket(s.memory, np.uint64(cuts_at), np.uint64(cuts), greatest))
        for k in range(first, last + 1):
            s.memory[rows + k * 8 + word] |= bit
        if (s.memory[cuts_at + first - 1] if first else U0) != least:
            s.memory[line + 2 + (first >> 6)] |= U1 << np.uint64(first & 63)
        if greatest != (s.memory[cuts_at + last] - U1 if last < cuts else ALL):
            s.memory[line + 2 + (last >> 6)] |= U1 << np.uint64(last & 63)
    if held < stop - start:
        s.memory[alive + 8 + word] |= bit
        s.memory[base + np.int64(M_LOOSE)] = U1
    entry = s.attributes[attribute, A_LIST] + s.tiles[tile, T_PLACE]
    step = s.attributes[attribute, A_CAPACITY]
    for c in range(start, stop):
        if s.constraint_attribute[c] >> 1 == attribute:
            s.memory[entry] = min(s.memory[entry], s.constraint_least[c])
            s.memory[entry + step] = max(s.memory[entry + step], s.constraint_greatest[c])
    line = s.attributes[attribute, A_LIST] + 2 * step + 8 * s.tiles[tile, T_PLACE]
    for k in range(1, 7, 3):
        other = np.int64(s.memory[line + k])
        if other == 0:
            continue
        held = 0
        for c in range(start, stop):
            head_of = np.int64(s.constraint_attribute[c])
            if head_of >> 1 == other and head_of & 1 == 0:
                held = 1
                s.memory[line + k + 1] = min(s.memory[line + k + 1], s.constraint_least[c])
                s.memory[line + k + 2] = max(s.memory[line + k + 2], s.constraint_greatest[c])
        if held == 0:
            s.memory[line + k] = U0
            s.memory[line + k + 1] = U0
            s.memory[line + k + 2] = ALL


@part
def key(kind: Number, least: Number, greatest: Number) -> Number:
    """What a split of this kind compares."""
    if kind == CENTRE:
        return (least >> U1) + (greatest >> U1)
    if kind == LEAST:
        return least
    if kind == GREATEST:
        return greatest
    return greatest - least


@part
def signature(s: State, box: Number) -> Number:
    """Which attributes a box constrains: the first four, so that boxes that sort alike constrain much the
    same.
    """
    found = U0
    start = np.int64(s.boxes[box, B_OFFSET])
    length = np.int64(s.boxes[box, B_LENGTH])
    for i in range(4):
        found <<= U16
        if i < length:
            found |= np.uint64(s.constraint_attribute[start + i] >> 1) & LOW16
    return found


@part
def goes_left(s: State, node: Number, box: Number) -> Number:
    kind = np.int64(s.nodes[node, N_KIND])
    bound = s.nodes[node, N_BOUND]
    if kind == NUMBER:
        return (np.uint64(box) >> bound) & U1 == U0
    if kind == SIGNATURE:
        return signature(s, box) <= bound
    attribute = np.int64(s.nodes[node, N_ATTRIBUTE])
    start = np.int64(s.boxes[box, B_OFFSET])
    for c in range(start, start + s.boxes[box, B_LENGTH]):
        if np.int64(s.constraint_attribute[c] >> 1) == attribute:
            return key(kind, s.constraint_least[c], s.constraint_greatest[c]) <= bound
    return False


@part
def side_cost(s: State, distinct: Number, side: Number, count: Number) -> Number:
    """The chance that an event enters a tile of this half, times what it reads there.

    Further splits will part boxes that constrain an attribute from those that do not, so a tile will read the
    attributes of one box, and some more as long as they are mixed: the entropy says how mixed they are.
    """
    chance = 1.0
    reads = 0.0
    for local in range(distinct):
        uses = s.scratch[S_SIDE + 2 * local + side]
        if uses == count:
            hull = O_HULL + 4 * local + 2 * side
            chance *= share(s, s.scratch[S_LOCAL + local], s.ordinals[hull], s.ordinals[hull + 1])
            reads += 1.0
        elif uses:
            p = uses / count
            reads += p - MIXED * (p * math.log2(p) + (1.0 - p) * math.log2(1.0 - p))
    return count * chance * (1.5 + reads)


@kernel
def split(s: State, tile: Number) -> Number:
    """Divide a full tile in two by the split that is guessed to save most; how many boxes it keeps.

    Those are left in scratch, the ones of the new tile (H_OTHER, H_MOVED) in `ordinals`; both wait for
    `build`.
    """
    count = gather(s, tile, I0)
    distinct = survey(s, count)
    best_cost = 1e300
    best_kind, best_local, best_bound = NUMBER, 0, U0
    common = 0
    for local in range(distinct):
        common += s.scratch[S_USES + local] * 48 >= count
    for i in range(count):
        s.ordinals[O_UNION + i] = signature(s, s.scratch[S_BOXES + i])
    for local in range(distinct):
        uses = s.scratch[S_USES + local]
        for kind in range(SIGNATURE, NUMBER):
            # The median of up to 64 keys, evenly taken.
            taken = I0
            if kind == SIGNATURE:
                if local > 0:
                    continue
                for i in range(0, count, max(1, count // 63)):
                    if taken < 64:
                        s.ordinals[O_SORT + taken] = s.ordinals[O_UNION + i]
                        taken += 1
            else:
                if uses * 2 < count:
                    continue
                stride = max(1, uses // 63)
                seen = 0
                for c in range(s.scratch[S_START + count]):
                    if s.scratch[S_CONSTRAINT + c] >> 1 == local:
                        if seen % stride == 0 and taken < 64:
                            s.ordinals[O_SORT + taken] = key(
                                kind, s.ordinals[O_LEAST + c], s.ordinals[O_GREATEST + c]
                            )
                            taken += 1
                        seen += 1
            sort(s.ordinals, np.int64(O_SORT), taken)
            bound = s.ordinals[O_SORT + (taken - 1) // 2]
            for i in range(distinct):
                s.scratch[S_SIDE + 2 * i] = 0
                s.scratch[S_SIDE + 2 * i + 1] = 0
                s.ordinals[O_HULL + 4 * i] = ALL
                s.ordinals[O_HULL + 4 * i + 1] = U0
                s.ordinals[O_HULL + 4 * i + 2] = ALL
                s.ordinals[O_HULL + 4 * i + 3] = U0
            left = I0
            for i in range(count):
                side = 1
                if kind == SIGNATURE:
                    side = 0 if s.ordinals[O_UNION + i] <= bound else 1
                else:
                    for c in range(s.scratch[S_START + i], s.scratch[S_START + i + 1]):
                        if (
                            s.scratch[S_CONSTRAINT + c] >> 1 == local
                            and key(kind, s.ordinals[O_LEAST + c], s.ordinals[O_GREATEST + c]) <= bound
                        ):
                            side = 0
                left += 1 - side
                for c in range(s.scratch[S_START + i], s.scratch[S_START + i + 1]):
                    other = s.scratch[S_CONSTRAINT + c] >> 1
                    if other >= 0:
                        s.scratch[S_SIDE + 2 * other + side] += 1
                        hull = O_HULL + 4 * other + 2 * side
                        s.ordinals[hull] = min(s.ordinals[hull], s.ordinals[O_LEAST + c])
                        s.ordinals[hull + 1] = max(s.ordinals[hull + 1], s.ordinals[O_GREATEST + c])
            if min(left, count - left) * 8 < count:
                continue
            cost = side_cost(s, distinct, I0, left) + side_cost(s, distinct, I1, count - left)
            if kind == SIGNATURE and common > EXACT_COLUMNS:
                cost = 0.0
            if cost < best_cost:
                best_cost, best_kind, best_local, best_bound = cost, kind, local, bound
    if best_kind == NUMBER:
        # The boxes are all alike: divide them by a bit of their numbers, the one that divides best.
        best_margin = -1
        for bit in range(31):
            ones = 0
            for i in range(count):
                ones += (s.scratch[S_BOXES + i] >> bit) & 1
            if min(ones, count - ones) > best_margin:
                best_margin = min(ones, count - ones)
                best_bound = np.uint64(bit)
    node = s.tiles[tile, T_NODE]
    left_node, right_node = new_node(s), new_node(s)
    s.nodes[node, N_KIND] = np.uint64(best_kind)
    s.nodes[node, N_ATTRIBUTE] = np.uint64(s.scratch[S_LOCAL + best_local])
    s.nodes[node, N_BOUND] = best_bound
    s.nodes[node, N_LEFT] = np.uint64(left_node)
    s.nodes[node, N_RIGHT] = np.uint64(right_node)
    s.nodes[left_node, N_PARENT] = np.uint64(node + 1)
    s.nodes[right_node, N_PARENT] = np.uint64(node + 1)
    s.nodes[left_node, N_KIND] = np.uint64(LEAF)
    s.nodes[left_node, N_LEFT] = np.uint64(tile)
    s.tiles[tile, T_NODE] = left_node
    other_tile = new_tile(s, s.tiles[tile, T_ATTRIBUTE], right_node)
    kept = I0
    moved = I0
    for i in range(count):
        box = s.scratch[S_BOXES + i]
        if goes_left(s, node, box):
            s.scratch[S_BOXES + kept] = box
            kept += 1
        else:
            s.ordinals[O_TODO + moved] = np.uint64(box)
            moved += 1
    s.head[H_OTHER] = other_tile
    s.head[H_MOVED] = moved
    return kept


@part
def entrance_of(s: State, box: Number) -> Number:
    """The attribute by which a box is entered.

    A narrow one; of those about as narrow the first, so that boxes that constrain the same attributes come
    together.
    """
    start = np.int64(s.boxes[box, B_OFFSET])
    stop = start + s.boxes[box, B_LENGTH]
    best = 2.0
    for c in range(start, stop):
        head = np.int64(s.constraint_attribute[c])
        if head & 1 == 0:
            best = min(best, share(s, head >> 1, s.constraint_least[c], s.constraint_greatest[c]))
    for c in range(start, stop):
        head = np.int64(s.constraint_attribute[c])
        if head & 1 == 0:
            if share(s, head >> 1, s.constraint_least[c], s.constraint_greatest[c]) <= ALIKE * best:
                return head >> 1
    return I0


@part
def put(s: State, box: Number) -> Number:
    """Put a box into the tile that its constraints lead to; or what must be done first, with H_TILE."""
    entrance = entrance_of(s, box)
    if s.attributes[entrance, A_COUNT] == 0:
        root = new_node(s)
        s.nodes[root, N_PARENT] = U0
        s.attributes[entrance, A_ROOT] = root
        s.head[H_TILE] = new_tile(s, entrance, root)
        return BUILD
    node = s.attributes[entrance, A_ROOT]
    while s.nodes[node, N_KIND] != np.uint64(LEAF):
        node = np.int64(s.nodes[node, N_LEFT] if goes_left(s, node, box) else s.nodes[node, N_RIGHT])
    tile = np.int64(s.nodes[node, N_LEFT])
    s.head[H_TILE] = tile
    used, live = s.tiles[tile, T_COUNT], s.tiles[tile, T_LIVE]
    if used == TILE and live * 8 > TILE * 7:
        s.head[H_BUDGET] -= 1000
        return SPLIT
    if used == s.tiles[tile, T_CAPACITY] or (
        s.tiles[tile, T_FRESH] >= max(BARE, used // 3) and (used > BARE or s.tiles[tile, T_COLUMNS])
    ):
        s.head[H_BUDGET] -= live
        return BUILD
    insert(s, tile, box)
    start = np.int64(s.boxes[box, B_OFFSET])
    for c in range(start, start + s.boxes[box, B_LENGTH]):
        attribute = np.int64(s.constraint_attribute[c] >> 1)
        least, greatest = s.constraint_least[c], s.constraint_greatest[c]
        if least <= greatest:
            even = s.attributes[attribute, A_SEEN] & 1 == 0
            sample(s, attribute, least if (even and least > U0) or greatest == ALL else greatest)
    s.head[H_BUDGET] -= 1
    return DONE


# What the index calls.


@part
def collapse(s: State, tile: Number) -> None:
    """Let an empty tile go; its neighbour in the tree takes the parent's place."""
    node = s.tiles[tile, T_NODE]
    attribute = s.tiles[tile, T_ATTRIBUTE]
    free_tile(s, tile)
    if s.nodes[node, N_PARENT] == U0:
        free_node(s, node)
        s.attributes[attribute, A_ROOT] = 0
        return
    parent = np.int64(s.nodes[node, N_PARENT]) - 1
    other = np.int64(s.nodes[parent, N_LEFT])
    if other == node:
        other = np.int64(s.nodes[parent, N_RIGHT])
    for i in range(5):
        s.nodes[parent, i] = s.nodes[other, i]
    if s.nodes[parent, N_KIND] == np.uint64(LEAF):
        s.tiles[np.int64(s.nodes[parent, N_LEFT]), T_NODE] = parent
    else:
        s.nodes[np.int64(s.nodes[parent, N_LEFT]), N_PARENT] = np.uint64(parent + 1)
        s.nodes[np.int64(s.nodes[parent, N_RIGHT]), N_PARENT] = np.uint64(parent + 1)
    free_node(s, node)
    free_node(s, other)


@part
def tidy(s: State, tile: Number) -> Number:
    """What should be done with a tile that lost many boxes, or got some; with H_TILE, and H_MOVED for MERGE.

    The ends of new boxes need not be among the cuts, and what survives in such buckets must be tried one by
    one.
    """
    live = s.tiles[tile, T_LIVE]
    s.head[H_TILE] = tile
    if s.tiles[tile, T_ATTRIBUTE] < 0 or live == 0:
        return DONE
    if s.tiles[tile, T_COUNT] < 2 * live + 16:
        return BUILD if live > BARE and s.tiles[tile, T_FRESH] * 64 >= live else DONE
    node = s.tiles[tile, T_NODE]
    if s.nodes[node, N_PARENT] != U0:
        parent = np.int64(s.nodes[node, N_PARENT]) - 1
        other_node = np.int64(s.nodes[parent, N_LEFT])
        if other_node == node:
            other_node = np.int64(s.nodes[parent, N_RIGHT])
        if s.nodes[other_node, N_KIND] == np.uint64(LEAF):
            other = np.int64(s.nodes[other_node, N_LEFT])
            if live + s.tiles[other, T_LIVE] <= MERGE_BELOW:
                count = gather(s, tile, I0)
                count += gather(s, other, count)
                collapse(s, other)
                s.head[H_MOVED] = count
                return MERGE
    return BUILD


@kernel
def advance(s: State, gone: Array, count: Number, polish: Number) -> Number:
    """Take the first `count` boxes in `gone` out, put those in the queue into tiles, look after some tiles.

    H_BUDGET says how many boxes may be moved, `polish` how many of them in tiles that are only looked after.
    Answers what must be done before it is called again, or DONE. (That the caller does it keeps the kernels
    apart: each would otherwise be compiled into all that need it.)
    """
    for i in range(count):
        box = np.int64(gone[i])
        tile, slot = np.int64(s.boxes[box, B_TILE]), np.int64(s.boxes[box, B_SLOT])
        s.boxes[box, B_OWNER] = -1
        if tile < 0:
            s.queue[slot] = -1
            continue
        alive = s.tiles[tile, T_BASE] + 8 + 8 * s.tiles[tile, T_COLUMNS]
        s.memory[alive + (slot >> 6)] &= ~(U1 << np.uint64(slot & 63))
        s.tiles[tile, T_LIVE] -= 1
        if s.tiles[tile, T_LIVE] == 0:
            collapse(s, tile)
    while s.head[H_QUEUE_START] < s.head[H_QUEUE_END]:
        if s.head[H_BUDGET] <= 0:
            return DONE
        box = np.int64(s.queue[s.head[H_QUEUE_START]])
        if box >= 0:
            # The list of a group can be longer than the largest block: it counts too.
            longest = s.attributes[entrance_of(s, box), A_CAPACITY]
            if s.head[H_BUMP] + SPARE_WORDS + longest * 2 * ENTRY > len(s.memory):
                return GROW
            wanted = put(s, box)
            if wanted != DONE:
                return wanted
        s.head[H_QUEUE_START] += 1
    s.head[H_QUEUE_START] = 0
    s.head[H_QUEUE_END] = 0
    s.head[H_BUDGET] = min(s.head[H_BUDGET], polish)
    # Tiles are looked at in turn: those that lost many boxes shrink, those with many new ones get rows that
    # fit.
    tiles = s.head[H_TILES]
    while s.head[H_LOOKED] < tiles and s.head[H_BUDGET] > 0:
        if s.head[H_BUMP] + SPARE_WORDS > len(s.memory):
            return GROW
        tile = s.head[H_TEND] % tiles
        s.head[H_TEND] = tile + 1
        s.head[H_LOOKED] += 1
        s.head[H_BUDGET] -= 1
        wanted = tidy(s, tile)
        if wanted != DONE:
            s.head[H_BUDGET] -= s.tiles[tile, T_LIVE]
            return wanted
    return DONE


@part
def found(s: State, owner: Number) -> None:
    word = owner >> U6
    s.bits[word] |= U1 << (owner & U63)
    s.summary[word >> U6] |= U1 << (word & U63)


@kernel
def match(
    s: State,
    columns: Array,
    raw: Array,
    there: Array,
    start: Number,
    stop: Number,
    doubtful: Array,
    out: Array,
    ends: Array,
) -> Number:
    """Find the owners of all boxes that hold each event of a batch; how many events were done.

    `columns` are attributes, twice, plus one where `raw` holds the bits of a float; `there` says which are
    there. The owners go to `out`, one event after the other; `ends` has, per event, where they end and how
    many of them are doubtful (have their bit in `doubtful`). An event whose owners do not fit is left for
    the next call.
    """
    written = U0
    room = np.uint64(len(out))
    last_summary = np.uint64((s.head[H_BITS] + 4095) >> 12)
    candidates = np.uint64(S_CANDIDATES)
    for e in range(start, stop):
        epoch = s.head[H_EPOCH] + 1
        s.head[H_EPOCH] = epoch
        s.value[0] = U0
        s.stamp[0] = epoch
        # 1. The tiles that each attribute of the event leads to.
        found_tiles = U0
        for c in range(-1, len(columns)):
            attribute = 0
            value = U0
            if c >= 0:
                if there[c, e] == 0:
                    continue
                head = columns[c]
                attribute = head >> 1
                value = raw[c, e]
                if head & 1:
                    if value == SIGN:
                        value = U0
                    value ^= ALL if value & SIGN else SIGN
                s.value[attribute] = value
                s.stamp[attribute] = epoch
                table = s.attributes[attribute, A_TABLE] - 1
                while table >= 0:
                    known = np.uint64(s.tables[table, D_COUNT])
                    among_bounds = bucket(s.memory, np.uint64(s.tables[table, D_OFFSET]), known, value)
                    for word_at in range(U4):
                        # One bit for each bound that is not above the value.
                        below = min(U64, max(among_bounds, word_at << U6) - (word_at << U6))
                        s.places[(np.uint64(table) << U2) + word_at] = (
                            ALL if below == U64 else (U1 << below) - U1
                        )
                    table = s.tables[table, D_NEXT] - 1
            least = np.uint64(s.attributes[attribute, A_LIST])
            step = np.uint64(s.attributes[attribute, A_CAPACITY])
            tiles_here = np.uint64(s.attributes[attribute, A_COUNT])
            line = least + step + step
            for i in range(least, least + tiles_here):
                s.scratch[candidates + found_tiles] = line
                line += U8
                found_tiles += np.uint64((s.memory[i] <= value) & (value <= s.memory[i + step]))
        entered = found_tiles
        found_tiles = U0
        for i in range(entered):
            line = np.uint64(s.scratch[candidates + i])
            one, two = s.memory[line + U1], s.memory[line + np.uint64(4)]
            x, y = s.value[one], s.value[two]
            s.scratch[candidates + found_tiles] = s.memory[line]
            found_tiles += np.uint64(
                (s.stamp[one] == epoch)
                & (s.stamp[two] == epoch)
                & (s.memory[line + U2] <= x)
                & (x <= s.memory[line + U3])
                & (s.memory[line + np.uint64(5)] <= y)
                & (y <= s.memory[line + U6])
            )
        # 2. Their hulls and rows, some tiles ahead of the reading.
        at = U0
        while at < found_tiles:
            todo = np.uint64(O_TODO)
            upto = min(found_tiles, at + np.uint64(AHEAD))
            for i in range(at, upto):
                if i + U8 < found_tiles:
                    ahead = np.uint64(s.scratch[candidates + i + U8])
                    prefetch(s.memory, ahead)
                    prefetch(s.memory, ahead + U8)
                    prefetch(s.memory, ahead + U16)
                    prefetch(s.memory, ahead + U24)
                base = np.uint64(s.scratch[candidates + i])
                count = s.memory[base]
                doubt = U0
                line = base + U8
                behind = line + (count << U3)
                slot = todo + U3
                inside = True
                while line < behind:
                    head = s.memory[line]
                    attribute = head & LOW32
                    cuts = (head >> U32) & LOW8
                    row = s.memory[line + C_ROWS]
                    if s.stamp[attribute] == epoch:
                        table = head >> TABLE_SHIFT
                        if table:
                            at_place = (table - U1) << U2
                            among_cuts = line + C_AMONG
                            b = (
                                population(s.memory[among_cuts] & s.places[at_place])
                                + population(s.memory[among_cuts + U1] & s.places[at_place + U1])
                                + population(s.memory[among_cuts + U2] & s.places[at_place + U2])
                                + population(s.memory[among_cuts + U3] & s.places[at_place + U3])
                            )
                        else:
                            b = bucket(s.memory, row - ((cuts + U7) & ~U7), cuts, s.value[attribute])
                        row += b << U3
                        # Rows begin at multiples of eight: the lowest bit says that this one is inexact, the
                        # next that the bucket has a neighbour on one side only.
                        inexact = (s.memory[line + C_INEXACT + (b >> U6)] >> (b & U63)) & U1
                        prefetch(s.memory, row + (inexact << U3))
                        doubt |= inexact
                        row |= inexact | ((inexact & (np.uint64(b == U0) | np.uint64(b == cuts))) << U1)
                    else:
                        if head & ALL_NEED:
                            inside = False
                            break
                        row += (cuts + U1) << U3
                    prefetch(s.memory, row)
                    s.ordinals[slot] = row
                    slot += U1
                    line += U8
                if inside:
                    prefetch(s.memory, behind)
                    s.ordinals[todo] = base
                    s.ordinals[todo + U1] = slot
                    s.ordinals[todo + U2] = doubt
                    todo = slot
            at = upto
            # 3. The rows, ANDed.
            hits = np.uint64(O_HITS)
            item = np.uint64(O_TODO)
            while item < todo:
                base = s.ordinals[item]
                behind = s.ordinals[item + U1]
                doubt = s.ordinals[item + U2]
                alive = base + U8 + (s.memory[base] << U3)
                rows_at = item + U3
                item = behind
                words = meet(s.memory, s.ordinals, alive, rows_at, behind, np.uint64(O_WORDS))
                if words == U0:
                    continue
                owners = (alive + U16) << U1
                if doubt | s.memory[base + M_LOOSE]:
                    capacity = s.memory[base + M_CAPACITY]
                    left = words
                    while left:
                        k = lowest(left)
                        left &= left - U1
                        check = s.memory[alive + U8 + k]
                        # A slot in both neighbours of an inexact bucket holds all of the bucket.
                        for i in range(rows_at, behind):
                            row = s.ordinals[i]
                            if row & U2:
                                check = ALL
                            elif row & U1:
                                check |= ~(s.memory[row - U1 - U8 + k] & s.memory[row - U1 + U8 + k])
                        word = s.ordinals[np.uint64(O_WORDS) + k]
                        check &= word
                        first = owners + capacity + (k << U6)
                        while check:
                            place_of = lowest(check)
                            check &= check - U1
                            if not holds(s, np.int64(s.memory32[first + place_of]), epoch):
                                word &= ~(U1 << place_of)
                        s.ordinals[np.uint64(O_WORDS) + k] = word
                while words:
                    # Owners lie far apart: ask for all of them first, read them after the other tiles. Most
                    # words have one or two: both are written without asking, and what is too much is
                    # overwritten. A branch that cannot be foretold would cost more.
                    k = lowest(words)
                    words &= words - U1
                    word = s.ordinals[np.uint64(O_WORDS) + k]
                    first = owners + (k << U6)
                    upto_hit = hits + population(word)
                    while True:
                        owner_at = first + lowest(word)
                        word &= word - U1
                        prefetch(s.memory, owner_at >> U1)
                        s.ordinals[hits] = owner_at
                        owner_at = first + lowest(word)
                        word &= word - U1
                        prefetch(s.memory, owner_at >> U1)
                        s.ordinals[hits + U1] = owner_at
                        hits += U2
                        if hits >= upto_hit:
                            break
                    hits = upto_hit
            for i in range(np.uint64(O_HITS), hits):
                found(s, np.uint64(s.memory32[s.ordinals[i]]))
        # Boxes that are not yet in a tile are tried one by one.
        for i in range(s.head[H_QUEUE_START], s.head[H_QUEUE_END]):
            box = np.int64(s.queue[i])
            if box >= 0 and holds(s, box, epoch):
                found(s, np.uint64(s.boxes[box, B_OWNER]))
        # 4. The owners, in order.
        if written + np.uint64(s.head[H_BITS]) + U2 > room:
            total = U0
            for i in range(last_summary):
                words = s.summary[i]
                while words != U0:
                    total += population(s.bits[(i << U6) + lowest(words)])
                    words &= words - U1
            if written + total + U2 > room:
                for i in range(last_summary):
                    words = s.summary[i]
                    while words != U0:
                        s.bits[(i << U6) + lowest(words)] = U0
                        words &= words - U1
                    s.summary[i] = U0
                ends[0, e] = np.int64(total)
                return e - start
        doubts = U0
        for i in range(last_summary):
            words = s.summary[i]
            if words == U0:
                continue
            s.summary[i] = U0
            while words != U0:
                at_word = (i << U6) + lowest(words)
                words &= words - U1
                word = s.bits[at_word]
                s.bits[at_word] = U0
                doubts += population(word & doubtful[at_word])
                first = at_word << U6
                upto_word = written + population(word)
                while True:
                    # Two at a time, as above.
                    out[written] = np.int64(first + lowest(word))
                    word &= word - U1
                    out[written + U1] = np.int64(first + lowest(word))
                    word &= word - U1
                    written += U2
                    if written >= upto_word:
                        break
                written = upto_word
        ends[0, e] = np.int64(written)
        ends[1, e] = np.int64(doubts)
    return stop - start
