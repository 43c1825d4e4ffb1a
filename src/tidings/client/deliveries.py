"""What goes out and what comes in: reports as payloads, and events as they reach a subscriber."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeAlias

import msgspec

from tidings.errors import PayloadError
from tidings.language import payloads
from tidings.language.payloads import Encoding
from tidings.mqtt.packets import NO_PROPERTIES, Properties

JSON = "application/json"

WITHDRAWN = "withdrawn"

Sent: TypeAlias = Mapping[str, object] | msgspec.Struct | bytes | bytearray | str | None
"""What can be published: fields, a struct of them, or a payload as it is."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True, dict=True, repr_omit_defaults=True):
    """One event, or one plain message, as it reached this subscriber."""

    topic: str
    """The topic that it was published to."""

    payload: bytes
    """As it came."""

    qos: int = 0

    retained: bool = False
    """Whether it was there before the subscription, as a retained message or as an open event."""

    dup: bool = False
    """Whether the broker says that it may have sent it before: MQTT's DUP. It sends with QoS 1 and 2 again
    what was not acknowledged when a connection ended, or what it does not know to be acknowledged after it
    was killed."""

    properties: Properties = NO_PROPERTIES
    """All MQTT 5 properties; `properties.user` has the user properties in their order."""

    @cached_property
    def fields(self) -> Mapping[str, object]:
        """What it says; nothing if it is withdrawn. PayloadError where the payload is no object of fields."""
        if not self.payload and self.state == WITHDRAWN:
            return {}
        return payloads.decode(self.payload, payloads.encoding_of(self.properties.content_type))

    @property
    def text(self) -> str:
        """The payload as text."""
        return self.payload.decode("utf-8", errors="replace")

    @property
    def id(self) -> str | None:
        """The event's id, the same in all its versions; None for a message of a plain topic."""
        return self.user("event")

    @property
    def version(self) -> int | None:
        """The version of the event, counted from 1."""
        return self._number("version")

    @property
    def reports(self) -> int | None:
        """How many reports it is made of."""
        return self._number("reports")

    @property
    def hops(self) -> int | None:
        """How many links between brokers it came over."""
        return self._number("hops")

    @property
    def seat(self) -> str | None:
        """The broker that gathered it."""
        return self.user("seat")

    @property
    def complete(self) -> bool | None:
        """Whether every declared field is filled."""
        said = self.user("complete")
        return None if said is None else said == "true"

    @property
    def state(self) -> str | None:
        """`told`, `snapshot` (open before the subscription), `withdrawn` (the filter asks for it no more),
        `ended`, or `merged-into` (it turned out to be one with another).
        """
        return self.user("state")

    @property
    def into(self) -> str | None:
        """The id of the event that it was merged into."""
        return self.user("into")

    def user(self, name: str) -> str | None:
        """The first user property of a name."""
        return next((value for key, value in self.properties.user if key == name), None)

    def _number(self, name: str) -> int | None:
        said = self.user(name)
        return int(said) if said is not None and said.isascii() and said.isdigit() else None


def payload_of(report: Sent, content_type: str | None) -> tuple[bytes, str | None]:
    """The bytes of what is published, and their content type.

    >>> payload_of({"severity": 4}, None)
    (b'{"severity":4}', 'application/json')
    """
    if report is None:
        return b"", content_type
    if isinstance(report, (bytes, bytearray)):
        return bytes(report), content_type
    if isinstance(report, str):
        return report.encode(), content_type
    if isinstance(report, msgspec.Struct):
        report = msgspec.to_builtins(report, builtin_types=_AS_THEY_ARE)
    if not isinstance(report, Mapping):
        raise PayloadError(
            f"a {type(report).__name__} cannot be published; give a dict of fields, a msgspec.Struct, text "
            "or bytes"
        )
    payloads.check(report)
    encoding = payloads.encoding_of(content_type)
    return payloads.encode(report, encoding), content_type or (JSON if encoding is Encoding.JSON else None)


_AS_THEY_ARE = (bytes,)
