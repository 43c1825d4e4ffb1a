"""Bytes to packets and back, for MQTT 5.0 and 3.1.1 and for both sides of a connection.

Every rule about a single packet is kept here, and each breach is a `Malformed` with the reason code that the
standard gives it. What a packet means after others (a second acknowledgement, an alias that was never set, a
filter that makes no sense) is not known here; `front` knows.

Reading costs no more than the bytes that have come: a packet that is too large is refused when its length is
known, and one that is not complete is not looked at again until it is.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tidings.mqtt.packets import (
    NO_PROPERTIES,
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
from tidings.mqtt.properties import (
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    NAMES,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SINGLE,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    VARIABLE_MAX,
    WILL,
    Malformed,
    Reader,
    check_count,
    odd,
    prefixed,
    string,
    text,
    variable,
    written,
)
from tidings.mqtt.reasons import CONNECT_RETURN_CODES, FAILURE, Reason

__all__ = [
    "Decoder",
    "Malformed",
    "PublishHead",
    "Publishes",
    "acknowledgements",
    "encode",
    "publish_head",
    "variable",
]

V31: Final = Version.V31
V311: Final = Version.V311
V5: Final = Version.V5

PROTOCOLS: Final = {(b"MQIsdp", 3): V31, (b"MQTT", 4): V311, (b"MQTT", 5): V5}
"""By protocol name and level."""

BRIDGE: Final = 0x80
"""Beside the level: the client is a bridge."""

FROM_CLIENT: Final = frozenset(
    (
        CONNECT,
        PUBLISH,
        PUBACK,
        PUBREC,
        PUBREL,
        PUBCOMP,
        SUBSCRIBE,
        UNSUBSCRIBE,
        PINGREQ,
        DISCONNECT,
        AUTH,
    )
)
FROM_SERVER: Final = frozenset(
    (CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, PINGRESP, DISCONNECT, AUTH)
)
"""Who sends which (section 2.1.2). A DISCONNECT of 3.1.1 is never a server's, an AUTH never of 3.1.1."""

FLAGGED: Final = frozenset((PUBREL, SUBSCRIBE, UNSUBSCRIBE))
"""Types whose fixed flags are 0010; those of all others but PUBLISH are 0000 [MQTT-2.1.3-1]."""

PUBLISH_REASONS: Final = frozenset((0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99))
RELEASE_REASONS: Final = frozenset((0x00, 0x92))
REASONS: Final[dict[int, frozenset[int]]] = {
    PUBACK: PUBLISH_REASONS,
    PUBREC: PUBLISH_REASONS,
    PUBREL: RELEASE_REASONS,
    PUBCOMP: RELEASE_REASONS,
    SUBACK: frozenset((0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2)),
    UNSUBACK: frozenset((0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91)),
    CONNACK: frozenset((0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, *range(0x9A, 0xA0))),
}
"""Reason codes that a packet may have (section 2.4)."""

LEAVE_REASONS: Final = frozenset((0x00, 0x04, *range(0x80, 0x84), 0x90, *range(0x93, 0x9A)))
"""Of a DISCONNECT from a client (section 3.14.2.1)."""
EXPEL_REASONS: Final = frozenset(
    (0x00, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3))
)
"""And from a server."""

RETURN_CODES: Final = (
    Reason.SUCCESS,
    Reason.UNSUPPORTED_PROTOCOL_VERSION,
    Reason.CLIENT_IDENTIFIER_NOT_VALID,
    Reason.SERVER_UNAVAILABLE,
    Reason.BAD_USER_NAME_OR_PASSWORD,
    Reason.NOT_AUTHORIZED,
)
"""What the return codes of a 3.1.1 CONNACK mean."""

ALONE: Final = b"$tidings/"
"""A packet to a topic that begins so is read by itself: what is asked for there may be expensive."""

PUBLISHES_MAX: Final = 16_384
"""Packets that are read together."""

TOPIC_BYTES_MAX: Final = 256
TOPICS_MAX: Final = 4096
_topics: Final[dict[bytes, str]] = {}
"""Topics that were checked before, so that each is decoded once and is one string in all sessions.

Bounded in number and length: some 4 MiB at worst."""


class Decoder:
    """Makes packets of bytes, wherever they are cut. After `Malformed` it is of no more use.

    >>> decoder = Decoder(packet_bytes_max=1024, version=Version.V311)
    >>> decoder.feed(bytes.fromhex("30 05 00 03 61 2f"))
    >>> decoder.next()
    >>> decoder.feed(b"b")
    >>> decoder.next().topic
    'a/b'
    """

    def __init__(
        self, *, packet_bytes_max: int, version: Version | None = None, client: bool = False
    ) -> None:
        assert version is not None or not client, "a client knows the version, it has chosen it"
        self.packet_bytes_max = packet_bytes_max
        """The largest packet that is read, its fixed header included."""
        self.version = version
        """What is spoken. None until CONNECT has said it; set before anything else in CONNECT is judged."""
        self.client = client
        """Whether this is a client's decoder, and reads what servers send."""
        self.data = b""
        """What was fed and may hold whole packets; read up to `at`."""
        self.at = 0
        self._late = bytearray()
        """What was fed since, while `data` is the beginning of a packet that is not complete."""
        self._wanted = 0
        """The size of that packet; 0 if it is not known."""

    def feed(self, data: bytes) -> None:
        """Take bytes as they have come."""
        at = self.at
        left = len(self.data) - at
        if left == 0:
            self.data = data
            self.at = 0
            return
        if self._late or left + len(data) < self._wanted:
            # Joined when all of it is here: a large packet in small pieces would else be copied each time.
            if at:
                self.data = self.data[at:]
                self.at = 0
            self._late += data
            if left + len(self._late) < self._wanted:
                return
            self.data += self._late
            self._late = bytearray()
        else:
            self.data = self.data[at:] + data if at else self.data + data
            self.at = 0
        self._wanted = 0

    def held(self) -> int:
        """How many bytes wait to become packets."""
        return len(self.data) - self.at + len(self._late)

    def next(self) -> AnyPacket | None:
        """The next whole packet; None if there is none yet."""
        data = self.data
        at = self.at
        size = len(data)
        if size - at < 2:
            if at == size:
                self.data = b""
                self.at = 0
            else:
                self._check_head(data[at])
            return None
        first = data[at]
        length = data[at + 1]
        start = at + 2
        if length > 0x7F:
            shift = 7
            length &= 0x7F
            while True:
                if start == size:
                    self._check_head(first)
                    return None
                byte = data[start]
                start += 1
                length |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift == 28:
                    self._check_head(first)
                    # Where this packet ends, and others begin, is not known any more.
                    raise Malformed(
                        Reason.MALFORMED_PACKET, "The remaining length has more than four bytes.", silent=True
                    )
        end = start + length
        if end - at > self.packet_bytes_max:
            raise Malformed(
                Reason.PACKET_TOO_LARGE,
                f"A packet of {end - at} bytes is larger than the {self.packet_bytes_max} that are taken.",
            )
        if end > size:
            self._check_head(first)
            self._wanted = end - at
            return None
        if first & 0xF0 != 0x30:
            self._check_head(first)
            packet = self._read(first >> 4, Reader(data, start, end))
            self.at = end
            return packet

        if self.version is None:
            self._check_head(first)
        read = self.publishes(1)
        assert read is not None, "a whole PUBLISH is read or refused"
        head = publish_head(read.heads[0], self.version)
        self._check_publish(head)
        packet_id = read.packet_ids[0] if head.qos else 0
        payload = data[read.bodies[0] : read.ends[0]]
        return Publish(head.topic, payload, head.qos, head.retain, head.dup, packet_id, head.properties)

    def publishes(self, most: int = PUBLISHES_MAX) -> Publishes | None:
        """All PUBLISH packets that come next and are whole; None if there is none.

        This is the only place at which they are taken apart. What is wrong with the first one is raised; what
        is wrong behind it, the next time.
        """
        data, at, version = self.data, self.at, self.version
        v5 = version is V5
        size, largest = len(data), self.packet_bytes_max
        heads: dict[bytes, int] = {}
        begins: list[int] = []
        bodies: list[int] = []
        ends: list[int] = []
        which: list[int] = []
        packet_ids: list[int] = []
        while size - at >= 4 and data[at] & 0xF0 == 0x30 and len(begins) < most:
            first = data[at]
            length = data[at + 1]
            topic_at = at + 2
            if length > 0x7F:
                length &= 0x7F
                shift = 7
                while topic_at < size and shift < 28:
                    byte = data[topic_at]
                    topic_at += 1
                    length |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
                else:
                    break
            end = topic_at + length
            if end > size or end - at > largest or first & 6 == 6 or first & 14 == 8 or length < 2:
                break
            body = topic_end = topic_at + 2 + (data[topic_at] << 8 | data[topic_at + 1])
            if data.startswith(ALONE, topic_at + 2):
                if begins:
                    break
                most = 1
            packet_id = 0
            qos = first & 6
            if qos:
                body += 2
                if body > end:
                    break
                packet_id = data[topic_end] << 8 | data[topic_end + 1]
                if not packet_id:
                    break
            if not v5:
                if body > end:
                    break
                key = data[at : at + 1] + data[topic_at:topic_end]
            elif body < end and not data[body]:
                body += 1
                key = data[at : at + 1] + data[topic_at:topic_end]
            else:
                reader = Reader(data, body, end)
                try:
                    begin = reader.variable() + reader.at
                except Malformed:
                    break
                if begin > end:
                    break
                key = data[at : at + 1] + data[topic_at:topic_end] + data[body:begin]
                body = begin
            place = heads.setdefault(key, len(heads))
            begins.append(at)
            bodies.append(body)
            ends.append(end)
            which.append(place)
            if qos:
                packet_ids.append(packet_id)
                at = end
                continue
            if data.startswith(data[at:body], end) and len(begins) < most:
                # A busy publisher sends packets that begin with the same bytes. They end where this one does.
                stride, opening = end - at, data[at:body]
                last = min(size - stride, at + (most - len(begins)) * stride)
                at = end
                while at <= last and data.startswith(opening, at):
                    at += stride
                count = (at - end) // stride
                begins += range(end, at, stride)
                bodies += range(body + stride, body + count * stride + 1, stride)
                ends += range(end + stride, at + 1, stride)
                which += (place,) * count
                continue
            at = end
        if not begins:
            if size - at >= 2 and data[at] & 0xF0 == 0x30:
                self._object(at)
            return None
        self.data, self.at = (data, at) if at < size else (b"", 0)
        return Publishes(data, begins, bodies, ends, list(heads), which, packet_ids)

    def _object(self, at: int) -> None:
        """Raise what is wrong with a PUBLISH that is whole, or too large."""
        data = self.data
        length, end, shift = 0, at + 1, 0
        while end < len(data) and shift < 28:
            length |= (data[end] & 0x7F) << shift
            end += 1
            if data[end - 1] < 0x80:
                break
            shift += 7
        else:
            return
        start, end = end, end + length
        if end > len(data) or end - at > self.packet_bytes_max:
            return
        self._check_head(data[at])
        reader = Reader(data, start, end)
        reader.binary()
        if data[at] & 6 and not reader.short():  # [MQTT-2.2.1-3]
            raise Malformed(Reason.PROTOCOL_ERROR, "Packet identifier 0 is not allowed.")
        if self.version is V5:
            reader.properties(PUBLISH)

    def _check_head(self, first: int) -> None:
        """Whether a packet may begin with this byte, which is found out before the rest of it has come."""
        kind = first >> 4
        flags = first & 0x0F
        if kind == 0 or (kind == AUTH and self.version in (V31, V311)):
            raise Malformed(Reason.PROTOCOL_ERROR, f"Packets of type {kind} are reserved.")
        if kind == PUBLISH:
            if flags & 6 == 6:  # [MQTT-3.3.1-4]
                raise Malformed(Reason.MALFORMED_PACKET, "A PUBLISH has QoS 3.")
            if flags & 14 == 8:  # [MQTT-3.3.1-2]
                raise Malformed(Reason.MALFORMED_PACKET, "A PUBLISH of QoS 0 has the DUP flag.")
        elif flags != (2 if kind in FLAGGED else 0) and not self._is_repeated(kind, flags):  # [MQTT-2.1.3-1]
            raise Malformed(Reason.MALFORMED_PACKET, f"The flags of {NAMES[kind]} are not as reserved.")
        if kind not in (FROM_SERVER if self.client else FROM_CLIENT):
            raise Malformed(Reason.PROTOCOL_ERROR, f"{NAMES[kind]} is not for this side to send.")
        if (kind == CONNECT) != (self.version is None) and not self.client:
            raise Malformed(  # [MQTT-3.1.0-1], [MQTT-3.1.0-2]
                Reason.PROTOCOL_ERROR,
                "CONNECT was sent a second time." if kind == CONNECT else "The first packet is not CONNECT.",
            )
        if kind == DISCONNECT and self.client and self.version in (V31, V311):
            raise Malformed(Reason.PROTOCOL_ERROR, "A server does not send DISCONNECT in MQTT 3.1.1.")

    def _is_repeated(self, kind: int, flags: int) -> bool:
        """True if the flags are QoS 1 and DUP: MQTT 3.1 repeats these packets as it repeats a PUBLISH."""
        return self.version is V31 and kind in FLAGGED and flags == 10

    def _check_publish(self, head: PublishHead) -> None:
        if head.properties.subscription_identifiers and not self.client:  # [MQTT-3.3.4-6]
            raise Malformed(Reason.PROTOCOL_ERROR, "A client's PUBLISH has a subscription identifier.")

    def _read(self, kind: int, reader: Reader) -> AnyPacket:
        v5 = self.version is V5
        if kind <= PUBCOMP:
            if kind == CONNECT:
                return self._connect(reader)
            if kind == CONNACK:
                return _connack(reader, v5)
            return _acknowledgement(kind, reader, v5)
        if kind == SUBSCRIBE:
            return _subscribe(reader, v5)
        if kind == UNSUBSCRIBE:
            return _unsubscribe(reader, v5)
        if kind in (SUBACK, UNSUBACK):
            return _granted(kind, reader, v5)
        if kind == DISCONNECT:
            return self._disconnect(reader, v5)
        if kind == AUTH:
            return self._auth(reader)
        if reader.at < reader.end:
            raise Malformed(Reason.MALFORMED_PACKET, f"{NAMES[kind]} has a body.", silent=True)
        return Pingreq() if kind == PINGREQ else Pingresp()

    def _connect(self, reader: Reader) -> Connect:
        name = reader.binary()
        level = reader.byte()
        if name not in (b"MQTT", b"MQIsdp"):  # [MQTT-3.1.2-1]
            raise Malformed(Reason.UNSUPPORTED_PROTOCOL_VERSION, "The protocol name is not MQTT.")
        number = level & ~BRIDGE
        version = PROTOCOLS.get((name, number))
        # A client of an unknown version is answered in the nearest version that we speak.
        self.version = version or (V311 if number <= V311 else V5)
        if version is None:  # [MQTT-3.1.2-2]
            raise Malformed(
                Reason.UNSUPPORTED_PROTOCOL_VERSION,
                f"Protocol {name.decode()} has no level {level}; it is 4 or 5 (or 3 of MQIsdp).",
            )
        v5 = version is V5
        flags = reader.byte()
        if flags & 1:  # [MQTT-3.1.2-3]
            raise Malformed(Reason.MALFORMED_PACKET, "The reserved flag of CONNECT is set.")
        keep_alive_s = reader.short()
        properties = reader.properties(CONNECT) if v5 else NO_PROPERTIES
        client_id = reader.text()
        if odd(client_id):
            raise Malformed(
                Reason.CLIENT_IDENTIFIER_NOT_VALID, "The client identifier has a control character."
            )
        will_qos = (flags >> 3) & 3
        will = None
        if flags & 0x04:
            if will_qos == 3:  # [MQTT-3.1.2-12]
                raise Malformed(Reason.MALFORMED_PACKET, "The will has QoS 3.")
            will_properties = reader.properties(WILL) if v5 else NO_PROPERTIES
            _check_response_topic(will_properties)
            topic = reader.text()
            _check_topic(topic)
            will = Will(topic, reader.binary(), will_qos, flags & 0x20 != 0, will_properties)
        elif flags & 0x38:  # [MQTT-3.1.2-11], [MQTT-3.1.2-13]
            raise Malformed(Reason.MALFORMED_PACKET, "There are flags of a will, but no will.")
        username = reader.text() if flags & 0x80 else None
        if username is not None and odd(username):
            raise Malformed(Reason.MALFORMED_PACKET, "The user name has a control character.")
        if flags & 0x40 and username is None and not v5:  # [MQTT-3.1.2-22] of 3.1.1
            raise Malformed(Reason.MALFORMED_PACKET, "There is a password, but no user name.")
        password = reader.binary() if flags & 0x40 else None
        reader.finish()
        return Connect(
            version,
            client_id,
            flags & 2 != 0,
            keep_alive_s,
            username,
            password,
            will,
            properties,
            level & BRIDGE != 0,
        )

    def _disconnect(self, reader: Reader, v5: bool) -> Disconnect:
        reason = 0
        properties = NO_PROPERTIES
        if v5 and reader.at < reader.end:
            reason = reader.byte()
            if reason not in (EXPEL_REASONS if self.client else LEAVE_REASONS):  # [MQTT-3.14.2-1]
                raise _bad_reason(DISCONNECT, reason, silent=True)
            if reader.at < reader.end:
                properties = reader.properties(DISCONNECT)
                if self.client and properties.session_expiry_s is not None:  # [MQTT-3.14.2-2]
                    raise Malformed(Reason.PROTOCOL_ERROR, "A server's DISCONNECT has a session expiry.")
        reader.finish()
        return Disconnect(reason, properties)

    def _auth(self, reader: Reader) -> Auth:
        if reader.at == reader.end:
            return Auth()
        reason = reader.byte()
        if reason not in ((0x00, 0x18) if self.client else (0x18, 0x19)):  # [MQTT-3.15.2-1]
            raise _bad_reason(AUTH, reason)
        properties = reader.properties(AUTH)
        if properties.authentication_method is None:
            raise Malformed(Reason.PROTOCOL_ERROR, "AUTH has no authentication method.")
        reader.finish()
        return Auth(reason, properties)


class PublishHead(msgspec.Struct, frozen=True, gc=False):
    """What a PUBLISH says before its payload, but for its packet identifier."""

    topic: str
    qos: int
    retain: bool
    dup: bool
    properties: Properties


class Publishes:
    """PUBLISH packets one behind the other, in the buffer in which they came."""

    __slots__ = ("begins", "bodies", "data", "ends", "heads", "packet_ids", "which")

    def __init__(
        self,
        data: bytes,
        begins: list[int],
        bodies: list[int],
        ends: list[int],
        heads: list[bytes],
        which: list[int],
        packet_ids: list[int],
    ) -> None:
        self.data = data
        self.begins = begins
        self.bodies = bodies
        self.ends = ends
        """Where packets begin, their payloads begin, and both end."""
        self.heads = heads
        """Different heads, as bytes: `publish_head` says what they mean."""
        self.which = which
        """The place of each one's head."""
        self.packet_ids = packet_ids
        """Of those of QoS 1 and 2."""

    def __len__(self) -> int:
        return len(self.begins)


def acknowledgements(data: bytes, at: int) -> tuple[list[int], int]:
    """PUBACK packets in a row that say nothing but their packet id: the ids, and where they end."""
    packet_ids: list[int] = []
    last = len(data) - 4
    while at <= last and data.startswith(b"\x40\x02", at):
        packet_id = data[at + 2] << 8 | data[at + 3]
        if not packet_id:
            break
        packet_ids.append(packet_id)
        at += 4
    return packet_ids, at


def publish_head(key: bytes, version: Version | None) -> PublishHead:
    """What the head of a PUBLISH says."""
    first = key[0]
    topic_end = 3 + (key[1] << 8 | key[2])
    topic = topic_of(key[3:topic_end])
    properties = NO_PROPERTIES
    if version is V5 and topic_end < len(key):
        properties = Reader(key, topic_end, len(key)).properties(PUBLISH)
        _check_response_topic(properties)
    if not topic and properties.topic_alias is None:
        raise Malformed(Reason.PROTOCOL_ERROR, "The topic is empty, and there is no topic alias.")
    return PublishHead(topic, first >> 1 & 3, first & 1 == 1, first & 8 == 8, properties)


def topic_of(raw: bytes) -> str:
    """The topic of a PUBLISH, checked; empty where an alias stands for it."""
    topic = _topics.get(raw)
    if topic is None:
        topic = text(raw)
        if topic:
            _check_topic(topic)
            if len(raw) <= TOPIC_BYTES_MAX:
                if len(_topics) >= TOPICS_MAX:
                    _topics.clear()
                _topics[raw] = topic
    return topic


def _check_topic(topic: str) -> None:
    if not topic:  # [MQTT-4.7.3-1]
        raise Malformed(Reason.TOPIC_NAME_INVALID, "A topic is empty.")
    if odd(topic):
        raise Malformed(Reason.MALFORMED_PACKET, "A topic has a control character.")
    if "+" in topic or "#" in topic:  # [MQTT-3.3.2-2]
        raise Malformed(Reason.TOPIC_NAME_INVALID, "A topic to publish to has a wildcard.")


def _check_response_topic(properties: Properties) -> None:
    topic = properties.response_topic
    if topic is not None and (not topic or "+" in topic or "#" in topic):  # [MQTT-3.3.2-14]
        raise Malformed(Reason.PROTOCOL_ERROR, "A response topic is empty or has a wildcard.")


def _bad_reason(kind: int, reason: int, *, silent: bool = False) -> Malformed:
    text = f"Reason code 0x{reason:02X} does not belong in {NAMES[kind]}."
    return Malformed(Reason.PROTOCOL_ERROR, text, silent=silent)


def _connack(reader: Reader, v5: bool) -> Connack:
    flags = reader.byte()
    if flags > 1:  # [MQTT-3.2.2-1]
        raise Malformed(Reason.MALFORMED_PACKET, "The reserved flags of CONNACK are set.")
    code = reader.byte()
    properties = NO_PROPERTIES
    if v5:
        if code not in REASONS[CONNACK]:
            raise _bad_reason(CONNACK, code)
        properties = reader.properties(CONNACK)
    elif code < len(RETURN_CODES):
        code = int(RETURN_CODES[code])
    else:
        raise Malformed(Reason.PROTOCOL_ERROR, f"Return code {code} of CONNACK is reserved.")
    reader.finish()
    if flags and code:  # [MQTT-3.2.2-6]
        raise Malformed(Reason.PROTOCOL_ERROR, "CONNACK refuses, and yet has a session.")
    return Connack(code, flags == 1, properties)


def _acknowledgement(kind: int, reader: Reader, v5: bool) -> Puback | Pubrec | Pubrel | Pubcomp:
    packet_id = reader.packet_id()
    reason = 0
    properties = NO_PROPERTIES
    if v5 and reader.at < reader.end:
        reason = reader.byte()
        if reason not in REASONS[kind]:
            raise _bad_reason(kind, reason)
        if reader.at < reader.end:
            properties = reader.properties(kind)
    reader.finish()
    if kind == PUBACK:
        return Puback(packet_id, reason, properties)
    if kind == PUBREC:
        return Pubrec(packet_id, reason, properties)
    if kind == PUBREL:
        return Pubrel(packet_id, reason, properties)
    return Pubcomp(packet_id, reason, properties)


def _subscribe(reader: Reader, v5: bool) -> Subscribe:
    packet_id = reader.packet_id()
    properties = reader.properties(SUBSCRIBE) if v5 else NO_PROPERTIES
    asked: list[Asked] = []
    while reader.at < reader.end:
        topic_filter = _filter(reader)
        options = reader.byte()
        if options & (0xC0 if v5 else 0xFC):  # [MQTT-3.8.3-5]
            raise Malformed(Reason.MALFORMED_PACKET, "Reserved subscription options are set.")
        if options & 3 == 3:
            raise Malformed(Reason.PROTOCOL_ERROR, "A subscription asks for QoS 3.")
        retain_handling = options >> 4
        if retain_handling == 3:
            raise Malformed(Reason.PROTOCOL_ERROR, "A subscription has retain handling 3.")
        no_local = options & 4 != 0
        if no_local and topic_filter.startswith("$share/"):  # [MQTT-3.8.3-4]
            raise Malformed(Reason.PROTOCOL_ERROR, "A shared subscription has the option no-local.")
        asked.append(Asked(topic_filter, options & 3, no_local, options & 8 != 0, retain_handling))
        check_count(asked, "topic filters")
    if not asked:  # [MQTT-3.8.3-2]
        raise Malformed(Reason.PROTOCOL_ERROR, "SUBSCRIBE has no topic filter.")
    return Subscribe(packet_id, tuple(asked), properties)


def _unsubscribe(reader: Reader, v5: bool) -> Unsubscribe:
    packet_id = reader.packet_id()
    properties = reader.properties(UNSUBSCRIBE) if v5 else NO_PROPERTIES
    topic_filters: list[str] = []
    while reader.at < reader.end:
        topic_filters.append(_filter(reader))
        check_count(topic_filters, "topic filters")
    if not topic_filters:  # [MQTT-3.10.3-2]
        raise Malformed(Reason.PROTOCOL_ERROR, "UNSUBSCRIBE has no topic filter.")
    return Unsubscribe(packet_id, tuple(topic_filters), properties)


def _filter(reader: Reader) -> str:
    topic_filter = reader.text()
    if not topic_filter:  # [MQTT-4.7.3-1]
        raise Malformed(Reason.MALFORMED_PACKET, "A topic filter is empty.")
    if odd(topic_filter):
        raise Malformed(Reason.MALFORMED_PACKET, "A topic filter has a control character.")
    return topic_filter


def _granted(kind: int, reader: Reader, v5: bool) -> Suback | Unsuback:
    packet_id = reader.packet_id()
    if kind == UNSUBACK and not v5:
        reader.finish()
        return Unsuback(packet_id)
    properties = reader.properties(kind) if v5 else NO_PROPERTIES
    reasons = tuple(reader.data[reader.at : reader.end])
    if not reasons:
        raise Malformed(Reason.PROTOCOL_ERROR, f"{NAMES[kind]} has no reason code.")
    allowed = REASONS[kind] if v5 else frozenset((0x00, 0x01, 0x02, FAILURE))
    for reason in reasons:
        if reason not in allowed:
            raise _bad_reason(kind, reason)
    if kind == SUBACK:
        return Suback(packet_id, reasons, properties)
    return Unsuback(packet_id, reasons, properties)


def encode(packet: AnyPacket, version: Version) -> bytes:
    """A packet as bytes, in as few as the version allows. What 3.1.1 does not have is left out.

    >>> encode(Publish("a/b", b"hello"), Version.V311).hex(" ")
    '30 0a 00 03 61 2f 62 68 65 6c 6c 6f'
    """
    v5 = version is V5
    if isinstance(packet, Publish):
        return _publish_bytes(packet, v5)
    if isinstance(packet, Puback):
        return _acknowledgement_bytes(0x40, packet, v5)
    if isinstance(packet, Pubrec):
        return _acknowledgement_bytes(0x50, packet, v5)
    if isinstance(packet, Pubrel):
        return _acknowledgement_bytes(0x62, packet, v5)
    if isinstance(packet, Pubcomp):
        return _acknowledgement_bytes(0x70, packet, v5)
    if isinstance(packet, Pingreq):
        return b"\xc0\x00"
    if isinstance(packet, Pingresp):
        return b"\xd0\x00"
    if isinstance(packet, Subscribe):
        return _subscribe_bytes(packet, v5)
    if isinstance(packet, Suback):
        reasons = packet.reasons if v5 else tuple(min(reason, FAILURE) for reason in packet.reasons)
        return _packet(0x90, _opening(packet.packet_id, packet.properties, SUBACK, v5) + bytes(reasons))
    if isinstance(packet, Unsubscribe):
        opening = _opening(packet.packet_id, packet.properties, UNSUBSCRIBE, v5)
        return _packet(0xA2, opening + b"".join([string(each) for each in packet.topic_filters]))
    if isinstance(packet, Unsuback):
        opening = _opening(packet.packet_id, packet.properties, UNSUBACK, v5)
        return _packet(0xB0, opening + bytes(packet.reasons) if v5 else opening)
    if isinstance(packet, Connect):
        return _connect_bytes(packet)
    if isinstance(packet, Connack):
        session = SINGLE[packet.session_present]
        if v5:
            return _packet(0x20, session + SINGLE[packet.reason] + written(packet.properties, CONNACK))
        return _packet(0x20, session + SINGLE[CONNECT_RETURN_CODES.get(Reason(packet.reason), 3)])
    if isinstance(packet, Disconnect):
        return _packet(0xE0, _closing(packet.reason, packet.properties, DISCONNECT) if v5 else b"")
    if not v5:
        raise ValueError("MQTT 3.1.1 has no AUTH packet")
    return _packet(0xF0, _closing(packet.reason, packet.properties, AUTH))


def _packet(first: int, body: bytes) -> bytes:
    return SINGLE[first] + variable(len(body)) + body


def _publish_bytes(packet: Publish, v5: bool) -> bytes:
    topic = packet.topic.encode()
    payload = packet.payload
    qos = packet.qos
    middle = packet.packet_id.to_bytes(2, "big") if qos else b""
    if v5:
        properties = packet.properties
        middle += b"\0" if properties is NO_PROPERTIES else written(properties, PUBLISH)
    size = len(topic)
    length = 2 + size + len(middle) + len(payload)
    if size > 0xFFFF or length > VARIABLE_MAX:
        raise ValueError(f"topic ({size} bytes) and payload ({len(payload)}) do not fit in one MQTT packet")
    first = 0x30 | packet.dup << 3 | qos << 1 | packet.retain
    return b"".join((SINGLE[first], variable(length), size.to_bytes(2, "big"), topic, middle, payload))


def _acknowledgement_bytes(first: int, packet: Puback | Pubrec | Pubrel | Pubcomp, v5: bool) -> bytes:
    opening = packet.packet_id.to_bytes(2, "big")
    if not v5 or (packet.reason == 0 and packet.properties == NO_PROPERTIES):
        return SINGLE[first] + b"\x02" + opening
    return _packet(first, opening + _closing(packet.reason, packet.properties, first >> 4))


def _closing(reason: int, properties: Properties, place: int) -> bytes:
    """Reason code and properties at the end of a packet, left out as far as may be."""
    if properties != NO_PROPERTIES:
        return SINGLE[reason] + written(properties, place)
    # AUTH may leave out both or none of them (section 3.15.2.1).
    if reason:
        return SINGLE[reason] + b"\0" if place == AUTH else SINGLE[reason]
    return b""


def _opening(packet_id: int, properties: Properties, place: int, v5: bool) -> bytes:
    opening = packet_id.to_bytes(2, "big")
    return opening + written(properties, place) if v5 else opening


def _subscribe_bytes(packet: Subscribe, v5: bool) -> bytes:
    chunks = [_opening(packet.packet_id, packet.properties, SUBSCRIBE, v5)]
    for each in packet.asked:
        options = each.qos
        if v5:
            options |= each.no_local << 2 | each.retain_as_published << 3 | each.retain_handling << 4
        chunks.extend((string(each.topic_filter), SINGLE[options]))
    return _packet(0x82, b"".join(chunks))


def _connect_bytes(packet: Connect) -> bytes:
    v5 = packet.version is V5
    will = packet.will
    flags = packet.clean_start << 1
    if will is not None:
        flags |= 0x04 | will.qos << 3 | will.retain << 5
    if packet.password is not None:
        flags |= 0x40
    if packet.username is not None:
        flags |= 0x80
    chunks = [
        prefixed(b"MQIsdp" if packet.version is V31 else b"MQTT"),
        bytes((packet.version | packet.bridge * BRIDGE, flags)),
        packet.keep_alive_s.to_bytes(2, "big"),
        written(packet.properties, CONNECT) if v5 else b"",
        string(packet.client_id),
    ]
    if will is not None:
        if v5:
            chunks.append(written(will.properties, WILL))
        chunks.extend((string(will.topic), prefixed(will.payload)))
    if packet.username is not None:
        chunks.append(string(packet.username))
    if packet.password is not None:
        chunks.append(prefixed(packet.password))
    return _packet(0x10, b"".join(chunks))
