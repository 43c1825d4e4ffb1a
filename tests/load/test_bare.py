"""Bare connections: what they say of themselves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from tidings.client.urls import Address
from tidings.load.bare import KEEP_ALIVE_S, Bare
from tidings.mqtt.codec import Decoder, encode
from tidings.mqtt.packets import Connack, Connect, Version


class Busy(Bare):
    """One that may be too busy to say that it is there."""

    keep_alive_s = 0


@dataclass(frozen=True)
class Reach:
    addresses: tuple[Address, ...]
    version: Version = Version.V5
    context: None = None
    connect_within_s: float = 30.0


@pytest.mark.parametrize(("kind", "keep_alive_s"), [(Bare, KEEP_ALIVE_S), (Busy, 0)])
def test_how_often_it_will_be_heard_is_said_when_it_connects(kind: type[Bare], keep_alive_s: int) -> None:
    async def story() -> Connect:
        came: asyncio.Future[Connect] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            decoder = Decoder(packet_bytes_max=1_000)
            while (packet := decoder.next()) is None:
                decoder.feed(await reader.read(1_000))
            assert isinstance(packet, Connect)
            came.set_result(packet)
            writer.write(encode(Connack(), Version.V5))
            await reader.read()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            one = kind(Reach((Address("mqtt", "127.0.0.1", port),)), "one", 0)
            await one.connect()
            one.leave()
            return await came

    assert asyncio.run(story()).keep_alive_s == keep_alive_s
