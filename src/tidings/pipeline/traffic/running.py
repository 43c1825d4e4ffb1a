"""Making traffic, a little more with every run: the edge.

A run reads the segments that are not in its ledger, keeps the records that it had not, makes all tables of
the hours that these touch, links the files of all other hours, and publishes everything with one rename. A
large segment whose records are all new is kept by a link as well:

    DIR/traffic -> .versions/traffic/3
    DIR/traffic/messages/hour=498552/part-….parquet
    DIR/traffic/_ledger.json

What it makes is a function of the set of records alone. In how many runs they came, in which order and how
often, changes nothing; and a run that dies is as if it had not been.
"""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tidings.errors import InputError
from tidings.pipeline.cache import cached
from tidings.pipeline.progress import watched
from tidings.pipeline.running import versions
from tidings.pipeline.stages import Stage
from tidings.pipeline.tables import TRAFFIC, Made, Store, check_columns, inspect, read_files, write_files
from tidings.pipeline.traffic import keeping, ledger, sums
from tidings.pipeline.traffic.hours import Hours
from tidings.records import traffic
from tidings.records.record import Kind
from tidings.records.schema import arrow_schema
from tidings.records.traffic import CONTRIBUTIONS, HOUR, RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINKED_ROWS_MIN = 10_000
"""A segment of so many records, all of one hour, becomes a file of the table of records as it is. Smaller
ones are written together: files cost too."""

Progress = Callable[[str, int, int], None]
"""Told what is being made, how many of its tasks are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has done."""

    version: int
    """Of the tables that are there now."""

    segments: int
    """That were read."""

    known: int
    """That were in the ledger."""

    records: int
    """That were new."""

    repeated: int
    """That were read and had been kept already."""

    hours: int
    """That were made anew."""

    linked: int
    """That were left as they were."""

    rows: Mapping[str, int]
    """Of every table, all hours together."""

    seconds: float


def run(
    spark: SparkSession,
    records: Path | str,
    store: Store,
    *,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    progress: Progress = lambda _name, _done, _tasks: None,
) -> Outcome:
    """Read what is new in a folder of records and bring all tables of traffic up to date."""
    start = time.monotonic()
    folder = Path(records).absolute()
    with store.writing([traffic.TRAFFIC], overwrite=True):
        had = store.version(traffic.TRAFFIC)
        before = store.path(traffic.TRAFFIC) if had is not None else None
        known = ledger.read(before)
        fresh = ledger.fresh(folder, known)
        if not fresh:
            if before is None:
                raise InputError(f"{folder} has no closed segments of records; run this again when it has")
            rows = {name: _count(before / name, name) for name in TRAFFIC}
            return Outcome(had or 0, 0, len(known), 0, 0, 0, len(_hours(before)), rows, _since(start))
        making = _Making(spark, before, fresh, progress)
        spec = {"records": str(folder), "seed": 0}

        def fill(version: Path, number: int) -> Made:
            making.fill(version)
            # One that was removed while it was read may have been read in part: it is gone, and not claimed.
            read = {one.path.name: one.bytes for one in fresh if one.path.exists()}
            ledger.write(version, known | read)
            files = list(version.rglob("*.parquet"))
            return Made(
                table=traffic.TRAFFIC,
                version=number,
                stage=traffic.TRAFFIC,
                spec=spec,
                seed=0,
                reads={},
                settings=dict(settings or {}),
                master=master,
                versions=versions(spark),
                at=datetime.now(UTC).isoformat(timespec="seconds"),
                rows=sum(making.rows.values()),
                bytes=sum(file.stat().st_size for file in files),
                files=len(files),
                seconds=_since(start),
            )

        made = store.publish(traffic.TRAFFIC, fill)
    return replace(making.outcome(), version=made.version, known=len(known), seconds=_since(start))


class _Making:
    """One run, within the folder of a new version."""

    def __init__(
        self, spark: SparkSession, before: Path | None, fresh: list[ledger.Fresh], progress: Progress
    ) -> None:
        self._spark = spark
        self._before = before
        self._fresh = fresh
        self._progress = progress
        self._added = 0
        self._made: set[int] = set()
        self.rows: dict[str, int] = {}

    def outcome(self) -> Outcome:
        linked = len(self._all) - len(self._made)
        read = sum(one.rows for one in self._fresh)
        hours = len(self._made)
        return Outcome(0, len(self._fresh), 0, self._added, read - self._added, hours, linked, self.rows, 0.0)

    def fill(self, version: Path) -> None:
        version.mkdir()
        touched = self._keep(version)
        near = Hours(touched).around
        here = Hours(tuple(sorted(self._all.intersection(near))))
        self._make(version, _stage(CONTRIBUTIONS), here)
        self._made = {*here.made, *self._further(version, here)}
        all_made = Hours(tuple(sorted(self._made)))
        records = self._read(version, RECORDS)
        with cached(sums.counts(records, all_made)), cached(sums.trips(records, all_made)):
            for name in TRAFFIC:
                if name not in (RECORDS, CONTRIBUTIONS):
                    self._make(version, _stage(name), all_made)

    def _keep(self, version: Path) -> tuple[int, ...]:
        """Add the records that were not kept yet to those that were; the hours that they are of."""
        segments = read_files(self._spark, [one.path for one in self._fresh], arrow_schema(), fleeting=True)
        kept = None
        between = range(min(one.first for one in self._fresh), max(one.last for one in self._fresh) + 1)
        if self._before is not None and any(hour in between for hour in _hours(self._before)):
            had = read_files(self._spark, [self._before / RECORDS], traffic.schemas()[RECORDS])
            kept = had.where(F.col(HOUR).between(between[0], between[-1]))
        folder = version / RECORDS
        with cached(keeping.repeated(segments, kept)) as twice:
            with self._told(RECORDS):
                once = twice.isEmpty()
            if once:
                self._take(folder)
            else:
                self._write(keeping.unseen(segments, kept, twice), folder, RECORDS)
        touched = tuple(_hours(version))
        self._added = inspect(folder, TRAFFIC[RECORDS], traffic.schemas()[RECORDS], 0).rows
        if self._before is not None:
            _link_hours(self._before / RECORDS, folder, _hours(self._before))
        self._all = set(_hours(version))
        self.rows[RECORDS] = _count(folder, RECORDS)
        return touched

    def _take(self, folder: Path) -> None:
        """Keep all that is fresh, where no record comes twice: large segments as they are."""
        whole = [one for one in self._fresh if self._is_whole(one)]
        rest = [one.path for one in self._fresh if one not in whole]
        if rest:
            segments = read_files(self._spark, rest, arrow_schema(), fleeting=True)
            self._write(keeping.unseen(segments), folder, RECORDS)
        for one in whole:
            hour = folder / f"{HOUR}={one.first}"
            hour.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # a broker removes its oldest
                _link(one.path, hour)

    def _is_whole(self, one: ledger.Fresh) -> bool:
        """Whether a segment can be a file of the table of records."""
        if one.rows < LINKED_ROWS_MIN or one.first != one.last or not one.whole:
            return False
        # Of one that has grown since it was read, or was lost and came back, the name is taken.
        kept = self._before / RECORDS / f"{HOUR}={one.first}" if self._before is not None else None
        return kept is None or not (kept / one.path.name).exists()

    def _further(self, version: Path, here: Hours) -> list[int]:
        """Hours not near in which versions of events were delivered of which more is known now."""
        later = [hour for hour in self._all.difference(here.made) if here.made and hour > here.made[0]]
        if self._before is None or not later:
            return []
        schema = traffic.schemas()[CONTRIBUTIONS]
        columns = [field.name for field in schema]
        now = self._read(version, CONTRIBUTIONS).where(F.col(HOUR).isin(list(here.made)))
        had = read_files(self._spark, [self._before / CONTRIBUTIONS], schema)
        news = now.join(had, columns, "left_anti").select("event", "version").distinct()
        delivered = Hours(tuple(sorted(later))).of(self._read(version, RECORDS), Kind.DELIVERED)
        found = delivered.join(news, ["event", "version"], "left_semi").select(HOUR).distinct()
        return [row[HOUR] for row in found.collect()]

    def _make(self, version: Path, stage: Stage, hours: Hours) -> None:
        """Make a table for some hours, and link it for all others."""
        if hours.made:
            frames = {name: self._read(version, name) for name in stage.reads}
            self._write(stage.make(frames, hours), version / stage.table, stage.table)
        else:
            (version / stage.table).mkdir()
        if self._before is not None:
            others = self._all.difference(hours.made)
            _link_hours(self._before / stage.table, version / stage.table, others)
        self.rows[stage.table] = _count(version / stage.table, stage.table)

    def _read(self, version: Path, name: str) -> DataFrame:
        return read_files(self._spark, [version / name], traffic.schemas()[name])

    def _write(self, frame: DataFrame, folder: Path, name: str) -> None:
        check_columns(frame, name, traffic.schemas()[name])
        with self._told(name):
            write_files(frame, folder, TRAFFIC[name])

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """While a table is made: how far it is."""
        self._progress(name, 0, 0)
        with watched(self._spark, lambda done, tasks: self._progress(name, done, tasks)):
            yield


def _stage(name: str) -> Stage:
    stage: Stage = importlib.import_module(TRAFFIC[name].stage).STAGE
    return stage


def _hours(version: Path) -> list[int]:
    """The hours of which a version has records."""
    folders = (version / RECORDS).glob(f"{HOUR}=*")
    return sorted(int(folder.name.partition("=")[2]) for folder in folders)


def _link_hours(source: Path, target: Path, hours: Iterable[int]) -> None:
    """Have the files of some hours in another folder too."""
    for hour in hours:
        for file in sorted((source / f"{HOUR}={hour}").glob("*.parquet")):
            folder = target / f"{HOUR}={hour}"
            folder.mkdir(exist_ok=True)
            _link(file, folder)


def _link(file: Path, folder: Path) -> None:
    """Have a file in another folder too: the same file, no copy. Nobody writes to it again."""
    try:
        os.link(file, folder / file.name)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP):
            raise
        # Another file system, one without links, or with as many as it can.
        shutil.copy2(file, folder / file.name)


def _count(folder: Path, name: str) -> int:
    """How many rows a table has, of which none may lack what it must have."""
    return inspect(folder, TRAFFIC[name], traffic.schemas()[name], 0).rows


def _since(start: float) -> float:
    return round(time.monotonic() - start, 3)
