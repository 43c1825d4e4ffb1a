"""Load on an MQTT broker: raw sockets, buffers that were made before, readers that count bytes.

    python benchmarks/mqtt_load.py JOB   # a JSON object on the first line of its input says the rest

Started by `mqtt.py` as a process of its own, so that what it costs is nobody else's. It connects, says
`ready`, waits for a line, does the job, and says what came of it, as JSON lines. What is sent is known
before, so that a number of bytes is a number of messages; what came first and last is compared byte by byte.
It knows just enough of MQTT 3.1.1 and 5 for this, and nothing of Tidings.
"""

from __future__ import annotations

import contextlib
import json
import resource
import select
import socket
import ssl
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

STALL_S = 30.0
"""Without a byte for that long, something was lost, and the job ends."""

SLICE_BYTES = 128 * 1024
"""Sent or read at once, at most."""

WINDOW = 2_000
"""Messages under way in pipelined jobs: so few that no broker drops any, so many that none waits for us."""

BLOCK = 2_000
"""Different messages, sent again and again."""

ATTRIBUTES = "abcdef"
LOWEST, HIGHEST = 100, 999
"""Of each attribute: three digits, so that all payloads have one length."""


class Stalled(Exception):
    """The broker sends no more, and not all has come."""


# Packets.


def packet(kind: int, body: bytes) -> bytes:
    length, size = b"", len(body)
    while True:
        size, digit = divmod(size, 128)
        length += bytes([digit | 128 if size else digit])
        if not size:
            return bytes([kind]) + length + body


def text(value: str) -> bytes:
    return struct.pack(">H", len(value.encode())) + value.encode()


def connect_packet(version: int, client: str, *, durable: bool = False) -> bytes:
    """Without keep-alive; the client takes as many messages at a time as there can be.

    The session is clean, or durable: with an expiry interval of an hour, in 3.1.1 not clean.
    """
    expiry = b"\x11" + struct.pack(">I", 3600) if durable else b""
    properties = packet(0, expiry)[1:] if version == 5 else b""
    flags = 0 if durable and version != 5 else 2
    return packet(0x10, text("MQTT") + bytes([version, flags]) + b"\x00\x00" + properties + text(client))


def subscribe_packet(
    version: int, topic_filters: Sequence[str], qos: int = 0, where: Sequence[str] = ()
) -> bytes:
    properties = b""
    if version == 5:
        asked = b"".join(b"\x26" + text("where") + text(one) for one in where)
        properties = packet(0, asked)[1:]
    filters = b"".join(text(one) + bytes([qos]) for one in topic_filters)
    return packet(0x82, b"\x00\x01" + properties + filters)


def publish_packet(version: int, topic: str, payload: bytes, qos: int = 0) -> bytes:
    middle = (b"\x00\x01" if qos else b"") + (b"\x00" if version == 5 else b"")
    return packet(0x30 | qos << 1, text(topic) + middle + payload)


# Connections.


class Client:
    """A connection, blocking until its job begins."""

    def __init__(
        self, spec: dict[str, Any], name: str, *, port: int | None = None, durable: bool = False
    ) -> None:
        """At the spec's port, if no other is named."""
        self.version: int = spec["protocol"]
        self.socket = socket.create_connection((spec["host"], port or spec["port"]), timeout=STALL_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(connect_packet(self.version, name, durable=durable))
        kind, body = self.read()
        assert kind == 0x20, f"{kind:#x} is not CONNACK"
        assert body[1] == 0, f"the broker refuses the connection with {body[1]:#x}"
        self.receive_maximum = _receive_maximum(body) if self.version == 5 else 65_535

    def read(self) -> tuple[int, bytes]:
        """The next packet: its first byte, and what comes behind its length."""
        kind = self._exactly(1)[0]
        size = shift = 0
        while True:
            digit = self._exactly(1)[0]
            size |= (digit & 127) << shift
            shift += 7
            if digit < 128:
                return kind, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data

    def subscribe(self, topic_filters: Sequence[str], qos: int = 0, where: Sequence[str] = ()) -> None:
        self.socket.sendall(subscribe_packet(self.version, topic_filters, qos, where))
        kind, body = self.read()
        assert kind == 0x90, f"{kind:#x} is not SUBACK"
        codes = body[-len(topic_filters) :]
        assert all(code <= 2 for code in codes), f"a subscription was refused: {body!r}"

    def ping(self) -> None:
        """Returns when the broker has done all that it was asked before."""
        self.socket.sendall(b"\xc0\x00")
        assert self.read() == (0xD0, b""), "not PINGRESP"


def _reader_port(spec: dict[str, Any], at: int) -> int | None:
    """Where a reader connects, if that is not where the publisher does: at several brokers in turn."""
    ports: list[int] = spec.get("reader_ports") or []
    return ports[at % len(ports)] if ports else None


def _receive_maximum(connack: bytes) -> int:
    """Of a broker that allows less than the standard's default: the first property 0x21 that makes sense."""
    sizes = {0x11: 4, 0x13: 2, 0x21: 2, 0x22: 2, 0x24: 1, 0x25: 1, 0x27: 4, 0x28: 1, 0x29: 1, 0x2A: 1}
    at, end = 3, 3 + connack[2]
    while at < end:
        kind = connack[at]
        if kind == 0x21:
            return int.from_bytes(connack[at + 1 : at + 3], "big")
        if kind in sizes:
            at += 1 + sizes[kind]
        else:
            at += 3 + int.from_bytes(connack[at + 1 : at + 3], "big")
            if kind == 0x26:
                at += 2 + int.from_bytes(connack[at : at + 2], "big")
    return 65_535


# What is sent.


def payloads(size: int, spread: int = 0) -> list[bytes]:
    """Numbered texts, of one size or of sizes around it."""
    sizes = np.random.default_rng(3).integers(size - spread, size + spread + 1, BLOCK).tolist()
    return [f"{number:08d}".encode().ljust(one, b".") for number, one in enumerate(sizes)]


def events(size: int, seed: int) -> tuple[list[bytes], np.ndarray[Any, Any]]:
    """JSON objects with six attributes, each even over its range, and their values."""
    values = np.random.default_rng(seed).integers(LOWEST, HIGHEST + 1, (BLOCK, len(ATTRIBUTES)))
    objects = []
    for row in values.tolist():
        fields = ",".join(f'"{name}":{value}' for name, value in zip(ATTRIBUTES, row, strict=True))
        objects.append((f'{{{fields},"pad":"' + "." * max(0, size - len(fields) - 11) + '"}').encode())
    return objects, values


def conditions(
    connections: int, each: int, seed: int
) -> tuple[list[list[str]], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """For each connection its filters, each a range on every attribute that 1% of all events fall into.

    Also the least and the greatest values as arrays, by connection, filter and attribute.
    """
    rng = np.random.default_rng(seed)
    span = HIGHEST - LOWEST + 1
    width = round(span * 0.01 ** (1 / len(ATTRIBUTES)))
    least = rng.integers(LOWEST, HIGHEST - width + 2, (connections, each, len(ATTRIBUTES)))
    greatest = least + width - 1
    texts = [
        [
            " AND ".join(
                f"{name} BETWEEN {low} AND {high}"
                for name, low, high in zip(ATTRIBUTES, least[one, at], greatest[one, at], strict=True)
            )
            for at in range(each)
        ]
        for one in range(connections)
    ]
    return texts, least, greatest


def wanted(
    values: np.ndarray[Any, Any], least: np.ndarray[Any, Any], greatest: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """For each event and connection, whether one of its filters takes it."""
    each = values[:, None, None, :]
    inside = np.all((each >= least) & (each <= greatest), axis=3)
    return np.asarray(np.any(inside, axis=2))


# Jobs. Each is a generator: what it yields is said, and it goes on when it is told to. With `turns`, the job
# is done so many times, and what is said is about all of them.


def flow(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One publisher, some subscribers, QoS 0, pipelined; with `filters`, each takes what its own let through.

    A broker without content filters (`filters` without `content`) sends everything to everyone. With
    `topics`, neighbouring messages are on different ones, and with `spread`, of different sizes.
    """
    version, fan = spec["protocol"], spec["subscribers"]
    topics = [f"bench/flow/{number:02d}" for number in range(spec.get("topics", 1))]
    publisher = Client(spec, "bench-p")
    readers = [Client(spec, f"bench-{at}", port=_reader_port(spec, at)) for at in range(fan)]
    takes = np.ones((BLOCK, fan), bool)
    if spec.get("filters"):
        bodies, values = events(spec["payload"], spec["seed"])
        texts, least, greatest = conditions(fan, spec["filters"], spec["seed"] + 1)
        for at, reader in enumerate(readers):
            reader.subscribe(["bench/flow/+"], where=texts[at] if spec["content"] else ())
        if spec["content"]:
            takes = wanted(values, least, greatest)
    else:
        bodies = payloads(spec["payload"], spec.get("spread", 0))
        for reader in readers:
            reader.subscribe(["bench/flow/+"])
    time.sleep(spec.get("known_s", 0.0))
    packets = [
        publish_packet(version, topics[number % len(topics)], body) for number, body in enumerate(bodies)
    ]
    stream = _Stream(publisher, readers, packets, takes)
    warm = stream.run(spec["warm_s"])
    yield {"ready": True, "warm": warm, "taken": float(takes.any(axis=1).mean())}
    sent, seconds = 0, 0.0
    for _ in range(spec["turns"]):
        start = time.perf_counter()
        sent += stream.run(spec["seconds"])
        seconds += time.perf_counter() - start
        stream.verify()
        yield {"messages": sent, "delivered": stream.delivered(sent), "seconds": seconds}


class _Stream:
    """A block of packets sent over and over, and what each subscriber must get of it."""

    def __init__(
        self,
        publisher: Client,
        readers: Sequence[Client],
        packets: Sequence[bytes],
        takes: np.ndarray[Any, Any],
    ) -> None:
        self.packets = packets
        self.takes = takes
        self.all = bool(takes.all())
        assert self.all or len({len(one) for one in packets}) == 1, (
            "what came could not be told from its size"
        )
        self.block = b"".join(packets)
        self.window = WINDOW * len(self.block) // len(packets)
        """In bytes."""
        self.doubled = memoryview(self.block + self.block)
        self.publisher = publisher.socket
        self.sockets = {reader.socket.fileno(): reader.socket for reader in readers}
        self.places = {reader.socket.fileno(): at for at, reader in enumerate(readers)}
        for one in (self.publisher, *self.sockets.values()):
            one.setblocking(False)
        self.sent = 0
        self.got = [0] * len(readers)
        self.first = [b""] * len(readers)
        self.last = [b""] * len(readers)
        per_message = takes.sum(axis=1)
        self.in_block = int(per_message.sum())
        """Deliveries that a block makes."""
        self.upto = np.concatenate([[0], np.cumsum(per_message)])
        self.poll = select.epoll()
        for number in self.sockets:
            self.poll.register(number, select.EPOLLIN)
        self.poll.register(self.publisher.fileno(), 0)

    def delivered(self, messages: int) -> int:
        """What so many messages make, counted from any place: over whole blocks exactly, else on average."""
        return round(messages * self.in_block / len(self.packets))

    def run(self, seconds: float) -> int:
        """Send for that long, and read until all has come; gives the number of messages."""
        before = self.sent
        deadline = time.perf_counter() + seconds
        stall = time.perf_counter() + STALL_S
        target = None
        writing = False
        while True:
            now = time.perf_counter()
            if target is None and now > deadline:
                # Whole blocks, so that what was delivered is known.
                target = -(-self.sent // len(self.block)) * len(self.block)
            done = self._done()
            if target is not None and self.sent == target and done >= target:
                return (target - before) // len(self.block) * len(self.packets)
            allowed = done + self.window
            if target is not None:
                allowed = min(allowed, target)
            full = self._send(allowed) if allowed > self.sent else False
            if full is not writing:
                writing = full
                self.poll.modify(self.publisher.fileno(), select.EPOLLOUT if full else 0)
            for number, _ in self.poll.poll(0.5):
                if number in self.sockets:
                    self._read(number)
                    stall = now + STALL_S
            if now > stall:
                raise Stalled(f"of {self.sent} bytes only {done} have come everywhere")

    def _send(self, allowed: int) -> bool:
        """Send what may be sent; whether the socket is full."""
        while self.sent < allowed:
            at = self.sent % len(self.block)
            size = min(allowed - self.sent, SLICE_BYTES, len(self.block))
            try:
                self.sent += self.publisher.send(self.doubled[at : at + size])
            except BlockingIOError:
                return True
        return False

    def _read(self, number: int) -> None:
        data = self.sockets[number].recv(SLICE_BYTES)
        assert data, "the broker closed the connection of a subscriber"
        at = self.places[number]
        if len(self.first[at]) < 64 * 1024:
            self.first[at] += data
        self.last[at] = data if len(data) >= 4096 else (self.last[at] + data)[-4096:]
        self.got[at] += len(data)

    def _done(self) -> int:
        """Up to which byte of what was sent all has come; exactly where all take all, else by the number."""
        if self.all:
            return min(self.got)
        size = len(self.packets[0])
        blocks, rest = divmod(sum(self.got) // size, self.in_block)
        messages = blocks * len(self.packets) + int(np.searchsorted(self.upto, rest, side="right")) - 1
        return messages * size

    def verify(self) -> None:
        """Whether everybody got what it takes: so many, and what came first and last byte by byte."""
        blocks = self.sent // len(self.block)
        for at, got in enumerate(self.got):
            own = [one for one, takes in zip(self.packets, self.takes[:, at], strict=True) if takes]
            whole = b"".join(own)
            assert got == blocks * len(whole), (
                f"{got} bytes came to subscriber {at}, not {blocks * len(whole)}"
            )
            first = self.first[at]
            again = whole * (len(first) // max(1, len(whole)) + 1)
            assert again.startswith(first), f"subscriber {at} got something else than was sent"
            assert (whole * 2).endswith(self.last[at][-2048:]), (
                f"subscriber {at} got something else at the end"
            )


def lockstep(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One message at a time: the next is sent when the one before was delivered."""
    publisher, reader = Client(spec, "bench-p"), Client(spec, "bench-s")
    reader.subscribe(["bench/one"])
    packets = [publish_packet(spec["protocol"], "bench/one", body) for body in payloads(spec["payload"])]
    size = len(packets[0])

    def run(seconds: float) -> int:
        deadline = time.perf_counter() + seconds
        count = 0
        while time.perf_counter() < deadline:
            one = packets[count % BLOCK]
            publisher.socket.sendall(one)
            data = reader.socket.recv(size)
            while len(data) < size:
                data += reader.socket.recv(size - len(data))
            assert data == one, "something else than was sent"
            count += 1
        return count

    yield {"ready": True, "warm": run(spec["warm_s"])}
    count, seconds = 0, 0.0
    for _ in range(spec["turns"]):
        start = time.perf_counter()
        count += run(spec["seconds"])
        seconds += time.perf_counter() - start
        yield {"messages": count, "delivered": count, "seconds": seconds}


def acknowledged(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """QoS 1, one to one, pipelined as far as the broker lets us: every PUBLISH and every PUBACK both ways.

    The receiver's session is clean, or `durable`.
    """
    publisher = Client(spec, "bench-p")
    reader = Client(spec, "bench-s", port=_reader_port(spec, 0), durable=spec["durable"])
    reader.subscribe(["bench/qos1"], qos=1)
    time.sleep(spec.get("known_s", 0.0))
    window = min(WINDOW, publisher.receive_maximum)
    bodies = payloads(spec["payload"])
    rows = np.frombuffer(
        b"".join(publish_packet(spec["protocol"], "bench/qos1", body, qos=1) for body in bodies), np.uint8
    ).reshape(BLOCK, -1)
    # Behind the first byte, one or two bytes of length, and the topic.
    place = (2 if rows.shape[1] < 130 else 3) + 2 + len("bench/qos1")
    exchange = _Exchange(publisher.socket, reader.socket, rows, place, window)
    yield {"ready": True, "warm": exchange.run(spec["warm_s"])}
    start = time.perf_counter()
    count = exchange.run(spec["seconds"])
    yield {
        "messages": count,
        "delivered": count,
        "seconds": time.perf_counter() - start,
        "window": window,
        "repeated": exchange.repeated,
    }


class _Exchange:
    """Publications with packet identifiers, their acknowledgements, and the same on the other side."""

    def __init__(
        self,
        publisher: socket.socket,
        reader: socket.socket,
        rows: np.ndarray[Any, Any],
        place: int,
        window: int,
    ) -> None:
        self.publisher, self.reader = publisher, reader
        self.rows, self.place = rows, place
        self.size = rows.shape[1]
        self.free = deque(range(1, window + 1))
        self.under_way = 0
        self.sent = self.acked = self.got = self.repeated = 0
        self.outgoing = {publisher: b"", reader: b""}
        self.incoming = {publisher: b"", reader: b""}
        for one in (publisher, reader):
            one.setblocking(False)
        self.poll = select.epoll()
        for one in (publisher, reader):
            self.poll.register(one.fileno(), select.EPOLLIN)
        self.sockets = {one.fileno(): one for one in (publisher, reader)}

    def run(self, seconds: float) -> int:
        before, deadline = self.sent, time.perf_counter() + seconds
        stall = time.perf_counter() + STALL_S
        while True:
            now = time.perf_counter()
            if now < deadline:
                self._publish()
            elif self.sent == self.acked and self.got >= self.sent and not any(self.outgoing.values()):
                return self.sent - before
            for one, data in self.outgoing.items():
                if data:
                    with contextlib.suppress(BlockingIOError):
                        self.outgoing[one] = data[one.send(data) :]
                    wanted_now = select.EPOLLIN | (select.EPOLLOUT if self.outgoing[one] else 0)
                    self.poll.modify(one.fileno(), wanted_now)
            for number, event in self.poll.poll(0.5):
                if event & select.EPOLLIN:
                    self._read(self.sockets[number])
                    stall = now + STALL_S
            if now > stall:
                raise Stalled(f"{self.sent} sent, {self.acked} acknowledged, {self.got} delivered")

    def _publish(self) -> None:
        if self.outgoing[self.publisher]:
            return
        count = min(len(self.free), 256)
        # The subscriber may lag behind the acknowledgements; what waits for it in the broker stays bounded.
        count = min(count, max(0, self.got + 4 * WINDOW - self.sent))
        if not count:
            return
        ids = np.array([self.free.popleft() for _ in range(count)], np.uint16)
        chosen = self.rows[np.arange(self.sent, self.sent + count) % BLOCK].copy()
        chosen[:, self.place] = ids >> 8
        chosen[:, self.place + 1] = ids & 255
        self.sent += count
        self.outgoing[self.publisher] = chosen.tobytes()

    def _read(self, one: socket.socket) -> None:
        data = self.incoming[one] + one.recv(SLICE_BYTES)
        assert data, "the broker closed a connection"
        size = 4 if one is self.publisher else self.size
        whole = len(data) // size * size
        self.incoming[one] = data[whole:]
        packets = np.frombuffer(data[:whole], np.uint8).reshape(-1, size)
        if not len(packets):
            return
        if one is self.publisher:
            assert (packets[:, :2] == (0x40, 2)).all(), "not PUBACK without a reason"
            self.free.extend((packets[:, 2].astype(int) << 8 | packets[:, 3]).tolist())
            self.acked += len(packets)
            return
        assert (packets[:, 0] & 0xF7 == 0x32).all(), "not PUBLISH of QoS 1"
        expected = self.rows[np.arange(self.got, self.got + len(packets)) % BLOCK]
        assert (packets[:, self.place + 2 :] == expected[:, self.place + 2 :]).all(), "not what was sent"
        self.repeated += int((packets[:, 0] & 8 != 0).sum())
        self.got += len(packets)
        acks = np.empty((len(packets), 4), np.uint8)
        acks[:, :2] = 0x40, 2
        acks[:, 2:] = packets[:, self.place : self.place + 2]
        self.outgoing[one] += acks.tobytes()


def pace(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """So many messages a second of several publishers at several brokers in turn, each in a packet of its
    own, to one reader at each of `reader_ports`.
    """
    version, qos, ports = spec["protocol"], spec["qos"], spec["publisher_ports"]
    publishers = [
        Client(spec, f"bench-p{at}", port=ports[at % len(ports)]) for at in range(spec["publishers"])
    ]
    readers = [Client(spec, f"bench-s{at}", port=port) for at, port in enumerate(spec["reader_ports"])]
    for reader in readers:
        reader.subscribe([f"{spec['topic']}/#"], qos=qos)
    time.sleep(spec["known_s"])
    bodies = [body.encode() for body in spec["bodies"]]
    got = [0] * len(readers)
    acked = 0
    kept = {one.socket.fileno(): b"" for one in (*readers, *publishers)}
    sockets = {one.socket.fileno(): one.socket for one in (*readers, *publishers)}
    places = {one.socket.fileno(): at for at, one in enumerate(readers)}
    poll = select.epoll()
    for number, one in sockets.items():
        one.setblocking(False)
        poll.register(number, select.EPOLLIN)
    waits: list[float] = []

    def run(count: int) -> None:
        nonlocal acked
        got[:] = [0] * len(readers)
        begin, sent, acked, gap = time.perf_counter() + 0.01, 0, 0, 1 / spec["rate"]
        deadline = begin + count * gap + STALL_S
        while sent < count or (spec["all"] and min(got) < count) or (qos and acked < count):
            now = time.perf_counter()
            if now > deadline:
                raise Stalled(f"{sent} sent, {acked} acknowledged, {got} delivered")
            while sent < count and begin + sent * gap <= now:
                packet_ = publish_packet(
                    version, f"{spec['topic']}/{sent % 7}", bodies[sent % len(bodies)], qos
                )
                if qos:
                    # The identifier stands behind the topic.
                    at = packet_.index(b"\x00\x01", 4 + len(spec["topic"]))
                    packet_ = packet_[:at] + (sent % 60_000 + 1).to_bytes(2, "big") + packet_[at + 2 :]
                publishers[sent % len(publishers)].socket.sendall(packet_)
                sent += 1
            for number, _ in poll.poll(max(0.0, min(0.05, begin + sent * gap - time.perf_counter()))):
                now = time.perf_counter()
                data = kept[number] + sockets[number].recv(SLICE_BYTES)
                whole, answer, publications = 0, b"", 0
                while (end := _end_of(data, whole)) is not None:
                    kind = data[whole] & 0xF0
                    if kind == 0x30:
                        publications += 1
                        if data[whole] & 6:
                            answer += b"\x40\x02" + _packet_id(data, whole)
                    elif kind == 0x40:
                        acked += 1
                    whole = end
                kept[number] = data[whole:]
                if publications:
                    if number == readers[-1].socket.fileno() and spec["all"]:
                        first = got[places[number]]
                        waits.extend(now - begin - at * gap for at in range(first, first + publications))
                    got[places[number]] += publications
                if answer:
                    sockets[number].sendall(answer)

    run(int(spec["rate"] * spec["warm_s"]))
    yield {"ready": True, "warm": int(spec["rate"] * spec["warm_s"])}
    waits.clear()
    count = int(spec["rate"] * spec["seconds"])
    start = time.perf_counter()
    run(count)
    waits.sort()
    points = {
        f"p{part}": waits[min(len(waits) - 1, len(waits) * part // 100)] for part in (50, 90, 99) if waits
    }
    yield {"messages": count, "delivered": sum(got), "seconds": time.perf_counter() - start, **points}


def _end_of(data: bytes, at: int) -> int | None:
    """Where a packet ends; None if it is not whole."""
    size = shift = 0
    for place in range(at + 1, min(at + 5, len(data))):
        size |= (data[place] & 127) << shift
        shift += 7
        if data[place] < 128:
            end = place + 1 + size
            return end if end <= len(data) else None
    return None


def _packet_id(data: bytes, at: int) -> bytes:
    """Of a PUBLISH."""
    while data[at + 1] > 127:
        at += 1
    topic_end = at + 4 + int.from_bytes(data[at + 2 : at + 4], "big")
    return data[topic_end : topic_end + 2]


def latency(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """So many messages a second, at times that were fixed before: a broker that is late does not slow us."""
    publisher, reader = Client(spec, "bench-p"), Client(spec, "bench-s")
    reader.subscribe(["bench/latency"])
    packets = [publish_packet(spec["protocol"], "bench/latency", body) for body in payloads(spec["payload"])]
    size, gap = len(packets[0]), 1 / spec["rate"]
    reader.socket.setblocking(False)

    def run(count: int) -> list[float]:
        begin = time.perf_counter() + 0.01
        sent = 0
        data = b""
        waits: list[float] = []
        while len(waits) < count:
            now = time.perf_counter()
            while sent < count and begin + sent * gap <= now:
                publisher.socket.sendall(packets[sent % BLOCK])
                sent += 1
            # Without waiting: to be woken up would take longer than what is measured.
            try:
                data += reader.socket.recv(SLICE_BYTES)
            except BlockingIOError:
                assert now < begin + count * gap + STALL_S, f"of {count} messages {len(waits)} have come"
                continue
            now = time.perf_counter()
            while len(data) >= size:
                assert data[:size] == packets[len(waits) % BLOCK], "not what was sent"
                waits.append(now - begin - len(waits) * gap)
                data = data[size:]
        return waits

    yield {"ready": True, "warm": len(run(int(spec["rate"] * spec["warm_s"])))}
    waits: list[float] = []
    for turn in range(spec["turns"]):
        waits = sorted(waits + run(int(spec["rate"] * spec["seconds"])))
        count = len(waits)
        points = {f"p{part:g}": waits[min(count - 1, int(count * part / 100))] for part in (50, 99, 99.9)}
        yield {"messages": count, "delivered": count, "seconds": (turn + 1) * spec["seconds"], **points}


def subscriptions(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Many subscriptions of different topics, of a hundred clients."""
    each = 100
    clients = [Client(spec, f"bench-{at}") for at in range(spec["count"] // 1_000)]
    yield {"ready": True}
    for at, client in enumerate(clients):
        for start in range(0, 1_000, each):
            client.subscribe([f"site/{at}/sensor/{number}" for number in range(start, start + each)])
        client.ping()
    yield {"count": len(clients) * 1_000}


def idle(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Many connections that do nothing, plain or TLS; then all of them leave and come back at once."""
    crowd = _Crowd(spec)
    yield {"ready": True}
    start = time.perf_counter()
    crowd.arrive(at_once=200)
    yield {"count": spec["count"], "seconds": time.perf_counter() - start}
    if spec.get("again"):
        start = time.perf_counter()
        crowd.leave()
        crowd.arrive(at_once=spec["count"])
        yield {"count": spec["count"], "seconds": time.perf_counter() - start, "tries": crowd.tries}
    crowd.leave()
    yield {"left": True}


class _Guest:
    """One of many connections; it asks for a topic of its own, and is served when it is answered."""

    def __init__(self, name: str, address: tuple[str, int], context: ssl.SSLContext | None) -> None:
        self.name = name
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(BlockingIOError):
            self.socket.connect(address)
        self.number = self.socket.fileno()
        self.context = context
        self.connected = self.asked = False
        self.data = b""

    def step(self, asking: bytes) -> int:
        """Go on as far as it goes: what to wait for, or 0 if it is served."""
        if not self.connected:
            if error := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, "refused")
            self.connected = True
            if self.context is not None:
                self.socket = self.context.wrap_socket(
                    self.socket, do_handshake_on_connect=False, server_hostname="localhost"
                )
        try:
            if not self.asked:
                if isinstance(self.socket, ssl.SSLSocket):
                    self.socket.do_handshake()
                self.socket.send(asking)
                self.asked = True
            while not _answered(self.data):
                data = self.socket.recv(4096)
                if not data:
                    raise OSError("closed")
                self.data += data
        except (ssl.SSLWantReadError, BlockingIOError):
            return select.EPOLLIN
        except ssl.SSLWantWriteError:
            return select.EPOLLOUT
        self.data = b""
        return 0


class _Crowd:
    """Many connections."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.served: list[_Guest] = []
        self.tries = 0
        self.context: ssl.SSLContext | None = None
        if spec.get("tls"):
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self.context.load_verify_locations(spec["tls"])

    def leave(self) -> None:
        for guest in self.served:
            guest.socket.close()
        self.served.clear()

    def arrive(self, at_once: int) -> None:
        """Let them all come, so many at a time; one that is turned away tries again."""
        spec, version = self.spec, self.spec["protocol"]
        names = deque(f"idle-{spec['first'] + at}" for at in range(spec["count"]))
        coming: dict[int, _Guest] = {}
        poll = select.epoll()
        stall = time.perf_counter() + 2 * STALL_S
        self.tries = 0
        while len(self.served) < spec["count"]:
            while names and len(coming) < at_once:
                guest = _Guest(names.popleft(), (spec["host"], spec["port"]), self.context)
                self.tries += 1
                coming[guest.number] = guest
                poll.register(guest.number, select.EPOLLOUT)
            for number, _ in poll.poll(1.0):
                guest = coming[number]
                asking = connect_packet(version, guest.name)
                asking += subscribe_packet(version, [f"idle/{guest.name}"])
                try:
                    wait = guest.step(asking)
                except OSError:
                    poll.unregister(number)
                    guest.socket.close()
                    del coming[number]
                    names.append(guest.name)
                    continue
                if wait:
                    poll.modify(number, wait)
                    continue
                poll.unregister(number)
                del coming[number]
                self.served.append(guest)
                stall = time.perf_counter() + 2 * STALL_S
            if time.perf_counter() > stall:
                raise Stalled(f"{len(self.served)} of {spec['count']} connections are served")
        poll.close()


def _answered(data: bytes) -> bool:
    """Whether CONNACK and SUBACK are there, both of which are short."""
    if len(data) < 2 or len(data) < 2 + data[1]:
        return False
    if data[0] != 0x20 or data[3] != 0:
        raise OSError("refused")
    rest = data[2 + data[1] :]
    return len(rest) >= 2 and rest[0] == 0x90 and len(rest) >= 2 + rest[1]


JOBS: dict[str, Callable[[dict[str, Any]], Iterator[dict[str, Any]]]] = {
    "flow": flow,
    "lockstep": lockstep,
    "acknowledged": acknowledged,
    "latency": latency,
    "pace": pace,
    "subscriptions": subscriptions,
    "idle": idle,
}


def main() -> None:
    job = JOBS[sys.argv[1]]
    spec = json.loads(sys.stdin.readline())
    for said in job(spec):
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps({**said, "load_cpu": used.ru_utime + used.ru_stime}), flush=True)
        if not sys.stdin.readline():
            return


if __name__ == "__main__":
    main()
