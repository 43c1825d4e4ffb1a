"""Overload: a broker that takes no publications for a while, and clients that are slow or only seem so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.mqtt.talk import Client, Talk
from tidings.mqtt.events import ClientCongested
from tidings.mqtt.front import (
    LOOK_AGAIN_S,
    NOT_TAKEN,
    READ_AHEAD_BYTES,
    READ_AHEAD_BYTES_MAX,
    RELEASED_MAX,
    SLOW_S,
)
from tidings.mqtt.packets import (
    AnyPacket,
    Asked,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Will,
)
from tidings.mqtt.reasons import Reason
from tidings.mqtt.sessions import TOO_SLOW
from tidings.mqtt.settings import DEFAULT
from tidings.overlay.events import Pause, Resume, TimerFired


def pause(talk: Talk) -> None:
    """Let the broker want no more publications."""
    talk._carry_out(talk.front._collect([Pause()]))


def resume(talk: Talk) -> None:
    talk._carry_out(talk.front._collect([Resume()]))
    talk.advance(0.0)


def is_unheard(client: Client) -> bool:
    """Whether the broker does not read from a client."""
    return client.unheard


def publishes(count: int, qos: int = 1, size: int = 1, first: int = 1) -> list[AnyPacket]:
    return [
        Publish("out", b"%06d" % number + b"." * size, qos, packet_id=number if qos else 0)
        for number in range(first, first + count)
    ]


def crosswise(talk: Talk, qos: int, count: int) -> tuple[Client, list[Publish]]:
    """A client that has so many publications to acknowledge, and subscribes to nothing else."""
    client = talk.connect("both")
    client.subscribe("in", qos=qos)
    other = talk.connect("other")
    for _ in range(count):
        other.publish("in", b"x", qos=qos)
    return client, client.take(Publish)


def test_acknowledgements_behind_publications_are_read_while_none_are_taken() -> None:
    talk = Talk()
    client, got = crosswise(talk, qos=1, count=5)
    reader = talk.connect("reader")
    reader.subscribe("out", qos=1)
    pause(talk)
    client.send(*publishes(3), *[Puback(it.packet_id) for it in got], Pingreq())
    assert talk.front.sessions["both"].inflight == {}
    assert client.take_all() == [Pingresp()]
    assert reader.payloads() == []
    resume(talk)
    assert [it.packet_id for it in client.take(Puback)] == [1, 2, 3]
    assert [payload[:6] for payload in reader.payloads()] == [b"000001", b"000002", b"000003"]


def test_the_handshake_of_quality_2_goes_on_while_no_publications_are_taken() -> None:
    talk = Talk()
    client, got = crosswise(talk, qos=2, count=2)
    client.send(Publish("out", b"before", 2, packet_id=9))
    client.take(Pubrec)
    pause(talk)
    client.send(*publishes(1), *[Pubrec(it.packet_id) for it in got], Pubrel(9))
    assert [it.packet_id for it in client.take(Pubcomp)] == [9]
    released = client.take(Pubrel)
    client.send(*[Pubcomp(it.packet_id) for it in released])
    assert len(released) == 2
    assert talk.front.sessions["both"].inflight == {}


def test_a_client_that_leaves_takes_with_it_what_was_not_taken() -> None:
    talk = Talk()
    reader = talk.connect("reader")
    reader.subscribe("#", qos=1)
    client = talk.connect("c", will=Will("will", b"gone"))
    pause(talk)
    client.send(*publishes(3), Disconnect())
    assert client.closed
    assert talk.front._core.counters.dropped == {NOT_TAKEN: 3}
    assert talk.front._core.deferred_bytes == 0
    resume(talk)
    assert reader.payloads() == [], "neither publications nor the will of a client that said goodbye"


def test_what_is_no_publication_is_acted_on_unless_a_publication_is_before_it() -> None:
    talk = Talk()
    client = talk.connect("c")
    pause(talk)
    assert client.subscribe("out").reasons == (0,)
    late = talk.connect("late")
    assert late.subscribe("out", qos=1).reasons == (1,)
    client.send(*publishes(1), Subscribe(7, (Asked("out"),)))
    assert client.take(Suback) == []
    resume(talk)
    assert [it.packet_id for it in client.take(Suback)] == [7]
    assert len(late.payloads()) == 1


def test_what_was_not_taken_is_taken_turn_by_turn_and_nothing_overtakes_it() -> None:
    talk = Talk()
    reader = talk.connect("reader")
    reader.subscribe("out", qos=1)
    client = talk.connect("c")
    pause(talk)
    client.send(*publishes(3 * RELEASED_MAX))
    talk._carry_out(talk.front._collect([Resume()]))
    client.send(*publishes(1, first=3 * RELEASED_MAX + 1))
    got: list[bytes] = []
    turns = 0
    while len(got) < 3 * RELEASED_MAX + 1:
        talk.tell(TimerFired())
        now = reader.payloads()
        assert 0 < len(now) <= RELEASED_MAX + 1
        got += now
        turns += 1
    assert turns >= 3
    assert [int(payload[:6]) for payload in got] == list(range(1, 3 * RELEASED_MAX + 2))


@pytest.mark.parametrize("qos", [0, 1])
def test_no_more_is_read_ahead_than_a_bound(qos: int) -> None:
    talk = Talk()
    client = talk.connect("c")
    pause(talk)
    size = 10_000
    for number in range(1, 61):
        client.send(*publishes(1, qos, size, first=number))
    read = talk.front._core.deferred_bytes
    assert READ_AHEAD_BYTES <= read < READ_AHEAD_BYTES + 2 * size
    assert is_unheard(client)
    resume(talk)
    assert not is_unheard(client)
    assert talk.front._core.deferred_bytes == 0
    assert talk.front._core.counters.published == 60


def test_a_client_that_must_acknowledge_is_read_on_and_loses_quality_0_only() -> None:
    talk = Talk()
    client, got = crosswise(talk, qos=1, count=2)
    pause(talk)
    size = 10_000
    for number in range(1, 61):
        client.send(*publishes(1, 0, size, first=number))
    assert not client.unheard
    assert talk.front._core.deferred_bytes < READ_AHEAD_BYTES + 2 * size
    dropped = talk.front._core.counters.dropped[NOT_TAKEN]
    assert dropped == 60 - len(talk.front.clients[client.connection].deferred) > 0
    client.send(*publishes(5, 1, size), *[Puback(it.packet_id) for it in got])
    assert talk.front.sessions["both"].inflight == {}
    resume(talk)
    assert len(client.take(Puback)) == 5


def test_even_for_acknowledgements_no_more_is_read_ahead_than_a_bound() -> None:
    talk = Talk(replace(DEFAULT, receive_maximum=65_535))
    client, _ = crosswise(talk, qos=1, count=2)
    pause(talk)
    size = 100_000
    for number in range(1, 101):
        client.send(*publishes(1, 1, size, first=number))
    assert READ_AHEAD_BYTES_MAX <= talk.front._core.deferred_bytes < READ_AHEAD_BYTES_MAX + 2 * size
    assert client.unheard


def test_a_client_that_publishes_faster_than_it_may_is_still_heard() -> None:
    talk = Talk(replace(DEFAULT, publish_rate=2.0))
    client, got = crosswise(talk, qos=1, count=1)
    client.send(*publishes(4))
    client.send(*publishes(2, first=5), *[Puback(it.packet_id) for it in got], Pingreq())
    assert Pingresp() in client.take_all()
    assert talk.front.sessions["both"].inflight == {}
    talk.advance(5.0)
    assert [it.packet_id for it in client.take(Puback)] == [5, 6]


# Slow clients.


def crowded(talk: Talk, count: int, session_expiry_s: int = 0) -> tuple[Client, Client]:
    """A client with a window of one, and a publisher that has given it so many publications."""
    slow = talk.connect("slow", receive_maximum=1, session_expiry_s=session_expiry_s)
    slow.subscribe("t", qos=1)
    publisher = talk.connect("p")
    for number in range(count):
        publisher.publish("t", b"%d" % number, qos=1)
    return slow, publisher


def test_a_client_whose_acknowledgements_were_only_late_is_not_expelled() -> None:
    talk = Talk(replace(DEFAULT, queue_messages=10))
    slow, _ = crowded(talk, 15)
    assert not slow.closed
    assert slow.payloads() == [b"%d" % number for number in range(15)]
    talk.advance(10 * SLOW_S)
    assert not slow.closed
    assert talk.front._core.counters.dropped == {}


def test_a_client_that_stays_slow_is_expelled_and_all_that_it_misses_is_counted() -> None:
    talk = Talk(replace(DEFAULT, queue_messages=10))
    slow, _ = crowded(talk, 15)
    talk.advance(SLOW_S)
    assert not slow.closed, "it is looked at once more, after all that it has sent was read"
    talk.advance(2 * LOOK_AGAIN_S)
    assert len(slow.take(Publish)) == 1
    assert slow.dismissed() == Reason.QUOTA_EXCEEDED
    assert talk.front._core.counters.dropped == {TOO_SLOW: 15}


def test_a_queue_is_never_longer_than_twice_its_bound() -> None:
    talk = Talk(replace(DEFAULT, queue_messages=10))
    slow, _ = crowded(talk, 25)
    assert len(slow.take(Publish)) == 1
    assert slow.dismissed() == Reason.QUOTA_EXCEEDED
    # 20 were queued or in flight and one did not fit; then its session was gone.
    assert talk.front._core.counters.dropped == {TOO_SLOW: 21}


def test_a_slow_client_with_a_kept_session_stays_and_what_does_not_fit_is_dropped() -> None:
    talk = Talk(replace(DEFAULT, queue_messages=10))
    slow, publisher = crowded(talk, 12, session_expiry_s=100)
    talk.advance(SLOW_S + 2 * LOOK_AGAIN_S)
    assert not slow.closed
    publisher.publish("t", b"too much", qos=1)
    assert talk.front._core.counters.dropped == {"queue is full": 1}
    assert slow.payloads() == [b"%d" % number for number in range(12)]
    for number in range(12, 14):
        publisher.publish("t", b"%d" % number, qos=1)
    assert slow.payloads() == [b"12", b"13"], "it is not slow any more"


def test_a_kept_session_whose_client_is_away_has_the_bound_as_it_is() -> None:
    talk = Talk(replace(DEFAULT, queue_messages=10))
    slow, publisher = crowded(talk, 0, session_expiry_s=100)
    slow.lose()
    for number in range(12):
        publisher.publish("t", b"%d" % number, qos=1)
    assert talk.front._core.counters.dropped == {"queue is full": 2}


def test_a_full_connection_makes_a_client_slow_too() -> None:
    talk = Talk(replace(DEFAULT, queue_messages=10))
    client = talk.connect("c")
    client.subscribe("t", qos=1)
    publisher = talk.connect("p")
    talk.tell(ClientCongested(client.connection, True))
    for number in range(12):
        publisher.publish("t", b"%d" % number, qos=1)
    talk.advance(SLOW_S / 2)
    talk.tell(ClientCongested(client.connection, False))
    talk.advance(10 * SLOW_S)
    assert not client.closed
    assert client.payloads() == [b"%d" % number for number in range(12)]
