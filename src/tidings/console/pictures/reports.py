"""Reports against events over time: what came in, and what went out of it."""

from __future__ import annotations

from itertools import pairwise

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tidings.console import totals
from tidings.console.day import Day, Moment
from tidings.console.drawing import chart, figure_of, nothing, over, text_px, time_ticks, write
from tidings.console.looks import Look
from tidings.console.words import brief, counted

BINS_WIDE, BINS_NARROW = 160, 64


def reports(day: Day, look: Look) -> Figure:
    if not day.moments or not any(moment.reports or moment.versions for moment in day.moments):
        return nothing(look, "Nothing was reported.")
    edges_s, came, told = _binned(day.moments, BINS_NARROW if look.narrow else BINS_WIDE)
    lived = [edge * day.speed_up for edge in edges_s]
    minutes = [(b - a) / 60 for a, b in pairwise(lived)]
    colours = look.colours
    height = 300 if look.narrow else 340
    top = 78 if look.narrow else 62
    ax = chart(look, height, left=40 if look.narrow else 48, right=26, top=top, bottom=46)
    figure = figure_of(ax)
    rates = [
        ([n / m for n, m in zip(values, minutes, strict=True)], colour, fill)
        for values, colour, fill in ((came, colours.report, 0.28), (told, colours.event, 0.85))
    ]
    for values, colour, fill in rates:
        ax.stairs(values, lived, fill=True, color=colour, alpha=fill, linewidth=0)
        ax.stairs(values, lived, color=colour, linewidth=1.3, baseline=None)
    ax.set(xlim=(lived[0], lived[-1]), ylim=(0, max(max(values) for values, _, _ in rates) * 1.06 or 1))
    ax.yaxis.set_major_locator(MaxNLocator(4 if look.narrow else 5))
    ax.yaxis.set_major_formatter(lambda value, _: brief(value))
    ticks = time_ticks(lived[-1] - lived[0], 4 if look.narrow else 9)
    ax.set_xticks([lived[0] + at for at, _ in ticks], [label for _, label in ticks])

    paper = over(figure, look)
    came_text = counted(totals.reports(day), "report") + " in"
    write(paper, 0, 18, came_text, look, colour=colours.report, bold=True)
    told_text = counted(totals.versions(day), "version") + " out"
    if look.narrow:
        write(paper, 0, 36, told_text, look, colour=colours.event, bold=True)
    else:
        write(
            paper,
            text_px(came_text, look.text_px, bold=True) + 28,
            18,
            told_text,
            look,
            colour=colours.event,
            bold=True,
        )
    write(paper, 0, top - 20, "per minute", look, px=look.small_px, colour=colours.muted)
    faster = f", played {day.speed_up:,.0f} times faster" if day.speed_up > 1 else ""
    write(
        paper,
        look.width_px - 26,
        height - 8,
        f"time since the day began{faster}",
        look,
        px=look.small_px,
        colour=colours.muted,
        align="right",
    )
    return figure


def _binned(moments: tuple[Moment, ...], bins: int) -> tuple[list[float], list[int], list[int]]:
    """Edges in seconds, and what came and was told between them.

    Neighbours are taken together where there are more moments than a screen can tell apart.
    """
    ordered = sorted(moments, key=lambda moment: moment.at_s)
    at_once = -(-len(ordered) // bins)
    groups = [ordered[i : i + at_once] for i in range(0, len(ordered), at_once)]
    starts = [group[0].at_s for group in groups]
    # How long the last one lasts is not said; as long as those before it.
    span = (ordered[-1].at_s - ordered[0].at_s) / (len(ordered) - 1) if len(ordered) > 1 else 1.0
    edges = [*starts, starts[-1] + len(groups[-1]) * (span or 1.0)]
    for i in range(1, len(edges)):
        edges[i] = max(edges[i], edges[i - 1] + 1e-6)
    return (
        edges,
        [sum(moment.reports for moment in group) for group in groups],
        [sum(moment.versions for moment in group) for group in groups],
    )
