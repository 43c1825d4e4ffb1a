"""What a program is owed: each publication once, through restarts and broken connections, and never more
memory than was agreed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.live.local import local_broker, local_node, reasons, run, until
from tidings.errors import InputError, PeerError, SetupError
from tidings.language.subscriptions import Subscription
from tidings.live.attachment import Attachment, attach
from tidings.overlay import events as e
from tidings.overlay.publication import Publication
from tidings.overlay.settings import Settings


async def received(client: Attachment, count: int, take: bool = True) -> list[tuple[bytes, bool]]:
    """The next so many, as payload and whether they may be repeats."""
    found = []
    for _ in range(count):
        delivered = await asyncio.wait_for(client.receive(), 30)
        found.append((delivered.publication.payload, delivered.repeat))
        if take:
            client.take(delivered)
    return found


def payloads(first: int, last: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, last + 1)]


def test_a_program_subscribes_publishes_and_receives() -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        async with (
            await attach(node.address, "reader") as reader,
            await attach(node.address, "writer") as writer,
        ):
            assert not reader.resumed
            assert await reader.subscribe("one", Subscription("t")) == ""
            await reader.subscribe("two", Subscription("t"))
            await writer.publish("t", b"1")
            await writer.publish("t", b"2", qos=1)
            first = await reader.receive()
            assert first.names == ("one", "two")
            assert (first.publication.payload, first.hops, first.repeat) == (b"1", 0, False)
            assert await received(reader, 1) == [(b"2", False)]
        assert await node.stop() == ""
        assert node.counters.delivered == 2
        assert node.counters.offered == 2
        assert node.counters.accepted == 1

    run(story)


@pytest.mark.parametrize("disk", [False, True])
def test_a_durable_session_gets_what_came_while_it_was_away(tmp_path: Path, disk: bool) -> None:
    async def story() -> None:
        node = local_node(tmp_path if disk else None)
        await node.start()
        reader = await attach(node.address, "reader", durable=True)
        await reader.subscribe("s", Subscription("t", qos=1))
        await reader.close()
        writer = await attach(node.address, "writer")
        for payload in payloads(1, 20):
            await writer.publish("t", payload, qos=1)
        await writer.publish("t", b"qos 0 is not kept")
        reader = await attach(node.address, "reader", durable=True)
        assert reader.resumed
        assert await received(reader, 20) == [(payload, False) for payload in payloads(1, 20)]
        await writer.publish("t", b"21", qos=1)
        assert await received(reader, 1) == [(b"21", False)]
        await reader.close()
        reader = await attach(node.address, "reader", durable=True)
        await writer.publish("t", b"22", qos=1)
        assert await received(reader, 1) == [(b"22", False)]
        await node.stop()

    run(story)


def test_what_was_not_taken_is_sent_again_and_marked() -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        reader = await attach(node.address, "reader", durable=True)
        await reader.subscribe("s", Subscription("t", qos=1))
        writer = await attach(node.address, "writer")
        for payload in payloads(1, 6):
            await writer.publish("t", payload, qos=1)
        assert [p for p, _ in await received(reader, 3)] == payloads(1, 3)
        assert [p for p, _ in await received(reader, 2, take=False)] == payloads(4, 5)
        await reader.close()
        await writer.publish("t", b"7", qos=1)
        reader = await attach(node.address, "reader", durable=True)
        # The sixth was sent too, and nobody knows whether it arrived.
        assert await received(reader, 4) == [(b"4", True), (b"5", True), (b"6", True), (b"7", False)]
        await node.stop()

    run(story)


def test_sessions_and_what_waits_for_them_survive_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        node = local_node(tmp_path)
        await node.start()
        reader = await attach(node.address, "reader", durable=True)
        await reader.subscribe("s", Subscription("t", qos=1))
        writer = await attach(node.address, "writer")
        for payload in payloads(1, 3):
            await writer.publish("t", payload, qos=1)
        assert [p for p, _ in await received(reader, 1)] == [b"1"]
        await reader.close()
        await node.stop()
        again = local_node(tmp_path)
        await again.start()
        writer = await attach(again.address, "writer")
        await writer.publish("t", b"4", qos=1)
        reader = await attach(again.address, "reader", durable=True)
        assert reader.resumed
        assert await received(reader, 3) == [(b"2", True), (b"3", True), (b"4", False)]
        await reader.close(for_good=True)
        reader = await attach(again.address, "reader", durable=True)
        assert not reader.resumed
        await again.stop()

    run(story)


def test_a_session_that_is_not_durable_ends_with_its_connection() -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        reader = await attach(node.address, "reader")
        reader.abort()
        broker = local_broker(node)
        await until(lambda: broker.told(e.SessionEnded))
        assert broker.told(e.SessionOpened) == [e.SessionOpened("reader", False)]
        assert node.gauges()["sessions"] == 0
        await node.stop()

    run(story)


def test_a_second_connection_takes_the_session_from_the_first() -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        first = await attach(node.address, "reader", durable=True)
        await first.subscribe("s", Subscription("t", qos=1))
        second = await attach(node.address, "reader", durable=True)
        assert second.resumed
        assert await first.lost == "another connection has taken the session"
        with pytest.raises(PeerError, match="another connection has taken the session"):
            await first.receive()
        await second.publish("t", b"1", qos=1)
        assert await received(second, 1) == [(b"1", False)]
        fresh = await attach(node.address, "reader", durable=False)
        assert not fresh.resumed
        await node.stop()

    run(story)


def test_the_cluster_token_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        node = local_node(settings=Settings(token="secret"))
        await node.start()
        async with await attach(node.address, "s", token="secret") as known:
            assert known.session == "s"
        with pytest.raises(InputError, match="asks for the cluster token"):
            await attach(node.address, "s")
        with pytest.raises(InputError, match="the cluster token is not ours"):
            await attach(node.address, "s", token="guess")
        await node.stop()

    run(story)
    assert reasons(caplog, "a program is refused") == ["the cluster token is not ours"]


@pytest.mark.parametrize("name", ["", "line\nbreak", "x" * 256])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        with pytest.raises(InputError, match="a session's name has 1 to 255 printable characters"):
            await attach(node.address, name)
        await node.stop()

    run(story)


def test_where_no_broker_is_it_is_said() -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        await node.stop()
        with pytest.raises(SetupError, match=f"no broker answers at {node.address}"):
            await attach(node.address, "s")

    run(story)


def test_a_slow_program_loses_qos_0_but_not_qos_1_and_memory_stays_bounded(tmp_path: Path) -> None:
    async def story() -> None:
        node = local_node(tmp_path, session_queue_bytes=100_000)
        await node.start()
        reader = await attach(node.address, "reader", durable=True)
        await reader.subscribe("s", Subscription("t", qos=1))
        reader._transport.pause_reading()
        writer = await attach(node.address, "writer")
        largest = 0.0
        sent = []
        for n in range(400):
            sent.append(b"%d" % n + bytes(10_000))
            await writer.publish("t", sent[-1], qos=1)
            largest = max(largest, node.gauges()["queue_bytes"])
        for _ in range(400):
            await writer.publish("t", b"none" + bytes(10_000))
        await writer.publish("t", b"last", qos=1)
        assert largest <= 120_000
        assert node.counters.dropped > 300
        reader._transport.resume_reading()
        found = [payload for payload, _ in await received(reader, 400) if not payload.startswith(b"none")]
        while found[-1] != b"last":
            found += [payload for payload, _ in await received(reader, 1) if not payload.startswith(b"none")]
        assert found == [*sent, b"last"]
        await node.stop()

    run(story)


def test_a_program_that_is_too_slow_for_qos_1_and_not_durable_is_expelled() -> None:
    async def story() -> None:
        node = local_node(session_queue_bytes=100_000)
        await node.start()
        reader = await attach(node.address, "reader")
        await reader.subscribe("s", Subscription("t", qos=1))
        reader._transport.pause_reading()
        writer = await attach(node.address, "writer")
        while not node.counters.expelled:
            await writer.publish("t", bytes(50_000), qos=1)
        reader._transport.resume_reading()
        assert await reader.lost == "too slow for what is sent to it"
        assert node.gauges()["sessions"] == 1
        await node.stop()

    run(story)


def test_a_durable_session_has_bounded_room_on_disk() -> None:
    async def story() -> None:
        node = local_node(session_store_bytes=10_000)
        await node.start()
        reader = await attach(node.address, "reader", durable=True)
        await reader.subscribe("s", Subscription("t", qos=1))
        await reader.close()
        writer = await attach(node.address, "writer")
        for n in range(20):
            await writer.publish("t", b"%02d" % n + bytes(1_000), qos=1)
        assert node.counters.overflowed == 11
        reader = await attach(node.address, "reader", durable=True)
        assert [p[:2] for p, _ in await received(reader, 9)] == [b"%02d" % n for n in range(9)]
        await writer.publish("t", b"room again", qos=1)
        assert await received(reader, 1) == [(b"room again", False)]
        await node.stop()

    run(story)


def test_a_durable_session_does_not_wait_for_a_broker_that_syncs_nothing() -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        reader = await attach(node.address, "reader", durable=True)
        publication = Publication("b", 1, "r", 1, "t", b"1", 1)
        local_broker(node).effects[e.NeighbourAdded] = [e.Deliver(publication, (("reader", "s"),), 1)]
        node.add_neighbour("127.0.0.1:1")
        assert await received(reader, 1) == [(b"1", False)]
        await node.stop()

    run(story)


def test_publishers_are_not_read_while_the_broker_pauses_them() -> None:
    async def story() -> None:
        node = local_node()
        await node.start()
        broker = local_broker(node)
        writer = await attach(node.address, "writer")
        broker.effects = {e.NeighbourRemoved: [e.Pause()], e.NeighbourAdded: [e.Resume()]}
        node.remove_neighbour("127.0.0.1:1")
        waiting = writer.offer("t", b"1", qos=1)
        other = await attach(node.address, "other")
        waiting_too = other.offer("t", b"2", qos=1)
        assert waiting is not None
        assert waiting_too is not None
        await attach(node.address, "third")
        assert broker.told(e.PublicationOffered) == []
        node.add_neighbour("127.0.0.1:1")
        await asyncio.wait_for(asyncio.gather(waiting, waiting_too), 30)
        await node.stop()

    run(story)
