"""Whether a plan still fits: what has changed since it was made, one finding each.

A plan names brokers, links, clients and topics. Here it is held against those that there are now, as far as
somebody says so. What is in the way of the plan makes it invalid; what only has changed does not. Nothing
here reads anything, and nothing is put right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidings.errors import InputError
from tidings.planning.graphs import Graph, in_order
from tidings.planning.plans import MovesPlan, Plan, StoresPlan

ROOM = 1e-9
"""What a store may be over its capacity by, since sizes are added in any order."""

NAMED_MAX = 5
"""Brokers that a finding names."""


class Change(StrEnum):
    """What has changed."""

    BROKER_GONE = "broker gone"
    BROKER_NEW = "broker new"
    LINK_GONE = "link gone"
    LINK_NEW = "link new"
    LINK_LENGTH = "link of another length"
    CLUSTER = "broker of another cluster"
    STORE_GONE = "store gone"
    STORE_FULL = "store over capacity"
    STORE_BUSY = "store over load"
    TOPIC_UNKNOWN = "topic that nobody requests"
    TOPIC_UNPLANNED = "topic without a store"
    CLIENT_GONE = "client gone"
    CLIENT_ELSEWHERE = "client elsewhere"
    CLIENT_MOVED = "client moved already"
    GOAL_GONE = "goal of clients gone"
    IN_PIECES = "network in pieces"


HARMLESS = frozenset({Change.BROKER_NEW, Change.LINK_NEW, Change.TOPIC_UNKNOWN, Change.CLIENT_MOVED})
"""What leaves a plan as possible and as near to its forecast as it was."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as the plan has it."""

    change: Change
    text: str

    @property
    def in_the_way(self) -> bool:
        """Whether the plan cannot be carried out as it is, or would not give what it says."""
        return self.change not in HARMLESS


def network(plan: Plan, graph: Graph, clusters: Mapping[str, str] | None = None) -> list[Finding]:
    """Brokers and links that are gone, new or different; and clusters, as far as these are said.

    The network may be in pieces.
    """
    before, after = set(plan.network.brokers), set(graph.names)
    found = [
        Finding(Change.BROKER_GONE, f"broker {name} of the plan is gone")
        for name in plan.network.brokers
        if name not in after
    ]
    found += [
        Finding(Change.BROKER_NEW, f"broker {name} is new") for name in graph.names if name not in before
    ]
    planned = {frozenset((a, b)): length for a, b, length in plan.network.links}
    there = {frozenset((graph.names[a], graph.names[b])): length for a, b, length in graph.links}
    for pair in sorted(planned.keys() | there.keys(), key=in_order):
        a, b = in_order(pair)
        if pair not in there:
            found.append(Finding(Change.LINK_GONE, f"the link {a},{b} is gone"))
        elif pair not in planned:
            found.append(Finding(Change.LINK_NEW, f"the link {a},{b} is new"))
        elif planned[pair] != there[pair]:
            text = f"the link {a},{b} has the length {there[pair]:g}, not {planned[pair]:g} as planned"
            found.append(Finding(Change.LINK_LENGTH, text))
    for name, cluster in plan.network.clusters.items() if clusters else ():
        now = (clusters or {}).get(name, cluster)
        if now != cluster:
            text = f"broker {name} is {_of(now)}, not {_of(cluster)} as planned"
            found.append(Finding(Change.CLUSTER, text))
    if graph.apart:
        text = f"the network is in pieces: {_listed(graph.apart)} not reached from {graph.names[0]}"
        found.append(Finding(Change.IN_PIECES, text))
    if isinstance(plan, StoresPlan):
        found += [
            Finding(Change.STORE_GONE, f"store {name} is gone, with {_topics(plan, name)}")
            for name in plan.stores
            if name not in after
        ]
    else:
        goals = Counter(move.goal for move in plan.moves if move.goal not in after)
        found += [
            Finding(Change.GOAL_GONE, f"{goals[name]:,} clients are to go to {name}, which is gone")
            for name in in_order(goals)
        ]
    return found


def homes(plan: MovesPlan, now: Mapping[str, str]) -> list[Finding]:
    """Clients that are to move and are gone, elsewhere, or there already."""
    found = []
    for move in plan.moves:
        at = now.get(move.client)
        if at is None:
            found.append(Finding(Change.CLIENT_GONE, f"client {move.client} is gone"))
        elif at == move.goal:
            text = f"client {move.client} is at {move.goal} already"
            found.append(Finding(Change.CLIENT_MOVED, text))
        elif at != move.source:
            text = f"client {move.client} is at {at}, not at {move.source} as planned"
            found.append(Finding(Change.CLIENT_ELSEWHERE, text))
    return found


def topics(plan: StoresPlan, requested: Iterable[str]) -> list[Finding]:
    """Topics that the plan keeps and nobody requests, and those that it does not know."""
    now = set(requested)
    found = [
        Finding(Change.TOPIC_UNKNOWN, f"topic {name} of the plan is requested by nobody")
        for name in plan.assignment
        if name not in now
    ]
    found += [
        Finding(Change.TOPIC_UNPLANNED, f"topic {name} is requested, and the plan has no store for it")
        for name in in_order(now - plan.assignment.keys())
    ]
    return found


def capacity(plan: StoresPlan, most: float, sizes: Mapping[str, float] | None = None) -> list[Finding]:
    """Stores that hold more than they can, with topics of these sizes, or as large as they were planned.

    InputError if sizes are given and a topic of the plan has none.
    """
    missing = [topic for topic in plan.assignment if sizes is not None and topic not in sizes]
    if missing:
        raise InputError(
            f"topic {missing[0]!r} of the plan has no size; give one for each topic, or leave all out to "
            "take what was planned"
        )
    found = []
    for store in plan.stores:
        kept = [topic for topic, held in plan.assignment.items() if store in held]
        holds = plan.forecast.held.get(store, float(len(kept)))
        if sizes is not None:
            holds = sum(sizes[topic] for topic in kept)
        if holds > most + ROOM:
            text = f"store {store} would hold {holds:g}, more than {most:g}; it keeps {_topics(plan, store)}"
            found.append(Finding(Change.STORE_FULL, text))
    return found


def load(plan: StoresPlan, loads: Mapping[str, float], most: float) -> list[Finding]:
    """Stores that would serve more requests per second than they may."""
    busy = [store for store in plan.stores if loads.get(store, 0.0) > most * (1 + ROOM)]
    return [
        Finding(Change.STORE_BUSY, f"store {one} would serve {loads[one]:g} requests/s, more than {most:g}")
        for one in busy
    ]


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} is"
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return f"{', '.join(names[:NAMED_MAX])}{more} are"


def _of(cluster: str) -> str:
    return f"of the cluster {cluster}" if cluster else "of the backbone"


def _topics(plan: StoresPlan, store: str) -> str:
    kept = [topic for topic, held in plan.assignment.items() if store in held]
    return ", ".join(kept) or "no topic"
