"""Interest generalisation: what each option conserves, in exact arithmetic, and that nothing is negative."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workload.trees import base_arrays, exact, hierarchies
from tidings.workload.generalisation import generalise, generalised, spread
from tidings.workload.hierarchies import Hierarchy, from_nested
from tidings.workload.spec import Generalisation

OPTIONS = ("none", "parents", "children", "children-as-printed")

FRACTIONS = st.sampled_from([Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(1)])

TOPICS = from_nested("subject", "sports", ["soccer", "tennis"])
LANGUAGES = from_nested("language", "any", ["a", "b"])
PLACES = from_nested("place", "world", ["here", "there"])


@st.composite
def cases(draw: st.DrawFn, least: int = 1, most: int = 3, regions: int = 1) -> tuple[list[Hierarchy], Any]:
    count = draw(st.integers(least, most))
    dimensions = [draw(hierarchies(4 if count > 2 else 7)) for _ in range(count)]
    return dimensions, draw(base_arrays(dimensions, regions))


def lineage(dimension: Hierarchy, node: int) -> list[int]:
    """A node and all above it."""
    found = [node]
    while dimension.parents[found[-1]] >= 0:
        found.append(dimension.parents[found[-1]])
    return found


def cover(full: Any, dimensions: Sequence[Hierarchy]) -> Any:
    """For each base interest the sum of the counts of all interests that are it or above it."""
    found = np.full((*(len(one.leaves) for one in dimensions), full.shape[-1]), Fraction(0), object)
    for place in np.ndindex(found.shape[:-1]):
        nodes = [one.leaves[at] for one, at in zip(dimensions, place, strict=True)]
        for above in product(*(lineage(one, node) for one, node in zip(dimensions, nodes, strict=True))):
            found[place] = found[place] + full[above]
    return found


def parents(dimensions: Sequence[Hierarchy], nodes: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [
        (*nodes[:at], one.parents[nodes[at]], *nodes[at + 1 :])
        for at, one in enumerate(dimensions)
        if one.parents[nodes[at]] >= 0
    ]


def by_hand(members: Any, dimensions: Sequence[Hierarchy], option: str, fraction: Fraction) -> Any:
    """One interest after the other, in topological order, as the paper says it; two dimensions at most."""
    full = spread(members, dimensions)
    interests = list(product(*(range(len(one.nodes)) for one in dimensions)))
    interests.sort(key=lambda nodes: -sum(one.depths[n] for one, n in zip(dimensions, nodes, strict=True)))
    if option == "parents":
        for nodes in interests:
            for above in parents(dimensions, nodes):
                full[above] = full[above] + full[nodes] * fraction / len(parents(dimensions, nodes))
            if parents(dimensions, nodes):
                full[nodes] = full[nodes] * (1 - fraction)
        return full
    assigned = full.copy()
    for nodes in interests:
        children = [one for one in interests if nodes in parents(dimensions, one)]
        if children:
            quotients = np.array([assigned[one] / len(parents(dimensions, one)) for one in children])
            gained = quotients.min(axis=0) * fraction
            assigned[nodes] = gained
            full[nodes] = gained
            for one in children:
                full[one] = full[one] - gained
            if option == "children":
                for one in product(*(d.children[n] for d, n in zip(dimensions, nodes, strict=True))):
                    if len(dimensions) == 2:
                        full[one] = full[one] + gained
    return full


@given(cases(), FRACTIONS, st.sampled_from(OPTIONS))
def test_no_count_is_negative(case: Any, fraction: Fraction, option: str) -> None:
    dimensions, members = case
    full = generalise(exact(members), dimensions, option, fraction)
    assert np.all(full >= 0)


@given(cases(), FRACTIONS)
def test_option_1_conserves_the_total(case: Any, fraction: Fraction) -> None:
    dimensions, members = case
    assert generalise(exact(members), dimensions, "parents", fraction).sum() == members.sum()


@given(cases(), FRACTIONS)
def test_option_2_conserves_the_cover_of_every_base_interest(case: Any, fraction: Fraction) -> None:
    dimensions, members = case
    full = generalise(exact(members), dimensions, "children", fraction)
    assert np.array_equal(cover(full, dimensions), exact(members))


@given(cases(most=1), FRACTIONS)
def test_option_2_as_printed_does_so_in_one_dimension(case: Any, fraction: Fraction) -> None:
    dimensions, members = case
    full = generalise(exact(members), dimensions, "children-as-printed", fraction)
    assert np.array_equal(cover(full, dimensions), exact(members))


@given(cases(), FRACTIONS)
def test_option_2_as_printed_charges_once_for_every_dimension_with_children(
    case: Any, fraction: Fraction
) -> None:
    dimensions, members = case
    full = generalise(exact(members), dimensions, "children-as-printed", fraction)
    # What each interest was assigned: what is left of it, and what its parents took.
    assigned = full.copy()
    for nodes in product(*(range(len(one.nodes)) for one in dimensions)):
        for above in parents(dimensions, nodes):
            assigned[nodes] = assigned[nodes] + assigned[above]
    lost = np.full(full.shape, Fraction(0), object)
    for nodes in product(*(range(len(one.nodes)) for one in dimensions)):
        inner = sum(bool(one.children[node]) for one, node in zip(dimensions, nodes, strict=True))
        lost[nodes] = assigned[nodes] * max(0, inner - 1)
    assert np.array_equal(cover(full, dimensions) + cover(lost, dimensions), exact(members))


@given(cases(most=2, regions=2), FRACTIONS, st.sampled_from(OPTIONS[1:]))
def test_levels_at_once_give_what_one_interest_after_the_other_gives(
    case: Any, fraction: Fraction, option: str
) -> None:
    dimensions, members = case
    full = generalise(exact(members), dimensions, option, fraction)
    assert np.array_equal(full, by_hand(exact(members), dimensions, option, fraction))


@given(cases(regions=2), st.floats(0.0, 1.0), st.sampled_from(OPTIONS))
def test_whole_numbers_are_within_one_and_their_total_within_a_half(
    case: Any, fraction: float, option: str
) -> None:
    dimensions, members = case
    full = generalise(members.astype(float), dimensions, option, fraction)
    counts = generalised(members, dimensions, Generalisation(option=option, fraction=fraction))
    axes = tuple(range(len(dimensions)))
    assert np.all(counts >= 0)
    assert np.all(np.abs(counts - full) <= 1.0)
    assert np.all(np.abs(counts.sum(axis=axes) - full.sum(axis=axes)) <= 0.5 + 1e-9)
    if option in ("none", "parents"):
        assert np.array_equal(counts.sum(axis=axes), members.sum(axis=axes))


def test_option_1_by_hand() -> None:
    members = np.array([[8, 0], [0, 0]])[..., None]
    full = generalise(exact(members), [TOPICS, LANGUAGES], "parents", Fraction(1, 2))[..., 0]
    # Half of 8 goes up, 2 each to (sports, a) and (soccer, any); half of those to the root.
    assert full.tolist() == [[2, 1, 0], [1, 4, 0], [0, 0, 0]]


def test_option_2_by_hand_as_printed_and_repaired() -> None:
    members = np.full((2, 2, 1), 8)
    # Each base interest has two parents: 8 / 2 for each of four, of which a half. Then 2 / 1 of four, a half.
    printed = generalise(exact(members), [TOPICS, LANGUAGES], "children-as-printed", Fraction(1, 2))[..., 0]
    assert printed.tolist() == [[1, 1, 1], [1, 4, 4], [1, 4, 4]]
    assert cover(printed[..., None], [TOPICS, LANGUAGES])[..., 0].tolist() == [[7, 7], [7, 7]]
    repaired = generalise(exact(members), [TOPICS, LANGUAGES], "children", Fraction(1, 2))[..., 0]
    assert repaired.tolist() == [[1, 1, 1], [1, 5, 5], [1, 5, 5]]
    assert cover(repaired[..., None], [TOPICS, LANGUAGES])[..., 0].tolist() == [[8, 8], [8, 8]]


def test_in_three_dimensions_as_printed_charges_three_times() -> None:
    members = np.full((2, 2, 2, 1), 6)
    dimensions = [TOPICS, LANGUAGES, PLACES]
    printed = generalise(exact(members), dimensions, "children-as-printed", Fraction(1))
    repaired = generalise(exact(members), dimensions, "children", Fraction(1))
    # x is 2 on lines, 1 on planes and 1 for the whole: three planes lose 1 each, the whole 2.
    assert set(cover(printed, dimensions).flat) == {Fraction(1)}
    assert set(cover(repaired, dimensions).flat) == {Fraction(6)}


def test_a_child_that_nobody_wants_keeps_its_parents_empty() -> None:
    members = np.array([[8, 8], [8, 0]])[..., None]
    full = generalise(exact(members), [TOPICS, LANGUAGES], "children", Fraction(1))[..., 0]
    assert full.tolist() == [[0, 4, 0], [4, 0, 4], [0, 4, 0]]


@pytest.mark.parametrize("option", OPTIONS[1:])
def test_nothing_moves_with_a_fraction_of_zero(option: str) -> None:
    members = np.arange(8).reshape(2, 2, 2)
    assert np.array_equal(
        generalised(members, [TOPICS, LANGUAGES], Generalisation(option=option, fraction=0.0)),
        spread(members, [TOPICS, LANGUAGES]),
    )
