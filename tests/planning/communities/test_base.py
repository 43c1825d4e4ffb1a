"""Who talks to whom, and what a seating costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.communities.towns import overlay, town
from tidings.errors import InputError
from tidings.planning.communities import base
from tidings.planning.communities.base import (
    Counted,
    Flows,
    Limits,
    Network,
    backbone,
    cluster_loads,
    hop_counts,
    mean_hops,
    moved,
    passing,
)


def small() -> tuple[Network, Flows]:
    """Two clusters of two brokers; a and b talk across, c to itself's neighbour."""
    graph, clusters = overlay((2, 2))
    flows = Flows.of([("a", "b", 3.0), ("b", "a", 1.0), ("c", "a", 4.0)])
    homes = {"a": "c0m1", "b": "c1m0", "c": "c0m1"}
    return Network.of(graph, clusters, homes, flows.clients), flows


def test_a_message_has_the_hops_between_brokers_and_one_at_each_end() -> None:
    network, flows = small()
    # a to b: c0m1, c0m0, bone0, bone1, c1m0 are four links; c to a are at one broker.
    assert hop_counts(network, flows, network.homes) == {2.0: 4.0, 6.0: 4.0}
    assert mean_hops(network, flows, network.homes) == 4.0


def test_a_backbone_broker_has_all_messages_that_pass_it() -> None:
    network, flows = small()
    assert backbone(network, flows, network.homes) == 4.0
    by_name = dict(zip(network.graph.names, passing(network, flows, network.homes).tolist(), strict=True))
    assert by_name == {"bone0": 4.0, "bone1": 4.0, "c0m0": 4.0, "c0m1": 8.0, "c1m0": 4.0, "c1m1": 0.0}


def test_load_is_what_clients_send_in_fair_shares() -> None:
    network, flows = small()
    assert cluster_loads(network, flows, network.homes).tolist() == [7 / 4, 1 / 4]


def test_moves_across_clusters_and_inside_are_told_apart() -> None:
    network, _ = small()
    seats = network.homes.copy()
    seats[0] = network.graph.place["c1m1"]
    seats[2] = network.graph.place["c0m0"]
    across, inside = moved(network, seats)
    assert (across.tolist(), inside.tolist()) == ([0], [2])


@pytest.mark.parametrize("seed", range(3))
def test_what_passes_a_broker_is_what_ways_found_elsewhere_say(seed: int) -> None:
    network, flows = town(seed)
    judge = nx.Graph()
    judge.add_weighted_edges_from(network.graph.links)
    found = np.zeros(len(network.graph.names))
    for sender, receiver, count in zip(flows.senders, flows.receivers, flows.messages, strict=True):
        for at in nx.shortest_path(judge, int(network.homes[sender]), int(network.homes[receiver])):
            found[at] += count
    assert passing(network, flows, network.homes) == pytest.approx(found)


def test_messages_of_both_ways_are_one_pair() -> None:
    _, flows = small()
    low, high, weights = flows.undirected
    assert list(zip(low.tolist(), high.tolist(), weights.tolist(), strict=True)) == [(0, 1, 4.0), (0, 2, 4.0)]


@pytest.mark.parametrize("count", [-1.0, math.nan, math.inf])
def test_counts_that_cannot_be_are_refused(count: float) -> None:
    with pytest.raises(InputError, match="counts are numbers from 0 up"):
        Flows.of([("a", "b", count)])


def test_what_is_no_network_of_clusters_is_refused_with_the_way_out() -> None:
    graph, clusters = overlay((2, 2))
    homes = {"a": "c0m0"}
    for changed, at, says in (
        ({**clusters, "z": "c0"}, homes, "no broker of the network"),
        ({name: one for name, one in clusters.items() if name != "c0m1"}, homes, "is in no cluster"),
        (dict.fromkeys(clusters, ""), homes, "all brokers are of the backbone"),
        (clusters, {}, "client 'a' has no home"),
        (clusters, {"a": "z"}, "is 'z', which is no broker"),
        (clusters, {"a": "bone0"}, "a broker of the backbone"),
    ):
        with pytest.raises(InputError, match=says):
            Network.of(graph, changed, at, ["a"])


def test_limits_below_a_fair_share_and_negative_moves_are_refused() -> None:
    with pytest.raises(InputError, match=r"overload is 0\.5; it is in fair shares"):
        Limits(overload=0.5)
    with pytest.raises(InputError, match="broker_overload is nan"):
        Limits(broker_overload=math.nan)
    for name in ("moves", "moves_across", "moves_inside"):
        with pytest.raises(InputError, match=f"{name} is -1"):
            Limits(**{name: -1})


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), max_size=30),
    st.randoms(use_true_random=False),
)
def test_columns_give_what_names_give_in_any_order(pairs: list[tuple[int, int, int]], rng: Random) -> None:
    names = ["u10", "u9", "b", "a", "é", "0"]
    expected = Flows.of([(names[a], names[b], float(count)) for a, b, count in pairs], names)
    clients = rng.sample(names, len(names))
    mixed = rng.sample(pairs, len(pairs))
    found = Flows.of_arrays(
        clients,
        np.array([clients.index(names[a]) for a, _, _ in mixed], np.int32),
        np.array([clients.index(names[b]) for _, b, _ in mixed], np.int64),
        np.array([count for _, _, count in mixed], np.int64),
    )
    assert found.clients == expected.clients
    for one, other in (
        (found.senders, expected.senders),
        (found.receivers, expected.receivers),
        (found.messages, expected.messages),
    ):
        assert one.tolist() == other.tolist()


def test_columns_that_cannot_be_are_refused_with_the_way_out() -> None:
    def columns(senders: Sequence[float], receivers: list[int], counts: list[float], clients: str) -> Flows:
        whole = all(isinstance(one, int) for one in senders)
        return Flows.of_arrays(
            list(clients), np.array(senders, int if whole else float), np.array(receivers), np.array(counts)
        )

    for senders, receivers, counts, clients, says in (
        ([0], [1, 0], [1.0], "ab", "1 senders, 2 receivers and 1 counts; give one of each"),
        ([0, 0], [1, 2], [1.0, 1.0], "ab", "receiver 1 is client number 2; there are 2 clients"),
        ([-1], [1], [1.0], "ab", "sender 0 is client number -1"),
        ([0.5], [1], [1.0], "ab", "senders are float64; give places"),
        ([0, 1], [1, 0], [1.0, math.nan], "ab", "'b' sent nan messages to 'a'; counts are numbers"),
        ([0], [1], [1.0], "aa", "client 'a' is listed twice"),
    ):
        with pytest.raises(InputError, match=says):
            columns(senders, receivers, counts, clients)


@pytest.mark.parametrize("seed", range(3))
def test_counted_by_link_what_goes_one_way_to_many_counts_once_there(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "SENDERS_AT_ONCE", 3)
    network, copies = town(seed)
    flows = copies.counting(Counted.LINK)
    judge = nx.Graph()
    judge.add_weighted_edges_from(network.graph.links)
    most: dict[tuple[int, int], float] = {}
    for sender, receiver, count in zip(flows.senders, flows.receivers, flows.messages, strict=True):
        for at in nx.shortest_path(judge, int(network.homes[sender]), int(network.homes[receiver])):
            most[sender, at] = max(count, most.get((sender, at), 0.0))
    found = np.zeros(len(network.graph.names))
    for (_, at), count in most.items():
        found[at] += count
    assert passing(network, flows, network.homes) == pytest.approx(found)
    assert (found <= passing(network, copies, network.homes) + 1e-9).all()


def test_counted_by_link_a_client_sends_its_largest_number_and_hops_stay_those_of_copies() -> None:
    network, copies = small()
    flows = Flows.of([("a", "b", 3.0), ("a", "c", 2.0), ("b", "a", 1.0)]).counting(Counted.LINK)
    assert flows.sent.tolist() == [3.0, 1.0, 0.0]
    assert (flows.total, flows.copies) == (4.0, 6.0)
    network = Network.of(
        network.graph, network.named_clusters, {"a": "c0m1", "b": "c1m0", "c": "c0m1"}, "abc"
    )
    assert mean_hops(network, flows, network.homes) == pytest.approx((4 * 6 + 2 * 2) / 6)
    assert cluster_loads(network, flows, network.homes).tolist() == [3 / 2, 1 / 2]
    assert copies.counting(Counted.COPY).total == copies.copies


def test_where_lengths_are_delays_nothing_is_added_for_the_links_of_clients() -> None:
    network, flows = small()
    bare = replace(network, client_links=0.0)
    assert mean_hops(bare, flows, bare.homes) == mean_hops(network, flows, network.homes) - 2
    assert hop_counts(bare, flows, bare.homes) == {0.0: 4.0, 4.0: 4.0}
