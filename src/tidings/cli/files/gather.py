"""`tidings gather`: a file of reports through the gatherer, in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Protocol

import msgspec
import typer

from tidings.cli.files.lines import REFUSED_SHOWN, Lines, say_unnamed
from tidings.cli.files.progress import Progress
from tidings.cli.topic.topic import topic_of
from tidings.errors import DeclarationError, PayloadError
from tidings.gathering import Fate, Gatherer, State, Telling
from tidings.gathering.replay import Reader, at_text, mixed_kinds, run_out, summary, told_line
from tidings.language.payloads import INT_MIN
from tidings.language.reports import Report
from tidings.language.topics import Complete, StaysOpen, TellFirst, Topic


def gather(
    topic: Annotated[
        str, typer.Option("--topic", metavar="DECL", help="The declaration of a gathered topic (TOML).")
    ],
    reports: Annotated[
        str,
        typer.Option(
            "--reports",
            metavar="FILE",
            help='JSON lines {"at": 12.5, "fields": {…}}; "-" reads standard input.',
        ),
    ],
    merge_after: Annotated[
        str | None, typer.Option("--merge-after", "--tm", metavar="DURATION", help="Another Tm, such as 4s.")
    ] = None,
    redundant_for: Annotated[
        str | None, typer.Option("--redundant-for", "--tr", metavar="DURATION", help="Another Tr.")
    ] = None,
    window: Annotated[
        str | None, typer.Option("--window", metavar="DURATION", help='Another W; "none" for none.')
    ] = None,
    stays_open: Annotated[
        StaysOpen | None, typer.Option("--stays-open", help="Which reports restart Tr.")
    ] = None,
    complete: Annotated[
        Complete | None,
        typer.Option("--complete", help="What is told at once because no field is missing."),
    ] = None,
    tell_first: Annotated[
        TellFirst | None, typer.Option("--tell-first", help="When a new event is first told.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, and a summary as the last.")] = False,
    sort: Annotated[
        bool, typer.Option("--sort", help="Read all reports first and bring them into the order of time.")
    ] = False,
) -> None:
    """Gather reports into events, as a broker's gatherer would.

    The time is that of the reports: `at` is a number of seconds or an ISO time, the same kind in all lines,
    and must not go back (else the exit code is 2) unless `--sort` is given. At the end of the reports all
    clocks run out. Each version that is told comes out as a line

    `{"at": …, "event": …, "key": […], "version": 1, "reports": 3, "complete": false, "fields": {…}}`

    with `"state": "ended"` on the last version of an event that `ends_when` has ended; an event is named by
    the number of the line that opened it. The last line is a summary. A report that cannot be taken is
    counted as refused, the first few are named on standard error, and the others are still gathered; the exit
    code is then 0 all the same. It is 2 when a file cannot be read or the declaration is wrong.

    Try it:

        tidings gather --topic traffic-athens.toml --reports reports.jsonl --json
    """
    declared = _declared(
        topic,
        {
            "merge_after": merge_after,
            "redundant_for": redundant_for,
            "window": window,
            "stays_open": stays_open,
            "complete": complete,
            "tell_first": tell_first,
        },
    )
    lines = Lines(reports, shown_max=REFUSED_SHOWN)
    out: _Out = _JsonOut() if as_json else _TableOut(declared)
    gatherer = Gatherer(declared, now_us=INT_MIN)
    clock = _Clock(lines)
    reader = Reader(declared)
    # Whoever pipes reports in may be waiting for each event.
    waited_for = lines.size is None
    with Progress() as progress:
        progress.give_way()
        taken = _taken(progress.watch("reports", lines), lines, reader, gatherer, clock)
        if sort:
            # Stable, so that reports of one time stay in the order of their lines.
            taken = iter(sorted(taken, key=lambda report: report.at_us))
        for report in taken:
            if not sort:
                clock.check(report)
            decision = gatherer.feed(report)
            if decision.fate is Fate.REFUSED:
                # A bad line too: `_taken` tells by their number which have still to be counted.
                lines.refuse(int(report.id), decision.reason)
            _write(gatherer, out, clock, flush=waited_for)
        run_out(gatherer)
        _write(gatherer, out, clock, flush=False)
    say_unnamed(lines.name, lines.bad)
    out.end(summary(gatherer.counts))


def _declared(name: str, changes: dict[str, object]) -> Topic:
    """The declaration with what the options change."""
    topic = topic_of(name)
    assert topic is not None, "the command has a declaration"
    given = {option: value for option, value in changes.items() if value is not None}
    if topic.gathering is None:
        typer.echo(f"tidings: {name} declares a plain topic; only a gathered one gathers", err=True)
        raise typer.Exit(2)
    if not given:
        return topic
    # What brokers on the way may drop depends on the switches, and here there is no way.
    given["on_the_way"] = "nothing"
    try:
        return Topic.from_mapping(topic.to_mapping() | given, f"{name} with the options given")
    except DeclarationError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None


def _taken(
    objects: Iterator[tuple[int, dict[str, object]]],
    lines: Lines,
    reader: Reader,
    gatherer: Gatherer,
    clock: _Clock,
) -> Iterator[Report]:
    """The reports that can be taken; the others are counted."""
    for number, line in objects:
        try:
            report = reader.read(number, line)
        except PayloadError as error:
            lines.refuse(number, str(error))
            continue
        finally:
            # Lines that are no objects have not come here, but are among those that are bad.
            while gatherer.counts.refused < lines.bad:
                gatherer.refuse()
        clock.same_kind(report, iso=isinstance(line["at"], str))
        yield report
    while gatherer.counts.refused < lines.bad:
        gatherer.refuse()


def _write(gatherer: Gatherer, out: _Out, clock: _Clock, *, flush: bool) -> None:
    told = [one for one in gatherer.take() if isinstance(one, Telling)]
    for telling in told:
        out.told(telling, iso=clock.iso)
    if told and flush:
        sys.stdout.flush()


class _Clock:
    """The times of reports: all of one kind, and never back."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._first: str | None = None
        self._before: Report | None = None
        self.iso = False

    def same_kind(self, report: Report, *, iso: bool) -> None:
        if self._first is None:
            self._first, self.iso = report.id, iso
        elif iso != self.iso:
            self._stop(report, mixed_kinds(iso=iso, first=self._first))

    def check(self, report: Report) -> None:
        before = self._before
        if before is not None and report.at_us < before.at_us:
            at, earlier = (at_text(one.at_us, iso=self.iso) for one in (report, before))
            self._stop(
                report,
                f"at goes back: {at} comes after {earlier} of line {before.id}; bring the reports into the "
                "order of time, or give --sort",
            )
        self._before = report

    def _stop(self, report: Report, reason: str) -> None:
        sys.stdout.flush()
        typer.echo(f"{self._lines.name}:{report.id}: {reason}", err=True)
        raise typer.Exit(2)


class _Out(Protocol):
    """Where events go."""

    def told(self, telling: Telling, *, iso: bool) -> None:
        """Show one version."""

    def end(self, counts: dict[str, int]) -> None:
        """Show the summary."""


class _JsonOut:
    """For programs."""

    def told(self, telling: Telling, *, iso: bool) -> None:
        sys.stdout.buffer.write(told_line(telling, iso=iso) + b"\n")

    def end(self, counts: dict[str, int]) -> None:
        sys.stdout.buffer.write(msgspec.json.encode({"summary": counts}) + b"\n")
        sys.stdout.buffer.flush()


class _TableOut:
    """For people: a row for each version as it is told, then a table of counts."""

    def __init__(self, topic: Topic) -> None:
        from rich.console import Console

        self._topic = topic
        self._console = Console(highlight=False)
        self._begun = False

    def told(self, telling: Telling, *, iso: bool) -> None:
        # Plain text, with widths that are known beforehand: a table could not wait for the rest, and to lay
        # out one for each row took 16 times as long as all else.
        wide = 27 if iso else 10
        if not self._begun:
            self._begun = True
            print(f" {'at':>{wide}}   event  version  reports            fields")
        event = telling.event
        mark = "complete" if event.complete else ""
        if telling.state is not State.TOLD:
            mark = telling.state.value
        fields = ", ".join(f"{name}={_shown(value)}" for name, value in event.fields.items())
        text = "".join(c if c.isprintable() else "�" for c in fields)
        at = at_text(telling.at_us, iso=iso)
        print(
            f" {at:>{wide}} {event.opened_by:>7} {event.version:>8} {event.reports:>8}  {mark:<9} {text}",
            flush=True,
        )

    def end(self, counts: dict[str, int]) -> None:
        from rich.table import Table

        self._console.print(f"\nReports of {self._topic.name}", markup=False)
        table = Table(show_header=False)
        table.add_column()
        table.add_column(justify="right")
        for name, count in counts.items():
            table.add_row(name.replace("_", " "), f"{count:,}")
        self._console.print(table)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
