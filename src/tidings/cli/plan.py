"""`tidings plan`: where stores go and which clients move, from plain files; and whether a plan still fits."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tidings.cli import plan_files as files
from tidings.cli.plan_show import AsJson, give, read
from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.planning.graphs import Graph
    from tidings.planning.plans import Plan
    from tidings.planning.stores.base import Placement, Problem

Choice = TypeVar("Choice", bound=StrEnum)

Edges = Annotated[
    Path,
    typer.Option("--edges", metavar="FILE", help="CSV lines a,b: brokers that are linked; a,b,length too."),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the plan there, as JSON.")]
Seed = Annotated[int, typer.Option("--seed", help="Of all that is drawn.", show_default=True)]


class StoreAlgorithm(StrEnum):
    """How stores are placed."""

    PLACEMENT = "placement"
    LOCAL = "local"
    GRD_OPT = "grd-opt"
    RND = "rnd"


class MoveAlgorithm(StrEnum):
    """How clients are moved."""

    PUBLISHED = "published"
    SEARCH = "search"
    INTEREST = "interest"


def stores(
    edges: Edges,
    rates: Annotated[
        Path,
        typer.Option("--rates", metavar="FILE", help="CSV lines topic,broker,rate: requests per second."),
    ],
    k: Annotated[int, typer.Option("--k", help="Replicas of each topic.")],
    capacity: Annotated[
        float, typer.Option("--capacity", help="What a store holds: topics, or what sizes are in.")
    ],
    count: Annotated[
        int | None,
        typer.Option("--stores", help="How many stores there may be; as few as will do by default."),
    ] = None,
    algorithm: Annotated[
        StoreAlgorithm,
        typer.Option(
            "--algorithm",
            help="As published, by search from there, without limits, or by lot.",
            show_default=True,
        ),
    ] = StoreAlgorithm.PLACEMENT,
    gain: Annotated[
        str,
        typer.Option(
            "--gain",
            metavar="median|path|static",
            help="What a store is taken to save: by the nearest, on the way, or on the way and alone.",
            show_default=True,
        ),
    ] = "median",
    as_printed: Annotated[
        bool,
        typer.Option("--as-printed", help="Leave topics short of replicas where the paper's last step does."),
    ] = False,
    sizes: Annotated[
        Path | None, typer.Option("--sizes", metavar="FILE", help="CSV lines topic,size; 1 each by default.")
    ] = None,
    load_max: Annotated[
        float, typer.Option("--load-max", help="Requests per second that a store may serve; for local.")
    ] = math.inf,
    before: Annotated[
        Path | None,
        typer.Option("--before", metavar="PLAN", help="What runs now; for local, with --moved-max."),
    ] = None,
    moved_max: Annotated[
        int | None,
        typer.Option("--moved-max", help="Replicas that may be elsewhere than in --before; for local."),
    ] = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    r"""Place stores: which brokers keep which topics, so that requests travel little.

    Each topic is kept at k brokers, none of which holds more than its capacity. A request goes to the
    nearest of them. Ids are text; where all are whole numbers they are compared as numbers, and the lowest
    wins a tie.

    Try it:

        tidings plan stores --k 2 --capacity 2 --edges examples/plans/links.csv \
            --rates examples/plans/rates.csv
    """
    from tidings.planning import plans
    from tidings.planning.graphs import Graph
    from tidings.planning.stores.base import Demand, Problem

    graph = Graph.of(files.links(edges))
    demand = Demand.of(graph, files.triples(rates, ("topic", "broker", "rate")))
    problem = Problem.of(graph, demand, k, capacity, count, _sizes(sizes), load_max)
    if (moved_max is not None or before is not None) and algorithm is not StoreAlgorithm.LOCAL:
        raise InputError(f"--before and --moved-max are for --algorithm local, not for {algorithm}")
    if moved_max is not None and before is None:
        raise InputError("--moved-max says how far from a plan to go; name that plan with --before")
    runs = None if before is None else _running(before, problem)
    placement = _placed(problem, algorithm, gain, seed, as_printed, runs, moved_max)
    settings: dict[str, Any] = {"k": k, "capacity": capacity, "stores": problem.stores, "gain": gain}
    settings |= {} if algorithm is not StoreAlgorithm.RND else {"seed": seed}
    give(plans.of_stores(problem, placement, str(algorithm), settings, runs), out, as_json)


def communities(
    edges: Edges,
    clusters: Annotated[
        Path,
        typer.Option("--clusters", metavar="FILE", help="CSV lines broker,cluster; empty for the backbone."),
    ],
    homes: Annotated[Path, typer.Option("--homes", metavar="FILE", help="CSV lines client,broker.")],
    traffic: Annotated[Path, typer.Option("--traffic", metavar="FILE", help="CSV lines from,to,messages.")],
    algorithm: Annotated[
        MoveAlgorithm,
        typer.Option("--algorithm", help="As published, by search, or by like interests.", show_default=True),
    ] = MoveAlgorithm.PUBLISHED,
    moves: Annotated[
        int | None, typer.Option("--moves", help="Clients that may go to another cluster; any by default.")
    ] = None,
    moves_inside: Annotated[
        int | None,
        typer.Option("--moves-inside", help="Clients that may go to another broker of their cluster."),
    ] = None,
    overload: Annotated[
        float,
        typer.Option(
            "--overload",
            help="The most that a cluster's clients may send, in its fair share.",
            show_default=True,
        ),
    ] = 1.5,
    broker_overload: Annotated[
        float, typer.Option("--broker-overload", help="The same of a broker, in an even share; for search.")
    ] = math.inf,
    method: Annotated[
        str,
        typer.Option(
            "--communities", metavar="greedy|leiden", help="How communities are found.", show_default=True
        ),
    ] = "greedy",
    proportion: Annotated[
        str,
        typer.Option(
            "--proportion",
            metavar="cluster|community",
            help="What equation 3 divides by: the clients of the cluster, or of the community.",
            show_default=True,
        ),
    ] = "cluster",
    subscriptions: Annotated[
        Path | None,
        typer.Option("--subscriptions", metavar="FILE", help="For interest: CSV lines client,subscription."),
    ] = None,
    frontier: Annotated[
        bool,
        typer.Option("--frontier", help="For search: hops for fewer and for more moves, to choose from."),
    ] = False,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    r"""Plan moves: which clients go to which broker, so that those who talk to each other are close together.

    Hops are the mean of a message between two clients, with the links of both. Moves inside a cluster are
    listed with "across": false.

    Try it:

        tidings plan communities --edges examples/plans/overlay.csv \
            --clusters examples/plans/clusters.csv --homes examples/plans/homes.csv \
            --traffic examples/plans/traffic.csv
    """
    from tidings.planning import plans
    from tidings.planning.communities import extraction, interest, published, search
    from tidings.planning.communities.base import Flows, Limits, Network
    from tidings.planning.graphs import Graph

    graph = Graph.of(files.links(edges))
    at_home = files.mapping(homes, ("client", "broker"))
    flows = Flows.of(files.triples(traffic, ("from", "to", "messages")), at_home)
    clustered = files.mapping(clusters, ("broker", "cluster"), empty=True)
    network = Network.of(graph, clustered, at_home, flows.clients)
    limits = Limits(overload, moves, moves_inside, broker_overload)
    if subscriptions is not None and algorithm is not MoveAlgorithm.INTEREST:
        raise InputError(f"--subscriptions are for --algorithm interest, not for {algorithm}")
    reading = published.Reading(
        proportion=_chosen(published.Proportion, proportion, "--proportion"),
        method=_chosen(extraction.Method, method, "--communities"),
    )
    points: list[tuple[int, float]] = []
    if algorithm is MoveAlgorithm.INTEREST:
        said = None if subscriptions is None else files.pairs(subscriptions, ("client", "subscription"))
        seating = interest.planned(network, flows, limits, said, seed)
    else:
        seating = published.planned(network, flows, limits, reading, seed)
        if algorithm is MoveAlgorithm.SEARCH:
            seating = search.planned(network, flows, limits, seed, [seating])
            if frontier:
                found = search.frontier(network, flows, limits, seed=seed)
                points = [(point.moves, point.hops) for point in found]
    settings: dict[str, Any] = {
        "overload": overload,
        "moves": moves,
        "moves_inside": moves_inside,
        "seed": seed,
    }
    plan = plans.of_moves(network, flows, seating, str(algorithm), settings, points)
    give(plan, out, as_json)


def check(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, as `--out` writes it.")],
    edges: Edges,
    homes: Annotated[
        Path | None,
        typer.Option(
            "--homes", metavar="FILE", help="Of a plan of moves: CSV lines client,broker as they are now."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="What is wrong as JSON.")] = False,
) -> None:
    """Say whether a plan still fits the network: exit code 0 if it does, 1 if not, with what is in the way.

    Try it:

        tidings plan check examples/plans/stores.json --edges examples/plans/links.csv
    """
    import json

    from tidings.planning.graphs import Graph
    from tidings.planning.plans import MovesPlan

    made = read(plan)
    wrong = _differences(made, Graph.of(files.links(edges)))
    if homes is not None and isinstance(made, MovesPlan):
        now = files.mapping(homes, ("client", "broker"))
        wrong += [
            f"client {one.client} is at {now.get(one.client, 'no broker')}, not at {one.source} as planned"
            for one in made.moves
            if now.get(one.client) != one.source
        ]
    if as_json:
        typer.echo(json.dumps({"valid": not wrong, "wrong": wrong}))
    else:
        typer.echo("\n".join(wrong) if wrong else "the plan fits the network")
    raise typer.Exit(1 if wrong else 0)


def _differences(made: Plan, graph: Graph) -> list[str]:
    before, after = set(made.network.brokers), set(graph.names)
    found = [f"broker {name} of the plan is gone" for name in made.network.brokers if name not in after]
    found += [f"broker {name} is new" for name in graph.names if name not in before]
    planned = {frozenset((a, b)): length for a, b, length in made.network.links}
    there = {frozenset((graph.names[a], graph.names[b])): length for a, b, length in graph.links}
    for pair in sorted(planned.keys() | there.keys(), key=sorted):
        if planned.get(pair) != there.get(pair):
            a, b = sorted(pair)
            what = "gone" if pair not in there else "new" if pair not in planned else "of another length"
            found.append(f"the link {a},{b} is {what}")
    return found


def _sizes(path: Path | None) -> dict[str, float] | None:
    if path is None:
        return None
    return {
        row[0]: files.numeral(path, number, row[1], "size")
        for number, row in files.rows(path, ("topic", "size"))
    }


def _chosen(kinds: type[Choice], value: str, option: str) -> Choice:
    try:
        return kinds(value)
    except ValueError:
        raise InputError(f"{option} is {value!r}; it is one of {', '.join(kinds)}") from None


def _placed(
    problem: Problem,
    algorithm: StoreAlgorithm,
    gain: str,
    seed: int,
    as_printed: bool,
    runs: Placement | None,
    moved_max: int | None,
) -> Placement:
    from tidings.planning.stores import baselines, local, published
    from tidings.planning.stores.base import Gain

    by = _chosen(Gain, gain, "--gain")
    if algorithm is StoreAlgorithm.RND:
        return baselines.random(problem, seed, by)
    voted = published.votes(problem, by)
    if algorithm is StoreAlgorithm.GRD_OPT:
        return baselines.unlimited(problem, voted)
    if algorithm is StoreAlgorithm.PLACEMENT:
        return (published.as_printed if as_printed else published.repaired)(problem, voted)
    if runs is not None:
        return local.improved(problem, runs, moved_max=moved_max)
    return local.improved(problem, published.repaired(problem, voted))


def _running(path: Path, problem: Problem) -> Placement:
    """The placement of a plan, for this problem."""
    from tidings.planning.plans import StoresPlan
    from tidings.planning.stores.base import Placement, held

    made = read(path)
    if not isinstance(made, StoresPlan):
        raise InputError(f"{path} is a plan of moves; --before is a plan of stores")
    graph, topics = problem.graph, problem.demand.topics
    for topic in topics:
        if topic not in made.assignment:
            raise InputError(f"{path} has no topic {topic!r}; plan without --before to begin anew")
    for names in made.assignment.values():
        for name in names:
            if name not in graph.place:
                raise InputError(
                    f"{path} has a store at {name!r}, which is no broker of the network any more"
                )
    assignment = tuple(
        tuple(sorted(graph.place[name] for name in made.assignment[topic])) for topic in topics
    )
    if any(len(one) != problem.replicas for one in assignment):
        raise InputError(f"{path} does not have {problem.replicas} replicas of each topic; give the same --k")
    if (held(problem, assignment) > problem.capacity + 1e-9).any():
        raise InputError(
            f"{path} has a store that holds more than {problem.capacity:g}; give more --capacity"
        )
    used = {at for one in assignment for at in one}
    if len(used) > problem.stores:
        raise InputError(f"{path} has {len(used)} stores; give --stores {len(used)} or more")
    return Placement(
        tuple(graph.place[name] for name in made.stores if graph.place[name] in used), assignment
    )
