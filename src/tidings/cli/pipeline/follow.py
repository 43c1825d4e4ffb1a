"""`tidings pipeline gather --follow`: reports of a stream through the gatherer on Spark, until Ctrl-C."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import typer

from tidings.cli.files.counts import show_counts
from tidings.cli.pipeline.spark import checked
from tidings.errors import InputError, SetupError
from tidings.language import durations, payloads

if TYPE_CHECKING:
    import pyarrow as pa

    from tidings.pipeline.gather.stream_job import Follower

LOOK_S = 0.25
"""How often it is looked what has been told."""

CORES_ELSEWHERE = 16
"""Tasks of a cluster, whose size is not known here."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a stream is to do."""

    data: Path
    topics: Sequence[Path]
    reports: str
    url: str | None
    checkpoint: Path
    out: Path
    delay: str
    idle_after: str | None
    buckets: int | None
    options: Mapping[str, str]
    until_now: bool
    finish: bool
    lines: bool


def follow(asked: Asked, *, master: str, settings: list[str] | None, as_json: bool) -> None:
    """Follow a stream to its end, or until Ctrl-C; then say what was told."""
    from tidings.pipeline import session, worker_files
    from tidings.pipeline.gather import engines, stream_job

    given = checked(master, settings)
    follower = _follower(asked)
    cores = session.core_count(master) if session.is_local(master) else CORES_ELSEWHERE
    tasks = int(given.get("spark.sql.shuffle.partitions", min(cores, follower.buckets)))
    start = time.monotonic()
    with closing(follower), session.start("tidings gather", master=master, settings=given) as spark:
        worker_files.send(spark, master, needed=worker_files.STATES)
        query = follower.start(spark, partitions=tasks, until_now=asked.until_now)
        watch = _Watch(follower, lines=asked.lines)
        with _until_told() as enough, watch.shown():
            while query.isActive and not enough.wait(LOOK_S):
                watch.look(query)
            # To be stopped in the middle of a micro-batch is an error for Spark, and none for us.
            error = query.exception()
            query.stop()
        if error is not None:
            raise SetupError(f"the stream has failed: {stream_job.said(error)}. Called again, it goes on")
        if asked.finish and not enough.is_set():
            follower.finish(spark)
        watch.look(query)
        counts = follower.summary(spark)
    finished = asked.finish and not enough.is_set()
    seconds = round(time.monotonic() - start, 3)
    if as_json:
        told = {"out": str(follower.out), "checkpoint": str(follower.checkpoint), "finished": finished}
        told |= {"engine": engines.engine_of(follower.layout).value, "reports": watch.reports}
        typer.echo(json.dumps(told | {"seconds": seconds, "summary": counts}, ensure_ascii=False))
    elif not asked.lines:
        over = "finished" if finished else "what is open is kept, and the same command goes on"
        show_counts(counts, f"told in {follower.out}, {seconds:.1f} s; {over}")


def _follower(asked: Asked) -> Follower:
    from tidings.pipeline.gather import job
    from tidings.pipeline.gather.stream_job import Files, Follower, Log

    topics = job.topics_of(asked.data, asked.topics)
    source: Files | Log
    if asked.url is not None:
        source = Log(asked.url, asked.options)
    else:
        folder = Path(asked.reports)
        source = Files(folder if folder.is_dir() else asked.data / asked.reports, asked.options)
    return Follower(
        source,
        topics,
        asked.checkpoint,
        asked.out,
        delay_us=_duration_us("--delay", asked.delay),
        buckets=asked.buckets,
        idle_after_us=None if asked.idle_after is None else _duration_us("--idle-after", asked.idle_after),
    )


def _duration_us(option: str, text: str) -> int:
    try:
        return durations.parse(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


@contextmanager
def _until_told() -> Iterator[Event]:
    """Set by Ctrl-C or SIGTERM. Spark's own handler would break off the job that runs, with an error."""
    enough = Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: enough.set()) for number in numbers]
    try:
        yield enough
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


class _Watch:
    """How far a stream is, on standard error; and where it is wanted what is told, on standard output."""

    def __init__(self, follower: Follower, *, lines: bool) -> None:
        self._follower = follower
        self._lines = lines
        self._batches: dict[int, int] = {}
        self._told = 0
        self._rate = 0.0
        self._status: Any = None

    @property
    def reports(self) -> int:
        """That this run has taken."""
        return sum(self._batches.values())

    @contextmanager
    def shown(self) -> Iterator[None]:
        from rich.console import Console

        with Console(stderr=True).status("waiting for reports") as self._status:
            yield

    def look(self, query: Any) -> None:
        """See what has come and what was told."""
        for one in query.recentProgress:
            # As the text that both kinds of sessions have.
            said = json.loads(one.json)
            self._batches[said["batchId"]] = said["numInputRows"]
            if said["numInputRows"]:
                self._rate = said.get("processedRowsPerSecond") or 0.0
        for table in self._follower.fresh():
            states = table.column("state").to_pylist()
            self._told += sum(state in ("told", "ended") for state in states)
            if self._lines:
                _print(table)
        self._status.update(
            f"{self.reports:,} reports, {self._told:,} versions told; {self._rate:,.0f} reports/s"
        )


def _print(table: pa.Table) -> None:
    """What is told, as the lines of `tidings gather --json`, in the order of time."""
    rows = [row for row in table.to_pylist() if row["state"] in ("told", "ended")]
    for row in sorted(rows, key=lambda row: (row["at"], str(row["event"]), row["version"])):
        line = {
            "at": row["at"] / 1_000_000 if row["at"] % 1_000_000 else row["at"] // 1_000_000,
            "event": str(row["event"]),
            "key": list(row["key"].values()),
            **{name: row[name] for name in ("version", "reports", "complete")},
            "fields": _filled(row["fields"]),
        }
        if row["state"] != "told":
            line["state"] = row["state"]
        sys.stdout.write(payloads.encode(line).decode() + "\n")
    sys.stdout.flush()


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _filled(value) if isinstance(value, dict) else value
        for name, value in fields.items()
        if value is not None
    }
