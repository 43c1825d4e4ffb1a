"""A broker for tests of clients: small enough to be read, and it fails when it is told to.

It keeps sessions in memory, evaluates `where`, delivers with QoS 0 and 1, and writes down all that it hears.
It does not check clients: that is the business of the real one.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import cast

from tidings.errors import FilterError, PayloadError
from tidings.language import names, payloads
from tidings.language.filters import parse
from tidings.mqtt import packets as p
from tidings.mqtt.codec import Decoder, Malformed, encode
from tidings.mqtt.reasons import Reason
from tidings.mqtt.subscribing import UNDERSTOOD

PATIENCE_S = 30.0


async def until(condition: Callable[[], bool]) -> None:
    """Wait on a condition, with a bound that only a broken program reaches."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


@dataclass
class Kept:
    """A session: what it subscribes to, and what it has not acknowledged."""

    asked: dict[str, tuple[p.Asked, tuple[str, ...], tuple[int, ...]]] = field(default_factory=dict)
    unacknowledged: OrderedDict[int, p.Publish] = field(default_factory=OrderedDict)
    waiting: list[p.Publish] = field(default_factory=list)
    next_id: int = 1
    client: _Client | None = None


class Stub:
    """Where clients connect; settings may be changed at any time."""

    def __init__(self, *, ours: bool = True) -> None:
        self.ours = ours
        """Whether it says that it is a broker of Tidings."""
        self.sessions: dict[str, Kept] = {}
        self.heard: list[p.AnyPacket] = []
        """All packets of all clients, in order."""
        self.refuse_connect: tuple[int, str | None] | None = None
        self.refuse_publish: tuple[int, str | None] | None = None
        self.refuse_payload: bytes | None = None
        """What `refuse_publish` refuses, if not everything."""
        self.receive_maximum: int | None = None
        self.packet_bytes_max: int | None = None
        """The Maximum Packet Size of new connections; what is larger costs a client its connection."""
        self.connections = 0
        """How many were opened."""
        self.expel_at_once: Reason | None = None
        """Whether clients are accepted and sent away in one write."""
        self.hold_pubcomp = False
        self.silent = False
        """Whether publications are left without an answer."""
        self.answers: dict[str, bytes] = {}
        """Topic of a request: the payload that answers it."""
        self.clients: set[_Client] = set()
        self.address = ""
        self.port = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        """Of the thread that it runs in, if it has one of its own."""
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Client(self), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.address = f"mqtt://127.0.0.1:{self.port}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await until(lambda: not self.clients)

    def cut(self) -> None:
        """Lose all connections."""
        for client in list(self.clients):
            client.transport.abort()

    def expel(self, reason: Reason) -> None:
        for client in list(self.clients):
            client.send(p.Disconnect(reason))
            client.transport.close()

    def of(self, kind: type[p.Packet]) -> list[p.AnyPacket]:
        return [packet for packet in self.heard if isinstance(packet, kind)]

    def deliver_when_subscribed(self, *publications: p.Publish, subscriptions: int = 1) -> None:
        """From another thread: wait for so many subscriptions, then deliver."""

        async def wait_and_deliver() -> None:
            await until(lambda: sum(len(one.asked) for one in self.sessions.values()) == subscriptions)
            for publish in publications:
                self.deliver(publish)

        assert self.loop is not None
        asyncio.run_coroutine_threadsafe(wait_and_deliver(), self.loop)

    def deliver(self, publish: p.Publish) -> None:
        for session in self.sessions.values():
            best: p.Asked | None = None
            numbers: list[int] = []
            for asked, wheres, identifiers in session.asked.values():
                if names.match(asked.topic_filter, publish.topic) and _wanted(wheres, publish.payload):
                    best = asked if best is None or asked.qos > best.qos else best
                    numbers.extend(identifiers)
            if best is not None:
                properties = p.Properties(
                    content_type=publish.properties.content_type,
                    response_topic=publish.properties.response_topic,
                    correlation_data=publish.properties.correlation_data,
                    user=publish.properties.user,
                    subscription_identifiers=tuple(numbers),
                )
                sent = p.Publish(
                    publish.topic, publish.payload, min(publish.qos, best.qos, 1), properties=properties
                )
                session.waiting.append(sent)
                if session.client is not None:
                    session.client.flush()


def _wanted(wheres: tuple[str, ...], payload: bytes) -> bool:
    if not wheres:
        return True
    try:
        fields = payloads.decode(payload)
    except PayloadError:
        return False
    return any(parse(where).matches(fields) for where in wheres)


class _Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self.decoder = Decoder(packet_bytes_max=stub.packet_bytes_max or 1 << 20)
        self.session = Kept()
        self.keeps = False
        self.client_id = ""
        self.receive_maximum = 65_535

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses.
        self.transport = cast("asyncio.Transport", transport)
        self.stub.clients.add(self)
        self.stub.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.stub.clients.discard(self)
        self.session.client = None
        if not self.keeps and self.stub.sessions.get(self.client_id) is self.session:
            del self.stub.sessions[self.client_id]

    def data_received(self, data: bytes) -> None:
        self.decoder.feed(data)
        try:
            while (packet := self.decoder.next()) is not None:
                self.stub.heard.append(packet)
                self.on(packet)
        except Malformed as error:
            self.send(p.Disconnect(error.reason))
            self.transport.close()

    def send(self, packet: p.AnyPacket) -> None:
        self.transport.write(encode(packet, self.decoder.version or p.Version.V5))

    def flush(self) -> None:
        session = self.session
        while session.waiting and len(session.unacknowledged) < self.receive_maximum:
            publish = session.waiting.pop(0)
            if publish.qos:
                publish = p.Publish(
                    publish.topic,
                    publish.payload,
                    publish.qos,
                    packet_id=session.next_id,
                    properties=publish.properties,
                )
                session.unacknowledged[session.next_id] = publish
                session.next_id += 1
            self.send(publish)

    def on(self, packet: p.AnyPacket) -> None:
        stub = self.stub
        match packet:
            case p.Connect():
                self.on_connect(packet)
            case p.Subscribe():
                (asked,) = packet.asked
                wheres = tuple(value for name, value in packet.properties.user if name == "where")
                wheres = wheres if self.stub.ours else ()
                try:
                    for where in wheres:
                        parse(where)
                except FilterError as error:
                    reason = f"{error.reason}: {error.text[error.start : error.start + 40]}"
                    properties = p.Properties(reason_string=reason)
                    self.send(p.Suback(packet.packet_id, (Reason.TOPIC_FILTER_INVALID,), properties))
                    return
                self.session.asked[asked.topic_filter] = (
                    asked,
                    wheres,
                    packet.properties.subscription_identifiers,
                )
                understood = p.Properties(user=UNDERSTOOD if wheres and self.stub.ours else ())
                self.send(p.Suback(packet.packet_id, (min(asked.qos, 1),), understood))
            case p.Unsubscribe():
                (topic_filter,) = packet.topic_filters
                self.session.asked.pop(topic_filter, None)
                self.send(p.Unsuback(packet.packet_id, (0,)))
            case p.Publish():
                self.on_publish(packet)
            case p.Puback():
                self.session.unacknowledged.pop(packet.packet_id, None)
                self.flush()
            case p.Pubrel():
                if not stub.hold_pubcomp:
                    self.send(p.Pubcomp(packet.packet_id))
            case p.Pingreq():
                self.send(p.Pingresp())
            case _:
                assert isinstance(packet, p.Disconnect), packet
                stub.clients.discard(self)
                self.transport.close()

    def on_connect(self, packet: p.Connect) -> None:
        stub = self.stub
        if stub.refuse_connect is not None:
            code, said = stub.refuse_connect
            self.send(p.Connack(code, properties=p.Properties(reason_string=said)))
            self.transport.close()
            return
        self.client_id = packet.client_id or f"stub-{len(stub.heard)}"
        self.keeps = bool(packet.properties.session_expiry_s)
        self.receive_maximum = packet.properties.receive_maximum or 65_535
        present = not packet.clean_start and self.client_id in stub.sessions
        if not present:
            stub.sessions[self.client_id] = Kept()
        self.session = stub.sessions[self.client_id]
        self.session.client = self
        connack = p.Connack(
            session_present=present,
            properties=p.Properties(
                assigned_client_id=None if packet.client_id else self.client_id,
                receive_maximum=stub.receive_maximum,
                maximum_packet_bytes=stub.packet_bytes_max,
                response_information="$tidings/reply/" if stub.ours else None,
            ),
        )
        if stub.expel_at_once is not None:
            packets = (connack, p.Disconnect(stub.expel_at_once))
            self.transport.write(b"".join(encode(one, p.Version.V5) for one in packets))
            self.transport.close()
            return
        self.send(connack)
        for publish in self.session.unacknowledged.values():
            self.send(
                p.Publish(
                    publish.topic,
                    publish.payload,
                    publish.qos,
                    dup=True,
                    packet_id=publish.packet_id,
                    properties=publish.properties,
                )
            )
        self.flush()

    def on_publish(self, packet: p.Publish) -> None:
        stub = self.stub
        if stub.silent:
            return
        if stub.refuse_publish is not None and stub.refuse_payload in (None, packet.payload):
            code, said = stub.refuse_publish
            kind = p.Puback if packet.qos == 1 else p.Pubrec
            self.send(kind(packet.packet_id, code, p.Properties(reason_string=said)))
            return
        if packet.topic in stub.answers:
            assert packet.properties.response_topic is not None
            properties = p.Properties(correlation_data=packet.properties.correlation_data)
            stub.deliver(
                p.Publish(
                    packet.properties.response_topic, stub.answers[packet.topic], 1, properties=properties
                )
            )
        else:
            stub.deliver(packet)
        if packet.qos == 1:
            self.send(p.Puback(packet.packet_id))
        elif packet.qos == 2:
            self.send(p.Pubrec(packet.packet_id))


@asynccontextmanager
async def running(*, ours: bool = True, stub: Stub | None = None) -> AsyncIterator[Stub]:
    """A stub that listens."""
    stub = Stub(ours=ours) if stub is None else stub
    await stub.start()
    try:
        yield stub
    finally:
        await stub.stop()


@contextmanager
def in_a_thread(*, ours: bool = True) -> Iterator[Stub]:
    """A stub for programs that have no loop, or one of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stub = Stub(ours=ours)
    stub.loop = loop
    asyncio.run_coroutine_threadsafe(stub.start(), loop).result()
    try:
        yield stub
    finally:
        asyncio.run_coroutine_threadsafe(stub.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
