"""Grants: when a client may rely on a subscription, and what it is told if it may not yet."""

from __future__ import annotations

import random

import pytest

from tests.overlay.bench import BEGIN, EPOCH, Bench, kinds, path, started
from tests.overlay.routing.asking import NARROW, WIDE, ask, middle
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import (
    Deny,
    Grant,
    SessionOpened,
    SubscriptionAsked,
    SubscriptionDropped,
    Sync,
    TimerFired,
    Write,
    WritesSynced,
)
from tidings.overlay.routing.grants import NAMED_MAX
from tidings.overlay.routing.messages import Change, Confirm
from tidings.overlay.trees.messages import Grow, Join, Roll


def test_a_broker_alone_grants_at_once() -> None:
    broker = started("m")
    broker.handle(TimerFired(), BEGIN)
    broker.handle(SessionOpened("client"), BEGIN)
    effects = broker.handle(SubscriptionAsked("client", "s", WIDE), BEGIN)
    assert kinds(effects, Grant) == [Grant("client", "s", "")]


def test_a_subscription_is_granted_when_all_members_have_confirmed() -> None:
    it = middle()
    assert kinds(ask(it, "s", WIDE), Grant) == []
    assert kinds(it["a"].say(it.confirm()), Grant) == []
    assert kinds(it["x"].say(it.confirm(number=0)), Grant) == []
    assert kinds(it["x"].say(it.confirm()), Grant) == [Grant("client", "s", "")]


def test_a_covered_subscription_waits_for_its_cover() -> None:
    it = middle()
    ask(it, "wide", WIDE)
    assert kinds(ask(it, "narrow", NARROW), Grant) == []
    it["a"].say(it.confirm())
    effects = it["x"].say(it.confirm())
    assert kinds(effects, Grant) == [Grant("client", "wide"), Grant("client", "narrow")]
    assert kinds(ask(it, "narrower", NARROW), Grant) == [Grant("client", "narrower")]


def test_asking_again_under_one_name_is_granted_when_the_new_one_is_known() -> None:
    it = middle()
    ask(it, "s", Subscription("one"))
    ask(it, "s", Subscription("two"))
    it["a"].say(it.confirm())
    assert kinds(it["x"].say(it.confirm(number=1)), Grant, Deny) == []
    assert kinds(ask(it, "s", Subscription("two")), Grant, Deny) == []
    assert kinds(it["x"].say(it.confirm()), Grant) == [Grant("client", "s")]


def test_after_a_second_a_subscription_is_granted_as_settling_and_never_again() -> None:
    it = middle()
    ask(it, "s", WIDE)
    assert kinds(it.tell(TimerFired(), BEGIN + 0.99), Grant) == []
    effects = it.tell(TimerFired(), BEGIN + 1.0)
    assert kinds(effects, Grant) == [Grant("client", "s", "settling: a, x")]
    later = [*it["a"].say(it.confirm()), *it["x"].say(it.confirm())]
    assert kinds(later, Grant) == []


def test_who_is_waited_for_is_named() -> None:
    it = middle(("x", "y"))
    ask(it, "s", WIDE)
    it["a"].say(it.confirm())
    it["y"].say(it.confirm())
    it["x"].say(Confirm("a", EPOCH, (), ("far",)))
    assert kinds(it.tell(TimerFired(), BEGIN + 1.0), Grant) == [Grant("client", "s", "settling: far")]


def test_in_a_network_the_one_far_away_that_is_waited_for_is_named() -> None:
    bench = Bench("abcd", path("a", "b", "c", "d"))
    bench.slow_disks.add("d")  # so that it cannot write down whom it has met
    bench.settle()
    bench.subscribe("a", "s", "t", qos=1)
    bench.advance(0.99)
    assert bench.granted() == []
    bench.advance(0.02)
    assert bench.granted() == [("s", "settling: d")]
    bench.sync("d")
    bench.run()
    assert bench.status("a").sets[0].waits_for == ()


def test_a_subscription_that_is_dropped_while_it_waits_is_not_granted() -> None:
    it = middle()
    ask(it, "s", WIDE)
    it.tell(SubscriptionDropped("client", "s"))
    effects = [*it["a"].say(it.confirm()), *it["x"].say(it.confirm())]
    assert kinds([*effects, *it.tell(TimerFired(), BEGIN + 2)], Grant) == []


def test_in_a_network_a_grant_means_that_all_others_know() -> None:
    bench = Bench("abcde", path("a", "b", "c", "d", "e"))
    bench.settle()
    bench.subscribe("e", "s", "t", qos=1)
    rng = random.Random(5)
    while bench.waiting():
        bench.step(rng.choice(bench.waiting()))
        known = [one.asks for id_ in "abcd" for one in bench.status(id_).sets if one.home == "e"]
        if bench.granted():
            assert known == [("t qos=1",)] * 4
    assert bench.granted() == [("s", "")]


@pytest.mark.parametrize("durable", [False, True])
def test_brokers_out_of_reach_are_named_by_a_grant_and_not_waited_for(durable: bool) -> None:
    bench = Bench("abcd", [("a", "b"), ("a", "c"), ("a", "d")])
    bench.settle()
    bench.kill("c")
    bench.settle()
    bench.subscribe("b", "one", "t", qos=1, durable=durable)
    bench.run()  # no time passes
    assert bench.granted() == [("one", "absent: c")]
    bench.kill("d")
    bench.settle()
    mark = bench.mark()
    bench.subscribe("b", "two", "t", qos=1, durable=durable)
    bench.run()
    assert bench.granted(mark) == [("two", "absent: c, d")]
    for id_ in "cd":
        bench.start(id_)
    bench.settle()
    mark = bench.mark()
    bench.subscribe("b", "three", "t", qos=1, durable=durable)
    bench.run()
    assert bench.granted(mark) == [("three", "")]


def test_with_a_broker_out_of_reach_those_present_are_waited_for() -> None:
    bench = Bench("abcd", [("a", "b"), ("b", "c"), ("a", "d")])
    bench.settle()
    bench.kill("d")
    bench.settle()
    bench.subscribe("a", "s", "t", qos=1)
    while bench.waiting() and not bench.granted():
        bench.step(bench.waiting()[0])
    assert bench.granted() == [("s", "absent: d")]
    known = [one.asks for id_ in "bc" for one in bench.status(id_).sets if one.home == "a"]
    assert known == [("t qos=1",)] * 2
    bench.publish("c", "t", b"from c")
    bench.start("d")
    bench.settle()
    bench.publish("d", "t", b"from d")
    bench.settle()
    assert bench.got("a", "s") == [b"from c", b"from d"]


def test_a_broker_that_is_present_and_does_not_confirm_is_settling_whoever_else_is_absent() -> None:
    bench = Bench("abc", [("a", "b"), ("a", "c")])
    bench.settle()
    bench.kill("c")
    bench.settle()
    bench.cut("a", "b")
    bench.subscribe("a", "s", "t", qos=1)
    bench.advance(0.99)
    assert bench.granted() == []
    bench.advance(0.02)
    assert bench.granted() == [("s", "settling: b")]


def test_who_was_out_of_reach_is_named_although_it_is_back_before_the_disk_has_written() -> None:
    bench = Bench("abc", [("a", "b"), ("a", "c")])
    bench.settle()
    bench.kill("c")
    bench.settle()
    bench.slow_disks.add("b")
    bench.subscribe("b", "s", "t", qos=1, durable=True)
    bench.run()
    assert bench.granted() == []
    bench.start("c")
    bench.run()
    bench.sync("b")
    bench.run()
    assert bench.granted() == [("s", "absent: c")]


def test_a_broker_that_has_just_started_waits_for_those_that_it_has_not_met() -> None:
    bench = Bench("ab", [("b", "a")])
    bench.settle()
    bench.kill("b")
    bench.settle()
    bench.start("b")
    bench.advance(0.0)
    bench.subscribe("b", "s", "t", qos=1)
    assert bench.granted() == []
    bench.advance(0.5)
    assert bench.granted() == [("s", "")]


def test_a_neighbour_that_is_never_reached_is_waited_for_once_and_then_named_by_its_address() -> None:
    bench = Bench("a", [("a", "nobody:7000")])
    bench.subscribe("a", "one", "t", qos=1)
    bench.advance(1.0)
    bench.subscribe("a", "two", "t", qos=1)
    bench.run()
    assert bench.granted() == [("one", "settling"), ("two", "absent: nobody:7000")]


def test_a_grant_names_so_many_brokers_and_counts_the_rest() -> None:
    ids = [f"b{number:02}" for number in range(NAMED_MAX + 3)]
    bench = Bench(ids, [("b00", other) for other in ids[1:]])
    bench.settle()
    for id_ in ids[1:]:
        bench.kill(id_)
    bench.settle()
    bench.subscribe("b00", "s", "t", qos=1)
    bench.run()
    named = ", ".join(ids[1 : NAMED_MAX + 1])
    assert bench.granted() == [("s", f"absent: {named} and 2 more")]


def test_what_is_asked_for_while_an_epoch_grows_is_told_once_and_granted_by_all_members_of_the_new_one() -> (
    None
):
    it = middle()
    it["a"].say(Grow("a", (1, 2), ("a",)))
    it["x"].say(Join("a", (1, 2)), Roll("a", (1, 2), (("x", 1, 1, 0),)))
    effects = ask(it, "s", WIDE)
    assert [peer for peer, _ in it.heard(effects, Change)] == ["a", "x"]
    effects = [*it["a"].say(it.confirm()), *it["x"].say(it.confirm())]
    assert kinds(effects, Grant) == [], "others may be members of the epoch that grows"
    effects = it["a"].say(Roll("a", (1, 2), (("a", 1, 1, 0),)))
    assert kinds(effects, Grant) == []
    assert it.heard(effects, Change) == []
    assert kinds(it["a"].say(it.confirm((1, 2))), Grant) == []
    assert kinds(it["x"].say(it.confirm((1, 2))), Grant) == [Grant("client", "s")]


def test_a_durable_subscription_is_granted_when_it_is_on_disk() -> None:
    broker = started("m")
    broker.handle(TimerFired(), BEGIN)
    broker.handle(WritesSynced(1), BEGIN)
    broker.handle(SessionOpened("client", durable=True), BEGIN)
    effects = broker.handle(SubscriptionAsked("client", "s", WIDE), BEGIN)
    (write,) = kinds(effects, Write)
    (sync,) = kinds(effects, Sync)
    assert isinstance(sync, Sync)
    assert isinstance(write, Write)
    assert write.key == "subscription/client/s"
    assert effects.index(write) < effects.index(sync)
    assert kinds(effects, Grant) == []
    assert kinds(broker.handle(WritesSynced(sync.token), BEGIN), Grant) == [Grant("client", "s")]
