"""Sets of expressions, judged by the cells of a small space that they hold."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tidings.space import expressions

DEPTH = 4
CELLS = ["".join(bits) for bits in product("01", repeat=DEPTH)]

some = st.sets(st.text("01", max_size=DEPTH), max_size=8)


def held(members: object) -> set[str]:
    """By brute force: the cells that begin with a member."""
    assert isinstance(members, (set, tuple))
    return {cell for cell in CELLS if any(cell.startswith(one) for one in members)}


@given(some)
def test_the_canonical_set_holds_the_same_cells(members: set[str]) -> None:
    assert held(expressions.canonical(members)) == held(members)


@given(some)
def test_no_member_of_a_canonical_set_covers_another_and_no_two_are_halves(members: set[str]) -> None:
    found = expressions.canonical(members)
    assert list(found) == sorted(found)
    for one in found:
        for other in found:
            assert one == other or not other.startswith(one)
        assert not one or one[:-1] + "10"[int(one[-1])] not in found


@given(some, some)
def test_the_canonical_form_is_unique(one: set[str], other: set[str]) -> None:
    same = expressions.canonical(one) == expressions.canonical(other)
    assert same == (held(one) == held(other))


@given(some, some)
def test_a_set_covers_another_if_it_holds_its_cells(one: set[str], other: set[str]) -> None:
    assert expressions.covers(expressions.canonical(one), other) == (held(other) <= held(one))


@given(some, some)
def test_sets_overlap_if_they_share_a_cell(one: set[str], other: set[str]) -> None:
    assert expressions.overlaps(one, other) == bool(held(one) & held(other))


@given(some)
def test_the_volume_is_the_share_of_cells(members: set[str]) -> None:
    assert expressions.volume(expressions.canonical(members)) == len(held(members)) / len(CELLS)


def added(one: str, now: list[str]) -> tuple[Fraction, str]:
    """What it adds to make an expression one step coarser, and the expression."""
    inside = sum((Fraction(1, 1 << len(other)) for other in now if other.startswith(one[:-1])), Fraction())
    return Fraction(1, 1 << (len(one) - 1)) - inside, one


def stepwise(members: expressions.Set, most: int) -> expressions.Set:
    """Coarsening as it is defined, every step by looking at all of them."""
    now = list(members)
    while len(now) > most:
        whole = min(added(one, now) for one in now if one)[1][:-1]
        now = [*(other for other in now if not other.startswith(whole)), whole]
    return expressions.canonical(now)


@given(st.sets(st.text("01", max_size=6), min_size=1, max_size=14), st.integers(1, 6))
def test_coarsening_takes_the_cheapest_step_first(members: set[str], most: int) -> None:
    found = expressions.canonical(members)
    coarse = expressions.coarsened(found, most)
    assert coarse == stepwise(found, most)
    assert len(coarse) <= most
    assert expressions.covers(coarse, found)


def test_of_equally_cheap_steps_that_of_the_smallest_expression_is_taken() -> None:
    # Each of the four could be doubled at the same price; the first is, and then again with its neighbour.
    assert expressions.coarsened(("000", "010", "100", "110"), 3) == ("0", "100", "110")
