"""A disk in memory, with what a crash does to it.

Changes are collected until a sync is asked for; those before it become durable together, all or none, and in
the order of the syncs. A crash loses what was not asked to be synced; of what was on its way to the disk, the
first few syncs may have arrived. What the values mean is not known here.

Logs are those of `history`, on files in memory: of entries that were on their way, a crash leaves any part.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from tidings.history.entries import Entry
from tidings.history.files import MemoryFiles
from tidings.history.logs import Logs
from tidings.records.holders import Holder

SESSION_PREFIX = "session/"
"""Keys of the driver's own: what waits for the client of a durable session."""

Delivery = Any
"""Something for a durable session that becomes its own with the sync."""

Logged = tuple[str, str, Holder, Entry]
"""Name, what and holder of a log, and an entry for it."""

SEGMENT_BYTES = 2_000
"""Small, so that a log has several."""


class Disk:
    """What one broker has written."""

    __slots__ = (
        "_changes",
        "_deliveries",
        "_entries",
        "_files",
        "_waiting",
        "durable",
        "holder",
        "logs",
        "torn",
    )

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        """Whose own logs are here; those of others are copies."""
        self._files = MemoryFiles()
        self.logs = self._opened()
        self.torn: list[str] = []
        """What logs showed before a crash and not, or not so, after it."""
        self._entries: list[Logged] = []
        self.durable: dict[str, bytes] = {}
        """What is there whatever happens."""
        self._changes: list[tuple[str, bytes | None]] = []
        self._deliveries: list[Delivery] = []
        self._waiting: deque[tuple[int, list[tuple[str, bytes | None]], list[Delivery], list[Logged]]] = (
            deque()
        )

    def _opened(self) -> Logs:
        return Logs(self._files, self.holder, segment_bytes=SEGMENT_BYTES)

    def write(self, key: str, value: bytes | None) -> None:
        """Change a value with the next sync; None erases it."""
        self._changes.append((key, value))

    def append(self, entry: Logged) -> None:
        """Put an entry into a log with the next sync."""
        self._entries.append(entry)

    def deliver(self, delivery: Delivery) -> None:
        """Hand something to a durable session with the next sync."""
        self._deliveries.append(delivery)

    def deliver_behind(self, delivery: Delivery) -> bool:
        """Hand something over no sooner than what is on its way already; False if nothing is."""
        if self._deliveries:
            self._deliveries.append(delivery)
        elif any(deliveries for _, _, deliveries, _ in self._waiting):
            self._waiting[-1][2].append(delivery)
        else:
            return False
        return True

    def sync(self, token: int) -> None:
        """Let all that was changed since the last sync go to the disk."""
        self._waiting.append((token, self._changes, self._deliveries, self._entries))
        self._changes = []
        self._deliveries = []
        self._entries = []

    def finish(self) -> tuple[int, list[Delivery]]:
        """The oldest sync under way is done; answers its token and what became durable for sessions."""
        token, changes, deliveries, entries = self._waiting.popleft()
        if entries:
            for entry in entries:
                self.logs.append(*entry)
            self.logs.commit()
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

    def crash(self, kept: int, random: Random) -> list[Delivery]:
        """Lose what is not durable but for the first `kept` syncs under way; answers what those delivered."""
        deliveries = [one for _ in range(min(kept, len(self._waiting))) for one in self.finish()[1]]
        self._crash_logs(random)
        self._entries = []
        self._waiting.clear()
        self._changes = []
        self._deliveries = []
        return deliveries

    def _crash_logs(self, random: Random) -> None:
        """The next sync was being written."""
        shown = self._shown()
        for entry in self._waiting[0][3] if self._waiting else ():
            self.logs.append(*entry)
        self.logs.write()
        self._files.crash(lambda _path, unsynced: unsynced[: random.randint(0, len(unsynced))])
        self.logs = self._opened()
        found = self._shown()
        self.torn += [
            f"entry {entry.number} of {key} was shown, and is gone or another after a crash"
            for key, entries in shown.items()
            for at, entry in enumerate(entries)
            if found.get(key, [])[at : at + 1] != [entry]
        ]

    def _shown(self) -> dict[tuple[str, str, Holder], list[Entry]]:
        return {
            (name, what, holder): list(self.logs.read(name, what, holder, first))
            for name, what in self.logs.names()
            for holder, first, _ in self.logs.holders(name, what)
        }

    def saved(self) -> dict[str, bytes]:
        """What a broker is given when it starts again, in the order of the keys."""
        return {key: self.durable[key] for key in sorted(self.durable) if not key.startswith(SESSION_PREFIX)}
