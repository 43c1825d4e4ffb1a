"""Where MQTT clients come in: sockets, limits, and how many are let in at a time.

When thousands connect at once nobody is refused: they are accepted as fast as they come, and those with TLS
wait for their turn to shake hands (`secure`). Whoever is beyond a limit on connections is closed without a
word, since nothing can be said before a CONNECT is read. What a client says is not known here.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tidings.errors import SetupError
from tidings.live.clients import Client, Clients
from tidings.live.secure import Handshakes, Secure
from tidings.service import addresses
from tidings.service.logs import LOGGER

BACKLOG = 16_384
"""Connections that the kernel holds until they are accepted; it may allow less (`net.core.somaxconn`)."""

ACCEPT_AT_ONCE = 32
"""Connections that are accepted in one turn: each takes about 50 µs."""

ACCEPT_AGAIN_S = 0.5
"""How long to wait where no connection can be accepted."""

LOG = logging.getLogger(LOGGER)


@dataclass(frozen=True, slots=True)
class Listening:
    """One place to listen at."""

    kind: str
    """"tcp", "tls", "ws" or "wss"."""

    host: str
    port: int
    """0 for a free one."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Who is let in."""

    connections_max: int
    per_host_max: int
    """0 for any."""

    handshake_within_s: float
    packet_bytes_max: int
    origins: tuple[str, ...] = ()
    """Web pages that may connect by WebSocket; any, if there are none."""


class Listeners:
    """The listeners of one node: bound at once, so that what is wrong is told at the start; opened later."""

    def __init__(
        self,
        listening: Sequence[Listening],
        admission: Admission,
        context: ssl.SSLContext | None,
        broker: str,
    ) -> None:
        """`context` is for those with TLS; `broker` for the log. SetupError if one cannot be bound."""
        self._admission = admission
        self.context = context
        """For those with TLS; each new connection has the one that is here then."""
        self._broker = broker
        self._sockets: list[tuple[str, socket.socket]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._handshakes = Handshakes()
        self._resting: list[tuple[str, socket.socket]] = []
        """Those from which nothing is accepted at the moment, for want of files."""
        self.refused = 0
        """Connections beyond a limit, and handshakes that failed."""
        self.is_open = False
        try:
            for one in listening:
                self._sockets.append((one.kind, bind(one.host, one.port)))
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> dict[str, str]:
        """Where each kind listens, or will."""
        return {kind: addresses.write(*sock.getsockname()[:2]) for kind, sock in self._sockets}

    def open(self, clients: Clients, number: Callable[[], int]) -> None:
        """Let clients in. `number` gives each connection its own."""
        self._clients = clients
        self._number = number
        self._loop = asyncio.get_running_loop()
        for kind, listener in self._sockets:
            try:
                listener.listen(BACKLOG)
            except OSError as error:
                raise SetupError(
                    f"cannot listen at {addresses.write(*listener.getsockname()[:2])}: {error.strerror}"
                ) from error
            self._loop.add_reader(listener, self._accept, kind, listener)
        self.is_open = True

    def close(self) -> None:
        """Let nobody in any more."""
        for _, listener in self._sockets:
            if self.is_open:
                self._loop.remove_reader(listener)
            listener.close()
        for task in self._tasks:
            task.cancel()
        self._handshakes.close()
        self._sockets.clear()
        self._resting.clear()

    def _accept(self, kind: str, listener: socket.socket) -> None:
        for _ in range(ACCEPT_AT_ONCE):
            try:
                accepted, peer = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._say("no connection can be accepted", reason=str(error))
                    self._rest(kind, listener)
                    self._loop.call_later(ACCEPT_AGAIN_S, self._go_on)
                return
            self._admit(kind, accepted, str(peer[0]))

    def _rest(self, kind: str, listener: socket.socket) -> None:
        self._loop.remove_reader(listener)
        self._resting.append((kind, listener))

    def _go_on(self) -> None:
        resting, self._resting = self._resting, []
        for kind, listener in resting:
            self._loop.add_reader(listener, self._accept, kind, listener)

    def _admit(self, kind: str, accepted: socket.socket, host: str) -> None:
        admission, clients = self._admission, self._clients
        if clients.connections >= admission.connections_max:
            self._turn_away(accepted, host, f"there are {admission.connections_max} clients already")
        elif 0 < admission.per_host_max <= clients.by_host.get(host, 0):
            self._turn_away(accepted, host, f"there are {admission.per_host_max} clients from there already")
        else:
            clients.admit(host)
            task = self._loop.create_task(self._take(kind, accepted, host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _turn_away(self, accepted: socket.socket, host: str, reason: str) -> None:
        self.refused += 1
        self._say("a client is refused", address=host, reason=reason)
        accepted.close()

    async def _take(self, kind: str, accepted: socket.socket, host: str) -> None:
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A client may choose to send no pings: the system finds out that it has gone without a word.
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await self._loop.connect_accepted_socket(lambda: self._protocol(kind, host), accepted)
        except OSError as error:
            self._fail(host, str(error))
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise

    def _protocol(self, kind: str, host: str) -> asyncio.Protocol:
        client = Client(self._clients, self._number(), kind, host)
        protocol: asyncio.Protocol = client
        if kind in ("ws", "wss"):
            from tidings.live.websocket import WebSocket

            protocol = WebSocket(client, self._admission.packet_bytes_max, self._admission.origins)
        if kind in ("tcp", "ws"):
            return protocol
        assert self.context is not None, "a listener with TLS has a certificate"
        failed = partial(self._fail, host)
        return Secure(protocol, self.context, self._handshakes, failed, self._admission.handshake_within_s)

    def _fail(self, host: str, reason: str) -> None:
        """A connection will not be made."""
        self.refused += 1
        self._clients.dismiss(host)
        self._say("a client is refused", address=host, reason=reason)

    def _say(self, text: str, **about: str) -> None:
        LOG.warning(text, extra={"broker": self._broker, "about": about})


def bind(host: str, port: int) -> socket.socket:
    """A socket at an address, not yet listening. SetupError if it cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SetupError(
            f"cannot listen at {addresses.write(host, port)}: {error}; name an address of this machine"
        ) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise SetupError(
            f"cannot listen at {addresses.write(host, port)}: {error.strerror}; name another port, or 0 for a"
            " free one"
        ) from error
    return listener
