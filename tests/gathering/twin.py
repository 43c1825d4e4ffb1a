"""The gatherer a second time, the slow and plain way: the judge of the quick one.

It keeps, for each open event, the list of all its reports, and works out what is known by going through the
list from its beginning. Clocks are looked for among all open events, one after the other in order of time.
Nothing of `tidings.gathering` is used here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tidings.language.fields import Conflict, Field, Path, Type, find
from tidings.language.reports import Report
from tidings.language.topics import Complete, Gathering, StaysOpen, TellFirst, Topic

Line = tuple[Any, ...]


@dataclass
class Open:
    """One open event."""

    first: Report
    order: int
    said: list[Report] = field(default_factory=list)
    merged: int = 0
    version: int = 0
    untold: bool = True
    tm: int | None = None
    tr: int = 0
    w: int | None = None

    @property
    def close(self) -> int:
        return self.tr if self.w is None else min(self.tr, self.w)


class Twin:
    """A gatherer, by brute force."""

    def __init__(self, topic: Topic, every_us: int | None = None) -> None:
        assert topic.gathering is not None
        self.topic = topic
        self.options: Gathering = topic.gathering
        cycle = self.options.merge_after_us
        if every_us is not None:
            cycle = max(every_us, self.options.every_min_us)
        self.first_delay, self.later_delay = min(self.options.merge_after_us, cycle), cycle
        self.open: list[Open] = []
        self.opened = 0
        self.out: list[Line] = []
        self.fates: list[tuple[str, int]] = []
        self.max_open = 0

    # What is known of an event, from all of its reports.

    def known(self, reports: list[Report]) -> dict[Path, Any]:
        found = {}
        for path, declared in self.topic.fields.items():
            values = [value for report in reports if (value := find(report.fields, path)) is not None]
            if values:
                found[path] = fold(declared, values)
        return found

    def fields(self, event: Open) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for path, value in self.known(event.said).items():
            group = fields
            for name in path[:-1]:
                group = group.setdefault(name, {})
            group[path[-1]] = value
        return fields

    # Time.

    def next(self) -> int | None:
        return min((min(e.close, e.close if e.tm is None else e.tm) for e in self.open), default=None)

    def advance(self, now: int) -> None:
        while (due := self.next()) is not None and due <= now:
            for event in sorted(self.open, key=lambda one: one.order):
                if event.close == due:
                    self.close(event, due, self.reason(event))
                elif event.tm == due:
                    self.tell(event, due)

    @staticmethod
    def reason(event: Open) -> str:
        return "window" if event.w is not None and event.w < event.tr else "redundant_for"

    # Reports.

    def feed(self, report: Report) -> None:
        self.advance(report.at_us)
        now = report.at_us
        event = next((one for one in self.open if one.first.key == report.key), None)
        if event is None:
            event = Open(report, self.opened)
            self.opened += 1
            event.said.append(report)
            if self.options.window_us is not None:
                event.w = now + self.options.window_us
            self.open.append(event)
            self.max_open = max(self.max_open, len(self.open))
            self.fates.append(("opened", 0))
            at_once = self.options.tell_first is TellFirst.NOW
            self.grown(event, now, {}, at_once)
            return
        before = self.known(event.said)
        conflicts = sum(
            differs(self.topic.fields[path], before[path], value)
            for path in before
            if (value := find(report.fields, path)) is not None
        )
        event.said.append(report)
        if self.known(event.said) == before:
            self.fates.append(("redundant", conflicts))
            if self.options.stays_open is StaysOpen.REPORTED:
                event.tr = now + self.options.redundant_for_us
            return
        self.fates.append(("merged", conflicts))
        event.merged += 1
        event.untold = True
        self.grown(event, now, before, at_once=False)

    def grown(self, event: Open, now: int, before: dict[Path, Any], at_once: bool) -> None:
        options = self.options
        event.tr = now + options.redundant_for_us
        after = self.known(event.said)
        fields = self.fields(event)
        total = len(self.topic.fields)
        complete = {
            Complete.EVENT: len(after) == total,
            Complete.ONCE: len(after) == total and len(before) < total,
            Complete.REPORT: all(find(event.said[-1].fields, path) is not None for path in self.topic.fields),
        }[options.complete]
        if options.ends_when is not None and options.ends_when.evaluate(fields) is True:
            self.close(event, now, "ended", "ended")
            return
        newly = False
        if options.tell_now is not None:
            earlier = Open(event.first, 0, event.said[:-1])
            newly = options.tell_now.evaluate(fields) is True and not (
                earlier.said and options.tell_now.evaluate(self.fields(earlier)) is True
            )
        delay = self.later_delay if event.version else self.first_delay
        if event.close <= now:
            self.close(event, now, self.reason(event))
        elif at_once or complete or newly or delay == 0:
            self.tell(event, now)
        elif event.tm is None:
            event.tm = now + delay

    # Telling.

    def tell(self, event: Open, at: int, state: str = "told", last: bool = False) -> None:
        event.version += 1
        event.untold = False
        event.tm = None
        fields = self.fields(event)
        complete = len(self.known(event.said)) == len(self.topic.fields)
        self.out.append(
            (
                *("told", at, event.first.id, event.first.key, event.version),
                *(1 + event.merged, complete, fields, state, last),
            )
        )

    def close(self, event: Open, at: int, reason: str, state: str = "told") -> None:
        told = event.untold
        if told:
            self.tell(event, at, state, last=True)
        self.open.remove(event)
        self.out.append(("closed", at, event.first.id, event.first.key, reason, told))


def same(declared: Field, one: Any, other: Any) -> bool:
    if declared.tolerance is None:
        return bool(one == other)
    limit: Any = declared.tolerance
    if declared.type is Type.TIMESTAMP:
        limit = timedelta(microseconds=limit)
    return bool(abs(one - other) <= limit)


def differs(declared: Field, current: Any, value: Any) -> bool:
    if declared.many:
        return any(not any(same(declared, one, held) for held in current) for one in value)
    return not same(declared, current, value)


def fold(declared: Field, values: list[Any]) -> Any:
    """What one field is after some values."""
    policy = declared.conflict
    if policy is Conflict.UNION:
        held: list[Any] = []
        for some in values:
            for one in some:
                if not any(same(declared, one, there) for there in held):
                    held.append(one)
        return sorted(held)
    if policy is Conflict.MAJORITY:
        return majority(declared, values)
    current = values[0]
    for value in values[1:]:
        if same(declared, current, value):
            continue
        if policy is Conflict.LAST:
            current = value
        elif policy is Conflict.MAX:
            current = max(current, value)
        elif policy is Conflict.MIN:
            current = min(current, value)
    return current


def majority(declared: Field, values: list[Any]) -> Any:
    """The value with the most votes, the earlier one of equals."""
    votes: Counter[Any] = Counter()  # in the order of their first votes
    for value in values:
        if value not in votes and votes:
            leader = max(votes, key=lambda one: votes[one])
            if declared.tolerance is not None:
                near = [one for one in (leader, *votes) if same(declared, one, value)]
                value = near[0] if near else value
        votes[value] += 1
    return max(votes, key=lambda one: votes[one])
