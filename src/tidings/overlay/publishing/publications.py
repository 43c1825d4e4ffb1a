"""Publications: from where they enter to every matching session, each once, in order, although brokers die.

Publications come and go in batches: those of one read of a client, or of one message of a neighbour. Each is
matched once, at its origin, with the sets of all other brokers (`homes`). That says which members of the
epoch get it, and which must have it, since somebody there asks for QoS 1 or 2. It travels one tree, in one
epoch, and a hop forwards it by these destinations without looking at what it says; each of them matches it
once more for its own sessions. Each hop acknowledges it (`Done`) when all behind it that must have
it do, and when its own durable sessions have stored it; so when the origin hears, everyone has it. Until then
the origin keeps it, on disk for QoS 1 and 2. When an epoch passes before that, the origin sends all that it
keeps again in the next, to those who have not, in order, before anything new.

A member whose set is not known here gets everything. It is matched in the step in which it is numbered, or
later: whoever has confirmed a subscription by then must find it.

Why the origin and not the hop before the one that died: a hop in the middle knows only its own part of a
stream. What it sends again could overtake an earlier publication that waits elsewhere, and then that one
would have to be delivered out of order or dropped. The origin's stream is whole. Therefore every broker sees
the numbers of a stream rise within an epoch, one high-water mark per stream tells what is new to its
sessions, and a repeat is dropped.

The acknowledgement is the flow control too: on each link and tree a bounded amount may be under way. What
does not fit waits where it came from, which fills the window of the hop before, and so on to the publisher.
In a tree no link waits for itself, so nothing locks up.

A broker that wants a publication and is not a member of the epoch is *absent*. It is kept for that one by
its name, within bounds, and sent when it is a member.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Protocol

import msgspec

from tidings.errors import PayloadError, PeerError
from tidings.language import names
from tidings.language.reports import Report
from tidings.language.topics import Topic
from tidings.overlay.core import DELIVERY_BYTES, Core, Notice
from tidings.overlay.events import Accept, Deliver, Erase, Pause, PublicationsOffered, Reject, Resume, Write
from tidings.overlay.links.links import Link, Links
from tidings.overlay.publication import Batch, Head, Offered, Publication, Told
from tidings.overlay.publishing.batches import OUTGOING_BYTES, Outgoing, batch_of, unpacked
from tidings.overlay.publishing.flow import Channel, Flow, Passage
from tidings.overlay.publishing.log_writer import LogWriter
from tidings.overlay.publishing.messages import Done, Publish
from tidings.overlay.publishing.outbox import QOS_ONCE, Held, Outbox, Stream, encode, quoted, stream_of
from tidings.overlay.publishing.routes import Route, Routes
from tidings.overlay.routing.absence import Absences
from tidings.overlay.routing.homes import Homes
from tidings.overlay.routing.sessions import Sessions
from tidings.overlay.routing.topics import Content, Contents, Topics
from tidings.overlay.trees.trees import Edge, Tree, TreeEpoch, Trees
from tidings.records.record import Kind, Receivers

BOOT_SHIFT = 33
"""Numbers of a stream begin at (boot - incarnation) shifted by this: those of a restarted broker are all
larger than those it gave before, without a write to disk for each. Within 63 bits that leaves 2^30 boots,
which count up by one for each start and for each second at most, of 2^33 publications."""

STREAMS_MAX = 131_072
"""High-water marks kept. Beyond, the one that moved longest ago is forgotten, and a repeat of its stream
would be delivered; that takes as many brokers to publish in between."""


class Arrived:
    """Publications of one message from a neighbour, as far as they have not been acted on."""

    __slots__ = ("batch", "epoch", "hops", "previous", "root", "slot", "stretches")

    def __init__(self, message: Publish, batch: Batch) -> None:
        self.root = message.root
        self.epoch = message.epoch
        self.slot = message.slot
        """Of the first of the batch."""
        self.hops = message.hops
        self.batch = batch
        self.previous = message.previous
        self.stretches = deque(_stretches(message, batch))
        """Those in a row that go the same way: the first, behind the last, who gets them of those behind the
        link, and who must have them, as bits of the epoch."""


def _stretches(message: Publish, batch: Batch) -> Iterable[tuple[int, int, int, int]]:
    count, to = len(batch), message.to
    must = message.must or to
    numbers, previous, heads = batch.numbers, message.previous, batch.heads
    if tuple(previous[1:]) == tuple(numbers[:-1]) and to.count(to[0]) == count == must.count(must[0]):
        if not batch.which or len({head.qos > 0 for head in heads}) == 1:
            return [(0, count, unpacked(to[0]), unpacked(must[0]) if heads[0].qos else 0)]
    found: list[tuple[int, int, int, int]] = []
    first = 0
    for at in range(1, count + 1):
        if (
            at == count
            or to[at] != to[first]
            or must[at] != must[first]
            or previous[at] != numbers[at - 1]
            or (batch.head(at).qos > 0) != (batch.head(first).qos > 0)
        ):
            found.append(
                (first, at, unpacked(to[first]), unpacked(must[first]) if batch.head(first).qos else 0)
            )
            first = at
    return found


class VersionTold(Notice, frozen=True):
    """A version of an event goes out from here."""

    publication: Publication


class VersionAddressed(Notice, frozen=True):
    """A version that was told here goes to these brokers, with the quality of service that they ask for."""

    told: Told
    homes: Mapping[str, int]


class VersionPassed(Notice, frozen=True):
    """A version has come from another broker."""

    publication: Publication


class VersionArrived(Notice, frozen=True):
    """A version that is for this broker has come from another one, and sessions have been given it."""

    told: Told


class VersionConfirmed(Notice, frozen=True):
    """Everyone has a version of an event that was told from here."""

    told: Told


class Versions(Protocol):
    """What sessions here have had of events, and get of the next version."""

    @property
    def given(self) -> int:
        """Versions that were given to sessions, each counted once for all of them."""

    def recover(self, saved: Mapping[str, bytes]) -> None: ...

    def deliver(
        self, publication: Publication, fields: Content, link: Link | None, hops: int, *, late: bool = False
    ) -> bool: ...


class Publications:
    """All publications that are at this broker."""

    def __init__(
        self,
        core: Core,
        links: Links,
        trees: Trees,
        topics: Topics,
        sessions: Sessions,
        homes: Homes,
        absences: Absences,
        log_writer: LogWriter,
        versions: Versions,
    ) -> None:
        self._core = core
        self._links = links
        self._trees = trees
        self._topics = topics
        self._sessions = sessions
        self._homes = homes
        self._absences = absences
        self._log_writer = log_writer
        self._versions = versions
        self.outbox = Outbox(core, links, trees, topics, absences, self._wanted_by_absent)
        self.flow = Flow(core, links)
        self.routes = Routes(core, topics, sessions, homes)
        self._own = (core.id, core.incarnation)
        self._numbers: dict[str, int] = {}
        self._backlogs: dict[str, deque[Held]] = {}
        """By root: what waits for its turn on a tree; "" for what has no tree yet."""
        self.backlog_bytes = 0
        self.paused = False
        self.stopping = False
        self.marks: dict[Stream, int] = {}
        """By stream: the highest number that sessions here have been given."""
        self._drain: dict[str, None] = {}
        """Roots on whose trees something that has waited may go on."""
        self.gather: Callable[[Offered, Topic, Report], bool] = lambda *_: False
        """Who takes reports of gathered topics; False if they are to go their way as they are."""
        self.reports_bytes: Callable[[], int] = lambda: 0
        """Of reports that entered here and wait for a seat."""
        self.receivers: Callable[[Told], Mapping[str, int]] = lambda _: {}
        """Who has had an earlier version of an event that is told here, and the quality of service there."""
        self.left: dict[str, int] = {}
        """By declaration: versions of events that were delivered here since traffic was last counted."""
        self.false_positives = 0
        """Publications that came for this broker and that no session here wanted."""

    def recover(self, saved: Mapping[str, bytes]) -> None:
        """What was acknowledged and not yet passed on, what sessions have, who was a member."""
        for held in self.outbox.recover(saved):
            self._enqueue(held, self._root_of(held))
        self._versions.recover(saved)
        for key in saved:
            if key.startswith("mark/"):
                mark = msgspec.msgpack.decode(saved[key], type=tuple[str, int, str, int])
                self.marks[mark[:3]] = mark[3]

    # From a client here.

    def offer(self, offered: PublicationsOffered) -> None:
        batch, tokens, session = offered.batch, offered.tokens, offered.session
        sound = self._sound(batch)
        for route, first, end in self.routes.stretches(batch):
            part, own = batch.part(first, end), tokens[first:end]
            if not sound or route.declared is not None:
                places = [
                    at for at in range(len(part)) if self._lets_in(session, own[at], part, at, route.declared)
                ]
                if not places:
                    continue
                if len(places) < len(part):
                    part, own = part.some(places), [own[at] for at in places]
            self._take_in(route, part, session, own)

    def _sound(self, batch: Batch) -> bool:
        """Whether nothing can be wrong with publications but what a declaration says."""
        return (
            not self.stopping
            and not any(
                names.name_fault(it.topic) or not 0 <= it.qos <= 2 or _about(it) for it in batch.heads
            )
            and max(batch.lengths) <= self._core.settings.message_bytes_max
        )

    def _lets_in(self, session: str, token: int, batch: Batch, at: int, topic: Topic | None) -> bool:
        """Whether one publication goes its way as it is: it is not refused, and not gathered."""
        head, payload = batch.head(at), batch.payload(at)
        reason = self._objection(head, payload)
        if not reason and topic is not None:
            try:
                report = self._topics.report(topic, head.topic, payload, head.content_type)
            except PayloadError as error:
                reason = str(error)
            else:
                if report is not None:
                    one = Offered(session, token, head.topic, payload, head.qos, head.content_type)
                    if self.gather(one, topic, report):
                        return False
        if reason:
            self._core.out.append(Reject(session, token, reason, head.topic))
        return not reason

    def _objection(self, head: Head, payload: bytes) -> str:
        most = self._core.settings.message_bytes_max
        if self.stopping:
            return "this broker is stopping; publish at another"
        if fault := names.name_fault(head.topic):
            return fault
        if not 0 <= head.qos <= 2:
            return f"quality of service {head.qos} is not 0, 1 or 2"
        if len(payload) > most:
            return f"the payload has {len(payload)} bytes; the limit is {most}"
        about = _about(head)
        if len(payload) + about > most + PROPERTIES_FREE_BYTES:
            return (
                f"properties and content type have {about} characters; beside the payload there is room for "
                f"{most + PROPERTIES_FREE_BYTES - len(payload)}"
            )
        return ""

    def _take_in(self, route: Route, batch: Batch, session: str, tokens: Sequence[int]) -> None:
        """Number publications of one route, give them to sessions here, and send them on."""
        core = self._core
        sizes = batch.sizes
        if self.backlog_bytes + sum(sizes) > 2 * core.settings.backlog_bytes:
            # The publisher was told to pause; what it sends all the same is beyond the bound.
            room = 2 * core.settings.backlog_bytes - self.backlog_bytes
            places = []
            for at, size in enumerate(sizes):
                head = batch.head(at)
                if head.qos or size <= room:
                    places.append(at)
                    room -= size
                    continue
                length = batch.ends[at] - batch.starts[at]
                core.record(Kind.SUPPRESSED, head.topic, None, length, reason="queue full")
            if not places:
                return
            if len(places) < len(batch):
                batch, tokens = batch.some(places), [tokens[at] for at in places]
        first = self._take_numbers(route.stream, len(batch))
        batch = batch.numbered(
            core.id, core.incarnation, route.stream, range(first, first + len(batch)), core.at_us
        )
        core.record_batch(Kind.PUBLISHED, batch, client=True)
        logged = route.declared is not None and self._log_writer.publications(route.declared, batch)
        contents = Contents(self._topics, batch)
        durable = self._deliver(route, batch, contents, None, 0)
        if durable:
            core.ask_sync()
        # What is retained, and that something of QoS 2 has come, is written by those who offer it.
        written = any(head.retain or head.qos == QOS_ONCE for head in batch.heads)
        root = self._topics.root_of(batch.head(0).topic, route.stream)
        new = self._send(route, root, batch, contents, session, tokens, waits=durable or logged or written)
        self._pump(root)
        for held in new:
            held.wait()

    def _take_numbers(self, stream: str, count: int) -> int:
        """The first of some new numbers of a stream, in a row."""
        core, number = self._core, self._numbers.get(stream)
        first = ((core.boot - core.incarnation) << BOOT_SHIFT) + 1 if number is None else number + 1
        self._numbers[stream] = first + count - 1
        return first

    def _send(
        self,
        route: Route,
        root: str | None,
        batch: Batch,
        contents: Contents,
        session: str,
        tokens: Sequence[int],
        *,
        waits: bool,
    ) -> list[Held]:
        """Put new publications where they wait for their turn. What nobody else is to have ends here; if it
        `waits`, its client is told when the disk has what came of it.
        """
        found: list[Held] = []
        core = self._core
        tree = self._trees.serving(root) if root is not None else None
        grown = tree.current if tree is not None else None
        groups: list[tuple[Sequence[int], Addressed | None]]
        done: Sequence[int] = ()
        if tree is None or grown is None:
            groups = [
                (list(some), None) for _, some in groupby(range(len(batch)), lambda at: batch.head(at).qos)
            ]
        else:
            ends_here = tree.growing is None and core.settings.acks == "origin"
            groups, done = self._address_new(route, batch, contents, grown, ends_here=ends_here)
        alone = core.settings.acks == "neighbour"
        for places, addressed in groups:
            qos = batch.head(places[0]).qos
            for some in [[at] for at in places] if alone and qos else [places]:
                held = self.outbox.wrap(batch.some(some), qos)
                held.contents = contents.some(some)
                if addressed is not None:
                    held.grown, (held.to, held.must, absent) = grown, addressed
                    held.absent = dict.fromkeys(absent)
                if qos:
                    self.outbox.hold(held, session, [tokens[at] for at in some])
                self._enqueue(held, root)
                found.append(held)
            if qos == QOS_ONCE:
                core.after_sync(self._go_on)
        accepted = [tokens[at] for at in done]
        if accepted and waits:
            core.after_sync(lambda: core.out.append(Accept(session, accepted)))
        elif accepted:
            core.out.append(Accept(session, accepted))
        return found

    def _address_new(
        self,
        route: Route,
        batch: Batch,
        contents: Contents,
        grown: TreeEpoch,
        *,
        ends_here: bool,
    ) -> tuple[list[tuple[Sequence[int], Addressed | None]], Sequence[int]]:
        """New publications by where they go in an epoch, as groups of places, and what that is; and the
        places of those of QoS 1 and 2 that nobody else is to have.
        """
        self._core.spent += len(batch) * self.routes.effort(route, batch.lengths[0], here=False)
        wanted = self.routes.wanted(route, batch, contents)
        if len(wanted) == 1 and len({head.qos for head in batch.heads}) == 1:
            qos, everything = batch.heads[0].qos, range(len(batch))
            one = self._bits(grown, self._with_unknown(grown, wanted[0]), qos)
            if one[0] or one[2] or (qos and not ends_here):
                return [(everything, one)], ()
            return [], everything if qos else ()
        ways: dict[tuple[int, int], Addressed] = {}
        keep = {id(homes): homes for homes in wanted}
        done: list[int] = []
        each: list[tuple[int, Addressed | None]] = []
        for at in range(len(batch)):
            qos, homes = batch.head(at).qos, wanted[at if len(wanted) > 1 else 0]
            way = ways.get((id(homes), qos))
            if way is None:
                way = ways[id(homes), qos] = self._bits(grown, self._with_unknown(grown, homes), qos)
            if not way[0] and not way[2] and (not qos or ends_here):
                each.append((qos, None))
                if qos:
                    done.append(at)
            else:
                each.append((qos, way))
        del keep  # until here, or the identity of one might come again
        groups: list[tuple[Sequence[int], Addressed | None]] = []
        for (_, way), some in groupby(
            (at for at in range(len(batch)) if each[at][1] is not None), lambda at: each[at]
        ):
            groups.append((list(some), way))
        return groups, done

    def _with_unknown(self, grown: TreeEpoch, wanted: Mapping[str, int]) -> Mapping[str, int]:
        """Who may want publications, if those are known to: of others it is not known what they want."""
        unknown = (*grown.unknown, *self._absences.blind(grown))
        return {**wanted, **dict.fromkeys(unknown, 2)} if unknown else wanted

    def _bits(self, grown: TreeEpoch, wanted: Mapping[str, int], qos: int) -> Addressed:
        """Who gets publications that these want, who must have them, and for whom they are kept."""
        bits, to, must = grown.bits, 0, 0
        absent: list[str] = []
        for name, asked in wanted.items():
            bit = bits.get(name)
            if bit is not None:
                to |= bit
                must |= bit if asked and qos else 0
            elif asked and qos and self._absences.holds_for(name):
                absent.append(name)
        return to, must, tuple(absent)

    # From a seat here.

    def tell(self, topic: str, payload: bytes, qos: int, content_type: str, told: Told) -> int:
        """Send a version of an event to all who want it; its number in its stream.

        `confirmed` is called when everyone has it; what has QoS 0 is taken to be there when it is sent.
        """
        core = self._core
        stream = self._topics.stream_of(topic)
        number = self._take_numbers(stream, 1)
        publication = Publication(
            core.id,
            core.incarnation,
            stream,
            number,
            topic,
            payload,
            qos,
            core.at_us,
            content_type=content_type,
            told=told,
        )
        self._core.tell(VersionTold(publication))
        names = tuple(name for name, asked in self.receivers(told).items() if asked) if qos else ()
        held = self.outbox.wrap(Batch.of(publication), qos, names)
        durable = self._deliver_version(publication, self._topics.fields(publication), None, 0)
        if qos:
            self.outbox.hold(held)
        elif durable:
            core.ask_sync()
        root = self._topics.root_of(topic, stream)
        self._enqueue(held, root)
        if qos == QOS_ONCE:
            core.after_sync(self._go_on)
        self._pump(root)
        return number

    def drop_told(self, events: Container[str]) -> None:
        """Send versions of events no more: another broker has their seat by now, and what it knows counts."""
        for root, backlog in self._backlogs.items():
            gone = [held for held in backlog if _is_of(held.batch, events)]
            if gone:
                self.backlog_bytes -= sum(held.size for held in gone)
                self._backlogs[root] = deque(held for held in backlog if not _is_of(held.batch, events))
        for held in list(self.outbox.held.values()):
            if _is_of(held.batch, events):
                self.outbox.drop(held)

    def on_released(self, told: Sequence[Told]) -> None:
        for one in told:
            self._core.tell(VersionConfirmed(one))

    # Who gets it.

    def nobody(self, topic: str) -> bool:
        """Whether no subscription, here or behind a link, is about a topic."""
        route = self.routes.of(topic)
        if route.everyone or route.here or route.homes or route.there:
            return False
        root = self._topics.root_of(topic, route.stream)
        tree = self._trees.serving(root) if root is not None else None
        grown = tree.current if tree is not None else None
        return grown is not None and not grown.unknown and not self._absences.blind(grown)

    def wanted_by(self, publication: Publication) -> dict[str, int]:
        """Which other brokers want a publication, by all that is known here, and with which QoS."""
        batch = Batch.of(publication)
        return self.routes.wanted(self.routes.of(publication.topic), batch, Contents(self._topics, batch))[0]

    def _root_of(self, held: Held) -> str | None:
        """The root of the tree that they travel now."""
        return self._topics.root_of(held.batch.head(0).topic, held.batch.stream)

    def _enqueue(self, held: Held, root: str | None) -> None:
        if root is None or self._backlogs.get(NO_TREE):
            root = NO_TREE
        self._backlogs.setdefault(root, deque()).append(held)
        self.backlog_bytes += held.size

    def _pump(self, root: str | None) -> None:
        """Send what waits for its turn on a tree, as far as there is room."""
        backlog = self._backlogs.get(root) if root is not None else None
        tree = self._trees.serving(root) if root is not None else None
        if root is None or not backlog or tree is None or tree.current is None:
            return
        grown, core = tree.current, self._core
        while backlog and not core.turn_is_over():
            held = backlog[0]
            if held.qos and (held.passed or not self.outbox.keeps(held)):
                # All have answered meanwhile, in the epoch before.
                backlog.popleft()
                self.backlog_bytes -= held.size
                continue
            if held.qos == QOS_ONCE and not held.synced:
                break
            if held.grown is not grown:
                self._address(held, grown)
            targets = _targets(grown, held.to)
            whole = held.batch
            sizes = whole.sizes[held.at :]
            count = self._room(tree.root, targets, sizes, len(targets))
            if not count:
                break
            batch = whole.part(held.at, held.at + count)
            held.at += count
            all_sent = held.at == len(whole)
            if all_sent:
                backlog.popleft()
                self.backlog_bytes -= held.size
                held.contents = None
                held.sent[tree.root] = grown.epoch
            if not held.qos:
                self._forward(tree, grown, batch, targets, held.to, 0, None, 1, None)
                if all_sent:
                    self.on_released(whole.told)
                else:
                    # They must not be sent again in another epoch.
                    self.backlog_bytes -= held.leave(count)
            elif whole.origin == core.id or self._first_to_send(grown, held):
                passage = Passage(tree.root, grown.epoch, count)
                passage.origin = partial(self._passed, held, held.sending)
                self._forward(tree, grown, batch, targets, held.to, held.must, passage, 1, None)
                if passage.open == 0:
                    self._passed(held, held.sending, passage, 0, count, passage.missing)
        if backlog and core.turn_is_over():
            self._drain[root] = None

    def _room(self, root: str, targets: Sequence[Edge], sizes: Sequence[int], deliveries: int) -> int:
        """How many of some publications can go on now: windows have room, and the turn has time for them."""
        core = self._core
        count = len(sizes)
        if deliveries:
            each = deliveries * (1 + max(sizes) // DELIVERY_BYTES)
            count = min(count, max(1, -(-(core.turn_deliveries - core.spent) // each)))
        for edge in targets:
            if not count:
                break
            count = min(count, self.flow.room(edge.peer, root, sizes))
        return count

    def _address(self, held: Held, grown: TreeEpoch) -> None:
        """Find out who gets publications that are to be sent in an epoch, and who must have them."""
        batch = held.batch
        if held.grown is not None:
            held.missing += held.grown.names_of(held.must)
        names = held.missing or (() if held.done else held.names)
        held.missing = ()
        wanted = self._wanting(held, grown) | dict.fromkeys((*names, *held.absent), 2)
        for name in (*held.done, self._core.id, batch.origin):
            wanted.pop(name, None)
        held.grown = grown
        held.to, held.must, absent = self._bits(grown, wanted, held.qos)
        held.absent = dict.fromkeys(absent)
        held.at, held.answered, held.lost = 0, 0, 0
        held.sending += 1
        for told in batch.told:
            there = {name: qos for name, qos in wanted.items() if name in grown.bits or name in held.absent}
            self._core.tell(VersionAddressed(told, there))

    def _wanting(self, held: Held, grown: TreeEpoch) -> dict[str, int]:
        """Brokers that want some of what is held together, with the highest quality of service."""
        wanted: dict[str, int] = {}
        contents = held.contents or Contents(self._topics, held.batch)
        for route, first, end in self.routes.stretches(held.batch):
            part = held.batch.part(first, end)
            self._core.spent += len(part) * self.routes.effort(route, part.lengths[0], here=False)
            for homes in self.routes.wanted(route, part, contents.some(range(first, end))):
                for name, qos in homes.items():
                    if wanted.get(name, -1) < qos:
                        wanted[name] = qos
        for told in held.batch.told:
            for name, qos in self.receivers(told).items():
                if wanted.get(name, -1) < qos:
                    wanted[name] = qos
        return {**self._with_unknown(grown, wanted)}

    def _wanted_by_absent(self, held: Held) -> bool:
        """Whether publications would have to be kept for a broker out of reach."""
        if held.grown is not None or held.passed:
            return bool(held.absent)
        root = self._root_of(held)
        tree = self._trees.serving(root) if root is not None else None
        grown = tree.current if tree is not None else None
        return grown is not None and any(
            qos and name not in grown.bits and name not in held.done
            for name, qos in self._wanting(held, grown).items()
        )

    def _passed(self, held: Held, sending: int, passage: Passage, first: int, end: int, missing: int) -> None:
        """All links have answered for some publications that were sent from here."""
        grown = held.grown
        if sending != held.sending:
            return
        # What was sent again in another epoch or on another tree by now is settled there.
        if grown is None or (grown.root, grown.epoch) != (passage.root, passage.epoch):
            return
        held.answered += end - first
        held.lost |= missing
        if held.answered < len(held.batch):
            return
        held.done += grown.names_of(held.to & ~held.lost)
        held.must &= held.lost
        # Where somebody for whom it is kept has come back meanwhile, it waits to be sent in the newer epoch.
        if not held.lost and not self._is_back(held):
            self.outbox.everyone_has(held)

    # From a neighbour.

    def on_publish(self, link: Link, message: Publish) -> None:
        try:
            batch = batch_of(message)
        except PeerError as error:
            self._links.renounce(link, str(error))
            return
        channel = self.flow.channel(link, message.root)
        arrived = Arrived(message, batch)
        if channel.parked or not self._take(link, channel, arrived):
            channel.parked.append(arrived)
            if self._core.turn_is_over():
                self._drain[message.root] = None

    def _take(self, link: Link, channel: Channel, message: Arrived) -> bool:
        """Act on publications as far as it can be; False if some must wait: for their epoch to be ready, for
        room on a link, or for the next turn.
        """
        stretches = message.stretches
        while stretches:
            first, end, to, must = stretches[0]
            taken = self._take_stretch(link, channel, message, first, end, to, must)
            if channel.generation != link.generation:
                return True  # acting on it has ended the session
            if first + taken < end:
                stretches[0] = (first + taken, end, to, must)
                if not taken or self._core.turn_is_over():
                    return False
            else:
                stretches.popleft()
                if stretches and self._core.turn_is_over():
                    return False
        return True

    def _take_stretch(
        self, link: Link, channel: Channel, message: Arrived, first: int, end: int, to: int, must: int
    ) -> int:
        """Act on some publications that go the same way; how many that were."""
        core, whole = self._core, message.batch
        count, slot = end - first, message.slot + first
        tree = self._trees.trees.get(message.root)
        grown = tree.current if tree is not None else None
        if tree is None or grown is None or message.epoch != grown.epoch:
            if tree is not None and tree.growing is not None and tree.growing.epoch == message.epoch:
                return 0
            self._take_stale(link, channel, message, first, end, to, must, "epoch has passed")
            return count
        edge = grown.edges.get(link.peer)
        if edge is None or not edge.alive:
            self._take_stale(link, channel, message, first, end, to, must, "not a link of the tree")
            return count
        stream = stream_of(whole)
        before = edge.last_in.get(stream, 0)
        if len(edge.last_in) >= LINK_STREAMS_MAX and stream not in edge.last_in:
            self._links.renounce(link, f"more than {LINK_STREAMS_MAX} streams over one link")
            return count
        if message.previous[first] != before:
            # Links keep order and lose nothing, so this is a fault of one of the two brokers.
            core.log(
                "error",
                "a publication is missing",
                peer=link.peer,
                message=f"{whole.prefix}{whole.numbers[first]}",
                previous=message.previous[first],
                known=before,
            )
            size = sum(whole.part(first, end).sizes)
            self.flow.answer(link, channel, slot, count, size, missing=must, awaited=bool(must))
            self._trees.ask_regrow(tree)
            return count
        seen = grown.seen.get(stream, 0)
        if whole.numbers[first] <= seen:
            known = bisect_right(whole.numbers, seen, first, end)
            repeated = whole.part(first, known)
            edge.last_in[stream] = repeated.numbers[-1]
            core.suppress(repeated, link.peer, message.hops, "repeat")
            size = sum(repeated.sizes)
            self.flow.answer(link, channel, slot, known - first, size, awaited=bool(must))
            core.spent += known - first
            return known - first
        targets = _targets(grown, to & ~edge.mask)
        batch = whole.part(first, end)
        own = grown.bits[core.id]
        deliveries = len(targets) + (self._receivers_of(batch) if to & own else 0)
        sizes = batch.sizes
        count = self._room(tree.root, targets, sizes, max(1, deliveries))
        if not count:
            return 0
        if count < len(batch):
            batch, sizes = batch.part(0, count), sizes[:count]
        for publication in batch if batch.told else ():
            core.tell(VersionPassed(publication))
        edge.last_in[stream] = grown.seen[stream] = batch.numbers[-1]
        spent = core.spent
        durable = bool(to & own) and self._accept(link, batch, message.hops)
        passage = None
        if must:
            passage = Passage(tree.root, grown.epoch, count)
            passage.link, passage.generation, passage.slot = link, link.generation, slot
        self._forward(tree, grown, batch, targets, to, must, passage, message.hops + 1, link)
        core.spent = max(core.spent, spent + count)  # what nobody wants is work, too
        if passage is None:
            if durable:
                core.ask_sync()
            self.flow.answer(link, channel, slot, count, sum(sizes), awaited=False)
            return count
        if durable or (must & own and core.sync_token > core.synced):
            # A repeat of something that is being stored must wait for that too.
            self.flow.wait_for_disk(passage)
        if passage.open == 0:
            self.flow.answer(link, channel, slot, count, sum(sizes), missing=passage.missing)
        return count

    def _receivers_of(self, batch: Batch) -> int:
        """About how many sessions here get each of some publications."""
        return max(len(self.routes.of(head.topic).sessions) for head in batch.heads)

    def _take_stale(
        self,
        link: Link,
        channel: Channel,
        message: Arrived,
        first: int,
        end: int,
        to: int,
        must: int,
        reason: str,
    ) -> None:
        """They will come again in the next epoch; sessions here may have them now."""
        batch = message.batch.part(first, end)
        tree = self._trees.trees.get(message.root)
        past = tree.past if tree is not None else None
        if past is not None and past.epoch == message.epoch and to & past.bits[self._core.id]:
            if self._accept(link, batch, message.hops):
                self._core.ask_sync()
        if not must:
            self._core.suppress(batch, link.peer, message.hops, reason)
        self._core.spent += len(batch)
        size = sum(batch.sizes)
        slot = message.slot + first
        self.flow.answer(link, channel, slot, len(batch), size, missing=must, awaited=bool(must))

    def _accept(self, link: Link, batch: Batch, hops: int) -> bool:
        """Give publications to sessions here, those that are new to them; whether a durable one has some to
        store.
        """
        stream = stream_of(batch)
        mark = self.marks.get(stream, 0)
        if batch.numbers[0] <= mark or stream[:2] == self._own:
            # What entered here was delivered here; it may come back from a neighbour that stood in for us.
            known = len(batch) if stream[:2] == self._own else bisect_right(batch.numbers, mark)
            self._core.suppress(batch.part(0, known), link.peer, hops, "repeat")
            if known == len(batch):
                return False
            batch = batch.part(known, len(batch))
        durable = self._deliver_all(batch, link, hops)
        self._mark(stream, batch.numbers[-1])
        if durable:
            self._core.out.append(_mark_write(stream, batch.numbers[-1]))
        return durable

    def _deliver_all(self, batch: Batch, link: Link | None, hops: int) -> bool:
        """Hand publications of any topics to the matching sessions; whether one of them is durable."""
        durable = False
        if batch.told:
            for publication in batch:
                fields = self._topics.fields(publication)
                durable |= self._deliver_version(publication, fields, link, hops)
            return durable
        for route, first, end in self.routes.stretches(batch):
            part = batch.part(first, end)
            durable |= self._deliver(route, part, Contents(self._topics, part), link, hops)
        return durable

    def _deliver(
        self,
        route: Route,
        batch: Batch,
        contents: Contents,
        link: Link | None,
        hops: int,
    ) -> bool:
        """Hand publications of one route to the matching sessions; whether one of them is durable."""
        core, here, count = self._core, self._sessions.sessions, len(batch)
        lengths = batch.lengths
        if route.here:
            core.spent += count * self.routes.effort(route, max(lengths), here=True)
        matches = self.routes.match(route, batch, contents)
        if matches is None:
            self.false_positives += count if link is not None else 0
            return False
        core.out.append(Deliver(batch, matches, hops))
        receivers: Sequence[tuple[str, ...]]
        # Others send again what came from elsewhere, should it not be on disk here that it has come.
        durable = route.durable if hops else route.durable_here
        dealing = matches.dealing
        if dealing is not None:
            dealt = dealing.dealt
            receivers = Receivers(dealing.sessions, dealt.takers, dealt.upto)
            core.spend(len(dealt.takers), max(lengths))
            durable = durable or any(
                here[one].durable and (hops or any(it.qos for it in here[one].subscriptions.values()))
                for one in (dealing.sessions if any(head.qos for head in batch.heads) else ())
            )
            if len(dealt.served) < count:
                self.false_positives += count - len(dealt.served) if link is not None else 0
                batch = batch.some(dealt.served.tolist())
        elif not matches.listed:
            receivers = (route.sessions,)
            core.spend(len(route.sessions) * count, max(lengths))
        else:
            receivers = [tuple(dict.fromkeys([session for session, _ in some])) for some in matches]
            core.spend(sum(map(len, receivers)), max(lengths))
            places = [at for at, some in enumerate(receivers) if some]
            if len(places) < count:
                self.false_positives += count - len(places) if link is not None else 0
                batch, receivers = batch.some(places), [receivers[at] for at in places]
            durable = durable or any(
                here[one].durable and (hops or here[one].subscriptions[name].qos)
                for some in matches.listed
                for one, name in some
            )
        core.record_batch(
            Kind.DELIVERED,
            batch,
            link=link.peer if link is not None else None,
            hops=hops,
            latency=True,
            receivers=receivers,
        )
        return durable and any(head.qos for head in batch.heads)

    def _deliver_version(
        self, publication: Publication, fields: Content, link: Link | None, hops: int
    ) -> bool:
        """Hand a version of an event to the sessions that it is for; whether one of them is durable."""
        told = publication.told
        assert told is not None, "what a seat told says what it is"
        self._core.spent += self.routes.effort(
            self.routes.of(publication.topic), len(publication.payload), here=True
        )
        topic, given = told.topic, self._versions.given
        durable = self._versions.deliver(publication, fields, link, hops, late=told.late)
        self.left[topic] = self.left.get(topic, 0) + (self._versions.given > given)
        if link is not None:
            self._core.tell(VersionArrived(told))
        return durable

    def _mark(self, stream: Stream, number: int) -> None:
        marks = self.marks
        if marks.pop(stream, None) is None and len(marks) >= STREAMS_MAX:
            oldest = next(iter(marks))
            del marks[oldest]
            self._core.out.append(Erase(_mark_key(oldest)))
        marks[stream] = number

    def _forward(
        self,
        tree: Tree,
        grown: TreeEpoch,
        batch: Batch,
        targets: Sequence[Edge],
        to: int,
        must: int,
        passage: Passage | None,
        hops: int,
        source: Link | None,
    ) -> None:
        if not targets:
            return
        stream = stream_of(batch)
        sizes = batch.sizes
        # Small enough that a link can send one and more before it has to wait.
        most = min(OUTGOING_BYTES, self._core.settings.link_unacked_bytes // 4) - sum(sizes)
        sent = []
        for edge in targets:
            behind = must & edge.mask
            if not edge.alive:
                if passage is not None:
                    passage.missing |= behind
                continue
            link = edge.link
            slot = self.flow.start(link, tree.root, passage if behind else None, sizes, behind)
            outgoing = link.last_data
            if not isinstance(outgoing, Outgoing) or not outgoing.fits(
                tree.root, grown.epoch, hops, slot, batch, most
            ):
                outgoing = Outgoing(tree.root, grown.epoch, hops, slot)
                self._links.send_growing(link, outgoing)
            outgoing.add(batch, edge.last_out.get(stream, 0), to & edge.mask, behind, sum(sizes))
            edge.last_out[stream] = batch.numbers[-1]
            sent.append(edge.peer)
        if sent:
            self._core.spend(len(sent) * len(batch), max(batch.lengths))
            self._core.record_batch(
                Kind.FORWARDED,
                batch,
                link=source.peer if source is not None else None,
                hops=hops,
                receivers=(tuple(sent),),
                epoch=f"{tree.root}:{grown.epoch[0]}:{grown.epoch[1]}",
            )

    def on_done(self, link: Link, message: Done) -> None:
        self.flow.on_done(link, message)
        self._drain[message.root] = None

    # Going on.

    def flush(self) -> None:
        """Go on with what has waited, and send the acknowledgements that this event has brought."""
        core = self._core
        while self._drain and not core.turn_is_over():
            root = next(iter(self._drain))
            del self._drain[root]
            for link, channel in self.flow.parked(root):
                while (
                    channel.parked
                    and not core.turn_is_over()
                    and self._take(link, channel, channel.parked[0])
                ):
                    channel.parked.popleft()
            self._pump(root)
            if core.turn_is_over():
                self._drain[root] = None
        self.flow.flush()
        waiting = self.backlog_bytes + self.outbox.unaccepted_bytes + self.reports_bytes()
        limit = self._core.settings.backlog_bytes
        if not self.paused and waiting > limit:
            self.paused = True
            self._core.out.append(Pause())
        elif self.paused and waiting * 2 < limit:
            self.paused = False
            self._core.out.append(Resume())

    def _go_on(self) -> None:
        """Something that has waited for the disk may be sent."""
        self._drain |= {root: None for root, backlog in self._backlogs.items() if backlog}

    def on_ready(self, tree: Tree) -> None:
        """A new epoch: see who is back, then send again what not everyone has."""
        reached, strangers = self._absences.on_ready(tree)
        for name, peer in reached:
            self.outbox.reached(name, peer, late=False)
        if strangers:
            self.outbox.met(strangers)
        self.rearrange()
        self.outbox.on_ready()

    def on_link_up(self, link: Link) -> None:
        self.outbox.on_link_up(link)
        reached = False
        for tree in self._trees.trees.values():
            # The tree may reach the neighbour by another way, and then no new epoch will tell.
            if tree.current is not None:
                for name, peer in self._absences.found(tree.current.bits):
                    self.outbox.reached(name, peer, late=True)
                    reached = True
        if reached:
            self.rearrange()  # what was held for it is sent now

    def on_dropped(self) -> None:
        """A tree is used no more."""
        self._absences.on_dropped()
        self.rearrange()

    def on_link_down(self, link: Link) -> None:
        self._drain |= dict.fromkeys(self.flow.on_link_down(link))
        self.outbox.on_link_down(link)

    def rearrange(self) -> None:
        """Put all that waits, or must be sent again, into the queue of the tree it now uses, in order."""
        waiting = {held.order: held for backlog in self._backlogs.values() for held in backlog}
        self._backlogs = {}
        self.backlog_bytes = 0
        waiting.pop(0, None)  # copies find their place anew
        for held in self.outbox.everything():
            if held.passed:
                # Later ones of its stream may go to those who are back, so it must go there before them.
                if not self._is_back(held):
                    continue
                self.outbox.expect_again(held)
            if held.order in waiting or self._under_way(held):
                continue
            if held.order:
                waiting[held.order] = held
            elif self.outbox.stands_in(held):
                self._enqueue(held, self._root_of(held))
        for order in sorted(waiting):
            # Its topic may have come back to a tree on which it was sent: it goes again in the next epoch.
            if not self._under_way(waiting[order]):
                self._enqueue(waiting[order], self._root_of(waiting[order]))
        for root in self._trees.trees:
            self._drain[root] = None
        self.outbox.accept_withheld()

    def _is_back(self, held: Held) -> bool:
        """Whether somebody for whom it is kept is a member now."""
        if not held.absent:
            return False
        root = self._root_of(held)
        tree = self._trees.serving(root) if root is not None else None
        grown = tree.current if tree is not None else None
        return grown is not None and any(name in grown.bits for name in held.absent)

    def _under_way(self, held: Held) -> bool:
        """Whether it was sent in the epoch that its topic uses now."""
        root = self._root_of(held)
        tree = self._trees.serving(root) if root is not None else None
        if tree is None or tree.current is None:
            return False
        return held.sent.get(tree.root) == tree.current.epoch

    def _first_to_send(self, grown: TreeEpoch, copy: Held) -> bool:
        """Whether no other that stands in for the same origin has sent it in this epoch already."""
        batch = copy.batch
        stream, number = stream_of(batch), batch.numbers[-1]
        if number > self.marks.get(stream, 0):
            # Sessions here may not have what the origin could not send any more.
            if self._deliver_all(batch, None, COPY_HOPS):
                self._core.out.append(_mark_write(stream, number))
                self._core.ask_sync()
            self._mark(stream, number)
        if number <= grown.seen.get(stream, 0):
            return False
        grown.seen[stream] = number
        return True

    @property
    def waiting(self) -> bool:
        """Whether something that may go on waits for the next turn."""
        return bool(self._drain)

    @property
    def at_rest(self) -> bool:
        """Whether nothing is waited for, except brokers out of reach."""
        return not self.backlog_bytes and not self._core.syncing and self.flow.at_rest


LINK_STREAMS_MAX = 4 * STREAMS_MAX
"""Streams over one link in one epoch; more do not come of a network, but of a neighbour gone wrong."""

PROPERTIES_FREE_BYTES = 65_536
"""Properties and content type that may come on top of the largest payload: what one MQTT string holds."""

COPY_HOPS = 1
"""Links that a copy has come over."""

NO_TREE = ""
"""The backlog of what has no tree yet; everything else waits behind it, for order."""


Addressed = tuple[int, int, tuple[str, ...]]
"""Who gets publications in an epoch, who must have them, and absent brokers for which they are kept."""


def _targets(grown: TreeEpoch, to: int) -> list[Edge]:
    """The links over which a publication goes to some members, in order of their neighbours."""
    return [edge for edge in grown.ordered if edge.mask & to] if to else []


def _is_of(batch: Batch, events: Container[str]) -> bool:
    """Whether it is a version of one of some events, which is by itself."""
    return bool(batch.told) and batch.told[0].event in events


def _about(head: Head) -> int:
    """What properties and content type count for."""
    if not head.properties and not head.content_type and head.response_topic is None:
        return len(head.correlation or b"")
    about = len(head.content_type) + sum(len(name) + len(text) for name, text in head.properties)
    return about + len(head.response_topic or "") + len(head.correlation or b"")


def _mark_key(stream: Stream) -> str:
    return f"mark/{quoted(stream[0])}/{stream[1]}/{quoted(stream[2])}"


def _mark_write(stream: Stream, number: int) -> Write:
    return Write(_mark_key(stream), encode((*stream, number)))
