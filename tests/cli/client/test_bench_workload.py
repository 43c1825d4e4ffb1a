"""`tidings bench --workload` as a user runs it, with a broker that does as it is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.client.stub import Stub, in_a_thread
from tests.records import workloads as made
from tidings.cli import app
from tidings.errors import InputError


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stub]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with in_a_thread() as found:
        monkeypatch.setenv("TIDINGS_URL", found.address)
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(made.write(tmp_path / "w", **made.drawn(1, coming=0.0)))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", *arguments])


@pytest.mark.usefixtures("stub")
def test_it_tells_people_what_arrived_and_how_soon(folder: str) -> None:
    result = run("--workload", folder, "--subscribers", "3", "--speed-up", "10000")
    assert result.exit_code == 0, result.stderr
    for words in (
        "1 publishers, 3 subscribers, 60 content filters, events, QoS 0, 10000 times as fast as it happened",
        "sent                30",
        "lost                 0",
        "p99.9",
        "█",
    ):
        assert words in result.stdout


@pytest.mark.usefixtures("stub")
def test_it_tells_programs_the_same(folder: str) -> None:
    result = run(
        "--workload", folder, "--publications", "20", "--subscriptions", "40", "--qos", "1", "--json"
    )
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["sent"], told["lost"], told["published"], told["speed_up"]) == (20, 0, "events", None)
    assert told["expected"] == told["received"] > 0
    assert told["content_filters"] == 40
    assert "latency_us" not in told


@pytest.mark.usefixtures("stub")
def test_without_a_time_it_says_what_latencies_need(folder: str) -> None:
    assert "latency   give --speed-up" in run("--workload", folder).stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--workload", "{}", "--topics", "3"), "--topics does not go with --workload"),
        (("--workload", "{}", "--rate", "3"), "--rate does not go with --workload"),
        (("--workload", "{}", "--where", "x < 3"), "--where does not go with --workload"),
        (("--speed-up", "3"), "--speed-up needs --workload"),
        (("--publish", "events"), "--publish needs --workload"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    folder: str, options: tuple[str, ...], said: str
) -> None:
    result = run(*(option.format(folder) for option in options))
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_a_speed_that_is_none_is_refused(folder: str) -> None:
    result = run("--workload", folder, "--speed-up", "-1")
    assert isinstance(result.exception, InputError)
    assert "--speed-up is -1; give a number above 0" in str(result.exception)
