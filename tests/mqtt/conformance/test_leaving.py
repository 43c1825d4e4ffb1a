"""Sections 3.12 to 3.14 and 3.1.2.10: pings, keep alive, farewells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.mqtt.conformance.proving import both, proves, publish_bytes, raw, refused
from tests.mqtt.talk import PLAIN, V5, Talk
from tidings.mqtt.events import ClientExpelled
from tidings.mqtt.packets import Disconnect, Pingreq, Pingresp, Publish, Version


@proves("3.12.4-1", v311=("3.12.4-1",))
@both
def test_each_ping_is_answered(version: Version) -> None:
    client = Talk().connect("c", version)
    client.send(Pingreq(), Pingreq())
    assert client.take_all() == [Pingresp(), Pingresp()]
    assert client.bytes.endswith(bytes.fromhex("d000 d000"))


@proves("3.1.2-22", "3.2.2-22", v311=("3.1.2-24",))
@pytest.mark.parametrize("keep_alive_s", [1, 10, 600])
@both
def test_a_client_that_falls_silent_is_closed_after_one_and_a_half_keep_alives(
    version: Version, keep_alive_s: int
) -> None:
    talk = Talk()
    client = talk.connect("c", version, keep_alive_s=keep_alive_s)
    if version is V5:
        assert client.connack is not None
        assert client.connack.properties.server_keep_alive_s is None
    talk.advance(keep_alive_s * 1.45)
    client.ping()
    talk.advance(keep_alive_s * 1.45)
    assert not client.closed
    talk.advance(max(keep_alive_s * 0.1, 1))
    refused(client, 0x8D)


@proves("3.1.2-22", v311=("3.1.2-24",))
@both
def test_any_packet_shows_that_a_client_is_there(version: Version) -> None:
    talk = Talk()
    client = talk.connect("c", version, keep_alive_s=10)
    for _ in range(10):
        talk.advance(14)
        client.send_bytes(publish_bytes(version, "t"))
    assert not client.closed


@proves("3.1.2-22", v311=("3.1.2-24",))
@both
def test_a_packet_that_never_ends_does_not_show_that_a_client_is_there(version: Version) -> None:
    talk = Talk()
    client = talk.connect("c", version, keep_alive_s=10)
    for byte in publish_bytes(version, "t", b"x" * 100)[:4]:
        talk.advance(5)
        if not client.closed:
            client.send_bytes(bytes([byte]))
    assert client.closed


@proves("3.1.2-22", v311=("3.1.2-24",))
@both
def test_what_a_client_is_sent_does_not_show_that_it_is_there(version: Version) -> None:
    talk = Talk()
    client = talk.connect("c", version, keep_alive_s=10)
    client.subscribe("t")
    publisher = talk.connect("p", version)
    for _ in range(16):
        talk.advance(1)
        publisher.publish("t")
    assert client.closed


@proves("3.1.2-22", v311=("3.1.2-24",))
@both
def test_without_keep_alive_silence_is_no_fault(version: Version) -> None:
    talk = Talk()
    client = talk.connect("c", version, keep_alive_s=0)
    talk.advance(5_000)
    client.ping()


@proves("3.1.2-21", "3.2.2-21", "3.1.2-22")
@pytest.mark.parametrize("asked_s", [0, 61, 120, 65_535])
def test_a_client_is_told_of_a_shorter_keep_alive_and_held_to_it(asked_s: int) -> None:
    talk = Talk(replace(PLAIN, keep_alive_max_s=60))
    client = talk.connect("c", keep_alive_s=asked_s)
    assert client.connack is not None
    assert client.connack.properties.server_keep_alive_s == 60
    talk.advance(89)
    client.ping()
    talk.advance(91)
    refused(client, 0x8D)


@proves("3.2.2-22")
def test_a_keep_alive_that_is_short_enough_holds() -> None:
    talk = Talk(replace(PLAIN, keep_alive_max_s=60))
    client = talk.connect("c", keep_alive_s=60)
    assert client.connack is not None
    assert client.connack.properties.server_keep_alive_s is None


@proves("3.14.4-2", v311=("3.14.4-1",))
@both
def test_the_broker_closes_behind_a_farewell(version: Version) -> None:
    client = Talk().connect("c", version)
    client.send(Disconnect())
    assert client.closed
    assert client.take_all() == []


@proves("3.14.4-1", v311=("3.14.4-2",))
@both
def test_nothing_behind_a_farewell_is_looked_at(version: Version) -> None:
    talk = Talk()
    watcher = talk.connect("w", version)
    watcher.subscribe("t")
    client = talk.connect("c", version)
    client.send_bytes(raw(0xE0) + publish_bytes(version, "t"))
    assert client.closed
    assert watcher.read() == []


@proves("3.14.4-1", "3.14.4-2", "4.13.2-1")
def test_nothing_is_sent_behind_the_brokers_farewell() -> None:
    talk = Talk()
    client = talk.connect("c")
    client.subscribe("t")
    client.send_bytes("36 00" + (publish_bytes(V5, "t") + raw(0xC0)).hex())
    refused(client, 0x81)
    assert client.heard == []
    talk.connect("p").publish("t")
    assert client.heard == []


@proves("3.14.2-1", "3.14.2-2")
def test_farewells_of_the_broker_have_reasons_of_their_own_and_no_session_expiry() -> None:
    talk = Talk(replace(PLAIN, receive_maximum=1))

    def malformed() -> None:
        client.send_bytes("36 00")

    def alias() -> None:
        client.send_bytes(publish_bytes(V5, "t", b"x", b"\x23\0\0"))

    def too_many() -> None:
        client.send(Publish("t", b"x", 2, packet_id=1), Publish("t", b"x", 2, packet_id=2))

    def silence() -> None:
        talk.advance(16)

    def another() -> None:
        talk.connect("c")

    def operator() -> None:
        talk.tell(ClientExpelled("c"))

    for happen, reason in {
        malformed: 0x81,
        alias: 0x94,
        too_many: 0x93,
        silence: 0x8D,
        another: 0x8E,
        operator: 0x98,
    }.items():
        client = talk.connect("c", keep_alive_s=10, session_expiry_s=100)
        happen()
        assert client.closed
        (farewell,) = client.take(Disconnect)
        assert farewell.reason == reason
        assert farewell.properties.session_expiry_s is None


@proves("3.14.0-1", v311=("4.8.0-1",))
@both
def test_who_says_nothing_at_all_is_closed_without_a_word(version: Version) -> None:
    talk = Talk()
    silent = talk.dial(version)
    slow = talk.dial(version)
    slow.send_bytes("10")
    talk.advance(PLAIN.connect_within_s + 1)
    for client in (silent, slow):
        assert client.closed
        assert client.bytes == b""
