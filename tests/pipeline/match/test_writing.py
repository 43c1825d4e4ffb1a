"""Answers that workers write are those that Spark would."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.language.samples import FIELDS
from tests.pipeline.match import samples
from tidings.pipeline.match import files, strategies, writing
from tidings.pipeline.match import subscriptions as asking
from tidings.pipeline.match.strategies import Form

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    found = frame.toArrow()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.slow
@pytest.mark.spark
def test_every_form_has_the_rows_that_the_index_gives(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(4)
    subscriptions, events = samples.some_subscriptions(rng, 60), samples.some_events(rng, 90)
    file = tmp_path / "held"
    files.write(file, *asking.image(asking.subscriptions_of(subscriptions, (), FIELDS)))
    frame = spark.createDataFrame(events).repartition(3)
    for form in Form:
        folder = tmp_path / form
        writing.write(frame, str(file), form, folder)
        names = sorted(path.name for path in folder.iterdir())
        assert 1 <= len(names) <= 3
        assert all(name.startswith("part-") and name.endswith(".parquet") for name in names)
        told = strategies.by_index(frame, str(file), form)
        written = spark.read.parquet(str(folder))
        assert written.dtypes == told.dtypes
        assert rows(written) == rows(told) != []


@pytest.mark.spark
def test_where_nothing_happened_there_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "held"
    asked = pa.table({"subscription": [1], "where": ["i > 3"]})
    files.write(file, *asking.image(asking.subscriptions_of(asked, ())))
    frame = spark.createDataFrame(samples.some_events(random.Random(1), 2)).where("event > 5")
    writing.write(frame, str(file), Form.LISTS, tmp_path / "out")
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.dtypes == [("event", "bigint"), ("subscriptions", "array<bigint>")]
    assert found.count() == 0


@pytest.mark.parametrize(("form", "sizes"), [(Form.LISTS, [2, 2, 1]), (Form.ROWS, [6, 6, 3])])
def test_row_groups_have_about_as_many_numbers_each(
    monkeypatch: pytest.MonkeyPatch, form: Form, sizes: list[int]
) -> None:
    monkeypatch.setattr(writing, "GROUP_VALUES", 5)
    lists = [
        pa.record_batch([pa.array([event]), pa.array([[1, 2, 3]])], ["event", "subscriptions"])
        for event in range(5)
    ]
    groups = list(writing._groups(iter(lists), form))
    assert [group.num_rows for group in groups] == sizes
    if form is Form.ROWS:
        assert pa.concat_tables(groups).column("event").to_pylist() == [at // 3 for at in range(15)]
