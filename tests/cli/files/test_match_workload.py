"""`tidings match --workload`: the index's answers, judged by comparing every event with every rectangle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from tests.records import workloads as made
from tidings.cli import app
from tidings.errors import InputError
from tidings.language import names


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["match", *arguments])


def answers(result: Result) -> list[tuple[int, list[int]]]:
    assert result.exit_code == 0, result.stderr
    return [(line["event"], line["matches"]) for line in map(json.loads, result.stdout.splitlines())]


def compared(rows: dict[str, list[Any]]) -> list[tuple[int, list[int]]]:
    """The right answers: the ends of every rectangle against the fields of every event."""
    asked = sorted(rows["subscriptions"], key=lambda row: row["subscription"])
    column = {
        name: np.array([row[name] for row in asked]) for name in asked[0] if name.endswith(("_lo", "_hi"))
    }
    begins = np.array([row["from_at"] for row in asked])
    ends = np.array([2**62 if row["until_at"] is None else row["until_at"] for row in asked])
    found = []
    for event in sorted(rows["events"], key=lambda row: (row["at"], row["event"])):
        inside = (begins <= event["at"]) & (event["at"] < ends)
        inside &= [names.match(row["topic"], event["topic"]) for row in asked]
        for name in made.DIMENSIONS:
            value = event["fields"][name]
            inside &= (column[f"{name}_lo"] <= value) & (value <= column[f"{name}_hi"])
        found.append((event["event"], [asked[at]["subscription"] for at in np.flatnonzero(inside)]))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_every_event_gets_the_answer_of_a_plain_comparison(tmp_path: Path, seed: int) -> None:
    rows = made.drawn(seed, subscriptions=800, events=120)
    made.write(tmp_path, parts=seed + 1, subscriptions=rows["subscriptions"], events=rows["events"])
    wanted = compared(rows)
    assert sum(len(matches) for _, matches in wanted) > 500
    assert answers(run("--workload", str(tmp_path))) == wanted


def test_a_subscription_matches_from_its_beginning_to_before_its_end(tmp_path: Path) -> None:
    made.write(
        tmp_path,
        subscriptions=[made.subscription(3, from_s=2, until_s=4), made.subscription(1, topic="subject/+")],
        events=[made.event(at, at, 5, 5) for at in (1, 2, 3, 4)],
    )
    assert answers(run("--workload", str(tmp_path))) == [(1, [1]), (2, [1, 3]), (3, [1, 3]), (4, [1])]


def test_the_first_ones_are_taken_where_that_is_asked_for(tmp_path: Path) -> None:
    rows = made.drawn(4, subscriptions=100, events=40)
    made.write(tmp_path, subscriptions=rows["subscriptions"], events=rows["events"])
    taken = [(event, [one for one in ids if one < 50]) for event, ids in compared(rows)[:7]]
    assert answers(run("--workload", str(tmp_path), "--subscriptions", "50", "--events", "7")) == taken


def test_texts_match_where_there_is_no_rectangle(tmp_path: Path) -> None:
    made.write(
        tmp_path,
        subscriptions=[
            made.subscription(1, where="subject = 5 OR language > 900", subject=None, language=None),
            made.subscription(2, subject=(5, 5), language=(0, 0)),
        ],
        events=[made.event(1, 1, 5, 0), made.event(2, 2, 6, 901), made.event(3, 3, 6, 900)],
    )
    assert answers(run("--workload", str(tmp_path))) == [(1, [1, 2]), (2, [1]), (3, [])]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workload", "{0}", "--subscriptions", "subscriptions.jsonl"], "give how many, such as 1000"),
        (["--workload", "{0}", "--unknown", "assume"], "--topic and --unknown are for files"),
        (["--events", "-"], "give --subscriptions and --events, or --workload"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    made.write(tmp_path, subscriptions=[])
    result = run(*(text.format(tmp_path) for text in arguments))
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_a_workload_without_events_is_refused(tmp_path: Path) -> None:
    made.write(tmp_path, subscriptions=[])
    result = run("--workload", str(tmp_path))
    assert isinstance(result.exception, InputError)
    assert "has no table 'events'" in str(result.exception)
