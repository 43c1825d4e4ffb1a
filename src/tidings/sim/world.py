"""The driver: it brings events to brokers, carries their effects out and keeps the time.

The brokers are those that run live. Frames are passed by reference and never become bytes. Nothing here looks
at a clock, a file or a source of chance other than its own, which comes from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from tidings.history.entries import entry_of
from tidings.language.topics import Topic
from tidings.overlay.events import (
    Accept,
    Append,
    CatalogueChanged,
    ConnectionLost,
    ConnectionMade,
    Decline,
    Deliver,
    Deny,
    Dial,
    DialFailed,
    Effect,
    Enlist,
    Erase,
    Event,
    ForgetAsked,
    FrameReceived,
    Grant,
    HangUp,
    Log,
    NeighbourAdded,
    Pause,
    PublicationsOffered,
    Reject,
    Resume,
    Send,
    SessionClosed,
    SessionEnded,
    SessionOpened,
    SetTimer,
    Stop,
    StopAsked,
    SubscriptionAsked,
    SubscriptionDropped,
    Sync,
    Synchronised,
    TimerFired,
    Write,
    WritesSynced,
)
from tidings.overlay.frames import Frame
from tidings.overlay.gather.messages import Survey
from tidings.overlay.publication import Batch, Head, Publication
from tidings.overlay.settings import Settings
from tidings.overlay.status import Status
from tidings.planning.topologies import Topology
from tidings.records.record import Record, Run
from tidings.sim.brokers.client import Client
from tidings.sim.brokers.trace import Delivery, Offer, Trace
from tidings.sim.carried import CARRIERS
from tidings.sim.clock import Agenda, Skew
from tidings.sim.mqtt.connections import Connections
from tidings.sim.network import End, Wire, connect, sever
from tidings.sim.node import DoorMaker, MachineMaker, Node

if TYPE_CHECKING:
    from tidings.mqtt.events import ClientEvent

DIAL_TIMEOUT_S = 1.0
"""After which dialling a host that cannot be reached fails; a real one waits longer, and learns no more."""

REFUSED_S = 0.001
"""How long it takes to learn that nobody has an address."""

SYNC_S = 0.002
"""How long a sync takes: a fast disk."""

QUIET_S = 3.0
"""A network in which all links are up and nothing but heartbeats is said for so long has settled: longer than
any of a broker's waits but for redialling and the failure detector."""

DEFAULTS = Settings()

Handed = tuple[int, Publication, tuple[tuple[str, str], ...], int]
"""Something for sessions: the turn in which the broker said so, what, for whom, hops."""

DOOR_PREFIX = "mqtt/"
"""Of the keys of a front."""

Watch = Callable[[Node, Any, list[Any]], None]
"""Told of everything that a broker is told, with what it answers."""


class World:
    """A network of brokers under one seed."""

    def __init__(
        self,
        topology: Topology,
        seed: int | str = 0,
        *,
        machine: MachineMaker | None = None,
        door: DoorMaker | None = None,
        settings: Settings | Mapping[str, Settings] = DEFAULTS,
        topics: Sequence[Topic] = (),
        ids: Mapping[str, str] | None = None,
        sync_s: float = SYNC_S,
        jitter_s: float = 0.0,
        record: Callable[[Record], object] | None = None,
        watch: Watch | None = None,
    ) -> None:
        """`settings` for all or by address; `ids` where a broker's id is not its address.

        With a `door` before each broker there may be MQTT clients (`mqtt.connections`), and no others.
        """
        if machine is None:
            from tidings.overlay.broker import Broker

            machine = Broker
        self.topology = topology
        self.seed = seed
        self.agenda = Agenda()
        self.ledger = Trace()
        self.random = random.Random(f"world/{seed}")
        self.watch = watch
        self.logs: list[tuple[float, str, Log]] = []
        """What brokers told their operators: time, address, line."""
        self.active_at = 0.0
        """When something was last said that is not a greeting, a heartbeat or a search for seats."""
        self._machine = machine
        self._door = door
        self._topics = tuple(topics)
        self._record: Callable[[Record], object] = record or (lambda _: None)
        self.hosts: dict[str, Node] = {}
        for address in topology.ids:
            own = settings[address] if isinstance(settings, Mapping) else settings
            host = self.hosts[address] = Node(address, (ids or {}).get(address, address), own)
            host.sync_s = sync_s
        self.wires: dict[tuple[str, str], Wire] = {}
        for link in topology.links:
            for one, other in ((link.one, link.other), (link.other, link.one)):
                self.wires[one, other] = Wire(
                    self.hosts[one],
                    self.hosts[other],
                    link.delay_s,
                    link.bytes_per_s,
                    jitter_s,
                    self.random,
                )
            self.hosts[link.one].neighbours.append(link.other)
            if link.both_dial:
                self.hosts[link.other].neighbours.append(link.one)
        self._carry: dict[type[Any], Callable[[Node, Any], None]] = {
            Send: self._send,
            Dial: self._dial,
            HangUp: self._hang_up,
            Deliver: self._deliver,
            Grant: self._grant,
            Deny: self._deny,
            Accept: self._accept,
            Reject: self._reject,
            Pause: self._pause,
            Resume: self._resume,
            Write: self._write,
            Erase: self._erase,
            Append: self._append,
            Sync: self._sync,
            SetTimer: self._set_timer,
            Log: self._log,
            Stop: self._stop,
            Record: self._note,
            Run: self._note_all,
            Enlist: self._nothing,
            Decline: self._nothing,
            CatalogueChanged: self._nothing,
            Synchronised: self._synchronised,
        }
        self.lines = Connections(self, seed)
        """Connections of MQTT clients."""
        self._carry.update(self.lines.carry)

    # Time.

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.agenda.now

    def run(self, seconds: float) -> None:
        """Let some time pass."""
        self.agenda.run(self.agenda.now + seconds)

    def at(self, time: float, action: Callable[[Any, Any], None], one: Any = None, two: Any = None) -> None:
        """Let something be done at a time."""
        self.agenda.add(time, action, one, two)

    def settle(self, within_s: float = 600.0) -> bool:
        """Let time pass until nothing but heartbeats is said; False if that takes longer than allowed."""
        limit = self.agenda.now + within_s
        step = QUIET_S / 4
        began = self.agenda.now
        while self.agenda.now < limit:
            self.agenda.run(self.agenda.now + step)
            quiet = self.agenda.now - max(began, self.active_at)
            if not self.lines.settled or any(
                host.busy_until > self.agenda.now for host in self.hosts.values()
            ):
                continue
            if quiet >= (QUIET_S if self._all_connected() else self._patience()):
                return True
        return False

    def _patience(self) -> float:
        """How long it may take until a lost link is noticed and dialled again."""
        return max(
            host.settings.suspect_after_s + 2 * host.settings.redial_max_s for host in self.hosts.values()
        )

    def _all_connected(self) -> bool:
        """Whether every link that could have a living connection has one, and both sides were welcome."""
        living = {
            (end.host.address, end.other.host.address)
            for host in self.hosts.values()
            for end in host.ends.values()
            if end.used and end.other.open and end.cut_at == inf and end.other.cut_at == inf
        }
        return all(
            (one, other) in living or wire.cuts or not (wire.source.up and wire.target.up)
            for (one, other), wire in self.wires.items()
        )

    # Brokers.

    def start(self, addresses: Iterable[str] | None = None) -> None:
        """Start brokers, all by default."""
        for address in self.hosts if addresses is None else addresses:
            self.start_broker(address)

    def start_broker(self, address: str) -> None:
        """Start one, for the first time or again; its clients come back."""
        host = self.hosts[address]
        if host.up:
            # It is still draining, or was never asked to stop.
            host.again = host.stopping
            return
        host.stopping = host.again = host.synchronised = False
        host.pending = host.wake_at = inf
        host.boot += 1
        saved = host.disk.saved()
        host.broker = self._machine(
            host.id,
            boot=host.boot,
            incarnation=host.incarnation,
            random=random.Random(f"broker/{self.seed}/{address}/{host.boot}"),
            settings=host.settings,
            topics=self._topics,
            saved={key: value for key, value in saved.items() if not key.startswith(DOOR_PREFIX)},
            logged=host.disk.logs.next_numbers(),
        )
        host.busy_until = self.agenda.now
        host.inbox = []
        if self._door is not None:
            host.door = self._door(
                host.broker,
                saved={key: value for key, value in saved.items() if key.startswith(DOOR_PREFIX)},
                random=random.Random(f"door/{self.seed}/{address}/{host.boot}"),
            )
            self.lines.started(host)
        effects = (host.door or host.broker).start(self._local(host))
        self._carry_out(host, effects)
        for neighbour in host.neighbours:
            self.tell(host, NeighbourAdded(neighbour))
        for client in host.clients:
            if client.attached:
                client.attach()

    def statuses(self) -> dict[str, Status]:
        """What each broker that runs says of itself, by address."""
        return {
            address: host.broker.status(self._local(host), filters=True)
            for address, host in self.hosts.items()
            if host.broker is not None
        }

    def crash(
        self, address: str, *, disk: bool = True, silent: bool = False, kept: int | None = None
    ) -> None:
        """Kill a broker, with its disk or without; `silent` where nobody is told, as when a machine dies.

        `kept`: how many of the syncs under way have reached the disk; without it, chance decides.
        """
        host = self.hosts[address]
        if not host.up:
            return
        for end in list(host.ends.values()):
            self._let_go(host, end, "the other side died", silent=silent)
        self._gone(host)
        self.lines.died(host, wiped=not disk, silent=silent)
        if kept is None:
            kept = self.random.randint(0, host.disk.syncing)
        for delivery in host.disk.crash(kept, self._disk_random(host)):
            self._hand_over(host, delivery)
        if not disk:
            host.lose_disk()
        self.ledger.crashed(address, wiped=not disk)

    def stop(self, address: str, *, for_good: bool = False) -> None:
        """Ask a broker to stop: it takes nothing new, passes on what it has, and says goodbye."""
        host = self.hosts[address]
        if host.up:
            host.stopping = True
            self.tell(host, StopAsked(for_good))

    def forget(self, address: str, at: str) -> None:
        """Tell one broker, and by it the network, that another one will not come back."""
        self.tell(self.hosts[at], ForgetAsked(self.hosts[address].id))

    def _gone(self, host: Node) -> None:
        host.broker = host.door = None
        host.pending = host.wake_at = inf
        host.paused = False
        host.waiting.clear()
        host.synced_at = 0.0

    def tell(self, host: Node, event: Event) -> None:
        """Let something happen to a broker, as soon as it has time."""
        now = self.agenda.now
        if host.slow_s or host.busy_until > now:
            host.busy_until = max(now, host.busy_until) + host.slow_s
            self.agenda.add(host.busy_until, self._handle_later, host, (host.boot, event))
        else:
            self._handle(host, event)

    def _handle_later(self, host: Node, told: tuple[int, Event]) -> None:
        boot, event = told
        if host.broker is not None and host.boot == boot:
            self._handle(host, event)

    def tell_all(self, host: Node, events: list[ClientEvent]) -> None:
        """Let several things of MQTT clients happen to a broker at once."""
        now = self.agenda.now
        if host.slow_s or host.busy_until > now:
            host.busy_until = max(now, host.busy_until) + host.slow_s
            self.agenda.add(host.busy_until, self._handle_all, host, (host.boot, events))
        else:
            self._handle_all(host, (host.boot, events))

    def _handle_all(self, host: Node, told: tuple[int, list[ClientEvent]]) -> None:
        boot, events = told
        if host.door is None or host.boot != boot:
            return
        self.lines.heard(host, events)
        effects = host.door.handle_all(events, self._local(host))
        if self.watch is not None:
            self.watch(host, events, effects)
        self._carry_out(host, effects)

    def _handle(self, host: Node, event: Event) -> None:
        broker = host.door or host.broker
        if broker is None:
            return
        clock = host.clock
        local = self.agenda.now * clock.rate + clock.offset_s
        if local < host.latest:
            local = host.latest
        host.latest = local
        if (note := self._HEARD.get(type(event))) is not None:
            note(self, host, event)
        effects = broker.handle(event, local)
        if self.watch is not None:
            self.watch(host, event, effects)
        carry = self._carry
        for effect in effects:
            carry[type(effect)](host, effect)

    def _carry_out(self, host: Node, effects: list[Effect]) -> None:
        for effect in effects:
            self._carry[type(effect)](host, effect)

    def _local(self, host: Node) -> float:
        host.latest = max(host.latest, host.clock.local(self.agenda.now))
        return host.latest

    def set_clock(self, address: str, skew: Skew) -> None:
        """Give a broker a clock of its own; before it starts."""
        self.hosts[address].clock = skew

    # Timers.

    def _set_timer(self, host: Node, effect: SetTimer) -> None:
        host.wake_local = effect.at
        at = host.wake_at = max(self.agenda.now, host.clock.virtual(effect.at))
        # An entry that comes too early finds out and puts itself down again.
        if at < host.pending:
            host.pending = at
            self.agenda.add(at, self._wake, host, host.boot)

    def _wake(self, host: Node, boot: int) -> None:
        now = self.agenda.now
        if host.boot != boot or host.pending != now or host.broker is None:
            return
        host.pending = inf
        if host.wake_at > now:
            if host.wake_at < inf:
                host.pending = host.wake_at
                self.agenda.add(host.wake_at, self._wake, host, boot)
            return
        # Rounding must not show the broker a time just before the one that it asked for.
        host.latest = max(host.latest, host.wake_local)
        host.wake_at = inf
        self.tell(host, TimerFired())

    # Connections.

    def _send(self, host: Node, effect: Send) -> None:
        end = host.ends.get(effect.connection)
        if end is None:
            return
        frame = effect.frame
        wire = end.wire
        wire.frames += 1
        now = self.agenda.now
        if frame.messages:
            counts = wire.counts
            active = False
            for message in frame.messages:
                kind = type(message)
                counts[kind] = counts.get(kind, 0) + 1
                carrier = CARRIERS.get(kind)
                if carrier is not None:
                    name, count = carrier(message)
                    wire.carried[name] = wire.carried.get(name, 0) + count
                # Seats are looked for anew for ever; what comes of it is said otherwise.
                active = active or kind is not Survey
            if frame.first:
                if active:
                    self.active_at = now
                end.used = True
        else:
            end.used = True
        if wire.plain:
            at = now + wire.delay_s
        else:
            at, again = wire.arrivals(frame, now)
            if again < inf:
                self.agenda.add(again, self._arrive, end.other, frame)
            if at == inf:
                return
        if at < end.last:
            at = end.last
        end.last = at
        self.agenda.add(at, self._arrive, end.other, frame)

    def _arrive(self, end: End, frame: Frame) -> None:
        if not end.open:
            return
        now = self.agenda.now
        if now > end.cut_at:
            return
        if now < end.late_until:
            self.agenda.add(end.late_until, self._arrive_late, end, frame)
            return
        host = end.host
        if host.slow_s or host.busy_until > now:
            self.tell(host, FrameReceived(end.number, frame))
        else:
            self._handle(host, FrameReceived(end.number, frame))

    def _arrive_late(self, end: End, frame: Frame) -> None:
        if end.open:
            self.tell(end.host, FrameReceived(end.number, frame))

    def _dial(self, host: Node, effect: Dial) -> None:
        wire = self.wires.get((host.address, effect.address))
        if wire is None:
            failed = DialFailed(effect.address, "there is nobody at that address")
            self.agenda.add(self.agenda.now + REFUSED_S, self._handle_later, host, (host.boot, failed))
        else:
            self.agenda.add(self.agenda.now + wire.delay_s, self._knock, wire, host.boot)

    def _knock(self, wire: Wire, boot: int) -> None:
        """Somebody dials: the other side takes the call, or it fails."""
        host, target, now = wire.source, wire.target, self.agenda.now
        if host.boot != boot or not host.up:
            return
        back = self.wires[target.address, host.address]
        if wire.cuts or back.cuts:
            failed = DialFailed(target.address, "no answer")
            self.agenda.add(now + DIAL_TIMEOUT_S, self._fail, host, (boot, failed))
        elif not target.up:
            failed = DialFailed(target.address, "connection refused")
            self.agenda.add(now + back.delay_s, self._fail, host, (boot, failed))
        else:
            here, there = self._end(host, wire), self._end(target, back)
            connect(here, there)
            # The caller learns of it before any frame can arrive.
            self.agenda.add(now + back.delay_s, self._made, here, target.address)
            self._made(there, None)

    def _fail(self, host: Node, told: tuple[int, Event]) -> None:
        boot, event = told
        if host.up and host.boot == boot:
            self.tell(host, event)

    def _end(self, host: Node, wire: Wire) -> End:
        host.connections += 1
        end = End(host, host.connections, wire)
        host.ends[end.number] = end
        return end

    def _made(self, end: End, address: str | None) -> None:
        if end.open:
            end.made = True
            self.tell(end.host, ConnectionMade(end.number, address, self.random.randbytes(16)))
        elif address is not None and end.host.up and end.host.boot == end.boot:
            self.tell(end.host, DialFailed(address, "connection reset"))

    def _hang_up(self, host: Node, effect: HangUp) -> None:
        if (end := host.ends.get(effect.connection)) is not None:
            self._let_go(host, end, "closed by the other side", silent=False)

    def _let_go(self, host: Node, end: End, reason: str, *, silent: bool) -> None:
        """One side closes; the other learns of it behind all that was sent, unless nothing passes."""
        end.open = False
        del host.ends[end.number]
        if silent:
            end.other.cut_at = min(end.other.cut_at, self.agenda.now)
        elif end.other.cut_at == inf and not end.wire.cuts:
            at = max(self.agenda.now + end.wire.delay_s, end.last, end.other.late_until)
            self.agenda.add(at, self._lose, end.other, reason)

    def _lose(self, end: End, reason: str) -> None:
        if end.open:
            end.open = False
            del end.host.ends[end.number]
            if end.made:
                self.tell(end.host, ConnectionLost(end.number, reason))

    def break_connection(self, one: str, other: str, *, silent: bool = False) -> None:
        """Break what connects two brokers; they may connect again. `silent`: neither side is told."""
        for end in [end for end in self.hosts[one].ends.values() if end.other.host.address == other]:
            for side in (end, end.other):
                gone = sever(side, self.agenda.now, self.random)
                if not silent:
                    at = gone + self.random.choice((0.0, 0.01, 0.3))
                    self.agenda.add(at, self._lose, side, "connection reset")

    def cut(self, one: str, other: str, *, silent: bool = True) -> None:
        """Let nothing pass between two brokers until it is mended as often as it was cut."""
        self.wires[one, other].cuts += 1
        self.wires[other, one].cuts += 1
        self.break_connection(one, other, silent=silent)

    def mend(self, one: str, other: str) -> None:
        """Take one cut back."""
        for wire in (self.wires[one, other], self.wires[other, one]):
            wire.cuts = max(0, wire.cuts - 1)

    def stall(self, one: str, other: str, seconds: float) -> None:
        """Keep what arrives between two brokers for a while; then all of it comes, in order."""
        until = self.agenda.now + seconds
        for end in self.hosts[one].ends.values():
            if end.other.host.address == other:
                end.late_until = max(end.late_until, until)
                end.other.late_until = max(end.other.late_until, until)

    def disturb(self, one: str, other: str, *, loss: float = 0.0, duplication: float = 0.0) -> None:
        """Let a share of the frames between two brokers be lost, or arrive twice, from now on."""
        for wire in (self.wires[one, other], self.wires[other, one]):
            wire.loss, wire.duplication = loss, duplication
            wire.settle_plain()

    def slow(self, address: str, seconds: float) -> None:
        """Let a broker take so long over each thing that it is told."""
        self.hosts[address].slow_s = seconds

    # Disks.

    def _write(self, host: Node, effect: Write) -> None:
        host.disk.write(effect.key, effect.value)

    def _erase(self, host: Node, effect: Erase) -> None:
        host.disk.write(effect.key, None)

    def _append(self, host: Node, effect: Append) -> None:
        host.disk.append((effect.name, effect.what, effect.holder, entry_of(effect)))

    def _disk_random(self, host: Node) -> random.Random:
        """Of its own, so that what becomes of a log changes nothing else."""
        return random.Random(f"disk/{self.seed}/{host.address}/{host.boot}")

    def _sync(self, host: Node, effect: Sync) -> None:
        host.disk.sync(effect.token)
        host.synced_at = max(host.synced_at, self.agenda.now + host.sync_s)
        self.agenda.add(host.synced_at, self._synced, host, host.boot)

    def _synced(self, host: Node, boot: int) -> None:
        if not host.up or host.boot != boot:
            return
        token, deliveries = host.disk.finish()
        for delivery in deliveries:
            self._hand_over(host, delivery)
        self.tell(host, WritesSynced(token))

    # Clients.

    def client(self, address: str, name: str, *, durable: bool = False) -> Client:
        """A new client of a broker, connected if that runs."""
        client = Client(self, self.hosts[address], name, durable)
        client.attach()
        return client

    def tell_client(self, host: Node, event: Event) -> None:
        """Let a client say something to its broker."""
        self.active_at = self.agenda.now
        self.tell(host, event)

    def offer(self, host: Node, session: str, topic: str, payload: bytes, qos: int) -> Offer:
        """Let a client offer a publication, which waits while the broker is paused."""
        self.active_at = self.agenda.now
        offer = self.ledger.offered(
            session, host.address, host.incarnation, topic, payload, qos, self.agenda.now
        )
        batch = Batch.offered(Head(topic, qos, session), payload)
        event = PublicationsOffered(session, (offer.number,), batch)
        if host.paused or host.waiting:
            host.waiting.append(event)
        else:
            self.tell(host, event)
        return offer

    def _pause(self, host: Node, effect: Pause) -> None:  # noqa: ARG002
        host.paused = True

    def _resume(self, host: Node, effect: Resume) -> None:  # noqa: ARG002
        host.paused = False
        self.agenda.add(self.agenda.now, self._offer_waiting, host, host.boot)

    def _offer_waiting(self, host: Node, boot: int) -> None:
        while host.waiting and not host.paused and host.up and host.boot == boot:
            self.tell(host, host.waiting.popleft())

    def _deliver(self, host: Node, effect: Deliver) -> None:
        for publication, subscriptions in zip(effect.batch, effect.matches, strict=True):
            if subscriptions:
                self._deliver_one(host, publication, subscriptions, effect.hops)

    def _deliver_one(
        self, host: Node, publication: Publication, subscriptions: tuple[tuple[str, str], ...], hops: int
    ) -> None:
        ledger = self.ledger
        ledger.turn += 1
        lives = ledger.lives
        if any(lives[session].durable for session, _ in subscriptions):
            kept = tuple(pair for pair in subscriptions if lives[pair[0]].durable)
            subscriptions = tuple(pair for pair in subscriptions if not lives[pair[0]].durable)
            delivery = (ledger.turn, publication, kept, hops)
            if publication.qos and (hops or any(self._qos(*pair) for pair in kept)):
                # It is the session's own with the sync that follows, or not at all. What others have sent
                # they send again if it is not.
                host.disk.deliver(delivery)
            elif not host.disk.deliver_behind(delivery):
                self._hand_over(host, delivery)
            if not subscriptions:
                return
        self._hand_over(host, (ledger.turn, publication, subscriptions, hops))

    def _qos(self, session: str, name: str) -> int:
        """What a client asked for; 0 if it does not ask any more."""
        wish = self.ledger.current.get((session, name))
        return 0 if wish is None else wish.subscription.qos

    def _hand_over(self, host: Node, delivery: Handed) -> None:
        self.active_at = self.agenda.now
        turn, publication, subscriptions, hops = delivery
        self.ledger.deliveries.append(
            Delivery(turn, self.agenda.now, host.address, publication, subscriptions, hops)
        )

    def _grant(self, host: Node, effect: Grant) -> None:  # noqa: ARG002
        self.ledger.granted(effect.session, effect.name, effect.reason)

    def _deny(self, host: Node, effect: Deny) -> None:  # noqa: ARG002
        self.ledger.denied(effect.session, effect.name, effect.reason)

    def _accept(self, host: Node, effect: Accept) -> None:  # noqa: ARG002
        for token in effect.tokens:
            self.ledger.accepted(effect.session, token)

    def _reject(self, host: Node, effect: Reject) -> None:  # noqa: ARG002
        self.ledger.rejected(effect.session, effect.token, effect.reason)

    # What the ledger is told when a broker is.

    def _heard_opened(self, host: Node, event: SessionOpened) -> None:
        self.ledger.opened(event.session, host.address, event.durable)

    def _heard_closed(self, host: Node, event: SessionClosed) -> None:  # noqa: ARG002
        life = self.ledger.lives.get(event.session)
        if life is not None and not life.durable:  # a broker may stop before it hears of a session at all
            self.ledger.ended(event.session)

    def _heard_ended(self, host: Node, event: SessionEnded) -> None:  # noqa: ARG002
        self.ledger.ended(event.session)

    def _heard_asked(self, host: Node, event: SubscriptionAsked) -> None:  # noqa: ARG002
        self.ledger.asked(event.session, event.name, event.subscription)

    def _heard_dropped(self, host: Node, event: SubscriptionDropped) -> None:  # noqa: ARG002
        self.ledger.dropped(event.session, event.name)

    _HEARD: Mapping[type[Any], Callable[[World, Node, Any], None]] = {
        SessionOpened: _heard_opened,
        SessionClosed: _heard_closed,
        SessionEnded: _heard_ended,
        SubscriptionAsked: _heard_asked,
        SubscriptionDropped: _heard_dropped,
    }

    # The rest.

    def _log(self, host: Node, effect: Log) -> None:
        self.logs.append((self.agenda.now, host.address, effect))

    def _stop(self, host: Node, effect: Stop) -> None:
        if effect.reason:
            host.refusals.append(effect.reason)
        for end in list(host.ends.values()):
            self._let_go(host, end, "closed by the other side", silent=False)
        self._gone(host)
        self.lines.died(host, wiped=False, silent=False)
        for delivery in host.disk.crash(host.disk.syncing, self._disk_random(host)):
            self._hand_over(host, delivery)
        self.ledger.crashed(host.address, wiped=False)
        if host.again:
            self.agenda.add(self.agenda.now, self._start_again, host)

    def _start_again(self, host: Node, _: object) -> None:
        self.start_broker(host.address)

    def _note(self, host: Node, record: Record) -> None:  # noqa: ARG002
        self._record(record)

    def _note_all(self, host: Node, run: Run) -> None:
        for record in run.records():
            self._note(host, record)

    def _synchronised(self, host: Node, effect: Synchronised) -> None:  # noqa: ARG002
        host.synchronised = True

    def _nothing(self, host: Node, effect: object) -> None:
        """What is said to an operator's programs, of which there are none here."""

    # What was sent.

    def frames_sent(self) -> int:
        """Over all links."""
        return sum(wire.frames for wire in self.wires.values())
