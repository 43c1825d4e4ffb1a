"""Phase 1: communities of clients that talk to each other, by modularity (§III-A).

Newman's greedy algorithm begins with each client by itself and joins the two communities that raise
modularity most, until nothing raises it. Messages of both ways count as one undirected weight. Leiden's
algorithm finds better ones, sooner.
"""

from __future__ import annotations

import warnings
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from igraph import Graph as Library
    from numpy.typing import NDArray

    from tidings.planning.communities.base import Flows


class Method(StrEnum):
    """How communities are found."""

    GREEDY = "greedy"
    """As published."""

    LEIDEN = "leiden"


def communities(
    flows: Flows, method: Method = Method.GREEDY, seed: int = 0, among: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The number of each client's community; a client without messages is one by itself.

    `among` are the clients to divide, all by default; the others get -1.
    """
    chosen = np.arange(len(flows.clients)) if among is None else among
    position = np.full(len(flows.clients), -1, np.int64)
    position[chosen] = np.arange(len(chosen))
    low, high, weights = flows.undirected
    inside = (position[low] >= 0) & (position[high] >= 0) & (weights > 0)
    library = _library(len(chosen), position[low[inside]], position[high[inside]])
    found = np.full(len(flows.clients), -1, np.int64)
    found[chosen] = _numbered(_divided(library, weights[inside], method, seed))
    return found


def modularity(flows: Flows, numbers: NDArray[np.int64]) -> float:
    """What a division is worth, q: the share of messages within communities, less what chance would give."""
    low, high, weights = flows.undirected
    total = float(weights.sum())
    if not total:
        return 0.0
    count = int(numbers.max()) + 1
    within = float(weights[numbers[low] == numbers[high]].sum()) / total
    ends = np.bincount(numbers[low], weights, count) + np.bincount(numbers[high], weights, count)
    return within - float(((ends / (2 * total)) ** 2).sum())


def _library(count: int, low: NDArray[np.int64], high: NDArray[np.int64]) -> Library:
    import igraph

    return igraph.Graph(n=count, edges=np.column_stack([low, high]))


def _divided(library: Library, weights: NDArray[np.float64], method: Method, seed: int) -> NDArray[np.int64]:
    import igraph

    if not library.ecount():
        return np.arange(library.vcount())
    if method is Method.LEIDEN:
        igraph.set_random_number_generator(Random(seed))
        found = library.community_leiden("modularity", weights=weights, n_iterations=-1)
        return np.array(found.membership, np.int64)
    with warnings.catch_warnings():
        # It tells of each piece of the network that cannot be joined, which is no news.
        warnings.simplefilter("ignore", RuntimeWarning)
        dendrogram = library.community_fastgreedy(weights=weights)
        return np.array(dendrogram.as_clustering().membership, np.int64)


def _numbered(membership: NDArray[np.int64]) -> NDArray[np.int64]:
    """Communities in the order of their lowest client, whatever a library calls them."""
    _, first, inverse = np.unique(membership, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    found: NDArray[np.int64] = rank[inverse]
    return found
