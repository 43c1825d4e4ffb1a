"""What one turn does for expensive packets, whose turn it is, and what a closed connection still gets."""

from __future__ import annotations

import pytest

from tests.mqtt.talk import V5, Client, Talk
from tests.mqtt.turns import Turns
from tidings.mqtt.codec import encode
from tidings.mqtt.costs import RETAINED_PER_TURN, RETAINED_SLICE, TOPIC_FILTER_STEPS, TURN_STEPS
from tidings.mqtt.events import BytesReceived
from tidings.mqtt.packets import (
    AnyPacket,
    Asked,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Properties,
    Publish,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Will,
)
from tidings.mqtt.reasons import Reason
from tidings.overlay.events import TimerFired

MANY = 9_000
ASKED_PER_TURN = TURN_STEPS // TOPIC_FILTER_STEPS


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Turns:
    return Turns(monkeypatch)


def expensive(number: int, topic: str = "t") -> Subscribe:
    """A SUBSCRIBE of which a turn does a few."""
    where = " OR ".join(f"a{at} = {number}" for at in range(40))
    return Subscribe(number, (Asked(topic),), Properties(user=(("where", where),)))


def send_all(talk: Talk, sent: dict[Client, list[AnyPacket]]) -> None:
    """Let what clients send arrive at once."""
    talk.tell_all(
        [
            BytesReceived(client.connection, b"".join(encode(packet, V5) for packet in packets))
            for client, packets in sent.items()
        ]
    )


def test_a_large_subscribe_is_acted_on_over_many_turns_and_answered_once(talk: Turns) -> None:
    talk.pinger = talk.connect("pinger")
    client = talk.connect("c")
    talk.forget()
    client.send(Subscribe(1, tuple(Asked(f"a/{at}/+", at % 3) for at in range(MANY))), Pingreq())
    assert client.heard == [], "what it said behind SUBSCRIBE waits too"
    talk.advance(1.0)
    assert talk.total("asked") == MANY
    assert talk.most("asked") <= ASKED_PER_TURN
    assert client.take(Suback) == [Suback(1, tuple(at % 3 for at in range(MANY)))]
    assert client.take_all() == [Pingresp()]
    talk.connect("p").publish("a/8999/x", b"there")
    assert client.payloads() == [b"there"]


def test_a_large_unsubscribe_is_acted_on_over_many_turns(talk: Turns) -> None:
    client = talk.connect("c")
    client.send(Subscribe(1, tuple(Asked(f"a/{at}") for at in range(MANY))))
    talk.advance(1.0)
    talk.forget()
    client.take_all()
    talk.pinger = talk.connect("pinger")
    client.send(Unsubscribe(2, tuple(f"a/{at}" for at in range(MANY))))
    talk.advance(1.0)
    assert client.take_all() == [Unsuback(2, (0,) * MANY)]
    assert talk.total("dropped") == MANY
    assert talk.most("dropped") <= ASKED_PER_TURN


def test_a_large_subscribe_that_is_malformed_at_its_end_changes_nothing(talk: Turns) -> None:
    client = talk.connect("c")
    client.send(Subscribe(1, (*(Asked(f"a/{at}") for at in range(MANY)), Asked("a/#/b"))))
    talk.advance(1.0)
    assert client.dismissed() == Reason.MALFORMED_PACKET
    assert talk.total("asked") == 0


def test_a_client_gets_what_it_has_asked_for_before_all_of_its_subscribe_is_done(talk: Turns) -> None:
    """A session gets what it has been granted, though SUBACK is yet to come [section 3.8.4]."""
    client, publisher = talk.connect("c"), talk.connect("p")
    client.outgoing = encode(Subscribe(1, tuple(Asked(f"a/{at}") for at in range(MANY))), V5)
    talk._read(client)
    talk.tell_all([talk._events.popleft()])
    publisher.publish("a/0", b"first")
    assert client.payloads() == [b"first"]
    talk.advance(1.0)
    assert len(client.take(Suback)) == 1


@pytest.mark.parametrize("kind", ["topic filters", "user properties"])
def test_a_packet_that_lists_too_much_is_refused(kind: str) -> None:
    talk = Talk()
    client = talk.connect("c")
    if kind == "topic filters":
        client.send(Subscribe(1, (Asked("a"),) * 10_001))
    else:
        client.send(Publish("t", properties=Properties(user=(("a", "b"),) * 10_001)))
    assert client.dismissed() == Reason.QUOTA_EXCEEDED


def test_content_filters_are_read_a_few_at_a_time_and_clients_take_turns(talk: Turns) -> None:
    floods = [talk.connect(f"flood-{at}") for at in range(4)]
    late = talk.connect("late")
    talk.pinger = talk.connect("pinger")
    talk.forget()
    send_all(talk, {one: [expensive(20 * at + it + 1) for it in range(20)] for at, one in enumerate(floods)})
    late.send(expensive(1000))
    while not late.take(Suback):
        assert talk.front.next_deadline() == talk.now, "the next turn is due at once"
        _one_turn(talk)
    a_turn = talk.most("read")
    assert a_turn < 20, "less than one of them has sent"
    assert talk.total("read") <= 5 * a_turn + 1, "it waited for a turn of each other, not for all"


def _one_turn(talk: Talk) -> None:
    talk.tell(TimerFired())


def test_what_a_lost_client_asked_for_is_not_acted_on_any_more(talk: Turns) -> None:
    floods = [talk.connect(f"flood-{at}") for at in range(4)]
    send_all(
        talk, {one: [expensive(100 * at + it + 1) for it in range(100)] for at, one in enumerate(floods)}
    )
    for one in floods:
        one.lose()
    talk.forget()
    talk.advance(10.0)
    assert talk.total("read") == talk.total("asked") == 0
    assert talk.front.next_deadline() != talk.now


@pytest.mark.parametrize("told", ["lost", "closed"])
def test_what_a_lost_client_published_behind_it_is_acted_on(talk: Turns, told: str) -> None:
    """And that it left: its will is not published."""
    watcher = talk.connect("watcher")
    watcher.subscribe("#", qos=1)
    client = talk.dial()
    client.connect("c", will=Will("gone", b"gone"))
    said: list[AnyPacket] = [*(expensive(at + 1) for at in range(5)), Publish("t", b"1"), Disconnect()]
    if told == "lost":
        client.send(*said)
        client.lose()
    else:
        data = b"".join(encode(packet, V5) for packet in said)
        talk.tell(BytesReceived(client.connection, data, closed=True))
    talk.advance(1.0)
    assert watcher.payloads() == [b"1"]
    assert "c" not in talk.front.sessions


def test_all_that_a_client_says_in_one_breath_is_heard_though_it_is_gone(talk: Turns) -> None:
    watcher = talk.connect("watcher")
    watcher.subscribe("t")
    client = talk.dial()
    said = (Connect(V5, "c", True), Publish("t", b"1"), Disconnect())
    data = b"".join(encode(packet, V5) for packet in said)
    talk.tell(BytesReceived(client.connection, data, closed=True))
    assert watcher.payloads() == [b"1"]


def test_a_session_that_lost_its_client_amid_a_subscribe_can_be_taken_up(talk: Turns) -> None:
    client = talk.connect("c", session_expiry_s=1000)
    data = encode(Subscribe(1, tuple(Asked(f"a/{at}", 1) for at in range(MANY))), V5)
    talk.tell_all([BytesReceived(client.connection, data)])
    client.lose()
    talk.advance(1.0)
    asked = talk.total("asked")
    assert 0 < asked <= ASKED_PER_TURN
    back = talk.connect("c", clean_start=False, session_expiry_s=1000)
    talk.connect("p").publish("a/0", b"x", qos=1)
    assert back.payloads() == [b"x"], "what was asked for stays"
    back.send(Subscribe(2, tuple(Asked(f"a/{at}", 1) for at in range(MANY))))
    talk.advance(1.0)
    assert back.take(Suback) == [Suback(2, (1,) * MANY)]


# Retained messages.


def retain(talk: Talk, count: int) -> None:
    publisher = talk.connect("p")
    for at in range(count):
        publisher.send(Publish(f"r/{at}", b'{"a": %d}' % at, retain=True))
    publisher.disconnect()


def test_filtered_subscriptions_of_many_sessions_share_what_a_turn_looks_at(talk: Turns) -> None:
    count = 1_000
    retain(talk, count)
    talk.pinger = talk.connect("pinger")
    readers = [talk.connect(f"s{at}") for at in range(20)]
    talk.forget()
    for at, reader in enumerate(readers):
        where = Properties(user=(("where", f"a >= {at}"),))
        reader.send(Subscribe(1, (Asked("r/#"),), where))
    done: dict[int, None] = {}
    while len(done) < len(readers):
        _one_turn(talk)
        got = [len(reader.heard) for reader in readers]
        for at, reader in enumerate(readers):
            if len(reader.heard) == count - at + 1:
                done[at] = None
        assert max(got) - min(got) <= 2 * RETAINED_SLICE + len(readers), "all come forward alike"
    assert talk.total("looked") == len(readers) * count
    assert talk.most("looked") <= RETAINED_PER_TURN
    for at, reader in enumerate(readers):
        assert [it.topic for it in reader.read()] == [f"r/{number}" for number in range(at, count)]


def test_many_subscriptions_of_one_session_do_not_look_at_more(talk: Turns) -> None:
    retain(talk, 300)
    reader = talk.connect("s")
    talk.forget()
    where = Properties(user=(("where", "a >= 0"),))
    reader.send(Subscribe(1, tuple(Asked("r/+" if at else "r/#") for at in range(2)), where))
    reader.send(Subscribe(2, tuple(Asked(f"r/{at}") for at in range(300)), where))
    talk.advance(1.0)
    assert len(reader.read()) == 900
    assert talk.most("looked") <= RETAINED_PER_TURN


def test_a_retained_message_does_not_come_behind_a_newer_one(talk: Turns) -> None:
    retain(talk, 1_000)
    reader, writer = talk.connect("s"), talk.connect("w")
    reader.send(Subscribe(1, (Asked("r/#"),)))
    for at in range(0, 1_000, 7):
        writer.publish(f"r/{at}", b"new", retain=True)
        _one_turn(talk)
    talk.advance(1.0)
    latest: dict[str, bytes] = {}
    for it in reader.read():
        assert latest.get(it.topic) != b"new" or it.payload == b"new", it
        latest[it.topic] = it.payload
    assert len(latest) == 1_000
    assert all(latest[f"r/{at}"] == b"new" for at in range(0, 1_000, 7))


def test_levels_without_a_message_count_too(talk: Turns) -> None:
    """Nothing matches, and still no turn goes through all that there is."""
    retain(talk, 20_000)
    reader = talk.connect("s")
    before = len(talk.turns)
    reader.send(Subscribe(1, (Asked("+/+/never"),)))
    talk.advance(1.0)
    assert len(talk.turns) - before > 20_000 / (16 * RETAINED_PER_TURN)
    assert reader.read() == []
