"""`tidings pub`: publish reports."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.client import connection
from tidings.cli.files.lines import Lines
from tidings.errors import AccessError, InputError, NetworkError, PayloadError
from tidings.language import payloads
from tidings.language.names import name_fault

if TYPE_CHECKING:
    from tidings.client.network import Network

UNDER_WAY_MAX = 100
"""Reports from a file that are on their way at once; the network keeps their order."""

ASK_WITHIN_S = 3.0
"""What is only said by the way is not waited for longer."""


def pub(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to; without wildcards.")],
    report: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="REPORT",
            help="A JSON object, or its fields as name=value …; - reads JSON lines from standard input.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", metavar="FILE", help="JSON lines, one report each.")
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="A payload as it is, instead of a report.")
    ] = None,
    qos: Annotated[
        int, typer.Option("--qos", min=0, max=2, help="Quality of service.", show_default=True)
    ] = 1,
    retain: Annotated[
        bool, typer.Option("--retain", help="Keep it for those who subscribe later (plain topics).")
    ] = False,
    repeat: Annotated[
        int, typer.Option("--repeat", min=1, metavar="N", help="Publish it so many times.")
    ] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
    url: connection.Url = None,
    user: connection.User = None,
    authority: connection.Authority = None,
    certificate: connection.Certificate = None,
    key: connection.Key = None,
) -> None:
    """Publish a report, or one for each line of a file.

    Values of name=value are numbers, true, false and null where they look like it, text otherwise; dots nest,
    as in position.lat=37.98. With QoS 1 and 2 it has arrived when the command ends. A line that is no report,
    or that the broker refuses, is said on standard error with its number, the others are published, and the
    exit code is 1. It is 2 if the network is not reached, or if you may not publish there.

    Try it:

        tidings pub traffic/athens severity=4 road=A1 note="fire in lane 2"
    """
    given = report or []
    lines: Lines | None = None
    payload: bytes | dict[str, object] = b""
    if sum([bool(given), file is not None, text is not None]) != 1:
        raise typer.BadParameter("give one of: a report, --file, --text, or - for standard input")
    if file is not None or given == ["-"]:
        lines = Lines(file or "-")
    elif text is not None:
        payload = text.encode()
    else:
        payload = read_report(given)

    if (fault := name_fault(topic)) is not None:
        raise InputError(f"{topic!r} cannot be published to: {fault}")

    async def publish() -> int:
        async with connection.network(url, user, authority, certificate, key) as network:
            if not quiet and (said := await remark(network, topic, retain=retain)):
                typer.echo(said, err=True)
            count = 0
            refused = set[int]()
            under_way = asyncio.Semaphore(UNDER_WAY_MAX)

            async def one(number: int, report: bytes | Mapping[str, object]) -> None:
                nonlocal count
                try:
                    await network.publish(topic, report, qos=qos, retain=retain)
                    count += 1
                except InputError as error:
                    if lines is None:
                        raise
                    # Rights are to a topic: the other lines would be refused as well.
                    if isinstance(error, AccessError):
                        raise AccessError(f"{lines.name}:{number}: {error}") from None
                    if number not in refused:
                        refused.add(number)
                        lines.refuse(number, str(error))
                finally:
                    under_way.release()

            async with asyncio.TaskGroup() as group:
                async for number, report in _reports(lines, payload):
                    for _ in range(repeat):
                        await under_way.acquire()
                        group.create_task(one(number, report))
            return count

    count = connection.run(publish())
    if count is None:
        raise typer.Exit(1)
    if not quiet:
        what = "1 report" if count == 1 else f"{count:,} reports"
        typer.echo(f"published {what} to {topic}{', acknowledged' if qos else ''}")
    raise typer.Exit(1 if lines is not None and lines.bad else 0)


def read_report(given: list[str]) -> dict[str, object]:
    """The fields of a JSON object, or of name=value pairs.

    >>> read_report(["severity=4", "position.lat=37.9", "road=A1", "fire=true"])
    {'severity': 4, 'position': {'lat': 37.9}, 'road': 'A1', 'fire': True}
    """
    if len(given) == 1 and given[0].lstrip().startswith("{"):
        return payloads.decode(given[0].encode())
    fields: dict[str, object] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise PayloadError(
                f"{pair!r} is neither a JSON object nor a field; write name=value, such as severity=4"
            )
        *groups, last = name.split(".")
        inside = fields
        for group in groups:
            below = inside.setdefault(group, {})
            if not isinstance(below, dict):
                raise PayloadError(f"{pair!r}: {group} has a value already, and cannot hold fields")
            inside = below
        if last in inside:
            raise PayloadError(f"{pair!r}: {name} is given twice")
        inside[last] = _value(value)
    payloads.check(fields)
    return fields


def _value(text: str) -> object:
    if text in ("true", "false", "null") or text[:1] in tuple("0123456789-"):
        try:
            # Within an object, so that all rules of payloads hold.
            return payloads.decode(f'{{"value":{text}}}'.encode())["value"]
        except (PayloadError, KeyError):
            return text
    return text


async def remark(network: Network, topic: str, *, retain: bool) -> str | None:
    """A word about a topic that nobody has declared, or where there is nothing to retain; None if there is
    nothing to say, or it cannot be known.
    """
    from tidings.language.names import parse_pattern

    try:
        answer = await network.request("$tidings/topic/list", {}, timeout=ASK_WITHIN_S)
    except (NetworkError, InputError):
        return None
    topics = answer.get("topics")
    if not isinstance(topics, list):
        return None
    declared = [
        (pattern.rank, str(one.get("kind")))
        for one in topics
        if isinstance(one, dict) and (pattern := parse_pattern(str(one["name"]))).bind(topic) is not None
    ]
    if not declared:
        return (
            f"{topic} is not declared, so it is plain: reports are delivered as they are, and not gathered "
            "into events (tidings topic declare)"
        )
    if retain and min(declared)[1] == "gathered":
        return f"{topic} is gathered, so --retain is ignored: a new subscriber gets the open events"
    return None


async def _reports(
    lines: Lines | None, payload: bytes | dict[str, object]
) -> AsyncIterator[tuple[int, bytes | dict[str, object]]]:
    """Each report with the number of its line; 1 for one that is no line."""
    if lines is None:
        yield 1, payload
        return
    if lines.size is not None:
        for one in lines:
            yield one
        return
    # Whoever types or pipes may take hours; the connection is kept alive meanwhile. It is a thread of our own
    # since nothing can stop it, and nobody should wait for it at the end.
    loop = asyncio.get_running_loop()
    read: asyncio.Queue[tuple[int, dict[str, object]] | None] = asyncio.Queue()
    room = threading.Semaphore(UNDER_WAY_MAX)

    def follow() -> None:
        # A closed loop: the command has ended, and nobody publishes what is read.
        with contextlib.suppress(RuntimeError):
            for one in lines:
                room.acquire()
                loop.call_soon_threadsafe(read.put_nowait, one)
            loop.call_soon_threadsafe(read.put_nowait, None)

    threading.Thread(target=follow, name="standard input", daemon=True).start()
    while (found := await read.get()) is not None:
        room.release()
        yield found
