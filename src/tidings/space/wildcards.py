"""dz-expressions with wild cards: `*` stands for 0 and 1 alike.

They say in one expression what takes many without (§5.2 of the paper): `*0*0` is `0000`, `0010`, `1000` and
`1010`. The paper writes `*` where a box takes the whole of the attribute that is to be halved. Here it is
written wherever both halves hold the same parts; for boxes that is the same, and it gives every part of the
space, whatever it was made from, one form. Members of a form have no part in common and do not end with `*`.

A part of the space is a tree here: all of it, nothing of it, or its two halves. Equal trees are one object,
so that halves are compared at no cost, and a part that repeats itself is kept once.

Coarsening is as without wild cards: the smallest hole first. An expression has the volume of its bits, stars
not counted, so holes are compared by the bits that lead to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial

from tidings.space.expressions import Set, greatest

Form = tuple[str, ...]
"""A set of expressions with wild cards in its one form, sorted."""

STAR = "*"

NO_HOLE = -1 << 30

STEPS_MAX = 1_024
"""Members of a tree up to which it is coarsened one hole at a time, some tenths of a second of work. Of more,
all holes up to a size are filled together. It is not quite the same: a hole may become larger as others are
filled, and would then be left for later."""


class Tree:
    """A part of the space, halved; made by a `Grove` alone."""

    __slots__ = ("hole", "lower", "members", "upper")

    def __init__(self, lower: Tree | None, upper: Tree | None, members: int, hole: int) -> None:
        self.lower = lower
        self.upper = upper
        self.members = members
        """How many expressions say it."""
        self.hole = hole
        """How many bits lead to its smallest hole; NO_HOLE if it has none."""


ALL = Tree(None, None, 1, NO_HOLE)
NOTHING = Tree(None, None, 0, 0)


Truncated = dict[tuple[Tree, int], Tree]
"""What is known of trees whose holes are filled that more than so many bits lead to."""


class Grove:
    """Trees of which equal ones are the same object."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int], Tree] = {}

    def joined(self, lower: Tree, upper: Tree) -> Tree:
        """The tree of two halves."""
        if lower is upper and lower.lower is None:
            return lower
        key = id(lower), id(upper)
        found = self._made.get(key)
        if found is None:
            if lower is upper:
                found = Tree(lower, lower, lower.members, lower.hole)
            else:
                found = Tree(lower, upper, lower.members + upper.members, 1 + max(lower.hole, upper.hole))
            self._made[key] = found
        return found

    def grown(self, expressions: Iterable[str]) -> Tree:
        """The tree of some expressions, with wild cards or without."""
        given = sorted(set(expressions))
        if not given:
            return NOTHING
        if not given[0]:
            return ALL
        lower, upper = ([one[1:] for one in given if one[0] in bit + STAR] for bit in "01")
        below = self.grown(lower)
        return self.joined(below, below if lower == upper else self.grown(upper))

    def filled(self, tree: Tree) -> Tree:
        """A tree with its smallest hole filled, of equals the first."""
        if tree.lower is None or tree.upper is None:
            return ALL
        if tree.lower is tree.upper:
            below = self.filled(tree.lower)
            return self.joined(below, below)
        if tree.lower.hole >= tree.upper.hole:
            return self.joined(self.filled(tree.lower), tree.upper)
        return self.joined(tree.lower, self.filled(tree.upper))

    def coarsened(self, tree: Tree, most: int) -> Tree:
        """A tree that at most so many expressions say, around another."""
        assert most >= 1, f"{most} expressions cover nothing"
        while tree.members > max(most, STEPS_MAX):
            known: Truncated = {}
            few = partial(self._has_few, tree, most, known)
            tree = self._truncated(tree, greatest(tree.hole, few) + 1, known)
            if tree.members > STEPS_MAX:
                tree = self._first_filled(tree, most, known)
        while tree.members > most:
            tree = self.filled(tree)
        return tree

    def _has_few(self, tree: Tree, most: int, known: Truncated, bits: int) -> bool:
        return self._truncated(tree, bits, known).members <= most

    def _truncated(self, tree: Tree, bits: int, known: Truncated) -> Tree:
        """A tree with all holes filled, at once, that more than so many bits lead to."""
        if tree.hole <= bits:
            return tree
        if tree.lower is None or tree.upper is None:
            return ALL
        found = known.get((tree, bits))
        if found is None:
            if tree.lower is tree.upper:
                lower = upper = self._truncated(tree.lower, bits, known)
            else:
                lower = self._truncated(tree.lower, bits - 1, known)
                upper = self._truncated(tree.upper, bits - 1, known)
            found = known[tree, bits] = self.joined(lower, upper)
        return found

    def _first_filled(self, tree: Tree, most: int, known: Truncated) -> Tree:
        """A tree with so many of its smallest holes filled, from the first on, as leave so many members."""
        lower, upper = tree.lower, tree.upper
        if lower is None or upper is None:
            return ALL
        if lower is upper:
            below = self._first_filled(lower, most, known)
            return self.joined(below, below)
        if lower.hole == tree.hole - 1:
            level = self._truncated(lower, lower.hole - 1, known)
            if upper.hole < lower.hole or level.members + upper.members <= most:
                return self.joined(self._first_filled(lower, most - upper.members, known), upper)
            lower = level
        return self.joined(lower, self._first_filled(upper, most - lower.members, known))


def written(tree: Tree) -> Form:
    """The expressions of a tree."""
    found: list[str] = []
    left = [("", tree)]
    while left:
        expression, now = left.pop()
        if now.lower is None or now.upper is None:
            if now is ALL:
                found.append(expression)
        elif now.lower is now.upper:
            left.append((expression + STAR, now.lower))
        else:
            left += ((expression + "1", now.upper), (expression + "0", now.lower))
    return tuple(found)


def form(expressions: Iterable[str]) -> Form:
    """The one form with wild cards of what some expressions cover, with wild cards or without.

    >>> form(["0000", "0010", "1000", "1010"])
    ('*0*0',)
    """
    return written(Grove().grown(expressions))


def plain(expressions: Iterable[str]) -> Set:
    """The canonical set, without wild cards, of the same part of the space.

    >>> plain(["*0*0", "01"])
    ('0000', '0010', '01', '1000', '1010')
    """
    found: list[str] = []
    left = [("", Grove().grown(expressions))]
    while left:
        expression, now = left.pop()
        if now.lower is None or now.upper is None:
            if now is ALL:
                found.append(expression)
        else:
            left += ((expression + "1", now.upper), (expression + "0", now.lower))
    return tuple(found)


# Questions.


def matches(one: str, cell: str) -> bool:
    """Whether an expression covers another, without wild cards.

    >>> matches("*0*0", "10101"), matches("*0*0", "101")
    (True, False)
    """
    return len(cell) >= len(one) and all(a in (STAR, b) for a, b in zip(one, cell, strict=False))


def holds(some: Iterable[str], cell: str) -> bool:
    """Whether one of some expressions covers another, without wild cards; for a cell, all that it has."""
    return any(matches(one, cell) for one in some)


def shares(some: Iterable[str], cells: Iterable[str]) -> Iterator[bool | None]:
    """Of each cell whether some expressions together cover it: yes, no, or (None) only a part of it.

    >>> list(shares(["*0", "11"], ["00", "01", "0", "1"]))
    [True, False, None, True]
    """
    tree = Grove().grown(some)
    for cell in cells:
        now = tree
        for bit in cell:
            now = _halves(now)[int(bit)]
        yield True if now is ALL else False if now is NOTHING else None


def covers(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether some expressions together cover all of others.

    >>> covers(["*0", "01"], ["0"]), covers(["*0"], ["0"])
    (True, False)
    """
    return _compared(some, others, lambda here, there: here is ALL or there is NOTHING)


def overlaps(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether expressions have a part of the space in common with others.

    >>> overlaps(["*0"], ["1"]), overlaps(["*0"], ["01", "111"])
    (True, False)
    """
    return not _compared(some, others, lambda here, there: here is NOTHING or there is NOTHING)


def _compared(some: Iterable[str], others: Iterable[str], fits: Callable[[Tree, Tree], bool]) -> bool:
    """Whether something holds of two trees wherever one of them is not divided."""
    grove = Grove()

    @cache
    def compared(here: Tree, there: Tree) -> bool:
        if fits(here, there):
            return True
        if here.lower is None and there.lower is None:
            return False
        (a, b), (c, d) = _halves(here), _halves(there)
        return compared(a, c) and compared(b, d)

    return compared(grove.grown(some), grove.grown(others))


def _halves(tree: Tree) -> tuple[Tree, Tree]:
    return (tree, tree) if tree.lower is None or tree.upper is None else (tree.lower, tree.upper)


def volume(some: Iterable[str]) -> float:
    """The share of the space that expressions cover that have no part in common.

    >>> volume(["*0*0", "01"])
    0.5
    """
    bits = [len(one) - one.count(STAR) for one in some]
    deepest = max(bits, default=0)
    return sum(1 << (deepest - count) for count in bits) / (1 << deepest)


def coarsened(some: Iterable[str], most: int) -> Form:
    """A form with at most so many members that covers some expressions: the least volume is added first.

    >>> coarsened(["*0*0", "01"], 1)
    ('',)
    """
    grove = Grove()
    return written(grove.coarsened(grove.grown(some), most))
