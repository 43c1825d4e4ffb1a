"""Overload: a broker that takes no publications for a while, and clients that are slow or only seem so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.mqtt.talk import Client, Talk
from tests.overlay.offers import deliver
from tidings.mqtt import front, sessions
from tidings.mqtt.events import ClientCongested
from tidings.mqtt.front import (
    LOOK_AGAIN_S,
    NOT_TAKEN,
    READ_AHEAD_BYTES,
    RELEASED_MAX,
    WAIT_S,
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
from tidings.overlay.publication import Publication


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


def crosswise(talk: Talk, qos: int, count: int, name: str = "both") -> tuple[Client, list[Publish]]:
    """A client that has so many publications to acknowledge, and subscribes to nothing else."""
    client = talk.connect(name)
    client.subscribe(f"in/{name}", qos=qos)
    other = talk.connect("other")
    for _ in range(count):
        other.publish(f"in/{name}", b"x", qos=qos)
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


def test_a_client_that_publishes_faster_than_it_may_is_still_heard() -> None:
    talk = Talk(replace(DEFAULT, publish_rate=2.0))
    client, got = crosswise(talk, qos=1, count=1)
    client.send(*publishes(4))
    client.send(*publishes(2, first=5), *[Puback(it.packet_id) for it in got], Pingreq())
    assert Pingresp() in client.take_all()
    assert talk.front.sessions["both"].inflight == {}
    talk.advance(5.0)
    assert [it.packet_id for it in client.take(Puback)] == [5, 6]


@pytest.mark.parametrize("clients", [2, 30])
def test_all_clients_together_are_not_read_ahead_beyond_a_bound(
    clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "DEFERRED_BYTES", 1_000_000)
    talk = Talk()
    size = 50_000
    for at in range(clients):
        crosswise(talk, qos=1, count=1, name=f"c{at}")
    pause(talk)
    for client in list(talk.clients.values()):
        for number in range(1, 41):
            client.send(*publishes(1, 1, size, first=number))
    assert 1_000_000 <= talk.front._core.deferred_bytes < 1_000_000 + (clients + 2) * 2 * size


def test_deferred_publications_count_against_what_may_be_under_way() -> None:
    talk = Talk(replace(DEFAULT, receive_maximum=10))
    client, _ = crosswise(talk, qos=1, count=1)
    pause(talk)
    client.send(*publishes(10))
    assert not client.closed
    client.send(*publishes(1, first=11))
    assert client.dismissed() == Reason.RECEIVE_MAXIMUM_EXCEEDED


def test_what_came_too_fast_is_taken_one_by_one_at_the_rate() -> None:
    talk = Talk(replace(DEFAULT, publish_rate=5.0))
    reader = talk.connect("reader")
    reader.subscribe("out")
    client = talk.connect("c")
    for number in range(1, 41):
        client.send(*publishes(1, 0, first=number))
    got = [len(reader.payloads())]
    for _ in range(8):
        talk.advance(1.0)
        got.append(len(reader.payloads()))
    assert got[0] <= 6
    assert max(got[1:]) <= 6
    assert sum(got) == 40


def test_a_client_that_was_not_read_any_more_is_read_when_it_gets_something_to_acknowledge() -> None:
    talk = Talk()
    client, got = crosswise(talk, qos=1, count=1)
    client.send(*[Puback(it.packet_id) for it in got])
    pause(talk)
    for number in range(1, 61):
        client.send(*publishes(1, 1, 10_000, first=number))
    assert is_unheard(client)
    message = Publication("z", 1, "in", 1, "in/both", b"x", 1)
    talk._carry_out(talk.front._collect([deliver(message, (("both", "in/both"),), 1)]))
    talk.advance(0.0)
    (given,) = client.take(Publish)
    client.send(Puback(given.packet_id))
    talk.advance(0.0)
    assert talk.front.sessions["both"].inflight == {}


@pytest.mark.parametrize("close", ["disconnect", "lose"])
def test_a_client_that_was_only_too_fast_leaves_after_its_publications(close: str) -> None:
    talk = Talk(replace(DEFAULT, publish_rate=5.0))
    reader = talk.connect("reader")
    reader.subscribe("out")
    client = talk.connect("c")
    for number in range(1, 17):
        client.send(*publishes(1, 0, first=number))
    if close == "disconnect":
        client.send(Disconnect())
    client.lose()
    talk.advance(10.0)
    assert len(reader.payloads()) == 16
    assert talk.front._core.counters.dropped == {}


# Slow clients.


def crowded(talk: Talk, count: int, session_expiry_s: int = 0) -> tuple[Client, Client]:
    """A client with a window of one, and a publisher that has given it so many publications."""
    slow = talk.connect("slow", receive_maximum=1, session_expiry_s=session_expiry_s)
    slow.subscribe("t", qos=1)
    publisher = talk.connect("p")
    for number in range(count):
        publisher.publish("t", b"%d" % number, qos=1)
    return slow, publisher


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Talk:
    """A broker whose queues are short: it waits for clients that have five queued, and ten are the bound."""
    monkeypatch.setattr(sessions, "BEHIND_MESSAGES", 5)
    return Talk(replace(DEFAULT, queue_messages=10))


def links_wait(talk: Talk) -> bool:
    return talk.front.broker.core.held


def test_links_wait_for_a_client_that_has_much_queued_and_go_on_when_it_has_taken_it(few: Talk) -> None:
    slow, _ = crowded(few, 4)
    assert not links_wait(few)
    slow, _ = crowded(few, 8)
    assert links_wait(few)
    slow.payloads()
    assert not links_wait(few)


def test_a_client_whose_acknowledgements_were_only_late_is_not_expelled(few: Talk) -> None:
    slow, _ = crowded(few, 15)
    assert slow.payloads() == [b"%d" % number for number in range(15)]
    few.advance(10 * WAIT_S)
    assert not slow.closed
    assert few.front._core.counters.dropped == {}


def test_links_wait_no_longer_than_a_while_for_a_client_that_takes_nothing(few: Talk) -> None:
    crowded(few, 8)
    few.advance(WAIT_S)
    assert links_wait(few), "it is looked at once more, after all that it has sent was read"
    few.advance(2 * LOOK_AGAIN_S)
    assert not links_wait(few)
    few.advance(10 * WAIT_S)
    assert not links_wait(few)


def test_links_are_held_for_half_of_the_time_at_most(few: Talk) -> None:
    """However many clients take turns in taking nothing."""
    held = 0
    for at in range(200):
        if at % 10 == 0:
            client = few.connect(f"c{at}", receive_maximum=1)
            client.subscribe("t", qos=1)
            publisher = few.connect(f"p{at}")
            for _ in range(6):
                publisher.publish("t", b"x", qos=1)
        few.advance(WAIT_S / 10)
        held += links_wait(few)
    assert 0 < held <= 120


def test_a_client_that_falls_behind_while_links_are_not_held_is_waited_for_as_long_as_others(
    few: Talk,
) -> None:
    crowded(few, 8)
    few.advance(WAIT_S + 2 * LOOK_AGAIN_S)
    assert not links_wait(few)
    late = few.connect("late", receive_maximum=1)
    late.subscribe("u", qos=1)
    publisher = few.connect("q")
    for _ in range(8):
        publisher.publish("u", b"x", qos=1)
    few.advance(WAIT_S + LOOK_AGAIN_S)
    assert links_wait(few)
    few.advance(WAIT_S / 2)
    assert links_wait(few), "it is not slow yet"
    assert len(late.payloads()) == 8
    assert not links_wait(few)


def test_a_client_that_stays_slow_is_expelled_and_all_that_it_misses_is_counted(few: Talk) -> None:
    slow, publisher = crowded(few, 10)
    few.advance(WAIT_S + 2 * LOOK_AGAIN_S)
    assert not slow.closed
    publisher.publish("t", b"too much", qos=1)
    assert len(slow.take(Publish)) == 1
    assert slow.dismissed() == Reason.QUOTA_EXCEEDED
    # Ten that were queued or in flight, and the one that did not fit.
    assert few.front._core.counters.dropped == {TOO_SLOW: 11}


def test_a_queue_is_never_longer_than_twice_its_bound(few: Talk) -> None:
    slow, _ = crowded(few, 25)
    assert len(slow.take(Publish)) == 1
    assert slow.dismissed() == Reason.QUOTA_EXCEEDED
    # 20 were queued or in flight and one did not fit; then its session was gone.
    assert few.front._core.counters.dropped == {TOO_SLOW: 21}


def test_a_slow_client_with_a_kept_session_stays_and_what_does_not_fit_is_dropped(few: Talk) -> None:
    slow, publisher = crowded(few, 12, session_expiry_s=100)
    few.advance(WAIT_S + 2 * LOOK_AGAIN_S)
    publisher.publish("t", b"too much", qos=1)
    assert few.front._core.counters.dropped == {"queue is full": 1}
    assert slow.payloads() == [b"%d" % number for number in range(12)]
    for number in range(12, 14):
        publisher.publish("t", b"%d" % number, qos=1)
    assert slow.payloads() == [b"12", b"13"], "it is not slow any more"


def test_a_kept_session_whose_client_is_away_has_the_bound_as_it_is(few: Talk) -> None:
    slow, publisher = crowded(few, 0, session_expiry_s=100)
    slow.lose()
    for number in range(12):
        publisher.publish("t", b"%d" % number, qos=1)
    assert few.front._core.counters.dropped == {"queue is full": 2}
    few.connect("slow", clean_start=False, receive_maximum=1, session_expiry_s=100)
    assert not links_wait(few), "nobody waits for a client that takes what came while it was away"


def test_a_full_connection_is_waited_for_too(few: Talk) -> None:
    client = few.connect("c")
    client.subscribe("t", qos=1)
    publisher = few.connect("p")
    few.tell(ClientCongested(client.connection, True))
    for number in range(12):
        publisher.publish("t", b"%d" % number, qos=1)
    assert links_wait(few)
    few.tell(ClientCongested(client.connection, False))
    assert not links_wait(few)
    assert client.payloads() == [b"%d" % number for number in range(12)]
