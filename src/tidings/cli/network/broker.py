"""`tidings broker`: run a broker in the foreground."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.errors import ConfigurationError

if TYPE_CHECKING:
    from tidings.service.config import Configuration


def broker(
    config: Annotated[
        list[Path] | None,
        typer.Option(
            "--config", metavar="FILE", help="A TOML file with settings; several run several brokers here."
        ),
    ] = None,
    id_: Annotated[str | None, typer.Option("--id", help="The broker's name.")] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="Where other brokers connect.")
    ] = None,
    mqtt: Annotated[
        str | None, typer.Option("--mqtt", metavar="HOST:PORT", help="Where MQTT clients connect, or off.")
    ] = None,
    anonymous: Annotated[
        bool | None,
        typer.Option("--anonymous/--no-anonymous", help="Whether clients without a name may connect."),
    ] = None,
    users_file: Annotated[
        str | None, typer.Option("--users-file", metavar="FILE", help="Users and their passwords.")
    ] = None,
    access_file: Annotated[
        str | None, typer.Option("--access-file", metavar="FILE", help="Rules who may do what.")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option("--advertise", metavar="HOST:PORT", help="The address that others dial.")
    ] = None,
    neighbour: Annotated[
        list[str] | None,
        typer.Option("--neighbour", metavar="HOST:PORT", help="A broker to link with; may be repeated."),
    ] = None,
    network: Annotated[str | None, typer.Option("--network", help="The network's name.")] = None,
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="The cluster token is in this file.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="DIR", help="Folder for what must survive a restart.")
    ] = None,
    records: Annotated[
        str | None, typer.Option("--records", metavar="DIR", help="Folder for records, or off.")
    ] = None,
    http: Annotated[
        str | None, typer.Option("--http", metavar="HOST:PORT", help="Health, metrics and status, or off.")
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topics", metavar="DECL", help="A topic declaration; may be repeated."),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option("--log-level", help="debug, info, warning or error.")
    ] = None,
    log_format: Annotated[str | None, typer.Option("--log-format", help="auto, json or text.")] = None,
    assigned: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting; may be repeated."),
    ] = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="List every setting with its value here, and leave.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Check the settings, and leave.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --settings: one JSON object.")] = False,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C, which drain it: nothing acknowledged is lost, links say goodbye.

    SIGHUP reads users, access rules and certificates again.

    Settings come from a file, from TIDINGS_… variables and from flags, the later winning over the earlier;
    `--settings` lists them. All that is wrong with them is said at once, and the exit code is 2.
    It is 1 when a broker had to stop for another reason than being asked to.

    Try it:

        tidings broker --id athens-1 --mqtt 127.0.0.1:0 --anonymous --listen 127.0.0.1:0 --check
    """
    flags: dict[str, object] = {
        "id": id_,
        "listen": listen,
        "mqtt": mqtt,
        "anonymous": anonymous,
        "users_file": users_file,
        "access_file": access_file,
        "advertise": advertise,
        "neighbours": neighbour or None,
        "network": network,
        "token_file": token_file,
        "data": data,
        "records": records,
        "http": http,
        "topics": topics or None,
        "log_level": log_level,
        "log_format": log_format,
    }
    if settings:
        show_settings(config, flags, assigned or [], as_json)
        return
    configurations = _loaded(config or [None], flags, assigned or [])
    if check:
        from tidings.live.service import options_of

        for one in configurations:
            options_of(one)  # raises, with what is wrong with users and rules
            for warning in one.warnings:
                typer.echo(f"{one['id']}: {warning}", err=True)
            typer.echo(f"{one['id']}: the settings are fine")
        return

    from tidings.live import service
    from tidings.service import logs

    first = configurations[0]
    logs.configure(
        first["log_level"], first["log_format"], secrets=[one.settings.token for one in configurations]
    )
    reasons = service.run(configurations)
    raise typer.Exit(1 if any(reasons.values()) else 0)


def _loaded(
    files: Sequence[Path | None], flags: dict[str, object], assigned: list[str]
) -> list[Configuration]:
    from tidings.service.config import load

    found: list[Configuration] = []
    problems: list[str] = []
    for file in files:
        try:
            found.append(load(file, os.environ, flags, assigned))
        except ConfigurationError as error:
            problems += error.problems
    ids = [one["id"] for one in found]
    problems += [
        f"settings: two brokers have the id {one!r}" for one in sorted(set(ids)) if ids.count(one) > 1
    ]
    if problems:
        # What all files share is said once.
        typer.echo("\n".join(dict.fromkeys(problems)), err=True)
        raise typer.Exit(2)
    return found


def show_settings(
    files: list[Path] | None, flags: dict[str, object], assigned: list[str], as_json: bool
) -> None:
    """Every setting, with its value as file, variables and flags make it, and its default."""
    from tidings.service.config import SETTINGS, TABLE

    # Whoever only wants to see the list need not name a broker.
    flags = {**flags, "id": flags["id"] or ("" if files or "TIDINGS_ID" in os.environ else "unnamed") or None}
    (configuration,) = _loaded(files[:1] if files else [None], flags, assigned)
    values = configuration.shown()
    if as_json:
        typer.echo(
            json.dumps(
                {
                    name: {
                        "value": values[name],
                        "default": setting.default_text,
                        "variable": setting.variable,
                        "form": setting.kind.form.replace("`", ""),
                        "meaning": setting.meaning,
                    }
                    for name, setting in SETTINGS.items()
                },
                ensure_ascii=False,
            )
        )
        return

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for heading, rows in TABLE.items():
        table = Table(title=heading, title_justify="left", expand=False)
        for column in ("setting", "value", "variable", "meaning"):
            table.add_column(column, no_wrap=column == "setting")
        for row in rows:
            said = values[row.name] != row.default_text
            value = Text(values[row.name], style="bold" if said else "")
            table.add_row(row.name, value, row.variable, row.meaning.replace("`", ""))
        console.print(table)
