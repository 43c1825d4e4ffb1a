"""`tidings topic`: look at a topic declaration."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tidings.errors import DeclarationError
from tidings.language.declarations import read_topic
from tidings.language.fields import path_text
from tidings.language.topics import Topic


def topic_of(name: str | None) -> Topic | None:
    """The declaration that a command was given; a wrong one ends the command with everything wrong in it."""
    if name is None:
        return None
    try:
        return read_topic(name)
    except DeclarationError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None


def check(
    declaration: Annotated[str, typer.Argument(metavar="DECL", help="A topic declaration, a TOML file.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Every option, defaults included, as JSON.")
    ] = False,
) -> None:
    """Check a topic declaration and show what it says, defaults included.

    All that is wrong is reported at once, with its line; the exit code is then 2.

    Try it:

        tidings topic check examples/traffic-athens.toml
    """
    topic = topic_of(declaration)
    assert topic is not None, "a declaration was given"
    mapping = topic.to_mapping()
    if as_json:
        typer.echo(json.dumps(mapping, ensure_ascii=False))
        return

    from rich.console import Console
    from rich.table import Table

    options = Table(title=f"topic {topic.name}", title_justify="left")
    options.add_column("option")
    options.add_column("value")
    for name, value in mapping.items():
        if name not in ("fields", "name"):
            options.add_row(name, json.dumps(value, ensure_ascii=False))
    fields = Table(title="fields", title_justify="left")
    for column in ("field", "type", "domain", "conflict", "tolerance"):
        fields.add_column(column)
    for path, field in topic.fields.items():
        fields.add_row(
            path_text(path),
            field.type,
            "" if field.domain is None else ", ".join(str(value) for value in field.domain),
            field.conflict,
            "" if field.tolerance is None else str(field.tolerance),
        )
    console = Console()
    console.print(options)
    console.print(fields)
