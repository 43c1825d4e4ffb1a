"""The table of clients: where each is, and the broker that is nearest.

Numbers and positions are native expressions over the client's number. The nearest of many brokers is not:
rows go through Python in Arrow batches, where a k-d tree knows it (docs/design/0021 has what was measured).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.workload import brokers, chunks, placing
from tidings.records import workload as tables
from tidings.workload.embedding import distances
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

HOMES = "homes"
"""The lookup by region."""

PIECES = "pieces"
"""The lookup by piece."""

_NEAR = 1e-9
"""Distances that differ by less than this share, in milliseconds, are compared exactly."""


def nearest(points: NDArray[np.float64], among: NDArray[np.float64]) -> NDArray[np.int64]:
    """The number of the nearest, for each point; of equally near ones the smallest."""
    from scipy.spatial import cKDTree

    if len(among) == 1:
        return np.zeros(len(points), np.int64)
    far, found = cKDTree(among).query(points, k=2)
    best: NDArray[np.int64] = found[:, 0].astype(np.int64)
    # The tree promises nothing about ties, and rounds as it likes.
    for row in np.flatnonzero(far[:, 1] - far[:, 0] <= _NEAR * (1.0 + far[:, 0])):
        best[row] = int(distances(points[row], among).argmin())
    return best


def by_region(model: Model) -> pa.Table:
    """For each region its clients and its pieces."""
    import pyarrow as pa

    pieces = placing.pieces(model)
    return pa.table(
        {
            "region": pa.array(model.regions, pa.string()),
            "first": pa.array(model.clients_first),
            "clients": pa.array(model.clients_count),
            placing.PIECE_FIRST: pa.array(pieces.first),
            placing.PIECE_COUNT: pa.array(pieces.count),
        }
    )


def _lookups(model: Model) -> Mapping[str, pa.Table]:
    return {HOMES: by_region(model), PIECES: placing.lookup(placing.pieces(model))}


def _make(frames: Frames, model: Model) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    rows = (
        frames[HOMES]
        .where("clients > 0")
        .withColumn("chunk", F.expr(f"explode(sequence(0, (clients - 1) div {chunks.CHUNK}))"))
        .withColumn("begin", F.expr(f"first + chunk * {chunks.CHUNK}"))
        .withColumn("end", F.expr(f"least(begin + {chunks.CHUNK}, first + clients) - 1"))
        .transform(chunks.dealt, int(model.clients_count.sum()))
        .select(
            F.explode(F.sequence("begin", "end")).alias("client"),
            "region",
            placing.PIECE_FIRST,
            placing.PIECE_COUNT,
        )
    )
    pieces = placing.pieces(model)
    placed = placing.placed(rows, frames[PIECES], pieces, "client", model.spec.seed, tables.CLIENTS)
    _, points = brokers.points(model)
    return placed.drop(placing.PIECE_FIRST, placing.PIECE_COUNT).mapInArrow(
        _attached(points),
        "client long, region string, x1 double, x2 double, x3 double, x4 double, x5 double, broker string",
    )


def _attached(
    among: NDArray[np.float64],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What gives every row of a batch its nearest broker."""

    def attach(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        names = pa.array([brokers.name(number) for number in range(len(among))], pa.string())
        for batch in batches:
            points = np.stack([batch.column(axis).to_numpy() for axis in tables.COORDINATES], axis=1)
            yield batch.append_column("broker", names.take(pa.array(nearest(points, among))))

    return attach


STAGE = Stage(
    table=tables.CLIENTS,
    says="clients: a position in the region's part of the network, and the nearest broker",
    reads=(tables.BROKERS,),
    lookups=_lookups,
    make=_make,
)
