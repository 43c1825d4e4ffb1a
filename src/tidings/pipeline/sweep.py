"""Sweeps: one function, many settings, a task of Spark for each.

The function is named as `module:function`, since a name means the same on every worker. It is given plain
settings, with a seed among them, and answers with a flat row, or several. What it answers may depend on
nothing else: then the rows are the same wherever a task ran, and they come in the order of the settings.

What the function does is not known here: the pipeline sees neither simulator nor papers.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tidings
from tidings.errors import InputError
from tidings.pipeline import worker_files
from tidings.pipeline.session import is_local
from tidings.pipeline.tables import COMPRESSION, Made, Store
from tidings.workload import hashing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Settings = Mapping[str, Any]
Row = dict[str, Any]

SEED = "seed"
"""The setting that is drawn for a run, unless it is given."""

TASKS_MAX = 10_000
"""Beyond so many settings a task runs several, one after the other."""

ANSWERED = "number bigint, rows string, error string"

SHOWN = 200
"""Characters of settings in an error."""


def grid(**choices: Iterable[Any]) -> list[Row]:
    """Every combination of some settings, the last changing fastest.

    >>> grid(brokers=[10, 20], seats=[1])
    [{'brokers': 10, 'seats': 1}, {'brokers': 20, 'seats': 1}]
    """
    return [
        dict(zip(choices, values, strict=True)) for values in itertools.product(*map(list, choices.values()))
    ]


def seeded(settings: Sequence[Settings], seed: int) -> list[Row]:
    """Settings with a seed in each: its own, or one that depends on the sweep's and on its place."""
    key = hashing.key(seed, "sweep", SEED)
    drawn = [int(hashing.draw(key, number)) & (2**63 - 1) for number in range(len(settings))]
    return [{SEED: one, **given} for one, given in zip(drawn, settings, strict=True)]


def run(
    spark: SparkSession,
    function: str,
    settings: Sequence[Settings],
    *,
    seed: int = 0,
    packages: Sequence[Path] = (),
    master: str = "local[*]",
) -> list[list[Row]]:
    """Run a function once for each of some settings; the rows of each, in the order of the settings.

    `packages` are folders of Python packages that the function needs and workers have not. Raises
    `InputError` with the settings of the first run that failed.
    """
    found(function, packages)
    worker_files.send(spark, master)
    if not is_local(master):
        for package in packages:
            spark.addArtifacts(str(worker_files.archive(package)), pyfile=True)
    given = seeded(settings, seed)
    paths = tuple(str(package.absolute().parent) for package in packages)
    answers = sorted(
        (row["number"], row["rows"], row["error"])
        for row in answered(asked(spark, given), function, paths).collect()
    )
    for number, _, error in answers:
        if error is not None:
            shown = json.dumps(given[number], ensure_ascii=False)
            raise InputError(
                f"{function} fails with {shown[:SHOWN]}{'…' if len(shown) > SHOWN else ''}: {error}. "
                f"Call it with these settings to see where"
            )
    return [json.loads(rows) for _, rows, _ in answers]


def table(settings: Sequence[Settings], answers: Sequence[Sequence[Row]]) -> pa.Table:
    """The rows of a sweep as one table, each behind the plain settings that it came from."""
    import pyarrow as pa

    rows = [
        {name: value for name, value in given.items() if is_plain(value)} | row
        for given, own in zip(settings, answers, strict=True)
        for row in own
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        try:
            columns[name] = pa.array([row.get(name) for row in rows])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InputError(f"the column {name!r} of a sweep has values of several types: {error}") from None
    return pa.table(columns)


def write(
    made: pa.Table,
    store: Store,
    name: str,
    *,
    function: str,
    settings: Sequence[Settings],
    seed: int = 0,
    overwrite: bool = False,
) -> Made:
    """Keep the table of a sweep among those of the pipeline, with what it was made of."""
    import pyarrow.parquet as pq

    def fill(folder: Path, number: int) -> Made:
        folder.mkdir()
        file = folder / "part-0.parquet"
        pq.write_table(made, file, compression=COMPRESSION)
        return Made(
            table=name,
            version=number,
            stage="sweep",
            spec={"function": function, "settings": [dict(one) for one in settings], "seed": seed},
            seed=seed,
            reads={},
            settings={},
            master="",
            versions={"tidings": tidings.__version__},
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            rows=made.num_rows,
            bytes=file.stat().st_size,
            files=1,
            seconds=0.0,
        )

    with store.writing([name], overwrite):
        return store.publish(name, fill)


def asked(spark: SparkSession, settings: Sequence[Settings]) -> DataFrame:
    """Settings as a DataFrame, each row in a partition of its own as far as there may be so many."""
    import pyarrow as pa
    from pyspark.sql import functions as F  # noqa: N812

    texts = [json.dumps(one, ensure_ascii=False) for one in settings]
    given = pa.table(
        {"number": pa.array(range(len(texts)), pa.int64()), "settings": pa.array(texts, pa.string())}
    )
    count = len(texts)
    numbers = spark.range(0, count, 1, max(1, min(count, TASKS_MAX))).withColumnRenamed("id", "number")
    # Numbers come in partitions as they are asked for; the texts go to all of them.
    return numbers.join(F.broadcast(spark.createDataFrame(given)), "number")


def answered(settings: DataFrame, function: str, paths: Sequence[str] = ()) -> DataFrame:
    """What a function answers to each row of settings: rows as JSON, or an error."""
    return settings.mapInArrow(partial(work, function=function, paths=tuple(paths)), ANSWERED)


def work(
    batches: Iterable[pa.RecordBatch], function: str, paths: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """What a task does: call the function for each row that it has."""
    import pyarrow as pa

    for batch in batches:
        for number, text in zip(*(batch[name].to_pylist() for name in ("number", "settings")), strict=True):
            rows, error = _answer(function, paths, json.loads(text))
            told = {"number": pa.array([number], pa.int64())}
            told |= {"rows": pa.array([rows], pa.string()), "error": pa.array([error], pa.string())}
            yield pa.RecordBatch.from_pydict(told)


def _answer(function: str, paths: Sequence[str], settings: Row) -> tuple[str | None, str | None]:
    try:
        sys.path[:0] = [path for path in paths if path not in sys.path]
        given = called(function)(settings)
        rows = [given] if isinstance(given, Mapping) else list(given)
        for row in rows:
            for name, value in row.items():
                if not is_plain(value):
                    raise TypeError(
                        f"{name!r} is {type(value).__name__}; rows have numbers, strings and None"
                    )
        return json.dumps(rows, ensure_ascii=False), None
    except Exception as error:  # noqa: BLE001  whatever it is, the driver says which settings it came from
        return None, f"{type(error).__name__}: {error}"


def is_plain(value: object) -> bool:
    """Whether a value may stand in a row."""
    return value is None or type(value) in (bool, int, float, str)


def called(function: str) -> Callable[[Row], Any]:
    """The function of a name."""
    module, _, name = function.partition(":")
    made: Callable[[Row], Any] = getattr(importlib.import_module(module), name)
    return made


def found(function: str, packages: Sequence[Path] = ()) -> None:
    """Refuse a name that leads nowhere, before anything is started."""
    before = list(sys.path)
    sys.path[:0] = [str(package.absolute().parent) for package in packages]
    try:
        if ":" not in function or not callable(called(function)):
            raise InputError(f"{function!r} names no function; write it as package.module:function")
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{function!r} cannot be found: {error}; write it as package.module:function, and name the "
            f"folder of its package"
        ) from None
    finally:
        sys.path[:] = before
