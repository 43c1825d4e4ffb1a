"""A workload's folder becomes a table, the same by both ways, and the same as the plain command says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from typer.testing import CliRunner

from tests.records import workloads as made
from tidings.cli import app
from tidings.errors import InputError
from tidings.pipeline.match import job as match_job
from tidings.pipeline.match.cost_model import Way
from tidings.pipeline.match.job import Job
from tidings.pipeline.match.strategies import Form
from tidings.pipeline.tables import VERSIONS, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("way", list(Way))
def test_the_table_has_the_answers_of_the_plain_command(
    spark: SparkSession, tmp_path: Path, way: Way
) -> None:
    rows = made.drawn(12, subscriptions=300, events=60)
    texts = [
        made.subscription(1000, where="subject > 500 OR language = 3", subject=None, language=None),
        made.subscription(1001, topic="#", where="severity IS NOT NULL", subject=None, language=None),
    ]
    made.write(tmp_path, parts=3, subscriptions=[*rows["subscriptions"], *texts], events=rows["events"])
    said = CliRunner().invoke(app, ["match", "--workload", str(tmp_path)])
    wanted = sorted((line["event"], line["matches"]) for line in map(json.loads, said.stdout.splitlines()))
    job = Job(tmp_path, memory_bytes=20_000, cores=2, way=way)
    assert (job.choice.depth > 0) == (way is Way.CELLS)
    store = Store(tmp_path / "data")
    done = job.run(spark, store, Form.LISTS, master="local[2]")
    found = ds.dataset(store.path("matches"), format="parquet").to_table().to_pylist()
    assert done.rows == len(found) == 60
    assert sorted((row["event"], row["subscriptions"]) for row in found) == wanted
    assert not list((store.folder / VERSIONS).glob("match-*"))


@pytest.mark.spark
@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"subscription": 5}, "subscription 5 is there twice; numbers must differ"),
        *(
            pytest.param(wrong, says, marks=pytest.mark.slow)
            for wrong, says in (
                ({"subject_lo": 9, "subject_hi": 2}, "subscription 1000 has subject_lo 9 above subject_hi 2"),
                ({"unknown": "hope"}, "subscription 1000 has unknown 'hope'; write 'wait' or 'assume'"),
                ({"unknown": None}, "subscription 1000 has no unknown; every row needs one"),
                ({"topic": "a/#/b"}, "subscription 1000: .* has '#' in the middle"),
                ({"subject_lo": None, "where": "subject >"}, "subscription 1000: the filter cannot be read"),
                ({"subject_lo": None, "where": "sport = 1"}, "subscription 1000: .*sport"),
                ({"subject_lo": None, "where": None}, "subscription 1000 has neither a rectangle"),
                ({"from_at": 7, "until_at": 5}, "subscription 1000 ends at 5, before it begins at 7"),
            )
        ),
    ],
)
def test_a_wrong_table_is_refused_whichever_way_is_taken(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: Way,
    wrong: dict[str, Any],
    says: str,
) -> None:
    rows = made.drawn(12, subscriptions=300, events=60)
    odd = {**made.subscription(1000), **wrong}
    made.write(tmp_path, parts=3, subscriptions=[*rows["subscriptions"], odd], events=rows["events"])
    # In the sample that is looked at first, and where only the run itself comes upon it.
    for sample in (2000, 1):
        monkeypatch.setattr(match_job, "SAMPLE_SUBSCRIPTIONS", sample)
        with pytest.raises(InputError, match=f"subscriptions: {says}"):
            Job(tmp_path, memory_bytes=20_000, cores=2, way=way).run(
                spark, Store(tmp_path / "data"), Form.COUNTS, master="local[2]"
            )
    assert Store(tmp_path / "data").version("match_counts") is None
