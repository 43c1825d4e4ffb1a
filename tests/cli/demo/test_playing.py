"""A day played to a broker that runs: what was sent, what came, and a clock that can stand still."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.demo.test_checking import REPORTS, city
from tests.live.local import until
from tidings.cli.demo import checking, playing
from tidings.cli.demo.city import City, Place
from tidings.cli.demo.playing import Played, Watch
from tidings.errors import FilterError
from tidings.language.topics import Topic
from tidings.live.listeners import Listening
from tidings.live.node import Node, NodeOptions

TOPIC = Topic.from_mapping(
    {
        "name": "incident/traffic",
        "kind": "gathered",
        "key": ["story"],
        "merge_after": "50ms",
        "redundant_for": "60s",
        "window": "none",
        "stays_open": "reported",
        "fields": {
            "story": {"type": "int"},
            **{
                name: {"type": "int", "conflict": "majority"}
                for name in ("incident", "district", "severity", "detail_1")
            },
        },
    },
    source="incident/traffic",
)


class OneBroker:
    """A network of one, in this process."""

    def __init__(self, node: Node, folder: Path) -> None:
        self._node = node
        self.records = folder

    def mqtt(self, _: str) -> str:
        return self._node.mqtt_addresses["tcp"]

    def cpu_seconds(self) -> dict[str, float]:
        return {"kypseli": 0.0}


def play(made: City, folder: Path, watch: Watch = lambda *_: None) -> Played:
    async def story() -> Played:
        node = Node(NodeOptions("kypseli", topics=(TOPIC,), listening=(Listening("tcp", "127.0.0.1", 0),)))
        await node.start()
        try:
            await until(lambda: not node.synchronising)
            return await playing.play(made, checking.due(made), OneBroker(node, folder), watch)
        finally:
            await node.stop()

    return asyncio.run(story())


def day() -> City:
    """The reports of a day at one broker, a tenth of a second apart."""
    made = city()
    return replace(
        made,
        brokers=(Place("kypseli", "b0", "Centre", 0.0, 0.0),),
        topics=(TOPIC,),
        reports=tuple(replace(one, due_s=0.1 * place) for place, one in enumerate(made.reports)),
    )


def test_what_comes_of_a_day_is_what_was_due(tmp_path: Path) -> None:
    made = day()
    played = play(made, tmp_path)
    assert [one.fields for one in played.sent] == REPORTS
    assert [one.session for one in played.sent] == [f"client-{one.client}" for one in made.reports]
    assert checking.check(made, played.delivered).differences == ()
    assert {one.subscriber for one in played.delivered} == {one.client for one in made.subscribers}


def test_the_day_s_clock_stands_still_while_brokers_do_not_keep_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it is said to be late when it is looked at for the first times."""
    late = iter([2 * playing.BEHIND_S * 1e9] * 5)
    monkeypatch.setattr(playing._Client, "behind_ns", lambda _self, _now_ns: next(late, 0))
    monkeypatch.setattr(playing, "SLOW_S", 0.0)
    made = day()
    lateness: list[float] = []
    played = play(made, tmp_path, lambda _sent, _delivered, late_s: lateness.append(late_s))
    assert checking.check(made, played.delivered).differences == ()
    assert lateness == sorted(lateness)
    assert played.speed_up_had < played.speed_up
    (note,) = played.notes
    assert "could not play the day" in note


def test_a_subscription_that_is_refused_ends_the_day(tmp_path: Path) -> None:
    made = day()
    wrong = replace(made.subscribers[0], where="district LIK 1")
    with pytest.raises(FilterError, match="LIK"):
        play(replace(made, subscribers=(wrong,)), tmp_path)
