"""The benchmark of the pipeline: what it generates, and that each of its jobs runs. No time is looked at."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest
from benchmarks.pipeline_growth import series
from benchmarks.pipeline_measuring import Bench, Row, Used

from benchmarks import pipeline, pipeline_connector, pipeline_gather, pipeline_match, pipeline_traffic
from tidings.mqtt.codec import Decoder
from tidings.mqtt.packets import Publish, Version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "work").mkdir()
    return Bench(tmp_path / "work", tmp_path / "inputs", cores=2, memory="1g")


# What is measured.


def test_what_a_process_has_used_counts_after_its_end(tmp_path: Path) -> None:
    def runs(pid: int, parent: int, ticks: int, begun: int = 7) -> None:
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        said = ["S", parent, *[0] * 9, ticks, 1, 1000, 1000, *[0] * 4, begun]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) {' '.join(map(str, said))}")

    per_s = os.sysconf("SC_CLK_TCK")
    used = Used(1, tmp_path)
    for pid, parent in ((1, 0), (2, 1), (3, 2), (9, 0)):
        runs(pid, parent, 9)
    assert used.look() * per_s == 30  # without that which is not below
    shutil.rmtree(tmp_path / "3")
    runs(2, 1, 19)
    assert used.look() * per_s == 40
    runs(3, 2, 4, begun=8)  # another of the same number
    assert used.look() * per_s == 45


# What is generated.


def test_reports_come_in_the_order_of_time_and_ten_of_each_event(monkeypatch: pytest.MonkeyPatch) -> None:
    # Small, so that reports of one portion of events wait for those of the next.
    monkeypatch.setattr(pipeline_gather, "OPEN", 70)
    files = list(pipeline_gather.in_time(500, 64))
    assert {some.shape[1] for some in files[:-1]} == {64}
    event, place, at = np.concatenate(files, axis=1)
    assert (np.diff(at) >= 0).all()
    assert Counter(zip(event.tolist(), place.tolist(), strict=True)) == Counter(
        (one, turn) for one in range(500) for turn in range(10)
    )


def test_a_report_says_a_fifth_of_the_fields_and_two_of_an_event_the_same(tmp_path: Path) -> None:
    some = np.array([[3, 3, 3], [0, 1, 5], [10, 20, 30]])
    pipeline_gather.write_file(some, tmp_path / "reports.parquet")
    one, other, again = (row["fields"] for row in pq.read_table(tmp_path / "reports.parquet").to_pylist())
    assert len(one) == 20
    assert [sum(value is not None for value in said.values()) for said in (one, other)] == [4, 5]
    assert again == one


def test_records_of_a_number_are_the_same_in_any_segment() -> None:
    whole = pipeline_traffic.segment(0, 400)
    assert pipeline_traffic.segment(250, 150).equals(whole.slice(250))


def test_fewer_events_are_the_first_of_more(bench: Bench) -> None:
    few = pq.read_table(pipeline_match.events(bench, 100)[0])
    more = pq.read_table(pipeline_match.events(bench, 300)[0])
    assert more.slice(0, 100).equals(few)


def test_what_is_published_is_a_packet_of_all_fields() -> None:
    made = pipeline_connector.payload(7)
    assert json.loads(made)["place"] == 7
    assert list(json.loads(made)) == list(pipeline_gather.fields())


def test_a_publisher_puts_identifiers_into_packets_made_before() -> None:
    async def made() -> pipeline_connector.Publisher:
        return pipeline_connector.Publisher(1883, 10, rate=2.0)

    publisher = asyncio.run(made())
    decoder = Decoder(packet_bytes_max=1 << 20, version=Version.V5, client=False)
    decoder.feed(publisher.message(pipeline_connector.BLOCK + 3, 0, b"\x01\x02"))
    packet = decoder.next()
    assert isinstance(packet, Publish)
    assert (packet.topic, packet.packet_id, packet.qos) == (pipeline_connector.TOPIC, 0x102, 1)
    assert packet.payload == pipeline_connector.payload(3)
    assert publisher.due_ns(3) == 1_500_000_000


@pytest.mark.parametrize("entries", [0, 1, 999, 1_000, 2_345])
def test_the_sum_of_what_was_published_is_known(entries: int) -> None:
    places = [number % pipeline_connector.BLOCK for number in range(entries)]
    assert pipeline_connector.place_sum(entries) == sum(places)


# Files and figures.


def test_files_that_are_there_are_not_written_again(bench: Bench) -> None:
    paths = [bench.inputs / name for name in ("a", "b", "c")]
    bench.inputs.mkdir()
    paths[1].write_text("had")

    def write(path: Path) -> None:
        path.write_text("new")

    bench.written(paths, [write] * len(paths), "files")
    assert [path.read_text() for path in paths] == ["new", "had", "new"]
    assert sorted(bench.inputs.iterdir()) == paths
    assert paths[0].stat().st_mtime < paths[2].stat().st_mtime


def test_a_scratch_folder_goes_even_after_an_error(bench: Bench) -> None:
    def fail() -> None:
        with bench.scratch("some") as folder:
            (folder / "file").write_text("x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not list(bench.work.iterdir())


def point(grows: str, **more: int) -> Row:
    figures = {"rows": 10, "partitions": 2, **more}
    return Row(job="gather", what="batch", seconds=2.0, cpu_seconds=4.0, cores=2, grows=grows, **figures)  # type: ignore[arg-type]


def test_rates_are_by_the_clock_by_core_and_by_processor_second() -> None:
    row = point("")
    assert (row.per_s, row.per_core_s, row.per_cpu_s) == (5.0, 2.5, 2.5)


def test_a_series_has_the_points_of_its_kind_in_order() -> None:
    rows = [point("rows", rows=30), point("partitions", partitions=1), point("rows", rows=10), point("")]
    assert series(rows, "rows") == {"gather, batch, Spark": [rows[2], rows[0]]}
    assert series(rows, "subscriptions") == {}


def test_results_are_a_table_json_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline.conclude([point("rows"), point("partitions")], pipeline.QUICK, tmp_path)
    assert "gather" in capsys.readouterr().out
    assert (tmp_path / "pipeline.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads((tmp_path / "pipeline.json").read_text())
    assert [row["per_s"] for row in told["rows"]] == [5.0, 5.0]


def test_sizes_are_those_asked_for_and_jobs_come_in_their_order() -> None:
    given = pipeline.parsed(["traffic", "gather", "--full", "--reports", "10", "20", "--rate", "7"])
    assert given.jobs == ["gather", "traffic"]
    assert (given.sizes.reports, given.sizes.rate) == ((10, 20), 7)
    assert given.sizes.records == pipeline.FULL.records
    assert pipeline.parsed([]).jobs == list(pipeline.JOBS)


@pytest.mark.parametrize(
    ("arguments", "expected"), [(["gathering"], "there are gather, match"), (["--prepare"], "--inputs DIR")]
)
def test_what_cannot_be_done_is_refused(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        pipeline.parsed(arguments)
    assert expected in capsys.readouterr().err


# The jobs.

TINY = pipeline.parsed(
    shlex.split(
        "--reports 4000 --stream 5000 --records 4000 --events 3000 --written 1000 --entries 3000 --rate 200 "
        "--subscriptions 500 --peer-rows 4000 --growth-rows 2000 4000 --growth-partitions 3 "
        "--growth-subscriptions 50 --growth-fixed 2000"
    )
).sizes


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pipeline_gather, pipeline_traffic, pipeline_match):
        monkeypatch.setattr(module, "FILE_ROWS", 1_000)
    monkeypatch.setattr(pipeline_gather, "MICRO_ROWS", 1_000)
    monkeypatch.setattr(pipeline_match, "PEER_EVENTS", 1_000)
    monkeypatch.setattr(pipeline_connector, "BATCH_ROWS", 500)
    monkeypatch.setattr(pipeline_connector, "LIVE_S", 3.0)
    monkeypatch.setattr(pipeline_connector, "SMALLEST_BATCHES", 2)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("job", list(pipeline.JOBS))
def test_each_job_runs_agrees_with_its_peer_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path, job: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with closing(Bench(work, tmp_path / "inputs", cores=2, memory="1g", spark=spark)) as bench:
        pipeline.JOBS[job](bench, TINY)
    assert bench.rows
    assert all(row.rows and row.seconds for row in bench.rows)
    assert all(path.name.startswith("index-") for path in work.iterdir())
