"""MQTT clients: their connections, whose turn it is, and what the front wants done for them.

What clients send in one turn of the event loop is told to the front at once, and what the front answers goes
out as one write for each connection: that is where the speed comes from. What the bytes mean is not known
here.

A client is heard in slices. A slice grows while hearing it takes little time and shrinks when it takes long,
whatever is in it: a client that floods, or asks for what is expensive, waits for the others and not they for
it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import monotonic, thread_time
from typing import Protocol, cast

from tidings.live import sending
from tidings.live.connections import CLOSE_WITHIN_S
from tidings.live.counters import Counters
from tidings.mqtt import events as m
from tidings.mqtt.clients import SETTLE, Lane
from tidings.service import addresses, tls
from tidings.service.checks import NOBODY, Check, Checks
from tidings.service.users import Users

TURN_S = 0.01
"""How long clients are listened to before links and timers have their turn."""

SLICE_BYTES = 4096
"""What a new client may bring in one go: a hundred subscriptions, which may take 0.1 s."""

SLICE_BYTES_MIN = 256
SLICE_BYTES_MAX = 256 * 1024
"""As much as is read at once: about 5,000 small publications, if they take so little time."""

SLICE_BYTES_USUAL = 64 * 1024
CHEAP_IN_A_ROW = 8
"""What comes next need not be as cheap as what came: slices become larger than this only after so many."""

GROUP_BYTES = 256 * 1024
"""Of all clients together, told to the front in one go; then the clock is looked at."""

EXPRESS_BYTES = 2048
"""What may be passed on without waiting for a turn: not so much that others would notice."""

PLAIN = "tcp"
"""The kind of connections that carry what is sent as it is."""

DIRECT = (PLAIN, "tls")
"""Kinds of connections that what comes alone is written to at once. Frames of a WebSocket are expensive by
the piece: what comes for one in the same turn is put together first."""

RECEIVERS_MAX = 16
"""Up to whom what comes alone is written at once: each publisher remembers its own, and with more of them
little would be saved."""

QUICKACK: int | None = getattr(socket, "TCP_QUICKACK", None)
"""Where a system has it (Linux): whether what was read is acknowledged at once, in a packet of its own. A
client that sends one message at a time costs 3 to 6% less without. One that waits for acknowledgements before
it sends more (Nagle's algorithm, without TCP_NODELAY) is held up for 40 ms at most, and then the system turns
to quick ones by itself, as after a pause."""

EASE_S = 0.25
"""How long after slow ones were asked for it is seen whether they are; twice as long each time that they
are not. So a client that they hold up is held up a few times in all."""

CHECKS_AT_ONCE = 2
"""Passwords that are checked at the same time: each takes a core and 32 MiB."""

# Why a client is not read, in bits: each reason is given and taken back by itself.
TURN = 1
"""It has said more than its slice, or others have; it goes on in the next turn."""
QUIET = 2
"""The front said so."""
CHECKED = 4
"""Its password is being checked."""


class Transport(Protocol):
    """What a client asks of the connection below it: TCP, TLS or a WebSocket."""

    def write(self, data: m.Chunk) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def is_closing(self) -> bool: ...
    def can_write_eof(self) -> bool: ...
    def write_eof(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def get_extra_info(self, name: str, default: object = None) -> object: ...


class Express(Protocol):
    """What is asked of the front without an event."""

    def express(self, connection: int, data: bytes, now: float) -> int: ...

    def lane(self, connection: int) -> Lane | None: ...

    def repeat(self, lane: Lane, data: bytes, now: float) -> int: ...

    def settle(self) -> None: ...

    def take(self) -> Sequence[m.Transmit]: ...


class Owner(Protocol):
    """Who is told what happens."""

    counters: Counters

    def tell_all(self, events: Sequence[m.ClientEvent]) -> None: ...

    @property
    def front(self) -> Express: ...

    def now(self) -> float: ...

    @property
    def clock_offset(self) -> float:
        """What `now` is beyond `time.monotonic`, always."""

    def on_bug(self, error: Exception) -> None:
        """The front has failed in the midst of something: nothing may go on."""


def _never(_lane: Lane, _data: bytes, _now: float) -> int:
    return 0


class Client(asyncio.Protocol):
    """One connection of an MQTT client. What asyncio calls; what it means is decided in `Clients`."""

    __slots__ = (
        "_clients",
        "_ease_at",
        "_ease_s",
        "cheap",
        "closing",
        "descriptor",
        "host",
        "lane",
        "listener",
        "lost",
        "number",
        "open",
        "queued",
        "receivers",
        "repeat",
        "silenced",
        "slice_bytes",
        "transport",
        "waiting",
    )

    def __init__(self, clients: Clients, number: int, listener: str, host: str) -> None:
        self._clients = clients
        self.number = number
        self.listener = listener
        self.host = host
        """The address that it comes from, without the port."""
        self.open = True
        """Whether the front may still be told of it."""
        self.queued = False
        """Whether it waits for its turn."""
        self.silenced = 0
        """Why it is not read."""
        self.slice_bytes = SLICE_BYTES
        self.cheap = 0
        """Slices in a row that took little time."""
        self.waiting: list[bytes] = []
        """What was read and not yet told."""
        self.lost: str | None = None
        """Why the connection is gone, if it is."""
        self.closing: asyncio.TimerHandle | None = None
        self.descriptor = sending.NOBODY
        """Of the socket, if bytes may be sent to it as long as the transport has none. It is closed behind
        `connection_lost` and not before, whatever the event loop."""
        self.lane: Lane | None = None
        """How its last bytes were passed on, if those that are like them can be written at once: not while
        it is closed, waits for its turn or is not read."""
        self.repeat: Callable[[Lane, bytes, float], int] = _never
        """The front's, once there is a lane."""
        self.receivers: tuple[Client, ...] = ()
        """To whom that is."""
        self._ease_at = 0.0
        self._ease_s = EASE_S

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("Transport", transport)
        self._clients.on_made(self)

    def data_received(self, data: bytes) -> None:
        lane = self.lane
        if lane is not None:
            # The way of what comes alone. Each call less is 1% of what a broker spends on it.
            try:
                repeats = self.repeat(lane, data, monotonic() + self._clients.clock_offset)
            except Exception as error:
                self._clients.on_bug(error)
                raise
            if repeats:
                for receiver in self.receivers:
                    if receiver.lost is None:
                        receiver.transport.write(data)
                if repeats == SETTLE:
                    self._clients.settle_soon()
                return
        if self.open:
            if len(data) <= EXPRESS_BYTES and not self.queued and not self.silenced:
                passed = self._clients.express(self, data)
                if passed == len(data):
                    return
                data = data[passed:]
            self.waiting.append(data)
            if not self.queued:
                self._clients.queue(self)

    def eof_received(self) -> None:
        # The transport closes by itself, once what is left is sent; a client that takes nothing is cut.
        self._cut_later()

    def connection_lost(self, error: Exception | None) -> None:
        self._clients.on_lost(self, str(error) if error else "closed by the client")

    def pause_writing(self) -> None:
        if self.open:
            self._clients.say(m.ClientCongested(self.number, True))

    def resume_writing(self) -> None:
        if self.open:
            self._clients.say(m.ClientCongested(self.number, False))

    def take(self) -> bytes:
        """The next slice of what was read."""
        waiting = self.waiting
        if len(waiting) == 1 and len(waiting[0]) <= self.slice_bytes:
            return waiting.pop()
        data = b"".join(waiting)
        waiting.clear()
        if len(data) > self.slice_bytes:
            waiting.append(data[self.slice_bytes :])
            data = data[: self.slice_bytes]
        return data

    def silence(self, why: int) -> None:
        """Read no more until `listen` for the same reason."""
        if not self.silenced and self.lost is None and not self.transport.is_closing():
            self.transport.pause_reading()
        self.silenced |= why
        self.lane = None

    def listen(self, why: int) -> None:
        if self.silenced & why:
            self.silenced &= ~why
            if not self.silenced and self.lost is None and not self.transport.is_closing():
                self.transport.resume_reading()
            if self.waiting and not self.queued and not self.silenced & ~TURN:
                self._clients.queue(self)

    def ease(self, now: float) -> None:
        """Have what comes alone acknowledged with what comes next; asked for again and again."""
        if now < self._ease_at or QUICKACK is None:
            return
        beneath = cast("socket.socket | None", self.transport.get_extra_info("socket"))
        if beneath is not None and not self.transport.is_closing():
            if beneath.getsockopt(socket.IPPROTO_TCP, QUICKACK):
                beneath.setsockopt(socket.IPPROTO_TCP, QUICKACK, 0)
                self._ease_s *= 2
            else:
                self._ease_s = EASE_S
        self._ease_at = now + self._ease_s

    def shut(self) -> None:
        """Send what is left, then close. Nothing more is told of it."""
        self.open = False
        self.lane = None
        self.waiting.clear()
        transport = self.transport
        if self.lost is not None or transport.is_closing():
            return
        if self.silenced:
            transport.resume_reading()
        if transport.can_write_eof():
            # What the client still sends is read and left: closing over unread bytes would reset the
            # connection, and the client would never see why.
            try:
                transport.write_eof()
            except OSError:
                transport.abort()  # the client has cut it, and the loop has not told us yet
        else:
            transport.close()
        self._cut_later()

    def _cut_later(self) -> None:
        # A transport that is aborted may drop what waits before it tells, and nothing may come behind that.
        self.descriptor = sending.NOBODY
        if self.closing is None:
            self.closing = asyncio.get_running_loop().call_later(CLOSE_WITHIN_S, self.transport.abort)


class Clients:
    """All MQTT clients of a node."""

    def __init__(self, owner: Owner, *, users: Users | None, anonymous: bool) -> None:
        """`users` is None where there is no file of them."""
        self.by_number: dict[int, Client] = {}
        self.connections = 0
        """With those that have not finished their handshake, and those that are being closed."""
        self.by_host: dict[str, int] = {}
        """How many of them there are from each address."""
        self.users = users
        self.anonymous = anonymous
        self.clock_offset = owner.clock_offset
        self.on_bug = owner.on_bug
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._said: list[m.ClientEvent] = []
        self._ready: list[Client] = []
        self._scheduled = False
        self._sending = False
        self._settling = False
        self._pool: ThreadPoolExecutor | None = None
        self._checks = Checks()
        self._checking = 0
        self._checks_timer: asyncio.TimerHandle | None = None
        self.carry: dict[type, Callable[..., None]] = {
            m.Distribute: self._distribute,
            m.Transmit: self._transmit,
            m.CloseClient: self._shut,
            m.CheckPassword: self._verify,
            m.PauseReading: lambda effect: self._silence(effect.connection, QUIET),
            m.ResumeReading: lambda effect: self._listen(effect.connection, QUIET),
        }
        """How each effect is carried out."""

    # What connections tell.

    def admit(self, host: str) -> None:
        """Count a connection that was accepted."""
        self.connections += 1
        self.by_host[host] = self.by_host.get(host, 0) + 1

    def dismiss(self, host: str) -> None:
        """It is gone."""
        self.connections -= 1
        left = self.by_host.pop(host) - 1
        if left:
            self.by_host[host] = left

    def on_made(self, client: Client) -> None:
        transport = client.transport
        name = transport.get_extra_info("peername")
        peer = addresses.write(*name[:2]) if isinstance(name, tuple) else str(name)
        if client.listener == PLAIN:
            with contextlib.suppress(OSError):  # it may be gone already
                client.descriptor = cast("socket.socket", transport.get_extra_info("socket")).fileno()
        certificate = cast("dict[str, object] | None", transport.get_extra_info("peercert"))
        self.by_number[client.number] = client
        self.say(m.ClientConnected(client.number, peer, tls.certified(certificate), client.listener))

    def on_lost(self, client: Client, reason: str) -> None:
        client.lost = reason
        client.descriptor = sending.NOBODY
        self.dismiss(client.host)
        if client.closing is not None:
            client.closing.cancel()
        if client.open:
            client.silenced = 0
            if client.waiting:
                # The last that it said comes first: it may be that it goes.
                if not client.queued:
                    self.queue(client)
            else:
                self._bury(client)

    def express(self, client: Client, data: bytes) -> int:
        """Pass on what needs no thought, and send it at the end of the turn; how many bytes it was."""
        client.lane = None
        owner = self._owner
        try:
            now = owner.now()
            passed = owner.front.express(client.number, data, now)
            if passed == len(data):
                self._keep_lane(client, owner.front.lane(client.number), now)
        except Exception as error:
            owner.on_bug(error)
            raise
        if passed and not self._sending:
            self._sending = True
            self._loop.call_soon(self._send)
        return passed

    def _keep_lane(self, client: Client, lane: Lane | None, now: float) -> None:
        """Remember how bytes were passed on, if those that are like them can be written at once."""
        if lane is not None and len(lane.clients) <= RECEIVERS_MAX:
            receivers = [self.by_number.get(number) for number in lane.connections]
            known = tuple([one for one in receivers if one is not None and one.listener in DIRECT])
            if len(known) == len(receivers):
                client.lane, client.receivers = lane, known
                client.repeat = self._owner.front.repeat
                client.ease(now)

    def settle_soon(self) -> None:
        """Have the front settle what was passed on, when it has been sent."""
        if not self._settling:
            self._settling = True
            self._loop.call_soon(self._settle)

    def _settle(self) -> None:
        self._settling = False
        try:
            self._owner.front.settle()
        except Exception as error:
            self._owner.on_bug(error)
            raise

    def _send(self) -> None:
        self._sending = False
        try:
            effects = self._owner.front.take()
        except Exception as error:
            self._owner.on_bug(error)
            raise
        for effect in effects:
            self._transmit(effect)

    def say(self, event: m.ClientEvent) -> None:
        """Told to the front in the next turn, before what clients have sent: never from inside of what the
        front is just telling us.
        """
        self._said.append(event)
        self._wake()

    def queue(self, client: Client) -> None:
        client.queued = True
        client.lane = None
        self._ready.append(client)
        self._wake()

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _bury(self, client: Client) -> None:
        client.open = False
        client.lane = None
        self.by_number.pop(client.number, None)
        self.say(m.ClientLost(client.number, client.lost or "closed"))

    # Whose turn it is.

    def hear(self) -> None:
        """Tell the front now what clients have sent. Acknowledgements make room for what comes over links."""
        if self._scheduled:
            self._turn()

    def _turn(self) -> None:
        """Tell the front what clients have sent, for a while; then others have their turn."""
        self._scheduled = False
        events, self._said = self._said, []
        ready, self._ready = self._ready, []
        count, at = len(ready), 0
        now = monotonic()
        until = now + TURN_S
        late: list[Client] = []
        while (at < count or events) and now < until:
            heard: list[Client] = []
            size = 0
            while at < count:
                client = ready[at]
                if size and size + min(client.slice_bytes, sum(map(len, client.waiting))) > GROUP_BYTES:
                    break
                at += 1
                if not client.open or not self._may_speak(client):
                    client.queued = False
                    continue
                data = client.take()
                size += len(data)
                events.append(m.BytesReceived(client.number, data, client.lost is not None))
                heard.append(client)
            started = thread_time()
            self._owner.tell_all(events)
            events = []
            # CPU time, because a client is not more expensive if other processes run meanwhile.
            self._measure(heard, thread_time() - started)
            now = monotonic()
            for client in heard:
                if client.waiting:
                    late.append(client)
                else:
                    client.queued = False
                    if client.lost is not None and client.open:
                        self._bury(client)
                    elif client.silenced & TURN:
                        client.listen(TURN)
        for client in late:
            client.silence(TURN)
        for client in ready[at:]:
            client.silence(TURN)
        if at < count or late:
            self._ready = [*ready[at:], *late, *self._ready]
            self._wake()

    @staticmethod
    def _may_speak(client: Client) -> bool:
        return client.lost is not None or not client.silenced & ~TURN

    def _measure(self, heard: list[Client], took_s: float) -> None:
        if took_s > TURN_S:
            for client in heard:
                client.slice_bytes = max(SLICE_BYTES_MIN, int(client.slice_bytes * TURN_S / took_s))
                client.cheap = 0
        elif took_s < TURN_S / 4:
            for client in heard:
                client.cheap += 1
                if client.slice_bytes < SLICE_BYTES_USUAL or client.cheap > CHEAP_IN_A_ROW:
                    client.slice_bytes = min(SLICE_BYTES_MAX, 2 * client.slice_bytes)

    # What the front wants.

    def _distribute(self, effect: m.Distribute) -> None:
        nobody = sending.NOBODY
        clients = [self.by_number.get(number) for number in effect.connections]
        descriptors = [
            nobody
            if one is None or one.descriptor == nobody or one.transport.get_write_buffer_size()
            else one.descriptor
            for one in clients
        ]
        if not sending.ready() or max(descriptors) == nobody:
            for transmit in effect.transmits():
                self._transmit(transmit)
            return
        missing = sending.deliver(effect.data, effect.dealt, descriptors)
        if missing:
            shares = effect.dealt.stretches(effect.data, list(missing))
            for (taker, sent), share in zip(missing.items(), shares, strict=True):
                # What the system has no room for will wait: not with all that it was laid out with.
                rest = share if descriptors[taker] == nobody else bytes(share[sent:])
                self._transmit(m.Transmit(effect.connections[taker], [rest]))

    def _transmit(self, effect: m.Transmit) -> None:
        client = self.by_number.get(effect.connection)
        if client is not None and client.lost is None:
            chunks, transport = effect.chunks, client.transport
            data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            if type(data) is memoryview and transport.get_write_buffer_size():
                # It will wait behind other things: not with all that it was laid out with.
                data = bytes(data)
            transport.write(data)

    def _shut(self, effect: m.CloseClient) -> None:
        client = self.by_number.pop(effect.connection, None)
        if client is not None:
            client.shut()

    def _silence(self, number: int, why: int) -> None:
        client = self.by_number.get(number)
        if client is not None:
            client.silence(why)

    def _listen(self, number: int, why: int) -> None:
        client = self.by_number.get(number)
        if client is not None:
            client.listen(why)

    # Names and passwords.

    def _verify(self, effect: m.CheckPassword) -> None:
        number, name, password = effect.connection, effect.username, effect.password
        client, users = self.by_number.get(number), self.users
        if users is None:
            # Where nobody has a password, a name says nothing.
            self.say(m.ClientVerified(number, "" if self.anonymous else None))
        elif users.known(name, password):
            self.say(m.ClientVerified(number, name))
        elif users.wrong(name, password):
            self.say(m.ClientVerified(number, None))
        elif client is not None:
            client.silence(CHECKED)
            known = name if name in users.hashes else NOBODY
            for other in self._checks.add(number, client.host, known, password, monotonic()):
                self._owner.counters.checks_refused += 1
                self._answer(m.ClientVerified(other, None, busy=True))
            self._check()

    def _check(self) -> None:
        """Begin as many checks as can be made at once."""
        users = self.users
        while self._checking < CHECKS_AT_ONCE and (check := self._checks.next(monotonic())) is not None:
            if users is None or not any(number in self.by_number for number in check.connections):
                # There are no passwords any more, or nobody who waits for it.
                self._checks.drop(check)
                self._decide(check, "" if self.anonymous else None)
                continue
            if self._pool is None:
                self._pool = ThreadPoolExecutor(CHECKS_AT_ONCE, thread_name_prefix="passwords")
            self._checking += 1
            checked = self._pool.submit(users.check, check.name, check.password)
            checked.add_done_callback(partial(self._checked, check, users))
        if self._checks_timer is not None:
            self._checks_timer.cancel()
            self._checks_timer = None
        if self._checking < CHECKS_AT_ONCE and (at := self._checks.wake_at(monotonic())) is not None:
            self._checks_timer = self._loop.call_later(max(0.0, at - monotonic()), self._check)

    def _checked(self, check: Check, users: Users, checked: Future[bool]) -> None:
        # On a thread, which may outlive the loop by the one check that it is at.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._verified, check, users, checked)

    def _verified(self, check: Check, users: Users, checked: Future[bool]) -> None:
        self._checking -= 1
        if checked.cancelled():
            return
        # The user may have been removed meanwhile, or been given another password.
        now = self.users
        same = now is not None and now.hashes.get(check.name) == users.hashes.get(check.name)
        fits = same and checked.result()
        self._checks.done(check, fits, monotonic())
        if not fits and check.name != NOBODY:
            users.remember_wrong(check.name, check.password)
        self._decide(check, check.name if fits else None)
        self._check()

    def _decide(self, check: Check, user: str | None) -> None:
        for number in check.connections:
            self._answer(m.ClientVerified(number, user))

    def _answer(self, verified: m.ClientVerified) -> None:
        if verified.connection in self.by_number:
            self.say(verified)
            self._listen(verified.connection, CHECKED)

    # The end.

    def close(self) -> None:
        """Close what is left; nothing more is told."""
        for client in list(self.by_number.values()):
            client.shut()
        self.by_number.clear()
        if self._checks_timer is not None:
            self._checks_timer.cancel()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
