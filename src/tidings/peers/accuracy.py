"""How much a peer subscribes to: Algorithm 2.

It asks for more than its user wants when that may buy a place, and for less when more comes than the budgets
allow. What comes and what would is counted and estimated in `rates`.
"""

from __future__ import annotations

from bisect import bisect_left

from tidings.peers.core import Core
from tidings.peers.outlooks import Cause
from tidings.peers.rates import WINDOWS, Estimates, exceeds
from tidings.space.expressions import Set, coarser, finer, intersection, volume

MARGIN = 0.75
"""The share of a budget that a step may use which did not fit for long. Estimates vary by a tenth by chance:
looked at every cycle, each step just beyond a budget would fit at some time."""


class Accuracy:
    """The budgets of one peer."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._coarse_rests: dict[str, tuple[int, int]] = {}
        """By expression that was too coarse: until when it is not taken again, and how often it was left."""
        self.over: Cause | None = None
        """The budget that was exceeded in the last window although nothing can be refined."""

    def begin(self) -> None:
        """Another subscription."""
        self._coarse_rests.clear()
        self.over = None

    def coarsen(self, lacking: list[str], *, long: bool = False) -> bool:
        """Lines 1-3: ask for more, if the budgets allow it.

        Each part that is lacking grows by one step, those first that add the least waste, as long as all
        together are within the budgets: so a subscription of many small parts becomes one of few that are
        coarser (§5.1). `long`: nothing has fitted for long, and is not to by chance.
        """
        core = self._core
        if not core.settings.accuracy or core.allowed <= 0.0:
            return False
        estimates, limit = self._estimates(), core.received_max()
        if limit is not None and estimates.total <= 0.0:
            # What a step would bring is not known yet.
            return False
        share = MARGIN if long else 1.0
        steps = [
            (self._added(one[:-1], estimates), one)
            for one in lacking
            if one and self._coarse_rests.get(one[:-1], (0, 0))[0] <= core.cycle
        ]
        dz, taken = core.dz, 0
        for _, one in sorted(steps):
            if one not in dz:
                # A step before it has taken it along.
                continue
            wider = coarser(dz, one)
            if self._waste(wider, estimates) > share * core.allowed:
                continue
            if limit is None or estimates.of(wider) <= share * limit:
                dz = wider
                taken += 1
        if not taken:
            return False
        core.counts.coarsened += taken
        self._change(dz)
        return True

    def _change(self, dz: Set) -> None:
        core = self._core
        core.dz = dz
        core.changes += 1
        core.profile = None
        core.view.prefer(dz, core.bound)
        core.counted.forget(core.now)
        core.incoming.forget(core.now)
        core.window = core.incoming_window = 0

    def measure(self) -> bool:
        """At the end of a window: whether more came than the budgets allow, and less is asked for (lines
        4-5).
        """
        core = self._core
        core.window += 1
        core.incoming_window += 1
        length = core.settings.window
        received = core.incoming_window >= length and core.incoming.close(core.now)
        if received:
            core.incoming_window = 0
        counted = core.window >= length and core.counted.close(core.now)
        if counted:
            core.window = 0
            core.published.close(core.now)
            core.profile = core.own_root = None
        if not core.dz or not (received or counted):
            return False
        self.over = self._exceeded()
        if not core.settings.accuracy:
            return False
        if self.over is None:
            return core.fed != core.dz and self._overgrown()
        if not self._refine():
            return False
        self.over = None
        return True

    def _overgrown(self) -> bool:
        """Whether more is asked for than the access link would take, and less from now on.

        Nothing comes that could be counted, so this goes by estimates. Whoever keeps what fitted at another
        time gets a place for it some day, sends others away, finds out, and loses it again: one such peer
        after the other.
        """
        core = self._core
        limit, dz = core.received_max(), core.dz
        if limit is None:
            return False
        estimates = self._estimates()
        if estimates.total <= 0.0:
            return False
        seconds = WINDOWS * core.settings.window * core.settings.cycle_s
        while exceeds(estimates.of(dz), limit, core.settings.slack, seconds):
            open_ = [
                (estimates.of((one,)) - estimates.of(intersection(core.interest, (one,))), one)
                for one in dz
                if not one.startswith(core.interest)
            ]
            if not open_:
                break
            dz = self._finer(dz, max(open_)[1])
        if dz == core.dz:
            return False
        self._change(dz)
        return True

    def _exceeded(self) -> Cause | None:
        """The budget that was exceeded lately."""
        core = self._core
        counted, slack = core.counted, core.settings.slack
        limit = core.received_max()
        if limit is not None and core.incoming.receives_more(limit, slack):
            return Cause.BANDWIDTH
        total = core.total()
        if total > 0.0 and counted.wastes_more(core.allowed * total, slack):
            return Cause.WASTE
        return None

    def _refine(self) -> bool:
        """Take the expressions with the most waste one step finer, until the budgets are kept."""
        core = self._core
        counted = core.counted
        received, taken = core.incoming.received_rate or 0.0, counted.taken_rate or 0.0
        limit, total = core.received_max(), core.total()
        dz = core.dz
        wanted = counted.part(core.interest)
        while True:
            spread = [
                (counted.part((one,)) - counted.part(intersection(core.interest, (one,))), one) for one in dz
            ]
            open_ = [(share, one) for share, one in spread if not one.startswith(core.interest)]
            if not open_:
                break
            dz = self._finer(dz, max(open_)[1])
            left = counted.part(dz)
            within_bandwidth = limit is None or received * left <= limit
            if within_bandwidth and taken * (left - wanted) <= core.allowed * total:
                break
        if dz == core.dz:
            return False
        self._change(dz)
        return True

    def _finer(self, dz: Set, worst: str) -> Set:
        """A subscription with one expression a step finer, which rests as it was."""
        core = self._core
        times = self._coarse_rests.pop(worst, (0, 0))[1]
        pause = core.settings.window << min(times + 1, 8)
        self._coarse_rests[worst] = (core.cycle + pause, times + 1)
        if len(self._coarse_rests) > core.settings.remembered:
            del self._coarse_rests[next(iter(self._coarse_rests))]
        core.counts.refined += 1
        return finer(dz, worst, core.interest)

    def waste_of(self, dz: Set, interest: Set | None = None) -> float:
        """The share of all events that a subscription would bring beyond what is wanted."""
        return self._waste(dz, self._estimates(), interest)

    def _estimates(self) -> Estimates:
        core = self._core
        profiles = list(core.view.profiles.values())
        if core.dz:
            profiles.append(core.relay_profile())
        return Estimates(profiles, core.total())

    def _added(self, whole: str, estimates: Estimates) -> float:
        """What an expression would bring beyond the parts of it that are subscribed to."""
        dz = self._core.dz
        parts = dz[bisect_left(dz, whole) : bisect_left(dz, whole + "2")]
        if self._core.settings.rates == "volume" or estimates.total <= 0.0:
            return volume((whole,)) - volume(parts)
        return estimates.of((whole,)) - estimates.of(parts)

    def _waste(self, dz: Set, estimates: Estimates, interest: Set | None = None) -> float:
        core = self._core
        interest = core.interest if interest is None else interest
        if core.settings.rates == "volume" or estimates.total <= 0.0:
            return volume(dz) - volume(interest)
        return max(0.0, estimates.of(dz) - estimates.of(interest)) / estimates.total
