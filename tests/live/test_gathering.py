"""Gathered topics over MQTT, at brokers that run: many reporters, few events, and seats that are killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.live.local import WITHIN_S, run, until
from tests.live.process import BrokerProcess
from tidings.language.topics import Topic
from tidings.live.listeners import Listening
from tidings.live.node import Node, NodeOptions
from tidings.overlay.broker import Broker

ROADS: dict[str, Any] = {
    "name": "roads/+area",
    "kind": "gathered",
    "key": ["area", "place"],
    "merge_after": "100ms",
    "redundant_for": "1h",
    "window": "none",
    "stays_open": "reported",
    "seat": "centre",
    "fields": {
        "place": {"type": "string"},
        "severity": {"type": "int", "conflict": "max"},
        "kind": {"type": "string"},
        "witness": {"type": "string", "conflict": "union"},
    },
}


class Got(NamedTuple):
    """One message of a gathered topic."""

    topic: str
    fields: dict[str, Any]
    user: dict[str, str]

    @property
    def event(self) -> str:
        return self.user["event"]

    @property
    def version(self) -> int:
        return int(self.user["version"])

    @property
    def witnesses(self) -> set[str]:
        return set(self.fields.get("witness", ()))


class Follower:
    """An MQTT client that writes down what it gets."""

    def __init__(self, address: str, name: str, expiry_s: int = 0) -> None:
        host, _, port = address.rpartition(":")
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = expiry_s
        self.got: list[Got] = []
        self._client = aiomqtt.Client(
            host,
            int(port),
            identifier=name,
            protocol=aiomqtt.ProtocolVersion.V5,
            clean_start=not expiry_s,
            properties=properties,
            timeout=WITHIN_S,
        )

    async def __aenter__(self) -> Follower:
        deadline = asyncio.get_running_loop().time() + WITHIN_S
        while True:
            try:
                await self._client.__aenter__()
                break
            except aiomqtt.MqttError:  # a broker that has just started lets nobody in yet
                assert asyncio.get_running_loop().time() < deadline, "the broker lets nobody in"
                await asyncio.sleep(0.02)
        self._reading = asyncio.ensure_future(self._read())
        return self

    async def __aexit__(self, *how: Any) -> None:
        self._reading.cancel()
        with contextlib.suppress(aiomqtt.MqttError):
            await self._client.__aexit__(*how)

    async def subscribe(self, topic_filter: str, **asked: str) -> None:
        properties = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
        if asked:
            properties.UserProperty = list(asked.items())
        await self._client.subscribe(topic_filter, qos=1, properties=properties)

    async def _read(self) -> None:
        with contextlib.suppress(aiomqtt.MqttError):
            async for message in self._client.messages:
                assert message.properties is not None
                user = dict(getattr(message.properties, "UserProperty", []))
                assert isinstance(message.payload, bytes)
                self.got.append(Got(str(message.topic), json.loads(message.payload or b"{}"), user))

    async def report(self, area: str, **fields: object) -> None:
        """With QoS 1; done when it is acknowledged."""
        await self._client.publish(f"roads/{area}", json.dumps(fields), qos=1)

    def of(self, place: str) -> list[Got]:
        events = {got.event for got in self.got if got.fields.get("place") == place}
        return [got for got in self.got if got.event in events]

    def last(self, place: str) -> Got | None:
        return next(reversed(self.of(place)), None)

    def check(self) -> None:
        """No version twice, and each event only grows."""
        latest: dict[str, int] = {}
        for got in self.got:
            assert got.version > latest.get(got.event, 0), f"{got} after version {latest[got.event]}"
            latest[got.event] = got.version


@contextlib.asynccontextmanager
async def path_of(*names: str) -> AsyncIterator[list[Node]]:
    """Brokers in a row, in this process."""
    nodes: list[Node] = []
    topic = Topic.from_mapping(ROADS)
    try:
        for name in names:
            neighbours = tuple(node.address for node in nodes[-1:])
            listening = (Listening("tcp", "127.0.0.1", 0),)
            node = Node(NodeOptions(name, neighbours=neighbours, topics=(topic,), listening=listening))
            await node.start()
            nodes.append(node)
            await until(lets_in(node), "letting clients in")
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


def lets_in(node: Node) -> Callable[[], bool]:
    return lambda: not node.synchronising


def mqtt(node: Node) -> str:
    return node.mqtt_addresses["tcp"]


def seat_of(node: Node) -> Any:
    broker = node.broker
    assert isinstance(broker, Broker)
    (seat,) = broker.gathered("roads/+area")
    return seat


def test_reports_at_all_brokers_become_one_event_at_all_brokers() -> None:
    async def story() -> None:
        async with (
            path_of("a", "b", "c") as (a, b, c),
            Follower(mqtt(a), "everything") as everything,
            Follower(mqtt(c), "severe") as severe,
            Follower(mqtt(c), "slow") as slow,
            Follower(mqtt(b), "mild") as mild,
            Follower(mqtt(a), "r1") as r1,
            Follower(mqtt(b), "r2") as r2,
            Follower(mqtt(c), "r3") as r3,
        ):
            await everything.subscribe("roads/#")
            await severe.subscribe("roads/+", where="severity >= 5")
            await slow.subscribe("roads/athens", every="2s")
            await mild.subscribe("roads/#", where="severity < 5")
            await r1.report("athens", place="bridge", severity=2)
            await until(lambda: mild.last("bridge"), "the first version")
            for number, reporter in enumerate((r1, r2, r3) * 4):
                await reporter.report("athens", place="bridge", severity=number % 7)
                await reporter.report("athens", place="bridge", kind="fire", witness=f"w{number}")
                await reporter.report("patras", place="port", kind="works")
            witnesses = {f"w{number}" for number in range(12)}
            await until(has(witnesses, everything, severe, slow), "all witnesses")
            await until(lambda: mild.got[-1].user["state"] == "withdrawn", "the withdrawal")
            await until(lambda: everything.last("port"), "the other event")
            for follower in (everything, severe, slow, mild):
                follower.check()
            last = everything.last("bridge")
            assert last is not None
            assert last.fields["severity"] == 6
            assert last.fields["kind"] == "fire"
            assert last.user["seat"] == "b"
            assert last.user["state"] == "told"
            assert last.user["complete"] == "true"
            assert last.user["hops"] == "1"
            assert 13 <= int(last.user["reports"]) <= 37
            assert {got.event for got in everything.of("bridge")} == {last.event}
            assert all(got.fields["severity"] >= 5 for got in severe.got)
            assert not severe.of("port")
            assert not slow.of("port")
            assert len(slow.got) <= len(everything.of("bridge"))
            seat = seat_of(b)
            assert seat.mine
            assert seat.received == 37 == seat.opened + seat.merged + seat.redundant
            assert seat.opened == seat.open == 2
            assert seat.redundant >= 11

    run(story)


def test_who_comes_later_gets_what_is_open() -> None:
    async def story() -> None:
        async with (
            path_of("a", "b") as (a, b),
            Follower(mqtt(a), "early") as early,
            Follower(mqtt(b), "late") as late,
        ):
            await early.subscribe("roads/#")
            await early.report("athens", place="bridge", severity=7)
            await early.report("athens", place="tunnel", severity=2)
            await until(lambda: early.last("bridge") and early.last("tunnel"), "two events")
            await late.subscribe("roads/#", where="severity > 5")
            await until(lambda: late.got, "the snapshot")
            await early.report("athens", place="bridge", severity=9)
            await until(lambda: len(late.got) == 2, "the next version")
            assert [got.user["state"] for got in late.got] == ["snapshot", "told"]
            assert [got.fields["severity"] for got in late.got] == [7, 9]
            late.check()

    run(story)


def test_killing_the_seat_in_the_middle_of_an_event_loses_nothing(tmp_path: Path) -> None:
    write(tmp_path)

    async def story() -> None:
        a, b, c = await linked(tmp_path, "abc")
        async with (
            Follower(b.mqtt, "at b") as at_b,
            Follower(c.mqtt, "at c") as at_c,
            Follower(b.mqtt, "r1") as r1,
            Follower(c.mqtt, "r2") as r2,
        ):
            await at_b.subscribe("roads/#")
            await at_c.subscribe("roads/#", where="severity >= 5")
            async with Follower(a.mqtt, "at a", expiry_s=3600) as at_a:
                await at_a.subscribe("roads/#")
            await r1.report("athens", place="bridge", severity=7, witness="before")
            await until(has({"before"}, at_b, at_c), "the first version")
            first = at_b.got[0]
            assert first.user["seat"] == "a"
            # Some are on their way, some wait at the seat, some are told, when it dies.
            said = {"before"}
            for number in range(20):
                said.add(f"w{number}")
                await (r1, r2)[number % 2].report("athens", place="bridge", witness=f"w{number}")
                if number == 9:
                    await a.kill()
            await until(has(said, at_b, at_c), "all that was reported")
            last = at_b.last("bridge")
            assert last is not None
            assert last.event == first.event
            assert last.user["seat"] != "a"
            await a.start()
            async with Follower(a.mqtt, "at a", expiry_s=3600) as at_a:
                await until(has(said, at_a), "what the session at the killed broker is owed")
                await r2.report("athens", place="bridge", witness="after")
                await until(has({*said, "after"}, at_a, at_b, at_c), "the network is whole again")
                for follower in (at_a, at_b, at_c):
                    follower.check()
                    assert {got.event for got in follower.got} == {first.event}
        for broker in (a, b, c):
            await broker.terminate()

    run(story)


@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_all_brokers_killed_at_once_lose_nothing_acknowledged(tmp_path: Path, count: int) -> None:
    write(tmp_path)

    async def story() -> None:
        brokers = await linked(tmp_path, "abc"[:count])
        place = brokers[count // 2].mqtt
        async with Follower(place, "follower", expiry_s=3600) as follower:
            await follower.subscribe("roads/#")
            for number in range(5):
                await follower.report("athens", place="bridge", severity=3, witness=f"w{number}")
        for broker in brokers:
            await broker.kill()
        for broker in brokers:
            await broker.start()
        async with Follower(place, "follower", expiry_s=3600) as follower:
            await follower.report("athens", place="bridge", witness="after")
            await until(has({"after", *(f"w{number}" for number in range(5))}, follower), "all of it")
        for broker in brokers:
            await broker.terminate()

    run(story)


def has(witnesses: set[str], *followers: Follower) -> Callable[[], bool]:
    """Whether the latest that they know of the bridge names these witnesses."""

    def condition() -> bool:
        latest = [follower.last("bridge") for follower in followers]
        return all(last is not None and last.witnesses == witnesses for last in latest)

    return condition


def write(folder: Path) -> None:
    lines = [f"{name} = {json.dumps(value)}" for name, value in ROADS.items() if name != "fields"]
    lines.append("[fields]")
    for name, traits in ROADS["fields"].items():
        lines += [f"{name}.{trait} = {json.dumps(value)}" for trait, value in traits.items()]
    (folder / "roads.toml").write_text("\n".join(lines), encoding="utf-8")


async def linked(folder: Path, names: str) -> list[BrokerProcess]:
    """Brokers, each linked with each: whoever dies, the others are in reach of each other."""
    brokers: list[BrokerProcess] = []
    for name in names:
        brokers.append(BrokerProcess(name, folder, tuple(one.address for one in brokers)))
        await brokers[-1].start()
    return brokers
