"""What a day of a network was like, from its records: over time, how long it took, and the life of an event.

The tables of `traffic` have what is counted by broker, link and topic; here is what they do not have. Every
function makes a DataFrame of records a small one, and neither reads nor collects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from tidings.pipeline.traffic.hours import copies, is_kind, total
from tidings.records.record import Kind
from tidings.records.traffic import HOUR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GATHERED = (Kind.OPENED, Kind.MERGED)
"""What becomes of a report that says something new."""

REPORTS_SHOWN = 9
"""Reports of an event that is worth looking at: enough to see what gathering is for, few enough to read."""


def sums(table: DataFrame, *keys: str) -> DataFrame:
    """A table of traffic without its hours: all that it counts, by these columns."""
    counts = [name for name, kind in table.dtypes if kind == "bigint" and name not in (*keys, HOUR)]
    return table.groupBy(*keys).agg(*(total(F.col(name)).alias(name) for name in counts))


def moments(records: DataFrame, began_us: int, width_us: int) -> DataFrame:
    """Reports published, versions told and deliveries in each stretch of so many microseconds.

    Stretches are numbered from 0, at the beginning; one in which nothing happened has no row.
    """
    published = is_kind(Kind.PUBLISHED) & F.col("report").isNotNull()
    return (
        records.where(is_kind(Kind.PUBLISHED, Kind.TOLD, Kind.DELIVERED) & (F.col("at") >= began_us))
        .groupBy(F.expr(f"(at - {began_us}) div {width_us}").alias("moment"))
        .agg(
            total(1, published).alias("reports"),
            total(1, is_kind(Kind.TOLD)).alias("versions"),
            total(copies(), is_kind(Kind.DELIVERED)).alias("deliveries"),
        )
    )


def latencies(records: DataFrame) -> DataFrame:
    """Microseconds from the report that made a version due to each delivery of it, and how many took so long.

    That report is the first of those that the version was the first to tell; so the time that gathering waits
    for more is in it. The four leading binary digits count, as in the table `latencies` of traffic.
    """
    published = (
        records.where(is_kind(Kind.PUBLISHED) & F.col("report").isNotNull())
        .groupBy("report")
        .agg(F.min("at").alias("published_at"))
    )
    due = (
        records.where(is_kind(*GATHERED) & F.col("version").isNotNull())
        .select("event", "version", "report")
        .join(published, "report")
        .groupBy("event", "version")
        .agg(F.min("published_at").alias("due_at"))
    )
    delivered = records.where(is_kind(Kind.DELIVERED) & F.col("version").isNotNull()).select(
        "event", "version", "at", copies().alias("deliveries")
    )
    took = F.greatest(F.col("at") - F.col("due_at"), F.lit(0))
    shift = "greatest(0, length(bin(took)) - 4)"
    return (
        delivered.join(due, ["event", "version"])
        .select(took.alias("took"), "deliveries")
        .select(F.expr(f"shiftleft(shiftright(took, {shift}), {shift})").alias("latency_us"), "deliveries")
        .groupBy("latency_us")
        .agg(total(F.col("deliveries")).alias("deliveries"))
    )


def seats(records: DataFrame) -> DataFrame:
    """Which broker gathered reports of which topic."""
    return records.where(is_kind(*GATHERED)).select("broker", "topic").distinct()


def lives(records: DataFrame, topic: str) -> DataFrame:
    """Events of a topic, the one from which most can be learnt first.

    That is one with reports of every fate, at least two versions and several receivers; among those, one with
    few reports enough to read them all.
    """
    reported = F.col("report").isNotNull()
    found = (
        records.where(F.col("event").isNotNull() & (F.col("topic") == topic))
        .groupBy("event")
        .agg(
            total(1, reported & is_kind(Kind.OPENED)).alias("opened"),
            total(1, reported & is_kind(Kind.MERGED)).alias("merged"),
            total(1, reported & is_kind(Kind.SUPPRESSED)).alias("redundant"),
            total(1, is_kind(Kind.TOLD)).alias("versions"),
            total(copies(), is_kind(Kind.DELIVERED)).alias("deliveries"),
        )
        .where("opened > 0")
    )
    reports = F.col("opened") + F.col("merged") + F.col("redundant")
    instructive = (
        F.least("redundant", F.lit(2))
        + F.least("merged", F.lit(2))
        + F.least("versions", F.lit(2))
        + F.least(F.expr("deliveries div greatest(versions, 1)"), F.lit(2))
    )
    return found.orderBy(instructive.desc(), F.abs(reports - REPORTS_SHOWN), "event")


def reports_of(records: DataFrame, event: str) -> DataFrame:
    """The reports of an event: when each was published, by whom, and what became of it.

    `place` counts from 0 what its publisher has published, of whatever topic, in its order.
    """
    fates = records.where(
        (F.col("event") == event) & F.col("report").isNotNull() & is_kind(*GATHERED, Kind.SUPPRESSED)
    ).select("report", F.col("kind").alias("became"))
    in_order = Window.partitionBy("publisher").orderBy("at", "broker", "boot", "n")
    published = records.where(is_kind(Kind.PUBLISHED)).select(
        "report", "at", "publisher", (F.row_number().over(in_order) - 1).alias("place")
    )
    return (
        fates.join(published, "report")
        .select("report", "at", "publisher", "place", "became")
        .orderBy("at", "report")
    )


def versions_of(records: DataFrame, event: str) -> DataFrame:
    """The versions of an event: when each was told, by which seat, and to how many it was delivered."""
    own = records.where((F.col("event") == event) & is_kind(Kind.TOLD, Kind.DELIVERED))
    told = is_kind(Kind.TOLD)
    return (
        own.groupBy("version")
        .agg(
            F.min(F.when(told, F.struct("at", "broker"))).alias("told"),
            total(copies(), is_kind(Kind.DELIVERED)).alias("receivers"),
        )
        .where("told IS NOT NULL")
        .select("version", "told.at", "told.broker", "receivers")
        .orderBy("version")
    )


def carried(records: DataFrame, ends_us: Sequence[int]) -> DataFrame:
    """Messages between brokers, one for each that got one, in each of some stretches that end at these times.

    `stretch` is the place of the first end that is not before it.
    """
    before = [F.when(F.col("at") <= end, F.lit(place)) for place, end in enumerate(ends_us)]
    return (
        records.where(is_kind(Kind.FORWARDED) & (F.col("at") <= max(ends_us)))
        .groupBy(F.coalesce(*before).alias("stretch"))
        .agg(total(copies()).alias("messages"))
    )
