"""Tables of quantiles have the means that were asked for, and the shapes."""

from __future__ import annotations

import numpy as np
import pytest

from tidings.workload import quantiles


@pytest.mark.parametrize("mean", [0.0, 0.01, 0.5, 4.0, 99.0, 99_999.0])
def test_whole_numbers_have_the_mean_to_a_slot(mean: float) -> None:
    found = quantiles.geometric(mean)
    assert found.mean() == pytest.approx(mean, abs=0.5 / quantiles.SLOTS)
    assert (np.diff(found) >= 0).all()
    assert found[0] <= mean / quantiles.SLOTS


def test_each_whole_number_is_as_likely_as_the_geometric_law_has_it() -> None:
    drawn = np.bincount(quantiles.geometric(4.0)) / quantiles.SLOTS
    # A slot may lie on either side of a limit.
    expected = 0.2 * 0.8 ** np.arange(30)
    assert np.abs(drawn[:30] - expected).max() <= 1 / quantiles.SLOTS


@pytest.mark.parametrize("mean", [0, 1, 7, 10_000_000, 3_000_000_000_000_000])
def test_lengths_have_the_mean_exactly(mean: int) -> None:
    lows, widths = quantiles.exponential(mean)
    assert sum((2 * lows + widths - 1).tolist()) == 2 * mean * quantiles.SLOTS
    assert (widths >= 1).all()
    assert lows[0] == 0


def test_lengths_are_skewed_as_an_exponential_law() -> None:
    lows, widths = quantiles.exponential(1_000_000)
    middles = lows + (widths - 1) / 2
    assert np.median(middles) == pytest.approx(1_000_000 * np.log(2), rel=0.001)
    assert middles.std() == pytest.approx(1_000_000, rel=0.01)
    assert 8_000_000 < (lows + widths).max() < 12_000_000
