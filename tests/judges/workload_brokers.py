"""The twin of the stage `brokers`: one broker after the other, in plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.workload import placing
from tidings.records import workload as tables
from tidings.workload import hashing
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa


def rows(model: Model, _: Mapping[str, pa.Table]) -> pa.Table:
    """The table."""
    import pyarrow as pa

    key = hashing.key(model.spec.seed, tables.BROKERS, "node")
    found: list[dict[str, object]] = []
    for region, count in enumerate(_counts(model)):
        nodes = [node for node, home in enumerate(model.nodes.region) if home == region]
        nodes.sort(key=lambda node: int(hashing.draw(key, node)))
        for nth in range(count):
            number = len(found)
            point = model.nodes.points[nodes[nth]] if nth < len(nodes) else _placed(model, region, number)
            position = dict(zip(tables.COORDINATES, point.tolist(), strict=True))
            found.append({"broker": f"b{number}", "region": model.regions[region], **position})
    return pa.Table.from_pylist(found, tables.schemas((), ())[tables.BROKERS])


def _counts(model: Model) -> list[int]:
    """By the rule of the largest remainder, in exact fractions."""
    weights = [int(model.allocated[..., region].sum()) for region in range(len(model.regions))]
    if not any(weights):
        weights = model.clients_count.tolist()
    whole = sum(weights)
    exact = [Fraction(model.spec.sizes.brokers * weight, whole) for weight in weights]
    counts = [int(one) for one in exact]
    for _ in range(model.spec.sizes.brokers - sum(counts)):
        left = [one - count for one, count in zip(exact, counts, strict=True)]
        counts[left.index(max(left))] += 1
    return counts


def _placed(model: Model, region: int, number: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    pieces = placing.pieces(model)
    one = placing.points(pieces, np.array([region]), np.array([number]), model.spec.seed, tables.BROKERS)
    point: np.ndarray[tuple[int], np.dtype[np.float64]] = one[0]
    return point
