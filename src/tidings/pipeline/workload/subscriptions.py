"""The table of subscriptions: as many of each interest and region as sampling allotted, to the unit.

An interest's subscriptions are split into chunks, which are dealt out evenly, and only then become rows: what
goes through the shuffle is small. All columns are native expressions over the row's number.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.workload import chunks
from tidings.records import workload as tables
from tidings.workload import hashing, topics
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

REGIONS = "subscribed"
"""The lookup by region."""

TERRITORIES = "territories"
"""The lookup by topic."""

LIFE_FACTOR = 4
"""A lifetime is so many times the mean times two fractions, whose product is a quarter on average."""

GOLDEN = 0.6180339887498949

WHERE = "where"


def by_region(model: Model) -> pa.Table:
    """For each region where its subscriptions and clients begin, and how subscriptions are dealt to clients.

    The subscription at place j of a region goes to the client at place (stride * j + shift) mod count, over
    the number that a client has: a permutation, so that each client gets its share to the unit, of interests
    that have nothing to do with each other.
    """
    import pyarrow as pa

    counts = model.allocated.sum(axis=tuple(range(model.allocated.ndim - 1)))
    firsts = np.cumsum(counts) - counts
    shifts = hashing.below(hashing.draw(key(model, "shift"), np.arange(len(counts))), np.maximum(counts, 1))
    return pa.table(
        {
            "region": pa.array(model.regions, pa.string()),
            "region_first": pa.array(firsts),
            "region_count": pa.array(counts),
            "region_stride": pa.array([stride(int(count)) for count in counts], pa.int64()),
            "region_shift": pa.array(shifts),
            "region_client": pa.array(model.clients_first),
        }
    )


def stride(count: int) -> int:
    """A number that has no divisor in common with `count`, far from simple parts of it.

    Below 2**30, so that its product with a place below 2**32 fits into 63 bits.
    """
    found = max(1, int(min(count, 2**30) * GOLDEN))
    while gcd(found, count) > 1:
        found += 1
    return found


def by_topic(model: Model) -> pa.Table:
    """For each topic the part of the first dimension that is its own: no rectangle reaches beyond it."""
    import pyarrow as pa

    first = model.dimensions[0]
    begins, ends = topics.territories(first, model.lows[0], model.highs[0], model.spec.space.resolution)
    nodes = [0, *first.children[0]]
    return pa.table(
        {
            "topic": pa.array([model.topics[node] for node in nodes], pa.string()),
            "topic_lo": pa.array(begins[nodes]),
            "topic_hi": pa.array(ends[nodes]),
        },
        # Rectangles are cut off here, and are never null then.
        pa.schema(
            [
                pa.field("topic", pa.string(), nullable=False),
                pa.field("topic_lo", pa.int64(), nullable=False),
                pa.field("topic_hi", pa.int64(), nullable=False),
            ]
        ),
    )


def key(model: Model, column: str) -> int:
    """What a random column of this table is drawn by."""
    return hashing.key(model.spec.seed, tables.SUBSCRIPTIONS, column)


def _lookups(model: Model) -> Mapping[str, pa.Table]:
    return {REGIONS: by_region(model), TERRITORIES: by_topic(model)}


def numbered(frames: Frames, model: Model) -> DataFrame:
    """A row for each subscription: its number, with what its interest, its region and its topic have."""
    from pyspark.sql import functions as F  # noqa: N812

    # None of these is ever null, which Spark does not know of what it reads from files. Parquet would have a
    # place for nulls in every row, and a least and a greatest value in every piece.
    certain = {"topic": F.coalesce("topic", F.lit(""))}
    for one in model.dimensions:
        for name in (tables.low(one.name), tables.high(one.name)):
            certain[name] = F.coalesce(name, F.lit(0).cast("bigint"))
    dealt = (
        frames[tables.INTERESTS]
        .where("subscriptions > 0")
        .withColumns(certain)
        .join(F.broadcast(frames[REGIONS]), "region")
        .join(F.broadcast(frames[TERRITORIES]), "topic")
        .withColumn("chunk", F.expr(f"explode(sequence(0, (subscriptions - 1) div {chunks.CHUNK}))"))
        .withColumn("begin", F.expr(f"first + chunk * {chunks.CHUNK}"))
        .withColumn("end", F.expr(f"least(begin + {chunks.CHUNK}, first + subscriptions) - 1"))
        .transform(chunks.dealt, int(model.allocated.sum()))
    )
    return dealt.withColumn("subscription", F.explode(F.sequence("begin", "end")))


def _make(frames: Frames, model: Model) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    schema = tables.schemas([one.name for one in model.dimensions], ())[tables.SUBSCRIPTIONS]
    made = {**columns(model), **_boxes(model)}
    rows = (
        numbered(frames, model)
        .select(*(made.get(name, F.col(name)).alias(name) for name in schema.names if name != WHERE))
        .withColumn(WHERE, _where(model))
    )
    return rows.select(*schema.names)


def columns(model: Model) -> dict[str, Column]:
    """What is not known from the interest and the region."""
    from pyspark.sql import functions as F  # noqa: N812

    from tidings.pipeline import columns as random

    asked = model.spec.subscriptions
    length = model.spec.time.duration_us

    def drawn(column: str) -> Column:
        return random.draw(key(model, column), F.col("subscription"))

    def fraction(column: str) -> Column:
        return random.fraction(drawn(column))

    start = F.lit(model.start_us)
    come = start + random.below(drawn("from_at"), length)
    from_at = F.when(fraction("coming") < asked.coming, come).otherwise(start) if asked.coming else start
    until_at = F.lit(None).cast("bigint")
    if asked.lifetime_us:
        lived = F.lit(float(LIFE_FACTOR * asked.lifetime_us)) * fraction("life 1") * fraction("life 2")
        gone = from_at + F.floor(lived)
        # What would go after the end stays.
        until_at = F.when(gone < start + length, gone)
    assumed = F.when(fraction("unknown") < asked.assume, "assume").otherwise("wait")
    client = F.expr(
        "region_client + (region_stride * (subscription - region_first) + region_shift) % region_count"
        f" div {model.spec.clients.subscriptions_each}"
    )
    return {
        # It never is null, which Spark does not know of a quotient, and would make room for.
        "client": F.coalesce(client, F.lit(-1).cast("bigint")),
        "unknown": assumed if asked.assume else F.lit("wait"),
        "from_at": from_at,
        "until_at": until_at,
    }


def _boxes(model: Model) -> dict[str, Column]:
    """Rectangles of which two opposite corners have moved, if they are to."""
    from pyspark.sql import functions as F  # noqa: N812

    from tidings.pipeline import columns as random

    share = model.spec.space.perturbation
    found: dict[str, Column] = {}
    within = F.col("topic_lo"), F.col("topic_hi")
    for one in model.dimensions if share else ():
        low, high = tables.low(one.name), tables.high(one.name)
        most = F.floor((F.col(high) - F.col(low) + 1).cast("double") * F.lit(share))

        def moved(end: str, most: Column = most, within: tuple[Column, Column] = within) -> Column:
            drawn = random.draw(key(model, end), F.col("subscription"))
            to = F.col(end) + random.below(drawn, 2 * most + 1) - most
            return F.least(F.greatest(to, within[0]), within[1])

        found[low] = F.least(moved(low), moved(high))
        found[high] = F.greatest(moved(low), moved(high))
        within = F.lit(0), F.lit(model.spec.space.resolution - 1)
    return found


def _where(model: Model) -> Column:
    """The rectangle as a filter, if it is to be written."""
    from pyspark.sql import functions as F  # noqa: N812

    if not model.spec.subscriptions.where:
        return F.lit(None).cast("string")
    parts: list[Column] = []
    for one in model.dimensions:
        parts += [
            F.lit(f"{' AND ' if parts else ''}{one.name} BETWEEN "),
            F.col(tables.low(one.name)),
            F.lit(" AND "),
            F.col(tables.high(one.name)),
        ]
    return F.concat(*parts)


STAGE = Stage(
    table=tables.SUBSCRIPTIONS,
    says="subscriptions: a client, a rectangle, and from when to when",
    reads=(tables.INTERESTS,),
    lookups=_lookups,
    make=_make,
)
