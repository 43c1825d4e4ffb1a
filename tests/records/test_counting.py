"""False positives and negatives, counted from what brokers wrote down."""

from __future__ import annotations

from collections.abc import Sequence

from tests.records.samples import row
from tidings.records.counting import LinkCount, compare_deliveries, count_false_negatives, count_links
from tidings.records.record import Kind, Record
from tidings.records.tables import table_of


def forwarded(broker: str, message: str, *receivers: str) -> Record:
    return row(0, Kind.FORWARDED, broker=broker, message=message, receivers=receivers)


def delivered(broker: str, message: str, *sessions: str) -> Record:
    return row(0, Kind.DELIVERED, broker=broker, message=message, receivers=sessions)


# Two messages in a network a-b-c, with d beside b.
TABLE = table_of(
    [
        row(0, Kind.PUBLISHED, broker="a", message="m1"),
        forwarded("a", "m1", "b"),
        forwarded("b", "m1", "c", "d"),
        delivered("c", "m1", "s1", "s2"),
        forwarded("a", "m2", "b"),
        forwarded("a", "m2", "b"),
        row(0, Kind.SUPPRESSED, broker="b", message="m2", reason="repeat"),
        row(0, Kind.LINK_UP, broker="b", link="a"),
    ]
)


def test_a_link_whose_far_end_neither_delivers_nor_forwards_has_a_false_positive() -> None:
    assert count_links(TABLE) == {
        ("a", "b"): LinkCount(forwarded=2, false_positives=1),
        ("b", "c"): LinkCount(forwarded=1, false_positives=0),
        ("b", "d"): LinkCount(forwarded=1, false_positives=1),
    }


def test_the_first_link_that_was_not_travelled_has_the_false_negative() -> None:
    truth: dict[str, list[Sequence[str]]] = {
        "m1": [("a", "b", "c"), ("a", "b", "d")],
        "m2": [("a", "b", "c"), ("a", "b", "c", "e"), ("a",)],
    }
    assert count_false_negatives(TABLE, truth) == {("b", "c"): 1}
    assert count_false_negatives(TABLE, {"m3": [("a", "b", "c")]}) == {("a", "b"): 1}


def test_deliveries_are_compared_with_the_truth() -> None:
    table = table_of(
        [delivered("c", "m1", "s1", "s2"), delivered("c", "m1", "s2"), delivered("d", "m1", "s9")]
    )
    found = compare_deliveries(table, [("m1", "c", "s1"), ("m1", "c", "s2"), ("m2", "c", "s1")])
    assert found.lost == (("m2", "c", "s1"),)
    assert found.unwanted == (("m1", "d", "s9"),)
    assert found.repeated == (("m1", "c", "s2"),)


def test_an_empty_table_has_nothing_astray() -> None:
    empty = table_of([])
    assert count_links(empty) == {}
    assert compare_deliveries(empty, []).lost == ()
