"""Community clustering as published: communities to clusters (Algorithm 1), clients to brokers, and
communities divided again while that costs less than it saves (§III-B and C).

What the paper leaves open is a field of `Reading`, each with what it is by default.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from tidings.planning.communities import base, extraction
from tidings.planning.communities.base import Limits, Seating, cluster_most, mean_hops, moved, somebody
from tidings.planning.communities.bounds import within
from tidings.planning.communities.extraction import Method

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidings.planning.communities.base import Flows, Network

DIVISIONS_MAX = 20


class Proportion(StrEnum):
    """What the clients of a community in a cluster are divided by (equation 3)."""

    CLUSTER = "cluster"
    """By all clients of the cluster, as printed."""

    COMMUNITY = "community"
    """By all clients of the community, which moves fewer."""


class Division(StrEnum):
    """Which communities are divided again in a round of phases 1 and 2 (§III-B)."""

    ALL = "all"
    """Each of them."""

    LARGEST = "largest"
    """The one with most clients."""

    NONE = "none"
    """None: what phase 1 found stays."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is left open."""

    proportion: Proportion = Proportion.CLUSTER

    fits: bool = False
    """Whether a community is placed only where it fits; as printed, a cluster takes the one that overloads it
    and no further one."""

    balance_all: bool = False
    """Whether all clients of a cluster are dealt to its brokers anew; as printed, only those that come."""

    divide: Division = Division.ALL
    """Which communities are divided again, as long as the rule of Rp and Rm lets them."""

    method: Method = Method.GREEDY


def planned(
    network: Network, flows: Flows, limits: Limits, reading: Reading | None = None, seed: int = 0
) -> Seating:
    """The published plan; of `limits` it knows the overload of clusters, and keeps those on moves by leaving
    moves out, those that save least.
    """
    somebody(flows)
    how = reading or Reading()
    first = numbers = extraction.communities(flows, how.method, seed)
    best = _seated(network, flows, limits, how, numbers)
    for _ in range(DIVISIONS_MAX if how.divide is not Division.NONE else 0):
        largest = int(np.bincount(numbers).argmax()) if how.divide is Division.LARGEST else None
        finer = extraction.divided(flows, numbers, how.method, seed, only=largest)
        if finer.max() == numbers.max():
            break
        tried = _seated(network, flows, limits, how, finer)
        if not _worth_it(network, flows, best, tried):
            break
        numbers, best = finer, tried
    return Seating(
        within(network, flows, limits, best, numbers),
        first,
        extraction.modularity(flows, first),
        extraction.warnings_of(flows, how.method),
        None if numbers is first else base.Divided(numbers, extraction.modularity(flows, numbers)),
    )


def _worth_it(network: Network, flows: Flows, before: NDArray[np.int64], after: NDArray[np.int64]) -> bool:
    """Whether the share of moves that is saved is at least the share by which messages go farther."""
    hops = [mean_hops(network, flows, seats) for seats in (before, after)]
    moves = [len(moved(network, seats)[0]) for seats in (before, after)]
    if not moves[0] or not hops[0]:
        return False
    return (hops[1] - hops[0]) / hops[0] <= (moves[0] - moves[1]) / moves[0]


def _seated(
    network: Network, flows: Flows, limits: Limits, how: Reading, numbers: NDArray[np.int64]
) -> NDArray[np.int64]:
    placed = clustered(network, flows, limits, how, numbers)
    return balanced(network, flows, placed[numbers], everybody=how.balance_all)


def clustered(
    network: Network, flows: Flows, limits: Limits, how: Reading, numbers: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Algorithm 1: the cluster of each community."""
    count, clusters = int(numbers.max()) + 1, len(network.clusters)
    home = network.cluster_of[network.homes]
    located = np.bincount(numbers * clusters + home, minlength=count * clusters).reshape(count, clusters)
    whole = located.sum(axis=0, keepdims=True) if how.proportion is Proportion.CLUSTER else None
    share = located / np.maximum(located.sum(axis=1, keepdims=True) if whole is None else whole, 1.0)
    handled = np.bincount(numbers, flows.sent, count)
    most = cluster_most(network, flows, limits)
    load = np.zeros(clusters)
    place = np.full(count, -1, np.int64)

    def overloaded(cluster: int, more: float = 0.0) -> bool:
        return bool(load[cluster] + (more if how.fits else 0.0) > most[cluster])

    def put(community: int, cluster: int) -> None:
        if place[community] >= 0:
            load[place[community]] -= handled[community]
        place[community] = cluster
        load[cluster] += handled[community]

    # By cluster: the communities that it may still take, the largest share first. A community only goes on to
    # a cluster where its share is larger, so a cluster that cannot have it now never can.
    shares = share.T.tolist()
    left = [
        deque(there[np.argsort(-share[there, cluster], kind="stable")].tolist())
        for cluster, there in enumerate(map(np.flatnonzero, located.T))
    ]
    waiting = deque(range(clusters))
    # A cluster that waits twice has nothing to do the second time unless it lost a community in between.
    changed = set(waiting)
    while waiting:
        cluster = waiting.popleft()
        if cluster not in changed:
            continue
        changed.remove(cluster)
        too_large: list[int] = []
        while left[cluster] and not overloaded(cluster):
            community = left[cluster].popleft()
            before = int(place[community])
            if before >= 0 and shares[cluster][community] <= shares[before][community]:
                continue
            if overloaded(cluster, handled[community]):
                too_large.append(community)
                continue
            put(community, cluster)
            if before >= 0 and not overloaded(before):
                waiting.append(before)
                changed.add(before)
        left[cluster].extendleft(reversed(too_large))
    for community in sorted(np.flatnonzero(place < 0).tolist(), key=lambda one: (-handled[one], one)):
        put(community, int(np.argmax(most - load)))
    return place


def balanced(
    network: Network, flows: Flows, clusters: NDArray[np.int64], *, everybody: bool = False
) -> NDArray[np.int64]:
    """Phase 3: the broker of each client, by the cluster of each: the heaviest sender first, each to the
    broker whose clients send least so far.
    """
    stays = (clusters == network.cluster_of[network.homes]) & (not everybody)
    seats = np.where(stays, network.homes, -1)
    load = np.bincount(network.homes[stays], flows.sent[stays], len(network.graph.names))
    for client in np.argsort(-flows.sent, kind="stable").tolist():
        if seats[client] < 0:
            brokers = network.members[clusters[client]]
            best = int(brokers[np.argmin(load[brokers])])
            seats[client] = best
            load[best] += flows.sent[client]
    return seats
