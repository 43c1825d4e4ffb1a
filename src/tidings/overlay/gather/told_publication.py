"""Telling: a version of an event as a publication.

What a seat tells leaves it as a publication like any other; `told` says what it is. Who wants it, and how it
gets there, is not known here.
"""

from __future__ import annotations

from collections.abc import Callable

from tidings.language import payloads
from tidings.language.payloads import Encoding
from tidings.language.reports import Event
from tidings.language.topics import Topic
from tidings.overlay.core import Core
from tidings.overlay.gather.seat import Seat
from tidings.overlay.publication import Publication, Told
from tidings.overlay.routing.topics import Topics

CONTENT_TYPES = {Encoding.JSON: "application/json", Encoding.MSGPACK: "application/msgpack"}


def as_told(broker: str, place: str, event: Event, state: str, *, last: bool = False, into: str = "") -> Told:
    """What a publication of an event is."""
    return Told(
        event.topic,
        event.opened_by,
        event.version,
        event.reports,
        event.complete,
        broker,
        state,
        last,
        into,
        place,
    )


def written(topic: Topic, event: Event) -> tuple[bytes, str]:
    """An event as a payload, and its content type."""
    assert topic.gathering is not None, "only gathered topics have events"
    encoding = topic.gathering.encoding
    return payloads.encode(event.fields, encoding), CONTENT_TYPES[encoding]


def shown(core: Core, topics: Topics, seat: Seat, wanted: Callable[[Event], bool]) -> list[Publication]:
    """The latest versions told of open events at a seat here, as publications in no stream.

    Without events of which a version is not safe yet: a successor would give its number to something
    else. It will be told to all.
    """
    untold = seat.untold()
    found: list[Publication] = []
    for entry in seat.gatherer.entries():
        event = entry.told
        if entry.closed or entry.hashes is not None or event is None:
            continue
        if event.opened_by in untold or not wanted(event):
            continue
        payload, content_type = written(seat.topic, event)
        found.append(
            Publication(
                core.id,
                core.incarnation,
                topics.stream_of(entry.name),
                0,
                entry.name,
                payload,
                entry.qos,
                core.at_us,
                content_type=content_type,
                told=as_told(core.id, seat.place, event, "told"),
            )
        )
    return found
