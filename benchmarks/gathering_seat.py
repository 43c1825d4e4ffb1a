"""What a report costs a live broker that has the seat, beside the same reports on a plain topic.

    python benchmarks/gathering_seat.py [--json] [--reports N]

Broker processes as shipped: records on, what is acknowledged on disk. Reports come pipelined over MQTT 5, at
QoS 0 and at QoS 1; one client subscribes. On the plain topic it gets them all, as a broker without gathering
would do it; on the gathered one it gets events. With two brokers reports enter at the one without the seat
or at the one with it, as it comes: the other has copies of everything as the deputy. The unit is the
processor-second of all brokers together, from the first report until records are written.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import selectors
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.gathering import payload_list, topic
from benchmarks.mqtt_brokers import Broker, running
from benchmarks.mqtt_load import STALL_S, Client, packet, text

RECORDS_S = 11.0
"""A file of records is closed after ten seconds, at the latest, and then written."""

SETTLED_S = 2.0
"""For a search for the seat, and for two brokers to find each other."""

TOPICS = {"gathered": "bench", "plain": "plain/bench"}


def declaration(folder: Path) -> Path:
    """The topic of the benchmark, as a file."""
    mapping = topic().to_mapping()
    path = folder / "bench.toml"
    fields: Any = mapping.pop("fields")
    lines = [f"{name} = {json.dumps(value)}" for name, value in mapping.items()]
    lines += ["[fields]"]
    lines += [
        f"{name} = {{ "
        + ", ".join(f"{trait} = {json.dumps(value)}" for trait, value in traits.items())
        + " }"
        for name, traits in fields.items()
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class Frames:
    """Packets out of a stream of bytes; only how many of each kind is kept."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.counts: dict[int, int] = {}

    def feed(self, data: bytes) -> None:
        self.data += data
        at = 0
        while True:
            size = shift = 0
            end = at + 1
            while end < len(self.data):
                digit = self.data[end]
                size |= (digit & 127) << shift
                shift += 7
                end += 1
                if digit < 128:
                    break
            else:
                break
            if end + size > len(self.data):
                break
            kind = self.data[at] >> 4
            self.counts[kind] = self.counts.get(kind, 0) + 1
            at = end + size
        del self.data[:at]


PUBLISH, PUBACK, PINGRESP = 3, 4, 13


def drive(publisher: Client, subscriber: Client, name: str, bodies: list[bytes], qos: int) -> int:
    """Publish everything, as fast as it is taken; answers how many messages the subscriber got until then."""
    head = text(name)
    packets = [
        packet(0x30 | qos << 1, head + (struct.pack(">H", n % 65_535 + 1) if qos else b"") + b"\0" + body)
        for n, body in enumerate(bodies)
    ]
    window = min(publisher.receive_maximum, 1_000) if qos else len(packets)
    sent = 0
    out = memoryview(b"")
    acks, got = Frames(), Frames()
    with selectors.DefaultSelector() as waiting:
        for client, frames in ((publisher, acks), (subscriber, got)):
            client.socket.setblocking(False)
            waiting.register(client.socket, selectors.EVENT_READ, frames)
        while acks.counts.get(PINGRESP, 0) == 0:
            if not out:
                room = min(200, window - (sent - acks.counts.get(PUBACK, 0)), len(packets) - sent)
                if room > 0:
                    out = memoryview(b"".join(packets[sent : sent + room]))
                    sent += room
                elif sent == len(packets) and (not qos or acks.counts.get(PUBACK, 0) == sent):
                    out = memoryview(b"\xc0\x00")  # answered when all before it has been taken
                    sent += 1
            ready = selectors.EVENT_READ | (selectors.EVENT_WRITE if out else 0)
            waiting.modify(publisher.socket, ready, acks)
            found = waiting.select(STALL_S)
            assert found, "nothing has come for long; something was lost"
            for key, mask in found:
                if mask & selectors.EVENT_READ:
                    key.data.feed(key.fileobj.recv(1 << 18))  # type: ignore[union-attr]
                if mask & selectors.EVENT_WRITE:
                    out = out[publisher.socket.send(out) :]
    _drain(subscriber, got)
    return got.counts.get(PUBLISH, 0)


def _drain(client: Client, frames: Frames) -> None:
    """Read what still comes, while records are written."""
    end = time.monotonic() + RECORDS_S
    with selectors.DefaultSelector() as waiting:
        waiting.register(client.socket, selectors.EVENT_READ)
        while (left := end - time.monotonic()) > 0:
            if waiting.select(left):
                frames.feed(client.socket.recv(1 << 18))


def measured(brokers: list[Broker], name: str, bodies: list[bytes], qos: int) -> dict[str, Any]:
    publisher = Client({"protocol": 5, "host": "127.0.0.1", "port": brokers[-1].port}, "publisher")
    subscriber = Client({"protocol": 5, "host": "127.0.0.1", "port": brokers[0].port}, "subscriber")
    subscriber.subscribe([name])
    before = sum(broker.usage().cpu_s for broker in brokers)
    begin = time.perf_counter()
    delivered = drive(publisher, subscriber, name, bodies, qos)
    seconds = time.perf_counter() - begin - RECORDS_S
    used = sum(broker.usage().cpu_s for broker in brokers) - before
    for client in (publisher, subscriber):
        client.socket.close()
    return {
        "reports_per_cpu_s": round(len(bodies) / used),
        "reports_per_s": round(len(bodies) / seconds),
        "delivered": delivered,
    }


def rows(count: int) -> list[dict[str, Any]]:
    """Reports per processor-second, one broker and two, plain and gathered, at QoS 0 and 1."""
    found = []
    for size in (1, 2):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            options = ["--topics", str(declaration(Path(folder)))]
            brokers: list[Broker] = []
            for number in range(size):
                # Names of their own, since two brokers with one name would not link.
                more = ["--id", f"bench-{number}", *options]
                for other in brokers:
                    more += ["--neighbour", f"127.0.0.1:{other.link_port}"]
                brokers.append(stack.enter_context(running("tidings", Path(folder) / str(number), more)))
            time.sleep(SETTLED_S)
            seeds = iter(range(2, 100))  # other things each time, so that events are opened again
            measured(brokers, TOPICS["gathered"], reports(2_000, next(seeds)), 0)  # what is loaded once
            for kind, name in TOPICS.items():
                for qos in (0, 1):
                    figures = measured(brokers, name, reports(count, next(seeds)), qos)
                    found.append({"what": f"{kind}, {size} broker{'s' * (size > 1)}, QoS {qos}", **figures})
    return found


def reports(count: int, seed: int) -> list[bytes]:
    return [data for _, data in payload_list(topic(), count, whole=True, seed=seed)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    parser.add_argument("--reports", type=int, default=40_000)
    given = parser.parse_args()
    show(rows(given.reports), as_json=given.json)


def show(found: list[dict[str, Any]], *, as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    if as_json:
        for row in found:
            print(json.dumps(row))
        return
    table = Table(title="Reports of 20 fields through live brokers")
    for column in ("topic", "per broker CPU second", "per second", "messages delivered"):
        table.add_column(column, justify="left" if column == "topic" else "right")
    for row in found:
        figures = (row["reports_per_cpu_s"], row["reports_per_s"], row["delivered"])
        table.add_row(row["what"], *(f"{one:,}" for one in figures))
    Console().print(table)


if __name__ == "__main__":
    main()
