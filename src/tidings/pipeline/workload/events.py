"""The table of events: what truly happens, when, where, and about what.

Cells of time come with their counts from `arrivals`, as chunks of numbers; all else about an event is a hash
of its number. Its base interest is drawn by the weights of its epoch and region, its place in the event space
as `smoothing` says, its client is anyone of the region. The topic follows from the place: see `topic_steps`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.workload import chunks
from tidings.records import workload as tables
from tidings.workload import arrivals, hashing, smoothing
from tidings.workload.fields import SEVERITIES
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

PIECES = "pieces"
"""The lookup of chunks of events, each with what they have in common."""

WEIGHTS = "weights"
"""The lookup of alias tables of base interests, one behind another, by slot."""

TOPICS = "topics"
"""The lookup of topics, by first-level node."""


def leaves(axis: int) -> str:
    """The lookup of a dimension's leaves, by their place among them."""
    return f"leaves_{axis}"


def key(model: Model, column: str) -> int:
    """What a random column of this table is drawn by."""
    return hashing.key(model.spec.seed, tables.EVENTS, column)


def strides(model: Model) -> list[int]:
    """By what a base interest's number grows from leaf to leaf of each dimension."""
    counts = [len(one.leaves) for one in model.dimensions]
    return [int(np.prod(counts[axis + 1 :], dtype=np.int64)) for axis in range(len(counts))]


def schema(model: Model) -> pa.Schema:
    """The columns, for the dimensions and details of a model."""
    names = [one.name for one in model.dimensions]
    return tables.schemas(names, tables.details(model.spec.reports.details))[tables.EVENTS]


def lookups(model: Model) -> Mapping[str, pa.Table]:
    """Small tables that this stage and its twin share."""
    import pyarrow as pa

    arrived, weights = arrivals.draw(model), arrivals.weights(model)
    runs, begins, ends = chunks.split(arrived.first, arrived.count)
    table, region = arrived.table[runs], arrived.region[runs]
    tops = model.dimensions[0].children[0]
    found = {
        PIECES: pa.table(
            {
                "begin": begins,
                "end": ends,
                "start_us": arrived.start_us[runs],
                "length_us": arrived.length_us[runs],
                "weights_first": weights.first[table],
                "weights_count": weights.count[table],
                "clients_first": model.clients_first[region],
                "clients_count": model.clients_count[region],
            }
        ),
        WEIGHTS: pa.table(
            {
                "slot": np.arange(len(weights.cut)),
                "cut": weights.cut,
                "interest": weights.interest,
                "other": weights.other,
            }
        ),
        TOPICS: pa.table({"top": np.arange(len(tops)), "topic": [model.topics[top] for top in tops]}),
    }
    for axis, hierarchy in enumerate(model.dimensions):
        nodes = list(hierarchy.leaves)
        low, high = model.lows[axis][nodes], model.highs[axis][nodes]
        columns = {
            "leaf": np.arange(len(nodes)),
            "low": low,
            "width": high - low + 1,
            "steps": smoothing.reaches(model, axis) + 1,
        }
        found[leaves(axis)] = pa.table({f"{name}_{axis}": values for name, values in columns.items()})
    return found


def _make(frames: Frames, model: Model) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    from tidings.pipeline import columns as random

    def drawn(column: str) -> Column:
        return random.draw(key(model, column), F.col("event"))

    slot = F.col("weights_first") + random.below(drawn("slot"), F.col("weights_count"))
    turned = F.when(random.fraction(drawn("turn")) < F.col("cut"), F.col("interest")).otherwise(
        F.col("other")
    )
    rows = (
        frames[PIECES]
        .transform(chunks.dealt, model.spec.sizes.events)
        .withColumn("event", F.explode(F.sequence("begin", "end")))
        .withColumn("slot", slot)
        .join(F.broadcast(frames[WEIGHTS]), "slot")
        .withColumn("drawn", turned)
    )
    size = model.spec.space.resolution
    for axis, (hierarchy, stride) in enumerate(zip(model.dimensions, strides(model), strict=True)):
        leaf = F.expr(f"drawn div {stride}L % {len(hierarchy.leaves)}L")
        rows = rows.withColumn(f"leaf_{axis}", leaf).join(F.broadcast(frames[leaves(axis)]), f"leaf_{axis}")
        steps = F.col(f"steps_{axis}")
        moved = (
            F.col(f"low_{axis}")
            + random.below(drawn(f"in {axis}"), F.col(f"width_{axis}"))
            + random.below(drawn(f"up {axis}"), steps)
            - random.below(drawn(f"down {axis}"), steps)
        )
        # Reflected at the ends, as often as it takes.
        folded = F.pmod(moved, F.lit(2 * size).cast("bigint"))
        rows = rows.withColumn(f"place_{axis}", folded).withColumn(
            f"place_{axis}",
            F.expr(f"if(place_{axis} < {size}L, place_{axis}, {2 * size - 1}L - place_{axis})"),
        )
    shift, step, last = smoothing.topic_steps(model)
    number = F.expr(f"least((place_0 + {shift}L) div {step}L, {last}L)")
    rows = rows.withColumn("top", number).join(F.broadcast(frames[TOPICS]), "top")
    percent = random.below(drawn(tables.SEVERITY), 100)
    severity = F.lit(1).cast("bigint")
    for most in SEVERITIES:
        severity = severity + (percent >= most).cast("bigint")
    fields = F.struct(
        F.col("event").alias(tables.STORY),
        *(F.col(f"place_{axis}").alias(one.name) for axis, one in enumerate(model.dimensions)),
        severity.alias(tables.SEVERITY),
        *(
            random.below(drawn(name), model.spec.reports.detail_max + 1).alias(name)
            for name in tables.details(model.spec.reports.details)
        ),
    )
    return rows.select(
        "event",
        "topic",
        (F.col("start_us") + random.below(drawn("at"), F.col("length_us"))).alias("at"),
        (F.col("clients_first") + random.below(drawn("client"), F.col("clients_count"))).alias("client"),
        fields.alias("fields"),
    )


STAGE = Stage(
    table=tables.EVENTS,
    says="events: what happens, when, where and about what, from Poisson arrivals",
    reads=(),
    lookups=lookups,
    make=_make,
)
