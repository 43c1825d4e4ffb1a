"""Who is interested in what, and where: the paper's figures 1 to 6, in numbers. Nothing is drawn.

Counts are arrays whose last axis is regions: over interests in any order, or over nodes along a dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidings.workload.removal import ranked

if TYPE_CHECKING:
    from numpy.typing import NDArray


def popularity(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Members of each interest in all regions together, the most popular first (figure 3)."""
    totals = counts.sum(axis=-1).reshape(-1)
    return np.asarray(totals[ranked(totals)], np.int64)


def left(counts: NDArray[np.int64], removed: Sequence[int]) -> NDArray[np.int64]:
    """Members of each region after the removal of so many of the most popular interests (figure 4)."""
    flat = counts.reshape(-1, counts.shape[-1])
    gone = np.zeros((len(flat) + 1, flat.shape[1]), np.int64)
    np.cumsum(flat[ranked(flat.sum(axis=-1))], axis=0, out=gone[1:])
    return np.asarray(gone[-1] - gone[np.minimum(removed, len(flat))], np.int64)


def held(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many interests somebody of each region has (figure 1)."""
    return np.asarray(np.count_nonzero(counts.reshape(-1, counts.shape[-1]), axis=0), np.int64)


def concentration(counts: NDArray[np.int64], first: int) -> NDArray[np.float64]:
    """The share of each region's members that its own most popular interests have, so many of them."""
    flat = np.sort(counts.reshape(-1, counts.shape[-1]), axis=0)[::-1]
    return np.asarray(flat[:first].sum(axis=0) / np.maximum(1, flat.sum(axis=0)), np.float64)


def along(counts: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
    """Members by region along one dimension (figure 2): the other dimensions are summed up."""
    others = tuple(at for at in range(counts.ndim - 1) if at != axis)
    return np.asarray(counts.sum(axis=others), np.int64)


def regionality(line: NDArray[np.int64]) -> float:
    """How regional a dimension is, from the members along it: 0 if every node has the same mix of regions.

    It is the share of all members who would have to be in another region for that; at most 1 less the
    regions' shares, squared and summed.
    """
    total = float(line.sum())
    if not total:
        return 0.0
    expected = np.multiply.outer(line.sum(axis=1), line.sum(axis=0)) / total
    return float(np.abs(line - expected).sum() / (2.0 * total))


def alike(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """How far two rows of counts agree: what is common to both, as shares. 1 if they are in proportion."""
    shares = [row / max(1.0, float(row.sum())) for row in (one, other)]
    return float(np.minimum(*shares).sum())
