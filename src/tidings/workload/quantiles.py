"""Quantiles: skewed distributions as small tables, from which Spark and numpy draw alike.

A table has slots that are equally likely. Logarithms are taken here, on the driver, once: two engines do not
agree on them to the last bit, but they do on looking something up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SLOTS = 4096
"""The greatest value is some ten means away: the logarithm of this, and two."""


def geometric(mean: float) -> NDArray[np.int64]:
    """Whole numbers from 0, each less likely than the one before, as `SLOTS` that have this mean.

    The mean is exact to one part in `SLOTS`; the last slot, which stands for all the rest, makes it so.
    """
    # P(X >= k) = q ** k; the quantile of u is the greatest k for which that is above 1 - u.
    middles = (np.arange(SLOTS) + 0.5) / SLOTS
    if not mean > 0:
        return np.zeros(SLOTS, np.int64)
    found: NDArray[np.int64] = np.floor(np.log1p(-middles) / np.log(mean / (1.0 + mean))).astype(np.int64)
    found[-1] = max(0, round(mean * SLOTS) - int(found[:-1].sum()))
    return found


def exponential(mean: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lengths from 0 that have this mean: for each of `SLOTS` its least length, and how many it has.

    Within a slot all are equally likely. The last one ends where the mean is as asked.
    """
    lows: NDArray[np.int64] = np.rint(-mean * np.log1p(-np.arange(SLOTS) / SLOTS)).astype(np.int64)
    # A slot's mean is half the sum of its ends, both of which belong to it.
    rest = 2 * mean * SLOTS - sum(lows[:-1].tolist()) - sum(lows[1:].tolist())
    highs = np.append(lows[1:], max(rest - int(lows[-1]), int(lows[-1])))
    return lows, highs - lows + 1
