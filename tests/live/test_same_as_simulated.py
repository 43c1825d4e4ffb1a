"""The brokers that run live are those that are simulated: one story, told to both, ends the same."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.local import run, until
from tests.live.mqtt import KEPT, TCP, Gone, RawClient, dial
from tidings.language.subscriptions import Subscription
from tidings.live.node import Node, NodeOptions
from tidings.mqtt.packets import Asked, Properties, Puback, Suback, Unsuback
from tidings.mqtt.packets import Publish as MqttPublish
from tidings.mqtt.packets import Subscribe as MqttSubscribe
from tidings.mqtt.packets import Unsubscribe as MqttUnsubscribe
from tidings.overlay.settings import Settings
from tidings.planning.topologies import from_links
from tidings.sim.world import World

QUICK = Settings(redial_max_s=0.5)
LINKS = [("b0", "b1"), ("b1", "b2"), ("b2", "b3"), ("b0", "b3"), ("b3", "b4")]
BROKERS = [f"b{n}" for n in range(5)]
FILTERS = ["news/#", "+/sport", "news/sport", "#", "weather/+", "news/+"]
WHERE = ["", "", "n > 20", "n BETWEEN 10 AND 30", "kind = 'goal' OR n < 5"]
TOPICS = ["news/sport", "news/politics", "weather/athens", "local/sport"]

Got = dict[str, dict[tuple[str, str], list[bytes]]]
"""By session, of which each has one subscription, then by origin and topic: the payloads in their order."""


@dataclass(frozen=True)
class Subscribe:
    broker: str
    name: str
    subscription: Subscription


@dataclass(frozen=True)
class Unsubscribe:
    name: str
    topic_filter: str


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
                broker,
                chance.choice(TOPICS),
                b'{"n": %d, "kind": "%s", "at": "%s"}'
                % (next(numbers), chance.choice([b"goal", b"foul"]), broker.encode()),
                chance.choice(qos),
            )
            for broker in chance.choices(at, k=count)
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
    yield [Unsubscribe(name, subscription.topic_filter) for _, name, subscription in asked[::3]]
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
    clients = {}
    counts = []
    for steps in story(seed):
        for step in steps:
            match step:
                case Subscribe():
                    clients[step.name] = world.client(step.broker, step.name, durable=True)
                    clients[step.name].subscribe("1", step.subscription)
                case Unsubscribe():
                    clients[step.name].unsubscribe("1")
                case Publish():
                    if step.broker not in clients:
                        clients[step.broker] = world.client(step.broker, step.broker)
                    assert clients[step.broker].publish(step.topic, step.payload, step.qos)
                case Break():
                    world.break_connection(step.one, step.other)
                case Crash():
                    world.crash(step.broker)
                case Return():
                    world.start_broker(step.broker)
        assert world.settle()
        counts.append(sum(len(delivery.subscriptions) for delivery in world.ledger.deliveries))
    got: Got = {}
    for delivery in world.ledger.deliveries:
        publication = delivery.publication
        for session, _ in delivery.subscriptions:
            line_of(got, session, publication.topic, publication.payload).append(publication.payload)
    return got, counts


def line_of(got: Got, session: str, topic: str, payload: bytes) -> list[bytes]:
    """What a session has got on a topic from the broker that a payload names."""
    return got.setdefault(session, {}).setdefault((json.loads(payload)["at"], topic), [])


class Live:
    """The same network on loopback."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports: dict[str, int] = {}
        self.nodes: dict[str, Node] = {}
        self._homes: dict[str, str] = {}
        """By session: its broker."""
        self._readers: dict[str, RawClient] = {}
        self._writers: dict[str, RawClient] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._answers: asyncio.Queue[Suback | Unsuback] = asyncio.Queue()
        self.got: Got = {}

    async def start(self, broker: str) -> None:
        neighbours = tuple(
            self.nodes[one].address for one, other in LINKS if other == broker and one in self.nodes
        )
        options = NodeOptions(
            broker,
            port=self._ports.get(broker, 0),
            neighbours=neighbours,
            folder=self._folder / broker,
            listening=(TCP,),
            settings=QUICK,
        )
        node = self.nodes[broker] = Node(options)
        await node.start()
        self._ports[broker] = int(node.address.rpartition(":")[2])
        self._writers[broker] = await dial(node, broker)
        for session, home in self._homes.items():
            if home == broker:
                await self._connect(session)

    async def _connect(self, session: str) -> None:
        reader = await dial(self.nodes[self._homes[session]], session, **KEPT)
        self._readers[session] = reader
        self._reading[session] = asyncio.ensure_future(self._read(session, reader))

    async def _read(self, session: str, reader: RawClient) -> None:
        with contextlib.suppress(Gone, OSError):
            while True:
                packet = await reader.packet()
                if isinstance(packet, Suback | Unsuback):
                    self._answers.put_nowait(packet)
                elif isinstance(packet, MqttPublish):
                    line = line_of(self.got, session, packet.topic, packet.payload)
                    if packet.payload in line:
                        assert packet.dup, "only what may be one is a repeat"
                    else:
                        line.append(packet.payload)
                    if packet.qos:
                        reader.send(Puback(packet.packet_id))

    async def subscribe(self, step: Subscribe) -> None:
        self._homes[step.name] = step.broker
        await self._connect(step.name)
        asked = step.subscription
        where = Properties(user=(("where", asked.where),) if asked.where else ())
        self._readers[step.name].send(MqttSubscribe(1, (Asked(asked.topic_filter, asked.qos),), where))
        answer = await self._answers.get()
        assert (answer.reasons, answer.properties.reason_string) == ((1,), None)

    async def unsubscribe(self, step: Unsubscribe) -> None:
        self._readers[step.name].send(MqttUnsubscribe(1, (step.topic_filter,)))
        assert (await self._answers.get()).reasons == (0,)

    async def publish(self, step: Publish) -> None:
        writer = self._writers[step.broker]
        if step.qos:
            await writer.publish(step.topic, step.payload)
        else:
            writer.send(MqttPublish(step.topic, step.payload))

    async def crash(self, broker: str) -> None:
        self.nodes[broker].stop_now()
        await self.nodes[broker].stopped()
        await asyncio.gather(*(self._reading[one] for one, home in self._homes.items() if home == broker))

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
        for node in self.nodes.values():
            await node.stop()
        await asyncio.gather(*self._reading.values())


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
                        await live.subscribe(step)
                    case Unsubscribe():
                        await live.unsubscribe(step)
                    case Publish():
                        await live.publish(step)
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
