"""A network of processes that is started for a demonstration, and that nothing of it stays."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidings.cli import app
from tidings.demo import brokers
from tidings.demo.brokers import Brokers
from tidings.demo.completeness import SLOW_S
from tidings.errors import InputError, SetupError
from tidings.local import network
from tidings.local.network import Member, Process, State, StateFile

PORT = 21_200
IDS = ["north", "south", "east"]
LINKS = [("south", "north"), ("east", "south")]


@pytest.fixture(autouse=True)
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StateFile]:
    """Where a network of the user would be written down; whatever is there at the end is stopped."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    yield StateFile()
    CliRunner().invoke(app, ["down"])


def processes(net: Brokers) -> list[Process]:
    return [one.process for one in net.members if one.process is not None]


def test_a_network_starts_loses_a_broker_gets_it_back_and_leaves_nothing(
    tmp_path: Path, users: StateFile
) -> None:
    with Brokers.start(tmp_path / "net", IDS, LINKS, {"heartbeat": "1s"}, PORT) as net:
        assert [one.id for one in net.members] == IDS
        assert {one.id: set(one.links) for one in net.views()} == {
            "north": {"south"},
            "south": {"north", "east"},
            "east": {"south"},
        }
        assert users.read() is None
        # Soon nobody has anything to do: links have acknowledged what was said while they were made.
        assert network.wait_for(lambda: not net.busy(), SLOW_S)
        seen = processes(net)
        before = net.cpu_seconds()
        net.kill("east")
        assert [one.state for one in net.views()] == ["ready", "ready", "dead"]
        net.restart("east")
        assert [one.state for one in net.views()] == ["ready", "ready", "ready"]
        assert net.views()[2].restarts == 1
        assert net.cpu_seconds()["east"] > before["east"] > 0
        seen += processes(net)
        assert len(set(seen)) == len(IDS) + 1
    assert not any(process.alive for process in seen)
    assert StateFile(tmp_path / "net").read() is None
    assert net.records.is_dir()


@pytest.mark.slow
def test_a_network_that_is_kept_is_the_users(tmp_path: Path, users: StateFile) -> None:
    with Brokers.start(tmp_path / "net", ["only"], [], first_port=PORT) as net:
        net.keep()
    assert [process.alive for process in processes(net)] == [True]
    assert CliRunner().invoke(app, ["status"]).exit_code == 0
    with pytest.raises(InputError, match=r"runs already.*tidings down"):
        brokers.check_keep()
    with pytest.raises(InputError, match=r"still runs.*another folder"):
        Brokers.start(tmp_path / "net", ["only"], [], first_port=PORT)
    down = CliRunner().invoke(app, ["down"])
    assert f"its data is still in {tmp_path / 'net'}" in down.stdout
    assert [process.alive for process in processes(net)] == [False]
    assert users.read() is None


STATUS: dict[str, Any] = {
    "links": [{"peer": "south", "queued": 0}, {"peer": "east", "queued": 0}],
    "gathering": {"waiting": 0},
    "mqtt": {"queued": 0, "inflight": 0},
}


def test_a_broker_is_busy_with_reports_messages_on_links_and_deliveries() -> None:
    assert brokers.queued(STATUS) == 0
    assert brokers.queued(STATUS | {"links": [{"queued": 2}, {"queued": 1}]}) == 3
    assert brokers.queued(STATUS | {"gathering": {"waiting": 4}}) == 4
    assert brokers.queued(STATUS | {"mqtt": {"queued": 5, "inflight": 6}}) == 11


def test_a_broker_that_runs_and_does_not_answer_is_busy_and_one_that_is_dead_is_not(
    tmp_path: Path, child: subprocess.Popen[bytes]
) -> None:
    def net(process: Process) -> Brokers:
        member = Member("only", "127.0.0.1:1", "127.0.0.1:2", str(tmp_path), "127.0.0.1:3", process)
        return Brokers(tmp_path, [member], [], {})

    assert net(Process.of(child.pid)).busy()
    assert not net(Process(child.pid, "at another time")).busy()


def test_brokers_whose_records_are_read_have_long_to_write_them_and_are_not_killed_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    def stop(_members: object, within_s: float) -> list[str]:
        given.append(within_s)
        return ["north"] * (len(given) - 1)

    monkeypatch.setattr(network, "stop", stop)
    net = Brokers(tmp_path, [], [], {})
    net.close()
    with pytest.raises(SetupError, match=r"^too slow: north did not write all records"):
        net.close()
    net.stop()
    assert given == [SLOW_S, SLOW_S, network.STOP_WITHIN_S]


def test_a_broker_that_cannot_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"only has died; its log is .*\n.*heartbeat"):
        Brokers.start(tmp_path / "net", ["only"], [], {"heartbeat": "often"}, PORT)
    assert StateFile(tmp_path / "net").read() is None


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits to be ended."""
    started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield started
    started.kill()
    started.communicate()


def written(folder: Path, supervisor: Process, broker: Process) -> None:
    member = Member("left", "127.0.0.1:1", "127.0.0.1:2", str(folder / "left"), "127.0.0.1:3", broker)
    StateFile(folder).claim(State(supervisor, str(folder), False, {}, (member,)))


def test_what_a_killed_demonstration_left_is_ended_first(
    tmp_path: Path, child: subprocess.Popen[bytes]
) -> None:
    written(tmp_path, Process(os.getpid(), "at another time"), Process.of(child.pid))
    with Brokers.start(tmp_path, [], []):
        assert network.wait_for(lambda: child.poll() is not None, 30)


def test_two_demonstrations_in_one_folder_are_refused(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    written(tmp_path / "network", Process.of(os.getpid()), Process.of(child.pid))
    for folder in (tmp_path / "network", tmp_path):
        with pytest.raises(InputError, match=r"runs in .* already.*another folder"):
            brokers.release(folder)
    assert child.poll() is None


def test_two_that_start_at_once_choose_ports_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "cache_folder", lambda: tmp_path / "cache")
    with (
        brokers.choosing_ports(),
        (tmp_path / "cache" / brokers.LOCK).open("w") as other,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / "cache" / brokers.LOCK).open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_without_a_cache_ports_are_chosen_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(brokers, "cache_folder", lambda: tmp_path / "file" / "cache")
    with brokers.choosing_ports():
        pass
