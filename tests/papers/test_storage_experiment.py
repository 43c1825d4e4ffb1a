"""The experiment of the paper on stores: its smallest run, its claims, its page."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

import pytest

from papers.storage import experiment, setting, trees
from papers.storage.setting import Setting
from tidings.errors import InputError


@pytest.fixture(scope="module")
def claims(root: Path) -> list[dict[str, Any]]:
    text = (root / "papers" / "storage" / "claims.toml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["claim"]
    return found


@pytest.fixture(scope="module")
def concluded() -> tuple[dict[str, list[dict[str, Any]]], dict[str, float]]:
    tasks = experiment.tasks(list(experiment.FIGURES), True, 1, 0, {})
    return experiment.conclude([row for task in tasks for row in experiment.run(task)])


def test_the_smallest_run_has_every_number_that_a_claim_is_about(
    concluded: Any, claims: list[dict[str, Any]]
) -> None:
    assert {claim["number"] for claim in claims} <= set(concluded[1])


def test_what_holds_for_every_run_holds_in_the_smallest(concluded: Any) -> None:
    numbers = concluded[1]
    assert numbers["4_brokers_local_least"] >= 0
    assert numbers["4_replicas_local_least"] >= 0
    assert numbers["local_over_exact"] >= -1e-9
    assert numbers["grd_opt_over_exact"] >= -1e-9
    assert numbers["whole_capacity_fewer"] > 1


def test_figures_are_drawn(concluded: Any, tmp_path: Path) -> None:
    few = {"4-brokers": concluded[0]["4-brokers"]}
    plots = experiment.plot(few, tmp_path)
    assert [plot.name for plot in plots] == ["4-brokers.png", "4-brokers-stores.png"]
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in plots)


def test_claims_have_bounds_and_names_of_their_own(claims: list[dict[str, Any]]) -> None:
    ids = [claim["id"] for claim in claims]
    assert len(ids) == len(set(ids))
    assert all("least" in claim or "most" in claim for claim in claims)
    assert {claim["figure"] for claim in claims} <= set(experiment.FIGURES)


def test_the_page_has_every_claim_and_every_setting(root: Path, claims: list[dict[str, Any]]) -> None:
    page = (root / "papers" / "storage" / "README.md").read_text(encoding="utf-8")
    assert [claim["id"] for claim in claims if f"`{claim['id']}`" not in page] == []
    names = [field.name for field in fields(Setting) if field.name != "seed"]
    assert [name for name in names if not re.search(rf"`{name}`", page)] == []


def test_what_cannot_be_set_is_refused() -> None:
    with pytest.raises(InputError, match="there is no 'q'; there are topics, brokers,"):
        setting.read(0, {"q": "1"})
    with pytest.raises(InputError, match="give a number"):
        setting.read(0, {"topics": "many"})
    with pytest.raises(InputError, match="tree=oak: there are uniform,"):
        setting.read(0, {"tree": "oak"})


@pytest.mark.parametrize("kind", list(trees.TREES))
@pytest.mark.parametrize("brokers", [1, 2, 3, 25])
def test_trees_are_trees(kind: str, brokers: int) -> None:
    graph = trees.made(kind, brokers, Random(1))
    assert len(graph.names) == brokers
    assert len(graph.links) == brokers - 1


def test_every_labelled_tree_is_as_likely_as_any_other() -> None:
    rng = Random(3)
    drawn = Counter(frozenset(frozenset(link) for link in trees.uniform(4, rng)) for _ in range(4_000))
    assert len(drawn) == 16
    assert max(drawn.values()) < 1.35 * min(drawn.values())
