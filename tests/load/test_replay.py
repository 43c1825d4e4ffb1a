"""A workload as a load: who asks for what on which connection, and that every delivery is counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.client.stub import PATIENCE_S, Stub, running
from tests.live.test_mqtt import broker, place
from tests.records import workloads as made
from tidings.client.urls import read_all
from tidings.errors import InputError, NetworkError
from tidings.language import names, payloads
from tidings.language.filters import parse
from tidings.language.regions import Unknown
from tidings.load import replay as replays
from tidings.load.load import Outcome
from tidings.load.replay import Replay, prepare
from tidings.mqtt import packets as p
from tidings.mqtt.reasons import Reason
from tidings.records.workload_reading import Workload


def write(folder: Path, seed: int = 1, **more: Any) -> Workload:
    return Workload(made.write(folder, **made.drawn(seed, **more)))


def carry_out(replay: Replay, stub: Stub | None = None) -> tuple[Outcome, bool, Stub]:
    async def story() -> tuple[Outcome, bool, Stub]:
        async with asyncio.timeout(2 * PATIENCE_S), running(stub=stub) as found:
            outcome, content = await replays.run(replace(replay, addresses=read_all(found.address)))
            return outcome, content, found

    return asyncio.run(story())


def deliveries(workload: Workload, connections: int) -> int:
    """Events and connections, by asking every subscription in turn."""
    asked = workload.subscriptions()
    count = 0
    for stretch in workload.published("events"):
        for at, (topic, fields) in enumerate(zip(stretch.topic.tolist(), stretch.rows(), strict=True)):
            assert stretch.number[at] == fields["story"]
            count += len(
                {
                    int(asked.client[row]) % connections
                    for row in range(len(asked))
                    if names.match((one := asked.asked(row)).topic_filter, stretch.topics[topic])
                    and one.filter.matches(fields, one.unknown)
                }
            )
    return count


# What is prepared.


def test_clients_share_connections(tmp_path: Path) -> None:
    made.write(
        tmp_path,
        subscriptions=[
            made.subscription(1, 4, subject=(1, 2), language=(3, 4)),
            made.subscription(2, 6, subject=(5, 6), language=(3, 4), unknown="assume"),
            made.subscription(3, 4, "subject/+"),
            made.subscription(4, 5, subject=(1, 2), language=(3, 4)),
            made.subscription(5, 8, subject=(1, 2), language=(3, 4)),
        ],
        events=[made.event(1, 1.0, client=7), made.event(2, 0.5, client=3), made.event(3, 4.0, client=5)],
    )
    replay = prepare(Workload(tmp_path), publishers=3, subscribers=2)
    one, other = "language BETWEEN 3 AND 4 AND subject BETWEEN 1 AND 2", "language BETWEEN 3 AND 4 AND subject BETWEEN 5 AND 6"  # fmt: skip # noqa: E501
    assert [[(w.topic_filter, sorted(w.wheres), w.unknown) for w in group] for group in replay.wanted] == [
        [
            ("subject/+", ["language BETWEEN 0 AND 999 AND subject BETWEEN 0 AND 999"], Unknown.WAIT),
            ("subject/arts", [one, other], Unknown.ASSUME),
        ],
        [("subject/arts", [one], Unknown.WAIT)],
    ]
    assert replay.senders == (0, 1, 2)
    assert replay.after_us == (0, 500_000, 3_500_000)
    assert replay.stories == (2, 1, 3)
    assert [payloads.decode(payload)["story"] for payload in replay.payloads] == [2, 1, 3]


@pytest.mark.parametrize("connections", [1, 3, 12])
def test_deliveries_are_worked_out_beforehand(tmp_path: Path, connections: int) -> None:
    workload = write(tmp_path, coming=0.0)
    replay = prepare(workload, subscribers=connections)
    assert sum(replay.expected) == deliveries(workload, connections) > 0
    assert sum(replay.expected_by_topic) >= sum(replay.expected)


def test_those_who_come_later_or_have_gone_are_left_out(tmp_path: Path) -> None:
    made.write(
        tmp_path,
        subscriptions=[
            made.subscription(1, until_s=9),
            made.subscription(2, from_s=19, subject=(1, 1), language=(0, 1)),
            made.subscription(3, from_s=10, until_s=11, subject=(2, 2), language=(0, 1)),
        ],
        events=[made.event(1, 10.0), made.event(2, 18.0)],
    )
    ((group,),) = prepare(Workload(tmp_path)).wanted
    assert group.wheres == ("language BETWEEN 0 AND 1 AND subject = 2",)


def test_as_many_connections_are_made_as_filters_need(tmp_path: Path) -> None:
    subscriptions = [made.subscription(at, at, subject=(at, at + 1), language=(0, at)) for at in range(150)]
    made.write(tmp_path, subscriptions=subscriptions, events=[])
    workload = Workload(tmp_path)
    assert prepare(workload).subscribers == 4
    with pytest.raises(
        InputError, match=r"would have 75 different filters .* give --subscribers 4, or fewer"
    ):
        prepare(workload, subscribers=2)
    assert prepare(workload, subscribers=2, subscriptions=100).subscribers == 2
    for group in prepare(workload).wanted:
        for one in group:
            parse(" OR ".join(f"({where})" for where in one.wheres))


@pytest.mark.parametrize(
    ("changed", "publish", "said"),
    [
        ({}, "rumours", "--publish is 'rumours'; give events or reports"),
        ({"events": [made.event(1, 1.0), {**made.event(1, 2.0), "event": 2}]}, None, "two events say"),
    ],
)
def test_what_cannot_be_replayed_is_said(
    tmp_path: Path, changed: dict[str, Any], publish: str | None, said: str
) -> None:
    made.write(tmp_path, **{**made.drawn(1), **changed})
    with pytest.raises(InputError, match=said):
        prepare(Workload(tmp_path), publish=publish)


def test_more_than_memory_holds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "PUBLICATIONS_MAX", 20)
    with pytest.raises(InputError, match=r"has 30 rows, more .* --publications 20"):
        prepare(write(tmp_path))
    assert len(prepare(write(tmp_path), publications=20).payloads) == 20


# What is carried out.


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("speed_up", [0.0, 10_000.0])
def test_every_delivery_is_counted(tmp_path: Path, qos: int, speed_up: float) -> None:
    replay = replace(prepare(write(tmp_path), publishers=2, subscribers=3), qos=qos, speed_up=speed_up)
    outcome, content, stub = carry_out(replay)
    assert content
    assert outcome.sent == 30
    assert outcome.expected == outcome.received == sum(replay.expected) > 0
    assert (outcome.lost, outcome.repeated) == (0, 0)
    assert len(outcome.latencies_ns) == (outcome.received if speed_up else 0)
    assert all(ns > 0 for ns in outcome.latencies_ns)
    sent = [one for one in stub.of(p.Publish) if isinstance(one, p.Publish)]
    assert Counter(one.payload for one in sent) == Counter(replay.payloads)


def test_a_broker_without_content_filters_gets_topic_filters(tmp_path: Path) -> None:
    replay = prepare(write(tmp_path), subscribers=3)
    outcome, content, _ = carry_out(replay, Stub(ours=False))
    assert not content
    assert outcome.expected == outcome.received == sum(replay.expected_by_topic)


def test_without_version_5_there_are_topic_filters_alone(tmp_path: Path) -> None:
    replay = replace(prepare(write(tmp_path), subscribers=3), version=p.Version.V311)
    outcome, content, stub = carry_out(replay)
    assert not content
    assert outcome.received == sum(replay.expected_by_topic)
    assert all(not one.properties.user for one in stub.of(p.Subscribe) if isinstance(one, p.Subscribe))


class Faulty(Stub):
    """Loses one publication, and delivers another twice."""

    def deliver(self, publish: p.Publish) -> None:
        story = payloads.decode(publish.payload)["story"]
        if story != 3:
            super().deliver(publish)
        if story == 5:
            super().deliver(publish)


def test_what_is_lost_and_what_comes_again_is_noticed(tmp_path: Path) -> None:
    made.write(
        tmp_path, subscriptions=[made.subscription(1)], events=[made.event(at, at) for at in range(10)]
    )
    outcome, _, _ = carry_out(replace(prepare(Workload(tmp_path)), quiet_s=0.05), Faulty())
    assert (outcome.sent, outcome.received, outcome.lost, outcome.repeated) == (10, 9, 1, 1)


def test_a_broker_that_refuses_is_told(tmp_path: Path) -> None:
    stub = Stub()
    stub.refuse_publish = (Reason.NOT_AUTHORIZED, "not you")
    with pytest.raises(NetworkError, match="refuses what is published: not you"):
        carry_out(replace(prepare(write(tmp_path)), qos=1), stub)


@pytest.mark.parametrize("publish", ["events", "reports"])
def test_a_real_broker_takes_it(tmp_path: Path, publish: str) -> None:
    workload = write(tmp_path, reports_each=2)
    replay = replace(
        prepare(workload, publish=publish, publishers=2, subscribers=4), qos=1, speed_up=5_000.0, quiet_s=2.0
    )

    async def story() -> tuple[Outcome, bool]:
        topics = workload.declarations if publish == "reports" else ()
        async with asyncio.timeout(2 * PATIENCE_S), broker(topics=topics) as node:
            host, port = place(node)
            return await replays.run(replace(replay, addresses=read_all(f"mqtt://{host}:{port}")))

    outcome, content = asyncio.run(story())
    assert content
    assert outcome.sent == len(replay.payloads)
    assert outcome.lost == 0
    assert outcome.received > 0
    if publish == "events":
        assert outcome.received == sum(replay.expected)
        assert outcome.repeated == 0
    assert len(outcome.latencies_ns) == outcome.received
