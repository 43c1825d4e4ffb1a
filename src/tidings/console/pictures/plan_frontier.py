"""The frontier: what fewer and what more moves would give, for somebody who has to choose."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tidings.console.drawing import chart, figure_of, nothing, over, text_px, write
from tidings.console.looks import Look
from tidings.console.words import brief


def plan_frontier(points: Sequence[tuple[int, float]], moves: int, hops: float, look: Look) -> Figure:
    """`points`: moves across clusters and mean hops; `moves`, `hops`: the plan's own."""
    if len(points) < 2:
        return nothing(look, "The plan was made without a frontier.")
    ordered = sorted(points)
    colours = look.colours
    height = 270 if look.narrow else 320
    ax = chart(look, height, left=36 if look.narrow else 44, right=24, top=40, bottom=46)
    figure = figure_of(ax)
    x, y = [n for n, _ in ordered], [far for _, far in ordered]
    ax.plot(x, y, color=colours.event, linewidth=1.8, marker="o", markersize=4.5, zorder=3)
    ax.plot([moves], [hops], color=colours.report, marker="o", markersize=9, linestyle="none", zorder=4)
    low, high = min(*y, hops), max(*y, hops)
    room = max(0.05, 0.12 * (high - low))
    ax.set(ylim=(low - room, high + room))
    last = max(*x, moves)
    ax.set_xlim(-0.02 * last, last * 1.04 or 1)
    ax.xaxis.set_major_locator(MaxNLocator(4 if look.narrow else 8, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(lambda value, _: brief(value))
    paper = over(figure, look)
    write(paper, 0, 18, "mean hops of a message", look, px=look.small_px, colour=colours.muted)
    label = f"this plan: {brief(moves)} moves, {hops:.2f} hops"
    write(
        paper,
        look.width_px - 24 - text_px(label, look.small_px, bold=True),
        18 if not look.narrow else 34,
        label,
        look,
        px=look.small_px,
        colour=colours.report,
        bold=True,
    )
    write(
        paper,
        look.width_px - 24,
        height - 8,
        "clients that go to another cluster",
        look,
        px=look.small_px,
        colour=colours.muted,
        align="right",
    )
    return figure
