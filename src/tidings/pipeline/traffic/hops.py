"""The table `hops`: how many links deliveries had come over, at each broker."""

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
    """Deliveries by broker and number of links."""
    return (
        trips(frames[traffic.RECORDS], hours)
        .where("hops IS NOT NULL")
        .groupBy("broker", "hops", "hour")
        .agg(total(F.col("deliveries")).alias("deliveries"))
        .select("broker", "hops", "deliveries", "hour")
    )


STAGE = Stage(
    table=traffic.HOPS,
    says="how many links deliveries had come over",
    reads=(traffic.RECORDS,),
    lookups=lambda _: {},
    make=make,
)
