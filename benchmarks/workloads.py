"""The four workloads of the matching benchmark, from a seed.

Filters are made as boxes, not parsed: reading a million texts would take minutes and measure the parser.
Their texts are made too, and a sample of them is parsed and compared, so that they are the filters that
their texts say.

W1  ten whole-number attributes 1..128, three range constraints each, about 0.5% of the filters match an
event W2  the same attributes, but filters and events lie around twenty hot spots, chosen by Zipf (80% on a
fifth of them) W3  equality on a topic (one of a thousand, by Zipf with exponent 0.7), and one to three
constraints of mixed sorts W4  two-dimensional boxes from two hierarchies of interests: an interest is a node
of each, events are leaves
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from tidings.language.cuts import Cuts
from tidings.language.fields import Field, Path, Type
from tidings.language.filters import Filter, Unknown, parse
from tidings.language.regions import Box, Kind, Region, Values

Event = Mapping[str, object]


class Ready(Filter):
    """A filter of one conjunction that was never text: as small and as quick to ask as can be."""

    __slots__ = ("box", "words")

    def __init__(self, box: Box, words: str) -> None:
        self.box = box
        self.words = words

    def boxes(self, unknown: Unknown) -> tuple[Box, ...]:  # noqa: ARG002
        return (self.box,)

    def matches(self, event: Event, unknown: Unknown = Unknown.WAIT) -> bool:  # noqa: ARG002
        return all(event.get(path[0]) in region for path, region in self.box)


@dataclass(frozen=True, slots=True)
class Interval:
    """One constraint, in the form that the peers take."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Workload:
    """Filters and events."""

    name: str
    title: str
    numeric: tuple[str, ...]
    """The attributes that a tree of boxes can index, the best first."""

    domain: tuple[float, float]
    """All their values lie in here."""

    filters: list[Ready]
    intervals: list[tuple[Interval, ...]]
    """Per filter, its numeric constraints."""

    events: list[dict[str, Any]]
    topics: tuple[str, ...] = ()
    """The values of `topic`, which the peers take as its number."""


_between: dict[tuple[float, float], Region] = {}
_equal: dict[Any, Region] = {}


def between(low: int, high: int) -> Region:
    found = _between.get((low, high))
    if found is None:
        found = _between[low, high] = Region(
            False, False, ((Kind.NUMBER, Values(Cuts(False, (low, high + 1)))),)
        )
    return found


def equal(text: str) -> Region:
    found = _equal.get(text)
    if found is None:
        found = _equal[text] = Region(
            False, False, ((Kind.STRING, Values(Cuts(False, (text, text + "\0")))),)
        )
    return found


def truth(value: bool) -> Region:
    return Region(False, False, ((Kind.BOOL, Values(Cuts(False, (1,)) if value else Cuts(True, (1,)))),))


NAMES: tuple[Path, ...] = tuple((f"a{at}",) for at in range(10))


def _zipf(count: int, power: float = 1.0) -> list[float]:
    return list(accumulate(1 / (rank + 1) ** power for rank in range(count)))


def _pick(rng: random.Random, weights: list[float]) -> int:
    return rng.choices(range(len(weights)), cum_weights=weights)[0]


def _ranges(
    rng: random.Random, widths: tuple[int, int], centre: Callable[[int], float] | None
) -> tuple[Ready, tuple[Interval, ...]]:
    box: list[tuple[Path, Region]] = []
    intervals = []
    words = []
    for at in sorted(rng.sample(range(10), 3)):
        width = rng.randint(*widths)
        if centre is None:
            low = rng.randint(1, 129 - width)
        else:
            low = min(max(1, round(rng.gauss(centre(at), 10) - width / 2)), 129 - width)
        high = low + width - 1
        box.append((NAMES[at], between(low, high)))
        intervals.append(Interval(f"a{at}", low, high))
        words.append(f"a{at} BETWEEN {low} AND {high}")
    return Ready(tuple(box), " AND ".join(words)), tuple(intervals)


def w1(count: int, events: int, seed: int = 1) -> Workload:
    rng = random.Random(seed)
    # 22 of 128 values on average; three of them hold 0.5% of the space.
    made = [_ranges(rng, (12, 32), None) for _ in range(count)]
    happened = [{f"a{at}": rng.randint(1, 128) for at in range(10)} for _ in range(events)]
    return Workload(
        "W1",
        "ranges, uniform",
        tuple(f"a{at}" for at in range(10)),
        (1, 128),
        [one for one, _ in made],
        [some for _, some in made],
        happened,
    )


def w2(count: int, events: int, seed: int = 2) -> Workload:
    rng = random.Random(seed)
    spots = [[rng.uniform(10, 119) for _ in range(10)] for _ in range(20)]
    weights = _zipf(20, 1.16)
    made = []
    for _ in range(count):
        spot = spots[_pick(rng, weights)]
        # Narrower than in W1, so that as many filters match.
        made.append(_ranges(rng, (6, 16), lambda at, spot=spot: spot[at]))  # type: ignore[misc]
    happened = []
    for _ in range(events):
        spot = spots[_pick(rng, weights)]
        happened.append({f"a{at}": min(128, max(1, round(rng.gauss(spot[at], 16)))) for at in range(10)})
    return Workload(
        "W2",
        "ranges, hot spots",
        tuple(f"a{at}" for at in range(10)),
        (1, 128),
        [one for one, _ in made],
        [some for _, some in made],
        happened,
    )


def w3(count: int, events: int, seed: int = 3) -> Workload:
    rng = random.Random(seed)
    topics = tuple(
        f"traffic/{place}/{what}" for place in range(200) for what in ("jam", "fire", "work", "ice", "flood")
    )
    weights = _zipf(len(topics), 0.7)
    cities = [f"city{at}" for at in range(50)]
    city_weights = _zipf(50)
    made = []
    for _ in range(count):
        topic = topics[_pick(rng, weights)]
        parts: list[tuple[Path, Region]] = []
        intervals = [Interval("topic", topics.index(topic), topics.index(topic))]
        words = [f"topic = '{topic}'"]
        for sort in sorted(rng.sample(["city", "fire", "lanes", "severity", "speed"], rng.randint(1, 3))):
            if sort == "city":
                city = cities[_pick(rng, city_weights)]
                parts.append((("city",), equal(city)))
                words.append(f"city = '{city}'")
            elif sort == "fire":
                value = rng.random() < 0.5
                parts.append((("fire",), truth(value)))
                words.append(f"fire = {value}")
            else:
                top = {"lanes": 8, "severity": 10, "speed": 200}[sort]
                low = rng.randint(0, top)
                high = top if rng.random() < 0.7 else rng.randint(low, top)
                parts.append(((sort,), between(low, high)))
                intervals.append(Interval(sort, low, high))
                words.append(f"{sort} BETWEEN {low} AND {high}")
        parts.append((("topic",), equal(topic)))
        made.append(
            (Ready(tuple(sorted(parts, key=lambda part: part[0])), " AND ".join(words)), tuple(intervals))
        )
    happened = [
        {
            "topic": topics[_pick(rng, weights)],
            "city": cities[_pick(rng, city_weights)],
            "fire": rng.random() < 0.3,
            "lanes": rng.randint(0, 8),
            "severity": rng.randint(0, 10),
            "speed": rng.randint(0, 200),
        }
        for _ in range(events)
    ]
    return Workload(
        "W3",
        "topic and mixed",
        ("topic", "severity", "speed", "lanes"),
        (0, 1000),
        [one for one, _ in made],
        [some for _, some in made],
        happened,
        topics,
    )


def w4(count: int, events: int, seed: int = 4) -> Workload:
    rng = random.Random(seed)
    # A hierarchy of four levels, each node with eight children: 4096 leaves; an interest is a node at some
    # level, the deeper the likelier, and its box is the run of leaves below it.
    depth_weights = list(accumulate([1, 4, 20, 75]))
    first = _zipf(8)

    def node() -> tuple[int, int]:
        depth = rng.choices((1, 2, 3, 4), cum_weights=depth_weights)[0]
        at = _pick(rng, first)
        for _ in range(depth - 1):
            at = at * 8 + _pick(rng, first)
        size = 8 ** (4 - depth)
        return at * size, at * size + size - 1

    made = []
    for _ in range(count):
        (x_low, x_high), (y_low, y_high) = node(), node()
        box = ((("x",), between(x_low, x_high)), (("y",), between(y_low, y_high)))
        words = f"x BETWEEN {x_low} AND {x_high} AND y BETWEEN {y_low} AND {y_high}"
        made.append((Ready(box, words), (Interval("x", x_low, x_high), Interval("y", y_low, y_high))))

    def leaf() -> int:
        at = 0
        for _ in range(4):
            at = at * 8 + _pick(rng, first)
        return at

    happened = [{"x": leaf(), "y": leaf()} for _ in range(events)]
    return Workload(
        "W4",
        "two hierarchies",
        ("x", "y"),
        (0, 4095),
        [one for one, _ in made],
        [some for _, some in made],
        happened,
    )


WORKLOADS = {"W1": w1, "W2": w2, "W3": w3, "W4": w4}


def declared(workload: Workload) -> dict[Path, Field]:
    """The fields as a topic would declare them, by what an event holds."""
    types = {int: Type.INT, bool: Type.BOOL, str: Type.STRING}
    return {(name,): Field((name,), types[type(value)]) for name, value in workload.events[0].items()}


def verify(workload: Workload, sample: int = 200) -> None:
    """The texts of some filters, parsed, say the same as the boxes."""
    fields = declared(workload)
    for ready in workload.filters[:sample]:
        parsed = parse(ready.words, fields)
        assert parsed.boxes(Unknown.WAIT) == (ready.box,), (
            f"{ready.words}: {parsed.boxes(Unknown.WAIT)} != {ready.box}"
        )
        for event in workload.events[:5]:
            assert parsed.matches(event) == ready.matches(event)
