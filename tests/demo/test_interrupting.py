"""Ctrl-C in later steps of the demonstration: no broker, no Spark, and nothing that these started is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidings.local import network
from tidings.local.network import Process

DEMO = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
from tidings.cli import main
main()
"""
PATIENCE_S = 600.0
PORT = 21_500


def descendants(pid: int) -> set[Process]:
    """All that a process has started, and all that these have."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
        except OSError:  # it has ended in between
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found: set[Process] = set()
    todo = [pid]
    while todo:
        for child in children.get(todo.pop(), []):
            found.add(Process.of(child))
            todo.append(child)
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted in /proc")
@pytest.mark.parametrize(
    ("after", "processes"),
    [
        ("Spark generates a city", 1),
        ("A live network plays the day", 2 + 5),
        ("Every subscriber is checked against the truth", 1 + 5),
        ("Spark reads what the brokers wrote down", 1),
        ("Plans for such days", 1),
        ("What the same day costs otherwise", 1 + 5),
    ],
    ids=["Spark generates", "the network plays", "checks", "Spark reads", "plans", "other ways"],
)
def test_nothing_is_left_when_a_later_step_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str, processes: int
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    words = ["demo", "--size", "small", "--out", str(tmp_path / "out"), "--port", str(PORT), "--no-open"]
    told = tmp_path / "told"
    # To a file: whatever is left would hold a pipe open, and the test would wait for it.
    with (
        told.open("w") as out,
        subprocess.Popen([sys.executable, "-u", "-c", DEMO, *words], stdout=out, stderr=out) as demo,
    ):
        found: set[Process] = set()

        def under_way() -> bool:
            if after in told.read_text(encoding="utf-8"):
                found.update(descendants(demo.pid))
            return len(found) >= processes or demo.poll() is not None

        assert network.wait_for(under_way, PATIENCE_S)
        demo.send_signal(signal.SIGINT)
        code = demo.wait(PATIENCE_S)
    rest = told.read_text(encoding="utf-8")
    assert code == 128 + signal.SIGINT, rest
    assert f"MB in {tmp_path / 'out'}" in rest
    assert "Traceback" not in rest
    assert "\tat " not in rest  # nor Java's form of it
    # Workers of Spark end when they see that it has.
    assert network.wait_for(lambda: not any(one.alive for one in found), 30)
