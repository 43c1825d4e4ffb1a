"""The experiment of the workload paper: its smallest run, its claims, its page."""

from __future__ import annotations

import re
import tomllib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papers.workload import experiment, setting, space
from papers.workload.setting import Setting
from tidings.errors import InputError
from tidings.workload.hierarchies import from_nested
from tidings.workload.intervals import intervals

PLOTTED = {"figure1", "figure2", "figure3", "figure4", "figure5", "figure6", "sampling"}


@pytest.fixture(scope="module")
def claims(root: Path) -> list[dict[str, Any]]:
    text = (root / "papers" / "workload" / "claims.toml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["claim"]
    return found


@pytest.fixture(scope="module")
def concluded() -> tuple[dict[str, list[dict[str, Any]]], dict[str, float]]:
    tasks = experiment.tasks(list(experiment.FIGURES), True, 1, 0, {})
    return experiment.conclude([row for task in tasks for row in experiment.run(task)])


def test_every_claim_holds_in_the_smallest_run_but_for_those_known_not_to(
    concluded: Any, claims: list[dict[str, Any]]
) -> None:
    numbers = concluded[1]
    wrong = [
        claim["id"]
        for claim in claims
        if claim["figure"] != "any"
        and not claim.get("least", -np.inf) <= numbers[claim["number"]] <= claim.get("most", np.inf)
    ]
    assert wrong == [claim["id"] for claim in claims if "known" in claim]


def test_rows_are_plain_values(concluded: Any) -> None:
    kinds = {type(value) for table in concluded[0].values() for row in table for value in row.values()}
    assert kinds <= {int, float, str}


def test_tables_with_a_picture_are_drawn(concluded: Any, tmp_path: Path) -> None:
    tables, _ = concluded
    assert set(tables) >= PLOTTED
    few = {name: tables[name] for name in ("figure4", "sampling", "removed")}
    assert [plot.name for plot in experiment.plot(few, tmp_path)] == ["figure4.png", "sampling.png"]


@pytest.mark.slow
def test_every_picture_is_drawn(concluded: Any, tmp_path: Path) -> None:
    plots = experiment.plot(concluded[0], tmp_path)
    assert {plot.stem for plot in plots} == PLOTTED
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in plots)


def test_a_quick_run_starts_no_spark() -> None:
    figures = [task["figure"] for task in experiment.tasks(list(experiment.FIGURES), True, None, 0, {})]
    assert figures == [name for name in experiment.FIGURES if name != "spark"]


@pytest.mark.slow
@pytest.mark.spark
def test_sparks_tables_are_those_of_one_process() -> None:
    (task,) = experiment.tasks(["spark"], False, 1, 0, {"subscriptions": "5000"})
    # In a process of its own, or it would end the Spark that other tests share.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        tables, numbers = experiment.conclude(pool.submit(experiment.run, task).result())
    assert numbers == {"spark_rows_differ": 0}
    assert {row["table"]: row["rows"] for row in tables["spark"]}["subscriptions"] == 5_000


def test_claims_have_bounds_and_names_of_their_own(claims: list[dict[str, Any]]) -> None:
    ids = [claim["id"] for claim in claims]
    assert len(ids) == len(set(ids))
    assert all("least" in claim or "most" in claim for claim in claims)
    assert {claim["figure"] for claim in claims} == {*experiment.FIGURES, "any"} - {"spark"}


def test_the_page_has_every_claim_and_every_setting(root: Path, claims: list[dict[str, Any]]) -> None:
    page = (root / "papers" / "workload" / "README.md").read_text(encoding="utf-8")
    assert [claim["id"] for claim in claims if f"`{claim['id']}`" not in page] == []
    assert [
        field.name
        for field in fields(Setting)
        if field.name != "seed" and not re.search(rf"`{field.name}`", page)
    ] == []


def test_what_cannot_be_set_is_refused() -> None:
    with pytest.raises(InputError, match="there is no 'q'; there are removed, p,"):
        setting.read(0, {"q": "1"})
    with pytest.raises(InputError, match="give a number"):
        setting.read(0, {"p": "much"})


def test_measures_see_what_is_wrong() -> None:
    tree = from_nested("subject", "all", {"a": ["b", "c"], "d": ["e", "f"]})
    low, high = intervals(tree, 100)
    checked, wrong = space.check_triples(tree, low, high, 1)
    assert checked > 0
    assert wrong == 0
    # Put the middle leaves closer to each other than to their own siblings.
    low[[3, 5]] = [40, 42]
    high[[3, 5]] = [41, 43]
    assert space.check_triples(tree, low, high, 1)[1] > 0


def test_variances_are_compared_for_pairs_of_nodes_in_every_region() -> None:
    trees = [from_nested(name, "all", {"a": ["b", "c"], "d": ["e"]}) for name in ("one", "other")]
    before = np.arange(1, 19).reshape(3, 3, 2)
    halved = (before / 2).astype(np.float64)
    ratios = space.variance_ratios(before, halved, trees, 1)
    assert np.allclose(ratios, 0.25)
    assert len(ratios) > 2
