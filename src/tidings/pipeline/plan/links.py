"""Which brokers there are and which of them are linked, as records say.

A link is there if it was ever up. That it is down at the end says little: a network that is stopped takes
down all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tidings.pipeline.traffic.hours import is_kind
from tidings.records.record import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def of_records(records: DataFrame) -> DataFrame:
    """Pairs `a`, `b`, the smaller name first, once each."""
    return (
        records.where(is_kind(Kind.LINK_UP))
        .where("link IS NOT NULL AND link <> broker")
        .select(F.least("broker", "link").alias("a"), F.greatest("broker", "link").alias("b"))
        .distinct()
    )


def brokers(records: DataFrame) -> DataFrame:
    """Everyone that wrote something down."""
    return records.select("broker").distinct()
