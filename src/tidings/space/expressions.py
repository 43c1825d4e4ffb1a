"""dz-expressions as texts of 0 and 1, and sets of them.

An expression covers all that begin with it. A set is *canonical* if no member covers another and no two are
the halves of one expression: then each part of the space has one canonical set, an expression is within the
part iff a member begins it, and sets are compared member by member. Sets are sorted tuples, small and plain,
for use one at a time. What the bits mean, and how many there are, is not known here.

Coarsening adds the cheapest part first. That has a simple shape. What a set leaves out is, in canonical
form, some cells: call them holes. A step that replaces an expression by the one that it is a half of fills
at least one hole, so no step is cheaper than the smallest hole; and the smallest hole can be filled by
itself, since its other half has no smaller ones and is a member. Of holes of one size the one that comes
first in the order of texts has the smallest expression beside it. So to coarsen is to fill holes from the
deepest level up, and those of one level from the first on; and all levels below one are filled by cutting
every expression off at that length.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable

Set = tuple[str, ...]
"""A canonical set, sorted."""

WHOLE: Set = ("",)


def canonical(expressions: Iterable[str]) -> Set:
    """The one canonical set of the same part of the space.

    >>> canonical(["01", "00", "110", "1101"])
    ('0', '110')
    """
    kept: list[str] = []
    for one in sorted(set(expressions)):
        if kept and one.startswith(kept[-1]):
            continue
        kept.append(one)
        while len(kept) > 1 and are_halves(kept[-2], kept[-1]):
            whole = kept.pop()[:-1]
            kept[-1] = whole
    return tuple(kept)


def are_halves(lower: str, upper: str) -> bool:
    """Whether two expressions, in this order, are the halves of one."""
    return len(lower) == len(upper) > 0 and lower[:-1] == upper[:-1] and lower[-1] != upper[-1]


# Questions.


def holds(some: Set, one: str) -> bool:
    """Whether a set covers an expression: for an event's cell, whether it is forwarded.

    >>> holds(("0", "110"), "1101"), holds(("0", "110"), "1")
    (True, False)
    """
    # All texts between an expression and one that begins with it begin with it too; so it is the last before.
    at = bisect_right(some, one)
    return at > 0 and one.startswith(some[at - 1])


def covers(some: Set, others: Iterable[str]) -> bool:
    """Whether a set covers all of some expressions.

    >>> covers(("0", "110"), ["01", "1101"]), covers(("0", "110"), ["1"])
    (True, False)
    """
    return all(holds(some, one) for one in others)


def overlaps(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether two sets have a part of the space in common.

    >>> overlaps(("0",), ("011", "11")), overlaps(("10",), ("0", "11"))
    (True, False)
    """
    these, those = tuple(some), tuple(others)
    return any(one.startswith(those) for one in these) or any(one.startswith(these) for one in those)


def volume(some: Iterable[str]) -> float:
    """The share of the space that a set covers.

    >>> volume(("0", "110"))
    0.625
    """
    lengths = [len(one) for one in some]
    deepest = max(lengths, default=0)
    return sum(1 << (deepest - length) for length in lengths) / (1 << deepest)


# Sets from sets.


def union(some: Set, others: Set) -> Set:
    """What lies in one of two sets.

    >>> union(("00", "1"), ("01",))
    ('',)
    """
    return canonical(some + others)


def intersection(some: Set, others: Set) -> Set:
    """What lies in both of two sets.

    >>> intersection(("0", "110"), ("00", "11"))
    ('00', '110')
    """
    # Two halves that both sets cover are covered as one expression by each; so nothing is left to be joined.
    return tuple(
        sorted({one for one in some if holds(others, one)} | {one for one in others if holds(some, one)})
    )


def difference(some: Set, others: Set) -> Set:
    """What lies in the first of two sets and not in the second.

    >>> difference(("0", "110"), ("001",))
    ('000', '01', '110')
    """
    left: list[str] = []
    for one in some:
        if holds(others, one):
            continue
        inside = others[bisect_left(others, one) : bisect_left(others, one + "2")]
        left += _without(one, inside)
    return tuple(left)


def _without(one: str, inside: Set) -> list[str]:
    """What is left of an expression, in order, once some that begin with it are taken away."""
    if not inside:
        return [one]
    if inside[0] == one:
        return []
    middle = bisect_left(inside, one + "1")
    return _without(one + "0", inside[:middle]) + _without(one + "1", inside[middle:])


def complement(some: Set) -> Set:
    """What lies outside a set.

    >>> complement(("0", "110"))
    ('10', '111')
    """
    return difference(WHOLE, some)


# One step coarser or finer.


def parent(one: str) -> str:
    """An expression one step coarser; the whole space is as coarse as it gets."""
    return one[:-1]


def halves(one: str) -> tuple[str, str]:
    """An expression one step finer: both halves."""
    return one + "0", one + "1"


def coarser(some: Set, one: str) -> Set:
    """A set with one of its members one step coarser.

    >>> coarser(("00", "10"), "00")
    ('0', '10')
    """
    return union(some, (parent(one),))


def finer(some: Set, one: str, wanted: Set) -> Set:
    """A set with one of its members one step finer: the largest parts of it that nobody wants are let go.

    A half is let go if it holds nothing that is wanted. Where both halves hold something, the same is asked
    of their halves, and so on: so that a step changes something unless all of the member is wanted.

    >>> finer(("00", "10"), "00", ("0000", "0010", "1000", "1010"))
    ('0000', '0010', '10')
    """
    if not overlaps((one,), wanted):
        return difference(some, (one,))
    holes = difference((one,), wanted)
    largest = min((len(hole) for hole in holes), default=0)
    return difference(some, tuple(hole for hole in holes if len(hole) == largest))


def truncated(some: Set, depth: int) -> Set:
    """A set without the bits behind a depth: all holes smaller than cells of that depth are filled.

    >>> truncated(("000", "0110", "1"), 2)
    ('',)
    """
    return canonical(one[:depth] for one in some)


def coarsened(some: Set, most: int) -> Set:
    """A canonical set with at most so many members that covers another.

    One step replaces an expression by the one that it is a half of, and all that this covers go with it. The
    step taken is the one that adds the least volume, among equals that of the smallest expression, until
    there are few enough.

    >>> coarsened(("00", "0111", "10"), 2)
    ('0', '10')
    """
    assert most >= 1, f"{most} expressions cover nothing"
    if len(some) <= most:
        return some
    depth = greatest(max(map(len, some)), lambda depth: len(truncated(some, depth)) <= most)
    coarse, fine = truncated(some, depth), truncated(some, depth + 1)
    holes = difference(coarse, fine)
    # To leave holes open from the last one back is to fill them from the first on.
    left = greatest(len(holes), lambda left: len(difference(coarse, holes[len(holes) - left :])) <= most)
    return difference(coarse, holes[len(holes) - left :])


def greatest(end: int, holds: Callable[[int], bool]) -> int:
    """The greatest number below an end for which something holds; it holds for 0, and up to one number."""
    low, high = 0, end
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
