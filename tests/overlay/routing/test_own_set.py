"""A broker's own set: covering and merging in it, its numbers, and how it stays within its share."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.overlay.bench import BEGIN, item
from tests.overlay.routing.asking import NARROW, WIDE, ask, known, middle, told
from tests.overlay.routing.test_interest import TOO_LARGE
from tidings.language import names
from tidings.language.regions import Unknown
from tidings.language.subscriptions import EVERYTHING, Subscription, read_where
from tidings.overlay.core import Core
from tidings.overlay.events import Log, SubscriptionDropped, TimerFired
from tidings.overlay.routing.interest import Interest
from tidings.overlay.routing.messages import FILTER, Change, Item
from tidings.overlay.routing.own_set import NARROW_BELOW, OwnSet
from tidings.overlay.settings import DEFAULT


def own_set(share: int = 1000) -> OwnSet:
    return OwnSet(Core("m", 1, 1, DEFAULT, random.Random(0)), lambda: share)


def said(items: tuple[Item, ...]) -> list[str]:
    """Items for people to read."""
    return [Interest(it.value).text for it in items]


# Numbers.


def test_what_changes_in_one_turn_is_one_change() -> None:
    own = own_set()
    assert (own.number, own.pending, own.take()) == (0, 0, None)
    own.add(Subscription("a"))
    own.add(Subscription("b"))
    assert (own.number, own.pending) == (0, 1)
    assert own.take() == ((item(1, Subscription("a")), item(2, Subscription("b"))), ())
    assert (own.number, own.pending, own.take()) == (1, 1, None)
    own.remove([Subscription("a")])
    own.add(Subscription("c"))
    assert own.take() == ((item(3, Subscription("c")),), (1,))
    assert own.number == 2
    assert list(own.items) == [2, 3]


def test_what_comes_and_goes_in_one_turn_is_not_spoken_of() -> None:
    own = own_set()
    own.add(Subscription("a"))
    own.remove([Subscription("a")])
    assert (own.pending, own.take(), own.number) == (0, None, 0)


def test_no_key_is_given_twice() -> None:
    own = own_set()
    keys: list[int] = []
    for _ in range(3):
        own.add(Subscription("a"))
        taken = own.take()
        assert taken is not None
        keys += [it.key for it in taken[0]]
        own.remove([Subscription("a")])
        own.take()
    assert keys == [1, 2, 3]


# Covering and merging.


def test_a_covered_subscription_is_not_told() -> None:
    it = middle()
    assert told(it, ask(it, "wide", WIDE)) == [Change("m", 1, 1, (item(1, WIDE),))]
    assert told(it, ask(it, "narrow", NARROW)) == []


@pytest.mark.parametrize(
    "other",
    [
        Subscription("rails/#", "severity > 3", qos=1),
        Subscription("roads/#", "severity > 2", qos=1),
        Subscription("roads/#", "severity > 3", Unknown.ASSUME, 1),
        Subscription("roads/#", "severity > 3", qos=2),
        Subscription("roads/#", "severity > 5", Unknown.ASSUME, 1),
    ],
)
def test_topic_filter_where_unknown_and_quality_each_alone_decide_covering(other: Subscription) -> None:
    it = middle()
    ask(it, "wide", WIDE)
    (change,) = told(it, ask(it, "other", other))
    assert change.added == (item(2, other),)


def test_how_often_an_event_is_wanted_decides_covering_too() -> None:
    it = middle()
    slow = Subscription("roads/#", every_us=5_000_000)
    ask(it, "slow", slow)
    quick = Subscription("roads/#", every_us=1_000_000)
    assert told(it, ask(it, "quick", quick)) == [Change("m", 1, 2, (item(2, quick),), (1,))]
    slower = Subscription("roads/#", every_us=9_000_000)
    assert told(it, ask(it, "slower", slower)) == []
    # Who does not say how often is content with the declared cycle, which may be a longer one.
    content = Subscription("roads/#")
    assert told(it, ask(it, "content", content)) == [Change("m", 1, 3, (item(3, content),))]
    assert told(it, it.tell(SubscriptionDropped("client", "content"))) == [Change("m", 1, 4, (), (3,))]


def test_when_a_cover_goes_the_covered_ones_are_brought_back_in_the_same_change() -> None:
    it = middle()
    ask(it, "wide", WIDE)
    ask(it, "narrow", NARROW)
    effects = it.tell(SubscriptionDropped("client", "wide"))
    assert it.heard(effects, Change) == [
        (peer, Change("m", 1, 2, (item(2, NARROW),), (1,))) for peer in ("a", "x")
    ]


def test_what_another_home_asks_for_covers_nothing() -> None:
    it = middle(("x", "y"))
    it["y"].say(it.change("y", WIDE))
    assert told(it, ask(it, "narrow", NARROW)) == [Change("m", 1, 1, (item(1, NARROW),))]


def test_two_that_are_said_as_one_ask_for_no_more_than_the_two() -> None:
    it = middle()
    low, high = Subscription("t", "x BETWEEN 1 AND 3"), Subscription("t", "x BETWEEN 3 AND 5")
    ask(it, "low", low)
    both = Subscription("t", read_where("x BETWEEN 1 AND 5").text)
    assert told(it, ask(it, "high", high)) == [Change("m", 1, 2, (item(2, both),), (1,))]


# Filters that are too large to be told.


def test_a_filter_beyond_the_bound_is_told_wider_and_counted() -> None:
    own = own_set()
    own.add(TOO_LARGE)
    assert own.widened == 1
    assert said(tuple(own.items.values())) == ["t qos=1"]
    own.add(Subscription("t", "y = 1", qos=2))
    assert own.widened == 1
    own.remove([TOO_LARGE])
    assert own.widened == 0
    it = middle()
    ask(it, "s", TOO_LARGE)
    mine = known(it, "m")
    assert mine is not None
    assert (mine.filters, mine.widened) == (1, 1)


# Within its share.


def test_a_set_beyond_its_share_tells_crowded_topic_filters_without_their_content_filters() -> None:
    own = own_set(share=10)
    for number in range(6):
        own.add(Subscription("crowded", f"f{number} > 3", qos=1))
    for number in range(4):
        own.add(Subscription(f"t/{number}", "x > 3"))
    assert (own.widened, len(own.items)) == (0, 10)
    own.take()
    own.add(Subscription("t/4", "x > 3"))
    taken = own.take()
    assert taken is not None
    added, removed = taken
    assert said(added) == ['t/4 "x > 3" qos=0', "crowded qos=1"]
    assert len(removed) == 6
    assert own.number == 2, "first the new way and no longer the old one, in one change"
    assert (own.widened, len(own.items), own.asked) == (6, 6, 11)


def test_where_that_is_not_enough_first_levels_are_told_and_at_last_everything() -> None:
    own = own_set(share=10)
    for number in range(11):
        own.add(Subscription(f"t/{number}", qos=number % 2))
    # One covers all: of the highest quality that is asked for among them.
    assert said(tuple(own.items.values())) == ["t/# qos=1"]
    assert own.widened == 11
    own.add(Subscription("other"))
    assert said(tuple(own.items.values())) == ["t/# qos=1", "other qos=0"]
    for number in range(10):
        own.add(Subscription(f"{number}/t"))
    assert said(tuple(own.items.values())) == ["everything qos=2"]
    assert own.widened == own.asked == 22


def test_a_cover_that_goes_brings_back_no_more_than_the_share() -> None:
    own = own_set(share=10)
    own.add(Subscription("t/#"))
    for number in range(20):
        own.add(Subscription(f"t/{number}"))
    assert (len(own.items), own.widened) == (1, 0)
    own.take()
    own.remove([Subscription("t/#")])
    assert said(tuple(own.items.values())) == ["t/# qos=0"]
    assert own.widened == 20


def test_a_set_that_was_widened_is_told_as_it_is_when_there_is_room_again() -> None:
    own = own_set(share=10)
    asked = [Subscription(f"t/{number}", "x > 3") for number in range(11)]
    for one in asked:
        own.add(one)
    own.take()
    own.remove(asked[:5])
    own.tick()
    assert (len(own.items), own.take()) == (1, None)
    own.remove(asked[5:6])
    assert len(asked[6:]) <= NARROW_BELOW * 10
    own.tick()
    taken = own.take()
    assert taken is not None
    added, removed = taken
    assert said(added) == [f't/{number} "x > 3" qos=0' for number in range(6, 11)]
    assert len(removed) == 1
    assert own.widened == 0


def test_a_broker_widens_what_it_asks_for_and_narrows_it_again_with_time() -> None:
    it = middle(settings=replace(DEFAULT, homes_filters_max=12))  # "a", "x" and itself: 4 for each
    effects = [effect for number in range(5) for effect in ask(it, f"s{number}", Subscription(f"t/{number}"))]
    assert [log.text for log in effects if isinstance(log, Log)] == [
        "more is asked for here than other brokers keep; it is told in fewer, wider subscriptions"
    ]
    mine = known(it, "m")
    assert mine is not None
    assert (mine.asks, mine.widened) == (("t/# qos=0",), 5)
    for number in range(3):
        it.tell(SubscriptionDropped("client", f"s{number}"))
    effects = it.tell(TimerFired(), BEGIN + DEFAULT.heartbeat_s)
    (change,) = told(it, effects)
    assert said(change.added) == ["t/3 qos=0", "t/4 qos=0"]
    mine = known(it, "m")
    assert mine is not None
    assert (mine.asks, mine.widened) == (("t/3 qos=0", "t/4 qos=0"), 0)


def test_a_set_is_widened_when_its_share_shrinks() -> None:
    shares = [10]
    own = OwnSet(Core("m", 1, 1, DEFAULT, random.Random(0)), lambda: shares[0])
    for number in range(6):
        own.add(Subscription(f"t/{number}"))
    own.take()
    own.tick()
    assert own.take() is None
    shares[0] = 5
    own.tick()
    taken = own.take()
    assert taken is not None
    assert said(taken[0]) == ["t/# qos=0"]
    assert len(taken[1]) == own.widened == 6
    shares[0] = 12
    own.tick()
    assert len(own.items) == 6


TOPICS = ["t", "t/1", "t/2", "u/1", "$x/1"]
FILTERS = ["t", "t/#", "t/1", "t/2", "+/1", "#", "u/1", "u/+", "$x/1", "v/1", "w/1"]
WHERES = ["", "x > 3", "x > 5", "x BETWEEN 1 AND 4", "x BETWEEN 4 AND 6", "y = 1", "x > 5 AND y = 1"]
EVENTS = [{"x": x, "y": y} for x in (0, 3, 4, 6) for y in (0, 1)] + [{}]


def some(rng: random.Random) -> Subscription:
    return Subscription(
        rng.choice(FILTERS),
        rng.choice(WHERES),
        rng.choice(list(Unknown)),
        rng.choice([0, 1, 2]),
        rng.choice([0, 0, 1_000_000]),
    )


@given(share=st.sampled_from([1, 2, 3, 5, 8, 1000]), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(200))
def test_whatever_comes_and_goes_what_is_told_asks_for_all_and_exactly_where_it_is_not_widened(
    share: int, seed: int
) -> None:
    rng = random.Random(seed)
    own = own_set(share)
    asked: list[Subscription] = []
    told: dict[int, Item] = {}
    for _ in range(40):
        roll = rng.random()
        if roll < 0.55:
            one = some(rng)
            if one not in asked:
                asked.append(one)
                own.add(one)
        elif roll < 0.85 and asked:
            gone = rng.sample(asked, rng.randint(1, min(3, len(asked))))
            asked = [one for one in asked if one not in gone]
            own.remove(gone)
        else:
            own.tick()
        if rng.random() < 0.5:
            continue
        number, taken = own.number, own.take()
        if taken is not None:
            assert own.number == number + 1
            assert all(it.key not in told and it.kind == FILTER for it in taken[0])
            told |= {it.key: it for it in taken[0]}
            for key in taken[1]:
                del told[key]
        assert told == own.items
        assert len(told) <= share
        interests = [Interest(it.value) for it in told.values()]
        for topic in TOPICS:
            for event in EVENTS:
                wanted = [one for one in asked if _wants(one, topic, event)]
                offered = [one for one in interests if _takes(one, topic, event)]
                least = max((one.qos for one in wanted), default=-1)
                most = max((one.qos for one in offered), default=-1)
                assert most >= least
                assert most == least or own.widened
                if wanted and EVERYTHING not in {one.topic_filter for one in offered}:
                    for declared_us in (1, 10**12):
                        assert _cycle(offered, declared_us) <= _cycle(wanted, declared_us)


def _cycle(asked: Sequence[Subscription | Interest], declared_us: int) -> int:
    """How often versions are told for some, in microseconds."""
    return min(one.every_us or declared_us for one in asked)


def _wants(one: Subscription, topic: str, event: dict[str, int]) -> bool:
    return names.match(one.topic_filter, topic) and (
        one.filter is None or one.filter.matches(event, one.unknown)
    )


def _takes(one: Interest, topic: str, event: dict[str, int]) -> bool:
    read = one.filter
    on_topic = one.topic_filter == EVERYTHING or names.match(one.topic_filter, topic)
    return on_topic and (read is None or read.matches(event))
