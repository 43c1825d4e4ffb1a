"""The paper's figures 5 to 9 as files: how many messages take how many hops, before and after each plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from papers.communities.measures import BEFORE, HALF, INTEREST, PUBLISHED, SEARCH, UNDIVIDED, Row

COLOURS = {
    BEFORE: "tab:gray",
    INTEREST: "tab:red",
    PUBLISHED: "tab:blue",
    UNDIVIDED: "tab:cyan",
    HALF: "tab:olive",
    SEARCH: "tab:green",
}


def draw(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[Path]:
    """A file for each figure that was run."""
    found = []
    for name in dict.fromkeys(row["figure"] for row in tables.get("hops", ())):
        rows = [row for row in tables["hops"] if row["figure"] == name]
        figure = Figure(figsize=(6, 4), layout="constrained")
        ax = figure.subplots()
        for planner, colour in COLOURS.items():
            mine = [row for row in rows if row["planner"] == planner and row["hops"] >= 2]
            ax.plot(
                [row["hops"] for row in mine],
                [100 * row["share"] for row in mine],
                "o-",
                markersize=3,
                label=planner,
                color=colour,
            )
        ax.set(
            xlabel="hops of a message, client links included", ylabel="% of messages", title=f"Figure {name}"
        )
        ax.grid(visible=True, alpha=0.3)
        ax.legend(fontsize=8)
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=120)
        found.append(path)
    if "frontier" in tables:
        found.append(_frontier(tables["frontier"], folder / "frontier.png"))
    return found


def _frontier(rows: Sequence[Row], path: Path) -> Path:
    """What so many moves give, with the published plan as a cross of the same colour."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    ax = figure.subplots()
    for kind in dict.fromkeys(row["kind"] for row in rows):
        points = sorted(
            (row["moves"], row["hops"]) for row in rows if row["kind"] == kind and row["number"] >= 0
        )
        (line,) = ax.plot(*zip(*points, strict=True), "o-", markersize=3, label=f"{kind}, search")
        (plan,) = (row for row in rows if row["kind"] == kind and row["number"] < 0)
        ax.plot(plan["moves"], plan["hops"], "x", color=line.get_color(), label=f"{kind}, published")
    ax.set(xlabel="clients moved to another cluster", ylabel="mean hops of a message", title="Frontier")
    ax.grid(visible=True, alpha=0.3)
    ax.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    return path
