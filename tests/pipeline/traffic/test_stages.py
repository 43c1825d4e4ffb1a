"""Tables of traffic beside those that plain Python counts, whatever the number of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.judges.traffic_counts import unique
from tests.pipeline.traffic import drawn
from tidings.pipeline.tables import TRAFFIC
from tidings.records import traffic
from tidings.records.record import Kind, Record
from tidings.records.tables import table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_table_of_traffic_is_named_with_its_columns_and_its_judge() -> None:
    assert tuple(TRAFFIC) == traffic.TABLES == tuple(traffic.schemas())
    assert set(drawn.judged([])) == set(traffic.TABLES) - {traffic.RECORDS}


@pytest.mark.spark
@pytest.mark.parametrize(
    "partitions", [3, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 16))]
)
def test_every_table_is_what_plain_python_counts(spark: SparkSession, partitions: int) -> None:
    import importlib

    from tidings.pipeline.tables import check_columns
    from tidings.pipeline.traffic import keeping
    from tidings.pipeline.traffic.hours import Hours

    rows = drawn.records(3, 1500)
    twice = spark.createDataFrame(table_of([*rows, *rows[:300]])).repartition(partitions)
    frames = {traffic.RECORDS: keeping.unseen(twice, None, keeping.repeated(twice, None))}
    hours = Hours(tuple(range(5)))
    expected = drawn.judged(unique(rows))
    for name, table in TRAFFIC.items():
        if name == traffic.RECORDS:
            assert frames[name].count() == len(rows)
            continue
        stage = importlib.import_module(table.stage).STAGE
        made = frames[name] = stage.make(frames, hours)
        check_columns(made, name, traffic.schemas()[name])
        assert sorted(map(tuple, made.collect()), key=repr) == expected[name], name


@pytest.mark.slow
@pytest.mark.spark
def test_a_table_of_some_hours_is_that_part_of_the_table_of_all(spark: SparkSession) -> None:
    import importlib

    from tidings.pipeline.traffic import keeping
    from tidings.pipeline.traffic.hours import Hours

    rows = drawn.records(4, 1200)
    frames = {traffic.RECORDS: keeping.unseen(spark.createDataFrame(table_of(rows)))}
    some = Hours((1, 4))
    expected = drawn.judged(unique(rows))
    for name in (traffic.CONTRIBUTIONS, traffic.LINKS, traffic.BROKERS):
        made = frames[name] = importlib.import_module(TRAFFIC[name].stage).STAGE.make(frames, some)
        here = [row for row in expected[name] if row[-1] in some.made]
        assert sorted(map(tuple, made.collect()), key=repr) == here, name


@pytest.mark.spark
def test_blocks_are_named_in_which_a_record_comes_twice_or_is_kept(spark: SparkSession) -> None:
    from tidings.pipeline.traffic import keeping

    rows = [Record("a", 1, n, 5, Kind.PUBLISHED) for n in range(300)]
    others = [Record("b", 1, n, 5, Kind.PUBLISHED) for n in range(300)]

    def blocks(fresh: list[Record], kept: list[Record] | None) -> list[tuple[str, int, int]]:
        some, had = (None if one is None else spark.createDataFrame(table_of(one)) for one in (fresh, kept))
        assert some is not None
        return sorted(map(tuple, keeping.repeated(some, had).collect()))

    assert blocks([*rows, *others], None) == []
    assert blocks(rows[64:], [*rows[:64], *others]) == []
    assert blocks([*rows, rows[63], rows[63]], None) == [("a", 1, 0)]
    assert blocks(rows[100:], rows[:129]) == [("a", 1, 1), ("a", 1, 2)]
