from __future__ import annotations

import copy
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import DeclarationError
from tidings.language import durations
from tidings.language.fields import Conflict, Field, Type
from tidings.language.payloads import Encoding
from tidings.language.topics import (
    FOREVER,
    OPTIONS,
    BeforeSeat,
    Complete,
    Kind,
    OnTheWay,
    Overflow,
    Scope,
    StaysOpen,
    Strategy,
    TellFirst,
    Topic,
    UnknownFields,
)

ATHENS: dict[str, Any] = {
    "name": "traffic/athens",
    "kind": "gathered",
    "key": ["place"],
    "merge_after": "4s",
    "redundant_for": "60s",
    "window": "10m",
    "fields": {
        "place": {"type": "string"},
        "severity": {"type": "int", "domain": [0, 5], "conflict": "max"},
        "opened": {"type": "timestamp"},
        "lanes": {"type": "float", "domain": [0, 8], "tolerance": 0.25},
        "fire": {"type": "bool"},
    },
}


def athens(**changes: Any) -> dict[str, Any]:
    """The example, with some options changed, added, or, if None, left out."""
    mapping = copy.deepcopy(ATHENS) | changes
    return {name: value for name, value in mapping.items() if value is not None}


def field(**traits: Any) -> Field:
    """The field that some traits declare."""
    return Topic.from_mapping(athens(fields={"place": {"type": "string"}, "x": traits})).fields["x",]


def problems(mapping: dict[str, Any]) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        Topic.from_mapping(mapping)
    return [problem.message for problem in caught.value.problems]


def problem(mapping: dict[str, Any]) -> str:
    (only,) = problems(mapping)
    return only


def test_the_example_is_read() -> None:
    topic = Topic.from_mapping(ATHENS)
    assert topic.name == "traffic/athens"
    assert topic.kind is Kind.GATHERED
    assert list(topic.fields.values()) == [
        Field(("place",), Type.STRING),
        Field(("severity",), Type.INT, (0, 5), Conflict.MAX),
        Field(("opened",), Type.TIMESTAMP),
        Field(("lanes",), Type.FLOAT, (0.0, 8.0), Conflict.FIRST, 0.25),
        Field(("fire",), Type.BOOL),
    ]
    assert [item.text for item in topic.key] == ["place"]
    assert topic.gathering is not None
    assert topic.gathering.merge_after_us == 4_000_000
    assert topic.gathering.redundant_for_us == 60_000_000
    assert topic.gathering.window_us == 600_000_000


def test_what_is_not_said_is_as_published() -> None:
    topic = Topic.from_mapping(athens(merge_after=None, redundant_for=None, window=None))
    assert topic == Topic.from_mapping(ATHENS)
    assert (topic.version, topic.unknown_fields) == (1, UnknownFields.REFUSE)
    assert (topic.keep_us, topic.root) == (None, None)
    gathering = topic.gathering
    assert gathering is not None
    assert gathering.stays_open is StaysOpen.MERGED
    assert gathering.tell_first is TellFirst.MERGE_AFTER
    assert gathering.complete is Complete.EVENT
    assert (gathering.ends_when, gathering.tell_now, gathering.keep_reports_us) == (None, None, None)
    assert gathering.every_min_us == gathering.merge_after_us
    assert gathering.encoding is Encoding.JSON
    assert (gathering.seat, gathering.seat_scope, gathering.seats) == (Strategy.TRAFFIC, Scope.TREE, 1)
    assert (gathering.before_seat, gathering.on_the_way) == (BeforeSeat.WAIT, OnTheWay.NOTHING)
    assert (gathering.open_max, gathering.event_bytes_max) == (100_000, 1_048_576)
    assert gathering.overflow is Overflow.TELL


def test_every_option_can_be_said() -> None:
    topic = Topic.from_mapping(
        athens(
            version=7,
            root="broker-3",
            unknown_fields="drop",
            keep="forever",
            keep_reports="7d",
            window="none",
            stays_open="reported",
            ends_when="severity = 0",
            tell_first="now",
            tell_now="fire",
            every_min="500ms",
            complete="report",
            encoding="msgpack",
            seat="median",
            seat_scope="topic",
            seats=5,
            before_seat="pass",
            on_the_way="nothing",
            open_max=7,
            event_bytes_max=2048,
            overflow="refuse",
        )
    )
    assert (topic.version, topic.root, topic.unknown_fields) == (7, "broker-3", UnknownFields.DROP)
    assert topic.keep_us == FOREVER
    gathering = topic.gathering
    assert gathering is not None
    assert gathering.keep_reports_us == durations.parse("7d")
    assert gathering.window_us is None
    assert gathering.stays_open is StaysOpen.REPORTED
    assert gathering.ends_when is not None
    assert gathering.ends_when.matches({"severity": 0})
    assert gathering.tell_first is TellFirst.NOW
    assert gathering.tell_now is not None
    assert gathering.tell_now.matches({"fire": True})
    assert gathering.every_min_us == 500_000
    assert gathering.complete is Complete.REPORT
    assert gathering.encoding is Encoding.MSGPACK
    assert (gathering.seat, gathering.seat_scope, gathering.seats) == (Strategy.MEDIAN, Scope.TOPIC, 5)
    assert (gathering.before_seat, gathering.on_the_way) == (BeforeSeat.PASS, OnTheWay.NOTHING)
    assert (gathering.open_max, gathering.event_bytes_max) == (7, 2048)
    assert gathering.overflow is Overflow.REFUSE


def test_a_plain_topic_may_be_typed_or_not() -> None:
    untyped = Topic.from_mapping({"name": "chat/#", "kind": "plain"})
    assert (untyped.kind, untyped.fields, untyped.key) == (Kind.PLAIN, {}, ())
    assert untyped.unknown_fields is UnknownFields.KEEP
    typed = Topic.from_mapping({"name": "chat", "kind": "plain", "fields": {"text": {"type": "string"}}})
    assert typed.unknown_fields is UnknownFields.REFUSE
    levels = Topic.from_mapping({"name": "chat/+room", "kind": "plain"})
    assert levels.fields == {("room",): Field(("room",), Type.STRING)}
    assert levels.unknown_fields is UnknownFields.KEEP


def test_named_levels_are_fields_and_may_be_in_the_key() -> None:
    fields = {"speed": {"type": "float"}}
    topic = Topic.from_mapping(athens(name="fleet/+vehicle/status", key=["vehicle"], fields=fields))
    assert list(topic.fields) == [("vehicle",), ("speed",)]
    assert topic.fields["vehicle",] == Field(("vehicle",), Type.STRING)


def test_a_level_may_be_declared_as_the_string_it_is() -> None:
    fields = {"speed": {"type": "float"}, "vehicle": {"type": "string", "domain": ["v1", "v2"]}}
    topic = Topic.from_mapping(athens(name="fleet/+vehicle/status", key=["vehicle"], fields=fields))
    assert list(topic.fields) == [("speed",), ("vehicle",)]
    assert topic.fields["vehicle",].domain == ("v1", "v2")


def test_groups_make_paths() -> None:
    fields = {
        "place": {"city": {"type": "string"}, "at": {"lat": {"type": "float"}}},
        "type": {"type": "int"},
    }
    topic = Topic.from_mapping(athens(key=["place.city"], fields=fields))
    assert list(topic.fields) == [("place", "city"), ("place", "at", "lat"), ("type",)]
    fields = {"vehicle": {"type": {"type": "string"}}}
    topic = Topic.from_mapping(athens(key=["vehicle.type"], fields=fields))
    assert list(topic.fields) == [("vehicle", "type")]


@pytest.mark.parametrize(
    ("traits", "domain", "tolerance"),
    [
        ({"type": "int", "domain": [-5, -5], "tolerance": 2}, (-5, -5), 2),
        ({"type": "int", "domain": [-(2**63), 2**63 - 1]}, (-(2**63), 2**63 - 1), None),
        ({"type": "float", "domain": [-0.0, 1]}, (0.0, 1.0), None),
        ({"type": "string", "domain": ["calm", "rough", "storm"]}, ("calm", "rough", "storm"), None),
        (
            {"type": "timestamp", "domain": ["2026-01-01", "2026-01-01T00:00+00:00"], "tolerance": "30s"},
            (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
            30_000_000,
        ),
        (
            {
                "type": "timestamp",
                "domain": [date(2026, 1, 1), datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2)))],
            },
            (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, 1, tzinfo=UTC)),
            None,
        ),
        (
            {"type": "timestamp", "domain": [datetime(2026, 1, 1), datetime(2026, 1, 2)]},  # noqa: DTZ001
            (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
            None,
        ),
    ],
)
def test_domains_and_tolerances(traits: dict[str, Any], domain: object, tolerance: object) -> None:
    declared = field(**traits)
    assert declared.domain == domain
    assert declared.tolerance == tolerance


@pytest.mark.parametrize("conflict", list(Conflict))
@pytest.mark.parametrize("kind", list(Type))
def test_every_policy_goes_with_every_type(conflict: Conflict, kind: Type) -> None:
    assert field(type=kind.value, conflict=conflict.value) == Field(("x",), kind, conflict=conflict)


@pytest.mark.parametrize(
    ("traits", "reason"),
    [
        (
            {"type": "integer"},
            "x: type 'integer' is not one of 'string', 'int', 'float', 'bool', 'timestamp'",
        ),
        ({}, 'x has no type; write type = "string", "int", "float", "bool", "timestamp"'),
        ({"domain": [0, 5]}, "x has no type"),
        ({"type": "int", "domian": [0, 5]}, "x: a field has no 'domian'; it may have type, domain"),
        ({"type": "int", "domain": 5}, "x: domain 5 is not a list; write [0, 5]"),
        ({"type": "int", "domain": [0]}, "not a lowest and a highest value"),
        ({"type": "int", "domain": [5, 0]}, "ends before it begins"),
        ({"type": "int", "domain": [0, 5.5]}, "has 5.5, which is not a value of type int"),
        ({"type": "int", "domain": [True, 5]}, "has true, which is not a value of type int"),
        ({"type": "int", "domain": [0, 2**63]}, "has an integer of 64 bits"),
        ({"type": "float", "domain": [0, float("inf")]}, "has inf, which is not a value of type float"),
        ({"type": "float", "domain": [float("nan"), 1]}, "has nan, which is not a value of type float"),
        ({"type": "float", "domain": [0, 10**400]}, "has an integer of 1329 bits"),
        ({"type": "float", "domain": ["a", "b"]}, "has 'a', which is not a value of type float"),
        ({"type": "timestamp", "domain": [0, 1]}, "has 0, which is not a value of type timestamp"),
        ({"type": "timestamp", "domain": ["x", "y"]}, "'x' is not a timestamp"),
        ({"type": "string", "domain": []}, "is not a list of strings"),
        ({"type": "string", "domain": ["a", 1]}, "is not a list of strings"),
        ({"type": "string", "domain": ["a", "a"]}, "names a value twice"),
        ({"type": "bool", "domain": [False, True]}, "is not for a bool"),
        ({"type": "int", "conflict": "newest"}, "x: conflict 'newest' is not one of 'first', 'last'"),
        ({"type": "int", "tolerance": 0}, "x: tolerance 0 is not above 0"),
        ({"type": "float", "tolerance": -0.5}, "-0.5 is not above 0"),
        ({"type": "float", "tolerance": "1s"}, "'1s' is not above 0"),
        ({"type": "float", "tolerance": float("inf")}, "inf is not above 0"),
        ({"type": "timestamp", "tolerance": "0s"}, "'0s' is not above 0"),
        ({"type": "timestamp", "tolerance": 30}, "30 has no unit"),
        ({"type": "string", "tolerance": 1}, "is for numbers and timestamps, not for a string"),
        ({"type": "bool", "tolerance": 1}, "not for a bool"),
    ],
)
def test_a_bad_field_is_told_why(traits: dict[str, Any], reason: str) -> None:
    assert reason in problem(athens(fields={"place": {"type": "string"}, "x": traits}))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"place": "string"}, "place: 'string' is not a field; write { type = \"string\" }"),
        ({"place": 3}, 'write { type = "int" }'),
        ({"": {"type": "int"}}, "'' is no name"),
        ({"a\n": {"type": "int"}}, "is no name"),
        ({"x" * 256: {"type": "int"}}, "is no name"),
        (
            {"place": {"type": "int"}, "Place": {"type": "int"}},
            "'place' and 'Place' differ only in upper and",
        ),
        ({"a": {}}, "a has no type"),
        ({"a": {"b": 1}}, "a has no type"),
        ({f"f{n}": {"type": "int"} for n in range(1001)}, "1001 fields are more than 1000"),
    ],
)
def test_bad_tables_of_fields_are_told_why(fields: dict[str, Any], reason: str) -> None:
    assert reason in problem({"name": "x", "kind": "plain", "fields": fields})


def test_fields_are_not_too_deep() -> None:
    fields: dict[str, Any] = {"type": "int"}
    for _ in range(17):
        fields = {"a": fields}
    assert "deeper than 16 names" in problem({"name": "x", "kind": "plain", "fields": fields})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": None}, "name is missing"),
        ({"name": 7}, "name: 7 is not a string; put it in quotes"),
        ({"name": "a/#/b"}, "name: 'a/#/b' has '#' in the middle"),
        ({"kind": None}, 'kind is missing; write kind = "gathered" or kind = "plain"'),
        ({"kind": "gather"}, "kind: 'gather' is not one of 'gathered', 'plain'"),
        ({"version": 0}, "version: 0 is not a whole number from 1 up"),
        ({"version": True}, "version: true is not a whole number"),
        ({"version": 1.0}, "version: 1.0 is not a whole number"),
        ({"key": None}, "key is missing"),
        ({"key": "place"}, "key: 'place' is not a list; write key = [\"place\"], say"),
        ({"key": []}, "key: the list is empty"),
        ({"key": [3]}, "key: 3 is not a string"),
        ({"key": ["plce"]}, "names 'plce', which is neither a declared field nor a named level"),
        ({"key": ["place", "place"]}, "'place' is there twice"),
        ({"key": ["lanes"]}, "'lanes' has a tolerance, but keys are compared exactly"),
        ({"fields": None}, "fields are missing"),
        ({"fields": {}}, "fields are missing"),
        ({"fields": [1]}, "fields: [1] is not a table"),
        ({"merge_after": 4}, "merge_after: 4 has no unit"),
        ({"merge_after": "61s"}, "merge_after (61s) is longer than redundant_for (1m); an event must not be"),
        ({"merge_after": "2m", "redundant_for": None}, "is longer than redundant_for (1m, the default)"),
        ({"redundant_for": "11m"}, "redundant_for (11m) is longer than window (10m); the window must"),
        ({"window": "30s", "redundant_for": None}, "(1m, the default) is longer than window (30s)"),
        ({"window": "none"}, "it needs stays_open = 'reported'"),
        ({"window": "never"}, "window: 'never' is not a duration"),
        ({"stays_open": "always"}, "stays_open: 'always' is not one of 'merged', 'reported'"),
        ({"ends_when": "severty = 0"}, "ends_when: "),
        ({"tell_now": "fire AND"}, "tell_now: "),
        ({"tell_now": 3}, "tell_now: 3 is not a string"),
        ({"tell_first": "later"}, "tell_first: 'later' is not one of 'merge_after', 'now'"),
        ({"every_min": "-1s"}, "every_min: '-1s' is not a duration"),
        ({"complete": True}, "complete: true is not one of 'event', 'report', 'once'"),
        ({"seat": "middle"}, "seat: 'middle' is not one of 'centre', 'median', 'traffic'"),
        ({"seat_scope": "all"}, "seat_scope: 'all' is not one of 'tree', 'topic'"),
        ({"seats": 0}, "seats: 0 is not a whole number from 1 to 64"),
        ({"seats": True}, "seats: true is not a whole number from 1 to 64"),
        ({"before_seat": "drop"}, "before_seat: 'drop' is not one of 'wait', 'pass'"),
        ({"on_the_way": True}, "on_the_way: true is not one of 'nothing', 'drop', 'merge'"),
        ({"on_the_way": "drop", "stays_open": "reported"}, "with stays_open = 'reported' it does: leave"),
        ({"on_the_way": "merge", "ends_when": "fire"}, "on_the_way = 'merge' is for topics on which"),
        (
            {"on_the_way": "drop", "fields": {"place": {"type": "string", "conflict": "majority"}}},
            "with conflict = 'majority' of 'place' it does",
        ),
        (
            {
                "on_the_way": "drop",
                "fields": {"place": {"type": "string"}, "seen": {"by": {"type": "int", "conflict": "union"}}},
            },
            "with conflict = 'union' of 'seen.by' it does",
        ),
        (
            {
                "on_the_way": "drop",
                "fields": {"place": {"type": "string"}, "note": {"type": "string", "conflict": "last"}},
            },
            "with conflict = 'last' of 'note' it does",
        ),
        ({"open_max": 1.5}, "open_max: 1.5 is not a whole number from 1 to 100,000,000"),
        ({"event_bytes_max": 1023}, "event_bytes_max: 1023 is not a whole number from 1,024 to 16,777,216"),
        ({"overflow": "drop"}, "overflow: 'drop' is not one of 'tell', 'refuse'"),
        ({"keep": "0s"}, "keep: '0s' does not say how long"),
        ({"keep": 7}, "keep: 7 has no unit"),
        ({"keep_reports": True}, "keep_reports = true means as long as keep, which is missing"),
        ({"root": ""}, "root: '' is not the id of a broker"),
        ({"root": " b"}, "root: ' b' is not the id of a broker"),
        ({"root": "b\x00"}, "is not the id of a broker"),
        ({"unknown_fields": "ignore"}, "unknown_fields: 'ignore' is not one of 'refuse', 'drop', 'keep'"),
        ({"unknown_fields": "keep"}, "unknown_fields = 'keep' is for plain topics"),
        ({"encoding": "xml"}, "encoding: 'xml' is not one of 'json', 'msgpack'"),
        ({"merge_afer": "4s"}, "there is no option 'merge_afer'; did you mean merge_after"),
        ({"Tm": "4s"}, "there is no option 'Tm'; did you mean merge_after?"),
        ({"zzz": 1}, "there is no option 'zzz'; there are name, kind"),
        (
            {"name": "traffic/+place", "fields": {"place": {"type": "int"}}},
            "is a string field, but 'place' is declared int",
        ),
        (
            {"name": "traffic/+place", "key": ["place"], "fields": {"place": {"city": {"type": "string"}}}},
            "is a string field, but 'place' is a group of fields",
        ),
        ({"name": "traffic/+Place"}, "'+Place' and the field 'place' differ only in upper and lower case"),
    ],
)
def test_a_bad_option_is_told_why(changes: dict[str, Any], reason: str) -> None:
    assert reason in problem(athens(**changes))


def test_a_union_cannot_be_in_the_key() -> None:
    fields = {"place": {"type": "string", "conflict": "union"}}
    assert "a key needs one" in problem(athens(key=["lower(place)"], fields=fields))


def test_keep_may_be_yes_or_no() -> None:
    assert Topic.from_mapping(athens(keep=True)).keep_us == FOREVER
    assert Topic.from_mapping(athens(keep=False)).keep_us is None


def test_keep_reports_may_follow_keep() -> None:
    topic = Topic.from_mapping(athens(keep="7d", keep_reports=True))
    assert topic.gathering is not None
    assert topic.gathering.keep_reports_us == topic.keep_us == durations.parse("7d")
    topic = Topic.from_mapping(athens(keep="7d", keep_reports=False))
    assert topic.gathering is not None
    assert topic.gathering.keep_reports_us is None


def test_a_plain_topic_refuses_every_option_of_gathering() -> None:
    gathered = [name for name, option in OPTIONS.items() if option.gathered]
    assert len(gathered) == 20
    said = problems({"name": "x", "kind": "plain"} | dict.fromkeys(gathered, "4s"))
    for name in gathered:
        assert f'{name} is for gathered topics only; leave it out, or write kind = "gathered"' in said


def test_a_plain_topic_without_fields_has_no_policy() -> None:
    assert "needs [fields]" in problem({"name": "x", "kind": "plain", "unknown_fields": "drop"})
    topic = Topic.from_mapping({"name": "x", "kind": "plain", "unknown_fields": "keep"})
    assert topic.unknown_fields is UnknownFields.KEEP


def test_all_problems_come_at_once() -> None:
    assert len(problems({"Tm": 1, "kind": "plain", "key": 3, "keep": 0, "fields": {"a": {"type": "x"}}})) == 6


def test_what_cannot_be_a_declaration_from_a_program() -> None:
    mapping: dict[Any, Any] = {1: 2, None: 3, "x" * 300: 4, "fields": {2: {"type": "int"}}}
    assert len(problems(mapping)) == 6


def test_a_topic_can_be_sent_to_another_process() -> None:
    topic = Topic.from_mapping(athens(ends_when="severity = 0", key=["lower(trim(place))"]))
    assert pickle.loads(pickle.dumps(topic)) == topic


NAMES = st.sampled_from(["a", "b c", "severity", "x.y", "é"])
DURATIONS = st.integers(0, 10**9).map(durations.text)


@st.composite
def traits(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(Type))
    table: dict[str, Any] = {"type": kind.value, "conflict": draw(st.sampled_from(Conflict)).value}
    if kind in (Type.INT, Type.FLOAT):
        numbers = st.integers(-(2**63), 2**63 - 1) if kind is Type.INT else st.floats(-1e300, 1e300)
        table["domain"] = sorted(draw(st.tuples(numbers, numbers)))
        if draw(st.booleans()):
            table["tolerance"] = draw(st.floats(1e-300, 1e300) | st.integers(1, 2**70))
    elif kind is Type.TIMESTAMP:
        table["tolerance"] = draw(st.integers(1, 10**12).map(durations.text))
        times = st.datetimes(timezones=st.just(UTC))
        table["domain"] = sorted(draw(st.tuples(times, times)))
    elif kind is Type.STRING:
        table["domain"] = draw(st.lists(st.text(max_size=3), min_size=1, max_size=3, unique=True))
    return table


@st.composite
def declarations(draw: st.DrawFn) -> dict[str, Any]:
    fields = draw(st.dictionaries(NAMES, traits(), max_size=4))
    inner = draw(st.dictionaries(NAMES, traits(), max_size=2))
    if inner:
        fields["inner"] = inner
    mapping: dict[str, Any] = {"name": "t/+level/#", "version": draw(st.integers(1, 2**63 - 1))}
    if fields:
        mapping["fields"] = fields
    if draw(st.booleans()):
        mapping["keep"] = draw(st.sampled_from(["7d", "90s", "forever"]))
    if draw(st.booleans()):
        return mapping | {"kind": "plain"}
    merge_after, redundant_for, window = sorted(draw(st.tuples(*[st.integers(0, 10**10)] * 3)))
    mapping |= {
        "kind": "gathered",
        "key": ["lower(trim(level))"],
        "merge_after": durations.text(merge_after),
        "redundant_for": durations.text(redundant_for),
        "window": durations.text(window),
        "every_min": draw(DURATIONS),
        "tell_now": draw(st.sampled_from(["level = 'x'", "level LIKE 'a%' OR level IS NULL"])),
    }
    choices: type[StrEnum]
    for name, choices in (
        ("stays_open", StaysOpen),
        ("tell_first", TellFirst),
        ("complete", Complete),
        ("seat", Strategy),
        ("seat_scope", Scope),
        ("before_seat", BeforeSeat),
        ("on_the_way", OnTheWay),
        ("overflow", Overflow),
    ):
        mapping[name] = draw(st.sampled_from([choice.value for choice in choices]))
    if mapping["stays_open"] == "reported" or any(
        field["conflict"] in ("last", "union", "majority")
        for field in [*fields.values(), *inner.values()]
        if field is not inner
    ):
        mapping["on_the_way"] = "nothing"
    mapping["seats"] = draw(st.integers(1, 64))
    mapping["open_max"] = draw(st.integers(1, 100_000_000))
    mapping["event_bytes_max"] = draw(st.integers(1_024, 16 * 1_048_576))
    return mapping


@given(declarations())
def test_a_declaration_leads_back(mapping: dict[str, Any]) -> None:
    topic = Topic.from_mapping(mapping)
    again = Topic.from_mapping(topic.to_mapping())
    assert again == topic
    assert list(again.fields) == list(topic.fields)
    assert again.to_mapping() == topic.to_mapping()


@pytest.mark.parametrize(
    ("conflict", "expected"),
    [("first", OnTheWay.DROP), ("max", OnTheWay.NOTHING), ("last", OnTheWay.NOTHING)],
)
def test_reports_are_dropped_on_the_way_unasked_only_where_no_conflict_is_lost_by_it(
    conflict: str, expected: OnTheWay
) -> None:
    fields = {"place": {"type": "string"}, "severity": {"type": "int", "conflict": conflict}}
    topic = Topic.from_mapping({"name": "t", "kind": "gathered", "key": ["place"], "fields": fields})
    assert topic.gathering is not None
    assert topic.gathering.on_the_way is expected
