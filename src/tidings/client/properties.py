"""MQTT 5 properties between our own values and those of paho, which are untyped."""

from __future__ import annotations

from typing import Any

import msgspec
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties

from tidings.mqtt.packets import NO_PROPERTIES, Properties

# Ours: paho's.
NAMES = {
    "payload_format": "PayloadFormatIndicator",
    "message_expiry_s": "MessageExpiryInterval",
    "content_type": "ContentType",
    "response_topic": "ResponseTopic",
    "correlation_data": "CorrelationData",
    "subscription_identifiers": "SubscriptionIdentifier",
    "session_expiry_s": "SessionExpiryInterval",
    "assigned_client_id": "AssignedClientIdentifier",
    "server_keep_alive_s": "ServerKeepAlive",
    "authentication_method": "AuthenticationMethod",
    "authentication_data": "AuthenticationData",
    "request_problem_information": "RequestProblemInformation",
    "will_delay_s": "WillDelayInterval",
    "request_response_information": "RequestResponseInformation",
    "response_information": "ResponseInformation",
    "server_reference": "ServerReference",
    "reason_string": "ReasonString",
    "receive_maximum": "ReceiveMaximum",
    "topic_alias_maximum": "TopicAliasMaximum",
    "topic_alias": "TopicAlias",
    "maximum_qos": "MaximumQoS",
    "retain_available": "RetainAvailable",
    "user": "UserProperty",
    "maximum_packet_bytes": "MaximumPacketSize",
    "wildcard_subscription_available": "WildcardSubscriptionAvailable",
    "subscription_identifier_available": "SubscriptionIdentifierAvailable",
    "shared_subscription_available": "SharedSubscriptionAvailable",
}
_OURS = {paho: name for name, paho in NAMES.items()}

CONNECT: int = PacketTypes.CONNECT
PUBLISH: int = PacketTypes.PUBLISH
PUBREC: int = PacketTypes.PUBREC
SUBSCRIBE: int = PacketTypes.SUBSCRIBE
WILL: int = PacketTypes.WILLMESSAGE


def to_paho(properties: Properties, packet: int) -> PahoProperties | None:
    """For a packet that is sent; None where there are none."""
    given = {
        name: value
        for name in properties.__struct_fields__
        if (value := getattr(properties, name)) is not None and value != ()
    }
    if not given:
        return None
    made: Any = none(packet)
    for name, value in given.items():
        setattr(made, NAMES[name], list(value) if isinstance(value, tuple) else value)
    return made  # type: ignore[no-any-return]


def none(packet: int) -> PahoProperties:
    """No properties, for where paho wants an object."""
    return PahoProperties(packet)  # type: ignore[no-untyped-call]


def from_paho(properties: PahoProperties | None) -> Properties:
    """Of a packet that came."""
    if properties is None:
        return NO_PROPERTIES
    found = {_OURS[name]: value for name, value in vars(properties).items() if name in _OURS}
    if not found:
        return NO_PROPERTIES
    if "user" in found:
        found["user"] = tuple((str(name), str(value)) for name, value in found["user"])
    if "subscription_identifiers" in found:
        found["subscription_identifiers"] = tuple(found["subscription_identifiers"])
    return msgspec.structs.replace(NO_PROPERTIES, **found)
