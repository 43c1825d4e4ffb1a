"""How many events come, and how many would.

A peer counts what it receives over windows of some cycles and remembers where the latest events lay. Its
rates travel in its profile. What a coarser part of the space would bring is estimated from the profiles that
others have sent, what a finer part would from the events remembered (section 5.1 of the paper). Who needs to
know is not known here.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable

from tidings.peers.messages import Profile
from tidings.space.expressions import Set, volume

WINDOWS = 8
"""Whole windows that are looked at together. In one of them chance is large: at 12 events a second and 4
seconds two standard deviations are 29%; in eight they are 10%."""

SETTLED = 10
"""Whole windows after which what has lasted so long is not to end by chance. One window alone then has to
show twice as much: at two standard deviations each peer whose budget is used up had one that did every few
hundred cycles, and lost for it a place that it had kept for long."""

DEVIATIONS = 2.0
"""Standard deviations of a count that are taken for chance."""


class Rates:
    """What one peer has counted."""

    def __init__(self, points: int) -> None:
        self.received = 0
        """All that came in this window, also again or from outside the subscription: R(s) of the paper."""
        self.taken = 0
        """Of these, what was new and lies in the peer-level subscription."""
        self.wasted = 0
        """Of these, what was new and not wanted."""
        self.points: deque[str] = deque(maxlen=points)
        """Where the latest events lay."""
        self.received_rate: float | None = None
        """Events a second in the last whole window; none before."""
        self.taken_rate: float | None = None
        self.wasted_rate: float | None = None
        self.seconds = 0.0
        """The length of that window."""
        self._windows: deque[tuple[int, int, int, float]] = deque(maxlen=WINDOWS)
        """The last ones: what was received, wasted and taken, and their length."""
        self._whole = 0
        """How many there were."""
        self.since = 0.0

    def begin(self, now: float) -> None:
        """Start a window anew: what was counted belongs to another subscription."""
        self.received = self.taken = self.wasted = 0
        self.since = now

    def forget(self, now: float) -> None:
        """Nothing that was measured counts any more."""
        self.begin(now)
        self.points.clear()
        self._windows.clear()
        self._whole = 0
        self.received_rate = self.taken_rate = self.wasted_rate = None

    def close(self, now: float) -> bool:
        """A window is over, and the next one begins; whether it has lasted at all."""
        if now <= self.since:
            return False
        self.seconds = now - self.since
        self.received_rate = self.received / self.seconds
        self.taken_rate = self.taken / self.seconds
        self.wasted_rate = self.wasted / self.seconds
        self._windows.append((self.received, self.wasted, self.taken, self.seconds))
        self._whole += 1
        self.begin(now)
        return True

    def receives_more(self, limit: float, slack: float) -> bool:
        """Whether more is received than a limit."""
        return self._more(limit, slack, 0)

    def wastes_more(self, limit: float, slack: float) -> bool:
        """Whether more is wasted than a limit."""
        return self._more(limit, slack, 1)

    def _more(self, limit: float, slack: float, which: int) -> bool:
        """Whether a limit is exceeded in the last window, by it alone or with those before it."""
        if not self._windows:
            return False
        *_, last = self._windows
        rate = last[which] / last[3]
        lately, seconds = self._lately(which)
        deviations = DEVIATIONS if self._whole <= SETTLED else 2.0 * DEVIATIONS
        return rate > limit and (
            exceeds(rate, limit, slack, last[3], deviations) or exceeds(lately, limit, slack, seconds)
        )

    def _lately(self, which: int) -> tuple[float, float]:
        """A rate in the last windows together, and their length."""
        seconds = sum(window[3] for window in self._windows)
        return sum(window[which] for window in self._windows) / seconds, seconds

    def by_member(self, dz: Set, *, lately: bool = False) -> tuple[float, ...]:
        """The rate in each expression of a set that covers all that is taken, in the last window or ones."""
        if self.taken_rate is None:
            return ()
        rate = self._lately(2)[0] if lately else self.taken_rate
        if len(dz) == 1:
            return (rate,)
        return tuple(rate * self.part((one,)) for one in dz)

    def inside(self, dz: Set) -> float:
        """The rate of what was taken that lies in a set, in the last windows."""
        return self._lately(2)[0] * self.part(dz) if self._windows else 0.0

    def part(self, dz: Set) -> float:
        """The share of what was taken lately that lies in a set."""
        if not self.points:
            return 0.0
        return sum(point.startswith(dz) for point in self.points) / len(self.points)


def total(roots: Iterable[Profile], own: float) -> float:
    """Events a second of the whole topic: what its publishers have measured."""
    return own + sum(sum(root.rates) for root in roots)


class Estimates:
    """What parts of the space bring, from what some peers have measured at one time.

    Equal expressions are averaged. What a peer says counts only if it was fed all of its subscription.
    """

    def __init__(self, profiles: Iterable[Profile], total_rate: float) -> None:
        found: dict[str, tuple[float, int]] = {}
        for profile in profiles:
            if not profile.rates or profile.fed != profile.dz:
                continue
            for member, rate in zip(profile.dz, profile.rates, strict=True):
                sum_, count = found.get(member, (0.0, 0))
                found[member] = (sum_ + rate, count + 1)
        self._measured = {member: rate / count for member, (rate, count) in found.items()}
        self._sorted = sorted(self._measured)
        self.total = total_rate
        self._known: dict[str, float] = {}
        """What was estimated already: subscriptions that are compared have most members in common."""

    def of(self, dz: Iterable[str]) -> float:
        """Events a second in a set."""
        known = self._known
        rate = 0.0
        for one in dz:
            if one not in known:
                known[one] = self._one(one)
            rate += known[one]
        return rate

    def _one(self, one: str) -> float:
        """Events a second in an expression.

        What was measured of it, if somebody did; else what is known of its parts, and for the rest of it the
        density of the smallest part of the space that covers it and is measured, at last the whole.
        """
        measured = self._measured
        if one in measured:
            return measured[one]
        parts: list[str] = []
        # All that begin with it stand together, and each before what it covers.
        for member in self._sorted[bisect_left(self._sorted, one) : bisect_left(self._sorted, one + "2")]:
            if not parts or not member.startswith(parts[-1]):
                parts.append(member)
        around = next((one[:end] for end in range(len(one) - 1, -1, -1) if one[:end] in measured), "")
        density = measured.get(around, self.total) / volume((around,))
        return sum(measured[part] for part in parts) + density * (volume((one,)) - volume(parts))


def exceeds(rate: float, limit: float, slack: float, seconds: float, deviations: float = DEVIATIONS) -> bool:
    """Whether a measured rate is beyond a limit by more than a slack and chance.

    Events that come independently, k expected in a window, vary by about the root of k; some of these are
    allowed.
    """
    return rate > limit * (1.0 + slack) + deviations * math.sqrt(limit * seconds) / seconds
