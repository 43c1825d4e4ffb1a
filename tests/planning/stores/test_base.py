"""What planners of stores are asked for, and what is refused."""

from __future__ import annotations

import math

import pytest

from tests.planning.networks import EXAMPLE, example
from tidings.errors import InputError
from tidings.planning.graphs import Graph
from tidings.planning.stores import published
from tidings.planning.stores.base import (
    Demand,
    Problem,
    fitted,
    held,
    loads,
    mean_distance,
    mean_distances,
    served,
)


def test_a_request_goes_to_the_nearest_replica_and_the_mean_is_by_requests() -> None:
    graph = Graph.of([("a", "b", 1.0), ("b", "c", 2.0)])
    demand = Demand.of(graph, [("x", "a", 3.0), ("x", "c", 1.0), ("y", "c", 4.0)])
    problem = Problem.of(graph, demand, replicas=1, capacity=1)
    assignment = [[1], [2]]
    assert mean_distances(problem, assignment).tolist() == [(3 * 1 + 1 * 2) / 4, 0.0]
    assert mean_distance(problem, assignment) == 5 / 8
    assert loads(problem, assignment).tolist() == [0.0, 4.0, 4.0]
    assert held(problem, assignment).tolist() == [0.0, 1.0, 1.0]


def test_a_topic_that_is_kept_nowhere_is_not_near() -> None:
    graph = Graph.of([("a", "b", 1.0), ("b", "c", 2.0)])
    demand = Demand.of(graph, [("x", "a", 3.0), ("x", "c", 1.0), ("y", "c", 4.0), ("z", "a", 0.0)])
    problem = Problem.of(graph, demand, replicas=1, capacity=1)
    assignment: list[list[int]] = [[1], [], [0]]
    assert mean_distance(problem, assignment) == 5 / 4
    assert served(problem, assignment) == 0.5
    far, nowhere, unasked = mean_distances(problem, assignment).tolist()
    assert (far, unasked) == (5 / 4, 0.0)
    assert math.isnan(nowhere)


def test_stores_are_as_many_as_are_needed_if_nobody_says() -> None:
    assert example().stores == 3


@pytest.mark.parametrize(
    ("capacity", "sizes", "fewest"),
    [
        (1.9, None, 6),
        (2.0, None, 3),
        (5.9, {"a": 2.0, "b": 2.0, "c": 2.0}, 3),
        (0.3, {"a": 0.1, "b": 0.1, "c": 0.1}, 2),
    ],
)
def test_a_store_holds_whole_topics_where_all_are_of_one_size(
    capacity: float, sizes: dict[str, float] | None, fewest: int
) -> None:
    known = example()
    problem = Problem.of(known.graph, known.demand, 2, capacity, sizes=sizes)
    assert problem.stores == fewest
    placed = published.repaired(problem, published.votes(problem))
    assert [len(one) for one in placed.assignment] == [2, 2, 2]
    assert not placed.short


def test_what_does_not_fit_into_stores_is_told_with_the_way_out() -> None:
    known = example()
    sizes = {"a": 2.0, "b": 2.0, "c": 1.9}
    problem = Problem.of(known.graph, known.demand, 1, 3.0, sizes=sizes)
    assert problem.stores == 2
    placed_by = published.votes(problem)
    placed = published.repaired(problem, placed_by)
    (why,) = placed.short.values()
    assert why.startswith("0 of 1 replicas: no store with room is left for it; allow 3 stores or more")
    roomy, fits = fitted(problem, lambda asked: published.repaired(asked, placed_by))
    assert roomy.stores == 3
    assert not fits.short
    tight = Problem.of(known.graph, known.demand, 3, 3.3, sizes=sizes)
    every, left = fitted(tight, lambda asked: published.repaired(asked, published.votes(asked)))
    assert every.stores == len(known.graph.names)
    assert all("allow more capacity, or fewer replicas" in one for one in left.short.values())
    assert left.short


def test_rates_that_are_named_twice_are_added() -> None:
    graph = Graph.of([("a", "b", 1.0)])
    assert Demand.of(graph, [("x", "a", 1.0), ("x", "a", 2.0)]).rates.tolist() == [[3.0, 0.0]]


@pytest.mark.parametrize("rate", [-1.0, math.nan, math.inf])
def test_rates_that_cannot_be_are_refused(rate: float) -> None:
    graph = Graph.of([("a", "b", 1.0)])
    with pytest.raises(InputError, match="rates are numbers from 0 up"):
        Demand.of(graph, [("x", "a", rate)])


def test_requests_at_unknown_brokers_and_none_at_all_are_refused() -> None:
    graph = Graph.of([("a", "b", 1.0)])
    with pytest.raises(InputError, match="no broker of the network"):
        Demand.of(graph, [("x", "z", 1.0)])
    with pytest.raises(InputError, match="nobody requests anything"):
        Demand.of(graph, [])


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"replicas": 0, "capacity": 2}, "give at least 1"),
        ({"replicas": 7, "capacity": 3}, "give at most 6"),
        ({"replicas": 2, "capacity": 0}, "give a number above 0"),
        ({"replicas": 2, "capacity": math.nan}, "give a number above 0"),
        ({"replicas": 2, "capacity": 2, "stores": 2}, "give at least 3 stores"),
        ({"replicas": 3, "capacity": 3, "stores": 2}, "give at least 3 stores"),
        ({"replicas": 2, "capacity": 2, "stores": 7}, "give at most 6"),
        ({"replicas": 6, "capacity": 2}, "more capacity, or fewer replicas"),
        ({"replicas": 2, "capacity": 2, "sizes": {"a": 3.0, "b": 1.0, "c": 1.0}}, "'a' alone has 3"),
        ({"replicas": 2, "capacity": 2, "sizes": {"z": 1.0}}, "which nobody requests"),
        ({"replicas": 2, "capacity": 2, "sizes": {"a": -1.0}}, "sizes are numbers above 0"),
        (
            {"replicas": 2, "capacity": 2, "sizes": {"a": 1.0, "c": 2.0}},
            "1 of 3 topics have no size, 'b' first",
        ),
        ({"replicas": 2, "capacity": 2, "load_max": 0.0}, "give a number above 0"),
        ({"replicas": 2, "capacity": 2, "load_max": 10.0}, "cannot serve 50"),
        ({"replicas": 2, "capacity": 2, "load_max": 17.0}, "18 requests per second for 'b' enter at '5'"),
    ],
)
def test_what_is_impossible_is_refused_with_what_would_make_it_possible(
    asked: dict[str, object], says: str
) -> None:
    known = example()
    graph = Graph.of((a, b, 1.0) for a, b in EXAMPLE)
    with pytest.raises(InputError, match=says):
        Problem.of(graph, known.demand, **asked)  # type: ignore[arg-type]
