"""The pipeline at scale: how many rows a second, beside one process that does the same job in the same run.

    python benchmarks/pipeline.py                  everything, small: some minutes
    python benchmarks/pipeline.py gather traffic   some of gather, match, traffic, connector, grow
    python benchmarks/pipeline.py --full           up to 50 million rows

* gather: reports to events, in batch beside polars, and in a stream
* match: events x 100,000 subscriptions to notifications, counted, exploded and written, beside DuckDB
* traffic: records to tables, beside DuckDB
* connector: a live broker's log through format("tidings"), alone and while something is published
* grow: how the cost grows with rows, partitions and subscriptions

What both sides find must agree, or the run fails. Results go to --out: a table, JSON, and a picture of the
growth. Everything else is written to a temporary folder, which is removed; with --inputs DIR what is read is
kept there and taken again by the next run. --prepare writes only that.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.pipeline_measuring import WIDTH, Bench, Row, table

from benchmarks import pipeline_connector as connector
from benchmarks import pipeline_gather as gather
from benchmarks import pipeline_growth as growth
from benchmarks import pipeline_match as match
from benchmarks import pipeline_traffic as traffic
from tidings.pipeline.session import memory_mb


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each."""

    reports: tuple[int, ...]
    """gather, in batch"""

    stream: int
    """gather, in a stream"""

    records: tuple[int, ...]
    """traffic"""

    events: tuple[int, ...]
    """match, counted"""

    written: int
    """match, exploded and written"""

    entries: int
    """connector"""

    rate: int
    """connector: entries a second that are published meanwhile"""

    subscriptions: int
    """match"""

    peer_rows: int
    """one-process peers of gather and traffic, up to so many rows"""

    growth_rows: tuple[int, ...]
    growth_partitions: tuple[int, ...]
    growth_subscriptions: tuple[int, ...]
    growth_fixed: int
    """grow: rows where something else grows"""


QUICK = Sizes(
    reports=(500_000,),
    stream=1_000_000,
    records=(500_000,),
    events=(250_000,),
    written=100_000,
    entries=400_000,
    rate=5_000,
    subscriptions=100_000,
    peer_rows=10_000_000,
    growth_rows=(100_000, 200_000),
    growth_partitions=(2, 4, 16),
    growth_subscriptions=(1_000, 10_000, 100_000),
    growth_fixed=200_000,
)

FULL = replace(
    QUICK,
    reports=(1_000_000, 10_000_000, 50_000_000),
    stream=2_000_000,
    records=(1_000_000, 10_000_000, 50_000_000),
    events=(1_000_000, 10_000_000),
    written=1_000_000,
    entries=1_000_000,
    growth_partitions=(1, 4, 16, 64),
)

JOBS: dict[str, Callable[[Bench, Sizes], None]] = {
    "gather": lambda bench, sizes: gather.run(bench, sizes.reports, sizes.stream, sizes.peer_rows),
    "match": lambda bench, sizes: match.run(bench, sizes.events, sizes.written, sizes.subscriptions),
    "traffic": lambda bench, sizes: traffic.run(bench, sizes.records, sizes.peer_rows),
    "connector": lambda bench, sizes: connector.run(bench, sizes.entries, sizes.rate),
    "grow": lambda bench, sizes: growth.run(
        bench,
        sizes.growth_rows,
        sizes.growth_partitions,
        sizes.growth_subscriptions,
        fixed_rows=sizes.growth_fixed,
        fixed_subscriptions=sizes.subscriptions,
    ),
}
ALL = "all"


def prepare(bench: Bench, sizes: Sizes, jobs: Sequence[str]) -> None:
    """Write what the jobs read."""
    grown = (*sizes.growth_rows, sizes.growth_fixed) if "grow" in jobs else ()
    if "gather" in jobs or grown:
        gather.prepare(bench, (*grown, *sizes.reports) if "gather" in jobs else grown, sizes.stream)
    if "match" in jobs or grown:
        match.prepare(bench, (*grown, *sizes.events) if "match" in jobs else grown, sizes.written)
    if "traffic" in jobs or grown:
        traffic.prepare(bench, (*grown, *sizes.records) if "traffic" in jobs else grown)


def conclude(rows: list[Row], sizes: Sizes, out: Path, *, as_json: bool = False) -> None:
    """The table, or JSON; and both as files."""
    made = table(rows, f"The pipeline at scale, {rows[0].cores} cores")
    out.mkdir(parents=True, exist_ok=True)
    with (out / "pipeline.txt").open("w", encoding="utf-8") as file:
        Console(file=file, width=WIDTH).print(made)
    about = {
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("tidings-network", "pyspark", "polars", "duckdb")},
        "memory_mb": memory_mb(),
        "load": os.getloadavg(),
        "sizes": asdict(sizes),
    }
    told = [asdict(row) | {"per_s": row.per_s, "per_cpu_s": row.per_cpu_s} for row in rows]
    text = json.dumps(about | {"rows": told}, indent=1)
    (out / "pipeline.json").write_text(text, encoding="utf-8")
    if as_json:
        print(text)
    else:
        Console(width=WIDTH).print(made)
    if any(row.grows for row in rows):
        growth.draw(rows, out / "pipeline.png")


def main() -> None:
    given = parsed(sys.argv[1:])
    # Asked to end, it ends as by Ctrl-C: files go, and what was started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="tidings-bench-", dir=given.work) as folder:
        work = Path(folder)
        inputs = (given.inputs or work / "inputs").absolute()
        with closing(Bench(work, inputs, cores=given.cores, memory=given.memory)) as bench:
            if given.prepare:
                prepare(bench, given.sizes, given.jobs)
                return
            try:
                for job in given.jobs:
                    JOBS[job](bench, given.sizes)
            finally:
                # What was measured before something went wrong is worth as much.
                if bench.rows:
                    conclude(bench.rows, given.sizes, given.out, as_json=given.json)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """What was asked for; `jobs` and `sizes` are complete."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"{', '.join(JOBS)}, or {ALL}")
    parser.add_argument("--full", action="store_true", help="up to 50 million rows")
    parser.add_argument("--out", type=Path, default=Path("reproduced/pipeline"), help="folder for results")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--work", type=Path, help="where the temporary folder is made")
    parser.add_argument("--inputs", type=Path, help="where what is read is kept")
    parser.add_argument("--prepare", action="store_true", help="only write what is read, into --inputs")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--memory", default="4g", help="of Spark's Java, and of DuckDB")
    names = [field.name for field in fields(Sizes)]
    several = {name for name in names if isinstance(getattr(QUICK, name), tuple)}
    for name in names:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=int,
            nargs="+" if name in several else None,
            metavar="N",
            help=f"{getattr(QUICK, name)}; --full: {getattr(FULL, name)}",
        )
    given = parser.parse_args(arguments)
    unknown = [job for job in given.jobs if job not in (*JOBS, ALL)]
    if unknown:
        parser.error(f"there is no job {unknown[0]!r}; there are {', '.join(JOBS)}, and {ALL}")
    if given.prepare and given.inputs is None:
        parser.error("--prepare without --inputs DIR would remove at its end what it has written")
    given.jobs = [job for job in JOBS if not given.jobs or ALL in given.jobs or job in given.jobs]
    asked = {name: value for name, value in vars(given).items() if name in names and value is not None}
    changed: dict[str, Any] = {
        name: tuple(value) if name in several else value for name, value in asked.items()
    }
    given.sizes = replace(FULL if given.full else QUICK, **changed)
    return given


if __name__ == "__main__":
    main()
