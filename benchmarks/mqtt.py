"""What a message costs a broker, beside mosquitto in the same run.

    python benchmarks/mqtt.py [--only JOB] [--quick] [--protocol 4|5] [--rounds N] [--json FILE]

The unit is the broker's processor-second: its user and system time and that of its children, from the
beginning of the measured part until what it puts off is done too, as writing records is. What the load costs
does not count, and what else runs on the machine matters little, but for latency. Brokers take turns, in each
of several rounds; a figure is the median. Everything stays on this machine.

* one to one, one to ten: QoS 0, pipelined, 2,000 messages under way; all on one topic and of one size, which
  suits a broker that looks at neighbours together, and mixed: on 50 topics in turn, of 70 to 130 bytes, as
  from a gateway of many devices.
* one at a time: the next message is sent when the one before was delivered.
* QoS 1: one to one, as many under way as the broker lets us, each acknowledged both ways.
* content: 50 connections with 20 filters each, every filter a range on each of six attributes that 1% of all
  events fall into. A broker without content filters sends everything to everyone; what its clients would then
  spend on filtering is not counted. All on one topic, and mixed: on 50 topics in turn.
* latency: 2,000 messages a second at times fixed before, from the time that a message was due.
* idle: what an idle connection takes, plain and with TLS, and a subscription; how long it takes until all TLS
  connections are served again that are cut at once.

Mosquitto is skipped with a message where it is not installed (Debian: apt install mosquitto).
`mqtt_brokers.py` says how the brokers are set up, `mqtt_load.py` how they are loaded.
"""

from __future__ import annotations

import argparse
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
    rounds_noisy: int
    """Of the jobs in `NOISY`."""

    latency_s: float
    """Longer than the ten seconds after which Tidings closes a file of records."""

    idle: int
    subscriptions: int


FULL = Sizes(seconds=4.0, rounds=3, rounds_noisy=9, latency_s=12.0, idle=10_000, subscriptions=100_000)
QUICK = Sizes(seconds=1.0, rounds=1, rounds_noisy=1, latency_s=3.0, idle=500, subscriptions=5_000)


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
            "seed": 7,
            **more,
        }


def _measure(load: str, setting: Setting, broker: Broker, folder: Path, **more: object) -> dict[str, float]:
    """Do a job, and give its figures with what it cost the broker."""
    with Load(load, setting.spec(broker, **more)) as it:
        ready = it.answer()
        # A row for the publication, and one for its deliveries if there are any.
        rows_each = 1 + ready.get("taken", 1.0)
        records = folder / "data" / "records"
        if broker.content:
            # What was put off while it was warming up is no part of what is measured.
            _await_records(records, ready["warm"] * rows_each)
        before = broker.usage()
        it.go()
        figures = it.answer()
        figures["load_cpu"] -= ready["load_cpu"]
        if broker.content:
            rows = (ready["warm"] + figures["messages"]) * rows_each
            figures["recorded"] = _await_records(records, rows)
        used = broker.usage().cpu_s - before.cpu_s
        figures["broker_cpu"] = used
    seconds = figures["seconds"]
    return {
        **figures,
        "delivered_per_cpu_s": figures["delivered"] / used if used else 0.0,
        "messages_per_cpu_s": figures["messages"] / used if used else 0.0,
        "delivered_per_s": figures["delivered"] / seconds,
        "broker_busy": used / seconds,
        "load_busy": figures["load_cpu"] / seconds,
    }


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


def one_at_a_time(setting: Setting, broker: Broker, folder: Path) -> dict[str, float]:
    return _measure("lockstep", setting, broker, folder)


def qos1(setting: Setting, broker: Broker, folder: Path) -> dict[str, float]:
    return _measure("acknowledged", setting, broker, folder)


def content(setting: Setting, broker: Broker, folder: Path, topics: int = 1) -> dict[str, float]:
    # Filters are properties of MQTT 5. A broker loads its compiled matching once, when it is first needed.
    more = {"subscribers": 50, "filters": 20, "content": broker.content, "protocol": 5, "warm_s": 3.0}
    return _measure("flow", setting, broker, folder, topics=topics, **more)


def mixed_content(setting: Setting, broker: Broker, folder: Path) -> dict[str, float]:
    return content(setting, broker, folder, topics=50)


def latency(setting: Setting, broker: Broker, folder: Path) -> dict[str, float]:
    return _measure("latency", setting, broker, folder, rate=2_000, seconds=setting.sizes.latency_s)


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
    "one-at-a-time": one_at_a_time,
    "qos1": qos1,
    "content": content,
    "mixed-content": mixed_content,
    "latency": latency,
    "idle-plain": idle_plain,
    "idle-tls": idle_tls,
    "subscriptions": subscriptions,
}

ONCE = ("idle-plain", "idle-tls", "subscriptions")
"""Jobs that are not repeated: memory does not vary as speed does, and many handshakes take their time."""

NOISY = ("one-at-a-time", "latency")
"""Jobs in which brokers mostly sleep and wake up. What that costs differs from round to round by a third, and
a p99 by several times, for either broker: of three rounds a median says little."""


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
    Line("qos1", "QoS 1, one to one: messages per CPU-s", "delivered_per_cpu_s", target=2),
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
        row.append(f"{ours / theirs:.2f}" if ours is not None and theirs else "")
        sign = "<=" if line.at_most else ">="
        row.append(f"{sign} {line.target:g}" if line.target is not None else "")
        rows.append(row)
    filtered = found.get(("content", "tidings", "delivered_per_cpu_s"))
    for job in ("one-to-ten", "mixed-to-ten"):
        plain = found.get((job, "tidings", "delivered_per_cpu_s"))
        if plain and filtered:
            row = [f"cost of a delivery of content, in those of {job}", *("" for _ in brokers)]
            rows.append([*row, f"{plain / filtered:.2f}", "<= 2"])
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


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
    return sizes.rounds_noisy if job in NOISY else sizes.rounds


def main() -> None:
    parser = argparse.ArgumentParser(description="What a message costs a broker, beside mosquitto.")
    parser.add_argument("--only", action="append", choices=[*JOBS], help="a job; may be repeated")
    parser.add_argument("--broker", action="append", choices=["mosquitto", "tidings"], help="one of the two")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--protocol", type=int, choices=[4, 5], default=5, help="4 is MQTT 3.1.1")
    parser.add_argument("--payload", type=int, default=100, help="bytes of a message")
    parser.add_argument("--rounds", type=int, help="how often each broker has its turn")
    parser.add_argument("--seconds", type=float, help="how long one turn is")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    asked = parser.parse_args()
    # As Ctrl-C: what was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    usual = QUICK if asked.quick else FULL
    sizes = Sizes(
        asked.seconds or usual.seconds,
        asked.rounds or usual.rounds,
        asked.rounds or usual.rounds_noisy,
        usual.latency_s,
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
    if {"content", "mixed-content"} & {*(asked.only or JOBS)} and "tidings" in brokers:
        # Once on a machine, and kept: it is no part of what a message costs.
        program = "from tidings.matching import compile_kernels; compile_kernels()"
        subprocess.run([sys.executable, "-c", program], check=True)
    runs: list[Run] = []
    failed = False
    try:
        for job in asked.only or JOBS:
            for number in range(_rounds(job, sizes)):
                for name in brokers:
                    try:
                        runs.append(_turn(job, name, setting, number))
                    except RuntimeError as error:
                        failed = True
                        print(f"{job} {name} {number + 1}: {error}", flush=True)
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
        "Tidings as shipped: records on, the log written before PUBACK, fsync grouped.\n"
        "Mosquitto with its defaults but for max_queued_messages 0, max_inflight_messages 1024 and "
        "set_tcp_nodelay."
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


def _turn(job: str, name: str, setting: Setting, number: int) -> Run:
    """A fresh broker, one job, and a line about it."""
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as base:
        Path(base).chmod(0o755)
        folder = Path(base) / name
        with running(name, folder) as broker:
            run = Run(job, name, JOBS[job](setting, broker, folder))
    told = ", ".join(f"{key} {value:.4g}" for key, value in run.figures.items())
    print(f"{job} {name} {number + 1}: {told}", flush=True)
    return run


if __name__ == "__main__":
    main()
