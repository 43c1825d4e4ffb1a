"""An MQTT client made of a socket and our codec, for tests that look at packets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tests.live.local import WITHIN_S, until
from tidings.live.listeners import Listening
from tidings.live.node import Node
from tidings.mqtt.codec import Decoder, encode
from tidings.mqtt.packets import (
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
from tidings.mqtt.reasons import FAILURE

V5 = Version.V5
TCP = Listening("tcp", "127.0.0.1", 0)
UNDER_WAY = 1000
"""Publications of one client; a broker takes 1,024 if nothing else is set."""

KEPT: dict[str, Any] = {"clean_start": False, "properties": Properties(session_expiry_s=3600)}
"""How a client connects whose session outlives its connections."""

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
        return (await self.ask(topic_filter, qos, where)).reasons[0]

    async def ask(self, topic_filter: str, qos: int, where: str = "", identifier: int = 0) -> Suback:
        """Subscribe; the answer."""
        properties = Properties(
            user=(("where", where),) if where else (),
            subscription_identifiers=(identifier,) if identifier else (),
        )
        self.send(Subscribe(1, (Asked(topic_filter, qos),), properties))
        return await self.next(Suback)

    async def settle(self, topic_filter: str, qos: int = 1) -> None:
        """Subscribe, again and again until every broker has confirmed it."""
        while (await self.ask(topic_filter, qos)).properties.reason_string:
            pass

    async def receive(self) -> Publish:
        """The next publication, acknowledged if it is of QoS 1."""
        publish = await self.next(Publish)
        if publish.qos:
            self.send(Puback(publish.packet_id))
        return publish

    async def payloads(self, count: int) -> list[bytes]:
        """Of the next publications."""
        return [(await self.receive()).payload for _ in range(count)]

    async def publish_all(self, topic: str, payloads: Sequence[bytes]) -> None:
        """Publish at QoS 1, as many at once as a broker takes by default; done when all are acknowledged."""
        for start in range(0, len(payloads), UNDER_WAY):
            some = payloads[start : start + UNDER_WAY]
            self.send(*(Publish(topic, one, 1, packet_id=n) for n, one in enumerate(some, 1)))
            for _ in some:
                assert (await self.next(Puback)).reason < FAILURE

    async def publish(self, topic: str, payload: bytes, packet_id: int = 1, **how: Any) -> int:
        """Publish at QoS 1; the reason of PUBACK."""
        self.send(Publish(topic, payload, 1, packet_id=packet_id, **how))
        while (answer := await self.next(Puback)).packet_id != packet_id:
            pass
        return answer.reason

    async def close(self) -> None:
        self.send(Disconnect())
        self.writer.close()


async def dial(node: Node, client: str, **connect: Any) -> RawClient:
    """Connect to a node, when it lets clients in."""
    await until(lambda: not node.synchronising, "letting clients in")
    raw, connack = await RawClient.dial(node.mqtt_addresses["tcp"], client, **connect)
    assert connack.reason == 0
    return raw


async def dial_again(address: Callable[[], str], client: str, **connect: Any) -> RawClient:
    """Connect, as often as it takes: nobody tells when a broker listens again."""
    while True:
        with contextlib.suppress(OSError, Gone):
            return (await RawClient.dial(address(), client, **connect))[0]
        await asyncio.sleep(0.01)
