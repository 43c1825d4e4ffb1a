"""Match at scale: events per second with 100,000 filters, beside DuckDB's join of the same predicate.

    python benchmarks/pipeline_match.py                       1 million events; some minutes
    python benchmarks/pipeline_match.py --events 10000000 --jobs counted
    python benchmarks/pipeline_match.py --grow                how it grows with events, partitions and filters

Filters and events are those of W1 (`benchmarks/workloads.py`): ten whole-number attributes 1..128, three
ranges per filter, about 0.5% of the filters match an event. DuckDB gets the same rectangles and 10,000 of the
events, counts the same, and must find as many. Machines are shared, so that beside the clock the CPU time of
all processes of the run is given.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tidings.pipeline import session
from tidings.pipeline.match import asking, files, ways
from tidings.pipeline.match.ways import Form

NAMES = tuple(f"a{at}" for at in range(10))
FILTERS = 100_000
PEER_EVENTS = 10_000
LOW, HIGH = 1, 128
FILE_ROWS = 250_000


@dataclass(slots=True)
class Row:
    """One line of the table."""

    job: str
    engine: str
    filters: int
    events: int
    partitions: int
    seconds: float
    cpu_seconds: float
    notifications: int

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds

    @property
    def events_per_cpu_s(self) -> float:
        return self.events / self.cpu_seconds if self.cpu_seconds else 0.0


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


def write_events(folder: Path, count: int, seed: int = 2) -> None:
    drawn = np.random.default_rng(seed)
    for begin in range(0, count, FILE_ROWS):
        rows = min(FILE_ROWS, count - begin)
        values = drawn.integers(LOW, HIGH + 1, (len(NAMES), rows))
        fields = pa.StructArray.from_arrays([pa.array(one) for one in values], list(NAMES))
        table = pa.table({"event": pa.array(np.arange(begin, begin + rows)), "fields": fields})
        pq.write_table(table, folder / f"part-{begin:09d}.parquet")


def declared() -> dict[Any, Any]:
    from tidings.language.fields import Field, Type

    return {(name,): Field((name,), Type.INT, (LOW, HIGH)) for name in NAMES}


# Time.


def tree_cpu(root: int) -> float:
    """Seconds of CPU of a process and all below it, those that have ended among them."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            told = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(told[1])
        used[int(folder.name)] = sum(map(int, told[11:15])) / tick
    total = 0.0
    for process, seconds in used.items():
        at = process
        while at not in (root, 0):
            at = parents.get(at, 0)
        total += seconds if at == root else 0.0
    return total


@contextmanager
def measured(row: Row) -> Iterator[None]:
    cpu, clock = tree_cpu(os.getpid()), perf_counter()
    yield
    row.seconds, row.cpu_seconds = perf_counter() - clock, tree_cpu(os.getpid()) - cpu


# Jobs.


def counted(frame: Any) -> int:
    from pyspark.sql import functions as F  # noqa: N812

    column = "matches" if "matches" in frame.columns else None
    total = F.sum(column) if column else F.count("*")
    return int(frame.agg(total.alias("total")).toArrow().column(0)[0].as_py() or 0)


def by_spark(
    spark: Any,
    folder: Path,
    index: Path,
    filters: int,
    events: int,
    jobs: list[str],
    tell: Callable[[str], None],
) -> list[Row]:
    found: list[Row] = []
    for job in jobs:
        tell(f"{job} of {events:,} events with {filters:,} filters")
        frame = spark.read.parquet(f"file://{folder}")
        row = Row(job, "Spark, index", filters, events, len(list(folder.glob("*.parquet"))), 0, 0, 0)
        with measured(row):
            if job == "counted":
                row.notifications = counted(ways.by_index(frame, str(index), Form.COUNTS))
            elif job == "exploded":
                row.notifications = counted(ways.by_index(frame, str(index), Form.ROWS))
            else:
                out = folder.parent / "written"
                lists = ways.by_index(frame, str(index), Form.LISTS)
                lists.write.mode("overwrite").option("compression", "zstd").parquet(f"file://{out}")
                row.notifications = found[0].notifications if found else 0
        found.append(row)
    return found


def by_duckdb(folder: Path, low: np.ndarray, high: np.ndarray, events: int, cores: int) -> Row:
    """The same predicate as a join; of each filter only what it limits is looked at, as a range."""
    import duckdb

    asked = pa.table(
        {f"{name}_lo": low[:, at] for at, name in enumerate(NAMES)}
        | {f"{name}_hi": high[:, at] for at, name in enumerate(NAMES)}
    )
    happened = pq.read_table(folder).slice(0, events)
    happened = pa.table(dict(zip(NAMES, happened.column("fields").combine_chunks().flatten(), strict=True)))
    connection = duckdb.connect(config={"threads": cores})
    connection.register("asked", asked)
    connection.register("happened", happened)
    connection.execute("CREATE TABLE s AS SELECT * FROM asked")
    connection.execute("CREATE TABLE e AS SELECT * FROM happened")
    where = " AND ".join(f"e.{name} BETWEEN s.{name}_lo AND s.{name}_hi" for name in NAMES)
    row = Row("counted", "DuckDB", len(low), happened.num_rows, cores, 0, 0, 0)
    with measured(row):
        told = connection.execute(f"SELECT count(*) FROM e JOIN s ON {where}").fetchone()
        assert told is not None, "a count is one row"
        row.notifications = int(told[0])
    return row


def table(rows: list[Row]) -> Table:
    made = Table(title="Match at scale: W1")
    for title in (
        "job", "engine", "filters", "events", "partitions", "seconds", "events/s", "CPU s", "events/CPU s",
        "notifications/event",
    ):  # fmt: skip
        made.add_column(title, justify="left" if title in ("job", "engine") else "right")
    for row in rows:
        made.add_row(
            row.job, row.engine, f"{row.filters:,}", f"{row.events:,}", str(row.partitions),
            f"{row.seconds:.1f}", f"{row.events_per_s:,.0f}", f"{row.cpu_seconds:.1f}",
            f"{row.events_per_cpu_s:,.0f}", f"{row.notifications / row.events:,.1f}",
        )  # fmt: skip
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--filters", type=int, default=FILTERS)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--jobs", nargs="+", default=["counted", "exploded", "written"])
    parser.add_argument("--no-peer", action="store_true", help="without DuckDB")
    parser.add_argument("--grow", action="store_true", help="more lines: fewer events, fewer filters")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for the table")
    chosen = parser.parse_args()
    console = Console(width=150)
    rows: list[Row] = []

    def tell(what: str) -> None:
        console.print(what)

    with tempfile.TemporaryDirectory() as place:
        sizes = [(chosen.filters, chosen.events)]
        if chosen.grow:
            sizes = [(chosen.filters, chosen.events // 10), (chosen.filters // 10, chosen.events), *sizes]
        with session.start(
            "tidings benchmark", master=f"local[{chosen.cores}]", settings={"spark.driver.memory": "2g"}
        ) as spark:
            for filters, events in sizes:
                folder, index = Path(place) / f"events-{events}", Path(place) / f"index-{filters}"
                low, high = rectangles(filters)
                if not folder.exists():
                    folder.mkdir()
                    write_events(folder, events)
                if not index.exists():
                    known = asking.subscriptions_of(subscriptions(low, high), (), declared())
                    start = perf_counter()
                    size = files.write(index, *asking.image(known))
                    tell(f"index of {filters:,}: {perf_counter() - start:.1f} s, {size / 1e6:,.1f} MB")
                # Workers load compiled code once, which is no part of a rate.
                start = perf_counter()
                some = spark.read.parquet(f"file://{folder}").where("event % 1000 = 0")
                counted(ways.by_index(some, str(index), Form.COUNTS))
                tell(f"workers ready after {perf_counter() - start:.1f} s")
                rows += by_spark(spark, folder, index, filters, events, chosen.jobs, tell)
            if not chosen.no_peer:
                tell("DuckDB")
                peer = by_duckdb(folder, low, high, min(PEER_EVENTS, chosen.events), chosen.cores)
                first = spark.read.parquet(f"file://{folder}").where(f"event < {peer.events}")
                same = counted(ways.by_index(first, str(index), Form.COUNTS))
                assert same == peer.notifications, f"DuckDB finds {peer.notifications:,}, we {same:,}"
                rows.append(peer)
    made = table(rows)
    console.print(made)
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (chosen.out / "pipeline_match.txt").open("w") as file:
        Console(file=file, width=150).print(made)
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
