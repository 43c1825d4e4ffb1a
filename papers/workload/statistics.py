"""Figures 1 to 4: what the paper says of its data, of ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from papers.workload.rows import Asked, Row, number
from papers.workload.setting import Setting, data
from tidings.workload import characteristics, removal
from tidings.workload.describing import removals
from tidings.workload.model import Given
from tidings.workload.spec import Removal

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHOWN = ("Asia", "US", "Europe")
"""The regions of the paper's figures."""

ELSEWHERE = "elsewhere"

HOTTEST = (("business services", "English"), ("small business", "English"), ("consulting", "English"))
"""The three most popular (§4.1)."""

FEW = 0.01
"""The share of interests that counts as few."""


def interests(setting: Setting, _: Asked) -> Iterator[Row]:
    """Figure 1, and the sizes of the data (§3.1)."""
    found = data(setting)
    yield number("topics", len(found.dimensions[0].leaves))
    yield number("languages", len(found.dimensions[1].leaves))
    yield number("base_interests", found.members[..., 0].size)
    yield from heat_rows("figure1", found, found.members)
    asia, us, europe = (region(found, found.members, name) for name in SHOWN)
    held = {
        name: int(characteristics.held(one)[0]) for name, one in zip(SHOWN, (asia, us, europe), strict=True)
    }
    for name, count in held.items():
        yield {"kind": "interests", "region": name, "interests": count}
    yield number("us_interests_percent", 100 * held["US"] / min(held["Asia"], held["Europe"]))
    both = np.count_nonzero((asia > 0) & (europe > 0))
    yield number("shared_percent", 100 * both / min(held["Asia"], held["Europe"]))
    first, middle = _thirds(found)
    yield number("asia_left_percent", 100 * np.count_nonzero(asia[:, first]) / held["Asia"])
    yield number("europe_centre_percent", 100 * np.count_nonzero(europe[:, middle]) / held["Europe"])
    us_few, asia_few, europe_few = (
        100 * float(characteristics.concentration(one, setting.removed)[0]) for one in (us, asia, europe)
    )
    yield number("us_few_over_asia", us_few - asia_few)
    yield number("us_few_over_europe", us_few - europe_few)


def dimensions(setting: Setting, _: Asked) -> Iterator[Row]:
    """Figure 2."""
    found = data(setting)
    yield from line_rows("figure2", found, found.members)
    yield from regional(found, found.members, "")
    along = characteristics.along(found.members, 1)
    first, middle = _thirds(found)
    yield number("languages_asian", _majority(found, along, first, "Asia"))
    yield number("languages_european", _majority(found, along, middle, "Europe"))


def popularity(setting: Setting, _: Asked) -> Iterator[Row]:
    """Figure 3, and hot-interest removal (§4.1)."""
    found = data(setting)
    removed = removal.remove(found.members, found.messages, Removal(top=setting.removed))
    for label, members in (("all", found.members), (f"{setting.removed} removed", removed.members)):
        totals = characteristics.popularity(members)
        for rank in _ranks(len(totals)):
            yield {"kind": "figure3", "interests": label, "rank": rank, "members": int(totals[rank - 1])}
    totals = characteristics.popularity(found.members)
    yield number("members_millions", totals.sum() / 1e6)
    yield number("third_members", totals[2])
    names = [
        tuple(one.nodes[one.leaves[at]] for one, at in zip(found.dimensions, place, strict=True))
        for place in removed.interests
    ]
    for rank, (name, total) in enumerate(zip(names, totals, strict=False), 1):
        yield {"kind": "removed", "rank": rank, "topic": name[0], "language": name[1], "members": int(total)}
    yield number("hottest_named", sum(one == other for one, other in zip(names, HOTTEST, strict=False)))
    yield number("left_millions", removed.members.sum() / 1e6)
    before, after = (_few(one) for one in (found.members, removed.members))
    yield number("few_percent", before)
    yield number("few_after_percent", after)
    yield number("few_falls", before - after)


def shares(setting: Setting, _: Asked) -> Iterator[Row]:
    """Figure 4."""
    found = data(setting)
    steps = removals(found.members[..., 0].size)
    left = characteristics.left(found.members, steps)
    percent = 100.0 * left / np.maximum(1, left.sum(axis=1, keepdims=True))
    for step, row, share in zip(steps, left, percent, strict=True):
        for at, name in enumerate(found.regions):
            yield {
                "kind": "figure4",
                "removed": step,
                "region": name,
                "members": int(row[at]),
                "share_percent": float(share[at]),
            }
    first = [at for at, step in enumerate(steps) if step <= setting.removed]
    europe = percent[first, found.regions.index("Europe")]
    yield number("europe_rises", europe[-1] - europe[0])
    yield number("europe_least_step", float(np.diff(europe).min()))
    gone = 100.0 * (1.0 - left[first[-1]] / left[0])
    asia, us, europe_gone = (gone[found.regions.index(name)] for name in SHOWN)
    yield {"kind": "gone", "us_percent": us, "asia_percent": asia, "europe_percent": europe_gone}
    yield number("us_over_asia_gone", us - asia)
    yield number("asia_over_europe_gone", asia - europe_gone)
    removed = removal.remove(found.members, found.messages, Removal(top=setting.removed))
    yield from regional(found, removed.members, "_removed")


def regional(found: Given, members: NDArray[np.int64], suffix: str) -> Iterator[Row]:
    """How regional each dimension is, and how alike the three regions along topics."""
    topics, languages = (characteristics.along(members, axis) for axis in (0, 1))
    yield number(f"topics_regional{suffix}", 100 * characteristics.regionality(topics))
    yield number(f"languages_regional{suffix}", 100 * characteristics.regionality(languages))
    for name, line in (("topics", topics), ("languages", languages)):
        columns = [line[:, found.regions.index(one)] for one in SHOWN]
        least = min(characteristics.alike(one, other) for one, other in combinations(columns, 2))
        yield number(f"{name}_alike{suffix}", 100 * least)


def region(found: Given, members: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    """A base array of one region, with the last axis kept."""
    at = found.regions.index(name)
    return members[..., at : at + 1]


def panels(found: Given, members: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """The regions of the paper's figures, and all others together."""
    found_ = {name: region(found, members, name)[..., 0] for name in SHOWN}
    return {**found_, ELSEWHERE: members.sum(axis=-1) - sum(found_.values())}


def heat_rows(kind: str, found: Given, members: NDArray[np.int64]) -> Iterator[Row]:
    """A heat map as rows: for each topic its counts along the languages, in one text."""
    topics = found.dimensions[0]
    for name, counts in panels(found, members).items():
        for at, row in enumerate(counts):
            yield {
                "kind": kind,
                "region": name,
                "topic": topics.nodes[topics.leaves[at]],
                "members": " ".join(map(str, row.tolist())),
            }


def line_rows(kind: str, found: Given, members: NDArray[np.int64]) -> Iterator[Row]:
    """Members along each dimension."""
    for axis, dimension in enumerate(found.dimensions):
        for name, counts in panels(found, members).items():
            for leaf, count in zip(dimension.leaves, counts.sum(axis=1 - axis).tolist(), strict=True):
                yield {
                    "kind": kind,
                    "dimension": dimension.name,
                    "region": name,
                    "node": dimension.nodes[leaf],
                    "members": count,
                }


def _thirds(found: Given) -> tuple[slice, slice]:
    """The left and the middle third of the languages, as the figures show them."""
    count = len(found.dimensions[1].leaves)
    return slice(0, count // 3), slice(count // 3, 2 * count // 3)


def _majority(found: Given, along: NDArray[np.int64], part: slice, name: str) -> float:
    """The share of languages that somebody has and of which one region has more than half."""
    counts = along[part]
    some = counts.sum(axis=1) > 0
    most = 2 * counts[:, found.regions.index(name)] > counts.sum(axis=1)
    return 100.0 * np.count_nonzero(most & some) / np.count_nonzero(some)


def _few(members: NDArray[np.int64]) -> float:
    """The share of members that one in a hundred of the interests has that anybody has."""
    totals = characteristics.popularity(members)
    few = round(FEW * np.count_nonzero(totals))
    return 100.0 * float(totals[:few].sum() / totals.sum())


def _ranks(count: int) -> Sequence[int]:
    """Ranks of a curve on a logarithmic axis."""
    return sorted({*range(1, min(30, count + 1)), *np.geomspace(1, count, 120).astype(int).tolist()})
