"""Publications: from clients to the broker, and what is answered to them and by them.

What one read of a client brought is one batch, as long as nothing about its packets needs thought
(`Known.plain`): those of QoS 0 and 1 that the client may publish, without an alias and not to be retained.
Others are taken one by one. What the broker gives to clients is the business of `fanout`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tidings.language import names
from tidings.language.views import PREFIX
from tidings.mqtt.access import allowed
from tidings.mqtt.clients import Client, Known, State
from tidings.mqtt.codec import Malformed, Publishes, PublishHead, encode, publish_head
from tidings.mqtt.core import Core
from tidings.mqtt.events import Access
from tidings.mqtt.packets import (
    NO_PROPERTIES,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Version,
    Will,
)
from tidings.mqtt.reasons import FAILURE, Reason
from tidings.mqtt.retained import Retained
from tidings.mqtt.sessions import Session, row
from tidings.mqtt.subscribing import OWN, SHARE, VIEW
from tidings.overlay.broker import Broker
from tidings.overlay.events import Accept, PublicationsOffered, Reject
from tidings.overlay.publication import Batch, Head, Packets, Publication

KNOWN_MAX = 1024
"""Heads of one client's packets for which it is remembered what they mean, …"""

KNOWN_BYTES_MAX = 512
"""… if they are no longer than this, so that memory is bounded."""

NO_TOKEN = 0
"""Of what has no answer: QoS 0 and wills."""
_QOS_SHIFT = 16
_NOBODY = 1 << 18
"""In a token: that nobody subscribes to the topic."""
_GENERATION_SHIFT = 20

REQUESTS = "$tidings/"
"""Where the broker itself is asked for something."""

BRIDGE_STATE = "$SYS/broker/connection/"
"""Below it a mosquitto bridge publishes to both of its ends whether it is connected, and has its will."""


def is_bridge_state(topic: str) -> bool:
    """True for the notifications of bridges.

    They are accepted, because a bridge whose will is refused cannot connect. They are dropped, because `$SYS`
    has what this broker says of itself.
    """
    return topic.startswith(BRIDGE_STATE)


class Publishing:
    """All publications of clients here."""

    def __init__(
        self,
        core: Core,
        broker: Broker,
        sessions: dict[str, Session],
        retained: Retained,
        request: Callable[[Client, Publish], None],
    ) -> None:
        self._core = core
        self._broker = broker
        self._sessions = sessions
        self._retained = retained
        self._request = request
        self.access = Access()
        self._purged_at = 0.0

    # In, many at once.

    def on_publishes(self, client: Client, read: Publishes) -> None:
        """Act on packets in their order."""
        self._core.counters.packets_in += len(read)
        heads = [self._known(client, read.heads[0])]
        which = read.which
        count, first, begun = len(read), 0, 0
        if len(read.heads) == 1:
            if heads[0].plain:
                self._offer(client, read, heads, 0, count, 0)
            else:
                self._offer_singly(client, read, heads, 0, count, 0)
            return
        ids = 0
        # Heads are looked at when the first packet that has them comes: one that is at fault ends it there.
        for at in range(count + 1):
            plain = None
            if at < count:
                while which[at] >= len(heads):
                    try:
                        heads.append(self._known(client, read.heads[len(heads)]))
                    except Malformed:
                        self._offer_some(client, read, heads, first, at, begun)
                        raise
                plain = heads[which[at]].plain
            if at == first:
                before = plain
            elif plain is not before:
                self._offer_some(client, read, heads, first, at, begun)
                if client.state is not State.OPEN:
                    return
                first, begun, before = at, ids, plain
            if at < count and heads[which[at]].head.qos:
                ids += 1

    def _offer_some(
        self, client: Client, read: Publishes, heads: list[Known], first: int, end: int, ids: int
    ) -> None:
        if first < end and heads[read.which[first]].plain:
            self._offer(client, read, heads, first, end, ids)
        elif first < end:
            self._offer_singly(client, read, heads, first, end, ids)

    def _offer_singly(
        self, client: Client, read: Publishes, heads: list[Known], first: int, end: int, ids: int
    ) -> None:
        for at in range(first, end):
            head = heads[read.which[at]].head
            packet_id = 0
            if head.qos:
                packet_id = read.packet_ids[ids]
                ids += 1
            payload = read.data[read.bodies[at] : read.ends[at]]
            self.on_publish(
                client,
                Publish(head.topic, payload, head.qos, head.retain, head.dup, packet_id, head.properties),
            )
            if client.state is not State.OPEN:
                return

    def _known(self, client: Client, key: bytes) -> Known:
        """What the head of a packet means for a client."""
        known = client.known.get(key)
        if known is None:
            head = publish_head(key, client.decoder.version)
            if head.properties.subscription_identifiers:  # [MQTT-3.3.4-6]
                raise Malformed(Reason.PROTOCOL_ERROR, "A client's PUBLISH has a subscription identifier.")
            bare = not head.qos and len(key) == 3 + (key[1] << 8 | key[2])
            known = Known(head, self._head(client, head), self._is_plain(client, head), bare)
            if len(key) <= KNOWN_BYTES_MAX:
                if len(client.known) >= KNOWN_MAX:
                    client.known.clear()
                client.known[key] = known
        return known

    def _head(self, client: Client, head: PublishHead) -> Head:
        return _overlay_head(client.id, head.topic, head.qos, False, head.properties)

    def _is_plain(self, client: Client, head: PublishHead) -> bool:
        """Whether packets with a head need no thought but what the broker has."""
        return (
            head.qos < 2
            and not head.retain
            and head.properties.topic_alias is None
            and head.properties.payload_format != 1
            and not head.topic.startswith(REQUESTS)
            and not is_bridge_state(head.topic)
            and self.topic_objection(head.topic, client.user, client.id)[0] is None
        )

    def _offer(
        self, client: Client, read: Publishes, heads: list[Known], first: int, end: int, ids: int
    ) -> None:
        """Hand packets that need no thought to the broker, all at once."""
        broker, counters, settings = self._broker, self._core.counters, self._core.settings
        data = read.data
        which: Sequence[int]
        own: tuple[Head, ...]
        if len(read.heads) == 1:
            which, own = (), (heads[0].offered,)
            acknowledged = end - first if heads[0].head.qos else 0
        else:
            which = read.which[first:end]
            own = tuple([known.offered for known in heads])
            acknowledged = sum(own[at].qos for at in which)
        under_way = client.under_way + len(client.session.received) if client.session is not None else 0
        if client.v5 and under_way + acknowledged > settings.receive_maximum:
            self._offer_singly(client, read, heads, first, end, ids)
            return
        begins, starts, ends = read.begins[first:end], read.bodies[first:end], read.ends[first:end]
        counters.published += end - first
        counters.published_bytes += sum(ends) - sum(starts)
        tokens: Sequence[int] = (NO_TOKEN,) * (end - first)
        if acknowledged:
            tokens = self._tokens(client, read, own, which, first, end, ids)
        # Packets of QoS 0 may be handed on as they are.
        bare = heads[0].bare if len(heads) == 1 else all(known.bare for known in heads)
        packets = Packets(client.version, begins, bare)
        batch = Batch("", 0, "", (), own, which, (), data, starts, ends, (), packets)
        broker.tell(PublicationsOffered(client.id, tokens, batch))

    def _tokens(
        self,
        client: Client,
        read: Publishes,
        heads: Sequence[Head],
        which: Sequence[int],
        first: int,
        end: int,
        ids: int,
    ) -> list[int]:
        """For each of some packets what the broker gives back with its answer."""
        base = client.generation << _GENERATION_SHIFT | 1 << _QOS_SHIFT
        marks = [base | (_NOBODY if head.qos and self._broker.nobody(head.topic) else 0) for head in heads]
        acks = client.acks
        tokens: list[int] = []
        for at in range(end - first):
            place = which[at] if which else 0
            if not heads[place].qos:
                tokens.append(NO_TOKEN)
                continue
            token = marks[place] | read.packet_ids[ids]
            ids += 1
            acks[token] = None
            tokens.append(token)
        client.under_way += sum(1 for token in tokens if token)
        return tokens

    # In, one at a time.

    def on_publish(self, client: Client, packet: Publish) -> None:
        session = client.session
        assert session is not None, "a client that publishes has a session"
        topic, properties, qos = packet.topic, packet.properties, packet.qos
        if properties.topic_alias is not None:
            topic = self._resolve(client, topic, properties.topic_alias)
        if qos:
            if qos == 2 and packet.packet_id in session.received:
                # [MQTT-4.3.3-10]: it is here already, or under way, perhaps from an earlier connection.
                if session.received[packet.packet_id]:
                    client.send(Pubrec(packet.packet_id))
                else:
                    token = _token(client, 2, packet.packet_id)
                    if token in client.acks:
                        client.repeated[token] = client.repeated.get(token, 0) + 1
                    client.await_answer(token)
                return
            under_way = client.under_way + len(session.received)
            if client.v5 and under_way >= self._core.settings.receive_maximum:
                raise receive_maximum_exceeded(self._core.settings.receive_maximum)
        counters = self._core.counters
        counters.published += 1
        counters.published_bytes += len(packet.payload)
        token = NO_TOKEN
        if qos:
            token = _token(client, qos, packet.packet_id)
            client.await_answer(token)
            client.under_way += qos == 1
        if topic.startswith(REQUESTS):
            self._request(client, msgspec.structs.replace(packet, topic=topic))
            self._answer(client, token, Reason.SUCCESS, "")
            return
        if is_bridge_state(topic):
            self._answer(client, token, Reason.SUCCESS, "")
            return
        if packet.retain and self._ignores_retain(topic):
            packet = msgspec.structs.replace(packet, retain=False)
        reason, text = self._objection(client, topic, packet)
        if reason is not None:
            self._core.refuse(client.id, f"publish {topic[:200]}", text)
            self._answer(client, token, reason, text)
            return
        if qos == 1 and self._broker.nobody(topic):
            token = self._retoken(client, token, token | _NOBODY)
        if qos == 2:
            session.received[packet.packet_id] = False
            if session.durable:
                self._core.write(_received_row(session, packet.packet_id), session.id.encode())
        head = _overlay_head(client.id, topic, qos, packet.retain, properties)
        self._take(client.id, token, head, packet.payload)

    def _retoken(self, client: Client, old: int, new: int) -> int:
        del client.acks[old]
        client.await_answer(new)
        return new

    def _resolve(self, client: Client, topic: str, alias: int) -> str:
        """[MQTT-3.3.2-8], [MQTT-3.3.2-9]: the topic that an alias stands for."""
        if not 0 < alias <= self._core.settings.topic_alias_maximum:
            raise Malformed(
                Reason.TOPIC_ALIAS_INVALID,
                f"Topic alias {alias} is not within 1 to {self._core.settings.topic_alias_maximum}.",
            )
        if topic:
            client.aliases_in[alias] = topic
            return topic
        known = client.aliases_in.get(alias)
        if known is None:
            raise Malformed(Reason.PROTOCOL_ERROR, f"Topic alias {alias} has not been given a topic.")
        return known

    def _objection(self, client: Client, topic: str, packet: Publish) -> tuple[Reason | None, str]:
        reason, text = self.topic_objection(topic, client.user, client.id)
        if reason is not None:
            return reason, text
        if packet.properties.payload_format == 1:
            try:
                packet.payload.decode()
            except UnicodeDecodeError as error:
                return Reason.PAYLOAD_FORMAT_INVALID, f"the payload is not UTF-8, as it says: {error.reason}"
        if (
            packet.retain
            and packet.payload
            and not self._fits(_overlay_head(client.id, topic, 0, True, packet.properties), packet.payload)
        ):
            return Reason.QUOTA_EXCEEDED, "there is no room for more retained messages"
        return None, ""

    def topic_objection(self, topic: str, user: str, client_id: str) -> tuple[Reason | None, str]:
        """Why a client may not publish to a topic, by its own hand or by its will."""
        if topic.startswith((*OWN, SHARE, REQUESTS)) or topic in ("$SYS", "$share"):
            return Reason.NOT_AUTHORIZED, "topics of the broker itself are not published to"
        if topic == PREFIX or topic.startswith(VIEW):
            return (
                Reason.TOPIC_NAME_INVALID,
                "a view is only looked at; publish to the topics that it looks at",
            )
        if fault := names.name_fault(topic):
            return Reason.TOPIC_NAME_INVALID, fault
        if not allowed(self.access, user, client_id, "publish", topic):
            return Reason.NOT_AUTHORIZED, "this client may not publish there"
        return None, ""

    def _fits(self, head: Head, payload: bytes) -> bool:
        """Whether there is room to retain it, perhaps after those that have expired are gone."""
        message = self._message(head, payload)
        if self._retained.fits(message):
            return True
        core = self._core
        if core.now - self._purged_at < 1.0:
            return False
        self._purged_at = core.now
        for topic in self._retained.purge(core.now):
            core.erase(row("retained", topic))
        return self._retained.fits(message)

    def _ignores_retain(self, topic: str) -> bool:
        """Whether there is nothing to retain at a topic: the open events of a gathered one are there."""
        gathered = self._broker.gathers(topic)
        self._core.counters.retain_ignored += gathered
        return gathered

    def _take(self, session: str, token: int, head: Head, payload: bytes) -> None:
        """Hand a publication to the broker, and keep it if it is to be retained."""
        if head.retain:
            self._retain(head, payload)
        self._broker.tell(PublicationsOffered(session, (token,), Batch.offered(head, payload)))

    def publish_will(self, client_id: str, will: Will) -> None:
        """The last word of a client that is gone."""
        properties = msgspec.structs.replace(will.properties, will_delay_s=None)
        head = _overlay_head(client_id, will.topic, will.qos, will.retain, properties)
        if will.retain and (self._ignores_retain(will.topic) or not self._fits(head, will.payload)):
            head = msgspec.structs.replace(head, retain=False)
        self._take(client_id, NO_TOKEN, head, will.payload)

    # Retained messages.

    def _message(self, head: Head, payload: bytes) -> Publication:
        """What is kept of a publication that is retained."""
        core = self._broker.core
        kept = Batch.offered(msgspec.structs.replace(head, retain=True), payload)
        return kept.numbered(core.id, core.incarnation, "", (0,), core.at_us).one(0)

    def _retain(self, head: Head, payload: bytes) -> None:
        """[MQTT-3.3.1-5], [MQTT-3.3.1-6]: it takes the place of the one before; an empty one removes it."""
        key = row("retained", head.topic)
        if not payload:
            if self._retained.remove(head.topic):
                self._core.erase(key)
            return
        message = self._message(head, payload)
        self._retained.keep(message)
        self._core.write(key, msgspec.msgpack.encode(message))

    # Answers.

    def on_accepted(self, effect: Accept) -> None:
        session = self._sessions[effect.session]
        for token in effect.tokens:
            if token:
                self._settle(session, token, Reason.SUCCESS, "")

    def on_rejected(self, effect: Reject) -> None:
        session = self._sessions.get(effect.session)
        self._core.refuse(effect.session, f"publish {effect.topic[:200]}", effect.reason)
        if session is not None and effect.token:
            self._settle(session, effect.token, Reason.PAYLOAD_FORMAT_INVALID, effect.reason)

    def _settle(self, session: Session, token: int, reason: Reason, text: str) -> None:
        packet_id = token & 0xFFFF
        qos = token >> _QOS_SHIFT & 3
        if token >> _GENERATION_SHIFT < session.begun:
            return  # of a session that has ended, whose client has come back
        if qos == 2:
            if reason >= FAILURE:
                self._unreceive(session, packet_id)
            elif packet_id in session.received:
                session.received[packet_id] = True
        client = session.client
        if client is None:
            return
        if qos == 2:
            # The client may have said it again on another connection, and then that is what it waits for.
            token = _token(client, qos, packet_id)
        if client.generation == token >> _GENERATION_SHIFT:
            self._answer(client, token, reason, text)

    def _answer(self, client: Client, token: int, reason: Reason, text: str) -> None:
        """PUBACK or PUBREC; 3.1.1 cannot say no, and who is not answered sends it for ever."""
        if not token:
            return
        packet_id = token & 0xFFFF
        if token >> _QOS_SHIFT & 3 == 1:
            client.under_way -= 1
            if reason is Reason.SUCCESS and token & _NOBODY:
                reason = Reason.NO_MATCHING_SUBSCRIBERS
            if not client.v5 or reason is Reason.SUCCESS:
                client.answer(token, b"\x40\x02" + packet_id.to_bytes(2, "big"))
                return
            answer: Puback | Pubrec = Puback(packet_id, reason, _explained(client, text))
        else:
            if not client.v5 or reason is Reason.SUCCESS:
                # One for each time that the client has said it.
                times = 1 + client.repeated.pop(token, 0)
                client.answer(token, (b"\x50\x02" + packet_id.to_bytes(2, "big")) * times)
                return
            answer = Pubrec(packet_id, reason, _explained(client, text))
        data = encode(answer, Version.V5)
        if client.packet_bytes_max and len(data) > client.packet_bytes_max:
            data = encode(msgspec.structs.replace(answer, properties=NO_PROPERTIES), Version.V5)
        client.answer(token, data)

    def on_pubrel(self, client: Client, packet: Pubrel) -> None:
        session = client.session
        assert session is not None, "a client that releases has a session"
        data = b"\x70\x02" + packet.packet_id.to_bytes(2, "big")
        if packet.packet_id in session.received and session.durable:
            # Else, after a restart, the next publication under this identifier would be taken for a repeat.
            self._unreceive(session, packet.packet_id)
            self._broker.core.after_sync(lambda: self._put(client, data))
            return
        self._unreceive(session, packet.packet_id)
        self._put(client, data)

    def _put(self, client: Client, data: bytes) -> None:
        if client.state is State.OPEN:
            self._core.counters.packets_out += 1
            client.put(data)

    def _unreceive(self, session: Session, packet_id: int) -> None:
        if session.received.pop(packet_id, None) is not None and session.durable:
            self._core.erase(_received_row(session, packet_id))

    # What clients answer to what they were sent.

    def on_pubacks(self, client: Client, packet_ids: Sequence[int]) -> None:
        session = client.session
        assert session is not None, "a client that acknowledges has a session"
        inflight = session.inflight
        for packet_id in packet_ids:
            if packet_id not in inflight:
                continue
            delivery = inflight[packet_id]
            if delivery is not None:
                if delivery.qos != 1:
                    raise Malformed(Reason.PROTOCOL_ERROR, "PUBACK for a publication of QoS 2.")
                session.done(packet_id)
            else:
                del inflight[packet_id]
        if session.queue:
            session.pump()

    def on_pubrec(self, client: Client, packet: Pubrec) -> None:
        session = client.session
        assert session is not None, "a client that acknowledges has a session"
        packet_id = packet.packet_id
        if packet_id not in session.inflight:
            if packet.reason < FAILURE:
                self._put(client, b"\x62\x02" + packet_id.to_bytes(2, "big"))
            return
        delivery = session.inflight[packet_id]
        if delivery is None or delivery.qos != 2:
            raise Malformed(Reason.PROTOCOL_ERROR, "PUBREC for a publication of QoS 1.")
        if packet.reason >= FAILURE:
            session.done(packet_id)
            session.pump()
            return
        data = b"\x62\x02" + packet_id.to_bytes(2, "big")
        if not delivery.released and session.durable:
            session.release(packet_id)
            # Once released the client forgets it: it must not be sent again after a restart.
            self._broker.core.after_sync(lambda: self._put(client, data))
            return
        session.release(packet_id)
        self._put(client, data)

    def on_pubcomp(self, client: Client, packet: Pubcomp) -> None:
        session = client.session
        assert session is not None, "a client that acknowledges has a session"
        if packet.packet_id not in session.inflight:
            return
        delivery = session.inflight[packet.packet_id]
        if delivery is None or not delivery.released:
            raise Malformed(Reason.PROTOCOL_ERROR, "PUBCOMP for a publication that was not released.")
        session.done(packet.packet_id)
        session.pump()


def receive_maximum_exceeded(most: int) -> Malformed:
    return Malformed(Reason.RECEIVE_MAXIMUM_EXCEEDED, f"More than {most} publications are under way at once.")


def _received_row(session: Session, packet_id: int) -> str:
    return row("received", session.id, str(packet_id))


def _overlay_head(publisher: str, topic: str, qos: int, retain: bool, properties: Properties) -> Head:
    if properties is NO_PROPERTIES:
        return Head(topic, qos, publisher, "", (), retain)
    return Head(
        topic,
        qos,
        publisher,
        properties.content_type or "",
        properties.user,
        retain,
        properties.payload_format if properties.payload_format is not None else -1,
        properties.message_expiry_s if properties.message_expiry_s is not None else -1,
        properties.response_topic,
        properties.correlation_data,
    )


def _token(client: Client, qos: int, packet_id: int) -> int:
    """What the broker gives back with its answer."""
    return client.generation << _GENERATION_SHIFT | qos << _QOS_SHIFT | packet_id


def _explained(client: Client, text: str) -> Properties:
    return Properties(reason_string=text) if text and client.problem_information else NO_PROPERTIES
