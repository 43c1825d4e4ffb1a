"""Expressions with wild cards, judged by the cells of a small space that they hold."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.space import expressions, wildcards

DEPTH = 4
CELLS = ["".join(bits) for bits in product("01", repeat=DEPTH)]

some = st.sets(st.text("01*", max_size=DEPTH), max_size=6)


def held(members: Iterable[str]) -> set[str]:
    """By brute force: the cells that begin with a member, a star being either bit."""
    listed = list(members)
    return {cell for cell in CELLS if any(_begins(one, cell) for one in listed)}


def _begins(one: str, cell: str) -> bool:
    return all(symbol in ("*", bit) for symbol, bit in zip(one, cell, strict=False))


@given(some)
def test_the_form_holds_the_same_cells_and_so_does_the_set_without_wild_cards(members: set[str]) -> None:
    assert held(wildcards.form(members)) == held(members)
    assert wildcards.plain(members) == expressions.canonical(held(members))


@given(some, some)
def test_the_form_is_unique(one: set[str], other: set[str]) -> None:
    assert (wildcards.form(one) == wildcards.form(other)) == (held(one) == held(other))


@given(some)
def test_members_of_a_form_are_sorted_have_nothing_in_common_and_do_not_end_with_a_star(
    members: set[str],
) -> None:
    found = wildcards.form(members)
    assert list(found) == sorted(found)
    assert sum(len(held([one])) for one in found) == len(held(found))
    assert not any(one.endswith("*") for one in found)
    assert len(found) <= len(expressions.canonical(held(members)))


@given(some, st.sampled_from(CELLS))
def test_a_cell_is_held_by_the_form_if_it_is_by_the_set(members: set[str], cell: str) -> None:
    found = wildcards.form(members)
    assert wildcards.holds(found, cell) == (cell in held(members))
    assert wildcards.holds(found, cell) == expressions.holds(wildcards.plain(members), cell)


@given(some, some)
def test_sets_cover_and_overlap_as_their_cells_do(one: set[str], other: set[str]) -> None:
    assert wildcards.covers(one, other) == (held(other) <= held(one))
    assert wildcards.overlaps(one, other) == bool(held(one) & held(other))


@given(some)
def test_the_volume_is_the_share_of_cells(members: set[str]) -> None:
    assert wildcards.volume(wildcards.form(members)) == len(held(members)) / len(CELLS)


def stepwise(members: wildcards.Form, most: int) -> wildcards.Form:
    """Coarsening as it is defined: the member whose last bit is dropped adds the least volume."""
    now = members
    while len(now) > most:
        before = len(held(now))
        steps = []
        for one in now:
            if one:
                wider = wildcards.form([*now, one[:-1]])
                steps.append((Fraction(len(held(wider)) - before), one, wider))
        now = min(steps)[2]
    return now


@given(some, st.integers(1, 4))
def test_coarsening_takes_the_cheapest_step_first(members: set[str], most: int) -> None:
    found = wildcards.coarsened(members, most)
    assert len(found) <= most
    assert held(found) >= held(members)
    assert found == stepwise(wildcards.form(members), most)


@given(some, st.integers(1, 4))
def test_many_expressions_are_coarsened_level_by_level(members: set[str], most: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wildcards, "STEPS_MAX", 0)
        found = wildcards.coarsened(members, most)
    assert len(found) <= most
    assert held(found) >= held(members)
    assert found == wildcards.form(found)
    if len(wildcards.form(members)) <= most:
        assert found == wildcards.form(members)


def test_of_holes_of_one_size_the_first_are_filled_until_few_enough_are_left() -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wildcards, "STEPS_MAX", 0)
        assert wildcards.coarsened(["000", "0101", "1001", "111"], 3) == ("0*0", "1001", "111")
        # 0000, then 001 and 010, until 1 is left as it is.
        assert wildcards.coarsened(["0001", "011", "10"], 2) == ("0", "10")


def test_the_example_of_the_paper() -> None:
    # Figure 4: one expression for a quarter of the second attribute, whatever the first is.
    assert wildcards.form(["0000", "0010", "1000", "1010"]) == ("*0*0",)
