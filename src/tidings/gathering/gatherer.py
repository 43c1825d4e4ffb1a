"""The gatherer: reports in, events out.

One machine for everybody who gathers: a seat in the network, the pipeline, the command line. It is told the
reports, each with its time, and what time it is; it answers what it did with each, and gives out what is told
and closed, in order. It knows no network: who is told, who holds copies, who asked for which cycle is said to
it from outside. docs/gathering.md explains every rule with a drawing.

A first report opens an entry and starts the clocks Tm, Tr and W. While it is open, a report merges or is
redundant. Tm tells, Tr and W close, and what is due at a time happens before a report of that time.

Most reports are redundant. So that path is one lookup and one comparison of two dicts, and a clock that only
moves away is not moved in the heap: it is found to be early when it comes up. What is answered and given out
are msgspec structs, made in a fifth of the time of a frozen dataclass.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from tidings.gathering import copies, digests
from tidings.gathering.copies import Copy
from tidings.gathering.entries import Change, Entry, earlier, joined
from tidings.gathering.policies import Stamp, joined_counts
from tidings.gathering.rules import Rules
from tidings.language.keys import Key
from tidings.language.reports import Event, Report
from tidings.language.topics import Overflow, StaysOpen, TellFirst, Topic

PAST_MAX = 1000
"""Closed events that a seat remembers whole, for the time when two sides that gathered apart meet again."""


class Fate(StrEnum):
    """What became of a report."""

    OPENED = "opened"
    """It is the first of an event."""

    MERGED = "merged"
    """It changed an open event."""

    REDUNDANT = "redundant"
    """It says nothing new, and was dropped."""

    REFUSED = "refused"
    """It cannot be taken; the reason says why."""


class State(StrEnum):
    """What a version of an event is to those who receive it."""

    TOLD = "told"
    """What is known now."""

    SNAPSHOT = "snapshot"
    """What was known already when somebody subscribed."""

    WITHDRAWN = "withdrawn"
    """It does not match any longer."""

    ENDED = "ended"
    """The last version, of an event that has ended by what it says."""

    MERGED_INTO = "merged-into"
    """The last version, of an event that has turned out to be the same as another."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What became of one report."""

    fate: Fate

    event: str
    """The event that it belongs to; empty if it was refused."""

    version: int
    """The latest version told of it, 0 for none yet."""

    conflicts: int = 0
    """In how many fields it says something else than the event."""

    reason: str = ""
    """Why it was refused."""


class Telling(msgspec.Struct, frozen=True, gc=False):
    """A version of an event, to be told."""

    event: Event

    name: str
    """The topic name of the report that opened it."""

    at_us: int
    """When."""

    state: State

    last: bool
    """Whether the event is closed with it."""

    qos: int
    """The highest of its reports."""

    into: str = ""
    """The event that it was merged into."""

    again: bool = False
    """Whether it was told before under the same number, and a successor repeats it."""

    late: bool = False
    """Whether everyone had it on another side: for others it is an open event of which they now hear."""


class Closing(msgspec.Struct, frozen=True, gc=False):
    """An event is open no more."""

    event: str
    key: Key
    at_us: int

    reason: str
    """"redundant_for", "window", "ended", "overflow", "merged-into", "redeclared" or "undeclared"."""

    told: bool
    """Whether a last version was told with it."""

    version: int
    """The latest version told of it."""

    merged: Mapping[str, int] = {}
    """How many reports have changed it, by branch, and which events have become one in it: what another side
    has beyond these is news."""


@dataclass(slots=True)
class Counts:
    """What a gatherer has done. received = opened + merged + redundant + refused."""

    received: int = 0
    redundant: int = 0
    merged: int = 0
    opened: int = 0
    refused: int = 0
    conflicts: int = 0
    told: int = 0
    closed: int = 0
    max_open: int = 0
    """The most events that were open at once."""
    overflowed: int = 0
    """Events that had to make room for others, or outgrew what one may hold."""


class Gatherer:
    """The open events of one seat."""

    def __init__(self, topic: Topic, *, branch: str = "", now_us: int = 0, keep_closed: bool = False) -> None:
        """With `keep_closed`, a closed event is kept until `confirm` says that its last version has arrived.

        `branch` names this gatherer among all that ever gather the topic: who continues from a copy must
        have another.
        """
        self.branch = branch
        self.now_us = now_us
        self.counts = Counts()
        self._keep_closed = keep_closed
        self._rules = Rules(topic)
        self._former: dict[bytes, Rules] = {}
        self._every_us: int | None = None
        # In order of change, the one changed longest ago first; what is adopted comes out of order.
        self._open: OrderedDict[tuple[Any, ...], Entry] = OrderedDict()
        self._digests: OrderedDict[tuple[Any, ...], Entry] = OrderedDict()
        self._past: OrderedDict[str, Entry] = OrderedDict()
        """Closed events that everyone has, the latest of them."""
        self._closed: dict[str, Entry] = {}
        self._events: dict[str, Entry] = {}
        self._sorted = True
        self._opened = 0
        self._changes = 0
        self._clocks: list[tuple[int, int, str, int, Entry]] = []
        self._pushed = 0
        self._changed: dict[str, Entry] = {}
        self._out: list[Telling | Closing] = []

    @property
    def topic(self) -> Topic:
        """The declaration that holds."""
        return self._rules.topic

    @property
    def open(self) -> int:
        """How many events are open and held in full."""
        return len(self._open)

    @property
    def digests(self) -> int:
        """How many more are open but held as digests."""
        return len(self._digests)

    # Reports and time.

    def feed(self, report: Report, qos: int = 0) -> Decision:
        """Take a report; clocks that are due by its time run out before."""
        at_us = report.at_us
        if at_us != self.now_us:
            clocks = self._clocks
            if at_us < self.now_us or (clocks and clocks[0][0] <= at_us):
                self.advance(at_us)
            else:
                self.now_us = at_us
        counts = self.counts
        counts.received += 1
        entry = self._open.get(report.key)
        if entry is None:
            return self._feed_closed(report, qos)
        rules = entry.rules
        if rules is not self._rules and not self._fits(entry, report):
            self._close(entry, "redeclared")
            return self._begin(report, qos)
        fields, known = report.fields, entry.fields
        # Asking dicts of one length whether they are equal takes half of asking whether one is in the other.
        if fields == known if len(fields) == len(known) else fields.items() <= known.items():
            if rules.quick and qos <= entry.qos and entry.redundant is not None:
                counts.redundant += 1
                return entry.redundant
            if rules.renewed:
                entry.echo(fields, (at_us, report.id))
                self._changed[entry.event] = entry
            return self._redundant(entry, qos)
        stamp = at_us, report.id
        change = entry.change(fields, stamp)
        gathering = rules.gathering
        if change.bytes > 0 and entry.size + change.bytes > gathering.event_bytes_max:
            if gathering.overflow is Overflow.REFUSE:
                return self._refuse(
                    f"event {entry.event!r} would have {entry.size + change.bytes} bytes; the limit is "
                    f"{gathering.event_bytes_max} (event_bytes_max)"
                )
            counts.overflowed += 1
            self._close(entry, "overflow")
            return self._begin(report, qos)
        counts.conflicts += change.conflicts
        if rules.renewed:
            entry.note(fields, change, stamp)
        entry.size += change.bytes
        if change.fields:
            return self._merge(entry, report, change, stamp, qos)
        if rules.renewed:
            self._changed[entry.event] = entry
        decision = self._redundant(entry, qos)
        if change.conflicts:
            return Decision(Fate.REDUNDANT, entry.event, entry.version, change.conflicts)
        return decision

    def refuse(self) -> None:
        """Count a report that came and could not be read."""
        self.counts.received += 1
        self.counts.refused += 1

    def drop(self, count: int) -> None:
        """Count reports that were not sent, since they would have been redundant."""
        self.counts.received += count
        self.counts.redundant += count

    def advance(self, now_us: int) -> None:
        """Let all clocks run out that are due by now."""
        if now_us < self.now_us:
            raise ValueError(
                f"time goes back from {self.now_us} to {now_us} microseconds; reports must come in the "
                "order of their times"
            )
        while self._clocks and self._clocks[0][0] <= now_us:
            due_us, _, _, _, entry = heapq.heappop(self._clocks)
            if entry.scheduled_us != due_us:
                continue  # it was scheduled earlier since, or is closed
            entry.scheduled_us = None
            if entry.due_us > due_us:
                self._schedule(entry)
                continue
            self.now_us = due_us
            self._run_out(entry)
        self.now_us = now_us

    def next_us(self) -> int | None:
        """When the next clock runs out; None if none runs."""
        while self._clocks:
            due_us, _, _, _, entry = self._clocks[0]
            if entry.scheduled_us == due_us and entry.due_us == due_us:
                return due_us
            heapq.heappop(self._clocks)
            if entry.scheduled_us == due_us:
                entry.scheduled_us = None
                self._schedule(entry)
        return None

    def take(self) -> list[Telling | Closing]:
        """What has been told and closed since the last call, in order."""
        out, self._out = self._out, []
        return out

    def cycle(self, every_us: int | None) -> None:
        """Take the shortest cycle that any subscriber asks for; None if none asks for its own."""
        self._every_us = every_us
        for rules in (self._rules, *self._former.values()):
            rules.cycle(every_us)
        for entry in self._open.values():
            if entry.merge_us is not None:
                delay_us = entry.rules.later_us if entry.version else entry.rules.first_us
                entry.merge_us = min(entry.merge_us, self.now_us + delay_us)
                self._schedule(entry)

    def redeclare(self, topic: Topic) -> None:
        """Take a new declaration: open events finish under theirs, new ones are opened under it."""
        rules = Rules(topic)
        rules.cycle(self._every_us)
        if rules.digest == self._rules.digest:
            # Nothing that counts has changed, and nothing is former.
            rules, self._rules.topic = self._rules, topic
        else:
            self._former[self._rules.digest] = self._rules
            rules = self._former.pop(rules.digest, rules)
            self._rules = rules
        used = {entry.rules.digest for entry in self._events.values()}
        self._former = {digest: former for digest, former in self._former.items() if digest in used}
        for former in self._former.values():
            former.foreign = former.unknown_of(rules)
        rules.foreign = frozenset()
        for held in (self._open, self._digests):
            entries = list(held.values())
            held.clear()
            for entry in entries:
                entry.slot = self._slot(entry.rules, entry.key)
                held[entry.slot] = entry

    def close_all(self) -> None:
        """Tell what is untold and close all: the topic is not declared any more."""
        for entry in self.entries():
            if not entry.closed:
                self._close(entry, "undeclared")

    # Copies.

    def changed(self) -> list[Entry]:
        """The entries that have changed since the last call, clocks included, in the order of change.

        Those that have closed are not among them, unless they are kept until they are confirmed.
        """
        changed, self._changed = list(self._changed.values()), {}
        return changed

    def copy(self, entry: Entry) -> bytes:
        """All there is to know of an entry, for `adopt`."""
        return copies.write(entry, self._rules, self.now_us)

    def copies(self) -> list[bytes]:
        """The copies of all entries, in the order in which their events were opened."""
        return [self.copy(entry) for entry in self.entries()]

    def adopt(
        self,
        copy: bytes,
        *,
        heal: bool = True,
        elapsed_us: int = 0,
        ended: tuple[int, Mapping[str, int]] | None = None,
    ) -> None:
        """Take an entry from a copy that was made some time ago; PeerError if it is none.

        `ended` says that the event was closed here, and is held no more: its last version, and how many
        reports had changed it. Only what the copy has beyond these is told, under the next number.

        With `heal`, what is here and what comes are two sides of the same: they are joined, and told if
        either side does not know it all. Without, the copy takes the place of what is here.
        """
        read = copies.read(copy)
        rules = self._rules_of(read)
        entry = copies.restore(read, rules, self._label(read.event), self.now_us, elapsed_us)
        entry.slot = self._slot(rules, entry.key)
        tell_now = rules.gathering.tell_now
        entry.satisfied = tell_now is not None and tell_now.evaluate(entry.fields) is True
        self._opened = max(self._opened, entry.order + 1)
        self._changes = max(self._changes, entry.recent)
        if heal and self._join_merged(entry):
            return
        if heal and entry.past and not self.holds(entry.event):
            known = self._past.get(entry.event)
            if known is None and not (ended and _adds(entry, ended[1])):
                # Everyone on the other side has its last version. Who has not is told when that is known.
                self._lay_down(entry)
                return
            if known is not None and joined_counts(known.tellings, entry.tellings) == known.tellings:
                return
        if heal:
            self._take_up(entry.event)
        here = self._of(entry)
        if not heal:
            self.forget(entry.event)
            if here is not None and not entry.closed:
                self.forget(here.event)
            self._insert(entry)
        elif entry.into:
            # What it was merged into comes for itself.
            known = self._events.get(entry.event)
            if known is None:
                self._insert(entry)
                self._repeat(entry)  # whoever told it may have died before anybody heard
            elif not known.version:
                known.version = entry.version  # somebody was told of it, and hears that it is merged
        elif ended is not None and not self.holds(entry.event):
            self._append(entry, *ended)
        elif here is None:
            late = entry.confirmed >= entry.version
            entry.confirmed = 0  # that everyone has it was said of the other side
            self._insert(entry)
            self._repeat(entry, late=late)
            self._make_room()
        elif entry.hashes is not None or here.hashes is not None:
            self._heal_digest(here, entry)
        elif entry.closed and not here.closed and entry.events.keys().isdisjoint(here.events):
            self._insert(entry)
            self._repeat(entry)
        else:
            self._heal(here, entry)
        known = self._events.get(entry.event)
        if known is not None and known.past:
            self._lay_down(known)

    def _join_merged(self, entry: Entry) -> bool:
        """Join a copy of an event that one side has merged into another event, and the other side has not.

        False if it is no such copy: then it is joined as any other.
        """
        here = self._events.get(entry.event) or self._past.get(entry.event)
        if here is None or bool(here.into) == bool(entry.into):
            return False
        if here.closed and entry.closed:
            # One side has closed it for itself: those who heard that need not hear that it was merged.
            part, other = (here, entry) if here.into else (entry, here)
            if part is entry:
                self._take_up(entry.event)
                self.forget(entry.event)
                entry.confirmed = 0
                self._insert(entry)
                self._repeat(entry)
            if _adds(other, known := _made_of(part)):
                self._append(other, part.version, known)
            return True
        whole = self._whole_of(entry)
        if not here.into or whole is None or self._open.get(entry.slot) not in (None, whole):
            return False
        # It is open on the other side, and a part of another event here.
        if _adds(entry, _made_of(whole)):
            self._take_up(whole.event)
            self._heal(whole, entry)
        if entry.version > here.version and not self._is_open(entry.event):
            self._take_up(entry.event)
            self.forget(entry.event)
            entry.confirmed = 0
            self._merge_into(entry, whole)
        return True

    def _append(self, entry: Entry, version: int, merged: Mapping[str, int]) -> None:
        """Tell what another side gathered of an event that was closed here, and close it for good."""
        more = _adds(entry, merged)
        whole = self._whole_of(entry)
        if whole is not None and (not more or not whole.closed):
            if more:
                self._heal(whole, entry)
            if entry.version > version and not self._is_open(entry.event):
                # Who was told that much has not heard yet that it is a part of another event.
                self._merge_into(entry, whole)
            return
        if not more:
            return
        entry.closed, entry.untold = False, True
        entry.version, entry.confirmed = max(entry.version, version), 0
        self._events[entry.event] = entry
        self._close(entry, "redundant_for")

    def _is_open(self, event: str) -> bool:
        """Whether an event is open: of two that two sides have merged into each other, one survives."""
        entry = self._events.get(event)
        return entry is not None and not entry.closed

    def _whole_of(self, part: Entry) -> Entry | None:
        """The event here that another one has become part of."""
        open_ = self._open.get(part.slot)
        here = (*([] if open_ is None else [open_]), *self._closed.values(), *self._past.values())
        return next((one for one in here if part.event in one.events and part.event != one.event), None)

    def surpass(self, event: str, version: int, merged: Mapping[str, int]) -> bool:
        """Another side has told an event up to a version, made of so many reports, and closed it.

        No number is given twice: what is known here beyond that is told under the next. False if nothing is
        known of it here.
        """
        self._take_up(event)
        entry = self._events.get(event)
        if entry is None:
            return False
        if entry.version <= version:
            entry.version = version
            if _adds(entry, merged) and entry.told is not None:
                was_closed, entry.closed = entry.closed, False
                entry.untold, entry.confirmed = True, 0
                if was_closed:
                    self._close(entry, "redundant_for")
                else:
                    self._grown(entry, at_once=True)
        if entry.past and self._events.get(event) is entry:
            self._lay_down(entry)
        return True

    def confirm(self, event: str, version: int) -> None:
        """Everyone has this version who must; no successor need tell it again."""
        entry = self._events.get(event)
        if entry is not None:
            entry.confirmed = max(entry.confirmed, version)
            if entry.confirmed >= entry.version:
                if entry.closed:
                    self._lay_down(entry)
                elif entry.hashes is not None:
                    entry.told = None

    def _lay_down(self, entry: Entry) -> None:
        """Remember a closed event that everyone has, for another side may yet bring more of it."""
        self._remove(entry)
        self._past[entry.event] = entry
        if len(self._past) > PAST_MAX:
            self._past.popitem(last=False)

    def _take_up(self, event: str) -> None:
        """Another side has something of an event that was closed here: hold it again."""
        entry = self._past.pop(event, None)
        if entry is not None:
            self._closed[event] = self._events[event] = entry

    def recall(self, event: str, version: int) -> int | None:
        """Somebody has an event up to a version: tell its last one again if it was closed after that.

        The last version if there is nothing to tell, 0 if it is told; None if it is not known that the event
        was closed: that was before this version, perhaps, and another side has gone on with it.
        """
        entry = self._past.get(event)
        if entry is None or entry.told is None:
            return None
        if entry.version <= version and not entry.into:
            return version if entry.version == version else None
        self._take_up(event)
        self._changed[event] = entry
        entry.confirmed = 0
        self._repeat(entry)
        return 0

    def retell(self) -> None:
        """Tell every latest version again that is not known to have arrived, as it was told.

        What was told with QoS 0 may be lost, and must not come twice.
        """
        for entry in self.entries():
            if entry.told_qos:
                self._repeat(entry)
            elif entry.closed:
                self.forget(entry.event)

    def _repeat(self, entry: Entry, *, late: bool = False) -> None:
        told = entry.told
        if told is not None and entry.confirmed < told.version:
            self._out.append(
                Telling(
                    told,
                    entry.name,
                    self.now_us,
                    State(entry.state),
                    entry.closed,
                    entry.qos,
                    entry.into,
                    again=True,
                    late=late,
                )
            )

    def forget(self, event: str) -> None:
        """Drop an event without a word."""
        entry = self._events.get(event)
        if entry is not None:
            self._remove(entry)

    # Looking.

    def entries(self) -> list[Entry]:
        """All that is held, closed events and digests included, in the order of opening."""
        return sorted(self._events.values(), key=lambda entry: (entry.order, entry.event))

    def past(self) -> list[Entry]:
        """Closed events that everyone has, the latest of them."""
        return list(self._past.values())

    def matching(self, wanted: Callable[[Event], bool]) -> list[Event]:
        """The latest versions told of open events that somebody wants, in the order of their opening."""
        return [
            entry.told
            for entry in self.entries()
            if not entry.closed and entry.hashes is None and entry.told is not None and wanted(entry.told)
        ]

    def is_untold(self, event: str) -> bool:
        """Whether an event has something that no version has told yet."""
        entry = self._events.get(event)
        return entry is not None and entry.untold

    def holds(self, event: str) -> bool:
        """Whether anything is held of an event: it is open, or its last version is not confirmed."""
        return event in self._events

    def entry_of(self, key: Key) -> Entry | None:
        """The open event of a key; None if there is none, or only its digest is held."""
        return self._open.get(key)

    def remaining_us(self, entry: Entry) -> int:
        """How long an event stays open at least, if no report changes it."""
        return max(0, entry.close_us - self.now_us)

    def closing_us(self, event: str) -> int:
        """When an event closes at the earliest, if it is open under the declaration that holds; else 0."""
        entry = self._events.get(event)
        return 0 if entry is None or entry.closed or entry.rules is not self._rules else entry.close_us

    # What happens to a report.

    def _feed_closed(self, report: Report, qos: int) -> Decision:
        """A report about something of which no event is held in full."""
        digest = self._digests.get(report.key) if self._digests else None
        if digest is not None:
            assert digest.hashes is not None, "a digest has hashes"
            # What was told in a way that may be lost, and is not there any more, must be told anew.
            safe = digest.told is not None or digest.told_qos or not qos
            if (
                safe
                and self._fits(digest, report)
                and digests.known(digest.rules, digest.hashes, report.fields)
            ):
                return self._redundant(digest, qos)
        return self._begin(report, qos)

    def _fits(self, entry: Entry, report: Report) -> bool:
        """Whether a report can be put into an event that may be of an earlier declaration."""
        foreign = entry.rules.foreign
        return not foreign or not any(rule.label in foreign for rule, _ in self._rules.leaves(report.fields))

    def _redundant(self, entry: Entry, qos: int) -> Decision:
        self.counts.redundant += 1
        rules = entry.rules
        if rules.gathering.stays_open is StaysOpen.REPORTED:
            entry.redundant_us = self.now_us + rules.gathering.redundant_for_us
            self._changed[entry.event] = entry
        if qos > entry.qos:
            entry.qos = qos
            self._changed[entry.event] = entry
            if not entry.told_qos and not entry.untold:
                # What it says was told, but in a way that may be lost; it was sent so that nothing is.
                entry.told_qos = qos
                entry.confirmed = min(entry.confirmed, entry.version - 1)
                self._repeat(entry)
        if entry.redundant is None:
            entry.redundant = Decision(Fate.REDUNDANT, entry.event, entry.version)
        return entry.redundant

    def _begin(self, report: Report, qos: int) -> Decision:
        """Open an event."""
        counts, rules, gathering = self.counts, self._rules, self._rules.gathering
        entry = Entry(
            rules, report.key, report.topic, report.id, report.at_us, report.fields, self._label(report.id)
        )
        entry.begin()
        if entry.size > gathering.event_bytes_max:
            return self._refuse(
                f"the report has {entry.size} bytes; an event may have {gathering.event_bytes_max} "
                "(event_bytes_max)"
            )
        if len(self._open) >= gathering.open_max:
            if gathering.overflow is Overflow.REFUSE:
                return self._refuse(
                    f"{len(self._open)} events are open, and no more may be (open_max); try again when some "
                    "have closed"
                )
            self._make_room(1)
        if self._digests and report.key in self._digests:
            self._close(self._digests[report.key], "overflow")
        counts.opened += 1
        now_us = self.now_us
        entry.qos = qos
        entry.order = self._opened
        self._opened += 1
        self._changes += 1
        entry.recent = self._changes
        entry.redundant_us = now_us + gathering.redundant_for_us
        if gathering.window_us is not None:
            entry.window_us = now_us + gathering.window_us
        self._open[report.key] = self._events[report.id] = entry
        self._changed[report.id] = entry
        counts.max_open = max(counts.max_open, len(self._open))
        at_once = gathering.tell_first is TellFirst.NOW or entry.complete
        self._grown(entry, at_once)
        return Decision(Fate.OPENED, report.id, entry.version)

    def _merge(self, entry: Entry, report: Report, change: Change, stamp: Stamp, qos: int) -> Decision:
        """Change an event."""
        rules = entry.rules
        was_complete = entry.complete
        entry.take(change, stamp)
        self.counts.merged += 1
        if qos > entry.qos:
            entry.qos = qos
        entry.redundant_us = self.now_us + rules.gathering.redundant_for_us
        self._open.move_to_end(entry.slot)
        self._changes += 1
        entry.recent = self._changes
        self._changed[entry.event] = entry
        if rules.complete_event:
            at_once = entry.complete
        elif rules.complete_once:
            at_once = entry.complete and not was_complete
        else:
            at_once = rules.count(report.fields) == rules.total
        self._grown(entry, at_once)
        return Decision(Fate.MERGED, entry.event, entry.version, change.conflicts)

    def _grown(self, entry: Entry, at_once: bool) -> None:
        """An event has been opened or changed: is it told, and when?"""
        rules, gathering = entry.rules, entry.rules.gathering
        if gathering.ends_when is not None and gathering.ends_when.evaluate(entry.fields) is True:
            self._close(entry, "ended", State.ENDED)
            return
        if gathering.tell_now is not None:
            satisfied = gathering.tell_now.evaluate(entry.fields) is True
            at_once = at_once or (satisfied and not entry.satisfied)
            entry.satisfied = satisfied
        if entry.close_us <= self.now_us:
            self._close(entry, _reason(entry))
            return
        delay_us = rules.later_us if entry.version else rules.first_us
        if at_once or delay_us == 0:
            self._tell(entry)
        elif entry.merge_us is None:
            entry.merge_us = self.now_us + delay_us
        elif entry.scheduled_us is not None:
            return  # only Tr has moved, and away
        self._schedule(entry)

    def _refuse(self, reason: str) -> Decision:
        self.counts.refused += 1
        return Decision(Fate.REFUSED, "", 0, reason=reason)

    # Clocks.

    def _schedule(self, entry: Entry) -> None:
        """See to it that an entry's clocks are looked at when the first is due."""
        due_us = entry.due_us
        scheduled_us = entry.scheduled_us
        if scheduled_us is None or due_us < scheduled_us:
            entry.scheduled_us = due_us
            self._pushed += 1
            if len(self._clocks) > 64 + 4 * len(self._events):
                self._sweep()
            heapq.heappush(self._clocks, (due_us, entry.order, entry.event, self._pushed, entry))

    def _sweep(self) -> None:
        """Throw out of the heap what was scheduled and has been moved forward since."""
        self._clocks = [clock for clock in self._clocks if clock[4].scheduled_us == clock[0]]
        heapq.heapify(self._clocks)

    def _run_out(self, entry: Entry) -> None:
        """A clock of an entry is due."""
        if entry.close_us <= self.now_us:
            self._close(entry, _reason(entry))
        else:
            self._tell(entry)
            self._schedule(entry)

    # Telling and closing.

    def _tell(self, entry: Entry, state: State = State.TOLD, *, last: bool = False) -> None:
        entry.merge_us = None
        entry.untold = False
        entry.version += 1
        entry.redundant = None
        entry.tellings[entry.branch] = entry.tellings.get(entry.branch, 0) + 1
        entry.state = state.value
        entry.told_qos = entry.qos
        entry.told = Event(
            entry.rules.topic.name,
            entry.key,
            entry.event,
            entry.version,
            entry.reports,
            entry.complete,
            entry.content(),
        )
        self.counts.told += 1
        self._changed[entry.event] = entry
        self._out.append(Telling(entry.told, entry.name, self.now_us, state, last, entry.qos, entry.into))

    def _close(self, entry: Entry, reason: str, state: State = State.TOLD) -> None:
        told = entry.untold
        if told:
            self._tell(entry, state, last=True)
        self._remove(entry)
        self.counts.closed += 1
        self._out.append(
            Closing(entry.event, entry.key, self.now_us, reason, told, entry.version, _made_of(entry))
        )
        if not self._keep_closed or entry.told is None:
            return
        entry.closed = True
        if entry.confirmed >= entry.version:
            self._lay_down(entry)
        else:
            self._closed[entry.event] = self._events[entry.event] = entry
            self._changed[entry.event] = entry

    def _remove(self, entry: Entry) -> None:
        for held in (self._open, self._digests):
            if held.get(entry.slot) is entry:
                del held[entry.slot]
        self._closed.pop(entry.event, None)
        self._changed.pop(entry.event, None)
        if self._events.get(entry.event) is entry:
            del self._events[entry.event]
        entry.scheduled_us = None

    def _make_room(self, places: int = 0) -> None:
        """Turn the entries changed longest ago into digests, until no more are open than may be."""
        if not self._sorted:
            for held in (self._open, self._digests):
                for entry in sorted(held.values(), key=lambda one: (one.recent, one.event)):
                    held.move_to_end(entry.slot)
            self._sorted = True
        while len(self._open) + places > self._rules.gathering.open_max:
            entry = next(iter(self._open.values()))
            self.counts.overflowed += 1
            if entry.untold:
                self._tell(entry)
            del self._open[entry.slot]
            entry.hashes = digests.hashes_of(entry.rules, entry.fields)
            entry.fields, entry.stamps, entry.votes = {}, {}, {}
            entry.shared = True
            if not self._keep_closed or entry.confirmed >= entry.version:
                entry.told = None
            entry.measure()
            self._changes += 1
            entry.recent = self._changes
            self._digests[entry.slot] = entry
            self._changed[entry.event] = entry
            self._schedule(entry)
        while len(self._digests) > self._rules.gathering.open_max:
            self._close(next(iter(self._digests.values())), "overflow")

    # Copies that come in.

    def _label(self, event: str) -> str:
        """Under which name this gatherer counts for an event."""
        return f"{self.branch}\0{event}"

    def _slot(self, rules: Rules, key: Key) -> tuple[Any, ...]:
        """Where an event is kept: under its key, if the declaration that holds means the same by it."""
        # No key has bytes in it.
        return key if rules.key == self._rules.key else (rules.digest, *key)

    def _rules_of(self, copy: Copy) -> Rules:
        if copy.declared == self._rules.digest:
            return self._rules
        former = self._former.get(copy.declared)
        if former is None and copy.declaration is not None:
            former = copies.rules_of(copy)
            former.cycle(self._every_us)
            former.foreign = former.unknown_of(self._rules)
            self._former[former.digest] = former
        return former or self._rules

    def _of(self, entry: Entry) -> Entry | None:
        """What is here of the same event, or else of the same key."""
        open_ = self._open.get(entry.slot)
        if open_ is not None and entry.event in open_.events:
            return open_
        return self._events.get(entry.event) or open_ or self._digests.get(entry.slot)

    def _insert(self, entry: Entry) -> None:
        self._events[entry.event] = entry
        self._changed[entry.event] = entry
        if entry.closed:
            self._closed[entry.event] = entry
            return
        held = self._open if entry.hashes is None else self._digests
        held[entry.slot] = entry
        self._sorted = False
        self.counts.max_open = max(self.counts.max_open, len(self._open))
        self._schedule(entry)

    def _heal(self, here: Entry, entry: Entry) -> None:
        """Join two copies of one event, or two events of one key."""
        newer = self._open.get(here.slot)
        join = joined(here, entry)
        join.branch = self._label(join.event)
        join.redundant_us = max(here.redundant_us, entry.redundant_us)
        windows = [one.window_us for one in (here, entry) if one.window_us is not None]
        join.window_us = min(windows) if windows else None
        self._remove(here)
        knowing = [side for side in (here, entry) if _knows_all(side, join)]
        if knowing:
            # That side goes on as it is; of two the closed one, since what is closed stays so.
            side = max(knowing, key=lambda one: one.closed)
            join.told, join.untold, join.state, join.version = (
                side.told,
                side.untold,
                side.state,
                side.version,
            )
            join.merge_us, join.confirmed = side.merge_us, side.confirmed
            join.satisfied, join.closed, join.told_qos = side.satisfied, side.closed, side.told_qos
            join.into = side.into
            self._insert(join)
            if here not in knowing:
                late = join.confirmed >= join.version
                join.confirmed = 0
                self._repeat(join, late=late)
        else:
            join.untold = True
            self._insert(join)
            if any(side.closed and side.state == State.ENDED for side in (here, entry)):
                # What has ended stays so, whatever the other side has added.
                self._close(join, "ended", State.ENDED)
            else:
                self._grown(join, at_once=True)
        if here.event != join.event:
            self._merge_into(here, join)
        elif entry.event not in here.events:
            self._merge_into(entry, join)
        if newer is not None and newer is not here and self._open.get(join.slot) is join:
            # It was opened after that one had been closed here.
            self._remove(join)
            self._heal(newer, join)

    def _merge_into(self, loser: Entry, survivor: Entry) -> None:
        """Say once of an event that it is now part of another."""
        loser.into = survivor.event
        loser.branch = self._label(loser.event)
        loser.untold = loser.version > 0  # of one that was never told nobody need hear
        self._close(loser, "merged-into", State.MERGED_INTO)

    def _heal_digest(self, here: Entry, entry: Entry) -> None:
        """Of two events, one or both of which are digests, one stays."""
        full = next((one for one in (here, entry) if one.hashes is None), None)
        stays = full or (here if earlier(here, entry) else entry)
        goes = entry if stays is here else here
        if here is not stays:
            self._remove(here)
            self._insert(stays)
            self._make_room()
        if goes.event == stays.event:
            stays.version = max(stays.version, goes.version)
            stays.redundant = None
        else:
            self.counts.closed += 1
            self._out.append(
                Closing(goes.event, goes.key, self.now_us, "overflow", False, goes.version, _made_of(goes))
            )


def _made_of(entry: Entry) -> dict[str, int]:
    """How many reports have changed an event, by branch, and which events have become one in it."""
    return entry.merged | {f"={event}": 1 for event in entry.events}


def _adds(entry: Entry, merged: Mapping[str, int]) -> bool:
    """Whether a copy has more than an event that these reports have changed."""
    return any(count > merged.get(branch, 0) for branch, count in _made_of(entry).items())


def _knows_all(side: Entry, join: Entry) -> bool:
    """Whether nothing was said or told on the other side that this one does not have."""
    return (
        side.event == join.event
        and side.events == join.events
        and side.tellings == join.tellings
        and side.fields == join.fields
    )


def _reason(entry: Entry) -> str:
    """Which clock closes an event."""
    window_us = entry.window_us
    return "window" if window_us is not None and window_us < entry.redundant_us else "redundant_for"
