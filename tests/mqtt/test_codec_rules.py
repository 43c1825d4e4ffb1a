"""What is wrong with a single packet, and the reason code that its sender is told.

Each rule has the number of its statement in the standard, where it has one; of 5.0 if nothing else is said.
"""

from __future__ import annotations

import pytest

from tidings.mqtt.codec import Decoder, Malformed, encode
from tidings.mqtt.packets import Connect, Publish, Version
from tidings.mqtt.reasons import Reason

V31 = Version.V31
V311 = Version.V311
V5 = Version.V5

MALFORMED = Reason.MALFORMED_PACKET
PROTOCOL = Reason.PROTOCOL_ERROR
UNSUPPORTED = Reason.UNSUPPORTED_PROTOCOL_VERSION
TOPIC = Reason.TOPIC_NAME_INVALID


def read_all(decoder: Decoder, chunks: list[bytes]) -> None:
    for chunk in chunks:
        decoder.feed(chunk)
        while decoder.next() is not None:
            pass


def refusal(data: bytes, decoder: Decoder) -> Reason:
    """The reason code for these bytes, which is the same when they come one by one."""
    piecemeal = Decoder(
        packet_bytes_max=decoder.packet_bytes_max, version=decoder.version, client=decoder.client
    )
    with pytest.raises(Malformed) as told:
        read_all(decoder, [data])
    with pytest.raises(Malformed) as told_late:
        read_all(piecemeal, [data[at : at + 1] for at in range(len(data))])
    assert told_late.value.reason == told.value.reason
    return told.value.reason


def server(version: Version | None) -> Decoder:
    return Decoder(packet_bytes_max=1000, version=version)


def connect(text: str, level: int = 5) -> bytes:
    """CONNECT with what comes after its protocol level."""
    body = b"\x00\x04MQTT" + bytes([level]) + bytes.fromhex(text)
    return bytes([0x10, len(body)]) + body


def rows(*found: tuple[str, str, Reason]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("text", "reason"),
        [pytest.param(text, reason, id=name) for name, text, reason in found],
    )


@rows(
    ("type 0", "00 00", PROTOCOL),
    ("CONNECT", "11 0d", MALFORMED),
    ("PUBACK", "41 02 00 05", MALFORMED),
    ("PUBREC", "52 02 00 05", MALFORMED),
    ("PUBREL", "60 02 00 05", MALFORMED),
    ("PUBCOMP", "78 02 00 05", MALFORMED),
    ("SUBSCRIBE", "80 07 00 05 00 00 01 61 00", MALFORMED),
    ("UNSUBSCRIBE", "a0 06 00 05 00 00 01 61", MALFORMED),
    ("PINGREQ", "c1 00", MALFORMED),
    ("DISCONNECT", "e4 00", MALFORMED),
    ("AUTH", "f1 00", MALFORMED),
)
def test_reserved_flags_of_the_fixed_header(text: str, reason: Reason) -> None:
    """[MQTT-2.1.3-1], [MQTT-3.6.1-1], [MQTT-3.8.1-1], [MQTT-3.10.1-1], [MQTT-3.14.1-1], [MQTT-3.15.1-1]."""
    assert refusal(bytes.fromhex(text), server(V5)) == reason


@rows(
    ("CONNACK", "20 03 00 00 00", PROTOCOL),
    ("SUBACK", "90 04 00 05 00 00", PROTOCOL),
    ("UNSUBACK", "b0 04 00 05 00 00", PROTOCOL),
    ("PINGRESP", "d0 00", PROTOCOL),
)
def test_packets_that_only_a_server_sends(text: str, reason: Reason) -> None:
    """Section 2.1.2."""
    assert refusal(bytes.fromhex(text), server(V5)) == reason


@rows(
    ("CONNECT", "10 00", PROTOCOL),
    ("SUBSCRIBE", "82 00", PROTOCOL),
    ("UNSUBSCRIBE", "a2 00", PROTOCOL),
    ("PINGREQ", "c0 00", PROTOCOL),
)
def test_packets_that_only_a_client_sends(text: str, reason: Reason) -> None:
    """Section 2.1.2."""
    decoder = Decoder(packet_bytes_max=1000, version=V5, client=True)
    assert refusal(bytes.fromhex(text), decoder) == reason


def test_auth_is_reserved_in_3_1_1() -> None:
    assert refusal(b"\xf0\x00", server(V311)) == PROTOCOL


def test_a_server_of_3_1_1_does_not_disconnect() -> None:
    assert refusal(b"\xe0\x00", Decoder(packet_bytes_max=1000, version=V311, client=True)) == PROTOCOL


@pytest.mark.parametrize(
    "first", ["30 03 00 01 61", "c0 00", "e0 00", "82 06 00 05 00 01 61 00", "40 02 00 05"]
)
def test_the_first_packet_is_connect(first: str) -> None:
    """[MQTT-3.1.0-1]; nothing is known about the sender's version then."""
    decoder = server(None)
    assert refusal(bytes.fromhex(first), decoder) == PROTOCOL
    assert decoder.version is None


def test_connect_comes_once() -> None:
    """[MQTT-3.1.0-2]."""
    once = connect("02 00 0a 00 00 01 63")
    assert refusal(once + once, server(None)) == PROTOCOL


@rows(
    ("five bytes", "30 ff ff ff ff 7f", MALFORMED),
    ("four bytes and no end", "30 80 80 80 80", MALFORMED),
)
def test_a_remaining_length_of_more_than_four_bytes(text: str, reason: Reason) -> None:
    """Section 2.1.4."""
    assert refusal(bytes.fromhex(text), server(V5)) == reason


def test_a_packet_that_is_too_large_is_refused_before_it_has_come() -> None:
    """[MQTT-3.2.2-15], section 4.13: the length alone says so, and nothing is kept for it."""
    decoder = Decoder(packet_bytes_max=100, version=V5)
    decoder.feed(b"\x30\x63")
    with pytest.raises(Malformed, match="101 bytes is larger than the 100") as told:
        decoder.next()
    assert told.value.reason == Reason.PACKET_TOO_LARGE


def test_the_largest_packet_is_taken() -> None:
    decoder = Decoder(packet_bytes_max=100, version=V311)
    decoder.feed(b"\x30\x62\x00\x01a" + bytes(95))
    assert decoder.next() == Publish("a", bytes(95))


@rows(
    ("QoS 3", "36 05 00 01 61 00 05", MALFORMED),
    ("QoS 3 and DUP", "3e 05 00 01 61 00 05", MALFORMED),
)
def test_mqtt_3_3_1_4_publish_has_qos_3(text: str, reason: Reason) -> None:
    """[MQTT-3.3.1-4]."""
    for version in Version:
        assert refusal(bytes.fromhex(text), server(version)) == reason


@rows(("DUP", "38 04 00 01 61 00", MALFORMED), ("DUP and RETAIN", "39 04 00 01 61 00", MALFORMED))
def test_mqtt_3_3_1_2_publish_of_qos_0_is_not_sent_again(text: str, reason: Reason) -> None:
    """[MQTT-3.3.1-2]."""
    for version in Version:
        assert refusal(bytes.fromhex(text), server(version)) == reason


@rows(
    ("PUBLISH of QoS 1", "32 06 00 01 61 00 00 00", PROTOCOL),
    ("PUBLISH of QoS 2", "34 06 00 01 61 00 00 00", PROTOCOL),
    ("PUBACK", "40 02 00 00", PROTOCOL),
    ("PUBREC", "50 02 00 00", PROTOCOL),
    ("PUBREL", "62 02 00 00", PROTOCOL),
    ("PUBCOMP", "70 02 00 00", PROTOCOL),
    ("SUBSCRIBE", "82 07 00 00 00 00 01 61 00", PROTOCOL),
    ("UNSUBSCRIBE", "a2 06 00 00 00 00 01 61", PROTOCOL),
)
def test_packet_identifier_0(text: str, reason: Reason) -> None:
    """[MQTT-2.2.1-3]."""
    assert refusal(bytes.fromhex(text), server(V5)) == reason


@rows(
    ("PUBLISH without anything", "30 00", MALFORMED),
    ("PUBLISH with half a length", "30 01 00", MALFORMED),
    ("PUBLISH whose topic is cut", "30 04 00 05 61 62", MALFORMED),
    ("PUBLISH without properties", "30 03 00 01 61", MALFORMED),
    ("PUBLISH without an identifier", "32 04 00 01 61 00", MALFORMED),
    ("PUBLISH whose properties are cut", "30 06 00 01 61 05 01 01", MALFORMED),
    ("PUBACK without an identifier", "40 01 00", MALFORMED),
    ("PUBACK whose properties are cut", "40 05 00 05 00 02 1f", MALFORMED),
    ("SUBSCRIBE without options", "82 06 00 05 00 00 01 61", MALFORMED),
    ("SUBSCRIBE whose filter is cut", "82 06 00 05 00 00 02 61", MALFORMED),
    ("SUBSCRIBE without properties", "82 02 00 05", MALFORMED),
    ("UNSUBSCRIBE whose filter is cut", "a2 05 00 05 00 00 02", MALFORMED),
    ("DISCONNECT whose properties are cut", "e0 03 00 05 11", MALFORMED),
)
def test_fields_that_are_cut_off(text: str, reason: Reason) -> None:
    """[MQTT-4.13.1-1], section 4.13."""
    assert refusal(bytes.fromhex(text), server(V5)) == reason


@rows(
    ("PUBACK", "40 05 00 05 00 00 00", MALFORMED),
    ("PINGREQ", "c0 01 00", MALFORMED),
    ("DISCONNECT", "e0 03 00 00 00", MALFORMED),
    ("SUBSCRIBE", "82 08 00 05 00 00 01 61 00 00", MALFORMED),
    ("AUTH", "f0 07 18 04 15 00 01 6d 00", MALFORMED),
)
def test_bytes_after_the_last_field(text: str, reason: Reason) -> None:
    assert refusal(bytes.fromhex(text), server(V5)) == reason


@rows(
    ("PUBACK", "40 03 00 05 00", MALFORMED),
    ("PUBREL", "62 04 00 05 00 00", MALFORMED),
    ("DISCONNECT", "e0 01 00", MALFORMED),
)
def test_fields_of_5_0_in_packets_of_3_1_1(text: str, reason: Reason) -> None:
    assert refusal(bytes.fromhex(text), server(V311)) == reason


@rows(
    ("a surrogate", "30 06 00 03 ed a0 80 00", MALFORMED),
    ("a surrogate pair", "30 09 00 06 ed a0 81 ed b0 80 00", MALFORMED),
    ("longer than it needs to be", "30 05 00 02 c0 af 00", MALFORMED),
    ("a byte that never is", "30 04 00 01 ff 00", MALFORMED),
    ("the end is missing", "30 05 00 02 e2 82 00", MALFORMED),
    ("beyond Unicode", "30 07 00 04 f4 90 80 80 00", MALFORMED),
)
def test_mqtt_1_5_4_1_text_is_well_formed_utf_8(text: str, reason: Reason) -> None:
    """[MQTT-1.5.4-1]."""
    assert refusal(bytes.fromhex(text), server(V5)) == reason


@rows(
    ("topic", "30 06 00 03 61 00 62 00", MALFORMED),
    ("filter", "82 09 00 05 00 00 03 61 00 62 00", MALFORMED),
    ("filter to leave", "a2 08 00 05 00 00 03 61 00 62", MALFORMED),
    ("content type", "30 08 00 01 61 04 03 00 01 00", MALFORMED),
    ("user property", "30 0b 00 01 61 07 26 00 01 6b 00 01 00", MALFORMED),
    ("reason string", "e0 06 00 04 1f 00 01 00", MALFORMED),
)
def test_mqtt_1_5_4_2_text_has_no_nul(text: str, reason: Reason) -> None:
    """[MQTT-1.5.4-2]."""
    assert refusal(bytes.fromhex(text), server(V5)) == reason


@pytest.mark.parametrize(
    "odd", ["01", "0a", "1f", "7f", "c2 80", "c2 9f", "ef b7 90", "ef bf be", "f0 9f bf bf"]
)
def test_control_characters_in_names_are_refused(odd: str) -> None:
    """Section 1.5.4 leaves it to the receiver."""
    name = bytes.fromhex(odd)
    size = len(name)
    assert refusal(bytes([0x30, 3 + size, 0, size]) + name + b"\0", server(V5)) == MALFORMED
    subscribe = bytes([0x82, 6 + size, 0, 5, 0, 0, size]) + name + b"\0"
    assert refusal(subscribe, server(V5)) == MALFORMED
    named = connect("02 00 0a 00 00" + f"{size:02x}" + odd)
    assert refusal(named, server(None)) == Reason.CLIENT_IDENTIFIER_NOT_VALID
    user = connect("82 00 0a 00 00 01 63 00" + f"{size:02x}" + odd)
    assert refusal(user, server(None)) == MALFORMED


def test_control_characters_in_properties_are_taken() -> None:
    """A filter over several lines is a user property, and is nobody's name."""
    decoder = server(V5)
    decoder.feed(bytes.fromhex("30 0b 00 01 61 07 26 00 01 6b 00 01 0a"))
    packet = decoder.next()
    assert isinstance(packet, Publish)
    assert packet.properties.user == (("k", "\n"),)


@rows(
    ("+", "30 04 00 01 2b 00", TOPIC),
    ("#", "30 06 00 03 61 2f 23 00", TOPIC),
    ("within a level", "30 05 00 02 61 2b 00", TOPIC),
    ("response topic", "30 08 00 01 61 04 08 00 01 23", PROTOCOL),
    ("empty response topic", "30 07 00 01 61 03 08 00 00", PROTOCOL),
)
def test_mqtt_3_3_2_2_topics_to_publish_to_have_no_wildcards(text: str, reason: Reason) -> None:
    """[MQTT-3.3.2-2], [MQTT-3.3.2-14]."""
    assert refusal(bytes.fromhex(text), server(V5)) == reason


def test_an_empty_topic_needs_an_alias() -> None:
    """Section 3.3.2.1; in 3.1.1 there are no aliases [MQTT-4.7.3-1]."""
    assert refusal(bytes.fromhex("30 04 00 00 00 68"), server(V5)) == PROTOCOL
    assert refusal(bytes.fromhex("30 03 00 00 68"), server(V311)) == PROTOCOL


def test_mqtt_3_3_2_8_topic_alias_0() -> None:
    """[MQTT-3.3.2-8]."""
    data = bytes.fromhex("30 07 00 01 61 03 23 00 00")
    assert refusal(data, server(V5)) == Reason.TOPIC_ALIAS_INVALID


def test_mqtt_3_3_4_6_a_client_does_not_tell_subscription_identifiers() -> None:
    """[MQTT-3.3.4-6]."""
    assert refusal(bytes.fromhex("30 06 00 01 61 02 0b 01"), server(V5)) == PROTOCOL


@rows(
    ("reserved bit 6", "82 07 00 05 00 00 01 61 40", MALFORMED),
    ("reserved bit 7", "82 07 00 05 00 00 01 61 80", MALFORMED),
    ("QoS 3", "82 07 00 05 00 00 01 61 03", PROTOCOL),
    ("retain handling 3", "82 07 00 05 00 00 01 61 30", PROTOCOL),
)
def test_mqtt_3_8_3_5_subscription_options(text: str, reason: Reason) -> None:
    """[MQTT-3.8.3-5], section 3.8.3.1."""
    assert refusal(bytes.fromhex(text), server(V5)) == reason


@pytest.mark.parametrize("options", [0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x03])
def test_options_of_3_1_1_are_a_qos_alone(options: int) -> None:
    """[MQTT-3.8.3-4] of 3.1.1."""
    data = bytes.fromhex("82 06 00 05 00 01 61") + bytes([options])
    assert refusal(data, server(V311)) in (MALFORMED, PROTOCOL)


def test_mqtt_3_8_3_4_no_local_is_not_for_shared_subscriptions() -> None:
    """[MQTT-3.8.3-4]."""
    topic_filter = b"$share/g/a"
    data = b"\x82\x10\x00\x05\x00\x00\x0a" + topic_filter + b"\x04"
    assert refusal(data, server(V5)) == PROTOCOL


@rows(
    ("SUBSCRIBE", "82 03 00 05 00", PROTOCOL),
    ("UNSUBSCRIBE", "a2 03 00 05 00", PROTOCOL),
    ("SUBSCRIBE with an empty filter", "82 06 00 05 00 00 00 00", MALFORMED),
    ("UNSUBSCRIBE with an empty filter", "a2 05 00 05 00 00 00", MALFORMED),
)
def test_mqtt_3_8_3_2_there_is_a_topic_filter(text: str, reason: Reason) -> None:
    """[MQTT-3.8.3-2], [MQTT-3.10.3-2], [MQTT-4.7.3-1]."""
    assert refusal(bytes.fromhex(text), server(V5)) == reason


@rows(
    ("PUBACK", "40 03 00 05 01", PROTOCOL),
    ("PUBREC", "50 03 00 05 92", PROTOCOL),
    ("PUBREL", "62 03 00 05 10", PROTOCOL),
    ("PUBCOMP", "70 03 00 05 ff", PROTOCOL),
    ("DISCONNECT", "e0 01 01", PROTOCOL),
    ("DISCONNECT with a server's reason", "e0 01 8e", PROTOCOL),
    ("AUTH", "f0 06 00 04 15 00 01 6d", PROTOCOL),
)
def test_reason_codes_that_are_not_for_the_packet(text: str, reason: Reason) -> None:
    """[MQTT-3.4.2-1], [MQTT-3.5.2-1], [MQTT-3.6.2-1], [MQTT-3.7.2-1], [MQTT-3.14.2-1], [MQTT-3.15.2-1]."""
    assert refusal(bytes.fromhex(text), server(V5)) == reason


@rows(
    ("CONNACK", "20 03 00 01 00", PROTOCOL),
    ("CONNACK with reserved flags", "20 03 02 00 00", MALFORMED),
    ("CONNACK that refuses a session", "20 03 01 80 00", PROTOCOL),
    ("SUBACK", "90 04 00 05 00 03", PROTOCOL),
    ("SUBACK without a code", "90 03 00 05 00", PROTOCOL),
    ("UNSUBACK", "b0 04 00 05 00 01", PROTOCOL),
    ("DISCONNECT with a will", "e0 01 04", PROTOCOL),
    ("DISCONNECT with a session expiry", "e0 07 00 05 11 00 00 00 01", PROTOCOL),
    ("AUTH", "f0 06 19 04 15 00 01 6d", PROTOCOL),
)
def test_what_a_client_does_not_take_from_a_server(text: str, reason: Reason) -> None:
    """[MQTT-3.2.2-1], [MQTT-3.2.2-6], [MQTT-3.2.2-8], [MQTT-3.9.3-2], [MQTT-3.11.3-2], [MQTT-3.14.2-2]."""
    decoder = Decoder(packet_bytes_max=1000, version=V5, client=True)
    assert refusal(bytes.fromhex(text), decoder) == reason


@rows(("CONNACK", "20 02 00 06", PROTOCOL), ("SUBACK", "90 03 00 05 87", PROTOCOL))
def test_codes_of_3_1_1_that_are_reserved(text: str, reason: Reason) -> None:
    """[MQTT-3.9.3-2] of 3.1.1, section 3.2.2.3."""
    decoder = Decoder(packet_bytes_max=1000, version=V311, client=True)
    assert refusal(bytes.fromhex(text), decoder) == reason


def test_auth_names_its_method() -> None:
    """Section 3.15.2.2.2."""
    assert refusal(bytes.fromhex("f0 02 18 00"), server(V5)) == PROTOCOL


@pytest.mark.parametrize("name", [b"MQTX", b"MQT", b"", b"mqtt", b"MQTTT", b"\xff\xff\xff\xff"])
def test_mqtt_3_1_2_1_another_protocol(name: bytes) -> None:
    """[MQTT-3.1.2-1]; no version is known, so there is nothing to be answered in."""
    body = bytes([0, len(name)]) + name + bytes.fromhex("04 02 00 0a 00 01 63")
    decoder = server(None)
    assert refusal(bytes([0x10, len(body)]) + body, decoder) == UNSUPPORTED
    assert decoder.version is None


@pytest.mark.parametrize(
    ("level", "answered"),
    [(0, V311), (3, V311), (6, V5), (0x7F, V5), (0x83, V311), (0x86, V5), (0xFF, V5)],
)
def test_mqtt_3_1_2_2_another_protocol_level(level: int, answered: Version) -> None:
    """[MQTT-3.1.2-2]: told apart from what is malformed, and the version says how it can be answered."""
    decoder = server(None)
    assert refusal(connect("02 00 0a 00 01 63", level), decoder) == UNSUPPORTED
    assert decoder.version is answered


@pytest.mark.parametrize(
    ("name", "level", "version", "bridge"),
    [
        (b"MQIsdp", 3, V31, False),
        (b"MQIsdp", 0x83, V31, True),
        (b"MQTT", 4, V311, False),
        (b"MQTT", 0x84, V311, True),
        (b"MQTT", 5, V5, False),
        (b"MQTT", 0x85, V5, True),
    ],
)
def test_the_protocols_that_are_spoken(name: bytes, level: int, version: Version, bridge: bool) -> None:
    body = bytes([0, len(name)]) + name + bytes([level]) + bytes.fromhex("02 00 0a")
    body += (b"\0" if version is V5 else b"") + b"\x00\x01c"
    decoder = server(None)
    decoder.feed(bytes([0x10, len(body)]) + body)
    packet = decoder.next()
    assert packet == Connect(version, "c", keep_alive_s=10, bridge=bridge)
    assert decoder.version is version
    assert encode(packet, version) == bytes([0x10, len(body)]) + body


@pytest.mark.parametrize("level", [0, 2, 4, 5, 0x84])
def test_the_older_protocol_name_has_one_level(level: int) -> None:
    body = b"\x00\x06MQIsdp" + bytes([level]) + bytes.fromhex("02 00 0a 00 01 63")
    assert refusal(bytes([0x10, len(body)]) + body, server(None)) == UNSUPPORTED


@pytest.mark.parametrize(
    "text",
    ["6a 02 00 01", "8a 06 00 01 00 01 74 00", "aa 05 00 01 00 01 74"],
    ids=["PUBREL", "SUBSCRIBE", "UNSUBSCRIBE"],
)
def test_mqtt_3_1_repeats_packets_that_3_1_1_does_not(text: str) -> None:
    """The DUP flag of section 2.1 of MQTT 3.1; [MQTT-2.2.2-2] of 3.1.1 closes the connection."""
    data = bytes.fromhex(text)
    decoder, again = server(V31), server(V31)
    decoder.feed(data)
    again.feed(bytes([data[0] & ~8]) + data[1:])
    assert decoder.next() == again.next() is not None
    assert refusal(data, server(V311)) == MALFORMED


@rows(
    ("reserved flag", "03 00 0a 00 00 01 63", MALFORMED),
    ("QoS of a will that is not there", "0a 00 0a 00 00 01 63", MALFORMED),
    ("retain of a will that is not there", "22 00 0a 00 00 01 63", MALFORMED),
    ("will of QoS 3", "1e 00 0a 00 00 01 63 00 00 01 77 00 00", MALFORMED),
    ("will without a topic", "06 00 0a 00 00 01 63 00", MALFORMED),
    ("will without a payload", "06 00 0a 00 00 01 63 00 00 01 77", MALFORMED),
    ("will to a wildcard", "06 00 0a 00 00 01 63 00 00 01 23 00 00", TOPIC),
    ("will to no topic", "06 00 0a 00 00 01 63 00 00 00 00 00", TOPIC),
    ("no client id", "02 00 0a 00", MALFORMED),
    ("no user name", "82 00 0a 00 00 01 63", MALFORMED),
    ("no password", "c2 00 0a 00 00 01 63 00 01 75", MALFORMED),
    ("a user name that was not told", "02 00 0a 00 00 01 63 00 01 75", MALFORMED),
    ("no keep-alive", "02 00", MALFORMED),
    ("no flags", "", MALFORMED),
)
def test_connect_flags_and_fields(text: str, reason: Reason) -> None:
    """[MQTT-3.1.2-3], [MQTT-3.1.2-9], [MQTT-3.1.2-11] to [MQTT-3.1.2-19], [MQTT-3.1.3-11]."""
    decoder = server(None)
    assert refusal(connect(text), decoder) == reason
    assert decoder.version is V5


@rows(
    ("password without a user name", "42 00 0a 00 01 63 00 01 70", MALFORMED),
    ("reserved flag", "03 00 0a 00 01 63", MALFORMED),
    ("will flags without a will", "0a 00 0a 00 01 63", MALFORMED),
    ("will of QoS 3", "1e 00 0a 00 01 63 00 01 77 00 00", MALFORMED),
    ("bytes after the last field", "02 00 0a 00 01 63 00", MALFORMED),
)
def test_connect_flags_of_3_1_1(text: str, reason: Reason) -> None:
    """[MQTT-3.1.2-3], [MQTT-3.1.2-13], [MQTT-3.1.2-14], [MQTT-3.1.2-22] of 3.1.1."""
    decoder = server(None)
    assert refusal(connect(text, 4), decoder) == reason
    assert decoder.version is V311


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        pytest.param("30 ff ff ff ff 7f", True, id="the end of the packet is not known"),
        pytest.param("c0 01 00", True, id="PINGREQ with a body"),
        pytest.param("e0 01 01", True, id="DISCONNECT, whatever its reason"),
        pytest.param("e0 03 00 01 01", False, id="DISCONNECT with a property that is cut off"),
        pytest.param("36 04 00 01 61 00", False, id="PUBLISH"),
        pytest.param("00 ff ff ff ff 7f", False, id="type 0, which is seen first"),
    ],
)
def test_who_leaves_or_cannot_be_followed_is_told_nothing(text: str, silent: bool) -> None:
    decoder = server(V5)
    decoder.feed(bytes.fromhex(text))
    with pytest.raises(Malformed) as told:
        decoder.next()
    assert told.value.silent is silent


@pytest.mark.parametrize(
    ("version", "first"), [(V5, b"\x0a"), (V5, b"\x36"), (None, b"\x30"), (V5, b"\xd0"), (V311, b"\xf0")]
)
def test_what_the_first_byte_says_is_enough(version: Version | None, first: bytes) -> None:
    decoder = server(version)
    decoder.feed(first)
    with pytest.raises(Malformed):
        decoder.next()
