"""Running stages: in the order of what they read, from what is there, and told while it goes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidings
from tests.pipeline import small
from tidings.errors import InputError, SetupError
from tidings.pipeline import running
from tidings.pipeline.stages import Stage
from tidings.pipeline.tables import TABLES, Made, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    spark: SparkSession, store: Store, *stages: Stage, count: int = 25, overwrite: bool = False
) -> list[Made]:
    model = small.Model(small.Spec(count=count))
    return running.run(
        spark,
        stages or small.STAGES,
        model,
        store,
        overwrite=overwrite,
        tables=small.TABLES,
        master="local[2]",
    )


def stage(name: str, *reads: str) -> Stage:
    return replace(small.DIGITS_STAGE, table=name, reads=reads)


def test_a_stage_runs_after_those_it_reads_and_otherwise_as_given() -> None:
    stages = [stage("d", "b", "c"), stage("c", "a"), stage("b", "a"), stage("a", "elsewhere")]
    assert [one.table for one in running.ordered(stages)] == ["a", "c", "b", "d"]


def test_stages_in_a_circle_are_a_bug() -> None:
    with pytest.raises(AssertionError, match="in a circle"):
        running.ordered([stage("a", "b"), stage("b", "a")])


def test_a_stage_that_is_not_there_is_said_with_those_that_are() -> None:
    known = {one.table: one for one in small.STAGES}
    with pytest.raises(InputError, match="there is no stage 'digit'; there are digits, numbers"):
        running.chosen(["numbers", "digit"], known)
    assert [one.table for one in running.chosen(["digits", "numbers", "digits"], known)] == [
        "numbers",
        "digits",
    ]


def test_every_table_has_its_stage_and_every_stage_reads_tables() -> None:
    stages = running.registry()
    assert sorted(stages) == sorted(TABLES)
    assert {read for one in stages.values() for read in one.reads} <= set(TABLES)
    made: set[str] = set()
    for one in stages.values():
        assert set(one.reads) <= made
        made.add(one.table)


def test_without_spark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    table = replace(TABLES["brokers"], stage="tidings_absent.brokers")
    with pytest.raises(SetupError, match=r"needs tidings_absent, .*pip install '\.\[spark\]'"):
        running.registry({"brokers": table})


@pytest.mark.spark
def test_stages_write_what_they_make_and_tables_say_from_what(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path)
    numbers, digits = run(spark, store)
    assert (numbers.table, numbers.rows, digits.table, digits.rows) == ("numbers", 25, "digits", 10)
    assert sorted(pq.read_table(tmp_path / "digits").to_pylist(), key=lambda row: row["digit"]) == [
        {"digit": digit, "count": 3 if digit < 5 else 2} for digit in range(10)
    ]
    assert store.made("digits") == digits
    assert (digits.seed, digits.spec["count"], digits.reads) == (3, 25, {"numbers": 1})
    assert digits.versions["tidings"] == tidings.__version__
    assert digits.versions["spark"] == spark.version


@pytest.mark.spark
def test_what_is_read_may_be_there_from_an_earlier_run(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path)
    run(spark, store, small.NUMBERS_STAGE)
    (digits,) = run(spark, store, small.DIGITS_STAGE)
    assert digits.rows == 10


@pytest.mark.spark
def test_a_table_that_is_read_and_not_there_is_said_before_any_work(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"'digits' reads the table 'numbers', which is not in .*run it too"):
        run(spark, Store(tmp_path), small.DIGITS_STAGE)
    assert Store(tmp_path).names() == []


@pytest.mark.spark
def test_tables_of_two_specs_are_not_mixed(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path)
    run(spark, store)
    with pytest.raises(InputError, match=r"made by another spec: count was 25, is 30\. .*--overwrite"):
        run(spark, store, small.DIGITS_STAGE, count=30, overwrite=True)
    assert [one.rows for one in run(spark, store, count=30, overwrite=True)] == [30, 10]


@pytest.mark.spark
def test_two_contents_of_one_file_are_two_specs(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path)

    def made(digest: str, *stages: Stage) -> None:
        model = small.Model(files={"counts.file": digest})
        running.run(spark, stages, model, store, tables=small.TABLES, overwrite=True)

    made("one", *small.STAGES)
    with pytest.raises(InputError, match=r"made by another spec: files.counts.file was 'one', is 'two'"):
        made("two", small.DIGITS_STAGE)


@pytest.mark.spark
def test_nothing_is_done_if_one_of_the_tables_is_there(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path)
    run(spark, store, small.NUMBERS_STAGE)
    with pytest.raises(InputError, match=r"'numbers' is in .* already"):
        run(spark, store)
    assert store.names() == ["numbers"]


@pytest.mark.spark
def test_what_a_later_stage_refuses_of_the_plain_values_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    def refuse(_: small.Model) -> dict[str, pa.Table]:
        raise InputError("a topology that is not there")

    with pytest.raises(InputError, match="not there"):
        run(spark, Store(tmp_path), small.NUMBERS_STAGE, replace(small.DIGITS_STAGE, lookups=refuse))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_stages_finished_before_one_that_fails_stay(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path)
    failing = replace(
        small.DIGITS_STAGE,
        make=lambda frames, _: frames["numbers"].selectExpr("raise_error('no') AS digit", "1L AS count"),
    )
    with pytest.raises(AssertionError, match="stage digits made the columns"):
        run(spark, store, small.NUMBERS_STAGE, failing)
    assert store.names() == ["numbers"]
    run(spark, store, overwrite=True)
    assert store.names() == ["digits", "numbers"]


@pytest.mark.spark
def test_progress_is_told_from_start_to_end(spark: SparkSession, tmp_path: Path) -> None:
    steps: list[running.Step] = []
    running.run(
        spark, small.STAGES, small.Model(), Store(tmp_path), tables=small.TABLES, progress=steps.append
    )
    outline = [step for step in steps if not isinstance(step, running.Moved)]
    assert outline[0] == running.Started("numbers", 1, 2)
    assert outline[2] == running.Started("digits", 2, 2)
    assert [step.made.rows for step in outline if isinstance(step, running.Finished)] == [25, 10]
    assert all(0 <= step.tasks_done <= step.tasks for step in steps if isinstance(step, running.Moved))


@pytest.mark.spark
def test_a_lookup_with_the_name_of_a_table_is_a_bug(spark: SparkSession, tmp_path: Path) -> None:
    double = replace(small.DIGITS_STAGE, lookups=lambda _: {"numbers": pa.table({"number": [1]})})
    with pytest.raises(AssertionError, match="two tables named 'numbers'"):
        run(spark, Store(tmp_path), small.NUMBERS_STAGE, double)


def test_specs_are_compared_key_by_key() -> None:
    had = {"seed": 1, "sizes": {"events": 5, "brokers": 2}, "gone": 1}
    has = {"seed": 1, "sizes": {"events": 6, "brokers": 2}, "new": [1]}
    assert running.difference(had, has) == [
        "sizes.events was 5, is 6",
        "gone was 1, is None",
        "new was None, is [1]",
    ]
