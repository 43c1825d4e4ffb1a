"""`tidings pipeline match`, events and subscriptions to notifications on Spark; `explain` says how."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.pipeline.spark import DATA, MASTER, AsJson, Data, Master, Overwrite, Settings, checked

if TYPE_CHECKING:
    from tidings.pipeline.match.cost_model import Choice
    from tidings.pipeline.match.job import Job
    from tidings.pipeline.tables import Made

UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


class Form(StrEnum):
    """What comes out."""

    ROWS = "rows"
    LISTS = "lists"
    COUNTS = "counts"


class Way(StrEnum):
    """How events and subscriptions come together."""

    AUTO = "auto"
    INDEX = "index"
    CELLS = "cells"


class Explained(StrEnum):
    """What can be explained."""

    MATCH = "match"


Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="What subscriptions may take on one machine, such as 2g; a quarter of this one by default.",
    ),
]
Cores = Annotated[
    int | None, typer.Option("--cores", min=1, help="Tasks that run on one machine at the same time.")
]
WayOption = Annotated[Way, typer.Option("--way", help="How both come together; chosen by size by default.")]


def match(
    data: Data = DATA,
    form: Annotated[
        Form,
        typer.Option("--form", help="A row for each notification, a list for each event, or only how many."),
    ] = Form.ROWS,
    way: WayOption = Way.AUTO,
    memory: Memory = None,
    master: Master = MASTER,
    settings: Settings = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Say on Spark which subscriptions of a workload get which of its events.

    Writes the table `notifications` (a row for each event and each subscription that gets it), `matches` (a
    list for each event) or `match_counts`. The answers are those of `tidings match --workload`, however many
    tasks there are and whichever way is taken.

    Try it:

        tidings pipeline match --data my-workload --form lists
    """
    given = checked(master, settings)
    made, choice = matched(data, form, way, memory, master, given, overwrite)
    folder = data.absolute()
    if as_json:
        table = {key: value for key, value in asdict(made).items() if key != "spec"}
        told = {"data": str(folder), "table": table, "choice": _told(choice)}
        typer.echo(json.dumps(told, ensure_ascii=False))
    else:
        typer.echo(_text(choice))
        typer.echo(f"{made.table} in {folder}: {made.rows:,} rows in {made.seconds:.1f} s")


def matched(
    data: Path,
    form: Form,
    way: Way,
    memory: str | None,
    master: str,
    settings: Mapping[str, str],
    overwrite: bool,
) -> tuple[Made, Choice]:
    """Start Spark and match; how the table was made, and which way was taken."""
    from tidings.pipeline import session, worker_files
    from tidings.pipeline.match import strategies
    from tidings.pipeline.match.job import NAMES
    from tidings.pipeline.tables import Store

    store, wanted = Store(data), strategies.Form(form.value)
    store.check([NAMES[wanted]], overwrite)
    cores = session.core_count(master) if session.is_local(master) else None
    job = _job(data, memory, cores, way)
    with session.start("tidings match", master=master, settings=settings) as spark:
        worker_files.send(spark, master, needed=worker_files.KERNELS)
        made = job.run(spark, store, wanted, master=master, settings=settings, overwrite=overwrite)
    return made, job.choice


def explain(
    what: Annotated[Explained, typer.Argument(metavar="JOB", help="What to explain: match.")],
    data: Data = DATA,
    way: WayOption = Way.AUTO,
    memory: Memory = None,
    cores: Cores = None,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as one JSON object.")] = False,
) -> None:
    """Say how a job would be done, and why, from its sizes and from samples. Spark is not started.

    For `match`: whether every worker maps one index of all subscriptions, or subscriptions and events are
    brought together by cells of the event space; then how the space is halved, how many copies of a
    subscription that makes, and which cells have so many events that they are divided.

    Try it:

        tidings pipeline explain match --data my-workload --memory 1m
    """
    assert what is Explained.MATCH, f"{what} can be explained"
    choice = _job(data, memory, cores, way).choice
    typer.echo(json.dumps(_told(choice), ensure_ascii=False) if as_json else _text(choice))


def _job(data: Path, memory: str | None, cores: int | None, way: Way) -> Job:
    from tidings.pipeline import session
    from tidings.pipeline.match import cost_model
    from tidings.pipeline.match.job import Job

    allowed = session.memory_mb() * 2**20 // 4 if memory is None else _bytes(memory)
    wanted = None if way is Way.AUTO else cost_model.Way(way.value)
    return Job(data, allowed, cores or session.core_count("local[*]"), wanted)


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", text.lower())
    if found is None:
        raise typer.BadParameter(f"--memory is {text!r}; write a number with k, m, g or t, such as 512m")
    return int(found[1]) * UNITS[found[2]]


def _told(choice: Choice) -> dict[str, Any]:
    sizes = choice.sizes
    return {
        "job": "match",
        "way": choice.way.value,
        "why": choice.why,
        "subscriptions": sizes.subscriptions,
        "events": sizes.events,
        "index_bytes": sizes.index_bytes,
        "memory_bytes": sizes.memory_bytes,
        "cores": sizes.cores,
        "depth": choice.depth,
        "attributes": list(choice.attributes),
        "copies": round(choice.copies, 3),
        "fullest_subscriptions": choice.fullest_subscriptions,
        "fullest_events": choice.fullest_events,
        "parts": {str(cell): parts for cell, parts in sorted(choice.parts.items())},
    }


def _text(choice: Choice) -> str:
    sizes = choice.sizes
    may, takes = f"{sizes.memory_bytes / 1e6:,.1f} MB", f"{sizes.index_bytes / 1e6:,.1f} MB"
    lines = [
        f"match by {choice.way}: {choice.why}",
        f"  {sizes.subscriptions:,} subscriptions and {sizes.events:,} events",
        f"  an index of all takes at most {takes}; subscriptions may take {may}",
    ]
    if choice.way.value == Way.CELLS.value:
        by = ", ".join(choice.attributes) or "nothing"
        most = f"about {choice.fullest_subscriptions:,} subscriptions or {choice.fullest_events:,} events"
        divided = f"{len(choice.parts)} cells with many events are divided into {sum(choice.parts.values())}"
        lines += [
            f"  the space is halved {choice.depth} times, by {by}: {choice.copies:.2f} copies of each",
            f"  the fullest cells have {most}; {sizes.cores} are looked at at once",
            f"  {divided} parts",
        ]
    return "\n".join(lines)
