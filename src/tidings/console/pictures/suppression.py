"""Suppression per topic: which reports said nothing new, which were merged, which began an event."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tidings.console.day import Day, Topic
from tidings.console.drawing import bar, keys, nothing, sheet, write
from tidings.console.looks import Look, mixed
from tidings.console.words import brief, counted, percent

ROWS_WIDE, ROWS_NARROW = 14, 10
MERGED_SHARE = 0.45
"""Merged reports have the colour of events, at less than half its strength."""


def suppression(day: Day, look: Look) -> Figure:
    topics = _shown(day, ROWS_NARROW if look.narrow else ROWS_WIDE)
    if not topics:
        return nothing(look, "Nothing was reported.")
    colours = look.colours
    row = 44 if look.narrow else 36
    legend = [
        ("bar", colours.dropped, "said nothing new"),
        ("bar", mixed(colours.event, colours.paper, MERGED_SHARE), "added a detail"),
        ("bar", colours.event, "began an event"),
    ]
    first = 48 if look.narrow else 40
    figure, ax = sheet(look, first + row * len(topics) + 4)
    keys(ax, 0, 16, legend, look)
    label = 0 if look.narrow else 210
    number = 0 if look.narrow else 90
    stopped = 0 if look.narrow else 150
    width = look.width_px - label - number - stopped
    for place, topic in enumerate(topics):
        y = first + place * row
        suppressed = f"{percent(topic.redundant + topic.merged, topic.reports)} went no further"
        if look.narrow:
            write(ax, 0, y + 14, topic.name, look, room=look.width_px - 160)
            write(
                ax,
                look.width_px,
                y + 14,
                f"{percent(topic.redundant + topic.merged, topic.reports)} of {brief(topic.reports)}",
                look,
                px=look.small_px,
                colour=colours.muted,
                align="right",
            )
            top, height = y + 21, 13.0
        else:
            write(ax, 0, y + 20, topic.name, look, room=label - 16)
            write(
                ax,
                label + number - 14,
                y + 20,
                counted(topic.reports, "report")
                if topic.reports < 10_000
                else f"{brief(topic.reports)} reports",
                look,
                px=look.small_px,
                colour=colours.muted,
                align="right",
            )
            write(ax, look.width_px - stopped + 14, y + 20, suppressed, look, px=look.small_px)
            top, height = y + 5, 22.0
        _stacked(ax, label + number, top, width, height, topic, look)
    return figure


def _stacked(ax: Axes, x: float, y: float, width: float, height: float, topic: Topic, look: Look) -> None:
    colours = look.colours
    parts = (
        (topic.redundant, colours.dropped),
        (topic.merged, mixed(colours.event, colours.paper, MERGED_SHARE)),
        (topic.opened, colours.event),
    )
    whole = max(1, sum(n for n, _ in parts))
    for n, colour in parts:
        bar(ax, x, y, width * n / whole - (0.8 if n else 0), height, fill=colour)
        x += width * n / whole


def _shown(day: Day, rows: int) -> list[Topic]:
    """The topics with most reports, and all others as one."""
    ordered = sorted((topic for topic in day.topics if topic.reports), key=lambda topic: -topic.reports)
    if len(ordered) <= rows:
        return ordered
    rest = ordered[rows - 1 :]
    return [
        *ordered[: rows - 1],
        Topic(
            f"{len(rest)} more topics",
            sum(topic.reports for topic in rest),
            sum(topic.redundant for topic in rest),
            sum(topic.merged for topic in rest),
            sum(topic.opened for topic in rest),
            sum(topic.versions for topic in rest),
            sum(topic.delivered for topic in rest),
        ),
    ]
