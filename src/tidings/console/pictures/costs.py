"""What the same day costs in other ways: bars side by side, for messages, bytes and processor time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tidings.console import totals
from tidings.console.day import Cost, Day
from tidings.console.drawing import bar, keys, nothing, sheet, text_px, write
from tidings.console.looks import Look
from tidings.console.words import brief, duration, size

WAYS_MAX = 6


@dataclass(frozen=True, slots=True)
class _Measure:
    """Something that a day costs."""

    name: str
    of: Callable[[Cost], float | None]
    said: Callable[[float], str]
    missing: str


MEASURES = (
    _Measure("messages to subscribers", lambda cost: cost.delivered, brief, "none"),
    _Measure("bytes to subscribers", lambda cost: cost.delivered_bytes, size, "none"),
    _Measure("messages between brokers", lambda cost: cost.carried, brief, "one broker: none"),
    _Measure("processor time of all brokers", lambda cost: cost.cpu_s, duration, "not measured"),
)


def costs(day: Day, look: Look) -> Figure:
    here = totals.ours(day)
    ways = [cost for cost in (here, *totals.others(day)) if cost is not None][:WAYS_MAX]
    measures = [measure for measure in MEASURES if any(measure.of(cost) for cost in ways)]
    if len(ways) < 2 or not measures:
        return nothing(look, "The day was not run in another way.")
    columns = 1 if look.narrow else 2
    gap = 44
    width = (look.width_px - gap * (columns - 1)) / columns
    row = 26 if look.narrow else 30
    panel = 40 + row * len(ways) + 18
    rows = -(-len(measures) // columns)
    colours = look.colours
    legend = [("bar", colours.event, "Tidings"), ("bar", colours.report, "otherwise")]
    if any(cost.unwanted for cost in ways):
        legend.append(("bar", colours.unwanted, "not asked for"))
    figure, ax = sheet(look, 26 + panel * rows)
    keys(ax, 0, 14, legend, look)
    for place, measure in enumerate(measures):
        x = (place % columns) * (width + gap)
        _panel(ax, x, 26 + (place // columns) * panel, width, row, measure, ways, here, look)
    return figure


def _panel(
    ax: Axes,
    x: float,
    y: float,
    width: float,
    row: float,
    measure: _Measure,
    ways: list[Cost],
    here: Cost | None,
    look: Look,
) -> None:
    colours = look.colours
    write(ax, x, y + 24, measure.name, look, bold=True, room=width)
    label = min(width * 0.42, max(text_px(cost.way, look.small_px) for cost in ways) + 12)
    figures = [_figure(measure, cost, here) for cost in ways]
    number = max(text_px(text, look.small_px) for text, _ in figures) + 8
    most = max(measure.of(cost) or 0 for cost in ways) or 1
    scale = max(20.0, width - label - number) / most
    for place, cost in enumerate(ways):
        top = y + 38 + place * row
        base = top + row * 0.36 + look.small_px * 0.36
        ours = cost is here
        write(ax, x, base, cost.way, look, px=look.small_px, bold=ours, room=label - 10)
        value = measure.of(cost)
        text, known = figures[place]
        at = x + label
        if known and value is not None:
            long = max(1.5, value * scale)
            bar(ax, at, top, long, row * 0.72, fill=colours.event if ours else colours.report)
            if cost.unwanted and cost.delivered and measure is MEASURES[0]:
                unwanted = long * cost.unwanted / cost.delivered
                bar(ax, at + long - unwanted, top, unwanted, row * 0.72, fill=colours.unwanted, above=2.2)
            at += long + 6
        write(ax, at, base, text, look, px=look.small_px, colour=colours.ink if known else colours.muted)


def _figure(measure: _Measure, cost: Cost, here: Cost | None) -> tuple[str, bool]:
    value = measure.of(cost)
    if value is None:
        return measure.missing, False
    ours = None if here is None else measure.of(here)
    if cost is here or not ours or not value:
        return measure.said(value), True
    ratio = value / ours
    return (
        f"{measure.said(value)}  ×{ratio:,.1f}" if ratio < 9.95 else f"{measure.said(value)}  ×{ratio:,.0f}",
        True,
    )
