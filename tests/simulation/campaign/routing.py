"""The campaign `routing`: plain topics, with strikes at sets of subscriptions on their way.

Messages with parts of a set are kept short, so that small sets travel in several of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from unittest.mock import patch

from tests.simulation.campaign.strikes import KINDS, Cell, Eyes, Sighting, Strikes, wait_for_all, watching
from tidings.overlay.events import Effect, Grant, SubscriptionAsked
from tidings.overlay.links import links
from tidings.overlay.publishing.messages import Done
from tidings.overlay.routing import changes
from tidings.overlay.routing.messages import Change, Fetch, Sets
from tidings.overlay.settings import DEFAULT, Settings
from tidings.overlay.trees.messages import Roll
from tidings.planning import topologies
from tidings.planning.topologies import Topology
from tidings.records.record import Kind as RecordKind
from tidings.records.record import Record
from tidings.sim.brokers.promises import distances
from tidings.sim.brokers.run import Outcome, Plan, Run
from tidings.sim.brokers.workload import Workload
from tidings.sim.faults import Fault, Kind
from tidings.sim.node import Node

PUBLICATIONS = 2_000
FAULTS = 10
"""Drawn, beside those that strike."""

STRIKES = 5

PART_ITEMS = 2
"""In one message."""

FRAME_WEIGHT = 6
"""So that the parts of a set come in frames of their own."""

CHANGES_KEPT = 4
"""So that whole sets travel often."""

FIRST_WITH_LITTLE_ROOM = 100_000

LITTLE_ROOM = (24, 60, 150)
"""Filters of others that brokers keep in some networks: homes widen their sets, and others omit them."""


class State(StrEnum):
    """What the protocol may be in the midst of."""

    CHANGE = "a change under way"
    PARTS = "a set under way in parts"
    FETCH = "a fetch unanswered"
    CONFIRM = "a subscription not granted"
    GROWING = "an epoch grows, a set unknown"
    HELD = "something held for an absent home"
    STALE = "a stale acknowledgement"
    RESTARTED = "a restarted home, its set unknown"


CELLS = tuple(Cell(state, kind) for state in State for kind in KINDS)
"""All that the campaign must cover."""


def plan(seed: int, publications: int = PUBLICATIONS) -> Plan:
    """What a seed is about."""
    source = random.Random(f"campaign/routing/{seed}")
    count = source.randint(5, 12)
    name = source.choice(("path", "ring", "star", "tree", "grid", "random", "random", "power-law"))
    topology = topologies.generate(name, count, seed)
    topology = replace(
        topology, links=tuple(replace(link, both_dial=source.random() < 0.3) for link in topology.links)
    )
    delay = source.choice(
        (
            topologies.constant_delay(0.001),
            topologies.constant_delay(0.02),
            topologies.constant_delay(0.1),
            topologies.distance_delay(),
        )
    )
    topology = topology.with_delays(delay)
    if source.random() < 0.15:
        topology = topology.with_bandwidth(source.choice((50_000.0, 500_000.0)))
    # What enters at a broker that has lost its disk is promised to nobody before all is quiet.
    kinds = KINDS if source.random() < 0.4 else tuple(kind for kind in KINDS if kind is not Kind.WIPES)
    return Plan(
        seed=seed,
        topology=topology,
        workload=Workload(
            topics=source.choice((4, 12, 30)),
            subscriptions=source.randint(10, 30),
            publications=publications,
            matching=source.choice((1.0, 2.0, 4.0)),
            rate_per_s=source.choice((40.0, 80.0)),
            qos=source.choice((-1, 1, 1)),
            durable=source.choice((0.3, 0.7, 1.0)),
            wildcards=source.choice((0.0, 0.2, 0.5)),
        ),
        faults=kinds,
        fault_count=FAULTS,
        churn=source.choice((40, 80, 160)),
        settings=Settings(
            trees=source.choice((1, 2, 3)),
            acks=source.choice(("origin", "origin", "neighbour")),
            link_window_messages=source.choice((16_384, 16_384, 8)),
            cover_effort=source.choice((32, 32, 2)),
            homes_filters_max=_room(seed),
        ),
        late=_late(topology, source) if source.random() < 0.3 else (),
        early=source.random() < 0.5,
        sync_s=source.choice((0.0, 0.002, 0.05)),
        jitter_s=source.choice((0.0, 0.005)),
        command=f"python -m tests.simulation.campaign routing --seed {seed}",
    )


def _room(seed: int) -> int:
    """How many filters of others brokers keep."""
    source = random.Random(f"campaign/routing/room/{seed}")  # older seeds play what they played
    if seed >= FIRST_WITH_LITTLE_ROOM and source.random() < 0.25:
        return source.choice(LITTLE_ROOM)
    return DEFAULT.homes_filters_max


def _late(topology: Topology, source: random.Random) -> tuple[str, ...]:
    """A broker without which the others are still one network."""
    joined = topology.neighbours()
    found = []
    for name in topology.ids:
        rest = {
            one: [other for other in others if other != name] for one, others in joined.items() if one != name
        }
        if len(distances(rest, next(iter(rest)))) == len(rest):
            found.append(name)
    return (source.choice(found),) if found else ()


def cells_of(seed: int, cells: Sequence[Cell] = CELLS, count: int = STRIKES) -> list[Cell]:
    """What a seed strikes: the seeds take turns, so that a few of them cover all."""
    order = random.Random("cells").sample(cells, len(cells))
    return [order[(seed * count + at) % len(order)] for at in range(count)]


@contextmanager
def in_small_parts() -> Iterator[None]:
    """Let small sets travel as large ones do."""
    with (
        patch.object(changes, "PART_ITEMS", PART_ITEMS),
        patch.object(changes, "CHANGES_KEPT", CHANGES_KEPT),
        patch.object(links, "FRAME_WEIGHT", FRAME_WEIGHT),
    ):
        yield


class RoutingRun(Run):
    """One run, with strikes."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._happened: list[Fault] = []
        self.strikes = Strikes(cells_of(plan.seed), random.Random(f"strikes/{plan.seed}"), plan.topology)
        eyes = Eyes(
            self.world,
            {Change: _change, Fetch: _fetch, Roll: _roll, Done: _done, Sets: _sets},
            _others,
        )
        self.world.watch = watching(eyes, self.strikes, self._happened.append, self.world.watch)

    def run(self) -> Outcome:
        with in_small_parts():
            return super().run()

    def _faults(self, ends: float) -> list[Fault]:
        self._happened += super()._faults(ends)
        self.strikes.plan(self._began, ends)
        return self._happened

    def _heal(self) -> None:
        wait_for_all(self.world, self._happened)


def _change(eyes: Eyes, host: Node, to: Node, message: Change) -> State | None:
    return State.PARTS if message.more else State.CHANGE


def _fetch(eyes: Eyes, host: Node, to: Node, message: Fetch) -> State | None:
    return State.FETCH


def _done(eyes: Eyes, host: Node, to: Node, message: Done) -> State | None:
    return State.STALE if message.stale else None


def _roll(eyes: Eyes, host: Node, to: Node, message: Roll) -> State | None:
    """The set of a member is not known as it was when that joined."""
    broker = eyes.broker(host.address)
    known = {} if broker is None else {one.home: (one.boot, one.number) for one in broker.status(0.0).sets}
    unknown = any(
        (boot, number) > known.get(name, (0, 0))
        for name, boot, _, number in message.members
        if name != host.id
    )
    return State.GROWING if unknown else None


def _sets(eyes: Eyes, host: Node, to: Node, message: Sets) -> State | None:
    """A home was here in another life, and has not been heard of in this one."""
    broker, own = eyes.broker(to.address), message.homes[:1]
    if broker is None or not own or own[0].home != host.id or not own[0].number:
        return None
    before = [one.boot for one in broker.status(0.0).sets if one.home == host.id]
    return State.RESTARTED if before and 0 < before[0] < own[0].boot else None


def _others(eyes: Eyes, host: Node, event: object, effects: Sequence[Effect]) -> Iterator[Sighting]:
    if type(event) is SubscriptionAsked and not any(type(effect) is Grant for effect in effects):
        yield from eyes.near(State.CONFIRM, host)
    for effect in effects:
        if type(effect) is Record and effect.kind is RecordKind.STORED:
            yield from eyes.near(State.HELD, host)
