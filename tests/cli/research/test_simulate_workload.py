"""`tidings simulate --workload DIR` as a user runs it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.records import workloads as made
from tidings.cli import app
from tidings.errors import InputError


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(made.write(tmp_path, **made.drawn(1, lasts_s=20)))


def test_reports_are_published_where_there_are_any(folder: str) -> None:
    result = run("--workload", folder)
    assert result.exit_code == 0, result.stderr
    for words in ("promises", "kept", "Gathered topics", "Messages sent"):
        assert words in result.stdout


def test_events_are_published_where_that_is_asked_for(folder: str) -> None:
    told = json.loads(run("--workload", folder, "--publish", "events", "--qos", "2", "--json").stdout)
    found = told["measures"]
    assert told["kept"] is True
    assert found["gathered"] is None
    assert (found["brokers"], found["links"], found["offered"]) == (4, 4, 30)


def test_faults_and_limits_go_with_it_and_the_line_replays_it(folder: str) -> None:
    limits = ("--subscriptions", "30", "--publications", "50", "--speed-up", "2", "--bandwidth", "1e6")
    wrong = ("--faults", "crashes,cuts", "--churn", "4")
    told = json.loads(run("--workload", folder, *limits, *wrong, "--trace", "--json").stdout)
    assert told["faults"]
    again = json.loads(run(*shlex.split(told["replay"])[2:], "--trace", "--json").stdout)
    assert again["trace"] == told["trace"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--brokers", "5"), "--brokers does not go with --workload"),
        (("--topology", "ring"), "--topology does not go with --workload"),
        (("--clients", "mqtt"), "--clients does not go with --workload"),
        (("--rate", "5"), "--rate does not go with --workload"),
        (("--chaos",), "--chaos does not go with --workload"),
        (("--qos", "-1"), "--qos is -1; for a workload from a folder give 0, 1 or 2"),
        (("--speed-up", "0"), "--speed-up is 0; give a number above 0"),
        (("--subscriptions", "-5"), "--subscriptions is -5; give a whole number from 0"),
        (("--publish", "all"), "--publish is 'all'; give reports or events"),
    ],
)
def test_what_does_not_go_with_it_is_said(folder: str, options: tuple[str, ...], said: str) -> None:
    result = run("--workload", folder, *options)
    assert isinstance(result.exception, InputError)
    assert said in str(result.exception)


@pytest.mark.parametrize("option", ["--publish", "--speed-up"])
def test_options_of_a_folder_need_one(option: str) -> None:
    result = run("--workload", "uniform", option, "1")
    assert isinstance(result.exception, InputError)
    assert f"{option} is about a workload from a folder; give --workload DIR too" in str(result.exception)
