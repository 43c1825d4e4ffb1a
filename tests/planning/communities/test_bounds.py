"""Plans with fewer moves than their planner made."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.examples import examples
from tests.planning.communities.towns import overlay, town
from tidings.planning.communities import bounds, interest, published, search
from tidings.planning.communities.base import Flows, Limits, Network, broker_loads, mean_hops, moved
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


def check(network: Network, flows: Flows, limits: Limits, seats: NDArray[np.int64]) -> None:
    """All limits on moves and on brokers are kept; a broker may send as much as before anything moves."""
    across, inside = map(len, moved(network, seats))
    kinds = (limits.moves, across + inside), (limits.moves_across, across), (limits.moves_inside, inside)
    assert all(most is None or count <= most for most, count in kinds)
    before, after = (broker_loads(network, flows, one) for one in (network.homes, seats))
    share = flows.total / int((network.cluster_of >= 0).sum())
    assert (after <= np.maximum(before, limits.broker_overload * share if share else 0) + 1e-6).all()


a_bound = st.none() | st.integers(0, 11)


@settings(deadline=None, max_examples=examples(100))
@given(
    hamlets(),
    st.builds(
        Limits,
        moves=a_bound,
        moves_across=a_bound,
        moves_inside=a_bound,
        broker_overload=st.sampled_from([1.0, 1.5, 3.0, math.inf]),
    ),
    st.sampled_from(list(Division)),
    st.booleans(),
)
def test_a_plan_keeps_its_bounds_and_is_no_worse_than_staying_where_moves_have_one(
    hamlet: tuple[Network, Flows], limits: Limits, divide: Division, everybody: bool
) -> None:
    network, flows = hamlet
    how = Reading(divide=divide, balance_all=everybody)
    for plan in (published.planned(network, flows, limits, how), interest.planned(network, flows, limits)):
        check(network, flows, limits, plan.seats)
        if (limits.moves, limits.moves_across, limits.moves_inside) != (None, None, None):
            assert mean_hops(network, flows, plan.seats) <= mean_hops(network, flows, network.homes) + 1e-9


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("most", [1.0, 1.5])
def test_no_planner_makes_a_broker_busier_than_it_may_be(seed: int, most: float) -> None:
    network, flows = town(seed)
    limits = Limits(broker_overload=most)
    for plan in (
        published.planned(network, flows, limits),
        interest.planned(network, flows, limits),
        search.planned(network, flows, limits),
    ):
        check(network, flows, limits, plan.seats)
        assert mean_hops(network, flows, plan.seats) < mean_hops(network, flows, network.homes)
    whole = search.planned(network, flows, Limits(broker_overload=math.inf))
    with pytest.raises(AssertionError):
        check(network, flows, limits, whole.seats)


@settings(deadline=None, max_examples=examples(60))
@given(hamlets(), st.integers(1, 8))
def test_no_single_move_for_which_there_is_room_would_save_anything(
    hamlet: tuple[Network, Flows], quarters: int
) -> None:
    network, flows = hamlet
    goals = interest.planned(network, flows, Limits(broker_overload=math.inf)).seats
    limits = Limits(broker_overload=1 + quarters / 4, moves=11)
    seats = bounds.within(network, flows, limits, goals, np.arange(len(goals)))
    share = flows.total / int((network.cluster_of >= 0).sum())
    most = np.maximum(limits.broker_overload * share, broker_loads(network, flows, network.homes))
    if np.array_equal(seats, goals):
        return
    for client in np.flatnonzero(seats != goals).tolist():
        one_more = seats.copy()
        one_more[client] = goals[client]
        saved = mean_hops(network, flows, seats) - mean_hops(network, flows, one_more)
        full = (broker_loads(network, flows, one_more) > most - 1e-6).any()
        assert saved <= 1e-6 or full


@settings(deadline=None, max_examples=examples(60))
@given(hamlets(), st.integers(0, 6))
def test_no_single_move_that_is_left_would_save_anything(hamlet: tuple[Network, Flows], moves: int) -> None:
    network, flows = hamlet
    whole = published.planned(network, flows, Limits(broker_overload=math.inf))
    assert whole.last is not None
    limits = Limits(moves=moves, broker_overload=math.inf)
    seats = bounds.within(network, flows, limits, whole.seats, whole.last)
    assert set(np.flatnonzero(seats != network.homes)) <= set(np.flatnonzero(whole.seats != network.homes))
    if int((seats != network.homes).sum()) == moves or np.array_equal(seats, whole.seats):
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
        limits = Limits(moves=moves, broker_overload=math.inf)
        seats = bounds.within(network, flows, limits, goals, together)
        assert int((seats != network.homes).sum()) == gone
    alone = np.arange(3)
    limits = Limits(moves=1, broker_overload=math.inf)
    assert bounds.within(network, flows, limits, goals, alone).tolist() == network.homes.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_more_moves_save_more_and_half_of_them_save_most_of_it(seed: int) -> None:
    network, flows = town(seed)
    whole = published.planned(network, flows, Limits(broker_overload=math.inf))
    assert whole.last is not None
    count = len(moved(network, whole.seats)[0])
    hops = [
        mean_hops(
            network,
            flows,
            bounds.within(network, flows, Limits(moves=n, broker_overload=math.inf), whole.seats, whole.last),
        )
        for n in range(0, count, 5)
    ]
    assert hops[0] == mean_hops(network, flows, network.homes)
    assert all(fewer >= more - 1e-9 for fewer, more in itertools.pairwise(hops))
    assert hops[0] - hops[len(hops) // 2] > (hops[0] - hops[-1]) / 2


def test_without_a_bound_a_plan_is_as_its_planner_made_it() -> None:
    network, flows = town(0)
    whole = published.planned(network, flows, Limits(broker_overload=math.inf))
    assert whole.last is not None
    for limits in (Limits(broker_overload=math.inf), Limits(moves=60, broker_overload=math.inf)):
        assert bounds.within(network, flows, limits, whole.seats, whole.last) is whole.seats
