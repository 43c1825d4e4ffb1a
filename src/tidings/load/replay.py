"""A workload as a load for any MQTT broker: its subscriptions and publications, on a few connections.

The workload's clients share connections: client k publishes on connection k modulo their number, and its
subscriptions are those of connection k modulo theirs. MQTT gives a session one subscription for each topic
filter, so on one connection the rectangles of all its clients are joined by OR. A broker that does not know
content filters gets the topic filters alone; it says so by not answering our property in SUBACK.

Subscriptions that come and go are there all the time, if they are at any time of what is replayed. Of events
it is known how many deliveries there should be: they are worked out by the index beforehand. Of reports it is
not, since what they become is for the broker to decide.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from tidings.client import refusals
from tidings.client.urls import Address
from tidings.errors import InputError, NetworkError, PeerError
from tidings.language import names
from tidings.language.limits import DEFAULT
from tidings.language.regions import Unknown
from tidings.load import load as loads
from tidings.load.bare import Bare, Sender
from tidings.load.load import Outcome
from tidings.matching.topical import TopicalIndex
from tidings.mqtt.codec import encode, variable
from tidings.mqtt.packets import (
    Asked,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Version,
)
from tidings.mqtt.reasons import FAILURE
from tidings.mqtt.subscribing import UNDERSTOOD
from tidings.records import workload as tables
from tidings.records.workload_reading import Subscriptions, Workload

SUBSCRIPTIONS_MAX = 1_000_000
PUBLICATIONS_MAX = 1_000_000
"""What one process can still send and recognise: a publication takes about 1 kB here."""

SUBSCRIBERS_MAX = 10_000
"""Connections that are made where nobody says how many."""

ASKED_AT_ONCE = 50
"""Subscriptions of one connection that wait for an answer."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a connection asks for under one topic filter."""

    topic_filter: str
    wheres: tuple[str, ...]
    """Any of these."""

    unknown: Unknown
    """`assume` if one of those who share it does."""


@dataclass(frozen=True, eq=False)
class Replay:
    """What is to be done."""

    addresses: Sequence[Address]
    topics: tuple[str, ...]
    """Of each publication, in the order of time; and so its payload, connection, time and story."""

    payloads: tuple[bytes, ...]
    senders: tuple[int, ...]
    after_us: tuple[int, ...]
    stories: tuple[int, ...]

    wanted: tuple[tuple[Wanted, ...], ...]
    """By connection."""

    expected: tuple[int, ...]
    expected_by_topic: tuple[int, ...]
    """Deliveries to each connection, of events: with content filters, and without."""

    publishers: int
    reports: bool = False
    qos: int = 0
    speed_up: float = 0.0
    """How many times faster than it happened; 0 for as fast as the broker takes it."""

    version: Version = Version.V5
    context: ssl.SSLContext | None = None
    connect_within_s: float = 30.0
    quiet_s: float = 5.0
    """It is over when all has come, or nothing more has for so long."""

    @property
    def subscribers(self) -> int:
        """Connections that subscribe."""
        return len(self.wanted)


def prepare(
    workload: Workload,
    *,
    publish: str | None = None,
    publishers: int = 1,
    subscribers: int | None = None,
    subscriptions: int | None = None,
    publications: int | None = None,
) -> Replay:
    """A workload, or the first of its subscriptions and publications, dealt out to connections.

    Without a number of subscribers there are as many as the filters need.
    """
    source = publish or tables.EVENTS
    if source not in (tables.EVENTS, tables.REPORTS):
        raise InputError(f"--publish is {source!r}; give {tables.EVENTS} or {tables.REPORTS}")
    rows = workload.table(source).rows
    kept = rows if publications is None else min(publications, rows)
    if kept > PUBLICATIONS_MAX:
        raise InputError(
            f"{workload.folder / source} has {kept:,} rows, more than fit into memory here, at most "
            f"{PUBLICATIONS_MAX:,}; take the first ones with --publications {PUBLICATIONS_MAX}"
        )
    stretches = list(workload.published(source, kept))
    topics = tuple(stretch.topics[topic] for stretch in stretches for topic in stretch.topic.tolist())
    fields = [one for stretch in stretches for one in stretch.rows()]
    payloads = tuple(map(msgspec.json.encode, fields))
    clients = [client for stretch in stretches for client in stretch.client.tolist()]
    at = [one for stretch in stretches for one in stretch.at.tolist()]
    if source == tables.EVENTS and len(set(payloads)) < len(payloads):
        same = Counter(payloads).most_common(1)[0][0]
        raise InputError(
            f"{workload.folder / source}: two events say {same.decode()}; their {tables.STORY} should "
            "differ, so that deliveries can be recognised"
        )
    asked = _overlapping(workload.subscriptions(subscriptions, SUBSCRIPTIONS_MAX), at)
    count = _enough(asked) if subscribers is None else subscribers
    wanted = _wanted(asked, count)
    made = Replay(
        addresses=(),
        topics=topics,
        payloads=payloads,
        senders=tuple(client % publishers for client in clients),
        after_us=tuple(one - at[0] for one in at),
        stories=tuple(one[tables.STORY] for one in fields),
        wanted=wanted,
        expected=(),
        expected_by_topic=(),
        publishers=publishers,
        reports=source == tables.REPORTS,
    )
    if made.reports:
        # What is still to be merged comes later than what is sent.
        merging = [one.gathering.merge_after_us / 1e6 for one in workload.declarations if one.gathering]
        return replace(made, quiet_s=made.quiet_s + max(merging, default=0.0))
    return replace(
        made,
        expected=_by_content(asked, count, topics, fields),
        expected_by_topic=_by_topic(wanted, topics),
    )


def _overlapping(asked: Subscriptions, at: Sequence[int]) -> Subscriptions:
    """Those that are there at some time of what is replayed."""
    if not at:
        return asked
    here = (asked.from_at <= at[-1]) & (asked.until_at > at[0])
    return asked if here.all() else asked.some(here)


def _most(asked: Subscriptions, connections: int) -> int:
    """The most different filters that a connection would have under one topic filter."""
    _, place = asked.distinct
    if not len(asked):
        return 0
    found = np.unique(np.column_stack([asked.client % connections, asked.topic, place]), axis=0)
    return int(np.unique(found[:, :2], axis=0, return_counts=True)[1].max())


def _enough(asked: Subscriptions) -> int:
    """Connections that are enough for all filters."""
    connections = 1
    while _most(asked, connections) > DEFAULT.disjuncts and connections < SUBSCRIBERS_MAX:
        connections *= 2
    return connections


def _wanted(asked: Subscriptions, connections: int) -> tuple[tuple[Wanted, ...], ...]:
    if not connections:
        return ()
    if (most := _most(asked, connections)) > DEFAULT.disjuncts:
        raise InputError(
            f"one of {connections} connections would have {most} different filters on one topic filter; MQTT "
            f"has one subscription for each, and a filter at most {DEFAULT.disjuncts} alternatives; give "
            f"--subscribers {_enough(asked)}, or fewer subscriptions with --subscriptions"
        )
    first, place = asked.distinct
    made = [asked.asked(row) for row in first.tolist()]
    groups: list[dict[str, dict[int, None]]] = [defaultdict(dict) for _ in range(connections)]
    for client, one in zip(asked.client.tolist(), place.tolist(), strict=True):
        groups[client % connections][made[one].topic_filter][one] = None
    return tuple(
        tuple(
            Wanted(
                topic_filter,
                tuple(dict.fromkeys(made[one].filter.source for one in sorted(held))),
                Unknown.ASSUME if any(made[one].unknown is Unknown.ASSUME for one in held) else Unknown.WAIT,
            )
            for topic_filter, held in sorted(group.items())
        )
        for group in groups
    )


def _by_content(
    asked: Subscriptions, connections: int, topics: Sequence[str], fields: Sequence[Mapping[str, int]]
) -> tuple[int, ...]:
    """Events that each connection gets by its filters."""
    first, place = asked.distinct
    index = TopicalIndex()
    for number, row in enumerate(first.tolist()):
        one = asked.asked(row)
        index.add(number, one.topic_filter, one.filter, one.unknown)
    pairs = np.unique(np.column_stack([place, asked.client % max(1, connections)]), axis=0)
    begins = np.searchsorted(pairs[:, 0], np.arange(len(first) + 1))
    counts = np.zeros(connections, dtype=np.int64)
    by_topic: dict[str, list[Mapping[str, int]]] = defaultdict(list)
    for topic, one_fields in zip(topics, fields, strict=True):
        by_topic[topic].append(one_fields)
    for topic in sorted(by_topic) if connections else ():
        for places in index.match_batch(topic, by_topic[topic]):
            getting = [pairs[begins[one] : begins[one + 1], 1] for one in places.tolist()]
            if getting:
                counts[np.unique(np.concatenate(getting))] += 1
    return tuple(counts.tolist())


def _by_topic(wanted: Sequence[Sequence[Wanted]], topics: Sequence[str]) -> tuple[int, ...]:
    """Publications that each connection gets by its topic filters."""
    counts = Counter(topics)
    return tuple(
        sum(
            count
            for topic, count in counts.items()
            if any(names.match(one.topic_filter, topic) for one in group)
        )
        for group in wanted
    )


async def run(
    replay: Replay,
    broker_pids: Sequence[int] = (),
    watch: Callable[[int, int], None] = lambda _sent, _received: None,
) -> tuple[Outcome, bool]:
    """Carry it out; also says whether the broker took content filters."""
    if any(address.websocket for address in replay.addresses):
        raise InputError("a load goes over mqtt:// or mqtts://; WebSocket would measure its own framing here")
    outcome = Outcome()
    known = _Known(replay)
    run_name = f"{os.getpid() % 1_000_000:06d}{time.time_ns() % 1_000_000:06d}"
    subscribers = [
        _Subscriber(replay, known, outcome, f"sub-{run_name}-{at}", at) for at in range(replay.subscribers)
    ]
    publishers = [_Publisher(replay, known, f"pub-{run_name}-{at}", at) for at in range(replay.publishers)]
    try:
        for client in [*subscribers, *publishers]:
            await client.connect()
        for subscriber in subscribers:
            await subscriber.subscribe()
        content = all(subscriber.content for subscriber in subscribers)
        if not replay.reports:
            outcome.expected = sum(replay.expected if content else replay.expected_by_topic)
        await _carry(replay, outcome, subscribers, publishers, broker_pids, watch)
    finally:
        for client in [*subscribers, *publishers]:
            client.leave()
    if replay.reports:
        outcome.expected = outcome.received
    return outcome, content


async def _carry(
    replay: Replay,
    outcome: Outcome,
    subscribers: Sequence[_Subscriber],
    publishers: Sequence[_Publisher],
    broker_pids: Sequence[int],
    watch: Callable[[int, int], None],
) -> None:
    before = [loads.cpu_seconds(pid) for pid in broker_pids]
    own = time.process_time()
    start = time.perf_counter_ns()
    sending = [asyncio.create_task(publisher.send(start)) for publisher in publishers]
    over = asyncio.create_task(_until_over(replay, outcome, subscribers, sending))
    while not over.done():
        await asyncio.wait({over}, timeout=0.1)
        watch(sum(one.sent for one in publishers), outcome.received)
    await over
    outcome.sent = sum(one.sent for one in publishers)
    sent_at = max(one.done_at for one in publishers)
    last = max([sent_at, *(one.last_at for one in subscribers)])
    outcome.seconds = (last - start) / 1e9
    outcome.sending_seconds = (sent_at - start) / 1e9
    outcome.own_cpu_seconds = time.process_time() - own
    if before:
        outcome.broker_cpu_seconds = await loads.at_rest(broker_pids) - sum(before)


async def _until_over(
    replay: Replay,
    outcome: Outcome,
    subscribers: Sequence[_Subscriber],
    sending: Sequence[asyncio.Task[None]],
) -> None:
    await asyncio.gather(*sending)
    seen, since = -1, time.perf_counter()
    while replay.reports or outcome.received < outcome.expected:
        for subscriber in subscribers:
            subscriber.check()
        if outcome.received != seen:
            seen, since = outcome.received, time.perf_counter()
        elif time.perf_counter() - since > replay.quiet_s:
            return
        await asyncio.sleep(0.01)


class _Known:
    """Which publication a payload is, and when it should have been sent."""

    def __init__(self, replay: Replay) -> None:
        self.places = {} if replay.reports else {payload: at for at, payload in enumerate(replay.payloads)}
        self.sent_ns: array[int] = array("q", bytes(8 * len(replay.payloads)))
        self.latest: dict[int, int] = {}
        """By story: the place of the last that was sent."""

    def place(self, payload: bytes) -> int | None:
        """The place of a publication; of a gathered event, that of its latest report."""
        found = self.places.get(payload)
        if found is None:
            try:
                story = msgspec.json.decode(payload, type=dict[str, object]).get(tables.STORY)
            except msgspec.DecodeError:
                return None
            found = self.latest.get(story) if isinstance(story, int) else None
        return found


class _Publisher(Sender):
    """Sends what the workload's clients of one connection publish."""

    def __init__(self, replay: Replay, known: _Known, client_id: str, number: int) -> None:
        self._mine = [at for at, sender in enumerate(replay.senders) if sender == number]
        super().__init__(replay, client_id, number, len(self._mine), replay.qos, replay.speed_up > 0)
        self._replay = replay
        self._known = known
        self._first = bytes([0x30 | replay.qos << 1])
        self._no_properties = b"\x00" if replay.version is Version.V5 else b""

    def due_ns(self, number: int) -> int:
        return round(self._replay.after_us[self._mine[number]] * 1000 / self._replay.speed_up)

    def message(self, number: int, at_ns: int, packet_id: bytes) -> bytes:
        at = self._mine[number]
        replay, known = self._replay, self._known
        known.sent_ns[at] = at_ns
        known.latest[replay.stories[at]] = at
        topic = replay.topics[at].encode()
        body = b"".join(
            (len(topic).to_bytes(2, "big"), topic, packet_id, self._no_properties, replay.payloads[at])
        )
        return self._first + variable(len(body)) + body


class _Subscriber(Bare):
    """Asks for what its clients ask for, counts what comes, and acknowledges it."""

    def __init__(self, replay: Replay, known: _Known, outcome: Outcome, client_id: str, number: int) -> None:
        super().__init__(replay, client_id, number)
        self._replay = replay
        self._known = known
        self._outcome = outcome
        self._got: set[int] = set()
        self._timed = replay.speed_up > 0
        self._granted: dict[int, tuple[Wanted, asyncio.Future[None]]] = {}
        self.content = replay.version is Version.V5
        """Whether the broker takes content filters."""
        self.last_at = 0

    async def subscribe(self) -> None:
        wanted = self._replay.wanted[self.number]
        for begin in range(0, len(wanted), ASKED_AT_ONCE):
            some = wanted[begin : begin + ASKED_AT_ONCE]
            waiting = [self._ask(number, one) for number, one in enumerate(some, begin + 1)]
            try:
                async with asyncio.timeout(self._replay.connect_within_s):
                    await asyncio.gather(*waiting)
            except TimeoutError:
                raise NetworkError(f"{self.address} does not confirm a subscription") from None

    def _ask(self, number: int, one: Wanted) -> asyncio.Future[None]:
        user: tuple[tuple[str, str], ...] = ()
        if self.content:
            user = tuple(("where", where) for where in one.wheres)
            if one.unknown is Unknown.ASSUME:
                user += (("unknown", one.unknown.value),)
        asked = (Asked(one.topic_filter, self._replay.qos),)
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._granted[number] = one, granted
        self.write(encode(Subscribe(number, asked, Properties(user=user)), self._replay.version))
        return granted

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter_ns()
        decoder = self.decoder
        decoder.feed(data)
        try:
            while (packet := decoder.next()) is not None:
                if isinstance(packet, Publish):
                    self._take(packet, now)
                else:
                    self.on(packet)
        except PeerError as error:
            self._end(f"{self.address} sent what is not MQTT: {error}")

    def _take(self, packet: Publish, now: int) -> None:
        outcome, known = self._outcome, self._known
        place = known.place(packet.payload)
        # Of a gathered event, each version is a delivery of its own; some of them have no payload.
        again = not self._replay.reports and (place is None or place in self._got)
        if again:
            outcome.repeated += 1
        else:
            outcome.received += 1
            outcome.bytes_received += len(packet.payload)
            self.last_at = now
            if place is not None:
                self._got.add(place)
                if self._timed:
                    outcome.latencies_ns.append(now - known.sent_ns[place])
        if packet.qos == 1:
            self.write(encode(Puback(packet.packet_id), self._replay.version))
        elif packet.qos == 2:
            self.write(encode(Pubrec(packet.packet_id), self._replay.version))

    def on(self, packet: object) -> None:
        if isinstance(packet, Suback):
            one, granted = self._granted.pop(packet.packet_id)
            if packet.reasons[0] >= FAILURE:
                granted.set_exception(
                    refusals.subscription(
                        one.topic_filter,
                        list(one.wheres[:1]),
                        packet.reasons[0],
                        packet.properties.reason_string,
                    )
                )
                return
            if UNDERSTOOD[0] not in packet.properties.user:
                self.content = False
            granted.set_result(None)
        elif isinstance(packet, Pubrel):
            self.write(encode(Pubcomp(packet.packet_id), self._replay.version))
        else:
            super().on(packet)

    def _end(self, reason: str) -> None:
        super()._end(reason)
        for _, granted in self._granted.values():
            if not granted.done():
                granted.set_exception(NetworkError(reason))
                granted.exception()
