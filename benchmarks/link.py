"""How many publications a link carries, beside a bare exchange of the same batches in the same run.

    python benchmarks/link.py [--messages N] [--json] [--profile]

Two processes on loopback, one broker each:

* bare: length-prefixed MessagePack batches over asyncio, each answered with a number; no reliability.
* link: the same publications through the link layer, with numbers, acknowledgements and what is kept until
  then; `wire` and the runtime below it. Nothing is routed.
* path: a client publishes at one broker and a session of the other is handed the publication: everything,
  with QoS 0, with QoS 1 and no disks, and with QoS 1 and a disk at either broker.

"per core" is messages over the processor seconds of the busier side, which other work on the machine does not
change much; "messages/s" is over the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import logging
import os
import pstats
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from tidings.language.subscriptions import Subscription
from tidings.live.node import Node, NodeOptions, make_broker
from tidings.live.store import Store
from tidings.overlay import events as e
from tidings.overlay.core import Core
from tidings.overlay.frames import Frame, Message
from tidings.overlay.links.links import Link, Links
from tidings.overlay.publication import Batch, Head, Publication
from tidings.overlay.publishing.batches import message_of
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.timers import Timer
from tidings.wire.framing import LENGTH_BYTES, Decoder, Encoder

PAYLOAD_BYTES = 200
BATCH = 64
"""Messages that become known at once: what one read from a client's socket brings."""

UNDER_WAY = 4096
"""Messages that the bare exchange and the clients keep under way."""

ROWS = ("bare", "link", "path QoS 0", "path QoS 1", "path QoS 1 disk")

try:
    import uvloop

    run: Callable[..., Any] = uvloop.run
except ImportError:
    run = asyncio.run


def publication(n: int) -> Publication:
    payload = random.Random(n).randbytes(PAYLOAD_BYTES)
    return Publication(
        "a", 1_700_000_000_000, "a", n, f"road/{n % 50}", payload, 0, 1_700_000_000_000_000, "w"
    )


POOL: list[Message] = [
    message_of("a", (1_700_000_000_000, 3), n, 1, Batch.of(publication(n)), n - 1, 0b10, 0)
    for n in range(1, 16 * BATCH + 1)
]


def batches() -> list[tuple[Message, ...]]:
    return [tuple(POOL[at : at + BATCH]) for at in range(0, len(POOL), BATCH)]


class Meter:
    """Processor and clock between two counts of messages."""

    def __init__(self, warm: int, count: int) -> None:
        self.seen = 0
        self.done = asyncio.Event()
        self._warm = warm
        self._end = warm + count

    def add(self, count: int) -> None:
        before, self.seen = self.seen, self.seen + count
        if before < self._warm <= self.seen:
            self.start = usage()
        if before < self._end <= self.seen:
            self.cpu_s, self.wall_s = (end - start for start, end in zip(self.start, usage(), strict=True))
            self.done.set()

    @property
    def left(self) -> int:
        return self._end - self.seen


def usage() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, time.monotonic()


# The bare exchange.


class Bare(asyncio.Protocol):
    """One side: sends batches while fewer than so many messages are unanswered, answers with what it has."""

    def __init__(self, meter: Meter, sends: bool) -> None:
        self.meter = meter
        self.sends = sends
        self.decoder = Decoder()
        self.received = 0
        self.sent = 0
        self.batches = batches()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.encoder = msgspec.msgpack.Encoder()
        self.fill()

    def fill(self) -> None:
        if not self.sends:
            return
        out = bytearray()
        while self.sent - self.received < UNDER_WAY and self.sent < self.meter.left + self.received:
            start = len(out)
            batch = self.batches[self.sent // BATCH % len(self.batches)]
            self.encoder.encode_into(Frame(self.sent + 1, 0, batch), out, start + LENGTH_BYTES)
            out[start : start + LENGTH_BYTES] = (len(out) - start - LENGTH_BYTES).to_bytes(
                LENGTH_BYTES, "big"
            )
            self.sent += BATCH
        if out:
            self.transport.write(out)

    def data_received(self, data: bytes) -> None:
        frames = self.decoder.feed(data)
        if self.sends:
            for frame in frames:
                self.meter.add(frame.ack - self.received)
                self.received = frame.ack
            self.fill()
        else:
            for frame in frames:
                self.received += len(frame.messages)
                self.meter.add(len(frame.messages))
            if frames:
                encoder = Encoder()
                encoder.add(Frame(0, self.received))
                self.transport.write(encoder.take())

    def connection_lost(self, error: Exception | None) -> None: ...


async def bare(role: str, address: str, meter: Meter, told: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    if role == "receive":
        server = await loop.create_server(lambda: Bare(meter, sends=False), "127.0.0.1", 0)
        told("{}:{}".format(*server.sockets[0].getsockname()))
    else:
        host, _, port = address.rpartition(":")
        await loop.create_connection(lambda: Bare(meter, sends=True), host, int(port))
    await meter.done.wait()


# The link alone.


class LinkOnly:
    """A broker that has links and nothing above them."""

    indexed = False
    catalogue = None

    def __init__(self, options: NodeOptions, store: Store, meter: Meter, sends: bool) -> None:
        self.core = Core(
            options.id, store.identity.boot, store.identity.incarnation, options.settings, random.Random(0)
        )
        self.links = Links(self.core, self.on_up, lambda _: None, self.on_message)
        self.meter = meter
        self.sends = sends
        self.sent = 0
        self.pool = [(message, message.size) for message in POOL if isinstance(message, Publish)]
        self.link: Link | None = None

    @property
    def broker(self) -> LinkOnly:
        return self

    def is_connected(self, _client: str) -> bool:
        return False

    def owns(self, _session: str) -> bool:
        return False

    def on_up(self, link: Link, _new: bool) -> None:
        self.link = link

    def on_message(self, _link: Link, _message: Message) -> None:
        self.meter.add(1)

    def start(self, now: float) -> list[e.Effect]:
        self.core.now = now
        self.core.timers.set(Timer.TICK, None, now + 1)
        return [e.SetTimer(now + 1)]

    def has_heard_of(self, name: str) -> bool:
        return name == self.core.id

    def status(self, now: float, *, filters: bool = False) -> None: ...

    def kept(self) -> dict[tuple[str, str], float]:
        return {}

    def handle_all(self, events: Sequence[e.Event], now: float) -> list[e.Effect]:
        core = self.core
        core.now = max(now, core.now)
        for event in events:
            self.handle(event)
        if self.sends and self.link is not None:
            self.fill(self.link)
        self.links.flush()
        out, core.out = core.out, []
        return out

    def handle(self, event: e.Event) -> None:
        core, links = self.core, self.links
        match event:
            case e.FrameReceived():
                links.on_frame(event.connection, event.frame)
            case e.ConnectionMade():
                links.on_connection(event)
            case e.NeighbourAdded():
                links.add_address(event.address)
            case e.TimerFired():
                links.tick()
                core.out.append(e.SetTimer(core.now + 1))
            case e.StopAsked():
                core.out.append(e.Stop())
            case e.ConnectionLost() if self.sends:
                # The receiver has all and has left, perhaps without a last word.
                self.meter.add(max(0, self.meter.left))

    def fill(self, link: Link) -> None:
        """As many as there is room for: what is under way is bounded by the link itself."""
        arrived = self.sent - link.queued
        self.meter.add(arrived - self.meter.seen)
        pool = self.pool
        while link.queued < 2 * UNDER_WAY and self.sent - self.meter.seen < self.meter.left:
            at = self.sent % len(pool)
            for message, size in pool[at : at + BATCH]:
                self.links.send_data(link, message, size)
            self.sent += BATCH


async def link(role: str, address: str, meter: Meter, told: Callable[[str], None]) -> None:
    sends = role == "send"
    node = Node(
        NodeOptions("a" if sends else "b", neighbours=(address,) if sends else ()),
        front=lambda options, store: LinkOnly(options, store, meter, sends),
    )
    await node.start()
    told(node.address)
    await meter.done.wait()


# The whole path.


class Counting:
    """A front without clients, behind which deliveries are counted, and accepted publications."""

    def __init__(self, options: NodeOptions, store: Store, meter: Meter) -> None:
        self.broker = make_broker(options, store)
        self.meter = meter
        self.start = self.broker.start
        self.status = self.broker.status
        self.paused = False

    def is_connected(self, _client: str) -> bool:
        return False

    def owns(self, _session: str) -> bool:
        return False

    def handle_all(self, events: Sequence[e.Event], now: float) -> list[e.Effect]:
        passed: list[e.Effect] = []
        count = 0
        for effect in self.broker.handle_all(events, now):
            kind = type(effect)
            if isinstance(effect, e.Deliver):
                count += len(effect.batch)
            elif kind is e.Pause or kind is e.Resume:
                self.paused = kind is e.Pause
            elif kind is not e.Grant and kind is not e.Accept:
                passed.append(effect)
        if count:
            self.meter.add(count)
        return passed


async def path(
    role: str, address: str, meter: Meter, told: Callable[[str], None], qos: int, folder: Path | None
) -> None:
    sends = role == "send"
    options = NodeOptions("a" if sends else "b", neighbours=(address,) if sends else (), folder=folder)
    node = Node(
        options, front=lambda options, store: Counting(options, store, Meter(0, 0) if sends else meter)
    )
    await node.start()
    assert isinstance(node.front, Counting)
    if not sends:
        node.tell(e.SessionOpened("r"))
        node.tell(e.SubscriptionAsked("r", "s", Subscription("road/#", qos=qos)))
        told(node.address)
        await meter.done.wait()
        return
    node.tell(e.SessionOpened("w"))
    while not behind(node):
        await asyncio.sleep(0.01)
    payloads = [random.Random(n).randbytes(PAYLOAD_BYTES) for n in range(50)]
    heads = tuple([Head(f"road/{n}", qos, "w") for n in range(50)])
    which = [n % 50 for n in range(BATCH)]
    starts = [n * PAYLOAD_BYTES for n in which]
    ends = [start + PAYLOAD_BYTES for start in starts]
    batch = Batch("", 0, "", (), heads, which, (), b"".join(payloads), starts, ends)
    sent = 0
    while meter.left > 0:
        # A client's socket is read once in a turn of the loop, and not at all while the broker pauses.
        if not node.front.paused:
            node.tell(e.PublicationsOffered("w", range(sent, sent + BATCH), batch))
            sent += BATCH
            meter.add(BATCH)
        await asyncio.sleep(0)
    while not node.counters.connections_lost:
        await asyncio.sleep(0.01)  # the last ones are on their way; the other side goes when it has them


def behind(node: Node) -> bool:
    """Whether the other broker's subscription is known here."""
    return any(home.filters for home in node.broker.status(node.now()).sets[1:])


# Running them.


def side(role: str, row: str, address: str, warm: int, count: int, profile: str) -> dict[str, float]:
    """One process's part of a row."""
    meter: list[Meter] = []

    def told(where: str) -> None:
        if role == "receive":
            print(where, flush=True)

    async def story() -> None:
        meter.append(Meter(warm, count))
        if row == "bare":
            await bare(role, address, meter[0], told)
        elif row == "link":
            await link(role, address, meter[0], told)
        else:
            with tempfile.TemporaryDirectory() as folder:
                disk = Path(folder) if row.endswith("disk") else None
                await path(role, address, meter[0], told, int(row.split()[2]), disk)

    if profile:
        profiler = cProfile.Profile(time.process_time)
        profiler.runcall(run, story())
        with Path(f"{profile}-{role}.txt").open("w", encoding="utf-8") as file:
            pstats.Stats(profiler, stream=file).sort_stats("tottime").print_stats(30)
    else:
        run(story())
    return {"cpu_s": meter[0].cpu_s, "wall_s": meter[0].wall_s}


def measure(row: str, warm: int, count: int, profile: str) -> dict[str, float | str]:
    common = [sys.executable, __file__, "--row", row, "--warm", str(warm), "--messages", str(count)]
    common += ["--profile", profile and f"{profile}-{row.replace(' ', '-')}"]
    receiver = subprocess.Popen([*common, "--role", "receive"], stdout=subprocess.PIPE, text=True)
    assert receiver.stdout is not None
    address = receiver.stdout.readline().strip()
    sender = subprocess.run(
        [*common, "--role", "send", "--address", address], stdout=subprocess.PIPE, text=True, check=True
    )
    told, _ = receiver.communicate()
    sent, received = json.loads(sender.stdout), json.loads(told)
    busier = max(sent["cpu_s"], received["cpu_s"])
    return {
        "row": row,
        "messages": count,
        "messages_per_s": count / received["wall_s"],
        "messages_per_core_s": count / busier,
        "sender_cpu_s": sent["cpu_s"],
        "receiver_cpu_s": received["cpu_s"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--warm", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile", default="", help="write profiles of both sides to files of this name")
    parser.add_argument("--row", choices=ROWS)
    parser.add_argument("--role", choices=["send", "receive"], help=argparse.SUPPRESS)
    parser.add_argument("--address", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role:
        logging.disable()  # the side that is done first is missed by the other
        found = side(given.role, given.row, given.address, given.warm, given.messages, given.profile)
        print(json.dumps(found), flush=True)
        os._exit(0)  # without a farewell: the other side has what it needs
    rows = [given.row] if given.row else list(ROWS)
    # A whole path takes ten times as long as a link, and needs no more messages to be judged.
    results = [
        measure(row, given.warm, given.messages // (10 if row.startswith("path") else 1), given.profile)
        for row in rows
    ]
    if given.json:
        print(json.dumps(results, indent=2))
        return
    table = Table(
        title=f"One hop, {PAYLOAD_BYTES}-byte payloads, {given.messages:,} messages, a tenth on paths"
    )
    for heading in ("", "messages/s", "per core", "of bare", "sender CPU s", "receiver CPU s"):
        table.add_column(heading, justify="left" if not heading else "right")
    for result in results:
        ratio = float(result["messages_per_core_s"]) / float(results[0]["messages_per_core_s"])
        table.add_row(
            str(result["row"]),
            f"{result['messages_per_s']:,.0f}",
            f"{result['messages_per_core_s']:,.0f}",
            f"{ratio:.2f}",
            f"{result['sender_cpu_s']:.2f}",
            f"{result['receiver_cpu_s']:.2f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
