"""Copies at a neighbour: with acks = "neighbour" a publication outlives the disk of its origin."""

from __future__ import annotations

from dataclasses import replace

from tests.overlay.bench import BEGIN, Bench, Middle, Peer, kinds, path, publication
from tests.overlay.offers import offer_of
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import (
    Accept,
    Effect,
    Erase,
    Sync,
    TimerFired,
    Write,
    WritesSynced,
)
from tidings.overlay.publishing.messages import Done, Forget, Keep, Kept
from tidings.overlay.settings import DEFAULT

TWO = replace(DEFAULT, acks="neighbour")
ALL = Subscription("#", qos=1)


def offer(it: Middle, token: int = 1) -> list[Effect]:
    return it.tell(offer_of("publisher", token, "t", b"{}", 1))


def synced(it: Middle, effects: list[Effect]) -> list[Effect]:
    (sync,) = kinds(effects, Sync)
    assert isinstance(sync, Sync)
    return it.tell(WritesSynced(sync.token))


def test_the_client_is_told_when_a_second_broker_has_a_copy_too() -> None:
    it = Middle(settings=TWO)
    effects = offer(it)
    ((keeper, keep),) = it.heard(effects, Keep)
    assert keeper == "a"
    assert kinds(synced(it, effects), Accept) == []
    kept = Kept(keep.publication.stream, keep.publication.incarnation, (keep.publication.number,))
    assert kinds(it["a"].say(kept), Accept) == [Accept("publisher", [1])]


def test_a_copy_without_a_disk_here_is_not_enough() -> None:
    it = Middle(settings=TWO)
    effects = offer(it)
    ((_, keep),) = it.heard(effects, Keep)
    kept = Kept(keep.publication.stream, keep.publication.incarnation, (keep.publication.number,))
    assert kinds(it["a"].say(kept), Accept) == []
    assert kinds(synced(it, effects), Accept) == [Accept("publisher", [1])]


def test_nothing_is_accepted_without_a_copy_while_all_links_are_lost() -> None:
    it = Middle(settings=TWO)
    for peer in it.peers.values():
        peer.lose()
    later = BEGIN + TWO.resume_within_s
    it.tell(TimerFired(), later)
    assert {link.state for link in it.broker.status(later).links} == {"down"}
    effects = it.tell(offer_of("publisher", 1, "t", b"{}", 1), later)
    assert kinds(synced(it, effects), Accept) == []


def test_nothing_is_accepted_without_a_copy_before_it_is_known_who_is_there() -> None:
    bench = Bench("ab", path("a", "b"), TWO)
    bench.settle()
    bench.kill("b")
    bench.settle()
    bench.blocked.add(frozenset("ab"))
    bench.start("b")
    bench.publish("b", "t", b"1", token=1)
    bench.settle()
    assert bench.accepted() == []
    bench.heal("a", "b")
    bench.settle()
    assert bench.accepted() == [1]


def test_a_broker_alone_needs_no_copy() -> None:
    bench = Bench("a", settings=TWO)
    bench.publish("a", "t", b"1", token=1)
    bench.settle()
    assert bench.accepted() == [1]


def test_without_that_setting_nobody_is_asked_to_keep() -> None:
    it = Middle(wants={"x": [ALL]})
    effects = offer(it)
    assert it.heard(effects, Keep) == []
    assert kinds(synced(it, effects), Accept) == [Accept("publisher", [1])]


def test_a_neighbour_says_that_it_keeps_a_copy_when_it_is_on_its_disk() -> None:
    it = Middle()
    effects = it["x"].say(Keep(publication(5, origin="x")))
    (write,) = kinds(effects, Write)
    assert isinstance(write, Write)
    assert write.key.startswith("kept/x/1/")
    assert it.heard(effects, Kept) == []
    assert it.heard(synced(it, effects), Kept) == [("x", Kept("a", 1, (5,)))]


def test_a_copy_is_forgotten_when_everyone_has_the_publication() -> None:
    it = Middle(settings=TWO, wants={"x": [ALL]})
    effects = offer(it)
    ((_, keep),) = it.heard(effects, Keep)
    synced(it, effects)
    stream, number = keep.publication.stream, keep.publication.number
    it["a"].say(Kept(stream, 1, (number,)))
    assert it.heard(it["x"].say(Done("a", (1, 1), ())), Forget) == [("a", Forget(stream, 1, (number,)))]


def test_a_copy_that_comes_too_late_is_forgotten_at_once() -> None:
    it = Middle(settings=TWO)
    effects = offer(it)
    ((_, keep),) = it.heard(effects, Keep)
    synced(it, effects)
    kept = Kept(keep.publication.stream, 1, (keep.publication.number,))
    it["a"].say(kept)  # accepted, and everyone has it: nothing is held any more
    assert it.broker.status(BEGIN).held == 0
    assert it.heard(it["a"].say(kept), Forget) == [
        ("a", Forget(keep.publication.stream, 1, (keep.publication.number,)))
    ]


def test_copies_of_an_earlier_life_are_not_forgotten() -> None:
    it = Middle(settings=TWO)
    incarnation = it.broker.core.incarnation
    assert it.heard(it["a"].say(Kept("a", incarnation + 1, (1, 2))), Forget) == []
    assert it.heard(it["a"].say(Kept("a", incarnation, (1, 2))), Forget) == [
        ("a", Forget("a", incarnation, (1, 2)))
    ]


def test_a_neighbour_that_is_back_says_what_it_keeps() -> None:
    it = Middle(settings=TWO)
    synced(it, offer(it))
    for number in (5, 6):
        synced(it, it["x"].say(Keep(publication(number, origin="x"))))
    it["x"].lose()
    later = BEGIN + TWO.resume_within_s
    it.tell(TimerFired(), later)
    back = Peer(it.broker, "x", 99, boot=2)
    effects = back.link(later)
    assert back.heard(effects, Kept) == [Kept("a", 1, (5, 6))]
    assert back.heard(effects, Forget) == []


def test_a_neighbour_that_is_told_to_forget_erases_its_copy() -> None:
    it = Middle()
    effects = it["x"].say(Keep(publication(5, origin="x")))
    (write,) = kinds(effects, Write)
    assert isinstance(write, Write)
    assert kinds(it["a"].say(Forget("a", 1, (5,))), Erase) == []  # not its business
    assert kinds(it["x"].say(Forget("a", 1, (5,))), Erase) == [Erase(write.key)]


def test_while_its_origin_is_there_a_copy_is_not_sent() -> None:
    bench = Bench("abc", [("a", "b"), ("a", "c")], TWO)
    bench.settle()
    bench.subscribe("c", "s", "t", qos=1)
    bench.settle()
    bench.publish("b", "t", b"1")
    bench.settle()
    assert bench.got("c", "s") == [b"1"]
    assert bench.accepted() == [0]
    assert [bench.keys(id_, "held/") + bench.keys(id_, "kept/") for id_ in "abc"] == [[], [], []]


def test_a_publication_outlives_the_disk_of_its_origin() -> None:
    bench = Bench("abc", [("a", "b"), ("a", "c")], TWO)
    bench.settle()
    bench.subscribe("c", "s", "t", qos=1, durable=True)
    bench.settle()
    bench.cut("a", "c")
    bench.settle()
    for number in range(3):
        bench.publish("b", "t", b"%d" % number, token=number)
        bench.run()
    assert bench.accepted("b") == [0, 1, 2]
    bench.kill("b")
    bench.settle()
    bench.start("b", disk=False)
    bench.settle()
    bench.heal("a", "c")
    bench.settle()
    assert bench.got("c", "s") == [b"0", b"1", b"2"]
    bench.publish("b", "t", b"3", token=3)
    bench.settle()
    assert bench.got("c", "s") == [b"0", b"1", b"2", b"3"]
    assert [bench.keys(id_, "held/") + bench.keys(id_, "kept/") for id_ in "abc"] == [[], [], []]


def test_copies_stay_where_they_are_while_their_origin_comes_back() -> None:
    """It may lose its disk before it has asked anybody to keep copies again."""
    bench = Bench("abc", [("a", "b"), ("a", "c")], TWO)
    bench.settle()
    bench.subscribe("c", "s", "t", qos=1, durable=True)
    bench.settle()
    bench.cut("a", "c")
    bench.settle()
    for number in range(3):
        bench.publish("b", "t", b"%d" % number, token=number)
        bench.run()
    assert bench.accepted("b") == [0, 1, 2]
    bench.kill("b")
    bench.settle()
    mark = bench.mark()
    bench.start("b")
    while bench.waiting():
        bench.step(bench.waiting()[0])
        assert len(bench.keys("a", "kept/")) == 3
    bench.settle()
    assert [it.numbers for source, _, it in bench.said(Kept, mark) if source == "a"] == [(1, 2, 3)]
    assert bench.said(Keep, mark) == []  # it knows that they are there
    bench.kill("b")
    bench.settle()
    bench.start("b", disk=False)
    bench.settle()
    bench.heal("a", "c")
    bench.settle()
    assert bench.got("c", "s") == [b"0", b"1", b"2"]
    assert [bench.keys(id_, "held/") + bench.keys(id_, "kept/") for id_ in "abc"] == [[], [], []]


def test_who_kept_copies_forgets_them_when_the_next_one_has_all() -> None:
    bench = Bench("abcd", [("b", "d"), ("b", "c"), ("c", "d"), ("c", "a")], TWO)
    bench.settle()
    bench.subscribe("a", "s", "t", qos=1, durable=True)
    bench.settle()
    bench.kill("a")  # what is published is held for it
    bench.settle()
    for number in range(3):
        bench.publish("d", "t", b"%d" % number, token=number)
        bench.run()
    bench.settle()
    keeper = next(id_ for id_ in "bc" if bench.keys(id_, "kept/"))
    (other,) = set("bc") - {keeper}
    bench.slow_disks.add(other)
    bench.cut("d", keeper)
    bench.settle()
    bench.heal("d", keeper)
    bench.settle()
    assert len(bench.keys(keeper, "kept/")) == 3
    bench.slow_disks.clear()
    bench.sync(other)
    bench.settle()
    assert sorted(len(bench.keys(id_, "kept/")) for id_ in "bc") == [0, 3]
    bench.start("a")
    bench.settle()
    assert bench.got("a", "s") == [b"0", b"1", b"2"]


def test_a_copy_outlives_the_restart_of_its_keeper() -> None:
    bench = Bench("abc", [("a", "b"), ("a", "c")], TWO)
    bench.settle()
    bench.subscribe("c", "s", "t", qos=1, durable=True)
    bench.settle()
    bench.cut("a", "c")
    bench.settle()
    bench.publish("b", "t", b"1", token=1)
    bench.run()
    bench.kill("b")
    bench.kill("a")
    bench.settle()
    bench.start("a")
    bench.heal("a", "c")
    bench.settle()
    assert bench.got("c", "s") == [b"1"]


def test_the_sessions_of_the_keeper_get_it_too_and_once() -> None:
    bench = Bench("ab", path("a", "b"), TWO)
    bench.settle()
    bench.subscribe("a", "s", "t", qos=1)
    bench.settle()
    bench.publish("b", "t", b"1", token=1)
    bench.run()
    bench.kill("b")
    bench.settle()
    bench.start("b", disk=False)
    bench.settle()
    assert bench.got("a", "s") == [b"1"]


def test_when_the_keeper_is_lost_another_is_asked_before_the_client_is_told() -> None:
    bench = Bench("abc", [("b", "a"), ("b", "c"), ("a", "c")], TWO)
    bench.settle()
    bench.slow_disks.add("a")
    since = bench.mark()
    bench.publish("b", "t", b"1", token=1)
    bench.run()
    assert [target for _, target, _ in bench.said(Keep, since)] == ["a"]
    assert bench.accepted() == []
    bench.kill("a")
    bench.settle()
    assert [target for _, target, _ in bench.said(Keep, since)] == ["a", "c"]
    assert bench.accepted() == [1]
