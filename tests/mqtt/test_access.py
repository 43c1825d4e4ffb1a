"""The decision who may do what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.language import names
from tidings.mqtt.access import allowed, deciding
from tidings.mqtt.events import ALL_ALLOWED, Access, Rule


def allow(action: str, topic_filter: str, user: str | None = None) -> Rule:
    return Rule(True, action, topic_filter, user)


def deny(action: str, topic_filter: str, user: str | None = None) -> Rule:
    return Rule(False, action, topic_filter, user)


def may(
    rules: list[Rule], action: str, topic_filter: str, user: str | None = "ann", client: str = "c"
) -> bool:
    return allowed(Access(tuple(rules)), user, client, action, topic_filter)


def test_without_a_rule_nothing_is_allowed() -> None:
    assert not may([], "publish", "a")
    assert deciding(Access(), "ann", "c", "publish", "a") is None


def test_the_last_rule_that_fits_decides() -> None:
    rules = [allow("any", "#"), deny("publish", "a/#"), allow("publish", "a/b")]
    assert may(rules, "publish", "x")
    assert not may(rules, "publish", "a/c")
    assert may(rules, "publish", "a/b")
    assert deciding(Access(tuple(rules)), "ann", "c", "publish", "a/b") is rules[2]


def test_a_rule_is_about_its_action_alone() -> None:
    assert may([allow("publish", "a")], "publish", "a")
    assert not may([allow("publish", "a")], "subscribe", "a")
    assert all(may([allow("any", "a")], action, "a") for action in ("publish", "subscribe", "declare"))


@pytest.mark.parametrize("user", [None, ""])
def test_an_empty_name_in_a_rule_is_about_the_anonymous(user: str | None) -> None:
    assert may([allow("any", "a", "")], "publish", "a", user)
    assert not may([allow("any", "a", "")], "publish", "a", "ann")
    assert not may([allow("any", "a", "ann")], "publish", "a", user)


def test_a_subscription_needs_a_rule_that_covers_all_of_it() -> None:
    rules = [allow("subscribe", "a/#")]
    assert may(rules, "subscribe", "a/+/c")
    assert not may(rules, "subscribe", "#")
    assert not may([allow("subscribe", "a"), allow("subscribe", "b")], "subscribe", "+")


def test_a_subscription_that_meets_what_is_denied_is_denied() -> None:
    rules = [allow("subscribe", "#"), deny("subscribe", "private/#")]
    assert not may(rules, "subscribe", "#")
    assert not may(rules, "subscribe", "+/x")
    assert may(rules, "subscribe", "public/#")
    assert may([*rules, allow("subscribe", "#")], "subscribe", "#")


def test_a_wildcard_at_the_beginning_says_nothing_about_dollar_names() -> None:
    assert not may([allow("subscribe", "#")], "subscribe", "$SYS/#")
    assert may([allow("subscribe", "$SYS/#"), deny("subscribe", "#")], "subscribe", "$SYS/broker/uptime")
    assert may([allow("subscribe", "#"), deny("subscribe", "$SYS/#")], "subscribe", "#")


def test_names_stand_for_whole_levels() -> None:
    rules = [allow("publish", "in/%u/#"), allow("publish", "of/%c")]
    assert may(rules, "publish", "in/ann/x")
    assert not may(rules, "publish", "in/bob/x")
    assert may(rules, "publish", "of/c")
    assert not may(rules, "publish", "of/d")
    assert may([allow("publish", "100%u")], "publish", "100%u")


@pytest.mark.parametrize("name", ["+", "#", "a/b", ""])
def test_a_name_that_is_no_level_opens_nothing(name: str) -> None:
    assert not may([allow("subscribe", "in/%u")], "subscribe", "in/+", name)
    assert not may([allow("subscribe", "in/%u")], "subscribe", "in/ann", name)
    assert not may([allow("any", "#"), deny("any", "in/%u")], "publish", "in/ann", name)


def test_all_is_allowed_where_it_is_said() -> None:
    assert allowed(ALL_ALLOWED, None, "c", "subscribe", "$SYS/#")
    assert allowed(ALL_ALLOWED, None, "c", "declare", "fleet/+/status")


LEVELS = st.sampled_from(["a", "b", "+", "$s"])
FILTERS = st.builds(
    lambda levels, more: "/".join([*levels, *(["#"] if more else [])]),
    st.lists(LEVELS, min_size=1, max_size=3),
    st.booleans(),
) | st.just("#")
TOPICS = st.lists(st.sampled_from(["a", "b", "$s"]), min_size=1, max_size=4).map("/".join)
RULES = st.lists(st.builds(Rule, st.booleans(), st.just("subscribe"), FILTERS), max_size=5)


@given(RULES, FILTERS, TOPICS)
def test_a_subscription_gives_no_topic_that_is_not_allowed_by_itself(
    rules: list[Rule], asked: str, topic: str
) -> None:
    if may(rules, "subscribe", asked) and names.match(asked, topic):
        assert may(rules, "subscribe", topic)
