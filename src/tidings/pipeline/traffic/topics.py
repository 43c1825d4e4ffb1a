"""The table `topics`: what became of what was published to each topic."""

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
    """Counts by topic, as it was named when something was published."""
    published, records = is_kind(Kind.PUBLISHED), F.col("records")
    sums = {
        "published": total(records, published),
        "published_bytes": total(F.col("bytes"), published),
        "reports": total(records, published & F.col("is_report")),
        "opened": total(records, is_kind(Kind.OPENED)),
        "merged": total(records, is_kind(Kind.MERGED)),
        "told": total(records, is_kind(Kind.TOLD)),
        "delivered": total(F.col("copies"), is_kind(Kind.DELIVERED)),
        "suppressed": total(records, is_kind(Kind.SUPPRESSED)),
        "requested": total(records, is_kind(Kind.REQUESTED)),
    }
    return (
        counts(frames[traffic.RECORDS], hours)
        .where(F.col("topic").isNotNull() & ~is_kind(Kind.FORWARDED))
        .groupBy("topic", "hour")
        .agg(*(column.alias(name) for name, column in sums.items()))
        .select("topic", *sums, "hour")
    )


STAGE = Stage(
    table=traffic.TOPICS,
    says="what became of what was published to each topic",
    reads=(traffic.RECORDS,),
    lookups=lambda _: {},
    make=make,
)
