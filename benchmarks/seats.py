"""What becomes of gathered events while their seats are killed, restarted and cut off.

    python benchmarks/seats.py [--trials N] [--seed N] [--brokers N] [--json]

A ring of brokers, one process each, with disks, as `tidings broker` runs them; every link goes through a
proxy here. At each broker somebody reports with QoS 1 all the time, and a reader whose session is kept
follows the events, every second one with a filter. A trial is about a few things that nobody has reported
about before, and in the middle of it comes one fault, at a moment drawn from the seed:

* kill: kill -9 of the broker that has the seat, which is started again after up to 10 s, on its disk;
* other: the same with another broker, the deputy among them;
* restart: SIGTERM of the seat, which drains it, and a new start;
* partition: the ring is cut in two for 8 to 15 s, with reporters and readers on both sides;
* cut: a link is cut in the middle of its bytes for up to 3 s.

Counted are losses (something in an accepted report that is not in the last version of its event with every
reader who asks for that, 60 s after the last report), repeats (a version handed to a reader twice without
being marked as a possible repeat), versions out of order, wrong ones (what nobody reported, what the filter
does not match, reports as they are), events beyond one for each thing, and the time to heal: from the fault
until something that was reported after it at every broker is with every reader who asks for it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.faults import PAUSE_S, Process, Proxy, Publisher, free_port, reading

from tidings.client.deliveries import Delivery
from tidings.errors import TidingsError

FAULTS = ("kill", "other", "restart", "partition", "cut")
LOST_AFTER_S = 60.0
RATE_PER_S = 10
"""Reports at each broker: each of them makes its event larger, and all of that is copied to the deputy."""

THINGS = 3
"""That each trial is about."""

SEVERE = 500
"""What every second reader asks for, at least."""

BEFORE_S, AFTER_S = (0.3, 1.5), 2.0
"""How long is reported before a fault, and after its end."""

TOPIC = "roads"
WARM = "before the first trial"
"""A thing that shows that the network is there."""

DECLARATION = """\
name = "roads"
kind = "gathered"
key = ["place"]
merge_after = "200ms"
redundant_for = "1h"
window = "none"
stays_open = "reported"
[fields]
place = { type = "string" }
severity = { type = "int", conflict = "max" }
speed = { type = "int", conflict = "min" }
lanes = { type = "int" }
witness = { type = "string", conflict = "union" }
"""


@dataclass
class Thing:
    """What was said of one thing."""

    offered: set[str] = field(default_factory=set)
    """Witnesses; each report has one of its own, by which it is known."""

    accepted: set[str] = field(default_factory=set)
    severities: dict[str, int] = field(default_factory=dict)
    speeds: dict[str, int] = field(default_factory=dict)


@dataclass
class Version:
    """The latest that a reader has of an event."""

    number: int
    state: str
    witnesses: frozenset[str]
    severity: int
    speed: int
    lanes: int


@dataclass
class Reader:
    """Who has got what at one broker."""

    where: str
    things: dict[str, Thing]
    events: dict[str, dict[str, Version]] = field(default_factory=lambda: defaultdict(dict))
    """By thing and event."""

    places: dict[str, str] = field(default_factory=dict)
    """By event: the thing."""

    repeats: int = 0
    disorders: int = 0
    wrong: int = 0
    deliveries: int = 0
    seat: str = ""
    """Who told the latest."""

    async def read(self, broker: Process) -> None:
        while True:
            with contextlib.suppress(TidingsError):
                async with (
                    reading(broker) as network,
                    network.subscribe(TOPIC, where=self.where or None, qos=1) as deliveries,
                ):
                    async for delivery in deliveries:
                        self.hear(delivery)
            await asyncio.sleep(PAUSE_S)

    def hear(self, told: Delivery) -> None:
        if told.id is None or told.version is None or told.state is None or told.seat is None:
            self.wrong += 1
            return
        self.deliveries += 1
        self.seat = told.seat
        said = msgspec.json.decode(told.payload) if told.payload else {}
        place = self.places.setdefault(told.id, said.get("place", ""))
        events = self.events[place]
        before = events.get(told.id)
        if before is not None and told.version <= before.number:
            if told.version == before.number:
                self.repeats += not told.dup
            else:
                self.disorders += not told.dup
            return
        version = Version(
            told.version,
            told.state,
            frozenset(said.get("witness", ())),
            said.get("severity", -1),
            said.get("speed", -1),
            said.get("lanes", 0),
        )
        events[told.id] = version
        thing = self.things.get(place)
        if thing is None or told.state in ("withdrawn", "merged-into"):
            return
        self.wrong += (
            not version.witnesses <= thing.offered
            or bool(self.where and version.severity < SEVERE)
            or (version.severity >= 0 and version.severity not in thing.severities.values())
            or (version.speed >= 0 and version.speed not in thing.speeds.values())
        )

    def living(self, place: str) -> list[Version]:
        """The events of a thing that are not over."""
        return [one for one in self.events[place].values() if one.state not in ("withdrawn", "merged-into")]


@dataclass
class Reporter:
    """Says all the time what happens at the things of the day."""

    number: int
    things: dict[str, Thing]
    chance: random.Random
    today: list[str] = field(default_factory=list)
    count: int = 0
    latest: dict[str, str] = field(default_factory=dict)
    """By thing: the witness of the latest accepted report."""

    async def report(self, broker: Process) -> None:
        while True:
            with contextlib.suppress(TidingsError):
                publisher = Publisher(broker, f"reporter at {broker.name}")
                await publisher.connect()
                while True:
                    if self.today:
                        place, witness, body = self.word()
                        publisher.publish(TOPIC, body, partial(self.accept, place, witness))
                    await asyncio.sleep(1 / RATE_PER_S)
            await asyncio.sleep(PAUSE_S)

    def word(self) -> tuple[str, str, bytes]:
        self.count += 1
        place = self.chance.choice(self.today)
        witness = f"{self.number}-{self.count}"
        thing = self.things[place]
        said: dict[str, object] = {"place": place, "witness": witness}
        if self.chance.random() < 0.5:
            said["severity"] = thing.severities[witness] = int(1000 * self.chance.random() ** 2)
        if self.chance.random() < 0.3:
            said["speed"] = thing.speeds[witness] = self.chance.randrange(130)
        if self.chance.random() < 0.3:
            said["lanes"] = 2
        thing.offered.add(witness)
        return place, witness, msgspec.json.encode(said)

    def accept(self, place: str, witness: str) -> None:
        self.things[place].accepted.add(witness)
        self.latest[place] = witness


@dataclass
class Trial:
    fault: str
    where: str
    heal_s: float
    start_s: float
    reports: int
    losses: int
    spare_events: int


class Ring:
    """The network, its traffic and its faults."""

    def __init__(self, count: int, folder: Path, chance: random.Random) -> None:
        self.chance = chance
        self.ports = [free_port() for _ in range(count)]
        self.proxies = [Proxy(port) for port in self.ports]
        self.folder = folder
        self.brokers: list[Process] = []
        self.things: dict[str, Thing] = {}
        self.readers = [Reader(f"severity >= {SEVERE}" if n % 2 else "", self.things) for n in range(count)]
        self.reporters = [Reporter(n, self.things, random.Random(f"{chance.random()}")) for n in range(count)]
        self.tasks: list[asyncio.Future[None]] = []

    async def start(self) -> None:
        declaration = self.folder / "roads.toml"
        declaration.write_text(DECLARATION, encoding="utf-8")
        fronts = [await proxy.start() for proxy in self.proxies]
        for n, port in enumerate(self.ports):
            # Each dials the one before it.
            settings = ("--topics", str(declaration))
            self.brokers.append(Process(f"b{n}", port, self.folder, [fronts[n - 1]], settings))
            await self.brokers[-1].start()
        for broker, reader, reporter in zip(self.brokers, self.readers, self.reporters, strict=True):
            self.tasks.append(asyncio.ensure_future(reader.read(broker)))
            self.tasks.append(asyncio.ensure_future(reporter.report(broker)))
        # Not before the network is one and everybody has subscribed.
        self.things[WARM] = Thing()
        for reporter in self.reporters:
            reporter.today = [WARM]
        await self.wait(lambda: all(reader.living(WARM) for reader in self.readers))
        for reporter in self.reporters:
            reporter.today = []

    async def trial(self, number: int) -> Trial:
        chance = self.chance
        fault = chance.choice(FAULTS)
        today = [f"t{number}-{thing}" for thing in range(THINGS)]
        self.things |= {place: Thing() for place in today}
        for reporter in self.reporters:
            reporter.today, reporter.latest = today, {}
        await self.wait(lambda: all(reader.living(today[0]) for reader in self.readers[::2]))
        await asyncio.sleep(chance.uniform(*BEFORE_S))
        began = time.monotonic()
        for reporter in self.reporters:
            reporter.latest = {}
        where, start_s, lasted_s = await self.fail(fault)
        healed = await self.wait(lambda: self.everyone_goes_on(today))
        heal_s = time.monotonic() - began
        await asyncio.sleep(AFTER_S)
        for reporter in self.reporters:
            reporter.today = []
        await self.wait(lambda: not self.missing(today) and not self.spare(today))
        reports = sum(len(self.things[place].accepted) for place in today)
        return Trial(
            fault,
            where,
            max(0.0, heal_s - lasted_s) if healed else float("inf"),
            start_s,
            reports,
            len(self.missing(today)),
            self.spare(today),
        )

    async def fail(self, fault: str) -> tuple[str, float, float]:
        """Do it, and undo it; where, how long a start took, and how long it lasted on purpose."""
        chance, count = self.chance, len(self.brokers)
        seat = int(self.readers[0].seat.removeprefix("b"))
        if fault == "partition":
            one = chance.randrange(count)
            other = (one + chance.randrange(1, count)) % count
            lasted_s = chance.uniform(8.0, 15.0)
            for at in (one, other):
                self.proxies[at].cut()
            await asyncio.sleep(lasted_s)
            for at in (one, other):
                self.proxies[at].is_cut = False
            return f"b{one}-b{other}", 0.0, lasted_s
        if fault == "cut":
            at = chance.randrange(count)
            lasted_s = chance.uniform(0.0, 3.0)
            self.proxies[at].cut()
            await asyncio.sleep(lasted_s)
            self.proxies[at].is_cut = False
            return f"b{at}", 0.0, lasted_s
        at = (seat + chance.randrange(1, count)) % count if fault == "other" else seat
        await self.brokers[at].end(signal.SIGTERM if fault == "restart" else signal.SIGKILL)
        lasted_s = chance.choice((0.0, 0.0, chance.uniform(0.0, 10.0)))
        await asyncio.sleep(lasted_s)
        return f"b{at}", await self.brokers[at].start(), lasted_s

    def everyone_goes_on(self, today: list[str]) -> bool:
        """Whether the latest that every broker has accepted since the fault is with every reader."""
        return all(reporter.latest for reporter in self.reporters) and all(
            any(
                self.unwanted(reader, place)
                or any(reporter.latest.get(place) in one.witnesses for one in reader.living(place))
                for place in today
            )
            for reader in self.readers
            for reporter in self.reporters
        )

    def unwanted(self, reader: Reader, place: str) -> bool:
        """Whether a reader does not ask for a thing, as far as is known from accepted reports."""
        thing = self.things[place]
        severest = max((thing.severities.get(one, -1) for one in thing.accepted), default=-1)
        return bool(reader.where) and severest < SEVERE

    def missing(self, today: list[str]) -> list[str]:
        """What was accepted and is not with everyone who asks for it."""
        found = []
        for place in today:
            thing = self.things[place]
            severest = max((thing.severities.get(one, -1) for one in thing.accepted), default=-1)
            slowest = min((thing.speeds[one] for one in thing.accepted if one in thing.speeds), default=-1)
            for reader in self.readers:
                if self.unwanted(reader, place):
                    continue
                living = reader.living(place)
                said: set[str] = set().union(*(one.witnesses for one in living))
                found += sorted(thing.accepted - said)
                if max((one.severity for one in living), default=-1) < severest:
                    found.append(f"severity {severest}")
                if slowest >= 0 and not any(0 <= one.speed <= slowest for one in living):
                    found.append(f"speed {slowest}")
        return found

    def spare(self, today: list[str]) -> int:
        """Events beyond one for each thing, with any reader, and versions that differ between readers."""
        found = 0
        for place in today:
            living = [reader.living(place) for reader in self.readers if not self.unwanted(reader, place)]
            found += sum(max(0, len(one) - 1) for one in living)
            found += len({(one.number, one.witnesses) for own in living for one in own}) > 1
        return found

    @staticmethod
    async def wait(condition: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + LOST_AFTER_S
        while not condition():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(PAUSE_S)
        return True

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        for broker in self.brokers:
            await broker.end(signal.SIGTERM)


async def run(trials: int, brokers: int, seed: int, say: Callable[[str], None]) -> tuple[list[Trial], Ring]:
    with tempfile.TemporaryDirectory() as folder:
        ring = Ring(brokers, Path(folder), random.Random(seed))
        await ring.start()
        done = []
        for n in range(trials):
            done.append(await ring.trial(n))
            say(f"{n + 1:3} {done[-1]}")
        await ring.stop()
        return done, ring


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--brokers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    given = parser.parse_args()
    logging.disable()
    err = Console(stderr=True)
    trials, ring = asyncio.run(run(given.trials, given.brokers, given.seed, err.print))
    rows = []
    for fault in FAULTS:
        some = [trial for trial in trials if trial.fault == fault]
        if some:
            heals = [trial.heal_s for trial in some]
            rows.append(
                {
                    "fault": fault,
                    "trials": len(some),
                    "reports": sum(trial.reports for trial in some),
                    "losses": sum(trial.losses for trial in some),
                    "spare_events": sum(trial.spare_events for trial in some),
                    "heal_s_median": statistics.median(heals),
                    "heal_s_max": max(heals),
                    "start_s_median": statistics.median(trial.start_s for trial in some),
                }
            )
    total = {
        "accepted": sum(len(thing.accepted) for thing in ring.things.values()),
        "deliveries": sum(reader.deliveries for reader in ring.readers),
        "repeats": sum(reader.repeats for reader in ring.readers),
        "disorders": sum(reader.disorders for reader in ring.readers),
        "wrong": sum(reader.wrong for reader in ring.readers),
    }
    if given.json:
        print(json.dumps({"faults": rows, **total}, indent=2))
        return
    table = Table(
        *("fault", "trials", "reports", "losses", "spare events", "heal s, median", "max", "of it start"),
        title="seats",
    )
    for row in rows:
        table.add_row(*(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values()))
    console = Console()
    console.print(table)
    console.print(", ".join(f"{name} {value}" for name, value in total.items()))


if __name__ == "__main__":
    main()
