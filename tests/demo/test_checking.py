"""What every subscriber got, judged by value: a day of three stories, and deliveries broken on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tidings.demo import checking
from tidings.demo.checking import ARRIVES, MATCHES, ONCE
from tidings.demo.city import WATCHER, City, Fields, Report, Subscriber, Truth, Words
from tidings.demo.playing import Delivered
from tidings.language.filters import parse

NORTH, SOUTH = 1, 2

TRUTHS: dict[int, Fields] = {
    7: {"story": 7, "incident": 0, "district": NORTH, "severity": 4},
    8: {"story": 8, "incident": 2, "district": SOUTH, "detail_1": 30},
    9: {"story": 9, "incident": 0},
}
"""Of the last nobody told where it was."""

REPORTS: list[Fields] = [
    {"story": 7, "district": SOUTH},
    {"story": 7, "district": NORTH, "incident": 0},
    {"story": 7, "district": NORTH, "severity": 4},
    {"story": 8, "incident": 2, "district": SOUTH, "detail_1": 30},
    {"story": 9, "incident": 0},
]


def subscriber(client: int, where: str, topic: str = "incident/+") -> Subscriber:
    return Subscriber(client, "kypseli", f"client-{client}", topic, where, parse(where) if where else None)


def city() -> City:
    return City(
        folder=Path(),
        speed_up=1.0,
        brokers=(),
        links=(),
        topics=(),
        followed="incident/traffic",
        subscribers=(
            subscriber(1, f"district = {NORTH}"),
            subscriber(2, f"district = {SOUTH}"),
            subscriber(WATCHER, "", "incident/traffic"),
        ),
        reports=tuple(
            Report(number, fields["story"], "incident/traffic", 5, "kypseli", float(number), fields)
            for number, fields in enumerate(REPORTS)
        ),
        truths={story: Truth(story, "incident/traffic", 0, fields) for story, fields in TRUTHS.items()},
        doubtful=0,
        words={"district": Words((NORTH, SOUTH), (NORTH, SOUTH), ("North", "South"))},
    )


def told(subscriber: int, story: int, version: int, fields: Fields, state: str = "told") -> Delivered:
    return Delivered(
        subscriber, f"kypseli:1:{story}", version, state, story, "incident/traffic", fields, 9, version
    )


def withdrawn(subscriber: int, story: int, version: int) -> Delivered:
    return told(subscriber, story, version, {}, "withdrawn")


EARLY: Fields = {"story": 7, "district": SOUTH}

RIGHT = [
    told(WATCHER, 7, 1, EARLY),
    told(2, 7, 1, EARLY),
    told(WATCHER, 7, 2, TRUTHS[7]),
    withdrawn(2, 7, 2),
    told(1, 7, 2, TRUTHS[7]),
    told(2, 8, 1, TRUTHS[8]),
    told(WATCHER, 8, 1, TRUTHS[8]),
    told(WATCHER, 9, 1, TRUTHS[9]),
]
"""The first report of story 7 is wrong: one in the South hears of it, and then that it is withdrawn."""


def broken(delivered: Sequence[Delivered]) -> list[tuple[str, int, int | None, str]]:
    found = checking.check(city(), delivered).differences
    return [(one.promise, one.subscriber.client, one.story, one.why) for one in found]


def test_what_is_due_follows_from_truth_and_filter_alone() -> None:
    assert checking.due(city()) == {1: {7: TRUTHS[7]}, 2: {8: TRUTHS[8]}, WATCHER: TRUTHS}


def test_a_day_on_which_all_went_well_has_no_difference() -> None:
    verdict = checking.check(city(), RIGHT)
    assert verdict.differences == ()
    assert (verdict.due, verdict.deliveries, verdict.versions, verdict.withdrawn) == (5, 8, 4, 1)
    assert [one.holds for one in verdict.checks] == [True, True, True]


def test_an_event_that_never_came_is_missing() -> None:
    assert broken([one for one in RIGHT if (one.subscriber, one.story) != (1, 7)]) == [
        (ARRIVES, 1, 7, "nothing of it came")
    ]


def test_an_event_that_ends_as_something_else_than_the_truth_is_missing() -> None:
    late = [one for one in RIGHT if (one.subscriber, one.story, one.version) != (WATCHER, 7, 2)]
    assert broken(late) == [(ARRIVES, WATCHER, 7, "version 1, the last that came, says something else")]


def test_an_event_that_was_withdrawn_though_it_matches_is_missing() -> None:
    assert broken([*RIGHT, withdrawn(1, 7, 3)]) == [
        (ARRIVES, 1, 7, "the last of it was that it is withdrawn")
    ]


def test_what_does_not_match_the_filter_must_not_come() -> None:
    assert (MATCHES, 1, 8, "version 1 does not match the filter") in broken(
        [*RIGHT, told(1, 8, 1, TRUTHS[8])]
    )


def test_what_is_not_known_yet_does_not_match() -> None:
    assert (MATCHES, 1, 9, "version 1 does not match the filter") in broken(
        [*RIGHT, told(1, 9, 1, TRUTHS[9])]
    )


def test_another_topic_than_the_one_asked_for_must_not_come() -> None:
    elsewhere = replace(told(WATCHER, 7, 3, TRUTHS[7]), topic="incident/weather")
    assert broken([*RIGHT, elsewhere]) == [(MATCHES, WATCHER, 7, "version 3 does not match the filter")]


def test_what_nobody_reported_must_not_come() -> None:
    made_up = {**TRUTHS[7], "severity": 5}
    assert broken([*RIGHT, told(1, 7, 3, made_up), told(1, 7, 4, TRUTHS[7])]) == [
        (MATCHES, 1, 7, "version 3 says severity = 5, which nobody reported")
    ]


def test_a_version_says_the_same_to_everybody() -> None:
    other = [told(1, 7, 2, {"story": 7, "district": NORTH}), told(1, 7, 3, TRUTHS[7])]
    rest = [one for one in RIGHT if one.subscriber != 1]
    assert broken([*rest, *other]) == [
        (MATCHES, 1, 7, "version 2 says something else than the same version did elsewhere")
    ]


def test_what_was_told_and_is_no_longer_so_must_be_withdrawn() -> None:
    kept = [one for one in RIGHT if one.state != "withdrawn"]
    assert broken(kept) == [(MATCHES, 2, 7, "it ended as something else, and version 1 was never withdrawn")]


def test_what_was_never_told_is_not_withdrawn() -> None:
    assert broken([withdrawn(1, 8, 1), *RIGHT]) == [
        (MATCHES, 1, 8, "version 1 was withdrawn, and nothing had been told before")
    ]


def test_a_version_comes_once() -> None:
    assert broken([*RIGHT, RIGHT[4]]) == [(ONCE, 1, 7, "version 2 came again")]


def test_a_story_is_one_event() -> None:
    again = replace(told(1, 7, 1, TRUTHS[7]), event="kypseli:1:99")
    assert broken([*RIGHT, again]) == [(ONCE, 1, 7, "it came as kypseli:1:7 and again as kypseli:1:99")]


@pytest.mark.parametrize("place", range(len(RIGHT)))
def test_no_delivery_can_be_left_out_unseen(place: int) -> None:
    """Versions on the way may: how many there are is not promised."""
    left = RIGHT[:place] + RIGHT[place + 1 :]
    on_the_way = place == 0
    assert (broken(left) == []) is on_the_way


def test_the_first_difference_is_explained_with_truth_reports_and_what_came() -> None:
    delivered = [one for one in RIGHT if one.state != "withdrawn"]
    (difference,) = checking.check(city(), delivered).differences
    title, *lines = checking.explained(city(), difference, delivered)
    assert title == (
        "Nothing arrives that was not asked for: not so. To client-2 at kypseli: it ended as something "
        "else, and version 1 was never withdrawn."
    )
    assert lines == [
        "asked for   incident/+ where district = 2",
        "event       kypseli:1:7, story 7",
        "truth       story 7, incident 0, district North, severity 4",
        "reported        0.00 s at kypseli: story 7, district South",
        "reported        1.00 s at kypseli: story 7, district North, incident 0",
        "reported        2.00 s at kypseli: story 7, district North, severity 4",
        "got             1.00 s version 1, told: story 7, district South",
    ]


def test_numbers_and_fields_are_shown_as_words() -> None:
    assert city().shown(TRUTHS[8]) == (
        ("story", "8"),
        ("incident", "2"),
        ("district", "South"),
        ("people", "30"),
    )


def test_of_what_never_came_it_is_said_that_nothing_came() -> None:
    delivered = [one for one in RIGHT if (one.subscriber, one.story) != (1, 7)]
    (difference,) = checking.check(city(), delivered).differences
    assert checking.explained(city(), difference, delivered)[-1] == "got         nothing"
