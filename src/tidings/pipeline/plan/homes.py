"""Where clients are connected: one row for each client.

From records it is the broker at which a client was seen last: it published or subscribed there, or something
was delivered to it. From a workload it is what the table of clients says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tidings.pipeline.traffic.hours import is_kind
from tidings.records.record import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = ("client", "broker")


def of_records(records: DataFrame) -> DataFrame:
    """From records. Of two brokers at the very same time the one with the larger name has it."""
    # The same lists of receivers come again and again: only the last of each is taken apart.
    received = (
        records.where(is_kind(Kind.DELIVERED))
        .groupBy("broker", "receivers")
        .agg(F.max("at").alias("at"))
        .select(F.explode("receivers").alias("client"), "broker", "at")
    )
    publisher = F.when(is_kind(Kind.PUBLISHED), F.col("publisher")).otherwise(F.col("client"))
    spoke = (
        records.where(is_kind(Kind.PUBLISHED, Kind.SUBSCRIBED))
        .select(publisher.alias("client"), "broker", "at")
        .where("client IS NOT NULL")
    )
    return (
        received.unionByName(spoke)
        .groupBy("client")
        .agg(F.max(F.struct("at", "broker")).alias("last"))
        .select("client", "last.broker")
    )


def of_clients(clients: DataFrame) -> DataFrame:
    """From the table of a workload, whose clients are numbers."""
    return clients.select(F.col("client").cast("string").alias("client"), "broker")


def among(homes: DataFrame, wanted: DataFrame) -> DataFrame:
    """Of some clients only."""
    return homes.join(wanted, "client", "left_semi").select(*COLUMNS)
