"""Who publishes what when: the messages of a run.

An event is a key and a duration. Each potential publisher sends a Poisson number of messages at uniform times
within the duration, each with some of the event's fields. All events of a run begin at the same time, which
is the hardest case for the gatherer's buffer and changes nothing else: events have nothing to do with each
other.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from papers.agele.network import Network
from papers.agele.setting import UNIT_US, Setting, chance


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a publisher."""

    at_us: int
    """When it is published, from the beginning of the run."""

    broker: int
    """Where."""

    fields: int
    """Which fields it has: a bit for each, the lowest for the key."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An event with all that is published about it; there is something."""

    number: int
    messages: tuple[Message, ...]
    """By time."""

    @property
    def first_us(self) -> int:
        """When its first message is published."""
        return self.messages[0].at_us

    @property
    def fields(self) -> int:
        """All fields that are ever published."""
        return reduce(or_, (message.fields for message in self.messages))


def draw(setting: Setting, network: Network, seed: int, *what: object) -> list[Occurrence]:
    """The events of a run by chance; those of which nobody says anything are left out."""
    source = chance(seed, "workload", setting.brokers, setting.tb, *what)
    wanted = max(1, round(setting.brokers * setting.publishers))
    candidates = range(network.size) if setting.where == "even" else _corner(network, wanted)
    drawn = []
    for number in range(setting.events):
        duration_us = source.random() * setting.tb * UNIT_US
        messages = [
            Message(int(source.random() * duration_us), broker, _fields(setting, source))
            for broker in source.sample(candidates, wanted)
            for _ in range(_poisson(setting.messages, source))
        ]
        if messages:
            messages.sort(key=lambda one: (one.at_us, one.broker, one.fields))
            drawn.append(Occurrence(number, tuple(messages)))
    return drawn


def _corner(network: Network, least: int) -> Sequence[int]:
    """The smallest part of at least so many brokers that one link joins to the rest of the tree."""
    distances = network.distances
    best = list(range(network.size))
    for one, other in enumerate(network.parents):
        if other >= 0:
            behind = distances[:, one] < distances[:, other]
            for side in (behind, ~behind):
                if least <= int(side.sum()) < len(best):
                    best = [int(at) for at in side.nonzero()[0]]
    return best


def _fields(setting: Setting, source: random.Random) -> int:
    count = source.randint(setting.filled_least, setting.filled_most)
    return 1 | sum(1 << field for field in source.sample(range(1, setting.fields), count - 1))


def _poisson(mean: float, source: random.Random) -> int:
    """Knuth's way: the means here are small."""
    limit, product, count = math.exp(-mean), source.random(), 0
    while product > limit:
        count += 1
        product *= source.random()
    return count
