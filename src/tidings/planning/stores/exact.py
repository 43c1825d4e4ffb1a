"""The judge: the cheapest placement there is, by integer programming, for networks small enough.

Which brokers are stores, which topics each keeps, and where each request goes are whole numbers or shares;
the limits are rows. HiGHS proves that nothing is cheaper, or the answer says how far from proved it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidings.errors import InputError
from tidings.planning.stores.base import Placement, Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

SERVED_MAX = 200_000
"""Topics times brokers times brokers with any request: beyond, it takes hours."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The cheapest placement, and what is proved of it."""

    placement: Placement
    cost: float
    bound: float
    """Nothing costs less."""


def cheapest(problem: Problem, within_s: float = 60.0) -> Judged:
    """Solve it; InputError if it is too large, or nothing was found in time.

    A limit on load is not known here, since requests are served by the nearest replica and not by choice.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    topics, brokers = len(problem.demand.topics), len(problem.graph.names)
    asking = [
        (topic, at) for topic in range(topics) for at in np.flatnonzero(problem.demand.rates[topic]).tolist()
    ]
    if len(asking) * brokers > SERVED_MAX:
        raise InputError(
            f"{len(asking)} places with requests and {brokers} brokers are too many for an exact answer; it "
            f"takes up to {SERVED_MAX:,} of their product"
        )
    kept, first_served = topics * brokers, brokers + topics * brokers
    count = first_served + len(asking) * brokers

    def keeps(topic: int, at: int) -> int:
        return brokers + topic * brokers + at

    prices = np.zeros(count)
    rows: list[list[tuple[int, float]]] = []
    low: list[float] = []
    high: list[float] = []

    def row(entries: list[tuple[int, float]], least: float, most: float) -> None:
        rows.append(entries)
        low.append(least)
        high.append(most)

    row([(at, 1.0) for at in range(brokers)], 0, problem.stores)
    for topic in range(topics):
        row([(keeps(topic, at), 1.0) for at in range(brokers)], problem.replicas, problem.replicas)
    for at in range(brokers):
        sizes = [(keeps(topic, at), float(problem.sizes[topic])) for topic in range(topics)]
        row([*sizes, (at, -problem.capacity)], -np.inf, 0)
    for number, (topic, at) in enumerate(asking):
        begin = first_served + number * brokers
        prices[begin : begin + brokers] = problem.demand.rates[topic, at] * problem.graph.distances[at]
        row([(begin + goal, 1.0) for goal in range(brokers)], 1, 1)
        for goal in range(brokers):
            row([(begin + goal, 1.0), (keeps(topic, goal), -1.0)], -np.inf, 0)
    entries = [(at, column, value) for at, one in enumerate(rows) for column, value in one]
    lines, columns, values = (np.array(part) for part in zip(*entries, strict=True))
    whole = np.zeros(count)
    whole[: brokers + kept] = 1
    solved = milp(
        prices,
        integrality=whole,
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(
            coo_array((values, (lines, columns)), shape=(len(rows), count)), low, high
        ),
        options={"time_limit": within_s},
    )
    if solved.x is None:
        raise InputError(f"no placement was found within {within_s:g} s; allow more time: {solved.message}")
    chosen: NDArray[np.bool_] = solved.x[brokers : brokers + kept].reshape(topics, brokers) > 0.5
    assignment = tuple(tuple(np.flatnonzero(of_topic).tolist()) for of_topic in chosen)
    stores = tuple(np.flatnonzero(chosen.any(axis=0)).tolist())
    return Judged(Placement(stores, assignment), float(solved.fun), float(solved.mip_dual_bound))
