"""`tidings session`: what a broker keeps for MQTT clients."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Annotated

import typer

from tidings.errors import InputError
from tidings.local.network import NoAnswer, StateFile, ask
from tidings.service.values import read_address


def remove(
    clients: Annotated[list[str], typer.Argument(metavar="CLIENT...", help="Client ids.")],
    at: Annotated[
        list[str] | None,
        typer.Option("--at", metavar="HOST:PORT", help="HTTP address of a broker; may be repeated."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="The cluster token, for brokers elsewhere."),
    ] = None,
) -> None:
    """End sessions of MQTT clients: their subscriptions, and all that waits for them. A client that is
    connected is disconnected; its will is published.

    Brokers of the network on this machine are asked, or those at the addresses that are given. The exit code
    is 1 if none of them has a session for one of the clients, or one does not answer.

    Try it:

        tidings session remove meter-7 --at 127.0.0.1:9883
    """
    addresses = at or _here()
    for address in addresses:
        try:
            read_address(address)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    token = token_of(token_file)
    failed = False
    left = dict.fromkeys(clients)
    for address in addresses:
        try:
            status, told = ask(address, "/sessions", {"remove": clients}, token)
        except NoAnswer as reason:
            typer.echo(f"{address}: no answer: {reason}", err=True)
            failed = True
            continue
        if status not in (http.client.OK, http.client.NOT_FOUND) or "removed" not in told:
            typer.echo(f"{address}: {told.get('error', status)}", err=True)
            failed = True
            continue
        for client in told["removed"]:
            typer.echo(f"removed the session of {client!r} at {address}")
            left.pop(client, None)
    for client in left:
        typer.echo(f"no broker that answered has a session of {client!r}", err=True)
    raise typer.Exit(1 if failed or left else 0)


def _here() -> list[str]:
    state = StateFile().read()
    if state is None:
        raise InputError("no network of yours runs here; name the HTTP address of a broker with --at")
    return [member.http for member in state.members]


def token_of(file: Path | None) -> str:
    """The cluster token in a file; empty without one."""
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8").partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {getattr(error, 'strerror', error)}") from None
