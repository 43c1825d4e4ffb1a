"""Traffic in several runs: the same as in one, whatever comes late, twice, or not to its end."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from tests.judges.traffic_counts import Row, unique
from tests.pipeline.traffic import drawn
from tests.records.samples import say_format
from tidings.errors import InputError
from tidings.pipeline.tables import TRAFFIC, Store
from tidings.pipeline.traffic import ledger
from tidings.records import traffic
from tidings.records.record import Kind, Record
from tidings.records.traffic import HOUR_US

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidings.pipeline.traffic.running import Outcome

pytestmark = pytest.mark.spark


def run(spark: SparkSession, records: Path, data: Path) -> Outcome:
    from tidings.pipeline.traffic import running

    return running.run(spark, records, Store(data))


def tables(data: Path) -> dict[str, list[Row]]:
    """All tables but that of records, as they lie on the disk."""
    found = {}
    for name in traffic.TABLES:
        if name != traffic.RECORDS:
            columns = traffic.schemas()[name].names
            read = ds.dataset(data / "traffic" / name, format="parquet", partitioning="hive")
            # Where there is no row there is no file, and no column.
            rows = read.to_table(columns=columns).to_pylist() if read.files else []
            found[name] = sorted((tuple(row.values()) for row in rows), key=repr)
    return found


def files(data: Path) -> dict[str, int]:
    """The files of a version, each with the number by which a file system knows it."""
    folder = data / "traffic"
    return {str(file.relative_to(folder)): file.stat().st_ino for file in folder.rglob("*.parquet")}


@pytest.mark.slow
def test_records_that_come_in_many_runs_late_and_twice_make_what_one_run_makes(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = drawn.records(5, 600)
    source = random.Random(1)
    parts = [[one for one in rows if one.n % 4 == part] for part in range(4)]
    source.shuffle(parts)
    for number, part in enumerate(parts):
        # Some of what came before comes again, under another name.
        drawn.segment(tmp_path / "records", f"part{number}", [*part, *parts[0][:20]])
        outcome = run(spark, tmp_path / "records", tmp_path / "data")
        assert (outcome.segments, outcome.known, outcome.version) == (1, number, number + 1)
        assert outcome.records == len(part)
        assert outcome.repeated == 20
    assert tables(tmp_path / "data") == drawn.judged(unique(rows))
    kept = ds.dataset(tmp_path / "data" / "traffic" / "records", format="parquet").to_table()
    assert sorted(kept["n"].to_pylist()) == list(range(600))


@pytest.mark.slow
def test_a_run_makes_the_hours_that_it_touches_and_links_all_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [one for one in drawn.records(6, 900, hours=9) if one.kind is not Kind.DELIVERED]
    late = [one for one in rows if one.at // HOUR_US == 7 and one.n % 3 == 0]
    drawn.segment(tmp_path / "records", "a", [one for one in rows if one not in late])
    run(spark, tmp_path / "records", tmp_path / "data")
    before = files(tmp_path / "data")
    drawn.segment(tmp_path / "records", "b", late)
    outcome = run(spark, tmp_path / "records", tmp_path / "data")
    assert (outcome.hours, outcome.linked) == (3, 6), "the hour itself, and those beside it"
    after = files(tmp_path / "data")
    same = {name for name, number in before.items() if after.get(name) == number}
    hours = {name.split("/")[1] for name in before.keys() - same}
    assert hours == {"hour=6", "hour=7", "hour=8"}
    assert {name for name in before if name.startswith("records/")} <= same, "records are never written twice"
    assert tables(tmp_path / "data") == drawn.judged(unique(rows))
    folder = tmp_path / "data" / "traffic"
    assert {path.name for path in folder.iterdir() if path.is_dir()} == set(TRAFFIC)
    links = spark.read.parquet(str(folder / "links"))
    assert links.count() == outcome.rows["links"]
    assert set(links.columns) == set(traffic.schemas()["links"].names)


@pytest.mark.slow
def test_a_large_segment_of_one_hour_is_kept_as_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidings.pipeline.traffic import running

    monkeypatch.setattr(running, "LINKED_ROWS_MIN", 50)
    rows = drawn.records(12, 500, hours=2)
    hour = [[one for one in rows if one.at // HOUR_US == at] for at in range(2)]
    first = drawn.segment(tmp_path / "records", "a", hour[0][50:])
    drawn.segment(tmp_path / "records", "b", [*hour[0][:40], *hour[1][:100]])
    assert run(spark, tmp_path / "records", tmp_path / "data").records == len(hour[0]) - 10 + 100
    kept = files(tmp_path / "data")
    assert kept[f"records/hour=0/{first.name}"] == first.stat().st_ino
    # One that came before, in part, and has grown.
    first.unlink()
    drawn.segment(tmp_path / "records", "a", hour[0][40:])
    second = drawn.segment(tmp_path / "records", "c", hour[1][100:])
    outcome = run(spark, tmp_path / "records", tmp_path / "data")
    assert (outcome.segments, outcome.repeated) == (2, len(hour[0]) - 50)
    again = files(tmp_path / "data")
    assert again[f"records/hour=0/{first.name}"] == kept[f"records/hour=0/{first.name}"]
    assert f"records/hour=1/{second.name}" not in again, "some came twice in this run"
    assert tables(tmp_path / "data") == drawn.judged(unique(rows))


@pytest.mark.slow
def test_a_late_report_finds_the_deliveries_of_its_version_hours_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    def record(n: int, hour: int, kind: Kind, **more: Any) -> Record:
        return Record("a", 1, n, hour * HOUR_US, kind, "roads", f"m{n}", 5, "e1", 1, **more)

    first = record(1, 0, Kind.OPENED, publisher="p1", report="r1")
    snapshot = record(2, 6, Kind.DELIVERED, receivers=("s1", "s2"))
    drawn.segment(tmp_path / "records", "a", [first, snapshot])
    run(spark, tmp_path / "records", tmp_path / "data")
    drawn.segment(tmp_path / "records", "b", [record(3, 0, Kind.MERGED, publisher="p2", report="r2")])
    outcome = run(spark, tmp_path / "records", tmp_path / "data")
    assert (outcome.hours, outcome.linked) == (2, 0)
    assert tables(tmp_path / "data")[traffic.MESSAGES] == [
        ("p1", "s1", 1, 1, 6),
        ("p1", "s2", 1, 1, 6),
        ("p2", "s1", 1, 1, 6),
        ("p2", "s2", 1, 1, 6),
    ]


@pytest.mark.slow
def test_what_was_read_is_not_read_again_and_what_its_broker_removed_is_not_forgotten(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = drawn.records(7, 300)
    first = drawn.segment(tmp_path / "records", "a", rows[:200])
    run(spark, tmp_path / "records", tmp_path / "data")
    outcome = run(spark, tmp_path / "records", tmp_path / "data")
    assert (outcome.version, outcome.segments, outcome.known, outcome.records) == (1, 0, 1, 0)
    first.unlink()
    drawn.segment(tmp_path / "records", "b", rows[200:])
    run(spark, tmp_path / "records", tmp_path / "data")
    assert tables(tmp_path / "data") == drawn.judged(unique(rows))


@pytest.mark.slow
def test_a_copy_of_a_segment_changes_nothing_but_the_ledger(spark: SparkSession, tmp_path: Path) -> None:
    first = drawn.segment(tmp_path / "records", "a", drawn.records(8, 200))
    run(spark, tmp_path / "records", tmp_path / "data")
    before = files(tmp_path / "data")
    copy = first.with_name(first.name.replace("a+", "b+", 1))
    shutil.copy(first, copy)
    outcome = run(spark, tmp_path / "records", tmp_path / "data")
    assert (outcome.segments, outcome.records, outcome.repeated, outcome.hours) == (1, 0, 200, 0)
    assert files(tmp_path / "data") == before
    read = json.loads((tmp_path / "data" / "traffic" / ledger.LEDGER).read_text())["segments"]
    assert list(read) == [first.name, copy.name]


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken",
    [
        traffic.LINKS,
        traffic.CONTRIBUTIONS,
        traffic.REQUESTS,
    ],
)
def test_a_run_that_dies_leaves_what_was_there_and_is_repeated_without_harm(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    from tidings.pipeline import tables as files_of_tables
    from tidings.pipeline.traffic import running

    rows = drawn.records(9, 300)
    drawn.segment(tmp_path / "records", "a", rows[:150])
    run(spark, tmp_path / "records", tmp_path / "data")
    before, was = files(tmp_path / "data"), tables(tmp_path / "data")
    drawn.segment(tmp_path / "records", "b", rows[150:])
    write = files_of_tables.write_files

    def fail(frame: Any, folder: Path, table: Any) -> None:
        write(frame, folder, table)
        if table.name == broken:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(running, "write_files", fail)
        with pytest.raises(KeyboardInterrupt):
            run(spark, tmp_path / "records", tmp_path / "data")
    assert (files(tmp_path / "data"), tables(tmp_path / "data")) == (before, was)
    # And one that could not even clean up.
    (tmp_path / "data" / ".versions" / "traffic" / "7").mkdir()
    outcome = run(spark, tmp_path / "records", tmp_path / "data")
    assert (outcome.records, outcome.known, outcome.version) == (150, 1, 8)
    assert tables(tmp_path / "data") == drawn.judged(unique(rows))


def test_a_folder_without_records_is_refused_with_the_way_out(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder; name the one that brokers write"):
        run(spark, tmp_path / "nowhere", tmp_path / "data")
    (tmp_path / "records").mkdir()
    with pytest.raises(InputError, match="has no closed segments of records"):
        run(spark, tmp_path / "records", tmp_path / "data")


def test_a_segment_of_another_format_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    say_format(drawn.segment(tmp_path / "records", "a", drawn.records(1, 3)), None)
    with pytest.raises(InputError, match="have no format, and this release reads format 2; read them with"):
        run(spark, tmp_path / "records", tmp_path / "data")
    assert Store(tmp_path / "data").version("traffic") is None


def test_a_file_that_is_no_segment_is_named(spark: SparkSession, tmp_path: Path) -> None:
    drawn.segment(tmp_path / "records", "a", drawn.records(1, 3)).write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match=r"a\+.*is not a segment of records"):
        run(spark, tmp_path / "records", tmp_path / "data")
    assert Store(tmp_path / "data").version("traffic") is None
