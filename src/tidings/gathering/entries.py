"""Entries: the open events of a seat, one for each key.

An entry has all that is known of an event: its fields, and beside them what joins need (stamps of the
reports that set them, votes), how many reports it is made of, what has been told, and the times at which its
clocks run out. It says what a report would change, takes it in, and joins with another copy of itself. When
anything is told is decided by the gatherer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tidings.gathering.digests import Hashes
from tidings.gathering.policies import (
    BALLOT_BYTES,
    Ballot,
    Majority,
    Rule,
    Stamp,
    Votes,
    bytes_of,
    joined_counts,
    stamp_order,
)
from tidings.gathering.rules import Rules
from tidings.language.fields import Path, find
from tidings.language.keys import Key
from tidings.language.reports import Event

if TYPE_CHECKING:
    from tidings.gathering.gatherer import Decision


class Change:
    """What a report would do to an event."""

    __slots__ = ("bytes", "conflicts", "fields", "filled", "votes")

    def __init__(self) -> None:
        self.fields: list[tuple[Rule, Any]] = []
        """Fields that get another value, with it."""
        self.votes: list[tuple[Majority, Any]] = []
        """Votes that count, whoever wins."""
        self.filled = 0
        """Fields that were empty."""
        self.conflicts = 0
        """Fields in which the report says something else than the event."""
        self.bytes = 0
        """By how much the event would grow."""


class Entry:
    """One open event."""

    __slots__ = (
        "at_us",
        "branch",
        "closed",
        "confirmed",
        "event",
        "events",
        "fields",
        "filled",
        "hashes",
        "into",
        "key",
        "merge_us",
        "merged",
        "name",
        "order",
        "ordered",
        "qos",
        "recent",
        "redundant",
        "redundant_us",
        "rules",
        "satisfied",
        "scheduled_us",
        "shared",
        "size",
        "slot",
        "stamps",
        "state",
        "tellings",
        "told",
        "told_qos",
        "untold",
        "version",
        "votes",
        "window_us",
    )

    def __init__(
        self,
        rules: Rules,
        key: Key,
        name: str,
        event: str,
        at_us: int,
        fields: Mapping[str, Any],
        branch: str,
    ) -> None:
        self.rules = rules
        """Those of the declaration under which it was opened."""
        self.key = key
        self.slot: tuple[Any, ...] = key
        """Where the gatherer keeps it."""
        self.name = name
        """The topic name of the report that opened it."""
        self.event = event
        """That report's id."""
        self.at_us = at_us
        """When that report arrived."""
        self.order = 0
        """Counts the events that were opened: of clocks due at one time the earlier opened goes first."""
        self.recent = 0
        """Counts the changes of all events: the one that changed longest ago makes room first."""
        self.events: dict[str, int] = {event: at_us}
        """The events that it is made of, with their times of opening; more than one after a healing."""
        self.fields = fields
        """What is known."""
        self.shared = True
        """Whether somebody else holds the same dict, which must then not be changed."""
        self.ordered = True
        """Whether the fields are in the declared order."""
        self.filled = rules.count(fields)
        """How many fields are filled."""
        self.size = 0
        """About how many bytes it holds."""
        self.stamps: dict[str, Stamp] = {}
        """The reports that set a field, other than the one that opened the event."""
        self.votes: dict[str, Votes] = {}
        self.branch = branch
        """Under which name this copy counts."""
        self.merged: dict[str, int] = {}
        """Reports that changed it, per branch."""
        self.tellings: dict[str, int] = {}
        """Versions told, per branch."""
        self.qos = 0
        """The highest of its reports."""
        self.version = 0
        """The number of the latest version told; 0 for none."""
        self.told: Event | None = None
        """That version."""
        self.told_qos = 0
        """The quality of service with which it was told."""
        self.state = ""
        """How it was told."""
        self.into = ""
        """The event that it was merged into."""
        self.untold = True
        """Whether it has changed since."""
        self.confirmed = 0
        """The latest version that everyone has who must."""
        self.closed = False
        """Whether it is kept only until its last version is confirmed."""
        self.satisfied = False
        """Whether its fields satisfy `tell_now`."""
        self.merge_us: int | None = None
        """When Tm runs out, if it runs."""
        self.redundant_us = 0
        """When Tr runs out."""
        self.window_us: int | None = None
        """When W runs out."""
        self.scheduled_us: int | None = None
        """When the gatherer looks at its clocks again."""
        self.hashes: Hashes | None = None
        """What stays of the fields once it is a digest."""
        self.redundant: Decision | None = None
        """The answer to a report that changes nothing, made once for each version."""

    @property
    def past(self) -> bool:
        """Whether it is closed, and everyone has its last version."""
        return self.closed and self.confirmed >= self.version

    @property
    def reports(self) -> int:
        """How many reports it is made of: those that opened it and those that changed it."""
        return len(self.events) + sum(self.merged.values())

    @property
    def complete(self) -> bool:
        """Whether every declared field is filled."""
        return self.filled == self.rules.total

    @property
    def close_us(self) -> int:
        """When it closes."""
        window_us = self.window_us
        return self.redundant_us if window_us is None else min(window_us, self.redundant_us)

    @property
    def due_us(self) -> int:
        """When the first of its clocks runs out."""
        merge_us = self.merge_us
        return self.close_us if merge_us is None else min(merge_us, self.close_us)

    def stamp_of(self, rule: Rule) -> Stamp:
        """The stamp of the report that set a field."""
        return self.stamps.get(rule.label) or (self.at_us, self.event)

    def begin(self) -> None:
        """Take the report that opened it: its lists without what is the same, its votes, its bytes."""
        for thinned in self.rules.thinned:
            brought = find(self.fields, thinned.path)
            if brought is not None and (kept := thinned.filling(brought)) != brought:
                self.fields = _with(self.fields, thinned.path, kept)
        for rule in self.rules.votes:
            value = find(self.fields, rule.path)
            if value is not None:
                self.votes[rule.label] = {value: Ballot((self.at_us, self.event), {self.branch: 1})}
        self.measure()

    def measure(self) -> None:
        """Count its bytes anew."""
        rules = self.rules
        if rules.flat:
            # As one map: all names and values, and a header that `change` does not count.
            self.size = bytes_of(self.fields) - _header_bytes(len(self.fields))
        else:
            self.size = sum(rule.bytes + bytes_of(value) for rule, value in rules.leaves(self.fields))
        for votes in self.votes.values():
            self.size += sum(BALLOT_BYTES + bytes_of(value) for value in votes)

    def change(self, fields: Mapping[str, Any], stamp: Stamp) -> Change:
        """What a report with these fields would do."""
        change = Change()
        for rule, brought, current in self._differing(fields):
            if current is None:
                filling = rule.filling(brought)
                change.fields.append((rule, filling))
                change.filled += 1
                change.bytes += rule.bytes + bytes_of(filling)
                if isinstance(rule, Majority):
                    change.votes.append((rule, brought))
                    change.bytes += BALLOT_BYTES + bytes_of(brought)
            elif isinstance(rule, Majority):
                self._weigh_vote(rule, current, brought, stamp, change)
            elif not rule.same(current, brought):
                kept = rule.kept(current, brought)
                if rule.field.many and kept is current:
                    continue  # it brings no new element
                change.conflicts += 1
                if kept is not current and kept != current:
                    change.fields.append((rule, kept))
                    change.bytes += bytes_of(kept) - bytes_of(current)
        return change

    def _differing(self, fields: Mapping[str, Any]) -> Iterable[tuple[Rule, Any, Any]]:
        """The fields of a report that say something else, or vote: rule, what is brought, what is known."""
        mine, rules = self.fields, self.rules
        if rules.flat:
            tree, get = rules.tree, mine.get
            if not rules.votes:
                return [
                    (tree[name], brought, current)
                    for name, brought in fields.items()
                    if (current := get(name)) != brought
                ]
            return [(tree[name], brought, get(name)) for name, brought in fields.items()]
        return [(rule, brought, find(mine, rule.path)) for rule, brought in rules.leaves(fields)]

    def _weigh_vote(self, rule: Majority, current: Any, brought: Any, stamp: Stamp, change: Change) -> None:
        votes = self.votes[rule.label]
        candidate = rule.candidate(votes, current, brought)
        change.votes.append((rule, candidate))
        if not rule.same(current, brought):
            change.conflicts += 1
        ballot = votes.get(candidate)
        if ballot is None:
            change.bytes += BALLOT_BYTES + bytes_of(candidate)
            ballot = Ballot(stamp, {})
        if candidate != current:
            votes_less, *came = ballot.rank
            if (votes_less - 1, *came) < votes[current].rank:
                change.fields.append((rule, candidate))
                change.bytes += bytes_of(candidate) - bytes_of(current)

    def note(self, fields: Mapping[str, Any], change: Change, stamp: Stamp) -> None:
        """Take in what counts of a report even if it changes nothing: its votes, and that it came last."""
        for vote, value in change.votes:
            vote.vote(self.votes.setdefault(vote.label, {}), value, stamp, self.branch)
        self._renew(fields, stamp)

    def echo(self, fields: Mapping[str, Any], stamp: Stamp) -> None:
        """The same for a report that only repeats what is known, and so votes for what has won already."""
        branch = self.branch
        for rule in self.rules.votes:
            value = find(fields, rule.path)
            if value is not None:
                by = self.votes[rule.label][value].by
                by[branch] = by.get(branch, 0) + 1
        self._renew(fields, stamp)

    def _renew(self, fields: Mapping[str, Any], stamp: Stamp) -> None:
        rules = self.rules
        if not rules.last:
            return
        if rules.flat:
            # In the order of the fields, since a set has none.
            self.stamps.update(dict.fromkeys(filter(rules.last_names.__contains__, fields), stamp))
        else:
            for rule in rules.last:
                if find(fields, rule.path) is not None:
                    self.stamps[rule.label] = stamp

    def take(self, change: Change, stamp: Stamp) -> None:
        """Take in a report that changes the event; `note` comes first, and its bytes are counted."""
        fields: dict[str, Any] = dict(self.fields) if self.shared else self.fields  # type: ignore[assignment]
        self.shared = False
        flat = self.rules.flat
        for rule, value in change.fields:
            if flat:
                fields[rule.label] = value
            else:
                group = fields
                for name in rule.path[:-1]:
                    # A group may be shared with what was told.
                    group[name] = group = dict(group.get(name, ()))
                group[rule.path[-1]] = value
            if rule.stamped:
                self.stamps[rule.label] = stamp
        self.fields = fields
        if change.filled:
            self.filled += change.filled
            self.ordered = False
        self.merged[self.branch] = self.merged.get(self.branch, 0) + 1
        self.untold = True

    def content(self) -> Mapping[str, Any]:
        """The fields in the declared order, for somebody to keep."""
        if not self.ordered:
            self.fields = self.rules.shape.ordered(self.fields)
            self.ordered = True
        self.shared = True
        return self.fields


def _with(fields: Mapping[str, Any], path: Path, value: object) -> dict[str, Any]:
    """The same fields with another value in one place; nothing that is given is changed."""
    name, *rest = path
    return {**fields, name: _with(fields[name], tuple(rest), value) if rest else value}


def _header_bytes(count: int) -> int:
    """What MessagePack takes to say that a map has so many pairs."""
    return 1 if count < 16 else 3


def earlier(one: Entry, other: Entry) -> bool:
    """Whether one event was opened before another, or at the same time and has the smaller id.

    What was told stays so: one that the other has been merged into is the earlier, although a report that
    was sent to two seats may have opened it at two times.
    """
    if one.event != other.event and (other.event in one.events) != (one.event in other.events):
        return other.event in one.events
    at_us, other_us = (
        min(side.events.get(event, at) for side in (one, other))
        for event, at in ((one.event, one.at_us), (other.event, other.at_us))
    )
    return stamp_order((at_us, one.event)) <= stamp_order((other_us, other.event))


def joined(one: Entry, other: Entry) -> Entry:
    """All that two copies of an event, or two events of one key, know together.

    Times and what was told are those of the one that survives; who joins decides on them.
    """
    first, second = (one, other) if earlier(one, other) else (other, one)
    rules = first.rules
    entry = Entry(rules, first.key, first.name, first.event, first.at_us, {}, first.branch)
    entry.slot, entry.order = first.slot, min(first.order, second.order)
    entry.recent = max(first.recent, second.recent)
    for event, at_us in (*first.events.items(), *second.events.items()):
        entry.events[event] = min(at_us, entry.events.get(event, at_us))
    entry.merged = joined_counts(first.merged, second.merged)
    entry.tellings = joined_counts(first.tellings, second.tellings)
    fields: dict[str, Any] = {}
    for rule in rules.fields.values():
        mine, theirs = find(first.fields, rule.path), _fitting(rule, second)
        if mine is None and theirs is None:
            continue
        if isinstance(rule, Majority):
            votes = rule.joined_votes(first.votes.get(rule.label, {}), second.votes.get(rule.label, {}))
            entry.votes[rule.label] = votes
            value = rule.winner(votes)
        elif mine is None or theirs is None:
            value = theirs if mine is None else mine
        else:
            value = rule.joined((mine, first.stamp_of(rule)), (theirs, second.stamp_of(rule)))
        if rule.stamped:
            entry.stamps[rule.label] = _joined_stamp(rule, first, second, mine, theirs)
        group = fields
        for name in rule.path[:-1]:
            group = group.setdefault(name, {})
        group[rule.path[-1]] = value
    entry.fields = fields
    entry.filled = rules.count(fields)
    entry.shared = False
    entry.qos = max(first.qos, second.qos)
    entry.version = max(first.version, second.version)
    entry.confirmed = max(first.confirmed, second.confirmed)
    entry.measure()
    return entry


def _fitting(rule: Rule, entry: Entry) -> Any:
    """An entry's value of a field, if its own declaration means the same by it."""
    theirs = entry.rules.fields.get(rule.label)
    if theirs is None or (theirs.field.type, type(theirs)) != (rule.field.type, type(rule)):
        return None
    return find(entry.fields, rule.path)


def _joined_stamp(rule: Rule, first: Entry, second: Entry, mine: Any, theirs: Any) -> Stamp:
    if mine is None or theirs is None:
        return (second if mine is None else first).stamp_of(rule)
    pick = max if rule.renewed else min
    return pick(first.stamp_of(rule), second.stamp_of(rule), key=stamp_order)
