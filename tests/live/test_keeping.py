"""What topics keep, at brokers that run: on disk before it is acknowledged, there after kill -9, bounded."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from tests.history.test_format_1 import RECORDED
from tests.live.local import run, until
from tests.live.mqtt import TCP, Gone, RawClient, dial, dial_again
from tests.live.process import BrokerProcess
from tidings.history.entries import EVENTS
from tidings.history.files import DiskFiles
from tidings.history.logs import Logs, Syncing
from tidings.history.segments import Damaged
from tidings.language.topics import Topic
from tidings.live import keeping
from tidings.live.keeping import KeepOptions
from tidings.live.node import Node, NodeOptions
from tidings.live.store import DiskStore
from tidings.mqtt.packets import Puback, Publish
from tidings.overlay.broker import Broker
from tidings.records.holders import Holder

NEWS = Topic.from_mapping({"name": "news/#", "kind": "plain", "keep": "7d"})


def kept(logs: Logs) -> list[bytes]:
    """What a broker has numbered itself."""
    for one, first, _ in logs.holders("news/#"):
        if one == logs.holder:
            return [entry.payload for entry in logs.read("news/#", EVENTS, one, first)]
    return []


def news_node(folder: Path | None, **options: Any) -> Node:
    return Node(NodeOptions("a", folder=folder, **{"topics": (NEWS,), "listening": (TCP,), **options}))


def test_what_is_acknowledged_is_in_the_log_and_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        for start in (0, 3):
            node = news_node(tmp_path)
            await node.start()
            client = await dial(node, "c")
            for number in range(start, start + 3):
                await client.publish("news/x", b"%d" % number)
            assert kept(node.logs) == [b"%d" % number for number in range(start + 3)]
            assert node.logs.holders("news/#") == [(node.logs.holder, 0, start + 3)]
            await node.stop()

    run(story)


def test_logs_of_the_release_before_are_taken_over_and_the_operator_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for path, text in RECORDED.items():
        file = tmp_path / keeping.FOLDER / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(text))

    async def story() -> None:
        node = Node(NodeOptions("a", folder=tmp_path))
        await node.start()
        assert node.logs.holders("t") == [(node.holder, 0, 5)]
        await node.stop()

    run(story)
    told = [record for record in caplog.records if record.message == "the log had an older format"]
    assert [record.about["done"].partition(", ")[2][:7] for record in told] == ["", "", "a copy "]  # type: ignore[attr-defined]


def test_quality_of_service_0_is_logged_after_the_fact(tmp_path: Path) -> None:
    async def story() -> None:
        node = news_node(tmp_path)
        await node.start()
        (await dial(node, "c")).send(Publish("news/x", b"0"))
        await until(lambda: kept(node.logs) == [b"0"], "the entry")
        await node.stop()

    run(story)


def test_without_a_folder_the_log_is_as_good_as_the_process() -> None:
    async def story() -> None:
        node = news_node(None)
        await node.start()
        await (await dial(node, "c")).publish("news/x", b"1")
        assert kept(node.logs) == [b"1"]
        size = node.gauges()["log_bytes"]
        told = {"topic": "news/#", "what": "events", "first": 0, "next": 1, "bytes": size}
        assert node.status()["log"] == [told | {"holder": str(node.logs.holder)}]
        await node.stop()

    run(story)


@pytest.mark.parametrize("syncing", [Syncing.INTERVAL, Syncing.NEVER])
def test_where_commits_do_not_sync_entries_are_shown_soon(tmp_path: Path, syncing: Syncing) -> None:
    async def story() -> None:
        node = news_node(tmp_path, keep=KeepOptions(syncing, every_s=0.02))
        await node.start()
        await (await dial(node, "c")).publish("news/x", b"1")
        await until(lambda: kept(node.logs) == [b"1"], "the entry")
        await node.stop()

    run(story)


def test_retention_runs_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.live.node.RETAIN_EVERY_S", 0.02)
    short = Topic.from_mapping({"name": "news/#", "kind": "plain", "keep": "10ms"})

    async def story() -> None:
        node = news_node(tmp_path, topics=(short,))
        await node.start()
        await (await dial(node, "c")).publish("news/x", b"1")
        await until(lambda: node.logs.holders("news/#") == [(node.logs.holder, 1, 1)], "an empty log")
        await node.stop()

    run(story)


def test_a_disk_that_is_full_stops_the_broker_and_acknowledges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        node = news_node(tmp_path)
        await node.start()
        client = await dial(node, "c")
        await client.publish("news/x", b"1")

        def full(_files: DiskFiles, path: str, _data: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", path)

        with monkeypatch.context() as patched:
            patched.setattr(DiskFiles, "append", full)
            answer = asyncio.ensure_future(client.publish("news/x", b"2"))
            reason = await asyncio.wait_for(node.stopped(), 30)
            assert "No space left on device; free space on its disk, or keep less" in reason
            with pytest.raises(Gone):
                await answer
        again = news_node(tmp_path)
        await again.start()
        assert kept(again.logs) == [b"1"]
        await again.stop()

    run(story)


def test_a_broken_log_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / keeping.FOLDER / "x").mkdir(parents=True)
    (tmp_path / keeping.FOLDER / "x" / "y.txt").write_text("hello")

    async def story() -> None:
        with pytest.raises(Damaged, match=r"y\.txt is not a file of a log; move it"):
            await news_node(tmp_path).start()

    run(story)


class Flood:
    """A client that always has as many publications of QoS 1 under way."""

    def __init__(self, client: RawClient, offered: int) -> None:
        self.offered = offered
        """So many were published before; the next one says this number."""
        self.under_way: deque[bytes] = deque()
        self._client = client

    def fill(self) -> None:
        while len(self.under_way) < 50:
            payload = b"%d" % self.offered
            self._client.send(Publish("news/x", payload, 1, packet_id=self.offered % 50 + 1))
            self.under_way.append(payload)
            self.offered += 1

    async def hear(self) -> bytes:
        """The next one that is acknowledged."""
        puback = await self._client.next(Puback)
        assert puback.packet_id == int(self.under_way[0]) % 50 + 1
        return self.under_way.popleft()


def test_kill_minus_9_keeps_all_that_was_acknowledged_dense_and_once(tmp_path: Path) -> None:
    (tmp_path / "news.toml").write_text('name = "news/#"\nkind = "plain"\nkeep = "7d"\n')

    async def story() -> None:
        process = BrokerProcess("a", tmp_path)
        acknowledged: list[bytes] = []
        offered = 0
        for _ in range(3):
            await process.start()
            flood = Flood(await dial_again(lambda: process.mqtt, "c"), offered)
            for _ in range(500):
                flood.fill()
                acknowledged.append(await flood.hear())
            await process.kill()
            with contextlib.suppress(Gone, ConnectionError):
                # It may have been acknowledged just before the end.
                while flood.under_way:
                    acknowledged.append(await flood.hear())
            offered = flood.offered
        store = DiskStore(tmp_path / "a", "a", lambda error: pytest.fail(str(error)))
        logs = store.logs
        found = kept(logs)
        assert len(acknowledged) >= 1500
        assert set(acknowledged) <= set(found), "all that was acknowledged is there"
        assert len(set(found)) == len(found), "once"
        assert set(found) <= {b"%d" % number for number in range(offered)}
        ((_, first, shown),) = logs.holders("news/#")
        numbers = [entry.number for entry in logs.read("news/#", EVENTS, logs.holder, 0)]
        assert (first, numbers) == (0, list(range(shown))), "dense"
        await store.close()

    run(story)


def test_a_deputy_has_what_the_seat_told_and_answers_for_it_when_that_is_gone(tmp_path: Path) -> None:
    roads = Topic.from_mapping(
        {
            "name": "roads",
            "kind": "gathered",
            "key": ["place"],
            "merge_after": "0s",
            "keep": "7d",
            "keep_reports": "1d",
            "fields": {"place": {"type": "string"}, "lanes": {"type": "int"}, "note": {"type": "string"}},
        }
    )

    async def story() -> None:
        nodes: list[Node] = []
        for name in ("a", "b"):
            near = tuple(node.address for node in nodes)
            options = NodeOptions(
                name, folder=tmp_path / name, neighbours=near, topics=(roads,), listening=(TCP,)
            )
            node = Node(options)
            await node.start()
            nodes.append(node)
        await until(lambda: all(members(node) == ["a", "b"] for node in nodes), "one network")
        client = await dial(nodes[0], "c")
        await client.publish("roads", b'{"place": "x", "lanes": 2}')
        await client.publish("roads", b'{"place": "x", "note": "fire"}')
        await until(lambda: all(told(node.logs, seat(nodes)) == [1, 2] for node in nodes), "both logs")
        assert [
            entry.report for entry in nodes[0].logs.read("roads", "reports", nodes[0].logs.holder, 0)
        ] != []
        first, other = sorted(nodes, key=lambda node: node.logs.holder != seat(nodes))
        at_seat = list(first.logs.read("roads", EVENTS, first.logs.holder, 0))
        await first.stop()
        assert list(other.logs.read("roads", EVENTS, first.logs.holder, 0)) == at_seat
        await other.stop()

    run(story)


def members(node: Node) -> list[str]:
    broker = node.broker
    assert isinstance(broker, Broker)
    return sorted({one for tree in broker.status(node.now()).trees for one in tree.members})


def seat(nodes: list[Node]) -> Holder | None:
    return next((one for node in nodes for one, _, _ in node.logs.holders("roads")), None)


def told(logs: Logs, holder: Holder | None) -> list[int | None]:
    if holder is None or holder not in [one for one, _, _ in logs.holders("roads")]:
        return []
    return [entry.version for entry in logs.read("roads", EVENTS, holder, 0)]
