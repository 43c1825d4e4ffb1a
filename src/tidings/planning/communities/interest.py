"""Interest clustering, the baseline: clients with like subscriptions to one cluster, by k-means (§IV-A).

Interests are alike by Jaccard's share of what two clients have in common (equation 6). For k-means a client
is a row of zeros and ones, divided by its length, so that the nearest centre is the likest; groups are as
many as clusters, and each goes to the cluster where most of its clients are, one group to a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from tidings.errors import InputError
from tidings.planning.communities.base import Limits, Seating, somebody
from tidings.planning.communities.bounds import within
from tidings.planning.communities.extraction import modularity
from tidings.planning.communities.published import balanced

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from tidings.planning.communities.base import Flows, Network

ROUNDS_MAX = 100


def planned(
    network: Network,
    flows: Flows,
    limits: Limits,
    subscriptions: Iterable[tuple[str, str]] | None = None,
    seed: int = 0,
) -> Seating:
    """Where each client would be; without subscriptions, a client's interest is those it hears from.

    Of `limits` it keeps those on moves, by leaving out those that save least. It knows none of load: that it
    overloads clusters is what is shown of it.
    """
    somebody(flows)
    groups = _groups(_interests(flows, subscriptions), len(network.clusters), seed)
    cluster = _clusters(network, groups)
    seats = within(network, flows, limits, balanced(network, flows, cluster[groups]), groups)
    return Seating(seats, groups, modularity(flows, groups))


def jaccard(one: set[str], other: set[str]) -> float:
    """How alike two sets of subscriptions are.

    >>> jaccard({"a", "b"}, {"b", "c"})
    0.3333333333333333
    """
    return len(one & other) / len(one | other) if one or other else 0.0


def _interests(flows: Flows, subscriptions: Iterable[tuple[str, str]] | None) -> csr_array:
    from scipy.sparse import csr_array

    if subscriptions is None:
        rows, columns, width = flows.receivers, flows.senders, len(flows.clients)
    else:
        names: dict[str, int] = {}
        pairs = []
        for client, subscription in subscriptions:
            if client not in flows.place:
                raise InputError(
                    f"{client!r} subscribes and is no client with a home or traffic; leave it out"
                )
            pairs.append((flows.place[client], names.setdefault(subscription, len(names))))
        rows, columns = np.array(pairs, np.int64).reshape(-1, 2).T
        width = max(1, len(names))
    matrix = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(flows.clients), width))
    matrix.data[:] = 1.0
    return matrix


def _groups(interests: csr_array, count: int, seed: int) -> NDArray[np.int64]:
    """k-means of rows of length 1, from centres drawn far apart (k-means++)."""
    lengths = np.sqrt(np.asarray(interests.sum(axis=1)).ravel())
    rows = interests.multiply((1 / np.maximum(lengths, 1.0))[:, None]).tocsr()
    rng = np.random.default_rng(seed)
    centres = _drawn(rows, min(count, rows.shape[0]), rng)
    groups = np.full(rows.shape[0], -1, np.int64)
    for _ in range(ROUNDS_MAX):
        nearest = np.argmax(rows @ centres.T - (centres**2).sum(axis=1) / 2, axis=1)
        if np.array_equal(nearest, groups):
            break
        groups = nearest
        for group in np.unique(groups).tolist():
            centres[group] = np.asarray(rows[groups == group].mean(axis=0)).ravel()
    return groups


def _drawn(rows: csr_array, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    centres = np.empty((count, rows.shape[1]))
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    far = np.ones(rows.shape[0])
    for number in range(count):
        chances = far / far.sum() if far.sum() > 0 else None
        chosen = int(rng.choice(rows.shape[0], p=chances))
        centres[number] = rows[[chosen]].toarray().ravel()
        apart = squares - 2 * (rows @ centres[number]) + float(centres[number] @ centres[number])
        # Sums of squares come out a little below nothing.
        apart = np.maximum(apart, 0.0)
        far = np.minimum(far, apart) if number else apart
    return centres


def _clusters(network: Network, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """By group: its cluster, so that as few clients as possible move."""
    from scipy.optimize import linear_sum_assignment

    count = len(network.clusters)
    located = np.zeros((count, count))
    np.add.at(located, (groups, network.cluster_of[network.homes]), 1.0)
    _, found = linear_sum_assignment(located, maximize=True)
    return np.asarray(found, np.int64)
