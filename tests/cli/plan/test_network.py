"""The network of a plan, from a topology, a workload, lines of links; and what does not go together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.records import workloads as made
from tidings.cli import app
from tidings.cli.plan import network
from tidings.cli.plan.options import Lengths
from tidings.errors import InputError

TOWN = """
[[broker]]
id = "hub"
[[broker]]
id = "a1"
cluster = "a"
[[broker]]
id = "a2"
cluster = "a"
[[broker]]
id = "b1"
cluster = "b"
[[link]]
between = ["hub", "a1"]
delay = "20ms"
[[link]]
between = ["a1", "a2"]
delay = "1ms"
[[link]]
between = ["hub", "b1"]
delay = "30ms"
"""


def planned(*words: str | Path) -> Any:
    result = CliRunner().invoke(app, ["plan", *map(str, words), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refusal(*words: str | Path) -> str:
    result = CliRunner().invoke(app, ["plan", *map(str, words)])
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


@pytest.fixture
def town(tmp_path: Path) -> list[str | Path]:
    (tmp_path / "town.toml").write_text(TOWN, encoding="utf-8")
    (tmp_path / "homes.csv").write_text("u,a1\nv,b1\nw,a2\n", encoding="utf-8")
    (tmp_path / "traffic.csv").write_text("u,v,9\nv,u,9\nu,w,1\n", encoding="utf-8")
    words: list[str | Path] = ["communities", "--homes", tmp_path / "homes.csv"]
    return [*words, "--traffic", tmp_path / "traffic.csv"]


def test_a_topology_declares_links_delays_and_clusters(town: list[str | Path], tmp_path: Path) -> None:
    file = tmp_path / "town.toml"
    plan = planned(*town, "--network", file, "--overload", "3")
    assert plan["network"]["clusters"] == {"a1": "a", "a2": "a", "b1": "b", "hub": ""}
    assert {link[2] for link in plan["network"]["links"]} == {1.0}
    assert (plan["settings"]["clusters"], plan["settings"]["lengths"]) == ("declared", "hops")
    far = planned(*town, "--network", file, "--overload", "3", "--lengths", "delay")
    assert sorted(link[2] for link in far["network"]["links"]) == [1.0, 20.0, 30.0]
    assert (far["settings"]["lengths"], far["settings"]["client_links"]) == ("delay", 0.0)
    # 50 ms between u and v, 1 ms between u and w.
    assert far["hops"]["before"] == pytest.approx((18 * 50 + 1) / 19)
    assert plan["hops"]["before"] == pytest.approx((18 * 4 + 3) / 19)


def test_clusters_are_derived_from_delays_where_none_are_declared(
    town: list[str | Path], tmp_path: Path
) -> None:
    file = tmp_path / "plain.toml"
    file.write_text("\n".join(line for line in TOWN.splitlines() if "cluster" not in line), encoding="utf-8")
    for words in (("--clusters", "2"), ("--clusters", "auto"), ()):
        plan = planned(*town, "--network", file, "--overload", "3", *words)
        found = plan["network"]["clusters"]
        assert found["a1"] == found["a2"] != found["b1"]
        assert plan["settings"]["clusters"] == "derived"
    # Who declares some may have others derived all the same.
    whole = planned(*town, "--network", tmp_path / "town.toml", "--overload", "3", "--clusters", "1")
    assert len(set(whole["network"]["clusters"].values()) - {""}) == 1


def test_a_workload_is_a_network_with_delays(tmp_path: Path) -> None:
    rows = made.drawn(1)
    made.write(tmp_path, brokers=rows["brokers"], links=rows["links"])
    wired = network.of_workload(tmp_path)
    assert wired.graph().names == made.BROKERS
    assert {length for _, _, length in wired.graph().links} == {1.0}
    delays = [length for _, _, length in wired.graph(Lengths.DELAY).links]
    assert sorted(delays) == sorted(row["delay_ms"] for row in rows["links"])


def test_lengths_of_lines_count_unless_hops_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("a,b,4\nb,c,2\n", encoding="utf-8")
    wired = network.of_edges(tmp_path / "links.csv")
    assert [length for _, _, length in wired.graph().links] == [4.0, 2.0]
    assert [length for _, _, length in wired.graph(Lengths.HOPS).links] == [1.0, 1.0]
    assert (wired.counted(None), wired.counted(Lengths.HOPS)) == ("given", "hops")
    with pytest.raises(InputError, match="says nothing of delays"):
        wired.graph(Lengths.DELAY)


STORES = ("stores", "--k", "1", "--capacity", "1")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("communities",), "say who talks to whom: give --traffic, --records or --workload"),
        (STORES, "say who requests what: give --rates, --records or --workload"),
        (
            (*STORES, "--rates", "r", "--records", "x"),
            "--rates and --records both say who requests what; give one of them",
        ),
        ((*STORES, "--records", "x", "--workload", "y"), "both say who requests what"),
        ((*STORES, "--rates", "r"), "say which brokers are linked: give --edges or --network"),
        (
            (*STORES, "--rates", "r", "--edges", "e", "--network", "n"),
            "--edges and --network both say which brokers are linked",
        ),
        ((*STORES, "--rates", "r", "--hours", "3"), "--hours is only for --records"),
        ((*STORES, "--rates", "r", "--master", "local"), "--master is only for --records or --workload"),
        ((*STORES, "--rates", "r", "--least-requests", "3"), "--least-requests is only for --records"),
        ((*STORES, "--rates", "r", "--as-printed", "--algorithm", "rnd"), "only for --algorithm placement"),
        ((*STORES, "--rates", "r", "--before", "p"), "--before is only for --algorithm local"),
        ((*STORES, "--workload", ".", "--from", "3"), "--from is only for --records"),
        ((*STORES, "--records", "x", "--hours", "3", "--from", "2"), "give one or the other"),
        ((*STORES, "--records", "x", "--from", "soon"), "--from is 'soon', which is no time"),
        (
            (*STORES, "--records", "x", "--until", "2026-11-16T08:30Z"),
            "traffic is counted by the hour, so give a full one",
        ),
        ((*STORES, "--records", "x", "--from", "5", "--until", "5"), "--from 5 is not before --until 5"),
        ((*STORES, "--records", "x"), "x is not a folder; name the one that brokers write"),
        ((*STORES, "--workload", "x"), "workload 'x' does not exist; make one"),
        ((*STORES, "--records", ".", "--master", "mine"), "master 'mine' is unknown"),
        (("communities", "--traffic", "t", "--edges", "e"), "say where clients are: give --homes"),
        (("communities", "--traffic", "t", "--frontier"), "--frontier is only for --algorithm search"),
        (
            ("communities", "--traffic", "t", "--subscriptions", "s"),
            "--subscriptions is only for --algorithm interest",
        ),
        (("communities", "--traffic", "t", "--divide", "some"), "it is one of all, largest, none"),
        (("communities", "--traffic", "t", "--count", "bytes"), "it is one of copy, link"),
    ],
)
def test_what_does_not_go_together_is_refused_before_spark_starts(
    words: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidings.pipeline import session

    monkeypatch.chdir(tmp_path)
    for name in ("e", "r", "t", "n"):
        Path(name).write_text("a,b\n", encoding="utf-8")
    monkeypatch.setattr(session, "start", lambda *_, **__: pytest.fail("Spark is started"))
    assert says in refusal(*words)


def test_what_are_no_clusters_is_refused(town: list[str | Path], tmp_path: Path) -> None:
    words = [*town, "--network", tmp_path / "town.toml", "--clusters"]
    assert "which is no file; give a file of lines broker,cluster" in refusal(*words, "many")
    assert "there are to be 9 clusters of 4 brokers; give 1 to 4" in refusal(*words, "9")
