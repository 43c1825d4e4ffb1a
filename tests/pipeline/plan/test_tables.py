"""Small tables for planners beside those that plain Python counts, whatever the number of partitions."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.judges import plan_counts
from tests.judges.traffic_counts import JUDGES, unique
from tests.pipeline.traffic import drawn
from tidings.records import traffic
from tidings.records.tables import table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARTITIONS = [3, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 16))]

HOURS = range(1, 4)


def rows_of(seed: int, table: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in JUDGES[table](unique(drawn.records(seed, 800)))]


def frame_of(spark: SparkSession, seed: int, table: str, partitions: int):  # type: ignore[no-untyped-def]
    columns = list(zip(*rows_of(seed, table), strict=True))
    made = pa.table([list(column) for column in columns], schema=traffic.schemas()[table])
    return (
        spark.createDataFrame(made).repartition(partitions).where(f"hour BETWEEN {HOURS[0]} AND {HOURS[-1]}")
    )


@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_pairs_and_requests_of_traffic_are_what_plain_python_counts(
    spark: SparkSession, seed: int, partitions: int
) -> None:
    from tidings.pipeline.plan import pairs, requests

    found = pairs.of_messages(frame_of(spark, seed, traffic.MESSAGES, partitions)).toArrow().to_pylist()
    expected = plan_counts.pairs_of_messages(rows_of(seed, traffic.MESSAGES), HOURS)  # type: ignore[arg-type]
    assert {(row["sender"], row["receiver"]): row["messages"] for row in found} == expected
    assert len(found) == len(expected) > 5
    asked = requests.of_traffic(frame_of(spark, seed, traffic.REQUESTS, partitions)).toArrow().to_pylist()
    wanted = plan_counts.requests_of_traffic(rows_of(seed, traffic.REQUESTS), HOURS)  # type: ignore[arg-type]
    assert {(row["topic"], row["broker"]): row["requests"] for row in asked} == wanted
    assert wanted


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_homes_and_links_of_records_are_what_plain_python_finds(spark: SparkSession, partitions: int) -> None:
    from tidings.pipeline.plan import homes, links

    records = drawn.records(7, 1000)
    frame = spark.createDataFrame(table_of(records)).repartition(partitions)
    found = homes.of_records(frame).toArrow().to_pylist()
    expected = plan_counts.homes_of_records(records)
    assert {row["client"]: row["broker"] for row in found} == expected
    assert len(found) == len(expected) > 5
    joined = links.of_records(frame).toArrow().to_pylist()
    assert sorted((row["a"], row["b"]) for row in joined) == sorted(plan_counts.links_of_records(records))
    assert {row["broker"] for row in links.brokers(frame).toArrow().to_pylist()} == set(drawn.BROKERS)


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_pairs_and_requests_of_a_workload_are_what_plain_python_counts(
    spark: SparkSession, partitions: int
) -> None:
    from tidings.pipeline.plan import pairs, requests

    source = random.Random(5)
    client_of = {number: source.randrange(9) for number in range(30)}
    matches = {event: source.sample(range(30), source.randrange(9)) for event in range(40)}
    spoken = [(source.randrange(45), source.randrange(9)) for _ in range(90)]
    asked = [(source.randrange(9), f"topic{source.randrange(3)}") for _ in range(60)]
    home_of = {client: f"b{client % 4}" for client in range(9)}

    def frame(**columns: list[object]):  # type: ignore[no-untyped-def]
        return spark.createDataFrame(pa.table(columns)).repartition(partitions)

    flat = [(event, one) for event, found in matches.items() for one in found]
    made = pairs.of_matches(
        frame(event=[event for event, _ in flat], subscription=[one for _, one in flat]),
        frame(subscription=list(client_of), client=list(client_of.values())),
        frame(event=[event for event, _ in spoken], client=[client for _, client in spoken]),
    )
    found = {(row["sender"], row["receiver"]): row["messages"] for row in made.toArrow().to_pylist()}
    assert found == plan_counts.pairs_of_matches(matches, client_of, spoken)
    assert len(found) > 20
    rates = requests.of_workload(
        frame(client=[client for client, _ in asked], topic=[topic for _, topic in asked]),
        frame(client=list(home_of), broker=list(home_of.values())),
    )
    counted = {(row["topic"], row["broker"]): row["requests"] for row in rates.toArrow().to_pylist()}
    assert counted == plan_counts.requests_of_workload(asked, home_of)


def test_topics_that_are_hardly_asked_for_can_be_left_out(spark: SparkSession) -> None:
    from tidings.pipeline.plan import requests

    columns = {"topic": ["a", "a", "b", "c"], "broker": ["x", "y", "x", "y"], "requests": [2, 3, 4, 5]}
    table = pa.table(columns)
    found = requests.often(spark.createDataFrame(table), 5).toArrow().to_pylist()
    assert sorted((row["topic"], row["broker"]) for row in found) == [("a", "x"), ("a", "y"), ("c", "y")]
