"""How fast the simulator is: a thousand brokers, and beside it SimPy with an exchange of bare messages.

    python benchmarks/simulator.py                 1,000 brokers, 100,000 publications; some minutes
    python benchmarks/simulator.py --quick         100 brokers, 2,000 publications; some seconds
    python benchmarks/simulator.py --qos 1         with acknowledgements and disks

Three rows: our simulator with real brokers, which route by content; our simulator with bare brokers, which
pass messages on along ways that were worked out beforehand; and SimPy (a process and a store for each broker)
doing the same as the second. A frame is one message over one link. Times are CPU time of this process.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any

import simpy
from rich.console import Console
from rich.table import Table

from tidings.language.topics import Topic
from tidings.overlay.events import (
    ConnectionMade,
    Dial,
    Effect,
    Event,
    FrameReceived,
    NeighbourAdded,
    PublicationsOffered,
    Send,
)
from tidings.overlay.frames import Frame
from tidings.overlay.publishing.batches import message_of
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.settings import Settings
from tidings.overlay.status import Status
from tidings.planning import topologies
from tidings.planning.topologies import Topology
from tidings.sim.brokers.promises import distances
from tidings.sim.brokers.run import Plan, Run
from tidings.sim.brokers.workload import Workload
from tidings.sim.world import World

MATCHING = 10
"""Subscribers that get a publication."""

Ways = dict[str, list[str]]
"""Of one publication: to whom each broker passes it on."""


@dataclass(slots=True)
class Row:
    """One line of the table."""

    engine: str
    brokers: int
    publications: int
    deliveries: int
    frames: int
    events: int
    setup_s: float
    run_s: float
    peak_mb: int

    @property
    def events_per_s(self) -> float:
        return self.events / self.run_s

    @property
    def frames_per_s(self) -> float:
        return self.frames / self.run_s


def real(plan: Plan, say: Any) -> Row:
    """The brokers that run live; all promises are checked, outside the time."""
    gc.collect()
    start = process_time()
    marks: dict[str, tuple[float, int, int]] = {}

    def progress(text: str, share: float) -> None:
        say(f"{text} {share:4.0%}")
        marks.setdefault(text, (process_time() - start, run.world.agenda.done, run.world.frames_sent()))

    run = Run(plan, progress=progress)
    outcome = run.run()
    assert not outcome.breaches, outcome.replay
    begun, ended = marks["publishing"], marks["checking"]
    return Row(
        "Tidings, real brokers",
        len(plan.topology.ids),
        plan.workload.publications,
        outcome.measures.delivered,
        ended[2] - begun[2],
        ended[1] - begun[1],
        begun[0],
        ended[0] - begun[0],
        _peak_mb(),
    )


# The same exchange without any routing.


def ways_of(topology: Topology, publications: int, seed: int) -> list[tuple[str, Ways]]:
    """Where each publication enters, and its ways over the tree of the first broker to ten others."""
    source = random.Random(f"ways/{seed}")
    joined = topology.neighbours()
    ids = topology.ids
    depth = distances(joined, ids[0])
    parent = {
        name: next((other for other in joined[name] if depth[other] == depth[name] - 1), "") for name in ids
    }

    def path(name: str, to: str) -> list[str]:
        up, down = [name], [to]
        while up[-1] != down[-1]:
            side = up if depth[up[-1]] >= depth[down[-1]] else down
            side.append(parent[side[-1]])
        return up + down[-2::-1]

    found = []
    for _ in range(publications):
        origin = source.choice(ids)
        ways: dict[str, dict[str, None]] = {}
        for target in source.sample(ids, min(MATCHING, len(ids))):
            way = path(origin, target)
            for one, other in pairwise(way):
                ways.setdefault(one, {})[other] = None
        found.append((origin, {one: list(others) for one, others in ways.items()}))
    return found


class Bare:
    """A broker that knows the ways beforehand."""

    ways: Sequence[Ways] = ()

    def __init__(
        self,
        id: str,  # noqa: A002  it is the broker's parameter
        *,
        boot: int,
        incarnation: int,
        random: random.Random,
        settings: Settings,
        topics: Sequence[Topic],
        saved: Mapping[str, bytes],
        logged: Mapping[tuple[str, str], int],
    ) -> None:
        del boot, incarnation, random, settings, topics, saved, logged
        self.id = id
        self.links: dict[str, int] = {}
        self.waiting: list[str] = []

    def start(self, now: float) -> list[Effect]:  # noqa: ARG002
        return []

    def status(self, now: float, *, filters: bool = False) -> Status:
        raise NotImplementedError

    def handle(self, event: Event, now: float) -> list[Effect]:  # noqa: ARG002
        if isinstance(event, FrameReceived):
            message = event.frame.messages[0]
            assert isinstance(message, Publish)
            return self._pass_on(message)
        if isinstance(event, PublicationsOffered):
            batch = event.batch.numbered(self.id, 1, "", event.tokens, 0)
            return self._pass_on(message_of("", (1, 1), 1, 1, batch, 0, 1, 0))
        if isinstance(event, NeighbourAdded):
            return [Dial(event.address)]
        if isinstance(event, ConnectionMade) and event.address is not None:
            self.links[event.address] = event.connection
        return []

    def _pass_on(self, message: Publish) -> list[Effect]:
        frame = Frame(1, 0, (message,))
        return [Send(self.links[other], frame) for other in self.ways[message.numbers[0]].get(self.id, ())]


def bare(topology: Topology, planned: list[tuple[str, Ways]]) -> Row:
    """Our simulator, with brokers that only pass on."""
    gc.collect()
    start = process_time()
    # Both sides dial, so that each knows the other's connection by its address.
    both = topologies.Topology(
        topology.places,
        tuple(topologies.Link(link.one, link.other, link.delay_s, both_dial=True) for link in topology.links),
    )
    Bare.ways = [ways for _, ways in planned]
    world = World(both, 0, machine=Bare)
    world.start()
    world.run(1.0)
    setup = process_time() - start
    clients = {address: world.client(address, f"p-{address}") for address in topology.ids}
    frames, events = world.frames_sent(), world.agenda.done
    start = process_time()
    for number, (origin, _) in enumerate(planned):
        clients[origin].publish("t", b"%d" % number)
        world.run(0.001)
    world.run(10.0)
    return Row(
        "Tidings, bare brokers",
        len(topology.ids),
        len(planned),
        0,
        world.frames_sent() - frames,
        world.agenda.done - events,
        setup,
        process_time() - start,
        _peak_mb(),
    )


def peer(topology: Topology, planned: list[tuple[str, Ways]]) -> Row:
    """SimPy, with a process and a store for each broker, and one for each message on its way."""
    gc.collect()
    start = process_time()
    env = simpy.Environment()
    inboxes = {name: simpy.Store(env) for name in topology.ids}
    delay = {}
    for link in topology.links:
        delay[link.one, link.other] = delay[link.other, link.one] = link.delay_s
    frames = events = 0
    step = simpy.Environment.step

    def carry(one: str, other: str, number: int) -> Generator[Any, Any, None]:
        yield env.timeout(delay[one, other])
        yield inboxes[other].put(number)

    def broker(name: str) -> Generator[Any, Any, None]:
        nonlocal frames
        inbox = inboxes[name]
        while True:
            number = yield inbox.get()
            for other in planned[number][1].get(name, ()):
                frames += 1
                env.process(carry(name, other, number))

    def publish() -> Generator[Any, Any, None]:
        for number, (origin, _) in enumerate(planned):
            yield inboxes[origin].put(number)
            yield env.timeout(0.001)

    for name in topology.ids:
        env.process(broker(name))
    env.process(publish())
    setup = process_time() - start
    start = process_time()
    until = len(planned) * 0.001 + 10.0
    while env.peek() < until:
        step(env)
        events += 1
    return Row(
        "SimPy, bare brokers",
        len(topology.ids),
        len(planned),
        0,
        frames,
        events,
        setup,
        process_time() - start,
        _peak_mb(),
    )


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def table(rows: list[Row]) -> Table:
    made = Table(title="Simulation: CPU time on one core")
    for title in (
        "engine", "brokers", "publications", "deliveries", "frames", "events", "set-up s", "run s",
        "frames/s", "events/s", "peak MB",
    ):  # fmt: skip
        made.add_column(title, justify="left" if title == "engine" else "right")
    for row in rows:
        made.add_row(
            row.engine, f"{row.brokers:,}", f"{row.publications:,}",
            f"{row.deliveries:,}" if row.deliveries else "",
            f"{row.frames:,}", f"{row.events:,}", f"{row.setup_s:.1f}", f"{row.run_s:.1f}",
            f"{row.frames_per_s:,.0f}", f"{row.events_per_s:,.0f}", f"{row.peak_mb:,}",
        )  # fmt: skip
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", type=int, default=1_000)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--publications", type=int, default=100_000)
    parser.add_argument("--topology", default="random", choices=list(topologies.GENERATORS))
    parser.add_argument("--qos", type=int, default=0, choices=[0, 1, 2])
    parser.add_argument(
        "--quick", action="store_true", help="100 brokers, 1,000 subscriptions, 2,000 publications"
    )
    parser.add_argument("--json", type=Path, help="write the figures here too")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.brokers, chosen.subscriptions, chosen.publications = 100, 1_000, 2_000
    console = Console(width=140)
    topology = topologies.generate(chosen.topology, chosen.brokers, 1)
    planned = ways_of(topology, min(chosen.publications, 20_000), 1)
    rows = [bare(topology, planned), peer(topology, planned)]
    assert rows[0].frames == rows[1].frames, "both bare exchanges send the same frames"
    plan = Plan(
        seed=1,
        topology=topology,
        workload=Workload(
            topics=chosen.topics,
            subscriptions=chosen.subscriptions,
            publications=chosen.publications,
            matching=MATCHING,
            rate_per_s=1_000.0,
            qos=chosen.qos,
        ),
        command=" ".join(["python", *sys.argv]),
    )
    with console.status("") as status:
        rows.insert(0, real(plan, status.update))
    console.print(table(rows))
    ratio = rows[1].frames_per_s / rows[2].frames_per_s
    console.print(f"The bare exchange takes SimPy {ratio:.1f} times as long as our simulator.")
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
