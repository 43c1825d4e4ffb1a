"""What is said about each picture: what is seen, what would be worse without Tidings, and its alt text.

Functions from a `Day` to plain text with the day's own numbers, for readers who have read no paper. Nothing
is promised that the day does not show: where a figure is missing the sentence does without it. How pictures
are drawn is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidings.console import totals
from tidings.console.day import Cost, Day, Life, Saving
from tidings.console.words import clipped, count, counted, duration, listed, percent, size, times

NAME_LENGTH = 48
NOTE_LENGTH = 200
WAYS_MAX = 4
SAVINGS_MAX = 4
STORES_MAX = 6
ALIKE = 0.05
"""Shares that differ by less are called the same."""

FEW = 10
"""Deliveries of which no shares are told."""


@dataclass(frozen=True, slots=True)
class Caption:
    """The words around a picture."""

    heading: str
    shows: str
    without: str
    """What would be worse, a line for each thing; empty where the day has nothing to tell of it."""

    alt: str


def network(day: Day) -> Caption:
    if not day.brokers:
        return _nothing("The network", "No broker wrote down what it did.")
    busiest = max(day.brokers, key=totals.load)
    seats = [broker for broker in day.brokers if broker.seats]
    between = totals.carried(day)
    reports = sum(link.reports for link in day.links)
    shows = [
        "Each circle is a broker, a program that passes messages on: the larger, the more it had to do.",
        f"{_name(busiest.id)} had the most, {counted(totals.load(busiest), 'message')}.",
    ]
    if seats:
        shows.append(
            f"Blue ones are seats: there the reports of a topic meet and become events. "
            f"{counted(len(seats), 'broker was', 'brokers were')} chosen, by the network itself."
        )
    if day.links:
        shows.append(
            f"Lines are links, the thicker the busier. {counted(between, 'message')} went over them, "
            f"{percent(reports, between)} of them reports on their way to a seat (orange), "
            f"the rest on the way to those who asked (blue)."
        )
    drawn = counted(len(day.brokers), "broker")
    return Caption(
        "Where the messages went",
        " ".join(shows),
        _carried_otherwise(day) if day.links else "",
        f"A drawing of {drawn} and {counted(len(day.links), 'link')}; {_name(busiest.id)} is the largest"
        + (
            f"; seats are {listed([_name(broker.id) for broker in seats[:6]])}"
            + (f" and {count(len(seats) - 6)} more" if len(seats) > 6 else "")
            if seats
            else ""
        )
        + ".",
    )


def _carried_otherwise(day: Day) -> str:
    raw, here = totals.without_gathering(day), totals.ours(day)
    if not (raw and here and raw.carried and here.carried):
        return "Without Tidings every report goes to everyone who might care, wherever they are."
    instead = (
        f"subscribers got {counted(raw.delivered, 'message')} instead of {count(here.delivered)}, and nobody "
        "put them together."
    )
    if abs(raw.carried / here.carried - 1) < ALIKE:
        return (
            f"Without gathering about as many messages went between these brokers, {count(raw.carried)}; but "
            + instead
        )
    if raw.carried > here.carried:
        return (
            f"Without gathering, {count(raw.carried)} messages went between these brokers on the same day, "
            f"{times(raw.carried / here.carried)} as many: every report to everyone who might care."
        )
    return (
        "This is the price of it: every report goes to a seat first. Without gathering "
        f"{count(raw.carried)} messages went between these brokers that day, not {count(here.carried)}; "
        "but " + instead
    )


def reports(day: Day) -> Caption:
    came, told = totals.reports(day), totals.versions(day)
    if not came or not day.moments:
        return _nothing("Reports in, events out", "Nothing was reported.")
    shows = (
        f"The orange curve is what people and machines reported: {counted(came, 'message')} in all. "
        f"The blue one is what the network made of it: {counted(totals.opened(day), 'event')}, told in "
        f"{counted(told, 'version')} as more became known."
    )
    if told:
        shows += f" That is one message for every {came / told:.1f} reports."
    without = (
        "Without Tidings everyone who listens gets the orange curve, and has to find out alone "
        "which reports are about the same thing."
    )
    return Caption(
        "Many reports, few events",
        shows,
        without,
        f"Two curves over time. Reports, {count(came)} in all, lie "
        f"{'far ' if told * 2 < came else ''}{'above' if told < came else 'near or below'} "
        f"the versions of events told, {count(told)} in all.",
    )


def life(day: Day) -> Caption:
    if day.life is None or not day.life.happenings:
        return _nothing("One event, from first to last", "No event was followed.")
    event = day.life
    came = [happening for happening in event.happenings if happening.kind == "report"]
    told = [happening for happening in event.happenings if happening.kind == "version"]
    useful = sum(happening.became != "redundant" for happening in came)
    shows = (
        f"{counted(len(came), 'report')} about one thing that happened, on {_name(event.topic)}. "
        f"Each dot is something that a report said: orange if it was new, grey if it was known already. "
        f"{counted(useful, 'report')} added something, {count(len(came) - useful)} did not."
    )
    if told:
        took = (told[-1].at_s - event.happenings[0].at_s) * day.speed_up
        shows += (
            " A blue bar is what subscribers know. "
            f"{counted(len(told), 'version was', 'versions were')} told within {duration(took)}, "
            f"the last to {counted(told[-1].receivers, 'subscriber')}"
            + (", and it was the truth." if truthful(event) else ".")
        )
    without = ""
    if told and told[-1].receivers and len(came) > len(told):
        receivers = told[-1].receivers
        whoever = f"each of these {count(receivers)}" if receivers > 1 else "that one"
        without = (
            f"Without Tidings {whoever} gets {counted(len(came), 'message')} instead of {count(len(told))}, "
            f"and puts the pieces together by hand."
        )
    fields = listed([clipped(name, NAME_LENGTH) for name, _ in event.truth[:8]])
    return Caption(
        "The life of one event",
        shows,
        without,
        f"A time line of one event on {_name(event.topic)}: {counted(len(came), 'report')} as dots and "
        f"{counted(len(told), 'version')} as vertical lines"
        + (f"; one row each for {fields}" if fields else "")
        + ".",
    )


def suppression(day: Day) -> Caption:
    came = totals.reports(day)
    if not came:
        return _nothing("What went no further", "Nothing was reported.")
    dropped, merged = totals.redundant(day), totals.merged(day)
    busy = [topic for topic in day.topics if topic.reports]
    most = max(busy, key=lambda topic: ((topic.redundant + topic.merged) / topic.reports, topic.reports))
    shows = (
        f"Of all {counted(came, 'report')}, {percent(dropped, came)} said nothing new (grey) and stopped "
        f"there, and {percent(merged, came)} added a detail to an event that was told anyway (pale blue). "
        f"{percent(totals.opened(day), came)} were the first word of something (blue)."
    )
    if len(busy) > 1:
        shows += (
            f" On {_name(most.name)} the most was kept from subscribers: "
            f"{percent(most.redundant + most.merged, most.reports)} of {counted(most.reports, 'report')}."
        )
    return Caption(
        "What went no further",
        shows,
        f"Without Tidings these {counted(dropped + merged, 'report')} go to all who might care."
        if dropped + merged
        else "",
        f"Bars for {counted(len(day.topics), 'topic')}: the share of reports that said nothing new, were "
        f"merged, or opened an event. Of all, {percent(dropped + merged, came)} went no further.",
    )


def latency(day: Day) -> Caption:
    total = sum(n for _, n in day.latencies_ms)
    half, most = totals.quantile_ms(day, 0.5), totals.quantile_ms(day, 0.99)
    if half is None or most is None:
        return _nothing("How long it took", "Nothing was delivered, so nothing was timed.")
    longest = duration(max(ms for ms, n in day.latencies_ms if n) / 1000)
    shows = (
        "How long subscribers waited for news, from the report that brought it to the moment when they had "
        "it: on the way, and at the seat, which waits for others to tell more"
        + (" (not as long as in life, since the day was played faster). " if day.speed_up > 1 else ". ")
    )
    if total < FEW:
        shows += f"The slowest of {counted(total, 'delivery', 'deliveries')} took about {longest}."
    else:
        shows += (
            f"Half of {count(total)} deliveries took up to {duration(half / 1000)}, 99 of 100 up to "
            f"{duration(most / 1000)}, the slowest about {longest}."
        )
    came, told = totals.reports(day), totals.versions(day)
    without = (
        "Gathering asks for some patience, and saves more at the other end: without Tidings someone reads "
        f"through {came / told:.1f} reports for each piece of news."
        if told and came > told
        else ""
    )
    return Caption(
        "How long it took",
        shows,
        without,
        f"A histogram of {counted(total, 'delivery', 'deliveries')} by time: half within "
        f"{duration(half / 1000)}, 99 of 100 within {duration(most / 1000)}.",
    )


def costs(day: Day) -> Caption:
    here, others = totals.ours(day), totals.others(day)
    if here is None or not others:
        return _nothing(
            "The same day, carried otherwise",
            "The day was not run in another way, so there is nothing to compare.",
        )
    ways = listed([_name(cost.way) for cost in others])
    shows = (
        f"The same reports and the same subscribers, run again in other ways: {ways}. With Tidings "
        f"subscribers got {counted(here.delivered, 'message')} ({size(here.delivered_bytes)}), of which "
        f"{count(here.unwanted) if here.unwanted else 'none'} had not been asked for."
    )
    if here.note:
        shows += f" About its figures: {clipped(here.note, NOTE_LENGTH).rstrip('.')}."
    return Caption(
        "The same day, carried otherwise",
        shows,
        "\n".join(_otherwise(here, cost) for cost in others[:WAYS_MAX]),
        "Bars that compare ways of carrying the day by messages to subscribers, messages between brokers, "
        "bytes and processor time: "
        + "; ".join(
            f"{_name(cost.way)} {counted(cost.delivered, 'message')} to subscribers" for cost in day.costs
        )
        + ".",
    )


def _otherwise(here: Cost, other: Cost) -> str:
    told = f"{_sentence(_name(other.way))}: {counted(other.delivered, 'message')}"
    if here.delivered and other.delivered:
        told += f", {times(other.delivered / here.delivered)} as many"
    if other.unwanted:
        told += f", and {percent(other.unwanted, other.delivered)} of them unwanted"
    return f"{told}{_noted(other)}."


def _noted(cost: Cost) -> str:
    note = clipped(cost.note, NOTE_LENGTH).rstrip(".")
    return f" ({note})" if note else ""


def plans(day: Day) -> Caption:
    if day.plans is None or not day.plans.savings:
        return _nothing("Plans for such days", "Nothing was planned.")
    made = day.plans
    said = [f"{_name(one.what)}: {_change(one)} ({_name(one.by)})" for one in made.savings[:SAVINGS_MAX]]
    stores = [_name(one.broker) for one in made.residents if one.keeps]
    shows = (
        "Two plans, made from what the brokers wrote down: which clients would better be at another broker, "
        "because those they talk to are there, and at which brokers the history of topics would better be "
        f"kept, because it is asked for near there. {_sentence('; '.join(said))}."
    )
    if stores:
        more = [f"{count(len(stores) - STORES_MAX)} more"] if len(stores) > STORES_MAX else []
        shows += f" Brokers in bold would keep something: {listed([*stores[:STORES_MAX], *more])}."
    shows += (
        " It is a forecast, and nothing has been changed: messages are counted along the shortest way from "
        "client to client, though what is gathered goes by way of a seat."
    )
    return Caption(
        "Plans for such days",
        shows,
        "Without plans, clients and history stay where they happened to be.",
        "Bars that compare the day as it was with the day as planned: " + "; ".join(said) + ".",
    )


def _change(one: Saving) -> str:
    if not one.before:
        return f"{one.after:.2f} instead of 0"
    less = 1 - one.after / one.before
    way = "fewer" if less >= 0 else "more"
    return f"{percent(abs(less), 1.0)} {way}"


CAPTIONS: dict[str, Callable[[Day], Caption]] = {
    "reports": reports,
    "life": life,
    "suppression": suppression,
    "network": network,
    "latency": latency,
    "costs": costs,
    "plans": plans,
}
"""By the name of the picture, in the order of the page."""


def truthful(event: Life) -> bool:
    """Whether the last values told of an event are what really happened."""
    told: dict[str, str] = {}
    for happening in event.happenings:
        if happening.kind == "version":
            told |= dict(happening.says)
    return bool(event.truth) and all(told.get(name) == value for name, value in event.truth)


def _nothing(heading: str, why: str) -> Caption:
    return Caption(heading, why, "", why)


def _name(text: str) -> str:
    return clipped(text, NAME_LENGTH) or "(no name)"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
