"""Spark with another number of partitions, wherever they come from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def partitions(spark: SparkSession, count: int) -> Iterator[None]:
    """Shuffles have so many partitions, and none are put together."""
    changed = {
        "spark.sql.shuffle.partitions": str(count),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.files.maxPartitionBytes": "64k" if count > 1 else "128m",
        "spark.sql.files.openCostInBytes": "1k",
    }
    before = {name: spark.conf.get(name) for name in changed}
    for name, value in changed.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            assert was is not None, f"{name} has a value"
            spark.conf.set(name, was)
