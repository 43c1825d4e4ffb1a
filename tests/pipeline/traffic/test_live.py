"""Traffic from the records of brokers that run, beside what their clients saw and what they counted."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

import tidings
from tests.live.local import WITHIN_S, run, until
from tests.live.serving import ServedBroker
from tidings.client.deliveries import Delivery
from tidings.client.network import Network
from tidings.errors import NetworkError
from tidings.local.network import ask, free_ports
from tidings.pipeline.tables import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FIRST_PORT = 29_400

ROADS = """
name = "roads"
kind = "gathered"
key = ["place"]
merge_after = "50ms"
redundant_for = "1h"
window = "none"
stays_open = "reported"

[fields]
place = { type = "string" }
severity = { type = "int", conflict = "max" }
witness = { type = "string", conflict = "union" }
"""

PROBE = "probe"
"""Who publishes until subscribers are known everywhere."""

BROKERS = ("b1", "b2", "b3")

PLACES = ("r0", "r1")
"""What reports are about."""


@dataclass
class Client:
    """An MQTT client and what it got."""

    name: str
    broker: str
    network: Network
    got: list[Delivery] = field(default_factory=list)

    def has(self, name: str) -> bool:
        """Whether it got something of a topic or about a place."""
        return any(name in (one.topic, one.fields.get("place")) for one in self.got)

    @property
    def news(self) -> list[str]:
        """Who published what it got, of the plain messages."""
        return [str(one.fields["by"]) for one in self.got if one.topic != "roads"]

    @property
    def told(self) -> list[Delivery]:
        """The versions of events that it got, but for those about places of the probe."""
        return [one for one in self.got if str(one.fields.get("place")) in PLACES]

    @property
    def witnesses(self) -> set[str]:
        return {one for got in self.told for one in witnesses(got)}


def witnesses(delivery: Delivery) -> set[str]:
    found = delivery.fields.get("witness", [])
    assert isinstance(found, list)
    return set(found)


@dataclass
class Day:
    """What a network did."""

    listeners: list[Client]
    status: dict[str, Any]
    """What each broker said at the end."""

    published: Counter[str]
    """Of each topic."""

    witnessed: dict[str, str]
    """Of each witness, who reported it."""

    redundant: int
    """Reports of what was known."""

    folder: Path
    """Of the tables of traffic."""

    def rows(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            ds.dataset(self.folder / table, partitioning="hive").to_table().to_pylist()
        )
        return found

    def sums(self, table: str, by: str) -> defaultdict[str, Counter[str]]:
        """The sums of all numbers of a table, by one of its columns."""
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for row in self.rows(table):
            found[row[by]].update({name: value for name, value in row.items() if isinstance(value, int)})
        return found

    def seats(self) -> Counter[str]:
        """What all seats have counted."""
        return seats(self.status)


def seats(status: dict[str, Any]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in status.values():
        for seat in one["seats"]:
            found.update({name: value for name, value in seat.items() if type(value) is int})
    return found


def dropped(status: dict[str, Any]) -> int:
    """Reports that were dropped where they entered."""
    return sum(one["gathering"]["dropped"] for one in status.values())


@asynccontextmanager
async def connected(broker: str, address: str, name: str) -> AsyncIterator[Client]:
    """A client, as soon as its broker lets it in."""
    async with AsyncExitStack() as stack:
        deadline = asyncio.get_running_loop().time() + WITHIN_S
        while True:
            with suppress(NetworkError):
                opened = tidings.connect(f"mqtt://{address}", client_id=name)
                network = await stack.enter_async_context(opened)
                break
            assert asyncio.get_running_loop().time() < deadline, f"{broker} lets nobody in"
        yield Client(name, broker, network)


async def listen(stack: AsyncExitStack, client: Client, topic_filter: str, **asked: Any) -> None:
    """Subscribe, and write down what comes."""
    subscription = await stack.enter_async_context(client.network.subscribe(topic_filter, **asked))

    async def read() -> None:
        async for delivery in subscription:
            client.got.append(delivery)

    task = asyncio.ensure_future(read())
    stack.callback(task.cancel)


async def live(mqtt: dict[str, str], http: dict[str, str], folder: Path) -> Day:
    """Plain messages and reports at three brokers, for subscribers at all of them."""
    published: Counter[str] = Counter()
    async with AsyncExitStack() as stack:

        async def client(name: str, broker: str) -> Client:
            return await stack.enter_async_context(connected(broker, mqtt[broker], name))

        async def publish(client: Client, topic: str, **fields: Any) -> None:
            await client.network.publish(topic, fields, timeout=WITHIN_S)
            published[topic] += 1

        async def known(client: Client, topic: str, name: str, **fields: Any) -> None:
            """Publish until a subscriber has something: then all brokers know of it."""
            for number in itertools.count():
                await publish(probe, topic, witness=f"{name}{number}", **fields)
                with suppress(TimeoutError):
                    await asyncio.wait_for(until(lambda: client.has(name)), 0.5)
                    return

        def status() -> dict[str, Any]:
            return {broker: ask(address, "/status")[1] for broker, address in http.items()}

        probe = await client(PROBE, "b2")
        listeners = [await client(f"s{broker}", broker) for broker in BROKERS]
        reporters = [await client(f"p{broker}", broker) for broker in BROKERS]
        first, second, third = listeners
        await listen(stack, first, "news/#")
        await listen(stack, first, "roads")
        await listen(stack, second, "news/a", where="n >= 5")
        await listen(stack, third, "roads", where="severity >= 3")
        await known(first, "news/first", "news/first", by=PROBE)
        await known(second, "news/a", "news/a", n=9, by=PROBE)
        await known(first, "roads", "before", place="before")
        await known(third, "roads", "severe", place="severe", severity=9)

        for number in range(10):
            for one in reporters:
                await publish(one, f"news/{'ab'[number % 2]}", n=number, by=one.name)
        witnessed: dict[str, str] = {}
        for number in range(6):
            for one in reporters:
                witness = f"{one.name}-{number}"
                witnessed[witness] = one.name
                await publish(one, "roads", place=PLACES[number % 2], severity=number, witness=witness)
        for one in (first, third):
            await until(lambda one=one: one.witnesses == set(witnessed), "all witnesses")  # type: ignore[misc]
        redundant = 0
        for one in reporters:
            for number in range(4):
                await publish(one, "roads", place=PLACES[number % 2], severity=0)
                redundant += 1
        await until(lambda: len(first.news) - first.news.count(PROBE) == 30, "all news")
        await until(lambda: len(second.news) - second.news.count(PROBE) == 6, "those that were asked for")
        await until(lambda: seats(status())["received"] + dropped(status()) == published["roads"], "reports")
        return Day(listeners, status(), published, witnessed, redundant, folder)


@pytest.fixture(scope="module")
def day(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Day:
    """A network that has run and is stopped, and the tables of its records."""
    from tidings.pipeline.traffic import running

    folder = tmp_path_factory.mktemp("live")
    (folder / "roads.toml").write_text(ROADS, encoding="utf-8")
    places = [f"127.0.0.1:{port}" for port in free_ports(9, FIRST_PORT)]
    mqtt, http = dict(zip(BROKERS, places[3:6], strict=True)), dict(zip(BROKERS, places[6:], strict=True))
    brokers = [
        ServedBroker(
            id=name,
            listen=places[at],
            mqtt=mqtt[name],
            http=http[name],
            anonymous=True,
            data=str(folder / name),
            records=str(folder / "records"),
            topics=[str(folder / "roads.toml")],
            neighbours=places[:at][-1:],
        )
        for at, name in enumerate(BROKERS)
    ]
    try:
        for one in brokers:
            one.start()
        found = run(lambda: live(mqtt, http, folder / "data" / "traffic"))
        assert [one.stop() for one in brokers] == [0, 0, 0]
    finally:
        for one in brokers:
            one.kill()
    outcome = running.run(spark, folder / "records", Store(folder / "data"))
    assert outcome.repeated == 0
    return found


def test_who_sends_to_whom_is_what_subscribers_saw(day: Day) -> None:
    expected: Counter[tuple[str, str]] = Counter()
    for client in day.listeners:
        expected.update((by, client.name) for by in client.news if by != PROBE)
    # The first sees every version, so what is new in each is known.
    senders: dict[tuple[str | None, int | None], set[str]] = {}
    had: defaultdict[str | None, set[str]] = defaultdict(set)
    for version in day.listeners[0].told:
        fresh = witnesses(version) - had[version.id]
        had[version.id] |= fresh
        senders[version.id, version.version] = {day.witnessed[one] for one in fresh}
    for client in day.listeners:
        for version in client.told:
            expected.update((by, client.name) for by in senders[version.id, version.version])
    graph = Counter({(row["sender"], row["receiver"]): row["messages"] for row in day.rows("messages")})
    assert {pair: count for pair, count in graph.items() if pair[0] != PROBE} == expected
    assert expected.total() > 60


def test_what_brokers_took_in_and_gave_out_is_what_they_counted_and_clients_got(day: Day) -> None:
    sums = day.sums("brokers", "broker")
    for broker, client in zip(BROKERS, day.listeners, strict=True):
        counted = day.status[broker]["mqtt"]["counters"]
        assert sums[broker]["delivered"] == counted["delivered"] == len(client.got)
        assert sums[broker]["delivered_bytes"] == counted["delivered_bytes"]
        assert sums[broker]["published"] == counted["published"]
        assert sums[broker]["published_bytes"] == counted["published_bytes"]
    got = sum(len(client.got) for client in day.listeners)
    for table in ("hops", "latencies"):
        assert sum(row["deliveries"] for row in day.rows(table)) == got


def test_what_became_of_reports_is_what_seats_counted(day: Day) -> None:
    seats, topics = day.seats(), day.sums("topics", "topic")
    reasons = day.sums("suppression", "reason")
    assert {topic: one["published"] for topic, one in topics.items() if one["published"]} == day.published
    roads = topics["roads"]
    assert roads["reports"] == day.published["roads"]
    assert (roads["opened"], roads["merged"], roads["told"]) == (
        seats["opened"],
        seats["merged"],
        seats["told"],
    )
    assert reasons["redundant"]["messages"] == seats["redundant"]
    assert reasons["dropped on the way"]["messages"] == dropped(day.status)
    assert seats["redundant"] + dropped(day.status) == day.redundant


def test_messages_on_links_are_wanted_and_add_up(day: Day) -> None:
    links = day.rows("links")
    assert {(row["sender"], row["receiver"]) for row in links} == {
        ("b1", "b2"),
        ("b2", "b1"),
        ("b2", "b3"),
        ("b3", "b2"),
    }
    assert sum(row["false_positives"] for row in links) == 0
    received = day.sums("brokers", "broker")
    for broker in BROKERS:
        here = sum(row["forwarded"] for row in links if row["receiver"] == broker)
        assert received[broker]["received"] == here > 0
