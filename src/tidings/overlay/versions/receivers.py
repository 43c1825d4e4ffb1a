"""Receivers: which brokers have had which event, at its seat.

An event that grows may come to satisfy a filter no longer. Whoever has had a version of it must hear that,
and what follows. So a home that was sent a version gets all later ones, until the event is closed or the home
says that nobody there wants it. The seat knows these homes by name: from what it told, from snapshots that it
answered, and from what homes say that they follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from tidings.overlay.core import Core
from tidings.overlay.publication import MERGED, Told, is_last

PAST_MAX = 10_000
"""Closed events of which is remembered who had them."""

Had = tuple[int, int]
"""The quality of service that a home asks for, and the latest version that it was sent."""


class Event:
    """An event: who was sent it."""

    __slots__ = ("final", "homes", "place")

    def __init__(self, place: str) -> None:
        self.place = place
        self.homes: dict[str, Had] = {}
        self.final = 0
        """The last version, once it is closed."""

    @property
    def version(self) -> int:
        """The latest that somebody was sent."""
        return max((version for _, version in self.homes.values()), default=0)


class Receivers:
    """All events that were told from here, and who has had them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._events: dict[str, Event] = {}
        """The longest unchanged first."""
        self._past: dict[str, Event] = {}
        """The same of closed ones, since another side of a partition may have gone on with them. No event is
        both."""
        self.forgotten = 0
        """Events that were forgotten because there were too many."""

    def __len__(self) -> int:
        return len(self._events)

    def of(self, told: Told) -> Mapping[str, int]:
        """The homes that have had an earlier version, and the quality of service there."""
        event, past = self._events.get(told.event), self._past.get(told.event)
        if past is not None and told.version > past.final:
            event = self._opened(past.place, told.event)
        elif past is not None:
            # What has waited for room until the event was closed goes there too. Some may have it by now, as
            # the answer to what they have said that they follow.
            later = inf if told.state == MERGED else told.version
            return {home: qos for home, (qos, version) in past.homes.items() if version < later}
        return {home: qos for home, (qos, _) in event.homes.items()} if event is not None else {}

    def homes(self, name: str) -> list[str]:
        """The homes that have had an event which is open or was closed lately."""
        event = self._events.get(name) or self._past.get(name)
        return list(event.homes) if event is not None else []

    def least(self, name: str) -> int:
        """The earliest version that some home has as its latest; 0 if nobody is known to have any."""
        event = self._events.get(name) or self._past.get(name)
        return min((version for _, version in event.homes.values()), default=0) if event is not None else 0

    def sent(self, told: Told, homes: Mapping[str, int]) -> None:
        """A version goes to some homes."""
        if homes:
            self.remember(told.place or told.topic, told.event, told.version, homes)
        if is_last(told):
            self.close(told.event, told.version)

    def remember(self, place: str, name: str, version: int, homes: Mapping[str, int]) -> None:
        """Some homes have a version of an event."""
        event = self._past.get(name)
        if event is None or version > event.final:
            event = self._opened(place, name)
        event.place = place
        for home, qos in homes.items():
            before = event.homes.get(home, (0, 0))
            event.homes[home] = (max(qos, before[0]), max(version, before[1]))

    def _opened(self, place: str, name: str) -> Event:
        """An event that is open, or is again; it is the one changed last."""
        event = self._events.pop(name, None)
        if event is None:
            event = self._past.pop(name, None) or Event(place)
            if len(self._events) >= self._core.settings.following_max:
                del self._events[next(iter(self._events))]
                self.forgotten += 1
                if self.forgotten & (self.forgotten - 1) == 0:  # the 1st, 2nd, 4th, …: a log must not flood
                    self._core.log("warning", "events are carried no further", forgotten=self.forgotten)
        self._events[name] = event
        return event

    def leave(self, home: str, name: str, version: int) -> None:
        """Nobody at a home wants an event of which it has this version."""
        event = self._events.get(name)
        had = event.homes.get(home) if event is not None else None
        if event is None or had is None or had[1] > version:
            return
        del event.homes[home]
        if not event.homes:
            del self._events[name]

    def close(self, name: str, version: int) -> None:
        """An event is closed after this version; another side of a partition may have gone on with it."""
        event = self._events.pop(name, None)
        if event is not None:
            event.final = max(version, event.version)
            self._past[name] = event
            if len(self._past) > PAST_MAX:
                del self._past[next(iter(self._past))]

    def forget_place(self, place: str) -> None:
        """Another broker has the seat by now, and is told what is followed."""
        for memory in (self._events, self._past):
            for name in [name for name, event in memory.items() if event.place == place]:
                del memory[name]

    def forget_home(self, home: str) -> None:
        """A broker is gone for good, or has been away for too long."""
        for memory in (self._events, self._past):
            for name in [name for name, event in memory.items() if home in event.homes]:
                del memory[name].homes[home]
                if not memory[name].homes:
                    del memory[name]
