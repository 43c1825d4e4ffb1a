"""`tidings bench --workload`: the subscriptions and publications of a workload as a load."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tidings.cli.client import connection
from tidings.cli.client.bench import Target, counted, reached, show, watched
from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.load.replay import Replay

OPTIONS = ("topics", "messages", "rate", "duration", "mixed", "size", "where")
"""What a workload says itself."""


def bench(
    folder: Path,
    to: Target,
    *,
    publish: str | None,
    publishers: int,
    subscribers: int | None,
    subscriptions: int | None,
    publications: int | None,
    speed_up: float | None,
    qos: int,
    v5: bool,
    as_json: bool,
) -> int:
    """Carry it out and show what became of it; the exit code."""
    import uvloop

    from tidings.load import replay as replays
    from tidings.mqtt.packets import Version
    from tidings.records.workload_reading import Workload

    if speed_up is not None and not 0 < speed_up < float("inf"):
        raise InputError(f"--speed-up is {speed_up:g}; give a number above 0, or leave it out")
    made = replays.prepare(
        Workload(folder),
        publish=publish,
        publishers=publishers,
        subscribers=subscribers,
        subscriptions=subscriptions,
        publications=publications,
    )
    addresses, context = reached(to)
    made = replace(
        made,
        addresses=addresses,
        context=context,
        qos=qos,
        speed_up=speed_up or 0.0,
        version=Version.V5 if v5 else Version.V311,
    )
    with watched(len(made.payloads), None) as watch:
        done = connection.run(replays.run(made, to.pids, watch), uvloop.new_event_loop)
    if done is None:
        return 1
    outcome, content = done
    if as_json:
        typer.echo(json.dumps({**_value(made, content), **counted(outcome)}))
    else:
        filters = sum(len(one.wheres) for group in made.wanted for one in group)
        typer.echo(
            f"{made.publishers} publishers, {made.subscribers} subscribers, "
            + (f"{filters} content filters" if content else "no content filters")
            + f", {'reports' if made.reports else 'events'}, QoS {qos}"
            + (f", {made.speed_up:g} times as fast as it happened" if made.speed_up else "")
        )
        show(outcome, bool(made.speed_up) or not made.subscribers, "--speed-up")
        if made.reports:
            typer.echo("          of reports nobody knows how many versions of events they become")
    return 1 if outcome.lost else 0


def _value(made: Replay, content: bool) -> dict[str, object]:
    """What was asked for, as one object."""
    return {
        "publishers": made.publishers,
        "subscribers": made.subscribers,
        "published": "reports" if made.reports else "events",
        "content_filters": sum(len(one.wheres) for group in made.wanted for one in group) if content else 0,
        "speed_up": made.speed_up or None,
        "qos": made.qos,
    }
