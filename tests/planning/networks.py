"""Networks and demands for tests of planners."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

from tidings.planning.graphs import Graph
from tidings.planning.stores.base import Demand, Problem

EXAMPLE = [("1", "2"), ("2", "4"), ("2", "3"), ("3", "5"), ("5", "6")]
"""A tree that gives every number printed in section IV-C of the paper, with these rates."""

EXAMPLE_RATES = {"a": (2, 2, 5, 2, 2, 4), "b": (1, 1, 4, 1, 18, 2), "c": (0, 1, 3, 0, 2, 0)}


def example() -> Problem:
    """The paper's own example: k = 2, SC = 2, T = 3."""
    graph = Graph.of((a, b, 1.0) for a, b in EXAMPLE)
    rates = [
        (topic, str(at), float(rate))
        for topic, row in EXAMPLE_RATES.items()
        for at, rate in enumerate(row, 1)
    ]
    return Problem.of(graph, Demand.of(graph, rates), replicas=2, capacity=2)


def random_graph(rng: Random, brokers: int, extra: int = 0, lengths: bool = False) -> Graph:
    """A random tree with some links more."""
    links = [(at, rng.randrange(at)) for at in range(1, brokers)]
    for _ in range(extra):
        a, b = rng.sample(range(brokers), 2)
        links.append((a, b))
    return Graph.of(
        ((str(a), str(b), rng.choice((1.0, 2.0, 5.0)) if lengths else 1.0) for a, b in links),
        map(str, range(brokers)),
    )


@st.composite
def problems(draw: st.DrawFn, brokers_max: int = 9, topics_max: int = 4) -> Problem:
    """Small ones, some with links of different lengths."""
    rng = Random(draw(st.integers(0, 2**32)))
    brokers = draw(st.integers(2, brokers_max))
    graph = random_graph(rng, brokers, rng.randrange(3), rng.random() < 0.5)
    topics = draw(st.integers(1, topics_max))
    rates = [
        (f"t{topic}", name, rng.choice((0.0, rng.random(), 1.0)))
        for topic in range(topics)
        for name in graph.names
    ]
    replicas = draw(st.integers(1, min(3, brokers)))
    capacity = draw(st.integers(max(1, -(-topics * replicas // brokers)), topics))
    most = brokers
    least = max(replicas, -(-topics * replicas // capacity))
    stores = draw(st.none() | st.integers(least, most))
    return Problem.of(graph, Demand.of(graph, rates), replicas, capacity, stores)
