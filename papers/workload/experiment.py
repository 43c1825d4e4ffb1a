"""What `tidings reproduce workload` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from papers.workload import figures as figures_
from papers.workload import setting
from papers.workload.figures import Row
from papers.workload.setting import Setting

TITLE = "A generator of workloads for wide-area publish/subscribe"

FIGURES: Mapping[str, str] = {name: figure.title for name, figure in figures_.FIGURES.items()}

RUNS, QUICK_RUNS = 20, 3
"""Samples of each size."""

SPARK = "spark"
"""What a quick run leaves out: Spark alone takes longer to start than the rest to run."""


def tasks(
    figures: Sequence[str], quick: bool, runs: int | None, seed: int, given: Mapping[str, str]
) -> list[dict[str, Any]]:
    """What is to be run."""
    count = runs or (QUICK_RUNS if quick else RUNS)
    chosen = asdict(setting.read(seed, given))
    return [
        {
            "figure": name,
            "cost": figures_.FIGURES[name].cost,
            "runs": count,
            "quick": quick,
            "setting": chosen,
        }
        for name in figures
        if not (quick and name == SPARK)
    ]


def run(task: dict[str, Any]) -> list[Row]:
    """The rows of one figure."""
    figure = figures_.FIGURES[task["figure"]]
    rows = figure.rows(Setting(**task["setting"]), figures_.Asked(task["runs"], task["quick"]))
    return [{"figure": task["figure"], **{name: _plain(row[name]) for name in row}} for row in rows]


def _plain(value: Any) -> Any:
    """A value of Python's own, for CSV and JSON."""
    return value.item() if isinstance(value, np.generic) else value


def conclude(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]:
    """Tables, and numbers for the claims: the rows of kind `number` are those."""
    tables: dict[str, list[Row]] = {}
    numbers: dict[str, float] = {}
    for row in rows:
        rest = {name: value for name, value in row.items() if name not in ("figure", "kind")}
        if row["kind"] == figures_.NUMBER:
            numbers[rest["name"]] = float(rest["value"])
        else:
            tables.setdefault(row["kind"], []).append(rest)
    return tables, numbers


def plot(tables: Mapping[str, list[Row]], folder: Path) -> list[Path]:
    """The figures as files."""
    from papers.workload import plots

    return plots.draw(tables, folder)
