"""The command `tidings`: one module per command.

A command reads what a person or a program gives it, calls the folders below, and shows the answer: a table
for people, JSON for programs. Exit codes are the same everywhere: 0 all is well (or the answer is yes), 1
part of the input was refused (or the answer is no), 2 the call itself is wrong.
"""

from __future__ import annotations

import sys

import typer

from tidings import __version__, installation
from tidings.cli import filter as filter_command
from tidings.cli import match as match_command
from tidings.cli import topic as topic_command
from tidings.errors import TidingsError

EPILOG = (
    "Words such as seat, told or cover are explained in docs/glossary.md; "
    "every command, with examples, in docs/cli.md."
)

app = typer.Typer(
    name="tidings",
    help="Content-based publish/subscribe for events that people and machines report imperfectly.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("match", epilog=EPILOG)(match_command.match)
app.add_typer(filter_command.app, name="filter", epilog=EPILOG)
app.add_typer(topic_command.app, name="topic", epilog=EPILOG)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tidings-network {__version__}")
        raise typer.Exit


@app.callback()
def tidings(
    version: bool = typer.Option(
        False, "--version", help="Show the version and leave.", callback=_version, is_eager=True
    ),
) -> None:
    """Content-based publish/subscribe for events that people and machines report imperfectly."""


def main() -> None:
    """What the installed command runs."""
    try:
        installation.check()
        app()
    except TidingsError as error:
        sys.exit(f"tidings: {error}")
