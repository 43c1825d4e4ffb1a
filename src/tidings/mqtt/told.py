"""Told events as clients see them: the user properties that explain one.

A version of a gathered event has no publisher, so it has no properties of one either; these are in their
place. What an event is and when it is told is not known here.
"""

from __future__ import annotations

from tidings.mqtt.packets import UserProperties
from tidings.overlay.publication import Told

SNAPSHOT = "snapshot"
"""The state of an event that was open before the subscription."""


def explained(told: Told, hops: int) -> UserProperties:
    """The user properties of a told event that has come over so many links, always in this order.

    >>> explained(Told("traffic/athens", "a:1:7", 2, 3, False, "b"), 1)[:3]
    (('event', 'a:1:7'), ('version', '2'), ('reports', '3'))
    """
    properties = (
        ("event", told.event),
        ("version", str(told.version)),
        ("reports", str(told.reports)),
        ("hops", str(hops)),
        ("seat", told.seat),
        ("complete", "true" if told.complete else "false"),
        ("state", told.state),
    )
    return (*properties, ("into", told.into)) if told.into else properties
