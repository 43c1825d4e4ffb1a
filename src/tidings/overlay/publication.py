"""A publication: a message of a client on its way, or a version of an event."""

from __future__ import annotations

import msgspec

OVERHEAD_BYTES = 64
"""What a publication takes beyond what its client gave, and each user property beyond its text; roughly."""


class Told(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a publication is that a seat has told: a version of a gathered event."""

    topic: str
    """The name of the topic's declaration."""

    event: str
    """The event's identity: the id of the report that opened it."""

    version: int
    """Counted from 1 within the event."""

    reports: int
    """How many reports it is made of."""

    complete: bool
    """Whether every declared field is filled."""

    seat: str
    """The broker that told it."""

    state: str = "told"
    """"told", "snapshot", "withdrawn", "ended" or "merged-into"."""

    last: bool = False
    """Whether the event is closed with it: no other version follows."""

    into: str = ""
    """The event that it was merged into, for "merged-into"."""

    place: str = ""
    """The seat's, see `Carry`; empty for the name of the declaration."""

    until_us: int = 0
    """A time on the seat's clock: a report that says nothing beyond this version, and would come before that,
    is redundant. 0 if nothing is promised."""

    declared: int = 0
    """The version of the declaration under which that holds."""

    late: bool = False
    """Whether all had it who were within reach of its seat before: to others it is an open event."""


MERGED = "merged-into"
"""The state of a version that says that its event is part of another one."""

FINAL_STATES = ("ended", MERGED)
"""Nothing follows a version in one of these."""


def is_last(told: Told) -> bool:
    """Whether no other version of the event follows."""
    return told.last or told.state in FINAL_STATES


class Publication(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message of a client on its way, or a version of an event; the same on every hop."""

    origin: str
    """The broker where it entered."""

    incarnation: int
    """Which life of that broker: a new one begins where its disk was lost."""

    stream: str
    """The group of topics, all on one tree, within which it was numbered."""

    number: int
    """Counts up within origin, incarnation and stream."""

    topic: str
    payload: bytes

    qos: int = 0

    at_us: int = 0
    """When it entered, by the clock of its origin, microseconds since 1970."""

    publisher: str = ""
    """The session that published it."""

    content_type: str = ""
    """MQTT's content type; empty means JSON."""

    properties: tuple[tuple[str, str], ...] = ()
    """User properties, in order."""

    retain: bool = False

    payload_format: int = -1
    """MQTT's payload format indicator; -1 if it was not given."""

    expiry_s: int = -1
    """MQTT's message expiry interval, counted from `at_us`; -1 for never."""

    response_topic: str | None = None
    correlation: bytes | None = None

    told: Told | None = None
    """What it is, if a seat told it."""

    @property
    def size(self) -> int:
        """What it counts for against limits, windows and queues, in bytes."""
        size = OVERHEAD_BYTES + len(self.payload) + len(self.topic) + len(self.content_type)
        if self.properties:
            size += sum(len(name) + len(value) + OVERHEAD_BYTES for name, value in self.properties)
        if self.response_topic is not None or self.correlation is not None:
            size += len(self.response_topic or "") + len(self.correlation or b"")
        return size

    @property
    def id(self) -> str:
        """Its identity as text, as in records."""
        return f"{self.origin}:{self.incarnation}:{self.stream}:{self.number}"
