"""`tidings pub`, `sub` and `bench` as a user runs them, with a broker that does as it is told."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.client.stub import Stub, in_a_thread
from tidings.cli import app
from tidings.cli.client.bench import histogram
from tidings.cli.client.pub import read_report
from tidings.errors import AccessError, FilterError, InputError, NetworkError, PayloadError, SubscriptionError
from tidings.mqtt import packets as p
from tidings.mqtt.reasons import Reason


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stub]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with in_a_thread() as found:
        found.answers = {"$tidings/topic/list": b'{"ok": true, "topics": [{"name": "declared/+place"}]}'}
        monkeypatch.setenv("TIDINGS_URL", found.address)
        yield found


def run(*arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(app, arguments, input=given)


def published(stub: Stub) -> list[tuple[str, bytes]]:
    found = [one for one in stub.of(p.Publish) if isinstance(one, p.Publish)]
    return [(one.topic, one.payload) for one in found if not one.topic.startswith("$")]


# pub


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        (["severity=4", "road=A1"], {"severity": 4, "road": "A1"}),
        (['{"severity": 4}'], {"severity": 4}),
        (["position.lat=37.9", "position.lon=-2"], {"position": {"lat": 37.9, "lon": -2}}),
        (["a=true", "b=null", "c=", "d=1x"], {"a": True, "b": None, "c": "", "d": "1x"}),
        (["e=00", "f==", "g=-", "h=2026-11-15"], {"e": "00", "f": "=", "g": "-", "h": "2026-11-15"}),
    ],
)
def test_a_report_is_a_json_object_or_pairs(given: list[str], fields: dict[str, object]) -> None:
    assert read_report(given) == fields


@pytest.mark.parametrize("given", [["word"], ["a=1", "a=2"], ["a=1", "a.b=2"], ["=1"], ["{bad"], ["[1]"]])
def test_what_is_no_report_is_refused(given: list[str]) -> None:
    with pytest.raises(PayloadError):
        read_report(given)


def test_pub_publishes_and_says_so(stub: Stub) -> None:
    result = run("pub", "declared/athens", "severity=4", "road=A1", "--retain")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "published 1 report to declared/athens, acknowledged\n"
    assert result.stderr == ""
    assert published(stub) == [("declared/athens", b'{"severity":4,"road":"A1"}')]
    assert [one.retain for one in stub.of(p.Publish) if isinstance(one, p.Publish)][-1] is True


def test_pub_says_that_an_undeclared_topic_is_plain(stub: Stub) -> None:
    result = run("pub", "elsewhere", "a=1", "--qos", "0")
    assert result.exit_code == 0, result.stderr
    assert "elsewhere is not declared, so it is plain" in result.stderr
    assert run("pub", "elsewhere", "a=1", "--quiet").stderr == ""


def test_pub_says_that_nothing_is_retained_on_a_gathered_topic(stub: Stub) -> None:
    topics = [{"name": "fleet/#", "kind": "plain"}, {"name": "fleet/+car", "kind": "gathered"}]
    stub.answers["$tidings/topic/list"] = json.dumps({"ok": True, "topics": topics}).encode()
    assert "--retain is ignored" in run("pub", "fleet/v7", "a=1", "--retain").stderr
    assert run("pub", "fleet/v7", "a=1").stderr == ""
    assert run("pub", "fleet/v7/at", "a=1", "--retain").stderr == ""


def test_pub_publishes_lines_and_reports_those_that_are_none(stub: Stub, tmp_path: Path) -> None:
    text = '{"n": 1}\nnonsense\n{"n": 2}\n'
    result = run("pub", "declared/x", "-", given=text)
    assert result.exit_code == 1
    assert "standard input:2: the line is not JSON" in result.stderr
    assert "published 2 reports" in result.stdout
    file = tmp_path / "reports.jsonl"
    file.write_text(text, encoding="utf-8")
    assert run("pub", "declared/x", "--file", str(file), "--repeat", "2").exit_code == 1
    assert [payload for _, payload in published(stub)] == [
        b'{"n":1}', b'{"n":2}', b'{"n":1}', b'{"n":1}', b'{"n":2}', b'{"n":2}',
    ]  # fmt: skip


@pytest.mark.parametrize("qos", ["1", "2"])
def test_pub_names_each_line_that_the_broker_refuses_and_publishes_the_others(
    stub: Stub, tmp_path: Path, qos: str
) -> None:
    stub.refuse_publish, stub.refuse_payload = (Reason.PAYLOAD_FORMAT_INVALID, "no field"), b"{}"
    file = tmp_path / "reports.jsonl"
    file.write_text('{"n": 1}\n\n{}\n{"n": 2}\n{}\n{"n": 3}\n', encoding="utf-8")
    result = run("pub", "declared/x", "--file", str(file), "--repeat", "2", "--qos", qos)
    assert result.exit_code == 1
    why = "the broker refuses what was published to 'declared/x': no field (payload format invalid (0x99))"
    assert sorted(result.stderr.splitlines()) == [f"{file}:3: {why}", f"{file}:5: {why}"]
    assert result.stdout == "published 6 reports to declared/x, acknowledged\n"


def test_pub_ends_with_the_first_line_where_none_may_be_published(stub: Stub) -> None:
    stub.refuse_publish = (Reason.NOT_AUTHORIZED, "nobody may publish here")
    program = "import tidings.cli; tidings.cli.main()"
    # A process of its own: what its thread would say at the end is seen.
    told = subprocess.run(
        [sys.executable, "-c", program, "pub", "declared/x", "-", "--quiet"],
        input='{"n": 1}\n' * 1_000,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 2
    (line,) = told.stderr.splitlines()
    assert line.startswith("tidings: standard input:1: the broker refuses what was published to 'declared/x'")
    assert isinstance(run("pub", "a/+", "-", given="{}\n").exception, InputError)


def test_pub_sends_text_as_it_is(stub: Stub) -> None:
    assert run("pub", "declared/x", "--text", "not { JSON").exit_code == 0
    assert published(stub) == [("declared/x", b"not { JSON")]


def test_pub_tells_why_it_is_refused(stub: Stub) -> None:
    stub.refuse_publish = (Reason.NOT_AUTHORIZED, "nobody may publish here")
    result = run("pub", "declared/x", "a=1", "--quiet")
    assert isinstance(result.exception, AccessError)
    assert "nobody may publish here" in str(result.exception)


def test_pub_wants_one_thing_to_publish(stub: Stub) -> None:
    for arguments in ([], ["a=1", "--text", "x"], ["--file", "f", "-"]):
        assert run("pub", "t", *arguments).exit_code == 2


# sub


def test_sub_prints_what_comes_as_lines(stub: Stub) -> None:
    stub.deliver_when_subscribed(p.Publish("t/a", b'{"a":1}'), p.Publish("t/b", b"x\ny\x1b", 1))
    result = run("sub", "t/#", "--count", "2")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == 't/a {"a":1}\nt/b x�y�\n'
    assert result.stderr == f"subscribed to t/# at {stub.address}\n"


def test_sub_prints_objects_for_programs(stub: Stub) -> None:
    user = (("event", "e1"), ("version", "2"), ("state", "told"), ("complete", "true"))
    stub.deliver_when_subscribed(
        p.Publish("t/a", b'{"a":{"b":1}}', 1, properties=p.Properties(user=user)),
        p.Publish("t/b", "μήνυμα".encode()),
        p.Publish("t/c", b"\xff"),
        subscriptions=3,
    )
    result = run("sub", "t/a", "t/b", "t/c", "--count", "3", "--json")
    assert result.exit_code == 0, result.stderr
    assert sorted(
        (json.loads(line) for line in result.stdout.splitlines()), key=lambda one: one["topic"]
    ) == [
        {
            "topic": "t/a",
            "fields": {"a": {"b": 1}},
            "event": "e1",
            "version": 2,
            "complete": True,
            "state": "told",
            "qos": 1,
            "user": [["event", "e1"], ["version", "2"], ["state", "told"], ["complete", "true"]],
        },
        {"topic": "t/b", "text": "μήνυμα", "qos": 0},
        {"topic": "t/c", "base64": "/w==", "qos": 0},
    ]


def test_sub_asks_for_what_its_filters_want(stub: Stub) -> None:
    reports = [p.Publish("t", b'{"a":%d}' % n) for n in range(5)]
    stub.deliver_when_subscribed(*reports)
    result = run("sub", "t", "--where", "a = 1", "--where", "a > 3", "--unknown", "assume", "--count", "2")
    assert result.stdout == 't {"a":1}\nt {"a":4}\n'
    (asked,) = stub.of(p.Subscribe)
    assert isinstance(asked, p.Subscribe)
    assert asked.properties.user == (("where", "a = 1"), ("where", "a > 3"), ("unknown", "assume"))


def test_sub_asks_for_a_growing_event_every_so_often(stub: Stub) -> None:
    stub.deliver_when_subscribed(p.Publish("t", b"x"))
    result = run("sub", "t", "--every", "1m30s", "--count", "1")
    assert result.exit_code == 0, result.stderr
    assert "subscribed to t every 1m30s" in result.stderr
    (asked,) = stub.of(p.Subscribe)
    assert isinstance(asked, p.Subscribe)
    assert asked.properties.user == (("every", "1m30s"),)
    assert run("sub", "t", "--every", "5").exit_code == 2


def test_sub_shows_a_withdrawn_event_as_one_without_fields(stub: Stub) -> None:
    user = (("event", "e1"), ("state", "withdrawn"))
    stub.deliver_when_subscribed(p.Publish("t", b"", properties=p.Properties(user=user)))
    (line,) = run("sub", "t", "--count", "1", "--json").stdout.splitlines()
    told = json.loads(line)
    assert (told["fields"], told["state"]) == ({}, "withdrawn")


@pytest.mark.parametrize(
    ("user", "payload", "line"),
    [
        (
            (("event", "e1"), ("version", "2"), ("state", "told"), ("reports", "3")),
            b'{"road":"A1"}',
            't {"road":"A1"} (told, version 2, 3 reports)',
        ),
        (
            (("event", "e1"), ("version", "3"), ("state", "withdrawn"), ("reports", "1")),
            b"",
            "t (withdrawn, version 3, 1 report)",
        ),
        (
            (("event", "e1"), ("state", "merged-into"), ("into", "e0")),
            b"{}",
            "t {} (merged-into e0)",
        ),
        ((("event", "e1"),), b"{}", "t {} (event)"),
    ],
)
def test_sub_says_behind_an_event_what_it_is(
    stub: Stub, user: tuple[tuple[str, str], ...], payload: bytes, line: str
) -> None:
    stub.deliver_when_subscribed(p.Publish("t", payload, properties=p.Properties(user=user)))
    assert run("sub", "t", "--count", "1").stdout.splitlines() == [line]


def test_sub_shows_a_refused_filter_with_its_place(stub: Stub) -> None:
    result = run("sub", "t", "--where", "severity >= 3 AND road = = 2")
    assert isinstance(result.exception, FilterError)
    assert "\n  severity >= 3 AND road = = 2\n" + " " * 27 + "^" in str(result.exception)


def test_sub_ends_in_time_and_says_that_it_was_not_enough(stub: Stub) -> None:
    assert run("sub", "t", "--within", "10ms", "--count", "1").exit_code == 1
    assert run("sub", "t", "--within", "10ms").exit_code == 0
    assert run("sub", "t", "--within", "10").exit_code == 2
    assert run("sub", "t", "t").exit_code == 2


def test_sub_says_that_another_broker_would_ignore_the_filter(stub: Stub) -> None:
    stub.ours = False
    assert isinstance(run("sub", "t", "--where", "a = 1").exception, SubscriptionError)


def test_a_network_that_is_not_there_is_told_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (("sub", "t"), ("pub", "t", "a=1"), ("bench", "--messages", "1")):
        result = run(*command, "--url", "mqtt://127.0.0.1:1")
        assert isinstance(result.exception, NetworkError)
        assert "is a broker running there?" in str(result.exception)
    result = run("sub", "t", "--url", "mqtts://127.0.0.1", "--certificate", "own.pem")
    assert isinstance(result.exception, InputError)
    assert "--key" in str(result.exception)


def test_the_table_keeps_one_row_for_a_growing_event_and_as_many_as_there_is_room_for() -> None:
    from rich.console import Console

    from tidings.cli.client.sub import _Table
    from tidings.client.deliveries import Delivery

    def told(event: str, version: int, text: bytes) -> Delivery:
        user = (("event", event), ("version", str(version)), ("state", "told"), ("reports", "17"))
        return Delivery(topic="t", payload=text, properties=p.Properties(user=user))

    def shown(table: _Table) -> str:
        console = Console(width=120, record=True, file=io.StringIO())
        console.print(table.table())
        return console.export_text()

    table = _Table(None)
    table.add(Delivery(topic="plain", payload=b"{}"))
    assert "version" not in shown(table)
    table.add(told("e1", 1, b'{"road":"A1"}'))
    table.add(told("e2", 1, b'{"road":"A2","position":{"lat":1.5}}'))
    table.add(told("e1", 2, b'{"road":"A1","severity":4}'))
    table.add(Delivery(topic="plain", payload=b"[red]not markup[/red] \x1b[2J"))
    text = shown(table)
    assert text.count("A1") == 1
    for word in ("position.lat", "1.5", "severity", "[red]not markup[/red] �[2J", "5 received"):
        assert word in text
    for word in ("version", "state", "told", "reports", "17"):
        assert word in text
    for n in range(500):
        table.add(Delivery(topic=f"t/{n}", payload=b"{}"))
    assert "t/499" in shown(table)
    assert "t/0 " not in shown(table)
    assert len(shown(table).splitlines()) < 100


# bench


def test_bench_tells_people_what_arrived_and_how_soon(stub: Stub) -> None:
    result = run("bench", "--rate", "1000", "--for", "100ms", "--subscribers", "2")
    assert result.exit_code == 0, result.stderr
    assert (
        "1 publishers, 2 subscribers, 1 topics, QoS 0, 70 to 130 bytes each, 1000 a second" in result.stdout
    )
    for word in (
        "sent               100",
        "received           200",
        "lost                 0",
        "p99.9",
        "█",
        "≤",
    ):
        assert word in result.stdout


def test_bench_tells_programs_the_same(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from tidings.load import load

    # The process that is watched is this one, which does not rest.
    monkeypatch.setattr(load, "REST_WITHIN_S", 0.1)

    result = run(
        "bench",
        "--messages",
        "300",
        "--qos",
        "1",
        "--where",
        "x < 10",
        "--json",
        "--broker-pid",
        str(os.getpid()),
    )
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["sent"], told["expected"], told["received"], told["lost"]) == (300, 30, 30, 0)
    assert told["where"] == "x < 10"
    assert told["broker_cpu_seconds"] >= 0
    assert "latency_us" not in told
    timed = json.loads(run("bench", "--rate", "5000", "--messages", "100", "--json").stdout)
    latency = timed["latency_us"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]


def test_bench_tells_of_a_broker_that_took_less_time_than_the_machine_counts(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidings.load import load

    monkeypatch.setattr(load, "REST_WITHIN_S", 0)
    monkeypatch.setattr(load, "cpu_seconds", lambda pid: 0.5)
    asked = ("bench", "--messages", "1", "--broker-pid", "1")
    result = run(*asked)
    assert result.exit_code == 0, result.stderr
    assert (
        "broker            0.00 CPU seconds, too short a run to tell what one message takes" in result.stdout
    )
    told = json.loads(run(*asked, "--json").stdout)
    assert (told["broker_cpu_seconds"], told["received_per_broker_cpu_second"]) == (0, None)


def test_bench_refuses_what_does_not_go_together(stub: Stub) -> None:
    assert run("bench", "--for", "1s").exit_code == 2
    assert run("bench", "--size", "many").exit_code == 2
    assert run("bench", "--for", "1s", "--rate", "1", "--messages", "5").exit_code == 2
    assert isinstance(run("bench", "--where", "a >").exception, FilterError)
    assert isinstance(run("bench", "--where", "other = 1").exception, InputError)


def test_a_histogram_has_all_but_the_rarest_in_its_bars() -> None:
    lines = histogram([1000] * 50 + [1_000_000] * 50)
    assert len(lines) == 2
    assert all("50.00%" in line for line in lines)
    assert len(histogram([1000] * 9_999 + [500, 10**9])) == 2
