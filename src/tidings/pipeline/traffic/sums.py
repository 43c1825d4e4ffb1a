"""Records added up as finely as several tables need them, so that these read the records once.

Each is a table of its own only while it is wanted: whoever runs several stages keeps it, and Spark takes what
is kept wherever it would make the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tidings.pipeline.traffic.hours import Hours, copies, is_kind, size, total
from tidings.records.record import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNTED = (
    Kind.PUBLISHED,
    Kind.FORWARDED,
    Kind.DELIVERED,
    Kind.OPENED,
    Kind.MERGED,
    Kind.TOLD,
    Kind.SUPPRESSED,
    Kind.REQUESTED,
)

DIGITS = 4
"""Leading binary digits of a latency that are told apart; see `records.traffic.bucket_of`."""


def counts(records: DataFrame, hours: Hours) -> DataFrame:
    """Records and bytes by broker, kind and topic: once, and once for each receiver.

    With why something was suppressed, which broker was asked for a history, and whether it is a report.
    """
    # Of a reason that says more behind a colon, only what is before it counts.
    reason = F.split_part(F.coalesce("reason", F.lit("")), F.lit(":"), F.lit(1))
    return (
        hours.of(records, *COUNTED)
        .groupBy(
            "broker",
            "kind",
            "topic",
            F.when(is_kind(Kind.SUPPRESSED), reason).alias("reason"),
            F.when(is_kind(Kind.REQUESTED), F.col("link")).alias("link"),
            F.col("report").isNotNull().alias("is_report"),
            "hour",
        )
        .agg(
            total(1).alias("records"),
            total(size()).alias("bytes"),
            total(copies()).alias("copies"),
            total(copies() * size()).alias("copied_bytes"),
        )
    )


def trips(records: DataFrame, hours: Hours) -> DataFrame:
    """Deliveries by broker, links that they came over, and latency, as far as these are known."""
    size_us = "abs(latency_us)"
    shift = f"greatest(0, length(bin({size_us})) - {DIGITS})"
    lowest = F.expr(f"shiftleft(shiftright({size_us}, {shift}), {shift})")
    return (
        hours.of(records, Kind.DELIVERED)
        .select(
            "broker",
            "hops",
            F.when(F.col("latency_us") < 0, -lowest).otherwise(lowest).alias("bucket"),
            copies().alias("deliveries"),
            (F.col("latency_us") * copies()).alias("total_us"),
            "hour",
        )
        .groupBy("broker", "hops", "bucket", "hour")
        .agg(
            total(F.col("deliveries")).alias("deliveries"),
            total(F.col("total_us")).alias("total_us"),
        )
    )
