"""One run: a tree, rates, and what each planner makes of them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from papers.storage import trees
from tidings.planning.stores import baselines, exact, local, published
from tidings.planning.stores.base import Demand, Placement, Problem, mean_distance

Row = dict[str, Any]

ONE_AT_A_TIME = "one"


def problem(kind: str, brokers: int, topics: int, replicas: int, capacity: int, seed: int) -> Problem:
    """Rates are even between 0 and 1 request per second for each topic and broker (§V)."""
    rng = Random(seed)
    graph = trees.made(kind, brokers, rng)
    rates = [(f"t{topic}", name, rng.random()) for topic in range(topics) for name in graph.names]
    return Problem.of(graph, Demand.of(graph, rates), replicas, capacity)


def run(asked: Problem, seed: int) -> Row:
    """The mean distance and the stores of each planner."""
    voted = published.votes(asked)
    printed, repaired = published.as_printed(asked, voted), published.repaired(asked, voted)
    unlimited = baselines.unlimited(asked, voted)
    by_lot = baselines.random(asked, seed)
    found = local.improved(asked, repaired)
    free = Problem.of(
        asked.graph, asked.demand, asked.replicas, len(asked.demand.topics), len(asked.graph.names)
    )
    beyond = local.improved(free, unlimited)

    return {
        "stores": asked.stores,
        "pubsub": mean_distance(asked, repaired.assignment),
        "grd_opt": mean_distance(asked, unlimited.assignment),
        "rnd": mean_distance(asked, by_lot.assignment),
        "local": mean_distance(asked, found.assignment),
        "local_free": mean_distance(free, beyond.assignment),
        "stores_pubsub": _used(repaired),
        "stores_grd_opt": _used(unlimited),
        "short": int(bool(printed.short)),
    }


def _used(placement: Placement) -> int:
    return len({at for replicas in placement.assignment for at in replicas})


def compared(kind: str, brokers: int, topics: int, replicas: int, capacity: int, seed: int) -> Row:
    """What the paper compares, with its capacity and with one that holds all topics."""
    tight = problem(kind, brokers, topics, replicas, capacity, seed)
    voted = published.votes(tight)
    unlimited = baselines.unlimited(tight, voted)
    roomy = Problem.of(tight.graph, tight.demand, replicas, topics)
    placed = {"tight": published.repaired(tight, voted), "roomy": published.repaired(roomy, voted)}
    return {
        "grd_opt": mean_distance(tight, unlimited.assignment),
        "stores_grd_opt": len(unlimited.stores),
        **{name: mean_distance(tight, one.assignment) for name, one in placed.items()},
        **{f"stores_{name}": _used(one) for name, one in placed.items()},
    }


def judged(kind: str, brokers: int, replicas: int, seed: int) -> Row:
    """One topic, where all that count is distance: how far each planner is from the least there can be."""
    asked = problem(kind, brokers, 1, replicas, 1, seed)
    voted = published.votes(asked)
    greedy = baselines.unlimited(asked, voted)
    # As many stores as brokers: only the replicas count.
    free = Problem.of(asked.graph, asked.demand, replicas, 1, brokers)
    best = exact.cheapest(free)
    total = float(asked.demand.totals.sum())
    return {
        "exact": best.cost / total,
        "grd_opt": mean_distance(free, greedy.assignment),
        "local": mean_distance(free, local.improved(free, greedy).assignment),
    }


def judged_many(kind: str, brokers: int, topics: int, replicas: int, capacity: int, seed: int) -> Row:
    """Some topics in stores that are nearly full, all that a plan has to keep: how far each planner is."""
    asked = problem(kind, brokers, topics, replicas, capacity, seed)
    placed = published.repaired(asked, published.votes(asked))
    best = exact.cheapest(asked)
    total = float(asked.demand.totals.sum())
    return {
        "exact": best.cost / total,
        "proved": int(best.cost - best.bound <= 1e-6 * best.cost),
        "pubsub": mean_distance(asked, placed.assignment),
        "rnd": mean_distance(asked, baselines.random(asked, seed).assignment),
        "local": mean_distance(asked, local.improved(asked, placed).assignment),
    }


def one_by_one(asked: Problem, requests: int, published_rate: float, lifetime: float, seed: int) -> Row:
    """Requests drawn by their rates and sent hop by hop, and what each store holds meanwhile.

    A request is answered by its store whatever the store holds, so that neither the rate of publications nor
    their lifetime moves the distance; they make the answers longer.
    """
    voted = published.votes(asked)
    placed = published.repaired(asked, voted)
    rng = np.random.default_rng(seed)
    rates = asked.demand.rates
    drawn = rng.choice(rates.size, requests, p=(rates / rates.sum()).ravel())
    hops = 0
    towards = {at: asked.graph.towards(at) for at in placed.stores}
    for topic, at in zip(*np.unravel_index(drawn, rates.shape), strict=True):
        goal = min(placed.assignment[topic], key=lambda store: (asked.graph.distances[at, store], store))
        here = int(at)
        while here != goal:
            here = towards[goal][here]
            hops += 1
    return {
        "measured": hops / requests,
        "forecast": mean_distance(asked, placed.assignment),
        "messages_held": published_rate * lifetime * asked.replicas * len(asked.demand.topics),
    }
