"""MQTT over WebSocket: a layer between a connection and a client, to either of which it looks like the other.

Packets and frames need not begin or end together [MQTT-6.0.0-2]. Frames are binary [MQTT-6.0.0-1], or the
connection is closed. The protocol itself is the `websockets` library's, without its I/O.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import cast

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Origin, Subprotocol

from tidings.live.clients import Client

PATH = "/mqtt"
SUBPROTOCOL = Subprotocol("mqtt")
"""[MQTT-6.0.0-3]."""

FRAME_BYTES_EXTRA = 64 * 1024
"""A frame may be so much larger than the largest packet."""

# Whoever is refused is counted and told; a log of what strangers say in bad HTTP is of no use.
_SILENT = logging.getLogger("tidings.websocket")
_SILENT.setLevel(logging.CRITICAL)


class WebSocket(asyncio.Protocol):
    """A WebSocket below a client."""

    def __init__(self, client: Client, packet_bytes_max: int, origins: Sequence[str]) -> None:
        """`origins` are the web pages that may connect; any, if there are none. Programs always may."""
        self._client = client
        self._protocol = ServerProtocol(
            subprotocols=[SUBPROTOCOL],
            origins=[None, *(Origin(origin) for origin in origins)] if origins else None,
            # Of a message there may be any number of frames: each is passed on as it comes.
            max_size=(None, packet_bytes_max + FRAME_BYTES_EXTRA),
            logger=_SILENT,
        )

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # From now on the front counts the time until CONNECT, the opening handshake included.
        self._client.connection_made(cast("asyncio.BaseTransport", self))

    def data_received(self, data: bytes) -> None:
        protocol = self._protocol
        protocol.receive_data(data)
        for event in protocol.events_received():
            if isinstance(event, Request):
                self._answer(event)
            elif isinstance(event, Frame):
                self._hear(event)
        self._flush()

    def eof_received(self) -> None:
        self._protocol.receive_eof()

    def connection_lost(self, error: Exception | None) -> None:
        self._client.connection_lost(error)

    def pause_writing(self) -> None:
        self._client.pause_writing()

    def resume_writing(self) -> None:
        self._client.resume_writing()

    # What a client asks of its connection.

    def write(self, data: bytes | memoryview) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_binary(bytes(data))
            self._flush()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Say so; when the client has answered, the connection is closed."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
            self._flush()
        elif self._protocol.state is State.CONNECTING:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._transport.get_extra_info(name, default)

    # The protocol.

    def _answer(self, request: Request) -> None:
        protocol = self._protocol
        if request.path.partition("?")[0] == PATH:
            answer = protocol.accept(request)
        else:
            answer = protocol.reject(HTTPStatus.NOT_FOUND, f"MQTT is spoken at {PATH}\n")
        protocol.send_response(answer)

    def _hear(self, frame: Frame) -> None:
        if frame.opcode is Opcode.TEXT:
            self._protocol.fail(CloseCode.UNSUPPORTED_DATA, "MQTT needs binary frames")
        elif frame.opcode in (Opcode.BINARY, Opcode.CONT) and self._protocol.state is State.OPEN:
            if frame.data:
                self._client.data_received(bytes(frame.data))

    def _flush(self) -> None:
        transport = self._transport
        if transport.is_closing():
            return
        for data in self._protocol.data_to_send():
            if data:
                transport.write(data)
            else:
                transport.close()
                return
        if self._protocol.close_expected():
            transport.close()
