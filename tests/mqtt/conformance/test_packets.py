"""Chapter 2 and section 4.13: packets in general, and those that are not as they should be."""

from __future__ import annotations

import pytest

from tests.mqtt.conformance.proving import block, both, connect_bytes, proves, raw, refused, text, turned_away
from tests.mqtt.talk import V5, V311, Talk
from tidings.mqtt.packets import Version

FLAGS = {
    "PUBACK": (0x40, 0),
    "PUBREC": (0x50, 0),
    "PUBREL": (0x60, 2),
    "PUBCOMP": (0x70, 0),
    "SUBSCRIBE": (0x80, 2),
    "UNSUBSCRIBE": (0xA0, 2),
    "PINGREQ": (0xC0, 0),
    "DISCONNECT": (0xE0, 0),
}
"""Types that clients send, with the only flags that each may have."""


def _body(name: str, version: Version) -> bytes:
    return {
        "SUBSCRIBE": b"\0\1" + block(version) + text("t") + b"\0",
        "UNSUBSCRIBE": b"\0\1" + block(version) + text("t"),
        "PINGREQ": b"",
        "DISCONNECT": b"",
    }.get(name, b"\0\1")


@proves(
    "2.1.3-1",
    "3.6.1-1",
    "3.8.1-1",
    "3.10.1-1",
    "3.14.1-1",
    v311=("2.2.2-1", "2.2.2-2", "3.6.1-1", "3.8.1-1", "3.10.1-1", "3.14.1-1"),
)
@pytest.mark.parametrize("name", FLAGS)
@both
def test_reserved_flags_other_than_those_listed_close_the_connection(version: Version, name: str) -> None:
    kind, right = FLAGS[name]
    talk = Talk()
    for flags in set(range(16)) - {right}:
        client = talk.connect("c", version)
        client.send_bytes(raw(kind | flags, _body(name, version)))
        refused(client, 0x81)


@proves("2.1.3-1", "3.1.4-1", v311=("2.2.2-1", "2.2.2-2", "3.1.4-1"))
@pytest.mark.parametrize("flags", range(1, 16))
@both
def test_connect_with_flags_in_its_fixed_header_is_turned_away(version: Version, flags: int) -> None:
    client = Talk().dial(version)
    client.send_bytes(bytes([0x10 | flags]) + connect_bytes(version)[1:])
    turned_away(client)


@proves("3.15.1-1", "4.12.0-7")
@pytest.mark.parametrize("flags", range(16))
def test_auth_that_nobody_asked_for_closes_the_connection_whatever_its_flags(flags: int) -> None:
    client = Talk().connect("c")
    client.send_bytes(raw(0xF0 | flags))
    refused(client, 0x81, 0x82)


@proves("2.2.1-2", "2.2.2-1", v311=("2.3.1-5",))
def test_packets_are_no_longer_than_they_need_be() -> None:
    talk = Talk()
    five, three = talk.connect("five"), talk.connect("three", V311)
    for client, suback in ((five, "90 04 0001 00 00"), (three, "90 03 0001 00")):
        before = len(client.bytes)
        client.subscribe("t")
        assert client.bytes[before:] == bytes.fromhex(suback)
    starts = len(five.bytes), len(three.bytes)
    talk.connect("p").publish("t", b"x")
    assert five.bytes[starts[0] :] == bytes.fromhex("30 05 000174 00 78")
    assert three.bytes[starts[1] :] == bytes.fromhex("30 04 000174 78")


@proves("2.2.1-2", v311=("2.3.1-5",))
@both
def test_a_publication_of_qos_0_is_read_without_a_packet_identifier(version: Version) -> None:
    talk = Talk()
    client = talk.connect("c", version)
    client.subscribe("t")
    client.send_bytes(raw(0x30, text("t") + block(version) + b"\0\1"))
    (it,) = client.read()
    assert (it.payload, it.packet_id) == (b"\0\1", 0)


MALFORMED = {
    "a type that is reserved": ("00 00", (0x81, 0x82)),
    "CONNACK": ("20 02 00 00", (0x81, 0x82)),
    "SUBACK": ("90 03 0001 00", (0x81, 0x82)),
    "UNSUBACK": ("b0 02 0001", (0x81, 0x82)),
    "PINGRESP": ("d0 00", (0x81, 0x82)),
    "PUBLISH of QoS 3": ("36 06 000174 0001 78", (0x81,)),
    "PUBLISH that ends in its topic": ("30 03 0002 74", (0x81,)),
    "PUBLISH without anything": ("30 00", (0x81,)),
    "PUBLISH of QoS 1 that ends before its identifier": ("32 04 000174 00", (0x81,)),
    "PUBACK that is too short": ("40 01 00", (0x81,)),
    "PUBREC without anything": ("50 00", (0x81,)),
    "PUBREL that is too short": ("62 01 00", (0x81,)),
    "PUBCOMP without anything": ("70 00", (0x81,)),
    "SUBSCRIBE without anything": ("82 00", (0x81,)),
    "UNSUBSCRIBE without anything": ("a2 00", (0x81,)),
}
"""What is wrong in both versions, and what it may be called."""


@proves("4.13.1-1", "4.13.2-1", "3.14.4-2", v311=("4.8.0-1",))
@pytest.mark.parametrize("name", MALFORMED)
@both
def test_what_is_not_mqtt_closes_the_connection(version: Version, name: str) -> None:
    data, reasons = MALFORMED[name]
    client = Talk().connect("c", version)
    client.send_bytes(data)
    refused(client, *reasons)


MALFORMED_5 = {
    "PUBLISH that ends before its properties": ("30 03 000174", (0x81,)),
    "PUBLISH with properties that end too early": ("30 05 000174 02 01", (0x81,)),
    "PUBLISH with a property that nobody knows": ("30 06 000174 02 7f 00", (0x81,)),
    "PUBLISH with a property of CONNECT": ("30 06 000174 02 19 00", (0x81, 0x82)),
    "PUBLISH with a property twice": ("30 08 000174 04 0101 0101", (0x82,)),
    "PUBLISH with a payload format that there is not": ("30 06 000174 02 01 02", (0x81, 0x82)),
    "PUBLISH of QoS 1 with identifier 0": ("32 07 000174 0000 00 78", (0x81, 0x82)),
    "PUBLISH with neither topic nor alias": ("30 04 0000 00 78", (0x81, 0x82)),
    "PUBACK with bytes behind its end": ("40 05 0001 00 00 00", (0x81,)),
    "PUBACK with an undefined reason": ("40 03 0001 7f", (0x81, 0x82)),
    "PUBACK for identifier 0": ("40 02 0000", (0x81, 0x82)),
    "PUBREL with the reason of another packet": ("62 03 0001 10", (0x81, 0x82)),
    "SUBSCRIBE with identifier 0": ("82 07 0000 00 000174 00", (0x81, 0x82)),
    "SUBSCRIBE without options": ("82 06 0001 00 000174", (0x81,)),
    "SUBSCRIBE with a subscription identifier of 0": ("82 09 0001 02 0b00 000174 00", (0x82,)),
    "SUBSCRIBE with two subscription identifiers": ("82 0b 0001 04 0b01 0b02 000174 00", (0x82,)),
    "SUBSCRIBE with a filter that is cut short": ("82 06 0001 00 0002 74", (0x81,)),
    "UNSUBSCRIBE with identifier 0": ("a2 06 0000 00 000174", (0x81, 0x82)),
    "DISCONNECT with a property of PUBLISH": ("e0 04 00 02 0101", (0x81, 0x82)),
    "DISCONNECT with properties that end too early": ("e0 03 00 02 11", (0x81,)),
}


@proves("4.13.1-1", "4.13.2-1", "3.4.2-1", "3.6.2-1")
@pytest.mark.parametrize("name", MALFORMED_5)
def test_what_is_not_mqtt_5_closes_the_connection_with_its_reason(name: str) -> None:
    data, reasons = MALFORMED_5[name]
    client = Talk().connect("c", V5)
    client.send_bytes(data)
    refused(client, *reasons)


MALFORMED_311 = {
    "PUBACK with a reason, as in 5.0": "40 03 0001 00",
    "PUBREL with a reason, as in 5.0": "62 03 0001 00",
    "PUBLISH of QoS 1 with identifier 0": "32 06 000174 0000 78",
    "PUBLISH of QoS 2 with identifier 0": "34 06 000174 0000 78",
    "SUBSCRIBE with identifier 0": "82 06 0000 000174 00",
    "SUBSCRIBE without QoS": "82 05 0001 000174",
    "UNSUBSCRIBE with identifier 0": "a2 05 0000 000174",
    "PINGREQ with something in it": "c0 01 00",
    "DISCONNECT with a reason, as in 5.0": "e0 01 00",
    "AUTH, which there is not": "f0 00",
}


@proves(v311=("2.3.1-1", "4.8.0-1"))
@pytest.mark.parametrize("name", MALFORMED_311)
def test_what_is_not_mqtt_311_closes_the_connection_without_a_word(name: str) -> None:
    client = Talk().connect("c", V311)
    client.send_bytes(MALFORMED_311[name])
    refused(client)


@proves("4.13.1-1", v311=("4.8.0-1",))
@pytest.mark.parametrize("kind", [0x10, 0x30, 0x40, 0x50, 0x62, 0x70, 0x82, 0xA2, 0xC0, 0xE0])
@both
def test_a_length_of_five_bytes_closes_the_connection(version: Version, kind: int) -> None:
    client = Talk().connect("c", version)
    client.send_bytes(bytes([kind, 0x80, 0x80, 0x80, 0x80, 0x01]))
    assert client.closed


@both
def test_packets_are_read_wherever_they_are_cut(version: Version) -> None:
    talk = Talk()
    client = talk.dial(version)
    for byte in connect_bytes(version):
        client.send_bytes(bytes([byte]))
    for byte in raw(0x82, b"\0\1" + block(version) + text("t") + b"\0") + raw(
        0x30, text("t") + block(version) + b"x"
    ):
        client.send_bytes(bytes([byte]))
    assert client.payloads() == [b"x"]
    client.send_bytes(raw(0xC0) * 3 + raw(0xE0))
    assert client.closed
