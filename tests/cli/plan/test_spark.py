"""`tidings plan` from records and workloads as a user runs it."""

from __future__ import annotations

import json
import random
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tests.records import workloads as made
from tidings.cli import app
from tidings.errors import InputError
from tidings.pipeline import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "start", lambda *_, **__: nullcontext(spark))


def run(*words: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


def planned(*words: str | Path) -> Any:
    return json.loads(run("plan", *words, "--json"))


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows, source = made.drawn(12, subscriptions=60, events=40), random.Random(4)
    rows["requests"] = [
        {
            "client": source.randrange(made.CLIENTS),
            "topic": source.choice(made.TOPICS),
            "at": made.START_US + source.randrange(60) * made.SECOND_US,
            "where": "TRUE",
            "since": made.START_US,
            "until": made.START_US,
        }
        for _ in range(50)
    ]
    return made.write(tmp_path_factory.mktemp("workload"), parts=2, **rows)


def test_a_workload_is_planned_for_stores_as_from_plain_files(workload: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    plan = planned("stores", "--workload", workload, "--k", "1", "--capacity", "1", "--out", out)
    assert json.loads(out.read_text(encoding="utf-8")) == plan
    assert set(plan["assignment"]) == set(made.TOPICS)
    assert sum(plan["rates"].values()) * plan["settings"]["source"]["seconds"] == pytest.approx(50)
    assert plan["settings"]["source"]["workload"] == str(workload)
    assert plan["network"]["brokers"] == list(made.BROKERS)
    # The same from plain files.
    links, rates = tmp_path / "links.csv", tmp_path / "rates.csv"
    links.write_text("".join(f"{a},{b}\n" for a, b, _ in plan["network"]["links"]), encoding="utf-8")
    seconds = plan["settings"]["source"]["seconds"]
    homes = {row["client"]: row["broker"] for row in made.drawn(12, subscriptions=60, events=40)["clients"]}
    source = random.Random(4)
    lines = []
    for _ in range(50):
        client, topic = source.randrange(made.CLIENTS), source.choice(made.TOPICS)
        source.randrange(60)
        lines.append(f"{topic},{homes[client]},{1 / seconds!r}\n")
    rates.write_text("".join(lines), encoding="utf-8")
    plain = planned("stores", "--edges", links, "--rates", rates, "--k", "1", "--capacity", "1")
    assert (plain["assignment"], plain["votes"]) == (plan["assignment"], plan["votes"])


@pytest.mark.slow
def test_a_plan_of_stores_is_checked_with_requests_of_now(workload: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    run("plan", "stores", "--workload", workload, "--k", "2", "--capacity", "2", "--out", out)
    checked = json.loads(run("plan", "check", out, "--workload", workload, "--json"))
    assert checked["valid"]
    assert checked["unseen"] == []
    assert checked["mean_hops"]["now"] == pytest.approx(checked["mean_hops"]["planned"])


@pytest.mark.slow
def test_a_workload_is_planned_for_moves_and_the_plan_is_checked(workload: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    words = (
        "communities",
        "--workload",
        workload,
        "--clusters",
        "2",
        "--algorithm",
        "search",
        "--overload",
        "2",
    )
    plan = planned(*words, "--out", out)
    assert plan["hops"]["after"] < plan["hops"]["before"]
    assert plan["settings"]["source"]["pairs"] == plan["settings"]["source"]["kept_pairs"] > 20
    assert plan["settings"]["clusters"] == "derived"
    assert json.loads(run("plan", "check", out, "--workload", workload, "--json"))["valid"]
    homes = tmp_path / "homes.csv"
    homes.write_text("".join(f"{move['client']},{move['to']}\n" for move in plan["moves"]), encoding="utf-8")
    wrong = json.loads(run("plan", "check", out, "--workload", workload, "--homes", homes, "--json", code=1))
    assert wrong["changes"] == {"client moved already": len(plan["moves"])}
    assert "clients to another cluster" in run("plan", *words)


@pytest.mark.slow
def test_a_simulated_network_is_planned_from_its_records_and_from_its_traffic(tmp_path: Path) -> None:
    records, data = tmp_path / "records", tmp_path / "data"
    small = ("--topology", "tree", "--brokers", "5", "--subscriptions", "20", "--publications", "60")
    run("simulate", *small, "--seed", "1", "--records", records)
    run("pipeline", "traffic", "--records", records, "--data", data)
    words = ("--clusters", "2", "--overload", "3")
    plan = planned("communities", "--records", records, *words)
    again = planned("communities", "--records", data, *words, "--hours", "1")
    assert plan["settings"]["source"].pop("records") == str(records)
    assert again["settings"]["source"].pop("records") == str(data)
    assert plan == again
    assert len(plan["network"]["links"]) == 4
    assert plan["hops"]["before"] > 2
    with pytest.raises(InputError, match="nobody asked for the history of a topic"):
        run("plan", "stores", "--records", data, "--k", "1", "--capacity", "5")
    with pytest.raises(InputError, match="there are some from hour 0 to the end of hour 0"):
        run("plan", "communities", "--records", data, "--from", "2026-11-16")
