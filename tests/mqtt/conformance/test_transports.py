"""Section 4.2 and chapter 6: TCP and WebSocket, over sockets."""

from __future__ import annotations

import asyncio

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as dial
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from tests.live.local import run, until
from tests.mqtt.conformance.proving import both, connect_bytes, proves, publish_bytes, subscribe_bytes
from tests.mqtt.talk import V5
from tidings.live.listeners import Listening
from tidings.live.node import Node, NodeOptions
from tidings.mqtt.codec import Decoder
from tidings.mqtt.packets import AnyPacket, Connack, Publish, Suback, Version


@pytest.fixture(autouse=True)
def way() -> None:
    """Over sockets there is one way."""


LISTENING = (Listening("tcp", "127.0.0.1", 0), Listening("ws", "127.0.0.1", 0))


async def started() -> Node:
    node = Node(NodeOptions("a", listening=LISTENING))
    await node.start()
    await until(lambda: not node.synchronising)
    return node


def said(version: Version) -> bytes:
    """Connect, subscribe, publish a large message."""
    large = publish_bytes(version, "t", bytes(range(256)) * 4_000)
    return connect_bytes(version) + subscribe_bytes(version, "t") + large


def whole(decoder: Decoder) -> list[AnyPacket]:
    packets = []
    while (packet := decoder.next()) is not None:
        packets.append(packet)
    return packets


def check(packets: list[AnyPacket]) -> None:
    connack, suback, publish = packets
    assert isinstance(connack, Connack)
    assert isinstance(suback, Suback)
    assert isinstance(publish, Publish)
    assert publish.payload == bytes(range(256)) * 4_000


@proves("4.2.0-1", v311=("7.1.1-1",))
@both
def test_a_stream_of_bytes_is_kept_whole_and_in_order_over_tcp(version: Version) -> None:
    async def story() -> None:
        node = await started()
        host, _, port = node.mqtt_addresses["tcp"].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(said(version))
        decoder = Decoder(packet_bytes_max=1 << 24, version=version, client=True)
        packets: list[AnyPacket] = []
        while len(packets) < 3:
            data = await reader.read(10_000)
            assert data
            decoder.feed(data)
            packets += whole(decoder)
        check(packets)
        writer.close()
        await node.stop()

    run(story)


async def opened(node: Node) -> ClientConnection:
    return await dial(
        f"ws://{node.mqtt_addresses['ws']}/mqtt", subprotocols=[Subprotocol("mqtt")], max_size=None
    )


@proves("6.0.0-1", "6.0.0-2", "6.0.0-4", v311=("6.0.0-1", "6.0.0-2", "6.0.0-4"))
@pytest.mark.parametrize("size", [1_000, 100_000, 10_000_000])
@both
def test_packets_and_frames_of_a_websocket_need_not_begin_or_end_together(
    version: Version, size: int
) -> None:
    async def story() -> None:
        node = await started()
        async with await opened(node) as socket:
            assert socket.subprotocol == "mqtt"
            data = said(version)
            for at in range(0, len(data), size):
                await socket.send(data[at : at + size])
            decoder = Decoder(packet_bytes_max=1 << 24, version=version, client=True)
            packets: list[AnyPacket] = []
            while len(packets) < 3:
                frame = await socket.recv()
                assert isinstance(frame, bytes), "a binary frame"
                decoder.feed(frame)
                packets += whole(decoder)
            check(packets)
        await node.stop()

    run(story)


@proves("6.0.0-1", v311=("6.0.0-1",))
def test_a_text_frame_closes_the_connection() -> None:
    async def story() -> None:
        node = await started()
        async with await opened(node) as socket:
            await socket.send(connect_bytes(V5))
            assert await socket.recv()
            await socket.send("text")
            with pytest.raises(ConnectionClosed):
                await socket.recv()
        await node.stop()

    run(story)


@proves("6.0.0-3", "6.0.0-4", v311=("6.0.0-3", "6.0.0-4"))
@pytest.mark.parametrize("offered", [None, [Subprotocol("chat")]])
def test_who_does_not_offer_mqtt_is_not_served(offered: list[Subprotocol] | None) -> None:
    async def story() -> None:
        node = await started()
        with pytest.raises(InvalidStatus):
            await dial(f"ws://{node.mqtt_addresses['ws']}/mqtt", subprotocols=offered)
        await node.stop()

    run(story)
