"""The experiment of the Agele paper: its smallest run, its claims, its page."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from papers.agele import experiment, results
from papers.agele.setting import Setting

TINY = {"brokers": "40", "events": "8"}


def rows_of(*figures: str, quick: bool = True, runs: int = 1) -> list[dict[str, Any]]:
    """Rows by the gatherer with tree distances; brokers have a test of their own."""
    tasks = experiment.tasks(figures, quick, runs, 0, TINY)
    return [row for task in tasks if task.get("engine") != "brokers" for row in experiment.run(task)]


@pytest.fixture(scope="module")
def claims(root: Path) -> list[dict[str, Any]]:
    text = (root / "papers" / "agele" / "claims.toml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["claim"]
    return found


def test_the_smallest_experiment_gives_tables_numbers_and_plots(tmp_path: Path) -> None:
    tables, numbers = experiment.conclude(rows_of("3", "4"))
    assert set(tables) == {"figure3", "figure4"}
    assert {(row["tb"], row["tm"]) for row in tables["figure3"]} == {
        (tb, tm) for tb in (50.0, 75.0, 100.0, 125.0, 150.0) for tm in (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)
    }
    assert numbers["fig4_suppressed_tr0"] == 0
    assert numbers["fig4_suppressed_tr10"] > 0
    assert numbers["fig4_overhead_spread_tr"] == 0
    assert numbers["fig3_duplicates_spread"] == 0
    plots = experiment.plot(tables, tmp_path)
    assert [plot.name for plot in plots] == [f"{name}.png" for name in tables]
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in plots)


def test_a_row_is_the_same_whatever_else_is_run() -> None:
    alone = rows_of("4")
    among = [row for row in rows_of("3", "4", runs=2) if row["figure"] == "4" and row["run"] == 0]
    order = ("brokers", "tb", "tr")
    assert sorted(alone, key=lambda row: [row[name] for name in order]) == sorted(
        among, key=lambda row: [row[name] for name in order]
    )


def test_every_figure_has_tasks_on_brokers_but_for_the_search() -> None:
    for figure in experiment.FIGURES:
        tasks = experiment.tasks([figure], False, None, 0, {})
        assert tasks
        assert any(task.get("engine") == "brokers" for task in tasks) is (figure != "centre")


def test_a_point_is_the_median_of_its_runs() -> None:
    rows = rows_of("3", runs=3)
    (point,) = (row for row in results.tables(rows)["figure3"] if row["tb"] == 50.0 and row["tm"] == 4.0)
    own = sorted(row["overhead"] for row in rows if row["tb"] == 50.0 and row["tm"] == 4.0)
    assert point["runs"] == 3
    assert point["overhead"] == own[1]


def test_claims_have_bounds_and_names_of_their_own(claims: list[dict[str, Any]]) -> None:
    ids = [claim["id"] for claim in claims]
    assert len(ids) == len(set(ids))
    assert all("least" in claim or "most" in claim for claim in claims)
    assert {claim["figure"] for claim in claims} <= {*experiment.FIGURES, "any"}
    assert {claim["figure"] for claim in claims} >= set(experiment.FIGURES)


def test_the_page_has_every_claim(root: Path, claims: list[dict[str, Any]]) -> None:
    page = (root / "papers" / "agele" / "README.md").read_text(encoding="utf-8")
    assert [claim["id"] for claim in claims if f"`{claim['id']}`" not in page] == []


def test_the_page_counts_the_runs_on_the_way_as_the_experiment_makes_them(root: Path) -> None:
    tasks = [task for task in experiment.tasks(("beyond",), False, 50, 0, {}) if task["part"] == "way"]
    each = {where: sum(task["setting"]["where"] == where for task in tasks) for where in ("even", "corner")}
    assert (len(tasks), each) == (20, {"even": 10, "corner": 10})
    page = (root / "papers" / "agele" / "README.md").read_text(encoding="utf-8")
    assert "10 runs of 100 brokers with publishers even and the same 10 with them in a corner, so 20" in page
    assert "100 brokers, hop by hop, 10 runs for each place of the publishers, so 20 in all." in page


def test_the_page_has_every_setting(root: Path) -> None:
    page = (root / "papers" / "agele" / "README.md").read_text(encoding="utf-8")
    assert [field.name for field in fields(Setting) if not re.search(rf"`{field.name}`", page)] == []
