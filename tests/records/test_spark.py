"""Spark reads the folder of a running network: closed segments, with our types."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.records.samples import WHOLE, row, run
from tidings.records.segments import SegmentWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_spark_reads_closed_segments_and_passes_over_open_ones(spark: SparkSession, tmp_path: Path) -> None:
    for broker in ("b1", "Odd id/2"):
        writer = SegmentWriter(tmp_path, broker, 1)
        writer.add(row(1, broker=broker))
        writer.close()
    writer = SegmentWriter(tmp_path, "b3", 3)
    writer.add(WHOLE)
    writer.close()
    (tmp_path / ".b1+00000000000000000001+0000000001.parquet.open").write_bytes(b"PAR1 half")
    rows = spark.read.parquet(str(tmp_path)).orderBy("broker", "boot").collect()
    assert [(one["broker"], one["n"], one["receivers"]) for one in rows] == [
        ("Odd id/2", 1, []),
        ("b1", 1, []),
        ("b1", 9, ["b3", "b4"]),
    ]
    assert rows[2].asDict() == {
        **{name: getattr(WHOLE, name) for name in WHOLE.__struct_fields__},
        "kind": "forwarded",
        "receivers": ["b3", "b4"],
    }


def test_spark_reads_runs_as_records(spark: SparkSession, tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "b1", 1)
    runs = [run(0, 3_000, [("αθήνα", "s2")]), run(3_000, 2, [("s3",), ()])]
    for one in runs:
        writer.add(one)
    writer.close()
    rows = spark.read.parquet(str(tmp_path)).orderBy("n").select("n", "at", "message", "receivers").collect()
    assert [tuple(row) for row in rows] == [
        (one.n, one.at, one.message, list(one.receivers)) for run in runs for one in run.records()
    ]
