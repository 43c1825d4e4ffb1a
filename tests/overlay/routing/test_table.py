"""Tables: who wants a publication, against the scan of all who ask."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, rule

from tests.counting import lines
from tests.examples import examples
from tests.matching.samples import some_parsed, some_values
from tidings.language import names
from tidings.language.normal_form import parts_of
from tidings.language.regions import Unknown
from tidings.language.subscriptions import EVERYTHING, Subscription, filters_meet, read_where
from tidings.matching import Index
from tidings.matching.base import Boxed
from tidings.overlay.routing import table as table_module
from tidings.overlay.routing.table import (
    CYCLES_MAX,
    INDEX_ASKED,
    INDEX_AT_ONCE,
    INDEX_FROM,
    INDEX_STEPS,
    Table,
)

TOPICS = ["a", "a/b", "a/b/c", "b", "b/", "/", "/b", "$s", "$s/a", "a//c", "+x", "a/$s"]
FILTERS = [
    "#", "+", "+/#", "a", "a/#", "a/+", "a/+/#", "+/b", "+/b/+", "+/+", "a/b", "a/b/#", "a/b/c", "b/#", "b/",
    "/", "/+", "$s", "$s/#", "$s/+", "a//c", "a/+/c",
]  # fmt: skip

Fields = dict[str, object]


@pytest.fixture(autouse=True)
def indexed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few filters are enough for an index."""
    monkeypatch.setattr(table_module, "INDEX_AT_ONCE", INDEX_FROM)


def naive(asked: list[tuple[Subscription, str]], topic: str, fields: Fields) -> dict[str, int]:
    found: dict[str, int] = {}
    for subscription, target in asked:
        if names.match(subscription.topic_filter, topic) and (
            not subscription.where or read_where(subscription.where).matches(fields, subscription.unknown)
        ):
            found[target] = max(found.get(target, -1), subscription.qos)
    return found


class AgainstTheScan(RuleBasedStateMachine):
    """A table, a list of the same, and publications."""

    held = Bundle("held")

    @initialize()
    def begin(self) -> None:
        self.table: Table[Subscription, str] = Table(4)
        self.asked: list[tuple[Subscription, str]] = []

    @rule(target=held, seed=st.integers(0, 2**32 - 1))
    def add(self, seed: int) -> tuple[Subscription, str]:
        rng = random.Random(seed)
        where = "" if rng.random() < 0.4 else some_parsed(rng, declared=False).source
        subscription = Subscription(
            rng.choice(FILTERS),
            where,
            rng.choice(list(Unknown)),
            rng.choice([0, 1, 2]),
            rng.choice([0, 0, 5, 7]),
        )
        asked = (subscription, rng.choice(["x", "y", "z"]))
        if asked not in self.asked:
            self.table.add(*asked)
            self.asked.append(asked)
        return asked

    @rule(topic_filter=st.sampled_from(["a/#", "a/b"]), first=st.integers(0, 50))
    def add_many(self, topic_filter: str, first: int) -> None:
        """Enough for an index; they stay."""
        for number in range(first, first + INDEX_FROM + 5):
            unknown = Unknown.ASSUME if number % 20 == 7 else Unknown.WAIT
            asked = (Subscription(topic_filter, f"n = {number}", unknown), f"many{number % 10}")
            if asked not in self.asked:
                self.table.add(*asked)
                self.asked.append(asked)

    @rule(asked=consumes(held))
    def remove(self, asked: tuple[Subscription, str]) -> None:
        if asked in self.asked:
            self.table.remove(*asked)
            self.asked.remove(asked)

    @rule(seed=st.integers(0, 2**32 - 1))
    def match(self, seed: int) -> None:
        rng = random.Random(seed)
        topic = rng.choice(TOPICS)
        fields = some_values(rng, declared=False)
        if rng.random() < 0.7:
            fields["n"] = rng.randint(0, 200)
        assert self.table.match(topic, lambda: fields) == naive(self.asked, topic, fields)
        assert self.table.topics_remembered <= 4
        assert len(self.table) == len({subscription for subscription, _ in self.asked})

    @rule(topic_filter=st.sampled_from([*FILTERS, EVERYTHING]))
    def cycles(self, topic_filter: str) -> None:
        assert self.table.cycles(topic_filter) == {
            subscription.every_us
            for subscription, _ in self.asked
            if filters_meet(subscription.topic_filter, topic_filter)
        }


TestAgainstTheScan = AgainstTheScan.TestCase
TestAgainstTheScan.settings = settings(max_examples=examples(40), stateful_step_count=30)


def nothing() -> Fields:
    return {}


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("topic_filter", FILTERS)
def test_topic_filters_match_as_mqtt_says(topic: str, topic_filter: str) -> None:
    table: Table[Subscription, str] = Table(8)
    table.add(Subscription(topic_filter), "x")
    assert (table.match(topic, nothing) == {"x": 0}) == names.match(topic_filter, topic)


def test_a_topic_that_begins_with_a_dollar_is_not_for_wildcards() -> None:
    table: Table[Subscription, str] = Table(8)
    for topic_filter in ("#", "+/a", "$s/#"):
        table.add(Subscription(topic_filter), topic_filter)
    assert table.match("$s/a", nothing) == {"$s/#": 0}


def test_the_content_is_not_read_unless_a_filter_needs_it() -> None:
    table: Table[Subscription, str] = Table(8)
    table.add(Subscription("a/#"), "x")
    table.add(Subscription("b", "i > 3"), "y")

    def unreadable() -> Fields:
        raise AssertionError("nobody asked")

    assert table.match("a/b", unreadable) == {"x": 0}


def test_the_highest_quality_of_service_asked_for_counts() -> None:
    table: Table[Subscription, str] = Table(8)
    for qos in (1, 2, 0):
        table.add(Subscription("a", qos=qos), "x")
    assert table.match("a", nothing) == {"x": 2}
    table.remove(Subscription("a", qos=2), "x")
    assert table.match("a", nothing) == {"x": 1}


def test_equal_subscriptions_are_held_once() -> None:
    table: Table[Subscription, int] = Table(8)
    for target in range(100):
        table.add(Subscription("a", "i > 3"), target)
    assert len(table) == 1
    assert len(table.match("a", lambda: {"i": 4})) == 100


def test_many_filters_on_one_topic_filter_are_indexed_and_removed_again() -> None:
    table: Table[Subscription, int] = Table(8)
    for number in range(INDEX_FROM * 3):
        table.add(Subscription("a", f"i = {number}"), number)
    assert table.match("a", lambda: {"i": 150}) == {150: 0}
    for number in range(INDEX_FROM * 3):
        if number != 7:
            table.remove(Subscription("a", f"i = {number}"), number)
    assert table.match("a", lambda: {"i": 150}) == {}
    assert table.match("a", lambda: {"i": 7}) == {7: 0}


def test_an_index_of_some_hundred_filters_is_made_when_they_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_module, "INDEX_AT_ONCE", INDEX_AT_ONCE)
    table: Table[Subscription, int] = Table(8)
    for number in range(INDEX_FROM):
        table.add(Subscription("a", f"i = {number}"), number)
    for asked in range(1, 2 + INDEX_ASKED // INDEX_FROM):
        assert table.indexes == 0
        assert table.match("a", lambda asked=asked: {"i": asked}) == {asked: 0}  # type: ignore[misc]
    assert table.indexes == 1
    assert table.match("a", lambda: {"i": 7}) == {7: 0}
    for number in range(INDEX_AT_ONCE):
        assert table.indexes == 1
        table.add(Subscription("b", f"i = {number}"), number)
    assert table.indexes == 2


def test_an_index_knows_what_each_takes_for_unknown() -> None:
    table: Table[Subscription, int] = Table(8)
    for number in range(INDEX_FROM * 2):
        unknown = Unknown.ASSUME if number in (5, INDEX_FROM + 5) else Unknown.WAIT
        table.add(Subscription("a", f"i = {number}", unknown), number)
    assert table.match("a", nothing) == {5: 0, INDEX_FROM + 5: 0}


def test_what_is_remembered_per_topic_is_bounded() -> None:
    table: Table[Subscription, str] = Table(10)
    table.add(Subscription("#"), "x")
    for number in range(1000):
        assert table.match(f"t{number}", nothing) == {"x": 0}
    assert table.topics_remembered == 10


def test_what_is_remembered_is_right_after_a_change() -> None:
    table: Table[Subscription, str] = Table(10)
    assert table.match("a/b", nothing) == {}
    table.add(Subscription("a/+"), "x")
    assert table.match("a/b", nothing) == {"x": 0}
    table.add(Subscription("a/b"), "y")
    assert table.match("a/b", nothing) == {"x": 0, "y": 0}
    table.remove(Subscription("a/+"), "x")
    assert table.match("a/b", nothing) == {"y": 0}


def test_an_empty_table_keeps_nothing() -> None:
    table: Table[Subscription, str] = Table(10)
    for topic_filter in FILTERS:
        table.add(Subscription(topic_filter), "x")
    for topic_filter in reversed(FILTERS):
        table.remove(Subscription(topic_filter), "x")
    assert len(table) == 0
    assert not table._root.below


def test_levels_are_told_apart_only_where_topic_filters_part() -> None:
    table: Table[Subscription, str] = Table(10)
    for topic_filter in ("a/b/c/d", "a/b/c/+", "a/b", "x/y/#"):
        table.add(Subscription(topic_filter), topic_filter)
    levels = table._root.below
    assert levels is not None
    assert levels["x"].rest == "y/#"
    assert (levels["a"].rest, levels["a"].empty) == (None, True)
    assert table.match("x/y", nothing) == {"x/y/#": 0}
    assert table.match("a/b/c/d", nothing) == {"a/b/c/d": 0, "a/b/c/+": 0}
    assert table.match("a/b/c/$d", nothing) == {"a/b/c/+": 0}
    assert table.match("a/b", nothing) == {"a/b": 0}
    assert table.match("a/b/c", nothing) == {}
    for topic_filter in ("a/b/c/d", "a/b", "x/y/#"):
        table.remove(Subscription(topic_filter), topic_filter)
    assert table.match("a/b/c/d", nothing) == {"a/b/c/+": 0}
    assert list(levels) == ["a"]


@pytest.mark.parametrize("seed", range(20))
def test_topic_filters_come_and_go_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    table: Table[Subscription, str] = Table(1)
    held: dict[str, None] = {}
    for _ in range(200):
        ends = rng.choice(["", "", "", "/#", "/+", "/"])
        topic_filter = "/".join(rng.choice("ab+") for _ in range(rng.randint(1, 5))) + ends
        if topic_filter in held:
            del held[topic_filter]
            table.remove(Subscription(topic_filter), topic_filter)
        else:
            held[topic_filter] = None
            table.add(Subscription(topic_filter), topic_filter)
        topic = "/".join(rng.choice(["a", "b", "a", "b", "$", ""]) for _ in range(rng.randint(1, 6)))
        assert table.match(topic, nothing).keys() == {it for it in held if names.match(it, topic)}
    for topic_filter in held:
        table.remove(Subscription(topic_filter), topic_filter)
    assert not table._root.below


def test_the_subscriptions_that_meet_a_topic_filter_are_found() -> None:
    asked = [*FILTERS, EVERYTHING]
    table: Table[Subscription, str] = Table(16)
    for topic_filter in asked:
        table.add(Subscription(topic_filter), "x")
    for topic_filter in asked:
        found = sorted(it.topic_filter for it in table.meeting(topic_filter))
        assert found == sorted(it for it in asked if filters_meet(it, topic_filter))


def test_to_know_the_cycles_again_after_a_change_walks_nobody() -> None:
    table: Table[Subscription, int] = Table(16)
    for at in range(5_000):
        table.add(Subscription("a/+", f"n = {at}", every_us=7), at)
        table.add(Subscription(f"a/{at}"), at)
    assert table.cycles("a/+") == {0, 7}
    for changed in (Subscription("b"), Subscription("a/x"), Subscription("a/+", "n = 1", every_us=5)):
        table.add(changed, 0)
        assert lines(lambda: table.cycles("a/+")) < 20
        assert table.cycles("a/+") == {0, 7} | {changed.every_us}
        table.remove(changed, 0)
    assert table.cycles("a/+") == {0, 7}


def test_of_a_bounded_number_of_topic_filters_the_cycles_are_counted() -> None:
    table: Table[Subscription, int] = Table(16)
    for at in range(2 * CYCLES_MAX):
        table.cycles(f"t{at}")
        table.cycles("used")
    table.add(Subscription("+", every_us=7), 1)
    assert len(table._cycles) == CYCLES_MAX
    assert ("used" in table._cycles, "t0" in table._cycles) == (True, False)
    assert table.cycles("t0") == table.cycles("used") == {7}


def deep(rng: random.Random, levels: int, alphabet: str = "ab") -> str:
    return "/".join(rng.choice(alphabet) for _ in range(levels))


@given(st.randoms(use_true_random=False))
def test_topic_filters_of_many_levels_match_as_mqtt_says(rng: random.Random) -> None:
    table: Table[Subscription, str] = Table(16)
    held: dict[str, None] = {}
    for _ in range(40):
        text = deep(rng, rng.randint(9, 14), "aab++") + rng.choice(["", "", "/#", "/+"])
        if text in held:
            table.remove(Subscription(text), text)
            del held[text]
        else:
            table.add(Subscription(text), text)
            held[text] = None
        topic = rng.choice(["", "", "$"]) + deep(rng, rng.randint(8, 16), "aaab")
        wanted = {text for text in held if names.match(text, topic)}
        assert table.match(topic, lambda: None).keys() == wanted
        assert {it.topic_filter for it in table.meeting("a/#")} == {
            it for it in held if filters_meet(it, "a/#")
        }
    for text in held:
        table.remove(Subscription(text), text)
    assert len(table) == 0
    assert table.deep.all() == []


@pytest.mark.parametrize("last", ["x{}", "+/x{}", "x{}/#"])
def test_a_new_topic_does_not_walk_the_levels_of_every_subscription(last: str) -> None:
    rng = random.Random(1)
    table: Table[Subscription, int] = Table(16)
    for at in range(1_000):
        table.add(Subscription(f"{deep(rng, 189, 'a+')}/{last.format(at)}"), at)
    topic = "/".join(["a"] * 189)
    # One level after the other, this was 190 lines for each of a thousand.
    assert lines(lambda: table.match(f"{topic}/y/y/y", lambda: None)) < 1_000
    assert lines(lambda: table.match(f"{topic}/y", lambda: None)) < 1_000
    assert list(
        table.match(f"{topic}/{last.format(7).replace('+', 'a').replace('#', 'z')}", lambda: None)
    ) == [7]


def test_a_trie_is_not_walked_deeper_than_its_bound() -> None:
    rng = random.Random(1)
    table: Table[Subscription, int] = Table(16)
    for at in range(20_000):
        table.add(Subscription(f"{deep(rng, 9, 'a+')}/x{at}"), at)
    assert lines(lambda: table.match("a/a/a/a/a/a/a/a/a/y", lambda: None)) < 20 * 2**10


def test_an_index_of_large_filters_is_made_in_parts() -> None:
    """Each part is bounded; until all are in, answers come from asking in turn."""
    table: Table[Subscription, int] = Table(16)
    added: list[int] = []
    index_add = Index.add

    def count(self: Index, id: int, filter: Boxed, unknown: Unknown) -> None:  # noqa: A002
        added.append(parts_of(filter.boxes(unknown)))
        index_add(self, id, filter, unknown)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Index, "add", count)
        most = 0
        for at in range(INDEX_FROM + 20):
            where = f"x IN ({', '.join(str(1000 * at + value) for value in range(0, 400, 2))})"
            before = len(added)
            table.add(Subscription("t", read_where(where).text), at)
            most = max(most, sum(added[before:]))
            assert list(table.match("t", lambda at=at: {"x": 1000 * at})) == [at]  # type: ignore[misc]
        assert 0 < most <= 2 * INDEX_STEPS
        table.remove(Subscription("t", read_where(where).text), at)
        for _ in range(200):
            table.match("t", lambda: {"x": 3})
        (node,) = table.nodes("t")
        assert node.index is not None
        assert len(node.index) == INDEX_FROM + 19
        assert list(table.match("t", lambda: {"x": 2000})) == [2]
