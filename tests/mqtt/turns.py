"""A bench that counts what each turn of a front does, and pings between turns.

What is counted is work, not time: lines of Python, content filters read, topic filters asked for, retained
messages looked at. Whoever pings waits for the turn that is under way and for its own: what one turn may do
is what another client may have to wait for.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.mqtt.talk import Client, Talk
from tidings.language import subscriptions
from tidings.mqtt.events import ClientEvent
from tidings.mqtt.packets import Pingreq, Pingresp
from tidings.overlay.broker import Broker
from tidings.overlay.events import Event
from tidings.overlay.routing.sessions import Sessions

COUNTED = {
    "asked": (Sessions, "ask"),
    "dropped": (Sessions, "drop_subscription"),
    "looked": (Broker, "wants"),
    "read": (subscriptions, "parse"),
}
"""By the name of a count: the function whose calls it counts."""


class Turns(Talk):
    """A broker whose turns are counted. `pinger` pings after each, once it is there."""

    def __init__(self, patch: pytest.MonkeyPatch, **more: Any) -> None:
        self.turns: list[Counter[str]] = []
        """What each turn did, in order."""
        self._now: Counter[str] = Counter()
        self.pinger: Client | None = None
        self.lines_max = 0
        """Lines of Python that a turn may run; 0 for any, uncounted."""
        for name, (owner, function) in COUNTED.items():
            patch.setattr(owner, function, self._counted(name, getattr(owner, function)))
        super().__init__(**more)

    def _counted(self, name: str, function: Any) -> Any:
        def counted(*given: Any, **more: Any) -> Any:
            self._now[name] += 1
            return function(*given, **more)

        return counted

    def _turn(self, events: Sequence[Event | ClientEvent]) -> None:
        before = sys.gettrace()
        sys.settrace(self._trace if self.lines_max else before)
        try:
            effects = self.front.handle_all(events, self.now)
        finally:
            sys.settrace(before)
        done, self._now = self._now, Counter()
        self.turns.append(done)
        self._carry_out(effects)
        pinger, self.pinger = self.pinger, None
        if pinger is not None:
            pinger.send(Pingreq())
            assert pinger.take(Pingresp) == [Pingresp()], "answered in its own turn"
            self.pinger = pinger

    def _trace(self, _frame: object, event: str, _about: object) -> Any:
        if event == "line":
            self._now["lines"] += 1
            assert self._now["lines"] <= self.lines_max, f"more than {self.lines_max} lines in one turn"
        return self._trace

    def most(self, name: str) -> int:
        """The most of something in one turn."""
        return max(turn[name] for turn in self.turns)

    def total(self, name: str) -> int:
        return sum(turn[name] for turn in self.turns)

    def forget(self) -> None:
        """Count from now on."""
        self.turns.clear()
        self._now.clear()
