"""Both ways through Spark, judged by the scan and by the plain command, whatever the partitions."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.language.samples import FIELDS
from tests.pipeline.match import samples
from tests.records import workloads as made
from tidings.cli import app
from tidings.language.fields import Field, Type
from tidings.pipeline.match import files, strategies
from tidings.pipeline.match import subscriptions as asking
from tidings.pipeline.match.strategies import Cells, Form
from tidings.space import Space

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PARTITIONS = (1, 3, 16)


def lists(frame: DataFrame) -> list[tuple[int, list[int]]]:
    found = frame.toArrow()
    assert found.column_names == ["event", "subscriptions"]
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def rows(frame: DataFrame) -> list[tuple[int, int]]:
    found = frame.toArrow()
    assert found.column_names == ["event", "subscription"]
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.fixture(scope="module")
def sample() -> tuple[pa.Table, pa.Table, list[tuple[int, list[int]]]]:
    rng = random.Random(8)
    subscriptions, events = samples.some_subscriptions(rng, 150), samples.some_events(rng, 120)
    return subscriptions, events, samples.scanned(events, subscriptions)


def test_by_index_every_event_gets_the_answer_of_the_scan(
    spark: SparkSession, tmp_path: Path, sample: tuple[pa.Table, pa.Table, list[tuple[int, list[int]]]]
) -> None:
    subscriptions, events, wanted = sample
    known = asking.subscriptions_of(subscriptions, (), FIELDS)
    file = tmp_path / "held"
    files.write(file, *asking.image(known))
    for partitions in PARTITIONS:
        frame = spark.createDataFrame(events).repartition(partitions)
        assert lists(strategies.by_index(frame, str(file), Form.LISTS)) == wanted


def test_by_cells_every_event_gets_the_answer_of_the_scan(
    spark: SparkSession, sample: tuple[pa.Table, pa.Table, list[tuple[int, list[int]]]]
) -> None:
    subscriptions, events, wanted = sample
    space = Space.of(samples.SPACED)
    for partitions, depth, parts in zip(PARTITIONS, (0, 2, 3), ({0: 3}, {}, {0: 2, 5: 4}), strict=True):
        frames = [spark.createDataFrame(one).repartition(partitions) for one in (events, subscriptions)]
        cells = Cells(space, depth, fields=samples.SPACED, parts=parts)
        assert lists(strategies.by_cells(frames[0], frames[1], cells, Form.LISTS)) == wanted


@pytest.mark.slow
def test_the_forms_say_the_same(
    spark: SparkSession, tmp_path: Path, sample: tuple[pa.Table, pa.Table, list[tuple[int, list[int]]]]
) -> None:
    subscriptions, events, wanted = sample
    file = tmp_path / "held"
    files.write(file, *asking.image(asking.subscriptions_of(subscriptions, (), FIELDS)))
    frame, cells = spark.createDataFrame(events), Cells(Space.of(samples.SPACED), 1, fields=samples.SPACED)
    asked = spark.createDataFrame(subscriptions)
    for found in (
        strategies.by_index(frame, str(file), Form.COUNTS),
        strategies.by_cells(frame, asked, cells, Form.COUNTS),
    ):
        counts = found.toArrow()
        assert sorted(zip(*(one.to_pylist() for one in counts.columns), strict=True)) == [
            (event, len(ids)) for event, ids in wanted
        ]
    notified = [(event, one) for event, ids in wanted for one in ids]
    assert rows(strategies.by_index(frame, str(file), Form.ROWS)) == notified
    assert rows(strategies.by_cells(frame, asked, cells, Form.ROWS)) == notified


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 24))
def test_any_filters_get_the_same_answers_both_ways_in_both_forms(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    subscriptions = samples.some_subscriptions(rng, rng.choice([1, 40, 150]))
    events = samples.some_events(rng, 120)
    wanted = samples.scanned(events, subscriptions)
    notified = [(event, one) for event, ids in wanted for one in ids]
    file = tmp_path / "held"
    files.write(file, *asking.image(asking.subscriptions_of(subscriptions, (), samples.SPACED)))
    frame = spark.createDataFrame(events).repartition(rng.randint(1, 5))
    asked = spark.createDataFrame(subscriptions).repartition(rng.randint(1, 5))
    cells = Cells(Space.of(samples.SPACED), rng.randint(0, 3), fields=samples.SPACED, parts={0: 3})
    assert strategies.refused(asked, cells).isEmpty()
    assert lists(strategies.by_index(frame, str(file), Form.LISTS)) == wanted
    assert lists(strategies.by_cells(frame, asked, cells, Form.LISTS)) == wanted
    assert rows(strategies.by_index(frame, str(file), Form.ROWS)) == notified
    assert rows(strategies.by_cells(frame, asked, cells, Form.ROWS)) == notified


@pytest.mark.slow
def test_a_workload_gets_the_answers_of_the_plain_command(spark: SparkSession, tmp_path: Path) -> None:
    rows = made.drawn(11, subscriptions=600, events=100)
    made.write(tmp_path, subscriptions=rows["subscriptions"], events=rows["events"])
    said = CliRunner().invoke(app, ["match", "--workload", str(tmp_path)])
    wanted = sorted((line["event"], line["matches"]) for line in map(json.loads, said.stdout.splitlines()))
    assert sum(len(ids) for _, ids in wanted) > 300
    subscriptions = made.table("subscriptions", rows["subscriptions"])
    events = spark.createDataFrame(made.table("events", rows["events"])).repartition(3)
    file = tmp_path / "held"
    files.write(file, *asking.image(asking.subscriptions_of(subscriptions, made.DIMENSIONS)))
    assert lists(strategies.by_index(events, str(file), Form.LISTS)) == wanted
    space = Space.of({(name,): Field((name,), Type.INT, (0, made.SPAN - 1)) for name in made.DIMENSIONS})
    asked = spark.createDataFrame(subscriptions).repartition(2)
    cells = Cells(space, 5, made.DIMENSIONS, parts={3: 2})
    assert lists(strategies.by_cells(events, asked, cells, Form.LISTS)) == wanted
