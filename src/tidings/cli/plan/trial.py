"""`tidings plan try`: what a plan gives, seen and not computed, beside its forecast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings import installation
from tidings.cli.plan import files
from tidings.cli.plan import network as plan_network
from tidings.cli.plan.show import printed, read, wrote
from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.console.plan_scene import AnyTrial
    from tidings.planning.plans import MovesPlan, Plan, StoresPlan
    from tidings.records.workload_reading import Workload
    from tidings.sim.brokers.replay import Replay
    from tidings.sim.plans.requests import Asked, StoresTrial
    from tidings.sim.plans.trial import Trial

BREACHES_SHOWN = 5

REQUESTS_MAX = 10_000_000
"""In a file of counts: a minute's walk; more is a slip of the pen."""


def try_(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, as `--out` writes it.")],
    workload: Annotated[
        Path | None,
        typer.Option("--workload", metavar="DIR", help="A workload of `tidings workload generate`."),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            "--network", metavar="FILE", help="A topology to run it on, instead of the workload's own."
        ),
    ] = None,
    requests: Annotated[
        Path | None,
        typer.Option(
            "--requests", metavar="FILE", help="Of a plan of stores: CSV lines topic,broker,requests instead."
        ),
    ] = None,
    publish: Annotated[
        str | None,
        typer.Option(
            "--publish",
            metavar="reports|events",
            help="Of a plan of moves: what of the workload is published; reports if there are any.",
        ),
    ] = None,
    publications: Annotated[
        int | None, typer.Option("--publications", min=1, help="The first ones alone, by time.")
    ] = None,
    subscriptions: Annotated[
        int | None, typer.Option("--subscriptions", min=1, help="The first ones alone, by number.")
    ] = None,
    speed_up: Annotated[
        float, typer.Option("--speed-up", metavar="X", help="Let the workload pass so many times faster.")
    ] = 1.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the simulation.", show_default=True)] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write a page with pictures there: a folder, or a .html."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Forecast and measured as JSON.")] = False,
) -> None:
    r"""Try a plan: run a workload before and after it, and hold what is seen against the forecast.

    For moves, the simulator runs the workload twice with the brokers that run live, clients where they are
    and where the plan has them. For stores, which brokers do not have yet, every request goes hop by hop to
    the nearest planned store. Every difference to the forecast is explained. Exit code 1 means that a
    promise was broken.

    Try it:

        tidings plan try stores.json --requests rates.csv
    """
    from tidings.planning.plans import StoresPlan

    made = read(plan)
    # A plan of stores takes no network, and is refused with one below.
    packages = () if isinstance(made, StoresPlan) else plan_network.packages(network)
    installation.need("a trial", "scipy", *packages)
    if out is not None:
        from tidings.console import document

        document.check()
    given = {
        "--publish": publish,
        "--publications": publications,
        "--subscriptions": subscriptions,
        "--speed-up": None if speed_up == 1.0 else speed_up,
    }
    trial: AnyTrial
    if isinstance(made, StoresPlan):
        if wrong := [name for name, value in given.items() if value is not None]:
            raise InputError(f"{wrong[0]} is for a plan of moves, and {plan} is one of stores; leave it out")
        if network is not None:
            raise InputError("--network is for a plan of moves; requests go over the links of the plan")
        trial = _stores(made, workload, requests)
    else:
        if requests is not None:
            raise InputError(f"--requests is for a plan of stores, and {plan} is one of moves; leave it out")
        if not 0 < speed_up < float("inf"):
            raise InputError(f"--speed-up is {speed_up:g}; give a number above 0, such as 10")
        trial = _moves(made, workload, network, given, speed_up, seed)
    page = None if out is None else wrote(made, out, trial)
    if as_json:
        _print_json(made, trial)
    else:
        _print(made, trial, page)
    if breaches := getattr(trial, "breaches", ()):
        for breach in breaches[:BREACHES_SHOWN]:
            typer.echo(str(breach), err=True)
        raise typer.Exit(1)


# Running it.


def _moves(
    plan: MovesPlan,
    folder: Path | None,
    network: Path | None,
    given: dict[str, Any],
    speed_up: float,
    seed: int,
) -> Trial:
    from tidings.cli.research.simulate import Progress
    from tidings.records.workload_reading import Workload
    from tidings.sim.brokers import replay as replays
    from tidings.sim.plans import trial as plan_trials

    if folder is None:
        raise InputError("a plan of moves is tried with a workload; give the one it was made for: --workload")
    replay = replays.read(
        Workload(folder),
        given["--publish"],
        subscriptions=given["--subscriptions"],
        publications=given["--publications"],
        speed_up=speed_up,
    )
    if network is not None:
        replay = _on(replay, network)
    with Progress() as progress:
        return plan_trials.tried(plan, replay, seed, progress)


def _on(replay: Replay, network: Path) -> Replay:
    """The same workload on another network."""
    from dataclasses import replace

    from tidings.planning import topologies

    return replace(replay, topology=topologies.read(network))


def _stores(plan: StoresPlan, folder: Path | None, requests: Path | None) -> StoresTrial:
    from tidings.records.workload_reading import Workload
    from tidings.sim.plans import requests as plan_requests

    if (folder is None) == (requests is None):
        what = "both say" if folder is not None else "say"
        raise InputError(
            f"--workload and --requests {what} what is asked for; a plan of stores is tried with one of them"
        )
    asked = _listed(requests) if requests is not None else _asked(Workload(folder or Path()))
    return plan_requests.tried(plan, asked)


def _listed(path: Path) -> Iterator[Asked]:
    """Requests from lines topic,broker,requests."""
    total = 0.0
    for number, row in files.rows(path, ("topic", "broker", "requests")):
        if number == 1 and row == ["topic", "broker", "rate"]:
            continue  # a file of rates, of one second
        topic, broker = row[:2]
        count = files.numeral(path, number, row[2], "requests")
        if not 0 <= count < float("inf") or count != int(count):
            raise InputError(
                f"{path} has {count:g} requests for {topic!r} at {broker!r}; each is sent by itself, so give "
                "whole numbers from 0 up, such as a rate times some seconds"
            )
        total += count
        if total > REQUESTS_MAX:
            raise InputError(f"{path} has more than {REQUESTS_MAX:,} requests; give fewer seconds of them")
        for _ in range(int(count)):
            yield topic, broker


def _asked(workload: Workload) -> Iterator[Asked]:
    """Requests from the table of a workload, each at the broker of its client."""
    import numpy as np

    from tidings.records import workload as tables

    if not workload.has(tables.REQUESTS):
        raise InputError(
            f"{workload.folder} has no table {tables.REQUESTS!r}; give some with --requests FILE, or "
            "generate the workload with --set sizes.requests=1000"
        )
    table = workload.table(tables.REQUESTS)
    clients, topics = [], []
    for batch in table.batches(("client", "topic")):
        clients.append(batch.column("client").to_numpy())
        topics += batch.column("topic").to_pylist()
    numbers = np.concatenate(clients) if clients else np.zeros(0, np.int64)
    homes = workload.homes(workload.brokers(), numbers)
    for client, topic in zip(numbers.tolist(), topics, strict=True):
        yield topic, homes[client]


# Telling it.


def _print(plan: Plan, trial: AnyTrial, page: Path | None) -> None:
    from rich.console import Console

    from tidings.console import plan_tables, plan_words
    from tidings.sim.plans.trial import Trial

    console = Console()
    console.print(printed(plan_tables.compared(plan, trial)))
    if isinstance(trial, Trial):
        for name, steps, digits in (
            ("mean hops", trial.hops, 3),
            ("messages for each broker of the backbone", trial.backbone, 1),
            ("messages over all links", trial.over_links, 0),
        ):
            if steps:
                console.print(printed(plan_tables.steps(name, steps, digits)))
        console.print(printed(plan_tables.clusters(trial)))
    else:
        typer.echo(plan_words.NOT_BROKERS)
    for name, lines in plan_words.explained(trial):
        for line in lines:
            typer.echo(f"{name}: {line}")
    if isinstance(trial, Trial):
        typer.echo(plan_words.LINKS_COUNTED)
        typer.echo(f"Promises: {plan_words.verdict(trial)}.")
    if page is not None:
        typer.echo(f"the page is {page}")


def _print_json(plan: Plan, trial: AnyTrial) -> None:
    import msgspec

    from tidings.console import plan_words
    from tidings.planning.plans import StoresPlan

    told = asdict(trial) | {
        "kind": "stores" if isinstance(plan, StoresPlan) else "communities",
        "broker_code": not isinstance(plan, StoresPlan),
        "links": [{"a": a, "b": b, **_load(load)} for (a, b), load in trial.links.items()],
        "explained": dict(plan_words.explained(trial)),
    }
    typer.echo(msgspec.json.encode(told).decode())


def _load(load: Any) -> dict[str, Any]:
    if isinstance(load, tuple):
        return {"forecast": load[0], "measured": load[1]}
    return {"forecast": load.forecast, "measured": load.measured}
