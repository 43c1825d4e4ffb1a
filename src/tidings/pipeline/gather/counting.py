"""The summary of what was gathered, from the result alone: the numbers that `tidings gather` says at its end.

How many events were open at once follows from when each was opened and closed. At one time clocks run out
first; then reports come by their ids, of which each may open an event and close one. No pyspark here; `batch`
says the same to Spark.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.pipeline.gather.columnar import id_order
from tidings.pipeline.gather.layout import CLOSED, ENDED, REFUSED, TOLD


def summary(told: pa.Table) -> dict[str, int]:
    """What was done, in numbers; events that are still open are not among them."""
    state = told.column("state")
    closed = told.filter(pc.equal(state, CLOSED))
    refused = int(pc.sum(pc.equal(state, REFUSED)).as_py() or 0)
    opened = closed.num_rows
    merged = _sum(closed, "reports") - opened
    redundant = _sum(closed, "redundant")
    return {
        "received": opened + merged + redundant + refused,
        "redundant": redundant,
        "merged": merged,
        "opened": opened,
        "refused": refused,
        "conflicts": _sum(closed, "conflicts"),
        "told": int(pc.sum(pc.is_in(state, pa.array([TOLD, ENDED]))).as_py() or 0),
        "closed": opened,
        "max_open": max_open(closed),
        "late": _sum(closed, "late"),
    }


def max_open(closed: pa.Table) -> int:
    """The most events that were open at once."""
    count = closed.num_rows
    if not count:
        return 0
    opened_at = closed.column("opened_at").to_numpy()
    closed_at = closed.column("at").to_numpy()
    event, by = (closed.column(name).combine_chunks() for name in ("event", "closed_by"))
    by_report = np.asarray(pc.is_valid(by))
    ids = id_order(pa.concat_arrays([event, pc.fill_null(by, "" if pa.types.is_string(by.type) else 0)]))
    at = np.concatenate([opened_at, closed_at])
    reported = np.concatenate([np.ones(count, bool), by_report])
    closing = np.repeat([False, True], count)
    order = np.lexsort((closing, np.where(reported, ids, 0), reported, at))
    return int(np.cumsum(np.where(closing, -1, 1)[order]).max())


def _sum(table: pa.Table, name: str) -> int:
    return int(pc.sum(table.column(name)).as_py() or 0)
