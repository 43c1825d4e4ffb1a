"""The table `contributions`: whose reports a version of an event was the first to tell.

A report that opened or changed an event says so in its record. One that was merged into another on the way is
where the one that carries it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.traffic.hours import Hours, is_near
from tidings.records import traffic
from tidings.records.record import Kind
from tidings.records.traffic import CARRIED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def make(frames: Frames, hours: Hours) -> DataFrame:
    """Event, publisher and version."""
    records = frames[traffic.RECORDS]
    gathered = hours.of(records, Kind.OPENED, Kind.MERGED).where("event IS NOT NULL AND version IS NOT NULL")
    carried = (
        hours.near(records, Kind.SUPPRESSED)
        .where(F.col("reason") == CARRIED)
        .select("report", "publisher", F.col("hour").alias("carried"))
    )
    joined = (
        gathered.drop("publisher").join(carried, "report").where(is_near(F.col("hour"), F.col("carried")))
    )
    columns = ["event", "publisher", "version", "hour"]
    both = gathered.select(*columns).unionByName(joined.select(*columns))
    return both.where("publisher IS NOT NULL").distinct()


STAGE = Stage(
    table=traffic.CONTRIBUTIONS,
    says="whose reports each version of an event was the first to tell",
    reads=(traffic.RECORDS,),
    lookups=lambda _: {},
    make=make,
)
