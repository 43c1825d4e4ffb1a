"""Match at scale: events per second with many filters, beside DuckDB's join of the same predicate.

Filters and events are those of W1 (`benchmarks/workloads.py`): ten whole-number attributes 1..128, three
ranges per filter, about 0.5% of the filters match an event. DuckDB gets the same rectangles and 10,000 of the
events, counts the same, and must find as many.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.pipeline_measuring import Bench, Spent, Watch, alone

from tidings.language.fields import Field, Type
from tidings.language.fields import Path as FieldPath
from tidings.pipeline.match import files, strategies, writing
from tidings.pipeline.match import subscriptions as asking
from tidings.pipeline.match.strategies import Form

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JOB = "match"
TARGETS = {"counted": 80_000, "written": 25_000}
TIMES_DUCKDB = 100
"""How many times as many events are to be counted in a second."""

NAMES = tuple(f"a{at}" for at in range(10))
LOW, HIGH = 1, 128
PEER_EVENTS = 10_000
FILE_ROWS = 250_000


# Filters and events.


def rectangles(count: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """W1's filters as ends of ten intervals, of which seven are the whole domain."""
    drawn = np.random.default_rng(seed)
    low = np.full((count, len(NAMES)), LOW)
    high = np.full((count, len(NAMES)), HIGH)
    chosen = np.argsort(drawn.random((count, len(NAMES))), axis=1)[:, :3]
    width = drawn.integers(12, 33, (count, 3))
    begin = drawn.integers(LOW, HIGH + 2 - width)
    rows = np.arange(count)[:, None]
    low[rows, chosen], high[rows, chosen] = begin, begin + width - 1
    return low, high


def subscriptions(low: np.ndarray, high: np.ndarray) -> pa.Table:
    """The filters as texts of their three ranges: any filter of the language may stand here."""
    asked = []
    for one, other in zip(low.tolist(), high.tolist(), strict=True):
        ends = [
            f"{name} BETWEEN {a} AND {b}"
            for name, a, b in zip(NAMES, one, other, strict=True)
            if (a, b) != (LOW, HIGH)
        ]
        asked.append(" AND ".join(ends))
    return pa.table({"subscription": np.arange(len(low)), "where": asked})


def events(bench: Bench, count: int) -> list[Path]:
    """Files of so many events; the files of fewer are the first of them."""
    begins = range(0, count, FILE_ROWS)
    rows = [min(FILE_ROWS, count - begin) for begin in begins]
    folder = bench.inputs / "events"
    paths = [folder / f"{begin:09d}+{some}.parquet" for begin, some in zip(begins, rows, strict=True)]
    writes = (partial(write_events, begin, some) for begin, some in zip(begins, rows, strict=True))
    return bench.written(paths, writes, f"{count:,} events")


def write_events(begin: int, rows: int, path: Path) -> None:
    values = np.random.default_rng([2, begin]).integers(LOW, HIGH + 1, (rows, len(NAMES))).T
    fields = pa.StructArray.from_arrays([pa.array(np.ascontiguousarray(one)) for one in values], list(NAMES))
    pq.write_table(pa.table({"event": np.arange(begin, begin + rows), "fields": fields}), path)


def index(bench: Bench, filters: int) -> Path:
    """The file of so many filters; made once in a run."""
    path = bench.work / f"index-{filters}"
    if not path.exists():
        bench.tell(f"match: an index of {filters:,} filters")
        declared: dict[FieldPath, Field] = {(name,): Field((name,), Type.INT, (LOW, HIGH)) for name in NAMES}
        known = asking.subscriptions_of(subscriptions(*rectangles(filters)), (), declared)
        watch = Watch()
        size = files.write(path, *asking.image(known))
        note = f"{size / 1e6:,.1f} MB"
        bench.row(JOB, "index made", filters, watch.spent(), engine="one process", note=note)
    return path


# Jobs.


def run(bench: Bench, counted: tuple[int, ...], written: int, filters: int) -> None:
    """Counted at every size; exploded and written at one; DuckDB on the first events."""
    warm_up(bench, filters)
    best = 0.0
    for size in counted:
        count(bench, size, filters, grows="rows")
        best = max(best, bench.rows[-1].per_s)
    if written:
        explode(bench, written, filters)
        write(bench, written, filters)
    peer(bench, min(PEER_EVENTS, *counted), filters, best)


def prepare(bench: Bench, counted: tuple[int, ...], written: int) -> None:
    """Write what all of that reads."""
    for size in sorted({*counted, written} - {0}):
        events(bench, size)


def warm_up(bench: Bench, filters: int) -> None:
    """Workers load compiled code and map the index: no part of a rate."""
    path = index(bench, filters)
    bench.tell("match: getting warm")
    some = frame(bench, FILE_ROWS).where("event % 100 = 0")
    total(strategies.by_index(some, str(path), Form.COUNTS))


def frame(bench: Bench, count: int) -> DataFrame:
    return bench.spark.read.parquet(*(f"file://{path}" for path in events(bench, count)))


def total(found: DataFrame) -> int:
    """Notifications in a result of any form but lists."""
    from pyspark.sql import functions as F  # noqa: N812

    counted = F.sum("matches") if "matches" in found.columns else F.count("*")
    return int(found.agg(counted.alias("total")).toArrow().column(0)[0].as_py() or 0)


def count(bench: Bench, size: int, filters: int, partitions: int | None = None, *, grows: str) -> None:
    """How many notifications there are; with `partitions`, by so many tasks."""
    happened = frame(bench, size)
    if partitions is not None:
        happened = happened.coalesce(partitions)
    target = TARGETS["counted"] if grows == "rows" else 0
    measured(bench, "counted", size, happened, filters, Form.COUNTS, grows=grows, target=target)


def explode(bench: Bench, size: int, filters: int) -> None:
    """A row for each notification, counted by Spark."""
    happened = frame(bench, size)
    found = measured(bench, "exploded", size, happened, filters, Form.ROWS)
    counted = total(strategies.by_index(happened, str(index(bench, filters)), Form.COUNTS))
    assert found == counted, f"{found:,} rows, and {counted:,} counted"


def measured(
    bench: Bench, what: str, size: int, happened: DataFrame, filters: int, form: Form, **more: Any
) -> int:
    """The notifications of a form, counted."""
    path = index(bench, filters)
    return bench.timed(
        JOB,
        what,
        size,
        lambda: total(strategies.by_index(happened, str(path), form)),
        lambda found: f"{found / size:,.1f} notifications per event",
        partitions=happened.rdd.getNumPartitions(),
        subscriptions=filters,
        **more,
    )


def write(bench: Bench, size: int, filters: int) -> None:
    """Lists, to Parquet, by the workers that found them."""
    happened, path = frame(bench, size), index(bench, filters)
    with bench.scratch("lists") as folder:
        out = folder / "lists"

        def work() -> list[Path]:
            writing.write(happened, str(path), Form.LISTS, out)
            return list(out.glob("*.parquet"))

        made = bench.timed(
            JOB,
            "written",
            size,
            work,
            lambda made: f"{sum(file.stat().st_size for file in made) / 1e6:,.0f} MB",
            partitions=happened.rdd.getNumPartitions(),
            subscriptions=filters,
            target=TARGETS["written"],
        )
        rows = sum(pq.read_metadata(file).num_rows for file in made)
        assert rows == size, f"of {size:,} events {rows:,} were written"


def peer(bench: Bench, size: int, filters: int, ours_per_s: float) -> None:
    """DuckDB, which must find as many as Spark does in the same events."""
    bench.tell(f"match: DuckDB, {size:,} events")
    first = events(bench, max(size, FILE_ROWS))[0]
    (spent, found), peak_mb = alone(duckdb_count, first, size, filters, bench.cores)
    happened = bench.spark.read.parquet(f"file://{first}").where(f"event < {size}")
    same = total(strategies.by_index(happened, str(index(bench, filters)), Form.COUNTS))
    assert same == found, f"DuckDB finds {found:,}, we {same:,}"
    times = ours_per_s * spent.seconds / size
    bench.row(
        JOB,
        "counted",
        size,
        spent,
        engine="DuckDB",
        partitions=bench.cores,
        subscriptions=filters,
        note=f"peak {peak_mb:,} MB; Spark counts {times:,.0f} times as many (target {TIMES_DUCKDB})",
    )


def duckdb_count(file: Path, size: int, filters: int, threads: int) -> tuple[Spent, int]:
    """The same predicate as a join."""
    import duckdb

    low, high = rectangles(filters)
    asked = pa.table(
        {f"{name}_lo": low[:, at] for at, name in enumerate(NAMES)}
        | {f"{name}_hi": high[:, at] for at, name in enumerate(NAMES)}
    )
    fields: Any = pq.read_table(file).slice(0, size).column("fields").combine_chunks().flatten()
    happened = pa.table(dict(zip(NAMES, fields, strict=True)))
    with duckdb.connect(config={"threads": threads}) as connection:
        connection.register("asked", asked)
        connection.register("happened", happened)
        connection.execute("CREATE TABLE s AS SELECT * FROM asked")
        connection.execute("CREATE TABLE e AS SELECT * FROM happened")
        where = " AND ".join(f"e.{name} BETWEEN s.{name}_lo AND s.{name}_hi" for name in NAMES)
        watch = Watch()
        told = connection.execute(f"SELECT count(*) FROM e JOIN s ON {where}").fetchone()
        assert told is not None, "a count is one row"
        return watch.spent(), int(told[0])
