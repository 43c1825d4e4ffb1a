"""TLS below a client: a layer between a connection and what speaks over it, to either of which it looks like
the other.

Why not the loop's own: uvloop 0.23 keeps some 20 KiB of every TLS connection that its client cuts, for ever,
and asyncio's takes 300 KiB for each that is open (docs/design/0011). And handshakes, which take half a
millisecond each, have their turn here: when thousands connect at once, only some of them shake hands at a
time, the others wait unread, and those who are connected notice little of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import cast

SLICE_BYTES = 16 * 1024
"""What is encrypted or decrypted in one go: a record of TLS. Buffers of OpenSSL grow to this, and stay."""

HANDSHAKE_BYTES_MAX = 128 * 1024
"""What a client may say during the handshake: certificates, and the first packets behind them."""

GREETING_BYTES_MAX = 16 * 1024
"""And before it begins: a record of TLS."""

TURN_S = 0.01
"""How long handshakes are worked at before others have their turn."""


AT_ONCE = 64
"""Handshakes under way. Each takes OpenSSL some 50 KiB for a moment, which the process keeps: with 256 at
once an idle connection had 38 KiB in the end, with 64 it has 16, and with 16 no less. More are not faster."""

SLOT_S = 0.5
"""A handshake that takes longer waits for the client, not for us, and no longer counts: a few clients that
say nothing must not keep the others out."""


class Handshakes:
    """Whose turn it is to shake hands."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Secure] = deque()
        """Those that have not begun."""
        self._speaking: deque[Secure] = deque()
        """Those that have, and whose client has said something."""
        self._unfinished: dict[Secure, None] = {}
        self.under_way = 0

    def admit(self, secure: Secure) -> None:
        """Let it begin, now or when there is room."""
        self._unfinished[secure] = None
        self._waiting.append(secure)
        self._begin()

    def finished(self, secure: Secure) -> None:
        """Its handshake is done, or never will be."""
        self._unfinished.pop(secure, None)

    def close(self) -> None:
        """End them all."""
        for secure in list(self._unfinished):
            secure.abort()

    def free(self) -> None:
        """One of those that have begun counts no longer."""
        self.under_way -= 1
        self._begin()

    def _begin(self) -> None:
        while self._waiting and self.under_way < AT_ONCE:
            self.under_way += self._waiting.popleft().begin()

    def go_on(self, secure: Secure) -> None:
        """Its client has said something."""
        if not self._speaking:
            self._loop.call_soon(self._turn)
        self._speaking.append(secure)

    def _turn(self) -> None:
        until = time.monotonic() + TURN_S
        speaking = self._speaking
        while speaking and time.monotonic() < until:
            speaking.popleft().shake_hands()
        if speaking:
            self._loop.call_soon(self._turn)


class Secure(asyncio.Protocol):
    """TLS below a client."""

    def __init__(
        self,
        above: asyncio.Protocol,
        context: ssl.SSLContext,
        handshakes: Handshakes,
        failed: Callable[[str], None],
        within_s: float,
    ) -> None:
        """`above` hears of the connection when the handshake is done, which may take so many seconds;
        `failed` hears why it will not be.
        """
        self._above: asyncio.Protocol | None = above
        self._context = context
        self._handshakes = handshakes
        self._failed = failed
        self._within_s = within_s
        self._early: bytes | None = b""
        """What is said before the handshake begins; None when it has."""
        self._done = False
        """Whether the handshake is."""
        self._slot: asyncio.TimerHandle | None = None
        """While it counts as under way."""
        self._late: asyncio.TimerHandle | None = None
        self._queued = False
        self._closed = False
        """Whether nothing more is heard and said."""
        self._ended = False
        """Whether the client has said that nothing more comes."""

    def begin(self) -> bool:
        """There is room for this handshake; whether it is still wanted."""
        if self._closed or self._transport.is_closing():
            return False
        loop = asyncio.get_running_loop()
        self._slot = loop.call_later(SLOT_S, self._give_back)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._late = loop.call_later(self._within_s, self._fail, "no TLS handshake in time")
        early, self._early = self._early, None
        if early:
            self._transport.resume_reading()
            self.data_received(early)
        return True

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._handshakes.admit(self)

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        if self._early is not None:
            # Its turn has not come. No client says more than its greeting before it is answered.
            self._early += data
            self._transport.pause_reading()
            if len(self._early) > GREETING_BYTES_MAX:
                self._fail("too much is said before the TLS handshake")
            return
        if not self._done:
            self._incoming.write(data)
            if self._incoming.pending > HANDSHAKE_BYTES_MAX:
                self._fail("too much is said before the TLS handshake is done")
            elif not self._queued:
                self._queued = True
                self._handshakes.go_on(self)
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
        if self._done and self._above is not None:
            self._above.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        above = self._above
        self._fail(str(error) if error else "closed during the TLS handshake")
        self._closed = True
        self._above = None
        if self._done and above is not None:
            above.connection_lost(error)

    def pause_writing(self) -> None:
        if self._done and self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._done and self._above is not None:
            self._above.resume_writing()

    # What is asked of a connection.

    def write(self, data: bytes | memoryview) -> None:
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

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

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
        self._fail("cut")
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
        if self._closed:
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
        self._done = True
        self._handshakes.finished(self)
        self._give_back()
        assert self._above is not None, "a connection that is not lost has somebody above"
        self._above.connection_made(cast("asyncio.BaseTransport", self))
        self._hear(self._decrypted())

    def _give_back(self) -> None:
        """It counts no longer as under way."""
        if self._slot is not None:
            self._slot.cancel()
            self._slot = None
            self._handshakes.free()
        if self._late is not None and (self._done or self._closed):
            self._late.cancel()

    def _fail(self, reason: str) -> None:
        """It will not be made, unless it is already; told once."""
        if not self._done and not self._closed:
            self._closed = True
            self._above = self._early = None
            self._handshakes.finished(self)
            self._give_back()
            self._failed(reason)
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
