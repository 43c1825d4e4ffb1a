"""An MQTT client in the simulation: real bytes, a session state of its own, and a diary of all that it saw.

It is told what came and answers what to send; when it connects, loses its connection or reads is decided
elsewhere (`connections`). It does what the standard asks of a client and notes where a server does not do
its part. A client that loses its session state connects clean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidings.mqtt.codec import Decoder, Malformed, encode
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
from tidings.mqtt.reasons import FAILURE, Reason
from tidings.sim.mqtt.trace import Connection, Life, Offer, Receipt, Trace, Wish

PACKET_BYTES_MAX = 1024 * 1024
"""Of what it reads."""

RECEIVE_MAXIMUM = 65_535
"""Where a server does not say: the most that there are packet identifiers."""

RESERVATIONS = ("settling", "absent: ")
"""What the reason string of a SUBACK has that comes before every broker has confirmed. To a client of 3.1.1
this cannot be said, so no SUBACK of its is a promise before the network has settled."""

TURNED_AWAY = (Reason.SERVER_UNAVAILABLE, Reason.SERVER_BUSY)
"""Why a broker may refuse a connection although nothing is wrong with it."""

SENT_AWAY = (Reason.SERVER_SHUTTING_DOWN, Reason.SESSION_TAKEN_OVER, Reason.KEEP_ALIVE_TIMEOUT)
"""Why it may end one."""


@dataclass(frozen=True, slots=True)
class Temper:
    """What kind of client it is."""

    version: Version = Version.V5
    expiry_s: int = 0
    """How long its session outlives its connection; 0: every connection is a new session."""

    keep_alive_s: int = 0
    receive_maximum: int | None = None
    aliases_taken: int = 0
    """Topic aliases that the server may set."""

    aliases_used: int = 0
    """Topic aliases that it sets itself, where the server takes as many."""

    will_qos: int = -1
    """-1: it leaves no will."""

    will_delay_s: int = 0

    @property
    def persistent(self) -> bool:
        return self.expiry_s > 0


@dataclass(slots=True)
class Sending:
    """A publication of QoS 1 or 2 that is not acknowledged in full."""

    offer: Offer
    released: bool = False
    """Whether PUBREC has come, so that PUBREL is what is said again."""


class MqttClient:
    """One client."""

    def __init__(self, diary: Trace, name: str, host: str, temper: Temper) -> None:
        self.diary = diary
        self.name = name
        self.host = host
        self.temper = temper
        self.life: Life | None = None
        """Its session as far as it knows; None before the first CONNACK and after it forgot."""
        self.connection: Connection | None = None
        """From CONNECT until it is over."""
        self.open = False
        """Whether CONNACK has come."""
        self.broken = False
        """Whether what the server sent made it give up on this connection."""
        self.wanted: dict[str, Wish] = {}
        """What it wants, by the text of the topic filter."""
        self.queue: deque[Offer] = deque()
        """Publications to be sent as soon as that is possible."""
        self.sending: dict[int, Sending] = {}
        """By packet identifier, in the order in which they were first sent."""
        self.received: dict[int, None] = {}
        """Packet identifiers of QoS 2 publications taken in and not released."""
        self.acks: list[AnyPacket] = []
        """Acknowledgements that are still to be sent."""
        self.prompt = True
        """Whether it sends them at once."""
        self._forgotten = False
        self._unanswered = False
        """Whether some CONNECT was never answered: the server may know more of the session than it does."""
        self._left_at = 0.0
        self._next_id = 0
        self.asking: dict[int, list[Wish]] = {}
        """What was asked for and is not answered, by packet identifier."""
        self._dropping: dict[int, list[Wish]] = {}
        self._owing: dict[int, None] = {}
        """Packet identifiers of what came over this connection and is not acknowledged in full."""
        self._decoder = Decoder(packet_bytes_max=PACKET_BYTES_MAX, version=temper.version, client=True)
        self._room = RECEIVE_MAXIMUM
        self._aliases_out: dict[str, int] = {}
        self._aliases_out_max = 0
        self._aliases_in: dict[int, str] = {}
        self._out: list[bytes] = []
        self._sent_at = 0.0
        self._keep_alive_s = temper.keep_alive_s
        self._pinged_at: float | None = None
        self._handlers: dict[type, Callable[[Any, float], None]] = {
            Publish: self._on_publish,
            Puback: self._on_puback,
            Pubrec: self._on_pubrec,
            Pubrel: self._on_pubrel,
            Pubcomp: self._on_pubcomp,
            Suback: self._on_suback,
            Unsuback: self._on_unsuback,
            Pingresp: self._on_pingresp,
            Disconnect: self._on_disconnect,
        }

    # Connecting and parting.

    def connect(self, now: float, *, clean: bool = False, will: Offer | None = None) -> bytes:
        """Open a connection; answers what to send on it."""
        assert self.connection is None, "one connection at a time"
        temper, diary = self.temper, self.diary
        # Once it was asked for a clean start, only an answer makes it sure of its session again.
        self._forgotten = clean = clean or self._forgotten or not temper.persistent
        self._decoder = Decoder(packet_bytes_max=PACKET_BYTES_MAX, version=temper.version, client=True)
        self._aliases_in, self._aliases_out, self._room = {}, {}, RECEIVE_MAXIMUM
        self.asking, self._owing = {}, {}
        self._dropping = {0: [wish for wishes in self._dropping.values() for wish in wishes]}
        self.acks, self.open, self.broken, self._pinged_at = [], False, False, None
        self._sent_at, self._keep_alive_s = now, temper.keep_alive_s
        turn = diary.next_turn()
        if clean and self.life is not None:
            self.life.leaving = self.life.leaving or turn
        own = diary.connections.setdefault(self.name, [])
        v5 = temper.version is Version.V5
        self.connection = Connection(
            self.name,
            self.host,
            len(own),
            clean,
            # In 3.1.1 a session that begins clean ends with its connection.
            temper.expiry_s if v5 or not clean else 0,
            will,
            temper.will_delay_s if v5 else 0,
            turn,
            now,
        )
        own.append(self.connection)
        properties = Properties(
            session_expiry_s=temper.expiry_s or None,
            receive_maximum=temper.receive_maximum,
            topic_alias_maximum=temper.aliases_taken or None,
        )
        return self._say(
            Connect(
                temper.version,
                self.name,
                clean,
                temper.keep_alive_s,
                will=None
                if will is None
                else Will(
                    will.topic,
                    will.payload,
                    will.qos,
                    properties=Properties(will_delay_s=temper.will_delay_s or None if v5 else None),
                ),
                properties=properties if v5 else Properties(),
            ),
            now,
        )

    def disconnect(self, now: float, *, with_will: bool = False) -> bytes:
        """Say goodbye; the connection is over once that is sent."""
        assert self.connection is not None, "there is nobody to say it to"
        reason = Reason.DISCONNECT_WITH_WILL if with_will else Reason.SUCCESS
        self.connection.farewell = int(reason) if self.temper.version is Version.V5 else 0
        said = self._say(Disconnect(int(reason)), now)
        self.lost(now)
        return said

    def lost(self, now: float) -> None:
        """The connection is gone."""
        if self.connection is not None:
            self.connection.left = self.diary.next_turn()
            if self.open:
                self._left_at = now
            else:
                self._unanswered = True
            if self.open and self.life is not None and not self.connection.expiry_s:
                self.diary.end(self.life)
                self.life = None
            self.connection = None
            self.open = False

    def forget(self) -> None:
        """Lose the session state, as a client does that keeps it in memory and dies."""
        assert self.connection is None, "its connection dies first"
        self._forgotten = True
        self.queue.clear()

    # What it wants.

    def publish(self, offer: Offer, now: float) -> bytes:
        """Send a publication, now or as soon as there is room."""
        self.queue.append(offer)
        return self._pump(now)

    def subscribe(self, wishes: Sequence[Wish], now: float) -> bytes:
        """Ask for something, all in one SUBSCRIBE: all but topic filter and options must be the same."""
        for wish in wishes:
            before = self.wanted.get(wish.text)
            wish.new = before is None
            if before is not None:
                before.leaving = before.leaving or self.diary.next_turn()
            self.wanted[wish.text] = wish
        return self._ask(wishes, now) if self.open else b""

    def unsubscribe(self, text: str, now: float) -> bytes:
        """Take it back."""
        wish = self.wanted.pop(text)
        wish.leaving = wish.leaving or self.diary.next_turn()
        if not self.open:
            # It is said when there is a connection again, unless the session is gone by then.
            self._dropping[0] = [*self._dropping.get(0, []), wish]
            return b""
        return self._drop([wish], now)

    def release(self, now: float) -> bytes:
        """Send the acknowledgements that were held back."""
        if not self.open:
            return b""
        for ack in self.acks:
            if isinstance(ack, Puback | Pubcomp):
                self._owing.pop(ack.packet_id, None)
        said = b"".join([self._say(ack, now) for ack in self.acks])
        self.acks = []
        return said

    # Time.

    def next_deadline(self) -> float | None:
        """When it wants to be told the time."""
        keep_alive = self._keep_alive_s
        if self.connection is None or not keep_alive:
            return None
        if self._pinged_at is not None:
            return self._pinged_at + keep_alive
        return self._sent_at + (0.7 if self.open else 2.0) * keep_alive

    def on_time(self, now: float) -> bytes | None:
        """Some time has passed; None if it gives the connection up."""
        deadline = self.next_deadline()
        if deadline is None or now < deadline:
            return b""
        if self._pinged_at is not None or not self.open:
            return None
        self._pinged_at = now
        return self._say(Pingreq(), now)

    # What comes.

    def receive(self, data: bytes, now: float) -> bytes:
        """Bytes have come; answers what to send."""
        self._decoder.feed(data)
        while self.connection is not None and not self.broken:
            try:
                packet = self._decoder.next()
            except Malformed as error:
                self._object("well-formed packets", f"a server sent {error}")
                break
            if packet is None:
                break
            if not self.open:
                if isinstance(packet, Connack):
                    self._on_connack(packet, now)
                else:
                    self._object("CONNACK first", f"{type(packet).__name__} came before CONNACK")
            elif (handler := self._handlers.get(type(packet))) is not None:
                handler(packet, now)
            else:
                self._object("no such packet here", f"{type(packet).__name__} came in the midst")
        if self.prompt and self.acks:
            self._out.append(self.release(now))
        said, self._out = b"".join(self._out), []
        return said

    def _object(self, rule: str, text: str) -> None:
        """Note what is against the standard, and give up."""
        number = -1 if self.connection is None else self.connection.number
        self.diary.complain(rule, f"{self.name} at {self.host}, connection {number}: {text}")
        self.broken = True

    def _on_connack(self, packet: Connack, now: float) -> None:
        diary, connection = self.diary, self.connection
        assert connection is not None, "something came on it"
        if packet.reason >= FAILURE:
            if packet.reason not in TURNED_AWAY:
                self._object("welcome", f"CONNECT was refused with {packet.reason:#x}")
            self.broken = True
            return
        if packet.session_present and (connection.clean or (self.life is None and not self._unanswered)):
            self._object("no session from nowhere", "CONNACK tells of a session that cannot be there")
            return
        if packet.session_present and self._unanswered and now - self._left_at > 0.8 * self.temper.expiry_s:
            # Its session may be over, and this be another, of which it was not told.
            self.broken = self._forgotten = True
            return
        self._forgotten = False
        self._unanswered = False
        self.open = True
        connection.opened, connection.opened_at = diary.next_turn(), now
        said = packet.properties
        self._room = said.receive_maximum or RECEIVE_MAXIMUM
        if said.server_keep_alive_s is not None:  # [MQTT-3.1.2-21]
            self._keep_alive_s = said.server_keep_alive_s
        self._aliases_out_max = min(self.temper.aliases_used, said.topic_alias_maximum or 0)
        if packet.session_present and self.life is not None:
            connection.life = self.life
            for packet_id, sending in self.sending.items():
                self._out.append(self._send_again(packet_id, sending, now))
            self._out.append(self._drop(self._dropping.pop(0), now))
            again = [one for one in self.wanted.values() if one.granted is None and one.settling is None]
        else:
            self._begin_anew(connection)
            again = list(self.wanted.values())
        for wish in again:
            self._out.append(self._ask([wish], now))
        self._out.append(self._pump(now))

    def _begin_anew(self, connection: Connection) -> None:
        """The server has no session: what there was on this side is worth nothing [MQTT-3.2.2-5]."""
        if self.life is not None:
            self.diary.end(self.life)
        self.life = connection.life = self.diary.begin(self.name, self.host)
        self.sending, self.received, self._owing, self._dropping = {}, {}, {}, {}
        for text, wish in self.wanted.items():
            self.wanted[text] = replace(
                wish, life=self.life, new=True, asked=0, granted=None, settling=None, denied=None,
                leaving=None, ended=None,
            )  # fmt: skip

    def _on_publish(self, packet: Publish, now: float) -> None:
        assert self.life is not None, "CONNACK has come"
        assert self.connection is not None, "and on this connection"
        topic, packet_id = packet.topic, packet.packet_id
        alias = packet.properties.topic_alias
        if alias is not None:
            if not 1 <= alias <= self.temper.aliases_taken or not (topic or alias in self._aliases_in):
                self._object("topic aliases", f"topic alias {alias} was never agreed on")
                return
            topic = self._aliases_in[alias] = topic or self._aliases_in[alias]
        again = packet.qos == 2 and packet_id in self.received
        if packet.qos:
            if packet_id in self._owing or (packet_id in self.received and not (again and packet.dup)):
                self._object("packet identifiers", f"{packet_id} is used although it is in use")
                return
            self._owing[packet_id] = None
            most = self.temper.receive_maximum or RECEIVE_MAXIMUM
            if len(self._owing) > most:
                self._object("receive maximum", f"{len(self._owing)} under way, {most} are allowed")
                return
            if packet.qos == 1:
                self.acks.append(Puback(packet_id))
            else:
                self.received[packet_id] = None
                self.acks.append(Pubrec(packet_id))
        self.diary.receipts.append(
            Receipt(
                self.diary.next_turn(),
                now,
                self.life,
                self.connection,
                topic,
                packet.payload,
                packet.qos,
                packet.retain,
                packet.dup,
                again,
                packet.properties.subscription_identifiers,
            )
        )

    def _on_pubrel(self, packet: Pubrel, now: float) -> None:  # noqa: ARG002
        known = packet.packet_id in self.received
        self.received.pop(packet.packet_id, None)
        v5 = self.temper.version is Version.V5
        self.acks.append(
            Pubcomp(packet.packet_id, 0 if known or not v5 else Reason.PACKET_IDENTIFIER_NOT_FOUND)
        )

    def _on_puback(self, packet: Puback, now: float) -> None:
        sending = self.sending.get(packet.packet_id)
        if sending is None or sending.offer.qos != 1:
            self._object("acknowledgements", f"PUBACK {packet.packet_id} is for nothing that was sent")
            return
        self._finish(packet.packet_id, packet.reason, now)

    def _on_pubrec(self, packet: Pubrec, now: float) -> None:
        sending = self.sending.get(packet.packet_id)
        if sending is None or sending.offer.qos != 2 or sending.released:
            self._object("acknowledgements", f"PUBREC {packet.packet_id} is for nothing that was sent")
        elif packet.reason >= FAILURE:
            self._finish(packet.packet_id, packet.reason, now)
        else:
            sending.released = True
            self._out.append(self._say(Pubrel(packet.packet_id), now))

    def _on_pubcomp(self, packet: Pubcomp, now: float) -> None:
        sending = self.sending.get(packet.packet_id)
        if sending is None or not sending.released:
            self._object("acknowledgements", f"PUBCOMP {packet.packet_id} is for nothing that was released")
            return
        # A server that has forgotten the identifier has done its part before (section 3.7.2.1).
        self._finish(packet.packet_id, 0, now)

    def _finish(self, packet_id: int, reason: int, now: float) -> None:
        offer = self.sending.pop(packet_id).offer
        if reason >= FAILURE:
            offer.rejected = reason
        else:
            offer.accepted, offer.accepted_at = self.diary.next_turn(), now
        self._out.append(self._pump(now))

    def _on_suback(self, packet: Suback, now: float) -> None:  # noqa: ARG002
        wishes = self.asking.pop(packet.packet_id, None)
        if wishes is None or len(wishes) != len(packet.reasons):
            self._object("acknowledgements", f"SUBACK {packet.packet_id} does not fit what was asked for")
            return
        turn = self.diary.next_turn()
        told = packet.properties.reason_string or ""
        for wish, reason in zip(wishes, packet.reasons, strict=True):
            if reason >= FAILURE:
                wish.denied = reason
                wish.leaving, wish.ended = wish.leaving or turn, turn
                self.diary.complain("subscriptions are granted", f"{wish} was refused, {reason:#x}: {told}")
                continue
            if reason != wish.qos:
                self.diary.complain("granted QoS", f"{wish} was granted at QoS {reason}")
            if self.temper.version is Version.V311 or any(one in told for one in RESERVATIONS):
                wish.settling = wish.settling or turn
            else:
                wish.granted = wish.granted or turn
            for other in self.diary.wishes:
                if (
                    other.life is wish.life
                    and other.text == wish.text
                    and other is not wish
                    and other.asked < wish.asked_last
                ):
                    other.ended = other.ended or turn

    def _on_unsuback(self, packet: Unsuback, now: float) -> None:  # noqa: ARG002
        wishes = self._dropping.pop(packet.packet_id, None)
        if wishes is None:
            self._object("acknowledgements", f"UNSUBACK {packet.packet_id} does not fit what was sent")
            return
        turn = self.diary.next_turn()
        for wish in wishes:
            for other in self.diary.wishes:
                # All of that name, unless the name was asked for anew meanwhile.
                if other.life is wish.life and other.text == wish.text and other.leaving is not None:
                    other.ended = other.ended or turn

    def _on_pingresp(self, packet: Pingresp, now: float) -> None:  # noqa: ARG002
        self._pinged_at = None

    def _on_disconnect(self, packet: Disconnect, now: float) -> None:  # noqa: ARG002
        slow = self.diary.limited and packet.reason == Reason.QUOTA_EXCEEDED
        if packet.reason not in SENT_AWAY and not slow:
            told = packet.properties.reason_string or ""
            self._object("no connection is ended without need", f"DISCONNECT {packet.reason:#x} {told}")
        self.broken = True

    # Saying.

    def _say(self, packet: AnyPacket, now: float) -> bytes:
        self._sent_at = now
        return encode(packet, self.temper.version)

    def _pump(self, now: float) -> bytes:
        """Send what waits, as far as the server takes it."""
        said = []
        while self.open and self.queue and (not self.queue[0].qos or len(self.sending) < self._room):
            offer = self.queue.popleft()
            packet_id = 0
            if offer.qos:
                packet_id = self._fresh_id()
                self.sending[packet_id] = Sending(offer)
            said.append(self._say_publish(packet_id, offer, now))
        return b"".join(said)

    def _send_again(self, packet_id: int, sending: Sending, now: float) -> bytes:
        if sending.released:
            return self._say(Pubrel(packet_id), now)
        return self._say_publish(packet_id, sending.offer, now, dup=True)

    def _say_publish(self, packet_id: int, offer: Offer, now: float, *, dup: bool = False) -> bytes:
        if not offer.sends:
            offer.at = now
        offer.sends.append(self.diary.next_turn())
        topic, alias = offer.topic, None
        if self._aliases_out_max:
            alias = self._aliases_out.get(topic)
            if alias is not None:
                topic = ""
            else:
                # When all are in use the oldest is given up.
                if len(self._aliases_out) < self._aliases_out_max:
                    alias = len(self._aliases_out) + 1
                else:
                    alias = self._aliases_out.pop(next(iter(self._aliases_out)))
                self._aliases_out[topic] = alias
        return self._say(
            Publish(
                topic,
                offer.payload,
                offer.qos,
                offer.retain,
                dup,
                packet_id,
                Properties(topic_alias=alias, message_expiry_s=offer.expiry_s),
            ),
            now,
        )

    def _ask(self, wishes: Sequence[Wish], now: float) -> bytes:
        packet_id = self._fresh_id()
        self.asking[packet_id] = list(wishes)
        turn = self.diary.next_turn()
        for wish in wishes:
            assert self.life is not None, "CONNACK has come"
            wish.life = self.life
            if not wish.asked:
                wish.asked = turn
                self.diary.wishes.append(wish)
            wish.asked_last = turn
        first = wishes[0]
        v5 = self.temper.version is Version.V5
        user = [("where", text) for text in first.where]
        if first.unknown != "wait":
            user.append(("unknown", str(first.unknown)))
        return self._say(
            Subscribe(
                packet_id,
                tuple(
                    Asked(wish.text, wish.qos, wish.no_local, wish.retain_as_published, wish.retain_handling)
                    for wish in wishes
                ),
                Properties(
                    user=tuple(user),
                    subscription_identifiers=(first.identifier,) if first.identifier else (),
                )
                if v5
                else Properties(),
            ),
            now,
        )

    def _drop(self, wishes: Iterable[Wish], now: float) -> bytes:
        # What was asked for again meanwhile must not go.
        gone = [wish for wish in wishes if wish.text not in self.wanted]
        if not gone:
            return b""
        packet_id = self._fresh_id()
        self._dropping[packet_id] = gone
        return self._say(Unsubscribe(packet_id, tuple(dict.fromkeys(wish.text for wish in gone))), now)

    def _fresh_id(self) -> int:
        while True:
            self._next_id = self._next_id % 65_535 + 1
            if not (
                self._next_id in self.sending
                or self._next_id in self.asking
                or self._next_id in self._dropping
            ):
                return self._next_id
