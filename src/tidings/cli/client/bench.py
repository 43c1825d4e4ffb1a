"""`tidings bench`: put a load on a broker, any MQTT broker, and see what becomes of it."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.client import connection
from tidings.errors import InputError
from tidings.language import durations

if TYPE_CHECKING:
    import ssl

    from tidings.client.urls import Address
    from tidings.load.load import Load, Outcome

PERCENTILES = (50.0, 90.0, 99.0, 99.9)

STEP = 2**0.5
"""From one bar of the histogram to the next."""

BAR_WIDTH = 40
SHARE_MIN = 0.0005
"""Bars that hold less are left out, but for that of the largest latency."""


class Protocol(StrEnum):
    """What is spoken."""

    V5 = "5"
    V311 = "3.1.1"


def bench(
    context: typer.Context,
    publishers: Annotated[int, typer.Option("--publishers", min=1, max=100_000, help="How many.")] = 1,
    subscribers: Annotated[
        int | None,
        typer.Option(
            "--subscribers",
            min=0,
            max=100_000,
            help="How many; 1 by default, for a workload as many as its filters need.",
        ),
    ] = None,
    topics: Annotated[
        int,
        typer.Option(
            "--topics", min=1, max=100_000, help="How many; publishers and subscribers are dealt out to them."
        ),
    ] = 1,
    messages: Annotated[
        int | None, typer.Option("--messages", min=1, metavar="N", help="Of each publisher.")
    ] = None,
    rate: Annotated[
        float,
        typer.Option(
            "--rate", min=0, metavar="N", help="Messages per second in all; 0 for all that the broker takes."
        ),
    ] = 0,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="With --rate, instead of --messages.")
    ] = None,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Publishers go round all topics, subscribers take all of them.")
    ] = False,
    size: Annotated[
        str,
        typer.Option("--size", metavar="BYTES", help="Of a payload; 70-130 for sizes in turn, 100 for one."),
    ] = "70-130",
    qos: Annotated[int, typer.Option("--qos", min=0, max=2, help="Quality of service.")] = 0,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="FILTER", help="Of the subscribers, over x (0 to 99) and p."),
    ] = None,
    workload: Annotated[
        Path | None,
        typer.Option(
            "--workload", metavar="DIR", help="Replay a workload that `tidings workload generate` made."
        ),
    ] = None,
    publish: Annotated[
        str | None,
        typer.Option(
            "--publish", metavar="events|reports", help="Of a workload: its events (default), or its reports."
        ),
    ] = None,
    subscriptions: Annotated[
        int | None,
        typer.Option("--subscriptions", min=0, metavar="N", help="Of a workload: the first by number."),
    ] = None,
    publications: Annotated[
        int | None,
        typer.Option("--publications", min=1, metavar="N", help="Of a workload: the first by time."),
    ] = None,
    speed_up: Annotated[
        float | None,
        typer.Option(
            "--speed-up",
            metavar="X",
            help="Of a workload: times faster than it happened; as fast as it goes if left out.",
        ),
    ] = None,
    protocol: Annotated[Protocol, typer.Option("--protocol", help="The version of MQTT.")] = Protocol.V5,
    broker_pid: Annotated[
        list[int] | None,
        typer.Option("--broker-pid", metavar="PID", help="Also say what CPU time it took; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as one JSON object.")] = False,
    url: connection.Url = None,
    user: connection.User = None,
    authority: connection.Authority = None,
) -> None:
    """Put a load on a broker and count what arrives, what is lost, and how long it takes.

    It speaks plain MQTT, so that any broker can be compared (`--url`). Publisher k publishes to topic k
    modulo `--topics`, subscriber k subscribes to it. With `--rate`, latencies count from the moment at which
    a message should have been sent, so that no stall is hidden; without it the broker is kept busy, and only
    what passes through is measured. The exit code is 1 if something was lost.

    With `--workload` the subscriptions and events of a workload are put on the broker instead: its clients
    share the connections, its rectangles are content filters if the broker is one of ours. `--speed-up`
    says how much faster than it happened, and is what latencies need.

    Try it:

        tidings bench --subscribers 10 --rate 2000 --for 10s
    """
    to = Target(url, user, authority, tuple(broker_pid or ()))
    if workload is not None:
        from tidings.cli.client import bench_workload

        _refuse(context, bench_workload.OPTIONS, "does not go with --workload, which says it itself")
        raise typer.Exit(
            bench_workload.bench(
                workload,
                to,
                publish=publish,
                publishers=publishers,
                subscribers=subscribers,
                subscriptions=subscriptions,
                publications=publications,
                speed_up=speed_up,
                qos=qos,
                v5=protocol is Protocol.V5,
                as_json=as_json,
            )
        )
    _refuse(context, ("publish", "subscriptions", "publications", "speed_up"), "needs --workload")
    count = 1 if subscribers is None else subscribers
    load = _load(publishers, count, topics, mixed, messages, rate, duration, size, qos, where, protocol)
    outcome = _run(load, to)
    if outcome is None:
        raise typer.Exit(1)
    if as_json:
        typer.echo(json.dumps(value(load, outcome)))
    else:
        _show(load, outcome)
    raise typer.Exit(1 if outcome.lost else 0)


@dataclass(frozen=True, slots=True)
class Target:
    """The broker, as the command line names it."""

    url: str | None
    user: str | None
    authority: str | None
    pids: tuple[int, ...]


def _refuse(context: typer.Context, options: Iterable[str], reason: str) -> None:
    """Refuse options that were given."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in options and context.params.get(name) not in (None, parameter.default):
            raise typer.BadParameter(f"{parameter.opts[0]} {reason}")


def _load(
    publishers: int,
    subscribers: int,
    topics: int,
    mixed: bool,
    messages: int | None,
    rate: float,
    duration: str | None,
    size: str,
    qos: int,
    where: str | None,
    protocol: Protocol,
) -> Load:
    from tidings.language.filters import parse
    from tidings.load.load import Load
    from tidings.mqtt.packets import Version

    if duration is not None:
        if not rate or messages is not None:
            raise typer.BadParameter("--for goes with --rate, and instead of --messages")
        try:
            seconds = durations.parse(duration) / 1e6
        except ValueError as error:
            raise typer.BadParameter(f"--for: {error}") from None
        messages = max(1, round(seconds * rate / publishers))
    least, dash, most = size.partition("-")
    if not (least.isdecimal() and (most.isdecimal() if dash else True)):
        raise typer.BadParameter(f"--size {size}: write a number of bytes, or two with a dash between them")
    return Load(
        addresses=(),
        publishers=publishers,
        subscribers=subscribers,
        topics=topics,
        messages=messages or (10_000 if rate else 100_000) // publishers or 1,
        rate=rate,
        size=int(least),
        size_max=int(most or least),
        mixed=mixed,
        qos=qos,
        where=None if where is None else parse(where),
        version=Version.V5 if protocol is Protocol.V5 else Version.V311,
    )


def _run(load: Load, to: Target) -> Outcome | None:
    import uvloop

    from tidings.load import load as loads

    addresses, secure = reached(to)
    load = replace(load, addresses=addresses, context=secure)
    with watched(load.publishers * load.messages, _expected(load)) as watch:
        return connection.run(loads.run(load, to.pids, watch), uvloop.new_event_loop)


def reached(to: Target) -> tuple[Sequence[Address], ssl.SSLContext | None]:
    """Where the broker is, and what a secure connection to it is checked by."""
    import ssl

    from tidings.client.urls import read_all

    addresses = read_all(connection.where(to.url), to.user, None, os.environ)
    if not addresses[0].secure:
        return addresses, None
    try:
        return addresses, ssl.create_default_context(cafile=to.authority)
    except OSError as error:
        raise InputError(f"{to.authority} cannot be used: {error.strerror or error}") from None


@contextmanager
def watched(total: int, expected: int | None) -> Iterator[Callable[[int, int], None]]:
    """Bars for what was sent and received, where somebody looks."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        sent = bar.add_task("sent", total=total)
        received = bar.add_task("received", total=None)

        def watch(count: int, arrived: int) -> None:
            bar.update(sent, completed=count)
            bar.update(received, completed=arrived, total=expected)

        yield watch


def _expected(load: Load) -> int | None:
    if load.where is not None:
        return None
    return load.publishers * load.messages * load.subscribers // (1 if load.mixed else load.topics)


def value(load: Load, outcome: Outcome) -> dict[str, object]:
    """The result as one object; durations are seconds, latencies microseconds."""
    told: dict[str, object] = {
        "publishers": load.publishers,
        "subscribers": load.subscribers,
        "topics": load.topics,
        "rate": load.rate or None,
        "mixed": load.mixed,
        "size": load.size,
        "size_max": load.size_max,
        "qos": load.qos,
        "where": None if load.where is None else load.where.source,
        **counted(outcome),
    }
    return told


def counted(outcome: Outcome) -> dict[str, object]:
    """What became of any load."""
    told: dict[str, object] = {
        "sent": outcome.sent,
        "expected": outcome.expected,
        "received": outcome.received,
        "lost": outcome.lost,
        "repeated": outcome.repeated,
        "seconds": round(outcome.seconds, 6),
        "sent_per_second": _per(outcome.sent, outcome.sending_seconds),
        "received_per_second": _per(outcome.received, outcome.seconds),
        "own_cpu_seconds": round(outcome.own_cpu_seconds, 3),
    }
    if outcome.broker_cpu_seconds is not None:
        told["broker_cpu_seconds"] = round(outcome.broker_cpu_seconds, 3)
        told["received_per_broker_cpu_second"] = _per(outcome.received, outcome.broker_cpu_seconds)
    if outcome.latencies_ns:
        told["latency_us"] = {
            **{f"p{percent:g}": us / 1000 for percent, us in outcome.percentiles_ns(PERCENTILES).items()},
            "max": max(outcome.latencies_ns) / 1000,
        }
    return told


def _show(load: Load, outcome: Outcome) -> None:
    sizes = f"{load.size}" if load.size == load.size_max else f"{load.size} to {load.size_max}"
    each = f"QoS {load.qos}, {sizes} bytes each"
    topics = f"{load.topics} mixed topics" if load.mixed else f"{load.topics} topics"
    typer.echo(
        f"{load.publishers} publishers, {load.subscribers} subscribers, {topics}, {each}"
        + (f", {load.rate:g} a second" if load.rate else "")
    )
    show(outcome, bool(load.rate) or not load.subscribers, "--rate")


def show(outcome: Outcome, timed: bool, way_out: str) -> None:
    """What became of any load; `way_out` is the option without which there are no latencies."""
    told = counted(outcome)
    typer.echo(f"sent      {outcome.sent:>12,}  {told['sent_per_second']:>12,} a second")
    typer.echo(f"received  {outcome.received:>12,}  {told['received_per_second']:>12,} a second")
    typer.echo(f"lost      {outcome.lost:>12,}  repeated {outcome.repeated:,}")
    if outcome.broker_cpu_seconds is not None:
        each = told["received_per_broker_cpu_second"]
        typer.echo(
            f"broker    {outcome.broker_cpu_seconds:>12.2f} CPU seconds"
            # The machine counts them in hundredths, and a short run may take none.
            + (
                ", too short a run to tell what one message takes"
                if each is None
                else f"; {each:,} received for each"
            )
        )
    typer.echo(
        f"took      {outcome.seconds:>12.2f} s, of which this program computed {outcome.own_cpu_seconds:.2f}"
    )
    if outcome.latencies_ns:
        typer.echo("latency   " + "  ".join(f"{name} {_time(at)}" for name, at in _quantiles(outcome)))
        for line in histogram(list(outcome.latencies_ns)):
            typer.echo(line)
    elif not timed:
        typer.echo(
            f"latency   give {way_out}: of a broker that is kept busy it would tell how long its queues are"
        )


def _quantiles(outcome: Outcome) -> list[tuple[str, float]]:
    found = [(f"p{percent:g}", float(ns)) for percent, ns in outcome.percentiles_ns(PERCENTILES).items()]
    return [*found, ("max", float(max(outcome.latencies_ns)))]


def histogram(latencies_ns: list[int], width: int = BAR_WIDTH) -> list[str]:
    """Bars, each for latencies up to a bound that grows by the same factor.

    >>> for line in histogram([1000, 1010, 1900, 40_000], width=4):
    ...     print(line.strip())
    ≤   1.02 µs  ████   50.00%
    ≤   2.05 µs  ██     25.00%
    ≤   46.3 µs  ██     25.00%
    """
    counts: dict[int, int] = {}
    for ns in latencies_ns:
        at = math.ceil(math.log(max(ns, 1), STEP))
        counts[at] = counts.get(at, 0) + 1
    return _bars(counts, len(latencies_ns), width)


def _bars(counts: dict[int, int], total: int, width: int) -> list[str]:
    highest = max(counts.values())
    lines = []
    for at, count in sorted(counts.items()):
        if count / total >= SHARE_MIN or at == max(counts):
            bar = "█" * max(1, round(width * count / highest))
            lines.append(f"  ≤ {_time(STEP**at):>9}  {bar:<{width}}  {count / total:>7.2%}")
    return lines


def _time(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def _per(count: int, seconds: float) -> int | None:
    return round(count / seconds) if seconds > 0 else None
