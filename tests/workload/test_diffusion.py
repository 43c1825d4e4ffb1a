"""Interest diffusion: variances fall to p times what they were, exactly; totals stay; nothing is negative."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.workload.trees import base_arrays, below, exact, hierarchies, sub_tuples
from tidings.workload.diffusion import diffuse, diffused, shares
from tidings.workload.hierarchies import Hierarchy, from_nested

ROOTS = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(3, 4), Fraction(1)])
"""Of p, so that everything is rational."""

TOPICS = from_nested("subject", "all", {"sports": ["soccer", "tennis"], "arts": {}})
LANGUAGES = from_nested("language", "any", ["a", "b", "c"])


def as_printed(values: Any, dimensions: Sequence[Hierarchy], root: Fraction) -> Any:
    """The paper's descent from the roots, step by step, in exact arithmetic, for one region."""
    found = np.full(values.shape, Fraction(0), object)

    def descend(nodes: tuple[int, ...], now: Fraction) -> None:
        subs = sub_tuples(dimensions, nodes)
        if subs == [nodes]:
            found[tuple(one.leaf_ranges[node][0] for one, node in zip(dimensions, nodes, strict=True))] = now
            return
        mean, mean_now = below(values, dimensions, nodes) / len(subs), now / len(subs)
        for sub in subs:
            descend(sub, mean_now - root * (mean - below(values, dimensions, sub)))

    start = (0,) * len(dimensions)
    descend(start, below(values, dimensions, start))
    return found


def variance(values: Any, dimensions: Sequence[Hierarchy], nodes: tuple[int, ...]) -> Any:
    """As the paper defines it: not divided by the number."""
    counts = [below(values, dimensions, sub) for sub in sub_tuples(dimensions, nodes)]
    mean = sum(counts) / Fraction(len(counts))
    return sum((count - mean) ** 2 for count in counts)


@st.composite
def cases(draw: st.DrawFn, most: int = 8, regions: int = 1) -> tuple[list[Hierarchy], Any]:
    dimensions = [draw(hierarchies(most)) for _ in range(draw(st.integers(1, 3)))]
    return dimensions, draw(base_arrays(dimensions, regions))


@given(cases(), ROOTS)
def test_the_papers_descent_is_a_mixture_with_the_uniform_result(case: Any, root: Fraction) -> None:
    dimensions, members = case
    values = exact(members[..., 0])
    uniform: Any = Fraction(1)
    for dimension in dimensions:
        uniform = np.multiply.outer(uniform, np.array(shares(dimension), object))
    assert np.array_equal(
        as_printed(values, dimensions, root), values * root + uniform * values.sum() * (1 - root)
    )


@given(cases(), ROOTS)
def test_every_pair_of_nodes_has_p_times_the_variance_exactly(case: Any, root: Fraction) -> None:
    dimensions, members = case
    values = exact(members[..., 0])
    after = as_printed(values, dimensions, root)
    assert after.sum() == values.sum()
    assert np.all(after >= values * root)
    for nodes in product(*(range(len(one.nodes)) for one in dimensions)):
        assert variance(after, dimensions, nodes) == root**2 * variance(values, dimensions, nodes)


@given(cases(regions=2), ROOTS)
def test_what_is_computed_is_the_papers_descent_to_the_last_bits(case: Any, root: Fraction) -> None:
    dimensions, members = case
    after = diffuse(members, dimensions, float(root**2))
    for region in range(2):
        wanted = as_printed(exact(members[..., region]), dimensions, root).astype(float)
        assert np.allclose(after[..., region], wanted, rtol=1e-14, atol=0.0)


@given(cases(regions=2), st.floats(0.0, 1.0))
def test_whole_numbers_keep_totals_to_the_unit_and_counts_within_one(case: Any, p: float) -> None:
    dimensions, members = case
    counts = diffused(members, dimensions, p)
    axes = tuple(range(len(dimensions)))
    assert np.array_equal(counts.sum(axis=axes), members.sum(axis=axes))
    assert np.all(counts >= 0)
    assert np.all(np.abs(counts - diffuse(members, dimensions, p)) <= 1.0)
    assert np.all(counts > np.sqrt(p) * members - 1.0)


@given(cases(regions=2))
def test_p_1_changes_nothing_bit_for_bit(case: Any) -> None:
    dimensions, members = case
    assert np.array_equal(diffuse(members, dimensions, 1.0), members.astype(float))
    assert np.array_equal(diffused(members, dimensions, 1.0), members)


def test_p_0_is_uniform_among_the_sub_pairs_of_each_pair() -> None:
    members = np.array([[12, 0, 0], [0, 0, 0], [0, 24, 0]])[..., None]
    # The root's sub-pairs are (sports, a) … (arts, c), six with 6 each; arts is a leaf and stands for itself.
    assert diffuse(members, [TOPICS, LANGUAGES], 0.0)[..., 0].tolist() == [[3.0] * 3, [3.0] * 3, [6.0] * 3]


def test_p_a_quarter_halves_all_deviations() -> None:
    members = np.array([[12, 0, 0], [0, 0, 0], [0, 24, 0]])[..., None]
    assert diffuse(members, [TOPICS, LANGUAGES], 0.25)[..., 0].tolist() == [
        [7.5, 1.5, 1.5],
        [1.5, 1.5, 1.5],
        [3.0, 15.0, 3.0],
    ]


def test_regions_do_not_mix() -> None:
    members = np.zeros((3, 3, 2), np.int64)
    members[0, 0, 0], members[2, 1, 1] = 18, 36
    after = diffuse(members, [TOPICS, LANGUAGES], 0.5)
    alone = diffuse(members[..., :1], [TOPICS, LANGUAGES], 0.5)
    assert np.array_equal(after[..., :1], alone)
    assert np.allclose(after.sum(axis=(0, 1)), [18.0, 36.0])
