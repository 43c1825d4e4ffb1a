"""Trees of brokers. The paper says "a tree topology" and no more, and store counts depend on which."""

from __future__ import annotations

from collections.abc import Callable
from math import dist
from random import Random

from tidings.planning.graphs import Graph


def uniform(brokers: int, rng: Random) -> list[tuple[int, int]]:
    """Any labelled tree as likely as any other (Pruefer)."""
    if brokers < 3:
        return [(0, 1)] if brokers == 2 else []
    code = [rng.randrange(brokers) for _ in range(brokers - 2)]
    degree = [1 + code.count(at) for at in range(brokers)]
    links = []
    for at in code:
        leaf = degree.index(1)
        links.append((leaf, at))
        degree[leaf] -= 1
        degree[at] -= 1
    a, b = (at for at, left in enumerate(degree) if left == 1)
    return [*links, (a, b)]


def recursive(brokers: int, rng: Random) -> list[tuple[int, int]]:
    """Each broker joins one that is there already, any of them."""
    return [(at, rng.randrange(at)) for at in range(1, brokers)]


def preferential(brokers: int, rng: Random) -> list[tuple[int, int]]:
    """Each broker joins one that is there already, those with many links rather."""
    ends: list[int] = []
    links = []
    for at in range(1, brokers):
        other = rng.choice(ends) if ends else 0
        links.append((at, other))
        ends += [at, other]
    return links


def binary(brokers: int, _rng: Random) -> list[tuple[int, int]]:
    """Each broker has two below it, but for the last."""
    return [(at, (at - 1) // 2) for at in range(1, brokers)]


def ternary(brokers: int, _rng: Random) -> list[tuple[int, int]]:
    """Each broker has three below it, but for the last."""
    return [(at, (at - 1) // 3) for at in range(1, brokers)]


def chain(brokers: int, _rng: Random) -> list[tuple[int, int]]:
    """One after the other."""
    return [(at, at - 1) for at in range(1, brokers)]


def geometric(brokers: int, rng: Random) -> list[tuple[int, int]]:
    """Brokers anywhere in a square, joined by the shortest links that join all (a minimum spanning tree)."""
    points = [(rng.random(), rng.random()) for _ in range(brokers)]
    near = {at: (dist(points[at], points[0]), 0) for at in range(1, brokers)}
    links = []
    while near:
        at = min(near, key=lambda one: near[one])
        links.append((at, near.pop(at)[1]))
        for one, far in near.items():
            near[one] = min(far, (dist(points[one], points[at]), at))
    return links


def bounded(brokers: int, rng: Random) -> list[tuple[int, int]]:
    """Each broker joins one that has fewer than four links."""
    links: list[tuple[int, int]] = []
    degree = [0] * brokers
    for at in range(1, brokers):
        other = rng.choice([one for one in range(at) if degree[one] < 4])
        links.append((at, other))
        degree[at] += 1
        degree[other] += 1
    return links


TREES: dict[str, Callable[[int, Random], list[tuple[int, int]]]] = {
    "uniform": uniform,
    "recursive": recursive,
    "preferential": preferential,
    "binary": binary,
    "ternary": ternary,
    "chain": chain,
    "geometric": geometric,
    "bounded": bounded,
}


def made(kind: str, brokers: int, rng: Random) -> Graph:
    """A network with such a tree."""
    links = TREES[kind](brokers, rng)
    return Graph.of(((str(a), str(b), 1.0) for a, b in links), map(str, range(brokers)))
