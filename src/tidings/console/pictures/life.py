"""The life of one event: rows of fields, dots for what reports said, bars for what subscribers know."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tidings.console.day import Day, Happening, Life
from tidings.console.drawing import bar, keys, nothing, sheet, stroke, text_px, time_ticks, write
from tidings.console.looks import Look, mixed
from tidings.console.words import counted

FIELDS_WIDE, FIELDS_NARROW = 10, 8
DOTS_MAX = 120
"""Of a kind and a field; of more, some are left out evenly."""

VERSIONS_MAX = 60
BAR_PX_MIN = 6.0


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where time and fields are on the paper."""

    left: float
    right: float
    """Where the last happening is; bars go on to the edge."""

    edge: float
    top: float
    row: float
    begun_s: float
    ended_s: float

    def x(self, at_s: float) -> float:
        share = (at_s - self.begun_s) / ((self.ended_s - self.begun_s) or 1.0)
        return self.left + (self.right - self.left) * share


def life(day: Day, look: Look) -> Figure:
    if day.life is None or not day.life.happenings:
        return nothing(look, "No event was followed.")
    event = day.life
    fields = _fields(event)
    shown = fields[: FIELDS_NARROW if look.narrow else FIELDS_WIDE]
    happenings = sorted(event.happenings, key=lambda happening: happening.at_s)
    frame = _Frame(
        left=10 if look.narrow else 128,
        right=look.width_px - (84 if look.narrow else 128),
        edge=look.width_px,
        top=84 if look.narrow else 76,
        row=58 if look.narrow else 52,
        begun_s=happenings[0].at_s,
        ended_s=happenings[-1].at_s,
    )
    bottom = frame.top + frame.row * len(shown)
    more = len(fields) - len(shown)
    figure, ax = sheet(look, bottom + (62 if more else 46))
    colours = look.colours
    legend = [
        ("dot", colours.report, "a report that tells something new"),
        ("dot", colours.dropped, "one that does not"),
        ("bar", known_colour(look), "what subscribers know"),
    ]
    if look.narrow:
        legend = [
            (sign, colour, text.replace("a report that tells ", "tells ")) for sign, colour, text in legend
        ]
        legend[1] = (*legend[1][:2], "nothing new")
    keys(ax, 0, 14, legend, look)
    _versions(ax, frame, bottom, happenings, look)
    news = _news(happenings)
    for place, name in enumerate(shown):
        _row(ax, frame, frame.top + place * frame.row, name, event, happenings, news, look)
    if more:
        write(
            ax,
            0,
            bottom + 16,
            f"and {counted(more, 'field')} more",
            look,
            px=look.small_px,
            colour=colours.muted,
        )
    _axis(ax, frame, bottom + (18 if more else 2), day.speed_up, look)
    return figure


def known_colour(look: Look) -> str:
    """Of what subscribers know; letters stand on it."""
    return mixed(look.colours.event, look.colours.paper, 0.24)


def _versions(ax: Axes, frame: _Frame, bottom: float, happenings: list[Happening], look: Look) -> None:
    colours = look.colours
    free = 0.0
    versions = [happening for happening in happenings if happening.kind == "version"]
    versions = versions[:: -(-len(versions) // VERSIONS_MAX) or 1]
    groups = _together(frame, versions, text_px("to 00", look.small_px) + 8)
    at = [frame.x(group[-1].at_s) for group in groups]
    near = any(b - a < text_px("version 00", look.small_px, bold=True) for a, b in pairwise(at))
    near = near or len(groups) < len(versions)
    for x in (frame.x(version.at_s) for version in versions):
        stroke(ax, (x, x), (frame.top - 6, bottom), colour=colours.event + "80", px=1.4, above=1.1)
    for group, x in zip(groups, at, strict=True):
        first, last = group[0], group[-1]
        head = f"v{last.became}" if near else f"version {last.became}"
        head = head if first is last else f"v{first.became}–{last.became}"
        told = f"to {last.receivers:,}"
        wide = max(text_px(head, look.small_px, bold=True), text_px(told, look.small_px))
        begin = min(max(0.0, x - wide / 2), frame.edge - wide)
        if begin < free:
            continue
        middle = begin + wide / 2
        write(
            ax,
            middle,
            frame.top - 26,
            head,
            look,
            px=look.small_px,
            colour=colours.event,
            bold=True,
            align="center",
        )
        write(ax, middle, frame.top - 11, told, look, px=look.small_px, colour=colours.muted, align="center")
        free = begin + wide + 8


def _together(frame: _Frame, versions: list[Happening], apart_px: float) -> list[list[Happening]]:
    """Versions in their order, those in one group whose names have no room beside each other."""
    groups: list[list[Happening]] = []
    for version in versions:
        if groups and frame.x(version.at_s) - frame.x(groups[-1][-1].at_s) < apart_px:
            groups[-1].append(version)
        else:
            groups.append([version])
    return groups


def _row(
    ax: Axes,
    frame: _Frame,
    y: float,
    name: str,
    event: Life,
    happenings: list[Happening],
    news: dict[int, set[str]],
    look: Look,
) -> None:
    colours = look.colours
    stroke(ax, (0, frame.edge), (y, y), colour=colours.line, px=1, above=1)
    if look.narrow:
        write(ax, 0, y + 13, name, look, px=look.small_px, colour=colours.muted, room=frame.edge, halo=True)
        dots, top, height = y + 24, y + 33, 19.0
    else:
        write(ax, 0, y + 31, name, look, bold=True, room=frame.left - 22)
        dots, top, height = y + 12, y + 22, 23.0
    for kept, colour, above in ((False, colours.dropped, 3.0), (True, colours.report, 3.2)):
        at = [
            frame.x(happening.at_s)
            for i, happening in enumerate(happenings)
            if happening.kind == "report"
            and any(field == name for field, _ in happening.says)
            and (name in news[i]) is kept
        ]
        at = at[:: -(-len(at) // DOTS_MAX) or 1]
        ax.scatter(
            at,
            [dots] * len(at),
            s=46 if kept else 34,
            color=colour,
            edgecolors=colours.paper,
            linewidths=0.8,
            zorder=above,
            clip_on=False,
        )
    known = _known(frame, name, happenings)
    truth = dict(event.truth).get(name)
    for place, (x, value) in enumerate(known):
        last = place == len(known) - 1
        end = frame.edge if last else known[place + 1][0]
        bar(ax, x, top, end - x - 1, height, fill=known_colour(look), above=1.2)
        bar(ax, x, top, 3, height, fill=colours.event, above=1.4)
        wrong = last and truth is not None and truth != value
        room = end - x - 14
        if room > 12:
            write(
                ax,
                x + 9,
                top + height / 2 + look.text_px * 0.36,
                f"{value} (really {truth})" if wrong else value,
                look,
                colour=colours.bad if wrong else colours.ink,
                room=room,
            )


def _known(frame: _Frame, name: str, happenings: list[Happening]) -> list[tuple[float, str]]:
    """Where a field got which value; of changes that no eye can tell apart the last."""
    known: list[tuple[float, str]] = []
    for happening in happenings:
        value = dict(happening.says).get(name) if happening.kind == "version" else None
        if value is None or (known and known[-1][1] == value):
            continue
        x = frame.x(happening.at_s)
        if known and x - known[-1][0] < BAR_PX_MIN:
            known.pop()
        known.append((x, value))
    return known


def _axis(ax: Axes, frame: _Frame, y: float, speed_up: float, look: Look) -> None:
    colours = look.colours
    stroke(ax, (0, frame.edge), (y, y), colour=colours.line, px=1, above=1)
    whole = (frame.ended_s - frame.begun_s) * speed_up
    ticks = time_ticks(whole, 4 if look.narrow else 7) if whole > 0 else [(0.0, "0")]
    for at, label in ticks:
        x = frame.x(frame.begun_s + at / speed_up)
        stroke(ax, (x, x), (y, y + 4), colour=colours.muted, px=1)
        write(
            ax,
            x,
            y + 18,
            label,
            look,
            px=look.small_px,
            colour=colours.muted,
            align="center" if x > 20 else "left",
        )
    write(
        ax,
        frame.edge,
        y + 36,
        "time since the first report",
        look,
        px=look.small_px,
        colour=colours.muted,
        align="right",
    )


def _fields(event: Life) -> list[str]:
    """Every field that is true or was told, in that order."""
    names = dict.fromkeys(name for name, _ in event.truth)
    for kind in ("version", "report"):
        for happening in event.happenings:
            if happening.kind == kind:
                names |= dict.fromkeys(name for name, _ in happening.says)
    return list(names)


def _news(happenings: list[Happening]) -> dict[int, set[str]]:
    """Of each report, by its place, the fields of which it said what was not known.

    One that was redundant told nothing, although it may have been sent before the one that did.
    """
    known: set[tuple[str, str]] = set()
    news: dict[int, set[str]] = {}
    for i, happening in enumerate(happenings):
        if happening.kind == "report":
            fresh = set() if happening.became == "redundant" else set(happening.says) - known
            news[i] = {name for name, _ in fresh}
            known |= fresh
    return news
