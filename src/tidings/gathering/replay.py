"""Replay: reports from lines, through the gatherer in virtual time, and what is told as lines again.

A line is an object such as `{"at": 12.5, "fields": {"place": "Omonia"}}`. Its time is a number of seconds
or an ISO 8601 text, one or the other in all lines of a file, and what comes out has the same. The id of a
report is the number of its line. Where lines come from and go to is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec

from tidings.errors import PayloadError
from tidings.gathering.gatherer import Counts, Gatherer, State, Telling
from tidings.language import keys, payloads, timestamps
from tidings.language.faults import shown
from tidings.language.names import name_fault
from tidings.language.payloads import INT_MAX, INT_MIN
from tidings.language.reports import Fields, Report, Shape
from tidings.language.topics import Topic

SUMMARY = ("received", "redundant", "merged", "opened", "refused", "conflicts", "told", "closed", "max_open")
"""What is counted, in the order in which it is said."""

ISO_US_MAX = timestamps.micros(timestamps.parse("9999-12-31T23:59:59.999999Z"))
"""The last time that a text can name."""

EXACT_S_MAX = 2**52 / 1_000_000
"""Below this a number of seconds, times a million, is off by less than half a microsecond."""

AT = 'write seconds, such as 12.5, or a time, such as "2026-11-15T11:05:00Z"'


class Reader:
    """Makes reports of the lines of one file."""

    def __init__(self, topic: Topic) -> None:
        gathering = topic.gathering
        assert gathering is not None, "reports are of gathered topics"
        self._topic = topic
        self._shape = Shape(topic)
        self._only_name = topic.name if name_fault(topic.name) is None else None
        self._open_us = max(gathering.redundant_for_us, gathering.merge_after_us, gathering.window_us or 0)

    def read(self, number: int, line: Mapping[str, Any]) -> Report:
        """The report in a line; PayloadError says why it is refused."""
        at_us = self.at_us(line)
        fields = line.get("fields")
        if not isinstance(fields, dict):
            said = (
                'has no "fields"'
                if "fields" not in line
                else f"has fields that are no object: {shown(fields)}"
            )
            raise PayloadError(f'the line {said}; write {{"at": …, "fields": {{…}}}}')
        name = line.get("topic", self._only_name)
        if name is None:
            return self._unnamed(number, fields, at_us)
        if not isinstance(name, str):
            raise PayloadError(f"topic {shown(name)} is not a string")
        if fault := name_fault(name):
            raise PayloadError(f"topic {fault}")
        return self._shape.report(name, fields, report_id=str(number), at_us=at_us)

    def _unnamed(self, number: int, fields: Fields, at_us: int) -> Report:
        """A report of a topic whose name has wildcards, with the levels among its fields."""
        taken = self._shape.typed(fields)
        key = keys.evaluate(self._topic.key, taken)
        if key is None:
            items = ", ".join(item.text for item in self._topic.key)
            raise PayloadError(
                f"the report does not have all of its key ({items}); a level of the topic may be said in "
                '"topic" or among the fields'
            )
        return Report(self._topic.name, key, taken, str(number), at_us)

    def at_us(self, line: Mapping[str, Any]) -> int:
        """The time of a line; PayloadError says why it has none."""
        at = line.get("at")
        if isinstance(at, str):
            try:
                at_us = timestamps.micros(timestamps.parse(at))
            except ValueError as error:
                raise PayloadError(f"at: {error}") from None
            if at_us + self._open_us > ISO_US_MAX:
                raise PayloadError(
                    f"at {shown(at)} is too late: the event would be open beyond the year 9999"
                )
            return at_us
        if isinstance(at, bool) or not isinstance(at, (int, float)):
            said = (
                f"at {shown(at)} is neither a number nor a text" if "at" in line else 'the line has no "at"'
            )
            raise PayloadError(f"{said}; {AT}")
        # Seconds beyond the year 2112 times a million are no exact double any more.
        at_us = round((at if abs(at) < EXACT_S_MAX else Fraction(at)) * 1_000_000)
        if not INT_MIN <= at_us <= INT_MAX - self._open_us:
            raise PayloadError(f"at {shown(at)} is beyond what microseconds of 64 bits can say; {AT}")
        return at_us


def told_line(telling: Telling, *, iso: bool) -> bytes:
    """A version of an event, as a line."""
    event = telling.event
    told: dict[str, object] = {
        "at": _at(telling.at_us, iso),
        "event": event.opened_by,
        "key": event.key,
        "version": event.version,
        "reports": event.reports,
        "complete": event.complete,
        "fields": event.fields,
    }
    if telling.state is not State.TOLD:
        told["state"] = telling.state.value
    return payloads.encode(told)


def summary(counts: Counts) -> dict[str, int]:
    """What was done, in numbers."""
    return {name: getattr(counts, name) for name in SUMMARY}


def mixed_kinds(*, iso: bool, first: object) -> str:
    """What is wrong with a time that is of another kind than that of the first report, by its line."""
    kinds = ("a time", "seconds") if iso else ("seconds", "a time")
    return f"at is {kinds[0]}, but in line {first} it is {kinds[1]}; write the same in all lines"


def run_out(gatherer: Gatherer) -> None:
    """Let time pass until every event is closed."""
    while (due_us := gatherer.next_us()) is not None:
        gatherer.advance(due_us)


def at_text(at_us: int, *, iso: bool) -> str:
    """A time as lines have it.

    >>> at_text(12_500_000, iso=False), at_text(3_000_000, iso=False), at_text(0, iso=True)
    ('12.5', '3', '1970-01-01T00:00:00Z')
    """
    if iso:
        return timestamps.text(timestamps.from_micros(at_us))
    whole, micros = divmod(abs(at_us), 1_000_000)
    text = f"{whole}.{micros:06}".rstrip("0").rstrip(".")
    return f"-{text}" if at_us < 0 else text


def _at(at_us: int, iso: bool) -> object:
    text = at_text(at_us, iso=iso)
    # As it is written, since a double would not have all digits of a large one.
    return text if iso else msgspec.Raw(text.encode())
