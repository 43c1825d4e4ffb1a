"""The numbers behind pictures, as tables of text. How a table is shown is the page's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidings.console import totals
from tidings.console.day import Day
from tidings.console.words import count, counted, duration, size


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a head."""

    name: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def brokers(day: Day) -> Table:
    return Table(
        "The brokers in numbers",
        ("broker", "where", "published", "passed on", "delivered", "processor", "gathers"),
        [
            (
                broker.id,
                broker.region,
                count(broker.published),
                count(broker.forwarded),
                count(broker.delivered),
                "" if broker.cpu_s is None else duration(broker.cpu_s),
                ", ".join(broker.seats),
            )
            for broker in sorted(day.brokers, key=totals.load, reverse=True)
        ],
    )


def topics(day: Day) -> Table:
    return Table(
        "The topics in numbers",
        ("topic", "reports", "nothing new", "merged", "events", "versions", "deliveries"),
        [
            (
                topic.name,
                count(topic.reports),
                count(topic.redundant),
                count(topic.merged),
                count(topic.opened),
                count(topic.versions),
                count(topic.delivered),
            )
            for topic in sorted(day.topics, key=lambda topic: topic.reports, reverse=True)
        ],
    )


def costs(day: Day) -> Table:
    return Table(
        "The ways in numbers",
        ("way", "delivered", "not asked for", "bytes", "between brokers", "processor", "took", ""),
        [
            (
                cost.way,
                count(cost.delivered),
                count(cost.unwanted),
                size(cost.delivered_bytes),
                "" if cost.carried is None else count(cost.carried),
                "" if cost.cpu_s is None else duration(cost.cpu_s),
                duration(cost.seconds),
                cost.note,
            )
            for cost in day.costs
        ],
    )


def plans(day: Day) -> Table:
    residents = () if day.plans is None else day.plans.residents
    return Table(
        "The brokers as planned",
        ("broker", "clients", "planned", "would keep"),
        [(one.broker, count(one.before), count(one.after), ", ".join(one.keeps)) for one in residents],
    )


def life(day: Day) -> Table:
    happenings = () if day.life is None else day.life.happenings
    return Table(
        "Word for word",
        ("after", "who", "what", "said"),
        [
            (
                duration((happening.at_s - happenings[0].at_s) * day.speed_up),
                happening.by,
                f"version {happening.became}, to {counted(happening.receivers, 'subscriber')}"
                if happening.kind == "version"
                else f"report: {happening.became}",
                ", ".join(f"{field}: {value}" for field, value in happening.says),
            )
            for happening in happenings
        ],
    )


TABLES: dict[str, Callable[[Day], Table]] = {
    "life": life,
    "suppression": topics,
    "network": brokers,
    "costs": costs,
    "plans": plans,
}
"""By the name of the picture that they are behind."""
