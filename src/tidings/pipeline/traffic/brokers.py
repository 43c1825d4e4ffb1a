"""The table `brokers`: what each broker took in, sent on and gave out.

What a broker received is read from the records of those who sent it, in the hour in which they did.
"""

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
    Kind.FORWARDED,
    Kind.DELIVERED,
    Kind.OPENED,
    Kind.MERGED,
    Kind.TOLD,
    Kind.SUPPRESSED,
    Kind.REQUESTED,
)


def make(frames: Frames, hours: Hours) -> DataFrame:
    """Counts and bytes by broker."""
    records = hours.of(frames[traffic.RECORDS], *COUNTED)
    published, forwarded, delivered = map(is_kind, (Kind.PUBLISHED, Kind.FORWARDED, Kind.DELIVERED))
    sums = {
        "published": total(1, published),
        "published_bytes": total(size(), published),
        "received": total(0),
        "received_bytes": total(0),
        "forwarded": total(copies(), forwarded),
        "forwarded_bytes": total(copies() * size(), forwarded),
        "delivered": total(copies(), delivered),
        "delivered_bytes": total(copies() * size(), delivered),
        "gathered": total(1, is_kind(Kind.OPENED, Kind.MERGED)),
        "told": total(1, is_kind(Kind.TOLD)),
        "suppressed": total(1, is_kind(Kind.SUPPRESSED)),
        "requested": total(1, is_kind(Kind.REQUESTED)),
    }
    own = records.groupBy("broker", "hour").agg(*(column.alias(name) for name, column in sums.items()))
    lists = (
        records.where(forwarded)
        .groupBy("receivers", "hour")
        .agg(total(1).alias("received"), total(size()).alias("received_bytes"))
    )
    nothing = F.lit(0).cast("bigint")
    others = lists.select(
        F.explode("receivers").alias("broker"),
        *((F.col(name) if name.startswith("received") else nothing).alias(name) for name in sums),
        "hour",
    )
    return (
        own.unionByName(others)
        .groupBy("broker", "hour")
        .agg(*(total(F.col(name)).alias(name) for name in sums))
        .select("broker", *sums, "hour")
    )


STAGE = Stage(
    table=traffic.BROKERS,
    says="what each broker took in, sent on and gave out",
    reads=(traffic.RECORDS,),
    lookups=lambda _: {},
    make=make,
)
