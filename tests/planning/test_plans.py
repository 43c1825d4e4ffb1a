"""A plan as a value that is written down and read again."""

from __future__ import annotations

import msgspec
import pytest

from tests.planning.communities.towns import town
from tidings.errors import InputError
from tidings.planning import plans
from tidings.planning.communities import extraction, interest, search
from tidings.planning.communities import published as communities
from tidings.planning.communities.base import BACKBONE, Limits, Seating, cluster_loads, mean_hops
from tidings.planning.communities.extraction import Method
from tidings.planning.graphs import Graph
from tidings.planning.stores import published as stores
from tidings.planning.stores.base import Demand, Problem


def stores_plan() -> plans.StoresPlan:
    graph = Graph.of([("1", "2", 1.0), ("2", "3", 1.0)])
    problem = Problem.of(graph, Demand.of(graph, [("a", "1", 2.0), ("b", "1", 1.0), ("b", "3", 4.0)]), 1, 2)
    return plans.of_stores(problem, stores.repaired(problem, stores.votes(problem)), "placement", {})


def moves_plan() -> plans.MovesPlan:
    network, flows = town(0)
    seating = communities.planned(network, flows, Limits())
    return plans.of_moves(network, flows, seating, "published", {}, warnings=["mind the gap"])


def test_a_plan_is_read_as_it_was_written() -> None:
    for plan in (stores_plan(), moves_plan()):
        assert plans.read(plans.write(plan), "plan.json") == plan


def test_a_plan_of_stores_says_where_requests_enter() -> None:
    assert stores_plan().rates == {"1": 3.0, "3": 4.0}


def test_a_plan_of_moves_says_clusters_and_how_many_clients_each_broker_has() -> None:
    network, flows = town(0)
    plan = moves_plan()
    assert plan.network.clusters["bone0"] == ""
    assert plan.network.clusters["c2m1"] == "c2"
    assert list(plan.network.clusters) == plan.network.brokers
    in_clusters = [name for at, name in enumerate(network.graph.names) if network.cluster_of[at] != BACKBONE]
    assert list(plan.clients.before) == list(plan.clients.after) == in_clusters
    assert sum(plan.clients.before.values()) == sum(plan.clients.after.values()) == len(flows.clients)
    changed = dict(plan.clients.before)
    for move in plan.moves:
        changed[move.source] -= 1
        changed[move.goal] += 1
    assert changed == plan.clients.after


def test_a_plan_that_was_written_without_the_newer_fields_is_still_read() -> None:
    for plan, newer in (
        (stores_plan(), ("rates", "warnings")),
        (moves_plan(), ("clients", "final", "warnings")),
    ):
        document = msgspec.json.decode(plans.write(plan))
        for name in newer:
            del document[name]
        del document["network"]["clusters"]
        found = plans.read(msgspec.json.encode(document), "old.json")
        assert (found.network.clusters, found.warnings) == ({}, [])


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"assignment": {"a": ["77"], "b": []}}, "'a' is kept at '77', which is no store"),
        ({"stores": ["77"]}, "'77' is a store and no broker of it"),
        ({"assignment": {"z": []}}, "'z' has no weight"),
        ({"network": {"brokers": ["1", "2", "3"], "links": [["1", "4", 1.0]]}}, "a link names '4'"),
        ({"forecast": {"mean_hops": 1.0, "loads": {}, "held": {}}}, "says nothing of the store"),
    ],
)
def test_a_plan_of_stores_that_contradicts_itself_is_refused(changed: dict[str, object], says: str) -> None:
    document = {**msgspec.json.decode(plans.write(stores_plan())), **changed}
    with pytest.raises(InputError, match=says):
        plans.read(msgspec.json.encode(document), "edited.json")


@pytest.mark.parametrize("end", ["from", "to"])
def test_a_plan_of_moves_that_contradicts_itself_is_refused(end: str) -> None:
    document = msgspec.json.decode(plans.write(moves_plan()))
    document["moves"][0][end] = "nowhere"
    with pytest.raises(InputError, match=r"contradicts itself: client .* 'nowhere', which is no"):
        plans.read(msgspec.json.encode(document), "edited.json")
    del document["moves"][0]
    document["network"]["clusters"]["nowhere"] = "c1"
    with pytest.raises(InputError, match="'nowhere' is in a cluster and no broker of it"):
        plans.read(msgspec.json.encode(document), "edited.json")


@pytest.mark.parametrize(
    ("said", "given"),
    [
        ({}, "no format"),
        ({"version": 1}, "no format"),
        ({"format": 1}, "format 1"),
        ({"format": 2}, "format 2"),
        ({"format": 4}, "format 4"),
    ],
)
def test_a_plan_of_another_format_is_refused_with_the_way_out(said: dict[str, int], given: str) -> None:
    document = msgspec.json.decode(plans.write(stores_plan()))
    assert document.pop("format") == 3
    with pytest.raises(InputError) as refused:
        plans.read(msgspec.json.encode(document | said), "other.json")
    assert str(refused.value) == (
        f"other.json is a plan of {given}, and this release reads format 3; make the plan anew (`tidings "
        "plan stores|communities --out`), or use the release that wrote it"
    )


def test_a_store_that_would_serve_more_than_allowed_is_told_of() -> None:
    graph = Graph.of([("1", "2", 1.0), ("2", "3", 1.0)])
    demand = Demand.of(graph, [("a", "1", 3.0), ("a", "2", 2.0), ("b", "1", 1.0)])
    problem = Problem.of(graph, demand, 1, 1, load_max=4.0)
    (said,) = plans.of_stores(
        problem, stores.repaired(problem, stores.votes(problem)), "placement", {}
    ).warnings
    assert "would serve 5 requests per second, and 4 are allowed" in said


def test_a_plan_with_topics_that_are_kept_nowhere_says_what_share_of_requests_that_is() -> None:
    graph = Graph.of([("1", "2", 1.0), ("2", "3", 1.0)])
    rates = [("a", "1", 2.0), ("a", "2", 1.0), ("b", "1", 5.0), ("c", "3", 2.0)]
    problem = Problem.of(graph, Demand.of(graph, rates), 1, 3, sizes={"a": 2.0, "b": 2.0, "c": 1.9})
    made = plans.of_stores(problem, stores.repaired(problem, stores.votes(problem)), "placement", {})
    (left_out,) = made.short
    assert made.assignment[left_out] == []
    assert left_out not in made.mean_hops_by_topic
    kept = [topic for topic in made.assignment if topic != left_out]
    asked = {"a": 3.0, "b": 5.0, "c": 2.0}
    travelled = sum(made.mean_hops_by_topic[topic] * asked[topic] for topic in kept)
    assert made.mean_hops == pytest.approx(travelled / sum(asked[topic] for topic in kept))
    (said,) = made.warnings
    assert said.startswith(f"{asked[left_out] / 10:.1%} of requests find no store: 1 of 3 topics")
    assert plans.read(plans.write(made), "plan.json") == made


def test_a_plan_tells_that_newmans_algorithm_is_slow_for_so_much_traffic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extraction, "GREEDY_PAIRS_MAX", 10)
    network, flows = town(0)
    for method, count in ((Method.GREEDY, 1), (Method.LEIDEN, 0)):
        plan = communities.planned(network, flows, Limits(), communities.Reading(method=method))
        for seating in (plan, search.planned(network, flows, Limits(moves=0), starts=[plan])):
            said = plans.of_moves(network, flows, seating, "published", {}).warnings
            assert len([one for one in said if "slow beyond 10" in one]) == count


def test_a_plan_that_makes_messages_travel_farther_says_so() -> None:
    network, flows = town(0)
    crossed = Seating(network.homes[::-1].copy())
    assert mean_hops(network, flows, crossed.seats) > mean_hops(network, flows, network.homes)
    (said,) = plans.of_moves(network, flows, crossed, "by hand", {}).warnings
    assert said.startswith("with this plan a message travels farther, ")
    for seating in (Seating(network.homes), communities.planned(network, flows, Limits())):
        assert plans.of_moves(network, flows, seating, "published", {}).warnings == []


def test_a_plan_tells_of_each_cluster_that_has_more_than_it_may_and_what_it_had() -> None:
    network, flows = town(0)
    before = dict(zip(network.clusters, cluster_loads(network, flows, network.homes), strict=True))
    for most in (1.0, 1.2, 1.5):
        for seating in (
            communities.planned(network, flows, Limits(most)),
            interest.planned(network, flows, Limits(most)),
            search.planned(network, flows, Limits(most, moves=10)),
        ):
            plan = plans.of_moves(network, flows, seating, "published", {}, limits=Limits(most))
            said = [one for one in plan.warnings if "fair shares" in one]
            over = [name for name, load in plan.load.items() if load > most + 1e-9]
            assert len(said) == len(over)
            for name, one in zip(over, said, strict=True):
                assert one.startswith(
                    f"clients of cluster {name} would send {plan.load[name]:.2f} fair shares"
                )
                assert f"{most:g} are allowed; before it is {before[name]:.2f}" in one
