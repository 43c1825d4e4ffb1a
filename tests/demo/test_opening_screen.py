"""How the opening looks: that all of it fits, on narrow screens and wide ones."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tidings.demo import opening_screen, roads
from tidings.demo.opening_screen import Screen
from tidings.demo.roads import BROKERS, SUBSCRIBERS
from tidings.demo.witness import Delivered, Witness


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


@pytest.mark.parametrize("terminal", [False, True], ids=["no terminal", "one that cannot redraw"])
def test_where_nothing_can_be_redrawn_there_are_lines_and_at_the_end_all_of_it_once(terminal: bool) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, height=40, _environ={"TERM": "dumb"})
    with Screen(console, seen(), SUBSCRIBERS) as screen:
        screen.draw()
        screen.say("kill -9 north")
        assert file.getvalue() == "kill -9 north\n"
    assert file.getvalue().count("what people report") == 1
    assert file.getvalue().count("the events it becomes") == 1


def test_what_was_cut_short_is_not_shown_as_if_it_had_ended() -> None:
    file = io.StringIO()
    with (
        pytest.raises(KeyboardInterrupt),
        Screen(Console(file=file), seen(), SUBSCRIBERS),
    ):
        raise KeyboardInterrupt
    assert file.getvalue() == ""
