"""Topics that nobody has declared cost nothing that lasts: a million leave what a hundred leave."""

from __future__ import annotations

import gc
import random
import sys
from dataclasses import dataclass

import pytest

from tidings.language.subscriptions import Subscription
from tidings.overlay.publishing.messages import Done, Publish
from tidings.overlay.settings import Settings
from tidings.planning import topologies
from tidings.sim.world import World

BROKERS = 50
REMEMBERED = 64
"""Topics that each cache may hold: fewer than a hundred, so that both runs fill it."""


@dataclass
class Left:
    """What a run leaves behind."""

    trees: list[tuple[str, ...]]
    control_messages: int
    topics_remembered_max: int
    memory_blocks: int
    """Allocated by Python, the simulator's own included."""

    delivered: float
    """For each publication."""


def run(topics: int, publications: int) -> Left:
    """Publish to so many topics at 50 brokers, with some who want all of it and some who want a part."""
    topology = topologies.generate("random", BROKERS, 3)
    world = World(topology, 3, settings=Settings(trees=2, topic_cache=REMEMBERED))
    world.start()
    for at in range(0, BROKERS, 10):
        world.client(topology.ids[at], f"s{at}").subscribe(
            "1", Subscription("#", f"value >= {at * 20}", qos=1)
        )
    clients = [world.client(address, f"p-{address}") for address in topology.ids]
    assert world.settle()
    source = random.Random(3)
    delivered = 0
    for number in range(publications):
        body = b'{"n":%d,"value":%d}' % (number, number * 7 % 1000)
        # First levels differ too, or all topics would be on one tree.
        topic = f"level{number % topics}/topic{number % topics}"
        source.choice(clients).publish(topic, body, qos=number % 2)
        world.run(0.002)
        if number % 1000 == 999:
            delivered += forget(world)
    assert world.settle()
    delivered += forget(world)
    statuses = world.statuses()
    gc.collect()
    blocks = sys.getallocatedblocks()
    control = sum(
        count
        for wire in world.wires.values()
        for kind, count in wire.counts.items()
        if kind not in (Publish, Done)
    )
    return Left(
        [tuple(sorted(tree.root for tree in status.trees)) for status in statuses.values()],
        control,
        max(status.topics_remembered for status in statuses.values()),
        blocks,
        delivered / publications,
    )


def forget(world: World) -> int:
    """Take out of the simulator's own ledger what would fill the memory; how much was delivered."""
    count = len(world.ledger.deliveries)
    world.ledger.deliveries.clear()
    world.ledger.offers.clear()
    return count


def compare(many: int) -> None:
    # What a process keeps for all brokers is bounded as well; this fills it.
    run(5_000, 5_000)
    few, left = run(100, min(many, 10_000)), run(many, many)
    assert left.trees == few.trees
    assert left.control_messages == few.control_messages
    assert left.delivered == pytest.approx(few.delivered, rel=0.01)
    # Local sessions, and two epochs of each tree that a broker may be in at once.
    assert left.topics_remembered_max <= REMEMBERED * (1 + 2 * 2)
    assert left.memory_blocks < few.memory_blocks * 1.05


@pytest.mark.parametrize(
    "many", [2_000, *(pytest.param(many, marks=pytest.mark.slow) for many in (10_000, 1_000_000))]
)
def test_many_topics_leave_what_a_hundred_leave(many: int) -> None:
    compare(many)
