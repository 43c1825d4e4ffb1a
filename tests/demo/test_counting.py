"""From the rows of tables to the figures of a day, by value; the tables are made in tests/pipeline."""

from __future__ import annotations

from pathlib import Path

from tidings.console.day import Check, Happening, Life, Link, Moment, Topic
from tidings.demo.city import City, Truth, Words
from tidings.demo.counting import checks, life_of, links_of, moments_of, topics_of
from tidings.demo.playing import Played, Sent

ROADS = Topic("roads", reports=10, redundant=5, merged=3, opened=2, versions=4, delivered=9)


def test_a_topic_counts_what_was_dropped_before_the_seat_as_redundant_and_the_busiest_is_first() -> None:
    row = {"reports": 10, "merged": 2, "opened": 2, "told": 4, "delivered": 9}
    suppressed = [
        {"topic": "roads", "reason": "redundant", "messages": 4},
        {"topic": "roads", "reason": "dropped on the way", "messages": 1},
        {"topic": "roads", "reason": "merged on the way", "messages": 1},
        {"topic": "roads", "reason": "repeat", "messages": 7},
    ]
    rows = [{**row, "topic": "rain", "reports": 3}, {**row, "topic": "roads"}, {**row, "topic": "$SYS/x"}]
    roads, rain = topics_of(rows, suppressed, {"roads", "rain"})
    assert roads == ROADS
    assert (rain.name, rain.redundant) == ("rain", 0)


def test_a_link_carries_what_went_over_it_in_both_directions() -> None:
    rows = [
        {"sender": "a", "receiver": "b", "forwarded": 5, "bytes": 50, "reports": 4},
        {"sender": "b", "receiver": "a", "forwarded": 2, "bytes": 30, "reports": 0},
    ]
    assert links_of([("b", "a"), ("b", "c")], rows) == (Link("b", "a", 7, 80, 4), Link("b", "c", 0, 0, 0))


def test_a_moment_in_which_nothing_happened_is_there_too() -> None:
    rows = [
        {"moment": 2, "reports": 1, "versions": 2, "deliveries": 3},
        {"moment": 0, "reports": 4, "versions": 0, "deliveries": 0},
    ]
    assert moments_of(rows, 500_000) == (Moment(0, 4, 0, 0), Moment(0.5, 0, 0, 0), Moment(1, 1, 2, 3))


def test_clients_and_records_agree_or_the_first_topic_that_differs_is_named() -> None:
    assert [one.holds for one in checks([ROADS], {"roads": 10}, {"roads": 9})] == [True, True, True]
    published, fates, delivered = checks([ROADS], {"roads": 10, "rain": 1}, {"roads": 8})
    assert published == Check("Reports published, by clients and by records", "rain: 1 and 0", False)
    assert fates.holds
    assert delivered.seen == "roads: 8 and 9"


def sent(number: int, session: str, story: int, **fields: int) -> Sent:
    return Sent(number, story, "roads", "a", 40 + number, session, {"story": story, **fields}, 0.0)


def played(*reports: Sent) -> Played:
    city = City(
        folder=Path("none"),
        speed_up=1.0,
        brokers=(),
        links=(),
        topics=(),
        followed="roads",
        subscribers=(),
        reports=(),
        truths={7: Truth(7, "roads", 0, {"story": 7, "incident": 3, "severity": 4})},
        doubtful=0,
        words={"incident": Words((0, 3), (2, 9), ("jam", "accident"))},
    )
    return Played(
        city=city,
        began_us=1_000_000,
        seconds=10.0,
        speed_up=1.0,
        speed_up_had=1.0,
        records=Path("none"),
        sent=reports,
        delivered=(),
        subscribers=(),
        cpu_s={},
        notes=(),
    )


REPORTS = [
    {"at": 2_000_000, "publisher": "p", "place": 1, "became": "opened"},
    {"at": 2_500_000, "publisher": "q", "place": 0, "became": "merged"},
    {"at": 4_000_000, "publisher": "p", "place": 2, "became": "suppressed"},
]
VERSIONS = [
    {"version": 1, "at": 3_000_000, "broker": "b", "receivers": 3},
    {"version": 2, "at": 5_000_000, "broker": "b", "receivers": 2},
]
CONTENTS = {1: {"story": 7, "severity": 4}, 2: {"story": 7, "severity": 4, "incident": 3}}


def test_the_life_of_an_event_is_told_by_what_each_report_said_and_each_version_added() -> None:
    day = played(
        sent(0, "p", 6, severity=1),
        sent(1, "p", 7, severity=4),
        sent(2, "q", 7, incident=3),
        sent(3, "p", 7, severity=4),
    )
    assert life_of("e1", "roads", REPORTS, VERSIONS, CONTENTS, day) == Life(
        event="e1",
        topic="roads",
        truth=(("incident", "accident"), ("severity", "4")),
        happenings=(
            Happening(1.0, "report", "client 41", "opened", (("severity", "4"),)),
            Happening(1.5, "report", "client 42", "merged", (("incident", "accident"),)),
            Happening(2.0, "version", "b", "1", (("severity", "4"),), receivers=3),
            Happening(3.0, "report", "client 43", "redundant", (("severity", "4"),)),
            Happening(4.0, "version", "b", "2", (("incident", "accident"),), receivers=2),
        ),
    )


def test_an_event_whose_reports_are_not_those_that_were_sent_is_not_shown() -> None:
    strange = played(sent(0, "p", 7, severity=1), sent(1, "p", 6, severity=4), sent(2, "q", 7, incident=3))
    assert life_of("e1", "roads", REPORTS[:2], VERSIONS, CONTENTS, strange) is None
