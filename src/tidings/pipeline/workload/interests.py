"""The table of interests: every pair of nodes that somebody in a region subscribes to or publishes about.

There are as many rows as the hierarchies give, whatever the size of the workload, so they are made on the
driver. Subscriptions are numbered by region and then by interest, so that those of a region are together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.stages import Frames, Stage
from tidings.records import workload as tables
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

MADE = "made"


def table(model: Model) -> pa.Table:
    """All rows, in the order of the numbers of their subscriptions."""
    import pyarrow as pa

    shape = model.members.shape
    # Region by region, and within it by interest.
    order = np.moveaxis(np.arange(model.members.size).reshape(shape), -1, 0).reshape(-1)
    made = model.allocated.reshape(-1)[order]
    firsts = np.cumsum(made) - made
    messages = full_messages(model).reshape(-1)[order]
    kept = np.flatnonzero((model.members.reshape(-1)[order] > 0) | (messages > 0) | (made > 0))
    order = order[kept]
    *places, regions = np.unravel_index(order, shape)
    columns: dict[str, pa.Array] = {
        "interest": pa.array(order // shape[-1]),
        "region": _named(model.regions, regions),
        "topic": _named(model.topics, places[0]),
    }
    base = np.ones(len(order), bool)
    for axis, hierarchy in enumerate(model.dimensions):
        leaf = np.zeros(len(hierarchy.nodes), bool)
        leaf[list(hierarchy.leaves)] = True
        base &= leaf[places[axis]]
        columns[hierarchy.name] = _named(hierarchy.nodes, places[axis])
        columns[tables.low(hierarchy.name)] = pa.array(model.lows[axis][places[axis]])
        columns[tables.high(hierarchy.name)] = pa.array(model.highs[axis][places[axis]])
    columns |= {
        "base": pa.array(base),
        "members": pa.array(model.members.reshape(-1)[order]),
        "messages": pa.array(messages[kept]),
        "subscriptions": pa.array(made[kept]),
        "first": pa.array(firsts[kept]),
    }
    schema = tables.schemas([one.name for one in model.dimensions], ())[tables.INTERESTS]
    return pa.table([columns[name] for name in schema.names], schema=schema)


def full_messages(model: Model) -> NDArray[np.float64]:
    """Messages as a full array: only base interests have any."""
    full = np.zeros(model.members.shape)
    full[np.ix_(*(one.leaves for one in model.dimensions), range(len(model.regions)))] = model.messages
    return full


def _named(names: tuple[str, ...], numbers: NDArray[np.int64]) -> pa.Array:
    import pyarrow as pa

    return pa.array(names, pa.string()).take(pa.array(numbers))


def _lookups(model: Model) -> Mapping[str, pa.Table]:
    return {MADE: table(model)}


def _make(frames: Frames, _: Model) -> DataFrame:
    return frames[MADE]


STAGE = Stage(
    table=tables.INTERESTS,
    says="interests with their members and rates, after all transformations",
    reads=(),
    lookups=_lookups,
    make=_make,
)
