"""The campaign `gathered`: gathered topics on paths, trees and random networks, with strikes at seats.

Each seed is a line of `tidings simulate`, and strikes beside. Seeds in `LINES` have found something once:
they are played just as the line says, without strikes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.simulation.campaign.routing import cells_of
from tests.simulation.campaign.strikes import (
    KINDS,
    Cell,
    Eyes,
    Look,
    Sighting,
    Strikes,
    wait_for_all,
    watching,
)
from tidings.overlay.events import Effect
from tidings.overlay.frames import Message
from tidings.overlay.gather.messages import Carry, HandOver, Mirror
from tidings.overlay.publishing.messages import Done, Publish
from tidings.overlay.routing.messages import Change
from tidings.overlay.versions.messages import Ask, Close, Follow, Snapshot, Unfollow
from tidings.planning import topologies
from tidings.sim import faults
from tidings.sim.brokers.run import Plan
from tidings.sim.brokers.workload import Workload
from tidings.sim.faults import Fault, Kind
from tidings.sim.gathering import workload
from tidings.sim.gathering.run import APART_S, OUTAGES, GatheredRun
from tidings.sim.node import Node

SHAPES = ("path", "tree", "random")

BROKERS = (9, 20)

STRIKES = 4

PUBLICATIONS, FAULTS = 2_000, 10

FEWER_PUBLICATIONS, FEWER_FAULTS = 300, 8
"""Of seeds in `LINES` and `FOUND`."""

CHURN, KEYS, REDUNDANT_S = 6, 12, 20.0

FOUND = (5052, 6174, 6192, 7197, 9001)
"""Seeds that have found something once, when all had so few publications, …"""

FOUND_SINCE = (810025, 810073, 820022, 821133, 830227, 910139, 910270, 910621, 910714, 910825, 940021, 980107)
"""… and since they have more."""


@dataclass(frozen=True, slots=True)
class Line:
    """What differs from seed to seed."""

    topology: str
    brokers: int
    faults: str


LINES = {
    90027: Line("random", 9, "all"),
    91030: Line("tree", 10, "crashes,cuts,breaks,slow,skew"),
}
"""The first: a Follow that came after the answer to another was held back, and a withdrawal was lost. The
second: a version came after a newer one that had been judged, and was given."""


class State(StrEnum):
    """What the protocol may be in the midst of."""

    CHANGE = "a change under way"
    REPORT = "a report under way"
    VERSION = "a version under way"
    ASK = "a question unanswered"
    SNAPSHOT = "a snapshot under way"
    FOLLOW = "a Follow unanswered"
    UNFOLLOW = "an Unfollow under way"
    CLOSE = "a closing under way"
    MIRROR = "a copy for the deputy under way"
    HANDOVER = "a seat handed over"
    STALE = "a stale acknowledgement"


CELLS = tuple(Cell(state, kind) for state in State for kind in KINDS)
"""All that the campaign must cover."""

MESSAGES: dict[type[Message], State] = {
    Change: State.CHANGE,
    Carry: State.REPORT,
    Ask: State.ASK,
    Snapshot: State.SNAPSHOT,
    Follow: State.FOLLOW,
    Unfollow: State.UNFOLLOW,
    Close: State.CLOSE,
    Mirror: State.MIRROR,
    HandOver: State.HANDOVER,
}
"""Those that show a state by themselves."""

GATHERS_FOR_S = 3.0
"""So long after the last report events are still told, asked for and closed."""


def line(seed: int) -> Line:
    """What a seed is about."""
    if seed in LINES:
        return LINES[seed]
    source = random.Random(f"campaign/gathered/{seed}")
    kinds = [kind for kind in faults.ALL if source.random() < 0.5]
    if source.random() < 0.5:
        # Brokers may fail one at a time, and in these a strike makes one fail.
        kinds = [kind for kind in kinds if kind not in OUTAGES]
    kinds = kinds if set(kinds) - {Kind.SKEW} else [Kind.BREAKS, *kinds]
    return Line(source.choice(SHAPES), source.randint(*BROKERS), ",".join(kinds))


def words(seed: int) -> str:
    """The options of `tidings simulate` that play a seed without its strikes."""
    it = line(seed)
    return (
        f"--topology {it.topology} --brokers {it.brokers} --seed {seed} --faults {it.faults}"
        f" --publications {FEWER_PUBLICATIONS} --fault-count {FEWER_FAULTS} --gathered --keys {KEYS}"
        f" --redundant-for {REDUNDANT_S:g}s --churn {CHURN}"
    )


def plan(seed: int) -> Plan:
    """The plan of these options."""
    it = line(seed)
    fewer = seed in LINES or seed in FOUND
    command = f"python -m tests.simulation.campaign gathered --seed {seed}"
    return Plan(
        seed=seed,
        topology=topologies.generate(it.topology, it.brokers, seed),
        workload=Workload(publications=FEWER_PUBLICATIONS if fewer else PUBLICATIONS),
        faults=faults.read_kinds(it.faults),
        fault_count=FEWER_FAULTS if fewer else FAULTS,
        churn=CHURN,
        reporting=workload.changed({"keys": KEYS, "redundant_for_s": REDUNDANT_S}),
        command=f"tidings simulate {words(seed)}" if seed in LINES else command,
    )


def cells_for(seed: int) -> list[Cell]:
    """What a seed strikes: one broker fails, if none does by itself."""
    if seed in LINES:
        return []
    taken = faults.read_kinds(line(seed).faults)
    links = [cell for cell in CELLS if cell.kind not in OUTAGES]
    if any(kind in OUTAGES for kind in taken):
        return cells_of(seed, links, STRIKES)
    fails = [cell for cell in CELLS if cell.kind in OUTAGES]
    return [*cells_of(seed, fails, 1), *cells_of(seed, links, STRIKES - 1)]


class StruckRun(GatheredRun):
    """One run, with strikes."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        source = random.Random(f"strikes/{plan.seed}")
        self.strikes = Strikes(cells_for(plan.seed), source, plan.topology, self._may)
        eyes = Eyes(self.world, LOOKS, _others)
        self.world.watch = watching(eyes, self.strikes, self._strike, self.world.watch)

    def _strike(self, fault: Fault) -> None:
        self._happened.append(fault)

    def _may(self, kind: Kind, begin: float, end: float) -> bool:
        """Whether no other broker fails about that time."""
        return kind not in OUTAGES or all(
            fault.until + APART_S < begin or end + APART_S < fault.at
            for fault in self._happened
            if fault.kind in OUTAGES
        )

    def _faults(self, ends: float) -> list[Fault]:
        found = super()._faults(ends)
        self.strikes.plan(self._began, ends + GATHERS_FOR_S)
        return found

    def _heal(self) -> None:
        wait_for_all(self.world, self._happened)


def _done(eyes: Eyes, host: Node, to: Node, message: Done) -> State | None:
    return State.STALE if message.stale else None


def _publish(eyes: Eyes, host: Node, to: Node, message: Publish) -> State | None:
    return State.VERSION if message.told else None


def _others(eyes: Eyes, host: Node, event: object, effects: Sequence[Effect]) -> Iterator[Sighting]:
    yield from ()


LOOKS: dict[type[Message], Look] = {
    **{kind: lambda _eyes, _host, _to, message: MESSAGES[type(message)] for kind in MESSAGES},
    Done: _done,
    Publish: _publish,
}
