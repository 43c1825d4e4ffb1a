"""Interests: subscriptions as their home broker says them to others.

An interest has the topic filter, the content filter in its normal form, the quality of service and how often
versions are wanted. It is known by its bytes: they are all that is kept of it, and two are equal if their
bytes are.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidings.errors import FilterError, SubscriptionError
from tidings.language import durations, names, normal_form
from tidings.language.filters import Cost
from tidings.language.normal_form import Written
from tidings.language.regions import Box, Unknown
from tidings.language.subscriptions import EVERYTHING, QOS_MAX, Subscription

TOPIC_CHARACTERS_MAX = 65_535
"""Of a topic filter: what one MQTT string holds."""


class _Said(msgspec.Struct, frozen=True, array_like=True, gc=False):
    topic_filter: str
    qos: int
    every_us: int
    boxes: Written | None = None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Said)


NO_FILTER = Cost(0, 0, 0, 0, 0)
"""The cost of a subscription without a content filter."""


class Interest:
    """One subscription of another broker's set.

    There may be a million of them, so each keeps nothing but what came, and is its own content filter. Its
    boxes would take ten times the room, and to ask them is hardly quicker.
    """

    __slots__ = ("about_topic", "cost", "every_us", "qos", "topic_filter", "value")

    unknown = Unknown.WAIT
    """What a missing field counts for is in the normal form."""

    def __init__(self, value: bytes) -> None:
        """Raises FilterError or SubscriptionError."""
        try:
            said = _DECODER.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise SubscriptionError(f"a subscription of another broker cannot be read: {error}") from None
        fault = names.filter_fault(said.topic_filter) if said.topic_filter != EVERYTHING else None
        if fault or len(said.topic_filter) > TOPIC_CHARACTERS_MAX:
            raise SubscriptionError(fault or "the topic filter is too long")
        if not 0 <= said.qos <= QOS_MAX or said.every_us < 0:
            raise SubscriptionError(f"quality of service {said.qos}, every {said.every_us} us")
        boxes = said.boxes
        self.cost = NO_FILTER if boxes is None else normal_form.check(boxes)
        self.about_topic = boxes is not None and normal_form.about_topic(boxes)
        self.topic_filter = said.topic_filter
        self.qos = said.qos
        self.every_us = said.every_us
        self.value = value

    @property
    def filter(self) -> Interest | None:
        """The content filter; None for all."""
        return None if self.cost is NO_FILTER else self

    def boxes(self, unknown: Unknown = Unknown.WAIT) -> tuple[Box, ...]:  # noqa: ARG002 -- it is decided
        """The events that match, as a union of boxes."""
        return normal_form.made(self._written())

    def matches(self, event: Mapping[str, object], unknown: Unknown = Unknown.WAIT) -> bool:  # noqa: ARG002
        """Whether its content filter matches."""
        return normal_form.matches(self._written(), event)

    def asking(self, unknown: Unknown) -> None:
        """A quicker way to ask its content filter: there is none."""

    def _written(self) -> Written:
        return _DECODER.decode(self.value).boxes or ()

    @property
    def text(self) -> str:
        """The subscription for people to read."""
        parts = [
            self.topic_filter or "everything",
            f'"{normal_form.text(self.boxes())}"' if self.filter is not None else "",
            f"qos={self.qos}",
            f"every={durations.text(self.every_us)}" if self.every_us else "",
        ]
        return " ".join(part for part in parts if part)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interest) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Interest({self.topic_filter!r}, qos={self.qos})"


def written(subscription: Subscription) -> tuple[bytes, bool]:
    """A subscription as others are told of it, and whether it is told wider than it is.

    A content filter whose normal form is too large to be told is left out.
    """
    boxes, wider = None, False
    try:
        read = subscription.filter
    except FilterError:
        read, wider = None, True
    if read is not None:
        boxes = normal_form.written(read, subscription.unknown)
        wider = boxes is None
    said = _Said(subscription.topic_filter, subscription.qos, subscription.every_us, boxes)
    return _ENCODER.encode(said), wider


EVERYTHING_AT_ALL = Interest(_ENCODER.encode(_Said(EVERYTHING, QOS_MAX, 0)))
"""What a home is taken to ask for where it cannot be understood."""
