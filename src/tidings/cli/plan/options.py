"""What the commands that make and check plans ask alike, and what they refuse alike."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from tidings.errors import InputError

Choice = TypeVar("Choice", bound=StrEnum)

HOUR_S = 3600


class Lengths(StrEnum):
    """What is the length of a link."""

    HOPS = "hops"
    DELAY = "delay"


Edges = Annotated[
    Path | None,
    typer.Option("--edges", metavar="FILE", help="CSV lines a,b: brokers that are linked; a,b,length too."),
]
NetworkFile = Annotated[
    Path | None,
    typer.Option("--network", metavar="FILE", help="The network instead: a topology (TOML or GraphML)."),
]
LengthsOption = Annotated[
    Lengths | None,
    typer.Option("--lengths", help="Of links: 1 each, or their delays in ms; hops, or as --edges says."),
]
Records = Annotated[
    Path | None,
    typer.Option("--records", metavar="DIR", help="What brokers recorded, or traffic made of it; on Spark."),
]
WorkloadFolder = Annotated[
    Path | None,
    typer.Option("--workload", metavar="DIR", help="A workload of `tidings workload generate`; on Spark."),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Of --records: from this full hour on, 2026-11-16T08:00Z."),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Of --records: up to this full hour.")
]
Latest = Annotated[
    int | None, typer.Option("--hours", metavar="N", min=1, help="Of --records: the last N hours.")
]
Master = Annotated[
    str | None,
    typer.Option("--master", help="Where Spark runs, as for `tidings pipeline run`; local[*] by default."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A setting of Spark (spark.driver.memory=4g); repeatable."
    ),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the plan there, as JSON.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of all that is drawn.", show_default=True)]


def one_of(what: str, given: Mapping[str, object]) -> str:
    """The name of the one option that is given; InputError says what it is for, if it is none or several."""
    there = [name for name, value in given.items() if value is not None]
    if not there:
        *others, last = given
        raise InputError(f"say {what}: give {', '.join(others)} or {last}")
    if len(there) > 1:
        raise InputError(f"{there[0]} and {there[1]} both say {what}; give one of them")
    return there[0]


def only_for(option: str, is_so: bool, given: Mapping[str, object]) -> None:
    """Refuse options that mean nothing here: they are only for others."""
    wrong = [name for name, value in given.items() if value is not None and value is not False]
    if not is_so and wrong:
        raise InputError(f"{wrong[0]} is only for {option}; leave it out, or give {option}")


def chosen(kinds: type[Choice], value: str, option: str) -> Choice:
    """A choice by its name."""
    try:
        return kinds(value)
    except ValueError:
        raise InputError(f"{option} is {value!r}; it is one of {', '.join(kinds)}") from None


def bound(option: str, value: str) -> float:
    """A bound as a number, infinite for "none" and for "inf"."""
    if value == "none":
        return math.inf
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{option} is {value!r}; give a number, or none for no bound") from None


def hour(option: str, value: str | None) -> int | None:
    """The hour that a time is the beginning of: a time in UTC, or the number of an hour.

    >>> hour("--from", "2026-11-16T08:00Z"), hour("--from", "2026-11-16"), hour("--from", "3")
    (498560, 498552, 3)
    """
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise InputError(
            f"{option} is {value!r}, which is no time; write 2026-11-16T08:00Z, or the number of an hour as "
            "it is in tables of traffic"
        ) from None
    seconds = round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp())
    if seconds % HOUR_S:
        raise InputError(f"{option} is {value!r}; traffic is counted by the hour, so give a full one")
    return seconds // HOUR_S
