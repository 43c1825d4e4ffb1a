"""What is written down of a run about gathered events, beside what clients saw: tellings, closings, seats.

It takes the records of brokers, each with the turn of the ledger in which it was written. The promises to
clients are judged without it; it says when something was told, how often reports were decided on, and where
seats were.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from tidings.overlay.publication import MERGED
from tidings.records.record import Kind, Record

DECISIONS = (Kind.OPENED, Kind.MERGED)
REDUNDANT, REFUSED, ON_THE_WAY = "redundant", "refused", "dropped on the way"
"""How the reasons begin for which reports are suppressed."""


@dataclass(frozen=True, slots=True)
class Seating:
    """A broker has taken a seat."""

    turn: int
    topic: str
    broker: str
    deputy: str
    reason: str


@dataclass(slots=True)
class Notes:
    """All of it."""

    turn: Callable[[], int]
    """The ledger's."""

    told: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    """By event and version: the turns in which it left a seat."""

    merged: dict[str, int] = field(default_factory=dict)
    """By event: the latest version with which a seat said that it is part of another one."""

    closed: dict[str, int] = field(default_factory=dict)
    """By event: the turn in which a seat first closed it."""

    parted: dict[str, int] = field(default_factory=dict)
    """By event: the turn in which a seat last closed it for itself, and not because it was merged."""

    ends: set[tuple[str, str, int]] = field(default_factory=set)
    """Event, seat and version: what the seat had told last when it closed the event for itself."""

    seatings: list[Seating] = field(default_factory=list)

    decided: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By report: what became of it, at each seat that had it."""

    counts: Counter[str] = field(default_factory=Counter)
    """Of decisions and tellings."""

    _latest: dict[tuple[str, str], int] = field(default_factory=dict)
    """By event and seat: the version that it told last."""

    def __call__(self, record: Record) -> None:
        """Take a record."""
        kind, reason = record.kind, record.reason or ""
        if kind in DECISIONS:
            self._decide(record, kind.value)
        elif kind is Kind.SUPPRESSED and record.report is not None:
            for begins in (REDUNDANT, REFUSED, ON_THE_WAY):
                if reason.startswith(begins):
                    self._decide(record, begins)
        elif kind is Kind.TOLD and record.event is not None:
            self.told[record.event, record.version or 0].append(self.turn())
            self._latest[record.event, record.broker] = record.version or 0
            if reason == MERGED:
                self.merged[record.event] = max(record.version or 0, self.merged.get(record.event, 0))
            self.counts[kind.value] += 1
        elif kind is Kind.CLOSED and record.event is not None:
            self.closed.setdefault(record.event, self.turn())
            if reason != MERGED:
                self.parted[record.event] = self.turn()
                latest = self._latest.get((record.event, record.broker), 0)
                self.ends.add((record.event, record.broker, latest))
            self.counts[kind.value] += 1
        elif kind is Kind.SEATED and record.link == record.broker:
            deputy = record.receivers[0] if record.receivers else ""
            self.seatings.append(Seating(self.turn(), record.topic or "", record.broker, deputy, reason))

    def _decide(self, record: Record, fate: str) -> None:
        self.counts[fate] += 1
        self.decided[record.report or ""].append(fate)

    def moves(self) -> int:
        """How often a seat came to a broker that did not have it."""
        return sum(one.reason not in ("first", "deputy") for one in self.seatings)
