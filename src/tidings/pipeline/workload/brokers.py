"""Brokers (§4.6): how many in each region, and where.

A region has brokers in proportion to its subscriptions. They are nodes of the region, drawn without
repetition; if it has not enough, further ones are placed as clients are. There are few, so the driver makes
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.workload import placing
from tidings.records import workload as tables
from tidings.workload import hashing
from tidings.workload.model import Model
from tidings.workload.rounding import apportioned

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

ALL = "all_brokers"
"""The lookup, which is the table."""


def name(number: int) -> str:
    """What a broker is called."""
    return f"b{number}"


def counts(model: Model) -> list[int]:
    """How many brokers each region has."""
    subscribed = model.allocated.reshape(-1, len(model.regions)).sum(axis=0)
    # Without subscriptions, brokers are where publishers are.
    weights = subscribed if subscribed.any() else model.clients_count
    return apportioned(
        model.spec.sizes.brokers, weights.tolist() if weights.any() else [1] * len(model.regions)
    )


@lru_cache(maxsize=2)
def points(model: Model) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The number of each broker's region, and its position."""
    shares = counts(model)
    region = np.repeat(np.arange(len(shares)), shares)
    numbers = np.arange(len(region))
    found = placing.points(placing.pieces(model), region, numbers, model.spec.seed, tables.BROKERS)
    for one in range(len(shares)):
        nodes = np.flatnonzero(model.nodes.region == one)
        drawn = hashing.draw(hashing.key(model.spec.seed, tables.BROKERS, "node"), nodes)
        chosen = nodes[np.lexsort((nodes, drawn))][: shares[one]]
        found[numbers[region == one][: len(chosen)]] = model.nodes.points[chosen]
    return region, found


def table(model: Model) -> pa.Table:
    """The table."""
    import pyarrow as pa

    region, found = points(model)
    columns = [
        pa.array([name(number) for number in range(len(region))], pa.string()),
        pa.array([model.regions[one] for one in region], pa.string()),
        *(pa.array(axis) for axis in found.T),
    ]
    return pa.table(columns, schema=tables.schemas((), ())[tables.BROKERS])


def _lookups(model: Model) -> Mapping[str, pa.Table]:
    return {ALL: table(model)}


def _make(frames: Frames, _: Model) -> DataFrame:
    return frames[ALL]


STAGE = Stage(
    table=tables.BROKERS,
    says="brokers: as many in each region as its subscriptions ask for, at nodes of it",
    reads=(),
    lookups=_lookups,
    make=_make,
)
