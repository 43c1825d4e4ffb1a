"""The tables of traffic from a list of records, in plain Python: the judge of what Spark makes.

Each function says what one table means, in as few lines as that takes. It is for what fits into memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from tidings.records import traffic
from tidings.records.record import Kind, Record
from tidings.records.traffic import CARRIED, NEAR, bucket_of, hour_of

Row = tuple[str | int, ...]
"""Of a table, without names; the columns are those of `traffic.schemas`."""


def unique(records: Iterable[Record]) -> list[Record]:
    """Every record once, in the order of brokers, boots and numbers."""
    found = {(record.broker, record.boot, record.n): record for record in records}
    return [found[key] for key in sorted(found)]


def contributions(records: Sequence[Record]) -> list[Row]:
    """Whose reports a version was the first to tell."""
    carried: dict[str | None, list[tuple[str, int]]] = defaultdict(list)
    for record in records:
        if record.kind is Kind.SUPPRESSED and record.reason == CARRIED and record.publisher is not None:
            carried[record.report].append((record.publisher, hour_of(record.at)))
    found: set[Row] = set()
    for record in records:
        if record.kind in (Kind.OPENED, Kind.MERGED) and None not in (record.event, record.version):
            hour = hour_of(record.at)
            near = [who for who, other in carried[record.report] if abs(other - hour) <= NEAR]
            for publisher in {record.publisher, *near} - {None}:
                found.add((str(record.event), str(publisher), record.version or 0, hour))
    return sorted(found, key=repr)


def messages(records: Sequence[Record]) -> list[Row]:
    """Who sends to whom, and how often."""
    parts: dict[tuple[str, int], set[str]] = defaultdict(set)
    for event, publisher, version, _ in contributions(records):
        parts[str(event), int(version)].add(str(publisher))
    plain: Counter[tuple[str, str, int]] = Counter()
    told: Counter[tuple[str, str, int]] = Counter()
    for record in records:
        if record.kind is not Kind.DELIVERED:
            continue
        for receiver in record.receivers:
            if record.event is not None:
                for sender in parts.get((record.event, record.version or 0), ()):
                    told[sender, receiver, hour_of(record.at)] += 1
            elif record.publisher is not None:
                plain[record.publisher, receiver, hour_of(record.at)] += 1
    return [
        (sender, receiver, plain[sender, receiver, hour] + told[sender, receiver, hour], count, hour)
        for sender, receiver, hour in {*plain, *told}
        for count in [told[sender, receiver, hour]]
    ]


def links(records: Sequence[Record]) -> list[Row]:
    """What went over each link in one direction, and how much of it for nothing.

    Reports go to their seat whether somebody wants them or not: they are never in vain.
    """
    used: dict[tuple[str, str | None], set[int]] = defaultdict(set)
    for record in records:
        if record.kind in (Kind.FORWARDED, Kind.DELIVERED):
            used[record.broker, record.message].add(hour_of(record.at))
    sums = _Sums(5)
    seen = set()
    for record in records:
        if record.kind is not Kind.FORWARDED:
            continue
        hour, is_report = hour_of(record.at), record.report is not None
        for receiver in record.receivers:
            new = (record.broker, receiver, record.message, hour) not in seen
            seen.add((record.broker, receiver, record.message, hour))
            hours = used.get((receiver, record.message), ())
            vain = new and not is_report and not any(abs(other - hour) <= NEAR for other in hours)
            sums.add((record.broker, receiver), hour, 1, new, record.bytes or 0, is_report, vain)
    return sums.rows()


def brokers(records: Sequence[Record]) -> list[Row]:
    """What each broker took in, sent on and gave out. What it received is counted when it was sent."""
    sums = _Sums(12)
    places = {Kind.OPENED: 8, Kind.MERGED: 8, Kind.TOLD: 9, Kind.SUPPRESSED: 10, Kind.REQUESTED: 11}
    pairs = {Kind.PUBLISHED: 0, Kind.FORWARDED: 4, Kind.DELIVERED: 6}
    for record in records:
        hour, size = hour_of(record.at), record.bytes or 0
        if record.kind in pairs:
            copies = 1 if record.kind is Kind.PUBLISHED else len(record.receivers)
            at = pairs[record.kind]
            sums.put((record.broker,), hour, {at: copies, at + 1: copies * size})
        elif record.kind in places:
            sums.put((record.broker,), hour, {places[record.kind]: 1})
        if record.kind is Kind.FORWARDED:
            for receiver in record.receivers:
                sums.put((receiver,), hour, {2: 1, 3: size})
    return sums.rows()


def topics(records: Sequence[Record]) -> list[Row]:
    """What became of what was published to each topic."""
    sums = _Sums(9)
    places = {
        Kind.OPENED: 3,
        Kind.MERGED: 4,
        Kind.TOLD: 5,
        Kind.DELIVERED: 6,
        Kind.SUPPRESSED: 7,
        Kind.REQUESTED: 8,
    }
    for record in records:
        if record.topic is None:
            continue
        if record.kind is Kind.PUBLISHED:
            one = {0: 1, 1: record.bytes or 0, 2: int(record.report is not None)}
            sums.put((record.topic,), hour_of(record.at), one)
        elif record.kind in places:
            count = len(record.receivers) if record.kind is Kind.DELIVERED else 1
            sums.put((record.topic,), hour_of(record.at), {places[record.kind]: count})
    return sums.rows()


def suppression(records: Sequence[Record]) -> list[Row]:
    """What went no further, and why; of a reason only what is before its colon."""
    sums = _Sums(3)
    for record in records:
        if record.kind is Kind.SUPPRESSED and record.topic is not None:
            reason = (record.reason or "").partition(":")[0]
            hour = hour_of(record.at)
            sums.add((record.topic, reason), hour, 1, record.bytes or 0, len(record.receivers))
    return sums.rows()


def hops(records: Sequence[Record]) -> list[Row]:
    """How many links deliveries had come over."""
    found: Counter[Row] = Counter()
    for record in records:
        if record.kind is Kind.DELIVERED and record.hops is not None:
            found[record.broker, record.hops, hour_of(record.at)] += len(record.receivers)
    return [(broker, count, total, hour) for (broker, count, hour), total in found.items()]


def latencies(records: Sequence[Record]) -> list[Row]:
    """How long deliveries had been under way."""
    counts: Counter[Row] = Counter()
    totals: Counter[Row] = Counter()
    for record in records:
        if record.kind is Kind.DELIVERED and record.latency_us is not None:
            key = record.broker, bucket_of(record.latency_us), hour_of(record.at)
            counts[key] += len(record.receivers)
            totals[key] += record.latency_us * len(record.receivers)
    return [(*key[:2], count, totals[key], key[2]) for key, count in counts.items()]


def requests(records: Sequence[Record]) -> list[Row]:
    """How often history of a topic was asked for at a broker, and which broker had it."""
    sums = _Sums(2)
    for record in records:
        if record.kind is Kind.REQUESTED and record.topic is not None:
            asked = record.link or record.broker
            sums.add((asked, record.broker, record.topic), hour_of(record.at), 1, record.bytes or 0)
    return sums.rows()


JUDGES: Mapping[str, Callable[[Sequence[Record]], list[Row]]] = {
    traffic.CONTRIBUTIONS: contributions,
    traffic.MESSAGES: messages,
    traffic.LINKS: links,
    traffic.BROKERS: brokers,
    traffic.TOPICS: topics,
    traffic.SUPPRESSION: suppression,
    traffic.HOPS: hops,
    traffic.LATENCIES: latencies,
    traffic.REQUESTS: requests,
}
"""By table."""


class _Sums:
    """Sums of several numbers by words and hour."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._sums: dict[tuple[tuple[str, ...], int], list[int]] = {}

    def add(self, words: tuple[str, ...], hour: int, *numbers: int) -> None:
        self.put(words, hour, dict(enumerate(numbers)))

    def put(self, words: tuple[str, ...], hour: int, numbers: Mapping[int, int]) -> None:
        found = self._sums.setdefault((words, hour), [0] * self._width)
        for at, number in numbers.items():
            found[at] += number

    def rows(self) -> list[Row]:
        return [(*words, *numbers, hour) for (words, hour), numbers in self._sums.items()]
