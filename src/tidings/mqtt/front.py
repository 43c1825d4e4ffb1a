"""The front door: MQTT clients on one side, a broker on the other, and no I/O.

A front stands before a `Broker` and takes the events of both (`mqtt.events`, `overlay.events`). It reads what
clients say, keeps their sessions, and tells the broker; what the broker wants done for sessions that are
clients' becomes packets, and everything else is passed on to the driver. `subscribing` and `publishing` have
the two large parts; here are connections and sessions, from CONNECT to the end:

    NEW ──CONNECT──> VERIFYING ──> OPEN ──DISCONNECT, fault, silence, loss──> SHUT
       (who it is, if that must be found out)
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any

import msgspec

from tidings.mqtt.clients import Client, State
from tidings.mqtt.codec import Malformed, acknowledgements
from tidings.mqtt.core import Core, Refusal
from tidings.mqtt.costs import TURN_STEPS
from tidings.mqtt.events import (
    ALL_ALLOWED,
    Access,
    AccessChanged,
    BytesReceived,
    CheckPassword,
    ClientCongested,
    ClientConnected,
    ClientEffect,
    ClientEvent,
    ClientExpelled,
    ClientLost,
    ClientVerified,
    CloseClient,
    PauseReading,
    ResumeReading,
    SessionRemoved,
    Transmit,
)
from tidings.mqtt.fanout import Fanout
from tidings.mqtt.packets import (
    AnyPacket,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Unsubscribe,
    Version,
)
from tidings.mqtt.properties import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from tidings.mqtt.publishing import REQUESTS, Publishing, is_bridge_state, receive_maximum_exceeded
from tidings.mqtt.reasons import CONNECT_RETURN_CODES, Reason
from tidings.mqtt.requests import REPLY, Requests
from tidings.mqtt.retained import Retained, expired
from tidings.mqtt.sessions import TOO_SLOW, Asked, Delivery, Saved, SavedWill, Session, row
from tidings.mqtt.settings import DEFAULT, Settings
from tidings.mqtt.subscribing import Subscribing
from tidings.mqtt.sys_topics import SysTopics
from tidings.overlay.broker import Broker
from tidings.overlay.events import (
    Accept,
    CatalogueChanged,
    Decline,
    Deliver,
    Deny,
    Effect,
    Enlist,
    Event,
    Grant,
    Pause,
    Reject,
    Resume,
    SessionClosed,
    SessionEnded,
    SessionOpened,
    SetTimer,
    Stop,
    StopAsked,
    Sync,
    TimerFired,
    WritesSynced,
)
from tidings.overlay.publication import Publication
from tidings.overlay.timers import Timers

CLIENT_ID_CHARACTERS_MAX = 256
"""The standard lets a server refuse more than 23. Client ids are in records, in logs and on disk."""

KEEP_ALIVE_GRACE = 1.5
"""Of the keep-alive that a client may be silent for [MQTT-3.1.2-22]."""

WAIT_S = 0.5
"""How long links wait for clients that have much queued. Who still has much then, and again after
`LOOK_AGAIN_S`, is slow. Links do not wait again for as long, so that they get half of the time at least."""

LOOK_AGAIN_S = 0.05
"""What clients have sent in the meantime is read first."""

READ_AHEAD_BYTES = 256 * 1024
"""What is read of a client while its publications are not taken; then it is not read any more, unless it has
something to acknowledge. Then its acknowledgements may be behind its own publications, of which it may have
as many under way as `receive_maximum` says. Those of QoS 0 are dropped beyond this."""

DEFERRED_BYTES = 256 * 1024 * 1024
"""What is read of all clients together."""

RELEASED_MAX = 128
"""Deferred packets of all clients that are acted on in one turn."""


class Due(Enum):
    """What a front waits for."""

    CONNECT = auto()
    """A connection has not said CONNECT in time."""

    SILENCE = auto()
    """A client may have been silent for longer than its keep-alive."""

    WILL = auto()
    """The will of a client that is away."""

    EXPIRY = auto()
    """The session of a client that is away."""

    FEED = auto()
    """Some more retained messages for sessions that have subscribed."""

    HEED = auto()
    """The publications of a client that sent faster than it may are taken again."""

    BEHIND = auto()
    """Links have waited for clients with much queued: are those slow?"""

    UNREAD = auto()
    """The next turn of clients that have asked for what is expensive."""

    SYS = auto()
    """Bring `$SYS` up to date."""


class FrontStatus(msgspec.Struct, frozen=True):
    """What can be seen of a front."""

    clients: int
    """Clients that are connected."""

    sessions: int
    subscriptions: int
    retained: int
    retained_bytes: int
    queued: int
    """Publications that wait for clients."""

    queued_bytes: int
    inflight: int
    counters: dict[str, Any]
    unreadable: int
    """Payloads that met a content filter and are not JSON."""

    refusals: tuple[Refusal, ...]
    """The latest things that were refused, the newest last."""


class Front:
    """The MQTT side of one broker."""

    def __init__(
        self,
        broker: Broker,
        *,
        settings: Settings = DEFAULT,
        access: Access = ALL_ALLOWED,
        saved: Mapping[str, bytes] | None = None,
        random: random.Random,
    ) -> None:
        self.broker = broker
        self.access = access
        core = self._core = Core(settings)
        self._random = random
        self._saved = dict(saved or {})
        self.clients: dict[int, Client] = {}
        self.sessions = core.sessions
        self.retained = Retained(settings.retained_messages, settings.retained_bytes)
        self._timers: Timers[Due] = Timers()
        self._announced: float | None = None
        self._unsynced: deque[tuple[int, list[tuple[Session, int]]]] = deque()
        """By sync: what sessions will then have on disk."""
        self._shut: list[CloseClient] = []
        self._unread: deque[Client] = deque()
        """Clients that wait with something expensive, the longest first."""
        self._stopping = False
        self._paused = False
        self._rested_at = 0.0
        """Before this links are not held, whoever is behind."""
        self._looked = False
        """Whether those who are behind were looked at once."""
        subscribing = self._subscribing = Subscribing(core, broker, self.sessions, self.retained)
        requests = self._requests = Requests(core, broker, self._say_own, subscribing.heard)
        publishing = self._publishing = Publishing(
            core, broker, self.sessions, self.retained, requests.on_request
        )
        fanout = self._fanout = Fanout(core, broker, self.sessions, subscribing)
        self._sys = SysTopics(self)
        subscribing.sys = self._sys.messages
        self._set_access(access)
        self._events: dict[type, Callable[[Any], None]] = {
            BytesReceived: self._on_bytes,
            ClientConnected: self._on_connected,
            ClientLost: self._on_lost,
            ClientCongested: self._on_congested,
            ClientVerified: self._on_verified,
            ClientExpelled: self._on_expelled,
            SessionRemoved: self._on_session_removed,
            AccessChanged: self._on_access_changed,
            TimerFired: self._on_timer,
            WritesSynced: self._on_synced,
            StopAsked: self._on_stop_asked,
        }
        self._effects: dict[type, Callable[[Any], None]] = {
            Deliver: fanout.on_deliver,
            Grant: self._grant,
            Deny: self._deny,
            Accept: self._accept,
            Reject: publishing.on_rejected,
            Enlist: self._enlist,
            Decline: self._decline,
            CatalogueChanged: self._catalogue_changed,
            Sync: self._sync,
            SetTimer: lambda _: None,
            Pause: self._pause,
            Resume: self._resume,
            Stop: self._stop,
        }
        self._packets: dict[type, Callable[[Client, Any], None]] = {
            Publish: publishing.on_publish,
            Puback: lambda client, packet: publishing.on_pubacks(client, (packet.packet_id,)),
            Pubrec: publishing.on_pubrec,
            Pubrel: publishing.on_pubrel,
            Pubcomp: publishing.on_pubcomp,
            Subscribe: self._on_subscribe,
            Unsubscribe: self._on_unsubscribe,
            Pingreq: lambda client, _: client.put(b"\xd0\x00"),
            Disconnect: self._on_disconnect,
            Auth: self._on_auth,
        }
        self._due: dict[Due, Callable[[Any], None]] = {
            Due.CONNECT: self._on_connect_late,
            Due.SILENCE: self._on_silence,
            Due.WILL: self._on_will_due,
            Due.EXPIRY: self._on_expired,
            Due.FEED: self._on_feed_due,
            Due.HEED: self._on_heed_due,
            Due.BEHIND: self._on_behind_due,
            Due.UNREAD: self._on_unread_due,
            Due.SYS: self._on_sys_due,
        }

    # What drivers call.

    def start(self, now: float) -> list[Effect | ClientEffect]:
        """The first effects; sessions, queues and retained messages are there again."""
        core = self._core
        effects = self.broker.start(now)
        core.now = self._sys.started_at = self.broker.core.now
        core.out = self.broker.core.out  # type: ignore[assignment]
        self._recover()
        if core.settings.sys_every_s:
            self._timers.set(Due.SYS, None, core.now + core.settings.sys_every_s)
        return self._collect(effects)

    def handle(self, event: Event | ClientEvent, now: float) -> list[Effect | ClientEffect]:
        """Something has happened: what is to be done, in order."""
        return self.handle_all((event,), now)

    def handle_all(self, events: Iterable[Event | ClientEvent], now: float) -> list[Effect | ClientEffect]:
        """The same for what happened at once: what comes of it goes out together."""
        broker, core = self.broker, self._core
        inner = broker.core
        if now > inner.now:  # a clock that goes back is taken to stand still
            inner.now = now
        core.now = inner.now
        core.released = 0
        core.steps = core.looked = 0
        core.out = inner.out  # type: ignore[assignment]
        handlers = self._events
        for event in events:
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)
            else:
                broker.tell(event)  # type: ignore[arg-type]
        self._hold_links()
        return self._collect(broker.collect())

    def _take(self) -> list[Transmit]:
        """What is to be sent to clients by now."""
        core = self._core
        out = []
        size = 0
        for client in core.dirty:
            chunks = client.out
            if chunks:
                out.append(Transmit(client.number, chunks))
                client.out = []
                size += len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
        core.dirty.clear()
        core.counters.bytes_out += size
        return out

    def next_deadline(self) -> float | None:
        """When to tell `TimerFired`; the same as in the latest `SetTimer`."""
        own, other = self._timers.next(), self.broker.next_deadline()
        if own is None or other is None:
            return own if other is None else other
        return own if own < other else other

    def owns(self, session: str) -> bool:
        """Whether there is a session of this name."""
        return session in self.sessions

    def is_connected(self, client: str) -> bool:
        """Whether an MQTT client is there."""
        session = self.sessions.get(client)
        return session is not None and session.client is not None

    def _collect(self, effects: list[Effect]) -> list[Effect | ClientEffect]:
        """Carry out what the broker wants of clients; the rest, and what clients get, is for the driver."""
        core, broker = self._core, self.broker
        inner = broker.core
        out: list[Effect | ClientEffect] = []
        carry = self._effects
        while True:
            core.out = out
            for effect in effects:
                carried = carry.get(type(effect))
                if carried is None:
                    out.append(effect)
                else:
                    carried(effect)
            if core.slow:
                core.out = inner.out  # type: ignore[assignment]
                self._expel_slow()
            self._hold_links()
            if core.touched and not inner.sync_wanted:
                inner.ask_sync()
            if not inner.out and not inner.sync_wanted:
                break
            effects = broker.collect()
        if core.hungry and not self._timers.is_set(Due.FEED, None):
            self._timers.set(Due.FEED, None, core.now)
        out += self._take()
        if self._shut:
            out += self._shut
            self._shut = []
        deadline = self.next_deadline()
        if deadline is not None and deadline != self._announced:
            out.append(SetTimer(deadline))
        self._announced = deadline
        return out

    # Bytes.

    def _on_bytes(self, event: BytesReceived) -> None:
        client = self.clients.get(event.connection)
        if client is None:
            return
        self._core.counters.bytes_in += len(event.data)
        client.decoder.feed(event.data)
        if event.closed:
            self._close(client)
        elif client.state is not State.VERIFYING and not client.unread:
            self._read(client)

    def _close(self, client: Client) -> None:
        """Act on what is left of a connection that is gone, but not on what waits for an answer."""
        client.closed = True
        client.unread = False
        client.work = None
        if client.state is not State.VERIFYING:
            self._read(client)

    def _read(self, client: Client) -> None:
        """Act on what a client has said, as far as it is whole and the client has its turn."""
        decoder, publishing = client.decoder, self._publishing
        core = self._core
        before = core.counters.published, core.counters.published_bytes
        packets = core.counters.packets_in
        held_back = self._holds_back(client)
        rated = core.settings.publish_rate or core.settings.publish_bytes_rate
        try:
            while client.state is State.OPEN or client.state is State.NEW:
                if client.work is not None and not self._go_on(client):
                    break
                if client.deferred and not held_back:
                    if not client.closed and (core.steps >= TURN_STEPS or core.released >= RELEASED_MAX):
                        self._go_on_later(client)
                        break
                    core.released += 1
                    deferred = client.next_deferred()
                    if not client.closed or isinstance(deferred, Publish | Disconnect):
                        self._act_on(client, deferred)
                    if rated and client.deferred and not client.closed:
                        # One at a time, and as many later as its rate allows.
                        self._go_on_later(client)
                        break
                    continue
                if held_back and client.state is State.OPEN:
                    if self._is_far_ahead(client):
                        self._hush(client)
                        break
                elif client.state is State.OPEN:
                    spent = core.steps >= TURN_STEPS or client.closed
                    expensive = spent and _is_expensive(decoder.data, decoder.at)
                    read = decoder.publishes() if not expensive else None
                    if read is not None:
                        publishing.on_publishes(client, read)
                        if decoder.at == len(decoder.data):
                            break
                        continue
                    packet_ids, end = acknowledgements(decoder.data, decoder.at)
                    if packet_ids:
                        decoder.at = end
                        core.counters.packets_in += len(packet_ids)
                        publishing.on_pubacks(client, packet_ids)
                        continue
                expensive = (core.steps >= TURN_STEPS or client.closed) and _is_expensive(
                    decoder.data, decoder.at
                )
                if expensive and not client.closed:
                    self._go_on_later(client)
                    break
                held = decoder.held()
                packet = decoder.next()
                if packet is None:
                    break
                core.counters.packets_in += 1
                if expensive:
                    continue
                if client.state is State.NEW:
                    assert isinstance(packet, Connect), "the decoder lets nothing else come first"
                    self._on_connect(client, packet)
                elif held_back and not self._may_overtake(client, packet):
                    self._defer(client, packet, held - decoder.held())
                else:
                    self._act_on(client, packet)
        except Malformed as error:
            self._fault(client, error)
        if core.counters.packets_in > packets:
            # Packets count, not bytes: one that never ends does not show that a client is there.
            client.heard_at = core.now
        if rated:
            self._slow_down(client, before)

    def _act_on(self, client: Client, packet: AnyPacket) -> None:
        self._packets[type(packet)](client, packet)

    def _holds_back(self, client: Client) -> bool:
        """Whether publications of a client are not taken for now."""
        if self._paused or client in self._core.behind:
            return True
        return self._timers.is_set(Due.HEED, client) and not client.closed

    def _may_overtake(self, client: Client, packet: AnyPacket) -> bool:
        """Whether a packet is acted on although publications of its client are not taken.

        Acknowledgements always are: the broker may wait for them itself before it takes publications again.
        A DISCONNECT is if the broker is overloaded; who only goes too fast leaves after its publications.
        """
        if isinstance(packet, Disconnect):
            return self._paused or not client.deferred
        return isinstance(packet, OVERTAKING) or not (client.deferred or isinstance(packet, Publish))

    def _defer(self, client: Client, packet: AnyPacket, size: int) -> None:
        if isinstance(packet, Publish) and not packet.qos and client.deferred_bytes >= READ_AHEAD_BYTES:
            self._core.drop(NOT_TAKEN)
            return
        client.defer(packet, size)
        assert client.session is not None, "only a client with a session publishes"
        under_way = client.under_way + len(client.session.received) + client.deferred_count
        if client.v5 and under_way > self._core.settings.receive_maximum:
            raise receive_maximum_exceeded(self._core.settings.receive_maximum)

    def _is_far_ahead(self, client: Client) -> bool:
        """Whether so much of a client was read that no more is until its publications are taken."""
        must_acknowledge = client.session is not None and client.session.inflight
        if client.deferred_bytes >= READ_AHEAD_BYTES and not must_acknowledge:
            return True
        return self._core.deferred_bytes >= DEFERRED_BYTES and bool(client.deferred)

    def _fault(self, client: Client, error: Malformed) -> None:
        """[MQTT-4.13.1-1]: what is not MQTT ends the connection, with the reason if the version has one."""
        if client.state is State.SHUT:
            return
        if client.state is State.NEW:
            self._core.refuse_connection(client, error.text)
            client.v5 = client.decoder.version is Version.V5
            # 3.1.1 has codes for few faults, and says nothing of others [MQTT-3.1.4-1].
            told = client.v5 or (client.decoder.version and error.reason in CONNECT_RETURN_CODES)
            if told and not error.silent:
                client.send(Connack(error.reason))
            self._shut_down(client, error.text)
            return
        self._core.counters.expelled += 1
        self._core.log("warning", "a client is at fault", **client.who, reason=error.text)
        self._expel(client, None if error.silent else error.reason, error.text)

    def _on_subscribe(self, client: Client, packet: Subscribe) -> None:
        client.work = self._subscribing.subscribe(client, packet)

    def _on_unsubscribe(self, client: Client, packet: Unsubscribe) -> None:
        client.work = self._subscribing.unsubscribe(client, packet)

    def _go_on(self, client: Client) -> bool:
        """Act on the next part of a packet; whether it was the last."""
        assert client.work is not None, "there is something to go on with"
        for _ in client.work:
            self._go_on_later(client)
            return False
        client.work = None
        return True

    def _go_on_later(self, client: Client) -> None:
        client.unread = True
        self._unread.append(client)
        self._timers.set(Due.UNREAD, None, self._core.now)
        self._hush(client)

    def _on_unread_due(self, _about: object) -> None:
        """Whoever has waited longest goes first, and behind the others again if there is more."""
        unread = self._unread
        while unread and self._core.steps < TURN_STEPS and self._core.released < RELEASED_MAX:
            client = unread.popleft()
            if client.unread and client.state is State.OPEN:
                client.unread = False
                self._read(client)
                if client.state is State.OPEN:
                    self._heed(client)
        if unread:
            self._timers.set(Due.UNREAD, None, self._core.now)

    def _hush(self, client: Client) -> None:
        if not client.quiet:
            client.quiet = True
            self._core.out.append(PauseReading(client.number))

    def _heed(self, client: Client) -> None:
        full = self._holds_back(client) and self._is_far_ahead(client)
        if client.quiet and not client.unread and not full:
            client.quiet = False
            client.heard_at = self._core.now
            self._core.out.append(ResumeReading(client.number))

    def _slow_down(self, client: Client, before: tuple[int, int]) -> None:
        """Take no publications of a client for as long as it has sent more than it may."""
        core, settings = self._core, self._core.settings
        passed = core.now - client.rate_at
        client.rate_at = core.now
        wait = 0.0
        if settings.publish_rate:
            left = min(settings.publish_rate, client.rate_left + passed * settings.publish_rate)
            client.rate_left = left - (core.counters.published - before[0])
            wait = max(wait, -client.rate_left / settings.publish_rate)
        if settings.publish_bytes_rate:
            left = min(
                settings.publish_bytes_rate, client.rate_bytes_left + passed * settings.publish_bytes_rate
            )
            client.rate_bytes_left = left - (core.counters.published_bytes - before[1])
            wait = max(wait, -client.rate_bytes_left / settings.publish_bytes_rate)
        if wait > 0 and client.state is State.OPEN:
            self._timers.set(Due.HEED, client, core.now + wait)

    def _on_feed_due(self, _about: object) -> None:
        self._subscribing.feed_all()

    def _on_heed_due(self, client: Client) -> None:
        self._take_again(client)

    def _take_again(self, client: Client) -> None:
        """Act on what was deferred, in the next turn; there may be much of it."""
        if client.state is State.OPEN and not client.unread and (client.deferred or client.quiet):
            self._go_on_later(client)

    # Connecting.

    def _on_connected(self, event: ClientConnected) -> None:
        core = self._core
        client = Client(core, event.connection, event.peer, event.certified, event.listener)
        client.rate_left = core.settings.publish_rate
        client.rate_bytes_left = core.settings.publish_bytes_rate
        self.clients[client.number] = client
        self._timers.set(Due.CONNECT, client, core.now + core.settings.connect_within_s)

    def _on_connect_late(self, client: Client) -> None:
        if client.state in (State.NEW, State.VERIFYING):
            self._core.refuse_connection(client, "no CONNECT within the time for it")
            self._shut_down(client, "no CONNECT within the time for it")

    def _on_connect(self, client: Client, connect: Connect) -> None:
        client.v5 = connect.version is Version.V5
        client.id = connect.client_id
        client.user = client.certified or connect.username or ""
        properties = connect.properties
        client.packet_bytes_max = properties.maximum_packet_bytes or 0
        if properties.authentication_method is not None:
            self._turn_away(
                client, Reason.BAD_AUTHENTICATION_METHOD, "enhanced authentication is not offered"
            )
        elif client.certified is not None:
            self._admit(client, connect, client.certified)
        elif connect.username is not None and self.access.verify:
            client.connect = connect
            client.state = State.VERIFYING
            self._core.out.append(CheckPassword(client.number, connect.username, connect.password or b""))
        elif not self.access.anonymous:
            self._turn_away(client, Reason.NOT_AUTHORIZED, "a user name and password are needed")
        else:
            self._admit(client, connect, "")

    def _on_verified(self, event: ClientVerified) -> None:
        client = self.clients.get(event.connection)
        if client is None or client.state is not State.VERIFYING or client.connect is None:
            return
        connect, client.connect = client.connect, None
        client.state = State.NEW
        if event.busy:
            self._turn_away(client, Reason.SERVER_BUSY, "too many passwords are being checked; try again")
        elif event.user is None:
            self._turn_away(client, Reason.BAD_USER_NAME_OR_PASSWORD, "user name and password do not fit")
        else:
            self._admit(client, connect, event.user)
            self._read(client)

    def _turn_away(self, client: Client, reason: Reason, text: str) -> None:
        self._core.refuse_connection(client, text)
        client.send(Connack(reason))
        self._shut_down(client, text)

    def _admit(self, client: Client, connect: Connect, user: str) -> None:
        """CONNECT is right and the client is who it says: give it its session."""
        core, settings = self._core, self._core.settings
        client.user = user
        client.bridge = connect.bridge
        will = connect.will
        if will is not None and is_bridge_state(will.topic):
            will = None
        if self._stopping:
            self._turn_away(client, Reason.SERVER_SHUTTING_DOWN, "this broker is stopping")
            return
        if not connect.client_id and (
            connect.version is Version.V31 or (connect.version is Version.V311 and not connect.clean_start)
        ):
            # [MQTT-3.1.3-8]; MQTT 3.1 assigns no client ids.
            self._turn_away(
                client, Reason.CLIENT_IDENTIFIER_NOT_VALID, "no client id, and the broker may not assign one"
            )
            return
        if len(connect.client_id) > CLIENT_ID_CHARACTERS_MAX:
            text = f"the client id has more than {CLIENT_ID_CHARACTERS_MAX} characters"
            self._turn_away(client, Reason.CLIENT_IDENTIFIER_NOT_VALID, text)
            return
        if will is not None:
            reason, text = self._publishing.topic_objection(will.topic, user, connect.client_id)
            if reason is not None:
                self._turn_away(client, reason, f"its will: {text}")
                return
        held = self.sessions.get(connect.client_id)
        if held is not None and held.user not in ("", user):
            # Else a client id would be a key to what another user may read.
            text = "the client id is that of another user's session"
            self._turn_away(client, Reason.CLIENT_IDENTIFIER_NOT_VALID, text)
            return
        if held is None and len(self.sessions) >= settings.sessions_max:
            self._turn_away(
                client, Reason.QUOTA_EXCEEDED, f"there are {settings.sessions_max} sessions already"
            )
            return
        assigned = ""
        if not connect.client_id:
            # [MQTT-3.1.3-6]
            assigned = f"tidings-{self._random.getrandbits(64):016x}"
        client.id = assigned or connect.client_id
        expiry_s = self._agree(client, connect)
        offered = self._offered(client, connect, expiry_s, assigned)
        if not client.takes(Connack(0, True, offered)):
            self._core.refuse_connection(client, "CONNACK is larger than the client takes")
            self._shut_down(client, "CONNACK is larger than the client takes")
            return
        session, present = self._session_for(client, connect.clean_start, expiry_s)
        # CONNACK of MQTT 3.1 has no flags.
        client.send(Connack(0, present and connect.version is not Version.V31, offered))
        core.counters.connected += 1
        core.log(
            "info",
            "a client is connected",
            **client.who,
            listener=client.listener,
            mqtt=VERSIONS[connect.version],
            session="resumed" if present else "new",
        )
        self.broker.core.changed()
        client.state = State.OPEN
        session.will = will
        if will is not None:
            core.write(row("will", client.id), msgspec.msgpack.encode(SavedWill(client.id, will)))
            self.broker.core.ask_sync()
        self._timers.cancel(Due.CONNECT, client)
        if client.keep_alive_s:
            self._timers.set(Due.SILENCE, client, core.now + client.keep_alive_s * KEEP_ALIVE_GRACE)
        session.attach(client)
        self._subscribing.feed(session)

    def _agree(self, client: Client, connect: Connect) -> int:
        """Take down what the client wants; how long its session is kept."""
        settings, properties = self._core.settings, connect.properties
        client.receive_maximum = properties.receive_maximum or client.receive_maximum
        client.problem_information = properties.request_problem_information != 0
        client.aliases_out_max = min(properties.topic_alias_maximum or 0, settings.topic_alias_maximum)
        client.keep_alive_s = connect.keep_alive_s
        longest = settings.keep_alive_max_s
        if longest and client.v5 and not 0 < connect.keep_alive_s <= longest:
            client.keep_alive_s = longest
        if client.v5:
            return min(properties.session_expiry_s or 0, settings.session_expiry_max_s)
        return 0 if connect.clean_start else settings.session_expiry_max_s

    def _offered(self, client: Client, connect: Connect, expiry_s: int, assigned: str) -> Properties:
        """What CONNACK says: what the client may do, and what it did not ask for but gets."""
        settings = self._core.settings
        asked_s = connect.properties.session_expiry_s or 0
        return Properties(
            session_expiry_s=expiry_s if expiry_s != asked_s else None,
            assigned_client_id=assigned or None,
            server_keep_alive_s=client.keep_alive_s if client.keep_alive_s != connect.keep_alive_s else None,
            receive_maximum=settings.receive_maximum,
            topic_alias_maximum=settings.topic_alias_maximum,
            maximum_packet_bytes=settings.packet_bytes_max,
            response_information=REPLY if connect.properties.request_response_information else None,
        )

    def _session_for(self, client: Client, clean_start: bool, expiry_s: int) -> tuple[Session, bool]:
        """The session of a client, and whether it was there."""
        core = self._core
        session = self.sessions.get(client.id)
        if session is not None and session.client is not None:
            # [MQTT-3.1.4-3]: the client has come back by another connection.
            core.counters.taken_over += 1
            self._expel(session.client, Reason.SESSION_TAKEN_OVER, "the client has connected again")
            session = self.sessions.get(client.id)
        if session is not None and (clean_start or session.user != client.user):
            self._end(session)
            session = None
        present = session is not None
        if session is None:
            session = self.sessions[client.id] = Session(core, client.id, durable=expiry_s > 0)
        else:
            # [MQTT-3.1.3-9]: back in time, so nothing is said.
            self._forget_will(session)
        self._timers.cancel(Due.EXPIRY, client.id)
        if expiry_s and not session.durable:
            session.durable = True
        session.expiry_s, session.left_at, session.user = expiry_s, 0.0, client.user
        session.save()
        self.broker.tell(SessionOpened(client.id, session.durable))
        return session, present

    # Parting.

    def _on_disconnect(self, client: Client, packet: Disconnect) -> None:
        session = client.session
        assert session is not None, "a client that disconnects has a session"
        expiry_s = packet.properties.session_expiry_s
        if expiry_s is not None:
            if expiry_s and not session.expiry_s:
                # [MQTT-3.14.2-2]
                raise Malformed(
                    Reason.PROTOCOL_ERROR, "A session that was not to be kept cannot be kept now."
                )
            session.expiry_s = min(expiry_s, self._core.settings.session_expiry_max_s)
        if packet.reason == Reason.SUCCESS:
            # [MQTT-3.14.4-3]
            self._forget_will(session)
        self._shut_down(client, "the client has left")

    def _on_auth(self, _client: Client, _packet: Auth) -> None:
        raise Malformed(Reason.PROTOCOL_ERROR, "AUTH without an authentication method in CONNECT.")

    def _on_lost(self, event: ClientLost) -> None:
        client = self.clients.get(event.connection)
        if client is not None and (client.unread or client.deferred):
            self._close(client)
        if client is not None and client.state is not State.SHUT:
            self._gone(client, event.reason)

    def _on_expelled(self, event: ClientExpelled) -> None:
        session = self.sessions.get(event.client)
        if session is not None and session.client is not None:
            self._expel(session.client, Reason.ADMINISTRATIVE_ACTION, "an operator wants it gone")

    def _on_session_removed(self, event: SessionRemoved) -> None:
        """All of a session goes; its will is published, as at the end of any session [MQTT-3.1.2-8]."""
        self._on_expelled(ClientExpelled(event.client))
        # It may have ended with the connection.
        session = self.sessions.get(event.client)
        if session is not None:
            self._end(session)
            self.broker.core.ask_sync()

    def _expel_slow(self) -> None:
        slow, self._core.slow = self._core.slow, {}
        for client in slow:
            if client.state is State.OPEN:
                assert client.session is not None, "a client that is open has a session"
                self._core.counters.expelled += 1
                self._core.drop(TOO_SLOW, client.session.unacknowledged)
                self._core.log("warning", "a client is too slow for what is sent to it", **client.who)
                client.out.clear()
                self._expel(client, Reason.QUOTA_EXCEEDED, "too slow for what is sent to it")

    def _hold_links(self) -> None:
        """Take no data from links while clients that are not slow have much queued.

        Publications of such a client are deferred: its acknowledgements may be behind them.
        """
        core, inner = self._core, self.broker.core
        if core.read_on:
            for client in core.read_on:
                self._take_again(client)
            core.read_on.clear()
        inner.held = bool(core.behind) and core.now >= self._rested_at
        if core.behind and not self._timers.is_set(Due.BEHIND, None):
            since = max(self._rested_at, min(core.behind.values()))
            self._timers.set(Due.BEHIND, None, since + WAIT_S if inner.held else self._rested_at)

    def _on_behind_due(self, _about: object) -> None:
        """Links have waited long enough. All that clients have sent by then is read by now."""
        core = self._core
        # The same sum as the timer's: another one might be less by the last bit, and never come true.
        late = [
            client
            for client, since in core.behind.items()
            if core.now >= max(self._rested_at, since) + WAIT_S
        ]
        if late and not self._looked:
            # What came while the broker itself was late is read before somebody is called slow.
            self._looked = True
            self._timers.set(Due.BEHIND, None, core.now + LOOK_AGAIN_S)
            return
        self._looked = False
        for client in late:
            client.slow = True
            del core.behind[client]
        core.read_on += late
        if late:
            self._rested_at = core.now + WAIT_S

    def _expel(self, client: Client, reason: Reason | None, text: str) -> None:
        """Close a client's connection, and tell it why if its version can be told."""
        if client.v5 and reason is not None:
            client.send(Disconnect(reason))
        self._shut_down(client, text)

    def _shut_down(self, client: Client, text: str) -> None:
        self._shut.append(CloseClient(client.number, text))
        self._gone(client, text)

    def _gone(self, client: Client, reason: str) -> None:
        """The connection is over. What becomes of the session?"""
        core, timers = self._core, self._timers
        if client.state is State.OPEN:
            core.log("info", DISCONNECTED, **client.who, reason=reason)
        else:
            # Who is refused has a line already, and a probe that only opens a connection is no client.
            text = "a connection is closed before its client is let in"
            core.log("debug", text, **client.who, reason=reason)
        client.state = State.SHUT
        self.clients.pop(client.number, None)
        client.known.clear()
        client.work = None
        if client.deferred:
            # Nothing of it was acknowledged.
            core.drop(NOT_TAKEN, sum(isinstance(packet, Publish) for packet, _ in client.deferred))
            core.deferred_bytes -= client.deferred_bytes
            client.deferred.clear()
        for due in (Due.CONNECT, Due.SILENCE, Due.HEED):
            timers.cancel(due, client)
        session = client.session
        if session is None or session.client is not client:
            return
        self.broker.core.changed()
        session.detach()
        if not session.expiry_s:
            self._end(session)
            return
        self.broker.tell(SessionClosed(session.id))
        session.left_at = core.now
        session.save()
        timers.set(Due.EXPIRY, session.id, core.now + session.expiry_s)
        self._await_will(session)

    def _await_will(self, session: Session) -> None:
        """[MQTT-3.1.2-8]: the will is published when its delay is over, or with the end of the session."""
        if session.will is not None:
            delay_s = session.will.properties.will_delay_s or 0
            if delay_s:
                self._timers.set(Due.WILL, session.id, self._core.now + delay_s)
            else:
                self._publish_will(session)

    def _on_will_due(self, client_id: str) -> None:
        session = self.sessions.get(client_id)
        if session is not None and session.client is None and not self._stopping:
            self._publish_will(session)

    def _publish_will(self, session: Session) -> None:
        will = session.will
        self._forget_will(session)
        if will is not None:
            self._publishing.publish_will(session.id, will)

    def _forget_will(self, session: Session) -> None:
        self._timers.cancel(Due.WILL, session.id)
        if session.will is not None:
            session.will = None
            self._core.erase(row("will", session.id))
            self.broker.core.ask_sync()

    def _on_expired(self, client_id: str) -> None:
        session = self.sessions.get(client_id)
        if session is not None and session.client is None and not self._stopping:
            self._end(session)

    def _end(self, session: Session) -> None:
        """Nothing of a session is wanted any more. Its will, if it still waits, is due now [MQTT-3.1.2-8]."""
        self._publish_will(session)
        self._forget(session)

    def _forget(self, session: Session) -> None:
        self._timers.cancel(Due.EXPIRY, session.id)
        self._subscribing.forget(session)
        session.forget()
        del self.sessions[session.id]
        self.broker.tell(SessionEnded(session.id))

    def _on_silence(self, client: Client) -> None:
        if client.state is not State.OPEN:
            return
        if client.quiet:
            # Whoever is not listened to cannot be heard.
            client.heard_at = self._core.now
        due = client.heard_at + client.keep_alive_s * KEEP_ALIVE_GRACE
        if due > self._core.now:
            self._timers.set(Due.SILENCE, client, due)
            return
        self._expel(client, Reason.KEEP_ALIVE_TIMEOUT, "silent for longer than its keep-alive")

    def _on_congested(self, event: ClientCongested) -> None:
        client = self.clients.get(event.connection)
        if client is None or client.congested is event.congested:
            return
        client.congested = event.congested
        if not event.congested and client.session is not None:
            client.session.pump()
            self._subscribing.feed(client.session)

    def _on_access_changed(self, event: AccessChanged) -> None:
        """Rights end at once, and so do connections that could not be made any more.

        What a certificate says of a client is not in the file of users, so it holds on.
        """
        self._set_access(event.access)
        for client in list(self.clients.values()):
            if client.state is not State.OPEN or client.certified is not None:
                continue
            if client.user in event.outdated:
                self._expel(client, Reason.NOT_AUTHORIZED, "the user was removed or has another password")
            elif not client.user and not event.access.anonymous:
                self._expel(client, Reason.NOT_AUTHORIZED, "a user name and password are needed")

    def _set_access(self, access: Access) -> None:
        self.access = self._subscribing.access = self._publishing.access = self._requests.access = access
        for client in self.clients.values():
            client.known.clear()
        for session in list(self.sessions.values()):
            self._judge(session)

    def _judge(self, session: Session) -> None:
        """Take from a session what its user has no right to any more: subscriptions, what waits, the will."""
        if self.access.rules == ALL_ALLOWED.rules:
            return
        self._subscribing.revoke(session)
        if session.will is not None:
            _, text = self._publishing.topic_objection(session.will.topic, session.user, session.id)
            if text:
                self._core.refuse(session.id, "will", text)
                self._forget_will(session)

    # What the broker wants.

    # A session may have ended meanwhile.

    def _grant(self, effect: Grant) -> None:
        if effect.session in self.sessions:
            self._subscribing.on_granted(effect.session, effect.name, effect.reason)

    def _deny(self, effect: Deny) -> None:
        if effect.session in self.sessions:
            self._subscribing.on_denied(effect.session, effect.name, effect.reason)

    def _accept(self, effect: Accept) -> None:
        if effect.session in self.sessions:
            self._publishing.on_accepted(effect)

    def _enlist(self, effect: Enlist) -> None:
        self._requests.on_enlisted(effect)

    def _decline(self, effect: Decline) -> None:
        self._requests.on_declined(effect)

    def _catalogue_changed(self, effect: CatalogueChanged) -> None:
        if effect.kind == "view":
            self._subscribing.on_view_changed(effect.name)
        self._core.out.append(effect)

    def _sync(self, effect: Sync) -> None:
        core = self._core
        core.out.append(effect)
        if core.touched:
            marks = [(session, session.given) for session in core.touched]
            self._unsynced.append((effect.token, marks))
            core.touched.clear()

    def _on_synced(self, event: WritesSynced) -> None:
        unsynced = self._unsynced
        while unsynced and unsynced[0][0] <= event.token:
            for session, number in unsynced.popleft()[1]:
                session.on_synced(number)
        self.broker.tell(event)

    def _pause(self, _effect: Pause) -> None:
        self._paused = True

    def _resume(self, _effect: Resume) -> None:
        self._paused = False
        for client in self.clients.values():
            self._take_again(client)

    def _on_stop_asked(self, event: StopAsked) -> None:
        """Clients go first: what they would publish now could not be taken any more."""
        self._send_away()
        self.broker.tell(event)

    def _stop(self, effect: Stop) -> None:
        self._send_away()
        self._core.out.append(effect)

    def _send_away(self) -> None:
        """Clients are to go elsewhere. Their sessions stay as they are, on disk, and so do their wills.

        What falls due from now on does so after the next start: a broker that stops takes nothing.
        """
        self._stopping = True
        for client in list(self.clients.values()):
            if client.v5 and client.state is State.OPEN:
                client.send(Disconnect(Reason.SERVER_SHUTTING_DOWN))
            if client.state is State.OPEN:
                self._core.log("info", DISCONNECTED, **client.who, reason="the broker stops")
            client.state = State.SHUT
            self._shut.append(CloseClient(client.number, "the broker stops"))
            session = client.session
            if session is not None:
                session.detach()
                if not session.expiry_s:
                    # Nobody may be given anything for it any more, while the broker drains.
                    self._forget(session)
        self.clients.clear()

    # Time.

    def _on_timer(self, event: TimerFired) -> None:
        if self._announced is not None and self._announced <= self._core.now:
            # What was asked for has been given: another wake-up for the same time is asked for anew.
            self._announced = None
        # What these put off to the next turn is not due in this one.
        for due, about in list(self._timers.fired(self._core.now)):
            self._due[due](about)
        self.broker.tell(event)

    def _on_sys_due(self, _about: object) -> None:
        self._timers.set(Due.SYS, None, self._core.now + self._core.settings.sys_every_s)
        if len(self._subscribing.own):
            for message in self._sys.changed():
                self._fanout.say(message)

    def _say_own(self, message: Publication) -> None:
        self._fanout.say(message)

    # After a restart.

    def _recover(self) -> None:
        core, saved = self._core, self._saved
        self._saved = {}
        keys = sorted(saved)
        decode = msgspec.msgpack.decode
        for key in (it for it in keys if it.startswith("mqtt/session/")):
            it = decode(saved[key], type=Saved)
            session = self.sessions[it.client] = Session(core, it.client, durable=True)
            session.expiry_s, session.user = it.expiry_s, it.user
            session.left_at = it.left_at or core.now
        for key in (it for it in keys if it.startswith("mqtt/subscription/")):
            client_id, asked = decode(saved[key], type=tuple[str, Asked])
            if client_id in self.sessions:
                self._subscribing.recover(self.sessions[client_id], asked)
        queues: dict[str, list[Delivery]] = {}
        owners = {row("queue", client_id)[: -len("/")]: client_id for client_id in self.sessions}
        for key in (it for it in keys if it.startswith("mqtt/queue/")):
            owner = owners.get(key.rpartition("/")[0])
            if owner is not None:
                queues.setdefault(owner, []).append(decode(saved[key], type=Delivery))
        for client_id, deliveries in queues.items():
            self.sessions[client_id].recover(deliveries)
        for key in (it for it in keys if it.startswith("mqtt/received/")):
            client_id = saved[key].decode()
            if client_id in self.sessions:
                self.sessions[client_id].received[int(key.rpartition("/")[2])] = True
        for key in (it for it in keys if it.startswith("mqtt/retained/")):
            message = decode(saved[key], type=Publication)
            if expired(message, core.now):
                core.erase(key)
            else:
                self.retained.keep(message)
        for session in self.sessions.values():
            self._timers.set(Due.EXPIRY, session.id, session.left_at + session.expiry_s)
            # Rules may have changed while the broker was stopped.
            self._judge(session)
        for key in (it for it in keys if it.startswith("mqtt/will/")):
            self._recover_will(decode(saved[key], type=SavedWill))

    def _recover_will(self, saved: SavedWill) -> None:
        """All connections ended with the broker, those of clients with a will too."""
        session = self.sessions.get(saved.client)
        if session is not None:
            session.will = saved.will
            self._judge(session)
            self._await_will(session)
        else:
            self._core.erase(row("will", saved.client))
            self._publishing.publish_will(saved.client, saved.will)

    # Looking in.

    def status(self, now: float) -> FrontStatus:
        """What can be seen of clients and sessions."""
        del now
        core = self._core
        sessions = self.sessions.values()
        return FrontStatus(
            sum(client.state is State.OPEN for client in self.clients.values()),
            len(self.sessions),
            sum(len(session.subscriptions) for session in sessions),
            self.retained.messages,
            self.retained.bytes,
            sum(len(session.queue) + len(session.unsynced) for session in sessions),
            core.queues_bytes,
            sum(len(session.inflight) for session in sessions),
            msgspec.to_builtins(core.counters),
            self.broker.unreadable,
            tuple(core.refusals),
        )


DISCONNECTED = "a client is disconnected"
"""In the log; the reason says who has ended the connection."""

VERSIONS = {Version.V5: "5.0", Version.V311: "3.1.1", Version.V31: "3.1"}

OVERTAKING = (Puback, Pubrec, Pubrel, Pubcomp, Pingreq)
"""Packets of a client that are acted on before its own publications, while those are not taken."""

NOT_TAKEN = "publications were not taken"
"""Why publications of a client that went too fast, or has left, are dropped while a broker is overloaded."""


def _is_expensive(data: bytes, at: int) -> bool:
    """Whether the next packet is one whose steps are counted: SUBSCRIBE, UNSUBSCRIBE, a request."""
    kind = data[at] >> 4 if at < len(data) else 0
    if kind in (SUBSCRIBE, UNSUBSCRIBE):
        return True
    if kind != PUBLISH:
        return False
    head = at + 1
    while head < len(data) and data[head] > 0x7F:
        head += 1
    return data.startswith(REQUESTS.encode(), head + 3)
