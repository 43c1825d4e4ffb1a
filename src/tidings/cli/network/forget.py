"""`tidings forget`: a broker that will not come back."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tidings.cli.network.leave import part
from tidings.cli.network.session import token_of
from tidings.errors import InputError
from tidings.local.network import Member, NoAnswer, StateFile, ask
from tidings.service.values import read_address


def forget(
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="Its name, as `tidings status` shows it.")],
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="HOST:PORT", help="HTTP address of a broker of its network elsewhere."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="The cluster token, for brokers elsewhere."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as one JSON object.")] = False,
) -> None:
    """Tell the whole network that a broker is gone for good: nothing is held for it, nobody waits for it.

    All brokers of a network here are told, or one elsewhere, which tells the others; one that is away hears
    of it when it is back. In a network here the neighbours no longer dial the one that is gone. Should it
    come back, it joins as a new one, and its log says so: what its sessions ask for holds again, and what was
    published meanwhile was not held for it. A broker that runs is refused, since `tidings leave` lets it go
    without a loss.

    Try it, after a broker has died:

        tidings forget b3
    """
    if at is not None:
        try:
            read_address(at)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        told = _tell(broker, {at: at}, token_of(token_file))
    else:
        told = _here(broker)
    if as_json:
        typer.echo(json.dumps({"forgotten": broker, "told": told}))
    else:
        tell = "tell" if len(told) > 1 else "tells"
        names = ", ".join(told)
        typer.echo(f"{broker} is forgotten: {names} {tell} the network, which holds nothing for it any more")


def _here(broker: str) -> list[str]:
    file = StateFile()
    state = file.read()
    if state is None:
        raise InputError("no network of yours runs here; name the HTTP address of a broker with --at")
    gone = next((one for one in state.members if one.id == broker), None)
    if gone is not None and gone.alive:
        raise InputError(f"{broker} runs here; `tidings leave {broker}` lets it go without a loss")
    others: list[Member] = [one for one in state.members if one.alive]
    told = _tell(broker, {one.http: one.id for one in others})
    if gone is not None:
        for other in others:
            part(other, gone)
        file.remove(broker)
    return told


def _tell(broker: str, names: Mapping[str, str], token: str = "") -> list[str]:
    """Tell all brokers at these addresses, since one may still hold something when others do not any more;
    the names of those that knew the one that is gone.
    """
    reasons, knew = [], []
    for address, name in names.items():
        try:
            status, told = ask(address, "/forget", {"broker": broker}, token)
        except NoAnswer as reason:
            reasons.append(f"{address}: no answer: {reason}")
            continue
        if status == http.client.OK:
            knew.append(name)
        else:
            reasons.append(_error(told, status))
        if status not in (http.client.OK, http.client.NOT_FOUND):
            break
    if not knew:
        typer.echo(reasons[-1] if reasons else "no broker runs that could be told", err=True)
        raise typer.Exit(1)
    return knew


def _error(told: Any, status: int) -> str:
    return str(told.get("error", status)) if isinstance(told, dict) else str(status)
