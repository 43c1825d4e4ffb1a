"""Chapter 1: strings and numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.mqtt.conformance.proving import (
    block,
    both,
    connect_bytes,
    proves,
    publish_bytes,
    raw,
    refused,
    subscribe_bytes,
    text,
    turned_away,
)
from tests.mqtt.talk import BOTH, V5, Talk
from tidings.mqtt.packets import Version

ILL_FORMED = {
    "cut short": b"a\xc3",
    "a stray continuation": b"a\x80",
    "overlong": b"\xc0\xaf",
    "a surrogate": b"\xed\xa0\x80",
    "the last surrogate": b"\xed\xbf\xbf",
    "beyond Unicode": b"\xf4\x90\x80\x80",
}
NUL = {"U+0000": b"a\x00b"}

IN_CONNECT: dict[str, Callable[[Version, bytes], bytes]] = {
    "the client id": lambda v, bad: connect_bytes(v, 0x02, text(bad)),
    "the will topic": lambda v, bad: connect_bytes(v, 0x06, text("c") + block(v) + text(bad) + text("x")),
    "the user name": lambda v, bad: connect_bytes(v, 0x82, text("c") + text(bad)),
}
AFTER_CONNECT: dict[str, Callable[[Version, bytes], bytes]] = {
    "a topic": publish_bytes,
    "a filter": subscribe_bytes,
    "a filter to leave": lambda v, bad: raw(0xA2, b"\0\1" + block(v) + text(bad)),
}
IN_PROPERTIES: dict[str, Callable[[bytes], bytes]] = {
    "a content type": lambda bad: publish_bytes(V5, "t", b"x", b"\x03" + text(bad)),
    "a response topic": lambda bad: publish_bytes(V5, "t", b"x", b"\x08" + text(bad)),
    "the name of a user property": lambda bad: publish_bytes(V5, "t", b"x", b"\x26" + text(bad) + text("v")),
    "the value of a user property": lambda bad: publish_bytes(V5, "t", b"x", b"\x26" + text("n") + text(bad)),
}


@proves(
    "1.5.4-1",
    "3.1.3-4",
    "3.1.3-11",
    "3.1.3-12",
    "3.1.4-1",
    v311=("1.5.3-1", "3.1.3-4", "3.1.3-10", "3.1.3-11"),
)
@pytest.mark.parametrize("bad", ILL_FORMED.values(), ids=ILL_FORMED)
@pytest.mark.parametrize("place", IN_CONNECT)
@both
def test_connect_with_an_ill_formed_string_is_turned_away(version: Version, place: str, bad: bytes) -> None:
    client = Talk().dial(version)
    client.send_bytes(IN_CONNECT[place](version, bad))
    turned_away(client)


@proves("1.5.4-2", v311=("1.5.3-2",))
@pytest.mark.parametrize("place", IN_CONNECT)
@both
def test_connect_with_a_nul_in_a_string_is_turned_away(version: Version, place: str) -> None:
    client = Talk().dial(version)
    client.send_bytes(IN_CONNECT[place](version, NUL["U+0000"]))
    turned_away(client)


@proves("1.5.4-1", "3.3.2-1", "3.8.3-1", "3.10.3-1", v311=("1.5.3-1", "3.3.2-1", "3.8.3-1", "3.10.3-1"))
@pytest.mark.parametrize("bad", ILL_FORMED.values(), ids=ILL_FORMED)
@pytest.mark.parametrize("place", AFTER_CONNECT)
@both
def test_an_ill_formed_topic_or_filter_closes_the_connection(
    version: Version, place: str, bad: bytes
) -> None:
    client = Talk().connect("c", version)
    client.send_bytes(AFTER_CONNECT[place](version, bad))
    refused(client, 0x81)


@proves("1.5.4-2", "4.7.3-2", v311=("1.5.3-2", "4.7.3-2"))
@pytest.mark.parametrize("place", AFTER_CONNECT)
@both
def test_a_nul_in_a_topic_or_filter_closes_the_connection(version: Version, place: str) -> None:
    client = Talk().connect("c", version)
    client.send_bytes(AFTER_CONNECT[place](version, NUL["U+0000"]))
    refused(client, 0x81)


@proves("1.5.4-1", "1.5.4-2", "1.5.7-1", "3.3.2-13", "3.3.2-19")
@pytest.mark.parametrize("bad", [*ILL_FORMED.values(), *NUL.values()], ids=[*ILL_FORMED, *NUL])
@pytest.mark.parametrize("place", IN_PROPERTIES)
def test_an_ill_formed_string_in_a_property_closes_the_connection(place: str, bad: bytes) -> None:
    client = Talk().connect("c")
    client.send_bytes(IN_PROPERTIES[place](bad))
    refused(client, 0x81)


@proves("1.5.4-3", "4.7.3-4", v311=("1.5.3-3", "4.7.3-4"))
@both
def test_a_byte_order_mark_is_a_character_as_any_other(version: Version) -> None:
    talk = Talk()
    marked, plain = talk.connect("marked", version), talk.connect("plain", version)
    marked.subscribe("\ufeffa")
    plain.subscribe("a")
    talk.connect("p", version).publish("\ufeffa", b"\xef\xbb\xbfpayload")
    (it,) = marked.read()
    assert (it.topic, it.payload) == ("\ufeffa", b"\xef\xbb\xbfpayload")
    assert plain.read() == []


@proves("1.5.5-1")
@pytest.mark.parametrize("version", BOTH, ids=["5.0", "3.1.1"])
@pytest.mark.parametrize(
    ("size", "length"), [(127, "7f"), (128, "8001"), (16_383, "ff7f"), (16_384, "808001")]
)
def test_the_length_of_a_packet_takes_as_few_bytes_as_it_can(
    version: Version, size: int, length: str
) -> None:
    talk = Talk()
    client = talk.connect("c", version)
    client.subscribe("t")
    before = len(client.bytes)
    overhead = len(text("t") + block(version))
    talk.connect("p", version).publish("t", b"x" * (size - overhead))
    assert client.bytes[before:].startswith(bytes.fromhex("30" + length) + text("t"))


@proves("1.5.5-1")
@pytest.mark.parametrize("overlong", ["8000", "808000", "80808000", "8080808001"])
def test_a_number_that_takes_more_bytes_than_it_needs_is_malformed(overlong: str) -> None:
    client = Talk().connect("c")
    client.send_bytes(raw(0x30, text("t") + bytes.fromhex(overlong) + b"x"))
    refused(client, 0x81)
