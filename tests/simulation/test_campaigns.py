"""Campaigns find planted bugs, and their command keeps what has been played.

`python -m tests.simulation.campaign --planted all` plants the other bugs too, which takes longer.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.simulation.campaign import aimed, gathered, routing
from tests.simulation.campaign.__main__ import main, read
from tests.simulation.campaign.campaigns import CAMPAIGNS, Played, hunt, play
from tests.simulation.campaign.strikes import LEAST
from tests.simulation.switches import PLANTED, SWITCHES
from tidings.overlay.publishing.routes import Routes

SEEDS = range(100)


@pytest.mark.parametrize("name", [switch.name for switch in SWITCHES])
def test_a_workload_finds_the_broken_rule_that_it_is_aimed_at(name: str) -> None:
    assert PLANTED[name].campaign == "aimed"
    assert hunt(name, SEEDS).found


def test_a_planted_bug_that_does_not_fit_the_code_is_no_find(monkeypatch: pytest.MonkeyPatch) -> None:
    def old(_homes: object) -> None: ...

    name = SWITCHES[0].name
    rotten = replace(PLANTED[name], plant=lambda: patch.object(Routes, "wanted", old))
    monkeypatch.setitem(PLANTED, name, rotten)
    with pytest.raises(RuntimeError, match="does not fit the code"):
        hunt(name, SEEDS)


@pytest.mark.parametrize("name", aimed.AIMED)
def test_no_workload_finds_anything_in_the_right_code(name: str) -> None:
    assert [breach for seed in range(5) for breach in aimed.breaches(name, seed)] == []


def test_ten_more_bugs_are_planted() -> None:
    assert len(PLANTED) >= len(SWITCHES) + 10
    assert {bug.campaign for bug in PLANTED.values()} <= CAMPAIGNS.keys()


@pytest.mark.parametrize("name", ["routing", "gathered"])
def test_fresh_seeds_are_as_large_as_a_campaign_wants_them(name: str) -> None:
    plan = {"routing": routing.plan, "gathered": gathered.plan}[name]
    for seed in SEEDS:
        made = plan(seed)
        assert len(made.topology.ids) >= 5
        assert made.workload.publications >= 2_000
        assert made.fault_count >= 10


@pytest.mark.parametrize("name", ["routing", "gathered"])
def test_a_seed_keeps_all_promises_and_is_struck(name: str) -> None:
    played = play(name, 1)
    assert played.breaches == ()
    assert len(played.cells) >= LEAST


def test_a_campaign_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["aimed", "--seeds", "3", "--processes", "1", "--folder", str(tmp_path)]
    assert main(words) == 0
    kept = tmp_path / "aimed.jsonl"
    lines = kept.read_text(encoding="utf-8").splitlines(keepends=True)
    kept.write_text("".join(lines[:2]) + lines[2][:20], encoding="utf-8")
    seeds: list[int] = []

    def noted(name: str, seed: int) -> Played:
        seeds.append(seed)
        return play(name, seed)

    monkeypatch.setattr("tests.simulation.campaign.__main__.play", noted)
    assert main(words) == 0
    assert seeds == [2]
    assert read(kept).keys() == {0, 1, 2}


def test_a_seed_that_breaks_a_promise_fails_the_campaign_and_says_how_to_play_it(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    words = ["aimed", "--seeds", "10", "--processes", "1", "--folder", str(tmp_path)]
    with PLANTED[SWITCHES[0].name].plant():
        assert main(words, lambda line: said.append(str(line))) == 1
    assert any("replay: python -m tests.simulation.campaign aimed --seed" in line for line in said)
