"""The demonstration as a whole: what is refused before it starts, and a small one from first to last."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import msgspec
import pytest
from typer.testing import CliRunner

from tests.console import days
from tidings import installation
from tidings.cli import app
from tidings.console.day import Check
from tidings.demo import steps
from tidings.demo.checking import ARRIVES, MATCHES, ONCE
from tidings.demo.opening import Opening
from tidings.errors import InputError, SetupError
from tidings.local.network import Process

WITHIN_S = 900
"""Far more than it takes, for machines that have other things to do."""


def test_make_demo_runs_the_command_with_its_size_and_keep(root: Path) -> None:
    told = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "demo", "SIZE=medium", "KEEP=1"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.search(r"tidings demo --size medium --keep\s*$", told, re.MULTILINE)


def test_make_demo_is_small_and_keeps_nothing_unless_asked(root: Path) -> None:
    told = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "demo"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.search(r"tidings demo --size small\s*$", told, re.MULTILINE)


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


def test_the_command_is_small_as_well_unless_another_size_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[str] = []

    def run(size: str, **_: object) -> int:
        sizes.append(size)
        return 0

    monkeypatch.setattr(steps, "run", run)
    for words in ([], ["--size", "medium"], ["--size", "large"]):
        assert CliRunner().invoke(app, ["demo", *words]).exit_code == 0
    assert sizes == ["small", "medium", "large"]


OPENED = Opening(
    reports=159,
    events=7,
    versions=19,
    deliveries=57,
    killed="east",
    lost=0,
    repeated=0,
    resent=0,
    unwanted=0,
    healed_s=2.0,
    seconds=17.0,
)


@pytest.mark.parametrize(
    ("opened", "code"),
    [
        (OPENED, 0),
        (replace(OPENED, resent=2), 0),
        (replace(OPENED, repeated=2), 1),
        (replace(OPENED, lost=1), 1),
        (replace(OPENED, unwanted=1), 1),
    ],
)
def test_the_exit_code_is_1_if_anything_was_lost_wrong_or_repeated_in_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Opening, code: int
) -> None:
    """All other steps are left out; what MQTT sends again is no repeat."""
    nothing = MagicMock()
    for name in ("play", "plan", "end", "check_installed"):
        monkeypatch.setattr(steps, name, lambda *_: (nothing, nothing, nothing))
    monkeypatch.setattr(steps, "generate", lambda *_: (nothing, nothing))
    monkeypatch.setattr(steps, "check", lambda *_: (MagicMock(checks=()), Check("found", "all", True)))
    monkeypatch.setattr(steps, "count", lambda *_: ((), MagicMock(checks=())))
    monkeypatch.setattr(steps, "result", lambda *_: {})
    monkeypatch.setattr(steps, "figures", lambda *_: {})
    monkeypatch.setattr(steps, "open_", lambda *_: opened)
    monkeypatch.setattr(steps, "show", lambda *given: replace(days.sample(), checks=given[-1]))
    ended = steps.run("small", keep=False, seed=1, out=tmp_path / "demo", port=1883, json=True, opens=False)
    assert ended == code


def test_the_check_of_the_first_step_says_that_what_mqtt_sends_again_is_no_repeat() -> None:
    seen = steps.survived(replace(OPENED, resent=2))
    assert seen.holds
    assert seen.seen.startswith(
        "0 lost and 0 repeated of 57 deliveries; 2 sent again and marked so (MQTT's DUP)"
    )
    again = steps.survived(replace(OPENED, repeated=2))
    assert not again.holds
    assert again.seen.startswith("0 lost and 2 repeated of 57 deliveries")


def test_help_and_docs_say_what_the_exit_code_says(root: Path) -> None:
    help_ = " ".join(CliRunner().invoke(app, ["demo", "--help"]).output.split())
    assert "exit code is 1 if anything was lost, wrong or repeated" in help_
    assert "(DUP) is no repeat" in help_
    for page in ("demo.md", "cli.md"):
        text = " ".join((root / "docs" / page).read_text(encoding="utf-8").split())
        assert "was lost, wrong or repeated" in text
        assert "DUP" in text


def test_a_size_that_does_not_exist_is_wrong_use() -> None:
    done = CliRunner().invoke(app, ["demo", "--size", "huge"])
    assert done.exit_code == 2
    assert "huge" in done.output


def test_what_is_not_installed_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "NEEDED", ("pyspark", "no_such_module"))
    monkeypatch.setitem(installation.EXTRAS, "no_such_module", "spark")
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
    assert 0 < moves["moves"] + moves["moves_inside"] <= moves["clients"] / 10
    assert moves["hops"]["after"] < moves["hops"]["before"]
    assert moves["between_brokers"]["after"] < moves["between_brokers"]["before"]
    assert stores["hops"]["after"] < stores["hops"]["before"]
    for name in ("moves", "stores"):
        file = Path(told["paths"]["plans"]) / f"{name}.json"
        shown = CliRunner().invoke(app, ["plan", "show", str(file)])
        assert (shown.exit_code, shown.exception) == (0, None)
    assert json.loads(Path(told["paths"]["summary"]).read_text()) == told
