"""The experiment of the paper on communities: its smallest run, its claims, its page."""

from __future__ import annotations

import gzip
import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from papers.communities import experiment, overlays, relations, setting
from papers.communities.measures import BEFORE, HALF, PLANNERS, PUBLISHED, SEARCH, SEATS
from papers.communities.setting import Setting
from tidings.errors import InputError


@pytest.fixture(scope="module")
def claims(root: Path) -> list[dict[str, Any]]:
    text = (root / "papers" / "communities" / "claims.toml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["claim"]
    return found


@pytest.fixture(scope="module")
def concluded() -> tuple[dict[str, list[dict[str, Any]]], dict[str, float]]:
    tasks = experiment.tasks(list(experiment.FIGURES), True, 1, 0, {"clients": "50"})
    return experiment.conclude([row for task in tasks for row in experiment.run(task)])


def test_the_smallest_run_has_every_number_that_a_claim_is_about(
    concluded: Any, claims: list[dict[str, Any]]
) -> None:
    assert {claim["number"] for claim in claims} <= set(concluded[1])


def test_plans_shorten_ways_and_the_search_most_with_no_more_moves(concluded: Any) -> None:
    for figure in experiment.POINTS:
        of = {row["planner"]: row for row in concluded[0]["plans"] if row["figure"] == figure}
        assert set(of) == set(PLANNERS)
        assert of[PUBLISHED]["hops"] < of[BEFORE]["hops"]
        assert of[SEARCH]["hops"] < of[PUBLISHED]["hops"]
        assert of[SEARCH]["moves"] <= of[PUBLISHED]["moves"]
        assert of[SEATS]["moves"] == of[PUBLISHED]["moves"]
        assert of[SEARCH]["hops"] <= of[SEATS]["hops"] < of[PUBLISHED]["hops"]
        assert of[HALF]["moves"] <= of[PUBLISHED]["moves"] // 2 + 1


def test_figures_are_drawn(concluded: Any, tmp_path: Path) -> None:
    few = {"hops": [row for row in concluded[0]["hops"] if row["figure"] == "5"]}
    plots = experiment.plot({**few, "frontier": concluded[0]["frontier"]}, tmp_path)
    assert [plot.name for plot in plots] == ["5.png", "frontier.png"]
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in plots)


def test_the_frontier_falls_from_no_moves_to_all_that_are_worth_it(concluded: Any) -> None:
    for kind in relations.KINDS:
        rows = [row for row in concluded[0]["frontier"] if row["kind"] == kind and row["number"] >= 0]
        assert rows[0]["moves"] == 0
        assert [row["moves"] for row in rows] == sorted(row["moves"] for row in rows)
        assert rows[-1]["hops"] < rows[0]["hops"]


def test_claims_have_bounds_and_names_of_their_own(claims: list[dict[str, Any]]) -> None:
    ids = [claim["id"] for claim in claims]
    assert len(ids) == len(set(ids))
    assert all("least" in claim or "most" in claim for claim in claims)
    assert {claim["figure"] for claim in claims} == {*experiment.FIGURES, "any"}


def test_a_share_that_the_paper_gives_holds_within_ten_points_and_no_more(
    claims: list[dict[str, Any]],
) -> None:
    shares = [
        (claim, float(claim["paper"].rstrip("%")))
        for claim in claims
        if claim["where"] != "study" and "unit" in claim and re.fullmatch(r"[\d.]+%?", claim["paper"])
    ]
    assert len(shares) > 20
    for claim, paper in shares:
        assert paper - 10 <= claim["least"] <= paper <= claim["most"] <= paper + 10, claim["id"]


def test_the_page_has_every_claim_and_every_setting(root: Path, claims: list[dict[str, Any]]) -> None:
    page = (root / "papers" / "communities" / "README.md").read_text(encoding="utf-8")
    assert [claim["id"] for claim in claims if f"`{claim['id']}`" not in page] == []
    names = [field.name for field in fields(Setting) if field.name != "seed"]
    assert [name for name in names if not re.search(rf"`{name}`", page)] == []


def test_what_cannot_be_set_is_refused() -> None:
    with pytest.raises(InputError, match="there is no 'q'; there are clients, heard,"):
        setting.read(0, {"q": "1"})
    with pytest.raises(InputError, match="give a number"):
        setting.read(0, {"clients": "many"})


def test_clusters_have_the_sizes_of_the_paper() -> None:
    for seed in range(5):
        sizes = overlays.sizes(Random(seed), equal=False)
        assert len(sizes) == 8
        assert sum(sizes) == 45
        assert all(3 <= size <= 8 for size in sizes)
    graph, clusters = overlays.made(overlays.sizes(Random(0), equal=True))
    assert len(graph.names) == 9 * 5 + 9
    assert sum(not cluster for cluster in clusters.values()) == 9


@pytest.mark.parametrize("kind", relations.KINDS)
def test_nobody_talks_to_itself(kind: str) -> None:
    flows = relations.flows(kind, Setting(clients=50), Random(1))
    assert flows
    assert all(sender != receiver for sender, receiver, _ in flows)
    assert all(1 <= messages <= relations.MESSAGES_MAX for *_, messages in flows)


def test_pairs_of_ones_own_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("a,b\nb,c\nc,c\nd,a\n", encoding="utf-8")
    given = replace(Setting(clients=3), edges=str(file))
    assert relations.scale_free(given, Random(0)) == [(0, 1), (1, 2)]
    packed = tmp_path / "pairs.csv.gz"
    packed.write_bytes(gzip.compress(b"src,dst\n" + file.read_bytes()))
    assert relations.scale_free(replace(given, edges=str(packed)), Random(0)) == [(0, 1), (1, 2)]
    packed.write_bytes(b"no archive")
    with pytest.raises(InputError, match="it cannot be read"):
        relations.scale_free(replace(given, edges=str(packed)), Random(0))
    with pytest.raises(InputError, match="it cannot be read"):
        relations.scale_free(replace(given, edges=str(tmp_path / "none")), Random(0))
    file.write_text("alone\n", encoding="utf-8")
    with pytest.raises(InputError, match="there are no pairs in it"):
        relations.scale_free(given, Random(0))
