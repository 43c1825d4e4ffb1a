"""`tidings pipeline traffic` as a user runs it, on what `tidings simulate` has recorded."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from tidings.cli import app
from tidings.errors import InputError
from tidings.pipeline import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = ("--brokers", "4", "--subscriptions", "10", "--publications", "30", "--seed", "1")


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


@pytest.mark.spark
def test_records_of_a_simulation_become_tables_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "start", lambda *_, **__: nullcontext(spark))
    records, data = str(tmp_path / "records"), str(tmp_path / "data")
    simulated = json.loads(run("simulate", *SMALL, "--records", records, "--json"))["measures"]
    made = json.loads(run("pipeline", "traffic", "--records", records, "--data", data, "--json"))
    assert (made["version"], made["segments"], made["hours"]) == (1, 1, 1)
    assert made["records"] == made["rows"]["records"] == sum(simulated["records"].values())
    assert made["rows"]["brokers"] == 4
    again = run("pipeline", "traffic", "--records", records, "--data", data)
    assert "0 segments read, 1 known before; 0 records new" in again
    shown = json.loads(run("pipeline", "show", "traffic/brokers", "--data", data, "--json"))
    assert sum(row["delivered"] for row in shown["rows"]) == simulated["delivered"]
    assert "traffic/links" in run("pipeline", "show", "traffic/links", "--data", data)
    with pytest.raises(InputError, match="there is no 'link' in 'traffic'; there are: brokers, "):
        run("pipeline", "show", "traffic/link", "--data", data)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--records", "nowhere"), "nowhere is not a folder; name the one that brokers write"),
        (("--records", ".", "--master", "mine"), "master 'mine' is unknown"),
        (("--records", ".", "--set", "sizes.events=3"), "'sizes.events' is no setting of Spark's"),
        (("--records", ".", "--data", "s3a://x/y"), "is an address; give a path"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(
    arguments: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "start", lambda *_, **__: pytest.fail("Spark is started"))
    with pytest.raises(InputError, match=says):
        run("pipeline", "traffic", *arguments)
