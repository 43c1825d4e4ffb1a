"""The table `links`: what went over each link in one direction, and how much of it for nothing.

A message is in vain where the broker that received it neither delivered nor forwarded it. A report goes to
its seat whether somebody wants it or not, and is never in vain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.traffic.hours import Hours, size, total
from tidings.records import traffic
from tidings.records.record import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def make(frames: Frames, hours: Hours) -> DataFrame:
    """Copies, different messages, bytes, reports and false positives by sender and receiver."""
    records = frames[traffic.RECORDS]
    link, use = ["sender", "receiver", "hour"], ["receiver", "message", "hour"]
    sent = (
        hours.of(records, Kind.FORWARDED)
        .select(
            F.col("broker").alias("sender"),
            F.explode("receivers").alias("receiver"),
            "message",
            size().alias("bytes"),
            F.col("report").isNotNull().alias("is_report"),
            "hour",
        )
        # As the join below has them: so nothing is moved twice.
        .repartition(*use)
        .groupBy(*link, "message")
        .agg(
            total(1).alias("forwarded"),
            total(F.col("bytes")).alias("bytes"),
            total(1, F.col("is_report")).alias("reports"),
        )
    )
    # In every hour in which what a broker did answers for what it was sent.
    used = (
        hours.near(records, Kind.FORWARDED, Kind.DELIVERED)
        .select(F.col("broker").alias("receiver"), "message", hours.answered().alias("hour"))
        .distinct()
        .withColumn("useful", F.lit(True))
    )
    in_vain = F.col("useful").isNull() & (F.col("reports") == 0)
    return (
        sent.join(used, use, "left")
        .groupBy(*link)
        .agg(
            total(F.col("forwarded")).alias("forwarded"),
            total(1).alias("messages"),
            total(F.col("bytes")).alias("bytes"),
            total(F.col("reports")).alias("reports"),
            total(1, in_vain).alias("false_positives"),
        )
        .select("sender", "receiver", "forwarded", "messages", "bytes", "reports", "false_positives", "hour")
    )


STAGE = Stage(
    table=traffic.LINKS,
    says="what went over each link, and how much of it for nothing",
    reads=(traffic.RECORDS,),
    lookups=lambda _: {},
    make=make,
)
