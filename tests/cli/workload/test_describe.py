"""`tidings workload describe`: tables for people, JSON for programs, plots in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.records import workloads
from tidings.cli import app
from tidings.errors import InputError


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["workload", "describe", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    drawn: dict[str, Any] = {**workloads.drawn(2)}
    return workloads.write(tmp_path / "w", **drawn)


def test_people_see_tables(folder: Path) -> None:
    result = run(folder, "--no-plots")
    assert result.exit_code == 0
    for title in ("Tables", "Regions", "Topics", "Network", "Subscriptions", "Reports of an event"):
        assert title in result.stdout
    assert "subject/sport" in result.stdout
    assert "Plots" not in result.stdout
    assert not (folder / "plots").exists()


def test_a_workload_that_is_not_whole_says_so(folder: Path) -> None:
    (folder / "events").rename(folder / "elsewhere")
    # The sample has no interests and no requests either.
    assert "not whole: it has no interests, events, requests." in run(folder, "--no-plots").stdout
    assert json.loads(run(folder, "--json", "--no-plots").stdout)["missing"] == [
        "interests",
        "events",
        "requests",
    ]


def test_programs_get_one_object(folder: Path) -> None:
    told = json.loads(run(folder, "--json", "--no-plots").stdout)
    assert told["workload"] == str(folder)
    assert {row["table"]: row["rows"] for row in told["tables"]}["subscriptions"] == 60
    assert sum(row["events"] for row in told["time"]) == 30
    assert told["plots"] == []


def test_plots_go_to_the_workload_or_where_they_are_asked_for(folder: Path, tmp_path: Path) -> None:
    told = json.loads(run(folder, "--json").stdout)
    assert [Path(file).parent for file in told["plots"]] == [folder / "plots"] * 3
    run(folder, "--out", tmp_path / "elsewhere" / "here")
    assert sorted(file.name for file in (tmp_path / "elsewhere" / "here").iterdir()) == [
        "positions.png",
        "reports.png",
        "time.png",
    ]


def test_a_folder_that_is_no_workload_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert isinstance(result.exception, InputError)
    assert "has no table of a workload" in str(result.exception)


def test_a_file_in_place_of_the_folder_of_plots_is_told(folder: Path) -> None:
    (folder / "plots").write_text("")
    result = run(folder)
    assert isinstance(result.exception, InputError)
    assert "name another folder with --out, or add --no-plots" in str(result.exception)
