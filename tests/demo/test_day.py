"""A small day from its first report to its costs: a network that runs, followed and counted by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from tidings.demo import asking, checking, costs, counting, following, planning, playing, stopping
from tidings.demo.brokers import Brokers
from tidings.demo.city import WATCHER, City, Place, Report, Subscriber, Truth, Words
from tidings.demo.telling import Telling
from tidings.language.declarations import read_topic
from tidings.language.filters import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PORT = 21_500

TOPIC = """
name = "incident/traffic"
kind = "gathered"
key = ["story"]
merge_after = "1s"
redundant_for = "30s"
window = "60s"
keep = "1d"

[fields]
story = { type = "int" }
district = { type = "int" }
severity = { type = "int" }
detail_1 = { type = "int" }
"""

STORIES = range(12)


def reports() -> Iterator[Report]:
    """Of each story one that opens it, one that says the same, one more field at once, and one later."""
    for story in STORIES:
        told = [
            (0.0, {"severity": 1 + story % 5}),
            (0.1, {"severity": 1 + story % 5}),
            (0.2, {"district": story % 3}),
            (2.5, {"detail_1": story} if story % 2 else {"district": story % 3}),
        ]
        for number, (after_s, fields) in enumerate(told):
            broker = "abc"[story % 3]
            due_s = story * 0.1 + after_s
            yield Report(
                4 * story + number,
                story,
                "incident/traffic",
                number,
                broker,
                due_s,
                {"story": story, **fields},
            )


def subscriber(client: int, broker: str, where: str) -> Subscriber:
    name = "watcher" if client == WATCHER else f"client-{client}"
    return Subscriber(client, broker, name, "incident/traffic", where, parse(where) if where else None)


def city(folder: Path) -> City:
    file = folder / "traffic.toml"
    file.write_text(TOPIC, encoding="utf-8")
    truths = {
        story: Truth(
            story,
            "incident/traffic",
            0,
            {"story": story, "severity": 1 + story % 5, "district": story % 3}
            | ({"detail_1": story} if story % 2 else {}),
        )
        for story in STORIES
    }
    return City(
        folder=folder,
        speed_up=1.0,
        brokers=tuple(Place(id_, f"b{at}", "Centre", at, at) for at, id_ in enumerate("abc")),
        links=(("b", "a"), ("c", "b")),
        topics=(read_topic(file),),
        followed="incident/traffic",
        subscribers=(
            subscriber(10, "a", "severity >= 4"),
            subscriber(11, "b", "severity >= 2 AND district = 1"),
            subscriber(12, "c", "district IN (0, 2)"),
            subscriber(WATCHER, "a", ""),
        ),
        reports=tuple(sorted(reports(), key=lambda one: (one.due_s, one.number))),
        truths=truths,
        doubtful=0,
        words={"district": Words((0, 1, 2), (0, 1, 2), ("Centre", "North", "Port"))},
    )


@pytest.mark.spark
@pytest.mark.slow
def test_a_day_is_followed_counted_and_carried_in_other_ways(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    day = city(tmp_path)
    ids = [place.id for place in day.brokers]
    with Brokers.start(
        tmp_path / "network", ids, day.links, {"topics": str(tmp_path / "traffic.toml")}, PORT
    ) as net:
        follower = following.begin(spark, net, day.followed, tmp_path / "following")
        try:
            played = stopping.run(playing.play(day, checking.due(day), net))
            latecomers = asking.drawn(day, 3, 1)
            found = asking.ask(day, checking.due(day), latecomers, net.http)
            followed = follower.finish(played)
        finally:
            follower.stop()
        follower.stop()
    assert found.holds, found.seen
    assert [one for one in followed if not one.holds] == []

    counted = counting.counted(spark, played, tmp_path / "tables", follower)
    assert [one for one in counted.checks if not one.holds] == []
    (topic,) = counted.topics
    assert (topic.reports, topic.opened, topic.merged, topic.redundant) == (48, 12, 18, 18)
    assert sum(broker.delivered for broker in counted.brokers) == topic.delivered == len(played.delivered)
    assert [broker.seats for broker in counted.brokers].count((topic.name,)) == 1
    assert sum(one.reports for one in counted.moments) == 48
    assert sum(one.deliveries for one in counted.moments) == topic.delivered
    assert sum(count for _, count in counted.latencies_ms) == topic.delivered
    assert counted.life is not None
    fates = [one.became for one in counted.life.happenings if one.kind == "report"]
    assert fates == ["opened", "redundant", "merged", "merged"]
    versions = [one.became for one in counted.life.happenings if one.kind == "version"]
    assert versions[:2] == ["1", "2"]

    planned = planning.plan(spark, day, tmp_path / "tables", tmp_path / "plans", seed=1)
    # Each version is a message to each receiver, of whom the watcher is one, from whoever told of it first.
    # Client 1 says what client 0 has said, and tells of something first only if its report comes first.
    assert planned.clients in (4 + 3, 4 + 4)
    assert planned.requests >= len(latecomers)
    assert sorted(file.name for file in (tmp_path / "plans").iterdir()) == [
        "moves.json",
        "network.toml",
        "stores.json",
    ]
    assert set(planned.stores.assignment) == {topic.name}

    other = costs.run(
        spark, Telling(Console(quiet=True)), played, counted, tmp_path / "costs", first_port=PORT
    )
    assert [one for one in other.checks if not one.holds] == []
    ways = {one.way: one for one in other.costs}
    gathered, plain, whole = (
        ways[way] for way in (costs.TIDINGS, costs.WITHOUT_GATHERING, costs.WITHOUT_CONTENT)
    )
    assert (gathered.unwanted, plain.unwanted) == (0, 0)
    assert (whole.delivered, whole.carried) == (4 * 48, 2 * 48)
    assert 0 < whole.unwanted < whole.delivered
    assert plain.carried is not None
    assert 0 < plain.carried < 2 * 48
    for way in other.costs[3:]:
        assert (way.way, way.delivered, way.unwanted) == (costs.MOSQUITTO, whole.delivered, whole.unwanted)
        assert way.delivered_bytes == whole.delivered_bytes
