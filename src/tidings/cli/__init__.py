"""The command `tidings`: one module per command.

A command reads what a person or a program gives it, calls the folders below, and shows the answer: a table
for people, JSON for programs. Exit codes are the same everywhere: 0 all is well (or the answer is yes), 1
part of the input was refused (or the answer is no), 2 the call itself is wrong. Only for `tidings gather`
what is refused is part of the answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand

from tidings import installation
from tidings.cli.commands import COMMANDS, GROUPS
from tidings.errors import TidingsError

EPILOG = (
    "The documentation is in the source of Tidings. Its glossary explains words such as seat, told or cover; "
    "its page on the command line has every command, with examples."
)


class LazyCommand(TyperCommand):
    """A command whose module is imported when it is called, or when its own help is asked for."""

    def loaded(self) -> Any:
        """The command itself, with its options and its whole help."""
        assert self.callback is not None
        alone = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False)
        alone.command(self.name, epilog=EPILOG)(self.callback())
        return typer.main.get_command(alone)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        return self.loaded().make_context(*args, **extra)


def _loader(home: str) -> Callable[[], Callable[..., None]]:
    """What a `LazyCommand` calls to get at its function."""
    module, _, function = home.partition(":")

    def load() -> Callable[..., None]:
        found: Callable[..., None] = getattr(import_module(f"tidings.cli.{module}"), function)
        return found

    return load


app = typer.Typer(
    name="tidings",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_groups = {name: typer.Typer(help=text, no_args_is_help=True) for name, text in GROUPS.items()}
for _name, (_home, _text) in COMMANDS.items():
    _group, _, _word = _name.rpartition(" ")
    _groups.get(_group, app).command(_word, cls=LazyCommand, help=_text)(_loader(_home))
app.command("center", cls=LazyCommand, hidden=True)(_loader(COMMANDS["centre"][0]))
for _name, _typer in _groups.items():
    app.add_typer(_typer, name=_name, epilog=EPILOG)


def _version(asked: bool) -> None:
    if asked:
        # Here, because the file of another package in place of ours has none, and `main` says so.
        from tidings import __version__

        typer.echo(f"tidings-network {__version__}")
        raise typer.Exit


@app.callback()
def tidings(
    version: bool = typer.Option(
        False, "--version", help="Show the version and leave.", callback=_version, is_eager=True
    ),
) -> None:
    """Content-based publish/subscribe for events that people and machines report imperfectly.

    Try it:

        tidings filter explain "severity >= 3 AND road IN ('A1', 'A2')"
    """


def main() -> None:
    """What the installed command runs."""
    try:
        installation.check()
        app()
    except TidingsError as error:
        _refuse(error)
    except ModuleNotFoundError as error:
        # An extra is missing. A command that works for long before it needs one calls `installation.need`.
        package = (error.name or "").partition(".")[0]
        if package not in installation.EXTRAS:
            raise
        _refuse(installation.absent("this command", package))


def _refuse(error: TidingsError) -> NoReturn:
    typer.echo(f"tidings: {error}", err=True)
    sys.exit(2)
