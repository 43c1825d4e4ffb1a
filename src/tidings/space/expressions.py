"""dz-expressions as texts of 0 and 1, and sets of them.

An expression covers all that begin with it. A set is *canonical* if no member covers another and no two are
the halves of one expression: then each part of the space has one canonical set, an expression is within the
part iff a member begins it, and sets are compared member by member. What the bits mean is not known here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from fractions import Fraction

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


def covers(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether a canonical set covers all of some expressions.

    >>> covers(("0", "110"), ["01", "1101"]), covers(("0", "110"), ["1"])
    (True, False)
    """
    held = frozenset(some)
    return all(any(one[:length] in held for length in range(len(one) + 1)) for one in others)


def overlaps(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether two sets have a part of the space in common.

    >>> overlaps(("0",), ("011", "11")), overlaps(("10",), ("0", "11"))
    (True, False)
    """
    given = tuple(others)
    return any(one.startswith(other) or other.startswith(one) for one in some for other in given)


def volume(some: Iterable[str]) -> float:
    """The share of the space that a canonical set covers.

    >>> volume(("0", "110"))
    0.625
    """
    return float(sum((Fraction(1, 1 << len(one)) for one in some), Fraction()))


def coarsened(some: Set, most: int) -> Set:
    """A canonical set with at most so many members that covers another.

    One step replaces an expression by the one that it is a half of, and all that this covers go with it. The
    step taken is the one that adds the least volume, among equals that of the smallest expression, until
    there are few enough.

    >>> coarsened(("00", "0111", "10"), 2)
    ('0', '10')
    """
    assert most >= 1, f"{most} expressions cover nothing"
    members = set(some)
    # How much of each expression that covers a member is covered; as long as the set changes, it only grows.
    covered: dict[str, Fraction] = {}
    for one in members:
        for length in range(len(one) + 1):
            covered[one[:length]] = covered.get(one[:length], Fraction()) + Fraction(1, 1 << len(one))

    def added(one: str) -> Fraction:
        return Fraction(1, 1 << (len(one) - 1)) - covered[one[:-1]]

    steps = [(added(one), one) for one in members if one]
    heapq.heapify(steps)
    while len(members) > most:
        volume_added, one = heapq.heappop(steps)
        if one not in members or volume_added != added(one):
            # It was covered by another step, or a later entry says what it adds now.
            continue
        whole = one[:-1]
        grown = Fraction(1, 1 << len(whole)) - covered[whole]
        members -= {other for other in members if other.startswith(whole)}
        members.add(whole)
        for length in range(len(whole) + 1):
            covered[whole[:length]] += grown
        for other in members:
            if other and whole.startswith(other[:-1]):
                heapq.heappush(steps, (added(other), other))
    return canonical(members)
