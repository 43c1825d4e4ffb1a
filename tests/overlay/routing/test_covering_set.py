"""Summaries: the few that say what many ask for, compared with the many."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from tests.examples import examples
from tests.language.samples import some_event
from tests.matching.samples import some_parsed
from tidings.language import names
from tidings.language.regions import Unknown
from tidings.language.subscriptions import Subscription, covers, read_where
from tidings.overlay.routing.covering_set import (
    MERGED_TEXT_MAX,
    STEPS_MAX,
    of_subscriptions,
)

TOPICS = ["a", "a/b", "a/c", "b", "b/c", "$s/a"]
FILTERS = ["#", "+", "a/#", "a/+", "a/b", "+/b", "a", "b", "b/c", "$s/#"]


def S(topic_filter: str, where: str = "") -> Subscription:  # noqa: N802
    return Subscription(topic_filter, read_where(where).text if where else "")


def some_where(rng: random.Random) -> str:
    """A filter that can be read without declared types."""
    return some_parsed(rng, declared=False).source


def asks(subscription: Subscription, topic: str, event: dict[str, object]) -> bool:
    return names.match(subscription.topic_filter, topic) and (
        not subscription.where or read_where(subscription.where).matches(event, subscription.unknown)
    )


def quality(told: list[Subscription], topic: str, event: dict[str, object]) -> int:
    """The highest quality of service that somebody asks for; -1 if nobody does."""
    return max((it.qos for it in told if asks(it, topic, event)), default=-1)


def test_the_first_is_told() -> None:
    summary = of_subscriptions(64)
    assert summary.add(S("a", "i > 3")) == ([S("a", "i > 3")], [])


def test_one_that_is_covered_is_not_told() -> None:
    summary = of_subscriptions(64)
    summary.add(S("a/#", "i > 3"))
    assert summary.add(S("a/b", "i > 5")) == ([], [])


def test_a_wider_one_takes_the_place_of_what_it_covers() -> None:
    summary = of_subscriptions(64)
    summary.add(S("a/b", "i > 5"))
    summary.add(S("a/c", "i > 5"))
    added, removed = summary.add(S("a/#"))
    assert (added, sorted(removed)) == ([S("a/#")], [S("a/b", "i > 5"), S("a/c", "i > 5")])


def test_when_a_cover_goes_what_it_covered_is_told_with_it() -> None:
    summary = of_subscriptions(64)
    for subscription in (S("a/#"), S("a/b", "i > 5"), S("a/c")):
        summary.add(subscription)
    assert summary.remove(S("a/#")) == ([S("a/b", "i > 5"), S("a/c")], [S("a/#")])


def test_what_two_ask_for_is_told_until_neither_does() -> None:
    summary = of_subscriptions(64)
    summary.add(S("a"))
    assert summary.add(S("a")) == ([], [])
    assert summary.remove(S("a")) == ([], [])
    assert summary.remove(S("a")) == ([], [S("a")])


def test_two_are_said_as_one_where_that_is_less() -> None:
    summary = of_subscriptions(64)
    summary.add(S("a", "i BETWEEN 1 AND 3"))
    both = S("a", "i BETWEEN 1 AND 5")
    assert summary.add(S("a", "i BETWEEN 3 AND 5")) == ([both], [S("a", "i BETWEEN 1 AND 3")])
    assert summary.remove(S("a", "i BETWEEN 1 AND 3")) == ([S("a", "i BETWEEN 3 AND 5")], [both])


def test_two_are_not_said_as_one_where_that_saves_nothing() -> None:
    summary = of_subscriptions(64)
    summary.add(S("a", "i > 3"))
    assert summary.add(S("a", "s = 'x'")) == ([S("a", "s = 'x'")], [])


def test_a_merged_filter_does_not_grow_for_ever() -> None:
    summary = of_subscriptions(64)
    for number in range(60):
        summary.add(S("a", f"s = '{number:080}'"))
    assert all(len(told.where) <= MERGED_TEXT_MAX for told in summary.told())
    assert len(summary.told()) > 1


def test_comparing_is_bounded_and_what_is_not_compared_is_told() -> None:
    summary = of_subscriptions(2)
    # Each field its own, so that none covers another and none merge.
    for number in range(10):
        summary.add(S("a", f"f{number} > 3"))
    added, removed = summary.add(S("a", "f0 > 5"))
    assert (added, removed) == ([S("a", "f0 > 5")], [])
    assert summary.add(S("a", "f9 > 5")) == ([], [])


class AgainstAll(RuleBasedStateMachine):
    """A summary, what is really asked for, and the copy that a neighbour makes of what it is told."""

    held = Bundle("held")

    @initialize(effort=st.sampled_from([1, 3, 64]), seed=st.integers(0, 2**32 - 1))
    def begin(self, effort: int, seed: int) -> None:
        self.summary = of_subscriptions(effort)
        self.asked: list[Subscription] = []
        self.copy: list[Subscription] = []
        self.rng = random.Random(seed)

    @rule(target=held, seed=st.integers(0, 2**32 - 1), plain=st.booleans())
    def add(self, seed: int, plain: bool) -> Subscription:
        rng = random.Random(seed)
        low = rng.randint(0, 6)
        where = (
            ""
            if rng.random() < 0.15
            else f"i BETWEEN {low} AND {low + rng.randint(0, 3)}"
            if plain
            else some_where(rng)
        )
        unknown = rng.choice([Unknown.WAIT, Unknown.WAIT, Unknown.ASSUME])
        it = Subscription(rng.choice(FILTERS), where, unknown, rng.choice([0, 0, 1]))
        self.asked.append(it)
        self._follow(*self.summary.add(it))
        return it

    @rule(it=consumes(held))
    def remove(self, it: Subscription) -> None:
        self.asked.remove(it)
        self._follow(*self.summary.remove(it))

    def _follow(self, added: list[Subscription], removed: list[Subscription]) -> None:
        """The neighbour hears additions, then removals, one by one; nothing may be missed in between."""
        before = self._probe()
        for it in added:
            assert it not in self.copy, "told twice"
            self.copy.append(it)
        for it in removed:
            self.copy.remove(it)
            for topic, event, least in before:
                assert quality(self.copy, topic, event) >= min(least, quality(self.asked, topic, event))

    def _probe(self) -> list[tuple[str, dict[str, object], int]]:
        found = []
        for _ in range(6):
            topic = self.rng.choice(TOPICS)
            event = {**some_event(self.rng), "i": self.rng.randint(-1, 10)}
            found.append((topic, event, quality(self.copy, topic, event)))
        return found

    @invariant()
    def the_neighbour_knows_what_is_told(self) -> None:
        if hasattr(self, "summary"):
            assert sorted(self.copy) == sorted(self.summary.told())
            assert sorted(set(self.asked)) == sorted(self.summary.asked())

    @invariant()
    def what_is_told_asks_for_exactly_what_is_asked_for(self) -> None:
        if hasattr(self, "summary"):
            for topic, event, told in self._probe():
                assert told == quality(self.asked, topic, event)


TestAgainstAll = AgainstAll.TestCase
TestAgainstAll.settings = settings(max_examples=examples(80), stateful_step_count=25)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(20))
def test_when_all_are_gone_nothing_is_told(seed: int) -> None:
    rng = random.Random(seed)
    summary = of_subscriptions(8)
    items = [S(rng.choice(FILTERS), rng.choice(["", some_where(rng)])) for _ in range(20)]
    for item in items:
        summary.add(item)
    rng.shuffle(items)
    for item in items:
        summary.remove(item)
    assert summary.told() == summary.asked() == ()
    assert (summary._by_filter, summary._wild, summary._told_as) == ({}, {}, {})


def test_comparing_large_filters_is_bounded_and_loses_nothing() -> None:
    """One newcomer is compared with as many as can be afforded; the others are told beside it."""
    summary = of_subscriptions(32)
    large = [S("t", f"x IN ({', '.join(str(at + 7 * value) for value in range(300))})") for at in range(40)]
    compared = 0

    def count(wide: Subscription, narrow: Subscription) -> bool:
        nonlocal compared
        compared += 1
        return covers(wide, narrow)

    summary._covers = count
    for item in large:
        compared = 0
        summary.add(item)
        # Each takes some 300 steps; of 32 in both directions it was 64.
        assert compared <= STEPS_MAX // 250
    assert set(summary.told()) == set(large)
