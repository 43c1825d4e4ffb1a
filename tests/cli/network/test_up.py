"""A network on this machine, as a new user meets it: up, status, join, leave, a broker killed, down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.client.test_live import make_certificate
from tidings.cli import app
from tidings.cli.network.up import lines
from tidings.errors import AccessError, InputError
from tidings.local import network
from tidings.local.network import State, StateFile
from tidings.records.reading import read_table
from tidings.service import users

PATIENCE_S = 90.0


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StateFile]:
    """A place for a network of the test's own; whatever still runs at the end is stopped."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    found = StateFile()
    yield found
    run("down")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def up(*arguments: str) -> Result:
    """A network in the background, on ports far from those that a developer's own would take."""
    return run("up", "--detach", "--port", "21000", *arguments)


def running(file: StateFile) -> State:
    state = file.read()
    assert state is not None
    return state


def statuses() -> dict[str, Any]:
    return {one["id"]: one for one in json.loads(run("status", "--json").stdout)["brokers"]}


def all_ready() -> bool:
    return run("status", "--json").exit_code == 0


def test_a_network_comes_up_is_seen_grows_heals_shrinks_and_goes(file: StateFile, tmp_path: Path) -> None:
    result = up("--brokers", "3", "--topology", "path", "--data", str(tmp_path / "data"))
    assert result.exit_code == 0, result.stderr
    assert "only this machine reaches it" in result.stdout
    state = running(file)
    ports = [one.mqtt.rpartition(":")[2] for one in state.members]
    assert all(int(port) >= 21000 for port in ports)  # others on this machine may have the first
    for line in (
        f"curl http://{state.members[0].http}/metrics",
        f"tidings join {state.members[2].address}",
        f"mosquitto_sub -V 5 -p {ports[2]} ",
        f"mosquitto_pub -V 5 -p {ports[0]} ",
        "tidings sub 'traffic/#' --where 'severity >= 3'",
    ):
        assert line in result.stdout
    assert network.wait_for(all_ready, PATIENCE_S)
    assert {one: status["links"] for one, status in statuses().items()} == {
        "b1": ["b2"],
        "b2": ["b1", "b3"],
        "b3": ["b2"],
    }
    assert "ready" in run("status").stdout
    assert json.loads(run("status", state.members[0].http, "--json").stdout)["brokers"][0]["id"] == "b1"

    refused = run("up")
    assert isinstance(refused.exception, InputError)
    assert "runs already" in str(refused.exception)

    joined = run("join", state.members[2].address)
    assert joined.exit_code == 0, joined.stderr
    assert "b4 has joined" in joined.stdout
    assert running(file).member("b4").mqtt not in {one.mqtt for one in state.members}
    for name, reason in (("b1", "runs already"), ("a/b", "cannot be the name")):
        refused = run("join", "--id", name)
        assert isinstance(refused.exception, InputError)
        assert reason in str(refused.exception)
    assert statuses()["b4"]["links"] == ["b3"]

    killed = running(file).member("b4").process
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    assert network.wait_for(lambda: statuses()["b4"]["state"] == "dead", PATIENCE_S)
    assert run("status").exit_code == 1
    assert run("join", "--id", "b4").exit_code == 0
    assert network.wait_for(all_ready, PATIENCE_S)
    assert statuses()["b4"]["links"] == ["b3"]

    left = run("leave", "b2", "--json")
    assert left.exit_code == 0, left.stderr
    assert json.loads(left.stdout) == {
        "left": "b2",
        "by_itself": True,
        "linked": [["b1", "b3"]],
        "redundancy_lost": {"brokers": [], "links": []},
        "forgotten": False,
    }
    assert network.wait_for(all_ready, PATIENCE_S)
    assert statuses()["b1"]["links"] == ["b3"]

    refused = run("forget", "b4")
    assert isinstance(refused.exception, InputError)
    assert "tidings leave b4" in str(refused.exception)
    assert run("forget", "nobody").exit_code == 1
    killed = running(file).member("b4").process
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    assert network.wait_for(lambda: statuses()["b4"]["state"] == "dead", PATIENCE_S)
    assert network.wait_for(lambda: run("forget", "b4", "--json").exit_code == 0, PATIENCE_S)
    assert network.wait_for(lambda: all(one["links_down"] == [] for one in statuses().values()), PATIENCE_S)
    assert all(home["home"] != "b4" for one in statuses().values() for home in one["sets"])

    processes = [one.process for one in running(file).members if one.process is not None]
    gone = run("down")
    assert gone.exit_code == 0, gone.stderr
    assert "stopped b1, b3;" in gone.stdout
    assert not any(one.alive for one in processes)
    assert file.read() is None
    # Who was killed had closed no segment.
    assert set(read_table(tmp_path / "data" / "records")["broker"].to_pylist()) == {"b1", "b2", "b3"}


def test_one_process_can_be_all_brokers_with_links_of_a_file_tls_websocket_and_users(
    file: StateFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, certificate, key = make_certificate(tmp_path)
    monkeypatch.setattr(users, "LOG2_N", 4)  # hashes that take no time
    users.add_user(tmp_path / "users", "ann", b"secret")
    (tmp_path / "links.csv").write_text("a,b\nathens,patras\npatras,7\n7,athens\n", encoding="utf-8")
    # A package of that name in the folder where it is called hides nothing.
    (tmp_path / "tidings").mkdir()
    (tmp_path / "tidings" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    settings = {
        "mqtt_ws": 21_100,
        "mqtt_tls": 21_200,
        "https": 21_300,
        "mqtt_certificate": certificate.name,
        "mqtt_key": key.name,
        "users_file": "users",
    }
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    result = up("--links", "links.csv", "--single", "--json", *words)
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert len({one["pid"] for one in told["brokers"]}) == 1
    assert network.wait_for(all_ready, PATIENCE_S)
    assert {one: status["links"] for one, status in statuses().items()} == {
        "athens": ["7", "patras"],
        "patras": ["7", "athens"],
        "7": ["athens", "patras"],
    }
    refused = run("pub", "t", "x=1")
    assert isinstance(refused.exception, AccessError)
    monkeypatch.setenv("TIDINGS_PASSWORD", "secret")
    others = statuses()["7"]["others"]
    assert others["https"] == running(file).member("7").others["https"]
    for where in (
        (),
        ("--url", f"mqtts://{others['tls']}", "--authority", str(authority)),
        ("--url", f"ws://{others['ws']}"),
    ):
        assert run("pub", "t", "x=1", "--user", "ann", *where).exit_code == 0
    # The process that watches a network in the background has no terminal that could be closed.
    users.add_user(tmp_path / "users", "bob", b"secret")
    os.kill(running(file).supervisor.pid, signal.SIGHUP)
    assert network.wait_for(lambda: run("pub", "t", "x=1", "--user", "bob").exit_code == 0, PATIENCE_S)
    assert running(file).supervisor.alive
    left = run("leave", "7")
    assert left.exit_code == 0
    assert "now falls apart without the link of athens and patras; `tidings join --to ONE" in left.stdout
    assert list(statuses()) == ["athens", "patras"]
    assert network.wait_for(all_ready, PATIENCE_S)
    assert run("down").exit_code == 0
    assert not Path(told["data"]).exists()


def test_ctrl_c_stops_everything_and_leaves_nothing(file: StateFile, tmp_path: Path) -> None:
    words = ["up", "--brokers", "2", "--port", "22000"]
    command = [sys.executable, "-c", "from tidings.cli import main; main()", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        ready = network.wait_for(
            lambda: process.poll() is not None or ((state := file.read()) is not None and state.ready),
            PATIENCE_S,
        )
        assert ready
        assert process.poll() is None, process.communicate()[0]
        state = running(file)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "starting 2 brokers, ring on this machine alone" in said
    assert "stopping" in said
    assert not any(one.alive for one in state.members)
    assert not Path(state.data).exists()
    assert not file.path.exists()


def test_a_broker_that_dies_is_started_again_if_asked(file: StateFile) -> None:
    assert up("--brokers", "2", "--restart").exit_code == 0
    process = running(file).member("b2").process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    assert network.wait_for(lambda: running(file).member("b2").restarts == 1, PATIENCE_S)
    assert network.wait_for(all_ready, PATIENCE_S)


def test_a_network_without_its_supervisor_is_still_stopped(file: StateFile) -> None:
    assert up("--brokers", "1").exit_code == 0
    state = running(file)
    os.kill(state.supervisor.pid, signal.SIGKILL)
    assert network.wait_for(lambda: not state.supervisor.alive, PATIENCE_S)
    assert network.wait_for(all_ready, PATIENCE_S)
    assert run("down").exit_code == 0
    assert not any(one.alive for one in state.members)


def test_a_broker_that_cannot_start_ends_the_network_with_its_reason(file: StateFile, tmp_path: Path) -> None:
    (tmp_path / "data" / "b2" / "store.sqlite").mkdir(parents=True)
    result = up("--brokers", "2", "--data", str(tmp_path / "data"))
    assert result.exit_code == 1
    assert "b2 has died" in result.stderr
    assert "store.sqlite" in result.stderr
    assert file.read() is None


def test_settings_for_all_are_checked_before_anything_starts(
    file: StateFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDINGS_SETTLE", "soon")
    result = run("up", "--set", "heartbeat=fast", "--set", "treees=2")
    assert result.exit_code == 2
    assert "TIDINGS_SETTLE: settle: 'soon'" in result.stderr
    assert "--set heartbeat" in result.stderr
    assert "did you mean trees?" in result.stderr
    result = run("up", "--set", "listen=0.0.0.0:1")
    assert result.exit_code == 2
    assert "differs from broker to broker" in result.stderr
    assert not file.path.exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--set", "mqtt_ws=127.0.0.1:8083"], "give the first one alone, such as 8083"),
        (["--set", "mqtt_ws=0"], "'0' is no port"),
        (["--set", "mqtt_tls=8883"], "mqtt_tls is given without mqtt_certificate and mqtt_key"),
        (
            ["--set", "mqtt_tls=8883", "--set", "mqtt_certificate=none.pem", "--set", "mqtt_key=none.key"],
            "none.pem is not there",
        ),
        (["--set", "users_file=nobody"], "`tidings user add NAME --file"),
        (["--set", "access_file=nothing"], "nothing"),
        (["--set", "anonymous=false"], "nobody could connect at mqtt: there are no users"),
        (
            ["--set", "mqtt_ws=65535", "--brokers", "2"],
            "there are no 2 free ports on 127.0.0.1 from 65535 up",
        ),
        (["--links", "nothing.csv"], "nothing.csv cannot be read: No such file or directory"),
        (["--links", "nothing.csv", "--brokers", "3"], "leave out --brokers"),
        (["--links", "nothing.csv", "--seed", "0"], "leave out --seed"),
    ],
)
def test_files_ports_and_options_are_tried_before_anything_starts(
    file: StateFile, tmp_path: Path, arguments: list[str], reason: str
) -> None:
    before = sorted(tmp_path.iterdir())
    result = run("up", "--port", "21000", *arguments)
    told = " ".join(result.stderr.replace("│", " ").split()) + str(result.exception)
    assert reason in told
    assert result.exit_code != 0
    assert (file.path.exists(), sorted(tmp_path.iterdir())) == (False, before)


def test_what_is_printed_to_be_pasted_says_who_may_connect_and_where(tmp_path: Path) -> None:
    others = {"mqtt_tls": "127.0.0.1:8883", "mqtt_ws": "127.0.0.1:8083", "https": "127.0.0.1:18543"}
    members = (
        network.Member("b1", "h:1", "h:2", "f", "h:1883", others=others),
        network.Member("b 2", "h:3", "h:4", "g", "h:1884"),
    )

    def told(**settings: str) -> str:
        return lines(State(network.Process.of(os.getpid()), str(tmp_path), False, settings, members))

    anybody = told(anonymous="true", mqtt_certificate="/c.pem")
    assert "only this machine reaches it, and any client may do anything.\n" in anybody
    assert (
        "\n  tidings sub 'traffic/#' --url mqtts://127.0.0.1:8883 --authority FILE  # who has signed /c.pem\n"
        "  tidings sub 'traffic/#' --url ws://127.0.0.1:8083\n" in anybody
    )
    assert (
        "\n  curl http://h:2/metrics\n"
        "  curl --cacert FILE https://127.0.0.1:18543/metrics  # who has signed /c.pem\n" in anybody
    )
    assert "\n  tidings leave 'b 2'\n" in anybody
    users = told(anonymous="false", users_file="/users", access_file="/rules")
    assert "clients need a name of /users, with the password in TIDINGS_PASSWORD; /rules says what" in users
    assert "\n  tidings sub 'traffic/#' --where 'severity >= 3' --user NAME\n" in users
    assert "mosquitto_pub -V 5 -p 1883 -u NAME -P PASSWORD -t traffic/athens" in users
    assert "any client may connect; /rules says what" in told(access_file="/rules")
    assert "clients need a certificate.\n" in told(anonymous="false")


def test_without_a_network_the_commands_say_so(file: StateFile) -> None:
    status = run("status")
    assert (status.exit_code, status.stdout) == (1, "")
    assert "start one with `tidings up`" in status.stderr
    assert json.loads(run("status", "--json").stdout) == {"ready": False, "brokers": []}
    assert "nothing to stop" in run("down").stdout
    for command in (["join"], ["leave", "b1"]):
        result = run(*command)
        assert isinstance(result.exception, InputError)
        assert "start one with `tidings up`" in str(result.exception)


@pytest.mark.parametrize("command", [["status", "nowhere"], ["join", "nowhere"]])
def test_what_is_no_address_is_refused(file: StateFile, command: list[str]) -> None:
    result = run(*command)
    assert result.exit_code == 2
    assert "is not an address" in result.stderr


def test_a_broker_that_is_not_there_is_shown_as_such(file: StateFile) -> None:
    address = f"127.0.0.1:{network.free_ports(1, 40_000)[0]}"
    result = run("status", address, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["brokers"][0]["state"] == "no answer: nobody listens there"


def test_a_broker_joins_a_network_elsewhere_in_the_foreground(file: StateFile, tmp_path: Path) -> None:
    assert up("--brokers", "1").exit_code == 0
    address, http = running(file).members[0].address, running(file).members[0].http
    apart = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "apart")}
    command = [sys.executable, "-c", "from tidings.cli import main; main()", "join", address, "--id", "guest"]
    with subprocess.Popen(
        command, env=apart, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            linked = network.wait_for(
                lambda: process.poll() is not None or statuses()["b1"]["links"] == ["guest"], PATIENCE_S
            )
            assert linked
            assert process.poll() is None, process.communicate()[1]
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "guest takes MQTT clients at 127.0.0.1:" in said
    assert network.ask(http, "/health")[0] == 200
