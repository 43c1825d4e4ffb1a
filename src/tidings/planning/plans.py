"""A plan as a value that can be written down: what is to be done, what it is expected to give, what it costs.

It is one JSON object with a format and a kind, the same that `--out` writes and `--json` prints. Whoever
reads one gets an `InputError` for what is no plan. Nothing here makes one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tidings.errors import InputError
from tidings.planning.communities import base as moving
from tidings.planning.stores import base as storing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidings.planning.graphs import Graph

FORMAT = 3
"""Of the document; no other is read. It grows when a key is added, changes its meaning or goes. Format 1 said
`version`, and in format 2 `cost.moves` were only those to another cluster."""

VOTES_MAX = 100_000
"""Votes of a plan, topics times brokers, that are all written down; of more, those that were given."""

NAMED_MAX = 5
"""Topics that a warning names."""

STORES = "stores"
COMMUNITIES = "communities"


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The network that a plan was made for, so that somebody can see whether it still is."""

    brokers: list[str]
    links: list[tuple[str, str, float]]
    clusters: dict[str, str] = {}
    """By broker: its cluster, empty for one of the backbone; nothing in a plan that needs none."""


class StoresForecast(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stores are expected to give."""

    mean_hops: float
    loads: dict[str, float]
    """By store: requests per second."""

    held: dict[str, float]
    """By store: how much of its capacity is used."""


class StoresCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stores cost."""

    stores: int
    replicas: int
    copies: int
    """Replicas that are not where they were before the plan; all of them if there were none."""


class StoresPlan(msgspec.Struct, frozen=True, tag_field="kind", tag=STORES, forbid_unknown_fields=True):
    """Which brokers keep which topics."""

    algorithm: str
    stores: list[str]
    """The most voted first."""

    assignment: dict[str, list[str]]
    votes: dict[str, dict[str, int]]
    """By topic and broker: how often the greedy algorithm chose it; empty where it was not asked. In a large
    plan brokers without a vote are left out."""

    weights: dict[str, float]
    mean_hops: float
    """Of the requests that find a store."""

    mean_hops_by_topic: dict[str, float]
    """Without topics that are kept nowhere."""

    forecast: StoresForecast
    cost: StoresCost
    settings: dict[str, Any]
    network: Topology
    short: dict[str, str] = {}
    """Topics with fewer replicas than asked for, and why."""

    rates: dict[str, float] = {}
    """By broker: requests per second that enter there, of all topics; those without any are left out."""

    warnings: list[str] = []
    """What whoever reads the plan should know beside it."""

    format: int = FORMAT


class Pair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure before and after a plan."""

    before: float
    after: float


class Move(msgspec.Struct, frozen=True, rename={"source": "from", "goal": "to"}, forbid_unknown_fields=True):
    """A client that goes to another broker."""

    client: str
    source: str
    goal: str
    across: bool
    """Whether to another cluster."""


class MovesForecast(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What moves are expected to give."""

    hops: Pair
    backbone: Pair
    frontier: list[tuple[int, float]] = []
    """Moves, and the mean hops that they would give, for an operator to choose from."""


class MovesCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What moves cost."""

    moves: int
    """Clients that change their broker: those of both kinds below."""

    moves_across: int
    """Clients that go to another cluster."""

    moves_inside: int
    """Clients that go to another broker of their cluster."""


class Busy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A broker, and what its clients send."""

    broker: str
    load: float
    """In an even share of all messages."""


class Busiest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The broker whose clients send most, before and after a plan."""

    before: Busy
    after: Busy


class Seats(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many clients are connected to each broker, before and after a plan."""

    before: dict[str, int] = {}
    after: dict[str, int] = {}


class Final(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What communities were divided into again."""

    communities: dict[str, list[str]]
    modularity: float


class MovesPlan(msgspec.Struct, frozen=True, tag_field="kind", tag=COMMUNITIES, forbid_unknown_fields=True):
    """Which clients go where."""

    algorithm: str
    moves: list[Move]
    communities: dict[str, list[str]]
    """Those that were found first, by number, before any was divided again; empty for a planner that looks
    for none."""

    modularity: float | None
    """Of these."""

    hops: Pair
    backbone: Pair
    load: dict[str, float]
    """By cluster: what its clients send after the plan, in fair shares."""

    busiest: Busiest
    forecast: MovesForecast
    cost: MovesCost
    settings: dict[str, Any]
    network: Topology
    clients: Seats = Seats()
    """By broker of a cluster: how many clients it has; nothing in a plan that was written without."""

    final: Final | None = None
    """The communities that moved, if those that were found first were divided again."""

    warnings: list[str] = []
    """What whoever reads the plan should know beside it."""

    format: int = FORMAT


Plan = StoresPlan | MovesPlan


def write(plan: Plan) -> bytes:
    """The one form, as JSON."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2)


def read(document: bytes, name: str) -> Plan:
    """A plan from JSON; InputError says what is wrong with the file of that name."""
    try:
        said = msgspec.json.decode(document, type=dict[str, Any])
        if "kind" in said and said.get("format") != FORMAT:
            given = f"format {str(said['format'])[:20]}" if "format" in said else "no format"
            raise InputError(
                f"{name} is a plan of {given}, and this release reads format {FORMAT}; make the plan anew "
                "(`tidings plan stores|communities --out`), or use the release that wrote it"
            )
        found: Plan = msgspec.json.decode(document, type=Plan)
    except msgspec.MsgspecError as error:
        raise InputError(f"{name} is no plan: {error}; `tidings plan stores --out` writes one") from None
    wrong = next(_contradictions(found), None)
    if wrong is not None:
        raise InputError(f"{name} contradicts itself: {wrong}; put that right, or make the plan anew")
    return found


def _contradictions(plan: Plan) -> Iterator[str]:
    """What a plan that was written by hand may name without having it."""
    brokers = set(plan.network.brokers)
    for a, b, _ in plan.network.links:
        yield from (f"a link names {one!r}, which is no broker of it" for one in (a, b) if one not in brokers)
    for one in plan.network.clusters:
        if one not in brokers:
            yield f"{one!r} is in a cluster and no broker of it"
    if isinstance(plan, StoresPlan):
        stores = set(plan.stores)
        for store in plan.stores:
            if store not in brokers:
                yield f"{store!r} is a store and no broker of it"
            if store not in plan.forecast.loads or store not in plan.forecast.held:
                yield f"its forecast says nothing of the store {store!r}"
        for topic, held in plan.assignment.items():
            yield from (
                f"{topic!r} is kept at {one!r}, which is no store" for one in held if one not in stores
            )
            if topic not in plan.weights or (held and topic not in plan.mean_hops_by_topic):
                yield f"{topic!r} has no weight or no mean hops"
    else:
        for move in plan.moves:
            for one in (move.source, move.goal):
                if one not in brokers:
                    yield f"client {move.client!r} moves from or to {one!r}, which is no broker of it"


def schema() -> dict[str, Any]:
    """The JSON Schema of every plan that `write` writes."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A plan of Tidings, format {FORMAT}",
        **msgspec.json.schema(Plan),
    }


def of_stores(
    problem: storing.Problem,
    placement: storing.Placement,
    algorithm: str,
    settings: Mapping[str, Any],
    before: storing.Placement | None = None,
    warnings: Sequence[str] = (),
) -> StoresPlan:
    """A placement as a plan."""
    names, topics = problem.graph.names, problem.demand.topics
    votes = {} if placement.votes is None else _by_topic(topics, placement.votes, names)
    mean = storing.mean_distance(problem, placement.assignment)
    load, used = (
        dict(zip(names, values.tolist(), strict=True))
        for values in (
            storing.loads(problem, placement.assignment),
            storing.held(problem, placement.assignment),
        )
    )
    stores = [names[at] for at in placement.stores]
    had = [set(one) for one in before.assignment] if before else [set[int]() for _ in topics]
    replicas = [set(one) for one in placement.assignment]
    return StoresPlan(
        algorithm=algorithm,
        stores=stores,
        assignment={
            topic: [names[at] for at in held]
            for topic, held in zip(topics, placement.assignment, strict=True)
        },
        votes=votes,
        weights=dict(zip(topics, problem.demand.weights.tolist(), strict=True)),
        mean_hops=mean,
        mean_hops_by_topic={
            topic: hops
            for topic, hops, held in zip(
                topics,
                storing.mean_distances(problem, placement.assignment).tolist(),
                placement.assignment,
                strict=True,
            )
            if held
        },
        forecast=StoresForecast(mean, {one: load[one] for one in stores}, {one: used[one] for one in stores}),
        cost=StoresCost(
            stores=len(stores),
            replicas=sum(map(len, replicas)),
            copies=sum(len(now - then) for now, then in zip(replicas, had, strict=True)),
        ),
        settings=dict(settings),
        network=_topology(problem.graph),
        short={topics[topic]: why for topic, why in placement.short.items()},
        rates={
            name: rate
            for name, rate in zip(names, problem.demand.rates.sum(axis=0).tolist(), strict=True)
            if rate
        },
        warnings=[*_unserved(problem, placement), *_overloads(problem, load), *warnings],
    )


def of_moves(
    network: moving.Network,
    flows: moving.Flows,
    seating: moving.Seating,
    algorithm: str,
    settings: Mapping[str, Any],
    frontier: list[tuple[int, float]] | None = None,
    warnings: Sequence[str] = (),
    *,
    limits: moving.Limits | None = None,
) -> MovesPlan:
    """A seating as a plan; `limits` are those it was made with, and settings of it too."""
    names = network.graph.names
    across, inside = moving.moved(network, seating.seats)
    both = {**dict.fromkeys(across.tolist(), True), **dict.fromkeys(inside.tolist(), False)}
    hops, backbone = (
        Pair(measure(network, flows, network.homes), measure(network, flows, seating.seats))
        for measure in (moving.mean_hops, moving.backbone)
    )
    had, loads = (
        dict(zip(network.clusters, moving.cluster_loads(network, flows, seats).tolist(), strict=True))
        for seats in (network.homes, seating.seats)
    )
    most = math.inf if limits is None else limits.overload
    return MovesPlan(
        algorithm=algorithm,
        moves=[
            Move(
                flows.clients[client],
                names[network.homes[client]],
                names[seating.seats[client]],
                across=both[client],
            )
            for client in sorted(both)
        ],
        communities=_members(flows.clients, seating.communities),
        modularity=seating.modularity,
        hops=hops,
        backbone=backbone,
        load=loads,
        busiest=Busiest(_busy(network, flows, network.homes), _busy(network, flows, seating.seats)),
        forecast=MovesForecast(hops, backbone, frontier or []),
        cost=MovesCost(len(both), len(across), len(inside)),
        settings={**(limits.settings if limits is not None else {}), **settings},
        network=_topology(network.graph, network.named_clusters),
        clients=Seats(_seated(network, network.homes), _seated(network, seating.seats)),
        final=(
            Final(_members(flows.clients, seating.final.communities), seating.final.modularity)
            if seating.final
            else None
        ),
        warnings=[*_farther(hops), *_crowded(had, loads, most), *seating.warnings, *warnings],
    )


def _unserved(problem: storing.Problem, placement: storing.Placement) -> list[str]:
    """Which topics are kept nowhere, and what share of requests that leaves without a store."""
    nowhere = [
        topic for topic, held in zip(problem.demand.topics, placement.assignment, strict=True) if not held
    ]
    if not nowhere:
        return []
    share = 1 - storing.served(problem, placement.assignment)
    named = ", ".join(nowhere[:NAMED_MAX]) + (" and others" if len(nowhere) > NAMED_MAX else "")
    kept_nowhere = f"{len(nowhere):,} of {len(problem.demand.topics):,} topics are kept nowhere ({named})"
    return [f"{share:.1%} of requests find no store: {kept_nowhere}; mean hops are those of the others"]


def _farther(hops: Pair) -> list[str]:
    """That a plan does harm: the published one and that of interests do not look at it."""
    if hops.after <= hops.before * (1 + 1e-9):
        return []
    farther = f"with this plan a message travels farther, {hops.after:.3f} instead of {hops.before:.3f}"
    return [f"{farther}; search never makes it worse, nor does a plan with a bound on moves"]


def _crowded(before: Mapping[str, float], after: Mapping[str, float], most: float) -> list[str]:
    """Of each cluster that has more than it may: published plans take what overloads one, those of interests
    look at no load, and a search leaves a cluster what it had.
    """
    return [
        f"clients of cluster {name} would send {load:.2f} fair shares, and {most:g} are allowed; before it "
        f"is {before[name]:.2f}. Search makes no cluster busier than it is or may be"
        for name, load in after.items()
        if load > most * (1 + 1e-9)
    ]


def _overloads(problem: storing.Problem, load: Mapping[str, float]) -> list[str]:
    """Of each store that would serve more than it may: the published planners know no such limit."""
    most = problem.load_max * (1 + 1e-9)
    return [
        f"store {name} would serve {rate:g} requests per second, and {problem.load_max:g} are allowed; "
        "local search brings loads down where it can, more stores or replicas do where it cannot"
        for name, rate in load.items()
        if rate > most
    ]


def _topology(graph: Graph, clusters: Mapping[str, str] | None = None) -> Topology:
    names = graph.names
    links = [(names[a], names[b], length) for a, b, length in graph.links]
    return Topology(list(names), links, dict(clusters or {}))


def _busy(network: moving.Network, flows: moving.Flows, seats: NDArray[np.int64]) -> Busy:
    loads = moving.broker_loads(network, flows, seats)
    busiest = int(loads.argmax())
    if network.cluster_of[busiest] == moving.BACKBONE:
        busiest = int(network.members[0][0])  # Nobody sends anything.
    share = moving.even_share(network, flows) or 1.0
    return Busy(network.graph.names[busiest], float(loads[busiest]) / share)


def _seated(network: moving.Network, seats: NDArray[np.int64]) -> dict[str, int]:
    names = network.graph.names
    counts = np.bincount(seats, minlength=len(names)).tolist()
    return {names[at]: counts[at] for at in range(len(names)) if network.cluster_of[at] != moving.BACKBONE}


def _by_topic(
    topics: tuple[str, ...], votes: NDArray[np.int64], names: tuple[str, ...]
) -> dict[str, dict[str, int]]:
    every = votes.size <= VOTES_MAX
    return {
        topic: {name: count for name, count in zip(names, row.tolist(), strict=True) if count or every}
        for topic, row in zip(topics, votes, strict=True)
    }


def _members(clients: tuple[str, ...], numbers: NDArray[np.int64] | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for client, number in zip(
        clients, [] if numbers is None else numbers.tolist(), strict=numbers is not None
    ):
        found.setdefault(str(number), []).append(client)
    return found
