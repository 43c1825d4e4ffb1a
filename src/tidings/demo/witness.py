"""What was seen in the opening: what people said, what each subscriber got, and whether that is all of it.

It judges by what was published and what arrived, and by nothing that a broker says of itself. It knows no
network, no clock and no screen.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidings.demo import roads
from tidings.demo.roads import Fate, Fields, Known, Report, Subscriber

Thing = tuple[str, str]
"""What reports are about: topic and place."""

REPORTS_SHOWN = 60
"""More than any screen has lines for."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A version of an event as it reached a subscriber."""

    topic: str
    event: str
    version: int
    reports: int
    seat: str
    fields: Mapping[str, object]

    dup: bool = False
    """Whether its broker said that it may have sent it before."""

    @property
    def thing(self) -> Thing:
        """What it is about."""
        return self.topic, str(self.fields["place"])


@dataclass
class Event:
    """The latest that any subscriber has heard of an event."""

    latest: Delivered
    has: dict[str, int] = field(default_factory=dict)
    """Who has heard of it, and which version last."""


class Witness:
    """Sees everything."""

    def __init__(self, subscribers: Sequence[Subscriber], reports: Sequence[Report]) -> None:
        self._subscribers = {one.name: one for one in subscribers}
        self._finals = roads.finals(reports)
        self._known: dict[Thing, Known] = {}
        self._last: dict[tuple[str, Thing], Delivered] = {}
        self._seen: set[tuple[str, str, int]] = set()
        self.said: deque[tuple[Report, Fate]] = deque(maxlen=REPORTS_SHOWN)
        """The latest reports."""
        self.fates: Counter[Fate] = Counter()
        self.events: dict[str, Event] = {}
        """By id, in the order in which they were first told."""
        self.got: Counter[str] = Counter()
        """Deliveries by subscriber."""
        self.unwanted: list[str] = []
        """What came without being asked for, in words."""
        self.repeated: list[str] = []
        """Versions that came to a subscriber that had them, in words."""
        self.resent = 0
        """The same where the broker marked them as sent again (DUP): with QoS 1 MQTT has it send again what
        it does not know to be acknowledged, after a connection or the broker itself has ended."""

    def says(self, report: Report) -> None:
        """Somebody has reported something."""
        fate = self._known.setdefault((report.topic, report.place), Known()).take(report.fields)
        self.fates[fate] += 1
        self.said.append((report, fate))

    def hears(self, name: str, delivered: Delivered) -> None:
        """A subscriber has got a version of an event."""
        self.got[name] += 1
        version = name, delivered.event, delivered.version
        if version in self._seen and delivered.dup:
            self.resent += 1
        elif version in self._seen:
            self.repeated.append(f"{name} got version {delivered.version} of {delivered.event} again")
        self._seen.add(version)
        event = self.events.setdefault(delivered.event, Event(delivered))
        event.has[name] = max(delivered.version, event.has.get(name, 0))
        if delivered.version > event.latest.version:
            event.latest = delivered
        before = self._last.get((name, delivered.thing))
        if before is None or before.event != delivered.event or before.version < delivered.version:
            self._last[name, delivered.thing] = delivered
        if not self._subscribers[name].wants(delivered.topic, delivered.fields):
            self.unwanted.append(
                f"{name} asked for {self._subscribers[name].wish} and got {dict(delivered.fields)}"
            )

    @property
    def reports(self) -> int:
        """How many have been said."""
        return self.fates.total()

    @property
    def versions(self) -> int:
        """How many versions of events anybody has got."""
        return len({(event, version) for _, event, version in self._seen})

    @property
    def deliveries(self) -> int:
        """All that subscribers have got."""
        return self.got.total()

    def missing(self) -> list[str]:
        """What subscribers should have in the end and do not, in words; one for each event and subscriber."""
        return [
            f"{one.name} asked for {one.wish} and should know of {place}: {_words(final)}; it has "
            + ("nothing" if had is None else f"version {had.version}: {_words(had.fields)}")
            for one in self._subscribers.values()
            for (topic, place), final in self._finals.items()
            if one.wants(topic, final)
            and ((had := self._last.get((one.name, (topic, place)))) is None or dict(had.fields) != final)
        ]

    @property
    def expected(self) -> int:
        """How many events subscribers should know of in the end, all taken together."""
        return sum(
            one.wants(topic, final)
            for one in self._subscribers.values()
            for (topic, _), final in self._finals.items()
        )


def _words(fields: Mapping[str, object] | Fields) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.items() if name != "place")
