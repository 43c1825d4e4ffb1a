"""The brokers that run live are those that are simulated: one story, told to both, ends the same."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.local import run, until
from tidings.language.subscriptions import Subscription
from tidings.live.attachment import Attachment, attach
from tidings.live.node import Node, NodeOptions
from tidings.overlay.settings import Settings
from tidings.sim.topologies import from_links
from tidings.sim.world import World

QUICK = Settings(redial_max_s=0.5)
LINKS = [("b0", "b1"), ("b1", "b2"), ("b2", "b3"), ("b0", "b3"), ("b3", "b4")]
BROKERS = [f"b{n}" for n in range(5)]
FILTERS = ["news/#", "+/sport", "news/sport", "#", "weather/+", "news/+"]
WHERE = ["", "", "n > 20", "n BETWEEN 10 AND 30", "kind = 'goal' OR n < 5"]
TOPICS = ["news/sport", "news/politics", "weather/athens", "local/sport"]

Got = dict[str, dict[tuple[str, str], list[tuple[bytes, tuple[str, ...]]]]]
"""By session, then by origin and topic: the payloads in their order, with the subscriptions they matched."""


@dataclass(frozen=True)
class Subscribe:
    broker: str
    name: str
    subscription: Subscription


@dataclass(frozen=True)
class Unsubscribe:
    broker: str
    name: str


@dataclass(frozen=True)
class Publish:
    broker: str
    topic: str
    payload: bytes
    qos: int


@dataclass(frozen=True)
class Break:
    """A connection breaks; it is made again."""

    one: str
    other: str


@dataclass(frozen=True)
class Crash:
    broker: str


@dataclass(frozen=True)
class Return:
    broker: str


Step = Subscribe | Unsubscribe | Publish | Break | Crash | Return


def story(seed: int) -> Iterator[list[Step]]:
    """Steps, in groups; what one group brings about is over before the next begins."""
    chance = random.Random(seed)
    numbers = iter(range(10_000))

    def publications(count: int, qos: list[int], at: list[str]) -> list[Step]:
        return [
            Publish(
                chance.choice(at),
                chance.choice(TOPICS),
                b'{"n": %d, "kind": "%s"}' % (next(numbers), chance.choice([b"goal", b"foul"])),
                chance.choice(qos),
            )
            for _ in range(count)
        ]

    asked = [
        (chance.choice(BROKERS), f"s{n}", Subscription(chance.choice(FILTERS), chance.choice(WHERE), qos=1))
        for n in range(12)
    ]
    # Without b3 the others would not be in one piece.
    victim = chance.choice([broker for broker in BROKERS if broker != "b3"])
    owed = Subscribe(victim, "owed", Subscription("news/#", qos=1))
    yield [*(Subscribe(*each) for each in asked), owed]
    yield publications(15, [0, 1], BROKERS)
    yield [Unsubscribe(broker, name) for broker, name, _ in asked[::3]]
    yield publications(10, [0, 1], BROKERS)
    yield [Break("b0", "b1"), Break("b3", "b4")]
    yield publications(10, [1], BROKERS)
    yield [Crash(victim)]
    yield publications(10, [1], [broker for broker in BROKERS if broker != victim])
    yield [Return(victim)]
    yield publications(10, [1], BROKERS)


def simulated(seed: int) -> tuple[Got, list[int]]:
    """What is delivered, and how much of it after each group of steps."""
    world = World(from_links(LINKS), seed, settings=QUICK)
    world.start()
    assert world.settle()
    clients = {broker: world.client(broker, f"at {broker}", durable=True) for broker in BROKERS}
    for client in clients.values():
        client.attach()
    counts = []
    for steps in story(seed):
        for step in steps:
            match step:
                case Subscribe():
                    clients[step.broker].subscribe(step.name, step.subscription)
                case Unsubscribe():
                    clients[step.broker].unsubscribe(step.name)
                case Publish():
                    assert clients[step.broker].publish(step.topic, step.payload, step.qos)
                case Break():
                    world.break_connection(step.one, step.other)
                case Crash():
                    world.crash(step.broker)
                case Return():
                    world.start_broker(step.broker)
        assert world.settle()
        counts.append(
            sum(
                len({session for session, _ in delivery.subscriptions})
                for delivery in world.ledger.deliveries
            )
        )
    got: Got = {f"at {broker}": {} for broker in BROKERS}
    for delivery in world.ledger.deliveries:
        for session in dict.fromkeys(session for session, _ in delivery.subscriptions):
            names = tuple(name for owner, name in delivery.subscriptions if owner == session)
            note(got, session, delivery.publication.origin, delivery.publication.topic).append(
                (delivery.publication.payload, names)
            )
    return got, counts


def note(got: Got, session: str, origin: str, topic: str) -> list[tuple[bytes, tuple[str, ...]]]:
    return got[session].setdefault((origin, topic), [])


class Live:
    """The same network on loopback."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports: dict[str, int] = {}
        self.nodes: dict[str, Node] = {}
        self.clients: dict[str, Attachment] = {}
        self._readers: dict[str, asyncio.Task[None]] = {}
        self.got: Got = {f"at {broker}": {} for broker in BROKERS}
        self.repeats = 0

    async def start(self, broker: str) -> None:
        neighbours = tuple(
            self.nodes[one].address for one, other in LINKS if other == broker and one in self.nodes
        )
        options = NodeOptions(
            broker,
            port=self._ports.get(broker, 0),
            neighbours=neighbours,
            folder=self._folder / broker,
            settings=QUICK,
        )
        node = self.nodes[broker] = Node(options)
        await node.start()
        self._ports[broker] = int(node.address.rpartition(":")[2])
        client = self.clients[broker] = await attach(node.address, f"at {broker}", durable=True)
        self._readers[broker] = asyncio.ensure_future(self._read(client))

    async def _read(self, client: Attachment) -> None:
        async for delivered in client:
            publication = delivered.publication
            line = note(self.got, client.session, publication.origin, publication.topic)
            if (publication.payload, delivered.names) in line:
                assert delivered.repeat, "only what may be one is a repeat"
            else:
                line.append((publication.payload, delivered.names))

    async def crash(self, broker: str) -> None:
        self.nodes[broker].stop_now()
        await self.nodes[broker].stopped()
        await asyncio.wait([self._readers[broker]])

    def abort(self, one: str, other: str) -> None:
        """Cut the connections between two brokers."""
        for first, second in ((one, other), (other, one)):
            node = self.nodes[first]
            for connection in list(node._connections.values()):
                if connection.address == self.nodes[second].address:
                    connection.transport.abort()

    async def settle(self) -> None:
        """All brokers that run are in one tree."""
        running = {broker: node for broker, node in self.nodes.items() if not node.stopping}

        def settled() -> bool:
            statuses = {broker: node.broker.status(node.now()) for broker, node in running.items()}
            return all(
                status.ready
                and all(link.state == "up" for link in status.links if link.peer in running)
                and any(tree.members == tuple(running) for tree in status.trees)
                for status in statuses.values()
            )

        await until(settled, "one tree")

    def counted(self) -> int:
        return sum(len(line) for session in self.got.values() for line in session.values())

    async def stop(self) -> None:
        for reader in self._readers.values():
            reader.cancel()
        for node in self.nodes.values():
            await node.stop()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_live_and_simulated_brokers_deliver_the_same(tmp_path: Path, seed: int) -> None:
    expected, counts = simulated(seed)

    async def told() -> Got:
        live = Live(tmp_path)
        for broker in BROKERS:
            await live.start(broker)
        await live.settle()
        for steps, count in zip(story(seed), counts, strict=True):
            for step in steps:
                match step:
                    case Subscribe():
                        assert await live.clients[step.broker].subscribe(step.name, step.subscription) == ""
                    case Unsubscribe():
                        live.clients[step.broker].unsubscribe(step.name)
                        await live.clients[step.broker].publish(
                            "$nobody", b"", qos=1
                        )  # all before it is heard
                    case Publish():
                        await live.clients[step.broker].publish(step.topic, step.payload, step.qos)
                    case Break():
                        live.abort(step.one, step.other)
                    case Crash():
                        await live.crash(step.broker)
                    case Return():
                        await live.start(step.broker)
            await live.settle()
            await until(lambda count=count: live.counted() >= count, "as many deliveries")  # type: ignore[misc]
        await live.stop()
        return live.got

    assert run(told) == expected


def test_the_story_has_deliveries_to_compare() -> None:
    for seed in (1, 2, 3):
        counts = simulated(seed)[1]
        assert counts[-1] > 50
        assert counts[-2] > counts[-3], "something has waited for the broker that came back"
