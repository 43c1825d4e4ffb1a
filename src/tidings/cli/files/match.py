"""`tidings match`: which subscriptions get which events, from files of JSON lines or from a workload."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import typer

from tidings.cli.files.lines import Lines
from tidings.cli.files.progress import Progress
from tidings.cli.topic.topic import topic_of
from tidings.errors import FilterError, PayloadError
from tidings.language.faults import shown
from tidings.language.regions import Unknown
from tidings.language.reports import Shape
from tidings.language.topics import Topic

if TYPE_CHECKING:
    from tidings.language.filters import Filter
    from tidings.matching import Index, Scan

Id = int | str

BATCH = 64
"""Events matched at once from a file. From a pipe each is answered as it comes."""

SCAN_MAX = 32
"""Filters up to which each is asked about an event, as long as the index is not compiled: the index takes 50
to 90 microseconds for an event then, however few filters it has, and a filter that is asked takes one to
three. Of a bare index 24 to 44 filters cost as much."""

COMPILE_FROM = 20_000_000
"""Filters times events from which compiling pays: the uncompiled way takes about a second for them."""

SUBSCRIPTION_KEYS = ("id", "where", "unknown")


class Subscription(NamedTuple):
    """One line of the file of subscriptions."""

    id: Id
    filter: Filter
    unknown: Unknown


def match(
    subscriptions: Annotated[
        str | None,
        typer.Option(
            "--subscriptions",
            metavar="FILE|N",
            help='JSON lines {"id": …, "where": …}; "-" reads standard input. Of a workload, the first N.',
        ),
    ] = None,
    events: Annotated[
        str | None,
        typer.Option(
            "--events",
            metavar="FILE|N",
            help='JSON lines {"id": …, fields…}; "-" reads standard input. Of a workload, the first N.',
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload", metavar="DIR", help="Subscriptions and events of a workload instead of files."
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", metavar="DECL", help="Check filters and events against this topic declaration (TOML)."
        ),
    ] = None,
    unknown: Annotated[
        Unknown,
        typer.Option(
            "--unknown",
            help="What a term over a missing field counts as: not yet true (wait) or true (assume). "
            'A subscription line may say its own: "unknown": "assume".',
        ),
    ] = Unknown.WAIT,
) -> None:
    r"""Say for each event which subscriptions get it.

    One JSON line per event comes out, in the order of the events, such as
    `{"event": 7, "matches": ["ambulance", "press"]}`. Ids are strings or whole numbers; matches are sorted,
    numbers before strings.

    With `--workload` they are those of a folder that `tidings workload generate` has made: events in the
    order of time, each for the subscriptions that are there at its time.

    A line that cannot be used is reported on standard error with its file and number, the others are still
    processed, and the exit code is 1. It is 2 when a file cannot be read or the declaration is wrong.

    Try it:

        tidings match --subscriptions subscriptions.jsonl \
            --events events.jsonl --topic traffic-athens.toml
    """
    if workload is not None:
        if topic is not None or unknown is not Unknown.WAIT:
            raise typer.BadParameter("--topic and --unknown are for files; a workload says these itself")
        from tidings.cli.files import match_workload

        match_workload.answer(workload, _count("subscriptions", subscriptions), _count("events", events))
        return
    if subscriptions is None or events is None:
        raise typer.BadParameter("give --subscriptions and --events, or --workload")
    if subscriptions == events == "-":
        raise typer.BadParameter("standard input can be the subscriptions or the events, not both")
    from tidings.matching import Index, Scan

    declared = topic_of(topic)
    wanted, given = Lines(subscriptions), Lines(events)
    with Progress() as progress:
        known = _subscriptions(progress.watch("subscriptions", wanted), wanted, declared, unknown)
        index, scan = Index(), Scan()
        few = len(known) <= SCAN_MAX
        for number, subscription in enumerate(known):
            index.add(number, subscription.filter, subscription.unknown)
            if few:
                scan.add(number, subscription.filter, subscription.unknown)
        progress.give_way()
        compiling = _answer(
            progress.watch("events", given), given, declared, index, scan if few else None, known
        )
        by = (
            "each filter was asked"
            if few and index.engine == "numpy"
            else f"the index answered by {index.engine}"
        )
        progress.say(f"{len(known):,} subscriptions; {by}")
    code = 1 if wanted.bad or given.bad else 0
    if compiling:
        # Nobody should wait for code that is not needed any more, and a thread amid it cannot be stopped.
        sys.stdout.flush()
        os._exit(code)
    raise typer.Exit(code)


def _count(option: str, given: str | None) -> int | None:
    """How many of a workload's are taken; None for all."""
    if given is None:
        return None
    if not given.isdecimal():
        raise typer.BadParameter(f"--{option} is {given!r}; with --workload give how many, such as 1000")
    return int(given)


def _subscriptions(
    objects: Iterator[tuple[int, dict[str, object]]], lines: Lines, topic: Topic | None, unknown: Unknown
) -> list[Subscription]:
    """The subscriptions of a file, in the order of their ids."""
    from tidings.language.filters import parse

    fields = None if topic is None or not topic.fields else topic.fields
    # Many subscribers ask for the same; a filter is parsed once.
    understood = lru_cache(maxsize=65_536)(lambda text: parse(text, fields))
    found: dict[Id, Subscription] = {}
    for number, line in objects:
        try:
            _check_keys(line)
            id_ = _id(line)
            if id_ in found:
                raise PayloadError(f"id {shown(id_)} has been given before; ids must differ")
            found[id_] = Subscription(id_, understood(_where(line)), _unknown(line, unknown))
        except FilterError as error:
            lines.refuse(number, f"id {shown(id_)}: {error}")
        except PayloadError as error:
            lines.refuse(number, str(error))
    return sorted(found.values(), key=lambda one: (isinstance(one.id, str), one.id))


def _answer(
    objects: Iterator[tuple[int, dict[str, object]]],
    lines: Lines,
    topic: Topic | None,
    index: Index,
    scan: Scan | None,
    known: list[Subscription],
) -> bool:
    """Match events and write an answer for each; says whether a thread is still compiling.

    A scan of few filters answers until the index is compiled.
    """
    from tidings.matching import compile_kernels

    names = [msgspec.json.encode(one.id) for one in known]
    # Whoever pipes events in may be waiting for each answer.
    size = BATCH if lines.size is not None else 1
    waiting: list[tuple[Id, Mapping[str, object]]] = []
    shape = None if topic is None else Shape(topic)
    # The id is a field like any other, but for a topic that declares no such field.
    named = topic is None or ("id",) in topic.fields
    matched = 0
    compiling = threading.Thread(target=compile_kernels, name="compile", daemon=True)

    def flush() -> None:
        nonlocal matched
        if compiling.ident is None and _left(lines, matched) * len(known) > COMPILE_FROM:
            compiling.start()
        matcher = index if scan is None or index.engine == "numba" else scan
        for (id_, _), ids in zip(
            waiting, matcher.match_batch([fields for _, fields in waiting]), strict=True
        ):
            found = b",".join([names[int(number)] for number in ids])
            sys.stdout.buffer.write(b'{"event":%b,"matches":[%b]}\n' % (msgspec.json.encode(id_), found))
        sys.stdout.buffer.flush()
        matched += len(waiting)
        waiting.clear()
        index.work()

    for number, line in objects:
        try:
            id_ = _id(line)
            fields: Mapping[str, object] = line
            if shape is not None:
                fields = shape.typed(line if named else {name: line[name] for name in line if name != "id"})
        except PayloadError as error:
            lines.refuse(number, str(error))
            continue
        waiting.append((id_, fields))
        if len(waiting) >= size:
            flush()
    flush()
    return compiling.is_alive()


def _left(lines: Lines, matched: int) -> float:
    """How many events are still to come, by the bytes; of a pipe, as many again as came already."""
    return matched if lines.size is None else matched * (lines.size - lines.done) / max(1, lines.done)


def _id(line: Mapping[str, object]) -> Id:
    if "id" not in line:
        raise PayloadError('the line has no "id"; give it a string or a whole number')
    id_ = line["id"]
    if isinstance(id_, bool) or not isinstance(id_, int | str):
        raise PayloadError(f"id {shown(id_)} is neither a string nor a whole number")
    return id_


def _where(line: Mapping[str, object]) -> str:
    where = line.get("where")
    if not isinstance(where, str):
        said = 'has no "where"' if "where" not in line else f"has a where that is no string: {shown(where)}"
        raise PayloadError(f'the line {said}; write the filter as a string, "TRUE" for all events')
    return where


def _unknown(line: Mapping[str, object], default: Unknown) -> Unknown:
    said = line.get("unknown", default)
    if said not in list(Unknown):
        raise PayloadError(f'unknown is {shown(said)}; write "wait" or "assume"')
    return Unknown(str(said))


def _check_keys(line: Mapping[str, object]) -> None:
    """Other keys are the user's own, but a slip for one of ours would change the answer in silence."""
    absent = [key for key in SUBSCRIPTION_KEYS if key not in line]
    for key in line:
        if key not in SUBSCRIPTION_KEYS and (near := get_close_matches(key.lower(), absent, n=1, cutoff=0.8)):
            raise PayloadError(f"the line has a key {key!r}; is it {near[0]!r}?")
