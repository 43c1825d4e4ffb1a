"""What a seat holds is bounded, and nothing is lost when it is full."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.gathering.samples import SECOND, Talk, road
from tests.gathering.test_copies import successor
from tidings.gathering import Closing, Fate, Telling


def test_a_full_seat_tells_what_changed_longest_ago_and_keeps_its_digest() -> None:
    talk = Talk(road(open_max=2))
    talk.say(0, "a", severity=1)
    talk.say(1, "b", severity=1)
    talk.say(2, "a", severity=2)
    assert talk.say(3, "c").fate is Fate.OPENED
    assert talk.out() == ["3s 2/1 r1 severity=1"]
    assert (talk.gatherer.open, talk.gatherer.digests) == (2, 1)
    assert talk.gatherer.counts.overflowed == 1
    assert talk.gatherer.counts.max_open == 2


def test_a_digest_knows_redundant_reports() -> None:
    talk = Talk(road(open_max=1, fields={"who": {"type": "string", "conflict": "union"}}))
    talk.say(0, "a", severity=3, who=["x", "y"])
    talk.say(1, "b")
    for said in ({}, {"severity": 3}, {"who": ["x"]}, {"severity": 3, "who": ["y", "x"]}):
        decision = talk.say(2, "a", **said)
        assert (decision.fate, decision.event, decision.version) == (Fate.REDUNDANT, "1", 1)


@pytest.mark.parametrize("said", [{"severity": 4}, {"severity": 2}, {"note": "x"}, {"who": ["z"]}])
def test_a_report_beyond_the_digest_opens_a_new_event_in_its_place(said: dict[str, Any]) -> None:
    talk = Talk(road(open_max=1, fields={"who": {"type": "string", "conflict": "union"}}))
    talk.say(0, "a", severity=3, who=["x"])
    talk.say(1, "b")
    talk.out()
    assert talk.fate(2, "a", **said) == "opened"
    assert talk.out() == ["2s 2/1 r1 ", "2s 1 closed: overflow"]
    talk.until(6)
    assert (talk.gatherer.open, talk.gatherer.digests) == (1, 1)


def test_a_digest_that_was_told_in_a_way_that_may_be_lost_opens_anew_for_what_must_not_be() -> None:
    talk = Talk(road(open_max=1))
    talk.say(0, "a", severity=3)
    talk.say(1, "b")
    assert talk.say(2, "a", severity=3).fate is Fate.REDUNDANT
    assert talk.say(3, "a", severity=3, qos=1).fate is Fate.OPENED
    talk.say(4, "c")
    assert talk.say(5, "a", severity=3, qos=1).fate is Fate.REDUNDANT


def test_a_digest_closes_by_its_clocks() -> None:
    talk = Talk(road(open_max=1))
    talk.say(0, "a", severity=3)
    talk.say(1, "b")
    assert talk.until(59) == ["1s 1/1 r1 severity=3", "5s 2/1 r1 "]
    assert talk.until(60) == ["60s 1 closed: redundant_for"]
    assert talk.fate(60.5, "a", severity=3) == "opened"


def test_a_digest_stays_open_while_it_is_reported() -> None:
    talk = Talk(road(open_max=1, stays_open="reported", window="none"))
    talk.say(0, "a", severity=3)
    for at_s in range(1, 200, 10):
        talk.say(at_s, "b")
        assert talk.fate(at_s, "a", severity=3) == "redundant"
    assert talk.gatherer.counts.opened == 2


def test_an_event_that_was_told_becomes_a_digest_in_silence() -> None:
    talk = Talk(road(open_max=1))
    talk.say(0, "a", severity=3)
    talk.until(4)
    talk.say(5, "b")
    assert talk.out() == []
    assert talk.gatherer.digests == 1


def test_digests_are_bounded_too() -> None:
    talk = Talk(road(open_max=2))
    for place in "abcdef":
        talk.say(0, place)
    assert (talk.gatherer.open, talk.gatherer.digests) == (2, 2)
    assert [line for line in talk.out() if "closed" in line] == [
        "0s 1 closed: overflow",
        "0s 2 closed: overflow",
    ]


def test_a_full_seat_may_refuse_instead() -> None:
    talk = Talk(road(open_max=2, overflow="refuse"))
    talk.say(0, "a")
    talk.say(0, "b")
    decision = talk.say(0, "c")
    assert decision.fate is Fate.REFUSED
    assert decision.reason == (
        "2 events are open, and no more may be (open_max); try again when some have closed"
    )
    assert talk.fate(1, "a", severity=1) == "merged"
    assert talk.fate(61, "c") == "opened"
    assert (talk.gatherer.counts.refused, talk.gatherer.counts.received) == (1, 5)


BIG = "x" * 600


def test_an_event_that_outgrows_its_bytes_is_told_closed_and_begun_anew() -> None:
    topic = road(event_bytes_max=1024, fields={"note": {"type": "string", "conflict": "union"}})
    talk = Talk(topic)
    talk.say(0, severity=1, note=BIG)
    assert talk.fate(1, severity=2, note=BIG + "y") == "opened"
    out = talk.out()
    assert out[0].endswith("[last]")
    assert out[1] == "1s 1 closed: overflow"
    entry = talk.gatherer.entry_of(("A1",))
    assert entry is not None
    assert entry.fields == {"place": "A1", "severity": 2, "note": [BIG + "y"]}


def test_votes_count_as_bytes() -> None:
    topic = road(event_bytes_max=2048, fields={"note": {"type": "string", "conflict": "majority"}})
    talk = Talk(topic)
    for number in range(100):
        talk.say(0, note=f"{number:0100}")
    assert talk.gatherer.counts.opened > 5
    entry = talk.gatherer.entry_of(("A1",))
    assert entry is not None
    assert entry.size <= 2048


def test_an_event_that_outgrows_its_bytes_may_refuse_instead() -> None:
    topic = road(event_bytes_max=1024, overflow="refuse", fields={"more": {"type": "string"}})
    talk = Talk(topic)
    talk.say(0, note=BIG)
    decision = talk.say(1, more=BIG)
    assert decision.fate is Fate.REFUSED
    assert "event '1' would have" in decision.reason
    assert talk.fate(2, severity=1) == "merged"


def test_a_report_that_is_larger_than_an_event_may_be_is_refused() -> None:
    talk = Talk(road(event_bytes_max=1024))
    decision = talk.say(0, note="é" * 600)
    assert decision.fate is Fate.REFUSED
    assert "the report has 12" in decision.reason
    assert "an event may have 1024 (event_bytes_max)" in decision.reason
    assert talk.gatherer.open == 0


def test_a_report_that_changes_nothing_is_redundant_however_large() -> None:
    talk = Talk(road(event_bytes_max=1024))
    talk.say(0, note="x")
    assert talk.fate(0, note=BIG * 3) == "redundant"


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.integers(0, 5)), max_size=60))
def test_nothing_is_lost_and_all_is_bounded(said: list[tuple[str, int, int]]) -> None:
    """What the reports of a key say at most is told of it, in some event."""
    talk = Talk(road(open_max=2))
    at_s, highest = 0, dict.fromkeys("abcdef", -1)
    out: list[Telling | Closing] = []
    for place, severity, step in said:
        at_s += step
        talk.say(at_s, place, severity=severity)
        highest[place] = max(highest[place], severity)
        assert talk.gatherer.open <= 2
        assert talk.gatherer.digests <= 2
        out += talk.gatherer.take()
    talk.gatherer.advance(at_s * SECOND + 1000 * SECOND)
    out += talk.gatherer.take()
    told = dict.fromkeys("abcdef", -1)
    for one in out:
        if isinstance(one, Telling):
            fields: Any = one.event.fields
            told[fields["place"]] = max(told[fields["place"]], fields["severity"])
    assert told == highest
    counts = talk.gatherer.counts
    assert counts.opened == counts.closed
    assert counts.received == counts.opened + counts.merged + counts.redundant == len(said)


# Digests and copies.


def test_a_digest_travels_too() -> None:
    topic = road(open_max=1)
    talk = Talk(topic, branch="a")
    talk.say(0, "a", severity=3)
    talk.say(1, "b")
    other = Talk(topic)
    other.gatherer = successor(talk.gatherer, topic, "b")
    assert (other.gatherer.open, other.gatherer.digests) == (1, 1)
    assert other.fate(2, "a", severity=3) == "redundant"
    assert other.until(60)[-1] == "60s 1 closed: redundant_for"


def test_the_version_of_a_digest_is_told_again_until_it_is_confirmed() -> None:
    topic = road(open_max=1)
    talk = Talk(topic, branch="a", keep_closed=True)
    talk.say(0, "a", severity=3, qos=1)
    talk.say(1, "b")
    other = successor(talk.gatherer, topic, "b", keep_closed=True)
    other.retell()
    (telling,) = other.take()
    assert isinstance(telling, Telling)
    assert telling.event.fields == {"place": "a", "severity": 3}
    other.confirm("1", 1)
    other.retell()
    assert other.take() == []
    assert other.matching(lambda event: True) == []


def test_a_digest_gives_way_to_an_event_of_its_key_that_is_held_in_full() -> None:
    topic = road(open_max=1)
    full, digest = Talk(topic, branch="a"), Talk(topic, branch="b")
    digest.number = 100
    full.say(1, "a", severity=1)
    digest.say(0, "a", severity=3)
    digest.say(1, "b")
    for one, other in ((full, digest), (digest, full)):
        joined = successor(one.gatherer, topic, "c")
        for copy in other.gatherer.copies():
            joined.adopt(copy)
        assert joined.open == 1
        assert joined.counts.max_open <= 2
        closed = [each.event for each in joined.take() if isinstance(each, Closing)]
        assert "101" in closed


def test_adopting_more_than_may_be_open_makes_room() -> None:
    topic = road(open_max=3)
    talk = Talk(topic, branch="a")
    for place in "abc":
        talk.say(0, place)
    other = Talk(topic, branch="b")
    other.number = 100
    for place in "def":
        other.say(1, place)
    talk.until(1)
    for copy in other.gatherer.copies():
        talk.gatherer.adopt(copy)
    assert (talk.gatherer.open, talk.gatherer.digests) == (3, 3)
