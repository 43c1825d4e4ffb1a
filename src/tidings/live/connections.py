"""One connection between brokers: bytes in, frames out of them; frames in, bytes out of them.

What is sent in one turn of the event loop goes out as one write at the end of it. What the frames mean is
not known here.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from tidings.live.counters import Counters
from tidings.overlay.frames import Frame
from tidings.service import addresses
from tidings.wire.framing import Decoder, Encoder

CLOSE_WITHIN_S = 5.0
"""A connection that is closed may take so long to send what is left; then it is cut."""


class Owner(Protocol):
    """Who is told of what happens on a connection."""

    counters: Counters

    def connected(self, connection: Connection) -> None: ...

    def received(self, connection: Connection, frames: list[Frame]) -> None: ...

    def lost(self, connection: Connection, reason: str) -> None: ...

    def flush_soon(self, connection: Connection) -> None:
        """Call `connection.flush` at the end of this turn."""


class Connection(asyncio.Protocol):
    """A TCP connection, with or without TLS, to another broker."""

    def __init__(self, owner: Owner, number: int, address: str | None) -> None:
        self.number = number
        self.address = address
        """What was dialled; None if the other side dialled."""
        self.nonce = b""
        """What the other side has to sign."""
        self.open = False
        """Whether anything may still be sent and heard."""
        self.peer = ""
        """The address of the other side, for logs."""
        self.decoder = Decoder()
        self._owner = owner
        self._counters = owner.counters
        self._encoder = Encoder()
        self._kinds: list[type] = []
        self._frames_counted = 0
        self._flushing = False
        self._silenced = False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.open = True
        name = transport.get_extra_info("peername")
        self.peer = addresses.write(*name[:2]) if isinstance(name, tuple) else str(name)
        self._owner.connected(self)

    def data_received(self, data: bytes) -> None:
        if not self.open:
            return
        frames = self.decoder.feed(data)
        counters = self._counters
        counters.bytes_in += len(data)
        counters.frames_in += len(frames)
        for frame in frames:
            counters.kinds_in.update(map(type, frame.messages))
        if frames:
            self._owner.received(self, frames)
        if self.decoder.fault is not None and self.open:
            counters.faults += 1
            reason = f"malformed bytes: {self.decoder.fault}"
            self.abort()
            self._owner.lost(self, reason)

    def connection_lost(self, error: Exception | None) -> None:
        if self.open:
            self.open = False
            self._owner.lost(self, str(error) if error else "closed by the other side")

    # What a node calls.

    def send(self, frame: Frame) -> None:
        self._encoder.add(frame)
        self._kinds += map(type, frame.messages)
        if not self._flushing:
            self._flushing = True
            self._owner.flush_soon(self)

    def flush(self) -> None:
        self._flushing = False
        encoder = self._encoder
        data = encoder.take()
        if not self.open or not data:
            return
        counters = self._counters
        counters.frames_out += encoder.frames - self._frames_counted
        self._frames_counted = encoder.frames
        counters.bytes_out += len(data)
        counters.kinds_out.update(self._kinds)
        self._kinds.clear()
        self.transport.write(data)

    def silence(self) -> None:
        """Read no more until `listen`."""
        if not self._silenced and self.open:
            self.transport.pause_reading()
        self._silenced = True

    def listen(self) -> None:
        if self._silenced:
            self._silenced = False
            if self.open:
                self.transport.resume_reading()

    def close(self) -> None:
        """Send what is left, then close; nothing more is heard, and `lost` is not told."""
        if self.open:
            self.flush()
            self.open = False
            self.transport.close()
            asyncio.get_running_loop().call_later(CLOSE_WITHIN_S, self.transport.abort)

    def abort(self) -> None:
        """Close at once; `lost` is not told."""
        if self.open:
            self.open = False
            self.transport.abort()
