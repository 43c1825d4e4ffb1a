"""Connections of MQTT clients below the front: turns, slices, limits, passwords, TLS."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
import struct
import threading
import weakref
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
import pytest

from tests.live.front import TCP, connect, echo_node
from tests.live.local import make_authority, reasons, run, until
from tidings.errors import SetupError
from tidings.live import clients, secure
from tidings.live.clients import SLICE_BYTES, SLICE_BYTES_MAX, SLICE_BYTES_MIN
from tidings.live.listeners import Listening
from tidings.live.node import Node, NodeOptions
from tidings.mqtt import events as m
from tidings.overlay import events as e
from tidings.service import checks
from tidings.service.tls import ClientTls
from tidings.service.users import Hashed, Users


def test_bytes_come_in_and_go_out() -> None:
    async def story() -> None:
        node, front = await echo_node()
        reader, writer = await connect(node)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.close()
        await until(lambda: front.told(m.ClientLost))
        made, said, lost = (event for turn in front.turns for event in turn)
        assert made == m.ClientConnected(1, made.peer, None, "tcp")
        assert made.peer.startswith("127.0.0.1:")
        assert (said, lost) == (m.BytesReceived(1, b"hello"), m.ClientLost(1, "closed by the client"))
        await node.stop()

    run(story)


def test_what_comes_in_one_turn_is_told_at_once() -> None:
    async def story() -> None:
        node, front = await echo_node()
        peers = [await connect(node) for _ in range(10)]
        await until(lambda: len(front.told(m.ClientConnected)) == 10)
        front.turns.clear()
        for _, writer in peers:
            writer.write(b"x")
        for reader, _ in peers:
            assert await reader.readexactly(1) == b"x"
        # They were written in one turn of the loop and so are read in one, or two.
        assert len(front.turns) <= 2
        await node.stop()

    run(story)


def test_bytes_just_before_the_end_are_told_before_the_end() -> None:
    async def story() -> None:
        node, front = await echo_node()
        _, writer = await connect(node)
        front.answer = lambda _: []
        said = bytes(range(256)) * 4 * SLICE_BYTES  # many slices
        writer.write(said)
        await writer.drain()
        writer.write_eof()
        await until(lambda: front.told(m.ClientLost))
        assert front.bytes_of(1) == said
        assert isinstance(front.turns[-1][-1], m.ClientLost)
        await node.stop()

    run(story)


def test_a_flood_is_heard_in_slices_and_others_between_them() -> None:
    async def story() -> None:
        node, front = await echo_node()
        _, flood = await connect(node)
        reader, calm = await connect(node)

        def answer(event: m.BytesReceived) -> list[Any]:
            # At once, while the rest of the flood is on its way: how much of it comes first is then a matter
            # of the order in which connections are read, and not of the speed of the machine.
            if len(front.told(m.BytesReceived)) == 1:
                calm.write(b"calm")
            return front.echo(event) if event.data == b"calm" else []

        front.answer = answer
        flood.write(b"x" * 8_000_000)
        assert await reader.readexactly(4) == b"calm"
        heard = [one.data for one in front.told(m.BytesReceived)]
        sizes = [len(data) for data in heard[: heard.index(b"calm")]]
        assert max(sizes) <= SLICE_BYTES_MAX
        assert sum(sizes) < 8_000_000
        flood.transport.abort()
        await node.stop()

    run(story)


def test_a_client_whose_words_take_long_is_heard_in_small_slices() -> None:
    async def story() -> None:
        node, front = await echo_node()

        def dear(event: m.BytesReceived) -> list[Any]:
            end = thread_time() + 0.02
            while thread_time() < end:
                pass
            return []

        front.answer = dear
        _, writer = await connect(node)
        writer.write(b"x" * 4 * SLICE_BYTES)
        await until(lambda: len(front.bytes_of(1)) == 4 * SLICE_BYTES)
        sizes = [len(one.data) for one in front.told(m.BytesReceived)]
        assert sizes[0] == SLICE_BYTES
        assert min(sizes[:-1]) == SLICE_BYTES_MIN
        await node.stop()

    run(story)


def test_a_quiet_client_is_not_read_until_it_is_heeded() -> None:
    async def story() -> None:
        node, front = await echo_node()
        reader, writer = await connect(node)
        writer.write(b"quiet")
        assert await reader.readexactly(3) == b"shh"
        writer.write(b"more")
        other_reader, other = await connect(node)
        other.write(b"x")
        await other_reader.readexactly(1)
        assert front.bytes_of(1) == b"quiet"
        node._carry_out([m.ResumeReading(1)])
        assert await reader.readexactly(4) == b"more"
        await node.stop()

    run(story)


def test_what_clients_have_sent_is_told_before_a_timer_that_is_due() -> None:
    """Acknowledgements that have come make room before more is taken from links."""

    async def story() -> None:
        node, front = await echo_node()
        _, writer = await connect(node)
        await until(lambda: front.told(m.ClientConnected))
        del front.turns[:]
        client = node._clients.by_number[1]
        client.data_received(b"ack")
        node._wake_at = 0.0
        node._timer_fired()
        assert [[type(event) for event in turn] for turn in front.turns] == [
            [m.BytesReceived],
            [e.TimerFired],
        ]
        writer.close()
        await node.stop()

    run(story)


def test_a_client_that_takes_nothing_is_told_to_be_congested_and_others_go_on() -> None:
    async def story() -> None:
        node, front = await echo_node()
        reader, writer = await connect(node)
        await until(lambda: front.told(m.ClientConnected))
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        node._carry_out([m.Transmit(1, [b"x" * 1_000_000] * 20)])
        await until(lambda: m.ClientCongested(1, True) in front.told(m.ClientCongested))
        other_reader, other = await connect(node)
        other.write(b"x")
        assert await other_reader.readexactly(1) == b"x"
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        await reader.readexactly(20_000_000)
        await until(lambda: m.ClientCongested(1, False) in front.told(m.ClientCongested))
        await node.stop()

    run(story)


def test_what_waits_for_a_client_keeps_no_more_than_itself() -> None:
    """But for what was on its way when it stopped taking: that is kept with what it lies with."""

    async def story() -> None:
        node, front = await echo_node()
        reader, writer = await connect(node)
        await until(lambda: front.told(m.ClientConnected))
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        blocks = []
        for _ in range(40):
            block = np.full(1_000_000, 7, dtype=np.uint8)
            blocks.append(weakref.ref(block))
            node._carry_out([m.Transmit(1, [block.data[:500_000]])])
            del block
        await until(lambda: m.ClientCongested(1, True) in front.told(m.ClientCongested))
        assert sum(block() is not None for block in blocks) <= 1
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await reader.readexactly(20_000_000) == b"\7" * 20_000_000
        await node.stop()

    run(story)


def test_a_client_that_is_shut_gets_what_is_left_even_if_it_still_sends() -> None:
    async def story() -> None:
        node, front = await echo_node()
        reader, writer = await connect(node)
        writer.write(b"shut")
        assert await reader.readexactly(7) == b"goodbye"
        for _ in range(50):
            writer.write(b"x" * 10_000)
        assert await reader.read() == b""
        assert front.bytes_of(1) == b"shut"
        writer.close()
        await until(lambda: node._clients.connections == 0)
        assert front.told(m.ClientLost) == []
        await node.stop()

    run(story)


def test_a_client_that_half_closes_and_takes_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "CLOSE_WITHIN_S", 0.01)

    async def story() -> None:
        node, front = await echo_node()
        reader, writer = await connect(node)
        await until(lambda: front.told(m.ClientConnected))
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        node._carry_out([m.Transmit(1, [b"x" * 20_000_000])])
        writer.write_eof()
        await until(lambda: front.told(m.ClientLost))
        await node.stop()

    run(story)


def test_a_client_that_does_not_go_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "CLOSE_WITHIN_S", 0.01)

    async def story() -> None:
        node, _ = await echo_node()
        reader, writer = await connect(node)
        writer.write(b"shut")
        assert await reader.read() == b"goodbye"
        await until(lambda: node._clients.connections == 0)
        await node.stop()

    run(story)


def test_a_connection_that_is_reset_is_lost() -> None:
    async def story() -> None:
        node, front = await echo_node()
        _, writer = await connect(node)
        await until(lambda: front.told(m.ClientConnected))
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        await until(lambda: front.told(m.ClientLost))
        assert node._clients.by_number == {}
        await node.stop()

    run(story)


def test_a_bug_in_the_front_stops_the_node() -> None:
    async def story() -> None:
        node, front = await echo_node()
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)

        def broken(*_: object) -> bool:
            raise KeyError("a bug")

        _, writer = await connect(node)
        await until(lambda: front.told(m.ClientConnected))
        front.handle_all = broken  # type: ignore[assignment, method-assign]
        writer.write(b"x")
        assert "a bug" in await node.stopped()

    run(story)


def test_nobody_is_let_in_before_the_network_is_heard() -> None:
    async def story() -> None:
        node, front = await echo_node()
        await node.stop()
        front.start = lambda now: []  # type: ignore[method-assign]
        node = Node(NodeOptions("a", listening=TCP), front=lambda options, store: front)
        await node.start()
        assert node._listeners.is_open is False
        with pytest.raises(ConnectionRefusedError):
            await connect(node)
        node._carry_out([e.Synchronised()])
        reader, writer = await connect(node)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        await node.stop()

    run(story)


def test_a_port_that_is_taken_is_told_at_the_start() -> None:
    async def story() -> None:
        node, _ = await echo_node()
        port = int(node.mqtt_addresses["tcp"].rpartition(":")[2])
        with pytest.raises(SetupError, match=f"cannot listen at 127.0.0.1:{port}: "):
            await echo_node(listening=(Listening("tcp", "127.0.0.1", port),))
        await node.stop()

    run(story)


@pytest.mark.parametrize("limit", ["clients_max", "clients_per_host_max"])
def test_clients_beyond_a_limit_are_closed_and_there_is_room_when_one_goes(
    limit: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        node, front = await echo_node(**{limit: 2})
        (_, first), _second = await connect(node), await connect(node)
        await until(lambda: len(front.told(m.ClientConnected)) == 2)
        reader, _ = await connect(node)
        assert await reader.read() == b""
        assert node._listeners.refused == 1
        assert "there are 2 clients" in reasons(caplog, "a client is refused")[0]
        first.close()
        await until(lambda: node._clients.connections == 1)
        reader, writer = await connect(node)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        await node.stop()

    run(story)


# Passwords.


def small(password: bytes) -> Hashed:
    """A hash that takes no time."""
    salt = b"salt"
    return Hashed(4, 8, 1, salt, hashlib.scrypt(password, salt=salt, n=16, r=8, p=1, dklen=32))


@pytest.mark.parametrize(
    ("words", "user"),
    [(b"who ann secret", "ann"), (b"who ann wrong", None), (b"who bob secret", None)],
)
def test_a_password_is_checked(words: bytes, user: str | None) -> None:
    async def story() -> None:
        node, _ = await echo_node(users=Users({"ann": small(b"secret")}))
        reader, writer = await connect(node)
        writer.write(words)
        told = f"you are {user}".encode()
        assert await reader.readexactly(len(told)) == told
        writer.write(b"more")  # it is read again
        assert await reader.readexactly(4) == b"more"
        await node.stop()

    run(story)


@pytest.mark.parametrize(("anonymous", "user"), [(True, ""), (False, None)])
def test_where_nobody_has_a_password_a_name_says_nothing(anonymous: bool, user: str | None) -> None:
    async def story() -> None:
        node, front = await echo_node(access=m.Access((), anonymous))
        _, writer = await connect(node)
        writer.write(b"who ann secret")
        await until(lambda: front.told(m.ClientVerified) == [m.ClientVerified(1, user)])
        await node.stop()

    run(story)


def test_while_a_password_is_checked_the_client_is_not_heard_and_others_are() -> None:
    async def story() -> None:
        may = threading.Event()

        class Slow(Users):
            def check(self, name: str, password: bytes) -> bool:
                may.wait()
                return True

        node, front = await echo_node(users=Slow({"ann": Hashed.of(b"secret")}))
        reader, writer = await connect(node)
        writer.write(b"who ann secret")
        await until(lambda: front.told(m.BytesReceived))
        writer.write(b"more")
        other_reader, other = await connect(node)
        other.write(b"x")
        assert await other_reader.readexactly(1) == b"x"
        assert front.bytes_of(1) == b"who ann secret"
        may.set()
        assert await reader.readexactly(len(b"you are annmore")) == b"you are annmore"
        await node.stop()

    run(story)


def test_when_too_many_passwords_are_checked_the_front_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "OF_ONE_NAME_MAX", 0)

    async def story() -> None:
        node, front = await echo_node(users=Users({}))
        _, writer = await connect(node)
        writer.write(b"who ann secret")
        await until(lambda: front.told(m.ClientVerified) == [m.ClientVerified(1, None, busy=True)])
        assert node.counters.checks_refused == 1
        await node.stop()

    run(story)


def test_the_front_is_told_that_nobody_waits_for_answers_to_what_is_left() -> None:
    async def story() -> None:
        node, front = await echo_node()
        reader, writer = await connect(node)
        writer.write(b"first")
        assert await reader.readexactly(5) == b"first"
        (client,) = node._clients.by_number.values()
        client.waiting.append(b"rest")
        client.transport.abort()
        await until(lambda: front.told(m.ClientLost))
        assert front.told(m.BytesReceived) == [
            m.BytesReceived(1, b"first"),
            m.BytesReceived(1, b"rest", True),
        ]
        await node.stop()

    run(story)


def test_a_wrong_password_that_comes_again_and_again_is_checked_once() -> None:
    made = []

    class Counting(Users):
        def check(self, name: str, password: bytes) -> bool:
            made.append((name, password))
            return super().check(name, password)

    async def story() -> None:
        node, _front = await echo_node(users=Counting({"ann": Hashed(4, 8, 1, b"salt", b"hash")}))
        for _ in range(20):
            reader, writer = await connect(node)
            writer.write(b"who ann wrong")
            assert await reader.readexactly(12) == b"you are None"
        assert made == [("ann", b"wrong")]
        await node.stop()

    run(story)


# TLS.


TLS = (Listening("tls", "127.0.0.1", 0),)


def trusting(authority: Path, own: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    if own is not None:
        context.load_cert_chain(*own)
    return context


def test_a_certificate_of_a_client_names_the_user(tmp_path: Path) -> None:
    async def story() -> None:
        issue = make_authority(tmp_path)
        authority, certificate, key = issue("broker")
        node, front = await echo_node(listening=TLS, client_tls=ClientTls(certificate, key, authority))
        own = issue("ann")[1:]
        for context, user in ((trusting(authority), None), (trusting(authority, own), "ann")):
            reader, writer = await connect(node, "tls", ssl=context, server_hostname="broker")
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            assert front.told(m.ClientConnected)[-1].certified == user
            assert front.told(m.ClientConnected)[-1].listener == "tls"
            writer.close()
        await node.stop()

    run(story)


async def _said_and_heard(node: Node, context: ssl.SSLContext) -> None:
    reader, writer = await connect(node, "tls", ssl=context, server_hostname="broker")
    writer.write(b"x")
    await reader.readexactly(1)


def test_a_client_without_a_good_certificate_is_refused_where_one_is_required(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        authority, certificate, key = make_authority(tmp_path)("broker")
        tls = ClientTls(certificate, key, authority, required=True)
        node, front = await echo_node(listening=TLS, client_tls=tls)
        stranger = make_authority(tmp_path, "other")("ann")[1:]
        for context in (trusting(authority), trusting(authority, stranger)):
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await _said_and_heard(node, context)
        await until(lambda: node._listeners.refused == 2)
        assert front.told(m.ClientConnected) == []
        assert node._clients.connections == 0
        await node.stop()

    run(story)


def test_a_tls_client_that_is_shut_gets_what_is_left(tmp_path: Path) -> None:
    async def story() -> None:
        authority, certificate, key = make_authority(tmp_path)("broker")
        node, _ = await echo_node(listening=TLS, client_tls=ClientTls(certificate, key))
        reader, writer = await connect(node, "tls", ssl=trusting(authority), server_hostname="broker")
        writer.write(b"shut")
        assert await reader.read() == b"goodbye"
        writer.close()
        await until(lambda: node._clients.connections == 0)
        await node.stop()

    run(story)


def test_those_who_begin_a_handshake_and_say_nothing_keep_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secure, "AT_ONCE", 2)
    monkeypatch.setattr(secure, "SLOT_S", 0.01)

    async def story() -> None:
        authority, certificate, key = make_authority(tmp_path)("broker")
        node, _ = await echo_node(listening=TLS, client_tls=ClientTls(certificate, key))
        silent = [await connect(node, "tls") for _ in range(10)]
        peers = [
            await connect(node, "tls", ssl=trusting(authority), server_hostname="broker") for _ in range(10)
        ]
        for reader, writer in peers:
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
        assert node._clients.connections == 20
        for _, writer in silent:
            writer.close()
        await until(lambda: node._clients.connections == 10)
        assert node._listeners._handshakes.under_way == 0
        await node.stop()

    run(story)
