"""Sections 4.9, 3.1.2.11 and 3.2.2.3: receive maximum, maximum packet size, problem information."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.mqtt.conformance.proving import both, proves, publish_bytes, refused
from tests.mqtt.talk import PLAIN, V5, Talk
from tidings.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel, Version


@proves("3.3.4-9", "4.9.0-1", "4.9.0-2")
@pytest.mark.parametrize("maximum", [1, 2, 10])
def test_no_more_is_open_than_the_client_allows(maximum: int) -> None:
    talk = Talk()
    watcher = talk.connect("w", receive_maximum=maximum)
    watcher.subscribe("t", qos=2)
    publisher = talk.connect("p")
    for n in range(25):
        publisher.publish("t", str(n).encode(), 1 + n % 2)
    got = []
    while waiting := watcher.take(Publish):
        assert len(waiting) <= maximum
        got += [int(it.payload) for it in waiting]
        for it in waiting:
            if it.qos == 1:
                watcher.send(Puback(it.packet_id))
            else:
                watcher.send(Pubrec(it.packet_id))
                watcher.take(Pubrel)
                watcher.send(Pubcomp(it.packet_id))
        assert len(watcher.heard) <= maximum
    assert got == list(range(25))


@proves("4.9.0-2")
def test_a_publication_of_qos_2_is_open_until_it_is_completed() -> None:
    talk = Talk()
    watcher = talk.connect("w", receive_maximum=1)
    watcher.subscribe("t", qos=2)
    publisher = talk.connect("p")
    publisher.publish("t", b"one", 2)
    publisher.publish("t", b"two", 2)
    (one,) = watcher.take(Publish)
    watcher.send(Pubrec(one.packet_id))
    assert watcher.take_all() == [Pubrel(one.packet_id)]
    watcher.send(Pubcomp(one.packet_id))
    assert [it.payload for it in watcher.take(Publish)] == [b"two"]


@proves("4.9.0-2", "4.4.0-2")
def test_a_publication_that_is_refused_is_open_no_more() -> None:
    talk = Talk()
    watcher = talk.connect("w", receive_maximum=1)
    watcher.subscribe("t", qos=2)
    publisher = talk.connect("p")
    for n in range(3):
        publisher.publish("t", str(n).encode(), 2)
    got = []
    while waiting := watcher.take(Publish):
        got += [it.payload for it in waiting]
        watcher.send(Pubrec(waiting[0].packet_id, 0x80))
    assert got == [b"0", b"1", b"2"]


@proves("3.3.4-10", "4.9.0-3")
def test_everything_else_goes_on_while_no_more_may_be_open() -> None:
    talk = Talk()
    watcher = talk.connect("w", receive_maximum=1)
    watcher.subscribe("t", qos=1)
    publisher = talk.connect("p")
    for _ in range(3):
        publisher.publish("t", b"x", 1)
    assert len(watcher.take(Publish)) == 1
    watcher.ping()
    assert watcher.subscribe("u").reasons == (0,)
    assert watcher.unsubscribe("u").reasons == (0,)
    assert watcher.publish("v", b"x", 2) < 0x80
    assert watcher.publish("v", b"x", 1) < 0x80


@proves("4.9.0-1", "4.4.0-1")
def test_what_is_sent_again_counts_against_what_may_be_open() -> None:
    talk = Talk()
    watcher = talk.connect("w", receive_maximum=5, session_expiry_s=60)
    watcher.subscribe("t", qos=1)
    publisher = talk.connect("p")
    for n in range(5):
        publisher.publish("t", str(n).encode(), 1)
    assert len(watcher.take(Publish)) == 5
    watcher.lose()
    watcher = talk.connect("w", receive_maximum=2, clean_start=False, session_expiry_s=60)
    waiting = watcher.take(Publish)
    assert [it.payload for it in waiting] == [b"0", b"1"]
    for it in waiting:
        watcher.send(Puback(it.packet_id))
    assert watcher.payloads() == [b"2", b"3", b"4"]


@proves("3.3.4-7", "4.13.1-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_client_that_opens_more_than_it_may_is_closed(qos: int) -> None:
    talk = Talk(replace(PLAIN, receive_maximum=10))
    client = talk.connect("c")
    assert client.connack is not None
    assert client.connack.properties.receive_maximum == 10
    if qos == 2:
        for n in range(1, 11):
            client.send(Publish("t", b"x", 2, packet_id=n))
        assert client.take_all() == [Pubrec(n) for n in range(1, 11)]
        client.send(Publish("t", b"x", 2, packet_id=11))
        refused(client, 0x93)
    else:
        for n in range(1, 31):
            client.send(Publish("t", b"x", 1, packet_id=n))
        client.take_all()
        client.ping()


@proves("3.1.2-24", "3.1.2-25")
def test_what_is_too_large_for_a_client_is_dropped_as_if_it_had_been_sent() -> None:
    talk = Talk()
    small, large = talk.connect("small", maximum_packet_bytes=100, receive_maximum=1), talk.connect("large")
    for client in (small, large):
        client.subscribe("t", qos=2)
    publisher = talk.connect("p")
    for qos in (0, 1, 2):
        publisher.publish("t", b"x" * 200, qos)
        publisher.publish("t", b"small", qos)
    assert small.payloads() == [b"small"] * 3
    assert len(large.read()) == 6
    small.ping()


@proves("3.1.2-24")
@pytest.mark.parametrize("qos", [0, 1])
def test_a_packet_may_be_exactly_as_large_as_the_client_allows(qos: int) -> None:
    talk = Talk()
    watcher = talk.connect("w", maximum_packet_bytes=64)
    watcher.subscribe("t", qos=1)
    publisher = talk.connect("p")
    overhead = 2 + 3 + 1 + 2 * qos
    for size in (63, 64, 65):
        publisher.publish("t", b"x" * (size - overhead), qos)
    assert [len(it.payload) + overhead for it in watcher.read()] == [63, 64]


@proves("3.1.2-25")
def test_what_was_queued_and_is_too_large_for_who_comes_back_is_dropped() -> None:
    talk = Talk()
    sleeper = talk.connect("s", session_expiry_s=60)
    sleeper.subscribe("t", qos=1)
    sleeper.disconnect()
    publisher = talk.connect("p")
    publisher.publish("t", b"x" * 500, 1)
    publisher.publish("t", b"small", 1)
    sleeper = talk.connect("s", clean_start=False, session_expiry_s=60, maximum_packet_bytes=100)
    assert sleeper.payloads() == [b"small"]


@proves("3.2.2-15", v311=("4.8.0-2",))
@both
def test_a_packet_that_is_larger_than_the_broker_takes_closes_the_connection(version: Version) -> None:
    talk = Talk(replace(PLAIN, packet_bytes_max=1000))
    client = talk.connect("c", version)
    if version is V5:
        assert client.connack is not None
        assert client.connack.properties.maximum_packet_bytes == 1000
    client.publish("t", b"x" * (1000 - len(publish_bytes(version, "t", b"")) - 1))
    client.ping()
    client.send_bytes(publish_bytes(version, "t", b"x" * 1000))
    refused(client, 0x95)


@proves("4.13.1-1")
def test_a_packet_that_is_too_large_is_refused_before_it_is_there() -> None:
    client = Talk(replace(PLAIN, packet_bytes_max=1000)).connect("c")
    client.send_bytes(bytes.fromhex("30 ffffff7f 0001"))
    refused(client, 0x95)


@proves("3.1.2-29")
def test_no_reasons_are_given_to_who_wants_none() -> None:
    talk = Talk()
    client = talk.connect("c", request_problem_information=0)
    suback = client.subscribe("t", qos=1, user=(("where", "no filter ("),))
    assert suback.reasons[0] >= 0x80
    assert (suback.properties.reason_string, suback.properties.user) == (None, ())
    client.send(Publish("$SYS/no", b"x", 1, packet_id=1), Publish("$SYS/no", b"x", 2, packet_id=2))
    for answer in client.take_all():
        assert isinstance(answer, Puback | Pubrec)
        assert (answer.properties.reason_string, answer.properties.user) == (None, ())
    client.subscribe("u")
    client.publish("u", b"x", user=(("a", "b"),))
    assert [it.properties.user for it in client.read()] == [(("a", "b"),)]


@proves(
    "3.4.2-2",
    "3.4.2-3",
    "3.5.2-2",
    "3.5.2-3",
    "3.6.2-2",
    "3.6.2-3",
    "3.7.2-2",
    "3.7.2-3",
    "3.9.2-1",
    "3.9.2-2",
    "3.11.2-1",
    "3.11.2-2",
    "3.14.2-3",
    "3.14.2-4",
)
@pytest.mark.parametrize("size", [20, 24, 32, 48, 64, 128])
def test_reasons_never_make_a_packet_too_large(size: int) -> None:
    talk = Talk()
    client = talk.connect("c", maximum_packet_bytes=size)
    where = (("where", "severity >= 3 AND THEN SOME(" + "x" * 60),)
    start = len(client.bytes)

    def fits() -> None:
        nonlocal start
        assert len(client.bytes) - start <= size
        start = len(client.bytes)

    assert client.subscribe("t", user=where).reasons[0] >= 0x80
    fits()
    client.unsubscribe("t")
    fits()
    for qos in (1, 2):
        client.send(Publish("$SYS/no", b"x", qos, packet_id=9))
        assert client.take_all() != []
        fits()
    client.send(Pubrec(9))
    fits()
    client.send(Pubrel(9))
    fits()
    client.send_bytes("36 00")
    fits()
    assert client.closed


@proves("3.9.2-1")
def test_a_reason_is_given_where_there_is_room() -> None:
    client = Talk().connect("c")
    suback = client.subscribe("t", user=(("where", "severity >="),))
    assert suback.reasons[0] >= 0x80
    assert suback.properties.reason_string
