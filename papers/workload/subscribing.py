"""§4.4 and §4.5: samples of any size, and event rates in the gaps between interests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from papers.workload.rows import Asked, Row, number
from papers.workload.setting import Setting, data, model, spec
from tidings.workload import arrivals, smoothing
from tidings.workload.sampling import NAIVE, STRATIFIED, SYSTEMATIC, allocate, strata
from tidings.workload.spec import Sampling

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 8_100_000)

SMALL = 10_000
"""The sample of which claims speak."""


def sampling(setting: Setting, asked: Asked) -> Iterator[Row]:
    """Distinct interests, in all regions together, of each way of sampling."""
    found = data(setting)
    weights = found.members.reshape(-1)
    regions = len(found.regions)
    distinct: dict[tuple[str, int], float] = {}
    for size in SIZES:
        for method in (NAIVE, STRATIFIED, SYSTEMATIC):
            counts = [
                _distinct(weights, regions, size, method, setting.seed + run) for run in range(asked.runs)
            ]
            distinct[method, size] = float(np.mean(counts))
            yield {
                "kind": "sampling",
                "method": method,
                "subscriptions": size,
                "interests": distinct[method, size],
            }
    yield number("stratified_gain_percent", 100 * (distinct[STRATIFIED, SMALL] / distinct[NAIVE, SMALL] - 1))
    yield number("systematic_gain_percent", 100 * (distinct[SYSTEMATIC, SMALL] / distinct[NAIVE, SMALL] - 1))
    options = Sampling()
    drawn = allocate(weights, SMALL, options, setting.seed)
    off = [
        abs(int(drawn[group].sum()) - int(weights[group].sum()) * SMALL / int(weights.sum()))
        for group in strata(weights, options.strata)
    ]
    yield number("strata", len(off))
    yield number("strata_off", max(off))
    yield number("sample_size_off", abs(int(drawn.sum()) - SMALL))


def events(setting: Setting, _: Asked) -> Iterator[Row]:
    """The smoothed rates, cell by cell: base interests' own intervals, and the gaps between them."""
    plain = model(setting)
    edges, inside = zip(*(_edges(axis, setting) for axis in range(len(plain.dimensions))), strict=True)
    density = smoothing.density(plain, edges).sum(axis=-1)
    total = float(plain.messages.sum())
    own = density[np.ix_(*inside)].sum()
    yield number("rate_off_percent", 100 * abs(float(density.sum()) - total) / total)
    yield number("rate_in_gaps_percent", 100 * (1 - float(own) / total))
    yield number("gaps_filled_percent", 100 * float(np.count_nonzero(density)) / density.size)
    drawn = int(arrivals.draw(plain).count.sum())
    yield number("events_off_deviations", abs(drawn - setting.events) / setting.events**0.5)
    yield {"kind": "events", "asked": setting.events, "drawn": drawn, "messages_a_month": total}


def _distinct(weights: NDArray[np.int64], regions: int, size: int, method: str, seed: int) -> int:
    drawn = allocate(weights, size, Sampling(method=method), seed)
    return int(np.count_nonzero(drawn.reshape(-1, regions).sum(axis=1)))


def _edges(axis: int, setting: Setting) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First values of cells, each a base interval or a gap, and which cells are intervals."""
    plain = model(setting)
    leaves = list(plain.dimensions[axis].leaves)
    lows, behind = plain.lows[axis][leaves], plain.highs[axis][leaves] + 1
    edges = np.unique(np.concatenate([[0], lows, behind, [spec(setting).space.resolution]]))
    return edges, np.searchsorted(edges, lows)
