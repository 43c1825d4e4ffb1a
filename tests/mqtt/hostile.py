"""One client that sends whatever it likes, two that only want to work, and what must hold for all of them.

An `Attack` puts a hostile client into one of `STATES` and lets it send bytes, in pieces. A decoder of its own
judges the same bytes, so that it is known what the broker had to make of them. After each piece two good
clients exchange messages, and everything that the front keeps is measured against its settings; at the end
the hostile client is gone, and nothing may be left of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum, auto
from typing import Any

from tests.mqtt.talk import Client, Talk
from tidings.mqtt import clients
from tidings.mqtt.codec import Decoder, Malformed
from tidings.mqtt.events import (
    ALL_ALLOWED,
    Access,
    AccessChanged,
    ClientCongested,
    ClientExpelled,
    Rule,
)
from tidings.mqtt.packets import (
    AnyPacket,
    Asked,
    Connack,
    Connect,
    Disconnect,
    Properties,
    Publish,
    Pubrec,
    Version,
    Will,
)
from tidings.mqtt.publishing import KNOWN_MAX
from tidings.mqtt.settings import DEFAULT, Settings

V311 = Version.V311
V5 = Version.V5

SETTINGS = replace(
    DEFAULT,
    packet_bytes_max=20_000,
    receive_maximum=8,
    inflight_max=8,
    topic_alias_maximum=4,
    queue_messages=40,
    queue_bytes=30_000,
    queues_bytes=100_000,
    slow_bytes=10_000,
    sessions_max=6,
    subscriptions_max=12,
    retained_messages=10,
    retained_bytes=5_000,
    session_expiry_max_s=12,
    sys_every_s=8.0,
)
"""Bounds that a few packets reach."""

HOSTILE = "hostile"
SECRET = "good/3b1f6c0e"
"""A topic that the hostile client does not know."""

MEANT = frozenset(
    (0x80, 0x81, 0x82, 0x87, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x97, 0x98, 0x99, 0x9E, 0xA1)
)
"""Why a client may be sent away for what it says in packets that are well-formed."""


class Hostile(Client):
    """A client whose every byte is judged beside the broker."""

    def __init__(self, talk: Talk, connection: int, version: Version) -> None:
        super().__init__(talk, connection, version)
        self.judge = Decoder(packet_bytes_max=SETTINGS.packet_bytes_max)
        self.said: list[AnyPacket] = []
        """The whole packets among its bytes, up to the first that is none."""
        self.fault: Malformed | None = None
        """What is wrong with the first that is none."""

    def hear(self, data: bytes) -> None:
        """What the broker answers must be as the standard wants it, in the version that was spoken."""
        if not self.bytes:
            self.version = self.judge.version or self.version
            self._decoder.version = self.version
        super().hear(data)

    def send_bytes(self, data: bytes | str) -> None:
        given = bytes.fromhex(data) if isinstance(data, str) else data
        if self.fault is None:
            self.judge.feed(given)
            try:
                while (packet := self.judge.next()) is not None:
                    self.said.append(packet)
            except Malformed as malformed:
                self.fault = malformed
        super().send_bytes(given)

    @property
    def connected(self) -> Connect | None:
        """Its CONNECT."""
        return next((packet for packet in self.said if isinstance(packet, Connect)), None)


def dial(talk: Talk, version: Version = V5) -> Hostile:
    plain = talk.dial(version)
    hostile = Hostile(talk, plain.connection, version)
    talk.clients[plain.connection] = hostile
    return hostile


def connected(talk: Talk, version: Version, **options: Any) -> Hostile:
    hostile = dial(talk, version)
    hostile.connect(HOSTILE, **options)
    return hostile


KEPT: dict[Version, dict[str, Any]] = {
    Version.V31: {"clean_start": False},
    V311: {"clean_start": False},
    V5: {"clean_start": False, "session_expiry_s": 10},
}


def subscribed(talk: Talk, version: Version) -> Hostile:
    hostile = connected(talk, version)
    where: dict[str, Any] = {"user": (("where", "severity >= 3"),)} if version is V5 else {}
    hostile.subscribe("a/#", "$SYS/#", qos=1)
    hostile.subscribe("$share/g/b/+", qos=2)
    hostile.subscribe("c/+", qos=2, **where)
    return hostile


def sending(talk: Talk, version: Version) -> Hostile:
    """It is in the middle of QoS 2, on the way to the broker."""
    hostile = connected(talk, version, **KEPT[version])
    for packet_id in (1, 2, 3):
        hostile.send(Publish("a/b", b"x", 2, packet_id=packet_id))
    return hostile


def receiving(talk: Talk, version: Version) -> Hostile:
    """It is in the middle of QoS 2 and of QoS 1, on the way to it, and more waits."""
    hostile = connected(talk, version, **KEPT[version])
    hostile.subscribe(Asked("a/#", 2), Asked("b/#", 1))
    helper = talk.connect("helper")
    for number in range(12):
        helper.publish("a/b" if number % 2 else "b/c", b"%d" % number, 2)
    helper.disconnect()
    hostile.send(*(Pubrec(it.packet_id) for it in hostile.take(Publish) if it.qos == 2))
    return hostile


def willing(talk: Talk, version: Version) -> Hostile:
    delay = Properties(will_delay_s=5) if version is V5 else Properties()
    return connected(talk, version, will=Will("a/gone", b"gone", 1, True, delay), **KEPT[version])


def taking_over(talk: Talk, version: Version) -> Hostile:
    """It has taken its own session from another connection."""
    before = receiving(talk, version)
    hostile = connected(talk, version, **KEPT[version])
    assert before.closed
    return hostile


def coming_back(talk: Talk, version: Version) -> Hostile:
    sending(talk, version).lose()
    talk.advance(1.0)
    return connected(talk, version, **KEPT[version])


def restarted(talk: Talk, version: Version) -> Hostile:
    """The broker has crashed since its session began."""
    receiving(talk, version)
    talk.crash()
    return connected(talk, version, **KEPT[version])


def congested(talk: Talk, version: Version) -> Hostile:
    """It reads nothing, and much waits for it."""
    hostile = connected(talk, version, **KEPT[version])
    hostile.subscribe(Asked("a/#", 0), Asked("b/#", 1))
    talk.tell(ClientCongested(hostile.connection, True))
    helper = talk.connect("helper")
    for number in range(24):
        helper.publish("a/b" if number % 2 else "b/c", bytes(2000), 1)
    helper.disconnect()
    return hostile


def restrained(talk: Talk, version: Version) -> Hostile:
    """It takes little: few and small packets, and no explanations."""
    if version is not V5:
        return subscribed(talk, version)
    hostile = connected(
        talk,
        version,
        maximum_packet_bytes=60,
        receive_maximum=1,
        topic_alias_maximum=2,
        request_problem_information=0,
    )
    hostile.subscribe("a/#", "b/#", qos=2, subscription_identifiers=(77,))
    return hostile


def unknown(talk: Talk, version: Version) -> Hostile:
    """Passwords are looked at, and little is allowed."""
    rules = (
        Rule(True, "any", "a/#"),
        Rule(True, "any", "b/%c"),
        Rule(True, "any", "#", "good"),
        Rule(False, "subscribe", "a/secret/+"),
    )
    talk.users = {"name": b"word", "good": b"good"}
    talk.tell(AccessChanged(Access(rules, anonymous=True, verify=True)))
    return dial(talk, version)


def deprived(talk: Talk, version: Version) -> Hostile:
    """It had rights, and some were taken away."""
    hostile = subscribed(talk, version)
    rules = (Rule(True, "any", "a/%c/#"), Rule(True, "any", "#", "good"))
    talk.users = {"good": b"good"}
    talk.tell(AccessChanged(Access(rules, anonymous=True, verify=True)))
    return hostile


def hurried(talk: Talk, version: Version) -> Hostile:
    """It may publish little in a second; see `SETTINGS_OF`."""
    return subscribed(talk, version)


def unconnected(talk: Talk, version: Version) -> Hostile:
    return dial(talk, version)


State = Callable[[Talk, Version], Hostile]

STATES: tuple[State, ...] = (
    unconnected,
    connected,
    subscribed,
    sending,
    receiving,
    willing,
    taking_over,
    coming_back,
    restarted,
    congested,
    restrained,
    unknown,
    deprived,
    hurried,
)

SETTINGS_OF: dict[State, Settings] = {hurried: replace(SETTINGS, publish_rate=3.0, publish_bytes_rate=2000.0)}


class Move(Enum):
    """What may happen between two pieces of what a hostile client says."""

    WAIT = auto()
    """Time passes."""

    FEED = auto()
    """Others publish what it may have asked for."""

    CONGEST = auto()
    """It reads nothing more."""

    RELIEVE = auto()
    RETURN = auto()
    """Its connection is lost, and it is back with another."""

    EXPEL = auto()
    """An operator wants it gone."""

    CRASH = auto()
    """The broker starts again, and all clients connect again."""


Watch = Callable[[Callable[[], None]], None]


def at_once(act: Callable[[], None]) -> None:
    act()


class Attack:
    """A hostile client in one of the states, and two good clients."""

    def __init__(self, state: State, version: Version) -> None:
        self.talk = Talk(settings=SETTINGS_OF.get(state, SETTINGS), access=ALL_ALLOWED)
        self.version = version
        self.hostile = state(self.talk, version)
        self._exchanged = 0
        self._settle_others()
        self.check()

    def _settle_others(self) -> None:
        good = {"username": "good", "password": b"good"}
        self.writer = self.talk.connect("good-writer", V311, **good)
        self.reader = self.talk.connect("good-reader", V5, **good)
        self.reader.subscribe(SECRET, qos=2)

    def say(self, said: bytes | Move, watch: Watch = at_once) -> None:
        """Let the hostile client say something, or something happen to it, and see what comes of it."""
        if isinstance(said, Move):
            watch(lambda: self._move(said))
        elif not self.hostile.closed:
            watch(lambda: self.hostile.send_bytes(said))
        self.check()

    def _move(self, move: Move) -> None:
        talk, hostile = self.talk, self.hostile
        if move is Move.WAIT:
            talk.advance(3.0)
        elif move is Move.FEED:
            for number in range(9):
                topic = ("a/b", "b/c", "c/d")[number % 3]
                self._publish(topic, b'{"severity": %d}' % number, number // 3, retain=number > 5)
        elif move is Move.EXPEL:
            talk.tell(ClientExpelled(HOSTILE))
        elif move is Move.CRASH:
            talk.crash()
            self._settle_others()
            self._return()
        elif move is Move.RETURN:
            if not hostile.closed:
                hostile.lose()
            self._return()
        elif not hostile.closed:
            talk.tell(ClientCongested(hostile.connection, move is Move.CONGEST))

    def _return(self) -> None:
        self.hostile = connected(self.talk, self.version, **KEPT[self.version])

    def check(self) -> None:
        self._check_bounds()
        self._check_others()

    def finish(self) -> None:
        """The hostile client goes, and all that it could leave behind has its time."""
        hostile, talk = self.hostile, self.talk
        while hostile.outgoing and not hostile.closed:
            talk.advance(1.0)
        if hostile.fault is not None:
            assert hostile.closed, f"still connected after: {hostile.fault.text}"
        if hostile.closed:
            self._check_farewell()
        else:
            hostile.lose()
        self.check()
        for _ in range(2):
            talk.advance(SETTINGS.session_expiry_max_s + 3.0)
        self.check()
        good = {"good-writer", "good-reader"}
        assert set(talk.front.sessions) == good, "a session that nobody comes back to"
        assert {client.id for client in talk.front.clients.values()} == good
        left = [key for key in talk.disk if key.startswith("mqtt/") and not key.startswith("mqtt/retained/")]
        assert left == [], "on disk for nobody"
        assert talk.front._core.queues_bytes == 0

    def _check_farewell(self) -> None:
        """A client of 5.0 is told why, with the code for what it did; and nothing after that."""
        hostile = self.hostile
        connect, fault = hostile.connected, hostile.fault
        farewells = [packet for packet in hostile.heard if isinstance(packet, Disconnect)]
        refused = [packet for packet in hostile.heard if isinstance(packet, Connack) and packet.reason]
        assert len(farewells) + len(refused) <= 1
        told = (farewells + refused)[0].reason if farewells or refused else None
        if told is not None:
            assert hostile.heard[-1] is (farewells + refused)[0], "more was said after the end"
            assert told >= 0x80
            assert told in MEANT or refused or (fault is not None and told == fault.reason)
            return
        if connect is None or connect.version is not V5:
            return
        accepted = hostile.bytes[3:4] == b"\0"
        left = any(isinstance(packet, Disconnect) for packet in hostile.said)
        small = (connect.properties.maximum_packet_bytes or 100) < 3
        silent = fault is not None and fault.silent
        assert left or small or silent or not accepted, "closed without a word"

    def _publish(self, topic: str, payload: bytes, qos: int, retain: bool = False) -> None:
        """The good writer says something, no faster than it may."""
        if self.talk.settings.publish_rate:
            self.talk.advance(1.0)
        self.writer.publish(topic, payload, qos, retain=retain)

    def _check_others(self) -> None:
        """Two clients that have nothing to do with it notice nothing."""
        self._exchanged += 1
        qos = self._exchanged % 3
        payload = b"%d" % self._exchanged
        self._publish(SECRET, payload, qos)
        assert self.reader.payloads() == [payload]
        assert self.writer.heard == []
        self.reader.ping()
        assert self.reader.heard == []

    def _check_bounds(self) -> None:
        """Whatever is kept is within the settings."""
        front, settings = self.talk.front, SETTINGS
        assert len(front.sessions) <= settings.sessions_max
        assert front.retained.messages <= settings.retained_messages
        assert front.retained.bytes <= settings.retained_bytes
        total = 0
        for session in front.sessions.values():
            waiting = [*session.queue, *session.unsynced]
            acknowledged = sum(it.qos > 0 for it in waiting)
            # A client that is there may not have been given the time to take it; what it leaves behind when
            # it goes is not dropped.
            assert acknowledged + len(session.inflight) <= settings.queue_messages * 2
            assert sum(it.size for it in waiting if not it.qos) <= settings.slow_bytes
            assert all(it.size > 0 for it in waiting), "what has no size is without bounds"
            assert sum(it.size for it in waiting) == session.queue_bytes <= settings.queue_bytes * 2
            flying = sum(it.size for it in session.inflight.values() if it is not None)
            assert flying == session.inflight_bytes
            total += session.queue_bytes + flying
            assert len(session.subscriptions) <= settings.subscriptions_max
            assert len(session.received) <= settings.receive_maximum
            if session.client is not None:
                assert len(session.inflight) <= session.window
        assert total == front._core.queues_bytes <= settings.queues_bytes * 2
        deferred = sum(size for client in front.clients.values() for _, size in client.deferred)
        assert deferred == front._core.deferred_bytes
        for client in front.clients.values():
            assert client.state is not clients.State.SHUT
            assert client.out == [], "something was not sent at the end of its turn"
            assert client.decoder.held() <= settings.packet_bytes_max
            assert len(client.aliases_in) <= settings.topic_alias_maximum
            assert len(client.aliases_out) <= settings.topic_alias_maximum
            assert len(client.known) <= KNOWN_MAX
            assert len(client.acks) <= settings.receive_maximum


def run(
    state: State,
    version: Version,
    said: Iterable[bytes | Move],
    watch: Watch = at_once,
) -> None:
    """A whole attack; raises if anything is not as it must be. `watch` runs what the hostile client does."""
    attack = Attack(state, version)
    for each in said:
        attack.say(each, watch)
    watch(lambda: attack.talk.advance(1.0))
    attack.finish()
