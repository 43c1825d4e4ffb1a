"""The small workload of the opening: what happens on the roads of Athens, who says what about it, who asks.

Everything follows from a seed. Reports say parts of what happened, and never what did not: fields agree but
for how bad it is, where the greatest value counts. So what is known in the end does not depend on the order
in which reports arrive, and can be said here, without a broker. Nothing here knows a network or a clock.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tidings.language.declarations import parse_topic
from tidings.language.filters import Filter
from tidings.language.filters import parse as parse_filter
from tidings.language.topics import Topic

BROKERS = ("north", "east", "south", "west")
LINKS = (("east", "north"), ("south", "east"), ("west", "south"), ("west", "north"))
"""A ring: whichever dies, the others still reach each other."""

SECONDS = 13.0
"""How long people report."""

TOPICS = ("traffic/athens", "traffic/piraeus")

DECLARATION = """\
# Reports about roads, told within a second.
name = "{name}"
kind = "gathered"
key = ["place"]             # reports about one place are about one event
merge_after = "800ms"       # Tm: collect reports that long before the event is told, and told again
redundant_for = "1h"        # Tr: longer than all of this takes anywhere, so that no event ends meanwhile
stays_open = "reported"
window = "none"

[fields]
place    = {{ type = "string" }}
road     = {{ type = "string", domain = ["A1", "A2", "A6", "E75"] }}
severity = {{ type = "int", domain = [0, 5], conflict = "max" }}
injured  = {{ type = "int", domain = [0, 100], conflict = "max" }}
lanes    = {{ type = "int", domain = [0, 8] }}
fire     = {{ type = "bool" }}
note     = {{ type = "string" }}
"""

GREATEST = ("severity", "injured")
"""Fields of which the greatest value counts; of all others, reports say the same."""

Value = str | int
Fields = dict[str, Value]


class Fate(StrEnum):
    """What a report does for what is known."""

    OPENS = "opens"
    MERGES = "merges"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened."""

    topic: str
    at_s: float
    truth: Fields

    later: Fields
    """What is so only after a while."""


@dataclass(frozen=True, slots=True)
class Report:
    """What somebody says about it."""

    at_s: float
    topic: str
    broker: str
    """Where it is published."""

    fields: Fields

    @property
    def place(self) -> str:
        """What it is about."""
        return str(self.fields["place"])


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Somebody who wants to hear of some of it."""

    name: str
    broker: str
    topic_filter: str
    where: str = ""
    every: str | None = None

    @property
    def wish(self) -> str:
        """What it asks for, in words."""
        return ", ".join([self.where or self.topic_filter, *([f"every {self.every}"] if self.every else [])])

    def wants(self, topic: str, known: Mapping[str, object]) -> bool:
        """Whether what is known is what it asks for."""
        if self.topic_filter not in ("traffic/#", topic):
            return False
        return not self.where or parsed(self.where).evaluate(known) is True


SUBSCRIBERS = (
    Subscriber("crews", "north", "traffic/#", "fire"),
    Subscriber("medics", "east", "traffic/#", "injured > 0"),
    Subscriber("patrol", "south", "traffic/athens", "road = 'A1'"),
    Subscriber("radio", "west", "traffic/#", "severity >= 4", every="3s"),
    Subscriber("buses", "north", "traffic/#", "lanes <= 1"),
    Subscriber("port", "south", "traffic/piraeus"),
    Subscriber("desk", "east", "traffic/#"),
)

HAPPENINGS = (
    Happening(
        "traffic/athens",
        0.0,
        {"place": "Omonia", "road": "A1", "severity": 2, "lanes": 1},
        {"severity": 4},
    ),
    Happening(
        "traffic/athens",
        0.8,
        {"place": "Attiki Odos 4", "road": "A6", "severity": 3, "lanes": 0, "note": "lorry on its side"},
        {"severity": 5, "injured": 3, "fire": True},
    ),
    Happening(
        "traffic/piraeus",
        1.5,
        {"place": "Gate E3", "road": "A1", "severity": 1, "lanes": 2},
        {},
    ),
    Happening(
        "traffic/athens",
        3.0,
        {"place": "Kifisias 12", "road": "A2", "severity": 2, "lanes": 2},
        {"injured": 1, "note": "bus and car"},
    ),
    Happening(
        "traffic/athens",
        5.0,
        {"place": "Syntagma", "road": "A1", "severity": 3, "lanes": 1, "note": "black smoke"},
        {"fire": True, "severity": 4},
    ),
    Happening(
        "traffic/piraeus",
        7.5,
        {"place": "Akti Miaouli", "road": "E75", "severity": 2, "lanes": 1},
        {"injured": 2, "severity": 3},
    ),
    Happening(
        "traffic/athens",
        8.5,
        {"place": "Mesogeion 40", "road": "A2", "severity": 1, "lanes": 3},
        {},
    ),
)

LATER_S = 3.5
"""After so long more is to be seen."""

EVERY_S = 0.45
"""How often something is reported that has happened, more or less; new things more often."""


def topics() -> dict[str, Topic]:
    """The topics, declared."""
    return {name: parse_topic(DECLARATION.format(name=name), name) for name in TOPICS}


@functools.cache
def parsed(where: str) -> Filter:
    """A filter over the fields of the topics, which are the same for all."""
    return parse_filter(where, topics()[TOPICS[0]].fields)


def reports(seed: int) -> list[Report]:
    """What people say: each sees a part, some see it smaller than it is, and most say what is known."""
    rng = random.Random(seed)
    said = [report for happening in HAPPENINGS for report in _about(happening, rng)]
    return sorted(said, key=lambda report: report.at_s)


def _about(happening: Happening, rng: random.Random) -> Iterable[Report]:
    at_s = happening.at_s
    while at_s < SECONDS:
        age_s = at_s - happening.at_s
        truth = happening.truth | (happening.later if age_s >= LATER_S else {})
        others = sorted(truth.keys() - {"place"})
        seen = {"place", *rng.sample(others, min(len(others), rng.choice((1, 1, 2, 3))))}
        told = {name: value for name, value in truth.items() if name in seen}
        for name in GREATEST:
            if name in told:
                told[name] = max(1, int(told[name]) - rng.choice((0, 0, 0, 1, 2)))
        yield Report(round(at_s, 3), happening.topic, rng.choice(BROKERS), told)
        at_s += rng.uniform(0.5, 1.5) * EVERY_S * (0.6 if age_s < 1 else 1.0)


@dataclass
class Known:
    """What is known of one thing, by the reports about it so far."""

    fields: Fields = field(default_factory=dict)
    reports: int = 0
    """Those that told something new."""

    def take(self, said: Mapping[str, Value]) -> Fate:
        """Add what a report says; what that does."""
        before = dict(self.fields)
        for name, value in said.items():
            if name in GREATEST:
                self.fields[name] = max(int(value), int(self.fields.get(name, value)))
            else:
                self.fields.setdefault(name, value)
        if self.fields == before:
            return Fate.DROPPED
        self.reports += 1
        return Fate.MERGES if before else Fate.OPENS


def finals(said: Sequence[Report]) -> dict[tuple[str, str], Fields]:
    """What is known in the end, by topic and place, if every report counts once."""
    known: dict[tuple[str, str], Known] = {}
    for report in said:
        known.setdefault((report.topic, report.place), Known()).take(report.fields)
    return {place: one.fields for place, one in known.items()}
