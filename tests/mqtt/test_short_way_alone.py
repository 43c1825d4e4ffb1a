"""A packet like the one before it, by itself, is passed on without an event: `Front.repeat`.

That it brings the same as the other ways is in `test_short_way`; here is when it may be taken, and when not.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.mqtt.talk import V5, V311, Client, Talk
from tests.mqtt.test_short_way import Recorded
from tidings.mqtt.clients import REPEATED, SETTLE
from tidings.mqtt.codec import encode
from tidings.mqtt.events import ALL_ALLOWED, AccessChanged, BytesReceived, ClientCongested, ClientLost, Rule
from tidings.mqtt.front import REPEATS_AT_MOST, REPEATS_MAX
from tidings.mqtt.packets import Asked, Publish, Version
from tidings.mqtt.settings import Settings
from tidings.overlay.events import StopAsked, TimerFired
from tidings.records.record import Kind

TOPIC = "t/1"


def packet(payload: bytes = b"a", version: Version = V5, topic: str = TOPIC, retain: bool = False) -> bytes:
    return encode(Publish(topic, payload, retain=retain), version)


def alone(
    talk: Talk, subscribers: int = 1, version: Version = V5, keep_alive_s: int = 0
) -> tuple[Client, list[Client]]:
    """A publisher whose next packet needs no event, and who gets it."""
    receivers = [talk.connect(f"s{at}", version=version) for at in range(subscribers)]
    for receiver in receivers:
        receiver.subscribe("t/#")
    publisher = talk.connect("p", version=version, keep_alive_s=keep_alive_s)
    talk.advance(2.0)
    publisher.send_bytes(packet(version=version))
    assert talk.glance(publisher.connection, packet(version=version))
    for receiver in receivers:
        assert len(receiver.read()) == 2
    return publisher, receivers


def repeats(talk: Talk, publisher: Client, data: bytes) -> int:
    lane = talk.front.lane(publisher.connection)
    return 0 if lane is None else talk.front.repeat(lane, data, talk.now)


@pytest.mark.parametrize("version", [V5, V311])
def test_a_packet_like_the_last_one_goes_to_the_connections_that_got_that(version: Version) -> None:
    talk = Talk()
    publisher, receivers = alone(talk, 3, version)
    lane = talk.front.lane(publisher.connection)
    assert lane is not None
    assert lane.connections == tuple(receiver.connection for receiver in receivers)
    assert talk.front.repeat(lane, packet(b"b", version), talk.now)
    assert talk.front.take() == []


@pytest.mark.parametrize(
    "data",
    [
        packet(b"ab"),
        packet(topic="t/2"),
        packet(retain=True),
        packet()[:-1],
        packet() + b"\xc0\x00",
        b"\xc0\x00",
        b"",
    ],
)
def test_one_that_is_not_like_it_does_not(data: bytes) -> None:
    talk = Talk()
    publisher, _ = alone(talk)
    assert not repeats(talk, publisher, data)
    assert repeats(talk, publisher, packet())


def test_it_is_written_down_and_counted_as_if_it_had_gone_the_long_way() -> None:
    def rows(way: str) -> tuple[list[object], object]:
        talk = Recorded()
        talk.front._publishing.bursts = way == "alone"
        subscriber, publisher = talk.connect("s"), talk.connect("p")
        subscriber.subscribe("t/#")
        talk.advance(2.0)
        for number in range(600):
            talk.now += 0.001
            data = packet(b"%03d" % number)
            # Some of another size and some to another topic among them.
            if number % 50 == 7:
                data = packet(b"long%d" % number)
            elif number % 70 == 9:
                data = packet(b"%03d" % number, topic="t/2")
            if way != "alone" or not talk.glance(publisher.connection, data):
                talk.tell(BytesReceived(publisher.connection, data))
        talk.advance(3.0)
        counters = talk.front.status(talk.now).counters
        told = sorted(
            (it.message, it.kind, it.topic, it.at, it.bytes, it.publisher, it.client, it.receivers)
            for it in talk.records
            if it.kind in (Kind.PUBLISHED, Kind.DELIVERED)
        )
        return [told, subscriber.take_all()], counters

    assert rows("alone") == rows("long")


def test_what_is_counted_later_is_counted_when_somebody_looks() -> None:
    talk = Talk()
    publisher, _ = alone(talk, 2)
    before = talk.front.status(talk.now).counters
    for _ in range(3):
        assert repeats(talk, publisher, packet())
    after = talk.front.status(talk.now).counters
    changed = {name: after[name] - before[name] for name in before if after[name] != before[name]}
    size = len(packet())
    assert changed == {
        "packets_in": 3,
        "bytes_in": 3 * size,
        "published": 3,
        "published_bytes": 3,
        "packets_out": 6,
        "bytes_out": 6 * size,
        "delivered": 6,
        "delivered_bytes": 6,
    }


def _another_subscribes(talk: Talk, _: Client, __: Client) -> None:
    talk.connect("other").subscribe("t/+")


def _it_unsubscribes(_: Talk, __: Client, subscriber: Client) -> None:
    subscriber.unsubscribe("t/#")


def _it_subscribes_again(_: Talk, __: Client, subscriber: Client) -> None:
    subscriber.subscribe(Asked("t/#", 0, no_local=True))


def _it_is_congested(talk: Talk, _: Client, subscriber: Client) -> None:
    talk.tell(ClientCongested(subscriber.connection, True))


def _it_is_lost(talk: Talk, _: Client, subscriber: Client) -> None:
    talk.tell(ClientLost(subscriber.connection, "gone"))


def _it_is_taken_over(talk: Talk, _: Client, __: Client) -> None:
    talk.connect("s0")


def _the_publisher_is_taken_over(talk: Talk, _: Client, __: Client) -> None:
    talk.connect("p")


def _rights_change(talk: Talk, _: Client, __: Client) -> None:
    rules = (*ALL_ALLOWED.rules, Rule(False, "publish", "t/1"))
    talk.tell(AccessChanged(type(ALL_ALLOWED)(rules, anonymous=True, version=1)))


def _the_topic_is_declared(_: Talk, publisher: Client, __: Client) -> None:
    publisher.publish("$tidings/topic/declare", b'{"filter": "t/1", "fields": {"n": "int"}}', 1)


def _half_a_packet_comes(talk: Talk, publisher: Client, _: Client) -> None:
    talk.tell(BytesReceived(publisher.connection, packet()[:5]))


def _something_is_retained(_: Talk, publisher: Client, __: Client) -> None:
    publisher.send(Publish(TOPIC, b"a", retain=True))


def _the_broker_stops(talk: Talk, _: Client, __: Client) -> None:
    talk.tell(StopAsked())


def _time_passes(talk: Talk, _: Client, __: Client) -> None:
    talk.tell(TimerFired())


@pytest.mark.parametrize(
    "happens",
    [
        _another_subscribes,
        _it_unsubscribes,
        _it_subscribes_again,
        _it_is_congested,
        _it_is_lost,
        _it_is_taken_over,
        _the_publisher_is_taken_over,
        _rights_change,
        _the_topic_is_declared,
        _half_a_packet_comes,
        _something_is_retained,
        _the_broker_stops,
        _time_passes,
    ],
)
def test_after_anything_else_it_is_looked_at_anew(happens: Callable[[Talk, Client, Client], None]) -> None:
    talk = Talk()
    publisher, (subscriber,) = alone(talk)
    lane = talk.front.lane(publisher.connection)
    assert lane is not None
    assert talk.front.repeat(lane, packet(), talk.now)
    happens(talk, publisher, subscriber)
    assert not talk.front.repeat(lane, packet(), talk.now)


def test_many_are_counted_when_the_driver_has_time_and_no_later_than_they_must() -> None:
    talk = Talk()
    publisher, _ = alone(talk)
    talk.front.settle()
    counters = talk.front._core.counters
    before = counters.published
    said = [repeats(talk, publisher, packet()) for _ in range(REPEATS_MAX)]
    assert said == [REPEATED] * (REPEATS_MAX - 1) + [SETTLE]
    assert counters.published == before
    talk.front.settle()
    assert counters.published == before + REPEATS_MAX
    said = [repeats(talk, publisher, packet()) for _ in range(REPEATS_AT_MOST)]
    assert said == [REPEATED] * (REPEATS_MAX - 1) + [SETTLE] * (REPEATS_AT_MOST - REPEATS_MAX + 1)
    assert counters.published == before + REPEATS_MAX + REPEATS_AT_MOST


def test_rights_that_are_gone_stay_gone() -> None:
    talk = Talk()
    publisher, (subscriber,) = alone(talk)
    _rights_change(talk, publisher, subscriber)
    for _ in range(3):
        if not talk.glance(publisher.connection, packet()):
            talk.tell(BytesReceived(publisher.connection, packet()))
    assert subscriber.take_all() == []


def test_what_waits_to_be_sent_is_not_overtaken() -> None:
    talk = Talk()
    publisher, _ = alone(talk)
    assert talk.front.express(publisher.connection, packet(b"b"), talk.now)
    assert not repeats(talk, publisher, packet(b"c"))
    assert len(talk.front.take()) == 1
    assert repeats(talk, publisher, packet(b"c"))


def test_a_client_that_is_heard_so_is_not_silent() -> None:
    talk = Talk()
    publisher, _ = alone(talk, keep_alive_s=10)
    for _ in range(10):
        talk.advance(9.0)
        if not repeats(talk, publisher, packet()):
            assert talk.glance(publisher.connection, packet())
            assert repeats(talk, publisher, packet())
    assert not publisher.closed
    talk.advance(20.0)
    assert publisher.closed


def test_where_publications_are_limited_there_is_no_such_way() -> None:
    talk = Talk(Settings(sys_every_s=0, publish_rate=100.0))
    subscriber, publisher = talk.connect("s"), talk.connect("p")
    subscriber.subscribe("t/#")
    for _ in range(3):
        assert talk.glance(publisher.connection, packet()) == 0
        talk.tell(BytesReceived(publisher.connection, packet()))
    assert len(subscriber.read()) == 3
