"""What the same reports cost in other ways: who wants which of them, and how that is counted."""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.client.stub import Stub
from tidings.client.urls import read_all
from tidings.demo import completeness
from tidings.demo.city import Truth
from tidings.demo.completeness import Ending
from tidings.demo.costs import (
    PLACES,
    Got,
    Judge,
    Listener,
    Round,
    Said,
    carry,
    checks,
    computing,
    mosquitto,
    too_slow,
)
from tidings.errors import SetupError
from tidings.language.filters import parse
from tidings.local.network import Process
from tidings.mqtt.packets import Publish

PORT = 21_700
PROGRAM = shutil.which("mosquitto", path=PLACES)


def listener(name: str, where: str | None, topic_filter: str = "roads") -> Listener:
    return Listener(name, "b1", topic_filter, None if where is None else parse(where))


def said(topic: str = "roads", **fields: int) -> Said:
    return Said("reporters", "b1", topic, msgspec.json.encode(fields))


LISTENERS = [
    listener("severe", "severity >= 4"),
    listener("all roads", None),
    listener("all rain", None, "rain"),
    listener("one district", "district = 7 AND severity >= 2"),
]
REPORTS = [
    said(story=1, severity=5),
    said(story=1, district=7),
    said(story=1, severity=5),
    said(story=2, severity=1, district=7),
    said("rain", story=3, severity=5),
]
TRUTHS = [
    Truth(1, "roads", 0, {"story": 1, "severity": 5, "district": 7}),
    Truth(2, "roads", 0, {"story": 2, "severity": 1, "district": 7}),
    Truth(3, "rain", 0, {"story": 3, "severity": 5}),
]


@pytest.fixture
def judge() -> Judge:
    return Judge(LISTENERS, REPORTS, TRUTHS)


def places(judge: Judge, *reports: Said) -> list[int]:
    return [judge.places[one.topic, one.payload] for one in reports]


def test_with_content_routing_a_report_is_due_where_its_own_content_satisfies_the_filter(
    judge: Judge,
) -> None:
    """Severe: two. All roads: four. All rain: one. The district: none says both that it must."""
    assert judge.expected(content=True) == 2 + 4 + 1


def test_without_content_routing_a_report_is_due_to_all_of_its_topic(judge: Judge) -> None:
    assert judge.expected(content=False) == 4 + 4 + 1 + 4


def test_unwanted_is_what_the_filter_does_not_let_through_a_field_not_told_included(judge: Judge) -> None:
    everything = places(judge, *REPORTS[:4])
    assert [judge.unwanted(at, everything) for at in (0, 1, 3)] == [2, 0, 4]
    assert judge.unwanted(0, []) == 0


def test_missed_are_the_events_wanted_of_which_no_report_says_enough(judge: Judge) -> None:
    """The district wants story 1 as it ends, and no report of it has both fields."""
    by_content = [
        places(judge, REPORTS[0], REPORTS[2]),
        places(judge, *REPORTS[:4]),
        places(judge, REPORTS[4]),
        [],
    ]
    assert int(judge.of_truths.sum()) == 1 + 2 + 1 + 1
    assert judge.missed(by_content) == 1
    assert judge.missed([places(judge, *REPORTS[:4]), *by_content[1:]]) == 1
    assert judge.missed([[], [], [], []]) == 5


def test_what_did_not_come_and_what_came_again_are_both_counted(judge: Judge) -> None:
    """A report that comes again does not make up for one that does not come."""
    whole = [places(judge, *REPORTS[:4]), places(judge, *REPORTS[:4]), places(judge, REPORTS[4])]
    district = places(judge, *REPORTS[:4])
    assert judge.differing(False, [*whole, district]) == (0, 0)
    assert judge.differing(False, [*whole, district[1:]]) == (1, 0)
    assert judge.differing(False, [*whole, [*district, district[3]]]) == (0, 1)
    assert judge.differing(False, [*whole, [*district[:3], district[1]]]) == (1, 1)
    # The same report may be said twice, and is due twice.
    assert judge.differing(False, [*whole, [district[0], district[1], district[3]]]) == (1, 0)
    by_content = [places(judge, REPORTS[0], REPORTS[2]), whole[1], whole[2], []]
    assert judge.differing(True, by_content) == (0, 0)


def unseen(_done: float, _said: str) -> None:
    pass


@pytest.mark.skipif(PROGRAM is None, reason="needs mosquitto")
def test_a_broker_that_knows_topics_only_brings_everything_of_them(judge: Judge, tmp_path: Path) -> None:
    assert PROGRAM is not None
    with mosquitto(PROGRAM, tmp_path, PORT) as (address, pid):
        running = Process.of(pid)
        got = asyncio.run(carry({"b1": address}, judge, False, computing(pid), unseen))
    assert (got.delivered, got.expected, got.unwanted, got.missed) == (13, 13, 6, 1)
    assert (got.lost, got.repeated) == (0, 0)
    assert got.bytes == 3 * sum(len(one.payload) for one in REPORTS[:4]) + len(REPORTS[4].payload)
    assert got.ending is Ending.COMPLETE
    assert not running.alive


class Holding(Stub):
    """A broker that acknowledges everything, and keeps what it has to deliver until it was asked a few times
    whether it has something queued; or for ever.
    """

    def __init__(self, keeps: Callable[[Publish], bool], asked_max: float = math.inf) -> None:
        super().__init__()
        self._keeps = keeps
        self._asked_max = asked_max
        self._queued: list[Publish] = []
        self.asked = 0

    def deliver(self, publish: Publish) -> None:
        if self.asked < self._asked_max and self._keeps(publish):
            self._queued.append(publish)
        else:
            super().deliver(publish)

    def busy(self) -> bool:
        """Called in another thread."""
        self.asked += 1
        if self.asked == self._asked_max:
            assert self.loop is not None
            self.loop.call_soon_threadsafe(self._release)
        return bool(self._queued)

    def _release(self) -> None:
        queued, self._queued = self._queued, []
        for publish in queued:
            super().deliver(publish)


def carried(judge: Judge, broker: Holding, busy: Callable[[], bool] | None = None) -> tuple[Got, list[str]]:
    """What comes of it, and what is said while it is waited for."""
    said: list[str] = []

    async def story() -> Got:
        broker.loop = asyncio.get_running_loop()
        await broker.start()
        (address,) = read_all(broker.address)
        try:
            return await carry(
                {"b1": address}, judge, False, busy or broker.busy, lambda _, text: said.append(text)
            )
        finally:
            await broker.stop()

    return asyncio.run(story()), said


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers are asked at once, and so hardly any time passes."""
    monkeypatch.setattr(completeness, "ASK_S", 0.0)


def rain(publish: Publish) -> bool:
    return publish.topic == "rain"


@pytest.mark.usefixtures("impatient")
def test_what_brokers_have_queued_is_waited_for_and_how_far_it_is_is_said(judge: Judge) -> None:
    broker = Holding(rain, asked_max=completeness.SLOW_TIMES // 2)
    got, said = carried(judge, broker)
    assert broker.asked >= completeness.SLOW_TIMES // 2
    assert (got.delivered, got.lost, got.repeated, got.ending) == (13, 0, 0, Ending.COMPLETE)
    assert said[-1] == "5 of 5 sent, 13 of 13 came"
    assert "5 of 5 sent, 12 of 13 came" in said
    (check,) = checks([Round("slowly", got, None, 0)])
    assert (check.holds, check.seen) == (True, "13 of 13")


@pytest.mark.usefixtures("impatient")
def test_what_no_broker_has_queued_any_more_is_lost(judge: Judge) -> None:
    got, _ = carried(judge, Holding(rain), busy=lambda: False)
    assert (got.delivered, got.lost, got.ending) == (12, 1, Ending.MISSING)
    (check,) = checks([Round("badly", got, None, 0)])
    assert (check.holds, check.seen) == (False, "12 of 13")


@pytest.mark.usefixtures("impatient")
def test_what_is_still_queued_when_nothing_moves_is_too_slow_and_no_check_says_lost(judge: Judge) -> None:
    got, _ = carried(judge, Holding(rain))
    assert (got.delivered, got.ending) == (12, Ending.TOO_SLOW)
    assert checks([Round("slowly", got, None, 0)]) == ()
    note = too_slow(got)
    assert note.startswith("too slow on this machine: ended when 12 of 13 messages had come")
    assert note.endswith("nothing is known to be lost")


def test_what_came_again_breaks_the_check_though_as_much_came_as_should() -> None:
    got = Got(13, 6, 100, expected=13, lost=1, repeated=1, missed=0, seconds=1.0, ending=Ending.COMPLETE)
    (check,) = checks([Round("badly", got, None, 0)])
    assert (check.holds, check.seen) == (False, "13 of 13, 1 of them again")


def test_a_program_that_does_not_start_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="did not start"), mosquitto("/bin/false", tmp_path, PORT):
        pass
