"""The examples that help texts give, and the files that they name."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import typer

from tidings.cli import LazyCommand, app

EXAMPLES = Path(__file__).parents[2] / "examples"


def commands() -> dict[str, Any]:
    """Every command that `tidings --help` leads to, by its name."""
    found: dict[str, Any] = {}

    def walk(words: tuple[str, ...], command: Any) -> None:
        if isinstance(command, LazyCommand):
            found[" ".join(words)] = command.loaded()
        for word, inner in getattr(command, "commands", {}).items():
            walk((*words, word), inner)

    walk((), typer.main.get_command(app))
    return found


def example(command: Any) -> list[str]:
    """The arguments of the example in the help of a command; empty if there is none."""
    text = (command.help or "").partition("Try it:")[2]
    return shlex.split(text.replace("\\\n", " "))[1:]


def own_files(folder: Path) -> None:
    """Put into a folder the files that examples take for a user's own."""
    for file in [*EXAMPLES.glob("*.*"), *EXAMPLES.glob("plans/*.*")]:
        (folder / file.name).symlink_to(file)
