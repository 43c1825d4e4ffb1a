"""TLS below a client: a layer between a connection and what speaks over it, to either of which it looks like
the other.

Why not the loop's own: uvloop 0.23 keeps some 20 KiB of every TLS connection that its client cuts, for ever,
and asyncio's takes 300 KiB for each that is open (docs/design/0011). And handshakes, which take half a
millisecond each, have their turn here: when thousands connect at once, those who are connected do not wait
for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import deque
from typing import Protocol, cast

SLICE_BYTES = 16 * 1024
"""What is encrypted or decrypted in one go: a record of TLS. Buffers of OpenSSL grow to this, and stay."""

HANDSHAKE_BYTES_MAX = 128 * 1024
"""What a client may say while it waits for its turn: certificates, and the first packets behind them."""

TURN_S = 0.01
"""How long handshakes are worked at before others have their turn."""


class Keeper(Protocol):
    """Who hears how a handshake ends. One of the two is told, once."""

    def secured(self) -> None: ...

    def unsecured(self, reason: str) -> None:
        """The connection is gone, or as good as gone."""


class Handshakes:
    """Handshakes that can go on, one after the other."""

    def __init__(self) -> None:
        self._waiting: deque[Secure] = deque()
        self._loop = asyncio.get_running_loop()

    def queue(self, secure: Secure) -> None:
        if not self._waiting:
            self._loop.call_soon(self._turn)
        self._waiting.append(secure)

    def _turn(self) -> None:
        until = time.monotonic() + TURN_S
        waiting = self._waiting
        while waiting and time.monotonic() < until:
            waiting.popleft().shake_hands()
        if waiting:
            self._loop.call_soon(self._turn)


class Secure(asyncio.Protocol):
    """TLS below a client."""

    def __init__(
        self,
        above: asyncio.Protocol,
        context: ssl.SSLContext,
        handshakes: Handshakes,
        keeper: Keeper,
        within_s: float,
    ) -> None:
        """The handshake may take so many seconds; `above` hears of the connection when it is done."""
        self._above: asyncio.Protocol | None = above
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._handshakes = handshakes
        self._keeper: Keeper | None = keeper
        self._within_s = within_s
        self._queued = False
        self._closed = False
        """Whether nothing more is heard and said."""
        self._ended = False
        """Whether the client has said that nothing more comes."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._late = asyncio.get_running_loop().call_later(
            self._within_s, self._fail, "no TLS handshake in time"
        )

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        if self._keeper is not None:
            self._incoming.write(data)
            if self._incoming.pending > HANDSHAKE_BYTES_MAX:
                self._fail("too much is said before the TLS handshake is done")
            elif not self._queued:
                self._queued = True
                self._handshakes.queue(self)
            return
        if len(data) <= SLICE_BYTES:
            self._incoming.write(data)
            self._hear(self._decrypted())
            return
        view, parts = memoryview(data), []
        for at in range(0, len(data), SLICE_BYTES):
            self._incoming.write(view[at : at + SLICE_BYTES])
            parts.append(self._decrypted())
        self._hear(b"".join(parts))

    def eof_received(self) -> None:
        if self._keeper is None and self._above is not None:
            self._above.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._late.cancel()
        self._closed = True
        above, self._above = self._above, None
        if self._keeper is not None:
            self._end_handshake().unsecured(str(error) if error else "closed during the TLS handshake")
        elif above is not None:
            above.connection_lost(error)

    def pause_writing(self) -> None:
        if self._keeper is None and self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._keeper is None and self._above is not None:
            self._above.resume_writing()

    # What is asked of a connection.

    def write(self, data: bytes) -> None:
        if self._closed or self._transport.is_closing():
            return
        try:
            if len(data) <= SLICE_BYTES:
                self._ssl.write(data)
                self._transport.write(self._outgoing.read())
                return
            view, parts = memoryview(data), []
            for at in range(0, len(data), SLICE_BYTES):
                self._ssl.write(view[at : at + SLICE_BYTES])
                parts.append(self._outgoing.read())
            self._transport.write(b"".join(parts))
        except ssl.SSLError:
            # The client's fault, whatever it is: nothing of it may reach whoever writes.
            self.abort()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Say that nothing more comes. What the client still sends is read, and left."""
        self._say_goodbye()
        if self._transport.can_write_eof() and not self._transport.is_closing():
            self._transport.write_eof()

    def close(self) -> None:
        self._say_goodbye()
        self._transport.close()

    def abort(self) -> None:
        self._closed = True
        self._transport.abort()

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "peercert":
            return self._ssl.getpeercert()
        return self._transport.get_extra_info(name, default)

    # TLS.

    def shake_hands(self) -> None:
        """Go on with the handshake, as far as the client has said its part."""
        self._queued = False
        if self._closed or self._keeper is None:
            return
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._flush()  # tells the client why
            self._fail(error.reason or str(error))
            return
        self._flush()
        self._late.cancel()
        self._end_handshake().secured()
        above = self._above
        assert above is not None, "a connection that is not lost has somebody above"
        above.connection_made(cast("asyncio.BaseTransport", self))
        self._hear(self._decrypted())

    def _end_handshake(self) -> Keeper:
        keeper, self._keeper = self._keeper, None
        assert keeper is not None, "a handshake ends once"
        return keeper

    def _fail(self, reason: str) -> None:
        if self._keeper is not None:
            self._closed = True
            self._above = None
            self._end_handshake().unsecured(reason)
            self._transport.close()

    def _decrypted(self) -> bytes:
        """All that can be read of what has come."""
        parts: list[bytes] = []
        try:
            while data := self._ssl.read(SLICE_BYTES):
                parts.append(data)
            self._ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self._closed = True
            self._transport.abort()
        if self._outgoing.pending:
            self._flush()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _hear(self, data: bytes) -> None:
        if data and self._above is not None:
            self._above.data_received(data)
        if self._ended and not self._closed and self._above is not None:
            self._above.eof_received()
            self.close()

    def _say_goodbye(self) -> None:
        if not self._closed:
            self._closed = True
            # It would wait for the client's goodbye; we do not.
            with contextlib.suppress(ssl.SSLError):
                self._ssl.unwrap()
            self._flush()

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data and not self._transport.is_closing():
            self._transport.write(data)
