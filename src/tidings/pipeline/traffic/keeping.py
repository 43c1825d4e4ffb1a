"""The table `records`: every record once, whatever segments it came in, by hour.

Brokers remove their oldest segments, and copies of segments come twice; what traffic is counted from is kept
here. `broker`, `boot` and `n` say which record it is; of two that agree in these and are yet not the same, as
no broker writes them, the smaller stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tidings.records.schema import arrow_schema
from tidings.records.traffic import HOUR, HOUR_US

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IDENTITY = ["broker", "boot", "n"]


def unseen(segments: DataFrame, kept: DataFrame | None) -> DataFrame:
    """The records of segments that are not kept yet, each once, with their hour."""
    # Segments of a release that knew fewer fields have none of these.
    receivers = F.coalesce("receivers", F.array().cast("array<string>"))
    hour = F.expr(f"at div {HOUR_US}").alias(HOUR)
    rest = [name for name in arrow_schema().names if name not in IDENTITY]
    found = (
        segments.withColumn("receivers", receivers)
        .groupBy(*IDENTITY)
        .agg(F.min(F.struct(*rest)).alias("told"))
        .select(*IDENTITY, "told.*")
        .select(*arrow_schema().names, hour)
    )
    if kept is not None:
        found = found.join(kept.select(*IDENTITY), IDENTITY, "left_anti")
    # Together with what is asked for together: a reader of one kind passes over the others.
    return found.select(*arrow_schema().names, HOUR).sortWithinPartitions(HOUR, "kind", *IDENTITY)
