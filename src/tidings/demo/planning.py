"""Step 6, the plans: which clients would better be at another broker, where the topics' logs would better be
kept, and what that would save on such a day.

Who talks to whom and who asks for what is counted by Spark from what the brokers wrote down. The plans are
files for a person to look at; nothing is changed. What they save is a forecast: a message between two clients
goes the shortest way in it, as the planners count, and not by way of a seat.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.console.day import Plans, Resident, Saving
from tidings.demo.city import City, Place
from tidings.planning import plans
from tidings.planning.communities import published as moving
from tidings.planning.communities import search
from tidings.planning.communities.base import CLIENT_LINKS, Flows, Limits, Network
from tidings.planning.graphs import Graph
from tidings.planning.stores import local
from tidings.planning.stores import published as storing
from tidings.planning.stores.base import Demand, Problem
from tidings.records import traffic

if TYPE_CHECKING:
    from tidings.console.page import Further
    from tidings.pipeline.session import Session
    from tidings.planning.plans import MovesPlan, StoresPlan

MOVED_SHARE = 0.1
"""At most one client in ten is moved: each move is a client that connects anew."""

REPLICAS = 2
"""Of each topic, so that a broker may fail."""

STORES_SHARE = 0.5
"""About so many of the brokers are to be stores, in whose room topics must fit."""

Requests = Iterable[tuple[str, str, int]]
"""The broker that was asked, the one that had it, and how often."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Two plans, and how far requests went without the one of stores."""

    moves: MovesPlan
    messages: float
    """From a client to a client."""

    clients: int
    stores: StoresPlan
    requests: int
    requests_hops: float
    """From the broker that was asked to the one that had it, as it was on the day."""

    @property
    def between_brokers(self) -> tuple[float, float]:
        """Hops of all messages from a broker to the next, before and after the moves."""
        before, after = (self.messages * (hops - CLIENT_LINKS) for hops in self._hops)
        return before, after

    @property
    def _hops(self) -> tuple[float, float]:
        return self.moves.hops.before, self.moves.hops.after


def plan(
    spark: Session,
    city: City,
    tables: Path,
    folder: Path,
    seed: int,
    progress: Callable[[str], None] = lambda _: None,
) -> Planned:
    """Make both plans from the tables of traffic, and write them into a folder of their own."""
    from tidings.pipeline.plan import inputs, sources
    from tidings.pipeline.tables import read_files

    def told(what: str, _done: int, _tasks: int) -> None:
        progress(what)

    source = sources.recorded(tables)
    talk = inputs.flows(spark, source, progress=told)
    asked = inputs.rates(spark, source, progress=told)
    requests = read_files(
        spark, [tables / traffic.TRAFFIC / traffic.REQUESTS], traffic.schemas()[traffic.REQUESTS]
    )
    held = [(row["broker"], row["holder"], row["requests"]) for row in requests.collect()]
    progress("planning")
    graph = Graph.of((a, b, 1.0) for a, b in city.links)
    made = Planned(
        moves=moved(graph, city.brokers, talk.flows, talk.homes, seed),
        messages=talk.flows.copies,
        clients=len(talk.flows.clients),
        stores=stored(graph, asked.rates),
        requests=sum(count for _, _, count in held),
        requests_hops=travelled(graph, held),
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name, one in files(folder, made).items():
        name.write_bytes(plans.write(one) + b"\n")
    (folder / "network.toml").write_text(network(city), encoding="utf-8")
    return made


def moved(
    graph: Graph, places: Sequence[Place], flows: Flows, homes: Mapping[str, str], seed: int
) -> MovesPlan:
    """Who goes where, so that those who talk to each other are close together; clusters are regions."""
    clusters = {place.id: place.region for place in places}
    network = Network.of(graph, clusters, homes, flows.clients)
    limits = Limits(moves=math.floor(MOVED_SHARE * len(flows.clients)))
    begun = moving.planned(network, flows, limits, seed=seed)
    found = search.planned(network, flows, limits, seed, [begun])
    points = search.frontier(network, flows, limits, found, seed=seed)
    found = search.taken(network, found, points)
    choice = [(one.moves, one.hops) for one in points]
    return plans.of_moves(network, flows, found, "search", {"seed": seed}, choice, limits=limits)


def stored(graph: Graph, rates: Sequence[tuple[str, str, float]]) -> StoresPlan:
    """Where topics are kept, so that those who ask for them do not ask far."""
    demand = Demand.of(graph, rates)
    stores = max(REPLICAS, math.ceil(STORES_SHARE * len(graph.names)))
    capacity = math.ceil(len(demand.topics) * REPLICAS / stores)
    problem = Problem.of(graph, demand, REPLICAS, capacity)
    placement = local.improved(problem, storing.repaired(problem, storing.votes(problem)))
    settings = {"k": REPLICAS, "capacity": capacity, "stores": problem.stores, "gain": "median"}
    return plans.of_stores(problem, placement, "local", settings)


def travelled(graph: Graph, requests: Requests) -> float:
    """How far a request went on average: from the broker that was asked to the one that had it."""
    steps = total = 0.0
    for asked, holder, count in requests:
        steps += count * float(graph.distances[graph.place[asked], graph.place[holder]])
        total += count
    return steps / total if total else 0.0


def files(folder: Path, made: Planned) -> dict[Path, plans.Plan]:
    """The plans, by the files that they are in."""
    return {folder / "moves.json": made.moves, folder / "stores.json": made.stores}


def network(city: City) -> str:
    """The network as a file that `tidings plan` and `tidings simulate` read; clusters are regions."""
    brokers = "\n".join(
        f"[[broker]]\nid = {_text(place.id)}\nposition = [{place.x}, {place.y}]\n"
        f"cluster = {_text(place.region)}\n"
        for place in city.brokers
    )
    links = "\n".join(f"[[link]]\nbetween = [{_text(a)}, {_text(b)}]\n" for a, b in city.links)
    return f"{brokers}\n{links}"


def _text(words: str) -> str:
    """A text in TOML, which has JSON's form of it."""
    return msgspec.json.encode(words).decode()


# Saying it.


def savings(made: Planned) -> tuple[Saving, ...]:
    """What the plans would save."""
    moves = made.moves.cost.moves
    stores = made.stores.cost.stores
    who = f"{moves:,} of {made.clients:,} clients move"
    return (
        Saving("hops from client to client", made.moves.hops.before, made.moves.hops.after, who),
        Saving("hops between brokers, in sum", *made.between_brokers, who),
        Saving(
            "hops of a request for history",
            made.requests_hops,
            made.stores.mean_hops,
            f"{REPLICAS} copies, at {stores} of {len(made.stores.network.brokers)} brokers",
        ),
    )


PAGES = {"which clients would move": "moves.html", "where history would be kept": "stores.html"}
"""Of the plans: what each is about, and its file."""


def further(made: Planned) -> Further:
    """Pictures of both plans for the page of the day: the network before and after."""
    from tidings.console import plan_page

    hops = made.moves.hops
    moves = (
        f"Without the plan messages between clients take {hops.before:.2f} hops instead of {hops.after:.2f}."
    )
    far, near = made.requests_hops, made.stores.mean_hops
    stores = f"Without the plan requests for history take {far:.2f} hops instead of {near:.2f}."
    told = (
        ("moves", made.moves, "Clients before and after", moves),
        ("stores", made.stores, "Where history would be kept", stores),
    )
    found = {}
    for name, one, heading, without in told:
        draw, caption, table = plan_page.pictures(one)["network"]
        found[name] = draw, replace(caption, heading=heading, without=without), table
    return found


def write_pages(made: Planned, folder: Path) -> None:
    """A page of each plan, with its pictures, in the folder of the page of the day."""
    from tidings.console import plan_page

    moves, stores = PAGES.values()
    plan_page.write(made.moves, folder / moves)
    plan_page.write(made.stores, folder / stores)


def shown(made: Planned) -> Plans:
    """For the page of the day."""
    kept = {
        broker: tuple(topic for topic, held in made.stores.assignment.items() if broker in held)
        for broker in made.stores.network.brokers
    }
    clients = made.moves.clients
    return Plans(
        savings(made),
        tuple(
            Resident(broker, clients.before.get(broker, 0), clients.after.get(broker, 0), kept[broker])
            for broker in made.stores.network.brokers
        ),
        tuple(PAGES.items()),
    )


def summary(made: Planned) -> dict[str, Any]:
    """For programs: the figures; the plans themselves are files."""
    return {
        "moves": {
            "clients": made.clients,
            "moves": made.moves.cost.moves,
            "moves_across": made.moves.cost.moves_across,
            "moves_inside": made.moves.cost.moves_inside,
            "messages": round(made.messages),
            "hops": {"before": made.moves.hops.before, "after": made.moves.hops.after},
            "between_brokers": dict(zip(("before", "after"), made.between_brokers, strict=True)),
        },
        "stores": {
            "stores": made.stores.stores,
            "replicas": made.stores.cost.replicas,
            "requests": made.requests,
            "hops": {"before": made.requests_hops, "after": made.stores.mean_hops},
        },
    }
