"""Section 4.7: topic names, topic filters and how they are matched."""

from __future__ import annotations

import pytest

from tests.mqtt.conformance.proving import both, proves, publish_bytes, refused, subscribe_bytes
from tests.mqtt.talk import Talk
from tidings.mqtt.packets import Suback, Version
from tidings.mqtt.settings import DEFAULT

MATCHES = {
    "sport/tennis/player1/#": [
        "sport/tennis/player1",
        "sport/tennis/player1/ranking",
        "sport/tennis/player1/a/b",
    ],
    "sport/#": ["sport", "sport/", "sport/tennis"],
    "#": ["a", "a/b", "/", "/a", "a//b", " "],
    "sport/tennis/+": ["sport/tennis/player1", "sport/tennis/"],
    "sport/+": ["sport/", "sport/x"],
    "+": ["finance", " "],
    "+/+": ["/finance", "a/b", "/", "a/"],
    "/+": ["/finance", "/"],
    "+/tennis/#": ["sport/tennis", "/tennis/x/y"],
    "a/+/c": ["a//c", "a/b/c"],
    "a//c": ["a//c"],
    "é/日本/🙂": ["é/日本/🙂"],
    "A b": ["A b"],
    "$x/#": ["$x", "$x/a"],
}
MISSES = {
    "sport/tennis/player1/#": ["sport/tennis/player2", "sport/tennis/player10"],
    "#": ["$x", "$x/a"],
    "+": ["/finance", "a/b", "$x"],
    "+/+": ["finance", "a/b/c", "$x/a"],
    "+/a": ["$x/a"],
    "+/#": ["$x/a"],
    "sport/tennis/+": ["sport/tennis", "sport/tennis/player1/ranking"],
    "sport/+": ["sport"],
    "a": ["A", "a/", "/a", " a", "a "],
    "ACCOUNTS": ["Accounts"],
    "Å": ["A\u030a"],
    "/a": ["a"],
    "a//c": ["a/c", "a/b/c"],
}


@proves("3.3.2-3", "4.7.1-1", "4.7.1-2", "4.7.3-4", v311=("4.7.1-2", "4.7.1-3", "4.7.3-4", "3.3.2-3"))
@pytest.mark.parametrize("topic_filter", MATCHES)
@both
def test_a_filter_matches(version: Version, topic_filter: str) -> None:
    talk = Talk()
    client, publisher = talk.connect("c", version), talk.connect("p", version)
    assert client.subscribe(topic_filter).reasons == (0,)
    for topic in MATCHES[topic_filter]:
        publisher.publish(topic, b"x")
    assert [it.topic for it in client.read()] == MATCHES[topic_filter]


@proves("3.3.2-3", "4.7.2-1", "4.7.3-4", v311=("4.7.2-1", "4.7.3-4"))
@pytest.mark.parametrize("topic_filter", MISSES)
@both
def test_a_filter_does_not_match(version: Version, topic_filter: str) -> None:
    talk = Talk()
    client, publisher = talk.connect("c", version), talk.connect("p", version)
    client.subscribe(topic_filter)
    for topic in MISSES[topic_filter]:
        publisher.publish(topic, b"x")
    assert client.read() == []


@proves("4.7.2-1", v311=("4.7.2-1",))
@both
def test_a_leading_wildcard_does_not_match_what_the_broker_says_of_itself(version: Version) -> None:
    talk = Talk(DEFAULT)
    client, asking = talk.connect("c", version), talk.connect("a", version)
    client.subscribe("#", "+/broker/#")
    asking.subscribe("$SYS/#")
    talk.advance(60)
    assert asking.read() != []
    assert client.read() == []


WRONG_FILTERS = ["sport/tennis#", "sport/tennis/#/ranking", "#/", "##", "sport+", "+sport", "a/b+/c", "a/+b"]


@proves("4.7.1-1", "4.7.1-2", v311=("4.7.1-2", "4.7.1-3"))
@pytest.mark.parametrize("topic_filter", WRONG_FILTERS)
@both
def test_a_wildcard_in_the_wrong_place_closes_the_connection(version: Version, topic_filter: str) -> None:
    client = Talk().connect("c", version)
    client.send_bytes(subscribe_bytes(version, topic_filter))
    refused(client, 0x81)


@proves("4.7.3-3", v311=("4.7.3-3",))
@both
def test_a_topic_may_have_65535_bytes(version: Version) -> None:
    talk = Talk()
    client, publisher = talk.connect("c", version), talk.connect("p", version)
    topic = "t" * 65_535
    client.send_bytes(subscribe_bytes(version, "#"))
    assert client.take(Suback)[0].reasons == (0,)
    publisher.send_bytes(publish_bytes(version, topic))
    (it,) = client.read()
    assert it.topic == topic


@proves("4.7.3-3", v311=("4.7.3-3",))
@both
def test_topics_that_differ_in_anything_are_different(version: Version) -> None:
    talk = Talk()
    names = ["a", "A", "á", "a\u0301", "a/", "/a", "a ", "ａ"]
    clients = {name: talk.connect(f"c{n}", version) for n, name in enumerate(names)}
    for name, client in clients.items():
        client.subscribe(name)
    publisher = talk.connect("p", version)
    for name in names:
        publisher.publish(name, name.encode())
    for name, client in clients.items():
        assert client.payloads() == [name.encode()]


CONTROL = ["\x01", "\x1f", "\x7f", "\x9f", "a\nb"]


@pytest.mark.parametrize("character", CONTROL)
@both
def test_control_characters_in_topics_and_filters_are_refused(version: Version, character: str) -> None:
    """The standard lets a receiver choose (section 1.5.4); a log line must stay one line."""
    talk = Talk()
    client = talk.connect("c", version)
    client.send_bytes(publish_bytes(version, f"t{character}"))
    refused(client, 0x81)
    client = talk.connect("c", version)
    client.send_bytes(subscribe_bytes(version, f"t{character}"))
    refused(client, 0x81)
