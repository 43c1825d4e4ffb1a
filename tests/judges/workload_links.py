"""The twin of the stage `links`: the same links of the driver, from the brokers' table, timed one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.workload import links
from tidings.records import workload as tables
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa


def rows(model: Model, made: Mapping[str, pa.Table]) -> pa.Table:
    """The table, from that of brokers."""
    import pyarrow as pa

    brokers = made[tables.BROKERS]
    points = np.stack([brokers[axis].to_numpy() for axis in tables.COORDINATES], axis=1)
    names = brokers["broker"].to_pylist()
    found = []
    for a, b in links.joined(model, points):
        squares = 0.0
        for one, other in zip(points[a].tolist(), points[b].tolist(), strict=True):
            squares += (one - other) * (one - other)
        found.append(
            {"a": names[a], "b": names[b], "delay_ms": max(math.sqrt(squares) / 2, links.DELAY_MIN_MS)}
        )
    return pa.Table.from_pylist(found, tables.schemas((), ())[tables.LINKS])
