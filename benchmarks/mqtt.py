"""What a message costs a broker, beside mosquitto in the same run.

    python benchmarks/mqtt.py [--only JOB] [--quick] [--protocol 4|5] [--rounds N] [--json FILE]

The unit is the broker's processor-second: its user and system time and that of its children, from the
beginning of the measured part until what it puts off is done too, as writing records is. What the load costs
does not count, and what else runs on the machine matters little, but for latency. Brokers take turns, in each
of several rounds; a figure is the median. Everything stays on this machine.

Where brokers mostly sleep and wake up, what that costs is up to the machine and differs from minute to
minute, by a third, and a p99 by several times. So in some jobs (`SIDE_BY_SIDE`) all that are compared run at
once and are loaded in turns of a second, in which the others are stopped: what a broker puts off, as Tidings
does with records, it does in its own time. There, how many times is the median of what it is in each round,
for a round is as hard for one as for the other, and not for those of another round.

* one to one, one to ten: QoS 0, pipelined, 2,000 messages under way; all on one topic and of one size, which
  suits a broker that looks at neighbours together, and mixed: on 50 topics in turn, of 70 to 130 bytes, as
  from a gateway of many devices.
* one at a time: the next message is sent when the one before was delivered.
* QoS 1: one to one, as many under way as the broker lets us, each acknowledged both ways. For a clean session
  nothing is written, and PUBACK does not wait for a disk. For a durable one Tidings has each message on its
  disk before PUBACK, fsync grouped; mosquitto has it in memory.
* content: 50 connections with 20 filters each, every filter a range on each of six attributes that 1% of all
  events fall into. A broker without content filters sends everything to everyone; what its clients would then
  spend on filtering is not counted. All on one topic, and mixed: on 50 topics in turn.
* a delivery of content: the job of content and that of one to ten, at two brokers side by side.
* latency: 2,000 messages a second at times fixed before, from the time that a message was due.
* idle: what an idle connection takes, plain and with TLS, and a subscription; how long it takes until all TLS
  connections are served again that are cut at once.

Mosquitto is skipped with a message where it is not installed (Debian: apt install mosquitto).
`mqtt_brokers.py` says how the brokers are set up, `mqtt_load.py` how they are loaded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.mqtt_brokers import Broker, end, running, versions

RECORDS_S = 13.0
"""Tidings closes a file of records after ten seconds, at the latest, and then writes it."""

LOAD = Path(__file__).with_name("mqtt_load.py")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is done."""

    seconds: float
    rounds: int
    close_rounds: int
    """Of jobs in `CLOSE`."""

    turns: int
    """Of a second, in a round of those that are compared side by side. More than the ten seconds after which
    Tidings closes a file of records."""

    idle: int
    subscriptions: int


FULL = Sizes(seconds=4.0, rounds=3, close_rounds=5, turns=20, idle=10_000, subscriptions=100_000)
QUICK = Sizes(seconds=1.0, rounds=1, close_rounds=1, turns=3, idle=500, subscriptions=5_000)


@dataclass(slots=True)
class Run:
    """One job, at one broker, once."""

    job: str
    broker: str
    figures: dict[str, float] = field(default_factory=dict)


class Load:
    """A process of `mqtt_load.py`, told what to do line by line."""

    def __init__(self, job: str, spec: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(LOAD), job], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._say(json.dumps(spec))

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        end(self.process)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None, "both are pipes"
            pipe.close()

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None, "it is a pipe"
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def go(self) -> None:
        """Tell it to go on."""
        self._say("go")

    def answer(self) -> dict[str, Any]:
        """What it says next."""
        assert self.process.stdout is not None, "it is a pipe"
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the load ended early, with {self.process.wait()}; what it said is above")
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass(frozen=True, slots=True)
class Setting:
    """What all jobs are told."""

    sizes: Sizes
    protocol: int
    payload: int

    def spec(self, broker: Broker, **more: object) -> dict[str, Any]:
        return {
            "host": "127.0.0.1",
            "port": broker.port,
            "protocol": self.protocol,
            "payload": self.payload,
            "warm_s": self.sizes.seconds / 4,
            "seconds": self.sizes.seconds,
            "turns": 1,
            "seed": 7,
            **more,
        }


class Measured:
    """A broker that is loaded, and what that costs it."""

    def __init__(self, load: str, setting: Setting, broker: Broker, folder: Path, **more: object) -> None:
        self._broker = broker
        self._records = folder / "data" / "records"
        self._load = Load(load, setting.spec(broker, **more))
        self._figures: dict[str, float] = {}

    def __enter__(self) -> Measured:
        return self

    def begin(self) -> None:
        """Let it warm up; what it costs counts from here on."""
        self._ready = self._load.answer()
        # A row for the publication, and one for its deliveries if there are any.
        self._rows_each = 1 + self._ready.get("taken", 1.0)
        if self._broker.content:
            # What was put off while it was warming up is no part of what is measured.
            _await_records(self._records, self._ready["warm"] * self._rows_each)
        self._before = self._broker.usage()

    def stop(self) -> None:
        """Let the broker do nothing until `go_on`."""
        self._broker.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._broker.process.send_signal(signal.SIGCONT)

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self._load.__exit__()

    def turn(self) -> None:
        """Do the job, once more if it was done."""
        self._load.go()
        self._figures = self._load.answer()

    def figures(self) -> dict[str, float]:
        """Of all turns, with what they cost the broker."""
        figures = {**self._figures, "load_cpu": self._figures["load_cpu"] - self._ready["load_cpu"]}
        if self._broker.content:
            rows = (self._ready["warm"] + figures["messages"]) * self._rows_each
            figures["recorded"] = _await_records(self._records, rows)
        used = self._broker.usage().cpu_s - self._before.cpu_s
        seconds = figures["seconds"]
        return {
            **figures,
            "broker_cpu": used,
            "delivered_per_cpu_s": figures["delivered"] / used if used else 0.0,
            "messages_per_cpu_s": figures["messages"] / used if used else 0.0,
            "delivered_per_s": figures["delivered"] / seconds,
            "broker_busy": used / seconds,
            "load_busy": figures["load_cpu"] / seconds,
        }


def _measure(load: str, setting: Setting, broker: Broker, folder: Path, **more: object) -> dict[str, float]:
    """Do a job, and give its figures with what it cost the broker."""
    with Measured(load, setting, broker, folder, **more) as it:
        it.begin()
        it.turn()
        return it.figures()


def _await_records(folder: Path, due: float) -> float:
    """Wait until all records are on disk, or no more come; gives the share of those that are due."""
    import pyarrow.parquet as pq

    seen: dict[Path, int] = {}
    deadline = time.monotonic() + RECORDS_S
    while sum(seen.values()) < due and time.monotonic() < deadline:
        time.sleep(0.25)
        for path in folder.glob("[!.]*.parquet"):
            if path not in seen:
                seen[path] = pq.read_metadata(path).num_rows
    return min(1.0, sum(seen.values()) / due)


def one_to_one(setting: Setting, broker: Broker, folder: Path) -> dict[str, float]:
    return _measure("flow", setting, broker, folder, subscribers=1)


def one_to_ten(setting: Setting, broker: Broker, folder: Path) -> dict[str, float]:
    return _measure("flow", setting, broker, folder, subscribers=10)


def mixed_to_one(setting: Setting, broker: Broker, folder: Path) -> dict[str, float]:
    return _measure("flow", setting, broker, folder, subscribers=1, topics=50, spread=30)


def mixed_to_ten(setting: Setting, broker: Broker, folder: Path) -> dict[str, float]:
    return _measure("flow", setting, broker, folder, subscribers=10, topics=50, spread=30)


def qos1_clean(setting: Setting, broker: Broker, folder: Path) -> dict[str, float]:
    return _measure("acknowledged", setting, broker, folder, durable=False)


def qos1_durable(setting: Setting, broker: Broker, folder: Path) -> dict[str, float]:
    return _measure("acknowledged", setting, broker, folder, durable=True)


CONTENT: dict[str, object] = {"subscribers": 50, "filters": 20, "protocol": 5, "warm_s": 3.0}
"""Filters are properties of MQTT 5. A broker loads its compiled matching once, when it is first needed."""


def content(setting: Setting, broker: Broker, folder: Path, topics: int = 1) -> dict[str, float]:
    return _measure("flow", setting, broker, folder, topics=topics, content=broker.content, **CONTENT)


def mixed_content(setting: Setting, broker: Broker, folder: Path) -> dict[str, float]:
    return content(setting, broker, folder, topics=50)


def idle_plain(setting: Setting, broker: Broker, _: Path) -> dict[str, float]:
    return _idle(setting, broker, broker.port, None)


def idle_tls(setting: Setting, broker: Broker, folder: Path) -> dict[str, float]:
    return _idle(setting, broker, broker.tls_port, folder / "certificate.pem")


def _idle(setting: Setting, broker: Broker, port: int, authority: Path | None) -> dict[str, float]:
    """Connections from two processes, so that they do not wait for one."""
    half = setting.sizes.idle // 2
    specs = [
        setting.spec(
            broker,
            port=port,
            count=half,
            first=at * half,
            tls=str(authority) if authority else None,
            again=authority is not None,
        )
        for at in range(2)
    ]
    with Load("idle", specs[0]) as one, Load("idle", specs[1]) as other:
        loads = (one, other)
        for load in loads:
            load.answer()
        before = broker.usage()
        came = _together(loads)
        after = broker.usage()
        figures = {
            "connections": 2.0 * half,
            "arrival_s": max(answer["seconds"] for answer in came),
            "arrival_cpu": after.cpu_s - before.cpu_s,
            "connection_bytes": (after.rss_bytes - before.rss_bytes) / (2 * half),
        }
        if authority is not None:
            before = broker.usage()
            back = _together(loads)
            figures["reconnect_s"] = max(answer["seconds"] for answer in back)
            figures["reconnect_cpu"] = broker.usage().cpu_s - before.cpu_s
            figures["reconnect_tries"] = sum(answer["tries"] for answer in back)
        _together(loads)
    return figures


def _together(loads: Sequence[Load]) -> list[dict[str, Any]]:
    for load in loads:
        load.go()
    return [load.answer() for load in loads]


def subscriptions(setting: Setting, broker: Broker, _: Path) -> dict[str, float]:
    with Load("subscriptions", setting.spec(broker, count=setting.sizes.subscriptions)) as it:
        it.answer()
        before = broker.usage()
        it.go()
        count = it.answer()["count"]
        after = broker.usage()
    return {
        "subscriptions": count,
        "subscription_bytes": (after.rss_bytes - before.rss_bytes) / count,
        "subscription_cpu_us": (after.cpu_s - before.cpu_s) / count * 1e6,
    }


JOBS: dict[str, Callable[[Setting, Broker, Path], dict[str, float]]] = {
    "one-to-one": one_to_one,
    "one-to-ten": one_to_ten,
    "mixed-to-one": mixed_to_one,
    "mixed-to-ten": mixed_to_ten,
    "qos1-clean": qos1_clean,
    "qos1-durable": qos1_durable,
    "content": content,
    "mixed-content": mixed_content,
    "idle-plain": idle_plain,
    "idle-tls": idle_tls,
    "subscriptions": subscriptions,
}

ONCE = ("idle-plain", "idle-tls", "subscriptions")
"""Jobs that are not repeated: memory does not vary as speed does, and many handshakes take their time."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of those that are compared side by side."""

    label: str
    broker: str
    load: str
    more: dict[str, object] = field(default_factory=dict)


SIDE_BY_SIDE: dict[str, tuple[Side, ...]] = {
    "one-at-a-time": tuple(Side(name, name, "lockstep") for name in ("mosquitto", "tidings")),
    "latency": tuple(Side(name, name, "latency", {"rate": 2_000}) for name in ("mosquitto", "tidings")),
    "delivery": (
        Side("plain", "tidings", "flow", {"subscribers": 10, "seconds": 0.5}),
        Side("content", "tidings", "flow", {**CONTENT, "content": True, "seconds": 0.5}),
    ),
}

CLOSE = ("delivery",)
"""Where rounds differ by about as much as what is seen is away from what is asked for."""

REST_S = {"delivery": 1.0}
"""What a broker is left behind its turn to write down what it did. In jobs where more is done than can be
written at once it would drop records, and be cheaper for that."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: a figure of a job, and what is asked of it beside mosquitto's."""

    job: str
    title: str
    figure: str
    unit: str = ""
    scale: float = 1.0
    target: float | None = None
    """How many times mosquitto's; for what is spent rather than done, at most."""

    at_most: bool = False


LINES = (
    Line("one-to-one", "QoS 0, one to one: messages per CPU-s", "delivered_per_cpu_s", target=3),
    Line("one-to-ten", "QoS 0, one to ten: deliveries per CPU-s", "delivered_per_cpu_s", target=5),
    Line("mixed-to-one", "the same, mixed, one to one", "delivered_per_cpu_s", target=3),
    Line("mixed-to-ten", "the same, mixed, one to ten", "delivered_per_cpu_s", target=5),
    Line("one-at-a-time", "one message at a time: per CPU-s", "delivered_per_cpu_s", target=1),
    Line("one-at-a-time", "the same per second of the clock", "delivered_per_s"),
    Line("qos1-clean", "QoS 1 to a clean session: messages per CPU-s", "delivered_per_cpu_s", target=2),
    Line("qos1-durable", "QoS 1 to a durable session: per CPU-s", "delivered_per_cpu_s"),
    Line("qos1-durable", "the same per second of the clock", "delivered_per_s"),
    Line("content", "content: publications per CPU-s", "messages_per_cpu_s", target=20),
    Line("content", "content: deliveries per CPU-s", "delivered_per_cpu_s"),
    Line("mixed-content", "the same, mixed: publications per CPU-s", "messages_per_cpu_s", target=20),
    Line("mixed-content", "the same, mixed: deliveries per CPU-s", "delivered_per_cpu_s"),
    Line("latency", "latency at 2,000/s: p50", "p50", "us", 1e6),
    Line("latency", "latency at 2,000/s: p99", "p99", "us", 1e6, target=1.5, at_most=True),
    Line("latency", "latency at 2,000/s: p99.9", "p99.9", "us", 1e6),
    Line("latency", "CPU at 2,000/s", "broker_busy", "%", 100),
    Line("idle-plain", "memory of an idle connection", "connection_bytes", "kB", 1e-3),
    Line("idle-tls", "memory of an idle TLS connection", "connection_bytes", "kB", 1e-3),
    Line("idle-tls", "all TLS connections cut: served again after", "reconnect_s", "s"),
    Line("idle-tls", "the same in CPU-s of the broker", "reconnect_cpu", "s"),
    Line("subscriptions", "memory of a subscription", "subscription_bytes", "B"),
    Line("subscriptions", "CPU of a SUBSCRIBE, per topic filter", "subscription_cpu_us", "us"),
)


def summary(runs: Sequence[Run], brokers: Sequence[str]) -> list[str]:
    """The table, as lines of text."""
    found: dict[tuple[str, str, str], float] = {}
    for run in runs:
        for figure in run.figures:
            found[run.job, run.broker, figure] = median(
                one.figures[figure] for one in runs if (one.job, one.broker) == (run.job, run.broker)
            )
    head = ["", *brokers, "times", "asked"]
    rows = [head]
    for line in LINES:
        values = [found.get((line.job, broker, line.figure)) for broker in brokers]
        if all(value is None for value in values):
            continue
        row = [line.title, *(_shown(line, value) for value in values)]
        ours, theirs = found.get((line.job, "tidings", line.figure)), None
        if "mosquitto" in brokers:
            theirs = found.get((line.job, "mosquitto", line.figure))
        times = None
        if line.job in SIDE_BY_SIDE:
            times = _times(runs, line.job, line.figure, "tidings", "mosquitto")
        elif ours is not None and theirs:
            times = ours / theirs
        row.append(f"{times:.2f}" if times is not None else "")
        sign = "<=" if line.at_most else ">="
        row.append(f"{sign} {line.target:g}" if line.target is not None else "")
        rows.append(row)
    plain, filtered = (
        found.get(("delivery", label, "delivered_per_cpu_s")) for label in ("plain", "content")
    )
    if plain and filtered:
        blank = [""] * (len(brokers) - 1)
        rows.append(["side by side, one to ten: deliveries per CPU-s", *blank, f"{plain:,.0f}", "", ""])
        rows.append(["and by content", *blank, f"{filtered:,.0f}", "", ""])
        times = _times(runs, "delivery", "delivered_per_cpu_s", "plain", "content")
        assert times is not None, "both have been measured"
        rows.append(["cost of a delivery by content, in plain ones", *blank, "", f"{times:.2f}", "<= 2"])
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _times(runs: Sequence[Run], job: str, figure: str, one: str, other: str) -> float | None:
    """How many times the other's a figure is, side by side: the median of all rounds."""
    pairs = zip(
        (run.figures[figure] for run in runs if (run.job, run.broker) == (job, one)),
        (run.figures[figure] for run in runs if (run.job, run.broker) == (job, other)),
        strict=False,  # where a broker has failed, or the last round was interrupted, there are fewer of it
    )
    found = [mine / theirs for mine, theirs in pairs]
    return median(found) if found else None


def _shown(line: Line, value: float | None) -> str:
    if value is None:
        return ""
    value *= line.scale
    return (
        f"{value:,.0f}{line.unit and ' ' + line.unit}" if value >= 100 else f"{value:.3g} {line.unit}".strip()
    )


def _rounds(job: str, sizes: Sizes) -> int:
    """How often each broker has its turn at a job."""
    if job in ONCE:
        return 1
    return sizes.close_rounds if job in CLOSE else sizes.rounds


def main() -> None:
    parser = argparse.ArgumentParser(description="What a message costs a broker, beside mosquitto.")
    every = [*JOBS, *SIDE_BY_SIDE]
    parser.add_argument("--only", action="append", choices=every, help="a job; may be repeated")
    parser.add_argument("--broker", action="append", choices=["mosquitto", "tidings"], help="one of the two")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--protocol", type=int, choices=[4, 5], default=5, help="4 is MQTT 3.1.1")
    parser.add_argument("--payload", type=int, default=100, help="bytes of a message")
    parser.add_argument("--rounds", type=int, help="how often each broker has its turn")
    parser.add_argument("--seconds", type=float, help="how long a job takes, but for those side by side")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    asked = parser.parse_args()
    # As Ctrl-C: what was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    usual = QUICK if asked.quick else FULL
    sizes = Sizes(
        asked.seconds or usual.seconds,
        asked.rounds or usual.rounds,
        asked.rounds or usual.close_rounds,
        usual.turns,
        usual.idle,
        usual.subscriptions,
    )
    setting = Setting(sizes, asked.protocol, asked.payload)
    found = versions()
    brokers = [name for name in ("mosquitto", "tidings") if name in (asked.broker or found)]
    if "mosquitto" not in found:
        print("mosquitto is not installed, so there is nothing to compare with (apt install mosquitto)")
        brokers = [name for name in brokers if name != "mosquitto"]
    print(", ".join(f"{name} {found[name]}" for name in brokers), f"on {os.cpu_count()} cores", flush=True)
    if {"content", "mixed-content", "delivery"} & {*(asked.only or every)} and "tidings" in brokers:
        # Once on a machine, and kept: it is no part of what a message costs.
        program = "from tidings.matching import compile_kernels; compile_kernels()"
        subprocess.run([sys.executable, "-c", program], check=True)
    runs: list[Run] = []
    failed = False
    try:
        for job in asked.only or every:
            for number in range(_rounds(job, sizes)):
                for some in [brokers] if job in SIDE_BY_SIDE else [[name] for name in brokers]:
                    try:
                        runs += _round(job, some, setting, number)
                    except RuntimeError as error:
                        failed = True
                        print(f"{job} {', '.join(some)} {number + 1}: {error}", flush=True)
    except KeyboardInterrupt:
        failed = True
        print("interrupted; this far:")
    print()
    for line in summary(runs, brokers):
        print(line)
    kept = {
        job: median(run.figures["recorded"] for run in runs if run.job == job and "recorded" in run.figures)
        for job in dict.fromkeys(run.job for run in runs if "recorded" in run.figures)
    }
    if kept:
        # Tidings drops records, and counts them, where they come faster than they can be written.
        told = ", ".join(f"{job} {share:.0%}" for job, share in kept.items())
        print(f"\nRecords of Tidings that were written within these costs: {told}.")
    print(
        f"\nMQTT {'5' if asked.protocol == 5 else '3.1.1'}, payloads of {asked.payload} bytes, loopback.\n"
        "Tidings as shipped: records on; QoS 1 for durable sessions on disk before PUBACK, fsync grouped.\n"
        "Mosquitto with its defaults (durable sessions in memory) but for max_queued_messages 0, "
        "max_inflight_messages 1024 and set_tcp_nodelay."
    )
    if asked.json is not None:
        document = {
            "brokers": {name: found[name] for name in brokers},
            "cores": os.cpu_count(),
            "machine": platform.platform(),
            "protocol": asked.protocol,
            "payload": asked.payload,
            "runs": [{"job": run.job, "broker": run.broker, **run.figures} for run in runs],
        }
        asked.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.exit(failed)


def _round(job: str, brokers: Sequence[str], setting: Setting, number: int) -> list[Run]:
    """Fresh brokers, one job, and a line about each."""
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as base, contextlib.ExitStack() as stack:
        Path(base).chmod(0o755)
        if job in SIDE_BY_SIDE:
            runs = _side_by_side(job, brokers, setting, Path(base), stack)
        else:
            (name,) = brokers
            folder = Path(base) / name
            runs = [Run(job, name, JOBS[job](setting, stack.enter_context(running(name, folder)), folder))]
    for run in runs:
        told = ", ".join(f"{key} {value:.4g}" for key, value in run.figures.items())
        print(f"{job} {run.broker} {number + 1}: {told}", flush=True)
    return runs


def _side_by_side(
    job: str, brokers: Sequence[str], setting: Setting, base: Path, stack: contextlib.ExitStack
) -> list[Run]:
    """All that are compared, in turns; who is first changes from turn to turn."""
    sides = [side for side in SIDE_BY_SIDE[job] if side.broker in brokers]
    turns = setting.sizes.turns
    measured = []
    for side in sides:
        folder = base / side.label
        broker = stack.enter_context(running(side.broker, folder))
        more = {"seconds": 1.0, **side.more, "turns": turns}
        measured.append(stack.enter_context(Measured(side.load, setting, broker, folder, **more)))
    for it in measured:
        it.begin()
        it.stop()
    for turn in range(turns):
        for it in measured[:: 1 if turn % 2 else -1]:
            it.go_on()
            it.turn()
            time.sleep(REST_S.get(job, 0.0))
            it.stop()
    runs = []
    for side, it in zip(sides, measured, strict=True):
        it.go_on()
        runs.append(Run(job, side.label, it.figures()))
    return runs


if __name__ == "__main__":
    main()
