"""Both engines side by side: a stage in Spark on any number of partitions, and what its twin makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tidings.pipeline.stages import Stage
from tidings.pipeline.workload import chunks
from tidings.workload.model import Model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = (1, 3, 16)


def divide(monkeypatch: pytest.MonkeyPatch, partitions: int) -> None:
    """Have chunks dealt out into so many tasks, however few rows there are."""

    def tasks(frame: DataFrame, rows: int) -> int:
        return partitions

    monkeypatch.setattr(chunks, "tasks", tasks)


def assert_same(
    spark: SparkSession,
    stage: Stage,
    model: Model,
    reads: Mapping[str, pa.Table],
    expected: pa.Table,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stage makes the expected rows, bit for bit and as often, whatever the number of partitions."""
    order = [(name, "ascending") for name in expected.column_names if name != "fields"]
    for partitions in PARTITIONS:
        divide(monkeypatch, partitions)
        monkeypatch.setattr(chunks, "CHUNK", 50_000 if partitions == 1 else 13)
        frames = {
            name: spark.createDataFrame(table).repartition(partitions)
            for name, table in {**reads, **stage.lookups(model)}.items()
        }
        found = stage.make(frames, model).toArrow()
        assert found.column_names == expected.column_names
        assert found.cast(expected.schema).sort_by(order).equals(expected.sort_by(order)), partitions
