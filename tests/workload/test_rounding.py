"""Largest remainders: totals hold to the unit, and every count is its value rounded down or up."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidings.workload.rounding import apportioned, whole


def test_the_largest_remainders_are_rounded_up_and_of_equal_ones_the_first() -> None:
    values = np.array([[0.5, 1.25], [0.5, 2.5], [2.0, 0.25]])
    assert whole(values, np.array([3, 4])).tolist() == [[1, 1], [0, 3], [2, 0]]


def test_values_that_are_whole_stay_as_they_are() -> None:
    values = np.array([[3.0], [0.0], [7.0]])
    assert whole(values, np.array([10])).tolist() == [[3], [0], [7]]


def test_a_value_that_is_whole_but_for_its_last_bit_is_put_right() -> None:
    assert whole(np.array([[np.nextafter(5.0, 0)], [5.0]]), np.array([10])).tolist() == [[5], [5]]
    assert whole(np.array([[0.0], [5.0], [-1e-17]]), np.array([4])).tolist() == [[0], [4], [0]]


@given(st.lists(st.integers(0, 10**6), min_size=1), st.integers(1, 10**6))
def test_counts_sum_to_the_total_and_are_within_one_of_their_values(parts: list[int], whole_: int) -> None:
    total = sum(parts)
    values = np.array([[part * whole_ / max(1, total)] for part in parts])
    wanted = whole_ if total else 0
    counts = whole(values, np.array([wanted]))
    assert counts.sum() == wanted
    assert np.all(np.abs(counts - values) < 1.0)


@given(st.lists(st.integers(0, 10**12), min_size=1).filter(any), st.integers(0, 10**10))
def test_a_number_is_apportioned_exactly(weights: list[int], count: int) -> None:
    found = apportioned(count, weights)
    assert sum(found) == count
    assert all(
        abs(part - Fraction(count * weight, sum(weights))) < 1
        for part, weight in zip(found, weights, strict=True)
    )
