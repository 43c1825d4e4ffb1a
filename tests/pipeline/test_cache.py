"""What is kept for several readers has no more partitions than its data is for, on any master."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from tidings.pipeline.cache import COALESCED, cached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.mark.parametrize("before", [None, "false"])
def test_what_is_kept_has_few_partitions_where_shuffles_may_have_many(
    spark: SparkSession, before: str | None
) -> None:
    usual = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, "50")
    if before is not None:
        spark.conf.set(COALESCED, before)
    has = spark.conf.get(COALESCED, None)
    try:
        with cached(spark.range(100).groupBy((F.col("id") % 10).alias("digit")).count()) as kept:
            assert spark.conf.get(COALESCED, None) == has
            assert kept.count() == 10
            assert kept.rdd.getNumPartitions() <= 2
    finally:
        spark.conf.set(PARTITIONS, usual or "2")
        spark.conf.unset(COALESCED)
