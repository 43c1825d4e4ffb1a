"""What is synced is there after any end of the process; a store that cannot be used says why."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from tidings.errors import SetupError
from tidings.live.store import FILE, FORMAT, DiskStore, Store


def unexpected(error: BaseException) -> None:
    raise AssertionError(f"the store failed: {error}")


async def synced(store: Store) -> None:
    done = asyncio.Event()
    store.sync(done.set)
    await asyncio.wait_for(done.wait(), 30)


def run(story: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(story())


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        store = DiskStore(tmp_path, "a", unexpected)
        store.write("x", b"1")
        store.write("y", b"2")
        await synced(store)
        store.write("x", b"3")
        store.erase("y")
        store.write("z", b"")
        await store.close()
        again = DiskStore(tmp_path, "a", unexpected)
        assert again.saved == {"x": b"3", "z": b""}
        assert again.identity.boot > store.identity.boot
        assert again.identity.incarnation == store.identity.incarnation
        await again.close()

    run(story)


@pytest.mark.parametrize("count", [1, 15, 16, 300, 700])
def test_any_number_of_rows_goes_in_one_commit(tmp_path: Path, count: int) -> None:
    async def story() -> None:
        store = DiskStore(tmp_path, "a", unexpected)
        for n in range(count):
            store.write(f"k{n}", bytes([n % 251]))
        await synced(store)
        assert store.syncs == 1
        assert store.rows == count
        for n in range(0, count, 2):
            store.erase(f"k{n}")
        await store.close()
        again = DiskStore(tmp_path, "a", unexpected)
        assert again.saved == {f"k{n}": bytes([n % 251]) for n in range(1, count, 2)}
        await again.close()

    run(story)


def test_syncs_are_told_in_order_and_share_commits(tmp_path: Path) -> None:
    async def story() -> None:
        store = DiskStore(tmp_path, "a", unexpected)
        told: list[int] = []
        for n in range(50):
            store.write(f"k{n}", b"")
            store.sync(lambda n=n: told.append(n))  # type: ignore[misc]
        await synced(store)
        assert told == list(range(50))
        assert store.syncs == 2
        assert store.pending() == 0
        await store.close()

    run(story)


KILLED = """
import asyncio, os, sys
from pathlib import Path
from tidings.live.store import DiskStore

async def story():
    store = DiskStore(Path(sys.argv[1]), "a", print)
    store.write("together 1", b"")
    store.write("together 2", b"")
    def done():
        store.write("not synced", b"")
        os.kill(os.getpid(), 9)
    store.sync(done)
    await asyncio.sleep(60)

asyncio.run(story())
"""


def test_kill_minus_9_loses_nothing_that_was_synced(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False, timeout=60)
    assert ended.returncode == -9

    async def story() -> None:
        store = DiskStore(tmp_path, "a", unexpected)
        assert list(store.saved) == ["together 1", "together 2"]
        await store.close()

    run(story)


def refusal(folder: Path, broker: str = "a") -> str:
    async def story() -> None:
        await DiskStore(folder, broker, unexpected).close()

    with pytest.raises(SetupError) as refused:
        run(story)
    return str(refused.value).replace(str(folder), "FOLDER")


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A folder with a store of broker "a"."""

    async def story() -> None:
        store = DiskStore(tmp_path, "a", unexpected)
        for n in range(2_000):
            store.write(f"key {n}", bytes(100))
        await store.close()

    run(story)
    return tmp_path


def test_a_store_of_another_broker_is_refused(used: Path) -> None:
    assert refusal(used, "b") == (
        "the store FOLDER/store.sqlite belongs to broker 'a', and this is 'b'; give it a folder of its"
        " own, or its old id"
    )


def test_a_store_that_is_in_use_is_refused(used: Path) -> None:
    async def story() -> None:
        first = DiskStore(used, "a", unexpected)
        with pytest.raises(SetupError, match="is in use by another process; stop the other broker"):
            DiskStore(used, "a", unexpected)
        await first.close()

    run(story)


def test_a_store_in_use_by_another_process_is_refused(used: Path) -> None:
    held = sqlite3.connect(used / FILE, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    assert "is in use by another process" in refusal(used)
    held.close()


def marked(folder: Path, form: int) -> None:
    """The store in a folder says that it has another format."""
    with contextlib.closing(sqlite3.connect(folder / FILE)) as database:
        database.execute(f"PRAGMA user_version = {form}")


@pytest.mark.parametrize("form", [0, FORMAT + 1])
def test_a_store_of_a_format_that_is_not_known_is_refused(used: Path, form: int) -> None:
    marked(used, form)
    assert refusal(used) == (
        f"the store FOLDER/{FILE} has format {form}, and this release reads format 4; start the broker with "
        "the release that wrote it, or move its folder away: it then starts as one that has lost its disk"
    )


@pytest.mark.parametrize("form", [1, 2])
def test_a_store_of_an_earlier_format_is_refused_and_left_as_it_is(used: Path, form: int) -> None:
    marked(used, form)
    before = (used / FILE).read_bytes()
    for _ in range(2):
        assert refusal(used) == (
            f"the store FOLDER/{FILE} has format {form}, and this release reads format 4: it cannot read the "
            "sessions in it, nor what it holds for other brokers. To have that delivered, run the network "
            "with the release that wrote it until tidings_publications_held and tidings_mqtt_queued are 0 at "
            "all brokers, and stop it; then, or without that, move its folder away: it then starts as one "
            "that has lost its disk"
        )
    assert (used / FILE).read_bytes() == before


def test_a_database_of_others_is_refused(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / FILE)
    database.execute("CREATE TABLE theirs (x)")
    database.close()
    assert refusal(tmp_path) == (
        "FOLDER/store.sqlite is a database, but not a store of Tidings; give the broker another folder"
    )


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not a database" * 500)
    assert "FOLDER/store.sqlite is damaged: file is not a database; bring it back from a copy" in refusal(
        tmp_path
    )


def test_a_damaged_page_is_noticed(used: Path) -> None:
    whole = (used / FILE).read_bytes()
    page = 4096
    (used / FILE).write_bytes(whole[: 4 * page] + b"\xff" * (len(whole) - 4 * page))
    assert "is damaged: " in refusal(used)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be opened" in refusal(tmp_path / "file")


def test_a_disk_that_fails_is_told_and_nobody_is_told_otherwise(tmp_path: Path) -> None:
    async def story() -> None:
        failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        store = DiskStore(tmp_path, "a", failed.set_result)
        await synced(store)
        store._database.execute("DROP TABLE row")
        store.write("x", b"")
        store.sync(lambda: pytest.fail("nothing was written"))
        assert "no such table" in str(await asyncio.wait_for(failed, 30))

    run(story)


def test_a_copy_of_a_store_is_a_store(used: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    copy = tmp_path_factory.mktemp("copy")
    shutil.copy(used / FILE, copy / FILE)

    async def story() -> None:
        store = DiskStore(copy, "a", unexpected)
        assert len(store.saved) == 2_000
        await store.close()

    run(story)
