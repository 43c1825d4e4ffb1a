"""What a day was like, from a few records made up for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.traffic import drawn
from tidings.records.record import Kind, Record
from tidings.records.schema import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class Book:
    """Records of one broker, numbered as they come."""

    def __init__(self) -> None:
        self.rows: list[Record] = []

    def write(self, at: int, kind: Kind, topic: str = "roads", broker: str = "a", **more: Any) -> None:
        self.rows.append(Record(broker, 1, len(self.rows), at, kind, topic, **more))

    def published(self, at: int, report: str, publisher: str) -> None:
        self.write(at, Kind.PUBLISHED, report=report, publisher=publisher, client=publisher)


def day() -> list[Record]:
    """Two events: e1 of four reports and two versions, e2 of one report that nobody wants."""
    book = Book()
    book.published(1000, "r1", "p")
    book.write(1010, Kind.OPENED, event="e1", version=1, report="r1", publisher="p")
    book.published(1100, "r2", "q")
    book.write(1110, Kind.MERGED, event="e1", version=1, report="r2", publisher="q")
    book.published(1150, "r5", "p")
    book.write(1160, Kind.OPENED, event="e2", version=1, report="r5", publisher="p")
    book.write(2000, Kind.TOLD, event="e1", version=1)
    book.write(2007, Kind.DELIVERED, event="e1", version=1, receivers=("s1", "s2"))
    book.write(2000, Kind.FORWARDED, event="e1", version=1, receivers=("b",))
    book.write(2010, Kind.DELIVERED, event="e1", version=1, broker="b", receivers=("s3",))
    book.published(3000, "r3", "p")
    book.write(3010, Kind.SUPPRESSED, event="e1", version=1, report="r3", reason="redundant", publisher="p")
    book.published(3100, "r4", "p")
    book.write(3110, Kind.MERGED, event="e1", version=2, report="r4", publisher="p")
    book.write(4000, Kind.TOLD, event="e1", version=2)
    book.write(4001, Kind.DELIVERED, event="e1", version=2, receivers=("s1", "s2"))
    book.write(4000, Kind.FORWARDED, event="e1", version=2, receivers=("b", "c"))
    book.write(4100, Kind.TOLD, event="e2", version=1)
    return book.rows


@pytest.fixture(scope="module")
def records(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    from tidings.pipeline.tables import read_files

    folder: Path = tmp_path_factory.mktemp("records")
    drawn.segment(folder, "a", day())
    return read_files(spark, [folder], arrow_schema()).cache()


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_moments_count_reports_versions_and_deliveries_from_the_beginning_on(records: DataFrame) -> None:
    from tidings.pipeline import days

    assert rows(days.moments(records, 1000, 1000)) == [(0, 3, 0, 0), (1, 0, 1, 3), (2, 2, 0, 0), (3, 0, 2, 2)]
    assert rows(days.moments(records, 2000, 10_000)) == [(0, 2, 3, 5)]


def test_a_delivery_took_as_long_as_since_the_first_report_that_its_version_tells(records: DataFrame) -> None:
    from tidings.pipeline import days

    # 1007 and 1010 after r1, 901 after r4; by their four leading binary digits.
    assert rows(days.latencies(records)) == [(896, 2), (960, 3)]


def test_seats_are_where_reports_were_gathered(records: DataFrame) -> None:
    from tidings.pipeline import days

    assert rows(days.seats(records)) == [("a", "roads")]


def test_the_event_with_every_fate_and_several_versions_comes_first(records: DataFrame) -> None:
    from tidings.pipeline import days

    found = [tuple(row) for row in days.lives(records, "roads").collect()]
    assert found == [("e1", 1, 2, 1, 2, 5), ("e2", 1, 0, 0, 1, 0)]
    assert days.lives(records, "rain").collect() == []


def test_reports_of_an_event_have_their_place_among_all_of_their_publisher(records: DataFrame) -> None:
    from tidings.pipeline import days

    assert [tuple(row) for row in days.reports_of(records, "e1").collect()] == [
        ("r1", 1000, "p", 0, "opened"),
        ("r2", 1100, "q", 0, "merged"),
        ("r3", 3000, "p", 2, "suppressed"),
        ("r4", 3100, "p", 3, "merged"),
    ]


def test_versions_of_an_event_have_their_seat_and_their_receivers_everywhere(records: DataFrame) -> None:
    from tidings.pipeline import days

    found = [tuple(row) for row in days.versions_of(records, "e1").collect()]
    assert found == [(1, 2000, "a", 3), (2, 4000, "a", 2)]


def test_messages_between_brokers_are_counted_in_the_stretch_in_which_they_were_sent(
    records: DataFrame,
) -> None:
    from tidings.pipeline import days

    assert rows(days.carried(records, [1500, 2000, 9000])) == [(1, 1), (2, 2)]
