"""The search from a placement, and the judge of all placements."""

from __future__ import annotations

import itertools
import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.planning.networks import example, problems, random_graph
from tests.planning.stores.test_published import check
from tidings.errors import InputError
from tidings.planning.stores import exact, local, published
from tidings.planning.stores.base import Demand, Placement, Problem, cost, loads


@settings(max_examples=examples(40))
@given(problems())
def test_the_search_keeps_the_limits_and_never_ends_worse(problem: Problem) -> None:
    start = published.repaired(problem, published.votes(problem))
    found = local.improved(problem, start)
    check(problem, found.assignment, found.stores)
    assert all(len(one) == problem.replicas for one in found.assignment)
    assert cost(problem, found.assignment).sum() <= cost(problem, start.assignment).sum() + 1e-9


def by_trying_all(problem: Problem) -> float:
    """The least cost of all placements there are."""
    sets = list(itertools.combinations(range(len(problem.graph.names)), problem.replicas))
    best = math.inf
    for assignment in itertools.product(sets, repeat=len(problem.demand.topics)):
        stores = {at for one in assignment for at in one}
        counts = [sum(at in one for one in assignment) for at in stores]
        if len(stores) <= problem.stores and max(counts) <= problem.capacity:
            best = min(best, float(cost(problem, assignment).sum()))
    return best


@settings(max_examples=examples(25))
@given(problems(brokers_max=5, topics_max=3))
def test_the_judge_finds_what_trying_all_finds(problem: Problem) -> None:
    judged = exact.cheapest(problem)
    check(problem, judged.placement.assignment, judged.placement.stores)
    least = by_trying_all(problem)
    assert judged.cost == pytest.approx(least, abs=1e-6)
    assert cost(problem, judged.placement.assignment).sum() == pytest.approx(least, abs=1e-6)
    assert judged.bound <= judged.cost + 1e-6


def test_in_the_papers_example_the_search_finds_the_cheapest() -> None:
    problem = example()
    start = published.repaired(problem, published.votes(problem))
    found = local.improved(problem, start)
    assert cost(problem, start.assignment).sum() == pytest.approx(24)
    assert cost(problem, found.assignment).sum() == pytest.approx(22)
    assert exact.cheapest(problem).cost == pytest.approx(22)


@settings(max_examples=examples(40))
@given(st.integers(0, 10**6))
def test_topics_of_different_sizes_fit_or_are_told_of(seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(rng, 8, lengths=True)
    rates = [(f"t{topic}", name, rng.random()) for topic in range(5) for name in graph.names]
    sizes = {f"t{topic}": rng.uniform(1, 9) for topic in range(5)}
    problem = Problem.of(graph, Demand.of(graph, rates), 2, rng.uniform(10, 30), sizes=sizes)
    voted = published.votes(problem)
    repaired = published.repaired(problem, voted)
    for placed in (published.as_printed(problem, voted), repaired, local.improved(problem, repaired)):
        check(problem, placed.assignment, placed.stores)
        for topic, replicas in enumerate(placed.assignment):
            assert len(replicas) == 2 or "no store with room" in placed.short[topic]
    assert cost(problem, local.improved(problem, repaired).assignment).sum() <= (
        cost(problem, repaired.assignment).sum() + 1e-9
    )


def drifted(seed: int, load_max: float = math.inf) -> tuple[Problem, Placement]:
    """A problem, and the placement for what was asked before."""
    rng = Random(seed)
    graph = random_graph(rng, 20)
    before = [(f"t{topic}", name, rng.random()) for topic in range(6) for name in graph.names]
    after = [(topic, name, rng.random() ** 4) for topic, name, _ in before]
    old = Problem.of(graph, Demand.of(graph, before), replicas=2, capacity=3)
    runs = local.improved(old, published.repaired(old, published.votes(old)))
    return Problem.of(graph, Demand.of(graph, after), replicas=2, capacity=3, load_max=load_max), runs


@pytest.mark.parametrize("seed", range(4))
def test_after_a_drift_no_more_replicas_move_than_allowed_and_more_moves_cost_no_more(seed: int) -> None:
    problem, runs = drifted(seed)
    costs = []
    for moved_max in (0, 1, 3, 12):
        found = local.improved(problem, runs, moved_max=moved_max)
        moved = sum(
            len(set(now) - set(then)) for now, then in zip(found.assignment, runs.assignment, strict=True)
        )
        assert moved <= moved_max
        costs.append(float(cost(problem, found.assignment).sum()))
    assert costs[0] == pytest.approx(float(cost(problem, runs.assignment).sum()))
    assert min(costs) == costs[-1]


def test_load_above_the_limit_is_brought_down_first() -> None:
    problem, runs = drifted(3)
    most = float(loads(problem, runs.assignment).max())
    limited, _ = drifted(3, load_max=most * 0.8)
    found = local.improved(limited, runs)
    assert loads(limited, runs.assignment).max() > limited.load_max
    assert loads(limited, found.assignment).max() <= limited.load_max


def test_an_exact_answer_is_refused_where_it_would_take_hours() -> None:
    rng = Random(1)
    graph = random_graph(rng, 200)
    rates = [(f"t{topic}", name, 1.0) for topic in range(10) for name in graph.names]
    with pytest.raises(InputError, match="too many for an exact answer"):
        exact.cheapest(Problem.of(graph, Demand.of(graph, rates), replicas=2, capacity=10))
