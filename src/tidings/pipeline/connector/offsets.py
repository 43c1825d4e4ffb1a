"""Where a read of the log begins and ends: {holder: next number}, and what follows from two of these.

An offset is written with sorted keys: Spark compares its text, and another order would be another offset.
Nothing here knows Spark, and nothing asks a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tidings.errors import DataLost, InputError
from tidings.language import timestamps
from tidings.records.holders import Held, parse_holder

Offsets = dict[str, int]

EARLIEST, LATEST = "earliest", "latest"

Bound = str | int | Offsets
"""EARLIEST, LATEST, a time in microseconds, or the numbers themselves."""

_FORMS = (
    'write earliest, latest, a time such as 2026-11-15T11:05:00Z, or JSON such as {"b1.1763445274123": 120}'
)


def ordered(offsets: Mapping[str, int]) -> Offsets:
    """The same, sorted by holder."""
    return dict(sorted(offsets.items()))


def read_bound(option: str, text: str) -> Bound:
    """What an option says; InputError if it says nothing that can be understood.

    >>> read_bound("startingOffsets", '{"b2.8": 7, "b1.9": 3}')
    {'b1.9': 3, 'b2.8': 7}
    """
    if text.strip().lower() in (EARLIEST, LATEST):
        return text.strip().lower()
    if text.lstrip().startswith("{"):
        try:
            given = msgspec.json.decode(text, type=dict[str, int])
        except msgspec.DecodeError as error:
            raise InputError(f"{option}: {error}; {_FORMS}") from None
        below = {holder: number for holder, number in given.items() if number < 0}
        if below:
            raise InputError(f"{option}: {below} has numbers below 0; entries are numbered from 0")
        try:
            for holder in given:
                parse_holder(holder)
        except InputError as error:
            raise InputError(f"{option}: {error}; {_FORMS}") from None
        return ordered(given)
    try:
        return timestamps.micros(timestamps.parse(text.strip()))
    except ValueError as error:
        raise InputError(f"{option}: {error}; {_FORMS}") from None


def check_names(checkpoint: Mapping[str, int]) -> None:
    """Refuse a checkpoint that was written before holders were named with their incarnation."""
    for holder in checkpoint:
        try:
            parse_holder(holder)
        except InputError as error:
            raise InputError(
                f"the checkpoint is of an older release: {error}; begin with a new checkpointLocation, and "
                "say in startingOffsets where to go on"
            ) from None


def resolved(
    option: str,
    bound: Bound,
    holders: Sequence[Held],
    at: Mapping[str, int] | None = None,
    missing: str = EARLIEST,
) -> Offsets:
    """The numbers that a bound means now. `at` is the answer for a time; a holder that a JSON does not name
    is taken as `missing` says.
    """
    if bound == EARLIEST:
        return ordered({one.holder: one.first for one in holders})
    if bound == LATEST:
        return ordered({one.holder: one.next for one in holders})
    if isinstance(bound, int):
        assert at is not None, "the brokers were asked for the time"
        # One that came between the two answers is read from its first entry.
        return ordered({one.holder: min(at.get(one.holder, one.first), one.next) for one in holders})
    assert isinstance(bound, dict), "the other forms have been dealt with"
    unknown = sorted(bound.keys() - {one.holder for one in holders})
    if unknown:
        known = ", ".join(repr(one.holder) for one in holders) or "none"
        raise InputError(
            f"{option}: {', '.join(map(repr, unknown))} holds nothing of the topic (a broker that came back "
            f"without its disk is another holder); who does: {known}"
        )
    for one in holders:
        if bound.get(one.holder, 0) > one.next:
            raise InputError(
                f"{option}: {one.holder!r} has not got as far as {bound[one.holder]}; its next entry will be "
                f"{one.next}"
            )
    others = {one.holder: one.first if missing == EARLIEST else one.next for one in holders}
    return ordered(others | bound)


def admitted(start: Mapping[str, int], holders: Sequence[Held], rows_max: int | None = None) -> Offsets:
    """How far a micro-batch goes that begins at `start` and may have so many rows.

    Rows are shared out in proportion to what waits at each holder. A holder that was not there before enters
    at its first entry: its entries are read from the next micro-batch on, from a number that is written down.
    A holder of `start` that nobody speaks of, or of which a copy has less, stays where it is.
    """
    known = _readable(holders, start)
    waiting = {
        holder: max(0, known[holder].next - number) for holder, number in start.items() if holder in known
    }
    total = sum(waiting.values())
    end = dict(start)
    if rows_max is None or total <= rows_max:
        end |= {holder: known[holder].next for holder in waiting}
    else:
        shares = {holder: rows_max * count // total for holder, count in waiting.items()}
        left = rows_max - sum(shares.values())
        for holder in sorted(waiting):
            extra = min(left, waiting[holder] - shares[holder])
            left -= extra
            end[holder] += shares[holder] + extra
    end |= {one.holder: one.first for one in holders if one.holder not in start}
    return ordered(end)


def _readable(holders: Sequence[Held], start: Mapping[str, int]) -> dict[str, Held]:
    """By holder, without those that are gone and of which a copy has less than was read."""
    return {one.holder: one for one in holders if not (one.gone and one.next < start.get(one.holder, 0))}


def bounded(holders: Sequence[Held], target: Sequence[Held], start: Mapping[str, int]) -> tuple[Held, ...]:
    """What there is, but no more than a target has; and never less than was read, since the target may be
    what a deputy knew of its seat.
    """
    ends = {one.holder: one.next for one in target}
    return tuple(
        msgspec.structs.replace(one, next=min(one.next, max(ends[one.holder], start.get(one.holder, 0))))
        for one in holders
        if one.holder in ends
    )


def check_order(start: Mapping[str, int], stop: Mapping[str, int]) -> None:
    """Refuse a batch that would end before it begins, at any holder."""
    for holder, begin in start.items():
        if stop[holder] < begin:
            raise InputError(
                f"endingOffsets is before startingOffsets: {stop[holder]} and {begin} at {holder!r}; give a "
                "later end, or an earlier start"
            )


def check_kept(start: Mapping[str, int], holders: Sequence[Held]) -> None:
    """Refuse to go on where entries behind `start` are gone, or a whole holder with its log."""
    known = {one.holder: one for one in holders}
    for holder, number in sorted(start.items()):
        one = known.get(holder)
        if one is None:
            raise DataLost(
                f"{holder!r}, read up to {number}, is in the network no more, and what else it had cannot be "
                "read (a broker that came back without its disk is another holder); begin with a new "
                "checkpoint, or set failOnDataLoss to false to go on without it"
            )
        if number < one.first:
            raise DataLost(
                f"{holder!r} keeps entries from {one.first} on, and {number} would be next; keep more, or "
                "set failOnDataLoss to false to go on with what there is",
                one.first,
            )
        if number > one.next:
            why = (
                "its broker came back without its disk, and the copy ends there"
                if one.gone
                else "the checkpoint is of another topic, or its disk has lost what had been shown"
            )
            raise DataLost(
                f"{holder!r} was read up to {number}, and its next entry is {one.next}: {why}; begin with a "
                "new checkpoint, or set failOnDataLoss to false to go on with what there is",
                one.first,
            )


def forgiven(start: Mapping[str, int], holders: Sequence[Held]) -> Offsets:
    """The same start for those who take what there is: where entries are gone, the first that is kept."""
    known = _readable(holders, start)
    return ordered(
        {
            holder: known[holder].first
            if holder in known and not known[holder].first <= number <= known[holder].next
            else number
            for holder, number in start.items()
        }
    )


def ranges(start: Mapping[str, int], end: Mapping[str, int], rows_max: int) -> Iterator[tuple[str, int, int]]:
    """(holder, from, to) of what is between two offsets, none with more than so many numbers."""
    for holder, stop in sorted(end.items()):
        begin = start.get(holder, stop)
        parts = -(-(stop - begin) // rows_max)
        for part in range(parts):
            yield holder, begin + (stop - begin) * part // parts, begin + (stop - begin) * (part + 1) // parts
