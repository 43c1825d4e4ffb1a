"""Declarations and reports to gather, by hand and by Hypothesis."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from tidings.gathering import Closing, Decision, Gatherer, Telling
from tidings.language import durations
from tidings.language.reports import Report, Shape
from tidings.language.topics import Topic

SECOND = 1_000_000

ROAD: dict[str, Any] = {
    "name": "road",
    "kind": "gathered",
    "key": ["place"],
    "merge_after": "4s",
    "redundant_for": "60s",
    "window": "10m",
    "fields": {
        "place": {"type": "string"},
        "severity": {"type": "int", "conflict": "max"},
        "lanes": {"type": "float", "tolerance": 0.25},
        "note": {"type": "string"},
    },
}
"""A topic for tests by value: one event for each place."""


def road(**changes: Any) -> Topic:
    """That topic with other options; `fields` are added to its own."""
    fields = ROAD["fields"] | changes.pop("fields", {})
    mapping = {**ROAD, **changes, "fields": fields}
    return Topic.from_mapping({name: value for name, value in mapping.items() if value is not None})


class Talk:
    """A gatherer in a test: reports are told in seconds, numbered from 1, and answers come as short texts."""

    def __init__(self, topic: Topic, **given: Any) -> None:
        self.shape = Shape(topic)
        self.gatherer = Gatherer(topic, **given)
        self.number = 0

    def report(self, at_s: float, **fields: Any) -> Report:
        self.number += 1
        at_us = round(at_s * SECOND)
        name = self.shape.topic.name
        return self.shape.report(name, fields, report_id=str(self.number), at_us=at_us)

    def say(self, at_s: float, place: str = "A1", qos: int = 0, **fields: Any) -> Decision:
        """Feed a report."""
        return self.gatherer.feed(self.report(at_s, place=place, **fields), qos)

    def fate(self, at_s: float, place: str = "A1", **fields: Any) -> str:
        return self.say(at_s, place, **fields).fate.value

    def until(self, at_s: float) -> list[str]:
        """Let time pass; what has come out by then."""
        self.gatherer.advance(round(at_s * SECOND))
        return self.out()

    def out(self) -> list[str]:
        return [line(one) for one in self.gatherer.take()]

    def tellings(self) -> list[Telling]:
        return [one for one in self.gatherer.take() if isinstance(one, Telling)]


def line(one: Telling | Closing) -> str:
    """`4s 1/1 r2 A1 {...}` is the first version of event 1, of two reports; `64s 1 closed: redundant_for`."""
    at_s = f"{one.at_us / SECOND:g}s"
    if isinstance(one, Closing):
        return f"{at_s} {one.event} closed: {one.reason}"
    event = one.event
    said = ", ".join(f"{name}={value}" for name, value in event.fields.items() if name != "place")
    marks = [
        mark
        for mark, there in (("complete", event.complete), ("last", one.last), ("again", one.again))
        if there
    ]
    if one.state.value != "told":
        marks.append(one.state.value + (f" {one.into}" if one.into else ""))
    return f"{at_s} {event.opened_by}/{event.version} r{event.reports} {said}" + "".join(
        f" [{m}]" for m in marks
    )


# By Hypothesis.

BEGIN = datetime(2026, 11, 15, tzinfo=UTC)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["", "a", "b", "ab", "é"]),
    "int": st.integers(-3, 5),
    "float": st.sampled_from([-1.5, 0.0, 0.25, 0.5, 1.0, 2.0]),
    "bool": st.booleans(),
    "timestamp": st.integers(0, 4).map(lambda n: BEGIN + timedelta(seconds=n)),
}

TOLERANCES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.sampled_from([1, 2, 1.5]),
    "float": st.sampled_from([0.25, 1]),
    "timestamp": st.sampled_from(["1s", "1500ms"]),
}

CONFLICTS = ["first", "last", "max", "min", "union", "majority"]


@st.composite
def fields(draw: st.DrawFn, *, tolerances: bool = True) -> dict[str, Any]:
    """The traits of one field."""
    kind = draw(st.sampled_from(sorted(VALUES)))
    traits = {"type": kind, "conflict": draw(st.sampled_from(CONFLICTS))}
    if tolerances and kind in TOLERANCES and draw(st.booleans()):
        traits["tolerance"] = draw(TOLERANCES[kind])
    return traits


FILTERS = st.sampled_from(["s = 0", "s >= 3", "s < 0 OR s IS NULL", "NOT s = 1", "s IS NOT NULL"])


@st.composite
def declarations(draw: st.DrawFn, *, tolerances: bool = True, simple: bool = False) -> dict[str, Any]:
    """A gathered topic with a field `s` of ints for filters, and up to five others, some in a group."""
    declared: dict[str, Any] = {
        "k": {"type": "string"},
        "s": {"type": "int", "conflict": draw(st.sampled_from(["first", "last", "max", "min", "majority"]))},
    }
    for name in draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3)):
        declared[name] = draw(fields(tolerances=tolerances))
    if draw(st.booleans()):
        names = draw(st.lists(st.sampled_from("xyz"), unique=True, min_size=1, max_size=2))
        declared["g"] = {name: draw(fields(tolerances=tolerances)) for name in names}
    mapping: dict[str, Any] = {"name": "t", "kind": "gathered", "key": ["k"], "fields": declared}
    if draw(st.booleans()):
        # An item below which fields may differ.
        declared["n"] = {"type": "int", "conflict": draw(st.sampled_from(["first", "last", "max"]))}
        mapping["key"] = ["floor(n / 2)"]
    if simple:
        return mapping | {"merge_after": "1h", "redundant_for": "1h", "window": "1h"}
    times = sorted(draw(st.tuples(*[st.sampled_from([0, 1, 2, 3, 5, 8])] * 3)))
    for name, time_s in zip(("merge_after", "redundant_for", "window"), times, strict=True):
        mapping[name] = durations.text(time_s * SECOND)
    mapping["stays_open"] = draw(st.sampled_from(["merged", "reported"]))
    if mapping["stays_open"] == "reported" and draw(st.booleans()):
        mapping["window"] = "none"
    mapping["tell_first"] = draw(st.sampled_from(["merge_after", "now"]))
    mapping["complete"] = draw(st.sampled_from(["event", "report", "once"]))
    mapping["every_min"] = durations.text(draw(st.sampled_from([0, 1, 3])) * SECOND)
    for name in ("ends_when", "tell_now"):
        if draw(st.booleans()):
            mapping[name] = draw(FILTERS)
    return mapping


@dataclass
class Run:
    """A declaration, what is reported, and the cycle that subscribers ask for."""

    topic: Topic
    reports: list[Report]
    every_us: int | None


def group(table: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Payloads with some of the declared fields; null and empty lists among them."""
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for name, traits in table.items():
        if not isinstance(traits.get("type"), str):
            optional[name] = group(traits)
            continue
        value = VALUES[traits["type"]]
        some = (
            st.lists(value, max_size=3)
            if traits["conflict" if "conflict" in traits else "type"] == "union"
            else value
        )
        optional[name] = some | st.none() if name not in "kn" else value
    return st.fixed_dictionaries({}, optional=optional)


@st.composite
def runs(draw: st.DrawFn, *, tolerances: bool = True, simple: bool = False, reports_max: int = 25) -> Run:
    """A declaration and reports for it, in order of time, some of them at one time."""
    mapping = draw(declarations(tolerances=tolerances, simple=simple))
    topic = Topic.from_mapping(mapping)
    shape = Shape(topic)
    payloads = group(mapping["fields"])
    keyed = st.sampled_from(["p", "q"])
    steps = st.sampled_from([0, 0, 500_000, SECOND, SECOND, 2 * SECOND, 5 * SECOND])
    at_us, reports = 0, []
    for number in range(1, draw(st.integers(1, reports_max)) + 1):
        at_us += draw(steps)
        said = draw(payloads)
        said["k"] = draw(keyed)
        if "n" in mapping["fields"]:
            said.setdefault("n", draw(st.integers(0, 3)))
        reports.append(shape.report("t", said, report_id=str(number), at_us=at_us))
    every_us = draw(st.none() | st.sampled_from([0, SECOND, 2 * SECOND, 6 * SECOND]))
    return Run(topic, reports, every_us)
