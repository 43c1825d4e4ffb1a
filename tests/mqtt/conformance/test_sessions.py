"""Sections 3.1.2, 3.1.4, 4.1: sessions, how long they last and who has them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.mqtt.conformance.proving import both, proves, refused
from tests.mqtt.talk import PLAIN, V5, V311, Client, Talk
from tidings.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel, Version

NEVER = 0xFFFF_FFFF


def durable(talk: Talk, client_id: str, version: Version, *, clean_start: bool = False) -> Client:
    """A client whose session lasts."""
    if version is V5:
        return talk.connect(client_id, V5, clean_start=clean_start, session_expiry_s=3600)
    return talk.connect(client_id, V311, clean_start=clean_start)


def present(client: Client) -> bool:
    assert client.connack is not None
    return client.connack.session_present


@proves(
    "3.1.2-5",
    "3.1.2-6",
    "3.1.2-23",
    "3.1.3-2",
    "3.1.4-4",
    "3.2.2-3",
    "4.5.0-1",
    v311=("3.1.2-4", "3.1.2-5", "3.1.3-2", "3.1.4-3", "3.2.2-2", "3.2.2-3", "4.1.0-1", "4.5.0-1"),
)
@both
def test_a_session_goes_on_with_what_came_meanwhile(version: Version) -> None:
    talk = Talk()
    client = durable(talk, "c", version)
    assert not present(client)
    client.subscribe("t", qos=2)
    client.disconnect()
    publisher = talk.connect("p", version)
    for qos in (1, 2):
        publisher.publish("t", f"of QoS {qos}".encode(), qos)
    talk.advance(60)
    client = durable(talk, "c", version)
    assert present(client)
    assert client.payloads() == [b"of QoS 1", b"of QoS 2"]
    publisher.publish("t", b"now", 1)
    assert client.payloads() == [b"now"], "its subscription goes on too"
    other = durable(talk, "d", version)
    assert not present(other)
    assert other.read() == []


@proves("3.1.2-23", "4.5.0-1", v311=("3.1.2-5", "4.5.0-1"))
@both
def test_a_session_outlives_a_lost_connection(version: Version) -> None:
    talk = Talk()
    client = durable(talk, "c", version)
    client.subscribe("t", qos=1)
    client.lose()
    talk.connect("p", version).publish("t", b"x", 1)
    client = durable(talk, "c", version)
    assert present(client)
    assert client.payloads() == [b"x"]


@proves("3.1.2-23", "4.5.0-1", v311=("3.1.2-4", "4.1.0-1"))
@both
def test_a_session_outlives_the_broker(version: Version) -> None:
    talk = Talk()
    client = durable(talk, "c", version)
    client.subscribe("t/+", qos=2)
    client.disconnect()
    publisher = talk.connect("p", version)
    publisher.publish("t/1", b"one", 1)
    publisher.publish("t/2", b"two", 2)
    talk.crash()
    client = durable(talk, "c", version)
    assert present(client)
    assert client.payloads() == [b"one", b"two"]
    talk.connect("p", version).publish("t/3", b"three", 1)
    assert client.payloads() == [b"three"]


@proves("3.1.2-4", "3.1.4-4", "3.2.2-2", v311=("3.1.2-6", "3.1.4-3", "3.2.2-1"))
@both
def test_clean_start_throws_the_old_session_away(version: Version) -> None:
    talk = Talk()
    client = durable(talk, "c", version)
    client.subscribe("t", qos=1)
    client.disconnect()
    publisher = talk.connect("p", version)
    publisher.publish("t", b"lost", 1)
    client = durable(talk, "c", version, clean_start=True)
    assert not present(client)
    publisher.publish("t", b"not subscribed any more", 1)
    assert client.read() == []


@proves("4.1.0-2", "3.2.2-3", v311=("3.1.2-6", "3.2.2-3"))
@both
def test_a_session_that_was_to_end_with_its_connection_does(version: Version) -> None:
    talk = Talk()
    for leave in (Client.disconnect, Client.lose):
        client = talk.connect("c", version, clean_start=True)
        client.subscribe("t", qos=1)
        leave(client)
        client = talk.connect("c", version, clean_start=version is V311)
        assert not present(client)
        talk.connect("p", version).publish("t", b"x", 1)
        assert client.read() == []


@proves("3.1.2-23", "4.1.0-2")
@pytest.mark.parametrize("expiry_s", [1, 5, 300])
def test_a_session_expires_when_it_said_and_not_before(expiry_s: int) -> None:
    talk = Talk()
    client = talk.connect("c", clean_start=True, session_expiry_s=expiry_s)
    client.subscribe("t", qos=1)
    client.disconnect()
    talk.advance(expiry_s - 0.5)
    client = talk.connect("c", clean_start=False, session_expiry_s=expiry_s)
    assert present(client)
    client.lose()
    talk.advance(expiry_s + 0.5)
    assert not present(talk.connect("c", clean_start=False))


@proves("4.1.0-1", v311=("4.1.0-2",))
@both
def test_a_session_does_not_end_while_its_client_is_there(version: Version) -> None:
    talk = Talk()
    client = talk.connect("c", version, **({"session_expiry_s": 1} if version is V5 else {}))
    client.subscribe("t", qos=1)
    talk.advance(5_000)
    talk.connect("p", version).publish("t", b"x", 1)
    assert client.payloads() == [b"x"]


@proves("4.1.0-2")
def test_disconnect_may_change_how_long_a_session_is_kept() -> None:
    talk = Talk()
    talk.connect("c", session_expiry_s=1).disconnect(session_expiry_s=60)
    talk.advance(30)
    client = talk.connect("c", clean_start=False, session_expiry_s=60)
    assert present(client)
    client.disconnect(session_expiry_s=0)
    assert not present(talk.connect("c", clean_start=False))


@proves("4.13.1-1")
def test_disconnect_may_not_keep_a_session_that_was_to_end() -> None:
    talk = Talk()
    client = talk.connect("c", session_expiry_s=0)
    client.send_bytes("e0 07 00 05 11 0000003c")
    refused(client, 0x82)
    assert not present(talk.connect("c", clean_start=False))


@proves("3.1.2-23")
def test_a_session_that_never_expires_is_kept_as_long_as_the_broker_keeps_any_and_the_client_is_told() -> (
    None
):
    talk = Talk(replace(PLAIN, session_expiry_max_s=1000))
    client = talk.connect("c", session_expiry_s=NEVER)
    assert client.connack is not None
    assert client.connack.properties.session_expiry_s == 1000
    client.disconnect()
    talk.advance(999)
    client = talk.connect("c", clean_start=False, session_expiry_s=NEVER)
    assert present(client)
    client.disconnect()
    talk.advance(1001)
    assert not present(talk.connect("c", clean_start=False))


@proves("3.1.4-3", "3.14.4-1", "3.14.4-2", v311=("3.1.4-2",))
@both
def test_a_client_that_connects_again_takes_over(version: Version) -> None:
    talk = Talk()
    old = durable(talk, "c", version)
    old.subscribe("t", qos=1)
    new = durable(talk, "c", version)
    refused(old, 0x8E)
    assert present(new)
    talk.connect("p", version).publish("t", b"x", 1)
    assert new.payloads() == [b"x"]


@proves("3.1.4-3", v311=("3.1.4-2",))
def test_a_client_of_another_version_takes_over_too() -> None:
    talk = Talk()
    five = talk.connect("c", V5, session_expiry_s=3600)
    five.subscribe("t", qos=1)
    three = talk.connect("c", V311, clean_start=False)
    refused(five, 0x8E)
    assert present(three)
    talk.connect("p").publish("t", b"x", 1)
    assert three.payloads() == [b"x"]


@proves("3.1.4-3", "3.1.2-4", v311=("3.1.4-2", "3.1.2-6"))
@both
def test_a_client_that_takes_over_may_begin_clean(version: Version) -> None:
    talk = Talk()
    old = durable(talk, "c", version)
    old.subscribe("t", qos=1)
    new = durable(talk, "c", version, clean_start=True)
    refused(old, 0x8E)
    assert not present(new)
    talk.connect("p", version).publish("t", b"x", 1)
    assert new.read() == []


@proves("4.4.0-1", "3.3.1-1", "4.3.2-3", "4.3.3-3", v311=("4.4.0-1", "3.3.1-1", "2.3.1-4", "4.6.0-1"))
@both
def test_what_was_not_acknowledged_is_sent_again_with_its_identifier_in_its_order(version: Version) -> None:
    talk = Talk()
    client = durable(talk, "c", version)
    client.subscribe("t", qos=2)
    publisher = talk.connect("p", version)
    for n, qos in enumerate((1, 2, 1, 2)):
        publisher.publish("t", str(n).encode(), qos)
    first = client.take(Publish)
    assert [it.dup for it in first] == [False] * 4
    client.lose()
    client = durable(talk, "c", version)
    again = client.take(Publish)
    assert [(it.packet_id, it.qos, it.payload) for it in again] == [
        (it.packet_id, it.qos, it.payload) for it in first
    ]
    assert [it.dup for it in again] == [True] * 4


@proves("4.4.0-1", "4.3.3-5", "4.3.3-6", v311=("4.4.0-1", "4.3.3-1", "4.6.0-4"))
@both
def test_a_release_is_sent_again_and_its_publication_is_not(version: Version) -> None:
    talk = Talk()
    client = durable(talk, "c", version)
    client.subscribe("t", qos=2)
    publisher = talk.connect("p", version)
    publisher.publish("t", b"one", 2)
    publisher.publish("t", b"two", 2)
    ids = [it.packet_id for it in client.take(Publish)]
    client.send(Pubrec(ids[0]), Pubrec(ids[1]))
    assert [it.packet_id for it in client.take(Pubrel)] == ids
    client.lose()
    client = durable(talk, "c", version)
    assert [it.packet_id for it in client.take(Pubrel)] == ids
    assert client.take(Publish) == []
    client.send(Pubcomp(ids[0]), Pubcomp(ids[1]))
    client.lose()
    assert durable(talk, "c", version).take_all() == []


@proves("4.4.0-1", v311=("4.4.0-1",))
@both
def test_nothing_is_sent_again_while_the_connection_lasts(version: Version) -> None:
    talk = Talk()
    client = durable(talk, "c", version)
    client.subscribe("t", qos=1)
    talk.connect("p", version).publish("t", b"x", 1)
    assert len(client.take(Publish)) == 1
    talk.advance(3_000)
    assert client.take_all() == []


@proves("4.4.0-2", "4.8.2-6")
@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_refused_is_not_sent_again(qos: int) -> None:
    talk = Talk()
    client = durable(talk, "c", V5)
    client.subscribe("t", qos=2)
    talk.connect("p").publish("t", b"x", qos)
    (it,) = client.take(Publish)
    client.send(Puback(it.packet_id, 0x97) if qos == 1 else Pubrec(it.packet_id, 0x97))
    assert client.take_all() == []
    client.lose()
    assert durable(talk, "c", V5).take_all() == []


@proves("4.4.0-1", "4.3.3-10", v311=("4.3.3-2", "4.4.0-1"))
@both
def test_a_qos_2_publication_that_was_begun_before_is_taken_once(version: Version) -> None:
    talk = Talk()
    watcher = talk.connect("w", version)
    watcher.subscribe("t", qos=2)
    client = durable(talk, "c", version)
    client.send(Publish("t", b"x", 2, packet_id=7))
    assert [it.packet_id for it in client.take(Pubrec)] == [7]
    client.lose()
    client = durable(talk, "c", version)
    client.send(Publish("t", b"x", 2, dup=True, packet_id=7))
    assert [it.packet_id for it in client.take(Pubrec)] == [7]
    client.send(Pubrel(7))
    assert [it.packet_id for it in client.take(Pubcomp)] == [7]
    assert watcher.payloads() == [b"x"]


@proves("4.4.0-1", "4.3.3-10", v311=("4.3.3-2",))
@both
def test_a_qos_2_publication_is_taken_once_although_the_broker_began_anew(version: Version) -> None:
    talk = Talk()
    durable(talk, "w", version).subscribe("t", qos=2)
    client = durable(talk, "c", version)
    client.send(Publish("t", b"x", 2, packet_id=7))
    assert [it.packet_id for it in client.take(Pubrec)] == [7]
    talk.crash()
    client = durable(talk, "c", version)
    assert present(client)
    client.send(Publish("t", b"x", 2, dup=True, packet_id=7))
    assert [it.packet_id for it in client.take(Pubrec)] == [7]
    client.send(Pubrel(7))
    assert [it.packet_id for it in client.take(Pubcomp)] == [7]
    assert durable(talk, "w", version).payloads() == [b"x"]
