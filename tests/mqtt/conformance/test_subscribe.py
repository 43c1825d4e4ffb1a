"""Sections 3.8 to 3.11: subscribing and leaving."""

from __future__ import annotations

import pytest

from tests.mqtt.conformance.proving import block, both, proves, raw, refused, subscribe_bytes, text
from tests.mqtt.talk import V5, V311, Talk
from tidings.mqtt.events import Access, Rule
from tidings.mqtt.packets import (
    Asked,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Version,
)


@proves("3.8.4-1", "3.8.4-2", "2.2.1-6", v311=("3.8.4-1", "3.8.4-2", "2.3.1-7"))
@pytest.mark.parametrize("packet_id", [1, 0x1234, 0xFFFF])
@both
def test_subscribe_is_answered_with_its_identifier(version: Version, packet_id: int) -> None:
    client = Talk().connect("c", version)
    client.send(Subscribe(packet_id, (Asked("t"),)))
    assert client.take_all() == [Suback(packet_id, (0,))]


@proves(
    "3.8.4-5",
    "3.8.4-6",
    "3.8.4-7",
    "3.9.3-1",
    "3.9.3-2",
    v311=("3.8.4-4", "3.8.4-5", "3.9.3-1", "3.9.3-2"),
)
@both
def test_several_filters_are_answered_in_their_order(version: Version) -> None:
    access = Access((Rule(True, "any", "#"), Rule(False, "subscribe", "secret/#")), anonymous=True)
    talk = Talk(access=access)
    client = talk.connect("c", version)
    suback = client.subscribe(
        Asked("a", 2), Asked("secret/x", 1), Asked("b", 0), Asked("c/#", 1), Asked("a", 1)
    )
    assert suback.reasons == (2, 0x87 if version is V5 else 0x80, 0, 1, 1)
    publisher = talk.connect("p", version)
    for topic in ("a", "secret/x", "b", "c/d"):
        publisher.publish(topic, b"x", 2)
    assert [(it.topic, it.qos) for it in client.read()] == [("a", 1), ("b", 0), ("c/d", 1)]


@proves("3.8.4-3", "3.8.4-4", v311=("3.8.4-3",))
@both
def test_subscribing_again_replaces(version: Version) -> None:
    talk = Talk()
    client, publisher = talk.connect("c", version), talk.connect("p", version)
    for qos in (2, 0, 1):
        assert client.subscribe("t", qos=qos).reasons == (qos,)
        publisher.publish("t", b"x", 2)
        assert [it.qos for it in client.read()] == [qos]


@proves("3.8.4-3", "3.3.4-3")
def test_subscribing_again_replaces_options_and_identifier() -> None:
    talk = Talk()
    client = talk.connect("c")
    client.subscribe("t", subscription_identifiers=(1,), no_local=True, retain_as_published=True)
    client.publish("t", b"x", retain=True)
    assert client.read() == []
    client.subscribe("t", subscription_identifiers=(2,), retain_handling=2)
    client.publish("t", b"y", retain=True)
    (it,) = client.read()
    assert (it.properties.subscription_identifiers, it.retain) == ((2,), False)
    client.subscribe("t", retain_handling=2)
    client.publish("t", b"z")
    (it,) = client.read()
    assert it.properties.subscription_identifiers == ()


@proves("3.8.4-4", v311=("3.8.4-3",))
@both
def test_nothing_is_lost_while_a_subscription_is_replaced(version: Version) -> None:
    talk = Talk()
    client, publisher = talk.connect("c", version), talk.connect("p", version)
    client.subscribe("t", qos=1)
    for n in range(10):
        publisher.send(Publish("t", str(n).encode(), 1, packet_id=n + 1))
        client.send(Subscribe(100 + n, (Asked("t", 1),)))
    assert [int(it) for it in client.payloads()] == list(range(10))


@proves("3.8.3-5", v311=("3.8.3-4",))
@pytest.mark.parametrize("options", [0x03, 0x40, 0x80, 0xC0])
@both
def test_reserved_options_close_the_connection(version: Version, options: int) -> None:
    client = Talk().connect("c", version)
    client.send_bytes(subscribe_bytes(version, "t", options))
    refused(client, 0x81, 0x82)


@proves("3.8.3-5")
def test_retain_handling_3_closes_the_connection() -> None:
    client = Talk().connect("c")
    client.send_bytes(subscribe_bytes(V5, "t", 0x30))
    refused(client, 0x81, 0x82)


@proves(v311=("3.8.3-4",))
@pytest.mark.parametrize("options", [0x04, 0x08, 0x10, 0x20])
def test_options_of_5_close_a_connection_of_311(options: int) -> None:
    client = Talk().connect("c", V311)
    client.send_bytes(subscribe_bytes(V311, "t", options))
    refused(client)


@proves("3.8.3-2", "3.10.3-2", v311=("3.8.3-3", "3.10.3-2"))
@pytest.mark.parametrize("kind", [0x82, 0xA2], ids=["SUBSCRIBE", "UNSUBSCRIBE"])
@both
def test_without_a_filter_the_connection_is_closed(version: Version, kind: int) -> None:
    client = Talk().connect("c", version)
    client.send_bytes(raw(kind, b"\0\1" + block(version)))
    refused(client, 0x81, 0x82)


@proves("4.7.3-1", v311=("4.7.3-1",))
@pytest.mark.parametrize("kind", [0x82, 0xA2], ids=["SUBSCRIBE", "UNSUBSCRIBE"])
@both
def test_an_empty_filter_closes_the_connection(version: Version, kind: int) -> None:
    client = Talk().connect("c", version)
    client.send_bytes(raw(kind, b"\0\1" + block(version) + text("") + (b"\0" if kind == 0x82 else b"")))
    refused(client, 0x81, 0x82, 0x8F)


@proves("3.8.3-3")
def test_no_local_keeps_a_client_from_its_own_messages() -> None:
    talk = Talk()
    client, other = talk.connect("c"), talk.connect("o")
    client.subscribe("t", no_local=True)
    other.subscribe("t")
    client.publish("t", b"mine")
    other.publish("t", b"other's")
    assert client.payloads() == [b"other's"]
    assert other.payloads() == [b"mine", b"other's"]


@proves("3.8.3-3")
def test_no_local_keeps_a_client_from_what_it_has_retained_itself() -> None:
    talk = Talk()
    client = talk.connect("c")
    client.publish("t", b"mine", 1, retain=True)
    talk.connect("o").publish("u", b"other's", 1, retain=True)
    client.subscribe("#", no_local=True)
    assert client.payloads() == [b"other's"]


@proves("3.8.3-3")
def test_no_local_is_of_each_subscription_its_own() -> None:
    client = Talk().connect("c")
    client.subscribe("t/#", no_local=True, subscription_identifiers=(1,))
    client.subscribe("+/u", subscription_identifiers=(2,))
    client.publish("t/u", b"x")
    (it,) = client.read()
    assert it.properties.subscription_identifiers == (2,)
    client.publish("t/v", b"x")
    assert client.read() == []


@proves("3.3.4-2", "3.3.4-3", "3.3.4-4", v311=("3.3.5-1",))
@both
def test_one_message_for_several_subscriptions_has_the_highest_qos(version: Version) -> None:
    talk = Talk()
    client = talk.connect("c", version)
    client.subscribe(Asked("t/#", 0), Asked("t/+", 2), Asked("+/u", 1))
    talk.connect("p", version).publish("t/u", b"x", 2)
    (it,) = client.read()
    assert it.qos == 2


@proves("3.3.4-3", "3.3.4-4", "3.3.4-5")
def test_a_message_carries_the_identifiers_of_all_subscriptions_that_it_matches() -> None:
    talk = Talk()
    client = talk.connect("c")
    client.subscribe("t/#", subscription_identifiers=(1,))
    client.subscribe("t/+", subscription_identifiers=(268_435_455,))
    client.subscribe("+/u")
    client.subscribe("other", subscription_identifiers=(3,))
    publisher = talk.connect("p")
    publisher.publish("t/u", b"x")
    (it,) = client.read()
    assert sorted(it.properties.subscription_identifiers) == [1, 268_435_455]
    publisher.publish("v/u", b"x")
    (it,) = client.read()
    assert it.properties.subscription_identifiers == ()


@proves("3.3.4-3")
def test_identifiers_are_kept_with_the_session_and_through_a_restart() -> None:
    talk = Talk()
    client = talk.connect("c", session_expiry_s=3600)
    client.subscribe("t", qos=1, subscription_identifiers=(42,))
    client.disconnect()
    talk.connect("p").publish("t", b"before", 1)
    talk.crash()
    talk.connect("p").publish("t", b"after", 1)
    client = talk.connect("c", clean_start=False)
    assert [it.properties.subscription_identifiers for it in client.read()] == [(42,), (42,)]


@proves("3.3.2-3", v311=("3.3.2-3",))
@both
def test_only_what_matches_is_sent_and_under_its_own_topic(version: Version) -> None:
    talk = Talk()
    client, publisher = talk.connect("c", version), talk.connect("p", version)
    client.subscribe("a/+/c", "b/#")
    for topic in ("a/x/c", "a/c", "a/x/y/c", "b", "b/x/y", "c", "a/x/c/d"):
        publisher.publish(topic, topic.encode())
    got = client.read()
    assert [it.topic for it in got] == ["a/x/c", "b", "b/x/y"]
    assert [it.payload for it in got] == [it.topic.encode() for it in got]


# Leaving.


@proves(
    "3.10.4-1",
    "3.10.4-2",
    "3.10.4-4",
    "3.10.4-5",
    "2.2.1-6",
    v311=("3.10.4-1", "3.10.4-2", "3.10.4-4", "2.3.1-7"),
)
@both
def test_unsubscribing_ends_it(version: Version) -> None:
    talk = Talk()
    client, publisher = talk.connect("c", version), talk.connect("p", version)
    client.subscribe("t", "t/+", qos=1)
    client.send(Unsubscribe(0x1234, ("t",)))
    assert client.take_all() == [Unsuback(0x1234, (0,) if version is V5 else ())]
    publisher.publish("t", b"x", 1)
    publisher.publish("t/u", b"y", 1)
    assert client.payloads() == [b"y"]


@proves("3.10.4-1", "3.10.4-5", "3.11.3-2", v311=("3.10.4-1", "3.10.4-5"))
@pytest.mark.parametrize("topic_filter", ["t/#", "T/+", "t/+/", "#", "t/u"])
@both
def test_only_the_very_same_filter_is_removed(version: Version, topic_filter: str) -> None:
    talk = Talk()
    client = talk.connect("c", version)
    client.subscribe("t/+")
    assert client.unsubscribe(topic_filter).reasons == ((0x11,) if version is V5 else ())
    talk.connect("p", version).publish("t/u", b"x")
    assert client.payloads() == [b"x"]


@proves("3.10.4-6", "3.11.3-1", "3.11.3-2", v311=("3.10.4-6",))
@both
def test_several_filters_are_left_with_one_answer_in_their_order(version: Version) -> None:
    talk = Talk()
    client = talk.connect("c", version)
    client.subscribe("a", "b", "c")
    unsuback = client.unsubscribe("a", "x", "b", "a")
    assert unsuback.reasons == ((0, 0x11, 0, 0x11) if version is V5 else ())
    publisher = talk.connect("p", version)
    for topic in ("a", "b", "c"):
        publisher.publish(topic)
    assert [it.topic for it in client.read()] == ["c"]


@proves("3.10.4-3", v311=("3.10.4-3",))
@both
def test_what_was_begun_is_completed_after_unsubscribing(version: Version) -> None:
    talk = Talk()
    client, publisher = talk.connect("c", version), talk.connect("p", version)
    client.subscribe("t", qos=2)
    publisher.publish("t", b"one", 1)
    publisher.publish("t", b"two", 2)
    one, two = client.take(Publish)
    client.unsubscribe("t")
    client.send(Puback(one.packet_id), Pubrec(two.packet_id))
    assert client.take_all() == [Pubrel(two.packet_id)]
    client.send(Pubcomp(two.packet_id))
    assert client.take_all() == []
    client.ping()


@proves("3.10.4-3", "4.4.0-1", v311=("3.10.4-3",))
@both
def test_what_was_begun_is_sent_again_although_it_was_unsubscribed(version: Version) -> None:
    talk = Talk()
    options = {"session_expiry_s": 60} if version is V5 else {}
    client = talk.connect("c", version, clean_start=False, **options)
    client.subscribe("t", qos=1)
    talk.connect("p", version).publish("t", b"x", 1)
    (it,) = client.take(Publish)
    client.unsubscribe("t")
    client.lose()
    client = talk.connect("c", version, clean_start=False, **options)
    assert [(it.packet_id, it.dup) for it in client.take(Publish)] == [(it.packet_id, True)]
