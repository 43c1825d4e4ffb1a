"""`tidings broker`: its settings checked and shown, and a real one run until it is told to stop."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tidings.cli import app
from tidings.local import network
from tidings.records.reading import read_records
from tidings.records.record import Kind
from tidings.service.config import SETTINGS


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting comes from the environment of whoever runs the tests."""
    for name, setting in SETTINGS.items():
        monkeypatch.delenv(setting.variable, raising=False)
        assert name


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["broker", *arguments])


def config(folder: Path, id_: str, text: str = "") -> Path:
    """A configuration with free ports."""
    folder.mkdir(exist_ok=True)
    port, http, mqtt = (f"127.0.0.1:{port}" for port in network.free_ports(3, 20_000))
    file = folder / f"{id_}.toml"
    file.write_text(
        f'id = "{id_}"\nlisten = "{port}"\nhttp = "{http}"\nmqtt = "{mqtt}"\nanonymous = true\n'
        f'data = "{id_}"\n{text}',
        encoding="utf-8",
    )
    return file


@contextmanager
def running(*files: Path) -> Iterator[subprocess.Popen[str]]:
    """A real `tidings broker`."""
    words = [word for file in files for word in ("--config", str(file))]
    command = [sys.executable, "-c", "from tidings.cli import main; main()", "broker", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def http_of(file: Path) -> str:
    return file.read_text(encoding="utf-8").split('http = "')[1].split('"')[0]


def ready(file: Path) -> bool:
    try:
        return network.ask(http_of(file), "/ready")[0] == 200
    except network.NoAnswer:
        return False


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "b.toml"
    file.write_text('id = "b1"\nheartbeat = "fast"\nlissten = "x"\n', encoding="utf-8")
    monkeypatch.setenv("TIDINGS_TREES", "many")
    result = run("--config", str(file), "--http", "nowhere", "--set", "settle=soon")
    assert result.exit_code == 2
    assert [line.partition(": ")[0] for line in result.stderr.splitlines()] == [
        f"{file}:2",
        f"{file}:3",
        "TIDINGS_TREES",
        "--http",
        "--set settle",
    ]


def test_a_broker_without_a_name_is_refused() -> None:
    result = run()
    assert result.exit_code == 2
    assert "id is missing" in result.stderr


def test_settings_that_are_fine_are_said_to_be(tmp_path: Path) -> None:
    result = run("--config", str(config(tmp_path, "b1")), "--check")
    assert result.exit_code == 0
    assert result.stdout == "b1: the settings are fine\n"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("anonymous = false", "nobody could connect at mqtt"),
        ('users_file = "nowhere"', "the users file"),
        ('access_file = "nowhere.toml"', "nowhere.toml: there is no such file"),
    ],
)
def test_users_and_rules_are_checked_too(tmp_path: Path, line: str, told: str) -> None:
    file = config(tmp_path, "b1")
    text = file.read_text(encoding="utf-8").replace("anonymous = true", line)
    file.write_text(text if "access" not in line else text + "anonymous = true\n", encoding="utf-8")
    result = run("--config", str(file), "--check")
    assert told in str(result.exception)


def test_two_brokers_of_one_name_are_refused(tmp_path: Path) -> None:
    files = [config(tmp_path / folder, "b1") for folder in ("one", "two")]
    result = run("--config", str(files[0]), "--config", str(files[1]), "--check")
    assert result.exit_code == 2
    assert "two brokers have the id 'b1'" in result.stderr


def test_every_setting_is_shown_with_what_it_is_set_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_HEARTBEAT", "1500ms")
    monkeypatch.setenv("TIDINGS_TOKEN", "sesame")
    told = json.loads(run("--settings", "--json", "--listen", "127.0.0.1:9").stdout)
    assert list(told) == list(SETTINGS)
    assert told["heartbeat"]["value"] == "1500ms"
    assert told["heartbeat"]["default"] == "2s"
    assert told["listen"]["value"] == "127.0.0.1:9"
    assert told["token"]["value"] == "(hidden)"
    shown = run("--settings").stdout
    assert "TIDINGS_HEARTBEAT" in shown
    assert "sesame" not in shown


def test_a_broker_runs_until_it_is_told_to_stop(tmp_path: Path) -> None:
    file = config(tmp_path, "b1")
    with running(file) as process:
        assert network.wait_for(lambda: ready(file) or process.poll() is not None, 60)
        assert process.poll() is None, process.communicate()[1]
        status = network.ask(http_of(file), "/status")[1]
        assert status["broker"] == "b1"
        assert status["records"] == {"written": 0, "lost": 0}
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    lines = [json.loads(line) for line in said.splitlines()]
    said_in_order = ["started", "health, metrics and status are served", "clients are let in", "stopped"]
    texts = [line["text"] for line in lines if line["level"] == "info"]
    assert texts == said_in_order
    assert lines[1]["about"] == {"http": http_of(file)}
    assert (tmp_path / "b1" / "store.sqlite").exists()


def test_brokers_of_one_process_link_write_records_and_leave_by_themselves(tmp_path: Path) -> None:
    first = config(tmp_path, "b1")
    address = first.read_text(encoding="utf-8").split('listen = "')[1].split('"')[0]
    second = tmp_path / "b2.toml"
    port, http = network.free_ports(2, 30_000)
    second.write_text(
        f'id = "b2"\nlisten = "127.0.0.1:{port}"\nhttp = "127.0.0.1:{http}"\nneighbours = ["{address}"]\n'
        f'records = "{tmp_path}/records"\nmqtt = "off"\n',
        encoding="utf-8",
    )
    with running(first, second) as process:
        assert network.wait_for(lambda: ready(second) or process.poll() is not None, 60)
        assert process.poll() is None, process.communicate()[1]
        assert network.ask(http_of(second), "/leave", {})[0] == 202
        assert network.wait_for(lambda: not ready(second), 60)
        assert network.wait_for(lambda: ready(first), 60)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "no data folder is set" in said
    (up, *_) = [record for record in read_records(tmp_path / "records") if record.kind is Kind.LINK_UP]
    assert (up.broker, up.link) == ("b2", "b1")


def test_an_address_in_use_ends_the_command_with_the_way_out(tmp_path: Path) -> None:
    file = config(tmp_path, "b1")
    with running(file) as process:
        assert network.wait_for(lambda: ready(file) or process.poll() is not None, 60)
        other = tmp_path / "b2.toml"
        listen = file.read_text(encoding="utf-8").splitlines()[1]
        other.write_text(f'id = "b2"\n{listen}\nhttp = "off"\nmqtt = "off"\n', encoding="utf-8")
        with running(other) as late:
            _, said = late.communicate(timeout=60)
    assert late.returncode == 2
    assert "cannot listen at" in said
    assert "0 for a free one" in said
