"""Where a read of the log begins and ends: {broker: next number}, and what follows from two of these.

An offset is written with sorted keys: Spark compares its text, and another order would be another offset.
Nothing here knows Spark, and nothing asks a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tidings.client.log import Holder
from tidings.errors import DataLost, InputError
from tidings.language import timestamps

Offsets = dict[str, int]

EARLIEST, LATEST = "earliest", "latest"

Bound = str | int | Offsets
"""EARLIEST, LATEST, a time in microseconds, or the numbers themselves."""

_FORMS = 'write earliest, latest, a time such as 2026-11-15T11:05:00Z, or JSON such as {"b1": 120}'


def ordered(offsets: Mapping[str, int]) -> Offsets:
    """The same, sorted by broker."""
    return dict(sorted(offsets.items()))


def read_bound(option: str, text: str) -> Bound:
    """What an option says; InputError if it says nothing that can be understood.

    >>> read_bound("startingOffsets", '{"b2": 7, "b1": 3}')
    {'b1': 3, 'b2': 7}
    """
    if text.strip().lower() in (EARLIEST, LATEST):
        return text.strip().lower()
    if text.lstrip().startswith("{"):
        try:
            given = msgspec.json.decode(text, type=dict[str, int])
        except msgspec.DecodeError as error:
            raise InputError(f"{option}: {error}; {_FORMS}") from None
        below = {broker: number for broker, number in given.items() if number < 0}
        if below:
            raise InputError(f"{option}: {below} has numbers below 0; entries are numbered from 0")
        return ordered(given)
    try:
        return timestamps.micros(timestamps.parse(text.strip()))
    except ValueError as error:
        raise InputError(f"{option}: {error}; {_FORMS}") from None


def resolved(
    option: str,
    bound: Bound,
    holders: Sequence[Holder],
    at: Mapping[str, int] | None = None,
    missing: str = EARLIEST,
) -> Offsets:
    """The numbers that a bound means now. `at` is the answer for a time; a broker that a JSON does not name
    is taken as `missing` says.
    """
    if bound == EARLIEST:
        return ordered({one.broker: one.first for one in holders})
    if bound == LATEST:
        return ordered({one.broker: one.next for one in holders})
    if isinstance(bound, int):
        assert at is not None, "the brokers were asked for the time"
        # One that came between the two answers is read from its first entry.
        return ordered({one.broker: min(at.get(one.broker, one.first), one.next) for one in holders})
    assert isinstance(bound, dict), "the other forms have been dealt with"
    unknown = sorted(bound.keys() - {one.broker for one in holders})
    if unknown:
        known = ", ".join(repr(one.broker) for one in holders) or "none"
        raise InputError(
            f"{option}: {', '.join(map(repr, unknown))} holds nothing of the topic; who does: {known}"
        )
    for one in holders:
        if bound.get(one.broker, 0) > one.next:
            raise InputError(
                f"{option}: {one.broker!r} has not got as far as {bound[one.broker]}; its next entry will be "
                f"{one.next}"
            )
    others = {one.broker: one.first if missing == EARLIEST else one.next for one in holders}
    return ordered(others | bound)


def admitted(start: Mapping[str, int], holders: Sequence[Holder], rows_max: int | None = None) -> Offsets:
    """How far a micro-batch goes that begins at `start` and may have so many rows.

    Rows are shared out in proportion to what waits at each broker. A broker that was not there before enters
    at its first entry: its entries are read from the next micro-batch on, from a number that is written down.
    A broker of `start` that nobody speaks of stays where it is.
    """
    known = {one.broker: one for one in holders}
    waiting = {
        broker: max(0, known[broker].next - number) for broker, number in start.items() if broker in known
    }
    total = sum(waiting.values())
    end = dict(start)
    if rows_max is None or total <= rows_max:
        end |= {broker: known[broker].next for broker in waiting}
    else:
        shares = {broker: rows_max * count // total for broker, count in waiting.items()}
        left = rows_max - sum(shares.values())
        for broker in sorted(waiting):
            extra = min(left, waiting[broker] - shares[broker])
            left -= extra
            end[broker] += shares[broker] + extra
    end |= {one.broker: one.first for one in holders if one.broker not in start}
    return ordered(end)


def bounded(
    holders: Sequence[Holder], target: Sequence[Holder], start: Mapping[str, int]
) -> tuple[Holder, ...]:
    """What there is, but no more than a target has; and never less than was read, since the target may be
    what a deputy knew of its broker.
    """
    ends = {one.broker: one.next for one in target}
    return tuple(
        msgspec.structs.replace(one, next=min(one.next, max(ends[one.broker], start.get(one.broker, 0))))
        for one in holders
        if one.broker in ends
    )


def check_order(start: Mapping[str, int], stop: Mapping[str, int]) -> None:
    """Refuse a batch that would end before it begins, at any broker."""
    for broker, begin in start.items():
        if stop[broker] < begin:
            raise InputError(
                f"endingOffsets is before startingOffsets: {stop[broker]} and {begin} at {broker!r}; give a "
                "later end, or an earlier start"
            )


def check_kept(start: Mapping[str, int], holders: Sequence[Holder]) -> None:
    """Refuse to go on where entries behind `start` are gone, or a whole broker with its log."""
    known = {one.broker: one for one in holders}
    for broker, number in sorted(start.items()):
        one = known.get(broker)
        if one is None:
            raise DataLost(
                f"{broker!r}, read up to {number}, is in the network no more, and what else it had cannot be "
                "read; set failOnDataLoss to false to go on without it"
            )
        if number < one.first:
            raise DataLost(
                f"{broker!r} keeps entries from {one.first} on, and {number} would be next; keep more, or "
                "set failOnDataLoss to false to go on with what there is",
                one.first,
            )
        if number > one.next:
            raise DataLost(
                f"{broker!r} was read up to {number}, and its next entry is {one.next}: it has lost its "
                "disk, or the checkpoint is of another topic; begin with a new one, or set failOnDataLoss to "
                "false to go on with what it has now",
                one.first,
            )


def forgiven(start: Mapping[str, int], holders: Sequence[Holder]) -> Offsets:
    """The same start for those who take what there is: where entries are gone, the first that is kept."""
    known = {one.broker: one for one in holders}
    return ordered(
        {
            broker: known[broker].first
            if broker in known and not known[broker].first <= number <= known[broker].next
            else number
            for broker, number in start.items()
        }
    )


def ranges(start: Mapping[str, int], end: Mapping[str, int], rows_max: int) -> Iterator[tuple[str, int, int]]:
    """(broker, from, to) of what is between two offsets, none with more than so many numbers."""
    for broker, stop in sorted(end.items()):
        begin = start.get(broker, stop)
        parts = -(-(stop - begin) // rows_max)
        for part in range(parts):
            yield broker, begin + (stop - begin) * part // parts, begin + (stop - begin) * (part + 1) // parts
