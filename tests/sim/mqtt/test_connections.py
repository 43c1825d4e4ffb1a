"""Connections of MQTT clients: they do to bytes what a network does, and tell each side what it can know."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.sim.porter import Porter
from tidings.mqtt.events import (
    BytesReceived,
    ClientCongested,
    ClientConnected,
    ClientLost,
    CloseClient,
    PauseReading,
    ResumeReading,
)
from tidings.mqtt.packets import Version
from tidings.planning import topologies
from tidings.sim.mqtt.client import MqttClient, Temper
from tidings.sim.mqtt.connections import CONGESTED_BYTES, Party
from tidings.sim.mqtt.trace import UNBORN, Wish
from tidings.sim.world import World


class Listening(Porter):
    """Remembers what it was told."""

    told: list[Any] = []  # noqa: RUF012  of all in a test

    def handle_all(self, events: Any, now: float) -> list[Any]:
        events = list(events)
        self.told.extend(events)
        return super().handle_all(events, now)


@pytest.fixture
def told() -> list[Any]:
    Listening.told = []
    return Listening.told


def world_of(seed: int = 0, door: Any = Listening) -> World:
    world = World(topologies.from_links([("a", "b")]), seed, door=door)
    world.start()
    return world


def client(world: World, name: str, temper: Temper = Temper(expiry_s=600)) -> Party:  # noqa: B008  frozen
    party = world.lines.party(MqttClient(world.lines.diary, name, "a", temper))
    world.lines.come(party)
    return party


def subscribe(world: World, party: Party, topic_filter: str = "#", qos: int = 1) -> None:
    party_says(world, party, party.device.subscribe([Wish(UNBORN, topic_filter, qos=qos)], world.now))


def publish(world: World, party: Party, payload: bytes, qos: int = 1) -> None:
    offer = world.lines.diary.offer(party.device.name, "a", "t", payload, qos)
    party_says(world, party, party.device.publish(offer, world.now))


def party_says(world: World, party: Party, data: bytes) -> None:
    world.lines.say(party, data)


def got(world: World, name: str) -> list[bytes]:
    return [one.payload for one in world.lines.diary.receipts if one.life.client == name and not one.again]


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_however_they_are_cut(seed: int, told: list[Any]) -> None:
    world = world_of(seed)
    sender, reader = client(world, "p"), client(world, "s")
    world.run(1.0)
    subscribe(world, reader)
    world.run(1.0)
    payloads = [b"%d" % number * 20 for number in range(30)]
    for payload in payloads:
        publish(world, sender, payload)
    world.run(5.0)
    assert got(world, "s") == payloads
    pieces = [event for event in told if isinstance(event, BytesReceived)]
    assert len(pieces) > 33  # some packets came in several


@pytest.mark.parametrize("seed", range(8))
def test_a_break_loses_a_last_part_and_the_client_comes_back_and_sends_it_again(
    seed: int, told: list[Any]
) -> None:
    world = world_of(seed)
    sender, reader = client(world, "p"), client(world, "s")
    world.run(1.0)
    subscribe(world, reader, qos=2)
    world.run(1.0)
    payloads = [b"%d" % number for number in range(20)]
    for payload in payloads:
        publish(world, sender, payload, qos=2)
        world.run(0.002)
    world.lines.drop(sender)
    world.lines.drop(reader)
    assert world.settle()
    assert got(world, "s") == payloads
    assert any(isinstance(event, ClientLost) for event in told)
    assert world.lines.diary.complaints == []


def test_a_silent_break_is_told_to_nobody_and_found_by_the_keep_alive(told: list[Any]) -> None:
    world = world_of()
    party = client(world, "p", Temper(expiry_s=600, keep_alive_s=2))
    world.run(1.0)
    world.lines.drop(party, silent=True)
    world.run(0.5)
    assert party.line is not None
    assert not any(isinstance(event, ClientLost) for event in told)
    world.run(10.0)
    assert sum(isinstance(event, ClientConnected) for event in told) == 2
    assert party.settled


def test_a_farewell_is_heard_before_the_end_of_the_connection(told: list[Any]) -> None:
    world = world_of()
    party = client(world, "p")
    world.run(1.0)
    world.lines.leave(party)
    world.run(1.0)
    assert b"".join(event.data for event in told if isinstance(event, BytesReceived)).endswith(b"\xe0\x00")
    (connection,) = world.lines.diary.connections["p"]
    assert connection.parted_why == "farewell"
    assert party.settled


def test_a_client_that_reads_nothing_congests_its_connection_until_it_reads_again(told: list[Any]) -> None:
    world = world_of()
    sender, reader = client(world, "p"), client(world, "s")
    world.run(1.0)
    subscribe(world, reader)
    world.run(1.0)
    world.lines.slow(reader, 5.0)
    for number in range(10):
        publish(world, sender, b"%d" % number + b"x" * (CONGESTED_BYTES // 4))
    world.run(4.0)
    assert got(world, "s") == []
    assert [event.congested for event in told if isinstance(event, ClientCongested)] == [True]
    world.run(4.0)
    assert len(got(world, "s")) == 10
    assert [event.congested for event in told if isinstance(event, ClientCongested)] == [True, False]


class Moody(Listening):
    """Wants to hear nothing for a second after the first bytes of each connection."""

    heard = 0

    def handle_all(self, events: Any, now: float) -> list[Any]:
        events = list(events)
        effects = super().handle_all(events, now)
        for event in events:
            if isinstance(event, BytesReceived):
                self.heard += 1
                if self.heard == 1:
                    effects.append(PauseReading(event.connection))
        return effects


def test_nothing_is_read_from_a_client_between_quiet_and_heed(told: list[Any]) -> None:
    world = world_of(door=Moody)
    party = client(world, "p")
    world.run(1.0)
    before = len(told)
    publish(world, party, b"x")
    world.run(1.0)
    assert not any(isinstance(event, BytesReceived) for event in told[before:])
    assert party.line is not None
    world.lines.carry[ResumeReading](world.hosts["a"], ResumeReading(party.line.number))
    world.run(1.0)
    assert any(isinstance(event, BytesReceived) for event in told[before:])


def test_a_connection_that_the_door_shuts_ends_behind_what_was_sent(told: list[Any]) -> None:
    world = world_of()
    party = client(world, "p", Temper(Version.V5, expiry_s=600))
    world.run(1.0)
    assert party.line is not None
    world.lines.carry[CloseClient](world.hosts["a"], CloseClient(party.line.number, "enough"))
    world.run(5.0)
    connections = world.lines.diary.connections["p"]
    assert connections[0].parted_why == "shut"
    assert len(connections) == 2
    assert connections[1].life is connections[0].life


@pytest.mark.parametrize("disk", [True, False])
def test_clients_outlive_their_broker_and_sessions_its_death_but_not_its_disk(
    disk: bool, told: list[Any]
) -> None:
    world = world_of()
    party = client(world, "p")
    world.run(1.0)
    world.crash("a", disk=disk)
    world.run(1.0)
    assert not party.device.open
    world.start(["a"])
    world.run(5.0)
    first, second = world.lines.diary.connections["p"]
    assert (first.life is second.life) is disk
    assert first.parted_why == "died"
    assert told


def test_rows_of_the_door_are_the_doors_own() -> None:
    seen: list[tuple[str, ...]] = []

    class Asking(Porter):
        def __init__(self, broker: Any, *, saved: Any, random: Random) -> None:
            seen.append(tuple(saved))
            super().__init__(broker, saved=saved, random=random)

    world = world_of(door=Asking)
    world.hosts["a"].disk.durable.update({"other/1": b""})
    client(world, "p")
    world.run(1.0)
    world.crash("a")
    world.start(["a"])
    assert seen == [(), (), ("mqtt/everything",)]


def test_lines_of_one_seed_are_the_same(told: list[Any]) -> None:
    def run(seed: int) -> list[Any]:
        told.clear()
        world = world_of(seed)
        party = client(world, "p")
        world.run(1.0)
        for number in range(20):
            publish(world, party, b"%d" % number)
        world.lines.drop(party)
        world.run(5.0)
        return list(told)

    assert run(1) == run(1)
    assert run(1) != run(2)
