"""A client's connection: what it has agreed to, what is to be sent to it.

Bytes for a client gather in `out` and leave together at the end of a turn. What outlives the connection is in
`sessions`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum, auto
from typing import TYPE_CHECKING

import msgspec

from tidings.mqtt.codec import Decoder, PublishHead, encode
from tidings.mqtt.core import Core, who
from tidings.mqtt.events import Chunk
from tidings.mqtt.packets import (
    NO_PROPERTIES,
    AnyPacket,
    Connack,
    Connect,
    Disconnect,
    Properties,
    Publish,
    Version,
)
from tidings.overlay.publication import Head

if TYPE_CHECKING:
    from tidings.mqtt.sessions import Session

RECEIVE_MAXIMUM = 65_535
"""Of a client that does not say [section 3.1.2.11.3]."""


REASON_OVERHEAD_BYTES = 10
"""What a reason string takes beside its text: its head, a longer length, the mark of a cut."""

REASON_BYTES_MIN = 16
"""Less than this of a reason says nothing."""


class Known(msgspec.Struct, frozen=True, gc=False):
    """What the head of a client's packets means for it."""

    head: PublishHead
    offered: Head
    """The same as the broker is told."""

    plain: bool
    """Whether packets that have it are offered together, and need no thought but the broker's."""

    bare: bool
    """Whether it is of QoS 0 and has no properties."""


class State(Enum):
    """How far a connection has come."""

    NEW = auto()
    """Nothing but CONNECT may come."""

    VERIFYING = auto()
    """It is being found out who the client is; what it says is kept unread."""

    OPEN = auto()
    SHUT = auto()
    """Nothing is heard or said any more."""


class Client:
    """One connection."""

    __slots__ = (
        "__weakref__",
        "acks",
        "aliases_in",
        "aliases_out",
        "aliases_out_max",
        "bridge",
        "certified",
        "closed",
        "congested",
        "connect",
        "core",
        "decoder",
        "deferred",
        "deferred_bytes",
        "deferred_count",
        "generation",
        "heard_at",
        "id",
        "keep_alive_s",
        "known",
        "listener",
        "number",
        "out",
        "packet_bytes_max",
        "peer",
        "problem_information",
        "quiet",
        "rate_at",
        "rate_bytes_left",
        "rate_left",
        "receive_maximum",
        "repeated",
        "session",
        "slow",
        "state",
        "under_way",
        "unread",
        "user",
        "v5",
        "work",
    )

    def __init__(self, core: Core, number: int, peer: str, certified: str | None, listener: str) -> None:
        self.core = core
        self.number = number
        self.peer = peer
        self.certified = certified
        self.listener = listener
        self.decoder = Decoder(packet_bytes_max=core.settings.packet_bytes_max)
        self.state = State.NEW
        self.connect: Connect | None = None
        """While it is being found out who it is."""
        self.id = ""
        self.user = ""
        """As it says, until it is open."""
        self.session: Session | None = None
        self.generation = 0
        """Which connection of its session this is."""
        self.v5 = True
        self.bridge = False
        """True for a bridge of another broker that says so in CONNECT."""
        self.out: list[Chunk] = []
        self.congested = False
        self.heard_at = core.now
        self.keep_alive_s = 0
        self.receive_maximum = RECEIVE_MAXIMUM
        self.packet_bytes_max = 0
        """The largest packet it takes; 0 for any."""
        self.problem_information = True
        self.known: dict[bytes, Known] = {}
        """By the head of a packet: what it means."""
        self.aliases_in: dict[int, str] = {}
        self.aliases_out: dict[str, int] = {}
        self.aliases_out_max = 0
        self.acks: dict[int, bytes | None] = {}
        """By token: answers to its publications in the order in which they came; None while there is none."""
        self.repeated: dict[int, int] = {}
        """By token: how often the client has said it again meanwhile."""
        self.under_way = 0
        """Publications of QoS 1 among them that are not answered."""
        self.deferred: deque[tuple[AnyPacket, int]] = deque()
        """What it has said while its publications are not taken, from the first one on, with the size of each
        packet. Acknowledgements, PINGREQ and DISCONNECT are not among it."""
        self.deferred_bytes = 0
        self.deferred_count = 0
        """Publications of QoS 1 and 2 among them: they count against what the client may have under way."""
        self.slow = False
        """Whether it could not take in time what was queued for it, although all that it has sent was read.
        Then nothing waits for it, and the bounds of its queue apply as they are."""
        self.unread = False
        """Whether something it has said waits for its turn."""
        self.work: Iterator[None] | None = None
        """A packet of it that is acted on in parts, each of which ends where another turn is needed."""
        self.closed = False
        """Whether nobody waits for answers: the connection is gone, and only what it has sent is left."""
        self.quiet = False
        """Whether nothing is read from it for a while."""
        self.rate_at = core.now
        self.rate_left = self.rate_bytes_left = 0.0

    @property
    def who(self) -> dict[str, str]:
        """What lines of the log say of it."""
        return who(self.id, self.user, self.peer)

    @property
    def version(self) -> Version:
        return Version.V5 if self.v5 else Version.V311

    def defer(self, packet: AnyPacket, size: int) -> None:
        """Keep a packet until publications are taken again."""
        self.deferred.append((packet, size))
        self.deferred_count += isinstance(packet, Publish) and packet.qos > 0
        self.deferred_bytes += size
        self.core.deferred_bytes += size

    def next_deferred(self) -> AnyPacket:
        """Take the first packet that was kept."""
        packet, size = self.deferred.popleft()
        self.deferred_count -= isinstance(packet, Publish) and packet.qos > 0
        self.deferred_bytes -= size
        self.core.deferred_bytes -= size
        return packet

    def put(self, data: bytes) -> None:
        """Have bytes sent."""
        self.out.append(data)
        self.core.dirty[self] = None

    def takes(self, packet: AnyPacket) -> bool:
        """Whether a packet is small enough for the client."""
        return not self.packet_bytes_max or len(encode(packet, self.version)) <= self.packet_bytes_max

    def send(self, packet: AnyPacket) -> bool:
        """Have a packet sent; False if it is larger than the client takes, and was not.

        A reason string is cut and user properties of ours are left out first [MQTT-3.2.2-19], [MQTT-3.9.2-2].
        """
        if not isinstance(packet, Publish | Connack | Disconnect) and not self.problem_information:
            packet = _without_explanation(packet)
        data = encode(packet, self.version)
        if self.packet_bytes_max and len(data) > self.packet_bytes_max:
            if not isinstance(packet, Publish):
                data = self._shortened(packet, len(data) - self.packet_bytes_max)
            if len(data) > self.packet_bytes_max:
                return False
        self.core.counters.packets_out += 1
        self.put(data)
        return True

    def _shortened(self, packet: AnyPacket, excess: int) -> bytes:
        """A packet with less explanation. What a reason string points at is at its end, so that stays."""
        reason = getattr(packet, "properties", NO_PROPERTIES).reason_string
        bare = _without_explanation(packet)
        data = encode(bare, self.version)
        room = self.packet_bytes_max - len(data) - REASON_OVERHEAD_BYTES
        if reason is None or excess <= 0 or room < REASON_BYTES_MIN:
            return data
        kept = reason.encode()[-room:].decode(errors="ignore")
        explained = Properties(reason_string=kept if len(kept) == len(reason) else f"…{kept}")
        return encode(msgspec.structs.replace(bare, properties=explained), self.version)

    # Answers to publications, in the order in which those came [MQTT-4.6.0-2], [MQTT-4.6.0-3].

    def await_answer(self, token: int) -> None:
        self.acks[token] = None

    def answer(self, token: int, data: bytes) -> None:
        acks = self.acks
        if token not in acks:
            return
        acks[token] = data
        while acks:
            first = next(iter(acks))
            ready = acks[first]
            if ready is None:
                return
            del acks[first]
            self.core.counters.packets_out += 1
            self.put(ready)

    def alias_for(self, topic: str) -> tuple[str, int | None]:
        """The topic and the alias to send it with."""
        if not self.aliases_out_max:
            return topic, None
        alias = self.aliases_out.get(topic)
        if alias is not None:
            return "", alias
        if len(self.aliases_out) >= self.aliases_out_max:
            return topic, None
        alias = self.aliases_out[topic] = len(self.aliases_out) + 1
        return topic, alias


def _without_explanation(packet: AnyPacket) -> AnyPacket:
    properties: Properties = getattr(packet, "properties", NO_PROPERTIES)
    if properties.reason_string is None and not properties.user:
        return packet
    bare = msgspec.structs.replace(properties, reason_string=None, user=())
    return msgspec.structs.replace(packet, properties=NO_PROPERTIES if bare == NO_PROPERTIES else bare)
