"""A seat: one broker gathers the reports of one place, and a second one has a copy.

What changes in a turn, by reports or by clocks, is one *batch*. A batch is safe when the deputy has it: a
tree neighbour, which keeps copies of the events as bytes, and of the number of the latest report of each
origin. Only then are the reports in it acknowledged and its versions told. So whoever takes over after the
seat's death knows all that anybody was told, and what it does not know is sent again. A broker without
neighbours has its disk for a deputy.

What has QoS 1 or 2 must be on the seat's own disk as well, for all may lose their power at once.

Copies are of whole events, with clocks as remaining times, and not of reports: a deputy need not compute,
and to take a copy twice does no harm. While a new deputy is given all there is, nothing is safe.

Who has which seat, and how messages travel, is not known here (`seats`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.errors import PayloadError
from tidings.gathering.gatherer import Closing, Fate, Gatherer, Telling
from tidings.language.reports import Report
from tidings.language.topics import OnTheWay, Topic
from tidings.overlay.core import Core
from tidings.overlay.events import Erase, Write
from tidings.overlay.gather.messages import Ended, Holder, Mirror, Mirrored
from tidings.overlay.gather.reports import report_id
from tidings.overlay.links.links import Link, Links
from tidings.overlay.publication import Batch, Publication
from tidings.overlay.publishing.messages import Logged
from tidings.overlay.publishing.outbox import encode, quoted
from tidings.overlay.routing.topics import Topics
from tidings.overlay.timers import Timer
from tidings.overlay.trees.trees import Edge, TreeEpoch
from tidings.records.record import Kind

Origin = tuple[str, int]
"""Where reports enter: broker and incarnation."""

PART_ENTRIES, PART_BYTES = 256, 512 * 1024
"""Of a copy that goes in several messages, so that no frame is too long."""

LOG_BYTES = 4 * 1024 * 1024
"""Of entries of the log that wait for the disk, or for a deputy. Beyond, the copy there begins anew."""

CLOSED_MAX = 10_000
"""Events remembered as closed: a copy from elsewhere must not open them again."""

FATES = {Fate.OPENED: Kind.OPENED, Fate.MERGED: Kind.MERGED}


class Copies:
    """All that is known of a seat, as its copies."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[bytes, int]] = {}
        """By event: its copy, and when it was made or came here."""
        self.marks: dict[Origin, int] = {}
        self.closed: dict[str, Ended] = {}
        self.confirmed: dict[str, int] = {}

    def close(self, ended: Ended) -> None:
        self.entries.pop(ended.event, None)
        self.confirmed.pop(ended.event, None)
        remember(self.closed, ended)

    def mark(self, marks: Iterable[tuple[str, int, int]]) -> None:
        for origin, incarnation, number in marks:
            self.marks[origin, incarnation] = max(number, self.marks.get((origin, incarnation), 0))

    def into(self, gatherer: Gatherer, now_us: int, closed: Mapping[str, Ended], *, heal: bool) -> None:
        """Give a gatherer all these events; those in `closed` it has had."""
        for event, (copy, at_us) in self.entries.items():
            ended = (closed[event].version, closed[event].merged) if event in closed else None
            gatherer.adopt(copy, heal=heal, elapsed_us=max(0, now_us - at_us), ended=ended)
            if event in self.confirmed and not heal:
                # Of another side it is not known who has what.
                gatherer.confirm(event, self.confirmed[event])


class Changes:
    """What changed in one turn, and what is done when it is safe."""

    __slots__ = ("absorbed", "answers", "handed", "lasting", "number", "out")

    def __init__(
        self,
        number: int,
        out: list[Telling | Closing],
        answers: dict[Origin, int],
        handed: list[tuple[str, int]],
        absorbed: dict[Origin, list[tuple[int, str]]],
    ) -> None:
        self.number = number
        self.out = out
        self.answers = answers
        self.handed = handed
        self.absorbed = absorbed
        """By origin: reports and the events that say all they say."""
        self.lasting = False
        """Whether it has something of QoS 1 or 2."""


class Office(Protocol):
    """What a seat needs of the broker it is at."""

    def touched(self, seat: Seat) -> None:
        """Something has happened at a seat, so that its batch is to be closed when the turn ends."""

    def grown(self, place: str) -> TreeEpoch | None:
        """The epoch that the place uses."""

    def answer(
        self,
        seat: Seat,
        origin: Origin,
        number: int,
        *,
        again: bool,
        absorbed: Sequence[tuple[int, str]] = (),
    ) -> bool:
        """Tell an origin how far its reports are safe, and which need not be sent again.

        False if it is out of reach on the tree that the place uses.
        """

    def told(self, seat: Seat, telling: Telling) -> None:
        """Tell a version of an event to all who want it."""

    def closed(self, seat: Seat, closing: Closing) -> None:
        """Let those who follow an event know that it is closed."""

    def handed(self, seat: Seat, sender: str, number: int) -> None:
        """Let a broker know that what it handed over is safe."""

    def deputised(self, seat: Seat, deputy: str) -> None:
        """Let all know that another broker has a copy of everything."""


class Seat:
    """One seat that this broker has."""

    def __init__(
        self,
        core: Core,
        links: Links,
        topics: Topics,
        office: Office,
        place: str,
        topic: Topic,
        holder: Holder,
    ) -> None:
        self._core = core
        self._links = links
        self._topics = topics
        self._office = office
        self.place = place
        self.topic = topic
        self.holder = holder
        self.gatherer = Gatherer(
            topic, branch=f"{holder.term}.{core.id}", now_us=core.at_us, keep_closed=True
        )
        self.since = core.now
        """When it came here."""
        self.every_us: int | None = None
        """The shortest cycle that anybody has asked for."""
        self.better = ("", 0)
        """The broker that would have been better, and for how many windows in a row."""
        self.leaving: tuple[str, int] | None = None
        """The broker that it is about to be handed to, and that one's boot; meanwhile nothing is gathered."""
        self.leaving_at = 0.0
        """Since when."""
        self.marks: dict[Origin, int] = {}
        """By origin: the number of its latest report that was taken."""
        self.recent: dict[str, Ended] = {}
        """Events that were closed lately."""
        self._marked: dict[Origin, None] = {}
        """Origins whose mark has changed, or that must be answered again."""
        self._asked: dict[Origin, int] = {}
        """By origin: the mark behind which something was missing, so that it is asked for once."""
        self._lasting = False
        """Whether a report in this turn's batch has been acknowledged or will be."""
        self._handed: list[tuple[str, int]] = []
        self._absorbed: dict[Origin, list[tuple[int, str]]] = {}
        self._confirmed: dict[str, int] = {}
        self._gone: dict[str, Ended] = {}
        """Closed events of which everyone has the last version, so that nobody need know them any longer."""
        self._overdue = False
        """Whether those have waited for long enough."""
        self._number = 0
        self._batches: deque[Changes] = deque()
        self._deputy: Link | None = None
        self._generation = 0
        """Of the link to the deputy."""
        self._alone = False
        """Whether there is nobody who could be the deputy, so that the disk is."""
        self._copied = 0
        """The latest batch that a deputy has."""
        self._synced = 0
        """The latest batch that is known to be on disk."""
        self._whole = 0
        """The batch with which the deputy has been given everything."""
        self._given = False
        """Whether it has said that it has it."""
        self._unanswered: dict[Origin, int] = {}
        """By origin: the number up to which its reports are safe, if it could not be told. It may have sent
        them on a tree that this broker used only later."""
        self._log: deque[tuple[int, Logged]] = deque()
        """Entries of the log that the deputy has not been sent, and the sync with which they are durable."""
        self._log_bytes = 0

    # Reports.

    def take(
        self, publication: Publication, previous: int, hops: int, report: Report | None, dropped: int
    ) -> None:
        """A report has come, and word of others that were redundant and not sent."""
        self._office.touched(self)
        origin = publication.origin, publication.incarnation
        mark = self.marks.get(origin, 0)
        if self.leaving is not None:
            return  # whoever has the seat then will be sent it again
        if publication.number <= mark:
            self._marked[origin] = None
            return
        if previous > mark:
            if self._asked.get(origin) != mark and self._office.answer(self, origin, mark, again=True):
                self._asked[origin] = mark
            return
        self.marks[origin] = publication.number
        self._marked[origin] = None
        self._lasting = self._lasting or publication.qos > 0
        core = self._core
        self.gatherer.drop(dropped)
        if not publication.payload:
            return
        if report is None:
            try:
                report = self._topics.read(publication.topic, publication.payload, publication.content_type)
            except PayloadError as error:
                # It was let in under another declaration.
                self.gatherer.refuse()
                core.suppress(Batch.of(publication), None, hops, f"refused: {error}")
                return
        at_us = max(core.at_us, self.gatherer.now_us)
        named = Report(publication.topic, report.key, report.fields, report_id(publication), at_us)
        decision = self.gatherer.feed(named, publication.qos)
        if self.drops and origin[0] != core.id and decision.event and not decision.conflicts:
            self._absorbed.setdefault(origin, []).append((publication.number, decision.event))
        kind = FATES.get(decision.fate, Kind.SUPPRESSED)
        reason, version = None, decision.version
        conflicts = f"conflicts: {decision.conflicts}" if decision.conflicts else None
        if decision.fate is Fate.REDUNDANT:
            reason = f"redundant: {conflicts}" if conflicts else "redundant"
        elif kind is Kind.SUPPRESSED:
            reason = f"refused: {decision.reason}"
        else:
            reason = conflicts
            # Not the version told last but the one that tells this: so it is known whose reports are in it.
            version += self.gatherer.is_untold(decision.event)
        core.record(
            kind,
            publication.topic,
            publication.id,
            len(publication.payload),
            publisher=publication.publisher,
            hops=hops,
            latency_us=core.at_us - publication.at_us,
            reason=reason,
            event=decision.event or None,
            version=version or None,
            report=named.id,
        )

    @property
    def drops(self) -> bool:
        """Whether brokers before the seat may drop reports."""
        gathering = self.topic.gathering
        return gathering is not None and gathering.on_the_way is not OnTheWay.NOTHING

    def promise_us(self, event: str) -> int:
        """Until when a report that says what an event says is redundant if it comes here; 0 for never."""
        closing_us = self.gatherer.closing_us(event) if self.drops else 0
        until_us = closing_us - round(self._core.settings.relay_margin_s * 1e6)
        return until_us if until_us > self._core.at_us else 0

    def adopt(self, copies: Copies, sender: str, number: int) -> None:
        """Take what another broker has gathered at this place; it is told when that is safe here."""
        self._office.touched(self)
        self._join(copies)
        self._handed.append((sender, number))

    def begin(self, inherited: Copies | None, others: Iterable[Copies]) -> None:
        """Start with what the broker had that this one succeeds; tell again what may not have been told.

        Others may have gathered there too, in a part of the network of their own: of what they told it is
        not known who has it.
        """
        self._office.touched(self)
        if inherited is not None:
            inherited.into(self.gatherer, self._core.at_us, self.recent, heal=False)
            self.recent |= inherited.closed
            self._count_up(inherited)
        self.gatherer.retell()
        for copies in others:
            self._join(copies)

    def _join(self, copies: Copies) -> None:
        """Take what was gathered in another part of the network."""
        self._hear_of_closed(copies)
        copies.into(self.gatherer, self._core.at_us, self.recent, heal=True)
        for ended in copies.closed.values():
            if ended.event in copies.entries and not self.gatherer.holds(ended.event):
                remember(self.recent, ended)
        self._count_up(copies)

    def _count_up(self, copies: Copies) -> None:
        """Reports that are in copies must not be taken again."""
        for origin, mark in copies.marks.items():
            if mark > self.marks.get(origin, 0):
                self.marks[origin] = mark
                self._marked[origin] = None

    def recall(self, event: str, version: int) -> int | None:
        """Tell the last version of a closed event again, for somebody who has an earlier one."""
        self._office.touched(self)
        return self.gatherer.recall(event, version)

    def _hear_of_closed(self, copies: Copies) -> None:
        """Another side has closed events: no number of theirs is given to something else."""
        for ended in copies.closed.values():
            if ended.event in copies.entries:
                continue  # it comes as a whole
            known = self.recent.get(ended.event)
            if self.gatherer.surpass(ended.event, ended.version, ended.merged):
                continue
            if known is None or known.version < ended.version:
                remember(self.recent, ended)

    def confirm(self, event: str, version: int) -> None:
        """Everyone has a version of an event."""
        held = self.gatherer.holds(event)
        self.gatherer.confirm(event, version)
        if self.gatherer.holds(event):
            self._confirmed[event] = version
        elif held and event in self.recent:
            self._gone[event] = self.recent[event]

    def tick(self) -> None:
        """Let disk and deputy forget what everyone has."""
        if self._gone:
            self._overdue = True
            self._office.touched(self)
        if self._log:
            self._core.after_sync(self._send_log)
        for origin, mark in list(self._unanswered.items()):
            if self._office.answer(self, origin, mark, again=False):
                del self._unanswered[origin]

    # Batches.

    def on_clock(self) -> None:
        """Some clock has run out."""
        self._office.touched(self)
        self.gatherer.advance(max(self._core.at_us, self.gatherer.now_us))

    def flush(self) -> None:
        """Close the batch of this turn, and have it made safe."""
        gatherer = self.gatherer
        out = gatherer.take()
        changed = gatherer.changed()
        if out or changed or self._marked or self._handed or self._overdue:
            self._overdue = False
            self._number += 1
            answers = {origin: self.marks.get(origin, 0) for origin in self._marked}
            self._batches.append(Changes(self._number, out, answers, self._handed, self._absorbed))
            entries = tuple((entry.event, gatherer.copy(entry)) for entry in changed)
            for one in out:
                if isinstance(one, Closing):
                    ended = Ended(one.event, one.version, dict(one.merged))
                    remember(self.recent, ended)
                    if not gatherer.holds(one.event):
                        self._gone[one.event] = ended
            closed, self._gone = tuple(self._gone.values()), {}
            for ended in closed:
                self._confirmed.pop(ended.event, None)
            self._write(entries, closed, answers)
            self._marked = {}
            self._handed = []
            self._absorbed = {}
            self._secure(entries, closed, answers)
        due_us = gatherer.next_us()
        if due_us is None:
            self._core.timers.cancel(Timer.GATHER, self.place)
        elif self._core.timers.due(Timer.GATHER, self.place) != due_us / 1e6:
            self._core.timers.set(Timer.GATHER, self.place, due_us / 1e6)

    def _secure(
        self, entries: tuple[tuple[str, bytes], ...], closed: tuple[Ended, ...], answers: Mapping[Origin, int]
    ) -> None:
        batch = self._batches[-1]
        told = any(isinstance(one, Telling) and one.qos for one in batch.out)
        batch.lasting = self._lasting or told or bool(batch.handed)
        self._lasting = False
        if self._deputy is not None and self._deputy.generation == self._generation:
            confirmed, self._confirmed = tuple(self._confirmed.items()), {}
            grown = self._office.grown(self.place)
            self._send(grown, entries, closed, confirmed, marks_of(answers), whole=False)
        if batch.lasting or self._alone:
            number = batch.number
            self._core.after_sync(lambda: self._on_disk(number))
        self._release()

    def _on_disk(self, number: int) -> None:
        self._synced = max(self._synced, number)
        self._release()

    def _send(
        self,
        grown: TreeEpoch | None,
        entries: tuple[tuple[str, bytes], ...],
        closed: tuple[Ended, ...],
        confirmed: tuple[tuple[str, int], ...],
        marks: tuple[tuple[str, int, int], ...],
        *,
        whole: bool,
    ) -> None:
        assert self._deputy is not None, "copies go to a deputy"
        root, epoch = (grown.root, grown.epoch) if grown is not None else ("", (0, 0))
        term = self.holder.term
        parts = list(parted(entries)) or [()]
        for at, part in enumerate(parts):
            more = at + 1 < len(parts)
            message = Mirror(
                root,
                epoch,
                self.place,
                term,
                self._number,
                part,
                () if at else closed,
                () if at else confirmed,
                () if at else marks,
                whole,
                more,
            )
            self._links.send_data(self._deputy, message, message.size)

    # The log.

    def copy_log(self, logged: Logged, *, lasting: bool) -> None:
        """An entry is to be at the deputy too, when it is on the disk here.

        `lasting`: the disk is asked for what is told in any case; else this waits for the next tick.
        """
        if self._deputy is None:
            return
        core = self._core
        self._log.append((core.sync_token + (not core.sync_wanted), logged))
        self._log_bytes += len(logged.payload)
        if self._log_bytes > LOG_BYTES:
            self._log.clear()
            self._log_bytes = 0
        elif lasting:
            core.after_sync(self._send_log)

    def _send_log(self) -> None:
        """Send the deputy what is on the disk here."""
        deputy, grown = self._deputy, self._office.grown(self.place)
        if deputy is None or deputy.generation != self._generation or grown is None:
            return
        while self._log and self._log[0][0] <= self._core.synced:
            part: list[Logged] = []
            size = 0
            while len(part) < PART_ENTRIES and size < PART_BYTES and self._log:
                token, logged = self._log[0]
                if token > self._core.synced:
                    break
                self._log.popleft()
                part.append(logged)
                size += len(logged.payload)
            self._log_bytes -= size
            message = Mirror(
                grown.root,
                grown.epoch,
                self.place,
                self.holder.term,
                self._number,
                (),
                (),
                (),
                (),
                log=tuple(part),
                incarnation=self._core.incarnation,
            )
            self._links.send_data(deputy, message, message.size)

    # What the deputy says.

    def on_mirrored(self, link: Link, message: Mirrored) -> None:
        """The deputy has all batches up to a number."""
        if link is not self._deputy or link.generation != self._generation:
            return
        if message.number < self._whole:
            grown = self._office.grown(self.place)
            if message.number == 0 and self._given and grown is not None and link.peer in grown.edges:
                self._give_all(grown, grown.edges[link.peer])
            return
        self._given = True
        if self.holder.deputy != link.peer:
            self._office.deputised(self, link.peer)
        self._copied = max(self._copied, message.number)
        self._release()

    def _is_safe(self, batch: Changes) -> bool:
        """Whether whoever takes over would know it.

        What was or will be acknowledged must be on the disk here too, for all brokers may lose their power
        at once.
        """
        alone = self._alone or not self._core.settings.deputies
        if not alone and batch.number > self._copied:
            return False
        return batch.number <= self._synced or not (batch.lasting or self._alone)

    def _release(self, *, all_of_them: bool = False) -> None:
        """Batches that are safe: their reports are acknowledged, their versions told."""
        while self._batches and (all_of_them or self._is_safe(self._batches[0])):
            batch = self._batches.popleft()
            for origin, mark in batch.answers.items():
                absorbed = batch.absorbed.get(origin, ())
                self._unanswered.pop(origin, None)
                if not self._office.answer(self, origin, mark, again=False, absorbed=absorbed):
                    self._unanswered[origin] = mark
            for one in batch.out:
                if isinstance(one, Telling):
                    self._office.told(self, one)
                else:
                    self._office.closed(self, one)
            for sender, handed in batch.handed:
                self._office.handed(self, sender, handed)

    def untold(self) -> set[str]:
        """Events of which there is a version that is not safe yet."""
        self.flush()
        return {
            one.event.opened_by for batch in self._batches for one in batch.out if isinstance(one, Telling)
        }

    def let_go(self) -> None:
        """Tell all there is, safe or not: nobody will have this seat."""
        self._release(all_of_them=True)

    @property
    def has_deputy(self) -> bool:
        """Whether a second broker has, or is being given, all there is."""
        return self._deputy is not None

    @property
    def settled(self) -> bool:
        """Whether all that has happened is safe."""
        return not self._batches

    # The deputy.

    def look_for_deputy(self, grown: TreeEpoch) -> None:
        """See that somebody has a copy, in the epoch that has begun."""
        if not self._core.settings.deputies:
            return
        self._alone = not grown.edges
        deputy = self._deputy
        if deputy is not None:
            edge = grown.edges.get(deputy.peer)
            if edge is not None and edge.alive and deputy.generation == self._generation:
                return
            self._deputy = None
        edges = [edge for _, edge in sorted(grown.edges.items()) if edge.alive]
        if edges:
            self._give_all(grown, _preferred(edges, self.holder.deputy))
        elif self._alone:
            number = self._number
            self._core.after_sync(lambda: self._on_disk(number))

    def _give_all(self, grown: TreeEpoch, edge: Edge) -> None:
        self._deputy, self._generation = edge.link, edge.link.generation
        self._number += 1
        self._whole = self._number
        self._given = False
        copies = self.copies()
        entries = tuple((event, copy) for event, (copy, _) in copies.entries.items())
        marks = marks_of(copies.marks)
        closed, confirmed = tuple(self._gone.values()), tuple(self._confirmed.items())
        self._confirmed, self._gone = {}, {}
        self._send(grown, entries, closed, confirmed, marks, whole=True)

    def copies(self, *, past: bool = False) -> Copies:
        """All that there is, as copies. `past`: closed events that everyone has, too."""
        found = Copies()
        now_us = self._core.at_us
        entries = [*(self.gatherer.past() if past else ()), *self.gatherer.entries()]
        found.entries = {entry.event: (self.gatherer.copy(entry), now_us) for entry in entries}
        found.marks = dict(self.marks)
        found.closed = dict(self.recent)
        return found

    # The disk.

    def _write(
        self, entries: tuple[tuple[str, bytes], ...], closed: tuple[Ended, ...], answers: Mapping[Origin, int]
    ) -> None:
        out, now_us = self._core.out, self._core.at_us
        for event, copy in entries:
            out.append(Write(entry_key(self.place, event), encode((self.place, event, now_us, copy))))
        out += [Erase(entry_key(self.place, ended.event)) for ended in closed]
        for origin, number in answers.items():
            out.append(Write(mark_key(self.place, origin), encode((self.place, *origin, number))))

    def write_all(self) -> None:
        """Have all there is on disk, for a seat that comes from elsewhere."""
        copies = self.copies()
        entries = tuple((event, copy) for event, (copy, _) in copies.entries.items())
        self._write(entries, (), copies.marks)
        self.write_holder()

    def write_holder(self) -> None:
        """Have who has the seat on disk."""
        self._core.out.append(Write(holder_key(self.place), encode((self.place, self.holder))))


def erase(core: Core, place: str, copies: Copies) -> None:
    """Forget a seat on disk."""
    core.out.append(Erase(holder_key(place)))
    core.out += [Erase(entry_key(place, event)) for event in copies.entries]
    core.out += [Erase(mark_key(place, origin)) for origin in copies.marks]


def recovered(saved: Mapping[str, bytes]) -> tuple[dict[str, Holder], dict[str, Copies]]:
    """The seats that this broker had before it was started anew, and what was in them."""
    holders: dict[str, Holder] = {}
    found: dict[str, Copies] = {}
    for key in sorted(saved):
        if key.startswith("seat/holder/"):
            place, holder = msgspec.msgpack.decode(saved[key], type=tuple[str, Holder])
            holders[place] = max(holder, holders.get(place, holder))
            found.setdefault(place, Copies())
        elif key.startswith("seat/known/"):
            place, holder = msgspec.msgpack.decode(saved[key], type=tuple[str, Holder])
            holders[place] = max(holder, holders.get(place, holder))
        elif key.startswith("seat/entry/"):
            place, event, at_us, copy = msgspec.msgpack.decode(saved[key], type=tuple[str, str, int, bytes])
            found.setdefault(place, Copies()).entries[event] = (copy, at_us)
        elif key.startswith("seat/mark/"):
            row = msgspec.msgpack.decode(saved[key], type=tuple[str, str, int, int])
            found.setdefault(row[0], Copies()).marks[row[1], row[2]] = row[3]
    return holders, found


def parted(entries: Iterable[tuple[str, bytes]]) -> Iterator[tuple[tuple[str, bytes], ...]]:
    """Copies in parts that fit into messages."""
    part: list[tuple[str, bytes]] = []
    size = 0
    for event, copy in entries:
        if part and (len(part) >= PART_ENTRIES or size + len(copy) > PART_BYTES):
            yield tuple(part)
            part, size = [], 0
        part.append((event, copy))
        size += len(copy)
    if part:
        yield tuple(part)


def remember(events: dict[str, Ended], ended: Ended) -> None:
    """Put an event among those that were closed lately."""
    events[ended.event] = ended
    if len(events) > CLOSED_MAX:
        del events[next(iter(events))]


def marks_of(marks: Mapping[Origin, int]) -> tuple[tuple[str, int, int], ...]:
    """Marks as messages have them."""
    return tuple((origin, incarnation, number) for (origin, incarnation), number in marks.items())


def _preferred(edges: list[Edge], deputy: str) -> Edge:
    """The broker that has been the deputy, if it can be it again."""
    return next((edge for edge in edges if edge.peer == deputy), edges[0])


def known_key(place: str) -> str:
    return f"seat/known/{quoted(place)}"


def holder_key(place: str) -> str:
    return f"seat/holder/{quoted(place)}"


def entry_key(place: str, event: str) -> str:
    return f"seat/entry/{quoted(place)}/{quoted(event)}"


def mark_key(place: str, origin: Origin) -> str:
    return f"seat/mark/{quoted(place)}/{quoted(origin[0])}/{origin[1]}"
