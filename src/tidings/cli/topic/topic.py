"""`tidings topic`: check a declaration, and see or change what the network has declared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.client import connection
from tidings.cli.topic.entries import ask, made_at, shown
from tidings.errors import DeclarationError
from tidings.language.fields import path_text

if TYPE_CHECKING:
    from tidings.language.topics import Topic


def topic_of(name: str | None) -> Topic | None:
    """The declaration that a command was given; a wrong one ends the command with everything wrong in it."""
    from tidings.language.declarations import read_topic

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

        tidings topic check traffic-athens.toml
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


def declare(
    declarations: Annotated[
        list[str], typer.Argument(metavar="DECL...", help="Topic declarations, TOML files.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Also what breaks those who use the topic now.")
    ] = False,
    url: connection.Url = None,
    user: connection.User = None,
    authority: connection.Authority = None,
    certificate: connection.Certificate = None,
    key: connection.Key = None,
) -> None:
    """Declare topics to the whole network, or change what is declared.

    All files are checked before anything is sent; the exit code is 2 if one is wrong. The network takes each
    by itself; those that it refuses are said on standard error, and the exit code is 1.

    Try it:

        tidings topic declare traffic-athens.toml
    """
    texts = _read_all(declarations)
    bodies = [{"text": text, "force": force} for text, _ in texts]
    answers = ask("$tidings/topic/declare", bodies, url, user, authority, certificate, key)
    for file, (_, topic), answer in zip(declarations, texts, answers, strict=True):
        if not answer["ok"]:
            typer.echo(f"{file}: {answer.get('reason')}", err=True)
            continue
        typer.echo(f"declared {topic.name}")
    raise typer.Exit(0 if all(answer["ok"] for answer in answers) else 1)


def _read_all(files: list[str]) -> list[tuple[str, Topic]]:
    from tidings.language.declarations import parse_topic, read_text

    found, wrong = [], []
    for file in files:
        try:
            text = read_text(file)
            found.append((text, parse_topic(text, file)))
        except DeclarationError as error:
            wrong.append(str(error))
    if wrong:
        typer.echo("\n".join(wrong), err=True)
        raise typer.Exit(2)
    return found


def list_(
    as_json: Annotated[bool, typer.Option("--json", help="The answer as one JSON object.")] = False,
    url: connection.Url = None,
    user: connection.User = None,
    authority: connection.Authority = None,
    certificate: connection.Certificate = None,
    key: connection.Key = None,
) -> None:
    """Show the topics that the network has declared.

    Try it:

        tidings topic list
    """
    (answer,) = shown(ask("$tidings/topic/list", [{}], url, user, authority, certificate, key))
    topics: Any = answer.get("topics", [])
    if as_json:
        typer.echo(json.dumps({"topics": topics}, ensure_ascii=False))
        return
    if not topics:
        typer.echo("no topic is declared; all are plain, and any may be used", err=True)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for column in ("topic", "kind", "fields", "version", "declared at"):
        table.add_column(column, justify="right" if column in ("fields", "version") else "left")
    for topic in topics:
        fields, version = str(topic["fields"]), str(topic["version"])
        table.add_row(topic["name"], topic["kind"], fields, version, made_at(topic))
    Console().print(table)


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The name as declared, its topic filter, or a topic that it governs."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="The answer as one JSON object.")] = False,
    url: connection.Url = None,
    user: connection.User = None,
    authority: connection.Authority = None,
    certificate: connection.Certificate = None,
    key: connection.Key = None,
) -> None:
    """Print a declaration as it was given, ready to be changed and declared again.

    A topic without a declaration of its own, such as `fleet/v7/status`, is governed by the most specific one
    that matches it, such as `fleet/+vehicle/status`: that one is printed, and named on standard error.

    Of a gathered topic comments behind it say which broker gathers and which is its deputy, how many events
    are open there, what was received and told, and which share of the reports was suppressed: redundant, or
    merged into an event. The counts are the seat's, as far as the broker that is asked has heard of them.

    Try it:

        tidings topic show traffic/athens
    """
    (answer,) = shown(ask("$tidings/topic/show", [{"name": name}], url, user, authority, certificate, key))
    topic: Any = answer["topic"]
    gathered: Any = answer.get("gathered", [])
    if as_json:
        typer.echo(json.dumps(topic | ({"gathered": gathered} if gathered else {}), ensure_ascii=False))
        return
    if topic["name"] != name:
        typer.echo(f"{name} is governed by the declaration {topic['name']}", err=True)
    # What an earlier `show` said may have been declared again with the rest.
    typer.echo(topic["text"].partition(NOW)[0].rstrip("\n"))
    if gathered:
        typer.echo("\n" + NOW.lstrip("\n") + "".join(f"#   {line}\n" for line in seats(gathered)), nl=False)


NOW = "\n# Gathered now:\n"
"""Begins what is said of a topic behind its declaration."""


def seats(gathered: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What is known of the seats of a topic, in lines."""
    for seat in gathered:
        if not seat["seat"]:
            yield f"no seat is known yet; {seat['waiting']:,} reports wait at the broker that was asked"
            continue
        yield f"seat {seat['seat']}, deputy {seat['deputy'] or 'none'}; open events: {seat['open']:,}"
        # A seat counts from when it came to its broker.
        yield (
            f"reports since {seat['seat']} has the seat: {seat['received']:,} received, of which "
            f"{seat['opened']:,} opened an event, {seat['merged']:,} merged, {seat['redundant']:,} were "
            f"redundant, {seat['refused']:,} refused; conflicts: {seat['conflicts']:,}"
        )
        yield (
            f"versions told: {seat['told']:,}; events closed: {seat['closed']:,}; suppressed: "
            f"{seat['suppression']:.1%} of the reports; waiting here: {seat['waiting']:,}"
        )


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name as declared.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also if that breaks those who use the topic now.")
    ] = False,
    url: connection.Url = None,
    user: connection.User = None,
    authority: connection.Authority = None,
    certificate: connection.Certificate = None,
    key: connection.Key = None,
) -> None:
    """Remove a declaration from the whole network; the topic can be used on, as any that is not declared.

    Try it:

        tidings topic remove traffic/athens --force
    """
    body = {"name": name, "force": force}
    shown(ask("$tidings/topic/remove", [body], url, user, authority, certificate, key))
    typer.echo(f"removed {name}")
