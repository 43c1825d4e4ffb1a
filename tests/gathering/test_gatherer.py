"""What is redundant, what merges, and when it is told: every rule of docs/gathering.md, one test each."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.gathering.samples import SECOND, Talk, road
from tidings.gathering import Closing, Fate, Gatherer, State, Telling
from tidings.language.reports import Shape

# Opening, merging, redundant.


def test_a_first_report_opens_an_event_that_is_told_when_tm_has_run_out() -> None:
    talk = Talk(road())
    decision = talk.say(0, severity=3)
    assert (decision.fate, decision.event, decision.version) == (Fate.OPENED, "1", 0)
    assert talk.until(3.999999) == []
    assert talk.until(4) == ["4s 1/1 r1 severity=3"]
    assert talk.until(59) == []
    assert talk.until(60) == ["60s 1 closed: redundant_for"]


def test_each_key_has_its_own_event() -> None:
    talk = Talk(road())
    assert [talk.fate(0, place) for place in ("A1", "A2", "A1")] == ["opened", "opened", "redundant"]
    assert talk.gatherer.open == 2


def test_a_report_that_fills_an_empty_field_merges() -> None:
    talk = Talk(road())
    talk.say(0, severity=3)
    decision = talk.say(1, note="fire")
    assert (decision.fate, decision.event, decision.conflicts) == (Fate.MERGED, "1", 0)
    assert talk.until(4) == ["4s 1/1 r2 severity=3, note=fire"]


def test_a_report_that_alters_a_field_under_its_policy_merges() -> None:
    talk = Talk(road())
    talk.say(0, severity=3)
    assert talk.fate(1, severity=5) == "merged"
    assert talk.until(4) == ["4s 1/1 r2 severity=5"]


def test_a_report_that_changes_nothing_is_redundant() -> None:
    talk = Talk(road())
    talk.say(0, severity=3, note="x")
    for said in ({}, {"severity": 3}, {"severity": 2}, {"note": "y"}, {"severity": 3, "note": "x"}):
        assert talk.fate(1, **said) == "redundant"
    assert talk.until(4) == ["4s 1/1 r1 severity=3, note=x"]
    assert talk.gatherer.counts.redundant == 5


def test_null_is_an_empty_field() -> None:
    talk = Talk(road(fields={"who": {"type": "string", "conflict": "union"}}))
    talk.say(0, severity=None, who=[])
    assert talk.fate(1, severity=None, note=None, who=[]) == "redundant"
    assert talk.fate(2, severity=1) == "merged"
    assert talk.gatherer.counts.conflicts == 0


def test_a_merge_restarts_tr_but_not_tm() -> None:
    talk = Talk(road())
    talk.say(0, severity=1)
    talk.say(3, severity=2)
    assert talk.until(62.9) == ["4s 1/1 r2 severity=2"]
    assert talk.until(63) == ["63s 1 closed: redundant_for"]


def test_a_redundant_report_does_not_restart_tr() -> None:
    talk = Talk(road())
    talk.say(0)
    talk.say(59)
    assert talk.until(60)[-1] == "60s 1 closed: redundant_for"


def test_a_merge_after_the_telling_starts_a_fresh_tm() -> None:
    talk = Talk(road())
    talk.say(0, severity=1)
    talk.say(10, severity=2)
    talk.say(11, severity=3)
    assert talk.until(13.9) == ["4s 1/1 r1 severity=1"]
    assert talk.until(14) == ["14s 1/2 r3 severity=3"]
    assert talk.until(100) == ["71s 1 closed: redundant_for"]


def test_a_growing_event_is_told_at_most_every_tm() -> None:
    talk = Talk(road(window="1000s", redundant_for="60s"))
    for at_s in range(100):
        talk.say(at_s / 2, severity=at_s)
    times = [one.at_us / SECOND for one in talk.tellings()]
    assert all(later - earlier >= 4 for earlier, later in itertools.pairwise(times))
    assert len(times) > 8


def test_a_telling_does_not_change_when_the_event_grows() -> None:
    topic = road(fields={"at": {"lat": {"type": "float"}, "lon": {"type": "float"}}})
    talk = Talk(topic)
    talk.say(0, at={"lat": 1.0})
    talk.gatherer.advance(4 * SECOND)
    (first,) = talk.tellings()
    before = repr(first)
    talk.say(5, at={"lon": 2.0}, severity=3)
    talk.until(9)
    assert repr(first) == before


# Closing.


def test_an_event_is_closed_w_after_its_first_report_however_it_grows() -> None:
    talk = Talk(road(window="60s"))
    talk.say(0, severity=0)
    for at_s in range(5, 60, 5):
        talk.say(at_s, severity=at_s)
    assert talk.until(100)[-2:] == ["59s 1/12 r12 severity=55", "60s 1 closed: window"]


def test_what_is_untold_at_closing_is_told_and_marked_last() -> None:
    talk = Talk(road(window="60s"))
    talk.say(0, severity=0)
    talk.say(58, severity=1)
    assert talk.until(60) == ["4s 1/1 r1 severity=0", "60s 1/2 r2 severity=1 [last]", "60s 1 closed: window"]


def test_tm_and_closing_at_one_time_give_one_telling() -> None:
    talk = Talk(road(merge_after="4s", redundant_for="4s"))
    talk.say(0, severity=0)
    assert talk.until(10) == ["4s 1/1 r1 severity=0 [last]", "4s 1 closed: redundant_for"]


def test_each_closing_says_whether_a_last_version_came_with_it() -> None:
    talk = Talk(road(merge_after="4s", redundant_for="4s"))
    talk.say(0, severity=0)
    talk.gatherer.advance(4 * SECOND)
    assert talk.gatherer.take()[1] == Closing("1", ("A1",), 4 * SECOND, "redundant_for", True, 1, {"=1": 1})
    talk = Talk(road())
    talk.say(0)
    talk.gatherer.advance(60 * SECOND)
    assert talk.gatherer.take()[1] == Closing("1", ("A1",), 60 * SECOND, "redundant_for", False, 1, {"=1": 1})


def test_a_report_after_the_closing_opens_a_new_event() -> None:
    talk = Talk(road())
    talk.say(0, severity=3)
    assert talk.fate(60, severity=3) == "opened"
    assert talk.until(64) == ["4s 1/1 r1 severity=3", "60s 1 closed: redundant_for", "64s 2/1 r1 severity=3"]


def test_a_clock_that_is_due_comes_before_a_report_of_that_time() -> None:
    talk = Talk(road())
    talk.say(0, severity=1)
    talk.say(4, severity=2)
    assert talk.until(8) == ["4s 1/1 r1 severity=1", "8s 1/2 r2 severity=2"]


def test_clocks_due_at_one_time_go_in_the_order_of_opening() -> None:
    talk = Talk(road())
    for place in ("c", "a", "b"):
        talk.say(0, place)
    assert talk.until(4) == ["4s 1/1 r1 ", "4s 2/1 r1 ", "4s 3/1 r1 "]


def test_tm_0_tells_at_once() -> None:
    talk = Talk(road(merge_after=0))
    talk.say(0, severity=1)
    assert talk.out() == ["0s 1/1 r1 severity=1"]
    talk.say(1, severity=1)
    assert talk.out() == []
    talk.say(2, severity=2)
    assert talk.out() == ["2s 1/2 r2 severity=2"]


def test_tr_0_keeps_nothing() -> None:
    talk = Talk(road(merge_after=0, redundant_for=0))
    assert [talk.fate(0, severity=1), talk.fate(0, severity=1)] == ["opened", "opened"]
    assert talk.out() == [
        "0s 1/1 r1 severity=1 [last]",
        "0s 1 closed: redundant_for",
        "0s 2/1 r1 severity=1 [last]",
        "0s 2 closed: redundant_for",
    ]
    assert talk.gatherer.open == 0


# Complete events.

FULL: dict[str, Any] = {"severity": 1, "lanes": 2.0, "note": "x"}


def test_a_complete_event_is_told_at_once() -> None:
    talk = Talk(road())
    talk.say(0, severity=1, lanes=2)
    talk.say(1, note="x")
    assert talk.out() == ["1s 1/1 r2 severity=1, lanes=2.0, note=x [complete]"]
    assert talk.until(10) == []


def test_a_change_of_a_complete_event_is_told_at_once_too() -> None:
    talk = Talk(road())
    talk.say(0, **FULL)
    talk.say(1, severity=2)
    assert talk.out() == [
        "0s 1/1 r1 severity=1, lanes=2.0, note=x [complete]",
        "1s 1/2 r2 severity=2, lanes=2.0, note=x [complete]",
    ]


def test_complete_once_tells_at_once_only_what_has_become_complete() -> None:
    talk = Talk(road(complete="once"))
    talk.say(0, severity=1, lanes=2)
    talk.say(1, note="x")
    talk.say(2, severity=2)
    assert talk.out() == ["1s 1/1 r2 severity=1, lanes=2.0, note=x [complete]"]
    assert talk.until(6) == ["6s 1/2 r3 severity=2, lanes=2.0, note=x [complete]"]


def test_complete_report_tells_at_once_only_a_report_that_is_complete_itself() -> None:
    talk = Talk(road(complete="report"))
    talk.say(0, severity=1, lanes=2)
    talk.say(1, note="x")
    assert talk.out() == []
    assert talk.until(4) == ["4s 1/1 r2 severity=1, lanes=2.0, note=x [complete]"]
    talk.say(5, **(FULL | {"severity": 2}))
    assert talk.out() == ["5s 1/2 r3 severity=2, lanes=2.0, note=x [complete]"]


# Counting.


def test_every_report_is_counted_once() -> None:
    talk = Talk(road())
    rng = random.Random(7)
    for at_s in range(300):
        talk.say(at_s, rng.choice("ab"), severity=rng.randrange(9), note=rng.choice(["x", None]))
    talk.gatherer.refuse()
    talk.until(2000)
    counts = talk.gatherer.counts
    assert counts.received == 301 == counts.opened + counts.merged + counts.redundant + counts.refused
    assert counts.opened == counts.closed > 2
    assert counts.refused == 1


def test_an_event_is_made_of_its_first_report_and_those_that_merged() -> None:
    talk = Talk(road())
    for severity in (1, 1, 2, 1, 3):
        talk.say(0, severity=severity)
    assert talk.until(4) == ["4s 1/1 r3 severity=3"]


def test_versions_count_from_1_within_an_event() -> None:
    talk = Talk(road(merge_after=0))
    versions = [talk.say(at_s, severity=at_s % 70).version for at_s in range(0, 200, 10)]
    assert versions[:7] == [1, 2, 3, 4, 5, 6, 7]
    assert 1 in versions[8:]


# Disagreement.


@pytest.mark.parametrize(
    ("policy", "told"), [("first", 3), ("last", 4), ("max", 5), ("min", 2), ("majority", 3)]
)
def test_a_policy_says_what_is_kept(policy: str, told: int) -> None:
    talk = Talk(road(fields={"x": {"type": "int", "conflict": policy}}))
    for value in (3, 5, 2, 3, 4):
        talk.say(0, x=value)
    assert talk.until(4)[0].endswith(f"x={told}")


def test_a_union_keeps_all_values_in_order() -> None:
    talk = Talk(road(fields={"x": {"type": "string", "conflict": "union"}}))
    assert talk.fate(0, x="b") == "opened"
    assert talk.say(1, x=["c", "a", "b"]).conflicts == 1
    assert talk.fate(2, x=["a", "c"]) == "redundant"
    assert talk.until(4) == ["4s 1/1 r2 x=['a', 'b', 'c']"]
    assert talk.gatherer.counts.conflicts == 1


def test_values_of_one_list_within_tolerance_are_one_as_those_of_two_reports_are() -> None:
    topic = road(
        fields={
            "x": {"type": "int", "conflict": "union", "tolerance": 2},
            "at": {"y": {"type": "int", "conflict": "union", "tolerance": 2}},
        }
    )
    talk = Talk(topic)
    first = talk.report(0, place="A1", x=[0, 2, 3, 4], at={"y": [5, 7]})
    talk.gatherer.feed(first)
    assert first.fields["x"] == [0, 2, 3, 4]
    assert talk.fate(1, x=[1, 2, 5]) == "redundant"
    talk.say(2, "B1")
    talk.say(3, "B1", x=[0, 2])
    assert talk.until(6) == ["4s 1/1 r1 x=[0, 3], at={'y': [5]}", "6s 3/1 r2 x=[0]"]


def test_a_vote_that_does_not_change_the_winner_is_redundant_but_counted() -> None:
    talk = Talk(road(fields={"x": {"type": "string", "conflict": "majority"}}))
    assert talk.fate(0, x="a") == "opened"
    assert talk.fate(1, x="b") == "redundant"
    assert talk.fate(2, x="b") == "merged"
    assert talk.fate(2, x="b") == "redundant"
    assert talk.fate(3, x="a") == "redundant"
    assert talk.fate(3, x="a") == "merged"  # three votes each, and it came first
    assert talk.until(4) == ["4s 1/1 r3 x=a"]


def test_each_field_that_disagrees_is_one_conflict_whether_it_alters_or_not() -> None:
    talk = Talk(road())
    talk.say(0, severity=3, note="x", lanes=2)
    assert talk.say(1, severity=5, note="y", lanes=2.2).conflicts == 2
    assert talk.say(2, severity=1, note="z", lanes=4).conflicts == 3
    assert talk.gatherer.counts.conflicts == 5


@pytest.mark.parametrize(
    ("traits", "first", "near", "far"),
    [
        ({"type": "float", "tolerance": 0.25}, 2, 2.25, 2.3),
        ({"type": "int", "tolerance": 2}, 10, 8, 7),
        (
            {"type": "timestamp", "tolerance": "30s"},
            "2026-11-15T11:05Z",
            "2026-11-15T11:05:30Z",
            "2026-11-15T11:06Z",
        ),
    ],
)
def test_values_within_tolerance_are_the_same(
    traits: dict[str, Any], first: Any, near: Any, far: Any
) -> None:
    for policy in ("first", "last", "max", "min", "majority"):
        talk = Talk(road(fields={"x": {**traits, "conflict": policy}}))
        talk.say(0, x=first)
        decision = talk.say(1, x=near)
        assert (decision.fate, decision.conflicts) == (Fate.REDUNDANT, 0)
        assert talk.say(2, x=far).conflicts == 1


def test_key_fields_merge_like_others() -> None:
    topic = road(key=["floor(km / 10)"], fields={"km": {"type": "int", "conflict": "max"}})
    talk = Talk(topic)
    talk.say(0, km=11)
    assert talk.fate(1, km=19) == "merged"
    talk.gatherer.advance(4 * SECOND)
    (telling,) = talk.tellings()
    assert telling.event.key == (1,)
    assert telling.event.fields["km"] == 19


# What a service needs beyond the paper.


def test_stays_open_reported_lets_redundant_reports_restart_tr() -> None:
    talk = Talk(road(stays_open="reported"))
    for at_s in range(0, 200, 50):
        talk.say(at_s, severity=3)
    assert talk.until(209) == ["4s 1/1 r1 severity=3"]
    assert talk.until(210) == ["210s 1 closed: redundant_for"]


def test_without_a_window_a_road_blocked_for_two_hours_is_one_event() -> None:
    talk = Talk(road(stays_open="reported", window="none"))
    for at_s in range(0, 7200, 20):
        talk.say(at_s, severity=3)
    assert talk.until(9000) == ["4s 1/1 r1 severity=3", "7240s 1 closed: redundant_for"]
    published = Talk(road())
    for at_s in range(0, 7200, 20):
        published.say(at_s, severity=3)
    assert published.gatherer.counts.opened == 120


def test_ends_when_tells_a_last_version_that_is_marked_ended() -> None:
    talk = Talk(road(ends_when="note = 'over'", fields={"note": {"type": "string", "conflict": "last"}}))
    talk.say(0, severity=3)
    decision = talk.say(1, note="over")
    assert (decision.fate, decision.version) == (Fate.MERGED, 1)
    assert talk.out() == ["1s 1/1 r2 severity=3, note=over [last] [ended]", "1s 1 closed: ended"]
    assert talk.fate(2, severity=3) == "opened"


def test_ends_when_waits_for_what_is_unknown() -> None:
    talk = Talk(road(ends_when="severity = 0 OR NOT note = 'x'"))
    talk.say(0, lanes=1)
    assert talk.gatherer.open == 1


def test_a_report_that_ends_its_event_as_it_opens_it_is_told_and_closed() -> None:
    talk = Talk(road(ends_when="severity = 0"))
    assert talk.fate(0, severity=0) == "opened"
    assert talk.out() == ["0s 1/1 r1 severity=0 [last] [ended]", "0s 1 closed: ended"]


def test_tell_first_now_tells_a_new_event_at_once_and_its_growth_every_tm() -> None:
    talk = Talk(road(tell_first="now"))
    talk.say(0, severity=1)
    assert talk.out() == ["0s 1/1 r1 severity=1"]
    talk.say(1, severity=2)
    talk.say(2, severity=3)
    assert talk.until(4.9) == []
    assert talk.until(5) == ["5s 1/2 r3 severity=3"]


def test_tell_now_tells_at_once_what_newly_satisfies_it() -> None:
    talk = Talk(road(tell_now="severity >= 4"))
    talk.say(0, severity=3)
    talk.say(1, severity=4)
    assert talk.out() == ["1s 1/1 r2 severity=4"]
    talk.say(2, severity=5)
    assert talk.out() == []
    assert talk.until(6) == ["6s 1/2 r3 severity=5"]


# The cycle that subscribers ask for.


def test_the_shortest_cycle_asked_for_is_that_of_the_seat() -> None:
    talk = Talk(road(every_min="1s"))
    talk.gatherer.cycle(2 * SECOND)
    talk.say(0, severity=1)
    assert talk.until(2) == ["2s 1/1 r1 severity=1"]
    talk.say(3, severity=2)
    assert talk.until(5) == ["5s 1/2 r2 severity=2"]


def test_a_cycle_is_never_below_every_min() -> None:
    talk = Talk(road(every_min="3s"))
    talk.gatherer.cycle(1)
    talk.say(0)
    assert talk.until(2.9) == []
    assert talk.until(3) == ["3s 1/1 r1 "]


def test_every_min_is_tm_where_it_is_not_declared() -> None:
    talk = Talk(road())
    talk.gatherer.cycle(1)
    talk.say(0)
    assert talk.until(3.9) == []
    assert talk.until(4) == ["4s 1/1 r1 "]


def test_a_long_cycle_holds_later_versions_but_not_the_first() -> None:
    talk = Talk(road())
    talk.gatherer.cycle(30 * SECOND)
    talk.say(0, severity=1)
    talk.say(5, severity=2)
    assert talk.until(34.9) == ["4s 1/1 r1 severity=1"]
    assert talk.until(35) == ["35s 1/2 r2 severity=2"]


def test_a_shorter_cycle_shortens_clocks_that_run() -> None:
    talk = Talk(road(every_min="1s"))
    talk.say(0)
    talk.until(1)
    talk.gatherer.cycle(SECOND)
    assert talk.gatherer.next_us() == 2 * SECOND
    assert talk.until(2) == ["2s 1/1 r1 "]


# Quality of service, names, time.


def test_an_event_has_the_highest_qos_of_its_reports() -> None:
    talk = Talk(road(merge_after=0))
    for qos, severity in ((0, 1), (1, 2), (0, 3), (2, 4), (1, 5)):
        talk.say(0, severity=severity, qos=qos)
    assert [one.qos for one in talk.tellings()] == [0, 1, 1, 2, 2]


def test_a_redundant_report_lends_its_qos_to_what_is_told_later() -> None:
    talk = Talk(road())
    talk.say(0, severity=1)
    talk.say(1, severity=1, qos=1)
    talk.gatherer.advance(4 * SECOND)
    assert [one.qos for one in talk.tellings()] == [1]


def test_a_redundant_report_that_must_not_be_lost_has_what_may_be_lost_told_again() -> None:
    talk = Talk(road(), branch="a", keep_closed=True)
    talk.say(0, severity=1)
    talk.until(4)
    talk.gatherer.confirm("1", 1)
    assert talk.say(5, severity=1, qos=1).fate is Fate.REDUNDANT
    (telling,) = talk.tellings()
    assert (telling.event.version, telling.qos, telling.again, telling.last) == (1, 1, True, False)
    talk.say(6, severity=1, qos=1)
    talk.say(6, severity=1, qos=2)
    assert talk.out() == []
    # Until it is confirmed, a successor tells it again too.
    talk.gatherer.retell()
    assert [one.qos for one in talk.tellings()] == [2]
    talk.gatherer.confirm("1", 1)
    talk.gatherer.retell()
    assert talk.out() == []


def test_what_is_still_to_be_told_is_not_told_again_but_safely() -> None:
    talk = Talk(road())
    talk.say(0, severity=1)
    talk.until(4)
    talk.say(5, severity=2)
    talk.say(6, severity=2, qos=1)
    assert talk.out() == []
    talk.gatherer.advance(9 * SECOND)
    assert [(one.event.version, one.qos, one.again) for one in talk.tellings()] == [(2, 1, False)]


def test_a_telling_has_the_topic_name_of_the_report_that_opened_the_event() -> None:
    topic = road(name="road/+", key=["severity"])
    shape, gatherer = Shape(topic), Gatherer(topic)
    for number, name in enumerate(("road/a", "road/b")):
        gatherer.feed(shape.report(name, {"severity": 1, "place": name}, report_id=str(number), at_us=0))
    gatherer.advance(4 * SECOND)
    (telling,) = gatherer.take()
    assert isinstance(telling, Telling)
    assert (telling.name, telling.event.topic, telling.state) == ("road/a", "road/+", State.TOLD)


def test_time_does_not_go_back() -> None:
    talk = Talk(road())
    talk.say(5)
    with pytest.raises(ValueError, match="time goes back from 5000000 to 4000000 microseconds"):
        talk.say(4)
    with pytest.raises(ValueError, match="time goes back"):
        talk.gatherer.advance(0)


def test_a_clock_that_runs_out_late_is_told_at_the_time_it_was_due() -> None:
    talk = Talk(road())
    talk.say(0, severity=1)
    assert talk.until(1000) == ["4s 1/1 r1 severity=1", "60s 1 closed: redundant_for"]


def test_many_changes_do_not_fill_the_heap_of_clocks() -> None:
    talk = Talk(road(window="none", stays_open="reported"))
    for at_s in range(0, 5000, 5):
        talk.say(at_s, severity=at_s)
    assert len(talk.gatherer._clocks) < 100


def test_all_events_can_be_closed_at_once() -> None:
    talk = Talk(road())
    talk.say(0, "a", severity=1)
    talk.say(1, "b")
    talk.gatherer.close_all()
    assert talk.out() == [
        "1s 1/1 r1 severity=1 [last]",
        "1s 1 closed: undeclared",
        "1s 2/1 r1  [last]",
        "1s 2 closed: undeclared",
    ]
    assert (talk.gatherer.open, talk.gatherer.next_us()) == (0, None)


def test_the_latest_versions_told_of_open_events_can_be_asked_for() -> None:
    talk = Talk(road())
    talk.say(0, "a", severity=1)
    talk.say(0, "b", severity=5)
    talk.until(4)
    talk.say(5, "a", severity=2)
    talk.say(5, "c", severity=5)
    versions = talk.gatherer.matching(lambda event: True)
    assert [(event.opened_by, event.fields["severity"]) for event in versions] == [("1", 1), ("2", 5)]
    assert [e.opened_by for e in talk.gatherer.matching(lambda e: e.fields["severity"] == 5)] == ["2"]


def test_a_relay_can_know_what_is_open_and_for_how_long_at_least() -> None:
    talk = Talk(road())
    talk.say(10, severity=1)
    talk.until(15)
    entry = talk.gatherer.entry_of(("A1",))
    assert entry is not None
    assert (entry.event, entry.fields) == ("1", {"place": "A1", "severity": 1})
    assert talk.gatherer.remaining_us(entry) == 55 * SECOND
    assert talk.gatherer.entry_of(("A2",)) is None
