"""One connection: bytes in, frames out of them; frames in, bytes out of them.

What is sent in one turn of the event loop goes out as one write at the end of it. Who is at the other end,
and what the frames mean, is not known here.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from tidings.live import addresses
from tidings.live.counters import Counters
from tidings.overlay.frames import Frame
from tidings.wire.attachment import Word
from tidings.wire.framing import Decoder, Encoder, Speech

WRITE_BYTES = 256 * 1024
"""Words for a program that are written at once, at most: behind this, it is seen whether it keeps up."""

CLOSE_WITHIN_S = 5.0
"""A connection that is closed may take so long to send what is left; then it is cut."""


class Owner(Protocol):
    """Who is told of what happens on a connection."""

    counters: Counters

    def connected(self, connection: Connection) -> None: ...

    def received(self, connection: Connection, frames: list[Frame]) -> None: ...

    def lost(self, connection: Connection, reason: str) -> None: ...

    def writable(self, connection: Connection) -> None: ...

    def flush_soon(self, connection: Connection) -> None:
        """Call `connection.flush` at the end of this turn."""


class Connection(asyncio.Protocol):
    """A TCP connection, with or without TLS, to a broker or a program."""

    def __init__(self, owner: Owner, number: int, address: str | None, attachment_bytes_max: int) -> None:
        self.number = number
        self.address = address
        """What was dialled; None if the other side dialled."""
        self.nonce = b""
        """What the other side has to sign."""
        self.open = False
        """Whether anything may still be sent and heard."""
        self.congested = False
        """Whether more should be sent only when `writable` is told."""
        self.peer = ""
        """The address of the other side, for logs."""
        self.decoder = Decoder(attachment_bytes_max=attachment_bytes_max)
        self._owner = owner
        self._counters = owner.counters
        self._encoder = Encoder()
        self._attachment_bytes_max = attachment_bytes_max
        self._words: list[Word] = []
        self._words_bytes = 0
        self._kinds: list[type] = []
        self._frames_counted = 0
        self._flushing = False
        self._silenced: set[str] = set()

    @property
    def attached(self) -> bool:
        """Whether a program is at the other end, not a broker."""
        return self.decoder.speech is Speech.ATTACHMENT

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
        if not self.attached:
            counters = self._counters
            counters.bytes_in += len(data)
            counters.frames_in += len(frames)
            for frame in frames:
                counters.kinds_in.update(map(type, frame.messages))
        if frames:
            self._owner.received(self, frames)
        if self.decoder.fault is not None and self.open:
            self._counters.faults += 1
            reason = f"malformed bytes: {self.decoder.fault}"
            self.abort()
            self._owner.lost(self, reason)

    def connection_lost(self, error: Exception | None) -> None:
        if self.open:
            self.open = False
            self._owner.lost(self, str(error) if error else "closed by the other side")

    def pause_writing(self) -> None:
        self.congested = True
        if self.attached:
            self.silence("slow")

    def resume_writing(self) -> None:
        self.congested = False
        if self.open:
            self.listen("slow")
            self._owner.writable(self)

    # What a node calls.

    def send(self, frame: Frame) -> None:
        """To a broker."""
        self._encoder.add(frame)
        self._kinds += map(type, frame.messages)
        if not self._flushing:
            self._flushing = True
            self._owner.flush_soon(self)

    def attach(self) -> None:
        """A program has been heard: it takes smaller frames than a broker."""
        self._encoder = Encoder(frame_bytes_max=self._attachment_bytes_max)

    def say(self, word: Word, size: int = 0) -> None:
        """To a program. `size` is about what it takes."""
        self._words.append(word)
        self._words_bytes += size
        if self._words_bytes > WRITE_BYTES:
            self.flush()
        elif not self._flushing:
            self._flushing = True
            self._owner.flush_soon(self)

    def flush(self) -> None:
        self._flushing = False
        encoder = self._encoder
        if self._words:
            encoder.add(Frame(0, 0, tuple(self._words)))
            self._words.clear()
            self._words_bytes = 0
        data = encoder.take()
        if not self.open or not data:
            return
        if not self.attached:
            counters = self._counters
            counters.frames_out += encoder.frames - self._frames_counted
            self._frames_counted = encoder.frames
            counters.bytes_out += len(data)
            counters.kinds_out.update(self._kinds)
            self._kinds.clear()
        self.transport.write(data)

    def silence(self, why: str) -> None:
        """Read no more until `listen` for the same reason."""
        if not self._silenced and self.open:
            self.transport.pause_reading()
        self._silenced.add(why)

    def listen(self, why: str) -> None:
        if why in self._silenced:
            self._silenced.remove(why)
            if not self._silenced and self.open:
                self.transport.resume_reading()

    def close(self) -> None:
        """Send what is left, then close; nothing more is heard, and `lost` is not told."""
        if self.open:
            self.flush()
            self.open = False
            self.transport.close()
            asyncio.get_running_loop().call_later(CLOSE_WITHIN_S, self.transport.abort)

    def drop(self, reason: str) -> None:
        """Send what is left, then close; `lost` is told in the next turn."""
        if self.open:
            self.close()
            asyncio.get_running_loop().call_soon(self._owner.lost, self, reason)

    def abort(self) -> None:
        """Close at once; `lost` is not told."""
        if self.open:
            self.open = False
            self.transport.abort()
