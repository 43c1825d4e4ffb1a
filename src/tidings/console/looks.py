"""How the page and its pictures look: colours, and the width for which a picture is drawn.

One table of colours for both, so that a word in the text has the colour of what it names. Nothing here draws.
"""

from __future__ import annotations

from dataclasses import dataclass

WIDE_PX = 880
NARROW_PX = 340
"""Pictures fill the column of the page, or a phone of 360 px less the page's edges."""

NARROW_BELOW_PX = 860
"""Screens that are narrower get the pictures drawn for phones; a wide one never shrinks by a fifth."""


@dataclass(frozen=True, slots=True)
class Colours:
    """By what they stand for. Colour-blind eyes too tell reports, events and what is unwanted apart."""

    page: str
    paper: str
    """Behind pictures."""

    ink: str
    muted: str
    line: str
    report: str
    event: str
    delivery: str
    dropped: str
    """What said nothing new."""

    unwanted: str
    good: str
    bad: str


LIGHT = Colours(
    page="#f6f4ef",
    paper="#ffffff",
    ink="#1b2430",
    muted="#586473",
    line="#dedad0",
    report="#d5741a",
    event="#1d6cb0",
    delivery="#2a8a66",
    dropped="#b0a99b",
    unwanted="#b5367a",
    good="#1f7a4f",
    bad="#b3261e",
)

DARK = Colours(
    page="#0f141a",
    paper="#171e26",
    ink="#e8ebef",
    muted="#9eaab7",
    line="#2f3a46",
    report="#f2a24a",
    event="#62b0f0",
    delivery="#5cc79d",
    dropped="#606c79",
    unwanted="#f07ab5",
    good="#5cc79d",
    bad="#ff8a80",
)


@dataclass(frozen=True, slots=True)
class Look:
    """For which eyes and which screen a picture is drawn."""

    dark: bool = False
    narrow: bool = False

    @property
    def colours(self) -> Colours:
        return DARK if self.dark else LIGHT

    @property
    def width_px(self) -> int:
        return NARROW_PX if self.narrow else WIDE_PX

    @property
    def text_px(self) -> float:
        return 12.0 if self.narrow else 13.5

    @property
    def small_px(self) -> float:
        return 10.5 if self.narrow else 12.0


def mixed(colour: str, paper: str, share: float) -> str:
    """So much of a colour on paper: as if it were thin, but nothing shines through.

    >>> mixed("#000000", "#ffffff", 0.2)
    '#cccccc'
    """
    pairs = ((int(colour[i : i + 2], 16), int(paper[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(ink * share + white * (1 - share)):02x}" for ink, white in pairs)


WIDE = Look()
LOOKS = (WIDE, Look(dark=True), Look(narrow=True), Look(dark=True, narrow=True))
