"""Community clustering as published, beside its algorithm written down once more, line by line."""

from __future__ import annotations

import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.counting import lines
from tests.examples import examples
from tests.planning.communities.towns import town
from tidings.planning.communities import extraction, published
from tidings.planning.communities.base import Flows, Limits, Network, mean_hops, moved
from tidings.planning.communities.extraction import Method
from tidings.planning.communities.published import Division, Proportion, Reading


def algorithm_1(
    network: Network, flows: Flows, numbers: list[int], overload: Fraction, by: Proportion, fits: bool
) -> list[int]:
    """Each community's cluster, with exact shares and loads; leftovers to the cluster with most room."""
    clusters = range(len(network.clusters))
    at = [int(network.cluster_of[home]) for home in network.homes.tolist()]
    communities = range(max(numbers) + 1)
    sent = [0] * len(communities)
    for client, messages in zip(flows.senders.tolist(), flows.messages.tolist(), strict=True):
        sent[numbers[client]] += int(messages)
    brokers = [int((network.cluster_of == s).sum()) for s in clusters]
    fair = [Fraction(sum(sent) * brokers[s], sum(brokers)) for s in clusters]

    def count(community: int, cluster: int) -> int:
        return sum(
            1 for number, where in zip(numbers, at, strict=True) if (number, where) == (community, cluster)
        )

    def proportion(community: int, cluster: int) -> Fraction:
        of = at.count(cluster) if by is Proportion.CLUSTER else numbers.count(community)
        return Fraction(count(community, cluster), of) if of else Fraction(0)

    placed: dict[int, int] = {}

    def load(cluster: int) -> int:
        return sum(sent[i] for i, s in placed.items() if s == cluster)

    def overloaded(cluster: int, more: int = 0) -> bool:
        return load(cluster) + (more if fits else 0) > overload * fair[cluster]

    queue = list(clusters)
    while queue:
        s = queue.pop(0)
        for i in sorted((i for i in communities if count(i, s)), key=lambda i: (-proportion(i, s), i)):
            if overloaded(s):
                break
            if placed.get(i) == s or overloaded(s, sent[i]):
                continue
            if i in placed:
                before = placed[i]
                if proportion(i, s) > proportion(i, before):
                    placed[i] = s
                    if not overloaded(before):
                        queue.append(before)
            else:
                placed[i] = s
    for i in sorted((i for i in communities if i not in placed), key=lambda i: (-sent[i], i)):
        placed[i] = max(clusters, key=lambda s: (overload * fair[s] - load(s), -s))
    return [placed[i] for i in communities]


@settings(deadline=None, max_examples=examples(60))
@given(
    st.integers(0, 10**6),
    st.integers(5, 60),
    st.floats(0.05, 0.9),
    st.sampled_from([Fraction(1), Fraction(5, 4), Fraction(3, 2), Fraction(3)]),
    st.sampled_from(list(Proportion)),
    st.booleans(),
    st.booleans(),
)
def test_communities_go_where_algorithm_1_puts_them(
    seed: int, clients: int, apart: float, overload: Fraction, by: Proportion, fits: bool, small: bool
) -> None:
    network, flows = town(seed, clients, apart)
    # Pairs of clients are small communities, of which clusters take many from each other.
    numbers = np.arange(clients) // 2 if small else extraction.communities(flows)
    reading = Reading(proportion=by, fits=fits)
    found = published.clustered(network, flows, Limits(float(overload)), reading, numbers)
    assert found.tolist() == algorithm_1(network, flows, numbers.tolist(), overload, by, fits)


@pytest.mark.parametrize("fits", [False, True])
def test_a_cluster_that_waits_again_does_not_go_through_all_communities_again(fits: bool) -> None:
    def work(clients: int) -> int:
        network, flows = town(0, clients)
        numbers = np.arange(clients) // 3
        reading = Reading(fits=fits)
        return lines(lambda: published.clustered(network, flows, Limits(1.0), reading, numbers))

    assert work(2_400) < 5 * work(600)


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("seed", range(3))
def test_communities_are_divided_each_by_itself(method: Method, seed: int) -> None:
    _, flows = town(seed, apart=0.4)
    numbers = extraction.communities(flows, method)
    finer = extraction.divided(flows, numbers, method)
    assert finer.max() > numbers.max()
    for community in range(int(numbers.max()) + 1):
        members = np.flatnonzero(numbers == community)
        inside = np.isin(flows.senders, members) & np.isin(flows.receivers, members)
        names = flows.clients
        alone = Flows.of(
            (
                (names[a], names[b], count)
                for a, b, count in zip(
                    flows.senders[inside],
                    flows.receivers[inside],
                    flows.messages[inside].tolist(),
                    strict=True,
                )
            ),
            [names[at] for at in members],
        )
        parts = extraction.communities(alone, method)
        by_name = dict(zip(alone.clients, parts.tolist(), strict=True))
        expected = [by_name[names[at]] for at in members]
        got = finer[members].tolist()
        assert [got.index(one) for one in got] == [expected.index(one) for one in expected]


def test_only_the_largest_community_is_divided_if_so_read() -> None:
    _, flows = town(1, apart=0.4)
    numbers = extraction.communities(flows)
    largest = int(np.bincount(numbers).argmax())
    finer = extraction.divided(flows, numbers, only=largest)
    for community in range(int(numbers.max()) + 1):
        parts = len(set(finer[numbers == community].tolist()))
        assert (parts > 1) == (community == largest)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("divide", list(Division))
def test_dividing_ends_when_hops_lose_a_larger_share_than_moves_gain(seed: int, divide: Division) -> None:
    network, flows = town(seed, apart=0.3)
    reading = Reading(divide=divide)

    def seated(numbers: NDArray[np.int64]) -> tuple[list[int], float, int]:
        placed = published.clustered(network, flows, Limits(), reading, numbers)
        seats = published.balanced(network, flows, placed[numbers])
        return seats.tolist(), mean_hops(network, flows, seats), len(moved(network, seats)[0])

    first = numbers = extraction.communities(flows)
    seats, hops, moves = seated(numbers)
    while divide is not Division.NONE:
        only = int(np.bincount(numbers).argmax()) if divide is Division.LARGEST else None
        finer = extraction.divided(flows, numbers, only=only)
        next_seats, next_hops, next_moves = seated(finer)
        loss, gain = (next_hops - hops) / hops, (moves - next_moves) / moves
        if loss > gain or finer.max() == numbers.max():
            break
        numbers, seats, hops, moves = finer, next_seats, next_hops, next_moves
    plan = published.planned(network, flows, Limits(broker_overload=math.inf), reading)
    assert plan.communities is not None
    assert plan.last is not None
    assert plan.communities.tolist() == first.tolist()
    assert plan.modularity == extraction.modularity(flows, first)
    assert plan.last.tolist() == numbers.tolist()
    assert (plan.final is None) == (numbers is first)
    if plan.final is not None:
        assert plan.final.modularity == extraction.modularity(flows, numbers)
    assert plan.seats.tolist() == seats


@pytest.mark.parametrize("seed", range(4))
def test_modularity_is_as_high_as_that_of_another_library(seed: int) -> None:
    _, flows = town(seed, clients=80, apart=0.3)
    low, high, weights = flows.undirected
    judge = nx.Graph()
    judge.add_nodes_from(range(len(flows.clients)))
    judge.add_weighted_edges_from(zip(low.tolist(), high.tolist(), weights.tolist(), strict=True))
    theirs = nx.community.greedy_modularity_communities(judge, weight="weight")
    ours = extraction.communities(flows)
    groups = [set(np.flatnonzero(ours == one).tolist()) for one in range(int(ours.max()) + 1)]
    assert extraction.modularity(flows, ours) == pytest.approx(nx.community.modularity(judge, groups))
    # Where two joins are equally good, either may be taken, and what follows differs a little.
    assert extraction.modularity(flows, ours) >= nx.community.modularity(judge, theirs) - 0.02
    leiden = extraction.modularity(flows, extraction.communities(flows, Method.LEIDEN))
    assert leiden >= extraction.modularity(flows, ours) - 1e-9


def test_much_traffic_is_gone_over_twice_only(monkeypatch: pytest.MonkeyPatch) -> None:
    _, flows = town(3, clients=80, apart=0.3)
    whole = extraction.modularity(flows, extraction.communities(flows, Method.LEIDEN))
    monkeypatch.setattr(extraction, "LEIDEN_PAIRS_MAX", 10)
    soon = extraction.modularity(flows, extraction.communities(flows, Method.LEIDEN))
    assert whole - 0.05 < soon <= whole + 1e-9
