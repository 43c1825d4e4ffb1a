"""MQTT over WebSocket, below the front."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as dial
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from tests.live.front import connect, echo_node
from tests.live.local import run, until
from tidings.live.listeners import Listening
from tidings.live.node import Node
from tidings.mqtt import events as m
from tidings.mqtt.settings import Settings

WS = (Listening("ws", "127.0.0.1", 0),)


async def talk(node: Node, path: str = "/mqtt", **how: Any) -> ClientConnection:
    url = f"ws://{node.mqtt_addresses['ws']}{path}"
    return await dial(url, **{"subprotocols": [Subprotocol("mqtt")], **how})


@pytest.mark.parametrize("views", [False, True])
def test_bytes_come_in_and_go_out_in_binary_frames(views: bool) -> None:
    async def story() -> None:
        node, front = await echo_node(listening=WS)
        front.answer = front.views if views else front.echo
        socket = await talk(node)
        assert socket.subprotocol == "mqtt"
        await socket.send(b"hello")
        assert await socket.recv() == b"hello"
        assert front.told(m.ClientConnected)[0].listener == "ws"
        await socket.close()
        await until(lambda: front.told(m.ClientLost))
        await node.stop()

    run(story)


def test_a_message_in_many_frames_is_passed_on_as_it_comes() -> None:
    async def story() -> None:
        node, front = await echo_node(listening=WS)
        front.answer = lambda _: []
        socket = await talk(node)
        await socket.send([b"a", b"", b"b" * 100_000, b"c"])
        await until(lambda: front.bytes_of(1) == b"a" + b"b" * 100_000 + b"c")
        await socket.close()
        await node.stop()

    run(story)


def test_a_text_frame_costs_the_connection() -> None:
    async def story() -> None:
        node, front = await echo_node(listening=WS)
        socket = await talk(node)
        await socket.send("hello")
        with pytest.raises(ConnectionClosed) as caught:
            await socket.recv()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1003
        await until(lambda: front.told(m.ClientLost))
        assert front.told(m.BytesReceived) == []
        await node.stop()

    run(story)


def test_a_frame_that_is_too_large_costs_the_connection() -> None:
    async def story() -> None:
        node, front = await echo_node(listening=WS, mqtt=Settings(packet_bytes_max=1024))
        socket = await talk(node)
        await socket.send(b"x" * 100_000)
        with pytest.raises(ConnectionClosed) as caught:
            await socket.recv()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009
        await until(lambda: front.told(m.ClientLost))
        await node.stop()

    run(story)


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({"path": "/other"}, 404),
        ({"subprotocols": None}, 400),
        ({"subprotocols": ["chat"]}, 400),
        ({"origin": "https://evil.example"}, 403),
    ],
)
def test_who_does_not_want_mqtt_or_comes_from_elsewhere_is_refused(how: dict[str, Any], status: int) -> None:
    async def story() -> None:
        node, front = await echo_node(listening=WS, origins=("https://good.example",))
        with pytest.raises(InvalidStatus) as caught:
            await talk(node, **how)
        assert caught.value.response.status_code == status
        await until(lambda: front.told(m.ClientLost))
        await (await talk(node, origin="https://good.example")).close()
        await (await talk(node)).close()
        await node.stop()

    run(story)


@pytest.mark.parametrize(
    "said", [b"\x10\x00\x00", b"GET /mqtt HTTP/1.1\r\n" + b"X: y\r\n" * 500, b"\0" * 99_999]
)
def test_what_is_no_opening_handshake_costs_the_connection(said: bytes) -> None:
    async def story() -> None:
        node, front = await echo_node(listening=WS)
        reader, writer = await connect(node, "ws")
        writer.write(said + b"\r\n\r\n")
        answer = await reader.read()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
        writer.close()
        await until(lambda: front.told(m.ClientLost))
        assert front.told(m.BytesReceived) == []
        await node.stop()

    run(story)


def test_a_client_that_is_shut_is_told_by_a_close_frame() -> None:
    async def story() -> None:
        node, front = await echo_node(listening=WS)
        socket = await talk(node)
        await socket.send(b"shut")
        assert await socket.recv() == b"goodbye"
        with pytest.raises(ConnectionClosed) as caught:
            await socket.recv()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1000
        await until(lambda: node._clients.connections == 0)
        assert front.told(m.ClientLost) == []
        await node.stop()

    run(story)


def test_a_ping_is_answered() -> None:
    async def story() -> None:
        node, _ = await echo_node(listening=WS)
        socket = await talk(node)
        await asyncio.wait_for(await socket.ping(), 30)
        await socket.close()
        await node.stop()

    run(story)
