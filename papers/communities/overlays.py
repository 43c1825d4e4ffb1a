"""Clusters of brokers around a backbone: stars, each at one broker of a chain, which has no clients."""

from __future__ import annotations

from random import Random

from tidings.planning.graphs import Graph

CLUSTERS, BROKERS = 8, 45
LEAST, MOST = 3, 8
EQUAL_CLUSTERS, EQUAL_SIZE = 9, 5


def sizes(rng: Random, *, equal: bool) -> list[int]:
    """Of the clusters: nine of five, or eight of three to eight that are 45 together."""
    if equal:
        return [EQUAL_SIZE] * EQUAL_CLUSTERS
    while True:
        drawn = [rng.randint(LEAST, MOST) for _ in range(CLUSTERS)]
        if sum(drawn) == BROKERS:
            return drawn


def made(of: list[int]) -> tuple[Graph, dict[str, str]]:
    """The network, and the cluster of each broker."""
    links: list[tuple[str, str, float]] = []
    clusters: dict[str, str] = {}
    for number, size in enumerate(of):
        clusters[f"backbone{number}"] = ""
        if number:
            links.append((f"backbone{number - 1}", f"backbone{number}", 1.0))
        hub = f"c{number}.0"
        for member in range(size):
            clusters[f"c{number}.{member}"] = f"c{number}"
            links.append((f"c{number}.{member}", hub if member else f"backbone{number}", 1.0))
    return Graph.of(links), clusters


def homes(clients: int, clusters: dict[str, str], rng: Random, *, crowded: bool) -> dict[str, str]:
    """Where clients are at first: anywhere, or in half of the clusters."""
    names = sorted(set(clusters.values()) - {""})
    allowed = set(rng.sample(names, len(names) // 2)) if crowded else set(names)
    seats = [broker for broker, cluster in clusters.items() if cluster in allowed]
    return {f"u{number}": rng.choice(seats) for number in range(clients)}
