"""Grants: when a client may rely on a subscription.

A subscription is granted when all members have confirmed the change of this broker's set that has it, and
when it is on disk if it is durable. Brokers out of reach cannot confirm and are not waited for: the grant
names them ("absent: c"), and what is published there counts once they are back and have confirmed. If it
takes too long, it is granted all the same, with the names of those who are waited for ("settling: b").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from tidings.language.subscriptions import Subscription
from tidings.overlay.core import Core, Notice
from tidings.overlay.events import Grant
from tidings.overlay.timers import Timer

Named = tuple[str, str]
"""(session, name) of a subscription of a client here."""

NAMED_MAX = 16
"""Brokers that a grant names; more are counted."""


class SubscriptionGranted(Notice, frozen=True):
    named: Named
    subscription: Subscription


class Waiting:
    """A subscription of a client that has not been granted yet."""

    __slots__ = ("absent", "named", "number", "on_disk", "subscription")

    def __init__(self, named: Named, subscription: Subscription, number: int, *, on_disk: bool) -> None:
        self.named = named
        self.subscription = subscription
        self.number = number
        """Of the change that all must know."""
        self.on_disk = on_disk
        self.absent: list[str] | None = None
        """Brokers that were out of reach when the others had confirmed; None before."""


class Grants:
    """All who wait."""

    def __init__(
        self,
        core: Core,
        confirmed: Callable[[], int],
        absent: Callable[[], list[str] | None],
        late: Callable[[int], list[str]],
    ) -> None:
        """`confirmed`: the latest change that all members know. `absent`: brokers out of reach, None if it is
        too early to tell. `late`: who has not confirmed a change.
        """
        self._core = core
        self._confirmed = confirmed
        self._absent = absent
        self._late = late
        self._waiting: dict[Named, Waiting] = {}
        self._queue: deque[Waiting] = deque()
        """Those that others have not confirmed, in the order asked."""

    def wait(self, named: Named, subscription: Subscription, number: int, *, durable: bool) -> None:
        """Grant a subscription when all know the change of this number."""
        core = self._core
        self.wait_no_more(named)
        waiting = Waiting(named, subscription, number, on_disk=not durable)
        if durable:
            core.after_sync(lambda: self._synced(waiting))
        self._waiting[named] = waiting
        core.timers.set(Timer.SETTLE, named, core.now + core.settings.settle_s)
        if len(self._queue) > 64 + 2 * len(self._waiting):
            # Most of them wait no more, and nobody looks at them while an epoch grows.
            self._queue = deque(it for it in self._queue if self._waiting.get(it.named) is it)
        self._queue.append(waiting)

    def wait_no_more(self, named: Named) -> None:
        """A subscription is not wanted any more, or is granted."""
        if self._waiting.pop(named, None) is not None:
            self._core.timers.cancel(Timer.SETTLE, named)

    def go_on(self) -> None:
        """Others may know more by now."""
        queue = self._queue
        if not queue:
            return
        confirmed = self._confirmed()
        if confirmed < queue[0].number or (absent := self._absent()) is None:
            return
        while queue and queue[0].number <= confirmed:
            waiting = queue.popleft()
            waiting.absent = absent
            self._grant_if_safe(waiting)

    def _synced(self, waiting: Waiting) -> None:
        waiting.on_disk = True
        self._grant_if_safe(waiting)

    def _grant_if_safe(self, waiting: Waiting) -> None:
        if self._waiting.get(waiting.named) is waiting and waiting.on_disk and waiting.absent is not None:
            self._grant(waiting, _named("absent", waiting.absent))

    def _grant(self, waiting: Waiting, reason: str) -> None:
        self.wait_no_more(waiting.named)
        self._core.out.append(Grant(*waiting.named, reason))
        self._core.tell(SubscriptionGranted(waiting.named, waiting.subscription))

    def on_late(self, named: Named) -> None:
        """It takes too long."""
        waiting = self._waiting.get(named)
        if waiting is not None:
            late = self._late(waiting.number) if waiting.absent is None else []
            self._grant(waiting, _named("settling", late) or "settling")


def _named(reason: str, brokers: Iterable[str]) -> str:
    """A reason with the brokers that it is about; "" if there are none."""
    found = sorted(brokers)
    named = ", ".join(found[:NAMED_MAX])
    more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    return f"{reason}: {named}{more}" if found else ""
