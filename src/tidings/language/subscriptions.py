"""Subscriptions as values: what is asked for.

A subscription is a topic filter and, with it, what it wants of the events there: a content filter, what that
takes for UNKNOWN, a quality of service and how often a growing event is wanted. All five together decide
whether one subscription makes another superfluous (`covers`). Who subscribes is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from tidings.errors import FilterError, SubscriptionError
from tidings.language import names
from tidings.language.covering import covers as where_covers
from tidings.language.covering import merge as where_merge
from tidings.language.filters import Filter, check_told, joined, parse
from tidings.language.limits import TOLD, Steps
from tidings.language.regions import Unknown
from tidings.language.tree import Or

QOS_MAX = 2
"""MQTT's highest quality of service."""


EVERYTHING = ""
"""Between brokers, the topic filter of all topics: "#" leaves out those with '$' [MQTT-4.7.2-1]."""


class Subscription(msgspec.Struct, frozen=True, array_like=True, order=True, cache_hash=True):
    """What a subscriber, or a broker on behalf of those behind it, asks for."""

    topic_filter: str
    """MQTT topic filter."""

    where: str = ""
    """Content filter; empty for all."""

    unknown: Unknown = Unknown.WAIT
    """What a term over a missing field counts as."""

    qos: int = 0
    """Highest quality of service wanted."""

    every_us: int = 0
    """The least time between two versions of one growing event; 0 for all of them."""

    @property
    def filter(self) -> Filter | None:
        """The content filter, read; None for all."""
        return read_where(self.where) if self.where else None


_READ: dict[str, Filter] = {}
_READ_MAX = 16_384


def read_where(text: str) -> Filter:
    """A content filter without declared types, remembered: one text comes over many links."""
    found = _READ.get(text)
    if found is None:
        found = _remember(text, parse(text, limits=TOLD))
    return found


def canonical_where(text: str) -> Filter:
    """A content filter without declared types, which is then known under its canonical text too."""
    read = read_where(text)
    if read.text not in _READ:
        _remember(read.text, read)
    return read


def asked_where(texts: Sequence[str], steps: Steps) -> Filter:
    """The content filters of a client, any of which is enough, as one; raises FilterError.

    Steps are counted whether they are remembered or not, so that an answer never depends on what was asked
    before. It is remembered under `either_text` and under its canonical text.
    """
    parts: list[Filter] = []
    for text in texts:
        found = _READ.get(text)
        if found is None:
            found = _remember(text, parse(text, steps=steps))
        else:
            steps.take(found.steps)
            check_told(found)
        parts.append(found)
    read = parts[0]
    if len(parts) > 1:
        text = either_text(texts)
        read = _remember(text, joined(Or, parts, text, steps))
    if read.text not in _READ:
        _remember(read.text, read)
    return read


def either_text(texts: Sequence[str]) -> str:
    """Content filters, any of which is enough, as one text."""
    return texts[0] if len(texts) == 1 else " OR ".join(f"({text})" for text in texts)


def remember(made: Filter) -> str:
    """The text of a filter that was made otherwise than from it, which then need not be parsed."""
    if made.source not in _READ:
        _remember(made.source, made)
    return made.source


def _remember(text: str, read: Filter) -> Filter:
    if len(_READ) >= _READ_MAX:
        del _READ[next(iter(_READ))]
    _READ[text] = read
    return read


def check(asked: Subscription) -> None:
    """SubscriptionError or FilterError where what is asked cannot be understood."""
    if fault := names.filter_fault(asked.topic_filter):
        raise SubscriptionError(fault)
    if not 0 <= asked.qos <= QOS_MAX:
        raise SubscriptionError(f"quality of service {asked.qos} is not 0, 1 or 2")
    if asked.every_us < 0:
        raise SubscriptionError(f"every = {asked.every_us} us is negative; give 0 for every version")
    if asked.where:
        read_where(asked.where)


def covers(wide: Subscription, narrow: Subscription) -> bool:
    """Whether whoever serves `wide` serves `narrow` too.

    >>> covers(Subscription("a/#", qos=1), Subscription("a/b", "x > 3", qos=1))
    True
    >>> covers(Subscription("a/#", qos=0), Subscription("a/b", qos=1))
    False

    Who does not say how often is content with the declared cycle, which may be longer than one asked for.

    >>> covers(Subscription("a"), Subscription("a", every_us=1_000_000))
    False
    """
    if wide.qos < narrow.qos or wide.every_us > narrow.every_us or (narrow.every_us and not wide.every_us):
        return False
    if not topics_cover(wide.topic_filter, narrow.topic_filter):
        return False
    if not wide.where:
        return True
    if not narrow.where:
        return False
    if wide.where == narrow.where and wide.unknown is narrow.unknown:
        return True
    return _where_covers(wide.where, wide.unknown, narrow.where, narrow.unknown)


@lru_cache(maxsize=65_536)
def _where_covers(wide: str, wide_unknown: Unknown, narrow: str, narrow_unknown: Unknown) -> bool:
    try:
        return where_covers((read_where(wide), wide_unknown), (read_where(narrow), narrow_unknown))
    except FilterError:
        return False


def comparing_steps(one: str, other: str, each: int = 0) -> int:
    """What it takes at most to compare two content filters, about, and `each` more for what is in them.

    In steps of `limits.Steps`.
    """
    if not one or not other or one == other:
        return 1
    try:
        a, b = read_where(one), read_where(other)
    except FilterError:
        return 1
    size = a.cost.constraints + a.cost.points + b.cost.constraints + b.cost.points
    return 1 + len(a.disjuncts) * len(b.disjuncts) + size // 4 + each * size


def merge(one: Subscription, other: Subscription) -> Subscription | None:
    """The subscription that takes what either takes and nothing more, or None where there is none."""
    if (one.topic_filter, one.unknown, one.qos, one.every_us) != (
        other.topic_filter,
        other.unknown,
        other.qos,
        other.every_us,
    ):
        return None
    if not one.where or not other.where:
        return one if not one.where else other
    text = _where_merge(one.where, other.where)
    if text is None:
        return None
    return Subscription(one.topic_filter, text, one.unknown, one.qos, one.every_us)


@lru_cache(maxsize=65_536)
def _where_merge(one: str, other: str) -> str | None:
    try:
        merged = where_merge(read_where(one), read_where(other))
    except FilterError:
        return None
    if merged is None:
        return None
    _remember(merged.text, merged)
    return merged.text


def topics_cover(wide: str, narrow: str) -> bool:
    """Whether a topic filter matches all that another matches."""
    if wide in (narrow, EVERYTHING):
        return True
    return narrow != EVERYTHING and names.filter_covers(wide, narrow)


@lru_cache(maxsize=65_536)
def filters_meet(one: str, other: str) -> bool:
    """Whether some topic name matches both topic filters.

    >>> filters_meet("a/+/c", "a/b/#"), filters_meet("a/b", "a/c")
    (True, False)
    """
    return EVERYTHING in (one, other) or _levels_meet(one.split("/"), other.split("/"))


def _levels_meet(one: list[str], other: list[str]) -> bool:
    first, second = one[0], other[0]
    if (first[:1] == "$" and second in ("+", "#")) or (second[:1] == "$" and first in ("+", "#")):
        return False
    for at in range(max(len(one), len(other))):
        here = one[at] if at < len(one) else None
        there = other[at] if at < len(other) else None
        if here == "#" or there == "#":
            return True  # "#" takes the levels above it too
        if here is None or there is None:
            return False
        if here != there and "+" not in (here, there):
            return False
    return True
