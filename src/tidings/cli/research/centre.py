"""`tidings centre`: where on a tree of brokers a seat belongs, found by the brokers' own search."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tidings.errors import InputError
from tidings.language.topics import Strategy

if TYPE_CHECKING:
    from rich.table import Table

    from tidings.sim.gathering.centres import Found, Tree

ECCENTRICITIES_SHOWN = 20
"""Brokers whose eccentricity is shown one by one; beyond, how many have which."""


def centre(
    edges: Annotated[
        str,
        typer.Option(
            "--edges",
            metavar="FILE|-",
            help="The tree: CSV lines a,b, one link each; a line with one field is a broker without links.",
        ),
    ],
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            metavar="|".join(Strategy),
            help="The nearest to the farthest, the nearest to all, or the nearest to the traffic.",
        ),
    ] = Strategy.CENTRE.value,
    protocol: Annotated[
        str,
        typer.Option(
            "--protocol",
            metavar="report|paper",
            help="One last word per link and direction, or the messages as published, for centres only.",
        ),
    ] = "report",
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="FILE|-",
            help="For traffic: CSV lines broker,weight; who is not named weighs 1.",
        ),
    ] = None,
    delay_jitter: Annotated[
        float,
        typer.Option(
            "--delay-jitter", metavar="SHARE", help="By how much delays differ, as a share: 0.05 for 5%."
        ),
    ] = 0.0,
    fifo: Annotated[
        bool,
        typer.Option(
            "--fifo/--no-fifo", help="Whether messages on a link keep their order, whatever the jitter."
        ),
    ] = True,
    initiators: Annotated[
        int, typer.Option("--initiators", metavar="N", help="How many brokers begin at once.")
    ] = 1,
    seed: Annotated[int, typer.Option("--seed", help="Draws the initiators and the delays.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="One object instead of tables.")] = False,
) -> None:
    """Find where on a tree of brokers the seat of a gathered topic belongs.

    Runs the search that brokers run, by messages between neighbours alone, in virtual time, and counts its
    messages. A message takes one unit of time over a link.

    Try it:

        tidings centre --edges tree.csv --strategy median
    """
    if edges == "-" and weights == "-":
        raise InputError("--edges and --weights both read standard input; give a file for one of them")
    if weights is not None and strategy != Strategy.TRAFFIC:
        raise InputError(f"--weights are for --strategy traffic, and it is {strategy}; leave them out")
    from tidings.sim.gathering import centres

    tree = centres.read_tree(*_lines(edges))
    weighed = centres.read_weights(*_lines(weights), tree) if weights is not None else None
    found = centres.find(
        tree,
        strategy,
        protocol=protocol,
        weights=weighed,
        initiators=initiators,
        jitter=delay_jitter,
        fifo=fifo,
        seed=seed,
    )
    if json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        _show(tree, found, strategy, protocol, initiators)


def _lines(file: str) -> tuple[list[str], str]:
    """The lines of a file, and how it is called."""
    name = "standard input" if file == "-" else file
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return text.decode().split("\n"), name
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{name} is not UTF-8; write ids in that") from None


def _show(tree: Tree, found: Found, strategy: str, protocol: str, initiators: int) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from tidings.sim.gathering import centres

    console = Console()
    links = len(tree) - 1
    overview = Table(title="Search for the seat", show_header=False)
    for title, value in (
        ("brokers, links, leaves", f"{len(tree):,}, {links:,}, {centres.leaves(tree):,}"),
        ("centres", ", ".join(found.centres)),
        (f"seat ({strategy})", found.seat),
        ("its eccentricity", f"{found.eccentricity[found.seat]:,}"),
        ("known to all at", f"{found.time:,.2f}"),
    ):
        overview.add_row(title, escape(value))
    console.print(overview)
    if links:
        console.print(_counts(tree, found, protocol, initiators))
    if protocol == "paper":
        published = centres.published_bound(tree)
        verdict = "holds here" if found.total <= published else "does not hold here"
        console.print(f"The published bound, (L + 4)(M - 1) = {published:,}, {verdict}.")
    console.print(_eccentricities(found))


def _counts(tree: Tree, found: Found, protocol: str, initiators: int) -> Table:
    from rich.table import Table

    from tidings.sim.gathering import centres

    links = len(tree) - 1
    most = centres.bounds(tree, protocol, initiators=initiators, centres=len(found.centres))
    counts = Table(title=f"Messages of protocol {protocol}", show_footer=True)
    counts.add_column("phase", footer="all")
    for column, numbers in (("sent", found.messages), ("at most", most)):
        counts.add_column(column, justify="right", footer=f"{sum(numbers.values()):,}")
    counts.add_column("per link", justify="right", footer=f"{found.total / links:.2f}")
    for phase, sent in found.messages.items():
        if sent or most[phase]:
            counts.add_row(phase, f"{sent:,}", f"{most[phase]:,}", f"{sent / links:.2f}")
    return counts


def _eccentricities(found: Found) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Eccentricities")
    if len(found.eccentricity) <= ECCENTRICITIES_SHOWN:
        rows = [(escape(broker), links) for broker, links in found.eccentricity.items()]
        titles = ("broker", "links to the farthest")
    else:
        values = sorted(found.eccentricity.values())
        rows = [(f"{links:,}", values.count(links)) for links in dict.fromkeys(values)]
        titles = ("links to the farthest", "brokers")
    table.add_column(titles[0])
    table.add_column(titles[1], justify="right")
    for title, value in rows:
        table.add_row(title, f"{value:,}")
    return table
