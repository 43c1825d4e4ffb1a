"""`tidings down`: stop the network that runs on this machine."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from tidings.local.network import STOP_WITHIN_S, StateFile, stop, wait_for


def down(
    as_json: Annotated[bool, typer.Option("--json", help="The answer as one JSON object.")] = False,
) -> None:
    """Stop the network that `tidings up` started: brokers pass on what they have, and end.

    Only processes that it started are signalled. Where none runs there is nothing to do, and the exit code is
    0 too; it is 1 if a broker did not stop and had to be killed.

    Try it:

        tidings down
    """
    import json

    file = StateFile()
    state = file.read()
    killed: list[str] = []
    if state is not None:
        members = [member for member in state.members if member.alive]
        state.supervisor.signal(signal.SIGTERM)
        wait_for(lambda: not state.supervisor.alive, STOP_WITHIN_S + 5)
        state.supervisor.signal(signal.SIGKILL)
        # What it could not stop, or was not there to stop.
        killed = stop(members)
    file.clear()
    stopped = [] if state is None else [member.id for member in state.members]
    if as_json:
        typer.echo(json.dumps({"stopped": stopped, "killed": killed}))
    elif state is None:
        typer.echo("no network of yours runs here; there is nothing to stop")
    else:
        kept = "" if state.temporary else f"; its data is still in {state.data}"
        typer.echo(f"stopped {', '.join(stopped)}{kept}")
        if killed:
            typer.echo(f"{', '.join(killed)} did not stop in time and had to be killed", err=True)
    raise typer.Exit(1 if killed else 0)
