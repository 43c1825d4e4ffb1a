"""What a demonstration says, as somebody reads it who has no terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tidings.console.day import Check, Cost, Day, Plans, Saving, Step
from tidings.demo import telling
from tidings.demo.telling import Telling


@pytest.fixture
def said() -> Telling:
    return Telling(Console(file=io.StringIO(), width=100, record=True))


def text(said: Telling) -> list[str]:
    return [line.rstrip() for line in said.console.export_text(clear=False).splitlines() if line.strip()]


def test_a_step_is_numbered_and_says_why_it_matters(said: Telling) -> None:
    with said.step("Count", "Because [it] matters."):
        pass
    with said.step("Count again", "Because it matters more."):
        pass
    lines = text(said)
    assert lines[0].startswith("1  Count ─")
    assert lines[1] == "Because [it] matters."
    assert lines[3].startswith("2  Count again ─")


def test_steps_are_kept_with_what_they_took_and_the_one_under_way_too(said: Telling) -> None:
    with said.step("Count", "Why."):
        assert [one.name for one in said.so_far] == ["Count"]
    with said.step("Show", "Why."):
        assert [one.name for one in said.so_far] == ["Count", "Show"]
    assert [one.name for one in said.so_far] == ["Count", "Show"]


def test_a_step_that_fails_is_not_done(said: Telling) -> None:
    with pytest.raises(ValueError, match="no"), said.step("Count", "Why."):
        raise ValueError("no")
    assert not text(said)[-1].endswith("s)")


def test_without_a_terminal_a_line_says_now_and_then_how_far_it_is(
    said: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    with said.bar("reports", 10) as move:
        move(1, "1 of 10 sent")
        move(2, "2 of 10 sent")
        monkeypatch.setattr(telling, "LINE_S", 0.0)
        move(3, "3 of 10 sent")
    assert text(said) == ["reports: 1 of 10 sent", "reports: 3 of 10 sent"]


def test_on_a_terminal_that_cannot_redraw_lines_are_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "LINE_S", 0.0)
    dumb = Console(file=io.StringIO(), width=100, record=True, force_terminal=True, _environ={"TERM": "dumb"})
    said = Telling(dumb)
    with said.bar("reports", 10) as move:
        move(2, "2 of 10 sent")
    assert text(said) == ["reports: 2 of 10 sent"]


def test_what_is_to_be_pasted_is_one_line_on_a_narrow_screen() -> None:
    narrow = Telling(Console(file=io.StringIO(), width=30, record=True))
    line = "tidings sub 'incident/#' --where 'severity >= 3' [not markup]"
    narrow.paste(line)
    assert text(narrow) == [line]


def test_what_does_not_hold_stands_out(said: Telling) -> None:
    said.checks([Check("nothing lost", "0 lost", True), Check("nothing twice", "3 of 9", False)])
    assert text(said) == ["  yes  nothing lost: 0 lost", "  NO   nothing twice: 3 of 9"]


def test_the_summary_has_figures_costs_times_and_notes(said: Telling) -> None:
    day = Day(
        title="A day",
        size="small",
        seed=1,
        speed_up=2.0,
        subscribers=1,
        subscriptions=1,
        events=1,
        brokers=(),
        links=(),
        topics=(),
        moments=(),
        life=None,
        latencies_ms=(),
        costs=(
            Cost("Tidings", 1_234, 0, 2_500_000, 77, 4.25, 20.0),
            Cost("mosquitto", 99_999, 5, 1_000_000, None, None, 3.0),
        ),
        checks=(),
        steps=(Step("Count", 12.34),),
        plans=Plans((Saving("hops", 3.0, 2.4, "5 of 50 clients move"),), ()),
        notes=("the machine was slow",),
    )
    said.summary(day, {"reports": 5_505})
    said.paths({"page": Path("/tmp/page/index.html")})
    lines = [line.split() for line in text(said)]
    assert ["reports", "5,505"] in lines
    assert ["Tidings", "1,234", "0", "2.50", "77", "4.2"] in lines
    assert ["mosquitto", "99,999", "5", "1.00", "–", "–"] in lines
    assert ["hops", "3.00", "2.40", "20%", "5", "of", "50", "clients", "move"] in lines
    assert ["Count", "12.3"] in lines
    assert "Note: the machine was slow" in text(said)
    assert ["page", "/tmp/page/index.html"] in lines
