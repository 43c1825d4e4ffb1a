"""Declarations and streams for gather at scale, those of the machine's tests, and what the machine says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.gathering.samples import SECOND, Run, declarations, group, runs
from tidings.gathering import Closing, Gatherer, Telling
from tidings.gathering.replay import run_out, summary
from tidings.language.payloads import INT_MIN
from tidings.language.reports import Report, Shape
from tidings.language.topics import Topic
from tidings.pipeline.gather.layout import CLOSED, REFUSED, unbounded

Line = tuple[Any, ...]

CONFLICTS = st.sampled_from(["first", "last", "max", "min"])


@st.composite
def kernel_declarations(draw: st.DrawFn) -> dict[str, Any]:
    """Topics that the kernel says: one value in a field, and no filters."""
    mapping: dict[str, Any] = draw(declarations())
    for name in ("ends_when", "tell_now"):
        mapping.pop(name, None)
    for traits in leaves(mapping["fields"]):
        if traits.get("conflict") in ("union", "majority"):
            traits["conflict"] = draw(CONFLICTS)
    return mapping


@st.composite
def reported(
    draw: st.DrawFn, mapping: dict[str, Any], *, begin: int = 1, at_us: int = 0, most: int = 25
) -> list[Report]:
    """Reports under a declaration, numbered from `begin`, in the order of their times."""
    shape = Shape(Topic.from_mapping(mapping))
    payloads = group(mapping["fields"])
    reports = list[Report]()
    for number in range(begin, begin + draw(st.integers(1, most))):
        at_us += draw(st.sampled_from([0, 0, 500_000, SECOND, SECOND, 2 * SECOND, 5 * SECOND]))
        said = draw(payloads) | {"k": draw(st.sampled_from("pqr"))}
        if "n" in mapping["fields"]:
            said.setdefault("n", draw(st.integers(0, 3)))
        reports.append(shape.report("t", said, report_id=str(number), at_us=at_us))
    return reports


@st.composite
def kernel_runs(draw: st.DrawFn, *, reports_max: int = 25) -> Run:
    """Runs of topics that the kernel says."""
    mapping = draw(kernel_declarations())
    return Run(Topic.from_mapping(mapping), draw(reported(mapping, most=reports_max)), None)


def any_runs(*, reports_max: int = 25) -> st.SearchStrategy[Run]:
    """Runs of any topic, with the cycle that is declared."""
    return runs(reports_max=reports_max).map(lambda run: replace(run, every_us=None))


def leaves(table: dict[str, Any]) -> list[dict[str, Any]]:
    """The traits of all fields."""
    found = list[dict[str, Any]]()
    for traits in table.values():
        found += [traits] if isinstance(traits.get("type"), str) else leaves(traits)
    return found


def of_machine(topic: Topic, reports: list[Report]) -> tuple[list[Line], dict[str, int]]:
    """What the machine tells and closes, and its summary."""
    gatherer = Gatherer(topic, now_us=INT_MIN)
    for report in reports:
        gatherer.feed(report)
    run_out(gatherer)
    return lines_of(gatherer), summary(gatherer.counts)


def of_both(old: Topic, new: Topic, reports: list[Report], horizon_us: int) -> list[Line]:
    """What one machine tells and closes that is never stopped, if `new` has more fields from a horizon on.

    A field that is declared later is missing in what is open, and not before.
    """
    gatherer = Gatherer(unbounded(new), now_us=INT_MIN)
    rules = gatherer._rules
    rules.total = len(old.fields)
    for report in reports:
        if report.at_us < horizon_us:
            gatherer.feed(report)
    gatherer.advance(horizon_us)
    rules.total = len(new.fields)
    for report in reports:
        if report.at_us >= horizon_us:
            gatherer.feed(report)
    run_out(gatherer)
    return lines_of(gatherer)


def lines_of(gatherer: Gatherer) -> list[Line]:
    """What a machine has told and closed, in an order of our own."""
    lines: list[Line] = []
    for one in gatherer.take():
        if isinstance(one, Closing):
            lines.append(("closed", one.at_us, one.event, one.key, one.version, one.reason))
        elif isinstance(one, Telling):
            event = one.event
            lines.append(
                (
                    *(one.state.value, one.at_us, event.opened_by, event.key, event.version),
                    *(event.reports, event.complete, dict(event.fields)),
                )
            )
    return ordered(lines)


def of_table(told: pa.Table) -> list[Line]:
    """What a result tells and closes, in the same order."""
    lines: list[Line] = []
    for row in told.to_pylist():
        if row["state"] == REFUSED:
            continue
        key, event = tuple(row["key"].values()), str(row["event"])
        begin = row["state"], row["at"], event, key, row["version"]
        if row["state"] == CLOSED:
            lines.append((*begin, row["reason"]))
        else:
            lines.append((*begin, row["reports"], row["complete"], without_nulls(row["fields"])))
    return ordered(lines)


def ordered(lines: list[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: (line[1], line[2], line[4], line[0] == CLOSED))


def without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    """The filled fields, as an event has them."""
    return {
        name: without_nulls(value) if isinstance(value, dict) else value
        for name, value in fields.items()
        if value is not None
    }
