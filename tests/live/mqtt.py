"""An MQTT client made of a socket and our codec, for tests that look at packets."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from tests.live.local import WITHIN_S
from tidings.mqtt.codec import Decoder, encode
from tidings.mqtt.packets import (
    NO_PROPERTIES,
    AnyPacket,
    Asked,
    Connack,
    Connect,
    Disconnect,
    Properties,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Version,
)

V5 = Version.V5
P = TypeVar("P")


class Gone(Exception):
    """The broker has closed the connection."""


class RawClient:
    """One connection. Nothing is acknowledged by itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._decoder = Decoder(packet_bytes_max=1 << 28, version=V5, client=True)

    @classmethod
    async def dial(cls, address: str, client: str, **connect: Any) -> tuple[RawClient, Connack]:
        """Connect; what CONNACK says, whatever it says."""
        host, _, port = address.rpartition(":")
        raw = cls(*await asyncio.open_connection(host, int(port)))
        raw.send(Connect(V5, client, **connect))
        return raw, await raw.next(Connack)

    def send(self, *packets: AnyPacket) -> None:
        self.writer.write(b"".join(encode(packet, V5) for packet in packets))

    async def packet(self) -> AnyPacket:
        while (packet := self._decoder.next()) is None:
            data = await asyncio.wait_for(self.reader.read(65_536), WITHIN_S)
            if not data:
                raise Gone
            self._decoder.feed(data)
        return packet

    async def next(self, kind: type[P]) -> P:
        """The next packet of a kind; others before it are passed over."""
        while not isinstance(packet := await self.packet(), kind):
            pass
        return packet

    async def subscribe(self, topic_filter: str, qos: int = 0, where: str = "") -> int:
        """Subscribe; the reason of SUBACK."""
        properties = Properties(user=(("where", where),)) if where else NO_PROPERTIES
        self.send(Subscribe(1, (Asked(topic_filter, qos),), properties))
        return (await self.next(Suback)).reasons[0]

    async def publish(self, topic: str, payload: bytes, packet_id: int = 1, **how: Any) -> int:
        """Publish at QoS 1; the reason of PUBACK."""
        self.send(Publish(topic, payload, 1, packet_id=packet_id, **how))
        while (answer := await self.next(Puback)).packet_id != packet_id:
            pass
        return answer.reason

    async def close(self) -> None:
        self.send(Disconnect())
        self.writer.close()
