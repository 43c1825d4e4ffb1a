"""Strikes: faults that come just when the protocol is in a state in which they may do harm.

Faults that are drawn mostly come while nothing is going on. A run here watches what brokers answer. When it
sees a state that it is to strike, it lets something go wrong there before what is under way has arrived.
Which states there are is the business of a campaign.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from tidings.overlay.broker import Broker
from tidings.overlay.events import Effect, Send
from tidings.overlay.frames import Message
from tidings.planning.topologies import Topology
from tidings.sim import faults
from tidings.sim.brokers.promises import distances
from tidings.sim.brokers.run import AFTERMATH_S
from tidings.sim.faults import Fault, Kind
from tidings.sim.node import Node
from tidings.sim.world import Watch, World

AT_BROKERS = (Kind.CRASHES, Kind.STOPS, Kind.WIPES, Kind.SLOW)
"""Kinds that strike one of the two brokers; the others strike the link between them."""

KINDS = tuple(kind for kind in faults.ALL if kind is not Kind.SKEW)

LASTS_S = (0.05, 0.5, 2.0, 8.0)
"""As long as faults that are drawn: short ones are resumed, long ones change trees."""

TAKE_ANY_AFTER = 0.6
"""The share of a run after which any state is struck that is seen, if too few were."""

LEAST = 3
"""Strikes in each run."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A state of the protocol, seen between two neighbours."""

    state: str
    one: str
    other: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A state and a kind of fault that strikes it."""

    state: str
    kind: Kind


Look = Callable[["Eyes", Node, Node, Any], str | None]
"""The state that a message on its way from one broker to another shows."""


class Eyes:
    """Sees states in what brokers are told and answer."""

    def __init__(
        self,
        world: World,
        messages: Mapping[type[Message], Look],
        others: Callable[[Eyes, Node, object, Sequence[Effect]], Iterator[Sighting]],
    ) -> None:
        """`messages`: how to look at messages, by their types. `others`: states that are seen otherwise."""
        self.world = world
        self._joined = world.topology.neighbours()
        self._messages = messages
        self._others = others
        self._seen = 0

    def broker(self, address: str) -> Broker | None:
        """A broker that runs."""
        broker = self.world.hosts[address].broker
        return broker if isinstance(broker, Broker) else None

    def near(self, state: str, host: Node) -> Iterator[Sighting]:
        """A state that is to be seen at one broker: it is struck there or next to it."""
        # Counted, since chance is for strikes alone: what is only looked at must not change it.
        joined = self._joined[host.address]
        self._seen += 1
        yield Sighting(state, host.address, joined[self._seen % len(joined)])

    def see(self, host: Node, event: object, effects: Sequence[Effect]) -> Iterator[Sighting]:
        """All states that can be seen now."""
        for effect in effects:
            if type(effect) is Send and effect.frame.first:
                for message in effect.frame.messages:
                    if (look := self._messages.get(type(message))) is not None:
                        end = host.ends.get(effect.connection)
                        if end is not None:
                            state = look(self, host, end.other.host, message)
                            if state is not None:
                                yield Sighting(state, host.address, end.other.host.address)
        yield from self._others(self, host, event, effects)


class Strikes:
    """What is to be struck in one run, and what was."""

    def __init__(
        self,
        wanted: Sequence[Cell],
        source: random.Random,
        topology: Topology,
        allowed: Callable[[Kind, float, float], bool] = lambda *_: True,
    ) -> None:
        """`allowed`: whether a fault of a kind may happen between two times."""
        self._source = source
        self._topology = topology
        self._allowed = allowed
        self._wanted: dict[str, list[tuple[float, Kind]]] = {}
        self._cells = tuple(wanted)
        self._any_after = inf
        self._end = -inf
        self.struck: list[tuple[Cell, Fault]] = []

    @property
    def wanted(self) -> int:
        """How many are to be."""
        return len(self._cells)

    def plan(self, begin: float, end: float) -> None:
        """Strike between two times, one after the other."""
        self._end = end
        self._any_after = begin + TAKE_ANY_AFTER * (end - begin)
        for at, cell in enumerate(self._cells):
            after = begin + TAKE_ANY_AFTER * (end - begin) * at / len(self._cells)
            self._wanted.setdefault(cell.state, []).append((after, cell.kind))

    def watch(self, eyes: Eyes, host: Node, event: object, effects: Sequence[Effect]) -> Fault | None:
        """See whether something is to be struck now; the fault, which is yet to be scheduled."""
        now = eyes.world.now
        if now > self._end:
            return None
        for sighting in eyes.see(host, event, effects):
            kind = self._due(sighting.state, now)
            if kind is not None:
                fault = self._fault(eyes, kind, sighting)
                self.struck.append((Cell(sighting.state, kind), fault))
                return fault
        return None

    def _due(self, state: str, now: float) -> Kind | None:
        waiting = self._wanted.get(state, [])
        until = min(now + LASTS_S[-1] * 1.5, self._end + AFTERMATH_S)
        for at, (after, kind) in enumerate(waiting):
            if after <= now and self._allowed(kind, now, until):
                del waiting[at]
                return kind
        if now >= self._any_after and len(self.struck) < LEAST and self._cells:
            kind = self._cells[len(self.struck) % len(self._cells)].kind
            if self._allowed(kind, now, until):
                return kind
        return None

    def _fault(self, eyes: Eyes, kind: Kind, seen: Sighting) -> Fault:
        source, world = self._source, eyes.world
        delay_s = world.wires[seen.one, seen.other].delay_s
        # Sometimes at once, sometimes when what is under way has just arrived.
        at = world.now + delay_s * source.choice((0.0, 0.5, source.random(), 1.0, 1.5))
        until = min(self._end + AFTERMATH_S, at + source.choice(LASTS_S) * source.uniform(0.5, 1.5))
        silent = source.random() < 0.5
        if kind in AT_BROKERS:
            broker = source.choice((seen.one, seen.other))
            return Fault(kind, at, until, (broker,), silent, source.choice((0.0005, 0.005, 0.05)))
        if kind is Kind.PARTITIONS:
            return Fault(kind, at, until, self._side(seen), silent)
        return Fault(kind, at, until, (seen.one, seen.other), silent, source.choice((0.1, 0.3)))

    def _side(self, seen: Sighting) -> tuple[str, ...]:
        """Those that are nearer to one of the two than to the other."""
        joined = self._topology.neighbours()
        here, there = distances(joined, seen.one), distances(joined, seen.other)
        return tuple(sorted(name for name in here if here[name] < there[name]))


def watching(
    eyes: Eyes, strikes: Strikes, happened: Callable[[Fault], object], before: Watch | None
) -> Watch:
    """A watch of a world that strikes."""

    def watch(host: Node, event: Any, effects: list[Any]) -> None:
        if before is not None:
            before(host, event, effects)
        fault = strikes.watch(eyes, host, event, effects)
        if fault is not None:
            happened(fault)
            faults.schedule(eyes.world, [fault])

    return watch


def wait_for_all(world: World, happened: Sequence[Fault]) -> None:
    """Let time pass until all faults are over, those that have struck too."""
    until = max((fault.until for fault in happened), default=0.0)
    world.run(max(0.0, until - world.now) + 0.1)
