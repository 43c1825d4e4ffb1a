"""`tidings reproduce` as a user runs it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner, Result

from tidings.cli import app
from tidings.cli.research import reproduce
from tidings.errors import InputError

TINY = ("--quick", "--runs", "1", "--set", "brokers=40", "--set", "events=6")

TOY = """
TITLE = "A toy"
FIGURES = {"1": "the only one"}

def tasks(figures, quick, runs, seed, given):
    return [{"cost": 1, "value": seed + at, "factor": int(given.get("factor", 1))} for at in range(runs or 3)]

def run(task):
    return [{"value": task["value"] * task["factor"]}]

def conclude(rows):
    return {"values": list(rows)}, {"most": max(row["value"] for row in rows)}

def plot(tables, folder):
    path = folder / "values.png"
    path.write_bytes(b"")
    return [path]
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["reproduce", *arguments])


CLAIMS = """
[[claim]]
id = "a"
figure = "1"
where = "§1"
says = "It is 2."
number = "most"
least = 2
most = 2

[[claim]]
id = "b"
figure = "1"
where = "§2"
says = "It is below 0."
number = "most"
most = 0
known = "Values are not below 0."

[[claim]]
id = "c"
figure = "any"
where = "§3"
says = "Of something that was not run."
number = "unheard"
most = 0
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A folder of papers with one in it, whose largest value should be 2."""
    folder = tmp_path / "papers" / "toy"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "experiment.py").write_text(TOY, encoding="utf-8")
    (folder / "claims.toml").write_text(CLAIMS, encoding="utf-8")
    return folder.parent


def run_toy(monkeypatch: pytest.MonkeyPatch, papers: Path, *arguments: str) -> Result:
    """Here, where the package `papers` is ours: its module is loaded by hand."""
    module = ModuleType("toy")
    exec(TOY, module.__dict__)
    monkeypatch.setattr(reproduce, "_experiment", lambda *_: module)
    monkeypatch.chdir(papers.parent)
    return run("toy", "--papers", str(papers), "--processes", "1", *arguments)


def test_without_a_paper_all_are_listed_with_their_figures() -> None:
    result = run()
    assert result.exit_code == 0, result.stderr
    assert "agele: Agele" in result.stdout
    assert "--figure 3 " in result.stdout
    listed = {one["paper"]: one["figures"] for one in json.loads(run("--json").stdout)}
    assert list(listed) == ["agele", "communities", "qos", "storage", "workload"]
    assert {"3", "4", "5", "6"} <= set(listed["agele"])
    assert {"3", "4", "5", "6", "8", "sampling"} <= set(listed["workload"])


def test_the_smallest_experiment_writes_tables_plots_and_verdicts(tmp_path: Path) -> None:
    result = run("agele", "--figure", "4", *TINY, "--processes", "1", "--out", str(tmp_path), "--json")
    assert result.exit_code == 0, result.exception
    said = json.loads(result.stdout)
    assert said["figures"] == ["4"]
    assert {file.name for file in tmp_path.iterdir()} == {"figure4.csv", "figure4.png", "verdicts.csv"}
    verdicts = {one["id"]: one for one in said["verdicts"]}
    assert [verdicts[name]["ours"] for name in ("fig4-nothing", "engines")] == [0, 0]
    assert "fig3-tb" not in verdicts, "figure 3 was not run"
    with (tmp_path / "figure4.csv").open(encoding="utf-8") as file:
        assert {row["tr"] for row in csv.DictReader(file)} == {"0.0", "2.0", "4.0", "6.0", "8.0", "10.0"}


def test_the_number_of_processes_changes_nothing(monkeypatch: pytest.MonkeyPatch, toy: Path) -> None:
    one = run_toy(monkeypatch, toy, "--json")
    command = [sys.executable, "-c", "from tidings.cli import main; main()", "reproduce", "toy", "--json"]
    two = subprocess.run(
        [*command, "--papers", str(toy), "--processes", "2"],
        cwd=toy.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert one.exit_code == two.returncode == 0, two.stderr
    assert one.stdout == two.stdout
    assert json.loads(one.stdout)["tables"]["values"] == [{"value": 0}, {"value": 1}, {"value": 2}]


@pytest.mark.slow
def test_spark_changes_nothing(tmp_path: Path) -> None:
    arguments = ("agele", "--figure", "4", *TINY, "--json")
    one = run(*arguments, "--processes", "1", "--out", str(tmp_path / "one"))
    command = [sys.executable, "-c", "from tidings.cli import main; main()", "reproduce", *arguments]
    two = subprocess.run(
        [*command, "--master", "local[2]", "--out", str(tmp_path / "two")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert one.exit_code == two.returncode, two.stderr
    said, again = json.loads(one.stdout), json.loads(two.stdout)
    assert {**said, "plots": []} == {**again, "plots": []}


def test_claims_that_hold_or_are_known_not_to_give_exit_code_0(
    monkeypatch: pytest.MonkeyPatch, toy: Path
) -> None:
    result = run_toy(monkeypatch, toy)
    assert result.exit_code == 0, result.exception
    assert "differs, as known" in result.stdout
    assert "Values are not below 0." in result.stdout
    assert "not run" not in result.stdout, "a claim about what was not run has no verdict"


def test_another_claim_that_differs_gives_exit_code_1(monkeypatch: pytest.MonkeyPatch, toy: Path) -> None:
    result = run_toy(monkeypatch, toy, "--set", "factor=7", "--json")
    assert result.exit_code == 1
    verdicts = [one["verdict"] for one in json.loads(result.stdout)["verdicts"]]
    assert verdicts == ["differs", "differs, as known"]
    assert (toy.parent / "reproduced" / "toy" / "values.csv").read_text() == "value\n0\n7\n14\n"


def test_a_quick_run_shows_its_numbers_and_does_not_judge(monkeypatch: pytest.MonkeyPatch, toy: Path) -> None:
    given = ("--set", "factor=7", "--quick")
    result = run_toy(monkeypatch, toy, *given)
    assert result.exit_code == 0, result.exception
    assert "14.0" in result.stdout
    assert "2 not judged; a quick run is too small to judge" in " ".join(result.stdout.split())
    assert "differs" not in result.stdout
    verdicts = json.loads(run_toy(monkeypatch, toy, *given, "--json").stdout)["verdicts"]
    assert [(one["verdict"], one["ours"], one["known"]) for one in verdicts] == [("not judged", 14, "")] * 2


def test_a_quick_run_that_breaks_fails(monkeypatch: pytest.MonkeyPatch, toy: Path) -> None:
    result = run_toy(monkeypatch, toy, "--set", "factor=many", "--quick")
    assert result.exit_code == 1
    assert isinstance(result.exception, ValueError)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("agil",), "no paper 'agil'"),
        (("agele", "--figure", "7"), "no figure '7'; there are 3, 4, 5, 6"),
        (("agele", "--set", "hop"), "write --set hop=1.5"),
        (("agele", "--set", "hops=1"), "no setting 'hops'"),
        (("agele", "--papers", "/nowhere/papers"), "is not the folder papers/"),
        (("agele", "--processes", "2", "--master", "local[2]"), "leave one of them out"),
        (("agele", "--master", "mine"), "master 'mine' is unknown"),
    ],
)
def test_a_call_that_is_wrong_is_refused_with_the_way_out(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, InputError)
    assert words in str(result.exception)


def test_an_installed_command_says_where_papers_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reproduce, "BESIDE", tmp_path)
    monkeypatch.chdir(tmp_path)
    result = run("agele")
    assert isinstance(result.exception, InputError)
    assert "source archive" in str(result.exception)
    assert "--papers DIR" in str(result.exception)


def test_where_nobody_looks_a_line_says_now_and_then_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = iter([0.0, 30.0, 90.0, 100.0, 200.0])
    with reproduce._Progress("toy", 4.0, lambda: next(clock)) as progress:
        for _ in range(4):
            progress.step(1.0)
    assert capsys.readouterr().err == "toy: 50% after 2 min\ntoy: 100% after 3 min\n"
