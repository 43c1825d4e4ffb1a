"""A disk in memory, with what a crash does to it.

Changes are collected until a sync is asked for; those before it become durable together, all or none, and in
the order of the syncs. A crash loses what was not asked to be synced; of what was on its way to the disk, the
first few syncs may have arrived. What the values mean is not known here.
"""

from __future__ import annotations

from collections import deque
from typing import Any

SESSION_PREFIX = "session/"
"""Keys of the driver's own: what waits for the client of a durable session."""

Delivery = Any
"""Something for a durable session that becomes its own with the sync."""


class Disk:
    """What one broker has written."""

    __slots__ = ("_changes", "_deliveries", "_waiting", "durable")

    def __init__(self) -> None:
        self.durable: dict[str, bytes] = {}
        """What is there whatever happens."""
        self._changes: list[tuple[str, bytes | None]] = []
        self._deliveries: list[Delivery] = []
        self._waiting: deque[tuple[int, list[tuple[str, bytes | None]], list[Delivery]]] = deque()

    def write(self, key: str, value: bytes | None) -> None:
        """Change a value with the next sync; None erases it."""
        self._changes.append((key, value))

    def deliver(self, delivery: Delivery) -> None:
        """Hand something to a durable session with the next sync."""
        self._deliveries.append(delivery)

    def deliver_behind(self, delivery: Delivery) -> bool:
        """Hand something over no sooner than what is on its way already; False if nothing is."""
        if self._deliveries:
            self._deliveries.append(delivery)
        elif any(deliveries for _, _, deliveries in self._waiting):
            self._waiting[-1][2].append(delivery)
        else:
            return False
        return True

    def sync(self, token: int) -> None:
        """Let all that was changed since the last sync go to the disk."""
        self._waiting.append((token, self._changes, self._deliveries))
        self._changes = []
        self._deliveries = []

    def finish(self) -> tuple[int, list[Delivery]]:
        """The oldest sync under way is done; answers its token and what became durable for sessions."""
        token, changes, deliveries = self._waiting.popleft()
        for key, value in changes:
            if value is None:
                self.durable.pop(key, None)
            else:
                self.durable[key] = value
        return token, deliveries

    @property
    def syncing(self) -> int:
        """How many syncs are under way."""
        return len(self._waiting)

    def crash(self, kept: int) -> list[Delivery]:
        """Lose what is not durable but for the first `kept` syncs under way; answers what those delivered."""
        deliveries = [one for _ in range(min(kept, len(self._waiting))) for one in self.finish()[1]]
        self._waiting.clear()
        self._changes = []
        self._deliveries = []
        return deliveries

    def saved(self) -> dict[str, bytes]:
        """What a broker is given when it starts again, in the order of the keys."""
        return {key: self.durable[key] for key in sorted(self.durable) if not key.startswith(SESSION_PREFIX)}
