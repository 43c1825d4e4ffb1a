"""The table `requests`: how often the history of a topic was asked for at a broker, and which broker had it.

The record is written by the one that had it; where that is not the one that was asked, it names the other.
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
    """Requests, and the bytes that they were answered with, by broker, holder and topic."""
    return (
        counts(frames[traffic.RECORDS], hours)
        .where(is_kind(Kind.REQUESTED) & F.col("topic").isNotNull())
        .withColumn("holder", F.col("broker"))
        .withColumn("broker", F.coalesce("link", "holder"))
        .groupBy("broker", "holder", "topic", "hour")
        .agg(total(F.col("records")).alias("requests"), total(F.col("bytes")).alias("bytes"))
        .select("broker", "holder", "topic", "requests", "bytes", "hour")
    )


STAGE = Stage(
    table=traffic.REQUESTS,
    says="how often the history of a topic was asked for",
    reads=(traffic.RECORDS,),
    lookups=lambda _: {},
    make=make,
)
