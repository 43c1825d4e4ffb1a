"""Random numbers are hashes: the same in numpy and in Spark, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidings.workload import hashing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_key_tells_seed_table_and_column_apart() -> None:
    keys = {hashing.key(seed, table, column) for seed in (1, 2) for table in "ab" for column in "xy"}
    assert len(keys) == 8
    assert hashing.key(1, "a", "bc") != hashing.key(1, "ab", "c")
    assert hashing.key(7, "subscriptions", "unknown") == 6737278845878484673


def test_fractions_fill_the_interval_evenly() -> None:
    found = hashing.fraction(hashing.draw(3, np.arange(100_000)))
    assert found.min() >= 0
    assert found.max() < 1
    counts = np.histogram(found, 20, (0, 1))[0]
    assert np.abs(counts - 5_000).max() < 5 * np.sqrt(5_000)


@pytest.mark.spark
def test_spark_draws_the_same(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from tidings.pipeline import columns

    key = hashing.key(7, "table", "column")
    ids = np.concatenate([np.arange(500), -np.arange(500), np.array([2**63 - 1, -(2**63)])])
    frame = spark.createDataFrame([(int(one),) for one in ids], "id bigint")
    drawn = columns.draw(key, F.col("id"), F.col("id"))
    found = frame.select(
        "id", drawn.alias("drawn"), columns.fraction(drawn).alias("f"), columns.below(drawn, 17).alias("b")
    ).toArrow()
    expected = hashing.draw(key, found["id"].to_numpy(), found["id"].to_numpy())
    assert (found["drawn"].to_numpy() == expected).all()
    assert (found["f"].to_numpy() == hashing.fraction(expected)).all()
    assert (found["b"].to_numpy() == hashing.below(expected, 17)).all()
