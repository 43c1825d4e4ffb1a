"""How fast the index finds, and how that compares, on four workloads and up to a million filters.

    python benchmarks/matching.py                          everything; about ten minutes
    python benchmarks/matching.py --quick                  1k and 10k filters; about a minute
    python benchmarks/matching.py --sizes 100000 --workloads W1 W3 --json result.json

Times are CPU time of this process, because machines are shared; single events are timed by the clock,
because CPU time is too coarse for them. Every engine must find the same ids, or the run stops.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter_ns, process_time, process_time_ns
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.peers import PEERS
from benchmarks.workloads import WORKLOADS, Workload, verify

from tidings.matching import Index, Scan, compile_kernels

SIZES = (1_000, 10_000, 100_000, 1_000_000)
EVENTS = 2_048
BATCH = 64
CHURN = 20_000
"""Adds and removes while matching goes on."""

PEER_SECONDS = 4.0
"""CPU time for asking a peer, or the scan; the number of events is what fits."""


@dataclass(slots=True)
class Row:
    """One line of the table."""

    workload: str
    filters: int
    engine: str
    build_s: float
    events_per_s: float
    bytes_per_filter: float | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    adds_per_s: float | None = None
    removes_per_s: float | None = None
    pause_ms: float | None = None
    matches: float | None = None


def single(match: Callable[[Any], Any], events: list[Any]) -> tuple[float, float]:
    """The median and the 99th percentile of single events, in microseconds."""
    times = []
    for event in events:
        start = perf_counter_ns()
        match(event)
        times.append(perf_counter_ns() - start)
    return float(np.percentile(times, 50)) / 1e3, float(np.percentile(times, 99)) / 1e3


def measure_index(workload: Workload, tell: Callable[[str], None]) -> tuple[Row, list[Any]]:
    count = len(workload.filters)
    events = workload.events
    index = Index()
    tell("index: build")
    gc.collect()
    start = process_time()
    for at, one in enumerate(workload.filters):
        index.add(at, one)
    while index.work():
        pass
    build = process_time() - start
    weight = index.bytes_used / count
    tell("index: match")
    answers = index.match_batch(events[:BATCH])
    start = process_time()
    done = 0
    while process_time() - start < 2.0:
        index.match_batch(events[done % EVENTS : done % EVENTS + BATCH])
        done += BATCH
    speed = done / (process_time() - start)
    p50, p99 = single(index.match, events)
    tell("index: churn")
    # New filters are last year's ones under new ids; what is removed is spread over all that are there.
    adding = removing = 0
    longest = 0
    gone = {at * 7919 % count for at in range(min(CHURN, count // 2))}
    leaving = sorted(gone, key=lambda at: at * 104729 % (count + 1))
    gc.disable()
    for at, old in enumerate(leaving):
        start_ns = process_time_ns()
        index.add(count + at, workload.filters[old])
        middle = process_time_ns()
        index.remove(old)
        end = process_time_ns()
        adding += middle - start_ns
        removing += end - middle
        longest = max(longest, middle - start_ns, end - middle)
        if at % 32 == 0:
            start_ns = process_time_ns()
            index.match(events[at % EVENTS])
            longest = max(longest, process_time_ns() - start_ns)
    gc.enable()
    # What churn leaves behind must still be right.
    now = {old: count + at for at, old in enumerate(leaving)}
    for event, before in zip(events[:8], answers, strict=False):
        wanted = sorted(now.get(at, at) for at in before.tolist())  # type: ignore[union-attr]
        assert list(index.match(event)) == wanted, "after churn the index finds other filters"
    row = Row(
        workload=workload.name,
        filters=count,
        engine=f"Index ({index.engine})",
        build_s=build,
        events_per_s=speed,
        bytes_per_filter=weight,
        p50_us=p50,
        p99_us=p99,
        adds_per_s=len(leaving) / (adding / 1e9),
        removes_per_s=len(leaving) / (removing / 1e9),
        pause_ms=longest / 1e6,
        matches=float(np.mean([len(found) for found in answers])),
    )
    return row, answers


def measure_other(
    name: str, workload: Workload, build: Callable[[], Any], answers: list[Any], tell: Callable[[str], None]
) -> Row:
    tell(f"{name}: build")
    start = process_time()
    matcher = build()
    built = process_time() - start
    tell(f"{name}: match")
    start = process_time()
    done = 0
    while done < BATCH and process_time() - start < PEER_SECONDS:
        found = matcher.match(workload.events[done])
        assert list(found) == answers[done].tolist(), f"{name} finds other filters than the index"
        done += 1
    speed = done / (process_time() - start)
    return Row(workload.name, len(workload.filters), name, built, speed)


def build_scan(workload: Workload) -> Scan:
    scan = Scan()
    for at, one in enumerate(workload.filters):
        scan.add(at, one)
    return scan


def table(rows: list[Row]) -> Table:
    made = Table(title="Matching: CPU time on one core, batches of 64 events, from dicts to sorted ids")
    for title in (
        "workload", "filters", "engine", "events/s", "µs/event", "p50 µs", "p99 µs", "build s", "B/filter",
        "adds/s", "removes/s", "pause ms", "found",
    ):  # fmt: skip
        made.add_column(title, justify="left" if title in ("workload", "engine") else "right")

    def say(value: float | None, digits: int = 0) -> str:
        return "" if value is None else f"{value:,.{digits}f}"

    for row in rows:
        made.add_row(
            row.workload, say(row.filters), row.engine,
            say(row.events_per_s, 0 if row.events_per_s >= 10 else 2),
            say(1e6 / row.events_per_s, 1), say(row.p50_us, 1), say(row.p99_us, 1), say(row.build_s, 2),
            say(row.bytes_per_filter), say(row.adds_per_s), say(row.removes_per_s), say(row.pause_ms, 1),
            say(row.matches),
        )  # fmt: skip
    return made


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib as mpl  # a second, and only for the picture

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    workloads = list(dict.fromkeys(row.workload for row in rows))
    engines = list(dict.fromkeys(row.engine for row in rows))
    figure, axes = plt.subplots(
        1, len(workloads), figsize=(4 * len(workloads), 4), sharey=True, squeeze=False
    )
    targets = {10_000: 100_000, 100_000: 40_000, 1_000_000: 10_000}
    for axis, name in zip(axes[0], workloads, strict=True):
        for at, engine in enumerate(engines):
            some = [row for row in rows if row.workload == name and row.engine == engine]
            axis.plot(
                [row.filters for row in some],
                [row.events_per_s for row in some],
                marker="o",
                label=engine,
                color=f"C{at}",
            )
        if name != "W4":
            axis.plot(list(targets), list(targets.values()), "k--", linewidth=1, label="target")
        axis.set(title=name, xscale="log", yscale="log", xlabel="filters")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("events per second of CPU")
    axes[0][0].legend(fontsize=8)
    figure.suptitle("Matching, from dicts to sorted ids")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--quick", action="store_true", help="only 1,000 and 10,000 filters")
    parser.add_argument("--no-peers", action="store_true", help="only the index")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for table and plot")
    chosen = parser.parse_args()
    sizes = [size for size in chosen.sizes if size <= 10_000] if chosen.quick else chosen.sizes
    console = Console(width=170)
    start = process_time()
    compile_kernels()
    console.print(f"kernels ready after {process_time() - start:.1f} s of CPU")
    rows: list[Row] = []
    with Progress(console=console) as progress:
        task = progress.add_task("", total=len(sizes) * len(chosen.workloads))
        for name in chosen.workloads:
            for size in sizes:

                def tell(what: str, name: str = name, size: int = size) -> None:
                    progress.update(task, description=f"{name} {size:,} {what}")

                tell("make")
                workload = WORKLOADS[name](size, EVENTS)
                verify(workload)
                row, answers = measure_index(workload, tell)
                rows.append(row)
                if not chosen.no_peers:
                    rows.append(measure_other("Scan", workload, partial(build_scan, workload), answers, tell))
                    rows += [
                        measure_other(peer.name, workload, partial(peer, workload), answers, tell)
                        for peer in PEERS
                    ]
                progress.advance(task)
    made = table(rows)
    console.print(made)
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (chosen.out / "matching.txt").open("w") as file:
        Console(file=file, width=170).print(made)
    plot(rows, chosen.out / "matching.png")
    console.print(f"table and plot are in {chosen.out}")
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
