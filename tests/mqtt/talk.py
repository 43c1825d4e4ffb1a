"""A bench for MQTT: one broker behind its front, clients that a test plays, and time that it lets pass.

What a client sends arrives at once, and so does what it is sent. Nothing else moves by itself: `advance` lets
time pass, `lose` cuts a connection, `crash` ends the broker and starts it again with what its disk holds. The
bench is a driver too, and a strict one: it refuses effects that no driver could carry out.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tidings.mqtt.codec import Decoder, encode
from tidings.mqtt.events import (
    ALL_ALLOWED,
    Access,
    BytesReceived,
    CheckPassword,
    ClientConnected,
    ClientEvent,
    ClientLost,
    ClientVerified,
    CloseClient,
    PauseReading,
    ResumeReading,
    Transmit,
)
from tidings.mqtt.front import Front
from tidings.mqtt.packets import (
    AnyPacket,
    Asked,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Version,
    Will,
)
from tidings.mqtt.settings import Settings
from tidings.overlay.broker import Broker
from tidings.overlay.events import Erase, Event, Log, Sync, TimerFired, Write, WritesSynced
from tidings.overlay.settings import Settings as BrokerSettings

V311 = Version.V311
V5 = Version.V5
BOTH = (V5, V311)

BEGIN = 100.0
"""When tests begin; nothing is special about it."""

SETTLED_S = 6.0
"""By then a broker without neighbours has done all that it does at its start."""

PLAIN = Settings(sys_every_s=0)
"""As shipped, but silent about itself: a test may let years pass."""

P = TypeVar("P")


class Talk:
    """One broker, its front, its disk and its clock."""

    trees = 1
    """That topics of the broker share."""

    def __init__(
        self,
        settings: Settings = PLAIN,
        access: Access = ALL_ALLOWED,
        users: Mapping[str, bytes] | None = None,
    ) -> None:
        """`users` are names and passwords that fit."""
        self.now = BEGIN
        self.settings = settings
        self.access = access
        self.users = dict(users or {})
        self.disk: dict[str, bytes] = {}
        self.logs: list[Log] = []
        """Lines for the operator, all levels."""
        self.boot = 0
        self.clients: dict[int, Client] = {}
        self._connections = 0
        self._shut: set[int] = set()
        self._unsynced: list[Write | Erase] = []
        self._events: deque[Event | ClientEvent] = deque()
        self._start()

    def _start(self) -> None:
        self.boot += 1
        broker = Broker(
            "a",
            boot=self.boot,
            incarnation=1,
            random=random.Random(self.boot),
            settings=BrokerSettings(trees=self.trees),
            saved={key: value for key, value in self.disk.items() if not key.startswith("mqtt/")},
        )
        self.front = Front(
            broker,
            settings=self.settings,
            access=self.access,
            saved={key: value for key, value in self.disk.items() if key.startswith("mqtt/")},
            random=random.Random(self.boot),
        )
        self._carry_out(self.front.start(self.now))
        self.advance(SETTLED_S)

    def crash(self) -> None:
        """The process ends and another begins: what was not yet on disk is lost, and each connection too."""
        for client in self.clients.values():
            client.closed = True
        self.clients.clear()
        self._unsynced.clear()
        self._events.clear()
        self._start()

    def tell(self, event: Event | ClientEvent) -> None:
        """Let something happen to the broker, and everything that follows from it."""
        self._events.append(event)
        while self._events:
            self._turn((self._events.popleft(),))

    def tell_all(self, events: Iterable[Event | ClientEvent]) -> None:
        """The same for what happens at once."""
        self._turn(list(events))
        while self._events:
            self._turn((self._events.popleft(),))

    def _turn(self, events: Sequence[Event | ClientEvent]) -> None:
        self._carry_out(self.front.handle_all(events, self.now))

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while (at := self.front.next_deadline()) is not None and at <= end:
            self.now = max(self.now, at)
            self.tell(TimerFired())
        self.now = end

    def _carry_out(self, effects: Iterable[Any]) -> None:
        told: set[int] = set()
        for effect in effects:
            if isinstance(effect, Transmit):
                assert effect.connection not in told, "two Transmit for one connection in one turn"
                told.add(effect.connection)
                assert effect.connection not in self._shut, "Transmit after CloseClient"
                client = self.clients.get(effect.connection)
                if client is not None:
                    client.hear(b"".join(effect.chunks))
            elif isinstance(effect, CloseClient):
                self._shut.add(effect.connection)
                client = self.clients.pop(effect.connection, None)
                if client is not None:
                    client.closed = True
            elif isinstance(effect, CheckPassword):
                user = effect.username if self.users.get(effect.username) == effect.password else None
                self._events.append(ClientVerified(effect.connection, user))
            elif isinstance(effect, PauseReading | ResumeReading):
                client = self.clients.get(effect.connection)
                if client is not None:
                    client.unheard = isinstance(effect, PauseReading)
                    self._read(client)
            elif isinstance(effect, Log):
                self.logs.append(effect)
            elif isinstance(effect, Write | Erase):
                self._unsynced.append(effect)
            elif isinstance(effect, Sync):
                for change in self._unsynced:
                    if isinstance(change, Write):
                        self.disk[change.key] = change.value
                    else:
                        self.disk.pop(change.key, None)
                self._unsynced.clear()
                self._events.append(WritesSynced(effect.token))

    def _read(self, client: Client) -> None:
        """Read what a client has sent, if it is to be read."""
        if client.outgoing and not client.unheard and not client.closed:
            data, client.outgoing = client.outgoing, b""
            self._events.append(BytesReceived(client.connection, data))

    def receive(self, client: Client) -> None:
        """Bytes of a client have come."""
        self._read(client)
        if self._events:
            self.tell(self._events.popleft())

    # Clients.

    def dial(self, version: Version = V5, **more: Any) -> Client:
        """A connection over which nothing was said yet."""
        self._connections += 1
        client = self.clients[self._connections] = Client(self, self._connections, version)
        self.tell(ClientConnected(self._connections, "127.0.0.1:40000", listener="tcp", **more))
        return client

    def connect(self, client_id: str = "", version: Version = V5, **options: Any) -> Client:
        """A client that is connected; `options` as for `Client.connect`."""
        client = self.dial(version)
        connack = client.connect(client_id, **options)
        assert connack is not None
        assert connack.reason == 0, f"refused with {connack.reason:#x}"
        return client


class Client:
    """The other end of a connection, played by a test."""

    def __init__(self, talk: Talk, connection: int, version: Version) -> None:
        self.talk = talk
        self.connection = connection
        self.version = version
        self.closed = False
        """Whether the broker has closed the connection, or it was lost."""
        self.unheard = False
        self.outgoing = b""
        self.heard: list[AnyPacket] = []
        """Packets that have come and were not yet taken."""
        self.bytes = b""
        """All that has come, as bytes."""
        self._decoder = Decoder(packet_bytes_max=1 << 28, version=version, client=True)
        self._packet_id = 0

    def hear(self, data: bytes) -> None:
        """What the broker sends; a packet that is not as the standard wants it fails the test."""
        self.bytes += data
        self._decoder.feed(data)
        while (packet := self._decoder.next()) is not None:
            self.heard.append(packet)

    # Saying.

    def send(self, *packets: AnyPacket) -> None:
        self.send_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def send_bytes(self, data: bytes | str) -> None:
        """Bytes as they are, or as text in hexadecimal."""
        assert not self.closed, "the connection is closed"
        self.outgoing += bytes.fromhex(data) if isinstance(data, str) else data
        self.talk.receive(self)

    def connect(
        self,
        client_id: str = "",
        *,
        clean_start: bool = True,
        keep_alive_s: int = 0,
        username: str | None = None,
        password: bytes | None = None,
        will: Will | None = None,
        bridge: bool = False,
        **properties: Any,
    ) -> Connack | None:
        """Say CONNECT; the answer, or None if there is none."""
        self.send(
            Connect(
                self.version,
                client_id,
                clean_start,
                keep_alive_s,
                username,
                password,
                will,
                Properties(**properties),
                bridge,
            )
        )
        answers = self.take(Connack)
        assert len(answers) <= 1
        self.connack = answers[0] if answers else None
        return self.connack

    def next_id(self) -> int:
        self._packet_id += 1
        return self._packet_id

    def subscribe(
        self,
        *asked: str | Asked,
        qos: int = 0,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        **properties: Any,
    ) -> Suback:
        """Subscribe, and take the answer; texts are filters with the options given here."""
        packet_id = self.next_id()
        self.send(
            Subscribe(
                packet_id,
                tuple(
                    Asked(it, qos, no_local, retain_as_published, retain_handling)
                    if isinstance(it, str)
                    else it
                    for it in asked
                ),
                Properties(**properties),
            )
        )
        (suback,) = self.take(Suback)
        assert suback.packet_id == packet_id
        assert len(suback.reasons) == len(asked)
        return suback

    def unsubscribe(self, *topic_filters: str) -> Unsuback:
        packet_id = self.next_id()
        self.send(Unsubscribe(packet_id, topic_filters))
        (unsuback,) = self.take(Unsuback)
        assert unsuback.packet_id == packet_id
        return unsuback

    def publish(
        self, topic: str, payload: bytes = b"x", qos: int = 0, *, retain: bool = False, **properties: Any
    ) -> int:
        """Publish, and go through all of the handshake; the reason code of the acknowledgement."""
        packet_id = self.next_id() if qos else 0
        self.send(Publish(topic, payload, qos, retain, False, packet_id, Properties(**properties)))
        if qos == 1:
            (puback,) = self.take(Puback)
            assert puback.packet_id == packet_id
            return puback.reason
        if qos == 2:
            (pubrec,) = self.take(Pubrec)
            assert pubrec.packet_id == packet_id
            if pubrec.reason < 0x80:
                self.send(Pubrel(packet_id))
                (pubcomp,) = self.take(Pubcomp)
                assert pubcomp.packet_id == packet_id
            return pubrec.reason
        return 0

    def ping(self) -> None:
        """Show that the connection lives."""
        self.send(Pingreq())
        assert self.take(Pingresp) == [Pingresp()]

    def disconnect(self, reason: int = 0, **properties: Any) -> None:
        """Leave; the broker closes behind it."""
        self.send(Disconnect(reason, Properties(**properties)))
        assert self.closed

    def lose(self) -> None:
        """The connection is gone without a word."""
        self.closed = True
        self.talk.clients.pop(self.connection, None)
        self.talk.tell(ClientLost(self.connection, "reset"))

    # Hearing.

    def take(self, kind: type[P]) -> list[P]:
        """Packets of one kind that have come, in order; others stay."""
        taken: list[P] = [packet for packet in self.heard if isinstance(packet, kind)]
        self.heard = [packet for packet in self.heard if not isinstance(packet, kind)]
        return taken

    def take_all(self) -> list[AnyPacket]:
        taken, self.heard = self.heard, []
        return taken

    def read(self) -> list[Publish]:
        """Publications that have come, acknowledged to the end as a good client does."""
        read: list[Publish] = []
        while publications := self.take(Publish):
            read += publications
            for it in publications:
                if it.qos == 1:
                    self.send(Puback(it.packet_id))
                elif it.qos == 2:
                    self.send(Pubrec(it.packet_id))
            for released in self.take(Pubrel):
                self.send(Pubcomp(released.packet_id))
        return read

    def payloads(self) -> list[bytes]:
        """What `read` gives, payloads only."""
        return [it.payload for it in self.read()]

    def dismissed(self) -> int | None:
        """Why the broker has closed: the reason code of its DISCONNECT, None if it gave none."""
        assert self.closed, f"still connected; heard {self.heard}"
        farewells = self.take(Disconnect)
        assert len(farewells) <= 1
        assert not self.heard or not farewells, f"heard {self.heard}"
        return farewells[0].reason if farewells else None
