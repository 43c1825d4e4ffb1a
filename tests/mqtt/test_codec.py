"""Packets and their bytes, side by side, as the two standards write them."""

from __future__ import annotations

import pytest

from tidings.mqtt import codec
from tidings.mqtt.codec import Decoder, encode, variable
from tidings.mqtt.packets import (
    AnyPacket,
    Asked,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Properties,
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
    Will,
)
from tidings.mqtt.reasons import Reason

V311 = Version.V311
V5 = Version.V5


def read(data: bytes, version: Version | None, *, client: bool = False) -> AnyPacket:
    """The only packet in these bytes."""
    decoder = Decoder(packet_bytes_max=1 << 20, version=version, client=client)
    decoder.feed(data)
    packet = decoder.next()
    assert packet is not None
    assert decoder.next() is None
    assert decoder.held() == 0
    return packet


FROM_CLIENT: list[tuple[str, Version, str, AnyPacket]] = [
    (
        "the smallest CONNECT",
        V311,
        "10 0d  00 04 4d 51 54 54  04  02  00 0a  00 01 63",
        Connect(V311, "c", True, 10),
    ),
    (
        "CONNECT with all that 3.1.1 has",
        V311,
        (
            "10 1d  00 04 4d 51 54 54  04  f4  00 3c  00 01 63"
            "  00 03 77 2f 74  00 02 62 79  00 01 75  00 02 70 00"
        ),
        Connect(V311, "c", False, 60, "u", b"p\0", Will("w/t", b"by", 2, True)),
    ),
    (
        "CONNECT with properties, a will with properties, and a password alone",
        V5,
        (
            "10 28  00 04 4d 51 54 54  05  4e  00 00"
            "  08 11 00 00 00 78 21 00 14"
            "  00 01 63"
            "  05 18 00 00 00 05  00 03 77 2f 74  00 02 62 79"
            "  00 01 70"
        ),
        Connect(
            V5,
            "c",
            True,
            0,
            None,
            b"p",
            Will("w/t", b"by", 1, False, Properties(will_delay_s=5)),
            Properties(session_expiry_s=120, receive_maximum=20),
        ),
    ),
    ("PUBLISH of QoS 0", V311, "30 07  00 03 61 2f 62  68 69", Publish("a/b", b"hi")),
    ("PUBLISH without a payload", V311, "31 05  00 03 61 2f 62", Publish("a/b", retain=True)),
    (
        "PUBLISH of QoS 2, sent again",
        V311,
        "3c 09  00 03 61 2f 62  12 34  68 69",
        Publish("a/b", b"hi", 2, dup=True, packet_id=0x1234),
    ),
    ("PUBLISH in 5.0", V5, "30 08  00 03 61 2f 62  00  68 69", Publish("a/b", b"hi")),
    (
        "PUBLISH with properties",
        V5,
        "32 1a  00 01 61  00 07  13 01 01 02 00 00 00 3c 03 00 01 74 26 00 01 6b 00 02 76 77  68",
        Publish(
            "a",
            b"h",
            1,
            packet_id=7,
            properties=Properties(
                payload_format=1, message_expiry_s=60, content_type="t", user=(("k", "vw"),)
            ),
        ),
    ),
    (
        "PUBLISH with an alias in the place of its topic",
        V5,
        "30 07  00 00  03 23 00 05  68",
        Publish("", b"h", properties=Properties(topic_alias=5)),
    ),
    ("PUBACK", V311, "40 02 00 05", Puback(5)),
    ("PUBACK in its short form", V5, "40 02 00 05", Puback(5)),
    ("PUBACK with a reason", V5, "40 03 00 05 10", Puback(5, 0x10)),
    (
        "PUBACK with a reason string",
        V5,
        "40 08 00 05 97 04 1f 00 01 78",
        Puback(5, 0x97, Properties(reason_string="x")),
    ),
    ("PUBREC", V5, "50 02 00 05", Pubrec(5)),
    ("PUBREC with a reason", V5, "50 03 00 05 91", Pubrec(5, 0x91)),
    ("PUBREL", V311, "62 02 00 05", Pubrel(5)),
    ("PUBREL with a reason", V5, "62 03 00 05 92", Pubrel(5, 0x92)),
    ("PUBCOMP", V5, "70 02 00 05", Pubcomp(5)),
    (
        "SUBSCRIBE",
        V311,
        "82 0d  00 0a  00 03 61 2f 23 01  00 02 2b 62 02",
        Subscribe(10, (Asked("a/#", 1), Asked("+b", 2))),
    ),
    (
        "SUBSCRIBE with options and properties",
        V5,
        "82 11  00 0a  0a 0b ff 7f 26 00 01 77 00 01 78  00 01 61 2e",
        Subscribe(
            10,
            (Asked("a", 2, True, True, 2),),
            Properties(subscription_identifiers=(16_383,), user=(("w", "x"),)),
        ),
    ),
    ("UNSUBSCRIBE", V311, "a2 08  00 0b  00 01 61  00 01 62", Unsubscribe(11, ("a", "b"))),
    ("UNSUBSCRIBE in 5.0", V5, "a2 06  00 0b  00  00 01 61", Unsubscribe(11, ("a",))),
    ("PINGREQ", V311, "c0 00", Pingreq()),
    ("DISCONNECT", V311, "e0 00", Disconnect()),
    ("DISCONNECT of length 0", V5, "e0 00", Disconnect()),
    ("DISCONNECT with a reason", V5, "e0 01 04", Disconnect(0x04)),
    (
        "DISCONNECT with another session expiry",
        V5,
        "e0 07 00 05 11 00 00 00 09",
        Disconnect(0, Properties(session_expiry_s=9)),
    ),
    (
        "AUTH",
        V5,
        "f0 0a 18 08 15 00 01 6d 16 00 01 64",
        Auth(0x18, Properties(authentication_method="m", authentication_data=b"d")),
    ),
]

FROM_SERVER: list[tuple[str, Version, str, AnyPacket]] = [
    ("CONNACK", V311, "20 02 01 00", Connack(0, True)),
    ("CONNACK that refuses", V311, "20 02 00 05", Connack(Reason.NOT_AUTHORIZED)),
    ("CONNACK in 5.0", V5, "20 03 00 00 00", Connack()),
    ("CONNACK that refuses in 5.0", V5, "20 03 00 84 00", Connack(0x84)),
    (
        "CONNACK with properties",
        V5,
        "20 0d 00 00 0a 12 00 01 69 22 00 0a 21 00 14",
        Connack(
            0,
            False,
            Properties(assigned_client_id="i", topic_alias_maximum=10, receive_maximum=20),
        ),
    ),
    (
        "PUBLISH with subscription identifiers",
        V5,
        "30 0a  00 01 61  05 0b 01 0b 80 01  68",
        Publish("a", b"h", properties=Properties(subscription_identifiers=(1, 128))),
    ),
    ("SUBACK", V311, "90 05 00 0a 00 02 80", Suback(10, (0, 2, 0x80))),
    (
        "SUBACK with a reason string",
        V5,
        "90 08 00 0a 04 1f 00 01 6e 8f",
        Suback(10, (0x8F,), Properties(reason_string="n")),
    ),
    ("UNSUBACK", V311, "b0 02 00 0b", Unsuback(11)),
    ("UNSUBACK in 5.0", V5, "b0 05 00 0b 00 00 11", Unsuback(11, (0x00, 0x11))),
    ("PINGRESP", V5, "d0 00", Pingresp()),
    ("DISCONNECT", V5, "e0 01 8e", Disconnect(0x8E)),
    ("AUTH that is done", V5, "f0 00", Auth()),
]


@pytest.mark.parametrize(
    ("version", "text", "packet"), [row[1:] for row in FROM_CLIENT], ids=[row[0] for row in FROM_CLIENT]
)
def test_what_clients_send_is_read_and_written(version: Version, text: str, packet: AnyPacket) -> None:
    data = bytes.fromhex(text)
    assert read(data, None if isinstance(packet, Connect) else version) == packet
    assert encode(packet, version) == data


@pytest.mark.parametrize(
    ("version", "text", "packet"), [row[1:] for row in FROM_SERVER], ids=[row[0] for row in FROM_SERVER]
)
def test_what_servers_send_is_read_and_written(version: Version, text: str, packet: AnyPacket) -> None:
    data = bytes.fromhex(text)
    assert read(data, version, client=True) == packet
    assert encode(packet, version) == data


@pytest.mark.parametrize(
    ("version", "text", "packet"),
    [
        (V5, "40 03 00 05 00", Puback(5)),
        (V5, "40 04 00 05 00 00", Puback(5)),
        (V5, "62 04 00 05 92 00", Pubrel(5, 0x92)),
        (V5, "e0 01 00", Disconnect()),
        (V5, "e0 02 04 00", Disconnect(0x04)),
        (V5, "f0 00", Auth()),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_longer_forms_mean_the_same(version: Version, text: str, packet: AnyPacket) -> None:
    """Sections 3.4.2.1, 3.14.2.1, 3.15.2.1: reason code and property length need not be left out."""
    assert read(bytes.fromhex(text), version) == packet


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "80 01"),
        (16_383, "ff 7f"),
        (16_384, "80 80 01"),
        (2_097_151, "ff ff 7f"),
        (2_097_152, "80 80 80 01"),
        (268_435_455, "ff ff ff 7f"),
    ],
)
def test_variable_byte_integers_are_as_in_table_1_1(number: int, text: str) -> None:
    """[MQTT-1.5.5-1]: in as few bytes as the value takes."""
    assert variable(number) == bytes.fromhex(text)


def test_a_number_that_mqtt_cannot_write_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="268435456 is too large"):
        variable(268_435_456)


def test_a_field_that_is_too_long_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="65535"):
        encode(Unsubscribe(1, ("x" * 65_536,)), V5)
    with pytest.raises(ValueError, match="do not fit"):
        encode(Publish("x" * 65_536), V5)


def test_the_longest_field_is_carried() -> None:
    packet = Publish("é" * 32_767 + "x", b"y")
    assert read(encode(packet, V311), V311) == packet


def test_half_a_character_is_not_written() -> None:
    """[MQTT-1.5.4-1]: no surrogates."""
    with pytest.raises(UnicodeEncodeError):
        encode(Publish("\ud800"), V5)


def test_a_zero_width_no_break_space_is_kept() -> None:
    """[MQTT-1.5.4-3]: U+FEFF is a character like others, wherever it is."""
    assert read(bytes.fromhex("30 06 00 04 ef bb bf 61"), V311) == Publish("\ufeffa")


def test_characters_of_four_bytes_are_read() -> None:
    """Section 1.5.4.1: 'A' and U+2A6D4."""
    assert read(bytes.fromhex("30 07 00 05 41 f0 aa 9b 94"), V311) == Publish("A\U0002a6d4")


@pytest.mark.parametrize(
    ("reason", "code"),
    [(0x84, 1), (0x85, 2), (0x88, 3), (0x86, 4), (0x87, 5), (0x8A, 5), (0x97, 3), (0x81, 3)],
)
def test_a_refusal_is_told_in_a_return_code_of_3_1_1(reason: int, code: int) -> None:
    assert encode(Connack(reason), V311) == bytes([0x20, 2, 0, code])


def test_what_3_1_1_does_not_have_is_left_out() -> None:
    reasons = Properties(reason_string="why", user=(("a", "b"),))
    assert encode(Puback(5, 0x97, reasons), V311) == bytes.fromhex("40 02 00 05")
    assert encode(Suback(5, (0x8F, 1), reasons), V311) == bytes.fromhex("90 04 00 05 80 01")
    assert encode(Unsuback(5, (0x11,), reasons), V311) == bytes.fromhex("b0 02 00 05")
    assert encode(Disconnect(0x8E, reasons), V311) == bytes.fromhex("e0 00")
    assert encode(Publish("a", b"b", properties=reasons), V311) == bytes.fromhex("30 04 00 01 61 62")
    asked = Asked("a", 1, no_local=True, retain_as_published=True, retain_handling=2)
    assert encode(Subscribe(5, (asked,), reasons), V311) == bytes.fromhex("82 06 00 05 00 01 61 01")


def test_there_is_no_auth_in_3_1_1() -> None:
    with pytest.raises(ValueError, match="no AUTH"):
        encode(Auth(), V311)


def test_properties_equal_to_none_are_left_out_like_none() -> None:
    assert encode(Puback(5, 0, Properties()), V5) == bytes.fromhex("40 02 00 05")


def test_many_packets_come_out_in_their_order() -> None:
    packets: list[AnyPacket] = [Publish("t", bytes([number])) for number in range(100)]
    decoder = Decoder(packet_bytes_max=1024, version=V5)
    decoder.feed(b"".join(encode(packet, V5) for packet in packets))
    assert [decoder.next() for _ in packets] == packets
    assert decoder.next() is None


def test_a_reader_that_advances_by_itself_is_followed() -> None:
    """`data` and `at` are public: who reads ahead says how far."""
    decoder = Decoder(packet_bytes_max=1024, version=V5)
    decoder.feed(encode(Publish("a"), V5) + encode(Publish("b"), V5) + b"\x30")
    decoder.at += len(encode(Publish("a"), V5))
    assert decoder.next() == Publish("b")
    assert decoder.next() is None
    decoder.feed(encode(Publish("c"), V5)[1:])
    assert decoder.next() == Publish("c")


def test_nothing_is_held_for_a_connection_that_is_idle() -> None:
    decoder = Decoder(packet_bytes_max=1 << 20, version=V5)
    decoder.feed(encode(Publish("a", bytes(60_000)), V5))
    assert decoder.next() is not None
    assert decoder.next() is None
    assert decoder.data == b""


def test_a_large_packet_is_not_copied_for_each_piece_of_it() -> None:
    whole = encode(Publish("a", bytes(50_000)), V5)
    decoder = Decoder(packet_bytes_max=1 << 20, version=V5)
    decoder.feed(whole[:10])
    assert decoder.next() is None
    head = decoder.data
    for at in range(10, len(whole) - 100, 100):
        decoder.feed(whole[at : at + 100])
        assert decoder.next() is None
        assert decoder.data is head
    decoder.feed(whole[at + 100 :] + encode(Pingreq(), V5))
    assert decoder.next() == Publish("a", bytes(50_000))
    assert decoder.next() == Pingreq()


def test_a_topic_is_one_string_for_all_who_publish_to_it() -> None:
    data = encode(Publish("fleet/17/status"), V5)
    first, second = read(data, V5), read(data, V5)
    assert isinstance(first, Publish)
    assert isinstance(second, Publish)
    assert first.topic is second.topic


def test_the_topics_that_are_remembered_are_bounded() -> None:
    for number in range(2 * codec.TOPICS_MAX):
        read(encode(Publish(f"many/{number}"), V5), V5)
    read(encode(Publish("x" * 60_000), V5), V5)
    assert len(codec._topics) <= codec.TOPICS_MAX
    assert all(len(raw) <= codec.TOPIC_BYTES_MAX for raw in codec._topics)
