"""`tidings plan communities`, from plain files: its limits, its warnings, its frontier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from typer.testing import CliRunner

from tests.planning.communities.towns import town
from tidings.cli import app
from tidings.errors import InputError
from tidings.planning.communities import published


def run(*words: str | Path) -> Any:
    result = CliRunner().invoke(app, ["plan", "communities", *map(str, words), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def files(tmp_path: Path) -> list[str | Path]:
    """A town in files, 30 clients at 12 brokers of four clusters."""
    network, flows = town(0, clients=30, apart=0.3)
    names = network.graph.names
    text = {
        "edges": [f"{names[a]},{names[b]}" for a, b, _ in network.graph.links],
        "clusters": [f"{name},{cluster}" for name, cluster in network.named_clusters.items()],
        "homes": [f"{name},{names[at]}" for name, at in zip(flows.clients, network.homes, strict=True)],
        "traffic": [
            f"{flows.clients[a]},{flows.clients[b]},{n}"
            for a, b, n in zip(flows.senders, flows.receivers, flows.messages, strict=True)
        ],
    }
    words: list[str | Path] = []
    for name, lines in text.items():
        (tmp_path / f"{name}.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        words += [f"--{name}", tmp_path / f"{name}.csv"]
    return words


@pytest.mark.parametrize("algorithm", ["published", "interest", "search"])
def test_where_nobody_is_it_says_what_to_give(
    files: list[str | Path], tmp_path: Path, algorithm: str
) -> None:
    for name in ("homes", "traffic"):
        (tmp_path / f"{name}.csv").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="name at least one client with its home"):
        run(*files, "--algorithm", algorithm)


def test_communities_are_those_found_first_and_what_they_were_divided_into_is_beside_them(
    files: list[str | Path], tmp_path: Path
) -> None:
    graph = nx.Graph()
    for line in (tmp_path / "traffic.csv").read_text(encoding="utf-8").split():
        sender, receiver, messages = line.split(",")
        known = graph.get_edge_data(sender, receiver, {"weight": 0.0})["weight"]
        graph.add_edge(sender, receiver, weight=known + float(messages))
    theirs = nx.community.greedy_modularity_communities(graph, weight="weight")
    plan = run(*files)
    whole = run(*files, "--divide", "none")
    assert plan["communities"] == whole["communities"]
    assert {frozenset(one) for one in plan["communities"].values()} == set(theirs)
    assert plan["modularity"] == whole["modularity"]
    assert plan["modularity"] == pytest.approx(nx.community.modularity(graph, theirs))
    assert whole["final"] is None
    parts = [set(one) for one in plan["final"]["communities"].values()]
    assert len(parts) > len(plan["communities"])
    assert all(any(part <= one for one in theirs) for part in parts)
    assert plan["final"]["modularity"] == pytest.approx(nx.community.modularity(graph, parts))


def test_a_plan_that_breaks_its_own_overload_says_so(files: list[str | Path]) -> None:
    plan = run(*files, "--overload", "1.5", "--broker-overload", "none")
    over = {name for name, load in plan["load"].items() if load > 1.5}
    assert over
    assert {one.split()[3] for one in plan["warnings"]} == over
    assert run(*files, "--overload", "4", "--broker-overload", "none")["warnings"] == []


@pytest.mark.parametrize("algorithm", ["published", "interest", "search"])
def test_a_plan_says_how_busy_a_broker_may_be_and_the_busiest_before_and_after(
    files: list[str | Path], tmp_path: Path, algorithm: str
) -> None:
    words = [*files, "--algorithm", algorithm, "--out", tmp_path / "plan.json"]
    plan = run(*words)
    before, after = plan["busiest"]["before"], plan["busiest"]["after"]
    assert plan["settings"]["broker_overload"] == 1.5
    assert after["load"] <= max(1.5, before["load"])
    shown = " ".join(CliRunner().invoke(app, ["plan", "show", str(tmp_path / "plan.json")]).stdout.split())
    assert f"{plan['cost']['moves']} clients move:" in shown
    assert "a broker has at most 1.5 even shares" in shown
    assert f"{before['load']:.2f} ({before['broker']})" in shown
    assert f"{after['load']:.2f} ({after['broker']})" in shown
    whole = run(*words, "--broker-overload", "none")
    assert whole["settings"]["broker_overload"] is None
    assert algorithm != "search" or whole["busiest"]["after"]["load"] > max(1.5, before["load"])
    assert "any load" in CliRunner().invoke(app, ["plan", "show", str(tmp_path / "plan.json")]).stdout


@pytest.mark.parametrize("option", ["--overload", "--broker-overload"])
def test_a_bound_that_is_no_number_is_refused_with_the_way_out(files: list[str | Path], option: str) -> None:
    with pytest.raises(InputError, match=f"{option} is 'off'; give a number, or none for no bound"):
        run(*files, option, "off")


@pytest.mark.parametrize("algorithm", ["published", "interest", "search"])
def test_no_bound_is_none_or_inf_for_clusters_and_for_brokers(
    files: list[str | Path], algorithm: str
) -> None:
    none, inf = (
        run(*files, "--algorithm", algorithm, "--overload", word, "--broker-overload", word)
        for word in ("none", "inf")
    )
    assert none == inf
    assert (none["settings"]["overload"], none["settings"]["broker_overload"]) == (None, None)
    assert not [one for one in none["warnings"] if "fair shares" in one]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("algorithm", ["published", "interest", "search"])
def test_where_nobody_sends_anything_no_bound_is_as_good_as_one(
    files: list[str | Path], tmp_path: Path, algorithm: str
) -> None:
    (tmp_path / "traffic.csv").write_text("", encoding="utf-8")
    bounded = run(*files, "--algorithm", algorithm)
    free = run(*files, "--algorithm", algorithm, "--overload", "none", "--broker-overload", "none")
    assert free["hops"] == bounded["hops"]


@pytest.mark.parametrize("moves", [[], ["--moves", "6"]])
def test_the_plan_is_on_its_own_frontier(files: list[str | Path], moves: list[str]) -> None:
    plan = run(*files, "--algorithm", "search", "--frontier", *moves)
    points = plan["forecast"]["frontier"]
    assert len(points) > 2
    assert [plan["cost"]["moves"], plan["hops"]["after"]] in points
    assert points[0][0] == 0
    assert points == sorted(points, key=lambda one: -one[1])


def test_a_plan_that_cannot_be_written_is_refused_before_it_is_made(
    files: list[str | Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "planned", None)
    with pytest.raises(InputError, match="nowhere"):
        run(*files, "--out", tmp_path / "nowhere" / "plan.json")
