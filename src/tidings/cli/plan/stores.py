"""`tidings plan stores`: which brokers keep which topics."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings import installation
from tidings.cli.plan import files, sources
from tidings.cli.plan import network as plan_network
from tidings.cli.plan.options import (
    Edges,
    From,
    Latest,
    LengthsOption,
    Master,
    NetworkFile,
    Out,
    Records,
    Seed,
    Settings,
    Until,
    WorkloadFolder,
    chosen,
    one_of,
    only_for,
)
from tidings.cli.plan.show import AsJson, check_place, give, read
from tidings.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tidings.cli.plan.network import Wired
    from tidings.planning.stores.base import Gain, Placement, Problem


class Algorithm(StrEnum):
    """How stores are placed."""

    PLACEMENT = "placement"
    LOCAL = "local"
    GRD_OPT = "grd-opt"
    RND = "rnd"


def stores(
    k: Annotated[int, typer.Option("--k", help="Replicas of each topic.")],
    capacity: Annotated[
        float, typer.Option("--capacity", help="What a store holds: topics, or what sizes are in.")
    ],
    edges: Edges = None,
    rates: Annotated[
        Path | None,
        typer.Option("--rates", metavar="FILE", help="CSV lines topic,broker,rate: requests per second."),
    ] = None,
    records: Records = None,
    workload: WorkloadFolder = None,
    network: NetworkFile = None,
    lengths: LengthsOption = None,
    count: Annotated[
        int | None,
        typer.Option("--stores", help="How many stores there may be; as few as will do by default."),
    ] = None,
    algorithm: Annotated[
        Algorithm,
        typer.Option(
            "--algorithm",
            help="As published, by search from there, without limits, or by lot.",
            show_default=True,
        ),
    ] = Algorithm.PLACEMENT,
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
        Path | None,
        typer.Option("--sizes", metavar="FILE", help="CSV lines topic,size, for every topic; all 1 without."),
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
    least_requests: Annotated[
        int | None,
        typer.Option("--least-requests", min=1, help="Leave out topics that are asked for less often."),
    ] = None,
    first: From = None,
    until: Until = None,
    latest: Latest = None,
    seed: Seed = 0,
    master: Master = None,
    settings: Settings = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    r"""Place stores: which brokers keep which topics, so that requests travel little.

    Each topic is kept at k brokers, none of which holds more than its capacity. A request goes to the
    nearest of them. Who requests what is in a file, in the records of brokers, or in a workload; the network
    is in a file, or where the requests are. Ids are text; where all are whole numbers they are compared as
    numbers, and the lowest wins a tie.

    Try it:

        tidings plan stores --k 2 --capacity 2 --edges links.csv \
            --rates rates.csv
    """
    from tidings.planning import plans
    from tidings.planning.stores import local, published
    from tidings.planning.stores.base import Demand, Gain, Problem, fitted

    where = {"--rates": rates, "--records": records, "--workload": workload}
    one_of("who requests what", where)
    asked = sources.Asked(records, workload, first, until, latest, master, settings)
    asked.check()
    packages = (*asked.packages, *plan_network.packages(network))
    installation.need("a plan of stores", *packages, "scipy")
    only_for("--records or --workload", asked.on_spark, {"--least-requests": least_requests})
    moved = {"--before": before, "--moved-max": moved_max}
    only_for("--algorithm local", algorithm is Algorithm.LOCAL, moved)
    only_for("--algorithm placement", algorithm is Algorithm.PLACEMENT, {"--as-printed": as_printed})
    if moved_max is not None and before is None:
        raise InputError("--moved-max says how far from a plan to go; name that plan with --before")
    if moved_max is not None and moved_max < 0:
        raise InputError(f"--moved-max is {moved_max}; give 0 or more, how many replicas may move")
    by = chosen(Gain, gain, "--gain")
    check_place(out)
    sized = _sizes(sizes)
    wired = plan_network.of_files(edges, network, workload)
    if wired is None and records is None:
        raise InputError("say which brokers are linked: give --edges or --network")
    told: dict[str, Any] = {"k": k, "capacity": capacity, "gain": gain}

    def made(
        wired: Wired,
        triples: Any,
        about: dict[str, Any],
        votes: Callable[[Problem, Gain], NDArray[np.int64]],
    ) -> plans.StoresPlan:
        graph = wired.graph(lengths)
        fewest = Problem.of(graph, Demand.of(graph, triples), k, capacity, count, sized, load_max)
        runs = None if before is None else _running(before, fewest)
        # Votes are the same for any number of stores.
        voted = cache(lambda: votes(fewest, by))

        def placed(problem: Problem) -> Placement:
            return _placed(problem, algorithm, by, seed, as_printed, voted)

        if algorithm is Algorithm.LOCAL and runs is not None:
            problem, placement = fewest, local.improved(fewest, runs, moved_max=moved_max)
        else:
            may_grow = count is None and not as_printed
            problem, placement = fitted(fewest, placed) if may_grow else (fewest, placed(fewest))
            if algorithm is Algorithm.LOCAL:
                placement = local.improved(problem, placement)
        told.update({"stores": problem.stores, "lengths": wired.counted(lengths)})
        told.update({} if sized is None else {"sizes": sized})
        told.update({} if math.isinf(load_max) else {"load_max": load_max})
        told.update({} if algorithm is not Algorithm.RND else {"seed": seed})
        told.update({} if not as_printed else {"as_printed": True})
        told.update({} if not about else {"source": about})
        grown = []
        if problem.stores > fewest.stores and not placement.short:
            enough = f"it took {problem.stores} until each topic fitted into them"
            grown.append(f"{fewest.stores} stores would hold all replicas together, and {enough}")
        return plans.of_stores(problem, placement, str(algorithm), told, runs, grown)

    summary = ""
    with sources.Bars() as bars:
        if rates is not None:
            assert wired is not None, "a network was given"
            triples = files.triples(rates, ("topic", "broker", "rate"))
            bars("planning", 0, 0)
            plan = made(wired, triples, {}, published.votes)
        else:
            source = asked.source()
            with asked.spark(bars) as spark:
                from tidings.pipeline.plan import inputs

                found = inputs.rates(spark, source, least_requests=least_requests or 1, progress=bars)
                here = sources.wired(spark, source, wired, bars)

                def on_spark(problem: Problem, gain: Gain) -> NDArray[np.int64]:
                    voted = inputs.votes(spark, problem, gain, progress=bars)
                    bars("planning", 0, 0)
                    return voted

                plan = made(here, found.rates, dict(found.about), on_spark)
            requests, seconds = found.about["requests"], found.about["seconds"]
            asking = f"{len(plan.rates):,} of {len(plan.network.brokers):,} brokers"
            summary = (
                f"{source.name}: {requests:,} requests in {seconds:,.0f} s, for "
                f"{len(plan.assignment):,} topics at {asking}"
            )
    sources.tell(summary, as_json)
    give(plan, out, as_json)


def _sizes(path: Path | None) -> dict[str, float] | None:
    return None if path is None else files.numbers(path, ("topic", "size"))


def _placed(
    problem: Problem,
    algorithm: Algorithm,
    gain: Gain,
    seed: int,
    as_printed: bool,
    voted: Callable[[], NDArray[np.int64]],
) -> Placement:
    """What an algorithm begins with: of a search, the published placement."""
    from tidings.planning.stores import baselines, published

    if algorithm is Algorithm.RND:
        return baselines.random(problem, seed, gain)
    if algorithm is Algorithm.GRD_OPT:
        return baselines.unlimited(problem, voted())
    return (published.as_printed if as_printed else published.repaired)(problem, voted())


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
