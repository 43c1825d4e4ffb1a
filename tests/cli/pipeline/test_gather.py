"""`tidings pipeline gather` says what `tidings gather` says, of lines and of a workload's reports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tidings.cli import app
from tidings.errors import InputError, PayloadError
from tidings.gathering import Gatherer
from tidings.gathering.replay import Reader, run_out, summary
from tidings.language.declarations import read_topic
from tidings.language.payloads import INT_MIN
from tidings.language.reports import Report, Shape
from tidings.pipeline import session
from tidings.pipeline.gather import lines
from tidings.pipeline.gather.layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATHENS = ["--topic", "examples/traffic-athens.toml", "--reports", "examples/reports.jsonl"]

FOLLOWED = [*ATHENS[:2], "--follow", "--reports", "nowhere", "--checkpoint", "nowhere"]


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Commands use the session of the tests, and leave it running."""
    monkeypatch.setattr(session, "start", lambda *_, **__: nullcontext(spark))
    monkeypatch.chdir(root)


@pytest.mark.spark
@pytest.mark.usefixtures("shared")
def test_lines_are_gathered_and_refused_as_by_the_plain_command(tmp_path: Path) -> None:
    lines = Path(ATHENS[3]).read_text(encoding="utf-8").splitlines(keepends=True)
    wrong = [
        "\n",
        "{\n",
        '{"at": 7.5, "fields": {"severity": 2}}\n',
        '{"at": "x", "fields": {"place": "a"}}\n',
    ]
    path = tmp_path / "reports.jsonl"
    path.write_text("".join(lines[:2] + wrong + lines[2:] + ["[]\n"] * 3), encoding="utf-8")
    given = [*ATHENS[:3], str(path), "--json"]
    plain = CliRunner().invoke(app, ["gather", *given])
    done = CliRunner().invoke(app, ["pipeline", "gather", *given, "--data", str(tmp_path / "data")])
    found = json.loads(done.stdout)
    *told, last = map(json.loads, plain.stdout.splitlines())
    assert found["summary"] == last["summary"] | {"late": 0}
    assert found["engine"] == "kernel"
    rows = pq.read_table(tmp_path / "data" / "gathered").to_pylist()
    versions = {(str(row["event"]), row["version"]) for row in rows if row["state"] == "told"}
    assert versions == {(line["event"], line["version"]) for line in told}
    refused = {row["event"]: (row["at"], row["reason"]) for row in rows if row["state"] == "refused"}
    assert refused[5] == (7_500_000, "the key 'place' needs place, which the report does not have")
    said = [f"{path}:{number}: {reason}" for number, (_, reason) in sorted(refused.items())]
    assert len(said) == 7
    expected = [*said[:5], f"{path}: 2 more reports were refused"]
    assert done.stderr.splitlines() == plain.stderr.splitlines() == expected
    with pytest.raises(InputError, match=r"'gathered' is in .* already; --overwrite"):
        run("pipeline", "gather", *given, "--data", str(tmp_path / "data"))


@pytest.mark.spark
@pytest.mark.usefixtures("shared")
def test_two_kinds_of_time_in_one_file_are_refused_as_by_the_plain_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each line is a piece, so that no task sees both kinds.
    monkeypatch.setattr(lines, "PIECE_BYTES_MIN", 1)
    monkeypatch.setattr(lines, "PIECE_BYTES_MAX", 1)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 1)
    path, data = tmp_path / "reports.jsonl", tmp_path / "data"
    times = ["never", 7, 8, "2026-11-15T11:05:00Z", 9, "2026-11-15T11:06:00Z"]
    said = [{"at": at, "fields": {"place": "Omonia"}} for at in times]
    path.write_text("".join(json.dumps(line) + "\n" for line in said), encoding="utf-8")
    given = [*ATHENS[:3], str(path)]
    plain = CliRunner().invoke(app, ["gather", *given])
    assert plain.exit_code == 2
    with pytest.raises(InputError) as refused:
        run("pipeline", "gather", *given, "--partitions", "2", "--data", str(data))
    assert f"{path}:4: at is a time, but in line 2 it is seconds; write" in str(refused.value)
    assert str(refused.value) == plain.stderr.splitlines()[-1]
    assert not (data / "gathered").exists()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("shared")
def test_a_folder_of_files_is_gathered_as_a_table_is(files: Path, tmp_path: Path) -> None:
    of_files = ["pipeline", "gather", *ATHENS[:2], "--reports", str(files), "--data", str(tmp_path / "data")]
    found = json.loads(run(*of_files, "--json"))
    last = json.loads(run("gather", *ATHENS, "--json").splitlines()[-1])
    assert found["summary"] == last["summary"] | {"late": 0}
    (files / "0.parquet").write_text("none")
    with pytest.raises(InputError, match="has files that are no Parquet: "):
        run(*of_files, "--overwrite")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("shared")
def test_a_workload_is_gathered_by_its_own_declarations(tmp_path: Path) -> None:
    small = {"network.nodes": 12, "sizes.brokers": 4, "sizes.subscriptions": 50, "sizes.events": 40}
    settings = [part for key, value in small.items() for part in ("--set", f"{key}={value}")]
    run("workload", "generate", "--out", str(tmp_path), *settings)
    found = json.loads(run("pipeline", "gather", "--data", str(tmp_path), "--json"))
    assert found["summary"] == by_machine(tmp_path) | {"late": 0}


def by_machine(folder: Path) -> dict[str, int]:
    """Each topic by a gatherer of its own; how many were open at once is of all topics together."""
    reports = pq.read_table(folder / "reports").to_pylist()
    reports.sort(key=lambda row: (row["at"], row["report"]))
    gatherers: dict[str, Gatherer] = {}
    shapes: dict[str, Shape] = {}
    for file in (folder / "topics").glob("*.toml"):
        topic = read_topic(file)
        gatherers[topic.name], shapes[topic.name] = Gatherer(topic, now_us=INT_MIN), Shape(topic)
    most = 0
    for row in reports:
        for gatherer in gatherers.values():
            gatherer.advance(row["at"])
        name = row["topic"]
        fields: dict[str, Any] = {key: value for key, value in row["fields"].items() if value is not None}
        gatherers[name].feed(shapes[name].report(name, fields, report_id=str(row["report"]), at_us=row["at"]))
        most = max(most, sum(gatherer.open for gatherer in gatherers.values()))
    counts: dict[str, int] = {}
    for gatherer in gatherers.values():
        run_out(gatherer)
        for key, count in summary(gatherer.counts).items():
            counts[key] = counts.get(key, 0) + count
    return counts | {"max_open": most}


@pytest.fixture
def files(tmp_path: Path, root: Path) -> Path:
    """The reports of the example, as files that come into a folder."""
    topic = read_topic(root / "examples" / "traffic-athens.toml")
    layout, reader, folder = Layout(topic), Reader(topic), tmp_path / "in"
    folder.mkdir()
    taken, refused = list[Report](), list[int]()
    with (root / "examples" / "reports.jsonl").open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                taken.append(reader.read(number, json.loads(line)))
            except PayloadError:
                refused.append(number)
    bad = pa.array(refused, pa.int64())
    nothing = [bad if one.name == "report" else pa.nulls(len(bad), one.type) for one in layout.rows]
    rows = pa.concat_tables([layout.table(taken), pa.table(nothing, schema=layout.rows)]).combine_chunks()
    fields = layout.nested([rows.column(name).combine_chunks() for name in layout.names])
    table = pa.table({"report": rows["report"], "at": rows["at"], "fields": fields})
    half = table.num_rows // 2
    for number, some in enumerate([table.slice(0, half), table.slice(half)]):
        pq.write_table(some, folder / f"{number}.parquet")
    return folder


@pytest.mark.slow
@pytest.mark.spark
def test_a_stream_is_stopped_and_goes_on_and_tells_what_the_plain_command_tells(
    files: Path, tmp_path: Path, root: Path
) -> None:
    later = (files / "1.parquet").rename(tmp_path / "later.parquet")
    command = [sys.executable, "-c", "from tidings.cli import main; main()", "pipeline", "gather", "--follow"]
    command += [*ATHENS[:2], "--reports", str(files), "--checkpoint", str(tmp_path / "checkpoint")]
    command += ["--out", str(tmp_path / "told"), "--buckets", "2", "--master", "local[2]"]
    command += ["--set", "spark.driver.memory=1g"]
    going = subprocess.Popen([*command, "--lines"], cwd=root, stdout=subprocess.PIPE, text=True)
    assert going.stdout is not None
    first = going.stdout.readline()
    assert json.loads(first)["version"] == 1
    going.send_signal(signal.SIGINT)
    rest = going.stdout.read()
    assert going.wait() == 0
    later.rename(files / "1.parquet")
    done = subprocess.run(
        [*command, "--finish", "--json"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    *lines, last = run(
        "gather", "--topic", str(root / ATHENS[1]), "--reports", str(root / ATHENS[3]), "--json"
    ).splitlines()
    assert told["summary"] == json.loads(last)["summary"] | {"late": 0}
    assert told["finished"]
    expected = list(map(json.loads, lines))
    assert all(json.loads(line) in expected for line in [first, *rest.splitlines()])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--data", "nowhere"], "there are no declarations in nowhere/topics"),
        ([*ATHENS, "--set", "sizes.events=3"], "'sizes.events' is no setting of Spark's"),
        ([*ATHENS, "--master", "mesos://x"], "master 'mesos://x' is unknown"),
        ([*ATHENS, "--delay", "5s"], "--delay is for a stream; give --follow too"),
        ([*ATHENS, "--follow"], "--follow keeps what is open in a folder; name one: --checkpoint DIR"),
        ([*FOLLOWED, "--overwrite"], "--overwrite is not for a stream"),
        ([*FOLLOWED, "--delay", "5"], "--delay: '5' is not a duration"),
        (FOLLOWED, "nowhere has no Parquet files"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setattr(session, "start", lambda *_, **__: pytest.fail("Spark is started"))
    with pytest.raises(InputError, match=says):
        run("pipeline", "gather", *arguments)
