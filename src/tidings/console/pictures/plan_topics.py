"""Which store keeps which topic: a field of dots, topics by stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from tidings.console.drawing import dot, nothing, sheet, shortened, stroke, text_px, write
from tidings.console.looks import Look

TOPICS_MAX = 24
STORES_WIDE, STORES_NARROW = 24, 9


def plan_topics(assignment: Mapping[str, Sequence[str]], stores: Sequence[str], look: Look) -> Figure:
    """`assignment`: the stores of each topic, in the order in which topics are to be shown."""
    if not assignment or not stores:
        return nothing(look, "No topic is kept anywhere.")
    colours = look.colours
    topics = list(assignment)[:TOPICS_MAX]
    columns = list(stores)[: STORES_NARROW if look.narrow else STORES_WIDE]
    row = 22.0
    label = min(look.width_px * 0.36, max(text_px(topic, look.small_px) for topic in topics) + 14)
    step = min(76.0, (look.width_px - label - 10) / len(columns))
    head = 44.0
    left_out = len(topics) < len(assignment) or len(columns) < len(stores)
    figure, ax = sheet(look, head + row * len(topics) + (26 if left_out else 8))
    slanted = step < max(text_px(name, look.small_px) for name in columns) + 8
    for at, name in enumerate(columns):
        x = label + (at + 0.5) * step
        shown = shortened(name, step - 4 if slanted else 200.0, look.small_px)
        # Every other name a line higher, where they would touch.
        base = head - 14 - (look.small_px * 1.3 if slanted and at % 2 else 0)
        write(
            ax,
            x,
            base,
            shortened(name, 2 * step - 6, look.small_px) if slanted else shown,
            look,
            px=look.small_px,
            bold=True,
            align="center",
        )
        stroke(ax, (x, x), (head - 8, head + row * len(topics) - 6), colour=colours.line, px=1)
    for place, topic in enumerate(topics):
        y = head + place * row + 6
        write(ax, 0, y + look.small_px * 0.36, topic, look, px=look.small_px, room=label - 10)
        stroke(ax, (label, label + step * len(columns)), (y, y), colour=colours.line, px=1)
        for at, name in enumerate(columns):
            if name in assignment[topic]:
                dot(ax, label + (at + 0.5) * step, y, 6, fill=colours.delivery, above=3)
    if left_out:
        text = f"{len(topics)} of {len(assignment):,} topics, {len(columns)} of {len(stores):,} stores"
        base = head + row * len(topics) + 14
        write(ax, 0, base, text, look, px=look.small_px, colour=colours.muted, room=look.width_px)
    return figure
