"""TLS below clients: handshakes in turns, any amount of bytes, and every way to end."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect as dial
from websockets.typing import Subprotocol

from tests.live.front import EchoFront, connect, echo_node
from tests.live.local import WITHIN_S, make_authority, reasons, run, until
from tidings.live import secure
from tidings.live.listeners import Listening
from tidings.live.node import Node
from tidings.mqtt import events as m
from tidings.mqtt.settings import Settings
from tidings.service.tls import ClientTls


@asynccontextmanager
async def secured(
    folder: Path, kind: str = "tls", **options: Any
) -> AsyncIterator[tuple[Node, EchoFront, ssl.SSLContext]]:
    authority, certificate, key = make_authority(folder)("broker")
    listening = (Listening(kind, "127.0.0.1", 0),)
    node, front = await echo_node(listening=listening, client_tls=ClientTls(certificate, key), **options)
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    yield node, front, context
    await node.stop()


@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_any_amount_of_bytes_goes_in_and_out(tmp_path: Path, version: ssl.TLSVersion, views: bool) -> None:
    async def story() -> None:
        async with secured(tmp_path) as (node, front, context):
            front.answer = front.views if views else front.echo
            context.maximum_version = context.minimum_version = version
            reader, writer = await connect(node, "tls", ssl=context, server_hostname="broker")
            for size in (1, 16_383, 16_384, 16_385, 3_000_000, 7):
                said = bytes(range(256)) * (size // 256 + 1)
                writer.write(said[:size])
                assert await asyncio.wait_for(reader.readexactly(size), WITHIN_S) == said[:size]

    run(story)


def test_a_handshake_may_come_in_single_bytes(tmp_path: Path) -> None:
    async def story() -> None:
        async with secured(tmp_path) as (node, _, context):
            reader, writer = await connect(node, "tls")
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = context.wrap_bio(incoming, outgoing, server_hostname="broker")
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    for byte in outgoing.read():
                        writer.write(bytes([byte]))
                        await asyncio.sleep(0)
                    incoming.write(await asyncio.wait_for(reader.read(65_536), WITHIN_S))
            client.write(b"hello")
            writer.write(outgoing.read())
            incoming.write(await asyncio.wait_for(reader.read(65_536), WITHIN_S))
            assert client.read() == b"hello"
            writer.close()

    run(story)


def test_what_is_no_tls_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with secured(tmp_path) as (node, front, _):
            reader, writer = await connect(node, "tls")
            writer.write(b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x01c")
            await asyncio.wait_for(reader.read(), WITHIN_S)
            writer.close()
            await until(lambda: node._listeners.refused == 1)
            assert node._clients.connections == 0
            assert front.told(m.ClientConnected) == []
            assert len(reasons(caplog, "a client is refused")) == 1

    run(story)


def test_a_flood_before_the_handshake_is_done_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secure.Handshakes, "go_on", lambda *_: None)  # its turn never comes

    async def story() -> None:
        async with secured(tmp_path) as (node, _, _):
            _, writer = await connect(node, "tls")
            writer.write(b"x" * 2 * secure.HANDSHAKE_BYTES_MAX)
            await until(lambda: node._listeners.refused == 1)
            assert "too much is said" in reasons(caplog, "a client is refused")[0]
            writer.close()

    run(story)


def test_those_for_whom_there_is_no_room_wait_and_may_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secure, "AT_ONCE", 1)
    monkeypatch.setattr(secure, "SLOT_S", WITHIN_S)

    async def story() -> None:
        async with secured(tmp_path) as (node, front, context):
            _, first = await connect(node, "tls")
            await until(lambda: node._listeners._handshakes.under_way == 1)
            _, gone = await connect(node, "tls")
            how = {"ssl": context, "server_hostname": "broker"}
            waiting = [asyncio.ensure_future(connect(node, "tls", **how)) for _ in range(20)]
            await until(lambda: node._clients.connections == 22)
            gone.transport.abort()
            first.transport.abort()
            for reader, writer in await asyncio.gather(*waiting):
                writer.write(b"x")
                assert await asyncio.wait_for(reader.readexactly(1), WITHIN_S) == b"x"
            await until(lambda: node._clients.connections == 20)
            assert node._listeners._handshakes.under_way == 0
            assert len(front.told(m.ClientConnected)) == 20

    run(story)


def test_a_handshake_that_does_not_end_in_time_is_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with secured(tmp_path, mqtt=Settings(connect_within_s=0.05)) as (node, _, _):
            reader, _writer = await connect(node, "tls")
            assert await asyncio.wait_for(reader.read(), WITHIN_S) == b""
            assert reasons(caplog, "a client is refused") == ["no TLS handshake in time"]
            assert node._clients.connections == 0

    run(story)


def test_those_who_have_not_shaken_hands_are_cut_when_the_broker_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secure, "AT_ONCE", 1)

    async def story() -> None:
        async with secured(tmp_path) as (node, _, _):
            peers = [await connect(node, "tls") for _ in range(3)]
            await until(lambda: node._clients.connections == 3)
        for reader, _writer in peers:
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), WITHIN_S) == b""
        assert node._clients.connections == 0

    run(story)


def test_a_client_that_says_goodbye_is_lost_with_all_that_it_said(tmp_path: Path) -> None:
    async def story() -> None:
        async with secured(tmp_path) as (node, front, context):
            reader, writer = await connect(node, "tls", ssl=context, server_hostname="broker")
            writer.write(b"last words")
            writer.close()
            await until(lambda: front.told(m.ClientLost))
            assert front.bytes_of(1) == b"last words"
            assert await reader.read() in (b"", b"last words")

    run(story)


def test_bytes_that_are_forged_cost_the_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with secured(tmp_path) as (node, front, context):
            reader, writer = await connect(node, "tls")
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = context.wrap_bio(incoming, outgoing, server_hostname="broker")
            with pytest.raises(ssl.SSLWantReadError):
                client.do_handshake()
            writer.write(outgoing.read())
            incoming.write(await asyncio.wait_for(reader.read(65_536), WITHIN_S))
            client.do_handshake()
            writer.write(outgoing.read())
            await until(lambda: front.told(m.ClientConnected))
            writer.write(b"\x17\x03\x03\x00\x20" + b"x" * 32)
            await until(lambda: front.told(m.ClientLost))
            assert front.told(m.BytesReceived) == []

    run(story)


@pytest.mark.parametrize("views", [False, True])
def test_a_websocket_may_be_above(tmp_path: Path, views: bool) -> None:
    async def story() -> None:
        async with secured(tmp_path, "wss") as (node, front, context):
            front.answer = front.views if views else front.echo
            url = f"wss://{node.mqtt_addresses['wss']}/mqtt"
            socket = await dial(url, ssl=context, subprotocols=[Subprotocol("mqtt")])
            large = b"x" * 300_000
            await socket.send(large)
            got = b""
            while len(got) < len(large):
                part = await socket.recv()
                assert isinstance(part, bytes)
                got += part
            assert got == large
            assert front.told(m.ClientConnected)[0].listener == "wss"
            await socket.close()
            await until(lambda: front.told(m.ClientLost))

    run(story)


def test_one_that_takes_nothing_is_congested(tmp_path: Path) -> None:
    async def story() -> None:
        async with secured(tmp_path) as (node, front, context):
            reader, writer = await connect(node, "tls", ssl=context, server_hostname="broker")
            await until(lambda: front.told(m.ClientConnected))
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            node._carry_out([m.Transmit(1, [b"x" * 20_000_000])])
            await until(lambda: m.ClientCongested(1, True) in front.told(m.ClientCongested))
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            await asyncio.wait_for(reader.readexactly(20_000_000), WITHIN_S)
            await until(lambda: m.ClientCongested(1, False) in front.told(m.ClientCongested))

    run(story)
