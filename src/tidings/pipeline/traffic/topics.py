"""The table `topics`: what became of what was published to each topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.traffic.hours import Hours, copies, is_kind, size, total
from tidings.records import traffic
from tidings.records.record import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNTED = (
    Kind.PUBLISHED,
    Kind.OPENED,
    Kind.MERGED,
    Kind.TOLD,
    Kind.DELIVERED,
    Kind.SUPPRESSED,
    Kind.REQUESTED,
)


def make(frames: Frames, hours: Hours) -> DataFrame:
    """Counts by topic, as it was named when something was published."""
    published = is_kind(Kind.PUBLISHED)
    sums = {
        "published": total(1, published),
        "published_bytes": total(size(), published),
        "reports": total(1, published & F.col("report").isNotNull()),
        "opened": total(1, is_kind(Kind.OPENED)),
        "merged": total(1, is_kind(Kind.MERGED)),
        "told": total(1, is_kind(Kind.TOLD)),
        "delivered": total(copies(), is_kind(Kind.DELIVERED)),
        "suppressed": total(1, is_kind(Kind.SUPPRESSED)),
        "requested": total(1, is_kind(Kind.REQUESTED)),
    }
    return (
        hours.of(frames[traffic.RECORDS], *COUNTED)
        .where("topic IS NOT NULL")
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
