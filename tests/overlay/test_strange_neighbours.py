"""Neighbours that say anything at any time: a broker may part from them, and never breaks."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.overlay.bench import BEGIN, EPOCH, Middle, Peer, item, kinds, publication, publish
from tests.overlay.offers import given as given_in
from tests.overlay.offers import offer_of
from tidings.language.declarations import parse_topic
from tidings.language.regions import Unknown
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import (
    ConnectionLost,
    Deliver,
    Effect,
    Event,
    FrameReceived,
    Grant,
    HangUp,
    NeighbourAdded,
    SessionClosed,
    SessionOpened,
    Stop,
    SubscriptionAsked,
    Sync,
    TimerFired,
    WritesSynced,
)
from tidings.overlay.frames import Frame, Message
from tidings.overlay.links.messages import Bye, Greet, Refuse, Welcome
from tidings.overlay.publication import Publication, Told
from tidings.overlay.publishing.batches import unpacked
from tidings.overlay.publishing.messages import Done, Forget, Keep, Kept, Publish
from tidings.overlay.routing import confirmations
from tidings.overlay.routing.confirmations import NAMED_MAX
from tidings.overlay.routing.messages import (
    FILTER,
    Catalogue,
    Change,
    Confirm,
    Enter,
    Entry,
    Fetch,
    Has,
    Item,
    Sets,
)
from tidings.overlay.settings import Settings
from tidings.overlay.trees.messages import Distance, Grow, Join, Regrow, Roll, Seek

ROOTS = [*["a", "m", "x", "zz", "A"] * 4, "", "\t"]
EPOCHS = [EPOCH, EPOCH, (1, 2), (1, 3), (2, 1), (0, 0), (-1, 5), (2**64 - 1, 1)]
NUMBERS = [0, 1, 2, 3, 5, -1, 2**40, 2**64 - 1]
TOPICS = ["t", "t/u", "roads/a1", "#", "", "$s", "a//b", "\0"]
PAYLOADS = [b"", b"{}", b'{"n": 4}', b'{"severity": 1}', b"\xff", b"[" * 50, b'{"severity": "high"}']
SUBSCRIPTIONS = [
    Subscription("#", qos=1),
    Subscription("t/#", "n > 3"),
    Subscription("t", "n > 3", Unknown.ASSUME, 2, 5),
    Subscription("t", "n >"),
    Subscription("a/#/b"),
    Subscription("t", qos=9),
    Subscription("t", every_us=-1),
]
STRANGE: list[object] = [
    ["a/#/b", 1, 0],
    ["t", 9, 0],
    ["t", 1, -1],
    ["t"],
    ["t", 1, 0, [[[]]]],
    ["t", 1, 0, [[["n", 1]]]],
    ["t", 1, 0, [[[[["n"]]]]]],
    ["t", 1, 0, [{"n": 1}]],
]
MISREAD = [*map(msgspec.msgpack.encode, STRANGE), b"", b"\xff", b"\x91" * 5000]
"""Items of a set that cannot be read."""

VALUES = [item(0, asked).value for asked in SUBSCRIPTIONS[:3]] + MISREAD

TOLD = Told("t", "e", 1, 1, complete=True, seat="a")
TREES = [parse_topic("name='roads/+road'\nkind='plain'\nroot='x'\n[fields]\nseverity={type='int'}\n")]


def some_publication(rng: random.Random) -> Publication:
    return Publication(
        rng.choice(ROOTS),
        rng.choice(NUMBERS),
        rng.choice(["0", "a", ""]),
        rng.choice(NUMBERS),
        rng.choice(TOPICS),
        rng.choice(PAYLOADS),
        rng.choice([0, 1, 1, 2, 9]),
        rng.choice(NUMBERS),
        "",
        rng.choice(["", "", "application/msgpack", "text/plain", "???"]),
    )


def some_entry(rng: random.Random) -> Entry:
    name = rng.choice(["t", "roads/+road", "#", "v", "", "\0"])
    root = rng.choice(["a", "x", "m", ""])
    declared = f"name = {json.dumps(name)}\nkind = 'plain'\nroot = '{root}'"
    return Entry(
        rng.choice(["topic", "topic", "view", "song", ""]),
        name,
        rng.choice([1, 2, 3, 7, 0, -1, 2**63]),
        rng.choice(ROOTS),
        rng.choice([declared, declared, "", "name =", '{"name": "v", "from": "t/#"}', "[" * 500, "\ufffd"]),
        rng.choice([0, 0, 1, -1, 2**62]),
        rng.choice([(), (1, 2), (2**64 - 1,), tuple(range(99))]),
    )


def some_item(rng: random.Random) -> Item:
    return Item(rng.choice([FILTER, FILTER, FILTER, 2, 0, -1]), rng.choice(NUMBERS), rng.choice(VALUES))


def some_publish(rng: random.Random) -> Publish:
    """Publications in a message; mostly with one of its lists at odds with the others."""
    pick: Any = rng.choice
    sent = publish(
        pick(NUMBERS), pick(NUMBERS), some_publication(rng), epoch=pick(EPOCHS[:3]), root=pick(ROOTS[:3])
    )
    return msgspec.structs.replace(sent, **pick([{}, {}, some_odds(rng)]))


def some_odds(rng: random.Random) -> dict[str, Any]:
    """A list of a message with publications that may not fit to the others."""
    pick: Any = rng.choice
    few = tuple(pick(NUMBERS) for _ in range(rng.randint(0, 3)))
    places = tuple(pick([b"", b"\xff" * 99, (), (0, 1, 2), (-1, 10**9)]) for _ in range(pick([0, 1, 2])))
    odds: dict[str, Any] = pick(
        [
            {"numbers": few},
            {"previous": few},
            {"which": few},
            {"at_us": few},
            {"ends": few},
            {"to": places},
            {"must": places},
            {"heads": ()},
            {"payloads": b"?"},
            {"hops": pick(NUMBERS)},
        ]
    )
    return odds


def some_message(rng: random.Random) -> Message:
    """Any message, true to its types and to nothing else."""
    pick: Any = rng.choice
    root, epoch, number = pick(ROOTS), pick(EPOCHS), pick(NUMBERS)
    boot = pick([0, 1, 1, 1, 2])
    items = tuple(some_item(rng) for _ in range(rng.randint(0, 3)))
    known = tuple((pick(ROOTS), pick([1, boot]), pick(NUMBERS)) for _ in range(rng.randint(0, 3)))
    slots = tuple(pick(NUMBERS) for _ in range(rng.randint(0, 4)))
    it = some_publication(rng)
    said: Message = pick(
        [
            Greet((1, 2), root, "tidings", 1, ("trees=1",), b"", (), 0, 1),
            Welcome(number, b""),
            Refuse("no"),
            Bye(for_good=rng.random() < 0.5),
            Distance(root, epoch, pick([-1, 0, 1, 5, 2**64 - 1])),
            Seek(root, epoch),
            Grow(root, epoch, tuple(rng.sample(ROOTS, rng.randint(0, 3)))),
            Join(root, epoch),
            Regrow(root, epoch),
            Roll(root, epoch, ((root, number, number, number),), number),
            Roll(root, epoch, (("a", 1, 1, 0), (root, boot, boot, number))),
            Enter(some_entry(rng)),
            Catalogue(tuple(some_entry(rng) for _ in range(rng.randint(0, 3))), rng.random() < 0.3),
            Sets(tuple(Has(*home, pick([-1.0, 0.0, 5.0, 1e300])) for home in known)),
            Sets((), tuple(known)),
            Fetch(pick(ROOTS), boot, number),
            Change(pick(["a", "x", "y"]), 1, pick([1, 2, 3]), items, slots),
            Change(root, boot, number, items, slots, rng.random() < 0.3, rng.random() < 0.3),
            Confirm("a", EPOCH, known, tuple(rng.sample(ROOTS, rng.randint(0, 3)))),
            Confirm(root, epoch, known),
            some_publish(rng),
            some_publish(rng),
            Done(root, slots, ()),
            Done("a", (1, number), tuple((slot, pick([b"\xff", (), (0, 2), (-1, 10**9)])) for slot in slots)),
            Keep(it),
            Kept(it.stream, it.incarnation, slots),
            Forget(it.stream, it.incarnation, slots),
        ]
    )
    return said


def some_event(rng: random.Random) -> Event:
    session = rng.choice(["c1", "c2"])
    events: list[Event] = [
        SessionOpened(session, rng.random() < 0.5),
        SessionClosed(session),
        SubscriptionAsked(session, "s", rng.choice(SUBSCRIPTIONS)),
        offer_of(session, 1, rng.choice(TOPICS), rng.choice(PAYLOADS), rng.choice([0, 1, 2, 9])),
        TimerFired(),
    ]
    return rng.choice(events)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(200))
def test_whatever_neighbours_say_a_broker_does_not_break(seed: int) -> None:
    rng = random.Random(seed)
    choice = Settings(
        acks=rng.choice(["origin", "neighbour"]),
        overflow=rng.choice(["drop", "block"]),
        link_window_messages=rng.choice([2, 100]),
        absent_hold_bytes=rng.choice([100, 10**6]),
    )
    it = Middle(("x", "y"), choice, topics=TREES)
    connections = len(it.peers)
    now = BEGIN
    for _ in range(80):
        now += rng.choice([0.0, 0.0, 0.1, 2.0])
        peer = it[rng.choice(["a", "x", "y"])]
        roll = rng.random()
        if roll < 0.6:
            effects = peer.say(*[some_message(rng) for _ in range(rng.randint(1, 3))], now=now)
        elif roll < 0.65:
            first, ack = rng.choice(NUMBERS), rng.choice(NUMBERS)
            effects = it.tell(FrameReceived(peer.connection, Frame(first, ack, (some_message(rng),))), now)
        else:
            effects = it.tell(some_event(rng), now)
        for effect in effects:
            if isinstance(effect, Sync):
                it.tell(WritesSynced(effect.token), now)
            assert not isinstance(effect, Stop) or "id 'm'" in effect.reason
        if rng.random() < 0.3:
            for id_, old in it.peers.items():
                if {link.peer: link.state for link in it.broker.status(now).links}.get(id_) != "up":
                    it.tell(ConnectionLost(old.connection, "cut"), now)
                    connections += 1
                    it.peers[id_] = Peer(it.broker, id_, connections)
                    it.peers[id_].link(now)
    it.broker.status(now, filters=True)
    # It still serves its own clients.
    it.tell(SessionOpened("last"), now)
    it.tell(SubscriptionAsked("last", "s", Subscription("last")), now)
    effects = it.tell(offer_of("last", 1, "last", b"{}", 0), now)
    assert ("last", "s") in [pair for it in given_in(effects) for pair in it.subscriptions]


def state(it: Middle, peer: str) -> str:
    return next(link.state for link in it.broker.status(BEGIN).links if link.peer == peer)


ODDS: list[dict[str, Any]] = [
    {"numbers": ()},
    {"numbers": (1, 2)},
    {"previous": ()},
    {"to": ()},
    {"to": (b"", b"")},
    {"must": ((), ())},
    {"heads": ()},
    {"which": (1,)},
    {"which": (-1,)},
    {"which": (0, 0)},
    {"at_us": (1, 2)},
    {"ends": ()},
    {"ends": (1,)},
    {"ends": (-1,)},
    {"payloads": b"{}{}"},
    {"told": (TOLD, TOLD)},
]


@pytest.mark.parametrize("odds", ODDS, ids=repr)
def test_who_sends_publications_whose_lists_do_not_fit_is_renounced(odds: dict[str, Any]) -> None:
    it = Middle()
    it.tell(SessionOpened("client"))
    it.tell(SubscriptionAsked("client", "s", Subscription("#")))
    sent = publish(1, 0, publication(1))
    effects = it["a"].say(msgspec.structs.replace(sent, **odds))
    assert state(it, "a") == "down"
    assert kinds(effects, Deliver) == []
    assert it.heard(effects, Publish) == []
    assert state(it, "x") == "up"


def test_destinations_that_are_no_members_are_nobody() -> None:
    it = Middle()
    for number, places in enumerate([b"\xff" * 10_000, (2, 5, -1, 1 << 70)], 1):
        sent = publish(number, number - 1, publication(number))
        effects = it["a"].say(msgspec.structs.replace(sent, to=(places,)))
        assert [(peer, unpacked(message.to[0])) for peer, message in it.heard(effects, Publish)] == [
            ("x", 0b100)
        ]
    assert state(it, "a") == "up"


def test_nobody_speaks_for_this_brokers_own_set() -> None:
    it = Middle()
    it.tell(SessionOpened("client"))
    it.tell(SubscriptionAsked("client", "s", Subscription("t")))
    before = it.broker.status(BEGIN, filters=True).sets
    for boot in (1, 2):
        it["x"].say(Change("m", boot, 5, (item(1, Subscription("wrong")),), (1,), whole=True))
        it["x"].say(Sets((Has("m", boot, 7),)))
    assert it.broker.status(BEGIN, filters=True).sets == before
    assert state(it, "x") == "up"


WRONG_IDS = ["", "\t127.0.0.1:1883", "two\nlines", "n" * 256]


@pytest.mark.parametrize("wrong", WRONG_IDS)
@pytest.mark.parametrize(
    "say",
    [
        lambda id_: Sets((Has(id_, 1, 1),)),
        lambda id_: Sets((), ((id_, 1, 1),)),
        lambda id_: Change(id_, 1, 1, ()),
        lambda id_: Confirm("a", EPOCH, ((id_, 1, 1),)),
        lambda id_: Confirm("a", EPOCH, (), ("b", id_)),
        lambda id_: Roll("a", (1, 2), (("x", 1, 1, 0), (id_, 1, 1, 0))),
    ],
    ids=["set", "word", "change", "confirmed", "late", "member"],
)
def test_who_names_a_broker_that_cannot_be_is_renounced(say: Callable[[str], Message], wrong: str) -> None:
    it = Middle()
    it["a"].say(Grow("a", (1, 2), ("a",)))
    it["x"].say(Join("a", (1, 2)))
    it["x"].say(say("y"))
    assert [link.state for link in it.broker.status(BEGIN).links] == ["up", "up"]
    effects = it["x"].say(say(wrong))
    assert [effect.reason.endswith("1 to 255 printable characters") for effect in hang_ups(effects)] == [True]
    assert max(len(effect.reason) for effect in hang_ups(effects)) < 150
    assert [one.home for one in it.broker.status(BEGIN).sets if one.home == wrong] == []


def test_what_is_held_for_an_address_is_not_for_who_calls_itself_like_it() -> None:
    it = Middle()
    it.tell(NeighbourAdded("127.0.0.1:1883"))
    it["x"].say(Sets((Has("\t127.0.0.1:1883", 1, 0, 1e6),)))
    assert it.broker.status(BEGIN).absent == ()


@pytest.mark.parametrize("count", [4_096, 4_097])
def test_an_epoch_has_no_more_members_than_there_can_be(count: int) -> None:
    it = Middle(("x", "y"))
    names = [f"n{number:04}" for number in range(count - 4)]
    it["a"].say(Grow("a", (1, 2), ("a",)))
    for child in "xy":
        it[child].say(Join("a", (1, 2)))
    it["a"].say(Roll("a", (1, 2), (("a", 1, 1, 0),)))
    half = len(names) // 2
    for child, some in (("x", names[:half]), ("y", names[half:])):
        effects = it[child].say(Roll("a", (1, 2), tuple((name, 1, 1, 0) for name in (*some, child))))
        assert not hang_ups(effects) or (child, count) == ("y", 4_097)
    assert len(hang_ups(effects)) == (count > 4_096)
    tree = next(tree for tree in it.broker.status(BEGIN).trees if tree.root == "a")
    assert len(tree.members) == (4_096 if count == 4_096 else 4)


def hang_ups(effects: list[Effect]) -> list[HangUp]:
    return [effect for effect in effects if isinstance(effect, HangUp)]


def test_names_of_who_is_late_do_not_make_a_grant_long() -> None:
    it = Middle(confirm=False)
    it.tell(SessionOpened("c", False))
    it.tell(SubscriptionAsked("c", "s", Subscription("q", qos=1)))
    it["x"].say(Confirm("a", EPOCH, (), tuple(f"{number:0255}" for number in range(NAMED_MAX + 1))))
    (grant,) = kinds(it.tell(TimerFired(), BEGIN + 1.01), Grant)
    assert isinstance(grant, Grant)
    assert 4_000 < len(grant.reason) < 5_000


def test_a_confirmation_of_what_was_never_said_grants_nothing_else() -> None:
    it = Middle()
    it.tell(SessionOpened("client"))
    it.tell(SubscriptionAsked("client", "s", Subscription("t")))
    for said in [("m", 0, 9), ("zz", 1, 1), ("m", 1, 0), ("m", -1, 5)]:
        for peer in it.peers.values():
            assert kinds(peer.say(Confirm("a", EPOCH, (said,))), Grant) == []
    late = Confirm("a", EPOCH, (), tuple(f"b{at}" for at in range(1000)))
    it["x"].say(late)
    assert len(it.broker.status(BEGIN).sets[0].waits_for) <= 1 + NAMED_MAX


def test_confirmations_of_more_homes_than_there_can_be_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmations, "HOMES_MAX", 5)
    it = Middle()
    it.tell(SessionOpened("client"))
    it.tell(SubscriptionAsked("client", "s", Subscription("t")))
    it["a"].say(it.confirm())
    it["x"].say(Confirm("a", EPOCH, tuple((f"h{at}", 1, at) for at in range(1, 100))))
    grown = it.broker._trees.trees["a"].current
    assert grown is not None
    assert len(grown.edges["x"].confirmed) == 5
    assert kinds(it["x"].say(it.confirm()), Grant) == [Grant("client", "s")]
