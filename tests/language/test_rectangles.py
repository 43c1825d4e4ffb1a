"""Rectangles made of numbers: the same filters as their texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import FilterError
from tidings.language.filters import Unknown, parse
from tidings.language.rectangles import rectangle

FAR = 2**53
WHOLE = st.one_of(st.integers(-9, 9), st.integers(-(10**9), 10**9), st.integers(-FAR, FAR))
SIDE = st.tuples(WHOLE, WHOLE)


@given(st.dictionaries(st.sampled_from(["x", "subject", "order", "wind speed"]), SIDE, min_size=1))
def test_a_rectangle_equals_what_its_text_says(sides: dict[str, tuple[int, int]]) -> None:
    made = rectangle([((name,), min(ends), max(ends)) for name, ends in sides.items()])
    read = parse(made.source)
    assert made == read
    assert made.tree == read.tree
    assert made.text == read.text
    assert made.boxes(Unknown.ASSUME) == read.boxes(Unknown.ASSUME)


def test_its_text_is_the_canonical_one() -> None:
    made = rectangle([(("subject",), 5, 9), (("language",), 3, 7)])
    assert made.source == made.text == "language BETWEEN 3 AND 7 AND subject BETWEEN 5 AND 9"


def test_both_ends_belong_to_it() -> None:
    made = rectangle([(("x",), 5, 9)])
    assert [made.matches({"x": x}) for x in (4, 5, 9, 10)] == [False, True, True, False]


def test_an_interval_the_wrong_way_round_holds_nothing() -> None:
    made = rectangle([(("x",), 9, 5)])
    assert made.boxes(Unknown.WAIT) == ()
    assert not any(made.matches({"x": x}) for x in range(12))


@pytest.mark.parametrize("far", [FAR - 1, FAR])
def test_the_largest_numbers_that_floats_tell_apart_are(far: int) -> None:
    made = rectangle([(("x",), far, far)])
    assert [made.matches({"x": x}) for x in (far - 1, far, far + 1)] == [False, True, False]


def test_larger_ones_are_refused_as_in_a_text() -> None:
    with pytest.raises(FilterError, match="cannot be told apart"):
        rectangle([(("x",), 0, FAR + 1)])
