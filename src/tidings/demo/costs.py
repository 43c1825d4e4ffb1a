"""Step 7, the costs: the same reports and the same clients, carried in other ways, and what that takes.

Run, not computed: real brokers, real connections, every delivery counted. Without gathering, each report is a
message of its own; without content routing as well, each subscriber takes its whole topics and filters. What
is unwanted is judged by the subscriber's filter on what the report itself says: a field that it does not tell
is not known yet. Nothing here depends on when reports are published, so they go as fast as brokers take them.

Each way is waited for until all has come, however slow the machine is, and stopped in every case.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from tidings.client import refusals
from tidings.client.urls import Address, read_all
from tidings.console.day import Check, Cost
from tidings.demo import completeness, stopping
from tidings.demo.brokers import Brokers, choosing_ports
from tidings.demo.completeness import SLOW_S, Ending
from tidings.errors import InputError, NetworkError, SetupError
from tidings.language import names
from tidings.load import load as loads
from tidings.load.bare import Sender
from tidings.local import network
from tidings.matching.topical import TopicalIndex
from tidings.mqtt.codec import encode, variable
from tidings.mqtt.packets import Asked, Properties, Puback, Publish, Suback, Subscribe, Version
from tidings.mqtt.reasons import FAILURE
from tidings.records.schema import arrow_schema
from tidings.records.workload import STORY

if TYPE_CHECKING:
    from tidings.demo.city import Truth
    from tidings.demo.counting import Counted
    from tidings.demo.playing import Played
    from tidings.demo.telling import Telling
    from tidings.language.filters import Filter
    from tidings.pipeline.session import Session

TIDINGS = "Tidings"
WITHOUT_GATHERING = "without gathering"
WITHOUT_CONTENT = "without content routing"
MOSQUITTO = "mosquitto"

QOS = 1

DELIVERY = 0x30 | QOS << 1
"""The first byte of a PUBLISH of this QoS."""

ACKNOWLEDGED = b"\x40\x02"
"""The first bytes of a PUBACK; the packet's identifier follows."""

ACK_BYTES = 4
"""Of such a PUBACK."""

HEAD_BYTES = 8
"""A PUBLISH that is read by its offsets has more: its head, a topic, an identifier, a payload."""

CONNECTING = 50
"""Clients that connect and subscribe at once."""

ASK_AGAIN_S = 0.1
"""How long to wait before a subscription is asked for again that not all brokers have confirmed."""

IDLE_CPU_S = 0.02
"""A broker that cannot say what it has queued works if it computes more than this between two looks."""

PLACES = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/sbin"
"""Where mosquitto is, beside PATH: a server is often in no user's path."""

Marks = npt.NDArray[np.bool_]
"""A row for each of some messages, a column for each listener."""

Busy = Callable[[], bool]
"""Whether a broker has something queued."""

Watch = Callable[[float, str], None]
"""Told how much has come, and in words."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A session that subscribes."""

    session: str
    broker: str
    topic_filter: str
    filter: Filter | None
    """None for one who wants everything of its topics."""


@dataclass(frozen=True, slots=True)
class Said:
    """A report, as it is published."""

    session: str
    """Who publishes: what one publishes stays in order."""

    broker: str
    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Costs:
    """What the same day costs in every way that was tried."""

    costs: tuple[Cost, ...]
    checks: tuple[Check, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Got:
    """What clients got in one way."""

    delivered: int
    unwanted: int
    bytes: int
    expected: int
    """Deliveries that there should be."""

    lost: int
    """Deliveries that did not come."""

    repeated: int
    """Deliveries that came once more than they should have."""

    missed: int
    """Pairs of a listener and an event that it wants, of which no report came that it wants."""

    seconds: float

    ending: Ending
    """How waiting for it ended."""


@dataclass(frozen=True, slots=True)
class Round:
    """One way, carried out."""

    way: str
    got: Got
    cpu_s: float | None
    """Of all brokers together; None where nobody can say."""

    end_us: int
    """When brokers rested after it: microseconds since 1970."""


def run(
    spark: Session, telling: Telling, played: Played, counted: Counted, folder: Path, *, first_port: int
) -> Costs:
    """What the day cost as it was played, and what it costs in other ways."""
    listeners = [
        Listener(one.session, one.broker, one.topic_filter, one.filter) for one in played.subscribers
    ]
    said = [Said(one.session, one.broker, one.topic, msgspec.json.encode(one.fields)) for one in played.sent]
    judge = Judge(listeners, said, list(played.city.truths.values()))
    ids = [place.id for place in played.city.brokers]

    def carried_out(
        way: str, addresses: Mapping[str, Address], content: bool, pids: Sequence[int], busy: Busy
    ) -> Round:
        with telling.bar(way, judge.expected(content)) as move:
            return stopping.run(_round(way, addresses, judge, content, pids, busy, move))

    with Brokers.start(folder / "plain", ids, played.city.links, {}, first_port) as net:
        addresses = {id_: _address(net.mqtt(id_)) for id_ in ids}
        pids = [member.process.pid for member in net.members if member.process is not None]
        rounds = [
            carried_out(way, addresses, content, pids, net.busy)
            for way, content in ((WITHOUT_GATHERING, True), (WITHOUT_CONTENT, False))
        ]
        net.close()
    carried: list[int | None] = [*_carried(spark, net.records, [one.end_us for one in rounds])]
    notes = []
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path=PLACES)
    if program is None:
        notes.append("mosquitto is not installed here, so that nothing is said of it")
    else:
        with mosquitto(program, folder, first_port) as (address, pid):
            rounds.append(carried_out(MOSQUITTO, dict.fromkeys(ids, address), False, [pid], computing(pid)))
        carried.append(None)
    notes += [f"{one.way}: {too_slow(one.got)}" for one in rounds if one.got.ending is Ending.TOO_SLOW]
    return Costs(
        (
            as_played(played, counted),
            *(_cost(one, count, judge) for one, count in zip(rounds, carried, strict=True)),
        ),
        checks(rounds),
        tuple(notes),
    )


def checks(rounds: Sequence[Round]) -> tuple[Check, ...]:
    """Whether all has come once, in each way; nothing is said of one for which this machine was too slow."""
    return tuple(
        Check(
            f"All that was to come has come once, {one.way}",
            _seen(one.got) + (f", {one.got.repeated:,} of them again" if one.got.repeated else ""),
            not one.got.lost and not one.got.repeated,
        )
        for one in rounds
        if one.got.ending is not Ending.TOO_SLOW
    )


def too_slow(got: Got) -> str:
    """What is said of a way whose end was not seen."""
    return (
        f"too slow on this machine: ended when {_seen(got)} messages had come and nothing more came for "
        f"{SLOW_S:.0f} s, with work still queued; nothing is known to be lost"
    )


def as_played(played: Played, counted: Counted) -> Cost:
    """What the day cost as it was played."""
    filters = {one.client: one.filter for one in played.subscribers}
    unwanted = 0
    for one in played.delivered:
        # One that is withdrawn has no fields: it says that the event, once wanted, is so no more.
        wanted = filters[one.subscriber]
        unwanted += bool(wanted is not None and one.fields and not wanted.matches(one.fields))
    return Cost(
        way=TIDINGS,
        delivered=len(played.delivered),
        unwanted=unwanted,
        delivered_bytes=sum(one.bytes for one in played.delivered),
        carried=sum(link.messages for link in counted.links),
        cpu_s=sum(played.cpu_s.values()) or None,
        seconds=played.seconds,
        note="at the pace of the day, idle moments too; the log, and Spark that reads it, are in the CPU "
        "seconds",
    )


def _cost(one: Round, carried: int | None, judge: Judge) -> Cost:
    got = one.got
    note = {
        WITHOUT_GATHERING: f"of {judge.of_truths.sum():,} times that somebody wants an event, no report says "
        f"enough by itself in {got.missed:,}",
        WITHOUT_CONTENT: "nor gathering: subscribers take every report of their topics and filter it",
        MOSQUITTO: "one broker, written in C, which knows topics only and keeps nothing on disk",
    }[one.way]
    if got.ending is Ending.TOO_SLOW:
        note = f"{too_slow(got)}; {note}"
    return Cost(one.way, got.delivered, got.unwanted, got.bytes, carried, one.cpu_s, got.seconds, note)


def _seen(got: Got) -> str:
    return f"{got.delivered:,} of {got.expected:,}"


def _carried(spark: Session, records: Path, ends_us: Sequence[int]) -> list[int]:
    """Messages between brokers in each of some stretches of time, from what they wrote until they stopped."""
    from tidings.pipeline import days
    from tidings.pipeline.tables import read_files

    rows = days.carried(read_files(spark, [records], arrow_schema()), ends_us).collect()
    by_place = {row["stretch"]: row["messages"] for row in rows}
    return [by_place.get(place, 0) for place in range(len(ends_us))]


# Judging.


class Judge:
    """Who wants what: each report by its own content, and each event by what it must end as."""

    def __init__(self, listeners: Sequence[Listener], said: Sequence[Said], truths: Sequence[Truth]) -> None:
        self.listeners = listeners
        self.said = said
        different = dict.fromkeys((one.topic, one.payload) for one in said)
        self.places = {one: place for place, one in enumerate(different)}
        """Of what a report says: two that say the same are one here."""
        self._said = np.array([self.places[one.topic, one.payload] for one in said], dtype=np.int64)
        topics = [topic for topic, _ in different]
        fields = [msgspec.json.decode(payload, type=dict[str, int]) for _, payload in different]
        self.of_reports = wanted(listeners, topics, fields)
        self.of_topics = wanted([_any(one) for one in listeners], topics, fields)
        self.of_truths = wanted(
            listeners, [truth.topic for truth in truths], [dict(truth.fields) for truth in truths]
        )
        rows = {truth.story: row for row, truth in enumerate(truths)}
        self._stories = np.array([rows.get(one.get(STORY, -1), -1) for one in fields], dtype=np.int64)

    def expected(self, content: bool) -> int:
        """Deliveries that there should be, with content routing or without."""
        return int(self._due(content).sum(axis=1, dtype=np.int64)[self._said].sum())

    def differing(self, content: bool, got: Sequence[Sequence[int]]) -> tuple[int, int]:
        """How many deliveries did not come, and how many came once more than they should have."""
        times = np.bincount(self._said, minlength=len(self.places))
        lost = repeated = 0
        for listener, places in enumerate(got):
            came = np.bincount(np.array(places, dtype=np.int64), minlength=len(times))
            more = came - times * self._due(content)[:, listener]
            lost -= int(more[more < 0].sum())
            repeated += int(more[more > 0].sum())
        return lost, repeated

    def _due(self, content: bool) -> Marks:
        return self.of_reports if content else self.of_topics

    def unwanted(self, listener: int, got: Sequence[int]) -> int:
        """How many of what a listener got, by place, it did not want."""
        return len(got) - int(self.of_reports[np.array(got, dtype=np.int64), listener].sum())

    def missed(self, got: Sequence[Sequence[int]]) -> int:
        """How many events, counted once for each who wants them, came to them in no report they want."""
        reached = np.zeros_like(self.of_truths)
        for listener, places in enumerate(got):
            own = np.unique(np.array(places, dtype=np.int64))
            stories = self._stories[own[self.of_reports[own, listener]]]
            reached[stories[stories >= 0], listener] = True
        return int((self.of_truths & ~reached).sum())


def wanted(
    listeners: Sequence[Listener], topics: Sequence[str], fields: Sequence[Mapping[str, int]]
) -> Marks:
    """Which of some messages each listener wants."""
    marks = np.zeros((len(topics), len(listeners)), dtype=np.bool_)
    index = TopicalIndex()
    for number, one in enumerate(listeners):
        if one.filter is not None:
            index.add(number, one.topic_filter, one.filter)
    rows: dict[str, list[int]] = defaultdict(list)
    for row, topic in enumerate(topics):
        rows[topic].append(row)
    for topic, own in rows.items():
        for number, one in enumerate(listeners):
            if one.filter is None and names.match(one.topic_filter, topic):
                marks[own, number] = True
        for row, found in zip(own, index.match_batch(topic, [fields[row] for row in own]), strict=True):
            marks[row, found] = True
    return marks


def _any(listener: Listener) -> Listener:
    return Listener(listener.session, listener.broker, listener.topic_filter, None)


# Carrying.


@dataclass(frozen=True, slots=True)
class _Reach:
    """How one client reaches its broker."""

    addresses: Sequence[Address]
    version: Version = Version.V5
    context: None = None
    connect_within_s: float = SLOW_S


async def _round(
    way: str,
    addresses: Mapping[str, Address],
    judge: Judge,
    content: bool,
    pids: Sequence[int],
    busy: Busy,
    watch: Watch,
) -> Round:
    """Carry all reports in one way, by brokers that run; it is over when they rest."""
    before: float | None = None
    with contextlib.suppress(InputError):  # a machine that does not say it
        before = sum(map(loads.cpu_seconds, pids))
    got = await carry(addresses, judge, content, busy, watch)
    cpu_s = None if before is None else await loads.at_rest(pids) - before
    return Round(way, got, cpu_s, time.time_ns() // 1000)


async def carry(
    addresses: Mapping[str, Address], judge: Judge, content: bool, busy: Busy, watch: Watch
) -> Got:
    """Publish all reports and take what comes, until that is all; addresses are by broker."""
    expected = judge.expected(content)
    hall = _Hall(judge)
    clients = _clients(addresses, judge, hall, content)
    watch(0, f"{len(clients):,} clients connect")
    try:
        turn = asyncio.Semaphore(CONNECTING)

        async def admit(client: _Client) -> None:
            async with turn:
                await client.connect()
                await client.subscribe()

        await asyncio.gather(*map(admit, clients))
        start_s = time.monotonic()
        hall.last_s = start_s
        sending = asyncio.gather(*(one.send(time.perf_counter_ns()) for one in clients if one.total))

        def look() -> tuple[int, int]:
            for one in clients:
                one.check()
            if sending.done():
                sending.result()
            sent = sum(one.acknowledged for one in clients)
            watch(hall.count, f"{sent:,} of {len(judge.said):,} sent, {hall.count:,} of {expected:,} came")
            return sent, hall.count

        try:
            ending = await completeness.wait(
                lambda: sending.done() and hall.count >= expected,
                look,
                lambda: not sending.done() or busy(),
            )
        finally:
            sending.cancel()
    finally:
        for client in clients:
            client.leave()
    lost, repeated = judge.differing(content, hall.places)
    return Got(
        delivered=sum(map(len, hall.places)),
        unwanted=sum(judge.unwanted(at, places) for at, places in enumerate(hall.places)),
        bytes=hall.bytes,
        expected=expected,
        lost=lost,
        repeated=repeated,
        missed=judge.missed(hall.places),
        seconds=hall.last_s - start_s,
        ending=ending,
    )


def computing(pid: int) -> Busy:
    """Whether a broker works that cannot be asked: by what it has computed since it was looked at last."""
    used = 0.0

    def busy() -> bool:
        nonlocal used
        before = used
        try:
            used = loads.cpu_seconds(pid)
        except InputError:  # a machine that does not say it
            return False
        return used - before > IDLE_CPU_S

    return busy


def _clients(addresses: Mapping[str, Address], judge: Judge, hall: _Hall, content: bool) -> list[_Client]:
    """All who say or listen, each with one session for both."""
    says: dict[str, list[Said]] = defaultdict(list)
    for one in judge.said:
        says[one.session].append(one)
    ears = {one.session: _Ear(one, hall.places[at], content) for at, one in enumerate(judge.listeners)}
    brokers = {session: said[0].broker for session, said in says.items()}
    brokers |= {one.session: one.broker for one in judge.listeners}
    return [
        _Client(_Reach([addresses[broker]]), session, says.get(session, []), ears.get(session), hall)
        for session, broker in brokers.items()
    ]


class _Hall:
    """All that has come, by listener."""

    def __init__(self, judge: Judge) -> None:
        self.known = {_form(*one): place for one, place in judge.places.items()}
        self.places: list[array[int]] = [array("i") for _ in judge.listeners]
        """Of what each listener got, the place of what it says."""
        self.count = 0
        self.bytes = 0
        self.last_s = 0.0


class _Ear:
    """What one client listens for, and what it has heard."""

    def __init__(self, listener: Listener, got: array[int], content: bool) -> None:
        self.topic_filter = listener.topic_filter
        self.where = listener.filter.source if content and listener.filter is not None else None
        self.got = got


class _Client(Sender):
    """Publishes its reports in their order, subscribes, and takes what comes."""

    keep_alive_s = 0

    def __init__(
        self, reach: _Reach, session: str, said: Sequence[Said], ear: _Ear | None, hall: _Hall
    ) -> None:
        """`ear` is None for one that does not listen."""
        super().__init__(reach, f"costs-{session}", 0, len(said), QOS, timed=False)
        self._said = said
        self._ear = ear
        self._hall = hall
        self._asked = 0
        self._answer: asyncio.Future[Suback] | None = None

    def due_ns(self, number: int) -> int:  # noqa: ARG002  nothing is timed
        return 0

    def message(self, number: int, at_ns: int, packet_id: bytes) -> bytes:  # noqa: ARG002
        one = self._said[number]
        body = b"".join((_form(one.topic, b""), packet_id, b"\x00", one.payload))
        return bytes([DELIVERY]) + variable(len(body)) + body

    async def subscribe(self) -> None:
        """Ask until the whole network knows: SUBACK gives a reason as long as it does not."""
        if self._ear is None:
            return
        try:
            async with asyncio.timeout(SLOW_S):
                while (await self._ask(self._ear)).properties.reason_string:
                    await asyncio.sleep(ASK_AGAIN_S)
        except TimeoutError:
            raise completeness.too_slow(
                f"{self.address} does not confirm the subscription of {self.client_id} within {SLOW_S:.0f} s"
            ) from None

    async def _ask(self, ear: _Ear) -> Suback:
        self._asked += 1
        self._answer = asyncio.get_running_loop().create_future()
        user = () if ear.where is None else (("where", ear.where),)
        asked = (Asked(ear.topic_filter, QOS),)
        self.write(encode(Subscribe(self._asked, asked, Properties(user=user)), self.reach.version))
        answer = await self._answer
        if answer.reasons[0] >= FAILURE:
            wheres = [] if ear.where is None else [ear.where]
            said = answer.properties.reason_string
            raise refusals.subscription(ear.topic_filter, wheres, answer.reasons[0], said)
        return answer

    def data_received(self, data: bytes) -> None:
        """Whole packets of the usual form by their offsets, deliveries acknowledged at once; others by the
        codec.
        """
        if self._ear is None:
            super().data_received(data)
            return
        at, end = 0, 0 if self.decoder.held() else len(data)
        hall, got, acknowledged = self._hall, self._ear.got, []
        while end - at >= ACK_BYTES:
            if data[at : at + 2] == ACKNOWLEDGED:
                self._done(0, None)
                at += ACK_BYTES
                continue
            if end - at <= HEAD_BYTES or data[at] != DELIVERY:
                break
            length, head = data[at + 1], at + 2
            if length > 0x7F:
                if data[head] > 0x7F:
                    break
                length, head = length & 0x7F | data[head] << 7, head + 1
            behind = head + length
            if behind > end:
                break
            id_at = head + 2 + int.from_bytes(data[head : head + 2], "big")
            payload_at = id_at + 3
            if data[payload_at - 1]:  # it has properties
                break
            place = hall.known.get(data[head:id_at] + data[payload_at:behind])
            if place is None:
                break
            got.append(place)
            acknowledged.append(data[id_at : id_at + 2])
            hall.bytes += behind - payload_at
            at = behind
        if acknowledged:
            hall.count += len(acknowledged)
            hall.last_s = time.monotonic()
            self.write(ACKNOWLEDGED + ACKNOWLEDGED.join(acknowledged))
        if at < len(data):
            super().data_received(data[at:])

    def on(self, packet: object) -> None:
        if isinstance(packet, Publish) and self._ear is not None:
            hall = self._hall
            self._ear.got.append(hall.known[_form(packet.topic, packet.payload)])
            hall.count += 1
            hall.bytes += len(packet.payload)
            hall.last_s = time.monotonic()
            if packet.qos:
                self.write(encode(Puback(packet.packet_id), self.reach.version))
        elif isinstance(packet, Suback) and self._answer is not None:
            self._answer.set_result(packet)
        else:
            super().on(packet)

    def _end(self, reason: str) -> None:
        super()._end(reason)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(NetworkError(reason))


def _form(topic: str, payload: bytes) -> bytes:
    """A message as it is in a packet, without what is between topic and payload."""
    text = topic.encode()
    return len(text).to_bytes(2, "big") + text + payload


# Another broker.

CONFIG = """\
listener {port} {host}
allow_anonymous true
persistence false
set_tcp_nodelay true
max_inflight_messages 1000
max_queued_messages 0
log_type error
"""
"""All that waits for a subscriber is kept for it: beyond 1000 messages mosquitto would drop it."""


@contextlib.contextmanager
def mosquitto(program: str, folder: Path, first_port: int) -> Iterator[tuple[Address, int]]:
    """A mosquitto of our own on this machine: where it is, and its process."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "mosquitto.conf"
    process: subprocess.Popen[bytes] | None = None
    try:
        with choosing_ports():
            (port,) = network.free_ports(1, first_port)
            config.write_text(CONFIG.format(port=port, host=network.LOOPBACK), encoding="utf-8")
            with stopping.held(), (folder / "mosquitto.log").open("wb") as log:
                process = subprocess.Popen([program, "-c", str(config)], stdout=log, stderr=log)
            running = process

            def answers() -> bool:
                if running.poll() is not None:
                    raise SetupError(f"mosquitto did not start; {folder / 'mosquitto.log'} says why")
                with socket.socket() as probe:
                    return probe.connect_ex((network.LOOPBACK, port)) == 0

            if not network.wait_for(answers, SLOW_S):
                raise completeness.too_slow(f"mosquitto does not listen at port {port} after {SLOW_S:.0f} s")
        yield _address(f"{network.LOOPBACK}:{port}"), process.pid
    finally:
        if process is not None:
            process.terminate()
            try:
                process.wait(network.STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(place: str) -> Address:
    (found,) = read_all(f"mqtt://{place}")
    return found
