"""A bench that counts what each turn of a front does, and pings between turns.

What is counted is work, not time: calls of functions, content filters read, topic filters asked for, retained
messages looked at. Whoever pings waits for the turn that is under way and for its own: what one turn may do
is what another client may have to wait for.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tests.mqtt.talk import Client, Talk
from tidings.language import subscriptions
from tidings.mqtt.packets import Pingreq, Pingresp
from tidings.overlay.broker import Broker
from tidings.overlay.routing import Routing

COUNTED = {
    "asked": (Routing, "ask"),
    "dropped": (Routing, "drop_subscription"),
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
        for name, (owner, function) in COUNTED.items():
            patch.setattr(owner, function, self._counted(name, getattr(owner, function)))
        super().__init__(**more)

    def _counted(self, name: str, function: Any) -> Any:
        def counted(*given: Any, **more: Any) -> Any:
            self._now[name] += 1
            return function(*given, **more)

        return counted

    def _carry_out(self, effects: Iterable[Any]) -> None:
        done, self._now = self._now, Counter()
        self.turns.append(done)
        super()._carry_out(effects)
        pinger, self.pinger = self.pinger, None
        if pinger is not None:
            pinger.send(Pingreq())
            assert pinger.take(Pingresp) == [Pingresp()], "answered in its own turn"
            self.pinger = pinger

    def most(self, name: str) -> int:
        """The most of something in one turn."""
        return max(turn[name] for turn in self.turns)

    def total(self, name: str) -> int:
        return sum(turn[name] for turn in self.turns)

    def forget(self) -> None:
        """Count from now on."""
        self.turns.clear()
        self._now.clear()

    # Calls of functions, of Python's and of C's.

    def count_calls(self) -> None:
        sys.setprofile(self._on_call)

    def _on_call(self, _frame: object, event: str, _about: object) -> None:
        if event in ("call", "c_call"):
            self._now["calls"] += 1
