"""The search for seats, beside all seatings there are where they are few."""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.planning.communities.towns import overlay, town
from tidings.planning.communities import published, search
from tidings.planning.communities.base import (
    Flows,
    Limits,
    Network,
    broker_loads,
    cluster_loads,
    mean_hops,
    moved,
)


def hamlet(seed: int) -> tuple[Network, Flows]:
    """Two clusters of two brokers, and five clients."""
    rng = Random(seed)
    graph, clusters = overlay((2, 2))
    names = "abcde"
    pairs = [tuple(rng.sample(names, 2)) for _ in range(7)]
    flows = Flows.of([(a, b, float(rng.randint(1, 9))) for a, b in pairs], names)
    seats = [name for name, cluster in clusters.items() if cluster]
    return Network.of(graph, clusters, {name: rng.choice(seats) for name in names}, names), flows


def allowed(network: Network, flows: Flows, limits: Limits, seats: NDArray[np.int64]) -> bool:
    """Whether all limits are kept, where a cluster and a broker may keep what they had."""
    across, inside = moved(network, seats)
    clusters = np.maximum(limits.overload, cluster_loads(network, flows, network.homes))
    even = flows.total / int((network.cluster_of >= 0).sum())
    brokers = np.maximum(limits.broker_overload * even, broker_loads(network, flows, network.homes))
    return bool(
        (limits.moves is None or len(across) + len(inside) <= limits.moves)
        and (limits.moves_across is None or len(across) <= limits.moves_across)
        and (limits.moves_inside is None or len(inside) <= limits.moves_inside)
        and (cluster_loads(network, flows, seats) <= clusters + 1e-9).all()
        and (broker_loads(network, flows, seats) <= brokers + 1e-9).all()
    )


LIMITS = [
    Limits(3.0, broker_overload=math.inf),
    Limits(1.5, moves=2),
    Limits(1.5, moves_across=2, broker_overload=math.inf),
    Limits(1.2, moves_across=1, moves_inside=1),
    Limits(2.0, moves=3, moves_across=2),
]


@pytest.mark.parametrize("limits", LIMITS)
def test_in_a_hamlet_it_finds_the_best_of_all_seatings_within_the_limits(limits: Limits) -> None:
    for seed in range(8):
        network, flows = hamlet(seed)
        brokers = np.flatnonzero(network.cluster_of >= 0).tolist()
        every = (np.array(seats) for seats in itertools.product(brokers, repeat=len(flows.clients)))
        best = min(
            mean_hops(network, flows, seats) for seats in every if allowed(network, flows, limits, seats)
        )
        plan = search.planned(network, flows, limits)
        assert allowed(network, flows, limits, plan.seats)
        assert mean_hops(network, flows, plan.seats) == pytest.approx(best)


@pytest.mark.parametrize("moves", [0, 5, 20, None])
@pytest.mark.parametrize("seed", range(3))
def test_limits_are_kept_and_a_plan_that_keeps_them_is_not_made_worse(seed: int, moves: int | None) -> None:
    network, flows = town(seed)
    limits = Limits(1.5, moves=moves, moves_inside=10, broker_overload=3.0)
    start = published.planned(network, flows, limits)
    plan = search.planned(network, flows, limits, starts=[start])
    assert allowed(network, flows, limits, plan.seats)
    assert plan.communities is start.communities
    assert plan.final is start.final
    if allowed(network, flows, limits, start.seats):
        assert mean_hops(network, flows, plan.seats) <= mean_hops(network, flows, start.seats)


def test_messages_of_broken_numbers_do_not_break_limits() -> None:
    network, whole = town(4)
    flows = Flows.of_arrays(whole.clients, whole.senders, whole.receivers, whole.messages / 3.7)
    limits = Limits(1.0, moves=15, broker_overload=1.0)
    assert allowed(network, flows, limits, search.planned(network, flows, limits).seats)


def test_more_moves_are_never_worse() -> None:
    network, flows = town(5)
    plan = search.planned(network, flows, Limits(1.5))
    points = search.frontier(network, flows, Limits(1.5), plan, points=6)
    assert 4 <= len(points) <= 7
    assert points[0].hops == mean_hops(network, flows, network.homes)
    assert [point.moves for point in points] == sorted({point.moves for point in points})
    hops = [point.hops for point in points]
    assert hops == sorted(hops, reverse=True)
    assert all(allowed(network, flows, Limits(1.5, moves=point.moves), point.seats) for point in points)


@pytest.mark.parametrize("moves", [None, 0, 7, 20])
@pytest.mark.parametrize("seed", range(2))
def test_the_frontier_passes_through_the_plan_that_is_taken_and_falls_with_every_move(
    seed: int, moves: int | None
) -> None:
    network, flows = town(seed, clients=30, apart=0.3)
    limits = Limits(1.5, moves=moves)
    start = published.planned(network, flows, limits)
    plan = search.planned(network, flows, limits, starts=[start])
    points = search.frontier(network, flows, limits, plan, points=5)
    found = search.taken(network, plan, points)
    assert allowed(network, flows, limits, found.seats)
    assert mean_hops(network, flows, found.seats) <= mean_hops(network, flows, plan.seats)
    assert found.communities is plan.communities
    own = search.Point(
        int((found.seats != network.homes).sum()), mean_hops(network, flows, found.seats), found.seats
    )
    assert own in points
    assert own.moves <= int((plan.seats != network.homes).sum())
    if moves is None:
        assert points[-1] == own
    for fewer, more in itertools.pairwise(points):
        assert fewer.moves < more.moves
        assert fewer.hops > more.hops


def test_nobody_has_to_talk() -> None:
    network, _ = hamlet(0)
    for flows in (Flows.of([], "abcde"), Flows.of([("a", "b", 0.0), ("a", "c", 0.0)], "abcde")):
        assert search.planned(network, flows, Limits()).seats.tolist() == network.homes.tolist()
