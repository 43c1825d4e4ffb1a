"""What `tidings reproduce communities` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from papers.communities import measures, relations, setting
from papers.communities.measures import BEFORE, HALF, INTEREST, PUBLISHED, SEARCH, Row
from papers.communities.setting import Setting

TITLE = "Communities of clients, moved to where they talk"

FIGURES: Mapping[str, str] = {
    "5": "Hops of messages in a scale-free network, and tables I and II",
    "6": "The same in a random network",
    "7": "The same in a small world",
    "9": "Clusters of equal size, and tables III and IV (small world)",
    "crowded": "All clients in half of the clusters at first (§IV-A)",
}

POINTS: Mapping[str, tuple[str, bool, bool]] = {
    "5": (relations.SCALE_FREE, False, False),
    "6": (relations.RANDOM, False, False),
    "7": (relations.SMALL_WORLD, False, False),
    "9": (relations.SMALL_WORLD, True, False),
    "crowded": (relations.SMALL_WORLD, False, True),
}
"""Relations, whether clusters are equal, and whether clients are crowded at first."""

RUNS, QUICK_RUNS = 20, 2

MEANT = (
    "hops",
    "within_4",
    "within_5",
    "from_5_to_9",
    "backbone",
    "moves",
    "moves_inside",
    "load",
    "modularity",
)


def tasks(
    figures: Sequence[str], quick: bool, runs: int | None, seed: int, given: Mapping[str, str]
) -> list[dict[str, Any]]:
    """One task for each run of a figure."""
    chosen = asdict(setting.read(seed, given))
    count = runs or (QUICK_RUNS if quick else RUNS)
    return [
        {"figure": figure, "cost": 1.0, "run": number, "setting": chosen}
        for figure in figures
        for number in range(count)
    ]


def run(task: dict[str, Any]) -> list[Row]:
    """The rows of one run, one for each planner."""
    chosen = Setting(**task["setting"])
    kind, equal, crowded = POINTS[task["figure"]]
    rows = measures.run(chosen, kind, chosen.seed * 1_000_003 + task["run"], equal=equal, crowded=crowded)
    return [{"figure": task["figure"], "run": task["run"], **row} for row in rows]


def conclude(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]:
    """Means over the runs, how hops are spread, and numbers for the claims."""
    tables: dict[str, list[Row]] = {"plans": [], "hops": []}
    numbers: dict[str, float] = {}
    for figure in dict.fromkeys(row["figure"] for row in rows):
        found: dict[str, Row] = {}
        for planner in (BEFORE, PUBLISHED, INTEREST, SEARCH, HALF):
            some = [row for row in rows if row["figure"] == figure and row["planner"] == planner]
            waits = [name for name in some[0] if name.endswith("_ms")]
            found[planner] = {name: fmean(row[name] for row in some) for name in (*MEANT, *waits)}
            spread = [[float(one) for one in row["share"].split()] for row in some]
            found[planner]["peak"] = _peak([fmean(part) for part in zip(*spread, strict=True)])
            tables["plans"].append({"figure": figure, "planner": planner, **found[planner]})
            tables["hops"] += [
                {"figure": figure, "planner": planner, "hops": hops, "share": fmean(part)}
                for hops, part in enumerate(zip(*spread, strict=True))
            ]
        numbers |= _numbers(figure, found)
    return tables, numbers


def _peak(shares: Sequence[float]) -> int:
    return max(range(len(shares)), key=lambda hops: shares[hops])


def _numbers(figure: str, of: Mapping[str, Row]) -> dict[str, float]:
    before, published, interest, search, half = (
        of[name] for name in (BEFORE, PUBLISHED, INTEREST, SEARCH, HALF)
    )
    return {
        f"{figure}_before_5_to_9": 100 * before["from_5_to_9"],
        f"{figure}_before_peak": before["peak"],
        f"{figure}_before_within_5": 100 * before["within_5"],
        f"{figure}_within_4": 100 * published["within_4"],
        f"{figure}_within_5": 100 * published["within_5"],
        f"{figure}_peak": published["peak"],
        f"{figure}_interest_within_4": 100 * interest["within_4"],
        f"{figure}_more_than_interest": 100 * (published["within_4"] - interest["within_4"]),
        f"{figure}_modularity": published["modularity"],
        f"{figure}_backbone_saved": 100 * (1 - published["backbone"] / before["backbone"]),
        f"{figure}_interest_backbone_saved": 100 * (1 - interest["backbone"] / before["backbone"]),
        f"{figure}_interest_load": interest["load"],
        f"{figure}_half_second_more": 100 * (published["within_500_ms"] - before["within_500_ms"]),
        f"{figure}_tenth_more": 100 * (published["within_100_ms"] - before["within_100_ms"]),
        f"{figure}_search_saved": 100 * (1 - search["hops"] / published["hops"]),
        f"{figure}_half_saved": 100 * (1 - half["hops"] / published["hops"]),
    }


def plot(tables: Mapping[str, list[Row]], folder: Path) -> list[Path]:
    """The figures as files."""
    from papers.communities import plots

    return plots.draw(tables, folder)
