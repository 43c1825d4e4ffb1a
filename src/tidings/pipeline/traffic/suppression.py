"""The table `suppression`: what went no further, by topic and reason.

Of a reason that says more behind a colon, as why a report was refused, only what is before it counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.traffic.hours import Hours, is_kind, total
from tidings.pipeline.traffic.sums import counts
from tidings.records import traffic
from tidings.records.record import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def make(frames: Frames, hours: Hours) -> DataFrame:
    """Messages, their bytes, and the sessions that were spared one."""
    return (
        counts(frames[traffic.RECORDS], hours)
        .where(is_kind(Kind.SUPPRESSED) & F.col("topic").isNotNull())
        .groupBy("topic", "reason", "hour")
        .agg(
            total(F.col("records")).alias("messages"),
            total(F.col("bytes")).alias("bytes"),
            total(F.col("copies")).alias("sessions"),
        )
        .select("topic", "reason", "messages", "bytes", "sessions", "hour")
    )


STAGE = Stage(
    table=traffic.SUPPRESSION,
    says="what went no further, by topic and reason",
    reads=(traffic.RECORDS,),
    lookups=lambda _: {},
    make=make,
)
