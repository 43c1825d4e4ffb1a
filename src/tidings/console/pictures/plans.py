"""What plans would save, before and after, and where clients and stores would be: bars, broker by broker."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tidings.console.day import Day, Plans, Resident, Saving
from tidings.console.drawing import bar, keys, nothing, sheet, text_px, write
from tidings.console.looks import Look, mixed
from tidings.console.words import brief, count

BROKERS_MAX = 14
SAVINGS_MAX = 4
TOP_PX = 34
GAP_PX = 48
SAVING_PX = 86
RESIDENT_PX = 44


def plans(day: Day, look: Look) -> Figure:
    if day.plans is None or not day.plans.savings:
        return nothing(look, "Nothing was planned.")
    made = day.plans
    shown = made.residents[:BROKERS_MAX]
    colours = look.colours
    half = look.width_px if look.narrow else (look.width_px - GAP_PX) / 2
    savings = made.savings[:SAVINGS_MAX]
    tall = SAVING_PX * len(savings)
    rows = 30 + RESIDENT_PX * len(shown) if shown else 0
    figure, ax = sheet(look, TOP_PX + (tall + rows if look.narrow else max(tall, rows)))
    keys(ax, 0, 14, [("bar", colours.dropped, "as it was"), ("bar", colours.event, "planned")], look)
    for place, one in enumerate(savings):
        _saving(ax, TOP_PX + SAVING_PX * place, half, one, look)
    if shown:
        x, y = (0.0, TOP_PX + tall) if look.narrow else (half + GAP_PX, TOP_PX)
        _residents(ax, x, y, half, made, shown, look)
    return figure


def _saving(ax: Axes, y: float, width: float, one: Saving, look: Look) -> None:
    colours = look.colours
    write(ax, 0, y + 18, one.what, look, bold=True, room=width)
    rows = (
        (one.before, figure_text(one.before), colours.dropped),
        (one.after, f"{figure_text(one.after)}  {_change(one)}", colours.event),
    )
    number = max(text_px(said, look.small_px) for _, said, _ in rows) + 8
    scale = max(20.0, width - number) / (max(one.before, one.after) or 1.0)
    for place, (value, said, fill) in enumerate(rows):
        top = y + 27 + 17 * place
        long = max(1.5, value * scale)
        bar(ax, 0, top, long, 13, fill=fill)
        write(ax, long + 6, top + 11, said, look, px=look.small_px)
    write(ax, 0, y + 76, one.by, look, px=look.small_px, colour=colours.muted, room=width)


def _change(one: Saving) -> str:
    if not one.before:
        return ""
    share = round(100 * (one.after / one.before - 1))
    return f"−{-share} %" if share < 0 else f"+{share:,} %"


def figure_text(value: float) -> str:
    """A mean in hundredths, a count in brief.

    >>> figure_text(2.7762), figure_text(14_415)
    ('2.78', '14k')
    """
    return f"{value:.2f}" if value < 100 else brief(value)


def _residents(
    ax: Axes, x: float, y: float, width: float, made: Plans, shown: tuple[Resident, ...], look: Look
) -> None:
    """Clients of each broker before and after, and what it would keep."""
    colours = look.colours
    write(ax, x, y + 18, "clients at each broker, and what it keeps", look, bold=True, room=width)
    name = min(width * 0.34, max(text_px(one.broker, look.small_px, bold=True) for one in shown) + 12)
    number = max(text_px(_clients(one), look.small_px) for one in shown) + 12
    scale = max(20.0, width - name - number) / max(1, *(max(one.before, one.after) for one in shown))
    for place, one in enumerate(shown):
        top = y + 30 + RESIDENT_PX * place
        bar(ax, x + name, top, one.before * scale, 8, fill=colours.dropped)
        bar(ax, x + name, top + 9, one.after * scale, 8, fill=colours.event)
        long = max(one.before, one.after) * scale
        write(ax, x, top + 13, one.broker, look, px=look.small_px, bold=bool(one.keeps), room=name - 8)
        write(ax, x + name + long + 6, top + 13, _clients(one), look, px=look.small_px)
        if one.keeps:
            said = f"keeps {', '.join(one.keeps)}"
            ink = mixed(colours.event, colours.ink, 0.75)
            write(ax, x + name, top + 31, said, look, px=look.small_px, colour=ink, room=width - name)
    if len(shown) < len(made.residents):
        more = f"and {count(len(made.residents) - len(shown))} more"
        write(ax, x + width, y + 18, more, look, px=look.small_px, colour=colours.muted, align="right")


def _clients(one: Resident) -> str:
    return count(one.before) if one.before == one.after else f"{count(one.before)} → {count(one.after)}"
