"""The twin of the stage `requests`: numpy and Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.workload import requests
from tidings.records import workload as tables
from tidings.workload import hashing, quantiles
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def rows(model: Model, made: Mapping[str, pa.Table]) -> pa.Table:
    """The table, from that of subscriptions."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = np.arange(requests.count(model), dtype=np.int64)

    def drawn(column: str, count: NDArray[np.int64] | int) -> NDArray[np.int64]:
        return hashing.below(hashing.draw(requests.key(model, column), numbers), count)

    spans = requests.lookups(model)[requests.SPANS]
    lows, widths = spans["span"].to_numpy(), spans["span_width"].to_numpy()

    def length(column: str, slot: str) -> NDArray[np.int64]:
        slots = drawn(slot, quantiles.SLOTS)
        found: NDArray[np.int64] = lows[slots] + drawn(column, widths[slots])
        return found

    asked = made[tables.SUBSCRIPTIONS].sort_by("subscription")
    asked = asked.take(pa.array(drawn("subscription", max(1, int(model.allocated.sum())))))
    from_at = asked["from_at"].to_numpy()
    until_at = pc.fill_null(asked["until_at"], model.start_us + model.spec.time.duration_us).to_numpy()
    at = from_at + drawn("at", np.maximum(until_at - from_at, 1))
    until = at - np.where(drawn("recent", 2) == 0, 0, length("ago", "ago slot"))
    columns = {
        "client": asked["client"],
        "topic": asked["topic"],
        "at": pa.array(at),
        "where": pc.coalesce(asked["where"], _where(model, asked)),
        "since": pa.array(until - length("span", "slot")),
        "until": pa.array(until),
    }
    schema = requests.schema(model)
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _where(model: Model, asked: pa.Table) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    sides = []
    for one in model.dimensions:
        low, high = (asked[end(one.name)].cast(pa.string()) for end in (tables.low, tables.high))
        sides.append(pc.binary_join_element_wise(f"{one.name} BETWEEN ", low, " AND ", high, ""))
    return pc.binary_join_element_wise(*sides, " AND ")
