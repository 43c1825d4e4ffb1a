"""How long deliveries took: a histogram, with the times within which half, 95 and 99 of 100 arrived."""

from __future__ import annotations

import math
from itertools import pairwise

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from tidings.console import totals
from tidings.console.day import Day
from tidings.console.drawing import chart, figure_of, nothing, over, stroke, text_px, write
from tidings.console.looks import Look
from tidings.console.words import duration

QUANTILES = ((0.5, "half"), (0.95, "95 of 100"), (0.99, "99 of 100"))
SHORTEST_MS = 0.01
"""What is shorter is drawn there; an axis by factors has no zero."""

STEPS_PER_TEN = 12
"""Bars for a factor of ten in time."""

BARS_MAX = 60
SPAN_MIN = 20.0
"""From the shortest to the longest time on the axis, so that one bar does not fill it."""

REACH_MIN = 0.04
"""Of a pair, as a power of ten: finer ones are taken together."""


def latency(day: Day, look: Look) -> Figure:
    pairs = [(max(SHORTEST_MS, ms), n) for ms, n in sorted(day.latencies_ms) if n > 0]
    if not pairs:
        return nothing(look, "Nothing was delivered.")
    colours = look.colours
    height = 320
    left, right, top, bottom = (44, 24, 74, 44) if look.narrow else (52, 30, 78, 44)
    ax = chart(look, height, left=left, right=right, top=top, bottom=bottom)
    figure = figure_of(ax)
    edges, shares = _binned(pairs)
    ax.set_xscale("log")
    ax.stairs(shares, edges, fill=True, color=colours.delivery, alpha=0.8, linewidth=0)
    low, high = edges[0], edges[-1]
    if high < low * SPAN_MIN:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(SPAN_MIN), middle * math.sqrt(SPAN_MIN)
    ax.set(xlim=(low, high), ylim=(0, max(shares) * 1.08))
    ticks = _ticks(low, high, 4 if look.narrow else 8)
    ax.set_xticks(ticks, [duration(ms / 1000) for ms in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(
        lambda value, _: f"{value:.0f} %" if value == int(value) else f"{value:.1f} %"
    )
    ax.locator_params(axis="y", nbins=4)

    paper = over(figure, look)
    span = look.width_px - left - right
    write(paper, 0, 16, "share of deliveries", look, px=look.small_px, colour=colours.muted)
    write(
        paper,
        look.width_px - right,
        height - 6,
        "time until the subscriber had it",
        look,
        px=look.small_px,
        colour=colours.muted,
        align="right",
    )
    for row, (share, words) in enumerate(QUANTILES):
        ms = totals.quantile_ms(day, share)
        assert ms is not None
        where = (math.log(max(low, ms)) - math.log(low)) / (math.log(high) - math.log(low))
        x = left + span * min(1.0, max(0.0, where))
        y = 34 + row * 17
        stroke(paper, (x, x), (y - 10, height - bottom), colour=colours.ink, px=1.0, dashed=True)
        text = f"{words} within {duration(ms / 1000)}"
        beside = x + 7 + text_px(text, look.small_px) < look.width_px
        write(
            paper,
            x + 6 if beside else x - 6,
            y,
            text,
            look,
            px=look.small_px,
            align="left" if beside else "right",
            halo=True,
        )
    return figure


def _binned(pairs: list[tuple[float, int]]) -> tuple[list[float], list[float]]:
    """Edges by equal factors, and the share of all, in percent, that lies between them.

    A pair stands for the times around it, half-way to its neighbours, and is spread over the bars that it
    touches. Otherwise bars that hold two pairs would stand beside bars that hold one, and look like news.
    """
    logs = [math.log10(ms) for ms, _ in pairs]
    gaps = sorted(b - a for a, b in pairwise(logs))
    # A hole in the tail is a fact, and not for its edges to fill.
    reach = max(REACH_MIN, gaps[len(gaps) // 2]) / 2 if gaps else REACH_MIN
    low, high = logs[0] - reach, logs[-1] + reach
    bars = max(1, min(round((high - low) * STEPS_PER_TEN), BARS_MAX))
    step = (high - low) / bars
    counts = [0.0] * bars
    for i, (log, (_, n)) in enumerate(zip(logs, pairs, strict=True)):
        begin = max(log - reach, (logs[i - 1] + log) / 2 if i else low)
        end = min(log + reach, (log + logs[i + 1]) / 2 if i + 1 < len(logs) else high)
        first, last = _bar(begin, low, step, bars), _bar(end, low, step, bars)
        for place in range(first, last + 1):
            overlap = min(end, low + (place + 1) * step) - max(begin, low + place * step)
            counts[place] += n * (max(0.0, overlap) / (end - begin) if last > first else 1.0)
    total = sum(counts)
    return [10 ** (low + i * step) for i in range(bars + 1)], [100.0 * n / total for n in counts]


def _bar(log: float, low: float, step: float, bars: int) -> int:
    return min(bars - 1, max(0, int((log - low) / step)))


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Round times between two, no more than so many."""
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [
            step * 10.0**power
            for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for step in steps
            if low <= step * 10.0**power <= high
        ]
        if len(ticks) <= most:
            break
    return ticks[:: -(-len(ticks) // most)] if ticks else [low]
