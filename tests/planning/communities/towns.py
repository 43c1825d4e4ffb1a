"""Networks of clusters around a backbone, and traffic among clients, for tests of client moves."""

from __future__ import annotations

from random import Random

from tidings.planning.communities.base import Flows, Network
from tidings.planning.graphs import Graph


def overlay(sizes: tuple[int, ...]) -> tuple[Graph, dict[str, str]]:
    """Stars of brokers, each at a broker of a chain."""
    links: list[tuple[str, str, float]] = []
    clusters: dict[str, str] = {}
    for number, size in enumerate(sizes):
        clusters[f"bone{number}"] = ""
        if number:
            links.append((f"bone{number - 1}", f"bone{number}", 1.0))
        for member in range(size):
            clusters[f"c{number}m{member}"] = f"c{number}"
            links.append((f"c{number}m{member}", f"c{number}m0" if member else f"bone{number}", 1.0))
    return Graph.of(links), clusters


def town(seed: int, clients: int = 60, apart: float = 0.1) -> tuple[Network, Flows]:
    """Groups of ten clients that talk among each other and now and then to others; homes at random."""
    rng = Random(seed)
    graph, clusters = overlay((3, 4, 2, 3))
    names = [f"u{number}" for number in range(clients)]
    flows = []
    for number, name in enumerate(names):
        group = number // 10 * 10
        for _ in range(5):
            near = group + rng.randrange(min(10, clients - group))
            other = rng.randrange(clients) if rng.random() < apart else near
            if other != number:
                flows.append((name, names[other], float(rng.randint(1, 9))))
    seats = [name for name, cluster in clusters.items() if cluster]
    homes = {name: rng.choice(seats) for name in names}
    made = Flows.of(flows, names)
    return Network.of(graph, clusters, homes, made.clients), made
