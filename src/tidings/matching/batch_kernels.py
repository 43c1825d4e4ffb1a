"""Kernels for many events at once: from the bytes of JSON objects to the bytes that each taker gets.

Importing this module imports numba; `tidings.matching.compiling` alone does so. What a busy publisher sends
comes as a buffer with many packets in it. To make Python values of each, ask the index and put references
into lists costs some eight times what these loops do.

* `read` takes fields out of JSON objects, into columns. It knows the plain ones: numbers that a float holds
  exactly by its digits, true, false, null and texts without escapes, not nested, every key once. Whatever
  else an object may be, sound or not, it leaves alone and says so: `language.payloads` is the judge.
* `ask` finds the owners of the boxes that hold each event, by a slab (`slabs`).
* `mark` sets a bit for each taker of an event.
* `count` lists the events of each taker, in order, and `join` lays them out.
"""

from __future__ import annotations

import numpy as np

from tidings.matching.kernels import (
    ALL,
    SIGN,
    U0,
    U1,
    U2,
    U3,
    U6,
    U8,
    U16,
    U32,
    U63,
    Number,
    eight,
    inner,
    kernel,
    lowest,
    meet,
    move,
    part,
    plain,
    population,
    prefetch,
)
from tidings.matching.slabs import BLOCK, G_ABSENT, G_CUTS, G_LEAST, G_ROWS, G_SHIFT, PARTS
from tidings.matching.state import KEYS_MAX, MOVED_BYTES, Array

DIGITS_MAX = np.uint64(15)
"""Of a number: whole numbers of so many digits, and powers of ten up to as many, are floats exactly, so that
their quotient is the float that is nearest to what was written."""

POWERS = np.array([10.0**places for places in range(16)])

MIX = np.uint64(0x9E3779B97F4A7C15)
MIX_SHIFT = np.uint64(29)
"""Of `hash_of`, which is the same."""

# Columns of the table of fields.
F_HASH, F_START, F_SIZE, F_NUMBER, F_BOOL, F_TEXT = range(6)

# What is known of a key: its place among the fields is that of nobody if no filter asks for it. The word is
# the key with the quote and the colon behind it, and the mask has the bytes that count: none if they do not
# fit, or blanks are in between.
K_HASH, K_START, K_SIZE, K_FIELD, K_WORD, K_MASK = range(6)

LAST_PART = np.uint64(PARTS - 1)

AT_ONCE = 3
"""Boxes of a word that are looked at without asking whether there are so many: most words that have any have
one to three."""

PLAIN = np.array([32 <= byte <= 126 and byte not in b'"\\' for byte in range(256)])
"""The bytes of a text that stand for themselves."""

TEXT_BYTES = np.uint64(32)
"""Of a text that are looked at together."""

MOVED = np.uint64(MOVED_BYTES)

# Eight digits at once, as bytes of a word: which bytes are none, and what the digits make by twos, fours and
# all together.
ZEROS, SIXES, HIGHS = (np.uint64(0x0101010101010101 * byte) for byte in (0x30, 0x06, 0xF0))
TWOS, FOURS, EIGHTS = (np.uint64(10**places << shift | 1) for places, shift in ((1, 8), (2, 16), (4, 32)))
BY_TWOS, BY_FOURS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
U48 = np.uint64(48)

QUOTE, COMMA, COLON, MINUS, POINT = 34, 44, 58, 45, 46
OPEN, CLOSE, ZERO, NINE, E = 123, 125, 48, 57, 101


@part
def behind_blanks(data: Array, at: Number, end: Number) -> Number:
    while at < end and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += U1
    return at


@part
def behind_text(data: Array, at: Number, end: Number) -> Number:
    """Where plain ASCII ends that begins at a place: at a quote, a backslash or anything else that is odd."""
    room = np.uint64(len(data))
    while at + TEXT_BYTES <= room:
        more = plain(data, at)
        at += more
        if more < TEXT_BYTES or at >= end:
            return min(at, end)
    while at < end and PLAIN[data[at]]:
        at += U1
    return at


@part
def is_same(data: Array, at: Number, other: Number, size: Number) -> Number:
    """Whether so many bytes at two places are the same."""
    same = True
    for i in range(size):
        same &= data[at + i] == data[other + i]
    return same


@part
def digits_at(data: Array, at: Number, end: Number) -> Number:
    """How many digits there are from a place on, eight at most, and what they make if they are fewer."""
    word = eight(data, at) ^ ZEROS
    # What a byte carries over to the next is of no matter: it is no digit itself, and the first counts.
    size = min(lowest((word + SIXES | word) & HIGHS) >> U3, end - at)
    if size == U0 or size >= U8:
        return size, np.int64(0)
    word <<= (U8 - size) << U3
    word = word * TWOS >> U8 & BY_TWOS
    word = word * FOURS >> U16 & BY_FOURS
    return size, np.int64(word * EIGHTS >> U32)


@part
def is_word(data: Array, at: Number, end: Number, word: Array) -> Number:
    if end - at < np.uint64(len(word)):
        return False
    same = True
    for i in range(np.uint64(len(word))):
        same &= data[at + i] == word[i]
    return same


TRUE, FALSE, NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))


@part
def field_of(
    code: Number, first: Number, size: Number, data: Array, names: Array, fields: Array, mask: Number
) -> Number:
    """The place of a key in the table of fields: its own, or an empty one if nobody asks for it."""
    place = (code >> U6) & mask
    while fields[place, F_HASH] != U0:
        if fields[place, F_HASH] == code and fields[place, F_SIZE] == size:
            same = True
            start = fields[place, F_START]
            for i in range(size):
                same &= names[start + i] == data[first + i]
            if same:
                break
        place = (place + U1) & mask
    return place


@kernel
def read(
    data: Array,
    begins: Array,
    ends: Array,
    names: Array,
    fields: Array,
    keys: Array,
    raw: Array,
    floats: Array,
    there: Array,
    done: Array,
) -> Number:
    """Take what filters ask for out of JSON objects: object e is data[begins[e]:ends[e]].

    `fields` is a table by hash (`Reader`), `names` the bytes of their names. Values go to `raw`, and to
    `floats`, which are the same bytes; `there` says which are there, `done` of which objects all of it is
    true. How many others there are is returned. `keys` is scratch, for what is known of the keys of the
    object before: as long as they come again in the same order, as from one device they do, they need not be
    looked up.
    """
    mask = np.uint64(len(fields) - 1)
    room = np.uint64(len(data))
    known = left = U0
    for e in range(np.uint64(len(begins))):
        left += U1
        done[e] = 0
        for c in range(there.shape[0]):
            there[c, e] = 0
        end = np.uint64(ends[e])
        at = behind_blanks(data, np.uint64(begins[e]), end)
        if at >= end or data[at] != OPEN:
            continue
        at = behind_blanks(data, at + U1, end)
        if at < end and data[at] == CLOSE:
            done[e] = behind_blanks(data, at + U1, end) == end
            left -= np.uint64(done[e])
            continue
        key = U0
        alike: Number = True
        while at < end and data[at] == QUOTE and key < KEYS_MAX:
            at += U1
            first = at
            size = keys[key, K_SIZE]
            quick = alike and key < known and at + U8 <= room and size + U2 < end - at
            quick = quick and keys[key, K_MASK] != U0
            quick = quick and (eight(data, at) ^ keys[key, K_WORD]) & keys[key, K_MASK] == U0
            # The quote behind it is compared, too.
            alike &= quick or (
                key < known and size < end - at and is_same(data, at, keys[key, K_START], size + U1)
            )
            if alike:
                at += size
            else:
                code = U0
                while at < end and PLAIN[data[at]]:
                    code = (code ^ np.uint64(data[at])) * MIX
                    code ^= code >> MIX_SHIFT
                    at += U1
                if at >= end or data[at] != QUOTE:
                    break
                size = at - first
                code |= U1
                twice = False
                for k in range(key):
                    twice |= keys[k, K_HASH] == code
                if twice:
                    break
                keys[key, K_HASH], keys[key, K_START], keys[key, K_SIZE] = code, first, size
                keys[key, K_FIELD] = field_of(code, first, size, data, names, fields, mask)
                keys[key, K_MASK] = U0
                if size <= U6 and first + U8 <= room and data[at + U1] == COLON:
                    keys[key, K_WORD] = eight(data, first)
                    keys[key, K_MASK] = ALL >> (U48 - (size << U3))
                known = key + U1
            field = keys[key, K_FIELD]
            number = np.int64(fields[field, F_NUMBER])
            truth = np.int64(fields[field, F_BOOL])
            text = np.int64(fields[field, F_TEXT])
            key += U1
            if quick:
                at += U2
            else:
                at = behind_blanks(data, at + U1, end)
                if at >= end or data[at] != COLON:
                    break
                at += U1
            at = behind_blanks(data, at, end)
            if at >= end:
                break
            byte = data[at]
            if byte == QUOTE:
                at = behind_text(data, at + U1, end)
                if at >= end or data[at] != QUOTE or text != -1:
                    break
                at += U1
            elif byte == MINUS or (byte >= ZERO and byte <= NINE):
                if byte == MINUS:
                    at += U1
                digits = at
                whole = U8
                value = np.int64(0)
                if at + U8 <= room:
                    whole, value = digits_at(data, at, end)
                    at += whole
                if whole == U8:
                    # More than were looked at, perhaps, or at the end of the buffer.
                    at = digits
                    while at < end and data[at] >= ZERO and data[at] <= NINE:
                        value = value * 10 + np.int64(data[at] - ZERO)
                        at += U1
                    whole = at - digits
                if whole == U0 or (whole > U1 and data[digits] == ZERO):
                    break
                places = U0
                if at < end and data[at] == POINT:
                    at += U1
                    behind_point = at
                    while at < end and data[at] >= ZERO and data[at] <= NINE:
                        value = value * 10 + np.int64(data[at] - ZERO)
                        at += U1
                    places = at - behind_point
                    if places == U0:
                        break
                if whole + places > DIGITS_MAX or (at < end and (data[at] | 32) == E) or number < -1:
                    break
                if number >= 0:
                    exact = np.float64(value)
                    if places != U0:
                        exact /= POWERS[places]
                    floats[number, e] = -exact if byte == MINUS else exact
                    there[number, e] = 1
            elif is_word(data, at, end, NULL):
                at += np.uint64(4)
            else:
                yes = is_word(data, at, end, TRUE)
                if not yes and not is_word(data, at, end, FALSE):
                    break
                at += np.uint64(4 if yes else 5)
                if truth < -1:
                    break
                if truth >= 0:
                    raw[truth, e] = np.uint64(yes)
                    there[truth, e] = 1
            if at + U1 < end and data[at] == COMMA and data[at + U1] == QUOTE:
                at += U1
                continue
            at = behind_blanks(data, at, end)
            if at >= end:
                break
            byte = data[at]
            at = behind_blanks(data, at + U1, end)
            if byte != COMMA:
                done[e] = byte == CLOSE and at == end
                left -= np.uint64(done[e])
                break
    return np.int64(left)


@part
def note(word: Number, owners: Array, box: Number, last: Number, out: Array, written: Number) -> Number:
    """Note the owner of the box of the lowest bit, if there is one and it is not the last owner once more.

    Nothing here is guessed: whether a word has another bit, and whose, is as good as random. What is written
    for nothing is written over by the next.
    """
    some = word != U0
    owner = np.int64(owners[box + (lowest(word) & U63)])
    new = np.uint64(some & (owner != last))
    if written < np.uint64(len(out)):
        out[written] = owner
    return word & (word - U1), owner if some else last, written + new


@kernel
def ask(
    lines: Array,
    groups: Number,
    cuts: Array,
    guides: Array,
    attributes: Array,
    owners: Array,
    columns: Array,
    raw: Array,
    there: Array,
    start: Number,
    stop: Number,
    doubtful: Array,
    doubts: Number,
    rows: Array,
    out: Array,
    ends: Array,
) -> Number:
    """The same as `kernels.match`, by a slab: `lines`, `groups` to a row, are its rows.

    For each of its attributes, `columns` has the column of the events, twice, plus one for floats, or less
    than 0 if there is none. `doubts` is whether any owner is doubtful. `rows` is scratch: a line for the AND,
    then the rows of some events.

    Events are done in blocks: where the rows are is found attribute by attribute, since the cuts of one fit
    into the first cache and the searches do not wait for each other, and rows are asked for ahead of use.
    """
    count = np.uint64(len(attributes))
    group_count = np.uint64(groups)
    row_words = group_count << U3
    written = U0
    room = np.uint64(len(out))
    block = start
    while block < stop:
        behind = min(stop, block + BLOCK)
        for a in range(count):
            column = columns[a]
            absent = attributes[a, G_ABSENT] * row_words
            first, none = attributes[a, G_CUTS], attributes[a, G_ROWS]
            least, shift = attributes[a, G_LEAST], attributes[a, G_SHIFT]
            at = U8 + a
            for e in range(block, behind):
                row = absent
                if column >= 0 and there[column >> 1, e]:
                    value = raw[column >> 1, e]
                    if column & 1:
                        if value == SIGN:
                            value = U0
                        value ^= ALL if value & SIGN else SIGN
                    # As many rows further as there are cuts that are not above the value: the guide says
                    # between which, for the part of the range that it is in.
                    part_of = min((max(value, least) - least) >> shift, LAST_PART)
                    low = np.uint64(guides[a, part_of])
                    left = np.uint64(guides[a, part_of + U1]) - low
                    while left > U1:
                        half = left >> U1
                        above = np.uint64(cuts[first + low + half] <= value)
                        low += (half + U1) * above
                        left = half * (U1 - above) + (left - half - U1) * above
                    # Whether one is left is as good as random, and to guess wrong takes longer than to look.
                    low += left & np.uint64(cuts[first + low] <= value)
                    row = (none + low) * row_words
                    prefetch(lines, row)
                    prefetch(lines, row + row_words - U8)
                rows[at] = row
                at += count
        at = U8
        for e in range(block, behind):
            before = written
            last = np.int64(-1)
            for group in range(group_count):
                words = meet(lines, rows, rows[at], at + U1, at + count, U0)
                while words:
                    k = lowest(words)
                    words &= words - U1
                    word = rows[k]
                    box = (group << np.uint64(9)) + (k << U6)
                    for _ in range(AT_ONCE):
                        word, last, written = note(word, owners, box, last, out, written)
                    while word:
                        word, last, written = note(word, owners, box, last, out, written)
                for a in range(at, at + count):
                    rows[a] += U8
            at += count
            if written > room:
                ends[0, e] = np.int64(written - before)
                return e - start
            ends[0, e] = np.int64(written)
            ends[1, e] = 0
            if doubts:
                for i in range(before, written):
                    owner_at = np.uint64(out[i])
                    ends[1, e] += np.int64((doubtful[owner_at >> U6] >> (owner_at & U63)) & U1)
        block = behind
    return stop - start


@kernel
def mark(owners: Array, ends: Array, first: Array, links: Array, bits: Array) -> Number:
    """Set the bits of those for whom owners stand; False, with some of it done, if an owner is not known.
    The owners of event e end at ends[e].

    Where owner o stands for one, as most do, first[o] is its number taken from -2. Else links[first[o]] says
    how many they are; they follow it. It is -1 for those that are not known.
    """
    room = np.int64(len(first))
    at = U0
    for e in range(np.uint64(len(ends))):
        last = np.uint64(ends[e])
        # One word is put together before it is written: to write it again and again would be to wait.
        word = place = U0
        while at < last:
            owner = owners[at]
            if owner >= room:
                return False
            link = first[np.uint64(owner)]
            at += U1
            if link == -1:
                return False
            if link >= 0:
                begin = np.uint64(link) + U1
                for i in range(begin, begin + np.uint64(links[begin - U1])):
                    taker = np.uint64(links[i])
                    bits[e, taker >> U6] |= U1 << (taker & U63)
                continue
            taker = np.uint64(-2 - link)
            if taker >> U6 != place:
                bits[e, place] |= word
                word, place = U0, taker >> U6
            word |= U1 << (taker & U63)
        # Where nobody is known yet, there is not one word to a row.
        if word:
            bits[e, place] |= word
    return True


@kernel
def total(bits: Array) -> Number:
    """How often pieces are taken in all, and how many are."""
    takers = served = U0
    for e in range(np.uint64(len(bits))):
        before = takers
        for at in range(np.uint64(bits.shape[1])):
            takers += population(bits[e, at])
        served += np.uint64(takers != before)
    return np.int64(takers), np.int64(served)


@kernel
def count(
    bits: Array,
    takers: Array,
    upto: Array,
    served: Array,
    listed: Array,
    pieces: Array,
    lasts: Array,
) -> None:
    """List who takes each piece, one piece after the other, and the pieces of each taker, one taker after the
    other. There is room for as many as `total` says.

    `served` are the pieces that somebody takes; the takers of the k-th of them end at upto[k], and `listed`
    has for each taker which piece it takes. The pieces of taker t end at lasts[t].
    """
    lasts[:] = 0
    written = k = U0
    for e in range(np.uint64(len(bits))):
        before = written
        for at in range(np.uint64(bits.shape[1])):
            word = bits[e, at]
            while word:
                taker = (at << U6) + lowest(word)
                word &= word - U1
                takers[written] = np.int32(taker)
                listed[written] = np.int32(e)
                written += U1
                lasts[taker] += 1
        if written != before:
            served[k] = np.int64(e)
            upto[k] = np.int64(written)
            k += U1
    # From how many they are to where they begin; while they are listed, that moves to where they end.
    many = 0
    for i in range(np.uint64(len(lasts))):
        begin, many = many, many + lasts[i]
        lasts[i] = begin
    # In one loop: to go by pieces would be to guess wrong where the takers of each end.
    for i in range(written):
        taker = np.uint64(takers[i])
        pieces[lasts[taker]] = listed[i]
        lasts[taker] += 1


@inner
def lay(data: Array, begin: Number, size: Number, out: Array, to: Number) -> None:
    """Copy a piece to where there is room for it.

    It is copied 64 bytes at a time where there is room for that: what is too much, the next is written over.
    Behind the last, `out` may have any bytes.
    """
    spare = size + MOVED
    if begin + spare <= np.uint64(len(data)) and to + spare <= np.uint64(len(out)):
        for k in range(U0, size, MOVED):
            move(data, begin + k, out, to + k)
    else:
        for k in range(size):
            out[to + k] = data[begin + k]


@kernel
def join(
    data: Array, begins: Array, ends: Array, pieces: Array, first: Number, last: Number, out: Array
) -> None:
    """Write some of the listed pieces one behind the other."""
    to = U0
    for i in range(first, last):
        e = np.uint64(pieces[i])
        begin = np.uint64(begins[e])
        size = np.uint64(ends[e]) - begin
        lay(data, begin, size, out, to)
        to += size
