"""Topics vote as tasks of Spark as they do in plain Python, however many tasks there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidings.pipeline.plan import votes as tasks
from tidings.planning.graphs import Graph
from tidings.planning.stores import published
from tidings.planning.stores.base import Demand, Gain, Problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def drawn(seed: int, brokers: int = 9, topics: int = 7) -> Problem:
    """A random tree with a few more links; some topics are asked for hardly anywhere."""
    source = np.random.default_rng(seed)
    names = [f"b{at}" for at in range(brokers)]
    links = [(names[at], names[int(source.integers(at))], float(source.integers(1, 4)))
             for at in range(1, brokers)]  # fmt: skip
    links += [(names[0], names[-1], 2.0)]
    graph = Graph.of(links)
    rates = [
        (f"t{topic}", name, float(rate))
        for topic in range(topics)
        for name, rate in zip(names, source.random(brokers), strict=True)
        if rate > 0.1 * topic
    ]
    rates += [("nobody", names[0], 0.0)]
    return Problem.of(graph, Demand.of(graph, rates), replicas=2, capacity=4)


@pytest.mark.parametrize("most", [3, *(pytest.param(most, marks=pytest.mark.slow) for most in (1, 16))])
def test_votes_are_those_of_plain_python_however_many_tasks_there_are(
    spark: SparkSession, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "TASKS_MAX", most)
    problem = drawn(3)
    assert tasks.asked(spark, problem).count() == len(problem.demand.topics) == 8
    found = tasks.votes(spark, problem)
    assert found.dtype == np.int64
    assert (found == published.votes(problem)).all()


@pytest.mark.slow
@pytest.mark.parametrize("gain", list(Gain))
@pytest.mark.parametrize("seed", range(3))
def test_votes_are_those_of_plain_python_for_every_gain(spark: SparkSession, seed: int, gain: Gain) -> None:
    problem = drawn(seed, brokers=12, topics=4)
    assert (tasks.votes(spark, problem, gain) == published.votes(problem, gain)).all()
