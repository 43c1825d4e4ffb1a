"""The numbers of the model: what the paper says, and a choice for each thing that it leaves open.

Times are in the paper's simulated time units; in brokers a unit is a second. `tidings reproduce agele --set
NAME=VALUE` changes one for all figures that do not vary it themselves.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from tidings.errors import InputError

UNIT_US = 1_000_000
"""Microseconds of a time unit."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Of one run. "Open" marks what the paper does not say."""

    overlay: str = "random"
    """"random" or "power-law" (§6.1)."""

    brokers: int = 500
    """§6.2; figure 5 has 100 to 3,200, figure 6 has 300."""

    degree: float = 3.0
    """Mean number of links of a broker in the random overlay. Open."""

    links_each: int = 2
    """Links that a newcomer makes in the power-law overlay. Open."""

    hop: float = 1.5
    """Time over one link. Open."""

    events: int = 40
    """In one run. Open."""

    publishers: float = 0.2
    """Share of brokers that may publish about an event (§6.1)."""

    messages: float = 0.3
    """Mean of the Poisson number of messages that each of them sends about it. Open."""

    where: str = "even"
    """Where publishers may be: "even", anywhere (§6.1), or, beyond the paper, "corner", in one branch of the
    tree."""

    tb: float = 100.0
    """Tb: an event's duration is drawn uniformly below it."""

    fields: int = 20
    """Of a complete event, the key included (§6.1)."""

    filled_least: int = 1
    """Fields of a message, the key counted (§6.1)."""

    filled_most: int = 10

    tm: float = 5.0
    """Tm, the merge threshold."""

    tr: float = 10.0
    """Tr, the redundant threshold."""

    complete: str = "report"
    """What is told at once because it is complete: a "report" that arrives so, or an "event". §5.2 speaks of
    a message that is received."""

    seat: str = "centre"
    """Which broker gathers: "centre", as published, "median" or "traffic"."""

    seats: int = 1
    """Among how many brokers events are divided. Beyond the paper."""

    on_the_way: str = "nothing"
    """What brokers before the seat do with messages: "nothing", "drop", "merge". Beyond the paper."""

    def changed(self, given: Mapping[str, object]) -> Setting:
        """The same with some numbers changed; they may be texts, as they come from a command line."""
        kinds = {field.name: type(getattr(self, field.name)) for field in fields(self)}
        for name in given:
            if name not in kinds:
                raise InputError(f"there is no setting {name!r}; there are {', '.join(kinds)}")
        try:
            values = {name: kinds[name](value) for name, value in given.items()}
        except ValueError as error:
            raise InputError(f"a setting cannot be read: {error}") from None
        setting = replace(self, **values)
        setting.check()
        return setting

    def check(self) -> None:
        """Refuse what cannot be run."""
        rules = {
            "overlay": self.overlay in ("random", "power-law"),
            "brokers": 2 <= self.brokers <= 100_000,
            "degree": 1.0 <= self.degree <= self.brokers - 1,
            "links_each": 1 <= self.links_each < self.brokers,
            "hop": self.hop > 0,
            "events": self.events >= 1,
            "publishers": 0 < self.publishers <= 1,
            "messages": 0 < self.messages < 700,
            "where": self.where in ("even", "corner"),
            "tb": self.tb > 0,
            "fields": 1 <= self.fields <= 60,
            "filled_least": 1 <= self.filled_least <= self.filled_most,
            "filled_most": self.filled_most <= self.fields,
            "tm": 0 <= self.tm <= self.tr,
            "complete": self.complete in ("report", "event"),
            "seat": self.seat in ("centre", "median", "traffic"),
            "seats": 1 <= self.seats <= 64,
            "on_the_way": self.on_the_way in ("nothing", "drop", "merge"),
        }
        for name, kept in rules.items():
            if not kept:
                raise InputError(
                    f"{name} cannot be {getattr(self, name)!r} here; papers/agele/README.md says why"
                )

    @property
    def hop_us(self) -> int:
        """Time over one link, in microseconds."""
        return round(self.hop * UNIT_US)


def chance(seed: int, *what: object) -> random.Random:
    """Chance for one thing: the same seed and the same thing give the same, in any process."""
    return random.Random("/".join(("agele", str(seed), *map(str, what))))
