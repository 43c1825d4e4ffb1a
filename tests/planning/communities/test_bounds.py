"""Plans with fewer moves than their planner made."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.planning.communities.towns import overlay, town
from tidings.planning.communities import bounds, interest, published
from tidings.planning.communities.base import Flows, Limits, Network, mean_hops, moved
from tidings.planning.communities.published import Division, Reading

CLIENTS = "abcdefghij"


@st.composite
def hamlets(draw: st.DrawFn) -> tuple[Network, Flows]:
    """Any traffic among a few clients, some of whom say nothing, at any brokers of three clusters."""
    graph, clusters = overlay((2, 3, 1))
    brokers = st.sampled_from([name for name, cluster in clusters.items() if cluster])
    client = st.sampled_from(CLIENTS)
    messages = st.floats(0, 100, allow_subnormal=False)
    flows = Flows.of(draw(st.lists(st.tuples(client, client, messages), max_size=25)), CLIENTS)
    homes = {name: draw(brokers) for name in CLIENTS}
    return Network.of(graph, clusters, homes, flows.clients), flows


@settings(deadline=None, max_examples=examples(150))
@given(
    hamlets(),
    st.none() | st.integers(0, 11),
    st.none() | st.integers(0, 11),
    st.sampled_from(list(Division)),
    st.booleans(),
)
def test_a_plan_with_a_bound_keeps_it_and_is_no_worse_than_staying(
    hamlet: tuple[Network, Flows], moves: int | None, inside: int | None, divide: Division, everybody: bool
) -> None:
    network, flows = hamlet
    limits = Limits(1.5, moves=moves, moves_inside=inside)
    how = Reading(divide=divide, balance_all=everybody)
    for plan in (published.planned(network, flows, limits, how), interest.planned(network, flows, limits)):
        for movers, most in zip(moved(network, plan.seats), (moves, inside), strict=True):
            assert most is None or len(movers) <= most
        if (moves, inside) != (None, None):
            assert mean_hops(network, flows, plan.seats) <= mean_hops(network, flows, network.homes)


@settings(deadline=None, max_examples=examples(60))
@given(hamlets(), st.integers(0, 6))
def test_no_single_move_that_is_left_would_save_anything(hamlet: tuple[Network, Flows], moves: int) -> None:
    network, flows = hamlet
    whole = published.planned(network, flows, Limits(1.5))
    assert whole.last is not None
    limits = Limits(1.5, moves=moves)
    seats = bounds.within(network, flows, limits, whole.seats, whole.last)
    assert set(np.flatnonzero(seats != network.homes)) <= set(np.flatnonzero(whole.seats != network.homes))
    if len(moved(network, seats)[0]) == moves or np.array_equal(seats, whole.seats):
        return
    for client in np.flatnonzero(seats != whole.seats).tolist():
        one_more = seats.copy()
        one_more[client] = whole.seats[client]
        saved = mean_hops(network, flows, seats) - mean_hops(network, flows, one_more)
        assert saved <= 1e-6


def test_those_who_would_lose_by_going_alone_go_together_or_not_at_all() -> None:
    graph, clusters = overlay((2, 2))
    flows = Flows.of([("a", "b", 10.0), ("a", "c", 6.0), ("b", "c", 6.0)])
    network = Network.of(graph, clusters, {"a": "c0m1", "b": "c0m1", "c": "c1m1"}, flows.clients)
    goals = np.full(3, graph.place["c1m1"])
    together = np.zeros(3, np.int64)
    for moves, gone in ((0, 0), (1, 0), (2, 2), (3, 2)):
        seats = bounds.within(network, flows, Limits(moves=moves), goals, together)
        assert int((seats != network.homes).sum()) == gone
    alone = np.arange(3)
    assert bounds.within(network, flows, Limits(moves=1), goals, alone).tolist() == network.homes.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_more_moves_save_more_and_half_of_them_save_most_of_it(seed: int) -> None:
    network, flows = town(seed)
    whole = published.planned(network, flows, Limits(1.5))
    assert whole.last is not None
    count = len(moved(network, whole.seats)[0])
    hops = [
        mean_hops(
            network,
            flows,
            bounds.within(network, flows, Limits(1.5, moves=n), whole.seats, whole.last),
        )
        for n in range(0, count, 5)
    ]
    assert hops[0] == mean_hops(network, flows, network.homes)
    assert all(fewer >= more - 1e-9 for fewer, more in itertools.pairwise(hops))
    assert hops[0] - hops[len(hops) // 2] > (hops[0] - hops[-1]) / 2


def test_without_a_bound_a_plan_is_as_its_planner_made_it() -> None:
    network, flows = town(0)
    whole = published.planned(network, flows, Limits(1.5))
    assert whole.last is not None
    for limits in (Limits(1.5), Limits(1.5, moves=60)):
        assert bounds.within(network, flows, limits, whole.seats, whole.last) is whole.seats
