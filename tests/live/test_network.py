"""Brokers on loopback: publications flow, survive cuts and kills, and strangers are turned away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.local import WITHIN_S, make_authority, reasons, run, until
from tests.live.process import BrokerProcess
from tidings.errors import PeerError
from tidings.language.subscriptions import Subscription
from tidings.live import addresses, tls
from tidings.live.attachment import Attachment, attach
from tidings.live.node import Node, NodeOptions
from tidings.overlay.settings import Settings
from tidings.records.record import Kind, Record, Run

QUICK = Settings(redial_max_s=0.5)


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
async def network(edges: str, **options: Any) -> AsyncIterator[dict[str, Node]]:
    """Brokers by name, with a link for each pair: "ab bc"; the second of a pair dials the first."""
    nodes: dict[str, Node] = {}
    for name in sorted(set(edges.replace(" ", ""))):
        neighbours = tuple(
            nodes[pair[0]].address for pair in edges.split() if pair[1] == name and pair[0] in nodes
        )
        nodes[name] = Node(NodeOptions(name, neighbours=neighbours, settings=QUICK, **options))
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


async def payloads(client: Attachment, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        delivered = await asyncio.wait_for(client.receive(), WITHIN_S)
        client.take(delivered)
        found.append(delivered.publication.payload)
    return found


@pytest.mark.parametrize("edges", ["ab", "ab bc cd", "ab bc cd ad", "ab ac ad"])
def test_what_is_published_anywhere_reaches_whoever_asked_anywhere(edges: str) -> None:
    async def story() -> None:
        async with network(edges) as nodes:
            clients = {name: await attach(node.address, f"at {name}") for name, node in nodes.items()}
            for client in clients.values():
                assert await client.subscribe("all", Subscription("news/#", qos=1)) == ""
                assert await client.subscribe("few", Subscription("news/+", "n >= 2", qos=1)) == ""
            for name, client in clients.items():
                for n in range(4):
                    await client.publish(
                        f"news/{name}", b'{"n": %d, "from": "%s"}' % (n, name.encode()), qos=1
                    )
            for client in clients.values():
                heard: dict[str, list[tuple[bytes, tuple[str, ...]]]] = {name: [] for name in nodes}
                for _ in range(4 * len(nodes)):
                    delivered = await asyncio.wait_for(client.receive(), WITHIN_S)
                    heard[delivered.publication.origin].append(
                        (delivered.publication.payload[6:7], delivered.names)
                    )
                few = ("all",)
                both = ("all", "few")
                expected = [(b"0", few), (b"1", few), (b"2", both), (b"3", both)]
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
        one = Node(NodeOptions("a", settings=QUICK))
        await one.start()
        proxy = Proxy(one.address, [first, first + 500, 997, 1501, 2003, 4099, 8191, 16_001])
        sinks: list[Listed] = []

        def sink(_broker: str, _boot: int) -> Listed:
            sinks.append(Listed())
            return sinks[-1]

        address = await proxy.start()
        two = Node(NodeOptions("b", neighbours=(address,), settings=QUICK), records=sink)
        await two.start()
        reader = await attach(one.address, "reader", durable=True)
        await reader.subscribe("s", Subscription("t", qos=1))
        writer = await attach(two.address, "writer")
        await writer.subscribe("back", Subscription("u", qos=1))
        await until(lambda: links(two).get("a") == "up")
        for n in range(600):
            await writer.publish("t", b"%d" % n, qos=1)
            await reader.publish("u", b"%d" % n, qos=1)
        expected = [b"%d" % n for n in range(600)]
        assert await payloads(reader, 600) == expected
        assert await payloads(writer, 600) == expected
        assert proxy.cuts == []
        await until(lambda: two.broker.status(two.now()).held == 0)
        assert reader._waiting == writer._waiting == type(reader._waiting)()
        ups = sinks[0].reasons(Kind.LINK_UP)
        assert "resumed" in ups
        await two.stop()
        await one.stop()
        proxy.stop()

    run(story)


class Traffic:
    """A writer that publishes QoS 1 until it is told to stop, and a durable reader, each through crashes."""

    def __init__(self) -> None:
        self.offered = 0
        self.accepted: list[int] = []
        self.heard: list[int] = []
        self.repeats = 0
        """Unmarked ones."""
        self.going = True
        self._ids: set[str] = set()

    async def write(self, address: Callable[[], str]) -> None:
        while self.going:
            try:
                async with await attach(address(), "writer") as writer:
                    while self.going:
                        batch = [(self.offered + n, self._offer(writer, self.offered + n)) for n in range(8)]
                        self.offered += len(batch)
                        for n, answer in batch:
                            await answer
                            self.accepted.append(n)
            except Exception:  # noqa: BLE001 - whatever happens to the connection, it is made again
                await asyncio.sleep(0.01)

    @staticmethod
    def _offer(writer: Attachment, n: int) -> asyncio.Future[None]:
        answer = writer.offer("t", b"%d" % n, qos=1)
        assert answer is not None
        return answer

    async def read(self, address: Callable[[], str]) -> None:
        while True:
            try:
                async with await attach(address(), "reader", durable=True) as reader:
                    async for delivered in reader:
                        self._hear(
                            delivered.publication.id, int(delivered.publication.payload), delivered.repeat
                        )
            except Exception:  # noqa: BLE001
                await asyncio.sleep(0.01)

    def _hear(self, identity: str, n: int, marked: bool) -> None:
        if identity not in self._ids:
            self._ids.add(identity)
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
        reader = await attach(processes["c"].address, "reader", durable=True)
        while await reader.subscribe("s", Subscription("t", qos=1)):
            pass  # "settling": the brokers have not found each other yet
        await reader.close()
        traffic = Traffic()
        tasks = [
            asyncio.ensure_future(traffic.write(lambda: processes["a"].address)),
            asyncio.ensure_future(traffic.read(lambda: processes["c"].address)),
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
        reading = Node(NodeOptions("b", settings=QUICK))
        await reading.start()
        writing = BrokerProcess("a", tmp_path, (reading.address,))
        await writing.start()
        reader = await attach(reading.address, "reader")
        while await reader.subscribe("s", Subscription("t", qos=1)):
            pass
        await until(lambda: links(reading) == {"a": "up"})
        writer = await attach(writing.address, "writer")
        answers = [writer.offer("t", b"%d" % n, qos=1) for n in range(2_000)]
        await asyncio.gather(*(answer for answer in answers if answer is not None))
        assert await writing.terminate() == 0
        assert await payloads(reader, 2_000) == [b"%d" % n for n in range(2_000)]
        assert await writer.lost == "the broker stops"
        await reading.stop()

    run(story)


def test_a_writer_that_is_too_fast_is_held_back_and_nothing_is_lost() -> None:
    async def story() -> None:
        small = Settings(
            backlog_bytes=64_000, link_window_bytes=64_000, link_unacked_bytes=32_000, message_bytes_max=4_096
        )
        one = Node(NodeOptions("a", settings=small))
        await one.start()
        two = Node(NodeOptions("b", settings=small, neighbours=(one.address,)))
        await two.start()
        await until(lambda: members(two) == ("a", "b"))
        reader = await attach(two.address, "reader")
        assert await reader.subscribe("s", Subscription("t", qos=1)) == ""
        writer = await attach(one.address, "writer")
        paused, largest = False, 0
        answers = []
        for n in range(2_000):
            answers.append(writer.offer("t", b"%d " % n + bytes(2_000), qos=1))
            if n % 20 == 0:
                await writer._writable.wait()
                await asyncio.sleep(0)
            status = one.broker.status(one.now())
            paused, largest = paused or status.paused, max(largest, status.backlog_bytes)
        await asyncio.gather(*(answer for answer in answers if answer is not None))
        heard = [int(payload.split()[0]) for payload in await payloads(reader, 2_000)]
        assert heard == list(range(2_000))
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
            reader = await attach(node.address, "reader")
            await reader.subscribe("s", Subscription("t", qos=1))
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
            writer_b = await attach(nodes["b"].address, "writer")
            await writer_b.publish("t", b"1", qos=1)
            assert await payloads(reader, 1) == [b"1"]
            assert links(node) == {"b": "up"}
            assert not reader.lost.done()

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


def test_brokers_and_programs_speak_over_tls(tmp_path: Path) -> None:
    async def story() -> None:
        issue = make_authority(tmp_path)
        one = Node(NodeOptions("a", tls=tls.Tls(*issue("a"))))
        await one.start()
        two = Node(NodeOptions("b", tls=tls.Tls(*issue("b")), neighbours=(one.address,)))
        await two.start()
        await until(lambda: links(one) == {"b": "up"} and links(two) == {"a": "up"})
        _, context = tls.contexts(tls.Tls(*issue("some program")))
        async with await attach(one.address, "reader", context=context) as reader:
            await reader.subscribe("s", Subscription("t", qos=1))
            async with await attach(two.address, "writer", context=context) as writer:
                await writer.publish("t", b"secret" * 10_000, qos=1)
            assert await payloads(reader, 1) == [b"secret" * 10_000]
        with pytest.raises(PeerError):
            await attach(one.address, "reader")
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
