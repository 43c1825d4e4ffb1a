"""The greedy algorithm for one target: one store after the other, each the one that then saves most (§IV-A).

The target is never a candidate and holds the content. Of equal gains the lowest broker has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidings.planning.stores.base import Gain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidings.planning.graphs import Graph

EQUAL = 1e-9
"""Gains that differ by less, as a share of all there is to gain, are equal: sums in another order do."""


def greedy(
    graph: Graph, rates: NDArray[np.float64], target: int, count: int, gain: Gain = Gain.MEDIAN
) -> list[int]:
    """So many stores for a target, in the order in which they were chosen; all others, if there are fewer."""
    if gain is Gain.MEDIAN:
        return _median(graph, rates, target, count)
    return _on_the_way(graph, rates, target, count, conjoint=gain is Gain.PATH)


def _median(graph: Graph, rates: NDArray[np.float64], target: int, count: int) -> list[int]:
    distances = graph.distances
    served = distances[target].copy()
    whole = float(rates @ served) or 1.0
    free = np.ones(len(graph.names), bool)
    free[target] = False
    chosen: list[int] = []
    for _ in range(min(count, len(graph.names) - 1)):
        saved = rates @ np.maximum(served[:, None] - distances, 0.0)
        best = _first_best(saved, free, whole)
        chosen.append(best)
        free[best] = False
        served = np.minimum(served, distances[:, best])
    return chosen


def _on_the_way(
    graph: Graph, rates: NDArray[np.float64], target: int, count: int, *, conjoint: bool
) -> list[int]:
    """`conjoint`: what earlier stores have taken from the way is not saved again."""
    far, towards = graph.distances[target], graph.towards(target)
    nearest_last = np.argsort(-far, kind="stable").tolist()
    free = np.ones(len(graph.names), bool)
    free[target] = False
    whole = float(rates @ far) or 1.0
    stores = np.zeros(len(graph.names), bool)
    chosen: list[int] = []
    for _ in range(min(count, len(graph.names) - 1)):
        passing = rates.astype(float).copy()
        for at in nearest_last:
            if at != target and not (conjoint and stores[at]):
                passing[towards[at]] += passing[at]
        # What passes a broker would go on to the next store of those chosen, or to the target.
        beyond = far.copy()
        if conjoint:
            for at in reversed(nearest_last):
                if at != target:
                    up = towards[at]
                    beyond[at] = far[at] - far[up] + (0.0 if stores[up] else beyond[up])
        best = _first_best(passing * beyond, free, whole)
        chosen.append(best)
        free[best] = False
        stores[best] = True
    return chosen


def _first_best(gains: NDArray[np.float64], free: NDArray[np.bool_], whole: float) -> int:
    masked = np.where(free, gains, -np.inf)
    return int(np.flatnonzero(masked >= masked.max() - EQUAL * whole)[0])
