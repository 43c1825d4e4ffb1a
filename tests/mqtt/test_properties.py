"""Properties: which there are, where each may be, what each may hold, and what is told when it is not so."""

from __future__ import annotations

import pytest

from tidings.mqtt import properties
from tidings.mqtt.packets import NO_PROPERTIES, Properties
from tidings.mqtt.properties import (
    AUTH,
    BINARY,
    BYTE,
    CONNACK,
    CONNECT,
    DISCONNECT,
    LONG,
    NAMES,
    PAIR,
    PROPERTIES,
    PUBACK,
    PUBLISH,
    SHORT,
    SUBACK,
    SUBSCRIBE,
    TEXT,
    UNSUBSCRIBE,
    VARIABLE,
    WILL,
    Malformed,
    Property,
    Reader,
)
from tidings.mqtt.reasons import Reason

MALFORMED = Reason.MALFORMED_PACKET
PROTOCOL = Reason.PROTOCOL_ERROR

PLACES = [place for place in range(16) if NAMES[place] not in ("PINGREQ", "PINGRESP")]

VALUES = {
    BYTE: b"\x01",
    SHORT: b"\x00\x01",
    LONG: b"\x00\x00\x00\x01",
    VARIABLE: b"\x01",
    TEXT: b"\x00\x01m",
    BINARY: b"\x00\x01m",
    PAIR: b"\x00\x01k\x00\x01v",
}
"""A value of each form that every property of that form allows."""


def read(body: bytes, place: int) -> Properties:
    data = properties.variable(len(body)) + body
    reader = Reader(data, 0, len(data))
    found = reader.properties(place)
    reader.finish()
    return found


def refusal(body: bytes, place: int) -> Reason:
    with pytest.raises(Malformed) as told:
        read(body, place)
    return told.value.reason


def one(row: Property) -> bytes:
    """A property with a valid value, and the method that authentication data must have beside it."""
    extra = b"\x15\x00\x01m" if row.field == "authentication_data" else b""
    return bytes([row.identifier]) + VALUES[row.form] + extra


@pytest.mark.parametrize("row", PROPERTIES, ids=lambda row: row.field)
def test_a_property_is_read_and_written_where_it_belongs(row: Property) -> None:
    for place in row.places:
        found = read(one(row), place)
        assert getattr(found, row.field) not in (None, ())
        written = properties.written(found, place)
        assert sorted(written[1:]) == sorted(one(row))


@pytest.mark.parametrize("row", PROPERTIES, ids=lambda row: row.field)
def test_a_property_is_refused_where_it_does_not_belong(row: Property) -> None:
    """Section 2.2.2.2."""
    for place in PLACES:
        if place not in row.places:
            expected = MALFORMED if place in (SUBSCRIBE, UNSUBSCRIBE) else PROTOCOL
            assert refusal(bytes([row.identifier]) + VALUES[row.form], place) == expected


@pytest.mark.parametrize("row", PROPERTIES, ids=lambda row: row.field)
def test_a_property_that_is_cut_off_is_malformed_everywhere(row: Property) -> None:
    whole = bytes([row.identifier]) + VALUES[row.form]
    for place in PLACES:
        for at in range(1, len(whole)):
            assert refusal(whole[:at], place) == MALFORMED


@pytest.mark.parametrize("row", PROPERTIES, ids=lambda row: row.field)
def test_a_property_comes_once_unless_it_may_repeat(row: Property) -> None:
    """Section 2.2.2.2; user properties may repeat everywhere, subscription identifiers in PUBLISH."""
    twice = (bytes([row.identifier]) + VALUES[row.form]) * 2
    for place in row.places:
        if row.form == PAIR:
            assert read(twice, place).user == (("k", "v"), ("k", "v"))
        elif row.form == VARIABLE and place == PUBLISH:
            assert read(twice, place).subscription_identifiers == (1, 1)
        else:
            assert refusal(twice, place) == PROTOCOL


@pytest.mark.parametrize(
    ("place", "text", "reason"),
    [
        pytest.param(PUBLISH, "01 02", PROTOCOL, id="payload format 2"),
        pytest.param(WILL, "01 02", PROTOCOL, id="payload format 2 of a will"),
        pytest.param(CONNECT, "21 00 00", PROTOCOL, id="receive maximum 0"),
        pytest.param(CONNACK, "21 00 00", PROTOCOL, id="receive maximum 0 of a server"),
        pytest.param(CONNECT, "27 00 00 00 00", PROTOCOL, id="maximum packet size 0"),
        pytest.param(CONNECT, "17 02", PROTOCOL, id="request problem information 2"),
        pytest.param(CONNECT, "19 02", PROTOCOL, id="request response information 2"),
        pytest.param(SUBSCRIBE, "0b 00", PROTOCOL, id="subscription identifier 0"),
        pytest.param(PUBLISH, "0b 00", PROTOCOL, id="subscription identifier 0 in PUBLISH"),
        pytest.param(PUBLISH, "23 00 00", Reason.TOPIC_ALIAS_INVALID, id="topic alias 0"),
        pytest.param(CONNACK, "24 02", PROTOCOL, id="maximum QoS 2"),
        pytest.param(CONNACK, "25 02", PROTOCOL, id="retain available 2"),
        pytest.param(CONNACK, "28 02", PROTOCOL, id="wildcard subscription available 2"),
        pytest.param(CONNACK, "29 02", PROTOCOL, id="subscription identifier available 2"),
        pytest.param(CONNACK, "2a 02", PROTOCOL, id="shared subscription available 2"),
    ],
)
def test_values_that_are_out_of_range(place: int, text: str, reason: Reason) -> None:
    """Sections 3.1.2.11, 3.2.2.3, 3.3.2.3 and 3.8.2.1; [MQTT-3.3.2-8] for the alias."""
    assert refusal(bytes.fromhex(text), place) == reason


@pytest.mark.parametrize("identifier", [0x00, 0x04, 0x0A, 0x10, 0x14, 0x1B, 0x1D, 0x20, 0x2B, 0x7F])
def test_identifiers_that_no_property_has(identifier: int) -> None:
    for place in PLACES:
        assert refusal(bytes([identifier, 1]), place) == MALFORMED


@pytest.mark.parametrize("identifier", ["80 00", "81 00", "80 01", "ff ff ff 7f", "80 80 80 80 01"])
def test_longer_identifiers_are_none_either(identifier: str) -> None:
    """[MQTT-1.5.5-1]: 81 00 would be property 1 in more bytes than it needs."""
    assert refusal(bytes.fromhex(identifier) + b"\x01", PUBLISH) == MALFORMED


@pytest.mark.parametrize("text", ["0b 80 00", "0b 81 00", "0b 80 80 80 00", "0b 80 80 80 80 01", "0b 80"])
def test_mqtt_1_5_5_1_variable_byte_integers_are_minimal(text: str) -> None:
    """[MQTT-1.5.5-1]."""
    assert refusal(bytes.fromhex(text), SUBSCRIBE) == MALFORMED


@pytest.mark.parametrize(
    ("text", "number"), [("0b 7f", 127), ("0b 80 01", 128), ("0b ff ff ff 7f", 268_435_455)]
)
def test_subscription_identifiers_of_every_length(text: str, number: int) -> None:
    assert read(bytes.fromhex(text), SUBSCRIBE).subscription_identifiers == (number,)


@pytest.mark.parametrize("place", [CONNECT, CONNACK, AUTH])
def test_authentication_data_needs_a_method(place: int) -> None:
    """Section 3.1.2.11.10."""
    assert refusal(b"\x16\x00\x01d", place) == PROTOCOL


def test_user_properties_keep_their_order() -> None:
    """[MQTT-3.3.2-18]."""
    pairs = (("b", "1"), ("a", "2"), ("b", "3"))
    packed = properties.written(Properties(user=pairs), PUBLISH)
    assert Reader(packed, 0, len(packed)).properties(PUBLISH).user == pairs


def test_empty_texts_are_values() -> None:
    found = read(bytes.fromhex("03 00 00 09 00 00 26 00 00 00 00"), PUBLISH)
    assert found == Properties(content_type="", correlation_data=b"", user=(("", ""),))
    assert properties.written(found, PUBLISH) == bytes.fromhex("0b 03 00 00 09 00 00 26 00 00 00 00")


def test_a_length_of_0_is_no_properties() -> None:
    assert read(b"", SUBACK) is NO_PROPERTIES
    assert properties.written(NO_PROPERTIES, SUBACK) == b"\0"


def test_what_does_not_belong_in_a_packet_is_not_written() -> None:
    mixed = Properties(topic_alias=3, reason_string="why")
    assert properties.written(mixed, PUBLISH) == bytes.fromhex("03 23 00 03")
    assert properties.written(mixed, PUBACK) == bytes.fromhex("06 1f 00 03 77 68 79")


def test_properties_that_were_read_before_are_judged_by_their_place() -> None:
    """What is remembered for one packet is not taken for another."""
    session_expiry = bytes.fromhex("11 00 00 00 05")
    assert read(session_expiry, CONNECT).session_expiry_s == 5
    assert read(session_expiry, CONNECT).session_expiry_s == 5
    assert refusal(session_expiry, PUBLISH) == PROTOCOL
    assert read(session_expiry, DISCONNECT).session_expiry_s == 5


def test_what_is_remembered_is_bounded() -> None:
    for number in range(3 * properties.KEPT_MAX):
        read(b"\x02" + number.to_bytes(4, "big"), PUBLISH)
    read(b"\x09\x01\x00" + bytes(256), PUBLISH)
    assert len(properties._kept) <= properties.KEPT_MAX
    assert all(len(body) <= properties.KEPT_BYTES_MAX for _, body in properties._kept)


def test_what_cannot_be_read_is_told_before_what_is_not_allowed() -> None:
    foreign, twice, unknown = b"\x24\x00", b"\x01\x01\x01\x01", b"\x04\x00"
    assert refusal(foreign, PUBLISH) == PROTOCOL
    assert refusal(foreign + unknown, PUBLISH) == MALFORMED
    assert refusal(twice + unknown, PUBLISH) == MALFORMED
    assert refusal(foreign + b"\x01", PUBLISH) == MALFORMED
