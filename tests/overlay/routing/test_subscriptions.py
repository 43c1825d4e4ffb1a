"""Subscriptions on the trees: who is told, in what order, and when everyone knows."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.overlay.bench import BEGIN, EPOCH, Bench, Middle, kinds, path, publication, publish, ring, started
from tidings.language.declarations import parse_topic
from tidings.language.regions import Unknown
from tidings.language.subscriptions import Subscription, covers, read_where
from tidings.overlay.events import (
    Deny,
    Effect,
    Erase,
    Grant,
    Log,
    SessionClosed,
    SessionEnded,
    SessionOpened,
    SubscriptionAsked,
    SubscriptionDropped,
    Sync,
    TimerFired,
    Write,
    WritesSynced,
)
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.routing.messages import Installed, Subscribe, Table, Unsubscribe
from tidings.overlay.routing.subscriptions import ABSENT_NAMED_MAX, CATCH_ALL, TABLE_PART
from tidings.overlay.settings import DEFAULT, Settings
from tidings.overlay.trees.messages import Grow, Join, Roll
from tidings.records.record import Kind, Record

WIDE = Subscription("roads/#", "severity > 3", qos=1)
NARROW = Subscription("roads/a1", "severity > 5", qos=1)


def middle(children: tuple[str, ...] = ("x",), settings: Settings = DEFAULT, **more: object) -> Middle:
    """A broker between neighbours, with a client."""
    it = Middle(children, settings, **more)  # type: ignore[arg-type]
    it.tell(SessionOpened("client"))
    return it


def ask(it: Middle, name: str, subscription: Subscription, session: str = "client") -> list[Effect]:
    return it.tell(SubscriptionAsked(session, name, subscription))


def told(it: Middle, effects: list[Effect]) -> list[tuple[str, str, Subscription]]:
    """(neighbour, "+" or "-", subscription), by neighbour in the order said."""
    return [
        (peer.id, "+" if type(message) is Subscribe else "-", message.subscription)
        for peer in it.peers.values()
        for message in peer.heard(effects)
        if type(message) in (Subscribe, Unsubscribe)
    ]


# Forwarding and covering.


def test_a_subscription_goes_over_every_link_of_the_tree() -> None:
    it = middle(("x", "y"))
    assert told(it, ask(it, "s", WIDE)) == [("a", "+", WIDE), ("x", "+", WIDE), ("y", "+", WIDE)]


def test_a_subscription_from_a_link_goes_over_the_others_and_not_back() -> None:
    it = middle(("x", "y"))
    effects = it["x"].say(Subscribe("a", EPOCH, WIDE))
    assert told(it, effects) == [("a", "+", WIDE), ("y", "+", WIDE)]


def test_a_subscription_goes_to_every_broker() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    bench.subscribe("c", "s", "t")
    bench.run()
    assert [(source, target) for source, target, _ in bench.said(Subscribe)] == [("c", "b"), ("b", "a")]


def test_a_covered_subscription_is_not_forwarded() -> None:
    it = middle()
    ask(it, "wide", WIDE)
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
    effects = ask(it, "other", other)
    assert [(peer, sign) for peer, sign, _ in told(it, effects)][:1] == [("a", "+")]


def test_how_often_an_event_is_wanted_decides_covering_too() -> None:
    it = middle()
    slow = Subscription("roads/#", every_us=5_000_000)
    ask(it, "slow", slow)
    quick = Subscription("roads/#", every_us=1_000_000)
    assert ("a", "+", quick) in told(it, ask(it, "quick", quick))
    slower = Subscription("roads/#", every_us=9_000_000)
    assert told(it, ask(it, "slower", slower)) == []


def test_when_a_cover_goes_the_covered_ones_are_brought_back_before_it_is_removed() -> None:
    it = middle()
    ask(it, "wide", WIDE)
    ask(it, "narrow", NARROW)
    effects = it.tell(SubscriptionDropped("client", "wide"))
    assert told(it, effects) == [
        ("a", "+", NARROW),
        ("a", "-", WIDE),
        ("x", "+", NARROW),
        ("x", "-", WIDE),
    ]


def test_what_another_link_asks_for_covers_too_and_comes_back_too() -> None:
    it = middle(("x", "y"))
    it["y"].say(Subscribe("a", EPOCH, WIDE))
    assert told(it, ask(it, "narrow", NARROW)) == [("y", "+", NARROW)]
    effects = it["y"].say(Unsubscribe("a", EPOCH, WIDE))
    assert told(it, effects) == [("a", "+", NARROW), ("a", "-", WIDE), ("x", "+", NARROW), ("x", "-", WIDE)]


def test_two_that_are_said_as_one_ask_for_no_more_than_the_two() -> None:
    it = middle()
    low, high = Subscription("t", "x BETWEEN 1 AND 3"), Subscription("t", "x BETWEEN 3 AND 5")
    first = ask(it, "low", low)
    both = Subscription("t", read_where("x BETWEEN 1 AND 5").text)
    ((_, _, low_told), _) = told(it, first)
    assert told(it, ask(it, "high", high))[:2] == [("a", "+", both), ("a", "-", low_told)]


def test_asking_again_under_one_name_tells_the_new_before_it_takes_back_the_old() -> None:
    it = middle()
    ask(it, "s", Subscription("one"))
    effects = ask(it, "s", Subscription("two"))
    assert told(it, effects)[:2] == [("a", "+", Subscription("two")), ("a", "-", Subscription("one"))]
    it["a"].say(Installed("a", EPOCH, 9))
    assert kinds(ask(it, "s", Subscription("two")), Grant, Deny) == []
    assert Grant("client", "s") in it["x"].say(Installed("a", EPOCH, 9))


def test_what_two_clients_ask_for_is_told_once_and_taken_back_when_both_have_gone() -> None:
    it = middle()
    it.tell(SessionOpened("other"))
    ask(it, "s", WIDE)
    assert told(it, ask(it, "s", WIDE, "other")) == []
    assert told(it, it.tell(SessionClosed("client"))) == []
    assert told(it, it.tell(SessionClosed("other"))) == [("a", "-", WIDE), ("x", "-", WIDE)]


def test_topic_filters_and_content_filters_work_together_across_hops() -> None:
    bench = Bench("abcd", path("a", "b", "c", "d"))
    bench.settle()
    bench.subscribe("d", "s", "roads/+/north", "severity >= 3 AND road IN ('A1', 'A2')")
    bench.settle()
    for topic, payload in [
        ("roads/7/north", b'{"severity": 3, "road": "A1"}'),
        ("roads/7/south", b'{"severity": 3, "road": "A1"}'),
        ("roads/7/north", b'{"severity": 2, "road": "A1"}'),
        ("roads/7/north", b'{"severity": 9, "road": "A3"}'),
        ("roads/7/north", b'{"severity": 9}'),
        ("roads/8/north", b'{"severity": 9, "road": "A2"}'),
    ]:
        bench.publish("a", topic, payload, 0)
    bench.run()
    assert bench.got("d", "s") == [b'{"severity": 3, "road": "A1"}', b'{"severity": 9, "road": "A2"}']
    assert len(bench.said(Publish)) == 6  # two publications, three links


FILTERS = ["t/#", "t/1", "t/2", "+/1", "#"]
WHERES = ["", "x > 3", "x > 5", "x BETWEEN 1 AND 4", "x BETWEEN 4 AND 6", "y = 1", "x > 5 AND y = 1"]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(40))
def test_tables_say_exactly_what_is_asked_for_after_any_comings_and_goings(seed: int) -> None:
    rng = random.Random(seed)
    bench = Bench("abcd", ring("a", "b", "c", "d"), seed=seed)
    bench.settle()
    asked: dict[tuple[str, str], Subscription] = {}
    for number in range(25):
        if asked and rng.random() < 0.4:
            who = rng.choice(sorted(asked))
            del asked[who]
            bench.tell(who[0], SessionClosed(who[1]))
        else:
            who = (rng.choice("abcd"), f"s{number}")
            asked[who] = Subscription(rng.choice(FILTERS), rng.choice(WHERES), qos=rng.choice([0, 1]))
            bench.tell(who[0], SessionOpened(who[1]))
            bench.tell(who[0], SubscriptionAsked(who[1], "s", asked[who]))
        for _ in range(rng.randint(0, 10)):
            if boxes := bench.waiting():
                bench.step(rng.choice(boxes))
    bench.settle()
    for id_ in "abcd":
        tree = bench.tree(id_, "a")
        for peer, behind in tree.behind.items():
            assert behind == bench.tree(peer, "a").told[id_]
            there = {it for (at, _), it in asked.items() if at in beyond(bench, id_, peer)}
            for topic, x, y in [("t/1", 2, 1), ("t/1", 4, 0), ("t/2", 6, 1), ("u/1", 6, 0), ("v", 9, 1)]:
                assert quality(set(behind), topic, x, y) == quality(there, topic, x, y)
            # None of what is told is there for nothing.
            for it in behind:
                assert not any(other != it and covers(other, it) for other in behind)


def beyond(bench: Bench, id_: str, peer: str) -> set[str]:
    """The brokers behind a link, found by walking."""
    found, todo = {id_, peer}, [peer]
    while todo:
        tree = bench.tree(todo.pop(), "a")
        for other in {tree.parent, *tree.children} - {None} - found:
            assert other is not None
            found.add(other)
            todo.append(other)
    return found - {id_}


def quality(asked: set[Subscription], topic: str, x: int, y: int) -> int:
    from tidings.language import names

    return max(
        (
            it.qos
            for it in asked
            if names.match(it.topic_filter, topic)
            and (not it.where or read_where(it.where).matches({"x": x, "y": y}, it.unknown))
        ),
        default=-1,
    )


# When everyone knows.


def test_a_broker_alone_grants_at_once() -> None:
    broker = started("m")
    broker.handle(TimerFired(), BEGIN)
    broker.handle(SessionOpened("client"), BEGIN)
    effects = broker.handle(SubscriptionAsked("client", "s", WIDE), BEGIN)
    assert kinds(effects, Grant) == [Grant("client", "s", "")]


def test_a_subscription_is_granted_when_every_link_has_confirmed() -> None:
    it = middle()
    assert kinds(ask(it, "s", WIDE), Grant) == []
    assert kinds(it["a"].say(Installed("a", EPOCH, 2)), Grant) == []
    assert kinds(it["x"].say(Installed("a", EPOCH, 1)), Grant) == []
    assert kinds(it["x"].say(Installed("a", EPOCH, 2)), Grant) == [Grant("client", "s", "")]


def test_a_covered_subscription_waits_for_its_cover() -> None:
    it = middle()
    ask(it, "wide", WIDE)
    assert kinds(ask(it, "narrow", NARROW), Grant) == []
    it["a"].say(Installed("a", EPOCH, 2))
    effects = it["x"].say(Installed("a", EPOCH, 2))
    assert kinds(effects, Grant) == [Grant("client", "wide"), Grant("client", "narrow")]
    assert kinds(ask(it, "narrower", NARROW), Grant) == [Grant("client", "narrower")]


def test_a_change_is_confirmed_when_everyone_beyond_has_confirmed() -> None:
    it = middle(("x", "y"))
    effects = it["x"].say(Subscribe("a", EPOCH, WIDE))
    assert it.heard(effects, Installed) == []
    assert it.heard(it["a"].say(Installed("a", EPOCH, 2)), Installed) == []
    effects = it["y"].say(Installed("a", EPOCH, 2))
    assert it.heard(effects, Installed) == [("x", Installed("a", EPOCH, 2))]


def test_a_change_that_needs_not_go_further_is_confirmed_at_once() -> None:
    it = middle(("x", "y"))
    it["x"].say(Subscribe("a", EPOCH, WIDE))
    it["a"].say(Installed("a", EPOCH, 2))
    it["y"].say(Installed("a", EPOCH, 2))
    effects = it["x"].say(Subscribe("a", EPOCH, NARROW))
    assert it.heard(effects, Installed) == [("x", Installed("a", EPOCH, 3))]


def test_a_removal_is_confirmed_too() -> None:
    it = middle()
    it["x"].say(Subscribe("a", EPOCH, WIDE))
    it["a"].say(Installed("a", EPOCH, 2))
    assert it.heard(it["x"].say(Unsubscribe("a", EPOCH, WIDE)), Installed) == []
    assert it.heard(it["a"].say(Installed("a", EPOCH, 3)), Installed) == [("x", Installed("a", EPOCH, 3))]


def test_after_a_second_a_subscription_is_granted_as_settling_and_never_again() -> None:
    it = middle()
    ask(it, "s", WIDE)
    assert kinds(it.tell(TimerFired(), BEGIN + 0.99), Grant) == []
    assert kinds(it.tell(TimerFired(), BEGIN + 1.0), Grant) == [Grant("client", "s", "settling")]
    later = [*it["a"].say(Installed("a", EPOCH, 2)), *it["x"].say(Installed("a", EPOCH, 2))]
    assert kinds(later, Grant) == []


def test_a_subscription_that_is_dropped_while_it_waits_is_not_granted() -> None:
    it = middle()
    ask(it, "s", WIDE)
    it.tell(SubscriptionDropped("client", "s"))
    effects = [*it["a"].say(Installed("a", EPOCH, 3)), *it["x"].say(Installed("a", EPOCH, 3))]
    assert kinds([*effects, *it.tell(TimerFired(), BEGIN + 2)], Grant) == []


def test_in_a_network_a_grant_means_that_the_farthest_broker_knows() -> None:
    bench = Bench("abcde", path("a", "b", "c", "d", "e"))
    bench.settle()
    bench.subscribe("e", "s", "t", qos=1)
    rng = random.Random(5)
    while bench.waiting():
        bench.step(rng.choice(bench.waiting()))
        known = [bench.tree(id_, "a").behind[peer] for id_, peer in path("a", "b", "c", "d", "e")]
        if bench.granted():
            assert all(Subscription("t", qos=1) in table for table in known)
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
    asked = Subscription("t", qos=1)
    while bench.waiting() and not bench.granted():
        bench.step(bench.waiting()[0])
    assert bench.granted() == [("s", "absent: d")]
    assert [asked in bench.tree(id_, "a").behind[peer] for id_, peer in (("b", "a"), ("c", "b"))] == [
        True
    ] * 2
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
    assert bench.granted() == [("s", "settling")]


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
    ids = [f"b{number:02}" for number in range(ABSENT_NAMED_MAX + 3)]
    bench = Bench(ids, [("b00", other) for other in ids[1:]])
    bench.settle()
    for id_ in ids[1:]:
        bench.kill(id_)
    bench.settle()
    bench.subscribe("b00", "s", "t", qos=1)
    bench.run()
    named = ", ".join(ids[1 : ABSENT_NAMED_MAX + 1])
    assert bench.granted() == [("s", f"absent: {named} and 2 more")]


def test_what_is_asked_for_while_an_epoch_grows_is_told_in_both() -> None:
    it = middle()
    it["a"].say(Grow("a", (1, 2), ("a",)))
    it["x"].say(
        Join("a", (1, 2)), Roll("a", (1, 2), (("x", 1, 1),), ()), Table("a", (1, 2), ())
    )  # the table for "a" is out
    effects = ask(it, "s", WIDE)
    assert it.heard(effects, Subscribe) == [
        ("a", Subscribe("a", EPOCH, WIDE)),
        ("a", Subscribe("a", (1, 2), WIDE)),
        ("x", Subscribe("a", EPOCH, WIDE)),
    ]
    effects = it["a"].say(Roll("a", (1, 2), (("a", 1, 1),), ()), Table("a", (1, 2), ()))
    assert it.heard(effects, Table) == [("x", Table("a", (1, 2), (WIDE,)))]


# A table is replaced as a whole.


def test_a_new_table_takes_the_place_of_the_old_one_when_it_is_complete() -> None:
    it = middle(wants={"x": [Subscription("old", qos=1), Subscription("both", qos=1)]})

    def goes(topic: str, slot: int, previous: int, epoch: tuple[int, int]) -> bool:
        it_is = publish(slot, previous, publication(slot, topic=topic), epoch=epoch)
        return bool(it["x"].heard(it["a"].say(it_is), Publish))

    assert goes("old", 1, 0, EPOCH)
    it["a"].say(Grow("a", (1, 2), ("a",)))
    it["x"].say(Join("a", (1, 2)), Roll("a", (1, 2), (("x", 1, 1),), ()))
    it["a"].say(Roll("a", (1, 2), (("a", 1, 1),), ()), Table("a", (1, 2), ()))
    assert goes("old", 2, 1, EPOCH)
    it["x"].say(Table("a", (1, 2), (Subscription("new", qos=1),), more=True))
    assert goes("both", 3, 2, EPOCH)
    it["x"].say(Table("a", (1, 2), (Subscription("both", qos=1),)))
    assert not goes("old", 4, 0, (1, 2))
    assert goes("new", 5, 4, (1, 2))
    assert it.broker.status(BEGIN, tables=True).trees[0].behind["x"] == (
        Subscription("both", qos=1),
        Subscription("new", qos=1),
    )


def test_publications_flow_by_the_old_epoch_until_the_new_one_is_ready() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    bench.subscribe("c", "s", "t", qos=1)
    bench.settle()
    before = bench.tree("b", "a").epoch
    bench.hosts["d"] = type(bench.hosts["a"])("d", DEFAULT)
    bench.neighbours["d"] = ["a"]
    bench.start("d")  # it joins, and a new epoch begins
    number = 0
    while bench.waiting() or bench.tree("b", "a").epoch == before:
        if not bench.waiting():
            bench.advance(0.005)
            continue
        bench.step(bench.waiting()[0])
        number += 1
        bench.publish("a", "t", b"%d" % number, token=number)
        if number > 30:
            bench.run()
    bench.settle()
    assert bench.tree("b", "a").epoch > before
    assert bench.got("c", "s") == [b"%d" % n for n in range(1, number + 1)]


def test_a_long_table_comes_in_parts() -> None:
    bench = Bench("ab")
    bench.tell("b", SessionOpened("client"))
    count = 2 * TABLE_PART + 10
    for number in range(count):
        bench.tell("b", SubscriptionAsked("client", f"s{number}", Subscription(f"t/{number}")))
    bench.join("a", "b")
    bench.settle()
    parts = [message for source, _, message in bench.said(Table) if source == "b"]
    assert [(len(part.subscriptions), part.more) for part in parts][-3:] == [
        (TABLE_PART, True),
        (TABLE_PART, True),
        (10, False),
    ]
    assert len(bench.tree("a", "a").behind["b"]) == count


# Durable sessions.


def test_a_durable_subscription_survives_a_restart_and_another_does_not() -> None:
    bench = Bench("ab", path("a", "b"))
    bench.settle()
    bench.subscribe("b", "durable", "t/1", "x > 3", durable=True, qos=1)
    bench.subscribe("b", "passing", "t/2", qos=1)
    bench.settle()
    bench.kill("b")
    bench.advance(0.5)
    bench.start("b")
    bench.settle()
    assert [it.topic_filter for it in bench.tree("a", "a").behind["b"]] == ["t/1"]
    bench.publish("a", "t/1", b'{"x": 4}')
    bench.publish("a", "t/1", b'{"x": 3}')
    bench.publish("a", "t/2", b"{}")
    bench.settle()
    assert bench.got("b", "durable") == [b'{"x": 4}']
    assert bench.got("b", "passing") == []


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


def test_a_durable_session_keeps_its_subscriptions_when_its_client_goes_and_loses_them_at_its_end() -> None:
    it = middle()
    it.tell(SessionOpened("stays/with slash", durable=True))
    ask(it, "s", WIDE, "stays/with slash")
    assert told(it, it.tell(SessionClosed("stays/with slash"))) == []
    effects = it.tell(SessionEnded("stays/with slash"))
    assert told(it, effects) == [("a", "-", WIDE), ("x", "-", WIDE)]
    assert kinds(effects, Erase) == [
        Erase("subscription/stays%2Fwith%20slash/s"),
        Erase("client/stays%2Fwith%20slash"),
    ]


def test_a_session_that_comes_back_without_wanting_its_past_begins_anew() -> None:
    it = middle()
    it.tell(SessionOpened("client2", durable=True))
    ask(it, "s", WIDE, "client2")
    effects = it.tell(SessionOpened("client2", durable=False))
    assert told(it, effects) == [("a", "-", WIDE), ("x", "-", WIDE)]


def test_a_session_that_becomes_durable_has_its_subscriptions_saved() -> None:
    it = middle()
    ask(it, "s", WIDE)
    effects = it.tell(SessionOpened("client", durable=True))
    assert [write.key for write in kinds(effects, Write) if isinstance(write, Write)] == [
        "client/client",
        "subscription/client/s",
    ]


# Limits and refusals.


def test_a_session_has_a_bounded_number_of_subscriptions() -> None:
    it = middle(settings=replace(DEFAULT, session_subscriptions_max=2))
    for name in ("one", "two"):
        assert kinds(ask(it, name, Subscription(name)), Deny) == []
    refused = ask(it, "three", Subscription("three"))
    assert kinds(refused, Deny) == [
        Deny("client", "three", "a session has 2 subscriptions at most; drop one first")
    ]
    assert told(it, refused) == []
    assert kinds(ask(it, "two", Subscription("another")), Deny) == []
    it.tell(SubscriptionDropped("client", "one"))
    assert kinds(ask(it, "three", Subscription("three")), Deny) == []


def test_a_neighbour_that_asks_for_too_much_gets_everything() -> None:
    it = middle(settings=replace(DEFAULT, link_subscriptions_max=2))
    effects: list[Effect] = []
    for number in range(4):
        effects += it["x"].say(Subscribe("a", EPOCH, Subscription(f"t/{number}", qos=1)))
    assert [log.text for log in effects if isinstance(log, Log)] == ["a neighbour asks for too much"] * 2
    behind = it.broker.status(BEGIN, tables=True).trees[0].behind["x"]
    assert CATCH_ALL in behind
    assert len(behind) == 3
    sent = it["x"].heard(it["a"].say(publish(1, 0, publication(1, topic="elsewhere"))), Publish)
    assert len(sent) == 1


@pytest.mark.parametrize("odd", [Subscription("t", "x >"), Subscription("t/#/u"), Subscription("t", qos=7)])
def test_a_neighbours_filter_that_is_not_understood_is_taken_for_everything(odd: Subscription) -> None:
    it = middle()
    effects = it["x"].say(Subscribe("a", EPOCH, odd))
    assert [log.text for log in effects if isinstance(log, Log)] == ["a neighbour's filter is not understood"]
    assert it.broker.status(BEGIN, tables=True).trees[0].behind["x"] == (CATCH_ALL,)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (Subscription("a/#/b"), "#"),
        (Subscription("a", "x >"), "(at character 4)"),
        (Subscription("a", qos=3), "quality of service 3 is not 0, 1 or 2"),
    ],
)
def test_what_cannot_be_understood_is_denied_with_a_reason_in_one_line(
    asked: Subscription, reason: str
) -> None:
    it = middle()
    effects = ask(it, "s", asked)
    (deny,) = kinds(effects, Deny)
    assert isinstance(deny, Deny)
    assert "\n" not in deny.reason
    assert reason in deny.reason
    assert told(it, effects) == []
    assert it.broker.status(BEGIN).subscriptions == 0


def test_who_has_no_session_is_denied() -> None:
    it = middle()
    assert kinds(ask(it, "s", WIDE, "nobody"), Deny) == [
        Deny("nobody", "s", "no such session; open it first")
    ]


ROADS = parse_topic(
    "name='roads/+road'\nkind='plain'\n[fields]\nseverity={type='int'}\nnote={type='string'}\n"
)


@pytest.mark.parametrize("where", ["speed > 3", "severity = 'high'", "note > 3"])
def test_an_unknown_or_mistyped_field_is_refused_on_a_declared_topic(where: str) -> None:
    it = middle(topics=[ROADS])
    assert len(kinds(ask(it, "s", Subscription("roads/a1", where)), Deny)) == 1


@pytest.mark.parametrize("topic_filter", ["roads/+", "roads/#", "#", "rails/a1"])
@pytest.mark.parametrize("where", ["speed > 3", "severity = 'high'", "note > 3"])
def test_an_unknown_field_is_merely_missing_elsewhere(topic_filter: str, where: str) -> None:
    it = middle(topics=[ROADS])
    assert kinds(ask(it, "s", Subscription(topic_filter, where)), Deny) == []


def test_a_level_of_the_topic_is_a_field_of_a_declared_topic() -> None:
    bench = Bench("a", topics=[ROADS])
    bench.settle()
    bench.subscribe("a", "s", "roads/a1", "road = 'a1'")
    bench.publish("a", "roads/a1", b'{"severity": 1}', 0)
    assert bench.got("a", "s") == [b'{"severity": 1}']


# What is written down.


def test_subscribing_and_unsubscribing_are_recorded() -> None:
    it = middle()
    effects = [*ask(it, "s", WIDE), *it.tell(SubscriptionDropped("client", "s"))]
    assert [
        (r.kind, r.client, r.subscription, r.topic, r.reason) for r in effects if isinstance(r, Record)
    ] == [
        (Kind.SUBSCRIBED, "client", "s", "roads/#", "severity > 3"),
        (Kind.UNSUBSCRIBED, "client", "s", "roads/#", "severity > 3"),
    ]
