"""How many events come, and how many would.

A peer counts what it receives over windows of some cycles and remembers where the latest events lay. Its
rates travel in its profile. What a coarser part of the space would bring is estimated from the profiles that
others have sent, what a finer part would from the events remembered (section 5.1 of the paper). Who needs to
know is not known here.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping

from tidings.overlay.peers.messages import Profile
from tidings.space.expressions import Set, volume


class Rates:
    """What one peer has counted."""

    def __init__(self, points: int) -> None:
        self.received = 0
        """In this window."""
        self.wasted = 0
        self.points: deque[str] = deque(maxlen=points)
        """Where the latest events lay."""
        self.received_rate: float | None = None
        """Events a second in the last whole window; none before."""
        self.wasted_rate: float | None = None
        self.seconds = 0.0
        """The length of that window."""
        self.since = 0.0

    def begin(self, now: float) -> None:
        """Start a window anew: what was counted belongs to another subscription."""
        self.received = self.wasted = 0
        self.since = now

    def forget(self, now: float) -> None:
        """Nothing that was measured counts any more."""
        self.begin(now)
        self.points.clear()
        self.received_rate = self.wasted_rate = None

    def close(self, now: float) -> None:
        """A window is over, and the next one begins."""
        if now <= self.since:
            return
        self.seconds = now - self.since
        self.received_rate = self.received / self.seconds
        self.wasted_rate = self.wasted / self.seconds
        self.begin(now)

    def by_member(self, dz: Set) -> tuple[float, ...]:
        """The rate in each expression of a set that covers all that is received."""
        if self.received_rate is None:
            return ()
        if len(dz) == 1:
            return (self.received_rate,)
        return tuple(self.received_rate * self.part((one,)) for one in dz)

    def part(self, dz: Set) -> float:
        """The share of what was received lately that lies in a set."""
        if not self.points:
            return 0.0
        return sum(point.startswith(dz) for point in self.points) / len(self.points)


def total(roots: Iterable[Profile], own: float) -> float:
    """Events a second of the whole topic: what its publishers have measured."""
    return own + sum(sum(root.rates) for root in roots)


def measurements(profiles: Iterable[Profile], one: str) -> dict[str, float]:
    """What others have measured of an expression: of itself, of its parts, and of what covers it.

    Equal expressions are averaged.
    """
    found: dict[str, tuple[float, int]] = {}
    for profile in profiles:
        if not profile.rates or profile.fed != profile.dz:
            continue
        for member, rate in zip(profile.dz, profile.rates, strict=True):
            if member.startswith(one) or one.startswith(member):
                total_, count = found.get(member, (0.0, 0))
                found[member] = (total_ + rate, count + 1)
    return {member: rate / count for member, (rate, count) in found.items()}


def estimate(one: str, measured: Mapping[str, float], total_rate: float) -> float:
    """Events a second in an expression.

    What was measured of it, if somebody did; else what is known of its parts, and for the rest of it the
    density of the smallest part of the space that covers it and is measured, at last the whole.

    >>> estimate("0", {"00": 3.0}, 8.0)
    5.0
    """
    if one in measured:
        return measured[one]
    known_rate = 0.0
    known: list[str] = []
    for member in sorted(
        (member for member in measured if member.startswith(one)), key=lambda m: (len(m), m)
    ):
        if not member.startswith(tuple(known)):
            known.append(member)
            known_rate += measured[member]
    around = max((member for member in measured if one.startswith(member)), key=len, default="")
    density = measured.get(around, total_rate) / volume((around,))
    return known_rate + density * (volume((one,)) - volume(known))


def exceeds(rate: float, limit: float, slack: float, seconds: float) -> bool:
    """Whether a measured rate is beyond a limit by more than a slack and chance.

    Events that come independently, k expected in a window, vary by about the root of k; two of these are
    allowed.
    """
    return rate > limit * (1.0 + slack) + 2.0 * math.sqrt(limit * seconds) / seconds
