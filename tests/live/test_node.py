"""A node does what its broker wants, tells it what happened, and stops rather than go on with half of it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.live.local import LocalBroker, local_broker, local_node, reasons, run, until
from tidings.errors import InputError, SetupError
from tidings.live.node import CLOCK_S, Node, NodeOptions
from tidings.live.store import DiskStore
from tidings.overlay import events as e
from tidings.overlay.frames import Frame
from tidings.overlay.links.messages import Bye, Refuse
from tidings.overlay.settings import Settings
from tidings.records.record import Kind, Record, Run
from tidings.service import addresses
from tidings.wire.framing import Decoder, Encoder


async def connected(node: Node) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(*addresses.read(node.address))


def framed(*frames: Frame) -> bytes:
    encoder = Encoder()
    for frame in frames:
        encoder.add(frame)
    return bytes(encoder.take())


GOODBYE = Frame(0, 0, (Bye(False),))


@pytest.mark.parametrize("runner", [asyncio.run, None])
def test_connections_frames_and_losses_are_told_to_the_broker(runner: object) -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        broker = local_broker(node)
        broker.effects[e.ConnectionMade] = [e.Send(1, Frame(0, 0, (Refuse("hello"),)))]
        reader, writer = await connected(node)
        hello = framed(Frame(0, 0, (Refuse("hello"),)))
        assert await reader.readexactly(len(hello)) == hello
        writer.write(framed(GOODBYE, Frame(1, 0)))
        await until(lambda: len(broker.told(e.FrameReceived)) == 2)
        writer.close()
        await until(lambda: broker.told(e.ConnectionLost))
        (made,) = broker.told(e.ConnectionMade)
        assert (made.connection, made.address, made.certified) == (1, None, None)
        assert len(made.nonce) == 16
        assert broker.told(e.FrameReceived) == [e.FrameReceived(1, GOODBYE), e.FrameReceived(1, Frame(1, 0))]
        assert broker.told(e.ConnectionLost) == [e.ConnectionLost(1, "closed by the other side")]
        counters = node.counters
        assert (counters.frames_in, counters.frames_out, counters.connections_lost) == (2, 1, 1)
        assert (counters.messages_in, counters.messages_out) == ({"Bye": 1}, {"Refuse": 1})
        assert counters.bytes_out == len(hello)
        await node.stop()

    if runner is None:
        run(story)
    else:
        run(story, asyncio.run)


def test_what_is_sent_in_one_turn_is_one_write() -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        broker = local_broker(node)
        sends: list[e.Effect] = [e.Send(1, Frame(0, 0, (Refuse(f"{n}"),))) for n in range(50)]
        broker.effects[e.FrameReceived] = sends
        _, writer = await connected(node)
        await until(lambda: broker.told(e.ConnectionMade))
        writes: list[bytes] = []
        connection = node._connections[1]
        transport, connection.transport = connection.transport, Writes(writes)  # type: ignore[assignment]
        writer.write(framed(GOODBYE, GOODBYE))
        await until(lambda: writes)
        assert len(writes) == 1
        assert len(Decoder().feed(writes[0])) == 100
        connection.transport = transport
        writer.close()
        await node.stop()

    run(story)


class Writes:
    """A transport that only notes what is written."""

    def __init__(self, writes: list[bytes]) -> None:
        self._writes = writes

    def write(self, data: bytes) -> None:
        self._writes.append(bytes(data))


def test_hanging_up_sends_what_was_said_before() -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        broker = local_broker(node)
        last = Frame(0, 0, (Refuse("reason"),))
        broker.effects[e.FrameReceived] = [e.Send(1, last), e.HangUp(1, "reason"), e.Send(1, last)]
        reader, writer = await connected(node)
        writer.write(framed(GOODBYE))
        assert await reader.read() == framed(last)
        assert len(broker.told(e.FrameReceived)) == 1
        assert broker.told(e.ConnectionLost) == []
        assert node.gauges()["connections"] == 0
        writer.close()
        await node.stop()

    run(story)


def test_a_timer_that_is_early_is_set_again_once_and_not_until_it_is_due() -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        waits: list[float] = []
        loop = asyncio.get_running_loop()

        def call_later(delay: float, *_: object) -> asyncio.TimerHandle:
            waits.append(delay)
            return loop.call_later(60, lambda: None)

        node._loop = cast("Any", SimpleNamespace(call_later=call_later))
        node._wake_at = node.now() + 0.0003
        node._timer_fired()
        node._loop = loop
        assert waits == [CLOCK_S]
        await node.stop()

    run(story)


def test_a_timer_fires_when_it_is_due_and_not_before() -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        broker = local_broker(node)
        times = []
        begin = node.now()
        broker.effects[e.NeighbourAdded] = [e.SetTimer(begin + 60), e.SetTimer(begin + 0.05)]
        broker.effects[e.NeighbourRemoved] = [e.SetTimer(begin + 0.1), e.SetTimer(begin + 0.2)]
        node.add_neighbour("127.0.0.1:1")
        await until(lambda: broker.told(e.TimerFired))
        times.append(node.now())
        node.remove_neighbour("127.0.0.1:1")
        await until(lambda: len(broker.told(e.TimerFired)) == 2)
        times.append(node.now())
        assert times[0] >= begin + 0.05
        assert times[1] >= begin + 0.2
        await node.stop()

    run(story)


def test_a_dial_is_made_or_its_failure_told() -> None:
    async def story() -> None:
        one, two = local_node(), local_node()
        await one.start()
        await two.start()
        broker = local_broker(one)
        broker.effects[e.NeighbourAdded] = [e.Dial(two.address)]
        one.add_neighbour(two.address)
        await until(lambda: broker.told(e.ConnectionMade))
        assert broker.told(e.ConnectionMade)[0].address == two.address
        await two.stop()
        await until(lambda: broker.told(e.ConnectionLost))
        one.add_neighbour(two.address)
        await until(lambda: broker.told(e.DialFailed))
        (failed,) = broker.told(e.DialFailed)
        assert failed.address == two.address
        assert "refused" in failed.reason.lower()
        assert one.counters.dials_failed == 1
        with pytest.raises(InputError, match="'nowhere' is no address: it is a host and a port"):
            one.add_neighbour("nowhere")
        await one.stop()

    run(story)


def test_too_many_connections_are_turned_away(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        node = local_node(connections_max=3, ungreeted_max=2)
        await node.start()
        silent = [await connected(node) for _ in range(3)]
        assert await silent[2][0].read() == b""
        silent[0][1].close()
        await until(lambda: node.gauges()["ungreeted"] == 1)
        greeted = []
        for _ in range(2):
            greeted.append(await connected(node))
            greeted[-1][1].write(framed(Frame(1, 0)))
            await until(lambda: len(local_broker(node).told(e.FrameReceived)) == len(greeted))
        assert node.gauges()["ungreeted"] == 1
        _, more = await connected(node)
        await until(lambda: node.counters.connections_refused == 2)
        assert node.gauges()["connections"] == 3
        for _, writer in (*silent, *greeted):
            writer.close()
        more.close()
        await node.stop()

    run(story)
    assert reasons(caplog, "a connection is refused") == [
        "2 connections have not greeted yet",
        "there are 3 connections already",
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_node_listens_where_it_is_told(host: str) -> None:
    async def story() -> None:
        node = local_node(host=host)
        await node.start()
        assert addresses.read(node.address)[1] > 0
        _, writer = await connected(node)
        await until(lambda: local_broker(node).told(e.ConnectionMade))
        writer.close()
        await node.stop()

    run(story)


@pytest.mark.parametrize("text", ["", "1883", "a:", ":1883", "a:0", "a:65536", "a:+1", "::1:1883", "a:１"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no address: "):
        addresses.read(text)


def test_a_bug_in_the_broker_stops_the_node_and_writes_nothing_more(tmp_path: Path) -> None:
    class Buggy(LocalBroker):
        def handle(self, event: e.Event, now: float) -> list[e.Effect]:
            if isinstance(event, e.NeighbourRemoved):
                raise KeyError("a bug")
            return super().handle(event, now)

    async def story() -> None:
        node = Node(NodeOptions("a", folder=tmp_path), front=Buggy)
        await node.start()
        local_broker(node).effects[e.NeighbourAdded] = [e.Write("whole", b""), e.Sync(1)]
        node.add_neighbour("127.0.0.1:1")
        await until(lambda: local_broker(node).told(e.WritesSynced))
        node._store.write("half", b"")
        with pytest.raises(KeyError):
            node.remove_neighbour("127.0.0.1:1")
        assert await asyncio.wait_for(node.stopped(), 30) == "a bug: KeyError('a bug')"
        store = DiskStore(tmp_path, "a", print)
        assert list(store.saved) == ["whole"]
        await store.close()

    run(story)


def test_a_disk_that_fails_stops_the_node(tmp_path: Path) -> None:
    async def story() -> None:
        node = local_node(tmp_path)
        await node.start()
        assert isinstance(node._store, DiskStore)
        node._store._database.execute("DROP TABLE row")
        local_broker(node).effects[e.NeighbourAdded] = [e.Write("x", b""), e.Sync(1)]
        node.add_neighbour("127.0.0.1:1")
        reason = await asyncio.wait_for(node.stopped(), 30)
        assert reason.startswith("the store cannot be written: ")
        assert local_broker(node).told(e.WritesSynced) == []

    run(story)


def test_the_broker_may_stop_the_node() -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        local_broker(node).effects[e.NeighbourAdded] = [e.Stop("another has this id")]
        node.add_neighbour("127.0.0.1:1")
        assert await node.stopped() == "another has this id"
        assert node.stopping
        assert not node.ready

    run(story)


def test_a_broker_that_does_not_stop_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn(LocalBroker):
        def handle(self, event: e.Event, now: float) -> list[e.Effect]:
            return [] if isinstance(event, e.StopAsked) else super().handle(event, now)

    async def story() -> None:
        node = Node(NodeOptions("a", settings=Settings(drain_within_s=0.0)), front=Stubborn)
        await node.start()
        assert await node.stop() == "not drained in time"

    monkeypatch.setattr("tidings.live.node.STOP_BEYOND_DRAIN_S", 0.05)
    run(story)


class Sink:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.closed = False
        self.ticks = 0

    def add(self, record: Record | Run) -> None:
        self.records += record.records() if isinstance(record, Run) else [record]

    def tick(self, now: float) -> None:
        self.ticks += 1

    def close(self) -> None:
        self.closed = True


def test_records_go_to_their_sink_which_is_closed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        sink = Sink()
        made: list[tuple[str, int]] = []

        def make(broker: str, boot: int) -> Sink:
            made.append((broker, boot))
            return sink

        node = Node(NodeOptions("a"), records=make, front=LocalBroker)
        await node.start()
        assert made == [("a", node.boot)]
        record = Record("a", node.boot, 1, 0, Kind.LINK_UP, link="b")
        local_broker(node).effects[e.NeighbourAdded] = [record]
        node.add_neighbour("127.0.0.1:1")
        await until(lambda: sink.ticks)
        assert sink.records == [record]
        assert node.counters.links_up == 1
        await node.stop()
        assert sink.closed

    monkeypatch.setattr("tidings.live.node.TICK_S", 0.01)
    run(story)


def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def broken(broker: str, boot: int) -> Sink:
        raise SetupError("no room for records")

    async def story() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with pytest.raises(SetupError, match=f"cannot listen at 127.0.0.1:{port}: .*; name another port"):
                await local_node(tmp_path, port=port).start()
        with pytest.raises(SetupError, match="name an address of this machine"):
            await local_node(tmp_path, host="no.such.host.invalid").start()
        with pytest.raises(SetupError, match="no room for records"):
            await Node(
                NodeOptions("a", folder=tmp_path, port=port), records=broken, front=LocalBroker
            ).start()
        node = local_node(tmp_path, port=port)
        await node.start()
        await node.stop()

    run(story)


def test_status_is_plain_values() -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        status = node.status()
        assert status["id"] == "a"
        assert status["address"] == node.address
        assert status["durable"] is False
        assert status["gauges"] == {
            "connections": 0,
            "ungreeted": 0,
            "store_pending": 0,
            "log_bytes": 0,
            "mqtt_connections": 0,
        }
        assert isinstance(status["counters"], dict)
        assert status["counters"]["messages_in"] == {}
        await node.stop()

    run(story)


def test_the_clock_of_a_node_never_goes_back() -> None:
    node = local_node()
    times = [node.now() for _ in range(1_000)]
    assert times == sorted(times)
    assert times[0] > 1_700_000_000
