"""Virtual time: an agenda of what will happen, and the clocks of brokers, which may be wrong.

Things happen in the order of their times and, where those are equal, in the order in which they were put on
the agenda; nothing else decides. What happens is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Any

Action = Callable[[Any, Any], None]
"""What is done when its time has come, with the two values that were put down with it."""


class Agenda:
    """What will happen, one thing after the other."""

    __slots__ = ("_added", "_heap", "done", "now")

    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the start."""
        self.done = 0
        """How many things have happened."""
        self._added = 0
        # Plain tuples: the heap compares the first two items, in C.
        self._heap: list[tuple[float, int, Action, Any, Any]] = []

    def add(self, at: float, action: Action, one: Any = None, two: Any = None) -> None:
        """Put something down for a time, which may be now."""
        self._added = number = self._added + 1
        heappush(self._heap, (at, number, action, one, two))

    def next_time(self) -> float:
        """When the next thing happens; infinity if nothing will."""
        return self._heap[0][0] if self._heap else inf

    def run(self, until: float) -> None:
        """Let happen all that is due up to a time, and let that be the time."""
        heap = self._heap
        done = 0
        while heap and heap[0][0] <= until:
            self.now, _, action, one, two = heappop(heap)
            action(one, two)
            done += 1
        self.done += done
        self.now = max(self.now, until)

    def __len__(self) -> int:
        return len(self._heap)


@dataclass(frozen=True, slots=True)
class Skew:
    """How the clock of a broker differs from the time of the simulation."""

    offset_s: float = 0.0
    """What it shows at the start."""

    rate: float = 1.0
    """Seconds that it shows for each second that passes."""

    def local(self, now: float) -> float:
        """What it shows at a time."""
        return now * self.rate + self.offset_s

    def virtual(self, local: float) -> float:
        """The time at which it shows this."""
        return (local - self.offset_s) / self.rate


TRUE_CLOCK = Skew()
