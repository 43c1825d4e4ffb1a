"""The table `records`: every record once, whatever segments it came in, by hour.

Brokers remove their oldest segments, and copies of segments come twice; what traffic is counted from is kept
here. `broker`, `boot` and `n` say which record it is; of two that agree in these and are yet not the same, as
no broker writes them, the smaller stays.

Hardly ever does a record come twice. Whether one does is found from the identities alone, 64 numbers of a
broker in one row; only records of which that may be said are compared whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tidings.records.schema import arrow_schema
from tidings.records.traffic import HOUR, HOUR_US

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IDENTITY = ["broker", "boot", "n"]

BLOCK = ["broker", "boot", "block"]
"""What says which block of records it is: 64 numbers of a broker that follow each other."""


def repeated(segments: DataFrame, kept: DataFrame | None) -> DataFrame:
    """The blocks in which some record of segments comes twice, or is kept already."""
    found = segments.select(*IDENTITY)
    if kept is not None:
        found = found.unionByName(kept.select(*IDENTITY))
    # Of the number that is shifted by, the lowest six bits count.
    bit = F.expr("shiftleft(1L, int(n & 63))")
    return (
        found.groupBy("broker", "boot", F.expr("shiftright(n, 6)").alias("block"))
        .agg(F.count("*").alias("rows"), F.bit_or(bit).alias("numbers"))
        .where(F.col("rows") > F.bit_count("numbers"))
        .select(*BLOCK)
    )


def unseen(segments: DataFrame, kept: DataFrame | None = None, twice: DataFrame | None = None) -> DataFrame:
    """The records of segments that are not kept yet, each once, with their hour.

    `twice` are the blocks of `repeated`; without it no record comes twice.
    """
    names = arrow_schema().names
    # Segments of a release that knew fewer fields have none of these.
    receivers = F.coalesce("receivers", F.array().cast("array<string>"))
    found = segments.withColumn("receivers", receivers).select(*names)
    if twice is not None:
        block = found.withColumn("block", F.expr("shiftright(n, 6)"))
        once = block.join(twice, BLOCK, "left_anti").select(*names)
        others = block.join(twice, BLOCK, "left_semi")
        if kept is not None:
            others = others.join(kept.select(*IDENTITY), IDENTITY, "left_anti")
        rest = [name for name in names if name not in IDENTITY]
        least = others.groupBy(*IDENTITY).agg(F.min(F.struct(*rest)).alias("told"))
        found = once.unionByName(least.select(*IDENTITY, "told.*").select(*names))
    return found.select(*names, F.expr(f"at div {HOUR_US}").alias(HOUR))
