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
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import monotonic, thread_time
from typing import Protocol, cast

from tidings.live.connections import CLOSE_WITHIN_S
from tidings.live.counters import Counters
from tidings.mqtt import events as m
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


class Owner(Protocol):
    """Who is told what happens."""

    counters: Counters

    def tell_all(self, events: Sequence[m.ClientEvent]) -> None: ...


class Client(asyncio.Protocol):
    """One connection of an MQTT client. What asyncio calls; what it means is decided in `Clients`."""

    __slots__ = (
        "_clients",
        "cheap",
        "closing",
        "host",
        "listener",
        "lost",
        "number",
        "open",
        "queued",
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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("Transport", transport)
        self._clients.on_made(self)

    def data_received(self, data: bytes) -> None:
        if self.open:
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

    def listen(self, why: int) -> None:
        if self.silenced & why:
            self.silenced &= ~why
            if not self.silenced and self.lost is None and not self.transport.is_closing():
                self.transport.resume_reading()
            if self.waiting and not self.queued and not self.silenced & ~TURN:
                self._clients.queue(self)

    def shut(self) -> None:
        """Send what is left, then close. Nothing more is told of it."""
        self.open = False
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
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._said: list[m.ClientEvent] = []
        self._ready: list[Client] = []
        self._scheduled = False
        self._pool: ThreadPoolExecutor | None = None
        self._checks = Checks()
        self._checking = 0
        self._checks_timer: asyncio.TimerHandle | None = None
        self.carry: dict[type, Callable[..., None]] = {
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
        certificate = cast("dict[str, object] | None", transport.get_extra_info("peercert"))
        self.by_number[client.number] = client
        self.say(m.ClientConnected(client.number, peer, tls.certified(certificate), client.listener))

    def on_lost(self, client: Client, reason: str) -> None:
        client.lost = reason
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

    def say(self, event: m.ClientEvent) -> None:
        """Told to the front in the next turn, before what clients have sent: never from inside of what the
        front is just telling us.
        """
        self._said.append(event)
        self._wake()

    def queue(self, client: Client) -> None:
        client.queued = True
        self._ready.append(client)
        self._wake()

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _bury(self, client: Client) -> None:
        client.open = False
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
