"""Routing on brokers that are processes, with MQTT clients."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.routing_rows import CHANGE_CPU_S, LINK_BYTES, Row, percentile

from tidings.client.urls import Address, read_all
from tidings.errors import TidingsError
from tidings.load.bare import Bare
from tidings.local import network
from tidings.local.network import Member
from tidings.mqtt.codec import encode
from tidings.mqtt.packets import (
    Asked,
    Properties,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Version,
)

SUBACK_S = 0.05
SETTLING_S = 1.0
SETTLING_MORE_S = 0.1
"""Beyond `settle`, until a client has the answer."""

SETTLE_WITHIN_S = 600.0
ARRIVE_WITHIN_S = 30.0
DIAL_EVERY_S = 0.001

SHARED = {"records": "off", "log_level": "warning"}
"""Settings of all brokers."""

FIRST_PORT = 21_000

TOPICS = 500
"""On which there are many subscriptions, each of another client: a second one would replace the first."""

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Client(Bare):
    """An MQTT client that measures how long answers take."""

    version = Version.V5
    context = None
    connect_within_s = 10.0

    def __init__(self, broker: Member, client_id: str) -> None:
        self.addresses: Sequence[Address] = read_all(f"mqtt://{broker.mqtt}", None, None, {})
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[Suback | Puback]] = {}
        self._count = 0
        super().__init__(self, client_id, 0)

    def ask(self, topic_filter: str, where: str = "", qos: int = 1) -> asyncio.Future[Suback | Puback]:
        """Subscribe; the answer comes later."""
        properties = Properties(user=(("where", where),)) if where else Properties()
        packet_id, answer = self._next()
        self.write(encode(Subscribe(packet_id, (Asked(topic_filter, qos),), properties), self.version))
        return answer

    def publish(self, topic: str, payload: bytes) -> asyncio.Future[Suback | Puback]:
        """Publish with QoS 1; the answer comes later."""
        packet_id, answer = self._next()
        self.write(encode(Publish(topic, payload, 1, packet_id=packet_id), self.version))
        return answer

    def _next(self) -> tuple[int, asyncio.Future[Suback | Puback]]:
        self.check()
        packet_id = self._count % 65_535 + 1
        self._count += 1
        answer = self._answers[packet_id] = asyncio.get_running_loop().create_future()
        return packet_id, answer

    def on(self, packet: object) -> None:
        if isinstance(packet, (Suback, Puback)):
            answer = self._answers.pop(packet.packet_id)
            if not answer.done():
                answer.set_result(packet)
        elif isinstance(packet, Publish):
            self.heard.put_nowait(packet.payload)
            if packet.qos:
                self.write(encode(Puback(packet.packet_id), self.version))
        else:
            super().on(packet)


class Brokers:
    """A network of processes."""

    def __init__(self, folder: Path, names: Sequence[str], links: Sequence[tuple[str, str]]) -> None:
        self.members = {one.id: one for one in network.members(folder, names, FIRST_PORT)}
        self.stopped: set[str] = set()
        dialled: dict[str, list[str]] = {name: [] for name in names}
        for one, other in links:
            dialled[one].append(self.members[other].address)
        for name, member in self.members.items():
            network.write_config(member, dialled[name], folder / "records", SHARED)

    def start(self, *names: str) -> None:
        """Start some, all by default."""
        for name in names or self.members:
            (self.members[name],) = network.spawn([self.members[name]])

    def signal(self, name: str, number: signal.Signals) -> None:
        process = self.members[name].process
        assert process is not None
        process.signal(number)
        if number is signal.SIGKILL:
            network.wait_for(lambda: not process.alive, 10.0)
        (self.stopped.discard if number is signal.SIGCONT else self.stopped.add)(name)

    def end(self) -> None:
        """End all, whatever state they are in."""
        for member in self.members.values():
            if member.process is not None:
                member.process.signal(signal.SIGCONT)
        network.stop(self.members.values())

    def status(self, name: str) -> dict[str, Any] | None:
        """What a broker says of itself; None if it does not answer."""
        try:
            code, told = network.ask(self.members[name].http, "/status")
        except network.NoAnswer:
            return None
        return told if code == 200 else None

    def statuses(self) -> list[dict[str, Any]] | None:
        """Of all that run; None if one does not answer."""
        found = [self.status(name) for name in self.members if name not in self.stopped]
        return [one for one in found if one is not None] if None not in found else None

    async def told(self) -> list[dict[str, Any]]:
        """The same; all must answer."""
        statuses = await asyncio.to_thread(self.statuses)
        if statuses is None:
            raise RuntimeError("a broker does not say its status")
        return statuses

    async def until(self, condition: Callable[[list[dict[str, Any]]], bool]) -> float:
        """Wait for something that the statuses of all show; how long that took."""
        begin = time.monotonic()
        while time.monotonic() < begin + SETTLE_WITHIN_S:
            statuses = await asyncio.to_thread(self.statuses)
            if statuses is not None and condition(statuses):
                return time.monotonic() - begin
            await asyncio.sleep(0.1)
        raise RuntimeError(f"the network is not as it should be after {SETTLE_WITHIN_S:g} s")

    async def together(self) -> float:
        """Wait until those that run are in one epoch with each other and no one else."""
        there = sorted(set(self.members) - self.stopped)

        def agreed(statuses: list[dict[str, Any]]) -> bool:
            trees = [tree for one in statuses for tree in one["trees"] if [tree["root"]] == one["share"]]
            return (
                len(trees) == len(there)
                and len({(tree["root"], *tree["epoch"]) for tree in trees}) == 1
                and all(sorted(tree["members"]) == there and not tree["growing"] for tree in trees)
                and all(one["ready"] for one in statuses)
            )

        return await self.until(agreed)

    def cpu_s(self, name: str) -> float:
        """Seconds of the processor that a broker has used."""
        process = self.members[name].process
        assert process is not None
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def resident(self, name: str) -> int:
        """Bytes of memory that it has."""
        process = self.members[name].process
        assert process is not None
        return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def running(names: Sequence[str], links: Sequence[tuple[str, str]]) -> Iterator[Brokers]:
    """A network that is ended in the end."""
    with tempfile.TemporaryDirectory() as folder:
        brokers = Brokers(Path(folder), names, links)
        try:
            brokers.start()
            yield brokers
        finally:
            brokers.end()


def ring(count: int) -> tuple[list[str], list[tuple[str, str]]]:
    names = [f"b{at}" for at in range(1, count + 1)]
    return names, list(zip(names, names[1:] + names[:1], strict=True))


def where_of(number: int) -> str:
    """Two comparisons that no other filter of these covers."""
    return f"price > {number} AND places < {number}"


def parking(number: int) -> tuple[str, str]:
    """A subscription that no client has yet: topic filter and content filter."""
    return f"city/parking{number}", where_of(number)


def reason_of(answer: Suback | Puback) -> str:
    return answer.properties.reason_string or ""


# How long a subscription takes.


def suback(quick: bool) -> Iterator[Row]:
    yield from asyncio.run(_suback(60 if quick else 300))


async def _suback(count: int) -> list[Row]:
    names, links = ring(5)
    rows: list[Row] = []
    with running(names, links) as brokers:
        await brokers.together()
        client = Client(brokers.members["b1"], "subscriber")
        await client.connect()
        await _many(client, 50, 0)  # so that caches are warm
        rows += _took("all there", *await _counted(brokers, client, count, 1_000))

        brokers.signal("b3", signal.SIGSTOP)
        stopped = time.monotonic()
        answers = [_timed(client.ask(*parking(100_000 + at))) for at in range(20)]
        found = await asyncio.gather(*answers)
        late = [took for took, _ in found]
        rows.append(
            Row("suback", "b3 stopped, before that is noticed: the longest of 20", max(late) * 1e3, "ms",
                (SETTLING_S + SETTLING_MORE_S) * 1e3)
        )  # fmt: skip
        named = [reason for _, reason in found]
        rows.append(
            Row("suback", f'… with the reason "settling: b3" ({sorted(set(named))})',
                named.count("settling: b3"), "of 20", 20, at_least=True)
        )  # fmt: skip
        await brokers.together()
        rows.append(
            Row("suback", "… until the others have their new epoch", time.monotonic() - stopped, "s", None)
        )
        rows += _took("b3 stopped, links given up", *await _many(client, count, 200_000), reason="absent: b3")
        brokers.signal("b3", signal.SIGCONT)
        await brokers.together()

        brokers.signal("b4", signal.SIGKILL)
        killed = time.monotonic()
        await brokers.together()
        rows.append(
            Row("suback", "b4 killed: until the others have their new epoch", time.monotonic() - killed, "s",
                None)
        )  # fmt: skip
        rows += _took("b4 killed", *await _many(client, count, 300_000), reason="absent: b4")
        client.leave()
    return rows


async def _counted(
    brokers: Brokers, client: Client, count: int, first: int
) -> tuple[list[float], list[str], dict[str, float], float]:
    """The same as `_many`, with what it costs other brokers and links."""
    cpu = {name: brokers.cpu_s(name) for name in brokers.members}
    before = counted(await brokers.told(), "bytes_out")
    took, reasons = await _many(client, count, first)
    costs = {name: (brokers.cpu_s(name) - cpu[name]) / count for name in brokers.members}
    sent = counted(await brokers.told(), "bytes_out") - before
    return took, reasons, costs, sent / count


def _took(
    what: str,
    took: list[float],
    reasons: list[str],
    costs: Mapping[str, float] | None = None,
    sent: float = 0.0,
    *,
    reason: str = "",
) -> list[Row]:
    count = len(took)
    rows = [
        Row("suback", f"{what}: p99 of {count} SUBACKs", percentile(took, 0.99) * 1e3, "ms", SUBACK_S * 1e3),
        Row("suback", f"{what}: p50", percentile(took, 0.5) * 1e3, "ms", None),
        Row("suback", f'{what}: with the reason "{reason}" ({sorted(set(reasons))})',
            reasons.count(reason), f"of {count}", count, at_least=True),
    ]  # fmt: skip
    if costs is not None:
        others = max(cost for name, cost in costs.items() if name != "b1")
        rows += [
            Row("suback", f"{what}: CPU at another broker for each, the most",
                others * 1e3, "ms", CHANGE_CPU_S * 1e3),
            Row("suback", f"{what}: bytes over 5 links for each", sent, "B", 2 * 5 * LINK_BYTES),
        ]  # fmt: skip
    return rows


async def _many(client: Client, count: int, first: int) -> tuple[list[float], list[str]]:
    """Subscribe one by one; how long each answer took, and what it said."""
    found = [await _timed(client.ask(*parking(first + at))) for at in range(count)]
    return [took for took, _ in found], [reason for _, reason in found]


async def _timed(answer: asyncio.Future[Suback | Puback]) -> tuple[float, str]:
    """How long an answer takes from now on, and its reason."""
    begin = time.monotonic()
    packet = await answer
    return time.monotonic() - begin, reason_of(packet)


# Published as soon as a broker is back.


def restart(quick: bool) -> Iterator[Row]:
    yield from asyncio.run(_restart(5 if quick else 100, 2_000 if quick else 20_000))


async def _restart(trials: int, filters: int) -> list[Row]:
    with running(("h", "o"), (("o", "h"),)) as brokers:
        await brokers.together()
        reader = Client(brokers.members["h"], "reader")
        await reader.connect()
        await reader.ask("alarm", "place = 'here' AND number >= 0")
        clients = await _fill(brokers, {"h": filters})
        arrived, dialled, waited, complete = 0, 0, [], 0
        for trial in range(trials):
            brokers.signal("o", signal.SIGKILL)
            began = time.monotonic()
            brokers.start("o")
            brokers.stopped.discard("o")
            writer, dials = await _dial(brokers.members["o"], f"writer{trial}")
            waited.append(time.monotonic() - began)
            dialled += dials
            payload = b'{"place": "here", "number": %d}' % trial
            answer = writer.publish("alarm", payload)
            status = brokers.status("o")
            complete += status is not None and known([status], "h") >= filters
            await asyncio.wait_for(answer, ARRIVE_WITHIN_S)
            with contextlib.suppress(TimeoutError):
                while await asyncio.wait_for(reader.heard.get(), ARRIVE_WITHIN_S) != payload:
                    pass
                arrived += 1
            writer.leave()
        for client in (*clients, reader):
            client.leave()
    return [
        Row("restart", f"publications that arrived at once behind a restart, {filters:,} filters elsewhere",
            arrived, f"of {trials}", trials, at_least=True),
        Row("restart", "dials for each", dialled / trials, "", None),
        Row("restart", "from the kill to the first accepted, p50", percentile(waited, 0.5), "s", None),
        Row("restart", "of these, with all filters known a moment later", complete, f"of {trials}", None),
    ]  # fmt: skip


async def _dial(broker: Member, client_id: str) -> tuple[Client, int]:
    """Dial every millisecond until a connection is accepted."""
    host, _, port = broker.mqtt.rpartition(":")
    dials = 0
    while True:
        dials += 1
        with socket.socket() as probe:
            there = probe.connect_ex((host, int(port))) == 0
        if there:
            client = Client(broker, client_id)
            try:
                await client.connect()
            except TidingsError:
                pass
            else:
                return client, dials
        await asyncio.sleep(DIAL_EVERY_S)


async def _fill(brokers: Brokers, counts: Mapping[str, int]) -> list[Client]:
    """Subscribe so often at each broker, at all of them at the same time; wait until all know all."""
    clients: list[Client] = []
    first = 0

    async def subscribe(client: Client, numbers: range) -> None:
        # A hundred at a time, so that no queue grows without bound.
        for at in range(0, len(numbers), 100):
            await asyncio.gather(
                *(client.ask(f"city/district{it % TOPICS}", where_of(it)) for it in numbers[at : at + 100])
            )

    async def fill(name: str, numbers: range) -> None:
        for at in range(0, len(numbers), TOPICS):
            client = Client(brokers.members[name], f"{name}-{at}")
            await client.connect()
            clients.append(client)
            await subscribe(client, numbers[at : at + TOPICS])

    jobs = []
    for name, count in counts.items():
        jobs.append(fill(name, range(first, first + count)))
        first += count
    await asyncio.gather(*jobs)
    await brokers.until(
        lambda statuses: all(known(statuses, name) >= count for name, count in counts.items())
    )
    return clients


def known(statuses: Sequence[Mapping[str, Any]], home: str) -> int:
    """How many filters of a home all other brokers know."""
    return min(
        sum(int(one["filters"]) for one in status["sets"] if one["home"] == home)
        for status in statuses
        if status["broker"] != home
    )


# Many.


def scale(quick: bool) -> Iterator[Row]:
    yield from asyncio.run(_scale(4 if quick else 8, 4_000 if quick else 100_000, 20 if quick else 300))


async def _scale(count: int, filters: int, more: int) -> list[Row]:
    names, links = ring(count)
    links += [(names[at], names[at + count // 2]) for at in range(0, count // 2, 2)]
    each = filters // count
    rows: list[Row] = []
    what = f"{count} live brokers, {filters:,} subscriptions"

    def row(figure: str, value: float, unit: str, bound: float | None = None) -> None:
        rows.append(Row("scale", f"{what}: {figure}", value, unit, bound))

    with running(names, links) as brokers:
        await brokers.together()
        empty = max(brokers.resident(name) for name in names)
        begin = time.monotonic()
        clients = await _fill(brokers, dict.fromkeys(names, each))
        row("until all know all", time.monotonic() - begin, "s")
        row("CPU of all brokers", sum(brokers.cpu_s(name) for name in names), "s")
        full = max(brokers.resident(name) for name in names)
        row("memory of one broker", full / 1e6, "MB")
        row("of it for each subscription, sessions included", (full - empty) / filters, "B")
        statuses = await brokers.told()
        row(f"bytes over {len(links)} links for each", counted(statuses, "bytes_out") / filters, "B",
            2 * len(links) * LINK_BYTES)  # fmt: skip

        client = Client(brokers.members[names[0]], "one more")
        await client.connect()
        took, _ = await _many(client, more, filters)
        row(f"p99 of {more} SUBACKs more", percentile(took, 0.99) * 1e3, "ms", SUBACK_S * 1e3)
        row("p50 of these", percentile(took, 0.5) * 1e3, "ms")

        gone = names[-1]
        before = _changes(await brokers.told())
        brokers.signal(gone, signal.SIGSTOP)
        await brokers.together()
        brokers.signal(gone, signal.SIGCONT)
        await brokers.together()
        row("links lost and back, two new epochs: messages with filters",
            _changes(await brokers.told()) - before, "", 0)  # fmt: skip

        brokers.signal(gone, signal.SIGKILL)
        await brokers.together()
        before = _changes(await brokers.told())
        begin = time.monotonic()
        brokers.start(gone)
        brokers.stopped.discard(gone)
        row("a broker killed and back: until the epoch is ready", await brokers.together(), "s")
        await brokers.until(lambda statuses: all(known(statuses, name) >= each for name in names[:-1]))
        row("… until it knows all again", time.monotonic() - begin, "s")
        row("… messages with filters by then", _changes(await brokers.told()) - before, "")
        for one in (*clients, client):
            one.leave()
    return rows


def counted(statuses: Sequence[Mapping[str, Any]], name: str) -> int:
    """A counter of all brokers."""
    return sum(int(one["counters"][name]) for one in statuses)


def _changes(statuses: Sequence[Mapping[str, Any]]) -> int:
    return sum(one["counters"]["messages_out"].get("Change", 0) for one in statuses)
