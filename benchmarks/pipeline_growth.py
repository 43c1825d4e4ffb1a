"""How the pipeline's cost grows with rows, partitions and subscriptions: more lines, and a picture of all.

What is measured is in the modules of the jobs. Lines that a run has already are not measured again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl
from benchmarks.pipeline_measuring import Bench, Row

from benchmarks import pipeline_gather as gather
from benchmarks import pipeline_match as match
from benchmarks import pipeline_traffic as traffic

mpl.use("Agg")  # before pyplot: nobody has a screen here

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

KINDS = {
    "rows": "with rows",
    "partitions": "with partitions",
    "subscriptions": "with subscriptions",
}


def run(
    bench: Bench,
    rows: Iterable[int],
    partitions: Iterable[int],
    subscriptions: Iterable[int],
    *,
    fixed_rows: int,
    fixed_subscriptions: int,
) -> None:
    """Each of the three by itself; the others stay fixed."""
    gather.warm_up(bench, fixed_rows)
    traffic.warm_up(bench, fixed_rows)
    match.warm_up(bench, fixed_subscriptions)
    for size in rows:
        if not had(bench, gather.JOB, size):
            gather.in_batch(bench, size, grows="rows")
        if not had(bench, traffic.JOB, size):
            traffic.at_size(bench, size, grows="rows")
        if not had(bench, match.JOB, size):
            match.count(bench, size, fixed_subscriptions, grows="rows")
    for parts in partitions:
        gather.in_batch(bench, fixed_rows, partitions=parts, grows="partitions")
        traffic.at_size(bench, fixed_rows, partitions=parts, grows="partitions")
        match.count(bench, fixed_rows, fixed_subscriptions, parts, grows="partitions")
    for filters in subscriptions:
        match.count(bench, fixed_rows, filters, grows="subscriptions")


def had(bench: Bench, job: str, rows: int) -> bool:
    """Whether a run has a point of growth with rows."""
    points = [row for row in bench.rows if row.grows == "rows" and row.engine == "Spark"]
    return any((row.job, row.rows) == (job, rows) for row in points)


def series(rows: Iterable[Row], kind: str) -> dict[str, list[Row]]:
    """The lines of one kind of growth, each in its order."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.grows == kind:
            found[f"{row.job}, {row.what}, {row.engine}"].append(row)
    return {name: sorted(points, key=lambda row: int(getattr(row, kind))) for name, points in found.items()}


def draw(rows: list[Row], path: Path) -> None:
    """Seconds that a million rows take, by the clock and of processors."""
    figure, axes = plt.subplots(1, len(KINDS), figsize=(5.4 * len(KINDS), 4.8), squeeze=False)
    for ax, (kind, title) in zip(axes[0], KINDS.items(), strict=True):
        _panel(ax, series(rows, kind), kind)
        ax.set_title(title)
        ax.set_xlabel(kind)
    axes[0][0].set_ylabel("seconds for a million rows")
    figure.suptitle("What the pipeline costs (solid: by the clock, dotted: of all processors)")
    figure.tight_layout()
    # Without a date in the file the same numbers give the same bytes.
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _panel(ax: Axes, lines: dict[str, list[Row]], kind: str) -> None:
    for number, (name, points) in enumerate(lines.items()):
        at = [int(getattr(row, kind)) for row in points]
        colour = f"C{number}"
        ax.plot(at, [1e6 / row.per_s for row in points], "o-", color=colour, markersize=3, label=name)
        ax.plot(at, [1e6 / row.per_cpu_s for row in points], ".:", color=colour)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.grid(visible=True, alpha=0.3)
    if lines:
        ax.legend(fontsize=7)
