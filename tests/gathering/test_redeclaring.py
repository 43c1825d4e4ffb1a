"""Open events finish under the declaration that they were opened under."""

from __future__ import annotations

from tests.gathering.samples import SECOND, Talk, road
from tests.gathering.test_copies import successor
from tidings.gathering import Gatherer, Telling
from tidings.language.reports import Shape
from tidings.language.topics import Topic


def redeclare(talk: Talk, topic: Topic) -> None:
    talk.gatherer.redeclare(topic)
    talk.shape = Shape(topic)


def test_an_open_event_keeps_its_times_and_a_new_one_has_the_new() -> None:
    talk = Talk(road())
    talk.say(0, "a", severity=1)
    redeclare(talk, road(merge_after="1s", redundant_for="10s"))
    talk.say(0, "b")
    assert talk.until(5) == ["1s 2/1 r1 ", "4s 1/1 r1 severity=1"]
    talk.say(6, "a", severity=2)
    assert talk.until(100) == [
        "10s 1/2 r2 severity=2",
        "10s 2 closed: redundant_for",
        "66s 1 closed: redundant_for",
    ]
    talk.say(200, "a")
    assert talk.until(201) == ["201s 4/1 r1 "]


def test_an_open_event_keeps_its_policies() -> None:
    talk = Talk(road())
    talk.say(0, note="x")
    redeclare(talk, road(fields={"note": {"type": "string", "conflict": "last"}}))
    assert talk.fate(1, note="y") == "redundant"
    talk.say(1, "b", note="x")
    assert talk.fate(2, "b", note="y") == "merged"


def test_a_field_that_the_event_does_not_know_closes_it_and_opens_a_new_one() -> None:
    talk = Talk(road())
    talk.say(0, severity=1)
    redeclare(talk, road(fields={"smoke": {"type": "bool"}}))
    assert talk.fate(1, severity=2) == "merged"
    assert talk.fate(2, smoke=True) == "opened"
    assert talk.out() == ["2s 1/1 r2 severity=2 [last]", "2s 1 closed: redeclared"]
    assert talk.until(6) == ["6s 3/1 r1 smoke=True"]


def test_a_field_of_another_type_closes_it_too() -> None:
    talk = Talk(road())
    talk.say(0, severity=1)
    redeclare(talk, road(fields={"severity": {"type": "string"}}))
    assert talk.fate(1, note="x") == "merged"
    assert talk.fate(1, severity="high") == "opened"


def test_with_another_key_old_events_finish_by_their_clocks() -> None:
    talk = Talk(road())
    talk.say(0, "A1", severity=1)
    redeclare(talk, road(key=["note"]))
    assert talk.fate(1, "A1", note="A1") == "opened"
    assert talk.gatherer.open == 2
    assert talk.until(100) == [
        "4s 1/1 r1 severity=1",
        "5s 2/1 r1 note=A1",
        "60s 1 closed: redundant_for",
        "61s 2 closed: redundant_for",
    ]


def test_the_same_declaration_again_changes_nothing() -> None:
    talk = Talk(road())
    talk.say(0, severity=1)
    redeclare(talk, road(version=2))
    assert talk.gatherer.topic.version == 2
    assert talk.fate(1, severity=1) == "redundant"
    entry = talk.gatherer.entry_of(("A1",))
    assert entry is not None
    assert entry.rules is talk.gatherer._rules


def test_a_declaration_that_comes_back_is_the_old_one() -> None:
    talk = Talk(road())
    talk.say(0, severity=1)
    redeclare(talk, road(fields={"smoke": {"type": "bool"}}))
    redeclare(talk, road())
    assert talk.fate(1, severity=2) == "merged"
    assert talk.until(4) == ["4s 1/1 r2 severity=2"]


def test_a_copy_brings_its_old_declaration_along() -> None:
    old, new = road(), road(merge_after="1s", fields={"smoke": {"type": "bool"}})
    talk = Talk(old, branch="a")
    talk.say(0, severity=1)
    redeclare(talk, new)
    other = Talk(new)
    other.gatherer = successor(talk.gatherer, new, "b")
    other.number = 10
    assert other.until(4) == ["4s 1/1 r1 severity=1"]
    assert other.fate(5, smoke=True) == "opened"
    assert other.out() == ["5s 1 closed: redeclared"]


def test_a_copy_from_a_seat_that_has_not_heard_of_the_new_declaration_is_of_the_old_one() -> None:
    old, new = road(), road(merge_after="1s")
    talk = Talk(old, branch="a")
    talk.say(0, severity=1)
    other = Gatherer(old, branch="b")
    other.adopt(talk.gatherer.copies()[0])
    other.redeclare(new)
    for copy in talk.gatherer.copies():
        other.adopt(copy)
    other.advance(10 * SECOND)
    (telling,) = other.take()
    assert isinstance(telling, Telling)
    assert telling.at_us == 4 * SECOND


def test_a_copy_of_a_declaration_that_is_not_known_is_taken_as_of_the_one_that_holds() -> None:
    talk = Talk(road(merge_after="2s"), branch="a")
    talk.say(0, severity=1)
    other = Gatherer(road(), branch="b")
    other.adopt(talk.gatherer.copies()[0])
    other.advance(10 * SECOND)
    assert [one.at_us for one in other.take()] == [2 * SECOND]


def test_the_cycle_asked_for_holds_for_a_new_declaration() -> None:
    talk = Talk(road(every_min="1s"))
    talk.gatherer.cycle(SECOND)
    redeclare(talk, road(every_min="1s", window="1h"))
    talk.say(0)
    assert talk.until(1) == ["1s 1/1 r1 "]
