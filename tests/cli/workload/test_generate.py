"""`tidings workload generate`: a folder that is whole, or says what is wrong before anything is written."""

from __future__ import annotations

import json
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tidings.cli import app
from tidings.cli.pipeline import stages
from tidings.cli.workload import generate as cli_workload
from tidings.errors import InputError
from tidings.language.declarations import read_topic
from tidings.pipeline import session
from tidings.records import workload as tables
from tidings.records.workload_reading import Workload
from tidings.workload import reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = ["--subscriptions", "300", "--events", "40", "--brokers", "6", "--requests", "10"]


def generate(*arguments: str) -> Any:
    done = CliRunner().invoke(app, ["workload", "generate", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Commands use the session of the tests, and leave it running."""
    monkeypatch.setattr(session, "start", lambda *_, **__: nullcontext(spark))
    return spark


def never(*_: object, **__: object) -> None:
    raise AssertionError("Spark is started")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--master", "local[x]"], r"master 'local\[x\]' is unknown"),
        (["--subscriptions", "-1"], r"sizes.subscriptions is -1; give a whole number from 0"),
        (["--set", "diffusion.p=1.5"], r"diffusion.p is 1.5; give a number from 0 to 1"),
        (["--set", "diffusion.q=1"], r"diffusion.q"),
        (["--set", "removal.top"], r"--set 'removal.top' is not KEY=VALUE"),
        (["--set", "removal.threshold=1"], r"no interest has members after the removal"),
        (["--spec", "absent.toml"], r"absent.toml"),
        (["--counts", "absent.csv"], r"absent.csv"),
        (["--latency", "absent.csv"], r"absent.csv"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "start", never)
    with pytest.raises(InputError, match=says):
        generate(*arguments, "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_told_to_end_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    drafts: list[str] = []

    def run(*_: object, **__: object) -> None:
        drafts.extend(file.name for file in out.iterdir())
        signal.raise_signal(number)

    monkeypatch.setattr(stages, "run", run)
    earlier = signal.signal(number, signal.SIG_DFL)  # with `nohup` it is ignored, and stays so
    try:
        assert generate(*SMALL, "--out", str(out)).exit_code == 128 + number
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, earlier)
    assert drafts[0].startswith(".draft-")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_has_something_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "start", never)
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(InputError, match="exists and is not empty; name another folder"):
        generate("--out", str(tmp_path))
    with pytest.raises(InputError, match="is not a folder"):
        generate("--out", str(tmp_path / "letter.txt"))
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.spark
@pytest.mark.usefixtures("shared")
def test_a_workload_has_its_tables_its_topics_and_its_spec(tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = json.loads(generate(*SMALL, "--seed", "5", "--out", str(out), "--json").stdout)
    rows = {one["table"]: one["rows"] for one in told["tables"]}
    assert set(rows) == set(tables.TABLES)
    assert rows["subscriptions"] == rows["clients"] == 300
    assert rows["brokers"] == 6
    assert rows["requests"] == 10
    assert 0 < told["position_error"] < 0.2
    subscribed = pq.read_table(out / "subscriptions")
    assert subscribed.num_rows == 300
    declared = {read_topic(file).name for file in sorted((out / tables.DECLARATIONS).glob("*.toml"))}
    assert set(subscribed["topic"].to_pylist()) <= declared | {"subject/+"}
    spec = reading.read(out / "workload.toml")
    assert (spec.seed, spec.sizes.brokers) == (5, 6)

    with pytest.raises(InputError, match="exists and is not empty"):
        generate(*SMALL, "--out", str(out))
    generate(*SMALL, "--seed", "5", "--out", str(out), "--overwrite")
    again = pq.read_table(out / "subscriptions").sort_by("subscription")
    assert again.equals(subscribed.sort_by("subscription"))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("death", ["before the declarations", "before the spec"])
def test_a_run_that_dies_behind_its_last_table_leaves_a_workload_that_is_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, death: str
) -> None:
    out = tmp_path / "out"
    generate(*SMALL, "--seed", "5", "--out", str(out))
    Workload(out)

    def die(draft: Path, folder: Path) -> None:
        if death == "before the spec":
            (folder / tables.DECLARATIONS).replace(draft / "before")
            (draft / tables.DECLARATIONS).replace(folder / tables.DECLARATIONS)
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(cli_workload, "finish", die)
        with pytest.raises(MemoryError):
            generate(*SMALL, "--seed", "6", "--out", str(out), "--overwrite")
    with pytest.raises(InputError, match=r"out is not finished: .* another spec than brokers; make them "):
        Workload(out)
    generate(*SMALL, "--seed", "6", "--out", str(out), "--overwrite")
    Workload(out)
