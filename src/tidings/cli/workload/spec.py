"""`tidings workload spec`: the spec of a workload, every key explained, to start from or to check one."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from tidings.errors import InputError


def spec(
    path: Annotated[
        Path | None, typer.Argument(metavar="[SPEC]", help="A spec, a TOML file; the default if left out.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key to set, such as removal.top=24; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, without explanations.")] = False,
) -> None:
    """Print the spec of a workload as TOML, with what each key means.

    A spec that is given is checked, with the files that it names, and printed with all that it leaves out.
    What is wrong with it is reported at once; the exit code is then 2.

    Try it:

        tidings workload spec --set removal.top=24
    """
    from tidings.workload import explaining, making, reading

    read = reading.read(path, changed(changes or []))
    if path is not None:
        # Hierarchies, counts and a matrix may be wrong as well, or not fit each other.
        making.make(read)
    if as_json:
        typer.echo(json.dumps(tomllib.loads(reading.written(read)), ensure_ascii=False))
    else:
        typer.echo(explaining.explained(read), nl=False)


def changed(settings: list[str], option: str = "--set", example: str = "removal.top=24") -> dict[str, str]:
    """Texts by key, from KEY=VALUE; of a key that is set twice the last wins."""
    found: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise InputError(f"{option} {setting!r} is not KEY=VALUE; write it as {option} {example}")
        found[key.strip()] = value.strip()
    return found
