"""Subscriptions: what makes another superfluous, what is said as one, what may meet."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.language.samples import some_event
from tests.matching.samples import some_parsed
from tidings.errors import FilterError, SubscriptionError
from tidings.language import names
from tidings.language.regions import Unknown
from tidings.language.subscriptions import (
    Subscription,
    check,
    covers,
    filters_meet,
    merge,
    read_where,
)

TOPICS = ["a", "a/b", "a/b/c", "b", "b/b", "a//b", "/", "$sys", "$sys/a", "c/a/b"]
FILTERS = [
    "#", "+", "a", "a/#", "a/+", "+/b", "+/+", "a/b", "a/b/#", "a/+/c", "+/b/#", "b/#", "$sys", "$sys/#",
    "$sys/+", "/", "/#", "a//b", "a/+/b", "+/+/+",
]  # fmt: skip

seeds = st.integers(0, 2**32 - 1)


def wanted(subscription: Subscription, topic: str, event: dict[str, object]) -> bool:
    """What a subscription asks for, said without any cleverness."""
    if not names.match(subscription.topic_filter, topic):
        return False
    return not subscription.where or read_where(subscription.where).matches(event, subscription.unknown)


def some_where(rng: random.Random) -> str:
    """A filter that can be read without declared types."""
    return some_parsed(rng, declared=False).source


def some_subscription(rng: random.Random, topic_filters: list[str] = FILTERS) -> Subscription:
    return Subscription(
        rng.choice(topic_filters),
        rng.choice(["", some_where(rng)]),
        rng.choice(list(Unknown)),
        rng.choice([0, 1, 2]),
        rng.choice([0, 0, 1_000_000]),
    )


# Covering: five things together decide, and each alone can forbid it.

WIDE = Subscription("a/#", "i > 3", Unknown.ASSUME, 1, 1000)


@pytest.mark.parametrize(
    "narrow",
    [
        WIDE,
        Subscription("a/b", "i > 3", Unknown.ASSUME, 1, 1000),
        Subscription("a/#", "i > 4", Unknown.ASSUME, 1, 1000),
        Subscription("a/#", "i > 3", Unknown.WAIT, 1, 1000),
        Subscription("a/#", "i > 3", Unknown.ASSUME, 0, 1000),
        Subscription("a/#", "i > 3", Unknown.ASSUME, 1, 2000),
    ],
)
def test_a_subscription_that_asks_for_less_in_one_respect_is_covered(narrow: Subscription) -> None:
    assert covers(WIDE, narrow)


@pytest.mark.parametrize(
    "other",
    [
        Subscription("b/#", "i > 3", Unknown.ASSUME, 1, 1000),
        Subscription("#", "i > 3", Unknown.ASSUME, 1, 1000),
        Subscription("a/#", "i > 2", Unknown.ASSUME, 1, 1000),
        Subscription("a/#", "", Unknown.ASSUME, 1, 1000),
        Subscription("a/#", "i > 3", Unknown.ASSUME, 2, 1000),
        Subscription("a/#", "i > 3", Unknown.ASSUME, 1, 999),
        Subscription("a/#", "i > 3", Unknown.ASSUME, 1, 0),
    ],
)
def test_a_subscription_that_asks_for_more_in_one_respect_is_not_covered(other: Subscription) -> None:
    assert not covers(WIDE, other)


def test_what_counts_the_unknown_in_is_not_covered_by_what_leaves_it_out() -> None:
    assert not covers(Subscription("a", "i > 3"), Subscription("a", "i > 3", Unknown.ASSUME))
    assert covers(Subscription("a", "i > 3", Unknown.ASSUME), Subscription("a", "i > 3"))


@given(seeds)
@settings(max_examples=examples(300))
def test_who_serves_the_cover_serves_the_covered(seed: int) -> None:
    rng = random.Random(seed)
    wide, narrow = some_subscription(rng), some_subscription(rng)
    if rng.random() < 0.5:
        narrow = Subscription(narrow.topic_filter, wide.where, narrow.unknown, narrow.qos, narrow.every_us)
    if covers(wide, narrow):
        assert wide.qos >= narrow.qos
        assert wide.every_us <= narrow.every_us
        for _ in range(20):
            topic, event = rng.choice(TOPICS), some_event(rng, mixed=True)
            assert wanted(wide, topic, event) or not wanted(narrow, topic, event)


@given(seeds)
def test_a_subscription_covers_itself(seed: int) -> None:
    subscription = some_subscription(random.Random(seed))
    assert covers(subscription, subscription)


# Merging.


@given(seeds)
@settings(max_examples=examples(300))
def test_two_that_are_said_as_one_ask_for_what_either_asks_for_and_nothing_more(seed: int) -> None:
    rng = random.Random(seed)
    one = some_subscription(rng)
    other = Subscription(one.topic_filter, some_where(rng), one.unknown, one.qos, one.every_us)
    both = merge(one, other)
    if both is None:
        return
    assert (both.topic_filter, both.unknown, both.qos, both.every_us) == (
        one.topic_filter,
        one.unknown,
        one.qos,
        one.every_us,
    )
    for _ in range(20):
        topic, event = rng.choice(TOPICS), some_event(rng, mixed=True)
        assert wanted(both, topic, event) == (wanted(one, topic, event) or wanted(other, topic, event))


def test_neighbouring_ranges_are_said_as_one() -> None:
    both = merge(Subscription("a", "i BETWEEN 1 AND 3"), Subscription("a", "i BETWEEN 3 AND 5"))
    assert both == Subscription("a", read_where("i BETWEEN 1 AND 5").text)


@pytest.mark.parametrize(
    "other",
    [
        Subscription("b", "i > 3", Unknown.WAIT, 1),
        Subscription("a", "i > 3", Unknown.ASSUME, 1),
        Subscription("a", "i > 3", Unknown.WAIT, 2),
        Subscription("a", "i > 3", Unknown.WAIT, 1, 5),
    ],
)
def test_subscriptions_that_differ_in_more_than_their_filter_are_not_merged(other: Subscription) -> None:
    assert merge(Subscription("a", "i < 3", Unknown.WAIT, 1), other) is None


# Topic filters that meet.


@given(st.sampled_from(FILTERS), st.sampled_from(FILTERS))
def test_topic_filters_meet_where_a_topic_matches_both(one: str, other: str) -> None:
    shared = [topic for topic in TOPICS if names.match(one, topic) and names.match(other, topic)]
    assert filters_meet(one, other) == filters_meet(other, one)
    assert filters_meet(one, other) or not shared


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("a/b", "a/c", False),
        ("a/#", "a", True),
        ("a/+", "a", False),
        ("a/+/c", "a/b/#", True),
        ("#", "$sys/x", False),
        ("+/x", "$sys/x", False),
        ("$sys/#", "$sys/x", True),
        ("a/#", "+/b/c", True),
        ("a/b/c", "a/b", False),
    ],
)
def test_topic_filters_that_meet_and_that_do_not(one: str, other: str, meet: bool) -> None:
    assert filters_meet(one, other) is meet


# What cannot be understood.


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (Subscription("a/#/b"), "#"),
        (Subscription(""), "empty"),
        (Subscription("a", qos=3), "quality of service 3 is not 0, 1 or 2"),
        (Subscription("a", qos=-1), "quality of service -1 is not 0, 1 or 2"),
        (Subscription("a", every_us=-5), "every = -5 us is negative"),
        (Subscription("a+"), "+"),
    ],
)
def test_a_subscription_that_cannot_be_is_refused_with_a_reason(asked: Subscription, reason: str) -> None:
    with pytest.raises(SubscriptionError) as refused:
        check(asked)
    assert reason in str(refused.value)


def test_a_filter_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(FilterError):
        check(Subscription("a", "i >"))


def test_subscriptions_sort_and_are_equal_by_value() -> None:
    one, same = Subscription("a", "i > 3", qos=1), Subscription("a", "i > 3", qos=1)
    assert one == same
    assert hash(one) == hash(same)
    assert sorted([Subscription("b"), one, Subscription("a")]) == [Subscription("a"), one, Subscription("b")]
