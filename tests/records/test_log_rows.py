"""Rows of a log: every declared field as its type, whatever the payload, and nothing in silence."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.client.log_server import Entry
from tidings.errors import InputError
from tidings.language.filters import parse
from tidings.language.topics import Topic
from tidings.records.log_rows import REPORTS, Rows, arrow_schema, form_of

FIELDS = {
    "road": {"type": "string"},
    "severity": {"type": "int"},
    "depth": {"type": "float"},
    "fire": {"type": "bool"},
    "seen": {"type": "timestamp"},
    "place": {"city": {"type": "string"}, "lat": {"type": "float"}},
}


def plain(**more: Any) -> Topic:
    return Topic.from_mapping({"name": "t", "kind": "plain", "keep": "1d", "fields": FIELDS, **more})


def gathered(name: str = "t", **fields: Any) -> Topic:
    return Topic.from_mapping(
        {
            "name": name,
            "kind": "gathered",
            "keep": "1d",
            "keep_reports": "1d",
            "key": ["road"],
            "merge_after": "1s",
            "redundant_for": "2s",
            "window": "10s",
            "fields": {"road": {"type": "string"}, **fields},
        }
    )


def entry(payload: Any, topic: str = "t", **about: Any) -> Entry:
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return Entry(about.pop("number", 0), 7, topic, data, **about)


def one(topic: Topic, found: Entry, what: str = "events") -> dict[str, Any]:
    (row,) = Rows(topic, what).batch("b1.5", [found]).to_pylist()
    return {name: value for name, value in row.items() if value is not None}


OWN = {"_topic": "t", "_holder": "b1.5", "_seq": 0, "_at": 7}


def test_each_declared_type_is_a_column_of_its_type() -> None:
    said = {
        "road": "A1",
        "severity": 3,
        "depth": 2,
        "fire": True,
        "seen": "2026-11-15T11:05:00.25Z",
        "place": {"city": "Athens"},
    }
    assert one(plain(), entry(said)) == OWN | {
        "road": "A1",
        "severity": 3,
        "depth": 2.0,
        "fire": True,
        "seen": datetime(2026, 11, 15, 11, 5, 0, 250_000, tzinfo=UTC),
        "place": {"city": "Athens", "lat": None},
    }


def test_a_payload_that_only_the_slow_way_takes_gives_the_same_row() -> None:
    """3.0 is an int of ours, and a time may be written without seconds; msgspec takes neither."""
    usual = one(plain(), entry({"severity": 3, "seen": "2026-11-15T11:05:00Z", "place": {"lat": 1.5}}))
    assert one(plain(), entry({"severity": 3.0, "seen": "2026-11-15 11:05", "place": {"lat": 1.5}})) == usual


def test_messagepack_and_json_give_the_same_row() -> None:
    said = {"road": "A1", "severity": 3}
    packed = entry(msgspec.msgpack.encode(said), content_type="application/msgpack")
    assert one(plain(), packed) == one(plain(), entry(said))


def test_entries_of_both_encodings_keep_their_order() -> None:
    said = [{"severity": at} for at in range(4)]
    entries = [
        entry(msgspec.msgpack.encode(one), content_type="application/msgpack") if at % 2 else entry(one)
        for at, one in enumerate(said)
    ]
    assert Rows(plain()).batch("b1.5", entries).column("severity").to_pylist() == [0, 1, 2, 3]


def test_a_value_that_an_older_declaration_let_in_is_null_and_the_others_stay() -> None:
    assert one(plain(), entry({"road": 7, "severity": 3, "place": "here"})) == OWN | {"severity": 3}


def test_undeclared_fields_are_json_where_the_topic_keeps_them() -> None:
    said = {"road": "A1", "wind": 3, "place": {"zip": "1", "lat": 2}}
    assert one(plain(unknown_fields="keep"), entry(said)) == OWN | {
        "road": "A1",
        "place": {"city": None, "lat": 2.0},
        "_fields": '{"place":{"zip":"1"},"wind":3}',
    }


def test_what_is_no_object_is_there_as_bytes() -> None:
    assert one(plain(unknown_fields="keep"), entry(b"\xff\x00")) == OWN | {"_payload": b"\xff\x00"}


def test_a_told_version_says_what_it_is() -> None:
    about: dict[str, Any] = {"event": "e1", "version": 2, "reports": 5, "complete": True, "state": "told"}
    assert one(gathered(), entry({"road": "A1"}, **about)) == OWN | {"road": "A1"} | {
        f"_{name}": value for name, value in about.items()
    }


def test_a_version_without_fields_has_none() -> None:
    assert one(gathered(), entry(b"", event="e1", state="merged-into")) == OWN | {
        "_event": "e1",
        "_state": "merged-into",
    }


def test_a_report_has_its_identity() -> None:
    assert one(gathered(), entry({"road": "A1"}, report="b1:1:7"), REPORTS) == OWN | {
        "road": "A1",
        "_report": "b1:1:7",
    }


def test_a_union_is_a_list() -> None:
    topic = gathered(lanes={"type": "int", "conflict": "union"})
    assert one(topic, entry({"road": "A1", "lanes": [1, 2]}))["lanes"] == [1, 2]
    assert one(topic, entry({"road": "A1", "lanes": 2}), REPORTS)["lanes"] == [2]


def test_a_named_level_is_a_column() -> None:
    topic = Topic.from_mapping(
        {"name": "fleet/+vehicle", "kind": "plain", "keep": "1d", "fields": {"speed": {"type": "int"}}}
    )
    assert one(topic, entry({"speed": 3}, "fleet/v7"))["vehicle"] == "v7"
    assert one(topic, entry({"speed": 3.0}, "fleet/v7"))["vehicle"] == "v7"


def test_where_keeps_what_is_true_of_an_entry_and_its_topic() -> None:
    where = parse("severity >= 2 AND `$topic` = 't'", plain().fields)
    entries = [entry({"severity": at}, number=at) for at in range(4)] + [entry({}, number=4)]
    assert Rows(plain(), where=where).batch("b1.5", entries).column("_seq").to_pylist() == [2, 3]


def test_a_field_with_the_name_of_a_column_of_ours_is_refused() -> None:
    topic = Topic.from_mapping(
        {"name": "t", "kind": "plain", "keep": "1d", "fields": {"_Seq": {"type": "int"}}}
    )
    with pytest.raises(InputError, match="_Seq has the name of a column"):
        arrow_schema(form_of(topic))


def test_no_entries_are_no_rows() -> None:
    assert Rows(plain()).batch("b1.5", []).num_rows == 0
