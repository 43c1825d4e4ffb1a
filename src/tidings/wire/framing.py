"""Frames as bytes: four of length, big end first, then the frame in MessagePack.

Two state machines without a socket. The encoder writes frames that follow each other as one. The decoder
takes bytes cut anywhere, and trusts none of them: lengths are bounded before anything is kept, types
are checked, and whatever is wrong becomes one `PeerError` in `fault`, after which nothing more is read. What
the messages mean is not known here, with one exception: behind `Welcome` the peer may send large frames.
"""

from __future__ import annotations

import msgspec

from tidings.errors import PeerError
from tidings.overlay.frames import Frame, Message
from tidings.overlay.links.messages import Welcome
from tidings.wire.messages import AnyMessage

LENGTH_BYTES = 4
"""Of the length in front of each frame."""

FRAME_BYTES_MAX = 64 * 1024 * 1024
"""The largest frame that is read from a broker. Those that are written have a few MiB: a publication, or what
links put into one frame (`overlay.links`)."""

GREETING_BYTES_MAX = 64 * 1024
"""The largest frame from a peer that is not welcome yet: a greeting has some hundred."""

FRAME_MESSAGES_MAX = 1024
"""Messages that are written as one frame, at most, by their weight: larger frames gain nothing and arrive
later."""


class _Frame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    first: int
    ack: int
    messages: tuple[AnyMessage, ...] = ()


_READER = msgspec.msgpack.Decoder(_Frame)
_WRITER = msgspec.msgpack.Encoder()


class Encoder:
    """Gathers frames for one connection and gives them as bytes.

    >>> encoder = Encoder()
    >>> encoder.add(Frame(0, 7))
    >>> encoder.take().hex(" ")
    '00 00 00 04 93 00 07 90'
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.frames = 0
        """Frames written so far."""
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()
        # The frame that may still grow: messages numbered from `_first`, if there are any.
        self._first = 0
        self._ack = 0
        self._messages: list[Message] = []
        self._weight = 0

    def add(self, frame: Frame) -> None:
        """Write this frame too, behind those before it."""
        count = len(self._messages)
        weight = sum([message.weight for message in frame.messages])
        if count and (
            not frame.messages
            or (frame.first == self._first + count and self._weight + weight <= FRAME_MESSAGES_MAX)
        ):
            self._messages += frame.messages
            self._weight += weight
            self._ack = frame.ack
            return
        self._close()
        if frame.first and frame.messages:
            self._first, self._ack = frame.first, frame.ack
            self._messages += frame.messages
            self._weight = weight
        else:
            self._write(frame)

    def take(self) -> bytearray:
        """The bytes of all that was added since the last time. They are the caller's."""
        self._close()
        taken, self._buffer = self._buffer, bytearray()
        return taken

    def _close(self) -> None:
        if self._messages:
            self._write(Frame(self._first, self._ack, tuple(self._messages)))
            self._messages.clear()

    def _write(self, frame: Frame) -> None:
        buffer = self._buffer
        start = len(buffer)
        _WRITER.encode_into(frame, buffer, start + LENGTH_BYTES)
        length = len(buffer) - start - LENGTH_BYTES
        if length > self._frame_bytes_max and len(frame.messages) > 1:
            # Rare, since brokers bound what is under way: written again in halves.
            del buffer[start:]
            half = len(frame.messages) // 2
            rest = frame.first + half if frame.first else 0
            self._write(Frame(frame.first, frame.ack, frame.messages[:half]))
            self._write(Frame(rest, frame.ack, frame.messages[half:]))
            return
        buffer[start : start + LENGTH_BYTES] = length.to_bytes(LENGTH_BYTES, "big")
        self.frames += 1


class Decoder:
    """Finds frames in bytes that come in pieces.

    >>> decoder = Decoder()
    >>> decoder.feed(bytes.fromhex("00 00 00 04 93 00")), decoder.feed(bytes.fromhex("07 90"))
    ([], [Frame(first=0, ack=7, messages=())])
    >>> decoder.feed(b"GET / HTTP/1.1")
    []
    >>> print(decoder.fault)
    a frame of 1195725856 bytes; 65536 are allowed here
    """

    def __init__(self) -> None:
        self.fault: PeerError | None = None
        """What the peer did wrong. The frames before it were sound and have been given."""
        self._limit = GREETING_BYTES_MAX
        self._kept = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """The frames that are complete with these bytes."""
        frames: list[Frame] = []
        if self.fault is not None:
            return frames
        kept = self._kept
        if kept:
            kept += data
            with memoryview(kept) as view:
                end = self._read(view, frames)
            del kept[:end]
        else:
            with memoryview(data) as view:
                end = self._read(view, frames)
                kept += view[end:]
        return frames

    def _read(self, view: memoryview, frames: list[Frame]) -> int:
        """Reads what is complete; gives the place behind it. Behind a fault nothing is worth keeping."""
        at, size = 0, len(view)
        while size - at >= LENGTH_BYTES:
            start = at + LENGTH_BYTES
            length = int.from_bytes(view[at:start], "big")
            if length > self._limit:
                self.fault = PeerError(f"a frame of {length} bytes; {self._limit} are allowed here")
                return size
            if size < start + length:
                break
            at = start + length
            frame = self._decode(view[start:at])
            if frame is None:
                return size
            frames.append(frame)
        return at

    def _decode(self, data: memoryview) -> Frame | None:
        try:
            read = _READER.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.fault = PeerError(f"a frame that is not one: {error}")
            return None
        if read.first < 0 or read.ack < 0:
            self.fault = PeerError(
                f"a frame numbered {read.first} that acknowledges {read.ack}; neither is negative"
            )
            return None
        if not read.first and any(type(message) is Welcome for message in read.messages):
            self._limit = FRAME_BYTES_MAX
        return Frame(read.first, read.ack, read.messages)
