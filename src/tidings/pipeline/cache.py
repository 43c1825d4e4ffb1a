"""DataFrames that are made once for several readers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COALESCED = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
"""Lets adaptive execution join small partitions of what is kept, as it does of all else. Without it they are
as many as shuffles may have, 200 on a cluster, and each reader has a task for each."""


@contextmanager
def cached(frame: DataFrame) -> Iterator[DataFrame]:
    """While this is open, what a DataFrame has is made once, for whatever is made from the same."""
    conf = frame.sparkSession.conf
    before = conf.get(COALESCED, None)
    conf.set(COALESCED, "true")
    try:
        # The plan is made here, and carried out when the first reader comes.
        frame.persist()
    finally:
        if before is None:
            conf.unset(COALESCED)
        else:
            conf.set(COALESCED, before)
    try:
        yield frame
    finally:
        frame.unpersist()
