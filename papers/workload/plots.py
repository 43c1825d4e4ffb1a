"""The paper's figures as files, from the tables, drawn as `tidings workload describe` draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from papers.workload.rows import Row
from papers.workload.statistics import ELSEWHERE, SHOWN
from tidings.workload import plots
from tidings.workload.describing import Interests

REGIONS = (*SHOWN, ELSEWHERE)


def draw(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[Path]:
    """A file for each table that has a picture."""
    return [
        plots.save(PICTURES[name](table), folder / f"{name}.png")
        for name, table in tables.items()
        if name in PICTURES
    ]


def _heat(table: Sequence[Row]) -> Figure:
    maps = [
        np.array([row["members"].split() for row in table if row["region"] == name], np.int64)
        for name in REGIONS
    ]
    heat = np.stack(maps, axis=-1)
    return plots.heat_maps(Interests(("topic", "language"), REGIONS, (), heat, (), heat))


def _lines(table: Sequence[Row]) -> Figure:
    dimensions = tuple(dict.fromkeys(row["dimension"] for row in table))
    names, lines = [], []
    for dimension in dimensions:
        columns = [
            [row for row in table if row["dimension"] == dimension and row["region"] == name]
            for name in REGIONS
        ]
        names.append(tuple(row["node"] for row in columns[0]))
        lines.append(np.array([[row["members"] for row in column] for column in columns], np.int64).T)
    return plots.dimensions(Interests(dimensions, REGIONS, tuple(names), lines[0], tuple(lines), None))


def _popularity(table: Sequence[Row]) -> Figure:
    labels = dict.fromkeys(row["interests"] for row in table)
    return plots.popularity(
        {
            label: (
                [row["rank"] for row in table if row["interests"] == label],
                [row["members"] for row in table if row["interests"] == label],
            )
            for label in labels
        }
    )


def _removal(table: Sequence[Row]) -> Figure:
    steps = list(dict.fromkeys(row["removed"] for row in table))
    regions = list(dict.fromkeys(row["region"] for row in table))
    left = np.array([row["members"] for row in table], np.int64).reshape(len(steps), len(regions))
    return plots.removal(steps, left, regions)


def _sampling(table: Sequence[Row]) -> Figure:
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for method in dict.fromkeys(row["method"] for row in table):
        rows = [row for row in table if row["method"] == method]
        ax.loglog(
            [row["subscriptions"] for row in rows],
            [row["interests"] for row in rows],
            marker="o",
            markersize=3,
            label=method,
        )
    ax.set(xlabel="subscriptions sampled", ylabel="distinct base interests", title="Ways of sampling")
    ax.grid(visible=True, alpha=0.3)
    ax.legend(fontsize=7)
    return figure


PICTURES = {
    "figure1": _heat,
    "figure2": _lines,
    "figure3": _popularity,
    "figure4": _removal,
    "figure5": _heat,
    "figure6": _lines,
    "sampling": _sampling,
}
