"""The table `messages`: who sends to whom, a directed graph with weights.

A plain delivery is one message from its publisher to each receiver. A version of an event is one message to
each receiver from every publisher whose report it was the first to tell. Of a version without any, as one
that joins two sides of a partition, nobody is the sender.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.traffic.hours import Hours, total
from tidings.records import traffic
from tidings.records.record import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def make(frames: Frames, hours: Hours) -> DataFrame:
    """Messages from senders to receivers, and how many of them were versions of events."""
    delivered = hours.of(frames[traffic.RECORDS], Kind.DELIVERED)
    # The same lists of receivers come again and again: they are counted before they are taken apart.
    plain = (
        delivered.where("event IS NULL AND publisher IS NOT NULL")
        .groupBy(F.col("publisher").alias("sender"), "receivers", "hour")
        .agg(total(1).alias("messages"))
        .withColumn("told", F.lit(0).cast("bigint"))
    )
    versions = (
        delivered.where("event IS NOT NULL AND version IS NOT NULL")
        .groupBy("event", "version", "receivers", "hour")
        .agg(total(1).alias("messages"))
    )
    parts = frames[traffic.CONTRIBUTIONS].select("event", "version", F.col("publisher").alias("sender"))
    told = versions.join(parts.distinct(), ["event", "version"]).withColumn("told", F.col("messages"))
    columns = ["sender", "receivers", "messages", "told", "hour"]
    return (
        plain.select(*columns)
        .unionByName(told.select(*columns))
        .select("sender", F.explode("receivers").alias("receiver"), "messages", "told", "hour")
        .groupBy("sender", "receiver", "hour")
        .agg(total(F.col("messages")).alias("messages"), total(F.col("told")).alias("told"))
        .select("sender", "receiver", "messages", "told", "hour")
    )


STAGE = Stage(
    table=traffic.MESSAGES,
    says="who sends to whom, and how often",
    reads=(traffic.RECORDS, traffic.CONTRIBUTIONS),
    lookups=lambda _: {},
    make=make,
)
