"""What becomes of acknowledged publications while brokers are killed, restarted and cut off.

    python benchmarks/faults.py [--trials N] [--seed N] [--brokers N] [--json]

A ring of brokers, one process each, with disks, as `tidings broker` runs them; every link goes through a
proxy here. A writer at the first broker publishes with QoS 1 all the time; each broker has a reader, whose
session is kept. A trial is one fault, at a moment and a place drawn from the seed:

* kill: kill -9 of a broker, which is started again at once, on its disk;
* restart: SIGTERM, which drains it, and a new start;
* cut: a link is cut in the middle of its bytes and stays so for up to 3 s;
* blackout: kill -9 of all brokers at once, which are started again.

Trials begin when every reader has heard the writer. Counted from then on are losses (accepted by the
writer's broker and not with every reader 60 s after the fault), repeats (handed to a reader twice without
being marked as a possible repeat, DUP), publications out of order, and the time to heal: from the fault until
a publication offered after it has been accepted and is with every reader. For a kill or a restart this
includes the start of the process, which is told beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import random
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tidings.client.network import Network, connect
from tidings.client.urls import Address, read_all
from tidings.errors import TidingsError
from tidings.load.bare import Bare
from tidings.mqtt.codec import encode
from tidings.mqtt.packets import Puback, Publish, Version
from tidings.mqtt.reasons import FAILURE

FAULTS = ("kill", "restart", "cut", "blackout")
LOST_AFTER_S = 60.0
RATE_PER_S = 500
"""Publications of the writer; several are under way whenever the fault comes."""

PAUSE_S = 0.02
SESSION_S = 3600.0
"""How long the sessions of readers are kept: longer than any fault lasts."""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Proxy:
    """One link: passes bytes until it is cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self.is_cut = False

    async def start(self) -> int:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        return port

    def cut(self) -> None:
        self.is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.is_cut:
                raise ConnectionError
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, back}
        await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        self._writers -= {writer, back}

    @staticmethod
    async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        sink.transport.abort()


class Process:
    """One broker, which lets anybody in."""

    def __init__(
        self, name: str, port: int, folder: Path, neighbours: list[int], settings: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.address = f"127.0.0.1:{port}"
        mqtt = f"127.0.0.1:{free_port()}"
        self.url = f"mqtt://{mqtt}"
        self._command = [
            *(sys.executable, "-c", "from tidings.cli import main; main()", "broker", "--id", name),
            *("--listen", self.address, "--data", str(folder / name), "--records", "off", "--http", "off"),
            *(
                "--log-level",
                "error",
                "--set",
                "redial_max=1s",
                "--set",
                f"mqtt={mqtt}",
                "--set",
                "anonymous=true",
                *settings,
            ),
        ]
        for neighbour in neighbours:
            self._command += ["--neighbour", f"127.0.0.1:{neighbour}"]

    async def start(self) -> float:
        """Starts it; how long it takes until it answers, in seconds."""
        began = time.monotonic()
        self._process = await asyncio.create_subprocess_exec(*self._command)
        while True:
            try:
                _, writer = await asyncio.open_connection(*self.address.split(":"))
            except OSError:
                if self._process.returncode is not None:
                    raise SystemExit(f"{self.name} has ended with {self._process.returncode}") from None
                await asyncio.sleep(PAUSE_S)
            else:
                writer.close()
                return time.monotonic() - began

    async def end(self, how: int) -> None:
        self._process.send_signal(how)
        await self._process.wait()


def reading(broker: Process) -> Network:
    """A client whose session is kept; it connects again by itself."""
    return connect(
        broker.url, client_id=f"reader at {broker.name}", session_expiry=SESSION_S, pause_max=PAUSE_S
    )


@dataclass
class Reader:
    """Who has got what at one broker."""

    heard: set[int] = field(default_factory=set)
    repeats: int = 0
    disorders: int = 0
    last: int = -1

    async def read(self, broker: Process) -> None:
        while True:
            with contextlib.suppress(TidingsError):
                async with reading(broker) as network, network.subscribe("t", qos=1) as messages:
                    async for message in messages:
                        self.hear(int(message.payload), message.dup)
            await asyncio.sleep(PAUSE_S)

    def hear(self, number: int, marked: bool) -> None:
        if number in self.heard:
            self.repeats += not marked
            return
        self.heard.add(number)
        self.disorders += self.last > number
        self.last = number


class Publisher(Bare):
    """A connection that publishes with QoS 1 and waits for nothing. Nothing is published again."""

    version = Version.V5
    context = None
    connect_within_s = LOST_AFTER_S

    def __init__(self, broker: Process, client_id: str) -> None:
        self.addresses: Sequence[Address] = read_all(broker.url, None, None, {})
        self._accepts: dict[int, Callable[[], None]] = {}
        self._count = 0
        super().__init__(self, client_id, 0)

    def publish(self, topic: str, payload: bytes, accepted: Callable[[], None]) -> None:
        self.check()
        packet_id = self._count % 65_535 + 1
        self._count += 1
        self._accepts[packet_id] = accepted
        self.write(encode(Publish(topic, payload, 1, packet_id=packet_id), self.version))

    def on(self, packet: object) -> None:
        if isinstance(packet, Puback):
            accepted = self._accepts.pop(packet.packet_id)
            if packet.reason < FAILURE:
                accepted()
        else:
            super().on(packet)


@dataclass
class Writer:
    offered: int = 0
    accepted: list[int] = field(default_factory=list)

    async def write(self, broker: Process) -> None:
        while True:
            with contextlib.suppress(TidingsError):
                publisher = Publisher(broker, "writer")
                await publisher.connect()
                while True:
                    number, self.offered = self.offered, self.offered + 1
                    publisher.publish("t", b"%d" % number, partial(self.accepted.append, number))
                    await asyncio.sleep(1 / RATE_PER_S)
            await asyncio.sleep(PAUSE_S)


@dataclass
class Trial:
    fault: str
    where: str
    heal_s: float
    start_s: float
    losses: int


class Ring:
    """The network, its traffic and its faults."""

    def __init__(self, count: int, folder: Path, chance: random.Random) -> None:
        self.chance = chance
        self.ports = [free_port() for _ in range(count)]
        self.proxies = [Proxy(port) for port in self.ports]
        self.folder = folder
        self.brokers: list[Process] = []
        self.readers = [Reader() for _ in range(count)]
        self.writer = Writer()
        self.first = 0
        """From here on every reader gets what is published."""

    async def start(self) -> None:
        fronts = [await proxy.start() for proxy in self.proxies]
        for n, port in enumerate(self.ports):
            # Each dials the one before it.
            self.brokers.append(Process(f"b{n}", port, self.folder, [fronts[n - 1]]))
            await self.brokers[-1].start()
        self.tasks = [
            asyncio.ensure_future(reader.read(broker))
            for reader, broker in zip(self.readers, self.brokers, strict=True)
        ]
        self.tasks.append(asyncio.ensure_future(self.writer.write(self.brokers[0])))
        await self.wait(lambda: self.everyone_has(0))
        self.first = self.writer.offered

    async def trial(self) -> Trial:
        chance = self.chance
        fault = chance.choice(FAULTS)
        at = chance.randrange(len(self.brokers))
        await asyncio.sleep(chance.uniform(0.2, 1.0))
        began = time.monotonic()
        mark = self.writer.offered
        start_s = 0.0
        if fault == "cut":
            self.proxies[at].cut()
            asyncio.get_running_loop().call_later(chance.uniform(0.0, 3.0), self.mend, at)
        elif fault == "blackout":
            await asyncio.gather(*(broker.end(signal.SIGKILL) for broker in self.brokers))
            start_s = max(await asyncio.gather(*(broker.start() for broker in self.brokers)))
        else:
            await self.brokers[at].end(signal.SIGKILL if fault == "kill" else signal.SIGTERM)
            start_s = await self.brokers[at].start()
        healed = await self.wait(lambda: self.everyone_has(mark))
        heal_s = time.monotonic() - began
        end = self.writer.accepted[-1] if self.writer.accepted else 0
        await self.wait(lambda: not self.missing(end))
        where = "everywhere" if fault == "blackout" else f"b{at}"
        return Trial(fault, where, heal_s if healed else float("inf"), start_s, len(self.missing(end)))

    def mend(self, at: int) -> None:
        self.proxies[at].is_cut = False

    def everyone_has(self, mark: int) -> bool:
        """Whether something that was offered from here on, and accepted, is everywhere."""
        later = {number for number in self.writer.accepted[-5 * RATE_PER_S :] if number >= mark}
        for reader in self.readers:
            later &= reader.heard
        return bool(later)

    def missing(self, end: int) -> set[int]:
        """What was accepted up to here and is not with everyone."""
        accepted = {number for number in self.writer.accepted if self.first <= number <= end}
        return {number for reader in self.readers for number in accepted - reader.heard}

    @staticmethod
    async def wait(condition: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + LOST_AFTER_S
        while not condition():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(PAUSE_S)
        return True

    async def stop(self) -> None:
        writing = self.tasks.pop()
        writing.cancel()
        await asyncio.wait([writing])  # what it is still told to be accepted counts
        await self.wait(lambda: not self.missing(self.writer.offered))
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
            done.append(await ring.trial())
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
                    "losses": sum(trial.losses for trial in some),
                    "heal_s_median": statistics.median(heals),
                    "heal_s_max": max(heals),
                    "start_s_median": statistics.median(trial.start_s for trial in some),
                }
            )
    total = {
        "accepted": len(ring.writer.accepted),
        "deliveries": sum(len(reader.heard) for reader in ring.readers),
        "repeats": sum(reader.repeats for reader in ring.readers),
        "disorders": sum(reader.disorders for reader in ring.readers),
        "missing_at_the_end": len(ring.missing(ring.writer.offered)),
    }
    if given.json:
        print(json.dumps({"faults": rows, **total}, indent=2))
        return
    table = Table("fault", "trials", "losses", "heal s, median", "max", "of it start", title="faults")
    for row in rows:
        table.add_row(*(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values()))
    console = Console()
    console.print(table)
    console.print(", ".join(f"{name} {value}" for name, value in total.items()))


if __name__ == "__main__":
    main()
