"""What messages between brokers carry: publications, reports and versions, each one counted.

How many of them one message has is the brokers' choice. So what is measured of their traffic is counted in
these, and only control messages are counted as messages. Copies (`Keep`, `Mirror`, `HandOver`) are on their
way to nobody who asked for them, and are not counted here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidings.overlay.frames import Message
from tidings.overlay.gather.messages import Carry
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.versions.messages import Snapshot

PUBLICATIONS = "publications"
"""Of topics that are not gathered."""

REPORTS = "reports"
"""Of gathered topics, on their way to a seat."""

VERSIONS = "versions"
"""Of events, as a seat told them."""

SNAPSHOTS = "snapshots"
"""Versions of open events with which a seat answers a question."""

NAMES = (PUBLICATIONS, REPORTS, VERSIONS, SNAPSHOTS)


def _publish(message: Publish) -> tuple[str, int]:
    return VERSIONS if message.told else PUBLICATIONS, len(message.numbers)


def _carry(message: Carry) -> tuple[str, int]:
    # One without payload is no report: it only says how many were not sent.
    return REPORTS, 1 if message.report.payload else 0


def _snapshot(message: Snapshot) -> tuple[str, int]:
    return SNAPSHOTS, len(message.publications)


CARRIERS: dict[type[Message], Callable[[Any], tuple[str, int]]] = {
    Publish: _publish,
    Carry: _carry,
    Snapshot: _snapshot,
}
"""Kinds of messages that carry any, and what tells the name of what one carries, and how many of them."""

CARRIER_KINDS = frozenset(kind.__name__ for kind in CARRIERS)
"""The same kinds, as measures name them."""
