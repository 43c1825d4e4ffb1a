"""Joining copies: in any order, any number of times, and as if one gatherer had seen all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.gathering.samples import SECOND, Run, Talk, road, runs
from tests.gathering.test_copies import successor
from tidings.gathering import Gatherer, Telling, copies
from tidings.gathering.policies import stamp_order
from tidings.language.fields import find

SIDES = "abc"


def content(gatherer: Gatherer) -> dict[Any, Any]:
    """All that joins are about, by key."""
    found = {}
    for entry in gatherer._open.values():
        votes = {
            label: {value: (ballot.first, dict(sorted(ballot.by.items()))) for value, ballot in votes.items()}
            for label, votes in entry.votes.items()
        }
        stamps = {
            rule.label: entry.stamp_of(rule)
            for rule in entry.rules.fields.values()
            if rule.stamped and find(entry.fields, rule.path) is not None
        }
        found[entry.key] = (entry.event, entry.events, dict(entry.fields), entry.reports, votes, stamps)
    return found


def fields(gatherer: Gatherer) -> dict[Any, Any]:
    return {entry.key: (entry.event, dict(entry.fields)) for entry in gatherer._open.values()}


def sides(run: Run, base: int, where: list[int]) -> list[Gatherer]:
    """Gatherers that shared some reports and then each saw part of the rest, brought to one time."""
    begin = Gatherer(run.topic, branch="base")
    for report in run.reports[:base]:
        begin.feed(report)
    apart = [successor(begin, run.topic, side) for side in SIDES]
    for report, side in zip(run.reports[base:], where * len(run.reports), strict=False):
        apart[side].feed(report)
    for one in apart:
        one.advance(run.reports[-1].at_us)
    return apart


def join(into: Gatherer, *others: Gatherer) -> Gatherer:
    """A gatherer that has what these have together."""
    fresh = successor(into, into.topic, into.branch + "'")
    for other in others:
        for copy in other.copies():
            fresh.adopt(copy)
    return fresh


splits = st.lists(st.integers(0, len(SIDES) - 1), min_size=1, max_size=20)


@settings(max_examples=examples(50), deadline=None)
@given(runs(tolerances=False, simple=True), st.integers(0, 10), splits)
def test_sides_that_join_know_what_one_gatherer_would(run: Run, base: int, where: list[int]) -> None:
    one = Gatherer(run.topic)
    for report in run.reports:
        one.feed(report)
    a, b, c = sides(run, base, where)
    assert fields(join(a, b, c)) == fields(one)


@settings(max_examples=examples(50), deadline=None)
@given(runs(simple=True), st.integers(0, 10), splits)
def test_joins_come_out_the_same_in_any_order(run: Run, base: int, where: list[int]) -> None:
    a, b, c = sides(run, base, where)
    joined = content(join(a, b, c))
    assert content(join(b, a, c)) == joined
    assert content(join(c, b, a)) == joined
    assert content(join(a, join(b, c))) == joined
    assert content(join(join(a, b), c)) == joined


@settings(max_examples=examples(50), deadline=None)
@given(runs(simple=True), st.integers(0, 10), splits)
def test_joining_a_copy_a_second_time_changes_nothing(run: Run, base: int, where: list[int]) -> None:
    a, b, _ = sides(run, base, where)
    joined = join(a, b)
    joined.take()
    before, counts = content(joined), joined.counts.told
    for other in (a, b, joined):
        for copy in other.copies():
            joined.adopt(copy)
    assert content(joined) == before
    assert joined.take() == []
    assert joined.counts.told == counts


@settings(max_examples=examples(50), deadline=None)
@given(runs(simple=True), st.integers(1, 25))
def test_a_copy_of_the_past_changes_nothing(run: Run, reports: int) -> None:
    gatherer = Gatherer(run.topic, branch="a")
    for report in run.reports[:reports]:
        gatherer.feed(report)
    past = gatherer.copies()
    for report in run.reports[reports:]:
        gatherer.feed(report)
    gatherer.take()
    after = fields(gatherer)
    for copy in past:
        gatherer.adopt(copy)
    assert fields(gatherer) == after
    assert gatherer.take() == []


# Healing, by value.


def halves(**changes: Any) -> tuple[Talk, Talk]:
    """Two sides of a partition that gather the same topic."""
    topic = road(**changes)
    one, other = Talk(topic, branch="1"), Talk(topic, branch="2")
    other.number = 100
    return one, other


def heal(one: Talk, other: Talk) -> list[str]:
    for copy in other.gatherer.copies():
        one.gatherer.adopt(copy)
    return one.out()


def test_two_events_of_one_key_become_the_one_that_was_opened_earlier() -> None:
    one, other = halves()
    one.say(1, severity=1)
    other.say(0, severity=2, note="x")
    for talk in (one, other):
        talk.until(8)
    assert heal(one, other) == [
        "8s 101/2 r2 severity=2, note=x",
        "8s 1/2 r1 severity=1 [last] [merged-into 101]",
        "8s 1 closed: merged-into",
    ]


def test_it_comes_out_the_same_whoever_heals() -> None:
    for turned in (False, True):
        one, other = halves()
        one.say(1, severity=1)
        one.say(2, severity=4)
        other.say(0, severity=2, note="x")
        for talk in (one, other):
            talk.until(8)
        out = heal(other, one) if turned else heal(one, other)
        assert out[0] == "8s 101/2 r3 severity=4, note=x"
        assert len(out) == 3


def test_of_events_opened_at_one_time_the_smaller_id_survives() -> None:
    one, other = halves()
    one.say(0)
    other.say(0)
    for talk in (one, other):
        talk.until(4)
    assert heal(other, one)[0].startswith("4s 1/2 r2")


def test_the_version_is_one_more_than_the_larger_of_both() -> None:
    one, other = halves(merge_after=0)
    one.say(0, severity=1)
    for severity in (1, 2, 3):
        other.say(1, severity=severity)
    for talk in (one, other):
        talk.until(2)
    out = heal(one, other)
    assert out[0] == "2s 1/4 r4 severity=3"
    assert out[1] == "2s 101/4 r3 severity=3 [last] [merged-into 1]"


def test_an_event_that_nobody_was_told_of_is_merged_in_silence() -> None:
    one, other = halves()
    one.say(0, severity=1)
    other.say(1, severity=2)
    one.until(1)
    assert heal(one, other) == ["1s 1/1 r2 severity=2", "1s 101 closed: merged-into"]


def test_that_an_event_was_merged_is_told_again_by_a_successor_until_it_is_confirmed() -> None:
    topic = road()
    one, other = Talk(topic, branch="1", keep_closed=True), Talk(topic, branch="2", keep_closed=True)
    other.number = 100
    one.say(0, severity=1, qos=1)
    other.say(1, severity=2, qos=1)
    for talk in (one, other):
        talk.until(5)
    out = heal(one, other)
    assert [line.split()[1] for line in out] == ["1/2", "101/2", "101"]
    late = Talk(topic)
    late.gatherer = successor(one.gatherer, topic, "3", keep_closed=True)
    late.gatherer.retell()
    assert late.out() == [
        "5s 1/2 r2 severity=2 [again]",
        "5s 101/2 r1 severity=2 [last] [again] [merged-into 1]",
    ]
    assert heal(late, other) == []
    late.gatherer.confirm("101", 2)
    assert not late.gatherer.holds("101")
    assert heal(late, other) == []
    # What everyone has is remembered for a while: one that has not heard of that brings nothing new.
    assert heal(late, one) == []


def test_an_event_that_is_open_here_and_was_merged_elsewhere_is_merged_here_too() -> None:
    one, other = halves()
    one.say(0, severity=1)
    other.say(1, severity=2)
    for talk in (one, other):
        talk.until(5)
    heal(one, other)
    assert heal(other, one) == [
        "5s 1/2 r2 severity=2 [again]",
        "5s 101/2 r1 severity=2 [last] [merged-into 1]",
        "5s 101 closed: merged-into",
    ]


def test_what_was_told_elsewhere_of_an_event_that_was_merged_in_silence_is_told_to_be_merged() -> None:
    topic = road()
    one, other = Talk(topic, branch="1", keep_closed=True), Talk(topic, branch="2", keep_closed=True)
    other.number = 100
    one.say(0, severity=1)
    other.say(1, severity=2)
    untold = other.gatherer.copies()
    for talk in (one, other):
        talk.until(5)
    (told,) = other.gatherer.copies()
    one.gatherer.adopt(untold[0])
    assert one.out() == ["5s 1/2 r2 severity=2", "5s 101 closed: merged-into"]
    one.gatherer.adopt(told, ended=(0, {"=101": 1}))
    assert one.out() == [
        "5s 101/2 r1 severity=2 [last] [merged-into 1]",
        "5s 101 closed: merged-into",
    ]


def test_an_event_that_nobody_was_told_of_here_is_not_merged_in_silence_if_others_were_elsewhere() -> None:
    topic = road()
    one, other, third = (Talk(topic, branch=branch, keep_closed=True) for branch in "123")
    other.number = 100
    one.say(0, severity=1)
    other.say(1, severity=2)
    third.gatherer.adopt(*other.gatherer.copies())
    for talk in (one, other):
        talk.until(5)
    heal(other, one)
    third.until(2)
    for copy in reversed(other.gatherer.copies()):
        third.gatherer.adopt(copy)
    assert third.out() == [
        "2s 1/2 r2 severity=2 [again]",
        "2s 101/3 r1 severity=2 [last] [merged-into 1]",
        "2s 101 closed: merged-into",
    ]


def test_an_event_that_is_open_here_is_merged_although_what_it_was_merged_into_is_closed() -> None:
    topic = road()
    one, other = Talk(topic, branch="1", keep_closed=True), Talk(topic, branch="2", keep_closed=True)
    other.number = 100
    one.say(0, severity=1, qos=1)
    other.say(1, severity=2, qos=1)
    for talk in (one, other):
        talk.until(5)
    heal(one, other)
    other.say(30, severity=3)
    for talk in (one, other):
        talk.until(70)
    assert (one.gatherer.open, other.gatherer.open) == (0, 1)
    assert heal(other, one) == [
        "70s 1/3 r3 severity=3",
        "70s 101/3 r2 severity=3 [last] [merged-into 1]",
        "70s 101 closed: merged-into",
    ]


@pytest.mark.parametrize("closed", [False, True])
def test_what_another_side_adds_to_an_event_that_was_merged_here_goes_into_the_other_event(
    closed: bool,
) -> None:
    one = Talk(road(merge_after=0), branch="1", keep_closed=True)
    other = Talk(road(merge_after=0, redundant_for="300s"), branch="2", keep_closed=True)
    other.number = 100
    one.say(0, severity=1, qos=1)
    other.say(1, severity=2, qos=1)
    for talk in (one, other):
        talk.until(5)
    heal(one, other)
    other.say(6, note="x")
    other.say(7, severity=3)
    for talk in (one, other):
        talk.until(304 if closed else 8)
    assert one.gatherer.open == (not closed)
    at = "304s" if closed else "8s"
    assert heal(one, other) == [
        f"{at} 1/4 r4 severity=3, note=x",
        f"{at} 101/4 r3 severity=3, note=x [last] [merged-into 1]",
        f"{at} 101 closed: merged-into",
    ]


def test_that_an_event_was_merged_is_told_again_to_who_has_as_much_of_it_from_another_side() -> None:
    one = Talk(road(merge_after=0), branch="1", keep_closed=True)
    other = Talk(road(merge_after=0), branch="2", keep_closed=True)
    other.number = 100
    one.say(0, severity=1, qos=1)
    other.say(1, severity=2, qos=1)
    heal(one, other)
    one.gatherer.confirm("101", 2)
    other.say(3, note="x", qos=1)
    one.until(3)
    assert heal(one, other) == ["3s 1/3 r3 severity=2, note=x"]
    assert one.gatherer.recall("101", 2) == 0
    assert one.out() == ["3s 101/2 r1 severity=2 [last] [again] [merged-into 1]"]


def test_an_event_that_was_opened_after_another_had_been_closed_here_joins_it_if_it_is_open_elsewhere() -> (
    None
):
    one = Talk(road(), branch="1", keep_closed=True)
    one.say(0, severity=1, qos=1)
    other = Talk(one.gatherer.topic)
    other.gatherer = successor(one.gatherer, other.gatherer.topic, "2", keep_closed=True)
    other.number = 200
    for at in (40, 80):
        other.say(at, severity=at)
    one.until(100)
    one.number = 100
    one.say(101, note="x", qos=1)
    for talk in (one, other):
        talk.until(110)
    assert (one.gatherer.open, other.gatherer.open) == (1, 1)
    out = heal(one, other)
    assert one.gatherer.open == 1
    assert [line for line in out if "1/" in line][-2:] == [
        "110s 1/5 r4 severity=80, note=x",
        "110s 101/2 r1 note=x [last] [merged-into 1]",
    ]


def test_of_two_events_that_two_sides_have_merged_into_each_other_one_survives_with_all_there_is() -> None:
    """Reports that were sent to two seats may have opened events in another order there."""
    topic = road()

    def side(branch: str, first: int, second: int, **more: Any) -> Talk:
        one, other = (Talk(topic, branch=f"{branch}{at}", keep_closed=True) for at in range(2))
        one.number, other.number = first - 1, second - 1
        one.say(0, severity=1, qos=1)
        other.say(1, severity=2, qos=1)
        one.until(5)
        heal(one, other)  # one that nobody has been told of
        one.number = int(branch) * 1000
        one.say(6, **more)
        return one

    for turned in (False, True):
        one, other = side("1", 10, 20, note="x"), side("2", 20, 10, severity=7)
        assert [talk.gatherer.open for talk in (one, other)] == [1, 1]
        if turned:
            one, other = other, one
        for talk in (one, other):
            talk.until(20)
        for copy in other.gatherer.copies():
            event = copies.read(copy).event
            closed = None if one.gatherer.holds(event) else (0, {f"={event}": 1})
            one.gatherer.adopt(copy, ended=closed)
        (entry,) = one.gatherer._open.values()
        assert (entry.fields["severity"], entry.fields["note"]) == (7, "x")


def confirmed(talk: Talk, *events: str) -> list[bytes]:
    """The copies of events that everyone on a side has, once they are closed."""
    for event in events:
        talk.gatherer.confirm(event, 100)
    return [talk.gatherer.copy(entry) for entry in talk.gatherer.past()]


def test_what_another_side_has_closed_is_told_to_who_has_missed_it_and_to_nobody_else() -> None:
    topic = road()
    one, other = Talk(topic, branch="1", keep_closed=True), Talk(topic, branch="2", keep_closed=True)
    other.say(0, severity=1, qos=1)
    other.until(5)
    other.say(6, severity=2, qos=1)
    for talk in (one, other):
        talk.until(200)
    (copy,) = confirmed(other, "1")
    one.gatherer.adopt(copy)
    assert one.gatherer.recall("1", 3) is None  # a third side has gone on with it
    assert one.gatherer.recall("1", 2) == 2
    assert one.out() == []
    assert one.gatherer.recall("1", 1) == 0
    assert one.out() == ["200s 1/2 r2 severity=2 [last] [again]"]
    one.gatherer.confirm("1", 2)
    assert not one.gatherer.holds("1")
    assert one.gatherer.recall("2", 0) is None


def test_what_two_sides_told_under_one_number_and_closed_is_told_anew() -> None:
    topic = road()
    begin = Talk(topic, branch="0")
    begin.say(0, severity=1, qos=1)
    one, other = Talk(topic), Talk(topic)
    one.gatherer = successor(begin.gatherer, topic, "1", keep_closed=True)
    other.gatherer = successor(begin.gatherer, topic, "2", keep_closed=True)
    one.number, other.number = 10, 100
    other.say(1, severity=3, qos=1)
    for talk in (one, other):
        talk.until(200)
    (mine,), (theirs,) = confirmed(one, "1"), confirmed(other, "1")
    one.gatherer.adopt(mine)
    assert one.out() == []
    one.gatherer.adopt(theirs)
    assert one.out() == ["200s 1/2 r2 severity=3 [last]", "200s 1 closed: redundant_for"]


def test_what_one_side_merged_and_the_other_closed_for_itself_is_merged() -> None:
    for turned in (False, True):
        topic = road()
        one, other = Talk(topic, branch="1", keep_closed=True), Talk(topic, branch="2", keep_closed=True)
        other.number = 100
        one.say(0, severity=1, qos=1)
        other.say(1, severity=2, qos=1)
        for talk in (one, other):
            talk.until(5)
        heal(one, other)
        for talk in (one, other):
            talk.until(200)
        merged = {copies.read(copy).event: copy for copy in confirmed(one, "1", "101")}
        (closed,) = confirmed(other, "101")
        here, copy = (other, merged["101"]) if turned else (one, closed)
        here.gatherer.adopt(copy)
        told = ["200s 101/2 r1 severity=2 [last] [again] [merged-into 1]"]
        assert here.out() == (told if turned else [])
        assert here.gatherer.holds("101") == turned
        here.gatherer.confirm("101", 2)
        assert here.gatherer.recall("101", 1) == 0
        assert here.out() == told


def test_two_sides_of_one_event_are_told_together_at_once() -> None:
    topic = road()
    begin = Talk(topic, branch="0")
    begin.say(0, severity=1)
    begin.until(4)
    one, other = Talk(topic), Talk(topic)
    one.gatherer = successor(begin.gatherer, topic, "1")
    other.gatherer = successor(begin.gatherer, topic, "2")
    one.number, other.number = 10, 100
    one.say(5, severity=3)
    other.say(6, note="x")
    for talk in (one, other):
        talk.until(20)
    assert one.gatherer.counts.told == other.gatherer.counts.told == 1
    assert heal(one, other) == ["20s 1/3 r3 severity=3, note=x"]


def test_two_sides_that_told_different_things_under_one_number_are_told_anew() -> None:
    """Who had version 2 of one side has not had that of the other, though its fields are all there is."""
    topic = road()
    begin = Talk(topic, branch="0")
    begin.say(0, severity=1)
    begin.until(4)
    one, other = Talk(topic), Talk(topic)
    one.gatherer = successor(begin.gatherer, topic, "1")
    other.gatherer = successor(begin.gatherer, topic, "2")
    one.number, other.number = 10, 100
    one.say(5, severity=3)
    other.say(5, severity=2)
    for talk in (one, other):
        talk.until(20)
    assert heal(one, other) == ["20s 1/3 r3 severity=3"]


def test_a_handed_over_event_goes_on_without_a_new_version() -> None:
    topic = road()
    talk = Talk(topic, branch="a")
    talk.say(0, severity=1)
    mirror = successor(talk.gatherer, topic, "b")
    talk.until(4)
    talk.say(5, severity=2)
    mirror.advance(5 * SECOND - 2 * SECOND)
    mirror.take()
    mirror.now_us = 5 * SECOND
    for copy in talk.gatherer.copies():
        mirror.adopt(copy)
    # What may not have arrived is told again under its number.
    assert [one.again for one in mirror.take() if isinstance(one, Telling)] == [True]
    assert mirror.next_us() == 9 * SECOND


def test_a_joined_event_closes_with_the_later_tr_and_the_earlier_w() -> None:
    one, other = halves(window="100s")
    one.say(0, severity=1)
    other.say(50, severity=2)
    one.until(50)
    heal(one, other)
    assert one.until(99) == []
    assert one.until(100) == ["100s 1 closed: window"]


def test_a_joined_event_that_has_ended_is_told_so() -> None:
    one, other = halves(ends_when="severity >= 3 AND note = 'x'")
    one.say(0, severity=3)
    other.say(1, note="x")
    for talk in (one, other):
        talk.until(5)
    assert heal(one, other) == [
        "5s 1/2 r2 severity=3, note=x [last] [ended]",
        "5s 1 closed: ended",
        "5s 101/2 r1 note=x [last] [merged-into 1]",
        "5s 101 closed: merged-into",
    ]


def test_what_one_side_closed_and_the_other_has_open_stays_open_with_all_fields() -> None:
    topic = road()
    begin = Talk(topic, branch="0")
    begin.say(0, severity=1)
    begin.until(4)
    one, other = Talk(topic), Talk(topic)
    one.gatherer = successor(begin.gatherer, topic, "1", keep_closed=True)
    other.gatherer = successor(begin.gatherer, topic, "2", keep_closed=True)
    one.number, other.number = 10, 100
    one.say(30, severity=3)
    other.say(5, note="x")
    for talk in (one, other):
        talk.until(70)
    assert (one.gatherer.open, other.gatherer.open) == (1, 0)
    assert heal(one, other) == ["70s 1/3 r3 severity=3, note=x"]
    assert one.gatherer.open == 1


def test_what_one_side_ended_stays_ended_with_what_the_other_has_added() -> None:
    topic = road(ends_when="severity = 0", fields={"severity": {"type": "int", "conflict": "last"}})
    begin = Talk(topic, branch="0")
    begin.say(0, severity=1)
    begin.until(4)
    for turned in (False, True):
        one, other = Talk(topic), Talk(topic)
        one.gatherer = successor(begin.gatherer, topic, "1", keep_closed=True)
        other.gatherer = successor(begin.gatherer, topic, "2", keep_closed=True)
        one.number, other.number = 10, 100
        one.say(5, severity=0)
        other.say(6, severity=2, note="x")
        for talk in (one, other):
            talk.until(20)
        out = heal(other, one) if turned else heal(one, other)
        assert out == ["20s 1/3 r3 severity=2, note=x [last] [ended]", "20s 1 closed: ended"]
        assert (other if turned else one).gatherer.open == 0


def test_the_qos_of_a_joined_event_is_the_higher_one() -> None:
    one, other = halves()
    one.say(0)
    other.say(0, severity=1, qos=1)
    for copy in other.gatherer.copies():
        one.gatherer.adopt(copy)
    assert one.tellings()[0].qos == 1


@pytest.mark.parametrize(
    ("ids", "order"), [(("9", "10"), True), (("b:1:9", "b:1:10"), True), (("b", "a"), False)]
)
def test_ids_of_one_time_are_ordered_as_they_were_counted(ids: tuple[str, str], order: bool) -> None:
    one, other = ids
    assert (stamp_order((0, one)) < stamp_order((0, other))) == order


def test_what_another_side_had_closed_is_surpassed_by_what_is_known_here() -> None:
    topic = road(redundant_for="10s")
    one = Talk(topic, branch="1", keep_closed=True)
    one.say(0, severity=1)
    one.until(5)
    assert one.gatherer.surpass("1", 3, {"=1": 1}), "it is known here"
    assert one.out() == [], "and the other side knew as much"
    one.say(6, lanes=2)
    assert [line.split()[1] for line in one.until(11)] == ["1/4"], "no number is given twice"
    assert one.gatherer.surpass("1", 7, {"=1": 1})
    assert [line.split()[1] for line in one.out()] == ["1/8"], "what is known here beyond is told at once"
    assert not one.gatherer.surpass("2", 1, {}), "of this nothing is known"
