"""What a session is owed although the broker began anew: sections 3.1.2, 4.1, 4.3, 4.4 across a crash."""

from __future__ import annotations

import pytest

from tests.mqtt.conformance.proving import both, proves
from tests.mqtt.talk import V5, Client, Talk
from tidings.mqtt.packets import Properties, Puback, Pubcomp, Publish, Pubrec, Pubrel, Version, Will


def durable(talk: Talk, client_id: str, version: Version = V5, expiry_s: int = 3600) -> Client:
    options = {"session_expiry_s": expiry_s} if version is V5 else {}
    return talk.connect(client_id, version, clean_start=False, **options)


def settle(talk: Talk) -> None:
    """Let the disk catch up: what is acknowledged to us is written with the next thing that must be."""
    durable(talk, "other").subscribe("other")


def present(client: Client) -> bool:
    assert client.connack is not None
    return client.connack.session_present


@proves("4.4.0-1", "3.3.1-1", "4.3.2-3", v311=("4.4.0-1", "4.1.0-1"))
@pytest.mark.parametrize("qos", [1, 2])
@both
def test_what_was_sent_and_not_acknowledged_keeps_its_identifier(version: Version, qos: int) -> None:
    talk = Talk()
    client = durable(talk, "c", version)
    client.subscribe("t", qos=2)
    publisher = talk.connect("p", version)
    for n in range(3):
        publisher.publish("t", str(n).encode(), qos)
    first = client.take(Publish)
    talk.crash()
    client = durable(talk, "c", version)
    again = client.take(Publish)
    assert [(it.packet_id, it.payload, it.dup) for it in again] == [
        (it.packet_id, it.payload, True) for it in first
    ]
    client.heard = list(again)
    assert client.payloads() == [b"0", b"1", b"2"]


@proves("4.4.0-1", "4.3.3-5", "4.3.3-6", v311=("4.4.0-1", "4.3.3-1"))
@both
def test_what_was_received_is_released_and_not_sent_again(version: Version) -> None:
    talk = Talk()
    client = durable(talk, "c", version)
    client.subscribe("t", qos=2)
    talk.connect("p", version).publish("t", b"x", 2)
    (it,) = client.take(Publish)
    client.send(Pubrec(it.packet_id))
    assert client.take_all() == [Pubrel(it.packet_id)]
    talk.crash()
    client = durable(talk, "c", version)
    assert client.take_all() == [Pubrel(it.packet_id)]
    client.send(Pubcomp(it.packet_id))
    settle(talk)
    talk.crash()
    assert durable(talk, "c", version).take_all() == []


@proves("4.3.2-3", v311=("4.3.2-1",))
@both
def test_what_was_acknowledged_is_not_sent_again(version: Version) -> None:
    talk = Talk()
    client = durable(talk, "c", version)
    client.subscribe("t", qos=1)
    talk.connect("p", version).publish("t", b"x", 1)
    (it,) = client.take(Publish)
    client.send(Puback(it.packet_id))
    settle(talk)
    talk.crash()
    assert durable(talk, "c", version).take_all() == []


@proves("4.1.0-2", "3.1.2-23")
def test_a_session_of_one_that_was_away_expires_on_time() -> None:
    talk = Talk()
    durable(talk, "short", expiry_s=20).disconnect()
    durable(talk, "long", expiry_s=200).disconnect()
    talk.crash()
    talk.advance(30)
    assert not present(durable(talk, "short"))
    assert present(durable(talk, "long"))


@proves("4.1.0-2", "3.1.2-23")
def test_a_session_of_one_that_was_there_is_kept_as_long_as_if_its_connection_was_lost() -> None:
    talk = Talk()
    for name in ("back", "late"):
        durable(talk, name, expiry_s=60)
    talk.connect("gone")
    talk.crash()
    assert not present(durable(talk, "gone", expiry_s=0))
    talk.advance(30)
    assert present(durable(talk, "back"))
    talk.advance(60)
    assert not present(durable(talk, "late"))


@proves("3.1.2-7", "3.1.2-8", v311=("3.1.2-8",))
@both
def test_a_will_is_published_when_it_was_the_broker_that_was_lost(version: Version) -> None:
    talk = Talk()
    durable(talk, "w", version).subscribe("will", qos=1)
    talk.connect("c", version, will=Will("will", b"gone", 1))
    talk.crash()
    talk.advance(5)
    assert durable(talk, "w", version).payloads() == [b"gone"]
    settle(talk)
    talk.crash()
    talk.advance(5)
    assert durable(talk, "w", version).payloads() == []


@proves("3.1.3-9")
def test_a_will_with_delay_is_not_published_if_its_client_is_back_at_the_new_broker() -> None:
    talk = Talk()
    durable(talk, "w").subscribe("will", qos=1)
    will = Will("will", b"gone", 1, properties=Properties(will_delay_s=60))
    talk.connect("c", session_expiry_s=3600, will=will)
    talk.crash()
    durable(talk, "c")
    talk.advance(100)
    assert durable(talk, "w").payloads() == []


@proves("3.8.3-3", "3.3.1-13", "3.3.4-3")
def test_subscriptions_keep_their_options() -> None:
    talk = Talk()
    client = durable(talk, "c")
    client.subscribe("t", qos=1, no_local=True, retain_as_published=True, subscription_identifiers=(9,))
    talk.crash()
    client = durable(talk, "c")
    client.publish("t", b"mine", 1)
    talk.connect("p").publish("t", b"other's", 1, retain=True)
    (it,) = client.read()
    assert (it.payload, it.retain, it.properties.subscription_identifiers) == (b"other's", True, (9,))


@proves("3.3.2-5", "3.3.2-6")
def test_time_goes_on_for_what_expires() -> None:
    talk = Talk()
    durable(talk, "c").subscribe("t", qos=1)
    publisher = talk.connect("p")
    publisher.publish("t", b"short", 1, retain=True, message_expiry_s=10)
    publisher.publish("u", b"kept", 1, retain=True, message_expiry_s=100)
    talk.crash()
    talk.advance(30)
    client = talk.connect("d")
    client.subscribe("#")
    (it,) = client.read()
    assert it.payload == b"kept"
    assert it.properties.message_expiry_s is not None
    assert 60 <= it.properties.message_expiry_s <= 70


@proves("4.5.0-1", v311=("4.5.0-1",))
@both
def test_a_shared_subscription_goes_on(version: Version) -> None:
    talk = Talk()
    for name in ("a", "b"):
        durable(talk, name, version).subscribe("$share/g/t", qos=1)
    talk.crash()
    members = [durable(talk, name, version) for name in ("a", "b")]
    publisher = talk.connect("p", version)
    for n in range(10):
        publisher.publish("t", str(n).encode(), 1)
    assert sorted(it for member in members for it in member.payloads()) == [
        str(n).encode() for n in range(10)
    ]


@proves("3.10.4-2", v311=("3.10.4-2",))
@both
def test_what_was_unsubscribed_stays_so(version: Version) -> None:
    talk = Talk()
    client = durable(talk, "c", version)
    client.subscribe("t", "u", qos=1)
    client.unsubscribe("t")
    talk.crash()
    client = durable(talk, "c", version)
    publisher = talk.connect("p", version)
    publisher.publish("t", b"t", 1)
    publisher.publish("u", b"u", 1)
    assert client.payloads() == [b"u"]
