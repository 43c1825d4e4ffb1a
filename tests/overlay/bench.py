"""A bench for brokers: a few of them joined in memory, and neighbours whose part a test plays.

On a `Bench` nothing moves by itself. What a broker sends waits in mailboxes, in order, until the test lets it
arrive: all of it (`run`), one thing at a time (`step`), or with the time that passes (`advance`). A `Peer` is
the other half of a link without a broker in it: the test says what it says and reads what it hears.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

from tests.overlay.offers import Given, given, offer_of
from tidings.language.subscriptions import Subscription
from tidings.language.topics import Topic
from tidings.overlay.broker import Broker
from tidings.overlay.events import (
    Accept,
    ConnectionLost,
    ConnectionMade,
    Deliver,
    Dial,
    DialFailed,
    Effect,
    Erase,
    Event,
    FrameReceived,
    Grant,
    HangUp,
    NeighbourAdded,
    Send,
    SessionOpened,
    Stop,
    SubscriptionAsked,
    Sync,
    TimerFired,
    Write,
    WritesSynced,
)
from tidings.overlay.frames import Frame, Message
from tidings.overlay.links.messages import PROTOCOL_VERSION, Greet, Welcome
from tidings.overlay.publication import Batch, Publication
from tidings.overlay.publishing.batches import batch_of, message_of
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.routing import interest
from tidings.overlay.routing.messages import FILTER, Change, Confirm, Item
from tidings.overlay.settings import DEFAULT, Settings
from tidings.overlay.status import Status, TreeStatus
from tidings.overlay.trees.messages import Distance, Epoch, Grow, Join, Roll

BEGIN = 100.0
"""When tests begin; nothing is special about it."""

SETTLED_S = 6.0
"""By then a network without faults has done all that it had to: longer than any wait but for absence."""

W = TypeVar("W")

Mailbox = tuple[str, int]
"""(broker, connection), or (broker, 0) for what does not come over a connection."""


@dataclass
class Host:
    """Where a broker runs: what stays when it dies."""

    id: str
    settings: Settings
    boot: int = 0
    incarnation: int = 0
    disk: dict[str, bytes] = field(default_factory=dict)
    unsynced: list[Write | Erase] = field(default_factory=list)
    syncs: list[tuple[int, list[Write | Erase]]] = field(default_factory=list)
    broker: Broker | None = None


@dataclass(frozen=True)
class Sent:
    """A numbered message as it left a broker."""

    source: str
    target: str
    message: Message


class Bench:
    """Brokers in memory. An address is the id of the broker there."""

    def __init__(
        self,
        ids: Iterable[str] = (),
        links: Iterable[tuple[str, str]] = (),
        settings: Settings | Mapping[str, Settings] = DEFAULT,
        topics: Sequence[Topic] = (),
        seed: int = 0,
    ) -> None:
        """Brokers that run, with links that are dialled by the first of each pair."""
        self.now = BEGIN
        self.seed = seed
        self.topics = topics
        self.hosts: dict[str, Host] = {}
        self.neighbours: dict[str, list[str]] = {}
        self.blocked: set[frozenset[str]] = set()
        """Pairs between which nothing can be dialled."""
        self.slow_disks: set[str] = set()
        """Brokers whose syncs are answered only by `sync`."""
        self.stopped: set[str] = set()
        """Brokers that hang until `go_on`: what is sent to them waits, they do nothing, but links stay up."""
        self.seen: list[tuple[str, Effect]] = []
        """All effects, in order, with whose they are."""
        self.sent: list[Sent] = []
        """All numbered messages, in order."""
        self._mail: dict[Mailbox, deque[Event]] = {}
        self._order: deque[Mailbox] = deque()
        self._other: dict[Mailbox, Mailbox] = {}
        self._connections = 0
        for id_ in ids:
            self.hosts[id_] = Host(id_, settings[id_] if isinstance(settings, Mapping) else settings)
            self.neighbours[id_] = []
        for one, other in links:
            self.neighbours[one].append(other)
        for id_ in self.hosts:
            self.start(id_)

    # Brokers.

    def start(self, id_: str, *, disk: bool = True) -> Broker:
        """Start a broker, for the first time or again, with what its disk holds or without."""
        host = self.hosts[id_]
        assert host.broker is None, "it runs already"
        host.boot += 1
        if not disk:
            host.disk = {}
        if not disk or not host.incarnation:
            host.incarnation = host.boot
        host.broker = Broker(
            id_,
            boot=host.boot,
            incarnation=host.incarnation,
            random=random.Random(f"{self.seed}/{id_}/{host.boot}"),
            settings=host.settings,
            topics=self.topics,
            saved=host.disk,
        )
        self._carry_out(id_, host.broker.start(self.now))
        for neighbour in self.neighbours[id_]:
            self.tell(id_, NeighbourAdded(neighbour))
        return host.broker

    def kill(self, id_: str) -> None:
        """End a broker at once. What it wrote since its last sync is lost, neighbours learn at once."""
        host = self.hosts[id_]
        host.broker = None
        host.unsynced, host.syncs = [], []
        for box in [box for box in self._other if box[0] == id_]:
            self._close(box, "the other side died")
        self._mail.pop((id_, 0), None)

    def go_on(self, id_: str) -> None:
        """Let a broker that was stopped act on what has come meanwhile."""
        self.stopped.discard(id_)
        self._order += [box for box, mail in self._mail.items() if box[0] == id_ for _ in mail]

    def join(self, one: str, other: str) -> None:
        """A new link, dialled by the first."""
        self.neighbours[one].append(other)
        self.tell(one, NeighbourAdded(other))

    def tell(self, id_: str, event: Event) -> list[Effect]:
        """Let something happen to a broker; what it answers is carried out too."""
        broker = self.hosts[id_].broker
        assert broker is not None, f"{id_} does not run"
        effects = broker.handle(event, self.now)
        broker.audit()
        self._carry_out(id_, effects)
        return effects

    def __getitem__(self, id_: str) -> Broker:
        broker = self.hosts[id_].broker
        assert broker is not None, f"{id_} does not run"
        return broker

    def running(self) -> list[str]:
        return [id_ for id_, host in self.hosts.items() if host.broker is not None]

    def status(self, id_: str) -> Status:
        return self[id_].status(self.now, filters=True)

    def tree(self, id_: str, root: str) -> TreeStatus:
        return next(tree for tree in self.status(id_).trees if tree.root == root)

    # Connections.

    def cut(self, one: str, other: str, *, block: bool = True) -> None:
        """Break the connections between two brokers: what is under way is lost, both learn of it."""
        if block:
            self.blocked.add(frozenset((one, other)))
        for box in [box for box in self._other if box[0] == one and self._other[box][0] == other]:
            for end in (box, self._other[box]):
                del self._other[end]
                # That it was made is told in any case, or a broker would wait for ever for its call.
                made = [event for event in self._mail.get(end, ()) if isinstance(event, ConnectionMade)]
                self._mail[end] = deque(made)
                self._post(end, ConnectionLost(end[1], "cut"))

    def heal(self, one: str, other: str) -> None:
        """Let them dial again."""
        self.blocked.discard(frozenset((one, other)))

    def _close(self, box: Mailbox, reason: str) -> None:
        """One side closes: what it has sent still arrives, and then the other side learns of it."""
        there = self._other.pop(box, None)
        self._mail.pop(box, None)
        if there is not None:
            del self._other[there]
            self._post(there, ConnectionLost(there[1], reason))

    def _dial(self, id_: str, address: str) -> None:
        host = self.hosts.get(address)
        if host is None or host.broker is None or frozenset((id_, address)) in self.blocked:
            self._post((id_, 0), DialFailed(address, "nobody answers"))
            return
        self._connections += 2
        here, there = (id_, self._connections - 1), (address, self._connections)
        self._other[here], self._other[there] = there, here
        self._post(here, ConnectionMade(here[1], address, f"nonce {here[1]}".encode()))
        self._post(there, ConnectionMade(there[1], None, f"nonce {there[1]}".encode()))

    # Letting things arrive.

    def _post(self, box: Mailbox, event: Event) -> None:
        self._mail.setdefault(box, deque()).append(event)
        self._order.append(box)

    def waiting(self) -> list[Mailbox]:
        """Mailboxes with something in them."""
        return sorted(box for box, mail in self._mail.items() if mail)

    def step(self, box: Mailbox) -> None:
        """Let the next thing in a mailbox arrive."""
        event = self._mail[box].popleft()
        if self.hosts[box[0]].broker is not None:
            self.tell(box[0], event)

    def run(self) -> None:
        """Let everything arrive, in the order in which it was sent, until nothing is under way."""
        while self._order:
            box = self._order.popleft()
            if self._mail.get(box) and box[0] not in self.stopped:
                self.step(box)

    def advance(self, seconds: float) -> None:
        """Let time pass; nothing takes any time on its way."""
        end = self.now + seconds
        self.run()
        while True:
            due = min(
                (
                    (at, id_)
                    for id_ in self.running()
                    if id_ not in self.stopped and (at := self[id_].next_deadline()) is not None and at <= end
                ),
                default=None,
            )
            if due is None:
                break
            self.now = max(self.now, due[0])
            self.tell(due[1], TimerFired())
            self.run()
        self.now = end

    def settle(self) -> None:
        self.advance(SETTLED_S)

    # Carrying out.

    def _carry_out(self, id_: str, effects: list[Effect]) -> None:
        host = self.hosts[id_]
        for effect in effects:
            self.seen.append((id_, effect))
            if isinstance(effect, Send):
                there = self._other.get((id_, effect.connection))
                if there is not None:
                    if effect.frame.first:
                        self.sent += [Sent(id_, there[0], message) for message in effect.frame.messages]
                    self._post(there, FrameReceived(there[1], effect.frame))
            elif isinstance(effect, Dial):
                self._dial(id_, effect.address)
            elif isinstance(effect, HangUp):
                self._close((id_, effect.connection), effect.reason)
            elif isinstance(effect, Write | Erase):
                host.unsynced.append(effect)
            elif isinstance(effect, Sync):
                host.syncs.append((effect.token, host.unsynced))
                host.unsynced = []
                if id_ not in self.slow_disks:
                    self.sync(id_)
            elif isinstance(effect, Stop):
                self.kill(id_)

    def sync(self, id_: str) -> None:
        """Let the disk of a broker finish what it was asked for; the broker has yet to hear of it."""
        host = self.hosts[id_]
        for token, changes in host.syncs:
            for change in changes:
                if isinstance(change, Write):
                    host.disk[change.key] = change.value
                else:
                    host.disk.pop(change.key, None)
            self._post((id_, 0), WritesSynced(token))
        host.syncs = []

    def keys(self, id_: str, prefix: str) -> list[str]:
        """Keys of a broker's store, with what it has written and erased since its last sync."""
        host = self.hosts[id_]
        keys = dict.fromkeys(host.disk)
        for change in [*(it for _, changes in host.syncs for it in changes), *host.unsynced]:
            if isinstance(change, Write):
                keys[change.key] = None
            else:
                keys.pop(change.key, None)
        return sorted(key for key in keys if key.startswith(prefix))

    def mark(self) -> tuple[int, int]:
        """A place in what was seen and sent, for `of` and `said`."""
        return len(self.seen), len(self.sent)

    def of(self, kind: type[W], id_: str | None = None, since: tuple[int, int] = (0, 0)) -> list[W]:
        """Effects of a kind, of one broker or all."""
        return [
            effect
            for who, effect in self.seen[since[0] :]
            if isinstance(effect, kind) and (id_ is None or id_ == who)
        ]

    def said(self, kind: type[W], since: tuple[int, int] = (0, 0)) -> list[tuple[str, str, W]]:
        """Messages of a kind: source, target, message."""
        return [
            (it.source, it.target, it.message) for it in self.sent[since[1] :] if isinstance(it.message, kind)
        ]

    # Clients.

    def subscribe(
        self, id_: str, name: str, topic_filter: str, where: str = "", *, durable: bool = False, **more: Any
    ) -> list[Effect]:
        """A session of its own with one subscription called "s"."""
        opened = self.tell(id_, SessionOpened(name, durable))
        subscription = Subscription(topic_filter, where, **more)
        return opened + self.tell(id_, SubscriptionAsked(name, "s", subscription))

    def publish(
        self, id_: str, topic: str, payload: bytes = b"{}", qos: int = 1, token: int = 0, **more: Any
    ) -> list[Effect]:
        return self.tell(id_, offer_of("publisher", token, topic, payload, qos, **more))

    def got(self, id_: str, session: str, since: tuple[int, int] = (0, 0)) -> list[bytes]:
        """Payloads that a session was given, in order."""
        return [
            it.publication.payload
            for it in self.given(id_, since)
            if session in {who for who, _ in it.subscriptions}
        ]

    def given(self, id_: str | None = None, since: tuple[int, int] = (0, 0)) -> list[Given]:
        """What sessions were given, of one broker or all."""
        return given(self.of(Deliver, id_, since))

    def granted(self, since: tuple[int, int] = (0, 0)) -> list[tuple[str, str]]:
        """(session, reason) of grants."""
        return [(effect.session, effect.reason) for effect in self.of(Grant, since=since)]

    def accepted(self, id_: str | None = None, since: tuple[int, int] = (0, 0)) -> list[int]:
        return [token for effect in self.of(Accept, id_, since) for token in effect.tokens]


def path(*ids: str) -> list[tuple[str, str]]:
    """Links that join brokers in a row."""
    return list(pairwise(ids))


def ring(*ids: str) -> list[tuple[str, str]]:
    return [*path(*ids), (ids[-1], ids[0])]


# Neighbours played by the test.


def started(
    id_: str,
    settings: Settings = DEFAULT,
    *,
    boot: int = 1,
    incarnation: int = 1,
    **more: Any,
) -> Broker:
    """A broker that has just begun."""
    broker = Broker(
        id_, boot=boot, incarnation=incarnation, random=random.Random(0), settings=settings, **more
    )
    broker.start(BEGIN)
    return broker


class Peer:
    """A neighbour of a broker that the test plays."""

    def __init__(
        self,
        broker: Broker,
        id_: str,
        connection: int,
        *,
        boot: int = 1,
        network: str = "tidings",
        versions: tuple[int, int] = (PROTOCOL_VERSION, PROTOCOL_VERSION),
        features: tuple[str, ...] = ("trees=1",),
        proof: bytes = b"",
        life: int = 0,
    ) -> None:
        self.broker = broker
        self.id = id_
        self.connection = connection
        self.boot = boot
        self.network = network
        self.versions = versions
        self.features = features
        self.proof = proof
        self.nonce = b"nonce of the peer"
        self.life = life
        self.session: tuple[int, ...] = ()
        self.received = 0
        self.sent = 0
        self.heard_up_to = 0
        """The number of the last message to it among the effects of what it said."""
        self.certified: str | None = None

    def greeting(self, proposal: int = 7) -> Greet:
        return Greet(
            self.versions,
            self.id,
            self.network,
            self.boot,
            self.features,
            self.nonce,
            self.session,
            self.received,
            proposal,
            self.life,
        )

    def connect(self, now: float = BEGIN, address: str | None = None) -> list[Effect]:
        """A connection is there; nothing has been said by this side."""
        return self.handle(
            ConnectionMade(self.connection, address, b"nonce of the broker", self.certified), now
        )

    def greet(self, now: float = BEGIN, proposal: int = 7) -> list[Effect]:
        return self.say_unnumbered(self.greeting(proposal), now=now)

    def welcome(self, now: float = BEGIN) -> list[Effect]:
        return self.say_unnumbered(Welcome(PROTOCOL_VERSION, self.proof), now=now)

    def link(self, now: float = BEGIN, address: str | None = None) -> list[Effect]:
        """Connect, greet, welcome: all that makes a link."""
        return [*self.connect(now, address), *self.greet(now), *self.welcome(now)]

    def handle(self, event: Event, now: float = BEGIN) -> list[Effect]:
        effects = self.broker.handle(event, now)
        self.broker.audit()
        for effect in effects:
            if isinstance(effect, Send) and effect.connection == self.connection and effect.frame.first:
                self.heard_up_to = effect.frame.first + len(effect.frame.messages) - 1
        return effects

    def say_unnumbered(self, *messages: Message, now: float = BEGIN) -> list[Effect]:
        return self.handle(FrameReceived(self.connection, Frame(0, 0, messages)), now)

    def say(self, *messages: Message, now: float = BEGIN, ack: int = 0) -> list[Effect]:
        """A frame with the next numbers."""
        frame = Frame(self.sent + 1, ack, messages)
        self.sent += len(messages)
        return self.handle(FrameReceived(self.connection, frame), now)

    def heard(self, effects: Iterable[Effect], kind: type[W] | None = None) -> list[Any]:
        """Messages to this neighbour among effects, of one kind or all."""
        return [
            message for message in heard(effects, self.connection) if kind is None or type(message) is kind
        ]

    def lose(self, now: float = BEGIN) -> list[Effect]:
        return self.handle(ConnectionLost(self.connection, "cut"), now)


def heard(effects: Iterable[Effect], connection: int | None = None) -> list[Message]:
    """Messages that are sent, to one connection or to all."""
    return [
        message
        for effect in effects
        if isinstance(effect, Send) and connection in (None, effect.connection)
        for message in effect.frame.messages
    ]


def kinds(effects: Iterable[Effect], *wanted: type[Effect]) -> list[Effect]:
    """Effects of some kinds, in order."""
    return [effect for effect in effects if isinstance(effect, wanted)]


EPOCH: Epoch = (1, 1)
"""In which `Middle` is."""


class Middle:
    """Broker "m" with a neighbour "a", the root of its tree, and children; the test plays all but "m"."""

    def __init__(
        self,
        children: Sequence[str] = ("x",),
        settings: Settings = DEFAULT,
        wants: Mapping[str, Sequence[Subscription]] | None = None,
        confirm: bool = True,
        features: tuple[str, ...] = ("trees=1",),
        **more: Any,
    ) -> None:
        """`wants` is what neighbours ask for; `confirm` lets them confirm all that they are told at first."""
        self.broker = started("m", settings, **more)
        self.peers: dict[str, Peer] = {}
        self.sets: dict[str, int] = {}
        """By neighbour: the number of its set."""
        for number, id_ in enumerate(("a", *children), 1):
            self.peers[id_] = Peer(self.broker, id_, number, features=features)
            self.peers[id_].link()
        self.effects: list[Effect] = []
        self.grow(EPOCH, wants or {}, confirm)

    def grow(
        self,
        epoch: Epoch,
        wants: Mapping[str, Sequence[Subscription]],
        confirm: bool = True,
        now: float = BEGIN,
    ) -> None:
        """Play an epoch through: afterwards the broker is ready in it."""
        root, *children = self.peers
        parent = self.peers[root]
        if epoch == EPOCH:
            parent.say(Distance(root, (1, 1), 0), now=now)
        parent.say(Grow(root, epoch, (root,)), now=now)
        for child in children:
            self.peers[child].say(Join(root, epoch), now=now)
        for peer in self.peers.values():
            if peer.id in wants:
                self.effects += peer.say(self.change(peer.id, *wants[peer.id]), now=now)
            member = (peer.id, 1, 1, self.sets.get(peer.id, 0))
            self.effects += peer.say(Roll(root, epoch, (member,)), now=now)
        if confirm:
            for peer in self.peers.values():
                self.effects += peer.say(self.confirm(epoch), now=now)
        for effect in [effect for effect in self.effects if isinstance(effect, Sync)][-1:]:
            self.effects += self.tell(WritesSynced(effect.token), now)

    def change(self, home: str, *wants: Subscription, removed: tuple[int, ...] = ()) -> Change:
        """The next change of a neighbour's set. Keys are the number of the change times 100, counted up."""
        number = self.sets[home] = self.sets.get(home, 0) + 1
        added = tuple(item(number * 100 + at, wanted) for at, wanted in enumerate(wants))
        return Change(home, 1, number, added, removed)

    def confirm(self, epoch: Epoch = EPOCH, number: int | None = None) -> Confirm:
        """A neighbour confirms a number of the set of "m", the latest unless it is given."""
        if number is None:
            number = self.broker.status(BEGIN).sets[0].number
        return Confirm("a", epoch, (("m", self.broker.core.boot, number),))

    def __getitem__(self, id_: str) -> Peer:
        return self.peers[id_]

    def tell(self, event: Event, now: float = BEGIN) -> list[Effect]:
        effects = self.broker.handle(event, now)
        self.broker.audit()
        return effects

    def heard(self, effects: Iterable[Effect], kind: type[W]) -> list[tuple[str, W]]:
        """Messages of a kind with whom they go to."""
        effects = list(effects)
        return [(peer.id, message) for peer in self.peers.values() for message in peer.heard(effects, kind)]


def publication(
    number: int, payload: bytes = b"{}", topic: str = "t", *, qos: int = 1, origin: str = "a", **more: Any
) -> Publication:
    return Publication(
        origin, more.pop("incarnation", 1), more.pop("stream", "a"), number, topic, payload, qos, **more
    )


def item(key: int, subscription: Subscription) -> Item:
    """A subscription as a home tells it."""
    return Item(FILTER, key, interest.written(subscription)[0])


HERE = 0b010
"""The bit of "m" in the epoch of `Middle`, …"""

BELOW = 0b110
"""… and those of "m" and of its first child."""


def publish(
    slot: int,
    previous: int,
    it: Publication,
    *,
    epoch: Epoch = EPOCH,
    root: str = "a",
    hops: int = 1,
    to: int = BELOW,
    must: int | None = None,
) -> Publish:
    """A publication as a neighbour sends it; all that get it must have it, unless it is said who."""
    must = to if must is None else must
    return message_of(root, epoch, slot, hops, Batch.of(it), previous, to, must if it.qos else 0)


def carried(message: Publish) -> Publication:
    """The publication in a message that has one."""
    (it,) = batch_of(message)
    return it
