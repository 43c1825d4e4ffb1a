"""A bare MQTT connection for those who put a load on a broker: no session, no retries, nothing between.

What is sent and received often is the business of those who use it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Protocol, cast

from tidings.client import refusals
from tidings.client.urls import Address
from tidings.errors import NetworkError, PeerError
from tidings.mqtt.codec import Decoder, encode
from tidings.mqtt.packets import Connack, Connect, Disconnect, Puback, Pubcomp, Pubrec, Pubrel, Version
from tidings.mqtt.reasons import FAILURE

CHUNK = 64
"""Publications that are written at once."""

TICK_S = 0.001
"""How often publishers with a rate see what is due."""

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

    keep_alive_s = KEEP_ALIVE_S
    """0 for those who may be too busy to say that they are there: a broker then never gives them up."""

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
                            self.keep_alive_s,
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
        if self.keep_alive_s:
            self._pinging = loop.call_later(self.keep_alive_s / 2, self._ping)

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
        self._pinging = asyncio.get_running_loop().call_later(self.keep_alive_s / 2, self._ping)


class Sender(Bare, ABC):
    """Sends its messages, each at its time or as fast as they go."""

    def __init__(self, reach: Reach, client_id: str, number: int, total: int, qos: int, timed: bool) -> None:
        """`timed`: each at its time, else as fast as they go."""
        super().__init__(reach, client_id, number)
        self.total = total
        self.qos = qos
        self.timed = timed
        self.sent = 0
        self.done_at = 0
        self._under_way = 0
        self._next_id = 0
        self._room = asyncio.Event()
        self._refused: str | None = None

    @property
    def acknowledged(self) -> int:
        """How many of its messages are no longer under way."""
        return self.sent - self._under_way

    @abstractmethod
    def due_ns(self, number: int) -> int:
        """When one of its messages should be sent, after the start; in their order they never go back."""

    @abstractmethod
    def message(self, number: int, at_ns: int, packet_id: bytes) -> bytes:
        """The bytes of one of its messages, which should be sent, or is, at a time."""

    async def send(self, start_ns: int) -> None:
        if self.timed:
            await self._send_on_time(start_ns)
        else:
            await self._send_all()
        while self._under_way:
            self._room.clear()
            self._check()
            await self._room.wait()
        self._check()
        self.done_at = time.perf_counter_ns()

    async def _send_all(self) -> None:
        total, message = self.total, self.message
        while self.sent < total:
            await self.writable.wait()
            self._check()
            count = min(CHUNK, total - self.sent)
            if self.qos:
                count = min(count, self.receive_maximum - self._under_way)
                if count <= 0:
                    self._room.clear()
                    await self._room.wait()
                    continue
            now = time.perf_counter_ns()
            first = self.sent
            self.write(b"".join([message(n, now, self._id()) for n in range(first, first + count)]))
            self.sent += count
            # Others have their turn.
            await asyncio.sleep(0)

    async def _send_on_time(self, start_ns: int) -> None:
        total = self.total
        waiting: deque[tuple[int, int]] = deque()
        made = 0
        while self.sent < total:
            self._check()
            now = time.perf_counter_ns()
            while made < total and (due := start_ns + self.due_ns(made)) <= now:
                waiting.append((due, made))
                made += 1
            room = len(waiting) if not self.qos else min(len(waiting), self.receive_maximum - self._under_way)
            if room > 0:
                going = [waiting.popleft() for _ in range(room)]
                self.write(b"".join([self.message(n, at, self._id()) for at, n in going]))
                self.sent += room
            if made < total:
                pause_s = (start_ns + self.due_ns(made) - time.perf_counter_ns()) / 1e9
                await asyncio.sleep(max(TICK_S, pause_s) if not waiting else TICK_S)
            elif waiting:
                await asyncio.sleep(TICK_S)

    def _id(self) -> bytes:
        if not self.qos:
            return b""
        self._under_way += 1
        self._next_id = self._next_id % 65_535 + 1
        return self._next_id.to_bytes(2, "big")

    def on(self, packet: object) -> None:
        if isinstance(packet, (Puback, Pubcomp)):
            self._done(packet.reason, packet.properties.reason_string)
        elif isinstance(packet, Pubrec):
            if packet.reason >= FAILURE:
                self._done(packet.reason, packet.properties.reason_string)
            else:
                self.write(encode(Pubrel(packet.packet_id), self.reach.version))
        else:
            super().on(packet)

    def data_received(self, data: bytes) -> None:
        """Acknowledgements of the shortest form by their number; the rest by the codec."""
        count, odd = divmod(len(data), 4)
        if odd or self.decoder.held() or data[0::4] != b"\x40" * count or data[1::4] != b"\x02" * count:
            super().data_received(data)
            return
        self._under_way -= count
        self._room.set()

    def _done(self, reason: int, said: str | None) -> None:
        self._under_way -= 1
        if reason >= FAILURE and self._refused is None:
            self._refused = said or refusals.reason_text(reason)
        self._room.set()

    def _check(self) -> None:
        self.check()
        if self._refused is not None:
            raise NetworkError(f"{self.address} refuses what is published: {self._refused}")

    def _end(self, reason: str) -> None:
        super()._end(reason)
        self._room.set()
