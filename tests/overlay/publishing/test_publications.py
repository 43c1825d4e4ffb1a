"""Publications: their identity, their way, and what is known of them at each hop."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.overlay.bench import (
    BEGIN,
    BELOW,
    EPOCH,
    HERE,
    Bench,
    Middle,
    carried,
    kinds,
    path,
    publication,
    publish,
    ring,
    started,
)
from tests.overlay.offers import given as given_in
from tests.overlay.offers import offer_of
from tests.overlay.trees.test_trees import some_graph
from tidings.language.declarations import parse_topic
from tidings.language.regions import Unknown
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import (
    Accept,
    Deliver,
    Effect,
    Erase,
    Log,
    PublicationsOffered,
    Reject,
    SessionOpened,
    SubscriptionAsked,
    Sync,
    TimerFired,
    Write,
    WritesSynced,
)
from tidings.overlay.publication import Publication
from tidings.overlay.publishing import publications
from tidings.overlay.publishing.batches import packed, unpacked
from tidings.overlay.publishing.messages import Done, Publish
from tidings.overlay.publishing.publications import BOOT_SHIFT
from tidings.overlay.routing.topics import Topics
from tidings.overlay.settings import DEFAULT
from tidings.overlay.trees.messages import Regrow
from tidings.overlay.trees.trees import pick
from tidings.records.record import Kind, Record

ALL = Subscription("#", qos=2)

X, Y, Z = 0b00100, 0b01000, 0b10000
"""The bits of the children in the epoch of `Middle`."""


def offer(token: int = 1, topic: str = "t", payload: bytes = b"{}", qos: int = 1) -> PublicationsOffered:
    return offer_of("publisher", token, topic, payload, qos)


def synced(it: Middle, effects: list[Effect]) -> list[Effect]:
    """Let the disk be done with what an event asked for."""
    tokens = [effect.token for effect in effects if isinstance(effect, Sync)]
    return it.tell(WritesSynced(tokens[-1])) if tokens else []


def client(it: Middle, subscription: Subscription, session: str = "client", *, durable: bool = False) -> None:
    effects = it.tell(SessionOpened(session, durable))
    effects += it.tell(SubscriptionAsked(session, "s", subscription))
    synced(it, effects)


def to(message: Publish) -> int:
    """Who gets the publication in a message, as bits."""
    return unpacked(message.to[0])


def must(message: Publish) -> int:
    """Who must have it."""
    return unpacked(message.must[0]) if message.must else to(message)


def records(effects: list[Effect], kind: Kind) -> list[Record]:
    return [effect for effect in effects if isinstance(effect, Record) and effect.kind is kind]


# Identity.


def test_a_publication_is_known_by_origin_incarnation_stream_and_number() -> None:
    it = Middle(wants={"x": [ALL]})
    sent = [carried(it["x"].heard(it.tell(offer(token)), Publish)[0]) for token in (1, 2)]
    assert [(p.origin, p.incarnation, p.number) for p in sent] == [("m", 1, 1), ("m", 1, 2)]
    assert sent[0].stream == sent[1].stream
    assert [p.id for p in sent] == [f"m:1:{sent[0].stream}:1", f"m:1:{sent[0].stream}:2"]


def test_a_publication_carries_all_that_its_client_gave() -> None:
    it = Middle(wants={"x": [ALL]})
    offered = offer_of("p", 9, "t/u", b"\x81\xa1x\x01", 2, "application/msgpack", (("k", "v"),), True)
    ((_, message),) = it.heard(synced(it, it.tell(offered)), Publish)
    sent = carried(message)
    assert sent == Publication(
        "m",
        1,
        sent.stream,
        1,
        "t/u",
        b"\x81\xa1x\x01",
        2,
        round(BEGIN * 1_000_000),
        "p",
        "application/msgpack",
        (("k", "v"),),
        True,
    )


def test_the_numbers_of_a_restarted_broker_are_larger_than_all_before() -> None:
    numbers = []
    for boot in (1, 2, 3):
        it = Middle(wants={"x": [ALL]}, boot=boot, incarnation=1)
        numbers += [carried(it["x"].heard(it.tell(offer(token)), Publish)[0]).number for token in (1, 2)]
    assert numbers == sorted(set(numbers))
    assert numbers[2] == (1 << BOOT_SHIFT) + 1


def test_a_broker_without_its_disk_is_another_origin() -> None:
    bench = Bench("ab", path("a", "b"))
    bench.settle()
    bench.subscribe("a", "s", "t", qos=1)
    bench.settle()
    bench.publish("b", "t", b"1")
    bench.settle()
    bench.kill("b")
    bench.start("b", disk=False)
    bench.settle()
    bench.publish("b", "t", b"2")
    bench.settle()
    assert [d.publication.incarnation for d in bench.given("a")] == [1, 2]
    assert bench.got("a", "s") == [b"1", b"2"]


# Its way.


def test_a_publication_goes_only_over_links_with_a_match_behind_them() -> None:
    it = Middle(("x", "y", "z"), wants={"x": [Subscription("t", "n > 3")], "y": [Subscription("u")]})
    for payload, targets in [(b'{"n": 4}', ["x"]), (b'{"n": 3}', []), (b"{}", [])]:
        assert [peer for peer, _ in it.heard(it.tell(offer(payload=payload, qos=0)), Publish)] == targets


def test_a_hop_forwards_by_destination() -> None:
    it = Middle(("x", "y", "z"), wants={"z": [ALL]})  # which a hop does not look at
    routes: list[tuple[int, dict[str, int]]] = [
        (HERE | Y, {"y": Y}),
        (0b1 | Y | Z, {"a": 0b1, "y": Y, "z": Z}),
        (HERE, {}),
    ]
    for number, (bits, went) in enumerate(routes, 1):
        effects = it["x"].say(publish(number, number - 1, publication(number, origin="x"), to=bits))
        sent = it.heard(effects, Publish)
        assert {peer: to(message) for peer, message in sent} == went
        assert [peer for peer, _ in sent] == list(went)


def test_a_publication_never_goes_back_where_it_came_from() -> None:
    it = Middle(("x", "y"))
    effects = it["x"].say(publish(1, 0, publication(1, origin="x"), to=0b1111))
    assert [peer for peer, _ in it.heard(effects, Publish)] == ["a", "y"]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(30))
def test_on_any_graph_each_subscriber_gets_it_once_and_each_link_carries_it_at_most_once(seed: int) -> None:
    rng = random.Random(seed)
    graph = some_graph(rng, 7)
    bench = Bench(list(graph), list(graph.edges), seed=seed)
    bench.settle()
    ids = sorted(graph)
    for number in range(5):
        where = rng.choice(["", "n > 4", "n < 3"])
        bench.subscribe(rng.choice(ids), f"s{number}", rng.choice(["t", "#", "u"]), where, qos=1)
    bench.settle()
    since = bench.mark()
    for number in range(8):
        bench.publish(rng.choice(ids), rng.choice("tu"), b'{"n": %d}' % number, rng.choice([0, 1]), number)
        for _ in range(rng.randint(0, 4)):
            if boxes := bench.waiting():
                bench.step(rng.choice(boxes))
    bench.settle()
    went = Counter((s, t, carried(m).id) for s, t, m in bench.said(Publish, since))
    assert set(went.values()) <= {1}
    got = Counter((session, d.publication.id) for d in bench.given() for session, _ in d.subscriptions)
    assert set(got.values()) <= {1}
    # A link carries what somebody behind it has got, and nothing else.
    for source, target, id_ in went:
        beyond = {target}
        todo = [target]
        root = bench.status(source).share[0]
        while todo:
            tree = bench.tree(todo.pop(), root)
            new = {it for it in (tree.parent, *tree.children) if it is not None} - beyond - {source}
            beyond |= new
            todo += sorted(new)
        assert any(d.publication.id == id_ for broker in beyond for d in bench.given(broker))


def test_all_sessions_here_are_named_in_one_delivery() -> None:
    it = Middle()
    for session in ("c2", "c1"):
        client(it, Subscription("t"), session)
    it.tell(SubscriptionAsked("c2", "also", Subscription("#")))
    effects = it["a"].say(publish(1, 0, publication(1)))
    assert given_in(effects) == [(publication(1), (("c1", "s"), ("c2", "also"), ("c2", "s")), 1)]


def test_hops_are_counted() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    for id_ in "abc":
        bench.subscribe(id_, f"s{id_}", "t")
    bench.settle()
    bench.publish("c", "t", qos=0)
    bench.run()
    assert {who: e.hops for who, e in bench.seen if isinstance(e, Deliver)} == {"c": 0, "b": 1, "a": 2}


# Acknowledgement, from the last hop to the first.


def test_a_hop_acknowledges_when_every_link_below_has() -> None:
    it = Middle(("x", "y"))
    effects = it["a"].say(publish(1, 0, publication(1), to=HERE | X | Y))
    assert it.heard(effects, Done) == []
    assert it.heard(it["x"].say(Done("a", (1, 1), ())), Done) == []
    assert it.heard(it["y"].say(Done("a", (1, 1), ())), Done) == [("a", Done("a", (1, 1), ()))]


def test_a_hop_with_nobody_below_acknowledges_at_once() -> None:
    it = Middle()
    client(it, Subscription("t", qos=1))
    effects = it["a"].say(publish(1, 0, publication(1), to=HERE))
    assert len(kinds(effects, Deliver)) == 1
    assert it.heard(effects, Done) == [("a", Done("a", (1, 1), ()))]


def test_a_hop_acknowledges_when_its_durable_sessions_have_stored_it() -> None:
    it = Middle()
    client(it, Subscription("t", qos=1), durable=True)
    effects = it["a"].say(publish(1, 0, publication(1), to=HERE))
    (deliver,) = kinds(effects, Deliver)
    (sync,) = kinds(effects, Sync)
    assert effects.index(deliver) < effects.index(sync)
    assert it.heard(effects, Done) == []
    assert it.heard(synced(it, effects), Done) == [("a", Done("a", (1, 1), ()))]


def test_a_hop_waits_for_links_and_disk_whichever_comes_last() -> None:
    it = Middle()
    client(it, Subscription("t", qos=1), durable=True)
    effects = it["a"].say(publish(1, 0, publication(1)))
    assert it.heard(it["x"].say(Done("a", (1, 1), ())), Done) == []
    assert it.heard(synced(it, effects), Done) == [("a", Done("a", (1, 1), ()))]


def test_what_was_not_taken_further_below_is_not_acknowledged_above() -> None:
    it = Middle(("x", "y"))
    it["a"].say(publish(1, 0, publication(1), to=HERE | X | Y))
    it["x"].say(Done("a", (), ((1, packed(X)),)))
    answers = it.heard(it["y"].say(Done("a", (1, 1), ())), Done)
    assert answers == [("a", Done("a", (), ((1, packed(X)),)))]


def test_a_neighbour_is_not_believed_that_others_than_those_behind_it_miss_something() -> None:
    it = Middle(("x", "y"))
    it["a"].say(publish(1, 0, publication(1), to=HERE | X | Y))
    it["y"].say(Done("a", (1, 1), ()))
    answers = it.heard(it["x"].say(Done("a", (), ((1, packed(0b1111)),))), Done)
    assert answers == [("a", Done("a", (), ((1, packed(X)),)))]


def test_a_link_that_dies_below_is_not_acknowledged_above() -> None:
    it = Middle()
    it["a"].say(publish(1, 0, publication(1)))
    it["x"].lose()
    effects = it.tell(TimerFired(), BEGIN + DEFAULT.resume_within_s)
    assert it.heard(effects, Done) == [("a", Done("a", (), ((1, packed(X)),)))]
    effects = it["a"].say(publish(2, 1, publication(2)), now=BEGIN + 1)
    assert it.heard(effects, Done) == [("a", Done("a", (), ((2, packed(X)),)))]


def test_acknowledgements_of_many_are_ranges() -> None:
    it = Middle()
    for number in range(1, 7):
        it["a"].say(publish(number, number - 1, publication(number)))
    assert it.heard(it["x"].say(Done("a", (1, 2, 4, 5), ())), Done) == [("a", Done("a", (1, 2, 4, 5), ()))]
    last = Done("a", (3, 3), ((6, packed(X)),))
    assert it.heard(it["x"].say(last), Done) == [("a", last)]


@pytest.mark.parametrize("ranges", [(1, 10**12), (5, 2), (7,), (-5, 1), (0, 0)])
def test_an_acknowledgement_of_slots_that_never_were_does_no_harm(ranges: tuple[int, ...]) -> None:
    it = Middle()
    it["a"].say(publish(1, 0, publication(1)))
    it["x"].say(Done("a", ranges, tuple((slot, (2, -1, 10**9)) for slot in ranges)))
    it["x"].say(Done("nobody", ranges, ()))
    effects = it["a"].say(publish(2, 1, publication(2)))
    assert len(it["x"].heard(effects, Publish)) == 1


# At the origin.


def test_the_client_is_told_when_its_publication_is_on_disk() -> None:
    it = Middle(wants={"x": [ALL]})
    effects = it.tell(offer(7))
    (write,) = kinds(effects, Write)
    (sync,) = kinds(effects, Sync)
    assert isinstance(write, Write)
    assert write.key.startswith("held/")
    assert effects.index(write) < effects.index(sync)
    assert kinds(effects, Accept) == []
    assert kinds(synced(it, effects), Accept) == [Accept("publisher", [7])]


def test_the_origin_keeps_it_until_everyone_has_it() -> None:
    it = Middle(wants={"x": [ALL]})
    effects = it.tell(offer())
    (write,) = kinds(effects, Write)
    assert isinstance(write, Write)
    assert kinds(synced(it, effects), Erase) == []
    assert it.broker.status(BEGIN).held == 1
    assert kinds(it["x"].say(Done("a", (1, 1), ())), Erase) == [Erase(write.key)]
    assert it.broker.status(BEGIN).held == 0


def test_quality_0_touches_no_disk_and_waits_for_nobody() -> None:
    it = Middle(wants={"x": [ALL]})
    client(it, Subscription("t", qos=1))
    effects = it.tell(offer(qos=0))
    assert kinds(effects, Write, Sync, Accept) == []
    assert len(kinds(effects, Deliver)) == 1
    assert [(carried(message).qos, must(message)) for message in it["x"].heard(effects, Publish)] == [(0, 0)]
    assert it.broker.status(BEGIN).held == 0


def test_quality_0_is_not_sent_again() -> None:
    it = Middle(wants={"x": [ALL]})
    it.tell(offer(qos=0))
    it.effects.clear()
    it.grow((1, 2), {})
    assert it.heard(it.effects, Publish) == []


def test_the_origin_sends_again_in_the_next_epoch_what_not_everyone_has_in_order_and_first() -> None:
    it = Middle(wants={"x": [ALL]})
    for token in (1, 2, 3):
        synced(it, it.tell(offer(token)))
    it["x"].say(Done("a", (2, 2), ()))
    it.effects.clear()
    it.grow((1, 2), {})
    new = it.tell(offer(4))
    again = it["x"].heard([*it.effects, *new], Publish)
    assert [(m.epoch, m.numbers, m.previous) for m in again] == [
        ((1, 2), (1, 3), (0, 1)),
        ((1, 2), (4,), (3,)),
    ]


def test_what_was_acknowledged_in_an_epoch_that_has_passed_is_kept_until_the_new_one_has_it_too() -> None:
    it = Middle(wants={"x": [ALL]})
    synced(it, it.tell(offer()))
    it.grow((1, 2), {})
    it["x"].say(Done("a", (1, 1), ()))
    assert it.broker.status(BEGIN).held == 1
    it["x"].say(Done("a", (2, 2), ()))
    assert it.broker.status(BEGIN).held == 0


def test_a_broker_in_the_middle_dies_and_the_origin_sends_again() -> None:
    bench = Bench("abcd", ring("a", "b", "c", "d"))
    bench.settle()
    bench.subscribe("c", "s", "t", qos=1, durable=True)
    bench.settle()
    bench.publish("a", "t", b"1", token=1)
    assert [(s, t) for s, t, _ in bench.said(Publish)] == [("a", "b")]
    bench.kill("b")
    bench.run()
    assert bench.accepted() == [1]
    assert bench.got("c", "s") == []
    bench.settle()
    assert bench.got("c", "s") == [b"1"]
    assert [(s, t) for s, t, _ in bench.said(Publish)][1:] == [("a", "d"), ("d", "c")]
    bench.start("b")
    bench.settle()
    assert bench.got("c", "s") == [b"1"]
    assert bench.status("a").held == 0


def test_an_origin_that_dies_sends_again_what_it_had_accepted() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    bench.subscribe("c", "s", "t", qos=1)
    bench.settle()
    for number in range(3):
        bench.publish("a", "t", b"%d" % number, token=number)
    while len(bench.accepted()) < 3:
        bench.step(("a", 0))
    bench.kill("a")  # nothing has arrived anywhere
    bench.settle()
    bench.start("a")
    bench.settle()
    assert bench.got("c", "s") == [b"0", b"1", b"2"]


def test_what_was_not_yet_on_disk_when_its_origin_died_was_not_accepted_and_is_gone() -> None:
    bench = Bench("ab", path("a", "b"))
    bench.settle()
    bench.subscribe("b", "s", "t", qos=1)
    bench.settle()
    bench.slow_disks.add("a")
    bench.cut("a", "b")
    bench.publish("a", "t", b"lost", token=5)
    bench.run()
    assert bench.accepted() == []
    bench.kill("a")
    bench.slow_disks.clear()
    bench.heal("a", "b")
    bench.start("a")
    bench.subscribe("b", "s", "t", qos=1)
    bench.settle()
    assert bench.status("a").held == 0
    assert bench.got("b", "s") == []


def test_what_is_published_before_there_is_a_tree_goes_in_order_when_there_is_one() -> None:
    broker = started("m")
    broker.handle(SessionOpened("client"), BEGIN)
    broker.handle(SubscriptionAsked("client", "s", Subscription("t", qos=1)), BEGIN)
    effects = [effect for token in (1, 2) for effect in broker.handle(offer(token), BEGIN)]
    assert [d.publication.number for d in given_in(effects)] == [1, 2]
    assert broker.status(BEGIN).backlog_bytes > 0
    broker.handle(TimerFired(), BEGIN)
    assert broker.status(BEGIN).backlog_bytes == 0
    tokens = [effect.token for effect in effects if isinstance(effect, Sync)]
    done = broker.handle(WritesSynced(tokens[-1]), BEGIN)
    assert kinds(done, Accept) == [Accept("publisher", [1]), Accept("publisher", [2])]
    assert broker.status(BEGIN).held == 0


def test_a_slow_disk_delays_the_acceptance_and_not_the_publication() -> None:
    bench = Bench("ab", path("a", "b"))
    bench.settle()
    bench.subscribe("b", "s", "t", qos=1)
    bench.settle()
    bench.slow_disks.add("a")
    bench.publish("a", "t", b"1", token=5)
    bench.run()
    assert (bench.got("b", "s"), bench.accepted()) == ([b"1"], [])
    assert bench.status("a").held == 1
    bench.sync("a")
    bench.run()
    assert bench.accepted() == [5]
    assert bench.status("a").held == 0


# Repeats and holes.


def test_what_sessions_have_had_is_not_given_to_them_again_in_a_later_epoch() -> None:
    it = Middle()
    client(it, Subscription("t", qos=1))
    it["a"].say(publish(1, 0, publication(5), to=HERE))
    it.grow((1, 2), {})
    effects = it["a"].say(publish(2, 0, publication(5), epoch=(1, 2), to=HERE))
    assert kinds(effects, Deliver) == []
    assert [r.reason for r in records(effects, Kind.SUPPRESSED)] == ["repeat"]
    assert it.heard(effects, Done) == [("a", Done("a", (2, 2), ()))]


def test_a_repeat_of_what_is_still_being_stored_is_acknowledged_when_that_is_on_disk() -> None:
    it = Middle()
    client(it, Subscription("t", qos=1), durable=True)
    stored = it["a"].say(publish(1, 0, publication(5), to=HERE))
    it.grow((1, 2), {})
    effects = it["a"].say(publish(2, 0, publication(5), epoch=(1, 2), to=HERE))
    assert it.heard(effects, Done) == []
    assert it.heard(synced(it, [*stored, *effects]), Done) == [("a", Done("a", (1, 2), ()))]


def test_quality_0_of_an_epoch_that_has_passed_is_recorded_as_not_taken_further() -> None:
    it = Middle()
    it.grow((1, 2), {})
    effects = it["a"].say(publish(1, 0, publication(1, qos=0)))
    assert [r.reason for r in records(effects, Kind.SUPPRESSED)] == ["epoch has passed"]
    assert it.heard(effects, Publish) == []


def test_what_has_come_in_this_epoch_goes_no_further_when_it_comes_again() -> None:
    it = Middle()
    it["a"].say(publish(1, 0, publication(5)))
    effects = it["a"].say(publish(2, 5, publication(5)))
    assert it.heard(effects, Publish) == []
    assert it.heard(effects, Done) == [("a", Done("a", (2, 2), ()))]


def test_a_durable_session_is_not_given_a_repeat_after_a_restart() -> None:
    it = Middle()
    effects = it.tell(SessionOpened("client", True))
    effects += it.tell(SubscriptionAsked("client", "s", Subscription("t", qos=1)))
    effects += it["a"].say(publish(1, 0, publication(5)))
    saved = {effect.key: effect.value for effect in effects if isinstance(effect, Write)}
    again = Middle(boot=2, incarnation=1, saved=saved)
    effects = again["a"].say(publish(1, 0, publication(5)))
    assert kinds(effects, Deliver) == []
    effects = again["a"].say(publish(2, 5, publication(6)))
    assert len(kinds(effects, Deliver)) == 1


def test_of_too_many_streams_the_one_that_moved_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publications, "STREAMS_MAX", 3)
    it = Middle()
    client(it, Subscription("t", qos=1))
    said = [
        ("p", 1, 0),
        ("q", 1, 0),
        ("r", 1, 0),
        ("p", 2, 1),
        ("s", 1, 0),
    ]  # of p, q and r only q is not after r
    for slot, (origin, number, previous) in enumerate(said, 1):
        it["a"].say(publish(slot, previous, publication(number, origin=origin)))
    it.grow((1, 2), {})
    new = {}
    for slot, (origin, number) in enumerate([("p", 2), ("r", 1), ("s", 1), ("q", 1)], 6):
        effects = it["a"].say(publish(slot, 0, publication(number, origin=origin), epoch=(1, 2)))
        new[origin] = bool(kinds(effects, Deliver))
    assert new == {"p": False, "r": False, "s": False, "q": True}


def test_each_says_what_was_sent_before_it_down_this_link() -> None:
    it = Middle(("x", "y"))
    sent: list[tuple[str, int, int]] = []
    for number, bits in enumerate([X | Y, Y, Y, X | Y], 1):
        effects = it["a"].say(publish(number, number - 1, publication(number), to=bits))
        sent += [(peer, m.numbers[0], m.previous[0]) for peer, m in it.heard(effects, Publish)]
    assert [it for it in sent if it[0] == "x"] == [("x", 1, 0), ("x", 4, 1)]
    assert [it for it in sent if it[0] == "y"] == [("y", 1, 0), ("y", 2, 1), ("y", 3, 2), ("y", 4, 3)]


def test_a_pruned_message_is_not_a_hole() -> None:
    it = Middle()
    it["a"].say(publish(1, 0, publication(3)))
    effects = it["a"].say(publish(2, 3, publication(9)))
    assert kinds(effects, Log) == []
    assert len(it["x"].heard(effects, Publish)) == 1


def test_a_hole_is_noticed_and_answered_with_a_request_for_a_new_epoch() -> None:
    it = Middle()
    it["a"].say(publish(1, 0, publication(3)))
    effects = it["a"].say(publish(2, 7, publication(9)))
    assert [(log.level, log.text) for log in effects if isinstance(log, Log)] == [
        ("error", "a publication is missing")
    ]
    assert it["x"].heard(effects, Publish) == []
    assert it.heard(effects, Done) == [("a", Done("a", (), ((2, packed(BELOW)),)))]
    assert it["a"].heard(effects, Regrow) == [Regrow("a", EPOCH)]


def test_streams_of_different_origins_are_counted_apart() -> None:
    it = Middle()
    for slot, origin in enumerate(["p", "q", "p", "q"], 1):
        previous = 0 if slot < 3 else 1
        effects = it["a"].say(publish(slot, previous, publication((slot + 1) // 2, origin=origin)))
        assert kinds(effects, Log) == []
        assert [m.previous for m in it["x"].heard(effects, Publish)] == [(previous,)]


def test_in_each_epoch_the_first_has_none_before_it() -> None:
    it = Middle()
    it["a"].say(publish(1, 0, publication(3)))
    it.grow((1, 2), {})
    effects = it["a"].say(publish(2, 0, publication(4), epoch=(1, 2)))
    assert kinds(effects, Log) == []
    assert [m.previous for m in it["x"].heard(effects, Publish)] == [(0,)]


def test_what_was_held_goes_before_what_is_new_when_topics_have_moved_to_another_tree() -> None:
    level = next(
        level
        for level in (f"t{number}" for number in range(1000))
        if pick(level, ("b", "c")) == "b" and pick(level, ("a", "b")) == "a"
    )
    bench = Bench("abcde", [*path("b", "c", "d"), ("c", "e")], replace(DEFAULT, trees=2))
    bench.settle()
    bench.subscribe("e", "s", f"{level}/#", qos=1, durable=True)
    bench.settle()
    bench.cut("c", "e")
    bench.settle()
    bench.publish("d", f"{level}/x", b"1", token=1)
    bench.settle()
    bench.join("b", "a")  # a root with a smaller id: the topic moves to its tree, while the other stays
    bench.settle()
    assert bench.status("d").share == ("a", "b")
    bench.publish("d", f"{level}/x", b"2", token=2)
    bench.settle()
    since = bench.mark()
    bench.heal("c", "e")
    bench.settle()
    assert bench.got("e", "s") == [b"1", b"2"]
    assert {message.root for _, _, message in bench.said(Publish, since)} == {"a"}


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(25))
def test_order_per_origin_and_topic_is_kept_whatever_breaks(seed: int) -> None:
    rng = random.Random(seed)
    bench = Bench("abcd", ring("a", "b", "c", "d"), replace(DEFAULT, trees=rng.choice([1, 3])), seed=seed)
    bench.settle()
    for id_ in "abcd":
        bench.subscribe(id_, f"s{id_}", "#", qos=1)
    bench.settle()
    blocked: list[tuple[str, str]] = []
    sent = 0
    for _ in range(250):
        roll = rng.random()
        if roll < 0.01 and not blocked:
            blocked.append(rng.choice(ring("a", "b", "c", "d")))
            bench.cut(*blocked[-1])
        elif roll < 0.02 and blocked:
            bench.heal(*blocked.pop())
        elif roll < 0.15:
            sent += 1
            bench.publish(rng.choice("abcd"), rng.choice(["t/1", "u"]), b"%d" % sent, token=sent)
        elif roll < 0.2:
            bench.advance(rng.choice([0.001, 0.1, 1.2]))
        elif boxes := bench.waiting():
            bench.step(rng.choice(boxes))
    for one, other in blocked:
        bench.heal(one, other)
    bench.advance(20.0)
    for id_ in "abcd":
        got = [d.publication for d in bench.given(id_)]
        for origin in "abcd":
            for topic in ("t/1", "u"):
                numbers = [int(p.payload) for p in got if (p.origin, p.topic) == (origin, topic)]
                assert numbers == sorted(set(numbers))
        assert sorted(int(p.payload) for p in got) == list(range(1, sent + 1))


# Quality of service.


def test_only_those_must_have_it_who_ask_for_quality_1_or_2() -> None:
    it = Middle(
        ("x", "y", "z"),
        wants={"x": [Subscription("t", qos=0)], "y": [Subscription("t", qos=1)], "z": [ALL]},
    )
    effects = synced(it, it.tell(offer(qos=2)))
    assert [(peer, to(m), must(m), carried(m).qos) for peer, m in it.heard(effects, Publish)] == [
        ("x", X, 0, 2),
        ("y", Y, Y, 2),
        ("z", Z, Z, 2),
    ]


def test_quality_2_goes_to_no_other_broker_before_it_is_on_disk_and_nothing_overtakes_it() -> None:
    it = Middle(wants={"x": [ALL]})
    first = it.tell(offer(1, qos=2))
    assert it.heard(first, Publish) == []
    assert it.heard(it.tell(offer(2, qos=0)), Publish) == []
    assert [m.numbers for _, m in it.heard(synced(it, first), Publish)] == [(1, 2)]


def test_nobody_waits_for_a_link_behind_which_nobody_must_have_it() -> None:
    it = Middle(("x", "y"))
    effects = it["a"].say(publish(1, 0, publication(1), to=HERE | X | Y, must=Y))
    assert [(peer, to(m), must(m)) for peer, m in it.heard(effects, Publish)] == [("x", X, 0), ("y", Y, Y)]
    assert it.heard(it["y"].say(Done("a", (1, 1), ())), Done) == [("a", Done("a", (1, 1), ()))]


def test_a_home_with_subscriptions_of_quality_0_alone_is_not_waited_for() -> None:
    it = Middle(wants={"x": [Subscription("t", qos=0)]})
    effects = it.tell(offer(7))
    assert [(to(m), must(m)) for _, m in it.heard(effects, Publish)] == [(X, 0)]
    assert it.broker.status(BEGIN).held == 1  # until it is on disk
    assert kinds(synced(it, effects), Accept) == [Accept("publisher", [7])]
    assert it.broker.status(BEGIN).held == 0
    it.effects.clear()
    it.grow((1, 2), {})
    assert it.heard(it.effects, Publish) == []


def test_a_publication_of_lower_quality_is_not_raised() -> None:
    it = Middle(wants={"x": [ALL]})
    for qos, needed in ((0, 0), (1, X)):
        sent = it.heard(it.tell(offer(qos=qos)), Publish)
        assert [(carried(m).qos, must(m)) for _, m in sent] == [(qos, needed)]


def test_quality_0_is_answered_with_the_next_heartbeat_only_for_the_window() -> None:
    it = Middle()
    effects = it["a"].say(publish(1, 0, publication(1, qos=0)))
    assert it.heard(effects, Done) == []
    effects = it.tell(TimerFired(), BEGIN + DEFAULT.heartbeat_s / 2)
    assert it.heard(effects, Done) == [("a", Done("a", (1, 1), ()))]


# Content.


def test_a_payload_that_cannot_be_read_reaches_those_who_do_not_look_and_no_content_filter() -> None:
    it = Middle(
        ("w", "x", "y"),
        wants={
            "w": [Subscription("t", "n > 3")],
            "x": [Subscription("t", "n > 3", Unknown.ASSUME)],
            "y": [Subscription("t")],
        },
    )
    for payload in (b"\xff\x00", b"[1, 2]", b"not json", b""):
        effects = it.tell(offer(payload=payload, qos=0))
        assert [peer for peer, _ in it.heard(effects, Publish)] == ["y"]


def test_message_pack_is_read_by_its_content_type() -> None:
    it = Middle(wants={"x": [Subscription("t", "n > 3")]})
    payload = msgspec.msgpack.encode({"n": 4})
    offered = offer_of("p", 1, "t", payload, 0, "application/msgpack")
    assert len(it.heard(it.tell(offered), Publish)) == 1
    assert it.heard(it.tell(offer(payload=payload, qos=0)), Publish) == []


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes]]:
    """The payloads that are read from now on, with the broker that does."""
    found: list[tuple[str, bytes]] = []
    content = Topics.content

    def noted(topics: Topics, publication: Publication) -> object:
        found.append((topics._core.id, publication.payload))
        return content(topics, publication)

    monkeypatch.setattr(Topics, "content", noted)
    return found


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_only_the_origin_and_the_homes_that_get_it_read_a_payload(
    qos: int, read: list[tuple[str, bytes]]
) -> None:
    bench = Bench("abcde", path("a", "b", "c", "d", "e"))
    bench.settle()
    for id_, where in (("b", "n > 100"), ("c", "n > 3"), ("e", "n > 5")):
        bench.subscribe(id_, f"s{id_}", "t", where, qos=1)
    bench.settle()
    for payload, readers in [
        (b'{"n": 9}', "ace"),
        (b'{"n": 4}', "ac"),
        (b'{"n": 0}', "a"),
        (b"not JSON", "a"),
    ]:
        read.clear()
        bench.publish("a", "t", payload, qos)
        bench.settle()
        assert read == [(id_, payload) for id_ in readers]
    assert [bench.got(id_, f"s{id_}") for id_ in "bce"] == [[], [b'{"n": 9}', b'{"n": 4}'], [b'{"n": 9}']]
    assert [bench[id_].unreadable for id_ in "abcde"] == [1, 0, 0, 0, 0]


def test_nobody_reads_a_payload_if_no_content_filter_is_about_its_topic(
    read: list[tuple[str, bytes]],
) -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    bench.subscribe("b", "other", "u", "n > 3", qos=1)
    bench.subscribe("c", "s", "t", qos=1)
    bench.settle()
    bench.publish("a", "t", b"not JSON")
    bench.settle()
    assert bench.got("c", "s") == [b"not JSON"]
    assert read == []


FLEET = parse_topic(
    "name='fleet/+vehicle'\nkind='plain'\n[fields]\nat={type='timestamp'}\nspeed={type='float'}\n"
)


@pytest.mark.parametrize("topic_filter", ["fleet/7", "fleet/+", "#"])
def test_fields_of_a_declared_topic_are_typed_on_every_hop(topic_filter: str) -> None:
    bench = Bench("abc", path("a", "b", "c"), topics=[FLEET])
    bench.settle()
    bench.subscribe("c", "s", topic_filter, "at >= TIMESTAMP '2026-11-01T12:00:00Z'")
    bench.settle()
    # Not in the order of the texts: only as times.
    late, early = b'{"at": "2026-11-01T10:30:00-02:00"}', b'{"at": "2026-11-01T13:30:00+02:00"}'
    for payload in (early, late):
        bench.publish("a", "fleet/7", payload, 0)
    bench.run()
    assert bench.got("c", "s") == [late]


def test_what_a_declared_topic_cannot_take_is_rejected_with_a_reason() -> None:
    broker = started("m", topics=[FLEET])
    for payload in (b"not json", b'{"speed": "fast"}'):
        (reject,) = kinds(broker.handle(offer(3, "fleet/7", payload), BEGIN), Reject)
        assert isinstance(reject, Reject)
        assert (reject.session, reject.token) == ("publisher", 3)
        assert reject.reason


@pytest.mark.parametrize(
    ("offered", "reason"),
    [
        (offer(topic="a/+"), "+"),
        (offer(topic=""), ""),
        (offer(qos=3), "quality of service 3 is not 0, 1 or 2"),
        (offer(payload=b"." * 1001), "the payload has 1001 bytes; the limit is 1000"),
    ],
)
def test_what_cannot_be_published_is_rejected_with_a_reason(
    offered: PublicationsOffered, reason: str
) -> None:
    it = Middle(settings=replace(DEFAULT, message_bytes_max=1000), wants={"x": [ALL]})
    effects = it.tell(offered)
    (reject,) = kinds(effects, Reject)
    assert isinstance(reject, Reject)
    assert reason in reject.reason
    assert kinds(effects, Write, Deliver, Accept) == []
    assert it.heard(effects, Publish) == []


# What is written down.


def test_publishing_forwarding_and_delivering_are_recorded_with_all_receivers() -> None:
    it = Middle(("x", "y"), wants={"x": [ALL], "y": [ALL]})
    client(it, Subscription("t"))
    effects = it.tell(offer(payload=b'{"n": 1}'))
    (published,), (forwarded,), (delivered,) = (
        records(effects, kind) for kind in (Kind.PUBLISHED, Kind.FORWARDED, Kind.DELIVERED)
    )
    assert published.message == forwarded.message == delivered.message
    assert (published.client, published.topic, published.bytes) == ("publisher", "t", 8)
    assert (forwarded.receivers, forwarded.epoch, forwarded.hops) == (("x", "y"), "a:1:1", 1)
    assert (delivered.receivers, delivered.hops, delivered.latency_us) == (("client",), 0, 0)
    numbers = [effect.n for effect in effects if isinstance(effect, Record)]
    assert numbers == sorted(set(numbers))


def test_latency_is_the_time_since_it_was_published() -> None:
    it = Middle()
    client(it, Subscription("t"))
    at_us = round(BEGIN * 1_000_000) - 1500
    effects = it["a"].say(publish(1, 0, publication(1, at_us=at_us)))
    assert [r.latency_us for r in records(effects, Kind.DELIVERED)] == [1500]


def test_a_subscription_made_later_does_not_get_what_was_before() -> None:
    it = Middle()
    assert it.heard(it.tell(offer(1)), Publish) == []
    it["x"].say(it.change("x", ALL))
    assert [(peer, m.numbers, m.previous) for peer, m in it.heard(it.tell(offer(2)), Publish)] == [
        ("x", (2,), (0,))
    ]


def test_what_comes_back_to_a_tree_on_which_it_was_sent_goes_again_in_the_next_epoch_alone() -> None:
    it = Middle(wants={"x": [ALL]})
    assert len(it.heard(it.tell(offer(1)), Publish)) == 1
    publications = it.broker._publications
    (held,) = publications.outbox.held.values()
    publications._enqueue(held, "a")  # the topic had moved to another tree, …
    publications.rearrange()  # … and is back
    assert it.heard(it.broker.collect(), Publish) == []
