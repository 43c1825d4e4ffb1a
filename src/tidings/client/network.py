"""`connect`: a program's way into a network of brokers.

One connection at a time, to the first of the given brokers that answers. When it is lost it is opened again,
to the next one if need be, with growing pauses; subscriptions are made again unless the session was resumed,
and what was published meanwhile waits in a bounded queue. How bytes travel is the business of `connection`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import secrets
import ssl
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

import msgspec

from tidings.client import deliveries, refusals, urls
from tidings.client.connection import Connection, Lost, Opened
from tidings.client.deliveries import Delivery, Sent
from tidings.client.subscriptions import WAITING_MAX, Slot, Subscription
from tidings.errors import (
    AccessError,
    InputError,
    NetworkError,
    PayloadError,
    SubscriptionError,
    TidingsError,
)
from tidings.language import durations, names, payloads
from tidings.language.regions import Unknown
from tidings.mqtt.packets import NO_PROPERTIES, Asked, Properties, Publish, Will
from tidings.mqtt.reasons import FAILURE

if TYPE_CHECKING:
    from tidings.client.blocking import BlockingNetwork
    from tidings.language.filters import Filter

LOG = logging.getLogger("tidings.client")

ANSWER_WITHIN_S = 10.0
"""How long a broker may take to answer, by default."""

QUEUE_MAX = 1000
"""Publications that wait for a connection, by default."""

RECEIVE_MAXIMUM = 1024
"""Deliveries of QoS 1 and 2 that a program has not read; the broker keeps the rest."""

IN_FLIGHT_MAX = 20
"""Publications of QoS 1 and 2 under way at once: as many as mosquitto takes without being told to."""

PAUSE_S_MIN = 0.1
PAUSE_S_MAX = 30.0
"""Pauses between attempts to connect double from the one to the other."""

STEADY_S = 10.0
"""A connection that was held for so long was a good one: after it, pauses begin anew. Others count as failed
attempts, though the broker accepted them: it may close each of them at once."""

EARLY_MAX = 1024
"""Deliveries of a resumed session that wait for the program to subscribe again."""

REPLY_PREFIX = "$tidings/reply/"
"""Where the answers of brokers go; they say so themselves, and no other broker does."""

REPLY_BYTES_MAX = 64 * 1024 * 1024
"""Of a list of all declarations, say."""

Retained = Literal["all", "new", "none"]
_RETAIN_HANDLING: dict[Retained, int] = {"all": 0, "new": 1, "none": 2}

_SUBSCRIPTION_IDENTIFIER_MAX = 268_435_455


def connect(
    url: str | Sequence[str] = urls.DEFAULT_URL,
    *,
    user: str | None = None,
    password: str | None = None,
    client_id: str = "",
    session_expiry: float = 0,
    authority: str | None = None,
    certificate: tuple[str, str] | None = None,
    context: ssl.SSLContext | None = None,
    will: Will | None = None,
    keep_alive: int = 60,
    timeout: float = ANSWER_WITHIN_S,
    queue_max: int = QUEUE_MAX,
    pause_max: float | None = None,
) -> Network:
    """A network, to be entered: `async with tidings.connect("mqtt://localhost:1883") as network:`.

    url: mqtt://, mqtts://, ws:// or wss://; several, as a list or with commas, are tried one after the other.
    user, password: else from the URL, else from TIDINGS_USER and TIDINGS_PASSWORD.
    client_id, session_expiry: together they let a session outlive its connections, for so many seconds: the
        network keeps its subscriptions, and what comes for it with QoS 1 and 2.
    authority: a file with the certificates that are trusted, instead of the system's.
    certificate: files with one's own certificate and its key.
    context: instead of both, a TLS context of your own.
    will: published by the network if this program goes without a word.
    keep_alive: seconds after which either side notices that the other is gone.
    timeout: seconds that a broker may take to answer; calls have their own `timeout` too.
    queue_max: publications that wait while there is no connection; then `publish` waits.
    pause_max: seconds between two attempts to connect again, at most; by default 30, for the broker's sake.

    Nothing is connected before it is entered. `.sync()` gives the same for programs without asyncio.
    """
    if session_expiry and not client_id:
        raise InputError(
            "session_expiry without client_id: a session can only be resumed by the name of its client"
        )
    addresses = urls.read_all(url, user, password, os.environ)
    if context is None and addresses[0].secure:
        context = _context(authority, certificate)
    return Network(
        addresses,
        client_id=client_id,
        session_expiry_s=int(session_expiry),
        context=context,
        will=will,
        keep_alive_s=keep_alive,
        answer_within_s=timeout,
        queue_max=queue_max,
        pause_s_max=pause_max,
    )


class _Outgoing(msgspec.Struct, eq=False):
    """A publication that waits for a connection."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties
    done: asyncio.Future[None]
    sent: bool = False


class Network:
    """A network as a program meets it. Made by `connect`, entered with `async with`."""

    def __init__(
        self,
        addresses: Sequence[urls.Address],
        *,
        client_id: str = "",
        session_expiry_s: int = 0,
        context: ssl.SSLContext | None = None,
        will: Will | None = None,
        keep_alive_s: int = 60,
        answer_within_s: float = ANSWER_WITHIN_S,
        queue_max: int = QUEUE_MAX,
        pause_s_max: float | None = None,
    ) -> None:
        self.addresses = tuple(addresses)
        self.address: urls.Address | None = None
        """Where the connection leads; None while there is none."""
        self.client_id = client_id
        """Given, or by the broker."""
        self.server = NO_PROPERTIES
        """What the broker said of itself when it took us."""
        self.session_present = False
        """Whether the broker had a session of ours when it was last connected to."""
        self._session_expiry_s = session_expiry_s
        self._context = context
        self._will = will
        self._keep_alive_s = keep_alive_s
        self._answer_within_s = answer_within_s
        self._queue_max = queue_max
        self._pause_s_max = PAUSE_S_MAX if pause_s_max is None else pause_s_max
        self._first = 0
        self._random = random.Random()
        self._connection: Connection | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._lost: asyncio.Future[Lost]
        self._up: asyncio.Event
        self._error: TidingsError | None = None
        self._subscriptions: dict[int, Subscription] = {}
        self._slots: OrderedDict[int, Slot] = OrderedDict()
        self._early: deque[tuple[Delivery, Slot | None]] = deque()
        self._queue: deque[_Outgoing] = deque()
        self._under_way: set[asyncio.Future[None]] = set()
        self._room: asyncio.Event
        self._replies: Subscription | None = None
        self._reader: asyncio.Task[None] | None = None
        self._asked: dict[bytes, asyncio.Future[Delivery]] = {}
        self._asking: asyncio.Lock

    # Coming and going.

    async def __aenter__(self) -> Network:
        """Connect; NetworkError if none of the brokers answers, AccessError if they refuse."""
        if self._connection is not None:
            raise InputError("this network has been entered already; call tidings.connect again for another")
        loop = asyncio.get_running_loop()
        self._up, self._room, self._asking = asyncio.Event(), asyncio.Event(), asyncio.Lock()
        self._connection = Connection(
            client_id=self.client_id,
            transport_of=self.addresses[0],
            context=self._context,
            keep_alive_s=self._keep_alive_s,
            answer_within_s=self._answer_within_s,
            in_flight_max=IN_FLIGHT_MAX,
            will=self._will,
            on_delivery=self._delivered,
            on_lost=self._on_lost,
        )
        await self._connect_to_any()
        self._keeper = loop.create_task(self._keep(), name="tidings connection")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._connection is not None
        for task in (self._reader, self._keeper):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._connection.close()
        self.address = None
        self._give_up(NetworkError("the network was left"))

    def __enter__(self) -> None:
        raise TypeError(
            "write `async with tidings.connect(…)`, or `with tidings.connect(…).sync()` without asyncio"
        )

    def __exit__(self, *_: object) -> None:
        raise AssertionError("never entered")

    def sync(self) -> BlockingNetwork:
        """The same for scripts and notebooks, entered with `with`: its loop runs in a thread of its own."""
        from tidings.client.blocking import BlockingNetwork

        return BlockingNetwork(self)

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._up.is_set() and self._error is None

    @property
    def queued(self) -> int:
        """Publications that have not been sent yet."""
        return len(self._queue)

    async def _connect_to_any(self) -> None:
        """Try each broker once, beginning with the last that took us: it may have our session."""
        assert self._connection is not None
        failures: list[TidingsError] = []
        for address in (*self.addresses[self._first :], *self.addresses[: self._first]):
            self._lost = asyncio.get_running_loop().create_future()
            try:
                opened = await self._connection.connect(
                    address, clean_start=not self._session_expiry_s, properties=self._greeting()
                )
            except TidingsError as error:
                failures.append(error)
                continue
            await self._welcome(address, opened)
            if not self._lost.done() or self._lost.result().code in refusals.FINAL:
                return
            failures.append(NetworkError(self._lost.result().reason))
        if len(failures) == 1:
            raise failures[0]
        kind = AccessError if all(isinstance(one, AccessError) for one in failures) else NetworkError
        raise kind("no broker will do:\n" + "\n".join(f"  {one}" for one in failures))

    def _greeting(self) -> Properties:
        return Properties(
            session_expiry_s=self._session_expiry_s or None,
            receive_maximum=RECEIVE_MAXIMUM,
            request_problem_information=1,
            # The answer says where replies go, and that it is a broker of ours.
            request_response_information=1,
        )

    async def _welcome(self, address: urls.Address, opened: Opened) -> None:
        if self._lost.done():
            return  # CONNACK and the end of the connection came in one read
        LOG.info("connected to %s", address)
        self._first = self.addresses.index(address)
        self.address, self.server, self.session_present = address, opened.properties, opened.session_present
        self.client_id = self.client_id or opened.properties.assigned_client_id or ""
        if opened.session_present:
            # They come again under the same numbers; until then they cannot be acknowledged.
            for slot in self._slots.values():
                slot.sent_here = False
        else:
            self._slots.clear()
            for subscription in list(self._subscriptions.values()):
                if subscription.qos is None:
                    continue
                try:
                    await self._ask_for(subscription)
                except NetworkError:
                    return  # lost again; the next connection does it
                except TidingsError as error:
                    # Rights or declarations may have changed meanwhile.
                    self._subscriptions.pop(subscription.number, None)
                    subscription.fail(error)
        if not self._lost.done():
            self._up.set()
            self._flush()

    async def _keep(self) -> None:
        """Connect again whenever the connection is lost, until it is of no use."""
        clock = asyncio.get_running_loop().time
        pause_s, since, level = 0.0, clock(), logging.WARNING
        while True:
            lost = await self._lost
            if lost.code in refusals.FINAL:
                self._give_up(NetworkError(f"{lost.reason}; it is not connected again"))
                return
            LOG.log(level, "%s; connecting again", lost.reason)
            if clock() - since >= STEADY_S:
                pause_s = 0.0
            # All clients of a broker lose it at once, and should not all come back at once.
            await asyncio.sleep(self._random.uniform(0, pause_s))
            pause_s = min(self._pause_s_max, max(PAUSE_S_MIN, pause_s * 2))
            try:
                await self._connect_to_any()
                since, level = clock(), logging.WARNING
            except AccessError as error:
                self._give_up(error)
                return
            except NetworkError as error:
                since, level = math.inf, logging.INFO
                self._on_lost(Lost(str(error)))

    def _on_lost(self, lost: Lost) -> None:
        self._up.clear()
        self.address = None
        if not self._lost.done():
            self._lost.set_result(lost)

    def _give_up(self, error: TidingsError) -> None:
        """Nothing will come any more: tell everybody who waits."""
        self._error = error
        self._up.set()
        self._room.set()
        for subscription in self._subscriptions.values():
            subscription.fail(error)
        self._subscriptions.clear()
        waiting: list[asyncio.Future[Any]] = [one.done for one in self._queue]
        for future in [*waiting, *self._under_way, *self._asked.values()]:
            if not future.done():
                future.set_exception(error)
                future.exception()
        self._queue.clear()

    def _check(self) -> Connection:
        if self._connection is None:
            raise InputError(
                "the network has not been entered; write `async with tidings.connect(…) as network:`"
            )
        if self._error is not None:
            raise self._error
        return self._connection

    # Publishing.

    async def publish(
        self,
        topic: str,
        report: Sent = None,
        *,
        qos: int = 1,
        retain: bool = False,
        content_type: str | None = None,
        user: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        expiry: float | None = None,
        response_topic: str | None = None,
        correlation: bytes | None = None,
        timeout: float | None = None,
    ) -> None:
        """Publish a report: a dict or msgspec.Struct of fields as JSON, text or bytes as they are.

        With QoS 1 or 2 it is done when the broker has acknowledged it; with QoS 0 when it has been handed
        over. While there is no connection it waits. AccessError or InputError if the broker refuses it,
        InputError too if it is larger than the broker's Maximum Packet Size: then it is not sent;
        NetworkError if it is not done within `timeout` seconds (by default for as long as it takes).
        """
        self._check()
        if qos not in (0, 1, 2):
            raise InputError(f"qos is {qos!r}; it must be 0, 1 or 2")
        if (fault := names.name_fault(topic)) is not None:
            raise InputError(f"{topic!r} cannot be published to: {fault}")
        payload, content_type = deliveries.payload_of(report, content_type)
        properties = Properties(
            content_type=content_type,
            message_expiry_s=None if expiry is None else int(expiry),
            response_topic=response_topic,
            correlation_data=correlation,
            user=tuple(user.items()) if isinstance(user, Mapping) else tuple(user),
        )
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        outgoing = _Outgoing(topic, payload, qos, retain, properties, done)
        try:
            async with asyncio.timeout(timeout):
                await self._send(outgoing)
        except TimeoutError:
            if not outgoing.sent:
                outgoing.done.cancel()
                raise NetworkError(
                    f"what was published to {topic!r} was not sent within {timeout:g} s"
                ) from None
            raise NetworkError(
                f"what was published to {topic!r} was not acknowledged within {timeout:g} s; it may be later"
            ) from None

    async def _send(self, outgoing: _Outgoing) -> None:
        connection = self._check()
        while len(self._queue) >= self._queue_max:
            self._room.clear()
            await self._room.wait()
            self._check()
        self._queue.append(outgoing)
        self._flush()
        if outgoing.qos == 0:
            # While there is no connection it waits, and nobody could say more about it.
            await connection.written()
            if outgoing.done.done():
                outgoing.done.result()
            return
        await outgoing.done

    def _flush(self) -> None:
        """Hand over what waits, in its order, as long as there is a connection and the broker takes it."""
        assert self._connection is not None
        window = min(IN_FLIGHT_MAX, self.server.receive_maximum or IN_FLIGHT_MAX)
        while self._queue and self.connected:
            if self._queue[0].qos and len(self._under_way) >= window:
                break
            one = self._queue.popleft()
            if one.done.done():
                continue  # nobody waits for it any more
            one.sent = True
            try:
                acknowledged = self._connection.publish(
                    one.topic, one.payload, one.qos, one.retain, one.properties
                )
            except TidingsError as error:
                one.done.set_exception(error)
                if one.qos == 0:
                    # It may have waited for a connection, and then its call has returned.
                    one.done.exception()
                    LOG.warning("%s", error)
                continue
            if acknowledged is None:
                one.done.set_result(None)
            else:
                self._under_way.add(acknowledged)
                acknowledged.add_done_callback(partial(self._acknowledged, one))
        if len(self._queue) < self._queue_max:
            self._room.set()

    def _acknowledged(self, one: _Outgoing, future: asyncio.Future[None]) -> None:
        self._under_way.discard(future)
        error = future.exception()
        if not one.done.done():
            if error is None:
                one.done.set_result(None)
            else:
                one.done.set_exception(error)
        self._flush()

    # Subscribing.

    def subscribe(
        self,
        topic_filter: str,
        *,
        where: str | Filter | Sequence[str | Filter] | None = None,
        unknown: Unknown | Literal["wait", "assume"] = Unknown.WAIT,
        every: str | None = None,
        qos: int = 1,
        retained: Retained = "all",
        snapshot: bool = True,
        no_local: bool = False,
        keep: bool | None = None,
        waiting_max: int = WAITING_MAX,
    ) -> Subscription:
        """A subscription, to be iterated or entered: `async for event in network.subscribe("traffic/#")`.

        where: a content filter; of several, one must match.
        unknown: what a term over a missing field counts as, "wait" (not yet) or "assume" (true).
        every: how often a growing event is wanted again at most, such as "5s"; by default each time.
        retained: what was there before: "all" of it, only if the subscription is "new", or "none". On a plain
            topic that is a retained message, on a gathered one all open events that match.
        snapshot: False says the same as retained="none": begin with what is told from now on.
        no_local: without what this connection publishes itself.
        keep: leave it to the session when the program leaves it; by default if the session outlives it.
        waiting_max: deliveries of QoS 0 and 2 that wait to be read; beyond it the oldest are dropped. Those
            of QoS 1 are never dropped: at most 1,024 of a connection wait here, the rest at the broker.
        """
        if qos not in (0, 1, 2):
            raise InputError(f"qos is {qos!r}; it must be 0, 1 or 2")
        if retained not in _RETAIN_HANDLING:
            raise InputError(f"retained is {retained!r}; it must be 'all', 'new' or 'none'")
        try:
            reading = Unknown(unknown)
        except ValueError:
            raise InputError(f"unknown is {unknown!r}; it must be 'wait' or 'assume'") from None
        if every is not None:
            try:
                durations.parse(every)
            except ValueError as error:
                raise InputError(f"every: {error}") from None
        wheres = _filter_texts(where)
        user = [("where", text) for text in wheres]
        if reading is Unknown.ASSUME:
            user.append(("unknown", reading.value))
        if every is not None:
            user.append(("every", every))
        return Subscription(
            self,
            Asked(topic_filter, qos, no_local, True, _RETAIN_HANDLING[retained if snapshot else "none"]),
            wheres,
            Properties(user=tuple(user)),
            waiting_max,
            keep=bool(self._session_expiry_s) if keep is None else keep,
        )

    async def _begin(self, subscription: Subscription) -> None:
        self._check()
        topic_filter = subscription.asked.topic_filter
        if any(one.asked.topic_filter == topic_filter for one in self._subscriptions.values()):
            raise SubscriptionError(
                f"{topic_filter!r} is subscribed to already on this connection, and MQTT keeps one "
                "subscription of a topic filter; join the filters with OR, or connect once more"
            )
        number = crc32(topic_filter.encode()) % _SUBSCRIPTION_IDENTIFIER_MAX + 1
        while number in self._subscriptions:
            number = number % _SUBSCRIPTION_IDENTIFIER_MAX + 1
        subscription.number = number
        self._subscriptions[number] = subscription
        self._hand_over_early(subscription)
        try:
            async with asyncio.timeout(self._answer_within_s):
                while True:
                    await self._up.wait()
                    self._check()
                    try:
                        await self._ask_for(subscription)
                        return
                    except NetworkError:
                        if self.connected:
                            raise
        except TimeoutError:
            self._subscriptions.pop(number, None)
            raise NetworkError(
                f"the subscription to {topic_filter!r} was not confirmed within {self._answer_within_s:g} s"
            ) from None
        except BaseException:
            self._subscriptions.pop(number, None)
            raise

    async def _ask_for(self, subscription: Subscription) -> None:
        """Ask, and see what the broker says."""
        assert self._connection is not None
        asked = {name for name, _ in subscription.properties.user}
        if asked & {"where", "every"} and not self._is_ours:
            name = "where" if "where" in asked else "every"
            raise SubscriptionError(
                f"{self.address} is no Tidings broker: it would ignore `{name}`, and deliver everything"
            )
        properties = subscription.properties
        if self.server.subscription_identifier_available != 0:
            properties = msgspec.structs.replace(properties, subscription_identifiers=(subscription.number,))
        answer = await self._connection.subscribe(subscription.asked, properties)
        if answer.reasons[0] >= FAILURE:
            raise refusals.subscription(
                subscription.asked.topic_filter,
                subscription.wheres,
                answer.reasons[0],
                answer.properties.reason_string,
            )
        subscription.qos = answer.reasons[0]

    @property
    def _is_ours(self) -> bool:
        """Whether the broker understands what MQTT leaves to us."""
        return (self.server.response_information or "") == REPLY_PREFIX

    async def _end(self, subscription: Subscription) -> None:
        if self._subscriptions.pop(subscription.number, None) is None:
            return
        if subscription.keep:
            # They belong to the session: whoever subscribes again gets them, here or after a restart.
            self._early.extendleft(reversed(subscription.unread()))
            return
        subscription.abandon()
        if self.connected and self._connection is not None:
            try:
                async with asyncio.timeout(self._answer_within_s):
                    await self._connection.unsubscribe(subscription.asked.topic_filter)
            except (NetworkError, TimeoutError) as error:
                # A session without the connection is gone, and with it the subscription.
                LOG.info("%s: %s", subscription.asked.topic_filter, error)

    # Receiving.

    def _delivered(self, publish: Publish) -> None:
        known = self._slots.get(publish.packet_id) if publish.qos == 1 else None
        if known is not None and publish.dup and not known.sent_here:
            known.sent_here = True
            self._acknowledge()
            return
        readers = self._readers(publish)
        delivery = Delivery(
            topic=publish.topic,
            payload=publish.payload,
            qos=publish.qos,
            retained=publish.retain,
            dup=publish.dup,
            properties=publish.properties,
        )
        slot = None
        if publish.qos == 1:
            # What a broker has not sent again before something new, it will not send again.
            for number in [number for number, one in self._slots.items() if not one.sent_here]:
                del self._slots[number]
            slot = self._slots[publish.packet_id] = Slot(publish.packet_id, len(readers) or 1)
        for subscription in readers:
            subscription.take(delivery, slot)
        if not readers:
            self._keep_early(delivery, slot)

    def _readers(self, publish: Publish | Delivery) -> list[Subscription]:
        numbers = publish.properties.subscription_identifiers
        if numbers:
            return [self._subscriptions[number] for number in numbers if number in self._subscriptions]
        return [
            one
            for one in self._subscriptions.values()
            if names.match(_plain_filter(one.asked.topic_filter), publish.topic)
        ]

    def _keep_early(self, delivery: Delivery, slot: Slot | None) -> None:
        """Of a resumed session: what comes before the program has subscribed again."""
        if not self._session_expiry_s:
            if slot is not None:
                self._finished(slot)
            return
        self._early.append((delivery, slot))
        if len(self._early) > EARLY_MAX:
            dropped, slot = self._early.popleft()
            LOG.warning("dropped a delivery of %s to which nothing subscribes any more", dropped.topic)
            if slot is not None:
                self._finished(slot)

    def _hand_over_early(self, subscription: Subscription) -> None:
        early, self._early = self._early, deque()
        for delivery, slot in early:
            if subscription in self._readers(delivery):
                subscription.take(delivery, slot)
            else:
                self._early.append((delivery, slot))

    def _finished(self, slot: Slot) -> None:
        """All who were to read it have."""
        slot.finished = True
        self._acknowledge()

    def _acknowledge(self) -> None:
        """In the order in which they came [MQTT-4.6.0-2]."""
        assert self._connection is not None
        while self._slots:
            number, slot = next(iter(self._slots.items()))
            if not slot.finished or not slot.sent_here:
                return
            del self._slots[number]
            self._connection.acknowledge(number)

    # Asking.

    async def request(
        self, topic: str, body: Mapping[str, object], *, timeout: float | None = None
    ) -> dict[str, object]:
        """Publish an object with a response topic, and wait for the object that answers it."""
        within_s = self._answer_within_s if timeout is None else timeout
        self._check()
        if not self._is_ours:
            raise NetworkError(f"{self.address} is no Tidings broker: it does not answer {topic!r}")
        async with self._asking:
            if self._replies is None:
                replies = self.subscribe(REPLY_PREFIX + secrets.token_hex(12), keep=False)
                self._replies = await replies.__aenter__()
                self._reader = asyncio.get_running_loop().create_task(self._read_replies(replies))
        correlation = secrets.token_bytes(8)
        answer: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        self._asked[correlation] = answer
        try:
            async with asyncio.timeout(within_s):
                await self.publish(
                    topic,
                    body,
                    response_topic=self._replies.asked.topic_filter,
                    correlation=correlation,
                )
                delivery = await answer
        except TimeoutError:
            raise NetworkError(f"nothing answered {topic!r} within {within_s:g} s") from None
        finally:
            del self._asked[correlation]
        try:
            return payloads.decode(delivery.payload, bytes_max=REPLY_BYTES_MAX)
        except PayloadError as error:
            raise NetworkError(f"the answer to {topic!r} cannot be read: {error}") from None

    async def _read_replies(self, replies: Subscription) -> None:
        async for delivery in replies:
            answer = self._asked.get(delivery.properties.correlation_data or b"")
            if answer is not None and not answer.done():
                answer.set_result(delivery)


def _filter_texts(where: str | Filter | Sequence[str | Filter] | None) -> tuple[str, ...]:
    """The texts of content filters. An empty text is no filter."""
    given = where if isinstance(where, Sequence) and not isinstance(where, str) else (where or "",)
    texts = []
    for one in given:
        text = one if isinstance(one, str) else getattr(one, "source", None)
        if not isinstance(text, str):
            raise InputError(
                f"where is {one!r}; it is the text of a content filter, a Filter, several of these, or None"
            )
        texts.append(text)
    return tuple(filter(None, texts))


def _plain_filter(topic_filter: str) -> str:
    """Without the share group."""
    return topic_filter.split("/", 2)[2] if topic_filter.startswith("$share/") else topic_filter


def _context(authority: str | None, certificate: tuple[str, str] | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authority)
        if certificate is not None:
            context.load_cert_chain(*certificate)
    except OSError as error:
        named = ", ".join(filter(None, [authority, *(certificate or ())]))
        raise InputError(f"the certificates in {named} cannot be used: {error.strerror or error}") from None
    return context
