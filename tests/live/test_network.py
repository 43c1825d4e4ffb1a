"""Brokers on loopback: publications flow, survive cuts and kills, and strangers are turned away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.local import make_authority, reasons, run, until
from tests.live.mqtt import KEPT, TCP, UNDER_WAY, Gone, dial, dial_again
from tests.live.process import BrokerProcess
from tidings.live.node import Node, NodeOptions
from tidings.mqtt.packets import Disconnect, Puback, Publish
from tidings.mqtt.reasons import Reason
from tidings.overlay.settings import Settings
from tidings.records.record import Kind, Record, Run
from tidings.service import addresses, tls

QUICK = Settings(redial_max_s=0.5)


def broker(name: str, *others: str, settings: Settings = QUICK, **options: Any) -> NodeOptions:
    """A broker that dials others and lets clients in."""
    return NodeOptions(name, neighbours=others, listening=(TCP,), settings=settings, **options)


class Listed:
    """A record sink that keeps them all."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def add(self, record: Record | Run) -> None:
        self.records += record.records() if isinstance(record, Run) else [record]

    def tick(self, now: float) -> None: ...

    def close(self) -> None: ...

    def reasons(self, kind: Kind) -> list[str | None]:
        return [record.reason for record in self.records if record.kind is kind]


@asynccontextmanager
async def network(edges: str) -> AsyncIterator[dict[str, Node]]:
    """Brokers by name, with a link for each pair: "ab bc"; the second of a pair dials the first."""
    nodes: dict[str, Node] = {}
    for name in sorted(set(edges.replace(" ", ""))):
        neighbours = tuple(
            nodes[pair[0]].address for pair in edges.split() if pair[1] == name and pair[0] in nodes
        )
        nodes[name] = Node(broker(name, *neighbours))
        await nodes[name].start()
    everyone = tuple(nodes)
    await until(lambda: all(members(node) == everyone for node in nodes.values()), "one tree for all")
    try:
        yield nodes
    finally:
        for node in nodes.values():
            await node.stop()


def members(node: Node) -> tuple[str, ...]:
    """The brokers in the tree of the smallest id, as this one sees it."""
    status = node.broker.status(node.now())
    return next((tree.members for tree in status.trees if (tree.root,) == status.share), ())


def links(node: Node) -> dict[str, str]:
    return {link.peer: link.state for link in node.broker.status(node.now()).links}


ALL, FEW = 1, 2
"""Identifiers of subscriptions."""


@pytest.mark.parametrize("edges", ["ab", "ab bc cd", "ab bc cd ad", "ab ac ad"])
def test_what_is_published_anywhere_reaches_whoever_asked_anywhere(edges: str) -> None:
    async def story() -> None:
        async with network(edges) as nodes:
            readers = {name: await dial(node, f"reader at {name}") for name, node in nodes.items()}
            for reader in readers.values():
                for identifier, where in ((ALL, ""), (FEW, "n >= 2")):
                    topic_filter = "news/+" if where else "news/#"
                    answer = await reader.ask(topic_filter, 1, where, identifier)
                    assert (answer.reasons, answer.properties.reason_string) == ((1,), None)
            for name, node in nodes.items():
                writer = await dial(node, f"writer at {name}")
                for n in range(4):
                    await writer.publish(f"news/{name}", b'{"n": %d}' % n)
            for reader in readers.values():
                heard: dict[str, list[tuple[bytes, tuple[int, ...]]]] = {name: [] for name in nodes}
                for _ in range(4 * len(nodes)):
                    publish = await reader.receive()
                    heard[publish.topic.removeprefix("news/")].append(
                        (publish.payload[6:7], tuple(sorted(publish.properties.subscription_identifiers)))
                    )
                both = (ALL, FEW)
                expected = [(b"0", (ALL,)), (b"1", (ALL,)), (b"2", both), (b"3", both)]
                assert heard == dict.fromkeys(nodes, expected)

    run(story)


class Proxy:
    """Passes bytes between a dialler and an address, and cuts each connection after some number of them."""

    def __init__(self, target: str, cuts: list[int]) -> None:
        self._target = addresses.read(target)
        self.cuts = cuts
        """Of the next connections; those after them stay whole."""
        self.connections = 0

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return addresses.write(*self._server.sockets[0].getsockname())

    def stop(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        left = [self.cuts.pop(0) if self.cuts else 1 << 62]
        there, back = await asyncio.open_connection(*self._target)
        with_ends = [(reader, back), (there, writer)]
        await asyncio.gather(*(self._pass(source, sink, left) for source, sink in with_ends))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, left: list[int]) -> None:
        try:
            while left[0] and (data := await source.read(4096)):
                data = data[: left[0]]
                left[0] -= len(data)
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.close()


@pytest.mark.parametrize("first", [1, 37, 411, 1000, 1003])
def test_a_link_that_is_cut_at_any_byte_resumes_without_loss_or_repeat(first: int) -> None:
    async def story() -> None:
        one = Node(broker("a"))
        await one.start()
        proxy = Proxy(one.address, [first, first + 500, 997, 1501, 2003, 4099, 8191, 16_001])
        sinks: list[Listed] = []

        def sink(_broker: str, _boot: int) -> Listed:
            sinks.append(Listed())
            return sinks[-1]

        two = Node(broker("b", await proxy.start()), records=sink)
        await two.start()
        await until(lambda: links(two).get("a") == "up")
        there, back = await dial(one, "there", **KEPT), await dial(two, "back")
        for reader, topic in ((there, "t"), (back, "u")):
            await reader.settle(topic)
        writers = ((await dial(two, "to there"), "t"), (await dial(one, "to back"), "u"))
        expected = [b"%d" % n for n in range(601)]
        for payload in expected[:-1]:
            for writer, topic in writers:
                await writer.publish(topic, payload)
        await until(lambda: two.broker.status(two.now()).held == 0)
        for writer, topic in writers:
            await writer.publish(topic, expected[-1])
        # What came twice would come before the last one.
        assert await there.payloads(601) == expected
        assert await back.payloads(601) == expected
        assert proxy.cuts == []
        ups = sinks[0].reasons(Kind.LINK_UP)
        assert "resumed" in ups
        await two.stop()
        await one.stop()
        proxy.stop()

    run(story)


class Traffic:
    """A writer that publishes at QoS 1 until it is told to stop, and a reader whose session is kept, each
    through crashes.
    """

    def __init__(self) -> None:
        self.offered = 0
        self.accepted: list[int] = []
        self.heard: list[int] = []
        self.repeats = 0
        """Unmarked ones."""
        self.going = True
        self._known: set[int] = set()

    async def write(self, address: Callable[[], str]) -> None:
        while self.going:
            writer = await dial_again(address, "writer")
            with contextlib.suppress(OSError, Gone):
                while self.going:
                    batch = range(self.offered, self.offered + 8)
                    self.offered += len(batch)
                    writer.send(*(Publish("t", b"%d" % n, 1, packet_id=n % 8 + 1) for n in batch))
                    for n in batch:
                        assert (await writer.next(Puback)).packet_id == n % 8 + 1
                        self.accepted.append(n)

    async def read(self, address: Callable[[], str]) -> None:
        while True:
            reader = await dial_again(address, "reader", **KEPT)
            with contextlib.suppress(OSError, Gone):
                while True:
                    publish = await reader.receive()
                    self._hear(int(publish.payload), publish.dup)

    def _hear(self, n: int, marked: bool) -> None:
        if n not in self._known:
            self._known.add(n)
            self.heard.append(n)
        elif not marked:
            self.repeats += 1

    @property
    def missing(self) -> set[int]:
        return set(self.accepted) - set(self.heard)


@pytest.mark.parametrize("victim", ["b", *(pytest.param(one, marks=pytest.mark.slow) for one in "ac")])
def test_kill_minus_9_loses_and_repeats_nothing_that_was_accepted(tmp_path: Path, victim: str) -> None:
    """Brokers a, b, c in a row; the writer is at a, the reader at c."""

    async def story() -> None:
        processes: dict[str, BrokerProcess] = {}
        before: tuple[str, ...] = ()
        for name in "abc":
            processes[name] = BrokerProcess(name, tmp_path, before)
            await processes[name].start()
            before = (processes[name].address,)
        reader = await dial_again(lambda: processes["c"].mqtt, "reader", **KEPT)
        await reader.settle("t")
        await reader.close()
        traffic = Traffic()
        tasks = [
            asyncio.ensure_future(traffic.write(lambda: processes["a"].mqtt)),
            asyncio.ensure_future(traffic.read(lambda: processes["c"].mqtt)),
        ]
        await until(lambda: len(traffic.heard) >= 200, "traffic")
        await processes[victim].kill()
        await processes[victim].start()
        some = len(traffic.heard) + 200
        await until(lambda: len(traffic.heard) >= some, "traffic after the restart")
        traffic.going = False
        await until(lambda: not traffic.missing, "what was accepted")
        await tasks[0]
        await until(lambda: not traffic.missing, "what was accepted last")
        assert traffic.repeats == 0
        assert traffic.heard == sorted(traffic.heard)
        for name in "abc":
            assert await processes[name].terminate() == 0
        tasks[1].cancel()

    run(story)


def test_sigterm_drains_what_was_accepted(tmp_path: Path) -> None:
    async def story() -> None:
        reading = Node(broker("b"))
        await reading.start()
        writing = BrokerProcess("a", tmp_path, (reading.address,))
        await writing.start()
        await until(lambda: links(reading) == {"a": "up"})
        reader = await dial(reading, "reader")
        await reader.settle("t")
        writer = await dial_again(lambda: writing.mqtt, "writer")
        payloads = [b"%d" % n for n in range(2_000)]
        await writer.publish_all("t", payloads)
        assert await writing.terminate() == 0
        assert await reader.payloads(2_000) == payloads
        assert (await writer.next(Disconnect)).reason == Reason.SERVER_SHUTTING_DOWN
        await reading.stop()

    run(story)


def test_a_writer_that_is_too_fast_is_held_back_and_nothing_is_lost() -> None:
    async def story() -> None:
        small = Settings(
            backlog_bytes=64_000, link_window_bytes=64_000, link_unacked_bytes=32_000, message_bytes_max=4_096
        )
        one = Node(broker("a", settings=small))
        await one.start()
        two = Node(broker("b", one.address, settings=small))
        await two.start()
        await until(lambda: members(two) == ("a", "b"))
        reader = await dial(two, "reader")
        await reader.settle("t")
        writer = await dial(one, "writer")
        payloads = [b"%d " % n + bytes(2_000) for n in range(2 * UNDER_WAY)]
        writing = asyncio.ensure_future(writer.publish_all("t", payloads))
        paused, largest = False, 0
        while not writing.done():
            status = one.broker.status(one.now())
            paused, largest = paused or status.paused, max(largest, status.backlog_bytes)
            await asyncio.sleep(0)
        await writing
        assert await reader.payloads(len(payloads)) == payloads
        assert paused
        # One read from a socket may come on top of what makes it pause.
        assert largest < 64_000 + 400_000
        for node in (two, one):
            await node.stop()

    run(story)


def test_malformed_bytes_cost_one_connection_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with network("ab") as nodes:
            node = nodes["a"]
            reader = await dial(node, "reader")
            await reader.settle("t")
            for wrong in (
                b"GET / HTTP/1.1\r\n\r\n",
                b"\x00\x00\x00\x01\xc1",
                b"\x00\x00\x00\x04\x93\xff\x00\x90",
            ):
                stranger, writer = await asyncio.open_connection(*addresses.read(node.address))
                writer.write(wrong)
                assert await stranger.read() == b""
                writer.close()
            assert node.counters.faults == 3
            await (await dial(nodes["b"], "writer")).publish("t", b"1")
            assert await reader.payloads(1) == [b"1"]
            assert links(node) == {"b": "up"}

    run(story)
    said = reasons(caplog, "a connection is closed")
    assert [reason.partition(":")[0] for reason in said] == ["malformed bytes"] * 3
    assert "a frame of 1195725856 bytes; 65536 are allowed here" in said[0]


@pytest.mark.parametrize(
    ("there", "here", "reason"),
    [
        (
            {"settings": Settings(network="north")},
            {"settings": Settings(network="south")},
            "network 'south' is not 'north'",
        ),
        ({}, {"id": "a"}, "two brokers have the id 'a'; give one of them another"),
        (
            {"settings": Settings(token="one")},
            {"settings": Settings(token="two")},
            "the cluster token is not ours",
        ),
        (
            {"settings": Settings(token="one")},
            {"settings": Settings()},
            "the cluster token is not ours",
        ),
    ],
)
def test_strangers_are_refused_with_a_reason(
    caplog: pytest.LogCaptureFixture, there: dict[str, Any], here: dict[str, Any], reason: str
) -> None:
    async def story() -> None:
        one = Node(NodeOptions(**{"id": "a", **there}))
        await one.start()
        two = Node(NodeOptions(**{"id": "b", **here, "neighbours": (one.address,)}))
        await two.start()
        refused = ("the neighbour refuses this broker", "a connection is refused")
        await until(lambda: any(reason in reasons(caplog, text) for text in refused))
        assert "up" not in {*links(one).values(), *links(two).values()}
        # Who has dialled is known by its host, since its port is another one each time.
        said = [record.__dict__["about"] for record in caplog.records if record.message in refused]
        places = {about["address"] for about in said}
        assert places
        assert places <= {one.address, "127.0.0.1"}
        await two.stop()
        await one.stop()

    run(story)


def certificates(folder: Path, authority: str, broker: str) -> tls.Tls:
    return tls.Tls(*make_authority(folder, authority)(broker))


def test_brokers_speak_over_tls(tmp_path: Path) -> None:
    async def story() -> None:
        issue = make_authority(tmp_path)
        one = Node(broker("a", tls=tls.Tls(*issue("a"))))
        await one.start()
        two = Node(broker("b", one.address, tls=tls.Tls(*issue("b"))))
        await two.start()
        await until(lambda: links(one) == {"b": "up"} and links(two) == {"a": "up"})
        reader = await dial(one, "reader")
        await reader.settle("t")
        await (await dial(two, "writer")).publish("t", b"secret" * 10_000)
        assert await reader.payloads(1) == [b"secret" * 10_000]
        await two.stop()
        await one.stop()

    run(story)


def test_a_certificate_of_another_authority_or_another_broker_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        issue = make_authority(tmp_path)
        foreign = make_authority(tmp_path, "foreign")
        one = Node(NodeOptions("a", tls=tls.Tls(*issue("a"))))
        await one.start()
        # Believes ours, but shows one of its own.
        shown = tls.Tls(issue("b")[0], *foreign("b")[1:])
        two = Node(NodeOptions("b", tls=shown, neighbours=(one.address,)))
        await two.start()
        await until(lambda: one.counters.connections_refused)
        three = Node(NodeOptions("c", tls=tls.Tls(*issue("d")), neighbours=(one.address,)))
        await three.start()
        await until(
            lambda: any(
                "certificate is that of" in said for said in reasons(caplog, "a connection is refused")
            )
        )
        four = Node(NodeOptions("e", neighbours=(one.address,)))
        await four.start()
        before = one.counters.connections_refused
        await until(lambda: one.counters.connections_refused > before)
        assert "up" not in links(one).values()
        for node in (four, three, two, one):
            await node.stop()

    run(story)
    said = reasons(caplog, "a connection is refused")
    assert any("certificate verify failed" in reason for reason in said)
    assert "the certificate is that of 'd', not of 'c'" in said
