"""Whole numbers from parts of them, whose totals hold to the unit: the method of the largest remainder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def whole(values: NDArray[Any], totals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole numbers near `values`, whose last axis is regions; those of a region sum to its total.

    Each is its value rounded down or up, if the values sum to the totals but for the last bits. The largest
    remainders are rounded up; of equal ones the first.
    """
    regions = values.shape[-1]
    flat = np.maximum(values.reshape(-1, regions), 0.0)
    down = np.floor(flat)
    counts = down.astype(np.int64)
    for region in range(regions):
        missing = int(totals[region]) - int(counts[:, region].sum())
        order = np.argsort(-(flat[:, region] - down[:, region]), kind="stable")
        if missing < 0:
            # Only the last bits can bring this about: whole values whose sum is a little too large.
            order = order[::-1][counts[order[::-1], region] > 0]
        assert abs(missing) <= len(order), f"{missing} units are missing in {len(order)} values"
        counts[order[: abs(missing)], region] += 1 if missing > 0 else -1
    rounded: NDArray[np.int64] = counts.reshape(values.shape)
    return rounded


def apportioned(count: int, weights: Sequence[int]) -> list[int]:
    """`count` in proportion to the weights, in exact arithmetic; of equal remainders the first is served."""
    total = sum(weights)
    parts = [divmod(count * weight, total) for weight in weights]
    found = [part for part, _ in parts]
    order = sorted(range(len(parts)), key=lambda at: (-parts[at][1], at))
    for at in order[: count - sum(found)]:
        found[at] += 1
    return found
