"""How often the history of a topic is asked for at a broker: one row for each topic and broker.

From traffic it is the table `requests`, whichever broker had the answer. From a workload it is the table of
requests, each at the broker of the client that makes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = ("topic", "broker", "requests")


def of_traffic(requests: DataFrame) -> DataFrame:
    """From the table of traffic."""
    return (
        requests.groupBy("topic", "broker")
        .agg(F.sum("requests").cast("bigint").alias("requests"))
        .select(*COLUMNS)
    )


def of_workload(requests: DataFrame, clients: DataFrame) -> DataFrame:
    """From the tables of a workload."""
    return (
        requests.select("client", "topic")
        .join(clients.select("client", "broker"), "client")
        .groupBy("topic", "broker")
        .agg(F.count("*").alias("requests"))
        .select(*COLUMNS)
    )


def often(requests: DataFrame, least: int) -> DataFrame:
    """Those of topics that are asked for at least so often, at all brokers together."""
    wanted = requests.groupBy("topic").agg(F.sum("requests").alias("all")).where(F.col("all") >= least)
    return requests.join(wanted.select("topic"), "topic", "left_semi").select(*COLUMNS)
