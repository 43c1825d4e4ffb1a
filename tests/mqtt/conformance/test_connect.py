"""Sections 3.1 and 3.2: CONNECT and CONNACK."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.mqtt.conformance.proving import block, both, connect_bytes, proves, raw, refused, text, turned_away
from tests.mqtt.talk import PLAIN, V5, V311, Talk
from tidings.mqtt.events import ALL_ALLOWED, Access
from tidings.mqtt.packets import Auth, Connack, Connect, Publish, Version, Will

KNOWN_ONLY = Access(ALL_ALLOWED.rules, anonymous=False, verify=True)


@proves("3.1.4-5", "3.2.0-1", "3.2.2-1", "3.2.2-2", v311=("3.1.4-4", "3.2.0-1", "3.2.2-1"))
@both
def test_connect_is_answered_by_connack(version: Version) -> None:
    client = Talk().dial(version)
    connack = client.connect("c")
    assert connack is not None
    assert (connack.reason, connack.session_present) == (0, False)
    assert client.bytes[0] == 0x20
    assert client.bytes[2] == 0, "no flag is set"
    assert client.heard == []
    client.ping()


FIRST: dict[str, Callable[[Version], bytes]] = {
    "PUBLISH": lambda v: raw(0x30, text("t") + block(v) + b"x"),
    "PUBACK": lambda v: raw(0x40, b"\0\1"),
    "SUBSCRIBE": lambda v: raw(0x82, b"\0\1" + block(v) + text("t") + b"\0"),
    "UNSUBSCRIBE": lambda v: raw(0xA2, b"\0\1" + block(v) + text("t")),
    "PINGREQ": lambda v: raw(0xC0),
    "DISCONNECT": lambda v: raw(0xE0),
    "AUTH": lambda v: raw(0xF0),
    "a reserved type": lambda v: raw(0x00),
    "CONNACK": lambda v: raw(0x20, b"\0\0"),
    "HTTP": lambda v: b"GET / HTTP/1.1\r\n\r\n",
}


@proves("3.1.0-1", "3.14.0-1", "3.2.0-1", v311=("3.1.0-1", "3.2.0-1"))
@pytest.mark.parametrize("name", FIRST)
@both
def test_what_begins_with_something_else_is_closed_without_a_word(version: Version, name: str) -> None:
    client = Talk().dial(version)
    client.send_bytes(FIRST[name](version))
    assert client.closed
    assert client.bytes == b""


@proves("3.1.0-2", "3.2.0-2", v311=("3.1.0-2",))
@both
def test_a_second_connect_closes_the_connection(version: Version) -> None:
    client = Talk().connect("c", version)
    client.send(Connect(version, "c"))
    refused(client, 0x82)


@proves("3.1.2-1", v311=("3.1.2-1",))
@pytest.mark.parametrize("name", [b"MQT", b"MQTTT", b"mqtt", b"", b"hj", b"MQTT\0"])
@both
def test_a_wrong_protocol_name_is_turned_away(version: Version, name: bytes) -> None:
    client = Talk().dial(version)
    client.send_bytes(connect_bytes(version, name=name))
    assert client.closed
    assert client.bytes in (b"", bytes.fromhex("20 03 00 84 00"), bytes.fromhex("20 02 00 01"))


@proves("3.1.2-2")
@pytest.mark.parametrize("level", [6, 7, 255])
def test_a_version_that_is_still_to_come_is_turned_away(level: int) -> None:
    client = Talk().dial(V5)
    client.send_bytes(connect_bytes(V5, level=level))
    assert client.closed
    assert client.bytes in (b"", bytes.fromhex("20 03 00 84 00"))


@proves(v311=("3.1.2-2",))
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_a_level_that_is_no_more_is_told_so(level: int) -> None:
    client = Talk().dial(V311)
    client.send_bytes(connect_bytes(V311, level=level))
    assert client.closed
    assert client.bytes == bytes.fromhex("20 02 00 01")


WRONG_FLAGS = {
    "the reserved flag": (0x03, b""),
    "will QoS without a will": (0x0A, b""),
    "will retain without a will": (0x22, b""),
    "a will without its fields": (0x06, b""),
    "a will without its payload": (0x06, b"will"),
    "a will of QoS 3": (0x1E, b"will payload"),
    "a user name that is missing": (0x82, b""),
    "a user name that was not announced": (0x02, b"name"),
    "a password that was not announced": (0x82, b"name password"),
    "a password that is missing": (0xC2, b"name"),
}


@proves(
    "3.1.2-3",
    "3.1.2-9",
    "3.1.2-11",
    "3.1.2-12",
    "3.1.2-13",
    "3.1.2-16",
    "3.1.2-17",
    "3.1.2-18",
    "3.1.2-19",
    "3.1.3-1",
    "3.1.4-1",
    v311=(
        "3.1.2-3",
        "3.1.2-9",
        "3.1.2-11",
        "3.1.2-13",
        "3.1.2-14",
        "3.1.2-15",
        "3.1.2-18",
        "3.1.2-19",
        "3.1.2-20",
        "3.1.2-21",
        "3.1.3-1",
        "3.1.4-1",
    ),
)
@pytest.mark.parametrize("name", WRONG_FLAGS)
@both
def test_connect_flags_that_do_not_fit_its_payload_are_turned_away(version: Version, name: str) -> None:
    flags, fields = WRONG_FLAGS[name]
    payload = text("c")
    if fields:
        payload += block(version) if fields.startswith(b"will") else b""
        payload += b"".join(text(field) for field in fields.split())
    client = Talk().dial(version)
    client.send_bytes(connect_bytes(version, flags, payload))
    turned_away(client)


@proves(v311=("3.1.4-1",))
@pytest.mark.parametrize("flags", [0x03, 0x0A, 0x22, 0x06, 0x82, 0x42])
def test_a_connect_of_311_that_is_not_as_it_should_be_gets_no_answer(flags: int) -> None:
    client = Talk().dial(V311)
    client.send_bytes(connect_bytes(V311, flags))
    assert client.closed
    assert client.bytes == b""


@proves(v311=("3.1.2-22",))
def test_a_password_without_a_user_name_is_only_for_5() -> None:
    old = Talk().dial(V311)
    old.send_bytes(connect_bytes(V311, 0x42, text("c") + text("password")))
    turned_away(old)


@proves("3.1.3-3", v311=("3.1.3-3",))
@both
def test_connect_without_a_client_id_field_is_turned_away(version: Version) -> None:
    client = Talk().dial(version)
    client.send_bytes(connect_bytes(version, 0x02, b""))
    turned_away(client)


@proves("3.1.3-1", "3.1.3-2", v311=("3.1.3-1", "3.1.3-2"))
@both
def test_all_fields_of_a_full_connect_are_read_in_their_order(version: Version) -> None:
    talk = Talk(access=KNOWN_ONLY, users={"name": b"password"})
    watcher = talk.connect("w", version, username="name", password=b"password")
    watcher.subscribe("will/topic")
    client = talk.dial(version)
    payload = (
        text("c")
        + block(version)
        + text("will/topic")
        + text("will payload")
        + text("name")
        + text("password")
    )
    client.send_bytes(connect_bytes(version, 0xC6, payload))
    assert client.take(Connack)[0].reason == 0
    client.lose()
    assert [(it.topic, it.payload) for it in watcher.read()] == [("will/topic", b"will payload")]


@proves("3.1.3-5", v311=("3.1.3-5",))
@pytest.mark.parametrize(
    "client_id", ["a", "0", "Z" * 23, string.digits + "abcdefghijklm", string.ascii_uppercase[:23]]
)
@both
def test_client_ids_of_letters_and_digits_are_accepted(version: Version, client_id: str) -> None:
    Talk().connect(client_id, version).ping()


@proves("3.1.3-6", "3.1.3-7", "3.2.2-16")
def test_a_client_without_id_is_given_one_that_no_other_has() -> None:
    talk = Talk()
    first, second = talk.connect(""), talk.connect("")
    given = [client.connack and client.connack.properties.assigned_client_id for client in (first, second)]
    assert given[0]
    assert given[1]
    assert given[0] != given[1]
    first.ping()
    third = talk.connect(str(given[0]))
    refused(first, 0x8E)
    assert third.connack == Connack(0, False, third.connack.properties) if third.connack else False
    second.ping()


@proves("3.1.3-7", "3.1.2-23")
def test_an_assigned_client_id_holds_as_if_it_had_been_sent() -> None:
    talk = Talk()
    client = talk.connect("", session_expiry_s=60)
    assert client.connack is not None
    given = client.connack.properties.assigned_client_id
    assert given
    client.subscribe("t")
    client.disconnect()
    again = talk.connect(given, clean_start=False, session_expiry_s=60)
    assert again.connack is not None
    assert again.connack.session_present
    assert again.connack.properties.assigned_client_id is None


@proves("3.1.3-6")
def test_a_client_of_5_without_id_need_not_begin_clean() -> None:
    client = Talk().connect("", clean_start=False)
    assert client.connack is not None
    assert client.connack.properties.assigned_client_id


@proves(v311=("3.1.3-6",))
def test_a_client_of_311_without_id_is_served() -> None:
    talk = Talk()
    first, second = talk.connect("", V311), talk.connect("", V311)
    first.subscribe("t")
    second.publish("t", b"x")
    assert first.payloads() == [b"x"]


@proves(v311=("3.1.3-7", "3.1.3-8", "3.1.3-9", "3.2.2-4", "3.2.2-5"))
def test_a_client_of_311_without_id_that_wants_a_session_is_refused() -> None:
    client = Talk().dial(V311)
    client.connect("", clean_start=False)
    assert client.closed
    assert client.bytes == bytes.fromhex("20 02 00 02")


@proves("3.1.3-8", "3.2.2-6", "3.2.2-7", v311=("3.1.3-9", "3.2.2-4", "3.2.2-5"))
@pytest.mark.parametrize("client_id", ["x" * 1_000, "two\nlines"])
@both
def test_a_client_id_that_is_not_taken_is_refused(version: Version, client_id: str) -> None:
    client = Talk().dial(version)
    client.send_bytes(connect_bytes(version, 0x00, text(client_id)))
    assert client.closed
    assert client.bytes == bytes.fromhex("20 03 00 85 00" if version is V5 else "20 02 00 02")


@proves("3.2.2-6", "3.2.2-7", "3.2.2-8", "3.1.4-2", "4.13.2-1")
def test_a_client_that_is_not_who_it_says_is_refused() -> None:
    talk = Talk(access=KNOWN_ONLY, users={"name": b"password"})
    for name, password, reason in (
        ("name", b"wrong", 0x86),
        ("other", b"password", 0x86),
        (None, None, 0x87),
    ):
        client = talk.dial()
        connack = client.connect("c", username=name, password=password)
        assert connack is not None
        assert connack.reason in (0x86, 0x87) if name is None else connack.reason == reason
        assert not connack.session_present
        assert client.closed
    talk.connect("c", username="name", password=b"password").ping()


@proves(v311=("3.2.2-4", "3.2.2-5"))
def test_a_client_of_311_that_is_not_who_it_says_is_refused() -> None:
    talk = Talk(access=KNOWN_ONLY, users={"name": b"password"})
    for name, password in (("name", b"wrong"), (None, None)):
        client = talk.dial(V311)
        client.connect("c", username=name, password=password)
        assert client.closed
        assert client.bytes in (bytes.fromhex("20 02 00 04"), bytes.fromhex("20 02 00 05"))


@proves("3.1.4-6", v311=("3.1.4-5",))
@both
def test_nothing_behind_a_refused_connect_is_looked_at(version: Version) -> None:
    talk = Talk(access=KNOWN_ONLY, users={"w": b"w"})
    watcher = talk.connect("w", version, username="w", password=b"w")
    watcher.subscribe("#")
    client = talk.dial(version)
    client.send_bytes(connect_bytes(version) + raw(0x30, text("t") + block(version) + b"x"))
    assert client.closed
    assert watcher.read() == []


@proves("3.1.4-6", v311=("3.1.4-5",))
@both
def test_nothing_is_looked_at_while_a_password_is_checked(version: Version) -> None:
    talk = Talk(access=KNOWN_ONLY, users={"w": b"w", "name": b"password"})
    watcher = talk.connect("w", version, username="w", password=b"w")
    watcher.subscribe("#")
    for password, got in (("wrong", []), ("password", [b"x"])):
        client = talk.dial(version)
        payload = text("c") + text("name") + text(password)
        client.send_bytes(
            connect_bytes(version, 0xC2, payload) + raw(0x30, text("t") + block(version) + b"x")
        )
        assert watcher.payloads() == got


@proves("3.2.0-1", v311=("3.2.0-1",))
@both
def test_packets_may_follow_connect_at_once_and_connack_is_first(version: Version) -> None:
    talk = Talk()
    client = talk.dial(version)
    client.send_bytes(
        connect_bytes(version)
        + raw(0x82, b"\0\1" + block(version) + text("t") + b"\0")
        + raw(0x30, text("t") + block(version) + b"x")
    )
    first, *others = client.take_all()
    assert isinstance(first, Connack)
    assert [it.payload for it in others if isinstance(it, Publish)] == [b"x"]


@proves("3.2.2-9", "3.2.2-10", "3.2.2-12", "3.2.2-13", v311=("3.8.3-2",))
def test_every_qos_is_served_everything_is_retained_and_wildcards_are_matched() -> None:
    """What a server without them must do does not arise: there is no such server here."""
    talk = Talk()
    for version in (V5, V311):
        client = talk.connect("c", version, will=Will("w", b"x", 2, True))
        assert client.connack is not None
        assert client.connack.properties.maximum_qos is None
        assert client.connack.properties.retain_available in (None, 1)
        assert client.subscribe("+/q", "#", qos=2).reasons == (2, 2)


@proves("3.1.2-28")
@pytest.mark.parametrize("asked", [None, 0])
def test_response_information_is_not_given_to_who_does_not_ask(asked: int | None) -> None:
    client = Talk().connect("c", request_response_information=asked)
    assert client.connack is not None
    assert client.connack.properties.response_information is None


@proves(
    "4.12.0-1", "4.12.0-2", "4.12.0-4", "4.12.0-5", "4.12.1-2", "3.15.2-1", "3.15.2-2", "3.15.2-3", "3.1.2-30"
)
def test_enhanced_authentication_is_refused_and_never_begun() -> None:
    client = Talk().dial()
    connack = client.connect("c", authentication_method="SCRAM-SHA-1", authentication_data=b"n,,n=user")
    assert connack is not None
    assert connack.reason == 0x8C
    assert client.closed
    assert client.heard == []


@proves("4.12.0-6")
def test_who_names_no_method_hears_of_none() -> None:
    client = Talk().connect("c")
    assert client.connack is not None
    assert client.connack.properties.authentication_method is None
    assert client.take(Auth) == []


WRONG_PROPERTIES = {
    "receive maximum 0": ("21 0000", (0x81, 0x82)),
    "maximum packet size 0": ("27 00000000", (0x81, 0x82)),
    "a choice that is neither 0 nor 1": ("17 02", (0x81, 0x82)),
    "session expiry twice": ("11 00000001 11 00000001", (0x82,)),
    "authentication data without a method": ("16 0001 61", (0x82,)),
    "a topic alias": ("23 0001", (0x81, 0x82)),
    "a property that nobody knows": ("7f 00", (0x81,)),
    "a property that is cut short": ("11 0000", (0x81,)),
}


@proves("3.1.4-1", "3.2.2-7", "3.2.2-8")
@pytest.mark.parametrize("name", WRONG_PROPERTIES)
def test_connect_with_properties_that_cannot_be_is_refused(name: str) -> None:
    data, reasons = WRONG_PROPERTIES[name]
    client = Talk().dial()
    client.send_bytes(connect_bytes(V5, properties=bytes.fromhex(data)))
    assert client.closed
    (connack,) = client.take_all()
    assert isinstance(connack, Connack)
    assert connack.reason in reasons


@proves("3.2.2-19", "3.2.2-20", "3.1.2-24")
def test_a_refusal_is_never_larger_than_the_client_allows() -> None:
    talk = Talk(access=KNOWN_ONLY)
    for size in range(2, 40):
        client = talk.dial()
        client.connect("c", maximum_packet_bytes=size)
        assert client.closed
        assert len(client.bytes) <= size


@proves("3.1.2-24")
def test_a_client_that_allows_less_than_connack_needs_is_closed() -> None:
    talk = Talk()
    for size in range(1, 40):
        client = talk.dial()
        client.connect("c", maximum_packet_bytes=size)
        assert len(client.bytes) <= size
        assert client.closed == (client.bytes == b"" or client.connack is None)


@proves(v311=("3.2.2-6", "4.8.0-2"))
def test_a_client_that_finds_no_room_is_told_so_or_closed() -> None:
    talk = Talk(replace(PLAIN, sessions_max=1))
    talk.connect("first", V311).subscribe("t")
    client = talk.dial(V311)
    client.connect("second")
    assert client.closed
    assert client.bytes in (b"", bytes.fromhex("20 02 00 03"))
