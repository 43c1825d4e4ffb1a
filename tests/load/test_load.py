"""The load generator: it counts right, whatever the broker does with the messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.client.stub import PATIENCE_S, Stub, running
from tidings.client.urls import read_all
from tidings.errors import AccessError, InputError, NetworkError
from tidings.language import payloads
from tidings.language.filters import parse
from tidings.load import load as loads
from tidings.load.load import Load, Outcome
from tidings.mqtt import packets as p
from tidings.mqtt.reasons import Reason


class Faulty(Stub):
    """Loses and repeats some of what it should deliver, and tells things that nobody asked for."""

    def deliver(self, publish: p.Publish) -> None:
        number = payloads.decode(publish.payload)["n"]
        if number == 3:
            return
        super().deliver(publish)
        if number == 5:
            super().deliver(publish)


def carry_out(load: Load, stub: Stub | None = None) -> tuple[Outcome, Stub]:
    async def story() -> tuple[Outcome, Stub]:
        async with asyncio.timeout(2 * PATIENCE_S), running(stub=stub) as broker:
            return await loads.run(replace(load, addresses=read_all(broker.address))), broker

    return asyncio.run(story())


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("rate", [0.0, 20_000.0])
def test_every_delivery_is_counted(qos: int, rate: float) -> None:
    load = Load((), publishers=3, subscribers=4, topics=2, messages=150, rate=rate, qos=qos)
    outcome, _ = carry_out(load)
    # Publishers 0 and 2 and subscribers 0 and 2 share a topic; publisher 1 and subscribers 1 and 3 the other.
    assert outcome.sent == 450
    assert outcome.expected == outcome.received == 2 * 2 * 150 + 2 * 150
    assert (outcome.lost, outcome.repeated) == (0, 0)
    assert outcome.received * load.size < outcome.bytes_received < outcome.received * load.size_max
    assert len(outcome.latencies_ns) == (outcome.received if rate else 0)
    assert all(ns > 0 for ns in outcome.latencies_ns)


def test_what_is_lost_and_what_comes_again_is_noticed() -> None:
    outcome, _ = carry_out(Load((), messages=10, quiet_s=0.05), Faulty())
    assert (outcome.sent, outcome.received, outcome.lost, outcome.repeated) == (10, 9, 1, 1)


def test_with_a_filter_only_what_matches_is_expected() -> None:
    load = Load((), publishers=2, messages=250, where=parse("x < 3 AND p = 1"))
    outcome, stub = carry_out(load)
    assert outcome.expected == outcome.received == 3 + 3 + 3
    assert outcome.lost == 0
    sent = [one for one in stub.of(p.Publish) if isinstance(one, p.Publish)]
    assert [payloads.decode(one.payload)["x"] for one in sent[:3]] == [0, 1, 2]
    assert {len(one.payload) for one in sent} == set(range(load.size, load.size_max + 1))


def test_one_size_is_sent_where_that_is_asked_for() -> None:
    outcome, stub = carry_out(Load((), messages=100, size=100, size_max=100))
    assert {len(one.payload) for one in stub.of(p.Publish) if isinstance(one, p.Publish)} == {100}
    assert outcome.bytes_received == 100 * outcome.received == 10_000


@pytest.mark.parametrize("qos", [0, 1])
def test_mixed_publishers_go_round_all_topics_and_subscribers_take_all(qos: int) -> None:
    outcome, stub = carry_out(
        Load((), publishers=2, subscribers=3, topics=7, messages=70, mixed=True, qos=qos)
    )
    assert outcome.expected == outcome.received == 2 * 3 * 70
    topics = [one.topic for one in stub.of(p.Publish) if isinstance(one, p.Publish)]
    assert {topics.count(topic) for topic in topics} == {20}
    assert len(set(topics[:7])) == 7


def test_a_publisher_keeps_to_the_receive_maximum() -> None:
    stub = Stub()
    stub.receive_maximum = 2
    outcome, _ = carry_out(Load((), messages=50, qos=1), stub)
    assert outcome.received == 50


@pytest.mark.parametrize("version", list(p.Version))
def test_both_versions_are_spoken(version: p.Version) -> None:
    outcome, stub = carry_out(Load((), messages=20, version=version, qos=1))
    assert outcome.received == 20
    assert {one.version for one in stub.of(p.Connect) if isinstance(one, p.Connect)} == {version}


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (Load((), size=10), "too small"),
        (Load((), size=200), "must not be smaller"),
        (Load((), where=parse("n = 1")), "tests n"),
        (Load((), where=parse("x = 1"), version=p.Version.V311), "needs MQTT 5"),
        (Load(read_all("ws://localhost")), "mqtt:// or mqtts://"),
    ],
)
def test_a_load_that_cannot_be_carried_out_is_refused(load: Load, said: str) -> None:
    with pytest.raises(InputError, match=said):
        loads.check(load)


def test_a_broker_that_refuses_ends_it_with_the_reason() -> None:
    stub = Stub()
    stub.refuse_connect = (Reason.NOT_AUTHORIZED, None)
    with pytest.raises(AccessError, match="not authorized"):
        carry_out(Load((), messages=1), stub)
    stub = Stub()
    stub.refuse_publish = (Reason.QUOTA_EXCEEDED, "enough for today")
    with pytest.raises(NetworkError, match="enough for today"):
        carry_out(Load((), messages=1, qos=1), stub)
    with pytest.raises(NetworkError, match="is a broker running there"):
        asyncio.run(loads.run(Load(read_all("mqtt://127.0.0.1:1"))))


def test_percentiles_are_those_of_the_sorted_list() -> None:
    outcome = Outcome()
    outcome.latencies_ns.extend(reversed(range(1, 1001)))
    assert outcome.percentiles_ns([50, 90, 99, 99.9, 100]) == {
        50: 500,
        90: 900,
        99: 990,
        99.9: 999,
        100: 1000,
    }


def test_the_cpu_time_of_a_process_that_is_not_there_is_refused() -> None:
    import os

    assert loads.cpu_seconds(os.getpid()) > 0
    with pytest.raises(InputError, match="cannot be read"):
        loads.cpu_seconds(2**22 + 1)


def test_what_a_broker_puts_off_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([1.0, 1.0, 1.5, 1.5, 2.0])
    last = [0.0]

    def cpu_seconds(_pid: int) -> float:
        last[0] = next(told, last[0])
        return last[0]

    monkeypatch.setattr(loads, "cpu_seconds", cpu_seconds)
    monkeypatch.setattr(loads, "REST_S", 0.3)
    assert asyncio.run(loads.at_rest([7])) == 2.0
