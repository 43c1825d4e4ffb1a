"""`tidings bench`: put a load on a broker, any MQTT broker, and see what becomes of it."""

from __future__ import annotations

import json
import math
import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli import connecting
from tidings.errors import InputError
from tidings.language import durations

if TYPE_CHECKING:
    from tidings.client.load import Load, Outcome

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
    publishers: Annotated[int, typer.Option("--publishers", min=1, max=100_000, help="How many.")] = 1,
    subscribers: Annotated[int, typer.Option("--subscribers", min=0, max=100_000, help="How many.")] = 1,
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
    protocol: Annotated[Protocol, typer.Option("--protocol", help="The version of MQTT.")] = Protocol.V5,
    broker_pid: Annotated[
        list[int] | None,
        typer.Option("--broker-pid", metavar="PID", help="Also say what CPU time it took; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as one JSON object.")] = False,
    url: connecting.Url = None,
    user: connecting.User = None,
    authority: connecting.Authority = None,
) -> None:
    """Put a load on a broker and count what arrives, what is lost, and how long it takes.

    It speaks plain MQTT, so that any broker can be compared (`--url`). Publisher k publishes to topic k
    modulo `--topics`, subscriber k subscribes to it. With `--rate`, latencies count from the moment at which
    a message should have been sent, so that no stall is hidden; without it the broker is kept busy, and only
    what passes through is measured. The exit code is 1 if something was lost.

    Try it:

        tidings bench --subscribers 10 --rate 2000 --for 10s
    """
    load = _load(publishers, subscribers, topics, mixed, messages, rate, duration, size, qos, where, protocol)
    outcome = _run(load, url, user, authority, broker_pid or [])
    if outcome is None:
        raise typer.Exit(1)
    if as_json:
        typer.echo(json.dumps(value(load, outcome)))
    else:
        _show(load, outcome)
    raise typer.Exit(1 if outcome.lost else 0)


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
    from tidings.client.load import Load
    from tidings.language.filters import parse
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


def _run(
    load: Load, url: str | None, user: str | None, authority: str | None, pids: list[int]
) -> Outcome | None:
    import ssl
    from dataclasses import replace

    import uvloop
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from tidings.client import load as loads
    from tidings.client.urls import read_all

    addresses = read_all(connecting.where(url), user, None, os.environ)
    load = replace(load, addresses=addresses)
    if addresses[0].secure:
        try:
            load = replace(load, context=ssl.create_default_context(cafile=authority))
        except OSError as error:
            raise InputError(f"{authority} cannot be used: {error.strerror or error}") from None
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
        sent = bar.add_task("sent", total=load.publishers * load.messages)
        received = bar.add_task("received", total=None)

        def watch(count: int, arrived: int) -> None:
            bar.update(sent, completed=count)
            bar.update(received, completed=arrived, total=_expected(load))

        return connecting.run(loads.run(load, pids, watch), uvloop.new_event_loop)


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
    told = value(load, outcome)
    sizes = f"{load.size}" if load.size == load.size_max else f"{load.size} to {load.size_max}"
    each = f"QoS {load.qos}, {sizes} bytes each"
    topics = f"{load.topics} mixed topics" if load.mixed else f"{load.topics} topics"
    typer.echo(
        f"{load.publishers} publishers, {load.subscribers} subscribers, {topics}, {each}"
        + (f", {load.rate:g} a second" if load.rate else "")
    )
    typer.echo(f"sent      {outcome.sent:>12,}  {told['sent_per_second']:>12,} a second")
    typer.echo(f"received  {outcome.received:>12,}  {told['received_per_second']:>12,} a second")
    typer.echo(f"lost      {outcome.lost:>12,}  repeated {outcome.repeated:,}")
    if outcome.broker_cpu_seconds is not None:
        typer.echo(
            f"broker    {outcome.broker_cpu_seconds:>12.2f} CPU seconds; "
            f"{told['received_per_broker_cpu_second']:,} received for each"
        )
    typer.echo(
        f"took      {outcome.seconds:>12.2f} s, of which this program computed {outcome.own_cpu_seconds:.2f}"
    )
    if outcome.latencies_ns:
        typer.echo("latency   " + "  ".join(f"{name} {_time(at)}" for name, at in _quantiles(outcome)))
        for line in histogram(list(outcome.latencies_ns)):
            typer.echo(line)
    elif not load.rate and load.subscribers:
        typer.echo(
            "latency   give --rate: of a broker that is kept busy it would tell how long its queues are"
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
