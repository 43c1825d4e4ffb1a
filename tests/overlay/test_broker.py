"""The broker as a whole: starting, stopping, saying how it is, and doing the same again."""

from __future__ import annotations

import importlib
import pkgutil
import random
from dataclasses import replace

import pytest

from tests.overlay.bench import BEGIN, Bench, Middle, Peer, carried, kinds, path, ring, started
from tests.overlay.offers import offer_of
from tidings import overlay
from tidings.language.subscriptions import Subscription
from tidings.overlay.core import Notice
from tidings.overlay.events import (
    Accept,
    ConnectionLost,
    Deliver,
    Effect,
    Erase,
    HangUp,
    Log,
    PublicationsOffered,
    Reject,
    Send,
    SessionClosed,
    SessionOpened,
    SetTimer,
    Stop,
    StopAsked,
    SubscriptionAsked,
    Sync,
    TimerFired,
    WritesSynced,
)
from tidings.overlay.frames import Frame
from tidings.overlay.links.messages import Bye
from tidings.overlay.publication import Publication
from tidings.overlay.publishing.batches import batch_of
from tidings.overlay.publishing.messages import Done, Keep, Publish
from tidings.overlay.settings import DEFAULT
from tidings.overlay.status import SetStatus
from tidings.overlay.timers import Timer
from tidings.overlay.trees.messages import Grow, Join, Roll
from tidings.records.record import Record

ALL = Subscription("#", qos=1)


def offer(token: int = 1, qos: int = 1) -> PublicationsOffered:
    return offer_of("publisher", token, "t", b"{}", qos)


# Stopping.


def test_a_broker_with_nothing_to_do_says_goodbye_to_all_and_stops() -> None:
    it = Middle()
    effects = it.tell(StopAsked())
    bye = Frame(0, 0, (Bye(for_good=False),))
    assert kinds(effects, Send, HangUp, Stop) == [
        Send(1, bye),
        HangUp(1, "goodbye"),
        Send(2, bye),
        HangUp(2, "goodbye"),
        Stop(""),
    ]


def test_a_broker_that_leaves_for_good_says_so() -> None:
    it = Middle()
    assert it.heard(it.tell(StopAsked(for_good=True)), Bye) == [("a", Bye(True)), ("x", Bye(True))]


def test_a_stopping_broker_passes_on_what_it_has_before_it_stops() -> None:
    it = Middle(wants={"x": [ALL]})
    effects = it.tell(offer(5))
    assert kinds(it.tell(StopAsked()), Stop, HangUp) == []
    (sync,) = kinds(effects, Sync)
    assert isinstance(sync, Sync)
    assert kinds(it.tell(WritesSynced(sync.token)), Accept, Stop) == [Accept("publisher", [5])]
    assert kinds(it["x"].say(Done("a", (1, 1), ())), Stop) == [Stop("")]


def test_a_stopping_broker_takes_nothing_new() -> None:
    it = Middle(wants={"x": [ALL]})
    it.tell(offer(1))
    it.tell(StopAsked())
    assert kinds(it.tell(offer(2)), Reject, Accept) == [
        Reject("publisher", 2, "this broker is stopping; publish at another", "t")
    ]
    status = it.broker.status(BEGIN)
    assert (status.ready, status.reason) == (False, "stopping")


def test_a_stopping_broker_does_not_wait_for_ever() -> None:
    it = Middle(wants={"x": [ALL]})
    it.tell(offer())
    it.tell(StopAsked())
    assert kinds(it.tell(TimerFired(), BEGIN + DEFAULT.drain_within_s - 0.1), Stop) == []
    for peer in it.peers.values():
        peer.say(now=BEGIN + DEFAULT.drain_within_s - 0.1)
    effects = it.tell(TimerFired(), BEGIN + DEFAULT.drain_within_s)
    assert kinds(effects, Stop) == [Stop("")]
    assert effects[-1] == Stop("")
    assert "stopping although not all is acknowledged; it is on disk" in [
        log.text for log in effects if isinstance(log, Log)
    ]


def test_a_broker_that_has_said_goodbye_does_nothing_any_more() -> None:
    it = Middle(settings=replace(DEFAULT, acks="neighbour"), wants={"x": [ALL]})
    it.tell(SessionOpened("s", durable=True))
    it.tell(SubscriptionAsked("s", "1", ALL))
    it["a"].say(Keep(Publication("a", 1, "22", 1, "t", b"{}", qos=1)))  # to be sent if "a" is no more
    it.tell(offer(1))
    it.tell(StopAsked())
    it.tell(ConnectionLost(1, "reset"))
    effects: list[Effect] = []
    for at in range(1, 12):
        it["x"].say(now=BEGIN + at)
        effects += it.tell(TimerFired(), BEGIN + at)
    assert kinds(effects, Stop) == [Stop("")]
    assert effects[-1] == Stop("")
    assert [it.tell(event, BEGIN + 20) for event in (offer(2), TimerFired(), StopAsked())] == [[], [], []]


def test_a_broker_that_drains_loses_nothing() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    bench.subscribe("c", "s", "t", qos=1)
    bench.settle()
    for number in range(10):
        bench.publish("a", "t", b"%d" % number, token=number)
    bench.tell("a", StopAsked())
    bench.settle()
    assert bench.got("c", "s") == [b"%d" % number for number in range(10)]
    assert bench.accepted() == list(range(10))
    assert bench.running() == ["b", "c"]
    assert len({effect.key for effect in bench.of(Erase, "a")}) == 10


def test_two_brokers_with_one_id_that_do_not_meet_are_found_and_one_stops() -> None:
    twin = started("a", boot=7, incarnation=7)
    peer = Peer(twin, "c", 1)
    peer.link()
    members = (("a", 1, 1, 0), ("b", 1, 1, 0), ("c", 1, 1, 0))
    stops = []
    for at in range(3):
        (grow,) = peer.heard(twin.handle(TimerFired(), BEGIN + at), Grow)
        peer.say(Join("a", grow.epoch), now=BEGIN + at)
        stops.append(kinds(peer.say(Roll("a", grow.epoch, members), now=BEGIN + at), Stop))
    # In the first it may have been its own past, from before a restart.
    assert stops == [[], [], [Stop("another broker of this network has the id 'a'")]]


# How it is.


def test_a_broker_says_how_it_is() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    bench.subscribe("c", "s", "t", "n > 3")
    bench.settle()
    status = bench.status("b")
    assert (status.broker, status.boot, status.incarnation, status.network) == ("b", 1, 1, "tidings")
    assert [(link.peer, link.state, link.version) for link in status.links] == [
        ("a", "up", 5),
        ("c", "up", 5),
    ]
    assert (status.share, status.ready, status.reason) == (("a",), True, "")
    tree = bench.tree("b", "a")
    assert (tree.parent, tree.children, tree.hops, tree.members) == ("a", ("c",), 1, ("a", "b", "c"))
    assert status.sets == (
        SetStatus("b", 1, 0, 0, 0, 0),
        SetStatus("a", 1, 0, 0, 0, 0),
        SetStatus("c", 1, 1, 1, 0, 1, asks=('t "n > 3" qos=0',)),
    )
    status = bench.status("c")
    assert (status.sessions, status.subscriptions) == (1, 1)
    assert status.sets[0] == SetStatus("c", 1, 1, 1, 0, 1, asks=('t "n > 3" qos=0',))


def test_a_broker_says_who_has_not_confirmed_its_latest_number() -> None:
    it = Middle(("x", "y"))
    it.tell(SessionOpened("client"))
    it.tell(SubscriptionAsked("client", "s", Subscription("t")))
    for peer, confirmed, left in [("a", 0, ("x", "y")), ("y", 0, ("x",)), ("x", 1, ())]:
        it[peer].say(it.confirm())
        own = it.broker.status(BEGIN).sets[0]
        assert (own.number, own.confirmed, own.waits_for) == (1, confirmed, left)


def test_filters_are_told_only_on_request() -> None:
    it = Middle(wants={"x": [ALL]})
    for filters, asks in ((False, ()), (True, ("# qos=1",))):
        status = it.broker.status(BEGIN, filters=filters)
        assert [(of.home, of.filters, of.asks) for of in status.sets[1:]] == [("a", 0, ()), ("x", 1, asks)]


def test_a_broker_is_ready_when_its_trees_are() -> None:
    broker = started("m")
    status = broker.status(BEGIN)
    assert (status.ready, status.reason) == (False, "the tree of 'm' is growing")
    broker.handle(TimerFired(), BEGIN)
    assert broker.status(BEGIN).ready


def test_the_topics_remembered_are_bounded_whatever_is_published() -> None:
    it = Middle(settings=replace(DEFAULT, topic_cache=50), wants={"x": [Subscription("never")]})
    it.tell(SessionOpened("client"))
    it.tell(SubscriptionAsked("client", "s", Subscription("never")))
    for number in range(500):
        it.tell(offer_of("p", number, f"t{number}/x", b"{}", 0))
    assert it.broker.status(BEGIN).topics_remembered <= 100


# The same again.


def story(seed: int) -> list[tuple[str, Effect]]:
    """All effects of a network in which much happens."""
    rng = random.Random(seed)
    bench = Bench("abcd", ring("a", "b", "c", "d"), replace(DEFAULT, trees=2), seed=seed)
    for step in range(120):
        id_ = rng.choice("abcd")
        roll = rng.random()
        if roll < 0.3:
            bench.subscribe(
                id_, f"s{step}", rng.choice(["t/#", "+/x", "u"]), rng.choice(["", "n > 3"]), qos=1
            )
        elif roll < 0.6:
            bench.publish(id_, rng.choice(["t/x", "u"]), b'{"n": %d}' % step, token=step)
        elif roll < 0.65:
            bench.tell(id_, SessionClosed(f"s{rng.randint(0, step)}"))
        elif roll < 0.7:
            bench.cut(*rng.choice(ring("a", "b", "c", "d")), block=False)
        else:
            bench.advance(rng.choice([0.001, 0.1, 2.0]))
    bench.settle()
    return bench.seen


def test_the_same_events_give_the_same_effects() -> None:
    for seed in range(3):
        one, other = story(seed), story(seed)
        assert one == other
        assert len({type(effect) for _, effect in one}) >= 8


def test_many_events_at_once_lead_to_the_same_as_one_by_one() -> None:
    together, apart = Middle(wants={"x": [ALL]}), Middle(wants={"x": [ALL]})
    offers = [offer(token) for token in range(5)]
    effects = together.broker.handle_all(offers, BEGIN)
    together.broker.audit()
    singly = [effect for it in offers for effect in apart.tell(it)]
    (message,) = together["x"].heard(effects, Publish)
    assert list(batch_of(message)) == [carried(it) for it in apart["x"].heard(singly, Publish)]
    assert kinds(effects, Deliver, Record) == kinds(singly, Deliver, Record)
    assert len(kinds(effects, Send)) == 1  # one frame for all
    assert len(kinds(effects, Sync)) == 1


def test_effects_come_in_the_order_in_which_they_must_be_carried_out() -> None:
    it = Middle(wants={"x": [ALL]})
    effects = it.tell(offer())
    order = [type(effect).__name__ for effect in effects]
    assert order.index("Write") < order.index("Sync")
    assert order[-1] in ("Sync", "SetTimer")


def test_a_broker_that_starts_again_takes_up_what_was_saved() -> None:
    bench = Bench("ab", path("a", "b"))
    bench.settle()
    bench.subscribe("a", "durable", "t", durable=True, qos=1)
    bench.subscribe("b", "far", "t", durable=True, qos=1)
    bench.settle()
    bench.cut("a", "b")
    bench.settle()
    bench.publish("a", "t", b"1", token=1)
    bench.settle()
    bench.kill("a")
    bench.start("a")
    status = bench.status("a")
    assert (status.boot, status.incarnation) == (2, 1)
    assert (status.sessions, status.subscriptions, status.held) == (1, 1, 1)
    bench.heal("a", "b")
    bench.settle()
    assert bench.got("b", "far") == [b"1"]
    assert bench.got("a", "durable") == [b"1"]


def test_a_wake_up_for_the_very_time_that_has_come_is_asked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = started("m")
    broker.handle(TimerFired(), BEGIN + 0.01)
    due = broker.next_deadline()
    assert due is not None
    # What ends the turn may set a timer for now, when those that were due have been seen to.
    flush = broker._seats.flush

    def flush_late() -> None:
        flush()
        broker.core.timers.set(Timer.GATHER, "t", due)

    monkeypatch.setattr(broker._seats, "flush", flush_late)
    assert SetTimer(due) in broker.handle(TimerFired(), due)


def test_every_notice_between_parts_is_heard() -> None:
    for module in pkgutil.walk_packages(overlay.__path__, "tidings.overlay."):
        importlib.import_module(module.name)
    assert set(Middle().broker.core.heard_by) == set(Notice.__subclasses__())
