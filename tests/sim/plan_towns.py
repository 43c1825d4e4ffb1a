"""Workloads of a few clients on small networks, with plans for them: for tests that try plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.records import workloads as made
from tidings.planning import plans
from tidings.planning.communities.base import Flows, Network, Seating
from tidings.planning.graphs import Graph
from tidings.planning.plans import MovesPlan

RING = (("b0", "b1"), ("b1", "b2"), ("b2", "b3"), ("b3", "b0"))
PATH = RING[:3]
"""All trees have their root at b0; on the ring b2 is below b1, so that b2 and b3 are three links apart."""

CLUSTERS = {"b0": "", "b1": "", "b2": "east", "b3": "west"}


def rows(links: Sequence[tuple[str, str]], homes: Sequence[str]) -> dict[str, Any]:
    """Brokers, links and clients of a workload."""
    return {
        "brokers": [made.broker(name, at, at) for at, name in enumerate(made.BROKERS)],
        "links": [made.link(a, b) for a, b in links],
        "clients": [made.client(number, home) for number, home in enumerate(homes)],
    }


def events(folder: Path, links: Sequence[tuple[str, str]] = RING) -> Path:
    """Client 0, at b2, publishes five events that clients 1 and 2, at b3, want."""
    return made.write(
        folder,
        **rows(links, ["b2", "b3", "b3"]),
        subscriptions=[made.subscription(0, 1), made.subscription(1, 2)],
        events=[made.event(number, 1 + number, client=0) for number in range(5)],
    )


def reports(folder: Path, links: Sequence[tuple[str, str]] = RING) -> Path:
    """Of five events clients 0, 1 and 2 report: the first two the same, the third more of it."""
    return made.write(
        folder,
        **rows(links, ["b2", "b3", "b3"]),
        subscriptions=[
            made.subscription(number, client, where=f"severity >= {least}", subject=None, language=None)
            for number, client, least in ((0, 1, 0), (1, 2, 1))
        ],
        events=[made.event(number, 1 + number, client=0) for number in range(5)],
        reports=[
            made.report(
                3 * event + client,
                event,
                1 + event + 0.1 * client,
                client=client,
                severity=client // 2,
                subject=7 if client == 2 else None,
            )
            for event in range(5)
            for client in range(3)
        ],
    )


def plan(
    links: Iterable[tuple[str, str]],
    homes: Mapping[str, str],
    goals: Mapping[str, str],
    flows: Iterable[tuple[str, str, float]],
    clusters: Mapping[str, str] | None = None,
) -> MovesPlan:
    """A plan that moves some clients, with the forecast that these flows give."""
    graph = Graph.of((a, b, 1.0) for a, b in links)
    counted = Flows.of(flows, homes)
    network = Network.of(graph, clusters or CLUSTERS, homes, counted.clients)
    seats = network.homes.copy()
    for client, goal in goals.items():
        seats[counted.place[client]] = graph.place[goal]
    return plans.of_moves(network, counted, Seating(seats), "by hand", {})
