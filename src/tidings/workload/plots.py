"""A workload in pictures, like the paper's figures: each function draws one into a file.

Nothing is computed that a table does not have; what is drawn is in `describing` and `characteristics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

from tidings.workload import characteristics
from tidings.workload.describing import Description, Interests, Positions, Row, removals

mpl.use("Agg")  # before pyplot: nobody has a screen here

from matplotlib import pyplot as plt
from matplotlib.colors import LogNorm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

TICKS_MAX = 12
"""Names along an axis."""


def draw(found: Description, folder: Path) -> list[Path]:
    """Every picture that the workload has something for."""
    made: list[Path] = []

    def keep(name: str, figure: Figure) -> None:
        made.append(save(figure, folder / f"{name}.png"))

    if found.interests is not None and found.interests.members.sum():
        members = found.interests.members
        totals = characteristics.popularity(members)
        keep("popularity", popularity({"members": (np.arange(1, len(totals) + 1), totals)}))
        steps = removals(len(members))
        keep("removal", removal(steps, characteristics.left(members, steps), found.interests.regions))
        keep("dimensions", dimensions(found.interests))
        if found.interests.heat is not None:
            keep("interests", heat_maps(found.interests))
    if found.positions is not None:
        keep("positions", positions(found.positions))
    if "time" in found.tables:
        keep("time", time(found.tables["time"]))
    if "reports" in found.tables:
        keep("reports", reports(found.tables["reports"]))
    return made


def save(figure: Figure, path: Path) -> Path:
    """A picture as a file; without a date in it the same numbers give the same bytes."""
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return path


def popularity(curves: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Figure:
    """Members of interests by rank (figure 3): ranks from 1 and members, of one curve or more."""
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for label, (ranks, totals) in curves.items():
        ax.loglog(ranks, np.ma.masked_equal(totals, 0), label=label)
    ax.axhline(2**18, color="grey", linestyle=":", linewidth=1, label="2^18, the paper's top three")
    ax.set(xlabel="rank of the interest", ylabel="members", title="Popularity of base interests")
    ax.yaxis.set_major_locator(mpl.ticker.LogLocator(base=2, numticks=12))
    ax.yaxis.set_major_formatter(mpl.ticker.LogFormatterMathtext(base=2))
    ax.yaxis.set_minor_locator(mpl.ticker.NullLocator())  # they would be those of base 10
    _finish(ax)
    return figure


def removal(steps: Sequence[int], left: NDArray[np.int64], regions: Sequence[str]) -> Figure:
    """Shares of regions as the most popular interests are removed (figure 4), from what each step leaves."""
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    shares = 100.0 * left / np.maximum(1, left.sum(axis=1, keepdims=True))
    for at in np.argsort(-shares[0], kind="stable"):
        ax.plot(steps, shares[:, at], marker="o", markersize=3, label=regions[at])
    ax.set_xscale("symlog", linthresh=1)
    ax.set(xlabel="most popular interests removed", ylabel="share of members, %", title="Regions")
    _finish(ax)
    return figure


def heat_maps(interests: Interests) -> Figure:
    """Interests over the event space, in all regions and in each (figures 1 and 5)."""
    assert interests.heat is not None
    order = np.argsort(-interests.heat.sum(axis=(0, 1)), kind="stable")
    named = [("all regions", interests.heat.sum(axis=2))]
    named += [(interests.regions[at], interests.heat[..., at]) for at in order]
    across = min(3, len(named))
    down = -(-len(named) // across)
    figure, axes = plt.subplots(
        down, across, figsize=(4.6 * across, 4.0 * down), squeeze=False, layout="constrained"
    )
    norm = LogNorm(1, max(2, int(named[0][1].max())))
    for at, (ax, (title, counts)) in enumerate(zip(axes.flat, named, strict=False)):
        shown = ax.imshow(
            np.ma.masked_equal(counts, 0), aspect="auto", norm=norm, interpolation="nearest", origin="lower"
        )
        ax.set_title(title)
        if interests.names:
            _name(ax.yaxis, interests.names[0])
            _name(ax.xaxis, interests.names[1], rotation=40, ha="right", rotation_mode="anchor")
        # All maps have the same axes: they are labelled on the left, and where nothing is below.
        if at % across == 0:
            ax.set_ylabel(interests.dimensions[0])
        else:
            ax.tick_params(labelleft=False)
        if at + across >= len(named):
            ax.set_xlabel(interests.dimensions[1])
        else:
            ax.tick_params(labelbottom=False)
    for ax in list(axes.flat)[len(named) :]:
        ax.set_visible(False)
    figure.colorbar(shown, ax=axes, label="subscriptions")
    return figure


def dimensions(interests: Interests) -> Figure:
    """Subscribers along each dimension, by region (figures 2 and 6)."""
    count = len(interests.dimensions)
    figure, axes = plt.subplots(count, 1, figsize=(11, 3.4 * count), squeeze=False, layout="constrained")
    for ax, name, nodes, line in zip(
        axes[:, 0], interests.dimensions, interests.names, interests.lines, strict=True
    ):
        for at in np.argsort(-line.sum(axis=0), kind="stable"):
            ax.plot(line[:, at], linewidth=0.9, drawstyle="steps-mid", label=interests.regions[at])
        ax.set_yscale("symlog", linthresh=1)
        # From 0, which has a label: between two powers of ten there would be none.
        ax.set_ylim(bottom=0)
        _name(ax.xaxis, nodes, rotation=20, ha="right")
        ax.set(ylabel="subscriptions", title=f"Along {name}")
        _finish(ax)
    return figure


def positions(found: Positions) -> Figure:
    """Clients, brokers and links in the plane in which they lie farthest apart."""
    points = np.concatenate([found.brokers, found.clients])
    centre = points.mean(axis=0)
    _, _, axes = np.linalg.svd(points - centre, full_matrices=False)
    plane = axes[:2] * np.sign(axes[:2, :1] + (axes[:2, :1] == 0))
    brokers, clients = (found.brokers - centre) @ plane.T, (found.clients - centre) @ plane.T
    figure, ax = plt.subplots(figsize=(7.5, 6), layout="constrained")
    colours = plt.get_cmap("tab10")
    if plane.shape[0] < 2:
        brokers, clients = (np.pad(one, ((0, 0), (0, 1))) for one in (brokers, clients))
    for a, b in found.links:
        ax.plot(*zip(brokers[a], brokers[b], strict=True), color="grey", linewidth=0.5, zorder=1)
    for at, region in enumerate(found.regions):
        here = clients[found.client_region == at]
        ax.scatter(here[:, 0], here[:, 1], s=3, color=colours(at % 10), alpha=0.35, label=region, zorder=2)
        here = brokers[found.broker_region == at]
        ax.scatter(
            here[:, 0], here[:, 1], s=45, color=colours(at % 10), edgecolor="black", marker="s", zorder=3
        )
    ax.set(
        xlabel="first axis, ms", ylabel="second axis, ms", title="Clients (dots), brokers (squares), links"
    )
    _finish(ax)
    return figure


def time(rows: Sequence[Row]) -> Figure:
    """What happens when."""
    kinds = [name for name in rows[0] if name != "from"]
    figure, axes = plt.subplots(
        len(kinds), 1, figsize=(9, 2.3 * len(kinds)), squeeze=False, sharex=True, layout="constrained"
    )
    for ax, kind in zip(axes[:, 0], kinds, strict=True):
        ax.step(range(len(rows)), [row[kind] for row in rows], where="post")
        ax.set_ylim(bottom=0)
        ax.set(ylabel=f"{kind} there" if kind == "subscriptions" else kind)
        ax.grid(visible=True, alpha=0.3)
    _name(axes[-1, 0].xaxis, [str(row["from"]) for row in rows], 8, rotation=20, ha="right")
    return figure


def reports(rows: Sequence[Row]) -> Figure:
    """How many reports events have."""
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    ax.bar([row["reports_each"] for row in rows], [row["events"] for row in rows], width=0.8)
    ax.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    ax.set(xlabel="reports of an event", ylabel="events", title="Reports")
    ax.grid(visible=True, alpha=0.3)
    return figure


def _name(axis: Axis, names: Sequence[str], ticks_max: int = TICKS_MAX, **how: Any) -> None:
    """Label an axis of places by their names: all of them, or so many at even distances."""
    ticks = np.unique(np.linspace(0, len(names) - 1, min(ticks_max, len(names))).astype(int))
    axis.set_ticks(ticks, [names[at] for at in ticks], fontsize=7, **how)


def _finish(ax: Axes) -> None:
    ax.grid(visible=True, alpha=0.3)
    ax.legend(fontsize=7, markerscale=2)
