"""`tidings simulate` as a user runs it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tidings.cli import app
from tidings.errors import InputError
from tidings.overlay.broker import Broker
from tidings.overlay.events import Deliver, Effect, Event
from tidings.records.reading import read_table
from tidings.records.record import Kind
from tidings.sim.carried import NAMES, PUBLICATIONS, REPORTS, VERSIONS

SMALL = ("simulate", "--topology", "ring", "--brokers", "5", "--publications", "60", "--subscriptions", "20")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_it_says_what_happened_in_tables() -> None:
    result = run(*SMALL, "--seed", "3")
    assert result.exit_code == 0, result.stderr
    for words in ("promises", "kept", "Messages sent", "Publish", "b000>b001", "latency in ms"):
        assert words in result.stdout


def test_json_has_messages_per_kind_and_link_hops_latency_and_false_positives() -> None:
    said = json.loads(run(*SMALL, "--json").stdout)
    found = said["measures"]
    assert said["kept"] is True
    assert found["brokers"] == found["links"] == 5
    assert found["offered"] == found["accepted"] == 60
    links = found["per_link"].values()
    assert found["forwarded"] > 0
    assert found["carried"] == dict.fromkeys(NAMES, 0) | {PUBLICATIONS: found["forwarded"]}
    assert sum(link["carried"][PUBLICATIONS] for link in links) == found["forwarded"]
    # As the brokers wrote it down.
    assert sum(link["publications"] for link in links) == found["forwarded"]
    assert found["messages"]["Done"] == sum(link["messages"].get("Done", 0) for link in links) > 0
    assert found["false_positives"] == 0
    assert 0 < found["hops"]["mean"] <= found["hops"]["most"] <= 4
    assert found["latency_s"]["median"] >= 0.001
    assert found["hops"]["count"] == found["delivered"] == found["latency_s"]["count"]


def test_the_same_seed_gives_the_same_run_and_another_another() -> None:
    traces = [json.loads(run(*SMALL, "--seed", seed, "--trace", "--json").stdout)["trace"] for seed in "778"]
    assert traces[0] == traces[1] != traces[2]


def test_records_are_written_as_parquet(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    result = run(*SMALL, "--records", str(folder), "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)["measures"]
    table = read_table(folder)
    kinds = table["kind"].to_pylist()
    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == found["records"]
    assert kinds.count(Kind.PUBLISHED.value) == 60
    again = run(*SMALL, "--records", str(folder))
    assert again.exit_code != 0
    assert "has records already" in str(again.exception)


def test_a_topology_and_a_workload_come_from_files(tmp_path: Path) -> None:
    net = tmp_path / "net.toml"
    net.write_text(
        "".join(f'[[broker]]\nid = "{name}"\n' for name in "xyz")
        + '[[link]]\nbetween = ["x", "y"]\ndelay = "5ms"\n[[link]]\nbetween = ["y", "z"]\n',
        encoding="utf-8",
    )
    work = tmp_path / "work.toml"
    work.write_text("topics = 2\nsubscriptions = 5\npublications = 30\n", encoding="utf-8")
    said = json.loads(run("simulate", "--topology", str(net), "--workload", str(work), "--json").stdout)
    assert said["measures"]["offered"] == 30
    assert set(said["measures"]["per_link"]) == {"x>y", "y>x", "y>z", "z>y"}


def test_faults_happen_and_are_listed() -> None:
    result = run(*SMALL, "--faults", "cuts,crashes", "--fault-count", "3", "--json")
    said = json.loads(result.stdout)
    assert result.exit_code == 0, result.stderr
    assert len(said["faults"]) == 3
    assert {fault["kind"] for fault in said["faults"]} <= {"cuts", "crashes"}


def test_chaos_draws_everything_from_the_seed() -> None:
    said = json.loads(run("simulate", "--chaos", "--seed", "5", "--json").stdout)
    assert said["replay"] == "tidings simulate --chaos --seed 5"


def test_delays_follow_what_is_asked_for(tmp_path: Path) -> None:
    matrix = tmp_path / "latencies.csv"
    names = [f"b00{number}" for number in range(5)]
    matrix.write_text(
        "ms," + ",".join(names) + "\n" + "".join(f"{name}{',40' * 5}\n" for name in names), encoding="utf-8"
    )
    fast = json.loads(run(*SMALL, "--delay", "1ms", "--json").stdout)["measures"]["latency_s"]
    slow = json.loads(run(*SMALL, "--latencies", str(matrix), "--json").stdout)["measures"]["latency_s"]
    assert slow["most"] == pytest.approx(40 * fast["most"], rel=0.2)
    assert run(*SMALL, "--delay", "distance").exit_code == 0
    assert run(*SMALL, "--bandwidth", "100000").exit_code == 0


def test_a_broken_promise_ends_with_1_and_the_line_that_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(broker: Broker, event: Event, now: float) -> list[Effect]:
        return [effect for effect in handle(broker, event, now) if not isinstance(effect, Deliver)]

    handle = Broker.handle
    monkeypatch.setattr(Broker, "handle", forgetful)
    result = run(*SMALL, "--seed", "9")
    assert result.exit_code == 1
    assert "nothing lost" in result.stderr
    replay = result.stderr.strip().splitlines()[-1].partition("replay: ")[2]
    assert shlex.split(replay)[:2] == ["tidings", "simulate"]
    again = run(*shlex.split(replay)[1:])
    assert again.stderr == result.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--topology", "torus"), "topology 'torus' is unknown; there are path"),
        (("--topology", "none.toml"), "none.toml cannot be read"),
        (("--topology", "examples/none.graphml", "--brokers", "3"), "--brokers is for generated topologies"),
        (("--brokers", "0"), "0 brokers cannot be simulated"),
        (("--workload", "heavy"), "workload 'heavy' is unknown; there are uniform"),
        (("--faults", "earthquakes"), "fault 'earthquakes' is unknown; there are breaks"),
        (("--delay", "5"), "--delay: '5' is not a duration"),
        (("--delay", "1ms", "--latencies", "x.csv"), "give one"),
        (("--bandwidth", "0"), "--bandwidth is 0.0"),
        (("--qos", "3", "--topics", "0"), "qos is 3; give 0, 1, 2, or -1"),
        (("--durable", "7"), "durable is 7.0; give a share"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_the_way_out(
    arguments: tuple[str, ...], reason: str
) -> None:
    result = run("simulate", *arguments)
    assert isinstance(result.exception, InputError)
    assert reason in str(result.exception)


GATHERED = ("simulate", "--gathered", "--topology", "path", "--brokers", "5", "--topics", "2", "--keys", "4",
            "--publications", "80", "--subscriptions", "10")  # fmt: skip


def test_gathered_topics_say_what_was_reported_told_and_delivered() -> None:
    result = run(*GATHERED, "--seat", "centre")
    assert result.exit_code == 0, result.stderr
    for words in (
        "Gathered topics",
        "opened, merged, redundant, refused",
        "seat and deputy of roads0/reports",
    ):
        assert words in result.stdout
    assert "b002, b001" in result.stdout


def test_json_has_what_became_of_reports() -> None:
    said = json.loads(run(*GATHERED, "--json", "--redundant-for", "3s", "--merge-after", "1s").stdout)
    carried, links = said["measures"]["carried"], said["measures"]["per_link"].values()
    assert carried[VERSIONS] == said["measures"]["forwarded"] == sum(link["publications"] for link in links)
    assert carried[PUBLICATIONS] == 0
    assert min(carried[REPORTS], carried[VERSIONS]) > 0
    found = said["measures"]["gathered"]
    assert said["kept"] is True
    assert found["reported"] > found["received"] > 0
    assert found["received"] == found["opened"] + found["merged"] + found["redundant"] + found["refused"]
    assert found["told"] >= found["opened"] == found["closed"] > 0
    assert found["delivered"] >= found["told"]
    assert found["moves"] == 0
    assert sorted(found["seats"]) == ["fleet1/+vehicle/status", "roads0/reports"]


def test_the_line_that_replays_a_gathered_run_has_its_options() -> None:
    said = json.loads(run(*GATHERED, "--json", "--redundant-for", "3s").stdout)
    assert sorted(shlex.split(said["replay"])[1:]) == sorted([*GATHERED, "--redundant-for", "3s"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--keys", "3"), "--keys is about gathered topics; give --gathered too"),
        (("--gathered", "--clients", "mqtt"), "leave out --clients mqtt"),
        (("--gathered", "--seat", "corner"), "--seat is 'corner'; give centre or median or traffic"),
        (("--gathered", "--merge-after", "4"), "--merge-after: '4' is not a duration"),
        (("--gathered", "--merge-after", "9s", "--redundant-for", "1s"), "is longer than redundant_for (1s)"),
    ],
)
def test_what_cannot_be_gathered_is_said(options: tuple[str, ...], words: str) -> None:
    result = run("simulate", *options)
    assert isinstance(result.exception, InputError)
    assert words in str(result.exception)
