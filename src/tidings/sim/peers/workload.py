"""Who joins an overlay of peers, and which events are published: drawn by chance, from one seed.

A subscription is a cell of the event space, or a box that takes several cells; a bound is a number of hops.
Events are dz-expressions. Attributes have as many values as a power of two and all of them are as likely, so
that the bits of a uniform event are uniform: they are drawn without their values. How peers talk to each
other is not known here.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from tidings.errors import InputError
from tidings.language.fields import Field, Type
from tidings.space import Space
from tidings.space.expressions import Set

UNIFORM, HOT = "uniform", "hot"
"""The workloads W1 and W2 of the paper (§6)."""

MODERATE, TIGHT = "moderate", "tight"
"""Its scenarios S1 and S2."""

ANYWHERE, LATE = "anywhere", "late"
"""Where the attributes are that a box leaves free."""

EVENT_BITS = 32
"""Of an event, where the attributes have so many: two more rounds of halving than any subscription here."""

HOT_EXPONENT = 1.6
"""Of Zipf's law over 20 hot spots: the first fifth of them then has 80% of the subscriptions."""

STRATA_BITS_MAX = 12
"""Events come in rounds in which every cell of a depth has one; rounds of more than 4,096 would be long."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What is drawn."""

    attributes: int = 10
    """Of the event space (§6: up to 10)."""

    values: int = 128
    """Of each attribute (§6); a power of two."""

    subscriptions: str = UNIFORM
    """`uniform` (W1): anywhere. `hot` (W2): around hot spots."""

    hot_spots: int = 20
    hot_exponent: float = HOT_EXPONENT
    hot_spread: float = 0.05
    """How far subscriptions lie from their hot spot: the standard deviation in each attribute, as a share of
    its values. The paper does not say."""

    depth_least: int = 3
    """A subscription takes the share 2**-depth of the space."""

    depth_most: int = 10
    expressions: int = 1
    """Of each subscription; a power of two. With more than one it is a box that leaves some attributes free
    whose turn to be halved comes before that of the last one it narrows, and so falls into as many cells."""

    free: str = ANYWHERE
    """Which attributes those are: `anywhere`, by chance, or `late`, those just before the last one: then all
    cells of a box lie close to each other in the space."""

    delays: str = MODERATE
    """`moderate` (S1): bounds uniform. `tight` (S2): some want one hop, the others are uniform."""

    delay_most: int = 1000
    one_hop: float = 0.3
    """In S2: the share that wants one hop."""

    def check(self) -> None:
        """Refuse what cannot be drawn."""
        bits = self.values.bit_length() - 1
        rules = {
            "attributes": (1 <= self.attributes <= 64, "1 to 64"),
            "values": (2 <= self.values <= 2**20 and self.values == 1 << bits, "a power of two from 2 on"),
            "subscriptions": (self.subscriptions in (UNIFORM, HOT), f"{UNIFORM} or {HOT}"),
            "hot_spots": (self.hot_spots >= 1, "1 or more"),
            "hot_exponent": (self.hot_exponent >= 0, "0 or more"),
            "hot_spread": (self.hot_spread >= 0, "0 or more"),
            "depth_least": (1 <= self.depth_least <= self.depth_most, "1 to depth_most"),
            "depth_most": (
                self.depth_most + self.box_bits <= self.event_bits,
                f"no more than the bits of an event, {self.event_bits}",
            ),
            "expressions": (
                self.expressions == 1 << self.box_bits and self.box_bits < self.attributes,
                "a power of two below 2**attributes",
            ),
            "free": (self.free in (ANYWHERE, LATE), f"{ANYWHERE} or {LATE}"),
            "delays": (self.delays in (MODERATE, TIGHT), f"{MODERATE} or {TIGHT}"),
            "delay_most": (self.delay_most >= 1, "1 or more"),
            "one_hop": (0 <= self.one_hop <= 1, "a share from 0 to 1"),
        }
        for name, (kept, rule) in rules.items():
            if not kept:
                value = getattr(self, name)
                raise InputError(f"{name} cannot be {value!r} in a workload of peers; give {rule}")

    @property
    def event_bits(self) -> int:
        """Of an event."""
        return min(EVENT_BITS, self.attributes * (self.values.bit_length() - 1))

    @property
    def strata_bits(self) -> int:
        """How deep the cells are of which each has an event in every round."""
        return min(self.event_bits, self.depth_most, STRATA_BITS_MAX)

    @property
    def round_length(self) -> int:
        """Events of a round."""
        return 1 << self.strata_bits

    @property
    def box_bits(self) -> int:
        """How many halvings lie between a box's cell and the attribute that narrows it."""
        return self.expressions.bit_length() - 1


@dataclass(frozen=True, slots=True)
class Wish:
    """What a peer wants."""

    subscription: Set
    """dz-expressions of the user level."""

    bound: int
    """Hops that it tolerates."""


class Draws:
    """Wishes and events of a workload, one after the other."""

    def __init__(self, workload: Workload, seed: int | str) -> None:
        workload.check()
        self.workload = workload
        self._wishes = random.Random(f"peers/wishes/{seed}")
        self._events = random.Random(f"peers/events/{seed}")
        self._bits = workload.event_bits
        self._strata_bits = workload.strata_bits
        self._round: Iterator[str] = iter(())
        names = [f"a{number}" for number in range(workload.attributes)]
        self._names = names
        self._space = Space.of({(name,): Field((name,), Type.INT, (1, workload.values)) for name in names})
        self._spots = [self._point() for _ in range(workload.hot_spots)]
        weights = (number**-workload.hot_exponent for number in range(1, workload.hot_spots + 1))
        self._weights = list(accumulate(weights))

    def wish(self) -> Wish:
        """What the next newcomer wants."""
        workload, chance = self.workload, self._wishes
        depth = chance.randint(workload.depth_least, workload.depth_most)
        place = self._point() if workload.subscriptions == UNIFORM else self._around()
        bits = self._space.point(dict(zip(self._names, place, strict=True)), depth + workload.box_bits)
        free = self._free(len(bits), depth)
        subscription = tuple(sorted(_filled(bits, free, text) for text in _texts(len(free))))
        tight = workload.delays == TIGHT and chance.random() < workload.one_hop
        return Wish(subscription, 1 if tight else chance.randint(1, workload.delay_most))

    def _free(self, length: int, depth: int) -> list[int]:
        """Which bits of a subscription are open; of an attribute only those after which none is narrowed."""
        count, attributes = self.workload.box_bits, self.workload.attributes
        late = list(range(depth - 1, length - 1))
        if self.workload.free == LATE or not late:
            return late
        while True:
            free = sorted(self._wishes.sample(range(length - 1), count))
            after = {at + attributes for at in free if at + attributes < length}
            if after <= set(free):
                return free

    def event(self) -> str:
        """The next event: uniform, and in each round one in every cell of the strata, in any order."""
        found = next(self._round, None)
        if found is None:
            cells = _texts(self._strata_bits)
            self._events.shuffle(cells)
            self._round = iter(cells)
            found = next(self._round)
        more = self._bits - self._strata_bits
        return found + format(self._events.getrandbits(more), f"0{more}b") if more else found

    def _point(self) -> list[int]:
        return [self._wishes.randint(1, self.workload.values) for _ in self._names]

    def _around(self) -> list[int]:
        """A point near a hot spot."""
        spot = self._spots[bisect(self._weights, self._wishes.random() * self._weights[-1])]
        spread = self.workload.hot_spread * self.workload.values
        most = self.workload.values
        return [min(max(round(self._wishes.gauss(value, spread)), 1), most) for value in spot]


def satisfiable(bounds: Iterable[int], out_degree: int) -> int:
    """How many of some peers any overlay under one publisher could serve within their bounds at best.

    Within k hops of the publisher there are at most m + m**2 + … + m**k places, so of those with bounds up to
    k no more can be served, whatever they subscribe to and whatever waste they accept.

    >>> satisfiable([1, 1, 1, 2], out_degree=2)
    3
    """
    served = places = reached = 0
    for bound in sorted(bounds):
        while reached < bound and places < 1 << 60:
            reached += 1
            places += out_degree**reached
        served = min(served + 1, places)
    return served


def _filled(bits: str, free: Iterable[int], values: str) -> str:
    """Some bits, with other values in some places."""
    found = list(bits)
    for at, value in zip(free, values, strict=True):
        found[at] = value
    return "".join(found)


def _texts(bits: int) -> list[str]:
    """All texts of so many bits, in order."""
    return [format(number, f"0{bits}b") for number in range(1 << bits)] if bits else [""]
