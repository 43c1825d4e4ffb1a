"""What one entry of a log says."""

from __future__ import annotations

import msgspec

from tidings.overlay.events import Append

EVENTS = "events"
"""What was published on a plain topic, or told on a gathered one."""

REPORTS = "reports"
"""What entered here as a report, before it was gathered."""

KINDS = (EVENTS, REPORTS)


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message, as it was published or told. Fields are only ever added, at the end, with a default."""

    number: int
    """Dense within its log: the entry before has the number before."""

    at_us: int
    """When it was taken, in microseconds of the broker's clock."""

    topic: str
    """Where it was published, or told."""

    payload: bytes
    content_type: str = ""

    event: str | None = None
    """Of a version that was told: the event's identity."""

    version: int | None = None
    """Counts from 1 within an event."""

    reports: int | None = None
    """How many reports the version is made of."""

    complete: bool | None = None
    """Whether no declared field is missing."""

    state: str | None = None
    """How it was told: `told`, `ended`, `merged-into`."""

    report: str | None = None
    """Of a report: the identity that it got where it entered."""


def entry_of(append: Append) -> Entry:
    """What a broker appends, as it is kept."""
    return Entry(
        append.number,
        append.at_us,
        append.topic,
        append.payload,
        append.content_type,
        append.event,
        append.version,
        append.reports,
        append.complete,
        append.state,
        append.report,
    )
