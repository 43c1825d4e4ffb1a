"""`tidings sub`: subscribe, and watch what comes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import sys
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from tidings.cli.client import connection
from tidings.errors import PayloadError
from tidings.language import durations
from tidings.language.regions import Unknown

if TYPE_CHECKING:
    from rich.table import Table

    from tidings.client.deliveries import Delivery
    from tidings.client.subscriptions import Subscription

COLUMNS_MAX = 8
"""Fields that have a column of their own; the rest are counted in the last."""

ROWS_MIN = 5

ABOUT = ("version", "reports", "complete", "state", "into", "seat", "hops")
"""What an event says of itself, beside its id."""

GATHERED = ("version", "state", "reports")
"""Columns for that, where events are gathered."""


def sub(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC…", help="Topic filters; + and # are wildcards.")
    ],
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="FILTER", help="Only what satisfies it; of several, one must hold."),
    ] = None,
    unknown: Annotated[
        Unknown,
        typer.Option("--unknown", help="What a term over a missing field counts as.", show_default=True),
    ] = Unknown.WAIT,
    every: Annotated[
        str | None,
        typer.Option(
            "--every", metavar="DURATION", help="How often a growing event is wanted again at most."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", min=1, metavar="N", help="End after so many.")
    ] = None,
    within: Annotated[
        str | None,
        typer.Option("--within", metavar="DURATION", help="End after this time, such as 30s, at the latest."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    qos: Annotated[
        int, typer.Option("--qos", min=0, max=2, help="Quality of service.", show_default=True)
    ] = 1,
    retained: Annotated[
        bool,
        typer.Option("--retained/--no-retained", help="Also what was there before: retained, or still open."),
    ] = True,
    url: connection.Url = None,
    user: connection.User = None,
    authority: connection.Authority = None,
    certificate: connection.Certificate = None,
    key: connection.Key = None,
) -> None:
    """Subscribe, and show what comes until Ctrl-C, or until enough has come.

    On a terminal a table grows, one row per event, and a growing event changes its row: beside its fields are
    its version, its state and how many reports it is made of. Elsewhere each is a line: the topic and the
    payload, behind an event what it is, or with `--json` an object. A filter that is not understood is shown
    with the place; the exit code is then 2, as it is if the network is not reached. It is 1 if `--within`
    ends it before `--count` have come.

    Try it:

        tidings sub 'traffic/#' --where "severity >= 3 AND road IN ('A1', 'A2')" --every 5s
    """
    if len(set(topics)) < len(topics):
        raise typer.BadParameter("a topic filter is there twice")
    try:
        within_s = None if within is None else durations.parse(within) / 1e6
    except ValueError as error:
        raise typer.BadParameter(f"--within: {error}") from None
    try:
        durations.parse(every or 0)
    except ValueError as error:
        raise typer.BadParameter(f"--every: {error}") from None
    shown: _Shown = _Json() if as_json else _Table(count) if sys.stdout.isatty() else _Lines()

    async def watch() -> bool:
        left, in_time = count, True

        async def read(events: Subscription) -> None:
            nonlocal left
            async for delivery in events:
                shown.add(delivery)
                if left is not None:
                    left -= 1
                    if left == 0:
                        raise _Enough

        async with (
            connection.network(url, user, authority, certificate, key) as network,
            contextlib.AsyncExitStack() as stack,
        ):
            subscriptions = [
                await stack.enter_async_context(
                    network.subscribe(
                        topic,
                        where=where or (),
                        unknown=unknown,
                        every=every,
                        qos=qos,
                        retained="all" if retained else "none",
                    )
                )
                for topic in topics
            ]
            said = f" where {' or '.join(where)}" if where else ""
            said += f" every {every}" if every else ""
            typer.echo(f"subscribed to {', '.join(topics)}{said} at {network.address}", err=True)
            try:
                with shown:
                    async with asyncio.timeout(within_s), asyncio.TaskGroup() as group:
                        for events in subscriptions:
                            group.create_task(read(events))
            except* TimeoutError:
                in_time = left is None
            except* _Enough:
                pass
            except* BrokenPipeError:
                # Whoever reads us has had enough. Python would complain once more at the end.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return in_time

    raise typer.Exit(1 if connection.run(watch()) is False else 0)


class _Enough(Exception):
    """As many have come as were asked for."""


def value(delivery: Delivery) -> dict[str, object]:
    """A delivery as one object: what it says, and what is said about it."""
    shown: dict[str, object] = {"topic": delivery.topic}
    try:
        shown["fields"] = dict(delivery.fields)
    except PayloadError:
        try:
            shown["text"] = delivery.payload.decode()
        except UnicodeDecodeError:
            shown["base64"] = base64.b64encode(delivery.payload).decode()
    about = {"event": delivery.id} | {name: getattr(delivery, name) for name in ABOUT}
    shown |= {name: said for name, said in about.items() if said is not None}
    shown["qos"] = delivery.qos
    if delivery.retained:
        shown["retained"] = True
    if delivery.properties.user:
        shown["user"] = [list(pair) for pair in delivery.properties.user]
    return shown


class _Shown(Protocol):
    """Where deliveries are shown."""

    def add(self, delivery: Delivery) -> None: ...
    def __enter__(self) -> object: ...
    def __exit__(self, *_: object) -> None: ...


class _Json:
    """One object per line."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None

    def add(self, delivery: Delivery) -> None:
        print(json.dumps(value(delivery), ensure_ascii=False, default=str), flush=True)


class _Lines(_Json):
    """Topic and payload, as mosquitto_sub -v has them; behind those of an event, what it is."""

    def add(self, delivery: Delivery) -> None:
        line = f"{delivery.topic} " + "".join(c if c.isprintable() else "�" for c in delivery.text)
        if delivery.id is not None:
            line = f"{line.rstrip()} ({_kind(delivery)})"
        print(line, flush=True)


def _kind(delivery: Delivery) -> str:
    """What an event is, in words; others may have sent some of its properties, or none."""
    words = [f"{delivery.state} {delivery.into}" if delivery.into else delivery.state or "event"]
    if delivery.version is not None:
        words.append(f"version {delivery.version}")
    if delivery.reports is not None:
        words.append(f"{delivery.reports} report{'' if delivery.reports == 1 else 's'}")
    return "".join(c if c.isprintable() else "�" for c in ", ".join(words))


class _Table:
    """A table that grows, as much of it as the terminal has room for."""

    def __init__(self, count: int | None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console()
        self._rows: OrderedDict[object, tuple[datetime, Delivery, Mapping[str, object]]] = OrderedDict()
        self._columns: list[str] = []
        self._gathered = False
        """Whether anything that came is an event."""
        self._received = 0
        self._wanted = count
        self._live = Live(console=self._console, get_renderable=self.table, refresh_per_second=8)

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def add(self, delivery: Delivery) -> None:
        self._received += 1
        try:
            fields = _flat(delivery.fields)
        except PayloadError:
            fields = {"payload": delivery.text}
        for name in fields:
            if name not in self._columns:
                self._columns.append(name)
        self._gathered = self._gathered or delivery.id is not None
        # An event keeps its row in all its versions.
        key: object = delivery.id if delivery.id is not None else self._received
        self._rows.pop(key, None)
        self._rows[key] = (datetime.now().astimezone(), delivery, fields)
        while len(self._rows) > self._room():
            self._rows.popitem(last=False)

    def table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        wanted = "" if self._wanted is None else f" of {self._wanted:,}"
        table = Table(caption=f"{self._received:,}{wanted} received", caption_justify="left")
        table.add_column("at", no_wrap=True)
        table.add_column("topic", no_wrap=True)
        gathered = GATHERED if self._gathered else ()
        for name in gathered:
            table.add_column(name, no_wrap=True, justify="left" if name == "state" else "right")
        own = self._columns[:COLUMNS_MAX]
        for name in own:
            table.add_column(name, overflow="ellipsis", no_wrap=True)
        rest = len(self._columns) > COLUMNS_MAX
        if rest:
            table.add_column("…")
        for at, delivery, fields in self._rows.values():
            cells = [at.strftime("%H:%M:%S"), delivery.topic]
            cells += [_cell(getattr(delivery, name)) for name in gathered]
            cells += [_cell(fields.get(name)) for name in own]
            if rest:
                others = sum(1 for name in fields if name not in own)
                cells.append(f"+{others}" if others else "")
            style = "dim" if delivery.retained or delivery.state == "withdrawn" else ""
            # As text: what came from outside must not be taken for markup.
            table.add_row(*(Text(cell, style=style) for cell in cells))
        return table

    def _room(self) -> int:
        return max(ROWS_MIN, self._console.size.height - 6)


def _flat(fields: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, item in fields.items():
        if isinstance(item, Mapping) and item:
            flat |= _flat(item, f"{prefix}{name}.")
        else:
            flat[prefix + name] = item
    return flat


def _cell(item: object) -> str:
    if item is None:
        return ""
    text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str)
    return "".join(c if c.isprintable() else "�" for c in text)
