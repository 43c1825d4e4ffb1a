"""Every table of the pipeline: what it is called, what it holds, who writes it, and how it lies on the disk.

Reading and writing happen here and nowhere else. A table is plain Parquet in a folder of tables:

    DIR/clients -> .versions/clients/2     what everybody reads: a link, relative
    DIR/.versions/clients/2/part-….parquet
    DIR/.versions/clients/2/_made.json     the settings and the seed that made it; written last
    DIR/.versions/clients/1/               the one before, for readers that still have it open
    DIR/.versions/clients.lock             held by the one process that may write it

A version is written beside the others, and the link is swapped by one rename: whoever reads the table sees a
whole one, and a job that dies leaves the old one. What it left behind is removed by the next writer. The lock
is the kernel's and dies with its process, so that nobody removes what another is writing.

The columns of records are said in `records`; what rows mean is known to the stages alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.errors import InputError, SetupError
from tidings.pipeline.locking import held
from tidings.records import traffic, workload

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

VERSIONS = ".versions"
"""The folder of versions. Spark and Arrow pass over hidden files below what they read, not above it."""

MADE = "_made.json"
"""What made a version. Readers of Parquet pass over names that begin with `_`."""

COMPRESSION = "zstd"
"""As fast to write as snappy here, and smaller."""

WRITING = {
    "compression": COMPRESSION,
    # Arrow's level. Spark's own is 3, and takes a tenth longer for a few bytes less.
    "parquet.compression.codec.zstd.level": "1",
    # As Arrow does: disks and links check what they carry.
    "parquet.page.write-checksum.enabled": "false",
}
"""How Parquet is written."""

SCANNED = {
    # Whole numbers as differences, which are cheaper to write than the numbers, and smaller.
    "parquet.writer.version": "v2",
    # Instead of 20,000: nobody looks for a row in a page, and each page costs some calls.
    "parquet.page.row.count.limit": "200000",
    # Points in the network and client numbers are random, and compress little at any level.
    "parquet.compression.codec.zstd.level": "-1",
}
"""How tables are written that everybody reads from end to end, beside: no column that is never null has its
least and greatest value written for each piece of a file. Together a fifth of writing subscriptions."""

NUMBERS = ("bigint", "double")
"""Columns of numbers get no dictionary: where values repeat, compression finds it, and where they do not,
Parquet begins a dictionary for each piece of a file and throws it away. It saves a fifth of writing
subscriptions."""


@dataclass(frozen=True, slots=True)
class Table:
    """What a table holds and who writes it."""

    name: str
    schema: Callable[[Any], pa.Schema]
    """Its columns, which depend on the plain values of a run: on the dimensions of events, for one."""

    stage: str
    """The module whose STAGE writes it."""

    partitioned_by: tuple[str, ...] = ()
    """Columns whose values are folders; none where readers want whole files."""

    unlike: tuple[str, ...] = ()
    """Columns whose values hardly repeat, beside those of numbers: they get no dictionary."""

    scanned: bool = False
    """Whether readers go through all of it: then it is written as `SCANNED` says."""


def _of_workload(name: str) -> Table:
    def schema(model: Any) -> pa.Schema:
        dimensions = [hierarchy.name for hierarchy in model.dimensions]
        return workload.schemas(dimensions, workload.details(model.spec.reports.details))[name]

    scanned = name in (workload.CLIENTS, workload.SUBSCRIPTIONS)
    return Table(name, schema, f"tidings.pipeline.workload.{name}", unlike=("where",), scanned=scanned)


TABLES: Mapping[str, Table] = {name: _of_workload(name) for name in workload.TABLES}
"""All of them, in the order in which they are made."""


def _of_traffic(name: str) -> Table:
    def schema(_: Any) -> pa.Schema:
        return traffic.schemas()[name]

    unlike = ("n", "at", "message", "event", "report")
    module = "keeping" if name == traffic.RECORDS else name
    return Table(name, schema, f"tidings.pipeline.traffic.{module}", (traffic.HOUR,), unlike)


TRAFFIC: Mapping[str, Table] = {name: _of_traffic(name) for name in traffic.TABLES}
"""Those of traffic, which are published together, in one folder: DIR/traffic/messages and so on."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a version carries: how it came to be."""

    table: str
    version: int
    stage: str
    spec: Mapping[str, Any]
    """All that was asked for."""

    seed: int
    reads: Mapping[str, int]
    """The versions of the tables that it was made from."""

    settings: Mapping[str, str]
    """Spark's, as far as they were given."""

    master: str
    versions: Mapping[str, str]
    """Of Tidings, Spark, and the packages whose numbers or data are in the rows."""

    at: str
    """When it was finished, in UTC."""

    rows: int
    bytes: int
    files: int
    seconds: float


class Store:
    """A folder of tables."""

    def __init__(self, folder: Path | str) -> None:
        text = str(folder)
        # A `Path` has lost one of its slashes.
        if re.match(r"[a-zA-Z][\w+.-]+:/", text):
            raise InputError(
                f"tables live in a folder, and {text!r} is an address; give a path that this machine and all "
                f"workers see under the same name, such as a shared mount. Object stores and HDFS have no "
                f"links to swap; copy finished tables there"
            )
        if wrong := set(text) & set("*?[]{}\\\n"):
            raise InputError(
                f"Spark takes {''.join(sorted(wrong))!r} in {text!r} for a pattern; name another folder"
            )
        self.folder = Path(folder).absolute()
        # The number of the next version of each table that is being written. A task of a writer that died may
        # still write on another machine, so that the number of what it left is not used again.
        self._next: dict[str, int] = {}

    # Reading

    def path(self, name: str) -> Path:
        """Where to read a table, as it is now: the version, not the link, which may be swapped meanwhile.

        Raises `InputError` if there is none.
        """
        version = self.version(name)
        if version is None:
            there = ", ".join(self.names()) or "none"
            raise InputError(f"there is no table {name!r} in {self.folder}; there are: {there}")
        return self._versions(name) / str(version)

    def read(self, spark: SparkSession, name: str, schema: pa.Schema) -> DataFrame:
        """A table as a DataFrame, which goes on seeing this version when another takes its place."""
        return read_files(spark, [self.path(name)], schema)

    def names(self) -> list[str]:
        """The tables that are here."""
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if self.version(path.name) is not None)

    def version(self, name: str) -> int | None:
        """The number of the version that a table has now; None if there is no table."""
        link = self.folder / name
        if not link.is_symlink():
            return None
        target = link.readlink()
        if target.parent != Path(VERSIONS) / name or not target.name.isdigit() or not link.is_dir():
            return None
        return int(target.name)

    def versions(self, name: str) -> list[int]:
        """The finished versions, oldest first."""
        return sorted(number for number in self._numbers(name) if self._is_finished(name, number))

    def made(self, name: str, version: int | None = None) -> Made:
        """How a version came to be; the one that the table has now if none is named."""
        folder = self.path(name) if version is None else self._versions(name) / str(version)
        file = folder / MADE
        try:
            return Made(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{file} does not say what made the table: {error}") from error

    # Writing

    @contextmanager
    def writing(self, names: Sequence[str], overwrite: bool) -> Iterator[None]:
        """While tables are written: nobody else writes them, and what dead writers left is gone.

        Raises `InputError`, before anything is done, if one is there and may not be replaced.
        """
        self.check(names, overwrite)
        with ExitStack() as locks:
            try:
                (self.folder / VERSIONS).mkdir(parents=True, exist_ok=True)
                for name in sorted(names):
                    locks.enter_context(self._lock(name))
            except OSError as error:
                raise SetupError(
                    f"tables cannot be written to {self.folder}: {error.strerror}; name a folder that can be"
                ) from error
            # Another may have written one before the lock was ours.
            self.check(names, overwrite)
            for name in names:
                self._next[name] = max(self._numbers(name), default=0) + 1
                self._tidy(name)
            yield

    def write(
        self, frame: DataFrame, table: Table, schema: pa.Schema, made: Callable[[Written], Made]
    ) -> Made:
        """Write a table as a new version and swap the link; called within `writing`.

        If it fails, for whatever reason, the table is as it was.
        """
        check_columns(frame, table.name, schema)

        def fill(folder: Path, number: int) -> Made:
            write_files(frame, folder, table)
            return made(inspect(folder, table, schema, number))

        return self.publish(table.name, fill)

    def publish(self, name: str, fill: Callable[[Path, int], Made]) -> Made:
        """Let somebody fill the folder of a new version and swap the link; called within `writing`.

        `fill` is given the folder, which it makes, and the number of the version. If it fails, for whatever
        reason, the table is as it was.
        """
        number = self._next[name]
        self._next[name] += 1
        folder = self._versions(name) / str(number)
        try:
            folder.parent.mkdir(exist_ok=True)
            finished = fill(folder, number)
            self._finish(folder, finished)
            self._swap(name, number)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if (reason := disk_trouble(error)) is not None:
                raise SetupError(
                    f"the table {name!r} cannot be written to {self.folder}: {reason}; the table is as "
                    f"it was before. Free some space or name another folder"
                ) from error
            with reading():
                raise
        self._tidy(name)
        return finished

    def _finish(self, folder: Path, made: Made) -> None:
        draft = folder / f"{MADE}.draft"
        with draft.open("w", encoding="utf-8") as file:
            json.dump(asdict(made), file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(folder / MADE)

    def _swap(self, name: str, number: int) -> None:
        fresh = self.folder / VERSIONS / f"{name}.link"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(Path(VERSIONS) / name / str(number))
        fresh.replace(self.folder / name)

    def _tidy(self, name: str) -> None:
        """Remove versions that were never finished, and old ones but the last before the present one."""
        now = self.version(name)
        kept = set()
        if now is not None:
            kept = {now, *[number for number in self.versions(name) if number < now][-1:]}
        for number in self._numbers(name):
            if number not in kept:
                shutil.rmtree(self._versions(name) / str(number), ignore_errors=True)

    def check(self, names: Sequence[str], overwrite: bool) -> None:
        """Raises `InputError` if one of these is there and may not be replaced."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder} is a file; name a folder for tables")
        for name in names:
            self._check_replaceable(name, overwrite)

    def _check_replaceable(self, name: str, overwrite: bool) -> None:
        link = self.folder / name
        if self.version(name) is not None:
            if not overwrite:
                raise InputError(f"the table {name!r} is in {self.folder} already; --overwrite replaces it")
        elif link.is_symlink():
            # Ours whose version is gone may be replaced; another's is not ours to remove.
            if link.readlink().parent != Path(VERSIONS) / name:
                raise InputError(
                    f"{link} is a link to {link.readlink()}, which is no version of a table; move it away"
                )
        elif link.exists():
            raise InputError(
                f"{link} was not written by Tidings, for which a table is a link to a version; move it away"
            )

    def _lock(self, name: str) -> AbstractContextManager[None]:
        return held(
            self.folder / VERSIONS / f"{name}.lock",
            f"the table {name!r} in {self.folder} is being written",
            "wait for it, or name another folder",
        )

    def _versions(self, name: str) -> Path:
        return self.folder / VERSIONS / name

    def _numbers(self, name: str) -> list[int]:
        folder = self._versions(name)
        if not folder.is_dir():
            return []
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())

    def _is_finished(self, name: str, number: int) -> bool:
        return (self._versions(name) / str(number) / MADE).is_file()


def read_files(
    spark: SparkSession, paths: Sequence[Path], schema: pa.Schema, *, fleeting: bool = False
) -> DataFrame:
    """Parquet files or folders of them as one DataFrame; `fleeting` ones may be gone when they are read."""
    # With the schema given, Spark does not start a job to look into the files.
    reader = spark.read.schema(", ".join(_spark_columns(schema)))
    if fleeting:
        reader = reader.option("ignoreMissingFiles", "true")
    return reader.parquet(*map(_address, paths))


def write_files(frame: DataFrame, folder: Path, table: Table) -> None:
    """Write the files of a table into a folder, which is made."""
    writer = frame.write.options(**WRITING)
    numbers = [name for name, kind in frame.dtypes if kind in NUMBERS]
    for column in {**dict.fromkeys(numbers), **dict.fromkeys(table.unlike)}:
        writer = writer.option(f"parquet.enable.dictionary#{column}", "false")
    if table.scanned:
        writer = writer.options(**SCANNED)
        for field in frame.schema:
            # Where there may be nulls they are counted, and looked for by `inspect`.
            if not field.nullable:
                writer = writer.option(f"parquet.column.statistics.enabled#{field.name}", "false")
    if table.partitioned_by:
        writer = writer.partitionBy(*table.partitioned_by)
    with _planned_once(frame.sparkSession) if table.scanned else nullcontext():
        writer.parquet(_address(folder))


@contextmanager
def _planned_once(spark: SparkSession) -> Iterator[None]:
    """Let a plan be made once, and not anew after each of its stages, which takes 0.1 s each time.

    Rows that are dealt out to tasks by their numbers leave nothing to adapt.
    """
    name = "spark.sql.adaptive.enabled"
    before = spark.conf.get(name) or "true"
    spark.conf.set(name, "false")
    try:
        yield
    finally:
        spark.conf.set(name, before)


@dataclass(frozen=True, slots=True)
class Written:
    """What the files of a new version say of themselves."""

    version: int
    rows: int
    bytes: int
    files: int


def inspect(folder: Path, table: Table, schema: pa.Schema, version: int) -> Written:
    """Count what was written, from the ends of the files alone; nothing may be null that must not be.

    Spark does not know that a column has no nulls after most joins, so this is not seen in a DataFrame.
    """
    import pyarrow.parquet as pq

    rows = size = files = 0
    required = {
        path for field in schema for path in _required(field) if field.name not in table.partitioned_by
    }
    for file in sorted(folder.rglob("*.parquet")):
        found = pq.read_metadata(file)
        files, rows, size = files + 1, rows + found.num_rows, size + file.stat().st_size
        for group in range(found.num_row_groups):
            for place in range(found.num_columns):
                column = found.row_group(group).column(place)
                statistics = column.statistics
                if column.path_in_schema in required and statistics is not None and statistics.null_count:
                    raise AssertionError(
                        f"stage {table.name} made {statistics.null_count} rows without "
                        f"{column.path_in_schema}, which its table says is always there"
                    )
    return Written(version, rows, size, files)


def _required(field: pa.Field, above: str = "") -> Iterator[str]:
    """The paths of the leaves that are never null."""
    import pyarrow as pa

    if field.nullable:
        return
    path = f"{above}{field.name}"
    if pa.types.is_struct(field.type):
        for inner in field.type:
            yield from _required(inner, f"{path}.")
    else:
        yield path


def check_columns(frame: DataFrame, name: str, schema: pa.Schema) -> None:
    """A stage must make what its table holds: the same columns of the same types, in the same order."""
    want = _spark_columns(schema)
    have = [f"`{column.name}` {column.dataType.simpleString()}" for column in frame.schema]
    assert have == want, f"stage {name} made the columns {have}; its table has {want}"


def _spark_columns(schema: pa.Schema) -> list[str]:
    """Columns as Spark writes them. Whether they may be null is left out: Spark forgets it in files."""
    return [f"`{field.name}` {_spark_type(field.type)}" for field in schema]


def _spark_type(kind: pa.DataType) -> str:
    import pyarrow as pa

    plain = {
        pa.int64(): "bigint",
        pa.int32(): "int",
        pa.float64(): "double",
        pa.string(): "string",
        pa.bool_(): "boolean",
        pa.timestamp("us", "UTC"): "timestamp",
        pa.binary(): "binary",
    }
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{inner.name}:{_spark_type(inner.type)}' for inner in kind)}>"
    if pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    assert kind in plain, f"tables hold no {kind}"
    return plain[kind]


def disk_trouble(error: BaseException) -> str | None:
    """What the disk has to do with an error of Spark's, or of ours; None if nothing."""
    text = f"{error}"
    for sign, meaning in (
        ("No space left on device", "the disk is full"),
        ("Disk quota exceeded", "the quota of disk space is used up"),
        ("Read-only file system", "the disk is read-only"),
        ("Permission denied", "no right to write there"),
        ("Mkdirs failed to create", "Spark could not make a folder there"),
    ):
        if sign in text:
            return meaning
    return None


@contextmanager
def reading() -> Iterator[None]:
    """What Spark says of a file that it cannot read becomes an error that names the file."""
    try:
        yield
    except Exception as error:
        # A worker's own error of ours has it all, in the pages of Java and Python around it.
        if (ours := re.search(r"^tidings\.errors\.InputError: (.+)$", f"{error}", re.MULTILINE)) is not None:
            raise InputError(ours[1]) from error
        found = re.search(r"FAILED_READ_FILE.* while reading file (?:file:)?/*(.+?)\.\s", f"{error}")
        if found is None:
            raise
        raise InputError(
            f"/{found[1]} cannot be read: it is harmed, or no Parquet file; make it anew, or bring it back "
            "from a copy"
        ) from error


def _address(path: Path) -> str:
    # The local file system, whatever a cluster's default is. Hadoop takes the rest as it is, not encoded.
    return f"file://{path}"
