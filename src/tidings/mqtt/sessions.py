"""A session: what a client has asked for, what is on its way to it and from it. It may outlive connections.

What is given to a session at QoS 1 or 2 has a number that counts up, and its packet identifier comes of that
number, so it is the same before and after a restart. Its life in a session that outlives its connection:

    given ──(on disk)──> queued ──(room in the window)──> in flight ──PUBACK──> gone
                                                           │
                                                           └─PUBREC──(on disk)──> released ──PUBCOMP──> gone

and without the disk in one that does not. It is on disk before it is sent, so that a client that has it never
gets it again as something new. Of QoS 0 nothing is kept for a client that is away.

Queues are bounded (`settings`). What does not fit: QoS 0 is dropped and counted; QoS 1 and 2 for a session
that is kept are dropped, counted and logged; a client whose session is not kept loses its connection, since
it would not know what it missed. A client that is there is not blamed for a broker that is late: while it is
not known to be slow (`Client.slow`), the broker waits for it (`Core.behind`), and its queue may be twice as
long. Why something is given is not known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator
from urllib.parse import quote

import msgspec

from tidings.language.names import NAME_BYTES_MAX
from tidings.language.regions import Unknown
from tidings.mqtt.clients import Client
from tidings.mqtt.core import Core, who
from tidings.mqtt.packets import NO_PROPERTIES, Properties, Publish, Pubrel, Will
from tidings.mqtt.retained import expired
from tidings.mqtt.told import explained
from tidings.overlay.publication import Publication

PACKET_IDS = 65_535

BEHIND_MESSAGES = 1024
BEHIND_BYTES = 2 * 1024 * 1024
"""Of what is queued for a client, in messages or bytes: beyond it the broker takes no data from links."""

TOO_SLOW = "client is too slow"
"""Why publications of QoS 1 and 2 for a session that ends with its connection are dropped."""

TOPIC_CHARACTERS_SAFE = NAME_BYTES_MAX // 4
"""A topic with no more of them fits in a packet, whatever they are."""

QUICK = None
"""In flight, and kept nowhere else: what a session that ends with its connection need not remember."""


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """A subscription, as its client asked for it."""

    topic_filter: str
    """As in SUBSCRIBE, `$share/…` and `view/…` included: its name."""

    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int = 0
    where: str = ""
    unknown: Unknown = Unknown.WAIT

    view: str = ""
    """The view that it looks through."""

    own: bool = False
    """Whether it is about topics of this broker alone, `$SYS/…`."""

    every_us: int = 0
    """How often a growing event is wanted at most."""


class Delivery(msgspec.Struct, array_like=True):
    """A publication on its way to one client."""

    number: int
    """Counts up in its session; 0 for QoS 0 that need not wait for the disk."""

    publication: Publication
    topic: str
    """That of the publication, or one of a view."""

    qos: int
    retain: bool = False
    identifiers: tuple[int, ...] = ()

    dup: bool = False
    """Whether it may have been sent before."""

    released: bool = False
    """Whether the client has it, and only PUBCOMP is waited for."""

    hops: int = 0
    """Links that it has come over."""

    @property
    def packet_id(self) -> int:
        return (self.number - 1) % PACKET_IDS + 1

    @property
    def size(self) -> int:
        return self.publication.size


class Saved(msgspec.Struct, frozen=True, array_like=True):
    """A session on disk."""

    client: str
    expiry_s: int
    left_at: float = 0.0
    """When its client left; 0 while it is there."""

    user: str = ""


class SavedWill(msgspec.Struct, frozen=True, array_like=True):
    client: str
    will: Will


def row(kind: str, client: str, what: str = "") -> str:
    """The key of something on disk."""
    return f"mqtt/{kind}/{quote(client, safe='')}/{quote(what, safe='')}"


_ENCODE = msgspec.msgpack.Encoder().encode


class Session:
    """One client's session."""

    def __init__(self, core: Core, client_id: str, durable: bool) -> None:
        self.core = core
        self.id = client_id
        self.durable = durable
        """Whether it is on disk."""
        self.expiry_s = 0
        self.left_at = 0.0
        self.user = ""
        self.client: Client | None = None
        self.begun = core.generations + 1
        """The first generation of connections that may be its own."""
        self.subscriptions: dict[str, Asked] = {}
        self.searched = 0
        self.searched_by: dict[str, int] = {}
        """Characters for which LIKE patterns look in texts, in all and by subscription."""
        self.will: Will | None = None
        self.received: dict[int, bool] = {}
        """Packet identifiers of QoS 2 from the client that it has not released; whether it knows."""
        self.given = 0
        self.queue: deque[Delivery] = deque()
        """What waits to be sent, in order."""
        self.queue_bytes = 0
        """Of all that is QoS 1 or 2 and not in flight, and of QoS 0 that waits."""
        self.unsynced: deque[Delivery] = deque()
        """What is not known to be on disk yet, and what came behind it."""
        self._purged_at = 0.0
        self.retained: dict[str, Iterator[Publication | None] | None] = {}
        """By subscription: retained messages that are still to be given; None if it is yet to begin."""
        self.inflight: dict[int, Delivery | None] = {}
        """By packet identifier, in the order of sending; QUICK where nothing need be remembered."""
        self.inflight_bytes = 0

    def count_searched(self, name: str, searched: int) -> None:
        """Remember what the LIKE patterns of a subscription look for; 0 if it is gone."""
        self.searched += searched - self.searched_by.pop(name, 0)
        if searched:
            self.searched_by[name] = searched

    # Giving.

    def give(self, delivery: Delivery) -> None:
        """Something for the client. QoS 1 and 2 are numbered here."""
        core = self.core
        if not delivery.qos:
            client = self.client
            if client is None:
                core.drop("client is away")
            elif self.durable and delivery.hops and delivery.publication.qos:
                # Others send it again should this broker die before it is on disk that it has come.
                self.given += 1
                delivery.number = self.given
                core.touched[self] = None
                self._wait(delivery, self.unsynced)
            elif self.unsynced:
                self._wait(delivery, self.unsynced)
            elif self.queue or client.congested:
                self._wait(delivery, self.queue)
            else:
                self.transmit(client, delivery)
            return
        if not self.durable and self.client is None:
            return
        size = delivery.size
        if self._full(size):
            self._purge()
            if self._full(size) and self._overflows(size):
                return
        self.given += 1
        while (self.given - 1) % PACKET_IDS + 1 in self.inflight:
            # An identifier that has come round and is still in use is passed by.
            self.given += 1
        delivery.number = self.given
        if self.durable:
            core.write(row("queue", self.id, f"{self.given:016x}"), _ENCODE(delivery))
            core.touched[self] = None
            self._keep(delivery, self.unsynced)
        elif not self.queue and self.has_room:
            self._launch(delivery)
        else:
            self._keep(delivery, self.queue)

    def _full(self, size: int, times: int = 1) -> bool:
        """Whether one more of this size is beyond the bounds, or beyond a multiple of them."""
        settings = self.core.settings
        return (
            len(self.queue) + len(self.unsynced) + len(self.inflight) >= settings.queue_messages * times
            or self.queue_bytes + size > settings.queue_bytes * times
            or self.core.queues_bytes + size > settings.queues_bytes * times
        )

    def _overflows(self, size: int) -> bool:
        """Whether something that is beyond the bounds is dropped."""
        client = self.client
        if client is not None and not client.slow and not self._full(size, times=2):
            return False
        self.overflow()
        return True

    def _much_waits(self, times: int = 1) -> bool:
        """Whether so much is queued that the broker should wait for the client, or a part of that."""
        return len(self.queue) * times >= BEHIND_MESSAGES or self.queue_bytes * times >= BEHIND_BYTES

    def _purge(self) -> None:
        """Make room by what has outlived its time; looked for once a second."""
        core = self.core
        if core.now - self._purged_at < 1.0:
            return
        self._purged_at = core.now
        kept: deque[Delivery] = deque()
        for delivery in self.queue:
            if delivery.dup or not expired(delivery.publication, core.now):
                kept.append(delivery)
                continue
            self._unkeep(delivery)
            core.counters.expired += 1
            if self.durable and delivery.qos:
                core.erase(row("queue", self.id, f"{delivery.number:016x}"))
        self.queue = kept

    @property
    def queued(self) -> list[Delivery]:
        """What waits to be sent, on disk or not yet."""
        return [*self.queue, *self.unsynced]

    def withhold(self, topics: Container[str]) -> int:
        """Drop what waits to be sent of some topics; how much it was.

        What may have been sent before is sent to its end, as with what has expired (`_purge`).
        """
        core, dropped = self.core, 0
        for queue in (self.queue, self.unsynced):
            kept: list[Delivery] = []
            for delivery in queue:
                if delivery.dup or delivery.topic not in topics:
                    kept.append(delivery)
                    continue
                dropped += 1
                self._unkeep(delivery)
                if self.durable and delivery.qos:
                    core.erase(row("queue", self.id, f"{delivery.number:016x}"))
            queue.clear()
            queue.extend(kept)
        if self.client is not None:
            self._on_less_queued(self.client)
        return dropped

    def overflow(self) -> None:
        core = self.core
        if self.durable:
            core.drop("queue is full")
            if core.counters.dropped["queue is full"] % 1000 == 1:
                about = who(self.id, self.user, self.client.peer if self.client is not None else "")
                core.log("warning", "a session's queue is full: publications are dropped", **about)
        elif self.client is not None:
            core.drop(TOO_SLOW)
            self.core.slow[self.client] = None

    @property
    def unacknowledged(self) -> int:
        """Publications of QoS 1 and 2 that its client has not acknowledged, sent or not."""
        return len(self.inflight) + sum(1 for delivery in self.queue if delivery.qos)

    def _wait(self, delivery: Delivery, queue: deque[Delivery]) -> None:
        """QoS 0 that cannot be sent at once."""
        if self.queue_bytes + delivery.size > self.core.settings.slow_bytes:
            self.core.drop("client is slow")
            return
        self._keep(delivery, queue)

    def _keep(self, delivery: Delivery, queue: deque[Delivery]) -> None:
        queue.append(delivery)
        size = delivery.size
        self.queue_bytes += size
        self.core.queues_bytes += size
        client = self.client
        if client is not None and not client.slow and delivery.qos and self._much_waits():
            self.core.behind.setdefault(client, self.core.now)

    def _unkeep(self, delivery: Delivery) -> None:
        size = delivery.size
        self.queue_bytes -= size
        self.core.queues_bytes -= size

    def on_synced(self, number: int) -> None:
        """All that was given up to this number is on disk."""
        unsynced = self.unsynced
        while unsynced and unsynced[0].number <= number:
            self.queue.append(unsynced.popleft())
        self.pump()

    # Sending.

    @property
    def window(self) -> int:
        """How many may be in flight."""
        assert self.client is not None, "only what is sent is in flight"
        return min(self.client.receive_maximum, self.core.settings.inflight_max)

    @property
    def has_room(self) -> bool:
        """Whether one more QoS 1 or 2 may be sent now."""
        client = self.client
        return client is not None and not client.congested and not self._window_full

    @property
    def ready(self) -> bool:
        """Whether the client is there and nothing waits for it: more may be given."""
        client = self.client
        return (
            client is not None
            and not client.congested
            and not self.queue
            and not self.unsynced
            and not self._window_full
        )

    @property
    def _window_full(self) -> bool:
        """Whether the client must acknowledge something first: so many, or so many bytes."""
        return len(self.inflight) >= self.window or self.inflight_bytes >= self.core.settings.inflight_bytes

    def pump(self) -> None:
        """Send what can be sent."""
        client, queue = self.client, self.queue
        if client is None or not queue:
            return
        while queue and not client.congested:
            delivery = queue[0]
            if delivery.qos and (self._window_full or delivery.packet_id in self.inflight):
                break
            queue.popleft()
            self._unkeep(delivery)
            if delivery.qos:
                self._launch(delivery)
            else:
                self.transmit(client, delivery)
        self._on_less_queued(client)
        self._ask_for_retained()

    def _on_less_queued(self, client: Client) -> None:
        if not self.queue:
            client.slow = False
        if client in self.core.behind and not self._much_waits(times=2):
            del self.core.behind[client]
            self.core.read_on.append(client)

    def _ask_for_retained(self) -> None:
        if self.retained and self.ready:
            self.core.hungry[self] = None

    def _launch(self, delivery: Delivery) -> None:
        """Send QoS 1 or 2, unless its time is over or it is too large; both count as done."""
        assert self.client is not None, "only to a client that is there"
        packet_id = delivery.packet_id
        self._carry(packet_id, delivery)
        if not self.transmit(self.client, delivery):
            self.done(packet_id)

    def _carry(self, packet_id: int, delivery: Delivery) -> None:
        """It is in flight, and counts against what is kept in memory."""
        if self.client is not None and self.client.quiet and not self.inflight:
            # Now it has something to acknowledge.
            self.core.read_on.append(self.client)
        self.inflight[packet_id] = delivery
        self.inflight_bytes += delivery.size
        self.core.queues_bytes += delivery.size

    def _uncarry(self, packet_id: int) -> Delivery | None:
        delivery = self.inflight.pop(packet_id)
        if delivery is not None:
            self.inflight_bytes -= delivery.size
            self.core.queues_bytes -= delivery.size
        return delivery

    def transmit(self, client: Client, delivery: Delivery) -> bool:
        """Have it sent; False if it must not be."""
        publication = delivery.publication
        core = self.core
        if len(delivery.topic) > TOPIC_CHARACTERS_SAFE and len(delivery.topic.encode()) > NAME_BYTES_MAX:
            # Through a view it is longer than it was published.
            core.drop("larger than the client takes")
            return False
        expiry_s: int | None = None
        if publication.expiry_s >= 0:
            # [MQTT-3.3.2-5], [MQTT-3.3.2-6]. What may have been sent before is sent again to its end.
            expiry_s = publication.expiry_s - max(0, int(core.now - publication.at_us / 1_000_000))
            if expiry_s < 0 or (expiry_s == 0 and publication.expiry_s > 0):
                if not delivery.dup:
                    core.counters.expired += 1
                    return False
                expiry_s = 0
        topic, properties, alias = delivery.topic, NO_PROPERTIES, None
        if client.v5:
            told = publication.told
            user = publication.properties if told is None else explained(told, delivery.hops)
            if client.aliases_out_max:
                topic, alias = client.alias_for(topic)
            if (
                alias is not None
                or delivery.identifiers
                or user
                or publication.content_type
                or expiry_s is not None
                or publication.payload_format >= 0
                or publication.response_topic is not None
                or publication.correlation is not None
            ):
                properties = Properties(
                    payload_format=publication.payload_format if publication.payload_format >= 0 else None,
                    message_expiry_s=expiry_s,
                    content_type=publication.content_type or None,
                    response_topic=publication.response_topic,
                    correlation_data=publication.correlation,
                    subscription_identifiers=delivery.identifiers,
                    topic_alias=alias,
                    user=user,
                )
        sent = client.send(
            Publish(
                topic,
                publication.payload,
                delivery.qos,
                delivery.retain,
                delivery.dup,
                delivery.packet_id if delivery.qos else 0,
                properties,
            )
        )
        if not sent:  # [MQTT-3.1.2-25]
            if topic and alias is not None:
                del client.aliases_out[topic]
            core.drop("larger than the client takes")
            return False
        core.counters.delivered += 1
        core.counters.delivered_bytes += len(publication.payload)
        delivery.dup = True
        return True

    # What the client answers.

    def done(self, packet_id: int) -> None:
        """The client has it, or shall not have it: it is gone."""
        delivery = self._uncarry(packet_id)
        if delivery is not None and self.durable:
            self.core.erase(row("queue", self.id, f"{delivery.number:016x}"))
        self._ask_for_retained()

    def release(self, packet_id: int) -> None:
        """The client has it for good: from now on only that it has is remembered."""
        delivery = self.inflight[packet_id]
        assert delivery is not None, "what is released is of QoS 2, and remembered"
        if delivery.released:
            return
        husk = _husk(delivery)
        self.inflight_bytes += husk.size - delivery.size
        self.core.queues_bytes += husk.size - delivery.size
        self.inflight[packet_id] = husk
        if self.durable:
            self.core.write(row("queue", self.id, f"{delivery.number:016x}"), _ENCODE(husk))

    # Coming and going.

    def attach(self, client: Client) -> None:
        """The client is there: what was in flight is sent again, in order, then what waits."""
        assert self.client is None, "the connection before was let go"
        self.client = client
        client.session = self
        # What came while it was away, it takes at its own pace.
        client.slow = self._much_waits()
        self.core.generations += 1
        client.generation = self.core.generations
        for packet_id, delivery in reversed(list(self.inflight.items())):
            assert delivery is not None, "a session that is taken up again has remembered all"
            if not delivery.released:
                # Before all that waits, and no more at once than the client now allows [MQTT-3.3.4-9].
                self._uncarry(packet_id)
                self._keep(delivery, self.queue)
                self.queue.rotate(1)
        for packet_id in self.inflight:
            client.send(Pubrel(packet_id))
        self.pump()

    def detach(self) -> None:
        """The client is away. What is QoS 0 is not kept for it."""
        if self.client is not None:
            self.core.behind.pop(self.client, None)
        self.client = None
        for queue in (self.queue, self.unsynced):
            kept = [delivery for delivery in queue if delivery.qos]
            for delivery in queue:
                if not delivery.qos:
                    self._unkeep(delivery)
            queue.clear()
            queue.extend(kept)

    def forget(self) -> None:
        """Nothing of it is wanted any more, on disk either."""
        self.core.queues_bytes -= self.queue_bytes + self.inflight_bytes
        self.core.touched.pop(self, None)
        self.core.hungry.pop(self, None)
        if not self.durable:
            return
        for delivery in (*self.inflight.values(), *self.queue, *self.unsynced):
            if delivery is not None and delivery.qos:
                self.core.erase(row("queue", self.id, f"{delivery.number:016x}"))
        for name in self.subscriptions:
            self.core.erase(row("subscription", self.id, name))
        for packet_id in self.received:
            self.core.erase(row("received", self.id, str(packet_id)))
        self.core.erase(row("session", self.id))

    # On disk.

    def save(self) -> None:
        if self.durable:
            saved = Saved(self.id, self.expiry_s, self.left_at, self.user)
            self.core.write(row("session", self.id), _ENCODE(saved))

    def save_subscription(self, asked: Asked) -> None:
        if self.durable:
            value = _ENCODE((self.id, asked))
            self.core.write(row("subscription", self.id, asked.topic_filter), value)

    def recover(self, deliveries: list[Delivery]) -> None:
        """What was kept for it before a restart, in order."""
        for delivery in deliveries:
            self.given = max(self.given, delivery.number)
            if delivery.released:
                self._carry(delivery.packet_id, delivery)
                continue
            # It may have been sent: nobody knows.
            delivery.dup = True
            self._keep(delivery, self.queue)


def _husk(delivery: Delivery) -> Delivery:
    """What must be remembered of a delivery that the client has."""
    bare = Publication("", 0, "", 0, "", b"")
    return Delivery(delivery.number, bare, "", delivery.qos, dup=True, released=True)
