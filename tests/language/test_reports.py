from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import PayloadError
from tidings.language.payloads import Encoding, decode, encode
from tidings.language.reports import Event, Report, Shape
from tidings.language.topics import Topic

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
FIELDS: dict[str, Any] = {
    "place": {"type": "string"},
    "severity": {"type": "int", "domain": [0, 5], "conflict": "max"},
    "opened": {"type": "timestamp"},
    "lanes": {"type": "float", "domain": [0, 8], "tolerance": 0.25},
    "fire": {"type": "bool"},
    "seen by": {"type": "string", "conflict": "union"},
    "at": {"lat": {"type": "float"}, "lon": {"type": "float"}},
}


def shape(**changes: Any) -> Shape:
    mapping = {"name": "traffic/athens", "kind": "gathered", "key": ["place"], "fields": FIELDS} | changes
    return Shape(Topic.from_mapping({name: value for name, value in mapping.items() if value is not None}))


ATHENS = shape()


def take(fields: dict[str, Any], of: Shape = ATHENS) -> dict[str, object]:
    return of.take(of.topic.name, fields)


def refused(fields: dict[str, Any], of: Shape = ATHENS) -> str:
    with pytest.raises(PayloadError) as caught:
        take(fields, of)
    return str(caught.value)


def test_a_payload_becomes_a_report() -> None:
    data = b'{"severity":3,"place":"A1","opened":"2026-11-15T14:00+02:00","at":{"lon":23,"lat":null}}'
    assert ATHENS.read("traffic/athens", data, report_id="b1-1-7", at_us=5) == Report(
        topic="traffic/athens",
        key=("A1",),
        fields={"place": "A1", "severity": 3, "opened": NOON, "at": {"lon": 23.0}},
        id="b1-1-7",
        at_us=5,
    )


def test_fields_come_in_the_declared_order() -> None:
    taken = take({"at": {"lon": 1, "lat": 2}, "fire": True, "place": "A1"})
    assert list(taken) == ["place", "fire", "at"]
    assert encode(taken) == b'{"place":"A1","fire":true,"at":{"lat":2.0,"lon":1.0}}'


@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("place", "", ""),
        ("place", "a\x00b", "a\x00b"),
        ("severity", 2**63 - 1, 2**63 - 1),
        ("severity", 3.0, 3),
        ("severity", -0.0, 0),
        ("severity", 2.0**53 - 1, 2**53 - 1),
        ("severity", 99, 99),
        ("lanes", 3, 3.0),
        ("lanes", 2**63 - 1, 2.0**63),
        ("lanes", -0.0, 0.0),
        ("lanes", 5e-324, 5e-324),
        ("fire", False, False),
        ("opened", "2026-11-15 12:00", NOON),
        ("opened", "2026-11-15T12:00:00.0000004Z", NOON),
        ("opened", NOON.astimezone(timezone(timedelta(hours=5))), NOON),
        ("opened", NOON.replace(tzinfo=None), NOON),
        ("seen by", "b", ["b"]),
        ("seen by", ["b", "a", "b"], ["a", "b"]),
    ],
)
def test_a_value_is_taken_as_its_declared_type(name: str, value: object, taken: object) -> None:
    found = take({name: value})[name]
    assert found == taken
    assert type(found) is type(taken)
    assert str(found) == str(taken)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("place", 7, 'place: 7 is not a string; write "7"'),
        ("place", True, "place: true is not a string"),
        ("place", NOON, "is not a string"),
        ("place", {"x": 1}, "place: {'x': 1} is not a string"),
        ("severity", True, "severity: true is not an int of 64 bits"),
        ("severity", "3", "severity: '3' is not an int"),
        ("severity", 3.5, "severity: 3.5 is not an int"),
        ("severity", 2.0**53 + 2, "is not an int"),
        ("severity", 2**63, "severity: an integer of 64 bits is not an int of 64 bits"),
        ("severity", float("inf"), "inf is not an int"),
        ("severity", float("nan"), "nan is not an int"),
        ("lanes", "3", "lanes: '3' is not a finite number"),
        ("lanes", False, "lanes: false is not a finite number"),
        ("lanes", float("nan"), "lanes: nan is not a finite number"),
        ("lanes", float("-inf"), "lanes: -inf is not a finite number"),
        ("lanes", 10**400, "lanes: an integer of 1329 bits is not a finite number"),
        ("fire", 1, "fire: 1 is not true or false"),
        ("fire", "true", "fire: 'true' is not true or false"),
        ("opened", 1763208000, "opened: 1763208000 is not a timestamp; write it as"),
        ("opened", "noon", "opened: 'noon' is not a timestamp"),
        ("opened", "2026-02-30", "opened: '2026-02-30' is not a point in time"),
        ("opened", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "is not a point in time"),
        ("seen by", 3, "`seen by`: 3 is not a string"),
        ("seen by", ["a", None], "`seen by`: null is not a string"),
        ("severity", [3], "severity: [3] is not an int"),
        ("at", 5, "at: 5 is not an object; it is declared as a group of 'lat', 'lon'"),
        ("at", {"lat": "x"}, "at.lat: 'x' is not a finite number"),
        ("at", {"alt": 3}, "at.alt is not a declared field; did you mean at.lat?"),
        ("plaice", 3, "plaice is not a declared field; did you mean place?"),
        ("zzz", 3, "zzz is not a declared field; declared: place, severity, opened"),
    ],
)
def test_other_values_are_refused_with_the_place(name: str, value: object, reason: str) -> None:
    assert reason in refused({"place": "A1", name: value})


def test_empty_fields_are_left_out() -> None:
    assert take({"place": None, "at": None, "seen by": [], "fire": None}) == {}
    assert take({"at": {}}) == take({"at": {"lat": None}}) == {}
    assert refused({"zzz": None}).startswith("zzz is not a declared field")


def test_undeclared_fields_can_be_dropped_or_kept() -> None:
    fields = {"x": 1, "place": "A1", "at": {"alt": 3, "lat": 1}}
    assert take(fields, shape(unknown_fields="drop")) == {"place": "A1", "at": {"lat": 1.0}}
    keeping = shape(kind="plain", key=None, unknown_fields="keep")
    assert take(fields, keeping) == {"place": "A1", "at": {"lat": 1.0, "alt": 3}, "x": 1}
    untyped = Shape(Topic.from_mapping({"name": "chat/#", "kind": "plain"}))
    report = untyped.read("chat/a", b'{"a":[1,{"b":null}]}')
    assert (report.key, report.fields) == ((), {"a": [1, {"b": None}]})


def test_named_levels_are_filled_from_the_topic_name() -> None:
    fleet = shape(name="fleet/+vehicle/#", key=["vehicle"], fields={"speed": {"type": "float"}})
    report = fleet.read("fleet/v7/status", b'{"speed":3}')
    assert (report.topic, report.key) == ("fleet/v7/status", ("v7",))
    assert report.fields == {"vehicle": "v7", "speed": 3.0}
    assert fleet.read("fleet/v7", b'{"vehicle":"v7"}').fields == {"vehicle": "v7"}
    assert fleet.read("fleet/v7", b'{"vehicle":null}').fields == {"vehicle": "v7"}
    with pytest.raises(PayloadError, match="vehicle: 'v8' is not 'v7', which the topic name says"):
        fleet.read("fleet/v7", b'{"vehicle":"v8"}')
    with pytest.raises(
        PayloadError, match=r"topic 'flet/v7' does not match the declaration 'fleet/\+vehicle/#'"
    ):
        fleet.read("flet/v7", b"{}")


@pytest.mark.parametrize(
    ("key", "fields", "reason"),
    [
        (["place"], {}, "the key 'place' needs place, which the report does not have"),
        (["place"], {"place": None}, "the key 'place' needs place"),
        (["place", "bucket(opened, '1h')"], {"place": "A1"}, "the key \"bucket(opened, '1h')\" needs opened"),
        (["cell(at.lat, at.lon, '1km')"], {}, "needs at.lat and at.lon, which"),
        (
            ["cell(at.lat, at.lon, '1km')"],
            {"at": {"lat": 91, "lon": 0}},
            "has no value for 91.0, 0.0; a place",
        ),
    ],
)
def test_a_report_without_a_key_is_refused(key: list[str], fields: dict[str, Any], reason: str) -> None:
    keyed = shape(key=key)
    with pytest.raises(PayloadError) as caught:
        keyed.report("traffic/athens", fields)
    assert reason in str(caught.value)


def test_a_key_has_a_value_for_each_item() -> None:
    keyed = shape(key=["lower(trim(place))", "bucket(opened, '1h')", "floor(severity / 2)", "fire"])
    fields = {"place": " A1 ", "opened": "2026-11-15T12:59:59Z", "severity": 5, "fire": False}
    assert keyed.report("traffic/athens", fields).key == ("a1", NOON, 2, False)


def test_an_event_is_complete_when_every_declared_field_is_filled() -> None:
    fields = {"place": "A1", "severity": 1, "opened": NOON, "lanes": 1.0, "fire": False, "seen by": ["x"]}
    full = {**fields, "at": {"lat": 0.0, "lon": 0.0}}
    assert ATHENS.complete(full)
    assert not ATHENS.complete(fields)
    assert not ATHENS.complete({**fields, "at": {"lat": 0.0}})
    for name in full:
        assert not ATHENS.complete({**full, name: None})


def test_an_event_goes_out_in_the_declared_order() -> None:
    fields = {"x": 0, "at": {"lon": 1.0, "lat": 2.0}, "place": "A1"}
    assert list(ATHENS.ordered(fields)) == ["place", "at", "x"]
    assert encode(ATHENS.ordered(fields)) == b'{"place":"A1","at":{"lat":2.0,"lon":1.0},"x":0}'


def test_the_identity_of_an_event_is_the_same_in_all_versions() -> None:
    first = Event("t", ("A1",), "r1", 1, 1, False, {})
    later = Event("t", ("A1",), "r1", 2, 5, True, {"place": "A1"})
    assert first.identity == later.identity == ("t", ("A1",), "r1")


TIMES = st.datetimes(timezones=st.just(UTC))
TEXTS = st.text(max_size=5)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0)
REPORTS = st.fixed_dictionaries(
    {"place": TEXTS},
    optional={
        "severity": st.integers(-(2**63), 2**63 - 1),
        "opened": TIMES,
        "lanes": NUMBERS,
        "fire": st.booleans(),
        "seen by": st.lists(TEXTS, min_size=1, unique=True).map(sorted),
        "at": st.fixed_dictionaries({"lat": NUMBERS}, optional={"lon": NUMBERS}),
    },
)


@given(REPORTS, st.sampled_from(Encoding))
def test_fields_lead_back(fields: dict[str, Any], encoding: Encoding) -> None:
    report = ATHENS.read("traffic/athens", encode(fields, encoding), encoding)
    assert report.fields == fields
    assert report.key == (fields["place"],)
    assert ATHENS.take("traffic/athens", report.fields) == fields
    assert ATHENS.ordered(fields) == fields


DAY_US = 86_400_000_000


@pytest.mark.parametrize(
    ("fields", "far"),
    [
        ({"place": "x", "seen": "1970-01-11T00:00Z"}, False),
        ({"place": "x", "seen": "1970-01-10T00:00Z"}, False),
        ({"place": "x", "seen": "1970-01-09T23:59:59Z"}, True),
        ({"place": "x", "seen": "1970-01-12T00:00:00.000001Z"}, True),
        ({"place": "x", "passed": {"times": ["1970-01-11", "2026-11-15"]}}, True),
        ({"place": "x", "passed": {"times": ["1970-01-11"]}}, False),
        ({"place": "1970-01-01"}, False),
    ],
)
def test_a_time_is_far_if_it_is_more_than_a_day_away(fields: dict[str, Any], far: bool) -> None:
    times = {
        "place": {"type": "string"},
        "seen": {"type": "timestamp"},
        "passed": {"times": {"type": "timestamp", "conflict": "union"}},
    }
    it = shape(fields=times)
    assert it.far(take(fields, it), 10 * DAY_US) is far


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.sampled_from(["2026-11-15", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*FIELDS, "x"]), VALUES, max_size=5))
def test_arbitrary_json_is_taken_or_refused(fields: dict[str, Any]) -> None:
    data = json.dumps(fields).encode()
    try:
        report = ATHENS.read("traffic/athens", data)
    except PayloadError:
        return
    said = {name for name, value in decode(data).items() if value not in (None, [], {})}
    assert set(report.fields) >= said - {"at"}
    assert ATHENS.take("traffic/athens", report.fields) == report.fields


@given(st.binary(max_size=40), st.sampled_from(Encoding), TEXTS)
def test_arbitrary_bytes_are_taken_or_refused(data: bytes, encoding: Encoding, name: str) -> None:
    with pytest.raises(PayloadError):
        ATHENS.read(name, data, encoding)
