"""The figures as files: what the paper claims, what we measured, and the Siena baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl

from papers.agele.figures import SIZES, STRATEGIES, WHERE, Row

mpl.use("Agg")  # before pyplot: nobody has a screen here

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

PAPER: dict[str, Any] = {"color": "black", "linestyle": "--", "linewidth": 1}
SIENA: dict[str, Any] = {"color": "grey", "linestyle": ":", "linewidth": 1.5}


def draw(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[Path]:
    """One file for each table that was made."""
    made = []
    for name, table in tables.items():
        panels = PANELS[name]
        figure, axes = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 4.2), squeeze=False)
        for ax, panel in zip(axes[0], panels, strict=True):
            panel(ax, table)
            ax.grid(visible=True, alpha=0.3)
            if ax.get_legend_handles_labels()[0]:
                ax.legend(fontsize=7)
        figure.suptitle(TITLES[name])
        figure.tight_layout()
        path = folder / f"{name}.png"
        # Without a date in the file the same numbers give the same bytes.
        figure.savefig(path, dpi=110, metadata={"Software": None})
        plt.close(figure)
        made.append(path)
    return made


def _where(table: Iterable[Row], **at: object) -> list[Row]:
    return [row for row in table if all(row[name] == value for name, value in at.items())]


def _line(ax: Axes, rows: Sequence[Row], x: str, y: str, label: str, **style: Any) -> None:
    drawn: dict[str, Any] = {"marker": "o", "markersize": 3, **style}
    ax.plot([row[x] for row in rows], [row[y] for row in rows], label=label, **drawn)


def _by_tb(x: str, y: str) -> Callable[[Axes, Sequence[Row]], None]:
    def panel(ax: Axes, table: Sequence[Row]) -> None:
        rows = _where(table, engine="machine", brokers=_usual(table))
        for tb in sorted({row["tb"] for row in rows}):
            _line(ax, _where(rows, tb=tb), x, y, f"Tb = {tb:g}")
        for row in _where(table, engine="brokers", brokers=_usual(table)):
            ax.plot(row[x], row[y], "k*", markersize=9, label="brokers, hop by hop (2 runs)")
        ax.axhline(0, label="Siena", **SIENA)
        _labels(ax, x, y)

    return panel


def _usual(table: Sequence[Row]) -> int:
    """The size of network that most points have."""
    sizes: list[int] = [row["brokers"] for row in table if row["engine"] == "machine"]
    return max(sorted(set(sizes)), key=sizes.count)


def _labels(ax: Axes, x: str, y: str) -> None:
    ax.set_xlabel(WORDS[x])
    ax.set_ylabel(WORDS[y])


WORDS = {
    "tm": "Tm, time units",
    "tr": "Tr, time units",
    "tb": "Tb, time units",
    "brokers": "brokers",
    "suppressed": "messages suppressed, %",
    "duplicates": "dropped as duplicates, %",
    "merges": "suppressed by merging, %",
    "overhead": "added time, %",
    "time": "time of an event, time units",
    "eccentricity": "eccentricity of the gatherer",
    "seats": "seats",
}


def _figure3_overhead(ax: Axes, table: Sequence[Row]) -> None:
    _by_tb("tm", "overhead")(ax, table)
    for value, text in ((5, "paper: from 5%"), (34, "paper: to 34%"), (24, "paper: at most 24% at Tb = 100")):
        ax.axhline(value, **PAPER)
        ax.annotate(text, (0, value), fontsize=7, va="bottom")
    ax.plot(4, 15, "kx", label="paper: Tm = 4, Tb = 100")


def _figure3_suppressed(ax: Axes, table: Sequence[Row]) -> None:
    _by_tb("tm", "suppressed")(ax, table)
    ax.plot(4, 70, "k^", label="paper: over 70% at Tm = 4, Tb = 100")


def _figure3_breakdown(ax: Axes, table: Sequence[Row]) -> None:
    rows = _where(table, engine="machine", tb=100.0)
    at = [row["tm"] for row in rows]
    width = 0.7 * min(later - earlier for earlier, later in pairwise(at))
    duplicates = [row["duplicates"] for row in rows]
    ax.bar(at, duplicates, width, label="duplicates")
    ax.bar(at, [row["merges"] for row in rows], width, bottom=duplicates, label="merged")
    ax.set_title("Tb = 100", fontsize=9)
    _labels(ax, "tm", "suppressed")


def _figure4_overhead(ax: Axes, table: Sequence[Row]) -> None:
    _by_tb("tr", "overhead")(ax, table)
    ax.set_title("paper: independent of Tr", fontsize=9)


def _figure4_table(ax: Axes, table: Sequence[Row]) -> None:
    rows = _where(table, engine="machine", tr=10.0, brokers=_usual(table))
    ax.bar([f"{row['tb']:g}" for row in rows], [row["overhead"] for row in rows])
    ax.axhline(0, label="Siena", **SIENA)
    ax.set_title("Tr = 10; paper: only slightly dependent on Tb", fontsize=9)
    _labels(ax, "tb", "overhead")


def _by_size(*measures: str) -> Callable[[Axes, Sequence[Row]], None]:
    def panel(ax: Axes, table: Sequence[Row]) -> None:
        for measure in measures:
            _line(ax, _where(table, engine="machine"), "brokers", measure, WORDS[measure])
        rows = _where(table, engine="brokers")
        for measure, label in zip(measures, ("on brokers, hop by hop", "", ""), strict=False):
            _line(ax, rows, "brokers", measure, label, marker="*", color="k", linestyle="")
        _sizes(ax)
        ax.axhline(0, label="Siena", **SIENA)
        _labels(ax, "brokers", measures[0])

    return panel


def _sizes(ax: Axes) -> None:
    ax.set_xscale("log", base=2)
    ax.set_xticks(SIZES, [f"{size:,}" for size in SIZES])


def _figure5_overhead(ax: Axes, table: Sequence[Row]) -> None:
    _by_size("overhead")(ax, table)
    ax.axhspan(17, 32, alpha=0.12, color="black", label="paper: 17% to 32%")


def _figure6(ax: Axes, table: Sequence[Row]) -> None:
    for gatherers, text in (("one", "one gatherer at a time"), ("all", "all brokers of that eccentricity")):
        rows = _where(table, engine="machine", gatherers=gatherers)
        _line(ax, rows, "eccentricity", "time", text)
    _line(ax, _where(table, engine="brokers"), "eccentricity", "time", "on brokers", marker="*", color="k")
    ax.axhline(rows[0]["siena_time"], label="Siena", **SIENA)
    ax.set_title("paper: grows with eccentricity", fontsize=9)
    _labels(ax, "eccentricity", "time")


def _centre_time(ax: Axes, table: Sequence[Row]) -> None:
    for shape in ("random", "power-law"):
        for protocol in ("paper", "report"):
            rows = _where(table, shape=shape, protocol=protocol, initiators=1)
            _line(ax, rows, "brokers", "time", f"{shape}, protocol {protocol}")
    _sizes(ax)
    ax.set_xlabel("brokers")
    ax.set_ylabel("time to find the centre, time units")


def _centre_messages(ax: Axes, table: Sequence[Row]) -> None:
    for protocol in ("paper", "report"):
        rows = _where(table, shape="random", protocol=protocol, initiators=1)
        _line(ax, rows, "brokers", "messages", f"random, protocol {protocol}")
    sizes, bounds = [row["brokers"] for row in rows], [row["bound"] for row in rows]
    ax.plot(sizes, bounds, label="paper: (L + 4)(M - 1)", **PAPER)
    _sizes(ax)
    ax.set_yscale("log")
    ax.set_xlabel("brokers")
    ax.set_ylabel("messages")


def _seats(measure: str, text: str) -> Callable[[Axes, Sequence[Row]], None]:
    def panel(ax: Axes, table: Sequence[Row]) -> None:
        names = STRATEGIES
        for shift, where in enumerate(WHERE):
            rows = {row["seat"]: row for row in _where(table, part="seat", where=where)}
            at = [position + 0.4 * shift - 0.2 for position in range(len(names))]
            ax.bar(at, [rows[name][measure] for name in names], 0.36, label=f"publishers: {where}")
        ax.set_xticks(range(len(names)), names)
        ax.set_ylabel(text)

    return panel


def _several(ax: Axes, table: Sequence[Row]) -> None:
    rows = _where(table, part="several", engine="machine")
    _line(ax, rows, "seats", "busiest", "messages at the busiest seat, %")
    _line(ax, rows, "seats", "overhead", "added time, %")
    ax.set_xlabel("seats")


TITLES = {
    "figure3": "Figure 3: varying Tm (500 brokers, Tr = 10)",
    "figure4": "Figure 4: varying Tr (500 brokers, Tm = 0)",
    "figure5": "Figure 5: more brokers (Tm = 5, Tr = 10, Tb = 50)",
    "figure6": "Figure 6: the gatherer elsewhere (300 brokers)",
    "centre": "Finding the centre",
    "power-law": "Figure 3 on power-law overlays",
    "beyond": "Beyond the paper",
}

PANELS: dict[str, list[Callable[[Axes, Sequence[Row]], None]]] = {
    "figure3": [_figure3_suppressed, _figure3_breakdown, _figure3_overhead],
    "figure4": [_by_tb("tr", "suppressed"), _figure4_overhead, _figure4_table],
    "figure5": [_by_size("suppressed", "duplicates", "merges"), _figure5_overhead],
    "figure6": [_figure6],
    "centre": [_centre_time, _centre_messages],
    "power-law": [_by_tb("tm", "suppressed"), _by_tb("tm", "overhead")],
    "beyond": [
        _seats("hops_to_seat", "links to the seat, mean"),
        _seats("overhead", "added time, %"),
        _several,
    ],
}
