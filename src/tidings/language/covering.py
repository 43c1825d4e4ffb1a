"""Comparing filters: does one take all that another takes, do they share events, what takes either's.

Each question is about every event, partial ones included, and each filter comes with what its subscriber
takes for UNKNOWN. At that threshold a filter is a union of boxes (`regions`), so the answers are geometry.
One box within another is decided field by field; a box within a union is looked for in one box at a time, so
`covers` can say no where only several boxes together would do, or where only LIKE patterns with an inner `%`
or `_` would tell. It never says yes wrongly, and for conjunctions of comparisons, BETWEEN, IN, bools, IS
[NOT] NULL and prefix patterns it is complete. `overlaps` errs to the other side: it may say yes of patterns
that share no string, never no wrongly.
"""

from __future__ import annotations

from tidings.errors import FilterTooCostly
from tidings.language.filters import Filter, joined
from tidings.language.regions import Box, Unknown
from tidings.language.tree import Or

Asked = tuple[Filter, Unknown]
"""A filter and what its subscriber takes for UNKNOWN."""


def covers(a: Asked, b: Asked) -> bool:
    """Whether a gets every event that b gets.

    >>> from tidings.language.filters import parse
    >>> wait = Unknown.WAIT
    >>> covers((parse("severity >= 3"), wait), (parse("severity = 4 AND fire"), wait))
    True
    """
    narrow = b[0].boxes(b[1])
    if narrow and not _comparable(a[0], b[0]):
        return False
    wide = a[0].boxes(a[1])
    return all(any(_inside(box, cover) for cover in wide) for box in narrow)


def overlaps(a: Asked, b: Asked) -> bool:
    """Whether some event may be for both."""
    return any(_meet(one, other) for one in a[0].boxes(a[1]) for other in b[0].boxes(b[1]))


def merge(a: Filter, b: Filter) -> Filter | None:
    """The filter that takes what a or b takes and nothing else.

    None where it would be beyond the limits, or where the two take a field for different types.
    """
    if not _comparable(a, b) or not _comparable(b, a):
        return None
    try:
        return joined(Or, (a, b))
    except FilterTooCostly:
        return None


def _comparable(a: Filter, b: Filter) -> bool:
    """Whether a knows all values that a field has in b: those of its own type only, where it declares one."""
    return all(type_ is None or b.types.get(path, type_) is type_ for path, type_ in a.types.items())


def _inside(box: Box, cover: Box) -> bool:
    here = dict(box)
    return all(path in here and here[path] <= region for path, region in cover)


def _meet(one: Box, other: Box) -> bool:
    there = dict(other)
    return all(path not in there or not (region & there[path]).empty for path, region in one)
