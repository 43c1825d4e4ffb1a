"""Sweeps: every setting once, in order, whatever the tasks; what fails says with which settings."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tidings.errors import InputError
from tidings.pipeline import sweep
from tidings.pipeline.tables import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = "tests.pipeline.test_sweep"
PACKAGE = Path(__file__).parent.parent
"""The package `tests`, which workers would not find by themselves."""


def thrown(settings: dict[str, Any]) -> dict[str, Any]:
    """A run that depends on its seed and on nothing else."""
    source = random.Random(settings["seed"])
    return {"mean": sum(source.random() for _ in range(settings["dice"])) / settings["dice"]}


def several(settings: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"at": at, "word": "é" if at else None, "share": at / 3} for at in range(settings["count"])]


def failing(settings: dict[str, Any]) -> dict[str, Any]:
    return {"inverse": 1 / settings["number"]}


def nested(_: dict[str, Any]) -> dict[str, Any]:
    return {"list": [1, 2]}


def test_a_grid_has_every_combination_with_the_last_changing_fastest() -> None:
    assert sweep.grid(brokers=[10, 20], seat=["centre", "median"]) == [
        {"brokers": 10, "seat": "centre"},
        {"brokers": 10, "seat": "median"},
        {"brokers": 20, "seat": "centre"},
        {"brokers": 20, "seat": "median"},
    ]


def test_a_seed_depends_on_the_sweep_and_the_place_unless_it_is_given() -> None:
    seeds = [one["seed"] for one in sweep.seeded([{"a": 1}, {"a": 1}, {"seed": 7}], 3)]
    assert seeds[2] == 7
    assert len({*seeds, *(one["seed"] for one in sweep.seeded([{}, {}], 4))}) == 5
    assert [one["seed"] for one in sweep.seeded([{}, {}], 3)] == seeds[:2]


def test_a_table_has_plain_settings_before_what_came_of_them() -> None:
    settings: list[dict[str, Any]] = [{"n": 1, "more": {"x": 1}}, {"n": 2}]
    made = sweep.table(settings, [[{"a": 1}, {"a": 2.5}], [{"b": "z"}]])
    assert made.to_pylist() == [
        {"n": 1, "a": 1.0, "b": None},
        {"n": 1, "a": 2.5, "b": None},
        {"n": 2, "a": None, "b": "z"},
    ]
    with pytest.raises(InputError, match="'a' of a sweep has values of several types"):
        sweep.table([{}, {}], [[{"a": 1}], [{"a": "x"}]])


def test_the_table_of_a_sweep_is_kept_with_what_it_was_made_of(tmp_path: Path) -> None:
    settings = sweep.grid(dice=[1, 2])
    made = sweep.table(settings, [[thrown(one)] for one in sweep.seeded(settings, 5)])
    store = Store(tmp_path)
    name = f"{HERE}:thrown"
    sweep.write(made, store, "dice", function=name, settings=settings, seed=5)
    assert pq.read_table(tmp_path / "dice").equals(made)
    assert store.made("dice").spec == {"function": name, "settings": settings, "seed": 5}
    with pytest.raises(InputError, match=r"'dice' is in .* already; --overwrite"):
        sweep.write(made, store, "dice", function=name, settings=settings)
    again = sweep.write(made, store, "dice", function=name, settings=settings, overwrite=True)
    assert (again.version, again.rows) == (2, 2)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("tests", "names no function"),
        ("nowhere.at.all:f", "cannot be found: No module named 'nowhere'"),
        (f"{HERE}:nothing", "cannot be found: module"),
        (f"{HERE}:HERE", "names no function"),
    ],
)
def test_a_function_that_is_not_there_is_refused_before_anything_starts(function: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        sweep.found(function)


@pytest.mark.spark
def test_results_do_not_depend_on_where_a_task_ran(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = sweep.grid(dice=[1, 2, 3, 10], turn=range(3))
    here = [thrown(one) for one in sweep.seeded(settings, 5)]
    for tasks in (1, 3, 100):
        monkeypatch.setattr(sweep, "TASKS_MAX", tasks)
        rows = sweep.run(spark, f"{HERE}:thrown", settings, seed=5, packages=[PACKAGE])
        assert rows == [[row] for row in here], f"{tasks} tasks"
    assert rows != sweep.run(spark, f"{HERE}:thrown", settings, seed=6, packages=[PACKAGE])


@pytest.mark.spark
def test_every_row_of_a_grid_is_a_task_of_its_own(spark: SparkSession) -> None:
    frame = sweep.asked(spark, sweep.seeded(sweep.grid(a=range(7)), 0))
    assert frame.columns == ["number", "settings"]
    parts = frame.selectExpr("number", "spark_partition_id() AS part").collect()
    assert sorted((row["number"], row["part"]) for row in parts) == [(at, at) for at in range(7)]


@pytest.mark.spark
def test_a_function_may_answer_with_several_rows_or_none(spark: SparkSession) -> None:
    settings = [{"count": 2}, {"count": 0}, {"count": 1}]
    rows = sweep.run(spark, f"{HERE}:several", settings, packages=[PACKAGE])
    assert rows == [several(one) for one in settings]
    assert json.dumps(rows[0][1]["share"]) == json.dumps(1 / 3)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("failing", r'failing fails with \{"seed": \d+, "number": 0\}: ZeroDivisionError'),
        ("nested", r"'list' is list; rows have numbers, strings and None"),
    ],
)
def test_a_run_that_fails_is_named_by_its_settings(spark: SparkSession, function: str, words: str) -> None:
    settings = [{"number": 3}, {"number": 0}]
    with pytest.raises(InputError, match=words):
        sweep.run(spark, f"{HERE}:{function}", settings, packages=[PACKAGE])
