"""On the way to the seat: what is not sent, what is sent as one, and that the seat counts it all."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.overlay.bench import Bench, path
from tidings.language.declarations import topic_text
from tidings.language.reports import Report
from tidings.language.topics import Topic
from tidings.overlay.core import Core
from tidings.overlay.events import EntryOffered
from tidings.overlay.gather.edge_filter import KNOWN_MAX, EdgeFilter, joined
from tidings.overlay.gather.messages import Carry, Holder, Known, Taken
from tidings.overlay.publication import Publication, Told
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.publishing.publications import BOOT_SHIFT
from tidings.overlay.routing.topics import Topics
from tidings.overlay.settings import DEFAULT, Settings
from tidings.overlay.status import GatheredStatus
from tidings.records.record import Kind, Record

MARGIN = 1.0


def roads(**options: object) -> Topic:
    given: dict[str, Any] = {
        "name": "roads",
        "kind": "gathered",
        "key": ["place"],
        "merge_after": "1s",
        "redundant_for": "60s",
        "window": "10m",
        "seat": "centre",
        "on_the_way": "drop",
        "fields": {
            "place": {"type": "string"},
            "lanes": {"type": "int"},
            "note": {"type": "string"},
            "severity": {"type": "int", "conflict": "max"},
            "at": {"lat": {"type": "float"}, "lon": {"type": "float"}},
        },
    }
    return Topic.from_mapping(given | options)


def network(ids: str = "abcde", topic: Topic | None = None, **settings: Any) -> Bench:
    """A path, so that the seat is in its middle."""
    given = Settings(relay_margin_s=MARGIN, **settings)
    bench = Bench(ids, path(*ids), settings=given, topics=(topic or roads(),))
    bench.settle()
    return bench


def report(bench: Bench, broker: str, qos: int = 1, token: int = 0, **fields: object) -> None:
    bench.publish(broker, "roads", json.dumps({"place": "bridge", **fields}).encode(), qos, token)
    bench.run()


def carried(bench: Bench, mark: tuple[int, int]) -> list[tuple[str, str]]:
    """The links over which reports went."""
    return [(source, target) for source, target, carry in bench.said(Carry, mark) if carry.report.payload]


def seat(bench: Bench, broker: str = "c") -> GatheredStatus:
    (status,) = bench[broker].gathered("roads")
    return status


def dropped(bench: Bench, broker: str) -> int:
    return bench.status(broker).gathering.dropped


# Dropping.


def test_a_report_that_was_taken_is_not_sent_again_while_its_event_is_open() -> None:
    bench = network()
    report(bench, "a", lanes=2)
    mark = bench.mark()
    report(bench, "a", lanes=2)
    report(bench, "a")
    assert carried(bench, mark) == []
    assert dropped(bench, "a") == 2


def test_what_a_version_says_that_has_passed_is_not_sent() -> None:
    bench = network()
    bench.subscribe("e", "s", "roads", qos=1)
    bench.settle()
    report(bench, "e", note="fire")
    report(bench, "a", lanes=2)
    bench.advance(2)
    mark = bench.mark()
    report(bench, "e", lanes=2)
    report(bench, "d", lanes=2, note="fire")  # it has sent nothing yet, and does not know the seat's clock
    report(bench, "d", note="fire")
    assert carried(bench, mark) == [("d", "c")]
    assert (dropped(bench, "e"), dropped(bench, "d")) == (1, 1)


def test_what_is_dropped_is_accepted_at_once_and_written_down() -> None:
    bench = network()
    report(bench, "a", lanes=2, token=1)
    mark = bench.mark()
    report(bench, "a", lanes=2, token=2)
    assert bench.accepted("a", mark) == [2]
    records = [it for it in bench.of(Record, "a", mark) if it.kind in (Kind.PUBLISHED, Kind.SUPPRESSED)]
    assert [(it.kind, it.reason, it.event, it.report) for it in records] == [
        (Kind.PUBLISHED, None, None, "a:1:2"),
        (Kind.SUPPRESSED, "dropped on the way", "a:1:1", "a:1:2"),
    ]
    assert bench.keys("a", "report/") == []


@pytest.mark.parametrize(
    "fields",
    [{"note": "fire"}, {"lanes": 3}, {"lanes": 2, "note": "fire"}, {"severity": 1}, {"at": {"lat": 1.0}}],
)
def test_a_report_that_says_something_else_is_sent(fields: dict[str, Any]) -> None:
    bench = network()
    report(bench, "a", lanes=2, severity=4, at={"lat": 2.0, "lon": 3.0})
    mark = bench.mark()
    report(bench, "a", **fields)
    assert carried(bench, mark) == [("a", "b"), ("b", "c")]


def test_part_of_a_group_is_known_with_the_group() -> None:
    bench = network()
    report(bench, "a", at={"lat": 2.0, "lon": 3.0})
    mark = bench.mark()
    report(bench, "a", at={"lon": 3.0})
    assert carried(bench, mark) == []


def test_a_report_of_a_higher_quality_of_service_is_sent() -> None:
    bench = network()
    report(bench, "a", 0, lanes=2)
    mark = bench.mark()
    report(bench, "a", 0, lanes=2)
    assert carried(bench, mark) == []
    report(bench, "a", 1, lanes=2)
    assert carried(bench, mark) == [("a", "b"), ("b", "c")]
    report(bench, "a", 1, lanes=2)
    assert len(carried(bench, mark)) == 2


def test_a_report_that_disagrees_is_sent_each_time_so_that_the_seat_counts_the_conflict() -> None:
    bench = network()
    report(bench, "a", lanes=2)
    mark = bench.mark()
    report(bench, "e", lanes=3)
    report(bench, "e", lanes=3)
    assert carried(bench, mark) == [("e", "d"), ("d", "c")] * 2
    assert seat(bench).conflicts == 2


def test_nothing_is_dropped_that_might_come_after_the_event_has_closed() -> None:
    bench = network()
    report(bench, "a", lanes=2)
    bench.advance(60 - MARGIN - 2)  # clocks might have gone apart by a fiftieth
    mark = bench.mark()
    report(bench, "a", lanes=2)
    assert carried(bench, mark) == []
    bench.advance(2.5)
    report(bench, "a", lanes=2)
    assert carried(bench, mark) == [("a", "b"), ("b", "c")]
    assert seat(bench).opened == 1
    bench.advance(10)
    report(bench, "a", lanes=2)
    assert seat(bench).opened == 2


def test_the_window_bounds_it_as_well() -> None:
    bench = network(topic=roads(redundant_for="60s", window="70s"))
    report(bench, "a", lanes=2)
    bench.advance(40)
    report(bench, "a", note="fire")
    bench.advance(20)
    mark = bench.mark()
    report(bench, "a", lanes=2)
    assert carried(bench, mark) == []
    bench.advance(15)
    report(bench, "a", lanes=2)
    assert carried(bench, mark) == [("a", "b"), ("b", "c")]
    assert seat(bench).opened == 2


def test_nothing_is_dropped_before_the_deputy_has_what_it_repeats() -> None:
    bench = network(settle_s=1.0)
    bench.publish("a", "roads", b'{"place": "bridge", "lanes": 2}', 1)
    bench.publish("a", "roads", b'{"place": "bridge", "lanes": 2}', 1)
    bench.run()
    assert dropped(bench, "a") == 0
    assert seat(bench).redundant == 1


def test_when_another_broker_has_the_seat_all_is_forgotten() -> None:
    bench = network()
    report(bench, "a", lanes=2)
    bench.kill("c")
    bench.join("b", "d")
    bench.advance(15)
    assert seat(bench, "a").seat in "bd"
    mark = bench.mark()
    report(bench, "a", lanes=2)
    assert carried(bench, mark)[0] == ("a", "b")
    mark = bench.mark()
    report(bench, "a", lanes=2)
    assert carried(bench, mark) == []
    here = seat(bench, seat(bench, "a").seat)
    assert (here.opened, here.redundant) == (0, 1)


def test_when_a_topic_is_declared_otherwise_all_is_forgotten() -> None:
    bench = network()
    report(bench, "a", lanes=2)
    text = topic_text(roads(version=2, key=["lanes"]))
    bench.tell("e", EntryOffered("admin", 1, "topic", "roads", text, force=True))
    bench.run()
    mark = bench.mark()
    report(bench, "a", lanes=2)
    assert carried(bench, mark) == [("a", "b"), ("b", "c")]


def test_an_event_that_is_closed_before_its_time_is_forgotten_where_it_was_told() -> None:
    bench = network(topic=roads(event_bytes_max=1024))
    bench.subscribe("e", "s", "roads", qos=1)
    bench.settle()
    report(bench, "e", lanes=2)
    bench.advance(2)
    report(bench, "a", note="x" * 1000)
    bench.advance(5)
    mark = bench.mark()
    report(bench, "e", lanes=2)
    assert carried(bench, mark) == [("e", "d"), ("d", "c")]
    assert seat(bench).opened == 3


def test_where_nothing_is_to_be_dropped_nothing_is_promised() -> None:
    bench = network(topic=roads(on_the_way="nothing"))
    bench.subscribe("e", "s", "roads", qos=1)
    bench.settle()
    report(bench, "a", lanes=2)
    report(bench, "a", lanes=2)
    bench.advance(2)
    assert {taken.known for _, _, taken in bench.said(Taken)} == {None}
    assert {told.until_us for _, _, publish in bench.said(Publish) for told in publish.told} == {0}
    assert seat(bench).redundant == 1


# Counting.


def test_the_next_report_takes_the_count_along() -> None:
    bench = network()
    report(bench, "a", lanes=2)
    for _ in range(5):
        report(bench, "a", lanes=2)
    assert seat(bench).received == 1
    report(bench, "a", note="fire")
    here = seat(bench)
    assert (here.received, here.opened, here.merged, here.redundant, here.refused) == (7, 1, 1, 5, 0)


def test_if_no_report_comes_the_count_goes_by_itself() -> None:
    bench = network(seat_window_s=20.0)
    report(bench, "a", lanes=2)
    for _ in range(5):
        report(bench, "a", lanes=2)
    bench.advance(21)
    here = seat(bench)
    assert (here.received, here.opened, here.redundant) == (6, 1, 5)
    assert bench.status("a").gathering.waiting == 0
    assert bench.status("a").gathering.entered == 6
    assert not [it for it in bench.of(Record) if it.kind is Kind.FORWARDED and it.report == "a:1:7"]


def test_a_count_that_is_lost_with_a_link_is_sent_again_and_counted_once() -> None:
    bench = network(seat_window_s=20.0)
    report(bench, "a", lanes=2)
    report(bench, "a", lanes=2)
    bench.cut("b", "c")
    bench.advance(21)
    bench.heal("b", "c")
    bench.advance(30)
    told = [status for broker in "abcde" for status in bench[broker].gathered("roads") if status.mine]
    assert len(told) == 1
    assert sum(status.received for status in told) >= 1
    assert bench.status("a").gathering.waiting == 0


# The seat's clock.


def edge_filter(at_us: int = 0) -> tuple[Core, EdgeFilter]:
    core = Core("a", 1, 1, DEFAULT, random.Random(0))
    core.now = at_us / 1e6
    return core, EdgeFilter(core, Topics.__new__(Topics), lambda _place: Holder(3, "c", 7, "b"))


def said(key: str = "bridge", **fields: object) -> Report:
    return Report("roads", (key,), {"place": key, **fields}, "", 0)


def publication(number: int = 1, qos: int = 1) -> Publication:
    return Publication("a", 1, "roads", number, "roads", b"{}", qos)


TIMES = st.integers(0, 10**8)


@given(
    offset_us=st.integers(-(10**10), 10**10),
    sent_us=TIMES,
    up_us=TIMES,
    back_us=TIMES,
    later_us=TIMES,
    open_us=st.integers(0, 3 * 10**8),
    drift=st.floats(-0.009, 0.009),
)
def test_whatever_clocks_show_and_messages_take_nothing_is_dropped_after_the_closing(
    offset_us: int, sent_us: int, up_us: int, back_us: int, later_us: int, open_us: int, drift: float
) -> None:
    """The seat's clock is off and goes wrong by up to 9 in a thousand; ours is right."""

    def seats(at_us: int) -> int:
        return round(at_us * (1 + drift)) + offset_us

    taken_us = sent_us + up_us
    now_us = taken_us + back_us + later_us
    core, it = edge_filter(now_us)
    until_us = seats(taken_us) + open_us
    known = Known("c", 7, seats(taken_us), ((1, "a:1:1", until_us),))
    it.on_known("roads", known, [(publication(), said(lanes=2), sent_us, "a:1:1", until_us)])
    if it.redundant("roads", roads(), said(lanes=2), 1) is not None:
        assert seats(now_us) + up_us * (1 + drift) <= until_us + 2
    elif now_us + up_us < taken_us + open_us - (now_us - sent_us) // 25 - up_us // 25:
        pytest.fail("it is sent although it would have come in time")
    del core


def test_what_another_broker_says_that_has_the_seat_no_more_is_not_believed() -> None:
    _, it = edge_filter()
    for stranger in (Known("b", 7, 0, ()), Known("c", 6, 0, ())):
        it.on_known("roads", stranger, [(publication(), said(lanes=2), 0, "a:1:1", 10**9)])
        assert it.redundant("roads", roads(), said(lanes=2), 1) is None
    it.on_known("roads", Known("c", 7, 0, ()), [(publication(), said(lanes=2), 0, "a:1:1", 10**9)])
    assert it.redundant("roads", roads(), said(lanes=2), 1) == "a:1:1"


def test_a_later_event_takes_the_place_of_an_earlier_one_of_its_key() -> None:
    _, it = edge_filter()
    known = Known("c", 7, 0, ())
    it.on_known("roads", known, [(publication(), said(lanes=2), 0, "a:1:1", 10**9)])
    it.on_known("roads", known, [(publication(2), said(note="fire"), 0, "a:1:2", 10**9)])
    assert it.redundant("roads", roads(), said(lanes=2), 1) is None
    assert it.redundant("roads", roads(), said(note="fire"), 1) == "a:1:2"
    it.close("roads", "a:1:1")
    assert it.redundant("roads", roads(), said(note="fire"), 1) == "a:1:2"
    it.close("roads", "a:1:2")
    assert it.redundant("roads", roads(), said(note="fire"), 1) is None


def test_what_is_known_is_bounded() -> None:
    _, it = edge_filter()
    known = Known("c", 7, 0, ())
    for at in range(KNOWN_MAX + 1):
        it.on_known("roads", known, [(publication(at), said(f"k{at}"), 0, f"a:1:{at}", 10**9)])
    assert it.redundant("roads", roads(), said("k0"), 1) is None
    assert it.redundant("roads", roads(), said("k1"), 1) == "a:1:1"
    for at in range(KNOWN_MAX + 1):
        told = Told("roads", f"a:1:{at}", 1, 1, False, "c", until_us=10**9, declared=1)
        passing = Publication("c", 1, "0", (6 << BOOT_SHIFT) + at + 1, "roads", b"", told=told)
        it.on_told(passing)
    assert len(it._places["roads"].unread) == KNOWN_MAX


# Merging.


def merging(**settings: Any) -> Bench:
    return network(topic=roads(on_the_way="merge"), **settings)


def test_reports_of_one_broker_about_one_thing_go_as_one() -> None:
    bench = merging()
    bench.subscribe("e", "s", "roads", qos=1)
    bench.settle()
    mark = bench.mark()
    report(bench, "a", 0, lanes=2)
    report(bench, "a", 1, 1, note="fire")
    report(bench, "a", 2, 2, at={"lat": 2.0})
    report(bench, "a", 1, 3, at={"lon": 3.0})
    assert carried(bench, mark) == []
    bench.advance(1)
    (_, _, carry), _ = bench.said(Carry, mark)
    told = {"place": "bridge", "lanes": 2, "note": "fire", "at": {"lat": 2.0, "lon": 3.0}}
    assert json.loads(carry.report.payload) == told
    assert (carry.report.qos, carry.dropped) == (2, 3)
    assert sorted(bench.accepted("a", mark)) == [1, 2, 3]
    assert bench.keys("a", "report/") == []
    here = seat(bench)
    assert (here.received, here.opened, here.merged, here.redundant) == (4, 1, 0, 3)
    bench.advance(2)
    assert [json.loads(payload) for payload in bench.got("e", "s")] == [told]


def test_a_report_that_was_merged_on_the_way_is_written_down_with_the_one_that_carries_it() -> None:
    bench = merging()
    mark = bench.mark()
    report(bench, "a", lanes=2)
    report(bench, "a", note="fire")
    bench.advance(1)
    merged = [it for it in bench.of(Record, "a", mark) if it.reason == "merged on the way"]
    (opened,) = [it for it in bench.of(Record, "c", mark) if it.kind is Kind.OPENED]
    assert [it.report for it in merged] == [opened.report]


def test_reports_that_disagree_do_not_go_as_one() -> None:
    bench = merging()
    mark = bench.mark()
    report(bench, "a", lanes=2)
    report(bench, "a", lanes=3)
    report(bench, "a", lanes=3, note="fire")
    bench.advance(1)
    assert carried(bench, mark) == [("a", "b"), ("a", "b"), ("b", "c"), ("b", "c")]
    here = seat(bench)
    assert (here.received, here.conflicts) == (3, 1)


def test_a_merged_report_is_safe_on_disk_before_it_is_accepted() -> None:
    bench = merging()
    bench.slow_disks.add("a")
    report(bench, "a", 0, lanes=2)
    report(bench, "a", 1, 1, note="fire")
    assert bench.accepted("a") == []
    bench.sync("a")
    bench.run()
    assert bench.accepted("a") == [1]
    bench.kill("a")
    bench.slow_disks.clear()
    bench.start("a")
    bench.settle()
    bench.advance(5)
    assert seat(bench).opened == 1
    assert seat(bench).open == 1


def test_with_acks_of_a_neighbour_a_merged_report_is_accepted_when_the_seat_has_it() -> None:
    bench = merging(acks="neighbour")
    report(bench, "a", 1, 1, lanes=2)
    report(bench, "a", 1, 2, note="fire")
    assert bench.accepted("a") == []
    bench.advance(1)
    assert sorted(bench.accepted("a")) == [1, 2]


def test_at_the_seat_itself_nothing_waits() -> None:
    bench = merging()
    report(bench, "c", lanes=2)
    report(bench, "c", note="fire")
    here = seat(bench)
    assert (here.received, here.opened, here.merged) == (2, 1, 1)


def test_what_two_reports_say_together() -> None:
    assert joined({"a": 1}, {"b": {"c": 2}}) == {"a": 1, "b": {"c": 2}}
    assert joined({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"d": 3}}) == {"a": 1, "b": {"c": 2, "d": 3}}
    assert joined({"a": 1}, {"a": 2}) is None
    assert joined({"b": {"c": 2}}, {"b": {"c": 3}}) is None
