"""What goes wrong, and when: faults as values, a plan of them from a seed, and how one is done to a world.

Every fault ends: what is planned up to a time is over by then. Which promises must hold nevertheless is the
business of the checkers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidings.errors import InputError
from tidings.planning.topologies import Topology
from tidings.sim.clock import Skew
from tidings.sim.world import World


class Kind(StrEnum):
    """What may go wrong."""

    BREAKS = "breaks"
    """A connection breaks and can be made again at once; what is in flight is lost from some point on."""

    CUTS = "cuts"
    """Nothing passes over a link for a while."""

    PARTITIONS = "partitions"
    """Some brokers are cut off from the others for a while."""

    CRASHES = "crashes"
    """A broker dies and comes back with its disk; what was not synced is lost."""

    STOPS = "stops"
    """A broker is asked to stop, drains, and is started again later."""

    WIPES = "wipes"
    """A broker dies and comes back without its disk."""

    STALLS = "stalls"
    """A link keeps what arrives for a while."""

    SLOW = "slow"
    """A broker takes long over everything for a while."""

    LOSS = "loss"
    """Some frames of a link do not arrive, for a while, although the connection holds."""

    DUPLICATION = "duplication"
    """Some frames of a link arrive twice, the second time out of order."""

    SKEW = "skew"
    """All brokers' clocks are wrong and run too fast or too slow, from the start."""


ALL = tuple(Kind)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    kind: Kind
    at: float
    until: float

    brokers: tuple[str, ...]
    """The two ends of a link, the broker, or those on one side of a partition."""

    silent: bool = False
    """Whether nobody is told, so that only the failure detector notices."""

    amount: float = 0.0
    """Seconds for a slow broker, the share of frames for loss and duplication."""

    def __str__(self) -> str:
        return f"{self.at:.3f}s-{self.until:.3f}s {self.kind} {' '.join(self.brokers)}"


def read_kinds(text: str) -> tuple[Kind, ...]:
    """Kinds as written on the command line: `cuts,crashes`, `all` or `none`."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == ["all"]:
        return ALL
    if words == ["none"]:
        return ()
    for word in words:
        if word not in list(Kind):
            raise InputError(f"fault {word!r} is unknown; there are {', '.join(ALL)}, or all, or none")
    return tuple(kind for kind in ALL if kind in words)


def plan(
    kinds: Sequence[Kind], topology: Topology, source: random.Random, begin: float, end: float, count: int
) -> list[Fault]:
    """Some faults of some kinds between two times, the earliest first."""
    chosen = [kind for kind in kinds if kind is not Kind.SKEW]
    if not chosen or end <= begin:
        return []
    faults = [_draw(source.choice(chosen), topology, source, begin, end) for _ in range(count)]
    return sorted((fault for fault in faults if fault is not None), key=lambda fault: fault.at)


def _draw(kind: Kind, topology: Topology, source: random.Random, begin: float, end: float) -> Fault | None:
    at = source.uniform(begin, end)
    # Short ones are resumed, long ones change trees.
    until = min(end, at + source.choice((0.05, 0.5, 2.0, 8.0, 15.0)) * source.uniform(0.5, 1.5))
    silent = source.random() < 0.5
    if kind in (Kind.CRASHES, Kind.STOPS, Kind.WIPES, Kind.SLOW):
        broker = source.choice(topology.places).id
        return Fault(kind, at, until, (broker,), silent, source.choice((0.0005, 0.005, 0.05)))
    if kind is Kind.PARTITIONS:
        if len(topology.places) < 2:
            return None
        return Fault(kind, at, until, _region(topology, source), silent)
    if not topology.links:
        return None
    link = source.choice(topology.links)
    return Fault(kind, at, until, (link.one, link.other), silent, source.choice((0.01, 0.1, 0.3)))


def _region(topology: Topology, source: random.Random) -> tuple[str, ...]:
    """Some neighbouring brokers, at most half of all."""
    joined = topology.neighbours()
    inside = {source.choice(topology.places).id: None}
    size = source.randint(1, max(1, len(topology.places) // 2))
    while len(inside) < size:
        around = sorted({name for one in inside for name in joined[one]} - inside.keys())
        if not around:
            break
        inside[source.choice(around)] = None
    return tuple(sorted(inside))


def schedule(world: World, faults: Iterable[Fault]) -> None:
    """Put faults on the agenda of a world, and their ends."""
    for fault in faults:
        world.at(fault.at, _begin, world, fault)


def skew(world: World, source: random.Random) -> None:
    """Give every broker a clock of its own, up to an hour ahead and up to a hundredth too fast or slow."""
    for address in world.hosts:
        world.set_clock(address, Skew(source.uniform(0.0, 3600.0), source.uniform(0.99, 1.01)))


def _begin(world: World, fault: Fault) -> None:
    kind, brokers = fault.kind, fault.brokers
    if kind is Kind.BREAKS:
        world.break_connection(*brokers, silent=fault.silent)
        return
    if kind is Kind.CUTS:
        world.cut(brokers[0], brokers[1], silent=fault.silent)
    elif kind is Kind.PARTITIONS:
        for one, other in _crossing(world, brokers):
            world.cut(one, other, silent=fault.silent)
    elif kind in (Kind.CRASHES, Kind.WIPES):
        world.crash(brokers[0], disk=kind is Kind.CRASHES, silent=fault.silent)
    elif kind is Kind.STOPS:
        world.stop(brokers[0])
    elif kind is Kind.STALLS:
        world.stall(brokers[0], brokers[1], fault.until - fault.at)
        return
    elif kind is Kind.SLOW:
        world.slow(brokers[0], fault.amount)
    elif kind is Kind.LOSS:
        world.disturb(brokers[0], brokers[1], loss=fault.amount)
    elif kind is Kind.DUPLICATION:
        world.disturb(brokers[0], brokers[1], duplication=fault.amount)
    world.at(fault.until, _end, world, fault)


def _end(world: World, fault: Fault) -> None:
    kind, brokers = fault.kind, fault.brokers
    if kind is Kind.CUTS:
        world.mend(brokers[0], brokers[1])
    elif kind is Kind.PARTITIONS:
        for one, other in _crossing(world, brokers):
            world.mend(one, other)
    elif kind in (Kind.CRASHES, Kind.STOPS, Kind.WIPES):
        if world.hosts[brokers[0]].boot:  # one that is yet to join does that by itself
            world.start_broker(brokers[0])
    elif kind is Kind.SLOW:
        world.slow(brokers[0], 0.0)
    elif kind in (Kind.LOSS, Kind.DUPLICATION):
        world.disturb(brokers[0], brokers[1])


def _crossing(world: World, side: tuple[str, ...]) -> list[tuple[str, str]]:
    return [
        (link.one, link.other)
        for link in world.topology.links
        if (link.one in side) is not (link.other in side)
    ]
