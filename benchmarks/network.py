"""What a publication costs a network of three brokers in a row, beside bridged mosquittos in the same run.

    python benchmarks/network.py [--only JOB] [--quick] [--rounds N] [--json FILE]

The unit is the processor-second of all brokers together. Networks take turns, in each of several rounds; how
many times is the median of what it is in each round. Payloads are JSON of 200 bytes. Everything stays on this
machine. Mosquitto's bridges carry QoS 0 and 1 both ways, and keep what is under way in memory alone; Tidings
runs as shipped: records on, what is acknowledged on disk.

* two hops: the publisher at one end, the subscriber at the other, QoS 0, pipelined.
* near and far: the same, with one subscriber beside the publisher and one behind a link.
* QoS 1, two hops: each message acknowledged on both sides.
* fifty far: 50 subscribers behind a link.
* content: 50 connections at the far end, each with a filter that 2% of all messages meet. Mosquitto sends
  everything to everyone.
* pace: 400 messages a second of six clients at three brokers, each in a packet of its own, QoS 0 and 1; and
  2,000 a second with QoS 1. What a publication costs, and when it arrives.
* gathered: the same at 400 a second on a gathered topic, per report, without a peer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.mqtt_brokers import await_listener, end, free_ports, mosquitto, usage

BROKERS = 3
PAYLOAD_BYTES = 200
RECORDS_S = 12.0
"""Tidings closes a file of records after ten seconds, at the latest, and then writes it."""

KNOWN_S = 2.0
"""By then all brokers know what is asked for."""

LOAD = Path(__file__).with_name("mqtt_load.py")

GATHERED = """
name = "roads/+road"
kind = "gathered"
key = ["road", "id"]
merge_after = "1s"
redundant_for = "5s"

[fields]
id = { type = "int" }
note = { type = "string", conflict = "last" }
"""

MOSQUITTO = """
allow_anonymous true
listener {port} 127.0.0.1
max_queued_messages 0
max_inflight_messages 1024
set_tcp_nodelay true
"""

BRIDGE = """
connection to-{name}
address 127.0.0.1:{port}
topic # both 1
cleansession true
bridge_attempt_unsubscribe false
try_private true
"""


@dataclass(frozen=True, slots=True)
class Network:
    """Three brokers in a row."""

    name: str
    ports: list[int]
    processes: list[subprocess.Popen[bytes]]

    def cpu_s(self) -> float:
        return sum(usage(process.pid).cpu_s for process in self.processes)


@contextlib.contextmanager
def running(name: str, folder: Path) -> Iterator[Network]:
    """A network that runs until the end of the block."""
    ports, links = free_ports(BROKERS), free_ports(BROKERS)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for at, port in enumerate(ports):
            own = folder / f"{name}-{at}"
            own.mkdir(parents=True)
            own.chmod(0o755)
            if name == "mosquitto":
                text = MOSQUITTO.format(port=port)
                if at:
                    text += BRIDGE.format(name=at - 1, port=ports[at - 1])
                (own / "mosquitto.conf").write_text(text, encoding="utf-8")
                program = mosquitto()
                assert program is not None, "mosquitto is not on this machine"
                command = [program, "-c", str(own / "mosquitto.conf")]
            else:
                declared = own / "topics.toml"
                declared.write_text(GATHERED, encoding="utf-8")
                command = [str(Path(sys.executable).with_name("tidings")), "broker", "--id", f"b{at}"]
                command += [
                    "--http",
                    "off",
                    "--listen",
                    f"127.0.0.1:{links[at]}",
                    "--data",
                    str(own / "data"),
                ]
                command += ["--mqtt", f"127.0.0.1:{port}", "--anonymous", "--topics", str(declared)]
                if at:
                    command += ["--neighbour", f"127.0.0.1:{links[at - 1]}"]
            with (own / "log").open("wb") as log:
                processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=own))
            await_listener(processes[-1], port, own / "log")
        time.sleep(KNOWN_S)
        yield Network(name, ports, processes)
    finally:
        for process in processes:
            end(process)


def bodies(count: int = 1000) -> list[str]:
    return [
        json.dumps({"id": at % 50, "note": f"{at:06d}"}).ljust(PAYLOAD_BYTES)[:PAYLOAD_BYTES]
        for at in range(count)
    ]


def jobs(quick: bool) -> dict[str, tuple[str, dict[str, Any], bool]]:
    """By name: which load, with which settings by place of broker, and whether peers do it, too."""
    seconds = 2.0 if quick else 5.0
    flow = {"payload": PAYLOAD_BYTES, "seconds": seconds, "turns": 1, "seed": 5}
    pace = {"publishers": 6, "publisher_at": [0, 1, 2], "reader_at": [0, 2], "topic": "pace", "all": True}
    paced = {**pace, "bodies": bodies(), "seconds": 3 * seconds}
    return {
        "two-hops": ("flow", {**flow, "subscribers": 1, "reader_at": [2]}, True),
        "near-and-far": ("flow", {**flow, "subscribers": 2, "reader_at": [0, 1]}, True),
        "qos1-two-hops": ("acknowledged", {**flow, "durable": False, "reader_at": [2]}, True),
        "fifty-far": ("flow", {**flow, "subscribers": 50, "reader_at": [1]}, True),
        "content": ("flow", {**flow, "subscribers": 50, "filters": 1, "reader_at": [2]}, True),
        "pace-qos0": ("pace", {**paced, "qos": 0, "rate": 400}, True),
        "pace-qos1": ("pace", {**paced, "qos": 1, "rate": 400}, True),
        "pace-2000-qos1": ("pace", {**paced, "qos": 1, "rate": 2000}, True),
        "gathered-qos0": ("pace", {**paced, "qos": 0, "rate": 400, "topic": "roads", "all": False}, False),
        "gathered-qos1": ("pace", {**paced, "qos": 1, "rate": 400, "topic": "roads", "all": False}, False),
    }


def measure(network: Network, load: str, settings: dict[str, Any]) -> dict[str, float]:
    """One job at one network."""
    spec = {
        "protocol": 5 if network.name == "tidings" else 4,
        "content": network.name == "tidings",
        "host": "127.0.0.1",
        "port": network.ports[0],
        "warm_s": 1.0,
        "known_s": KNOWN_S,
        **settings,
        "reader_ports": [network.ports[at] for at in settings["reader_at"]],
        "publisher_ports": [network.ports[at] for at in settings.get("publisher_at", [0])],
    }
    process = subprocess.Popen(
        [sys.executable, str(LOAD), load], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(spec) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["ready"]
        before = network.cpu_s()
        process.stdin.write("go\n")
        process.stdin.flush()
        said: dict[str, float] = json.loads(process.stdout.readline())
        if network.name == "tidings":
            time.sleep(RECORDS_S)
        said["cpu_s"] = network.cpu_s() - before
        return said
    finally:
        end(process)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], help="a job; may be said several times")
    parser.add_argument("--quick", action="store_true", help="shorter, and one round")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    known = jobs(asked.quick)
    if unknown := [name for name in asked.only if name not in known]:
        parser.error(f"unknown job {unknown[0]!r}; there are {', '.join(known)}")
    rounds = asked.rounds or (1 if asked.quick else 3)
    peers = ["mosquitto"] if mosquitto() is not None else []
    print(f"{', '.join([*peers, 'tidings'])} on {os.cpu_count()} cores, {rounds} rounds", flush=True)
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for name, (load, settings, has_peers) in known.items():
                if asked.only and name not in asked.only:
                    continue
                for network in [*(peers if has_peers else []), "tidings"]:
                    with running(network, Path(folder) / f"{number}-{name}") as it:
                        said = measure(it, load, settings)
                    found.setdefault(name, {}).setdefault(network, []).append(said)
                    show(name, network, said)
    for name, by_network in found.items():
        if "mosquitto" in by_network:
            pairs = zip(by_network["tidings"], by_network["mosquitto"], strict=True)
            print(f"{name}: {median(_cost(other) / _cost(one) for one, other in pairs):.2f} times mosquitto")
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


def _cost(said: dict[str, float]) -> float:
    """Processor-seconds of a publication: with content filters fewer are delivered, which is what counts."""
    return said["cpu_s"] / said["messages"]


def show(name: str, network: str, said: dict[str, float]) -> None:
    waits = ", ".join(
        f"{point} {said[point] * 1e3:.2f} ms" for point in ("p50", "p90", "p99") if point in said
    )
    print(
        f"{name:16s} {network:10s} {said['delivered'] / said['cpu_s']:12,.0f} deliveries/CPU s, "
        f"{_cost(said) * 1e3:.4f} ms a publication, "
        f"{said['messages'] / said['seconds']:10,.0f}/s {waits}",
        flush=True,
    )


if __name__ == "__main__":
    main()
