"""Figures side by side, as bars: what was forecast and what was measured, before a plan and after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tidings.console.drawing import bar, keys, nothing, sheet, stroke, text_px, write
from tidings.console.looks import Look, mixed

ROWS_MAX = 24


@dataclass(frozen=True, slots=True)
class Row:
    """A name with some figures; None for one that is not known."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """Rows under a title."""

    title: str
    rows: tuple[Row, ...]
    said: Callable[[float], str]
    marks: tuple[tuple[float, str], ...] = ()
    """Lines across all rows: where, and what they mean."""


def plan_bars(panels: Sequence[Bars], series: Sequence[tuple[str, str]], look: Look) -> Figure:
    """`series`: of every value of a row, what it is called, and its colour as `colour` takes it."""
    kept = [panel for panel in panels if panel.rows]
    if not kept:
        return nothing(look, "There is nothing to compare.")
    thin = 11.0 if look.narrow else 13.0
    row = thin * len(series) + (20 if look.narrow else 12)
    heights = [34 + row * min(ROWS_MAX, len(panel.rows)) + (18 if panel.marks else 6) for panel in kept]
    top = 20.0 + look.small_px * 1.7 * (1 if look.narrow and len(series) > 2 else 0)
    figure, ax = sheet(look, top + sum(heights) + 8)
    keys(ax, 0, 14, [("bar", colour(tone, look), name) for name, tone in series], look)
    y = top
    for panel, height in zip(kept, heights, strict=True):
        _panel(ax, panel, [tone for _, tone in series], y, row, thin, look)
        y += height
    return figure


def colour(tone: str, look: Look) -> str:
    """A colour by its name; with a `~` before it, thin."""
    colours = look.colours
    full: str = getattr(colours, tone.removeprefix("~"))
    return mixed(full, colours.paper, 0.45) if tone.startswith("~") else full


def _panel(
    ax: Axes, panel: Bars, tones: Sequence[str], top: float, row: float, thin: float, look: Look
) -> None:
    rows = panel.rows[:ROWS_MAX]
    title = panel.title
    if len(rows) < len(panel.rows):
        title += f" (the first {len(rows)} of {len(panel.rows):,})"
    write(ax, 0, top + 20, title, look, bold=True, room=look.width_px)
    said = [panel.said(value) for one in rows for value in one.values if value is not None]
    number = max(text_px(text, look.small_px) for text in said) + 10 if said else 0.0
    label = 0.0
    if not look.narrow:
        label = min(look.width_px * 0.34, max(text_px(one.name, look.small_px) for one in rows) + 14)
    most = max(
        [1e-9, *(value for one in rows for value in one.values if value), *(at for at, _ in panel.marks)]
    )
    scale = max(20.0, look.width_px - label - number) / most
    begin = top + 32
    for place, one in enumerate(rows):
        y = begin + place * row
        if look.narrow:
            write(ax, 0, y + look.small_px * 0.7, one.name, look, px=look.small_px, room=look.width_px)
            y += look.small_px + 2
        else:
            base = y + thin * len(tones) / 2 + look.small_px * 0.3
            write(ax, 0, base, one.name, look, px=look.small_px, room=label - 10)
        for at, (value, tone) in enumerate(zip(one.values, tones, strict=True)):
            line = y + at * thin
            if value is None:
                write(ax, label, line + thin * 0.78, "–", look, px=look.small_px, colour=look.colours.muted)
                continue
            long = max(1.0, value * scale)
            bar(ax, label, line, long, thin - 2, fill=colour(tone, look))
            write(
                ax,
                label + long + 6,
                line + thin * 0.5 + look.small_px * 0.34 - 1,
                panel.said(value),
                look,
                px=look.small_px * 0.92,
                halo=bool(panel.marks),
            )
    ends = begin + len(rows) * row - 6
    for mark, name in panel.marks:
        x = label + mark * scale
        stroke(ax, (x, x), (begin - 4, ends), colour=look.colours.unwanted, px=1.2, dashed=True, above=2.5)
        align = "right" if x + text_px(name, look.small_px) > look.width_px else "left"
        write(
            ax,
            x,
            ends + look.small_px + 2,
            name,
            look,
            px=look.small_px,
            colour=look.colours.unwanted,
            align=align,
        )
