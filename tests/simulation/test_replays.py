"""A workload from tables in the simulator: who is where, when things happen, and that they are judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.records import workloads as made
from tidings.errors import InputError
from tidings.overlay.broker import Broker
from tidings.overlay.events import Deliver, Effect, Event
from tidings.records.workload_reading import Workload
from tidings.sim import faults
from tidings.sim.brokers import replay as replays
from tidings.sim.brokers.replay import Replay
from tidings.sim.brokers.replay_run import GatheredReplayRun, ReplayRun
from tidings.sim.brokers.run import Digest, Outcome, Plan
from tidings.sim.brokers.workload import Workload as Numbers


def plan(replay: Replay, **more: Any) -> Plan:
    count = len(replay.happenings)
    rate = count / replay.lasts_s if replay.lasts_s else 1.0
    return replace(
        Plan(1, replay.topology, Numbers(publications=count, rate_per_s=rate), replay=replay), **more
    )


def played(replay: Replay, **more: Any) -> tuple[ReplayRun, Outcome]:
    kind = ReplayRun if replay.declared is None else GatheredReplayRun
    run = kind(plan(replay, **more))
    return run, run.run()


def write(folder: Path, seed: int = 1, **more: Any) -> Workload:
    return Workload(made.write(folder, **made.drawn(seed, **more)))


# What is read.


def test_the_network_is_the_workloads(tmp_path: Path) -> None:
    made.write(
        tmp_path,
        brokers=[made.broker("x", 3.0, 4.0), made.broker("y")],
        links=[made.link("y", "x", 12.5)],
        clients=[made.client(7, "x"), made.client(8, "y"), made.client(9, "y")],
        subscriptions=[made.subscription(1, 7)],
        events=[made.event(5, 2.0, client=8)],
    )
    replay = replays.read(Workload(tmp_path))
    assert replay.topology.ids == ("x", "y")
    assert [(link.one, link.other, link.delay_s) for link in replay.topology.links] == [("y", "x", 0.0125)]
    assert replay.homes == {7: "x", 8: "y"}


def test_times_are_those_since_the_workload_began(tmp_path: Path) -> None:
    made.write(
        tmp_path,
        **{
            **made.drawn(1),
            "subscriptions": [made.subscription(2, from_s=10, until_s=30), made.subscription(1, from_s=4)],
            "events": [made.event(2, 24.0), made.event(1, 14.0)],
        },
    )
    replay = replays.read(Workload(tmp_path), "events", speed_up=2.0)
    assert [(one.number, one.from_s, one.until_s) for one in replay.followers] == [(1, 0, None), (2, 3, 13)]
    assert [one.after for one in replay.happenings] == [5.0, 10.0]
    assert replay.lasts_s == 10.0


def test_reports_are_gathered_and_events_are_not(tmp_path: Path) -> None:
    workload = write(tmp_path)
    gathered, plain = replays.read(workload), replays.read(workload, "events")
    assert [topic.kind for topic in gathered.topics] == ["gathered", "gathered"]
    assert [topic.kind for topic in plain.topics] == ["plain", "plain"]
    assert len(gathered.happenings) == 90
    assert len(plain.happenings) == 30
    assert gathered.declared is not None
    # Reports contradict each other, so that which is the first depends on their order.
    assert gathered.declared.policies == {
        "subject": "last", "language": "last", "severity": "max", "detail_1": "last"
    }  # fmt: skip


def test_the_first_are_taken(tmp_path: Path) -> None:
    workload = write(tmp_path)
    whole = replays.read(workload)
    some = replays.read(workload, subscriptions=7, publications=11)
    assert [one.number for one in some.followers] == list(range(7))
    assert [one.payload for one in some.happenings] == [one.payload for one in whole.happenings[:11]]


# What happens.


def test_events_reach_those_whose_rectangle_holds_them_while_they_are_there(tmp_path: Path) -> None:
    rows = made.drawn(2, subscriptions=300, events=60)
    made.write(tmp_path, **rows)
    run, outcome = played(replays.read(Workload(tmp_path), "events"))
    assert outcome.breaches == []
    wanted = set()
    for event in rows["events"]:
        for row in rows["subscriptions"]:
            inside = all(
                row[f"{name}_lo"] <= event["fields"][name] <= row[f"{name}_hi"] for name in made.DIMENSIONS
            )
            there = row["from_at"] <= event["at"] and (
                row["until_at"] is None or event["at"] < row["until_at"]
            )
            # Coming and going takes the network some milliseconds, in which either is right.
            near = any(
                at is not None and abs(event["at"] - at) < 300_000 for at in (row["from_at"], row["until_at"])
            )
            if inside and row["topic"] in (event["topic"], "subject/+") and there and not near:
                wanted.add((event["event"], str(row["subscription"])))
    got = {
        (json.loads(delivery.publication.payload)["story"], name)
        for delivery in run.world.ledger.deliveries
        for _, name in delivery.subscriptions
    }
    assert len(wanted) > 100
    assert wanted <= got
    assert len(got - wanted) < len(wanted) / 10


def test_publications_come_at_their_times_from_their_clients_brokers(tmp_path: Path) -> None:
    replay = replays.read(write(tmp_path), "events")
    run, _ = played(replay)
    offers = run.world.ledger.offers
    assert [offer.session for offer in offers] == [f"c{one.client}" for one in replay.happenings]
    assert [offer.host for offer in offers] == [replay.homes[one.client] for one in replay.happenings]
    began = offers[0].at - replay.happenings[0].after
    assert [offer.at - began for offer in offers] == pytest.approx([one.after for one in replay.happenings])


def test_reports_become_events_that_are_told(tmp_path: Path) -> None:
    _, outcome = played(replays.read(write(tmp_path, lasts_s=20)))
    assert outcome.breaches == []
    found = outcome.measures.gathered
    assert found is not None
    # The workload's, and those of the probes.
    assert found.reported == found.accepted == 98
    assert found.opened >= 30
    assert found.opened + found.merged + found.redundant == found.received
    assert found.delivered > 0


@pytest.mark.parametrize("publish", replays.SOURCES)
@pytest.mark.parametrize("seed", [3, 4])
def test_promises_are_kept_whatever_goes_wrong(tmp_path: Path, publish: str, seed: int) -> None:
    replay = replays.read(write(tmp_path, seed, lasts_s=40), publish)
    _, outcome = played(replay, seed=seed, faults=faults.ALL, fault_count=6, churn=15)
    assert outcome.breaches == []
    assert outcome.faults


def test_a_broker_that_forgets_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = Broker.handle

    def forgetful(broker: Broker, event: Event, now: float) -> list[Effect]:
        return [effect for effect in handle(broker, event, now) if not isinstance(effect, Deliver)]

    monkeypatch.setattr(Broker, "handle", forgetful)
    _, outcome = played(replays.read(write(tmp_path), "events"))
    assert {breach.promise for breach in outcome.breaches} == {"nothing lost"}


@pytest.mark.parametrize("publish", replays.SOURCES)
def test_the_order_of_rows_and_files_changes_nothing(tmp_path: Path, publish: str) -> None:
    rows = made.drawn(6, subscriptions=30, events=12)
    traces = []
    for parts in (1, 3):
        folder = made.write(tmp_path / str(parts), parts=parts, **rows)
        replay = replays.read(Workload(folder), publish)
        digest = Digest()
        kind = ReplayRun if replay.declared is None else GatheredReplayRun
        kind(plan(replay), trace=digest).run()
        traces.append(digest.text)
        rows = {name: list(reversed(given)) for name, given in rows.items()}
    assert traces[0] == traces[1]


# What is refused.


@pytest.mark.parametrize(
    ("changed", "publish", "said"),
    [
        ({"clients": []}, None, "client 0 subscribes or publishes and is not there"),
        ({"links": [made.link("b0", "b1")]}, None, "the network is not connected"),
        ({"links": [made.link("b0", "b0")]}, None, "'b0' is linked to itself"),
        ({}, "rumours", "--publish is 'rumours'; give reports or events"),
        (
            {"events": [made.event(1, 1.0), {**made.event(1, 2.0), "event": 2}]},
            "events",
            "their story should differ",
        ),
        ({"reports": [made.report(1, 1, 1.0, topic="a/b")]}, None, "reports on 'a/b', which no file in"),
    ],
)
def test_what_cannot_be_simulated_is_said(
    tmp_path: Path, changed: dict[str, Any], publish: str | None, said: str
) -> None:
    made.write(tmp_path, **{**made.drawn(1), **changed})
    with pytest.raises(InputError) as error:
        replays.read(Workload(tmp_path), publish)
    assert said in str(error.value)


def test_declarations_that_differ_or_are_plain_are_refused_for_reports(tmp_path: Path) -> None:
    workload = write(tmp_path)
    file = tmp_path / "topics" / "subject-arts.toml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"1s"', '"2s"'), encoding="utf-8")
    with pytest.raises(InputError, match="topics differ in their fields, times or seats"):
        replays.read(workload)
    file.write_text('name = "subject/arts"\nkind = "plain"\n', encoding="utf-8")
    with pytest.raises(InputError, match="'subject/arts' is not a gathered topic whose key is one field"):
        replays.read(Workload(tmp_path))


def test_more_than_memory_holds_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = write(tmp_path)
    monkeypatch.setattr(replays, "PUBLICATIONS_MAX", 20)
    monkeypatch.setattr(replays, "SUBSCRIPTIONS_MAX", 10)
    with pytest.raises(InputError, match=r"has 90 rows, more .* --publications 20"):
        replays.read(workload)
    with pytest.raises(InputError, match=r"60 subscriptions are more .* --subscriptions 10"):
        replays.read(workload, publications=20)
    assert len(replays.read(workload, publications=20, subscriptions=10).followers) == 10
