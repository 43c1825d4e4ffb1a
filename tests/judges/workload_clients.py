"""The twin of the stage `clients`: positions in numpy, and the nearest broker by asking all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.workload import placing
from tidings.records import workload as tables
from tidings.workload.embedding import distances
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 10_000


def rows(model: Model, made: Mapping[str, pa.Table]) -> pa.Table:
    """The table, from that of brokers."""
    import pyarrow as pa

    brokers = made[tables.BROKERS]
    among = np.stack([brokers[axis].to_numpy() for axis in tables.COORDINATES], axis=1)
    names = brokers["broker"].to_pylist()
    schema = tables.schemas((), ())[tables.CLIENTS]
    batches = []
    for region, named in enumerate(model.regions):
        first, count = int(model.clients_first[region]), int(model.clients_count[region])
        for begin in range(first, first + count, BATCH):
            clients = np.arange(begin, min(begin + BATCH, first + count))
            homes = np.full(len(clients), region)
            points = placing.points(placing.pieces(model), homes, clients, model.spec.seed, tables.CLIENTS)
            nearest = distances(points[:, None, :], among[None, :, :]).argmin(axis=1)
            columns = [
                pa.array(clients),
                pa.array([named] * len(clients), pa.string()),
                *(pa.array(axis) for axis in points.T),
                pa.array([names[broker] for broker in nearest], pa.string()),
            ]
            batches.append(pa.table(columns, schema=schema))
    return pa.concat_tables(batches) if batches else schema.empty_table()
