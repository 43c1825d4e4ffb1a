"""The opening on live brokers: nothing is lost though one is killed, and nothing runs when it is stopped."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tidings.demo import opening
from tidings.demo.roads import BROKERS, SUBSCRIBERS
from tidings.local import network
from tidings.local.network import Process, StateFile

PORT = 21_400
PATIENCE_S = 120.0

PLAY = """
import signal, sys
from pathlib import Path
from rich.console import Console
from tidings.demo import opening, stopping

heavy = {"pyspark", "pandas", "matplotlib"} & sys.modules.keys()
assert not heavy, heavy
folder, port = Path(sys.argv[1]), int(sys.argv[2])
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
console = Console()
try:
    with stopping.guard(console, folder):
        opening.run(console, folder, 1, port)
except SystemExit as ended:
    sys.exit(ended.code)
"""


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))


@pytest.mark.slow
def test_nothing_is_lost_though_the_busiest_seat_is_killed(tmp_path: Path) -> None:
    file = io.StringIO()
    seen = opening.run(Console(file=file, width=200), tmp_path, 1, PORT)
    assert seen.holds, file.getvalue()
    assert (seen.lost, seen.unwanted) == (0, 0)
    assert seen.killed in BROKERS
    assert seen.healed_s is not None
    assert seen.deliveries > seen.events > 0
    assert seen.versions < seen.reports
    text = file.getvalue()
    assert f"kill -9 {seen.killed}" in text
    assert f"{len(SUBSCRIBERS)} subscribers got {seen.deliveries} messages" in text
    assert "Lost: 0" in text
    assert f"Repeated: {seen.repeated}" in text
    assert StateFile(tmp_path / "opening").read() is None


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("when", ["brokers start", "people report"])
def test_nothing_runs_any_more_when_it_was_asked_to_stop(
    tmp_path: Path, when: str, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-c", PLAY, str(tmp_path), str(PORT)], stdout=subprocess.PIPE, text=True
    ) as played:
        assert played.stdout is not None
        lines = iter(played.stdout.readline, "")
        said = next(line for line in lines if when in line)
        file = StateFile(tmp_path / "opening")
        found: set[Process] = set()

        def started() -> bool:
            state = file.read()
            found.update(one.process for one in (state.members if state else ()) if one.process)
            return bool(found)

        assert network.wait_for(started, PATIENCE_S), said
        played.send_signal(number)
        rest = "".join(lines)
        assert played.wait(PATIENCE_S) == 128 + number, rest
    assert f"MB in {tmp_path}" in rest
    assert not any(process.alive for process in found)
    assert file.read() is None
    assert not _speaking_of(tmp_path)


def _speaking_of(folder: Path) -> list[str]:
    """Processes that were started with something in a folder."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = command.read_bytes()
        except OSError:  # it has ended in between
            continue
        if str(folder).encode() in words:
            found.append(str(command))
    return found
