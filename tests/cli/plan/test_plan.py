"""`tidings plan`, from plain files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidings.cli import app
from tidings.cli.plan import network
from tidings.errors import InputError

LINKS = "a,b\n1,2\n2,4\n2,3\n3,5\n5,6\n"
RATES = {"a": (2, 2, 5, 2, 2, 4), "b": (1, 1, 4, 1, 18, 2), "c": (0, 1, 3, 0, 2, 0)}


def run(*words: str | Path) -> str:
    result = CliRunner().invoke(app, ["plan", *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def refusal(*words: str | Path) -> str:
    result = CliRunner().invoke(app, ["plan", *map(str, words)])
    assert isinstance(result.exception, InputError)
    return str(result.exception)


@pytest.fixture
def example(tmp_path: Path) -> list[str | Path]:
    """The paper's example, without a header for the rates."""
    (tmp_path / "links.csv").write_text(LINKS, encoding="utf-8")
    lines = [f"{topic},{at},{rate}\n" for topic, row in RATES.items() for at, rate in enumerate(row, 1)]
    (tmp_path / "rates.csv").write_text("".join(lines), encoding="utf-8")
    return ["stores", "--edges", tmp_path / "links.csv", "--rates", tmp_path / "rates.csv"]


def planned(*words: str | Path) -> Any:
    return json.loads(run(*words, "--json"))


def test_the_papers_example_is_planned_as_it_is_printed(example: list[str | Path]) -> None:
    plan = planned(*example, "--k", "2", "--capacity", "2")
    assert (plan["format"], plan["kind"]) == (3, "stores")
    assert plan["stores"] == ["3", "5", "2"]
    assert plan["assignment"] == {"a": ["2", "3"], "b": ["3", "5"], "c": ["2", "5"]}
    assert plan["votes"]["a"] == {"1": 0, "2": 3, "3": 5, "4": 0, "5": 2, "6": 2}
    assert plan["weights"] == pytest.approx({"a": 0.34, "b": 0.54, "c": 0.12})
    assert plan["mean_hops"] == pytest.approx(24 / 50)
    assert plan["mean_hops_by_topic"] == pytest.approx({"a": 14 / 17, "b": 7 / 27, "c": 3 / 6})
    assert plan["cost"] == {"stores": 3, "replicas": 6, "copies": 6}


@pytest.mark.parametrize(("algorithm", "hops"), [("local", 22 / 50), ("grd-opt", 22 / 50)])
def test_other_algorithms_can_be_asked_for(example: list[str | Path], algorithm: str, hops: float) -> None:
    plan = planned(*example, "--k", "2", "--capacity", "2", "--algorithm", algorithm)
    assert plan["mean_hops"] == pytest.approx(hops)


def test_a_plan_by_lot_follows_its_seed(example: list[str | Path]) -> None:
    words = [*example, "--k", "2", "--capacity", "2", "--algorithm", "rnd", "--seed"]
    assert planned(*words, "5") == planned(*words, "5")
    assert len({json.dumps(planned(*words, str(seed))["assignment"]) for seed in range(6)}) > 1


@pytest.mark.parametrize("command", ["stores --k 1 --capacity 1", "communities", "try plan.json"])
def test_a_seed_below_0_is_refused(command: str) -> None:
    result = CliRunner().invoke(app, ["plan", *command.split(), "--seed", "-1"])
    assert result.exit_code == 2
    assert "Invalid value for '--seed': Input should be greater than or equal to 0" in result.output


def test_json_prints_what_out_writes_and_show_reads_it(example: list[str | Path], tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    printed = planned(*example, "--k", "2", "--capacity", "2", "--out", out)
    assert json.loads(out.read_text(encoding="utf-8")) == printed
    assert planned("show", out) == printed
    assert "a request travels 0.480 hops" in run("show", out)


def test_topics_that_do_not_fit_are_told_and_shown(example: list[str | Path], tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("a,2\nb,2\nc,1.9\n", encoding="utf-8")
    words = [*example, "--k", "1", "--capacity", "3", "--sizes", tmp_path / "sizes.csv"]
    for algorithm in ("placement", "local", "rnd"):
        out = tmp_path / f"{algorithm}.json"
        plan = planned(*words, "--algorithm", algorithm, "--stores", "2", "--out", out)
        (left_out,) = plan["short"]
        assert left_out not in plan["mean_hops_by_topic"]
        assert "of requests find no store" in plan["warnings"][0]
        assert "of requests find no store" in run("show", out)


def test_there_are_as_many_stores_as_it_takes_if_nobody_says(
    example: list[str | Path], tmp_path: Path
) -> None:
    (tmp_path / "sizes.csv").write_text("a,2\nb,2\nc,1.9\n", encoding="utf-8")
    words = [*example, "--k", "1", "--capacity", "3", "--sizes", tmp_path / "sizes.csv"]
    for algorithm in ("placement", "local", "rnd"):
        plan = planned(*words, "--algorithm", algorithm)
        assert (plan["short"], plan["settings"]["stores"]) == ({}, 3)
        assert plan["settings"]["sizes"] == {"a": 2.0, "b": 2.0, "c": 1.9}
        assert all(len(held) == 1 for held in plan["assignment"].values())
        assert plan["warnings"] == [
            "2 stores would hold all replicas together, and it took 3 until each topic fitted into them"
        ]


def test_where_a_plan_cannot_be_written_nothing_is_planned(
    example: list[str | Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "of_files", lambda *_: pytest.fail("planned"))
    words = [*example, "--k", "2", "--capacity", "2", "--out"]
    assert f"there is no folder {tmp_path / 'none'}" in refusal(*words, tmp_path / "none" / "plan.json")
    assert "it is a folder; name another file with --out" in refusal(*words, tmp_path)


def test_after_a_drift_no_more_replicas_move_than_allowed(example: list[str | Path], tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    common = [*example, "--k", "2", "--capacity", "2"]
    run(*common, "--out", out)
    for most in (0, 1, 2, 6):
        plan = planned(*common, "--algorithm", "local", "--before", out, "--moved-max", str(most))
        assert plan["cost"]["copies"] <= most


def test_a_plan_that_no_longer_fits_is_told_with_what_has_changed(
    example: list[str | Path], tmp_path: Path
) -> None:
    out = tmp_path / "plan.json"
    run(*example, "--k", "2", "--capacity", "2", "--out", out)
    assert "fits" in run("check", out, "--edges", tmp_path / "links.csv")
    (tmp_path / "now.csv").write_text("1,2\n2,4\n2,3\n3,5\n5,7\n", encoding="utf-8")
    result = CliRunner().invoke(
        app, ["plan", "check", str(out), "--edges", str(tmp_path / "now.csv"), "--json"]
    )
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "valid": False,
        "wrong": [
            "broker 6 of the plan is gone",
            "the link 5,6 is gone",
        ],
        "changed": [
            "broker 7 is new",
            "the link 5,7 is new",
        ],
        "changes": {"broker gone": 1, "broker new": 1, "link gone": 1, "link new": 1},
        "unseen": ["requests"],
    }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--k", "7", "--capacity", "2"], "give at most 6"),
        (["--k", "2", "--capacity", "1", "--stores", "3"], "give at least 6 stores"),
        (
            ["--k", "2", "--capacity", "2", "--gain", "no"],
            "--gain is 'no'; it is one of median, path, static",
        ),
        (
            ["--k", "2", "--capacity", "2", "--moved-max", "1", "--algorithm", "local"],
            "name that plan with --before",
        ),
        (
            ["--k", "2", "--capacity", "2", "--moved-max", "-1", "--before", "p", "--algorithm", "local"],
            "--moved-max is -1; give 0 or more",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused(example: list[str | Path], words: list[str], says: str) -> None:
    assert says in refusal(*example, *words)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a,1", "has 2 fields; it is topic,broker,rate"),
        ("a,1,many", "rate is 'many'; give a number"),
        ("a,9,1", "no broker of the network"),
        ("a,1,-1", "rates are numbers from 0 up"),
        ("a,1,nan", "rates are numbers from 0 up"),
        (",1,1", "topic is empty"),
    ],
)
def test_a_wrong_line_is_told(example: list[str | Path], tmp_path: Path, line: str, says: str) -> None:
    with (tmp_path / "rates.csv").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    assert says in refusal(*example, "--k", "2", "--capacity", "2")


def test_a_line_has_its_number_in_the_file_below_comments_too(
    example: list[str | Path], tmp_path: Path
) -> None:
    text = "# by hand\n\n# twice\ntopic,broker,rate\na,1,2\na,1,many\n"
    (tmp_path / "rates.csv").write_text(text, encoding="utf-8")
    assert "rates.csv, line 6: rate is 'many'" in refusal(*example, "--k", "2", "--capacity", "2")


FILES = {
    "overlay": "hub0,hub1\nhub0,a0\na0,a1\nhub1,b0\nb0,b1\n",
    "clusters": "hub0,\nhub1,\na0,a\na1,a\nb0,b\nb1,b\n",
    "homes": "u,a1\nv,b1\nw,a1\nx,b1\n",
    "traffic": "from,to,messages\nu,v,9\nv,u,9\nw,x,9\nx,w,9\nu,w,1\n",
}


@pytest.fixture
def town(tmp_path: Path) -> list[str | Path]:
    """Two pairs that talk to each other across the backbone."""
    for name, text in FILES.items():
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    words: list[str | Path] = ["communities", "--edges", tmp_path / "overlay.csv"]
    for name in ("clusters", "homes", "traffic"):
        words += [f"--{name}", tmp_path / f"{name}.csv"]
    return words


def test_pairs_that_talk_to_each_other_come_together(town: list[str | Path]) -> None:
    # Each pair is half of all traffic, which no bound on four brokers allows.
    plan = planned(*town, "--overload", "2", "--broker-overload", "none")
    assert plan["settings"]["broker_overload"] is None
    assert plan["communities"] == {"0": ["u", "v"], "1": ["w", "x"]}
    # a1, a0, hub0, hub1, b0, b1 are five links and two of clients; u to w are at one broker.
    assert plan["hops"]["before"] == pytest.approx((36 * 7 + 1 * 2) / 37)
    assert plan["hops"]["after"] < plan["hops"]["before"]
    assert plan["backbone"]["before"] == 36
    assert plan["cost"] == {"moves": 2, "moves_across": 2, "moves_inside": 0}
    assert sum(move["across"] for move in plan["moves"]) == 2
    assert {move["client"] for move in plan["moves"]} < {"u", "v", "w", "x"}


@pytest.mark.parametrize("algorithm", ["published", "search", "interest"])
def test_moves_of_both_kinds_are_bounded_together_and_each_by_itself(
    town: list[str | Path], algorithm: str
) -> None:
    words = (*town, "--algorithm", algorithm, "--overload", "2", "--broker-overload", "none")
    for option, key in (("", "moves"), ("-across", "moves_across"), ("-inside", "moves_inside")):
        for most in (0, 1):
            plan = planned(*words, f"--moves{option}", str(most))
            assert plan["cost"][key] <= most
            assert plan["settings"][key] == most
            assert plan["cost"]["moves"] == len(plan["moves"])


def test_interest_is_who_a_client_hears_from_or_what_it_subscribes(
    town: list[str | Path], tmp_path: Path
) -> None:
    (tmp_path / "subscriptions.csv").write_text("u,one\nw,one\nv,two\nx,two\n", encoding="utf-8")
    plan = planned(*town, "--algorithm", "interest", "--subscriptions", tmp_path / "subscriptions.csv")
    assert {frozenset(one) for one in plan["communities"].values()} == {frozenset("uw"), frozenset("vx")}
    assert planned(*town, "--algorithm", "interest")["cost"]["moves"] >= 0


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("homes", "u,a1\nv,b1\nw,a1\n", "client 'x' has no home"),
        ("homes", FILES["homes"] + "u,a0\n", "name one broker for it"),
        ("clusters", "hub0,\nhub1,\na0,a\na1,a\nb0,b\n", "is in no cluster"),
        ("traffic", "u,v,-1\n", "counts are numbers from 0 up"),
        ("overlay", "hub0,hub1\nhub0,a0\na0,a1\nb0,b1\n", "in pieces"),
    ],
)
def test_a_town_that_cannot_be_is_refused(
    town: list[str | Path], tmp_path: Path, name: str, text: str, says: str
) -> None:
    (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    assert says in refusal(*town)


def test_what_is_no_plan_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    for text, says in (
        ("{}", "is no plan"),
        ('{"kind": "stores", "format": 9}', "is a plan of format 9, and this release reads format 3"),
        ("not json", "is no plan"),
    ):
        file.write_text(text, encoding="utf-8")
        assert says in refusal("show", file)
    assert "cannot be read" in refusal("show", tmp_path / "nowhere.json")
