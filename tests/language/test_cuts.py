"""Sets on an axis: what they hold, and that the algebra of cuts is the algebra of sets."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.language import cuts
from tidings.language.cuts import BOOLS, DOUBLES, EVERYTHING, INTS, NOTHING, NUMBERS, STRINGS, Cuts

small = st.builds(
    lambda inside, points: Cuts(inside, tuple(sorted(points))), st.booleans(), st.sets(st.integers(0, 9))
)


@given(small, small)
def test_the_algebra_is_that_of_sets(a: Cuts, b: Cuts) -> None:
    for value in range(-1, 11):
        assert (value in a & b) == (value in a and value in b)
        assert (value in a | b) == (value in a or value in b)
        assert (value in ~a) == (value not in a)
    assert (a <= b) == all(value in b for value in range(-1, 11) if value in a)


@given(small)
def test_the_intervals_are_the_set(a: Cuts) -> None:
    for value in range(-1, 11):
        inside = any(
            (low is None or value >= low) and (high is None or value < high) for low, high in a.intervals()
        )
        assert inside == (value in a)


@given(st.lists(st.integers(-5, 5)))
def test_a_list_of_values_holds_just_these(values: list[int]) -> None:
    listed = INTS.some(values)
    assert [value for value in range(-7, 8) if value in listed] == sorted(set(values))


def test_the_ends_of_an_axis_are_no_cuts() -> None:
    assert ~INTS.below(-(2**63)) == EVERYTHING
    assert INTS.upto(2**63 - 1) == EVERYTHING
    assert INTS.below(-(2**63)) == NOTHING
    assert BOOLS.upto(True) == EVERYTHING
    assert BOOLS.one(False) | BOOLS.one(True) == EVERYTHING
    assert STRINGS.below("") == NOTHING
    assert ~DOUBLES.below(-math.inf) == EVERYTHING


def test_neighbours_leave_nothing_between() -> None:
    assert INTS.upto(3) == INTS.below(4)
    assert DOUBLES.upto(1.0) == DOUBLES.below(math.nextafter(1.0, 2.0))
    assert (DOUBLES.below(math.nextafter(1.0, 2.0)) & ~DOUBLES.upto(1.0)) == NOTHING
    assert STRINGS.upto("a") == STRINGS.below("a\0")


def test_whole_numbers_lie_between_large_floats() -> None:
    large = 2.0**53
    above = ~NUMBERS.upto(large)
    assert 2**53 + 1 in above
    assert 2**53 not in above
    assert large not in above
    assert math.nextafter(large, math.inf) in above


@pytest.mark.parametrize(
    ("prefix", "past"),
    [
        ("fire", "firf"),
        ("\ud7ff", "\ue000"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("", None),
        ("z\ue000", "z\ue001"),
    ],
)
def test_past_prefix(prefix: str, past: str | None) -> None:
    assert cuts.past_prefix(prefix) == past


@given(st.text(max_size=3), st.text(max_size=5))
def test_prefixed_is_startswith(prefix: str, text: str) -> None:
    assert (text in cuts.prefixed(prefix)) == text.startswith(prefix)
    assert prefix + text in cuts.prefixed(prefix)
