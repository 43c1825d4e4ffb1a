"""A day played to a broker that runs: what was sent, what came, and a clock that can stand still."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.demo.test_checking import REPORTS, city
from tests.live.local import until
from tidings.demo import checking, completeness, playing
from tidings.demo.city import City, Fields, Place
from tidings.demo.playing import Played, Watch
from tidings.errors import FilterError, SetupError
from tidings.language.topics import Topic
from tidings.live.listeners import Listening
from tidings.live.node import Node, NodeOptions
from tidings.mqtt.packets import Properties, Publish

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


Due = dict[int, dict[int, Fields]]


class OneBroker:
    """A network of one, in this process."""

    def __init__(self, node: Node, folder: Path, queued: bool) -> None:
        self._node = node
        self._queued = queued
        self.records = folder

    def mqtt(self, _: str) -> str:
        return self._node.mqtt_addresses["tcp"]

    def cpu_seconds(self) -> dict[str, float]:
        return {"kypseli": 0.0}

    def busy(self) -> bool:
        return self._queued


def play(
    made: City, folder: Path, watch: Watch = lambda *_: None, *, due: Due | None = None, queued: bool = False
) -> Played:
    """Play it; `queued` is what the broker says of itself."""

    async def story() -> Played:
        node = Node(NodeOptions("kypseli", topics=(TOPIC,), listening=(Listening("tcp", "127.0.0.1", 0),)))
        await node.start()
        try:
            await until(lambda: not node.synchronising)
            net = OneBroker(node, folder, queued)
            return await playing.play(made, checking.due(made) if due is None else due, net, watch)
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
    monkeypatch.setattr(playing, "LATE_S", 0.0)
    made = day()
    lateness: list[float] = []
    played = play(made, tmp_path, lambda _sent, _delivered, late_s: lateness.append(late_s))
    assert checking.check(made, played.delivered).differences == ()
    assert lateness == sorted(lateness)
    assert played.speed_up_had < played.speed_up
    (note,) = played.notes
    assert "could not play the day" in note


def due_and_more(made: City) -> Due:
    """What is due to everybody, and a story to the first of them that nobody reports."""
    found = checking.due(made)
    found[made.subscribers[0].client][99] = {"story": 99}
    return found


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is asked at once, and so hardly any time passes."""
    monkeypatch.setattr(completeness, "ASK_S", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_day_of_which_something_is_missing_ends_when_the_broker_has_nothing_more(tmp_path: Path) -> None:
    made = day()
    played = play(made, tmp_path, due=due_and_more(made))
    assert checking.check(made, played.delivered).differences == ()


@pytest.mark.usefixtures("impatient")
def test_a_day_of_which_the_rest_stays_queued_is_too_slow_and_not_lost(tmp_path: Path) -> None:
    made = day()
    with pytest.raises(SetupError, match=r"^too slow: 1 of the events .* nothing is known to be lost"):
        play(made, tmp_path, due=due_and_more(made), queued=True)


def heard(fields: Fields, state: str) -> Publish:
    payload = b"" if state == "withdrawn" else msgspec.json.encode(fields)
    return Publish("roads", payload, properties=Properties(user=(("event", "e"), ("state", state))))


def test_the_day_is_not_over_before_what_is_not_asked_for_any_more_is_withdrawn() -> None:
    diary = playing._Diary(playing._Day(), {1: {7: {"story": 7, "district": 1}}})
    diary.add(1, heard({"story": 7, "district": 1}, "told"), 0)
    assert diary.missing == set()
    # To another it came before it turned out to be something else.
    diary.add(2, heard({"story": 7, "district": 2}, "told"), 0)
    assert diary.missing == {(2, 7)}
    diary.add(2, heard({}, "withdrawn"), 0)
    assert diary.missing == set()
    diary.add(1, heard({}, "withdrawn"), 0)
    assert diary.missing == {(1, 7)}


def test_a_subscription_that_is_refused_ends_the_day(tmp_path: Path) -> None:
    made = day()
    wrong = replace(made.subscribers[0], where="district LIK 1")
    with pytest.raises(FilterError, match="LIK"):
        play(replace(made, subscribers=(wrong,)), tmp_path)
