"""§3.2 and §4.6: positions and brokers; and whether Spark's tables are those of one process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from papers.workload.rows import Asked, Row, number
from papers.workload.setting import Setting, data, model
from tidings.pipeline.workload import brokers as placing
from tidings.workload.embedding import distances

COMPARED = ("interests", "subscriptions")
"""Tables that are made twice."""


def brokers(setting: Setting, _: Asked) -> Iterator[Row]:
    """Brokers of each region, in proportion to its subscriptions."""
    plain = model(setting)
    regions, points = placing.points(plain)
    counts = np.bincount(regions, minlength=len(plain.regions))
    subscribed = plain.allocated.reshape(-1, len(plain.regions)).sum(axis=0)
    shares = subscribed * (setting.brokers / subscribed.sum())
    for name, count, share, many in zip(plain.regions, counts, shares, subscribed, strict=True):
        yield {
            "kind": "brokers",
            "region": name,
            "subscriptions": int(many),
            "share": float(share),
            "brokers": int(count),
        }
    yield number("brokers_off", float(np.abs(counts - shares).max()))
    at_nodes = {tuple(point) for point in plain.nodes.points}
    yield number(
        "brokers_at_nodes_percent", 100 * float(np.mean([tuple(point) in at_nodes for point in points]))
    )


def positions(setting: Setting, _: Asked) -> Iterator[Row]:
    """How well five dimensions hold the round trips, and whether regions are near themselves."""
    nodes = data(setting).nodes
    apart = distances(nodes.points[:, None], nodes.points[None, :])
    same = nodes.region[:, None] == nodes.region[None, :]
    others = ~np.eye(len(apart), dtype=bool)
    within, between = np.median(apart[same & others]), np.median(apart[~same])
    yield {
        "kind": "positions",
        "nodes": len(nodes.names),
        "error_percent": 100 * nodes.error,
        "within_ms": float(within),
        "between_ms": float(between),
    }
    yield number("embedding_error_percent", 100 * nodes.error)
    yield number("coordinates", nodes.points.shape[1])
    yield number("within_between", float(within / between))


def spark(setting: Setting, _: Asked) -> Iterator[Row]:
    """The same tables by Spark and by one process of numpy: rows that only one of them has."""
    from tidings.pipeline import running, session
    from tidings.pipeline.tables import Store
    from tidings.pipeline.workload.twin import interests, subscriptions

    plain = model(setting)
    made: dict[str, Any] = {}
    made["interests"] = interests.rows(plain, {})
    made["subscriptions"] = subscriptions.rows(plain, {"interests": made["interests"]})
    differ = 0
    with tempfile.TemporaryDirectory() as folder, session.start("tidings reproduce workload") as started:
        store = Store(Path(folder))
        running.run(started, running.chosen(COMPARED, running.registry()), plain, store)
        for name in COMPARED:
            rows, more = _unlike(made[name], store.path(name))
            differ += more
            yield {"kind": "spark", "table": name, "rows": rows, "differ": more}
    yield number("spark_rows_differ", differ)


def _unlike(one: Any, path: Path) -> tuple[int, int]:
    """How many rows a table has, and how many are unlike those of the other, both sorted by all columns."""
    import pyarrow.parquet as pq

    other = pq.read_table(path).select(one.column_names)
    order = [(name, "ascending") for name in one.column_names]
    both = [table.sort_by(order).to_pylist() for table in (one, other)]
    unlike = sum(a != b for a, b in zip(*both, strict=False)) + abs(len(both[0]) - len(both[1]))
    return len(both[0]), unlike
