"""How subscriptions are allocated: the number is exact, and rare interests are found by equal steps only."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings.workload.sampling import allocate, strata
from tidings.workload.spec import Sampling

METHODS = ("naive", "stratified", "systematic")

WEIGHTS = st.lists(st.one_of(st.just(0), st.integers(0, 10**9)), min_size=1, max_size=40).filter(any)


@given(WEIGHTS, st.integers(0, 10**10), st.sampled_from(METHODS), st.integers(0, 2**63 - 1))
def test_the_number_is_exact_and_none_goes_where_nobody_is(
    weights: list[int], count: int, method: str, seed: int
) -> None:
    given_ = np.array(weights, np.int64)
    found = allocate(given_, count, Sampling(method=method), seed)
    assert found.dtype == np.int64
    assert found.sum() == count
    assert np.all(found >= 0)
    assert not found[given_ == 0].any()


@given(WEIGHTS, st.integers(1, 10**10), st.integers(0, 2**63 - 1))
def test_equal_steps_give_every_share_rounded_down_or_up(weights: list[int], count: int, seed: int) -> None:
    found = allocate(np.array(weights, np.int64), count, Sampling(method="systematic"), seed)
    for weight, got in zip(weights, found.tolist(), strict=True):
        down, rest = divmod(weight * count, sum(weights))
        assert got in ({down, down + 1} if rest else {down})


@given(WEIGHTS, st.floats(1.0001, 100.0))
def test_weights_of_a_stratum_are_within_its_factor_and_all_are_in_one(
    weights: list[int], factor: float
) -> None:
    given_ = np.array(weights, np.int64)
    groups = strata(given_, factor)
    assert sorted(at for group in groups for at in group.tolist()) == np.flatnonzero(given_).tolist()
    for group in groups:
        assert given_[group].max() <= given_[group].min() * factor * (1 + 1e-12)
    for before, after in pairwise(groups):
        assert given_[before].min() > given_[after].max()


@given(WEIGHTS, st.integers(1, 10**6), st.integers(0, 2**63 - 1))
def test_every_stratum_gets_its_share_within_one(weights: list[int], count: int, seed: int) -> None:
    given_ = np.array(weights, np.int64)
    found = allocate(given_, count, Sampling(strata=2.0), seed)
    for group in strata(given_, 2.0):
        share = int(given_[group].sum()) * count / sum(weights)
        assert abs(int(found[group].sum()) - share) < 1.0 + 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_another_seed_gives_another_draw_and_the_same_seed_the_same(method: str) -> None:
    weights = np.arange(1, 2_000)
    draws = [allocate(weights, 700, Sampling(method=method), seed) for seed in (1, 1, 2)]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


@pytest.mark.parametrize("method", METHODS)
def test_over_many_seeds_each_gets_its_share_on_average(method: str) -> None:
    weights = np.array([700, 200, 60, 30, 9, 1])
    total = sum(allocate(weights, 500, Sampling(method=method), seed) for seed in range(400))
    expected = weights / 1000 * 500 * 400
    # Five standard deviations of a naive draw; the others vary less.
    assert np.all(np.abs(total - expected) < 5 * np.sqrt(expected) + 1)


def test_equal_steps_find_more_distinct_interests_in_a_small_sample_and_strata_hardly_do() -> None:
    weights = (1e8 * (np.arange(1, 38_000) + 17.66) ** -1.749).astype(np.int64)
    distinct = {
        method: np.mean(
            [np.count_nonzero(allocate(weights, 20_000, Sampling(method=method), seed)) for seed in range(5)]
        )
        for method in METHODS
    }
    assert distinct["stratified"] < 1.03 * distinct["naive"]
    assert distinct["systematic"] > 1.12 * distinct["naive"]


@pytest.mark.parametrize("method", METHODS)
def test_subscriptions_of_nobody_are_refused(method: str) -> None:
    with pytest.raises(InputError, match=r"3 subscriptions are asked for, but no interest has members"):
        allocate(np.zeros(4, np.int64), 3, Sampling(method=method), 1)
    assert allocate(np.zeros(4, np.int64), 0, Sampling(method=method), 1).tolist() == [0, 0, 0, 0]
