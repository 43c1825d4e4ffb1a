"""Publications: from a client to the broker, and from the broker to clients.

There are two ways in. The long one takes a packet, makes an event of it and lets the broker decide. The short
one takes a burst (`bursts`) that nobody but clients here may want (`Broker.straight`): who gets it was found
out for the one before, so its bytes go to their connections as they are. Both give the same result, which a
test compares.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby

import msgspec
import numpy as np

from tidings.language import names
from tidings.language.views import PREFIX
from tidings.mqtt import bursts
from tidings.mqtt.access import allowed
from tidings.mqtt.bursts import QOS_0, Burst
from tidings.mqtt.clients import Client, Lane, State
from tidings.mqtt.codec import Malformed, encode, topic_of
from tidings.mqtt.core import Core
from tidings.mqtt.dealing import Dealing, Hand, publications
from tidings.mqtt.events import Access, Distribute
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
from tidings.mqtt.plans import Place, Plan, identifier_bytes, simple
from tidings.mqtt.reasons import FAILURE, Reason
from tidings.mqtt.retained import Retained
from tidings.mqtt.sessions import QUICK, Asked, Delivery, Session, row
from tidings.mqtt.subscribing import OWN, SHARE, VIEW, Subscribing
from tidings.mqtt.told import SNAPSHOT
from tidings.overlay.broker import Broker
from tidings.overlay.events import Accept, Deliver, PublicationOffered, Reject
from tidings.overlay.publication import Publication
from tidings.overlay.publishing.publications import Lane as Noted
from tidings.overlay.publishing.publications import Route

PLACES_MAX = 65_536
"""Topics for which it is remembered who gets what."""

MAY_PUBLISH_MAX = 1024
"""Topics for which it is remembered whether one client may publish there."""

KEY_BYTES_MAX = 258
"""Of topics that are remembered at all; longer ones are looked at each time, so that memory is bounded."""

LANES_MAX = 256
"""Topics of one client to which publications pass with a glance."""

LANE_FROM = 4
"""Packets in a burst below which the next are looked at one by one."""

NOBODY: tuple[Client, ...] = ()

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
    """All publications of clients here, and all for them."""

    def __init__(
        self,
        core: Core,
        broker: Broker,
        sessions: dict[str, Session],
        retained: Retained,
        subscribing: Subscribing,
        request: Callable[[Client, Publish], None],
    ) -> None:
        self._core = core
        self._broker = broker
        self._sessions = sessions
        self._retained = retained
        self._subscribing = subscribing
        self._request = request
        self.access = Access()
        self._dealing = Dealing(core, broker, sessions, self.give)
        self.hand: Hand | None = None
        """What has come, and is held back until it is seen what comes next from the same client."""
        self._places: dict[bytes, Place] = {}
        self._groups: dict[tuple[Client, ...], tuple[Client, ...]] = {}
        """The same for the same clients, so that groups can be told apart at a glance."""
        self._groups_of = 0
        self._purged_at = 0.0
        self._held = 0
        """Bursts whose answer has waited for the disk."""
        small = min(core.settings.packet_bytes_max, broker.core.settings.message_bytes_max)
        self.bursts = (
            small >= 16_384 and not core.settings.publish_rate and not core.settings.publish_bytes_rate
        )
        """Whether there is a short way at all."""

    # In, the short way.

    def on_burst(self, client: Client, burst: Burst) -> None:
        place, route, plan = self._way(client, burst)
        audience = plan.audience if plan is not None else None
        hand = self.hand
        if hand is not None:
            if audience is not None and hand.takes(client, burst, route, audience):
                hand.add(burst, route)
                return
            # It came before this one; and if it is given to somebody, that may change how this one goes.
            self.flush()
            if client.state is not State.OPEN:
                return
            place, route, plan = self._way(client, burst)
            audience = plan.audience if plan is not None else None
        if audience is not None and self._dealing.may_deal(audience):
            self.hand = Hand(client, audience, burst)
            self.hand.add(burst, route)
        else:
            self._pass_on(client, burst, place, route, plan)

    def flush(self) -> None:
        """Pass on what has been held back because more of it might come."""
        hand, self.hand = self.hand, None
        if hand is None or self._dealing.deal(hand):
            return
        client, at = hand.client, hand.start
        while at < hand.end and client.state is State.OPEN:
            burst = bursts.read(hand.data, at, client.v5)
            assert burst is not None, "it was one when it was added"
            assert burst.end <= hand.end, "it was as long when it was added"
            at = burst.end
            if self._dealing.is_much(burst.count) and burst.count < hand.count:
                # Perhaps it was only too much in all.
                self.on_burst(client, burst)
                self.flush()
            else:
                self._pass_on(client, burst, *self._way(client, burst))

    def take_dealt(self) -> Distribute | None:
        """What was dealt out in this turn, if it is to be sent as it is."""
        return self._dealing.take()

    def _pass_on(self, client: Client, burst: Burst, place: Place, route: Route, plan: Plan | None) -> None:
        if plan is None:
            for packet in burst.publishes(place.topic):
                if client.state is State.OPEN:
                    self._core.counters.packets_in += 1
                    self.on_publish(client, packet)
        elif route.filtered:
            self._dealing.pass_singly(client, burst, route, plan.audience)
        else:
            self._pass(client, burst, route, plan)

    def _way(self, client: Client, burst: Burst) -> tuple[Place, Route, Plan | None]:
        """How a burst goes; without a plan, the long way."""
        key = burst.key
        place = self._places.get(key)
        if place is None:
            place = self._place(key)
        may = client.may_publish.get(key)
        if may is None:
            may = self._may_publish(client, key, place.topic)
        route = place.route
        broker = self._broker
        if route is None or not broker.fresh(route):
            place.plans = [None] * 4
            route = place.route = broker.route(place.topic)
        if (
            not may
            or not place.short
            or not broker.straight(route)
            # What it published before is yet to come out of the broker, and must not be overtaken.
            or client.offered_in == self._core.turn
        ):
            return place, route, None
        sort = 2 * burst.qos + burst.v5
        plan = place.plans[sort]
        if plan is None or plan.version != self._core.plans:
            plan = place.plans[sort] = self._plan(route, burst.qos, burst.v5)
        if plan.settled_after == self._core.turn or (burst.qos and (route.filtered or client.acks)):
            return place, route, None
        return place, route, plan

    def _place(self, key: bytes) -> Place:
        place = Place(topic_of(key[2:]))
        if len(key) <= KEY_BYTES_MAX:
            if len(self._places) >= PLACES_MAX:
                del self._places[next(iter(self._places))]
            self._places[key] = place
        return place

    def _may_publish(self, client: Client, key: bytes, topic: str) -> bool:
        may = allowed(self.access, client.user, client.id, "publish", topic)
        if len(key) <= KEY_BYTES_MAX:
            if len(client.may_publish) >= MAY_PUBLISH_MAX:
                client.may_publish.clear()
            client.may_publish[key] = may
        return may

    def _plan(self, route: Route, qos: int, v5: bool) -> Plan:
        """Who gets what is published to a topic without a content filter being asked, and who may else."""
        core = self._core
        plan = Plan(core.plans)
        if core.asked and not core.asked.keys().isdisjoint(_sessions(route)):
            # SUBACK and what is retained come out of the broker, and must not be overtaken.
            plan.settled_after = core.turn
        by_session: dict[str, list[str]] = {}
        for session_id, name in route.plain:
            by_session.setdefault(session_id, []).append(name)
        plan.receivers = tuple(by_session)
        for session_id, subscribed in by_session.items():
            session = self._sessions[session_id]
            asked = [session.subscriptions[name] for name in subscribed]
            client = session.client
            highest = min(qos, max(it.qos for it in asked))
            if not simple(session, asked) or client is None or (highest and session.durable):
                plan.others.append((session, tuple(subscribed)))
                continue
            identifiers = (
                identifier_bytes(tuple(it.identifier for it in asked if it.identifier)) if client.v5 else b""
            )
            if highest:
                plan.acknowledged.append((session, identifiers))
            else:
                plan.plain.setdefault((client.v5, identifiers), []).append(client)
        if route.filtered and not qos:
            plan.audience = self._dealing.audience(plan, route, v5)
        return plan

    def _pass(self, client: Client, burst: Burst, route: Route, plan: Plan) -> None:
        """To everyone who subscribes to the topic."""
        core = self._core
        counters, dirty = core.counters, core.dirty
        count = burst.count
        counters.packets_in += count
        counters.published += count
        sizes = burst.sizes
        total = sizes[0] * count if len(sizes) == 1 else sum(sizes)
        counters.published_bytes += total
        for (v5, identifiers), clients in plan.plain.items():
            data = burst.plain(v5, identifiers)
            piece = data[0] if len(data) == 1 else b"".join(data)
            for receiver in clients:
                receiver.out.append(piece)
                dirty[receiver] = None
            counters.delivered += count * len(clients)
            counters.delivered_bytes += total * len(clients)
            counters.packets_out += count * len(clients)
        involved: list[tuple[Session, tuple[str, ...]]] = list(plan.others)
        for session, identifiers in plan.acknowledged:
            if not self._pass_acknowledged(session, identifiers, burst):
                asked = [name for who, name in route.plain if who == session.id]
                involved.append((session, tuple(asked)))
        if count < LANE_FROM and not burst.qos and not involved and plan.plain.keys() <= {(burst.v5, b"")}:
            self._open_lane(client, burst, route, plan)
        first = self._broker.note(route, client.id, sizes, count, (plan.receivers,))
        if involved:
            for publication in publications(self._broker, client, burst, route, first):
                for session, subscribed in involved:
                    self.give(session, subscribed, publication)
        if burst.qos:
            self._acknowledge(client, burst, bool(plan.receivers))

    def _open_lane(self, client: Client, burst: Burst, route: Route, plan: Plan) -> None:
        """Let the next packet to this topic pass with a glance."""
        if len(burst.key) <= KEY_BYTES_MAX:
            if len(client.lanes) >= LANES_MAX:
                client.lanes.clear()
            if self._groups_of != plan.version:
                self._groups_of = plan.version
                self._groups.clear()
            clients = tuple(plan.plain.get((burst.v5, b""), NOBODY))
            clients = self._groups.setdefault(clients, clients)
            client.lanes[burst.key] = Lane(
                plan.version, client, clients, Noted(route, client.id, plan.receivers)
            )

    def skim(self, client: Client, data: bytes, at: int) -> int:
        """Pass on publications whose topics the client has just published to; where the rest begins.

        Clients that publish for many things, and devices that talk to each other, send packets that are no
        bursts. What happens is the same as with `on_burst`, which sees the first to each topic.
        """
        core, broker = self._core, self._broker
        hand = self.hand
        if hand is not None:
            assert hand.data is data, "nothing outlasts a read"
            return hand.skim()
        if client.offered_in == core.turn:
            return at
        lanes, v5 = client.lanes, client.v5
        plans, stamp = core.plans, core.stamp
        size, begin = len(data), at
        delivered = delivered_bytes = 0
        noted: list[Noted] = []
        sizes: list[int] = []
        # Packets in a row that go to the same clients are passed on in one piece.
        piece_at, receivers = at, NOBODY
        while size - at >= 4 and data[at] == QOS_0:
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
            topic_end = head + 2 + (data[head] << 8 | data[head + 1])
            if topic_end + v5 > end or (v5 and data[topic_end]):
                break
            lane = lanes.get(data[head:topic_end])
            if lane is None or lane.plans != plans:
                break
            if lane.stamp != stamp:
                if not broker.straight(lane.noted.route):
                    break
                lane.stamp = stamp
            if data.startswith(data[at:topic_end], end):
                break  # a burst is passed on in one piece
            if lane.clients is not receivers:
                self._hand_on(receivers, data[piece_at:at])
                piece_at, receivers = at, lane.clients
            payload = end - topic_end - v5
            noted.append(lane.noted)
            sizes.append(payload)
            delivered += len(receivers)
            delivered_bytes += payload * len(receivers)
            if end - at == size:
                lane.head, lane.length, lane.size, lane.alone = data[: end - payload], size, payload, stamp
                client.recent = lane
            at = end
        if at > begin:
            self._hand_on(receivers, data[piece_at:at])
            broker.note_all(noted, sizes)
            counters = core.counters
            counters.packets_in += len(noted)
            counters.published += len(noted)
            counters.published_bytes += sum(sizes)
            counters.packets_out += delivered
            counters.delivered += delivered
            counters.delivered_bytes += delivered_bytes
        return at

    def _hand_on(self, receivers: tuple[Client, ...], data: bytes) -> None:
        dirty = self._core.dirty
        for receiver in receivers:
            receiver.out.append(data)
            dirty[receiver] = None

    def settle(self) -> None:
        """Count, number and write down what `Front.repeat` has passed on, in its order."""
        core = self._core
        lanes, times = core.repeats, core.repeated_at
        core.repeats, core.repeated_at = [], array("d")
        if not lanes:
            return
        at_us = array("q", (np.frombuffer(times) * 1_000_000).astype(np.int64).tobytes())
        note_repeats = self._broker.note_repeats
        packets_out = bytes_in = bytes_out = published_bytes = delivered_bytes = end = 0
        for lane, some in groupby(lanes):
            begin, end = end, end + len(list(some))
            count = end - begin
            delivered = count * len(lane.clients)
            bytes_in += count * lane.length
            published_bytes += count * lane.size
            packets_out += delivered
            bytes_out += delivered * lane.length
            delivered_bytes += delivered * lane.size
            lane.publisher.heard_at = times[end - 1]
            note_repeats(lane.noted, lane.size, at_us[begin:end])
        counters = core.counters
        counters.packets_in += end
        counters.bytes_in += bytes_in
        counters.published += end
        counters.published_bytes += published_bytes
        counters.packets_out += packets_out
        counters.bytes_out += bytes_out
        counters.delivered += packets_out
        counters.delivered_bytes += delivered_bytes

    def _pass_acknowledged(self, session: Session, identifiers: bytes, burst: Burst) -> bool:
        """At QoS 1, if there is room for all of it."""
        receiver, inflight = session.client, session.inflight
        assert receiver is not None, "a plan is made of clients that are there"
        count = burst.count
        if session.queue or receiver.congested or receiver.quiet or len(inflight) + count > session.window:
            return False
        number = session.given
        packet_ids = [(number + at) % 65_535 + 1 for at in range(count)]
        if not inflight.keys().isdisjoint(packet_ids):
            return False
        session.given += count
        heads, tails = burst.acknowledged(receiver.v5, identifiers)
        pieces: list[bytes] = []
        for head, packet_id, tail in zip(heads, packet_ids, tails, strict=True):
            inflight[packet_id] = QUICK
            pieces += (head, packet_id.to_bytes(2, "big"), tail)
        receiver.put(b"".join(pieces))
        counters = self._core.counters
        counters.delivered += count
        counters.packets_out += count
        counters.delivered_bytes += sum([many * size for _, many, _, size in burst.parts])
        return True

    def _acknowledge(self, client: Client, burst: Burst, wanted: bool) -> None:
        """PUBACK for all of a burst, when what it led to is on disk."""
        if wanted or not client.v5:
            data = b"\x40\x02" + b"\x40\x02".join(burst.packet_ids)
        else:
            data = b"".join([b"\x40\x03" + packet_id + b"\x10" for packet_id in burst.packet_ids])
        if not self._core.touched:
            self._core.counters.packets_out += burst.count
            client.put(data)
            return
        self._held += 1
        token, count = -self._held, burst.count
        client.await_answer(token)
        self._broker.core.after_sync(lambda: self._answer_burst(client, token, data, count))

    def _answer_burst(self, client: Client, token: int, data: bytes, count: int) -> None:
        if client.state is State.OPEN:
            # An answer counts as one packet.
            self._core.counters.packets_out += count - 1
            client.answer(token, data)

    # In, the long way.

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
        client.offered_in = self._core.turn
        if qos == 1 and self._broker.nobody(topic):
            token = self._retoken(client, token, token | _NOBODY)
        offered = _offered(client.id, token, topic, packet.payload, qos, packet.retain, properties)
        if qos == 2:
            session.received[packet.packet_id] = False
            if session.durable:
                self._core.write(_received_row(session, packet.packet_id), session.id.encode())
        self._take(offered)

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
            and not self._fits(_offered(client.id, 0, topic, packet.payload, 0, True, packet.properties))
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

    def _fits(self, offered: PublicationOffered) -> bool:
        """Whether there is room to retain it, perhaps after those that have expired are gone."""
        message = self._message(offered)
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

    def _take(self, offered: PublicationOffered) -> None:
        """Hand a publication to the broker, and keep it if it is to be retained."""
        if offered.retain:
            self._retain(offered)
        self._broker.tell(offered)

    def publish_will(self, client_id: str, will: Will) -> None:
        """The last word of a client that is gone."""
        properties = msgspec.structs.replace(will.properties, will_delay_s=None)
        offered = _offered(client_id, NO_TOKEN, will.topic, will.payload, will.qos, will.retain, properties)
        if will.retain and (self._ignores_retain(will.topic) or not self._fits(offered)):
            offered = msgspec.structs.replace(offered, retain=False)
        self._take(offered)

    # Retained messages.

    def _message(self, offered: PublicationOffered) -> Publication:
        """What is kept of a publication that is retained."""
        core = self._broker.core
        return Publication(
            core.id,
            core.incarnation,
            "",
            0,
            offered.topic,
            offered.payload,
            offered.qos,
            core.at_us,
            offered.session,
            offered.content_type,
            offered.properties,
            True,
            offered.payload_format,
            offered.expiry_s,
            offered.response_topic,
            offered.correlation,
        )

    def _retain(self, offered: PublicationOffered) -> None:
        """[MQTT-3.3.1-5], [MQTT-3.3.1-6]: it takes the place of the one before; an empty one removes it."""
        key = row("retained", offered.topic)
        if not offered.payload:
            if self._retained.remove(offered.topic):
                self._core.erase(key)
            return
        message = self._message(offered)
        self._retained.keep(message)
        self._core.write(key, msgspec.msgpack.encode(message))

    # Answers.

    def on_accepted(self, effect: Accept) -> None:
        session = self._sessions[effect.session]
        if effect.token:
            self._settle(session, effect.token, Reason.SUCCESS, "")

    def on_rejected(self, effect: Reject) -> None:
        session = self._sessions.get(effect.session)
        self._core.refuse(effect.session, f"publish {effect.topic[:200]}", effect.reason)
        if session is not None and effect.token:
            self._settle(session, effect.token, Reason.PAYLOAD_FORMAT_INVALID, effect.reason)

    def _settle(self, session: Session, token: int, reason: Reason, text: str) -> None:
        packet_id = token & 0xFFFF
        qos = token >> _QOS_SHIFT & 3
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

    # Out, the long way.

    def on_deliver(self, effect: Deliver) -> None:
        """Give a publication to the clients that get it. A session may have ended meanwhile."""
        matches = effect.subscriptions
        at, count = 0, len(matches)
        while at < count:
            session_id = matches[at][0]
            end = at + 1
            while end < count and matches[end][0] == session_id:
                end += 1
            session = self._sessions.get(session_id)
            if session is not None:
                subscribed = tuple([match[1] for match in matches[at:end]])
                self.give(session, subscribed, effect.publication, effect.hops)
            at = end

    def give(
        self, session: Session, subscribed: tuple[str, ...], publication: Publication, hops: int = 0
    ) -> None:
        """One message for each topic name under which the client asked for it."""
        told = publication.told
        by_view: dict[str, list[Asked]] = {}
        for name in subscribed:
            asked = session.subscriptions.get(name)
            if asked is None or (asked.no_local and publication.publisher == session.id):  # [MQTT-3.8.3-3]
                continue
            by_view.setdefault(asked.view, []).append(asked)
        for view, some in by_view.items():
            topic = f"{VIEW}{view}/{publication.topic}" if view else publication.topic
            qos = min(publication.qos, max(it.qos for it in some))
            identifiers = tuple(it.identifier for it in some if it.identifier)
            if told is None:
                # [MQTT-3.3.1-12], [MQTT-3.3.1-13]
                retain = publication.retain and any(it.retain_as_published for it in some)
            else:
                # It answers the subscription, as a retained message does [MQTT-3.3.1-8].
                retain = told.state == SNAPSHOT
            session.give(Delivery(0, publication, topic, qos, retain, identifiers, hops=hops))

    def say(self, message: Publication) -> None:
        """A message of this broker's own topics, to those who subscribe to them here."""
        for session_id, name in sorted(self._subscribing.own.match(message.topic, _no_fields)):
            session = self._sessions[session_id]
            asked = session.subscriptions[name]
            identifiers = (asked.identifier,) if asked.identifier else ()
            session.give(Delivery(0, message, message.topic, min(message.qos, asked.qos), False, identifiers))


def receive_maximum_exceeded(most: int) -> Malformed:
    return Malformed(Reason.RECEIVE_MAXIMUM_EXCEEDED, f"More than {most} publications are under way at once.")


def _filtering(route: Route) -> Iterator[str]:
    """The sessions that have a content filter there."""
    return (
        session_id
        for node in route.filtered
        for entry in node.with_filters()
        for session_id, _ in entry.targets
    )


def _sessions(route: Route) -> Iterator[str]:
    """All that may get what is published there."""
    return chain((session_id for session_id, _ in route.plain), _filtering(route))


def _received_row(session: Session, packet_id: int) -> str:
    return row("received", session.id, str(packet_id))


def _offered(
    publisher: str,
    token: int,
    topic: str,
    payload: bytes,
    qos: int,
    retain: bool,
    properties: Properties,
) -> PublicationOffered:
    return PublicationOffered(
        publisher,
        token,
        topic,
        payload,
        qos,
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


def _no_fields() -> None:
    return None


def _explained(client: Client, text: str) -> Properties:
    return Properties(reason_string=text) if text and client.problem_information else NO_PROPERTIES
