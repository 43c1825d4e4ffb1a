"""What clients and neighbours can make a broker keep or do is bounded, and nothing is lost at a bound."""

from __future__ import annotations

import math
from dataclasses import replace

from tests.overlay.bench import BEGIN, Bench, Middle, Peer, carried, kinds, path, started
from tests.overlay.offers import offer_of
from tidings.language.subscriptions import EVERYTHING, Subscription
from tidings.overlay.events import (
    Accept,
    Pause,
    Reject,
    SessionEnded,
    SessionOpened,
    SubscriptionAsked,
    SubscriptionDropped,
    Sync,
    WritesSynced,
)
from tidings.overlay.publication import Publication
from tidings.overlay.publishing.messages import Keep, Publish
from tidings.overlay.routing.messages import Has, Sets
from tidings.overlay.settings import DEFAULT
from tidings.overlay.trees.messages import Distance


def test_clients_that_come_and_go_while_a_broker_is_away_leave_nothing_behind() -> None:
    bench = Bench("ab", path("a", "b"))
    bench.settle()
    bench.cut("a", "b")
    bench.advance(5.0)
    bench.tell("a", SessionOpened("s"))
    for _ in range(2_000):
        bench.tell("a", SubscriptionAsked("s", "x", Subscription("t")))
        bench.tell("a", SubscriptionDropped("s", "x"))
    assert len(bench["a"]._grants._queue) < 200


def test_a_session_with_many_adjoining_filters_ends_at_once_and_leaves_nothing_told() -> None:
    bench = Bench("ab", path("a", "b"))
    bench.settle()
    bench.tell("a", SessionOpened("s"))
    for at in range(400):
        bench.tell("a", SubscriptionAsked("s", str(at), Subscription("t", f"x >= {at} AND x < {at + 1}")))
    bench.run()
    assert 25 <= bench.status("b").sets[1].filters < 100, "sixteen are told as one, at most"
    bench.tell("a", SessionEnded("s"))
    bench.run()
    assert bench.status("b").sets[1].filters == 0


def test_a_home_that_asks_for_too_much_asks_for_everything_even_topics_with_a_dollar() -> None:
    settings = replace(DEFAULT, homes_filters_max=4)  # two for each of two
    bench = Bench("ab", path("a", "b"), settings)
    bench.settle()
    for name in ("t", "u", "$s/x"):
        bench.subscribe("b", f"of {name}", name, qos=1)
    bench.settle()
    own = bench.status("b").sets[0]
    assert (own.filters, own.widened, own.asks) == (1, 3, ("everything qos=2",))
    bench.publish("a", "$s/x", b"{}", 1, 1)
    bench.publish("a", "v", b"{}", 1, 2)
    bench.settle()
    assert bench.got("b", "of $s/x") == [b"{}"]
    assert bench.status("b").false_positives == 1


def test_a_time_that_is_no_number_makes_nobody_absent_and_none_is_longer_than_here() -> None:
    broker = started("m")
    peer = Peer(broker, "z", 1)
    peer.link()
    times = (math.nan, math.inf, -math.inf, -1.0, 1e300, 5.0)
    peer.say(Sets(tuple(Has(f"ghost{at}", 1, 2, absent_s) for at, absent_s in enumerate(times))))
    absent = {of.home: of.absent_s for of in broker.status(BEGIN).sets[1:] if of.absent_s >= 0}
    hold_s = DEFAULT.absent_hold_s
    assert absent == {"ghost1": hold_s, "ghost4": hold_s, "ghost5": 5.0}
    deadline = broker.next_deadline()
    assert deadline is not None
    assert math.isfinite(deadline)


def test_publishers_are_paused_while_copies_are_not_made() -> None:
    it = Middle(settings=replace(DEFAULT, acks="neighbour", backlog_bytes=10_000, link_unacked_bytes=1_000))
    effects = []
    for token in range(30):
        effects += it.tell(offer_of("p", token, "t", b"." * 1_000, 1))
    tokens = [effect.token for effect in effects if isinstance(effect, Sync)]
    effects += it.tell(WritesSynced(tokens[-1]))
    assert Pause() in effects
    assert kinds(effects, Accept) == []
    copies = [keep for _, keep in it.heard(effects, Keep)]
    assert 0 < len(copies) <= 2, "copies are data: no more are sent than may be under way"


def test_no_copy_is_kept_in_the_name_of_another() -> None:
    it = Middle()
    effects = it["a"].say(Keep(Publication("q", 1, "0", 1, "t", b"{}", 1)))
    assert it.broker.status(BEGIN).links[0].state == "down", effects


def test_properties_count_against_the_largest_message() -> None:
    it = Middle(settings=replace(DEFAULT, message_bytes_max=1_000))
    few = it.tell(offer_of("p", 1, "t", b"{}", 0, properties=(("k", "v" * 60_000),)))
    assert kinds(few, Reject) == []
    many = it.tell(offer_of("p", 2, "t", b"{}", 0, properties=(("k", "v" * 70_000),)))
    (rejected,) = kinds(many, Reject)
    assert isinstance(rejected, Reject)
    assert rejected.reason.startswith("properties and content type have 70001 characters")
    typed = it.tell(offer_of("p", 3, "t", b"{}", 0, content_type="x" * 70_000))
    assert len(kinds(typed, Reject)) == 1


def test_a_neighbour_that_names_more_roots_than_there_can_be_is_renounced() -> None:
    peer = Peer(started("m"), "z", 1)
    peer.link()
    for number in range(0, 3_000, 500):
        peer.say(*[Distance(f"r{number + at:05}", (1, 1), 1) for at in range(500)])
        if peer.broker.status(BEGIN).links[0].state == "down":
            break
    assert peer.broker.status(BEGIN).links[0].state == "down"
    assert len(peer.broker._trees.trees) <= 2 * 1024


def test_a_neighbour_may_ask_for_everything() -> None:
    it = Middle(("x",))
    it["x"].say(it.change("x", Subscription(EVERYTHING, qos=2)))
    effects = it.tell(offer_of("p", 1, "$s/x", b"{}", 1))
    assert [(peer, carried(message).topic) for peer, message in it.heard(effects, Publish)] == [("x", "$s/x")]
