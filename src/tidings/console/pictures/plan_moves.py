"""Where clients go: clusters before on one side and after on the other, and streams of clients between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from tidings.console.drawing import bar, keys, nothing, sheet, shortened, text_px, write
from tidings.console.looks import Look, mixed
from tidings.console.plan_scene import Stream
from tidings.console.words import brief

CLUSTERS_MAX = 14
OTHERS = "others"
"""Of more clusters, all but those with the most clients."""


def plan_moves(streams: Sequence[Stream], look: Look) -> Figure:
    shown = _merged(streams)
    if not any(one.source != one.goal for one in shown):
        return nothing(look, "Nobody goes to another cluster.")
    colours = look.colours
    before, after = Counter[str](), Counter[str]()
    for one in shown:
        before[one.source] += one.clients
        after[one.goal] += one.clients
    names = _ordered(before + after)
    total = before.total()
    gap = 10.0
    height = max(180.0, min(30.0 * len(names) + 60, 430.0))
    top = 26 + (look.small_px * 1.7 if look.narrow else 0) + 22
    figure, ax = sheet(look, top + height + 10)
    keys(
        ax,
        0,
        14,
        [
            ("bar", mixed(colours.muted, colours.paper, 0.4), "clients that stay in their cluster"),
            ("bar", colours.event, "that go to another"),
        ],
        look,
    )
    wanted = max(text_px(f"{name}  {brief(before[name])}", look.small_px) for name in names) + 12
    label = min(look.width_px * 0.27, wanted)
    thick = 8.0
    left, right = label, look.width_px - label - thick
    scale = (height - gap * (len(names) - 1)) / total
    write(ax, left + thick, top - 12, "before", look, px=look.small_px, bold=True, align="right")
    write(ax, right, top - 12, "after", look, px=look.small_px, bold=True)
    leaving = _stack(ax, names, before, left, top, scale, gap, thick, look, align="right")
    coming = _stack(ax, names, after, right, top, scale, gap, thick, look, align="left")
    place = {name: at for at, name in enumerate(names)}
    for one in sorted(shown, key=lambda one: (place[one.source], place[one.goal])):
        deep = one.clients * scale
        y0, y1 = leaving[one.source], coming[one.goal]
        leaving[one.source] += deep
        coming[one.goal] += deep
        stays = one.source == one.goal
        _ribbon(
            ax,
            (left + thick, y0),
            (right, y1),
            deep,
            mixed(colours.muted, colours.paper, 0.28) if stays else colours.event,
            0.9 if stays else 0.55,
        )
    return figure


def _merged(streams: Sequence[Stream]) -> list[Stream]:
    sizes = Counter[str]()
    for one in streams:
        sizes[one.source] += one.clients
        sizes[one.goal] += one.clients
    kept = set(_ordered(sizes)[: CLUSTERS_MAX - 1]) if len(sizes) > CLUSTERS_MAX else set(sizes)
    found = Counter[tuple[str, str]]()
    for one in streams:
        ends = [name if name in kept else OTHERS for name in (one.source, one.goal)]
        found[ends[0], ends[1]] += one.clients
    return [Stream(source, goal, n) for (source, goal), n in found.items()]


def _ordered(sizes: Counter[str]) -> list[str]:
    """The largest first, and the rest of them last."""
    return sorted(sizes, key=lambda name: (name == OTHERS, -sizes[name], name))


def _stack(
    ax: Axes,
    names: Sequence[str],
    sizes: Counter[str],
    x: float,
    top: float,
    scale: float,
    gap: float,
    thick: float,
    look: Look,
    *,
    align: str,
) -> dict[str, float]:
    """Clusters below each other; answers where the streams of each begin."""
    found = {}
    y = top
    for name in names:
        deep = sizes[name] * scale
        found[name] = y
        bar(ax, x, y, thick, max(1.0, deep), fill=look.colours.muted, above=3)
        number = brief(sizes[name])
        room = (x if align == "right" else look.width_px - x - thick) - 10
        name_room = room - text_px(f"  {number}", look.small_px)
        shown = shortened(name, max(16.0, name_room), look.small_px)
        text = f"{shown}  {number}" if align == "right" else f"{number}  {shown}"
        at = x - 6 if align == "right" else x + thick + 6
        base = y + deep / 2 + look.small_px * 0.36
        write(ax, at, base, text, look, px=look.small_px, colour=look.colours.ink, align=align)
        y += deep + gap
    return found


def _ribbon(
    ax: Axes, start: tuple[float, float], end: tuple[float, float], deep: float, colour: str, alpha: float
) -> None:
    (x0, y0), (x1, y1) = start, end
    middle = (x0 + x1) / 2
    curve = Path.CURVE4
    path = Path(
        [
            (x0, y0), (middle, y0), (middle, y1), (x1, y1),
            (x1, y1 + deep), (middle, y1 + deep), (middle, y0 + deep), (x0, y0 + deep), (x0, y0),
        ],
        [Path.MOVETO, curve, curve, curve, Path.LINETO, curve, curve, curve, Path.CLOSEPOLY],
    )  # fmt: skip
    ax.add_patch(PathPatch(path, facecolor=colour, edgecolor="none", alpha=alpha, zorder=2))
