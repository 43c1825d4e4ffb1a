"""Questions about dz-expressions that are asked for every message.

`str.startswith` takes a tuple: whether a canonical set covers an expression is one call. What sets of
expressions are, and how they are put into canonical form, is the business of `space.expressions`.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidings.space.expressions import Set, canonical


def covers(some: Set, others: Iterable[str]) -> bool:
    """Whether a canonical set covers every one of some expressions.

    >>> covers(("0", "110"), ("01", "1101")), covers(("0", "110"), ("1",))
    (True, False)
    """
    return all(other.startswith(some) for other in others)


def meets(some: Set, other: str) -> bool:
    """Whether a set and an expression have a part of the space in common.

    >>> meets(("011", "11"), "0"), meets(("10",), "0")
    (True, False)
    """
    return other.startswith(some) or any(one.startswith(other) for one in some)


def within(some: Set, other: str) -> list[str]:
    """The part of an expression that a canonical set covers.

    >>> within(("00", "11"), "0"), within(("0",), "011"), within(("0",), "1")
    (['00'], ['011'], [])
    """
    if other.startswith(some):
        return [other]
    return [one for one in some if one.startswith(other)]


def volume(some: Iterable[str]) -> float:
    """The share of the space that disjoint expressions cover.

    >>> volume(("0", "110"))
    0.625
    """
    return sum(0.5 ** len(one) for one in some)


def halves(some: Set, one: str) -> list[str]:
    """The halves of an expression that have something in common with a set.

    >>> halves(("000", "011"), "0"), halves(("011",), "0")
    (['00', '01'], ['01'])
    """
    return [half for half in (one + "0", one + "1") if meets(some, half)]


def is_set(some: object, most: int, depth: int) -> bool:
    """Whether something that came from outside is a canonical set of at most so many expressions.

    >>> is_set(("0", "110"), 8, 8), is_set(("0", "01"), 8, 8), is_set(("0x",), 8, 8)
    (True, False, False)
    """
    if type(some) is not tuple or len(some) > most:
        return False
    for one in some:
        if type(one) is not str or len(one) > depth or one.strip("01"):
            return False
    return len(some) < 2 or canonical(some) == some
