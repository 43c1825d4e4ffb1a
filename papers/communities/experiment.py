"""What `tidings reproduce communities` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from papers.communities import measures, relations, setting
from papers.communities.measures import (
    BEFORE,
    HALF,
    INTEREST,
    PLANNERS,
    PUBLISHED,
    SEARCH,
    SEARCH_UNDIVIDED,
    SEATS,
    UNDIVIDED,
    Row,
)
from papers.communities.setting import Setting

TITLE = "Communities of clients, moved to where they talk"

FIGURES: Mapping[str, str] = {
    "5": "Hops of messages in a scale-free network, and tables I and II",
    "6": "The same in a random network",
    "7": "The same in a small world",
    "9": "Clusters of equal size, and tables III and IV (small world)",
    "crowded": "All clients in half of the clusters at first (§IV-A)",
    "frontier": "Moves against hops, for an operator to choose from (ours)",
}

POINTS: Mapping[str, tuple[str, bool, bool]] = {
    "5": (relations.SCALE_FREE, False, False),
    "6": (relations.RANDOM, False, False),
    "7": (relations.SMALL_WORLD, False, False),
    "9": (relations.SMALL_WORLD, True, False),
    "crowded": (relations.SMALL_WORLD, False, True),
}
"""Relations, whether clusters are equal, and whether clients are crowded at first."""

RUNS, QUICK_RUNS = 8, 2

FRONTIER = "frontier"

GAINS = [f"{figure}_half_second_more" for figure in ("5", "6", "7")]

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
    "inside",
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
    if task["figure"] == FRONTIER:
        seed = chosen.seed * 1_000_003 + task["run"]
        return [
            {"figure": FRONTIER, "run": task["run"], "kind": kind, **row}
            for kind in relations.KINDS
            for row in measures.frontier(chosen, kind, seed)
        ]
    kind, equal, crowded = POINTS[task["figure"]]
    rows = measures.run(chosen, kind, chosen.seed * 1_000_003 + task["run"], equal=equal, crowded=crowded)
    return [{"figure": task["figure"], "run": task["run"], **row} for row in rows]


def conclude(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]:
    """Means over the runs, how hops are spread, and numbers for the claims."""
    tables: dict[str, list[Row]] = {}
    numbers: dict[str, float] = {}
    points = [row for row in rows if row["figure"] == FRONTIER]
    if points:
        tables[FRONTIER] = _frontier(points)
        numbers |= _sooner(tables[FRONTIER])
    for figure in dict.fromkeys(row["figure"] for row in rows if row["figure"] != FRONTIER):
        found: dict[str, Row] = {}
        for planner in PLANNERS:
            some = [row for row in rows if row["figure"] == figure and row["planner"] == planner]
            waits = [name for name in some[0] if name.endswith("_ms")]
            found[planner] = {name: fmean(row[name] for row in some) for name in (*MEANT, *waits)}
            spread = [[float(one) for one in row["share"].split()] for row in some]
            found[planner]["peak"] = _peak([fmean(part) for part in zip(*spread, strict=True)])
            tables.setdefault("plans", []).append({"figure": figure, "planner": planner, **found[planner]})
            tables.setdefault("hops", []).extend(
                {"figure": figure, "planner": planner, "hops": hops, "share": fmean(part)}
                for hops, part in enumerate(zip(*spread, strict=True))
            )
        numbers |= _numbers(figure, found)
    if len(gains := [numbers[name] for name in GAINS if name in numbers]) == len(GAINS):
        numbers["scale_free_latency_least"] = min(gains[1:]) - gains[0]
    return tables, numbers


def _frontier(rows: Sequence[Row]) -> list[Row]:
    """Means over the runs, point by point; number -1 is the published plan."""
    return [
        {
            "kind": kind,
            "number": number,
            **{
                name: fmean(row[name] for row in rows if (row["kind"], row["number"]) == (kind, number))
                for name in ("moves", "hops")
            },
        }
        for kind, number in dict.fromkeys((row["kind"], row["number"]) for row in rows)
    ]


def _sooner(table: Sequence[Row]) -> dict[str, float]:
    """By relations: the share of the published plan's moves with which the search is as good."""
    found = {}
    for kind in relations.KINDS:
        points = sorted(
            (row["moves"], row["hops"]) for row in table if row["kind"] == kind and row["number"] >= 0
        )
        (plan,) = (row for row in table if row["kind"] == kind and row["number"] < 0)
        # Between two points hops fall evenly, near enough.
        moves = points[-1][0]
        for (m0, h0), (m1, h1) in pairwise(points):
            if h1 <= plan["hops"]:
                moves = m0 if h0 <= plan["hops"] else m0 + (m1 - m0) * (h0 - plan["hops"]) / (h0 - h1)
                break
        found[f"frontier_{kind.replace('-', '_')}_moves"] = 100 * moves / plan["moves"]
    return found


def _peak(shares: Sequence[float]) -> int:
    return max(range(len(shares)), key=lambda hops: shares[hops])


def _numbers(figure: str, of: Mapping[str, Row]) -> dict[str, float]:
    before, published, undivided, seats, interest, search, half, beside = (
        of[name] for name in (BEFORE, PUBLISHED, UNDIVIDED, SEATS, INTEREST, SEARCH, HALF, SEARCH_UNDIVIDED)
    )
    percent = {
        "before_5_to_9": before["from_5_to_9"],
        "before_within_4": before["within_4"],
        "before_within_5": before["within_5"],
        "within_4": published["within_4"],
        "within_5": published["within_5"],
        "undivided_within_4": undivided["within_4"],
        "undivided_within_5": undivided["within_5"],
        "interest_within_4": interest["within_4"],
        "more_than_interest": published["within_4"] - interest["within_4"],
        "inside_over": published["inside"] - published["modularity"],
        "backbone_saved": 1 - published["backbone"] / before["backbone"],
        "backbone_more": (interest["backbone"] - published["backbone"]) / before["backbone"],
        "interest_backbone_saved": 1 - interest["backbone"] / before["backbone"],
        "before_half_second": before["within_500_ms"],
        "half_second": published["within_500_ms"],
        "interest_half_second_less": published["within_500_ms"] - interest["within_500_ms"],
        "half_second_more": published["within_500_ms"] - before["within_500_ms"],
        "before_tenth": before["within_100_ms"],
        "tenth": published["within_100_ms"],
        "interest_tenth": interest["within_100_ms"],
        "tenth_more": published["within_100_ms"] - before["within_100_ms"],
        "seats_saved": 1 - seats["hops"] / published["hops"],
        "search_saved": 1 - search["hops"] / published["hops"],
        "half_saved": 1 - half["hops"] / published["hops"],
        "beside_saved": 1 - beside["hops"] / undivided["hops"],
    }
    plain = {
        "before_peak": before["peak"],
        "before_hops": before["hops"],
        "peak": published["peak"],
        "modularity": undivided["modularity"],
        "modularity_last": published["modularity"],
        "interest_load": interest["load"],
        "undivided_hops": undivided["hops"],
        "beside_hops": beside["hops"],
    }
    shares = {name: 100 * value for name, value in percent.items()}
    return {f"{figure}_{name}": value for name, value in {**shares, **plain}.items()}


def plot(tables: Mapping[str, list[Row]], folder: Path) -> list[Path]:
    """The figures as files."""
    from papers.communities import plots

    return plots.draw(tables, folder)
