"""Alias tables: drawing from weights with two random numbers and one look-up, whatever the number of weights.

A table has a slot for each weight. A slot is drawn evenly; then it is the answer if a fraction lies below its
cut, and its other is if not (Walker 1977; made as by Vose 1991). Twins and Spark look things up in the same
tables, so both draw the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def table(weights: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The cut and the other of each slot. What has no weight is never drawn."""
    given = np.asarray(weights, np.float64)
    total = math.fsum(given.tolist())
    assert given.ndim == 1, "weights are a list"
    assert total > 0, "something can be drawn"
    assert not (given < 0).any(), "no weight is negative"
    count = len(given)
    left = (given * (count / total)).tolist()
    cuts = np.ones(count)
    others = np.arange(count)
    poor = [slot for slot in range(count) if left[slot] < 1.0]
    rich = [slot for slot in range(count) if left[slot] >= 1.0]
    while poor and rich:
        slot, giver = poor.pop(), rich[-1]
        cuts[slot] = left[slot]
        others[slot] = giver
        left[giver] -= 1.0 - left[slot]
        if left[giver] < 1.0:
            poor.append(rich.pop())
    # Rounding may leave poor ones without a giver: they are full, but for rounding, unless they had nothing.
    heaviest = int(given.argmax())
    for slot in poor:
        if given[slot] == 0.0:
            cuts[slot] = 0.0
            others[slot] = heaviest
    return cuts, others


def chosen(
    slots: NDArray[np.int64],
    fractions: NDArray[np.float64],
    cuts: NDArray[np.float64],
    others: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The answers, for slots drawn evenly and fractions."""
    return np.where(fractions < cuts[slots], slots, others[slots])
