"""Publications: from where they enter to every matching session, each once, in order, although brokers die.

A publication is matched once, at its origin, with the sets of all other brokers (`homes`). That says which
members of the epoch get it, and which must have it, since somebody there asks for QoS 1 or 2. It travels one
tree, in one epoch, and a hop forwards it by these destinations without looking at what it says; each of them
matches it once more for its own sessions. Each hop acknowledges it (`Done`) when all behind it that must have
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

from array import array
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np

from tidings.errors import PayloadError, PeerError
from tidings.language import names
from tidings.language.reports import Report
from tidings.language.topics import Topic
from tidings.overlay.core import Core, Notice
from tidings.overlay.events import Deliver, Erase, Pause, PublicationOffered, Reject, Resume, Write
from tidings.overlay.links.links import Link, Links
from tidings.overlay.publication import OVERHEAD_BYTES, Publication, Told
from tidings.overlay.publishing.batches import message_of, publications_of, unpacked
from tidings.overlay.publishing.flow import Channel, Flow, Passage
from tidings.overlay.publishing.log_writer import LogWriter
from tidings.overlay.publishing.messages import Done, Publish
from tidings.overlay.publishing.outbox import QOS_ONCE, Held, Outbox, Stream, encode, quoted, stream_of
from tidings.overlay.routing.absence import Absences
from tidings.overlay.routing.homes import Homes
from tidings.overlay.routing.sessions import Sessions
from tidings.overlay.routing.topics import Content, Topics
from tidings.overlay.trees.messages import Epoch
from tidings.overlay.trees.trees import Edge, Tree, TreeEpoch, Trees
from tidings.records.record import Kind, Run

if TYPE_CHECKING:
    from tidings.records.record import Integers, Small

BOOT_SHIFT = 33
"""Numbers of a stream begin at (boot - incarnation) shifted by this: those of a restarted broker are all
larger than those it gave before, without a write to disk for each. Within 63 bits that leaves 2^30 boots,
which count up by one for each start and for each second at most, of 2^33 publications."""

STREAMS_MAX = 131_072
"""High-water marks kept. Beyond, the one that moved longest ago is forgotten, and a repeat of its stream
would be delivered; that takes as many brokers to publish in between."""


class Route:
    """Who gets what is published to a topic at this broker, at one moment."""

    __slots__ = (
        "filtered",
        "grown",
        "homes_version",
        "local_version",
        "plain",
        "possible",
        "prefix",
        "stream",
        "topic",
        "topics_version",
        "tree",
    )

    def __init__(
        self,
        topic: str,
        stream: str,
        tree: Tree | None,
        core: Core,
        sessions: Sessions,
        homes: Homes,
        topics: Topics,
    ) -> None:
        self.topic = topic
        self.stream = stream
        self.prefix = f"{core.id}:{core.incarnation}:{stream}:"
        self.tree = tree
        grown = tree.current if tree is not None else None
        nodes = sessions.local.nodes(topic)
        self.plain = tuple(sorted(named for node in nodes for entry in node.plain for named in entry.targets))
        """(session, name) of every subscription without a content filter."""
        self.filtered = tuple(node for node in nodes if node.filtered)
        """Where there are some with one."""
        shared = sessions.shares.groups
        self.possible = (
            grown is not None
            and not homes.table.nodes(topic)
            and topics.declaration(topic) is None
            and core.settings.acks == "origin"
            and not (
                shared
                and any(
                    named in shared for node in nodes for entry in node.entries() for named in entry.targets
                )
            )
        )
        """Whether the short way is open to it at all."""
        if grown is not None:
            self.grown = grown
        self.homes_version = homes.table.version
        self.local_version = sessions.local.version
        self.topics_version = topics.version


class Arrived(msgspec.Struct, frozen=True, gc=False):
    """One publication of a message from a neighbour."""

    root: str
    epoch: Epoch
    slot: int
    previous: int
    hops: int
    publication: Publication
    to: int
    """Who gets it of those behind the link, as bits of the epoch."""
    must: int
    """Who must have it."""


class Lane:
    """Publications of one client to one topic that go the same short way, one at a time."""

    __slots__ = ("at_us", "numbers", "receivers", "route", "session", "sizes", "stream")

    def __init__(self, route: Route, session: str, receivers: tuple[str, ...]) -> None:
        self.route = route
        self.stream = route.stream
        self.session = session
        self.receivers = receivers
        # Arrays, since they wait for long: what numbers take in lists is a page of memory for forty messages,
        # and to get one may take longer than to pass a message on.
        self.sizes = array("q")
        self.numbers = array("q")
        self.at_us = array("q")


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
        self._own = (core.id, core.incarnation)
        self._numbers: dict[str, int] = {}
        self._backlogs: dict[str, deque[Held]] = {}
        """By root: what waits for its turn on a tree; "" for what has no tree yet."""
        self.backlog_bytes = 0
        self.paused = False
        self.stopping = False
        self.marks: dict[Stream, int] = {}
        """By stream: the highest number that sessions here have been given."""
        self._lanes: dict[Lane, None] = {}
        """With something that is not written down yet."""
        self._drain: dict[str, None] = {}
        """Roots on whose trees something that has waited may go on."""
        self.gather: Callable[[PublicationOffered, Topic, Report], bool] = lambda *_: False
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
            self._enqueue(held)
        self._versions.recover(saved)
        for key in saved:
            if key.startswith("mark/"):
                mark = msgspec.msgpack.decode(saved[key], type=tuple[str, int, str, int])
                self.marks[mark[:3]] = mark[3]

    # From a client here.

    def offer(self, offered: PublicationOffered) -> None:
        core = self._core
        reason = self._objection(offered)
        topic = None if reason else self._topics.declaration(offered.topic)
        report: Report | None = None
        if topic is not None:
            try:
                report = self._topics.report(topic, offered.topic, offered.payload, offered.content_type)
            except PayloadError as error:
                reason = str(error)
        if reason:
            core.out.append(Reject(offered.session, offered.token, reason, offered.topic))
            return
        if topic is not None and report is not None and self.gather(offered, topic, report):
            return
        size = len(offered.payload) + len(offered.topic) + OVERHEAD_BYTES
        if offered.qos == 0 and self.backlog_bytes + size > 2 * core.settings.backlog_bytes:
            # The publisher was told to pause; what it sends all the same is beyond the bound.
            core.record(Kind.SUPPRESSED, offered.topic, None, len(offered.payload), reason="queue full")
            return
        stream = self._topics.stream_of(offered.topic)
        root = self._topics.root_of(offered.topic, stream)
        number = self._numbers.get(stream)
        number = ((core.boot - core.incarnation) << BOOT_SHIFT) + 1 if number is None else number + 1
        self._numbers[stream] = number
        publication = Publication(
            core.id,
            core.incarnation,
            stream,
            number,
            offered.topic,
            offered.payload,
            offered.qos,
            core.at_us,
            offered.session,
            offered.content_type,
            offered.properties,
            offered.retain,
            offered.payload_format,
            offered.expiry_s,
            offered.response_topic,
            offered.correlation,
        )
        core.record(
            Kind.PUBLISHED,
            offered.topic,
            publication.id,
            len(offered.payload),
            client=offered.session,
            publisher=offered.session,
        )
        if topic is not None:
            self._log_writer.publication(topic, offered)
        held = self.outbox.wrap(publication)
        held.content = self._topics.fields(publication)
        durable = self._deliver(publication, held.content, None, 0)
        if offered.qos:
            self.outbox.hold(held, offered.session, offered.token)
        elif durable:
            core.ask_sync()
        self._enqueue(held)
        if offered.qos == QOS_ONCE:
            core.after_sync(self._go_on)
        self._pump(root)

    # From a seat here.

    def tell(self, topic: str, payload: bytes, qos: int, content_type: str, told: Told) -> int:
        """Send a version of an event to all who want it; its number in its stream.

        `confirmed` is called when everyone has it; what has QoS 0 is taken to be there when it is sent.
        """
        core = self._core
        stream = self._topics.stream_of(topic)
        number = self._numbers.get(stream)
        number = ((core.boot - core.incarnation) << BOOT_SHIFT) + 1 if number is None else number + 1
        self._numbers[stream] = number
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
        held = self.outbox.wrap(publication, names)
        held.content = self._topics.fields(publication)
        durable = self._deliver(publication, held.content, None, 0)
        if qos:
            self.outbox.hold(held)
        elif durable:
            core.ask_sync()
        self._enqueue(held)
        if qos == QOS_ONCE:
            core.after_sync(self._go_on)
        self._pump(self._topics.root_of(topic, stream))
        return number

    def drop_told(self, events: Container[str]) -> None:
        """Send versions of events no more: another broker has their seat by now, and what it knows counts."""
        for root, backlog in self._backlogs.items():
            gone = [held for held in backlog if _is_of(held.publication, events)]
            if gone:
                self.backlog_bytes -= sum(held.size for held in gone)
                self._backlogs[root] = deque(held for held in backlog if not _is_of(held.publication, events))
        for held in list(self.outbox.held.values()):
            if _is_of(held.publication, events):
                self.outbox.drop(held)

    def on_released(self, publication: Publication) -> None:
        if publication.told is not None:
            self._core.tell(VersionConfirmed(publication.told))

    # Many at once that nobody but sessions here may want.

    def route(self, topic: str) -> Route:
        """Who gets what is published to a topic; good for as long as `straight` says so."""
        stream = self._topics.stream_of(topic)
        root = self._topics.root_of(topic, stream)
        tree = self._trees.serving(root) if root is not None else None
        return Route(topic, stream, tree, self._core, self._sessions, self._homes, self._topics)

    def nobody(self, topic: str) -> bool:
        """Whether no subscription, here or behind a link, is about a topic."""
        if self._sessions.local.nodes(topic) or self._homes.table.nodes(topic):
            return False
        root = self._topics.root_of(topic, self._topics.stream_of(topic))
        tree = self._trees.serving(root) if root is not None else None
        return tree is not None and tree.current is not None and self._sees(tree.current)

    def _sees(self, grown: TreeEpoch) -> bool:
        """Whether it is known of all brokers what they want."""
        return not grown.unknown and not self._absences.blind(grown)

    def fresh(self, route: Route) -> bool:
        """Whether a route would be the same if it were made now."""
        tree = route.tree
        return (
            tree is not None
            and tree.current is route.grown
            and self._homes.table.version == route.homes_version
            and self._sessions.local.version == route.local_version
            and self._topics.version == route.topics_version
        )

    def straight(self, route: Route) -> bool:
        """Whether what is published there goes to sessions here and nowhere else, with nothing to be held.

        That is how most of it goes at a broker with busy clients, so it has a short way: the front hands
        publications to sessions by itself, and tells `note` what it has done.
        """
        tree = route.tree
        return (
            route.possible
            and tree is not None
            and self.fresh(route)
            and tree.growing is None
            and not self._backlogs.get(tree.root)
            and not self._backlogs.get(NO_TREE)
            and not self.stopping
            and self._sees(route.grown)
        )

    def note(
        self,
        route: Route,
        session: str,
        sizes: Sequence[int],
        count: int,
        receivers: Sequence[tuple[str, ...]],
    ) -> int:
        """Number and write down publications that went the short way; the number of the first.

        `sizes` and `receivers` have one item for each, or one for all.
        """
        first = self._take_numbers(route.stream, count)
        at_us = (self._core.at_us,)
        self._write_down(route, session, at_us, range(first, first + count), sizes, receivers)
        return first

    def note_mixed(
        self,
        routes: Sequence[Route],
        which: Small | None,
        session: str,
        sizes: Integers,
        count: int,
        receivers: Sequence[tuple[str, ...]],
        served: Integers | None = None,
    ) -> None:
        """The same for publications of one topic or several, in the order in which they came.

        `which` has for each the place of its route, if there are several. If not all were received by
        somebody, `served` are those that were, and `receivers` is about these.
        """
        numbers = self._numbers_of([route.stream for route in routes], which, count)
        self._write_mixed(Kind.PUBLISHED, routes, which, session, numbers, 0, sizes, ((),))
        offset = 0
        if served is not None and len(served) < count:
            sizes = sizes[served] if len(sizes) > 1 else sizes
            if isinstance(numbers, range):
                numbers, offset = served, numbers[0]
            else:
                numbers = numbers[served]
            which = which[served] if which is not None else None
        if len(served if served is not None else receivers[0]):
            self._write_mixed(Kind.DELIVERED, routes, which, session, numbers, offset, sizes, receivers)

    def _write_mixed(
        self,
        kind: Kind,
        routes: Sequence[Route],
        which: Small | None,
        session: str,
        numbers: range | Integers,
        offset: int,
        sizes: Integers,
        receivers: Sequence[tuple[str, ...]],
    ) -> None:
        core, published = self._core, kind is Kind.PUBLISHED
        core.out.append(
            Run(
                core.id,
                core.boot,
                core.records + 1,
                (core.at_us,),
                kind,
                [route.topic for route in routes],
                [route.prefix for route in routes],
                numbers if isinstance(numbers, range) else array("q", numbers.tobytes()),
                array("q", sizes.tobytes()),
                session,
                session if published else None,
                None if published else 0,
                None if published else 0,
                receivers,
                array("i", which.tobytes()) if which is not None else (0,),
                offset,
            )
        )
        core.records += len(numbers)

    def _take_numbers(self, stream: str, count: int) -> int:
        """The first of some new numbers of a stream, in a row."""
        core, number = self._core, self._numbers.get(stream)
        first = ((core.boot - core.incarnation) << BOOT_SHIFT) + 1 if number is None else number + 1
        self._numbers[stream] = first + count - 1
        return first

    def _numbers_of(self, streams: Sequence[str], which: Small | None, count: int) -> range | Integers:
        """New numbers of many publications, whose streams are at these places."""
        different = list(dict.fromkeys(streams))
        if which is None or len(different) == 1:
            first = self._take_numbers(streams[0], count)
            return range(first, first + count)
        stream_of = np.array([different.index(stream) for stream in streams])[which]
        numbers = np.empty(count, np.int64)
        for at, stream in enumerate(different):
            mine = stream_of == at
            many = int(mine.sum())
            first = self._take_numbers(stream, many)
            numbers[mine] = np.arange(first, first + many)
        return numbers

    def note_all(self, lanes: Sequence[Lane], sizes: Sequence[int]) -> None:
        """The same for publications of one client that went like others of it before."""
        if len(lanes) >= MIXED_FROM:
            places = {lane: at for at, lane in enumerate(dict.fromkeys(lanes))}
            receivers = lanes[0].receivers
            if all(lane.receivers == receivers for lane in places):
                routes = [lane.route for lane in places]
                count = len(lanes)
                which = np.fromiter(map(places.__getitem__, lanes), np.int32, count)
                # What is the same for all costs less to keep and to write.
                some = sizes[:1] if sizes.count(sizes[0]) == count else sizes
                each = np.fromiter(some, np.int64, len(some))
                self.note_mixed(routes, which, lanes[0].session, each, count, (receivers,))
                return
        # Few are written down later, together with others of their lanes.
        at_us = self._core.at_us
        for lane, size in zip(lanes, sizes, strict=True):
            number = self._take_numbers(lane.stream, 1)
            numbers = lane.numbers
            if not numbers:
                self._lanes[lane] = None
            numbers.append(number)
            lane.at_us.append(at_us)
            lane.sizes.append(size)
            if len(numbers) >= LANE_MAX:
                self._write_lane(lane)

    def note_repeats(self, lane: Lane, size: int, at_us: array[int]) -> None:
        """The same for some of one size in a row, after at least one other of their lane."""
        known, stream, numbers = self._numbers, lane.stream, lane.numbers
        first, count = known[stream] + 1, len(at_us)
        known[stream] += count
        if not numbers:
            self._lanes[lane] = None
        numbers.extend(range(first, first + count))
        lane.at_us += at_us
        lane.sizes += array("q", (size,)) * count
        if len(numbers) >= LANE_MAX:
            self._write_lane(lane)

    def _write_lane(self, lane: Lane) -> None:
        numbers: Sequence[int] = lane.numbers
        at_us, sizes = lane.at_us, lane.sizes
        lane.numbers, lane.at_us, lane.sizes = array("q"), array("q"), array("q")
        del self._lanes[lane]
        # What is the same for all, or counts up by one, costs less to keep and to write.
        if numbers[-1] - numbers[0] == len(numbers) - 1:
            numbers = range(numbers[0], numbers[-1] + 1)
        if sizes.count(sizes[0]) == len(sizes):
            del sizes[1:]
        self._write_down(lane.route, lane.session, at_us, numbers, sizes, (lane.receivers,))

    def write_lanes(self) -> None:
        """Write down what went one by one and has not been."""
        for lane in list(self._lanes):
            self._write_lane(lane)

    def _write_down(
        self,
        route: Route,
        session: str,
        at_us: Sequence[int],
        numbers: Sequence[int],
        sizes: Sequence[int],
        receivers: Sequence[tuple[str, ...]],
    ) -> None:
        core = self._core
        core.out.append(
            Run(
                core.id,
                core.boot,
                core.records + 1,
                at_us,
                Kind.PUBLISHED,
                (route.topic,),
                (route.prefix,),
                numbers,
                sizes,
                session,
                session,
            )
        )
        core.records += len(numbers)
        if len(receivers) > 1 and not all(receivers):
            kept = [at for at, some in enumerate(receivers) if some]
            numbers = [numbers[at] for at in kept]
            sizes = [sizes[at] for at in kept] if len(sizes) > 1 else sizes
            receivers = [receivers[at] for at in kept]
        if receivers and receivers[0]:
            core.out.append(
                Run(
                    core.id,
                    core.boot,
                    core.records + 1,
                    at_us,
                    Kind.DELIVERED,
                    (route.topic,),
                    (route.prefix,),
                    numbers,
                    sizes,
                    session,
                    None,
                    0,
                    0,
                    receivers,
                )
            )
            core.records += len(numbers)

    def _objection(self, offered: PublicationOffered) -> str:
        settings = self._core.settings
        if self.stopping:
            return "this broker is stopping; publish at another"
        if fault := names.name_fault(offered.topic):
            return fault
        if not 0 <= offered.qos <= 2:
            return f"quality of service {offered.qos} is not 0, 1 or 2"
        if len(offered.payload) > settings.message_bytes_max:
            return f"the payload has {len(offered.payload)} bytes; the limit is {settings.message_bytes_max}"
        about = len(offered.content_type) + sum(len(name) + len(text) for name, text in offered.properties)
        about += len(offered.response_topic or "") + len(offered.correlation or b"")
        if len(offered.payload) + about > settings.message_bytes_max + PROPERTIES_FREE_BYTES:
            return (
                f"properties and content type have {about} characters; beside the payload there is room for "
                f"{settings.message_bytes_max + PROPERTIES_FREE_BYTES - len(offered.payload)}"
            )
        return ""

    def _enqueue(self, held: Held) -> None:
        root = self._topics.root_of(held.publication.topic, held.publication.stream)
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
        grown = tree.current
        while backlog and not self._core.turn_is_over():
            held = backlog[0]
            publication = held.publication
            if publication.qos and (held.passed or not self.outbox.keeps(held)):
                # All have answered meanwhile, in the epoch before.
                backlog.popleft()
                self.backlog_bytes -= held.size
                continue
            if publication.qos == QOS_ONCE and not held.synced:
                break
            if held.grown is not grown:
                self._address(held, grown)
            targets = _targets(grown, held.to)
            if any(self.flow.full(edge.peer, tree.root) for edge in targets):
                break
            backlog.popleft()
            held.content = None
            self.backlog_bytes -= held.size
            if not publication.qos:
                self._forward(tree, grown, publication, targets, held.to, 0, None, 1, None)
                self.on_released(publication)
                continue
            if publication.origin != self._core.id and not self._first_to_send(grown, held):
                continue
            passage = Passage(tree.root, grown.epoch)
            passage.origin = lambda passage, held=held: self._passed(held, passage)
            held.sent[tree.root] = grown.epoch
            self._forward(tree, grown, publication, targets, held.to, held.must, passage, 1, None)
            if passage.open == 0:
                self._passed(held, passage)
        if backlog and self._core.turn_is_over():
            self._drain[root] = None

    def _address(self, held: Held, grown: TreeEpoch) -> None:
        """Find out who gets a publication that is to be sent in an epoch, and who must have it."""
        publication = held.publication
        if held.grown is not None:
            held.missing += held.grown.names_of(held.must)
        names = held.missing or (() if held.done else held.names)
        held.missing = ()
        wanted = self._wanting(held, grown) | dict.fromkeys((*names, *held.absent), 2)
        for name in (*held.done, self._core.id, publication.origin):
            wanted.pop(name, None)
        bits, to, must = grown.bits, 0, 0
        held.absent = {}
        for name, qos in wanted.items():
            bit = bits.get(name)
            if bit is not None:
                to |= bit
                must |= bit if qos else 0
            elif qos and publication.qos and self._absences.holds_for(name):
                held.absent[name] = None
        held.grown, held.to, held.must = grown, to, must if publication.qos else 0
        if publication.told is not None:
            there = {name: qos for name, qos in wanted.items() if name in bits or name in held.absent}
            self._core.tell(VersionAddressed(publication.told, there))

    def _wanting(self, held: Held, grown: TreeEpoch) -> dict[str, int]:
        """Brokers that want a publication, with the highest quality of service, by all that is known here."""
        publication, homes = held.publication, self._homes
        wanted = homes.match(publication.topic, held.content or self._topics.fields(publication))
        self._core.spent += homes.table.effort(publication.topic, len(publication.payload))
        if publication.told is not None:
            for name, qos in self.receivers(publication.told).items():
                if wanted.get(name, -1) < qos:
                    wanted[name] = qos
        for name in (*grown.unknown, *self._absences.blind(grown)):
            wanted[name] = 2
        return wanted

    def _wanted_by_absent(self, held: Held) -> bool:
        """Whether a publication would have to be kept for a broker out of reach."""
        if held.grown is not None or held.passed:
            return bool(held.absent)
        root = self._topics.root_of(held.publication.topic, held.publication.stream)
        tree = self._trees.serving(root) if root is not None else None
        grown = tree.current if tree is not None else None
        return grown is not None and any(
            qos and name not in grown.bits and name not in held.done
            for name, qos in self._wanting(held, grown).items()
        )

    def _passed(self, held: Held, passage: Passage) -> None:
        """All links have answered for a publication that was sent from here."""
        grown = held.grown
        # What was sent again in another epoch or on another tree by now is settled there.
        if grown is None or (grown.root, grown.epoch) != (passage.root, passage.epoch):
            return
        held.done += grown.names_of(held.to & ~passage.missing)
        held.must &= passage.missing
        # Where somebody for whom it is kept has come back meanwhile, it waits to be sent in the newer epoch.
        if not passage.missing and not self._is_back(held):
            self.outbox.everyone_has(held)

    # From a neighbour.

    def on_publish(self, link: Link, message: Publish) -> None:
        try:
            publications = publications_of(message)
        except PeerError as error:
            self._links.renounce(link, str(error))
            return
        channel = self.flow.channel(link, message.root)
        must = message.must or message.to
        for at, publication in enumerate(publications):
            arrived = Arrived(
                message.root,
                message.epoch,
                message.slot + at,
                message.previous[at],
                message.hops,
                publication,
                unpacked(message.to[at]),
                unpacked(must[at]) if publication.qos else 0,
            )
            spent = self._core.spent
            if channel.parked or not self._take(link, channel, arrived):
                channel.parked.append(arrived)
            if self._core.spent == spent:
                self._core.spent += 1  # what nobody wants is work, too
            if channel.generation != link.generation:
                return  # acting on it has ended the session

    def _take(self, link: Link, channel: Channel, message: Arrived) -> bool:
        """Act on a publication; False if it must wait: for its epoch to be ready, or for room on a link."""
        tree = self._trees.trees.get(message.root)
        grown = tree.current if tree is not None else None
        if tree is None or grown is None or message.epoch != grown.epoch:
            if tree is not None and tree.growing is not None and tree.growing.epoch == message.epoch:
                return False
            self._take_stale(link, channel, message, "epoch has passed")
            return True
        edge = grown.edges.get(link.peer)
        if edge is None or not edge.alive:
            self._take_stale(link, channel, message, "not a link of the tree")
            return True
        publication = message.publication
        stream = stream_of(publication)
        if len(edge.last_in) >= LINK_STREAMS_MAX and stream not in edge.last_in:
            self._links.renounce(link, f"more than {LINK_STREAMS_MAX} streams over one link")
            return True
        to, must = message.to, message.must
        if message.previous != edge.last_in.get(stream, 0):
            # Links keep order and lose nothing, so this is a fault of one of the two brokers.
            self._core.log(
                "error",
                "a publication is missing",
                peer=link.peer,
                message=publication.id,
                previous=message.previous,
                known=edge.last_in.get(stream, 0),
            )
            self.flow.answer(link, channel, message.slot, publication.size, missing=must, awaited=bool(must))
            self._trees.ask_regrow(tree)
            return True
        if publication.number <= grown.seen.get(stream, 0):
            edge.last_in[stream] = publication.number
            self._core.suppress(publication, link.peer, message.hops, "repeat")
            self.flow.answer(link, channel, message.slot, publication.size, awaited=bool(must))
            return True
        targets = _targets(grown, to & ~edge.mask)
        if any(self.flow.full(target.peer, tree.root) for target in targets):
            return False
        if publication.told is not None:
            self._core.tell(VersionPassed(publication))
        edge.last_in[stream] = publication.number
        grown.seen[stream] = publication.number
        own = grown.bits[self._core.id]
        durable = bool(to & own) and self._accept(link, message)
        passage = None
        if must:
            passage = Passage(tree.root, grown.epoch)
            passage.link, passage.generation, passage.slot = link, link.generation, message.slot
        self._forward(tree, grown, publication, targets, to, must, passage, message.hops + 1, link)
        if passage is None:
            if durable:
                self._core.ask_sync()
            self.flow.answer(link, channel, message.slot, publication.size, awaited=False)
            return True
        if durable or (must & own and self._core.sync_token > self._core.synced):
            # A repeat of something that is being stored must wait for that too.
            self.flow.wait_for_disk(passage)
        if passage.open == 0:
            self.flow.answer(link, channel, message.slot, publication.size, missing=passage.missing)
        return True

    def _take_stale(self, link: Link, channel: Channel, message: Arrived, reason: str) -> None:
        """It will come again in the next epoch; sessions here may have it now."""
        publication, must = message.publication, message.must
        tree = self._trees.trees.get(message.root)
        past = tree.past if tree is not None else None
        if past is not None and past.epoch == message.epoch and message.to & past.bits[self._core.id]:
            if self._accept(link, message):
                self._core.ask_sync()
        if not must:
            self._core.suppress(publication, link.peer, message.hops, reason)
        self.flow.answer(link, channel, message.slot, publication.size, missing=must, awaited=bool(must))

    def _accept(self, link: Link, message: Arrived) -> bool:
        """Give it to sessions here, if it is new to them; whether a durable one has it to store."""
        publication = message.publication
        stream, fields = stream_of(publication), self._topics.fields(publication)
        if publication.number <= self.marks.get(stream, 0) or stream[:2] == self._own:
            # What entered here was delivered here; it may come back from a neighbour that stood in for us.
            self._core.suppress(publication, link.peer, message.hops, "repeat")
            return False
        durable = self._deliver(publication, fields, link, message.hops)
        self._mark(stream, publication.number)
        if durable:
            self._core.out.append(_mark_write(stream, publication.number))
        return durable

    def _deliver(self, publication: Publication, fields: Content, link: Link | None, hops: int) -> bool:
        """Hand it to the matching sessions; whether one of them is durable."""
        self._core.spent += self._sessions.local.effort(publication.topic, len(publication.payload))
        if publication.told is not None:
            topic, given = publication.told.topic, self._versions.given
            durable = self._versions.deliver(publication, fields, link, hops, late=publication.told.late)
            self.left[topic] = self.left.get(topic, 0) + (self._versions.given > given)
            if link is not None:
                self._core.tell(VersionArrived(publication.told))
            return durable
        here = self._sessions
        found = here.local.match(publication.topic, fields)
        if not found:
            self.false_positives += link is not None
            return False
        if here.shares.groups:
            found = here.shares.choose(found, lambda session: here.sessions[session].open)
        subscriptions = tuple(sorted(found))
        self._core.out.append(Deliver(publication, subscriptions, hops))
        receivers = tuple(dict.fromkeys([session for session, _ in subscriptions]))
        self._core.spend(len(receivers), len(publication.payload))
        self._core.record(
            Kind.DELIVERED,
            publication.topic,
            publication.id,
            len(publication.payload),
            publisher=publication.publisher,
            link=link.peer if link is not None else None,
            hops=hops,
            latency_us=self._core.at_us - publication.at_us,
            receivers=receivers,
        )
        return any(here.sessions[session].durable for session in receivers)

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
        publication: Publication,
        targets: Sequence[Edge],
        to: int,
        must: int,
        passage: Passage | None,
        hops: int,
        source: Link | None,
    ) -> None:
        if not targets:
            return
        stream = stream_of(publication)
        size = publication.size
        sent = []
        for edge in targets:
            behind = must & edge.mask
            if not edge.alive:
                if passage is not None:
                    passage.missing |= behind
                continue
            slot = self.flow.start(edge.link, tree.root, passage if behind else None, size, behind)
            previous = edge.last_out.get(stream, 0)
            message = message_of(
                tree.root, grown.epoch, slot, hops, (publication,), (previous,), (to & edge.mask,), (behind,)
            )
            edge.last_out[stream] = publication.number
            self._links.send_data(edge.link, message, size)
            sent.append(edge.peer)
        if sent:
            self._core.spend(len(sent), size)
            self._core.record(
                Kind.FORWARDED,
                publication.topic,
                publication.id,
                len(publication.payload),
                publisher=publication.publisher,
                link=source.peer if source is not None else None,
                hops=hops,
                receivers=tuple(sent),
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
                self._enqueue(held)
        for order in sorted(waiting):
            # Its topic may have come back to a tree on which it was sent: it goes again in the next epoch.
            if not self._under_way(waiting[order]):
                self._enqueue(waiting[order])
        for root in self._trees.trees:
            self._drain[root] = None
        self.outbox.accept_withheld()

    def _is_back(self, held: Held) -> bool:
        """Whether somebody for whom it is kept is a member now."""
        if not held.absent:
            return False
        root = self._topics.root_of(held.publication.topic, held.publication.stream)
        tree = self._trees.serving(root) if root is not None else None
        grown = tree.current if tree is not None else None
        return grown is not None and any(name in grown.bits for name in held.absent)

    def _under_way(self, held: Held) -> bool:
        """Whether it was sent in the epoch that its topic uses now."""
        root = self._topics.root_of(held.publication.topic, held.publication.stream)
        tree = self._trees.serving(root) if root is not None else None
        if tree is None or tree.current is None:
            return False
        return held.sent.get(tree.root) == tree.current.epoch

    def _first_to_send(self, grown: TreeEpoch, copy: Held) -> bool:
        """Whether no other that stands in for the same origin has sent it in this epoch already."""
        stream, number = stream_of(copy.publication), copy.publication.number
        self._accept_copy(copy.publication)
        if number <= grown.seen.get(stream, 0):
            copy.sent[grown.root] = grown.epoch
            return False
        grown.seen[stream] = number
        return True

    def _accept_copy(self, publication: Publication) -> None:
        """Sessions here may not have what the origin could not send any more."""
        stream = stream_of(publication)
        if publication.number > self.marks.get(stream, 0):
            if self._deliver(publication, self._topics.fields(publication), None, 0):
                self._core.out.append(_mark_write(stream, publication.number))
                self._core.ask_sync()
            self._mark(stream, publication.number)

    @property
    def waiting(self) -> bool:
        """Whether something that may go on waits for the next turn."""
        return bool(self._drain)

    @property
    def at_rest(self) -> bool:
        """Whether nothing is waited for, except brokers out of reach."""
        return not self.backlog_bytes and not self._core.syncing and self.flow.at_rest


LANE_MAX = 256
"""Publications that go one by one and are written down together."""

MIXED_FROM = 16
"""Publications of several topics that came at once, from which they are written down together."""

LINK_STREAMS_MAX = 4 * STREAMS_MAX
"""Streams over one link in one epoch; more do not come of a network, but of a neighbour gone wrong."""

PROPERTIES_FREE_BYTES = 65_536
"""Properties and content type that may come on top of the largest payload: what one MQTT string holds."""

NO_TREE = ""
"""The backlog of what has no tree yet; everything else waits behind it, for order."""


def _targets(grown: TreeEpoch, to: int) -> list[Edge]:
    """The links over which a publication goes to some members, in order of their neighbours."""
    return [edge for edge in grown.ordered if edge.mask & to] if to else []


def _is_of(publication: Publication, events: Container[str]) -> bool:
    """Whether it is a version of one of some events."""
    return publication.told is not None and publication.told.event in events


def _mark_key(stream: Stream) -> str:
    return f"mark/{quoted(stream[0])}/{stream[1]}/{quoted(stream[2])}"


def _mark_write(stream: Stream, number: int) -> Write:
    return Write(_mark_key(stream), encode((*stream, number)))
