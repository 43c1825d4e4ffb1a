"""What all jobs of the pipeline's benchmark share: clocks, figures and their table, files, and a session.

What is measured is not known here. Machines are shared, so that beside the clock stands what processors
spent on this process and all below it: Spark's Java, Python's workers, a broker.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.table import Table

from tidings.pipeline import session
from tidings.pipeline.progress import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WIDTH = 190
TOLD_EVERY_S = 15.0
"""How often a long piece of work says how far it is where nobody watches a terminal."""

POLLED_EVERY_S = 0.1
LOOKED_EVERY_S = 0.5
"""How often it is looked which processes there are: of one that ends, at most so much is not counted."""

PROGRESS_KEPT = "100000"
"""Micro-batches that Spark remembers; by itself it is the last hundred."""

Answer = TypeVar("Answer")
Write = Callable[[Path], None]


# Time.


@dataclass(frozen=True, slots=True)
class Spent:
    """What a piece of work took."""

    seconds: float
    cpu_seconds: float


class Watch:
    """Time that passes, and that processors spend, from now on."""

    def __init__(self) -> None:
        self._start, self._used, over = time.perf_counter(), Used(os.getpid()), Event()
        self._before_s = self._used.look()
        Thread(target=_looked, args=(self._used, over), name="tidings-used", daemon=True).start()
        # It knows no watch, and so ends with this one.
        weakref.finalize(self, over.set)

    def spent(self) -> Spent:
        return Spent(time.perf_counter() - self._start, self._used.look() - self._before_s)


def _looked(used: Used, over: Event) -> None:
    while not over.wait(LOOKED_EVERY_S):
        used.look()


class Used:
    """What a process and those below it have used, also those that have ended, as far as they were seen.

    The system adds what a child used to its parent's account only if the parent waits for it. The parent of
    Spark's Python workers does not, and they end whenever they have been idle for a while.
    """

    def __init__(self, root: int, processes: Path = Path("/proc")) -> None:
        self._root = root
        self._processes = processes
        self._ticks: dict[tuple[int, int], int] = {}
        """By number and start, since numbers are given again."""
        self._looking = Lock()

    def look(self) -> float:
        """Seconds of all cores, up to now."""
        with self._looking:
            parents: dict[int, int] = {}
            found: dict[int, tuple[int, int]] = {}
            for folder in self._processes.iterdir():
                if folder.name.isdigit():
                    try:
                        said = (folder / "stat").read_text().rpartition(")")[2].split()
                    except OSError:
                        continue  # it has ended meanwhile
                    parents[int(folder.name)] = int(said[1])
                    found[int(folder.name)] = int(said[19]), int(said[11]) + int(said[12])
            ours = {self._root}
            while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
                ours |= more
            self._ticks |= {(pid, found[pid][0]): found[pid][1] for pid in ours & found.keys()}
            return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")


def alone(work: Callable[..., Answer], *given: object) -> tuple[Answer, int]:
    """What a function says that runs in a process of its own, and the most memory that it had, in MB.

    The memory is given back when it ends, so that what is measured next does not miss it.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_with_peak, work, *given).result()


def _with_peak(work: Callable[..., Answer], *given: object) -> tuple[Answer, int]:
    answer = work(*given)
    # Of this process alone: what getrusage says begins with the parent's.
    lines = Path("/proc/self/status").read_text().splitlines()
    peak_kb = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return answer, peak_kb // 1024


# Figures.


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    job: str
    what: str
    engine: str = "Spark"
    rows: int
    seconds: float
    cpu_seconds: float
    cores: int
    partitions: int = 0
    """Tasks, buckets or threads, as the job has them; 0 where there is no such thing."""

    subscriptions: int = 0
    grows: str = ""
    """What it is a point of: rows, partitions or subscriptions."""

    target: int = 0
    """Rows per second that are asked for, or 0."""

    note: str = ""

    @property
    def per_s(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def per_core_s(self) -> float:
        return self.per_s / self.cores

    @property
    def per_cpu_s(self) -> float:
        return self.rows / self.cpu_seconds if self.cpu_seconds else 0.0


COLUMNS: dict[str, Callable[[Row], str]] = {
    "job": lambda row: row.job,
    "what": lambda row: row.what,
    "engine": lambda row: row.engine,
    "rows": lambda row: f"{row.rows:,}",
    "parts": lambda row: str(row.partitions or ""),
    "subscriptions": lambda row: f"{row.subscriptions:,}" if row.subscriptions else "",
    "seconds": lambda row: f"{row.seconds:.1f}",
    "rows/s": lambda row: f"{row.per_s:,.0f}",
    "target": lambda row: f"{row.target:,}" if row.target else "",
    "per core": lambda row: f"{row.per_core_s:,.0f}",
    "CPU s": lambda row: f"{row.cpu_seconds:.1f}",
    "rows/CPU s": lambda row: f"{row.per_cpu_s:,.0f}",
    "note": lambda row: row.note,
}
TEXTS = ("job", "what", "engine", "note")


def table(rows: Iterable[Row], title: str) -> Table:
    """Figures as a person reads them."""
    made = Table(title=title)
    for name in COLUMNS:
        made.add_column(name, justify="left" if name in TEXTS else "right")
    for row in rows:
        made.add_row(*(show(row) for show in COLUMNS.values()))
    return made


# Running.


class Bench:
    """One run of the benchmark: where its files are, its session, and the figures so far."""

    def __init__(
        self, work: Path, inputs: Path, *, cores: int, memory: str, spark: SparkSession | None = None
    ) -> None:
        """`work` is removed by whoever made it; `inputs` may outlive the run, and so may a given session."""
        self.work = work
        self.inputs = inputs
        self.cores = cores
        self.memory = memory
        self.console = Console(width=WIDTH, stderr=True, highlight=False)
        self.rows: list[Row] = []
        self._given = spark

    @cached_property
    def spark(self) -> SparkSession:
        """The session of all jobs, on this machine; what does not fit into memory goes to `work`."""
        settings = {
            "spark.driver.memory": self.memory,
            "spark.local.dir": str(self.work / "spilled"),
            "spark.sql.streaming.numRecentProgressUpdates": PROGRESS_KEPT,
        }
        return self._given or session.start(
            "tidings benchmark", master=f"local[{self.cores}]", settings=settings
        )

    def close(self) -> None:
        """Stop the session, if there is one of our own."""
        if self._given is None and "spark" in self.__dict__:
            self.spark.stop()

    def tell(self, text: str) -> None:
        """Say what is going on, beside the results."""
        self.console.print(text)

    def add(self, row: Row) -> Row:
        self.rows.append(row)
        self.tell(
            f"  {row.job}, {row.what}, {row.engine}: {row.rows:,} rows in {row.seconds:.1f} s, "
            f"{row.per_s:,.0f}/s, {row.per_cpu_s:,.0f} per CPU second  {row.note}"
        )
        return row

    def row(self, job: str, what: str, rows: int, spent: Spent, **more: Any) -> Row:
        """Add a line of what was measured here or elsewhere."""
        seconds, cpu_seconds = spent.seconds, spent.cpu_seconds
        return self.add(
            Row(
                job=job,
                what=what,
                rows=rows,
                seconds=seconds,
                cpu_seconds=cpu_seconds,
                cores=self.cores,
                **more,
            )
        )

    def timed(
        self,
        job: str,
        what: str,
        rows: int,
        work: Callable[[], Answer],
        note: Callable[[Answer], str] = lambda _: "",
        **more: Any,
    ) -> Answer:
        """Do something on Spark, and add a line of what it took."""
        with watched(self.spark, Bar(self.console, f"{job}, {what}, {rows:,} rows: tasks").moved):
            watch = Watch()
            answer = work()
            spent = watch.spent()
        self.row(job, what, rows, spent, note=note(answer), **more)
        return answer

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """A folder that goes at the end of the block."""
        folder = self.work / name
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    @contextmanager
    def setting(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Settings of the session, for a while."""
        conf = self.spark.conf
        before = {name: conf.get(name, None) for name in settings}
        for name, value in settings.items():
            conf.set(name, value)
        try:
            yield
        finally:
            for name, had in before.items():
                if had is None:
                    conf.unset(name)
                else:
                    conf.set(name, had)

    def written(self, paths: list[Path], writes: Iterable[Write], what: str) -> list[Path]:
        """Files, each by its function, several at once; those that are there are not made again.

        `writes` may make what it writes as it goes: only a few of its functions wait at any time.
        """
        if all(path.exists() for path in paths):
            return paths
        bar = Bar(self.console, f"writing {what}: files")
        under_way: deque[Future[None]] = deque()
        with ThreadPoolExecutor(self.cores) as pool:
            for number, (path, write) in enumerate(zip(paths, writes, strict=False)):
                if not path.exists():
                    under_way.append(pool.submit(_write, path, write, number))
                if len(under_way) > self.cores:
                    under_way.popleft().result()
                bar.moved(number, len(paths))
            for future in under_way:
                future.result()
        return paths


def _write(path: Path, write: Write, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Spark passes over what begins with a dot, and so does a run that comes after one that was interrupted.
    partly = path.with_name(f".{path.name}")
    write(partly)
    # A stream of files takes them by their time.
    os.utime(partly, (number, number))
    partly.rename(path)


class Bar:
    """How far a long piece of work is: one line that changes on a terminal, else a line now and then."""

    def __init__(self, console: Console, label: str) -> None:
        self._label = label
        self._file = console.file
        self._terminal = console.is_terminal
        self._last = time.monotonic()

    def moved(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last < (POLLED_EVERY_S if self._terminal else TOLD_EVERY_S):
            return
        self._last = now
        text = f"  {self._label} {done:,} of {total:,}"
        self._file.write(f"\r\x1b[K{text}\r" if self._terminal else f"{text}\n")
        self._file.flush()


# Streams.


@dataclass(frozen=True, slots=True)
class Warm:
    """What micro-batches took, without those in which Python starts and Java compiles."""

    rows: int
    spent: Spent
    batches_s: tuple[float, ...]
    """Each micro-batch that had rows."""

    metrics: tuple[dict[str, Any], ...]
    """What the query observed, in all of its micro-batches."""

    total: int
    """Rows of all micro-batches, the first ones too."""


def followed(
    query: StreamingQuery,
    cold: int,
    bar: Bar,
    batches: int = 0,
    enough: Callable[[int, float], bool] = lambda _batches, _seconds: False,
) -> Warm:
    """Follow a query until it ends, or until so many warm micro-batches in so many seconds are `enough`.

    `cold` micro-batches are left out, but no more than half of all; `batches` is how many there will be, if
    that is known.
    """
    if batches:
        cold = min(cold, batches // 2)
    watch: Watch | None = None
    first = 0
    while not query.awaitTermination(POLLED_EVERY_S):  # type: ignore[arg-type]
        if (last := query.lastProgress) is None:
            continue
        done = int(last["batchId"]) + 1
        bar.moved(done, batches or done)
        if watch is None:
            if done >= cold:
                watch, first = Watch(), done
        elif done > first and enough(done - first, watch.spent().seconds):
            break
    spent = watch.spent() if watch is not None else Spent(0.0, 0.0)
    progress = query.recentProgress
    query.stop()
    warm = [one for one in progress if one["numInputRows"] and one["batchId"] >= first]
    batches_s = tuple(one["durationMs"]["triggerExecution"] / 1000 for one in warm)
    return Warm(
        rows=sum(one["numInputRows"] for one in warm),
        spent=Spent(sum(batches_s), spent.cpu_seconds),
        batches_s=batches_s,
        metrics=tuple(one["observedMetrics"] for one in progress),
        total=sum(one["numInputRows"] or 0 for one in progress),
    )
