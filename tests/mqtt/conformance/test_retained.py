"""Section 3.3.1.3: retained messages."""

from __future__ import annotations

import pytest

from tests.mqtt.conformance.proving import both, proves
from tests.mqtt.talk import V5, Client, Talk
from tidings.mqtt.packets import Version


def found(talk: Talk, version: Version, topic_filter: str = "#") -> list[tuple[str, bytes, int, bool]]:
    """What is retained, as a new subscriber finds it."""
    client = talk.connect("finder", version)
    client.subscribe(topic_filter, qos=2)
    return [(it.topic, it.payload, it.qos, it.retain) for it in client.read()]


@proves("3.3.1-5", "3.3.1-9", v311=("3.3.1-5", "3.3.1-6", "3.3.1-7", "3.3.1-8"))
@pytest.mark.parametrize("qos", [0, 1, 2])
@both
def test_the_last_retained_message_of_a_topic_is_kept_with_its_qos(version: Version, qos: int) -> None:
    talk = Talk()
    publisher = talk.connect("p", version)
    publisher.publish("t", b"old", 2, retain=True)
    publisher.publish("t", b"new", qos, retain=True)
    publisher.publish("u", b"other", qos, retain=True)
    assert sorted(found(talk, version)) == [("t", b"new", qos, True), ("u", b"other", qos, True)]


@proves("3.8.4-8", v311=("3.8.4-6",))
@both
def test_a_retained_message_is_sent_with_the_smaller_qos(version: Version) -> None:
    talk = Talk()
    talk.connect("p", version).publish("t", b"x", 2, retain=True)
    for qos in (0, 1, 2):
        client = talk.connect("c", version)
        client.subscribe("t", qos=qos)
        assert [it.qos for it in client.read()] == [qos]


@proves("3.3.1-6", "3.3.1-7", v311=("3.3.1-10", "3.3.1-11"))
@both
def test_an_empty_retained_message_removes_and_is_passed_on_but_not_kept(version: Version) -> None:
    talk = Talk()
    publisher, watcher = talk.connect("p", version), talk.connect("w", version)
    publisher.publish("t", b"x", 1, retain=True)
    publisher.publish("u", b"stays", 1, retain=True)
    watcher.subscribe("t", qos=1)
    assert watcher.payloads() == [b"x"]
    publisher.publish("t", b"", 1, retain=True)
    assert watcher.payloads() == [b""]
    assert found(talk, version) == [("u", b"stays", 1, True)]


@proves("3.3.1-8", v311=("3.3.1-12",))
@both
def test_a_message_that_is_not_retained_neither_keeps_nor_removes(version: Version) -> None:
    talk = Talk()
    publisher = talk.connect("p", version)
    publisher.publish("t", b"kept", 1, retain=True)
    for payload in (b"passing", b""):
        publisher.publish("t", payload, 1)
        publisher.publish("u", payload, 1)
    assert found(talk, version) == [("t", b"kept", 1, True)]


@proves("3.3.1-5", v311=("3.1.2-7",))
@both
def test_retained_messages_do_not_end_with_the_session_of_their_publisher(version: Version) -> None:
    talk = Talk()
    publisher = talk.connect("p", version)
    publisher.publish("t", b"x", 1, retain=True)
    publisher.disconnect()
    talk.advance(3_000)
    assert found(talk, version) == [("t", b"x", 1, True)]


@proves("3.3.1-5", "3.3.1-6", v311=("3.3.1-5", "3.3.1-10"))
@both
def test_what_is_retained_and_what_is_not_outlives_the_broker(version: Version) -> None:
    talk = Talk()
    publisher = talk.connect("p", version)
    for topic in ("a", "b", "c"):
        publisher.publish(topic, b"x", 1, retain=True)
    publisher.publish("b", b"", 1, retain=True)
    talk.crash()
    assert [it[0] for it in sorted(found(talk, version))] == ["a", "c"]


@proves("3.3.1-12", v311=("3.3.1-9",))
@both
def test_an_older_subscription_gets_a_retained_message_as_any_other(version: Version) -> None:
    talk = Talk()
    watcher = talk.connect("w", version)
    watcher.subscribe("t", qos=1)
    talk.connect("p", version).publish("t", b"x", 1, retain=True)
    assert [it.retain for it in watcher.read()] == [False]


@proves("3.3.1-13")
def test_retain_as_published_passes_the_flag_on() -> None:
    talk = Talk()
    watcher = talk.connect("w")
    watcher.subscribe("t", qos=1, retain_as_published=True)
    publisher = talk.connect("p")
    for qos in (0, 1):
        publisher.publish("t", b"x", qos, retain=False)
        publisher.publish("t", b"x", qos, retain=True)
    assert [it.retain for it in watcher.read()] == [False, True, False, True]


@proves("3.3.1-13", v311=("3.3.1-9",))
def test_retain_as_published_is_of_each_subscriber_its_own() -> None:
    talk = Talk()
    clients = {wanted: talk.connect(f"w{wanted}") for wanted in (False, True)}
    for wanted, client in clients.items():
        client.subscribe("t", retain_as_published=wanted)
    talk.connect("p").publish("t", b"x", retain=True)
    for wanted, client in clients.items():
        assert [it.retain for it in client.read()] == [wanted]


def _retained(talk: Talk) -> Client:
    publisher = talk.connect("p")
    for topic in ("t/1", "t/2"):
        publisher.publish(topic, b"x", 1, retain=True)
    return talk.connect("c")


@proves("3.3.1-9", "3.8.4-4", v311=("3.3.1-6", "3.8.4-3"))
@both
def test_each_subscribing_brings_retained_messages_again(version: Version) -> None:
    talk = Talk()
    _retained(talk)
    client = talk.connect("c", version)
    for _ in range(3):
        client.subscribe("t/+", qos=1)
        assert sorted((it.topic, it.retain) for it in client.read()) == [("t/1", True), ("t/2", True)]


@proves("3.3.1-10")
def test_retain_handling_1_brings_them_once() -> None:
    client = _retained(Talk())
    client.subscribe("t/+", retain_handling=1)
    assert len(client.read()) == 2
    client.subscribe("t/+", qos=1, retain_handling=1)
    assert client.read() == []
    client.unsubscribe("t/+")
    client.subscribe("t/+", retain_handling=1)
    assert len(client.read()) == 2, "it is new again"


@proves("3.3.1-11")
def test_retain_handling_2_brings_none() -> None:
    client = _retained(Talk())
    for _ in range(2):
        client.subscribe("t/+", retain_handling=2)
        assert client.read() == []


@proves("3.3.1-10")
def test_retain_handling_1_knows_a_session_that_goes_on() -> None:
    talk = Talk()
    _retained(talk)
    talk.connect("d", session_expiry_s=60).subscribe("t/+", retain_handling=1)
    client = talk.connect("d", clean_start=False, session_expiry_s=60)
    client.take_all()
    client.subscribe("t/+", retain_handling=1)
    assert client.read() == []


@proves("3.3.2-3", "4.7.2-1", v311=("3.3.2-3", "4.7.2-1"))
@both
def test_only_retained_messages_that_match_come(version: Version) -> None:
    talk = Talk()
    publisher = talk.connect("p", version)
    topics = ("a", "a/b", "a/b/c", "/a", "b/a", "a/")
    for topic in topics:
        publisher.publish(topic, b"x", retain=True)
    for topic_filter, matched in {
        "a/#": ["a", "a/", "a/b", "a/b/c"],
        "a/+": ["a/", "a/b"],
        "+": ["a"],
        "+/a": ["/a", "b/a"],
        "#": sorted(topics),
        "a/b": ["a/b"],
    }.items():
        assert sorted(it[0] for it in found(talk, version, topic_filter)) == matched


def test_a_subscription_with_an_identifier_finds_it_in_retained_messages() -> None:
    client = _retained(Talk())
    client.subscribe("t/+", subscription_identifiers=(7,))
    assert [it.properties.subscription_identifiers for it in client.read()] == [(7,), (7,)]


@proves("3.3.1-12")
def test_retained_messages_are_not_for_the_flag_of_what_is_queued() -> None:
    talk = Talk()
    sleeper = talk.connect("s", V5, session_expiry_s=60)
    sleeper.subscribe("t", qos=1)
    sleeper.disconnect()
    talk.connect("p").publish("t", b"x", 1, retain=True)
    assert [it.retain for it in talk.connect("s", clean_start=False).read()] == [False]
