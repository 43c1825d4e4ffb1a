"""Where in the network somebody is who belongs to a region (§4.4), drawn by a hash: in numpy and in Spark.

A region is cut into pieces, one is drawn by weight, and then a point of it:

* vicinity: a piece is a node; along each axis the point is at most so far away, and the nearer the likelier
  (a tent, the sum of two even fractions);
* box: the one piece is the box around all nodes, and the point is even in it;
* hull: a piece is the simplex of the nodes' centre and a facet of their convex hull, drawn by volume; the
  gaps between sorted fractions are even weights of its corners. Nodes that span no volume, being too few or
  flat, have no facets: there a piece is the simplex of a node and the next five, which lies in the hull too.

Only sums, products and sorting are used, so that both engines have the same bits. Nothing here knows who is
placed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tidings.records.workload import COORDINATES
from tidings.workload import alias, hashing
from tidings.workload.model import Model, Nodes

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame

HULL = "hull"
BOX = "box"
VICINITY = "vicinity"

DIMENSIONS = len(COORDINATES)
CORNERS = DIMENSIONS + 1
"""Of a simplex."""

PIECE = "piece"
PIECE_FIRST = "piece_first"
PIECE_COUNT = "piece_count"
"""The columns that `placed` needs: where the pieces of a row's region begin, and how many there are."""

_SLOT = "slot"
_LOW = 0xFFFFFFFF


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of all regions, one after the other."""

    kind: str
    """How a point of a piece is drawn."""

    reach: float
    """Of a vicinity, along each axis."""

    first: NDArray[np.int64]
    count: NDArray[np.int64]
    """Per region."""

    cuts: NDArray[np.float64]
    others: NDArray[np.int64]
    """Per piece: the alias table of its region."""

    corners: NDArray[np.float64]
    """Per piece its points: the node; the lowest corner of the box and its sides; or the simplex."""


@lru_cache(maxsize=2)
def pieces(model: Model) -> Pieces:
    """The pieces of a model's regions, as its spec asks for."""
    return cut(model.nodes, len(model.regions), model.spec.clients.place, model.spec.clients.vicinity_ms)


def cut(nodes: Nodes, regions: int, kind: str, reach: float) -> Pieces:
    """The pieces of all regions."""
    corners, cuts, others = [], [], []
    counts: list[int] = []
    for region in range(regions):
        members = np.flatnonzero(nodes.region == region)
        assert len(members), f"region {region} has a node"
        points = nodes.points[members]
        if kind == VICINITY:
            found, weights = points[:, None, :], nodes.weight[members]
        elif kind == BOX:
            low = points.min(axis=0)
            found, weights = np.stack([low, points.max(axis=0) - low])[None], np.ones(1)
        else:
            found, weights = _simplices(points)
        slots, aliases = alias.table(weights)
        corners.append(found)
        cuts.append(slots)
        others.append(aliases + sum(counts))
        counts.append(len(found))
    count = np.array(counts, np.int64)
    return Pieces(
        kind=kind,
        reach=reach,
        first=np.cumsum(count) - count,
        count=count,
        cuts=np.concatenate(cuts),
        others=np.concatenate(others),
        corners=np.concatenate(corners),
    )


def points(
    pieces: Pieces, region: NDArray[np.int64], ids: NDArray[np.int64], seed: int, table: str
) -> NDArray[np.float64]:
    """A point for each row of a table, by the number of its region and its own."""

    def drawn(column: str) -> NDArray[np.int64]:
        return hashing.draw(hashing.key(seed, table, column), ids)

    slots = pieces.first[region] + hashing.below(drawn(_SLOT), pieces.count[region])
    corners = pieces.corners[alias.chosen(slots, hashing.fraction(drawn(PIECE)), pieces.cuts, pieces.others)]
    axes = [drawn(axis) for axis in COORDINATES]
    if pieces.kind == VICINITY:
        return np.stack(
            [
                corners[:, 0, axis] + ((_upper(draws) + _lower(draws)) * 2.0**-32 - 1.0) * pieces.reach
                for axis, draws in enumerate(axes)
            ],
            axis=1,
        )
    fractions = np.stack([hashing.fraction(draws) for draws in axes], axis=1)
    if pieces.kind == BOX:
        return corners[:, 0] + corners[:, 1] * fractions
    ends = np.sort(fractions, axis=1)
    weights = [ends[:, 0], *(ends[:, k] - ends[:, k - 1] for k in range(1, DIMENSIONS)), 1.0 - ends[:, -1]]
    found = weights[0][:, None] * corners[:, 0]
    for corner in range(1, CORNERS):
        found = found + weights[corner][:, None] * corners[:, corner]
    return found


def lookup(pieces: Pieces) -> pa.Table:
    """The pieces as a table, for `placed`."""
    import pyarrow as pa

    flat = pieces.corners.reshape(len(pieces.cuts), -1)
    columns = {
        PIECE: pa.array(np.arange(len(flat))),
        "cut": pa.array(pieces.cuts),
        "other": pa.array(pieces.others),
        **{f"corner{number}": pa.array(column) for number, column in enumerate(flat.T)},
    }
    # Parquet then has no place for nulls in what is made of these.
    return pa.table(
        columns, pa.schema([pa.field(name, column.type, False) for name, column in columns.items()])
    )


def placed(
    rows: DataFrame, looked_up: DataFrame, pieces: Pieces, ids: str, seed: int, table: str
) -> DataFrame:
    """The rows with a point each; they have the number `ids`, and where the pieces of their region are."""
    from pyspark.sql import functions as F  # noqa: N812

    from tidings.pipeline import columns as random

    def drawn(column: str) -> Column:
        return random.draw(hashing.key(seed, table, column), F.col(ids))

    kept = rows.columns
    slots = looked_up.select(F.col(PIECE).alias(_SLOT), "cut", "other")
    corners = looked_up.drop("cut", "other")
    slot = F.col(PIECE_FIRST) + random.below(drawn(_SLOT), F.col(PIECE_COUNT))
    piece = random.chosen(random.fraction(drawn(PIECE)), F.col(_SLOT), F.col("cut"), F.col("other"))
    chosen = (
        rows.withColumn(_SLOT, slot)
        .join(F.broadcast(slots), _SLOT)
        .withColumn(PIECE, piece)
        .join(F.broadcast(corners), PIECE)
    )
    axes = {axis: drawn(axis) for axis in COORDINATES}
    if pieces.kind == HULL:
        chosen = chosen.withColumn(
            "ends", F.sort_array(F.array(*(random.fraction(draws) for draws in axes.values())))
        )
    return chosen.select(
        *kept,
        *(_coordinate(pieces, number, axes[axis]).alias(axis) for number, axis in enumerate(COORDINATES)),
    )


def _coordinate(pieces: Pieces, axis: int, draws: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    from tidings.pipeline import columns as random

    def corner(number: int) -> Column:
        return F.col(f"corner{number * DIMENSIONS + axis}")

    if pieces.kind == VICINITY:
        upper = F.shiftrightunsigned(draws, 32).cast("double")
        lower = draws.bitwiseAND(F.lit(_LOW).cast("bigint")).cast("double")
        return corner(0) + ((upper + lower) * F.lit(2.0**-32) - F.lit(1.0)) * F.lit(pieces.reach)
    if pieces.kind == BOX:
        return corner(0) + corner(1) * random.fraction(draws)
    ends = [F.col("ends")[k] for k in range(DIMENSIONS)]
    weights = [ends[0], *(ends[k] - ends[k - 1] for k in range(1, DIMENSIONS)), F.lit(1.0) - ends[-1]]
    found = weights[0] * corner(0)
    for number in range(1, CORNERS):
        found = found + weights[number] * corner(number)
    return found


def _upper(draws: NDArray[np.int64]) -> NDArray[np.float64]:
    return (draws.view(np.uint64) >> np.uint64(32)).astype(np.float64)


def _lower(draws: NDArray[np.int64]) -> NDArray[np.float64]:
    return (draws & _LOW).astype(np.float64)


def _simplices(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Simplices that fill the convex hull, and their volumes."""
    from scipy.spatial import ConvexHull, QhullError

    centre = points.mean(axis=0)
    try:
        facets = np.array(ConvexHull(points).simplices, np.int64) if len(points) >= CORNERS else None
    except QhullError:
        facets = None
    if facets is None:
        around = (np.arange(len(points))[:, None] + np.arange(CORNERS)) % len(points)
        return points[around], np.ones(len(points))
    # In an order of their own: that of the hull's making is nobody's promise.
    facets = np.sort(facets, axis=1)
    facets = facets[np.lexsort(facets.T[::-1])]
    found = np.concatenate([np.broadcast_to(centre, (len(facets), 1, DIMENSIONS)), points[facets]], axis=1)
    return found, np.abs(np.linalg.det(found[:, 1:] - found[:, :1]))
