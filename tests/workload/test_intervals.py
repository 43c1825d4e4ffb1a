"""Hierarchies as intervals: nested, of equal length, apart by their length, nearer if closer relatives."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workload.trees import hierarchies
from tidings.errors import InputError
from tidings.workload.hierarchies import Hierarchy, from_nested
from tidings.workload.intervals import intervals, resolution_least

SUBJECTS = from_nested("subject", "all", {"sports": ["soccer", "tennis"], "arts": ["film"], "news": {}})

RESOLUTIONS = st.sampled_from([0, 1, 7, 10**9])
"""Beyond what is needed."""


def lineage(hierarchy: Hierarchy, node: int) -> list[int]:
    found = [node]
    while hierarchy.parents[found[-1]] >= 0:
        found.append(hierarchy.parents[found[-1]])
    return found


def common(hierarchy: Hierarchy, a: int, b: int) -> int:
    """The lowest common ancestor."""
    above = set(lineage(hierarchy, b))
    return next(node for node in lineage(hierarchy, a) if node in above)


def test_intervals_by_hand() -> None:
    low, high = intervals(SUBJECTS, 100)
    assert SUBJECTS.nodes == ("all", "sports", "soccer", "tennis", "arts", "film", "news")
    # Three children of 100 // 5 each; sports has two of 20 // 3 each; film is all of arts.
    assert low.tolist() == [0, 0, 0, 12, 40, 40, 80]
    assert high.tolist() == [99, 19, 5, 17, 59, 59, 99]


@given(hierarchies(), RESOLUTIONS)
def test_children_are_within_their_parent_of_equal_length_and_that_far_apart(
    hierarchy: Hierarchy, more: int
) -> None:
    resolution = resolution_least(hierarchy) + more
    low, high = intervals(hierarchy, resolution)
    assert (low[0], high[0]) == (0, resolution - 1)
    for node, below in enumerate(hierarchy.children):
        lengths = {int(high[child] - low[child] + 1) for child in below}
        assert len(lengths) <= 1
        assert all(length >= 1 for length in lengths)
        assert all(low[node] <= low[child] <= high[child] <= high[node] for child in below)
        for left, right in pairwise(below):
            assert {int(low[right] - high[left] - 1)} == lengths


@given(hierarchies(9), RESOLUTIONS)
def test_the_gap_to_a_closer_relative_is_smaller_for_all_triples(hierarchy: Hierarchy, more: int) -> None:
    low, high = (ends.tolist() for ends in intervals(hierarchy, resolution_least(hierarchy) + more))
    above = [lineage(hierarchy, node) for node in range(len(hierarchy.nodes))]

    def gap(a: int, b: int) -> int:
        return int(max(low[a], low[b]) - min(high[a], high[b]) - 1)

    for x, y, z in permutations(range(len(hierarchy.nodes)), 3):
        if any(a in above[b] for a, b in permutations((x, y, z), 2)):
            continue
        near, far = common(hierarchy, x, y), common(hierarchy, x, z)
        if near != far and far in above[near]:
            assert gap(x, y) < gap(x, z)


@given(hierarchies())
def test_the_least_resolution_is_enough_and_one_less_is_not(hierarchy: Hierarchy) -> None:
    enough = resolution_least(hierarchy)
    intervals(hierarchy, enough)
    with pytest.raises(InputError, match=f"space.resolution = {enough} is enough"):
        intervals(hierarchy, enough - 1)
