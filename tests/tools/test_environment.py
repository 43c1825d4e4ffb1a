"""The set-up: what it refuses, what it says, and when it has nothing to do."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

import environment
from environment import Stamp, Unprepared

Usage = namedtuple("Usage", "total used free")


def test_a_python_without_pip_is_told_the_debian_package_of_its_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "ensurepip" else object())
    with pytest.raises(Unprepared) as caught:
        environment.check_venv()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"apt install python{version}-venv" in str(caught.value)


def test_a_disk_that_is_too_full_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: Usage(10**12, 10**12, 500_000_000))
    with pytest.raises(Unprepared, match=r"has 500 MB of free disk, and \d+ MB are needed"):
        environment.check_disk()


def test_a_disk_with_room_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: Usage(10**12, 0, 10**12))
    environment.check_disk()


def test_it_says_first_what_it_downloads_and_what_disk_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    environment.announce()
    said = capsys.readouterr().out
    assert "download  about 700 MB" in said
    assert "disk      about 2 GB" in said
    assert str(environment.VENV) in said


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The set-up in a folder of its own, with the steps that it takes instead of their doing."""
    taken: list[str] = []
    (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    for step in ("announce", "check_venv", "check_disk", "make_environment", "install_project"):
        monkeypatch.setattr(environment, step, lambda step=step: taken.append(step))
    return taken


ALL = ["announce", "check_venv", "check_disk", "make_environment", "install_project"]


def test_it_speaks_and_checks_before_it_does_anything(steps: list[str]) -> None:
    environment.prepare()
    assert steps == ALL


def test_nothing_is_done_when_nothing_changed(steps: list[str]) -> None:
    environment.prepare()
    steps.clear()
    environment.prepare()
    assert steps == []


@pytest.mark.parametrize(
    ("changed", "taken"),
    [
        ("lock", ALL),
        ("python", ALL),
        ("place", ALL),
        ("project", ["install_project"]),
    ],
)
def test_what_changed_decides_what_is_done(
    steps: list[str], monkeypatch: pytest.MonkeyPatch, changed: str, taken: list[str]
) -> None:
    environment.prepare()
    steps.clear()
    now = environment.stamp_wanted()
    other = {name: getattr(now, name) for name in ("lock", "project", "python", "place")} | {changed: "other"}
    monkeypatch.setattr(environment, "stamp_wanted", lambda: Stamp(**other))
    environment.prepare()
    assert steps == taken


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"lock": "a"}', "nonsense"])
def test_a_stamp_that_cannot_be_read_counts_as_none(steps: list[str], content: str) -> None:
    environment.stamp_path().write_text(content, encoding="utf-8")
    assert environment.stamp_found() is None


def test_the_builder_is_taken_from_the_lock(root: Path) -> None:
    lines = environment.locked((root / "requirements.lock").read_text(encoding="utf-8"), "setuptools")
    assert lines.startswith("setuptools==")
    assert "--hash=sha256:" in lines
    assert lines.count("==") == 1


def test_a_package_that_the_lock_lacks_is_named() -> None:
    with pytest.raises(Unprepared, match=r"requirements\.lock does not pin 'pear'"):
        environment.locked("apple==1 \\\n    --hash=sha256:aa\n", "pear")


def test_an_old_python_can_read_the_first_file_far_enough(root: Path) -> None:
    """No syntax that is younger than Python 2.7: neither annotations, f-strings nor `:=`."""
    tree = ast.parse((root / "tools" / "prepare.py").read_text(encoding="utf-8"))
    young = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.AsyncFunctionDef, ast.Match, ast.FunctionDef)
    assert [node for node in ast.walk(tree) if isinstance(node, young)] == []
    guard = next(index for index, node in enumerate(tree.body) if isinstance(node, ast.If))
    imported = [ast.unparse(node) for node in tree.body[:guard] if isinstance(node, ast.Import)]
    assert imported == ["import sys"]


@pytest.mark.parametrize("version", [(2, 7), (3, 6), (3, 10)])
def test_an_old_python_says_that_it_is_too_old(root: Path, version: tuple[int, int]) -> None:
    """By a Python that gives itself out as old: old ones are on few machines; the syntax is tested above."""
    program = f"import runpy, sys; sys.version_info = {version}; runpy.run_path('tools/prepare.py')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"is Python {version[0]}.{version[1]}, and Tidings needs 3.11 or newer" in done.stderr
