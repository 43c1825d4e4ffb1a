"""Communities and the plans made of them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.planning.communities.towns import overlay, town
from tidings.errors import InputError
from tidings.planning.communities import extraction, interest, published, search
from tidings.planning.communities.base import (
    BACKBONE,
    Flows,
    Limits,
    Network,
    broker_loads,
    cluster_loads,
    mean_hops,
    moved,
)
from tidings.planning.communities.extraction import Method
from tidings.planning.communities.published import Proportion, Reading


def slow_modularity(flows: Flows, numbers: list[int]) -> float:
    """As the paper defines it: e_ii less a_i squared, with each edge half in either direction."""
    low, high, weights = flows.undirected
    total = weights.sum()
    groups = sorted(set(numbers))
    shares = dict.fromkeys(itertools.product(groups, groups), 0.0)
    for a, b, weight in zip(low, high, weights, strict=True):
        shares[numbers[a], numbers[b]] += weight / total / 2
        shares[numbers[b], numbers[a]] += weight / total / 2
    return sum(shares[one, one] - sum(shares[one, other] for other in groups) ** 2 for one in groups)


def slow_communities(flows: Flows) -> float:
    """The modularity that joining the best two communities, again and again, comes to at its peak."""
    numbers = list(range(len(flows.clients)))
    best = slow_modularity(flows, numbers)
    while len(set(numbers)) > 1:
        tried = [
            (slow_modularity(flows, [a if one == b else one for one in numbers]), a, b)
            for a, b in itertools.combinations(sorted(set(numbers)), 2)
        ]
        value, a, b = max(tried, key=lambda one: one[0])
        numbers = [a if one == b else one for one in numbers]
        best = max(best, value)
    return best


@pytest.mark.parametrize("seed", range(3))
def test_greedy_communities_are_as_good_as_those_of_a_plain_version(seed: int) -> None:
    _, flows = town(seed, clients=16)
    numbers = extraction.communities(flows)
    found = extraction.modularity(flows, numbers)
    assert found == pytest.approx(slow_modularity(flows, numbers.tolist()))
    # Where two joins are equally good, either may be taken, and what follows differs a little.
    assert found == pytest.approx(slow_communities(flows), abs=0.02)


def test_groups_that_hardly_talk_to_each_other_are_found_and_numbered_by_their_lowest_client() -> None:
    cliques = [[f"{group}{member}" for member in range(4)] for group in "abc"]
    pairs = [(one, other, 5.0) for group in cliques for one in group for other in group if one != other]
    flows = Flows.of([*pairs, ("a0", "b0", 1.0), ("b1", "c1", 1.0)])
    for method in Method:
        numbers = extraction.communities(flows, method)
        assert numbers.tolist() == [0] * 4 + [1] * 4 + [2] * 4


def test_clients_without_messages_are_communities_by_themselves() -> None:
    flows = Flows.of([("a", "b", 1.0)], ["a", "b", "c", "d"])
    assert extraction.communities(flows).tolist() == [0, 0, 1, 2]
    assert extraction.communities(Flows.of([], ["a", "b"])).tolist() == [0, 1]


def check_seats(network: Network, seats: NDArray[np.int64]) -> None:
    assert (network.cluster_of[seats] != BACKBONE).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("proportion", list(Proportion))
@pytest.mark.parametrize("fits", [False, True])
def test_the_published_plan_brings_communities_together(
    seed: int, proportion: Proportion, fits: bool
) -> None:
    network, flows = town(seed)
    how = Reading(proportion=proportion, fits=fits)
    plan = published.planned(network, flows, Limits(broker_overload=math.inf), how)
    check_seats(network, plan.seats)
    assert plan.last is not None
    for community in range(int(plan.last.max()) + 1):
        members = plan.seats[plan.last == community]
        assert len(set(network.cluster_of[members].tolist())) == 1
    assert mean_hops(network, flows, plan.seats) < mean_hops(network, flows, network.homes)


def test_a_cluster_that_is_overloaded_takes_no_further_community() -> None:
    network, flows = town(1)
    for overload in (1.0, 1.2, 2.0):
        numbers = extraction.communities(flows)
        handled = np.bincount(numbers, flows.sent)
        place = published.clustered(network, flows, Limits(overload=overload), Reading(), numbers)
        fair = network.fair(flows.total)
        for cluster in range(len(network.clusters)):
            there = handled[place == cluster]
            # Without the one that overloaded it, and leftovers go to the emptiest, it was within its limit.
            assert there.sum() - there.max(initial=0.0) <= fair[cluster] * overload + 1e-9


def test_those_who_come_to_a_cluster_go_to_its_emptiest_broker_the_heaviest_sender_first() -> None:
    network, flows = town(2)
    cluster = np.zeros(len(flows.clients), np.int64)
    seats = published.balanced(network, flows, cluster)
    load = np.bincount(network.homes, np.where(network.cluster_of[network.homes] == 0, flows.sent, 0.0), 20)
    come = [
        int(one) for one in np.argsort(-flows.sent, kind="stable") if network.cluster_of[network.homes[one]]
    ]
    for client in come:
        brokers = network.members[0].tolist()
        assert load[seats[client]] == min(load[at] for at in brokers)
        load[seats[client]] += flows.sent[client]


@pytest.mark.parametrize("moves", [0, 5, 20])
def test_no_plan_moves_more_clients_than_allowed(moves: int) -> None:
    network, flows = town(3)
    for limits in (Limits(moves=moves), Limits(moves=moves, moves_across=4, moves_inside=7)):
        for plan in (published.planned(network, flows, limits), search.planned(network, flows, limits)):
            across, inside = moved(network, plan.seats)
            assert len(across) + len(inside) <= moves
            assert limits.moves_across is None or len(across) <= limits.moves_across
            assert limits.moves_inside is None or len(inside) <= limits.moves_inside


@pytest.mark.parametrize("seed", range(3))
def test_with_as_many_moves_the_search_is_better_and_keeps_the_loads(seed: int) -> None:
    network, flows = town(seed)
    plan = published.planned(network, flows, Limits(broker_overload=math.inf))
    seated = int((network.cluster_of >= 0).sum())
    heaviest = float(broker_loads(network, flows, plan.seats).max()) / (flows.total / seated)
    limits = Limits(moves_across=len(moved(network, plan.seats)[0]), broker_overload=max(1.0, heaviest))
    found = search.planned(network, flows, limits, starts=[plan])
    check_seats(network, found.seats)
    assert len(moved(network, found.seats)[0]) <= limits.moves_across  # type: ignore[operator]
    most = np.maximum(1.5, cluster_loads(network, flows, network.homes))
    assert (cluster_loads(network, flows, found.seats) <= most + 1e-9).all()
    own = broker_loads(network, flows, network.homes)
    assert (
        broker_loads(network, flows, found.seats) <= np.maximum(own, heaviest * flows.total / seated) + 1e-9
    ).all()
    assert mean_hops(network, flows, found.seats) < mean_hops(network, flows, plan.seats)


def test_the_same_seed_gives_the_same_plan() -> None:
    network, flows = town(6)
    for planner in (search.planned, interest.planned):
        first, second = (planner(network, flows, Limits(), seed=4) for _ in range(2))
        assert first.seats.tolist() == second.seats.tolist()


def test_interest_clustering_puts_clients_with_the_same_subscriptions_together() -> None:
    network, flows = town(0, clients=40)
    subscriptions = [
        (name, f"topic{int(name[1:]) % 4}/{part}") for name in flows.clients for part in range(3)
    ]
    plan = interest.planned(network, flows, Limits(), subscriptions)
    check_seats(network, plan.seats)
    by_topic: dict[int, set[int]] = {}
    for name, seat in zip(flows.clients, plan.seats.tolist(), strict=True):
        by_topic.setdefault(int(name[1:]) % 4, set()).add(int(network.cluster_of[seat]))
    assert all(len(clusters) == 1 for clusters in by_topic.values())
    assert len({next(iter(clusters)) for clusters in by_topic.values()}) == 4


def test_interests_of_any_length_are_grouped() -> None:
    network, flows = town(1, clients=40)
    # Of these lengths the distance of a client to itself is not quite nothing.
    subscriptions = [
        (name, f"{part}") for number, name in enumerate(flows.clients) for part in range(number % 8)
    ]
    for seed in range(20):
        check_seats(network, interest.planned(network, flows, Limits(), subscriptions, seed).seats)


def test_where_nobody_is_nothing_is_planned() -> None:
    graph, clusters = overlay((2, 2))
    flows = Flows.of([])
    network = Network.of(graph, clusters, {}, flows.clients)
    for planner in (published.planned, search.planned, interest.planned):
        with pytest.raises(InputError, match="name at least one client with its home"):
            planner(network, flows, Limits())
