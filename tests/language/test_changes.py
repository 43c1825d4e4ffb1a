"""What a new declaration breaks for those who use the old one, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.test_topics import athens
from tidings.errors import PayloadError
from tidings.language.changes import breaks, removal_breaks, same
from tidings.language.reports import Shape
from tidings.language.topics import Topic

PLAIN: dict[str, Any] = {
    "name": "sea/state",
    "kind": "plain",
    "keep": "7d",
    "fields": {"waves": {"type": "string"}, "height": {"type": "float"}},
}


def broken(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What each complaint is about."""
    found = breaks(Topic.from_mapping(old), Topic.from_mapping(new))
    return [complaint.split(":")[0] for complaint in found]


def plain(**changes: Any) -> dict[str, Any]:
    mapping = PLAIN | changes
    return {name: value for name, value in mapping.items() if value is not None}


def fields(**changes: Any) -> dict[str, Any]:
    found = athens()["fields"] | changes
    return {name: traits for name, traits in found.items() if traits is not None}


@pytest.mark.parametrize(
    "new",
    [
        athens(),
        athens(version=7),
        athens(fields=fields(note={"type": "string"})),
        athens(fields=fields(severity={"type": "int", "domain": [1, 3], "conflict": "min"})),
        athens(fields=fields(lanes={"type": "float", "tolerance": 1.0})),
        athens(merge_after="1s", redundant_for="2m", window="1h", stays_open="reported", tell_first="now"),
        athens(ends_when="severity = 0", tell_now="fire", every_min="2s", complete="report"),
        athens(complete="once", open_max=9, event_bytes_max=9999, overflow="refuse"),
        athens(seat="centre", seat_scope="topic", before_seat="pass", on_the_way="drop"),
        athens(keep="1d", keep_reports="1d"),
        athens(unknown_fields="drop"),
    ],
)
def test_a_change_of_a_gathered_topic_that_breaks_nothing(new: dict[str, Any]) -> None:
    assert broken(athens(), new) == []


@pytest.mark.parametrize(
    ("new", "about"),
    [
        (athens(fields=fields(lanes=None)), "lanes"),
        (athens(fields=fields(lanes={"type": "int"})), "lanes"),
        (athens(fields=fields(lanes={"type": "float", "conflict": "union"})), "lanes"),
        (athens(key=["place", "opened"]), "key"),
        (athens(encoding="msgpack"), "encoding"),
        (athens(seats=2), "seats"),
        (athens(root="athens-1"), "root"),
    ],
)
def test_a_change_of_a_gathered_topic_that_breaks_something(new: dict[str, Any], about: str) -> None:
    assert broken(athens(), new) == [about]


def test_what_is_kept_must_not_be_kept_for_less() -> None:
    old = athens(keep="7d", keep_reports="2d")
    assert broken(old, athens(keep="8d", keep_reports="forever")) == []
    assert broken(old, athens(keep="6d", keep_reports="1d")) == ["keep", "keep_reports"]
    assert broken(old, athens()) == ["keep", "keep_reports"]
    assert broken(athens(keep="forever"), athens(keep="7d")) == ["keep"]


def test_a_topic_stays_plain_or_gathered() -> None:
    gathered = plain(kind="gathered", key=["waves"])
    assert broken(plain(), gathered) == ["kind"]
    assert broken(gathered, plain()) == ["kind"]


def test_other_fields_may_be_taken_more_freely_but_not_less() -> None:
    kinds = ("keep", "drop", "refuse")
    for at, old in enumerate(kinds):
        for to, new in enumerate(kinds):
            found = broken(plain(unknown_fields=old), plain(unknown_fields=new))
            assert found == ([] if to <= at else ["unknown_fields"])


def test_a_field_may_be_added_only_where_nobody_can_have_sent_another() -> None:
    more = PLAIN["fields"] | {"wind": {"type": "float"}}
    assert broken(plain(), plain(fields=more)) == []
    for unknown_fields in ("keep", "drop"):
        old = plain(unknown_fields=unknown_fields)
        assert broken(old, plain(unknown_fields=unknown_fields, fields=more)) == ["wind"]


def test_all_that_is_broken_is_said_at_once() -> None:
    new = athens(key=["fire"], root="r", fields=fields(lanes=None, opened={"type": "string"}))
    assert broken(athens(), new) == ["opened", "lanes", "root", "key"]


def test_a_complaint_says_what_was_what_will_be_and_what_follows() -> None:
    old, new = Topic.from_mapping(athens()), Topic.from_mapping(athens(root="athens-1"))
    assert breaks(old, new) == ["root: none becomes 'athens-1', so that the topic moves to another tree"]


def test_a_topic_that_is_no_longer_declared() -> None:
    assert (
        removal_breaks(Topic.from_mapping({"name": "a", "kind": "plain", "fields": {"x": {"type": "int"}}}))
        == []
    )
    lost = removal_breaks(Topic.from_mapping(athens(name="traffic/+city", keep="1d")))
    assert [complaint.split(" ")[0] for complaint in lost] == ["its", "filters", "what"]
    assert "opened, city" in lost[1]


def test_two_declarations_are_the_same_whatever_their_versions() -> None:
    assert same(Topic.from_mapping(athens()), Topic.from_mapping(athens(version=9)))
    assert same(Topic.from_mapping(athens()), Topic.from_mapping(athens(merge_after="4000ms")))
    assert not same(Topic.from_mapping(athens()), Topic.from_mapping(athens(merge_after="5s")))


# What a change must not break, whatever the two declarations are.

types = st.sampled_from(("string", "int", "float", "bool"))
declared = st.dictionaries(st.sampled_from("abc"), st.builds(lambda kind: {"type": kind}, types), max_size=3)
kinds = st.sampled_from(("keep", "drop", "refuse"))
values = st.sampled_from((None, "x", 1, 1.5, True))
payloads = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


def topic(fields: dict[str, Any], unknown_fields: str) -> Topic:
    mapping: dict[str, Any] = {"name": "t", "kind": "plain"}
    return Topic.from_mapping(
        mapping | ({"fields": fields, "unknown_fields": unknown_fields} if fields else {})
    )


@given(declared, kinds, declared, kinds, payloads)
def test_after_a_compatible_change_a_payload_is_taken_and_says_what_it_said(
    old: dict[str, Any], kind: str, new: dict[str, Any], other: str, payload: dict[str, object]
) -> None:
    before, after = topic(old, kind), topic(old | new, other)
    if breaks(before, after):
        return
    try:
        taken = Shape(before).take("t", payload)
    except PayloadError:
        return
    again = Shape(after).take("t", payload)
    assert {name: again[name] for name in taken} == taken
