"""The demonstration as a whole: what is refused before it starts, and a small one from first to last."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from tidings.cli import app
from tidings.cli.demo import steps
from tidings.cli.demo.checking import ARRIVES, MATCHES, ONCE
from tidings.cli.network import Process
from tidings.errors import InputError, SetupError

WITHIN_S = 900
"""Far more than it takes, for machines that have other things to do."""


def test_make_demo_runs_the_command_with_its_size_and_keep(root: Path) -> None:
    told = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "demo", "SIZE=small", "KEEP=1"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.search(r"tidings demo --size small --keep\s*$", told, re.MULTILINE)


def test_make_demo_is_of_medium_size_and_keeps_nothing_unless_asked(root: Path) -> None:
    told = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "demo"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.search(r"tidings demo --size medium\s*$", told, re.MULTILINE)


@pytest.mark.parametrize("keep", ["", "0", "no"])
def test_make_demo_keeps_nothing_when_it_is_told_not_to(root: Path, keep: str) -> None:
    told = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "demo", f"KEEP={keep}"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "--keep" not in told


def test_a_size_that_does_not_exist_is_wrong_use() -> None:
    done = CliRunner().invoke(app, ["demo", "--size", "huge"])
    assert done.exit_code == 2
    assert "huge" in done.output


def test_what_is_not_installed_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "NEEDED", ("pyspark", "no_such_module"))
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    assert isinstance(done.exception, SetupError)
    assert str(done.exception).startswith("the demonstration needs no_such_module, not installed here: pip")
    assert not (tmp_path / "demo").exists()


def test_a_folder_with_something_else_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="no demonstration has made"):
        steps.make_room(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.txt"]


def test_what_is_not_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is not a folder"):
        steps.make_room(tmp_path / "file")


def test_the_demonstration_before_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    (folder / "page").mkdir(parents=True)
    (folder / steps.MARK).touch()
    steps.make_room(folder)
    assert [one.name for one in folder.iterdir()] == [steps.MARK]


def test_a_link_to_a_folder_stays_one(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link = tmp_path / "demo"
    link.symlink_to(tmp_path / "disk")
    steps.make_room(link)
    (link / "page").mkdir()
    (link / "latest").symlink_to(link / "page")
    (tmp_path / "disk" / steps.MARK).write_bytes(b"")
    steps.make_room(link)
    assert link.is_symlink()
    assert [one.name for one in (tmp_path / "disk").iterdir()] == [steps.MARK]


def test_a_folder_in_which_a_demonstration_runs_is_refused_whatever_it_does_just_now(tmp_path: Path) -> None:
    steps.make_room(tmp_path / "demo")
    with pytest.raises(InputError, match=f"runs in .*demo already, process {os.getpid()}"):
        steps.make_room(tmp_path / "demo")
    assert (tmp_path / "demo" / steps.MARK).exists()


def test_a_folder_of_a_demonstration_that_has_ended_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with subprocess.Popen(["true"]) as ended:
        mark = msgspec.json.encode(Process.of(ended.pid))
    folder.mkdir()
    (folder / steps.MARK).write_bytes(mark)
    steps.make_room(folder)
    assert (folder / steps.MARK).read_bytes() != mark


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written to"):
        steps.make_room(tmp_path / "demo")


@pytest.mark.slow
def test_a_small_demonstration_holds_from_its_first_step_to_its_last(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from tidings.cli import main; main()"),
            *("demo", "--size", "small", "--json", "--no-open", "--out", str(tmp_path / "demo")),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["holds"]
    assert told["difference"] == []
    assert len(told["steps"]) == 7
    checks = {one["name"]: one for one in told["checks"]}
    assert {ARRIVES, MATCHES, ONCE} <= set(checks)
    assert all(one["holds"] for one in checks.values())
    summary = told["summary"]
    assert summary["differences"] == 0
    assert summary["reports_of_them"] > summary["events_that_happened"] > 0
    assert summary["deliveries"] >= summary["events_that_subscribers_had_to_hear_of"] > 0
    assert {"Tidings", "without gathering", "without content routing"} <= {
        one["way"] for one in told["costs"]
    }
    assert all(Path(path).exists() for path in told["paths"].values())
    moves, stores = told["plans"]["moves"], told["plans"]["stores"]
    assert 0 < moves["moves"] <= moves["clients"] / 10
    assert moves["hops"]["after"] < moves["hops"]["before"]
    assert moves["between_brokers"]["after"] < moves["between_brokers"]["before"]
    assert stores["hops"]["after"] < stores["hops"]["before"]
    for name in ("moves", "stores"):
        file = Path(told["paths"]["plans"]) / f"{name}.json"
        shown = CliRunner().invoke(app, ["plan", "show", str(file)])
        assert (shown.exit_code, shown.exception) == (0, None)
    assert json.loads(Path(told["paths"]["summary"]).read_text()) == told
