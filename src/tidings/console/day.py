"""A day of a network, as plain values: all that the page of a demonstration is drawn from.

Times are seconds since the day began, as the network saw them; whoever made it says how much faster than life
that was. Nothing here knows how a figure was come by.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker, and what it had to do."""

    id: str
    region: str
    x: float
    y: float
    """Where it is drawn; units do not matter."""

    published: int
    forwarded: int
    delivered: int
    cpu_s: float | None = None
    seats: tuple[str, ...] = ()
    """Topics whose reports it gathered."""


@dataclass(frozen=True, slots=True)
class Link:
    """Two brokers that are joined, and what went over it in both directions."""

    a: str
    b: str
    messages: int
    bytes: int
    reports: int = 0
    """Of the messages, those that were reports on their way to a seat."""


@dataclass(frozen=True, slots=True)
class Topic:
    """What became of the reports of a topic."""

    name: str
    reports: int
    redundant: int
    merged: int
    opened: int
    versions: int
    delivered: int


@dataclass(frozen=True, slots=True)
class Moment:
    """Some seconds of the day."""

    at_s: float
    reports: int
    versions: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Happening:
    """Something in the life of an event: a report that came, or a version that was told."""

    at_s: float
    kind: str
    """`report` or `version`."""

    by: str
    """The reporter, or the seat."""

    became: str
    """Of a report `opened`, `merged` or `redundant`; of a version its number."""

    says: tuple[tuple[str, str], ...]
    """Fields and values: of a report all that it said, of a version what is new in it."""

    receivers: int = 0
    """Of a version."""


@dataclass(frozen=True, slots=True)
class Life:
    """One event, from its first report to its last version."""

    event: str
    topic: str
    truth: tuple[tuple[str, str], ...]
    happenings: tuple[Happening, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """What the same day costs in some way of carrying it; run, not computed."""

    way: str
    """Such as `Tidings`, `without gathering`, `mosquitto`."""

    delivered: int
    """Messages that clients got."""

    unwanted: int
    """Of these, those that their filter does not ask for."""

    delivered_bytes: int
    carried: int | None
    """Messages between brokers; None where there is one broker."""

    cpu_s: float | None
    """Of all brokers together."""

    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Saving:
    """A figure of the day as it was, and as it would be by a plan: a forecast."""

    what: str
    before: float
    after: float
    by: str
    """What it takes."""


@dataclass(frozen=True, slots=True)
class Resident:
    """A broker with its clients, as it was and by a plan."""

    broker: str
    before: int
    after: int
    keeps: tuple[str, ...] = ()
    """Topics that would be kept there."""


@dataclass(frozen=True, slots=True)
class Plans:
    """What was planned for such days; nothing of it is done."""

    savings: tuple[Saving, ...]
    residents: tuple[Resident, ...]
    pages: tuple[tuple[str, str], ...] = ()
    """Pages of the plans themselves: what each is about, and its file beside the page of the day."""


@dataclass(frozen=True, slots=True)
class Check:
    """Something that had to hold, and what was seen."""

    name: str
    seen: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the demonstration, and how long it took."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Day:
    """All of it."""

    title: str
    size: str
    seed: int
    speed_up: float
    subscribers: int
    subscriptions: int
    events: int
    brokers: tuple[Broker, ...]
    links: tuple[Link, ...]
    topics: tuple[Topic, ...]
    moments: tuple[Moment, ...]
    life: Life | None
    latencies_ms: tuple[tuple[float, int], ...]
    """How many deliveries took about so long, from the report that made them due; by time."""

    costs: tuple[Cost, ...]
    checks: tuple[Check, ...]
    steps: tuple[Step, ...]
    plans: Plans | None = None
    notes: tuple[str, ...] = field(default=())
    """What the reader should know: that the machine fell behind, that mosquitto was not found."""
