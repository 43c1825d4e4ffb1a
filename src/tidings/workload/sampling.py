"""How many subscriptions each interest gets in each region, of any number of them (§4.4).

Naive sampling draws each on its own, in proportion to the counts. Stratified sampling, the paper's, divides
the number first among strata of cells with similar counts, in proportion to the strata's totals (each gets
its share rounded down or up), and draws within each. That takes out only the chance between strata: in the
strata of rare interests, most still get nothing. Systematic sampling goes along the cumulated counts in equal
steps from a random start: each cell gets its share rounded down or up, so that none with a share of at least
one is missed, and one with less is found with just that probability, against 1 - exp(-share).

Here it is only counted; what each subscription is follows from its number. A cell is an interest in a region.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidings.errors import InputError
from tidings.workload import hashing
from tidings.workload.removal import ranked
from tidings.workload.spec import Sampling

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAIVE, STRATIFIED, SYSTEMATIC = "naive", "stratified", "systematic"

TABLE = "subscriptions"
"""Whose random numbers these are."""


def allocate(weights: NDArray[np.int64], count: int, options: Sampling, seed: int) -> NDArray[np.int64]:
    """So many subscriptions among cells in proportion to their weights: how many each gets."""
    assert weights.ndim == 1, "weights are a row"
    assert bool(np.all(weights >= 0)), "weights are counts"
    if count == 0:
        return np.zeros_like(weights)
    if not np.any(weights):
        raise InputError(
            f"{count:,} subscriptions are asked for, but no interest has members; "
            "remove fewer interests, or give counts that are not all zero"
        )
    if options.method == NAIVE:
        return _drawn(weights, count, hashing.key(seed, TABLE, NAIVE))
    if options.method == SYSTEMATIC:
        return _stepped(weights, count, hashing.key(seed, TABLE, SYSTEMATIC))
    found = np.zeros_like(weights)
    groups = strata(weights, options.strata)
    totals = np.array([weights[group].sum() for group in groups], np.int64)
    # Not by the largest remainder: a stratum whose share is always rounded down would never have its due.
    counts = _stepped(totals, count, hashing.key(seed, TABLE, STRATIFIED))
    for at, (group, share) in enumerate(zip(groups, counts, strict=True)):
        found[group] = _drawn(weights[group], int(share), hashing.key(seed, TABLE, f"{STRATIFIED} {at}"))
    return found


def strata(weights: NDArray[np.int64], factor: float) -> list[NDArray[np.int64]]:
    """Cells in groups, the most popular first; the largest of a group at most `factor` times its smallest.

    Cells without weight are in none.
    """
    order = ranked(weights)
    rising = weights[order[::-1]]
    found: list[NDArray[np.int64]] = []
    first, end = 0, int(np.count_nonzero(weights))
    while first < end:
        least = float(weights[order[first]]) / factor
        behind = min(max(len(weights) - int(np.searchsorted(rising, least)), first + 1), end)
        found.append(np.sort(order[first:behind]))
        first = behind
    return found


def _drawn(weights: NDArray[np.int64], count: int, key: int) -> NDArray[np.int64]:
    """A multinomial draw."""
    found = np.zeros_like(weights)
    # The last category gets what the others leave, so none without weight may be among them.
    some = np.flatnonzero(weights)
    chances = weights[some] / float(weights.sum())
    found[some] = np.random.Generator(np.random.Philox(key=key % 2**64)).multinomial(count, chances)
    return found


def _stepped(weights: NDArray[np.int64], count: int, key: int) -> NDArray[np.int64]:
    """Where points start + step * 0, 1, 2, … fall in the cumulated weights, cells in the order of the array.

    Whole numbers, in units of 1 / count: the step is the total, the start below it. They outgrow 64 bits.
    """
    total = int(weights.sum())
    start = int(hashing.below(hashing.draw(key, 0), total))
    ends = np.cumsum(weights).astype(object) * count
    before: NDArray[np.int64] = (-((start - ends) // total)).astype(np.int64)
    before[1:] -= before[:-1].copy()
    return before
