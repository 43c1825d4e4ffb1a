"""The experiment of the paper on delay bounds and bandwidth: its smallest run, its claims, its page."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from papers.qos import experiment, setting
from papers.qos.setting import Setting
from tidings.errors import InputError
from tidings.pipeline import sweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = {
    "peers": "8",
    "cycles": "4",
    "quiet": "30",
    "rest": "9",
    "events": "4",
    "depth_most": "4",
    "delay_most": "40",
}


@pytest.fixture(scope="module")
def claims(root: Path) -> list[dict[str, Any]]:
    text = (root / "papers" / "qos" / "claims.toml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["claim"]
    return found


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    tasks = experiment.tasks(list(experiment.FIGURES), True, 1, 0, TINY)
    return [row for task in tasks for row in experiment.run(task)]


@pytest.fixture(scope="module")
def concluded(rows: list[dict[str, Any]]) -> Any:
    return experiment.conclude(rows)


def test_the_smallest_run_has_every_number_that_a_claim_is_about(
    concluded: Any, claims: list[dict[str, Any]]
) -> None:
    assert {claim["number"] for claim in claims} - set(concluded[1]) == set()


def test_every_figure_has_a_table_and_a_plot(concluded: Any, tmp_path: Path) -> None:
    tables, _ = concluded
    assert set(tables) == {"by_run", "runs", "rest", *(f"figure{name}" for name in experiment.FIGURES)}
    plots = experiment.plot(tables, tmp_path)
    assert sorted(plot.name for plot in plots) == [f"figure{name}.png" for name in sorted(experiment.FIGURES)]
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in plots)


def test_every_run_is_judged_in_quiet(rows: list[dict[str, Any]]) -> None:
    runs = [row for row in rows if row["kind"] == "run" and row["what"] == "run"]
    quiet = [row for row in rows if row["kind"] == "run" and row["name"] == "photographs in quiet"]
    assert len(quiet) == len(runs) > 50
    assert min(row["count"] for row in quiet) >= 8


def test_runs_that_did_not_come_to_rest_are_counted_by_form(concluded: Any) -> None:
    tables, numbers = concluded
    restless = {
        form: sum(row["restless"] for row in tables["rest"] if row["algorithm"] == form)
        for form in experiment.ALGORITHMS
    }
    assert numbers["runs"] == sum(row["runs"] for row in tables["rest"])
    assert sum(restless.values()) == round(numbers["restless"] * numbers["runs"] / 100)
    repaired = sum(row["runs"] for row in tables["rest"] if row["algorithm"] != "printed")
    count = restless["fed"] + restless["ours"]
    assert count == round(numbers["restless_repaired"] * repaired / 100)


def test_what_each_run_came_to_is_there_beside_the_means() -> None:
    tasks = experiment.tasks(["5g"], True, 2, 0, TINY)
    tables, _ = experiment.conclude([row for task in tasks for row in experiment.run(task)])
    whole = [row for row in tables["by_run"] if row["kind"] == "waste"]
    assert {point["runs"] for point in tables["figure5g"]} == {2}
    for point in tables["figure5g"]:
        own = [
            row["notified"]
            for row in whole
            if (row["scenario"], row["algorithm"], row["accepted"])
            == (point["scenario"], point["algorithm"], point["accepted"])
        ]
        assert len(own) == point["runs"]
        assert sum(own) / len(own) == pytest.approx(point["notified"])


def test_points_that_are_the_same_run_are_run_once() -> None:
    tasks = experiment.tasks(list(experiment.FIGURES), False, 1, 0, {})
    assert len(tasks) == len({repr((task["run"], task["course"])) for task in tasks})
    shared = [{point["kind"] for point in task["points"]} for task in tasks if len(task["points"]) > 1]
    assert {"growth", "churn"} in shared
    assert {"size", "waste"} in shared


def test_rows_are_flat_and_plain(rows: list[dict[str, Any]]) -> None:
    assert {type(value) for row in rows for value in row.values()} <= {int, float, str}


def test_a_figure_alone_has_its_numbers(claims: list[dict[str, Any]]) -> None:
    """Each figure may be asked for alone, and its claims must then be judged."""
    for figure in ("5a", "5b", "5h"):
        tasks = experiment.tasks([figure], True, 1, 0, TINY)
        _, numbers = experiment.conclude([row for task in tasks for row in experiment.run(task)])
        assert {claim["number"] for claim in claims if claim["figure"] == figure} <= set(numbers)


def test_claims_have_bounds_and_names_of_their_own(claims: list[dict[str, Any]]) -> None:
    ids = [claim["id"] for claim in claims]
    assert len(ids) == len(set(ids))
    assert all("least" in claim or "most" in claim for claim in claims)
    assert {claim["figure"] for claim in claims} == {*experiment.FIGURES, "any"}


def test_the_page_has_every_claim_and_every_setting(root: Path, claims: list[dict[str, Any]]) -> None:
    page = (root / "papers" / "qos" / "README.md").read_text(encoding="utf-8")
    assert [claim["id"] for claim in claims if f"`{claim['id']}`" not in page] == []
    names = [field.name for field in fields(Setting) if field.name != "seed"]
    assert [name for name in names if not re.search(rf"`{name}`", page)] == []


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"q": "1"}, "there is no 'q'; there are peers, publishers,"),
        ({"peers": "many"}, "give a number"),
        ({"peers": "1"}, "peers cannot be 1 in a run of peers; give 2 to"),
        ({"values": "100"}, "values cannot be 100 in a workload of peers; give a power of two"),
        ({"allowed": "2"}, "allowed cannot be 2.0 in a run of peers; give a share"),
    ],
)
def test_what_cannot_be_set_is_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(InputError, match=text):
        setting.read(0, given)


@pytest.mark.spark
def test_tasks_of_spark_give_the_same_rows(spark: SparkSession, root: Path) -> None:
    tasks = experiment.tasks(["5a"], True, 1, 0, TINY)[:2]
    rows = sweep.run(spark, "papers.qos.experiment:run", tasks, packages=[root / "papers"])
    assert rows == [experiment.run(task) for task in tasks]
