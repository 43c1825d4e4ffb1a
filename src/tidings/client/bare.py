"""A bare MQTT connection for those who put a load on a broker: no session, no retries, nothing between.

What is sent and received often is the business of those who use it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Protocol, cast

from tidings.client import refusals
from tidings.client.urls import Address
from tidings.errors import NetworkError, PeerError
from tidings.mqtt.codec import Decoder, encode
from tidings.mqtt.packets import Connack, Connect, Disconnect, Version
from tidings.mqtt.reasons import FAILURE

IN_FLIGHT_MAX = 1000
"""Publications of QoS 1 and 2 of one publisher under way; less if the broker says so."""

IN_FLIGHT_MAX_V311 = 20
"""In MQTT 3.1.1 a broker cannot say so. mosquitto 2.0 takes 20 by default, and beyond that loses what it has
acknowledged of QoS 2: of 200 messages with 100 under way 46 arrived, with 20 all."""

PACKET_BYTES_MAX = 256 * 1024 * 1024
KEEP_ALIVE_S = 60


class Reach(Protocol):
    """Where brokers are, and how they are spoken to."""

    @property
    def addresses(self) -> Sequence[Address]: ...
    @property
    def version(self) -> Version: ...
    @property
    def context(self) -> ssl.SSLContext | None: ...
    @property
    def connect_within_s(self) -> float: ...


class Bare(asyncio.Protocol):
    """What publishers and subscribers share: connecting, and packets that are not in the fast path."""

    def __init__(self, reach: Reach, client_id: str, number: int) -> None:
        """`number` says which of the addresses it is."""
        self.reach = reach
        self.number = number
        self.address = reach.addresses[number % len(reach.addresses)]
        self.client_id = client_id
        self.decoder = Decoder(packet_bytes_max=PACKET_BYTES_MAX, version=reach.version, client=True)
        self.writable = asyncio.Event()
        self.writable.set()
        self.transport: asyncio.Transport | None = None
        self.lost: str | None = None
        self.receive_maximum = IN_FLIGHT_MAX if reach.version is Version.V5 else IN_FLIGHT_MAX_V311
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pinging: asyncio.TimerHandle | None = None

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        address = self.address
        try:
            async with asyncio.timeout(self.reach.connect_within_s):
                await loop.create_connection(
                    lambda: self,
                    address.host,
                    address.port,
                    ssl=self.reach.context if address.secure else None,
                    server_hostname=address.host if address.secure else None,
                )
                self.write(
                    encode(
                        Connect(
                            self.reach.version,
                            self.client_id,
                            True,
                            KEEP_ALIVE_S,
                            address.user,
                            None if address.password is None else address.password.encode(),
                        ),
                        self.reach.version,
                    )
                )
                await self._ready
        except TimeoutError:
            raise NetworkError(
                f"{address} does not answer within {self.reach.connect_within_s:g} s"
            ) from None
        except OSError as error:
            raise NetworkError(
                f"{address} is not reached: {error.strerror or error}; is a broker running there?"
            ) from None
        self._pinging = loop.call_later(KEEP_ALIVE_S / 2, self._ping)

    def leave(self) -> None:
        """Say goodbye."""
        if self._pinging is not None:
            self._pinging.cancel()
        if self.transport is not None and self.lost is None:
            self.lost = "left"
            self.write(encode(Disconnect(), self.reach.version))
            self.transport.close()

    def check(self) -> None:
        """Raise what ended the connection."""
        if self.lost is not None:
            raise NetworkError(self.lost)

    def write(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"{self.address} closed the connection of {self.client_id}" + (f": {exc}" if exc else ""))

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        decoder = self.decoder
        decoder.feed(data)
        try:
            while (packet := decoder.next()) is not None:
                self.on(packet)
        except PeerError as error:
            self._end(f"{self.address} sent what is not MQTT: {error}")

    def on(self, packet: object) -> None:
        if isinstance(packet, Connack):
            if packet.reason >= FAILURE:
                error = refusals.connection(str(self.address), packet.reason, packet.properties.reason_string)
                if not self._ready.done():
                    self._ready.set_exception(error)
                return
            self.receive_maximum = min(
                self.receive_maximum, packet.properties.receive_maximum or self.receive_maximum
            )
            self._ready.set_result(None)
        elif isinstance(packet, Disconnect):
            said = packet.properties.reason_string or refusals.reason_text(packet.reason)
            self._end(f"{self.address} sent {self.client_id} away: {said}")

    def _end(self, reason: str) -> None:
        if self.lost is None:
            self.lost = reason
        if not self._ready.done():
            self._ready.set_exception(NetworkError(reason))
        self.writable.set()

    def _ping(self) -> None:
        self.write(b"\xc0\x00")
        self._pinging = asyncio.get_running_loop().call_later(KEEP_ALIVE_S / 2, self._ping)
