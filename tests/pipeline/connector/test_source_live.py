"""The format `tidings` against brokers that run, are killed and come back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidings
from tests.live.seated import Triangle
from tests.live.serving import ServedBroker
from tidings.client.log import LogReader
from tidings.errors import NetworkError
from tidings.local.network import free_ports
from tidings.records.holders import parse_holder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WITHIN_S = 120.0
"""No test waits longer for anything: far more than a busy machine needs."""

TOPIC = """
name = "traffic"
kind = "plain"
keep = "1d"

[fields]
road = { type = "string" }
n = { type = "int" }
"""


class Network:
    """Two brokers, b1 and b2, each with a folder."""

    def __init__(self, folder: Path) -> None:
        (folder / "traffic.toml").write_text(TOPIC, encoding="utf-8")
        ports = free_ports(6, 28_000)
        self.brokers = {}
        for at, name in enumerate(("b1", "b2")):
            listen, mqtt, http = (f"127.0.0.1:{port}" for port in ports[3 * at : 3 * at + 3])
            self.brokers[name] = ServedBroker(
                id=name,
                listen=listen,
                mqtt=mqtt,
                http=http,
                anonymous=True,
                data=str(folder / name),
                topics=[str(folder / "traffic.toml")],
                neighbours=[f"127.0.0.1:{ports[0]}"] if at else [],
            )
        self.url = f"http://127.0.0.1:{ports[2]}"

    def mqtt(self, broker: str) -> str:
        return f"mqtt://{self.brokers[broker].settings['mqtt']}"

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.start()
        # Through the first, as soon as it knows of the second.
        reader = LogReader(self.url)
        for _ in polling():
            try:
                with tidings.connect(self.mqtt("b2")).sync() as network:
                    network.publish("traffic", {"n": -1})
                if reader.whole("traffic").holders:
                    return
            except tidings.TidingsError:
                continue

    def publish(self, broker: str, numbers: range) -> None:
        for _ in polling():
            # One that has just started lets clients in when it has heard from its neighbour.
            with suppress(NetworkError), tidings.connect(self.mqtt(broker)).sync():
                break
        with tidings.connect(self.mqtt(broker)).sync() as network:
            for n in numbers:
                network.publish("traffic", {"road": f"A{n % 3}", "n": n}, timeout=WITHIN_S)


def polling() -> Iterator[None]:
    """Turns until the caller has seen what it waits for, with a bound that only a broken program reaches."""
    pause = threading.Event()
    for _ in range(int(WITHIN_S / 0.05)):
        yield
        pause.wait(0.05)
    pytest.fail("it did not come about")


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    made = Network(tmp_path)
    try:
        made.start()
        yield made
    finally:
        for broker in made.brokers.values():
            broker.kill()


@pytest.mark.spark
def test_all_that_was_published_anywhere_is_read_through_one_broker(
    spark: SparkSession, network: Network
) -> None:
    network.publish("b1", range(50))
    network.publish("b2", range(50, 120))
    rows = spark.read.format("tidings").option("url", network.url).load("traffic").where("n >= 0")
    assert sorted(row["n"] for row in rows.collect()) == list(range(120))
    holders = [row["_holder"] for row in rows.select("_holder").distinct().collect()]
    assert sorted(parse_holder(one).broker for one in holders) == ["b1", "b2"]


class Table:
    """An idempotent sink: a batch that comes again replaces itself."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[str, int, int]]] = {}

    def take(self, rows: DataFrame, batch: int) -> None:
        found = rows.select("_holder", "_seq", "n").collect()
        self.batches[batch] = [(row["_holder"], row["_seq"], row["n"]) for row in found]

    @property
    def rows(self) -> list[tuple[str, int, int]]:
        return sorted(row for rows in list(self.batches.values()) for row in rows)


def start(spark: SparkSession, network: Network, table: Table, folder: Path, once: bool) -> StreamingQuery:
    stream = spark.readStream.format("tidings").options(
        url=network.url, startingOffsets="earliest", maxRowsPerBatch=40, patience="120s"
    )
    writer = stream.load("traffic").writeStream.foreachBatch(table.take)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")).start()


@pytest.mark.spark
@pytest.mark.slow
def test_a_query_that_is_stopped_and_a_broker_that_is_killed_cost_nothing(
    spark: SparkSession, network: Network, tmp_path: Path
) -> None:
    """Everything that was acknowledged is there, each number of each broker once."""
    table = Table()
    network.publish("b1", range(100))
    network.publish("b2", range(1000, 1100))
    query = start(spark, network, table, tmp_path, once=False)
    for _ in polling():
        if len(table.rows) >= 80:
            break
    query.stop()
    seen = len(table.rows)
    assert seen < 201, "it was stopped in the middle"

    network.publish("b1", range(100, 150))
    query = start(spark, network, table, tmp_path, once=False)
    network.brokers["b2"].kill()
    network.publish("b1", range(150, 200))
    network.brokers["b2"].start()
    network.publish("b2", range(1100, 1200))
    for _ in polling():
        if len(table.rows) >= 401:
            break
    query.stop()
    start(spark, network, table, tmp_path, once=True).awaitTermination()

    rows = table.rows
    numbers = [(holder, seq) for holder, seq, _ in rows]
    holders = sorted({holder for holder, _ in numbers})
    assert [parse_holder(one).broker for one in holders] == ["b1", "b2"], "killed, with its disk"
    assert numbers == [
        (holder, seq) for holder in holders for seq in range(sum(one == holder for one, _ in numbers))
    ]
    assert {n for _, _, n in rows} == {-1, *range(200), *range(1000, 1200)}


class Versions:
    """An idempotent sink of what a gathered topic has told."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Row]] = {}

    def take(self, rows: DataFrame, batch: int) -> None:
        self.batches[batch] = rows.collect()

    @property
    def rows(self) -> list[Row]:
        return [row for rows in list(self.batches.values()) for row in rows]

    def notes(self) -> set[tuple[str, str]]:
        """Which notes of which places have been told."""
        return {(row["place"], row["note"]) for row in self.rows if row["note"] is not None}


@pytest.fixture
def triangle(tmp_path: Path) -> Iterator[Triangle]:
    made = Triangle(tmp_path, 28_100)
    try:
        made.start()
        yield made
    finally:
        made.kill()


@pytest.mark.spark
@pytest.mark.slow
def test_a_query_goes_on_while_the_seat_is_killed_and_another_takes_over(
    spark: SparkSession, triangle: Triangle, tmp_path: Path
) -> None:
    """Everything that any seat told is there, each number under each name once, whoever was asked for it."""
    triangle.report("b1", *(f"p{number}" for number in range(20)), severity=1)
    for _ in polling():
        holders = triangle.holders("b1")
        if [one.next for one in holders.values()] == [20]:
            break
    (seat,) = holders
    asked, other = sorted(triangle.brokers.keys() - {seat})

    table = Versions()
    stream = spark.readStream.format("tidings").options(
        url=triangle.http[asked], startingOffsets="earliest", maxRowsPerBatch=7, patience="120s"
    )
    writer = stream.load("roads").writeStream.foreachBatch(table.take)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(processingTime="0 seconds").start()
    for _ in polling():
        if len(table.rows) >= 7:
            break
    triangle.kill(seat)
    said = {(f"p{number}", f"from {asked}") for number in range(20)}
    triangle.report(asked, *(f"p{number}" for number in range(20)), note=f"from {asked}")
    triangle.brokers[seat].start()
    triangle.report(other, *(f"q{number}" for number in range(10)), note=f"from {other}")
    said |= {(f"q{number}", f"from {other}") for number in range(10)}
    for _ in polling():
        if table.notes() >= said:
            break
    assert query.exception() is None
    query.stop()
    writer.trigger(availableNow=True).start().awaitTermination()

    found = sorted((row["_holder"], row["_seq"]) for row in table.rows)
    logs = triangle.holders(asked)
    assert found == [(one.holder, number) for _, one in sorted(logs.items()) for number in range(one.next)]
    assert table.notes() == said
    assert {row["_holder"] for row in table.rows} != {logs[seat].holder}
    in_logs = [row for one in logs.values() for row in triangle.rows(other, one)]
    assert sorted((row["_event"], row["_version"], row["_holder"]) for row in table.rows) == sorted(
        (row["_event"], row["_version"], row["_holder"]) for row in in_logs
    )
