"""Requests: the same rows from Spark and from numpy, each by a subscriber and about the past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from tests.judges import workload_requests as plain
from tests.pipeline.workload.engines import assert_same
from tests.workload import models
from tidings.language.filters import parse
from tidings.pipeline.workload import interests, requests
from tidings.pipeline.workload.twin import subscriptions as plain_subscriptions
from tidings.records import workload as tables
from tidings.workload.model import Model

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMING = {"coming": 0.5, "lifetime_us": 3_600_000_000}


def both(model: Model) -> tuple[pa.Table, pa.Table]:
    asked = plain_subscriptions.rows(model, {tables.INTERESTS: interests.table(model)})
    return asked, plain.rows(model, {tables.SUBSCRIPTIONS: asked})


def many(**sections: Any) -> Model:
    return models.tiny(2, **{"sizes": {"requests": 20_000}, "subscriptions": COMING, **sections})


@pytest.mark.spark
@pytest.mark.parametrize(
    ("where", "broadcast"), [(True, 1_000_000), pytest.param(False, 10, marks=pytest.mark.slow)]
)
def test_spark_makes_the_rows_of_the_twin(
    spark: SparkSession, where: bool, broadcast: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "BROADCAST_MAX", broadcast)
    model = models.tiny(2, subscriptions={**COMING, "where": where})
    asked, expected = both(model)
    assert expected.num_rows == 200
    assert_same(spark, requests.STAGE, model, {tables.SUBSCRIPTIONS: asked}, expected, monkeypatch)


def test_a_request_is_of_a_subscription_while_it_is_there() -> None:
    model = many()
    asked, found = both(model)
    end = model.start_us + model.spec.time.duration_us
    lives: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for row in asked.to_pylist():
        life = (row["from_at"], row["until_at"] or end)
        lives.setdefault((row["client"], row["topic"], row["where"]), []).append(life)
    for row in found.to_pylist():
        mine = lives[row["client"], row["topic"], row["where"]]
        assert any(begin <= row["at"] <= max(begin, until - 1) for begin, until in mine)


def test_requests_are_spread_over_all_subscriptions() -> None:
    asked, found = both(many())
    assert set(found["client"].to_pylist()) == set(asked["client"].to_pylist())


def test_what_is_asked_for_is_past_and_as_long_as_asked_on_average() -> None:
    _, found = both(many(requests={"span_us": 1_800_000_000}))
    at, since, until = (found[name].to_numpy() for name in ("at", "since", "until"))
    assert (since <= until).all()
    assert (until <= at).all()
    # Five standard deviations of an exponential law.
    assert (until - since).mean() == pytest.approx(1_800_000_000, rel=5 / np.sqrt(20_000))
    assert (until == at).mean() == pytest.approx(0.5, abs=0.02)


def test_a_filter_that_is_not_written_is_made_of_the_rectangle() -> None:
    _, written = both(many())
    asked, made = both(many(subscriptions={**COMING, "where": False}))
    assert asked["where"].null_count == asked.num_rows
    assert made.equals(written)
    for text in sorted(set(made["where"].to_pylist()))[:20]:
        parse(text)


@pytest.mark.parametrize("sizes", [{"requests": 0}, {"subscriptions": 0}])
def test_without_subscriptions_or_requests_there_are_none(sizes: dict[str, int]) -> None:
    model = models.tiny(2, sizes=sizes)
    assert both(model)[1].num_rows == 0
    assert requests.lookups(model)[requests.NUMBERS].num_rows == 0
