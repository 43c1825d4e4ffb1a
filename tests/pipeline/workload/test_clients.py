"""Clients: the same rows as the twin's on any number of partitions, each with its nearest broker."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from tests.judges import workload_clients as twin
from tests.pipeline.workload import engines
from tests.workload.models import tiny
from tidings.pipeline.stages import Stage
from tidings.pipeline.workload import brokers, chunks, clients, links
from tidings.records import workload as tables
from tidings.workload.model import Model

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def judged(model: Model) -> pa.Table:
    return twin.rows(model, {tables.BROKERS: brokers.table(model)})


def made(spark: SparkSession, stage: Stage, model: Model) -> pa.Table:
    frames = {name: spark.createDataFrame(lookup) for name, lookup in stage.lookups(model).items()}
    schema = tables.schemas((), ())[stage.table]
    return stage.make(frames, model).toArrow().sort_by(schema.names[0]).cast(schema)


def in_volume(model: Model) -> Model:
    """With nodes that span a volume in each region."""
    scattered = replace(
        model.nodes,
        names=tuple(map(str, range(30))),
        region=np.arange(30) % 3,
        longitude=np.zeros(30),
        weight=np.arange(1.0, 31.0),
        points=np.random.default_rng(1).uniform(-50, 50, (30, 5)).round(3),
    )
    return replace(model, nodes=scattered)


@pytest.mark.spark
@pytest.mark.parametrize(
    "place", ["vicinity", *(pytest.param(place, marks=pytest.mark.slow) for place in ("box", "hull"))]
)
def test_clients_are_those_of_the_twin(spark: SparkSession, place: str) -> None:
    model = in_volume(tiny(sizes={"brokers": 9, "subscriptions": 3_000}, clients={"place": place}))
    assert made(spark, clients.STAGE, model).equals(judged(model))


@pytest.mark.spark
@pytest.mark.parametrize("partitions", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 16))])
def test_partitions_change_nothing(
    spark: SparkSession, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 70)
    engines.divide(monkeypatch, partitions)
    model = tiny(sizes={"brokers": 7, "subscriptions": 500})
    assert made(spark, clients.STAGE, model).equals(judged(model))


@pytest.mark.spark
def test_brokers_and_links_go_through_spark_unchanged(spark: SparkSession) -> None:
    model = tiny(sizes={"brokers": 9})
    assert made(spark, brokers.STAGE, model).equals(brokers.table(model))
    by_ends = [("a", "ascending"), ("b", "ascending")]
    assert made(spark, links.STAGE, model).sort_by(by_ends).equals(links.table(model))


def test_clients_are_numbered_by_region() -> None:
    model = tiny(sizes={"subscriptions": 300})
    table = judged(model)
    assert table["client"].to_pylist() == list(range(int(model.clients_count.sum())))
    for number, region in enumerate(model.regions):
        first = int(model.clients_first[number])
        assert set(table["region"].to_pylist()[first : first + int(model.clients_count[number])]) == {region}


@pytest.mark.parametrize("count", [1, 2, 50])
def test_the_nearest_is_nearest(count: int) -> None:
    random = np.random.default_rng(4)
    points, among = random.uniform(0, 100, (500, 5)), random.uniform(0, 100, (count, 5))
    far = np.sqrt(((points[:, None] - among) ** 2).sum(axis=2))
    assert np.array_equal(clients.nearest(points, among), far.argmin(axis=1))


def test_of_equally_near_brokers_the_smallest_number_is_taken() -> None:
    among = np.zeros((6, 5))
    among[:, 0] = [9.0, -1.0, 1.0, 5.0, 1.0, 1.0]
    points = np.zeros((3, 5))
    points[:, 0] = [0.0, 3.0, 0.9]
    assert clients.nearest(points, among).tolist() == [1, 2, 2]


def test_batches_change_no_nearest() -> None:
    random = np.random.default_rng(8)
    points, among = (
        random.integers(0, 4, (300, 5)).astype(float),
        random.integers(0, 4, (80, 5)).astype(float),
    )
    whole = clients.nearest(points, among)
    parts = [clients.nearest(points[begin : begin + 7], among) for begin in range(0, 300, 7)]
    assert np.array_equal(whole, np.concatenate(parts))
