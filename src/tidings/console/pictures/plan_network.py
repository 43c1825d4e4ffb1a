"""The network of a plan: once before it and once after it, with what brokers and links have to do."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from tidings.console.drawing import DPI, dot, keys, sheet, shortened, text_px, write
from tidings.console.looks import Look, mixed
from tidings.console.placing import Box, Line, Places, apart, names
from tidings.console.plan_scene import Scene, Spot
from tidings.console.words import brief, counted

BROKERS_WIDE, BROKERS_NARROW = 160, 80
"""Of more, the busiest are drawn."""

NAMED_WIDE, NAMED_NARROW = 18, 10
"""Brokers that have their names; of more, only stores have them, and clusters."""

CLUSTERS_NAMED = 16
LINK_PX_MAX = 8.0
HULL_PX = 15.0
"""How far the ground of a cluster reaches around its brokers."""


def plan_network(scene: Scene, look: Look) -> Figure:
    drawn = scene.spots[: BROKERS_NARROW if look.narrow else BROKERS_WIDE]
    few = len(drawn) <= 4
    panel = (220 if few else 290) if look.narrow else (250 if few else 380)
    colours = look.colours
    legend = [("dot", colours.event, "broker")]
    if any(spot.store for spot in drawn):
        legend = [("dot", colours.delivery, "store"), ("dot", colours.muted, "broker")]
    elif scene.has_backbone:
        legend = [("dot", colours.event, "broker of a cluster"), ("dot", colours.muted, "of the backbone")]
    if scene.carried:
        legend.append(("line", colours.report, scene.carried))
    if len(drawn) < len(scene.spots):
        legend.append(("bar", colours.paper, f"the {len(drawn)} busiest of {len(scene.spots):,}"))
    top = 16 + look.small_px * 1.7 * (2 if look.narrow else 1)
    figure, ax = sheet(look, top + panel * (2 if look.narrow else 1) + (26 if look.narrow else 0))
    keys(ax, 0, 14, legend, look)
    width = look.width_px if look.narrow else (look.width_px - 32) / 2
    stores = any(spot.store for spot in drawn)
    for after in (False, True):
        left = 0.0 if look.narrow or not after else width + 32
        y = top + (panel + 26 if look.narrow and after else 0)
        title = _title(scene, drawn, after=after, stores=stores)
        _panel(ax, scene, drawn, (left, y, left + width, y + panel), title, look, after=after)
    return figure


def _title(scene: Scene, drawn: Sequence[Spot], *, after: bool, stores: bool) -> str:
    if not stores:
        return "after the plan" if after else "before"
    if after:
        return f"served by {counted(sum(spot.store for spot in drawn), 'store')}"
    return f"{scene.counted} of clients"


def _panel(
    ax: Axes, scene: Scene, drawn: Sequence[Spot], box: Box, title: str, look: Look, *, after: bool
) -> None:
    colours = look.colours
    left, top, right, bottom = box
    write(ax, left, top + look.text_px, title, look, bold=True, room=right - left)
    inset = 34.0 if look.narrow else 44.0
    area = (left + inset, top + 30 + inset * 0.6, right - inset, bottom - inset * 0.7)
    values = np.array([spot.after if after else spot.before for spot in drawn])
    most = max(1e-9, *(max(spot.before, spot.after) for spot in drawn))
    largest = _largest(len(drawn), area, look)
    radii = np.maximum(largest * 0.25, largest * np.sqrt(np.maximum(values, 0.0) / most))
    # Both panels are laid out for the same sizes, so that nobody seems to move.
    widest = np.array(
        [max(largest * 0.25, largest * math.sqrt(max(spot.before, spot.after) / most)) for spot in drawn]
    )
    places = apart(_spread(drawn, area), widest, area)
    if scene.clustered:
        _grounds(ax, drawn, places, widest, look)
    at = {spot.name: place for place, spot in enumerate(drawn)}
    joined = [(at[wire.a], at[wire.b]) for wire in scene.wires if wire.a in at and wire.b in at]
    _links(ax, scene, at, places, look, after=after)
    for spot, (x, y), radius, value in zip(
        drawn, places.tolist(), radii.tolist(), values.tolist(), strict=True
    ):
        dot(ax, x, y, radius, fill=_fill(scene, spot, look, after=after), edge=colours.paper, above=3)
        said = brief(value)
        if value and text_px(said, look.small_px, bold=True) < radius * 1.9:
            write(
                ax,
                x,
                y + look.small_px * 0.36,
                said,
                look,
                px=look.small_px,
                colour=colours.paper,
                align="center",
                bold=True,
            )
    labels = _labels(drawn, look, after=after)
    edges = (left, top + look.text_px + 8, right, bottom)
    names(ax, labels, places, radii, joined, edges, look)
    if scene.clustered and not labels:
        _clusters(ax, drawn, places, widest, edges, look)


def _largest(count: int, area: Box, look: Look) -> float:
    room = (area[2] - area[0]) * (area[3] - area[1]) / count
    return min(19.0 if look.narrow else 24.0, 0.3 * math.sqrt(room))


def _spread(drawn: Sequence[Spot], area: Box) -> Places:
    left, top, right, bottom = area
    unit = np.array([(spot.x, spot.y) for spot in drawn])
    low, span = unit.min(axis=0), np.ptp(unit, axis=0)
    unit = np.where(span > 0, (unit - low) / np.where(span > 0, span, 1.0), 0.5)
    return np.stack([left + unit[:, 0] * (right - left), top + unit[:, 1] * (bottom - top)], axis=1)


def _fill(scene: Scene, spot: Spot, look: Look, *, after: bool) -> str:
    colours = look.colours
    if spot.store:
        return colours.delivery if after else colours.muted
    if scene.counted == "requests" or (scene.clustered and not spot.cluster):
        return colours.muted
    return colours.event


def _labels(drawn: Sequence[Spot], look: Look, *, after: bool) -> list[list[Line]]:
    """Names of all where they are few, else of stores alone, which come first."""
    named = NAMED_NARROW if look.narrow else NAMED_WIDE
    shown = drawn if len(drawn) <= named else [spot for spot in drawn if spot.store and after][:named]
    room = 76.0 if look.narrow else 120.0
    return [
        [(shortened(spot.name, room, look.small_px, bold=True), True, look.colours.ink)] for spot in shown
    ]


def _links(ax: Axes, scene: Scene, at: dict[str, int], places: Places, look: Look, *, after: bool) -> None:
    colours = look.colours
    most = max([1e-9, *(max(wire.before, wire.after) for wire in scene.wires)])
    thickest = LINK_PX_MAX * (0.75 if look.narrow else 1.0) * min(1.0, math.sqrt(40 / max(1, len(at))))
    quiet, busy, widths = [], [], []
    for wire in scene.wires:
        if wire.a not in at or wire.b not in at:
            continue
        ends = np.stack([places[at[wire.a]], places[at[wire.b]]])
        value = wire.after if after else wire.before
        if value:
            busy.append(ends)
            widths.append(max(0.8, thickest * value / most) * 72 / DPI)
        else:
            quiet.append(ends)
    ax.add_collection(
        LineCollection(quiet, colors=mixed(colours.muted, colours.paper, 0.45), linewidths=0.75, zorder=2)
    )
    ax.add_collection(
        LineCollection(
            busy, colors=colours.report, linewidths=widths, alpha=0.7, zorder=2.1, capstyle="round"
        )
    )


# Clusters.


def _members(drawn: Sequence[Spot]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place, spot in enumerate(drawn):
        if spot.cluster:
            found.setdefault(spot.cluster, []).append(place)
    return found


def _grounds(ax: Axes, drawn: Sequence[Spot], places: Places, radii: Places, look: Look) -> None:
    """A ground under the brokers of each cluster."""
    colours = look.colours
    tone = mixed(colours.event, colours.paper, 0.13)
    for members in _members(drawn).values():
        around = HULL_PX * (0.7 if look.narrow else 1.0)
        hull = _hull(places[members].tolist())
        wide = 2 * (around + float(radii[members].max()) * 0.4)
        if len(hull) < 3:
            ends = np.array([hull[0], hull[-1]])
            ax.plot(*ends.T, color=tone, linewidth=wide * 72 / DPI, solid_capstyle="round", zorder=1)
        else:
            ax.add_patch(
                Polygon(
                    hull,
                    closed=True,
                    facecolor=tone,
                    edgecolor=tone,
                    linewidth=wide * 72 / DPI,
                    joinstyle="round",
                    zorder=1,
                )
            )


def _clusters(ax: Axes, drawn: Sequence[Spot], places: Places, radii: Places, edges: Box, look: Look) -> None:
    """Names of clusters, above their brokers."""
    groups = _members(drawn)
    if len(groups) > CLUSTERS_NAMED:
        return
    for name, members in sorted(groups.items()):
        mine = places[members]
        x = float(mine[:, 0].mean())
        y = float((mine[:, 1] - radii[members]).min()) - 5
        room = 60.0 if look.narrow else 96.0
        shown = shortened(name, room, look.small_px, bold=True)
        half = text_px(shown, look.small_px, bold=True) / 2
        x = min(max(x, edges[0] + half), edges[2] - half)
        y = max(y, edges[1] + look.small_px)
        write(
            ax,
            x,
            y,
            shown,
            look,
            px=look.small_px,
            colour=look.colours.event,
            align="center",
            bold=True,
            halo=True,
            above=5,
        )


def _hull(points: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """The corners of the smallest convex ground that holds all points (Andrew's monotone chain)."""
    ordered = sorted({(float(x), float(y)) for x, y in points})
    if len(ordered) < 3:
        return ordered

    def half(row: list[tuple[float, float]]) -> list[tuple[float, float]]:
        kept: list[tuple[float, float]] = []
        for x, y in row:
            while (
                len(kept) > 1
                and (
                    (kept[-1][0] - kept[-2][0]) * (y - kept[-2][1])
                    - (kept[-1][1] - kept[-2][1]) * (x - kept[-2][0])
                )
                <= 0
            ):
                kept.pop()
            kept.append((x, y))
        return kept[:-1]

    return half(ordered) + half(ordered[::-1])
