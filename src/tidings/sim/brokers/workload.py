"""Who subscribes to what, and who publishes what when: from a few numbers and a seed.

Topics are `area0/topic0`, `area0/topic1`, … Every payload has a number `n`, which no other has, and a `value`
between 0 and a million. A subscription asks for one topic, or for several by a wildcard, and for an interval
of values that is as wide as the wanted number of matches needs. A workload comes from a name or a TOML file.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from tidings.errors import InputError
from tidings.language.subscriptions import Subscription
from tidings.planning.topologies import Topology

VALUE_MAX = 1_000_000
"""Values are whole numbers below it."""

AREA = 10
"""Topics in an area."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The numbers."""

    topics: int = 20
    """Different topics."""

    subscriptions: int = 100
    """Each of a client of its own, at a broker chosen at random."""

    publications: int = 1_000
    """At brokers chosen at random."""

    matching: float = 3.0
    """Subscriptions that a publication satisfies, on average."""

    rate_per_s: float = 100.0
    """Publications in a second, in the whole network."""

    qos: int = 1
    """Of publications and subscriptions; -1 for any, drawn for each."""

    durable: float = 0.0
    """The share of subscribers whose sessions outlive a disconnection."""

    wildcards: float = 0.0
    """The share of subscriptions with `+` or `#`."""

    popularity: float = 0.0
    """How unequal topics are: the exponent of Zipf's law, 0 for all alike."""

    payload_bytes: int = 64
    """At least so many."""


UNIFORM = Workload()

WORKLOADS: dict[str, Workload] = {
    "uniform": UNIFORM,
    "popular": Workload(popularity=1.0),
    "wildcards": Workload(wildcards=0.5, durable=0.3),
}
"""By the names that the command line takes."""

_BOUNDS: dict[str, tuple[float, float, str]] = {
    "topics": (1, 10_000_000, "a whole number from 1"),
    "subscriptions": (0, 10_000_000, "a whole number from 0"),
    "publications": (0, 1_000_000_000, "a whole number from 0"),
    "matching": (0, 1_000_000, "a number from 0"),
    "rate_per_s": (0.001, 1e9, "a number above 0"),
    "qos": (-1, 2, "0, 1, 2, or -1 for any"),
    "durable": (0, 1, "a share from 0 to 1"),
    "wildcards": (0, 1, "a share from 0 to 1"),
    "popularity": (0, 10, "a number from 0 to 10"),
    "payload_bytes": (1, 1_000_000, "a whole number from 1 to 1,000,000"),
}


def read(source: str) -> Workload:
    """The workload of a name or a file."""
    if source in WORKLOADS:
        return WORKLOADS[source]
    path = Path(source)
    if not path.suffix and not path.exists():
        raise InputError(
            f"workload {source!r} is unknown; there are {', '.join(WORKLOADS)}, or give a TOML file"
        )
    try:
        written = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    return changed(Workload(), written, f"{path}: ")


def changed(workload: Workload, values: dict[str, Any], where: str = "") -> Workload:
    """A workload with some of its numbers replaced; all that is wrong is said at once."""
    kinds = {field.name: type(field.default) for field in fields(Workload)}
    problems = []
    for name, value in values.items():
        if name not in kinds:
            problems.append(f"{where}{name!r} is not known; there are {', '.join(kinds)}")
            continue
        low, high, rule = _BOUNDS[name]
        whole = kinds[name] is int
        if (
            isinstance(value, bool)
            or not isinstance(value, int if whole else int | float)
            or not low <= value <= high
        ):
            problems.append(f"{where}{name} is {value!r}; give {rule}")
    if problems:
        raise InputError("\n".join(problems))
    return replace(workload, **values)


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A client with one subscription."""

    broker: str
    name: str
    durable: bool
    subscription: Subscription


@dataclass(frozen=True, slots=True)
class Planned:
    """A publication to come."""

    after: float
    """Seconds since the first could come."""

    broker: str
    topic: str
    payload: bytes
    qos: int


def topic_name(number: int) -> str:
    """The name of a topic."""
    return f"area{number // AREA}/topic{number}"


def subscribers(workload: Workload, topology: Topology, seed: int) -> list[Subscriber]:
    """All who subscribe."""
    source = random.Random(f"subscribers/{seed}")
    brokers = topology.ids
    drawn = _popular(workload)
    found = []
    for number in range(workload.subscriptions):
        topic_filter, share = _topic_filter(drawn(source), workload, source)
        qos = source.randint(0, 2) if workload.qos < 0 else workload.qos
        found.append(
            Subscriber(
                source.choice(brokers),
                f"s{number}",
                source.random() < workload.durable,
                Subscription(topic_filter, _interval(workload, share, source), qos=qos),
            )
        )
    return found


def _topic_filter(topic: int, workload: Workload, source: random.Random) -> tuple[str, float]:
    """A topic filter that matches a topic, and how many topics it matches."""
    if source.random() >= workload.wildcards:
        return topic_name(topic), 1
    area = topic // AREA
    within = min(AREA, workload.topics - area * AREA)
    return source.choice(
        [
            (f"area{area}/+", within),
            (f"area{area}/#", within),
            (f"+/topic{topic}", 1),
            ("+/+", workload.topics),
            ("#", workload.topics),
        ]
    )


def _interval(workload: Workload, topics: float, source: random.Random) -> str:
    """A content filter that takes its share of the values, so that `matching` comes out on average.

    An interval may stick out at either end, or values near the ends would match less often.
    """
    if not workload.subscriptions:
        return ""
    # Were each subscription to take all values of its topic, a publication would match so many of them.
    most = workload.subscriptions / workload.topics * topics
    share = min(1.0, workload.matching / most) if most else 1.0
    if share >= 1.0:
        return ""
    width = max(1, round(share * VALUE_MAX / (1 - share)))
    low = source.randrange(-width, VALUE_MAX)
    high = low + width
    if low < 0:
        return f"value < {high}"
    return f"value >= {low}" if high >= VALUE_MAX else f"value >= {low} AND value < {high}"


def publications(workload: Workload, topology: Topology, seed: int) -> Iterator[Planned]:
    """All that is published, in order."""
    source = random.Random(f"publications/{seed}")
    brokers = topology.ids
    drawn = _popular(workload)
    after = 0.0
    for number in range(workload.publications):
        after += source.expovariate(workload.rate_per_s)
        topic = drawn(source)
        value = source.randrange(VALUE_MAX)
        qos = source.randint(0, 2) if workload.qos < 0 else workload.qos
        yield Planned(after, source.choice(brokers), topic_name(topic), payload(number, value, workload), qos)


def payload(number: int, value: int, workload: Workload) -> bytes:
    """A JSON object of the size asked for."""
    head = b'{"n":%d,"value":%d' % (number, value)
    room = workload.payload_bytes - len(head) - len(b',"pad":""}')
    return head + (b',"pad":"%b"}' % (b"x" * room) if room > 0 else b"}")


def _popular(workload: Workload) -> Any:
    """Draws topics, the first ones more often."""
    if not workload.popularity:
        return lambda source: source.randrange(workload.topics)
    everything = range(workload.topics)
    sums = list(accumulate(1 / (rank + 1) ** workload.popularity for rank in everything))
    return lambda source: source.choices(everything, cum_weights=sums)[0]
