"""`tidings view`: content filters that the network keeps for clients that cannot send one."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from tidings.cli.client import connection
from tidings.cli.topic.entries import ask, made_at, shown
from tidings.errors import DeclarationError
from tidings.language.regions import Unknown


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One level of a topic.")],
    topic_filter: Annotated[
        str, typer.Option("--from", metavar="FILTER", help="The topics that it looks at, as a topic filter.")
    ],
    where: Annotated[
        str, typer.Option("--where", metavar="FILTER", help="What it lets through of them; all by default.")
    ] = "",
    unknown: Annotated[
        Unknown, typer.Option("--unknown", help="What a term over a missing field counts as.")
    ] = Unknown.WAIT,
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="DURATION", help="How often a growing event is sent again at most."),
    ] = None,
    url: connection.Url = None,
    user: connection.User = None,
    authority: connection.Authority = None,
    certificate: connection.Certificate = None,
    key: connection.Key = None,
) -> None:
    """Add a view to the whole network, or change one.

    What passes it can then be had under view/NAME/TOPIC, by any client. The exit code is 2 if the view is
    wrong, 1 if the network refuses it.

    Try it:

        tidings view add severe --from 'traffic/#' --where 'severity >= 3' --every 30s
    """
    from tidings.language.views import View

    mapping = {"name": name, "from": topic_filter, "where": where, "unknown": unknown.value}
    if every is not None:
        mapping["every"] = every
    try:
        View.from_mapping(mapping)
    except DeclarationError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    shown(ask("$tidings/view/add", [mapping], url, user, authority, certificate, key))
    typer.echo(f"added {name}; subscribe to view/{name}/#")


def list_(
    as_json: Annotated[bool, typer.Option("--json", help="The answer as one JSON object.")] = False,
    url: connection.Url = None,
    user: connection.User = None,
    authority: connection.Authority = None,
    certificate: connection.Certificate = None,
    key: connection.Key = None,
) -> None:
    """Show the views that the network keeps.

    Try it:

        tidings view list
    """
    (answer,) = shown(ask("$tidings/view/list", [{}], url, user, authority, certificate, key))
    views: Any = answer.get("views", [])
    if as_json:
        typer.echo(json.dumps({"views": views}, ensure_ascii=False))
        return
    if not views:
        typer.echo("there is no view; add one with `tidings view add`", err=True)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for column in ("view", "from", "where", "unknown", "every", "version", "added at"):
        table.add_column(column, justify="right" if column == "version" else "left")
    for view in views:
        options = ("name", "from", "where", "unknown", "every", "version")
        said = [str(view.get(option, "")) for option in options]
        table.add_row(*said, made_at(view))
    Console().print(table)


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the view.")],
    url: connection.Url = None,
    user: connection.User = None,
    authority: connection.Authority = None,
    certificate: connection.Certificate = None,
    key: connection.Key = None,
) -> None:
    """Remove a view from the whole network; those who have subscribed to it get nothing more.

    Try it:

        tidings view remove severe
    """
    shown(ask("$tidings/view/remove", [{"name": name}], url, user, authority, certificate, key))
    typer.echo(f"removed {name}")
