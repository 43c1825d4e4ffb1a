"""The packets of MQTT 5.0, 3.1.1 and 3.1, as plain values.

One class for all versions: what 3.1.1 does not have stays at its default. How packets become bytes is the
business of `codec`; what they mean, of `front`.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

UserProperties = tuple[tuple[str, str], ...]


class Version(IntEnum):
    """The protocol level in CONNECT."""

    V31 = 3
    """Packets are those of 3.1.1; `codec` and `front` have the few differences."""

    V311 = 4
    V5 = 5


class Properties(
    msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, repr_omit_defaults=True
):
    """Section 2.2.2. None where a property is absent. Which may be in which packet, `codec` knows."""

    payload_format: int | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_s: int | None = None
    assigned_client_id: str | None = None
    server_keep_alive_s: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay_s: int | None = None
    request_response_information: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user: UserProperties = ()
    """In order; names may repeat."""

    maximum_packet_bytes: int | None = None
    wildcard_subscription_available: int | None = None
    subscription_identifier_available: int | None = None
    shared_subscription_available: int | None = None


NO_PROPERTIES = Properties()


class Packet(msgspec.Struct, frozen=True, gc=False):
    """The base of all packets."""


class Will(msgspec.Struct, frozen=True, gc=False):
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(Packet, frozen=True):
    version: Version
    client_id: str = ""
    clean_start: bool = True
    keep_alive_s: int = 0
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = NO_PROPERTIES
    bridge: bool = False
    """True if the highest bit of the protocol level is set: mosquitto marks its bridges so."""


class Connack(Packet, frozen=True):
    reason: int = 0
    """A `Reason`; the codec turns it into a return code for 3.1.1."""

    session_present: bool = False
    properties: Properties = NO_PROPERTIES


class Publish(Packet, frozen=True):
    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False

    packet_id: int = 0
    """0 for QoS 0, which has none."""

    properties: Properties = NO_PROPERTIES


class Puback(Packet, frozen=True):
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Pubrec(Packet, frozen=True):
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Pubrel(Packet, frozen=True):
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Pubcomp(Packet, frozen=True):
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Asked(msgspec.Struct, frozen=True, gc=False):
    """One topic filter of a SUBSCRIBE, with its options."""

    topic_filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False

    retain_handling: int = 0
    """0: retained messages when subscribing; 1: only if the subscription is new; 2: none."""


class Subscribe(Packet, frozen=True):
    packet_id: int
    asked: tuple[Asked, ...]
    properties: Properties = NO_PROPERTIES


class Suback(Packet, frozen=True):
    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(Packet, frozen=True):
    packet_id: int
    topic_filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class Unsuback(Packet, frozen=True):
    packet_id: int

    reasons: tuple[int, ...] = ()
    """Not there in 3.1.1."""

    properties: Properties = NO_PROPERTIES


class Pingreq(Packet, frozen=True):
    pass


class Pingresp(Packet, frozen=True):
    pass


class Disconnect(Packet, frozen=True):
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Auth(Packet, frozen=True):
    reason: int = 0
    properties: Properties = NO_PROPERTIES


AnyPacket = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
