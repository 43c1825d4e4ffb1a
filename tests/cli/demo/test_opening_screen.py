"""How the opening looks: that all of it fits, on narrow screens and wide ones."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tidings.cli.demo import opening_screen, roads
from tidings.cli.demo.opening_screen import Screen
from tidings.cli.demo.roads import BROKERS, SUBSCRIBERS
from tidings.cli.demo.witness import Delivered, Witness


def seen() -> Witness:
    """A whole opening, each event told once."""
    said = roads.reports(0)
    witness = Witness(SUBSCRIBERS, said)
    for report in said:
        witness.says(report)
    for number, ((topic, _), final) in enumerate(roads.finals(said).items()):
        for one in SUBSCRIBERS:
            if one.wants(topic, final):
                witness.hears(one.name, Delivered(topic, f"e{number}", 1, 12, "north", final))
    assert witness.missing() == []
    return witness


def drawn(width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, force_terminal=True, record=True, file=io.StringIO())
    screen = Screen(console, seen(), SUBSCRIBERS)
    screen.brokers = dict.fromkeys(BROKERS, opening_screen.UP)
    console.print(screen.picture())
    return console.export_text().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 60)])
def test_everything_is_seen_at_once(width: int, height: int) -> None:
    lines = drawn(width, height)
    assert len(lines) < height
    text = "\n".join(lines)
    for happening in roads.HAPPENINGS:
        assert str(happening.truth["place"]) in text
    for one in SUBSCRIBERS:
        assert f"{one.name} ({one.wish})" in text
    for broker in BROKERS:
        assert f"{broker} ●" in text
    assert "version 1 → crews medics radio buses desk" in text


def test_a_small_screen_shows_the_latest() -> None:
    lines = drawn(60, 16)
    assert len(lines) <= 16 + opening_screen.AROUND
    assert "Mesogeion 40" in "\n".join(lines)


def test_where_nobody_looks_there_are_lines() -> None:
    file = io.StringIO()
    with Screen(Console(file=file), seen(), SUBSCRIBERS) as screen:
        screen.draw()
        screen.say("kill -9 north")
    assert file.getvalue() == "kill -9 north\n"


def test_a_terminal_that_cannot_redraw_gets_lines_too() -> None:
    file = io.StringIO()
    dumb = Console(file=file, force_terminal=True, _environ={"TERM": "dumb"})
    with Screen(dumb, seen(), SUBSCRIBERS) as screen:
        screen.draw()
        screen.say("kill -9 north")
    assert file.getvalue() == "kill -9 north\n"
