"""Neighbours that say anything at any time: a broker may part from them, and never breaks."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.overlay.bench import BEGIN, EPOCH, Middle, Peer
from tidings.language.declarations import parse_topic
from tidings.language.regions import Unknown
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import (
    ConnectionLost,
    Event,
    FrameReceived,
    PublicationOffered,
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
from tidings.overlay.publication import Publication
from tidings.overlay.publishing.messages import Done, Forget, Keep, Kept, Publish
from tidings.overlay.routing.messages import (
    Catalogue,
    Enter,
    Entry,
    Installed,
    Subscribe,
    Table,
    Unsubscribe,
)
from tidings.overlay.settings import Settings
from tidings.overlay.trees.messages import Distance, Grow, Join, Regrow, Roll, Seek

ROOTS = ["a", "m", "x", "zz", "A", "", "\t"]
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


def some_message(rng: random.Random) -> Message:
    """Any message, true to its types and to nothing else."""
    pick: Any = rng.choice
    root, epoch, number = pick(ROOTS), pick(EPOCHS), pick(NUMBERS)
    some = rng.sample(SUBSCRIPTIONS, rng.randint(0, 3))
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
            Roll(root, epoch, ((root, number, number),), (pick(ROOTS),)),
            Roll(root, epoch, (("a", 1, 1),), (), ((root, pick([0.0, -5.0, 1e300])),)),
            Roll(root, epoch, (("a", 1, 1),), (), (), number),
            Enter(some_entry(rng)),
            Catalogue(tuple(some_entry(rng) for _ in range(rng.randint(0, 3))), rng.random() < 0.3),
            Table(root, epoch, tuple(some), rng.random() < 0.3),
            Table(root, epoch, tuple(some)),
            Subscribe(root, epoch, pick(SUBSCRIPTIONS)),
            Unsubscribe(root, epoch, pick(SUBSCRIPTIONS)),
            Installed(root, epoch, number),
            Publish(root, epoch, number, pick(NUMBERS), number, pick([0, 1, 2, 9]), it),
            Publish("a", EPOCH, number, 0, 1, 1, it),
            Done(root, slots, ()),
            Done("a", (1, number), slots),
            Keep(it),
            Kept(it.stream, it.number, it.incarnation),
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
        PublicationOffered(session, 1, rng.choice(TOPICS), rng.choice(PAYLOADS), rng.choice([0, 1, 2, 9])),
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
    it.broker.status(now, tables=True)
    # It still serves its own clients.
    it.tell(SessionOpened("last"), now)
    it.tell(SubscriptionAsked("last", "s", Subscription("last")), now)
    effects = it.tell(PublicationOffered("last", 1, "last", b"{}", 0), now)
    assert ("last", "s") in [pair for e in effects if hasattr(e, "subscriptions") for pair in e.subscriptions]
