"""What a day adds up to. Sums and quantiles of the values of a `Day`; no words and no pictures."""

from __future__ import annotations

from tidings.console.day import Broker, Cost, Day

OURS = "Tidings"


def reports(day: Day) -> int:
    return sum(topic.reports for topic in day.topics)


def redundant(day: Day) -> int:
    return sum(topic.redundant for topic in day.topics)


def merged(day: Day) -> int:
    return sum(topic.merged for topic in day.topics)


def opened(day: Day) -> int:
    """Events: each begins with a report that opens it."""
    return sum(topic.opened for topic in day.topics)


def versions(day: Day) -> int:
    return sum(topic.versions for topic in day.topics)


def delivered(day: Day) -> int:
    return sum(topic.delivered for topic in day.topics)


def carried(day: Day) -> int:
    """Messages between brokers."""
    return sum(link.messages for link in day.links)


def load(broker: Broker) -> int:
    """Messages that a broker had in its hands."""
    return broker.published + broker.forwarded + broker.delivered


def held(day: Day) -> int:
    return sum(check.holds for check in day.checks)


def ours(day: Day) -> Cost | None:
    """What the day cost with Tidings."""
    return next((cost for cost in day.costs if cost.way == OURS), None)


def others(day: Day) -> tuple[Cost, ...]:
    """What it cost otherwise."""
    return tuple(cost for cost in day.costs if cost.way != OURS)


def without_gathering(day: Day) -> Cost | None:
    return next((cost for cost in others(day) if "gathering" in cost.way), None)


def peer(day: Day) -> Cost | None:
    """The way that the day is compared with first: without gathering, or else the dearest."""
    return without_gathering(day) or max(others(day), key=lambda cost: cost.delivered, default=None)


def quantile_ms(day: Day, share: float) -> float | None:
    """Within which time so many of the deliveries arrived; None without any."""
    total = sum(n for _, n in day.latencies_ms)
    seen = 0
    for ms, n in sorted(day.latencies_ms):
        seen += n
        if n and seen >= share * total:
            return ms
    return None
