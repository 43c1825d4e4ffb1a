"""Turns: how much a broker does before it is told what else has happened, and whom it judges meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.overlay.bench import (
    BEGIN,
    BELOW,
    HERE,
    Bench,
    Middle,
    Peer,
    kinds,
    path,
    publication,
    publish,
    started,
)
from tests.overlay.offers import given, offer_of
from tidings.language.subscriptions import Subscription
from tidings.overlay.core import DELIVERY_BYTES, TURN_DELIVERIES
from tidings.overlay.events import (
    Effect,
    FrameReceived,
    HangUp,
    NeighbourAdded,
    SessionOpened,
    SubscriptionAsked,
    Sync,
    TimerFired,
    WritesSynced,
)
from tidings.overlay.frames import Frame, Message
from tidings.overlay.links.links import SYNCS_MAX
from tidings.overlay.publishing.messages import Done, Publish
from tidings.overlay.settings import DEFAULT
from tidings.overlay.trees.messages import Seek
from tidings.records.record import Kind, Record

ALL = Subscription("#", qos=1)


def home(sessions: int, *, durable: bool = False, turn: int = TURN_DELIVERIES) -> Middle:
    """A broker with sessions that want everything, behind a neighbour "a"."""
    it = Middle()
    for number in range(sessions):
        it.tell(SessionOpened(f"s{number}", durable))
        it.tell(SubscriptionAsked(f"s{number}", "all", ALL))
    it.tell(TimerFired())
    it.broker.core.turn_deliveries = turn
    return it


def goes_on(it: Middle) -> bool:
    """Whether the broker wants to be called again at once."""
    return it.broker.next_deadline() == BEGIN


def frame(count: int, first: int = 1, payload: bytes = b"{}", to: int = HERE) -> list[Message]:
    return [
        publish(number, number - 1, publication(number, payload), to=to)
        for number in range(first, first + count)
    ]


def delivered(effects: list[Effect]) -> list[int]:
    """The numbers of publications that sessions get."""
    return [it.publication.number for it in given(effects)]


def settled(it: Middle, effects: list[Effect]) -> list[int]:
    """The slots that the neighbour is told of."""
    return [slot for _, done in it.heard(effects, Done) for slot in done.settled]


def test_a_turn_ends_after_its_deliveries_in_the_middle_of_a_frame() -> None:
    it = home(sessions=50)
    turns = [it["a"].say(*frame(1024))]
    while goes_on(it):
        turns.append(it.tell(TimerFired()))
    # 50 deliveries for each publication, so ten of them make a turn.
    assert [len(delivered(turn)) for turn in turns] == [10] * 102 + [4]
    assert [number for turn in turns for number in delivered(turn)] == list(range(1, 1025))


def test_a_large_publication_counts_for_several_deliveries() -> None:
    it = home(sessions=1, turn=8)
    payload = b'"' + b"x" * (3 * DELIVERY_BYTES) + b'"'
    assert delivered(it["a"].say(*frame(10, payload=payload))) == [1, 2]


def test_a_copy_to_a_link_counts_for_one_delivery() -> None:
    it = Middle(("x", "y"))
    it.broker.core.turn_deliveries = 6
    effects = it["a"].say(*frame(10, to=0b1100))
    assert [message.numbers for message in it["x"].heard(effects, Publish)] == [(1, 2, 3)]
    assert goes_on(it)


def test_what_nobody_wants_is_counted_by_what_it_takes_to_find_that_out() -> None:
    it = home(sessions=0)
    it.tell(SessionOpened("s", False))
    for number in range(80):
        asked = Subscription("t", f"a{number} = 'x'", qos=1)
        it.tell(SubscriptionAsked("s", f"{number}", asked))
    it.tell(TimerFired())
    it.broker.core.spent = 0
    effects = it["a"].say(*frame(1024))
    assert delivered(effects) == []
    assert goes_on(it)
    assert 0 < len(it.broker._links.links["a"].inbox) < 1024


def test_a_long_text_that_like_looks_through_counts_for_many_deliveries() -> None:
    it = home(sessions=0)
    it.tell(SessionOpened("s", False))
    for number in range(20):
        asked = Subscription("t", f"a LIKE '%{number}{'x' * 150}%'", qos=1)
        it.tell(SubscriptionAsked("s", f"{number}", asked))
    it.tell(TimerFired())
    it.broker.core.spent = 0
    it["a"].say(*frame(10, payload=b'{"a": "' + b"y" * 200_000 + b'"}'))
    assert len(it.broker._links.links["a"].inbox) == 9


def test_control_in_a_frame_acts_before_data_that_waits() -> None:
    it = home(sessions=1, turn=2)
    data = [publish(n, n - 1, publication(n, origin="x"), to=HERE) for n in range(1, 6)]
    effects = it["x"].say(*data, Seek("a", (1, 9)))
    assert delivered(effects) == [1, 2]
    assert it.heard(effects, Seek) == [("a", Seek("a", (1, 9)))]
    assert delivered(it.tell(TimerFired())) == [3, 4]


def test_only_what_has_acted_is_acknowledged() -> None:
    it = home(sessions=1, turn=2)
    before = it["a"].sent
    link = it.broker._links.links["a"]
    it["a"].say(*frame(5))
    assert (link.received, link.acknowledged) == (before + 5, before + 2)
    it.tell(TimerFired())
    assert link.acknowledged == before + 4
    it.tell(TimerFired())
    assert link.acknowledged == before + 5


def test_a_session_that_is_resumed_gets_what_waits_once() -> None:
    it = home(sessions=1, turn=2)
    peer = it["a"]
    peer.say(*frame(5))
    link = it.broker._links.links["a"]
    read, acknowledged, session = link.received, link.acknowledged, link.session
    peer.lose()
    again = Peer(it.broker, "a", 9)
    again.session, again.received = session, 10_000
    greeted = [*again.connect(), *again.greet()]
    assert [sent.received for sent in again.heard(greeted) if hasattr(sent, "received")] == [acknowledged]
    again.received = 0
    again.welcome()
    # The neighbour sends again what was not acknowledged, and it is not taken twice.
    repeated = it.tell(FrameReceived(9, Frame(acknowledged + 1, 0, tuple(frame(3, first=3)))))
    assert link.received == read
    effects = [*repeated, *it.tell(TimerFired()), *it.tell(TimerFired())]
    assert delivered(effects) == [3, 4, 5]


def test_a_frame_counts_as_heard_when_it_is_read() -> None:
    it = home(sessions=1, turn=1)
    it["a"].say(*frame(100))
    now = BEGIN
    for _ in range(20):
        now += DEFAULT.heartbeat_s / 2
        it["a"].say(now=now)  # a heartbeat, behind publications that have not acted
        it["x"].say(now=now)
        effects = it.tell(TimerFired(), now)
        assert kinds(effects, HangUp) == []
    assert it.broker._links.waiting


def test_publications_here_and_those_of_links_go_on_in_turns() -> None:
    settings = replace(DEFAULT, link_window_messages=100)
    it = Middle(("x",), settings, wants={"x": [ALL]})
    it.broker.core.turn_deliveries = 4
    it["a"].say(*frame(40, to=BELOW))
    for token in range(1, 41):
        it.tell(offer_of("publisher", token, "t", b"{}", 1))
    order = ""
    for _ in range(30):
        effects = it.tell(TimerFired())
        for sync in kinds(effects, Sync):
            assert isinstance(sync, Sync)
            effects += it.tell(WritesSynced(sync.token))
        origins = [message.origin for message in it["x"].heard(effects, Publish)]
        assert len(origins) <= 4
        order += "".join(dict.fromkeys(origins))
    assert order.count("a") >= 8
    assert order.count("m") >= 8
    assert "mm" not in order
    assert "aa" not in order[: order.rindex("m")]


def test_a_disk_that_is_behind_stops_what_comes_over_links() -> None:
    it = home(sessions=1, durable=True, turn=10)
    syncs: list[Sync] = []
    got: list[int] = []
    effects = it["a"].say(*frame(500))
    for _ in range(3 * SYNCS_MAX):
        got += delivered(effects)
        syncs += [effect for effect in effects if isinstance(effect, Sync)]
        effects = it.tell(TimerFired())
    assert 10 * (SYNCS_MAX - 1) < len(got) <= 10 * SYNCS_MAX
    assert len(syncs) == SYNCS_MAX
    it.tell(TimerFired())
    assert delivered(it.tell(WritesSynced(syncs[-1].token)))[0] == len(got) + 1


def test_publications_here_that_wait_for_the_disk_do_not_stop_what_comes_over_links() -> None:
    it = home(sessions=1)
    for token in range(1, 5 * SYNCS_MAX):
        it.tell(offer_of("publisher", token, "t", b"{}", 1))
    assert delivered(it["a"].say(*frame(10))) == list(range(1, 11))


def test_what_waits_for_room_goes_on_turn_by_turn() -> None:
    it = Middle(("x",), replace(DEFAULT, link_window_messages=64))
    it["a"].say(*frame(200, to=BELOW))
    it.broker.core.turn_deliveries = 8
    it.broker.core.spent = 0
    effects = it["x"].say(Done("a", (1, 64), ()))
    sent = [sum(len(message.numbers) for message in it["x"].heard(effects, Publish))]
    while goes_on(it):
        effects = it.tell(TimerFired())
        sent.append(sum(len(message.numbers) for message in it["x"].heard(effects, Publish)))
    assert sent[:8] == [8] * 8
    assert sum(sent) == 64


def test_a_network_with_the_shortest_turns_delivers_everything_in_order() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    for id_ in "abc":
        bench[id_].core.turn_deliveries = 1
    bench.settle()
    for session in range(3):
        bench.subscribe("c", f"s{session}", "t", qos=1)
    bench.settle()
    for number in range(200):
        bench.publish("a", "t", b"%d" % number, 1, number)
    bench.advance(30.0)
    for session in range(3):
        assert bench.got("c", f"s{session}") == [b"%d" % number for number in range(200)]


# Verdicts of a broker that was itself late.

LATE_S = DEFAULT.heartbeat_s / 2 + DEFAULT.heartbeat_s + 0.01


def test_a_broker_that_was_late_gives_no_verdict_on_silence() -> None:
    it = Middle()
    late = BEGIN + DEFAULT.suspect_after_s + LATE_S
    assert kinds(it.tell(TimerFired(), late), HangUp) == []
    # What was unread is read now; who has still said nothing is silent.
    it["a"].say(now=late + 0.1)
    effects = it.tell(TimerFired(), late + DEFAULT.heartbeat_s / 2)
    assert kinds(effects, HangUp) == [HangUp(2, f"silent for {DEFAULT.suspect_after_s:g} s")]


def test_a_broker_that_was_late_waits_longer_for_a_greeting() -> None:
    peer = Peer(started("m"), "a", 1)
    peer.connect()
    late = BEGIN + DEFAULT.greet_within_s + LATE_S
    assert kinds(peer.handle(TimerFired(), late), HangUp) == []
    effects = [*peer.greet(late + 0.1), *peer.welcome(late + 0.1)]
    assert Kind.LINK_UP in [effect.kind for effect in effects if isinstance(effect, Record)]


def test_a_broker_that_was_late_waits_longer_for_a_connection_to_be_resumed() -> None:
    it = Middle()
    link = it.broker._links.links["x"]
    session = link.session
    it["x"].lose()
    late = BEGIN + DEFAULT.resume_within_s + LATE_S
    it.tell(TimerFired(), late)
    assert link.session == session
    it.tell(TimerFired(), late + DEFAULT.resume_within_s)
    assert link.session == ()


# Two sides that must agree whether a session goes on.


def test_a_session_that_ended_during_the_greeting_is_not_half_resumed() -> None:
    """The neighbour would go on with its numbers, and acknowledge what was never sent in the new session."""
    it = Middle()
    link = it.broker._links.links["x"]
    session = link.session
    it["x"].lose()
    again = Peer(it.broker, "x", 9)
    again.session = session
    again.connect()
    again.greet()
    now = BEGIN
    while link.session:
        now += 0.25
        it.tell(TimerFired(), now)
    effects = again.welcome(now)
    assert kinds(effects, HangUp) == [HangUp(9, "the session ended during the greeting")]
    assert link.session == ()
    fresh = Peer(it.broker, "x", 10)
    up = fresh.link(now)
    assert [it.reason for it in up if isinstance(it, Record) and it.kind is Kind.LINK_UP] == ["new"]


@pytest.mark.parametrize("ended", ["a", "b"])
def test_whichever_side_has_ended_the_session_both_agree_in_the_end(ended: str) -> None:
    bench = Bench("ab", path("a", "b"))
    bench.settle()
    bench.subscribe("b", "s", "t", qos=1, durable=True)
    bench.settle()
    for number in range(20):
        bench.publish("a", "t", b"%d" % number, 1, number)
    bench.cut("a", "b", block=False)
    for id_ in "ab":
        bench.tell(id_, NeighbourAdded("b" if id_ == "a" else "a"))
    for _ in range(4):
        for box in bench.waiting():
            bench.step(box)
    link = bench[ended]._links.links["b" if ended == "a" else "a"]
    bench[ended].core.now += DEFAULT.resume_within_s
    bench[ended]._links.on_resume_late(link.peer)
    bench.advance(30.0)
    logged = [str(effect) for _, effect in bench.seen]
    assert not [text for text in logged if "never sent" in text]
    assert bench.got("b", "s") == [b"%d" % number for number in range(20)]
