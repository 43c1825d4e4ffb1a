"""`tidings plan communities`: which clients go to which broker."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
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
    LengthsOption,
    Master,
    NetworkFile,
    Out,
    Records,
    Seed,
    Settings,
    Until,
    WorkloadFolder,
    bound,
    chosen,
    one_of,
    only_for,
)
from tidings.cli.plan.show import AsJson, check_place, give
from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.cli.plan.network import Wired
    from tidings.planning.communities.base import Flows
    from tidings.planning.plans import MovesPlan


class Algorithm(StrEnum):
    """How clients are moved."""

    PUBLISHED = "published"
    SEARCH = "search"
    INTEREST = "interest"


class Takes(StrEnum):
    """Which communities a cluster takes."""

    OVERLOADING = "overloading"
    FITTING = "fitting"


class Dealt(StrEnum):
    """Which clients of a cluster are dealt to its brokers."""

    COMING = "coming"
    ALL = "all"


def communities(
    edges: Edges = None,
    clusters: Annotated[
        str | None,
        typer.Option(
            "--clusters",
            metavar="FILE|N|auto",
            help="CSV lines broker,cluster, empty for the backbone; or N of them derived from delays.",
        ),
    ] = None,
    homes: Annotated[
        Path | None, typer.Option("--homes", metavar="FILE", help="CSV lines client,broker.")
    ] = None,
    traffic: Annotated[
        Path | None, typer.Option("--traffic", metavar="FILE", help="CSV lines from,to,messages.")
    ] = None,
    records: Records = None,
    workload: WorkloadFolder = None,
    network: NetworkFile = None,
    lengths: LengthsOption = None,
    algorithm: Annotated[
        Algorithm,
        typer.Option("--algorithm", help="As published, by search, or by like interests.", show_default=True),
    ] = Algorithm.PUBLISHED,
    moves: Annotated[
        int | None,
        typer.Option(
            "--moves",
            metavar="N",
            help="Clients that may change their broker, to another cluster or inside; any by default.",
        ),
    ] = None,
    moves_across: Annotated[
        int | None,
        typer.Option("--moves-across", metavar="N", help="Of them, those that may go to another cluster."),
    ] = None,
    moves_inside: Annotated[
        int | None,
        typer.Option(
            "--moves-inside", metavar="N", help="Of them, those that may go to a broker of their cluster."
        ),
    ] = None,
    overload: Annotated[
        str,
        typer.Option(
            "--overload",
            metavar="R|none",
            help="The most that a cluster's clients may send, in its fair share.",
            show_default=True,
        ),
    ] = "1.5",
    broker_overload: Annotated[
        str,
        typer.Option(
            "--broker-overload",
            metavar="R|none",
            help="The most that a broker's clients may send, in an even share, if it is not more already.",
            show_default=True,
        ),
    ] = "1.5",
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
    takes: Annotated[
        Takes,
        typer.Option(
            "--takes",
            help="Whether a cluster takes the community that overloads it, or only those that fit.",
            show_default=True,
        ),
    ] = Takes.OVERLOADING,
    dealt: Annotated[
        Dealt,
        typer.Option(
            "--dealt",
            help="Who is dealt to the brokers of a cluster: clients that come to it, or all of its own.",
            show_default=True,
        ),
    ] = Dealt.COMING,
    divide: Annotated[
        str,
        typer.Option(
            "--divide",
            metavar="all|largest|none",
            help="Which communities are divided again, as long as Rp and Rm let them.",
            show_default=True,
        ),
    ] = "all",
    counted: Annotated[
        str,
        typer.Option(
            "--count",
            metavar="copy|link",
            help="What a message is, for loads: a copy for each receiver, or one on each link.",
            show_default=True,
        ),
    ] = "copy",
    subscriptions: Annotated[
        Path | None,
        typer.Option("--subscriptions", metavar="FILE", help="For interest: CSV lines client,subscription."),
    ] = None,
    frontier: Annotated[
        bool,
        typer.Option("--frontier", help="For search: hops for fewer and for more moves, to choose from."),
    ] = False,
    least_messages: Annotated[
        int | None,
        typer.Option("--least-messages", min=1, help="Leave out pairs of clients with fewer messages."),
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
    r"""Plan moves: which clients go to which broker, so that those who talk to each other are close together.

    Who talks to whom is in a file, in the records of brokers, or follows from a workload; the network is in
    a file, or where the traffic is. Hops are the mean of a message between two clients, with the links of
    both. A move is any client that changes its broker; inside a cluster it has "across": false. No algorithm
    makes a broker busier than --broker-overload, or than it is: some moves are left out for it.

    Try it:

        tidings plan communities --edges overlay.csv \
            --clusters clusters.csv --homes homes.csv \
            --traffic traffic.csv
    """
    from tidings.planning import plans
    from tidings.planning.communities import extraction, interest, published, search
    from tidings.planning.communities.base import CLIENT_LINKS, Counted, Limits, Network

    one_of("who talks to whom", {"--traffic": traffic, "--records": records, "--workload": workload})
    asked = sources.Asked(records, workload, first, until, latest, master, settings)
    asked.check()
    packages = (*asked.packages, *plan_network.packages(network))
    installation.need("a plan of moves", *packages, "igraph", "scipy")
    check_place(out)
    only_for("--records or --workload", asked.on_spark, {"--least-messages": least_messages})
    only_for("--algorithm interest", algorithm is Algorithm.INTEREST, {"--subscriptions": subscriptions})
    only_for("--algorithm search", algorithm is Algorithm.SEARCH, {"--frontier": frontier})
    limits = Limits(
        bound("--overload", overload),
        moves,
        moves_across,
        moves_inside,
        bound("--broker-overload", broker_overload),
    )
    reading = published.Reading(
        proportion=chosen(published.Proportion, proportion, "--proportion"),
        fits=takes is Takes.FITTING,
        balance_all=dealt is Dealt.ALL,
        divide=chosen(published.Division, divide, "--divide"),
        method=chosen(extraction.Method, method, "--communities"),
    )
    how = chosen(Counted, counted, "--count")
    wired = plan_network.of_files(edges, network, workload)
    if wired is None and records is None:
        raise InputError("say which brokers are linked: give --edges or --network")
    if traffic is not None and homes is None:
        raise InputError("say where clients are: give --homes")
    said = None if subscriptions is None else list(files.pairs(subscriptions, ("client", "subscription")))
    at_home = None if homes is None else files.mapping(homes, ("client", "broker"))

    def made(
        wired: Wired, flows: Flows, at_home: Mapping[str, str], about: dict[str, Any], warnings: list[str]
    ) -> MovesPlan:
        seated = {at_home[name] for name in flows.clients if name in at_home}
        clustered, came = wired.clustered(clusters, seated)
        # Nobody knows how long it takes from a client to its broker.
        ends = 0.0 if lengths is Lengths.DELAY else float(CLIENT_LINKS)
        there = Network.of(wired.graph(lengths), clustered, at_home, flows.clients, ends)
        flows = flows.counting(how)
        points: list[tuple[int, float]] = []
        if algorithm is Algorithm.INTEREST:
            seating = interest.planned(there, flows, limits, said, seed)
        else:
            seating = published.planned(there, flows, limits, reading, seed)
            if algorithm is Algorithm.SEARCH:
                seating = search.planned(there, flows, limits, seed, [seating])
                if frontier:
                    found = search.frontier(there, flows, limits, seating, seed=seed)
                    points = [(point.moves, point.hops) for point in found]
                    seating = search.taken(there, seating, found)
        told: dict[str, Any] = {
            "seed": seed,
            "clusters": came,
            "lengths": wired.counted(lengths),
            "client_links": ends,
            "count": counted,
        }
        if algorithm is not Algorithm.INTEREST:
            told |= {"communities": method, "proportion": proportion, "takes": takes.value}
            told |= {"dealt": dealt.value, "divide": divide}
        told |= {"source": about} if about else {}
        return plans.of_moves(there, flows, seating, str(algorithm), told, points, warnings, limits=limits)

    summary = ""
    with sources.Bars() as bars:
        if traffic is not None:
            assert wired is not None and at_home is not None, "a network and homes were given"  # noqa: PT018
            flows = files.traffic(traffic, at_home)
            bars("planning", 0, 0)
            plan = made(wired, flows, at_home, {}, [])
        else:
            source = asked.source()
            with asked.spark(bars) as spark:
                from tidings.pipeline.plan import inputs

                talk = inputs.flows(spark, source, least_messages=least_messages or 1, progress=bars)
                here = sources.wired(spark, source, wired, bars)
            bars("planning", 0, 0)
            now = talk.homes if at_home is None else {**talk.homes, **at_home}
            plan = made(here, talk.flows, now, dict(talk.about), list(talk.warnings))
            pairs, clients = len(talk.flows.messages), len(talk.flows.clients)
            groups = len({name for name in plan.network.clusters.values() if name})
            summary = (
                f"{source.name}: {talk.flows.copies:,.0f} messages of {pairs:,} pairs of {clients:,} "
                f"clients, at {len(plan.network.brokers):,} brokers in {groups:,} clusters "
                f"({plan.settings['clusters']})"
            )
    sources.tell(summary, as_json)
    give(plan, out, as_json)
