"""Alias tables draw in proportion to weights, exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.workload import alias, hashing


def probabilities(weights: list[float]) -> list[float]:
    """The probability of each answer, by its table."""
    cuts, others = alias.table(weights)
    found = [Fraction(0)] * len(weights)
    for slot, (cut, other) in enumerate(zip(cuts.tolist(), others.tolist(), strict=True)):
        found[slot] += Fraction(cut)
        found[other] += 1 - Fraction(cut)
    return [float(one / len(weights)) for one in found]


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200).filter(any))
def test_answers_are_as_likely_as_they_weigh(weights: list[float]) -> None:
    total = sum(weights)
    assert probabilities(weights) == pytest.approx([one / total for one in weights], abs=1e-12)


@given(st.lists(st.sampled_from([0.0, 1e-300, 1 / 3, 1e30]), min_size=1, max_size=50).filter(any))
def test_what_has_no_weight_is_never_drawn(weights: list[float]) -> None:
    found = probabilities(weights)
    assert all(found[slot] == 0 for slot, weight in enumerate(weights) if weight == 0)


def test_draws_by_hash_come_near_the_weights() -> None:
    weights = np.array([5.0, 0.0, 3.0, 2.0])
    rows = np.arange(100_000)
    slots = hashing.below(hashing.draw(hashing.key(1, "t", "slot"), rows), 4)
    fractions = hashing.fraction(hashing.draw(hashing.key(1, "t", "cut"), rows))
    drawn = np.bincount(alias.chosen(slots, fractions, *alias.table(weights)), minlength=4)
    assert drawn[1] == 0
    # Five standard deviations of the most variable count.
    assert np.abs(drawn - 100_000 * weights / 10).max() < 5 * np.sqrt(25_000)
