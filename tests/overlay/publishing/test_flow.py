"""Flow: a bounded amount is under way on each link, the rest waits where it came from, nothing locks up."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.overlay.bench import BEGIN, HERE, Bench, Middle, kinds, path, publication, publish, ring
from tests.overlay.offers import offer_of
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import Effect, Pause, PublicationsOffered, Resume, Sync, WritesSynced
from tidings.overlay.publication import Batch, Head
from tidings.overlay.publishing.batches import batch_of
from tidings.overlay.publishing.messages import Done, Publish
from tidings.overlay.settings import DEFAULT
from tidings.records.record import Kind, Record

ALL = Subscription("#", qos=1)
NARROW = replace(DEFAULT, link_window_messages=4)

X, Y = 0b0100, 0b1000
"""The bits of the children in the epoch of `Middle`."""


def offer(it: Middle, count: int, qos: int = 1, payload: bytes = b"{}", first: int = 1) -> list[Effect]:
    effects: list[Effect] = []
    for token in range(first, first + count):
        effects += it.tell(offer_of("publisher", token, "t", payload, qos))
    return effects


def numbers(it: Middle, peer: str, effects: list[Effect]) -> list[int]:
    return [number for message in it[peer].heard(effects, Publish) for number in message.numbers]


@pytest.mark.parametrize("qos", [0, 1])
def test_no_more_than_a_window_is_under_way_on_a_link(qos: int) -> None:
    it = Middle(settings=NARROW, wants={"x": [ALL]})
    assert numbers(it, "x", offer(it, 10, qos)) == [1, 2, 3, 4]
    assert it.broker.status(BEGIN).backlog_bytes > 0
    assert numbers(it, "x", it["x"].say(Done("a", (1, 2), ()))) == [5, 6]
    assert numbers(it, "x", it["x"].say(Done("a", (3, 6), ()))) == [7, 8, 9, 10]
    assert it.broker.status(BEGIN).backlog_bytes == 0


def test_a_window_is_counted_in_bytes_too() -> None:
    it = Middle(settings=replace(DEFAULT, link_window_bytes=1000), wants={"x": [ALL]})
    assert numbers(it, "x", offer(it, 5, payload=b"." * 500)) == [1, 2]


def test_what_has_no_room_waits_at_the_hop_and_fills_the_window_of_the_hop_before() -> None:
    it = Middle(settings=NARROW)
    for number in range(1, 11):
        effects = it["a"].say(publish(number, number - 1, publication(number)))
        assert numbers(it, "x", effects) == ([number] if number <= 4 else [])
        assert it.heard(effects, Done) == []
    effects = it["x"].say(Done("a", (1, 3), ()))
    assert numbers(it, "x", effects) == [5, 6, 7]
    assert it.heard(effects, Done) == [("a", Done("a", (1, 3), ()))]


def test_what_waits_keeps_its_order_although_some_of_it_could_go() -> None:
    it = Middle(("x", "y"), NARROW)
    for number in range(1, 6):
        it["a"].say(publish(number, number - 1, publication(number), to=HERE | X))
    effects = it["a"].say(publish(6, 5, publication(6), to=HERE | Y))
    assert numbers(it, "y", effects) == []
    effects = it["x"].say(Done("a", (1, 1), ()))
    assert (numbers(it, "x", effects), numbers(it, "y", effects)) == ([5], [6])


@pytest.mark.parametrize(
    ("settled", "answered"),
    [
        ((1, 5), (1, 5)),
        ((1, 2**62), (1, 5)),
        ((-(2**62), 2**62), (1, 5)),
        ((2, 3), (2, 3)),
        ((2, 2, 4, 9), (2, 2, 4, 5)),
        ((5, 2**62, 1, 1), (1, 1, 5, 5)),
        ((1, 5, 1, 5, 1, 5), (1, 5)),
        ((3, 2), ()),
        ((6, 2**62), ()),
        ((1,), ()),
    ],
)
def test_of_ranges_of_slots_only_those_under_way_count(
    settled: tuple[int, ...], answered: tuple[int, ...]
) -> None:
    it = Middle()
    for number in range(1, 6):
        it["a"].say(publish(number, number - 1, publication(number)))
    done = it.heard(it["x"].say(Done("a", settled, ())), Done)
    assert done == ([("a", Done("a", answered, ()))] if answered else [])


def test_a_full_link_does_not_hold_up_what_comes_from_another() -> None:
    it = Middle(("x", "y", "z"), NARROW)
    for number in range(1, 6):
        it["a"].say(publish(number, number - 1, publication(number), to=HERE | X))
    effects = it["z"].say(publish(1, 0, publication(1, origin="z"), to=HERE | Y))
    assert numbers(it, "y", effects) == [1]


def test_a_new_session_begins_with_an_empty_window() -> None:
    bench = Bench("ab", path("a", "b"), NARROW)
    bench.settle()
    bench.subscribe("b", "s", "t", qos=1, durable=True)
    bench.settle()
    for number in range(20):
        bench.publish("a", "t", b"%d" % number, token=number)
    bench.cut("a", "b")
    bench.advance(3.0)
    bench.heal("a", "b")
    bench.settle()
    assert bench.got("b", "s") == [b"%d" % number for number in range(20)]


def under_way(bench: Bench) -> int:
    return max(
        (
            channel.under_way
            for id_ in bench.running()
            for channel in bench[id_]._publications.flow.channels.values()
        ),
        default=0,
    )


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("trees", [1, 4])
def test_four_brokers_in_a_ring_that_all_publish_at_once_do_not_lock_up(qos: int, trees: int) -> None:
    tight = replace(DEFAULT, link_window_messages=2, link_unacked_bytes=200, trees=trees)
    bench = Bench("abcd", ring("a", "b", "c", "d"), tight)
    bench.settle()
    for id_ in "abcd":
        bench.subscribe(id_, f"s{id_}", "#", qos=1)
    bench.settle()
    for number in range(40):
        for id_ in "abcd":
            bench.publish(id_, f"t{number % 5}/x", f"{id_}{number}".encode(), qos, number)
    rng = random.Random(1)
    for _ in range(3000):
        if not (boxes := bench.waiting()):
            break
        bench.step(rng.choice(boxes))
        assert under_way(bench) <= 2
    # Answers to quality 0 come with the heartbeats, a quarter of the window at a time.
    bench.advance(300.0)
    everything = sorted(f"{id_}{number}".encode() for id_ in "abcd" for number in range(40))
    for id_ in "abcd":
        assert sorted(bench.got(id_, f"s{id_}")) == everything
    assert all(bench.status(id_).backlog_bytes == 0 for id_ in "abcd")


def test_publishers_are_paused_when_too_much_waits_and_go_on_when_half_of_it_is_gone() -> None:
    it = Middle(settings=replace(NARROW, backlog_bytes=1000), wants={"x": [ALL]})
    effects = offer(it, 4, qos=0, payload=b"." * 435)
    assert kinds(effects, Pause, Resume) == []
    effects = offer(it, 3, qos=0, payload=b"." * 435, first=5)
    assert kinds(effects, Pause, Resume) == [Pause()]
    assert it.broker.status(BEGIN).paused
    assert kinds(it["x"].say(Done("a", (1, 1), ())), Pause, Resume) == []
    assert kinds(it["x"].say(Done("a", (2, 3), ())), Pause, Resume) == [Resume()]
    assert not it.broker.status(BEGIN).paused


def test_publishers_are_paused_while_the_disk_does_not_keep_up() -> None:
    it = Middle(settings=replace(DEFAULT, backlog_bytes=1000), wants={"x": [ALL]})
    effects = offer(it, 3, payload=b"." * 435)
    assert kinds(effects, Pause, Resume) == [Pause()]
    (last,) = kinds(effects, Sync)[-1:]
    assert isinstance(last, Sync)
    assert kinds(it.tell(WritesSynced(last.token)), Pause, Resume) == [Resume()]


def test_a_publisher_of_quality_0_that_does_not_pause_is_not_heard_beyond_a_bound() -> None:
    it = Middle(settings=replace(NARROW, backlog_bytes=1000), wants={"x": [ALL]})
    effects = offer(it, 20, qos=0, payload=b"." * 435)
    dropped = [r for r in effects if isinstance(r, Record) and r.kind is Kind.SUPPRESSED]
    assert {r.reason for r in dropped} == {"queue full"}
    assert it.broker.status(BEGIN).backlog_bytes <= 2000
    assert len(dropped) == 20 - 4 - it.broker.status(BEGIN).backlog_bytes // 500


def test_quality_1_is_taken_although_publishers_were_paused() -> None:
    it = Middle(settings=replace(NARROW, backlog_bytes=1000), wants={"x": [ALL]})
    offer(it, 20, payload=b"." * 435)
    got: list[int] = [1, 2, 3, 4]
    while got[-1] < 20:
        got += numbers(it, "x", it["x"].say(Done("a", (got[-1] - 3, got[-1]), ())))
    assert got == list(range(1, 21))


@pytest.mark.parametrize("qos", [0, 1])
def test_what_waits_keeps_no_more_than_itself(qos: int) -> None:
    """Of many publications of one read few may be wanted elsewhere: the others must not wait with them."""
    it = Middle(("x",), NARROW, wants={"x": [Subscription("t", "n = 1", qos=qos)]})
    payloads = [b'{"n":%d,"pad":"%s"}' % (number % 50, b"." * 100) for number in range(500)]
    batch = Batch.offered(Head("t", qos, "p"), *payloads)
    effects = it.tell(PublicationsOffered("p", range(500), batch))
    sent = it["x"].heard(effects, Publish)
    publications = it.broker._publications
    (waiting,) = publications._backlogs["a"]
    wanted = [payload for payload in payloads if payload.startswith(b'{"n":1,')]
    assert sum(len(message.numbers) for message in sent) == 4
    assert (
        sum(map(len, waiting.batch.payloads.split(b"}{"))) <= len(waiting.batch.data) <= len(b"".join(wanted))
    )
    assert waiting.contents is None
    assert all(len(held.batch.data) <= len(b"".join(wanted)) for held in publications.outbox.held.values())
    got = [payload for message in sent for payload in (one.payload for one in batch_of(message))]
    while len(got) < len(wanted):
        effects = it["x"].say(Done("a", (1, len(got)), ()))
        got += [one.payload for message in it["x"].heard(effects, Publish) for one in batch_of(message)]
    assert got == wanted
