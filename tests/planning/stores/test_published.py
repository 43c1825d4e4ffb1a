"""The published placement: its worked example, and what it promises on any network."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

from tests.examples import examples
from tests.planning.networks import example, problems, random_graph
from tidings.planning.stores import baselines, modified, published
from tidings.planning.stores.base import Demand, Gain, Problem, held, mean_distance
from tidings.planning.stores.greedy import EQUAL, greedy
from tidings.planning.stores.kernels import median_votes


def test_the_papers_example_comes_out_number_by_number() -> None:
    problem = example()
    voted = published.votes(problem)
    assert voted.tolist() == [[0, 3, 5, 0, 2, 2], [0, 2, 5, 0, 5, 0], [0, 2, 5, 0, 5, 0]]
    assert problem.demand.weights == pytest.approx([0.34, 0.54, 0.12])
    assert problem.demand.weights @ voted == pytest.approx([0, 2.34, 5, 0, 3.98, 0.68])
    placed = published.as_printed(problem, voted)
    names = problem.graph.names
    assert [names[at] for at in placed.stores] == ["3", "5", "2"]
    assert [[names[at] for at in one] for one in placed.assignment] == [["2", "3"], ["3", "5"], ["2", "5"]]
    assert not placed.short


def slow_greedy(problem: Problem, topic: int, target: int, gain: Gain) -> list[int]:
    """The greedy algorithm by its definition: every candidate, every request, one by one."""
    graph, rates = problem.graph, problem.demand.rates[topic]
    towards = graph.towards(target)

    def distance(at: int, stores: list[int]) -> float:
        if gain is Gain.MEDIAN:
            return float(min(graph.distances[at, one] for one in [target, *stores]))
        far, here = 0.0, at
        while here != target and here not in stores:
            far += graph.neighbours[here][towards[here]]
            here = towards[here]
        return far

    def total(stores: list[int]) -> float:
        return sum(float(rate) * distance(at, stores) for at, rate in enumerate(rates))

    chosen: list[int] = []
    for _ in range(min(problem.replicas, len(graph.names) - 1)):
        free = [at for at in range(len(graph.names)) if at != target and at not in chosen]
        beside = chosen if gain is not Gain.STATIC else []
        chosen.append(min(free, key=lambda at: (round(total([*beside, at]), 7), at)))
    return chosen


@settings(max_examples=examples(25))
@given(problems())
def test_each_choice_is_the_one_that_saves_most(problem: Problem) -> None:
    for topic, target, gain in itertools.product(
        range(len(problem.demand.topics)), range(len(problem.graph.names)), Gain
    ):
        found = greedy(problem.graph, problem.demand.rates[topic], target, problem.replicas, gain)
        assert found == slow_greedy(problem, topic, target, gain)


@settings(max_examples=examples(200))
@given(problems())
def test_compiled_votes_are_those_of_the_plain_version(problem: Problem) -> None:
    for rates in problem.demand.rates:
        asking = np.flatnonzero(rates)
        found = median_votes(problem.graph.distances, asking, rates[asking], problem.replicas, EQUAL)
        assert found.tolist() == modified.plain_votes(problem.graph, rates, problem.replicas).tolist()


def test_a_large_network_is_counted_by_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(Random(3), modified.LARGE)
    rates = np.random.default_rng(3).random(modified.LARGE)
    compiled = modified.votes(graph, rates, 3)
    monkeypatch.setattr(modified, "LARGE", modified.LARGE + 1)
    assert modified.votes(graph, rates, 3).tolist() == compiled.tolist()


def check(problem: Problem, assignment: tuple[tuple[int, ...], ...], stores: tuple[int, ...]) -> None:
    assert len(stores) <= problem.stores
    assert (held(problem, assignment) <= problem.capacity).all()
    for replicas in assignment:
        assert len(set(replicas)) == len(replicas)
        assert set(replicas) <= set(stores)


@settings(max_examples=examples(50))
@given(problems())
def test_limits_hold_and_after_the_repair_no_topic_is_short(problem: Problem) -> None:
    voted = published.votes(problem)
    printed, repaired = published.as_printed(problem, voted), published.repaired(problem, voted)
    for placed in (printed, repaired):
        check(problem, placed.assignment, placed.stores)
    short = {topic for topic, one in enumerate(printed.assignment) if len(one) < problem.replicas}
    assert set(printed.short) == short
    assert not repaired.short
    assert all(len(one) == problem.replicas for one in repaired.assignment)


@settings(max_examples=examples(25))
@given(problems())
def test_a_random_deal_keeps_the_limits_and_follows_its_seed(problem: Problem) -> None:
    placed = baselines.random(problem, seed=7)
    check(problem, placed.assignment, placed.stores)
    assert all(len(one) == problem.replicas for one in placed.assignment)
    assert baselines.random(problem, seed=7).assignment == placed.assignment


def test_a_random_deal_that_does_not_fit_says_which_topics_are_short() -> None:
    known = example()
    problem = Problem.of(known.graph, known.demand, 1, 3.0, sizes={"a": 2.0, "b": 2.0, "c": 1.9})
    placed = baselines.random(problem, seed=7)
    check(problem, placed.assignment, placed.stores)
    left_out = [topic for topic, one in enumerate(placed.assignment) if not one]
    assert list(placed.short) == left_out
    assert len(left_out) == 1
    assert "allow 3 stores or more" in placed.short[left_out[0]]


def test_without_limits_each_topic_is_at_its_most_voted_brokers() -> None:
    problem = example()
    voted = published.votes(problem)
    placed = baselines.unlimited(problem, voted)
    assert placed.assignment == ((1, 2), (2, 4), (2, 4))
    assert mean_distance(problem, placed.assignment) == pytest.approx(22 / 50)


def test_dead_ends_are_common_where_room_is_tight() -> None:
    short = 0
    for seed in range(10):
        rng = Random(seed)
        graph = random_graph(rng, 30)
        rates = [(f"t{topic}", name, rng.random()) for topic in range(10) for name in graph.names]
        problem = Problem.of(graph, Demand.of(graph, rates), replicas=3, capacity=5)
        short += bool(published.as_printed(problem, published.votes(problem)).short)
    assert short >= 5


def test_votes_are_as_many_as_targets_times_stores() -> None:
    problem = example()
    for gain in Gain:
        voted = modified.votes(problem.graph, problem.demand.rates[0], 2, gain)
        assert voted.sum() == 2 * len(problem.graph.names)
        assert np.all(voted <= len(problem.graph.names) - 1)
