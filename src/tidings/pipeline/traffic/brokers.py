"""The table `brokers`: what each broker took in, sent on and gave out.

What a broker received is what went over the links to it, in the hour in which it was sent.
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
    """Counts and bytes by broker."""
    published, forwarded, delivered = map(is_kind, (Kind.PUBLISHED, Kind.FORWARDED, Kind.DELIVERED))
    records, copies, copied = F.col("records"), F.col("copies"), F.col("copied_bytes")
    sums = {
        "published": total(records, published),
        "published_bytes": total(F.col("bytes"), published),
        "received": total(0),
        "received_bytes": total(0),
        "forwarded": total(copies, forwarded),
        "forwarded_bytes": total(copied, forwarded),
        "delivered": total(copies, delivered),
        "delivered_bytes": total(copied, delivered),
        "gathered": total(records, is_kind(Kind.OPENED, Kind.MERGED)),
        "told": total(records, is_kind(Kind.TOLD)),
        "suppressed": total(records, is_kind(Kind.SUPPRESSED)),
        "requested": total(records, is_kind(Kind.REQUESTED)),
    }
    own = (
        counts(frames[traffic.RECORDS], hours)
        .groupBy("broker", "hour")
        .agg(*(column.alias(name) for name, column in sums.items()))
    )
    links = {"received": "forwarded", "received_bytes": "bytes"}
    nothing = F.lit(0).cast("bigint")
    others = hours.within(frames[traffic.LINKS]).select(
        F.col("receiver").alias("broker"),
        *((F.col(links[name]) if name in links else nothing).alias(name) for name in sums),
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
    reads=(traffic.RECORDS, traffic.LINKS),
    lookups=lambda _: {},
    make=make,
)
