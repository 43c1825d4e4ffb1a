"""What the same reports cost in other ways: who wants which of them, and how that is counted."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import msgspec
import pytest

from tidings.cli.demo.city import Truth
from tidings.cli.demo.costs import PLACES, Judge, Listener, Said, carry, mosquitto
from tidings.cli.network import Process
from tidings.errors import SetupError
from tidings.language.filters import parse

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


@pytest.mark.skipif(PROGRAM is None, reason="needs mosquitto")
def test_a_broker_that_knows_topics_only_brings_everything_of_them(judge: Judge, tmp_path: Path) -> None:
    assert PROGRAM is not None
    with mosquitto(PROGRAM, tmp_path, PORT) as (address, pid):
        running = Process.of(pid)
        got = asyncio.run(carry({"b1": address}, judge, content=False, within_s=60.0))
    assert (got.delivered, got.expected, got.unwanted, got.missed) == (13, 13, 6, 1)
    assert got.bytes == 3 * sum(len(one.payload) for one in REPORTS[:4]) + len(REPORTS[4].payload)
    assert not got.cut
    assert not running.alive


@pytest.mark.skipif(PROGRAM is None, reason="needs mosquitto")
def test_what_takes_longer_than_it_may_is_cut_off_and_counted_so_far(judge: Judge, tmp_path: Path) -> None:
    assert PROGRAM is not None
    with mosquitto(PROGRAM, tmp_path, PORT) as (address, _):
        got = asyncio.run(carry({"b1": address}, judge, content=False, within_s=0.0))
    assert got.cut
    assert got.delivered < got.expected == 13


def test_a_program_that_does_not_start_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="did not start"), mosquitto("/bin/false", tmp_path, PORT):
        pass
