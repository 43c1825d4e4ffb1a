"""Tables on the disk: whole or as they were, whatever happens to the job that writes them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.pipeline import small
from tidings.errors import InputError, SetupError
from tidings.pipeline import tables
from tidings.pipeline.tables import MADE, TABLES, VERSIONS, Made, Store, Table, Written, reading
from tidings.records import workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([pa.field("number", pa.int64(), nullable=False), pa.field("word", pa.string())])
TABLE = Table("numbers", lambda _: SCHEMA, "nowhere")


def made(written: Written) -> Made:
    return Made(
        table="numbers",
        version=written.version,
        stage="numbers",
        spec={"seed": 1},
        seed=1,
        reads={},
        settings={},
        master="local",
        versions={},
        at="2026-11-15T00:00:00+00:00",
        rows=written.rows,
        bytes=written.bytes,
        files=written.files,
        seconds=1.0,
    )


def frame(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("id AS number", "CAST(id AS STRING) AS word")


def write(spark: SparkSession, store: Store, count: int, overwrite: bool = False) -> Made:
    with store.writing(["numbers"], overwrite):
        return store.write(frame(spark, count), TABLE, SCHEMA, made)


def numbers(store: Store) -> list[int]:
    return sorted(pq.read_table(store.folder / "numbers")["number"].to_pylist())


def test_every_table_of_a_workload_is_named_with_its_stage_and_columns() -> None:
    assert list(TABLES) == list(workload.TABLES)
    assert {table.stage for table in TABLES.values()} == {
        f"tidings.pipeline.workload.{name}" for name in TABLES
    }


@pytest.mark.spark
def test_spark_and_arrow_read_a_table_through_its_link(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path / "my data")
    assert write(spark, store, 7).rows == 7
    link = store.folder / "numbers"
    assert link.readlink() == Path(VERSIONS) / "numbers" / "1"
    assert spark.read.parquet(str(link)).count() == 7
    assert ds.dataset(link).count_rows() == 7
    assert numbers(store) == list(range(7))
    assert pq.read_schema(next(link.glob("*.parquet"))).names == ["number", "word"]
    assert pq.ParquetFile(next(link.glob("*.parquet"))).metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.spark
def test_a_folder_of_tables_may_be_moved(spark: SparkSession, tmp_path: Path) -> None:
    write(spark, Store(tmp_path / "here"), 3)
    (tmp_path / "here").rename(tmp_path / "there")
    assert numbers(Store(tmp_path / "there")) == [0, 1, 2]


@pytest.mark.spark
def test_a_table_is_replaced_only_if_that_is_said(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(spark, store, 3)
    with pytest.raises(InputError, match=r"'numbers' is in .* already; --overwrite replaces it"):
        write(spark, store, 4)
    assert write(spark, store, 4, overwrite=True).version == 2
    assert numbers(store) == [0, 1, 2, 3]


@pytest.mark.spark
def test_whoever_reads_a_version_may_finish_while_the_next_one_comes(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    write(spark, store, 3)
    reader = store.read(spark, "numbers", SCHEMA)
    write(spark, store, 4, overwrite=True)
    assert reader.count() == 3
    assert store.read(spark, "numbers", SCHEMA).count() == 4


@pytest.mark.spark
def test_the_version_before_is_kept_and_older_ones_are_not(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path)
    for count in (1, 2, 3):
        write(spark, store, count, overwrite=True)
    assert store.versions("numbers") == [2, 3]
    assert [store.made("numbers", version).rows for version in (2, 3)] == [2, 3]
    assert store.made("numbers").version == 3


@pytest.mark.spark
def test_what_a_dead_writer_left_is_removed_and_its_number_not_used_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    write(spark, store, 3)
    left = tmp_path / VERSIONS / "numbers" / "2" / "_temporary" / "part-0.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    assert numbers(store) == [0, 1, 2]
    assert store.versions("numbers") == [1]
    assert write(spark, store, 4, overwrite=True).version == 3
    assert sorted(path.name for path in (tmp_path / VERSIONS / "numbers").iterdir()) == ["1", "3"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("told", "meaning"),
    [("No space left on device", "the disk is full"), ("Disk quota exceeded", "the quota of disk space")],
)
def test_a_disk_that_fills_leaves_the_table_as_it_was(
    spark: SparkSession, tmp_path: Path, told: str, meaning: str
) -> None:
    store = Store(tmp_path)
    write(spark, store, 3)
    failing = spark.range(9).selectExpr(
        "id AS number", f"IF(id = 8, raise_error('java.io.IOException: {told}'), '') AS word"
    )
    says = rf"'numbers' cannot be written to .*: {meaning}.*as it was before"
    with pytest.raises(SetupError, match=says), store.writing(["numbers"], overwrite=True):
        store.write(failing, TABLE, SCHEMA, made)
    assert numbers(store) == [0, 1, 2]
    assert [path.name for path in (tmp_path / VERSIONS / "numbers").iterdir()] == ["1"]


@pytest.mark.spark
def test_a_stage_that_fails_at_first_leaves_no_table(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path)
    failing = spark.range(9).selectExpr("id AS number", "CAST(raise_error('no') AS STRING) AS word")
    with pytest.raises(Exception, match="no"), store.writing(["numbers"], overwrite=False):
        store.write(failing, TABLE, SCHEMA, made)
    assert store.names() == []
    assert not (tmp_path / "numbers").exists()


@pytest.mark.spark
def test_an_interruption_leaves_the_table_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(spark, store, 3)

    def interrupted(_: Written) -> Made:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), store.writing(["numbers"], overwrite=True):
        store.write(frame(spark, 9), TABLE, SCHEMA, interrupted)
    assert numbers(store) == [0, 1, 2]
    assert store.versions("numbers") == [1]


@pytest.mark.spark
@pytest.mark.parametrize(
    "columns",
    [
        ["id AS number"],
        ["CAST(id AS STRING) AS word", "id AS number"],
        ["CAST(id AS INT) AS number", "CAST(id AS STRING) AS word"],
        ["id AS Number", "CAST(id AS STRING) AS word"],
        ["id AS number", "CAST(id AS STRING) AS word", "1 AS more"],
    ],
)
def test_columns_other_than_the_tables_are_a_bug(
    spark: SparkSession, tmp_path: Path, columns: list[str]
) -> None:
    with pytest.raises(AssertionError, match=r"stage numbers made the columns .*; its table has"):
        tables.check_columns(spark.range(3).selectExpr(*columns), "numbers", SCHEMA)


@pytest.mark.spark
def test_a_null_where_none_may_be_is_a_bug_and_no_table(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path)
    holes = spark.range(4).selectExpr("IF(id = 2, NULL, id) AS number", "CAST(NULL AS STRING) AS word")
    with pytest.raises(AssertionError, match="1 rows without number"), store.writing(["numbers"], False):
        store.write(holes, TABLE, SCHEMA, made)
    assert store.names() == []


@pytest.mark.spark
def test_a_partitioned_table_has_a_folder_for_each_value(spark: SparkSession, tmp_path: Path) -> None:
    store, table = Store(tmp_path), replace(TABLE, partitioned_by=("word",))
    with store.writing(["numbers"], overwrite=False):
        assert store.write(frame(spark, 3), table, SCHEMA, made).rows == 3
    assert sorted(path.name for path in store.path("numbers").glob("word=*")) == [
        "word=0",
        "word=1",
        "word=2",
    ]
    found = store.read(spark, "numbers", SCHEMA).select("number", "word").collect()
    assert sorted(tuple(row) for row in found) == [(0, "0"), (1, "1"), (2, "2")]


@pytest.mark.spark
def test_a_version_says_what_made_it(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path)
    told = write(spark, store, 5)
    assert store.made("numbers") == told
    assert told.bytes == sum(file.stat().st_size for file in store.path("numbers").glob("*.parquet"))
    (store.path("numbers") / MADE).write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="does not say what made the table"):
        store.made("numbers")


# What is in the way. None of it needs Spark.


def put_folder(place: Path) -> None:
    place.mkdir()


def put_file(place: Path) -> None:
    place.write_text("mine", encoding="utf-8")


def put_link(place: Path) -> None:
    place.symlink_to("/tmp")


@pytest.mark.parametrize("put", [put_folder, put_file, put_link])
@pytest.mark.parametrize("overwrite", [True, False])
def test_what_is_not_a_table_of_ours_is_never_replaced(
    tmp_path: Path, put: Callable[[Path], None], overwrite: bool
) -> None:
    put(tmp_path / "numbers")
    with (
        pytest.raises(InputError, match=r"numbers .*move it away"),
        Store(tmp_path).writing(["numbers"], overwrite),
    ):
        pytest.fail("it is refused")
    assert os.path.lexists(tmp_path / "numbers")
    assert not (tmp_path / VERSIONS).exists()


def test_a_link_whose_version_is_gone_may_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "numbers").symlink_to(Path(VERSIONS) / "numbers" / "7")
    store = Store(tmp_path)
    assert store.names() == []
    with store.writing(["numbers"], overwrite=False):
        pass


def test_a_table_that_is_not_there_is_said_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no table 'numbers' in .*; there are: none"):
        Store(tmp_path).path("numbers")


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with (
        pytest.raises(InputError, match="is a file; name a folder"),
        Store(tmp_path / "file").writing(["a"], False),
    ):
        pytest.fail("it is refused")
    below = Store(tmp_path / "file" / "below")
    with (
        pytest.raises(SetupError, match=r"tables cannot be written to .*name a folder that can be"),
        below.writing(["a"], False),
    ):
        pytest.fail("it is refused")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_must_not_be_written_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    says = r"tables cannot be written to .*: Permission denied"
    with pytest.raises(SetupError, match=says), Store(tmp_path).writing(["a"], False):
        pytest.fail("it is refused")


@pytest.mark.parametrize(
    "address", ["hdfs://host/data", "s3a://bucket/data", "file:///data", Path("s3a://bucket")]
)
def test_addresses_are_refused_with_the_way_out(address: str | Path) -> None:
    with pytest.raises(InputError, match=r"is an address; give a path .* shared mount"):
        Store(address)


def test_names_that_spark_takes_for_patterns_are_refused() -> None:
    with pytest.raises(InputError, match=r"'\[\]' in 'data\[1\]' for a pattern"):
        Store("data[1]")


HOLDER = """
import sys
from tidings.pipeline.tables import Store
with Store(sys.argv[1]).writing(["numbers"], overwrite=False):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_process_writes_a_table_at_a_time_and_a_dead_one_holds_nothing(tmp_path: Path) -> None:
    half = tmp_path / VERSIONS / "numbers" / "1"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        half.mkdir(parents=True)
        says, other = rf"is being written by process {holder.pid} on ", Store(tmp_path)
        with pytest.raises(InputError, match=says), other.writing(["numbers"], overwrite=True):
            pytest.fail("it is refused")
        assert half.is_dir(), "what another writes is left alone"
        with Store(tmp_path).writing(["digits"], overwrite=True):
            pass
        holder.kill()
    with Store(tmp_path).writing(["numbers"], overwrite=True):
        assert not half.exists()


def test_the_small_pipelines_tables_say_their_columns() -> None:
    """Columns depend on the plain values, so a table knows a function."""
    assert small.TABLES["digits"].schema(small.Model()).names == ["digit", "count"]


def test_what_is_not_about_the_disk_is_not_called_so() -> None:
    assert tables.disk_trouble(ValueError("a bug")) is None
    assert tables.disk_trouble(OSError(28, "No space left on device")) == "the disk is full"


@pytest.mark.parametrize(
    "said",
    [
        "[FAILED_READ_FILE.FOOTER] Encountered error while reading file file:/a b/c.parquet. Could not",
        ": X: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///a b/c.parquet.  S",
    ],
)
def test_a_file_that_spark_cannot_read_is_named(said: str) -> None:
    with pytest.raises(InputError, match=r"^/a b/c\.parquet cannot be read: it is harmed"), reading():
        raise RuntimeError(said)


def test_errors_that_are_not_about_a_file_stay_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="something else"), reading():
        raise RuntimeError("something else")
