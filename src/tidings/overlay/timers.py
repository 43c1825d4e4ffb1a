"""The times at which a broker wants to be woken, each with a name and what it is about."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from enum import Enum, auto
from typing import Generic, TypeVar


class Timer(Enum):
    """What may fall due."""

    TICK = auto()
    """Look after all links: heartbeats, silence, requests to be repeated."""

    TURN = auto()
    """Go on with what was left of the last turn."""

    REDIAL = auto()
    """Dial an address again."""

    GREETING = auto()
    """A connection has not been greeted in time."""

    RESUME = auto()
    """A lost connection has not come back in time: the link is down."""

    ROOT = auto()
    """A root has been out of reach for long enough: its topics move to another tree."""

    REGROW = auto()
    """A root starts a new epoch of its tree."""

    CONFIRM = auto()
    """A change of a set has not been confirmed for a while: those who are waited for are named."""

    SETTLE = auto()
    """A subscription has not been confirmed in time: it is granted as settling."""

    ABSENT = auto()
    """Nothing more is held for a broker that is out of reach."""

    EVERY = auto()
    """A session wants the next version of an event, of which one waits for it."""

    SYNCHRONISE = auto()
    """A broker that has just started waits no longer for the catalogues of its neighbours."""

    GATHER = auto()
    """A clock of a gathered event runs out."""

    SURVEY = auto()
    """The root of a tree has traffic counted and seats looked at anew."""

    HOLD = auto()
    """A report has waited long enough for others to merge with."""

    TALLY = auto()
    """A seat is told how many reports were dropped on the way to it."""

    DRAIN = auto()
    """A stopping broker waits no longer."""


SLACK = 64
"""Entries of a heap that may be out of date, beside as many as are not."""

Name = TypeVar("Name", bound=Enum)


class Timers(Generic[Name]):
    """A heap of deadlines; one per timer and thing it is about."""

    def __init__(self) -> None:
        self._due: dict[tuple[Name, object], float] = {}
        self._heap: list[tuple[float, int, tuple[Name, object]]] = []
        self._count = 0
        self._earliest: float | None = None
        self._changed = False
        """Whether the earliest must be looked for anew: it is asked for after every event."""

    def set(self, timer: Name, about: object, at: float) -> None:
        """Ask for a wake-up, in the place of the one asked for before."""
        key = (timer, about)
        if self._due.get(key) == at:
            return
        self._due[key] = at
        self._changed = True
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, key))
        if len(self._heap) > 2 * len(self._due) + SLACK:
            # What was cancelled, or moved, would stay until its time, with what it is about.
            self._heap = [one for one in self._heap if self._due.get(one[2]) == one[0]]
            heapq.heapify(self._heap)

    def is_set(self, timer: Name, about: object) -> bool:
        return (timer, about) in self._due

    def due(self, timer: Name, about: object) -> float | None:
        """When it falls due, if it is set."""
        return self._due.get((timer, about))

    def cancel(self, timer: Name, about: object) -> None:
        self._changed = self._due.pop((timer, about), None) is not None or self._changed

    def next(self) -> float | None:
        """The earliest deadline."""
        if self._changed:
            self._changed = False
            heap = self._heap
            while heap and self._due.get(heap[0][2]) != heap[0][0]:
                heapq.heappop(heap)
            self._earliest = heap[0][0] if heap else None
        return self._earliest

    def fired(self, now: float) -> Iterator[tuple[Name, object]]:
        """What is due by now, each once, earliest first."""
        while (at := self.next()) is not None and at <= now:
            key = heapq.heappop(self._heap)[2]
            del self._due[key]
            self._changed = True
            yield key
