"""The paper's figures 4 and 5 as files, with our search beside what it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from papers.storage.measures import Row

LINES = {
    "rnd": ("rnd", "tab:red"),
    "pubsub": ("pub/sub, as published and repaired", "tab:blue"),
    "local": ("search from there (ours)", "tab:green"),
    "grd_opt": ("grd opt, without limits", "tab:gray"),
}

AXES = {"4-brokers": "brokers", "4-capacity": "capacity", "4-replicas": "replicas"}


def draw(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[Path]:
    """A file for each figure that was run."""
    found = []
    for figure, axis in AXES.items():
        if figure in tables:
            found.append(_save(_distances(tables[figure], axis), folder / f"{figure}.png"))
            found.append(_save(_stores(tables[figure], axis), folder / f"{figure}-stores.png"))
    return found


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=120)
    return path


def _distances(table: Sequence[Row], axis: str) -> Figure:
    figure = Figure(figsize=(6, 4), layout="constrained")
    ax = figure.subplots()
    for name, (label, colour) in LINES.items():
        ax.plot([row[axis] for row in table], [row[name] for row in table], "o-", label=label, color=colour)
    ax.set(xlabel=axis, ylabel="mean hops of a request", title="Figure 4", ylim=(0, None))
    ax.grid(visible=True, alpha=0.3)
    ax.legend(fontsize=8)
    return figure


def _stores(table: Sequence[Row], axis: str) -> Figure:
    figure = Figure(figsize=(6, 4), layout="constrained")
    ax = figure.subplots()
    for name in ("grd_opt", "pubsub"):
        label, colour = LINES[name]
        places = [row[axis] for row in table]
        ax.plot(places, [row[f"stores_{name}"] for row in table], "o-", label=label, color=colour)
    ax.set(xlabel=axis, ylabel="stores used", title="Figure 5", ylim=(0, None))
    ax.grid(visible=True, alpha=0.3)
    ax.legend(fontsize=8)
    return figure
