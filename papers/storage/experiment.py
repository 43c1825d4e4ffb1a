"""What `tidings reproduce storage` calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from papers.storage import measures, setting
from papers.storage.measures import Row
from papers.storage.setting import Setting
from papers.storage.trees import TREES

TITLE = "Placing and replicating stores in a publish/subscribe network"

FIGURES: Mapping[str, str] = {
    "4-brokers": "Mean distance and stores against the number of brokers (figures 4 and 5, left)",
    "4-capacity": "The same against the capacity of a store (figures 4 and 5, middle)",
    "4-replicas": "The same against the replicas of a topic (figures 4 and 5, right)",
    "trees": "How much it matters which tree the brokers form",
    "exact": "How far from the best there is, for one topic",
    "exact-many": "The same for four topics in stores that are full",
    "requests": "Requests sent one by one: what the forecast is worth",
}

RUNS, QUICK_RUNS = 30, 4

BROKERS, QUICK_BROKERS = (20, 40, 60, 80, 100), (20, 40)
REPLICAS = (1, 2, 3, 4, 5)
EXACT_BROKERS = 30

TREE_BROKERS, QUICK_TREE_BROKERS = (20, 50, 100), (20,)

OVER, FEWER, TIMES = (1.0, 15.0), (50.0, 80.0), 3.0
"""What the paper says: so much worse than grd opt, so many stores fewer, so many times fewer at SC = T."""

MANY = {"brokers": 12, "topics": 4, "replicas": 2, "capacity": 2}
"""A problem that integer programming proves in a second or two, with eight replicas in four stores."""

PLANNERS = ("pubsub", "grd_opt", "rnd", "local")


def tasks(
    figures: Sequence[str], quick: bool, runs: int | None, seed: int, given: Mapping[str, str]
) -> list[dict[str, Any]]:
    """What is to be run: one task for each point of a figure and each run."""
    chosen = setting.read(seed, given)
    count = runs or (QUICK_RUNS if quick else RUNS)
    return [
        {"figure": figure, "cost": _cost(point), "point": point, "run": number, "setting": asdict(chosen)}
        for figure in figures
        for point in _points(figure, chosen, quick)
        for number in range(count)
    ]


def _points(figure: str, chosen: Setting, quick: bool) -> Iterable[dict[str, Any]]:
    usual = {
        "tree": chosen.tree,
        "brokers": min(chosen.brokers, 30) if quick else chosen.brokers,
        "replicas": chosen.replicas,
        "capacity": chosen.capacity,
    }
    if figure == "4-brokers":
        return [{**usual, "brokers": count} for count in (QUICK_BROKERS if quick else BROKERS)]
    if figure == "4-capacity":
        return [{**usual, "capacity": size} for size in range(chosen.replicas, chosen.topics + 1)]
    if figure == "4-replicas":
        return [{**usual, "replicas": count} for count in REPLICAS]
    if figure == "trees":
        sizes = QUICK_TREE_BROKERS if quick else TREE_BROKERS
        return [{**usual, "tree": tree, "brokers": count} for tree in TREES for count in sizes]
    if figure == "exact-many":
        return [{"tree": chosen.tree, **MANY}]
    if figure == "exact":
        return [
            {**usual, "brokers": 15 if quick else EXACT_BROKERS, "replicas": count} for count in (1, 2, 3)
        ]
    return [usual]


def _cost(point: Mapping[str, Any]) -> float:
    return (int(point["brokers"]) / 50) ** 3


def run(task: dict[str, Any]) -> list[Row]:
    """The row of one run."""
    chosen, point = Setting(**task["setting"]), task["point"]
    seed = chosen.seed * 1_000_003 + task["run"]
    named = {"figure": task["figure"], "run": task["run"], **point}
    if task["figure"] == "exact":
        return [{**named, **measures.judged(point["tree"], point["brokers"], point["replicas"], seed)}]
    if task["figure"] == "exact-many":
        return [{**named, **measures.judged_many(**{"kind": point["tree"], **MANY}, seed=seed)}]
    if task["figure"] == "trees":
        told = measures.compared(
            point["tree"], point["brokers"], chosen.topics, point["replicas"], point["capacity"], seed
        )
        return [{**named, **told}]
    asked = measures.problem(
        point["tree"], point["brokers"], chosen.topics, point["replicas"], point["capacity"], seed
    )
    if task["figure"] == "requests":
        told = measures.one_by_one(asked, chosen.requests, chosen.published, chosen.lifetime, seed)
        return [{**named, **told}]
    return [{**named, **measures.run(asked, seed)}]


VARIES = {"4-brokers": "brokers", "4-capacity": "capacity", "4-replicas": "replicas"}


def conclude(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]:
    """Means over the runs as tables, and numbers for the claims."""
    tables: dict[str, list[Row]] = {}
    numbers: dict[str, float] = {}
    for figure in dict.fromkeys(row["figure"] for row in rows):
        mine = [row for row in rows if row["figure"] == figure]
        if figure in VARIES:
            tables[figure] = _means(mine, VARIES[figure])
            numbers |= _claimed(figure, tables[figure])
        elif figure == "exact":
            tables[figure] = _means(mine, "replicas")
            for planner in ("grd_opt", "local"):
                apart = [row[planner] / row["exact"] - 1 for row in mine if row["exact"] > 0]
                numbers[f"{planner}_over_exact"] = 100 * fmean(apart)
        elif figure == "exact-many":
            tables[figure] = _means(mine, "brokers")
            numbers["proved"] = 100 * fmean(row["proved"] for row in mine)
            for planner in ("pubsub", "rnd", "local"):
                apart = [row[planner] / row["exact"] - 1 for row in mine]
                numbers[f"{planner}_over_exact_many"] = 100 * fmean(apart)
        elif figure == "trees":
            tables[figure] = _trees(mine)
            closest = tables[figure][0]
            numbers |= {
                f"closest_{name}": closest[name]
                for name in ("over_least", "over_most", "fewer_least", "fewer_most", "times")
            }
        else:
            tables[figure] = mine
            numbers["forecast_off"] = 100 * max(abs(row["measured"] / row["forecast"] - 1) for row in mine)
    return tables, numbers


def _trees(rows: Sequence[Row]) -> list[Row]:
    """By tree, the closest to the paper first: the least and the most over the sizes of the network."""
    found = []
    for tree in dict.fromkeys(row["tree"] for row in rows):
        over, fewer, times = [], [], []
        for count in dict.fromkeys(row["brokers"] for row in rows):
            some = [row for row in rows if (row["tree"], row["brokers"]) == (tree, count)]
            names = ("grd_opt", "tight", "stores_grd_opt", "stores_tight", "stores_roomy")
            mean = {name: fmean(row[name] for row in some) for name in names}
            over.append(100 * (mean["tight"] / mean["grd_opt"] - 1))
            fewer.append(100 * (1 - mean["stores_tight"] / mean["stores_grd_opt"]))
            times.append(mean["stores_grd_opt"] / mean["stores_roomy"])
        outside = sum(
            max(0.0, low - min(values)) + max(0.0, max(values) - high)
            for values, (low, high) in ((over, OVER), (fewer, FEWER))
        )
        found.append(
            {
                "tree": tree,
                "over_least": min(over),
                "over_most": max(over),
                "fewer_least": min(fewer),
                "fewer_most": max(fewer),
                "times": max(times),
                "outside": outside + 100 * abs(max(times) - TIMES) / TIMES,
            }
        )
    return sorted(found, key=lambda row: row["outside"])


def _means(rows: Sequence[Row], by: str) -> list[Row]:
    found = []
    for value in dict.fromkeys(row[by] for row in rows):
        some = [row for row in rows if row[by] == value]
        kept = [name for name in some[0] if name not in ("figure", "run", "tree") and name != by]
        found.append({by: value, **{name: fmean(row[name] for row in some) for name in kept}})
    return found


def _claimed(figure: str, table: Sequence[Row]) -> dict[str, float]:
    name = figure.replace("-", "_")
    over = [100 * (row["pubsub"] / row["grd_opt"] - 1) for row in table]
    fewer = [100 * (1 - row["stores_pubsub"] / row["stores_grd_opt"]) for row in table]
    saved = [100 * (1 - row["local"] / row["pubsub"]) for row in table]
    between = [row["grd_opt"] <= row["pubsub"] + 1e-9 and row["pubsub"] <= row["rnd"] for row in table]
    numbers = {
        f"{name}_between": 100 * fmean(between),
        f"{name}_over_least": min(over),
        f"{name}_over_most": max(over),
        f"{name}_fewer_least": min(fewer),
        f"{name}_fewer_most": max(fewer),
        f"{name}_short_least": 100 * min(row["short"] for row in table),
        f"{name}_short_most": 100 * max(row["short"] for row in table),
        f"{name}_local_least": min(saved),
        f"{name}_local_most": max(saved),
        f"{name}_free_least": min(100 * (1 - row["local_free"] / row["grd_opt"]) for row in table),
    }
    if figure == "4-brokers":
        first, last = table[0], table[-1]
        numbers["hops_grow_slower"] = (last["pubsub"] / first["pubsub"]) / (
            last["brokers"] / first["brokers"]
        )
    if figure == "4-capacity":
        numbers["whole_capacity_over"] = over[-1]
        numbers["tight_capacity_over"] = over[0]
        numbers["whole_capacity_saved"] = saved[-1]
        numbers["whole_capacity_fewer"] = table[-1]["stores_grd_opt"] / table[-1]["stores_pubsub"]
        numbers["capacity_helps"] = 100 * (1 - table[-1]["pubsub"] / table[0]["pubsub"])
    if figure == "4-replicas":
        numbers["replicas_help"] = 100 * (1 - table[-1]["pubsub"] / table[0]["pubsub"])
    return numbers


def plot(tables: Mapping[str, list[Row]], folder: Path) -> list[Path]:
    """The figures as files."""
    from papers.storage import plots

    return plots.draw(tables, folder)
