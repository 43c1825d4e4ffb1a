"""`tidings status`: how the network on this machine is, or brokers elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tidings.local.network import Asked, Kept, NoAnswer, Refusal, StateFile, View, ask, view, viewed
from tidings.records.holders import parse_holder
from tidings.service.values import read_address

if TYPE_CHECKING:
    from rich.table import Table

NUMBERS = ("clients", "in", "out")
"""Columns of a table of brokers that are counts: MQTT clients, messages that came, and were delivered."""

REFUSALS_SHOWN = 10

ASKED_SHOWN = 30
"""Brokers of which it is shown what they ask for."""

WAITED_SHOWN = 4
"""Brokers that one of them waits for."""

SEATS_SHOWN = 20
"""Of one broker."""


def status(
    addresses: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HOST:PORT]...", help="HTTP addresses of brokers elsewhere."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as one JSON object.")] = False,
) -> None:
    """Show the network that `tidings up` started here: which brokers are ready, in which process each runs,
    who is linked with whom, how many MQTT clients there are, what brokers ask each other for, which broker
    gathers which topic, and what was refused to clients lately.

    With addresses, ask those brokers instead. The exit code is 0 if all are ready, 1 if one is not or no
    network runs.

    Try it:

        tidings status --json
    """
    views = _elsewhere(addresses) if addresses else _here(as_json)
    ready = bool(views) and all(one.state == "ready" for one in views)
    if as_json:
        told = {"ready": ready, "brokers": views}
        typer.echo(msgspec.json.encode(told).decode())
    elif views:
        from rich.console import Console

        console = Console()
        console.print(table(views))
        console.print(totals(views), highlight=False)
        if rows := asked(views):
            console.print("\nwhat brokers ask for:")
            console.print(asked_table(rows))
        for line in (*gathered(views), *kept(views), *refused(views)):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(0 if ready else 1)


def _here(as_json: bool) -> list[View]:
    file = StateFile()
    state = file.read()
    if state is not None:
        return [view(member) for member in state.members]
    if not as_json:
        stale = " (the last one has ended without `tidings down`)" if file.path.exists() else ""
        typer.echo(f"no network of yours runs here{stale}; start one with `tidings up`", err=True)
    return []


def _elsewhere(addresses: Sequence[str]) -> list[View]:
    views = []
    for address in addresses:
        try:
            read_address(address)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        try:
            code, told = ask(address, "/status")
            shown = View(str(told.get("broker", "?")), str(told.get("address", "")), address, None, "ready")
            known = "counters" in told
            views.append(viewed(shown, told) if known else _replaced(shown, f"answers {code}"))
        except (NoAnswer, AttributeError) as reason:
            views.append(View("?", "", address, None, f"no answer: {reason}"))
    return views


def totals(views: Sequence[View]) -> str:
    """What the brokers keep for clients, together."""
    sessions, retained = sum(one.sessions for one in views), sum(one.retained for one in views)
    return f"{sessions:,} sessions, {retained:,} retained messages"


AskedRow = tuple[str, str, str, str, str]
"""Of the table of what brokers ask for: broker, filters, number, widened, who knows it."""


def asked(views: Sequence[View]) -> list[AskedRow]:
    """What each broker asks others for, by its own word or else by that of those who hold something for it.

    Brokers in reach that have never asked for anything are left out.
    """
    own = {one.id: one.sets[0] for one in views if one.sets}
    others: dict[str, list[tuple[str, Asked]]] = {}
    for one in views:
        for known in one.sets[1:]:
            if known.home not in own:
                others.setdefault(known.home, []).append((one.id, known))
    rows = []
    for home in sorted({*own, *others}):
        if home in own:
            told, state = own[home], _confirmed(own[home])
        else:
            at, told = max(others[home], key=lambda some: (some[1].boot, some[1].number, some[1].absent_s))
            state = _known(at, told)
        if told.boot == 0:
            rows.append((home, "?", "?", "?", f"{state}; everything"))
        elif told.number or told.absent_s >= 0:
            rows.append((home, f"{told.filters:,}", f"{told.number:,}", f"{told.widened:,}", state))
    return rows


def _confirmed(own: Asked) -> str:
    """Who knows what a broker asks for, as it says itself."""
    if own.confirmed >= own.number:
        return "all in reach"
    names = ", ".join(own.waits_for[:WAITED_SHOWN])
    more = f" and {len(own.waits_for) - WAITED_SHOWN} more" if len(own.waits_for) > WAITED_SHOWN else ""
    return f"all but {names}{more}" if names else "not sure while trees change"


def _known(at: str, known: Asked) -> str:
    """What another broker says of one that was not asked."""
    if known.absent_s >= 0:
        return f"out of reach, held for {known.absent_s:,.0f} s more"
    return f"{at}" if known.confirmed >= known.number else f"not yet {at}"


def asked_table(rows: Sequence[AskedRow]) -> Table:
    """The same for people; more brokers than fit on a page are counted."""
    from rich.table import Table
    from rich.text import Text

    shown = Table()
    for column in ("broker", "filters", "number", "widened", "known by"):
        number = column in ("filters", "number", "widened")
        shown.add_column(column, justify="right" if number else "left", no_wrap=number)
    for row in rows[:ASKED_SHOWN]:
        shown.add_row(*map(Text, row))
    if len(rows) > ASKED_SHOWN:
        shown.add_row(f"and {len(rows) - ASKED_SHOWN:,} more")
    return shown


def gathered(views: Sequence[View]) -> list[str]:
    """Who gathers what, and what came of it, in short; `tidings topic show` has more."""
    lines = []
    for one in views:
        for seat in one.seats[:SEATS_SHOWN]:
            share = (seat.merged + seat.redundant) / seat.received if seat.received else 0.0
            held_by = one.id + (f" (deputy {seat.deputy})" if seat.deputy else "")
            lines.append(
                f"  {_printable(seat.topic)} at {held_by}: {seat.open:,} events open, "
                f"{seat.received:,} reports, {share:.0%} suppressed, {seat.told:,} told"
            )
        if len(one.seats) > SEATS_SHOWN:
            lines.append(f"  and {len(one.seats) - SEATS_SHOWN:,} more at {one.id}")
    waiting, ignored = sum(one.waiting for one in views), sum(one.retain_ignored for one in views)
    if waiting:
        lines.append(f"  {waiting:,} reports wait for a seat")
    if ignored:
        lines.append(f"  {ignored:,} reports asked to be retained, which means nothing there")
    return ["", "gathered topics:"] * bool(lines) + lines


def kept(views: Sequence[View]) -> list[str]:
    """What topics keep, over all brokers; copies of deputies count in bytes alone."""
    logs: dict[tuple[str, str], list[tuple[bool, Kept]]] = {}
    for one in views:
        for log in one.log:
            logs.setdefault((log.topic, log.what), []).append(
                (parse_holder(log.holder).broker == one.id, log)
            )
    lines = []
    for (topic, what), some in sorted(logs.items())[:SEATS_SHOWN]:
        own = [log for mine, log in some if mine]
        entries, size = sum(log.next - log.first for log in own), sum(log.bytes for _, log in some)
        brokers = f"{len(own)} broker{'s' * (len(own) != 1)}"
        lines.append(f"  {what} of {_printable(topic)}: {entries:,} at {brokers}, {size / 1e6:,.1f} MB")
    if len(logs) > SEATS_SHOWN:
        lines.append(f"  and {len(logs) - SEATS_SHOWN:,} more")
    return ["", "kept:"] * bool(lines) + lines


def refused(views: Sequence[View]) -> list[str]:
    """The latest things that were refused to clients, the newest last: for clients that hide why."""
    found = [(one.id, refusal) for one in views for refusal in one.refusals]
    # A broker lists its own in their order, which a stable sort keeps for those of one time.
    latest = sorted(found, key=lambda one: (one[1].at, one[0]))[-REFUSALS_SHOWN:]
    return ["", "lately refused:"] * bool(latest) + [line for one in latest for line in _lines(*one)]


def _lines(broker: str, refusal: Refusal) -> list[str]:
    """A refusal; the further lines of its reason are indented, so that none looks like another refusal."""
    at = datetime.fromtimestamp(refusal.at).astimezone()
    reason, *more = map(_printable, refusal.reason.split("\n"))
    first = _printable(f"{broker}: {refusal.client}: {refusal.what}: ") + reason
    return [f"  {at:%H:%M:%S} {first}", *(f"      {line}" for line in more)]


def _printable(text: str) -> str:
    """A client chooses its id and its topics, and must not choose what a terminal does."""
    return "".join(char if char.isprintable() else "�" for char in text)


def _ports(first: str, others: Mapping[str, str]) -> str:
    """Ports of addresses, one in each line."""
    named = (("", first), *((f"{name} ", address) for name, address in others.items()))
    return "\n".join(f"{name}{address.rpartition(':')[2]}" for name, address in named)


def _replaced(shown: View, state: str) -> View:
    return msgspec.structs.replace(shown, state=state)


def table(views: Sequence[View], rates: Mapping[str, float] | None = None) -> Table:
    """Brokers as a table for people; `rates` are messages per second, where they are known.

    Processes are below ids: with a column of their own, links would not fit in 80 columns.
    """
    from rich.table import Table
    from rich.text import Text

    shown = Table()
    columns = ["broker", "mqtt", "http", "state", "links", "root", *NUMBERS]
    if rates is not None:
        columns.insert(columns.index("in"), "in/s")
    processes = any(one.pid for one in views)
    for column in columns:
        number = column in (*NUMBERS, "in/s")
        shown.add_column(
            "broker\npid" if column == "broker" and processes else column,
            justify="right" if number else "left",
            no_wrap=column not in ("state", "links", "root"),
            min_width=len("ready") if column == "state" else None,
        )
    for one in views:
        colour = "green" if one.state == "ready" else "red" if one.state == "dead" else "yellow"
        state = one.state + (f" (restarted {one.restarts}×)" if one.restarts else "")
        links = Text(" ".join(one.links))
        down = [f"{peer} (down)" for peer in one.links_down]
        missing = " ".join([*down, *(f"{address} (unreached)" for address, _ in one.unreached)])
        if missing:
            links.append((" " if one.links else "") + missing, style="red")
        cells: list[str | Text] = [
            Text(f"{one.id}\n{one.pid}" if one.pid else one.id),
            _ports(one.mqtt, {name: at for name, at in one.others.items() if name != "https"}),
            _ports(one.http, {"tls": one.others["https"]} if "https" in one.others else {}),
            Text(state, style=colour),
            links,
            Text(one.root),
            f"{one.clients:,}",
            f"{one.received:,}",
            f"{one.delivered:,}",
        ]
        if rates is not None:
            cells.insert(columns.index("in/s"), f"{rates.get(one.id, 0.0):,.0f}")
        shown.add_row(*cells)
    return shown
