"""Every transcript in this folder is played, and must read as it is written.

After a change on purpose: TIDINGS_REWRITE_SCENARIOS=1 pytest tests/scenarios, then read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.judges.transcripts import parse, play, render
from tidings.errors import InputError

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


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


def test_an_unknown_command_is_named_with_those_that_exist() -> None:
    with pytest.raises(InputError, match="no such command; there are attach"):
        play("network a-b\nsubscibe a s1\n")
