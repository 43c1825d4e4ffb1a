"""A workload's folder becomes a table, the same by both ways, and the same as the plain command says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest
from typer.testing import CliRunner

from tests.records import workloads as made
from tidings.cli import app
from tidings.pipeline.match.choosing import Way
from tidings.pipeline.match.job import Job
from tidings.pipeline.match.ways import Form
from tidings.pipeline.tables import VERSIONS, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("way", list(Way))
def test_the_table_has_the_answers_of_the_plain_command(
    spark: SparkSession, tmp_path: Path, way: Way
) -> None:
    rows = made.drawn(12, subscriptions=300, events=60)
    texts = [
        made.subscription(1000, where="subject > 500 OR language = 3", subject=None, language=None),
        made.subscription(1001, topic="#", where="severity IS NOT NULL", subject=None, language=None),
    ]
    made.write(tmp_path, parts=3, subscriptions=[*rows["subscriptions"], *texts], events=rows["events"])
    said = CliRunner().invoke(app, ["match", "--workload", str(tmp_path)])
    wanted = sorted((line["event"], line["matches"]) for line in map(json.loads, said.stdout.splitlines()))
    job = Job(tmp_path, memory_bytes=20_000, cores=2, way=way)
    assert (job.choice.depth > 0) == (way is Way.CELLS)
    store = Store(tmp_path / "data")
    done = job.run(spark, store, Form.LISTS, master="local[2]")
    found = ds.dataset(store.path("matches"), format="parquet").to_table().to_pylist()
    assert done.rows == len(found) == 60
    assert sorted((row["event"], row["subscriptions"]) for row in found) == wanted
    assert not list((store.folder / VERSIONS).glob("match-*"))
