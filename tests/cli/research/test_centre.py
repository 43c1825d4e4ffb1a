"""`tidings centre` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tidings.cli import app
from tidings.errors import InputError

TREE = "athens,corinth\nathens,chalcis\nathens,piraeus\nathens,lamia\nlamia,larissa\nlarissa,volos\n"


def run(*arguments: str, stdin: str = TREE) -> Result:
    return CliRunner().invoke(app, ["centre", *arguments], input=stdin)


@pytest.fixture
def tree(tmp_path: Path) -> str:
    file = tmp_path / "tree.csv"
    file.write_text(TREE, encoding="utf-8")
    return str(file)


def test_json_has_centres_seat_eccentricities_messages_and_time(tree: str) -> None:
    result = run("--edges", tree, "--json")
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    assert list(said) == ["centres", "seat", "eccentricity", "messages", "time"]
    assert (said["centres"], said["seat"]) == (["lamia"], "lamia")
    assert said["eccentricity"] == {
        "athens": 3,
        "chalcis": 4,
        "corinth": 4,
        "lamia": 2,
        "larissa": 3,
        "piraeus": 4,
        "volos": 4,
    }
    assert said["messages"] == {"init": 6, "update": 0, "stable": 0, "ecc": 0, "announce": 6, "report": 12}
    assert said["time"] > 0


def test_the_published_messages_find_the_same_and_are_counted_by_phase(tree: str) -> None:
    said = json.loads(run("--edges", tree, "--protocol", "paper", "--json").stdout)
    assert (said["centres"], said["seat"]) == (["lamia"], "lamia")
    assert said["messages"]["update"] > 0
    counts = said["messages"]
    assert [counts[phase] for phase in ("init", "stable", "ecc", "announce", "report")] == [6, 12, 12, 6, 0]


def test_the_seat_follows_the_strategy_and_the_centres_do_not(tree: str, tmp_path: Path) -> None:
    weights = tmp_path / "weights.csv"
    weights.write_text("# reports in and events out\nvolos,50\n", encoding="utf-8")
    median = json.loads(run("--edges", tree, "--strategy", "median", "--json").stdout)
    plain = json.loads(run("--edges", tree, "--strategy", "traffic", "--json").stdout)
    weighed = json.loads(
        run("--edges", tree, "--strategy", "traffic", "--weights", str(weights), "--json").stdout
    )
    assert [said["seat"] for said in (median, plain, weighed)] == ["athens", "athens", "volos"]
    assert [said["centres"] for said in (median, plain, weighed)] == [["lamia"]] * 3


def test_the_tree_comes_from_standard_input_and_the_other_spelling_is_understood() -> None:
    said = json.loads(run("--edges", "-", "--json").stdout)
    other = CliRunner().invoke(app, ["center", "--edges", "-", "--json"], input=TREE)
    assert json.loads(other.stdout) == said
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert "│ centre" in shown
    assert "│ center" not in shown


def test_one_broker_is_named_alone() -> None:
    said = json.loads(run("--edges", "-", "--json", stdin="a\n").stdout)
    assert (said["centres"], said["seat"], said["eccentricity"]) == (["a"], "a", {"a": 0})
    assert set(said["messages"].values()) == {0}
    assert "a" in run("--edges", "-", stdin="a\n").stdout


def test_people_see_the_count_of_each_phase_beside_its_bound(tree: str) -> None:
    result = run("--edges", tree, "--protocol", "paper", "--initiators", "3")
    assert result.exit_code == 0, result.stderr
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines()]
    assert ["stable", "12", "12", "2.00"] in rows
    # 7 brokers, 4 leaves, 1 centre, several initiators.
    assert next(row for row in rows if row and row[0] == "all")[2] == str((4 + 6 + 1) * 6)
    assert "The published bound, (L + 4)(M - 1) = 48," in result.stdout
    assert "seat (centre)" in result.stdout


def test_of_a_large_tree_the_spread_of_eccentricities_is_shown() -> None:
    path = "".join(f"n{at:02d},n{at + 1:02d}\n" for at in range(40))
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in run("--edges", "-", stdin=path).stdout.splitlines()
    ]
    assert ["20", "1"] in rows
    assert ["40", "2"] in rows


def test_delays_initiators_and_seed_change_the_course_and_not_the_answer(tree: str) -> None:
    options = ("--delay-jitter", "0.5", "--no-fifo", "--initiators", "3", "--json")
    one, same, other = (
        json.loads(run("--edges", tree, *options, "--seed", seed).stdout) for seed in ("1", "1", "2")
    )
    assert one == same
    assert one["time"] != other["time"]
    assert (one["seat"], one["eccentricity"]) == (other["seat"], other["eccentricity"])


@pytest.mark.parametrize(
    ("arguments", "stdin", "reason"),
    [
        ((), "a,b\nb,c\nc,a\n", "standard input:3: the link c,a closes a cycle: c - b - a - c"),
        ((), "a,b\nc,d\n", "standard input has 2 parts that no link joins: a, b; c, d"),
        ((), "a,b\nb,c,d\n", "standard input:2: 3 fields"),
        ((), "", "standard input names no broker"),
        (("--protocol", "paper", "--strategy", "traffic"), TREE, "carry eccentricities and no weights"),
        (("--protocol", "gossip"), TREE, "there are report, paper"),
        (("--strategy", "middle"), TREE, "there are centre, median, traffic"),
        (("--initiators", "9"), TREE, "9 brokers cannot begin; there are 7"),
        (("--delay-jitter", "-1"), TREE, "give a share of the delay"),
        (("--weights", "w.csv"), TREE, "--weights are for --strategy traffic"),
        (("--strategy", "traffic", "--weights", "-"), TREE, "both read standard input"),
        (("--strategy", "traffic", "--weights", "none.csv"), TREE, "none.csv cannot be read: No such file"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_the_reason(
    arguments: tuple[str, ...], stdin: str, reason: str
) -> None:
    result = run("--edges", "-", *arguments, stdin=stdin)
    assert isinstance(result.exception, InputError)
    assert reason in str(result.exception)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tree.csv"
    file.write_bytes(b"\xff\xfe,b\n")
    result = run("--edges", str(file))
    assert isinstance(result.exception, InputError)
    assert "is not UTF-8" in str(result.exception)
