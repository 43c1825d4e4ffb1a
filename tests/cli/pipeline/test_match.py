"""`tidings pipeline explain`: how a workload would be matched, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.records import workloads as made
from tidings.cli import app
from tidings.errors import InputError


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    rows = made.drawn(1, subscriptions=500, events=100)
    return made.write(tmp_path, subscriptions=rows["subscriptions"], events=rows["events"])


def explain(workload: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", "explain", "match", "--data", str(workload), *arguments])


def test_an_index_that_fits_is_explained(workload: Path) -> None:
    said = explain(workload).stdout
    assert "match by index: the index fits into memory" in said
    assert "500 subscriptions and 100 events" in said
    assert "halved" not in said


def test_one_that_does_not_fit_is_explained(workload: Path) -> None:
    said = explain(workload, "--memory", "64k", "--cores", "2").stdout
    assert "match by cells: the index does not fit into memory" in said
    assert "times, by subject, language" in said


def test_programs_get_the_same_as_json(workload: Path) -> None:
    told = json.loads(explain(workload, "--memory", "64k", "--cores", "2", "--json").stdout)
    assert told["way"] == "cells"
    assert told["memory_bytes"] == 65_536
    assert told["depth"] > 0
    assert told["attributes"] == ["subject", "language"]
    assert told["fullest_subscriptions"] < 500
    assert json.loads(explain(workload, "--way", "index", "--json").stdout)["why"] == "it was asked for"


def test_a_size_that_is_none_is_refused(workload: Path) -> None:
    result = explain(workload, "--memory", "much")
    assert result.exit_code == 2
    assert "such as 512m" in " ".join(result.stderr.replace("│", " ").split())


def test_a_folder_without_a_workload_is_refused(tmp_path: Path) -> None:
    result = explain(tmp_path)
    assert isinstance(result.exception, InputError)
    assert "has no table of a workload" in str(result.exception)


def test_matching_refuses_a_setting_that_is_none_of_sparks(workload: Path) -> None:
    result = CliRunner().invoke(app, ["pipeline", "match", "--data", str(workload), "--set", "seed=3"])
    assert isinstance(result.exception, InputError)
    assert "'seed' is no setting of Spark's" in str(result.exception)
