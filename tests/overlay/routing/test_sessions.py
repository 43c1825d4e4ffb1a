"""Sessions: what each client asks for, what survives a restart, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.overlay.bench import BEGIN, Bench, item, kinds, path
from tests.overlay.routing.asking import WIDE, ask, middle, told
from tidings.language.declarations import parse_topic
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import (
    Deny,
    Erase,
    SessionClosed,
    SessionEnded,
    SessionOpened,
    SubscriptionDropped,
    Write,
)
from tidings.overlay.routing.messages import Change
from tidings.overlay.settings import DEFAULT
from tidings.records.record import Kind, Record

# What several ask for.


def test_asking_again_under_one_name_tells_the_new_and_takes_back_the_old_in_one_change() -> None:
    it = middle()
    ask(it, "s", Subscription("one"))
    effects = ask(it, "s", Subscription("two"))
    assert told(it, effects) == [Change("m", 1, 2, (item(2, Subscription("two")),), (1,))]
    assert told(it, ask(it, "s", Subscription("two"))) == []


def test_what_two_clients_ask_for_is_told_once_and_taken_back_when_both_have_gone() -> None:
    it = middle()
    it.tell(SessionOpened("other"))
    ask(it, "s", WIDE)
    assert told(it, ask(it, "s", WIDE, "other")) == []
    assert told(it, it.tell(SessionClosed("client"))) == []
    assert told(it, it.tell(SessionClosed("other"))) == [Change("m", 1, 2, (), (1,))]


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
    (there,) = [one for one in bench.status("a").sets if one.home == "b"]
    assert (there.boot, there.asks) == (2, ('t/1 "x > 3" qos=1',))
    bench.publish("a", "t/1", b'{"x": 4}')
    bench.publish("a", "t/1", b'{"x": 3}')
    bench.publish("a", "t/2", b"{}")
    bench.settle()
    assert bench.got("b", "durable") == [b'{"x": 4}']
    assert bench.got("b", "passing") == []


def test_a_durable_session_keeps_its_subscriptions_when_its_client_goes_and_loses_them_at_its_end() -> None:
    it = middle()
    it.tell(SessionOpened("stays/with slash", durable=True))
    ask(it, "s", WIDE, "stays/with slash")
    assert told(it, it.tell(SessionClosed("stays/with slash"))) == []
    effects = it.tell(SessionEnded("stays/with slash"))
    assert told(it, effects) == [Change("m", 1, 2, (), (1,))]
    assert kinds(effects, Erase) == [
        Erase("subscription/stays%2Fwith%20slash/s"),
        Erase("client/stays%2Fwith%20slash"),
    ]


def test_a_session_that_comes_back_without_wanting_its_past_begins_anew() -> None:
    it = middle()
    it.tell(SessionOpened("client2", durable=True))
    ask(it, "s", WIDE, "client2")
    effects = it.tell(SessionOpened("client2", durable=False))
    assert told(it, effects) == [Change("m", 1, 2, (), (1,))]


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
