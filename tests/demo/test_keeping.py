"""A network that is left up: that what is printed can be pasted, and works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tidings
from tidings.demo import keeping
from tidings.demo.brokers import Brokers
from tidings.demo.roads import DECLARATION

PORT = 21_300


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `tidings` beside a Python, in an environment of its own below the working directory."""
    folder = tmp_path / "env" / "bin"
    folder.mkdir(parents=True)
    command = folder / "tidings"
    command.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.chdir(tmp_path)
    return command


def test_a_command_that_the_shell_finds_is_called_by_its_name(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(installed.parent))
    assert keeping.command() == "tidings"


def test_a_command_that_the_shell_does_not_find_is_called_by_its_path(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert keeping.command() == "env/bin/tidings"
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert keeping.command() == str(installed)


def pasted(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, shell=True, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
def test_the_lines_work_when_they_are_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    declared = tmp_path / "traffic.toml"
    declared.write_text(DECLARATION.format(name="traffic/athens"), encoding="utf-8")
    status, sub, down = keeping.lines("traffic/#", "road = 'A1'")
    with Brokers.start(tmp_path / "net", ["one"], [], {"topics": str(declared)}, PORT) as net:
        net.keep()
    try:
        with tidings.connect(f"mqtt://{net.mqtt('one')}").sync() as client:
            client.publish("traffic/athens", {"place": "Omonia", "road": "A1"})
        shown = pasted(status)
        assert (shown.returncode, "ready" in shown.stdout) == (0, True), shown
        # Pasted as it is it waits for more, until Ctrl-C.
        told = pasted(f"{sub} --count 1 --within 60s")
        assert (told.returncode, "Omonia" in told.stdout) == (0, True), told
    finally:
        ended = pasted(down)
    assert (ended.returncode, "stopped one" in ended.stdout) == (0, True), ended
    assert not any(member.alive for member in net.members)
