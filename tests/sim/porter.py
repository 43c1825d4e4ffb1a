"""A front door that knows nothing of networks: one broker, all of its state written down at every turn.

Slow and simple, and enough to try MQTT clients, their connections and their judges without the real one. What
it says is sent only when the state behind it is on disk.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tidings.language.regions import Unknown
from tidings.mqtt.codec import Decoder, encode
from tidings.mqtt.events import BytesReceived, ClientConnected, ClientLost, CloseClient, Transmit
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
from tidings.overlay.events import SetTimer, Stop, StopAsked, Sync, Synchronised, Write, WritesSynced
from tidings.sim.mqtt.promises import _content_matches, _topic_matches
from tidings.sim.mqtt.run import VIEW

KEY = "mqtt/everything"
VIEWED = f"view/{VIEW.name}/"


@dataclass
class Session:
    client: str
    expiry_s: float = 0.0
    asked: dict[str, tuple[Asked, Properties]] = field(default_factory=dict)
    queue: deque[Publish] = field(default_factory=deque)
    flying: dict[int, Publish | None] = field(default_factory=dict)
    """What was sent and is not acknowledged; None once only PUBCOMP is missing."""
    received: set[int] = field(default_factory=set)
    last_id: int = 0
    will: Will | None = None
    ends_at: float | None = None
    """When nothing is left of it, if its client does not come back."""
    will_at: float | None = None


@dataclass
class State:
    sessions: dict[str, Session] = field(default_factory=dict)
    retained: dict[str, Publish] = field(default_factory=dict)
    turns: int = 0


class Caller:
    """A connection."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.decoder = Decoder(packet_bytes_max=1_000_000)
        self.session: Session | None = None
        self.aliases: dict[int, str] = {}
        self.room = 65_535


class Porter:
    """Takes clients in."""

    def __init__(self, broker: Any, *, saved: Mapping[str, bytes], random: Random) -> None:
        self.state = pickle.loads(saved[KEY]) if saved else State()
        self.broker = broker
        self.callers: dict[int, Caller] = {}
        self.now = 0.0
        self.syncs = 0
        self.held: dict[int, list[Any]] = {}
        self.said: dict[int, list[bytes]] = {}
        self.after: list[Any] = []

    def start(self, now: float) -> list[Any]:
        self.broker.start(now)  # it is asked how it is in the end
        for session in self.state.sessions.values():
            self.leave(session, now, session.will is not None)
        return [Synchronised(), *self.turn(now)]

    def handle(self, event: Any, now: float) -> list[Any]:
        return self.handle_all([event], now)

    def handle_all(self, events: Iterable[Any], now: float) -> list[Any]:
        self.now = now
        out: list[Any] = []
        for event in events:
            if isinstance(event, WritesSynced):
                for token in [token for token in self.held if token <= event.token]:
                    out += self.held.pop(token)
            elif isinstance(event, StopAsked):
                return [Stop()]
            elif isinstance(event, ClientConnected):
                self.callers[event.connection] = Caller(event.connection)
            elif isinstance(event, ClientLost):
                caller = self.callers.pop(event.connection, None)
                if caller is not None and caller.session is not None:
                    self.leave(caller.session, now, True)
            elif isinstance(event, BytesReceived) and event.connection in self.callers:
                caller = self.callers[event.connection]
                caller.decoder.feed(event.data)
                while caller.number in self.callers and (packet := caller.decoder.next()) is not None:
                    self.on_packet(caller, packet)
        return out + self.turn(now)

    def turn(self, now: float) -> list[Any]:
        """Do what is due; write all down; keep what is said until that is on disk."""
        for session in list(self.state.sessions.values()):
            if session.will_at is not None and session.will_at <= now and session.will is not None:
                will, session.will, session.will_at = session.will, None, None
                self.publish(session.client, Publish(will.topic, will.payload, will.qos, will.retain))
            if session.ends_at is not None and session.ends_at <= now:
                del self.state.sessions[session.client]
        for caller in self.callers.values():
            self.pump(caller)
        said = [Transmit(number, chunks) for number, chunks in self.said.items()]
        held, self.said, self.after = [*said, *self.after], {}, []
        self.syncs += 1
        self.held[self.syncs] = held
        times = [
            at for one in self.state.sessions.values() for at in (one.ends_at, one.will_at) if at is not None
        ]
        timer = [SetTimer(min(times))] if times else []
        if not held:
            # Nothing was said: it can be written with the next.
            self.syncs -= 1
            return timer
        return [Write(KEY, pickle.dumps(self.state)), Sync(self.syncs), *timer]

    def say(self, caller: Caller, packet: AnyPacket) -> None:
        assert caller.decoder.version is not None
        self.said.setdefault(caller.number, []).append(encode(packet, caller.decoder.version))

    def hang_up(self, caller: Caller) -> None:
        self.callers.pop(caller.number)
        self.after.append(CloseClient(caller.number, "done"))

    def leave(self, session: Session, now: float, with_will: bool) -> None:
        if not with_will:
            session.will = None
        session.ends_at = now + session.expiry_s
        if session.will is not None:
            delay = session.will.properties.will_delay_s or 0
            session.will_at = min(now + delay, session.ends_at)

    def on_packet(self, caller: Caller, packet: AnyPacket) -> None:
        session = caller.session
        if isinstance(packet, Connect):
            self.on_connect(caller, packet)
            return
        assert session is not None
        if isinstance(packet, Publish):
            topic = packet.topic
            if (alias := packet.properties.topic_alias) is not None:
                topic = caller.aliases[alias] = topic or caller.aliases[alias]
            if packet.qos < 2 or packet.packet_id not in session.received:
                self.publish(session.client, Publish(topic, packet.payload, packet.qos, packet.retain))
            if packet.qos == 1:
                self.say(caller, Puback(packet.packet_id))
            elif packet.qos == 2:
                session.received.add(packet.packet_id)
                self.say(caller, Pubrec(packet.packet_id))
        elif isinstance(packet, Pubrel):
            session.received.discard(packet.packet_id)
            self.say(caller, Pubcomp(packet.packet_id))
        elif isinstance(packet, Puback | Pubcomp):
            session.flying.pop(packet.packet_id, None)
        elif isinstance(packet, Pubrec):
            session.flying[packet.packet_id] = None
            self.say(caller, Pubrel(packet.packet_id))
        elif isinstance(packet, Subscribe):
            self.on_subscribe(caller, session, packet)
        elif isinstance(packet, Unsubscribe):
            for text in packet.topic_filters:
                session.asked.pop(text, None)
            self.say(caller, Unsuback(packet.packet_id, (0,) * len(packet.topic_filters)))
        elif isinstance(packet, Pingreq):
            self.say(caller, Pingresp())
        else:
            assert isinstance(packet, Disconnect)
            self.leave(session, self.now, packet.reason != 0)
            self.hang_up(caller)

    def on_connect(self, caller: Caller, packet: Connect) -> None:
        sessions, name = self.state.sessions, packet.client_id
        for other in list(self.callers.values()):
            if other is not caller and other.session is not None and other.session.client == name:
                self.leave(other.session, self.now, True)
                self.hang_up(other)
        session = sessions.get(name)
        if session is not None:
            gone = session.ends_at is not None and session.ends_at <= self.now
            if session.will is not None and session.will_at is not None:
                if packet.clean_start or session.will_at <= self.now:
                    will = session.will
                    self.publish(name, Publish(will.topic, will.payload, will.qos))
                session.will = None
            if packet.clean_start or gone:
                del sessions[name]
        present = name in sessions
        session = caller.session = sessions.setdefault(name, Session(name))
        session.ends_at = session.will_at = None
        session.will = packet.will
        session.expiry_s = packet.properties.session_expiry_s or 0
        if packet.version is Version.V311:
            session.expiry_s = 0 if packet.clean_start else 1_000_000
        caller.room = packet.properties.receive_maximum or 65_535
        self.say(caller, Connack(0, present, Properties(topic_alias_maximum=10)))
        for packet_id, sent in session.flying.items():
            again = Pubrel(packet_id) if sent is None else self.sent(session, sent, packet_id, dup=True)
            self.say(caller, again)

    def on_subscribe(self, caller: Caller, session: Session, packet: Subscribe) -> None:
        for asked in packet.asked:
            new = asked.topic_filter not in session.asked
            session.asked[asked.topic_filter] = (asked, packet.properties)
            if asked.topic_filter.startswith("$share") or asked.retain_handling == 2:
                continue
            if asked.retain_handling == 0 or new:
                for kept in self.state.retained.values():
                    if self.wants(asked, packet.properties, kept):
                        self.queue(session, kept, [(asked, packet.properties)], retain=True)
        self.say(caller, Suback(packet.packet_id, tuple(asked.qos for asked in packet.asked)))

    def wants(self, asked: Asked, properties: Properties, packet: Publish) -> bool:
        topic_filter, topic = asked.topic_filter, packet.topic
        if topic_filter.startswith("$share/"):
            topic_filter = topic_filter.split("/", 2)[2]
        if topic_filter.startswith(VIEWED):
            topic = VIEWED + topic
            if not _content_matches((VIEW.where,), VIEW.unknown, packet.payload):
                return False
        where = tuple(value for name, value in properties.user if name == "where")
        unknown = Unknown(dict(properties.user).get("unknown", "wait"))
        return _topic_matches(topic_filter, topic) and _content_matches(where, unknown, packet.payload)

    def publish(self, publisher: str, packet: Publish) -> None:
        if packet.retain:
            self.state.retained.pop(packet.topic, None)
            if packet.payload:
                self.state.retained[packet.topic] = packet
        groups: dict[str, list[Session]] = {}
        for session in self.state.sessions.values():
            matching = [
                one
                for one in session.asked.values()
                if self.wants(one[0], one[1], packet)
                and not (one[0].no_local and publisher == session.client)
            ]
            for asked, _ in matching:
                if asked.topic_filter.startswith("$share/"):
                    groups.setdefault(asked.topic_filter, []).append(session)
            plain = [one for one in matching if not one[0].topic_filter.startswith("$share/")]
            for some in (
                [one for one in plain if not one[0].topic_filter.startswith(VIEWED)],
                [one for one in plain if one[0].topic_filter.startswith(VIEWED)],
            ):
                if some:
                    as_published = any(asked.retain_as_published for asked, _ in some)
                    self.queue(session, packet, some, retain=packet.retain and as_published)
        for text, members in groups.items():
            self.state.turns += 1
            chosen = members[self.state.turns % len(members)]
            self.queue(chosen, packet, [chosen.asked[text]], retain=False)

    def queue(
        self, session: Session, packet: Publish, asked: list[tuple[Asked, Properties]], *, retain: bool
    ) -> None:
        identifiers = [number for _, one in asked for number in one.subscription_identifiers]
        qos = min(packet.qos, max(one.qos for one, _ in asked))
        viewed = f"/{VIEWED}" in f"/{asked[0][0].topic_filter}"
        copy = Publish(
            VIEWED + packet.topic if viewed else packet.topic,
            packet.payload,
            qos,
            retain,
            properties=Properties(subscription_identifiers=tuple(identifiers)),
        )
        if qos or any(caller.session is session for caller in self.callers.values()):
            session.queue.append(copy)

    def sent(self, session: Session, packet: Publish, packet_id: int, dup: bool = False) -> Publish:
        return Publish(
            packet.topic, packet.payload, packet.qos, packet.retain, dup, packet_id, packet.properties
        )

    def pump(self, caller: Caller) -> None:
        session = caller.session
        while (
            session is not None
            and session.queue
            and (not session.queue[0].qos or len(session.flying) < caller.room)
        ):
            packet = session.queue.popleft()
            packet_id = 0
            if packet.qos:
                packet_id = next(
                    one
                    for step in range(1, 65_536)
                    if (one := (session.last_id + step - 1) % 65_535 + 1) not in session.flying
                )
                session.last_id = packet_id
                session.flying[packet_id] = packet
            self.say(caller, self.sent(session, packet, packet_id))
