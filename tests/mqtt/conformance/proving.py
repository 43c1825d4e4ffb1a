"""Which test proves which statement, and what tests of the standard share.

`proves` only notes; `page` reads the notes. Bytes here are made by hand: a test of what must be refused
cannot use our own encoder, which makes nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.mqtt.talk import BOTH, V5, Client
from tidings.mqtt.packets import Connack, Version

Test = TypeVar("Test", bound=Callable[..., None])

both = pytest.mark.parametrize("version", BOTH, ids=["5.0", "3.1.1"])
"""A test that holds for both versions."""


def proves(*v5: str, v311: tuple[str, ...] = ()) -> Callable[[Test], Test]:
    """Note that a test proves statements, by their numbers without "MQTT-"."""

    def note(test: Test) -> Test:
        claims = [("5.0", number) for number in v5] + [("3.1.1", number) for number in v311]
        test.__dict__["proves"] = claims
        return test

    return note


def raw(first: int, body: bytes = b"") -> bytes:
    """A packet of a first byte and what follows its length."""
    length, size = b"", len(body)
    while True:
        size, low = divmod(size, 128)
        length += bytes([low | (0x80 if size else 0)])
        if not size:
            return bytes([first]) + length + body


def text(value: str | bytes) -> bytes:
    """A string, or anything in its place."""
    data = value.encode() if isinstance(value, str) else value
    return len(data).to_bytes(2, "big") + data


def block(version: Version, properties: bytes = b"") -> bytes:
    """Properties with their length; nothing in 3.1.1."""
    return bytes([len(properties)]) + properties if version is V5 else b""


def connect_bytes(
    version: Version,
    flags: int = 0x02,
    payload: bytes | None = None,
    *,
    name: bytes = b"MQTT",
    level: int | None = None,
    properties: bytes = b"",
) -> bytes:
    """A CONNECT; `payload` is what follows the properties, the client id first."""
    return raw(
        0x10,
        text(name)
        + bytes([version if level is None else level, flags])
        + b"\0\0"
        + block(version, properties)
        + (text("c") if payload is None else payload),
    )


def publish_bytes(
    version: Version, topic: str | bytes, payload: bytes = b"x", properties: bytes = b""
) -> bytes:
    """A PUBLISH of QoS 0."""
    return raw(0x30, text(topic) + block(version, properties) + payload)


def subscribe_bytes(version: Version, topic_filter: str | bytes, options: int = 0) -> bytes:
    return raw(0x82, b"\0\1" + block(version) + text(topic_filter) + bytes([options]))


def refused(client: Client, *reasons: int) -> None:
    """The connection is closed, in 5.0 with a DISCONNECT that says one of these."""
    if client.version is V5:
        assert client.dismissed() in reasons
    else:
        assert client.dismissed() is None


def turned_away(client: Client) -> None:
    """The connection is closed, without CONNACK or with one that refuses and is not for a session."""
    assert client.closed
    for answer in client.take_all():
        assert isinstance(answer, Connack)
        assert answer.reason >= 0x80
        assert not answer.session_present
