"""Numbers about who is interested in what and where."""

from __future__ import annotations

import numpy as np
import pytest

from tidings.workload import characteristics

COUNTS = np.array([[[8, 0], [1, 1]], [[0, 6], [2, 2]]])
"""Two subjects, two languages, two regions."""


def test_popularity_falls() -> None:
    assert characteristics.popularity(COUNTS).tolist() == [8, 6, 4, 2]


def test_what_regions_have_left_after_a_removal() -> None:
    assert characteristics.left(COUNTS, [0, 1, 3, 9]).tolist() == [[11, 9], [3, 9], [1, 1], [0, 0]]


def test_interests_that_a_region_has_and_how_far_it_keeps_to_the_first() -> None:
    assert characteristics.held(COUNTS).tolist() == [3, 3]
    assert characteristics.concentration(COUNTS, 1).tolist() == [8 / 11, 6 / 9]


def test_a_dimension_is_seen_with_the_others_summed_up() -> None:
    assert characteristics.along(COUNTS, 0).tolist() == [[9, 1], [2, 8]]
    assert characteristics.along(COUNTS, 1).tolist() == [[8, 6], [3, 3]]


@pytest.mark.parametrize(
    ("line", "share"),
    [([[2, 4], [3, 6]], 0.0), ([[5, 0], [0, 5]], 0.5), ([[1, 0], [0, 3]], 0.375), ([[0, 0]], 0.0)],
)
def test_how_regional_a_dimension_is(line: list[list[int]], share: float) -> None:
    assert characteristics.regionality(np.array(line)) == share


def test_how_far_two_rows_agree() -> None:
    assert characteristics.alike(np.array([1, 3]), np.array([2, 6])) == 1.0
    assert characteristics.alike(np.array([1, 0]), np.array([0, 6])) == 0.0
    assert characteristics.alike(np.array([1, 3]), np.array([3, 1])) == 0.5
