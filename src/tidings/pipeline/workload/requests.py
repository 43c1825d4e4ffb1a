"""The table of requests for stored events: clients that ask for what happened before.

A request is made by the client of a subscription, drawn evenly, at a time when the subscription is there: on
its topic, with its filter, for a span of the past. Half of them want what happened just before, the others
something that is over for some time. What is asked for may lie before the workload's start, where nothing is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.workload import chunks
from tidings.records import workload as tables
from tidings.workload import hashing, quantiles
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

NUMBERS = "numbers"
"""The lookup of chunks of requests."""

SPANS = "spans"
"""The lookup of how much of the past is asked for."""

BROADCAST_MAX = 1_000_000
"""As many requests as are sent to the subscriptions, wherever those are; more meet them through a shuffle."""


def count(model: Model) -> int:
    """How many there are: none without subscriptions."""
    return model.spec.sizes.requests if model.allocated.any() else 0


def key(model: Model, column: str) -> int:
    """What a random column of this table is drawn by."""
    return hashing.key(model.spec.seed, tables.REQUESTS, column)


def schema(model: Model) -> pa.Schema:
    """The columns."""
    return tables.schemas([one.name for one in model.dimensions], ())[tables.REQUESTS]


def lookups(model: Model) -> Mapping[str, pa.Table]:
    """Small tables that this stage and its twin share."""
    import pyarrow as pa

    _, begins, ends = chunks.split(np.zeros(1, np.int64), np.array([count(model)]))
    lows, widths = quantiles.exponential(model.spec.requests.span_us)
    return {
        NUMBERS: pa.table({"begin": begins, "end": ends}),
        SPANS: pa.table({"span_slot": np.arange(quantiles.SLOTS), "span": lows, "span_width": widths}),
    }


def _make(frames: Frames, model: Model) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    from tidings.pipeline import columns as random

    def drawn(column: str) -> Column:
        return random.draw(key(model, column), F.col("request"))

    requests = (
        frames[NUMBERS]
        .transform(chunks.dealt, count(model))
        .withColumn("request", F.explode(F.sequence("begin", "end")))
        .withColumn("subscription", random.below(drawn("subscription"), max(1, int(model.allocated.sum()))))
        .withColumn("span_slot", random.below(drawn("slot"), quantiles.SLOTS))
        .withColumn("ago_slot", random.below(drawn("ago slot"), quantiles.SLOTS))
        .join(F.broadcast(frames[SPANS]), "span_slot")
        .join(F.broadcast(_renamed(frames[SPANS])), "ago_slot")
    )
    # Spark would take the chunks' size for that of the rows.
    requests = F.broadcast(requests) if count(model) <= BROADCAST_MAX else requests.hint("merge")
    end = F.lit(model.start_us + model.spec.time.duration_us)
    lasted = F.greatest(F.coalesce(F.col("until_at"), end) - F.col("from_at"), F.lit(1))
    ago = F.col("ago") + random.below(drawn("ago"), F.col("ago_width"))
    recent = random.below(drawn("recent"), 2) == 0
    return (
        frames[tables.SUBSCRIPTIONS]
        .join(requests, "subscription")
        .withColumn("at", F.col("from_at") + random.below(drawn("at"), lasted))
        .withColumn("until", F.col("at") - F.when(recent, F.lit(0)).otherwise(ago))
        .select(
            "client",
            "topic",
            "at",
            F.coalesce(F.col("where"), _where(model)).alias("where"),
            (F.col("until") - F.col("span") - random.below(drawn("span"), F.col("span_width"))).alias(
                "since"
            ),
            "until",
        )
    )


def _renamed(spans: DataFrame) -> DataFrame:
    """The same lookup, for how long ago the span was over."""
    from pyspark.sql import functions as F  # noqa: N812

    return spans.select(*(F.col(name).alias(name.replace("span", "ago")) for name in spans.columns))


def _where(model: Model) -> Column:
    """The rectangle as a filter, for subscriptions that have it as numbers alone."""
    from pyspark.sql import functions as F  # noqa: N812

    parts: list[Column] = []
    for one in model.dimensions:
        parts += [
            F.lit(f"{' AND ' if parts else ''}{one.name} BETWEEN "),
            F.col(tables.low(one.name)).cast("string"),
            F.lit(" AND "),
            F.col(tables.high(one.name)).cast("string"),
        ]
    return F.concat(*parts)


STAGE = Stage(
    table=tables.REQUESTS,
    says="requests for stored events, by clients that subscribe",
    reads=(tables.SUBSCRIPTIONS,),
    lookups=lookups,
    make=_make,
)
