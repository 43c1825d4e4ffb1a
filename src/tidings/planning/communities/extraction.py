"""Phase 1: communities of clients that talk to each other, by modularity (§III-A).

Newman's greedy algorithm begins with each client by itself and joins the two communities that raise
modularity most, until nothing raises it. Messages of both ways count as one undirected weight. Leiden's
algorithm finds better ones, sooner.
"""

from __future__ import annotations

import random
import warnings
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidings.planning.communities.base import Flows


GREEDY_PAIRS_MAX = 500_000
"""Pairs of clients up to which Newman's algorithm is advised: beyond, it takes minutes, and for some traffic
hours, where Leiden's takes seconds and finds as much modularity or more."""


LEIDEN_PAIRS_MAX = 200_000
"""Pairs of clients up to which Leiden's algorithm goes on until nothing changes; beyond, it goes twice over
the clients, the library's own default: traffic without communities would take minutes for 0.004 of q more."""


class Method(StrEnum):
    """How communities are found."""

    GREEDY = "greedy"
    """As published."""

    LEIDEN = "leiden"


def communities(flows: Flows, method: Method = Method.GREEDY, seed: int = 0) -> NDArray[np.int64]:
    """The number of each client's community; a client without messages is one by itself."""
    low, high, weights = flows.undirected
    talk = weights > 0
    rounds = _rounds(flows)
    return _numbered(_divided(len(flows.clients), low[talk], high[talk], weights[talk], method, seed, rounds))


def divided(
    flows: Flows,
    numbers: NDArray[np.int64],
    method: Method = Method.GREEDY,
    seed: int = 0,
    *,
    only: int | None = None,
) -> NDArray[np.int64]:
    """Communities of communities: each divided by itself, or `only` one; what has no parts stays whole."""
    low, high, weights = flows.undirected
    rounds = _rounds(flows)
    inside = (numbers[low] == numbers[high]) & (weights > 0)
    order = np.argsort(numbers[low[inside]], kind="stable")
    low, high, weights = (part[inside][order] for part in (low, high, weights))
    count = int(numbers.max(initial=-1)) + 1
    edges = np.searchsorted(numbers[low], np.arange(count + 1)).tolist()
    members = np.argsort(numbers, kind="stable")
    begins = np.searchsorted(numbers[members], np.arange(count + 1)).tolist()
    position = np.empty(len(numbers), np.int64)
    found = np.empty(len(numbers), np.int64)
    parts = 0
    for community in range(count):
        mine = members[begins[community] : begins[community + 1]]
        some = slice(edges[community], edges[community + 1])
        whole = only not in (None, community) or len(mine) < 3
        position[mine] = np.arange(len(mine))
        of_mine = (
            np.zeros(len(mine), np.int64)
            if whole
            else _divided(
                len(mine), position[low[some]], position[high[some]], weights[some], method, seed, rounds
            )
        )
        found[mine] = of_mine + parts
        parts += int(of_mine.max()) + 1
    return _numbered(found)


def warnings_of(flows: Flows, method: Method) -> tuple[str, ...]:
    """What to say of a method for so much traffic."""
    pairs = len(flows.undirected[0])
    if method is Method.LEIDEN or pairs <= GREEDY_PAIRS_MAX:
        return ()
    said = (
        f"communities of {pairs:,} pairs of clients were looked for by Newman's greedy algorithm, which is "
        f"slow beyond {GREEDY_PAIRS_MAX:,}; Leiden's finds as good ones in seconds"
    )
    return (said,)


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


def _rounds(flows: Flows) -> int:
    """Of Leiden's algorithm; -1 for as many as change anything."""
    return -1 if len(flows.undirected[0]) <= LEIDEN_PAIRS_MAX else 2


def _divided(
    clients: int,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    weights: NDArray[np.float64],
    method: Method,
    seed: int,
    rounds: int,
) -> NDArray[np.int64]:
    import igraph

    if not len(low):
        return np.arange(clients)
    library = igraph.Graph(n=clients, edges=np.column_stack([low, high]))
    if method is Method.LEIDEN:
        igraph.set_random_number_generator(Random(seed))
        try:
            found = library.community_leiden("modularity", weights=weights, n_iterations=rounds)
        finally:
            igraph.set_random_number_generator(random)
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
