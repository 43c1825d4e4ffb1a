"""Section 3.3: what is passed on with a publication, topic aliases, expiry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.mqtt.conformance.proving import both, proves, publish_bytes, raw, refused, text
from tests.mqtt.talk import PLAIN, V5, V311, Talk
from tidings.mqtt.packets import Properties, Puback, Publish, Pubrec, Version

PROPERTIES: dict[str, dict[str, Any]] = {
    "payload format 0": {"payload_format": 0},
    "payload format 1": {"payload_format": 1},
    "content type": {"content_type": "application/json"},
    "response topic": {"response_topic": "answers/é"},
    "correlation data": {"correlation_data": b"\0\xff"},
    "empty correlation data": {"correlation_data": b""},
    "one user property": {"user": (("name", "value"),)},
    "user properties in no order": {"user": (("b", "2"), ("a", "1"), ("b", "1"), ("", ""), ("a", "1"))},
}


@proves("3.3.2-4", "3.3.2-15", "3.3.2-16", "3.3.2-17", "3.3.2-18", "3.3.2-20")
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("name", PROPERTIES)
def test_properties_are_passed_on_as_they_came(name: str, qos: int) -> None:
    talk = Talk()
    watcher = talk.connect("w")
    watcher.subscribe("t", qos=2)
    talk.connect("p").publish("t", b'{"a": 1}', qos, **PROPERTIES[name])
    (it,) = watcher.read()
    assert it.properties == Properties(**PROPERTIES[name])
    assert (it.topic, it.payload, it.qos) == ("t", b'{"a": 1}', qos)


@proves("3.3.2-20")
def test_an_empty_content_type_is_passed_on_as_none() -> None:
    talk = Talk()
    watcher = talk.connect("w")
    watcher.subscribe("t")
    talk.connect("p").publish("t", b"x", content_type="")
    (it,) = watcher.read()
    assert it.properties.content_type is None


@proves("3.3.2-4", "3.3.2-15", "3.3.2-16", "3.3.2-17", "3.3.2-18", "3.3.2-20")
@pytest.mark.parametrize("name", PROPERTIES)
def test_properties_are_kept_with_what_waits_and_what_is_retained(name: str) -> None:
    talk = Talk()
    sleeper = talk.connect("s", session_expiry_s=60)
    sleeper.subscribe("t", qos=1)
    sleeper.disconnect()
    talk.connect("p").publish("t", b"x", 1, retain=True, **PROPERTIES[name])
    talk.crash()
    late = talk.connect("late")
    late.subscribe("t")
    sleeper = talk.connect("s", clean_start=False)
    for client in (sleeper, late):
        (it,) = client.read()
        assert it.properties == Properties(**PROPERTIES[name])


@both
@proves("3.3.2-1", v311=("7.0.0-2",))
def test_what_a_client_of_311_publishes_reaches_both_and_so_does_the_other_way(version: Version) -> None:
    talk = Talk()
    five, three = talk.connect("five", V5), talk.connect("three", V311)
    for client in (five, three):
        client.subscribe("t", qos=2)
    talk.connect("p", version).publish("t", b"x", 1)
    for client in (five, three):
        (it,) = client.read()
        assert (it.topic, it.payload, it.qos) == ("t", b"x", 1)
        assert it.properties == Properties()


@proves("3.3.4-1", "2.2.1-5", v311=("3.3.4-1", "2.3.1-6"))
@both
def test_a_publication_is_answered_as_its_qos_wants_it(version: Version) -> None:
    client = Talk().connect("c", version)
    client.send(Publish("t", b"x", 0))
    assert client.take_all() == []
    client.send(Publish("t", b"x", 1, packet_id=10))
    (puback,) = client.take_all()
    assert isinstance(puback, Puback)
    assert puback.packet_id == 10
    client.send(Publish("t", b"x", 2, packet_id=65535))
    (pubrec,) = client.take_all()
    assert isinstance(pubrec, Pubrec)
    assert pubrec.packet_id == 65535


@proves("3.3.1-4", v311=("3.3.1-4",))
@pytest.mark.parametrize("flags", [0x6, 0x7, 0xE, 0xF])
@both
def test_qos_3_closes_the_connection(version: Version, flags: int) -> None:
    client = Talk().connect("c", version)
    client.send_bytes(raw(0x30 | flags, text("t") + b"\0\1\0x"))
    refused(client, 0x81)


@proves("3.3.1-2", v311=("3.3.1-2",))
@both
def test_dup_with_qos_0_closes_the_connection(version: Version) -> None:
    client = Talk().connect("c", version)
    client.send_bytes(b"\x38" + publish_bytes(version, "t")[1:])
    refused(client, 0x81, 0x82)


@proves("3.3.2-2", "4.7.0-1", v311=("3.3.2-2", "4.7.1-1"))
@pytest.mark.parametrize("topic", ["#", "+", "a/#", "a/+/b", "a+", "a#b"])
@both
def test_a_wildcard_in_a_topic_closes_the_connection(version: Version, topic: str) -> None:
    client = Talk().connect("c", version)
    client.send_bytes(publish_bytes(version, topic))
    refused(client, 0x81, 0x90)


@proves("4.7.3-1", v311=("4.7.3-1",))
@both
def test_an_empty_topic_closes_the_connection(version: Version) -> None:
    client = Talk().connect("c", version)
    client.send_bytes(publish_bytes(version, ""))
    refused(client, 0x81, 0x82, 0x90)


@proves("3.3.2-14")
@pytest.mark.parametrize("topic", ["#", "answers/+", ""])
def test_a_response_topic_that_cannot_be_published_to_closes_the_connection(topic: str) -> None:
    client = Talk().connect("c")
    client.send_bytes(publish_bytes(V5, "t", b"x", b"\x08" + text(topic)))
    refused(client, 0x81, 0x82, 0x90)


@proves("3.3.4-6")
def test_a_subscription_identifier_from_a_client_closes_the_connection() -> None:
    client = Talk().connect("c")
    client.send_bytes(publish_bytes(V5, "t", b"x", b"\x0b\x01"))
    refused(client, 0x82)


# Topic aliases of a client.


@proves("3.3.2-12")
def test_all_topic_aliases_that_were_allowed_are_taken() -> None:
    talk = Talk(replace(PLAIN, topic_alias_maximum=10))
    client = talk.connect("c")
    assert client.connack is not None
    assert client.connack.properties.topic_alias_maximum == 10
    watcher = talk.connect("w")
    watcher.subscribe("#")
    for alias in range(1, 11):
        client.publish(f"t/{alias}", b"set", topic_alias=alias)
    for alias in range(1, 11):
        client.publish("", b"used", topic_alias=alias)
    topics = [f"t/{alias}" for alias in range(1, 11)]
    got = watcher.read()
    assert [it.topic for it in got] == topics * 2
    assert {it.properties.topic_alias for it in got} == {None}, "an alias is not passed on"


@proves("3.3.2-12")
def test_a_topic_alias_may_be_set_anew() -> None:
    talk = Talk()
    client, watcher = talk.connect("c"), talk.connect("w")
    watcher.subscribe("#", qos=2)
    client.publish("one", b"", topic_alias=1)
    client.publish("two", b"", 1, topic_alias=1)
    client.publish("", b"", 2, topic_alias=1)
    assert [it.topic for it in watcher.read()] == ["one", "two", "two"]


@proves("3.3.2-8", "3.3.2-9", "3.2.2-17")
@pytest.mark.parametrize("alias", [0, 11, 65535])
def test_a_topic_alias_out_of_bounds_closes_the_connection(alias: int) -> None:
    client = Talk(replace(PLAIN, topic_alias_maximum=10)).connect("c")
    client.send_bytes(publish_bytes(V5, "t", b"x", b"\x23" + alias.to_bytes(2, "big")))
    refused(client, 0x94)


@proves("3.2.2-18")
def test_where_no_topic_alias_is_allowed_any_closes_the_connection() -> None:
    client = Talk(replace(PLAIN, topic_alias_maximum=0)).connect("c")
    assert client.connack is not None
    assert client.connack.properties.topic_alias_maximum in (None, 0)
    client.send_bytes(publish_bytes(V5, "t", b"x", b"\x23\0\1"))
    refused(client, 0x94)


@proves("3.3.2-7")
def test_topic_aliases_of_a_client_end_with_its_connection() -> None:
    talk = Talk()
    client = talk.connect("c", session_expiry_s=60)
    client.publish("t", b"x", topic_alias=1)
    client.disconnect()
    client = talk.connect("c", clean_start=False, session_expiry_s=60)
    client.send_bytes(publish_bytes(V5, "", b"x", b"\x23\0\1"))
    refused(client, 0x82, 0x94)


# Topic aliases of the broker.


@proves("3.1.2-26", "3.3.2-11")
def test_topic_aliases_are_set_within_what_the_client_allows() -> None:
    talk = Talk()
    watcher = talk.connect("w", topic_alias_maximum=2)
    watcher.subscribe("#")
    publisher = talk.connect("p")
    for _ in range(3):
        for topic in ("one", "two", "three"):
            publisher.publish(topic)
    known: dict[int, str] = {}
    heard = []
    for it in watcher.read():
        alias = it.properties.topic_alias
        if alias is not None:
            assert 1 <= alias <= 2
            if it.topic:
                known[alias] = it.topic
            heard.append(known[alias])
        else:
            heard.append(it.topic)
    assert heard == ["one", "two", "three"] * 3


@proves("3.1.2-26")
def test_a_topic_alias_is_set_with_the_first_message_and_used_from_then_on() -> None:
    talk = Talk()
    watcher = talk.connect("w", topic_alias_maximum=1)
    watcher.subscribe("t", qos=2)
    publisher = talk.connect("p")
    for qos in (0, 1, 2):
        publisher.publish("t", b"x", qos)
    got = watcher.read()
    assert [it.properties.topic_alias for it in got] == [1, 1, 1]
    assert [it.topic for it in got] == ["t", "", ""]


@proves("3.1.2-27")
@pytest.mark.parametrize("allowed", [None, 0])
def test_no_topic_alias_is_sent_to_who_does_not_want_any(allowed: int | None) -> None:
    talk = Talk()
    watcher = talk.connect("w", topic_alias_maximum=allowed)
    watcher.subscribe("t", qos=2)
    publisher = talk.connect("p")
    for qos in (0, 1, 2, 0):
        publisher.publish("t", b"x", qos)
    assert {(it.topic, it.properties.topic_alias) for it in watcher.read()} == {("t", None)}


@proves("3.3.2-7")
def test_topic_aliases_of_the_broker_end_with_the_connection() -> None:
    talk = Talk()
    watcher = talk.connect("w", topic_alias_maximum=5, session_expiry_s=60)
    watcher.subscribe("t", qos=1)
    publisher = talk.connect("p")
    publisher.publish("t", b"one", 1)
    publisher.publish("t", b"two", 1)
    assert [it.topic for it in watcher.take(Publish)] == ["t", ""]
    watcher.lose()
    watcher = talk.connect("w", topic_alias_maximum=5, clean_start=False, session_expiry_s=60)
    publisher.publish("t", b"three", 1)
    assert [it.topic for it in watcher.read()] == ["t", "", ""], "what is sent again has its topic again"
    watcher.disconnect()
    watcher = talk.connect("w", clean_start=False)
    publisher.publish("t", b"four", 1)
    assert [(it.topic, it.properties.topic_alias) for it in watcher.read()] == [("t", None)]


# Expiry.


@proves("3.3.2-6")
def test_expiry_is_less_what_the_message_has_waited() -> None:
    talk = Talk()
    sleeper = talk.connect("s", session_expiry_s=3600)
    sleeper.subscribe("t", qos=1)
    sleeper.disconnect()
    talk.connect("p").publish("t", b"x", 1, message_expiry_s=100)
    talk.advance(40)
    (it,) = talk.connect("s", clean_start=False).read()
    assert it.properties.message_expiry_s in (59, 60)


@proves("3.3.2-6")
def test_expiry_is_as_it_came_where_nothing_waited() -> None:
    talk = Talk()
    watcher = talk.connect("w")
    watcher.subscribe("t")
    talk.connect("p").publish("t", b"x", message_expiry_s=1)
    (it,) = watcher.read()
    assert it.properties.message_expiry_s == 1


@proves("3.3.2-5")
def test_what_has_expired_while_it_waited_is_dropped() -> None:
    talk = Talk()
    sleeper = talk.connect("s", session_expiry_s=3600)
    sleeper.subscribe("t", qos=2)
    sleeper.disconnect()
    publisher = talk.connect("p")
    for qos in (1, 2):
        publisher.publish("t", b"short", qos, message_expiry_s=10)
        publisher.publish("t", b"long", qos, message_expiry_s=60)
        publisher.publish("t", b"for ever", qos)
    talk.advance(30)
    got = talk.connect("s", clean_start=False).read()
    assert [it.payload for it in got] == [b"long", b"for ever"] * 2


@proves("3.3.2-5", "3.3.2-6")
def test_a_retained_message_expires_too() -> None:
    talk = Talk()
    talk.connect("p").publish("t", b"x", retain=True, message_expiry_s=60)
    talk.advance(20)
    watcher = talk.connect("w")
    watcher.subscribe("t")
    (it,) = watcher.read()
    assert it.properties.message_expiry_s in (39, 40)
    talk.advance(41)
    watcher.subscribe("t")
    assert watcher.read() == []


@proves("3.3.2-5")
def test_what_waits_for_a_free_place_may_expire() -> None:
    talk = Talk()
    watcher = talk.connect("w", receive_maximum=1)
    watcher.subscribe("t", qos=1)
    publisher = talk.connect("p")
    publisher.publish("t", b"first", 1)
    publisher.publish("t", b"short", 1, message_expiry_s=5)
    publisher.publish("t", b"last", 1)
    (first,) = watcher.take(Publish)
    talk.advance(10)
    watcher.send(Puback(first.packet_id))
    assert watcher.payloads() == [b"last"]


# What is not allowed.


@proves(v311=("3.3.5-2",))
@pytest.mark.parametrize("qos", [1, 2])
def test_a_client_of_311_that_may_not_publish_is_answered_as_usual_or_closed(qos: int) -> None:
    talk = Talk()
    watcher = talk.connect("w")
    watcher.subscribe("#", "$SYS/#", qos=2)
    watcher.take_all()
    client = talk.connect("c", V311)
    client.send(Publish("$SYS/broker/uptime", b"x", qos, packet_id=1))
    if not client.closed:
        (answer,) = client.take_all()
        assert answer == (Puback(1) if qos == 1 else Pubrec(1))
    assert b"x" not in watcher.payloads()


@proves("3.4.2-1", "3.5.2-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_client_of_5_that_may_not_publish_is_told_so(qos: int) -> None:
    talk = Talk()
    client = talk.connect("c")
    client.send(Publish("$SYS/broker/uptime", b"x", qos, packet_id=1))
    (answer,) = client.take_all()
    assert isinstance(answer, Puback | Pubrec)
    assert answer.reason == 0x87
    client.ping()
