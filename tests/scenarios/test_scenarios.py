"""Every transcript in this folder is played, and must read as it is written.

After a change on purpose: TIDINGS_REWRITE_SCENARIOS=1 pytest tests/scenarios, then read the difference.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.judges.transcripts import parse, play, render
from tests.simulation.switches import SWITCHES, planted
from tidings.errors import InputError

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))

RULES = {
    "confirmed-before-on-disk": "restart-before-the-disk",
    "granted-without-a-member": "member-behind-a-slow-link",
    "unknown-counts-as-empty": "set-not-here-yet",
    "replaced-piece-by-piece": "set-in-parts",
    "not-held-for-strangers": "held-for-a-stranger",
    "bits-instead-of-names": "members-numbered-anew",
    "matched-before-numbered": "subscribed-while-a-version-waits",
    "asked-before-known": "question-before-its-set",
}
"""By switch, which breaks one of the eight rules of routing (0035): the transcript of what is lost then."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_the_conversation_is_as_written(scenario: Path) -> None:
    written = scenario.read_text(encoding="utf-8")
    played = play(written)
    if os.environ.get("TIDINGS_REWRITE_SCENARIOS"):
        scenario.write_text(played, encoding="utf-8")
        return
    assert played == written


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_every_block_says_what_it_is_about_or_continues_one_that_does(scenario: Path) -> None:
    first = parse(scenario.read_text(encoding="utf-8"))[0]
    assert first.commands[0].startswith("# ")


def test_a_transcript_is_read_and_written_without_a_change() -> None:
    text = SCENARIOS[0].read_text(encoding="utf-8")
    assert render(parse(text)) == text


def test_each_of_the_eight_rules_has_a_transcript_of_its_own() -> None:
    assert list(RULES) == [switch.name for switch in SWITCHES]
    assert len({*RULES.values()} & {scenario.stem for scenario in SCENARIOS}) == len(RULES)


@pytest.mark.parametrize(("switch", "stem"), RULES.items(), ids=RULES)
def test_with_a_rule_broken_a_client_misses_what_its_transcript_shows(switch: str, stem: str) -> None:
    written = (Path(__file__).parent / f"{stem}.txt").read_text(encoding="utf-8")
    with planted(switch):
        played = play(written)
    assert deliveries(written) - deliveries(played)


def deliveries(text: str) -> Counter[str]:
    """The lines of a transcript by which clients get something."""
    return Counter(line for block in parse(text) for line in block.expected if " gets " in line)


def test_a_line_that_never_comes_is_named() -> None:
    played = play("network a-b\nsubscribe b s1\nuntil b: s2 granted\n")
    assert parse(played)[0].expected[-1] == "never said: b: s2 granted"


def test_an_unknown_command_is_named_with_those_that_exist() -> None:
    with pytest.raises(InputError, match="no such command; there are attach"):
        play("network a-b\nsubscibe a s1\n")
