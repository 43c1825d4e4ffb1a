"""The properties of MQTT 5 (section 2.2.2) as bytes: which there are, how each is written, where it may be.

What they mean is not known here. A place is a kind of packet, or a will within CONNECT.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tidings.errors import PeerError
from tidings.mqtt.packets import NO_PROPERTIES, Properties
from tidings.mqtt.reasons import Reason

WILL: Final = 0
CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15
"""The types of packets (section 2.1.2). 0 is none, and stands for the will."""

NAMES: Final = (
    "a will",
    "CONNECT",
    "CONNACK",
    "PUBLISH",
    "PUBACK",
    "PUBREC",
    "PUBREL",
    "PUBCOMP",
    "SUBSCRIBE",
    "SUBACK",
    "UNSUBSCRIBE",
    "UNSUBACK",
    "PINGREQ",
    "PINGRESP",
    "DISCONNECT",
    "AUTH",
)

BYTE: Final = 1
SHORT: Final = 2
LONG: Final = 4
VARIABLE: Final = 5
TEXT: Final = 6
BINARY: Final = 7
PAIR: Final = 8
"""How a value is written; the first three are their numbers of bytes."""

VARIABLE_MAX: Final = 268_435_455
"""The largest variable byte integer: four groups of seven bits."""

STRING_BYTES_MAX: Final = 65_535

LISTED_MAX: Final = 10_000
"""Topic filters, or user properties, in one packet: about 10 ms to read. A session has no more subscriptions
than that, by default."""


class Malformed(PeerError):
    """Bytes that are not MQTT; the other side is told why, and its connection is closed [MQTT-4.13.1-1]."""

    def __init__(self, reason: Reason, text: str, silent: bool = False) -> None:
        super().__init__(text)
        self.reason = reason
        """The code for CONNACK or DISCONNECT, where the version has them."""
        self.text = text
        """One sentence, for logs."""
        self.silent = silent
        """Whether the connection is closed without a word: its other side leaves, or would not follow."""


class Property(NamedTuple):
    """One row of table 2-4 of the standard."""

    identifier: int
    field: str
    form: int

    places: tuple[int, ...]

    low: int = 0
    high: int = 0xFFFF_FFFF
    """The values that are allowed, for numbers."""

    fault: Reason = Reason.PROTOCOL_ERROR
    """What a value outside of them is."""


ACKNOWLEDGEMENTS = (PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK)
EVERYWHERE = (CONNECT, CONNACK, PUBLISH, WILL, *ACKNOWLEDGEMENTS, SUBSCRIBE, UNSUBSCRIBE, DISCONNECT, AUTH)

# In the order in which they are written.
PROPERTIES = (
    Property(0x01, "payload_format", BYTE, (PUBLISH, WILL), 0, 1),
    Property(0x02, "message_expiry_s", LONG, (PUBLISH, WILL)),
    Property(0x03, "content_type", TEXT, (PUBLISH, WILL)),
    Property(0x08, "response_topic", TEXT, (PUBLISH, WILL)),
    Property(0x09, "correlation_data", BINARY, (PUBLISH, WILL)),
    Property(0x0B, "subscription_identifiers", VARIABLE, (PUBLISH, SUBSCRIBE), 1, VARIABLE_MAX),
    Property(0x11, "session_expiry_s", LONG, (CONNECT, CONNACK, DISCONNECT)),
    Property(0x12, "assigned_client_id", TEXT, (CONNACK,)),
    Property(0x13, "server_keep_alive_s", SHORT, (CONNACK,)),
    Property(0x15, "authentication_method", TEXT, (CONNECT, CONNACK, AUTH)),
    Property(0x16, "authentication_data", BINARY, (CONNECT, CONNACK, AUTH)),
    Property(0x17, "request_problem_information", BYTE, (CONNECT,), 0, 1),
    Property(0x18, "will_delay_s", LONG, (WILL,)),
    Property(0x19, "request_response_information", BYTE, (CONNECT,), 0, 1),
    Property(0x1A, "response_information", TEXT, (CONNACK,)),
    Property(0x1C, "server_reference", TEXT, (CONNACK, DISCONNECT)),
    Property(0x1F, "reason_string", TEXT, (CONNACK, *ACKNOWLEDGEMENTS, DISCONNECT, AUTH)),
    Property(0x22, "topic_alias_maximum", SHORT, (CONNECT, CONNACK)),
    Property(0x27, "maximum_packet_bytes", LONG, (CONNECT, CONNACK), 1),
    Property(0x21, "receive_maximum", SHORT, (CONNECT, CONNACK), 1),
    Property(0x23, "topic_alias", SHORT, (PUBLISH,), 1, fault=Reason.TOPIC_ALIAS_INVALID),
    Property(0x24, "maximum_qos", BYTE, (CONNACK,), 0, 1),
    Property(0x25, "retain_available", BYTE, (CONNACK,), 0, 1),
    Property(0x26, "user", PAIR, EVERYWHERE),
    Property(0x28, "wildcard_subscription_available", BYTE, (CONNACK,), 0, 1),
    Property(0x29, "subscription_identifier_available", BYTE, (CONNACK,), 0, 1),
    Property(0x2A, "shared_subscription_available", BYTE, (CONNACK,), 0, 1),
)

BY_IDENTIFIER: Final[dict[int, Property]] = {row.identifier: row for row in PROPERTIES}

KEPT_BYTES_MAX: Final = 64
KEPT_MAX: Final = 1024
_kept: Final[dict[tuple[int, bytes], Properties]] = {}
"""Publishers say the same few properties again and again. Bounded in number and size: 500 KiB at worst."""


def variable(number: int) -> bytes:
    """A variable byte integer (section 1.5.5) in as few bytes as it takes [MQTT-1.5.5-1]."""
    if number < 0x80:
        return SINGLE[number]
    if number > VARIABLE_MAX:
        raise ValueError(f"{number} is too large for MQTT; lengths and identifiers end at {VARIABLE_MAX}")
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


SINGLE: Final = tuple(bytes((number,)) for number in range(256))


class Reader:
    """Walks through the body of one packet, and never out of it."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data = data
        self.at = at
        self.end = end

    def byte(self) -> int:
        at = self.at
        if at >= self.end:
            raise truncated()
        self.at = at + 1
        return self.data[at]

    def short(self) -> int:
        at = self.at
        if at + 2 > self.end:
            raise truncated()
        self.at = at + 2
        return self.data[at] << 8 | self.data[at + 1]

    def long(self) -> int:
        return self.short() << 16 | self.short()

    def variable(self) -> int:
        number = 0
        for shift in (0, 7, 14, 21):
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:  # [MQTT-1.5.5-1]
                    break
                return number
        raise Malformed(Reason.MALFORMED_PACKET, "A variable byte integer has more bytes than it needs.")

    def binary(self) -> bytes:
        start = self.at + 2
        end = start + self.short()
        if end > self.end:
            raise truncated()
        self.at = end
        return self.data[start:end]

    def text(self) -> str:
        return text(self.binary())

    def value(self, form: int) -> int | bytes | str | tuple[str, str]:
        """The value of a property that is written in this form."""
        if form == BYTE:
            return self.byte()
        if form == SHORT:
            return self.short()
        if form == LONG:
            return self.long()
        if form == VARIABLE:
            return self.variable()
        if form == BINARY:
            return self.binary()
        if form == TEXT:
            return self.text()
        return self.text(), self.text()

    def packet_id(self) -> int:
        packet_id = self.short()
        if packet_id == 0:  # [MQTT-2.2.1-3], [MQTT-2.2.1-4]
            raise Malformed(Reason.PROTOCOL_ERROR, "Packet identifier 0 is not allowed.")
        return packet_id

    def properties(self, place: int) -> Properties:
        """The properties at this point, with their length before them."""
        length = self.variable()
        if length == 0:
            return NO_PROPERTIES
        start = self.at
        end = start + length
        if end > self.end:
            raise truncated()
        self.at = end
        if length > KEPT_BYTES_MAX:
            return _read(Reader(self.data, start, end), place)
        key = (place, self.data[start:end])
        properties = _kept.get(key)
        if properties is None:
            properties = _read(Reader(self.data, start, end), place)
            if len(_kept) >= KEPT_MAX:
                _kept.clear()
            _kept[key] = properties
        return properties

    def finish(self) -> None:
        if self.at != self.end:
            raise Malformed(
                Reason.MALFORMED_PACKET, f"The packet has {self.end - self.at} bytes more than its fields."
            )


def text(raw: bytes) -> str:
    """A UTF-8 string: well-formed, without surrogates and without NUL [MQTT-1.5.4-1], [MQTT-1.5.4-2]."""
    try:
        decoded = raw.decode()
    except UnicodeDecodeError:
        raise Malformed(Reason.MALFORMED_PACKET, "A string is not well-formed UTF-8.") from None
    if "\0" in decoded:
        raise Malformed(Reason.MALFORMED_PACKET, "A string contains the character U+0000.")
    return decoded


def odd(decoded: str) -> bool:
    """Whether there are control characters or non-characters, which a receiver may refuse (section 1.5.4).

    They are refused in names, which are written to logs and shown to people, and nowhere else.
    """
    return _ODD.search(decoded) is not None


_ODD: Final = re.compile(
    "[\x01-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
    + "]"
)


def check_count(listed: Sequence[object], what: str) -> None:
    """Refuse a packet that lists so much that others would wait while it is read."""
    if len(listed) > LISTED_MAX:
        raise Malformed(Reason.QUOTA_EXCEEDED, f"A packet has {LISTED_MAX} {what} at most; send several.")


def truncated() -> Malformed:
    return Malformed(Reason.MALFORMED_PACKET, "The packet ends in the middle of a field.")


def _read(reader: Reader, place: int) -> Properties:
    found: dict[str, Any] = {}
    identifiers: list[int] = []
    user: list[tuple[str, str]] = []
    # What cannot be read is told first, wherever it is among the properties.
    fault: Malformed | None = None
    while reader.at < reader.end:
        identifier = reader.variable()
        row = BY_IDENTIFIER.get(identifier)
        if row is None:
            raise Malformed(Reason.MALFORMED_PACKET, f"There is no property 0x{identifier:02X}.")
        form = row.form
        value: Any = reader.value(form)
        if place not in row.places:
            # Section 2.2.2.2 calls it malformed. The brokers that people know say so in these two packets,
            # and call it a protocol error in all others; so do we.
            fault = fault or Malformed(
                Reason.MALFORMED_PACKET if place in (SUBSCRIBE, UNSUBSCRIBE) else Reason.PROTOCOL_ERROR,
                f"Property 0x{identifier:02X} does not belong in {NAMES[place]}.",
            )
        elif form <= VARIABLE and not row.low <= value <= row.high:
            fault = fault or Malformed(row.fault, f"Property 0x{identifier:02X} must not be {value}.")
        elif form == PAIR:
            user.append(value)
            check_count(user, "user properties")
        elif form == VARIABLE and place == PUBLISH:
            identifiers.append(value)
        elif row.field in found:
            fault = fault or Malformed(
                Reason.PROTOCOL_ERROR, f"Property 0x{identifier:02X} is in {NAMES[place]} more than once."
            )
        else:
            found[row.field] = (value,) if form == VARIABLE else value
    if fault is not None:
        raise fault
    if "authentication_data" in found and "authentication_method" not in found:
        raise Malformed(Reason.PROTOCOL_ERROR, "There is authentication data, but no authentication method.")
    if identifiers:
        found["subscription_identifiers"] = tuple(identifiers)
    if user:
        found["user"] = tuple(user)
    return Properties(**found)


WRITTEN: Final = tuple(
    tuple((SINGLE[row.identifier], row.field, row.form) for row in PROPERTIES if place in row.places)
    for place in range(16)
)


def written(properties: Properties, place: int) -> bytes:
    """Properties with their length before them; those that do not belong in `place` are left out."""
    if properties is NO_PROPERTIES:
        return b"\0"
    chunks: list[bytes] = []
    for head, field, form in WRITTEN[place]:
        value: Any = getattr(properties, field)
        if value is None:
            continue
        if form == PAIR:
            for name, worth in value:
                chunks.extend((head, string(name), string(worth)))
        elif form == VARIABLE:
            for number in value:
                chunks.extend((head, variable(number)))
        elif form == TEXT:
            chunks.extend((head, string(value)))
        elif form == BINARY:
            chunks.extend((head, prefixed(value)))
        else:
            chunks.extend((head, value.to_bytes(form, "big")))
    body = b"".join(chunks)
    return variable(len(body)) + body


def string(value: str) -> bytes:
    """A string with its length before it."""
    return prefixed(value.encode())


def prefixed(raw: bytes) -> bytes:
    """Binary data with its length before it."""
    size = len(raw)
    if size > STRING_BYTES_MAX:
        raise ValueError(f"a field of {size} bytes; in MQTT they have up to {STRING_BYTES_MAX}")
    return size.to_bytes(2, "big") + raw
