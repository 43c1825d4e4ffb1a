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


@given(some, st.sampled_from(CELLS))
def test_a_set_holds_the_cells_that_begin_with_a_member(members: set[str], cell: str) -> None:
    assert expressions.holds(expressions.canonical(members), cell) == (cell in held(members))


@given(some, some)
def test_union_intersection_and_difference_are_those_of_cells_in_canonical_form(
    one: set[str], other: set[str]
) -> None:
    a, b = expressions.canonical(one), expressions.canonical(other)
    assert expressions.union(a, b) == expressions.canonical(held(one) | held(other))
    assert expressions.intersection(a, b) == expressions.canonical(held(one) & held(other))
    assert expressions.difference(a, b) == expressions.canonical(held(one) - held(other))
    assert expressions.complement(a) == expressions.canonical(set(CELLS) - held(one))


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


def test_no_more_is_coarsened_than_must_be() -> None:
    assert expressions.coarsened(("00", "10"), 2) == ("00", "10")
    assert expressions.coarsened((), 1) == ()


@given(some, st.data())
def test_one_step_coarser_is_the_member_doubled(members: set[str], data: st.DataObject) -> None:
    found = expressions.canonical(members)
    if not found:
        return
    one = data.draw(st.sampled_from(found))
    coarse = expressions.coarser(found, one)
    assert held(coarse) == held(found) | held((expressions.parent(one),))
    assert coarse == expressions.canonical(coarse)


@given(some, some, st.data())
def test_one_step_finer_lets_go_the_largest_parts_that_are_not_wanted(
    members: set[str], wishes: set[str], data: st.DataObject
) -> None:
    found, wanted = expressions.canonical(members), expressions.canonical(wishes)
    if not found:
        return
    one = data.draw(st.sampled_from(found))
    fine = expressions.finer(found, one, wanted)
    gone = held(found) - held(fine)
    unwanted = held((one,)) - held(wanted)
    assert gone <= unwanted
    assert bool(gone) == bool(unwanted)
    # By definition: the cells of the first depth at which some within the member hold nothing that is wanted.
    for depth in range(len(one), DEPTH + 1):
        cells = {cell[:depth] for cell in held((one,))}
        empty = {cell for cell in cells if not held((cell,)) & held(wanted)}
        if empty:
            assert gone == held(empty)
            return
    assert not gone


def test_a_step_finer_passes_the_attributes_that_the_subscription_does_not_limit() -> None:
    # Figure 4 of the paper: DZ+1 of {00, 10} is {0000, 0010, 1000, 1010}, and DZ-1 is the whole space.
    wanted = ("0000", "0010", "1000", "1010")
    now: expressions.Set = ("00", "10")
    for one in now:
        now = expressions.finer(now, one, wanted)
    assert now == wanted
    assert expressions.coarser(expressions.coarser(("00", "10"), "00"), "10") == ("",)


@given(some, st.integers(0, DEPTH))
def test_cutting_off_fills_all_smaller_holes(members: set[str], depth: int) -> None:
    found = expressions.truncated(expressions.canonical(members), depth)
    assert held(found) == {
        cell for cell in CELLS if any(cell[:depth] == one[:depth] for one in held(members))
    }
