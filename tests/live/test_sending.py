"""Sending to many at once: each gets its share, and what the system does not take is told."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect as dial
from websockets.typing import Subprotocol

from tests.live.front import connect, echo_node
from tests.live.local import make_authority, run, until
from tests.live.mqtt import RawClient
from tidings.live import sending
from tidings.live.listeners import Listening
from tidings.live.node import Node, NodeOptions
from tidings.live.sending import NOBODY
from tidings.matching.state import MOVED_BYTES
from tidings.mqtt import events as m
from tidings.mqtt.codec import encode
from tidings.mqtt.fanout import Deal, Dealt, spans
from tidings.mqtt.packets import Publish, Version
from tidings.overlay.routing import table
from tidings.service.tls import ClientTls

pytestmark = pytest.mark.skipif(not hasattr(socket, "MSG_DONTWAIT"), reason="sockets here are others")


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    sending.prepare()
    assert sending.ready()


def deal(takers: int, pieces: list[tuple[bytes, set[int]]]) -> tuple[bytes, Dealt]:
    """Pieces in one buffer, and who takes them."""
    ends = np.cumsum([len(piece) for piece, _ in pieces])
    begins = np.append(0, ends[:-1])
    made = Deal(len(pieces), takers)
    for at, (_, some) in enumerate(pieces):
        for taker in some:
            made.mark_one(at, taker)
    dealt = made.count(begins, ends)
    assert dealt is not None
    return b"".join(piece for piece, _ in pieces), dealt


@contextlib.contextmanager
def pairs(count: int) -> Iterator[tuple[list[socket.socket], list[socket.socket]]]:
    """Connected sockets, ours and those of others."""
    with contextlib.ExitStack() as stack:
        made = [socket.socketpair() for _ in range(count)]
        for pair in made:
            for one in pair:
                stack.enter_context(one)
                one.setblocking(False)
        yield [ours for ours, _ in made], [theirs for _, theirs in made]


def received(one: socket.socket) -> bytes:
    """All that has come."""
    found = b""
    with contextlib.suppress(BlockingIOError):
        while data := one.recv(1 << 20):
            found += data
    return found


def share(pieces: list[tuple[bytes, set[int]]], taker: int) -> bytes:
    return b"".join(piece for piece, takers in pieces if taker in takers)


@given(
    st.lists(
        st.tuples(st.binary(max_size=9) | st.binary(min_size=60, max_size=140), st.sets(st.integers(0, 4))),
        min_size=1,
        max_size=40,
    ),
    st.sets(st.integers(0, 4)),
    st.sampled_from((1, 64, 65, 150, 200, 500, 4096)),
)
def test_each_gets_its_share_whatever_fits_the_block(
    pieces: list[tuple[bytes, set[int]]], passed_over: set[int], block: int
) -> None:
    """What does not fit the block at all is told to be missing, and nothing behind it is sent."""
    data, dealt = deal(5, pieces)
    with pairs(5) as (ours, theirs), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sending, "_block", np.zeros(block, dtype=np.uint8))
        descriptors = [NOBODY if at in passed_over else one.fileno() for at, one in enumerate(ours)]
        told = sending.deliver(data, dealt, descriptors)
        came = [received(one) for one in theirs]
    for taker in range(5):
        wanted = share(pieces, taker)
        assert wanted.startswith(came[taker])
        assert told.get(taker, len(wanted)) == len(came[taker])
        if taker in passed_over:
            assert not came[taker]
        else:
            mine = [piece for piece, takers in pieces if taker in takers]
            fits = list(itertools.takewhile(lambda piece: len(piece) + MOVED_BYTES <= block, mine))
            assert came[taker] == b"".join(fits)
    assert all(told[taker] < len(share(pieces, taker)) for taker in told)
    assert [bytes(one) for one in dealt.stretches(data, list(told))] == [share(pieces, one) for one in told]


def test_who_takes_nothing_more_is_told_of_and_the_others_get_theirs() -> None:
    pieces = [(bytes([at]) * 15_000, {0, 1, 2}) for at in range(100)]
    data, dealt = deal(3, pieces)
    with pairs(3) as (ours, theirs):
        ours[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with contextlib.suppress(BlockingIOError):
            while True:
                ours[1].send(b"x" * 4096)
        theirs[2].close()
        for one in (ours[0], theirs[0]):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        told = sending.deliver(data, dealt, [one.fileno() for one in ours])
        # Of what is for the first, as much as its buffer has room for.
        gone = told.pop(0, len(data))
        assert gone > 0
        assert received(theirs[0]) == data[:gone]
        assert told == {1: 0, 2: 0}


def test_what_was_dealt_out_before_cannot_be_asked_for() -> None:
    data, dealt = deal(1, [(b"first", {0})])
    deal(1, [(b"other", {0})])
    with pairs(1) as (ours, theirs):
        with pytest.raises(AssertionError, match="dealt out before"):
            sending.deliver(data, dealt, [ours[0].fileno()])
        with pytest.raises(AssertionError, match="dealt out before"):
            dealt.stretches(data)
        assert received(theirs[0]) == b""


def test_what_was_looked_at_since_makes_it_void_even_if_nothing_was_dealt_out() -> None:
    data, dealt = deal(1, [(b"first", {0})])
    spans(np.array([[0, 1, 2, 1]]), 1)
    with pytest.raises(AssertionError, match="dealt out before"):
        dealt.stretches(data)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_there_must_be_a_socket_or_nobody_for_each(count: int) -> None:
    data, dealt = deal(2, [(b"first", {0, 1})])
    with pytest.raises(AssertionError, match="for each taker"):
        sending.deliver(data, dealt, [NOBODY] * count)


def narrow(node: Node, number: int) -> None:
    """Leave a client of a node little room in the system, whatever others are given."""
    beneath: Any = node._clients.by_number[number].transport.get_extra_info("socket")
    beneath.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)


@contextlib.asynccontextmanager
async def with_peer() -> AsyncIterator[tuple[Node, socket.socket]]:
    """A node and a client of it that reads only when it is told to, whatever the loop does."""
    node, front = await echo_node()
    host, _, port = node.mqtt_addresses["tcp"].rpartition(":")
    with socket.create_connection((host, int(port))) as peer:
        peer.setblocking(False)
        await until(lambda: front.told(m.ClientConnected))
        yield node, peer
    await node.stop()


LOOPS = pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])


@LOOPS
def test_clients_of_all_kinds_get_their_shares_before_what_comes_next(
    tmp_path: Path, runner: Callable[..., Any]
) -> None:
    """Those who can be sent to at once, those with TLS or WebSocket, and one for whom bytes are waiting."""
    pieces = [
        (b"%04d" % at * 16, {taker for taker in range(5) if at % (taker + 1) == 0}) for at in range(500)
    ]

    async def story() -> None:
        authority, certificate, key = make_authority(tmp_path)("broker")
        kinds = ("tcp", "tls", "ws")
        node, front = await echo_node(
            listening=tuple(Listening(kind, "127.0.0.1", 0) for kind in kinds),
            client_tls=ClientTls(certificate, key),
        )
        first = await connect(node)
        slow = await connect(node)
        third = await connect(node)
        context = ssl.create_default_context(cafile=authority)
        secure = await connect(node, "tls", ssl=context, server_hostname="broker")
        web = await dial(f"ws://{node.mqtt_addresses['ws']}/mqtt", subprotocols=[Subprotocol("mqtt")])
        await until(lambda: len(front.told(m.ClientConnected)) == 5)
        slow[1].transport.pause_reading()  # type: ignore[attr-defined]
        before = b"x" * 20_000_000
        narrow(node, 2)
        node._carry_out([m.Transmit(2, [before])])
        assert node._clients.by_number[2].transport.get_write_buffer_size()
        for end in (b"!", b"?"):
            data, dealt = deal(5, pieces)
            node._carry_out(
                [
                    m.Distribute([1, 2, 3, 4, 5], data, dealt),
                    *(m.Transmit(number, [end]) for number in range(1, 6)),
                ]
            )
        shares = [share(pieces, taker) for taker in range(5)]
        wanted = [one + b"!" + one + b"?" for one in shares]
        slow[1].transport.resume_reading()  # type: ignore[attr-defined]
        assert await first[0].readexactly(len(wanted[0])) == wanted[0]
        assert await slow[0].readexactly(len(before) + len(wanted[1])) == before + wanted[1]
        assert await third[0].readexactly(len(wanted[2])) == wanted[2]
        assert await secure[0].readexactly(len(wanted[3])) == wanted[3]
        came = b""
        while len(came) < len(wanted[4]):
            frame = await web.recv()
            assert isinstance(frame, bytes)
            came += frame
        assert came == wanted[4]
        await web.close()
        await node.stop()

    run(story, runner)


@LOOPS
def test_who_takes_less_than_it_gets_is_told_to_be_congested_and_gets_all(runner: Callable[..., Any]) -> None:
    pieces = [(bytes([at % 251]) * 15_000, {0, 1}) for at in range(500)]

    async def story() -> None:
        node, front = await echo_node()
        slow, other = await connect(node), await connect(node)
        await until(lambda: len(front.told(m.ClientConnected)) == 2)
        slow[1].transport.pause_reading()  # type: ignore[attr-defined]
        narrow(node, 1)
        data, dealt = deal(2, pieces)
        node._carry_out([m.Distribute([1, 2], data, dealt), m.Transmit(1, [b"!"])])
        assert await other[0].readexactly(len(data)) == data
        await until(lambda: m.ClientCongested(1, True) in front.told(m.ClientCongested))
        slow[1].transport.resume_reading()  # type: ignore[attr-defined]
        assert await slow[0].readexactly(len(data) + 1) == data + b"!"
        await until(lambda: m.ClientCongested(1, False) in front.told(m.ClientCongested))
        await node.stop()

    run(story, runner)


@LOOPS
def test_what_waits_in_a_transport_is_not_overtaken_once_the_system_has_room(
    runner: Callable[..., Any],
) -> None:
    async def story() -> None:
        async with with_peer() as (node, peer):
            before = b"x" * 20_000_000
            narrow(node, 1)
            node._carry_out([m.Transmit(1, [before])])
            transport = node._clients.by_number[1].transport
            waiting = transport.get_write_buffer_size()
            assert waiting
            # The loop has no turn meanwhile, so that the transport does not know of the room.
            came = received(peer)
            assert transport.get_write_buffer_size() == waiting
            data, dealt = deal(1, [(b"hello", {0})])
            node._carry_out([m.Distribute([1], data, dealt)])

            def all_there() -> bool:
                nonlocal came
                came += received(peer)
                return len(came) == len(before) + 5

            await until(all_there)
            assert came == before + b"hello"

    run(story, runner)


@LOOPS
def test_nothing_comes_behind_what_an_aborted_transport_has_dropped(runner: Callable[..., Any]) -> None:
    async def story() -> None:
        async with with_peer() as (node, peer):
            client = node._clients.by_number[1]
            assert client.descriptor >= 0
            narrow(node, 1)
            node._carry_out([m.Transmit(1, [b"x" * 20_000_000])])
            peer.shutdown(socket.SHUT_WR)
            await until(lambda: client.closing)
            client.transport.abort()
            came = received(peer)
            data, dealt = deal(1, [(b"hello", {0})])
            node._carry_out([m.Distribute([1], data, dealt)])
            await until(lambda: client.lost is not None)
            with contextlib.suppress(ConnectionResetError):
                came += received(peer)
            assert b"h" not in came

    run(story, runner)


@LOOPS
def test_a_socket_that_is_used_again_gets_nothing_of_whom_it_belonged_to(runner: Callable[..., Any]) -> None:
    async def story() -> None:
        node, front = await echo_node()
        left = await connect(node)
        await until(lambda: len(front.told(m.ClientConnected)) == 1)
        gone = node._clients.by_number[1]
        number = gone.descriptor
        assert number >= 0
        gone.transport.abort()
        await until(lambda: gone.lost is not None)
        # Its place among the clients is taken again, as it would be before its end has been told.
        node._clients.by_number[1] = gone
        mine: list[tuple[socket.socket, socket.socket]] = []
        while number not in (one.fileno() for pair in mine for one in pair):
            mine.append(socket.socketpair())
        reader, _ = await connect(node)
        await until(lambda: len(front.told(m.ClientConnected)) == 2)
        data, dealt = deal(2, [(b"hello", {0}), (b"you", {1})])
        node._carry_out([m.Distribute([1, 2], data, dealt)])
        assert await reader.readexactly(3) == b"you"
        assert await left[0].read() == b""
        for pair in mine:
            for one in pair:
                one.setblocking(False)
            assert [received(one) for one in pair] == [b"", b""]
        for pair in mine:
            for one in pair:
                one.close()
        await node.stop()

    run(story, runner)


def test_before_it_is_ready_transports_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_kernels", None)

    async def story() -> None:
        node, front = await echo_node()
        reader, _ = await connect(node)
        await until(lambda: front.told(m.ClientConnected))
        data, dealt = deal(1, [(b"hello", {0}), (b"-", set()), (b"you", {0})])
        node._carry_out([m.Distribute([1], data, dealt)])
        assert await reader.readexactly(8) == b"helloyou"
        await node.stop()

    run(story)


def test_a_broker_sends_each_client_what_its_filter_lets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    went: list[int] = []
    deliver = sending.deliver

    def watched(data: bytes, dealt: Dealt, descriptors: Sequence[int]) -> dict[int, int]:
        went.append(len(dealt.served))
        return deliver(data, dealt, descriptors)

    monkeypatch.setattr(sending, "deliver", watched)
    monkeypatch.setattr(table, "INDEX_AT_ONCE", 1)
    events = [b'{"n":%d,"m":%d}' % (at % 10, at) for at in range(3000)]
    packets = b"".join(encode(Publish("t", event), Version.V5) for event in events)
    wheres = [f"n = {n}" for n in range(9)] + ["n > 2 and m < 1500"]

    async def story() -> None:
        node = Node(NodeOptions("a", listening=(Listening("tcp", "127.0.0.1", 0),)))
        await node.start()
        await until(lambda: not node.synchronising)
        address = node.mqtt_addresses["tcp"]
        receivers = [(await RawClient.dial(address, f"c{at}"))[0] for at in range(len(wheres))]
        for receiver, where in zip(receivers, wheres, strict=True):
            assert await receiver.subscribe("#", where=where) == 0
        publisher, _ = await RawClient.dial(address, "p")
        publisher.writer.write(packets)
        for at, receiver in enumerate(receivers):
            if at < 9:
                wanted = [event for number, event in enumerate(events) if number % 10 == at]
            else:
                wanted = [event for number, event in enumerate(events) if number % 10 > 2 and number < 1500]
            assert [(await receiver.next(Publish)).payload for _ in wanted] == wanted
        await node.stop()

    run(story)
    # The first slices are small, and some of them go by without.
    assert sum(went) > 1000
