"""Interests and subscriptions: Spark makes the rows that their twins make, on any number of partitions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.workload import engines
from tests.workload import models
from tidings.language.filters import parse
from tidings.pipeline.workload import chunks, interests, subscriptions
from tidings.pipeline.workload.twin import interests as plain_interests
from tidings.pipeline.workload.twin import subscriptions as plain
from tidings.records import workload as tables
from tidings.workload.model import Model

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def full(dimensions: int = 2, subscriptions: int = 500) -> Model:
    """A model with all that can be asked of subscriptions."""
    return models.tiny(
        dimensions,
        sizes={"subscriptions": subscriptions},
        space={"perturbation": 0.4},
        clients={"subscriptions_each": 3},
        subscriptions={"assume": 0.3, "coming": 0.5, "lifetime_us": 3_600_000_000},
    )


def made(model: Model) -> pa.Table:
    return plain.rows(model, {tables.INTERESTS: interests.table(model)})


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_interests_are_those_of_a_plain_walk(dimensions: int) -> None:
    model = models.tiny(dimensions)
    assert interests.table(model).equals(plain_interests.rows(model, {}))


def test_each_interest_gets_what_it_was_allotted() -> None:
    model = models.tiny(2)
    found = made(model).to_pylist()
    assert [row["subscription"] for row in found] == list(range(int(model.allocated.sum())))
    boxes = Counter(
        tuple(row[f"{name}_{end}"] for name in ("subject", "language") for end in ("lo", "hi"))
        for row in found
    )
    expected: Counter[tuple[int, ...]] = Counter()
    for subject in range(model.members.shape[0]):
        for language in range(model.members.shape[1]):
            if count := int(model.allocated[subject, language].sum()):
                box = [
                    int(ends[axis][node])
                    for axis, node in enumerate((subject, language))
                    for ends in (model.lows, model.highs)
                ]
                expected[tuple(box)] += count
    assert boxes == expected


def test_every_client_of_a_region_has_its_share() -> None:
    model = full()
    clients = Counter(made(model)["client"].to_pylist())
    subscribed = model.allocated.reshape(-1, len(model.regions)).sum(axis=0)
    for region, count in enumerate(subscribed.tolist()):
        first = int(model.clients_first[region])
        shares = [clients[number] for number in range(first, first + -(-count // 3))]
        assert sum(shares) == count
        assert all(share == 3 for share in shares[:-1])


@given(st.integers(1, 10**7))
def test_a_stride_reaches_every_place(count: int) -> None:
    assert gcd(subscriptions.stride(count), count) == 1


@pytest.mark.parametrize("count", [1, 2, 2**32 - 1])
def test_a_stride_times_a_place_fits_into_64_bits(count: int) -> None:
    assert subscriptions.stride(count) * (count - 1) + count < 2**63


def test_a_filter_says_what_the_rectangle_says() -> None:
    model = full()
    for row in made(model).slice(0, 30).to_pylist():
        text = (
            f"subject BETWEEN {row['subject_lo']} AND {row['subject_hi']} "
            f"AND language BETWEEN {row['language_lo']} AND {row['language_hi']}"
        )
        assert row["where"] == text
        parse(text)


def test_perturbed_rectangles_stay_on_their_topic_and_in_order() -> None:
    model = full()
    owned = {row["topic"]: row for row in subscriptions.by_topic(model).to_pylist()}
    straight = {tuple(map(int, ends)) for ends in zip(model.lows[0], model.highs[0], strict=True)}
    found = made(model).to_pylist()
    for row in found:
        assert owned[row["topic"]]["topic_lo"] <= row["subject_lo"] <= row["subject_hi"]
        assert row["subject_hi"] <= owned[row["topic"]]["topic_hi"]
        assert 0 <= row["language_lo"] <= row["language_hi"] < model.spec.space.resolution
    assert sum((row["subject_lo"], row["subject_hi"]) in straight for row in found) < len(found) / 10


def test_subscriptions_come_and_go() -> None:
    model = full(subscriptions=5_000)
    found = made(model)
    end = model.start_us + model.spec.time.duration_us
    from_at = found["from_at"].to_numpy()
    assert from_at.min() == model.start_us
    assert from_at.max() < end
    assert np.mean(from_at > model.start_us) == pytest.approx(0.5, abs=0.04)
    gone = [row for row in found.to_pylist() if row["until_at"] is not None]
    assert all(row["from_at"] <= row["until_at"] < end for row in gone)
    # Of those that are there from the start almost none outlives a day of 24 mean lifetimes.
    lives = [row["until_at"] - row["from_at"] for row in gone if row["from_at"] == model.start_us]
    assert np.mean(lives) == pytest.approx(3_600_000_000, rel=0.1)
    assert np.mean([row["unknown"] == "assume" for row in found.to_pylist()]) == pytest.approx(0.3, abs=0.04)


def test_another_seed_gives_other_rows() -> None:
    model = full()
    other = replace(model, spec=replace(model.spec, seed=model.spec.seed + 1))
    assert not made(model)["subject_lo"].equals(made(other)["subject_lo"])


@pytest.mark.spark
@pytest.mark.parametrize("dimensions", [3, *(pytest.param(few, marks=pytest.mark.slow) for few in (1, 2))])
def test_spark_makes_the_rows_of_the_twin(spark: SparkSession, dimensions: int) -> None:
    model = full(dimensions) if dimensions > 1 else models.tiny(1)
    expected = made(model)
    for partitions in (1, 3, 16):
        frames = {
            name: spark.createDataFrame(table).repartition(partitions)
            for name, table in {
                tables.INTERESTS: interests.table(model),
                **subscriptions.STAGE.lookups(model),
            }.items()
        }
        found = subscriptions.STAGE.make(frames, model).toArrow()
        assert found.column_names == expected.column_names
        assert found.cast(expected.schema).sort_by("subscription").equals(expected)


@pytest.mark.spark
def test_what_is_never_null_has_no_place_for_nulls_though_files_do(spark: SparkSession) -> None:
    model = full()
    stage = subscriptions.STAGE
    table = interests.table(model)
    # As Spark reads it from files.
    read = table.cast(pa.schema([field.with_nullable(True) for field in table.schema]))
    frames = {tables.INTERESTS: read, **stage.lookups(model)}
    rows = stage.make({name: spark.createDataFrame(frame) for name, frame in frames.items()}, model)
    boxes = ["subject_lo", "subject_hi", "language_lo", "language_hi"]
    certain = {field.name for field in rows.schema if not field.nullable}
    assert certain >= {"subscription", "client", "topic", *boxes}


@pytest.mark.spark
def test_chunks_are_exploded_whole(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 7)
    engines.divide(monkeypatch, 5)
    model = models.tiny(2)
    frames = {
        name: spark.createDataFrame(table)
        for name, table in {
            tables.INTERESTS: interests.table(model),
            **subscriptions.STAGE.lookups(model),
        }.items()
    }
    found = subscriptions.STAGE.make(frames, model).toArrow()
    expected = made(model)
    assert found.cast(expected.schema).sort_by("subscription").equals(expected)
