"""Who sends to whom, and how often: one row for each pair of clients.

From traffic it is the table `messages` without its hours. From a workload it is what would be: an event that
is told is one message to each client with a subscription that gets it, from each client that reported it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = ("sender", "receiver", "messages")


def of_messages(messages: DataFrame) -> DataFrame:
    """From the table of traffic."""
    return (
        messages.groupBy("sender", "receiver")
        .agg(F.sum("messages").cast("bigint").alias("messages"))
        .select(*COLUMNS)
    )


def of_matches(matches: DataFrame, subscriptions: DataFrame, spoken: DataFrame) -> DataFrame:
    """From events and subscriptions that get them, whose subscriptions these are, and who spoke of events.

    `matches` has `event` and `subscription`; `subscriptions` has `subscription` and `client`; `spoken` has
    `event` and `client`. A client with two subscriptions for an event gets it once, and one that reports it
    twice has told it once.
    """
    received = (
        matches.join(subscriptions.select("subscription", F.col("client").alias("receiver")), "subscription")
        .select("event", "receiver")
        .distinct()
    )
    senders = spoken.select("event", F.col("client").alias("sender")).distinct()
    return (
        received.join(senders, "event")
        .groupBy("sender", "receiver")
        .agg(F.count("*").alias("messages"))
        .select(
            F.col("sender").cast("string").alias("sender"),
            F.col("receiver").cast("string").alias("receiver"),
            "messages",
        )
    )


def clients(pairs: DataFrame) -> DataFrame:
    """Everybody in some pairs, once."""
    return (
        pairs.select(F.col("sender").alias("client"))
        .unionByName(pairs.select(F.col("receiver").alias("client")))
        .distinct()
    )


def sizes(pairs: DataFrame, least: int) -> DataFrame:
    """In one row: how many pairs and messages there are, and how many of pairs with at least so many."""
    kept = F.col("messages") >= least
    one, messages = F.lit(1).cast("bigint"), F.col("messages")
    return pairs.agg(
        F.count("*").alias("pairs"),
        F.coalesce(F.sum(messages), F.lit(0)).cast("bigint").alias("messages"),
        F.coalesce(F.sum(F.when(kept, one)), F.lit(0)).cast("bigint").alias("kept_pairs"),
        F.coalesce(F.sum(F.when(kept, messages)), F.lit(0)).cast("bigint").alias("kept_messages"),
    )


def by_weight(pairs: DataFrame, most: int) -> DataFrame:
    """How many pairs have so many messages, counts above `most` taken together: at most `most` rows."""
    return (
        pairs.groupBy(F.least(F.col("messages"), F.lit(most).cast("bigint")).alias("messages"))
        .agg(F.count("*").alias("pairs"))
        .orderBy("messages")
    )
