"""What becomes of acknowledged publications when a network is asked for more than it can do.

    python benchmarks/flood.py [--runs row,ring,burst,cross] [--scale 0.1] [--bytes 200] [--idle 60] [--json]

Each run starts brokers as a user would, one process each, on loopback, and loads them with `flood_client.c`,
which is built with `cc`. Subscribers read and acknowledge at once. Publications have QoS 1.

* row: three brokers in a row, one publisher with a window of 1,000 at one end, 50 subscribers at the other.
* ring: eight brokers in a ring, 50 subscribers at each, one publisher.
* burst: two brokers, 5,000 publications at once to 500 subscribers behind the link.
* cross: two brokers, two clients. Each publishes what the other one gets, as fast as it may.

Counted are deliveries, repeats, deliveries out of order, clients that a broker closed, links that were lost,
and the longest answer of `/health`. All that was acknowledged must arrive, nobody may be closed and no link
lost, and `/health` must answer within a second: the exit code is 1 if not. In the ring the time of `/health`
does not count, because eight busy brokers share the cores of one machine.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.mqtt_brokers import END_S, await_listener, end, free_ports, usage

WINDOW = 1_000
TOPIC = "flood/a"
HEALTH_EVERY_S = 0.2
HEALTH_MS_MAX = 1000.0
JOINED_S = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one run."""

    run: str
    published: int
    acked: int
    expected: int
    received: int
    repeated: int
    disordered: int
    closed: int
    links_lost: int
    acked_s: float
    seconds: float
    health_ms_max: float
    broker_cpu_s: float

    @property
    def holds(self) -> bool:
        """Whether all that was acknowledged arrived, once and in order, and nobody was closed."""
        return (
            self.received == self.expected
            and self.acked == self.published
            and not (self.repeated or self.disordered or self.closed or self.links_lost)
            and (self.health_ms_max < HEALTH_MS_MAX or self.run == "ring")
        )


class Network:
    """Brokers that run, and what is seen of them meanwhile."""

    def __init__(self, folder: Path, size: int, links: Sequence[tuple[int, int]]) -> None:
        self._folder = folder
        ports = free_ports(3 * size)
        self.mqtt, self._listen, self._http = ports[:size], ports[size : 2 * size], ports[2 * size :]
        self.processes: list[subprocess.Popen[bytes]] = []
        self.health_ms_max = 0.0
        self._stopping = threading.Event()
        for broker in range(size):
            data = folder / f"b{broker}"
            command = [str(Path(sys.executable).with_name("tidings")), "broker", "--id", f"b{broker}"]
            command += ["--listen", f"127.0.0.1:{self._listen[broker]}", "--data", str(data)]
            command += ["--http", f"127.0.0.1:{self._http[broker]}"]
            command += ["--set", f"mqtt=127.0.0.1:{self.mqtt[broker]}", "--set", "anonymous=true"]
            neighbours = [f"127.0.0.1:{self._listen[other]}" for one, other in links if one == broker]
            if neighbours:
                command += ["--set", f"neighbours={','.join(neighbours)}"]
            with (folder / f"b{broker}.log").open("wb") as log:
                self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def await_joined(self, size: int) -> None:
        """Wait until every broker knows a tree of all."""
        for broker, process in enumerate(self.processes):
            await_listener(process, self.mqtt[broker], self._folder / f"b{broker}.log")
        deadline = time.monotonic() + JOINED_S
        while time.monotonic() < deadline:
            status = [self._get(broker, "/status") for broker in range(size)]
            if all(len(_members(one)) == size for one in status):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{size} brokers have not joined within {JOINED_S:g} s")

    def _get(self, broker: int, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._http[broker], timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", path)
            return connection.getresponse().read()

    def watch(self) -> None:
        """Ask each broker in turn for its health until `stop`."""
        broker = 0
        while not self._stopping.wait(HEALTH_EVERY_S):
            began = time.monotonic()
            with contextlib.suppress(OSError):
                self._get(broker, "/health")
            self.health_ms_max = max(self.health_ms_max, (time.monotonic() - began) * 1000)
            broker = (broker + 1) % len(self.processes)

    def stop(self) -> None:
        self._stopping.set()

    def cpu_s(self) -> float:
        return sum(usage(process.pid).cpu_s for process in self.processes)

    def links_lost(self) -> int:
        """How often a broker lost a link, by its log."""
        return sum(
            line.count("connection lost") + line.count("link down")
            for broker in range(len(self.processes))
            for line in (self._folder / f"b{broker}.log").read_text(errors="replace").splitlines()
        )


def _members(status: bytes) -> Sequence[str]:
    trees = json.loads(status)["trees"]
    return trees[0]["members"] if trees else ()


@contextlib.contextmanager
def network(size: int, links: Sequence[tuple[int, int]]) -> Iterator[Network]:
    """Brokers b0, b1, …, each dialling those that `links` names, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="tidings-flood-") as folder:
        started = Network(Path(folder), size, links)
        try:
            started.await_joined(size)
            watch = threading.Thread(target=started.watch, daemon=True)
            watch.start()
            yield started
            started.stop()
            watch.join()
        finally:
            for process in started.processes:
                end(process)


class Load:
    """One process of the load client."""

    def __init__(self, program: Path, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [str(program), *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def await_ready(self) -> None:
        """Wait until it is connected and its subscriptions are granted."""
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{self.process.args!r} did not become ready")

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def outcome(self) -> dict[str, float]:
        assert self.process.stdout is not None
        told = json.loads(self.process.stdout.readline())
        self.process.wait(END_S)
        assert isinstance(told, dict)
        return told


def flood(
    name: str, started: Network, publishers: Sequence[Load], subscribers: Sequence[Load], published: int
) -> Outcome:
    """Let clients loose, and put together what they tell."""
    loads = list(dict.fromkeys([*subscribers, *publishers]))
    before = started.cpu_s()
    try:
        for load in loads:
            load.await_ready()
        for load in loads:
            load.go()
        told = {load: load.outcome() for load in loads}
    finally:
        for load in loads:
            if load.process.poll() is None:
                load.process.kill()
                load.process.wait()
    gets, puts = [told[load] for load in subscribers], [told[load] for load in publishers]
    return Outcome(
        name,
        published,
        int(sum(one["acked"] for one in puts)),
        int(sum(one["expected"] for one in gets)),
        int(sum(one["received"] for one in gets)),
        int(sum(one["repeated"] for one in gets)),
        int(sum(one["disordered"] for one in gets)),
        int(sum(told[load]["closed"] for load in loads)),
        started.links_lost(),
        max(one["acked_s"] for one in puts),
        max(one["seconds"] for one in gets),
        round(started.health_ms_max, 1),
        round(started.cpu_s() - before, 2),
    )


def row(program: Path, scale: float, size: int, idle_s: float) -> Outcome:
    count = int(90_000 * scale)
    with network(3, [(0, 1), (1, 2)]) as started:
        gets = Load(program, "sub", started.mqtt[2], TOPIC, 1, 50, count, idle_s, "sub")
        puts = Load(program, "pub", started.mqtt[0], TOPIC, 1, count, WINDOW, size, "pub")
        return flood("row", started, [puts], [gets], count)


def ring(program: Path, scale: float, size: int, idle_s: float) -> Outcome:
    count, brokers = int(10_000 * scale), 8
    with network(brokers, [(broker, (broker + 1) % brokers) for broker in range(brokers)]) as started:
        gets = [
            Load(program, "sub", port, TOPIC, 1, 50, count, idle_s, f"sub{broker}")
            for broker, port in enumerate(started.mqtt)
        ]
        puts = Load(program, "pub", started.mqtt[0], TOPIC, 1, count, WINDOW, size, "pub")
        return flood("ring", started, [puts], gets, count)


def burst(program: Path, scale: float, size: int, idle_s: float) -> Outcome:
    count = int(5_000 * scale)
    with network(2, [(0, 1)]) as started:
        gets = Load(program, "sub", started.mqtt[1], TOPIC, 1, 500, count, idle_s, "sub")
        puts = Load(program, "pub", started.mqtt[0], TOPIC, 1, count, WINDOW, size, "pub")
        return flood("burst", started, [puts], [gets], count)


def cross(program: Path, scale: float, size: int, idle_s: float) -> Outcome:
    count = int(100_000 * scale)
    with network(2, [(0, 1)]) as started:
        both = [
            Load(
                program,
                "cross",
                port,
                f"cross/{me}",
                f"cross/{1 - me}",
                1,
                count,
                WINDOW,
                size,
                idle_s,
                f"c{me}",
            )
            for me, port in enumerate(started.mqtt)
        ]
        return flood("cross", started, both, both, 2 * count)


RUNS = {"row": row, "ring": ring, "burst": burst, "cross": cross}


def build(folder: Path) -> Path:
    """The load client, compiled."""
    compiler = shutil.which("cc")
    if compiler is None:
        sys.exit("flood.py: there is no C compiler 'cc' on this machine; install one (Debian: gcc)")
    program = folder / "flood_client"
    source = Path(__file__).with_name("flood_client.c")
    subprocess.run([compiler, "-O2", "-o", str(program), str(source)], check=True)
    return program


def shown(outcomes: Sequence[Outcome]) -> Table:
    """One column for each run."""
    table = Table("")
    for one in outcomes:
        table.add_column(one.run, justify="right")
    rows: tuple[tuple[str, Callable[[Outcome], str]], ...] = (
        ("acknowledged", lambda one: f"{one.acked:,} of {one.published:,}"),
        ("delivered", lambda one: f"{one.received:,} of {one.expected:,}"),
        ("repeats", lambda one: f"{one.repeated:,}"),
        ("out of order", lambda one: f"{one.disordered:,}"),
        ("clients closed", lambda one: f"{one.closed:,}"),
        ("links lost", lambda one: f"{one.links_lost:,}"),
        ("last acknowledgement, s", lambda one: f"{one.acked_s:,.1f}"),
        ("last delivery, s", lambda one: f"{one.seconds:,.1f}"),
        ("longest /health, ms", lambda one: f"{one.health_ms_max:,.0f}"),
        ("CPU of brokers, s", lambda one: f"{one.broker_cpu_s:,.1f}"),
        ("holds", lambda one: "yes" if one.holds else "NO"),
    )
    for label, text in rows:
        table.add_row(label, *[text(one) for one in outcomes])
    return table


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", default=",".join(RUNS), help="which, with commas between")
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the publications")
    parser.add_argument("--bytes", type=int, default=200, help="of a payload")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds without a delivery that end a run")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    names = given.runs.split(",")
    if unknown := [name for name in names if name not in RUNS]:
        parser.error(f"there is no run {unknown[0]!r}; there are {', '.join(RUNS)}")
    console = Console(stderr=True)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="tidings-flood-") as folder:
        program = build(Path(folder))
        for name in names:
            console.print(f"{name} …")
            outcomes.append(RUNS[name](program, given.scale, given.bytes, given.idle))
    if given.json:
        print(json.dumps([asdict(one) | {"holds": one.holds} for one in outcomes], indent=2))
    else:
        Console().print(shown(outcomes))
    return 0 if all(one.holds for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
