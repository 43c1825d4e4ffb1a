"""A day played to a live network: MQTT clients connect, reports are published when they are due, and all that
comes is written down.

Every client has a session of its own, by which it reports and hears: what each gets is known exactly, and the
brokers' records say who told whom. The day's clock stands still while brokers do not keep up with what is
published: a day that takes longer is played to its end, and nothing is lost.

Whether what came is right is not judged here.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tidings.client import refusals
from tidings.client.deliveries import WITHDRAWN
from tidings.client.urls import Address, read_all
from tidings.demo import completeness
from tidings.demo.city import City, Fields, Report, Subscriber, session_of
from tidings.demo.completeness import SLOW_S, Ending
from tidings.errors import NetworkError
from tidings.load.bare import Sender
from tidings.mqtt.codec import encode, variable
from tidings.mqtt.packets import Asked, Properties, Puback, Publish, Suback, Subscribe, Version
from tidings.mqtt.reasons import FAILURE
from tidings.records import workload as tables

QOS = 1

BEHIND_S = 0.5
"""A report that is late by this, or not acknowledged for so long, has the day's clock stand still."""

CONNECTING = 50
"""Clients that connect and subscribe at once."""

LATE_S = 1.0
"""A day that was late by less was not late."""

QUIET_S = 1.0
"""Beyond Tm: nothing more comes for so long once all is there that must come."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A report that a broker has acknowledged."""

    report: int
    story: int
    topic: str
    broker: str
    client: int
    session: str
    fields: Fields
    at_s: float
    """When it was sent: seconds since the day began, as all times here."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a subscriber got."""

    subscriber: int
    """The client."""

    event: str
    version: int
    state: str
    story: int | None
    """None if it has no fields and is the first that is heard of its event."""

    topic: str
    fields: Fields
    """None of an event that is withdrawn."""

    bytes: int
    at_s: float


@dataclass(frozen=True, eq=False)
class Played:
    """The day as it was."""

    city: City
    began_us: int
    """Microseconds since 1970."""

    seconds: float
    """Until the last delivery."""

    speed_up: float
    """As asked for."""

    speed_up_had: float
    records: Path
    sent: tuple[Sent, ...]
    delivered: tuple[Delivered, ...]
    """In the order in which they came."""

    subscribers: tuple[Subscriber, ...]
    cpu_s: Mapping[str, float]
    """Of each broker, since publishing began."""

    notes: tuple[str, ...]


class Net(Protocol):
    """What is asked of a network."""

    @property
    def records(self) -> Path: ...
    def mqtt(self, id_: str) -> str: ...
    def cpu_seconds(self) -> dict[str, float]: ...
    def busy(self) -> bool: ...


Watch = Callable[[int, int, float], None]
"""Told how many reports were sent and how much was delivered, and by how many seconds the day is late."""


async def play(
    city: City,
    due: Mapping[int, Mapping[int, Fields]],
    net: Net,
    watch: Watch = lambda _sent, _delivered, _late_s: None,
) -> Played:
    """Connect, publish, and listen until all has come that is due, or nothing more comes.

    `due` says for each subscriber which stories it must hear of, and what they end as. SetupError if the
    machine is too slow to say whether something is missing.
    """
    day = _Day()
    diary = _Diary(day, due)
    addresses = {
        broker: read_all(f"mqtt://{net.mqtt(broker)}") for broker in (one.id for one in city.brokers)
    }
    clients = _clients(city, addresses, day, diary)
    watch(0, 0, 0.0)
    try:
        await _in_groups([one.connect for one in clients])
        await _subscribe([one for one in clients if one.settling])
        before = net.cpu_seconds()
        began_us = time.time_ns() // 1000
        day.start_ns = time.perf_counter_ns()
        await _carry(city.merge_after_s, day, diary, clients, net, watch)
    finally:
        for one in clients:
            one.leave()
    after = net.cpu_seconds()
    # What was sent at one time stays in the order of its session.
    sent = sorted((one for client in clients for one in client.told()), key=lambda one: one.at_s)
    last_s = max(sent[-1].at_s, diary.last_s) if sent else 0.0
    planned_s = city.reports[-1].due_s if city.reports else 0.0
    took_s = planned_s + day.stood_ns / 1e9
    slow = (
        f"This machine could not play the day in {planned_s:.0f} s: its clock was stopped for "
        f"{day.stood_ns / 1e9:.0f} s so that brokers could catch up, and the day took {took_s:.0f} s."
    )
    return Played(
        city=city,
        began_us=began_us,
        seconds=last_s,
        speed_up=city.speed_up,
        speed_up_had=city.speed_up * planned_s / took_s if took_s else city.speed_up,
        records=net.records,
        sent=tuple(sent),
        delivered=tuple(diary.delivered),
        subscribers=city.subscribers,
        cpu_s={broker: after[broker] - spent for broker, spent in before.items()},
        notes=(slow,) if day.stood_ns / 1e9 > LATE_S else (),
    )


class _Day:
    """The day's clock: it can stand still."""

    def __init__(self) -> None:
        self.start_ns = 0
        self.stood_ns = 0
        """For how long it has."""

    def since_s(self, at_ns: int) -> float:
        """Seconds since the day began, by the network's clock, which never stands still."""
        return (at_ns - self.start_ns) / 1e9


class _Diary:
    """All that came, and what must still come."""

    def __init__(self, day: _Day, due: Mapping[int, Mapping[int, Fields]]) -> None:
        self.delivered: list[Delivered] = []
        self.last_s = 0.0
        self.missing = {(client, story) for client, stories in due.items() for story in stories}
        """Pairs of a subscriber and a story: what it got last of the story is not what that ends as."""
        self._day = day
        self._due = due
        self._stories: dict[str, int] = {}
        """By event."""

    def add(self, client: int, packet: Publish, now_ns: int) -> None:
        said = dict(packet.properties.user)
        event, state = said.get("event", ""), said.get("state", "")
        fields = msgspec.json.decode(packet.payload, type=dict[str, int]) if packet.payload else {}
        story = fields.get(tables.STORY, self._stories.get(event))
        if story is not None:
            self._stories[event] = story
            # What an event ends as may come more than once, with something else between. One that ends as
            # what was not asked for must be withdrawn.
            ends_as = self._due.get(client, {}).get(story)
            if fields == ends_as if ends_as is not None else state == WITHDRAWN:
                self.missing.discard((client, story))
            else:
                self.missing.add((client, story))
        self.last_s = self._day.since_s(now_ns)
        self.delivered.append(
            Delivered(
                client,
                event,
                int(said.get("version", "0")),
                state,
                story,
                packet.topic,
                fields,
                len(packet.payload),
                self.last_s,
            )
        )


async def _in_groups(works: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Some at a time: a broker has others to serve too."""
    for begin in range(0, len(works), CONNECTING):
        await asyncio.gather(*(work() for work in works[begin : begin + CONNECTING]))


def _clients(
    city: City, addresses: Mapping[str, tuple[Address, ...]], day: _Day, diary: _Diary
) -> list[_Client]:
    """All who report or subscribe, each at its broker."""
    told: dict[int, list[Report]] = defaultdict(list)
    for report in city.reports:
        told[report.client].append(report)
    wishes = {one.client: one for one in city.subscribers}
    return [
        _Client(
            addresses[wish.broker if wish is not None else mine[0].broker], client, wish, mine, day, diary
        )
        for client in dict.fromkeys([*wishes, *told])
        for wish, mine in [(wishes.get(client), told.get(client, []))]
    ]


async def _subscribe(asking: list[_Client]) -> None:
    """Ask until all brokers have confirmed all subscriptions; one waits a second for that, and no longer."""
    end = time.monotonic() + SLOW_S
    while asking:
        if time.monotonic() > end:
            raise completeness.too_slow(
                f"{len(asking)} subscriptions are not known everywhere after {SLOW_S:.0f} s, among them that "
                f"of {asking[0].client_id} at {asking[0].address}"
            )
        await _in_groups([one.subscribe for one in asking])
        asking = [one for one in asking if one.settling]


async def _carry(
    merge_after_s: float,
    day: _Day,
    diary: _Diary,
    clients: Sequence[_Client],
    net: Net,
    watch: Watch,
) -> None:
    """Publish everything when it is due, and wait for what it becomes."""
    tellers = [one for one in clients if one.total]
    sending = asyncio.gather(*(one.send(day.start_ns) for one in tellers))
    looked_ns = time.perf_counter_ns()

    def look() -> tuple[int, int]:
        """See that all is well and whether the day is late; how much is acknowledged, and how much came."""
        nonlocal looked_ns
        for one in clients:
            one.check()
        if sending.done():
            sending.result()
        now_ns = time.perf_counter_ns()
        if any(one.behind_ns(now_ns) > BEHIND_S * 1e9 for one in tellers):
            day.stood_ns += now_ns - looked_ns
        looked_ns = now_ns
        watch(sum(one.sent for one in tellers), len(diary.delivered), day.stood_ns / 1e9)
        return sum(one.acknowledged for one in tellers), len(diary.delivered)

    try:
        ending = await completeness.wait(
            lambda: sending.done() and not diary.missing,
            look,
            lambda: not sending.done() or net.busy(),
            quiet_s=merge_after_s + QUIET_S,
        )
    finally:
        sending.cancel()
    if ending is Ending.TOO_SLOW:
        raise completeness.too_slow(
            f"{len(diary.missing):,} of the events that subscribers must hear of have not come, and nothing "
            f"has for {completeness.SLOW_S:.0f} s while brokers have work queued"
        )


@dataclass(frozen=True)
class _Reach:
    """A broker of the network, for those who connect to it."""

    addresses: tuple[Address, ...]
    version: Version = Version.V5
    context: None = None
    connect_within_s: float = SLOW_S


class _Client(Sender):
    """Somebody of the city: reports when it is due, hears what it asked for, and has it written down."""

    keep_alive_s = 0

    def __init__(
        self,
        addresses: tuple[Address, ...],
        client: int,
        wish: Subscriber | None,
        mine: Sequence[Report],
        day: _Day,
        diary: _Diary,
    ) -> None:
        """`wish` is what it wants to hear of, None for nothing; `mine` are its reports, in order."""
        session = wish.session if wish is not None else session_of(client)
        super().__init__(_Reach(addresses), session, 0, len(mine), QOS, True)
        self._client = client
        self._wish = wish
        self._mine = mine
        self._day = day
        self._diary = diary
        self._sent_ns: list[int] = []
        self._asked = 0
        self._answer: asyncio.Future[Suback] | None = None
        self.settling = wish is not None
        """Whether some broker may not know of the subscription yet."""

    # Reporting.

    def due_ns(self, number: int) -> int:
        return round(self._mine[number].due_s * 1e9) + self._day.stood_ns

    def message(self, number: int, _at_ns: int, packet_id: bytes) -> bytes:
        self._sent_ns.append(time.perf_counter_ns())
        report = self._mine[number]
        topic = report.topic.encode()
        body = b"".join(
            (len(topic).to_bytes(2, "big"), topic, packet_id, b"\x00", msgspec.json.encode(report.fields))
        )
        return bytes([0x30 | QOS << 1]) + variable(len(body)) + body

    def behind_ns(self, now_ns: int) -> int:
        """How late the next report is that is not acknowledged, or not even sent."""
        first = self.sent - self._under_way
        if first < len(self._sent_ns):
            return now_ns - self._sent_ns[first]
        return now_ns - self._day.start_ns - self.due_ns(first) if first < self.total else 0

    def told(self) -> Iterator[Sent]:
        """What was sent."""
        for report, at_ns in zip(self._mine, self._sent_ns, strict=True):
            yield Sent(
                report.number,
                report.story,
                report.topic,
                report.broker,
                report.client,
                self.client_id,
                report.fields,
                self._day.since_s(at_ns),
            )

    # Hearing.

    async def subscribe(self) -> None:
        wish = self._wish
        assert wish is not None, "who wants nothing is never settling"
        self._asked += 1
        self._answer = asyncio.get_running_loop().create_future()
        user = (("where", wish.where),) if wish.where else ()
        asked = (Asked(wish.topic_filter, QOS),)
        self.write(encode(Subscribe(self._asked, asked, Properties(user=user)), Version.V5))
        try:
            async with asyncio.timeout(self.reach.connect_within_s):
                answer = await self._answer
        except TimeoutError:
            raise completeness.too_slow(
                f"{self.address} does not answer the subscription of {self.client_id} within {SLOW_S:.0f} s"
            ) from None
        said = answer.properties.reason_string
        if answer.reasons[0] >= FAILURE:
            raise refusals.subscription(wish.topic_filter, [wish.where], answer.reasons[0], said)
        self.settling = bool(said)  # "settling", or "absent: c"

    def on(self, packet: object) -> None:
        if isinstance(packet, Publish):
            self._diary.add(self._client, packet, time.perf_counter_ns())
            if packet.qos:
                self.write(encode(Puback(packet.packet_id), Version.V5))
        elif isinstance(packet, Suback) and self._answer is not None:
            self._answer.set_result(packet)
        else:
            super().on(packet)

    def _end(self, reason: str) -> None:
        super()._end(reason)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(NetworkError(reason))
