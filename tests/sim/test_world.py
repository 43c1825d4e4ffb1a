"""The driver: connections, clocks, disks and sessions do to a broker what a network does, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.flooder import Flooder
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import (
    ConnectionLost,
    ConnectionMade,
    Deliver,
    Effect,
    Event,
    FrameReceived,
    SetTimer,
    Stop,
    StopAsked,
    TimerFired,
)
from tidings.planning import topologies
from tidings.planning.topologies import Topology
from tidings.sim.clock import Skew
from tidings.sim.node import Node
from tidings.sim.world import World

EVERYTHING = Subscription("#", qos=1)


def two(delay_s: float = 0.01, bytes_per_s: float = float("inf")) -> Topology:
    topology = topologies.from_links([("a", "b")])
    return topology.with_delays(topologies.constant_delay(delay_s)).with_bandwidth(bytes_per_s)


def world_of(topology: Topology, seed: int = 0) -> World:
    world = World(topology, seed, machine=Flooder)
    world.start()
    world.run(1.0)
    return world


def payloads(world: World) -> list[bytes]:
    return [delivery.publication.payload for delivery in world.ledger.deliveries]


def flooder(world: World, address: str) -> Flooder:
    broker = world.hosts[address].broker
    assert isinstance(broker, Flooder)
    return broker


def test_a_frame_takes_the_delay_of_its_link() -> None:
    world = world_of(two(delay_s=0.25))
    world.client("b", "s").subscribe("1", EVERYTHING)
    world.client("a", "p").publish("t", b"{}")
    world.run(1.0)
    (delivery,) = world.ledger.deliveries
    assert delivery.at == pytest.approx(1.25)
    assert delivery.hops == 1


def test_bandwidth_makes_frames_wait_for_each_other() -> None:
    world = world_of(two(delay_s=0.0, bytes_per_s=1000.0))
    world.client("b", "s").subscribe("1", EVERYTHING)
    publisher = world.client("a", "p")
    for number in range(3):
        publisher.publish("t", b"%d" % number + b"x" * 934)  # a thousand bytes with head and topic
    world.run(10.0)
    assert [delivery.at - 1.0 for delivery in world.ledger.deliveries] == pytest.approx([1.0, 2.0, 3.0])


def test_frames_of_a_connection_keep_their_order_although_delays_vary() -> None:
    world = World(two(), 0, machine=Flooder, jitter_s=0.5)
    world.start()
    world.run(3.0)
    world.client("b", "s").subscribe("1", EVERYTHING)
    publisher = world.client("a", "p")
    for number in range(50):
        publisher.publish("t", b"%d" % number)
        world.run(0.01)
    world.run(1.0)
    assert payloads(world) == [b"%d" % number for number in range(50)]


@pytest.mark.parametrize("seed", range(20))
def test_a_broken_connection_loses_a_last_part_of_what_is_in_flight(seed: int) -> None:
    world = world_of(two(delay_s=0.5), seed)
    world.client("b", "s").subscribe("1", EVERYTHING)
    publisher = world.client("a", "p")
    for number in range(20):
        publisher.publish("t", b"%d" % number)
        world.run(0.02)
    world.break_connection("a", "b")
    world.run(3.0)
    got = payloads(world)
    assert got == [b"%d" % number for number in range(len(got))]


def test_different_seeds_lose_different_parts() -> None:
    counts = set()
    for seed in range(20):
        world = world_of(two(delay_s=0.5), seed)
        world.client("b", "s").subscribe("1", EVERYTHING)
        publisher = world.client("a", "p")
        for number in range(20):
            publisher.publish("t", b"%d" % number)
            world.run(0.02)
        world.break_connection("a", "b")
        world.run(3.0)
        counts.add(len(payloads(world)))
    assert len(counts) > 5


def test_frames_of_an_old_connection_may_come_after_the_first_of_the_next() -> None:
    """What TCP does when one side has given up and dialled again, and the other has not heard of it."""

    def connections(seed: int) -> list[int]:
        seen: list[int] = []

        def watch(host: Node, event: Event, effects: list[Effect]) -> None:
            if host.address == "b" and isinstance(event, FrameReceived):
                seen.append(event.connection)

        # a dials at once, so that the new connection overtakes what the old one still has in flight.
        world = World(two(delay_s=0.3), seed, machine=Hasty, watch=watch)
        world.start()
        world.run(2.0)
        publisher = world.client("a", "p")
        for number in range(10):
            publisher.publish("t", b"%d" % number)
            world.run(0.02)
        world.break_connection("a", "b")
        for number in range(10, 60):
            publisher.publish("t", b"%d" % number)
            world.run(0.05)
        return seen

    runs = [connections(seed) for seed in range(30)]
    assert any(seen != sorted(seen) for seen in runs)


class Hasty(Flooder):
    """Dials again as soon as it hears of a loss."""

    def _redial(self, address: str, now: float, effects: list[Effect]) -> None:
        super()._redial(address, now - 1.0, effects)


def test_both_sides_of_a_broken_connection_are_told_unless_it_is_silent() -> None:
    for silent in (False, True):
        told: list[str] = []

        def watch(host: Node, event: Event, effects: list[Effect], told: list[str] = told) -> None:
            if isinstance(event, ConnectionLost):
                told.append(host.address)

        world = World(two(), 0, machine=Flooder, watch=watch)
        world.start()
        world.run(1.0)
        world.break_connection("a", "b", silent=silent)
        world.run(0.9)
        assert sorted(told) == ([] if silent else ["a", "b"])


def test_nothing_passes_a_cut_link_until_it_is_mended_as_often_as_it_was_cut() -> None:
    world = world_of(two())
    world.client("b", "s").subscribe("1", EVERYTHING)
    publisher = world.client("a", "p")
    world.cut("a", "b", silent=False)
    world.cut("a", "b", silent=False)
    world.run(5.0)
    world.mend("a", "b")
    world.run(5.0)
    publisher.publish("t", b"lost")
    world.run(5.0)
    world.mend("a", "b")
    world.run(5.0)
    publisher.publish("t", b"passes")
    world.run(5.0)
    assert payloads(world) == [b"passes"]


def test_a_stall_keeps_frames_and_then_lets_them_come_in_order() -> None:
    world = world_of(two())
    world.client("b", "s").subscribe("1", EVERYTHING)
    publisher = world.client("a", "p")
    world.stall("a", "b", 2.0)
    for number in range(5):
        publisher.publish("t", b"%d" % number)
        world.run(0.1)
    assert payloads(world) == []
    world.run(2.0)
    assert payloads(world) == [b"%d" % number for number in range(5)]


def test_frames_are_lost_and_repeated_where_a_link_is_told_to() -> None:
    counts = {}
    for fault, share in (("loss", {"loss": 0.5}), ("duplication", {"duplication": 0.5})):
        arrived: list[Event] = []

        def watch(host: Node, event: Event, effects: list[Effect], arrived: list[Event] = arrived) -> None:
            if isinstance(event, FrameReceived):
                arrived.append(event)

        world = World(two(), 0, machine=Flooder, watch=watch)
        world.start()
        world.run(1.0)
        world.disturb("a", "b", **share)
        publisher = world.client("a", "p")
        for number in range(200):
            publisher.publish("t", b"%d" % number)
        world.run(1.0)
        world.disturb("a", "b")
        counts[fault] = len(arrived)
        assert world.wires["a", "b"].plain
    assert 60 < counts["loss"] < 140
    assert 260 < counts["duplication"] < 340


def test_a_slow_broker_takes_its_time_and_keeps_the_order() -> None:
    world = world_of(two(delay_s=0.0))
    world.client("b", "s").subscribe("1", EVERYTHING)
    publisher = world.client("a", "p")
    world.slow("b", 0.5)
    for number in range(4):
        publisher.publish("t", b"%d" % number)
    world.slow("b", 0.0)
    publisher.publish("t", b"4")
    world.run(10.0)
    assert payloads(world) == [b"0", b"1", b"2", b"3", b"4"]


def test_settling_waits_for_a_slow_broker() -> None:
    world = world_of(two(delay_s=0.0))
    world.client("b", "s").subscribe("1", EVERYTHING)
    world.slow("b", 100.0)
    world.client("a", "p").publish("t", b"0")
    world.run(0.1)
    world.slow("b", 0.0)
    assert world.hosts["b"].busy_until > world.now + 90
    assert world.settle()
    assert world.hosts["b"].busy_until <= world.now
    assert payloads(world) == [b"0"]


def test_a_broker_sees_its_own_clock_which_never_goes_back() -> None:
    world = World(two(), 0, machine=Flooder)
    world.set_clock("b", Skew(offset_s=1000.0, rate=0.99))
    world.start()
    world.cut("a", "b")
    world.run(100.0)
    for address in ("a", "b"):
        times = flooder(world, address).times
        assert times == sorted(times)
    assert flooder(world, "a").times[-1] == pytest.approx(100.0, abs=2.0)
    assert flooder(world, "b").times[0] == 1000.0


def test_timers_fire_by_the_clock_of_their_broker() -> None:
    world = World(two(), 0, machine=Flooder)
    world.set_clock("a", Skew(offset_s=5.0, rate=1.01))
    world.cut("a", "b")
    world.start()
    world.run(200.0)
    # It dials again a second after each failure, and failing takes a second and the delay of the link.
    dialled = [event for event in flooder(world, "a").times if event > 5.0]
    assert len(dialled) == pytest.approx(200, rel=0.1)


def test_dialling_a_broker_that_is_down_fails_and_one_that_is_up_succeeds_later() -> None:
    world = World(two(), 0, machine=Flooder)
    world.start(["a"])
    world.run(5.0)
    assert flooder(world, "a").connections == {}
    world.start(["b"])
    world.run(5.0)
    assert len(flooder(world, "a").connections) == 1


def test_a_crash_takes_what_was_not_synced_and_leaves_what_was() -> None:
    world = World(two(), 0, machine=Flooder, sync_s=1.0)
    world.start()
    publisher = world.client("a", "p")
    synced = publisher.publish("t", b"synced", 1)
    world.run(1.5)
    for _ in range(20):  # one of these crashes finds the sync too late
        lost = publisher.publish("t", b"lost%d" % len(world.ledger.offers), 1)
        world.crash("a")
        world.start(["a"])
        assert lost is not None
        assert lost.accepted is None
        world.run(0.1)
    assert synced is not None
    assert synced.accepted is not None
    saved = flooder(world, "a").saved
    assert b"synced" in saved.values()
    assert len(saved) < 21


def test_a_broker_without_its_disk_begins_a_new_incarnation() -> None:
    world = world_of(two())
    host = world.hosts["a"]
    world.crash("a")
    world.start(["a"])
    assert (host.boot, host.incarnation) == (2, 1)
    host.disk.write("x", b"")
    host.disk.sync(1)
    host.disk.finish()
    world.crash("a", disk=False)
    world.start(["a"])
    assert (host.boot, host.incarnation) == (3, 3)
    assert flooder(world, "a").saved == {}


def test_a_durable_session_gets_something_with_the_sync_and_not_before() -> None:
    world = World(two(), 0, machine=Keeper, sync_s=0.5)
    world.start()
    world.client("a", "d", durable=True).subscribe("1", EVERYTHING)
    world.client("a", "v").subscribe("1", EVERYTHING)
    world.client("a", "p").publish("t", b"1", 1)
    world.run(0.4)
    assert [delivery.subscriptions for delivery in world.ledger.deliveries] == [(("v", "1"),)]
    world.run(0.2)
    assert [delivery.subscriptions for delivery in world.ledger.deliveries] == [(("v", "1"),), (("d", "1"),)]


class Keeper(Flooder):
    """Delivers before it syncs, as the contract wants."""

    def handle(self, event: Event, now: float) -> list[Effect]:
        effects = super().handle(event, now)
        return sorted(effects, key=lambda effect: not isinstance(effect, Deliver))


def test_clients_come_back_with_their_broker_and_begin_anew_where_nothing_is_left_of_them() -> None:
    world = world_of(two())
    durable, visitor = world.client("a", "d", durable=True), world.client("a", "v")
    durable.subscribe("1", EVERYTHING)
    visitor.subscribe("1", EVERYTHING)
    world.crash("a")
    assert visitor.publish("t", b"{}") is None
    world.start(["a"])
    assert (durable.session, visitor.session) == ("d", "v~1")
    world.crash("a", disk=False)
    world.start(["a"])
    assert (durable.session, visitor.session) == ("d~1", "v~2")


def test_a_client_that_comes_back_before_its_slow_broker_has_heard_that_it_left_has_another_session() -> None:
    world = world_of(two())
    leaver, visitor = world.client("a", "d", durable=True), world.client("a", "v")
    world.slow("a", 0.5)
    leaver.leave()
    leaver.attach()
    visitor.detach()
    visitor.attach()
    visitor.subscribe("1", EVERYTHING)
    assert (leaver.session, visitor.session) == ("d~1", "v~1")
    world.run(10.0)
    world.crash("a")
    assert [name for name, life in world.ledger.lives.items() if life.ended is None] == ["d~1"]
    assert not world.ledger.current


def test_connections_are_numbered_once() -> None:
    seen: list[tuple[str, int]] = []

    def watch(host: Node, event: Event, effects: list[Effect]) -> None:
        if isinstance(event, ConnectionMade):
            seen.append((host.address, event.connection))

    world = World(two(), 0, machine=Flooder, watch=watch)
    world.start()
    for _ in range(5):
        world.run(2.0)
        world.break_connection("a", "b")
    assert len(seen) == len(set(seen)) == 10


def test_settling_waits_for_a_link_that_is_on_its_way_back() -> None:
    world = world_of(two())
    world.client("b", "s").subscribe("1", EVERYTHING)
    world.cut("a", "b", silent=False)
    world.run(1.0)
    world.mend("a", "b")
    assert world.settle()
    world.client("a", "p").publish("t", b"{}")
    world.run(1.0)
    assert payloads(world) == [b"{}"]


def test_timers_of_a_broker_that_stopped_do_not_keep_the_next_one_from_its_own() -> None:
    class Stopping(Flooder):
        def handle(self, event: Event, now: float) -> list[Effect]:
            effects = super().handle(event, now)
            return [Stop(), SetTimer(now + 100.0)] if isinstance(event, StopAsked) else effects

    world = World(two(), 0, machine=Stopping)
    world.start(["a"])
    world.run(1.0)
    world.stop("a")
    assert not world.hosts["a"].up
    world.start(["a"])
    world.run(1.0)
    world.start(["b"])
    world.run(5.0)  # a dials again after a second
    assert len(flooder(world, "a").connections) == 1


def test_a_broker_that_is_started_while_it_stops_starts_when_it_has_stopped() -> None:
    class Draining(Flooder):
        def handle(self, event: Event, now: float) -> list[Effect]:
            if isinstance(event, StopAsked):
                return [SetTimer(now + 2.0)]
            return [Stop()] if isinstance(event, TimerFired) else []

    world = World(two(), 0, machine=Draining)
    world.start(["a"])
    world.stop("a")
    world.start(["a"])
    world.run(1.0)
    assert world.hosts["a"].boot == 1
    world.run(2.0)
    assert (world.hosts["a"].boot, world.hosts["a"].up) == (2, True)


def test_both_ends_may_dial() -> None:
    topology = two()
    topology = replace(topology, links=tuple(replace(link, both_dial=True) for link in topology.links))
    world = world_of(topology)
    assert len(flooder(world, "a").connections) == len(flooder(world, "b").connections) == 2
