"""Figures 5 to 8 and §4.3: diffusion, generalisation and intervals, and what each keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from papers.workload.rows import Asked, Row, number
from papers.workload.setting import Setting, data, spec
from papers.workload.statistics import heat_rows, line_rows, regional
from tidings.workload import characteristics
from tidings.workload import diffusion as diffusing
from tidings.workload import generalisation as generalising
from tidings.workload import intervals as laying
from tidings.workload.hierarchies import Hierarchy
from tidings.workload.spec import Generalisation

if TYPE_CHECKING:
    from numpy.typing import NDArray

VARIANCE_LEAST = 1e-12
"""Relative to the square of a pair's count: below it a variance is nothing but the last bits."""


def diffusion(setting: Setting, asked: Asked) -> Iterator[Row]:
    """Figure 5, and what the paper says of diffusion."""
    found = data(setting)
    members, dimensions = found.members, found.dimensions
    after = diffusing.diffuse(members, dimensions, setting.p)
    counts = diffusing.diffused(members, dimensions, setting.p)
    yield from heat_rows("figure5", found, counts)
    ratios = variance_ratios(members, after, dimensions, every=7 if asked.quick else 1)
    yield number("variance_pairs", len(ratios))
    yield number("variance_off", float(np.abs(ratios - setting.p).max()))
    axes = (0, 1)
    yield number("diffusion_total_off", int(np.abs(counts.sum(axis=axes) - members.sum(axis=axes)).max()))
    yield number("diffusion_least", float(after.min()))
    yield number("diffusion_rounding", float(np.abs(counts - after).max()))
    some = members > 0
    yield number("diffusion_kept_percent", 100 * float((after[some] / members[some]).min()))
    yield number(
        "diffusion_p1_off", float(np.abs(diffusing.diffuse(members, dimensions, 1.0) - members).max())
    )
    uniform = diffusing.diffuse(members, dimensions, 0.0)
    yield number("diffusion_p0_spread", spread(uniform, dimensions, every=7 if asked.quick else 1))
    held = [int(np.count_nonzero(one.sum(axis=-1))) for one in (members, counts)]
    yield number("interests_before", held[0])
    yield number("interests_after", held[1])


def diffused_dimensions(setting: Setting, _: Asked) -> Iterator[Row]:
    """Figure 6."""
    found = data(setting)
    counts = diffusing.diffused(found.members, found.dimensions, setting.p)
    yield from line_rows("figure6", found, counts)
    yield from regional(found, counts, "_diffused")
    before, after = (
        characteristics.regionality(characteristics.along(one, 1)) for one in (found.members, counts)
    )
    yield number("languages_regional_ratio_percent", 100 * after / before)


def generalisation(setting: Setting, _: Asked) -> Iterator[Row]:
    """Both options on diffused counts: without, nearly every parent has a child that nobody wants."""
    found = data(setting)
    base = diffusing.diffused(found.members, found.dimensions, setting.p).astype(np.float64)
    total = base.sum()
    for option in (generalising.PARENTS, generalising.CHILDREN, generalising.CHILDREN_AS_PRINTED):
        full = generalising.generalise(base, found.dimensions, option, setting.fraction)
        covered = cover(full, found.dimensions)
        name = option.replace("-", "_")
        general = full.sum() - full[_leaves(found.dimensions)].sum()
        counts = generalising.generalised(
            base.astype(np.int64), found.dimensions, Generalisation(option, setting.fraction)
        ).sum(axis=-1)
        row = {
            "total_percent": 100 * full.sum() / total,
            "general_percent": 100 * general / full.sum(),
            "general_interests": int(
                np.count_nonzero(counts) - np.count_nonzero(counts[_leaves(found.dimensions)])
            ),
            "cover_percent": 100 * covered.sum() / total,
        }
        yield {"kind": "generalisation", "option": option, **row}
        yield number(f"{name}_total_off", abs(float(full.sum() - total)))
        yield number(f"{name}_cover_off", float(np.abs(covered - base).max()))
        yield number(f"{name}_cover_lost", float((base - covered).sum()))
        yield number(f"{name}_general_percent", row["general_percent"])
        yield number(f"{name}_least", float(full.min()))


def intervals(setting: Setting, asked: Asked) -> Iterator[Row]:
    """Figure 8, on both hierarchies, for all nodes and all triples of them."""
    resolution = spec(setting).space.resolution
    outside = unequal = gaps = triples = wrong = 0
    for hierarchy in data(setting).dimensions:
        low, high = laying.intervals(hierarchy, resolution)
        for node, below in enumerate(hierarchy.children):
            if not below:
                continue
            ends = low[list(below)], high[list(below)]
            lengths = ends[1] - ends[0] + 1
            outside += int(np.count_nonzero((ends[0] < low[node]) | (ends[1] > high[node])))
            unequal += int(np.count_nonzero(lengths != lengths[0]))
            gaps += int(np.count_nonzero(ends[0][1:] - ends[1][:-1] - 1 != lengths[0]))
        checked, failed = check_triples(hierarchy, low, high, every=5 if asked.quick else 1)
        triples, wrong = triples + checked, wrong + failed
        leaves = list(hierarchy.leaves)
        width = int((high[leaves] - low[leaves] + 1).sum())
        yield {
            "kind": "intervals",
            "dimension": hierarchy.name,
            "nodes": len(hierarchy.nodes),
            "leaf_least": int((high[leaves] - low[leaves] + 1).min()),
            "leaves_percent": 100 * width / resolution,
            "resolution_least": laying.resolution_least(hierarchy),
        }
    yield number("intervals_outside", outside)
    yield number("intervals_unequal", unequal)
    yield number("intervals_gaps_off", gaps)
    yield number("triples", triples)
    yield number("triples_wrong", wrong)


def sums(values: NDArray[np.float64], dimensions: Sequence[Hierarchy]) -> NDArray[np.float64]:
    """For every pair of nodes the sum over the base interests below it."""
    found = values
    for axis, dimension in enumerate(dimensions):
        starts = [begin for begin, _ in dimension.leaf_ranges]
        ends = [end for _, end in dimension.leaf_ranges]
        ahead = np.moveaxis(found, axis, 0)
        summed = np.concatenate([np.zeros((1, *ahead.shape[1:])), np.cumsum(ahead, axis=0)])
        found = np.moveaxis(summed[ends] - summed[starts], 0, axis)
    return found


def _sub_pairs(
    values: NDArray[np.float64], dimensions: Sequence[Hierarchy], every: int
) -> Iterator[tuple[float, NDArray[np.float64]]]:
    """For every so many pairs of nodes its count and those of its immediate sub-pairs, by region."""
    full = sums(values, dimensions)
    first, second = dimensions
    pairs = [(t, l) for t in range(len(first.nodes)) for l in range(len(second.nodes))]
    for t, l in pairs[::every]:
        below = np.ix_(first.children[t] or (t,), second.children[l] or (l,))
        subs = full[below].reshape(-1, full.shape[-1])
        if len(subs) > 1:
            yield full[t, l], subs


def variance_ratios(
    before: NDArray[np.int64], after: NDArray[np.float64], dimensions: Sequence[Hierarchy], every: int
) -> NDArray[np.float64]:
    """For pairs of nodes and regions the variance among the sub-pairs after, by that before."""
    found = []
    both = zip(
        _sub_pairs(before.astype(np.float64), dimensions, every),
        _sub_pairs(after, dimensions, every),
        strict=True,
    )
    for (count, old), (_, new) in both:
        was, now = old.var(axis=0), new.var(axis=0)
        # In unlike arithmetic of sums, nothing is left of variances as small as the last bits of counts.
        told = was > np.maximum(VARIANCE_LEAST * count**2, 1e-9)
        found.append(now[told] / was[told])
    return np.concatenate(found)


def spread(values: NDArray[np.float64], dimensions: Sequence[Hierarchy], every: int) -> float:
    """The largest difference among the sub-pairs of a pair."""
    return max(float(np.ptp(subs, axis=0).max()) for _, subs in _sub_pairs(values, dimensions, every))


def cover(full: NDArray[np.float64], dimensions: Sequence[Hierarchy]) -> NDArray[np.float64]:
    """For each base interest the counts of all interests that are it or above it, summed."""
    found = full.copy()
    for axis, dimension in enumerate(dimensions):
        ahead = np.moveaxis(found, axis, 0)
        # Parents come before their children.
        for node, parent in enumerate(dimension.parents):
            if parent >= 0:
                ahead[node] += ahead[parent]
    covered: NDArray[np.float64] = found[_leaves(dimensions)]
    return covered


def check_triples(
    hierarchy: Hierarchy, low: NDArray[np.int64], high: NDArray[np.int64], every: int
) -> tuple[int, int]:
    """Triples of which none contains another and one is nearer to the first; and those with a wider gap."""
    count = len(hierarchy.nodes)
    above = np.eye(count, dtype=bool)
    for node, parent in enumerate(hierarchy.parents):
        if parent >= 0:
            above[node] |= above[parent]
    apart = ~(above | above.T)
    depths = np.array(hierarchy.depths)
    # How many ancestors two nodes share says how deep their lowest one is.
    shared = above.astype(np.int64) @ above.T.astype(np.int64)
    gap = np.maximum(low[:, None], low[None, :]) - np.minimum(high[:, None], high[None, :]) - 1
    assert depths.max() + 1 == shared.max()
    checked = wrong = 0
    for x in range(0, count, every):
        told = apart[x][:, None] & apart[x][None, :] & apart & (shared[x][:, None] > shared[x][None, :])
        checked += int(np.count_nonzero(told))
        wrong += int(np.count_nonzero(told & (gap[x][:, None] >= gap[x][None, :])))
    return checked, wrong


def _leaves(dimensions: Sequence[Hierarchy]) -> tuple[NDArray[np.int64], ...]:
    return np.ix_(*(one.leaves for one in dimensions))
