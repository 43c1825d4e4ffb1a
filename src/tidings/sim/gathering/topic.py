"""One topic on a network of brokers in virtual time: everybody subscribes, messages are published at given
times, and what everybody got is kept.

The brokers are those that run live; the topic may be gathered or plain. Nothing goes wrong here, and nothing
is judged: papers and tests compare what comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, cast

from tidings.errors import InputError
from tidings.language.subscriptions import Subscription
from tidings.language.topics import Topic
from tidings.overlay.publication import Publication
from tidings.overlay.settings import Settings
from tidings.planning.topologies import Topology
from tidings.sim.brokers.client import Client
from tidings.sim.world import World

if TYPE_CHECKING:
    from tidings.overlay.broker import Broker
    from tidings.overlay.status import GatheredStatus

QUIET = Settings(
    deputies=False,
    heartbeat_s=20.0,
    suspect_after_s=100.0,
    greet_within_s=600.0,
    seat_window_s=1e5,
    relay_margin_s=0.0,
)
"""No copies of seats, no search for a better one, and few heartbeats: links here may take seconds. They take
the same always, so relays need no margin for delays that differ."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a publisher."""

    at_us: int
    """When, from the beginning."""

    broker: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Got:
    """What a subscriber received."""

    at_us: int
    broker: str
    publication: Publication


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    got: list[Got]
    """In the order in which it was received."""

    messages: Counter[str]
    """Sent over links since the beginning, by kind."""

    carried: Counter[str]
    """What they carried, by the names of `sim.carried`."""

    seats: tuple[GatheredStatus, ...]
    """Each seat of the topic, as the broker that has it sees it; none on a plain topic."""


def run(
    topology: Topology,
    topic: Topic,
    said: Iterable[Said],
    *,
    after_s: float,
    settings: Settings = QUIET,
    seed: int | str = 0,
) -> Outcome:
    """Start all brokers, let everybody subscribe, publish, and go on for `after_s` after the last message."""
    world = World(topology, seed, settings=settings, topics=(topic,))
    world.start()
    for address in topology.ids:
        world.client(address, f"s/{address}").subscribe("all", Subscription(topic.name))
    if not world.settle(within_s=1e6):
        raise InputError(f"a network of {len(topology.ids)} brokers did not settle; is it connected?")
    _rest(world, settings.heartbeat_s / 2 + 3 * max((link.delay_s for link in topology.links), default=1.0))
    begin_s = ceil(world.now) + 1
    publishers = {address: world.client(address, f"p/{address}") for address in topology.ids}
    messages, carried = _sent(world), _carried(world)
    last_us = 0
    for one in said:
        last_us = max(last_us, one.at_us)
        world.at(begin_s + one.at_us / 1e6, _publish, publishers[one.broker], (topic.name, one.payload))
    world.run(begin_s - world.now + last_us / 1e6 + after_s)
    return Outcome(
        [Got(round((one.at - begin_s) * 1e6), one.host, one.publication) for one in world.ledger.deliveries],
        _sent(world) - messages,
        _carried(world) - carried,
        _seats(world, topic),
    )


def _rest(world: World, quiet_s: float) -> None:
    """Let the search for seats end, which does not count as activity, and what is asked of them be answered.

    Reports would wait for the search. Where a seat is asked what is open there when something is already, the
    answers to everybody may fill a link (`link_unacked_bytes`), and what is told then waits behind them.
    Questions are asked again with every tick, half a heartbeat, so none is open after a longer silence.
    """
    before = None
    while (said := _sent(world)) != before:
        before = said
        world.run(quiet_s)


def _publish(client: Client, said: tuple[str, bytes]) -> None:
    client.publish(*said)


def _sent(world: World) -> Counter[str]:
    found: Counter[str] = Counter()
    for wire in world.wires.values():
        for kind, count in wire.counts.items():
            found[kind.__name__] += count
    return found


def _carried(world: World) -> Counter[str]:
    found: Counter[str] = Counter()
    for wire in world.wires.values():
        found.update(wire.carried)
    return found


def _seats(world: World, topic: Topic) -> tuple[GatheredStatus, ...]:
    if topic.gathering is None:
        return ()
    brokers = [cast("Broker", host.broker) for host in world.hosts.values()]
    return tuple(status for broker in brokers for status in broker.gathered(topic.name) if status.mine)
