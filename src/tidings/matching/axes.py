"""From boxes over fields to intervals of ordinals, and from events to ordinals.

The kernels know only attributes and unsigned 64-bit ordinals. An *attribute* is a field and an *axis*, one
way to look at the field's value; an event has the attribute if its value can be looked at in that way:

    PRESENT         there is a value, of whatever kind: 0
    BOOL, TIME      false and true; microseconds since 1970
    NUMBER          the 64-bit float, its bits turned so that they sort; a whole number that no float holds
                    counts as the next smaller float
    EQUAL           the number of the string among all strings that filters ask for, 0 for any other
    PREFIX + n      the same for the first n characters of the string
    ORDER + n       the first eight UTF-8 bytes of the string without its first n characters
    FOREIGN + kind  there is a value, but of another kind: 0

A region becomes constraints on these axes. Where they cannot say it exactly (patterns, long strings, whole
numbers beyond 2**53) they say a little more, and the filter counts as inexact: what it seems to match is put
to the filter itself. Ranges of strings that share a beginning (a prefix among them) are looked up by that
beginning first and by the bytes after it then, so that many filters on long URLs stay selective; the lengths
used lie on a grid, so that an event is never looked up by more than a few.

Rounding down keeps whole numbers exact as well: for a float p, v >= p iff floor(v) >= p, and v < p iff
floor(v) < p. Only bounds at or beyond 2**53, between which floats lose whole numbers, are inexact.

Attributes and strings are counted while filters use them and let go after that.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import product, repeat
from operator import itemgetter
from typing import Any, Final

import numpy as np

from tidings.language.cuts import EXACT_INT_MAX, Cuts
from tidings.language.fields import Path
from tidings.language.regions import KINDS, Box, Kind, Region, Values
from tidings.language.timestamps import micros
from tidings.matching.state import ANY_ATTRIBUTE, MAX_ORDINAL, Array

PRESENT, BOOL, NUMBER, EQUAL, TIME = range(5)
PREFIX: Final = 1 << 16
ORDER: Final = 2 << 16
FOREIGN: Final = 3 << 16

AXES: Final = {Kind.BOOL: BOOL, Kind.NUMBER: NUMBER, Kind.TIMESTAMP: TIME}

EXPAND_MAX: Final = 64
"""Boxes that one conjunction may become when several of its fields have several intervals."""

CONSTRAINTS_MAX: Final = 16
"""Constraints of a box that are kept; a filter with more is inexact."""

Bound = int | str
Term = tuple[int, Bound, Bound, bool]
"""Axis, least, greatest (strings where the axis looks them up), and whether an event without it is inside."""

Way = tuple[Term, ...]
"""One way to be inside a region: all of these terms."""

Constraint = tuple[int, int, int]
"""Attribute * 2 + (1 if an event without it is inside), least, greatest ordinal."""

_SIGN: Final = 1 << 63
_FLOAT = struct.Struct("<d")
_WORD = struct.Struct("<Q")
_GREATEST_FLOAT = math.nextafter(math.inf, 0)


def _grid() -> tuple[int, ...]:
    lengths: list[int] = []
    step = 2
    at = 8
    while at <= 1024:
        lengths += range(at, 2 * at, step)
        at *= 2
        step *= 2
    return tuple(lengths)


PREFIX_LENGTHS: Final = _grid()
"""Lengths by which strings are looked up: 8, 10, 12, 14, 16, 20, ... A prefix of up to 40 ASCII characters
is then at most eight bytes longer than one of them, so that ORDER says the rest exactly."""


# Ordinals.


def floor_float(value: float) -> float:
    """The greatest float that is not above a number."""
    try:
        near = float(value)
    except OverflowError:
        return _GREATEST_FLOAT if value > 0 else -math.inf
    return math.nextafter(near, -math.inf) if near > value else near


@lru_cache(maxsize=65_536)
def number_ordinal(value: float) -> int:
    """A float's place among all floats. Bounds are mostly round numbers that others have, too."""
    bits: int = _WORD.unpack(_FLOAT.pack(value + 0.0))[0]
    return bits ^ (MAX_ORDINAL if bits & _SIGN else _SIGN)


def string_ordinal(text: str) -> int:
    """A string's place by its first eight bytes."""
    return int.from_bytes(text[:8].encode("utf-8", "surrogatepass")[:8].ljust(8, b"\0"), "big")


def time_ordinal(at: int) -> int:
    return at + _SIGN


# Regions.


def _plain(kind: Kind, low: Any, high: Any, absent: bool) -> tuple[Way, bool]:
    """One interval of numbers, times or bools, and whether that is exact."""
    exact = True
    if kind is not Kind.NUMBER:
        turn = time_ordinal if kind is Kind.TIMESTAMP else int
        least = 0 if low is None else turn(low)
        greatest = MAX_ORDINAL if high is None else turn(high) - 1
        return ((AXES[kind], max(least, 0), greatest, absent),), True
    least, greatest = 0, MAX_ORDINAL
    if low is not None:
        large = abs(low) >= EXACT_INT_MAX
        exact = exact and not large
        least = number_ordinal(floor_float(low) if large else low)
    if high is not None:
        large = abs(high) >= EXACT_INT_MAX
        exact = exact and not large
        greatest = number_ordinal(floor_float(high)) if large else number_ordinal(high) - 1
    return ((NUMBER, least, greatest, absent),), exact


def _exact_end(text: str) -> bool:
    """Whether eight bytes tell on which side of this string another lies."""
    return len(text) <= 8 and len(text.encode("utf-8", "surrogatepass")) <= 8 and not text.endswith("\0")


def _strings(low: str | None, high: str | None, absent: bool) -> tuple[Way, bool]:
    """One interval of strings, and whether that is exact."""
    if low is not None and high == low + "\0":
        return ((EQUAL, low, low, absent),), True
    offset = 0
    if low is not None and high is not None and low[:8] == high[:8]:
        shared = 8
        for a, b in zip(low[8:], high[8:], strict=False):
            if a != b:
                break
            shared += 1
        if shared <= min(len(low), len(high)):
            offset = max((length for length in PREFIX_LENGTHS if length <= shared), default=0)
    least, greatest, exact = 0, MAX_ORDINAL, True
    if low is not None:
        least = string_ordinal(low[offset:])
        exact = _exact_end(low[offset:])
    if high is not None:
        if _exact_end(high[offset:]):
            # The empty string is below nothing, so there is always one ordinal below.
            greatest = string_ordinal(high[offset:]) - 1
        else:
            greatest, exact = string_ordinal(high[offset:]), False
    terms: Way = ((ORDER + offset, least, greatest, absent),)
    if offset:
        assert low is not None
        terms = ((PREFIX + offset, low[:offset], low[:offset], absent), *terms)
    return terms, exact


class _Factor:
    """What a box asks of one field: one of several ways, or roughly one."""

    __slots__ = ("exact", "rough", "ways")

    def __init__(self, ways: list[Way], rough: Way, exact: bool) -> None:
        self.ways = ways
        """Any of these."""
        self.rough = rough
        """A single way that holds at least as much."""
        self.exact = exact
        """Whether the ways together say just what the region says."""


def _values(kind: Kind, values: Values, absent: bool) -> _Factor:
    """Values of one kind; with `absent`, everything that is not of that kind too."""
    cuts: Cuts = values.cuts
    intervals = list(cuts.intervals())
    if not intervals:
        # Inside is only what is not of this kind, if anything.
        nothing: Way = ((AXES.get(kind, EQUAL), 1, 0, absent),)
        return _Factor([nothing] if absent else [], nothing, True)
    say = _strings if kind is Kind.STRING else None
    exact = not values.likes
    ways: list[Way] = []
    for low, high in intervals:
        way, fits = say(low, high, absent) if say else _plain(kind, low, high, absent)
        ways.append(way)
        exact = exact and fits
    low, high = intervals[0][0], intervals[-1][1]
    if len(ways) == 1:
        rough = ways[0]
    else:
        rough, _ = say(low, high, absent) if say else _plain(kind, low, high, absent)
    if say and len(ways) > 1 and not all(way[0][0] == EQUAL for way in ways):
        # `<>` and its like leave nearly everything: several boxes would not be narrower than one.
        return _Factor([rough], rough, False)
    return _Factor(ways, rough, exact)


def _factors(region: Region) -> list[_Factor]:
    """What a region asks, as a conjunction of factors."""
    here: Term = (PRESENT, 0, 0, False)
    missing: Term = (PRESENT, 1, 0, True)
    if region.other:
        factors = [_values(kind, values, True) for kind, values in region.sets]
        if not region.null:
            factors.append(_Factor([(here,)], (here,), True))
        return factors
    if region.null and len(region.sets) == 1:
        ((kind, values),) = region.sets
        ours: Term = (FOREIGN + kind, 1, 0, True)
        return [_values(kind, values, True), _Factor([(ours,)], (ours,), True)]
    parts = [_values(kind, values, False) for kind, values in region.sets]
    ways = [way for part in parts for way in part.ways]
    if region.null:
        ways.append((missing,))
    if len(parts) == 1 and not region.null:
        return parts
    return [_Factor(ways, (), all(part.exact for part in parts))]


def _simple(box: Box) -> tuple[list[tuple[Path, Term]], bool] | None:
    """The terms of a box whose every region is one interval of one kind, as most are; None if it is not such
    a box.
    """
    terms: list[tuple[Path, Term]] = []
    exact = True
    for path, region in box:
        if region.null or region.other or len(region.sets) != 1:
            return None
        ((kind, values),) = region.sets
        cuts = values.cuts
        ends = (None, *cuts.points) if cuts.inside else cuts.points
        if values.likes or not 1 <= len(ends) <= 2:
            return None
        low, high = ends if len(ends) == 2 else (ends[0], None)
        way, fits = _strings(low, high, False) if kind is Kind.STRING else _plain(kind, low, high, False)
        exact = exact and fits
        terms += [(path, term) for term in way]
    return (terms, exact) if len(terms) <= CONSTRAINTS_MAX else None


def ways_of(box: Box) -> tuple[list[list[tuple[Path, Term]]], bool]:
    """A box of the language as boxes of terms, and whether they say just the same."""
    simple = _simple(box)
    if simple is not None:
        return [simple[0]], simple[1]
    factors: list[tuple[Path, _Factor]] = [
        (path, factor) for path, region in box for factor in _factors(region)
    ]
    exact = True
    # The longest list is laid out whole, because it is as long as its text; others only while that is cheap.
    size = 1
    for _, factor in sorted(factors, key=lambda item: -len(item[1].ways)):
        if size > 1 and size * len(factor.ways) > EXPAND_MAX:
            factor.ways, factor.exact = [factor.rough], False
        size *= len(factor.ways)
        exact = exact and factor.exact
    found: list[list[tuple[Path, Term]]] = []
    for ways in product(*(factor.ways for _, factor in factors)):
        terms = [(path, term) for (path, _), way in zip(factors, ways, strict=True) for term in way]
        exact = exact and len(terms) <= CONSTRAINTS_MAX
        found.append(terms[:CONSTRAINTS_MAX])
    return found, exact


# Attributes.


class Field:
    """A field that some filter looks at, and the attributes by which they do."""

    __slots__ = (
        "bool",
        "children",
        "equal",
        "foreign",
        "number",
        "order",
        "plain",
        "prefix",
        "present",
        "time",
    )

    def __init__(self) -> None:
        self.children: dict[str, Field] = {}
        self.present = self.bool = self.number = self.equal = self.time = -1
        self.prefix: dict[int, int] = {}
        self.order: dict[int, int] = {}
        self.foreign: dict[int, int] = {}
        self.plain = True
        """Whether numbers and strings have nothing to do beyond `number` and `equal`."""

    @property
    def idle(self) -> bool:
        return (
            max(self.present, self.bool, self.number, self.equal, self.time) < 0
            and not self.prefix
            and not self.order
            and not self.foreign
            and not self.children
        )

    def set(self, axis: int, attribute: int) -> None:
        """Enter an attribute by its axis; -1 takes it out."""
        table = {PREFIX: self.prefix, ORDER: self.order, FOREIGN: self.foreign}.get(axis & ~0xFFFF)
        if table is not None:
            if attribute < 0:
                del table[axis & 0xFFFF]
            else:
                table[axis & 0xFFFF] = attribute
        elif axis == PRESENT:
            self.present = attribute
        elif axis == BOOL:
            self.bool = attribute
        elif axis == NUMBER:
            self.number = attribute
        elif axis == EQUAL:
            self.equal = attribute
        else:
            self.time = attribute
        self.plain = not (self.prefix or self.order or self.foreign or self.children) and self.present < 0


Row = tuple[int, Sequence[Any], bool, Sequence[int] | None]
"""Of a batch: attribute, one ordinal or float per event, whether they are floats, which events have it
(None: all)."""


SHAPES_MAX: Final = 64
"""Kinds of events that are remembered; a network has few, a stranger may send many."""

NUMBER_TYPES: Final = frozenset({int, float})


class Shape:
    """Events of the same names, where filters ask nothing of these but numbers: arrays to be filled anew."""

    __slots__ = ("columns", "floats", "raw", "take", "there")

    def __init__(self, names: Sequence[str], attributes: Sequence[int]) -> None:
        self.take = itemgetter(*names)
        """The values of an event, in the order of the columns."""
        self.columns = np.array(attributes, dtype=np.int64) * 2 + 1
        self.raw = np.empty((len(names), 1), dtype=np.uint64)
        self.floats = self.raw.view(np.float64).reshape(-1)
        self.there = np.ones((len(names), 1), dtype=np.uint8)

    def fill(self, event: Mapping[str, object]) -> bool:
        """Take an event in; no if it has other values than numbers, or some that floats do not hold."""
        values = self.take(event)
        if not NUMBER_TYPES.issuperset(map(type, values)):
            return False
        if max(values) >= EXACT_INT_MAX or min(values) <= -EXACT_INT_MAX:
            return False
        self.floats[:] = values
        return True


class Attributes:
    """The attributes and strings that filters use, and what an event is in their terms."""

    def __init__(self) -> None:
        self.fields: dict[str, Field] = {}
        self.changes = 0
        """Counts attributes that came or went."""
        self._shapes: dict[tuple[str, ...], Shape | None] = {}
        self._numbers: dict[tuple[Path, int], int] = {}
        self._keys: list[tuple[Path, int] | None] = [None]
        self._uses: list[int] = [1]
        self._free: list[int] = []
        self.symbols: dict[str, int] = {}
        self._texts: list[str | None] = [None]
        self._text_uses: list[int] = [1]
        self._free_texts: list[int] = []
        assert ANY_ATTRIBUTE == 0

    def __len__(self) -> int:
        """How many attributes there are room for, the one that every event has among them."""
        return len(self._keys)

    @property
    def used(self) -> int:
        """How many attributes filters use."""
        return len(self._numbers)

    @property
    def numbers(self) -> Mapping[tuple[Path, int], int]:
        """The attributes in use: the number of each field and axis."""
        return self._numbers

    # Filters.

    def admit(self, boxes: Iterable[Box]) -> tuple[list[list[Constraint]], bool]:
        """Constraints for the boxes of a filter, counted as used; and whether they say just the same."""
        found: list[list[Constraint]] = []
        exact = True
        for box in boxes:
            ways, fits = ways_of(box)
            exact = exact and fits
            # By attribute, so that boxes that constrain the same ones begin alike.
            found += [sorted(self._constraint(path, *term) for path, term in terms) for terms in ways]
        return found, exact

    def _constraint(self, path: Path, axis: int, least: Bound, greatest: Bound, absent: bool) -> Constraint:
        attribute = self._numbers.get((path, axis))
        if attribute is None:
            attribute = self._new(path, axis)
        self._uses[attribute] += 1
        if isinstance(least, str):
            least = greatest = self._symbol(least)
        assert isinstance(greatest, int)
        return attribute * 2 + absent, least, greatest

    def _new(self, path: Path, axis: int) -> int:
        if self._free:
            attribute = self._free.pop()
            self._keys[attribute] = (path, axis)
        else:
            attribute = len(self._keys)
            self._keys.append((path, axis))
            self._uses.append(0)
        self._numbers[path, axis] = attribute
        self._changed()
        fields = self.fields
        for name in path[:-1]:
            field = fields.setdefault(name, Field())
            field.plain = False
            fields = field.children
        fields.setdefault(path[-1], Field()).set(axis, attribute)
        return attribute

    def _changed(self) -> None:
        self.changes += 1
        self._shapes.clear()

    def _symbol(self, text: str) -> int:
        number = self.symbols.get(text)
        if number is None:
            if self._free_texts:
                number = self._free_texts.pop()
                self._texts[number] = text
            else:
                number = len(self._texts)
                self._texts.append(text)
                self._text_uses.append(0)
            self.symbols[text] = number
        self._text_uses[number] += 1
        return number

    def release(self, attribute: int, least: int, greatest: int) -> bool:
        """Count a constraint as no longer used; whether it was the attribute's last."""
        key = self._keys[attribute]
        assert key is not None
        path, axis = key
        if (axis == EQUAL or axis & ~0xFFFF == PREFIX) and least == greatest:
            self._text_uses[least] -= 1
            if not self._text_uses[least]:
                text = self._texts[least]
                assert text is not None
                del self.symbols[text]
                self._texts[least] = None
                self._free_texts.append(least)
        self._uses[attribute] -= 1
        if self._uses[attribute]:
            return False
        del self._numbers[key]
        self._changed()
        self._keys[attribute] = None
        self._free.append(attribute)
        chain: list[tuple[dict[str, Field], str]] = []
        fields = self.fields
        for name in path:
            chain.append((fields, name))
            fields = fields[name].children
        for at, (fields, name) in reversed(list(enumerate(chain))):
            field = fields[name]
            if at == len(path) - 1:
                field.set(axis, -1)
            if not field.idle:
                break
            del fields[name]
        return True

    # Events.

    def shape(self, names: tuple[str, ...]) -> Shape | None:
        """The shape of events of these names; None if numbers are not all that is asked of them."""
        try:
            return self._shapes[names]
        except KeyError:
            pass
        asked = [name for name in names if name in self.fields]
        plain = all(self.fields[name].plain and self.fields[name].number >= 0 for name in asked)
        # One name alone would be taken as a value, not as a tuple of one.
        shape = (
            Shape(asked, [self.fields[name].number for name in asked]) if plain and len(asked) > 1 else None
        )
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        self._shapes[names] = shape
        return shape

    def encode(
        self,
        event: Mapping[str, object],
        fields: dict[str, Field],
        heads: list[int],
        floats: list[float],
        others: list[int],
        ordinals: list[int],
    ) -> None:
        """One event: number attributes to `heads` with `floats`, all others to `others` with `ordinals`."""
        for name, value in event.items():
            field = fields.get(name)
            if field is None or value is None:
                continue
            kind = type(value)
            if kind is float or kind is int:
                if field.number >= 0:
                    heads.append(field.number * 2 + 1)
                    assert isinstance(value, (int, float))
                    floats.append(value if -EXACT_INT_MAX < value < EXACT_INT_MAX else floor_float(value))
            elif kind is str:
                assert isinstance(value, str)
                if field.equal >= 0:
                    others.append(field.equal * 2)
                    ordinals.append(self.symbols.get(value, 0))
                for length, attribute in field.prefix.items():
                    others.append(attribute * 2)
                    ordinals.append(self.symbols.get(value[:length], 0) if len(value) >= length else 0)
                for offset, attribute in field.order.items():
                    others.append(attribute * 2)
                    ordinals.append(string_ordinal(value[offset : offset + 8]))
            elif kind is bool:
                if field.bool >= 0:
                    others.append(field.bool * 2)
                    ordinals.append(int(value is True))
            elif kind is datetime:
                if field.time >= 0:
                    assert isinstance(value, datetime)
                    others.append(field.time * 2)
                    ordinals.append(time_ordinal(micros(value)))
            elif field.children and isinstance(value, Mapping):
                self.encode(value, field.children, heads, floats, others, ordinals)
            if field.plain:
                continue
            if field.present >= 0:
                others.append(field.present * 2)
                ordinals.append(0)
            for listed, attribute in field.foreign.items():
                if KINDS.get(kind) != listed:
                    others.append(attribute * 2)
                    ordinals.append(0)

    def encode_batch(self, events: Sequence[Mapping[str, object]]) -> tuple[Array, Array, Array]:
        """A batch, column by column: attributes (as `match` takes them), ordinals, and which are there."""
        fields = self.fields
        names: Iterable[str] = fields
        if len(fields) > 2 * len(events[0]) + 16:
            # Most fields that filters know are not in these events: look only at those that are.
            names = [
                name for name in dict.fromkeys(name for event in events for name in event) if name in fields
            ]
        rows: list[Row] = []
        for name in names:
            self._column(fields[name], [event.get(name) for event in events], rows)
        # Floats first, so that one look finds whole numbers that floats may have rounded up.
        rows.sort(key=_floats_first)
        floats = sum(row[2] for row in rows)
        columns = np.empty(len(rows), dtype=np.int64)
        raw = np.empty((len(rows), len(events)), dtype=np.uint64)
        there = np.ones((len(rows), len(events)), dtype=np.uint8)
        raw_floats = raw.view(np.float64)
        for at, (attribute, values, is_float, mask) in enumerate(rows):
            columns[at] = attribute * 2 + is_float
            if is_float:
                try:
                    raw_floats[at] = values
                except OverflowError:
                    raw_floats[at] = np.inf
            else:
                raw[at] = values
            if mask is not None:
                there[at] = mask
        if floats and np.abs(raw_floats[:floats]).max() >= EXACT_INT_MAX:
            for at in range(floats):
                raw_floats[at] = [floor_float(value) for value in rows[at][1]]
        return columns, raw, there

    def _column(self, field: Field, values: list[Any], rows: list[Row]) -> None:
        kinds = set(map(type, values))
        if field.plain:
            if kinds <= _NUMBERS:
                if field.number >= 0:
                    rows.append((field.number, values, True, None))
                return
            if kinds == _STRINGS:
                if field.equal >= 0:
                    rows.append((field.equal, list(map(self.symbols.get, values, repeat(0))), False, None))
                return
        if field.number >= 0 and kinds & _NUMBERS:
            mask = [type(value) is float or type(value) is int for value in values]
            rows.append(
                (field.number, [v if m else 0 for v, m in zip(values, mask, strict=True)], True, mask)
            )
        if field.bool >= 0 and bool in kinds:
            mask = [type(value) is bool for value in values]
            rows.append((field.bool, [int(value is True) for value in values], False, mask))
        if field.time >= 0 and datetime in kinds:
            mask = [type(value) is datetime for value in values]
            ordinals = [time_ordinal(micros(v)) if m else 0 for v, m in zip(values, mask, strict=True)]
            rows.append((field.time, ordinals, False, mask))
        if str in kinds:
            mask = [type(value) is str for value in values]
            texts = [value if m else "" for value, m in zip(values, mask, strict=True)]
            get = self.symbols.get
            if field.equal >= 0:
                rows.append((field.equal, [get(text, 0) for text in texts], False, mask))
            for length, attribute in field.prefix.items():
                starts = [get(text[:length], 0) if len(text) >= length else 0 for text in texts]
                rows.append((attribute, starts, False, mask))
            for offset, attribute in field.order.items():
                ordinals = [string_ordinal(text[offset : offset + 8]) for text in texts]
                rows.append((attribute, ordinals, False, mask))
        if field.plain:
            return
        if field.present >= 0:
            rows.append((field.present, [0] * len(values), False, [value is not None for value in values]))
        for listed, attribute in field.foreign.items():
            mask = [value is not None and KINDS.get(type(value)) != listed for value in values]
            if True in mask:
                rows.append((attribute, [0] * len(values), False, mask))
        if field.children:
            inner = [value if isinstance(value, Mapping) else _NOTHING for value in values]
            if any(inner):
                for name, child in field.children.items():
                    self._column(child, [value.get(name) for value in inner], rows)


_NUMBERS = {int, float}
_STRINGS = {str}
_NOTHING: Mapping[str, object] = {}


def _floats_first(row: Row) -> bool:
    return not row[2]
