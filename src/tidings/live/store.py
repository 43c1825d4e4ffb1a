"""What a broker keeps over a restart: its rows and its logs.

Rows gather while a commit is under way and go to disk together in the next one: all that was written before a
`sync` becomes durable at once or not at all. Files are read and written on one thread beside the event loop.
What the rows mean is not known here.

One thread and few, large statements: `sqlite3` gives the interpreter's lock away at every step and may wait
milliseconds to get it back, so a step per row would cost more than the disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from tidings.errors import SetupError
from tidings.history.entries import Entry
from tidings.history.logs import Logs
from tidings.live import private
from tidings.live.keeping import KeepOptions, disk_logs, memory_logs
from tidings.records.holders import Holder

FILE = "store.sqlite"
"""The name of the file in a broker's folder."""

BESIDE = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite keeps beside it. It makes them with the rights of the file itself."""

FORMAT = 4
"""Of the file. Until format 3 what was held for others was a row for each publication."""

APPLICATION = 0x54494447
"""Marks the file as ours, in SQLite's header ("TIDG")."""

LINGER_S = 0.2
"""Rows that nobody waits for go to disk after this time at the latest."""

STATEMENT_ROWS = (256, 16, 1)
"""Rows in one statement; few sizes, so that SQLite need not read a statement twice."""

_TABLES = """
CREATE TABLE identity (broker TEXT NOT NULL, incarnation INTEGER NOT NULL, boot INTEGER NOT NULL);
CREATE TABLE row (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""

Logged = tuple[str, str, Holder, Entry]
"""Name, what and holder of a log, and an entry for it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a broker is."""

    broker: str

    incarnation: int
    """The clock in milliseconds at the first start; stays as long as the disk does."""

    boot: int
    """Larger at every start."""

    @property
    def holder(self) -> Holder:
        """Under whose name it numbers what it keeps."""
        return Holder(self.broker, self.incarnation)


@dataclass(slots=True)
class Batch:
    """Changes that become durable together; None stands for what goes."""

    rows: dict[str, bytes | None] = field(default_factory=dict)
    entries: list[Logged] = field(default_factory=list)
    """What goes to logs, in order, before anything else."""

    def __len__(self) -> int:
        return len(self.rows) + len(self.entries)


class Store(ABC):
    """What a node asks of a store. All is asked on the thread of the event loop."""

    identity: Identity
    saved: Mapping[str, bytes]
    """The broker's rows, as they were when the store was opened."""

    logs: Logs
    """What was appended and is shown. Other threads may read from it."""

    syncs = 0
    """Commits so far."""

    rows = 0
    """Changes written so far."""

    sync_seconds = 0.0
    """Time spent in commits."""

    @abstractmethod
    def write(self, key: str, value: bytes) -> None: ...

    @abstractmethod
    def erase(self, key: str) -> None: ...

    @abstractmethod
    def append(self, name: str, what: str, holder: Holder, entry: Entry) -> None:
        """An entry goes to a log."""

    @abstractmethod
    def tend(self, work: Callable[[Logs], None]) -> None:
        """Does something with the logs, on the thread that appends."""

    @abstractmethod
    def sync(self, done: Callable[[], None]) -> None:
        """Calls `done`, from the loop, when all before is durable. In the order of asking."""

    @abstractmethod
    def pending(self) -> int:
        """Changes that are not durable yet."""

    @abstractmethod
    async def close(self, discard: bool = False) -> None:
        """Writes what is left, unless it is to be discarded. Nothing is asked after this."""


class MemoryStore(Store):
    """For a broker without a folder: as good as the process."""

    def __init__(self, broker: str) -> None:
        boot = _clock_ms()
        self.identity = Identity(broker, boot, boot)
        self.saved = {}
        self.logs = memory_logs(self.identity.holder)

    def write(self, key: str, value: bytes) -> None:
        """Nothing will ever read it."""

    def erase(self, key: str) -> None:
        """There is nothing."""

    def append(self, name: str, what: str, holder: Holder, entry: Entry) -> None:
        self.logs.append(name, what, holder, entry)
        self.logs.commit()

    def tend(self, work: Callable[[Logs], None]) -> None:
        work(self.logs)

    def sync(self, done: Callable[[], None]) -> None:
        self.syncs += 1
        asyncio.get_running_loop().call_soon(done)

    def pending(self) -> int:
        return 0

    async def close(self, discard: bool = False) -> None:
        """There is nothing to close."""


class DiskStore(Store):
    """One SQLite file and a folder of logs, owned by one process."""

    def __init__(
        self,
        folder: Path,
        broker: str,
        failed: Callable[[BaseException], None],
        keep: KeepOptions | None = None,
    ) -> None:
        """Opens it, or makes it. SetupError says why not. `failed` hears of a commit that could not be made;
        what was not durable by then never will be.
        """
        self.path = folder / FILE
        self._failed = failed
        self._database, self.identity = _open(self.path, broker)
        try:
            self.saved = dict(self._database.execute("SELECT key, value FROM row ORDER BY key"))
        except sqlite3.Error as error:
            self._database.close()
            raise _damaged(self.path, error) from error
        try:
            self.logs = disk_logs(folder, self.identity.holder, keep or KeepOptions())
        except BaseException:
            self._database.close()
            raise
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"store of {broker}")
        self._loop = asyncio.get_running_loop()
        self._next = Batch()
        self._under_way = 0
        self._asked: list[Callable[[], None]] = []
        self._busy = False
        self._linger: asyncio.TimerHandle | None = None

    def write(self, key: str, value: bytes) -> None:
        self._next.rows[key] = value
        self._changed()

    def erase(self, key: str) -> None:
        self._next.rows[key] = None
        self._changed()

    def append(self, name: str, what: str, holder: Holder, entry: Entry) -> None:
        self._next.entries.append((name, what, holder, entry))
        self._changed()

    def tend(self, work: Callable[[Logs], None]) -> None:
        self._thread.submit(work, self.logs).add_done_callback(
            lambda done: self._loop.call_soon_threadsafe(self._tended, done.exception())
        )

    def _tended(self, error: BaseException | None) -> None:
        if error is not None:
            self._failed(error)

    def sync(self, done: Callable[[], None]) -> None:
        self._asked.append(done)
        self._begin()

    def pending(self) -> int:
        return len(self._next) + self._under_way

    async def close(self, discard: bool = False) -> None:
        if self._linger is not None:
            self._linger.cancel()
        if len(self._next) and not discard:
            await self._loop.run_in_executor(self._thread, self._commit, self._next)
        if not discard:
            await self._loop.run_in_executor(self._thread, self.logs.sync)
        await self._loop.run_in_executor(self._thread, self.logs.close)
        await self._loop.run_in_executor(self._thread, self._database.close)
        self._thread.shutdown()

    def _changed(self) -> None:
        if self._linger is None:
            self._linger = self._loop.call_later(LINGER_S, self._lingered)

    def _lingered(self) -> None:
        self._linger = None
        if len(self._next):
            self._begin()

    def _begin(self) -> None:
        """Starts a commit of all there is, unless one is under way: then the next one takes it."""
        if self._busy:
            return
        self._busy = True
        batch, self._next = self._next, Batch()
        asked, self._asked = self._asked, []
        self._under_way = len(batch)
        work = self._thread.submit(self._commit, batch)
        work.add_done_callback(
            lambda made: self._loop.call_soon_threadsafe(self._ended, made.exception(), asked)
        )

    def _ended(self, error: BaseException | None, asked: list[Callable[[], None]]) -> None:
        if error is not None:
            # Stays busy: nothing is written any more, and nobody who waits is told that it was.
            self._failed(error)
            return
        self._busy = False
        self.rows += self._under_way
        self._under_way = 0
        self.syncs += 1
        for done in asked:
            done()
        if self._asked:
            self._begin()

    def _commit(self, batch: Batch) -> None:
        started = time.monotonic()
        if batch.entries:
            # First: what is held to be sent on, and so may be seen, is in the log.
            for entry in batch.entries:
                self.logs.append(*entry)
            self.logs.commit()
        run = self._database.execute
        run("BEGIN")
        put = [(key, value) for key, value in batch.rows.items() if value is not None]
        for some, width in _chunks(put):
            run(f"INSERT OR REPLACE INTO row VALUES {_places('(?,?)', width)}", _flat(some))  # noqa: S608
        gone = [(key,) for key, value in batch.rows.items() if value is None]
        for erased, width in _chunks(gone):
            run(f"DELETE FROM row WHERE key IN ({_places('?', width)})", _flat(erased))  # noqa: S608
        run("COMMIT")
        self.sync_seconds += time.monotonic() - started


def _open(path: Path, broker: str) -> tuple[sqlite3.Connection, Identity]:
    try:
        private.make_folder(path.parent)
        private.make_file(path)
        for beside in BESIDE:
            private.close(path.with_name(path.name + beside))
        database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise SetupError(
            f"the store {path} cannot be opened: {error}; name a folder that can be written"
        ) from error
    try:
        return database, _enter(database, path, broker)
    except sqlite3.Error as error:
        database.close()
        if "locked" in str(error):
            raise SetupError(
                f"the store {path} is in use by another process; stop the other broker, or give this one a"
                " folder of its own"
            ) from error
        if isinstance(error, sqlite3.OperationalError):
            raise SetupError(
                f"the store {path} cannot be used: {error}; free space or rights may lack"
            ) from error
        raise _damaged(path, error) from error
    except SetupError:
        database.close()
        raise


def _enter(database: sqlite3.Connection, path: Path, broker: str) -> Identity:
    """Takes the file for this process and this start."""
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("BEGIN EXCLUSIVE")
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (form,) = database.execute("PRAGMA user_version").fetchone()
    if not application and not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        boot = _clock_ms()
        for statement in _TABLES.split(";"):
            database.execute(statement)
        database.execute("INSERT INTO identity VALUES (?, ?, ?)", (broker, boot, boot))
        database.execute(f"PRAGMA application_id = {APPLICATION}")
        database.execute(f"PRAGMA user_version = {FORMAT}")
    elif application != APPLICATION:
        raise SetupError(f"{path} is a database, but not a store of Tidings; give the broker another folder")
    elif form != FORMAT:
        raise _foreign(path, form)
    if application:
        # Later than any before, also where the store is a copy of how it was some boots ago.
        database.execute(
            "UPDATE identity SET boot = max(boot + 1, incarnation + (? - incarnation) / 1000)", (_clock_ms(),)
        )
    identity = Identity(*database.execute("SELECT broker, incarnation, boot FROM identity").fetchone())
    if identity.broker != broker:
        raise SetupError(
            f"the store {path} belongs to broker {identity.broker!r}, and this is {broker!r}; give it a"
            " folder of its own, or its old id"
        )
    database.execute("COMMIT")
    return identity


def _foreign(path: Path, form: int) -> SetupError:
    """That a store has another format."""
    text = f"the store {path} has format {form}, and this release reads format {FORMAT}"
    if 0 < form < FORMAT:
        text += (
            ": it cannot read the sessions in it, nor what it holds for other brokers. To have that "
            "delivered, run the network with the release that wrote it until tidings_publications_held and "
            "tidings_mqtt_queued are 0 at all brokers, and stop it; then, or without that,"
        )
    else:
        text += "; start the broker with the release that wrote it, or"
    return SetupError(f"{text} move its folder away: it then starts as one that has lost its disk")


def _damaged(path: Path, error: sqlite3.Error) -> SetupError:
    return SetupError(
        f"the store {path} is damaged: {error}; bring it back from a copy, or move it away: the broker then"
        " starts as one that has lost its disk"
    )


def _clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _chunks(rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[list[tuple[Any, ...]], int]]:
    """The rows in groups of the sizes above, with the size."""
    rest = iter(rows)
    left = len(rows)
    for width in STATEMENT_ROWS:
        while left >= width:
            yield list(islice(rest, width)), width
            left -= width


def _places(one: str, width: int) -> str:
    return ",".join([one] * width)


def _flat(rows: list[tuple[Any, ...]]) -> list[Any]:
    return [value for row in rows for value in row]
