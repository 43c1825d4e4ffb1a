"""What is remembered of a network on this machine, and that nothing else is ever touched."""

from __future__ import annotations

import http.server
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from tidings.cli import app
from tidings.cli.network.join import _join_here
from tidings.cli.network.leave import _tell
from tidings.cli.network.status import gathered, kept, refused, table
from tidings.cli.network.topologies import Topology, links, parts
from tidings.cli.network.up import Supervisor, _Lines
from tidings.errors import InputError, SetupError
from tidings.history.logs import LogStatus
from tidings.local import network
from tidings.local.network import (
    Kept,
    Member,
    NoAnswer,
    NotThere,
    Process,
    Refusal,
    Seat,
    State,
    StateFile,
    View,
)

GONE = Process(1, "at no time")


def member(id_: str, folder: Path, process: Process | None = GONE) -> Member:
    return Member(id_, "127.0.0.1:1", "127.0.0.1:2", str(folder / id_), "127.0.0.1:3", process)


def state(folder: Path, *members: Member, supervisor: Process = GONE, temporary: bool = False) -> State:
    return State(supervisor, str(folder), temporary, {}, members)


@pytest.fixture
def file(tmp_path: Path) -> StateFile:
    return StateFile(tmp_path / "runtime")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits to be ended."""
    started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield started
    started.kill()
    started.wait()
    assert started.stdin is not None
    started.stdin.close()


# Processes.


def test_a_process_is_known_by_its_id_and_its_start() -> None:
    own = Process.of(os.getpid())
    assert own.alive
    assert not msgspec.structs.replace(own, started=own.started + "1").alive


def test_a_process_that_has_ended_is_not_alive(child: subprocess.Popen[bytes]) -> None:
    process = Process.of(child.pid)
    assert network.start_time(child.pid) == process.started
    child.kill()
    # Dead, though nobody has waited for it yet.
    assert network.wait_for(lambda: not process.alive, 30)
    child.wait()
    assert not process.alive
    assert not Process.of(child.pid).alive


def test_another_process_with_the_same_id_is_never_signalled(child: subprocess.Popen[bytes]) -> None:
    Process(child.pid, "at another time").signal(signal.SIGKILL)
    assert child.poll() is None
    Process.of(child.pid).signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def test_stopping_says_who_had_to_be_killed(tmp_path: Path) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", stubborn], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        started.stdout.readline()
        process = Process.of(started.pid)
        assert network.stop([member("b1", tmp_path, process)], within_s=0.2) == ["b1"]
        assert started.wait() == -signal.SIGKILL
    assert network.stop([member("b1", tmp_path, process)]) == []


# The file.


def test_what_is_written_down_is_read_back(file: StateFile, tmp_path: Path) -> None:
    assert file.read() is None
    running = state(tmp_path, member("b1", tmp_path), supervisor=Process.of(os.getpid()))
    file.claim(running)
    assert file.read() == running
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_a_second_network_is_refused_with_the_way_out(file: StateFile, tmp_path: Path) -> None:
    file.claim(state(tmp_path, supervisor=Process.of(os.getpid())))
    with pytest.raises(InputError, match=r"runs already.*tidings down.*tidings join.*XDG_RUNTIME_DIR"):
        file.claim(state(tmp_path))


def test_a_network_whose_supervisor_died_still_runs(file: StateFile, tmp_path: Path) -> None:
    file.claim(state(tmp_path, member("b1", tmp_path, Process.of(os.getpid()))))
    assert file.read() is not None


def test_a_file_that_outlived_its_network_is_no_network(file: StateFile, tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    file.claim(state(left, member("b1", left), temporary=True))
    assert file.read() is None
    file.claim(state(tmp_path, supervisor=Process.of(os.getpid())))
    assert not left.exists()


@pytest.mark.parametrize("temporary", [True, False])
def test_a_folder_that_somebody_named_is_kept(file: StateFile, tmp_path: Path, temporary: bool) -> None:
    data = tmp_path / "data"
    data.mkdir()
    file.claim(state(data, temporary=temporary))
    file.clear()
    assert data.exists() is not temporary
    assert not file.path.exists()


def test_brokers_are_added_replaced_and_removed_in_order(file: StateFile, tmp_path: Path) -> None:
    b1, b2, b3 = (member(f"b{number}", tmp_path) for number in (1, 2, 3))
    file.claim(state(tmp_path, b1, b2))
    file.put(b3)
    changed = file.put(msgspec.structs.replace(b1, leaving=True))
    assert [(one.id, one.leaving) for one in changed.members] == [("b1", True), ("b2", False), ("b3", False)]
    assert [one.id for one in file.remove("b2").members] == ["b1", "b3"]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_dead_broker_does_not_leave_and_is_only_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    file = StateFile()
    dead = member("b 2", tmp_path)
    file.claim(state(tmp_path, member("b1", tmp_path), dead, supervisor=Process.of(os.getpid())))
    result = CliRunner().invoke(app, ["leave", "b 2", *["--json"] * as_json])
    assert result.exit_code == 1
    if as_json:
        told = json.loads(result.stdout)
        assert (told["left"], told["by_itself"], told["forgotten"]) == ("b 2", False, True)
    else:
        assert result.stdout.startswith(
            "b 2 is dead: it has not left and was only forgotten here; the others"
        )
        assert result.stdout.endswith("\n\n  tidings join --id 'b 2' && tidings leave 'b 2'\n")
    left = file.read()
    assert left is not None
    assert [one.id for one in left.members] == ["b1"]


def test_a_broker_that_is_forgotten_was_not_asked_or_did_not_agree(page: str, tmp_path: Path) -> None:
    here = msgspec.structs.replace(member("b1", tmp_path, Process.of(os.getpid())), http=page)
    assert _tell(here) == "refuses to leave (200)"
    assert _tell(msgspec.structs.replace(here, process=GONE)) == "is dead"
    nowhere = f"127.0.0.1:{network.free_ports(1, 40_000)[0]}"
    assert _tell(msgspec.structs.replace(here, http=nowhere)) == "does not answer (nobody listens there)"


def test_changing_what_is_not_there_is_refused(file: StateFile, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="start one with `tidings up`"):
        file.put(member("b1", tmp_path))


def test_a_file_that_cannot_be_read_is_named(file: StateFile) -> None:
    file.folder.mkdir()
    file.path.write_text("{", encoding="utf-8")
    with pytest.raises(SetupError, match=r"network\.json cannot be read; remove it"):
        file.read()


def test_an_unknown_broker_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no broker 'b9' in the network; there are b1, b2"):
        state(tmp_path, member("b1", tmp_path), member("b2", tmp_path)).member("b9")


@pytest.mark.parametrize(
    ("runtime", "folder"), [("/run/user/7", "/run/user/7/tidings"), ("", "/c/tidings"), ("rel", "/c/tidings")]
)
def test_the_file_is_in_the_users_own_folder(
    monkeypatch: pytest.MonkeyPatch, runtime: str, folder: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert network.state_folder() == Path(folder)


def test_what_join_prints_can_be_pasted(
    file: StateFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = Process.of(os.getpid())
    one = member("b1", tmp_path, here)
    before = state(tmp_path, one, supervisor=here)
    file.claim(before)
    monkeypatch.setattr(network, "spawn", lambda some: [msgspec.structs.replace(some[0], process=here)])
    monkeypatch.setattr("tidings.cli.network.join.view", lambda of: View(of.id, "", "", 7, "ready", ("b1",)))
    _join_here(file, before, None, "b 2", [], False)
    assert capsys.readouterr().out.endswith("\n  tidings leave 'b 2'\n")


def test_a_hangup_is_passed_on_to_processes_all_of_whose_brokers_have_been_ready(
    file: StateFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, parent = Process.of(os.getpid()), Process.of(os.getppid())
    members = [member("b1", tmp_path, here), member("b2", tmp_path, parent), member("b3", tmp_path, parent)]
    file.claim(state(tmp_path, *members, member("gone", tmp_path), supervisor=here))
    states = {"b1": "ready", "b2": "ready", "b3": "starting", "gone": "dead"}
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("tidings.cli.network.up.view", lambda of: View(of.id, "", "", 7, states[of.id]))
    monkeypatch.setattr(os, "kill", lambda *signalled: sent.append(signalled))
    supervisor = Supervisor(file, 0, single=False, restart=False, screen=_Lines(), background=True)
    supervisor._look()
    assert sent == []
    supervisor._hangup.set()
    supervisor._look()
    assert sent == [(here.pid, signal.SIGHUP)]
    states["b3"] = "ready"
    supervisor._look()
    supervisor._look()
    assert sent[1:] == [(parent.pid, signal.SIGHUP)]
    # Later it makes no difference whether a broker is ready.
    states["b1"] = "isolated"
    supervisor._hangup.set()
    supervisor._look()
    assert sorted(sent[2:]) == sorted((one.pid, signal.SIGHUP) for one in (here, parent))


# Ports and configurations.


def test_free_ports_are_counted_up_and_leave_out_those_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = network.free_ports(3, port, taken=[port + 1])
    assert found == sorted(set(found))
    assert not {port, port + 1} & set(found)


def test_each_broker_has_ports_of_its_own_from_every_first_one(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        # WebSocket from a port that MQTT takes, TLS from one at which another program listens.
        found = network.members(tmp_path, ["x", "y"], port - 3, {"mqtt_ws": port - 2, "mqtt_tls": port})
    ports = [one.ports for one in found]
    assert [len(one) for one in ports] == [5, 5]
    assert not ports[0] & ports[1]
    assert port not in ports[0] | ports[1]
    assert [sorted(one.others) for one in found] == [["mqtt_tls", "mqtt_ws"]] * 2
    network.write_config(found[0], [], tmp_path / "records", {})
    read = tomllib.loads(found[0].config.read_text(encoding="utf-8"))
    assert read["mqtt_ws"] == found[0].others["mqtt_ws"]


def test_too_many_ports_are_refused() -> None:
    with pytest.raises(SetupError, match="no 3 free ports"):
        network.free_ports(3, 65_534)
    with pytest.raises(SetupError, match=r"no 2 free ports on 127\.0\.0\.1 from 65535 up"):
        network.members(Path(), ["x", "y"], bases={"mqtt_ws": 65_535})


def test_a_configuration_is_for_its_owner_and_can_be_read(tmp_path: Path) -> None:
    one = member('b"\\1é', tmp_path)
    network.write_config(one, ["127.0.0.1:5"], tmp_path / "records", {"heartbeat": "1s"})
    read = tomllib.loads(one.config.read_text(encoding="utf-8"))
    assert read["id"] == one.id
    assert (read["neighbours"], read["heartbeat"]) == (["127.0.0.1:5"], "1s")
    assert (read["mqtt"], read["anonymous"]) == ("127.0.0.1:3", True)
    assert one.config.stat().st_mode & 0o777 == 0o600


def test_variables_of_one_broker_are_not_for_a_whole_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_LISTEN", "0.0.0.0:7883")
    monkeypatch.setenv("TIDINGS_HEARTBEAT", "3s")
    given = network.environment()
    assert "TIDINGS_LISTEN" not in given
    assert given["TIDINGS_HEARTBEAT"] == "3s"


# Asking.


class Page(http.server.BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    def do_GET(self) -> None:
        self.send_response(418)
        self.end_headers()
        self.wfile.write(json.dumps({"path": self.path}).encode() if self.path != "/odd" else b"<html>")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"body": json.loads(body)}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def page() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_brokers_are_asked_over_http(page: str) -> None:
    assert network.ask(page, "/status") == (418, {"path": "/status"})
    assert network.ask(page, "/leave", {"a": 1}) == (200, {"body": {"a": 1}})


def test_whoever_does_not_answer_is_told_from_whoever_is_not_there(page: str) -> None:
    with pytest.raises(NoAnswer):
        network.ask(page, "/odd")
    with pytest.raises(NotThere):
        network.ask(f"127.0.0.1:{network.free_ports(1, 40_000)[0]}", "/status")


# Shapes.


@pytest.mark.parametrize("topology", Topology)
@pytest.mark.parametrize("brokers", [1, 2, 3, 7, 20])
def test_every_shape_is_connected_and_dials_only_those_before(topology: Topology, brokers: int) -> None:
    found = links(topology, brokers, seed=5)
    assert len(found) == len(set(found))
    assert all(0 <= there < here < brokers for here, there in found)
    graph = {str(one): {str(there) for here, there in found if here == one} for one in range(brokers)}
    assert len(parts(graph)) == 1


@pytest.mark.parametrize(
    ("topology", "count"), [("path", 6), ("star", 6), ("ring", 7), ("tree", 6), ("full", 21), ("random", 9)]
)
def test_shapes_have_their_links(topology: str, count: int) -> None:
    assert len(links(Topology(topology), 7, seed=1)) == count


def test_a_seed_is_a_shape() -> None:
    assert links(Topology.RANDOM, 9, 1) == links(Topology.RANDOM, 9, 1)
    assert links(Topology.RANDOM, 9, 1) != links(Topology.RANDOM, 9, 2)


def shown(views: list[View], rates: dict[str, float] | None = None) -> str:
    """The table, on a wide terminal."""
    from rich.console import Console

    console = Console(width=200, file=io.StringIO())
    console.print(table(views, rates))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_shows_where_else_clients_connect_and_ids_as_they_are() -> None:
    others = {"tls": "127.0.0.1:8883", "ws": "127.0.0.1:8083", "https": "127.0.0.1:18543"}
    told = shown([View("[red]b1", "", "127.0.0.1:9883", 7, "ready", mqtt="127.0.0.1:1883", others=others)])
    cells = [[cell.strip() for cell in line.split("│")[1:4]] for line in told.splitlines()[4:-1]]
    assert cells == [["[red]b1", "1883", "9883"], ["7", "tls 8883", "tls 18543"], ["", "ws 8083", ""]]


def test_the_table_shows_processes_where_they_are_known() -> None:
    told = shown([View("b1", "", "", 4711, "ready"), View("b2", "", "", None, "starting")])
    cells = [line[1:].lstrip("│┃ ").split()[0] for line in told.splitlines() if line[0] in "┃│"]
    assert cells == ["broker", "pid", "b1", "4711", "b2"]
    assert "pid" not in shown([View("b1", "", "h:1", None, "ready")])


def test_the_table_shows_what_is_wrong() -> None:
    views = [
        View(
            "b1",
            "127.0.0.1:1887",
            "127.0.0.1:1885",
            7,
            "ready",
            ("b2",),
            ("b3",),
            (("h:1", "why"),),
            "b1",
            received=1200,
            mqtt="127.0.0.1:1883",
        ),
        View("b2", "127.0.0.1:1888", "127.0.0.1:1886", 8, "dead", restarts=2),
    ]
    told = shown(views, {"b1": 10.0})
    assert "dead (restarted 2×)" in told
    assert "b2 b3 (down) h:1 (unreached)" in told
    assert "1,200" in told
    assert "1883" in told


def test_what_was_refused_is_shown_oldest_first_and_cannot_steer_a_terminal() -> None:
    views = [
        View("b1", "", "", 1, "ready", refusals=(Refusal(20.0, "evil\x1b[2J", "subscribe", "no"),)),
        View("b2", "", "", 2, "ready", refusals=(Refusal(10.0, "c", "connect", "why"),)),
    ]
    told = refused(views)
    assert [line.partition(" b")[2] for line in told[2:]] == [
        "2: c: connect: why",
        "1: evil�[2J: subscribe: no",
    ]
    assert refused([View("b1", "", "", 1, "ready")]) == []


def test_refusals_of_one_time_are_shown_in_the_order_in_which_a_broker_lists_them() -> None:
    both = Refusal(10.0, "z", "subscribe", "first"), Refusal(10.0, "a", "subscribe", "second")
    told = refused(
        [View("b2", "", "", 2, "ready", refusals=both), View("b1", "", "", 1, "ready", refusals=both)]
    )
    assert [line.partition(" b")[2] for line in told[2:]] == [
        "1: z: subscribe: first",
        "1: a: subscribe: second",
        "2: z: subscribe: first",
        "2: a: subscribe: second",
    ]


def test_a_refusal_of_several_lines_is_shown_in_several_lines_and_passes_for_one_only() -> None:
    reason = "2 subscriptions would break:\n  c1: severity\x1b[2J\n  c2: road"
    told = refused([View("b1", "", "", 1, "ready", refusals=(Refusal(10.0, "c\n", "request x", reason),))])
    assert told[2].endswith(" b1: c�: request x: 2 subscriptions would break:")
    assert told[3:] == ["        c1: severity�[2J", "        c2: road"]


def test_it_is_shown_who_gathers_what_and_what_that_saves() -> None:
    athens = Seat("traffic/athens", "b1", 2, 10, 2, 5, 4)
    idle = Seat("fleet/+vehicle/status", "", 0, 0, 0, 0, 0)
    views = [
        View("b1", "", "", 1, "ready", waiting=3),
        View("b2", "", "", 2, "ready", seats=(athens, idle), retain_ignored=7),
        View("b3", "", "", 3, "ready", seats=(idle,) * 25),
    ]
    told = gathered(views)
    assert told[:4] == [
        "",
        "gathered topics:",
        "  traffic/athens at b2 (deputy b1): 2 events open, 10 reports, 70% suppressed, 4 told",
        "  fleet/+vehicle/status at b2: 0 events open, 0 reports, 0% suppressed, 0 told",
    ]
    assert told[-3:] == [
        "  and 5 more at b3",
        "  3 reports wait for a seat",
        "  7 reports asked to be retained, which means nothing there",
    ]
    assert gathered([View("b1", "", "", 1, "ready")]) == []


def test_what_a_broker_says_of_its_logs_is_understood() -> None:
    said = LogStatus("news", "events", "b1.5", 2, 7, 99)
    assert msgspec.convert(asdict(said), Kept) == Kept("news", "events", "b1.5", 2, 7, 99)


def test_status_says_what_topics_keep_over_all_brokers() -> None:
    news = [
        Kept("news", "events", "b1.5", 2, 7, 1_000_000),
        Kept("news", "events", "b2.5", 0, 1_000, 500_000),
    ]
    views = [
        View("b1", "", "", 1, "ready", log=(news[0], news[1], Kept("roads", "reports", "b1.5", 0, 1, 99))),
        View("b2", "", "", 1, "ready", log=(news[1],)),
    ]
    assert kept(views) == [
        "",
        "kept:",
        "  events of news: 1,005 at 2 brokers, 2.0 MB",
        "  reports of roads: 1 at 1 broker, 0.0 MB",
    ]
    assert kept([View("b1", "", "", 1, "ready")]) == []
