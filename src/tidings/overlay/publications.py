"""Publications: from where they enter to every matching session, each once, in order, although brokers die.

A publication travels one tree, in one epoch, over the links that have a matching subscription behind them.
Each hop acknowledges it (`Done`) when every hop behind it has, and when its own durable sessions have stored
it; so when the origin hears, everyone has it. Until then the origin keeps it, on disk for QoS 1 and 2. When
an epoch passes before that, the origin sends all that it keeps again in the next, in order, before anything
new.

Why the origin and not the hop before the one that died: a hop in the middle knows only its own part of a
stream. What it sends again could overtake an earlier publication that waits elsewhere, and then that one
would have to be delivered out of order or dropped. The origin's stream is whole. Therefore every broker sees
the numbers of a stream rise within an epoch, one high-water mark per stream tells what is new to its
sessions, and a repeat is dropped.

The acknowledgement is the flow control too: on each link and tree a bounded amount may be under way. What
does not fit waits where it came from, which fills the window of the hop before, and so on to the publisher.
In a tree no link waits for itself, so nothing locks up.

Brokers that were members of an earlier epoch and are not of this one are *absent*. What they would have
wanted is kept for them by each origin, within bounds, and sent when they are back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote

import msgspec

from tidings.errors import PayloadError
from tidings.language import names, payloads
from tidings.language.payloads import Encoding, encoding_of
from tidings.language.reports import Shape
from tidings.language.topics import Topic
from tidings.overlay.absence import Absences, unreached
from tidings.overlay.core import Core
from tidings.overlay.events import (
    Accept,
    Deliver,
    Erase,
    Pause,
    PublicationOffered,
    Reject,
    Resume,
    Write,
)
from tidings.overlay.links import MESSAGE_OVERHEAD_BYTES, Link, Links, data_bytes
from tidings.overlay.messages import Done, Epoch, Forget, Keep, Kept, Publication, Publish
from tidings.overlay.routing import Routing
from tidings.overlay.trees import Grown, Tree, Trees, lane_of, pick
from tidings.records.record import Kind, Record

Stream = tuple[str, int, str]
"""(origin, incarnation, group of topics) within which numbers count up."""

BOOT_SHIFT = 36
"""Numbers of a stream begin at (boot - incarnation) shifted by this: those of a restarted broker are all
larger than those it gave before, without a write to disk for each. Leaves 2^27 restarts of 2^36 publications
within 63 bits."""

STREAMS_MAX = 131_072
"""High-water marks kept. Beyond, the one that moved longest ago is forgotten, and a repeat of its stream
would be delivered; that takes as many brokers to publish in between."""

CREDIT_SHARE = 4
"""Acknowledgements of QoS 0 are only flow control, so they may wait until a quarter of the window is due."""


ALL_STREAMS = ""
"""In `Forget`: whatever the sender ever asked to be kept."""


class Held:
    """A publication that its origin keeps until everyone has it."""

    __slots__ = (
        "absent",
        "accepted",
        "epoch",
        "kept_by",
        "order",
        "publication",
        "sent",
        "session",
        "size",
        "sync",
        "token",
    )

    def __init__(self, publication: Publication, size: int, order: int) -> None:
        self.publication = publication
        self.size = size
        self.order = order
        self.session = ""
        self.token = -1
        self.sync = 0
        """The sync after which it is on disk."""
        self.kept_by: str | None = None
        """The neighbour that has a copy, where that is asked for."""
        self.accepted = True
        self.absent: dict[str, None] | None = None
        """Brokers for which it is still kept; None while not all members have it."""
        self.epoch: tuple[str, Epoch] | None = None
        """(root, epoch) in which it was sent last."""
        self.sent: dict[str, Epoch] = {}
        """By root: the last epoch in which it was sent."""


class Passage:
    """One publication at one broker in one epoch: what it still waits for."""

    __slots__ = ("epoch", "generation", "held", "link", "open", "root", "slot", "stale", "sync")

    def __init__(self, root: str, epoch: Epoch) -> None:
        self.root = root
        self.epoch = epoch
        self.held: Held | None = None
        """At its origin."""
        self.link: Link | None = None
        """Elsewhere: the link it came over, …"""
        self.generation = 0
        self.slot = 0
        """… and its slot there."""
        self.open = 0
        """Links that have not answered, and one for a sync that is not done."""
        self.stale = False
        self.sync = 0


class Channel:
    """Publications on one link and one tree: what is under way each way, and what waits here."""

    __slots__ = (
        "bytes_out",
        "credit_bytes",
        "credits",
        "generation",
        "parked",
        "parked_bytes",
        "settled",
        "slot",
        "stale",
        "under_way",
    )

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.slot = 0
        self.under_way: dict[int, tuple[Passage | None, int]] = {}
        self.bytes_out = 0
        self.parked: deque[Publish] = deque()
        self.parked_bytes = 0
        self.settled: list[int] = []
        self.stale: list[int] = []
        self.credits = 0
        """Of the answered ones, those that nobody waits for."""
        self.credit_bytes = 0


class Copy:
    """A publication that is being kept for a neighbour."""

    __slots__ = ("generation", "link", "publication")

    def __init__(self, link: Link, generation: int, publication: Publication) -> None:
        self.link = link
        self.generation = generation
        self.publication = publication


class Content:
    """The fields of a publication, read when they are first asked for."""

    __slots__ = ("_fields", "_publication", "_publications")

    def __init__(self, publications: Publications, publication: Publication) -> None:
        self._publications = publications
        self._publication = publication
        self._fields: Mapping[str, object] | None = None

    def __call__(self) -> Mapping[str, object]:
        if self._fields is None:
            self._fields = self._publications.content(self._publication)
        return self._fields


class Backlog:
    """Publications of this origin that are to travel one tree and wait for their turn."""

    __slots__ = ("bytes", "queue")

    def __init__(self) -> None:
        self.queue: deque[Held] = deque()
        self.bytes = 0


class Publications:
    """All publications that are at this broker."""

    def __init__(
        self,
        core: Core,
        links: Links,
        trees: Trees,
        routing: Routing,
        absences: Absences,
        topics: list[Topic],
    ) -> None:
        self._core = core
        self._links = links
        self._trees = trees
        self._routing = routing
        self._shapes = {topic.name: Shape(topic) for topic in topics}
        self._declared: dict[str, Topic | None] = {}
        self._numbers: dict[str, int] = {}
        self._orders = 0
        self.held: dict[tuple[str, int], Held] = {}
        """QoS 1 and 2 of this origin, by stream and number, in order."""
        self.backlogs: dict[str, Backlog] = {}
        self.backlog_bytes = 0
        self.paused = False
        self.stopping = False
        self.marks: dict[Stream, int] = {}
        self._channels: dict[tuple[str, str], Channel] = {}  # by neighbour and root
        self._unsynced: deque[tuple[int, Passage | Held | Copy]] = deque()
        self._answers: dict[tuple[str, str], None] = {}  # channels with answers to send
        self._credits: dict[tuple[str, str], None] = {}  # channels whose answers can wait
        self._drain: dict[str, None] = {}  # roots whose parked publications may go on
        self.absences = absences
        self.absent_bytes = 0
        self.dropped = 0
        """Publications that were given up because too much was held."""
        self._withheld: dict[int, Held] = {}
        self.kept: dict[Stream, dict[int, Held]] = {}
        """Copies kept for neighbours."""

    # Starting again.

    def recover(self, saved: Mapping[str, bytes]) -> None:
        """What was acknowledged and not yet passed on, what sessions have, who was a member."""
        decode = msgspec.msgpack.Decoder(Publication).decode
        publications = sorted(
            (decode(saved[key]) for key in saved if key.startswith("held/")),
            key=lambda publication: (publication.stream, publication.number),
        )
        for publication in publications:
            self._enqueue(self._hold(publication))
        for key in saved:
            if key.startswith("kept/"):
                publication = decode(saved[key])
                self._keep_copy(publication)
        if "members" in saved:
            self.absences.recover(saved["members"])
        for key in saved:
            if key.startswith("mark/"):
                mark = msgspec.msgpack.decode(saved[key], type=tuple[str, int, str, int])
                self.marks[mark[:3]] = mark[3]

    # From a client here.

    def offer(self, offered: PublicationOffered) -> None:
        core = self._core
        if reason := self._objection(offered):
            core.out.append(Reject(offered.session, offered.token, reason))
            return
        size = _size(offered.payload, offered.topic)
        if offered.qos == 0 and self.backlog_bytes + size > 2 * core.settings.backlog_bytes:
            # The publisher was told to pause; what it sends all the same is beyond the bound.
            self._record(Kind.SUPPRESSED, offered.topic, None, len(offered.payload), reason="queue full")
            return
        root = self._root_of(offered.topic)
        stream = self._stream_of(offered.topic)
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
        )
        self._record(
            Kind.PUBLISHED,
            offered.topic,
            publication.id,
            len(offered.payload),
            client=offered.session,
            publisher=offered.session,
        )
        durable = self._deliver(publication, self._fields(publication), None, 0)
        self._mark((core.id, core.incarnation, stream), number)
        if offered.qos:
            held = self._hold(publication)
            core.out.append(Write(_held_key(publication), _encode(publication)))
            held.session, held.token, held.accepted = offered.session, offered.token, False
            held.sync = core.ask_sync()
            self._unsynced.append((held.sync, held))
            self._ask_to_keep(held)
        else:
            self._orders += 1
            held = Held(publication, size, self._orders)
            if durable:
                core.ask_sync()
        self._enqueue(held)
        self._pump(root)

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
        topic = self._declaration(offered.topic)
        if topic is not None:
            try:
                encoding = encoding_of(offered.content_type or None)
                self._shapes[topic.name].take(offered.topic, payloads.decode(offered.payload, encoding))
            except PayloadError as error:
                return str(error)
        return ""

    def _declaration(self, name: str) -> Topic | None:
        if not self._shapes:
            return None
        if name not in self._declared:
            if len(self._declared) >= self._core.settings.topic_cache:
                del self._declared[next(iter(self._declared))]
            self._declared[name] = self._routing.declared(name)
        return self._declared[name]

    def _stream_of(self, topic: str) -> str:
        """The group of topics within which publications are numbered.

        Topics of one group always use the same tree. Which one that is changes with the roots in reach; the
        numbers of a stream must go on all the same, or what is sent again could not be told from what is new.
        """
        lane = str(lane_of(topic.partition("/")[0])) if self._core.settings.trees > 1 else "0"
        declared = self._declaration(topic)
        if declared is not None and declared.root is not None:
            return f"{lane}@{declared.root}"
        return lane

    def _root_of(self, topic: str) -> str | None:
        """The root whose tree a topic uses now; None while there is no tree."""
        declared = self._declaration(topic)
        if declared is not None and declared.root is not None and self._trees.serving(declared.root):
            return declared.root
        first = topic.partition("/")[0]
        for root in self._trees.share:
            tree = self._trees.serving(root)
            if tree is not None:
                share = tree.current.share if tree.current is not None else ()
                if root in share and pick(first, share) == root:
                    return root
        return None

    def _hold(self, publication: Publication) -> Held:
        self._orders += 1
        held = Held(publication, _size(publication.payload, publication.topic), self._orders)
        self.held[publication.stream, publication.number] = held
        return held

    def _enqueue(self, held: Held) -> None:
        backlog = self.backlogs.setdefault("", Backlog())
        root = self._root_of(held.publication.topic)
        if root is not None and not backlog.queue:
            backlog = self.backlogs.setdefault(root, Backlog())
        backlog.queue.append(held)
        backlog.bytes += held.size
        self.backlog_bytes += held.size
        if not self.paused and self.backlog_bytes > self._core.settings.backlog_bytes:
            self.paused = True
            self._core.out.append(Pause())

    def _pump(self, root: str | None) -> None:
        """Send what waits for its turn on a tree, as far as there is room."""
        backlog = self.backlogs.get(root) if root is not None else None
        tree = self._trees.serving(root) if root is not None else None
        if backlog is None or tree is None or tree.current is None:
            return
        grown = tree.current
        while backlog.queue:
            held = backlog.queue[0]
            publication = held.publication
            if not self._routing.announced(publication.topic):
                break
            targets = grown.routes.match(publication.topic, self._fields(publication))
            if any(self._full(peer, tree.root) for peer in targets):
                break
            backlog.queue.popleft()
            backlog.bytes -= held.size
            self.backlog_bytes -= held.size
            if not publication.qos:
                self._forward(tree, grown, publication, targets, None, 1, None)
                continue
            if publication.origin != self._core.id and not self._first_to_send(grown, held):
                continue
            passage = Passage(tree.root, grown.epoch)
            passage.held = held
            held.epoch = (tree.root, grown.epoch)
            held.sent[tree.root] = grown.epoch
            self._forward(tree, grown, publication, targets, passage, 1, None)
            if passage.open == 0:
                self._passed(passage)
        if self.paused and self.backlog_bytes * 2 < self._core.settings.backlog_bytes:
            self.paused = False
            self._core.out.append(Resume())

    # From a neighbour.

    def on_publish(self, link: Link, message: Publish) -> None:
        channel = self._channel(link, message.root)
        if channel.parked or not self._take(link, channel, message):
            channel.parked.append(message)
            channel.parked_bytes += data_bytes(message)

    def _take(self, link: Link, channel: Channel, message: Publish) -> bool:
        """Act on a publication; False if it must wait: for its epoch to be ready, or for room on a link."""
        tree = self._trees.trees.get(message.root)
        grown = tree.current if tree is not None else None
        if tree is None or grown is None or message.epoch != grown.epoch:
            if tree is not None and tree.growing is not None and tree.growing.epoch == message.epoch:
                return False
            self._take_stale(link, channel, message, "epoch has passed")
            return True
        edge = grown.edges.get(link.peer)
        publication = message.publication
        stream = _stream(publication)
        if edge is None or not edge.alive:
            self._take_stale(link, channel, message, "not a link of the tree")
            return True
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
            self._answer(link, channel, message, stale=True)
            self._trees.ask_regrow(tree)
            return True
        if publication.number <= grown.seen.get(stream, 0):
            edge.last_in[stream] = publication.number
            self._suppress(publication, link, message.hops, "repeat")
            self._answer(link, channel, message, stale=False)
            return True
        fields = self._fields(publication)
        targets = grown.routes.match(publication.topic, fields)
        targets.pop(link.peer, None)
        if any(self._full(peer, tree.root) for peer in targets):
            return False
        edge.last_in[stream] = publication.number
        grown.seen[stream] = publication.number
        durable = self._accept(link, message, stream, fields)
        if not message.qos:
            self._forward(tree, grown, publication, targets, None, message.hops + 1, link)
            if durable:
                self._core.ask_sync()
            self._answer(link, channel, message, stale=False)
            return True
        passage = Passage(tree.root, grown.epoch)
        passage.link, passage.generation, passage.slot = link, link.generation, message.slot
        self._forward(tree, grown, publication, targets, passage, message.hops + 1, link)
        if durable or self._core.sync_token > self._core.synced:
            # A repeat of something that is being stored must wait for that too.
            passage.open += 1
            self._unsynced.append((self._core.ask_sync(), passage))
        if passage.open == 0:
            self._answer(link, channel, message, stale=passage.stale)
        return True

    def _take_stale(self, link: Link, channel: Channel, message: Publish, reason: str) -> None:
        """It will come again in the next epoch; sessions here may have it now."""
        publication = message.publication
        if self._accept(link, message, _stream(publication), self._fields(publication)):
            self._core.ask_sync()
        if message.qos == 0:
            self._suppress(message.publication, link, message.hops, reason)
        self._answer(link, channel, message, stale=True)

    def _accept(self, link: Link, message: Publish, stream: Stream, fields: Content) -> bool:
        """Give it to sessions here, if it is new to them; whether a durable one has it to store."""
        publication = message.publication
        if publication.number <= self.marks.get(stream, 0):
            self._suppress(publication, link, message.hops, "repeat")
            return False
        durable = self._deliver(publication, fields, link, message.hops)
        self._mark(stream, publication.number)
        if durable:
            self._core.out.append(_mark_write(stream, publication.number))
        return durable

    def _deliver(self, publication: Publication, fields: Content, link: Link | None, hops: int) -> bool:
        """Hand it to the matching sessions; whether one of them is durable."""
        routing = self._routing
        found = routing.local.match(publication.topic, fields)
        if not found:
            return False
        subscriptions = tuple(sorted(found))
        self._core.out.append(Deliver(publication, subscriptions, hops))
        receivers = tuple(dict.fromkeys([session for session, _ in subscriptions]))
        self._record(
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
        sessions = routing.sessions
        return any(sessions[session].durable for session in receivers)

    def _mark(self, stream: Stream, number: int) -> None:
        marks = self.marks
        if stream not in marks and len(marks) >= STREAMS_MAX:
            oldest = next(iter(marks))
            del marks[oldest]
            self._core.out.append(Erase(_mark_key(oldest)))
        marks[stream] = number

    def _forward(
        self,
        tree: Tree,
        grown: Grown,
        publication: Publication,
        targets: dict[str, int],
        passage: Passage | None,
        hops: int,
        source: Link | None,
    ) -> None:
        if not targets:
            return
        stream = _stream(publication)
        size = _size(publication.payload, publication.topic)
        sent = []
        for peer in sorted(targets):
            edge = grown.edges[peer]
            if not edge.alive:
                if passage is not None:
                    passage.stale = True
                continue
            channel = self._channel(edge.link, tree.root)
            channel.slot += 1
            qos = min(publication.qos, targets[peer])
            if passage is not None and qos:
                passage.open += 1
                channel.under_way[channel.slot] = (passage, size)
            else:
                channel.under_way[channel.slot] = (None, size)
            channel.bytes_out += size
            message = Publish(
                tree.root,
                grown.epoch,
                channel.slot,
                edge.last_out.get(stream, 0),
                hops,
                qos,
                publication,
            )
            edge.last_out[stream] = publication.number
            self._links.send_data(edge.link, message, size)
            sent.append(peer)
        if sent:
            self._record(
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

    def _fields(self, publication: Publication) -> Content:
        return Content(self, publication)

    def content(self, publication: Publication) -> Mapping[str, object]:
        """The fields of a payload, typed if the topic is declared; none where it cannot be read."""
        try:
            encoding = encoding_of(publication.content_type) if publication.content_type else Encoding.JSON
            fields = payloads.decode(publication.payload, encoding)
            topic = self._declaration(publication.topic)
            if topic is not None:
                return self._shapes[topic.name].take(publication.topic, fields)
            return fields
        except PayloadError:
            return {}

    # Acknowledgements.

    def _channel(self, link: Link, root: str) -> Channel:
        key = (link.peer, root)
        channel = self._channels.get(key)
        if channel is None or channel.generation != link.generation:
            channel = self._channels[key] = Channel(link.generation)
        return channel

    def _full(self, peer: str, root: str) -> bool:
        channel = self._channels.get((peer, root))
        if channel is None:
            return False
        settings = self._core.settings
        return (
            channel.bytes_out >= settings.link_window_bytes
            or len(channel.under_way) >= settings.link_window_messages
        ) and channel.generation == self._links.links[peer].generation

    def _answer(self, link: Link, channel: Channel, message: Publish, *, stale: bool) -> None:
        if channel.generation != link.generation:
            return
        if stale:
            channel.stale.append(message.slot)
        else:
            channel.settled.append(message.slot)
        key = (link.peer, message.root)
        if message.qos == 0:
            channel.credits += 1
            channel.credit_bytes += data_bytes(message)
            settings = self._core.settings
            if (
                channel.credits * CREDIT_SHARE < settings.link_window_messages
                and channel.credit_bytes * CREDIT_SHARE < settings.link_window_bytes
            ):
                self._credits[key] = None
                return
        self._answers[key] = None

    def flush(self) -> None:
        """Go on with what has waited, and send the acknowledgements that this event has brought."""
        while self._drain:
            self._drain_parked(next(iter(self._drain)))
        while self._answers:
            self._send_answers(next(iter(self._answers)))

    def tick(self) -> None:
        """Acknowledgements of QoS 0 wait for company, but not for ever."""
        self._answers |= self._credits

    def _send_answers(self, key: tuple[str, str]) -> None:
        del self._answers[key]
        self._credits.pop(key, None)
        channel = self._channels[key]
        link = self._links.get(key[0])
        if link is None or link.generation != channel.generation:
            return
        self._links.send(link, Done(key[1], _ranges(channel.settled), _ranges(channel.stale)))
        channel.settled, channel.stale = [], []
        channel.credits = channel.credit_bytes = 0

    def on_installed(self, root: str) -> None:
        """What waits to be announced may now be."""
        if root in self.backlogs:
            self._drain[root] = None

    def on_done(self, link: Link, message: Done) -> None:
        channel = self._channels.get((link.peer, message.root))
        if channel is None or channel.generation != link.generation:
            return
        for slots, stale in ((message.settled, False), (message.stale, True)):
            for first, last in zip(slots[::2], slots[1::2], strict=False):
                if last - first < len(channel.under_way):
                    answered = [slot for slot in range(first, last + 1) if slot in channel.under_way]
                else:
                    answered = [slot for slot in channel.under_way if first <= slot <= last]
                for slot in answered:
                    self._answered(channel, slot, stale=stale)
        self._drain[message.root] = None

    def _answered(self, channel: Channel, slot: int, *, stale: bool) -> None:
        passage, size = channel.under_way.pop(slot)
        channel.bytes_out -= size
        if passage is not None:
            passage.open -= 1
            passage.stale |= stale
            if passage.open == 0:
                self._passed(passage)

    def _passed(self, passage: Passage) -> None:
        """Nothing more is waited for."""
        if passage.held is not None:
            tree = self._trees.serving(passage.root)
            # Of an epoch that has passed nobody knows who is absent; it has been sent again in the next.
            if not passage.stale and tree is not None and tree.current is not None:
                if tree.current.epoch == passage.epoch:
                    self._everyone_has(passage.held)
            return
        link = passage.link
        assert link is not None, "what has no origin here came over a link"
        if link.generation != passage.generation:
            return
        channel = self._channel(link, passage.root)
        (channel.stale if passage.stale else channel.settled).append(passage.slot)
        self._answers[link.peer, passage.root] = None

    def on_synced(self, token: int) -> None:
        """What was written up to here is on disk."""
        self._core.synced = max(self._core.synced, token)
        while self._unsynced and self._unsynced[0][0] <= token:
            waiting = self._unsynced.popleft()[1]
            if isinstance(waiting, Held):
                waiting.sync = 0
                self._accept_if_safe(waiting)
            elif isinstance(waiting, Copy):
                if waiting.link.generation == waiting.generation:
                    it = waiting.publication
                    self._links.send(waiting.link, Kept(it.stream, it.number, it.incarnation))
            else:
                waiting.open -= 1
                if waiting.open == 0:
                    self._passed(waiting)

    def _drain_parked(self, root: str) -> None:
        """There may be room again on a tree, or its new epoch is ready."""
        self._drain.pop(root, None)
        for peer in sorted(peer for peer, tree in self._channels if tree == root):
            channel = self._channels[peer, root]
            link = self._links.get(peer)
            if link is None or link.generation != channel.generation:
                continue
            while channel.parked and self._take(link, channel, channel.parked[0]):
                channel.parked_bytes -= data_bytes(channel.parked.popleft())
        self._pump(root)

    # When a client may know, when the origin may forget.

    def _accept_if_safe(self, held: Held) -> None:
        if held.accepted or held.sync:
            return
        if (
            self._core.settings.acks == "neighbour"
            and held.kept_by is None
            and (self.absences or self._keeper() is not None)
        ):
            return
        if (
            self._core.settings.overflow == "block"
            and self.absent_bytes >= self._core.settings.absent_hold_bytes
            and self._wanted_by_absent(held)
        ):
            self._withheld[held.order] = held
            return
        self._withheld.pop(held.order, None)
        held.accepted = True
        self._core.out.append(Accept(held.session, held.token))
        if held.absent is not None and not held.absent:
            self._release(held)

    def _everyone_has(self, held: Held) -> None:
        """All members of an epoch have it. It is kept for those that are absent, and until it is accepted."""
        if held.absent is not None or not self._is_kept(held):
            return  # known from the acknowledgement of an earlier epoch
        held.absent = dict.fromkeys(self._wanted_by_absent(held))
        if held.absent:
            self.absent_bytes += held.size
            self._bound_absent()
        elif held.accepted:
            self._release(held)

    def _is_kept(self, held: Held) -> bool:
        publication = held.publication
        if publication.origin == self._core.id:
            return self.held.get((publication.stream, publication.number)) is held
        return self.kept.get(_stream(publication), {}).get(publication.number) is held

    def _release(self, held: Held) -> None:
        publication = held.publication
        if publication.origin != self._core.id:
            self._forget_kept(publication)
            return
        if self.held.pop((publication.stream, publication.number), None) is None:
            return
        self._core.out.append(Erase(_held_key(publication)))
        if held.kept_by is not None:
            self._tell_to_forget(held.kept_by, publication)

    # Brokers that are out of reach.

    def on_ready(self, tree: Tree) -> None:
        """A new epoch: see who is back and who is absent, then send again what not everyone has."""
        core = self._core
        grown = tree.current
        assert grown is not None, "a ready epoch is the current one"
        left = dict(self._routing.left)
        for edge in grown.edges.values():
            left |= dict.fromkeys(edge.left)
        back, gone = self.absences.on_ready(tree, left)
        for member in back:
            self._back(tree.root, member)
        for member in gone:
            self._given_up(member)
        self.rearrange()
        if core.settings.acks == "neighbour":
            for held in list(self.held.values()):
                self._ask_to_keep(held)
                self._accept_if_safe(held)

    def on_neighbour_removed(self, address: str) -> None:
        self.absences.forget(unreached(address))
        self._given_up(unreached(address))

    def on_dropped(self, root: str) -> None:
        """A tree is used no more: what was sent on it will be sent on another."""
        self.absences.on_dropped(root)
        for held in self._everything():
            if held.absent and held.epoch is not None and held.epoch[0] == root:
                self._expect_again(held)
        self.rearrange()

    def _wanted_by_absent(self, held: Held) -> list[str]:
        root = held.epoch[0] if held.epoch is not None else self._root_of(held.publication.topic)
        if root is None:
            return []
        publication = held.publication
        return self.absences.wanting(root, publication.topic, self._fields(publication))

    def _back(self, root: str, member: str) -> None:
        """It is on a tree again: what was held for it is to be sent again."""
        for held in self._everything():
            if held.absent and member in held.absent and held.epoch is not None and held.epoch[0] == root:
                self._expect_again(held)
        self._accept_withheld()

    def _everything(self) -> list[Held]:
        """All that is kept here, own publications and copies for neighbours."""
        copies = [copies[number] for copies in self.kept.values() for number in sorted(copies)]
        return [*self.held.values(), *copies]

    def _expect_again(self, held: Held) -> None:
        """It is no longer known that all members have it."""
        if held.absent:
            self.absent_bytes -= held.size
        held.absent = None

    def on_absent_late(self, member: str) -> None:
        self._core.log("warning", "nothing more is held for a broker out of reach", broker=member.strip())
        self.absences.forget(member)
        self._given_up(member)

    def _given_up(self, member: str) -> None:
        for held in self._everything():
            if held.absent and member in held.absent:
                del held.absent[member]
                if not held.absent:
                    self.absent_bytes -= held.size
                    if held.accepted:
                        self._release(held)
        self._accept_withheld()
        for held in list(self.held.values()):
            self._accept_if_safe(held)

    def _bound_absent(self) -> None:
        settings = self._core.settings
        if settings.overflow == "block" or self.absent_bytes <= settings.absent_hold_bytes:
            return
        for held in self._everything():
            if self.absent_bytes <= settings.absent_hold_bytes:
                break
            if held.absent and held.accepted:
                publication = held.publication
                if publication.origin == self._core.id:
                    self.absent_bytes -= held.size
                self.dropped += 1
                self._suppress(publication, None, 0, "held too much for absent brokers")
                if self.dropped & (self.dropped - 1) == 0:  # the 1st, 2nd, 4th, 8th, …: a log must not flood
                    self._core.log("warning", "publications held are dropped", dropped=self.dropped)
                self._release(held)

    def _accept_withheld(self) -> None:
        for held in list(self._withheld.values()):
            self._accept_if_safe(held)

    def rearrange(self) -> None:
        """Put all that waits, or must be sent again, into the queue of the tree it now uses, in order."""
        waiting = {held.order: held for backlog in self.backlogs.values() for held in backlog.queue}
        self.backlogs = {}
        self.backlog_bytes = 0
        waiting.pop(0, None)  # copies find their place anew
        for held in self._everything():
            if held.absent and self._moved(held):
                # Later ones of its stream go on the new tree, so it must go there before them.
                self._expect_again(held)
            if held.absent is not None or held.order in waiting or self._under_way(held):
                continue
            if held.order:
                waiting[held.order] = held
            elif self._stands_in(held):
                self._enqueue(held)
        for order in sorted(waiting):
            self._enqueue(waiting[order])
        for root in self._trees.trees:
            self._drain[root] = None

    def _stands_in(self, copy: Held) -> bool:
        """Whether a copy is to be sent here, since its origin is not on the tree that its topic uses."""
        root = self._root_of(copy.publication.topic)
        tree = self._trees.serving(root) if root is not None else None
        if tree is None or tree.current is None:
            return False
        life = tree.current.members.get(copy.publication.origin)
        return life is None or life[1] != copy.publication.incarnation

    def _moved(self, held: Held) -> bool:
        """Whether its topic uses another tree than the one on which it was sent."""
        root = self._root_of(held.publication.topic)
        return root is not None and held.epoch is not None and held.epoch[0] != root

    def _under_way(self, held: Held) -> bool:
        """Whether it was sent in the epoch that its topic uses now."""
        root = self._root_of(held.publication.topic)
        tree = self._trees.serving(root) if root is not None else None
        if tree is None or tree.current is None:
            return False
        return held.sent.get(tree.root) == tree.current.epoch

    # Copies at a neighbour.

    def _keeper(self) -> str | None:
        """The neighbour that keeps copies: the parent, or else the first child, in the first tree."""
        for root in self._trees.share:
            tree = self._trees.serving(root)
            if tree is not None and tree.current is not None:
                grown = tree.current
                for peer in [grown.parent, *grown.children]:
                    if peer is not None and peer in grown.edges and grown.edges[peer].alive:
                        return peer
        return None

    def _ask_to_keep(self, held: Held) -> None:
        keeper = self._keeper() if self._core.settings.acks == "neighbour" else None
        link = self._links.get(keeper) if keeper is not None else None
        if link is not None and held.kept_by != keeper:
            self._links.send(link, Keep(held.publication))

    def on_keep(self, link: Link, message: Keep) -> None:
        publication = message.publication
        self._keep_copy(publication)
        self._core.out.append(Write(_kept_key(publication), _encode(publication)))
        self._unsynced.append((self._core.ask_sync(), Copy(link, link.generation, publication)))

    def _keep_copy(self, publication: Publication) -> None:
        copies = self.kept.setdefault(_stream(publication), {})
        if publication.number not in copies:
            size = _size(publication.payload, publication.topic)
            copies[publication.number] = Held(publication, size, 0)

    def _first_to_send(self, grown: Grown, copy: Held) -> bool:
        """Whether no other that stands in for the same origin has sent it in this epoch already."""
        stream, number = _stream(copy.publication), copy.publication.number
        self._accept_copy(copy.publication)
        if number <= grown.seen.get(stream, 0):
            copy.sent[grown.root] = grown.epoch
            return False
        grown.seen[stream] = number
        return True

    def _accept_copy(self, publication: Publication) -> None:
        """Sessions here may not have what the origin could not send any more."""
        stream = _stream(publication)
        if publication.number > self.marks.get(stream, 0):
            if self._deliver(publication, self._fields(publication), None, 0):
                self._core.out.append(_mark_write(stream, publication.number))
                self._core.ask_sync()
            self._mark(stream, publication.number)

    def on_kept(self, link: Link, message: Kept) -> None:
        held = self.held.get((message.stream, message.number))
        if held is not None and held.publication.incarnation == message.incarnation:
            before, held.kept_by = held.kept_by, link.peer
            if before is not None and before != link.peer:
                self._tell_to_forget(before, held.publication)
            self._accept_if_safe(held)

    def _tell_to_forget(self, keeper: str, publication: Publication) -> None:
        link = self._links.get(keeper)
        if link is not None:
            numbers = (publication.number,)
            self._links.send(link, Forget(publication.stream, publication.incarnation, numbers))

    def on_link_up(self, link: Link) -> None:
        """A neighbour may have copies from before the link was lost; those it is to keep it will get."""
        if self._core.settings.acks == "neighbour":
            self._links.send(link, Forget(ALL_STREAMS, self._core.incarnation, ()))

    def on_forget(self, link: Link, message: Forget) -> None:
        if message.stream == ALL_STREAMS:
            for stream in [it for it in self.kept if it[:2] == (link.peer, message.incarnation)]:
                for copy in list(self.kept[stream].values()):
                    self._forget_kept(copy.publication)
            return
        copies = self.kept.get((link.peer, message.incarnation, message.stream), {})
        for number in message.numbers:
            if number in copies:
                self._forget_kept(copies[number].publication)

    def _forget_kept(self, publication: Publication) -> None:
        stream = _stream(publication)
        copies = self.kept.get(stream, {})
        copy = copies.pop(publication.number, None)
        if copy is not None:
            self._core.out.append(Erase(_kept_key(publication)))
            if copy.absent:
                self.absent_bytes -= copy.size
        if not copies:
            self.kept.pop(stream, None)

    # Links that end, and the broker's end.

    def on_link_down(self, link: Link) -> None:
        """Nothing that was under way there will be acknowledged."""
        for key in [key for key in self._channels if key[0] == link.peer]:
            channel = self._channels.pop(key)
            self._answers.pop(key, None)
            self._credits.pop(key, None)
            self._drain[key[1]] = None
            for passage, _ in channel.under_way.values():
                if passage is not None:
                    passage.stale = True
                    passage.open -= 1
                    if passage.open == 0:
                        self._passed(passage)
        if self._core.settings.acks == "neighbour":
            for held in self.held.values():
                if held.kept_by == link.peer:
                    held.kept_by = None
                # The next keeper needs all of them: with only the later ones it could not stand in.
                self._ask_to_keep(held)

    @property
    def at_rest(self) -> bool:
        """Whether nothing is waited for, except brokers out of reach."""
        return (
            not self.backlog_bytes
            and not self._unsynced
            and not any(channel.under_way or channel.parked for channel in self._channels.values())
        )

    # Writing down.

    def _suppress(self, publication: Publication, link: Link | None, hops: int, reason: str) -> None:
        self._record(
            Kind.SUPPRESSED,
            publication.topic,
            publication.id,
            len(publication.payload),
            publisher=publication.publisher,
            link=link.peer if link is not None else None,
            hops=hops,
            reason=reason,
        )

    def _record(
        self,
        kind: Kind,
        topic: str,
        message: str | None,
        size: int,
        *,
        publisher: str | None = None,
        client: str | None = None,
        link: str | None = None,
        hops: int | None = None,
        latency_us: int | None = None,
        reason: str | None = None,
        receivers: tuple[str, ...] = (),
        epoch: str | None = None,
    ) -> None:
        core = self._core
        core.records += 1
        core.out.append(
            Record(
                core.id,
                core.boot,
                core.records,
                core.at_us,
                kind,
                topic,
                message,
                size,
                None,
                None,
                None,
                publisher,
                client,
                None,
                link,
                hops,
                latency_us,
                reason,
                receivers,
                epoch,
            )
        )


def _stream(publication: Publication) -> Stream:
    return publication.origin, publication.incarnation, publication.stream


def _size(payload: bytes, topic: str) -> int:
    return len(payload) + len(topic) + MESSAGE_OVERHEAD_BYTES


def _ranges(slots: list[int]) -> tuple[int, ...]:
    """Slots as first, last, first, last, …

    >>> _ranges([4, 1, 2, 3, 7])
    (1, 4, 7, 7)
    """
    found: list[int] = []
    for slot in sorted(slots):
        if found and found[-1] == slot - 1:
            found[-1] = slot
        else:
            found += (slot, slot)
    return tuple(found)


_encode = msgspec.msgpack.Encoder().encode


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return quote(text, safe="")


def _held_key(publication: Publication) -> str:
    return f"held/{_quoted(publication.stream)}/{publication.number:020}"


def _kept_key(publication: Publication) -> str:
    origin, stream = _quoted(publication.origin), _quoted(publication.stream)
    return f"kept/{origin}/{publication.incarnation}/{stream}/{publication.number:020}"


def _mark_key(stream: Stream) -> str:
    return f"mark/{_quoted(stream[0])}/{stream[1]}/{_quoted(stream[2])}"


def _mark_write(stream: Stream, number: int) -> Write:
    return Write(_mark_key(stream), _encode((*stream, number)))
