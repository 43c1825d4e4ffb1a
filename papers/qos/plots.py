"""Figures 5(a) to 5(h) as files: what the paper says in black, and what we measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

Row = dict[str, Any]

COLOURS = {"printed": "tab:red", "fed": "tab:blue", "ours": "tab:green"}
LABELS = {"printed": "as printed", "fed": "printed, knowing who is fed", "ours": "ours"}
DASHES = {"w1": "-", "w2": "--", "s1": "-", "s2": "--"}
PAPER: dict[str, Any] = {"color": "black", "marker": "*", "markersize": 10, "linestyle": "none"}


def draw(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[Path]:
    """One file for each table that was made."""
    found = []
    for name in sorted(PANELS.keys() & tables.keys()):
        table = tables[name]
        figure = Figure(figsize=(6, 4), layout="constrained")
        ax = figure.subplots()
        PANELS[name](ax, table)
        ax.set_title(f"Figure {name.removeprefix('figure')}")
        ax.grid(visible=True, alpha=0.3)
        ax.legend(fontsize=7)
        path = folder / f"{name}.png"
        # Without a date in the file the same numbers give the same bytes.
        figure.savefig(path, dpi=110, metadata={"Software": None})
        found.append(path)
    return found


def _at(rows: Iterable[Row], **point: object) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in point.items())]


def _lines(ax: Axes, table: Sequence[Row], by: str, x: str, *measures: str) -> None:
    """A line for each algorithm, workload or scenario, and measure."""
    for group in dict.fromkeys(row[by] for row in table):
        for algorithm, colour in COLOURS.items():
            rows = _at(table, algorithm=algorithm, **{by: group})
            for measure in measures if rows else ():
                faint = len(measures) > 1 and measure == measures[-1]
                if f"{measure}_least" in rows[0] and len(rows) <= 12:
                    low, high = ([row[f"{measure}_{end}"] for row in rows] for end in ("least", "most"))
                    ax.fill_between(
                        [row[x] for row in rows], low, high, color=colour, alpha=0.12, linewidth=0
                    )
                ax.plot(
                    [row[x] for row in rows],
                    [row[measure] for row in rows],
                    marker="" if len(rows) > 12 else "o",
                    markersize=3,
                    color=colour,
                    linestyle=DASHES[group],
                    alpha=0.45 if faint else 1.0,
                    label=f"{group.upper()}, {LABELS[algorithm]}"
                    + (f": {measure}" if len(measures) > 1 else ""),
                )


def _growth(ax: Axes, table: Sequence[Row]) -> None:
    _lines(ax, table, "workload", "cycle", "notified", "converged")
    ax.axhline(100, color="black", linewidth=0.8, label="the paper: all, in the end")
    ax.set(xlabel="cycle", ylabel="% of peers")


def _requests(ax: Axes, table: Sequence[Row]) -> None:
    _lines(ax, table, "workload", "requests", "within")
    ax.set(xlabel="connection requests until converged, at most", ylabel="% of peers", xscale="log")


def _churn(ax: Axes, table: Sequence[Row]) -> None:
    _lines(ax, table, "workload", "churn", "notified", "converged")
    ax.set(xlabel="% of peers replaced in each cycle", ylabel="% of peers")


def _size(ax: Axes, table: Sequence[Row]) -> None:
    _lines(ax, table, "workload", "peers", "built_at")
    ax.set(xlabel="peers", ylabel="cycles until 99% have converged", ylim=(0, None))


def _degree(ax: Axes, table: Sequence[Row]) -> None:
    one = {row["algorithm"]: row["in_degree"] for row in table if row["expressions"] == 1}
    _lines(ax, [row | {"workload": "w1"} for row in table], "workload", "expressions", "in_degree")
    ax.plot([8, 128], [one["fed"] + 0.7, one["fed"] + 2.7], label="the paper: 0.7 and 2.7 more", **PAPER)
    ax.set(xlabel="expressions of a subscription", ylabel="parents of a peer", ylim=(0, None))


def _notified(ax: Axes, table: Sequence[Row]) -> None:
    _lines(ax, table, "scenario", "accepted", "notified")
    ax.plot([0, 12.5, 0, 50], [73.7, 100, 61.9, 70.2], label="the paper, S1 and S2", **PAPER)
    capacity = next(row["capacity"] for row in table if row["scenario"] == "s2")
    ax.axhline(capacity, color="black", linewidth=0.8, linestyle=":", label="places within the bounds, S2")
    ax.set(
        xlabel="% of all events that everybody accepts as waste", ylabel="% of peers notified", ylim=(0, 103)
    )


def _carried(ax: Axes, table: Sequence[Row]) -> None:
    _lines(ax, table, "scenario", "accepted", "waste")
    ax.plot([12.5], [7.5], label="the paper, S1", **PAPER)
    ax.set(
        xlabel="% of all events that everybody accepts as waste", ylabel="% of all events, carried as waste"
    )


PANELS: dict[str, Callable[[Axes, Sequence[Row]], None]] = {
    "figure5a": _growth,
    "figure5b": _growth,
    "figure5c": _requests,
    "figure5d": _churn,
    "figure5e": _size,
    "figure5f": _degree,
    "figure5g": _notified,
    "figure5h": _carried,
}
