"""The normal form of a filter as it travels between brokers: boxes, and nothing of the text they come from.

A filter is read once, by the broker at which a client asks for it. Others get its boxes (`regions`), in which
what a missing field counts for is decided already. To take them over costs some ten microseconds, where to
read the text costs five hundred. Bytes come from outside: whatever is wrong with them is a FilterError, and
what they can cost is bounded.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from tidings.errors import FilterError
from tidings.language.cuts import EXACT_INT_MAX, Cuts
from tidings.language.fields import TOPIC, find
from tidings.language.filters import Cost, Filter
from tidings.language.like import BadPattern, Like, pieces, searched
from tidings.language.limits import DEFAULT
from tidings.language.regions import KINDS, Box, Kind, Region, Unknown, Values
from tidings.language.timestamps import micros

PARTS_MAX = 256
"""Constraints, bounds, listed values and patterns in one normal form: an index takes up some 1,000 of them in
a millisecond, and a client may ask for a hundred filters at once."""


class _Set(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Values of one kind."""

    kind: int
    inside: bool
    points: tuple[int | float | str, ...]
    """Numbers that need more than 64 bits are whole, and written as digits."""
    likes: tuple[tuple[str, bool], ...] = ()


class _Side(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A field and its region."""

    path: tuple[str, ...]
    null: bool
    other: bool
    sets: tuple[_Set, ...]


Written = tuple[tuple[_Side, ...], ...]
"""Boxes, as they are written."""


def text(boxes: Sequence[Box]) -> str:
    """A normal form for people to read: close to the filter that it comes from, and not always a filter.

    >>> from tidings.language.filters import parse
    >>> read = parse("price > 10 AND road IN ('A1', 'A2') OR closed IS NULL")
    >>> text(read.boxes(Unknown.WAIT))
    "closed IS NULL OR price > 10 AND road IN ('A1', 'A2')"
    """
    return " OR ".join(_box_text(box) for box in boxes) or "FALSE"


def _box_text(box: Box) -> str:
    return " AND ".join(_side_text(".".join(path), region) for path, region in box) or "TRUE"


def _side_text(field: str, region: Region) -> str:
    said = [_values_text(field, kind, values) for kind, values in region.sets]
    if region.null:
        said.append(f"{field} IS NULL")
    if region.other:
        said.append(f"{field} IS OF ANOTHER TYPE" if region.sets else f"{field} IS NOT NULL")
    whole = " OR ".join(one for one in said if one)
    return f"({whole})" if " OR " in whole else whole


def _values_text(field: str, kind: Kind, values: Values) -> str:
    if kind is Kind.BOOL:
        said = [f"{field} = {name}" for value, name in enumerate(("FALSE", "TRUE")) if value in values.cuts]
        return " OR ".join(said)
    points: list[str] = []
    said = []
    for low, high in values.cuts.intervals():
        if low is not None and high is not None and _last_before(kind, high) == low:
            points.append(_literal(kind, low))
            continue
        bounds = []
        if low is not None:
            before = _last_before(kind, low)
            bounds.append(
                f"> {_literal(kind, before)}" if before is not None else f">= {_literal(kind, low)}"
            )
        if high is not None:
            last = _last_before(kind, high)
            bounds.append(f"<= {_literal(kind, last)}" if last is not None else f"< {_literal(kind, high)}")
        said.append(" AND ".join(f"{field} {bound}" for bound in bounds) or f"{field} IS NOT NULL")
    if points:
        said.insert(0, f"{field} = {points[0]}" if len(points) == 1 else f"{field} IN ({', '.join(points)})")
    whole = " OR ".join(said)
    likes = [
        f"{field} {'NOT LIKE' if like.negated else 'LIKE'} {_literal(Kind.STRING, like.pattern)}"
        for like in values.likes
    ]
    return " AND ".join([f"({whole})" if likes and len(said) > 1 else whole, *likes])


def _last_before(kind: Kind, point: Any) -> Any:
    """The value that a point is just behind, if that is how the point came about."""
    if kind is Kind.STRING and point.endswith("\0"):
        return point[:-1]
    if kind is Kind.NUMBER and isinstance(point, float):
        before = math.nextafter(point, -math.inf)
        if len(repr(before)) < len(repr(point)):
            return before
    return None


def _literal(kind: Kind, point: Any) -> str:
    if kind is Kind.STRING:
        quoted = point.replace("'", "''")
        return f"'{quoted}'"
    if kind is Kind.TIMESTAMP:
        return f"'{EPOCH + timedelta(microseconds=point)}'"
    return repr(int(point)) if float(point).is_integer() and abs(point) < EXACT_INT_MAX else repr(point)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parts_of(boxes: Sequence[Box]) -> int:
    """Constraints, bounds, listed values and patterns of some boxes."""
    return sum(
        1 + sum(len(values.cuts.points) + len(values.likes) for _, values in region.sets)
        for box in boxes
        for _, region in box
    )


def written(filter: Filter, unknown: Unknown) -> Written | None:  # noqa: A002
    """The normal form of a filter, to be written; None if it is beyond PARTS_MAX."""
    boxes = filter.boxes(unknown)
    if parts_of(boxes) > PARTS_MAX:
        return None
    return tuple(
        tuple(
            _Side(
                path,
                region.null,
                region.other,
                tuple(
                    _Set(
                        kind.value,
                        values.cuts.inside,
                        tuple([_written_point(point) for point in values.cuts.points]),
                        tuple((like.pattern, like.negated) for like in values.likes),
                    )
                    for kind, values in region.sets
                ),
            )
            for path, region in box
        )
        for box in boxes
    )


def check(boxes: Written) -> Cost:
    """What a normal form costs that was written; raises FilterError if no filter has one like it."""
    held = [side for box in boxes for side in box]
    sets = [some for side in held for some in side.sets]
    points = sum([len(some.points) for some in sets])
    parts = max(len(boxes), len(held) + points + sum([len(some.likes) for some in sets]))
    if parts > PARTS_MAX:
        raise FilterError(f"a normal form of {parts} parts; the limit is {PARTS_MAX}")
    for box in boxes:
        _check_box(box)
    found = 0
    for some in sets:
        _check_points(some)
        if some.likes:
            found += _check_patterns(some)
    if found > DEFAULT.searched:
        raise FilterError(
            f"a normal form whose patterns look for {found} characters; the limit is {DEFAULT.searched}"
        )
    return _cost(len(held), len(boxes), len(held), points, found)


_KINDS = tuple(Kind)
"""By number."""

_cost = lru_cache(maxsize=1024)(Cost)
"""Most filters cost the same as many others."""


def _check_box(box: tuple[_Side, ...]) -> None:
    before: tuple[str, ...] = ()
    for side in box:
        if not 0 < len(side.path) <= DEFAULT.path:
            raise FilterError(f"a field path of {len(side.path)} names")
        if side.path <= before:
            raise FilterError("a normal form that names a field twice, or fields out of order")
        before = side.path
        least = 0
        for some in side.sets:
            if not 0 <= some.kind < len(_KINDS):
                raise FilterError(f"no kind of values is {some.kind}")
            if some.kind < least:
                raise FilterError("a region that names a kind of values twice, or kinds out of order")
            least = some.kind + 1


def _check_points(some: _Set) -> None:
    kind = _KINDS[some.kind]
    sort = _POINTS[kind]
    before: Any = _LEAST[kind]
    for point in some.points:
        at: Any = point
        if kind is Kind.NUMBER and type(point) is str:
            at = _whole(point)
        # Not "at <= before", which is no more true of NaN.
        if type(at) not in sort or not before < at:
            raise FilterError(f"no points of a set of the kind {kind.name.lower()}: {str(some.points)[:80]}")
        before = at
    if kind in _GREATEST and some.points and before > _GREATEST[kind]:
        raise FilterError(f"no points of a set of the kind {kind.name.lower()}: {str(some.points)[:80]}")


def _check_patterns(some: _Set) -> int:
    """How many characters the patterns look for."""
    kind = _KINDS[some.kind]
    if kind is not Kind.STRING:
        raise FilterError(f"patterns for values of the kind {kind.name.lower()}")
    found = 0
    for pattern, _ in some.likes:
        if len(pattern) > DEFAULT.pattern:
            raise FilterError(f"a pattern of {len(pattern)} characters; the limit is {DEFAULT.pattern}")
        try:
            found += searched(pieces(pattern))
        except BadPattern as error:
            raise FilterError(f"a pattern in which {error}") from None
    return found


_POINTS: dict[Kind, tuple[type, ...]] = {
    Kind.BOOL: (int,),
    Kind.NUMBER: (int, float),
    Kind.STRING: (str,),
    Kind.TIMESTAMP: (int,),
}

_LEAST: dict[Kind, float | str] = {
    Kind.BOOL: 0,
    Kind.NUMBER: -math.inf,
    Kind.STRING: "",
    Kind.TIMESTAMP: micros(datetime.min.replace(tzinfo=UTC)),
}
"""Before the first point there are values; an index counts on that. NaN is behind nothing."""

_GREATEST: dict[Kind, int] = {Kind.BOOL: 1, Kind.TIMESTAMP: micros(datetime.max.replace(tzinfo=UTC))}
"""The last point that there can be."""


def _written_point(point: Any) -> int | float | str:
    if type(point) is int and not -(2**63) <= point < 2**63:
        return str(point)
    return int(point) if type(point) is bool else point


DIGITS_MAX = 320
"""Of a bound: the largest float has 309, and a sign."""


def _whole(point: str) -> int:
    """A number that needs more than 64 bits."""
    if len(point) > DIGITS_MAX or not point.removeprefix("-").isdecimal():
        raise FilterError(f"no whole number is {point[:40]!r}")
    if math.isinf(float(point)):
        raise FilterError(f"no event has a number as large as {point[:40]}")
    return int(point)


# Of those that have been checked.


def about_topic(boxes: Written) -> bool:
    """Whether a normal form asks for the topic itself."""
    return any(side.path[0] == TOPIC for box in boxes for side in box)


def made(boxes: Written) -> tuple[Box, ...]:
    """A normal form as it was before it was written."""
    return tuple(
        [
            tuple(
                [
                    (side.path, Region(side.null, side.other, tuple([_values(some) for some in side.sets])))
                    for side in box
                ]
            )
            for box in boxes
        ]
    )


def _values(some: _Set) -> tuple[Kind, Values]:
    likes = tuple([Like(pattern, negated) for pattern, negated in some.likes])
    return _KINDS[some.kind], Values(Cuts(some.inside, _points(some)), likes)


def _points(some: _Set) -> tuple[Any, ...]:
    if some.kind != Kind.NUMBER:
        return some.points
    return tuple([int(point) if type(point) is str else point for point in some.points])


def matches(boxes: Written, event: Mapping[str, object]) -> bool:
    """Whether one of the boxes holds an event.

    The same as of what is `made`, which takes three times as long as this.
    """
    for box in boxes:
        for side in box:
            if not _is_inside(find(event, side.path), side):
                break
        else:
            return True
    return False


def _is_inside(value: object, side: _Side) -> bool:
    if value is None:
        return side.null
    kind = KINDS.get(type(value))
    for some in side.sets:
        if some.kind == kind:
            return _is_among(value, some)
    return side.other


def _is_among(value: Any, some: _Set) -> bool:
    at = micros(value) if isinstance(value, datetime) else value
    try:
        behind = bisect_right(some.points, at)
    except TypeError:  # a number among some that are written as digits
        behind = bisect_right(_points(some), at)
    if some.inside is (behind & 1 == 1):
        return False
    return not some.likes or all(Like(pattern, negated).holds(value) for pattern, negated in some.likes)
