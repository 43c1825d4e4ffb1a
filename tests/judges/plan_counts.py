"""What planners are given, from lists of rows, in plain Python: the judge of what Spark makes.

Each function says what one small table means, in as few lines as that takes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tidings.records.record import Kind, Record

Pairs = dict[tuple[str, str], int]
"""Messages, by sender and receiver."""


def pairs_of_messages(rows: Iterable[tuple[str, str, int, int, int]], hours: range) -> Pairs:
    """From rows of the table `messages`: sender, receiver, messages, told, hour."""
    found: Counter[tuple[str, str]] = Counter()
    for sender, receiver, messages, _, hour in rows:
        if hour in hours:
            found[sender, receiver] += messages
    return dict(found)


def pairs_of_matches(
    matches: Mapping[int, Sequence[int]],
    client_of: Mapping[int, int],
    spoken: Iterable[tuple[int, int]],
) -> Pairs:
    """From the subscriptions that get each event, whose they are, and (event, client) of who spoke of it."""
    senders: dict[int, set[int]] = defaultdict(set)
    for event, client in spoken:
        senders[event].add(client)
    found: Counter[tuple[str, str]] = Counter()
    for event, subscriptions in matches.items():
        for receiver in {client_of[one] for one in subscriptions}:
            for sender in senders[event]:
                found[str(sender), str(receiver)] += 1
    return dict(found)


def requests_of_traffic(
    rows: Iterable[tuple[str, str, str, int, int, int]], hours: range
) -> dict[tuple[str, str], int]:
    """By topic and broker, from rows of a table: broker, holder, topic, requests, bytes, hour."""
    found: Counter[tuple[str, str]] = Counter()
    for broker, _, topic, requests, _, hour in rows:
        if hour in hours:
            found[topic, broker] += requests
    return dict(found)


def requests_of_workload(
    requests: Iterable[tuple[int, str]], home_of: Mapping[int, str]
) -> dict[tuple[str, str], int]:
    """From (client, topic) of each request, and the brokers of clients."""
    return dict(Counter((topic, home_of[client]) for client, topic in requests))


def homes_of_records(records: Iterable[Record]) -> dict[str, str]:
    """The broker at which each client was seen last."""
    found: dict[str, tuple[int, str]] = {}
    for record in records:
        seen: Iterable[str | None] = ()
        if record.kind is Kind.DELIVERED:
            seen = record.receivers
        elif record.kind is Kind.PUBLISHED:
            seen = [record.publisher]
        elif record.kind is Kind.SUBSCRIBED:
            seen = [record.client]
        for client in seen:
            if client is not None:
                found[client] = max(found.get(client, (record.at, "")), (record.at, record.broker))
    return {client: broker for client, (_, broker) in found.items()}


def links_of_records(records: Iterable[Record]) -> set[tuple[str, str]]:
    """Links that were up, the smaller name first."""
    return {
        (min(record.broker, record.link), max(record.broker, record.link))
        for record in records
        if record.kind is Kind.LINK_UP and record.link is not None and record.link != record.broker
    }
