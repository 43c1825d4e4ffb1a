"""Where plans come from: what brokers recorded, the tables of traffic made of it, or a workload.

This is the edge: what is there is looked at without Spark, and refused with the way out; what it is about is
then given as DataFrames, which nobody has computed yet. All sources have the same methods.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import functions as F  # noqa: N812

from tidings.errors import InputError
from tidings.pipeline import session
from tidings.pipeline.match.job import Job
from tidings.pipeline.match.strategies import Form
from tidings.pipeline.plan import homes, links, pairs, requests
from tidings.pipeline.session import is_local
from tidings.pipeline.tables import Store, read_files
from tidings.pipeline.traffic import contributions, keeping, ledger, messages
from tidings.pipeline.traffic import requests as traffic_requests
from tidings.pipeline.traffic.hours import Hours
from tidings.records import traffic
from tidings.records import workload as tables
from tidings.records.schema import arrow_schema
from tidings.records.segments import closed_segments
from tidings.records.traffic import HOUR, HOUR_US
from tidings.records.workload_reading import Workload

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

CALENDAR_HOUR_MIN = 100_000
"""Hours from here on, of 1981, are of the calendar; smaller ones are of a simulation, which begins at 0."""


class Source(Protocol):
    """What plans may be made from."""

    @property
    def name(self) -> str:
        """As users are told of it."""

    @property
    def unasked(self) -> str:
        """What to tell somebody who wants stores where nobody asks for anything."""

    def about(self) -> dict[str, Any]:
        """What a plan says of where it comes from: plain values."""

    def pairs(self, spark: SparkSession) -> AbstractContextManager[DataFrame]:
        """Who sends to whom: `sender`, `receiver`, `messages`; as long as this is open."""

    def requests(self, spark: SparkSession) -> DataFrame | None:
        """Who asks for what: `topic`, `broker`, `requests`; None where nothing can say so."""

    def homes(self, spark: SparkSession) -> DataFrame:
        """Where clients are: `client`, `broker`."""

    def ends(self, spark: SparkSession) -> DataFrame:
        """In one row the first and the last time of all of it, `first` and `last`, in microseconds."""


def hour_text(hour: int) -> str:
    """An hour as people write it.

    >>> hour_text(498552), hour_text(3)
    ('2026-11-16T00:00Z', 'hour 3')
    """
    if hour < CALENDAR_HOUR_MIN:
        return f"hour {hour}"
    return datetime.fromtimestamp(hour * HOUR_US // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%MZ")


@dataclass
class Recorded:
    """What brokers recorded in some hours: segments as they wrote them, or tables of traffic."""

    folder: Path
    hours: range
    """Which are looked at; all of them are there, but for gaps."""

    there: range
    """All of which something is there."""

    made: Path | None = None
    """The version of the tables of traffic, if there are any."""

    segments: tuple[Path, ...] = ()
    """Otherwise what they would be made from."""

    _kept: DataFrame | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """As users are told of it."""
        return f"the records in {self.folder}"

    @property
    def unasked(self) -> str:
        """What to tell somebody who wants stores where nobody asks for anything."""
        return (
            f"{self.name} have no requests from {hour_text(self.hours[0])} to the end of "
            f"{hour_text(self.hours[-1])}: nobody asked for the history of a topic. Give rates yourself "
            "(--rates FILE, lines topic,broker,rate), other hours, or a workload with requests "
            "(--workload DIR)"
        )

    def about(self) -> dict[str, Any]:
        """What a plan says of where it comes from."""
        return {"records": str(self.folder), "hours": [self.hours[0], self.hours[-1]]}

    @contextmanager
    def pairs(self, spark: SparkSession) -> Iterator[DataFrame]:
        """Who sends to whom."""
        if self.made is not None:
            found = self._table(spark, self.made, traffic.MESSAGES)
        else:
            # A version that is delivered in these hours may tell reports of others, as tables have it too.
            everywhere = Hours(tuple(self.there))
            frames = {traffic.RECORDS: self._records(spark)}
            frames[traffic.CONTRIBUTIONS] = contributions.make(frames, everywhere)
            found = messages.make(frames, Hours(tuple(self.hours)))
        yield pairs.of_messages(found)

    def requests(self, spark: SparkSession) -> DataFrame | None:
        """Who asks for what."""
        if self.made is not None:
            found = self._table(spark, self.made, traffic.REQUESTS)
        else:
            frames = {traffic.RECORDS: self._records(spark)}
            found = traffic_requests.make(frames, Hours(tuple(self.hours)))
        return requests.of_traffic(found)

    def homes(self, spark: SparkSession) -> DataFrame:
        """Where clients were when the hours were over. Who is silent in them was somewhere before."""
        return homes.of_records(self._records(spark).where(F.col(HOUR) < self.hours.stop))

    def links(self, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
        """Brokers (`broker`), and links (`a`, `b`) that were up before the hours were over."""
        records = self._records(spark).where(F.col(HOUR) < self.hours.stop)
        return links.brokers(records), links.of_records(records)

    def ends(self, spark: SparkSession) -> DataFrame:
        """The first and the last record of the hours."""
        return Hours(tuple(self.hours)).within(self._records(spark)).agg(*_ends())

    def _table(self, spark: SparkSession, made: Path, name: str) -> DataFrame:
        found = read_files(spark, [made / name], traffic.schemas()[name])
        return found.where(F.col(HOUR).between(self.hours[0], self.hours[-1]))

    def _records(self, spark: SparkSession) -> DataFrame:
        """Every record once, of all hours."""
        if self._kept is None:
            if self.made is not None:
                schema = traffic.schemas()[traffic.RECORDS]
                self._kept = read_files(spark, [self.made / traffic.RECORDS], schema)
            else:
                segments = read_files(spark, self.segments, arrow_schema(), fleeting=True)
                twice = keeping.repeated(segments, None)
                self._kept = keeping.unseen(segments, None, None if twice.isEmpty() else twice)
        return self._kept


def recorded(
    folder: Path, *, first: int | None = None, until: int | None = None, latest: int | None = None
) -> Recorded:
    """What brokers recorded, from the hour `first` to before the hour `until`, or in the `latest` hours.

    A folder of segments, as brokers write them; of tables, as `tidings pipeline traffic` makes them; or the
    folder `traffic` of these. Raises `InputError` where there is none of it, or nothing of these hours.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; name the one that brokers write their records to")
    made = _made(folder)
    segments: tuple[Path, ...] = ()
    if made is not None:
        there = sorted(int(one.name.partition("=")[2]) for one in (made / traffic.RECORDS).glob(f"{HOUR}=*"))
    elif closed_segments(folder):
        found = ledger.fresh(folder, {})
        segments = tuple(one.path.absolute() for one in found)
        there = sorted({hour for one in found for hour in (one.first, one.last)})
    else:
        raise InputError(
            f"{folder} has neither records of brokers nor tables of traffic; name the folder that brokers "
            "write records to, or that of `tidings pipeline traffic --data`"
        )
    if not there:
        raise InputError(f"{folder} has no records; plan when there are some")
    begin, end = there[0], there[-1] + 1
    if latest is not None:
        first = end - latest
    hours = range(max(begin, begin if first is None else first), min(end, end if until is None else until))
    if not hours:
        raise InputError(
            f"{folder} has no records of these hours; there are some from {hour_text(begin)} to the end of "
            f"{hour_text(end - 1)}"
        )
    return Recorded(folder, hours, range(begin, end), made, segments)


def _made(folder: Path) -> Path | None:
    """The version of the tables of traffic that a folder has, or is."""
    if (folder / ledger.LEDGER).is_file():
        return folder.resolve()
    store = Store(folder)
    return store.path(traffic.TRAFFIC) if store.version(traffic.TRAFFIC) is not None else None


@dataclass(frozen=True)
class Generated:
    """A workload."""

    workload: Workload
    master: str
    memory_bytes: int
    """What subscriptions may take on one machine while they are matched."""

    @property
    def name(self) -> str:
        """As users are told of it."""
        return f"the workload in {self.workload.folder}"

    @property
    def unasked(self) -> str:
        """What to tell somebody who wants stores where nobody asks for anything."""
        return (
            f"{self.name} has no requests. Make one that has: tidings workload generate --requests N; or "
            "give rates yourself (--rates FILE, lines topic,broker,rate)"
        )

    def about(self) -> dict[str, Any]:
        """What a plan says of where it comes from."""
        return {"workload": str(self.workload.folder)}

    @contextmanager
    def pairs(self, spark: SparkSession) -> Iterator[DataFrame]:
        """Who would send to whom: events are matched with subscriptions."""
        job = Job(self.workload.folder, self.memory_bytes, session.core_count("local[*]"))
        spoken = tables.REPORTS if self.workload.has(tables.REPORTS) else tables.EVENTS
        with tempfile.TemporaryDirectory(prefix="tidings-plan-") as beside:
            matches = job.frame(spark, Form.ROWS, Path(beside), sent=not is_local(self.master))
            yield pairs.of_matches(
                matches,
                self._read(spark, tables.SUBSCRIPTIONS, "subscription", "client"),
                self._read(spark, spoken, "event", "client"),
            )

    def requests(self, spark: SparkSession) -> DataFrame | None:
        """Who would ask for what."""
        if not self.workload.has(tables.REQUESTS):
            return None
        return requests.of_workload(
            self._read(spark, tables.REQUESTS, "client", "topic"),
            self._read(spark, tables.CLIENTS, "client", "broker"),
        )

    def homes(self, spark: SparkSession) -> DataFrame:
        """The brokers of clients."""
        return homes.of_clients(self._read(spark, tables.CLIENTS, "client", "broker"))

    def ends(self, spark: SparkSession) -> DataFrame:
        """The first and the last thing that happens, is reported or asked for."""
        there = [one for one in (tables.EVENTS, tables.REPORTS, tables.REQUESTS) if self.workload.has(one)]
        times = [self._read(spark, name, "at") for name in there]
        found = times[0]
        for one in times[1:]:
            found = found.unionByName(one)
        return found.agg(*_ends())

    def _read(self, spark: SparkSession, name: str, *columns: str) -> DataFrame:
        files = self.workload.table(name).files
        return spark.read.parquet(*(f"file://{file.absolute()}" for file in files)).select(*columns)


def generated(folder: Path, *, master: str = "local[*]", memory_bytes: int | None = None) -> Generated:
    """A workload from its folder, as `tidings workload generate` makes it; raises `InputError` if it is none.

    `memory_bytes` is what subscriptions may take on one machine, a quarter of this one by default.
    """
    allowed = session.memory_mb() * 2**20 // 4 if memory_bytes is None else memory_bytes
    return Generated(Workload(folder), master, allowed)


def _ends() -> tuple[Any, Any]:
    return F.min("at").alias("first"), F.max("at").alias("last")
