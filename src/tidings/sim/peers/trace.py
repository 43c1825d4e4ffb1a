"""What was seen of an overlay of peers: photographs of its links, events, and who got them.

The transport writes it, not the peers: an event's delay is counted here, in links from the peer that sent it
on or in milliseconds since it was published. What of it was promised is the business of `promises`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidings.space.expressions import Set


@dataclass(frozen=True, slots=True)
class Seen:
    """A peer in a photograph, as a subscriber or as a publisher: one that is both is there twice."""

    bound: float
    """Hops or milliseconds that it tolerates; 0 of a publisher."""

    held: Set
    """What it subscribes to among peers, or advertises."""

    parents: frozenset[str]
    children: frozenset[str]
    degree: int
    """Children of the peer, in both of its parts."""

    degree_max: int
    covered: bool = True
    """Whether it has found parents for all that it holds."""

    fed: bool = True
    """Whether it says that it gets all of its events, in time."""

    since: float = 0.0
    """When it subscribed: another time is another subscription, or another life."""

    wanted: Set = ()
    """What its user subscribed to."""

    reported: str = ""
    """What it has told its user that is not kept, and has not taken back."""

    @property
    def publishes(self) -> bool:
        """Whether events begin here."""
        return self.bound == 0


Photo = Mapping[str, Seen]
"""All peers at one time, by name; as publishers with `PUBLISHER` behind it."""

PUBLISHER = "*"

ROUNDED = 6
"""Decimals of a millisecond: times are sums, and two ways to add them up differ in the last bits."""


@dataclass(slots=True)
class Told:
    """An event on its way."""

    number: int
    dz: str
    publisher: str
    at: float
    delays: dict[str, float] = field(default_factory=dict)
    """Of those who have it: links that it came over, or milliseconds that it took."""


@dataclass(slots=True)
class Tally:
    """What one peer got in one cycle."""

    due: int = 0
    """Events that its user subscribed to."""

    in_time: int = 0
    """Of these, those that came within the bound."""

    late: int = 0
    received: int = 0
    """All that came, each counted once."""

    repeats: int = 0
    """What came again."""

    @property
    def extra(self) -> int:
        """Events that came without being asked for by the user."""
        return self.received - self.in_time - self.late

    @property
    def came(self) -> int:
        """All that came over the access link."""
        return self.received + self.repeats


@dataclass(frozen=True, slots=True)
class Missed:
    """An event that a peer should have got in time, and did not."""

    event: int
    dz: str
    at: float
    peer: str
    delay: float | None
    """In hops or milliseconds; None if it did not come at all."""


@dataclass(frozen=True, slots=True)
class Stray:
    """An event that came to a peer that did not hold its part of the space, or from one that never had it."""

    event: int
    dz: str
    at: float
    sender: str
    peer: str
    known: bool
    """Whether the sender had it."""


class Trace:
    """Who is there, which events are on their way, and what came of them."""

    def __init__(self, *, timed: bool = False) -> None:
        """`timed`: delays are milliseconds, and not hops."""
        self._timed = timed
        self.joined: dict[str, float] = {}
        """Since when a peer is there."""
        self.bounds: dict[str, float] = {}
        self.published = 0
        self.missed: list[Missed] = []
        self.strays: list[Stray] = []
        self.delivered_twice: list[tuple[int, str]] = []
        self._wanting: dict[str, dict[str, None]] = {}
        """By cell: the peers whose users subscribed to it."""
        self._cells: dict[str, Set] = {}
        self._told: dict[int, Told] = {}
        self._repeats: dict[str, int] = {}
        self._delivered: set[tuple[int, str]] = set()

    def join(self, name: str, wanted: Set, bound: float, now: float) -> None:
        """A peer is there."""
        self.joined[name] = now
        self.bounds[name] = bound
        self._cells[name] = wanted
        for cell in wanted:
            self._wanting.setdefault(cell, {})[name] = None

    def leave(self, name: str) -> None:
        """A peer is no longer there, and is owed nothing."""
        del self.joined[name], self.bounds[name]
        for cell in self._cells.pop(name):
            del self._wanting[cell][name]

    def publish(self, dz: str, publisher: str, now: float) -> int:
        """An event begins; its number."""
        number = self.published
        self.published += 1
        self._told[number] = Told(number, dz, publisher, now, {publisher: 0.0})
        return number

    def arrive(self, number: int, sender: str, peer: str, held: Set, now: float) -> None:
        """An event comes to a peer, from another."""
        told = self._told.get(number)
        if told is None:
            # It was settled: so late an event is lost.
            return
        before = told.delays.get(sender)
        if before is None or not told.dz.startswith(held):
            self.strays.append(Stray(number, told.dz, now, sender, peer, before is not None))
            if before is None:
                return
        if peer in told.delays:
            self._repeats[peer] = self._repeats.get(peer, 0) + 1
        elif self._timed:
            told.delays[peer] = round((now - told.at) * 1000.0, ROUNDED)
        else:
            told.delays[peer] = before + 1.0

    def deliver(self, number: int, peer: str) -> None:
        """A peer gives an event to its user."""
        if (number, peer) in self._delivered:
            self.delivered_twice.append((number, peer))
        self._delivered.add((number, peer))

    def settle(self, before: float) -> dict[str, Tally]:
        """Close all events that were published before a time: what came of them, for those still there."""
        done = [told for told in self._told.values() if told.at < before]
        tallies = {name: Tally(repeats=self._repeats.pop(name, 0)) for name in self.joined}
        self._repeats.clear()
        for told in done:
            del self._told[told.number]
            delays = told.delays
            for name in delays:
                tally = tallies.get(name)
                if tally is not None and name != told.publisher:
                    tally.received += 1
            for length in range(len(told.dz) + 1):
                for name in self._wanting.get(told.dz[:length], ()):
                    if self.joined[name] >= told.at or name == told.publisher:
                        continue
                    tally = tallies[name]
                    tally.due += 1
                    came = delays.get(name)
                    if came is not None and came <= self.bounds[name]:
                        tally.in_time += 1
                        continue
                    if came is not None:
                        tally.late += 1
                    self.missed.append(Missed(told.number, told.dz, told.at, name, came))
        numbers = {told.number for told in done}
        self._delivered = {pair for pair in self._delivered if pair[0] not in numbers}
        return tallies
