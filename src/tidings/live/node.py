"""A node: one broker and its front door, with sockets, a clock and files.

It brings events in, carries effects out, keeps the clock and owns the folder. Effects are carried out by a
table, in their order, and none of them is waited for: whatever comes of one is a new event.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tidings.errors import SetupError
from tidings.history.entries import entry_of
from tidings.history.logs import Logs, Syncing
from tidings.language.topics import Topic
from tidings.language.views import View
from tidings.live.clients import Clients
from tidings.live.connections import Connection
from tidings.live.counters import Counters
from tidings.live.keeping import RETAIN_EVERY_S, KeepOptions, bytes_max
from tidings.live.listeners import Admission, Listeners, Listening, bind
from tidings.live.store import DiskStore, MemoryStore, Store
from tidings.matching import compile_kernels
from tidings.mqtt import events as m
from tidings.mqtt.front import Front
from tidings.mqtt.settings import Settings as MqttSettings
from tidings.overlay import events as e
from tidings.overlay.broker import Broker
from tidings.overlay.frames import Frame
from tidings.overlay.routing.catalogue import pages_text
from tidings.overlay.routing.messages import Catalogue, Change, Enter
from tidings.overlay.settings import Settings
from tidings.records.holders import Holder
from tidings.records.record import Kind, Record, Run
from tidings.service import addresses, tls
from tidings.service.tls import ClientTls
from tidings.service.users import Users

DIAL_WITHIN_S = 10.0
"""How long an attempt to connect may take, TLS included."""

STOP_BEYOND_DRAIN_S = 5.0
"""A broker that was asked to stop and has not by its own time and this, is stopped."""

TURN_S = 0.01
"""How long one neighbour is listened to before others have their turn."""

DEAR: frozenset[type] = frozenset({Change, Catalogue, Enter})
"""Messages that take the broker milliseconds."""

DEAR_MESSAGES = 8
"""Messages about subscriptions that are told to the broker together."""

TURN_WEIGHT = 128
"""Messages that are told to the broker together; a frame about subscriptions counts for half of them, since
it takes milliseconds to compare these with others."""

CLOCK_S = 0.001
"""What uvloop's timers count by. One that is early by less would be called again and again until then."""

TICK_S = 1.0
"""How often a record sink is told the time, and it is looked after what is done beside events."""

ACCEPT_AGAIN_S = 1.0
"""How long to wait where no connection can be accepted."""

NONCE_BYTES = 16
"""Enough that none comes twice."""

BACKLOG = 128
"""Connections that the kernel holds until they are accepted."""

LOG = logging.getLogger("tidings.broker")
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What a node is, beside what its broker is."""

    id: str
    """The broker's."""

    host: str = "127.0.0.1"
    """Where to listen."""

    port: int = 0
    """0 for a free one."""

    neighbours: tuple[str, ...] = ()
    """Addresses of brokers to be linked with: dialled, and dialled again, for ever."""

    folder: Path | None = None
    """Where the store is; None if nothing need survive a restart."""

    settings: Settings = Settings()  # noqa: RUF009
    topics: tuple[Topic, ...] = ()
    views: tuple[View, ...] = ()

    tls: tls.Tls | None = None
    """None for plain TCP."""

    connections_max: int = 1024
    """To other brokers. Each is a file to the system, and 1024 a usual limit for these."""

    ungreeted_max: int = 64
    """Connections that have not said yet who they are."""

    keep: KeepOptions = KeepOptions()  # noqa: RUF009
    """Of topics that are kept: when their log is durable, and how large it may become."""

    mqtt: MqttSettings = MqttSettings()  # noqa: RUF009
    """Of the front door."""

    listening: tuple[Listening, ...] = ()
    """Where MQTT clients connect."""

    client_tls: ClientTls | None = None
    """For those of the listeners that have TLS."""

    users: Users | None = None
    """Who has a password; None if nobody has, and names say nothing."""

    access: m.Access = m.ALL_ALLOWED
    """What clients may do."""

    clients_max: int = 50_000
    """MQTT connections at once."""

    clients_per_host_max: int = 0
    """From one address; 0 for any."""

    origins: tuple[str, ...] = ()
    """Web pages that may connect by WebSocket; any, if there are none."""


class RecordSink(Protocol):
    """Where records go. Called on the thread of the event loop, but for `close`, which may take its time."""

    def add(self, record: Record | Run) -> None: ...

    def tick(self, now: float) -> None:
        """About once a second; seconds since 1970."""

    def close(self) -> None: ...


def _pieces(frame: Frame) -> list[Frame]:
    """A frame in parts that each take little time, as if they had been sent so."""
    if not _is_dear(frame) or len(frame.messages) <= DEAR_MESSAGES:
        return [frame]
    return [
        Frame(frame.first + at, frame.ack, frame.messages[at : at + DEAR_MESSAGES])
        for at in range(0, len(frame.messages), DEAR_MESSAGES)
    ]


def _is_dear(frame: Frame) -> bool:
    """Whether it tells of subscriptions: those are compared with others on every link, in milliseconds."""
    return frame.first > 0 and not DEAR.isdisjoint(map(type, frame.messages))


Event = e.Event | m.ClientEvent
Effect = e.Effect | m.ClientEffect


class BrokerLike(Protocol):
    """What a node asks of a broker, beside what its front asks."""

    @property
    def indexed(self) -> bool: ...

    @property
    def catalogue(self) -> Any: ...

    def kept(self) -> Mapping[tuple[str, str], float]: ...

    def has_heard_of(self, name: str) -> bool: ...

    def status(self, now: float, *, filters: bool = False) -> Any: ...


class FrontLike(Protocol):
    """What a node asks of a front, behind which is the broker."""

    @property
    def broker(self) -> BrokerLike: ...

    def start(self, now: float) -> Sequence[Effect]: ...

    def handle_all(self, events: Sequence[Any], now: float) -> Sequence[Effect]: ...

    def owns(self, session: str) -> bool: ...

    def is_connected(self, client: str) -> bool: ...

    def status(self, now: float) -> Any: ...


MQTT_ROWS = "mqtt/"
"""How the keys of the front's rows in the store begin; the others are the broker's."""


def make_broker(options: NodeOptions, store: Store) -> Broker:
    """The broker of a node, as its store remembers it."""
    return Broker(
        options.id,
        boot=store.identity.boot,
        incarnation=store.identity.incarnation,
        random=random.Random(),
        settings=options.settings,
        topics=options.topics,
        views=options.views,
        saved={key: value for key, value in store.saved.items() if not key.startswith(MQTT_ROWS)},
        logged=store.logs.next_numbers(),
    )


def make_front(
    options: NodeOptions, store: Store, make: Callable[[NodeOptions, Store], Broker] = make_broker
) -> FrontLike:
    """The front of a node and the broker behind it, as the store remembers them."""
    rows = {key: value for key, value in store.saved.items() if key.startswith(MQTT_ROWS)}
    return Front(
        make(options, store),
        settings=options.mqtt,
        access=options.access,
        saved=rows,
        random=random.Random(),
    )


class Node:
    """One broker, running: `start`, then `stop`."""

    def __init__(
        self,
        options: NodeOptions,
        *,
        records: Callable[[str, int], RecordSink] | None = None,
        front: Callable[[NodeOptions, Store], FrontLike] = make_front,
    ) -> None:
        """`records` makes the sink for a broker's id and boot."""
        self.options = options
        self.counters = Counters()
        self.stopping = False
        """Whether it was asked to stop, or has."""
        self.address = ""
        """Where it listens for other brokers."""
        self.pages_url = ""
        """Where others reach its pages; empty if it has none. Told to the network when it has joined."""
        self.access = options.access
        """What clients may do, now."""
        self._records = records
        self._make_front = front
        self._started = False
        self._finished = False
        self._connections: dict[int, Connection] = {}
        self._numbers = 0
        self._ungreeted: set[int] = set()
        self._handshakes = 0
        self._sink: RecordSink | None = None
        self._dirty: list[Connection] = []
        self._frames: dict[int, deque[Frame]] = {}
        """By connection: what a neighbour has said that is not yet acted on."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._wake_at = 0.0
        self._compiling = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.clock_offset = time.time() - time.monotonic()
        """What `now` is beyond `time.monotonic`, always."""
        self._carry: dict[type, Callable[[Any], None]] = {
            e.Send: self._send,
            e.Dial: self._dial,
            e.HangUp: self._hang_up,
            e.Write: self._write,
            e.Erase: self._erase,
            e.Append: self._append,
            e.Sync: self._sync,
            e.SetTimer: self._set_timer,
            e.Log: self._log,
            e.Stop: self._stop,
            e.Synchronised: self._synchronised,
            e.Enlist: _nothing,
            e.Decline: _nothing,
            e.CatalogueChanged: _nothing,
            Record: self._record,
            Run: self._record,
        }

    # For those who run it.

    @property
    def id(self) -> str:
        return self.options.id

    @property
    def holder(self) -> Holder:
        """Under whose name it numbers what it keeps."""
        return self._store.identity.holder

    @property
    def boot(self) -> int:
        return self._store.identity.boot

    @property
    def logs(self) -> Logs:
        """What topics keep here. Any thread may read from it."""
        return self._store.logs

    @property
    def broker(self) -> BrokerLike:
        """Behind the front."""
        return self.front.broker

    @property
    def mqtt_addresses(self) -> dict[str, str]:
        """Where MQTT clients connect, by the kind of listener; they may not be let in yet."""
        return self._listeners.addresses

    @property
    def synchronising(self) -> bool:
        """Whether MQTT clients are not let in yet, since the network's declarations have not been heard."""
        return bool(self.options.listening) and not self._listeners.is_open

    @property
    def ready(self) -> bool:
        """Whether it listens, and is not about to stop. Whether its trees are settled, the status tells."""
        return self._started and not self.stopping

    async def start(self) -> None:
        """Open the store, listen, start the broker. SetupError says what is not as it must be."""
        options = self.options
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[str] = self._loop.create_future()
        for neighbour in options.neighbours:
            addresses.read(neighbour)
        self._accepting: ssl.SSLContext | None = None
        self._dialling: ssl.SSLContext | None = None
        if options.tls is not None:
            self._accepting, self._dialling = tls.contexts(options.tls)
        self._listeners = Listeners(
            options.listening,
            Admission(
                options.clients_max,
                options.clients_per_host_max,
                options.mqtt.connect_within_s,
                options.mqtt.packet_bytes_max,
                options.origins,
            ),
            None if options.client_tls is None else tls.client_context(options.client_tls),
            options.id,
        )
        try:
            await self._open()
        except BaseException:
            self._listeners.close()
            raise

    async def _open(self) -> None:
        options = self.options
        self._store: Store = (
            MemoryStore(options.id)
            if options.folder is None
            else DiskStore(options.folder, options.id, self._on_store_failed, options.keep)
        )
        try:
            self._listener = bind(options.host, options.port)
            try:
                self._listener.listen(BACKLOG)
                self._begin()
            except BaseException:
                self._listener.close()
                raise
        except BaseException:
            await self._store.close(discard=True)
            raise

    def _begin(self) -> None:
        options = self.options
        self.address = addresses.write(*self._listener.getsockname()[:2])
        self._clients = Clients(self, users=options.users, anonymous=options.access.anonymous)
        self._carry |= self._clients.carry
        for note in self._store.logs.notes:
            self._say(logging.WARNING, "the log had an older format", done=note)
        self.front = self._make_front(options, self._store)
        if self._records is not None:
            self._sink = self._records(options.id, self.boot)
        self._tick_handle = self._loop.call_later(TICK_S, self._tick)
        self._retain_handle = self._loop.call_later(RETAIN_EVERY_S, self._retain)
        self._log_sync_handle = self._loop.call_later(options.keep.every_s, self._sync_logs)
        self._carry_out(self.front.start(self.now()))
        self._started = True
        self._accepting_task = self._background(self._accept_all())
        # Not sooner: a loop must not watch a socket that is closed already.
        self._accepting_task.add_done_callback(lambda _: self._listener.close())
        for neighbour in options.neighbours:
            self.tell(e.NeighbourAdded(neighbour))
        self._say(logging.INFO, "started", address=self.address, boot=str(self.boot))

    async def stop(self, for_good: bool = False) -> str:
        """Drain, say goodbye, close everything. The reason that it stopped for, empty if it is this one."""
        if not self.stopping:
            self.stopping = True
            self._accepting_task.cancel()
            self._listeners.close()
            if for_good and self.pages_url:
                self.tell(_no_pages(self.id))
            self.tell(e.StopAsked(for_good))
        within = self.options.settings.drain_within_s + STOP_BEYOND_DRAIN_S
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(self._done), within)
        self._say(logging.ERROR, "the broker has not stopped by itself", within_s=f"{within:g}")
        self._finish("not drained in time")
        return await self._done

    async def stopped(self) -> str:
        """Waits until it has stopped, whoever asked for it; the reason is empty after `stop`."""
        return await asyncio.shield(self._done)

    def stop_now(self) -> None:
        """Stop without draining; what was acknowledged is safe."""
        self.stopping = True
        self._finish("stopped at once")

    def add_neighbour(self, address: str) -> None:
        """Link with the broker at this address, from now on. InputError if it is none."""
        addresses.read(address)
        self.tell(e.NeighbourAdded(address))

    def remove_neighbour(self, address: str) -> None:
        """Dial this address no more, and part from the broker there."""
        addresses.read(address)
        self.tell(e.NeighbourRemoved(address))

    def expel(self, client: str) -> bool:
        """Close the connection of an MQTT client, which may come back; False if it is not there."""
        there = self.front.is_connected(client)
        self.tell(m.ClientExpelled(client))
        return there

    def remove_session(self, client: str) -> bool:
        """End the session of an MQTT client, whether or not it is there; False if there is none."""
        there = self.front.owns(client)
        self.tell(m.SessionRemoved(client))
        return there

    def change_access(self, users: Users | None, access: m.Access) -> None:
        """Other users, other rules, from now on."""
        # Those whose password has just been found to fit are let in first, and then judged like the others.
        self._clients.hear()
        before = self._clients.users
        self._clients.users, self._clients.anonymous = users, access.anonymous
        self.access = access
        outdated = (users or Users({})).outdated(before or Users({}))
        self.tell(m.AccessChanged(access, outdated))

    def change_link_tls(self, contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
        """Other certificates, for accepting and for dialling; links that are up stay as they are."""
        self._accepting, self._dialling = contexts

    def change_client_tls(self, context: ssl.SSLContext) -> None:
        """Other certificates for MQTT clients that come from now on."""
        self._listeners.context = context

    def topic(self, name: str) -> Topic | None:
        """The declaration of this name."""
        found = self.broker.catalogue.topic(name)
        return found if isinstance(found, Topic) else None

    def pages_of_others(self) -> dict[str, str]:
        """Where the other brokers of the network serve their pages, as far as they have said so."""
        return {name: url for name, url in self.broker.catalogue.pages().items() if name != self.id}

    def forget(self, broker: str) -> bool:
        """Tell the whole network that a broker out of reach will not come back; whether it was heard of."""
        heard_of = self.broker.has_heard_of(broker)
        if heard_of:
            self.tell_all((e.ForgetAsked(broker), _no_pages(broker)))
        return heard_of

    def user(self, name: str, password: bytes) -> str | None:
        """Who somebody is, "" if names say nothing here; None if they do not fit. Slow, for threads."""
        users = self._clients.users
        if users is None:
            return "" if self.access.anonymous else None
        return name if users.check(name, password) else None

    def status(self) -> dict[str, object]:
        """Plain values, fit for JSON: what the broker tells, and what the node does."""
        counters = asdict(self._counted())
        counters["messages_in"] = self.counters.messages_in
        counters["messages_out"] = self.counters.messages_out
        del counters["kinds_in"], counters["kinds_out"]
        broker = msgspec.to_builtins(self.broker.status(self.now()))
        assert isinstance(broker, dict), "a broker's status is a struct"
        return broker | {
            "address": self.address,
            "mqtt": {
                **msgspec.to_builtins(self.front.status(self.now())),
                "addresses": self.mqtt_addresses,
                "connections": self._clients.connections,
                "connections_refused": self._listeners.refused,
                "synchronising": self.synchronising,
            },
            "stopping": self.stopping,
            "durable": self.options.folder is not None,
            "log": [asdict(kept) for kept in self._store.logs.status()],
            "counters": counters,
            "gauges": self.gauges(),
        }

    def gauges(self) -> Mapping[str, float]:
        """What goes up and down."""
        return {
            "connections": len(self._connections),
            "ungreeted": len(self._ungreeted),
            "store_pending": self._store.pending(),
            "log_bytes": self._store.logs.bytes,
            "mqtt_connections": self._clients.connections,
        }

    def now(self) -> float:
        """Seconds since 1970; never goes back."""
        return time.monotonic() + self.clock_offset

    def tell(self, event: Event) -> None:
        """Tell the broker what happened, and do what it wants."""
        self.tell_all((event,))

    def tell_all(self, events: Sequence[Event]) -> None:
        """The same for what happened at once: what comes of it goes out together."""
        if self._finished or not events:
            return
        try:
            self._carry_out(self.front.handle_all(events, self.now()))
        except Exception as error:
            self.on_bug(error)
            raise

    def on_bug(self, error: Exception) -> None:
        # The broker's state may be half of two: nothing more is written, and neighbours hold what is due.
        LOG.error("a bug of ours stops the broker", exc_info=error, extra={"broker": self.id, "about": {}})
        self._finish(f"a bug: {error!r}", discard=True)

    # What connections tell.

    def connected(self, connection: Connection) -> None:
        self.counters.connections_made += 1
        if connection.address is None:
            self._handshakes -= 1
        if self._finished:
            connection.abort()
            return
        connection.nonce = os.urandom(NONCE_BYTES)
        self._connections[connection.number] = connection
        self._ungreeted.add(connection.number)
        certificate = connection.transport.get_extra_info("peercert")
        self.tell(
            e.ConnectionMade(
                connection.number,
                connection.address,
                connection.nonce,
                tls.certified(certificate),
                addresses.host_of(connection.peer),
            )
        )

    def received(self, connection: Connection, frames: list[Frame]) -> None:
        number = connection.number
        waiting = self._frames.setdefault(number, deque())
        idle = not waiting
        for frame in frames:
            waiting.extend(_pieces(frame))
        if frames[-1].first:
            self._ungreeted.discard(number)
        if idle:
            self._take_frames(connection)

    def lost(self, connection: Connection, reason: str) -> None:
        self._frames.pop(connection.number, None)
        self.counters.connections_lost += 1
        if connection.decoder.fault is not None:
            self._say(logging.WARNING, "a connection is closed", address=connection.peer, reason=reason)
        self._forget(connection)
        self.tell(e.ConnectionLost(connection.number, reason))

    def flush_soon(self, connection: Connection) -> None:
        if not self._dirty:
            self._loop.call_soon(self._flush)
        self._dirty.append(connection)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.flush()

    # Connecting.

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _connection(self, address: str | None) -> Connection:
        return Connection(self, self._number(), address)

    async def _accept_all(self) -> None:
        while True:
            await self._accept_one()

    async def _accept_one(self) -> None:
        try:
            accepted, peer = await self._loop.sock_accept(self._listener)
        except OSError as error:
            # Too many open files, most likely: some will close.
            self._say(logging.ERROR, "no connection can be accepted", reason=str(error))
            await asyncio.sleep(ACCEPT_AGAIN_S)
            return
        waiting = len(self._ungreeted) + self._handshakes
        if len(self._connections) + self._handshakes >= self.options.connections_max:
            self._turn_away(accepted, peer, f"there are {self.options.connections_max} connections already")
        elif waiting >= self.options.ungreeted_max:
            self._turn_away(accepted, peer, f"{waiting} connections have not greeted yet")
        else:
            self._handshakes += 1
            self._background(self._take(accepted, peer))

    def _turn_away(self, accepted: socket.socket, peer: Any, reason: str) -> None:
        self.counters.connections_refused += 1
        self._say(logging.WARNING, "a connection is refused", address=_peer(peer), reason=reason)
        accepted.close()

    async def _take(self, accepted: socket.socket, peer: Any) -> None:
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                lambda: self._connection(None),
                accepted,
                ssl=self._accepting,
                ssl_handshake_timeout=self.options.settings.greet_within_s if self._accepting else None,
            )
        except (OSError, ssl.SSLError) as error:
            self._handshakes -= 1
            self.counters.connections_refused += 1
            self._say(logging.WARNING, "a connection is refused", address=_peer(peer), reason=_reason(error))
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise

    def _dial(self, effect: e.Dial) -> None:
        self._background(self._connect(effect.address))

    async def _connect(self, address: str) -> None:
        host, port = addresses.read(address)
        try:
            async with asyncio.timeout(DIAL_WITHIN_S):
                await self._loop.create_connection(
                    lambda: self._connection(address),
                    host,
                    port,
                    ssl=self._dialling,
                    server_hostname=host if self._dialling else None,
                )
        except TimeoutError:
            self.counters.dials_failed += 1
            self.tell(e.DialFailed(address, f"no answer within {DIAL_WITHIN_S:g} s"))
        except (OSError, ssl.SSLError) as error:
            self.counters.dials_failed += 1
            self.tell(e.DialFailed(address, _reason(error)))

    def _forget(self, connection: Connection) -> None:
        self._connections.pop(connection.number, None)
        self._ungreeted.discard(connection.number)

    def _background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # What the broker wants.

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        carry = self._carry
        for effect in effects:
            carry[type(effect)](effect)

    def _send(self, effect: e.Send) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            connection.send(effect.frame)

    def _hang_up(self, effect: e.HangUp) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            self._forget(connection)
            connection.close()

    def _tell_pages(self) -> None:
        """Say where the pages are, if that is not known yet; every broker then writes it down."""
        known = self.broker.catalogue.pages().get(self.id, "")
        if known != self.pages_url and not self.stopping:
            text = pages_text(self.id, self.pages_url) if self.pages_url else ""
            self.tell(e.EntryOffered("", 0, "pages", self.id, text))

    def _synchronised(self, _: e.Synchronised) -> None:
        if self.pages_url:
            self._loop.call_soon(self._tell_pages)
        if self.stopping or not self.options.listening:
            return
        try:
            self._listeners.open(self._clients, self._number)
        except SetupError as error:
            self._say(logging.ERROR, "the broker must not run", reason=str(error))
            self._loop.call_soon(self._finish, str(error))
            return
        self._say(logging.INFO, "clients are let in", **self.mqtt_addresses)

    def _write(self, effect: e.Write) -> None:
        self._store.write(effect.key, effect.value)

    def _erase(self, effect: e.Erase) -> None:
        self._store.erase(effect.key)

    def _append(self, effect: e.Append) -> None:
        self._store.append(effect.name, effect.what, effect.holder, entry_of(effect))

    def _sync(self, effect: e.Sync) -> None:
        self._store.sync(partial(self.tell, e.WritesSynced(effect.token)))

    def _set_timer(self, effect: e.SetTimer) -> None:
        # A timer that is moved back, as most are, stays; when it fires it sees that it is early.
        self._wake_at = effect.at
        if self._timer is None or effect.at < self._timer_at:
            self._arm()

    def _arm(self, least_s: float = 0.0) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._wake_at
        self._timer = self._loop.call_later(max(least_s, self._wake_at - self.now()), self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        if self._wake_at > self.now():
            self._arm(CLOCK_S)
        else:
            self._clients.hear()
            self.tell(e.TimerFired())

    def _log(self, effect: e.Log) -> None:
        level = LEVELS[effect.level]
        if LOG.isEnabledFor(level):
            LOG.log(level, effect.text, extra={"broker": self.id, "about": dict(effect.about)})

    def _record(self, record: Record | Run) -> None:
        if record.kind is Kind.LINK_UP:
            self.counters.links_up += 1
        if self._sink is not None:
            self._sink.add(record)

    def _stop(self, effect: e.Stop) -> None:
        self.stopping = True
        if effect.reason:
            self._say(logging.ERROR, "the broker must not run", reason=effect.reason)
        # The effects behind this one, if there are any, are carried out first.
        self._loop.call_soon(self._finish, effect.reason)

    # What neighbours say.

    def _take_frames(self, connection: Connection) -> None:
        """Go on with what a neighbour has said, for a while; then others have their turn."""
        number = connection.number
        waiting = self._frames.get(number)
        if waiting is None:
            return
        until = time.monotonic() + TURN_S
        while waiting and connection.open and time.monotonic() < until:
            events: list[e.Event] = []
            weight = 0
            while waiting and weight < TURN_WEIGHT:
                frame = waiting.popleft()
                weight += TURN_WEIGHT // 2 if _is_dear(frame) else len(frame.messages)
                events.append(e.FrameReceived(number, frame))
            self.tell_all(events)
        if waiting and connection.open:
            connection.silence()
            self._loop.call_soon(self._take_frames, connection)
        else:
            self._frames.pop(number, None)
            connection.listen()

    # The end, and odds and ends.

    def _on_store_failed(self, error: BaseException) -> None:
        self._say(logging.ERROR, "the store cannot be written", reason=str(error))
        self._finish(f"the store cannot be written: {error}", discard=True)

    def _finish(self, reason: str, discard: bool = False) -> None:
        if not self._finished:
            self._finished = self.stopping = True
            if self._timer is not None:
                self._timer.cancel()
            for task in self._tasks:
                task.cancel()
            # Kept here since the loop itself does not keep a task alive.
            self._ending = self._loop.create_task(self._end_all(reason, discard))

    async def _end_all(self, reason: str, discard: bool) -> None:
        self._listeners.close()
        self._clients.close()
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()
        try:
            await self._store.close(discard)
            for handle in (self._tick_handle, self._retain_handle, self._log_sync_handle):
                handle.cancel()
            if self._sink is not None:
                await self._loop.run_in_executor(None, self._sink.close)
        finally:
            self._say(logging.INFO, "stopped", reason=reason or "asked to")
            self._done.set_result(reason)

    def _tick(self) -> None:
        if self._sink is not None:
            self._sink.tick(self.now())
        if not self._compiling and self.broker.indexed:
            # Until it is done the index answers by numpy, which is slower. A broker without many content
            # filters never needs it, and is spared the memory.
            self._compiling = True
            threading.Thread(target=_compile, name="kernels", daemon=True).start()
        self._tick_handle = self._loop.call_later(TICK_S, self._tick)

    def _retain(self) -> None:
        """Have the logs drop what need not be kept any longer."""
        self._retain_handle = self._loop.call_later(RETAIN_EVERY_S, self._retain)
        kept, now_us = self.broker.kept(), round(self.now() * 1e6)
        size = bytes_max(self.options.keep, self.options.folder is not None)
        self._tend(lambda logs: logs.retain(now_us, kept, size))

    def _sync_logs(self) -> None:
        """Have the logs synced, where commits do not do it."""
        keep = self.options.keep
        if keep.syncing is Syncing.INTERVAL and self.options.folder is not None:
            self._log_sync_handle = self._loop.call_later(keep.every_s, self._sync_logs)
            self._tend(lambda logs: logs.sync())

    def _tend(self, work: Callable[[Logs], None]) -> None:
        if not self._finished:
            self._store.tend(work)

    def _counted(self) -> Counters:
        store, counters = self._store, self.counters
        counters.syncs, counters.rows, counters.sync_seconds = store.syncs, store.rows, store.sync_seconds
        return counters

    def _say(self, level: int, text: str, **about: str) -> None:
        LOG.log(level, text, extra={"broker": self.id, "about": about})


def _no_pages(broker: str) -> e.EntryOffered:
    """That a broker has no pages any more: nobody who reads the log waits for it."""
    return e.EntryOffered("", 0, "pages", broker, "")


def _nothing(_: object) -> None:
    """What the front wanted to know, and is of no use to a node."""


def _peer(name: Any) -> str:
    return addresses.write(*name[:2]) if isinstance(name, tuple) else str(name)


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _compile() -> None:
    with contextlib.suppress(ImportError):
        compile_kernels()
