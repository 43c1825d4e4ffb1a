"""What has changed since a plan was made."""

from __future__ import annotations

import pytest

from tidings.errors import InputError
from tidings.planning import checks, plans
from tidings.planning.checks import Change
from tidings.planning.communities.base import Flows, Network, Seating
from tidings.planning.graphs import Graph
from tidings.planning.plans import MovesPlan, StoresPlan
from tidings.planning.stores import published
from tidings.planning.stores.base import Demand, Problem

LINKS = [("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0)]


def stores() -> StoresPlan:
    graph = Graph.of(LINKS)
    demand = Demand.of(graph, [("x", "a", 5.0), ("x", "b", 1.0), ("y", "d", 2.0)])
    problem = Problem.of(graph, demand, replicas=1, capacity=1)
    return plans.of_stores(problem, published.repaired(problem, published.votes(problem)), "placement", {})


def moves() -> MovesPlan:
    graph = Graph.of(LINKS)
    flows = Flows.of([("u", "v", 3.0), ("v", "w", 1.0)])
    homes = {"u": "a", "v": "d", "w": "d"}
    network = Network.of(graph, {"a": "west", "b": "west", "c": "", "d": "east"}, homes, flows.clients)
    seats = network.homes.copy()
    seats[flows.place["u"]] = graph.place["d"]
    seats[flows.place["w"]] = graph.place["b"]
    return plans.of_moves(network, flows, Seating(seats), "search", {})


def told(found: list[checks.Finding]) -> dict[Change, list[str]]:
    both: dict[Change, list[str]] = {}
    for one in found:
        both.setdefault(one.change, []).append(one.text)
    return both


def test_nothing_has_changed() -> None:
    plan = moves()
    assert checks.network(plan, Graph.of(LINKS), plan.network.clusters) == []
    assert checks.homes(plan, {"u": "a", "w": "d"}) == []
    assert checks.network(stores(), Graph.of(LINKS)) == []
    assert checks.topics(stores(), ["x", "y"]) == []
    assert checks.capacity(stores(), 1.0) == []
    assert checks.load(stores(), {"a": 6.0, "b": 6.0, "d": 2.0}, 6.0) == []


def test_brokers_and_links_that_are_gone_new_or_different_are_told() -> None:
    now = Graph.of([("a", "b", 1.0), ("b", "c", 2.0), ("b", "e", 1.0), ("e", "c", 1.0)])
    assert told(checks.network(moves(), now)) == {
        Change.BROKER_GONE: ["broker d of the plan is gone"],
        Change.BROKER_NEW: ["broker e is new"],
        Change.LINK_LENGTH: ["the link b,c has the length 2, not 1 as planned"],
        Change.LINK_NEW: ["the link b,e is new", "the link c,e is new"],
        Change.LINK_GONE: ["the link c,d is gone"],
        Change.GOAL_GONE: ["1 clients are to go to d, which is gone"],
    }


def test_what_is_new_unasked_for_or_done_already_is_not_in_the_way() -> None:
    grown = Graph.of([*LINKS, ("a", "e", 1.0), ("a", "c", 1.0)])
    found = [
        *checks.network(moves(), grown),
        *checks.homes(moves(), {"u": "d", "w": "d"}),
        *checks.topics(stores(), ["x"]),
    ]
    assert {one.change for one in found} == checks.HARMLESS
    assert not any(one.in_the_way for one in found)
    wrong = [
        *checks.network(moves(), Graph.of([("a", "b", 2.0)])),
        *checks.homes(moves(), {"w": "a"}),
        *checks.topics(stores(), ["x", "y", "z"]),
        *checks.capacity(stores(), 0.5),
    ]
    assert {one.change for one in wrong} == {
        Change.BROKER_GONE,
        Change.LINK_GONE,
        Change.LINK_LENGTH,
        Change.GOAL_GONE,
        Change.CLIENT_GONE,
        Change.CLIENT_ELSEWHERE,
        Change.TOPIC_UNPLANNED,
        Change.STORE_FULL,
    }
    assert all(one.in_the_way for one in wrong)


@pytest.mark.parametrize(
    ("links", "says"),
    [(LINKS[:2], "d is not reached from a"), (LINKS[2:], "b, c, d are not reached from a")],
)
def test_a_network_in_pieces_is_in_the_way(links: list[tuple[str, str, float]], says: str) -> None:
    now = Graph.of(links, "abcd", whole=False)
    (found,) = told(checks.network(moves(), now))[Change.IN_PIECES]
    assert found == f"the network is in pieces: {says}"


def test_a_store_that_is_gone_is_told_with_what_it_keeps() -> None:
    plan = stores()
    (keeps_y,) = plan.assignment["y"]
    left = [name for name in "abcd" if name != keeps_y]
    now = Graph.of((left[0], name, 1.0) for name in left[1:])
    assert f"store {keeps_y} is gone, with y" in told(checks.network(plan, now))[Change.STORE_GONE]


def test_brokers_of_another_cluster_are_told_if_somebody_says_where_they_are() -> None:
    graph, plan = Graph.of(LINKS), moves()
    now = {"a": "west", "b": "", "c": "east", "d": "east"}
    assert [one.text for one in checks.network(plan, graph, now)] == [
        "broker b is of the backbone, not of the cluster west as planned",
        "broker c is of the cluster east, not of the backbone as planned",
    ]
    assert checks.network(plan, graph, {}) == checks.network(plan, graph, None) == []


def test_clients_that_are_gone_elsewhere_or_there_already_are_told() -> None:
    plan = moves()
    assert [(move.client, move.source, move.goal) for move in plan.moves] == [
        ("u", "a", "d"),
        ("w", "d", "b"),
    ]
    assert told(checks.homes(plan, {"w": "b"})) == {
        Change.CLIENT_GONE: ["client u is gone"],
        Change.CLIENT_MOVED: ["client w is at b already"],
    }
    assert told(checks.homes(plan, {"u": "c", "w": "d"})) == {
        Change.CLIENT_ELSEWHERE: ["client u is at c, not at a as planned"]
    }


def test_topics_that_nobody_requests_and_those_without_a_store_are_told() -> None:
    assert told(checks.topics(stores(), ["y", "z"])) == {
        Change.TOPIC_UNKNOWN: ["topic x of the plan is requested by nobody"],
        Change.TOPIC_UNPLANNED: ["topic z is requested, and the plan has no store for it"],
    }


@pytest.mark.parametrize(
    ("sizes", "most", "full"), [({"x": 3.0, "y": 1.0}, 2.0, ["x"]), (None, 0.5, ["x", "y"])]
)
def test_stores_over_their_capacity_are_told(
    sizes: dict[str, float] | None, most: float, full: list[str]
) -> None:
    plan = stores()
    found = checks.capacity(plan, most, sizes)
    assert {one.change for one in found} == {Change.STORE_FULL}
    assert sorted(one.text.rpartition(" ")[2] for one in found) == full


def test_sizes_that_leave_out_a_topic_of_the_plan_are_refused() -> None:
    with pytest.raises(InputError, match="topic 'y' of the plan has no size"):
        checks.capacity(stores(), 2.0, {"x": 3.0})


def test_stores_over_their_load_are_told() -> None:
    plan = stores()
    (keeps_x,) = plan.assignment["x"]
    assert [one.text for one in checks.load(plan, {keeps_x: 6.0}, 5.0)] == [
        f"store {keeps_x} would serve 6 requests/s, more than 5"
    ]
