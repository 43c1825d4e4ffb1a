"""What a declaration may change while a stream goes on: it then tells what one never stopped tells."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.gathering.samples import SECOND, declarations, road
from tests.pipeline.gather.samples import kernel_declarations, leaves, of_both, of_table, reported
from tidings.errors import DeclarationError, InputError
from tidings.language.reports import Report, Shape
from tidings.language.topics import OPTIONS, Topic
from tidings.pipeline.gather import columnar
from tidings.pipeline.gather.continuation import breaks
from tidings.pipeline.gather.engines import Bucket, State
from tidings.pipeline.gather.layout import Layout

GOES_ON: dict[str, Any] = {
    "version": 7,
    "keep": "1d",
    "root": "b1",
    "unknown_fields": "drop",
    "every_min": "9s",
    "keep_reports": "1d",
    "encoding": "msgpack",
    "seat": "centre",
    "seat_scope": "topic",
    "seats": 3,
    "before_seat": "pass",
    "on_the_way": "drop",
    "open_max": 5,
    "event_bytes_max": 2048,
    "overflow": "refuse",
}
"""Options that brokers alone look at, or that are for reports before they are gathered."""

BREAKS: dict[str, tuple[Any, str]] = {
    "key": (["place", "note"], "key was place and is place, note"),
    "merge_after": ("3s", "merge_after was 4s and is 3s"),
    "redundant_for": ("30s", "redundant_for was 1m and is 30s"),
    "window": ("20m", "window was 10m and is 20m"),
    "stays_open": ("reported", "stays_open was merged and is reported"),
    "ends_when": ("severity = 0", "ends_when was none and is severity = 0"),
    "tell_first": ("now", "tell_first was merge_after and is now"),
    "tell_now": ("severity > 3", "tell_now was none and is severity > 3"),
    "complete": ("once", "complete was event and is once"),
}
"""Options by which events are gathered, with what is said."""


def test_of_every_option_it_is_known_whether_a_stream_goes_on() -> None:
    assert {*GOES_ON, *BREAKS} == {*OPTIONS} - {"name", "kind", "fields"}
    for name, value in GOES_ON.items():
        assert breaks(road(), road(**{name: value})) == [], name
    for name, (value, said) in BREAKS.items():
        assert breaks(road(), road(**{name: value})) == [said]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"lanes": {"type": "int", "tolerance": 0.25}}, ["type of lanes was float and is int"]),
        ({"lanes": {"type": "float"}}, ["tolerance of lanes was 0.25 and is none"]),
        ({"severity": {"type": "int"}}, ["conflict of severity was max and is first"]),
        ({"severity": {"type": "int", "conflict": "max", "domain": [0, 5]}}, []),
        ({"more": {"deep": {"type": "int"}}}, []),
        (
            {"seen": {"type": "int", "conflict": "union"}},
            ["the engine was kernel and is machine, because seen is kept by union, for which an event holds"],
        ),
    ],
)
def test_fields_may_be_added_and_keep_what_they_mean(fields: dict[str, Any], said: list[str]) -> None:
    found = breaks(road(), road(fields=fields))
    assert [one.removesuffix(" many values") for one in found] == said


def test_a_field_that_is_gone_breaks_and_a_filter_that_is_written_otherwise_does_not() -> None:
    assert breaks(road(fields={"more": {"deep": {"type": "int"}}}), road()) == [
        "the field more.deep (int) is gone"
    ]
    assert breaks(road(tell_now="severity > 3"), road(tell_now="NOT (severity <= 3)")) == []
    plain = Topic.from_mapping({"name": "road", "kind": "plain"})
    assert breaks(road(), plain) == ["kind was gathered and is plain"]


# Streams.


def motorway(*names: str, **options: Any) -> Topic:
    """A topic with fields of one type, in this order."""
    fields = {"place": {"type": "string"}} | {name: {"type": "int"} for name in names}
    mapping = {"name": "motorway", "kind": "gathered", "key": ["place"], "fields": fields}
    return Topic.from_mapping(mapping | options)


def report(topic: Topic, number: int, at_s: float, **fields: Any) -> Report:
    return Shape(topic).report(topic.name, fields, report_id=str(number), at_us=round(at_s * SECOND))


def begun(topic: Topic, reports: list[Report], *, buckets: int = 1) -> State:
    """What is kept when these have come, the last of which still waits."""
    bucket = Bucket(Layout(topic), 0, buckets)
    assert bucket.feed(Layout(topic).table(reports), reports[-1].at_us).num_rows == 0
    return bucket.kept()


@pytest.mark.parametrize("engine", ["kernel", "machine"])
def test_fields_that_change_places_keep_their_values(engine: str) -> None:
    more = {} if engine == "kernel" else {"tell_now": "speed > 200"}
    old, new = motorway("speed", "cars", "lanes", **more), motorway("cars", "speed", "lanes", **more)
    reports = [report(old, number, number, place="A1", speed=100, cars=5) for number in (1, 2)]
    kept = begun(old, reports)
    lines = of_table(Bucket(Layout(new), 0, kept=kept).finish())
    assert [line[0] for line in lines] == ["told", "closed"]
    assert lines[0][-1] == {"place": "A1", "speed": 100, "cars": 5}


@pytest.mark.parametrize("engine", ["kernel", "machine"])
def test_what_was_complete_is_not_when_a_field_is_added(engine: str) -> None:
    more = {} if engine == "kernel" else {"tell_now": "cars > 200"}
    old, new = motorway("cars", **more), motorway("cars", "speed", **more)
    bucket = Bucket(Layout(old), 0)
    told = bucket.feed(Layout(old).table([report(old, 1, 1, place="A1", cars=5)]), 2 * SECOND)
    assert [row["complete"] for row in told.to_pylist()] == [True]
    rest = Bucket(Layout(new), 0, kept=bucket.kept()).finish()
    assert [(row["state"], row["complete"]) for row in rest.to_pylist()] == [("closed", False)]


def test_what_cannot_go_on_is_refused_in_one_line_with_the_way_out() -> None:
    topic = motorway("cars")
    kept = begun(topic, [report(topic, 1, 1, place="A1")], buckets=4)
    for layout, said in (
        (Layout(motorway("cars", redundant_for="5m")), "redundant_for was 1m and is 5m"),
        (Layout(motorway("speed")), "the field cars (int) is gone"),
        (Layout(motorway("cars", name="road")), "the topic was 'motorway' and is 'road'"),
        (Layout(topic, by_topic=True), "it was of one topic and is of several topics"),
        (Layout(topic, text_ids=True), "ids of reports were whole numbers and are texts"),
        (
            Layout(motorway("speed", window="none", stays_open="reported")),
            "window was 10m and is none; stays_open was merged and is reported; the field cars (int) is gone",
        ),
    ):
        with pytest.raises(InputError) as refused:
            Bucket(layout, 0, 4, kept)
        assert str(refused.value) == (
            f"the stream of 'motorway' cannot go on: {said}; give the declaration that it was begun under, "
            "or begin with another checkpoint"
        )


def test_states_of_other_buckets_engines_and_formats_are_refused() -> None:
    topic = motorway("cars")
    kept = begun(topic, [report(topic, 1, 1, place="A1")], buckets=4)
    with pytest.raises(InputError, match="begun with 4 buckets and cannot go on with 8; give buckets=4, or"):
        Bucket(Layout(topic), 0, 8, kept)
    other = State(json.dumps(json.loads(kept.header) | {"engine": "machine"}), kept.body)
    with pytest.raises(
        InputError, match="'motorway' cannot go on: the engine was machine and is kernel; give"
    ):
        Bucket(Layout(topic), 0, 4, other)
    with pytest.raises(InputError, match=r"has format 7; this version of Tidings reads 2\. Let the version"):
        Bucket(Layout(topic), 0, 4, State('{"format": 7}', kept.body))


def test_several_topics_go_on_whichever_of_them_is_named_first() -> None:
    layout = Layout(motorway("cars"), by_topic=True)
    rows = layout.table([report(motorway("cars"), 1, 1, place="A1", cars=5)])
    bucket = Bucket(layout, 0)
    bucket.feed(rows, SECOND)
    other = Layout(motorway("cars", name="road"), by_topic=True)
    told = Bucket(other, 0, kept=bucket.kept()).finish().to_pylist()
    assert [(row["state"], row["topic"]) for row in told] == [("told", "motorway"), ("closed", "motorway")]


# Any declarations, by Hypothesis.


@st.composite
def continued(draw: st.DrawFn, mapping: dict[str, Any]) -> dict[str, Any]:
    """The same in another order, with more fields, with options that change nothing."""
    new = deepcopy(mapping)
    kernel = columnar.unsaid(Topic.from_mapping(mapping)) is None
    policies = ["first", "last", "max", "min"] + ([] if kernel else ["union", "majority"])
    for name in draw(st.lists(st.sampled_from(["h", "i"]), unique=True)):
        traits = {
            "type": draw(st.sampled_from(["int", "string"])),
            "conflict": draw(st.sampled_from(policies)),
        }
        groups = [new["fields"], *([new["fields"]["g"]] if "g" in new["fields"] else [])]
        draw(st.sampled_from(groups))[name] = traits
    for name in draw(st.lists(st.sampled_from(sorted(GOES_ON)), unique=True, max_size=3)):
        if name != "on_the_way":  # not for topics on which each report counts
            new[name] = GOES_ON[name]
    new["fields"] = _shuffled(new["fields"], draw(st.randoms(use_true_random=False)))
    return new


def _shuffled(fields: dict[str, Any], drawn: random.Random) -> dict[str, Any]:
    names = drawn.sample(sorted(fields), len(fields))
    return {
        name: fields[name] if isinstance(fields[name].get("type"), str) else _shuffled(fields[name], drawn)
        for name in names
    }


@st.composite
def broken(draw: st.DrawFn, mapping: dict[str, Any]) -> dict[str, Any]:
    """The same, but for something by which events are gathered."""
    new = deepcopy(mapping)
    free = leaves({name: one for name, one in new["fields"].items() if name not in "kns"})
    match draw(st.sampled_from(["option", "name", "gone", "type", "conflict", "tolerance"])):
        case "option":
            choices: dict[str, list[Any]] = {
                "key": [["k"], ["lower(k)"], ["k", "s"], ["s", "k"]],
                "merge_after": ["0s", "1s", "2s"],
                "redundant_for": ["1s", "4s", "8s"],
                "window": ["4s", "1h", "none"],
                "stays_open": ["merged", "reported"],
                "tell_first": ["merge_after", "now"],
                "complete": ["event", "report", "once"],
                "ends_when": ["s = 5"],
                "tell_now": ["s = 5"],
            }
            name = draw(st.sampled_from(sorted(choices)))
            new[name] = draw(st.sampled_from(choices[name]))
        case "name":
            new["name"] = "u"
        case "gone":
            names = sorted(set(new["fields"]) - {"k", "n", "s"})
            assume(names)
            del new["fields"][draw(st.sampled_from(names))]
        case trait:
            assume(free)
            traits = draw(st.sampled_from(free))
            if trait == "type":
                traits.pop("tolerance", None)
            values: dict[str, list[Any]] = {
                "type": ["string", "int", "float", "bool"],
                "conflict": ["first", "last", "max", "min", "union", "majority"],
                "tolerance": [3, "3s"],
            }
            traits[trait] = draw(st.sampled_from(values[trait]))
    return new


ANY = kernel_declarations() | declarations()


@settings(max_examples=examples(120))
@given(st.data(), ANY, st.sampled_from([0, SECOND, 4 * SECOND]), st.booleans())
def test_a_stream_that_goes_on_tells_what_one_never_stopped_tells(
    data: st.DataObject, mapping: dict[str, Any], delay_us: int, text_ids: bool
) -> None:
    changed = data.draw(continued(mapping))
    old, new = Topic.from_mapping(mapping), Topic.from_mapping(changed)
    before = data.draw(reported(mapping, most=15))
    last = before[-1]
    after = data.draw(reported(changed, begin=len(before) + 1, at_us=last.at_us, most=15))
    layouts = Layout(old, text_ids=text_ids), Layout(new, text_ids=text_ids)
    begun = Bucket(layouts[0], delay_us, 4)
    told = begun.feed(layouts[0].table(before), last.at_us)
    going = Bucket(layouts[1], delay_us, 4, begun.kept())
    rest = [going.feed(layouts[1].table(after), after[-1].at_us)]
    # Once more, as what it has become.
    rest.append(Bucket(layouts[1], delay_us, 4, going.kept()).finish())
    lines = sorted(of_table(told) + of_table(pa.concat_tables(rest)), key=str)
    assert lines == sorted(of_both(old, new, [*before, *after], last.at_us - delay_us), key=str)


@settings(max_examples=examples(200))
@given(st.data(), ANY)
def test_a_stream_never_goes_on_under_what_would_gather_otherwise(
    data: st.DataObject, mapping: dict[str, Any]
) -> None:
    changed = data.draw(broken(data.draw(continued(mapping))))
    old = Topic.from_mapping(mapping)
    try:
        new = Topic.from_mapping(changed)
    except DeclarationError:
        assume(False)
    was, will = old.to_mapping(), new.to_mapping()
    same = all(was.get(name) == will.get(name) for name in ("name", *BREAKS))
    assume(not same or any(new.fields.get(path) != field for path, field in old.fields.items()))
    begun = Bucket(Layout(old), 0)
    with pytest.raises(
        InputError, match=r"^the stream of 't' cannot go on: [^\n]*; give the declaration [^\n]*$"
    ):
        Bucket(Layout(new), 0, kept=begun.kept())
