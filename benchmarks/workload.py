"""Subscriptions per second: Spark on the whole machine, beside numpy and Arrow in one process.

Both make the same rows by the same hashes from the bundled default spec, and write them as Parquet with
zstd: Spark as Tidings has it write, numpy and Arrow as Arrow does if nobody says otherwise, and once more at
Tidings' level of compression. Spark writes whole numbers as differences, so that at any level its files are
smaller than Arrow's; `--level` gives all of them one. Two jobs:

    points    a subscription as in the paper, its rectangle and its point in the network: twelve typed columns
    table     the table `subscriptions` as `tidings workload generate` writes it, `--where` with the text

Spark's first run pays for warming the JVM and is shown apart; it gets faster for some ten more. Each side is
asked for the best of its runs, and the runs take turns. CPU seconds are those of the JVM, and of this
process: on a machine that others use they say more than the clock.

    python benchmarks/workload.py
    python benchmarks/workload.py --job points --rows 100000000 --rounds 1 --driver-memory 4g
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.pipeline import session
from tidings.pipeline.tables import SCANNED, TABLES, write_files
from tidings.pipeline.workload import clients, interests, placing, subscriptions
from tidings.pipeline.workload.twin import subscriptions as plain
from tidings.records import workload as tables
from tidings.workload import making, reading
from tidings.workload.model import Model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POINTS, TABLE = "points", "table"

BATCH = 1_000_000

LEVEL = "parquet.compression.codec.zstd.level"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=8_100_000, help="subscriptions")
    parser.add_argument("--rounds", type=int, default=14, help="runs of each, of which the best counts")
    parser.add_argument(
        "--job", action="append", choices=(POINTS, TABLE), help="one of them; both by default"
    )
    parser.add_argument("--driver-memory", default="", help="of Spark, such as 4g; from the machine if empty")
    parser.add_argument("--where", action="store_true", help="of the table: write the text `where` too")
    parser.add_argument("--folder", type=Path, help="where files are written; a temporary one by default")
    parser.add_argument("--level", type=int, help="of zstd, for all; as shipped and Arrow's own by default")
    asked = parser.parse_args()
    level = int(SCANNED[LEVEL]) if asked.level is None else asked.level
    # What Tidings ships says so itself; this is for those who want to see what another level does.
    SCANNED[LEVEL] = str(level)
    levels = {"numpy and Arrow, one core": None, f"the same at level {level}": level}
    if asked.level is not None:
        del levels["numpy and Arrow, one core"]
    spec = reading.read(None, {"sizes.subscriptions": str(asked.rows)})
    spec = replace(spec, subscriptions=replace(spec.subscriptions, where=asked.where))
    model = making.make(spec)
    settings = {"spark.driver.memory": asked.driver_memory} if asked.driver_memory else {}
    print(f"{asked.rows:,} subscriptions, {os.cpu_count()} cores, written as Parquet (zstd)")
    print(f"{'':<34}{'rows/s':>12}{'seconds':>9}{'CPU s':>8}{'MB':>8}")
    with (
        tempfile.TemporaryDirectory(prefix="tidings-workload-", dir=asked.folder) as folder,
        session.start("tidings benchmark", settings=settings) as spark,
    ):
        for job in asked.job or (POINTS, TABLE):
            _measure(job, model, spark, Path(folder), asked.rounds, levels)


@dataclass
class Side:
    """One of the two."""

    name: str
    run: Callable[[Path], None]
    cpu_s: Callable[[], float]
    best_s: float = float("inf")
    best_cpu_s: float = 0.0
    megabytes: float = 0.0

    def turn(self, folder: Path) -> None:
        """Run once, into a folder that is not there yet."""
        shutil.rmtree(folder, ignore_errors=True)
        start, cpu = time.perf_counter(), self.cpu_s()
        self.run(folder)
        seconds = time.perf_counter() - start
        if seconds < self.best_s:
            self.best_s, self.best_cpu_s = seconds, self.cpu_s() - cpu
        self.megabytes = sum(file.stat().st_size for file in folder.rglob("*.parquet")) / 1e6

    def show(self, rows: int, note: str = "") -> None:
        """A line of the table."""
        figures = f"{self.best_s:>9.1f}{self.best_cpu_s:>8.1f}{self.megabytes:>8.0f}"
        print(f"{self.name + note:<34}{rows / self.best_s:>12,.0f}{figures}")


def _measure(
    job: str, model: Model, spark: SparkSession, folder: Path, rounds: int, levels: Mapping[str, int | None]
) -> None:
    rows = int(model.allocated.sum())
    made = interests.table(model)
    frame = _points(model, spark, made) if job == POINTS else _table(model, spark, made)
    batches = _plain_points if job == POINTS else plain.batches
    java = _java()
    ours = Side("Spark, all cores", lambda to: write_files(frame, to, TABLES[tables.SUBSCRIPTIONS]), java)

    def plainly(level: int | None, to: Path) -> None:
        _write(batches(model, made), to, level)

    theirs = [Side(name, partial(plainly, level), time.process_time) for name, level in levels.items()]
    print(job)
    ours.turn(folder / "spark")
    ours.show(rows, ", the first run")
    ours.best_s = float("inf")
    for _ in range(rounds):
        ours.turn(folder / "spark")
        for side in theirs:
            side.turn(folder / "numpy")
    ours.show(rows)
    for side in theirs:
        side.show(rows)
        print(f"{'  Spark is faster, times':<34}{side.best_s / ours.best_s:>12.2f}")
    shutil.rmtree(folder / "spark")
    shutil.rmtree(folder / "numpy")


def _table(model: Model, spark: SparkSession, made: pa.Table) -> DataFrame:
    stage = subscriptions.STAGE
    frames = {tables.INTERESTS: made, **stage.lookups(model)}
    return stage.make({name: spark.createDataFrame(table) for name, table in frames.items()}, model)


def _points(model: Model, spark: SparkSession, made: pa.Table) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    lookups = {**subscriptions.STAGE.lookups(model), **clients.STAGE.lookups(model)}
    frames = {name: spark.createDataFrame(table) for name, table in lookups.items()}
    frames[tables.INTERESTS] = spark.createDataFrame(made)
    places = frames[clients.HOMES].select("region", placing.PIECE_FIRST, placing.PIECE_COUNT)
    interested = {**frames, tables.INTERESTS: frames[tables.INTERESTS].join(F.broadcast(places), "region")}
    boxes = [end(one.name) for one in model.dimensions for end in (tables.low, tables.high)]
    rows = subscriptions.numbered(interested, model).select(
        "subscription",
        subscriptions.columns(model)["client"].alias("client"),
        "topic",
        *boxes,
        placing.PIECE_FIRST,
        placing.PIECE_COUNT,
    )
    pieces = placing.pieces(model)
    placed = placing.placed(rows, frames[clients.PIECES], pieces, "client", model.spec.seed, tables.CLIENTS)
    return placed.drop(placing.PIECE_FIRST, placing.PIECE_COUNT)


def _plain_points(model: Model, made: pa.Table) -> Iterator[pa.RecordBatch]:
    made = made.filter(pc.greater(made["subscriptions"], 0)).sort_by("first")
    regions = pc.index_in(made["region"], pa.array(model.regions)).to_numpy()
    topics = made["topic"].combine_chunks()
    boxes = {
        end(one.name): made[end(one.name)].to_numpy()
        for one in model.dimensions
        for end in (tables.low, tables.high)
    }
    pieces = placing.pieces(model)
    ends = np.cumsum(made["subscriptions"].to_numpy())
    for begin in range(0, int(ends[-1]), BATCH):
        numbers = np.arange(begin, min(begin + BATCH, int(ends[-1])), dtype=np.int64)
        cells = np.searchsorted(ends, numbers, side="right")
        owners = plain.clients(model, made, numbers, cells)
        points = placing.points(pieces, regions[cells], owners, model.spec.seed, tables.CLIENTS)
        yield pa.record_batch(
            {
                "subscription": pa.array(numbers),
                "client": pa.array(owners),
                "topic": topics.take(pa.array(cells)),
                **{name: pa.array(values[cells]) for name, values in boxes.items()},
                **{name: pa.array(points[:, axis]) for axis, name in enumerate(tables.COORDINATES)},
            }
        )


def _write(batches: Iterator[pa.RecordBatch], folder: Path, level: int | None) -> None:
    folder.mkdir()
    pa.set_cpu_count(1)
    first = next(batches)
    with pq.ParquetWriter(
        folder / "part-0.parquet", first.schema, compression="zstd", compression_level=level
    ) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def _java() -> Callable[[], float]:
    """CPU seconds of the JVM that this process started, where the system tells; else nothing."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = status.read_text(encoding="ascii", errors="replace").rsplit(")", 1)
        except OSError:
            continue
        if name.endswith("(java") and int(fields.split()[1]) == os.getpid():
            parents[status] = True
    if not parents:
        return lambda: 0.0
    status = next(iter(parents))
    tick = os.sysconf("SC_CLK_TCK")

    def spent() -> float:
        fields = status.read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / tick

    return spent


if __name__ == "__main__":
    main()
