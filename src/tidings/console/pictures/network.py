"""The network: brokers where they are, links between them, and what each had to carry.

Brokers that lie on each other are pushed apart, names go where there is room, and of more brokers than a
screen can tell apart the busiest are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from tidings.console import totals
from tidings.console.day import Broker, Day
from tidings.console.drawing import DPI, dot, keys, nothing, sheet, shortened, text_px, write
from tidings.console.looks import Look
from tidings.console.placing import Box, Line, Places, apart, names
from tidings.console.words import brief, counted

BROKERS_WIDE, BROKERS_NARROW = 240, 80
NAMED_WIDE, NAMED_NARROW = 40, 14
"""With more brokers, only the busiest have their names."""

LINK_PX_MAX = 9.0


def network(day: Day, look: Look) -> Figure:
    if not day.brokers:
        return nothing(look, "No broker wrote anything down.")
    most = BROKERS_NARROW if look.narrow else BROKERS_WIDE
    brokers = sorted(day.brokers, key=lambda broker: (-totals.load(broker), broker.id))[:most]
    few = len(brokers) <= 3
    height = (250 if few else 400) if look.narrow else (260 if few else 500)
    figure, ax = sheet(look, height)
    colours = look.colours
    base = keys(
        ax,
        0,
        14,
        [
            ("dot", colours.event, "seat: here reports become events"),
            ("dot", colours.muted, "broker"),
            ("line", colours.report, "reports"),
            ("line", colours.event, "events"),
        ],
        look,
    )
    if len(brokers) < len(day.brokers):
        base += look.small_px * 1.7
        text = f"the {len(brokers)} busiest of {counted(len(day.brokers), 'broker')}"
        write(ax, 0, base, text, look, px=look.small_px, colour=colours.muted)
    side, below = (34, 46) if look.narrow else (70, 56)
    area = (side, base + (38 if look.narrow else 48), look.width_px - side, height - below)
    radii = _radii(brokers, area, look)
    places = apart(_placed(brokers, area), radii, area)
    _links(ax, day, brokers, places, look)
    for broker, (x, y), radius in zip(brokers, places, radii, strict=True):
        fill = colours.event if broker.seats else colours.muted
        dot(ax, x, y, radius, fill=fill, edge=colours.paper, above=3)
        load = brief(totals.load(broker))
        if text_px(load, look.small_px, bold=True) < radius * 1.9:
            write(
                ax,
                x,
                y + look.small_px * 0.36,
                load,
                look,
                px=look.small_px,
                colour=colours.paper,
                align="center",
                bold=True,
            )
    named = NAMED_NARROW if look.narrow else NAMED_WIDE
    labels = [_label(broker, look, short=len(brokers) > named) for broker in brokers[:named]]
    at = {broker.id: place for place, broker in enumerate(brokers)}
    joined = [(at[link.a], at[link.b]) for link in day.links if link.a in at and link.b in at]
    names(ax, labels, places, radii, joined, (0.0, 30.0, float(look.width_px), height), look)
    return figure


def _radii(brokers: Sequence[Broker], area: Box, look: Look) -> Places:
    loads = np.array([totals.load(broker) for broker in brokers], dtype=np.float64)
    room = (area[2] - area[0]) * (area[3] - area[1]) / len(brokers)
    largest = min(22.0 if look.narrow else 30.0, 0.32 * math.sqrt(room))
    # Areas are loads; nobody vanishes.
    shares = np.sqrt(loads / max(1.0, float(loads.max())))
    return np.asarray(np.maximum(largest * 0.28, largest * shares), dtype=np.float64)


def _placed(brokers: Sequence[Broker], area: Box) -> Places:
    """Where brokers say they are, stretched over the area; in a circle if they say nothing."""
    given = np.array([(broker.x, broker.y) for broker in brokers], dtype=np.float64)
    given = np.nan_to_num(given, nan=0.0, posinf=0.0, neginf=0.0)
    if len(brokers) > 1 and not np.ptp(given, axis=0).any():
        turns = np.arange(len(brokers)) * (2 * math.pi / len(brokers))
        given = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    low, span = given.min(axis=0), np.ptp(given, axis=0)
    unit = np.where(span > 0, (given - low) / np.where(span > 0, span, 1.0), 0.5)
    left, top, right, bottom = area
    # North is up.
    return np.stack([left + unit[:, 0] * (right - left), bottom - unit[:, 1] * (bottom - top)], axis=1)


def _links(ax: Axes, day: Day, brokers: Sequence[Broker], places: Places, look: Look) -> None:
    """Two lines side by side: reports on their way to a seat, and all else, each as thick as it is busy."""
    at = {broker.id: place for broker, place in zip(brokers, places, strict=True)}
    drawn = [link for link in day.links if link.a in at and link.b in at]
    if not drawn:
        return
    colours = look.colours
    thickest = LINK_PX_MAX * (0.75 if look.narrow else 1.0) * min(1.0, math.sqrt(40 / len(brokers)))
    scale = thickest / max(1, *(link.messages for link in drawn))
    lines: dict[str, tuple[list[Places], list[float]]] = {}
    for link in drawn:
        a, b = at[link.a], at[link.b]
        way = b - a
        across = np.array([-way[1], way[0]]) / max(1e-9, float(np.hypot(*way)))
        reports = max(0.0, link.reports * scale)
        others = max(0.0, (link.messages - link.reports) * scale)
        if not link.messages:
            _add(lines, colours.line, a, b, 1.0)
            continue
        if reports:
            aside = across * (others / 2 + 0.4)
            _add(lines, colours.report, a + aside, b + aside, max(0.7, reports))
        if others:
            aside = across * (reports / 2 + 0.4)
            _add(lines, colours.event, a - aside, b - aside, max(0.7, others))
    for colour, (segments, widths) in lines.items():
        ax.add_collection(
            LineCollection(
                segments,
                colors=colour,
                linewidths=[width * 72 / DPI for width in widths],
                alpha=1.0 if colour == colours.line else 0.62,
                zorder=2,
                capstyle="round",
            )
        )


def _add(
    lines: dict[str, tuple[list[Places], list[float]]], colour: str, a: Places, b: Places, px: float
) -> None:
    segments, widths = lines.setdefault(colour, ([], []))
    segments.append(np.stack([a, b]))
    widths.append(px)


def _label(broker: Broker, look: Look, *, short: bool) -> list[Line]:
    colours = look.colours
    room = 110.0 if look.narrow else 190.0
    lines = [(shortened(broker.id, room, look.small_px, bold=True), True, colours.ink)]
    if short:
        return lines
    if broker.region and broker.region != broker.id:
        lines.append((shortened(broker.region, room, look.small_px), False, colours.muted))
    if broker.seats:
        text = broker.seats[0] if len(broker.seats) == 1 else f"{len(broker.seats)} topics"
        if len(broker.seats) == 2 and not look.narrow:
            text = ", ".join(broker.seats)
        lines.append((shortened(text, room, look.small_px), False, colours.event))
    return lines
