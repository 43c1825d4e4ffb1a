"""Bursts: many PUBLISH packets of one kind in a row, found without making a packet of each.

A busy publisher sends packets that begin with the same bytes: type, length, topic. Where the heads are equal
the packets need not be taken apart; they can be passed on as they are, many in one piece. Only what needs
nothing else is a burst: no retain, no DUP, no properties, QoS 0 or 1, less than 16 KiB. All other packets are
read by `codec`, and whatever is wrong is found there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tidings.mqtt.packets import Publish
from tidings.mqtt.properties import variable

LOOK_AT = 32
"""Packets that are looked at one by one before those behind them are compared many at once."""

QOS_0 = 0x30
QOS_1 = 0x32


class Burst:
    """PUBLISH packets of one topic and QoS, in a buffer."""

    __slots__ = ("count", "data", "end", "key", "packet_ids", "parts", "qos", "start", "v5")

    def __init__(self, data: bytes, start: int, key: bytes, qos: int, v5: bool) -> None:
        self.data = data
        self.start = start
        self.end = start
        """Where it ends in the buffer."""
        self.key = key
        """The topic with its length before it, as in the packets."""
        self.qos = qos
        self.v5 = v5
        self.count = 0
        self.parts: list[tuple[int, int, int, int]] = []
        """Packets of one size: where they begin, how many, the size of one, the size of its payload."""
        self.packet_ids: list[bytes] = []
        """Of QoS 1, as they are in the packets."""

    @property
    def sizes(self) -> Sequence[int]:
        """Of the payloads; one item if they are all equal."""
        if len(self.parts) == 1:
            return (self.parts[0][3],)
        return [size for _, count, _, size in self.parts for _ in range(count)]

    def payloads(self) -> list[bytes]:
        data = self.data
        return [
            data[end - size : end]
            for start, count, stride, size in self.parts
            for end in range(start + stride, start + count * stride + 1, stride)
        ]

    def packets(self) -> list[bytes]:
        """Each packet's bytes."""
        data = self.data
        return [
            data[at : at + stride]
            for start, count, stride, _ in self.parts
            for at in range(start, start + count * stride, stride)
        ]

    def publishes(self, topic: str) -> Iterator[Publish]:
        """The packets, taken apart."""
        for at, payload in enumerate(self.payloads()):
            packet_id = int.from_bytes(self.packet_ids[at], "big") if self.qos else 0
            yield Publish(topic, payload, self.qos, packet_id=packet_id)

    def plain(self, v5: bool, identifiers: bytes) -> list[bytes]:
        """The packets at QoS 0, for a client of this version; `identifiers` are the properties, if any."""
        if self.v5 is v5 and not self.qos and not identifiers:
            return [self.data[self.start : self.end]]
        middle = self.key + (variable(len(identifiers)) + identifiers if v5 else b"")
        heads = {size: b"\x30" + variable(len(middle) + size) + middle for *_, size in self.parts}
        return [piece for payload in self.payloads() for piece in (heads[len(payload)], payload)]

    def acknowledged(self, v5: bool, identifiers: bytes) -> tuple[list[bytes], list[bytes]]:
        """The packets at QoS 1 for a client of this version: what is before the packet ids, and behind."""
        tail = variable(len(identifiers)) + identifiers if v5 else b""
        rest = len(self.key) + 2 + len(tail)
        heads = {size: b"\x32" + variable(rest + size) + self.key for *_, size in self.parts}
        payloads = self.payloads()
        return [heads[len(payload)] for payload in payloads], [tail + payload for payload in payloads]


def read(data: bytes, at: int, v5: bool) -> Burst | None:
    """The burst that begins at a place in a buffer; None if what is there is not one."""
    size = len(data)
    if size - at < 4:
        return None
    first = data[at]
    if first != QOS_0 and first != QOS_1:
        return None
    qos = first >> 1 & 1
    burst: Burst | None = None
    key = ends = b""
    while size - at >= 4 and data[at] == first:
        length = data[at + 1]
        head = at + 2
        if length > 0x7F:
            if data[head] > 0x7F:
                break
            length = length & 0x7F | data[head] << 7
            head += 1
        end = head + length
        if end > size or length < 2:
            break
        if burst is None:
            topic_end = head + 2 + (data[head] << 8 | data[head + 1])
            key = data[head:topic_end]
            if topic_end + 2 * qos + v5 > end or len(key) < 3:
                break
            # With QoS 0 the properties follow the topic; with QoS 1 the packet id comes first.
            ends = b"\0" if v5 and not qos else b""
            burst = Burst(data, at, key, qos, v5)
        elif end - head < len(key) + 2 * qos + v5:
            break
        if not data.startswith(key + ends, head):
            break
        same = data[at : head + len(key) + len(ends)]
        stride = end - at
        last = size - stride
        start = at
        if qos:
            id_at = len(same)
            none_at = id_at + 2
            packet_ids = burst.packet_ids
            while (
                at <= last
                and data.startswith(same, at)
                and (not v5 or not data[at + none_at])
                and (packet_id := data[at + id_at : at + none_at]) != b"\0\0"
            ):
                packet_ids.append(packet_id)
                at += stride
        else:
            few = min(last, at + LOOK_AT * stride)
            while at <= few and data.startswith(same, at):
                at += stride
            if at > few and at <= last:
                at += stride * _alike(data, at, stride, same)
        if at == start:
            break
        count = (at - start) // stride
        burst.parts.append((start, count, stride, length - len(key) - 2 * qos - v5))
        burst.count += count
        burst.end = at
    return burst if burst is not None and burst.count else None


def _alike(data: bytes, at: int, stride: int, same: bytes) -> int:
    """How many packets of one size in a row begin with the same bytes.

    Ever more are looked at as long as all are alike, so that what is looked at in vain is a few times what is
    found at most.
    """
    found, step, many = 0, LOOK_AT, (len(data) - at) // stride
    while found < many:
        step = min(8 * step, many - found)
        heads = np.frombuffer(data, np.uint8, step * stride, at + found * stride)
        heads = heads.reshape(step, stride)[:, : len(same)]
        if heads.tobytes() != same * step:
            return found + int((heads != np.frombuffer(same, np.uint8)).any(axis=1).argmax())
        found += step
    return many


def acknowledgements(data: bytes, at: int) -> tuple[list[int], int]:
    """PUBACK packets in a row that say nothing but their packet id: the ids, and where they end."""
    packet_ids: list[int] = []
    last = len(data) - 4
    while at <= last and data.startswith(b"\x40\x02", at):
        packet_id = data[at + 2] << 8 | data[at + 3]
        if not packet_id:
            break
        packet_ids.append(packet_id)
        at += 4
    return packet_ids, at
