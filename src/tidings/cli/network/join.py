"""`tidings join`: one more broker."""

from __future__ import annotations

import os
import shlex
import socket
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidings.cli.network.topologies import name_fault
from tidings.errors import ConfigurationError, InputError
from tidings.local import network
from tidings.local.network import LOOPBACK, Member, State, StateFile, free_ports, view
from tidings.service.values import read_address

READY_WITHIN_S = 60.0
NEIGHBOURS = 2
"""With how many a broker is linked where nobody says it: one may go, and it is still there."""


def join(
    address: Annotated[
        str | None,
        typer.Argument(metavar="[HOST:PORT]", help="A broker to link with, here or elsewhere."),
    ] = None,
    id_: Annotated[str | None, typer.Option("--id", help="The new broker's name.")] = None,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="BROKER", help="A broker here to link with; may be repeated."),
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="DIR", help="Elsewhere: folder for what must survive.")
    ] = None,
    name: Annotated[str | None, typer.Option("--network", help="Elsewhere: the network's name.")] = None,
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="Elsewhere: the cluster token.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Here: the answer as one JSON object.")] = False,
) -> None:
    """Add a broker to the network that runs here, in the background; or to any other, in the foreground.

    Without an address, or with that of a broker of the network that `tidings up` started, the new broker
    becomes part of it; with the name of one that died, that one is started again. With another address it
    runs here, linked with the broker there, until Ctrl-C. It listens on this machine alone; `tidings broker`
    is for more.

    Try it:

        tidings join 127.0.0.1:7883
    """
    if address is not None:
        try:
            read_address(address)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    file = StateFile()
    state = file.read()
    if state is not None and (address is None or address in {one.address for one in state.members}):
        _join_here(file, state, address, id_, to or [], as_json)
    elif address is None:
        raise InputError(
            "no network of yours runs here; start one with `tidings up`, or name an address to join"
        )
    else:
        _join_elsewhere(address, id_, data, name, token_file)


def _join_here(
    file: StateFile, state: State, address: str | None, id_: str | None, to: list[str], as_json: bool
) -> None:
    known = {one.id: one for one in state.members}
    if id_ in known and not known[id_].alive:
        # It was there before: with its own data, ports and neighbours.
        member = msgspec.structs.replace(known[id_], leaving=False)
    else:
        member = _new_member(file, address, id_, to)
    (member,) = network.spawn([member])
    file.put(member)
    shown = view(member)

    def joined() -> bool:
        nonlocal shown
        shown = view(member)
        return (shown.state == "ready" and bool(shown.links)) or not member.alive

    if not network.wait_for(joined, READY_WITHIN_S) or not member.alive:
        network.stop([member])
        typer.echo(f"{member.id} does not become ready ({shown.state}); its log is {member.log}", err=True)
        if member.id not in known:
            file.remove(member.id)
        raise typer.Exit(1)
    if as_json:
        typer.echo(msgspec.json.encode(shown).decode())
    else:
        typer.echo(f"{member.id} has joined: MQTT at {member.mqtt}, linked with {', '.join(shown.links)}")
        typer.echo(f"\n  curl http://{member.http}/health\n  tidings status")
        typer.echo(f"  tidings leave {shlex.quote(member.id)}")


def _new_member(file: StateFile, address: str | None, id_: str | None, to: list[str]) -> Member:
    """A broker with a name and ports of its own, written down before anybody else can take them."""
    made: list[tuple[Member, list[str]]] = []

    def how(state: State) -> State:
        member = _named(state, id_)
        neighbours = [state.member(one).address for one in to] + ([] if address is None else [address])
        linked = [one.address for one in state.members if one.alive and not one.leaving]
        made.append((member, neighbours or linked[:NEIGHBOURS]))
        return msgspec.structs.replace(state, members=(*state.members, member))

    state = file.change(how)
    ((member, neighbours),) = made
    network.write_config(member, neighbours, Path(state.data) / "records", state.settings)
    return member


def _named(state: State, id_: str | None) -> Member:
    known = {one.id for one in state.members}
    folder = Path(state.data)
    if id_ is None:
        # A name that was used before, by one that left, has its folder still.
        names = (f"b{number}" for number in range(1, 10_000))
        id_ = next(name for name in names if name not in known and not (folder / name).exists())
    elif id_ in known:
        raise InputError(f"the broker {id_!r} runs already; give the new one another name")
    if fault := name_fault(id_):
        raise InputError(fault)
    taken = {port for one in state.members for port in one.ports}
    first = min(read_address(one.mqtt)[1] for one in state.members)
    bases = {
        name: min(read_address(one.others[name])[1] for one in state.members)
        for name in state.members[0].others
    }
    (member,) = network.members(folder, [id_], first, bases, taken)
    return member


def _join_elsewhere(
    address: str, id_: str | None, data: str | None, name: str | None, token_file: str | None
) -> None:
    from tidings.live import service
    from tidings.service import logs
    from tidings.service.config import load

    mqtt, port, http = free_ports(3)
    flags = {
        "id": id_ or f"{socket.gethostname()}-{port}",
        "listen": f"{LOOPBACK}:{port}",
        "mqtt": f"{LOOPBACK}:{mqtt}",
        "anonymous": True,
        "http": f"{LOOPBACK}:{http}",
        "neighbours": [address],
        "data": data,
        "network": name,
        "token_file": token_file,
    }
    try:
        configuration = load(None, os.environ, flags)
    except ConfigurationError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{flags['id']} takes MQTT clients at {flags['mqtt']}, this machine alone; Ctrl-C stops it")
    typer.echo(f"\n  curl http://{flags['http']}/ready\n  tidings status {flags['http']}\n")
    logs.configure(
        configuration["log_level"], configuration["log_format"], secrets=[configuration.settings.token]
    )
    reasons = service.run([configuration])
    raise typer.Exit(1 if any(reasons.values()) else 0)
