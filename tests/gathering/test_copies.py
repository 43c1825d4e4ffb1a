"""A copy has everything: who reads it goes on as if nothing had happened."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.gathering.samples import SECOND, Run, Talk, road, runs
from tidings.errors import PeerError
from tidings.gathering import Closing, Gatherer, Telling
from tidings.language.topics import Topic


def successor(gatherer: Gatherer, topic: Topic, branch: str = "", **given: Any) -> Gatherer:
    """A gatherer that has all that another has."""
    other = Gatherer(topic, branch=branch, now_us=gatherer.now_us, **given)
    for copy in gatherer.copies():
        other.adopt(copy, heal=False)
    return other


def crowded(run: Run, open_max: int) -> Topic:
    """The same topic with room for few events."""
    assert run.topic.gathering is not None
    return dataclasses.replace(
        run.topic, gathering=dataclasses.replace(run.topic.gathering, open_max=open_max)
    )


@settings(max_examples=examples(60), deadline=None)
@given(runs(reports_max=20), st.integers(0, 20), st.sampled_from([1, 1, 2, 100]))
def test_whoever_has_the_copies_goes_on_as_if_nothing_had_happened(
    run: Run, reports: int, open_max: int
) -> None:
    topic = crowded(run, open_max)
    gatherer = Gatherer(topic, branch="a")
    gatherer.cycle(run.every_us)
    for report in run.reports[:reports]:
        gatherer.feed(report)
    gatherer.take()
    assert successor(gatherer, topic, "a").copies() == gatherer.copies()
    other = successor(gatherer, topic, "b")
    other.cycle(run.every_us)
    for report in run.reports[reports:]:
        assert other.feed(report) == gatherer.feed(report)
        assert other.next_us() == gatherer.next_us()
    for one in (gatherer, other):
        one.advance(run.reports[-1].at_us + 60 * SECOND)
    assert [unbranched(one) for one in other.take()] == [unbranched(one) for one in gatherer.take()]


def unbranched(one: Telling | Closing) -> Telling | Closing:
    """What has come out, whoever counted the reports in it."""
    if isinstance(one, Closing):
        return msgspec.structs.replace(one, merged={"": sum(one.merged.values())})
    return one


def test_every_type_of_value_comes_back_as_it_was() -> None:
    kinds = {
        "text": ("string", "é\U0001f525"),
        "whole": ("int", 2**63 - 1),
        "real": ("float", 3.0),
        "truth": ("bool", True),
        "first": ("timestamp", datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        "last": ("timestamp", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    }
    for policy in ("first", "majority", "union"):
        traits = {name: {"type": kind, "conflict": policy} for name, (kind, _) in kinds.items()}
        topic = road(fields={**traits, "at": {"inner": traits}})
        talk = Talk(topic)
        values: dict[str, Any] = {name: value for name, (_, value) in kinds.items()}
        talk.say(0, **values, at={"inner": values})
        entry = talk.gatherer.entry_of(("A1",))
        copy = successor(talk.gatherer, topic).entry_of(("A1",))
        assert entry is not None
        assert copy is not None
        assert repr(copy.fields) == repr(entry.fields)
        assert list(map(repr, copy.votes)) == list(map(repr, entry.votes))


def test_a_key_of_several_types_comes_back_as_it_was() -> None:
    fields = {"seen": {"type": "timestamp"}, "km": {"type": "float"}}
    topic = road(key=["lower(place)", "bucket(seen, '5m')", "floor(km / 2)"], fields=fields)
    talk = Talk(topic)
    talk.say(0, "A1", seen="2026-11-15T11:07Z", km=5)
    (copy,) = talk.gatherer.copies()
    other = Gatherer(topic)
    other.adopt(copy)
    key = ("a1", datetime(2026, 11, 15, 11, 5, tzinfo=UTC), 2)
    assert other.entry_of(key) is not None


def test_a_copy_is_msgpack() -> None:
    talk = Talk(road())
    talk.say(0, severity=1)
    (copy,) = talk.gatherer.copies()
    assert isinstance(msgspec.msgpack.decode(copy), list)
    assert len(copy) < 200


def test_clocks_travel_as_what_is_left_of_them() -> None:
    talk = Talk(road())
    talk.say(100, severity=1)
    talk.until(101)
    (copy,) = talk.gatherer.copies()
    other = Gatherer(road(), now_us=7)
    other.adopt(copy)
    assert other.next_us() == 7 + 3 * SECOND
    other.advance(1000 * SECOND)
    told, closed = other.take()
    assert (told.at_us, closed.at_us) == (7 + 3 * SECOND, 7 + 59 * SECOND)


def test_a_copy_that_waited_has_less_left_and_what_ran_out_is_due_now() -> None:
    talk = Talk(road())
    talk.say(0, severity=1)
    (copy,) = talk.gatherer.copies()
    other = Gatherer(road(), now_us=7)
    other.adopt(copy, elapsed_us=10 * SECOND)
    assert other.next_us() == 7
    other.advance(1000 * SECOND)
    assert [one.at_us for one in other.take()] == [7, 7 + 50 * SECOND]


def test_what_has_changed_is_given_once_and_in_order() -> None:
    talk = Talk(road())
    talk.say(0, "a", severity=1)
    talk.say(0, "b", severity=1)
    assert [entry.event for entry in talk.gatherer.changed()] == ["1", "2"]
    assert talk.gatherer.changed() == []
    talk.say(1, "a", severity=1)
    assert talk.gatherer.changed() == []
    talk.say(1, "b", severity=2)
    assert [entry.event for entry in talk.gatherer.changed()] == ["2"]
    talk.until(4)
    assert [entry.event for entry in talk.gatherer.changed()] == ["1", "2"]
    talk.until(100)
    assert talk.gatherer.changed() == []


@pytest.mark.parametrize(
    "topic",
    [
        road(stays_open="reported"),
        road(fields={"note": {"type": "string", "conflict": "last"}}),
        road(fields={"note": {"type": "string", "conflict": "majority"}}),
    ],
    ids=["clock", "last", "votes"],
)
def test_a_redundant_report_that_joins_or_clocks_must_know_of_is_a_change(topic: Topic) -> None:
    talk = Talk(topic)
    talk.say(0, note="x")
    talk.gatherer.changed()
    assert talk.fate(1, note="x") == "redundant"
    assert len(talk.gatherer.changed()) == 1


def test_the_copies_of_what_has_changed_are_enough_for_a_deputy() -> None:
    topic = road(fields={"x": {"type": "int", "conflict": "majority"}}, open_max=2)
    talk, mirror = Talk(topic, branch="a"), Gatherer(topic, branch="a")
    gatherer = talk.gatherer
    for at_s in range(0, 300, 3):
        talk.say(at_s, "abcd"[at_s * 7 % 4], x=at_s % 5, severity=at_s % 11)
        changed = [gatherer.copy(entry) for entry in gatherer.changed()]
        mirror.now_us = at_s * SECOND  # a mirror's clocks do not run
        for one in gatherer.take():
            if isinstance(one, Closing):
                mirror.forget(one.event)
        for copy in changed:
            mirror.adopt(copy, heal=False)
        assert mirror.copies() == gatherer.copies()


# Telling again.


def test_a_successor_tells_again_what_is_not_confirmed_under_the_same_number() -> None:
    topic = road(merge_after=0)
    talk = Talk(topic, branch="a")
    talk.say(0, "a", severity=1, qos=1)
    talk.say(0, "b", severity=1, qos=1)
    talk.say(1, "a", severity=2)
    first = talk.tellings()[-1]
    talk.gatherer.confirm("1", 1)
    talk.gatherer.confirm("2", 1)
    other = successor(talk.gatherer, topic, "b")
    other.retell()
    (telling,) = other.take()
    assert isinstance(telling, Telling)
    assert telling.again
    assert telling.event == first.event
    other.confirm("1", 2)
    other.retell()
    assert other.take() == []


def test_a_version_that_was_told_is_told_again_though_the_event_has_grown_since() -> None:
    talk = Talk(road(), branch="a")
    talk.say(0, severity=1, qos=1)
    talk.until(4)
    talk.say(5, severity=2)
    other = successor(talk.gatherer, road(), "b")
    other.retell()
    other.advance(9 * SECOND)
    versions = [one.event for one in other.take() if isinstance(one, Telling)]
    assert [(event.version, event.fields["severity"]) for event in versions] == [(1, 1), (2, 2)]


def test_a_closed_event_is_kept_until_its_last_version_is_confirmed() -> None:
    topic = road(ends_when="severity = 0")
    talk = Talk(topic, branch="a", keep_closed=True)
    talk.say(0, severity=0, qos=1)
    gatherer = talk.gatherer
    assert gatherer.open == 0
    (entry,) = gatherer.changed()
    assert entry.closed
    assert gatherer.holds("1")
    assert talk.fate(1, severity=2) == "opened"
    other = successor(gatherer, topic, "b", keep_closed=True)
    other.retell()
    (telling,) = other.take()
    assert isinstance(telling, Telling)
    assert (telling.state.value, telling.last, telling.again) == ("ended", True, True)
    assert other.open == 1
    for one in (gatherer, other):
        one.confirm("1", 1)
        assert not one.holds("1")
    assert len(gatherer.copies()) == 1


def test_what_was_told_with_qos_0_is_not_told_again_by_a_successor() -> None:
    topic = road(ends_when="severity = 0")
    talk = Talk(topic, branch="a", keep_closed=True)
    talk.say(0, "a", severity=0)
    talk.say(0, "b", severity=1)
    talk.until(4)
    other = successor(talk.gatherer, topic, "b", keep_closed=True)
    other.retell()
    assert other.take() == []
    assert not other.holds("1")
    assert other.holds("2")


def test_an_event_that_closes_with_all_confirmed_is_gone() -> None:
    talk = Talk(road(), branch="a", keep_closed=True)
    talk.say(0)
    talk.until(4)
    talk.gatherer.confirm("1", 1)
    talk.until(60)
    assert not talk.gatherer.holds("1")
    assert talk.gatherer.changed() == []


def test_a_confirmation_is_no_change() -> None:
    talk = Talk(road(merge_after=0))
    talk.say(0)
    talk.gatherer.changed()
    talk.gatherer.confirm("1", 1)
    talk.gatherer.confirm("unknown", 1)
    assert talk.gatherer.changed() == []


def test_a_forgotten_event_is_gone_without_a_word() -> None:
    talk = Talk(road())
    talk.say(0)
    talk.gatherer.forget("1")
    talk.gatherer.forget("1")
    assert talk.until(100) == []
    assert talk.gatherer.next_us() is None


# Bytes that are no copy.


@pytest.mark.parametrize(
    "bad", [b"", b"\xc0", b"\x90", b"\x93\x01\x02\x03", b"\xff" * 40, b"{}", b"\x91" * 2000]
)
def test_bytes_that_are_no_copy_are_refused(bad: bytes) -> None:
    with pytest.raises(PeerError, match="a copy of an event cannot be read"):
        Gatherer(road()).adopt(bad)


@given(st.data())
def test_a_damaged_copy_is_refused_or_taken_but_breaks_nothing(data: st.DataObject) -> None:
    topic = road(fields={"note": {"type": "string", "conflict": "majority"}})
    talk = Talk(topic)
    talk.say(0, severity=1, note="x")
    talk.until(4)
    talk.say(5, severity=2)
    copy = bytearray(talk.gatherer.copies()[0])
    copy[data.draw(st.integers(0, len(copy) - 1))] = data.draw(st.integers(0, 255))
    other = Talk(topic)
    other.number = 50
    try:
        other.gatherer.adopt(bytes(copy))
    except PeerError:
        assert other.gatherer.open == 0
    other.gatherer.retell()
    for note in ("x", "y", "y"):
        other.say(1, severity=3, note=note)
    successor(other.gatherer, topic)
    other.gatherer.close_all()
    assert other.gatherer.open == 0


def test_a_copy_whose_fields_are_not_as_declared_is_refused() -> None:
    talk = Talk(road())
    talk.say(0, severity=1)
    copy = msgspec.msgpack.decode(talk.gatherer.copies()[0])
    at = next(i for i, part in enumerate(copy) if part == {"place": "A1", "severity": 1})
    copy[at] = {"place": "A1", "severity": "high"}
    with pytest.raises(
        PeerError, match="event '1' is not as its topic declares: severity: 'high' is not an int"
    ):
        Gatherer(road()).adopt(msgspec.msgpack.encode(copy))
