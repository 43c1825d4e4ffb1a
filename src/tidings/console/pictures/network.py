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
from numpy.typing import NDArray

from tidings.console import totals
from tidings.console.day import Broker, Day
from tidings.console.drawing import DPI, dot, keys, nothing, sheet, shortened, text_px, write
from tidings.console.looks import Look
from tidings.console.words import brief, counted

BROKERS_WIDE, BROKERS_NARROW = 240, 80
NAMED_WIDE, NAMED_NARROW = 40, 14
"""With more brokers, only the busiest have their names."""

LINK_PX_MAX = 9.0
LINK_STEP_PX = 4.0
LINKS_AVOIDED = 400
"""By names; with more links there is no room without one."""

PUSHES = 80
SIDES = ("center", "center", "left", "right", "left", "right", "left", "right")
"""How a name is aligned below, above, to the right and left of its circle, and at its corners."""

Box = tuple[float, float, float, float]
Places = NDArray[np.float64]


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
    places = _apart(_placed(brokers, area), radii, area)
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
    _names(ax, day, brokers, places, radii, look)
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


def _apart(places: Places, radii: Places, area: Box) -> Places:
    """Push circles apart until none lies on another, or nearly so."""
    places = places.copy()
    count = len(places)
    if count < 2:
        return places
    apart = radii[:, None] + radii[None, :] + min(26.0, 3 * float(radii.mean()))
    np.fill_diagonal(apart, 0.0)
    # Those that lie on one spot need a direction; the same one in every run.
    turns = np.arange(count) * 2.399963
    places += 0.01 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    for _ in range(PUSHES):
        ways = places[:, None, :] - places[None, :, :]
        distances = np.sqrt((ways**2).sum(axis=2))
        missing = np.maximum(0.0, apart - distances)
        if not missing.any():
            break
        steps = ways / np.maximum(distances, 1e-9)[:, :, None] * missing[:, :, None] * 0.25
        places += steps.sum(axis=1)
        places[:, 0] = np.clip(places[:, 0], area[0], area[2])
        places[:, 1] = np.clip(places[:, 1], area[1], area[3])
    return places


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


def _names(ax: Axes, day: Day, brokers: Sequence[Broker], places: Places, radii: Places, look: Look) -> None:
    """Names below, above or beside the circles, wherever they cover least."""
    named = NAMED_NARROW if look.narrow else NAMED_WIDE
    edges = (0.0, 30.0, float(look.width_px), ax.get_ylim()[0])
    taken: list[Box] = [
        (x - r, y - r, x + r, y + r) for (x, y), r in zip(places.tolist(), radii.tolist(), strict=True)
    ]
    at = {broker.id: place for broker, place in zip(brokers, places.tolist(), strict=True)}
    ends = [(at[link.a], at[link.b]) for link in day.links if link.a in at and link.b in at]
    along = np.array([point for a, b in ends[:LINKS_AVOIDED] for point in _points(a, b)]).reshape(-1, 2)
    crowded = len(brokers) > named
    for place, broker in enumerate(brokers[:named]):
        lines = _label(broker, look, short=crowded)
        width = max(text_px(text, look.small_px, bold=bold) for text, bold, _ in lines)
        line = look.small_px * 1.3
        tall = line * len(lines)
        (x, y), r = places[place].tolist(), float(radii[place])
        slant = r * 0.75 + 4
        boxes = [
            (x - width / 2, y + r + 4, x + width / 2, y + r + 4 + tall),
            (x - width / 2, y - r - 4 - tall, x + width / 2, y - r - 4),
            (x + r + 6, y - tall / 2, x + r + 6 + width, y + tall / 2),
            (x - r - 6 - width, y - tall / 2, x - r - 6, y + tall / 2),
            (x + slant, y + slant, x + slant + width, y + slant + tall),
            (x - slant - width, y + slant, x - slant, y + slant + tall),
            (x + slant, y - slant - tall, x + slant + width, y - slant),
            (x - slant - width, y - slant - tall, x - slant, y - slant),
        ]
        boxes = [_inside(box, edges) for box in boxes]
        costs = [_covered(box, taken, along) for box in boxes]
        best = min(range(len(boxes)), key=lambda i: (costs[i], i))
        if crowded and costs[best] > 0.25 * width * tall:
            continue
        left, top, right, _ = boxes[best]
        taken.append(boxes[best])
        align = SIDES[best]
        anchor = {"left": left, "center": (left + right) / 2, "right": right}[align]
        for i, (text, bold, colour) in enumerate(lines):
            write(
                ax,
                anchor,
                top + line * (i + 0.78),
                text,
                look,
                px=look.small_px,
                colour=colour,
                align=align,
                bold=bold,
                halo=True,
                above=5,
            )


def _label(broker: Broker, look: Look, *, short: bool) -> list[tuple[str, bool, str]]:
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


def _inside(box: Box, edges: Box) -> Box:
    """The box, moved into the paper."""
    left, top, right, bottom = box
    across = max(0.0, edges[0] - left) - max(0.0, right - edges[2])
    down = max(0.0, edges[1] - top) - max(0.0, bottom - edges[3])
    return left + across, top + down, right + across, bottom + down


def _points(a: Sequence[float], b: Sequence[float]) -> list[tuple[float, float]]:
    """A link, as a point every few pixels."""
    steps = max(2, int(math.dist(a, b) / LINK_STEP_PX))
    return [(a[0] + (b[0] - a[0]) * i / steps, a[1] + (b[1] - a[1]) * i / steps) for i in range(1, steps)]


def _covered(box: Box, taken: Sequence[Box], along: Places) -> float:
    """What a name would cover: circles and names by their area, links by their length."""
    left, top, right, bottom = box
    area = sum(
        max(0.0, min(right, r) - max(left, l)) * max(0.0, min(bottom, b) - max(top, t))
        for l, t, r, b in taken
    )
    x, y = along[:, 0], along[:, 1]
    crossed = int(((left < x) & (x < right) & (top < y) & (y < bottom)).sum())
    return area * 4 + crossed * LINK_STEP_PX * 2
