"""A record: one thing that happened in a broker, in one row.

Written by brokers, live or simulated, read by Spark, the console and the checkers. Times are integer
microseconds since 1970 (in a simulation: since its start).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, overload

import msgspec

if TYPE_CHECKING:
    import numpy as np

    Integers = np.ndarray[tuple[int], np.dtype[np.int64]]
    Small = np.ndarray[tuple[int], np.dtype[np.int32]]


class Kind(StrEnum):
    """What a record tells."""

    PUBLISHED = "published"
    """A client published; `client` is the publisher's session."""

    FORWARDED = "forwarded"
    """Sent to neighbours: `receivers` are brokers, `link` the neighbour it came from."""

    DELIVERED = "delivered"
    """Handed to sessions here: `receivers` are sessions, `link` the neighbour it came from."""

    SUPPRESSED = "suppressed"
    """Not taken further; `reason` says why: a repeat, a stale epoch, a full queue, a gatherer's verdict."""

    OPENED = "opened"
    """A report that opened an event; `version` is the one that tells it first."""

    MERGED = "merged"
    """A report that changed an event; `version` is the one that tells it first. `reason` counts the fields in
    which it said something else, if any."""

    TOLD = "told"
    """A version of an event that left its seat; `reason` is its state."""

    CLOSED = "closed"
    """An event that is open no more; `reason` says why."""

    SEATED = "seated"
    """A broker has the seat of a topic; `receivers` is its deputy, `reason` why it came to it."""

    REQUESTED = "requested"
    """Some of the log was read here: `message` is the range, `client` the user, `link` the broker that was
    asked if it is another, `reason` what was read and how many rows."""

    STORED = "stored"
    """A publication is kept on disk for brokers out of reach, which are `receivers`."""

    MOVED = "moved"
    """A client or a store moved."""

    SUBSCRIBED = "subscribed"
    """A client's subscription was installed; `topic` is its topic filter, `reason` its content filter."""

    UNSUBSCRIBED = "unsubscribed"
    """A client's subscription was removed."""

    LINK_UP = "link up"
    """The link to `link` is usable; `reason` is "new" or "resumed"."""

    LINK_DOWN = "link down"
    """The link to `link` is not usable; `reason` says why."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One row. `broker`, `boot` and `n` together are unique."""

    broker: str
    boot: int
    n: int
    at: int
    """Microseconds."""

    kind: Kind
    topic: str | None = None
    message: str | None = None
    """Identity of the publication, the same on every hop."""

    bytes: int | None = None
    """Of the payload."""

    event: str | None = None
    version: int | None = None
    report: str | None = None
    publisher: str | None = None
    client: str | None = None
    subscription: str | None = None
    link: str | None = None
    hops: int | None = None
    latency_us: int | None = None
    """Since it was published, by the clocks of its origin and of this broker."""

    reason: str | None = None
    receivers: tuple[str, ...] = ()
    """All whom this one decision served."""

    epoch: str | None = None
    """Of the tree, as root:boot:count, for what was forwarded."""


class Receivers(Sequence[tuple[str, ...]]):
    """Who received each of many publications, as numbers of names: a tuple for each would take as long as
    all else that is done for it.
    """

    __slots__ = ("ends", "names", "numbers")

    def __init__(self, names: Sequence[str], numbers: Integers, ends: Integers) -> None:
        self.names = names
        self.numbers = numbers
        """Of all, one publication after the other."""
        self.ends = ends
        """Behind the last of each publication."""

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, at: int) -> tuple[str, ...]: ...

    @overload
    def __getitem__(self, at: slice) -> Receivers: ...

    def __getitem__(self, at: int | slice) -> tuple[str, ...] | Receivers:
        if isinstance(at, slice):
            first, end, step = at.indices(len(self))
            assert step == 1, "what is asked for are stretches"
            before = int(self.ends[first - 1]) if first else 0
            last = int(self.ends[end - 1]) if end > first else before
            return Receivers(self.names, self.numbers[before:last], self.ends[first:end] - before)
        at = range(len(self))[at]
        before = int(self.ends[at - 1]) if at else 0
        return tuple([self.names[number] for number in self.numbers[before : self.ends[at]].tolist()])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def lengths(self) -> Integers:
        """How many received each publication."""
        lengths = self.ends.copy()
        lengths[1:] -= self.ends[:-1]
        return lengths


class Run(msgspec.Struct, frozen=True):
    """Many rows that differ in little, as one value: what became of publications in one decision.

    Of the columns that are sequences here, one of length 1 holds for all rows.
    """

    broker: str
    boot: int
    n: int
    """Of the first row; they count up."""

    at: int
    kind: Kind
    topics: Sequence[str]
    """All that rows are of."""

    publishers: Sequence[str]
    """For each topic, who has published there."""

    prefix: str
    """Of the publications' identities: `message` is this and the number."""

    numbers: Sequence[int]
    """Of the publications, one for each row."""

    bytes: Sequence[int]
    client: bool = False
    """Whether the publishers are clients here."""

    link: str | None = None
    hops: int | None = None
    latency_us: Sequence[int] = ()
    """Empty if it is not known."""

    reason: str | None = None
    receivers: Sequence[tuple[str, ...]] = ((),)
    epoch: str | None = None
    which: Sequence[int] = (0,)
    """Of each row, the place of its topic among `topics`."""

    def __len__(self) -> int:
        return len(self.numbers)

    def records(self) -> Iterator[Record]:
        """The rows one by one: what it means."""
        sizes, receivers, which, latencies = self.bytes, self.receivers, self.which, self.latency_us
        for at, number in enumerate(self.numbers):
            topic = which[at if len(which) > 1 else 0]
            yield Record(
                self.broker,
                self.boot,
                self.n + at,
                self.at,
                self.kind,
                self.topics[topic],
                f"{self.prefix}{number}",
                sizes[at if len(sizes) > 1 else 0],
                publisher=self.publishers[topic],
                client=self.publishers[topic] if self.client else None,
                link=self.link,
                hops=self.hops,
                latency_us=latencies[at if len(latencies) > 1 else 0] if latencies else None,
                reason=self.reason,
                receivers=receivers[at if len(receivers) > 1 else 0],
                epoch=self.epoch,
            )
