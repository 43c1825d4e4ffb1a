"""Where circles and their names go in a drawing of a network: apart from each other, and names where there is
room. What the circles stand for is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from tidings.console.drawing import text_px, write
from tidings.console.looks import Look

LINK_STEP_PX = 4.0
LINKS_AVOIDED = 400
"""By names; with more links there is no room without one."""

PUSHES = 80
SIDES = ("center", "center", "left", "right", "left", "right", "left", "right")
"""How a name is aligned below, above, to the right and left of its circle, and at its corners."""

Box = tuple[float, float, float, float]
Places = NDArray[np.float64]

Line = tuple[str, bool, str]
"""Of a name: what it says, whether in bold, and its colour."""


def apart(places: Places, radii: Places, area: Box) -> Places:
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


def names(
    ax: Axes,
    labels: Sequence[Sequence[Line]],
    places: Places,
    radii: Places,
    links: Sequence[tuple[int, int]],
    edges: Box,
    look: Look,
) -> None:
    """Names of the first circles below, above or beside them, wherever they cover least.

    `links` join circles by their places; `edges` are those of the paper. Where not all circles have a name,
    one that would cover too much is left out.
    """
    taken: list[Box] = [
        (x - r, y - r, x + r, y + r) for (x, y), r in zip(places.tolist(), radii.tolist(), strict=True)
    ]
    at = places.tolist()
    ends = [(at[a], at[b]) for a, b in links[:LINKS_AVOIDED]]
    along = np.array([point for a, b in ends for point in _points(a, b)]).reshape(-1, 2)
    crowded = len(places) > len(labels)
    for place, lines in enumerate(labels):
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
