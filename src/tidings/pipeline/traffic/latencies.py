"""The table `latencies`: how long deliveries had been under way, at each broker, as a distribution.

Latencies whose four leading binary digits are the same are counted together, so that a quantile is at most an
eighth too small, and distributions of hours can be added. Whole numbers only: a logarithm is not the same on
every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.traffic.hours import Hours, total
from tidings.pipeline.traffic.sums import trips
from tidings.records import traffic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def make(frames: Frames, hours: Hours) -> DataFrame:
    """Deliveries by broker and latency."""
    return (
        trips(frames[traffic.RECORDS], hours)
        .where("bucket IS NOT NULL")
        .groupBy("broker", "bucket", "hour")
        .agg(total(F.col("deliveries")).alias("deliveries"), total(F.col("total_us")).alias("total_us"))
        .select("broker", F.col("bucket").alias("latency_us"), "deliveries", "total_us", "hour")
    )


STAGE = Stage(
    table=traffic.LATENCIES,
    says="how long deliveries had been under way",
    reads=(traffic.RECORDS,),
    lookups=lambda _: {},
    make=make,
)
