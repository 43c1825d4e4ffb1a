"""What a broker writes down is for its user alone, whatever the umask, and also where it lay open before."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.local import run, until
from tests.overlay.offers import offer_of
from tidings.live import private
from tidings.live.keeping import FOLDER
from tidings.live.service import Service
from tidings.live.store import BESIDE, FILE, DiskStore
from tidings.overlay.events import SessionOpened
from tidings.service.config import load

KEPT = """name = "t"
kind = "plain"
keep = "1h"
"""


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    """Everybody may do everything with new files that nobody has thought of."""
    before = os.umask(0)
    yield
    os.umask(before)


def unexpected(error: BaseException) -> None:
    raise AssertionError from error


def rights(path: Path) -> dict[str, int]:
    """What others may do with a file, or with a folder and all in it that they reach; nothing of what is
    private.
    """
    mode = stat.S_IMODE(path.stat().st_mode)
    found = {path.name: mode} if mode & private.OTHERS else {}
    if path.is_dir() and found:
        for below in sorted(path.iterdir()):
            found |= rights(below)
    return found


def serve_once(tmp_path: Path, during: Path | None = None, **settings: object) -> dict[str, int]:
    """Start a broker that keeps a topic, and stop it; what in its folder is not private while it runs."""
    (tmp_path / "t.toml").write_text(KEPT, encoding="utf-8")
    data = tmp_path / "data"
    data.mkdir(exist_ok=True)  # somebody else has made it, and looks into it
    plain = {"id": "b1", "listen": "127.0.0.1:0", "http": "off", "mqtt": "off", "anonymous": True}
    configured = {**plain, "data": str(data), "topics": [str(tmp_path / "t.toml")], **settings}

    async def story() -> dict[str, int]:
        service = Service(load(None, {}, configured))
        await service.start()
        service.node.tell(SessionOpened("c"))
        service.node.tell(offer_of("c", 1, "t", b"x", 1))
        await until(lambda: any((data / FOLDER).glob("*/*")))
        found = rights(during or data)
        await service.node.stop()
        await service.stopped()
        return found | rights(during or data)

    return run(story)


def test_nothing_that_a_broker_writes_down_is_for_others(tmp_path: Path) -> None:
    assert serve_once(tmp_path) == {"data": 0o777}
    assert (tmp_path / "data" / FILE).stat().st_size > 0
    assert any((tmp_path / "data" / "records").iterdir())


def test_what_lay_open_is_closed_at_the_next_start(tmp_path: Path) -> None:
    serve_once(tmp_path)
    data = tmp_path / "data"
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert len(rights(data)) > 6
    # Who made the folder of data decides about it: what is in it is closed.
    assert serve_once(tmp_path) == {"data": 0o755}


def test_a_folder_that_a_broker_makes_is_private(tmp_path: Path) -> None:
    async def story() -> None:
        await DiskStore(tmp_path / "made", "a", unexpected).close()

    run(story)
    assert rights(tmp_path / "made") == {}


@pytest.mark.parametrize("beside", BESIDE)
def test_what_sqlite_left_beside_the_store_is_closed_too(tmp_path: Path, beside: str) -> None:
    async def story() -> dict[str, int]:
        store = DiskStore(tmp_path, "a", unexpected)
        await store.close()
        (tmp_path / FILE).chmod(0o666)
        (tmp_path / f"{FILE}{beside}").touch(mode=0o666)
        store = DiskStore(tmp_path, "a", unexpected)
        store.write("x", b"y")
        found: asyncio.Future[dict[str, int]] = asyncio.get_running_loop().create_future()
        store.sync(lambda: found.set_result(rights(tmp_path)))
        told = await found
        await store.close()
        return told

    tmp_path.chmod(0o755)
    assert run(story) == {tmp_path.name: 0o755}


def test_who_makes_the_folder_for_records_decides_who_reads_them(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir(mode=0o750)
    found = serve_once(tmp_path, made, records=str(made))
    assert found.pop("made") == 0o750
    assert len(found) == 1
    new = tmp_path / "new"
    assert serve_once(tmp_path, new, records=str(new)) == {}


def test_a_link_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch(mode=0o644)
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o755)
    (folder / "link").symlink_to(elsewhere)
    private.close(folder)
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o644
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
