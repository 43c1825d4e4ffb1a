"""What the tables of traffic mean, on a few records each."""

from __future__ import annotations

from typing import Any

from tests.judges import traffic_counts as counting
from tidings.records.record import Kind, Record
from tidings.records.traffic import CARRIED, HOUR_US


def row(n: int, kind: Kind, broker: str = "a", hour: float = 0, **more: Any) -> Record:
    return Record(broker, 1, n, round(hour * HOUR_US), kind, **more)


def test_a_plain_delivery_is_a_message_from_its_publisher_to_each_receiver() -> None:
    rows = [
        row(1, Kind.DELIVERED, publisher="p", receivers=("s", "t")),
        row(2, Kind.DELIVERED, publisher="p", receivers=("s",)),
        row(3, Kind.FORWARDED, publisher="p", receivers=("b",)),
    ]
    assert sorted(counting.messages(rows)) == [("p", "s", 2, 0, 0), ("p", "t", 1, 0, 0)]


def test_a_version_is_a_message_from_everyone_whose_report_it_was_the_first_to_tell() -> None:
    rows = [
        row(1, Kind.OPENED, event="e", version=1, report="r1", publisher="p"),
        row(2, Kind.MERGED, event="e", version=1, report="r2", publisher="p"),
        row(3, Kind.MERGED, event="e", version=2, report="r3", publisher="q"),
        row(4, Kind.SUPPRESSED, reason=CARRIED, report="r3", publisher="o"),
        row(5, Kind.SUPPRESSED, reason="redundant", event="e", report="r4", publisher="x"),
        row(6, Kind.DELIVERED, event="e", version=1, receivers=("s",)),
        row(7, Kind.DELIVERED, event="e", version=2, receivers=("s",), hour=30),
        row(8, Kind.DELIVERED, event="e", version=3, receivers=("s",)),
    ]
    assert sorted(counting.messages(rows)) == [
        ("o", "s", 1, 1, 30),
        ("p", "s", 1, 1, 0),
        ("q", "s", 1, 1, 30),
    ]


def test_a_message_is_in_vain_where_its_receiver_had_no_use_for_it_within_an_hour() -> None:
    rows = [
        row(1, Kind.FORWARDED, message="used", bytes=5, receivers=("b", "c")),
        row(2, Kind.FORWARDED, message="used", bytes=5, receivers=("b",)),
        row(3, Kind.FORWARDED, message="late", receivers=("b",)),
        row(4, Kind.FORWARDED, message="report", report="r", receivers=("b",)),
        row(1, Kind.DELIVERED, "b", 1.99, message="used", receivers=("s",)),
        row(2, Kind.DELIVERED, "b", 2, message="late", receivers=("s",)),
    ]
    assert sorted(counting.links(rows)) == [("a", "b", 4, 3, 10, 1, 1, 0), ("a", "c", 1, 1, 5, 0, 1, 0)]


def test_what_a_broker_received_is_what_others_sent_it() -> None:
    rows = [
        row(1, Kind.PUBLISHED, bytes=9),
        row(2, Kind.FORWARDED, bytes=9, receivers=("b", "c")),
        row(1, Kind.DELIVERED, "b", bytes=9, receivers=("s", "t")),
    ]
    assert sorted(counting.brokers(rows)) == [
        ("a", 1, 9, 0, 0, 2, 18, 0, 0, 0, 0, 0, 0, 0),
        ("b", 0, 0, 1, 9, 0, 0, 2, 18, 0, 0, 0, 0, 0),
        ("c", 0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    ]


def test_a_reason_counts_up_to_its_colon() -> None:
    rows = [
        row(1, Kind.SUPPRESSED, topic="t", reason="refused: too long", bytes=1),
        row(2, Kind.SUPPRESSED, topic="t", reason="refused: no key", bytes=2, receivers=("s",)),
    ]
    assert counting.suppression(rows) == [("t", "refused", 2, 3, 1, 0)]


def test_a_request_counts_at_the_broker_that_was_asked() -> None:
    rows = [
        row(1, Kind.REQUESTED, topic="t", bytes=7),
        row(2, Kind.REQUESTED, topic="t", bytes=9, link="b"),
        row(3, Kind.REQUESTED, topic="t", bytes=1, link="b"),
    ]
    assert sorted(counting.requests(rows)) == [("a", "a", "t", 1, 7, 0), ("b", "a", "t", 2, 10, 0)]


def test_a_record_that_comes_twice_is_one() -> None:
    one, other = row(2, Kind.PUBLISHED), row(1, Kind.PUBLISHED)
    assert counting.unique([one, other, one]) == [other, one]
