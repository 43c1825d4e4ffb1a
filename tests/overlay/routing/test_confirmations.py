"""Confirmations: a home hears of a change when all have it, and have on disk for whom they are to hold."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.overlay.bench import BEGIN, EPOCH, Bench, Middle, item, path
from tests.overlay.routing.asking import WIDE, ask, known, middle
from tests.overlay.routing.test_homes import networks
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import (
    SessionClosed,
    SessionOpened,
    SubscriptionAsked,
    Sync,
    TimerFired,
    Write,
    WritesSynced,
)
from tidings.overlay.routing.absence import MET, Met
from tidings.overlay.routing.confirmations import LATE_SHARE, NAMED_MAX
from tidings.overlay.routing.messages import Change, Confirm
from tidings.overlay.settings import DEFAULT
from tidings.overlay.trees.messages import Grow, Join, Roll

WHEN = BEGIN + DEFAULT.settle_s / LATE_SHARE
"""When brokers that have not confirmed what came at the beginning are named."""

ONE, TWO = (Subscription(topic, qos=1) for topic in ("one", "two"))


def confirmed(*versions: tuple[str, int, int], late: tuple[str, ...] = ()) -> Confirm:
    return Confirm("a", EPOCH, versions, late)


def mine(it: Middle) -> tuple[int, tuple[str, ...]]:
    """The change of its own set that a broker knows to be confirmed, and for whom it waits."""
    found = known(it, "m")
    assert found is not None
    return found.confirmed, found.waits_for


def all_settled(children: tuple[str, ...]) -> Middle:
    """A broker in the middle whose neighbours have confirmed all that there is."""
    it = middle(children)
    for peer in it.peers:
        it[peer].say(confirmed(*((home, 1, 0) for home in it.peers if home != peer)))
    return it


# The lowest of all behind a link.


def test_a_change_is_confirmed_towards_its_home_when_everyone_beyond_has_confirmed() -> None:
    it = middle(("x", "y"))
    assert it.heard(it["x"].say(it.change("x", ONE)), Confirm) == []
    assert it.heard(it["a"].say(confirmed(("x", 1, 1))), Confirm) == []
    assert it.heard(it["y"].say(confirmed(("x", 1, 1))), Confirm) == [("x", confirmed(("x", 1, 1)))]
    found = known(it, "x")
    assert found is not None
    assert found.confirmed == 1


def test_of_several_versions_the_lowest_is_confirmed() -> None:
    it = middle(("x", "y"))
    it["x"].say(it.change("x", ONE), it.change("x", TWO))
    assert it.heard(it["a"].say(confirmed(("x", 1, 3))), Confirm) == []
    assert it.heard(it["y"].say(confirmed(("x", 1, 1))), Confirm) == [("x", confirmed(("x", 1, 1)))]
    assert it.heard(it["y"].say(confirmed(("x", 1, 3))), Confirm) == [("x", confirmed(("x", 1, 2)))]
    assert it.heard(it["x"].say(it.change("x", WIDE)), Confirm) == [("x", confirmed(("x", 1, 3)))]


def test_a_change_is_not_confirmed_before_it_is_here() -> None:
    it = middle(("x", "y"))
    effects = [*it["a"].say(confirmed(("x", 1, 1))), *it["y"].say(confirmed(("x", 1, 1)))]
    assert it.heard(effects, Confirm) == [("x", confirmed(("x", 1, 0)))], "with which it joined"
    assert it.heard(it["x"].say(it.change("x", ONE)), Confirm) == [("x", confirmed(("x", 1, 1)))]


def test_a_removal_is_confirmed_too() -> None:
    it = middle()
    it["x"].say(it.change("x", ONE))
    it["a"].say(confirmed(("x", 1, 1)))
    assert it.heard(it["x"].say(it.change("x", removed=(100,))), Confirm) == []
    assert it.heard(it["a"].say(confirmed(("x", 1, 2))), Confirm) == [("x", confirmed(("x", 1, 2)))]


def test_what_is_confirmed_of_an_earlier_boot_says_nothing_of_a_later_one() -> None:
    it = middle()
    it["x"].say(Change("x", 2, 1, (item(1, ONE),)))
    assert it.heard(it["a"].say(confirmed(("x", 1, 9))), Confirm) == []
    assert it.heard(it["a"].say(confirmed(("x", 2, 1))), Confirm) == [("x", confirmed(("x", 2, 1)))]


def test_what_others_know_of_another_boot_grants_nothing() -> None:
    it = middle()
    ask(it, "s", ONE)
    for boot in (0, it.broker.core.boot + 1):
        for peer in ("a", "x"):
            it[peer].say(confirmed(("m", boot, 9)))
    assert mine(it) == (-1, ("a", "x"))


def test_a_lower_confirmation_does_not_take_back_a_higher_one() -> None:
    it = middle()
    ask(it, "s", ONE)
    ask(it, "t", TWO)
    it["a"].say(it.confirm())
    it["x"].say(it.confirm())
    assert mine(it) == (2, ())
    it["x"].say(it.confirm(number=1))
    assert mine(it) == (2, ())


def test_a_broker_without_others_behind_it_confirms_at_once() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    mark = bench.mark()
    bench.subscribe("b", "s", "t")
    bench.run()
    assert bench.said(Confirm, mark) == [
        (end, "b", Confirm("a", bench.tree("b", "a").epoch, (("b", 1, 1),))) for end in "ac"
    ]
    assert bench.status("b").sets[0].confirmed == 1


@pytest.mark.parametrize(
    "said",
    [
        Confirm("a", (1, 7), (("m", 1, 1),)),
        Confirm("a", (0, 0), (("m", 1, 1),)),
        Confirm("x", EPOCH, (("m", 1, 1),)),
        Confirm("a", EPOCH, (("m", 0, 9),)),
        Confirm("a", EPOCH, (("x", 1, 1),)),
        Confirm("a", EPOCH, ()),
    ],
)
def test_what_is_said_in_another_epoch_or_of_another_boot_or_home_confirms_nothing(said: Confirm) -> None:
    it = middle()
    ask(it, "s", ONE)
    it["a"].say(it.confirm())
    it["x"].say(said)
    assert mine(it)[0] < 1
    it["x"].say(it.confirm())
    assert mine(it) == (1, ())


# Known on disk.


def test_a_change_is_confirmed_only_when_it_is_on_disk_that_its_home_is_known() -> None:
    it = middle()
    grow(it, (1, 2))
    effects = it["x"].say(Roll("a", (1, 2), (("x", 1, 1, 0), ("z", 1, 1, 0))))
    (write,) = [effect for effect in effects if isinstance(effect, Write) and effect.key == MET]
    assert msgspec.msgpack.decode(write.value, type=Met).known.keys() == {"a", "x", "z"}
    (sync,) = [effect for effect in effects if isinstance(effect, Sync)]
    change = Change("z", 1, 1, (item(1, ONE),))
    said = Confirm("a", (1, 2), (("z", 1, 1),))
    effects = [*it["x"].say(change), *it["a"].say(said)]
    assert it.heard(effects, Change) == [("a", change)]
    assert it.heard(effects, Confirm) == []
    assert it.heard(it.tell(WritesSynced(sync.token)), Confirm) == [("x", said)]


def test_who_is_granted_something_is_known_after_a_restart_of_those_who_confirmed() -> None:
    bench = Bench("ab", path("a", "b"))
    bench.slow_disks.add("a")
    bench.settle()
    bench.subscribe("b", "s", "t", qos=1, durable=True)
    bench.run()
    assert bench.granted() == []
    assert MET not in bench.hosts["a"].disk
    bench.sync("a")
    bench.run()
    assert bench.granted() == [("s", "")]
    for id_ in "ab":
        bench.kill(id_)
    bench.start("a")
    bench.publish("a", "t", b"held")
    bench.sync("a")
    bench.run()
    bench.start("b")
    bench.slow_disks = set()
    bench.settle()
    assert bench.got("b", "s") == [b"held"]


def test_who_is_known_on_disk_is_confirmed_at_once() -> None:
    bench = Bench("ab", path("a", "b"))
    bench.settle()
    bench.slow_disks.add("a")
    bench.subscribe("b", "s", "t")
    bench.run()
    assert bench.granted() == [("s", "")]


# Epochs.


def grow(it: Middle, epoch: tuple[int, int]) -> None:
    """A new epoch begins and is not ready: "x" has not said who is behind it."""
    it["a"].say(Grow("a", epoch, ("a",)))
    it["x"].say(Join("a", epoch))
    it["a"].say(Roll("a", epoch, (("a", 1, 1, 0),)))


def test_in_a_new_epoch_all_of_it_is_said_again() -> None:
    it = middle(("x",))
    it["x"].say(it.change("x", ONE))
    it["a"].say(it.change("a", TWO))
    it["a"].say(confirmed(("x", 1, 1)))
    it["x"].say(confirmed(("a", 1, 1)))
    grow(it, (1, 2))
    effects = it["x"].say(Roll("a", (1, 2), (("x", 1, 1, 1),)))
    assert it.heard(effects, Confirm) == [], (
        "what was behind a link in one epoch may be elsewhere in the next"
    )
    effects = [
        *it["a"].say(Confirm("a", (1, 2), (("x", 1, 1),))),
        *it["x"].say(Confirm("a", (1, 2), (("a", 1, 1),))),
    ]
    assert it.heard(effects, Confirm) == [
        ("a", Confirm("a", (1, 2), (("a", 1, 1),))),
        ("x", Confirm("a", (1, 2), (("x", 1, 1),))),
    ]


def test_while_an_epoch_grows_nothing_is_sure() -> None:
    it = middle()
    ask(it, "s", ONE)
    grow(it, (1, 2))
    for peer in "ax":
        it[peer].say(it.confirm())
    assert mine(it) == (-1, ("x",))
    it["x"].say(Roll("a", (1, 2), (("x", 1, 1, 0),)))
    assert mine(it)[0] < 1
    # Who is ahead has said it before this broker was ready.
    it["x"].say(it.confirm((1, 2)))
    it["a"].say(it.confirm((1, 2)))
    assert mine(it) == (1, ())


def test_what_neighbours_confirm_before_the_epoch_is_ready_here_counts_in_it() -> None:
    it = middle()
    ask(it, "s", ONE)
    grow(it, (1, 2))
    it["a"].say(it.confirm((1, 2)))
    it["x"].say(Roll("a", (1, 2), (("x", 1, 1, 0),)))
    it["x"].say(it.confirm((1, 2)))
    assert mine(it) == (1, ())


# Who is waited for.


def test_those_behind_a_link_that_have_not_confirmed_are_named_after_a_while() -> None:
    it = all_settled(("x", "y"))
    it["x"].say(it.change("x", ONE))
    it["y"].say(confirmed(("x", 1, 1)))
    assert it.heard(it.tell(TimerFired(), WHEN - 0.01), Confirm) == []
    assert it.heard(it.tell(TimerFired(), WHEN), Confirm) == [("x", confirmed(late=("a",)))]


def test_who_names_others_is_believed() -> None:
    it = middle(("x", "y"))
    ask(it, "s", ONE)
    assert mine(it) == (0, ("a", "x", "y"))
    it["x"].say(it.confirm())
    it["y"].say(it.confirm())
    it["a"].say(confirmed(late=("far", "away")))
    assert mine(it) == (0, ("away", "far"))
    it["a"].say(it.confirm())
    assert mine(it) == (1, ())


def test_names_are_passed_on_towards_the_home() -> None:
    it = all_settled(("x", "y"))
    it["x"].say(it.change("x", ONE))
    it["a"].say(confirmed(late=("far",)))
    effects = it.tell(TimerFired(), WHEN)
    assert it.heard(effects, Confirm) == [("x", confirmed(late=("far", "y")))]


def test_names_that_change_are_passed_on_at_once_and_those_that_do_not_are_not() -> None:
    it = all_settled(("x", "y"))
    it["x"].say(it.change("x", ONE))
    it["y"].say(confirmed(("x", 1, 1)))
    it.tell(TimerFired(), WHEN)
    assert it.heard(it["a"].say(confirmed(late=("far",)), now=WHEN), Confirm) == [
        ("x", confirmed(late=("far",)))
    ]
    assert it.heard(it["a"].say(confirmed(late=("far",)), now=WHEN), Confirm) == []
    assert it.heard(it["y"].say(confirmed(late=("other",)), now=WHEN), Confirm) == [], (
        "what is behind it has confirmed"
    )
    assert it.heard(it["a"].say(confirmed(), now=WHEN), Confirm) == [("x", confirmed(late=("a",)))]
    assert it.heard(it["a"].say(confirmed(("x", 1, 1)), now=WHEN), Confirm) == [("x", confirmed(("x", 1, 1)))]


def test_a_confirmation_of_one_set_does_not_take_back_who_is_late_for_another() -> None:
    it = middle()
    grow(it, (1, 2))
    it["x"].say(Roll("a", (1, 2), (("x", 1, 1, 0), ("z", 1, 1, 0))))
    it.tell(WritesSynced(it.broker.core.sync_token))
    it["a"].say(Confirm("a", (1, 2), (("x", 1, 0), ("z", 1, 0))))
    it["x"].say(Confirm("a", (1, 2), (("a", 1, 0),)))
    it["x"].say(Change("z", 1, 1, (item(1, ONE),)))
    assert it.heard(it.tell(TimerFired(), WHEN), Confirm) == [("x", Confirm("a", (1, 2), (), ("a",)))]
    it["x"].say(it.change("x", ONE), now=WHEN)
    effects = it["a"].say(Confirm("a", (1, 2), (("x", 1, 1),)), now=WHEN)
    assert it.heard(effects, Confirm) == [("x", Confirm("a", (1, 2), (("x", 1, 1),), ("a",)))]


def test_nobody_is_named_for_what_has_just_changed() -> None:
    it = all_settled(("x", "y"))
    it["x"].say(it.change("x", ONE))
    it["x"].say(it.change("x", TWO), now=WHEN - 0.01)
    for peer in "ay":
        it[peer].say(confirmed(("x", 1, 1)), now=WHEN - 0.01)
    assert it.heard(it.tell(TimerFired(), WHEN), Confirm) == []
    later = WHEN - 0.01 + DEFAULT.settle_s / LATE_SHARE
    assert it.heard(it.tell(TimerFired(), later), Confirm) == [("x", confirmed(late=("a", "y")))]


def test_a_broker_that_cannot_confirm_itself_names_itself_beside_others() -> None:
    it = middle()
    grow(it, (1, 2))
    it["x"].say(Roll("a", (1, 2), (("x", 1, 1, 0), ("z", 1, 1, 0))))
    it["a"].say(Confirm("a", (1, 2), (("x", 1, 0),)))
    it["x"].say(Confirm("a", (1, 2), (("a", 1, 0),)))
    # It is not on disk yet that "z" is known.
    it["x"].say(Change("z", 1, 1, (item(1, ONE),)))
    assert it.heard(it.tell(TimerFired(), WHEN), Confirm) == [("x", Confirm("a", (1, 2), (), ("a", "m")))]


SIX = path(*"abcdef")
TREE = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e"), ("d", "f"), ("a", "g")]


@pytest.mark.parametrize(
    ("links", "stopped", "named"),
    [
        *((SIX, id_, id_) for id_ in "bcdef"),
        (TREE, "cf", "c, f"),
        (TREE, "ef", "e, f"),
        (TREE, "fg", "f, g"),
        (TREE, "df", "d"),
    ],
)
def test_whoever_does_not_confirm_is_named_wherever_it_is(
    links: list[tuple[str, str]], stopped: str, named: str
) -> None:
    bench = Bench(sorted({id_ for pair in links for id_ in pair}), links)
    bench.settle()
    bench.stopped = set(stopped)
    bench.subscribe("a", "s", "t", qos=1)
    bench.advance(DEFAULT.settle_s)
    assert bench.granted() == [("s", f"settling: {named}")]
    for id_ in stopped:
        bench.go_on(id_)
    bench.run()
    assert bench.status("a").sets[0].waits_for == ()
    bench.subscribe("a", "again", "t/2", qos=1)
    bench.run()
    assert bench.granted()[1:] == [("again", "")]


def test_who_has_confirmed_is_named_no_longer_although_others_have_not() -> None:
    bench = Bench("abcde", [("a", "b"), ("b", "c"), ("c", "d"), ("c", "e")])
    bench.settle()
    bench.stopped = {"d", "e"}
    bench.subscribe("a", "s", "t", qos=1)
    bench.advance(0.9)
    assert bench.status("a").sets[0].waits_for == ("d", "e")
    bench.go_on("d")
    bench.advance(0.1)
    assert bench.granted() == [("s", "settling: e")]


def test_names_are_of_one_epoch() -> None:
    bench = Bench("abcd", path(*"abcd"))
    bench.settle()
    bench.stopped = {"d"}
    bench.subscribe("a", "one", "t/1", qos=1)
    bench.advance(0.9)
    assert bench.status("a").sets[0].waits_for == ("d",)
    bench.cut("c", "d")
    bench.advance(5.0)
    bench.stopped = {"c"}
    bench.subscribe("a", "two", "t/2", qos=1)
    bench.advance(DEFAULT.settle_s)
    assert bench.granted() == [("one", "settling: d"), ("two", "settling: c")]


def test_a_bounded_number_of_brokers_is_named() -> None:
    it = middle()
    many = tuple(f"b{number:02}" for number in range(NAMED_MAX + 9))
    ask(it, "s", ONE)
    it["x"].say(it.confirm())
    it["a"].say(confirmed(late=many))
    assert mine(it) == (0, many[:NAMED_MAX])


# Whatever the order.


@given(links=networks(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(30), deadline=None)
def test_nothing_is_confirmed_that_not_all_have_and_in_the_end_all_is(
    links: list[tuple[str, str]], seed: int
) -> None:
    rng = random.Random(seed)
    ids = sorted({id_ for pair in links for id_ in pair})
    bench = Bench(ids, links, seed=seed)
    bench.slow_disks = set(rng.sample(ids, 1))
    for number in range(60):
        id_ = rng.choice(ids)
        if number % 4 == 0:
            bench.tell(id_, SessionOpened(f"s{number}"))
            bench.tell(id_, SubscriptionAsked(f"s{number}", "s", Subscription(f"t/{number}")))
            if rng.random() < 0.3:
                bench.tell(id_, SessionClosed(f"s{number}"))
        elif rng.random() < 0.1:
            bench.cut(*rng.choice(links), block=False)
        elif rng.random() < 0.2:
            bench.advance(rng.choice([0.01, 0.1, 1.1]))
        for slow in bench.slow_disks:
            if rng.random() < 0.05:
                bench.sync(slow)
        for _ in range(rng.randint(0, 8)):
            if boxes := bench.waiting():
                bench.step(rng.choice(boxes))
        assert_none_is_ahead(bench)
    bench.slow_disks = set()
    for id_ in ids:
        bench.sync(id_)
    bench.advance(20.0)
    for id_ in ids:
        mine, *others = bench.status(id_).sets
        assert mine.confirmed == mine.number
        assert len(others) == len(ids) - 1
        assert all(one.confirmed == one.number for one in others)


def assert_none_is_ahead(bench: Bench) -> None:
    """What a broker takes for confirmed all members of its epoch have, and have on disk that they do."""
    statuses = {id_: bench.status(id_) for id_ in bench.running()}
    for home, status in statuses.items():
        members = next((tree.members for tree in status.trees if tree.root == status.share[0]), ())
        for id_ in members:
            if id_ == home or status.sets[0].confirmed < 1:
                continue
            there = {one.home: one for one in statuses[id_].sets[1:]}[home]
            assert there.number >= status.sets[0].confirmed
            assert home in msgspec.msgpack.decode(bench.hosts[id_].disk[MET], type=Met).known
