"""`tidings plan check`: whether a plan still fits the network, its clients and what they ask for."""

from __future__ import annotations

import math
from collections.abc import Iterable
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
    Lengths,
    Master,
    NetworkFile,
    Records,
    Settings,
    Until,
    WorkloadFolder,
    only_for,
)
from tidings.cli.plan.show import read
from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.cli.plan.network import Wired
    from tidings.planning.checks import Change, Finding
    from tidings.planning.graphs import Graph
    from tidings.planning.plans import Plan, StoresPlan

SHOWN = 10
"""Findings of one kind that people are shown; with --json all are there."""

NEARLY_NONE = 1e-9
"""A share of requests that is only rounding."""


def check(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, as `--out` writes it.")],
    edges: Edges = None,
    network: NetworkFile = None,
    clusters: Annotated[
        Path | None,
        typer.Option(
            "--clusters", metavar="FILE", help="Of a plan of moves: CSV lines broker,cluster as they are now."
        ),
    ] = None,
    homes: Annotated[
        Path | None,
        typer.Option(
            "--homes", metavar="FILE", help="Of a plan of moves: CSV lines client,broker as they are now."
        ),
    ] = None,
    rates: Annotated[
        Path | None,
        typer.Option(
            "--rates", metavar="FILE", help="Of a plan of stores: CSV lines topic,broker,rate as it is now."
        ),
    ] = None,
    sizes: Annotated[
        Path | None,
        typer.Option(
            "--sizes", metavar="FILE", help="Of a plan of stores: CSV lines topic,size as they are now."
        ),
    ] = None,
    capacity: Annotated[
        float | None,
        typer.Option(
            "--capacity", help="Of a plan of stores: what a store holds now; as planned by default."
        ),
    ] = None,
    load_max: Annotated[
        float | None, typer.Option("--load-max", help="Requests per second that a store may serve now.")
    ] = None,
    records: Records = None,
    workload: WorkloadFolder = None,
    first: From = None,
    until: Until = None,
    latest: Latest = None,
    master: Master = None,
    settings: Settings = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="What is in the way, and what has changed, as JSON.")
    ] = False,
) -> None:
    """Say whether a plan still fits the network: exit code 0 if it does, 1 if not, with what is in the way.

    In the way is what is gone, elsewhere, different, or too much. What is new, what nobody asks for any
    more and who has moved already is said, and the plan still fits. The network now is in a file, in a
    workload, or in records; so are clients and requests, without which only brokers, links and capacities
    are looked at. Exit code 2 means that it could not be said.

    Try it:

        tidings plan check stores.json --edges links.csv
    """
    import json

    from tidings.planning import checks
    from tidings.planning.plans import MovesPlan, StoresPlan

    made = read(plan)
    asked = sources.Asked(records, workload, first, until, latest, master, settings)
    asked.check()
    only_for("a plan of moves", isinstance(made, MovesPlan), {"--homes": homes, "--clusters": clusters})
    of_stores = {"--rates": rates, "--sizes": sizes, "--capacity": capacity, "--load-max": load_max}
    only_for("a plan of stores", isinstance(made, StoresPlan), of_stores)
    linked = edges is not None or network is not None or workload is not None
    on_spark = asked.on_spark and (not linked or (homes is None and rates is None))
    needed = asked.packages if on_spark else ()
    installation.need("a check", *needed, *plan_network.packages(network))
    wired = plan_network.of_files(edges, network, workload, whole=False)
    if wired is None and records is None:
        raise InputError("say what the network is now: give --network, --edges, --workload or --records")
    at_home = None if homes is None else files.mapping(homes, ("client", "broker"))
    requested = None if rates is None else list(files.triples(rates, ("topic", "broker", "rate")))
    with sources.Bars() as bars:
        if on_spark:
            source = asked.source()
            with asked.spark(bars) as spark:
                from tidings.pipeline.plan import inputs

                wired = sources.wired(spark, source, wired, bars)
                if isinstance(made, MovesPlan) and at_home is None:
                    moving = [move.client for move in made.moves]
                    at_home = inputs.homes(spark, source, moving, progress=bars)
                elif isinstance(made, StoresPlan) and requested is None:
                    requested = list(inputs.rates(spark, source, required=False, progress=bars).rates)
    assert wired is not None, "a network was given, or found in records"
    graph = _graph(wired, made)
    found = checks.network(made, graph, wired.clusters if clusters is None else _clusters(clusters, graph))
    now: dict[str, Any] = {}
    unseen: list[str] = []
    if isinstance(made, MovesPlan):
        unseen = ["clients"] if at_home is None else []
        found += [] if at_home is None else checks.homes(made, at_home)
    else:
        found += _kept(made, sizes, capacity)
        unseen = [] if requested else ["requests"]
        if requested:
            found += checks.topics(made, (topic for topic, _, rate in requested if rate))
            now, busy = _served(made, graph, requested, load_max)
            found += busy
    wrong, changed = ([one for one in found if one.in_the_way is so] for so in (True, False))
    if as_json:
        told = {
            "valid": not wrong,
            "wrong": [one.text for one in wrong],
            "changed": [one.text for one in changed],
        }
        told |= {"changes": _counts(found), "unseen": unseen, **now}
        typer.echo(json.dumps(told, ensure_ascii=False))
    else:
        _say(wrong, changed, now, unseen)
    raise typer.Exit(1 if wrong else 0)


def _clusters(path: Path, graph: Graph) -> dict[str, str]:
    """Of every broker that there is now."""
    found = files.mapping(path, ("broker", "cluster"), empty=True)
    if missing := [name for name in graph.names if name not in found]:
        raise InputError(
            f"{path} has no broker {missing[0]!r}; give it a cluster, an empty one if it is of the backbone"
        )
    return found


def _graph(wired: Wired, made: Plan) -> Graph:
    """The network now, with lengths as the plan has them; it may be in pieces."""
    counted = made.settings.get("lengths")
    lengths = Lengths(counted) if counted in list(Lengths) and wired.lengths is None else None
    return wired.graph(lengths, whole=False)


def _kept(made: StoresPlan, sizes: Path | None, most: float | None) -> list[Finding]:
    """Stores that hold more than they can."""
    from tidings.planning import checks

    planned = made.settings.get("capacity")
    capacity = most if most is not None else float(planned) if isinstance(planned, int | float) else math.inf
    if most is not None and not most > 0:
        raise InputError(f"--capacity is {most:g}; give a number above 0")
    # Without limits it was planned, and is not held against one.
    if made.algorithm == "grd-opt" and most is None:
        return []
    return checks.capacity(made, capacity, None if sizes is None else files.numbers(sizes, ("topic", "size")))


def _served(
    made: StoresPlan, graph: Graph, requested: Iterable[tuple[str, str, float]], load_max: float | None
) -> tuple[dict[str, Any], list[Finding]]:
    """How far requests would travel now, what share finds no store, and which stores would serve too much."""
    from tidings.planning import checks
    from tidings.planning.stores.base import Demand, serving

    demand = Demand.of(graph, requested)
    loads: dict[str, float] = {}
    travelled = asked = 0.0
    for topic, rates in zip(demand.topics, demand.rates, strict=True):
        kept = [graph.place[name] for name in made.assignment.get(topic, ()) if name in graph.place]
        if not kept:
            continue
        served_by = serving(graph.distances, kept)
        for broker, store in enumerate(served_by.tolist()):
            far = float(graph.distances[broker, store])
            # In another piece of the network there may be no store to go to.
            if math.isinf(far):
                continue
            name, rate = graph.names[store], float(rates[broker])
            loads[name] = loads.get(name, 0.0) + rate
            travelled += rate * far
            asked += rate
    planned = made.settings.get("load_max")
    most = load_max if load_max is not None else float(planned) if planned is not None else math.inf
    hops = {"planned": made.mean_hops, "now": travelled / asked if asked else 0.0}
    total = float(demand.totals.sum())
    unserved = max(0.0, 1 - asked / total) if total else 0.0
    return {"mean_hops": hops, "unserved": unserved}, checks.load(made, loads, most)


def _counts(found: list[Finding]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in found:
        counts[one.change.value] = counts.get(one.change.value, 0) + 1
    return counts


def _say(wrong: list[Finding], changed: list[Finding], now: dict[str, Any], unseen: list[str]) -> None:
    for title, found in (("in the way:", wrong), ("changed, and not in the way:", changed)):
        if found:
            typer.echo(title)
            _list(found)
    if "mean_hops" in now:
        hops = now["mean_hops"]
        typer.echo(f"a request travels {hops['now']:.3f} hops now, {hops['planned']:.3f} when it was planned")
        if now["unserved"] > NEARLY_NONE:
            typer.echo(f"{now['unserved']:.1%} of requests find no store, and are not among them")
    typer.echo("the plan does not fit the network any more" if wrong else "the plan fits the network")
    ways = {"clients": "--homes", "requests": "--rates"}
    for what in unseen:
        typer.echo(f"{what} were not looked at; {ways[what]}, --records or --workload say what they are now")


def _list(found: list[Finding]) -> None:
    shown: dict[Change, int] = {}
    for one in found:
        shown[one.change] = shown.get(one.change, 0) + 1
        if shown[one.change] <= SHOWN:
            typer.echo(f"  {one.text}")
    for change, count in shown.items():
        if count > SHOWN:
            typer.echo(f"  … and {count - SHOWN:,} more: {change}")
