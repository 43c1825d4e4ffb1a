"""What `tidings topic` and `tidings view` have in common: requests to the network, and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer

from tidings.cli.client import connection

Answer = Mapping[str, object]


def ask(topic: str, bodies: Sequence[Answer], *where: str | None) -> list[Answer]:
    """The answers to requests of one kind, made one after another; `where` is for `connecting.network`."""

    async def all_of_them() -> list[Answer]:
        async with connection.network(*where) as network:
            return [await network.request(topic, body) for body in bodies]

    answers = connection.run(all_of_them())
    if answers is None:
        raise typer.Exit(1)
    return answers


def shown(answers: Sequence[Answer]) -> Sequence[Answer]:
    """Answers, all of them yes: a no is said on standard error and ends the command."""
    for answer in answers:
        if not answer["ok"]:
            typer.echo(str(answer.get("reason")), err=True)
            raise typer.Exit(1)
    return answers


def made_at(entry: Answer) -> str:
    """Where an entry was made, for people to read."""
    return f"broker {entry['broker']}" if entry["broker"] else "a file"
