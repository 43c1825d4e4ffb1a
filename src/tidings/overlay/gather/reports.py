"""Reports on their way: from where they enter to the broker that gathers them, each once, in order.

A report is kept by the broker where it entered, on disk for QoS 1 and 2, until the seat says that it is safe
there (`Taken`). It travels the tree of its place, hop by hop, towards the holder of the seat; each hop that
knows of a later holder sends it on to that one, and nobody but the holder gathers. Whatever is lost with a
link, an epoch or a seat is sent again from where it entered, in order: the seat takes a report only behind
the one before it, so one number per origin tells it what is new.

While no seat is known reports wait where they entered. What gathering is, and who has a seat, is not known
here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, takewhile
from typing import Protocol

import msgspec

from tidings.language import payloads
from tidings.language.keys import Key
from tidings.language.reports import Report
from tidings.overlay.core import Core
from tidings.overlay.events import Accept, Erase, Write
from tidings.overlay.gather.edge_filter import EdgeFilter, joined
from tidings.overlay.gather.messages import Carry, Holder, Known, Taken
from tidings.overlay.links.links import Link, Links
from tidings.overlay.publication import Batch, Offered, Publication
from tidings.overlay.publishing.log_writer import LogWriter
from tidings.overlay.publishing.outbox import QOS_ONCE, encode, quoted
from tidings.overlay.publishing.publications import BOOT_SHIFT
from tidings.overlay.settings import Settings
from tidings.overlay.timers import Timer
from tidings.overlay.trees.trees import Edge, TreeEpoch, Trees
from tidings.records.record import Kind


class Taker(Protocol):
    """A seat, as far as reports need it."""

    def take(
        self, publication: Publication, previous: int, hops: int, report: Report | None, dropped: int
    ) -> None:
        """A report has come; `report` is what it says, if that is known, `dropped` how many were not sent."""


class Seats(Protocol):
    """Who has which seat, as far as reports need it."""

    def holder(self, place: str) -> Holder | None:
        """Who has a seat, as far as is known here."""

    def seat_for(self, place: str, holder: Holder) -> Taker | None:
        """The seat, if this broker has it, or is to have it and has not begun."""

    def grown(self, place: str) -> TreeEpoch | None:
        """The epoch that reports to a place travel."""

    def toward(self, grown: TreeEpoch, broker: str) -> Edge | None:
        """The link behind which a broker is."""


class Kept:
    """A report that this broker keeps until it is safe."""

    __slots__ = (
        "accepted",
        "also",
        "dropped",
        "due",
        "logged",
        "publication",
        "report",
        "says",
        "sent_us",
        "session",
        "size",
        "synced",
        "taken",
        "token",
    )

    def __init__(self, publication: Publication, session: str, token: int, report: Report | None) -> None:
        self.publication = publication
        self.size = publication.size
        self.session = session
        self.token = token
        self.report = report
        """What it says, until it has been sent."""
        self.says: Report | None = None
        """The same until it is safe, where that spares others."""
        self.sent_us = 0
        """When it was first sent."""
        self.dropped = 0
        """Reports that were not sent before it, or that it is merged from."""
        self.due = 0.0
        """Until when it is held, in case others can be merged with it."""
        self.also: list[tuple[str, int]] = []
        """Sessions and tokens of merged ones that are accepted when it is safe at the seat."""
        self.logged = 0
        """The sync with which merged ones are in the log, if they are kept there."""
        self.synced = not publication.qos
        self.accepted = not publication.qos
        self.taken = False


class ReportOutbox:
    """Reports to one place: under way, and waiting for their turn."""

    def __init__(self) -> None:
        self.sent: deque[Kept] = deque()
        self.queue: deque[Kept] = deque()
        self.sent_bytes = 0
        self.held: dict[tuple[str, Key], Kept] = {}
        """By topic name and key: those that wait for others to be merged with."""
        self.to: tuple[str, int] | None = None
        """The seat that those under way were sent to, and its boot."""

    def __len__(self) -> int:
        return len(self.sent) + len(self.queue)

    def again(self) -> None:
        """All that is not known to be safe is to be sent once more."""
        self.queue.extendleft(reversed(self.sent))
        self.sent.clear()
        self.sent_bytes = 0


class Reports:
    """All reports that entered here, and those on their way through."""

    def __init__(
        self,
        core: Core,
        links: Links,
        trees: Trees,
        seats: Seats,
        edge_filter: EdgeFilter,
        log_writer: LogWriter,
    ) -> None:
        self._core = core
        self._links = links
        self._trees = trees
        self._seats = seats
        self._edge_filter = edge_filter
        self._log_writer = log_writer
        self._count = 0
        """Numbers that were given."""
        self._tallies = 0
        """Of those, how many to no report but to a count of dropped ones."""
        self._outboxes: dict[str, ReportOutbox] = {}
        self._parked: dict[str, list[tuple[Link, int, Carry]]] = {}
        """By root: those that came before their epoch was ready here."""
        self._unaccepted: dict[tuple[str, int], Kept] = {}
        self._erased = False
        """Whether something was erased since the disk was last asked to hold what is written."""
        self._dropped: dict[str, int] = {}
        """By place: reports that were not sent, and that its seat has not been told of."""
        self.waiting_bytes = 0
        """Of reports that entered here and are not safe at a seat."""
        self.far = 0
        """Reports that entered here with a time in them that is far from their arrival."""
        self.entered: dict[str, int] = {}
        """By place: how many have entered here since traffic was last counted."""

    def recover(self, saved: Mapping[str, bytes]) -> None:
        """Reports that were acknowledged and are not known to be safe at a seat, in order."""
        decode = msgspec.msgpack.Decoder(Publication).decode
        for key in sorted(key for key in saved if key.startswith("report/")):
            publication = decode(saved[key])
            kept = Kept(publication, "", -1, None)
            kept.synced = kept.accepted = True
            self._outbox(publication.stream).queue.append(kept)
            self.waiting_bytes += kept.size

    def waiting(self, place: str) -> int:
        """How many that entered here are not known to be safe at a seat."""
        outbox = self._outboxes.get(place)
        return len(outbox) if outbox is not None else 0

    @property
    def all_entered(self) -> int:
        """How many have entered here since this broker started."""
        return self._count - self._tallies

    @property
    def all_waiting(self) -> int:
        """The same, over all places."""
        return sum(map(len, self._outboxes.values()))

    def _outbox(self, place: str) -> ReportOutbox:
        outbox = self._outboxes.get(place)
        if outbox is None:
            outbox = self._outboxes[place] = ReportOutbox()
        return outbox

    # From a client here.

    def offer(
        self,
        offered: Offered,
        place: str,
        report: Report,
        *,
        dropping: bool = False,
        merging: bool = False,
    ) -> None:
        """A report of a client, which can be read and has a key.

        `dropping`: others like it may be dropped. `merging`: it waits a little, for others to merge with.
        """
        core = self._core
        publication = self._numbered(offered, place)
        kept = Kept(publication, offered.session, offered.token, report)
        kept.says = report if dropping else None
        settings = core.settings
        if not offered.qos and self.waiting_bytes + kept.size > 2 * settings.backlog_bytes:
            # The publisher was told to pause; what it sends all the same is beyond the bound.
            core.record(Kind.SUPPRESSED, offered.topic, None, len(offered.payload), reason="queue full")
            return
        self._record_published(publication)
        self._log_writer.report(publication, report_id(publication))
        self.entered[place] = self.entered.get(place, 0) + 1
        self.waiting_bytes += kept.size
        outbox = self._outbox(place)
        outbox.queue.append(kept)
        if merging:
            kept.due = core.now + settings.relay_hold_s
            outbox.held[report.topic, report.key] = kept
        if offered.qos:
            core.out.append(Write(_key(publication), encode(publication)))
            self._unaccepted[place, publication.number] = kept
            core.after_sync(lambda: self._synced(kept))
        self.pump(place)

    def drop(self, offered: Offered, place: str, event: str) -> None:
        """A report of which a seat and its deputy have all it says: it goes no further, and is counted."""
        core = self._core
        publication = self._numbered(offered, place)
        self._record_published(publication)
        logged = self._log_writer.report(publication, report_id(publication))
        core.record(
            Kind.SUPPRESSED,
            publication.topic,
            publication.id,
            len(publication.payload),
            publisher=publication.publisher,
            reason="dropped on the way",
            event=event,
            report=report_id(publication),
        )
        self._edge_filter.dropped += 1
        self._count_dropped(place)
        if offered.qos:
            accept = Accept(offered.session, (offered.token,))
            if logged:
                core.after_sync(lambda: core.out.append(accept))
            else:
                core.out.append(accept)

    def merge(self, offered: Offered, place: str, report: Report) -> bool:
        """Put a report into one that waits here and is about the same; False if there is none."""
        outbox = self._outboxes.get(place)
        kept = outbox.held.get((report.topic, report.key)) if outbox is not None else None
        if kept is None or kept.says is None:
            return False
        fields = joined(kept.says.fields, report.fields)
        payload = payloads.encode(fields) if fields is not None else b""
        core = self._core
        if fields is None or len(payload) > core.settings.message_bytes_max:
            return False
        one = self._numbered(offered, place)
        self._record_published(one)
        logged = self._log_writer.report(one, report_id(one))
        core.record(
            Kind.SUPPRESSED,
            one.topic,
            one.id,
            len(one.payload),
            publisher=one.publisher,
            reason="merged on the way",
            report=report_id(kept.publication),
        )
        kept.says = kept.report = replace(kept.says, fields=fields)
        kept.publication = msgspec.structs.replace(
            kept.publication, payload=payload, content_type="", qos=max(kept.publication.qos, offered.qos)
        )
        self.waiting_bytes += kept.publication.size - kept.size
        kept.size = kept.publication.size
        kept.dropped += 1
        self._edge_filter.merged += 1
        if kept.publication.qos:
            core.out.append(Write(_key(kept.publication), encode(kept.publication)))
        if offered.qos:
            session, token = offered.session, offered.token
            if _content(core.settings):
                core.after_sync(lambda: core.out.append(Accept(session, (token,))))
            else:
                kept.also.append((session, token))
                if logged:
                    kept.logged = core.ask_sync()
        return True

    def _count_dropped(self, place: str) -> None:
        """The next report takes the count along; if none comes, it goes by itself."""
        dropped = self._dropped.get(place, 0)
        self._dropped[place] = dropped + 1
        if not dropped:
            core = self._core
            core.timers.set(Timer.TALLY, place, core.now + core.settings.seat_window_s)

    def on_tally_due(self, place: str) -> None:
        """Let a seat know how many reports were not sent."""
        if place in self._dropped:
            core = self._core
            self._count += 1
            self._tallies += 1
            empty = Publication(core.id, core.incarnation, place, self._number(), "", b"")
            self._outbox(place).queue.append(Kept(empty, "", -1, None))
            self.waiting_bytes += empty.size
            self.pump(place)

    def _number(self) -> int:
        return ((self._core.boot - self._core.incarnation) << BOOT_SHIFT) + self._count

    def _numbered(self, offered: Offered, place: str) -> Publication:
        core = self._core
        self._count += 1
        return Publication(
            core.id,
            core.incarnation,
            place,
            self._number(),
            offered.topic,
            offered.payload,
            offered.qos,
            core.at_us,
            offered.session,
            offered.content_type,
        )

    def _record_published(self, publication: Publication) -> None:
        self._core.record(
            Kind.PUBLISHED,
            publication.topic,
            publication.id,
            len(publication.payload),
            client=publication.publisher,
            publisher=publication.publisher,
            report=report_id(publication),
        )

    def _synced(self, kept: Kept) -> None:
        kept.synced = True
        self._accept(kept)
        if kept.publication.qos == QOS_ONCE:
            self.pump(kept.publication.stream)

    def _accept(self, kept: Kept) -> None:
        """Tell the client, if the report is as safe as it is to be."""
        if kept.accepted or not kept.synced or not (kept.taken or _content(self._core.settings)):
            return
        kept.accepted = True
        del self._unaccepted[kept.publication.stream, kept.publication.number]
        self._core.out.append(Accept(kept.session, (kept.token,)))

    def _accept_merged(self, kept: Kept) -> None:
        """Tell the clients of what was merged into a report that is safe now."""
        core, also = self._core, [Accept(session, (token,)) for session, token in kept.also]
        if kept.logged > core.synced:
            core.after_sync(lambda: core.out.extend(also))
        else:
            core.out += also

    def pump(self, place: str) -> None:
        """Send what waits, as far as there is room and a seat is known."""
        outbox = self._outboxes.get(place)
        if outbox is None or not outbox.queue:
            return
        holder = self._seats.holder(place)
        grown = self._seats.grown(place)
        if holder is None or grown is None:
            return
        if outbox.to != (holder.seat, holder.boot):
            outbox.again()
            outbox.to = (holder.seat, holder.boot)
        core, settings = self._core, self._core.settings
        seat = edge = None
        if holder.seat == core.id:
            seat = self._seats.seat_for(place, holder)
        else:
            edge = self._seats.toward(grown, holder.seat)
        if seat is None and (edge is None or not edge.alive):
            return
        while outbox.queue:
            kept = outbox.queue[0]
            publication = kept.publication
            if publication.qos == QOS_ONCE and not kept.synced:
                return
            if kept.due > core.now:
                core.timers.set(Timer.HOLD, place, kept.due)
                return
            full = len(outbox.sent) >= settings.report_window
            if full or outbox.sent_bytes > settings.report_window_bytes:
                return
            previous = outbox.sent[-1].publication.number if outbox.sent else 0
            outbox.queue.popleft()
            outbox.sent.append(kept)
            outbox.sent_bytes += kept.size
            report, kept.report = kept.report, None
            if not kept.sent_us:
                kept.sent_us = core.at_us
                if kept.due and kept.says is not None:
                    about = publication.topic, kept.says.key
                    if outbox.held.get(about) is kept:
                        del outbox.held[about]
                kept.dropped += self._dropped.pop(place, 0)
            if edge is None:
                assert seat is not None, "there is a seat or a link towards it"
                seat.take(publication, previous, 0, report, kept.dropped)
                continue
            carry = Carry(grown.root, grown.epoch, place, holder, previous, 1, publication, kept.dropped)
            self._links.send_data(edge.link, carry, kept.size)
            self._record_forwarded(publication, None, 1, edge, grown)

    def _record_forwarded(
        self, publication: Publication, source: Link | None, hops: int, edge: Edge, grown: TreeEpoch
    ) -> None:
        if not publication.payload:
            return
        self._core.record(
            Kind.FORWARDED,
            publication.topic,
            publication.id,
            len(publication.payload),
            publisher=publication.publisher,
            link=source.peer if source is not None else None,
            hops=hops,
            receivers=(edge.peer,),
            epoch=f"{grown.root}:{grown.epoch[0]}:{grown.epoch[1]}",
            report=report_id(publication),
        )

    # On the way.

    def on_carry(self, link: Link, message: Carry) -> None:
        tree = self._trees.trees.get(message.root)
        grown = tree.current if tree is not None else None
        if tree is None or grown is None or message.epoch != grown.epoch:
            if tree is not None and tree.growing is not None and tree.growing.epoch == message.epoch:
                self._parked.setdefault(message.root, []).append((link, link.generation, message))
            elif not message.report.qos:
                self._core.suppress(Batch.of(message.report), link.peer, message.hops, "epoch has passed")
            return  # its origin sends it again in the next epoch
        known = self._seats.holder(message.place)
        holder = message.holder if known is None else max(known, message.holder)
        if holder.seat == self._core.id:
            seat = self._seats.seat_for(message.place, holder)
            if seat is not None:
                seat.take(message.report, message.previous, message.hops, None, message.dropped)
            return
        edge = self._seats.toward(grown, holder.seat)
        if edge is None or not edge.alive or message.hops > 2 * len(grown.members):
            # Between two beliefs it may go to and fro, but not for ever.
            self._core.suppress(Batch.of(message.report), link.peer, message.hops, "no way to the seat")
            return
        carry = msgspec.structs.replace(message, holder=holder, hops=message.hops + 1)
        self._links.send_data(edge.link, carry, message.report.size)
        self._record_forwarded(message.report, link, carry.hops, edge, grown)

    def on_taken(self, link: Link, message: Taken) -> None:
        if message.origin != self._core.id:
            self.answer(message)
        elif message.incarnation == self._core.incarnation:
            if message.known is not None:
                self._learn(message.place, message.known)
            self.taken(message.place, message.number, again=message.again)
        del link

    def answer(self, message: Taken) -> bool:
        """Send what a seat says towards an origin; lost with an epoch, it is asked for again in the next.

        False if it cannot be sent.
        """
        tree = self._trees.trees.get(message.root)
        grown = tree.current if tree is not None else None
        if grown is None or grown.epoch != message.epoch:
            return False
        edge = self._seats.toward(grown, message.origin)
        if edge is None or not edge.alive:
            return False
        self._links.send(edge.link, message)
        return True

    def _learn(self, place: str, known: Known) -> None:
        """A seat says of reports how long such need not be sent."""
        outbox = self._outboxes.get(place)
        if outbox is None:
            return
        absorbed = {number: (event, until_us) for number, event, until_us in known.absorbed}
        latest = known.absorbed[-1][0] if known.absorbed else 0
        reports = [
            (kept.publication, kept.says, kept.sent_us, *absorbed[kept.publication.number])
            for kept in takewhile(
                lambda kept: kept.publication.number <= latest, chain(outbox.sent, outbox.queue)
            )
            if kept.publication.number in absorbed and kept.says is not None and kept.sent_us
        ]
        self._edge_filter.on_known(place, known, reports)

    def on_declared(self, place: str) -> None:
        """What reports under way say was read as it was declared before."""
        self._edge_filter.forget(place)
        outbox = self._outboxes.get(place)
        if outbox is not None:
            outbox.held.clear()
            for kept in chain(outbox.sent, outbox.queue):
                kept.says = None

    # What a seat answers.

    def taken(self, place: str, number: int, *, again: bool = False) -> None:
        """All reports of this broker to a place are safe up to a number."""
        outbox = self._outboxes.get(place)
        if outbox is None:
            return
        if again:
            outbox.again()
        for line in (outbox.sent, outbox.queue):
            while line and line[0].publication.number <= number:
                kept = line.popleft()
                if line is outbox.sent:
                    outbox.sent_bytes -= kept.size
                self.waiting_bytes -= kept.size
                kept.taken = True
                self._accept_merged(kept)
                if kept.publication.qos:
                    self._core.out.append(Erase(_key(kept.publication)))
                    self._erased = True
                    self._accept(kept)
        if not outbox:
            del self._outboxes[place]
        else:
            self.pump(place)

    def tick(self) -> None:
        """Have the disk forget what is safe elsewhere, even if nothing else is written.

        Else, after a crash, a report that was taken long ago might be sent to a broker that has taken a seat
        and does not know that.
        """
        if self._erased:
            self._erased = False
            self._core.ask_sync()

    def on_ready(self, root: str) -> None:
        """A new epoch of a tree: what came before it was ready goes on."""
        for link, generation, message in self._parked.pop(root, ()):
            if link.generation == generation:
                self.on_carry(link, message)

    def again(self, place: str) -> None:
        """What is not known to be safe is sent again, in a new epoch or on another tree."""
        outbox = self._outboxes.get(place)
        if outbox is not None:
            outbox.again()
            self.pump(place)

    @property
    def places(self) -> list[str]:
        """Where reports that entered here are not known to be safe yet."""
        return list(self._outboxes)

    def on_holder(self, place: str) -> None:
        """Another broker has the seat, or one is known at last."""
        self._edge_filter.forget(place)
        outbox = self._outboxes.get(place)
        if outbox is not None:
            holder = self._seats.holder(place)
            if holder is not None and outbox.to != (holder.seat, holder.boot):
                outbox.again()
            self.pump(place)

    def give_up(self, place: str, reason: str) -> None:
        """Nobody will gather what waits for a place."""
        self._dropped.pop(place, None)
        outbox = self._outboxes.pop(place, None)
        if outbox is None:
            return
        outbox.again()
        for kept in outbox.queue:
            self.waiting_bytes -= kept.size
            if kept.publication.payload:
                self._core.suppress(Batch.of(kept.publication), None, 0, reason)
            self._accept_merged(kept)
            if kept.publication.qos:
                self._core.out.append(Erase(_key(kept.publication)))
                kept.taken = True
                self._accept(kept)

    @property
    def at_rest(self) -> bool:
        """Whether all that entered here is safe at a seat."""
        return not self._outboxes


def report_id(publication: Publication) -> str:
    """The id of a report: broker, boot and number, where it entered.

    >>> report_id(Publication("a", 3, "traffic", (2 << BOOT_SHIFT) + 7, "traffic", b"{}"))
    'a:5:7'
    """
    boot = publication.incarnation + (publication.number >> BOOT_SHIFT)
    return f"{publication.origin}:{boot}:{publication.number & ((1 << BOOT_SHIFT) - 1)}"


def _content(settings: Settings) -> bool:
    """Whether the disk of the broker where it entered is enough."""
    return settings.acks == "origin"


def _key(publication: Publication) -> str:
    return f"report/{quoted(publication.stream)}/{publication.number:020}"
