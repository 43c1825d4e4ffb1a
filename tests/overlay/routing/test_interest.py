"""Interests: a subscription as its home says it to others, and what is not taken for one."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.samples import FIELDS, some_event, some_filter
from tidings.errors import FilterError, SubscriptionError
from tidings.language.normal_form import PARTS_MAX
from tidings.language.regions import Unknown
from tidings.language.subscriptions import EVERYTHING, Subscription, canonical_where
from tidings.overlay.routing.interest import EVERYTHING_AT_ALL, TOPIC_CHARACTERS_MAX, Interest, written

LISTED = ", ".join(f"'{number:03}'" for number in range(PARTS_MAX))
TOO_LARGE = Subscription("t", f"s IN ({LISTED})", qos=1)
"""Its normal form is beyond the bound."""


@pytest.mark.parametrize("unknown", list(Unknown))
@given(rng=st.randoms(use_true_random=False))
def test_a_subscription_is_understood_elsewhere_as_it_is_meant(unknown: Unknown, rng: random.Random) -> None:
    try:
        where = canonical_where(some_filter(rng, FIELDS)).text if rng.random() < 0.8 else ""
    except FilterError:
        return
    asked = Subscription("a/+/#", where, unknown, rng.choice([0, 1, 2]), rng.choice([0, 5_000_000]))
    value, wider = written(asked)
    told = Interest(value)
    assert (told.topic_filter, told.qos, told.every_us) == (asked.topic_filter, asked.qos, asked.every_us)
    for _ in range(5):
        event = some_event(rng, mixed=True)
        wanted = asked.filter is None or asked.filter.matches(event, unknown)
        if wider:
            assert told.filter is None
        else:
            assert (told.filter is None or told.filter.matches(event)) == wanted


def test_a_filter_that_nothing_matches_is_not_one_that_everything_matches() -> None:
    never = Interest(written(Subscription("t", "x > 1 AND x < 1"))[0])
    assert never.filter is not None
    assert not never.filter.matches({"x": 1})
    assert Interest(written(Subscription("t"))[0]).filter is None


def test_a_filter_beyond_the_bound_travels_as_its_topic_filter_alone() -> None:
    value, wider = written(TOO_LARGE)
    assert wider
    assert Interest(value) == Interest(written(Subscription("t", qos=1))[0])
    assert not written(Subscription("t", "s IN ('a', 'b')"))[1]
    assert not written(Subscription("t"))[1]


def test_one_that_cannot_be_read_any_more_travels_as_its_topic_filter_alone() -> None:
    value, wider = written(Subscription("t", "x >", qos=2))
    assert wider
    assert Interest(value) == Interest(written(Subscription("t", qos=2))[0])


def test_two_are_equal_if_they_say_the_same() -> None:
    one, same = (Interest(written(Subscription("t", where))[0]) for where in ("x > 3", "NOT x <= 3"))
    assert one == same
    assert hash(one) == hash(same)
    for other in (
        Subscription("u", "x > 3"),
        Subscription("t", "x > 4"),
        Subscription("t", "x > 3", Unknown.ASSUME),
        Subscription("t", "x > 3", qos=1),
        Subscription("t", "x > 3", every_us=1),
    ):
        assert one != Interest(written(other)[0])
    assert one != "t"


def test_everything_is_everything() -> None:
    assert (EVERYTHING_AT_ALL.topic_filter, EVERYTHING_AT_ALL.filter, EVERYTHING_AT_ALL.qos) == (
        EVERYTHING,
        None,
        2,
    )


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (Subscription("a/+", "x > 3", qos=1), 'a/+ "x > 3" qos=1'),
        (Subscription("a", every_us=5_000_000), "a qos=0 every=5s"),
        (Subscription(EVERYTHING, qos=2), "everything qos=2"),
    ],
)
def test_people_can_read_it(asked: Subscription, shown: str) -> None:
    assert Interest(written(asked)[0]).text == shown


def said(*parts: Any) -> bytes:
    return msgspec.msgpack.encode(parts)


BOXES = [[[["x"], False, False, [[1, False, [3]]]]]]


def test_what_the_next_tests_spoil_is_understood() -> None:
    assert Interest(said("t", 1, 0, BOXES)).text == 't "x >= 3" qos=1'


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xc1",
        said("t", 1)[:-1],
        said("t"),
        said("t", "1", 0),
        said(7, 1, 0),
        said("a/#/b", 1, 0),
        said("a/b+", 1, 0),
        said("t" * (TOPIC_CHARACTERS_MAX + 1), 1, 0),
        said("t", 3, 0),
        said("t", -1, 0),
        said("t", 1, -1),
        said("t", 1, 0, "x > 3"),
        said("t", 1, 0, [[[["x"], False, False, [[1, False, [3, 1]]]]]]),
        said("t", 1, 0, [[[["x"], False, False, [[9, False, [3]]]]]]),
        said("t", 1, 0, [[[["x"], False, False, [[1, False, list(range(PARTS_MAX))]]]]]),
        b"\x91" * 100_000,
        b"\x94\xa1\xff\x01\x00\xc0",
    ],
)
def test_what_is_no_subscription_is_refused(value: bytes) -> None:
    with pytest.raises((SubscriptionError, FilterError)):
        Interest(value)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_interest_or_are_refused(value: bytes) -> None:
    try:
        read = Interest(value)
    except (SubscriptionError, FilterError):
        return
    assert read.text
