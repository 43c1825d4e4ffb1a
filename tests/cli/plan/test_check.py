"""`tidings plan check` and `tidings plan schema`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner, Result

from tests.cli.plan.test_network import TOWN
from tidings.cli import app
from tidings.errors import InputError
from tidings.planning import plans

FITS = "the plan fits the network"
EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "plans"


def run(*words: str | Path) -> Result:
    result = CliRunner().invoke(app, ["plan", *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def checked(*words: str | Path) -> tuple[int, Any]:
    result = run("check", *words, "--json")
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture
def moves(tmp_path: Path) -> Path:
    (tmp_path / "town.toml").write_text(TOWN, encoding="utf-8")
    (tmp_path / "homes.csv").write_text("u,a1\nv,b1\nw,a2\n", encoding="utf-8")
    (tmp_path / "traffic.csv").write_text("u,v,9\nv,u,9\nu,w,1\n", encoding="utf-8")
    out = tmp_path / "moves.json"
    words: list[str | Path] = [
        "--network",
        tmp_path / "town.toml",
        "--homes",
        tmp_path / "homes.csv",
        "--overload",
        "3",
    ]
    run("communities", *words, "--traffic", tmp_path / "traffic.csv", "--out", out)
    assert json.loads(out.read_text(encoding="utf-8"))["moves"]
    return out


def test_a_plan_of_moves_fits_the_network_and_the_clients_that_it_was_made_for(
    moves: Path, tmp_path: Path
) -> None:
    words = (moves, "--network", tmp_path / "town.toml", "--homes", tmp_path / "homes.csv")
    assert checked(*words) == (0, {"valid": True, "wrong": [], "changed": [], "changes": {}, "unseen": []})
    assert run("check", *words).stdout == "the plan fits the network\n"


def test_clusters_clients_and_links_that_have_changed_are_told(moves: Path, tmp_path: Path) -> None:
    now = TOWN.replace('id = "a2"\ncluster = "a"', 'id = "a2"\ncluster = "b"')
    (tmp_path / "now.toml").write_text(now, encoding="utf-8")
    (tmp_path / "now.csv").write_text("u,hub\nw,a2\n", encoding="utf-8")
    code, found = checked(moves, "--network", tmp_path / "now.toml", "--homes", tmp_path / "now.csv")
    assert (code, found["valid"]) == (1, False)
    assert "broker a2 is of the cluster b, not of the cluster a as planned" in found["wrong"]
    told = {kind for kind in found["changes"] if kind.startswith("client")}
    assert told <= {"client gone", "client elsewhere"}
    assert told


def test_clients_that_are_at_their_goals_leave_the_plan_valid(moves: Path, tmp_path: Path) -> None:
    plan = json.loads(moves.read_text(encoding="utf-8"))
    at = {"u": "a1", "v": "b1", "w": "a2"} | {move["client"]: move["to"] for move in plan["moves"]}
    (tmp_path / "now.csv").write_text("".join(f"{who},{to}\n" for who, to in at.items()), encoding="utf-8")
    words = (moves, "--network", tmp_path / "town.toml", "--homes", tmp_path / "now.csv")
    code, found = checked(*words)
    assert (code, found["valid"], found["wrong"]) == (0, True, [])
    assert len(found["changed"]) == found["changes"]["client moved already"] == len(plan["moves"])
    said = run("check", *words).stdout.splitlines()
    assert said == ["changed, and not in the way:", *(f"  {one}" for one in found["changed"]), FITS]


def test_clusters_may_be_in_a_file_of_their_own(moves: Path, tmp_path: Path) -> None:
    plan = json.loads(moves.read_text(encoding="utf-8"))
    clusters = dict(plan["network"]["clusters"])
    words = (moves, "--network", tmp_path / "town.toml", "--clusters", tmp_path / "clusters.csv")

    def now() -> tuple[int, Any]:
        lines = "".join(f"{broker},{cluster}\n" for broker, cluster in clusters.items())
        (tmp_path / "clusters.csv").write_text(lines, encoding="utf-8")
        return checked(*words)

    assert now()[0] == 0
    clusters["a2"] = ""
    code, found = now()
    assert (code, found["wrong"]) == (1, ["broker a2 is of the backbone, not of the cluster a as planned"])
    del clusters["a2"]
    with pytest.raises(InputError, match="has no broker 'a2'; give it a cluster"):
        now()


def test_a_network_that_is_in_pieces_now_is_in_the_way(moves: Path, tmp_path: Path) -> None:
    (tmp_path / "now.toml").write_text(TOWN.rpartition("[[link]]")[0], encoding="utf-8")
    code, found = checked(moves, "--network", tmp_path / "now.toml")
    assert (code, found["changes"]) == (1, {"link gone": 1, "network in pieces": 1})
    (tmp_path / "links.csv").write_text("1,2\n2,4\n3,5\n5,6\n", encoding="utf-8")
    words = ("--edges", tmp_path / "links.csv", "--rates", EXAMPLES / "rates.csv")
    code, found = checked(EXAMPLES / "stores.json", *words)
    assert code == 1
    assert "the network is in pieces: 3, 5, 6 are not reached from 1" in found["wrong"]
    plan = json.loads((EXAMPLES / "stores.json").read_text(encoding="utf-8"))
    rates = [
        line.split(",") for line in (EXAMPLES / "rates.csv").read_text(encoding="utf-8").splitlines()[1:]
    ]
    side = {name: name in "124" for name in "123456"}
    lost = [
        float(rate)
        for topic, broker, rate in rates
        if side[broker] not in [side[store] for store in plan["assignment"][topic]]
    ]
    assert found["unserved"] == pytest.approx(sum(lost) / sum(float(rate) for _, _, rate in rates))
    assert found["unserved"] > 0
    assert math.isfinite(found["mean_hops"]["now"])
    assert "of requests find no store" in run("check", EXAMPLES / "stores.json", *words).stdout


def test_delays_are_held_against_delays(tmp_path: Path, moves: Path) -> None:
    out = tmp_path / "far.json"
    town = tmp_path / "town.toml"
    words: list[str | Path] = [
        "--network",
        town,
        "--homes",
        tmp_path / "homes.csv",
        "--traffic",
        tmp_path / "traffic.csv",
    ]
    run("communities", *words, "--lengths", "delay", "--overload", "3", "--out", out)
    assert checked(out, "--network", town)[0] == 0
    town.write_text(TOWN.replace("20ms", "25ms"), encoding="utf-8")
    assert checked(out, "--network", town)[1]["wrong"] == [
        "the link a1,hub has the length 25, not 20 as planned"
    ]
    # Counted in hops nothing has changed.
    code, told = checked(moves, "--network", town)
    assert (code, told["unseen"]) == (0, ["clients"])
    assert "clients were not looked at; --homes, " in run("check", moves, "--network", town).stdout


def test_requests_sizes_and_capacities_that_have_changed_are_told(tmp_path: Path) -> None:
    plan, links = EXAMPLES / "stores.json", EXAMPLES / "links.csv"
    code, found = checked(plan, "--edges", links, "--rates", EXAMPLES / "rates.csv")
    assert (code, found["valid"]) == (0, True)
    assert found["mean_hops"]["now"] == pytest.approx(found["mean_hops"]["planned"])
    assert found["unserved"] == pytest.approx(0)
    made = json.loads(plan.read_text(encoding="utf-8"))
    kept = sorted(made["assignment"])
    (tmp_path / "rates.csv").write_text(f"{kept[0]},1,5\nnews,2,1\n", encoding="utf-8")
    code, found = checked(plan, "--edges", links, "--rates", tmp_path / "rates.csv", "--load-max", "4")
    assert code == 1
    assert "topic news is requested, and the plan has no store for it" in found["wrong"]
    assert found["changes"]["topic that nobody requests"] == len(kept) - 1
    assert found["changes"]["store over load"] == 1
    sizes = [f"{topic},{50 if topic == kept[0] else 0.1}\n" for topic in kept]
    (tmp_path / "sizes.csv").write_text("".join(sizes), encoding="utf-8")
    full = checked(plan, "--edges", links, "--sizes", tmp_path / "sizes.csv")[1]
    assert full["changes"] == {"store over capacity": len(made["assignment"][kept[0]])}
    assert checked(plan, "--edges", links, "--sizes", tmp_path / "sizes.csv", "--capacity", "99")[0] == 0


def test_many_findings_of_a_kind_are_counted_for_people(tmp_path: Path) -> None:
    lines = [f"{at},{at + 1}\n" for at in range(40)]
    (tmp_path / "links.csv").write_text("".join(lines), encoding="utf-8")
    said = run("check", EXAMPLES / "stores.json", "--edges", tmp_path / "links.csv")
    assert said.exit_code == 1
    assert "more: broker new" in said.stdout
    assert "in the way:\n" in said.stdout
    assert "does not fit the network any more" in said.stdout
    assert len(said.stdout.splitlines()) < 40


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "say what the network is now: give --network, --edges, --workload or --records"),
        (("--homes", "h"), "--homes is only for a plan of moves"),
        (("--clusters", "h"), "--clusters is only for a plan of moves"),
        (("--edges", "e", "--capacity", "0"), "--capacity is 0; give a number above 0"),
        (("--edges", "e", "--hours", "2"), "--hours is only for --records"),
    ],
)
def test_what_cannot_be_checked_is_refused(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    (tmp_path / "e").write_text("1,2\n", encoding="utf-8")
    given = [str(tmp_path / word) if word in ("e", "h") else word for word in words]
    with pytest.raises(InputError, match=says):
        run("check", EXAMPLES / "stores.json", *given)


# The schema


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("schema").stdout)
    return found


def test_the_schema_has_both_kinds_and_names_the_format(schema: dict[str, Any]) -> None:
    assert schema == plans.schema()
    assert f"format {plans.FORMAT}" in schema["title"]
    text = json.dumps(schema)
    assert plans.STORES in text
    assert plans.COMMUNITIES in text


def test_every_plan_is_as_the_schema_says_and_what_is_none_is_not(
    schema: dict[str, Any], moves: Path, tmp_path: Path
) -> None:
    validator = Draft202012Validator(schema)
    out = tmp_path / "stores.json"
    words: list[str | Path] = [
        "--edges",
        EXAMPLES / "links.csv",
        "--rates",
        EXAMPLES / "rates.csv",
        "--k",
        "2",
    ]
    for algorithm in ("placement", "local", "grd-opt", "rnd"):
        run("stores", *words, "--capacity", "2", "--algorithm", algorithm, "--out", out)
        validator.validate(json.loads(out.read_text(encoding="utf-8")))
    plan = json.loads(moves.read_text(encoding="utf-8"))
    validator.validate(plan)
    for wrong in ({"kind": "stores"}, {"moves": [{"client": "u"}]}, {"colour": "red"}):
        assert not validator.is_valid({**plan, **wrong})


def test_the_documentation_says_what_a_format_promises(root: Path) -> None:
    page = (root / "docs" / "plans.md").read_text(encoding="utf-8")
    assert f"| `format` | {plans.FORMAT}. It grows when" in page
