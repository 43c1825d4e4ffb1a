"""The key of a gathered topic: which of a report's values say what event it is about.

A key item is a field or one of a closed list of functions of fields:

    lower(f), trim(f), lower(trim(f))   of a string
    floor(f / n)                        of a number, n a positive number
    bucket(t, '5m')                     of a timestamp
    cell(lat, lon, '1km')               of two numbers, degrees

Brokers evaluate keys in Python, the pipeline in Spark, and both must find the same events. So each function
is defined by operations that both do alike to the last bit (no sines, no locale), and each item can say
itself as a Spark expression. A report that lacks a field of the key has no key, nor has one from outside the
globe.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from tidings.language import durations, timestamps
from tidings.language.fields import Field, Path, Scalar, Type, find, path_text

Event = Mapping[str, object]
Key = tuple[Scalar, ...]
"""The values of a key's items, in their order."""

STEPS_MAX = float(2**63 - 1024)
"""The largest double that Spark's BIGINT can hold. More steps than that, either way, count as so many, since
Spark's `floor` would stop the query."""

TIME_US_MIN = timestamps.micros(datetime.min.replace(tzinfo=UTC))
"""The first timestamp there is; a bucket that would begin before it begins there."""

METRES_PER_DEGREE = 111_195.0
"""Of latitude, on a sphere of the earth's mean radius, 6,371 km."""

CELL_M_MIN, CELL_M_MAX = 1, 1_000_000
"""Smaller than a metre is beyond any report's precision; larger than 1,000 km is not a grid any more."""


class Item(Protocol):
    """One item of a key."""

    @property
    def text(self) -> str:
        """The item as `parse_item` reads it."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The fields that it needs; a report without one of them has no key."""

    def value(self, event: Event) -> Scalar | None:
        """Its value for a report, or None if it has none."""

    def spark_sql(self) -> str:
        """The same as an expression of Spark SQL, NULL for none."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A field as it is."""

    path: Path

    @property
    def text(self) -> str:
        return path_text(self.path)

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    def value(self, event: Event) -> Scalar | None:
        value = find(event, self.path)
        return value if isinstance(value, Scalar) else None

    def spark_sql(self) -> str:
        return _column(self.path)


@dataclass(frozen=True, slots=True)
class Folded:
    """A string without the spaces around it (U+0020 alone, as Spark's `trim`), or in lower case, or both.

    Lower case is Unicode's default mapping without a locale. Python 3.11 and Spark 4.3 were compared code
    point by code point: they differ in 55 capitals that Unicode 16 and 17 added, which no key should need.
    """

    path: Path
    trim: bool
    lower: bool

    @property
    def text(self) -> str:
        return self._around(path_text(self.path))

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    def value(self, event: Event) -> Scalar | None:
        value = find(event, self.path)
        if not isinstance(value, str):
            return None
        if self.trim:
            value = value.strip(" ")
        return value.lower() if self.lower else value

    def spark_sql(self) -> str:
        return self._around(_column(self.path))

    def _around(self, field: str) -> str:
        inner = f"trim({field})" if self.trim else field
        return f"lower({inner})" if self.lower else inner


@dataclass(frozen=True, slots=True)
class Floor:
    """The number of whole steps in a number, downwards.

    For an int field and a whole step the division is exact. Otherwise both are taken as doubles.
    """

    path: Path
    step: int | float
    exact: bool
    """Whether field and step are whole."""

    @property
    def text(self) -> str:
        return f"floor({path_text(self.path)} / {self.step!r})"

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    def value(self, event: Event) -> Scalar | None:
        value = find(event, self.path)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        if self.exact and isinstance(value, int):
            return value // int(self.step)
        return math.floor(max(-STEPS_MAX, min(STEPS_MAX, float(value) / float(self.step))))

    def spark_sql(self) -> str:
        field = _column(self.path)
        if self.exact:
            # Spark's own floor(f / n) would divide doubles and go wrong beyond 2**53; `div` rounds to zero.
            return f"({field} div {self.step}L - IF({field} % {self.step}L < 0, 1L, 0L))"
        steps = f"CAST({field} AS DOUBLE) / {float(self.step)!r}D"
        # Spark's `least` and `greatest` pass over NULL.
        return f"IF({field} IS NULL, NULL, floor(greatest({-STEPS_MAX!r}D, least({STEPS_MAX!r}D, {steps}))))"


@dataclass(frozen=True, slots=True)
class Bucket:
    """The beginning of the span that a timestamp lies in; spans are counted from 1970-01-01T00:00Z."""

    path: Path
    span_us: int

    @property
    def text(self) -> str:
        return f"bucket({path_text(self.path)}, '{durations.text(self.span_us)}')"

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    def value(self, event: Event) -> Scalar | None:
        value = find(event, self.path)
        if not isinstance(value, datetime):
            return None
        at_us = timestamps.micros(value)
        return timestamps.from_micros(max(at_us - at_us % self.span_us, TIME_US_MIN))

    def spark_sql(self) -> str:
        field = _column(self.path)
        micros = f"unix_micros({field})"
        begin = f"greatest({micros} - pmod({micros}, {self.span_us}L), {TIME_US_MIN}L)"
        # Spark's `greatest` passes over NULL.
        return f"IF({field} IS NULL, NULL, timestamp_micros({begin}))"


@dataclass(frozen=True, slots=True)
class Cell:
    """The cell of a grid over the globe that a place lies in, as `'row:column'`.

    Rows are bands of equal height, counted from the south pole; each is cut into as many columns as cells of
    that size fit around it, counted eastwards from 180° west, so that cells are nearly square everywhere. The
    length of a parallel needs a cosine, for which Python and Java may differ in the last bit; Bhaskara's
    rational approximation, off by at most 0.0017, needs only operations that IEEE 754 defines exactly.
    """

    latitude: Path
    longitude: Path
    size_m: float

    @property
    def text(self) -> str:
        size_km, rest_m = divmod(self.size_m, 1000)
        size = f"{self.size_m!r}m" if rest_m else f"{int(size_km)}km"
        return f"cell({path_text(self.latitude)}, {path_text(self.longitude)}, '{size}')"

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.latitude, self.longitude)

    def value(self, event: Event) -> Scalar | None:
        latitude, longitude = find(event, self.latitude), find(event, self.longitude)
        if not isinstance(latitude, (int, float)) or not isinstance(longitude, (int, float)):
            return None
        if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
            return None
        height = self.size_m / METRES_PER_DEGREE
        row = math.floor((latitude + 90.0) / height)
        middle = (row + 0.5) * height - 90.0
        cosine = (32400.0 - 4.0 * middle * middle) / (32400.0 + middle * middle)
        columns = max(1, math.floor(360.0 * cosine / height))
        # 180° east is 180° west.
        return f"{row}:{math.floor((longitude + 180.0) / 360.0 * columns) % columns}"

    def spark_sql(self) -> str:
        latitude = f"CAST({_column(self.latitude)} AS DOUBLE)"
        longitude = f"CAST({_column(self.longitude)} AS DOUBLE)"
        height = f"{self.size_m / METRES_PER_DEGREE!r}D"
        row = f"floor(({latitude} + 90D) / {height})"
        middle = f"(({row} + 0.5D) * {height} - 90D)"
        cosine = f"((32400D - 4D * {middle} * {middle}) / (32400D + {middle} * {middle}))"
        columns = f"greatest(1L, floor(360D * {cosine} / {height}))"
        column = f"(floor(({longitude} + 180D) / 360D * {columns}) % {columns})"
        inside = f"{latitude} BETWEEN -90D AND 90D AND {longitude} BETWEEN -180D AND 180D"
        return f"CASE WHEN {inside} THEN concat({row}, ':', {column}) END"


def evaluate(items: tuple[Item, ...], event: Event) -> Key | None:
    """The key of a report, or None if it has none: every item must have a value."""
    key: list[Scalar] = []
    for item in items:
        value = item.value(event)
        if value is None:
            return None
        key.append(value)
    return tuple(key)


def parse_item(text: str, fields: Mapping[Path, Field]) -> Item:
    """A key item, typed against the fields of its topic; ValueError says what is wrong with it.

    >>> parse_item("lower( trim(place) )", {("place",): Field(("place",), Type.STRING)}).text
    'lower(trim(place))'
    """
    reader = _Reader(text, fields)
    item = reader.item()
    reader.end()
    return item


def _column(path: Path) -> str:
    """A field in Spark SQL; in backticks, since any name may be a keyword there."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)


_LENGTH_MAX = 1000
_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*|`(?:[^`]|``)+`)"
    r"|(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|'(?P<string>[^']*)'|(?P<mark>[().,/]))"
)
_FORMS = "a field, lower(f), trim(f), lower(trim(f)), floor(f / n), bucket(t, '5m') or cell(lat, lon, '1km')"
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|km)")
_NUMBERS = (Type.INT, Type.FLOAT)


class _Reader:
    """Reads one key item from left to right."""

    def __init__(self, text: str, fields: Mapping[Path, Field]) -> None:
        if len(text) > _LENGTH_MAX:
            raise ValueError(f"a key item of {len(text)} characters is longer than {_LENGTH_MAX}")
        self.text = text
        self.fields = fields
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while match := _TOKEN.match(text, at):
            kind = match.lastgroup or ""
            self.tokens.append((kind, match[kind]))
            at = match.end()
        if text[at:].strip():
            raise self.wrong(f"{text[at:].strip()[0]!r} is out of place")
        self.tokens.append(("end", ""))
        self.at = 0

    def wrong(self, what: str) -> ValueError:
        return ValueError(f"key item {self.text!r}: {what}; a key item is {_FORMS}")

    def take(self, kind: str, wanted: str) -> str:
        found_kind, found = self.tokens[self.at]
        if found_kind != kind or (kind == "mark" and found != wanted):
            shown = repr(found) if found_kind != "end" else "the end"
            raise self.wrong(f"expected {wanted if kind != 'mark' else repr(wanted)}, found {shown}")
        self.at += 1
        return found

    def end(self) -> None:
        self.take("end", "the end")

    def item(self) -> Item:
        if self.tokens[0][0] == "name" and self.tokens[1] == ("mark", "("):
            name = self.tokens[0][1].lower()
            if name not in _FUNCTIONS:
                raise self.wrong(f"there is no function {name!r}")
            self.at = 2
            item = _FUNCTIONS[name](self)
            self.take("mark", ")")
            return item
        return Whole(self.field(*Type).path)

    def field(self, *types: Type) -> Field:
        path = [self.name()]
        while self.tokens[self.at] == ("mark", "."):
            self.at += 1
            path.append(self.name())
        field = self.fields.get(tuple(path))
        if field is None:
            known = ", ".join(path_text(known) for known in self.fields) or "none"
            raise ValueError(
                f"key item {self.text!r} names {path_text(tuple(path))!r}, which is neither a declared field "
                f"nor a named level; declared: {known}"
            )
        if field.type not in types:
            raise self.wrong(
                f"{path_text(field.path)!r} is declared {field.type.value}, but must be "
                + " or ".join(kind.value for kind in types)
            )
        return field

    def name(self) -> str:
        name = self.take("name", "the name of a field")
        return name[1:-1].replace("``", "`") if name.startswith("`") else name

    def lower(self) -> Item:
        if self.tokens[2][1].lower() == "trim" and self.tokens[3] == ("mark", "("):
            self.at = 4
            field = self.field(Type.STRING)
            self.take("mark", ")")
            return Folded(field.path, trim=True, lower=True)
        return Folded(self.field(Type.STRING).path, trim=False, lower=True)

    def trim(self) -> Item:
        return Folded(self.field(Type.STRING).path, trim=True, lower=False)

    def floor(self) -> Item:
        field = self.field(*_NUMBERS)
        self.take("mark", "/")
        written = self.take("number", "a positive number")
        step = int(written) if written.isdigit() else float(written)
        # A step must be a double too, and a whole one exactly so.
        if not 0 < step <= 2**53:
            raise self.wrong(f"the step {written} must be above 0 and at most 2**53")
        return Floor(field.path, step, exact=field.type is Type.INT and isinstance(step, int))

    def bucket(self) -> Item:
        field = self.field(Type.TIMESTAMP)
        self.take("mark", ",")
        span_us = durations.parse(self.take("string", "a duration in quotes"))
        if span_us == 0:
            raise self.wrong("the span of a bucket must be above 0")
        return Bucket(field.path, span_us)

    def cell(self) -> Item:
        latitude = self.field(*_NUMBERS)
        self.take("mark", ",")
        longitude = self.field(*_NUMBERS)
        self.take("mark", ",")
        written = self.take("string", "the size of a cell in quotes, such as '1km'")
        match = _SIZE.fullmatch(written)
        size_m = float(match[1]) * (1000 if match[2] == "km" else 1) if match else 0.0
        if not CELL_M_MIN <= size_m <= CELL_M_MAX:
            raise self.wrong(f"the size {written!r} of a cell must be from '1m' to '1000km'")
        return Cell(latitude.path, longitude.path, size_m)


_FUNCTIONS: dict[str, Callable[[_Reader], Item]] = {
    "lower": _Reader.lower,
    "trim": _Reader.trim,
    "floor": _Reader.floor,
    "bucket": _Reader.bucket,
    "cell": _Reader.cell,
}
