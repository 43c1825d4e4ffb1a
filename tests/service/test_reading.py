"""The log over HTTP, with brokers that run: what was published is read, through any of them, by who may."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

import tidings
from tests.live.local import make_authority, run, until
from tidings.client.log import LogReader
from tidings.errors import AccessError, DataLost, InputError, NetworkError, SetupError
from tidings.live.service import Service
from tidings.records.holders import Held
from tidings.records.reading import read_records
from tidings.records.record import Kind
from tidings.service.config import load
from tidings.service.users import add_user
from tidings.service.values import address_text

T = TypeVar("T")

TOPIC = """
name = "traffic"
kind = "plain"
keep = "1d"

[fields]
road = { type = "string" }
severity = { type = "int" }
"""


class Network:
    """Brokers in this process, in a line, each with its pages and its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.services: dict[str, Service] = {}
        (folder / "traffic.toml").write_text(TOPIC, encoding="utf-8")

    async def start(self, broker: str, **more: object) -> Service:
        neighbours = [service.node.address for service in self.services.values()][-1:]
        flags: dict[str, object] = {
            "id": broker,
            "listen": "127.0.0.1:0",
            "http": "127.0.0.1:0",
            "mqtt": "127.0.0.1:0",
            "anonymous": True,
            "data": str(self.folder / broker),
            "topics": [str(self.folder / "traffic.toml")],
            "neighbours": neighbours,
        }
        service = Service(load(None, {}, {**flags, **more}))
        await service.start()
        self.services[broker] = service
        await until(lambda: not service.node.synchronising, "letting clients in")
        return service

    async def stop(self, *brokers: str, at_once: bool = False) -> None:
        for broker in brokers:
            service = self.services.pop(broker)
            if at_once:
                service.node.stop_now()
            else:
                await service.node.stop()
            await service.stopped()

    def reader(self, broker: str, **how: Any) -> LogReader:
        pages = self.services[broker].pages
        assert pages is not None
        return LogReader(f"http://{address_text(pages.address)}", **how)

    def holder(self, broker: str) -> str:
        return str(self.services[broker].node.holder)

    async def publish(self, broker: str, *severities: int) -> None:
        address = self.services[broker].node.mqtt_addresses["tcp"]
        async with tidings.connect(f"mqtt://{address}") as network:
            for severity in severities:
                await network.publish("traffic", {"road": f"A{severity % 3}", "severity": severity})

    async def known(self, *brokers: str) -> None:
        """Waits until each of these brokers knows where the pages of all are."""
        catalogues = [self.services[broker].node.broker.catalogue for broker in brokers]
        await until(lambda: {len(one.pages()) for one in catalogues} == {len(brokers)}, "knowing all pages")


@asynccontextmanager
async def network(folder: Path) -> AsyncIterator[Network]:
    made = Network(folder)
    try:
        yield made
    finally:
        await made.stop(*list(made.services))


async def off(work: Callable[[], T]) -> T:
    """Runs what blocks on a thread, as a reader in another process would."""
    return await asyncio.to_thread(work)


def severities(reader: LogReader, holder: str, start: int, stop: int, where: str = "") -> list[int]:
    batches = list(reader.read("traffic", "events", holder, start, stop, where))
    return [row for batch in batches for row in batch.column("severity").to_pylist()]


def test_what_was_published_is_read_with_its_numbers_and_a_filter(tmp_path: Path) -> None:
    async def story() -> None:
        async with network(tmp_path) as brokers:
            await brokers.start("b1")
            await brokers.publish("b1", *range(20))
            reader = brokers.reader("b1")
            about = await off(lambda: reader.about("traffic"))
            b1 = brokers.holder("b1")
            assert about.holders == (Held(b1, 0, 20),)
            assert about.schema.names == ["road", "severity", "_topic", "_holder", "_seq", "_at"]
            assert await off(lambda: severities(reader, b1, 5, 20)) == list(range(5, 20))
            assert await off(lambda: severities(reader, b1, 0, 20, "severity > 16")) == [17, 18, 19]
            assert await off(lambda: reader.at("traffic", "events", 0)) == {b1: 0}
            assert await off(lambda: reader.at("traffic", "events", 2**60)) == {b1: 20}

    run(story)


def test_any_broker_answers_for_all_and_says_who_is_away(tmp_path: Path) -> None:
    async def story() -> None:
        async with network(tmp_path) as brokers:
            await brokers.start("b1")
            await brokers.start("b2")
            await brokers.start("b3")
            await brokers.known("b1", "b2", "b3")
            await brokers.publish("b1", 1, 2)
            await brokers.publish("b3", 3, 4, 5)
            reader = brokers.reader("b2")
            about = await off(lambda: reader.about("traffic"))
            b1, b3 = brokers.holder("b1"), brokers.holder("b3")
            assert about.holders == (Held(b1, 0, 2), Held(b3, 0, 3))
            assert about.away == ()
            assert await off(lambda: severities(reader, b3, 0, 3)) == [3, 4, 5]
            assert await off(lambda: reader.at("traffic", "events", 0)) == {b1: 0, b3: 0}

            await brokers.stop("b3", at_once=True)
            away = await off(lambda: reader.about("traffic"))
            assert away.away == ("b3",)
            with pytest.raises(NetworkError, match="'b3' cannot be reached"):
                await off(lambda: severities(reader, b3, 0, 3))

            # What it was told to forget holds nothing any more.
            brokers.services["b2"].node.forget("b3")
            await brokers.known("b1", "b2")
            assert (await off(lambda: reader.about("traffic"))).away == ()

    run(story)


def test_a_broker_that_leaves_for_good_is_not_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with network(tmp_path) as brokers:
            await brokers.start("b1")
            leaving = await brokers.start("b2")
            await brokers.known("b1", "b2")
            await leaving.node.stop(for_good=True)
            await leaving.stopped()
            del brokers.services["b2"]
            await brokers.known("b1")
            assert (await off(lambda: brokers.reader("b1").about("traffic"))).away == ()

    run(story)


def test_a_read_is_recorded_where_it_is_answered(tmp_path: Path) -> None:
    holders: list[str] = []

    async def story() -> None:
        async with network(tmp_path) as brokers:
            await brokers.start("b1", records=str(tmp_path / "records"))
            await brokers.start("b2")
            await brokers.known("b1", "b2")
            await brokers.publish("b1", *range(10))
            holders.append(brokers.holder("b1"))
            await off(lambda: severities(brokers.reader("b2"), holders[0], 2, 10, "severity >= 8"))
            await brokers.stop("b2", "b1")

    run(story)
    (record,) = [one for one in read_records(tmp_path / "records") if one.kind is Kind.REQUESTED]
    assert (record.broker, record.topic, record.message) == ("b1", "traffic", f"{holders[0]}/2-10")
    assert (record.client, record.link, record.reason) == ("", "b2", "events, 2 rows")
    assert record.bytes is not None
    assert record.bytes > 0


def test_a_broker_that_came_back_without_its_disk_is_another_holder(tmp_path: Path) -> None:
    """What another broker has copied of its first life is read under that life's name, and nothing else."""

    async def story() -> None:
        async with network(tmp_path) as brokers:
            await brokers.start("b1")
            await brokers.start("b2")
            await brokers.known("b1", "b2")
            await brokers.publish("b2", 1, 2, 3)
            first = brokers.services["b2"].node.holder
            copied = list(brokers.services["b2"].node.logs.read("traffic", "events", first, 0, 2))
            await brokers.stop("b2")
            shutil.rmtree(tmp_path / "b2")
            await brokers.start("b2")
            await brokers.known("b1", "b2")
            await brokers.publish("b2", 7, 8)
            second = brokers.services["b2"].node.holder
            assert (second.broker, second.incarnation > first.incarnation) == ("b2", True)

            over = (
                f"{first} is in the network no more: the broker came back without its disk, and is {second} "
                "now; read that one from its first entry"
            )
            for asked in ("b1", "b2"):
                reader = brokers.reader(asked, patience_s=1e6)
                about = await asyncio.to_thread(reader.about, "traffic")
                assert about.holders == (Held(str(second), 0, 2),)
                assert await asyncio.to_thread(severities, reader, str(second), 0, 2) == [7, 8]
                # At once: no patience brings it back.
                with pytest.raises(DataLost, match=re.escape(over)):
                    await asyncio.to_thread(severities, reader, str(first), 0, 3)

            # Now one that has a copy of its first two entries.
            logs = brokers.services["b1"].node.logs
            for entry in copied:
                logs.append("traffic", "events", first, entry)
            logs.commit()
            for asked in ("b1", "b2"):
                reader = brokers.reader(asked, patience_s=1e6)
                about = await asyncio.to_thread(reader.whole, "traffic")
                assert about.holders == (Held(str(first), 0, 2, gone=True), Held(str(second), 0, 2))
                assert await asyncio.to_thread(severities, reader, str(first), 0, 2) == [1, 2]
                with pytest.raises(DataLost, match=re.escape(over)):
                    await asyncio.to_thread(severities, reader, str(first), 0, 3)

    run(story)


def test_what_was_kept_in_a_folder_whose_store_is_gone_stays_readable(tmp_path: Path) -> None:
    async def story() -> None:
        async with network(tmp_path) as brokers:
            await brokers.start("b1")
            await brokers.publish("b1", 1, 2, 3)
            first = brokers.holder("b1")
            await brokers.stop("b1")
            (tmp_path / "b1" / "store.sqlite").unlink()
            await brokers.start("b1")
            await brokers.publish("b1", 7)
            second = brokers.holder("b1")
            reader = brokers.reader("b1")
            about = await off(lambda: reader.about("traffic"))
            assert about.holders == (Held(first, 0, 3, gone=True), Held(second, 0, 1))
            assert await off(lambda: severities(reader, first, 0, 3)) == [1, 2, 3]
            assert await off(lambda: severities(reader, second, 0, 1)) == [7]

    run(story)


def test_users_and_rules_of_mqtt_hold(tmp_path: Path) -> None:
    users, rules = tmp_path / "users", tmp_path / "rules.toml"
    add_user(users, "ann", b"right")
    add_user(users, "ben", b"right")
    rules.write_text(
        '[[rule]]\nallow = true\ntopic = "#"\n\n'
        '[[rule]]\nallow = false\naction = "subscribe"\ntopic = "traffic"\nuser = "ben"\n',
        encoding="utf-8",
    )

    async def story() -> None:
        async with network(tmp_path) as brokers:
            more = {"users_file": str(users), "access_file": str(rules), "anonymous": False}
            await brokers.start("b1", **more)
            await brokers.start("b2", **more)
            await brokers.known("b1", "b2")
            ann = brokers.reader("b2", username="ann", password="right")
            assert (await off(lambda: ann.about("traffic"))).holders == ()
            for how, reason in (
                ({}, "a user name and a password"),
                ({"username": "ann", "password": "wrong"}, "a user name and a password"),
                ({"username": "nobody", "password": "right"}, "a user name and a password"),
                ({"username": "ben", "password": "right"}, "the right to subscribe"),
            ):
                reader = brokers.reader("b1", **how)
                with pytest.raises(AccessError, match=reason):
                    await asyncio.to_thread(reader.about, "traffic")

    run(story)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (lambda reader: reader.about("trafic"), "no topic 'trafic' is declared"),
        (lambda reader: reader.about("a/#/b"), "topic"),
        (lambda reader: reader.about("traffic", "reports"), "'traffic' is plain, and has no reports"),
        (lambda reader: reader.about("traffic", "all"), "one of events, reports"),
        (lambda reader: severities(reader, "b1.5", 0, 1, "severty > 1"), "where: .*severty"),
        (lambda reader: severities(reader, "b7.5", 0, 1), "b7.5 holds nothing"),
        (lambda reader: severities(reader, "b1", 0, 1), "holder: 'b1' names no holder: .* GET /log lists"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(
    tmp_path: Path, asked: Callable[[LogReader], object], reason: str
) -> None:
    async def story() -> None:
        async with network(tmp_path) as brokers:
            await brokers.start("b1")
            reader = brokers.reader("b1")
            with pytest.raises(InputError, match=reason):
                await off(lambda: asked(reader))

    run(story)


def test_the_loop_turns_while_a_long_range_is_read_slowly(tmp_path: Path) -> None:
    """A client that takes nothing holds its own thread, and nothing else."""

    async def story() -> None:
        async with network(tmp_path) as brokers:
            await brokers.start("b1")
            await brokers.publish("b1", *range(300))
            reader = brokers.reader("b1")
            batches = reader.read("traffic", "events", brokers.holder("b1"), 0, 300)
            await off(lambda: next(batches))
            await brokers.publish("b1", 300)
            assert (await off(lambda: reader.about("traffic"))).holders[0].next == 301

    run(story)


def test_the_log_is_read_with_tls_where_it_is_configured(tmp_path: Path) -> None:
    authority, certificate, key = make_authority(tmp_path)("localhost")

    async def story() -> None:
        async with network(tmp_path) as brokers:
            service = await brokers.start(
                "b1",
                https="127.0.0.1:0",
                mqtt_certificate=str(certificate),
                mqtt_key=str(key),
            )
            await brokers.publish("b1", 1)
            assert service.pages is not None
            assert service.pages.secure_address is not None
            url = f"https://localhost:{service.pages.secure_address[1]}"
            reader = LogReader(url, ca=authority)
            assert await off(lambda: severities(reader, brokers.holder("b1"), 0, 1)) == [1]
            # At once: patience does not make a certificate better.
            with pytest.raises(SetupError, match="is not trusted: "):
                await off(lambda: LogReader(url, patience_s=1e6).about("traffic"))

    run(story)


def test_a_gathered_topic_has_what_was_told_and_what_was_reported(tmp_path: Path) -> None:
    (tmp_path / "jams.toml").write_text(
        'name = "jams"\nkind = "gathered"\nkey = ["road"]\nkeep = "1d"\nkeep_reports = "1d"\n'
        'merge_after = "0s"\nredundant_for = "1h"\nwindow = "1h"\n\n'
        '[fields]\nroad = { type = "string" }\nlanes = { type = "int", conflict = "union" }\n',
        encoding="utf-8",
    )

    async def story() -> None:
        async with network(tmp_path) as brokers:
            service = await brokers.start("b1", topics=[str(tmp_path / "jams.toml")])
            async with tidings.connect(f"mqtt://{service.node.mqtt_addresses['tcp']}") as client:
                for lanes in ([1], [1], [2]):
                    await client.publish("jams", {"road": "A1", "lanes": lanes})
            reader = brokers.reader("b1", patience_s=30)
            logs = service.node.logs
            await until(lambda: [one[2] for one in logs.holders("jams")] == [2], "two versions")
            b1 = brokers.holder("b1")
            read = await off(lambda: list(reader.read("jams", "events", b1, 0, 2)))
            told = [row for batch in read for row in batch.to_pylist()]
            assert [(row["lanes"], row["_version"], row["_reports"], row["_complete"]) for row in told] == [
                ([1], 1, 1, True),
                ([1, 2], 2, 2, True),
            ]
            assert len({row["_event"] for row in told}) == 1
            about = await off(lambda: reader.about("jams", "reports"))
            raw = await off(lambda: list(reader.read("jams", "reports", b1, 0, about.holders[0].next)))
            reports = [row for batch in raw for row in batch.to_pylist()]
            assert [row["lanes"] for row in reports] == [[1], [1], [2]]
            assert len({row["_report"] for row in reports}) == 3

    run(story)
