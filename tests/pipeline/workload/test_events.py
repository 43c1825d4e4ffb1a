"""Events: the same rows from Spark and from numpy, at the rates that were asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats

from tests.judges import workload_events as plain
from tests.pipeline.workload.engines import assert_same
from tests.workload import models
from tidings.pipeline.workload import events
from tidings.workload import arrivals, smoothing
from tidings.workload.model import Model

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERYTHING: dict[str, Any] = {
    "events": {"drift": 0.7, "flashes": 4, "flash_share": 0.2, "smoothing": 1.5},
    "reports": {"details": 2},
}


def fields(table: pa.Table) -> dict[str, NDArray[np.int64]]:
    told = table["fields"].combine_chunks()
    return {one.name: told.field(one.name).to_numpy() for one in told.type}


def many(**changes: Any) -> tuple[Model, pa.Table]:
    model = models.tiny(2, sizes={"events": 100_000}, events=changes)
    return model, plain.rows(model, {})


@pytest.mark.spark
@pytest.mark.parametrize("dimensions", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_spark_makes_the_rows_of_the_twin(
    spark: SparkSession, dimensions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models.tiny(dimensions, **EVERYTHING)
    assert_same(spark, events.STAGE, model, {}, plain.rows(model, {}), monkeypatch)


@pytest.mark.spark
def test_no_events_are_an_empty_table(spark: SparkSession) -> None:
    model = models.tiny(2, sizes={"events": 0})
    frames = {name: spark.createDataFrame(one) for name, one in events.STAGE.lookups(model).items()}
    found = events.STAGE.make(frames, model).toArrow()
    assert found.num_rows == 0
    assert found.cast(events.schema(model)).equals(plain.rows(model, {}))


def test_numbers_are_dense_and_stories() -> None:
    model = models.tiny(2, **EVERYTHING)
    found = plain.rows(model, {})
    assert found["event"].to_pylist() == list(range(int(arrivals.draw(model).count.sum())))
    assert fields(found)["story"].tolist() == found["event"].to_pylist()
    assert found.schema.equals(events.schema(model))


def test_an_event_lies_in_the_piece_of_time_that_counted_it() -> None:
    model = models.tiny(2, **EVERYTHING)
    arrived = arrivals.draw(model)
    found = plain.rows(model, {})
    piece = np.repeat(np.arange(len(arrived.count)), arrived.count)
    since = found["at"].to_numpy() - arrived.start_us[piece]
    assert (since >= 0).all()
    assert (since < arrived.length_us[piece]).all()


def test_events_come_from_clients_of_their_region() -> None:
    model = models.tiny(2, **EVERYTHING)
    arrived = arrivals.draw(model)
    region = np.repeat(arrived.region, arrived.count)
    place = plain.rows(model, {})["client"].to_numpy() - model.clients_first[region]
    assert (place >= 0).all()
    assert (place < model.clients_count[region]).all()
    assert len(np.unique(place[region == 0])) > model.clients_count[0] / 2


def test_each_base_interest_has_events_in_proportion_to_its_messages() -> None:
    """Without smoothing an event lies in its interest's rectangle; counts are compared by chi-square."""
    model, found = many(smoothing=0.0, diurnal=0.0)
    told = fields(found)
    leaves = []
    for axis, hierarchy in enumerate(model.dimensions):
        nodes = list(hierarchy.leaves)
        place = np.searchsorted(model.lows[axis][nodes], told[hierarchy.name], side="right") - 1
        assert (told[hierarchy.name] <= model.highs[axis][nodes][place]).all()
        leaves.append(place)
    region = np.searchsorted(model.clients_first, found["client"].to_numpy(), side="right") - 1
    counted = np.zeros(model.messages.shape)
    np.add.at(counted, (*leaves, region), 1)
    assert (counted[model.messages == 0] == 0).all()
    expected = model.messages * (found.num_rows / model.messages.sum())
    sure = expected > 5
    square = ((counted - expected)[sure] ** 2 / expected[sure]).sum()
    low, high = stats.chi2.ppf([1e-5, 1 - 1e-5], sure.sum() - 1)
    assert low < square < high


def test_places_have_the_smoothed_density() -> None:
    model, found = many(smoothing=1.0, diurnal=0.0)
    told = fields(found)
    edges = [np.linspace(0, 10**9, 13).astype(np.int64)] * 2
    expected = smoothing.density(model, edges).sum(axis=2)
    expected *= found.num_rows / expected.sum()
    counted, _, _ = np.histogram2d(told["subject"], told["language"], bins=edges)
    sure = expected > 5
    square = ((counted - expected)[sure] ** 2 / expected[sure]).sum()
    low, high = stats.chi2.ppf([1e-5, 1 - 1e-5], sure.sum() - 1)
    assert low < square < high
    assert (counted[expected < 1e-9] == 0).all()


def test_an_event_that_leaves_its_interval_has_the_topic_of_where_it_lies() -> None:
    model, found = many(smoothing=8.0)
    subject, topic = fields(found)["subject"], np.array(found["topic"].to_pylist())
    for top in models.SUBJECT.children[0]:
        inside = (model.lows[0][top] <= subject) & (subject <= model.highs[0][top])
        assert set(topic[inside]) == {model.topics[top]}
    assert set(topic) == set(models.TOPICS.values()) - {"subject/+"}


def test_the_hours_of_a_region_have_events_as_the_sun_has_it() -> None:
    model, found = many(diurnal=0.8)
    region = np.searchsorted(model.clients_first, found["client"].to_numpy(), side="right") - 1
    hour = (found["at"].to_numpy() - model.start_us) // 3_600_000_000
    starts = model.start_us + np.arange(24) * 3_600_000_000
    light = arrivals.daylight(model, starts, starts + 3_600_000_000)
    for one in range(3):
        counted = np.bincount(hour[region == one], minlength=24)
        expected = counted.sum() * light[:, one] / 24
        assert ((counted - expected) ** 2 / expected).sum() < stats.chi2.ppf(1 - 1e-5, 23)


def test_offsets_in_a_cell_are_even() -> None:
    model, found = many(cell_us=3_600_000_000, diurnal=0.0)
    minute = (found["at"].to_numpy() - model.start_us) // 60_000_000 % 60
    assert stats.chisquare(np.bincount(minute, minlength=60)).pvalue > 1e-5


def test_most_events_are_mild() -> None:
    _, found = many()
    told = fields(found)
    shares = np.bincount(told["severity"], minlength=6)[1:] / found.num_rows
    np.testing.assert_allclose(shares, [0.5, 0.25, 0.15, 0.07, 0.03], atol=0.008)
    assert told["detail_1"].min() == 0
    assert told["detail_1"].max() == 99
    assert stats.chisquare(np.bincount(told["detail_1"], minlength=100)).pvalue > 1e-5


def test_another_seed_gives_other_events() -> None:
    model = models.tiny(2)
    other = replace(model, spec=replace(model.spec, seed=8))
    assert not plain.rows(model, {}).equals(plain.rows(other, {}))
