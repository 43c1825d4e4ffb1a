"""What a run of brokers carried, counted from their records: who sent to whom, over how many links, and what
passed each link and broker.

A message is what `traffic` calls one: a delivery is a message from its publisher to each receiver, and a
version of an event one from every publisher whose report it was the first to tell. What it would have been
on other ways is not known here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidings.records.record import Kind, Record


@dataclass(frozen=True, slots=True)
class Way:
    """How messages went: from a broker, to the seat if there is one, to a broker."""

    root: str
    """Of the tree; empty where everything was on the spot."""

    origin: str
    seat: str
    """Which took the report; empty for a topic that is not gathered."""

    teller: str
    """Which told the event: another one if the seat had moved by then, or tells it again."""

    goal: str


Passage = tuple[str, bool]
"""A broker that had something, and whether it came over a link."""


@dataclass(frozen=True, slots=True)
class _Said:
    """A report that a version was the first to tell."""

    publisher: str
    seat: str
    hops: int


@dataclass(slots=True)
class Counts:
    """Takes the records of a run as they come."""

    homes: Mapping[str, str]
    """The broker of each session."""

    messages: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By sending and receiving session."""

    hops: int = 0
    """Links that all these came over, as brokers wrote it down; those of clients are not among them."""

    ways: Counter[Way] = field(default_factory=Counter)
    published: Counter[str] = field(default_factory=Counter)
    """By session."""

    links: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By sending and receiving broker: publications, reports and events that went over a link."""

    passed: Counter[str] = field(default_factory=Counter)
    """By broker: what came over links, from its own clients, or was told by its own seats."""

    idle: Counter[str] = field(default_factory=Counter)
    """Of these, reports that are in nothing that anybody got, and versions that nobody got; see `end`."""

    idle_links: int = 0
    """How often such a report went over a link."""

    _roots: dict[str, str] = field(default_factory=dict)
    _begun: dict[str, str] = field(default_factory=dict)
    """By publication that went over a link: where it began."""

    _tellers: dict[tuple[str, int], str] = field(default_factory=dict)
    _said: dict[tuple[str, int], list[_Said]] = field(default_factory=lambda: defaultdict(list))
    _under_way: dict[str, list[Passage]] = field(default_factory=lambda: defaultdict(list))
    """By report that nothing has become of yet: where it was."""

    _waiting: dict[tuple[str, int], list[Passage]] = field(default_factory=lambda: defaultdict(list))
    """By version that nobody has got yet: where it and its reports were."""

    def __call__(self, record: Record) -> None:
        """Take a record."""
        match record.kind:
            case Kind.PUBLISHED:
                self.passed[record.broker] += 1
                self.published[record.client or ""] += 1
                if record.report is not None:
                    self._under_way[record.report].append((record.broker, False))
            case Kind.FORWARDED:
                self._forwarded(record)
            case Kind.OPENED | Kind.MERGED:
                told = (record.event or "", record.version or 0)
                self._said[told].append(_Said(record.publisher or "", record.broker, record.hops or 0))
                self._waiting[told] += self._under_way.pop(record.report or "", [])
            case Kind.TOLD:
                told = (record.event or "", record.version or 0)
                self.passed[record.broker] += 1
                self._tellers[told] = record.broker
                self._waiting[told].append((record.broker, False))
            case Kind.SUPPRESSED if record.report is not None and record.report in self._under_way:
                self._in_vain(self._under_way.pop(record.report))
            case Kind.DELIVERED:
                self._delivered(record)

    def _forwarded(self, record: Record) -> None:
        if record.epoch is not None and record.topic is not None:
            self._roots[record.topic] = record.epoch.rsplit(":", 2)[0]
        if record.link is None and record.message is not None:
            self._begun[record.message] = record.broker
        for receiver in record.receivers:
            self.links[record.broker, receiver] += 1
            self.passed[receiver] += 1
            if record.report is not None:
                self._under_way[record.report].append((receiver, True))

    def _delivered(self, record: Record) -> None:
        root = self._roots.get(record.topic or "", "")
        told = (record.event or "", record.version or 0)
        teller = ""
        if record.event is None:
            said = [_Said(record.publisher or "", "", 0)]
        else:
            said = self._said.get(told, [])
            self._waiting.pop(told, None)
            began = self._begun.get(record.message or "", self._tellers.get(told, record.broker))
            teller = began if record.hops else record.broker
        receivers = record.receivers
        for one in said:
            for receiver in receivers:
                self.messages[one.publisher, receiver] += 1
            self.hops += (one.hops + (record.hops or 0)) * len(receivers)
            way = Way(root, self.homes[one.publisher], one.seat, teller, record.broker)
            self.ways[way] += len(receivers)

    def end(self) -> None:
        """All is over: what nobody has got by now nobody will."""
        for passages in (*self._under_way.values(), *self._waiting.values()):
            self._in_vain(passages)
        self._under_way.clear()
        self._waiting.clear()

    def _in_vain(self, passages: list[Passage]) -> None:
        self.idle.update(broker for broker, _ in passages)
        self.idle_links += sum(over for _, over in passages)
