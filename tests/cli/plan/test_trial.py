"""`tidings plan try` and the page of `tidings plan show`, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from tests.records import workloads as made
from tests.sim import plan_towns as towns
from tidings.cli import app
from tidings.errors import InputError
from tidings.planning.plans import MovesPlan

HOMES = {"0": "b2", "1": "b3", "2": "b3"}
FLOWS = [("0", "1", 5.0), ("0", "2", 5.0)]
STORES = "examples/plans/stores.json"


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["plan", *map(str, words)])


def refusal(*words: str | Path) -> str:
    result = run(*words)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


def printed(*words: str | Path) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_bytes(msgspec.json.encode(towns.plan(towns.RING, HOMES, {"1": "b2"}, FLOWS)))
    return path


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    return towns.events(tmp_path / "workload")


def test_moves_are_tried_with_brokers_and_a_page_is_written(
    plan: Path, workload: Path, tmp_path: Path
) -> None:
    result = run("try", plan, "--workload", workload, "--out", tmp_path / "page")
    assert result.exit_code == 0, result.output
    told = " ".join(result.stdout.split())
    assert "along the tree of the topic" in told
    assert "nothing was lost and nothing came twice, before and after" in told
    assert (tmp_path / "page" / "steps.png").is_file()
    assert "This plan says which clients go" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")


def test_forecast_and_measured_are_there_as_json(plan: Path, workload: Path) -> None:
    told = printed("try", plan, "--workload", workload, "--seed", "4")
    assert (told["kind"], told["broker_code"], told["breaches"]) == ("communities", True, [])
    assert told["hops"][0] == {"reason": "forecast", "before": 3.0, "after": 2.5}
    assert told["hops"][-1] == {"reason": "measured", "before": 5.0, "after": 3.5}
    link = next(one for one in told["links"] if (one["a"], one["b"]) == ("b0", "b3"))
    assert link["measured"] == {"before": 5.0, "after": 5.0}


def test_a_network_from_a_file_is_run_on_instead(workload: Path, tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    links = "".join(f'[[link]]\nbetween = ["{a}", "{b}"]\n' for a, b in towns.PATH)
    file.write_text(
        "".join(f'[[broker]]\nid = "{name}"\n' for name in made.BROKERS) + links, encoding="utf-8"
    )
    path = tmp_path / "path.json"
    planned: MovesPlan = towns.plan(towns.PATH, HOMES, {"1": "b2"}, FLOWS)
    path.write_bytes(msgspec.json.encode(planned))
    told = printed("try", path, "--workload", workload, "--network", file)
    assert told["hops"][-1] == {"reason": "measured", "before": 3.0, "after": 2.5}
    assert "the link b0,b3 is new" in refusal("try", path, "--workload", workload)


def test_requests_come_from_a_file_or_from_the_workload(tmp_path: Path) -> None:
    told = printed("try", STORES, "--requests", "examples/plans/rates.csv")
    assert (told["kind"], told["broker_code"]) == ("stores", False)
    assert told["steps"][-1]["hops"] == pytest.approx(told["steps"][0]["hops"])
    rows = towns.rows([("1", "2"), ("2", "4"), ("2", "3"), ("3", "5"), ("5", "6")], ["1", "6"])
    rows["brokers"] = [made.broker(name) for name in "123456"]
    asked = [
        {"client": client, "topic": "a", "at": 1, "where": "TRUE", "since": 0, "until": 1}
        for client in (0, 1, 1)
    ]
    folder = made.write(tmp_path, **rows, requests=asked)
    told = printed("try", STORES, "--workload", folder)
    assert told["entered"] == {"1": 1, "2": 0, "3": 0, "4": 0, "5": 0, "6": 2}
    assert told["steps"][-1] == {"reason": "measured", "hops": pytest.approx(5 / 3)}
    text = run("try", STORES, "--workload", folder).stdout
    assert "This is not broker code" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("{plan}",), "give the one it was made for: --workload"),
        (("{plan}", "--workload", "{folder}", "--requests", "x.csv"), "--requests is for a plan of stores"),
        (("{plan}", "--workload", "{folder}", "--speed-up", "0"), "--speed-up is 0"),
        (("{plan}", "--workload", "{folder}", "--publish", "all"), "--publish is 'all'"),
        ((STORES,), "tried with one of them"),
        ((STORES, "--workload", "{folder}", "--requests", "x.csv"), "both say what is asked for"),
        ((STORES, "--workload", "{folder}"), "has no table 'requests'"),
        ((STORES, "--requests", "{folder}/none.csv"), "cannot be read"),
        ((STORES, "--requests", "{folder}/half.csv"), "so give whole numbers from 0 up"),
        ((STORES, "--requests", "{folder}/word.csv"), "give a number"),
        ((STORES, "--requests", "{folder}/many.csv"), "more than 10,000,000 requests"),
        ((STORES, "--workload", "{folder}", "--publications", "3"), "--publications is for a plan of moves"),
        ((STORES, "--workload", "{folder}", "--network", "n.toml"), "--network is for a plan of moves"),
    ],
)
def test_what_cannot_be_tried_is_refused(
    plan: Path, workload: Path, words: tuple[str, ...], says: str
) -> None:
    for name, line in (("half", "a,1,0.5"), ("word", "a,1,some"), ("many", "a,1,1e9")):
        (workload / f"{name}.csv").write_text(line + "\n", encoding="utf-8")
    assert says in refusal("try", *(word.format(plan=plan, folder=workload) for word in words))


def test_a_plan_is_shown_with_a_page_or_says_how_to_get_one(tmp_path: Path) -> None:
    assert f"tidings plan show {STORES} --page DIR" in run("show", STORES).stdout
    result = run("show", STORES, "--page", tmp_path / "mine.html")
    assert result.exit_code == 0, result.output
    assert str(tmp_path / "mine.html") in "".join(result.stdout.split())
    assert (tmp_path / "mine-topics.png").is_file()
    (tmp_path / "taken").write_text("", encoding="utf-8")
    assert "cannot be written" in refusal("show", STORES, "--page", tmp_path / "taken")


def test_names_are_shown_as_text_and_warnings_below(plan: Path) -> None:
    named = json.loads(plan.read_bytes())
    hostile = "[/red] \x1b[31m"
    moves = [{**named["moves"][0], "client": hostile}]
    changed = {**named, "moves": moves, "algorithm": hostile, "warnings": ["[b]few[/b] pairs"]}
    changed["network"]["clusters"] = dict.fromkeys(named["network"]["brokers"], "all")
    plan.write_text(json.dumps(changed), encoding="utf-8")
    result = run("show", plan)
    assert result.exit_code == 0, result.output
    assert "[/red] \N{REPLACEMENT CHARACTER}[31m" in result.stdout
    assert "\x1b" not in result.stdout
    assert "note: [b]few[/b] pairs" in result.stdout
    assert "backbone" not in result.stdout
