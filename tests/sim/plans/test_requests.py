"""Requests from broker to broker: by hand on a small network, and against the forecast on any."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.planning.networks import example, random_graph
from tidings.errors import InputError
from tidings.planning import plans
from tidings.planning.graphs import Graph
from tidings.planning.plans import StoresPlan
from tidings.planning.stores import published
from tidings.planning.stores.base import Demand, Placement, Problem
from tidings.sim.plans import requests as plan_requests
from tidings.sim.plans.requests import Asked, Share
from tidings.sim.plans.trial import Reason


def planned(problem: Problem) -> StoresPlan:
    return plans.of_stores(problem, published.repaired(problem, published.votes(problem)), "placement", {})


def requests(problem: Problem) -> Iterator[Asked]:
    """As many of each as its rate says, which is a whole number."""
    for topic, rates in zip(problem.demand.topics, problem.demand.rates.tolist(), strict=True):
        for at, rate in zip(problem.graph.names, rates, strict=True):
            yield from [(topic, at)] * int(rate)


def test_the_papers_example_is_walked_as_it_is_counted_by_hand() -> None:
    problem = example()
    trial = plan_requests.tried(planned(problem), requests(problem))
    assert (trial.requests, trial.unserved) == (50, 0)
    assert [one.reason for one in trial.steps] == [Reason.FORECAST, Reason.MEASURED]
    assert [one.hops for one in trial.steps] == pytest.approx([24 / 50, 24 / 50])
    for topic, far in (("a", 14 / 17), ("b", 7 / 27), ("c", 3 / 6)):
        assert trial.topics[topic] == pytest.approx((far, far))
    # For a, kept at 2 and 3: two from 1, two from 4, and from 5 and 6 over 5-3. For b, kept at 3 and 5: one
    # from 1 and one from 4 over 2-3 with one from 2, two from 6. For c, kept at 2 and 5: three from 3, which
    # take turns.
    assert {link: count for link, (_, count) in trial.links.items()} == {
        ("1", "2"): 2 + 1,
        ("2", "4"): 2 + 1,
        ("2", "3"): 3 + 2,
        ("3", "5"): 2 + 4 + 1,
        ("5", "6"): 4 + 2,
    }
    assert trial.entered == {"1": 3, "2": 4, "3": 12, "4": 3, "5": 22, "6": 6}


def test_equally_near_stores_take_turns_where_the_forecast_takes_the_lowest() -> None:
    graph = Graph.of([("a", "b", 1.0), ("b", "c", 1.0)])
    problem = Problem.of(graph, Demand.of(graph, [("t", "b", 4.0)]), replicas=2, capacity=1)
    plan = plans.of_stores(problem, Placement((0, 2), ((0, 2),)), "by hand", {})
    trial = plan_requests.tried(plan, requests(problem))
    assert trial.stores == {"a": Share(1.0, 0.5), "c": Share(0.0, 0.5)}
    assert trial.links == {("a", "b"): (4.0, 2), ("b", "c"): (0.0, 2)}
    assert trial.steps[-1].hops == trial.steps[0].hops == 1.0


def test_lengths_are_told_from_links() -> None:
    graph = Graph.of([("a", "b", 5.0), ("b", "c", 1.0), ("c", "d", 1.0), ("a", "d", 1.0)])
    problem = Problem.of(graph, Demand.of(graph, [("t", "b", 2.0)]), replicas=1, capacity=1)
    plan = plans.of_stores(problem, Placement((0,), ((0,),)), "by hand", {})
    trial = plan_requests.tried(plan, [("t", "b"), ("t", "b")])
    # Three links of 1 are nearer than one of 5.
    assert [(one.reason, one.hops) for one in trial.steps] == [(Reason.FORECAST, 3.0), (Reason.MEASURED, 3.0)]
    halved = msgspec.structs.replace(
        plan,
        mean_hops=1.5,
        network=msgspec.structs.replace(
            plan.network, links=[(a, b, length / 2) for a, b, length in plan.network.links]
        ),
    )
    trial = plan_requests.tried(halved, [("t", "b"), ("t", "b")])
    assert [(one.reason, one.hops) for one in trial.steps] == [
        (Reason.FORECAST, 1.5),
        (Reason.LINKS, 3.0),
        (Reason.MEASURED, 3.0),
    ]


def test_other_requests_than_the_plan_was_made_for_are_a_reason() -> None:
    trial = plan_requests.tried(planned(example()), [("a", "1"), ("a", "6"), ("nobody", "6")])
    assert (trial.requests, trial.unserved) == (2, 1)
    assert [one.reason for one in trial.steps] == [Reason.FORECAST, Reason.MESSAGES, Reason.MEASURED]
    assert [one.hops for one in trial.steps] == pytest.approx([0.48, 1.5, 1.5])


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ([("a", "9")], "a request for 'a' at '9', which is no broker of the plan"),
        ([("z", "1")], "no requests for a, b, c, the topics of the plan"),
        ([], "give some with --requests FILE"),
    ],
)
def test_requests_that_are_not_for_this_plan_are_refused(asked: list[Asked], says: str) -> None:
    with pytest.raises(InputError, match=says):
        plan_requests.tried(planned(example()), asked)


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32), st.integers(2, 9), st.integers(0, 4), st.booleans())
def test_hop_by_hop_is_the_forecast_wherever_requests_are_as_planned(
    seed: int, count: int, extra: int, lengths: bool
) -> None:
    source = Random(seed)
    graph = random_graph(source, count, extra, lengths)
    rates = [(f"t{n}", name, float(source.randrange(4))) for n in range(3) for name in graph.names]
    rates.append(("t0", graph.names[0], 1.0))
    problem = Problem.of(
        graph, Demand.of(graph, rates), source.randint(1, min(3, count)), capacity=3, stores=None
    )
    plan = planned(problem)
    trial = plan_requests.tried(plan, requests(problem))
    far = {step.reason: step.hops for step in trial.steps}
    assert Reason.MESSAGES not in far
    if not lengths:
        assert far[Reason.MEASURED] == pytest.approx(plan.mean_hops)
        assert sum(n for _, n in trial.links.values()) == sum(n for n, _ in trial.links.values())
        assert all(one == pytest.approx(other) for one, other in trial.topics.values())
    assert sum(share.measured for share in trial.stores.values()) == pytest.approx(1)
