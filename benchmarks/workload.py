"""Subscriptions per second: Spark on the whole machine, beside numpy and Arrow in one process.

Both make the same table, by the same hashes, from the bundled default spec, and write it as Parquet with the
same compression. Spark's first run pays for warming the JVM and is shown apart. The text `where` is timed
apart too: it is most of the bytes. Each side is asked for the best of its runs, and the runs take turns.

    python benchmarks/workload.py                          # 8.1 million
    python benchmarks/workload.py --rows 100000000 --rounds 1 --driver-memory 4g
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.pipeline import running, session
from tidings.pipeline.tables import Store
from tidings.pipeline.workload import interests, making, reading
from tidings.pipeline.workload.model import Model
from tidings.pipeline.workload.twin import subscriptions as plain
from tidings.records import workload as tables


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=8_100_000, help="subscriptions")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, of which the best counts")
    parser.add_argument("--driver-memory", default="", help="of Spark, such as 4g; from the machine if empty")
    parser.add_argument("--where", action="store_true", help="write the text `where` too")
    parser.add_argument("--folder", type=Path, help="where tables are written; a temporary one by default")
    asked = parser.parse_args()
    spec = reading.read(None, {"sizes.subscriptions": str(asked.rows)})
    spec = replace(
        spec,
        subscriptions=replace(spec.subscriptions, where=asked.where, coming=0.5, assume=0.1),
        space=replace(spec.space, perturbation=0.1),
    )
    start = time.perf_counter()
    model = making.make(spec)
    print(f"the model: {time.perf_counter() - start:.1f} s")
    with tempfile.TemporaryDirectory(prefix="tidings-workload-", dir=asked.folder) as folder:
        _measure(model, Path(folder), asked.rounds, asked.driver_memory)


def _measure(model: Model, folder: Path, rounds: int, driver_memory: str) -> None:
    rows = int(model.allocated.sum())
    settings = {"spark.driver.memory": driver_memory} if driver_memory else {}
    with session.start("tidings benchmark", settings=settings) as spark:
        stages = running.registry()
        store = Store(folder / "spark")
        running.run(spark, [stages[tables.INTERESTS]], model, store)

        def by_spark() -> None:
            running.run(spark, [stages[tables.SUBSCRIPTIONS]], model, store, overwrite=True)

        def by_numpy() -> None:
            _write(model, folder / "numpy")

        print(f"{rows:,} subscriptions, {os.cpu_count()} cores; rows per second, written as Parquet (zstd)")
        first = _seconds(by_spark)
        print(f"{'Spark, the first run':<40}{rows / first:>14,.0f}")
        best = {"Spark, all cores": float("inf"), "numpy and Arrow, one core": float("inf")}
        for _ in range(rounds):
            for name, job in zip(best, (by_spark, by_numpy), strict=True):
                best[name] = min(best[name], _seconds(job))
        for name, seconds in best.items():
            print(f"{name:<40}{rows / seconds:>14,.0f}")
        ours, theirs = best.values()
        print(f"{'ratio':<40}{theirs / ours:>14.2f}")
        print(f"{'bytes, Spark and numpy':<40}{_bytes(folder / 'spark'):>14,}{_bytes(folder / 'numpy'):>14,}")


def _write(model: Model, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    made = interests.table(model)
    schema = tables.schemas([one.name for one in model.dimensions], ())[tables.SUBSCRIPTIONS]
    pa.set_cpu_count(1)
    with pq.ParquetWriter(folder / "part-0.parquet", schema, compression="zstd") as writer:
        for batch in plain.batches(model, made):
            writer.write_batch(batch)


def _seconds(job: Callable[[], None]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def _bytes(folder: Path) -> int:
    return sum(
        file.stat().st_size for file in folder.rglob("*.parquet") if tables.INTERESTS not in file.parts
    )


if __name__ == "__main__":
    main()
