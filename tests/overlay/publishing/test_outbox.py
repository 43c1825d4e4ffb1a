"""What is held at its origin: for whom, by which names, and what becomes of it when epochs and brokers go."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest

from tests.overlay.bench import BEGIN, Bench, Middle, item, kinds, path, publication
from tests.overlay.offers import offer_of
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import Effect, Erase, Sync, Write, WritesSynced
from tidings.overlay.publication import Batch, Told
from tidings.overlay.publishing.batches import batch_of, packed, unpacked, written
from tidings.overlay.publishing.messages import Done, Forget, Keep, Kept, Publish
from tidings.overlay.publishing.outbox import Outbox, Row, encode
from tidings.overlay.routing.messages import Change, Has, Sets
from tidings.overlay.settings import DEFAULT
from tidings.overlay.trees.messages import Grow, Join, Roll

ALL = Subscription("t", qos=1)


def sent(bench: Bench, since: tuple[int, int]) -> list[tuple[str, str, tuple[str, ...], bytes]]:
    """Publications that went over links: from, to, for whom, and what."""
    found = []
    for source, target, message in bench.said(Publish, since):
        for to, it in zip(message.to, batch_of(message), strict=True):
            receivers = bench[source].named(message.root, message.epoch, unpacked(to))
            found.append((source, target, receivers, it.payload))
    return found


def publish(it: Middle, token: int = 1, topic: str = "t") -> list[Effect]:
    """A client of "m" publishes something, and it is on disk."""
    effects = it.tell(offer_of("publisher", token, topic, b"{}", 1))
    syncs = [effect for effect in effects if isinstance(effect, Sync)]
    return [*effects, *(done for sync in syncs for done in it.tell(WritesSynced(sync.token)))]


# A stale acknowledgement.


def test_only_those_that_a_stale_acknowledgement_names_get_it_again() -> None:
    bench = Bench("abcde", [*path("a", "b", "c", "d"), ("b", "e")])
    bench.settle()
    for id_ in "bcde":
        bench.subscribe(id_, f"s{id_}", "t", qos=1, durable=True)
    bench.settle()
    bench.publish("a", "t", b"1")
    while not bench.got("c", "sc"):
        bench.step(next(box for box in bench.waiting() if box[0] != "d"))
    since = bench.mark()
    bench.cut("c", "d")
    bench.settle()
    stale = [(source, target, done.stale) for source, target, done in bench.said(Done, since) if done.stale]
    missing = packed(0b01000)  # "d" among a, b, c, d, e
    assert [(source, target, [left for _, left in some]) for source, target, some in stale] == [
        ("c", "b", [missing]),
        ("b", "a", [missing]),
    ]
    assert sent(bench, since) == []
    assert bench.status("a").held == 1
    bench.heal("c", "d")
    bench.settle()
    assert sent(bench, since) == [
        ("a", "b", ("d",), b"1"),
        ("b", "c", ("d",), b"1"),
        ("c", "d", ("d",), b"1"),
    ]
    assert [bench.got(id_, f"s{id_}") for id_ in "bcde"] == [[b"1"]] * 4
    assert bench.status("a").held == 0


def test_who_has_it_does_not_get_it_again_and_who_has_not_does() -> None:
    it = Middle(("x", "y"), wants={"a": [ALL], "x": [ALL], "y": [ALL]})
    assert [peer for peer, _ in it.heard(publish(it), Publish)] == ["a", "x", "y"]
    for peer in ("a", "x"):
        it[peer].say(Done("a", (1, 1), ()))
    it["y"].say(Done("a", (), ((1, packed(0b1000)),)))
    assert it.broker.status(BEGIN).held == 1
    it.effects.clear()
    it.grow((1, 2), {})
    again = it.heard(it.effects, Publish)
    assert [(peer, unpacked(message.to[0])) for peer, message in again] == [("y", 0b1000)]
    it["y"].say(Done("a", (2, 2), ()))
    assert it.broker.status(BEGIN).held == 0


def test_where_no_answer_has_come_before_the_epoch_passes_it_is_sent_again() -> None:
    it = Middle(("x", "y"), wants={"x": [ALL], "y": [ALL]})
    publish(it)
    it["y"].say(Done("a", (), ((1, packed(0b1000)),)))
    it.effects.clear()
    it.grow((1, 2), {})
    assert [peer for peer, _ in it.heard(it.effects, Publish)] == ["x", "y"]
    # An answer of the epoch before says nothing of this one.
    it["x"].say(Done("a", (1, 1), ()))
    it["y"].say(Done("a", (2, 2), ()))
    assert it.broker.status(BEGIN).held == 1
    it["x"].say(Done("a", (2, 2), ()))
    assert it.broker.status(BEGIN).held == 0


# Names, not bits.


def test_what_is_held_keeps_names_although_members_are_numbered_anew() -> None:
    bench = Bench(["a", "aa", "b", "c", "d"], path("a", "b", "c", "d"))
    bench.settle()
    for id_ in ("c", "d"):
        bench.subscribe(id_, f"s{id_}", "t", qos=1, durable=True)
    bench.settle()
    assert bench.tree("a", "a").members == ("a", "b", "c", "d")
    bench.cut("c", "d")
    bench.publish("a", "t", b"1", token=1)  # "d" is a member still
    bench.settle()
    bench.join("aa", "a")  # and the place that it had is that of "c" from now on
    bench.settle()
    assert bench.tree("a", "a").members == ("a", "aa", "b", "c")
    bench.publish("a", "t", b"2", token=2)
    bench.settle()
    assert (bench.status("a").held, bench.accepted("a")) == (2, [1, 2])
    since = bench.mark()
    bench.heal("c", "d")
    bench.settle()
    assert {(receivers, payload) for _, _, receivers, payload in sent(bench, since)} == {
        (("d",), b"1"),
        (("d",), b"2"),
    }
    assert bench.got("d", "sd") == bench.got("c", "sc") == [b"1", b"2"]
    assert bench.status("a").held == 0


def test_who_must_have_it_gets_it_although_it_has_dropped_its_subscription_meanwhile() -> None:
    it = Middle(("x", "y"), wants={"x": [ALL], "y": [ALL]})
    publish(it)
    it["x"].say(Done("a", (1, 1), ()))
    it["y"].say(Done("a", (), ((1, packed(0b1000)),)))
    it["y"].say(it.change("y", removed=(100,)))
    # With "b" among the members "x" has the bit that "y" had.
    it["a"].say(Grow("a", (1, 2), ("a",)))
    for peer in ("x", "y"):
        it[peer].say(Join("a", (1, 2)))
    effects: list[Effect] = []
    for peer, members in (("x", ["x"]), ("y", ["y"]), ("a", ["a", "b"])):
        rows = tuple((member, 1, 1, it.sets.get(member, 0)) for member in members)
        effects += it[peer].say(Roll("a", (1, 2), rows))
    again = it.heard(effects, Publish)
    assert [(peer, unpacked(message.to[0])) for peer, message in again] == [("y", 0b10000)]


def test_who_asks_for_it_only_in_a_later_epoch_gets_what_is_sent_again_too() -> None:
    it = Middle(("x", "y"), wants={"x": [ALL]})
    publish(it)
    it["x"].say(Done("a", (), ((1, packed(0b0100)),)))
    it["y"].say(it.change("y", ALL))
    it.effects.clear()
    it.grow((1, 2), {})
    # At "y" it may have been granted since, and its origin cannot tell.
    assert [peer for peer, _ in it.heard(it.effects, Publish)] == ["x", "y"]


def test_what_is_held_for_an_absent_broker_alone_keeps_no_epoch() -> None:
    bench = Bench("abcde", path("a", "b", "c"))
    bench.settle()
    for id_ in "bc":
        bench.subscribe(id_, f"s{id_}", "t", qos=1, durable=True)
    bench.settle()
    bench.kill("c")
    bench.settle()
    bench.publish("a", "t", b"1", token=1)
    bench.settle()
    epoch = bench["a"]._trees.trees["a"].current
    assert epoch is not None
    gone = weakref.ref(epoch)
    del epoch
    for id_ in "de":
        bench.join(id_, "a")
        bench.settle()
    gc.collect()
    assert gone() is None
    assert bench.status("a").held == 1
    since = bench.mark()
    bench.start("c")
    bench.settle()
    assert sent(bench, since) == [("a", "b", ("c",), b"1"), ("b", "c", ("c",), b"1")]
    assert (bench.got("b", "sb"), bench.got("c", "sc")) == ([b"1"], [b"1"])
    assert bench.status("a").held == 0


# Over a restart of the origin.


def test_an_origin_that_restarts_alone_holds_everything_and_gives_it_to_those_who_want_it() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    bench.subscribe("c", "s", "t", "n > 3", qos=1, durable=True)
    bench.settle()
    bench.cut("a", "b")
    bench.settle()
    bench.publish("a", "t", b'{"n": 4}', token=4)
    bench.run()
    assert bench.status("a").held == 1
    bench.kill("a")
    bench.start("a")
    bench.settle()
    for number in (2, 5):
        bench.publish("a", "t", b'{"n": %d}' % number, token=number)
    bench.publish("a", "u", b"{}", token=6)
    bench.run()
    assert bench.status("a").absent == ("b", "c")
    assert bench.status("a").held == 4  # by now nothing is known of what it wants
    bench.kill("a")
    bench.start("a")
    bench.settle()
    bench.heal("a", "b")
    bench.settle()
    assert bench.got("c", "s") == [b'{"n": 4}', b'{"n": 5}']
    assert bench.got("b", "s") == []
    assert bench.status("a").held == 0
    assert bench.keys("a", "held/") == []


def test_the_names_of_those_who_have_had_an_earlier_version_are_on_disk() -> None:
    told = Told("t", "e", 2, 2, False, "m")
    it = Middle(("x", "y"), wants={"y": [ALL]})
    it.broker._publications.receivers = lambda _: {"x": 1, "gone": 1, "y": 0}
    it.broker._publications.tell("t", b"{}", 1, "", told)
    (write,) = (e for e in kinds(it.broker.collect(), Write) if isinstance(e, Write) and "held/" in e.key)
    one = publication(1, told=told, origin="m", stream="0", at_us=round(BEGIN * 1_000_000))
    row = Row(written(Batch.of(one)), ("x", "gone"))
    assert write.value == encode(row)
    again = Middle(("x", "y"), boot=2, incarnation=1, saved={write.key: write.value})
    sent_again = again.heard(again.effects, Publish)
    assert [(peer, unpacked(m.to[0]), m.told) for peer, m in sent_again] == [("x", 0b0100, (told,))]
    assert kinds(again["x"].say(Done("a", (1, 1), ())), Erase) == [Erase(write.key)]


# For whom.


def test_for_a_home_with_subscriptions_of_quality_0_alone_nothing_is_held() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    bench.subscribe("c", "s", "t", qos=0, durable=True)
    bench.settle()
    bench.cut("b", "c")
    bench.settle()
    bench.publish("a", "t", b"1", token=1)
    bench.settle()
    status = bench.status("a")
    assert (status.absent, status.held, status.absent_bytes) == (("c",), 0, 0)
    assert bench.accepted() == [1]
    bench.heal("b", "c")
    bench.settle()
    assert bench.got("c", "s") == []


def test_a_home_that_was_never_a_member_here_is_held_for() -> None:
    it = Middle(("x",))
    it["x"].say(Sets((Has("far", 3, 7, 50.0),)))
    it["x"].say(Change("far", 3, 7, (item(1, ALL),), whole=True))
    publish(it, 1)
    publish(it, 2, topic="u")
    status = it.broker.status(BEGIN)
    assert (status.absent, status.held) == (("far",), 1)
    it.effects.clear()
    it["a"].say(Grow("a", (1, 2), ("a",)))
    it["x"].say(Join("a", (1, 2)))
    it["a"].say(Roll("a", (1, 2), (("a", 1, 1, 0),)))
    effects = it["x"].say(Roll("a", (1, 2), (("far", 3, 3, 7), ("x", 1, 1, 0))))
    assert [(peer, m.numbers, unpacked(m.to[0])) for peer, m in it.heard(effects, Publish)] == [
        ("x", (1,), 0b0010)  # of a, far, m, x
    ]


def test_a_member_whose_set_is_not_here_as_it_was_when_it_joined_gets_everything_until_it_is() -> None:
    it = Middle(("x",))
    it["a"].say(Grow("a", (1, 2), ("a",)))
    it["x"].say(Join("a", (1, 2)))
    it["a"].say(Roll("a", (1, 2), (("a", 1, 1, 0),)))
    it["x"].say(Roll("a", (1, 2), (("x", 1, 1, 2),)))
    assert [peer for peer, _ in it.heard(publish(it, 1), Publish)] == ["x"]
    it["x"].say(it.change("x", Subscription("u")))  # one of two
    assert [peer for peer, _ in it.heard(publish(it, 2), Publish)] == ["x"]
    it["x"].say(it.change("x", Subscription("v")))
    assert [peer for peer, _ in it.heard(publish(it, 3), Publish)] == []


def test_another_neighbour_that_is_to_keep_copies_is_sent_all_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Middle(settings=replace(DEFAULT, acks="neighbour"), wants={"x": [ALL]})

    def publish(token: int) -> list[tuple[str, int]]:
        """Who is asked to keep copies, and of which."""
        effects = it.tell(offer_of("publisher", token, "t", b"{}", 1))
        effects += it.tell(WritesSynced(it.broker.core.sync_token))
        return [(peer, keep.publication.number) for peer, keep in it.heard(effects, Keep)]

    assert publish(1) == [("a", 1)]
    it["a"].say(Kept("0", 1, (1,)))
    assert publish(2) == [("a", 2)]
    monkeypatch.setattr(Outbox, "_keeper", lambda _: "x")
    assert publish(3) == [("x", 1), ("x", 2), ("x", 3)]
    assert it.heard(it["x"].say(Kept("0", 1, (1, 2))), Forget) == []
    assert it.heard(it["x"].say(Kept("0", 1, (3,))), Forget) == [("a", Forget("", 1, ()))]
