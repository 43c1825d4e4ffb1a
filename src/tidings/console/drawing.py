"""What all pictures share: paper, pens, letters, and how a picture becomes SVG or PNG.

Sizes are pixels of a screen at its usual scale, from the upper left. Text is measured in matplotlib's own
font, which is wider than what browsers use in its place, so that nothing that fits here overflows there.
Names are never read as mathematics. Nothing of pyplot is used: there is no state between pictures, and no
screen is looked for.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle
from matplotlib.textpath import TextToPath
from matplotlib.transforms import Bbox

from tidings.console.looks import Look
from tidings.console.words import clean, duration

DPI = 96
PNG_DPI = 2 * DPI
"""Sharp on dense screens."""

PNG_EDGE_PX = 20
"""White around a picture that has no page around it."""

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', Arial, sans-serif"
"""The page's fonts too: letters in a picture are those of the text around it."""

DRAWN_FONT = "DejaVu Sans"
"""Comes with matplotlib, so that pictures measure the same everywhere."""

MEASURED_MAX = 240
"""Characters that fill the widest picture."""

TIME_STEPS_S = [
    *(
        0.001,
        0.002,
        0.005,
        0.01,
        0.02,
        0.05,
        0.1,
        0.2,
        0.5,
        1,
        2,
        5,
        10,
        15,
        30,
        60,
        120,
        300,
        600,
        900,
        1_800,
    ),
    *(3_600, 7_200, 10_800, 14_400, 21_600, 43_200, 86_400),
]


def sheet(look: Look, height_px: float) -> tuple[Figure, Axes]:
    """Empty paper, to be drawn on in pixels from the upper left."""
    figure = Figure(figsize=(look.width_px / DPI, height_px / DPI), dpi=DPI)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, look.width_px), ylim=(height_px, 0))
    ax.axis("off")
    return figure, ax


def chart(look: Look, height_px: float, *, left: float, right: float, top: float, bottom: float) -> Axes:
    """A chart between edges of so many pixels, with faint horizontal lines and no box."""
    width = look.width_px
    figure = Figure(figsize=(width / DPI, height_px / DPI), dpi=DPI)
    ax = figure.add_axes(
        (
            left / width,
            bottom / height_px,
            (width - left - right) / width,
            (height_px - top - bottom) / height_px,
        )
    )
    colours = look.colours
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(colours.line)
    ax.set_facecolor("none")
    ax.grid(axis="y", color=colours.line, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(
        axis="both",
        which="both",
        color=colours.line,
        labelcolor=colours.muted,
        labelsize=look.small_px * 72 / DPI,
        length=0,
        pad=6,
    )
    ax.tick_params(axis="x", which="major", length=4)
    return ax


def over(figure: Figure, look: Look) -> Axes:
    """The whole paper of a chart, to be written on in pixels."""
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, look.width_px), ylim=(figure.get_figheight() * DPI, 0))
    ax.axis("off")
    ax.set_facecolor("none")
    return ax


def figure_of(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def nothing(look: Look, why: str) -> Figure:
    """A picture for a day that has nothing to draw."""
    figure, ax = sheet(look, 120)
    colours = look.colours
    ax.add_patch(
        Rectangle(
            (1, 1),
            look.width_px - 2,
            118,
            facecolor="none",
            edgecolor=colours.line,
            linewidth=1,
            linestyle=(0, (4, 4)),
        )
    )
    write(ax, look.width_px / 2, 64, why, look, colour=colours.muted, align="center", room=look.width_px - 24)
    return figure


# Letters.


def write(
    ax: Axes,
    x: float,
    y: float,
    text: str,
    look: Look,
    *,
    px: float | None = None,
    colour: str | None = None,
    align: str = "left",
    bold: bool = False,
    room: float | None = None,
    halo: bool = False,
    above: float = 4,
) -> None:
    """A line of text on its base line; shortened where there is less room than it wants."""
    px = px or look.text_px
    shown = clean(text) if room is None else shortened(text, room, px, bold=bold)
    if halo:
        # Thick and behind: letters stay legible over lines.
        ax.add_patch(_halo(shown, x, y, px, align, bold, look, above - 0.5))
    ax.text(
        x,
        y,
        shown,
        color=colour or look.colours.ink,
        fontsize=px * 72 / DPI,
        fontweight="bold" if bold else "normal",
        ha=align,
        va="baseline",
        parse_math=False,
        zorder=above,
    )


def _halo(
    text: str, x: float, y: float, px: float, align: str, bold: bool, look: Look, above: float
) -> Rectangle:
    width = text_px(text, px, bold=bold)
    left = x - width * {"left": 0.0, "center": 0.5, "right": 1.0}[align]
    return Rectangle(
        (left - 2, y - px * 0.95),
        width + 4,
        px * 1.25,
        facecolor=look.colours.paper,
        edgecolor="none",
        alpha=0.78,
        zorder=above,
    )


@lru_cache(maxsize=4096)
def text_px(text: str, px: float, *, bold: bool = False) -> float:
    """How wide a text is; of one that no screen has room for, only that it is too wide."""
    text = clean(text[:MEASURED_MAX])
    if not text:
        return 0.0
    font = FontProperties(family=DRAWN_FONT, size=px, weight="bold" if bold else "normal")
    return float(TextToPath().get_text_width_height_descent(text, font, ismath=False)[0])


def shortened(text: str, room: float, px: float, *, bold: bool = False) -> str:
    """A text that is no wider than the room: its middle goes, since names differ at their ends."""
    text = clean(text)
    if len(text) > MEASURED_MAX:
        text = _cut(text, MEASURED_MAX - 1)
    if text_px(text, px, bold=bold) <= room:
        return text
    fits, beyond = 0, len(text)
    while beyond - fits > 1:
        tried = (fits + beyond) // 2
        if text_px(_cut(text, tried), px, bold=bold) <= room:
            fits = tried
        else:
            beyond = tried
    return _cut(text, fits)


def _cut(text: str, kept: int) -> str:
    head = (kept * 3 + 4) // 5
    return f"{text[:head]}…{text[len(text) - (kept - head) :]}"


# Signs.


def dot(
    ax: Axes, x: float, y: float, radius: float, *, fill: str, edge: str = "none", above: float = 3
) -> None:
    ax.add_patch(
        Circle(
            (x, y),
            radius,
            facecolor=fill,
            edgecolor=edge,
            linewidth=1.2 if edge != "none" else 0,
            zorder=above,
        )
    )


def bar(ax: Axes, x: float, y: float, width: float, height: float, *, fill: str, above: float = 2) -> None:
    """Down and to the right of (x, y)."""
    ax.add_patch(Rectangle((x, y), max(0.0, width), height, facecolor=fill, edgecolor="none", zorder=above))


def stroke(
    ax: Axes,
    x: tuple[float, float],
    y: tuple[float, float],
    *,
    colour: str,
    px: float = 1.0,
    above: float = 2,
    dashed: bool = False,
) -> None:
    ax.add_line(
        Line2D(
            x,
            y,
            color=colour,
            linewidth=px * 72 / DPI,
            solid_capstyle="round",
            zorder=above,
            linestyle=(0, (3, 3)) if dashed else "-",
        )
    )


def key(ax: Axes, x: float, y: float, sign: str, colour: str, text: str, look: Look) -> float:
    """An entry of a legend, at the base line y; answers where the next one may begin."""
    middle = y - look.small_px * 0.34
    if sign == "dot":
        dot(ax, x + 5, middle, 4.5, fill=colour)
    elif sign == "line":
        stroke(ax, (x, x + 12), (middle, middle), colour=colour, px=3.5)
    else:
        bar(ax, x, middle - 5, 11, 10, fill=colour)
    write(ax, x + 17, y, text, look, px=look.small_px, colour=look.colours.muted)
    return x + 17 + text_px(text, look.small_px) + (14 if look.narrow else 22)


def keys(ax: Axes, x: float, y: float, entries: list[tuple[str, str, str]], look: Look) -> float:
    """A legend that takes as many lines as it needs; answers the base line of the last."""
    at = x
    for sign, colour, text in entries:
        if at > x and at + 17 + text_px(text, look.small_px) > look.width_px - 2:
            at, y = x, y + look.small_px * 1.7
        at = key(ax, at, y, sign, colour, text, look)
    return y


# Time.


def time_step(total_s: float, ticks: int) -> float:
    """A step that people count in, of which the whole takes no more than so many."""
    for step in TIME_STEPS_S:
        if total_s / step <= ticks:
            return step
    whole = TIME_STEPS_S[-1]
    return whole * (1 + total_s // (whole * ticks))


def time_ticks(total_s: float, ticks: int) -> list[tuple[float, str]]:
    """Where ticks go on an axis of time, and what they say."""
    step = time_step(total_s, ticks)
    count = int(total_s / step + 1e-9)
    return [(i * step, duration(i * step) if i else "0") for i in range(count + 1)]


# What becomes of a picture.


def svg(figure: Figure) -> str:
    """A picture in the page: without a background, without a date, and with the page's fonts."""
    out = io.StringIO()
    _save(figure, out, "svg")
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, count=1, flags=re.S)
    return text.replace(f"'{DRAWN_FONT}'", FONTS)


def png(figure: Figure, look: Look) -> bytes:
    """The same on paper of its own."""
    out = io.BytesIO()
    figure.set_facecolor(look.colours.paper)
    _save(figure, out, "png")
    return out.getvalue()


def _save(figure: Figure, out: io.StringIO | io.BytesIO, form: str) -> None:
    with settled():
        if form == "svg":
            figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        else:
            width, height = figure.get_size_inches()
            edge = PNG_EDGE_PX / DPI
            whole = Bbox([[-edge, -edge], [width + edge, height + edge]])
            figure.savefig(out, format="png", dpi=PNG_DPI, bbox_inches=whole, metadata={"Software": None})


@contextmanager
def settled() -> Iterator[None]:
    """Drawing as it is meant, whatever the machine's own settings of matplotlib say."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rc("font", family=DRAWN_FONT)
        mpl.rc("svg", fonttype="none", hashsalt="tidings")
        # Names may be in any script. A browser has the letters that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
