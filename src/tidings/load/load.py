"""A load for a broker, any MQTT broker: publishers, subscribers, and what became of every message.

Clients here are asyncio protocols on our own codec, and what is sent or received often is not even that: a
publication is a few joined bytes, and deliveries of the expected form are read by their offsets. A library
client would be measured instead of the broker.

With a rate, every message has a time at which it should be sent, and its latency counts from then: when the
broker (or this program) stalls, what waits behind the stall waits visibly. Without one, publishers send as
fast as the broker takes it, and latencies would only tell how long the queues are.

How results are shown is not known here.
"""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidings.client import refusals
from tidings.client.urls import Address
from tidings.errors import InputError, NetworkError, PeerError
from tidings.language.filters import Filter
from tidings.load.bare import Bare, Sender
from tidings.mqtt.codec import encode, variable
from tidings.mqtt.packets import (
    Asked,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Version,
)
from tidings.mqtt.reasons import FAILURE

KINDS = 100
"""Values of the field `x`, which goes round: `x < 1` is one message in a hundred."""

REST_S = 1.0
REST_WITHIN_S = 10.0
"""A broker rests when it has used no CPU time for so long; one that never does is not waited for longer."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be done."""

    addresses: Sequence[Address]
    """Where; clients are spread over them."""

    publishers: int = 1
    subscribers: int = 1

    topics: int = 1
    """Publisher k publishes to topic k mod topics, subscriber k subscribes to that one; but see `mixed`."""

    messages: int = 10_000
    """Of each publisher."""

    rate: float = 0.0
    """Messages in a second, of all publishers together; 0 for as many as the broker takes."""

    size: int = 70
    size_max: int = 130
    """Bytes of a payload, in turn from one to the other. Brokers that forward in bulk, ours among them, do
    best when all packets are alike; people's reports are not, so equal sizes have to be asked for."""

    mixed: bool = False
    """Whether each publisher goes round all topics, and each subscriber takes all of them."""

    qos: int = 0

    where: Filter | None = None
    """Content filter of the subscribers, over `x` and `p`."""

    version: Version = Version.V5
    context: ssl.SSLContext | None = None

    connect_within_s: float = 30.0
    quiet_s: float = 5.0
    """It is over when all has come, or nothing more has for so long."""

    prefix: str = "bench"
    """Of the topics."""


@dataclass(slots=True)
class Outcome:
    """What became of it."""

    sent: int = 0
    expected: int = 0
    """Deliveries that there should be."""
    received: int = 0
    """Deliveries, without those that came again."""
    repeated: int = 0
    """Came again, or out of order."""
    seconds: float = 0.0
    """From the first message sent to the last received."""
    sending_seconds: float = 0.0
    bytes_received: int = 0
    """Of payloads."""
    latencies_ns: array[int] = field(default_factory=lambda: array("q"))
    """With a rate: of each delivery, from when its message should have been sent."""
    broker_cpu_seconds: float | None = None
    own_cpu_seconds: float = 0.0

    @property
    def lost(self) -> int:
        """Deliveries that never came."""
        return max(0, self.expected - self.received)

    def percentiles_ns(self, percents: Sequence[float]) -> dict[float, int]:
        """The latencies that so many in a hundred deliveries do not exceed."""
        ordered = sorted(self.latencies_ns)
        return {percent: ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] for percent in percents}


async def run(
    load: Load,
    broker_pids: Sequence[int] = (),
    watch: Callable[[int, int], None] = lambda _sent, _received: None,
) -> Outcome:
    """Carry a load out. `watch` is told now and then how many were sent and received."""
    check(load)
    outcome = Outcome()
    form = _Form(load)
    subscribers = [_Subscriber(load, form, outcome, number) for number in range(load.subscribers)]
    publishers = [_Publisher(load, form, number) for number in range(load.publishers)]
    try:
        for client in [*subscribers, *publishers]:
            await client.connect()
        for subscriber in subscribers:
            await subscriber.subscribe()
        outcome.expected = sum(form.expected(subscriber.number) for subscriber in subscribers)
        before = [cpu_seconds(pid) for pid in broker_pids]
        own = time.process_time()
        start = time.perf_counter_ns()
        sending = [asyncio.create_task(publisher.send(start)) for publisher in publishers]
        over = asyncio.create_task(_until_over(load, outcome, subscribers, sending))
        while not over.done():
            await asyncio.wait({over}, timeout=0.1)
            watch(sum(one.sent for one in publishers), outcome.received)
        await over
        for task in sending:
            await task
        outcome.sent = sum(one.sent for one in publishers)
        sent_at = max(one.done_at for one in publishers)
        last = max([sent_at, *(one.last_at for one in subscribers)])
        outcome.seconds = (last - start) / 1e9
        outcome.sending_seconds = (sent_at - start) / 1e9
        outcome.own_cpu_seconds = time.process_time() - own
        if before:
            outcome.broker_cpu_seconds = await at_rest(broker_pids) - sum(before)
    finally:
        for client in [*subscribers, *publishers]:
            client.leave()
    return outcome


async def at_rest(pids: Sequence[int]) -> float:
    """CPU time of processes once they rest: what a broker puts off, such as writing logs, is a cost too."""
    used, since = sum(map(cpu_seconds, pids)), time.perf_counter()
    began = since
    while time.perf_counter() - since < REST_S and time.perf_counter() - began < REST_WITHIN_S:
        await asyncio.sleep(0.05)
        now = sum(map(cpu_seconds, pids))
        if now > used:
            used, since = now, time.perf_counter()
    return used


async def _until_over(
    load: Load, outcome: Outcome, subscribers: Sequence[_Subscriber], sending: Sequence[asyncio.Task[None]]
) -> None:
    await asyncio.gather(*sending)
    seen, since = -1, time.perf_counter()
    while outcome.received < outcome.expected:
        for subscriber in subscribers:
            subscriber.check()
        if outcome.received != seen:
            seen, since = outcome.received, time.perf_counter()
        elif time.perf_counter() - since > load.quiet_s:
            return
        await asyncio.sleep(0.01)


def check(load: Load) -> None:
    """Refuse a load that cannot be carried out."""
    if any(address.websocket for address in load.addresses):
        raise InputError("a load goes over mqtt:// or mqtts://; WebSocket would measure its own framing here")
    if load.size_max < load.size:
        raise InputError(f"sizes go from {load.size} to {load.size_max}; the second must not be smaller")
    if load.size < _Form.SIZE_MIN:
        raise InputError(
            f"a payload of {load.size} bytes is too small; it needs {_Form.SIZE_MIN} to be recognised"
        )
    if load.where is not None:
        if load.version is not Version.V5:
            raise InputError("a content filter needs MQTT 5")
        others = [path for path in load.where.paths if path not in (("x",), ("p",))]
        if others:
            raise InputError(
                f"the filter tests {'.'.join(others[0])}; messages have x (0 to {KINDS - 1}, in turn) and p "
                "(the publisher's number)"
            )


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, user and system, where the machine tells it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        raise InputError(
            f"the CPU time of process {pid} cannot be read; is it running, and is this Linux?"
        ) from None
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _Form:
    """How a message looks: each part of a payload has its place, and only the end differs in length."""

    # Spaces, since JSON has no leading zeros.
    HEAD = b'{"at":%20d,"p":%6d,"n":%10d,"x":%2d,"pad":"'
    TAIL = b'"}'
    SIZE_MIN = len(HEAD % (0, 0, 0, 0)) + len(TAIL)
    AT = 6
    P = AT + 20 + 5
    N = P + 6 + 5

    SIZES = 61
    """How many sizes there are at most; a prime, so that they fall in step with nothing."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.run = f"{os.getpid() % 1_000_000:06d}{time.time_ns() % 1_000_000:06d}"
        self.topics = [f"{load.prefix}/{self.run}/{number:06d}" for number in range(load.topics)]
        self.all_topics = f"{load.prefix}/{self.run}/+"
        self.topic_size = len(self.topics[0])
        # All topics have one length, so that what follows them has its place too.
        self.no_properties = b"\x00" if load.version is Version.V5 else b""
        count = min(self.SIZES, load.size_max - load.size + 1)
        # Not in rising order: neighbours should differ by much.
        sizes = [
            load.size + (load.size_max - load.size) * (7 * at % count) // max(1, count - 1)
            for at in range(count)
        ]
        self.pads = [b"x" * (size - self.SIZE_MIN) + self.TAIL for size in sizes]
        self.lengths = [
            variable(2 + self.topic_size + (2 if load.qos else 0) + len(self.no_properties) + size)
            for size in sizes
        ]
        self.first = bytes([0x30 | load.qos << 1])
        self.heads = [len(topic).to_bytes(2, "big") + topic.encode() for topic in self.topics]

    def message(self, at_ns: int, publisher: int, number: int, packet_id: bytes) -> bytes:
        """The bytes of a publication."""
        load = self.load
        shape = number % len(self.pads)
        topic = (publisher + number if load.mixed else publisher) % load.topics
        return b"".join(
            (
                self.first,
                self.lengths[shape],
                self.heads[topic],
                packet_id,
                self.no_properties,
                self.HEAD % (at_ns, publisher, number, number % KINDS),
                self.pads[shape],
            )
        )

    def expected(self, subscriber: int) -> int:
        """Deliveries for a subscriber."""
        load = self.load
        total = 0
        for publisher in range(load.publishers):
            if not load.mixed and publisher % load.topics != subscriber % load.topics:
                continue
            if load.where is None:
                total += load.messages
                continue
            rounds, rest = divmod(load.messages, KINDS)
            for x in range(KINDS):
                if load.where.matches({"x": x, "p": publisher}):
                    total += rounds + (x < rest)
        return total


class _Subscriber(Bare):
    """Counts what comes, and acknowledges it."""

    def __init__(self, load: Load, form: _Form, outcome: Outcome, number: int) -> None:
        super().__init__(load, f"sub-{form.run}-{number}", number)
        self.load = load
        self.form = form
        self.outcome = outcome
        self.last_at = 0
        self.topic = form.all_topics if load.mixed else form.topics[number % load.topics]
        self._next = [0] * load.publishers
        self._granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timed = load.rate > 0

    async def subscribe(self) -> None:
        where = self.load.where
        properties = Properties(user=() if where is None else (("where", where.source),))
        self.write(encode(Subscribe(1, (Asked(self.topic, self.load.qos),), properties), self.load.version))
        try:
            async with asyncio.timeout(self.load.connect_within_s):
                await self._granted
        except TimeoutError:
            raise NetworkError(f"{self.address} does not confirm a subscription") from None

    def data_received(self, data: bytes) -> None:
        """Whole deliveries of the expected form by their offsets; the rest by the codec."""
        now = time.perf_counter_ns()
        decoder = self.decoder
        if decoder.held() or data[0] not in (0x30, 0x32):
            decoder.feed(data)
            self._drain(now)
            return
        form, outcome, next_ = self.form, self.outcome, self._next
        latencies, timed = outcome.latencies_ns, self._timed
        first = data[0]
        v5 = len(form.no_properties)
        id_at = 2 + form.topic_size
        payload_at = id_at + (2 if first == 0x32 else 0) + v5
        p_at, n_at = payload_at + form.P, payload_at + form.N
        topic_length = form.topic_size.to_bytes(2, "big")
        acknowledgements = []
        at, end = 0, len(data)
        received = octets = 0
        while end - at > 5 and data[at] == first:
            length = data[at + 1]
            head = at + 2
            if length > 0x7F:
                if data[head] > 0x7F:
                    break
                length = length & 0x7F | data[head] << 7
                head += 1
            behind = head + length
            if behind > end or data[head : head + 2] != topic_length or (v5 and data[head + payload_at - 1]):
                break
            publisher = int(data[head + p_at : head + p_at + 6])
            number = int(data[head + n_at : head + n_at + 10])
            if number >= next_[publisher]:
                next_[publisher] = number + 1
                received += 1
                octets += length - payload_at
            else:
                outcome.repeated += 1
            if timed:
                latencies.append(now - int(data[head + payload_at + 6 : head + payload_at + 26]))
            if first == 0x32:
                acknowledgements.append(data[head + id_at : head + id_at + 2])
            at = behind
        if received:
            self.last_at = now
            outcome.received += received
            outcome.bytes_received += octets
        if acknowledgements:
            self.write(b"\x40\x02" + b"\x40\x02".join(acknowledgements))
        if at < end:
            decoder.feed(data[at:])
            self._drain(now)

    def _drain(self, now: int) -> None:
        decoder = self.decoder
        try:
            while (packet := decoder.next()) is not None:
                if isinstance(packet, Publish):
                    self._take(packet, now)
                else:
                    self.on(packet)
        except PeerError as error:
            self._end(f"{self.address} sent what is not MQTT: {error}")

    def _take(self, packet: Publish, now: int) -> None:
        form, outcome, payload = self.form, self.outcome, packet.payload
        publisher = int(payload[form.P : form.P + 6])
        number = int(payload[form.N : form.N + 10])
        if number >= self._next[publisher]:
            self._next[publisher] = number + 1
            self.last_at = now
            outcome.received += 1
            outcome.bytes_received += len(payload)
        else:
            outcome.repeated += 1
        if self._timed:
            outcome.latencies_ns.append(now - int(payload[form.AT : form.AT + 20]))
        if packet.qos == 1:
            self.write(encode(Puback(packet.packet_id), self.load.version))
        elif packet.qos == 2:
            self.write(encode(Pubrec(packet.packet_id), self.load.version))

    def on(self, packet: object) -> None:
        if isinstance(packet, Suback):
            if packet.reasons[0] >= FAILURE:
                where = self.load.where
                self._granted.set_exception(
                    refusals.subscription(
                        self.topic,
                        [] if where is None else [where.source],
                        packet.reasons[0],
                        packet.properties.reason_string,
                    )
                )
            else:
                self._granted.set_result(None)
        elif isinstance(packet, Pubrel):
            self.write(encode(Pubcomp(packet.packet_id), self.load.version))
        else:
            super().on(packet)

    def _end(self, reason: str) -> None:
        super()._end(reason)
        if not self._granted.done():
            self._granted.set_exception(NetworkError(reason))
            self._granted.exception()


class _Publisher(Sender):
    """Sends its messages, each at its time or as fast as they go."""

    def __init__(self, load: Load, form: _Form, number: int) -> None:
        super().__init__(load, f"pub-{form.run}-{number}", number, load.messages, load.qos, load.rate > 0)
        self.load = load
        self.form = form

    def due_ns(self, number: int) -> int:
        # Publishers take turns within one period.
        each_ns = int(self.load.publishers * 1e9 / self.load.rate)
        return each_ns * self.number // self.load.publishers + number * each_ns

    def message(self, number: int, at_ns: int, packet_id: bytes) -> bytes:
        return self.form.message(at_ns, self.number, number, packet_id)
